"""Scores: datasets, the rows of the table, the protocol, the whole reproduction, its report."""

from pacsent.lazy import offer

__getattr__, __dir__ = offer(
    __name__,
    {
        "datasets": "datasets",
        "method_rows": "method_rows",
        "evaluation": "evaluation",
        "reproduction": "reproduction",
        "report": "report",
        "mteb": "mteb",
        "evaluate": "evaluation",
    },
)
