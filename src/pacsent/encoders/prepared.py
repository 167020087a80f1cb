"""What an estimator keeps between its calls, and when that is out of date."""

import threading
from collections.abc import Callable
from typing import Any

from pacsent.words.vectors import WordVectors


class Derived:
    """Values that follow from the parameters and from what `fit` learned.

    A value is made when it is first needed, once for all threads, and dropped as soon as `key`
    changes: a sequence of the parameters and whatever else the values depend on. Copies and
    pickles start empty.

    >>> derived = Derived()
    >>> derived.get((1.0,), "half", lambda: 0.5), derived.get((1.0,), "half", lambda: 99)
    (0.5, 0.5)
    >>> derived.get((2.0,), "half", lambda: 1.0)
    1.0
    """

    def __init__(self):
        self._key: tuple = ()
        self._values: dict[str, Any] = {}
        self._lock = threading.RLock()

    def get(self, key: tuple, name: str, make: Callable[[], Any]) -> Any:
        """Return the value with this name; `make` it where there is none for this key."""
        with self._lock:
            if not _same(key, self._key):
                self._key, self._values = key, {}
            if name not in self._values:
                self._values[name] = make()
            return self._values[name]

    def __reduce__(self):
        return Derived, ()


def _same(one: tuple, two: tuple) -> bool:
    """Numbers and names are compared by value, anything else by identity."""
    plain = (bool, int, float, str)
    return len(one) == len(two) and all(
        a is b or (isinstance(a, plain) and isinstance(b, plain) and a == b)
        for a, b in zip(one, two)
    )


class FittedOn:
    """The word vectors that a method learned from; others in their place are refused.

    `by_tables`: whether what was learned depends on the numbers of the tables, or on the words.
    """

    def __init__(self, words: WordVectors, swap_roles: bool, by_tables: bool):
        self.words, self.swap_roles, self.by_tables = words, swap_roles, by_tables

    def check(self, words: WordVectors, swap_roles: bool, name: str) -> None:
        """Raise ValueError where these are not the word vectors of `fit`."""
        changed = None
        if words is not self.words:
            if self.by_tables:
                changed = "word_vectors" if words.digest() != self.words.digest() else None
            elif words.vocabulary is not self.words.vocabulary and words.words != self.words.words:
                changed = "word_vectors, with other words,"
        elif self.by_tables and swap_roles != self.swap_roles:
            changed = "swap_roles"
        if changed:
            raise ValueError(
                f"{name} must be fitted with the word vectors it is used with. Got other {changed} "
                "after fit instead. Call fit again."
            )
        self.words = words  # the same numbers: not compared again
