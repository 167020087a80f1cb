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


def kept_words(ids, low, high, key, thresholds):
    """Places in [low, high) of the tokens that survive sub-sampling, and their windows' draws."""
    places = np.arange(low, high, dtype=np.uint64)
    draws = mix(np.uint64(key) + (places << np.uint64(16)))
    kept = (draws >> np.uint64(32)).astype(np.uint32) <= thresholds[np.asarray(ids[low:high])]
    return places[kept].astype(np.int64), (draws[kept] & np.uint64(0xFFFFFFFF))


def noise_words(place, first, count, key, table):
    """Negatives number first .. first + count - 1 of a tile."""
    numbers = np.arange(first, first + count, dtype=np.uint64)
    z = mix(np.uint64(key) + (np.uint64(place) << np.uint64(16)) + numbers)
    i = (z >> np.uint64(32)) * np.uint64(len(table)) >> np.uint64(32)
    low = (z & np.uint64(0xFFFFFFFF)).astype(np.uint32)
    i = i.astype(np.int64)
    return np.where(low <= table[i, 0], i, table[i, 1].astype(np.int64))


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
        start, length = int(chunks.starts[chunk]), int(chunks.lengths[chunk])
        before, after = int(chunks.before[chunk]), int(chunks.after[chunk])
        step = rate * max(MIN_RATE, 1 - (done + span * taken / len(order)))
        left, _ = kept_words(ids, start - before, start, key, thresholds)
        own, draws = kept_words(ids, start, start + length, key, thresholds)
        right, _ = kept_words(ids, start + length, start + length + after, key, thresholds)
        left, right = left[-shape.window :], right[: shape.window]
        places = np.concatenate([left, own, right])
        words = np.asarray(ids)[places].astype(np.int64)
        n_kept += own.size
        for i in range(0, own.size, shape.n_centres):
            centres = np.arange(i, min(i + shape.n_centres, own.size)) + left.size
            reach = 1 + (draws[centres - left.size] * np.uint64(shape.window) >> np.uint64(32))
            twin.train(places, words, centres, reach.astype(np.int64), step)
    return n_kept, twin.n_pairs, twin.loss


class _Twin:
    """Two tables and what one warp does to them."""

    def __init__(self, input_table, output_table, shape, noise, key):
        self.input, self.output, self.shape = input_table, output_table, shape
        self.noise, self.key = noise, key
        self.n_pairs, self.loss = 0, 0.0

    def train(self, places, words, centres, reach, rate):
        """All pairs of neighbouring centre words, which share negatives."""
        shape = self.shape
        low = max(0, int((centres - reach).min()))
        high = min(words.size - 1, int((centres + reach).max()))
        around = np.arange(low, high + 1)
        distance = np.abs(around[:, None] - centres[None, :])
        has = (distance > 0) & (distance <= reach[None, :])  # (n_contexts, n_centres)
        around, has = around[has.any(axis=1)], has[has.any(axis=1)]
        rows = self.input[torch.from_numpy(words[around])].clone()
        drawn = noise_words(places[centres[0]], 1, shape.n_negatives, self.key, self.noise)
        to_input = self._tile(rows, has, words[centres], drawn, rate)
        self.input.index_add_(0, torch.from_numpy(words[around]), to_input)
        self.n_pairs += int(has.sum())

    def _tile(self, rows, has, centres, drawn, rate):
        """Output rows are loaded and added group by group; returns the steps of the input rows."""
        shape = self.shape
        # a negative counts for every pair whose centre is another word
        other = centres[:, None] != drawn[None, :]  # (n_centres, n_negatives)
        seen = has.astype(np.float64)
        weights = torch.from_numpy(np.concatenate([seen, seen @ other], 1)).to(rows.dtype)
        labels = torch.zeros_like(weights)
        labels[:, : centres.size] = 1
        targets = np.concatenate([centres, drawn])
        numbers = np.arange(shape.n_negatives)
        slots = np.concatenate([np.arange(centres.size), shape.n_centres + numbers])
        to_input = torch.zeros_like(rows)
        for group in range(-(-shape.n_outputs // shape.group)):
            at = np.flatnonzero(slots // shape.group == group)
            here = torch.from_numpy(targets[at])
            outputs = self.output[here]
            step, changes, cost = tile_step(rows, outputs, labels[:, at], weights[:, at], rate)
            to_input += step
            self.loss += float(cost)
            self.output.index_add_(0, here, changes)
        return to_input
