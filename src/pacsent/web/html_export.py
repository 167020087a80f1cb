"""Write a classifier as one HTML file that works offline: labels, guarantees, explanations."""

import base64
import json
import os
import zlib
from hashlib import sha256
from importlib.resources import files
from typing import Any

import numpy as np

from pacsent.bounds.delta import divide_delta
from pacsent.bounds.rounding import format_count
from pacsent.certify import coverage, drift_check
from pacsent.certify.columns import quote
from pacsent.certify.drift_monitor import is_split_by_rows
from pacsent.certify.labels import class_indices
from pacsent.certify.samples import MIN_PROBABILITY, name_of
from pacsent.classify import TextClassifier
from pacsent.classify.fitted_classifier import N_COMMON_WORDS
from pacsent.classify.fitting import UNKNOWN_RAMP
from pacsent.files import check_output, replacing
from pacsent.predict.abstaining import AnswerRule
from pacsent.sentences import StaticEncoder
from pacsent.sentences.external_encoders import ConcatenatedEncoder
from pacsent.text.pages import as_characters, render
from pacsent.words.vector_table import LEVELS, Packed

# Weights of n-grams are written as multiples of this. The n-grams of a text are a vector of length
# one, so that rounding moves decision values, and probabilities less, by about 2e-6.
_WEIGHT_STEP = 2.0**-17
_MAX_TITLE = 70  # characters of the names of classes in the title of a page
# Scripts and style sheet of the page, files among the templates.
_PAGE_FILES = ("classifier_engine.js", "classifier_page.js", "classifier_page.css")


def export_html(
    classifier: Any,
    path: str | os.PathLike,
    *,
    title: str | None = None,
    error: float | None = None,
    overwrite: bool = False,
) -> None:
    """Write a TextClassifier, or a CertifiedClassifier of one, as an HTML file.

    The page computes what Python does: `AnswerRule` with this `error`, `explain`, `verify`, drift.

    Parameters
    ----------
    classifier : TextClassifier or CertifiedClassifier
        A fitted classifier with one class per text.
    path : path
        The file to write.
    title : str, optional
        The title of the page; None names the first classes.
    error : float, optional
        Error rate that answers and prediction sets guarantee; None as in `AnswerRule`.
    overwrite : bool, default=False
        Replace a file that exists.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from pacsent import CertifiedClassifier, TextClassifier
    >>> texts = [f"good film {n}" if n % 2 else f"dull play {n}" for n in range(200)]
    >>> labels = ["good" if n % 2 else "bad" for n in range(200)]
    >>> classifier = CertifiedClassifier(TextClassifier(None), random_state=0).fit(texts, labels)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     export_html(classifier, Path(folder) / "page.html", error=0.1)
    ...     "<title>Text classifier: bad, good</title>" in (Path(folder) / "page.html").read_text()
    True
    """
    model = getattr(classifier, "estimator_", classifier)
    if not isinstance(model, TextClassifier) or model.target_type_ != "classes":
        allowed = "a TextClassifier (or a CertifiedClassifier of one) with one class per text"
        raise ValueError(f"HTML needs {allowed}. Got {name_of(model)} instead.")
    check_output(path, overwrite=overwrite)

    content = _linear_model(classifier, model)
    if hasattr(classifier, "calibration_"):
        content |= _guarantees(classifier, error)
    if not title:
        title = f"Text classifier: {_name_classes(classifier.classes_.tolist())}"

    folder = files("pacsent") / "templates"
    scripts = [(folder / name).read_text("utf-8") for name in _PAGE_FILES]
    compressed_content = zlib.compress(_to_bytes(content))
    page = render(
        "classifier.html",
        title=title,
        scripts=scripts,
        hashes=[_hash_of_script(script) for script in scripts],
        data=as_characters(compressed_content),
    )
    with replacing(path) as file:
        file.write(page.encode())


def _hash_of_script(text: str) -> str:
    """SHA-256 of a script or style sheet as the page's content security policy states it."""
    digest = sha256(text.encode()).digest()
    return base64.b64encode(digest).decode()


def _to_bytes(content: dict[str, Any]) -> bytes:
    """JSON with its length in front, and behind it the arrays, which JSON names by their places."""
    arrays: list[bytes] = []

    def add_array(array: np.ndarray) -> dict[str, Any]:
        name = array.dtype.name.capitalize()
        offset = sum(map(len, arrays))
        arrays.append(_shuffle_bytes(array))
        return {"array": f"{name}Array", "offset": offset, "length": array.size}

    header = json.dumps(content, default=add_array).encode()
    length = len(header).to_bytes(8, "little")
    return length + header + b"".join(arrays)


def _linear_model(classifier: Any, model: TextClassifier) -> dict[str, Any]:
    """The classes, and all weights that decide between them."""
    fitted = class_indices(classifier.classes_, model.classes_)
    classes = {
        "classes": [str(name) for name in classifier.classes_.tolist()],
        "fitted": fitted.tolist(),
        "listsWords": model.lists_words,
        "minCoverage": model.min_coverage_,
        "nCommonWords": N_COMMON_WORDS,
        "coverageReason": coverage.REASON,
        "minLogProba": float(np.log(MIN_PROBABILITY)),
    }

    least, usual = model.character_weight_
    ngram_model = {
        "ngrams": _ngrams(model.ngrams_, model.coef_ngrams_),
        "characters": _ngrams(model.characters_, model.coef_characters_),
        "share": {"least": least, "usual": usual, "ramp": UNKNOWN_RAMP},
        "intercept": model.intercept_.tolist(),
        "interceptCharacters": model.intercept_characters_.tolist(),
        "inverseTemperature": model.inverse_temperature_.tolist(),
    }

    encoders = () if model.encoder_ is None else model.encoder_.parts
    factor = 1.0
    if isinstance(model.encoder_, ConcatenatedEncoder):
        factor = len(encoders) ** -0.5
    vector_model = {
        "coefDense": model.coef_dense_,
        "mean": model.mean_vector_,
        "encoders": [_summed_parts(encoder, model.encoder_) for encoder in encoders],
        "factor": factor,
    }
    return classes | ngram_model | vector_model


def _ngrams(part: Any, coef: np.ndarray) -> dict[str, Any]:
    """The n-grams of one model: their hashes, and for each the row of its idf and weights."""
    multiples = np.rint(coef / _WEIGHT_STEP).astype(np.int32)  # (n_ngrams, n_columns)
    idf_bits = part.idf.astype(np.float32).view(np.int32)  # (n_ngrams,)

    # Half of the n-grams or more occur in the same texts as another and have its weights.
    all_rows = np.column_stack([idf_bits, _zigzag(multiples)])  # (n_ngrams, 1 + n_columns)
    table, rows = np.unique(all_rows, axis=0, return_inverse=True)  # rows: (n_ngrams,)
    idf = table[:, 0].copy().view(np.float32)
    weights = table[:, 1:]

    # Hashes are sorted: their differences are written, as halves of 32 bits.
    differences = np.diff(part.hashes, prepend=np.uint64(0))
    low, high = differences.view("<u4").reshape(-1, 2).T
    return {
        "idf": idf,
        "weights": weights,
        "step": _WEIGHT_STEP,
        "sizes": part.sizes,
        "high": high,
        "low": low,
        "rows": rows.astype("u4"),
    }


def _name_classes(classes: list) -> str:
    """The first classes, as many as a title has room for, and how many others there are."""
    names = [quote(str(name)) for name in classes]
    shown = names[0]
    n_shown = 1
    for name in names[1:]:
        longer = f"{shown}, {name}"
        if len(longer) > _MAX_TITLE:
            break
        shown = longer
        n_shown += 1

    n_others = len(names) - n_shown
    if n_others:
        others = format_count(n_others, "other")
        return f"{shown} and {others}"
    return shown


def _zigzag(numbers: np.ndarray) -> np.ndarray:
    """Integers near 0 as small numbers whose last bit is the sign: 0, -1, 1, -2 as 0, 1, 2, 3."""
    return numbers << 1 ^ numbers >> 31


def _shuffle_bytes(array: np.ndarray) -> bytes:
    """First bytes of all numbers, then all second bytes, ...: they compress better together."""
    numbers = np.ascontiguousarray(array).reshape(-1, 1)
    return numbers.view(np.uint8).T.tobytes()


def _summed_parts(encoder: Any, complete: Any) -> dict[str, Any]:
    """The words and the table of an encoder, a part of `complete` or itself, that sums rows."""
    table: Any = encoder.summed_table()
    has_fade = isinstance(complete, ConcatenatedEncoder) and complete.fade is not None
    if table is None or has_fade or encoder.word_vectors.vocabulary.normalize != "paper":
        raise ValueError(
            "Only encoders that sum word vectors of normalize='paper' can be exported to HTML. Got "
            f"{complete.method_name} instead. Fit TextClassifier('english'), or with None."
        )

    n_words, n_dims = table.shape
    has_unit_rows = complete is not encoder or isinstance(encoder, StaticEncoder)
    vocabulary = encoder.word_vectors.vocabulary
    stored = encoder.word_vectors.tables["input"].stored
    part = {
        "words": "\n".join(vocabulary.words),
        "subwords": vocabulary.unknown == "pieces",
        "unit": has_unit_rows,
        "dims": n_dims,
    }
    if isinstance(stored, Packed) and not encoder.swap_roles:
        byte_levels = np.arange(256, dtype=np.uint8).view(np.int8)
        levels = LEVELS.get(stored.bits, byte_levels)
        part["bits"] = stored.bits
        part["levels"] = levels.astype(np.float32)
        part |= stored.arrays()
        part["scales"] = stored.scales.astype(np.float32)
        return part

    # A table that is not quantised: all of its rows are the head, which is stored as it is.
    no_codes = np.empty(0, np.uint8)
    part["bits"] = 8
    part["levels"] = no_codes
    part["codes"] = no_codes
    part["head"] = np.asarray(table.array, np.float32)
    part["scales"] = np.ones(n_words)
    part["centre"] = np.zeros(n_dims)
    part["spread"] = np.ones(n_dims)
    return part


def _guarantees(classifier: Any, error: float | None) -> dict[str, Any]:
    """Certificate, thresholds, and the calibration set with which the page verifies them."""
    certificate = classifier.certificate_
    shown_certificate = certificate.to_dict()
    shown_certificate["summary"] = certificate.summary()
    shown_certificate["rows"] = certificate.rows()
    return {
        "certificate": shown_certificate,
        "rule": _answer_rule(classifier, error),
        "calibration": _calibration_set(classifier),
        "sketches": classifier.estimator_.training_sketches_,
        "power": _drift_power(classifier),
        "seed": classifier.seed_ % 2**32,
    }


def _answer_rule(classifier: Any, error: float | None) -> dict[str, Any]:
    rule = AnswerRule(classifier, error=error)
    abstaining = classifier.abstain(error=error)
    delta = divide_delta(abstaining.delta, abstaining.n_choices)
    set_delta = divide_delta(abstaining.delta, classifier.n_candidates)
    sentences = (rule.no_answers, rule.statement, rule.no_sets)
    statement = " ".join(filter(None, sentences))

    return {
        "error": rule.error,
        "threshold": rule.threshold,
        "delta": delta,
        "uniform": abstaining.uniform,
        "setError": rule.set_error,
        "setDelta": set_delta,
        "setThresholds": rule.set_levels,
        "statement": statement,
    }


def _calibration_set(classifier: Any) -> dict[str, Any]:
    calibration = classifier.calibration_
    rows_of_samples: dict[str, np.ndarray] = {}
    for name, is_member in calibration.members.items():
        rows = np.flatnonzero(is_member)
        rows_of_samples[name] = rows.astype(np.uint32)
    if not rows_of_samples:
        all_rows = np.arange(len(calibration.labels))
        rows_of_samples[classifier.certificate_.sample] = all_rows.astype(np.uint32)

    return {
        "logProba": calibration.log_proba,
        "labels": calibration.labels.astype(np.uint32),
        "monitors": calibration.monitors,
        "rows": rows_of_samples,
        "covered": calibration.covered.astype(np.uint8),
        "rowsHaveCopies": is_split_by_rows(classifier),
    }


def _drift_power(classifier: Any) -> dict[str, Any]:
    """The numbers of texts after which the drift check detects a fraction of other texts."""
    size = drift_check.DriftCheck(classifier).size()
    times = drift_check.detection_times(*size)
    return {
        "fractions": list(drift_check.OTHER_FRACTIONS),
        "times": times.astype(np.uint32),
        "kind": drift_check.OTHER_KIND,
    }
