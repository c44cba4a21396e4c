"""Log lines: text for a terminal, and JSON for everything else."""

from __future__ import annotations

import json
import logging
import re
import time
from typing import Any, Final, TextIO

from injector.errors import whereabouts
from injector.kube.escaping import escape_line

FIELDS: Final = "fields"
"""The attribute of a log record with the fields for formatters."""

_PLAIN: Final = re.compile(r"[\w./:+@%,-]+", re.ASCII)


class TextFormatter(logging.Formatter):
    """Formats lines such as ``2026-01-31T12:00:05.123Z INFO skipped reason=label revision=1-24``.

    Names in a message come from requests, so control characters are escaped. An exception is shown by its class and places only: its
    text, and so a traceback, may quote a pod or a file.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        words = [_time(record), record.levelname, record.getMessage()]
        words += [f"{name}={_quoted(str(value))}" for name, value in _fields(record).items()]
        return escape_line(" ".join(words))


class JsonFormatter(logging.Formatter):
    """Formats a JSON object with ``time``, ``level``, ``logger``, ``message`` and the fields of the record."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        return json.dumps({**line, **_fields(record)})


def log_to(stream: TextIO, log_format: str) -> None:
    """Log to ``stream``. The format ``auto`` means text on a terminal, else JSON."""
    text = log_format == "text" or (log_format == "auto" and stream.isatty())
    handler = logging.StreamHandler(stream)
    handler.setFormatter(TextFormatter() if text else JsonFormatter())
    logging.basicConfig(level=logging.INFO, handlers=[handler])


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    fields: dict[str, Any] = getattr(record, FIELDS, {})
    error = record.exc_info[1] if record.exc_info else None
    return fields if error is None else {**fields, "error": whereabouts(error)}


def _time(record: logging.LogRecord) -> str:
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(record.created))}.{int(record.msecs):03d}Z"


def _quoted(text: str) -> str:
    return text if _PLAIN.fullmatch(text) else json.dumps(text)
