"""`verify` of a certificate: every number is changed, one at a time, for every kind."""

import copy
import dataclasses
import html
import itertools
import json
import math
import warnings

import numpy as np
import pytest

from pacsent import certify_encoder, make_encoder, paper
from pacsent.bounds.binomial import upper_limit
from pacsent.certify import ErrorCertificate, certify_predictions, certify_stream, read_certificate
from pacsent.certify.certificate import FORMAT, RANGES, checksum
from pacsent.classify import check_labels
from pacsent.paper.simulation import SETTINGS, Language
from pacsent.search import SearchCertificate
from pacsent.sentences.distillation_certificate import measure_fidelity
from pacsent.storage.tensor_files import pack_losses, unpack_losses

FUNCTIONS = {
    "continuation": certify_encoder,
    "A": paper.certify_words,
    "B": paper.certify_documents,
    "C": paper.certify_squared_loss,
}
# Numbers whose possible values cannot be told from the right one without the texts: what was
# measured for information, and where the search for a posterior ended. A kind may need fewer.
COUNTED = {"held_out_risk", "n_held_out", "n_left_out", "n_overlapping", "n_duplicates"}
COUNTED |= {"random_state"}
RULE = {"bias", "scale", "shift_norm"}
NEEDS_TEXTS = {
    "continuation": COUNTED | RULE | {"shuffled_risk"},
    "error": {"n_duplicates"},
    "anytime error": {"n_duplicates", "n_training"},
    "A": COUNTED | RULE | {"step", "prior_variance", "n_documents"},
    "B": COUNTED | RULE | {"step", "prior_variance", "noise_risk", "noise_margin"},
    "C": COUNTED | {"constant_risk", "n_documents", "largest_square"},
    "multilabel": {"n_duplicates", "random_state"},
    "fidelity": {"n_duplicates"},
    "search": {"n_duplicates", "n_hits", "n_texts"},
}
KINDS = tuple(NEEDS_TEXTS)


@pytest.fixture(scope="module")
def language():
    """A generative model of texts, whose words have vectors."""
    return Language(SETTINGS["topics"])


@pytest.fixture(scope="module")
def texts(language):
    """Three hundred texts of sixty topics."""
    topics = np.tile(np.arange(60), 5)
    texts, _ = language.draw(np.random.default_rng(5), topics)
    return texts


@pytest.fixture(scope="module")
def encoder(language):
    return make_encoder("Average", language.words, n_jobs=1)


@pytest.fixture(scope="module")
def of_encoders(encoder, texts):
    """The certificate of each kind that is about an encoder."""
    found = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for kind, function in FUNCTIONS.items():
            options = {"posterior": "prior"} if kind == "B" else {}
            found[kind] = function(encoder, texts, random_state=0, test_size=0.2, **options)
    return found


@pytest.fixture(scope="module")
def made(of_encoders):
    """The certificate of each kind."""
    rng = np.random.default_rng(6)
    found = dict(of_encoders)
    found["error"] = ErrorCertificate.from_parts(
        n=200,
        n_errors=36,
        class_counts={"up": [120, 20], "down": [80, 16]},
        delta=0.05,
        corrections={"candidates": 3},
    )

    is_error = np.arange(200) % 20 == 7
    found["anytime error"] = certify_stream(is_error, n_training=100)

    right, given = rng.integers(0, 2, (2, 150, 3))
    found["multilabel"] = certify_predictions(right, given, n_candidates=2)

    vectors = rng.normal(size=(150, 4))
    noise = rng.normal(size=(150, 4)) / 4
    found["fidelity"] = measure_fidelity(vectors, vectors + noise)

    bound = upper_limit(12, 150, 0.05)
    found["search"] = SearchCertificate(
        error_upper=bound, delta=0.05, n=150, n_errors=12, n_texts=900
    )
    return found


def numbers(certificate):
    """The fields that are numbers, by their names."""
    values = {
        item.name: getattr(certificate, item.name) for item in dataclasses.fields(certificate)
    }
    return {name: value for name, value in values.items() if isinstance(value, int | float)}


def slightly_changed(value):
    return value + 1 if isinstance(value, int) else value * 1.01


def assert_refused(certificate, name, value, data=(), match="must"):
    """That a certificate does not verify with this value of a field."""
    changed = dataclasses.replace(certificate, **{name: value})
    with pytest.raises(ValueError, match=match):
        changed.verify(*data)
        pytest.fail(f"{name} = {value!r} was accepted")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf, -1, "0.5", True, [1]])
def test_no_number_may_be_what_it_cannot_be(made, kind, wrong):
    certificate = made[kind]

    for name in numbers(certificate):
        is_possible = wrong == -1 and name in ("bias", "scale")
        if not is_possible:
            assert_refused(certificate, name, wrong)


@pytest.mark.parametrize("kind", KINDS)
def test_a_certificate_as_it_was_made_verifies(made, kind):
    assert made[kind].verify()


@pytest.mark.parametrize("kind", KINDS)
def test_no_number_may_be_another(made, kind):
    certificate = made[kind]

    for name, value in numbers(certificate).items():
        if name in NEEDS_TEXTS[kind]:
            continue
        for other in {0, 10**9, slightly_changed(value)} - {value}:
            of_same_type = type(value)(other)
            assert_refused(certificate, name, of_same_type)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", FUNCTIONS)
def test_with_the_texts_every_number_is_checked(made, texts, encoder, kind):
    certificate = made[kind]

    for name, value in numbers(certificate).items():
        if name not in NEEDS_TEXTS[kind] or (name == "step" and value == 0):
            continue  # 1.01 times nothing
        match = "must" if name == "random_state" else f"{name} must"
        other = slightly_changed(value)
        assert_refused(certificate, name, other, data=(texts, encoder), match=match)


@pytest.mark.parametrize("kind", KINDS)
def test_a_changed_file_is_refused(made, kind):
    values = json.loads(made[kind].to_json())

    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        other = value + 1 if isinstance(value, int) else value * 1.01 + 1e-9
        changed = {**values, name: other}
        with pytest.raises(ValueError, match=r"checksum must be|format_version must be"):
            read_certificate(json.dumps(changed))


@pytest.mark.parametrize("kind", KINDS)
def test_every_number_has_a_range_or_needs_the_texts(made, kind):
    certificate = made[kind]

    names = set(numbers(certificate))

    assert names <= set(RANGES)
    assert names.intersection(certificate.needs_texts) == names & NEEDS_TEXTS[kind]


@pytest.mark.parametrize("kind", KINDS)
def test_corrections_cannot_be_left_out(made, kind):
    certificate = made[kind]

    for other in ({}, {"candidates": 0}, {"candidates": 0.5}, {"candidates": 10**6}):
        if other != certificate.corrections:
            assert_refused(certificate, "corrections", other, match="must be")


@pytest.mark.parametrize("kind", KINDS)
def test_json_keeps_every_number(made, kind):
    content = made[kind].to_json()

    assert read_certificate(content) == made[kind]


@pytest.mark.parametrize("kind", KINDS)
def test_the_page_has_the_sentence(made, kind):
    certificate = made[kind]

    page = certificate._repr_html_()

    assert "certified" in page
    assert "<script" not in page
    assert certificate.summary() in html.unescape(page)


def test_a_forged_checksum_does_not_make_an_impossible_certificate_possible(made):
    forged = json.loads(made["C"].to_json())
    del forged["checksum"]
    forged["delta"] = 0.025
    forged["checksum"] = checksum(forged)
    assert forged["format_version"] == FORMAT

    with pytest.raises(ValueError, match=r"c\.json: error_upper must be"):
        read_certificate(json.dumps(forged), "c.json")


def test_losses_are_packed_upwards_to_the_last_bit():
    rng = np.random.default_rng(0)
    representable = np.arange(65_536) / 65_535
    losses = np.concatenate([rng.random(20_000), representable])
    above = np.nextafter(losses, 2)
    below = np.nextafter(losses, -1)
    losses = np.concatenate([losses, above, below]).clip(0, 1)

    kept = unpack_losses(pack_losses(losses))

    difference = kept - losses
    assert difference.min() >= 0
    assert difference.max() <= 1.0000001 / 65_535
    np.testing.assert_array_equal(unpack_losses(pack_losses(kept)), kept)


# What a field of a certificate, or a part of it, may be changed into.
EDITS = [None, 0, -1, 2, 0.5, 1.5, 1e308, 5e-324, 10**9, 10**12, 10**40, 10**400]
EDITS += ["", "x", True, [], [None], [1, 2], {}, {"zzz": 1}, {"error": None}, {"a": [1, 2]}]
DELETED = object()


def edit_everywhere(values, path=()):
    """Yield the path of every field, of every item of it, and so on."""
    items = values.items() if isinstance(values, dict) else enumerate(values)
    for key, value in items:
        yield (*path, key)
        if isinstance(value, dict | list):
            yield from edit_everywhere(value, (*path, key))


def edited_text(values, path, new):
    """The certificate as JSON with a right checksum, after one edit."""
    values = copy.deepcopy(values)
    place = values
    for key in path[:-1]:
        place = place[key]
    if new is DELETED:
        del place[path[-1]]
    else:
        place[path[-1]] = new
    return json.dumps({**values, "checksum": checksum(values)})


@pytest.fixture(scope="module")
def everything(made):
    """A certificate of each kind and scope, as JSON values."""
    certificates = dict(made)
    rng = np.random.default_rng(0)
    right = rng.integers(0, 3, 300).astype(str)
    is_wrong = rng.random(300) < 0.1
    given = np.where(is_wrong, "0", right)
    groups = rng.integers(0, 60, 300)
    certificates["groups"] = certify_predictions(right, given, groups=groups, recall="all")

    labels = right.tolist()
    texts = [f"row {row} w{row * row}" for row in range(300)]
    checked = check_labels(
        texts, labels, rng.random(300), ask=lambda row, text: labels[row], error=0.1, random_state=1
    )
    certificates["label check"] = checked.certificate

    values = {}
    for kind, certificate in certificates.items():
        values[kind] = json.loads(certificate.to_json())
        del values[kind]["checksum"]
    return values


def assert_can_be_printed(certificate):
    assert certificate.summary()
    assert certificate.details()
    assert certificate._repr_html_()
    assert json.loads(certificate.to_json())


def count_refused(values, edits):
    """Read the certificate after each edit; those that are accepted can be printed."""
    n_refused = 0
    for path, new in edits:
        text = edited_text(values, path, new)
        try:
            certificate = read_certificate(text, "c.json")
        except ValueError as error:
            message = str(error)
            assert message.startswith("c.json")
            n_refused += 1
        else:
            assert_can_be_printed(certificate)
    return n_refused


def every_edit(values):
    """The path of every field, with everything that it may be changed into."""
    return list(itertools.product(edit_everywhere(values), [*EDITS, DELETED]))


@pytest.mark.parametrize("kind", [*KINDS, "groups", "label check"])
def test_an_edit_of_any_field_is_refused_or_harmless(everything, kind):
    values = everything[kind]
    edits = every_edit(values)
    rng = np.random.default_rng(0)
    chosen = rng.choice(len(edits), 100, replace=False)

    n_refused = count_refused(values, [edits[number] for number in chosen])

    assert n_refused > 50


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*KINDS, "groups", "label check"])
def test_every_edit_of_every_field_is_refused_or_harmless(everything, kind):
    values = everything[kind]
    edits = every_edit(values)

    n_refused = count_refused(values, edits)

    assert n_refused > len(edits) / 2


@pytest.fixture(scope="module")
def with_digests():
    """A certificate of sixty predictions with the digests of its data, and these data."""
    texts = [f"row {row} w{row * row}" for row in range(60)]
    labels = ["a", "b"] * 30
    predictions = ["a", "b", "a", "a"] * 15
    certificate = certify_predictions(labels, predictions, texts=texts)
    return certificate, (predictions, texts, labels)


def test_a_digest_that_was_deleted_is_listed_as_unchecked(with_digests):
    certificate, data = with_digests
    of_texts = {"texts": certificate.digests["texts"]}
    without = dataclasses.replace(certificate, digests=of_texts)

    unchecked = without.verify(*data).unchecked

    assert "the labels beyond their counts" in unchecked
    assert "the predictions beyond their counts" in unchecked


def test_data_that_have_a_digest_are_checked_beyond_their_counts(with_digests):
    certificate, data = with_digests

    unchecked = certificate.verify(*data).unchecked

    assert "beyond their counts" not in unchecked
