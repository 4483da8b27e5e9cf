"""What a service writes to stderr: a line per request and per update, as text or as JSON."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any, Literal

Level = Literal["debug", "info", "warning", "error"]
Format = Literal["text", "json"]
request_id: ContextVar[str | None] = ContextVar("request_id", default=None)
_KNOWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}


def set_up(level: Level, format: Format) -> None:
    """Everything that is logged in this process, by whatever library, goes to stderr in one format."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines() if format == "json" else TextLines())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)


def event(logger: logging.Logger, message: str, facts: Mapping[str, Any]) -> None:
    """Log a message at level info; JSON has the facts beside it, each under its name."""
    logger.info(message, extra=dict(facts))


def _time(record: logging.LogRecord) -> str:
    seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
    return f"{seconds}.{int(record.msecs):03d}Z"


class TextLines(logging.Formatter):
    """Time, level, request, message; the trace of an error in the lines below."""

    def format(self, record: logging.LogRecord) -> str:
        words = [_time(record), record.levelname.lower(), request_id.get() or "-", record.getMessage()]
        trace = [self.formatException(record.exc_info)] if record.exc_info else []
        return "\n".join([" ".join(words), *trace])


class JsonLines(logging.Formatter):
    """One object a line, whatever is in the message: the facts of an event, and the trace of an error."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "request_id": request_id.get(),
            "message": record.getMessage(),
            **{name: value for name, value in vars(record).items() if name not in _KNOWN},
        }
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)
