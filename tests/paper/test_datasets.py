"""Datasets are read where they lie, checked against what is known, and refused by name."""

import bz2
import csv
import gzip
import io
import json
import lzma
import tarfile
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from helpers import invoke
from pacsent.paper import benchmark_datasets as datasets
from pacsent.paper import books, reproduction
from pacsent.text.tables import TextTable, read_labelled_texts, stream_texts


def write_tar(path, files):
    with tarfile.open(path, f"w:{path.name.rsplit('.', 1)[1].replace('tgz', 'gz')}") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))


PLOT = b"the man walks in .\nthe d\xe9but opens .\n"
QUOTE = b"a joy \x85 truly !\nnot a joy .\n"  # a line break for str.splitlines, not for cp1252
FILES = {"x/plot.tok.gt9.5000": PLOT, "x/quote.tok.gt9.5000": QUOTE}


@pytest.fixture
def small_subj(monkeypatch):
    """SUBJ with two sentences a class."""
    entry = datasets.DATASETS["subj"]
    entry = replace(entry, facts={"train": 4, "test": 0, "classes": 2}, digest="")
    monkeypatch.setitem(datasets.DATASETS, "subj", entry)
    return entry


@pytest.mark.parametrize("suffix", [".tar.xz", ".tar.gz", ".tgz"])
def test_every_packing_reads_the_same(tmp_path, small_subj, suffix):
    write_tar(tmp_path / f"rotten_imdb{suffix}", FILES)
    packed = datasets.load("subj", tmp_path)
    folder = tmp_path / "other" / "rotten_imdb"
    folder.mkdir(parents=True)
    for name, content in FILES.items():
        (folder / name.split("/")[1]).write_bytes(content)
    unpacked = datasets.load("subj", tmp_path / "other")
    assert packed.train_texts == unpacked.train_texts and "a joy … truly !" in packed.train_texts
    assert packed.digest == unpacked.digest
    assert packed.classes == ("objective", "subjective")
    assert_array_equal(packed.train_labels, [0, 0, 1, 1])


@pytest.mark.parametrize(
    ("files", "end", "message"),
    [
        (FILES, -30, "must be a whole .gz archive. Got one that is cut off"),
        ({"plot.tok.gt9.5000": PLOT}, None, "must have 4 train.*Got 2 train, 1 classes.*partial"),
        ({"README": b"hello"}, None, "another archive"),
    ],
)
def test_an_archive_of_something_else_is_refused(tmp_path, small_subj, files, end, message):
    path = tmp_path / "rotten_imdb.tar.gz"
    write_tar(path, files)
    path.write_bytes(path.read_bytes()[:end])
    with pytest.raises(ValueError, match=message):
        datasets.load("subj", tmp_path)


def test_changed_content_is_named_and_can_be_allowed(tmp_path, small_subj, monkeypatch):
    write_tar(tmp_path / "rotten_imdb.tar.gz", FILES)
    digest = datasets.load("subj", tmp_path).digest
    monkeypatch.setitem(datasets.DATASETS, "subj", replace(small_subj, digest=digest))
    datasets.load("subj", tmp_path)
    changed = {name: content.replace(b"man", b"men") for name, content in FILES.items()}
    write_tar(tmp_path / "rotten_imdb.tar.gz", changed)
    with pytest.raises(ValueError, match=f"must have the sha256 {digest[:16]}"):
        datasets.load("subj", tmp_path)
    assert datasets.load("subj", tmp_path, verify=False).digest != digest


def test_a_missing_dataset_says_where_its_authors_keep_it(tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError, match=r"rotten_imdb\.tar\.gz.*cs\.cornell\.edu"):
        datasets.load("subj", tmp_path)
    monkeypatch.delenv("PACSENT_DATA", raising=False)
    with pytest.raises(FileNotFoundError, match="Pass --data DIR"):
        datasets.load("subj")
    monkeypatch.setenv("PACSENT_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(FileNotFoundError, match="nowhere"):
        datasets.load("subj")
    with pytest.raises(ValueError, match="one of 20news, imdb"):
        datasets.load("sst", tmp_path)


def test_an_empty_variable_is_no_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # Path("") would be this folder
    monkeypatch.setenv("PACSENT_DATA", "")

    with pytest.raises(FileNotFoundError, match="Pass --data DIR"):
        datasets.data_folder()
    with pytest.raises(FileNotFoundError, match="Got '' instead"):
        datasets.data_folder("")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["subj", "mr", "trec", "stsb", "20news", "imdb"])
def test_the_real_data_has_its_known_facts_and_digest(data_dir, name):
    dataset = datasets.load(name, data_dir)
    assert dataset.digest == datasets.DATASETS[name].digest
    if name == "20news":
        assert dataset.train_texts[0].startswith("From: ")  # headers are kept
    if name == "imdb":
        assert dataset.classes == ("neg", "pos")
        assert sum("<br />" in text for text in dataset.train_texts) > 10_000
        assert_array_equal(np.bincount(dataset.test_labels), [12_500, 12_500])


def test_a_split_is_a_partition_and_a_function_of_the_seed():
    whole = datasets.generate(100, random_state=0).dataset()
    assert not whole.has_fixed_split
    first, again, other = whole.split(0), whole.split(0), whole.split(1)
    assert first.test_texts == again.test_texts
    assert first.test_texts != other.test_texts
    assert len(first.train_texts) == 80
    assert sorted(first.train_texts + first.test_texts) == sorted(whole.train_texts)
    assert first.split(5) is first


def test_lines_of_label_and_text_and_a_csv_read_the_same(tmp_path):
    (tmp_path / "own.txt").write_text("good\ta fine film\n\nbad\tdull, \tlong\n")
    (tmp_path / "own.csv").write_text('stars,review\ngood,a fine film\nbad,"dull, \tlong"\n')
    lines = datasets.read_labelled(tmp_path / "own.txt")
    table = datasets.read_labelled(tmp_path / "own.csv", text_column="review", label_column="stars")
    assert lines.train_texts == table.train_texts == ["a fine film", "dull, \tlong"]
    assert lines.classes == ("bad", "good")
    assert_array_equal(lines.train_labels, [1, 0])
    assert lines.digest == table.digest


def test_generated_words_follow_the_phi_of_their_document():
    corpus = datasets.generate(40, n_words=200, n_tokens=5000, concentration=50.0, random_state=0)
    phi = corpus.phi()
    assert_allclose(phi.sum(axis=1), 1.0)
    for row, ids in enumerate(corpus.ids):
        observed = np.bincount(ids, minlength=200) / ids.size
        # total variation of an empirical distribution is about sqrt(n_words / n_tokens) / 2
        assert 0.5 * np.abs(observed - phi[row]).sum() < np.sqrt(200 / ids.size)
        assert 0.5 * np.abs(observed - phi[row - 1]).sum() > np.sqrt(200 / ids.size)
    assert_array_equal(corpus.phi([7])[0], phi[7])


def test_generated_text_is_a_function_of_its_seed_and_of_its_ids():
    corpus, again, other = (datasets.generate(20, n_words=3000, random_state=k) for k in (0, 0, 1))
    assert corpus.texts == again.texts != other.texts
    assert corpus.vocabulary.words == other.vocabulary.words
    assert len(set(corpus.vocabulary.words)) == 3000
    encoded = corpus.vocabulary.encode(corpus.texts)
    assert_array_equal(encoded.ids, np.concatenate(corpus.ids))
    assert corpus.vocabulary.counts.sum() == encoded.ids.size


@pytest.mark.parametrize(
    "settings", [{"n_words": 3}, {"n_topics": 1}, {"n_documents": 0}, {"topic_share": 1.0}]
)
def test_bad_settings_of_the_generative_model_are_refused(settings):
    with pytest.raises(ValueError, match=next(iter(settings))):
        datasets.generate(**settings)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        # a mark that opens no quoted value; one that is never closed; one that joins three rows
        ('label\ttext\nno\t"I see," he said\nyes\tfine\n', "Line 2 of a.tsv must be a row"),
        ('text\n"unclosed good film\nbad film\ngood town\n', "Line 2 of a.tsv must be a row"),
        ('label\ttext\nno\tfine\nyes\t"and then\nno\tthe end"\n', "Line 3 of a.tsv begins a"),
    ],
)  # fmt: skip
def test_a_lone_quotation_mark_in_a_table_of_tabs_swallows_no_rows(tmp_path, content, message):
    path = tmp_path / "a.tsv"
    path.write_text(content)
    with pytest.raises(ValueError, match=message):
        list(stream_texts(path))
    if "label" in content:
        with pytest.raises(ValueError, match=message):
            read_labelled_texts(path)
    path.write_text('label\ttext\nno\t"two\nlines, ""quoted"""\nyes\tone\n')
    texts, *_ = read_labelled_texts(path)
    assert texts == ['two\nlines, "quoted"', "one"]


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        # what spreadsheets write as "CSV UTF-8" begins with a byte order mark
        ("a.txt", "\ufeffno\tan öde film\r\nyes\ta good film\r\n", "an öde film"),
        ("a.csv", "\ufefflabel,text\r\nno,an öde film\r\nyes,a good film\r\n", "an öde film"),
        ("a.csv", "label,text\nno,dull,\nyes,fine\n", "dull"),  # an empty value at the end
        ("a.csv", f"label,text\nno,{'dull ' * 100_000}\nyes,fine\n", "dull " * 100_000),
    ],
    ids=["mark of lines", "mark of a table", "empty value", "long"],
)
def test_what_spreadsheets_write_is_read(tmp_path, name, content, text):
    (tmp_path / name).write_text(content, newline="")
    texts, labels, _ = read_labelled_texts(tmp_path / name)
    assert texts[0] == text and labels == ["no", "yes"]


@pytest.mark.parametrize(
    ("name", "content", "columns", "message"),
    [
        ("a.csv", "good a film\n", {}, "must include text and label. Got good a film"),
        ("a.csv", "", {}, "empty file"),
        ("a.csv", "label,text\ngood,a\n", {}, "at least two classes"),
        ("a.csv", "text,b\n1,2\n", {}, "must include label. Got text, b"),
        ("a.csv", "a,b\n1,2\n", {"text_column": "c"}, "must include c and label. Got a, b"),
        ("a.csv", '"a\nx",b\n1,2\n', {"text_column": "c"}, "Got a x, b instead"),
        ("a.csv", "label,text\n1,2\n3\n", {}, "Line 3 of a.csv"),
        ("a.csv", "text,label\nWell, well,yes\n", {}, "Line 2 of a.csv must have 2 values.*Got 3"),
        ("a.csv", "text,label\nfine,yes\ndull,\n", {}, "Line 3 of a.csv must have a label. Got no"),
        ("a.csv", "text,label,text\na,b,c\n", {}, "must have one column named text. Got 2"),
        ("a.csv", 'text,label\n"and then,yes\nfine,no\n', {}, "must be a row of a CSV"),
        ("a.jsonl", '{"text": "fine", "label": ["yes"]}\n', {}, r"one label: .*Got \['yes'\]"),
        ("a.jsonl", '{"text": "fine", "label": NaN}\n', {}, "must have a label. Got none"),
        ("a.jsonl", '{"text": "fine", "label": ""}\n', {}, "must have a label. Got none"),
        ("a.jsonl", '{"text": null, "label": "yes"}\n', {}, "must have a text. Got nothing"),
        ("a.jsonl", '{"text": 5, "label": "yes"}\n', {}, "must have a text. Got int '5'"),
        ("a.jsonl", "[" * 100_000, {}, "must be a JSON object"),
        ("a.txt", "no\tfine\n", {"text_column": "a"}, "a.txt must be a table to have named"),
    ],
)
def test_files_without_labelled_texts_are_refused(tmp_path, name, content, columns, message):
    (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match=message):
        datasets.read_labelled(tmp_path / name, **columns)


FILMS = [
    {"id": 7, "text": "a quiet film"},
    {"id": 8, "text": ""},
    {"id": 9, "text": 'so "good", é'},
]
KINDS = ["csv", "tsv", "jsonl", "parquet", "csv.gz", "jsonl.bz2", "tsv.xz", "parquet.gz"]


def write_films(path, rows=FILMS):
    """A table of the kind that the suffixes say."""
    kind, _, packing = path.name.partition(".")[2].partition(".")
    if kind == "parquet":
        pyarrow = pytest.importorskip("pyarrow")
        from pyarrow import parquet

        written = io.BytesIO()
        parquet.write_table(pyarrow.Table.from_pylist(rows), written)
        content = written.getvalue()
    elif kind == "jsonl":
        content = "".join(json.dumps(row) + "\n" for row in rows).encode()
    else:
        text = io.StringIO()
        writer = csv.DictWriter(text, rows[0], delimiter="," if kind == "csv" else "\t")
        writer.writeheader()
        writer.writerows(rows)
        content = text.getvalue().encode()
    pack = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}
    path.write_bytes(pack[packing](content) if packing else content)
    return path


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_table_gives_the_same_texts_and_columns(tmp_path, kind):
    path = write_films(tmp_path / f"films.{kind}")
    assert list(stream_texts(path)) == [row["text"] for row in FILMS]
    with TextTable(path) as table:
        assert table.names == ["id", "text"] and table.text_column == "text"
        ids = []
        for _, columns, bad, _ in table.batches(["id"], n_rows=2):
            ids += columns["id"] if isinstance(columns["id"], list) else columns["id"].to_pylist()
            assert not bad
    assert [int(number) for number in ids] == [7, 8, 9]


def test_the_only_column_is_taken_and_reported_and_empty_rows_are_rows(tmp_path):
    (tmp_path / "a.csv").write_text("review\nfine\n\ndull\n")
    lines = []
    assert list(stream_texts(tmp_path / "a.csv", report=lines.append)) == ["fine", "", "dull"]
    assert lines == ["Read 3 rows of a.csv, column review (the only one)."]
    (tmp_path / "b.csv").write_text("review,stars\nfine,5\n")
    with pytest.raises(ValueError, match=r"must include text. Got review, stars"):
        list(stream_texts(tmp_path / "b.csv"))
    with pytest.raises(ValueError, match=r"standard input must be a table to have the column body"):
        list(stream_texts("-", text_column="body"))
    films = write_films(tmp_path / "c.parquet", [{"text": "fine"}, {"text": None}])
    with pytest.raises(ValueError, match=r"Row 2 of c.parquet must have a text. Got nothing"):
        list(stream_texts(films))


def test_bad_rows_are_reported_in_their_place_where_asked(tmp_path):
    (tmp_path / "a.csv").write_bytes(b'n,text\n1,"good\nfilm"\n2,a,b\n3,no \xff\n4,"open\n5,x\n')
    (tmp_path / "b.jsonl").write_text(
        '{"text": "good", "n": 1}\nno\n{"n": 3}\n{"text": "\\ud800"}\n'
    )
    result = {}
    for name in ("a.csv", "b.jsonl"):
        with TextTable(tmp_path / name) as table:
            (rows,) = table.batches(["n"], on_bad="report")
        result[name] = rows
    assert result["a.csv"].texts == ["good\nfilm", "", "", ""]
    assert [bad.place for bad in result["a.csv"].bad] == ["line 4", "line 5", "line 6"]
    assert result["b.jsonl"].texts == ["good", "", "", ""]
    assert result["b.jsonl"].columns == {"n": [1, None, 3, None]}
    assert [bad.place for bad in result["b.jsonl"].bad] == ["line 2", "line 3", "line 4"]


def test_a_labelled_table_with_the_usual_columns_needs_no_names(tmp_path):
    for name, comma in (("a.csv", ","), ("a.tsv", "\t"), ("b.csv", ";")):
        (tmp_path / name).write_text(f"label{comma}text\nyes{comma}fine\nno{comma}dull\n")
        notes = []
        result = read_labelled_texts(tmp_path / name, report=notes.append)
        assert result == (["fine", "dull"], ["yes", "no"], None)
        assert notes == [f"Read 2 rows of {name}, column text, label column label."]
    (tmp_path / "lines.txt").write_text("yes\tfine\nno\tdull\n")
    result = read_labelled_texts(tmp_path / "lines.txt", report=notes.append)
    assert result[:2] == (["fine", "dull"], ["yes", "no"])
    assert notes[-1] == "Read 2 lines of label<TAB>text of lines.txt."


def test_labels_are_kept_as_they_stand_and_what_was_made_of_them_is_said(tmp_path):
    notes = []
    (tmp_path / "a.csv").write_text("text,label\nfine,yes\ngood,yes \ndull,no\n")
    assert read_labelled_texts(tmp_path / "a.csv", report=notes.append)[1] == ["yes", "yes ", "no"]
    (tmp_path / "b.jsonl").write_text('{"text": "a", "label": 1}\n{"text": "b", "label": 0}\n')
    assert read_labelled_texts(tmp_path / "b.jsonl", report=notes.append)[1] == ["1", "0"]
    assert "label column label (kept as strings: '1')" in notes[-1]
    (tmp_path / "c.tsv").write_text("id\tbody\n1\tgood film\n2\tbad film\n")
    with pytest.raises(ValueError, match=r"must include text and label. Got id, body"):
        read_labelled_texts(tmp_path / "c.tsv")
    (tmp_path / "d.xlsx").write_bytes(b"PK")
    with pytest.raises(ValueError, match=r"Save it there as CSV .* read_excel\('d.xlsx'\)"):
        read_labelled_texts(tmp_path / "d.xlsx", text_column="body")


@pytest.mark.parametrize(
    ("content", "advice"),
    [(b"a \x93quote\x94", "cp1252"), (b"caf\xe9", "latin1"), (b"\xff\xfea\x00", "utf-16")],
)
def test_a_file_in_another_encoding_is_refused_with_the_command_that_converts_it(
    tmp_path, content, advice
):
    for name in ("a.txt", "a.csv"):
        path = tmp_path / name
        path.write_bytes((b"text\n" if name == "a.csv" and advice != "utf-16" else b"") + content)
        with pytest.raises(ValueError, match=f"must be UTF-8 text.*iconv -f {advice}"):
            list(stream_texts(path))


def test_a_key_that_only_a_later_object_has_is_not_dropped(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "one"}\n{"text": "two", "year": 1999}\n')
    message = r"Line 2 of a.jsonl .* Got 'year' as well"
    with TextTable(path) as table, pytest.raises(ValueError, match=message):
        list(table.batches(("*",)))
    with TextTable(path) as table:
        assert [rows.texts for rows in table.batches()] == [["one", "two"]]


class TestThePassagesThatShip:
    def test_no_passage_is_in_two_parts_and_every_book_is_in_each(self):
        parts = {part: books.passages(part) for part in ("source", "train", "test")}
        assert [len(parts[part]) for part in parts] == [1800, 600, 600]
        assert len({passage for part in parts.values() for passage in part}) == 3000
        for part in parts.values():
            assert len({passage.book for passage in part}) == 30

    def test_they_are_a_dataset_without_a_folder(self, monkeypatch):
        monkeypatch.delenv("PACSENT_DATA", raising=False)
        loaded = datasets.load("books")
        assert len(loaded.classes) == 10 and loaded.has_fixed_split
        assert np.bincount(loaded.test_labels).tolist() == [60] * 10

    def test_a_run_on_them_has_the_rows_of_the_paper_and_certificates(self):
        cells = reproduction.book_tasks()
        in_paper = {cell.row for cell in cells if reproduction.ROWS[cell.row].in_paper}
        assert len(in_paper) == 14
        assert {cell.kind for cell in cells} == {"classification", "certificate"}
        assert {cell.dataset for cell in cells} == {"books"}

    def test_other_data_needs_word_vectors(self, tmp_path):
        result = invoke("paper", "reproduce", "--data", tmp_path, "-o", tmp_path / "out")
        assert result.exit_code == 2 and "Missing option '--encoder'" in result.output

    def test_a_run_without_altair_says_that_it_has_no_charts(self, tmp_path, monkeypatch):
        monkeypatch.setattr("pacsent.paper.figures.altair_found", lambda: False)
        command = ("paper", "reproduce", "--data", "books", "-o", tmp_path / "out", "--quick")

        result = invoke(*command, "--encoder", "english", "--only", "Average-0")

        assert result.exit_code == 0, result.output
        assert "no charts" in result.stderr
        assert "pacsent[report]" in result.stderr
        assert (tmp_path / "out" / "index.html").exists()

    @pytest.mark.slow
    def test_the_table_is_made_from_a_checkout(self, tmp_path):
        command = ("paper", "reproduce", "--data", "books", "-o", tmp_path / "out", "--quick")
        first = invoke(*command, "--only", "Average-0")
        assert first.exit_code == 0, first.output
        assert "Skip-gram on 1,800 passages" in first.output
        again = invoke(*command, "--only", "certificate")
        assert again.exit_code == 0, again.output
        assert "Skip-gram on" not in again.output  # the vectors are read

        results = reproduction.read_results(tmp_path / "out" / "results")
        assert {(r["kind"], r["row"]) for r in results} == {
            ("classification", "Average-0"),
            ("certificate", "PB-L2"),
            ("certificate", "PB-neg"),
        }
        accuracy = next(r["accuracy"] for r in results if r["kind"] == "classification")
        assert accuracy > 0.5  # guessing: 0.1
