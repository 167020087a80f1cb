"""Calls of the library with what should never have been handed in."""

import itertools
from collections.abc import Iterator

import numpy as np

import pacsent
from hostile import material, text_inputs
from hostile.material import METHODS, TEXTS, WORDS, expected, fitted, new
from hostile.running import Case


def encoded_with(ids=None, offsets=None):
    from pacsent.text.encoded import Encoded

    whole = material.words().vocabulary.encode(TEXTS)
    parts = dict(zip(whole._fields, whole))
    if ids is not None:
        parts["ids"] = ids(whole.ids.copy())
    if offsets is not None:
        parts["offsets"] = offsets(whole.offsets.copy())
    return Encoded(**parts)


def foreign_encoded():
    from pacsent import Vocabulary

    names = ["".join(letters) for letters in itertools.product("abcdefghij", repeat=3)]
    other = Vocabulary(names, list(range(len(names), 0, -1)))
    return other.encode([" ".join(names[k::7]) for k in range(9)])


def ids() -> dict:
    """name -> how to make an Encoded that is none of this vocabulary, or damaged."""
    return {
        "an Encoded of another vocabulary": foreign_encoded,
        "ids out of range": lambda: encoded_with(ids=lambda ids: ids + 10**6),
        "negative ids": lambda: encoded_with(ids=lambda ids: ids - 10**6),
        "ids of floats": lambda: encoded_with(ids=lambda ids: ids + 0.5),
        "offsets beyond the end": lambda: encoded_with(offsets=lambda o: o * 1000),
        "offsets that go back": lambda: encoded_with(offsets=lambda o: o[::-1].copy()),
        "negative offsets": lambda: encoded_with(offsets=lambda o: o - 5),
    }


ODD_TEXTS = {
    "no text at all": [],
    "empty texts": ["", " ", "\n"],
    "unknown words": ["zzz qqq", "日本語 テキスト"],
    "lone surrogates": ["\ud800 good"],
    "zero bytes": ["good\0film"],
    "a very long text": ["good film " * 50_000],
    "one word a thousand times": ["joy " * 1000] * 3,
    "right-to-left text": ["שלום good עולם"],
    "combining letters": ["e\u0301" * 100],
    "digits": ["1984 2001"],
    "control letters": ["\x1b[31mgood\x07"],
    "emoji": ["👩‍👩‍👧 good"],
}


def _odd(method, texts):
    found = np.asarray(fitted(method).transform(texts))
    if found.shape != (len(texts), expected(method).shape[1]):
        return f"shape {found.shape}"
    return "" if np.isfinite(found).all() else "not finite"


def inputs() -> Iterator[Case]:
    for (kind, make), method in itertools.product(ids().items(), METHODS):
        yield Case(
            f"{method}.transform({kind})", lambda m=method, f=make: fitted(m).transform(f()),
            "refused",
        )  # fmt: skip
    for (kind, texts), method in itertools.product(ODD_TEXTS.items(), METHODS):
        yield Case(f"{method}.transform({kind})", lambda m=method, t=texts: _odd(m, t))


BAD_PARAMETERS = {
    "lam": (-1, 0, float("nan"), "1", None, [1.0]),
    "prior_variance": (-1, 0, float("nan"), "1"),
    "batch_size": (0, -1, 1.5, "8"),
    "on_empty": ("nothing", None),
    "n_jobs": ("all", 1.5, 0),
    "subsample": (-1, float("nan")),
    "n_negatives": (0, -3),
    "n_epochs": (0, -1, 2.5),
    "learning_rate": (0, -1, float("nan")),
    "noise_power": (float("nan"), "x"),
    "alpha": (-1, float("nan")),
}


def _bad_parameter(method, name, value):
    found = new(method, **{name: value}).fit(TEXTS).transform(TEXTS)
    return "" if np.isfinite(np.asarray(found)).all() else "not finite"


def parameters() -> Iterator[Case]:
    for method in METHODS:
        known = new(method).get_params(deep=False)
        for name, values in BAD_PARAMETERS.items():
            for value in values if name in known else ():
                yield Case(
                    f"{method}({name}={value!r})",
                    lambda m=method, n=name, v=value: _bad_parameter(m, n, v),
                    "refused",
                )
        yield Case(f"{method}(unknown=1)", lambda m=method: new(m, unknown=1), "refused")


def _words_with(change, counts=(8, 7, 6, 5, 4, 3, 2, 1), names=WORDS):
    from pacsent import Vocabulary, WordVectors, make_encoder

    table = np.random.default_rng(0).normal(size=(8, 6)).astype(np.float32)
    words = WordVectors(Vocabulary(list(names), counts), change(table.copy()), table)
    out = np.asarray(make_encoder("Average", words, n_jobs=1).fit(TEXTS).transform(TEXTS))
    return "" if np.isfinite(out).all() else "not finite"


def _set(table, value):
    table[3, 2] = value
    return table


def tables() -> Iterator[Case]:
    changes = {
        "a nan": lambda t: _set(t, np.nan),
        "an inf": lambda t: _set(t, -np.inf),
        "one dimension": lambda t: t[0],
        "three dimensions": lambda t: t[None],
        "too few rows": lambda t: t[:-1],
        "too many rows": lambda t: np.vstack([t, t]),
        "no columns": lambda t: t[:, :0],
        "other columns than the output": lambda t: t[:, :3],
        "objects": lambda t: t.astype(object),
        "strings": lambda t: t.astype(str),
        "complex numbers": lambda t: t.astype(complex),
        "None": lambda t: None,
        "a list of lists of different lengths": lambda t: [[1.0], [1.0, 2.0]],
    }
    for name, change in changes.items():
        yield Case(f"WordVectors with {name}", lambda c=change: _words_with(c), "refused")
    for name, counts in {
        "negative counts": [-1] * 8, "too few counts": [1], "counts that are words": ["a"] * 8,
        "counts that are nan": [float("nan")] * 8, "fractions": [0.5] * 8,
    }.items():  # fmt: skip
        yield Case(
            f"Vocabulary with {name}", lambda c=counts: _words_with(lambda t: t, c), "refused"
        )
    for name, names in {
        "a word twice": ["film"] * 8, "numbers for words": range(8), "None": [None] * 8,
        "bytes": [b"a", b"b", b"c", b"d", b"e", b"f", b"g", b"h"],
    }.items():  # fmt: skip
        yield Case(
            f"Vocabulary with {name}",
            lambda n=names: _words_with(lambda t: t, names=n), "refused",
        )  # fmt: skip


def _certificate_edit(**changes):
    """A certificate of kind A with other fields, and a checksum that fits them."""
    import json

    from pacsent.guarantees import read_certificate
    from pacsent.guarantees.certificate import checksum
    from pacsent.paper import certify_words

    found = json.loads(certify_words(new("PB-L2"), TEXTS * 20).to_json())
    found.pop("checksum")
    found |= changes
    read_certificate(json.dumps({**found, "checksum": checksum(found)}))


def certificates() -> Iterator[Case]:
    yield Case("Certificate.from_json as it was", _certificate_edit, "ok")
    for change in [
        {"bound": 0.01}, {"delta": 0.5}, {"n": 10**9}, {"kl": -5}, {"kl": None}, {"n": "1"},
        {"n_duplicates": -1}, {"n_held_out": 5},
        {"kind": "Z"}, {"kind": None}, {"noise_risk": [1]}, {"step": "ab"},
        {"format_version": 99}, {"x": 1}, {"bound": None}, {"empirical_risk": float("nan")},
        {"empirical_risk": 0.123}, {"corrections": 3}, {"corrections": {}},
        {"corrections": {"branches": 0.5}}, {"noise_risk": "x"}, {"delta": 0}, {"n": 0},
    ]:  # fmt: skip
        yield Case(
            f"Certificate.from_json with {change}",
            lambda c=change: _certificate_edit(**c),
            "refused",
        )


def _skipgram(texts, **settings):
    from pacsent import SkipGram

    defaults = {"min_count": 1, "subsample": 0, "n_jobs": 1, "n_epochs": 1, "random_state": 0}
    found = SkipGram(**{"n_dims": 4, **defaults, **settings}).fit(texts).word_vectors_
    known = set(found.words) - set(WORDS) - {"x"}
    if known:
        return f"learned other words: {sorted(known)[:3]}"
    return "" if np.isfinite(found.input_vectors).all() else "not finite"


def training() -> Iterator[Case]:
    many = TEXTS * 5
    for name, value in [
        ("n_dims", 0), ("n_dims", -1), ("n_dims", 1.5), ("n_dims", "x"), ("window", 0),
        ("window", 10**9), ("n_epochs", 0), ("n_negatives", 0), ("learning_rate", 0),
        ("learning_rate", float("nan")), ("learning_rate", 1e30), ("min_count", 0),
        ("min_count", 10**9), ("subsample", -1), ("subsample", float("nan")),
        ("noise_power", float("nan")), ("noise_power", -1), ("negatives", "x"), ("n_jobs", "x"),
        ("normalize", "x"), ("normalize", 3), ("device", "tpu"), ("random_state", -1),
        ("random_state", "x"), ("checkpoint_every", -1), ("checkpoint_dir", 3), ("verbose", "x"),
    ]:  # fmt: skip
        yield Case(
            f"SkipGram({name}={value!r})", lambda n=name, v=value: _skipgram(many, **{n: v}),
            "refused",
        )  # fmt: skip


def certified() -> Iterator[Case]:
    for name, value in [
        ("calibration_size", 0), ("calibration_size", 1), ("calibration_size", float("nan")),
        ("calibration_size", "x"), ("delta", 0), ("delta", float("nan")), ("classes", 3),
        ("prefit", "x"), ("n_candidates", 0), ("simultaneous", 2),
        ("random_state", -1), ("random_state", 0.5), ("estimator", 3), ("estimator", "english"),
        ("estimator", dict),
    ]:  # fmt: skip
        yield Case(
            f"CertifiedClassifier({name}={value!r})",
            lambda n=name, v=value: pacsent.CertifiedClassifier(**{n: v}).fit(
                *zip(*material.LABELLED)
            ),
            "refused",
        )
    for name, value in [
        ("n_candidates", 0), ("n_candidates", 0.5), ("n_candidates", True), ("delta", 0),
        ("delta", "x"), ("overlap", "x"), ("checked", "x"), ("unknown", 1),
    ]:  # fmt: skip
        yield Case(
            f"CertifiedClassifier.certify({name}={value!r})",
            lambda n=name, v=value: material.classifier().certify(
                [f"{text} new" for text, _ in material.LABELLED],
                [label for _, label in material.LABELLED],
                **{n: v},
            ),
            "refused",
        )


def cases() -> Iterator[Case]:
    yield from text_inputs.cases()
    yield from inputs()
    yield from parameters()
    yield from tables()
    yield from certificates()
    yield from training()
    yield from certified()
