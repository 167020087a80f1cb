"""The demo: a support team labels 500 messages and asks how far the classifier can be trusted."""

import math
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from pacsent.classify import TextClassifier
from pacsent.datasets import load_banking
from pacsent.files import replacing
from pacsent.guarantees import CertifiedClassifier, DriftMonitor
from pacsent.maths.rounding import rounded_up
from pacsent.paper.figures import altair_found, chart_runtime
from pacsent.search import Index
from pacsent.text.pages import render

N_INTENTS = 12
N_LABELLED = 500
ERROR = 0.1  # error rate that abstention and prediction sets must not exceed
QUERY = "the machine kept my money but my account was charged"
_MONITOR_STEP = 10  # messages between two points of the drift chart
_MAX_MONITORED = 400  # messages that the drift monitor reads


def run(
    out: str | os.PathLike,
    *,
    random_state: int = 0,
    n_jobs: int | None = None,
    say: Callable[[str], object] = lambda line: None,
) -> dict[str, Any]:
    """Train, certify and check a classifier on Banking77; write `out`/index.html.

    Returns the numbers on the page. `random_state` draws the labelled messages; `say` is called
    with each line of progress.
    """
    started = time.perf_counter()
    (labelled_texts, labels), (new_texts, truth), other_texts = _samples(random_state)
    say(
        f"{N_LABELLED} labelled messages to a bank, {N_INTENTS} intents; "
        f"{len(new_texts):,} new messages."
    )

    classifier = CertifiedClassifier(
        TextClassifier("english", n_jobs=n_jobs), random_state=random_state
    )
    classifier.fit(labelled_texts, labels)
    certificate = classifier.certificate_
    test_error = float(np.mean(classifier.predict(new_texts) != truth))
    most_frequent = max(np.mean(truth == label) for label in classifier.classes_)
    say(
        f"Certified: at most {rounded_up(certificate.error_upper, 3)} of its predictions are "
        f"wrong, with 95% confidence. On the new messages: {test_error:.3f}."
    )

    answers = classifier.abstain(error=ERROR).predict(new_texts)
    answered = np.array([answer is not None for answer in answers])
    wrong_answers = np.array([a != t for a, t in zip(answers, truth)]) & answered
    answered_error = float(wrong_answers.sum() / max(1, answered.sum()))
    say(
        f"Abstention, error at most {ERROR}: it answers {answered.mean():.0%} of the messages; "
        f"{answered_error:.3f} of the answers are wrong."
    )

    prediction_sets = classifier.predict_set(new_texts, error=ERROR)
    sizes = np.array([len(labels) for labels in prediction_sets])
    missed = float(np.mean([t not in labels for t, labels in zip(truth, prediction_sets)]))
    say(
        f"Prediction sets, missing the intent for at most {ERROR} of the messages: "
        f"{sizes.mean():.2f} intents on average; {missed:.3f} missed."
    )

    index = Index("english")
    index.add(new_texts)
    hits = index.search(QUERY, 3)
    say(f"Search for {QUERY!r}: {hits[0].text!r}.")

    streams = {
        "new messages about the same intents": new_texts[:_MAX_MONITORED],
        "messages about other intents": other_texts[:_MAX_MONITORED],
    }
    evidence, alarms = _monitor(classifier, streams, random_state)
    for name in streams:
        say(f"Drift monitor, {name}: {_alarm_text(alarms.get(name))}")

    numbers = {
        "n_labelled": N_LABELLED,
        "n_calibration": int(certificate.n),
        "n_new": len(new_texts),
        "error_upper": float(certificate.error_upper),
        "test_error": test_error,
        "most_frequent_class_error": float(1 - most_frequent),
        "error": ERROR,
        "answered": float(answered.mean()),
        "answered_error": answered_error,
        "mean_set_size": float(sizes.mean()),
        "missed": missed,
        "alarms": alarms,
        "seconds": time.perf_counter() - started,
    }
    page = _page(classifier, new_texts, prediction_sets, hits, numbers, evidence, streams)
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    with replacing(folder / "index.html") as file:
        file.write(page.encode())
    return numbers


def _samples(random_state: int):
    """Labelled messages, new messages with their intents, and messages about other intents."""
    texts, labels = load_banking(n_classes=N_INTENTS)
    rng = np.random.default_rng(random_state)
    order = rng.permutation(len(texts))
    labelled, new = order[:N_LABELLED], order[N_LABELLED:]
    others = [t for t, label in zip(*load_banking()) if label not in set(labels)]
    return (
        ([texts[i] for i in labelled], [labels[i] for i in labelled]),
        ([texts[i] for i in new], np.array([labels[i] for i in new])),
        [others[i] for i in rng.permutation(len(others))],
    )


def _page(classifier, texts, prediction_sets, hits, numbers, evidence, streams) -> str:
    """The HTML page, with the first message whose prediction set has several intents."""
    sizes = np.array([len(labels) for labels in prediction_sets])
    shown = int(np.argmax(sizes > 1))
    return render(
        "demo.html",
        title="pacsent demo: how far can this classifier be trusted?",
        certificate=classifier.certificate_,
        alarm_texts={name: _alarm_text(numbers["alarms"].get(name)) for name in streams},
        query=QUERY,
        hits=hits,
        message=texts[shown],
        message_set=prediction_sets[shown],
        message_words=classifier.estimator_.explain(texts[shown]).by_word(5),
        message_label=classifier.predict([texts[shown]])[0],
        charts=_charts(numbers, sizes, evidence) if altair_found() else [],
        runtime=chart_runtime() if altair_found() else "",
        **{name: value for name, value in numbers.items() if name != "alarms"},
    )


def _monitor(classifier, streams, random_state) -> tuple[list[dict], dict[str, int]]:
    """Evidence of the drift monitor along each stream, and after how many messages it alarmed."""
    evidence: list[dict] = []
    alarms: dict[str, int] = {}
    for name, stream in streams.items():
        monitor = DriftMonitor(classifier, random_state=random_state)
        for start in range(0, len(stream), _MONITOR_STEP):
            monitor.update(stream[start : start + _MONITOR_STEP])
            n_read = min(start + _MONITOR_STEP, len(stream))
            point = {"messages": n_read, "evidence": math.log10(max(monitor.capital, 1e-9))}
            evidence.append({"stream": name, **point})
            if monitor.alarm and name not in alarms:
                alarms[name] = n_read
    return evidence, alarms


def _alarm_text(n_read: int | None) -> str:
    return "no alarm" if n_read is None else f"alarm after {n_read} messages"


def _charts(numbers: dict, sizes: np.ndarray, evidence: list[dict]) -> list[dict]:
    """Vega-Lite specifications: error against bound, sizes of prediction sets, drift."""
    import altair as alt

    rows = [
        ("all messages", numbers["test_error"], numbers["error_upper"]),
        ("answers, with abstention", numbers["answered_error"], ERROR),
        ("prediction sets", numbers["missed"], ERROR),
    ]
    data = alt.Data(values=[{"what": w, "measured": m, "guaranteed": g} for w, m, g in rows])
    y = alt.Y("what:N", sort=None, title=None, axis=alt.Axis(labelLimit=220))
    measured = alt.Chart(data).mark_bar(height=18, color="#3b7dd8")
    guaranteed = alt.Chart(data).mark_tick(thickness=3, size=34, color="#d9822b")
    errors = measured.encode(y=y, x=alt.X("measured:Q", title="error rate")) + guaranteed.encode(
        y=y, x="guaranteed:Q"
    )
    counts = [{"size": int(n), "messages": int((sizes == n).sum())} for n in np.unique(sizes)]
    set_sizes = (
        alt.Chart(alt.Data(values=counts))
        .mark_bar(color="#3b7dd8")
        .encode(
            x=alt.X("size:O", title="intents in the prediction set", axis=alt.Axis(labelAngle=0)),
            y=alt.Y("messages:Q", title="messages"),
        )
    )
    legend = alt.Legend(orient="bottom", title=None, columns=1, labelLimit=300)
    lines = (
        alt.Chart(alt.Data(values=evidence))
        .mark_line()
        .encode(
            x=alt.X("messages:Q", title="messages read"),
            y=alt.Y("evidence:Q", title="evidence of drift (powers of ten)"),
            color=alt.Color("stream:N", legend=legend),
        )
    )
    threshold = alt.Chart(alt.Data(values=[{"alarm": math.log10(20)}])).mark_rule(strokeDash=[4, 4])
    drift = lines + threshold.encode(y="alarm:Q")
    return [
        chart.properties(width="container", height=height).to_dict()
        for chart, height in ((errors, 130), (set_sizes, 200), (drift, 260))
    ]
