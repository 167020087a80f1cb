# /// script
# requires-python = ">=3.11"
# dependencies = ["pacsent"]
#
# [tool.uv.sources]
# pacsent = { path = ".." }
# ///
"""Certify the answers of any model: a CSV of labels and predictions in, an error bound out.

    uv run examples/05_certify_predictions.py [FILE.csv]

uv creates the environment from the lines above; in a checkout it builds pacsent from it. FILE.csv
has the columns text, label and prediction, one row per text that the model was not trained on. The
default is a tf-idf classifier of messages to a bank.
"""

import csv
import sys

from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

from pacsent import certify_predictions
from pacsent.datasets import load_banking

if len(sys.argv) > 1:
    with open(sys.argv[1], encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    texts = [row["text"] for row in rows]
    labels = [row["label"] for row in rows]
    predictions = [row["prediction"] for row in rows]
else:
    X, y = load_banking(n_classes=12)
    X_train, texts, y_train, labels = train_test_split(X, y, train_size=500, random_state=0)
    model = make_pipeline(TfidfVectorizer(), LogisticRegression(C=10)).fit(X_train, y_train)
    predictions = model.predict(texts)

certificate = certify_predictions(labels, predictions, texts=texts, random_state=0)
print(certificate.summary())
print(certificate.verify())
