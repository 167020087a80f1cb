"""A certificate in words and as a picture: the sentence first, then what it rests on.

Bounds are rounded up, never to nearest, and a risk is shown with as many digits as its bound.
"""

import math
from html import escape
from typing import TYPE_CHECKING

from pacsent.maths import bounds
from pacsent.maths.rounding import percent, rounded_up

if TYPE_CHECKING:
    from pacsent.certificates.certificate import Certificate


def in_words(c: "Certificate") -> str:
    """The certificate as a paragraph; what `print` shows."""
    lines = [headline(c)]
    if c.is_vacuous:
        lines.append(
            f"This is no better than guessing ({c.trivial_value:.4g}), so it promises nothing: "
            f"{vacuous_reason(c)}"
        )
    lines.append(measured(c))
    if c.held_out_risk is not None:
        lines.append(realised(c))
    lines += [f"Assumption: {c.assumption}", provenance(c)]
    lines.append(small_print(c))
    return "\n".join(lines)


def realised(c: "Certificate") -> str:
    """The risk on what was held out, beside the bound."""
    unit = "documents" if c.kind in ("B", "continuation") else "words"
    return (
        f"On {c.n_held_out:,} further {unit} that nothing read, the risk was "
        f"{c.held_out_risk:.4f}, {_beside(c.risk_bound, c.held_out_risk)} the bound."
    )


def _beside(bound, risk) -> str:
    return f"{rounded_up(abs(bound - risk))} {'below' if risk <= bound else 'ABOVE'}"


def noise_in_words(c: "Certificate") -> str:
    """What a noise word is, in words."""
    return (
        f"a random word (drawn with chance proportional to its count in the vectors' source to the "
        f"power {c.noise_power:g})"
    )


def headline(c: "Certificate") -> str:
    """The promise, in one sentence."""
    return _HEADLINES[c.kind](c, f"{100 * (1 - c.delta):g} %")


def _headline_continuation(c, sure):
    return (
        f"With {sure} confidence: of a new document like these, of two known words or more, read "
        f"the first {100 * c.share:g} %, and tell a word that follows in it from "
        f"{noise_in_words(c)}, by the document's vector: wrong at most {percent(c.risk_bound)} of "
        f"the time, on average over documents. Guessing is wrong {100 * c.trivial_value:.4g} % of "
        "the time."
    )


def _headline_words(c, sure):
    unseen = (
        "a further word of one of these documents, if words were independent draws,"
        if c.kind == "A"
        else "a word of these documents that did not build its vector"
    )
    weighted = "" if c.weights == (0.5, 0.5) else f" (true words weighted {c.weights[0]:.4g})"
    return (
        f"Certificate {c.kind}: with {sure} confidence, a classifier that tells {unseen} from "
        f"{noise_in_words(c)}, by the document's vector,{weighted} decides wrongly at most "
        f"{percent(c.risk_bound)} of the time. Guessing is wrong {100 * c.trivial_value:.4g} % of "
        "the time."
    )


def _headline_documents(c, sure):
    return (
        f"Certificate B: with {sure} confidence, on a new document from the same source a "
        f"classifier that tells one half of the document's words, chosen at random, from "
        f"{noise_in_words(c)}, by a vector made of the other half, decides wrongly at most "
        f"{percent(c.risk_bound)} of the time. Guessing is wrong {100 * c.trivial_value:.4g} % of "
        "the time."
    )


def _headline_squares(c, sure):
    return (
        f"Certificate C: with {sure} confidence, half the squared distance between a document's "
        f"vector and a further word of it, if words were independent draws, is at most "
        f"{rounded_up(c.risk_bound, 4)} on average. Answering the average word vector of the "
        f"language came to {c.trivial_value:.4g}."
    )


_HEADLINES = {
    "continuation": _headline_continuation,
    "A": _headline_words,
    "A'": _headline_words,
    "B": _headline_documents,
    "C": _headline_squares,
}


def measured(c: "Certificate") -> str:
    """What was measured, and what was paid."""
    unit = "documents" if c.kind in ("B", "continuation") else "words"
    of = f" of {c.n_documents:,} documents" if unit == "words" else ""
    text = f"It was measured on {c.n:,} {unit}{of}: empirical risk {c.empirical_risk:.4f}"
    if c.kind in ("A", "A'"):
        text += f" on true words, exactly {c.noise_risk:.4f} on noise"
    if c.kl:
        text += f", KL {c.kl:.4g} nats"
    text += f", delta {c.delta:g}"
    if c.n_choices > 1:
        text += f", shared among {_choices(c)}"
    text += f"; bound: {c.bound_name}."
    if c.n_left_out:
        text += f" {c.n_left_out:,} documents of fewer than two known words were left out."
    if c.n_overlapping:
        text += f" {c.n_overlapping:,} documents that the vectors had seen were left out."
    if c.n_duplicates:
        text += (
            f" {c.n_duplicates:,} documents repeat the known words of an earlier one; copies count "
            "once."
        )
    return text


def _choices(c) -> str:
    return f"{c.n_choices} choices ({', '.join(f'{n} {name}' for name, n in c.paid.items())})"


def paid(c: "Certificate") -> str:
    """What was chosen after seeing the sample, and what it cost."""
    if c.n_choices > 1:
        return f"{_choices(c)}: each has delta / {c.n_choices}."
    return "No choice was made after seeing the sample, as far as certify was told."


def provenance(c: "Certificate") -> str:
    """Whether anybody checked that the vectors had not seen the text."""
    if c.provenance == "checked":
        return f"Provenance: checked. {c.provenance_note}"
    return (
        "Provenance: UNKNOWN. Nobody recorded what these vectors were trained on; the promise "
        f"holds only if it was not this text. {c.provenance_note}".rstrip()
    )


def small_print(c: "Certificate") -> str:
    """What a certificate does not say, in words."""
    vector = (
        "It speaks of the document's vector as it is, rule and calibration fixed beforehand."
        if c.kind == "continuation"
        else "It speaks of a vector drawn from the posterior, not of its mean."
    )
    return (
        f"{vector} The best of J methods, settings or seeds takes delta / J: name them all "
        f"(certify([...])) or say n_candidates=J. {how_to_verify(c)}"
    )


def how_to_verify(c: "Certificate") -> str:
    """How to check a certificate, in words."""
    return f"Seed {c.random_state}; check it with certificate.verify(texts, vectorizer)."


def vacuous_reason(c: "Certificate") -> str:
    """Which term makes the bound as large as it is."""
    n = c.n
    if c.kind == "C":
        if c.empirical_risk >= c.trivial_value:
            return f"the empirical risk {c.empirical_risk:.4g} alone exceeds it."
        if c.kl > (c.complexity or 0.0):
            return f"kl = {c.kl:.4g} nats is large for n = {n:,}."
        return f"the complexity {c.complexity:.4g} nats is large for n = {n:,}: words lie too far."
    risk, words = c.empirical_risk, c.kind in ("A", "A'")
    if words and c.weights is not None:
        noise = (c.noise_risk or 0.0) + (c.noise_margin or 0.0)
        risk = c.weights[0] * risk + c.weights[1] * noise
    if risk >= c.trivial_value:
        worse = ""
        if words:
            parts = {"true words": c.empirical_risk, "noise": c.noise_risk}
            name = max(parts, key=lambda key: parts[key] or 0.0)
            worse = f" (most of it on {name}: {parts[name]:.4g})"
        return f"the empirical risk {risk:.4g} alone is no better{worse}. Choose another bias."
    price = bounds.ln_xi(n) - math.log(c.delta / c.n_choices)
    if c.kl > price:
        return (
            f"kl = {c.kl:.4g} nats is large for n = {n:,}. Choose settings that stay closer to "
            "the prior, or certify on more examples."
        )
    return f"n = {n:,} examples are too few for delta = {c.delta:g}. Certify on more examples."


def as_html(c: "Certificate") -> str:
    """The certificate as a piece of a page, with one picture; no script, no other file."""
    rows = [
        ("Assumed", c.assumption),
        ("Paid", paid(c)),
        ("Provenance", provenance(c).removeprefix("Provenance: ")),
        ("Measured", measured(c) + (f" {realised(c)}" if c.held_out_risk is not None else "")),
        ("To verify", how_to_verify(c)),
        ("Small print", small_print(c).removesuffix(how_to_verify(c))),
    ]
    if c.is_vacuous:
        rows.insert(0, ("No promise", vacuous_reason(c)))
    details = "".join(
        f'<dt style="font-weight:600;margin-top:.5em">{name}</dt>'
        f'<dd style="margin:0">{escape(text)}</dd>'
        for name, text in rows
    )
    return (
        '<section class="pacsent-certificate" style="max-width:44em;font:15px/1.5 system-ui,'
        'sans-serif;border:1px solid #8888;border-radius:8px;padding:1em 1.2em">'
        f'<p style="font-size:1.1em;margin:0 0 .8em">{escape(headline(c))}</p>'
        f'{_bars(c)}<dl style="margin:.8em 0 0;font-size:.9em">{details}</dl></section>'
    )


def _bars(c) -> str:
    """Guessing, realised where known, certified: three bars on one scale."""
    bars = [("guessing", c.trivial_value, "#999"), ("certified", c.risk_bound, "#1b6e9c")]
    if c.held_out_risk is not None:
        bars.insert(1, ("realised", c.held_out_risk, "#2a9d63"))
    longest = max(value for _, value, _ in bars) or 1.0
    parts = []
    for i, (name, value, colour) in enumerate(bars):
        width, y = 300 * value / longest, 30 * i
        shown = rounded_up(value, 4)
        parts.append(
            f'<text x="0" y="{y + 17}" fill="currentColor">{name}</text>'
            f'<rect x="80" y="{y + 3}" width="{width:.1f}" height="20" rx="3" fill="{colour}"/>'
            f'<text x="{88 + width:.1f}" y="{y + 17}" fill="currentColor">{shown}</text>'
        )
    said = ", ".join(f"{name} {rounded_up(value, 4)}" for name, value, _ in bars)
    return (
        f'<svg viewBox="0 0 450 {30 * len(bars)}" role="img" aria-label="{said}" '
        f'style="width:100%;max-width:450px;font-size:13px">{"".join(parts)}</svg>'
    )
