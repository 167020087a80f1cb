"""What the Skip-gram kernel of the GPU does, tile by tile in plain torch, draws included."""

import numpy as np
import torch

from pacsent.words.gpu.device import mix
from pacsent.words.gpu.skipgram import MIN_RATE, alias_table, keep_thresholds


def tile_step(input_rows, output_rows, labels, weights, rate):
    """Steps of one tile: what is added to its input rows and to its output rows, and its loss.

    Labels are 1 where the output word is the context's centre word, weights how often a pair
    counts, both of shape (n_contexts, n_outputs).
    """
    scores = input_rows @ output_rows.T  # (n_contexts, n_outputs)
    sign = 2 * labels - 1
    loss = (weights * torch.nn.functional.softplus(-sign * scores)).sum()
    steps = rate * weights * (labels - torch.sigmoid(scores))
    return steps @ output_rows, steps.T @ input_rows, loss


def _high_bits(draws):
    return draws >> np.uint64(32)


def _low_bits(draws):
    return draws & np.uint64(0xFFFFFFFF)


def _scale(draws, n):
    """Draws of 32 bits as integers below n."""
    return _high_bits(draws * np.uint64(n)).astype(np.int64)


def kept_words(ids, low, high, key, thresholds):
    """Places in [low, high) of the tokens that survive sub-sampling, and their windows' draws."""
    places = np.arange(low, high, dtype=np.uint64)
    words = np.asarray(ids[low:high])
    draws = mix(np.uint64(key) + (places << np.uint64(16)))
    kept = _high_bits(draws).astype(np.uint32) <= thresholds[words]
    return places[kept].astype(np.int64), _low_bits(draws[kept])


def noise_words(place, first, count, key, table):
    """Negatives number first .. first + count - 1 of a tile."""
    numbers = np.arange(first, first + count, dtype=np.uint64)
    own_key = np.uint64(key) + (np.uint64(place) << np.uint64(16))
    draws = mix(own_key + numbers)

    rows = _scale(_high_bits(draws), len(table))
    is_own = _low_bits(draws).astype(np.uint32) <= table[rows, 0]
    others = table[rows, 1].astype(np.int64)
    return np.where(is_own, rows, others)


def replay(
    input_table, output_table, ids, chunks, order, shape, *, keep, noise, key, rate, done, span
):
    """Do in plain torch what one warp does in one launch, draw for draw; tables change in place.

    Returns n_kept, n_pairs, loss.
    """
    thresholds = keep_thresholds(keep)
    twin = _Twin(input_table, output_table, shape, alias_table(noise), key)
    n_kept = 0
    for taken, chunk in enumerate(order):
        start = int(chunks.starts[chunk])
        end = start + int(chunks.lengths[chunk])
        first = start - int(chunks.before[chunk])
        last = end + int(chunks.after[chunk])
        share_done = done + span * taken / len(order)
        step = rate * max(MIN_RATE, 1 - share_done)

        left, _ = kept_words(ids, first, start, key, thresholds)
        own, draws = kept_words(ids, start, end, key, thresholds)
        right, _ = kept_words(ids, end, last, key, thresholds)
        left = left[-shape.window :]
        right = right[: shape.window]
        places = np.concatenate([left, own, right])
        words = np.asarray(ids)[places].astype(np.int64)
        n_kept += own.size

        for i in range(0, own.size, shape.n_centres):
            numbers = np.arange(i, min(i + shape.n_centres, own.size))
            reach = 1 + _scale(draws[numbers], shape.window)
            twin.train(places, words, numbers + left.size, reach, step)
    return n_kept, twin.n_pairs, twin.loss


class _Twin:
    """Two tables and what one warp does to them."""

    def __init__(self, input_table, output_table, shape, noise, key):
        self.input = input_table
        self.output = output_table
        self.shape = shape
        self.noise = noise
        self.key = key
        self.n_pairs = 0
        self.loss = 0.0

    def train(self, places, words, centres, reach, rate):
        """All pairs of neighbouring centre words, which share negatives."""
        lefts = centres - reach
        rights = centres + reach
        low = max(0, int(lefts.min()))
        high = min(words.size - 1, int(rights.max()))
        around = np.arange(low, high + 1)
        distance = np.abs(around[:, None] - centres)
        has = (distance > 0) & (distance <= reach)  # (n_contexts, n_centres)
        is_context = has.any(axis=1)
        has = has[is_context]

        contexts = torch.from_numpy(words[around[is_context]])
        rows = self.input[contexts].clone()
        place = places[centres[0]]
        drawn = noise_words(place, 1, self.shape.n_negatives, self.key, self.noise)
        to_input = self._tile(rows, has, words[centres], drawn, rate)
        self.input.index_add_(0, contexts, to_input)
        self.n_pairs += int(has.sum())

    def _tile(self, rows, has, centres, drawn, rate):
        """Output rows are loaded and added group by group; returns the steps of the input rows."""
        shape = self.shape
        # A negative counts for every pair whose centre is another word.
        is_other = centres[:, None] != drawn  # (n_centres, n_negatives)
        seen = has.astype(np.float64)
        counts = np.concatenate([seen, seen @ is_other], axis=1)
        weights = torch.from_numpy(counts).to(rows.dtype)
        labels = torch.zeros_like(weights)
        labels[:, : centres.size] = 1

        targets = np.concatenate([centres, drawn])
        negative_slots = shape.n_centres + np.arange(shape.n_negatives)
        slots = np.concatenate([np.arange(centres.size), negative_slots])
        groups = slots // shape.group
        n_groups = -(-shape.n_outputs // shape.group)
        to_input = torch.zeros_like(rows)
        for group in range(n_groups):
            at = np.flatnonzero(groups == group)
            here = torch.from_numpy(targets[at])
            outputs = self.output[here]
            step, changes, cost = tile_step(rows, outputs, labels[:, at], weights[:, at], rate)
            to_input += step
            self.loss += float(cost)
            self.output.index_add_(0, here, changes)
        return to_input
