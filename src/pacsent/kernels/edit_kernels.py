"""Kernels on sequences of words: edit distances, and clusters around representatives."""

import numpy as np

from pacsent.kernels.compiling import njit


@njit(cache=True, nogil=True)
def edit_distance(a, b, limit, row):
    """Insertions, deletions and replacements of words between a and b; limit + 1 if more.

    Only cells within `limit` of the diagonal are computed. `row` has room for len(b) + 1 numbers.
    """
    if abs(a.size - b.size) > limit:
        return limit + 1
    for j in range(b.size + 1):
        row[j] = j
    for i in range(1, a.size + 1):
        first, last = max(1, i - limit), min(b.size, i + limit)
        diagonal = row[first - 1]
        row[first - 1] = i if first == 1 else limit + 1
        smallest = row[first - 1]
        for j in range(first, last + 1):
            above = row[j] if j < i + limit else limit + 1
            cost = min(diagonal + (a[i - 1] != b[j - 1]), above + 1, row[j - 1] + 1)
            diagonal = row[j]
            row[j] = cost
            smallest = min(smallest, cost)
        if smallest > limit:
            return limit + 1
    return min(row[b.size], limit + 1)


@njit(cache=True, nogil=True)
def cluster_by_edits(words, starts, rare, rare_starts, lists, room):
    """The representative of each text, the first of its cluster.

    A text joins the nearest earlier representative within a quarter of the longer text, or else
    that of an earlier text from which it differs in one word, if that text joined in the first way.

    words[starts[i]:starts[i + 1]] are those of text i. rare[rare_starts[i]:rare_starts[i + 1]] are
    numbers of its rarest words: of n words these are n // 4 + 1 + n // 6, so that two texts within
    the distance have at least 1 + n // 6 of them in common, n being that of the shorter text. The
    texts that contain a rare word are listed in a part of one array, from lists[0, word] to
    lists[1, word], the same at first. `room` is three rows of zeros, as long as there are texts and
    longer than any text. Arrays come from outside: what makes them takes seconds to compile.
    """
    n_texts = starts.size - 1
    representative = np.empty(n_texts, np.int64)
    listed = np.empty(rare.size, np.int32)
    row, n_common, candidates = room[0], room[1], room[2]
    for i in range(n_texts):
        representative[i] = i
        a = words[starts[i] : starts[i + 1]]
        own = rare[rare_starts[i] : rare_starts[i + 1]]
        n_candidates = 0
        for word in own:
            for place in range(lists[0, word], lists[1, word]):
                other = listed[place]
                if n_common[other] == 0:
                    candidates[n_candidates] = other
                    n_candidates += 1
                n_common[other] += 1
        best, joins_directly = a.size, True
        for other in candidates[:n_candidates]:
            b = words[starts[other] : starts[other + 1]]
            if n_common[other] > min(a.size, b.size) // 6:
                limit = max(a.size, b.size) // 4
                is_first = representative[other] == other
                if not is_first:
                    limit = min(limit, 1) if representative[i] == i else -1
                elif joins_directly:
                    limit = min(limit, best - 1)
                distance = edit_distance(a, b, limit, row)
                if distance <= limit:
                    best, joins_directly = distance, is_first
                    representative[i] = representative[other]
            n_common[other] = 0
        if joins_directly:
            for word in own:
                listed[lists[1, word]] = i
                lists[1, word] += 1
    return representative
