"""Filters of a search: what matches, and what is refused."""

from collections.abc import Iterator
from functools import cache, partial

import numpy as np
import pandas as pd

import pacsent
from hostile.material import TEXTS, new
from hostile.running import Case

NAN = float("nan")
METADATA = {
    "year": [2018, 2019, 2020, 2021, 2020, None],
    "tag": ["a", "b", "a", "2020", None, "c"],
    "flag": [True, False, True, None, False, True],
    "score": [0.5, 1.0, 2.5, NAN, -1.0, 1.0],
}


def _matches() -> Iterator[tuple[dict, list[int]]]:
    """Filters and the rows that they select."""
    yield {}, [0, 1, 2, 3, 4, 5]
    yield {"year": 2020, "flag": True}, [2]

    yield {"year": 2020}, [2, 4]
    yield {"year": 2020.0}, [2, 4]
    yield {"year": np.int64(2020)}, [2, 4]
    yield {"year": range(2019, 2021)}, [1, 2, 4]
    yield {"year": np.arange(2019, 2021)}, [1, 2, 4]
    yield {"year": {2018, 2021}}, [0, 3]
    yield {"year": (2018,)}, [0]
    yield {"year": []}, []
    yield {"year": None}, [5]
    yield {"year": {">": 2019}}, [2, 3, 4]
    yield {"year": {">=": np.float32(2019), "<": 2021}}, [1, 2, 4]
    yield {"year": {"!=": 2020}}, [0, 1, 3]
    yield {"year": ["2020", True]}, []

    yield {"tag": "a"}, [0, 2]
    yield {"tag": np.str_("a")}, [0, 2]
    yield {"tag": np.array(["b", "c"])}, [1, 5]
    yield {"tag": {">": "a"}}, [1, 5]
    yield {"tag": 2020}, []

    yield {"flag": True}, [0, 2, 5]
    yield {"flag": np.True_}, [0, 2, 5]
    yield {"flag": [np.False_]}, [1, 4]
    yield {"flag": 1}, []

    yield {"score": 1}, [1, 5]
    yield {"score": {"<=": 1}}, [0, 1, 4, 5]
    yield {"score": NAN}, [3]


def _bad_filters() -> Iterator:
    """What is no filter of these columns."""
    yield {"nothing": 1}
    yield {"Year": 2020}
    yield {1: 2}
    yield {"tag": b"a"}
    yield [("year", 2020)]
    yield "year=2020"
    yield 2020
    yield lambda row: True

    yield {"year": {"!=": [2020]}}
    yield {"year": {"!=": "2020"}}
    yield {"year": {">": "2019"}}
    yield {"year": {">": None}}
    yield {"year": {">": NAN}}
    yield {"year": {"=": 2020}}
    yield {"year": {"==": 2020}}
    yield {"year": {}}
    yield {"year": {"in": [2020]}}
    yield {"year": (year for year in (2020,))}
    yield {"year": map(int, ["2020"])}
    yield {"year": lambda year: year > 2019}
    yield {"year": [[2020]]}
    yield {"year": 2020 + 0j}
    yield {"year": pd.Series([2020]).items()}
    yield {"year": object()}


@cache
def _index():
    index = pacsent.Index(new("Average").fit([]), lexical=True)
    index.add(TEXTS[:6], metadata=METADATA)
    return index


def _search(where) -> list[int]:
    hits = _index().search("good film quiet", k=6, where=where)
    return sorted(hit.id for hit in hits)


def _select(where, rows: list[int]) -> str:
    selected = _search(where)
    return "" if selected == rows else f"{selected} in place of {rows}"


def _refuse(where) -> None:
    _search(where)


def cases() -> Iterator[Case]:
    for number, (where, rows) in enumerate(_matches()):
        yield Case(f"{number}: where={where!r}", partial(_select, where, rows), "ok")

    for number, where in enumerate(_bad_filters()):
        yield Case(f"{number}: where={where!r}", partial(_refuse, where), "refused")
