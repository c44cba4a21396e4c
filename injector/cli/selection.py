"""Which revision an offline command works with: from files, from a directory, or embedded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from injector.errors import UsageError
from injector.revisions.build import build, overridden
from injector.revisions.directory import DEFAULT_NAME, DirectorySource, SingleSource, embedded_source
from injector.revisions.registry import default_name

if TYPE_CHECKING:
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
    return picked(source.read(), selection.revision, where=str(source.path))


def offline_source(revisions_dir: Path | None) -> DirectorySource:
    """Return the source of a directory of revisions, of the embedded ones without."""
    return embedded_source() if revisions_dir is None else DirectorySource(revisions_dir)


def picked(state: SourceState, name: str | None, *, where: str) -> RawRevision:
    """Return the revision that ``name``, a revision or a tag, means among those of a source; None means its default.

    Raises:
        UsageError: there is none of that name.
        ConfigError: it is there and cannot be read.
    """
    by_name = {raw.name: raw for raw in state.revisions}
    names = {*by_name, *state.failures}
    wanted = name or default_name(names, state.tags, stated=state.default)
    known = f"known are {', '.join(sorted({*names, *state.tags})) or 'none'}"
    if wanted is None:
        raise UsageError("no revision is the default", where=where, hint=f"give {REVISION_FLAG} NAME; {known}")
    tag = state.tags.get(wanted)
    target = wanted if tag is None else tag.revision
    if target in by_name:
        return by_name[target]
    if target in state.failures:
        raise state.failures[target]
    if state.tags_error is not None:
        raise state.tags_error
    raise UsageError(f"there is no revision or tag {target!r}", where=where, hint=known)
