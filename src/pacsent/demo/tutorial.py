"""The tutorial: what its steps say and the Python that they show.

The second page of the demo (templates/demo_bank.html) and docs/start.md show the same steps, texts
and code; tests/demo/test_demo.py compares them.
"""

import json
from string import Template
from typing import NamedTuple

from pacsent.demo.tables import N_INTENTS, N_LABELLED

ERROR = 0.1  # error rate that abstention and prediction sets must not exceed
MESSAGE = "I was charged twice for my coffee"
MESSAGES = ("why was I charged twice?", "the machine kept my money", "hello")
QUERY = "the dispenser gave only part of the banknotes"
N_HITS = 3
N_MONITORED = 400  # messages of each stream that the drift monitor reads
MONITOR_STEP = 10  # messages that arrive together


class Part(NamedTuple):
    """A paragraph and the Python below it; `name` is that of its output."""

    name: str
    text: str
    code: str


class Step(NamedTuple):
    """A section of the tutorial; `name` is its place in a page."""

    name: str
    title: str
    parts: tuple[Part, ...]


_STEPS = (
    Step(
        "messages",
        "The messages",
        (
            Part(
                "messages",
                "The messages come with pacsent (Banking77, Casanueva et al., 2020). We take "
                "$n_labelled messages of the $n_intents most frequent intents at random as the "
                "labelled ones. The others are the new messages: their intents serve only to "
                "check what pacsent claims.",
                """\
import numpy as np
from pacsent.datasets import load_banking

texts, intents = map(np.array, load_banking(n_classes=$n_intents))
order = np.random.default_rng($random_state).permutation(len(texts))
labelled, new = order[:$n_labelled], order[$n_labelled:]""",
            ),
        ),
    ),
    Step(
        "certify",
        "Train, and certify the error rate",
        (
            Part(
                "certificate",
                "Part of the labels is held out as a calibration set. The classifier is trained on "
                "the others, and the bound is computed from its errors on the calibration set.",
                """\
from pacsent import CertifiedClassifier

classifier = CertifiedClassifier(random_state=$random_state)
classifier.fit(texts[labelled], intents[labelled])
print(classifier.certificate_.summary())""",
            ),
            Part(
                "test_error",
                "The sentence is a guarantee for new messages from the same distribution, made "
                "with 95% confidence over the draw of the calibration set. Some messages repeat; "
                "the larger of two bounds holds whatever the reason. The number after “always "
                "answering” is the error rate of the most frequent class: a bound above it is "
                "useless. More labels bring the bound closer to the error rate. Is it true for the "
                "new messages?",
                """\
error = np.mean(classifier.predict(texts[new]) != intents[new])
print(f"{error:.1%} of the predictions are wrong")""",
            ),
        ),
    ),
    Step(
        "abstain",
        "Answer only if it is safe",
        (
            Part(
                "answers",
                "A classifier that may abstain answers fewer messages, and makes fewer errors. It "
                "predicts None for the others, which go to a person.",
                """\
careful = classifier.abstain(error=$error)
print(careful)
answers = np.array(careful.predict(texts[new]), dtype=object)
answered = np.array([answer is not None for answer in answers])
wrong = np.mean(answers[answered] != intents[new][answered])
print(f"{answered.mean():.1%} of the messages are answered")
print(f"{wrong:.1%} of the answers are wrong")""",
            ),
        ),
    ),
    Step(
        "sets",
        "Which intents are possible?",
        (
            Part(
                "sets",
                "A prediction set contains every intent that cannot be ruled out. A person can "
                "choose from it.",
                """\
sets = classifier.predict_set(texts[new], error=$error)
missed = np.mean([intent not in labels for intent, labels in zip(intents[new], sets)])
print(f"{np.mean([len(labels) for labels in sets]):.2f} intents on average")
print(f"{missed:.1%} of the sets miss the intent")""",
            ),
            Part(
                "messages_sets",
                "A clear message has a set of one intent, an unclear one a larger set:",
                """\
messages = $messages
for message, labels in zip(messages, classifier.predict_set(messages, error=$error)):
    print(message, labels)""",
            ),
        ),
    ),
    Step(
        "explain",
        "Why this intent?",
        (
            Part(
                "explanation",
                "The decision for an intent is a sum over the words of the message; positive "
                "numbers support the intent. The intent with the largest decision has the largest "
                "probability.",
                """\
message = $message
print(classifier.explain(message))
probabilities = classifier.predict_proba([message])[0]
second = np.argsort(probabilities)[-2]
print(f"Runner-up: {classifier.classes_[second]} (probability {probabilities[second]:.3f})")""",
            ),
        ),
    ),
    Step(
        "search",
        "Search the messages",
        (
            Part(
                "hits",
                "An index finds messages by their words and by their meaning, the best first. "
                "“Dispenser” and “banknotes” occur in no message:",
                """\
from pacsent import Index

index = Index("english")
index.add(texts[new])
for hit in index.search($query, k=$n_hits):
    print(hit.text)""",
            ),
        ),
    ),
    Step(
        "drift",
        "Are new messages still of the same kind?",
        (
            Part(
                "alarms",
                "The guarantees are for messages like the labelled ones. A drift monitor reads "
                "messages without labels, and raises an alarm once they differ. With probability "
                "95% it never raises a false alarm. It reads new messages, and then messages about "
                "intents that the classifier does not know.",
                """\
from pacsent.certify import DriftMonitor

others = [text for text, intent in zip(*load_banking()) if intent not in intents]
for stream in (texts[new], others):
    monitor = DriftMonitor(classifier, random_state=$random_state)
    for start in range(0, $n_monitored, $monitor_step):
        monitor.update(stream[start : start + $monitor_step])
    print("alarm at message", monitor.alarm_at)""",
            ),
        ),
    ),
)

# What the tutorial has shown, each with the step that showed it.
SEEN = (
    ("certify", "a bound on the error rate, from held-out labels, that anyone can recompute"),
    ("abstain", "answers whose error rate you choose"),
    ("sets", "sets of intents that miss the right one as rarely as you choose"),
    ("explain", "each decision as a sum over words"),
    ("search", "search by meaning"),
    ("drift", "an alarm once the guarantees no longer apply"),
)

SHELL = """\
pacsent train mine.csv -o model            # columns text and label
pacsent predict model new.csv -o answers.csv --error 0.1
pacsent explain model "my card was declined"
pacsent monitor model new.csv
pacsent model export model -o classifier.html
pacsent index new.csv -o index
pacsent search index "my card was declined\""""


def steps(random_state: int = 0) -> list[Step]:
    """The steps, with the values of their parameters in text and code.

    Parameters
    ----------
    random_state : int, default=0
        Draws the labelled messages, the calibration set and the ties of the drift monitor.

    Returns
    -------
    list of Step
    """
    values = {
        "random_state": random_state,
        "n_intents": N_INTENTS,
        "n_labelled": N_LABELLED,
        "error": ERROR,
        "message": json.dumps(MESSAGE),
        "messages": json.dumps(MESSAGES),
        "query": json.dumps(QUERY),
        "n_hits": N_HITS,
        "n_monitored": N_MONITORED,
        "monitor_step": MONITOR_STEP,
    }
    filled = []
    for step in _STEPS:
        parts = []
        for part in step.parts:
            text = Template(part.text).substitute(values)
            code = Template(part.code).substitute(values)
            parts.append(Part(part.name, text, code))
        filled.append(Step(step.name, step.title, tuple(parts)))
    return filled
