"""Unknown words by their spelling: the known word that a mistyped one was meant to be."""

import numpy as np

SHORTEST = 4  # letters: shorter words have too many neighbours to choose from
LONG = 7  # letters from which two edits are allowed
_MOST_KEPT = 1_000_000  # answers remembered


class Spelling:
    """Finds the known word nearest to an unknown one.

    An unknown word of 4 letters or more becomes the known word of 4 or more with the fewest edits
    (insertion, deletion, replacement, swap of neighbours): one, or in a word of 7 letters or more
    two; the most frequent of several. Where there is none the word stays unknown. The words are
    given in UTF-8 one after the other, most frequent first, and where each begins.
    """

    def __init__(self, data: np.ndarray, starts: np.ndarray):
        from pacsent._kernels import spelling_kernels as kernels

        self._data, self._starts = np.asarray(data), np.asarray(starts)
        self._masks = np.empty(self._starts.size - 1, dtype=np.uint32)
        kernels.letters_of(self._data, self._starts, self._masks)
        self._known: dict[str, int] = {}

    def __call__(self, word: str) -> int:
        """Row of the word that was meant; -1 where no known word is near."""
        found = self._known.get(word)
        if found is None:
            found = self._nearest(word.encode("utf-8", "surrogatepass"))
            if len(self._known) < _MOST_KEPT:
                self._known[word] = found
        return found

    def _nearest(self, word: bytes) -> int:
        from pacsent._kernels import spelling_kernels as kernels

        if not SHORTEST <= len(word) <= kernels.LONGEST:
            return -1
        most = 2 if len(word) >= LONG else 1
        data = np.frombuffer(word, dtype=np.uint8)
        mask = np.empty(1, dtype=np.uint32)
        kernels.letters_of(data, np.array([0, data.size]), mask)
        return int(
            kernels.nearest(self._data, self._starts, self._masks, data, mask[0], most, SHORTEST)
        )
