"""`save` and `load`: any model of ours, by the class its folder names."""

import os
from pathlib import Path

import numpy as np

import pacsent
from pacsent import storage
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
from pacsent.words.storing import n_bytes, open_words, save_words, write_words
from pacsent.words.vectors import WordVectors

VECTORIZER = "vectorizer"  # the folder inside a classifier's

# ------------------------------------------------------------------------------------------------
# save
# ------------------------------------------------------------------------------------------------


def save(obj, path, *, words: str = "copy", overwrite: bool = False) -> Path:
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


def _write_estimator(estimator, folder, place, words):
    from sklearn.utils.validation import check_is_fitted

    check_is_fitted(estimator)
    name = type(estimator).__name__
    state = estimator._state()
    parameters = dict(estimator.get_params(deep=False))
    word_vectors = parameters.pop("word_vectors")
    if words == "copy":
        (folder / WORDS).mkdir()
        write_words(word_vectors, folder / WORDS)
        where = {"path": WORDS}
    else:
        saved_at = getattr(word_vectors, "_saved_at", None)
        if saved_at is None or not is_model(Path(saved_at)):
            raise ValueError(
                "words='reference' needs word vectors that were saved to or loaded from a "
                "folder, and these were not. Save them first, or use words='copy'."
            )
        where = {"path": os.path.relpath(saved_at, place), "digest": word_vectors.digest()}
    write_tensors(folder / TENSORS, {key: np.asarray(value) for key, value in state.items()})
    write_config(
        folder,
        {
            "class": name,
            "parameters": {
                key: to_json(value, f"the parameter {key!r} of {name}")
                for key, value in parameters.items()
            },
            "word_vectors": where,
            "corpus_digest": word_vectors.corpus_digest,
        },
    )


def _write_classifier(classifier, folder, place, words):
    """A classifier: its own arrays, and its vectorizer as a folder inside."""
    from sklearn.utils.validation import check_is_fitted

    check_is_fitted(classifier)
    if classifier.vectorizer_ is not None:
        (folder / VECTORIZER).mkdir()
        _write_estimator(classifier.vectorizer_, folder / VECTORIZER, place / VECTORIZER, words)
    write_tensors(folder / TENSORS, classifier._state())
    parameters = {k: v for k, v in classifier.get_params(deep=False).items() if k != "words"}
    described = {
        key: to_json(value, f"the parameter {key!r} of TextClassifier")
        for key, value in parameters.items()
    }
    write_config(folder, {"class": type(classifier).__name__, "parameters": described})


def _write_index(index, folder, place, words):
    """An index: vectors, numbers and texts, and its vectorizer as a folder inside."""
    (folder / VECTORIZER).mkdir()
    _write_estimator(index._fitted(), folder / VECTORIZER, place / VECTORIZER, words)
    write_tensors(folder / TENSORS, index._state())
    write_config(folder, {"class": "Index", "n_texts": len(index)})


# ------------------------------------------------------------------------------------------------
# load
# ------------------------------------------------------------------------------------------------


def load(
    path,
    *,
    normalise=None,
    unknown: str | None = None,
    word_vectors: WordVectors | None = None,
):
    """Open a saved model: word vectors (memory-mapped) or a fitted estimator.

    Parameters
    ----------
    path : str or path
        A folder written by `save`, or "english", the model that comes with the package.
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
    config = read_config(path)
    if config["class"] == "WordVectors":
        if word_vectors is not None:
            raise ValueError(
                f"word_vectors is for loading an estimator. {path} holds word vectors itself: "
                "leave it out."
            )
        return open_words(path, config, normalise, unknown)
    if config["class"] == "TextClassifier":
        return _load_classifier(path, config, (normalise, unknown), word_vectors)
    if config["class"] == "Index":
        return _load_index(path, (normalise, unknown), word_vectors)
    return _load_estimator(path, config, (normalise, unknown), word_vectors)


def _load_classifier(path, config, how, word_vectors):
    from pacsent.classify import TextClassifier

    folder = path / VECTORIZER
    vectorizer = None
    if folder.exists():
        vectorizer = _load_estimator(folder, read_config(folder), how, word_vectors)
    parameters = {key: from_json(value) for key, value in config["parameters"].items()}
    classifier = TextClassifier(vectorizer, **parameters)
    tensors = read_tensors(path / TENSORS)
    try:
        classifier._restore(tensors, vectorizer)
    except (KeyError, ValueError, TypeError) as error:
        raise ValueError(
            f"{path / TENSORS} is damaged: {type(error).__name__} {error}. Save the model again."
        ) from None
    if classifier.coef_dense_.size and vectorizer is None:
        raise FileNotFoundError(
            f"The vectorizer of {path} is not at {folder}. Put it back there, or train again."
        )
    return classifier


def _load_index(path, how, word_vectors):
    from pacsent.sentences.index import Index

    folder = path / VECTORIZER
    index = Index(_load_estimator(folder, read_config(folder), how, word_vectors))
    index._restore(read_tensors(path / TENSORS))
    return index


def _load_estimator(path, config, how, word_vectors):
    where = config.get("word_vectors") or {}
    if word_vectors is None:
        folder = path / where.get("path", WORDS)
        if not folder.exists():
            raise FileNotFoundError(
                f"The word vectors of {path} are not at {folder}. Put them back there, or load "
                "them from where they are: load(path, word_vectors=load(...))."
            )
        words_config = read_config(folder)
        word_vectors = open_words(folder, words_config, *how)
    if "digest" in where and word_vectors.digest() != where["digest"]:
        raise ValueError(
            f"The word vectors of {path} must be the ones it was fitted with (digest "
            f"{where['digest'][:8]}…). Got others instead (digest {word_vectors.digest()[:8]}…). "
            "Fit again, or bring the right ones."
        )
    estimator_class = _estimator_class(config["class"], path)
    parameters = {key: from_json(value) for key, value in config["parameters"].items()}
    try:
        estimator = estimator_class(word_vectors, **parameters)
    except TypeError as error:
        raise ValueError(
            f"{path} holds parameters that {config['class']} does not take ({error}). It was "
            f"written by pacsent {config.get('pacsent_version', '?')}; this is "
            f"{pacsent.__version__}."
        ) from None
    estimator._restore(read_tensors(path / TENSORS))
    return estimator


def _estimator_class(name, path):
    from pacsent.sentences.methods import ESTIMATORS

    # a name in a file may only ever select one of our own estimators
    found = ESTIMATORS.get(name) if isinstance(name, str) else None
    if found is None:
        raise ValueError(
            f"{path} holds a {name!r}, which this pacsent ({pacsent.__version__}) does not have. "
            "Install the version that wrote it."
        )
    return found
