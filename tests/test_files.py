"""An interrupted write leaves what was there before; nothing is replaced unasked."""

import errno
import os
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from pacsent import Vocabulary, WordVectors, files, load, make_encoder, save
from pacsent.paper import reproduction
from pacsent.text import clean_files, result_files
from pacsent.words import formats


def words_of(n=5):
    rng = np.random.default_rng(n)
    names = [f"{a}{b}" for a in "abcdefgh" for b in "xyz"][:n]
    tables = rng.normal(size=(2, n, 4)).astype(np.float32)
    return WordVectors(Vocabulary(names, np.arange(n, 0, -1) * 9), *tables)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def run(*arguments):
    command = [sys.executable, "-m", "pacsent", *map(str, arguments)]
    return subprocess.run(
        command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=300
    )


def test_a_file_is_in_its_place_only_when_whole(tmp_path):
    place = tmp_path / "a"
    place.write_bytes(b"old")
    place.chmod(0o600)
    with files.replacing(place) as file:
        file.write(b"new")
        assert place.read_bytes() == b"old"
        assert len(names(tmp_path)) == 2
    assert place.read_bytes() == b"new"
    assert place.stat().st_mode & 0o777 == 0o600
    with pytest.raises(KeyboardInterrupt), files.replacing(place) as file:
        file.write(b"half")
        raise KeyboardInterrupt
    assert place.read_bytes() == b"new"
    assert names(tmp_path) == ["a"]


def test_every_file_is_on_the_disk_before_it_is_moved(tmp_path, monkeypatch):
    done = []

    def record(module, name, entry):
        original = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *a: (done.append(entry(*a)), original(*a))[1])

    record(os, "fsync", lambda fd: Path(os.readlink(f"/proc/self/fd/{fd}")).name)
    record(os, "replace", lambda source, target: "move")
    record(files, "_move_folder", lambda source, target, kept: "move")
    with files.replacing(tmp_path / "a") as file:
        file.write(b"x")
    assert done[1:] == ["move", tmp_path.name]  # the file, and the folder that names it
    done.clear()
    with files.replacing_folder(tmp_path / "f") as folder:
        (folder / "a").write_text("1")
        (folder / "inner").mkdir()
        (folder / "inner" / "b").write_text("2")
    assert {"a", "b", "inner"} < set(done[: done.index("move")])
    assert (tmp_path / "f" / "inner" / "b").read_text() == "2"


def test_a_full_disk_is_one_line_and_leaves_nothing(tmp_path):
    with (
        pytest.raises(OSError, match=r"The disk that holds .* is full: .*v.npy was not saved") as e,
        files.replacing(tmp_path / "v.npy") as file,
    ):
        file.write(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")
    assert e.value.errno == errno.ENOSPC  # so that who can go on without it can tell
    assert names(tmp_path) == []


def test_two_writers_of_one_name_do_not_meet(tmp_path):
    """With one fixed name beside, one of two would move the other's half."""

    def write(number):
        for _ in range(40):
            reproduction.write_json(tmp_path / "r.json", {"n": number, "filler": [number] * 2000})

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))  # raises what a writer raised
    assert names(tmp_path) == ["r.json"]


def test_stdout_a_device_and_a_pipe_are_written_to_as_they_are(tmp_path, capfdbinary):
    with files.replacing("-") as file:
        file.write(b"one")
    with files.replacing("/dev/stdout") as file:
        file.write(b"two")
    assert capfdbinary.readouterr().out == b"onetwo"
    with files.replacing("/dev/null") as file:
        file.write(b"x")
    assert Path("/dev/null").is_char_device()
    (tmp_path / "link").symlink_to(tmp_path / "out")
    with files.replacing(tmp_path / "link") as file:
        file.write(b"x")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "out").read_bytes() == b"x"
    batches = [{"mean": np.ones((1, 2), np.float32)}]
    for name in ("v.tsv", "v.npy"):
        os.mkfifo(tmp_path / name)
    reader = os.open(tmp_path / "v.tsv", os.O_RDONLY | os.O_NONBLOCK)
    assert result_files.write(batches, tmp_path / "v.tsv", suffix="plain") == 1
    assert os.read(reader, 100) == b"1\t1\n"
    os.close(reader)
    with pytest.raises(ValueError, match=r"A pipe or a device takes .csv, .tsv or .jsonl"):
        result_files.write(batches, tmp_path / "v.npy")


@pytest.mark.parametrize(
    "how, status", [(signal.SIGTERM, 143), pytest.param(signal.SIGINT, 130, marks=pytest.mark.slow)]
)
def test_a_stopped_command_leaves_nothing_half_written(tmp_path, how, status):
    command = [sys.executable, "-m", "pacsent", "vectors", "clean", "-", "--quiet"]
    process = subprocess.Popen(
        [*command, "-o", tmp_path / "clean.txt"],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    process.stdin.write(b"some words here\n" * 300_000)
    process.stdin.flush()
    deadline = time.monotonic() + 100
    while not names(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert names(tmp_path), "nothing was begun"
    process.send_signal(how)
    stderr = process.stderr.read()
    assert process.wait(60) == status, stderr
    process.stdin.close()
    assert names(tmp_path) == []
    assert stderr.strip() in (b"Interrupted.", b"Terminated.")


@pytest.fixture
def place(tmp_path):
    save(words_of(), tmp_path / "A")
    (tmp_path / "t.txt").write_text("ax ay az bx by\n" * 40)
    return tmp_path


def content(path):
    paths = [path] if path.is_file() else [p for p in path.rglob("*") if p.is_file()]
    return {p.relative_to(path.parent): p.read_bytes() for p in paths}


TRAIN = ["--n-dims", 4, "--n-epochs", 1, "--subsample", 0, "--min-count", 1, "--n-jobs", 1]


@pytest.mark.slow
def test_commands_replace_nothing_without_being_told(place):
    before = content(place / "A")
    for command in (
        ("vectors", "fit", "PB-L2", place / "A", place / "t.txt", "-o", place / "M"),
        ("vectors", "train", place / "t.txt", "-o", place / "W", *TRAIN, "--quiet"),
        ("embed", place / "M", place / "t.txt", "-o", place / "v.npy"),
    ):
        output = place / command[command.index("-o") + 1]
        first = run(*command)
        assert first.returncode == 0, first.stderr
        made = content(output)
        second = run(*command)
        assert second.returncode == 1
        assert re.search(
            rf"Error: {output} exists\. Choose another name, .*--overwrite", second.stderr
        )
        assert content(output) == made
        third = run(*command, "--overwrite")
        assert third.returncode == 0, third.stderr
    assert content(place / "A") == before
    assert not (place / "W.training").exists()
    assert np.load(place / "v.npy").shape == (40, 4)


@pytest.mark.slow
def test_no_command_writes_over_what_it_reads(place):
    formats.write(words_of(), place / "v.txt")
    (place / "A" / "lines.txt").write_text("ax ay\n")
    save(make_encoder("PB-L2", words_of()).fit(["ax ay"]), place / "M")
    before = content(place)
    fit = ("vectors", "fit", "PB-L2", place / "A", place / "t.txt", "-o")
    for command in (
        (*fit, place / "A"),
        (*fit, place / "A" / "inside"),
        ("vectors", "train", place / "A" / "lines.txt", "-o", place / "A", *TRAIN, "--quiet"),
        ("vectors", "clean", place / "t.txt", "-o", place / "t.txt"),
        ("embed", place / "M", place / "t.txt", "-o", place / "M" / "words" / "v.tsv"),
        ("model", "convert", place / "v.txt", place / "v.txt"),
        ("model", "convert", place / "v.txt", place / "context_v.txt"),
        ("model", "convert", place / "A", place / "A"),
    ):
        found = run(*command, "--overwrite")
        assert found.returncode in (1, 2), command
        assert "must be none of the inputs, which are never overwritten" in found.stderr, command
        assert "Traceback" not in found.stderr
    assert content(place) == before


def test_save_and_clean_files_replace_only_when_told(place):
    with pytest.raises(FileExistsError, match=r"A exists\. Choose another name, .*overwrite=True"):
        save(words_of(7), place / "A")
    assert load(place / "A").n_words == 5
    save(words_of(7), place / "A", overwrite=True)
    assert load(place / "A").n_words == 7
    (place / "empty.txt").write_text("")
    assert clean_files([place / "t.txt"], place / "empty.txt") > 0  # nothing to lose
    with pytest.raises(FileExistsError, match=r"empty.txt exists"):
        clean_files([place / "t.txt"], place / "empty.txt")
    assert clean_files([place / "t.txt"], place / "empty.txt", overwrite=True) > 0


@pytest.mark.parametrize("words", ["copy", "reference"])
def test_an_estimator_is_never_saved_over_its_word_vectors(place, words):
    fitted = make_encoder("PB-L2", load(place / "A")).fit(["ax ay"])
    before = content(place / "A")
    with pytest.raises(ValueError, match="must be none of the inputs"):
        save(fitted, place / "A", words=words, overwrite=True)
    assert content(place / "A") == before
    save(fitted, place / "M")
    save(load(place / "M").fit(["ay az"]), place / "M", overwrite=True)  # its own copy goes along
    assert load(place / "M").transform(["ax"]).shape == (1, 4)
