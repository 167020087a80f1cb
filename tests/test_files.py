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
    every_name = [f"{first}{second}" for first in "abcdefgh" for second in "xyz"]
    counts = 9 * np.arange(n, 0, -1)
    tables = rng.normal(size=(2, n, 4)).astype(np.float32)
    return WordVectors(Vocabulary(every_name[:n], counts), *tables)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


# ---- One file or folder -------------------------------------------------------------------------


@pytest.fixture
def old_file(tmp_path):
    """A file that only its owner may read, alone in its folder."""
    path = tmp_path / "a"
    path.write_bytes(b"old")
    path.chmod(0o600)
    return path


def test_a_file_is_in_its_place_only_when_whole(tmp_path, old_file):
    with files.replacing(old_file) as file:
        file.write(b"new")
        assert old_file.read_bytes() == b"old"
        assert len(names(tmp_path)) == 2

    assert old_file.read_bytes() == b"new"
    assert names(tmp_path) == ["a"]


def test_a_file_that_is_replaced_keeps_its_permissions(old_file):
    with files.replacing(old_file) as file:
        file.write(b"new")

    assert old_file.stat().st_mode & 0o777 == 0o600


def test_an_interrupted_write_leaves_the_old_file(tmp_path, old_file):
    with pytest.raises(KeyboardInterrupt), files.replacing(old_file) as file:
        file.write(b"half")
        raise KeyboardInterrupt

    assert old_file.read_bytes() == b"old"
    assert names(tmp_path) == ["a"]


@pytest.fixture
def disk_calls(monkeypatch):
    """What was written to the disk, by name, and "move" where something was moved into place."""
    calls = []
    fsync = os.fsync
    replace = os.replace
    move_folder = files._move_folder

    def record_fsync(descriptor):
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        calls.append(Path(path).name)
        fsync(descriptor)

    def record_replace(*paths):
        calls.append("move")
        replace(*paths)

    def record_move(*arguments):
        calls.append("move")
        move_folder(*arguments)

    monkeypatch.setattr(os, "fsync", record_fsync)
    monkeypatch.setattr(os, "replace", record_replace)
    monkeypatch.setattr(files, "_move_folder", record_move)
    return calls


def test_a_file_is_on_the_disk_before_it_is_moved(tmp_path, disk_calls):
    with files.replacing(tmp_path / "a") as file:
        file.write(b"x")

    _, *after_the_file = disk_calls
    assert after_the_file == ["move", tmp_path.name]  # the folder that names it


def test_every_file_of_a_folder_is_on_the_disk_before_it_is_moved(tmp_path, disk_calls):
    with files.replacing_folder(tmp_path / "f") as folder:
        (folder / "a").write_text("1")
        (folder / "inner").mkdir()
        (folder / "inner" / "b").write_text("2")

    place_of_move = disk_calls.index("move")
    assert {"a", "b", "inner"} < set(disk_calls[:place_of_move])
    assert (tmp_path / "f" / "inner" / "b").read_text() == "2"


def test_a_full_disk_is_one_line_and_leaves_nothing(tmp_path):
    message = r"The disk that holds .* is full: .*v.npy was not saved"

    with (
        pytest.raises(OSError, match=message) as error,
        files.replacing(tmp_path / "v.npy") as file,
    ):
        file.write(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    assert error.value.errno == errno.ENOSPC  # so that who can go on without it can tell
    assert names(tmp_path) == []


def test_two_writers_of_one_name_do_not_meet(tmp_path):
    """With one fixed name beside, one of two would move the other's half."""

    def write(number):
        result = {"n": number, "filler": [number] * 2000}
        for _ in range(40):
            reproduction.write_json(tmp_path / "r.json", result)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))  # raises what a writer raised

    assert names(tmp_path) == ["r.json"]


# ---- Standard output, devices, links and pipes --------------------------------------------------


@pytest.mark.parametrize("stdout", ["-", "/dev/stdout"])
def test_stdout_is_written_to_as_it_is(stdout, capfdbinary):
    with files.replacing(stdout) as file:
        file.write(b"one")

    assert capfdbinary.readouterr().out == b"one"


def test_a_device_stays_a_device():
    with files.replacing("/dev/null") as file:
        file.write(b"x")

    assert Path("/dev/null").is_char_device()


def test_the_target_of_a_link_is_written(tmp_path):
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "out")

    with files.replacing(link) as file:
        file.write(b"x")

    assert link.is_symlink()
    assert (tmp_path / "out").read_bytes() == b"x"


ONE_VECTOR = {"mean": np.ones((1, 2), np.float32)}


def test_a_table_is_written_to_a_pipe(tmp_path):
    pipe = tmp_path / "v.tsv"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)

    n_rows = result_files.write([ONE_VECTOR], pipe, suffix="plain")

    content = os.read(reader, 100)
    os.close(reader)
    assert n_rows == 1
    assert content == b"1\t1\n"


def test_an_array_is_not_written_to_a_pipe(tmp_path):
    pipe = tmp_path / "v.npy"
    os.mkfifo(pipe)

    with pytest.raises(ValueError, match=r"A pipe or a device takes .csv, .tsv or .jsonl"):
        result_files.write([ONE_VECTOR], pipe)


# ---- Commands -----------------------------------------------------------------------------------


@pytest.fixture
def cleaning(tmp_path):
    """A process that cleans texts from its input, and has begun to write its output."""
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

    yield process

    process.kill()
    process.communicate()


@pytest.mark.parametrize(
    ("how", "status", "message"),
    [
        (signal.SIGTERM, 143, b"Terminated."),
        pytest.param(signal.SIGINT, 130, b"Interrupted.", marks=pytest.mark.slow),
    ],
)
def test_a_stopped_command_leaves_nothing_half_written(tmp_path, cleaning, how, status, message):
    cleaning.send_signal(how)

    stderr = cleaning.stderr.read()
    assert cleaning.wait(60) == status, stderr
    assert names(tmp_path) == []
    assert stderr.strip() == message


@pytest.fixture
def place(tmp_path, monkeypatch):
    """The working folder, with word vectors A, an estimator M and texts."""
    save(words_of(), tmp_path / "A")
    save(make_encoder("PB-L2", words_of()).fit(["ax ay"]), tmp_path / "M")
    (tmp_path / "t.txt").write_text("ax ay az bx by\n" * 40)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(line):
    """Run a command in a process of its own."""
    command = [sys.executable, "-m", "pacsent", *line.split()]
    return subprocess.run(
        command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=300
    )


def content(path):
    """The content of a file, or of all files of a folder."""
    paths = [path] if path.is_file() else path.rglob("*")
    return {file: file.read_bytes() for file in paths if file.is_file()}


TRAINING = "--n-dims 4 --n-epochs 1 --subsample 0 --min-count 1 --n-jobs 1 --quiet"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "output"),
    [
        ("vectors fit PB-L2 A t.txt -o N", "N"),
        (f"vectors train t.txt -o W {TRAINING}", "W"),
        ("embed M t.txt -o v.npy", "v.npy"),
    ],
)
def test_a_command_replaces_its_output_only_when_told(place, line, output):
    inputs = content(place)
    first = run(line)
    assert first.returncode == 0, first.stderr
    assert names(place) == sorted(["A", "M", "t.txt", output])
    made = content(place)

    second = run(line)
    assert second.returncode == 1
    message = rf"Error: {output} exists\. Choose another name, .*--overwrite"
    assert re.search(message, second.stderr)
    assert content(place) == made

    third = run(f"{line} --overwrite")
    assert third.returncode == 0, third.stderr
    assert names(place) == sorted(["A", "M", "t.txt", output])
    assert inputs.items() <= content(place).items()


@pytest.mark.slow
@pytest.mark.parametrize(
    "line",
    [
        "vectors fit PB-L2 A t.txt -o A",
        "vectors fit PB-L2 A t.txt -o A/inside",
        f"vectors train A/lines.txt -o A {TRAINING}",
        "vectors clean t.txt -o t.txt",
        "embed M t.txt -o M/words/v.tsv",
        "model convert v.txt v.txt",
        "model convert v.txt context_v.txt",
        "model convert A A",
    ],
)
def test_no_command_writes_over_what_it_reads(place, line):
    formats.write(words_of(), place / "v.txt")
    (place / "A" / "lines.txt").write_text("ax ay\n")
    before = content(place)

    done = run(f"{line} --overwrite")

    assert done.returncode in (1, 2)
    assert "must be none of the inputs, which are never overwritten" in done.stderr
    assert "Traceback" not in done.stderr
    assert content(place) == before


# ---- Functions ----------------------------------------------------------------------------------


def test_save_replaces_nothing_without_being_told(place):
    with pytest.raises(FileExistsError, match=r"A exists\. Choose another name, .*overwrite=True"):
        save(words_of(7), place / "A")

    assert load(place / "A").n_words == 5


def test_save_replaces_a_model_when_told(place):
    save(words_of(7), place / "A", overwrite=True)

    assert load(place / "A").n_words == 7


def test_clean_files_replaces_only_an_empty_file_without_being_told(place):
    cleaned = place / "cleaned.txt"
    cleaned.write_text("")

    assert clean_files([place / "t.txt"], cleaned) > 0  # nothing to lose
    with pytest.raises(FileExistsError, match=r"cleaned.txt exists"):
        clean_files([place / "t.txt"], cleaned)
    assert clean_files([place / "t.txt"], cleaned, overwrite=True) > 0


@pytest.mark.parametrize("words", ["copy", "reference"])
def test_an_estimator_is_never_saved_over_its_word_vectors(place, words):
    fitted = make_encoder("PB-L2", load(place / "A")).fit(["ax ay"])
    before = content(place / "A")

    with pytest.raises(ValueError, match="must be none of the inputs"):
        save(fitted, place / "A", words=words, overwrite=True)

    assert content(place / "A") == before


def test_an_estimator_is_saved_over_itself_with_its_own_copy_of_word_vectors(place):
    fitted_again = load(place / "M").fit(["ay az"])

    save(fitted_again, place / "M", overwrite=True)

    assert load(place / "M").transform(["ax"]).shape == (1, 4)
