"""Sentences a second: raw Python strings in, float32 means out, the same vectors for everybody.

    python benchmarks/encode.py [--data FOLDER] [--save] [--name NAME]

Contestants: pacsent; gensim (a loop over `get_mean_vector`); model2vec's StaticModel and
sentence-transformers' StaticEmbedding, both built from the same table with a word-level tokenizer;
and a loop over `dict` and `split` with NumPy. Everybody may use two cores. gensim and NumPy take
the tokens that `str.split` gives. The rounds are interleaved and the best of each counts.
"""

import os
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "2")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")

import numpy as np

from harness import finish, parser_for
from pacsent import make_encoder, text
from pacsent.paper import benchmark_datasets as datasets
from pacsent.words.vectors import WordVectors

N_JOBS = 2


def fitted(method, words):
    # anything would do as training text: these methods learn nothing
    return make_encoder(method, words, n_jobs=N_JOBS, on_empty="ignore").fit(["the"])


def contestants(words):
    """name -> function from a list of strings to float32 means."""
    table, vocabulary = words.input_vectors, words.vocabulary
    made = {"pacsent": fitted("Average", words).transform}
    index = {word: i for i, word in enumerate(vocabulary.words)}

    def numpy_loop(sentences):
        out = np.zeros((len(sentences), table.shape[1]), dtype=np.float32)
        for s, sentence in enumerate(sentences):
            ids = [index[token] for token in sentence.split() if token in index]
            if ids:
                table[ids].mean(axis=0, out=out[s])
        return out

    made["numpy, dict and split"] = numpy_loop

    from gensim.models import KeyedVectors

    keyed = KeyedVectors(table.shape[1])
    keyed.add_vectors(vocabulary.words, table)

    def gensim_loop(sentences):
        mean = keyed.get_mean_vector
        return np.stack([mean(text.split(), pre_normalize=False) for text in sentences])

    made["gensim, get_mean_vector"] = gensim_loop

    from model2vec import StaticModel

    with_unknown = np.vstack([table, np.zeros((1, table.shape[1]), np.float32)])
    model2vec = StaticModel(with_unknown, tokenizer(vocabulary), normalize=False, max_length=None)
    made["model2vec"] = lambda sentences: model2vec.encode(sentences, use_multiprocessing=False)

    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding

    torch.set_num_threads(N_JOBS)
    static = StaticEmbedding(tokenizer(vocabulary), embedding_weights=with_unknown)
    transformer = SentenceTransformer(modules=[static], device="cpu")
    how = {"batch_size": 1024, "show_progress_bar": False}
    made["sentence-transformers"] = lambda sentences: transformer.encode(sentences, **how)
    return made


def tokenizer(vocabulary):
    """A word-level tokenizer of the same words: lower case, letters and digits apart."""
    from tokenizers import Regex, Tokenizer, normalizers, pre_tokenizers
    from tokenizers.models import WordLevel

    words = {word: i for i, word in enumerate([*vocabulary.words, "[UNK]"])}
    made = Tokenizer(WordLevel(words, unk_token="[UNK]"))
    made.normalizer = normalizers.Lowercase()
    made.pre_tokenizer = pre_tokenizers.Split(Regex("[^a-z]+"), behavior="removed")
    return made


def main():
    parser = parser_for(__doc__, name="two-cores")
    parser.add_argument("--rounds", type=int, default=12)
    given = parser.parse_args()
    folder = Path(given.data)
    half = datasets.load_word_vectors(folder / "vectors")
    # one table of float32 for all, in memory; pacsent alone could keep it as float16
    words = WordVectors(half.vocabulary, np.asarray(half.input_vectors, dtype=np.float32))
    corpora = {
        "SUBJ": list(datasets.load("subj", given.data, verify=False).train_texts),
        "IMDb": list(datasets.load("imdb", given.data, verify=False).train_texts)[:2000],
    }
    functions = contestants(words)
    narrow = WordVectors(words.vocabulary, np.asarray(half.input_vectors, dtype=np.float16))
    functions["pacsent, float16 table"] = fitted("Average", narrow).transform
    both = WordVectors(words.vocabulary, words.input_vectors, np.asarray(half.output_vectors))
    functions["pacsent PB-L2 (two tables)"] = fitted("PB-L2", both).transform

    known, tokens = words.vocabulary.index, map(text.tokenise_paper, corpora["SUBJ"][:500])
    check(functions, [" ".join(t for t in sentence if t in known) for sentence in tokens])
    best = {(name, corpus): float("inf") for name in functions for corpus in corpora}
    for function in functions.values():
        function(corpora["SUBJ"][:2000])
    for _ in range(given.rounds):
        for corpus, sentences in corpora.items():
            for name, function in functions.items():
                start = time.perf_counter()
                function(sentences)
                best[name, corpus] = min(best[name, corpus], time.perf_counter() - start)
    per_second = {key: len(corpora[key[1]]) / seconds for key, seconds in best.items()}

    summary = {}
    rates = {n: {f"{c} /s": round(per_second[n, c]) for c in corpora} for n in functions}
    rows = [{"contestant": name, **rates[name]} for name in functions]
    baselines = [name for name in functions if not name.startswith("pacsent")]
    for corpus in corpora:
        fastest = max(baselines, key=lambda name: per_second[name, corpus])
        ratio = per_second["pacsent", corpus] / per_second[fastest, corpus]
        summary |= {f"ratio {corpus}": round(ratio, 2), f"fastest baseline {corpus}": fastest}
    summary = {"ratio": min(summary[f"ratio {corpus}"] for corpus in corpora), **summary}
    title = "Encoding: raw strings to sentence means, two cores"
    finish("encode", rows, summary=summary, title=title, save=given.save, name=given.name)


def check(functions, sentences):
    """All must agree where the tokens are beyond doubt: clean text of known words."""
    expected = functions["pacsent"](sentences)
    for name, function in functions.items():
        if "PB-L2" in name:
            continue
        worst = np.abs(np.asarray(function(sentences)) - expected).max()
        if worst > 2e-3 if "float16" in name else worst > 1e-5:
            raise SystemExit(f"{name} differs from pacsent by {worst:.1e}")


if __name__ == "__main__":
    main()
