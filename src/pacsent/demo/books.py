"""The first page of the demo: from a corpus to a certified sentence and a certified classifier.

Every number on the page is computed here, on the books that ship with the package.
"""

import os
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pacsent.bounds.pac_bayes import catoni, kl_inverse
from pacsent.bounds.rounding import rounded_up
from pacsent.classify import TextClassifier
from pacsent.datasets import load_books
from pacsent.demo import charts
from pacsent.files import replacing
from pacsent.optional import install_hint
from pacsent.paper.evaluation import evaluate
from pacsent.paper.figures import altair_found, chart_runtime
from pacsent.paper.labelled import Dataset
from pacsent.paper.method_rows import ROWS
from pacsent.paper.token_parts import split_tokens
from pacsent.predict import CertifiedClassifier
from pacsent.sentences import make_encoder
from pacsent.sentences.solvers.gaussians import kl_gaussians
from pacsent.sentences.solvers.risks import gibbs_error
from pacsent.text.encoded import Encoded
from pacsent.text.pages import render
from pacsent.words import SkipGram, WordVectors

N_CORPUS = 1800  # passages that train the word vectors
N_LABELLED = 600
N_DIMS = 100
N_NEGATIVES = 15
_MIN_SCORED_WORDS = 20  # of a text: shorter ones have too few in each half
BIASES = np.linspace(0.0, 8.0, 41)  # added to scores before their sign is taken
N_FOR_BIAS = 200  # labelled passages that choose among them
DELTA = 0.05
LAM = 8.0
PATH_LAMS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0)
BOUND_LAMS = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)  # 0: the prior; the others are the paper's
LENGTHS = (2, 4, 8, 16, 32, 64)
SHOWN_WORDS = ("whale", "mast", "captain", "voyage", "letter", "write", "lady", "gentleman")
NEIGHBOURS_OF = ("whale", "captain", "letter")
ERROR = 0.1  # error rate that abstention and prediction sets must not exceed


class Books(NamedTuple):
    """The passages in the order of the demo, and their division."""

    texts: list[str]
    authors: np.ndarray

    @property
    def corpus(self) -> list[str]:
        return self.texts[:N_CORPUS]

    @property
    def labelled(self) -> list[str]:
        return self.texts[N_CORPUS : N_CORPUS + N_LABELLED]

    @property
    def new(self) -> list[str]:
        return self.texts[N_CORPUS + N_LABELLED :]

    @property
    def labels(self) -> np.ndarray:
        return self.authors[N_CORPUS : N_CORPUS + N_LABELLED]

    @property
    def new_labels(self) -> np.ndarray:
        return self.authors[N_CORPUS + N_LABELLED :]


def run(
    out: str | os.PathLike,
    *,
    random_state: int = 0,
    n_jobs: int | None = None,
    say: Callable[[str], object] = lambda line: None,
) -> dict[str, Any]:
    """Take the steps of the first page and write it as `out`/index.html.

    The page shows the Python of each step (templates/demo_books.html). Returns its numbers.
    """
    started = time.process_time()
    books = _shuffled_books(random_state)
    numbers: dict[str, Any] = {}

    # Word vectors of the corpus.
    skipgram = SkipGram(n_dims=N_DIMS, n_negatives=N_NEGATIVES, random_state=random_state, n_jobs=1)
    words = skipgram.fit(books.corpus).word_vectors_
    numbers["n_words"] = words.n_words
    say(f"Skip-gram: input and output vectors of {words.n_words:,} words")

    # The posterior of one sentence.
    sentence = _short_sentence(books.new, words)
    path = posterior_path(words, books.corpus, sentence, random_state)
    encoder = _fit_pb_neg(words, books.corpus, LAM, random_state)
    mean, variance = encoder.posterior([sentence])
    kl = encoder.kl([sentence])
    numbers["kl"] = float(kl[0])
    numbers["variance"] = float(variance[0])
    say(f"One sentence: a Gaussian in {N_DIMS} dimensions, {kl[0]:.2f} nats from its prior")

    # The scores of a text's own words, and of others.
    bias_split = SplitTexts(words, books.labelled[:N_FOR_BIAS], random_state)
    bias = choose_bias(bias_split)
    scores: dict[str, np.ndarray] = {}
    recognised: dict[str, float] = {}
    unbiased_scores = word_scores(words, books.corpus, books.new, random_state)
    for group, values in unbiased_scores.items():
        scores[group] = values + bias
        recognised[group] = float(np.mean(scores[group] > 0))
    numbers["recognised"] = recognised
    numbers["bias"] = bias
    fractions = [f"{group} {fraction:.0%}" for group, fraction in recognised.items()]
    say(f"Called words of the text: {', '.join(fractions)}")

    # Theorem 1 for the words of the new passages.
    split = SplitTexts(words, books.new, random_state)
    bound_rows = bound_against_lam(split, bias)
    best = min(bound_rows, key=lambda row: row["bound"])
    word_bound = rounded_up(best["bound"], 3)
    numbers["n_tokens"] = split.n_tokens
    numbers["word_lam"] = best["lam"]
    numbers["word_bound"] = best["bound"]
    numbers["word_measured"] = best["measured"]
    numbers["word_kl"] = 2 * best["kl_term"] * split.n_tokens
    numbers["prior_bound"] = bound_rows[0]["bound"]
    numbers["prior_measured"] = bound_rows[0]["measured"]
    say(
        f"Theorem 1 for the words of {len(books.new)} new passages: at most {word_bound}, "
        f"measured {best['measured']:.3f}"
    )

    # The methods of the paper.
    variances = variance_against_length(words, books, random_state)
    table = score_methods(words, books, n_jobs)
    accuracies = [row["accuracy"] for row in table]
    lowest = min(accuracies)
    highest = max(accuracies)
    numbers["lowest_accuracy"] = lowest
    numbers["highest_accuracy"] = highest
    say(f"The 14 rows of the paper: accuracies {lowest:.3f} to {highest:.3f}")

    # A certified classifier.
    average = make_encoder("Average", words, alpha=1.0).fit(books.corpus)
    classifier = CertifiedClassifier(
        TextClassifier(average, n_jobs=n_jobs), random_state=random_state
    )
    certificate = classifier.fit(books.labelled, books.labels).certificate_
    numbers["n_labelled"] = N_LABELLED
    numbers["n_calibration"] = int(certificate.n)
    numbers["n_errors"] = int(certificate.n_errors)
    numbers["error_upper"] = float(certificate.error_upper)
    say(certificate.summary())

    # Theorem 1 at its best lambda.
    n = certificate.n
    calibration_error = certificate.n_errors / n
    complexity = np.log(1.0 / DELTA) / n
    numbers["theorem_1"] = float(kl_inverse(calibration_error, complexity))

    # Its answers and prediction sets on the new passages.
    outcomes = measure_guarantees(classifier, books)
    careful = outcomes.pop("careful")
    numbers["n_new"] = len(books.new)
    numbers.update(outcomes)

    numbers["cpu_seconds"] = time.process_time() - started
    _write_page(
        Path(out) / "index.html",
        numbers,
        charts=_charts(words, path, scores, bound_rows, variances, table),
        random_state=random_state,
        certificate=certificate.summary(),
        sentence=sentence,
        shape=mean.shape,
        neighbours=_neighbours(words),
        careful=careful,
    )
    return numbers


def _write_page(path: Path, numbers: dict[str, Any], **results: Any) -> None:
    """Write the page with these results; bounds are rounded up."""
    page = render(
        "demo_books.html",
        title="pacsent: the paper, and what it proves",
        runtime=chart_runtime() if altair_found() else "",
        install_hint=install_hint("report"),
        error=ERROR,
        rates=charts.guarantees(numbers, ERROR),
        word_bound_text=rounded_up(numbers["word_bound"], 3),
        prior_bound_text=rounded_up(numbers["prior_bound"], 3),
        error_upper_text=rounded_up(numbers["error_upper"], 3),
        error_upper_percent=rounded_up(100 * numbers["error_upper"], 1),
        theorem_1_text=rounded_up(numbers["theorem_1"], 3),
        **results,
        **numbers,
    )
    with replacing(path, parents=True) as file:
        file.write(page.encode())


def _shuffled_books(random_state: int) -> Books:
    passages = load_books()
    order = np.random.default_rng(random_state).permutation(len(passages))
    texts = [passages[row].text for row in order]
    authors = [passages[row].author for row in order]
    return Books(texts, np.array(authors))


def _short_sentence(texts: Sequence[str], words: WordVectors) -> str:
    """The first sentence of 14 to 18 words that are all in the vocabulary."""
    for text in texts:
        for sentence in re.findall(r"(?<=[.!?] )[A-Z][A-Za-z, ]+\.", text):
            encoded = words.vocabulary.encode([sentence])
            if 14 <= len(sentence.split()) <= 18 and encoded.coverage == 1.0:
                return sentence
    raise ValueError("No passage has a sentence of 14 to 18 in-vocabulary words.")


def _neighbours(words: WordVectors) -> list[tuple[str, list[str], list[str]]]:
    rows = []
    for word in NEIGHBOURS_OF:
        alike = [other for other, _ in words.most_similar(word, 5)]
        together = [other for other, _ in words.most_similar(word, 5, among="output")]
        rows.append((word, alike, together))
    return rows


class Path2D(NamedTuple):
    """Posterior means in the plane of a sentence, and spreads, for the third figure."""

    points: list[dict]  # method, lam, x, y
    prior_sd: float
    posterior_sd: float  # of PB-neg at LAM


def _fit_pb_neg(words: WordVectors, corpus: list[str], lam: float, random_state: int) -> Any:
    """Return the method of the paper, fitted; its objective is sampled with a seed."""
    encoder = make_encoder("PB-neg", words, lam=lam, random_state=random_state)
    return encoder.fit(corpus)


def posterior_path(
    words: WordVectors, corpus: list[str], sentence: str, random_state: int
) -> Path2D:
    """The way of a sentence's posterior mean as lambda grows, seen in a plane.

    The plane is spanned by the way from the prior mean to the mean of the input vectors, and by
    the way of PB-neg.

    Parameters
    ----------
    words : WordVectors
    corpus : list of str
        Texts that the methods are fitted on.
    sentence : str
    random_state : int

    Returns
    -------
    path : Path2D
    """
    means: dict[tuple[str, float], np.ndarray] = {}
    sds: dict[tuple[str, float], float] = {}
    closed_forms = [make_encoder("PB-L2", words, lam=lam).fit(corpus) for lam in PATH_LAMS]
    solved = [_fit_pb_neg(words, corpus, lam, random_state) for lam in PATH_LAMS]
    for method, encoders in (("PB-L2", closed_forms), ("PB-neg", solved)):
        for lam, encoder in zip(PATH_LAMS, encoders):
            mean, variance = encoder.posterior([sentence])
            means[method, lam] = mean[0].astype(float)
            sds[method, lam] = float(np.sqrt(variance[0]))
    prior_mean, prior_variance = solved[-1].prior([sentence])
    ids = words.vocabulary.encode([sentence]).ids
    input_vectors = np.asarray(words.input_vectors, float)
    data_mean = input_vectors[ids].mean(axis=0)  # (n_dims,)

    # An orthonormal basis of the plane.
    first = data_mean - prior_mean[0]
    first = first / np.linalg.norm(first)
    way = means["PB-neg", PATH_LAMS[-1]] - prior_mean[0]
    second = way - (way @ first) * first
    second = second / np.linalg.norm(second)

    points = []
    for (method, lam), mean in means.items():
        away = mean - prior_mean[0]
        x = float(away @ first)
        y = float(away @ second)
        points.append({"method": method, "lam": lam, "x": x, "y": y})
    end = data_mean - prior_mean[0]
    end_x = float(end @ first)
    points.append({"method": "data", "lam": None, "x": end_x, "y": 0.0})

    prior_sd = float(np.sqrt(prior_variance[0]))
    posterior_sd = sds["PB-neg", LAM]
    return Path2D(points, prior_sd, posterior_sd)


def word_scores(
    words: WordVectors, corpus: list[str], texts: list[str], random_state: int
) -> dict[str, np.ndarray]:
    """Scores of three groups of words by posteriors of the first half of each text.

    Its own words, those of the second half that the first does not contain, and negative samples.
    """
    rng = np.random.default_rng(random_state)
    encoded = words.vocabulary.encode(texts)
    ids_of_texts = np.split(encoded.ids, encoded.offsets[1:-1])
    heads: list[np.ndarray] = []
    tails: list[np.ndarray] = []
    for ids in ids_of_texts:
        if ids.size >= _MIN_SCORED_WORDS:
            middle = ids.size // 2
            heads.append(ids[:middle])
            tails.append(ids[middle:])

    encoder = _fit_pb_neg(words, corpus, LAM, random_state)
    n_head_words = np.array([head.size for head in heads])  # (n_texts,)
    first_halves = Encoded.from_lengths(np.concatenate(heads), n_head_words)
    means, _ = encoder.posterior(first_halves)
    means = means.astype(float)  # (n_texts, n_dims)

    input_vectors = np.asarray(words.input_vectors, float)
    noise = _noise_distribution(words)
    own_scores = []
    unseen_scores = []
    negative_scores = []
    for mean, head, tail in zip(means, heads, tails):
        unseen = tail[~np.isin(tail, head)]
        negatives = rng.choice(noise.size, size=head.size, p=noise)
        own_scores.append(input_vectors[head] @ mean)
        unseen_scores.append(input_vectors[unseen] @ mean)
        negative_scores.append(input_vectors[negatives] @ mean)

    return {
        "its own": np.concatenate(own_scores),
        "unseen": np.concatenate(unseen_scores),
        "negative samples": np.concatenate(negative_scores),
    }


def _noise_distribution(words: WordVectors) -> np.ndarray:
    weights = np.asarray(words.counts, float) ** 0.75
    return weights / weights.sum()


class SplitTexts:
    """The tokens of texts in three parts: for the prior, for the sample, and to measure.

    The prior of a text is N(m, I/n), with m the mean of the output vectors of the n tokens of its
    first part. Theorem 1 bounds the balanced risk of vectors drawn from the posteriors:
    half the fraction of the text's words that they call negative samples, plus half the fraction of
    negative samples that they call words of the text, which is known exactly.
    """

    def __init__(self, words: WordVectors, texts: list[str], random_state: int) -> None:
        rng = np.random.default_rng(random_state)
        encoded = words.vocabulary.encode(texts)
        parts = split_tokens(encoded, 1 / 3, 1 / 3, rng)
        self.sample = parts.sample
        self.held_out = parts.held_out
        self.n_prior = np.diff(parts.prior.offsets)  # (n_texts,)
        self.n_tokens = int(parts.n_sample.sum())
        self.input_vectors = np.asarray(words.input_vectors, float)
        self.noise = _noise_distribution(words)
        output_vectors = np.asarray(words.output_vectors, float)
        self.prior_mean = _means(output_vectors, parts.prior)  # (n_texts, n_dims)
        self.data_mean = _means(self.input_vectors, parts.sample)

    def posterior(self, lam: float) -> tuple[np.ndarray, np.ndarray]:
        """Means and variances of PB-L2; those of the prior for lam = 0."""
        weight = lam / (lam + self.n_prior)  # of the data; alpha = n_prior/lam
        shift = weight[:, None] * (self.data_mean - self.prior_mean)
        mean = self.prior_mean + shift
        variance = 1.0 / (lam + self.n_prior)
        return mean, variance

    def token_risk(
        self, mean: np.ndarray, variance: np.ndarray, tokens: Encoded, bias: float
    ) -> float:
        """The fraction of tokens that vectors drawn from the posteriors call negative samples."""
        n_text_tokens = np.diff(tokens.offsets)  # (n_texts,)
        text = np.repeat(np.arange(len(mean)), n_text_tokens)  # (n_tokens,)
        vectors = self.input_vectors[tokens.ids]  # (n_tokens, n_dims)
        scores = np.sum(mean[text] * vectors, axis=1) + bias
        lengths = np.linalg.norm(vectors, axis=1)
        spreads = np.sqrt(variance[text]) * lengths
        return float(gibbs_error(scores, spreads).mean())

    def noise_risk(self, mean: np.ndarray, variance: np.ndarray, bias: float) -> float:
        """The fraction of negative samples that they call words of the text."""
        scores = mean @ self.input_vectors.T + bias  # (n_texts, n_words)
        lengths = np.linalg.norm(self.input_vectors, axis=1)  # (n_words,)
        spreads = np.sqrt(variance)[:, None] * lengths
        errors = gibbs_error(scores, spreads, y=-1) @ self.noise  # (n_texts,)
        n_text_tokens = np.diff(self.sample.offsets)
        return float(np.average(errors, weights=n_text_tokens))


def _means(vectors: np.ndarray, tokens: Encoded) -> np.ndarray:
    """The mean vector of the tokens of each text, (n_texts, n_dims)."""
    starts = tokens.offsets[:-1]
    sums = np.add.reduceat(vectors[tokens.ids], starts, axis=0)
    n_text_tokens = np.diff(tokens.offsets)
    return sums / n_text_tokens[:, None]


def choose_bias(split: SplitTexts) -> float:
    """The bias with the smallest balanced risk of the priors of these texts."""
    mean, variance = split.posterior(0.0)
    risks = []
    for bias in BIASES:
        token_risk = split.token_risk(mean, variance, split.sample, bias)
        noise_risk = split.noise_risk(mean, variance, bias)
        risks.append(token_risk + noise_risk)
    best = int(np.argmin(risks))
    return float(BIASES[best])


def bound_against_lam(split: SplitTexts, bias: float) -> list[dict]:
    """Theorem 1 in its parts for each lambda of the posterior, and the risk on held-out words.

    Its own lambda is the number of tokens, so that it holds for all these posteriors at once.
    """
    n = split.n_tokens
    prior_variance = 1.0 / split.n_prior
    rows = []
    for lam in BOUND_LAMS:
        mean, variance = split.posterior(lam)
        text_kls = kl_gaussians(mean, variance, split.prior_mean, prior_variance)  # (n_texts,)
        kl = float(np.sum(text_kls))
        risk = split.token_risk(mean, variance, split.sample, bias)
        noise_risk = split.noise_risk(mean, variance, bias)
        measured = split.token_risk(mean, variance, split.held_out, bias)
        bound = float(catoni(risk, kl, n, DELTA, lam=n))

        # The balanced risk: half of the errors on words, half of those on negative samples.
        row: dict[str, float] = {"lam": lam}
        row["noise_term"] = noise_risk / 2
        row["risk_term"] = risk / 2
        row["kl_term"] = kl / n / 2
        row["delta_term"] = float(np.log(1.0 / DELTA)) / n / 2
        row["bound"] = (bound + noise_risk) / 2
        row["measured"] = (measured + noise_risk) / 2
        rows.append(row)
    return rows


def variance_against_length(words: WordVectors, books: Books, random_state: int) -> list[dict]:
    """Variances of one passage cut to several lengths: printed, corrected, and of PB-neg."""
    closed_form = make_encoder("PB-L2", words, lam=LAM).fit(books.corpus)
    solved = _fit_pb_neg(words, books.corpus, LAM, random_state)
    encoded = words.vocabulary.encode(books.new)
    lengths = np.diff(encoded.offsets)
    longest = int(np.argmax(lengths))
    start, end = encoded.offsets[longest : longest + 2]
    ids = encoded.ids[start:end]

    rows = []
    for n in LENGTHS:
        beginning = Encoded.from_lengths(ids[:n], np.array([n]))
        _, corrected = closed_form.posterior(beginning)
        _, pb_neg = solved.posterior(beginning)

        row: dict[str, float] = {"n": n}
        row["printed"] = float(closed_form.prior_variance)
        row["corrected"] = float(corrected[0])
        row["PB-neg"] = float(pb_neg[0])
        rows.append(row)
    return rows


def score_methods(words: WordVectors, books: Books, n_jobs: int | None) -> list[dict]:
    """The fourteen rows of the paper's table, for the question who wrote a passage."""
    classes, codes = np.unique(books.authors, return_inverse=True)
    labels = codes[N_CORPUS : N_CORPUS + N_LABELLED]
    dataset = Dataset(
        name="books",
        train_texts=books.labelled,
        train_labels=labels,
        test_texts=books.new,
        test_labels=codes[N_CORPUS + N_LABELLED :],
        classes=tuple(classes),
        digest="",
    )

    table = []
    Cs = (1.0, 10.0, 100.0)
    for name, row in ROWS.items():
        if row.paper is None:
            continue
        lams = (0.5, LAM) if row.lams else None
        result = evaluate(name, dataset, words, lams=lams, seeds=(0,), Cs=Cs, n_jobs=n_jobs)
        printed_accuracy = row.paper[0]  # of 20news
        table.append({"label": row.label, "accuracy": result.accuracy, "paper": printed_accuracy})
    return table


def measure_guarantees(classifier: CertifiedClassifier, books: Books) -> dict[str, Any]:
    """Error rates on the new passages, of all predictions, of answers and of prediction sets."""
    truth = books.new_labels
    test_error = float(np.mean(classifier.predict(books.new) != truth))

    careful = classifier.abstain(error=ERROR)
    answers = np.array(careful.predict(books.new), dtype=object)
    is_answered = np.array([answer is not None for answer in answers])
    is_wrong = answers[is_answered] != truth[is_answered]

    prediction_sets = classifier.predict_set(books.new, error=ERROR)
    set_sizes = [len(labels) for labels in prediction_sets]
    is_missed = [author not in labels for author, labels in zip(truth, prediction_sets)]

    return {
        "careful": careful,
        "test_error": test_error,
        "answered": float(is_answered.mean()),
        "answered_error": float(np.mean(is_wrong)),
        "mean_set_size": float(np.mean(set_sizes)),
        "missed": float(np.mean(is_missed)),
    }


def _charts(
    words: WordVectors,
    path: Path2D,
    scores: dict[str, np.ndarray],
    bound_rows: list[dict],
    variances: list[dict],
    table: list[dict],
) -> list[dict]:
    if not altair_found():
        return []
    return [
        charts.cosines(words, SHOWN_WORDS, "input"),
        charts.cosines(words, SHOWN_WORDS, "output"),
        charts.posterior_path(path, LAM),
        charts.score_histograms(scores),
        charts.stacked_bound(bound_rows),
        charts.variances(variances),
        charts.accuracies(table),
    ]
