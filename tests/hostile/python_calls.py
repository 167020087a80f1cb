"""Every method on odd texts and damaged ids, and `CertifiedClassifier` with wrong parameters.

Other wrong parameters, word vectors and certificates are in the tests of each of them.
"""

import itertools
from collections.abc import Iterator
from functools import partial

import numpy as np

from hostile.material import LABELLED, METHODS, TEXTS, classifier, fitted, words
from hostile.running import Case
from pacsent import CertifiedClassifier, Vocabulary
from pacsent.certify import certify
from pacsent.text.encoded import Encoded


def _foreign_encoded():
    names = ["".join(letters) for letters in itertools.product("abcdefghij", repeat=3)]
    vocabulary = Vocabulary(names, list(range(len(names), 0, -1)))
    return vocabulary.encode([" ".join(names[k::7]) for k in range(9)])


def _encoded(field, change):
    encoded = words().vocabulary.encode(TEXTS)
    fields = dict(zip(encoded._fields, encoded))
    return Encoded(**{**fields, field: change(fields[field].copy())})


ODD_ENCODED = {
    "another vocabulary": _foreign_encoded,
    "ids out of range": lambda: _encoded("ids", lambda ids: ids + 10**6),
    "negative ids": lambda: _encoded("ids", lambda ids: ids - 10**6),
    "fractional ids": lambda: _encoded("ids", lambda ids: ids + 0.5),
    "offsets beyond the end": lambda: _encoded("offsets", lambda offsets: offsets * 1000),
    "reversed offsets": lambda: _encoded("offsets", lambda offsets: offsets[::-1].copy()),
    "negative offsets": lambda: _encoded("offsets", lambda offsets: offsets - 5),
}
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


def _transform_encoded(method, make):
    fitted(method).transform(make())


def _transform(method, texts):
    vectors = np.asarray(fitted(method).transform(texts))
    if vectors.shape != (len(texts), fitted(method).transform(["film"]).shape[1]):
        return f"shape {vectors.shape}"
    return "" if np.isfinite(vectors).all() else "not finite"


def _fit(**settings):
    CertifiedClassifier(**settings).fit(*zip(*LABELLED))


def _certify(**settings):
    texts, labels = zip(*LABELLED)
    certify(classifier(), [f"{text} new" for text in texts], labels, **settings)


def cases() -> Iterator[Case]:
    for method in METHODS:
        for name, make in ODD_ENCODED.items():
            run = partial(_transform_encoded, method, make)
            yield Case(f"{method}.transform(Encoded with {name})", run, "refused")
        for name, texts in ODD_TEXTS.items():
            yield Case(f"{method}.transform({name})", partial(_transform, method, texts))
    for call, table in ((_fit, CERTIFIED_PARAMETERS), (_certify, CERTIFY_PARAMETERS)):
        for name, value in ((name, value) for name, values in table.items() for value in values):
            run = partial(call, **{name: value})
            yield Case(f"{call.__name__[1:]}({name}={value!r})", run, "refused")
