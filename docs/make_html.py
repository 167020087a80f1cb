"""The live classifier of docs/html.md, and the explanation of docs/classify.md."""

from pathlib import Path

import numpy as np

from pacsent import CertifiedClassifier, TextClassifier
from pacsent.classify.explanation import Explanation
from pacsent.datasets import load_banking
from pacsent.web import export_html

N_LABELLED = 1700
MESSAGE = "I was charged twice for my coffee, and the fee was wrong as well."
ERROR = 0.1


def live_classifier() -> tuple[list[str], list[str], list[str]]:
    """Labelled messages about the twelve most frequent intents, their intents, new messages."""
    texts, intents = map(np.array, load_banking(n_classes=12))
    order = np.random.default_rng(0).permutation(len(texts))
    labelled, new = order[:N_LABELLED], order[N_LABELLED:]
    return texts[labelled].tolist(), intents[labelled].tolist(), texts[new].tolist()


def write_live_classifier(path: Path) -> None:
    """Train it and write its page."""
    path.parent.mkdir(parents=True, exist_ok=True)
    texts, intents, _ = live_classifier()
    classifier = CertifiedClassifier(TextClassifier(None), random_state=0).fit(texts, intents)
    export_html(classifier, path, title="Messages to a bank", error=ERROR, overwrite=True)


def explained_message() -> Explanation:
    """The explanation of a message to a bank, by a classifier of 500 others."""
    texts, intents = map(np.array, load_banking(n_classes=12))
    labelled = np.random.default_rng(0).permutation(len(texts))[:500]
    classifier = TextClassifier("english").fit(texts[labelled], intents[labelled])
    return classifier.explain(MESSAGE)
