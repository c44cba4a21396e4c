"""The status page: HTML without a script, rendered from the data of ``/status.json``, one template file for each section."""

from __future__ import annotations

import base64
import hashlib
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from jinja2 import DictLoader, Environment, StrictUndefined
from markupsafe import Markup

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jinja2 import Template

_FOLDER: Final = files(__package__)
_STYLE: Final = _FOLDER.joinpath("sections", "style.css").read_text(encoding="utf-8")
_STYLE_HASH: Final = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()

# The status is not cached, is read as the type that it declares, and only by pages of its own origin.
DATA_HEADERS: Final[Mapping[str, str]] = {
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}
# The page loads nothing, applies only its own style sheet, and cannot be framed.
HEADERS: Final[Mapping[str, str]] = {
    **DATA_HEADERS,
    "Content-Security-Policy": f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
}


def status_page(status: Mapping[str, Any]) -> str:
    """Return the page of a status as ``health.Operations`` collects it; every text in it is escaped."""
    # The project's own style sheet is the only text that is not escaped: the policy has the hash of these bytes.
    style = Markup(_STYLE)  # noqa: S704 -- see above
    return _template().render(status=status, faults=_faults(status), style=style)


@cache
def _template() -> Template:
    sections = {each.name: each.read_text("utf-8") for each in _FOLDER.joinpath("sections").iterdir()}
    pages = {**sections, "status.html": _FOLDER.joinpath("status.html").read_text("utf-8")}
    environment = Environment(
        loader=DictLoader(pages), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters.update(
        when=when, shares=shares, percent=percent, number=number, rate=rate, milliseconds=milliseconds, reasons=reasons
    )
    return environment.get_template("status.html")


def _faults(status: Mapping[str, Any]) -> list[str]:
    certificate = status["certificate"] or {}
    return [
        *status["reload"]["errors"],
        *([f"certificate: {certificate['error']}"] if certificate.get("error") else []),
    ]


def when(seconds: float) -> str:
    """Return a time in a form that people and programs read: ``2026-01-31 12:00:05Z``."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%SZ}"


class Share(NamedTuple):
    """A revision of a tag: its part of the weights and of the requests since the start, in percent."""

    revision: str
    weight: float | None
    """None for a revision that the tag no longer has."""
    share: float | None
    """None if no request came by the tag."""


def shares(tag: Mapping[str, Any], requests: Sequence[Mapping[str, Any]]) -> list[Share]:
    """Return the revisions of a tag as it is now, then those that it sent requests to earlier."""
    weights: Mapping[str, int] = tag["weights"]
    counts = {each["revision"]: each["requests"] for each in requests if each["tag"] == tag["name"]}
    weight, came = sum(weights.values()), sum(counts.values())
    return [
        Share(
            name,
            100 * weights[name] / weight if name in weights else None,
            100 * counts.get(name, 0) / came if came else None,
        )
        for name in dict.fromkeys([*weights, *counts])
    ]


def percent(share: float | None) -> str:
    """Return a share in words: ``33.33 %``."""
    return "none" if share is None else f"{share:.4g} %"


def number(count: int) -> str:
    """Return a count with its thousands apart: ``12,345``."""
    return f"{count:,}"


def rate(share: float | None) -> str:
    """Return a success rate in percent. It is never rounded up to 100 %: one failure in a million gives ``99.99 %``."""
    if share is None:
        return "none"
    return "100 %" if share == 1 else f"{min(100 * share, 99.99):.2f} %"


def milliseconds(seconds: float | None) -> str:
    """Return a duration with the precision of a histogram: ``1.23 ms``, ``2.5 s``."""
    if seconds is None:
        return "none"
    return f"{seconds:.3g} s" if seconds >= 1 else f"{1000 * seconds:.3g} ms"


def reasons(counts: Mapping[str, int]) -> str:
    """Return counts by reason in words, the most frequent first."""
    ordered = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    return ", ".join(f"{reason} {number(count)}" for reason, count in ordered)
