"""The status: the data of ``/status.json``, and the page, HTML without a script, rendered from it by one template per section."""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from jinja2 import DictLoader, Environment, StrictUndefined, Template
from markupsafe import Markup

from injector.revisions.following import failure_of

if TYPE_CHECKING:
    from injector.metrics import Metrics, RequestRow
    from injector.revisions.registry import Snapshot
    from injector.revisions.reload import LoadReport, RevisionState
    from injector.revisions.tags import Tag
    from injector.webhook.lifecycle import Phase
    from injector.webhook.shadow import Shadows


def status_data(
    snapshot: Snapshot, report: LoadReport, phase: Phase, shadows: Shadows, *, version: str
) -> dict[str, Any]:
    """Return revisions, tags and the last reload as JSON data."""
    return {
        "version": version,
        "phase": phase.value,
        "default": snapshot.default,
        "reload": {
            "at": report.at,
            "failure": failure_of(report) or None,
            "errors": [str(error) for error in report.errors],
        },
        "revisions": [_revision(state) for state in report.revisions.values()],
        "tags": [_tag(tag) | {"shadow": _shadow(tag, snapshot, shadows)} for _, tag in sorted(snapshot.tags.items())],
        "shadowDropped": shadows.dropped,
        "sourceError": None if report.source_error is None else str(report.source_error),
        "tagErrors": [str(error) for error in report.tag_errors],
        "webhookErrors": list(report.webhook_faults),
    }


def _revision(state: RevisionState) -> dict[str, Any]:
    served = state.served
    row: dict[str, Any] = {
        "name": state.name,
        "served": served is not None,
        "valid": state.error is None,
        "error": None if state.error is None else str(state.error),
        "notes": [*state.notes, *_removal(state)],
    }
    if served is not None:
        row |= {
            "istioVersion": served.istio_version,
            "versionReason": served.version_reason,
            "engine": served.engine,
            "writtenRevision": served.written,
            "fingerprint": served.fingerprint,
            "origin": served.origin,
            "loadedAt": state.loaded_at,
            "removedUntil": state.removed_until or None,
        }
    return row


def _removal(state: RevisionState) -> list[str]:
    if not state.removed_until:
        return []
    until = datetime.fromtimestamp(state.removed_until, UTC)
    return [f"removed, served until {until:%Y-%m-%d %H:%M:%S} UTC"]


def _tag(tag: Tag) -> dict[str, Any]:
    return {
        "name": tag.name,
        "revision": tag.revision,
        "weights": dict(tag.weights),
        "salt": tag.salt or tag.name,
        "namespaces": {name: dict(weights) for name, weights in tag.namespaces.items()},
    }


def _shadow(tag: Tag, snapshot: Snapshot, shadows: Shadows) -> dict[str, Any] | None:
    if tag.shadow is None:
        return None
    tally = shadows.tally(tag.name, snapshot.revisions[tag.shadow.revision])
    return {"revision": tag.shadow.revision, "sample": tag.shadow.sample, **tally.status()}


def request_rows(metrics: Metrics) -> list[dict[str, Any]]:
    """Return the counters and latencies of requests since the start, by revision and tag."""
    latencies = metrics.latencies()
    return [_request_row(row, latencies.get((row.revision, row.tag), [])) for row in metrics.requests()]


def _request_row(row: RequestRow, latencies: list[tuple[float, int]]) -> dict[str, Any]:
    attempts = row.success + row.failure
    return {
        "revision": row.revision,
        "tag": row.tag,
        "requests": row.requests,
        "success": row.success,
        "skip": row.skip,
        "failure": row.failure,
        # Skipped pods do not count: they were not to be injected.
        "successRate": row.success / attempts if attempts else None,
        "failures": dict(row.failures),
        "skips": dict(row.skips),
        "p50Seconds": quantile(latencies, 0.5),
        "p99Seconds": quantile(latencies, 0.99),
    }


def quantile(bounds: Sequence[tuple[float, int]], share: float) -> float | None:
    """Estimate a quantile of a histogram like Prometheus' ``histogram_quantile`` (promql/quantile.go).

    Args:
        bounds: the cumulative buckets: upper bounds with counts, the last bound infinite.
        share: the quantile, from 0 to 1.

    Returns:
        The quantile, interpolated linearly within its bucket, at most the last finite bound; None without requests.
    """
    if not bounds or not bounds[-1][1]:
        return None
    rank = share * bounds[-1][1]
    lower, below = 0.0, 0
    for upper, count in bounds:
        if count >= rank and count > below:
            return lower if math.isinf(upper) else lower + (upper - lower) * (rank - below) / (count - below)
        lower, below = upper, count
    return lower


_FOLDER: Final = files(__package__)
_STYLE: Final = _FOLDER.joinpath("sections", "style.css").read_text(encoding="utf-8")
_STYLE_HASH: Final = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()

# Not cached, not sniffed, and readable only by pages of its own origin.
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
    """Render a status, as collected by ``health.Operations``, with every text escaped."""
    # Only the project's own style sheet is not escaped: the content security policy has its hash.
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
        *status["webhookErrors"],
        *([f"certificate: {certificate['error']}"] if certificate.get("error") else []),
    ]


def when(seconds: float) -> str:
    """Format a time: ``2026-01-31 12:00:05Z``."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%SZ}"


class Share(NamedTuple):
    """A revision of a tag, with its share of the weights and of the requests since the start, in percent."""

    revision: str
    weight: float | None
    """None if the tag no longer has the revision."""
    share: float | None
    """None if the tag had no requests."""


def shares(tag: Mapping[str, Any], requests: Sequence[Mapping[str, Any]]) -> list[Share]:
    """Return the current revisions of a tag, then former ones that got requests by it."""
    weights: Mapping[str, int] = tag["weights"]
    counts = {each["revision"]: each["requests"] for each in requests if each["tag"] == tag["name"]}
    all_weights, all_requests = sum(weights.values()), sum(counts.values())
    return [
        Share(
            name,
            100 * weights[name] / all_weights if name in weights else None,
            100 * counts.get(name, 0) / all_requests if all_requests else None,
        )
        for name in dict.fromkeys([*weights, *counts])
    ]


def percent(share: float | None) -> str:
    """Format a share: ``33.33 %``."""
    return "none" if share is None else f"{share:.4g} %"


def number(count: int) -> str:
    """Format a count: ``12,345``."""
    return f"{count:,}"


def rate(share: float | None) -> str:
    """Format a success rate. It is never rounded up to 100 %: one failure in a million gives ``99.99 %``."""
    if share is None:
        return "none"
    return "100 %" if share == 1 else f"{min(100 * share, 99.99):.2f} %"


def milliseconds(seconds: float | None) -> str:
    """Format a duration with three digits: ``1.23 ms``, ``2.5 s``."""
    if seconds is None:
        return "none"
    return f"{seconds:.3g} s" if seconds >= 1 else f"{1000 * seconds:.3g} ms"


def reasons(counts: Mapping[str, int]) -> str:
    """Format counts by reason, the most frequent first."""
    ordered = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    return ", ".join(f"{reason} {number(count)}" for reason, count in ordered)
