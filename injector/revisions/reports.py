"""The report of a load: the state of each revision, the errors, and the log lines about what has changed."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from injector.errors import DataError, InjectorError, InternalError

if TYPE_CHECKING:
    from injector.istio.revision import Revision
    from injector.revisions.tags import Tag


@dataclass(frozen=True, slots=True)
class RevisionState:
    """The state of one revision after a load.

    Args:
        served: the revision in use, if any; an older one if ``error`` is set.
        error: why the source's current revision is not in use.
        loaded_at: when ``served`` was built, in seconds since the epoch.
        removed_until: until when it is served although the source no longer has it, in seconds since the epoch; 0 if the source has it.
        failed: the errors of its templates on built-in pods, by pod. Other pods are injected.
    """

    name: str
    served: Revision | None
    error: InjectorError | None = None
    loaded_at: float = 0.0
    notes: tuple[str, ...] = ()
    removed_until: float = 0.0
    failed: Mapping[str, str] = field(default_factory=dict)

    @property
    def warnings(self) -> tuple[str, ...]:
        """The built-in pods that the templates fail on, each with the error."""
        return tuple(
            f"fails on built-in pod {pod}, so it may fail on others: {error}" for pod, error in self.failed.items()
        )

    @property
    def remarks(self) -> tuple[str, ...]:
        """The warnings and notes."""
        return (*self.warnings, *self.notes)


@dataclass(frozen=True, slots=True)
class LoadReport:
    """The result of one load.

    ``source_error`` is set if the source could not be loaded at all, and is then the error of each revision. ``tags`` are the tags in
    use; ``at`` is the time of the load, in seconds since the epoch. ``webhook_faults`` are faults of the cluster's webhooks, which
    do not make a load invalid.
    """

    revisions: Mapping[str, RevisionState] = field(default_factory=dict)
    tag_errors: tuple[DataError, ...] = ()
    source_error: InjectorError | None = None
    tags: Mapping[str, Tag] = field(default_factory=dict)
    at: float = 0.0
    webhook_faults: tuple[str, ...] = ()

    @property
    def errors(self) -> tuple[InjectorError, ...]:
        """All errors, each once, revisions first."""
        errors = (self.source_error, *(state.error for state in self.revisions.values()), *self.tag_errors)
        return tuple(dict.fromkeys(error for error in errors if error is not None))


def failure_of(report: LoadReport) -> str:
    """Return why a reload counts as failed, one of ``metrics.RELOAD_FAILURES``; empty if it succeeded."""
    if any(isinstance(error, InternalError) for error in report.errors):
        return "internal"
    if report.source_error is not None:
        return "source"
    if any(state.error for state in report.revisions.values()):
        return "revision"
    return "tags" if report.tag_errors else ""


def report_changes(before: LoadReport, after: LoadReport) -> Iterator[tuple[int, str]]:
    """Yield a log level and a text for each difference, errors first."""
    if after.source_error is not None:
        if str(after.source_error) != str(before.source_error):
            yield logging.ERROR, f"keeping the current configuration: {after.source_error}"
        return
    if before.source_error is not None:
        yield logging.INFO, "the configuration can be read again"
    yield from _errors(before, after)
    for name in before.revisions:
        if name not in after.revisions:
            yield logging.INFO, f"revision {name}: removed"
    for name, state in after.revisions.items():
        yield from _served_changes(
            before.revisions.get(name), state, recovered=before.source_error is None, at=after.at
        )
    yield from _tags(before.tags, after.tags)
    yield from ((logging.WARNING, fault) for fault in after.webhook_faults if fault not in before.webhook_faults)


def _errors(before: LoadReport, after: LoadReport) -> Iterator[tuple[int, str]]:
    known = {str(error) for error in before.errors}
    serving_errors = {str(state.error) for state in after.revisions.values() if state.served is not None}
    for error in after.errors:
        if str(error) not in known:
            which = "not served, keeping the last good one" if str(error) in serving_errors else "not served"
            line = f" ({error.origin})" if isinstance(error, InternalError) and error.origin else ""
            yield logging.ERROR, f"{which}: {error}{line}"


def _served_changes(
    before: RevisionState | None, state: RevisionState, *, recovered: bool, at: float
) -> Iterator[tuple[int, str]]:
    revision = state.served
    if revision is None:
        return
    if state.removed_until and (before is None or not before.removed_until):
        seconds = f"{state.removed_until - at:.0f} s"
        yield logging.WARNING, f"revision {state.name}: removed; it is served for another {seconds}"
    if before is not None and before.removed_until and not state.removed_until:
        yield logging.INFO, f"revision {state.name}: its source has it again"
    if before is not None and _same(before, state):
        if recovered and before.error is not None and state.error is None:
            yield logging.INFO, f"revision {state.name}: its source matches the served revision again"
        for note in state.remarks:
            if note not in before.remarks:
                yield logging.WARNING, f"revision {state.name}: {note}"
        return
    istio = f"Istio {revision.istio_version} ({revision.version_reason}), {revision.engine}"
    yield logging.INFO, f"revision {revision.name}: {istio}, fingerprint {revision.fingerprint}, from {revision.origin}"
    for note in state.remarks:
        yield logging.WARNING, f"revision {state.name}: {note}"


def _same(before: RevisionState, after: RevisionState) -> bool:
    """Tell whether the same build is served, whatever its nodes and namespaces."""
    if before.served is None or after.served is None:
        return False
    same_build = before.loaded_at == after.loaded_at and before.served.fingerprint == after.served.fingerprint
    return before.served is after.served or same_build


def _tags(before: Mapping[str, Tag], after: Mapping[str, Tag]) -> Iterator[tuple[int, str]]:
    for name in before:
        if name not in after:
            yield logging.INFO, f"tag {name}: removed"
    for name, tag in after.items():
        if before.get(name) != tag:
            yield logging.INFO, f"tag {name}: {tag.destination}"
