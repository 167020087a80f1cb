"""Files of tests/data/stored open as they did when they were written, and say the same.

There is a file of every kind of model and certificate. `scripts/write_stored_files.py` wrote them;
what was asked then, and is asked here again, is in `stored_cases`.
"""

import json
import shutil

import numpy as np
import pytest

import pacsent
import stored_cases as cases
from helpers import invoke
from pacsent import registry, storage
from pacsent.certify import read_certificate

MODELS = sorted(path.name for path in (cases.STORED / "models").iterdir() if path.is_dir())
CERTIFICATES = sorted(path.stem for path in (cases.STORED / "certificates").glob("*.json"))
# Sums of floats are taken in another order on other machines, and by other versions of kernels:
# a difference of the size of float32 is none.
TOLERANCE = 2e-6


def read_json(*names):
    return json.loads(cases.STORED.joinpath(*names).read_text(encoding="utf-8"))


def differences(expected, actual, tolerance=TOLERANCE, place="answers"):
    """The places where two values of JSON differ; numbers by more than a tolerance."""
    if isinstance(expected, dict) and isinstance(actual, dict):
        if expected.keys() != actual.keys():
            return [f"{place}: keys {sorted(expected)} became {sorted(actual)}"]
        pairs = [(key, expected[key], actual[key]) for key in expected]
    elif isinstance(expected, list) and isinstance(actual, list):
        if len(expected) != len(actual):
            return [f"{place}: {len(expected)} items became {len(actual)}"]
        pairs = list(zip(range(len(expected)), expected, actual))
    else:
        are_numbers = all(type(value) in (int, float) for value in (expected, actual))
        how = {"rtol": tolerance, "atol": tolerance, "equal_nan": True}
        if are_numbers and np.isclose(actual, expected, **how):
            return []
        is_same = type(expected) is type(actual) and expected == actual
        return [] if is_same else [f"{place}: {expected!r} became {actual!r}"]
    return [
        line
        for key, before, after in pairs
        for line in differences(before, after, tolerance, f"{place}.{key}")
    ]


def skip_without_tokenizers(name):
    if name in cases.PIECES:
        pytest.importorskip("tokenizers", reason="the extra [subwords] is not installed")


# ---- models --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
def test_a_stored_model_answers_as_when_it_was_stored(name):
    skip_without_tokenizers(name)
    assert differences(read_json("models", f"{name}.json"), cases.ask(cases.open_model(name))) == []


@pytest.mark.parametrize("name", MODELS)
def test_the_checksums_of_a_stored_model_are_right(name):
    checks = storage.check(cases.STORED / "models" / name)

    assert checks
    assert [check for check in checks if not check["ok"]] == []


# One model of each kind.
OF_EACH_KIND = (
    "words",
    "encoder-PB-neg",
    "external",
    "concatenated",
    "static",
    "index-certified",
    "classifier-words",
    "certified-repeats-unknown",
)


@pytest.mark.parametrize("name", OF_EACH_KIND)
def test_a_stored_model_that_is_saved_again_answers_the_same(name, tmp_path):
    pacsent.save(cases.open_model(name), tmp_path / "model")
    encoder = cases.letter_encoder if name in cases.EXTERNAL else None

    again = pacsent.load(tmp_path / "model", encoder=encoder)

    assert differences(read_json("models", f"{name}.json"), cases.ask(again)) == []


def test_there_is_a_model_of_every_kind():
    kinds = set(registry.kinds("model"))

    stored = {read_json("models", name, "config.json")["kind"] for name in MODELS}

    assert stored == kinds


@pytest.mark.parametrize("name", cases.FORMATS)
def test_word_vectors_of_other_programs_are_read_as_before(name):
    skip_without_tokenizers(name)
    answers = cases.ask(cases.open_format(name))

    assert differences(read_json("formats", f"{name}.answers.json"), answers) == []


# ---- certificates --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CERTIFICATES)
def test_verify_prints_what_it_printed_when_the_certificate_was_stored(name):
    path = cases.STORED / "certificates" / f"{name}.json"

    printed = invoke("verify", path, status=0).output

    assert printed == path.with_suffix(".txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", CERTIFICATES)
def test_a_stored_certificate_is_written_again_byte_for_byte(name):
    text = (cases.STORED / "certificates" / f"{name}.json").read_text(encoding="utf-8")

    assert read_certificate(text).to_json() + "\n" == text


def serialize(text):
    """A certificate without its version and checksum, its numbers rounded to twelve digits.

    The logarithms of NumPy differ in the last digit between processors.
    """
    values = json.loads(text, parse_float=lambda digits: float(f"{float(digits):.12g}"))
    del values["pacsent_version"], values["checksum"]
    return json.dumps(values, indent=1, ensure_ascii=False)


@pytest.mark.parametrize("name", cases.CERTIFICATES)
def test_labels_and_predictions_give_the_stored_certificate_byte_for_byte(name):
    text = (cases.STORED / "certificates" / f"{name}.json").read_text(encoding="utf-8")

    assert serialize(cases.CERTIFICATES[name]().to_json()) == serialize(text)


@pytest.mark.parametrize("name", sorted({*cases.ENCODER_CERTIFICATES} - {"encoder-heuristics"}))
def test_a_certificate_of_an_encoder_is_verified_by_its_texts(name):
    text = (cases.STORED / "certificates" / f"{name}.json").read_text(encoding="utf-8")
    texts, encoder = cases.certified_texts(name)

    assert read_certificate(text).verify(texts, encoder)


def test_the_certificate_over_heuristics_is_found_again():
    """It does not keep the documents that fixed its thresholds, which `verify` would need."""
    stored = read_json("certificates", "encoder-heuristics.json")

    made = json.loads(cases.ENCODER_CERTIFICATES["encoder-heuristics"]().to_json())

    del stored["checksum"], made["checksum"], stored["pacsent_version"], made["pacsent_version"]
    assert differences(stored, made) == []


def test_there_is_a_certificate_of_every_kind():
    stored = {read_json("certificates", f"{name}.json")["kind"] for name in CERTIFICATES}
    stored.add(json.loads(read_json("models", "index-certified.json")["certificate"])["kind"])

    assert stored == set(registry.kinds("certificate"))


def test_comparisons_and_thresholds_of_given_labels_say_the_same():
    assert differences(read_json("statements.json"), cases.statements()) == []


# ---- what is held out ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", cases.SPLITS)
def test_a_seed_holds_out_the_same_rows(name):
    expected = read_json("splits.json")[name]

    assert differences(expected, cases.SPLITS[name](), tolerance=1e-9) == []


# ---- unfinished work -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", cases.FOLDERS)
def test_stored_work_is_continued_as_before(name, tmp_path):
    shutil.copytree(cases.STORED / name, tmp_path / name)

    answers = cases.FOLDERS[name](tmp_path / name)

    assert differences(read_json(f"{name}.json"), answers) == []


# ---- controls ------------------------------------------------------------------------------------


def test_a_changed_answer_is_noticed():
    expected = read_json("models", "classifier-few-labels.json")
    changed = json.loads(json.dumps(expected))
    changed["probabilities"][1][0] += 1e-5
    changed["predictions"][2] = "other"

    places = [line.partition(":")[0] for line in differences(expected, changed)]

    assert sorted(places) == ["answers.predictions.2", "answers.probabilities.1.0"]


def test_a_changed_byte_of_a_stored_model_is_noticed(tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(cases.STORED / "models" / "classifier-few-labels", folder)
    content = bytearray((folder / "model.safetensors").read_bytes())
    content[-5] ^= 1
    (folder / "model.safetensors").write_bytes(content)

    assert not all(check["ok"] for check in storage.check(folder))


def test_another_label_gives_another_certificate():
    text = (cases.STORED / "certificates" / "error.json").read_text(encoding="utf-8")
    data = cases.Data()
    data.labels[0] = "other"

    certificate = pacsent.certify_predictions(
        data.labels, data.predictions, texts=data.texts, random_state=0
    )

    assert serialize(certificate.to_json()) != serialize(text)
