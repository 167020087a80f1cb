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
    I, O = rng.standard_normal((2, len(WORDS), 5)).astype(np.float32)
    vocabulary = Vocabulary(WORDS, range(60, 0, -10))
    return WordVectors(vocabulary, I, O)


@pytest.fixture(scope="module")
def model(words, tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "average"
    save(make_encoder("Average", words).fit(["a"]), path)
    return str(path)


def vectors(path):
    table = pq.read_table(path)
    return np.array(table["mean"].to_pylist(), dtype=np.float32).reshape(table.num_rows, -1)


def expected(words, texts):
    return make_encoder("Average", words, on_empty="ignore").fit(["a"]).transform(texts)


def write_parquet(path, texts, **columns):
    pq.write_table(pa.table({**columns, "text": texts}), path)


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()], ids=str)
@pytest.mark.parametrize("normalize", ["paper", "unicode"])
def test_bytes_of_an_arrow_column_encode_as_strings_do(kind, normalize):
    vocabulary = Vocabulary([*WORDS, "ünïcode", "é"], normalize=normalize)
    column = pa.array(["before", *TEXTS], kind).slice(1)
    encoded = encode_bytes(vocabulary, *text_bytes(column))
    for array, expected_array in zip(encoded, vocabulary.encode(TEXTS)):
        np.testing.assert_array_equal(array, expected_array)
    with pytest.raises(ValueError, match=r"bounds must rise .* 3 bytes"):
        encode_bytes(vocabulary, np.zeros(3, np.uint8), np.array([0, 4]))


def shards_of(kind, folder):
    """The texts as a file of this kind."""
    lines = {
        "jsonl": "".join(json.dumps({"n": i, "text": t}) + "\n" for i, t in enumerate(TEXTS)),
        "csv": "n,text\n" + "".join(f'{i},"{t}"\n' for i, t in enumerate(TEXTS)),
        "tsv": "n\ttext\n" + "".join(f"{i}\t{t}\n" for i, t in enumerate(TEXTS)),
        "txt": "\n".join(TEXTS),
    }
    path = folder / f"part.{kind}"
    if kind == "parquet":
        write_parquet(path, TEXTS, n=list(range(len(TEXTS))))
    elif kind.endswith(".gz"):
        path.write_bytes(gzip.compress(lines[kind[:-3]].encode()))
    else:
        path.write_text(lines[kind])
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


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_columns_that_have_the_name_of_a_result_are_renamed(tmp_path, model, kind):
    source = tmp_path / f"a.{kind}"
    frame = pd.DataFrame({"text": ["good", "bad"], "mean": ["m1", "m2"], "variance": ["v1", "v2"]})
    frame.to_parquet(source) if kind == "parquet" else frame.to_csv(source, index=False)
    for format in ("parquet", "jsonl", "csv", "tsv"):
        out = tmp_path / format
        manifest = scale.embed_shards(model, source, out, keep_columns=["*"], format=format)
        if format == "parquet":
            table = pd.read_parquet(out / "a.parquet")
        elif format == "jsonl":
            table = pd.read_json(out / "a.jsonl", lines=True)
        else:
            table = pd.read_csv(out / f"a.{format}", sep={"csv": ",", "tsv": "\t"}[format])
        assert list(table.columns)[:3] == ["text", "input_mean", "input_variance"]
        assert len(set(table.columns)) == len(table.columns)
        assert list(table["input_mean"]) == ["m1", "m2"] and table["variance"].notna().all()
        note = manifest.files["a"].warnings[0]
        assert "The column mean of" in note and "named input_mean in the output" in note


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
    folder = tmp_path / "in"
    (folder / "deep").mkdir(parents=True)
    for i in range(4):
        write_parquet(folder / "deep" / f"p{i}.parquet", [f"{t} good" for t in TEXTS] * (i + 1))
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


def test_outputs_of_removed_inputs_are_named_until_they_are_deleted(tmp_path, model):
    inputs = tmp_path / "in"
    inputs.mkdir()
    for name in ("1.txt", "2.txt"):
        (inputs / name).write_text("a good film\n")
    scale.embed_shards(model, [inputs], tmp_path / "out")
    (inputs / "2.txt").unlink()

    for _ in range(2):  # in a second run, too
        with pytest.warns(UserWarning, match=r"1 output in .*no longer given: 2\.parquet"):
            manifest = scale.embed_shards(model, [inputs], tmp_path / "out")
        assert manifest.outdated == ["2.parquet"] and manifest.totals()["rows"] == 1
        assert (tmp_path / "out" / "2.parquet").exists()

    (tmp_path / "out" / "2.parquet").unlink()
    assert scale.embed_shards(model, [inputs], tmp_path / "out").outdated == []


def test_outputs_in_another_format_are_named_when_they_are_replaced(tmp_path, model):
    (tmp_path / "1.txt").write_text("a good film\n")
    scale.embed_shards(model, [tmp_path / "1.txt"], tmp_path / "out")
    with pytest.warns(UserWarning, match=r"1\.parquet"):
        scale.embed_shards(
            model, [tmp_path / "1.txt"], tmp_path / "out", format="jsonl", overwrite=True
        )


def test_a_source_that_changed_behind_the_same_size_and_time_is_read_again(tmp_path, words, model):
    source, out = tmp_path / "a.txt", tmp_path / "out"
    source.write_text("good\n")
    before = source.stat()
    scale.embed_shards(model, [source], out, n_jobs=1)
    source.write_text("film\n")
    os.utime(source, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert source.stat().st_size == before.st_size
    scale.embed_shards(model, [source], out, n_jobs=1)
    np.testing.assert_array_equal(vectors(out / "a.parquet"), expected(words, ["film"]))


@pytest.mark.parametrize(
    ("source", "target"), [("", "out"), ("deep/*.parquet", "deep")], ids=["folder", "pattern"]
)
def test_outputs_among_the_sources_are_refused(folder, model, source, target):
    with pytest.raises(ValueError, match="must be outside of the sources"):
        scale.embed_shards(model, [folder / source], folder / target, overwrite=True)


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


def kill_after_first_file(numbered, out, model, module, engine):
    """A driver with a second for each file, killed after it has written one."""
    settings = {"model": model, "folder": str(numbered), "out": str(out)}
    code = _SLOW_DRIVER.format(**settings, module=module, engine=engine)
    process = subprocess.Popen([sys.executable, "-c", code])
    deadline = time.monotonic() + 120
    while not list(out.rglob("[!.]*.parquet")) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.kill()
    process.wait()
    assert 1 <= len(list(out.rglob("[!.]*.parquet"))) < 6


_SLOW_DRIVER = """
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
    for i in range(6):
        write_parquet(folder / f"{i}.parquet", TEXTS, id=range(6 * i, 6 * i + 6))
    return folder


def check_numbered(out, words):
    """Every row once, with the vectors of this machine."""
    table = pa.concat_tables(pq.read_table(path) for path in sorted(out.glob("*.parquet")))
    assert table["id"].to_pylist() == list(range(36))
    means = np.array(table["mean"].to_pylist(), np.float32)
    np.testing.assert_array_equal(means, np.tile(expected(words, TEXTS), (6, 1)))


@pytest.mark.slow
def test_a_driver_that_is_killed_and_restarted_does_each_row_once(numbered, tmp_path, words, model):
    out = tmp_path / "out"
    kill_after_first_file(numbered, out, model, "shard_runner", None)
    scale.embed_shards(model, [numbered], out, keep_columns="*", n_jobs=1)
    check_numbered(out, words)
    # what was being written when it was killed stays hidden, and is removed a day later
    assert all(".saving-" in path.name for path in out.glob(".*"))


@pytest.mark.slow
def test_a_process_that_is_killed_costs_only_its_file(folder, tmp_path, model):
    """A file whose worker dies, twice, is a failure with a name; the others are done."""
    deadly = folder / "deep" / "p2.parquet"
    code = f"""
import os, signal
from pacsent import scale
from pacsent.scale.shard_writer import ShardTask

def deadly(task, advance=None, right=ShardTask.work):
    if task.shard.source.endswith("p2.parquet"):
        os.kill(os.getpid(), signal.SIGKILL)
    return right(task, advance)

ShardTask.work = deadly
if __name__ == "__main__":
    found = scale.embed_shards({model!r}, [{str(folder)!r}], {str(tmp_path / "out")!r}, n_jobs=2)
    print(len(found.files), found.failed)
"""
    script = tmp_path / "run.py"
    script.write_text(code)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=200)
    assert done.stdout.startswith("3 "), done.stderr
    assert str(deadly) in done.stdout and "was killed" in done.stdout


def test_a_store_without_moves_in_one_step_is_written_beside(words, model):
    import fsspec

    memory = fsspec.filesystem("memory")
    memory.pipe("/in/deep/a.jsonl.gz", gzip.compress(b'{"text": "good"}\n{"text": "bad"}\n'))
    scale.embed_shards(model, ["memory://in"], "memory://out", n_jobs=1)
    assert sorted(memory.find("/out")) == ["/out/deep/a.parquet", "/out/manifest.json"]
    means = vectors(io.BytesIO(memory.cat("/out/deep/a.parquet")))
    np.testing.assert_array_equal(means, expected(words, ["good", "bad"]))
    with pytest.raises(ZeroDivisionError), stores.write_complete("memory://out/b") as file:
        file.write(b"half")
        raise ZeroDivisionError
    assert len(memory.find("/out")) == 2
    memory.rm(["/in", "/out"], recursive=True)


@pytest.fixture(scope="module")
def s3():
    """A server of its own process that speaks S3, and the environment that leads to it."""
    pytest.importorskip("moto.server")
    s3fs = pytest.importorskip("s3fs")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    server = subprocess.Popen(command, **quiet)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", "any")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "any")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        patch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
        for _ in range(100):
            try:
                store = s3fs.S3FileSystem()
                store.mkdir("bucket")
                break
            except OSError:
                time.sleep(0.2)
        yield store
    server.terminate()
    server.wait()


@pytest.mark.extra(needs="s3")
def test_s3_to_s3_through_a_real_server(s3, folder, words, model):
    s3.put(str(folder), "bucket/in", recursive=True)
    for _ in range(2):  # the second time everything is finished
        command = [sys.executable, "-m", "pacsent", "embed", model, "s3://bucket/in"]
        command += ["-o", "s3://bucket/out", "--n-jobs", "2", "--keep-columns", "text"]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert "60 rows of 4 files" in done.stderr
        s3.invalidate_cache()
        assert sum(path.endswith(".parquet") for path in s3.find("bucket/out")) == 4
    assert json.loads(s3.cat("bucket/out/manifest.json"))["totals"]["rows"] == 60
    means = vectors(io.BytesIO(s3.cat("bucket/out/deep/p3.parquet")))
    np.testing.assert_array_equal(means, expected(words, [f"{t} good" for t in TEXTS] * 4))


@pytest.mark.extra(needs="s3")
def test_an_upload_that_fails_leaves_nothing(s3):
    content = b"x" * (40 << 20)  # of several parts
    with pytest.raises(ZeroDivisionError), stores.write_complete("s3://bucket/half.bin") as file:
        file.write(content)
        raise ZeroDivisionError
    with stores.write_complete("s3://bucket/whole.bin") as file:
        file.write(content)
    s3.invalidate_cache()
    assert not s3.exists("bucket/half.bin") and s3.size("bucket/whole.bin") == len(content)


def test_the_command_goes_from_folder_to_folder_and_says_what_failed(folder, tmp_path, model):
    def run(*arguments):
        return invoke("embed", model, *arguments)

    (folder / "bad.parquet").write_bytes(b"nothing")
    write_parquet(folder / "null.parquet", ["good", None])
    result = run(folder, "-o", tmp_path / "out", "--n-jobs", "1")
    assert result.exit_code == 1
    for message in (
        "62 rows of 5 files, ",
        "manifest.json",
        f"Bad row: {folder / 'null.parquet'}, row 2: must have a text. Got nothing",
        f"Failed: {folder / 'bad.parquet'} must be a whole Parquet file",
    ):
        assert message in result.stderr
    many = (folder / "bad.parquet", folder / "null.parquet")
    for output in ([], ["-o", tmp_path / "v.npy"]):
        assert "need a folder to write to" in run(*many, *output).stderr
    assert "There is no file" in run(folder / "c.txt").stderr


def test_classes_of_many_files_are_those_of_one(tmp_path):
    texts = [f"{word} film {n}" for word in ("good", "bad") for n in range(40)]
    plain = TextClassifier(None)
    classifier = CertifiedClassifier(plain, calibration_size=0.5)
    save(classifier.fit(texts, ["yes"] * 40 + ["no"] * 40), tmp_path / "model")
    (tmp_path / "in").mkdir()
    write_parquet(tmp_path / "in" / "a.parquet", ["a good one", "bad", "film"], id=[7, 8, 9])
    (tmp_path / "in" / "b.csv").write_text("id,text\n1,good\n")
    paths, out = (tmp_path / "model", [tmp_path / "in"]), tmp_path / "out"
    scale.predict_shards(*paths, out, keep_columns=["id"], n_jobs=1)
    table = pq.read_table(out / "a.parquet").to_pydict()
    assert table["id"] == [7, 8, 9]
    assert table["prediction"] == classifier.predict(["a good one", "bad", "film"]).tolist()
    assert set(table) == {"id", "prediction", "probability", "set", "abstained", "reason"}
    assert pq.read_table(out / "b.parquet").num_rows == 1


def test_damaged_tables_are_refused_by_name_whatever_is_damaged(tmp_path, model):
    """Bytes of a Parquet file changed one after the other: a record or one clear line."""
    file = io.BytesIO()
    pq.write_table(pa.table({"text": TEXTS * 20}), file)
    whole = bytearray(file.getvalue())
    rng = np.random.default_rng(0)
    for at in rng.integers(0, len(whole), 60):
        damaged = bytearray(whole)
        damaged[at] ^= int(rng.integers(1, 256))
        (tmp_path / "a.parquet").write_bytes(damaged)
        manifest = scale.embed_shards(
            model, [tmp_path / "a.parquet"], tmp_path / "out", overwrite=True, n_jobs=1
        )
        for error in manifest.failed.values():
            assert "a.parquet" in error and "\n" not in error


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
    table = scale.Embedder(model)(pa.table({"id": range(6), "text": TEXTS}))
    means = np.array(table["mean"].to_pylist(), np.float32)
    np.testing.assert_array_equal(means, expected(words, TEXTS))
    assert table["variance"].null_count == 2


@pytest.mark.extra(needs="ray")
def test_a_ray_dataset_gets_its_vectors(cluster, numbered, tmp_path, model, words):
    import ray

    dataset = ray.data.read_parquet(str(numbered))
    how = {"fn_constructor_args": (model,), "batch_format": "pyarrow", "concurrency": 2}
    rows = dataset.map_batches(scale.Embedder, batch_size=4, **how).take_all()
    rows.sort(key=lambda row: row["id"])
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "all.parquet")
    check_numbered(tmp_path, words)


@pytest.mark.extra(needs="ray")
@pytest.mark.parametrize("lost", ["nothing", "process", "node"])
def test_what_is_lost_on_ray_is_done_again(cluster, numbered, tmp_path, model, words, lost):
    """A process is killed while it works on a file, or a node with all its workers."""
    from pacsent.scale import ray_engine

    made, nodes = cluster
    mark, work = tmp_path / "killed", ray_engine.work_on

    def work_badly(task):
        if lost == "process" and task.shard.source.endswith("3.parquet") and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        if lost == "node":
            time.sleep(0.5)
        return work(task)

    def engine(tasks, n_jobs, advance):
        for result in scale.on_ray()(tasks, n_jobs, advance):
            if lost == "node" and not mark.exists():
                mark.touch()
                made.remove_node(nodes.pop(), allow_graceful=False)
            yield result

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ray_engine, "work_on", work_badly)
        manifest = scale.embed_shards(
            model, [numbered], tmp_path / "out", keep_columns=["id"], engine=engine, n_jobs=4
        )
    if lost == "node":
        nodes.append(made.add_node(num_cpus=2))
        made.wait_for_nodes()
    assert mark.exists() == (lost != "nothing") and not manifest.failed
    assert manifest.totals()["rows"] == 36
    check_numbered(tmp_path / "out", words)


@pytest.mark.extra(needs="ray")
def test_a_driver_on_ray_that_is_killed_and_started_again_loses_no_row(
    cluster, numbered, tmp_path, model, words
):
    out, engine = tmp_path / "out", f"scale.on_ray({cluster[0].address!r})"
    kill_after_first_file(numbered, out, model, "ray_engine", engine)
    how = {"keep_columns": "*", "engine": scale.on_ray()}
    assert not scale.embed_shards(model, [numbered], out, **how).failed
    check_numbered(out, words)
    assert json.loads((out / "manifest.json").read_text())["totals"]["rows"] == 36
