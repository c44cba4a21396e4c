"""The operations port, which is plain HTTP and read only: probes, metrics and the status.

``/livez`` and ``/healthz`` check the event loop. ``/readyz`` answers whether a new pod would get its sidecar: at least one revision is
served, API servers accept the certificate, and every background task that injection needs runs.

The status is the data of ``/status.json``, and the page, HTML without a script, rendered from it by one template per section.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import math
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

from aiohttp import web
from aiohttp.hdrs import METH_GET, METH_HEAD
from jinja2 import DictLoader, Environment, StrictUndefined, Template
from markupsafe import Markup

from injector.metrics import CONTENT_TYPE
from injector.revisions.reports import failure_of
from injector.webhook.lifecycle import LoopLag, Phase, Supervisor

if TYPE_CHECKING:
    from injector.metrics import Metrics
    from injector.revisions.registry import Snapshot
    from injector.revisions.reload import Loader
    from injector.revisions.reports import LoadReport, RevisionState
    from injector.revisions.tags import Tag
    from injector.revisions.unservednames import UnservedNames
    from injector.webhook.handler import InjectHandler
    from injector.webhook.shadow import Shadows
    from injector.webhook.tls.certificatesource import CertificateSource


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
    served, until = state.served, datetime.fromtimestamp(state.removed_until, UTC)
    removal = [f"removed, served until {until:%Y-%m-%d %H:%M:%S} UTC"] if state.removed_until else []
    row: dict[str, Any] = {
        "name": state.name,
        "served": served is not None,
        "valid": state.error is None,
        "error": None if state.error is None else str(state.error),
        "warnings": list(state.warnings),
        "notes": [*state.notes, *removal],
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
    latencies = defaultdict(list, metrics.requests.latencies())
    return [
        {
            "revision": row.revision,
            "tag": row.tag,
            "requests": row.requests,
            "success": row.success,
            "skip": row.skip,
            "failure": row.failure,
            # Skipped pods do not count: they were not to be injected.
            "successRate": row.success / (row.success + row.failure) if row.success + row.failure else None,
            "failures": dict(row.failures),
            "skips": dict(row.skips),
            "p50Seconds": quantile(latencies[row.revision, row.tag], 0.5),
            "p99Seconds": quantile(latencies[row.revision, row.tag], 0.99),
        }
        for row in metrics.requests.rows()
    ]


def quantile(bounds: Sequence[tuple[float, int]], share: float) -> float | None:
    """Estimate a quantile of a histogram like Prometheus' ``histogram_quantile`` (promql/quantile.go); None without requests.

    ``bounds`` are the cumulative buckets: upper bounds with counts, the last bound infinite. The quantile is interpolated linearly within
    its bucket, and at most the last finite bound.
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


_FOLDER: Final = files(__package__).joinpath("status")
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


def status_page(status: Mapping[str, Any], *, refresh: bool = False) -> str:
    """Render a status, as collected by ``Operations``, with every text escaped.

    With ``refresh``, the browser loads the page again every 10 seconds.
    """
    # Only the project's own style sheet is not escaped: the content security policy has its hash.
    style = Markup(_STYLE)  # noqa: S704 -- see above
    colours = _Colours(status)
    tags: list[dict[str, Any]] = status["tags"]
    moving = [tag for tag in tags if len(tag["weights"]) > 1 or tag["namespaces"] or tag["shadow"]]
    stable = [tag for tag in tags if tag not in moving]
    few = len(tags) <= MAX_ROWS
    page = {
        "problems": _problems(status),
        "tags": [*moving, *stable] if few else moving,
        "index": [] if few else stable,
        "tag_requests": tag_requests(status["requests"]),
        "rev": colours.name,
        "bar": colours.bar,
        "now": status["time"],
    }
    return _template().render(status=status, style=style, refresh=refresh, **page)


@cache
def _template() -> Template:
    sections = {file.name: file.read_text("utf-8") for file in _FOLDER.joinpath("sections").iterdir()}
    pages = {**sections, "status.html": _FOLDER.joinpath("status.html").read_text("utf-8")}
    environment = Environment(
        loader=DictLoader(pages), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    filters = (when, ago, shares, percent, number, rate, milliseconds, reasons)
    environment.filters.update({function.__name__: function for function in filters})
    return environment.get_template("status.html")


def _problems(status: Mapping[str, Any]) -> list[str]:
    certificate, not_ready = status["certificate"] or {}, status["notReady"]
    error = certificate.get("error")
    return [
        *([f"not ready: {not_ready}"] if not_ready else []),
        *status["reload"]["errors"],
        *status["webhookErrors"],
        *([f"certificate: {error}"] if error and error != not_ready else []),
    ]


MAX_ROWS: Final = 12
"""More tags are shown as an index by revision. Only tags with several revisions or a shadow then have rows."""
COLOURS: Final = 8
"""How many colours the style sheet has for revisions."""


class _Colours:
    """The colour of each revision, which is the same in all sections. Unknown and former revisions have none."""

    def __init__(self, status: Mapping[str, Any]) -> None:
        names = sorted(revision["name"] for revision in status["revisions"])
        self._classes = {name: f"c{place % COLOURS}" for place, name in enumerate(names)}

    def name(self, name: str) -> Markup:
        """Return the name of a revision with a dot in its colour."""
        return Markup('<span class="rev {}">{}</span>').format(self._classes.get(name, "other"), name)

    def bar(self, parts: Mapping[str, float]) -> Markup:
        """Return a bar with a part for each revision, as long as its percentage."""
        markup, start = Markup(), 0.0
        for name, share in parts.items():
            part = Markup('<rect class="part {}" x="{:.2f}" width="{:.2f}" height="10"/>')
            markup += part.format(self._classes.get(name, "other"), start, share)
            start += share
        head = '<svg class="bar" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true" focusable="false">'
        return Markup(head + "{}</svg>").format(markup)  # noqa: S704 -- its own text


def when(seconds: float) -> str:
    """Format a time: ``2026-01-31 12:00:05Z``."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%SZ}"


def ago(seconds: float, now: float) -> str:
    """Format the time since ``seconds``, or until then: ``5 min ago``, ``in 89 days``."""
    length = abs(now - seconds)
    units = ((86_400, "days"), (3_600, "h"), (60, "min"))
    count, unit = next(((length // size, name) for size, name in units if length >= 2 * size), (length // 1, "s"))
    return f"in {count:.0f} {unit}" if seconds > now else f"{count:.0f} {unit} ago"


def shares(counts: Mapping[str, int]) -> dict[str, float]:
    """Return the percentage of each name; empty if nothing was counted."""
    total = sum(counts.values())
    return {name: 100 * count / total for name, count in counts.items()} if total else {}


def tag_requests(requests: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, int]]:
    """Return the requests since the start of each tag by revision, also of its former revisions."""
    requested: dict[str, dict[str, int]] = {}
    for request in requests:
        requested.setdefault(request["tag"], {})[request["revision"]] = request["requests"]
    return requested


def percent(share: float) -> str:
    """Format a share: ``33.33 %``."""
    return f"{share:.4g} %"


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


@dataclass(frozen=True, slots=True)
class Operations:
    """The handlers of the operations port, with what they report on. See ``Server`` for the attributes."""

    handler: InjectHandler
    loader: Loader
    version: str
    supervisor: Supervisor
    lag: LoopLag = field(default_factory=LoopLag)
    certificates: CertificateSource | None = None
    unserved: UnservedNames | None = None
    pending: Callable[[], str] = str
    upgrades: Callable[[], list[dict[str, Any]]] | None = None
    clock: Callable[[], float] = time.time

    @property
    def routes(self) -> Mapping[str, Callable[[web.BaseRequest], Awaitable[web.Response]]]:
        """The handlers by path."""
        return {
            "/livez": self.live,
            "/healthz": self.live,
            "/readyz": self.ready,
            "/metrics": self.series,
            "/": self.page,
            "/status": self.page,
            "/status.json": self.status,
        }

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a request."""
        handler = self.routes.get(request.rel_url.raw_path)
        if handler is None:
            raise web.HTTPNotFound
        if request.method not in (METH_GET, METH_HEAD):
            raise web.HTTPMethodNotAllowed(request.method, [METH_GET, METH_HEAD])
        return await handler(request)

    async def live(self, request: web.BaseRequest) -> web.Response:  # noqa: ARG002 -- aiohttp's signature
        """Answer 200, or 503 if the event loop is stuck."""
        return _probe_response(self.lag.fault())

    async def ready(self, request: web.BaseRequest) -> web.Response:  # noqa: ARG002 -- aiohttp's signature
        """Answer 200, or 503 with the reason."""
        return _probe_response(self._unready())

    async def series(self, request: web.BaseRequest) -> web.Response:  # noqa: ARG002 -- aiohttp's signature
        """Answer the metrics in the text format of Prometheus."""
        return web.Response(body=self.handler.metrics.exposition(), headers={"Content-Type": CONTENT_TYPE})

    async def page(self, request: web.BaseRequest) -> web.Response:
        """Answer the status as a page, which reloads itself with ``?refresh``, or as JSON with ``?format=json``."""
        if request.query.get("format") == "json":
            return await self.status(request)
        # Rendering the page of a large fleet takes a tenth of a second.
        text = await asyncio.to_thread(status_page, self._status(), refresh="refresh" in request.query)
        return web.Response(text=text, content_type="text/html", headers=HEADERS)

    async def status(self, request: web.BaseRequest) -> web.Response:  # noqa: ARG002 -- aiohttp's signature
        """Answer the status as JSON."""
        return web.json_response(self._status(), headers=DATA_HEADERS)

    def _status(self) -> dict[str, Any]:
        handler, report = self.handler, self.loader.report
        snapshot, phase = handler.registry.snapshot, handler.lifecycle.phase
        return {
            **status_data(snapshot, report, phase, handler.shadows, version=self.version),
            "notReady": self._unready() or None,
            "refusals": handler.decisions.recent(),
            "certificate": None if self.certificates is None else self.certificates.status(),
            "unserved": None if self.unserved is None else self.unserved.to_dict(),
            "upgrades": None if self.upgrades is None else self.upgrades(),
            "time": self.clock(),
            "requests": request_rows(handler.metrics),
        }

    def _unready(self) -> str:
        phase = self.handler.lifecycle.phase
        if phase is not Phase.SERVING:
            pending = self.pending() if phase is Phase.STARTING else ""
            return f"{phase.value}: {pending}" if pending else str(phase.value)
        if not self.handler.registry.snapshot.revisions:
            return "no revision is served"
        fault = "" if self.certificates is None else self.certificates.fault()
        return fault or self.supervisor.fault()


def _probe_response(fault: str) -> web.Response:
    return web.Response(text=fault or "ok", status=503 if fault else 200)
