"""The lines of the server's log, as text and as JSON."""

from __future__ import annotations

import io
import json
import logging
import sys

import pytest

from injector.cli.serve.server import JsonFormatter, TextFormatter, log_to
from injector.webhook.decisions import FIELDS

HOSTILE = "a\nINFO forged\r\x1b[2J\x00\x7f\x85\u2028\ud800 \"'"
CANARY = "s3cr3t-value"


def record_of(message: str = "skipped", **fields: object) -> logging.LogRecord:
    """A record of a fixed time."""
    record = logging.LogRecord("injector.x", logging.INFO, "x.py", 1, "%s", (message,), None)
    record.created, record.msecs = 0.0, 5.0
    setattr(record, FIELDS, fields)
    return record


def faulty() -> logging.LogRecord:
    """A record with an exception whose text is secret."""
    empty: dict[str, str] = {}
    try:
        empty[CANARY]
    except KeyError:
        error = sys.exc_info()
    return logging.LogRecord("aiohttp.server", logging.ERROR, "x.py", 1, "failed", (), error)


def test_a_line_of_text_has_time_level_message_and_fields() -> None:
    line = TextFormatter().format(record_of(reason="label", owner="Deployment/web", at="a b", ms=1.2))

    assert line == '1970-01-01T00:00:00.005Z INFO skipped reason=label owner=Deployment/web at="a b" ms=1.2'


def test_a_json_line_has_the_same_fields() -> None:
    line = JsonFormatter().format(record_of(reason="label", ms=1.2))

    assert json.loads(line) == {
        "time": "1970-01-01T00:00:00.005Z",
        "level": "info",
        "logger": "injector.x",
        "message": "skipped",
        "reason": "label",
        "ms": 1.2,
    }


@pytest.mark.parametrize("formatter", [TextFormatter(), JsonFormatter()])
def test_a_record_is_one_printable_line(formatter: logging.Formatter) -> None:
    for record in (record_of(HOSTILE), record_of(owner=HOSTILE)):
        line = formatter.format(record)

        assert line.isprintable()
        assert line.encode()
        assert "forged" in line


def test_json_restores_a_hostile_name() -> None:
    assert json.loads(JsonFormatter().format(record_of(owner=HOSTILE)))["owner"] == HOSTILE


@pytest.mark.parametrize("formatter", [TextFormatter(), JsonFormatter()])
def test_an_exception_is_shown_without_its_text(formatter: logging.Formatter) -> None:
    line = formatter.format(faulty())

    assert "KeyError at " in line
    assert "test_logs.py:" in line
    assert CANARY not in line
    assert line.isprintable()


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "form", "starts"),
    [(io.StringIO(), "auto", "{"), (Terminal(), "auto", "2"), (io.StringIO(), "text", "2"), (Terminal(), "json", "{")],
)
def test_the_format_depends_on_the_terminal_and_the_setting(
    monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, form: str, starts: str
) -> None:
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    monkeypatch.setattr(root, "level", logging.WARNING)

    log_to(stream, form)
    root.info("serving")
    root.debug("nothing")

    (line,) = stream.getvalue().splitlines()
    assert line.startswith(starts)
    assert "serving" in line
