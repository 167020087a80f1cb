"""The work of each POST endpoint: a model and a validated request in, the JSON content out."""

import base64
import os
import time
from typing import Any

import numpy as np

from pacsent.arrays import unit_rows
from pacsent.certify import coverage
from pacsent.certify.drift_monitor import describe_condition
from pacsent.predict.abstaining import Answered, AnswerRule
from pacsent.search import Hit
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
# The result of a text without words.
_EMPTY_TEXT: Content = {
    "label": None,
    "probability": None,
    "set": None,
    "abstained": None,
    "explanation": None,
    "note": "The text is empty: no class.",
}


class Context:
    """The settings of the server, the client, and the time at which it stops waiting."""

    def __init__(self, settings: ServerSettings, client: str = "") -> None:
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
    means = np.ascontiguousarray(posteriors.means[:, :n_dims], dtype=np.float32)
    vectors = unit_rows(means)  # (n, n_dims)
    is_zero = ~vectors.any(axis=1)  # (n,)

    rows: list[Any] = list(vectors)
    if body.encoding_format == "base64":
        rows = [base64.b64encode(row.astype("<f4", copy=False)).decode() for row in rows]
    data = []
    for index, row in enumerate(rows):
        data.append({"object": "embedding", "index": index, "embedding": row})

    n_known = sum(posteriors.n_known.tolist())
    n_unknown = sum(posteriors.n_unknown.tolist())
    n_tokens = n_known + n_unknown
    return {
        "object": "list",
        "data": data,
        "model": model.name,
        "usage": {"prompt_tokens": n_tokens, "total_tokens": n_tokens},
        # indexes of texts without an in-vocabulary word
        "zero_vectors": np.flatnonzero(is_zero).tolist(),
    }


def embed(model: ServedModel, body: schemas.EmbedRequest, context: Context) -> Content:
    """Posteriors: mean, variance, coverage, OOV words."""
    max_words = context.settings.max_explained_tokens
    if body.words:
        _check_explained(body.texts, "words", context.settings)
    posteriors = _posteriors(model, body.texts, context)

    results = []
    for row, text in enumerate(body.texts):
        n_known = posteriors.n_known[row]
        n_tokens = int(n_known + posteriors.n_unknown[row])
        variance = posteriors.variances[row]
        result: Content = {
            "variance": float(variance) if np.isfinite(variance) else None,
            "coverage": float(n_known / n_tokens) if n_tokens else None,
            "tokens": n_tokens,
        }
        if body.mean:
            result["mean"] = np.ascontiguousarray(posteriors.means[row])
        if body.unknown:
            result["unknown"] = _unknown_words(model, text)
        if body.words:
            context.check_time()
            result["words"] = _word_weights(model, text, max_words)
        if not n_known:
            reason = "The text is empty." if is_empty(text) else "No word of the text is known."
            result["note"] = f"{reason} Its vector is all zeros."
        results.append(result)
    return {"model": model.name, "results": results}


def _unknown_words(model: ServedModel, text: str) -> list[str]:
    """The words of a text that the model does not know, each once."""
    words = list(dict.fromkeys(model.words(text)))
    is_known = model.is_known(words)
    return [word for word, known in zip(words, is_known) if not known]


def similarity(model: ServedModel, body: schemas.SimilarityRequest, context: Context) -> Content:
    """Cosines of pairs of texts, or of all texts with each other."""
    n = len(body.a)
    if body.b is None:
        if n > schemas.MAX_COMPARED:
            limit = f"a must have at most {schemas.MAX_COMPARED} texts without b."
            raise RequestError(422, f"{limit} Got {n:,}.", "a")
        vectors = unit_rows(_posteriors(model, body.a, context).means)  # (n, n_dims)
        matrix = np.clip(vectors @ vectors.T, -1, 1)
        return {"model": model.name, "matrix": matrix}

    if n != len(body.b):
        raise RequestError(422, f"b must have {n:,} texts, as a has. Got {len(body.b):,}.", "b")
    posteriors = _posteriors(model, body.a + body.b, context)
    vectors = unit_rows(posteriors.means)  # (2 n, n_dims)
    left = vectors[:n]
    right = vectors[n:]
    cosines = np.einsum("ij,ij->i", left, right)  # (n,)
    cosines = cosines.clip(-1, 1).round(6)
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
        if model.drift is not None:
            model.drift.observe(context.client, texts, answers.log_proba)

        for row, text in enumerate(texts):
            if is_empty(text):
                results.append(dict(_EMPTY_TEXT))
                continue
            result = _describe_answer(answers, row, labels)
            if body.explain:
                context.check_time()
                probabilities = np.exp(answers.log_proba[row]).tolist()
                result["probabilities"] = dict(zip(labels, probabilities))
                result |= _explanation(model, text, settings.max_explained_tokens)
            results.append(result)

    guarantee = _describe_guarantee(model, rule, context.client)
    return {"model": model.name, "guarantee": guarantee, "results": results}


def _describe_answer(answers: Answered, row: int, labels: list[str]) -> Content:
    """Label, probability, prediction set and abstention of one text."""
    is_abstained = None
    if answers.abstained is not None:
        is_abstained = bool(answers.abstained[row])
    label_set = None
    if answers.inside is not None:
        label_set = [label for label, is_inside in zip(labels, answers.inside[row]) if is_inside]

    result: Content = {
        "label": labels[answers.best[row]],
        "probability": float(answers.probability[row]),
        "set": label_set,
        "abstained": is_abstained,
    }
    if is_abstained is not None and not answers.covered[row]:
        result["note"] = f"Not answered: {coverage.REASON}."
    return result


def _describe_guarantee(model: ServedModel, rule: AnswerRule, client: str) -> Content:
    """The statement about answers, unless the texts of the client contradict it."""
    comparison: Content = {}
    if model.drift is not None:
        comparison = model.drift.comparison(client)

    statement = rule.statement
    condition = comparison.get("holds_only_if")
    if comparison.get("differs"):
        statement = None
    elif condition and statement:
        statement = f"{statement} {describe_condition(condition)}"
    return {
        "error": rule.error,
        "set_error": rule.set_error,
        "delta": rule.delta,
        "statement": statement,
        "no_sets": rule.no_sets,
        "no_answers": rule.no_answers,
        "comparison": comparison,
    }


def reset_drift(model: ServedModel, body: schemas.ResetRequest, context: Context) -> Content:
    """Forget the texts that this client has sent, and a drift alarm about them."""
    if model.drift is None:
        raise RequestError(422, "The classifier has no calibration set to compare with.", "model")
    comparison = model.drift.reset(context.client)
    return {"model": model.name, "comparison": comparison}


def search(model: ServedModel, body: schemas.SearchRequest, context: Context) -> Content:
    """The nearest texts of the index."""
    results: list[list[Content]] = []
    statement = None
    for start in range(0, len(body.query), _CHUNK):
        context.check_time()
        queries = body.query[start : start + _CHUNK]
        try:
            hit_lists = model.index.search(
                queries,
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
            results.append([_describe_hit(hit) for hit in hits])

    content: Content = {"model": model.name, "results": results}
    if statement is not None:
        content["guarantee"] = statement
        content["no_answer"] = [not hits for hits in results]
    return content


def _describe_hit(hit: Hit) -> Content:
    """The fields of a hit that have a value."""
    fields = hit._asdict()
    return {name: value for name, value in fields.items() if value not in (None, {})}


def rerank(model: ServedModel, body: schemas.RerankRequest, context: Context) -> Content:
    """Documents sorted by their relevance to a query, for the clients of Cohere and Jina."""
    ranked = rerank_documents(body.query, body.documents, model.encoder, body.top_n)
    results: list[Content] = []
    for hit in ranked:
        result: Content = {"index": hit.id, "relevance_score": hit.score}
        if body.return_documents:
            result["document"] = {"text": hit.text}
        results.append(result)

    n_tokens = model.n_tokens([body.query, *body.documents])
    return {
        "id": os.urandom(8).hex(),
        "model": model.name,
        "results": results,
        "usage": {"total_tokens": n_tokens},
    }


def _posteriors(model: ServedModel, texts: list[str], context: Context) -> Posteriors:
    """Posteriors in chunks, for as long as the client waits for them."""
    parts = []
    for start in range(0, len(texts), _EMBED_CHUNK):
        context.check_time()
        chunk = texts[start : start + _EMBED_CHUNK]
        parts.append(model.posteriors(chunk))
    posteriors = parts[0]
    if len(parts) > 1:
        posteriors = Posteriors(*map(np.concatenate, zip(*parts)))

    known_counts = posteriors.n_known.tolist()
    unknown_counts = posteriors.n_unknown.tolist()
    metrics.KNOWN_WORDS.inc(sum(known_counts))
    metrics.UNKNOWN_WORDS.inc(sum(unknown_counts))
    metrics.EMPTY_TEXTS.inc(known_counts.count(0))
    return posteriors


def _check_explained(texts: list[str], name: str, settings: ServerSettings) -> None:
    if len(texts) > settings.max_explained:
        limit = f"{name} is allowed with at most {settings.max_explained} texts."
        raise RequestError(422, f"{limit} Got {len(texts):,}.", name)


def _word_weights(model: ServedModel, text: str, max_words: int) -> list[dict[str, Any]] | None:
    """The turn of the vector (one minus the cosine) without each word; None for long texts."""
    words = model.words(text)
    if len(words) > max_words:
        return None

    # Row 0 is the text, each other row the text without one of its in-vocabulary words.
    is_known = model.is_known(words)
    texts = [words]
    for place, known in enumerate(is_known):
        if known:
            texts.append(words[:place] + words[place + 1 :])
    vectors = unit_rows(model.posteriors(texts).means)

    cosines = np.clip(vectors[1:] @ vectors[0], -1, 1)  # (n_known,)
    turns = iter((1.0 - cosines).tolist())
    if sum(is_known) == 1:
        turns = iter([1.0])  # nothing is left without the only word

    rows = []
    for word, known in zip(words, is_known):
        weight = round(next(turns), 6) if known else 0.0
        rows.append({"word": word, "known": known, "weight": weight})
    return rows


def _explanation(model: ServedModel, text: str, max_words: int) -> dict[str, Any]:
    # A text has no more words than characters: most texts need not be counted.
    if len(text) > max_words:
        n_words = model.n_tokens([text])
        if n_words > max_words:
            note = f"Texts of up to {max_words:,} words are explained. This one has {n_words:,}."
            return {"explanation": None, "note": note}

    why = model.explainer.explain(text)
    words = [[word, round(value, 6)] for word, value in why.by_word()]
    ngrams = [[ngram, round(value, 6)] for ngram, value in why.ngrams[:_MAX_NGRAMS]]
    explanation = {
        "words": words,
        "ngrams": ngrams,
        "from_ngrams": why.from_ngrams,
        "from_characters": why.from_characters,
        "from_vectors": why.from_vectors,
        "vector_remainder": why.vector_remainder,
        "intercept": why.intercept,
    }
    return {"explanation": explanation}
