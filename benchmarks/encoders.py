"""Compare encoders: similarity, search, few labels, texts a second, megabytes.

    python benchmarks/encoders.py [--data FOLDER] [--minilm FOLDER] [--save]

Similarity is the Pearson correlation of the cosine with the human score on the dev and test parts
of STS-B. Search is p@10 within the training part of 20news: the share of the ten nearest posts that
have the label of a post, for 1,000 posts among 5,000. Few labels: accuracy of TextClassifier with
this encoder on 1,000 held-out texts of the training part of TREC and of MR, with 100 labels, the
mean of three draws. Texts a second on the sentences of STS-B, best of three. Test scores are shown;
nothing is chosen by them. WordLlama is measured where it is installed; all-MiniLM-L6-v2 where
--minilm names a folder with config.json, tokenizer.json and model.fp16.safetensors.
"""

import importlib.util
import json
import time
from pathlib import Path

import numpy as np

from harness import finish, parser_for
from pacsent import TextClassifier, load, make
from pacsent.bench import datasets
from pacsent.encoders import as_encoder
from pacsent.maths.arrays import unit_rows
from pacsent.storage import PACKAGED

N_QUERIES, N_POSTS, N_LABELS, N_DRAWS = 1000, 5000, 100, 3


def wordllama():
    """The encoder of WordLlama, with its files where it looks for them."""
    import shutil

    import wordllama

    package, cache = Path(wordllama.__file__).parent, Path.home() / ".cache" / "wordllama"
    for folder in ("tokenizers", "weights"):
        shutil.copytree(package / folder, cache / folder, dirs_exist_ok=True)
    model = wordllama.WordLlama.load()
    return lambda texts: np.nan_to_num(model.embed([text or " " for text in texts]))


def minilm(folder: Path):
    """Mean pooling of the last layer, as sentence-transformers does for this model."""
    import torch
    from safetensors.torch import load_file
    from tokenizers import Tokenizer
    from transformers import BertConfig, BertModel

    config = json.loads((folder / "config.json").read_text())
    unused = ("architectures", "transformers_version", "_name_or_path")
    config = BertConfig(**{k: v for k, v in config.items() if k not in unused})
    model = BertModel(config, add_pooling_layer=False)
    weights = load_file(folder / "model.fp16.safetensors")
    whole = {k.removeprefix("bert."): v.float() if v.is_floating_point() else v
             for k, v in weights.items()}  # fmt: skip
    model.load_state_dict(whole, strict=False)
    model.eval()
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_truncation(256)
    tokenizer.enable_padding()

    @torch.inference_mode()
    def encode(texts):
        found = np.empty((len(texts), config.hidden_size), np.float32)
        order = np.argsort([len(text) for text in texts])
        for at in range(0, len(order), 64):
            rows = order[at : at + 64]
            batch = tokenizer.encode_batch([texts[i] for i in rows])
            ids, mask = (torch.tensor([getattr(e, name) for e in batch])
                         for name in ("ids", "attention_mask"))  # fmt: skip
            states = model(ids, attention_mask=mask).last_hidden_state * mask[:, :, None]
            found[rows] = (states.sum(1) / mask.sum(1, keepdim=True)).numpy()
        return found

    return encode


def encoders(given) -> dict:
    """Name -> (encoder, megabytes of its files or None)."""
    size = {f.name: sum(p.stat().st_size for p in f.rglob("*") if p.is_file()) / 1e6
            for f in PACKAGED.iterdir() if f.is_dir()}  # fmt: skip
    found = {
        "Average": (make("Average", "english", on_empty="ignore").fit([]), size["english"]),
        "SIF-sum": (make("SIF-sum", "english", on_empty="ignore").fit([]), size["english"]),
        "taught": (load("english_taught").set_params(on_empty="ignore"), size["english_taught"]),
    }
    if importlib.util.find_spec("wordllama"):
        found["WordLlama"] = (as_encoder(wordllama(), name="WordLlama"), 16.0)
    if given.minilm is not None:
        weights = given.minilm / "model.fp16.safetensors"
        encoder = as_encoder(minilm(given.minilm), name="all-MiniLM-L6-v2")
        found["all-MiniLM-L6-v2"] = (encoder, weights.stat().st_size / 1e6)
    return found


def similarity(encoder, pairs, part):
    one, other = (
        unit_rows(encoder.encode(list(side[part]))) for side in (pairs.first, pairs.second)
    )
    return float(np.corrcoef((one * other).sum(axis=1), pairs.scores[part])[0, 1])


def precision_at_ten(encoder, news):
    order = np.random.default_rng(0).permutation(len(news.train_texts))[: N_QUERIES + N_POSTS]
    vectors = unit_rows(encoder.encode([news.train_texts[i] for i in order]))
    labels = np.asarray(news.train_labels)[order]
    n = min(N_QUERIES, len(order) // 2)
    near = np.argsort(-(vectors[:n] @ vectors[n:].T), axis=1)[:, :10]
    return float((labels[n:][near] == labels[:n, None]).mean())


def few_labels(encoder, data):
    texts, labels = list(data.train_texts), np.asarray(data.train_labels)
    scores = []
    for draw in range(N_DRAWS):
        order = np.random.default_rng(draw).permutation(len(texts))
        learn, judge = order[:N_LABELS], order[N_LABELS : N_LABELS + 1000]
        classifier = TextClassifier(encoder).fit([texts[i] for i in learn], labels[learn])
        scores.append(classifier.score([texts[i] for i in judge], labels[judge]))
    return float(np.mean(scores))


def texts_per_second(encoder, texts):
    encoder.encode(texts[:64])
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        encoder.encode(texts)
        best = min(best, time.perf_counter() - start)
    return len(texts) / best


def main():
    parser = parser_for(__doc__, name="two-cores")
    parser.add_argument("--minilm", type=Path, help="folder of all-MiniLM-L6-v2")
    given = parser.parse_args()
    pairs, news, trec, mr = (datasets.load(n, given.data) for n in ("stsb", "20news", "trec", "mr"))
    sentences = list(pairs.first["train"])
    rows = []
    for name, (encoder, megabytes) in encoders(given).items():
        rows.append({
            "encoder": name,
            "STS-B dev": similarity(encoder, pairs, "dev"),
            "STS-B test": similarity(encoder, pairs, "test"),
            "20news train p@10": precision_at_ten(encoder, news),
            "TREC, 100 labels": few_labels(encoder, trec),
            "MR, 100 labels": few_labels(encoder, mr),
            "texts/s": texts_per_second(encoder, sentences),
            "MB": megabytes,
        })  # fmt: skip
        print(rows[-1], flush=True)
    summary = {row["encoder"]: row["STS-B test"] for row in rows}
    finish("encoders", rows, title="Encoders side by side", summary=summary, save=given.save,
           name=given.name)  # fmt: skip


if __name__ == "__main__":
    main()
