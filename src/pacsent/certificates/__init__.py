"""Promises: certificates, what they are made of, and the simulation that counts their failures."""

from pacsent.lazy import offer

__getattr__, __dir__ = offer(
    __name__,
    {
        "certify": "certifying",
        "Certificate": "certifying",
        "VacuousBoundWarning": "certifying",
        "simulate": "simulation",
    },
)
