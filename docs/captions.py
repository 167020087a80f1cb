"""Captions of figures, from the result files that the figures are drawn from.

make_numbers.py writes them between `<!-- numbers: caption-NAME -->` and `<!-- end -->`.
"""

import json
import textwrap
from collections.abc import Callable
from pathlib import Path

RESULTS = Path(__file__).parents[1] / "benchmarks" / "results"
ROWS_OF_EXAMPLE = "banking_example/default"
LINE_LENGTH = 130


def result(name: str) -> dict:
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def _example(sentence: str) -> str:
    split = result(ROWS_OF_EXAMPLE)["split"]
    drawn = (
        f"Twelve intents of Banking77, {split['labelled']} labelled messages and "
        f"{split['new messages']:,} new ones, one draw: that of the [tutorial](start.md); δ = 0.05."
    )
    return f"{sentence} {drawn}"


def guaranteed() -> str:
    """Of figures/guaranteed.svg."""
    n_distinct = result(ROWS_OF_EXAMPLE)["split"]["distinct new messages"]
    return _example(
        "Guarantees and what is true of the new messages; the ring is the error of the "
        f"{n_distinct:,} that repeat neither a labelled nor an earlier message."
    )


def split() -> str:
    """Of figures/split.svg."""
    numbers = result(ROWS_OF_EXAMPLE)["split"]
    return _example(
        f"{numbers['errors']} errors on {numbers['counted']} held-out texts and a confidence of "
        "95% give the bound."
    )


def risk_coverage() -> str:
    """Of figures/risk-coverage.svg."""
    numbers = result(ROWS_OF_EXAMPLE)["abstention"]
    return _example(
        "Wrong answers if only the texts with the highest probability are answered. "
        f"`abstain(error={numbers['error']:g})` answers from a probability of "
        f"{numbers['threshold']:.3f} on."
    )


def evidence() -> str:
    """Of figures/evidence.svg."""
    drift = result(ROWS_OF_EXAMPLE)["drift"]
    return _example(
        f"`DriftMonitor.evidence` along three streams of {2 * drift['change after']} rows; after "
        f"{drift['change after']} rows, two of them go on with other texts; "
        f"α = {drift['alpha']:g}."
    )


def set_misses() -> str:
    """Of figures/set-misses.svg."""
    rows = result("alternatives/sets")["rows"]
    means = [f"{row['missed (%)']:.1f}% ({row['prediction sets']})" for row in rows]
    sizes = [f"{row['classes in a set']:.1f} ({row['prediction sets']})" for row in rows]
    return (
        f"Realised misses of prediction sets with `error=0.05`. {rows[0]['draws']} draws of "
        "messages of Banking77 (twelve intents): 300 to fit tf-idf with logistic regression, "
        "200 to calibrate, 1,606 to test; both programs get the same probabilities. "
        f"Mean misses: {' and '.join(means)}; mean classes in a set: {' and '.join(sizes)}; "
        "δ = 0.05 for pacsent. MAPIE guarantees 5% on average over calibration sets, which is "
        "true here; pacsent guarantees it for the calibration set at hand, with 95% confidence."
    )


def violations() -> str:
    """Of figures/violations.svg."""
    n_draws = result("guarantees/calibration")["summary"]["draws of a condition"]
    return (
        f"A dot is one condition, at least {n_draws} draws each, in random order, sorted, with "
        "repeats, or the best of 20 models; δ = 0.05."
    )


def repeats() -> str:
    """Of figures/repeats.svg."""
    return (
        "The most violated of error, prediction sets, abstention and fit in each simulated world, "
        f"{result('repeats/simulation')['summary']['draws']:,} draws each; δ = 0.05, which is the "
        "vertical line. The wrong reason and one split are the negative controls."
    )


def drift_found() -> str:
    """Of figures/drift-found.svg, with what it says at its worst."""
    content = result("drift/kinds")
    n_fits = content["title"].split(", ")[1].removesuffix(" fits")
    worst = max(content["rows"], key=lambda row: row["broken and not found (%)"])
    return (
        f"Files of 300 messages (Banking77) of which a fraction is of another kind, {n_fits} per "
        "point, α = 0.01. Above: found, and the power that the message states. Below: the error "
        "rate is above the certified bound although nothing is found. At worst, with "
        f"{worst['of the texts (%)']:.0f}% {worst['kind']}, these are "
        f"{worst['broken and not found (%)']:.0f}% of the files."
    )


def few_labels() -> str:
    """Of figures/few-labels.svg."""
    draws = {row["labels"]: row["draws"] for row in result("classify/few")["rows"]}
    return (
        "Test accuracy of `TextClassifier` (dots) and of two baselines (rings), means of "
        f"{draws[100]} draws of 100 labels and {draws[1000]} of 1,000."
    )


CAPTIONS: dict[str, tuple[str, Callable[[], str]]] = {
    "guaranteed": (ROWS_OF_EXAMPLE, guaranteed),
    "split": (ROWS_OF_EXAMPLE, split),
    "risk-coverage": (ROWS_OF_EXAMPLE, risk_coverage),
    "evidence": (ROWS_OF_EXAMPLE, evidence),
    "set-misses": ("alternatives/sets", set_misses),
    "violations": ("guarantees/calibration", violations),
    "repeats": ("repeats/simulation", repeats),
    "drift-found": ("drift/kinds", drift_found),
    "few-labels": ("classify/few", few_labels),
}


def caption(name: str, version: Callable[[dict], str]) -> str:
    """The caption of a figure, with the commit, the date and the processor of its result."""
    source, sentence = CAPTIONS[name]
    measured = version(result(source)).strip()
    return textwrap.fill(
        f"<small>{sentence()} {measured}</small>",
        LINE_LENGTH,
        break_long_words=False,
        break_on_hyphens=False,
    )
