"""Draw docs/figures/method-*.svg, a figure for each family of methods, from the English model and
the books of the package. `--check` only compares.
"""

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy.special import ndtr
from svg import Panel, is_same_figure, key, line, sheet, text

import pacsent
from pacsent import make_encoder
from pacsent.datasets import load_books

FIGURES = Path(__file__).parent / "figures"
SENTENCE = "the white whale rose slowly from the quiet sea"
WIDTH = 400  # a phone's: letters keep their size there
SEED = 0


def softplus(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


class Material:
    """Word vectors and texts of every figure."""

    def __init__(self) -> None:
        self.words = pacsent.load("english")
        self.books = load_books()
        self.texts = [p.text for p in self.books]
        self.tokens = SENTENCE.split()
        self.ids = np.asarray(self.words.vocabulary.encode([SENTENCE]).ids)
        self.A = np.asarray(self.words.input_vectors, dtype=float)
        self.B = np.asarray(self.words.output_vectors, dtype=float)


def average(m: Material) -> str:
    """Both rows of each word and the means, on the plane in which the words differ most."""
    kept = [m.tokens.index(token) for token in dict.fromkeys(m.tokens)]
    A, B = m.A[m.ids], m.B[m.ids]
    means = np.array([A.mean(0), (A.mean(0) + B.mean(0)) / 2, B.mean(0)])
    spread = np.vstack([A - means[0], B - means[2], 2 * (means - means[1])])
    plane = np.linalg.svd(spread, full_matrices=False)[2][:2].T
    plane = plane * np.sign((means[2] - means[0]) @ plane)
    a, b, c = ((rows - means[1]) @ plane for rows in (A[kept], B[kept], means))
    everything = np.vstack([a, b])
    low, high = everything.min(0), everything.max(0)
    pad = 0.1 * (high - low)
    panel = Panel(
        (34, 46, WIDTH - 68, 240),
        (low[0] - pad[0], high[0] + pad[0]),
        (low[1] - pad[1], high[1] + pad[1]),
    )
    panel.curve(c[:, 0], c[:, 1], "ink", width=2).dots(c[:, 0], c[:, 1], "ink", 5)
    for rows, kind in ((a, "a"), (b, "b")):
        panel.dots(rows[:, 0], rows[:, 1], kind, 3.5)
        last = -99.0
        for number in np.argsort(-rows[:, 1]):
            x, y = panel.at(*rows[number])
            last = max(y - 6, last + 12.5)  # a line of its own
            panel.parts.append(text(x + 6, last + 4, m.tokens[kept[number]], kind, size=12))
    parts = [
        *key(14, 20, [("input rows", "a"), ("output rows", "b"), ("text: α = 0, 1, ∞", "ink")]),
        *panel.parts,
        text(14, 312, f"“{SENTENCE}”", "quiet", size=12.5),
    ]
    title = "Average: the mean of input rows, pulled to the mean of output rows"
    return sheet(WIDTH, 324, title, parts)


def pb_l2(m: Material) -> str:
    """Weight of the prior and standard deviation by length; dots are passages."""
    n = np.geomspace(1, 1000, 60)
    parts = []
    settings = [("a", "fixed", 64.0), ("c", "fixed", 8.0), ("b", "per-token", 1.0)]
    above = Panel((44, 40, WIDTH - 74, 120), (1, 1000), (0, 1), log_x=True)
    above.axes("", "weight of the prior in the mean, α/(1+α)", [1, 10, 100, 1000], [0, 0.5, 1])
    below = Panel((44, 220, WIDTH - 74, 110), (1, 1000), (0, 0.8), log_x=True)
    below.axes("in-vocabulary words of the text", "standard deviation σ_Q", [1, 10, 100, 1000])
    cut = [" ".join(m.texts[7].split()[:k]) for k in (2, 5, 12, 30, 80)]
    cut += [" ".join(m.texts[7:11]), " ".join(m.texts[7:17])]
    encoded = m.words.vocabulary.encode(cut)
    lengths = np.diff(encoded.offsets)
    ends = (
        make_encoder("Average", m.words).fit([]).transform(cut),
        make_encoder("i-Average", m.words).fit([]),
    )
    data, prior = ends[0], ends[1].transform(cut)
    for kind, mode, lam in settings:
        lams = lam * (n if mode == "per-token" else np.ones_like(n))
        alpha = n / lams
        above.curve(n, alpha / (1 + alpha), kind)
        below.curve(n, 1 / np.sqrt(lams + n), kind)
        means, variances = (
            make_encoder("PB-L2", m.words, lam=lam, lam_mode=mode).fit([]).posterior(cut)
        )
        fraction = np.linalg.norm(means - data, axis=1) / np.linalg.norm(prior - data, axis=1)
        above.dots(lengths, fraction, kind, 4)
        below.dots(lengths, np.sqrt(variances), kind, 4)
    above.label(9, 0.72, "λ = 8", "c", anchor="end").label(105, 0.3, "λ = 64", "a")
    above.label(1.15, 0.55, "λ = 1 per word", "b")
    parts += above.parts + below.parts
    parts.append(
        text(
            14,
            384,
            "Lines: the formula. Dots: passages of a book, encoded by PB-L2.",
            "quiet",
            size=12,
        )
    )
    return sheet(
        WIDTH, 394, "PB-L2: weight of the prior and standard deviation against length", parts
    )


def idf(m: Material) -> str:
    """What each word of the sentence weighs in the mean."""
    fitted = make_encoder("IDF-Average", m.words).fit(m.texts)
    weights = np.asarray(fitted.idf_)[m.ids]
    fractions = weights / weights.sum()
    parts = [text(14, 22, "weight of each word in the mean", "quiet")]
    scale = (WIDTH - 140) / fractions.max()
    for number, (token, fraction) in enumerate(zip(m.tokens, fractions, strict=True)):
        y = 38 + 25 * number
        parts.append(text(72, y + 14, token, anchor="end"))
        parts.append(
            f'<rect class="a" x="80" y="{y}" width="{fraction * scale:.1f}" height="18" rx="3"/>'
        )
        parts.append(
            text(86 + fraction * scale, y + 14, f"{100 * fraction:.0f}%", "quiet", size=12)
        )
    even, bottom = 80 + scale / len(fractions), 38 + 25 * len(fractions)
    parts.append(line([(even, 32), (even, bottom + 2)], "b", 2, "5 3"))
    parts.append(text(even + 6, bottom + 12, "equal weights", "b", bold=True, size=12.5))
    return sheet(WIDTH, bottom + 24, "IDF: rare words weigh more, frequent words less", parts)


def _noise(fitted) -> np.ndarray:
    counts = np.asarray(fitted.noise_counts_, dtype=float) ** 0.75
    return counts / counts.sum()


def _density(scores: np.ndarray, weights: np.ndarray, at: np.ndarray) -> np.ndarray:
    width = 0.22
    near = np.exp(-0.5 * ((at[:, None] - scores[None, :]) / width) ** 2)
    return near @ weights / (width * np.sqrt(2 * np.pi))


def pb_neg(m: Material) -> str:
    """Scores of words of the text and of negative samples, before and after solving."""
    vectorizer = make_encoder("PB-neg", m.words, lam=8.0, lam_mode="per-token", tol=1e-5, n_jobs=1)
    fitted = vectorizer.fit(m.texts[::10])
    mu = fitted.transform([SENTENCE])[0].astype(float)
    p = _noise(fitted)
    seen = np.flatnonzero(p)
    ends = {"prior mean": m.B[m.ids].mean(0), "PB-neg": mu}
    own = {name: m.A[m.ids] @ h for name, h in ends.items()}
    noise = {name: m.A[seen] @ h for name, h in ends.items()}
    low = min(np.quantile(noise[name], 0.002) for name in ends) - 0.5
    high = max(own[name].max() for name in ends) + 0.6
    at = np.linspace(low, high, 90)
    parts = key(14, 20, [("negative samples", "d"), ("words of the text", "a")])
    for number, name in enumerate(ends):
        panel = Panel((24, 54 + 150 * number, WIDTH - 40, 92), (low, high), (0, 1))
        panel.axes("score h·A" if number else "", "", y_ticks=[])
        density = _density(noise[name], p[seen], at)
        panel.curve(at, np.minimum(density, 1), "d")
        panel.curve([0, 0], [0, 1], "rule", "4 3", 1.5)
        for token, score in dict(zip(m.tokens, own[name], strict=True)).items():
            panel.curve([score, score], [0, 0.2], "a", width=2.2)
            if token in ("whale", "sea", "the") and number:
                above = 0.24 if token == "whale" else 0.42
                panel.label(score, above, token, "a", anchor="middle", size=12)
        panel.label(low, 0.9, f"h = {name}", "ink")
        parts += panel.parts
    return sheet(WIDTH, 340, "PB-neg: words of the text score higher than negative samples", parts)


def w_pb_neg(m: Material) -> str:
    """How far words move from their priors, against how often they occur in the training texts."""
    texts = m.texts[::20]
    fitted = make_encoder("w-PB-neg", m.words, n_jobs=1, random_state=SEED).fit(texts)
    counts = np.asarray(m.words.vocabulary.count(texts).sum(axis=0)).ravel()
    words = np.asarray(fitted.words_)
    moved = np.linalg.norm(np.asarray(fitted.word_means_, dtype=float) - m.B[words], axis=1)
    n_occurrences = counts[words]
    chosen = np.argsort(-n_occurrences, kind="stable")[:: max(1, len(words) // 350)]
    top = float(np.ceil(moved[chosen].max() * 10) / 10)
    panel = Panel((46, 40, WIDTH - 62, 220), (1, 1000), (0, top), log_x=True)
    panel.axes(
        "occurrences in the training texts",
        "distance from the prior, |μ_w − B_w|",
        [1, 10, 100, 1000],
    )
    panel.dots(n_occurrences[chosen], moved[chosen], "a", 3, 0.55)
    named = [w for w in ("the", "said", "whale") if w in m.words.vocabulary]
    for word in named:
        [i] = np.flatnonzero(words == m.words.vocabulary.encode([word]).ids[0])
        panel.dots([n_occurrences[i]], [moved[i]], "b", 4.5)
        panel.label(n_occurrences[i], moved[i] + 0.03 * top, word, "b", anchor="middle")
    return sheet(WIDTH, 306, "w-PB-neg: words that occur more often move further", panel.parts)


def pb_01(m: Material) -> str:
    """The zero-one risk that PB-01 and PB-neg leave, against the KL they pay for it."""
    train, lams = m.texts[::20], [0.25, 0.5, 1, 2, 4, 8]
    new = [" ".join(t.split()[:25]) for t in m.texts[5::150]]
    found: dict[str, list[tuple[float, float]]] = {"PB-neg": [], "PB-01": []}
    for name, values in found.items():
        encoder = make_encoder(name, m.words, lam=1.0, lam_mode="per-token", n_jobs=1)
        fitted = encoder.set_params(random_state=SEED).fit(train)
        p = _noise(getattr(fitted, "start_", fitted))
        for lam in lams:
            values.append(_zero_one(m, fitted.set_params(lam=lam).posterior(new), new, p))
    right = min(max(x for x, _ in values) for values in found.values())
    ys = [y for values in found.values() for x, y in values if x <= right]
    low, high = np.floor(min(ys) * 20) / 20, np.ceil(max(ys) * 20) / 20
    panel = Panel((46, 40, WIDTH - 72, 180), (0, right), (low, high))
    panel.axes("KL from the prior, nats per word", "zero-one risk of a random h")
    for kind, values in zip("ba", found.values(), strict=True):
        xs, ys = zip(*(pair for pair in values if pair[0] <= right), strict=True)
        panel.curve(xs, ys, kind).dots(xs, ys, kind, 4)
    parts = key(WIDTH - 150, 64, [("PB-neg", "b"), ("PB-01", "a")])
    return sheet(WIDTH, 270, "PB-01: the smallest zero-one risk for its KL", panel.parts + parts)


def _zero_one(m: Material, posterior, texts, p: np.ndarray) -> tuple[float, float]:
    """KL per word, and the zero-one risk of a random h on own words and negative samples."""
    seen, bias, risks, prices = np.flatnonzero(p), np.log(15), [], []
    norms = np.linalg.norm(m.A, axis=1)
    encoded = m.words.vocabulary.encode(texts)
    for number, (mu, variance) in enumerate(zip(*posterior, strict=True)):
        ids = encoded.ids[encoded.offsets[number] : encoded.offsets[number + 1]]
        sd = np.sqrt(variance) * norms
        own = ndtr(-(m.A[ids] @ mu + bias) / sd[ids]).mean()
        noise = p[seen] @ ndtr((m.A[seen] @ mu + bias) / sd[seen])
        risks.append((own + noise) / 2)
        n, ratio = len(ids), len(ids) * variance
        away = n * ((mu - m.B[ids].mean(0)) ** 2).sum()
        prices.append((away + len(mu) * (ratio - 1 - np.log(ratio))) / 2 / n)
    return float(np.mean(prices)), float(np.mean(risks))


def sif(m: Material) -> str:
    """Weights against frequency, and how far each method tells a book from the others."""
    counts = np.asarray(m.words.vocabulary.counts, dtype=float)
    fractions = counts / counts.sum()
    p = np.geomspace(1e-7, 0.06, 70)
    above = Panel((44, 40, WIDTH - 60, 130), (1e-7, 0.06), (0, 2.05), log_x=True)
    above.axes("", "weight of a word, by its frequency p", [], [0, 1, 2])
    for value, words in ((1e-6, "one in a million"), (1e-3, "in a thousand")):
        above.label(value, -0.24, words, "quiet", bold=False, anchor="middle", size=12)
    a = make_encoder("SIF", m.words).fit([]).a_
    u = make_encoder("uSIF", m.words).fit([]).a_
    s = make_encoder("SIF-sum", m.words)
    above.curve(p, a / (a + p), "a").curve(p, u / (u / 2 + p), "c")
    above.curve(p, np.sqrt(s.a / (s.a + p)), "b").curve(p, np.ones_like(p), "d", "5 3")
    above.label(2e-7, 1.82, "uSIF", "c").label(2e-7, 1.06, "concat, Average: 1", "d")
    above.label(2e-4, 0.4, "SIF", "a", anchor="end")
    above.label(6e-5, 0.66, "SIF-sum", "b", anchor="end")
    for word in ("the", "sea", "whale"):
        fraction = fractions[m.words.vocabulary.encode([word]).ids[0]]
        above.curve([fraction, fraction], [0, 0.12], "ink", width=1.6)
        above.label(
            fraction, 0.17, word, "ink", anchor="end" if fraction > 0.01 else "middle", size=12
        )
    parts, top = above.parts, 222
    parts.append(text(14, top + 8, "cosine of passages:", "quiet", size=12.5))
    parts += key(142, top + 8, [("other authors", "d"), ("next on the page", "a")])
    panel = Panel((84, top + 20, WIDTH - 100, 126), (-0.05, 1), (0, 5))
    panel.axes("", "", [0, 0.25, 0.5, 0.75, 1], [])
    for number, name in enumerate(("SIF-sum", "uSIF", "SIF", "concat", "Average")):
        near, far = _cosines(m, name)
        panel.curve([far, near], [number + 0.5] * 2, "rule", width=5)
        panel.dots([far], [number + 0.5], "d", 5).dots([near], [number + 0.5], "a", 5)
        parts.append(text(76, panel.at(0, number + 0.5)[1] + 4, name, anchor="end"))
    return sheet(
        WIDTH,
        top + 172,
        "SIF, uSIF, SIF-sum and concat: weights, and cosines of passages",
        parts + panel.parts,
    )


def _cosines(m: Material, name: str) -> tuple[float, float]:
    chosen = m.books[::50]
    follow = m.books[1::50]
    fitted = make_encoder(name, m.words).fit([])
    one, other = (
        fitted.transform([p.text for p in some]).astype(float) for some in (chosen, follow)
    )
    one, other = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (one, other))
    table = one @ other.T
    is_same_author = np.array([[p.author == q.author for q in follow] for p in chosen])
    together = [n for n in range(len(chosen)) if is_same_author[n, n]]
    return float(table[together, together].mean()), float(table[~is_same_author].mean())


def pv_dbow(m: Material) -> str:
    """The loss that inference leaves, against its passes, for short and long texts."""
    k, passes = 15, [1, 2, 5, 10, 20, 40]
    fitted = make_encoder("PV-DBOW", m.words, n_epochs=3, n_jobs=1, random_state=SEED).fit(
        m.texts[::30]
    )
    table = m.A.copy()
    table[np.asarray(fitted.words_)] = np.asarray(fitted.word_vectors_, dtype=float)
    p = _noise(fitted)
    seen = np.flatnonzero(p)
    found = {}
    for kind, length in (("b", 10), ("a", 90)):
        texts = [" ".join(t.split()[:length]) for t in m.texts[11::300]]
        encoded = m.words.vocabulary.encode(texts)
        owner = np.repeat(np.arange(len(texts)), np.diff(encoded.offsets))
        losses = []
        for n_epochs in passes:
            h = fitted.set_params(n_epochs=n_epochs).transform(texts).astype(float)
            own = softplus(-np.einsum("ij,ij->i", h[owner], table[encoded.ids])).mean()
            losses.append(own + k * (softplus(h @ table[seen].T) @ p[seen]).mean())
        found[kind, length] = losses
    ys = [y for values in found.values() for y in values]
    low, high = np.floor(min(ys)), np.ceil(max(ys))
    panel = Panel((46, 40, WIDTH - 62, 180), (passes[0], passes[-1]), (low, high), log_x=True)
    panel.axes("passes over the text, n_epochs", "loss of a word and its negative samples", passes)
    for (kind, length), values in found.items():
        panel.curve(passes, values, kind).dots(passes, values, kind, 4)
        up = 0.07 if length < 50 else -0.11
        panel.label(
            1.8, np.interp(1.8, passes, values) + up * (high - low), f"{length} words", kind
        )
    return sheet(WIDTH, 270, "PV-DBOW: passes bring the vector to its text", panel.parts)


DRAWINGS: dict[str, Callable[[Material], str]] = {
    "average": average,
    "pb-l2": pb_l2,
    "idf": idf,
    "pb-neg": pb_neg,
    "w-pb-neg": w_pb_neg,
    "pb-01": pb_01,
    "sif": sif,
    "pv-dbow": pv_dbow,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--only", choices=list(DRAWINGS), action="append")
    given = parser.parse_args()
    material = Material()
    for name in given.only or DRAWINGS:
        drawn, path = DRAWINGS[name](material), FIGURES / f"method-{name}.svg"
        if not given.check:
            path.write_text(drawn, encoding="utf-8")
        elif not is_same_figure(path, drawn):
            raise SystemExit(f"{path.name} is out of date: make pages")


if __name__ == "__main__":
    main()
