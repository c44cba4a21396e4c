"""The data of ``/status.json``: revisions, tags, requests and problems."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

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
