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
        if record.exc_info and record.exc_info[0] is not None:
            frame = traceback.extract_tb(record.exc_info[2])[-1]
            line["exception"] = record.exc_info[0].__name__
            line["place"] = f"{frame.filename}:{frame.lineno}"
        return orjson.dumps(line).decode()


LOG_CONFIG: dict[str, Any] = {  # for logging.config.dictConfig and uvicorn's log_config
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"json": {"()": JsonFormatter}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "json"}},
    "loggers": {
        name: {"handlers": ["stderr"], "level": "INFO", "propagate": False}
        for name in ("uvicorn", LOGGER.name)
    },
}
