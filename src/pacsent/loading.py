"""`save` and `load`: any model of ours, by the class its folder names; certificates likewise."""

import os
import re
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import pacsent
from pacsent import hub, seals, storage
from pacsent.storage import (
    TENSORS,
    WORDS,
    check_place,
    from_json,
    is_model,
    read_config,
    read_tensors,
    to_json,
    write_config,
    write_folder,
    write_tensors,
)
from pacsent.words import formats
from pacsent.words.storing import n_bytes, open_words, save_words, write_words
from pacsent.words.vectors import WordVectors

VECTORIZER = "vectorizer"  # the folder inside a classifier's
_SMALL = 1 << 22  # bytes of what was learned that are checked at once, not when first used

# ------------------------------------------------------------------------------------------------
# save
# ------------------------------------------------------------------------------------------------


def save(
    obj: Any, path: str | os.PathLike, *, words: str = "copy", overwrite: bool = False
) -> Path:
    """Save word vectors, a fitted estimator or an index, as a folder.

    Parameters
    ----------
    obj : WordVectors, a fitted estimator of pacsent, or an Index
    path : str or path
        The folder. A model of ours that is already there is replaced, in one step, where
        `overwrite` says so; anything else that is there is left alone and the call refused.
    words : {"copy", "reference"}, default="copy"
        For an estimator: keep a copy of its word vectors in the folder, or only the way to the
        folder they were loaded from and their digest, which `load` checks.
    overwrite : bool, default=False
        Replace a model that is there. The word vectors an estimator was made from are never
        replaced by it.

    Returns
    -------
    Path
        The folder.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from pacsent import load, make, save
    >>> vectorizer = make("Average", "english").fit(["a quiet film"])
    >>> folder = save(vectorizer, Path(tempfile.mkdtemp()) / "model")
    >>> type(load(folder)).__name__
    'AverageVectorizer'
    """
    if words not in ("copy", "reference"):
        raise ValueError(f"words must be 'copy' or 'reference'. Got {words!r} instead.")
    path = Path(path)
    if isinstance(obj, WordVectors):
        return save_words(obj, path, overwrite=overwrite)
    place = Path(os.path.realpath(path))
    is_index = type(obj).__name__ == "Index"
    inner = obj.vectorizer if is_index else getattr(obj, "vectorizer_", obj)
    saved_at = getattr(getattr(inner, "word_vectors", None), "_saved_at", None)
    if saved_at is not None and (words == "reference" or saved_at == place):
        check_place(path, [saved_at], overwrite=overwrite)
    if hasattr(obj, "vectorizer_") and hasattr(obj, "_state"):
        return write_folder(
            path, lambda folder: _write_classifier(obj, folder, place, words), overwrite=overwrite
        )
    if is_index:
        return write_folder(
            path, lambda folder: _write_index(obj, folder, place, words), overwrite=overwrite
        )
    if not (hasattr(obj, "_state") and hasattr(obj, "_restore") and hasattr(obj, "get_params")):
        raise TypeError(
            "save() takes WordVectors or a fitted estimator of pacsent. Got "
            f"{type(obj).__name__} instead."
        )
    needed = n_bytes(obj.word_vectors) * (words == "copy")
    return write_folder(
        path,
        lambda folder: _write_estimator(obj, folder, place, words),
        needed,
        overwrite=overwrite,
    )


def _write_estimator(estimator, folder, place, words) -> str:
    """Fill the folder; the digest of its description."""
    from sklearn.utils.validation import check_is_fitted

    check_is_fitted(estimator)
    name = type(estimator).__name__
    state = estimator._state()
    parameters = dict(estimator.get_params(deep=False))
    word_vectors = parameters.pop("word_vectors")
    if words == "copy":
        (folder / WORDS).mkdir()
        where = {"path": WORDS, "config": write_words(word_vectors, folder / WORDS)}
    else:
        saved_at = getattr(word_vectors, "_saved_at", None)
        if saved_at is None or not is_model(Path(saved_at)):
            raise ValueError(
                "words='reference' needs word vectors that were saved to or loaded from a "
                "folder, and these were not. Save them first, or use words='copy'."
            )
        where = {"path": os.path.relpath(saved_at, place)}
    where["digest"] = word_vectors.digest()
    tensors = {key: np.asarray(value) for key, value in state.items()}
    record = write_tensors(folder / TENSORS, tensors)
    return write_config(
        folder,
        {
            "class": name,
            "parameters": {
                key: to_json(value, f"the parameter {key!r} of {name}")
                for key, value in parameters.items()
            },
            "word_vectors": where,
            "corpus_digest": word_vectors.corpus_digest,
            "files": {TENSORS: record},
        },
    )


def _write_classifier(classifier, folder, place, words):
    """A classifier: its own arrays, and its vectorizer as a folder inside."""
    from sklearn.utils.validation import check_is_fitted

    check_is_fitted(classifier)
    inner = {}
    if classifier.vectorizer_ is not None:
        inner = _write_inner(classifier.vectorizer_, folder, place, words)
    record = write_tensors(folder / TENSORS, classifier._state())
    parameters = {k: v for k, v in classifier.get_params(deep=False).items() if k != "words"}
    described = {
        key: to_json(value, f"the parameter {key!r} of TextClassifier")
        for key, value in parameters.items()
    }
    write_config(
        folder,
        {
            "class": type(classifier).__name__,
            "parameters": described,
            **inner,
            "files": {TENSORS: record},
        },
    )


def _write_index(index, folder, place, words):
    """An index: vectors, numbers and texts, and its vectorizer as a folder inside."""
    inner = _write_inner(index._fitted(), folder, place, words)
    record = write_tensors(folder / TENSORS, index._state())
    about = {"class": "Index", "n_texts": len(index), "engine": index.engine}
    about = {**about, **inner, "files": {TENSORS: record}}
    write_config(folder, about)


def _write_inner(vectorizer, folder, place, words) -> dict[str, str]:
    """A vectorizer as a folder inside; its digest, by name."""
    (folder / VECTORIZER).mkdir()
    where = folder / VECTORIZER, place / VECTORIZER
    return {VECTORIZER: _write_estimator(vectorizer, *where, words)}


def push_to_hub(
    obj: Any, repo: str, *, message: str | None = None, private: bool | None = None,
    card: str | None = None,
) -> str:  # fmt: skip
    """Save a model and put it on the Hugging Face hub (extra `[hub]`), as one commit.

    Parameters
    ----------
    obj : WordVectors, a fitted estimator of pacsent, or an Index
        An index holds the texts themselves: they go there too.
    repo : str
        `owner/name`. It is made if it is not there; `load("hf://owner/name")` opens it.
    message : str, optional
        Of the commit.
    private : bool, optional
        For a repository that is made now.
    card : str, optional
        README.md; when left out one that says what the model is, how it was made and how it is
        opened.

    Returns
    -------
    str
        The address of the commit.

    Examples
    --------
    The card that goes along can be read beforehand:

    >>> import tempfile
    >>> from pacsent import load, save
    >>> folder = save(load("english"), tempfile.mkdtemp() + "/english")
    >>> "me/english" in model_card(folder, "me/english")
    True
    >>> push_to_hub(load("english"), "me/english")  # doctest: +SKIP
    """
    with tempfile.TemporaryDirectory() as place:
        folder = save(obj, Path(place) / "model")
        text = model_card(folder, repo) if card is None else card
        (folder / "README.md").write_text(text, encoding="utf-8")
        said = message or f"{read_config(folder)['class']}, by pacsent {pacsent.__version__}"
        return hub.upload(folder, repo, message=said, private=private)


def model_card(folder: str | os.PathLike[str], repo: str) -> str:
    """README.md of a saved model, from what its folder says."""
    folder = Path(folder)
    config = read_config(folder)
    inner = [folder / VECTORIZER, folder / VECTORIZER / WORDS, folder / WORDS]
    configs = [config, *(read_config(place) for place in inner if place.is_dir())]
    words = configs[-1]
    lines = [
        "---", "library_name: pacsent", "tags:", "- pacsent", "- word-vectors",
        "- sentence-similarity", "---", "", f"# {repo.partition('/')[2]}", "",
        f"A {config['class']} of pacsent, version "
        f"{config['pacsent_version']}.", "", "```python", "import pacsent", "",
        f'model = pacsent.load("{hub.SCHEME}{repo}")', "```", "",
    ]  # fmt: skip
    for one in configs:
        if one.get("parameters"):
            settings = ", ".join(f"`{k}={from_json(v)!r}`" for k, v in one["parameters"].items())
            lines += [f"- {one['class']}: {settings}"]
    lines += [f"- Word vectors: {words['n_words']:,} words, {words['n_dims']} dimensions"]
    for key, value in (words.get("training") or {}).items():
        shown = "; ".join(map(str, value)) if isinstance(value, list) else value
        lines += [f"- {key.replace('_', ' ')}: {shown}"]
    lines += ["", "`pacsent check` compares every file with the digests in config.json.", ""]
    return "\n".join(lines)


# ------------------------------------------------------------------------------------------------
# load
# ------------------------------------------------------------------------------------------------


def load(
    path: str | os.PathLike,
    *,
    normalise: str | Callable[[str], list[str]] | None = None,
    unknown: str | None = None,
    word_vectors: WordVectors | None = None,
) -> Any:
    """Open a saved model, or word vectors of another program.

    Parameters
    ----------
    path : str or path
        A folder written by `save`, whose tables are memory-mapped; "english", the model that comes
        with the package; "hf://owner/name", a model on the Hugging Face hub (extra `[hub]`), with
        "@revision" for one that stays the same; or a file or folder of word vectors in one of the
        formats that `pacsent.words.formats.read` recognises (word2vec, GloVe, fastText, ...).
    normalise : {"paper", "unicode"} or callable, optional
        How raw text becomes tokens, in place of what the folder says (a function cannot be
        saved).
    unknown : {"drop", "nearest"}, optional
        What happens to words that are not in the vocabulary, in place of what the folder says:
        they are left out, or read as the known word they are a misspelling of.
    word_vectors : WordVectors, optional
        For an estimator: use these instead of opening its own again. Their digest must agree
        where the folder keeps one.

    Returns
    -------
    WordVectors or estimator

    Examples
    --------
    >>> import pacsent
    >>> words = pacsent.load("english")
    >>> words
    WordVectors(n_words=65536, n_dims=256)
    >>> "unhappy" in [word for word, _ in words.most_similar("happy", 5)]
    True
    """
    path = storage.place(path)
    foreign = path.exists() and formats.detect(path) != "pacsent"
    config = {"class": "WordVectors"} if foreign else read_config(path)
    if config["class"] == "WordVectors" and word_vectors is not None:
        raise ValueError(
            f"word_vectors is for loading an estimator. {path} holds word vectors itself: "
            "leave it out."
        )
    if foreign:
        words = formats.read(path, normalise=normalise)
        vocabulary = words.vocabulary.treating_unknown(unknown or "drop")
        same = vocabulary is words.vocabulary
        return words if same else replace(words, vocabulary=vocabulary)
    if config["class"] == "WordVectors":
        return open_words(path, config, normalise, unknown)
    if config["class"] == "TextClassifier":
        return _load_classifier(path, config, (normalise, unknown), word_vectors)
    if config["class"] == "Index":
        return _load_index(path, config, (normalise, unknown), word_vectors)
    return _load_estimator(path, config, (normalise, unknown), word_vectors)


def _load_classifier(path, config, how, word_vectors):
    from pacsent.classify import TextClassifier

    folder = path / VECTORIZER
    vectorizer = None
    if folder.exists():
        vectorizer = _load_inner(path, config, how, word_vectors)
    tensors = read_tensors(path / TENSORS, config.get("files", {}).get(TENSORS))
    tensors.verify()
    try:
        parameters = {key: from_json(value) for key, value in config["parameters"].items()}
        classifier = TextClassifier(vectorizer, **parameters)
        classifier._restore(tensors, vectorizer)
        if hasattr(classifier, "certificate_") and not classifier.certificate_.verify():
            raise ValueError("the bounds of its certificate do not follow from its numbers")
    except (KeyError, ValueError, TypeError, IndexError, RecursionError) as error:
        raise ValueError(_damaged(path, error)) from None
    if classifier.coef_dense_.size and vectorizer is None:
        raise FileNotFoundError(
            f"The vectorizer of {path} is not at {folder}. Put it back there, or train again."
        )
    return classifier


def _load_index(path, config, how, word_vectors):
    from pacsent.encoders.index import Index

    vectorizer = _load_inner(path, config, how, word_vectors)
    tensors = read_tensors(path / TENSORS, config.get("files", {}).get(TENSORS))
    try:
        index = Index.opened(vectorizer, config.get("engine", "auto"))
        index._restore(tensors)
    except (KeyError, ValueError, TypeError) as error:
        raise ValueError(_damaged(path, error)) from None
    index._unverified = tensors.verify
    return index


def _load_inner(path, config, how, word_vectors):
    """The vectorizer inside the folder, if it is the one that was saved with it."""
    folder = path / VECTORIZER
    inner = read_config(folder)
    if config.get(VECTORIZER, inner.get("digest")) != inner.get("digest"):
        raise ValueError(
            f"{folder} must hold the vectorizer that was saved with {path}. It holds another, or "
            "was changed. Copy or save the model again."
        )
    return _load_estimator(folder, inner, how, word_vectors)


def _load_estimator(path, config, how, word_vectors):
    where = config.get("word_vectors") or {}
    if word_vectors is None:
        word_vectors = _words_of(path, where, how)
    elif "digest" in where and word_vectors.digest() != where["digest"]:
        raise ValueError(_other_words(path, where["digest"], word_vectors.digest()))
    estimator_class = _estimator_class(config["class"], path)
    tensors = read_tensors(path / TENSORS, config.get("files", {}).get(TENSORS))
    try:
        parameters = {key: from_json(value) for key, value in config["parameters"].items()}
        estimator = estimator_class(word_vectors, **parameters)
    except TypeError as error:
        raise ValueError(
            f"{path} holds parameters that {config['class']} does not take ({error}). It was "
            f"written by pacsent {config.get('pacsent_version', '?')}; this is "
            f"{pacsent.__version__}."
        ) from None
    except (ValueError, KeyError, RecursionError) as error:
        raise ValueError(_damaged(path, error)) from None
    try:
        estimator._validate_params()
        estimator._restore(tensors)
    except (ValueError, KeyError, TypeError, IndexError, OverflowError) as error:
        raise ValueError(_damaged(path, error)) from None
    estimator._unverified = tensors.verify
    if tensors.seal is not None and tensors.seal.data.size <= _SMALL:
        estimator._verify_state()
    return estimator


def _words_of(path, where, how) -> WordVectors:
    """The word vectors that a saved estimator names, if they are those it was saved with."""
    name = where.get("path", WORDS)
    if not isinstance(name, str) or "\0" in name:
        raise ValueError(_damaged(path, f"the place of its word vectors is {name!r}"))
    folder = path / name
    if not folder.exists():
        raise FileNotFoundError(
            f"The word vectors of {path} are not at {folder}. Put them back there, or load "
            "them from where they are: load(path, word_vectors=load(...))."
        )
    config = read_config(folder)
    if config["class"] != "WordVectors":
        raise ValueError(_damaged(path, f"{folder} holds a {config['class']}, not word vectors"))
    if "config" in where and where["config"] != config.get("digest"):
        raise ValueError(
            f"{folder} must hold the word vectors that were saved with {path}. It holds others, or "
            "was changed. Copy or save the model again."
        )
    words = open_words(folder, config, *how)
    if "config" not in where and "digest" in where:
        found = config.get("vectors_digest") or words.digest()
        if found != where["digest"]:
            raise ValueError(_other_words(path, where["digest"], found))
    return words


def _other_words(path, expected, found) -> str:
    return (
        f"The word vectors of {path} must be the ones it was fitted with (digest "
        f"{expected[:8]}…). Got others instead (digest {found[:8]}…). Fit again, or bring the "
        "right ones."
    )


def _damaged(path, error) -> str:
    text = " ".join(str(error).split())
    text = f"it has no {text}" if isinstance(error, KeyError) else text or type(error).__name__
    return f"{path} is damaged: {text.rstrip('.')}. Copy or save the model again."


def _estimator_class(name, path):
    from pacsent.encoders.methods import ESTIMATORS

    # a name in a file may only ever select one of our own estimators
    found = ESTIMATORS.get(name) if isinstance(name, str) else None
    if found is None:
        raise ValueError(
            f"{path} holds a {name!r}, which this pacsent ({pacsent.__version__}) does not have. "
            "Install the version that wrote it."
        )
    return found


# ------------------------------------------------------------------------------------------------
# check
# ------------------------------------------------------------------------------------------------


def check(path: str | os.PathLike) -> list[dict]:
    """Check a saved model to the last byte: what was looked at, and whether it is as it was saved.

    Parameters
    ----------
    path : str or path
        A folder written by `save`.

    Returns
    -------
    list of dict
        One for each thing that was looked at: `what`, `ok`, and `found`, in words.

    Notes
    -----
    Digests find accidental damage, not a person who writes new ones. Folders that were saved
    without digests (format 1) are checked for structure and finite numbers only.

    Examples
    --------
    >>> from pacsent.loading import check
    >>> all(step["ok"] for step in check("english"))
    True
    """
    path = storage.place(path)
    if not path.is_dir():
        read_config(path)  # says what is missing
    found: list[dict] = []

    def step(what, look):
        try:
            found.append({"what": what, "ok": True, "found": look()})
        except (ValueError, OSError) as error:
            found.append({"what": what, "ok": False, "found": str(error)})
        return found[-1]["ok"]

    folders = [path, *(path / VECTORIZER / WORDS, path / VECTORIZER, path / WORDS)]
    for folder in [f for f in folders if f == path or f.exists()]:
        name = "" if folder == path else f"{folder.relative_to(path)}/"
        if not step(f"{name}{storage.CONFIG}", lambda f=folder: _check_description(f)):
            continue
        config = read_config(folder)
        for file in sorted({TENSORS, *config.get("files", {})}):
            step(f"{name}{file}", lambda f=folder, n=file, c=config: _check_file(f, n, c))
    step("the model", lambda: _check_model(load(path)))
    return found


def _check_description(folder) -> str:
    config = read_config(folder)
    sealed = "as it was saved" if "digest" in config else "readable, without digests (format 1)"
    return f"{config['class']}, {sealed}"


def _check_file(folder, name, config) -> str:
    record = config.get("files", {}).get(name)
    if name == TENSORS:
        tensors = read_tensors(folder / name, record)
        tensors.verify()
        said = "as they were saved" if record else "of the right sizes"
        return f"{len(tensors)} arrays, {said}"
    data = (folder / name).read_bytes()
    if record != {"bytes": len(data), "digest": seals.digest(data)}:
        raise ValueError(f"{folder / name} is damaged: it is not what was saved. Copy it again.")
    return f"{len(data):,} bytes, as they were saved"


def _check_model(model) -> str:
    """Open it and look at every number and word."""
    vectorizer = getattr(model, "vectorizer_", getattr(model, "vectorizer", model))
    words = getattr(vectorizer, "word_vectors", model)
    if not isinstance(words, WordVectors):
        return "opens"
    words.check_finite()
    words.vocabulary.check_lookup()
    return f"opens; {words.n_words:,} words found, all numbers finite"


# ------------------------------------------------------------------------------------------------
# Certificates: of vectors or of a classifier
# ------------------------------------------------------------------------------------------------


def certificate_from_json(text: str, name: str, *, verify: bool = True) -> Any:
    """A certificate of either kind from its JSON text, and whether its bounds follow checked.

    `name` is what error messages call the text: its file.

    Examples
    --------
    >>> from pacsent.classify.promises import ErrorCertificate
    >>> from pacsent.maths.binomial import upper_limit
    >>> written = ErrorCertificate(40, 0, 0.05, float(upper_limit(0, 40, 0.05))).to_json()
    >>> certificate_from_json(written, "certificate.json").n
    40
    >>> certificate_from_json(written.replace("40", "50"), "certificate.json")
    Traceback (most recent call last):
    ValueError: certificate.json must hold a certificate whose bounds follow from its numbers. ...
    """
    from pacsent.certificates.certifying import Certificate
    from pacsent.classify.promises import ErrorCertificate

    kind: Any = ErrorCertificate if ErrorCertificate.is_written(text) else Certificate
    try:
        found = kind.from_json(text)
    except ValueError as error:
        raise ValueError(re.sub("^text must", f"{name} must", str(error))) from None
    if verify and not found.verify():
        raise ValueError(
            f"{name} must hold a certificate whose bounds follow from its numbers. They do not: it "
            "was changed."
        )
    return found
