"""Text: the paper's filter byte for byte, normalisations, files of every kind and every mistake."""

import bz2
import gzip
import hashlib
import io
import itertools
import lzma
import os
import re
import resource
import subprocess
import sys
import tarfile

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from helpers import invoke, run_python
from pacsent import SkipGram, Vocabulary, WordVectors, load, make_encoder, save
from pacsent.paper import benchmark_datasets as datasets
from pacsent.sentences import EmptySentenceWarning
from pacsent.text import cleaning, normalize, reading
from pacsent.text.cleaning import clean_files
from pacsent.text.normalize import clean, tokenise_unicode
from pacsent.text.reading import Source
from pacsent.text.tables import stream_texts
from pacsent.words import Corpus, formats

RULES = [
    (rb"<.*>", b"", 1),
    (rb"&amp;", b"&", 0),
    (rb"&lt;", b"<", 0),
    (rb"&gt;", b">", 0),
    (rb"<ref[^<]*</ref>", b"", 0),
    (rb"<[^>]*>", b"", 0),
    (rb"\[http:[^\] ]*", b"[", 0),
    (rb"(?i)\|thumb", b"", 0),
    (rb"(?i)\|left", b"", 0),
    (rb"(?i)\|right", b"", 0),
    (rb"(?i)\|[0-9]+px", b"", 0),
    (rb"(?i)\[\[image:[^\[\]]*\|", b"", 0),
    (rb"(?i)\[\[category:([^|\]]*)[^\]]*\]\]", rb"[[\1]]", 0),
    (rb"\[\[[a-z-]*:[^\]]*\]\]", b"", 0),
    (rb"\[\[[^|\]]*\|", b"[[", 0),
    (rb"\{\{[^}]*\}\}", b"", 0),
    (rb"\{[^}]*\}", b"", 0),
    (rb"[\[\]]", b"", 0),
    (rb"&[^;]*;", b" ", 0),
]
DIGITS = b"zero one two three four five six seven eight nine".split()


def last_stage(record: bytes) -> bytes:
    record = b" " + record.lower() + b" "
    for digit, name in enumerate(DIGITS):
        record = record.replace(b"%d" % digit, b" " + name + b" ")
    words = re.sub(rb"[^a-z]+", b" ", record)
    return words[:-1]


def filter_of_record(dumps: list[bytes]) -> bytes:
    records = []
    for dump in dumps:
        records += re.findall(rb"[^>]*>|[^>]+\Z", dump)

    keep = False
    out = b""
    for record in records:
        if b"<text " in record:
            keep = True
        if re.search(rb"(?i)#redirect", record):
            keep = False
        if keep:
            if b"</text>" in record:
                keep = False
            for pattern, replacement, count in RULES:
                record = re.sub(pattern, replacement, record, count=count)
            out += last_stage(record)
    return out


class Bytes:
    """A source that holds its bytes."""

    name = "bytes"

    def __init__(self, data):
        self.read = io.BytesIO(data).read


def filtered(dumps, n_jobs=1):
    sources = [Bytes(dump) for dump in dumps]
    return b"".join(cleaning._clean_dumps(sources, n_jobs))


FRAGMENTS = [
    "<text x>", "<text ", "</text>", "#REDIRECT", "#redirect", "&amp;", "&lt;", "&gt;", "&nbsp;",
    "&", "&amp;lt;", "<", ">", "<ref", "&lt;ref", "&lt;/ref&gt;", "</ref>", "<Ref", "[[", "]]", "[",
    "]", "|", "||", "|thumb", "|Left", "|RIGHT", "|250px", "|25", "px", "thu", "mb", "image:",
    "Image:", "[[IMAGE:", "category:", "[[Category:", "fr:", "zh-min:", "[[fr:", ":", "http:",
    "[http:", "{{", "}}", "{", "}", "\n", " ", ";", "#", "a", "Zed", "7", "é", "\0",
]  # fmt: skip
fragments = st.lists(st.sampled_from(FRAGMENTS), max_size=40)
wiki_text = fragments.map(lambda chosen: "".join(chosen).encode())


@settings(max_examples=200)
@given(wiki_text)
@example(b"|th|thumbumb|le|thumbft |2|left5px")
@example(b"[[cat[[image:x|egory:foo]] [[[image:a|[foo|b]] [[f[[image:a|r:x]]")
@example(b"&lt;b &lt;ref&gt;x&lt;/ref&gt; c&gt; d &lt;REF&gt;e&lt;/ref&gt;")
@example(b"{{{a}}} {{b} c}} { {{d}} e } {f")
@example(b"[http:a|b[c d] [http:e] [http:f")
@example(b"[[category:a[[b|c]] [[Category:|x]] [[category:d]e]] [[category:")
@example(b"a < b\nc <d>e\n<f>")
@example(b"x&amp;amp;lt;y &no semicolon [a] & b")
@example(b"foo[bar]baz [[a|b]]s 1a2")
def test_the_filter_equals_its_rules_on_kept_text(body):
    dump = b"<text >" + body
    assert filtered([dump]) == filter_of_record([dump])


@settings(max_examples=50)
@given(st.lists(wiki_text, min_size=1, max_size=3), st.integers(1, 60), st.integers(1, 3))
def test_chunks_and_processes_change_nothing(dumps, size, n_jobs):
    dumps = [dump or b" " for dump in dumps]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "CHUNK_BYTES", size)
        cleaned = filtered(dumps, n_jobs)

    assert cleaned == filter_of_record(dumps)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "size", "digest"),
    [
        (
            "formats/enwiki-shortened.xml.bz2",
            3_085_829,
            "0cf035b28f92b01ff2dd0880909f6087bfb48bc8b8c726b793bccdad5c56a13c",
        ),
        (
            "corpora/enwik8.xz",
            74_090_640,
            "f0624e3bcaa8466848a2e176a150711d866df1c5edf491b5c28a258776524082",
        ),
    ],
    ids=["enwiki-shortened", "enwik8"],
)
@pytest.mark.parametrize("n_jobs", [1, 3])
def test_a_real_dump_gives_the_bytes_of_record(data_dir, tmp_path, name, size, digest, n_jobs):
    out = tmp_path / "out.txt"

    n_written = clean_files([data_dir / name], out, wiki=True, n_jobs=n_jobs)

    found = hashlib.sha256(out.read_bytes())
    assert n_written == size
    assert found.hexdigest() == digest


any_character = st.one_of(st.sampled_from("aZz09 \t.é\r"), st.characters(codec="utf-8"))
line_of_text = st.text(any_character, max_size=20)
lines_of_text = st.lists(line_of_text, min_size=1, max_size=6).map("\n".join)


@given(lines_of_text, st.integers(1, 40), st.integers(1, 3))
@example("a" * 100 + " b\n\n" + "1" * 100, 7, 2)
def test_lines_are_cleaned_one_by_one(content, size, n_jobs):
    source = Bytes(content.encode() or b" ")
    whole_lines = content if content.endswith("\n") else content + "\n"

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "CHUNK_BYTES", size)
        cleaned = b"".join(cleaning._clean_texts([source], n_jobs, "paper"))

    expected = [clean(line) for line in whole_lines.split("\n")]
    assert cleaned.decode() == "\n".join(expected)


@pytest.mark.parametrize(
    "raw, tokens",
    [
        ("Don't stop", ["don't", "stop"]),
        ("don’t rock'n'roll 'quoted'", ["don't", "rock'n'roll", "quoted"]),
        ("1,000.50 3.14. 1..2 v2.0 x.y", ["1,000.50", "3.14", "1", "2", "v2.0", "x.y"]),
        ("Straße ﬁne ＣＡＦÉ İ", ["strasse", "fine", "café", "i̇"]),
        ("हिन्दी भाषा", ["हिन्दी", "भाषा"]),  # combining marks belong to the word
        ("cafe\u0301 café", ["café", "café"]),
        ("snake_case a-b", ["snake_case", "a", "b"]),
        ("L'été, L’ÉTÉ", ["l'été", "l'été"]),
        ("東京へ 7時", ["東", "東京", "京", "京へ", "へ", "7", "時"]),
        ("", []),
    ],
)
def test_unicode_tokens(raw, tokens):
    assert tokenise_unicode(raw) == tokens


@given(st.text())
def test_cleaned_text_has_the_tokens_of_the_text(raw):
    cleaned = " ".join(normalize.unicode_words(raw))

    assert tokenise_unicode(cleaned) == tokenise_unicode(raw)


@pytest.mark.parametrize(
    ("name", "text", "tokens"),
    [
        ("jieba", "我来到北京清华大学 don't", ["我", "来到", "北京", "清华大学", "don't"]),
        (
            "janome",
            "すもももももももものうち。Ｃａｆé",
            ["すもも", "も", "もも", "も", "もも", "の", "うち", "café"],
        ),
        ("pythainlp", "ฉันรักภาษาไทย", ["ฉัน", "รัก", "ภาษาไทย"]),
    ],
)
@pytest.mark.extra(needs="segmenters")
def test_a_segmenter_finds_words_where_there_are_no_spaces(name, text, tokens):
    pytest.importorskip(name)
    vocabulary = Vocabulary(list(dict.fromkeys(tokens)), normalize=name)

    found = normalize.TOKENISERS[name](text)
    encoded = vocabulary.encode([text])

    ids = [vocabulary.id_of(token) for token in tokens]
    assert found == tokens
    assert encoded.ids.tolist() == ids


@pytest.fixture
def tokenise_without_jieba(monkeypatch):
    """The tokeniser that needs jieba, where it is not installed."""
    monkeypatch.setitem(sys.modules, "jieba", None)
    return normalize._segmented("jieba", lambda library: library.lcut)


def test_a_segmenter_that_is_not_installed_is_named(tokenise_without_jieba):
    with pytest.raises(ImportError, match=r"'jieba' needs jieba.*Run: pip install jieba$"):
        tokenise_without_jieba("北京")


def test_a_segmenter_is_not_needed_where_there_are_spaces(tokenise_without_jieba):
    assert tokenise_without_jieba("no need of it") == ["no", "need", "of", "it"]


@given(st.text(st.characters(max_codepoint=127)))
def test_ascii_takes_the_same_way_as_other_text(raw):
    with_other_text = tokenise_unicode(raw + " é")

    assert tokenise_unicode(raw) == with_other_text[:-1]


@given(st.text(), st.text())
def test_unicode_tokens_do_not_reach_across_the_places_where_files_are_cut(before, after):
    whole = tokenise_unicode(before + " x" + after)

    first = tokenise_unicode(before + " ")
    second = tokenise_unicode("x" + after)
    assert whole == first + second


CONTENT = b"first line\nsecond \xc3\xa9 line\r\n" + b"more words 12 " * 3000 + b"\nlast"


def zst(data):
    compressed = pa.BufferOutputStream()
    with pa.CompressedOutputStream(compressed, "zstd") as file:
        file.write(data)
    return compressed.getvalue().to_pybytes()


PACK = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress, ".zst": zst}
ARCHIVES = [kind for kind in PACK if kind]


def read_all(source, block=1 << 20):
    """What a source gives, read in blocks of this many bytes."""
    blocks = iter(lambda: source.read(block), b"")
    return b"".join(blocks)


@pytest.mark.parametrize("kind", PACK)
def test_archives_are_unpacked_on_the_way(tmp_path, kind):
    path = tmp_path / f"file{kind}"
    path.write_bytes(PACK[kind](CONTENT))

    with Source(path) as source:
        size = source.size
        found = read_all(source, block=1000)
        consumed = source.consumed

    assert found == CONTENT
    assert size == path.stat().st_size
    assert consumed == size


@pytest.mark.parametrize("kind", PACK)
def test_an_archive_is_known_by_its_content_whatever_its_name(tmp_path, kind):
    path = tmp_path / "no-suffix"
    path.write_bytes(PACK[kind](CONTENT))

    lines = list(stream_texts(path, kind="text"))

    assert lines[:2] == ["first line", "second é line"]


@pytest.mark.parametrize("kind", ARCHIVES)
@pytest.mark.parametrize("n", [0, 1, 1 << 20, 1_500_000])
def test_an_archive_of_two_streams_is_read_whole_whatever_the_block(tmp_path, kind, n):
    path = tmp_path / f"a{kind}"
    pack = PACK[kind]
    first = bytes(range(256)) * (n // 256) + b"\n" * (n % 256)
    second = b"the end"
    path.write_bytes(pack(first) + pack(second))

    for block in (1 << 20, 700_001):
        with Source(path) as source:
            found = read_all(source, block)
        assert found == first + second


@pytest.mark.parametrize("kind", ARCHIVES)
def test_a_file_that_is_no_archive_is_refused_by_its_name(tmp_path, kind):
    path = tmp_path / f"file{kind}"
    path.write_bytes(b"plain text")

    with pytest.raises(ValueError, match=rf"file\{kind} must be a \{kind} archive. Got .*b'plain "):
        Source(path)


@pytest.mark.parametrize("kind", ARCHIVES)
def test_an_archive_that_is_cut_off_is_refused(tmp_path, kind):
    path = tmp_path / f"file{kind}"
    whole = PACK[kind](CONTENT)
    step = max(1, len(whole) // 40)

    for size in range(1, len(whole), step):
        path.write_bytes(whole[:size])
        with pytest.raises(ValueError, match=rf"must be a whole \{kind} archive. Got one that is"):
            read_all(Source(path))


@pytest.mark.parametrize("kind", ARCHIVES)
def test_a_damaged_archive_is_refused(tmp_path, kind):
    path = tmp_path / f"file{kind}"
    damaged = bytearray(PACK[kind](os.urandom(5000)))
    damaged[len(damaged) // 2] ^= 0xFF
    if kind == ".zst":
        damaged[4] |= 0x08  # a reserved bit: without a checksum the content itself is not guarded
    path.write_bytes(damaged)

    with pytest.raises(ValueError, match=rf"must be a whole \{kind} archive. Got one that is"):
        read_all(Source(path))


@pytest.mark.parametrize("kind", ARCHIVES)
def test_an_archive_that_decompresses_without_end_is_refused(tmp_path, monkeypatch, kind):
    path = tmp_path / f"bomb.txt{kind}"
    out = tmp_path / "out"
    stream = PACK[kind](b"\n" * 1_000_000)
    path.write_bytes(stream * 4)  # streams one after the other
    monkeypatch.setattr(reading, "UNCHECKED_BYTES", 1_500_000)

    with pytest.raises(ValueError, match=r"must decompress to at most 200 times its size"):
        clean_files([path], out)

    assert not out.exists()


@pytest.mark.parametrize("kind", ARCHIVES)
def test_a_small_archive_may_decompress_to_many_times_its_size(tmp_path, kind):
    path = tmp_path / f"bomb.txt{kind}"
    stream = PACK[kind](b"\n" * 1_000_000)
    path.write_bytes(stream * 4)

    n_written = clean_files([path], tmp_path / "out")

    assert n_written == 4_000_000


@pytest.fixture(scope="module")
def archive_of_sentences(tmp_path_factory):
    """The bytes of a tar file with the members of the dataset subj, of too many sentences."""
    folder = tmp_path_factory.mktemp("tar")
    member = folder / "member"
    packed = folder / "plain.tar"
    member.write_bytes(b"a sentence\n" * 100_000)
    with tarfile.open(packed, "w") as archive:
        archive.add(member, "plot.tok.gt9.5000")
        archive.add(member, "quote.tok.gt9.5000")
    return packed.read_bytes()


@pytest.mark.parametrize("kind", ARCHIVES)
def test_datasets_are_read_from_every_kind_of_archive(tmp_path, archive_of_sentences, kind):
    path = tmp_path / f"rotten_imdb.tar{kind}"
    path.write_bytes(PACK[kind](archive_of_sentences))

    with pytest.raises(ValueError, match=r"must have 10,000 train.*Got 200,000 train"):
        datasets.load("subj", tmp_path)


@pytest.mark.parametrize("kind", ARCHIVES)
def test_a_dataset_whose_archive_has_a_cut_checksum_is_refused(
    tmp_path, archive_of_sentences, kind
):
    """Also what follows the last member is read."""
    path = tmp_path / f"rotten_imdb.tar{kind}"
    whole = PACK[kind](archive_of_sentences)
    path.write_bytes(whole[:-3])

    with pytest.raises(ValueError, match=r"whole .* archive. Got one that is cut off"):
        datasets.load("subj", tmp_path)


def test_a_dataset_that_decompresses_without_end_is_refused(
    tmp_path, archive_of_sentences, monkeypatch
):
    path = tmp_path / "rotten_imdb.tar.gz"
    path.write_bytes(gzip.compress(archive_of_sentences))
    monkeypatch.setattr(reading, "UNCHECKED_BYTES", 1_000_000)

    with pytest.raises(ValueError, match="must decompress to at most"):
        datasets.load("subj", tmp_path)


def test_word_vectors_that_decompress_without_end_are_refused(tmp_path, monkeypatch):
    path = tmp_path / "v.txt.gz"
    path.write_bytes(gzip.compress(b"2 1\na 1\n" + b"\n" * 8_000_000))
    monkeypatch.setattr(reading, "UNCHECKED_BYTES", 1_000_000)

    with pytest.raises(ValueError, match="must decompress to at most"):
        formats.read(path, format="word2vec-text")


@pytest.fixture(params=PACK)
def empty_file(request, tmp_path):
    """A file without content, plain and in every kind of archive."""
    pack = PACK[request.param]
    path = tmp_path / f"file{request.param}"
    path.write_bytes(pack(b""))
    return path


@pytest.mark.parametrize("wiki", [False, True])
def test_an_empty_file_is_not_cleaned(empty_file, tmp_path, wiki):
    out = tmp_path / "out"

    with pytest.raises(ValueError, match=r"must have text. Got an empty file instead"):
        clean_files([empty_file], out, wiki=wiki)

    assert not out.exists()


def test_an_empty_file_is_not_read(empty_file):
    with pytest.raises(ValueError, match=r"must have text. Got an empty file instead"):
        list(stream_texts(empty_file, kind="text"))


LATIN_1 = b"one\ntwo\ncaf\xe9 au lait\n"  # no UTF-8 in its third line


@pytest.fixture
def folder_of_inputs(tmp_path, monkeypatch):
    """A folder with texts, files that cannot be cleaned and an old output, as working directory."""
    (tmp_path / "text").write_text("Just text. " * 1000)
    (tmp_path / "in.gz").write_bytes(gzip.compress(CONTENT)[:-10])
    (tmp_path / "latin").write_bytes(LATIN_1)
    (tmp_path / "folder").mkdir()
    (tmp_path / "out").write_text("old")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("source", "target", "options", "message"),
    [
        ("folder", "out", {}, "must be a file. Got the directory"),
        ("nothing", "out", {}, "must be a file that exists. Got .*nothing"),
        ("in.gz", "out", {}, "cut off"),
        ("text", "out", {"wiki": True}, "text must be a MediaWiki dump .* Got 0 articles"),
        ("text", "out", {"normalize": "x"}, "normalize must be 'paper' or 'unicode'. Got 'x'"),
        ("text", "out", {"normalize": "unicode", "wiki": True}, "wiki is the paper's own filter"),
        ("latin", "out", {"normalize": "unicode"}, "latin must be UTF-8 text. Got the byte 0xe9"),
        ("-", ".", {}, "must be a file. Got the directory"),
        ("-", "text/out", {}, "must be in a folder that exists"),
        ("-", "no/out", {}, "must be in a folder that exists.*mkdir -p"),
    ],
)
def test_what_cannot_be_cleaned_or_written_is_named_and_leaves_the_old_output(
    folder_of_inputs, source, target, options, message
):
    names = set(os.listdir())

    with pytest.raises((OSError, ValueError), match=message):
        clean_files([source], target, overwrite=True, **options)

    output = folder_of_inputs / "out"
    assert output.read_text() == "old"
    assert set(os.listdir()) == names


def test_a_line_that_is_not_utf_8_is_named_with_its_number(tmp_path):
    (tmp_path / "latin").write_bytes(LATIN_1)

    with pytest.raises(ValueError, match=r"Line 3 of latin must be UTF-8 .*0xe9 instead \(3 bytes"):
        list(stream_texts(tmp_path / "latin", kind="text"))


def test_lines_end_at_line_feeds_only(tmp_path):
    """Not where `str.splitlines` ends them too; a byte order mark is dropped."""
    (tmp_path / "text").write_bytes("\ufeffa\x0bb\u2028c\n\nd\r\n\x85".encode())

    texts = list(stream_texts(tmp_path / "text", kind="text"))

    assert texts == ["a\x0bb\u2028c", "", "d", "\x85"]


@pytest.fixture
def at_most_200_open_files():
    """The limit of this process while the test runs."""
    soft_limit, hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, hard_limit))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft_limit, hard_limit))


@pytest.mark.usefixtures("at_most_200_open_files")
def test_more_inputs_can_be_cleaned_than_can_be_open(tmp_path):
    out = tmp_path / "out"
    paths = [tmp_path / f"{number}" for number in range(300)]
    for path in paths:
        path.write_text("word")

    clean_files(paths, out, n_jobs=2)

    assert out.read_text() == "word\n" * 300


def test_a_missing_input_is_found_before_anything_is_written(tmp_path):
    (tmp_path / "text").write_text("word")

    with pytest.raises(FileNotFoundError, match="missing"):
        clean_files([tmp_path / "text", tmp_path / "missing"], tmp_path / "out")

    assert not (tmp_path / "out").exists()


def command(*arguments, stdin=b""):
    command_line = [sys.executable, "-m", "pacsent", "vectors", "clean", *arguments]
    return subprocess.run(command_line, input=stdin, capture_output=True)


@pytest.mark.parametrize(
    ("arguments", "stdin", "stdout"),
    [
        (["-"], gzip.compress(b"Route 66\nCaf\xc3\xa9"), b"route six six\ncaf\n"),
        (
            ["--wiki", "-", "--n-jobs", "2"],
            b"<page><text x>[[a|Visible]] {{gone}} text</text></page>",
            b" visible text",
        ),
    ],
    ids=["text", "dump"],
)
def test_the_command_reads_stdin_and_writes_stdout(arguments, stdin, stdout):
    done = command(*arguments, stdin=stdin)

    assert done.returncode == 0
    assert done.stdout == stdout
    assert done.stderr == b""


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["no-such-file"], b"Error: The input must be a file that exists. Got no-such-file"),
        (["-", "--n-jobs", "0"], b"--n-jobs must be a number of threads, -1 or None"),
        (["-"], b"Error: standard input must have text. Got an empty file"),
    ],
)
def test_mistakes_are_one_clear_line(arguments, message):
    done = command(*arguments)

    assert done.returncode == 1
    assert message in done.stderr
    assert done.stderr.count(b"\n") == 1


CLEAN_AND_PRINT_PEAK = """
import resource, sys
from pacsent.text import clean_files
clean_files([sys.argv[1]], sys.argv[2], wiki=True, overwrite=True)
clean_files([sys.argv[1]], sys.argv[2], overwrite=True)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.slow
def test_memory_does_not_grow_with_the_input(tmp_path):
    """Peak memory of cleaning 10 MB and 70 MB, and of a dump of as many bytes."""
    path = tmp_path / "dump"
    line = b"[[a|some]] words 12 {{t}} and more\n"
    page = b"<page><text x>" + line * 300 + b"</text></page>\n"

    peaks = []
    for n_pages in (1_000, 7_000):
        with path.open("wb") as file:  # page by page: a child begins with the peak of its parent
            file.writelines(itertools.repeat(page, n_pages))
        printed = run_python(CLEAN_AND_PRINT_PEAK, path, tmp_path / "out")
        peaks.append(int(printed))

    small, large = peaks
    assert large < small + 30_000  # kilobytes


CHINESE = "統一 碼 為 每個 字元 提供 一個 獨特 的 編號\n"


@pytest.mark.parametrize(("n_jobs", "size"), [(1, 1 << 20), (3, 64), (1, 64), (1, 1000)])
def test_clean_keeps_words_of_any_script_on_request(tmp_path, monkeypatch, n_jobs, size):
    path = tmp_path / "in"
    out = tmp_path / "out"
    text = "Café naïve, Straße 7.\r\n\n" + CHINESE + "Äpfel, 1,5 l; " * 40 + "\nDon’t ＣＡＦÉ"
    path.write_text(text, newline="")
    monkeypatch.setattr(reading, "CHUNK_BYTES", size)

    clean_files([path], out, normalize="unicode", n_jobs=n_jobs)

    long_line = " ".join(["äpfel 1,5 l"] * 40)
    expected = "café naïve strasse 7\n\n" + CHINESE + long_line + "\ndon't café\n"
    assert out.read_text() == expected


def test_a_file_without_a_line_break_at_its_end_does_not_run_into_the_next(tmp_path):
    first = tmp_path / "first"
    second = tmp_path / "second"
    out = tmp_path / "several"
    first.write_text("Don’t")
    second.write_bytes(b"\xff\xfe 3\n")

    clean_files([first, second], out)

    assert out.read_text() == "don t\nthree\n"


@pytest.fixture(params=["file", "list"])
def chinese_texts(request, tmp_path):
    """Fifty texts in Chinese, as a file and as a list."""
    if request.param == "list":
        return [CHINESE] * 50

    path = tmp_path / "zh.txt"
    path.write_text(CHINESE * 50)
    return path


def test_training_on_another_script_names_the_normalisation(chinese_texts):
    model = SkipGram(n_dims=4, n_epochs=1, normalize="paper")

    with pytest.raises(ValueError, match=r"normalize='paper' keeps .* Pass normalize='unicode'"):
        model.fit(chinese_texts)


def test_training_on_another_script_finds_its_words_by_itself(chinese_texts):
    model = SkipGram(n_dims=4, n_epochs=1, subsample=0)

    model.fit(chinese_texts)

    words = model.word_vectors_.words
    assert "統" in words
    assert "統一" in words


def test_training_warns_where_much_of_the_text_is_dropped():
    mixed = ["one two three four " + CHINESE] * 50
    model = SkipGram(n_dims=4, n_epochs=1, subsample=0, normalize="paper")

    with pytest.warns(UserWarning, match=r"Much of the text is dropped: normalize='paper'"):
        model.fit(mixed)


def test_training_on_few_words_says_what_to_change():
    model = SkipGram(n_dims=4)

    with pytest.raises(ValueError, match=r"Lower min_count or train on more text"):
        model.fit(["one two three"])


ENGLISH = "It is a house in the old part of the town, and nobody saw its owner. " * 9 + "A café"


GERMAN = "die schönen Häuser am Fluss gehören größtenteils der Stadt"
NORMALISATIONS = [
    (ENGLISH, "paper"),
    (GERMAN, "unicode"),
    ("la niña comió una manzana ayer", "unicode"),
    (CHINESE.strip(), "unicode"),
    ("1234 5678", "paper"),  # no letter at all
]
TEXTS = [text for text, _ in NORMALISATIONS]


@pytest.fixture
def make_source(tmp_path, monkeypatch):
    """Gives lines as a list, an iterator, a file, an archive, two files or standard input."""

    def make(kind, lines):
        content = ("\n".join(lines) + "\n").encode()
        plain = tmp_path / "plain"
        packed = tmp_path / "packed.gz"
        plain.write_bytes(content)
        packed.write_bytes(gzip.compress(content))
        stdin = io.TextIOWrapper(io.BytesIO(content))
        monkeypatch.setattr(sys, "stdin", stdin)

        sources = {"list": lines, "iterator": iter(lines), "file": plain, "archive": packed}
        sources |= {"files": [plain, packed], "stdin": "-"}
        return sources[kind]

    return make


@pytest.mark.parametrize("kind", ["list", "iterator", "file", "archive", "files", "stdin"])
@pytest.mark.parametrize(("text", "name"), NORMALISATIONS)
def test_the_normalisation_is_chosen_from_the_text_and_said(
    make_source, tmp_path, text, name, kind
):
    source = make_source(kind, [text] * 20)
    folder = tmp_path / "corpus"

    corpus = Corpus.build(source, folder, min_count=1)

    opened = Corpus.open(folder)
    assert corpus.vocabulary.normalize == name
    assert corpus.chosen.startswith(f"normalize='{name}', chosen from the text: ")
    assert opened.chosen == corpus.chosen


@pytest.mark.parametrize("kind", ["list", "iterator", "file", "archive", "stdin"])
@pytest.mark.parametrize("text", TEXTS)
def test_no_text_is_lost_by_looking_ahead(make_source, tmp_path, text, kind):
    source = make_source(kind, [text] * 20)

    corpus = Corpus.build(source, tmp_path / "corpus", min_count=1)

    assert corpus.n_documents == 20


@pytest.mark.parametrize("text", TEXTS)
def test_no_text_of_several_files_is_lost_by_looking_ahead(make_source, tmp_path, text):
    source = make_source("files", [text] * 20)

    corpus = Corpus.build(source, tmp_path / "corpus", min_count=1)

    assert corpus.n_documents == 40


@pytest.mark.parametrize("text", TEXTS)
def test_texts_that_are_split_already_are_all_read(tmp_path, text):
    texts = [text.split()] * 20

    corpus = Corpus.build(texts, tmp_path / "corpus", min_count=1)

    assert corpus.n_documents == 20


@pytest.mark.parametrize("text", TEXTS)
def test_a_normalisation_that_is_given_is_not_chosen(tmp_path, text):
    corpus = Corpus.build([text] * 20, tmp_path / "own", min_count=1, normalize=str.split)

    assert corpus.chosen is None


BUILD_FROM_STDIN = """
import sys
from pacsent.words import Corpus
corpus = Corpus.build('-', sys.argv[1], 1)
print(corpus.vocabulary.normalize, corpus.n_documents)
"""


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_text_from_a_pipe_is_looked_at_and_read_whole(tmp_path, pack):
    content = "die schönen Häuser am Fluss\n" * 5000
    command_line = [sys.executable, "-c", BUILD_FROM_STDIN, tmp_path / "corpus"]

    done = subprocess.run(command_line, input=pack(content.encode()), capture_output=True)

    assert done.stdout.split() == [b"unicode", b"5000"], done.stderr.decode()


CHOSEN_UNICODE = "normalize='unicode', chosen from the text: 12.5% of its letters"


def test_the_choice_is_saved_with_the_vectors():
    model = SkipGram(4, n_epochs=1, min_count=1, subsample=0)

    model.fit(["zwei schöne Häuser"] * 9)

    training = model.word_vectors_.training
    assert training["normalize"].startswith(CHOSEN_UNICODE)


def test_the_command_says_the_choice_and_saves_it_with_the_vectors(tmp_path):
    path = tmp_path / "text"
    out = tmp_path / "m"
    path.write_text("zwei schöne Häuser\n" * 9)
    options = ["--n-dims", "4", "--n-epochs", "1", "--min-count", "1", "--subsample", "0"]

    done = invoke("vectors", "train", path, "-o", out, *options, status=0)

    saved = load(out)
    chosen = saved.training["normalize"]
    assert chosen.startswith(CHOSEN_UNICODE)
    assert chosen in done.stderr
    assert chosen not in done.stdout
    assert saved.vocabulary.normalize == "unicode"


def test_zero_vectors_of_another_script_name_the_cause(toy_word_vectors):
    vectorizer = make_encoder("Average", toy_word_vectors)
    vectorizer.fit(["good film"])

    with pytest.warns(EmptySentenceWarning, match="1 of 2 .* reads letters a-z and digits only"):
        vectorizer.transform(["good film", CHINESE])


class TestTheWholeFilterOnSingleTexts:
    def test_markup_is_removed_that_the_last_stage_reads_as_words(self):
        review = "Great.<br /><br />See [[Berlin|the city]], {{stub}} &quot;now&quot; in 2019"

        by_last_stage = normalize.tokenise_paper(review)
        by_filter = normalize.TOKENISERS["wikifil"](review)

        expected = "great see the city now in two zero one nine"
        assert "br" in by_last_stage
        assert by_filter == expected.split()

    def test_a_text_without_markup_is_as_before(self):
        text = "Route 66, café: isn't it 3 < 5?"

        assert normalize.tokenise_wikifil(text) == normalize.tokenise_paper(text)

    def test_a_text_in_a_dump_gives_what_the_filter_prints_for_the_dump(self, tmp_path):
        path = tmp_path / "dump.xml"
        out = tmp_path / "clean.txt"
        text = "One [[Paris|city]] of <b>many</b> and [http://x.org a link] <ref>no</ref> in 1999"
        path.write_text(f'<page><text xml:space="preserve">{text}</text></page>')

        clean_files([path], out, wiki=True)

        printed = out.read_text()
        assert normalize.tokenise_wikifil(text) == printed.split()

    def test_a_model_keeps_it(self, tmp_path):
        vocabulary = Vocabulary(["film", "br"], [2, 1], normalize="wikifil")
        words = WordVectors(vocabulary, np.eye(2, dtype=np.float32))
        save(words, tmp_path / "words")

        again = load(tmp_path / "words")

        encoded = again.vocabulary.encode(["film<br />"])
        assert encoded.ids.tolist() == [0]
