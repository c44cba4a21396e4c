"""What a load changed, as lines for the log: only what is new since the report before."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from injector.errors import InternalError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from injector.errors import InjectorError
    from injector.revisions.reload import LoadReport, RevisionState
    from injector.revisions.tags import Tag


def changes(before: LoadReport, after: LoadReport) -> Iterator[tuple[int, str]]:
    """Yield a level and a text for everything that differs, errors first."""
    if after.source_error is not None:
        if str(after.source_error) != str(before.source_error):
            yield logging.ERROR, f"everything stays as it was: {after.source_error}"
        return
    if before.source_error is not None:
        yield logging.INFO, "the configuration can be read again"
    yield from _errors(before, after)
    for name in before.revisions:
        if name not in after.revisions:
            yield logging.INFO, f"revision {name}: gone"
    for name, state in after.revisions.items():
        yield from _served(before.revisions.get(name), state, mended=before.source_error is None)
    yield from _tags(before.tags, after.tags)


def _errors(before: LoadReport, after: LoadReport) -> Iterator[tuple[int, str]]:
    known = {str(error) for error in before.errors}
    kept = {str(state.error) for state in after.revisions.values() if state.served is not None}
    for error in after.errors:
        if str(error) not in known:
            which = "not served, the last good one stays" if str(error) in kept else "not served"
            yield logging.ERROR, f"{which}: {error}{_origin(error)}"


def _origin(error: InjectorError) -> str:
    """Return where a fault of the injector's own came from."""
    return f" ({error.origin})" if isinstance(error, InternalError) and error.origin else ""


def _served(before: RevisionState | None, state: RevisionState, *, mended: bool) -> Iterator[tuple[int, str]]:
    revision = state.served
    if revision is None:
        return
    if before is not None and _same(before, state):
        if mended and before.error is not None and state.error is None:
            yield logging.INFO, f"revision {state.name}: its source holds what is served again"
        for note in state.notes:
            if note not in before.notes:
                yield logging.WARNING, f"revision {state.name}: {note}"
        return
    istio = f"Istio {revision.istio_version} ({revision.version_reason}), {revision.engine}"
    yield logging.INFO, f"revision {revision.name}: {istio}, fingerprint {revision.fingerprint}, from {revision.origin}"
    for note in state.notes:
        yield logging.WARNING, f"revision {state.name}: {note}"


def _same(before: RevisionState, after: RevisionState) -> bool:
    """Tell whether the same build is served; nodes and namespaces that come and go leave it what it is."""
    if before.served is None or after.served is None:
        return False
    same_build = before.loaded_at == after.loaded_at and before.served.fingerprint == after.served.fingerprint
    return before.served is after.served or same_build


def _tags(before: Mapping[str, Tag], after: Mapping[str, Tag]) -> Iterator[tuple[int, str]]:
    for name in before:
        if name not in after:
            yield logging.INFO, f"tag {name}: gone"
    for name, tag in after.items():
        if before.get(name) != tag:
            yield logging.INFO, f"tag {name}: {_targets(tag)}"


def _targets(tag: Tag) -> str:
    if len(tag.weights) == 1:
        return tag.revision
    return ", ".join(f"{target} {weight}" for target, weight in tag.weights)
