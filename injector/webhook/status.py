"""What is served and what is wrong, as ``/status.json`` shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from injector.metrics import RevisionRow

if TYPE_CHECKING:
    from injector.revisions.registry import Snapshot
    from injector.revisions.reload import LoadReport, RevisionState
    from injector.revisions.tags import Tag
    from injector.webhook.lifecycle import Phase
    from injector.webhook.shadow import Shadows


def status(snapshot: Snapshot, report: LoadReport, phase: Phase, shadows: Shadows, *, version: str) -> dict[str, Any]:
    """Return the state of the injector as JSON data."""
    return {
        "version": version,
        "phase": phase.value,
        "default": snapshot.default,
        "revisions": [_revision(state) for state in report.revisions.values()],
        "tags": [_tag(tag) | {"shadow": _shadow(tag, snapshot, shadows)} for _, tag in sorted(snapshot.tags.items())],
        "shadowDropped": shadows.dropped,
        "sourceError": None if report.source_error is None else str(report.source_error),
        "tagErrors": [str(error) for error in report.tag_errors],
    }


def _revision(state: RevisionState) -> dict[str, Any]:
    served = state.served
    found: dict[str, Any] = {
        "name": state.name,
        "served": served is not None,
        "valid": state.error is None,
        "error": None if state.error is None else str(state.error),
        "notes": list(state.notes),
    }
    if served is not None:
        found |= {
            "istioVersion": served.istio_version,
            "versionReason": served.version_reason,
            "engine": served.engine,
            "writtenRevision": served.written,
            "fingerprint": served.fingerprint,
            "origin": served.origin,
            "loadedAt": state.loaded_at,
        }
    return found


def _tag(tag: Tag) -> dict[str, Any]:
    return {"name": tag.name, "revision": tag.revision, "weights": dict(tag.weights), "salt": tag.salt or tag.name}


def _shadow(tag: Tag, snapshot: Snapshot, shadows: Shadows) -> dict[str, Any] | None:
    if tag.shadow is None:
        return None
    tally = shadows.tally(tag.name, snapshot.revisions[tag.shadow.revision])
    return {"revision": tag.shadow.revision, "sample": tag.shadow.sample, **tally.shown()}


def revision_rows(report: LoadReport) -> dict[str, RevisionRow]:
    """Return the revisions of a report as the metrics show them."""
    return {name: _row(state) for name, state in report.revisions.items()}


def _row(state: RevisionState) -> RevisionRow:
    if state.served is None:
        return RevisionRow(valid=False)
    return RevisionRow(
        valid=state.error is None,
        loaded_at=state.loaded_at,
        istio_version=state.served.istio_version,
        fingerprint=state.served.fingerprint,
    )
