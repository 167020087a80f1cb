"""A saved model is a folder that opens at once, and that nothing can half overwrite."""

import errno
import hashlib
import json
import os
import shutil
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


@pytest.fixture
def folder(tmp_path):
    """Where the model of a test is saved."""
    return tmp_path / "model"


@pytest.fixture(scope="module")
def words_folder(tmp_path_factory):
    """Five word vectors as they are saved; not to be changed."""
    return save(made(), tmp_path_factory.mktemp("words") / "model")


@pytest.fixture
def saved_words(folder, words_folder):
    """Five word vectors, saved in the folder."""
    shutil.copytree(words_folder, folder)
    return made()


def fit_estimator(words, texts):
    vectorizer = make_encoder("PB-IDF-L2", words, lam=2.5, on_empty="ignore")
    return vectorizer.fit(texts)


@pytest.fixture
def fitted(toy_word_vectors, tiny_corpus):
    return fit_estimator(toy_word_vectors, tiny_corpus)


@pytest.fixture(scope="module")
def estimator_folder(tmp_path_factory, toy_word_vectors, tiny_corpus):
    """A fitted estimator as it is saved with a copy of its word vectors; not to be changed."""
    estimator = fit_estimator(toy_word_vectors, tiny_corpus)
    return save(estimator, tmp_path_factory.mktemp("estimator") / "model")


@pytest.fixture
def saved_estimator(folder, estimator_folder):
    """The folder has a fitted estimator and a copy of its word vectors."""
    shutil.copytree(estimator_folder, folder)


def made(n_words=5, n_dims=3, *, dtype=np.float32, output=True, counts=True, **more):
    rng = np.random.default_rng(7)
    names = [f"word{i}" for i in range(n_words)]
    word_counts = 10 * np.arange(n_words, 0, -1)
    vocabulary = Vocabulary(names, word_counts if counts else None)

    tables = rng.normal(size=(2, n_words, n_dims)).astype(dtype)
    return WordVectors(vocabulary, tables[0], tables[1] if output else None, **more)


def assert_same_words(found, expected):
    assert list(found.words) == list(expected.words)
    for name in ("counts", "input_vectors", "output_vectors"):
        assert_same_array(getattr(found, name), getattr(expected, name))

    assert found.corpus_digest == expected.corpus_digest
    assert found.training == expected.training
    assert found.vocabulary.normalize == expected.vocabulary.normalize
    assert repr(found.subwords) == repr(expected.subwords)


def assert_same_array(found, expected):
    """Equal numbers of one type, or both missing."""
    if expected is None:
        assert found is None
        return

    assert found.dtype == expected.dtype
    assert_array_equal(found, expected)


def read_config(folder):
    text = (folder / "config.json").read_text()
    return json.loads(text)


def run_check(*arguments):
    return invoke("verify", *arguments)


def names_in(folder):
    return sorted(path.name for path in folder.iterdir())


def rewritten(folder, changes=None, **settings):
    """A folder with another content and the digests of that, as a person with a script makes it."""
    config = read_config(folder) | settings
    if changes:
        path = folder / "model.safetensors"
        rewrite_tensors(path, changes)
        config["files"] = config["files"] | {"model.safetensors": file_record(path)}

    del config["digest"]
    (folder / "config.json").unlink()
    write_config(folder, config)


def rewrite_tensors(path, changes):
    """Each tensor that has a change is replaced by what that makes of it; None deletes it."""
    tensors = {name: np.array(array) for name, array in storage.read_tensors(path).items()}
    for name, change in changes.items():
        tensors[name] = change(tensors.get(name))

    path.unlink()
    kept = {name: array for name, array in tensors.items() if array is not None}
    storage.write_tensors(path, kept)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("output", [True, False])
@pytest.mark.parametrize("counts", [True, False])
def test_word_vectors_come_back_as_they_were(folder, dtype, output, counts):
    words = made(
        dtype=dtype,
        output=output,
        counts=counts,
        corpus_digest="9f2c",
        training={"window": 5, "subsample": 1e-4, "lam": float("inf"), "sizes": (1, 2)},
        subwords=Subwords(np.arange(33, dtype=np.float32).reshape(11, 3), 2, 4),
    )

    assert save(words, folder) == folder
    again = load(str(folder))

    assert_same_words(again, words)
    assert again.digest() == words.digest()
    assert_array_equal(again.input("unseen"), words.input("unseen"))


def test_saved_word_vectors_are_mapped_and_cannot_be_written_to(folder, saved_words):
    vectors = load(folder).input_vectors

    assert isinstance(vectors.base, np.memmap)
    assert vectors.flags.aligned
    assert not vectors.flags.writeable


def test_the_folder_is_readable_by_a_person(folder):
    save(made(2, 2), folder)

    assert names_in(folder) == ["config.json", "model.safetensors", "vocabulary.tsv"]
    assert (folder / "vocabulary.tsv").read_text() == "word0\t20\nword1\t10\n"


def test_the_description_names_the_versions_and_what_is_in_the_folder(folder, saved_words):
    config = read_config(folder)

    assert config["format_version"] == 3
    assert config["pacsent_version"] == pacsent.__version__
    assert config["kind"] == "WordVectors"
    assert config["tables"] == ["input_vectors", "output_vectors"]


@pytest.fixture
def arrays():
    """A tensor of every type that can be saved, one without rows and one without dimensions."""
    arrays = {}
    for name in tensor_files._DTYPE_NAMES:
        arrays[name] = np.arange(6).reshape(2, 3).astype(name)
    arrays["none"] = np.zeros((0, 4), np.int64)
    arrays["single"] = np.array(2.5)
    return arrays


def assert_same_tensors(tensors, arrays):
    assert set(tensors) == set(arrays)
    for name, array in tensors.items():
        assert array.flags.aligned
        assert_same_array(array, arrays[name])


def test_tensors_of_every_type_come_back(tmp_path, arrays):
    arrays["turned"] = np.asfortranarray(np.arange(6.0).reshape(2, 3))

    storage.write_tensors(tmp_path / "ours", arrays)

    assert_same_tensors(storage.read_tensors(tmp_path / "ours"), arrays)


def test_the_safetensors_library_reads_our_tensors(tmp_path, arrays):
    numpy = pytest.importorskip("safetensors.numpy")
    arrays["turned"] = np.asfortranarray(np.arange(6.0).reshape(2, 3))

    storage.write_tensors(tmp_path / "ours", arrays)

    assert_same_tensors(numpy.load_file(tmp_path / "ours"), arrays)


def test_tensors_of_the_safetensors_library_are_read(tmp_path, arrays):
    numpy = pytest.importorskip("safetensors.numpy")

    numpy.save_file(arrays, tmp_path / "theirs", metadata={"made": "elsewhere"})

    assert_same_tensors(storage.read_tensors(tmp_path / "theirs"), arrays)


def test_an_array_of_text_is_no_tensor(tmp_path):
    with pytest.raises(ValueError, match=r"names must be an array of numbers to be saved. Got <U1"):
        storage.write_tensors(tmp_path / "u", {"names": np.array(["a"])})


any_word = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


@settings(max_examples=50)
@given(st.lists(any_word, min_size=1, unique=True))
def test_any_word_comes_back_tabs_and_line_breaks_too(tmp_path, odd):
    folder = tmp_path / "model"
    table = np.ones((len(odd), 2), dtype=np.float32)

    save(WordVectors(Vocabulary(odd), table), folder, overwrite=True)

    assert list(load(folder).words) == odd
    lines = (folder / "vocabulary.tsv").read_bytes().split(b"\n")
    assert len(lines) == len(odd) + 1  # a line break inside a word is written as \n


def test_a_normalisation_that_is_a_function_is_not_saved(folder):
    vocabulary = Vocabulary(["a"], normalize=str.split)
    words = WordVectors(vocabulary, np.ones((1, 2), np.float32))

    with pytest.raises(ValueError, match=r"Got \w+ instead.*load\(path, normalize="):
        save(words, folder)


def test_a_normalisation_can_be_given_when_a_model_is_loaded(folder):
    save(WordVectors(Vocabulary(["A"]), np.ones((1, 2), np.float32)), folder)

    again = load(folder, normalize=str.split)

    assert again.vocabulary.encode(["A b"]).ids.size == 1


@pytest.fixture
def foreign_file(tmp_path):
    """Five word vectors in a format of other programs."""
    formats.write(made(), tmp_path / "v.bin")
    return tmp_path / "v.bin"


def test_a_normalisation_can_be_given_to_files_of_other_programs(foreign_file):
    words = made()

    again = load(foreign_file, normalize="unicode")

    assert list(again.words) == list(words.words)
    assert_array_equal(again.input_vectors, words.input_vectors)
    assert again.vocabulary.normalize == "unicode"


def test_files_of_other_programs_hold_word_vectors_themselves(foreign_file):
    with pytest.raises(ValueError, match=r"holds word vectors itself"):
        load(foreign_file, word_vectors=made())


def edited(classes=None, **certificate):
    """A change of the tensor that describes a certified classifier."""

    def edit(description):
        described = json.loads(description.tobytes())
        described["classes"] = classes or described["classes"]
        described["certificate"] |= certificate
        text = json.dumps(described).encode()
        return np.frombuffer(text, np.uint8)

    return {"description": edit}


def ten_times(array):
    return np.repeat(array, 10, axis=0)


FORGED = {
    "certificate was changed": edited(error_upper=1e-6),
    "assumption must be": edited(assumption="texts are drawn by the author."),
    "classes are not those of its estimator": edited(classes=["up", "down"]),
    r"calibration.labels must have shape \(60\)": {
        "calibration.log_proba": ten_times,
        "calibration.labels": ten_times,
        "calibration.monitors": ten_times,
    },
}

REVIEWS = [f"good film {i}" if i % 2 else f"bad book {i}" for i in range(120)]
OPINIONS = ["down", "up"] * 60


@pytest.fixture(scope="module")
def certified():
    """A classifier with a certificate."""
    classifier = pacsent.TextClassifier(None)
    model = pacsent.CertifiedClassifier(classifier, calibration_size=0.5)
    return model.fit(REVIEWS, OPINIONS)


@pytest.mark.parametrize("message", FORGED)
def test_a_certificate_in_a_folder_is_verified_when_it_is_opened(certified, folder, message):
    save(certified, folder)
    rewritten(folder, FORGED[message])

    with pytest.raises(ValueError, match=rf"damaged: .*{message}"):
        load(folder)
    assert check(folder)[-1]["ok"] is False


@pytest.fixture
def other_calibration(certified, folder):
    """A certified classifier whose probabilities of the calibration set were changed."""
    save(certified, folder)
    rewritten(folder, {"calibration.log_proba": lambda array: array / 2})
    return folder


def test_check_names_a_calibration_set_that_is_not_the_certificates(other_calibration):
    assert "the calibration set" in run_check(other_calibration).output


def test_verifying_a_certificate_finds_another_calibration_set(other_calibration):
    model = load(other_calibration)

    with pytest.raises(ValueError, match=r"Got other log_proba instead"):
        model.certificate_.verify(model, REVIEWS, OPINIONS)


@pytest.mark.parametrize("name", ["coef_ngrams", "intercept", "idf"])
def test_weights_whose_scores_would_overflow_are_refused(folder, name):
    model = pacsent.TextClassifier(None)
    model.fit(["a b", "a c", "d b", "d c"], [1, 1, 0, 0])
    save(model, folder)
    rewritten(folder, {name: lambda array: np.full_like(array, 3e38)})

    with pytest.raises(ValueError, match=rf"damaged: {name} must be at least -1"):
        load(folder)


def test_saving_over_a_model_replaces_it(folder, saved_words):
    save(made(9), folder, overwrite=True)

    assert load(folder).n_words == 9


def test_a_model_that_is_replaced_while_it_is_open_stays_readable(folder, saved_words):
    opened = load(folder)

    save(made(9), folder, overwrite=True)

    assert_array_equal(opened.input_vectors, saved_words.input_vectors)  # the map of the old file


def test_a_model_can_be_saved_onto_itself(folder, saved_words):
    save(load(folder), folder, overwrite=True)

    assert load(folder).n_words == 5


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
def test_an_interrupted_save_keeps_the_old_one(
    tmp_path, folder, saved_words, monkeypatch, home, moment, error, message
):
    def interrupt(*args):
        raise error

    monkeypatch.setattr(home, moment, interrupt)
    with pytest.raises(type(error), match=message):
        save(made(9), folder, overwrite=True)

    assert load(folder).n_words == 5
    assert names_in(tmp_path) == ["model"]


def test_arrays_have_the_permissions_of_other_files(folder, saved_words):
    modes = {path.stat().st_mode for path in folder.iterdir()}

    assert len(modes) == 1


def test_a_disk_that_is_full_of_arrays_is_named(folder, saved_words, monkeypatch):
    def fill_disk(*args):
        raise SafetensorError("I/O error: No space left on device (os error 28)")

    monkeypatch.setattr("safetensors.numpy.save_file", fill_disk)
    with pytest.raises(OSError, match=r"is full: .*model was not saved"):
        save(made(9), folder, overwrite=True)


def test_the_old_model_is_put_back_where_the_new_one_cannot_be(folder, saved_words, monkeypatch):
    rename = os.rename
    calls = []

    def second_fails(source, target):
        calls.append(source)
        if len(calls) == 2:
            raise OSError(errno.EIO, "the disk went away")
        rename(source, target)

    monkeypatch.setattr(files.os, "rename", second_fails)
    with pytest.raises(OSError, match=r"the disk went away"):
        save(made(9), folder, overwrite=True)

    assert load(folder).n_words == 5


def test_the_message_says_where_an_interrupted_save_left_the_model(tmp_path, folder, saved_words):
    folder.rename(tmp_path / ".model.old-1234")  # as if killed between the two

    with pytest.raises(FileNotFoundError, match=r"interrupted and left the model in .*old-1234"):
        load(folder)


def load_after_a_kill(folder):
    """The model in a folder; between two renames, the one that the message says to rename."""
    try:
        return load(folder)
    except FileNotFoundError as error:
        (whole,) = folder.parent.glob(f".{folder.name}.old-*")
        assert f"left the model in {whole}: rename it back" in str(error)
        return load(whole.rename(folder))


SAVING_TWO_MODELS_IN_TURN = """
import sys, numpy as np
from pacsent import Vocabulary, WordVectors, save

models = []
for n in (500, 900):
    vocabulary = Vocabulary([f"w{i}" for i in range(n)])
    models.append(WordVectors(vocabulary, np.full((n, 50), n, dtype=np.float32)))

save(models[0], sys.argv[1], overwrite=True)
print("saved", flush=True)
while True:
    for model in models:
        save(model, sys.argv[1], overwrite=True)
"""


def test_a_killed_process_leaves_a_model_that_loads(folder):
    command = [sys.executable, "-c", SAVING_TWO_MODELS_IN_TURN, str(folder)]

    for wait in (0.0, 0.003, 0.011, 0.017):
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            process.stdout.readline()
            time.sleep(wait)
            process.kill()

        words = load_after_a_kill(folder)
        assert words.n_words in (500, 900)
        assert (words.input_vectors == words.n_words).all()


def test_missing_parents_of_a_folder_are_made(tmp_path):
    folder = tmp_path / "a" / "b" / "model"

    save(made(5), folder)

    assert load(folder).n_words == 5


def test_a_link_to_a_model_stays_a_link(tmp_path, folder, saved_words):
    link = tmp_path / "link"
    link.symlink_to(folder)

    save(made(9), link, overwrite=True)

    assert link.is_symlink()
    assert load(folder).n_words == 9


def test_a_model_is_saved_into_an_empty_folder(folder):
    folder.mkdir()

    save(made(), folder)

    assert load(folder).n_words == 5


@pytest.fixture
def thesis(tmp_path):
    """A folder of the user that is no model."""
    folder = tmp_path / "thesis"
    folder.mkdir()
    (folder / "chapter.txt").write_text("words")
    return folder


def test_a_folder_of_the_user_is_not_saved_into(thesis):
    with pytest.raises(ValueError, match=r"exists and is a folder that is not a pacsent model"):
        save(made(), thesis)

    assert names_in(thesis) == ["chapter.txt"]


def test_a_model_of_another_program_is_not_saved_into(thesis):
    (thesis / "config.json").write_text('{"model_type": "bert"}')

    with pytest.raises(ValueError, match=r"is not a pacsent model"):
        save(made(), thesis)

    assert names_in(thesis) == ["chapter.txt", "config.json"]


def test_a_file_is_not_replaced_by_a_model(thesis):
    chapter = thesis / "chapter.txt"

    with pytest.raises(ValueError, match=r"exists and is a file"):
        save(made(), chapter)

    assert chapter.read_text() == "words"


def assert_not_saved(model, folder, error, message, words="copy"):
    """Saving is refused, and nothing is left behind."""
    with pytest.raises(error, match=message):
        save(model, folder, words=words)

    assert names_in(folder.parent) == []


def test_only_word_vectors_and_estimators_are_saved(folder):
    assert_not_saved({}, folder, TypeError, r"WordVectors or a fitted estimator.* Got dict")


def test_an_estimator_is_saved_only_when_it_is_fitted(folder, toy_word_vectors):
    unfitted = make_encoder("SIF", toy_word_vectors)

    assert_not_saved(unfitted, folder, NotFittedError, r"is not fitted")


def test_words_are_saved_as_a_copy_or_a_reference(folder):
    message = r"words must be 'copy' or 'reference'. Got 'link'"

    assert_not_saved(made(), folder, ValueError, message, words="link")


def test_only_saved_word_vectors_can_be_referred_to(folder):
    model = make_encoder("Average", made(), on_empty="ignore")
    model.fit([["word1"]])
    message = r"saved to or loaded from a folder"

    assert_not_saved(model, folder, ValueError, message, words="reference")


def test_a_word_that_is_half_a_character_is_not_saved(folder):
    half = Vocabulary(["a\ud800"])
    words = WordVectors(half, np.ones((1, 2), dtype=np.float32))

    assert_not_saved(words, folder, ValueError, r"valid Unicode to be saved")


def test_only_plain_facts_about_the_training_are_saved(folder):
    words = made(training={"x": object()})

    assert_not_saved(words, folder, ValueError, r"must be numbers, strings, lists or")


def test_a_parameter_that_only_pickle_could_keep_is_not_saved(folder, fitted):
    fitted.lam = print
    message = r"the parameter 'lam' of IDFVectorizer must be numbers"

    assert_not_saved(fitted, folder, ValueError, message)


def assert_refused(place, message):
    """Loading is refused with a message of one line."""
    with pytest.raises((ValueError, FileNotFoundError), match=message) as error:
        load(place)

    assert "\n" not in str(error.value)


def test_a_folder_that_does_not_exist_is_named(tmp_path):
    assert_refused(tmp_path / "nowhere", r"There is no folder .*nowhere. Check the spelling")


def test_a_file_that_is_no_model_is_named(tmp_path):
    (tmp_path / "file").write_text("x")

    assert_refused(tmp_path / "file", r"file must be word vectors in a known format")


def test_a_folder_that_is_no_model_is_named(tmp_path):
    (tmp_path / "other").mkdir()

    assert_refused(tmp_path / "other", r"must be a folder of word vectors: a pacsent model")


def test_a_file_that_was_cut_off_is_named(folder, saved_words):
    file = folder / "model.safetensors"
    content = file.read_bytes()
    file.write_bytes(content[:-1])

    assert_refused(folder, r"model\.safetensors must .* instead\. It is")


def test_a_missing_file_of_a_model_is_named(folder, saved_words):
    (folder / "model.safetensors").unlink()

    assert_refused(folder, r"model.safetensors is missing")


def test_a_description_that_nests_deeply_is_refused(folder, saved_words):
    (folder / "config.json").write_bytes(b"[" * 100_000)

    assert_refused(folder, "config.json must be")


def test_a_model_of_a_newer_format_names_the_version_that_wrote_it(folder, saved_words):
    newer = '{"format_version": 4, "pacsent_version": "9.1"}'
    (folder / "config.json").write_text(newer)

    assert_refused(folder, "Got 4 instead, written by pacsent 9.1")


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
def test_tensors_that_are_wrong_behind_right_checksums_are_named(folder, name, damage, message):
    subwords = Subwords(np.ones((11, 3), np.float32), 2, 4)
    save(made(subwords=subwords), folder)
    rewritten(folder, {name: damage})

    with pytest.raises(ValueError, match=message):
        use(load(folder))
    assert check(folder)[-1]["ok"] is False


def use(words):
    """Touch every table of word vectors: some are checked at their first use."""
    assert words.counts.sum()
    assert words.roles()
    assert words.input("unseen").size


@pytest.mark.parametrize(
    "entry",
    [
        {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]},
        {"dtype": "F99", "shape": [1], "data_offsets": [0, 4]},
        {"dtype": "F32", "shape": [-1], "data_offsets": [4, 0]},
        7,
    ],
)
def test_a_header_that_lies_is_refused(tmp_path, entry):
    header = json.dumps({"a": entry}).encode()
    size = len(header).to_bytes(8, "little")
    (tmp_path / "t").write_bytes(size + header + bytes(4))

    with pytest.raises(ValueError, match=r"must have a safetensors header"):
        storage.read_tensors(tmp_path / "t")


def test_a_file_that_is_longer_than_its_header_says_is_refused(tmp_path):
    file = tmp_path / "t"
    storage.write_tensors(file, {"a": np.ones(3)})
    with file.open("ab") as longer:
        longer.write(b"x")

    with pytest.raises(ValueError, match=r"bytes long, as its header says"):
        storage.read_tensors(file)


def test_an_edited_description_is_noticed(folder, saved_estimator):
    file = folder / "config.json"
    text = file.read_text()
    file.write_text(text.replace('"lam": 2.5', '"lam": 2.6'))

    with pytest.raises(ValueError, match=r"config.json .* \(it was changed after it was saved\)"):
        load(folder)


def test_white_space_of_a_description_may_change(folder, saved_estimator):
    config = read_config(folder)
    (folder / "config.json").write_text(json.dumps(config))

    assert load(folder).lam == 2.5


@pytest.fixture
def other_words(toy_word_vectors):
    """The same words with their two tables exchanged."""
    return WordVectors(
        toy_word_vectors.vocabulary,
        toy_word_vectors.output_vectors,
        toy_word_vectors.input_vectors,
    )


def test_words_of_another_model_in_a_folder_are_noticed(folder, saved_estimator, other_words):
    save(other_words, folder / "words", overwrite=True)

    with pytest.raises(ValueError, match=r"words must have the word vectors that were saved with"):
        load(folder)


def test_an_estimator_is_loaded_only_with_its_own_word_vectors(
    folder, saved_estimator, other_words
):
    with pytest.raises(ValueError, match=r"must be the ones it was fitted with .*Got digest"):
        load(folder, word_vectors=other_words)


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
    folder, saved_estimator, changes, parameters, message
):
    found = read_config(folder)["parameters"]
    rewritten(folder, changes, parameters=found | parameters)

    with pytest.raises(ValueError, match=message):
        load(folder)


@pytest.fixture
def hashed_words(folder, monkeypatch):
    """Three hundred word vectors that are saved with a table for looking words up."""
    monkeypatch.setattr(vectors, "_MIN_HASHED_WORDS", 1)
    words = made(300, 2)
    save(words, folder)
    return words


def test_the_table_for_looking_words_up_is_saved(folder, hashed_words):
    tensors = storage.read_tensors(folder / "model.safetensors")

    hash_table = hashed_words.vocabulary.arrays()["hash_table"]
    assert_array_equal(tensors["vocabulary.hash_table"], hash_table)


def test_words_are_looked_up_in_the_saved_table(folder, hashed_words):
    opened = load(folder)

    assert "hash_table" in opened.vocabulary.table._arrays
    for i in (0, 17, 299):
        assert_array_equal(opened.input(f"word{i}"), hashed_words.input_vectors[i])
    assert "word300" not in opened


def test_a_table_for_looking_words_up_of_another_version_is_built_again(folder, hashed_words):
    rewritten(folder, hash_table_version=99)

    opened = load(folder)

    assert "hash_table" not in opened.vocabulary.table._arrays
    assert_array_equal(opened.input("word17"), hashed_words.input_vectors[17])


def test_the_hash_table_is_that_of_its_version():
    """Saved tables are used as they are: if this fails, HASH_TABLE_VERSION must go up."""
    table = Vocabulary(["film", "good", "café", "日本"]).arrays()["hash_table"]
    assert vectors.HASH_TABLE_VERSION == 2
    digest = hashlib.sha256(np.ascontiguousarray(table).tobytes()).hexdigest()
    assert digest.startswith("00e24959866e0fb7")


@pytest.fixture(scope="module")
def committed():
    """The model under version control, opened."""
    return load(COMMITTED)


def test_the_model_under_version_control_has_its_parameters(committed):
    assert committed.get_params(deep=False) == {
        "word_vectors": committed.word_vectors,
        "lam": 2.5,
        "lam_mode": "fixed",
        "prior_variance": 1.0,
        "swap_roles": False,
        "on_empty": "ignore",
        "batch_size": 1024,
        "n_jobs": None,
    }
    assert_array_equal(committed.idf_, np.log([4 / 3, 2, 4, 4, 4, 4]) + 1)


def test_the_model_under_version_control_has_its_words(committed):
    words = committed.word_vectors

    assert list(words.words) == ["film", "good", "quiet", "café", "two words", "tab\there"]
    assert_array_equal(words.counts, [60, 50, 40, 30, 20, 10])


def test_the_model_under_version_control_has_its_vectors(committed):
    words = committed.word_vectors

    assert words.input_vectors.dtype == np.float16
    assert_array_equal(words.input("good"), [0.25, -0.5, 1.5])
    assert_array_equal(words.output("good"), [-0.75, 2.0, 0.125])


def test_the_model_under_version_control_says_how_it_was_trained(committed):
    words = committed.word_vectors

    assert words.corpus_digest == "0" * 64
    assert words.training == {"n_epochs": 5, "note": "made-up numbers", "lam": float("inf")}


def test_the_model_under_version_control_is_sound():
    assert run_check(COMMITTED).exit_code == 0


def test_every_module_registers_what_the_table_says():
    for group, modules in registry.MODULES.items():
        for kind in modules:
            assert callable(registry.find_reader(group, kind)), kind


def test_no_module_is_looked_for_outside_the_table():
    assert registry.find_reader("model", "os.system") is None


ways_to_save = [*((method, "copy") for method in METHODS), ("PB-IDF-L2", "reference")]


@pytest.fixture(scope="module", params=ways_to_save, ids="-".join)
def saved_method(request, tmp_path_factory, toy_word_vectors, tiny_corpus):
    """(estimator, folder, words) of each method, saved with its word vectors or without them."""
    method, words = request.param
    home = tmp_path_factory.mktemp("method")
    estimator = make_encoder(method, toy_word_vectors).fit(tiny_corpus)
    save(estimator.word_vectors, home / "vectors")
    save(estimator, home / "model", words=words)
    return estimator, home / "model", words


@pytest.mark.filterwarnings("ignore")  # ten sentences are few
def test_a_saved_estimator_comes_back_equal(saved_method, tiny_corpus):
    estimator, folder, _ = saved_method

    again = load(folder)

    assert type(again) is type(estimator)
    found = again.get_params(deep=False)
    expected = estimator.get_params(deep=False)
    assert_same_words(found.pop("word_vectors"), expected.pop("word_vectors"))
    assert found == expected
    for array, same_array in zip(again.posterior(tiny_corpus), estimator.posterior(tiny_corpus)):
        assert_array_equal(array, same_array)


@pytest.mark.filterwarnings("ignore")  # ten sentences are few
def test_the_word_vectors_of_an_estimator_are_copied_unless_they_are_referred_to(saved_method):
    _, folder, words = saved_method

    assert (folder / "words").exists() == (words == "copy")


@pytest.mark.filterwarnings("ignore")  # ten sentences are few
def test_a_saved_estimator_takes_word_vectors_that_are_open_already(saved_method):
    estimator, folder, _ = saved_method

    again = load(folder, word_vectors=estimator.word_vectors)

    assert again.word_vectors is estimator.word_vectors


def test_word_vectors_are_given_only_to_an_estimator(folder, saved_words):
    with pytest.raises(ValueError, match=r"word_vectors is for loading an estimator"):
        load(folder, word_vectors=saved_words)


@pytest.fixture
def referred_words(tmp_path, folder, fitted):
    """The folder of the word vectors that a saved estimator refers to."""
    save(fitted.word_vectors, tmp_path / "vectors")
    save(fitted, folder, words="reference")
    return tmp_path / "vectors"


def test_a_reference_to_changed_vectors_is_noticed(folder, referred_words):
    save(made(4, 2), referred_words, overwrite=True)

    with pytest.raises(ValueError, match=r"must be the ones it was fitted with .*Got digest"):
        load(folder)


def test_a_reference_to_moved_vectors_is_noticed(tmp_path, folder, referred_words):
    referred_words.rename(tmp_path / "moved")

    with pytest.raises(FileNotFoundError, match=r"word vectors of .*model must be at"):
        load(folder)


@pytest.mark.parametrize("url", ["hf://somebody/words", "https://example.com/words"])
def test_a_reference_is_a_path_that_is_never_fetched(folder, referred_words, url):
    reference = read_config(folder)["parts"]["words"]
    reference["path"] = url
    rewritten(folder, parts={"words": reference})

    with pytest.raises(FileNotFoundError, match=r"word vectors of .*model must be at"):
        load(folder)


@pytest.mark.parametrize("field", ["class", "kind"])
@pytest.mark.parametrize(
    "name", ["os.system", "WordVectors2", "np", "check_random_state", "__import__"]
)
def test_a_class_we_do_not_have_is_never_looked_for_elsewhere(folder, saved_estimator, field, name):
    rewritten(folder, **{field: name})

    with pytest.raises(ValueError, match=r"which this pacsent .*does not have"):
        load(folder)


def test_check_names_every_file_of_a_sound_model(folder, saved_estimator):
    done = run_check(folder)

    assert done.exit_code == 0
    assert "DAMAGED" not in done.output
    assert "4 words found, all numbers finite" in done.output
    for what in ("config.json", "model.safetensors", "words/config.json", "words/vocabulary.tsv"):
        assert f"ok       {what}: " in done.output


def test_check_reports_a_sound_model_as_verified(folder, saved_estimator):
    done = run_check(folder, "--json")

    report = json.loads(done.output)
    assert report["verified"]
    assert all(step["ok"] is True for step in report["checks"])


def test_check_finds_a_flipped_bit_in_every_file(folder, saved_estimator):
    every_file = [path for path in folder.rglob("*") if path.is_file()]
    assert len(every_file) == 5

    for file in every_file:
        whole = file.read_bytes()
        step = max(1, len(whole) // 7)
        for place in range(0, len(whole), step):
            damaged = bytearray(whole)
            damaged[place] ^= 1
            file.write_bytes(damaged)
            assert_reported_as_damaged(folder, (file, place))
        file.write_bytes(whole)


def assert_reported_as_damaged(folder, where):
    done = run_check(folder, "--json")

    assert done.exit_code == 1, where
    report = json.loads(done.output)
    assert not report["verified"]
    assert all("\n" not in step["found"] for step in report["checks"])


def with_parts(folder, parts):
    """Rewrite the description of a model with other parts, or with none."""
    config = read_config(folder) | {"parts": parts}
    del config["digest"]
    if parts is None:
        del config["parts"]
    write_config(folder, config)


@pytest.mark.parametrize("place", ["/etc/passwd", 3, "x" * 5000, "a\0b", None])
def test_check_names_every_part_that_is_no_folder(folder, saved_estimator, place):
    with_parts(folder, {"words": {"path": place}})

    done = run_check(folder)

    assert done.exit_code == 1
    assert isinstance(done.exception, SystemExit)
    assert "DAMAGED  words: " in done.output
    assert "must name the folder" in done.output


def test_check_finds_that_parts_are_missing(folder, saved_estimator):
    with_parts(folder, None)

    done = run_check(folder)

    assert done.exit_code == 1
    assert isinstance(done.exception, SystemExit)
    assert "must name the folder" not in done.output


def test_saving_over_a_model_keeps_what_the_user_put_into_its_folder(tmp_path, folder, saved_words):
    parts = [".git/HEAD", ".git/objects/ab/cd", "eval.csv", "notes/today.md"]
    for part in parts:
        path = folder / part
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("mine")

    save(made(n_words=7), folder, overwrite=True)

    assert [(folder / part).read_text() for part in parts] == ["mine"] * 4
    assert load(folder).n_words == 7
    assert names_in(tmp_path) == ["model"]


def test_files_of_the_replaced_model_that_the_new_one_does_not_have_are_deleted(folder):
    words = made()
    with_a_part = make_encoder("Average", words).fit([])
    save(with_a_part, folder)
    (folder / "words" / "mine.txt").write_text("mine")

    save(words, folder, overwrite=True)

    left = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert left == {"config.json", "model.safetensors", "vocabulary.tsv", "words/mine.txt"}


def test_a_file_of_the_user_with_the_name_of_a_new_one_is_never_replaced(tmp_path, folder):
    classifier = pacsent.TextClassifier(None)
    classifier.fit(["good film", "bad film"] * 9, ["a", "b"] * 9)
    save(classifier, folder)
    (folder / "vocabulary.tsv").write_text("mine")

    with pytest.raises(ValueError, match=r"vocabulary\.tsv must be a file that pacsent wrote"):
        save(made(), folder, overwrite=True)

    assert (folder / "vocabulary.tsv").read_text() == "mine"
    assert load(folder).predict(["good film"]).tolist() == ["a"]
    assert names_in(tmp_path) == ["model"]


def test_a_model_that_is_replaced_while_it_is_read_is_read_again(folder, saved_words, monkeypatch):
    read_tensors = saving.read_tensors
    read_paths = []

    def read_while_another_saves(path):
        read_paths.append(path)
        if len(read_paths) == 1:
            save(made(n_words=7), folder, overwrite=True)
        return read_tensors(path)

    monkeypatch.setattr(saving, "read_tensors", read_while_another_saves)

    assert load(folder).n_words == 7
    assert len(read_paths) == 2


def test_a_model_that_is_missing_for_an_instant_is_waited_for(
    tmp_path, folder, saved_words, monkeypatch
):
    away = tmp_path / ".model.old-12345678"
    folder.rename(away)
    monkeypatch.setattr(saving.time, "sleep", lambda seconds: away.rename(folder))

    assert load(folder).n_words == 5


def test_a_damaged_model_that_nobody_replaces_is_read_once(folder, saved_words, monkeypatch):
    (folder / "model.safetensors").write_bytes(b"")
    monkeypatch.setattr(saving.time, "sleep", lambda seconds: pytest.fail("it waited"))

    with pytest.raises(ValueError, match="safetensors"):
        load(folder)


SAVING_TWO_CLASSIFIERS_IN_TURN = """
import sys, warnings
from pacsent import TextClassifier, save

warnings.simplefilter("ignore")
two = TextClassifier(None).fit(["good film", "bad film"] * 9, ["a", "b"] * 9)
three = TextClassifier(None).fit(["wine", "beer", "tea"] * 9, ["a", "b", "c"] * 9)
for _ in range(150):
    save(two, sys.argv[1], overwrite=True)
    save(three, sys.argv[1], overwrite=True)
    print("saved", flush=True)
"""


@pytest.mark.slow
def test_no_load_fails_while_another_process_saves(folder):
    command = [sys.executable, "-c", SAVING_TWO_CLASSIFIERS_IN_TURN, folder]
    saver = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    saver.stdout.readline()

    n_loads = 0
    while saver.poll() is None:
        classes = load(folder).classes_
        assert len(classes) in (2, 3)
        n_loads += 1

    assert saver.returncode == 0
    assert n_loads > 100
