"""SetFit (Tunstall et al. 2022) on the draws that `alternatives.py --write-draws FILE` writes.

    python benchmarks/setfit_procedure.py FILE MINILM_FOLDER RESULTS.json

The published settings: for each labelled text, 20 pairs with another text of its class and 20 with
a text of another class; one epoch over all pairs in batches of 16, AdamW with a peak rate of 2e-5
and 10% warm-up, squared error of the cosine against 1 and 0; then a logistic regression on the
vectors. PyTorch and sentence-transformers are enough, so that it runs where pacsent is missing.
"""

import json
import sys
import time
from pathlib import Path

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from sklearn.linear_model import LogisticRegression

N_PAIRS, BATCH_SIZE, RATE, WARM_UP = 20, 16, 2e-5, 0.1


class SetFit:
    """A sentence transformer fine-tuned on pairs of labelled texts, then a logistic regression."""

    def __init__(self, folder, seed):
        self.body, self.seed = SentenceTransformer(str(folder)), seed
        self.head = LogisticRegression(max_iter=1000)

    def fit(self, X, y, max_steps=None):
        y, rng = np.asarray(y), np.random.default_rng(self.seed)
        torch.manual_seed(self.seed)
        rows = np.arange(y.size)
        first = np.tile(rows, 2 * N_PAIRS)
        is_positive = np.arange(first.size) < y.size * N_PAIRS
        second = [
            rng.choice(np.flatnonzero(((y == y[i]) == same) & (rows != i)))
            for i, same in zip(first, is_positive)
        ]
        batches = np.array_split(rng.permutation(first.size), -(-first.size // BATCH_SIZE))
        optimizer = torch.optim.AdamW(self.body.parameters(), lr=RATE, weight_decay=0.0)
        n, warm = len(batches), WARM_UP * len(batches)
        schedule = torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda step: min((step + 1) / warm, (n - step) / (n - warm))
        )
        self.body.train()
        for batch in batches[:max_steps]:
            left, right = (self._forward([X[side[i]] for i in batch]) for side in (first, second))
            target = torch.tensor(is_positive[batch], device=left.device).float()
            torch.nn.functional.mse_loss(torch.cosine_similarity(left, right), target).backward()
            torch.nn.utils.clip_grad_norm_(self.body.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
        self.body.eval()
        self.head.fit(self.body.encode(X, show_progress_bar=False), y)
        return self

    def _forward(self, texts):
        features = self.body.preprocess(texts)
        on_device = {k: v.to(self.body.device) for k, v in features.items() if torch.is_tensor(v)}
        return self.body(features | on_device)["sentence_embedding"]

    def predict(self, X):
        return self.head.predict(self.body.encode(X, show_progress_bar=False))


def main():
    source, folder, output = map(Path, sys.argv[1:])
    results = []
    for draw in json.loads(source.read_text(encoding="utf-8")):
        started, cpu = time.perf_counter(), time.process_time()
        model = SetFit(folder, draw["seed"]).fit(draw["X"], draw["y"])
        seconds = {"fit (s)": time.perf_counter() - started, "CPU (s)": time.process_time() - cpu}
        accuracy = float(np.mean(model.predict(draw["X_test"]) == np.array(draw["y_test"])))
        result = {"set": draw["set"], "seed": draw["seed"], "accuracy": accuracy, **seconds}
        results.append(result | {"device": str(model.body.device)})
        print(results[-1], flush=True)
        output.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
