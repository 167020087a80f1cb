"""What each POST endpoint computes: a model and a validated request in, the JSON content out."""

import base64
import os
import time
from typing import Any

import numpy as np

from pacsent.arrays import unit_rows
from pacsent.certify import coverage
from pacsent.certify.drift_monitor import describe_condition
from pacsent.search import rerank as rerank_documents
from pacsent.text.ngrams import is_empty
from pacsent.web import metrics, schemas
from pacsent.web.schemas import RequestError
from pacsent.web.served_model import Posteriors, ServedModel
from pacsent.web.settings import ServerSettings

_EMBED_CHUNK = 512  # texts between two looks at the deadline
_CHUNK = 64  # the same for classes and search, which take longer per text
_MAX_NGRAMS = 20  # of an explanation
Content = dict[str, Any]


class Context:
    """The settings of the server, the client, and the time at which it stops waiting."""

    def __init__(self, settings: ServerSettings, client: str = ""):
        self.settings = settings
        self.client = client  # the digest of its API key; "" where the server has no keys
        self._deadline = time.monotonic() + settings.timeout

    def check_time(self) -> None:
        """Stop the work when the time is over: `RequestMiddleware` answers with status 504."""
        if time.monotonic() > self._deadline:
            raise TimeoutError


def embeddings(model: ServedModel, body: schemas.EmbeddingsRequest, context: Context) -> Content:
    """Embeddings, for OpenAI's clients."""
    n_dims = body.dimensions or model.n_dims
    if n_dims > model.n_dims:
        raise RequestError(
            422, f"dimensions must be from 1 to {model.n_dims}. Got {n_dims}.", "dimensions"
        )
    posteriors = _posteriors(model, body.input, context)
    # OpenAI's clients expect vectors of length one.
    vectors = unit_rows(np.ascontiguousarray(posteriors.means[:, :n_dims], dtype=np.float32))
    rows = list(vectors)
    if body.encoding_format == "base64":
        rows = [base64.b64encode(row.astype("<f4", copy=False)).decode() for row in rows]
    n_tokens = sum(posteriors.n_known.tolist()) + sum(posteriors.n_unknown.tolist())
    zero = np.flatnonzero(~vectors.any(axis=1)).tolist()
    return {
        "object": "list",
        "data": [
            {"object": "embedding", "index": i, "embedding": row} for i, row in enumerate(rows)
        ],
        "model": model.name,
        "usage": {"prompt_tokens": n_tokens, "total_tokens": n_tokens},
        "zero_vectors": zero,  # indexes of texts without an in-vocabulary word
    }


def embed(model: ServedModel, body: schemas.EmbedRequest, context: Context) -> Content:
    """Posteriors: mean, variance, coverage, OOV words."""
    settings = context.settings
    if body.words:
        _check_explained(body.texts, "words", settings)
    posteriors = _posteriors(model, body.texts, context)
    results = []
    for text, mean, variance, n_known, n_unknown in zip(body.texts, *posteriors):
        n_tokens = int(n_known + n_unknown)
        result: Content = {
            "variance": float(variance) if np.isfinite(variance) else None,
            "coverage": float(n_known / n_tokens) if n_tokens else None,
            "tokens": n_tokens,
        }
        if body.mean:
            result["mean"] = np.ascontiguousarray(mean)
        if body.unknown:
            words = list(dict.fromkeys(model.words(text)))
            result["unknown"] = [w for w, known in zip(words, model.is_known(words)) if not known]
        if body.words:
            context.check_time()
            result["words"] = _word_weights(model, text, settings.max_explained_tokens)
        if not n_known:
            reason = "The text is empty." if is_empty(text) else "No word of the text is known."
            result["note"] = f"{reason} Its vector is all zeros."
        results.append(result)
    return {"model": model.name, "results": results}


def similarity(model: ServedModel, body: schemas.SimilarityRequest, context: Context) -> Content:
    """Cosines of pairs of texts, or of all texts with each other."""
    n = len(body.a)
    if body.b is None:
        if n > schemas.MAX_COMPARED:
            limit = f"a must have at most {schemas.MAX_COMPARED} texts without b."
            raise RequestError(422, f"{limit} Got {n:,}.", "a")
        vectors = unit_rows(_posteriors(model, body.a, context).means)
        return {"model": model.name, "matrix": np.clip(vectors @ vectors.T, -1, 1)}
    if n != len(body.b):
        raise RequestError(422, f"b must have {n:,} texts, as a has. Got {len(body.b):,}.", "b")
    vectors = unit_rows(_posteriors(model, body.a + body.b, context).means)
    cosines = np.einsum("ij,ij->i", vectors[:n], vectors[n:]).clip(-1, 1).round(6)
    return {"model": model.name, "cosines": cosines}


def classify(model: ServedModel, body: schemas.ClassifyRequest, context: Context) -> Content:
    """Label, probability, prediction set, abstention, and what every word adds."""
    settings = context.settings
    if body.explain:
        _check_explained(body.texts, "explain", settings)
    error = settings.error if body.error is None else body.error
    try:
        rule = model.answer_rule(error, settings.delta)
    except ValueError as reason:  # an error rate, and no calibration set
        raise RequestError(422, str(reason), "error") from None
    labels = [str(label) for label in model.classifier.classes_.tolist()]
    results: list[Content] = []
    for start in range(0, len(body.texts), _CHUNK):
        context.check_time()
        texts = body.texts[start : start + _CHUNK]
        answers = model.answer(rule, texts)
        inside = answers.inside
        abstained = answers.abstained
        if model.drift is not None:
            model.drift.observe(context.client, texts, answers.log_proba)
        for row, text in enumerate(texts):
            if is_empty(text):
                empty = ("label", "probability", "set", "abstained", "explanation")
                results.append(dict.fromkeys(empty) | {"note": "The text is empty: no class."})
                continue
            result: Content = {
                "label": labels[answers.best[row]],
                "probability": float(answers.probability[row]),
                "set": None,
                "abstained": None if abstained is None else bool(abstained[row]),
            }
            if abstained is not None and not answers.covered[row]:
                result["note"] = f"Not answered: {coverage.REASON}."
            if inside is not None:
                result["set"] = [label for label, is_in in zip(labels, inside[row]) if is_in]
            if body.explain:
                context.check_time()
                result["probabilities"] = dict(zip(labels, np.exp(answers.log_proba[row]).tolist()))
                result |= _explanation(model, text, settings.max_explained_tokens)
            results.append(result)
    names = ("error", "set_error", "delta", "statement", "no_sets", "no_answers")
    comparison = {} if model.drift is None else model.drift.comparison(context.client)
    guarantee = {name: getattr(rule, name) for name in names} | {"comparison": comparison}
    if comparison.get("differs"):
        guarantee["statement"] = None
    elif comparison.get("holds_only_if") and guarantee["statement"]:
        guarantee["statement"] += f" {describe_condition(comparison['holds_only_if'])}"
    return {"model": model.name, "guarantee": guarantee, "results": results}


def reset_drift(model: ServedModel, body: schemas.ResetRequest, context: Context) -> Content:
    """Forget the texts that this client has sent, and a drift alarm about them."""
    if model.drift is None:
        raise RequestError(422, "The classifier has no calibration set to compare with.", "model")
    return {"model": model.name, "comparison": model.drift.reset(context.client)}


def search(model: ServedModel, body: schemas.SearchRequest, context: Context) -> Content:
    """The nearest texts of the index."""
    results: list[list[Content]] = []
    statement = None
    for start in range(0, len(body.query), _CHUNK):
        context.check_time()
        try:
            hit_lists = model.index.search(
                body.query[start : start + _CHUNK],
                body.k,
                where=body.where,
                guarantee=body.guarantee,
                delta=context.settings.delta,
            )
        except (ValueError, TypeError) as reason:
            param = "where" if body.where is not None else "guarantee"
            raise RequestError(422, str(reason), param) from None
        statement = body.guarantee and hit_lists[0].summary()
        for hits in hit_lists:
            fields = (hit._asdict().items() for hit in hits)
            results.append([{k: v for k, v in hit if v not in (None, {})} for hit in fields])
    content: Content = {"model": model.name, "results": results}
    if statement is not None:
        content |= {"guarantee": statement, "no_answer": [not hits for hits in results]}
    return content


def rerank(model: ServedModel, body: schemas.RerankRequest, context: Context) -> Content:
    """Documents sorted by their relevance to a query, for the clients of Cohere and Jina."""
    ranked = rerank_documents(body.query, body.documents, model.encoder, body.top_n)
    results: list[Content] = [{"index": hit.id, "relevance_score": hit.score} for hit in ranked]
    if body.return_documents:
        results = [item | {"document": {"text": d.text}} for item, d in zip(results, ranked)]
    usage = {"total_tokens": model.n_tokens([body.query, *body.documents])}
    return {"id": os.urandom(8).hex(), "model": model.name, "results": results, "usage": usage}


def _posteriors(model: ServedModel, texts: list[str], context: Context) -> Posteriors:
    """Posteriors in chunks, for as long as the client waits for them."""
    parts = []
    for start in range(0, len(texts), _EMBED_CHUNK):
        context.check_time()
        parts.append(model.posteriors(texts[start : start + _EMBED_CHUNK]))
    posteriors = parts[0] if len(parts) == 1 else Posteriors(*map(np.concatenate, zip(*parts)))
    metrics.KNOWN_WORDS.inc(sum(posteriors.n_known.tolist()))
    metrics.UNKNOWN_WORDS.inc(sum(posteriors.n_unknown.tolist()))
    metrics.EMPTY_TEXTS.inc(posteriors.n_known.tolist().count(0))
    return posteriors


def _check_explained(texts: list[str], name: str, settings: ServerSettings) -> None:
    if len(texts) > settings.max_explained:
        limit = f"{name} is allowed with at most {settings.max_explained} texts."
        raise RequestError(422, f"{limit} Got {len(texts):,}.", name)


def _word_weights(model: ServedModel, text: str, max_words: int) -> list[dict[str, Any]] | None:
    """How far the vector turns (one minus the cosine) without each word; None for long texts."""
    words = model.words(text)
    if len(words) > max_words:
        return None
    known = model.is_known(words)
    without = [words[:i] + words[i + 1 :] for i, is_known in enumerate(known) if is_known]
    vectors = unit_rows(model.posteriors([words, *without]).means)
    turns = iter((1.0 - np.clip(vectors[1:] @ vectors[0], -1, 1)).tolist())
    only_word = sum(known) == 1  # nothing is left without it
    weights = [round(1.0 if only_word else next(turns), 6) if k else 0.0 for k in known]
    rows = zip(words, known, weights)
    return [{"word": word, "known": is_known, "weight": weight} for word, is_known, weight in rows]


def _explanation(model: ServedModel, text: str, max_words: int) -> dict[str, Any]:
    if len(text) > max_words and (n_words := model.n_tokens([text])) > max_words:
        note = f"Texts of up to {max_words:,} words are explained. This one has {n_words:,}."
        return {"explanation": None, "note": note}
    why = model.explainer.explain(text)
    names = ("from_ngrams", "from_characters", "from_vectors", "vector_remainder", "intercept")
    explanation = {
        "words": [[word, round(value, 6)] for word, value in why.by_word()],
        "ngrams": [[name, round(value, 6)] for name, value in why.ngrams[:_MAX_NGRAMS]],
    }
    return {"explanation": explanation | {name: getattr(why, name) for name in names}}
