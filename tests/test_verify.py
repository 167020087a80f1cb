"""`verify` of a certificate: every number is changed, one at a time, for every kind."""

import dataclasses
import json
import math
import warnings

import numpy as np
import pytest

from pacsent import certify, make
from pacsent.certificates.certificate import Certificate, checksum, packed_losses, unpacked_losses
from pacsent.certificates.simulation import SETTINGS, Language

KINDS = ("continuation", "A", "A'", "B", "C")
# Possible values of these cannot be told from right ones without the texts: what was measured
# for information, and where the search for a posterior ended.
NEEDS_TEXTS = {
    "continuation": {"bias", "scale", "shift_norm"},
    "A": {"bias", "scale", "shift_norm", "step", "prior_variance", "n_documents"},
    "A'": {"bias", "scale", "shift_norm", "step", "prior_variance", "n_documents"},
    "B": {"bias", "scale", "shift_norm", "step", "prior_variance", "noise_risk", "noise_margin"},
    "C": {"trivial_value", "n_documents", "largest_square"},
}
COUNTED = {"held_out_risk", "n_held_out", "n_left_out", "n_overlapping", "n_duplicates"}


@pytest.fixture(scope="module")
def made():
    """Texts, encoder and the certificate of each kind."""
    language = Language(SETTINGS["topics"])
    texts, _ = language.draw(np.random.default_rng(5), np.tile(np.arange(60), 5))
    encoder = make("Average", language.words, n_jobs=1)
    found = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for kind in KINDS:
            options = {"posterior": "prior"} if kind == "B" else {}
            found[kind] = certify(encoder, texts, kind, random_state=0, holdout=0.2, **options)
    return texts, encoder, found


def numbers(certificate):
    return {
        item.name: getattr(certificate, item.name)
        for item in dataclasses.fields(certificate)
        if isinstance(getattr(certificate, item.name), int | float)
    }


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf, -1, "0.5", True, [1]])
def test_no_number_may_be_what_it_cannot_be(made, kind, wrong):
    certificate = made[2][kind]
    for name in numbers(certificate):
        if name in ("bias", "scale") and wrong == -1:
            continue  # possible
        with pytest.raises(ValueError, match="must"):
            dataclasses.replace(certificate, **{name: wrong}).verify()
            pytest.fail(f"{name} = {wrong!r} was accepted")


@pytest.mark.parametrize("kind", KINDS)
def test_no_number_may_be_another(made, kind):
    certificate = made[2][kind]
    assert certificate.verify()
    for name, value in numbers(certificate).items():
        if name in NEEDS_TEXTS[kind] | COUNTED:
            continue
        others = [0, 10**9, value + 1 if isinstance(value, int) else value * 1.01]
        for other in others:
            if other == value:
                continue
            with pytest.raises(ValueError, match="must"):
                dataclasses.replace(certificate, **{name: type(value)(other)}).verify()
                pytest.fail(f"{name} = {other!r} was accepted")


@pytest.mark.parametrize("kind", KINDS)
def test_with_the_texts_every_number_is_checked(made, kind):
    texts, encoder, found = made
    certificate = found[kind]
    for name, value in numbers(certificate).items():
        if name not in NEEDS_TEXTS[kind] | COUNTED:
            continue
        if name == "step" and value == 0:
            continue  # 1.01 times nothing
        other = value + 1 if isinstance(value, int) else value * 1.01
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with pytest.raises(ValueError, match=f"{name} must"):
                dataclasses.replace(certificate, **{name: other}).verify(texts, encoder)
                pytest.fail(f"{name} = {other!r} was accepted")


@pytest.mark.parametrize("kind", KINDS)
def test_a_changed_file_is_refused(made, kind):
    certificate = made[2][kind]
    values = json.loads(certificate.to_json())
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        other = value + 1 if isinstance(value, int) else value * 1.01 + 1e-9
        with pytest.raises(ValueError, match=r"checksum must be|format_version must be"):
            Certificate.from_json(json.dumps({**values, name: other}))


def test_a_forged_checksum_does_not_make_an_impossible_certificate_possible(made):
    values = json.loads(made[2]["C"].to_json())
    values.pop("checksum")
    forged = {**values, "delta": 0.025}
    read = Certificate.from_json(json.dumps({**forged, "checksum": checksum(forged)}))
    with pytest.raises(ValueError, match="must be"):
        read.verify()


def test_losses_are_packed_upwards_to_the_last_bit():
    rng = np.random.default_rng(0)
    losses = np.concatenate([rng.random(20_000), np.arange(65_536) / 65_535])
    losses = np.concatenate([losses, np.nextafter(losses, 2), np.nextafter(losses, -1)]).clip(0, 1)
    kept = unpacked_losses(packed_losses(losses))
    assert (kept >= losses).all()
    assert (kept - losses).max() <= 1.0000001 / 65_535
    np.testing.assert_array_equal(unpacked_losses(packed_losses(kept)), kept)
