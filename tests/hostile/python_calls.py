"""Every method on odd texts and damaged ids, and `CertifiedClassifier` with wrong parameters.

Other wrong parameters, word vectors and certificates are in the tests of each of them.
"""

import itertools
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from hostile.material import LABELLED, METHODS, TEXTS, classifier, fitted, words
from hostile.running import Case
from pacsent import CertifiedClassifier, Vocabulary
from pacsent.certify import certify
from pacsent.text.encoded import Encoded

# ---- odd ids and texts ---------------------------------------------------------------------------

# name -> how encoded texts are made that no encoder may accept
ODD_ENCODED: dict[str, Callable[[], Encoded]] = {}


def odd_encoded(name: str):
    """Adds a function to ODD_ENCODED."""

    def add(make):
        ODD_ENCODED[name] = make
        return make

    return add


@odd_encoded("another vocabulary")
def _of_another_vocabulary():
    letters = "abcdefghij"
    names = ["".join(triple) for triple in itertools.product(letters, repeat=3)]
    counts = list(range(len(names), 0, -1))
    texts = [" ".join(names[first::7]) for first in range(9)]
    return Vocabulary(names, counts).encode(texts)


def _encoded() -> Encoded:
    return words().vocabulary.encode(TEXTS)


def _with_ids(change: Callable[[np.ndarray], np.ndarray]) -> Encoded:
    encoded = _encoded()
    return encoded._replace(ids=change(encoded.ids))


def _with_offsets(change: Callable[[np.ndarray], np.ndarray]) -> Encoded:
    encoded = _encoded()
    return encoded._replace(offsets=change(encoded.offsets))


@odd_encoded("ids out of range")
def _with_large_ids():
    return _with_ids(lambda ids: ids + 10**6)


@odd_encoded("negative ids")
def _with_negative_ids():
    return _with_ids(lambda ids: ids - 10**6)


@odd_encoded("fractional ids")
def _with_fractional_ids():
    return _with_ids(lambda ids: ids + 0.5)


@odd_encoded("offsets beyond the end")
def _with_large_offsets():
    return _with_offsets(lambda offsets: offsets * 1000)


@odd_encoded("reversed offsets")
def _with_reversed_offsets():
    return _with_offsets(lambda offsets: offsets[::-1].copy())


@odd_encoded("negative offsets")
def _with_negative_offsets():
    return _with_offsets(lambda offsets: offsets - 5)


ODD_TEXTS = {
    "no text": [],
    "empty texts": ["", " ", "\n"],
    "OOV words": ["zzz qqq", "日本語 テキスト"],
    "lone surrogates": ["\ud800 good"],
    "zero bytes": ["good\0film"],
    "a very long text": ["good film " * 50_000],
    "one word many times": ["joy " * 1000] * 3,
    "right-to-left text": ["שלום good עולם"],
    "combining characters": ["e\u0301" * 100],
    "control characters": ["\x1b[31mgood\x07", "1984 2001"],
    "emoji": ["👩‍👩‍👧 good"],
}

# ---- wrong parameters ----------------------------------------------------------------------------

CERTIFIED_PARAMETERS = {
    "calibration_size": (0, 1, float("nan"), "x"),
    "delta": (0, float("nan")),
    "classes": (3,),
    "n_candidates": (0,),
    "randomized_tests": (2, "x"),
    "random_state": (-1, 0.5),
    "estimator": (3, "english", dict),
}
CERTIFY_PARAMETERS = {"n_candidates": (0, 0.5, True), "delta": (0, "x"), "overlap": ("x",)}


# ---- cases ---------------------------------------------------------------------------------------


def _transform_encoded(method, make):
    fitted(method).transform(make())


def _transform(method, texts):
    encoder = fitted(method)
    vectors = np.asarray(encoder.transform(texts))
    _, n_dims = encoder.transform(["film"]).shape
    if vectors.shape != (len(texts), n_dims):
        return f"shape {vectors.shape}"
    return "" if np.isfinite(vectors).all() else "not finite"


def _fit(**settings):
    texts, labels = zip(*LABELLED)
    CertifiedClassifier(**settings).fit(texts, labels)


def _certify(**settings):
    texts, labels = zip(*LABELLED)
    new_texts = [f"{text} new" for text in texts]
    certify(classifier(), new_texts, labels, **settings)


def _parameter_cases(name: str, call: Callable, table: dict[str, tuple]) -> Iterator[Case]:
    """A case for each wrong value of each parameter."""
    for parameter, values in table.items():
        for value in values:
            run = partial(call, **{parameter: value})
            yield Case(f"{name}({parameter}={value!r})", run, "refused")


def cases() -> Iterator[Case]:
    for method in METHODS:
        for name, make in ODD_ENCODED.items():
            run = partial(_transform_encoded, method, make)
            yield Case(f"{method}.transform(Encoded with {name})", run, "refused")
        for name, texts in ODD_TEXTS.items():
            yield Case(f"{method}.transform({name})", partial(_transform, method, texts))

    yield from _parameter_cases("fit", _fit, CERTIFIED_PARAMETERS)
    yield from _parameter_cases("certify", _certify, CERTIFY_PARAMETERS)
