"""Which revision an offline command works with: from files, from a directory, or embedded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from injector.errors import UnknownRevisionError, UsageError
from injector.istio.webhooks import DEFAULT_NAME
from injector.revisions.build import build, overridden
from injector.revisions.directory import DirectorySource, SingleSource, embedded_source

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from injector.cli.flags import Behaviour
    from injector.istio.revision import Revision
    from injector.revisions.source import RawRevision, SourceState

REVISION_FLAG: Final = "--revision"


@dataclass(frozen=True, slots=True)
class Selection:
    """What the flags say about the revision: its name or tag, and the files that stand in for its own."""

    revision: str | None
    revisions_dir: Path | None
    config: Path | None
    values: Path | None
    mesh: Path | None


def selected_revision(selection: Selection, behaviour: Behaviour) -> Revision:
    """Read and build the one revision that the flags mean; nothing else of its source is built.

    Raises:
        UsageError: the flags contradict each other, or name no revision of the source.
        DataError: the revision cannot be used.
    """
    raw = _raw(selection)
    return build(overridden(raw, behaviour.overrides(values=selection.values, mesh=selection.mesh)))


def _raw(selection: Selection) -> RawRevision:
    if selection.config is not None:
        if selection.revisions_dir is not None:
            raise UsageError(
                "--revisions-dir and --injectConfigFile name two configurations", hint="give one of the two"
            )
        if selection.revision is not None:
            return SingleSource(selection.config, name=selection.revision).read().revisions[0]
        # As istioctl's, kube-inject without --revision names none; templates of 1.9 and later write `default` for that.
        return SingleSource(selection.config, name=DEFAULT_NAME, settings={"revision": ""}).read().revisions[0]
    source = offline_source(selection.revisions_dir)
    return find_revision(source.read(), selection.revision or "", where=str(source.path))


def offline_source(revisions_dir: Path | None) -> DirectorySource:
    """Return the source of a directory of revisions, of the embedded ones without."""
    return embedded_source() if revisions_dir is None else DirectorySource(revisions_dir)


def find_revision(
    state: SourceState, name: str, *, where: str, workload: Callable[[], Sequence[str]] | None = None
) -> RawRevision:
    """Return the revision that ``name`` leads to: a revision, a tag, or empty for the default.

    Raises:
        UsageError: no revision or tag has this name.
        DataError: the revision or the tags cannot be read.
    """
    try:
        target = state.resolve(name, workload)
    except UnknownRevisionError as error:
        if state.tags_error is not None:
            raise state.tags_error from None
        raise UsageError(error.what, where=where, hint=error.hint) from None
    return state.revision(target.revision)
