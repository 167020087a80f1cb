"""Labelling with a guarantee: which text is next, what is on the disk, and when to stop."""

from pacsent.lazy import offer

__getattr__, __dir__ = offer(
    __name__,
    {
        "Labelling": "labelling_session",
        "agreement": "annotators",
    },
)
