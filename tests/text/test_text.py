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
    for i, name in enumerate(DIGITS):
        record = record.replace(b"%d" % i, b" " + name + b" ")
    return re.sub(rb"[^a-z]+", b" ", record)[:-1]


def filter_of_record(dumps: list[bytes]) -> bytes:
    keep = False
    out = []
    for record in (r for dump in dumps for r in re.findall(rb"[^>]*>|[^>]+\Z", dump)):
        if b"<text " in record:
            keep = True
        if re.search(rb"(?i)#redirect", record):
            keep = False
        if keep:
            if b"</text>" in record:
                keep = False
            for pattern, replacement, count in RULES:
                record = re.sub(pattern, replacement, record, count=count)
            out.append(last_stage(record))
    return b"".join(out)


class Bytes:
    """A source that holds its bytes."""

    name = "bytes"

    def __init__(self, data):
        self.read = io.BytesIO(data).read


def filtered(dumps, n_jobs=1):
    return b"".join(cleaning._clean_dumps([Bytes(dump) for dump in dumps], n_jobs))


FRAGMENTS = [
    "<text x>", "<text ", "</text>", "#REDIRECT", "#redirect", "&amp;", "&lt;", "&gt;", "&nbsp;",
    "&", "&amp;lt;", "<", ">", "<ref", "&lt;ref", "&lt;/ref&gt;", "</ref>", "<Ref", "[[", "]]", "[",
    "]", "|", "||", "|thumb", "|Left", "|RIGHT", "|250px", "|25", "px", "thu", "mb", "image:",
    "Image:", "[[IMAGE:", "category:", "[[Category:", "fr:", "zh-min:", "[[fr:", ":", "http:",
    "[http:", "{{", "}}", "{", "}", "\n", " ", ";", "#", "a", "Zed", "7", "é", "\0",
]  # fmt: skip
wiki_text = st.lists(st.sampled_from(FRAGMENTS), max_size=40).map(lambda s: "".join(s).encode())


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
        assert filtered(dumps, n_jobs) == filter_of_record(dumps)


SUMS = {
    "formats/enwiki-shortened.xml.bz2": (
        3_085_829,
        "0cf035b28f92b01ff2dd0880909f6087bfb48bc8b8c726b793bccdad5c56a13c",
    ),
    "corpora/enwik8.xz": (
        74_090_640,
        "f0624e3bcaa8466848a2e176a150711d866df1c5edf491b5c28a258776524082",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SUMS)
@pytest.mark.parametrize("n_jobs", [1, 3])
def test_a_real_dump_gives_the_bytes_of_record(data_dir, tmp_path, name, n_jobs):
    out = tmp_path / "out.txt"
    n_written = clean_files([data_dir / name], out, wiki=True, n_jobs=n_jobs)
    assert (n_written, hashlib.sha256(out.read_bytes()).hexdigest()) == SUMS[name]


lines_of_text = st.lists(
    st.text(st.one_of(st.sampled_from("aZz09 \t.é\r"), st.characters(codec="utf-8")), max_size=20),
    min_size=1,
    max_size=6,
).map("\n".join)


@given(lines_of_text, st.integers(1, 40), st.integers(1, 3))
@example("a" * 100 + " b\n\n" + "1" * 100, 7, 2)
def test_lines_are_cleaned_one_by_one(content, size, n_jobs):
    data = content.encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "CHUNK_BYTES", size)
        cleaned = b"".join(cleaning._clean_texts([Bytes(data or b" ")], n_jobs, "paper"))
    content = content if content.endswith("\n") else content + "\n"
    expected = "\n".join(clean(line) for line in content.split("\n"))
    assert cleaned.decode() == expected


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
    words = normalize.unicode_words(raw)
    assert tokenise_unicode(" ".join(words)) == tokenise_unicode(raw)


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
    assert normalize.TOKENISERS[name](text) == tokens
    vocabulary = Vocabulary(list(dict.fromkeys(tokens)), normalize=name)
    assert vocabulary.encode([text]).ids.tolist() == [vocabulary.id_of(token) for token in tokens]


def test_a_segmenter_that_is_not_installed_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "jieba", None)
    tokenise = normalize._segmented("jieba", lambda library: library.lcut)
    assert tokenise("no need of it") == ["no", "need", "of", "it"]
    with pytest.raises(ImportError, match=r"'jieba' needs jieba.*Run: pip install jieba$"):
        tokenise("北京")


@given(st.text(st.characters(max_codepoint=127)))
def test_ascii_takes_the_same_way_as_other_text(raw):
    assert tokenise_unicode(raw) == tokenise_unicode(raw + " é")[:-1]


@given(st.text(), st.text())
def test_unicode_tokens_do_not_reach_across_the_places_where_files_are_cut(before, after):
    whole = before + " x" + after
    assert tokenise_unicode(whole) == tokenise_unicode(before + " ") + tokenise_unicode("x" + after)


CONTENT = b"first line\nsecond \xc3\xa9 line\r\n" + b"more words 12 " * 3000 + b"\nlast"


def zst(data):
    compressed = pa.BufferOutputStream()
    with pa.CompressedOutputStream(compressed, "zstd") as file:
        file.write(data)
    return compressed.getvalue().to_pybytes()


PACK = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress, ".zst": zst}
ARCHIVES = list(PACK)[1:]


@pytest.mark.parametrize("kind", PACK)
def test_archives_are_unpacked_on_the_way(tmp_path, kind):
    path = tmp_path / f"file{kind}"
    path.write_bytes(PACK[kind](CONTENT))
    with Source(path) as source:
        assert source.size == path.stat().st_size
        assert b"".join(iter(lambda: source.read(1000), b"")) == CONTENT
        assert source.consumed == source.size
    path.rename(tmp_path / "no-suffix")  # the name does not matter
    lines = list(stream_texts(tmp_path / "no-suffix", kind="text"))
    assert lines[:2] == ["first line", "second é line"]


@pytest.mark.parametrize("kind", ARCHIVES)
@pytest.mark.parametrize("n", [0, 1, 1 << 20, 1_500_000])
def test_an_archive_of_two_streams_is_read_whole_whatever_the_block(tmp_path, kind, n):
    data = bytes(range(256)) * (n // 256) + b"\n" * (n % 256)
    path = tmp_path / f"a{kind}"
    path.write_bytes(PACK[kind](data) + PACK[kind](b"the end"))
    for size in (1 << 20, 700_001):
        with Source(path) as source:
            assert b"".join(iter(lambda s=source, k=size: s.read(k), b"")) == data + b"the end"


@pytest.mark.parametrize("kind", ARCHIVES)
def test_an_archive_that_is_cut_off_damaged_or_none_is_an_error(tmp_path, kind):
    path = tmp_path / f"file{kind}"
    path.write_bytes(b"plain text")
    with pytest.raises(ValueError, match=rf"file\{kind} must be a \{kind} archive. Got .*b'plain "):
        Source(path)
    data = PACK[kind](CONTENT)
    damaged = bytearray(PACK[kind](os.urandom(5000)))
    damaged[len(damaged) // 2] ^= 0xFF
    if kind == ".zst":
        damaged[4] |= 0x08  # a reserved bit: without a checksum the content itself is not guarded
    sizes = range(1, len(data), max(1, len(data) // 40))
    for content in [damaged, *(data[:size] for size in sizes)]:
        path.write_bytes(content)
        with pytest.raises(ValueError, match=rf"must be a whole \{kind} archive. Got one that is"):
            while Source(path).read(1 << 20):
                pass


@pytest.mark.parametrize("kind", ARCHIVES)
def test_an_archive_that_decompresses_without_end_is_refused(tmp_path, monkeypatch, kind):
    path = tmp_path / f"bomb.txt{kind}"
    path.write_bytes(PACK[kind](b"\n" * 1_000_000) * 4)  # streams one after the other
    assert clean_files([path], tmp_path / "small") == 4_000_000
    monkeypatch.setattr(reading, "UNCHECKED_BYTES", 1_500_000)
    with pytest.raises(ValueError, match=r"must decompress to at most 200 times its size"):
        clean_files([path], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_word_vectors_and_datasets_are_unpacked_under_the_same_rules(tmp_path, monkeypatch):
    """Also what follows the last member is read: a cut checksum is noticed."""
    for name in ("plot.tok.gt9.5000", "quote.tok.gt9.5000"):
        (tmp_path / name).write_bytes(b"a sentence\n" * 100_000)
        with tarfile.open(tmp_path / "plain.tar", "a") as archive:
            archive.add(tmp_path / name, name)
    plain = (tmp_path / "plain.tar").read_bytes()
    for kind in ARCHIVES:
        path = tmp_path / kind[1:] / f"rotten_imdb.tar{kind}"
        path.parent.mkdir()
        data = PACK[kind](plain)
        for content, message in (
            (data, r"must have 10,000 train.*Got 200,000 train"),
            (data[:-3], r"whole .* archive. Got one that is cut off"),
        ):
            path.write_bytes(content)
            with pytest.raises(ValueError, match=message):
                datasets.load("subj", path.parent)
    monkeypatch.setattr(reading, "UNCHECKED_BYTES", 1_000_000)
    with pytest.raises(ValueError, match="must decompress to at most"):
        datasets.load("subj", tmp_path / "gz")
    (tmp_path / "v.txt.gz").write_bytes(gzip.compress(b"2 1\na 1\n" + b"\n" * 8_000_000))
    with pytest.raises(ValueError, match="must decompress to at most"):
        formats.read(tmp_path / "v.txt.gz", format="word2vec-text")


@pytest.mark.parametrize("kind", PACK)
def test_an_empty_file_is_an_error(tmp_path, kind):
    path = tmp_path / f"file{kind}"
    path.write_bytes(PACK[kind](b""))
    message = r"must have text. Got an empty file instead"
    for wiki in (False, True):
        with pytest.raises(ValueError, match=message):
            clean_files([path], tmp_path / "out", wiki=wiki)
    with pytest.raises(ValueError, match=message):
        list(stream_texts(path, kind="text"))
    assert not (tmp_path / "out").exists()


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
    names = sorted(os.listdir(folder_of_inputs))

    with pytest.raises((OSError, ValueError), match=message):
        clean_files([source], target, overwrite=True, **options)

    assert (folder_of_inputs / "out").read_text() == "old"
    assert sorted(os.listdir(folder_of_inputs)) == names


def test_a_line_that_is_not_utf_8_is_named_with_its_number(tmp_path):
    (tmp_path / "latin").write_bytes(LATIN_1)

    with pytest.raises(ValueError, match=r"Line 3 of latin must be UTF-8 .*0xe9 instead \(3 bytes"):
        list(stream_texts(tmp_path / "latin", kind="text"))


def test_lines_end_at_line_feeds_only(tmp_path):
    """Not where `str.splitlines` ends them too; a byte order mark is dropped."""
    (tmp_path / "text").write_bytes("\ufeffa\x0bb\u2028c\n\nd\r\n\x85".encode())

    texts = list(stream_texts(tmp_path / "text", kind="text"))

    assert texts == ["a\x0bb\u2028c", "", "d", "\x85"]


def test_more_inputs_can_be_cleaned_than_can_be_open(tmp_path):
    paths = [tmp_path / f"{i}" for i in range(300)]
    for i, path in enumerate(paths):
        path.write_text(f"word {i % 10}")

    soft_limit, hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, hard_limit))
    try:
        clean_files(paths, tmp_path / "out", n_jobs=2)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft_limit, hard_limit))

    assert (tmp_path / "out").read_text().count("\n") == 300


def test_a_missing_input_is_found_before_anything_is_written(tmp_path):
    (tmp_path / "text").write_text("word")

    with pytest.raises(FileNotFoundError, match="missing"):
        clean_files([tmp_path / "text", tmp_path / "missing"], tmp_path / "out")

    assert not (tmp_path / "out").exists()


def command(*arguments, stdin=b""):
    command_line = [sys.executable, "-m", "pacsent", "vectors", "clean", *arguments]
    return subprocess.run(command_line, input=stdin, capture_output=True)


def test_the_command_reads_stdin_and_writes_stdout():
    done = command("-", stdin=gzip.compress(b"Route 66\nCaf\xc3\xa9"))
    assert (done.returncode, done.stdout, done.stderr) == (0, b"route six six\ncaf\n", b"")
    dump = b"<page><text x>[[a|Visible]] {{gone}} text</text></page>"
    done = command("--wiki", "-", "--n-jobs", "2", stdin=dump)
    assert (done.returncode, done.stdout, done.stderr) == (0, b" visible text", b"")


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
    assert message in done.stderr and done.stderr.count(b"\n") == 1


@pytest.mark.slow
def test_memory_does_not_grow_with_the_input(tmp_path):
    """Peak memory of cleaning 10 MB and 70 MB, and of a dump of as many bytes."""
    code = (
        "import resource, sys; from pacsent.text import clean_files;"
        "clean_files([sys.argv[1]], sys.argv[2], wiki=True, overwrite=True);"
        "clean_files([sys.argv[1]], sys.argv[2], overwrite=True);"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    peaks = []
    page = b"<page><text x>" + b"[[a|some]] words 12 {{t}} and more\n" * 300 + b"</text></page>\n"
    for n in (1_000, 7_000):
        path = tmp_path / "dump"
        with path.open("wb") as file:  # page by page: a child begins with the peak of its parent
            file.writelines(itertools.repeat(page, n))
        peaks.append(int(run_python(code, path, tmp_path / "out")))
    assert peaks[1] < peaks[0] + 30_000  # kilobytes


CHINESE = "統一 碼 為 每個 字元 提供 一個 獨特 的 編號\n"


def test_clean_keeps_words_of_any_script_when_told(tmp_path, monkeypatch):
    text = "Café naïve, Straße 7.\r\n\n" + CHINESE + "Äpfel, 1,5 l; " * 40 + "\nDon’t ＣＡＦÉ"
    (tmp_path / "in").write_text(text, newline="")
    expected = "café naïve strasse 7\n\n" + CHINESE + "äpfel 1,5 l " * 40
    for n_jobs, size in ((1, 1 << 20), (3, 64), (1, 64), (1, 1000)):
        monkeypatch.setattr(reading, "CHUNK_BYTES", size)
        settings = {"normalize": "unicode", "n_jobs": n_jobs, "overwrite": True}
        clean_files([tmp_path / "in"], tmp_path / "out", **settings)
        assert (tmp_path / "out").read_text() == expected[:-1] + "\ndon't café\n"
    (tmp_path / "bytes").write_bytes(b"\xff\xfe 3\n")  # and "in" has no newline at its end
    clean_files([tmp_path / "in", tmp_path / "bytes"], tmp_path / "several")
    assert (tmp_path / "several").read_text().endswith("\ndon t\nthree\n")


def test_training_on_another_script_names_the_normalisation(tmp_path):
    (tmp_path / "zh.txt").write_text(CHINESE * 50)
    for X in (tmp_path / "zh.txt", [CHINESE] * 50):
        with pytest.raises(
            ValueError, match=r"normalize='paper' keeps .* Pass normalize='unicode'"
        ):
            SkipGram(n_dims=4, n_epochs=1, normalize="paper").fit(X)
        model = SkipGram(n_dims=4, n_epochs=1, subsample=0).fit(X)
        assert {"統", "統一"} <= set(model.word_vectors_.words)
    mixed = ["one two three four " + CHINESE] * 50
    with pytest.warns(UserWarning, match=r"Much of the text is dropped: normalize='paper'"):
        SkipGram(n_dims=4, n_epochs=1, subsample=0, normalize="paper").fit(mixed)
    with pytest.raises(ValueError, match=r"Lower min_count or train on more text"):
        SkipGram(n_dims=4).fit(["one two three"])


ENGLISH = "It is a house in the old part of the town, and nobody saw its owner. " * 9 + "A café"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (ENGLISH, "paper"),
        ("die schönen Häuser am Fluss gehören größtenteils der Stadt", "unicode"),
        ("la niña comió una manzana ayer", "unicode"),
        (CHINESE, "unicode"),
        ("1234 5678", "paper"),  # no letter at all
    ],
)
def test_the_normalisation_is_chosen_from_the_text_and_said(text, name, tmp_path, monkeypatch):
    lines = [text.strip()] * 20
    plain, packed, stdin = tmp_path / "plain", tmp_path / "packed.gz", io.BytesIO
    plain.write_text("\n".join(lines) + "\n")
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    sources = [lines, iter(lines), plain, [plain, packed], packed, "-", [x.split() for x in lines]]
    for i, source in enumerate(sources):
        given = io.TextIOWrapper(stdin(plain.read_bytes()))
        monkeypatch.setattr(sys, "stdin", given)
        corpus = Corpus.build(source, tmp_path / str(i), min_count=1)
        assert corpus.n_documents == (40 if i == 3 else 20)  # nothing is lost by looking ahead
        if i < 6:
            assert corpus.vocabulary.normalize == name
            assert corpus.chosen.startswith(f"normalize='{name}', chosen from the text: ")
            assert Corpus.open(tmp_path / str(i)).chosen == corpus.chosen
    assert Corpus.build(lines, tmp_path / "own", min_count=1, normalize=str.split).chosen is None


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_text_from_a_pipe_is_looked_at_and_read_whole(tmp_path, pack):
    data = "\n".join(["die schönen Häuser am Fluss"] * 5000).encode()
    code = (
        "import sys; from pacsent.words import Corpus; c = Corpus.build('-', sys.argv[1], 1); "
        "print(c.vocabulary.normalize, c.n_documents)"
    )
    command_line = [sys.executable, "-c", code, str(tmp_path / "corpus")]
    run = subprocess.run(command_line, input=pack(data), capture_output=True)
    assert run.stdout.decode().split() == ["unicode", "5000"], run.stderr.decode()


def test_the_choice_is_saved_with_the_vectors(tmp_path):
    words = SkipGram(4, n_epochs=1, min_count=1, subsample=0).fit(["zwei schöne Häuser"] * 9)
    said = words.word_vectors_.training["normalize"]
    assert said.startswith("normalize='unicode', chosen from the text: 12.5% of its letters")
    (tmp_path / "text").write_text("zwei schöne Häuser\n" * 9)
    command = f"vectors train {tmp_path}/text --n-dims 4 --n-epochs 1 --min-count 1 --subsample 0"
    run = invoke(*command.split(), "-o", tmp_path / "m", status=0)
    assert said in run.stderr and said not in run.stdout
    assert load(tmp_path / "m").training["normalize"] == said
    assert load(tmp_path / "m").vocabulary.normalize == "unicode"


def test_zero_vectors_of_another_script_name_the_cause(toy_word_vectors):
    vectorizer = make_encoder("Average", toy_word_vectors).fit(["good film"])
    with pytest.warns(EmptySentenceWarning, match="1 of 2 .* reads letters a-z and digits only"):
        vectorizer.transform(["good film", CHINESE])


class TestTheWholeFilterOnSingleTexts:
    def test_markup_is_removed_that_the_last_stage_reads_as_words(self):
        review = "Great.<br /><br />See [[Berlin|the city]], {{stub}} &quot;now&quot; in 2019"
        assert "br" in normalize.tokenise_paper(review)
        assert normalize.TOKENISERS["wikifil"](review) == (
            ["great", "see", "the", "city", "now", "in", "two", "zero", "one", "nine"]
        )

    def test_a_text_without_markup_is_as_before(self):
        text = "Route 66, café: isn't it 3 < 5?"
        assert normalize.tokenise_wikifil(text) == normalize.tokenise_paper(text)

    def test_a_text_in_a_dump_gives_what_the_filter_prints_for_the_dump(self, tmp_path):
        text = "One [[Paris|city]] of <b>many</b> and [http://x.org a link] <ref>no</ref> in 1999"
        (tmp_path / "dump.xml").write_text(f'<page><text xml:space="preserve">{text}</text></page>')
        clean_files([tmp_path / "dump.xml"], tmp_path / "clean.txt", wiki=True)
        printed = (tmp_path / "clean.txt").read_text().split()
        assert normalize.tokenise_wikifil(text) == printed

    def test_a_model_keeps_it(self, tmp_path):
        words = WordVectors(
            Vocabulary(["film", "br"], [2, 1], normalize="wikifil"), np.eye(2, dtype=np.float32)
        )
        save(words, tmp_path / "words")
        assert load(tmp_path / "words").vocabulary.encode(["film<br />"]).ids.tolist() == [0]
