"""The example of the tutorial: what its certificates state, and what is true of the new messages.

    python benchmarks/banking_example.py [--save]

500 messages of the twelve largest intents of Banking77 are labelled, as in docs/start.md; the
others are new. "New messages" are all of them; "distinct new messages" are those that repeat
neither a labelled message nor an earlier new one. Beside the table the file has what the figures of
the pages show: how the labels are split, the risk by coverage of the calibration texts and of the
new messages, and the evidence of a drift monitor along three streams.
"""

import numpy as np

from harness import finish, parser_for
from pacsent import CertifiedClassifier
from pacsent.certify import DriftMonitor
from pacsent.certify.row_status import NEW, row_status
from pacsent.datasets import load_banking, load_books

N_CLASSES, N_LABELLED, ERROR = 12, 500, 0.1
N_CURVE_POINTS = 200
N_BEFORE_CHANGE, N_AFTER_CHANGE, MONITOR_STEP = 300, 300, 10


def risk_coverage_curve(confidence, is_wrong):
    """(coverage, fraction of the answers that are wrong) of the most confident texts."""
    order = np.argsort(-confidence, kind="stable")
    n_answered = np.arange(1, order.size + 1)
    risk = np.cumsum(is_wrong[order]) / n_answered
    shown = np.unique(np.linspace(0, order.size - 1, N_CURVE_POINTS).round().astype(int))
    return [[round(float(n_answered[i] / order.size), 4), round(float(risk[i]), 4)] for i in shown]


def fractions(is_counted, is_distinct):
    """The fraction of all new messages, and that of the distinct ones."""
    return {
        "new messages": float(np.mean(is_counted)),
        "distinct new messages": float(np.mean(is_counted[is_distinct])),
    }


def guarantee_rows(clf, texts, truth, is_distinct):
    """Guaranteed and measured: error rate, answers with abstention, prediction sets."""
    is_wrong = clf.predict(texts) != truth
    careful = clf.abstain(error=ERROR)
    answers = np.array(careful.predict(texts), object)
    is_answered = np.array([answer is not None for answer in answers])
    wrong_answers = (answers != truth)[is_answered]
    mask = clf.predict_set(texts, error=ERROR, as_mask=True)
    is_missed = ~mask[np.arange(truth.size), clf.classes_.searchsorted(truth)]
    return [
        {
            "guarantee": "predictions",
            "at most": clf.certificate_.error_upper,
            **fractions(is_wrong, is_distinct),
        },
        {
            "guarantee": "answers, with abstention",
            "at most": ERROR,
            **fractions(wrong_answers, is_distinct[is_answered]),
        },
        {
            "guarantee": "prediction sets",
            "at most": ERROR,
            **fractions(is_missed, is_distinct),
        },
    ]


def abstention_details(clf, texts, truth):
    """Risk by coverage of calibration texts and new messages, and the certified threshold."""
    careful = clf.abstain(error=ERROR)
    calibration = clf.calibration_.sample("copies")
    known_confidence = np.exp(calibration.log_proba.max(axis=1))
    log_proba = clf.predict_log_proba(texts)
    confidence = np.exp(log_proba.max(axis=1))
    is_wrong = clf.classes_[log_proba.argmax(axis=1)] != truth
    is_answered = confidence >= careful.threshold
    return {
        "error": ERROR,
        "threshold": careful.threshold,
        "calibration coverage": float(np.mean(known_confidence >= careful.threshold)),
        "new coverage": float(np.mean(is_answered)),
        "new risk": float(np.mean(is_wrong[is_answered])),
        "calibration curve": risk_coverage_curve(known_confidence, calibration.wrong),
        "new curve": risk_coverage_curve(confidence, is_wrong),
    }


def drift_details(clf, texts, intents):
    """Evidence of a change after every ten rows, and where the guarantees were withdrawn."""
    unchanged = texts[: N_BEFORE_CHANGE + N_AFTER_CHANGE].tolist()
    others = [text for text, label in zip(*load_banking()) if label not in intents]
    passages = [passage.text for passage in load_books()]
    before = unchanged[:N_BEFORE_CHANGE]
    streams = {
        "the same intents": unchanged,
        "other intents": before + others[:N_AFTER_CHANGE],
        "passages of books": before + passages[:N_AFTER_CHANGE],
    }
    evidence, alarms = {}, {}
    for name, stream in streams.items():
        monitor = DriftMonitor(clf, random_state=0)
        evidence[name] = []
        for start in range(0, len(stream), MONITOR_STEP):
            monitor.update(stream[start : start + MONITOR_STEP])
            evidence[name].append([monitor.n_seen, float(f"{monitor.evidence:.4g}")])
        alarms[name] = monitor.alarm_at
    return {"change after": N_BEFORE_CHANGE, "alpha": 0.05, "alarms": alarms, "evidence": evidence}


def main():
    options = parser_for(__doc__).parse_args()
    texts, intents = map(np.array, load_banking(n_classes=N_CLASSES))
    order = np.random.default_rng(0).permutation(len(texts))
    labelled, new = order[:N_LABELLED], order[N_LABELLED:]
    new_texts, truth = texts[new], intents[new]

    clf = CertifiedClassifier(random_state=0).fit(texts[labelled], intents[labelled])
    certificate = clf.certificate_
    is_distinct = row_status(clf, new_texts.tolist(), []).status == NEW
    n_training = clf.estimator_.out_of_fold_.labels.size
    rows = guarantee_rows(clf, new_texts, truth, is_distinct)
    split = {
        "labelled": N_LABELLED,
        "training": n_training,
        "held out": N_LABELLED - n_training,
        "counted": certificate.n,
        "errors": certificate.n_errors,
        "bound": certificate.error_upper,
        "new messages": new.size,
        "distinct new messages": int(is_distinct.sum()),
    }
    finish(
        "banking_example",
        rows,
        title="Guaranteed and measured, 500 labelled messages",
        summary={row["guarantee"]: row["new messages"] for row in rows},
        save=options.save,
        name=options.name,
        details={
            "split": split,
            "abstention": abstention_details(clf, new_texts, truth),
            "drift": drift_details(clf, new_texts, set(intents)),
        },
    )


if __name__ == "__main__":
    main()
