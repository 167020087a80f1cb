"""Shard to shard: any kind, any store, every row once, whatever goes wrong."""

import gzip
import io
import json
import os
import signal
import socket
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from helpers import invoke
from pacsent import (
    CertifiedClassifier,
    TextClassifier,
    Vocabulary,
    WordVectors,
    make_encoder,
    save,
    scale,
)
from pacsent.scale import stores
from pacsent.scale.jobs import text_bytes
from pacsent.text.tables import BATCH
from pacsent.words.text_encoding import encode_bytes

pytest.importorskip("fsspec")

TEXTS = ["a good film", "bad, bad FILM!", "", "Ünïcode é good", "7 stars", "zzz"]
WORDS = ["a", "good", "film", "bad", "seven", "stars"]


@pytest.fixture(scope="module")
def words():
    """Random vectors of six words."""
    rng = np.random.default_rng(0)
    tables = rng.standard_normal((2, len(WORDS), 5))
    tables = tables.astype(np.float32)
    vocabulary = Vocabulary(WORDS, range(60, 0, -10))
    return WordVectors(vocabulary, tables[0], tables[1])


@pytest.fixture(scope="module")
def model(words, tmp_path_factory):
    """The folder of the method Average with these words."""
    path = tmp_path_factory.mktemp("model") / "average"
    method = make_encoder("Average", words)
    save(method.fit(["a"]), path)
    return str(path)


def means_of(table):
    """The column of vectors of an Arrow table as a matrix."""
    means = np.array(table["mean"].to_pylist(), dtype=np.float32)
    return means.reshape(table.num_rows, -1)


def vectors(path):
    table = pq.read_table(path)
    return means_of(table)


def expected(words, texts):
    method = make_encoder("Average", words, on_empty="ignore")
    method.fit(["a"])
    return method.transform(texts)


def write_parquet(path, texts, **columns):
    pq.write_table(pa.table({**columns, "text": texts}), path)


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()], ids=str)
@pytest.mark.parametrize("normalize", ["paper", "unicode"])
def test_bytes_of_an_arrow_column_encode_as_strings_do(kind, normalize):
    vocabulary = Vocabulary([*WORDS, "ünïcode", "é"], normalize=normalize)
    column = pa.array(["before", *TEXTS], kind)
    data, bounds = text_bytes(column.slice(1))

    of_bytes = encode_bytes(vocabulary, data, bounds)
    of_strings = vocabulary.encode(TEXTS)

    for array, expected_array in zip(of_bytes, of_strings):
        np.testing.assert_array_equal(array, expected_array)


@pytest.mark.parametrize("normalize", ["paper", "unicode"])
def test_bounds_beyond_the_bytes_are_refused(normalize):
    vocabulary = Vocabulary(WORDS, normalize=normalize)
    data = np.zeros(3, np.uint8)
    bounds = np.array([0, 4])

    with pytest.raises(ValueError, match=r"bounds must rise .* 3 bytes"):
        encode_bytes(vocabulary, data, bounds)


JSON_LINES = "".join(json.dumps({"n": n, "text": text}) + "\n" for n, text in enumerate(TEXTS))
CONTENT = {
    "jsonl": JSON_LINES,
    "csv": "n,text\n" + "".join(f'{n},"{text}"\n' for n, text in enumerate(TEXTS)),
    "tsv": "n\ttext\n" + "".join(f"{n}\t{text}\n" for n, text in enumerate(TEXTS)),
    "txt": "\n".join(TEXTS),
}


def shards_of(kind, folder):
    """The texts as a file of this kind."""
    path = folder / f"part.{kind}"
    if kind == "parquet":
        write_parquet(path, TEXTS, n=range(len(TEXTS)))
    elif kind == "jsonl.gz":
        path.write_bytes(gzip.compress(JSON_LINES.encode()))
    else:
        path.write_text(CONTENT[kind])
    return path


KINDS = ["parquet", "jsonl", "csv", "tsv", "txt", "jsonl.gz"]


def other_columns(kind):
    """The columns beside the text that a file of this kind has here."""
    return [] if kind == "txt" else ["n"]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_gives_the_vectors_of_the_library_bit_for_bit(kind, tmp_path, words, model):
    source = shards_of(kind, tmp_path)
    out = tmp_path / "out"

    manifest = scale.embed_shards(model, [source], out, keep_columns=other_columns(kind))

    totals = manifest.totals()
    np.testing.assert_array_equal(vectors(out / "part.parquet"), expected(words, TEXTS))
    assert (totals["rows"], totals["empty"], totals["bad_rows"]) == (6, 2, 0)
    assert (totals["known"], totals["unknown"]) == (9, 4)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "txt"])
def test_columns_that_are_kept_stand_beside_their_vectors(kind, tmp_path, model):
    source = shards_of(kind, tmp_path)

    scale.embed_shards(model, [source], tmp_path / "out", keep_columns=["n"])

    numbers = pq.read_table(tmp_path / "out" / "part.parquet")["n"].to_pylist()
    assert [int(number) for number in numbers] == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_gives_the_same_vectors_as_lines_of_json(kind, tmp_path, words, model):
    source = shards_of(kind, tmp_path)

    scale.embed_shards(model, source, tmp_path / "lines", keep_columns="*", format="jsonl")

    lines = (tmp_path / "lines" / "part.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    means = np.array([row["mean"] for row in rows], dtype=np.float32)
    columns = [*other_columns(kind), "text", "mean", "variance"]
    assert [list(row) for row in rows] == [columns] * 6
    np.testing.assert_array_equal(means, expected(words, TEXTS))
    assert rows[2]["variance"] is None
    assert rows[0]["variance"] >= 0


@pytest.fixture(params=["parquet", "csv"])
def names_of_results(request, tmp_path):
    """A table whose columns beside the text have the names of results."""
    path = tmp_path / f"a.{request.param}"
    frame = pd.DataFrame({"text": ["good", "bad"], "mean": ["m1", "m2"], "variance": ["v1", "v2"]})
    if request.param == "parquet":
        frame.to_parquet(path)
    else:
        frame.to_csv(path, index=False)
    return path


READERS = {
    "parquet": pd.read_parquet,
    "jsonl": lambda path: pd.read_json(path, lines=True),
    "csv": pd.read_csv,
    "tsv": lambda path: pd.read_csv(path, sep="\t"),
}


@pytest.mark.parametrize("format", READERS)
def test_columns_that_have_the_name_of_a_result_are_renamed(
    names_of_results, tmp_path, model, format
):
    out = tmp_path / format

    manifest = scale.embed_shards(model, names_of_results, out, keep_columns=["*"], format=format)

    table = READERS[format](out / f"a.{format}")
    names = list(table.columns)
    assert names[:3] == ["text", "input_mean", "input_variance"]
    assert len(set(names)) == len(names)
    assert list(table["input_mean"]) == ["m1", "m2"]
    assert table["variance"].notna().all()
    note = manifest.files["a"].warnings[0]
    assert "The column mean of" in note
    assert "named input_mean in the output" in note


MIXED = '{"text": "good", "n": 1}\n' * BATCH + '{"text": "good", "n": "x"}'


@pytest.mark.parametrize(
    ("name", "content", "options", "message"),
    [
        (
            "a.csv",
            "n,text,n\n1,good,2\n",
            {"keep_columns": "*"},
            "must have one column named n",
        ),
        (
            "a.csv",
            "text\ngood\n",
            {"text_column": "body"},
            "must include body. Got text instead",
        ),
        (
            "a.jsonl",
            MIXED,
            {"keep_columns": "n"},
            "must be of one type, int64. Got str instead (Could not convert 'x'",
        ),
    ],
    ids=["a name twice", "no column of texts", "two types"],
)
def test_a_table_that_cannot_be_read_fails_its_file(
    tmp_path, model, name, content, options, message
):
    source = tmp_path / name
    source.write_text(content)

    manifest = scale.embed_shards(model, source, tmp_path / "out", **options)

    [error] = manifest.failed.values()
    assert message in error
    assert not (tmp_path / "out" / "a.parquet").exists()


def test_a_table_without_rows_gives_one_with_the_columns_of_results(tmp_path, model):
    source = tmp_path / "a.parquet"
    write_parquet(source, pa.array([], pa.string()))

    scale.embed_shards(model, [source], tmp_path / "out", keep_columns=["text"])

    table = pq.read_table(tmp_path / "out" / "a.parquet")
    assert table.num_rows == 0
    assert table.column_names == ["text", "mean", "variance"]


@pytest.fixture
def folder_with_bad_rows(tmp_path):
    """Four files, each with good rows at both ends and bad ones between them."""
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.jsonl").write_text('{"text": "good"}\nnot json\n\n{"text": 3}\n{"text": "bad"}\n')
    (folder / "b.csv").write_text('n,text\n1,"good, or\nnot"\n2\n3,bad\n')
    (folder / "c.txt").write_bytes(b"good\nno \xff utf\r\nbad\r\n")
    write_parquet(folder / "d.parquet", ["good", None, "bad"])
    return folder


def test_bad_rows_are_named(folder_with_bad_rows, tmp_path, model):
    manifest = scale.embed_shards(model, [folder_with_bad_rows], tmp_path / "out", n_jobs=1)

    places = {}
    for name, record in manifest.files.items():
        places[name] = [bad["place"] for bad in record.bad]
    assert places == {"a": ["line 2", "line 4"], "b": ["line 4"], "c": ["line 2"], "d": ["row 2"]}


@pytest.mark.parametrize("name", ["a", "c", "d"])
def test_bad_rows_keep_their_place(folder_with_bad_rows, tmp_path, words, model, name):
    scale.embed_shards(model, [folder_with_bad_rows], tmp_path / "out", n_jobs=1)

    means = vectors(tmp_path / "out" / f"{name}.parquet")
    np.testing.assert_array_equal(means[[0, -1]], expected(words, ["good", "bad"]))
    assert not means[1:-1].any()


def test_a_bad_row_stops_the_work_where_errors_do(folder_with_bad_rows, tmp_path, model):
    source = folder_with_bad_rows / "c.txt"

    with pytest.raises(ValueError, match=r"Line 2 of .*c.txt must be UTF-8 text"):
        scale.embed_shards(model, [source], tmp_path / "out", on_error="stop")

    assert not (tmp_path / "out" / "c.parquet").exists()


@pytest.fixture
def folder(tmp_path):
    """Four tables of 6, 12, 18 and 24 rows, deep in a folder, beside files that are no tables."""
    folder = tmp_path / "in"
    deep = folder / "deep"
    deep.mkdir(parents=True)
    texts = [f"{text} good" for text in TEXTS]
    for n in range(4):
        write_parquet(deep / f"p{n}.parquet", texts * (n + 1))
    (folder / "README.md").write_text("about")
    (folder / "_SUCCESS").write_text("")
    return folder


def test_a_folder_gives_a_folder(folder, tmp_path, model):
    manifest = scale.embed_shards(model, [folder], tmp_path / "out", n_jobs=2)

    names = sorted(path.name for path in (tmp_path / "out" / "deep").iterdir())
    assert names == ["p0.parquet", "p1.parquet", "p2.parquet", "p3.parquet"]
    assert manifest.totals()["rows"] == 60
    assert manifest.ignored == [str(folder / "README.md")]


def test_the_manifest_has_the_size_and_the_coverage_of_every_file(folder, tmp_path, model):
    out = tmp_path / "out"

    scale.embed_shards(model, [folder], out, n_jobs=1)

    about = json.loads((out / "manifest.json").read_text())
    assert len(about["files"]) == 4
    for name, record in about["files"].items():
        share = record["known"] / (record["known"] + record["unknown"])
        assert record["bytes"] == (out / f"{name}.parquet").stat().st_size
        assert record["coverage"] == pytest.approx(share, abs=1e-6)


def test_only_what_changed_or_is_missing_is_worked_on_again(folder, tmp_path, model):
    out = tmp_path / "out"
    scale.embed_shards(model, [folder], out, n_jobs=1)
    times = {path: path.stat().st_mtime_ns for path in (out / "deep").iterdir()}
    write_parquet(folder / "deep" / "p1.parquet", ["bad"])
    (out / "deep" / "p2.parquet").unlink()

    manifest = scale.embed_shards(model, [folder], out, n_jobs=1)

    untouched = {path.name for path, time in times.items() if path.stat().st_mtime_ns == time}
    assert untouched == {"p0.parquet", "p3.parquet"}
    assert manifest.totals()["rows"] == 6 + 1 + 18 + 24


@pytest.fixture
def removed_input(tmp_path, model):
    """A folder with 1.txt, whose outputs in `out` are those of 1.txt and 2.txt."""
    inputs = tmp_path / "in"
    inputs.mkdir()
    for name in ("1.txt", "2.txt"):
        path = inputs / name
        path.write_text("a good film\n")
    scale.embed_shards(model, [inputs], tmp_path / "out", n_jobs=1)

    (inputs / "2.txt").unlink()
    return inputs


def test_outputs_of_removed_inputs_are_named_in_every_run(removed_input, tmp_path, model):
    out = tmp_path / "out"

    for _ in range(2):
        with pytest.warns(UserWarning, match=r"1 output in .*no longer given: 2\.parquet"):
            manifest = scale.embed_shards(model, [removed_input], out, n_jobs=1)

        totals = manifest.totals()
        assert manifest.outdated == ["2.parquet"]
        assert totals["rows"] == 1
        assert (out / "2.parquet").exists()


def test_outputs_of_removed_inputs_are_no_more_named_when_they_are_deleted(
    removed_input, tmp_path, model
):
    out = tmp_path / "out"
    (out / "2.parquet").unlink()

    manifest = scale.embed_shards(model, [removed_input], out, n_jobs=1)

    assert manifest.outdated == []


def test_outputs_in_another_format_are_named_when_they_are_replaced(tmp_path, model):
    source = tmp_path / "1.txt"
    out = tmp_path / "out"
    source.write_text("a good film\n")
    scale.embed_shards(model, [source], out)

    with pytest.warns(UserWarning, match=r"1\.parquet"):
        scale.embed_shards(model, [source], out, format="jsonl", overwrite=True)


def test_a_source_that_changed_behind_the_same_size_and_time_is_read_again(tmp_path, words, model):
    source = tmp_path / "a.txt"
    out = tmp_path / "out"
    source.write_text("good\n")
    before = source.stat()
    scale.embed_shards(model, [source], out, n_jobs=1)
    source.write_text("film\n")
    os.utime(source, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert source.stat().st_size == before.st_size

    scale.embed_shards(model, [source], out, n_jobs=1)

    means = vectors(out / "a.parquet")
    np.testing.assert_array_equal(means, expected(words, ["film"]))


@pytest.mark.parametrize(
    ("source", "target"), [("", "out"), ("deep/*.parquet", "deep")], ids=["folder", "pattern"]
)
def test_outputs_among_the_sources_are_refused(folder, model, source, target):
    sources = [folder / source]
    out = folder / target

    with pytest.raises(ValueError, match="must be outside of the sources"):
        scale.embed_shards(model, sources, out, overwrite=True)


def test_outputs_in_the_folder_of_the_model_are_refused(folder, model):
    with pytest.raises(ValueError, match="must be outside of the sources"):
        scale.embed_shards(model, [folder], model, overwrite=True)


def test_a_folder_with_other_files_is_not_written_to(folder, model):
    with pytest.raises(FileExistsError, match="holds files without a manifest"):
        scale.embed_shards(model, [folder / "README.md"], folder / "deep")


def test_two_files_with_one_output_are_refused(tmp_path, model):
    sources = [tmp_path / "a.csv", tmp_path / "a.jsonl"]
    for source in sources:
        source.write_text("text\n")

    with pytest.raises(ValueError, match=r"a.csv and .*a.jsonl, both a"):
        scale.embed_shards(model, sources, tmp_path / "out")


def test_classes_need_a_classifier(folder, tmp_path, model):
    with pytest.raises(ValueError, match=r"must be a classifier\. Got AverageVectorizer"):
        scale.predict_shards(model, [folder], tmp_path / "out")


def test_other_settings_for_the_same_outputs_need_overwrite(folder, tmp_path, model):
    source = folder / "deep" / "p0.parquet"
    out = tmp_path / "out"
    scale.embed_shards(model, source, out)

    with pytest.raises(ValueError, match=r"was made with other settings \(columns\)"):
        scale.embed_shards(model, source, out, keep_columns=["text"])
    scale.embed_shards(model, source, out, keep_columns=["text"], overwrite=True)

    assert "text" in pq.read_table(out / "p0.parquet").column_names


def test_a_bad_file_is_reported_and_the_rest_is_done(folder, tmp_path, model):
    (folder / "deep" / "p1.parquet").write_bytes(b"PAR1 no table PAR1")

    manifest = scale.embed_shards(model, [folder], tmp_path / "out", n_jobs=1)

    [(failed, error)] = manifest.failed.items()
    assert failed.endswith("p1.parquet")
    assert "whole Parquet file" in error
    assert len(manifest.files) == 3
    assert not (tmp_path / "out" / "deep" / "p1.parquet").exists()


def test_a_bad_file_stops_the_work_where_errors_do(folder, tmp_path, model):
    (folder / "deep" / "p1.parquet").write_bytes(b"PAR1 no table PAR1")

    with pytest.raises(ValueError, match=r"p1\.parquet"):
        scale.embed_shards(model, [folder], tmp_path / "out", n_jobs=1, on_error="stop")


def finished_files(out):
    """The tables that are written in full; those in work are hidden."""
    return list(out.rglob("[!.]*.parquet"))


def kill_after_first_file(numbered, out, model, module, engine):
    """A driver with a second for each file, killed after it has written one."""
    code = SLOW_DRIVER.format(
        model=model, folder=str(numbered), out=str(out), module=module, engine=engine
    )
    process = subprocess.Popen([sys.executable, "-c", code])
    deadline = time.monotonic() + 120
    while not finished_files(out) and time.monotonic() < deadline:
        time.sleep(0.05)

    process.kill()
    process.wait()

    n_finished = len(finished_files(out))
    assert 1 <= n_finished < 6


SLOW_DRIVER = """
import time
from pacsent import scale
from pacsent.scale import {module} as module
work = module.work_on
def slow(*arguments):
    time.sleep(1.0)
    return work(*arguments)
module.work_on = slow
scale.embed_shards({model!r}, [{folder!r}], {out!r}, keep_columns="*", n_jobs=1, engine={engine})
"""


@pytest.fixture
def numbered(tmp_path):
    """Six files whose rows have numbers."""
    folder = tmp_path / "numbered"
    folder.mkdir()
    for n in range(6):
        first = 6 * n
        write_parquet(folder / f"{n}.parquet", TEXTS, id=range(first, first + 6))
    return folder


def assert_every_row_once(out, words):
    """The rows of `numbered`, with the vectors of this machine."""
    paths = sorted(out.glob("*.parquet"))
    table = pa.concat_tables(pq.read_table(path) for path in paths)
    of_one_file = expected(words, TEXTS)

    assert table["id"].to_pylist() == list(range(36))
    np.testing.assert_array_equal(means_of(table), np.tile(of_one_file, (6, 1)))


@pytest.mark.slow
def test_a_driver_that_is_killed_and_restarted_does_each_row_once(numbered, tmp_path, words, model):
    out = tmp_path / "out"
    kill_after_first_file(numbered, out, model, "shard_runner", None)

    scale.embed_shards(model, [numbered], out, keep_columns="*", n_jobs=1)

    assert_every_row_once(out, words)
    # what was being written when it was killed stays hidden, and is removed a day later
    for hidden in out.glob(".*"):
        assert ".saving-" in hidden.name


DEADLY_DRIVER = """
import os, signal, sys
from pacsent import scale
from pacsent.scale.shard_writer import ShardTask

def deadly(task, advance=None, right=ShardTask.work):
    if task.shard.source.endswith("p2.parquet"):
        os.kill(os.getpid(), signal.SIGKILL)
    return right(task, advance)

ShardTask.work = deadly
if __name__ == "__main__":
    model, folder, out = sys.argv[1:]
    found = scale.embed_shards(model, [folder], out, n_jobs=2)
    print(len(found.files), found.failed)
"""


@pytest.mark.slow
def test_a_process_that_is_killed_costs_only_its_file(folder, tmp_path, model):
    """A file whose worker dies, twice, is a failure with a name; the others are done."""
    script = tmp_path / "run.py"
    script.write_text(DEADLY_DRIVER)
    command = [sys.executable, script, model, folder, tmp_path / "out"]

    done = subprocess.run(command, capture_output=True, text=True, timeout=200)

    deadly = folder / "deep" / "p2.parquet"
    assert done.stdout.startswith("3 "), done.stderr
    assert str(deadly) in done.stdout
    assert "was killed" in done.stdout


@pytest.fixture
def memory():
    """A store that cannot move a file in one step."""
    fsspec = pytest.importorskip("fsspec")
    store = fsspec.filesystem("memory")
    yield store
    store.rm(store.ls("/", detail=False), recursive=True)


def test_a_store_without_moves_in_one_step_is_written_beside(memory, words, model):
    content = b'{"text": "good"}\n{"text": "bad"}\n'
    memory.pipe("/in/deep/a.jsonl.gz", gzip.compress(content))

    scale.embed_shards(model, ["memory://in"], "memory://out", n_jobs=1)

    table = io.BytesIO(memory.cat("/out/deep/a.parquet"))
    assert sorted(memory.find("/out")) == ["/out/deep/a.parquet", "/out/manifest.json"]
    np.testing.assert_array_equal(vectors(table), expected(words, ["good", "bad"]))


def write_half(path, content):
    """Fail after the content is written, before the file is complete."""
    with stores.write_complete(path) as file:
        file.write(content)
        raise ZeroDivisionError


def test_half_a_file_is_not_left_in_a_store_without_moves(memory):
    memory.pipe("/out/a", b"whole")

    with pytest.raises(ZeroDivisionError):
        write_half("memory://out/b", b"half")

    assert memory.find("/out") == ["/out/a"]


def wait_for_bucket(s3fs):
    """The store of the server in the environment, twenty seconds after its start at the latest."""
    for _ in range(100):
        try:
            store = s3fs.S3FileSystem()
            store.mkdir("bucket")
            return store
        except OSError:
            time.sleep(0.2)
    raise AssertionError("no server after twenty seconds")


@pytest.fixture(scope="module")
def s3():
    """A server of its own process that speaks S3, and the environment that leads to it."""
    pytest.importorskip("moto.server")
    s3fs = pytest.importorskip("s3fs")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    quiet = subprocess.DEVNULL
    server = subprocess.Popen(command, stdout=quiet, stderr=quiet)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", "any")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "any")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        patch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
        yield wait_for_bucket(s3fs)
    server.terminate()
    server.wait()


@pytest.mark.extra(needs="s3")
def test_s3_to_s3_through_a_real_server(s3, folder, words, model):
    s3.put(str(folder), "bucket/in", recursive=True)
    command = [sys.executable, "-m", "pacsent", "embed", model, "s3://bucket/in"]
    command += ["-o", "s3://bucket/out", "--n-jobs", "2", "--keep-columns", "text"]

    for _ in range(2):  # the second time everything is finished
        done = subprocess.run(command, capture_output=True, text=True)
        s3.invalidate_cache()
        tables = [path for path in s3.find("bucket/out") if path.endswith(".parquet")]
        assert done.returncode == 0, done.stderr
        assert "60 rows of 4 files" in done.stderr
        assert len(tables) == 4

    manifest = json.loads(s3.cat("bucket/out/manifest.json"))
    last = io.BytesIO(s3.cat("bucket/out/deep/p3.parquet"))
    texts = [f"{text} good" for text in TEXTS]
    assert manifest["totals"]["rows"] == 60
    np.testing.assert_array_equal(vectors(last), expected(words, texts * 4))


SEVERAL_PARTS = b"x" * (40 << 20)


@pytest.mark.extra(needs="s3")
def test_an_upload_that_fails_leaves_nothing(s3):
    with pytest.raises(ZeroDivisionError):
        write_half("s3://bucket/half.bin", SEVERAL_PARTS)

    s3.invalidate_cache()
    assert not s3.exists("bucket/half.bin")


@pytest.mark.extra(needs="s3")
def test_an_upload_of_several_parts_is_whole(s3):
    with stores.write_complete("s3://bucket/whole.bin") as file:
        file.write(SEVERAL_PARTS)

    s3.invalidate_cache()
    assert s3.size("bucket/whole.bin") == len(SEVERAL_PARTS)


@pytest.fixture
def folder_with_failures(folder):
    """The folder with two more files: bad.parquet is none, null.parquet has a row without text."""
    (folder / "bad.parquet").write_bytes(b"nothing")
    write_parquet(folder / "null.parquet", ["good", None])
    return folder


def test_the_command_goes_from_folder_to_folder(folder_with_failures, tmp_path, model):
    done = invoke(
        "embed", model, folder_with_failures, "-o", tmp_path / "out", "--n-jobs", 1, status=1
    )

    assert "62 rows of 5 files, " in done.stderr
    assert "manifest.json" in done.stderr


def test_the_command_says_what_failed(folder_with_failures, tmp_path, model):
    null = folder_with_failures / "null.parquet"
    bad = folder_with_failures / "bad.parquet"

    done = invoke("embed", model, null, bad, "-o", tmp_path / "out", "--n-jobs", 1, status=1)

    assert f"Bad row: {null}, row 2: must have a text. Got nothing" in done.stderr
    assert f"Failed: {bad} must be a whole Parquet file" in done.stderr


@pytest.mark.parametrize("output", [[], ["-o", "v.npy"]], ids=["none", "a file"])
def test_the_command_needs_a_folder_for_the_outputs_of_many_files(folder, model, output):
    first = folder / "deep" / "p0.parquet"
    second = folder / "deep" / "p1.parquet"

    done = invoke("embed", model, first, second, *output)

    assert "need a folder to write to" in done.stderr


def test_the_command_names_a_file_that_is_not_there(folder, model):
    done = invoke("embed", model, folder / "c.txt")

    assert "There is no file" in done.stderr


@pytest.fixture(scope="module")
def classifier():
    """A certified classifier of films."""
    good = [f"good film {n}" for n in range(40)]
    bad = [f"bad film {n}" for n in range(40)]
    labels = ["yes"] * 40 + ["no"] * 40
    plain = TextClassifier(None)
    return CertifiedClassifier(plain, calibration_size=0.5).fit(good + bad, labels)


@pytest.fixture(scope="module")
def classifier_folder(classifier, tmp_path_factory):
    """The classifier, saved."""
    path = tmp_path_factory.mktemp("classifier") / "model"
    save(classifier, path)
    return path


def test_classes_of_shards_are_those_of_the_classifier(classifier, classifier_folder, tmp_path):
    source = tmp_path / "a.parquet"
    out = tmp_path / "out"
    texts = ["a good one", "bad", "film"]
    write_parquet(source, texts, id=[7, 8, 9])

    scale.predict_shards(classifier_folder, [source], out, keep_columns=["id"], n_jobs=1)

    table = pq.read_table(out / "a.parquet")
    columns = {"id", "prediction", "probability", "set", "abstained", "reason"}
    assert set(table.column_names) == columns
    assert table["id"].to_pylist() == [7, 8, 9]
    assert table["prediction"].to_pylist() == classifier.predict(texts).tolist()


def test_classes_of_a_folder_with_two_kinds_of_files_are_a_table_for_each(
    classifier_folder, tmp_path
):
    folder = tmp_path / "in"
    out = tmp_path / "out"
    folder.mkdir()
    write_parquet(folder / "a.parquet", ["good", "bad", "film"])
    (folder / "b.csv").write_text("id,text\n1,good\n")

    scale.predict_shards(classifier_folder, [folder], out, n_jobs=1)

    first = pq.read_table(out / "a.parquet")
    second = pq.read_table(out / "b.parquet")
    assert first.num_rows == 3
    assert second.num_rows == 1


def test_damaged_tables_are_refused_by_name_whatever_is_damaged(tmp_path, model, rng):
    """Bytes of a Parquet file changed one after the other: a record or one clear line."""
    path = tmp_path / "a.parquet"
    write_parquet(path, TEXTS * 20)
    whole = path.read_bytes()

    for place in rng.integers(0, len(whole), 60):
        damaged = bytearray(whole)
        damaged[place] ^= int(rng.integers(1, 256))
        path.write_bytes(damaged)
        manifest = scale.embed_shards(model, [path], tmp_path / "out", overwrite=True, n_jobs=1)

        for error in manifest.failed.values():
            assert "a.parquet" in error
            assert "\n" not in error


@pytest.fixture(scope="module")
def cluster():
    """Two node processes of two cores each on this machine, and a head without cores."""
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    nodes = [made.add_node(num_cpus=2) for _ in range(2)]
    ray.init(address=made.address, log_to_driver=False, configure_logging=False)
    yield made, nodes
    ray.shutdown()
    made.shutdown()


def test_arrow_batches_get_the_vectors_of_this_machine(model, words):
    batch = pa.table({"id": range(6), "text": TEXTS})
    embed = scale.Embedder(model)

    table = embed(batch)

    np.testing.assert_array_equal(means_of(table), expected(words, TEXTS))
    assert table["variance"].null_count == 2


@pytest.mark.extra(needs="ray")
def test_a_ray_dataset_gets_its_vectors(cluster, numbered, tmp_path, model, words):
    import ray

    dataset = ray.data.read_parquet(str(numbered))
    embedded = dataset.map_batches(
        scale.Embedder,
        batch_size=4,
        fn_constructor_args=(model,),
        batch_format="pyarrow",
        concurrency=2,
    )

    rows = embedded.take_all()

    rows.sort(key=lambda row: row["id"])
    table = pa.Table.from_pylist(rows)
    pq.write_table(table, tmp_path / "all.parquet")
    assert_every_row_once(tmp_path, words)


def assert_embedded_on_ray(manifest, out, words):
    """Every row once, and no file failed."""
    totals = manifest.totals()
    assert not manifest.failed
    assert totals["rows"] == 36
    assert_every_row_once(out, words)


@pytest.mark.extra(needs="ray")
def test_rows_are_embedded_on_ray(cluster, numbered, tmp_path, model, words):
    out = tmp_path / "out"

    manifest = scale.embed_shards(
        model, [numbered], out, keep_columns=["id"], engine=scale.on_ray(), n_jobs=4
    )

    assert_embedded_on_ray(manifest, out, words)


@pytest.mark.extra(needs="ray")
def test_a_file_whose_process_is_killed_on_ray_is_done_again(
    cluster, numbered, tmp_path, model, words, monkeypatch
):
    from pacsent.scale import ray_engine

    out = tmp_path / "out"
    mark = tmp_path / "killed"
    work = ray_engine.work_on

    def work_badly(task):
        deadly = task.shard.source.endswith("3.parquet")
        if deadly and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return work(task)

    monkeypatch.setattr(ray_engine, "work_on", work_badly)

    manifest = scale.embed_shards(
        model, [numbered], out, keep_columns=["id"], engine=scale.on_ray(), n_jobs=4
    )

    assert mark.exists()
    assert_embedded_on_ray(manifest, out, words)


@pytest.mark.extra(needs="ray")
def test_files_of_a_node_that_is_lost_on_ray_are_done_again(
    cluster, numbered, tmp_path, model, words, monkeypatch
):
    from pacsent.scale import ray_engine

    made, nodes = cluster
    out = tmp_path / "out"
    removed = []
    work = ray_engine.work_on

    def work_slowly(task):
        time.sleep(0.5)
        return work(task)

    def losing_a_node(tasks, n_jobs, advance):
        engine = scale.on_ray()
        for result in engine(tasks, n_jobs, advance):
            if not removed:
                node = nodes.pop()
                made.remove_node(node, allow_graceful=False)
                removed.append(node)
            yield result

    monkeypatch.setattr(ray_engine, "work_on", work_slowly)

    manifest = scale.embed_shards(
        model, [numbered], out, keep_columns=["id"], engine=losing_a_node, n_jobs=4
    )
    nodes.append(made.add_node(num_cpus=2))
    made.wait_for_nodes()

    assert removed
    assert_embedded_on_ray(manifest, out, words)


@pytest.mark.extra(needs="ray")
def test_a_driver_on_ray_that_is_killed_and_started_again_loses_no_row(
    cluster, numbered, tmp_path, model, words
):
    made, _ = cluster
    out = tmp_path / "out"
    engine = f"scale.on_ray({made.address!r})"
    kill_after_first_file(numbered, out, model, "ray_engine", engine)

    manifest = scale.embed_shards(model, [numbered], out, keep_columns="*", engine=scale.on_ray())

    assert_embedded_on_ray(manifest, out, words)
