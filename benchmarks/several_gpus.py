"""What training on several GPUs would cost: bytes between them, hours and dollars, simulated.

    python benchmarks/several_gpus.py --save

The rate of one GPU was measured (results/train_gpu/full-scale.json: 2,472,211 words by Zipf's law,
300 numbers each). In a round every GPU trains `--round` words; then the rows that any of them
changed are summed by a ring, which sends 2 (n - 1) / n times these bytes from every GPU. How many
rows change is the expected number of different words among those drawn, from the text and as noise
(`drawn` counts them in a sample, for comparison). Rounds and rings do not overlap here. Inside a
machine of eight GPUs a ring has `--nvlink` GB/s one way, between machines `--network` GB/s for each
GPU. The price is an assumption: `--price` dollars for an hour of one GPU.
"""

import json

import numpy as np

from harness import RESULTS, finish, parser_for

N_WORDS, N_DIMS, NOISE_PER_WORD, IN_A_MACHINE = 2_472_211, 300, 7.5, 8


def shares(power=1.0):
    p = 1.0 / np.arange(1, N_WORDS + 1) ** power
    return p / p.sum()


def changed(n_draws, p):
    """Expected number of different words among independent draws."""
    return float(-np.expm1(n_draws * np.log1p(-p)).sum())


def drawn(n_draws, p, seed=0):
    """The same, counted in one sample."""
    counts = np.random.default_rng(seed).multinomial(n_draws, p)
    return int(np.count_nonzero(counts))


def main():
    parser = parser_for(__doc__, name="h200")
    parser.add_argument("--words", type=float, default=1e12)
    parser.add_argument("--round", type=float, nargs="+", default=[1e6, 16e6, 128e6])
    parser.add_argument("--gpus", type=int, nargs="+", default=[1, 8, 64, 256])
    parser.add_argument("--nvlink", type=float, default=400)
    parser.add_argument("--network", type=float, default=50)
    parser.add_argument("--price", type=float, default=3.5)
    given = parser.parse_args()
    path = RESULTS / "train_gpu" / "full-scale.json"
    rate = 1e6 * json.loads(path.read_text())["rows"][-1]["M words/s"]
    text, noise = shares(), shares(0.75)
    both = (text + NOISE_PER_WORD * noise) / (1 + NOISE_PER_WORD)
    rows = []
    for n in given.gpus:
        for words in given.round if n > 1 else given.round[:1]:
            inputs = changed(n * words, text)
            outputs = changed(n * words * (1 + NOISE_PER_WORD), both)
            merged = 4 * N_DIMS * (inputs + outputs) * 2 * (n - 1) / n
            width = given.nvlink if n <= IN_A_MACHINE else given.network
            seconds = words / rate + merged / (1e9 * width)
            hours = given.words / (n * words) * seconds / 3600
            rows.append(
                {
                    "gpus": n,
                    "words in a round": int(words),
                    "GB sent in a round": round(merged / 1e9, 2),
                    "bytes a word": round(merged / words),
                    "share of time on the network": round(1 - words / rate / seconds, 3),
                    "hours": round(hours, 3),
                    "dollars": round(hours * n * given.price),
                }
            )
    sample = 2_000_000
    summary = {
        "M words/s of one": rate / 1e6,
        "different words in 2 M, expected": round(changed(sample, text)),
        "counted": drawn(sample, text),
        "dollars an hour": given.price,
    }
    title = f"Training {given.words:.0e} words on several H200, simulated from the rate of one"
    finish("several_gpus", rows, summary=summary, title=title, save=given.save, name=given.name)


if __name__ == "__main__":
    main()
