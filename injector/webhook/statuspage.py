"""The status as a page for people: HTML without a script, a section a file, made of what ``/status.json`` says."""

from __future__ import annotations

import base64
import hashlib
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

from jinja2 import DictLoader, Environment, StrictUndefined
from markupsafe import Markup

from injector.webhook.chart import charts
from injector.webhook.comparison import percent
from injector.webhook.history import WINDOWS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jinja2 import Template

_FOLDER: Final = files(__package__)
_STYLE: Final = _FOLDER.joinpath("sections", "style.css").read_text(encoding="utf-8")
_STYLE_HASH: Final = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()

# What tells of revisions is kept by nobody, read as what it says it is, and by pages of its own origin alone.
DATA_HEADERS: Final[Mapping[str, str]] = {
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}
# Nothing of the page comes from elsewhere, no style but its own is applied, and nobody may frame it.
HEADERS: Final[Mapping[str, str]] = {
    **DATA_HEADERS,
    "Content-Security-Policy": f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
}
_WINDOW_NAMES: Final = {"10m": "10 minutes", "2h": "2 hours"}


def status_page(status: Mapping[str, Any]) -> str:
    """Return the page of a status, as ``health.Operations`` gathers it; every text in it is escaped."""
    windows = {name: _WINDOW_NAMES[name] for name in WINDOWS}
    # The only text that is not escaped is the project's own style sheet: its hash is that of its bytes.
    style = Markup(_STYLE)  # noqa: S704 -- see above
    return _template().render(
        status=status, faults=_faults(status), charts=charts(status), windows=windows, style=style
    )


@cache
def _template() -> Template:
    sections = {each.name: each.read_text("utf-8") for each in _FOLDER.joinpath("sections").iterdir()}
    pages = {**sections, "status.html": _FOLDER.joinpath("status.html").read_text("utf-8")}
    environment = Environment(
        loader=DictLoader(pages), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters.update(
        when=when,
        shares_text=shares_text,
        seen=seen,
        number=number,
        compact=compact,
        rate=rate,
        duration=duration,
        milliseconds=milliseconds,
        reasons=reasons,
    )
    return environment.get_template("status.html")


def _faults(status: Mapping[str, Any]) -> list[str]:
    certificate = status["certificate"] or {}
    return [
        *status["reload"]["errors"],
        *([f"certificate: {certificate['error']}"] if certificate.get("error") else []),
    ]


def when(seconds: float) -> str:
    """Return a time as people and machines read it: ``2026-01-31 12:00:05Z``."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%SZ}"


def shares_text(tag: Mapping[str, Any]) -> str:
    """Return a tag's revisions and what share of the workloads each is to get."""
    return ", ".join(f"{name}: {percent(weight, tag):.4g} %" for name, weight in tag["weights"].items())


def seen(legend: Mapping[str, Any]) -> str:
    """Return what one revision of a chart got: in the last step, by its weight, and from the shadow."""
    last, weight = legend["last"], legend["percent"]
    return "; ".join(
        [
            *(
                [f"last step {last['share']}, about {_workloads(last['workloads'])}"]
                if last and last["workloads"]
                else []
            ),
            *([f"weight {weight:.4g} %"] if weight is not None else []),
            *(["tried by the shadow"] if legend["tried"] else []),
        ]
    )


def _workloads(count: int) -> str:
    return "1 workload" if count == 1 else f"{number(count)} workloads"


def number(count: int) -> str:
    """Return a count with its thousands apart: ``12,345``."""
    return f"{count:,}"


def compact(count: int) -> str:
    """Return a count in as few letters as fit beside an axis: ``9,999``, ``12.3k``, ``1.23M``."""
    if count < 10_000:  # noqa: PLR2004 -- five letters, with the comma
        return number(count)
    thousands = count / 1000
    return f"{thousands:.3g}k" if thousands < 999.5 else f"{thousands / 1000:.3g}M"  # noqa: PLR2004 -- else it is 1e+03k


def rate(share: float | None) -> str:
    """Return a share in percent, never rounded up to all: ``99.99 %`` of a million with one failure."""
    if share is None:
        return "none"
    return "100 %" if share == 1 else f"{min(100 * share, 99.99):.2f} %"


def duration(seconds: float) -> str:
    """Return how long a step is: ``10 s``, ``2 min``."""
    return f"{seconds / 60:g} min" if seconds >= 60 else f"{seconds:g} s"  # noqa: PLR2004 -- a minute


def milliseconds(seconds: float | None) -> str:
    """Return how long requests took, as exact as a histogram tells it: ``1.23 ms``, ``2.5 s``."""
    if seconds is None:
        return "none"
    return f"{seconds:.3g} s" if seconds >= 1 else f"{1000 * seconds:.3g} ms"


def reasons(counts: Mapping[str, int]) -> str:
    """Return counts by reason in words, the most frequent first."""
    ordered = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    return ", ".join(f"{reason} {number(count)}" for reason, count in ordered)
