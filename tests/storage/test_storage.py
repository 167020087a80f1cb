"""A saved model is a folder that opens at once, and that nothing can half overwrite."""

import errno
import hashlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from safetensors import SafetensorError
from sklearn.exceptions import NotFittedError

import pacsent
from helpers import invoke
from pacsent import Vocabulary, WordVectors, files, load, make_encoder, registry, save, storage
from pacsent.sentences.methods import METHODS
from pacsent.storage import check, saving, tensor_files
from pacsent.storage.checksums import file_record
from pacsent.storage.model_folder import write_config
from pacsent.words import formats, vectors
from pacsent.words.subwords import Subwords

COMMITTED = Path(__file__).parents[1] / "data" / "model"  # a fitted method


def same(a, b):
    assert list(a.words) == list(b.words)
    for name in ("counts", "input_vectors", "output_vectors"):
        mine, theirs = getattr(a, name), getattr(b, name)
        assert (mine is None) == (theirs is None)
        if mine is not None:
            assert mine.dtype == theirs.dtype
            assert_array_equal(mine, theirs)

    assert a.corpus_digest == b.corpus_digest
    assert a.training == b.training
    assert a.vocabulary.normalize == b.vocabulary.normalize
    assert repr(a.subwords) == repr(b.subwords)


def made(n_words=5, n_dims=3, *, dtype=np.float32, output=True, counts=True, **more):
    rng = np.random.default_rng(7)
    vocabulary = Vocabulary(
        [f"word{i}" for i in range(n_words)], np.arange(n_words, 0, -1) * 10 if counts else None
    )
    tables = rng.normal(size=(2, n_words, n_dims)).astype(dtype)
    return WordVectors(vocabulary, tables[0], tables[1] if output else None, **more)


def rewritten(folder, changes=None, **settings):
    """A folder with another content and the digests of that, as a person with a script makes it."""
    file = folder / "config.json"
    config = json.loads(file.read_text()) | settings

    if changes:
        path = folder / "model.safetensors"
        tensors = {name: np.array(array) for name, array in storage.read_tensors(path).items()}
        tensors |= {name: change(tensors.get(name)) for name, change in changes.items()}
        path.unlink()
        storage.write_tensors(path, {n: array for n, array in tensors.items() if array is not None})
        config["files"] = config["files"] | {"model.safetensors": file_record(path)}

    del config["digest"]
    file.unlink()
    write_config(folder, config)


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
        subwords=Subwords(np.arange(33, dtype=np.float32).reshape(11, 3), 2, 4),
    )

    assert save(words, tmp_path / "model") == tmp_path / "model"
    again = load(str(tmp_path / "model"))

    same(again, words)
    assert again.digest() == words.digest()
    assert_array_equal(again.input("unseen"), words.input("unseen"))
    assert isinstance(again.input_vectors.base, np.memmap)
    assert again.input_vectors.flags.aligned and not again.input_vectors.flags.writeable


def test_the_folder_is_readable_by_a_person(tmp_path):
    save(made(2, 2), tmp_path / "model")

    names = sorted(p.name for p in (tmp_path / "model").iterdir())
    assert names == ["config.json", "model.safetensors", "vocabulary.tsv"]
    assert (tmp_path / "model" / "vocabulary.tsv").read_text() == "word0\t20\nword1\t10\n"

    config = json.loads((tmp_path / "model" / "config.json").read_text())
    version = {"format_version": 3, "pacsent_version": pacsent.__version__}
    tables = ["input_vectors", "output_vectors"]
    assert config == config | version | {"kind": "WordVectors", "tables": tables}


def test_tensors_of_every_type_come_back_also_through_the_safetensors_library(tmp_path):
    numpy = pytest.importorskip("safetensors.numpy")
    names = tensor_files._DTYPE_NAMES
    arrays = {name: np.arange(6).reshape(2, 3).astype(name) for name in names}
    arrays |= {"none": np.zeros((0, 4), np.int64), "single": np.array(2.5)}

    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    numpy.save_file(arrays, theirs, metadata={"made": "elsewhere"})
    arrays["turned"] = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    storage.write_tensors(ours, arrays)

    for tensors in (
        storage.read_tensors(theirs),
        storage.read_tensors(ours),
        numpy.load_file(ours),
    ):
        assert set(tensors) | {"turned"} == set(arrays)
        for name, array in tensors.items():
            assert array.dtype == arrays[name].dtype and array.flags.aligned
            assert_array_equal(array, arrays[name])

    with pytest.raises(ValueError, match=r"names must be an array of numbers to be saved. Got <U1"):
        storage.write_tensors(tmp_path / "u", {"names": np.array(["a"])})


any_word = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


@settings(max_examples=50)
@given(st.lists(any_word, min_size=1, unique=True))
def test_any_word_comes_back_tabs_and_line_breaks_too(tmp_path, odd):
    words = WordVectors(Vocabulary(odd), np.ones((len(odd), 2), dtype=np.float32))
    save(words, tmp_path / "model", overwrite=True)

    assert list(load(tmp_path / "model").words) == odd
    lines = (tmp_path / "model" / "vocabulary.tsv").read_bytes().split(b"\n")
    assert len(lines) == len(odd) + 1  # a line break inside a word is written as \n


def test_a_normalisation_can_be_given_again_also_to_files_of_other_programs(tmp_path):
    table = np.ones((1, 2), np.float32)
    with pytest.raises(ValueError, match=r"Got \w+ instead.*load\(path, normalize="):
        save(WordVectors(Vocabulary(["a"], normalize=str.split), table), tmp_path / "model")

    save(WordVectors(Vocabulary(["A"]), table), tmp_path / "model")
    again = load(tmp_path / "model", normalize=str.split)
    assert again.vocabulary.encode(["A b"]).ids.size == 1

    words = made()
    formats.write(words, tmp_path / "v.bin")
    again = load(tmp_path / "v.bin", normalize="unicode")
    assert list(again.words) == list(words.words)
    assert_array_equal(again.input_vectors, words.input_vectors)
    assert again.vocabulary.normalize == "unicode"

    with pytest.raises(ValueError, match=r"holds word vectors itself"):
        load(tmp_path / "v.bin", word_vectors=words)


def edited(**changes):
    def edit(description):
        described = json.loads(description.tobytes())
        described["classes"] = changes.get("classes", described["classes"])
        described["certificate"] |= {k: v for k, v in changes.items() if k != "classes"}
        return np.frombuffer(json.dumps(described).encode(), np.uint8)

    return {"description": edit}


CALIBRATION = [f"calibration.{name}" for name in ("log_proba", "labels", "monitors")]
FORGED = {
    "certificate was changed": edited(error_upper=1e-6),
    "assumption must be": edited(assumption="texts are drawn by the author."),
    "classes are not those of its estimator": edited(classes=["up", "down"]),
    r"calibration.labels must have shape \(60\)": {
        name: lambda array: np.repeat(array, 10, axis=0) for name in CALIBRATION
    },
}


@pytest.mark.parametrize("message", FORGED)
def test_a_certificate_in_a_folder_is_verified_when_it_is_opened(tmp_path, message):
    texts = [f"good film {i}" if i % 2 else f"bad book {i}" for i in range(120)]
    labels = ["down", "up"] * 60
    model = pacsent.CertifiedClassifier(pacsent.TextClassifier(None), calibration_size=0.5)
    save(model.fit(texts, labels), tmp_path / "model")

    rewritten(tmp_path / "model", FORGED[message])
    with pytest.raises(ValueError, match=rf"damaged: .*{message}"):
        load(tmp_path / "model")
    assert [step["ok"] for step in check(tmp_path / "model")][-1] is False

    save(model, tmp_path / "model", overwrite=True)
    rewritten(tmp_path / "model", {"calibration.log_proba": lambda array: array / 2})
    assert "the calibration set" in run_check(tmp_path / "model").output

    model = load(tmp_path / "model")
    with pytest.raises(ValueError, match=r"Got other log_proba instead"):
        model.certificate_.verify(model, texts, labels)


@pytest.mark.parametrize("name", ["coef_ngrams", "intercept", "idf"])
def test_weights_whose_scores_would_overflow_are_refused(tmp_path, name):
    model = pacsent.TextClassifier(None).fit(["a b", "a c", "d b", "d c"], [1, 1, 0, 0])
    save(model, tmp_path / "m")
    rewritten(tmp_path / "m", {name: lambda array: np.full_like(array, 3e38)})

    with pytest.raises(ValueError, match=rf"damaged: {name} must be at least -1"):
        load(tmp_path / "m")


def test_saving_over_a_model_replaces_it_even_while_it_is_open(tmp_path):
    save(made(5), tmp_path / "model")
    old = load(tmp_path / "model")

    save(made(9), tmp_path / "model", overwrite=True)
    assert load(tmp_path / "model").n_words == 9
    assert np.isfinite(old.input_vectors).all()  # the map of the old file stays good

    save(load(tmp_path / "model"), tmp_path / "model", overwrite=True)  # onto itself
    assert load(tmp_path / "model").n_words == 9


@pytest.mark.parametrize(
    "home, moment", [(saving, "write_tensors"), (saving, "write_config"), (files, "_move_folder")]
)
@pytest.mark.parametrize(
    "error, message",
    [
        (KeyboardInterrupt(), None),
        (OSError(errno.ENOSPC, "No space left on device"), r"is full: .*model was not saved"),
    ],
    ids=["interrupt", "full disk"],
)
def test_an_interrupted_save_keeps_the_old_one(tmp_path, monkeypatch, home, moment, error, message):
    save(made(5), tmp_path / "model")

    def interrupt(*args):
        raise error

    monkeypatch.setattr(home, moment, interrupt)
    with pytest.raises(type(error), match=message):
        save(made(9), tmp_path / "model", overwrite=True)

    assert load(tmp_path / "model").n_words == 5
    assert [p.name for p in tmp_path.iterdir()] == ["model"]


def test_arrays_have_the_permissions_of_other_files_and_a_full_disk_is_named(tmp_path, monkeypatch):
    save(made(5), tmp_path / "model")
    assert len({path.stat().st_mode for path in (tmp_path / "model").iterdir()}) == 1

    def fill_disk(*args):
        raise SafetensorError("I/O error: No space left on device (os error 28)")

    monkeypatch.setattr("safetensors.numpy.save_file", fill_disk)
    with pytest.raises(OSError, match=r"is full: .*model was not saved"):
        save(made(9), tmp_path / "model", overwrite=True)


def test_the_old_model_is_put_back_or_the_message_says_where_it_is(tmp_path, monkeypatch):
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

    (tmp_path / "model").rename(tmp_path / ".model.old-1234")  # as if killed between the two
    with pytest.raises(FileNotFoundError, match=r"interrupted and left the model in .*old-1234"):
        load(tmp_path / "model")


def load_after_a_kill(folder):
    """The model in a folder; between two renames, the one that the message says to rename."""
    try:
        return load(folder)
    except FileNotFoundError as error:
        (whole,) = folder.parent.glob(f".{folder.name}.old-*")
        assert f"left the model in {whole}: rename it back" in str(error)
        return load(whole.rename(folder))


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

    command = [sys.executable, "-c", code, str(tmp_path / "model")]
    for wait in (0.0, 0.003, 0.011, 0.017):
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            process.stdout.readline()
            time.sleep(wait)
            process.kill()

        words = load_after_a_kill(tmp_path / "model")
        assert words.n_words in (500, 900)
        assert (words.input_vectors == words.n_words).all()


def test_folders_that_may_be_written_to_and_those_that_are_not_ours(tmp_path):
    save(made(5), tmp_path / "a" / "real")  # missing parents are made
    (tmp_path / "link").symlink_to(tmp_path / "a" / "real")
    save(made(9), tmp_path / "link", overwrite=True)
    assert (tmp_path / "link").is_symlink()
    assert load(tmp_path / "a" / "real").n_words == 9

    theirs = tmp_path / "thesis"
    theirs.mkdir()
    save(made(), theirs)  # into an empty folder
    assert load(theirs).n_words == 5

    for path in theirs.iterdir():
        path.unlink()
    (theirs / "chapter.txt").write_text("words")
    with pytest.raises(ValueError, match=r"exists and is a folder that is not a pacsent model"):
        save(made(), theirs)

    (theirs / "config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(ValueError, match=r"is not a pacsent model"):
        save(made(), theirs)

    with pytest.raises(ValueError, match=r"exists and is a file"):
        save(made(), theirs / "chapter.txt")

    assert (theirs / "chapter.txt").read_text() == "words"


def test_only_what_can_be_saved_is_saved(tmp_path, toy_word_vectors, fitted):
    half = WordVectors(Vocabulary(["a\ud800"]), np.ones((1, 2), dtype=np.float32))
    unsaved = make_encoder("Average", made(), on_empty="ignore").fit([["word1"]])
    fitted.lam = print  # which only pickle could keep

    for model, words, error, message in (
        ({}, "copy", TypeError, r"WordVectors or a fitted estimator.* Got dict"),
        (made(), "link", ValueError, r"words must be 'copy' or 'reference'. Got 'link'"),
        (half, "copy", ValueError, r"valid Unicode to be saved"),
        (made(training={"x": object()}), "copy", ValueError, r"must be numbers, strings, lists or"),
        (make_encoder("SIF", toy_word_vectors), "copy", NotFittedError, r"is not fitted"),
        (unsaved, "reference", ValueError, r"saved to or loaded from a folder"),
        (fitted, "copy", ValueError, r"the parameter 'lam' of IDFVectorizer must be numbers"),
    ):
        with pytest.raises(error, match=message):
            save(model, tmp_path / "model", words=words)
        assert list(tmp_path.iterdir()) == []


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
    file = tmp_path / "model" / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-1])
    refused(tmp_path / "model", r"model\.safetensors must .* instead\. It is")

    file.unlink()
    refused(tmp_path / "model", r"model.safetensors is missing")

    (tmp_path / "model" / "config.json").write_bytes(b"[" * 100_000)
    refused(tmp_path / "model", "config.json must be")

    newer = '{"format_version": 4, "pacsent_version": "9.1"}'
    (tmp_path / "model" / "config.json").write_text(newer)
    refused(tmp_path / "model", "Got 4 instead, written by pacsent 9.1")


@pytest.mark.parametrize(
    ("name", "damage", "message"),
    [
        ("vocabulary.word_offsets", lambda a: a[:-1], "word_offsets must go from 0"),
        ("vocabulary.counts", lambda a: a + 0.5, r"counts must be .*at least 0. Got \[50.5"),
        ("vocabulary.counts", lambda a: a[:-1], "counts must have one number for each of the 5"),
        ("input_vectors", lambda a: None, "has no input_vectors"),
        ("input_vectors", lambda a: a[:-1], "n_words is 4 in its table, 5 in config.json"),
        ("input_vectors", lambda a: a * np.nan, r"input_vectors must be finite .*row 0 \('word0'"),
        ("output_vectors", lambda a: a * np.nan, "output_vectors must be finite numbers"),
        ("output_vectors", lambda a: a[:, 1:], "output_vectors must be as wide"),
        ("subword_vectors", lambda a: a * np.nan, "subword_vectors must be finite numbers"),
    ],
)
def test_tensors_that_are_wrong_behind_right_checksums_are_named(tmp_path, name, damage, message):
    save(made(subwords=Subwords(np.ones((11, 3), np.float32), 2, 4)), tmp_path / "model")
    rewritten(tmp_path / "model", {name: damage})

    with pytest.raises(ValueError, match=message):
        words = load(tmp_path / "model")
        assert words.counts.sum() and words.roles() and words.input("unseen").size

    assert check(tmp_path / "model")[-1]["ok"] is False


def test_a_header_that_lies_is_refused(tmp_path):
    file = tmp_path / "t"
    for entry in (
        {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]},
        {"dtype": "F99", "shape": [1], "data_offsets": [0, 4]},
        {"dtype": "F32", "shape": [-1], "data_offsets": [4, 0]},
        7,
    ):
        text = json.dumps({"a": entry}).encode()
        file.write_bytes(len(text).to_bytes(8, "little") + text + b"\0\0\0\0")
        with pytest.raises(ValueError, match=r"must have a safetensors header"):
            storage.read_tensors(file)

    storage.write_tensors(file, {"a": np.ones(3)})
    file.write_bytes(file.read_bytes() + b"x")
    with pytest.raises(ValueError, match=r"bytes long, as its header says"):
        storage.read_tensors(file)


def test_an_edited_description_and_words_of_another_model_are_noticed(
    tmp_path, fitted, toy_word_vectors
):
    save(fitted, tmp_path / "model")
    file = tmp_path / "model" / "config.json"
    text = file.read_text()

    file.write_text(text.replace('"lam": 2.5', '"lam": 2.6'))
    with pytest.raises(ValueError, match=r"config.json .* \(it was changed after it was saved\)"):
        load(tmp_path / "model")

    file.write_text(json.dumps(json.loads(text)))  # only the white space differs
    assert load(tmp_path / "model").lam == 2.5

    tables = toy_word_vectors.output_vectors, toy_word_vectors.input_vectors
    other = WordVectors(toy_word_vectors.vocabulary, *tables)
    save(other, tmp_path / "model" / "words", overwrite=True)
    with pytest.raises(ValueError, match=r"words must have the word vectors that were saved with"):
        load(tmp_path / "model")
    with pytest.raises(ValueError, match=r"must be the ones it was fitted with .*Got digest"):
        load(tmp_path / "model", word_vectors=other)


@pytest.mark.parametrize(
    ("changes", "parameters", "message"),
    [
        ({"idf": lambda a: a[:-1]}, {}, "model is damaged: idf "),
        ({"idf": lambda a: a * np.nan}, {}, "model is damaged: idf "),
        ({"idf": lambda a: None}, {}, "model is damaged: it has no idf"),
        ({"fit_report": lambda a: np.zeros(2)}, {}, "model is damaged: fit_report "),
        ({"fingerprint.counts": lambda a: a[:2]}, {}, "model is damaged: fingerprint.counts "),
        ({}, {"lam": -1}, "model is damaged: .*lam.* must b"),
        ({}, {"unheard_of": 1}, "parameters that .* does not take"),
    ],
)
def test_a_state_that_breaks_the_rules_of_its_estimator_is_refused(
    tmp_path, fitted, changes, parameters, message
):
    save(fitted, tmp_path / "model")
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    rewritten(tmp_path / "model", changes, parameters=config["parameters"] | parameters)

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
    digest = hashlib.sha256(np.ascontiguousarray(table).tobytes()).hexdigest()
    assert digest.startswith("00e24959866e0fb7")


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
    for group, modules in registry.MODULES.items():
        for kind in modules:
            assert callable(registry.find_reader(group, kind)), kind
    assert registry.find_reader("model", "os.system") is None


@pytest.fixture
def fitted(toy_word_vectors, tiny_corpus):
    vectorizer = make_encoder("PB-IDF-L2", toy_word_vectors, lam=2.5, on_empty="ignore")
    return vectorizer.fit(tiny_corpus)


@pytest.mark.filterwarnings("ignore")  # ten sentences are few
@pytest.mark.parametrize(
    "method, words", [*((method, "copy") for method in METHODS), ("PB-IDF-L2", "reference")]
)
def test_a_saved_estimator_comes_back_equal(tmp_path, toy_word_vectors, tiny_corpus, method, words):
    fitted = make_encoder(method, toy_word_vectors).fit(tiny_corpus)
    save(fitted.word_vectors, tmp_path / "vectors")
    save(fitted, tmp_path / "model", words=words)
    assert (tmp_path / "model" / "words").exists() == (words == "copy")

    again = load(tmp_path / "model")
    assert type(again) is type(fitted)
    mine, theirs = again.get_params(deep=False), fitted.get_params(deep=False)
    same(mine.pop("word_vectors"), theirs.pop("word_vectors"))
    assert mine == theirs
    for found, expected in zip(again.posterior(tiny_corpus), fitted.posterior(tiny_corpus)):
        assert_array_equal(found, expected)

    again = load(tmp_path / "model", word_vectors=fitted.word_vectors)
    assert again.word_vectors is fitted.word_vectors

    with pytest.raises(ValueError, match=r"word_vectors is for loading an estimator"):
        load(tmp_path / "vectors", word_vectors=fitted.word_vectors)


def test_a_reference_to_moved_or_changed_vectors_is_noticed(tmp_path, fitted):
    save(fitted.word_vectors, tmp_path / "vectors")
    save(fitted, tmp_path / "model", words="reference")
    save(made(4, 2), tmp_path / "vectors", overwrite=True)

    with pytest.raises(ValueError, match=r"must be the ones it was fitted with .*Got digest"):
        load(tmp_path / "model")

    (tmp_path / "vectors").rename(tmp_path / "moved")
    with pytest.raises(FileNotFoundError, match=r"word vectors of .*model must be at"):
        load(tmp_path / "model")

    config = json.loads((tmp_path / "model" / "config.json").read_text())
    for url in ("hf://somebody/words", "https://example.com/words"):  # a path, never fetched
        rewritten(tmp_path / "model", parts={"words": config["parts"]["words"] | {"path": url}})
        with pytest.raises(FileNotFoundError, match=r"word vectors of .*model must be at"):
            load(tmp_path / "model")


def test_a_class_we_do_not_have_is_never_looked_for_elsewhere(tmp_path, fitted):
    save(fitted, tmp_path / "model")
    for field in ("class", "kind"):
        for name in ("os.system", "WordVectors2", "np", "check_random_state", "__import__"):
            rewritten(tmp_path / "model", **{field: name})
            with pytest.raises(ValueError, match=r"which this pacsent .*does not have"):
                load(tmp_path / "model")


def run_check(*arguments):
    return invoke("verify", *arguments)


def test_check_finds_a_flipped_bit_in_every_file_of_a_sound_model(tmp_path, fitted):
    save(fitted, tmp_path / "model")
    done = run_check(tmp_path / "model")
    assert done.exit_code == 0 and "DAMAGED" not in done.output
    for what in ("config.json", "model.safetensors", "words/config.json", "words/vocabulary.tsv"):
        assert f"ok       {what}: " in done.output
    assert "4 words found, all numbers finite" in done.output

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
            report = json.loads(done.output)
            assert not report["verified"]
            assert all("\n" not in step["found"] for step in report["checks"])
        file.write_bytes(whole)

    report = json.loads(run_check(tmp_path / "model", "--json").output)
    assert report["verified"] and {step["ok"] for step in report["checks"]} == {True}


@pytest.mark.parametrize("place", ["/etc/passwd", 3, "x" * 5000, "a\0b", None, "no parts"])
def test_check_names_every_part_that_is_no_folder(tmp_path, fitted, place):
    save(fitted, tmp_path / "model")
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    del config["digest"], config["parts"]
    write_config(
        tmp_path / "model",
        config if place == "no parts" else config | {"parts": {"words": {"path": place}}},
    )

    done = run_check(tmp_path / "model")
    assert done.exit_code == 1 and isinstance(done.exception, SystemExit)
    named = "DAMAGED  words: " in done.output and "must name the folder" in done.output
    assert named == (place != "no parts")


def folder_of(tmp_path, *parts):
    """A saved word vector model with files of the user in it."""
    folder = tmp_path / "model"
    save(made(), folder)
    for part in parts:
        path = folder / part
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("mine")
    return folder


def test_saving_over_a_model_keeps_what_the_user_put_into_its_folder(tmp_path):
    parts = [".git/HEAD", ".git/objects/ab/cd", "eval.csv", "notes/today.md"]
    folder = folder_of(tmp_path, *parts)

    save(made(n_words=7), folder, overwrite=True)

    assert [(folder / part).read_text() for part in parts] == ["mine"] * 4
    assert load(folder).n_words == 7
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model"]


def test_files_of_the_replaced_model_that_the_new_one_does_not_have_are_deleted(tmp_path):
    words = made()
    folder = tmp_path / "model"
    save(make_encoder("Average", words).fit([]), folder)  # has the word vectors as a part
    (folder / "words" / "mine.txt").write_text("mine")

    save(words, folder, overwrite=True)

    left = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert left == {"config.json", "model.safetensors", "vocabulary.tsv", "words/mine.txt"}


def test_a_file_of_the_user_with_the_name_of_a_new_one_is_never_replaced(tmp_path):
    classifier = pacsent.TextClassifier(None).fit(["good film", "bad film"] * 9, ["a", "b"] * 9)
    folder = save(classifier, tmp_path / "model")
    (folder / "vocabulary.tsv").write_text("mine")

    with pytest.raises(ValueError, match=r"vocabulary\.tsv must be a file that pacsent wrote"):
        save(made(), folder, overwrite=True)

    assert (folder / "vocabulary.tsv").read_text() == "mine"
    assert load(folder).predict(["good film"]).tolist() == ["a"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model"]


def test_a_model_that_is_replaced_while_it_is_read_is_read_again(tmp_path, monkeypatch):
    folder = folder_of(tmp_path)
    read_tensors, n_reads = saving.read_tensors, []

    def read_while_another_saves(path):
        n_reads.append(path)
        if len(n_reads) == 1:
            save(made(n_words=7), folder, overwrite=True)
        return read_tensors(path)

    monkeypatch.setattr(saving, "read_tensors", read_while_another_saves)

    assert load(folder).n_words == 7
    assert len(n_reads) == 2


def test_a_model_that_is_missing_for_an_instant_is_waited_for(tmp_path, monkeypatch):
    folder = folder_of(tmp_path)
    away = tmp_path / ".model.old-12345678"
    folder.rename(away)
    monkeypatch.setattr(saving.time, "sleep", lambda seconds: away.rename(folder))

    assert load(folder).n_words == 5


def test_a_damaged_model_that_nobody_replaces_is_read_once(tmp_path, monkeypatch):
    folder = folder_of(tmp_path)
    (folder / "model.safetensors").write_bytes(b"")
    monkeypatch.setattr(saving.time, "sleep", lambda seconds: pytest.fail("it waited"))

    with pytest.raises(ValueError, match="safetensors"):
        load(folder)


@pytest.mark.slow
def test_no_load_fails_while_another_process_saves(tmp_path):
    script = (
        "import sys, warnings; warnings.simplefilter('ignore')\n"
        "from pacsent import TextClassifier, save\n"
        "a = TextClassifier(None).fit(['good film', 'bad film'] * 9, ['a', 'b'] * 9)\n"
        "b = TextClassifier(None).fit(['wine', 'beer', 'tea'] * 9, ['a', 'b', 'c'] * 9)\n"
        "for _ in range(150):\n"
        "    save(a, sys.argv[1], overwrite=True); save(b, sys.argv[1], overwrite=True)\n"
        "    print('saved', flush=True)\n"
    )

    saver = subprocess.Popen(
        [sys.executable, "-c", script, tmp_path / "model"], stdout=subprocess.PIPE, text=True
    )
    saver.stdout.readline()

    n_loads = 0
    while saver.poll() is None:
        assert len(load(tmp_path / "model").classes_) in (2, 3)
        n_loads += 1

    assert saver.returncode == 0 and n_loads > 100
