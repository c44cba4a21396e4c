"""The status as a page for people: one HTML file, without a script, made of what ``/status.json`` says."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, StrictUndefined

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jinja2 import Template

# What tells of revisions is kept by nobody, read as what it says it is, and by pages of its own origin alone.
DATA_HEADERS: Mapping[str, str] = {
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}
# Nothing of the page comes from elsewhere or goes there, and nobody may frame it.
HEADERS: Mapping[str, str] = {
    **DATA_HEADERS,
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
}


def status_page(status: Mapping[str, Any]) -> str:
    """Return the page of a status, as ``status.status`` returns it; every text in it is escaped."""
    return _template().render(status=status, faults=_faults(status))


@cache
def _template() -> Template:
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    environment.filters.update(when=when, shares=shares, shares_text=shares_text)
    return environment.from_string(files(__package__).joinpath("status.html").read_text(encoding="utf-8"))


def _faults(status: Mapping[str, Any]) -> list[str]:
    source, certificate = status["sourceError"], status["certificate"]
    return [
        *([source] if source else []),
        *status["tagErrors"],
        *([f"certificate: {certificate['error']}"] if certificate and certificate.get("error") else []),
    ]


def when(seconds: float) -> str:
    """Return a time as people and machines read it: ``2026-01-31 12:00:05Z``."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%SZ}"


def shares(tag: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the bars of a tag's revisions in percent of the whole, one after the other, as ``start``, ``width``, ``text``."""
    total = sum(tag["weights"].values())
    found, start = [], 0.0
    for name, weight in tag["weights"].items():
        width = 100 * weight / total
        found.append({"start": f"{start:.2f}", "width": f"{width:.2f}", "text": f"{name}: {width:.4g} %"})
        start += width
    return found


def shares_text(tag: Mapping[str, Any]) -> str:
    """Return the shares in words, for those who do not see the bars."""
    return ", ".join(share["text"] for share in shares(tag))
