"""A saved model is a folder that opens at once, and that nothing can half overwrite."""

import contextlib
import errno
import hashlib
import json
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import pacsent
from pacsent import Vocabulary, WordVectors, files, load, registry, save, storage
from pacsent.storage import check, saving, tensor_files
from pacsent.storage.checksums import file_record
from pacsent.storage.model_folder import read_config, write_config
from pacsent.words import formats, vectors
from pacsent.words.subwords import Subwords

COMMITTED = Path(__file__).parent / "data" / "model"  # a fitted method


def same(a, b):
    assert list(a.words) == list(b.words)
    assert (a.counts is None) == (b.counts is None)
    if a.counts is not None:
        assert_array_equal(a.counts, b.counts)
    for table, other in (
        (a.input_vectors, b.input_vectors),
        (a.output_vectors, b.output_vectors),
    ):
        assert (table is None) == (other is None)
        if table is not None:
            assert table.dtype == other.dtype
            assert_array_equal(table, other)
    assert a.corpus_digest == b.corpus_digest
    assert a.training == b.training
    assert a.vocabulary.normalise == b.vocabulary.normalise


def made(n_words=5, n_dims=3, *, dtype=np.float32, output=True, counts=True, **more):
    rng = np.random.default_rng(7)
    vocabulary = Vocabulary(
        [f"word{i}" for i in range(n_words)],
        np.arange(n_words, 0, -1) * 10 if counts else None,
    )
    tables = rng.normal(size=(2, n_words, n_dims)).astype(dtype)
    return WordVectors(vocabulary, tables[0], tables[1] if output else None, **more)


def rewritten(folder, tensors=None, **changes):
    """A folder with another content and the digests of that, as a person with a script makes it."""
    file = folder / "config.json"
    config = json.loads(file.read_text()) | changes
    if tensors is not None:
        (folder / "model.safetensors").unlink()
        storage.write_tensors(folder / "model.safetensors", tensors)
        record = file_record(folder / "model.safetensors")
        config["files"] = config["files"] | {"model.safetensors": record}
    del config["digest"]
    file.unlink()
    write_config(folder, config)


def tensors_of(folder):
    tensors = storage.read_tensors(folder / "model.safetensors")
    return {name: np.array(array) for name, array in tensors.items()}


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("output", [True, False])
@pytest.mark.parametrize("counts", [True, False])
def test_word_vectors_come_back_as_they_were(tmp_path, dtype, output, counts):
    words = made(
        dtype=dtype,
        output=output,
        counts=counts,
        corpus_digest="9f2c",
        training={"window": 5, "subsample": 1e-4, "lam": float("inf"), "sizes": (1, 2)},
    )
    assert save(words, tmp_path / "model") == tmp_path / "model"
    same(load(tmp_path / "model"), words)
    assert load(str(tmp_path / "model")).digest() == words.digest()


def test_the_folder_is_readable_by_a_person(tmp_path):
    save(made(2, 2), tmp_path / "model")
    assert sorted(p.name for p in (tmp_path / "model").iterdir()) == [
        "config.json",
        "model.safetensors",
        "vocabulary.tsv",
    ]
    assert (tmp_path / "model" / "vocabulary.tsv").read_text() == "word0\t20\nword1\t10\n"
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    assert config["format_version"] == 3
    assert config["kind"] == "WordVectors"
    assert config["pacsent_version"] == pacsent.__version__
    assert config["tables"] == ["input_vectors", "output_vectors"]


def test_tables_are_memory_mapped_read_only_and_aligned(tmp_path):
    save(made(dtype=np.float16), tmp_path / "model")
    words = load(tmp_path / "model")
    assert isinstance(words.input_vectors.base, np.memmap)
    assert not words.input_vectors.flags.writeable
    assert words.input_vectors.flags.aligned and words.output_vectors.flags.aligned


def test_the_safetensors_library_reads_our_file_and_we_read_its(tmp_path):
    numpy = pytest.importorskip("safetensors.numpy")
    words = made(7, 3, dtype=np.float16)
    save(words, tmp_path / "model")
    tensors = numpy.load_file(tmp_path / "model" / "model.safetensors")
    assert_array_equal(tensors["input_vectors"], words.input_vectors)
    assert_array_equal(tensors["output_vectors"], words.output_vectors)
    assert tensors["input_vectors"].dtype == np.float16

    rng = np.random.default_rng(0)
    theirs = {
        "a": rng.normal(size=(3, 5)),
        "b": rng.integers(0, 9, size=7).astype(np.int32),
        "c": np.array([True, False, True]),
        "d": np.array(3.5, dtype=np.float32),
        "e": np.zeros((0, 4), dtype=np.float16),
    }
    numpy.save_file(theirs, tmp_path / "theirs.safetensors", metadata={"made": "elsewhere"})
    found = storage.read_tensors(tmp_path / "theirs.safetensors")
    assert set(found) == set(theirs)
    for name, array in theirs.items():
        assert found[name].dtype == array.dtype
        assert found[name].flags.aligned
        assert_array_equal(found[name], array)


def test_tensors_of_every_type_come_back(tmp_path):
    arrays = {
        name: np.arange(6).reshape(2, 3).astype(name)
        for name in tensor_files._DTYPE_NAMES
        if not name.startswith("float")
    }
    arrays |= {"half": np.float16([1.5]), "none": np.zeros(0, np.int64), "one": np.array(2.5)}
    arrays["turned"] = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    storage.write_tensors(tmp_path / "t", arrays)
    found = storage.read_tensors(tmp_path / "t")
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype
        assert_array_equal(found[name], array)
    with pytest.raises(ValueError, match=r"names must be an array of numbers to be saved. Got <U1"):
        storage.write_tensors(tmp_path / "u", {"names": np.array(["a"])})


words_of_any_kind = st.lists(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=12), min_size=1, unique=True
)


@settings(
    max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(words_of_any_kind)
def test_any_word_comes_back_tabs_and_line_breaks_too(tmp_path, odd):
    words = WordVectors(Vocabulary(odd), np.ones((len(odd), 2), dtype=np.float32))
    save(words, tmp_path / "model", overwrite=True)
    again = load(tmp_path / "model")
    assert list(again.words) == odd
    lines = (tmp_path / "model" / "vocabulary.tsv").read_bytes().split(b"\n")
    assert len(lines) == len(odd) + 1  # a line break inside a word is written as \n


def test_half_a_character_is_refused(tmp_path):
    words = WordVectors(Vocabulary(["a\ud800"]), np.ones((1, 2), dtype=np.float32))
    with pytest.raises(ValueError, match=r"valid Unicode to be saved"):
        save(words, tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_subwords_are_kept(tmp_path):
    rng = np.random.default_rng(0)
    subwords = Subwords(rng.normal(size=(11, 3)).astype(np.float32), 2, 4)
    words = made(subwords=subwords)
    save(words, tmp_path / "model")
    again = load(tmp_path / "model")
    assert repr(again.subwords) == repr(subwords)
    assert_array_equal(again.input("unseen"), words.input("unseen"))


def test_a_function_cannot_be_saved_but_can_be_given_again(tmp_path):
    words = WordVectors(Vocabulary(["a"], normalise=str.split), np.ones((1, 2), np.float32))
    with pytest.raises(ValueError, match=r"Got \w+ instead.*load\(path, normalise="):
        save(words, tmp_path / "model")
    save(
        WordVectors(Vocabulary(["A"]), np.ones((1, 2), np.float32)),
        tmp_path / "model",
        overwrite=True,
    )
    again = load(tmp_path / "model", normalise=str.split)
    assert again.vocabulary.encode(["A b"]).ids.size == 1


def test_training_that_is_not_plain_is_refused_by_name(tmp_path):
    with pytest.raises(ValueError, match=r"must be numbers, strings, lists or None"):
        save(made(training={"x": object()}), tmp_path / "model")


@pytest.mark.parametrize("name", ["v.txt", "v.bin"])
def test_load_reads_word_vectors_of_other_programs(tmp_path, name):
    words = made()
    formats.write(words, tmp_path / name)
    again = load(tmp_path / name, normalise="unicode")
    assert list(again.words) == list(words.words)
    np.testing.assert_allclose(again.input_vectors, words.input_vectors, rtol=1e-5)
    assert again.vocabulary.normalise == "unicode"
    with pytest.raises(ValueError, match=r"holds word vectors itself"):
        load(tmp_path / name, word_vectors=words)


def test_a_certificate_in_a_folder_is_verified_when_it_is_opened(tmp_path):
    texts = [f"good film {i}" if i % 2 else f"bad book {i}" for i in range(120)]
    model = pacsent.CertifiedClassifier(pacsent.TextClassifier(None), calibration_size=0.5).fit(
        texts, [i % 2 for i in range(120)]
    )
    save(model, tmp_path / "model")
    tensors = tensors_of(tmp_path / "model")
    described = json.loads(tensors["description"].tobytes())
    bound = next(name for name in described["certificate"] if name.endswith("bound"))
    described["certificate"][bound] = 1e-6
    text = np.frombuffer(json.dumps(described).encode(), np.uint8)
    rewritten(tmp_path / "model", tensors | {"description": text})
    with pytest.raises(ValueError, match=r"damaged: .*certificate"):
        load(tmp_path / "model")
    assert [step["ok"] for step in check(tmp_path / "model")][-1] is False


# -- replacing ----------------------------------------------------------------------------------


def test_saving_over_a_model_replaces_it_even_while_it_is_open(tmp_path):
    save(made(5), tmp_path / "model")
    old = load(tmp_path / "model")
    save(made(9), tmp_path / "model", overwrite=True)
    assert load(tmp_path / "model").n_words == 9
    assert np.isfinite(old.input_vectors).all()  # the map of the old file stays good
    save(load(tmp_path / "model"), tmp_path / "model", overwrite=True)  # onto itself
    assert load(tmp_path / "model").n_words == 9


@pytest.mark.parametrize(
    "home, moment",
    [
        (saving, "write_tensors"),
        (saving, "write_config"),
        (files, "_move_folder"),
    ],
)
def test_an_interrupted_save_leaves_the_old_model(tmp_path, monkeypatch, home, moment):
    save(made(5), tmp_path / "model")

    def interrupt(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(home, moment, interrupt)
    with pytest.raises(KeyboardInterrupt):
        save(made(9), tmp_path / "model", overwrite=True)
    assert load(tmp_path / "model").n_words == 5
    assert [p.name for p in tmp_path.iterdir()] == ["model"]


def test_a_failed_second_rename_puts_the_old_model_back(tmp_path, monkeypatch):
    save(made(5), tmp_path / "model")
    rename, calls = os.rename, []

    def second_fails(a, b):
        calls.append(a)
        if len(calls) == 2:
            raise OSError(errno.EIO, "the disk went away")
        rename(a, b)

    monkeypatch.setattr(files.os, "rename", second_fails)
    with pytest.raises(OSError, match=r"the disk went away"):
        save(made(9), tmp_path / "model", overwrite=True)
    assert load(tmp_path / "model").n_words == 5


def test_killed_between_two_renames_the_message_says_where_the_model_is(tmp_path):
    save(made(5), tmp_path / "model")
    (tmp_path / "model").rename(tmp_path / ".model.old-1234")
    with pytest.raises(FileNotFoundError, match=r"interrupted and left the model in .*old-1234"):
        load(tmp_path / "model")


def test_a_full_disk_is_one_line_and_leaves_nothing(tmp_path, monkeypatch):
    save(made(5), tmp_path / "model")

    def full(path, tensors):
        Path(path).write_bytes(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(saving, "write_tensors", full)
    with pytest.raises(OSError, match=r"is full: .*model was not saved"):
        save(made(9), tmp_path / "model", overwrite=True)
    assert load(tmp_path / "model").n_words == 5
    assert [p.name for p in tmp_path.iterdir()] == ["model"]


def test_a_killed_process_leaves_a_model_that_loads(tmp_path):
    code = (
        "import sys, numpy as np\n"
        "from pacsent import Vocabulary, WordVectors, save\n"
        "models = [WordVectors(Vocabulary([f'w{i}' for i in range(n)]),\n"
        "                      np.full((n, 50), n, dtype=np.float32)) for n in (500, 900)]\n"
        "save(models[0], sys.argv[1], overwrite=True)\n"
        "print('saved', flush=True)\n"
        "while True:\n"
        "    for model in models: save(model, sys.argv[1], overwrite=True)\n"
    )
    seen = set()
    for wait in (0.0, 0.003, 0.011, 0.017):
        process = subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path / "model")], stdout=subprocess.PIPE
        )
        process.stdout.readline()
        time.sleep(wait)
        process.kill()
        process.wait()
        process.stdout.close()
        words = load(tmp_path / "model")
        assert words.n_words in (500, 900)
        assert (words.input_vectors == words.n_words).all()
        seen.add(words.n_words)
    assert seen


def test_folders_that_may_be_written_to(tmp_path):
    save(made(5), tmp_path / "a" / "real")  # missing parents are made
    (tmp_path / "link").symlink_to(tmp_path / "a" / "real")
    save(made(9), tmp_path / "link", overwrite=True)
    assert (tmp_path / "link").is_symlink()
    assert load(tmp_path / "a" / "real").n_words == 9
    (tmp_path / "new").mkdir()
    save(made(), tmp_path / "new")
    assert load(tmp_path / "new").n_words == 5


def test_a_folder_that_is_not_ours_is_never_touched(tmp_path):
    theirs = tmp_path / "thesis"
    theirs.mkdir()
    (theirs / "chapter.txt").write_text("words")
    with pytest.raises(ValueError, match=r"exists and is a folder that is not a pacsent model"):
        save(made(), theirs)
    (theirs / "config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(ValueError, match=r"is not a pacsent model"):
        save(made(), theirs)
    assert (theirs / "chapter.txt").read_text() == "words"
    with pytest.raises(ValueError, match=r"exists and is a file"):
        save(made(), theirs / "chapter.txt")


def test_only_what_can_be_saved_is_saved(tmp_path):
    with pytest.raises(TypeError, match=r"WordVectors or a fitted estimator.* Got dict"):
        save({}, tmp_path / "model")
    with pytest.raises(ValueError, match=r"words must be 'copy' or 'reference'. Got 'link'"):
        save(made(), tmp_path / "model", words="link")


# -- damage -------------------------------------------------------------------------------------


CONFIGS = {
    **dict.fromkeys([b"", b"{", b"[]", b"3", b'{"class": "X"}', b"\xff"], "config.json must be"),
    b"[" * 100_000: "config.json must be",
    b'{"format_version": 3, "kind": ' + b"[" * 100_000: "config.json must be",
    b'{"format_version": 4, "pacsent_version": "9.1"}': "Got 4 instead, written by pacsent 9.1",
}


def test_what_is_no_model_is_named_in_one_line(tmp_path):
    def refused(place, message):
        with pytest.raises((ValueError, FileNotFoundError), match=message) as error:
            load(place)
        assert "\n" not in str(error.value)

    refused(tmp_path / "nowhere", r"There is no folder .*nowhere. Check the spelling")
    (tmp_path / "file").write_text("x")
    refused(tmp_path / "file", r"file must be word vectors in a known format")
    (tmp_path / "other").mkdir()
    refused(tmp_path / "other", r"must be a folder of word vectors: a pacsent model")
    save(made(), tmp_path / "model")
    (tmp_path / "model" / "model.safetensors").unlink()
    refused(tmp_path / "model", r"model.safetensors is missing")
    for text, message in CONFIGS.items():
        (tmp_path / "other" / "config.json").write_bytes(text)
        with pytest.raises(ValueError, match=message):
            read_config(tmp_path / "other")


def with_nan(array):
    array[1, 1] = np.nan
    return array


# tensor, what becomes of it, and the message when the model is opened and used
DAMAGED_TENSORS = [
    ("vocabulary.word_offsets", lambda a: a[:-1], r"word_offsets must go from 0"),
    ("vocabulary.counts", lambda a: a + 0.5, r"counts must be .*at least 0. Got \[50.5"),
    ("vocabulary.counts", np.negative, r"counts must be .*at least 0. Got -50"),
    ("vocabulary.counts", lambda a: a[:-1], r"counts must have one number for each of the 5"),
    ("input_vectors", lambda a: None, r"has no input_vectors"),
    ("input_vectors", lambda a: a[:-1], r"n_words is 4 in its table, 5 in config.json"),
    ("input_vectors", with_nan, r"input_vectors must be finite numbers.*row 1 \('word1'\)"),
    ("output_vectors", with_nan, r"output_vectors must be finite numbers.*row 1 \('word1'\)"),
    ("output_vectors", lambda a: a[:, 1:], r"output_vectors must be as wide"),
    ("subword_vectors", with_nan, r"subword_vectors must be finite numbers"),
]


@pytest.mark.parametrize(("name", "damage", "message"), DAMAGED_TENSORS)
def test_tensors_that_are_wrong_behind_right_checksums_are_named(tmp_path, name, damage, message):
    save(made(subwords=Subwords(np.ones((11, 3), np.float32), 2, 4)), tmp_path / "model")
    tensors = tensors_of(tmp_path / "model")
    tensors[name] = damage(tensors[name])
    rewritten(
        tmp_path / "model", {n: tensor for n, tensor in tensors.items() if tensor is not None}
    )
    with pytest.raises(ValueError, match=message):
        words = load(tmp_path / "model")
        assert words.counts.sum() and words.roles() and words.input("unseen").size
    assert check(tmp_path / "model")[-1]["ok"] is False


def test_every_truncation_of_the_tensors_is_one_clear_line(tmp_path):
    save(made(3, 2), tmp_path / "model")
    file = tmp_path / "model" / "model.safetensors"
    whole = file.read_bytes()
    for cut in range(len(whole)):
        file.write_bytes(whole[:cut])
        with pytest.raises(
            ValueError, match=r"model\.safetensors must .* instead\. It is"
        ) as error:
            load(tmp_path / "model")
        assert "\n" not in str(error.value)
    file.write_bytes(whole + b"x")
    with pytest.raises(ValueError, match=r"bytes long, as its header says"):
        load(tmp_path / "model")


def test_a_header_that_lies_is_refused(tmp_path):
    file = tmp_path / "t"
    for entry in (
        {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]},
        {"dtype": "F99", "shape": [1], "data_offsets": [0, 4]},
        {"dtype": "F32", "shape": [-1], "data_offsets": [4, 0]},
        {"dtype": "F32", "shape": 1, "data_offsets": [0, 4]},
        {"dtype": "F32", "shape": [1]},
        7,
    ):
        text = json.dumps({"a": entry}).encode()
        file.write_bytes(len(text).to_bytes(8, "little") + text + b"\0\0\0\0")
        with pytest.raises(ValueError, match=r"must have a safetensors header"):
            storage.read_tensors(file)
    file.write_bytes((1).to_bytes(8, "little") + b"{")
    with pytest.raises(ValueError, match=r"must have a safetensors header"):
        storage.read_tensors(file)


@pytest.mark.parametrize("tensor", ["vocabulary.word_offsets", "vocabulary.hash_table"])
def test_flipped_bits_where_words_begin_are_found_by_check_and_never_crash(
    tmp_path, monkeypatch, tensor
):
    monkeypatch.setattr(vectors, "_MIN_HASHED_WORDS", 1)
    save(made(300, 2), tmp_path / "model")
    file = tmp_path / "model" / "model.safetensors"
    whole = file.read_bytes()
    array = storage.read_tensors(file)[tensor]
    start = whole.index(array.tobytes())
    for place in range(start + 16, start + array.nbytes - 16, array.nbytes // 6):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << 6
        file.write_bytes(damaged)
        assert {"model.safetensors"} <= {s["what"] for s in check(file.parent) if not s["ok"]}
        with contextlib.suppress(ValueError):
            load(tmp_path / "model").vocabulary.encode(["word3 word4"])


def test_an_edited_description_is_refused(tmp_path, fitted):
    save(fitted, tmp_path / "model")
    file = tmp_path / "model" / "config.json"
    text = file.read_text()
    file.write_text(text.replace('"lam": 2.5', '"lam": 2.6'))
    with pytest.raises(ValueError, match=r"config.json .* \(it was changed after it was saved\)"):
        load(tmp_path / "model")
    file.write_text(json.dumps(json.loads(text)))  # only the white space differs
    assert load(tmp_path / "model").lam == 2.5


def test_words_of_another_model_are_noticed(tmp_path, fitted, toy_word_vectors):
    import shutil

    other = WordVectors(
        toy_word_vectors.vocabulary, toy_word_vectors.output_vectors, toy_word_vectors.input_vectors
    )
    save(fitted, tmp_path / "model")
    save(other, tmp_path / "other")
    shutil.rmtree(tmp_path / "model" / "words")
    shutil.copytree(tmp_path / "other", tmp_path / "model" / "words")
    with pytest.raises(ValueError, match=r"words must hold the word vectors that were saved with"):
        load(tmp_path / "model")
    with pytest.raises(ValueError, match=r"must be the ones it was fitted with .*Got others"):
        load(tmp_path / "model", word_vectors=other)


DAMAGED_STATES = [  # of an estimator: tensors or settings, and the message
    ({"idf": lambda a: a[:-1]}, {}, "model is damaged: idf "),
    ({"idf": lambda a: a.astype(np.int64)}, {}, "model is damaged: idf "),
    ({"idf": lambda a: a * np.nan}, {}, "model is damaged: idf "),
    ({"idf": lambda a: None}, {}, "model is damaged: it has no idf"),
    ({"fit_report": lambda a: np.zeros(2)}, {}, "model is damaged: fit_report "),
    ({"fingerprint.counts": lambda a: a[:2]}, {}, "model is damaged: fingerprint.counts "),
    ({}, {"lam": -1}, "model is damaged: .*lam.* must b"),
    ({}, {"lam": "2"}, "model is damaged: .*lam.* must b"),
    ({}, {"batch_size": 0}, "model is damaged: .*batch_size.* must b"),
    ({}, {"unheard_of": 1}, "parameters that .* does not take"),
]


@pytest.mark.parametrize(("changes", "parameters", "message"), DAMAGED_STATES)
def test_a_state_that_breaks_the_rules_of_its_estimator_is_refused(
    tmp_path, fitted, changes, parameters, message
):
    save(fitted, tmp_path / "model")
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    tensors = tensors_of(tmp_path / "model")
    tensors |= {name: change(tensors.get(name)) for name, change in changes.items()}
    kept = {name: tensor for name, tensor in tensors.items() if tensor is not None}
    rewritten(tmp_path / "model", kept, parameters=config["parameters"] | parameters)
    with pytest.raises(ValueError, match=message):
        load(tmp_path / "model")


def test_the_table_for_looking_words_up_is_saved_and_used(tmp_path, monkeypatch):
    monkeypatch.setattr(vectors, "_MIN_HASHED_WORDS", 1)
    words = made(300, 2)
    save(words, tmp_path / "model")
    tensors = storage.read_tensors(tmp_path / "model" / "model.safetensors")
    assert_array_equal(tensors["vocabulary.hash_table"], words.vocabulary.arrays()["hash_table"])
    opened = load(tmp_path / "model")
    for i in (0, 17, 299):
        assert_array_equal(opened.input(f"word{i}"), words.input_vectors[i])
    assert "word300" not in opened
    # a table of another version is left alone and built again
    rewritten(tmp_path / "model", hash_table_version=99)
    assert "hash_table" not in load(tmp_path / "model").vocabulary.table._arrays
    assert_array_equal(load(tmp_path / "model").input("word17"), words.input_vectors[17])


def test_the_hash_table_is_that_of_its_version():
    """Saved tables are used as they are: if this fails, HASH_TABLE_VERSION must go up."""
    table = Vocabulary(["film", "good", "café", "日本"]).arrays()["hash_table"]
    assert vectors.HASH_TABLE_VERSION == 2
    assert (
        hashlib.sha256(np.ascontiguousarray(table).tobytes()).hexdigest()[:16] == "00e24959866e0fb7"
    )


# -- under version control ----------------------------------------------------------------------


def test_the_model_under_version_control_loads():
    found = load(COMMITTED)
    assert found.get_params(deep=False) | {"word_vectors": None} == {
        "word_vectors": None, "lam": 2.5, "lam_mode": "fixed", "prior_variance": 1.0,
        "swap_roles": False, "on_empty": "ignore", "batch_size": 1024,
        "n_jobs": None,
    }  # fmt: skip
    assert_array_equal(found.idf_, np.log([4 / 3, 2, 4, 4, 4, 4]) + 1)
    words = found.word_vectors
    assert list(words.words) == ["film", "good", "quiet", "café", "two words", "tab\there"]
    assert_array_equal(words.counts, [60, 50, 40, 30, 20, 10])
    assert words.input_vectors.dtype == np.float16
    assert_array_equal(words.input("good"), [0.25, -0.5, 1.5])
    assert_array_equal(words.output("good"), [-0.75, 2.0, 0.125])
    assert words.corpus_digest == "0" * 64
    assert words.training == {"n_epochs": 5, "note": "made-up numbers", "lam": float("inf")}
    assert run_check(COMMITTED).exit_code == 0


def test_every_module_registers_what_the_table_says():
    for role, name in registry.MODULES:
        assert callable(registry.find(role, name)), name
    assert registry.find("kind", "os.system") is None


def test_word_vectors_and_vocabularies_are_frozen(toy_word_vectors):
    for name in ("vocabulary", "input_vectors", "output_vectors", "training", "subwords"):
        with pytest.raises(AttributeError, match=r"no setter|can't set"):
            setattr(toy_word_vectors, name, None)
    for name in ("words", "counts", "normalise", "unknown", "index"):
        with pytest.raises(AttributeError, match=r"no setter|can't set"):
            setattr(toy_word_vectors.vocabulary, name, None)


# -- fitted estimators --------------------------------------------------------------------------


@pytest.fixture
def fitted(toy_word_vectors, tiny_corpus):
    from pacsent import make_encoder

    vectorizer = make_encoder("PB-IDF-L2", toy_word_vectors, lam=2.5, on_empty="ignore")
    return vectorizer.fit(tiny_corpus)


@pytest.mark.parametrize("words", ["copy", "reference"])
def test_a_fitted_estimator_comes_back_as_it_was(tmp_path, fitted, tiny_corpus, words):
    save(fitted.word_vectors, tmp_path / "vectors")
    save(fitted, tmp_path / "model", words=words)
    again = load(tmp_path / "model")
    assert type(again) is type(fitted)
    mine, theirs = again.get_params(deep=False), fitted.get_params(deep=False)
    same(mine.pop("word_vectors"), theirs.pop("word_vectors"))
    assert mine == theirs
    for found, expected in zip(again.posterior(tiny_corpus), fitted.posterior(tiny_corpus)):
        assert_array_equal(found, expected)
    assert (tmp_path / "model" / "words").exists() == (words == "copy")


def test_every_method_can_be_saved(tmp_path, toy_word_vectors):
    from pacsent import make_encoder
    from pacsent.encoders import METHODS

    X = ["good film", "quiet film film", "film good quiet"]
    for method in METHODS:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # three sentences are few
            vectorizer = make_encoder(method, toy_word_vectors).fit(X)
            save(vectorizer, tmp_path / method)
            again = load(tmp_path / method)
            assert_array_equal(again.transform(X), vectorizer.transform(X), err_msg=method)


def test_an_unfitted_estimator_is_refused(tmp_path, toy_word_vectors):
    from sklearn.exceptions import NotFittedError

    from pacsent import make_encoder

    with pytest.raises(NotFittedError, match=r"is not fitted"):
        save(make_encoder("Average", toy_word_vectors), tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_word_vectors_in_memory_can_be_given_instead_of_opened(tmp_path, fitted):
    save(fitted, tmp_path / "model")
    again = load(tmp_path / "model", word_vectors=fitted.word_vectors)
    assert again.word_vectors is fitted.word_vectors
    with pytest.raises(ValueError, match=r"word_vectors is for loading an estimator"):
        load(tmp_path / "model" / "words", word_vectors=fitted.word_vectors)


def test_a_reference_to_moved_or_changed_vectors_is_noticed(tmp_path, fitted):
    save(fitted.word_vectors, tmp_path / "vectors")
    save(fitted, tmp_path / "model", words="reference")
    save(made(4, 2), tmp_path / "vectors", overwrite=True)
    with pytest.raises(ValueError, match=r"must be the ones it was fitted with .*Got others"):
        load(tmp_path / "model")
    (tmp_path / "vectors").rename(tmp_path / "moved")
    with pytest.raises(FileNotFoundError, match=r"word vectors of .*model must be at"):
        load(tmp_path / "model")
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    for url in ("hf://somebody/words", "https://example.com/words"):  # a path, never fetched
        rewritten(tmp_path / "model", parts={"words": config["parts"]["words"] | {"path": url}})
        with pytest.raises(FileNotFoundError, match=r"word vectors of .*model must be at"):
            load(tmp_path / "model")


def test_a_reference_needs_vectors_that_were_saved(tmp_path, tiny_corpus):
    from pacsent import make_encoder

    vectorizer = make_encoder("Average", made(), on_empty="ignore").fit([["word1"]])
    with pytest.raises(ValueError, match=r"saved to or loaded from a folder"):
        save(vectorizer, tmp_path / "model", words="reference")


def test_a_class_we_do_not_have_is_never_looked_for_elsewhere(tmp_path, fitted):
    save(fitted, tmp_path / "model")
    for name in ("os.system", "WordVectors2", "np", "check_random_state", "__import__"):
        rewritten(tmp_path / "model", **{"class": name})
        with pytest.raises(ValueError, match=r"which this pacsent .*does not have"):
            load(tmp_path / "model")
        rewritten(tmp_path / "model", kind=name)
        with pytest.raises(ValueError, match=r"which this pacsent .*does not have"):
            load(tmp_path / "model")
        rewritten(tmp_path / "model", kind="SentenceVectorizer")


def test_a_parameter_that_only_pickle_could_keep_is_refused(tmp_path, fitted):
    fitted.lam = print
    with pytest.raises(ValueError, match=r"the parameter 'lam' of IDFVectorizer must be numbers"):
        save(fitted, tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


# -- check --------------------------------------------------------------------------------------


def run_check(*arguments):
    from click.testing import CliRunner

    from pacsent.cli import cli

    return CliRunner().invoke(cli, ["verify", *map(str, arguments)])


def test_check_says_that_a_model_is_sound(tmp_path, fitted):
    save(fitted, tmp_path / "model")
    done = run_check(tmp_path / "model")
    assert done.exit_code == 0 and "DAMAGED" not in done.output
    for what in ("config.json", "model.safetensors", "words/config.json", "words/vocabulary.tsv"):
        assert f"ok       {what}: " in done.output
    assert "4 words found, all numbers finite" in done.output
    found = json.loads(run_check(tmp_path / "model", "--json").output)
    assert found["verified"] and {step["ok"] for step in found["checks"]} == {True}


def test_check_finds_a_flipped_bit_in_every_file(tmp_path, fitted):
    save(fitted, tmp_path / "model")
    files = [path for path in sorted((tmp_path / "model").rglob("*")) if path.is_file()]
    assert len(files) == 5
    for file in files:
        whole = file.read_bytes()
        for place in range(0, len(whole), max(1, len(whole) // 7)):
            damaged = bytearray(whole)
            damaged[place] ^= 1
            file.write_bytes(damaged)
            done = run_check(tmp_path / "model", "--json")
            assert done.exit_code == 1, (file, place)
            found = json.loads(done.output)
            assert not found["verified"]
            assert all("\n" not in step["found"] for step in found["checks"])
        file.write_bytes(whole)
    assert run_check(tmp_path / "model").exit_code == 0
