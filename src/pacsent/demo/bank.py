"""The second page of the demo: a certified classifier of 500 messages, step by step."""

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pacsent.bounds.rounding import rounded_up
from pacsent.certify import DriftMonitor
from pacsent.classify import TextClassifier
from pacsent.datasets import load_banking
from pacsent.demo import charts, tutorial
from pacsent.demo.tables import N_LABELLED, draw_messages
from pacsent.demo.tutorial import ERROR, MESSAGE, MESSAGES, MONITOR_STEP, N_MONITORED
from pacsent.files import replacing
from pacsent.optional import install_hint
from pacsent.paper.figures import altair_found, chart_runtime
from pacsent.predict import CertifiedClassifier
from pacsent.search import Index
from pacsent.text.pages import render
from pacsent.web import export_html

STREAMS = ("new messages about the same intents", "messages about other intents")


def run(
    out: str | os.PathLike,
    *,
    random_state: int = 0,
    n_jobs: int | None = None,
    say: Callable[[str], object] = lambda line: None,
) -> dict[str, Any]:
    """Take the steps of the tutorial on Banking77, and write it with their results.

    The page, `out`/bank.html, shows the Python of each step (`tutorial`), which is what this
    function calls. Returns the numbers on the page. `random_state` draws the labelled
    messages; `say` is called with each line of progress.
    """
    started = time.perf_counter()
    messages = draw_messages(random_state)
    labelled = messages.labelled
    new_texts = messages.texts[messages.new]
    truth = messages.intents[messages.new]
    n_intents = len(set(messages.intents.tolist()))
    say(
        f"{N_LABELLED} labelled messages to a bank, {n_intents} intents; "
        f"{len(messages.new):,} new messages"
    )

    classifier = CertifiedClassifier(TextClassifier(n_jobs=n_jobs), random_state=random_state)
    classifier.fit(messages.texts[labelled], messages.intents[labelled])
    certificate = classifier.certificate_
    is_wrong = classifier.predict(new_texts) != truth
    test_error = float(np.mean(is_wrong))
    error_upper = rounded_up(100 * certificate.error_upper, 1)
    say(
        f"Certified: at most {error_upper}% of its predictions are wrong, with 95% confidence. On "
        f"the new messages: {test_error:.1%}"
    )

    careful = classifier.abstain(error=ERROR)
    answers = np.array(careful.predict(new_texts), dtype=object)
    is_answered = np.array([answer is not None for answer in answers])
    is_wrong_answer = answers[is_answered] != truth[is_answered]
    answered_error = float(np.mean(is_wrong_answer))
    say(
        f"Abstention, error at most {ERROR:.0%}: it answers {is_answered.mean():.1%} of the "
        f"messages; {answered_error:.1%} of the answers are wrong"
    )

    prediction_sets = classifier.predict_set(new_texts, error=ERROR)
    sizes = np.array([len(labels) for labels in prediction_sets])  # (n_new,)
    is_missed = [intent not in labels for intent, labels in zip(truth, prediction_sets)]
    missed = float(np.mean(is_missed))
    say(
        f"Prediction sets, missing the intent for at most {ERROR:.0%} of the messages: "
        f"{sizes.mean():.2f} intents on average; {missed:.1%} missed"
    )

    index = Index("english")
    index.add(new_texts)
    hits = index.search(tutorial.QUERY, tutorial.N_HITS)
    say(f"Search for {tutorial.QUERY!r}: {hits[0].text!r}")

    streams = (new_texts, _other_messages(messages.intents))
    evidence, alarms = _monitor(classifier, streams, random_state, say)

    numbers = {
        "n_labelled": N_LABELLED,
        "n_calibration": int(certificate.n),
        "n_new": len(new_texts),
        "error_upper": float(certificate.error_upper),
        "test_error": test_error,
        "error": ERROR,
        "answered": float(is_answered.mean()),
        "answered_error": answered_error,
        "mean_set_size": float(sizes.mean()),
        "missed": missed,
        "alarms": alarms,
        "seconds": time.perf_counter() - started,
    }
    outputs = {
        "certificate": certificate.summary(),
        "test_error": f"{test_error:.1%} of the predictions are wrong",
        "answers": f"{careful}\n{is_answered.mean():.1%} of the messages are answered\n"
        f"{answered_error:.1%} of the answers are wrong",
        "sets": f"{sizes.mean():.2f} intents on average\n{missed:.1%} of the sets miss the intent",
        "messages_sets": _sets_of_messages(classifier),
        "explanation": _explanation(classifier),
        "hits": "\n".join(hit.text for hit in hits),
        "alarms": "\n".join(f"alarm at message {alarms.get(name)}" for name in STREAMS),
    }
    specifications: list[dict] = []
    if altair_found():
        specifications = _charts(sizes, evidence)
    _write_page(
        Path(out) / "bank.html",
        numbers,
        charts=specifications,
        steps=tutorial.steps(random_state),
        outputs=outputs,
        examples=[(messages.texts[row], messages.intents[row]) for row in labelled[:3]],
    )

    path = Path(out) / "classifier.html"
    export_html(classifier, path, title="Messages to a bank", error=ERROR, overwrite=True)
    say(f"The classifier in one file, for any browser: {path}")
    return numbers


def _sets_of_messages(classifier: CertifiedClassifier) -> str:
    """The prediction sets of the messages of the tutorial, a line for each."""
    prediction_sets = classifier.predict_set(MESSAGES, error=ERROR)
    return "\n".join(f"{message} {labels}" for message, labels in zip(MESSAGES, prediction_sets))


def _explanation(classifier: CertifiedClassifier) -> str:
    """The explanation of the message of the tutorial, and the intent of the second rank."""
    probabilities = classifier.predict_proba([MESSAGE])[0]  # (n_intents,)
    second = np.argsort(probabilities)[-2]
    runner_up = classifier.classes_[second]
    return (
        f"{classifier.explain(MESSAGE)}\n"
        f"Runner-up: {runner_up} (probability {probabilities[second]:.3f})"
    )


def _other_messages(intents: np.ndarray) -> list[str]:
    """Messages about intents that the classifier does not know."""
    others = []
    for text, intent in zip(*load_banking()):
        if intent not in intents:
            others.append(text)
    return others


def _write_page(path: Path, numbers: dict[str, Any], **results: Any) -> None:
    """Write the tutorial with these results."""
    page = render(
        "demo_bank.html",
        title="pacsent tutorial: a classifier whose error rate is certified",
        error_upper_percent=rounded_up(100 * numbers["error_upper"], 1),
        n_labelled=numbers["n_labelled"],
        n_new=numbers["n_new"],
        test_error=numbers["test_error"],
        seconds=numbers["seconds"],
        rates=charts.guarantees(numbers, ERROR),
        seen=tutorial.SEEN,
        shell=tutorial.SHELL,
        runtime=chart_runtime() if altair_found() else "",
        install_hint=install_hint("report"),
        **results,
    )
    with replacing(path, parents=True) as file:
        file.write(page.encode())


def _monitor(
    classifier: CertifiedClassifier,
    streams: tuple[Sequence[str], Sequence[str]],
    random_state: int,
    say: Callable[[str], object],
) -> tuple[list[dict], dict[str, int]]:
    """Evidence of the drift monitor along each stream, and the message that raised an alarm."""
    evidence: list[dict] = []
    alarms: dict[str, int] = {}
    for name, stream in zip(STREAMS, streams):
        monitor = DriftMonitor(classifier, random_state=random_state)
        for start in range(0, N_MONITORED, MONITOR_STEP):
            monitor.update(stream[start : start + MONITOR_STEP])
            log_capital = np.log10(monitor.evidence)
            point = {"stream": name, "messages": monitor.n_seen, "log_capital": log_capital}
            evidence.append(point)

        if monitor.alarm_at is None:
            say(f"Drift monitor, {name}: no alarm")
        else:
            alarms[name] = monitor.alarm_at
            say(f"Drift monitor, {name}: alarm at message {monitor.alarm_at}")
    return evidence, alarms


def _charts(sizes: np.ndarray, evidence: list[dict]) -> list[dict]:
    """Vega-Lite specifications: sizes of prediction sets, drift."""
    return [charts.set_sizes(sizes), charts.drift(evidence)]
