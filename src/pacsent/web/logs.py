"""Log records of the standard library as one JSON object per line."""

import logging
import traceback
from typing import Any

import orjson

LOGGER = logging.getLogger("pacsent.web")


class JsonFormatter(logging.Formatter):
    """Time, level, process, message, and the dictionary `fields` of the record.

    An exception is reported by its type and place: its message could contain a text.
    """

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": round(record.created, 3),
            "level": record.levelname.lower(),
            "worker": record.process,
            "event": record.getMessage(),
        }
        line |= getattr(record, "fields", {})
        if record.exc_info:
            exception_type, _, trace = record.exc_info
            if exception_type is not None:
                frame = traceback.extract_tb(trace)[-1]
                line["exception"] = exception_type.__name__
                line["place"] = f"{frame.filename}:{frame.lineno}"
        return orjson.dumps(line).decode()


_LOGGER_CONFIG = {"handlers": ["stderr"], "level": "INFO", "propagate": False}
# For logging.config.dictConfig and uvicorn's log_config.
LOG_CONFIG: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"json": {"()": JsonFormatter}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "json"}},
    "loggers": {"uvicorn": _LOGGER_CONFIG, LOGGER.name: _LOGGER_CONFIG},
}
