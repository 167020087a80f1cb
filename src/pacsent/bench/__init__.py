"""Scores: datasets, the rows of the table, the protocol, the whole reproduction, its report."""

from pacsent.lazy import offer

__getattr__, __dir__ = offer(
    __name__,
    {
        "datasets": "datasets",
        "rows": "rows",
        "evaluation": "evaluation",
        "reproduction": "reproduction",
        "report": "report",
        "demo": "demo",
        "mteb": "mteb",
        "evaluate": "evaluation",
    },
)
