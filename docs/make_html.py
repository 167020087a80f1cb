"""The live classifier of docs/html.md: twelve intents of messages to a bank, from n-grams alone."""

from pathlib import Path

from pacsent import CertifiedClassifier, TextClassifier
from pacsent.datasets import load_banking
from pacsent.web import export_html


def write_live_classifier(path: Path) -> None:
    """Train it on the messages about the twelve most frequent intents, and write its page."""
    path.parent.mkdir(parents=True, exist_ok=True)
    texts, labels = load_banking(n_classes=12)
    classifier = CertifiedClassifier(TextClassifier(None), random_state=0).fit(texts, labels)
    export_html(classifier, path, title="Messages to a bank", overwrite=True)
