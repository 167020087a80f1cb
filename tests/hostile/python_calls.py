"""Calls of the library with what should never have been handed in."""

import itertools
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import pacsent
from hostile import material, text_inputs
from hostile.material import METHODS, TEXTS, WORDS, expected, fitted, new
from hostile.running import Case


def same(found, method) -> str:
    found = np.asarray(found)
    right = expected(method)
    if found.shape != right.shape:
        return f"shape {found.shape} for {right.shape}"
    if not np.isfinite(found).all():
        return "not finite"
    off = float(np.abs(found - right).max())
    return f"off by {off}" if off > 1e-3 * max(1.0, float(np.abs(right).max())) else ""


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


def kinds_of_input() -> dict:
    """name -> (how to make it, "ok" with the vectors of TEXTS, or "refused", or "either")."""
    import pandas as pd
    from scipy import sparse

    n = len(TEXTS)
    return {
        "a tuple": (lambda: tuple(TEXTS), "ok"),
        "an array": (lambda: np.array(TEXTS), "ok"),
        "an object array": (lambda: np.array(TEXTS, dtype=object), "ok"),
        "a generator": (lambda: (text for text in TEXTS), "ok"),
        "a Series": (lambda: pd.Series(TEXTS), "ok"),
        "a Series with another index": (lambda: pd.Series(TEXTS, index=range(n, 0, -1)), "ok"),
        "token lists": (lambda: [text.split() for text in TEXTS], "ok"),
        "numpy strings": (lambda: [np.str_(text) for text in TEXTS], "ok"),
        "its own Encoded": (lambda: material.words().vocabulary.encode(TEXTS), "ok"),
        "a table of one column": (lambda: pd.DataFrame({"text": TEXTS}), "ok"),
        "a table of two columns": (lambda: pd.DataFrame({"a": TEXTS, "b": TEXTS}), "refused"),
        "a wide table": (lambda: pd.DataFrame([TEXTS]), "refused"),
        "a table of numbers": (lambda: pd.DataFrame({"a": range(n)}), "refused"),
        "a dict": (lambda: dict.fromkeys(TEXTS, 1), "refused"),
        "a string": (lambda: TEXTS[0], "refused"),
        "bytes": (lambda: TEXTS[0].encode(), "refused"),
        "None": (lambda: None, "refused"),
        "a number": (lambda: 3, "refused"),
        "a path": (lambda: Path("t.txt"), "refused"),
        "numbers": (lambda: list(range(n)), "refused"),
        "an array of numbers": (lambda: np.arange(n), "refused"),
        "a matrix": (lambda: np.ones((n, 4)), "refused"),
        "a sparse matrix": (lambda: sparse.eye(n).tocsr(), "refused"),
        "a matrix of strings": (lambda: np.array([TEXTS, TEXTS]), "refused"),
        "a text that is None": (lambda: [*TEXTS, None], "refused"),
        "a text that is nan": (lambda: [*TEXTS, float("nan")], "refused"),
        "texts of bytes": (lambda: [text.encode() for text in TEXTS], "refused"),
        "a token that is a number": (lambda: [["good", 3]], "refused"),
        "lists of lists of lists": (lambda: [[["good"]]], "refused"),
        "a Series with gaps": (lambda: pd.Series([*TEXTS, None]), "refused"),
        "an Encoded of another vocabulary": (foreign_encoded, "refused"),
        "ids out of range": (lambda: encoded_with(ids=lambda ids: ids + 10**6), "refused"),
        "negative ids": (lambda: encoded_with(ids=lambda ids: ids - 10**6), "refused"),
        "ids of floats": (lambda: encoded_with(ids=lambda ids: ids + 0.5), "refused"),
        "offsets beyond the end": (lambda: encoded_with(offsets=lambda o: o * 1000), "refused"),
        "offsets that go back": (lambda: encoded_with(offsets=lambda o: o[::-1].copy()), "refused"),
        "negative offsets": (lambda: encoded_with(offsets=lambda o: o - 5), "refused"),
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


def _transform(method, make):
    found = fitted(method).transform(make())
    return same(found, method)


def _fit(method, make):
    return same(new(method).fit(make()).transform(TEXTS), method)


def _odd(method, texts):
    found = np.asarray(fitted(method).transform(texts))
    if found.shape != (len(texts), expected(method).shape[1]):
        return f"shape {found.shape}"
    return "" if np.isfinite(found).all() else "not finite"


def inputs() -> Iterator[Case]:
    for kind, (make, expect) in kinds_of_input().items():
        for method in METHODS:
            yield Case(
                f"{method}.transform({kind})", lambda m=method, f=make: _transform(m, f), expect
            )
        for method in ("Average", "PB-neg", "IDF-Average"):
            yield Case(f"{method}.fit({kind})", lambda m=method, f=make: _fit(m, f), expect)
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
    from pacsent import Vocabulary, WordVectors, make

    table = np.random.default_rng(0).normal(size=(8, 6)).astype(np.float32)
    words = WordVectors(Vocabulary(list(names), counts), change(table.copy()), table)
    out = np.asarray(make("Average", words, n_jobs=1).fit(TEXTS).transform(TEXTS))
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


def _bound(name, *arguments):
    from pacsent.maths import bounds

    value = float(getattr(bounds, name)(*arguments))
    if not 0 <= value <= 1:
        return f"a bound of {value}"
    return f"{value} is below the empirical risk" if value < arguments[0] else ""


def bound_calls() -> Iterator[Case]:
    good = (0.2, 3.0, 1000, 0.05)
    bad = [
        (0, -0.1), (0, 1.5), (0, float("nan")), (0, "x"), (0, None), (1, -1.0), (1, float("nan")),
        (2, 0), (2, -3), (2, 1.5), (2, float("nan")), (3, 0.0), (3, 1.0), (3, -1),
        (3, float("nan")), (3, "x"), (1, float("inf")),
    ]  # fmt: skip
    for name in ("maurer", "catoni_over_grid"):
        yield Case(f"bounds.{name}", lambda n=name: _bound(n, *good), "either")
        for place, value in bad:
            arguments = (*good[:place], value, *good[place + 1 :])
            infinite = place == 1 and value == float("inf")
            yield Case(
                f"bounds.{name}{arguments}",
                lambda n=name, a=arguments: _bound(n, *a),
                "either" if infinite else "refused",
            )


def _certify(texts, **settings):
    from pacsent.paper import certify_words

    found = certify_words(settings.pop("encoder", new("PB-L2")), texts, **settings)
    return "" if 0 <= found.bound <= 1 else "no bound"


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
    import pandas as pd

    many = TEXTS * 20
    yield Case("certify(texts)", lambda: _certify(many), "ok")
    yield Case("Certificate.from_json as it was", _certificate_edit, "ok")
    for name, texts in {
        "a dict": dict.fromkeys(many), "a string": "good film", "no text": [],
        "two columns": pd.DataFrame({"a": many, "b": many}), "numbers": list(range(50)),
        "None": None, "empty texts": [""] * 50, "unknown words": ["zzz qqq"] * 50,
        "one text": ["good"], "foreign ids": foreign_encoded(),
    }.items():  # fmt: skip
        yield Case(f"certify({name})", lambda t=texts: _certify(t), "refused")
    for name, value in [
        ("delta", 0), ("delta", 1), ("delta", 2), ("delta", float("nan")), ("delta", "x"),
        ("kind", "Z"), ("n_candidates", 0.5), ("n_candidates", 0), ("n_candidates", True),
        ("noise_power", float("nan")), ("calibrate", "x"), ("precision", "half"),
        ("split", 0.0), ("split", 1.5), ("holdout", -1),
        ("holdout", 1.0), ("random_state", -1), ("random_state", "x"), ("encoder", "PB-L2"),
        ("encoder", None), ("posterior", "mine"), ("unknown", 1), ("n_jobs", "x"),
    ]:  # fmt: skip
        yield Case(
            f"certify({name}={value!r})",
            lambda n=name, v=value: _certify(many, **{n: v}),
            "refused",
        )
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
    import pandas as pd

    many = TEXTS * 5
    for name, (texts, expect) in {
        "one column": (pd.DataFrame({"x": many}), "ok"),
        "two columns": (pd.DataFrame({"x": many, "y": many}), "refused"),
        "a dict": ({"x": many}, "refused"), "None": (None, "refused"), "a number": (3, "refused"),
        "numbers": ([1, 2, 3], "refused"), "no text": ([], "refused"), "empty": ([""], "refused"),
        "one word": (["joy"] * 50, "refused"), "a gap": ([*many, None], "refused"),
        "single words": (WORDS * 5, "refused"), "bytes": ([b"good film"], "refused"),
        "a missing file": (Path("nowhere.txt"), "refused"), "a folder": (Path("."), "refused"),
        "a series": (pd.Series(many), "ok"), "a generator": ((t for t in many), "ok"),
        "a foreign Encoded": (foreign_encoded(), "refused"),
    }.items():  # fmt: skip
        yield Case(f"SkipGram.fit({name})", lambda t=texts: _skipgram(t), expect)
    for name, value in [
        ("n_dims", 0), ("n_dims", -1), ("n_dims", 1.5), ("n_dims", "x"), ("window", 0),
        ("window", 10**9), ("n_epochs", 0), ("n_negatives", 0), ("learning_rate", 0),
        ("learning_rate", float("nan")), ("learning_rate", 1e30), ("min_count", 0),
        ("min_count", 10**9), ("subsample", -1), ("subsample", float("nan")),
        ("noise_power", float("nan")), ("noise_power", -1), ("negatives", "x"), ("n_jobs", "x"),
        ("normalise", "x"), ("normalise", 3), ("device", "tpu"), ("random_state", -1),
        ("random_state", "x"), ("checkpoint_every", -1), ("checkpoint_dir", 3), ("verbose", "x"),
    ]:  # fmt: skip
        yield Case(
            f"SkipGram({name}={value!r})", lambda n=name, v=value: _skipgram(many, **{n: v}),
            "refused",
        )  # fmt: skip


CLASSIFIER_TEXTS = [f"{a} {b} {c}" for a in WORDS[:4] for b in WORDS[4:] for c in ("now", "then")]
CLASSIFIER_LABELS = ["up" if text.endswith("now") else "down" for text in CLASSIFIER_TEXTS]


def _fitted_with(labels=CLASSIFIER_LABELS, texts=CLASSIFIER_TEXTS, how=None, **parameters):
    """A fit that is right, or refused with the object as it was."""
    from pacsent import TextClassifier

    classifier = TextClassifier(n_jobs=1, **parameters)
    before = dict(vars(classifier))
    try:
        classifier.fit(texts, labels, **(how or {}))
    except Exception:
        if vars(classifier) != before:
            return "a refused fit changed the object"
        raise
    proba = classifier.predict_proba(list(CLASSIFIER_TEXTS))
    if not np.isfinite(proba).all():
        return "not finite"
    return "" if classifier.score(list(CLASSIFIER_TEXTS), CLASSIFIER_LABELS) == 1 else "not learned"


def classifiers() -> Iterator[Case]:
    import datetime
    import decimal
    import uuid

    import pandas as pd

    nan, n = float("nan"), len(CLASSIFIER_TEXTS)
    y = np.array(CLASSIFIER_LABELS)
    for kind, (labels, expect) in {
        "a Series": (pd.Series(y), "ok"), "a category": (pd.Categorical(y), "ok"),
        "one column": (pd.DataFrame({"y": y}), "ok"), "a generator": (iter(y.tolist()), "ok"),
        "two columns": (pd.DataFrame({"a": y, "b": y}), "refused"), "a set": (set(y), "refused"),
        "None": (None, "refused"), "one label": (["up"], "refused"), "a string": ("up", "refused"),
        "bytes": (y.astype("S4"), "refused"), "gaps": ([None, *y[1:]], "refused"),
        "dates": ([datetime.date(2020, 1, 1 + (one == "up")) for one in y], "refused"),
        "decimals": ([decimal.Decimal(int(one == "up")) for one in y], "refused"),
        "UUIDs": ([uuid.UUID(int=int(one == "up")) for one in y], "refused"),
        "complex numbers": ((y == "up") * 1j, "refused"),
        "a lone surrogate": (np.where(y == "up", "\ud800", y).tolist(), "refused"),
        "no time": (np.where(y == "up", np.datetime64("NaT"), np.datetime64("2020")), "refused"),
    }.items():  # fmt: skip
        yield Case(
            f"TextClassifier.fit with labels: {kind}", lambda v=labels: _fitted_with(v), expect
        )
    for name, value in [
        ("Cs", (nan,)), ("Cs", (-1.0,)), ("Cs", (0,)), ("Cs", ("a",)), ("Cs", ()),
        ("Cs", (float("inf"),)), ("dense_scales", (nan,)), ("dense_scales", ()),
        ("dense_scales", (1e300,)), ("ngrams", (1.9, 2.7)), ("ngrams", (0, 1)), ("ngrams", ()),
        ("class_weight", {"up": -1}), ("class_weight", {"up": nan}), ("class_weight", {"x": 1}),
        ("class_weight", {"up": 0, "down": 0}), ("class_weight", {"up": "1"}),
        ("weighting", "x"), ("selection", "x"), ("words", 3), ("method", 3), ("random_state", -1),
    ]:  # fmt: skip
        yield Case(
            f"TextClassifier({name}={value!r})",
            lambda n=name, v=value: _fitted_with(**{n: v}),
            "refused",
        )
    for name, value in [
        ("sample_weight", [0.0] * n), ("sample_weight", [-1.0] * n), ("sample_weight", [nan] * n),
        ("sample_weight", [1.0]), ("sample_weight", "x"), ("groups", [1]),
    ]:  # fmt: skip
        yield Case(
            f"TextClassifier.fit({name}={str(value)[:20]})",
            lambda n=name, v=value: _fitted_with(how={n: v}),
            "refused",
        )
    for name, value in [
        ("holdout", 0), ("holdout", 1), ("holdout", nan), ("holdout", "x"), ("delta", 0),
        ("delta", nan), ("classes", 3), ("prefit", "x"), ("n_candidates", 0), ("joint", 2),
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
    for k in (-1, 0, 1.5, True, "x"):
        yield Case(
            f"TextClassifier.top_features('up', {k!r})",
            lambda k=k: material.classifier().estimator_.top_features("up", k),
            "refused",
        )


def _threads(method):
    texts, errors = TEXTS * 3, []
    vectorizer, right = fitted(method), np.vstack([expected(method)] * 3)

    def work():
        try:
            for _ in range(3):
                off = np.abs(np.asarray(vectorizer.transform(texts)) - right).max()
                if not off < 1e-3:
                    errors.append(f"off by {off}")
        except Exception as error:
            errors.append(repr(error))

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return "; ".join(errors[:2])


def _streams(method):
    vectorizer = new(method, batch_size=3).fit(TEXTS)
    first, second = (vectorizer.stream(TEXTS) for _ in range(2))
    pairs = [(np.asarray(a[0]), np.asarray(b[0])) for a, b in zip(first, second, strict=True)]
    right = np.asarray(vectorizer.transform(TEXTS))
    off = max(np.abs(np.concatenate(part) - right).max() for part in zip(*pairs, strict=True))
    return f"off by {off}" if off > 1e-3 else ""


def _stale(method):
    from pacsent import WordVectors

    vectorizer = new(method).fit(TEXTS)
    vectorizer.transform(TEXTS)
    old = material.words()
    other = WordVectors(old.vocabulary, -2 * old.input_vectors, old.output_vectors * 0.5)
    vectorizer.set_params(word_vectors=other)
    fresh = new(method).set_params(word_vectors=other).fit(TEXTS)
    found = np.asarray(vectorizer.fit(TEXTS).transform(TEXTS))
    right = np.asarray(fresh.transform(TEXTS))
    off = float(np.abs(found - right).max())
    return f"off by {off}" if off > 1e-3 else ""


def together() -> Iterator[Case]:
    for method in METHODS:
        yield Case(f"six threads use one {method}", lambda m=method: _threads(m), "ok")
        yield Case(f"two streams of one {method} in step", lambda m=method: _streams(m), "ok")
        yield Case(f"{method} given other vectors", lambda m=method: _stale(m), "ok")


def cases() -> Iterator[Case]:
    yield from text_inputs.cases()
    yield from inputs()
    yield from parameters()
    yield from tables()
    yield from bound_calls()
    yield from certificates()
    yield from training()
    yield from classifiers()
    yield from together()
