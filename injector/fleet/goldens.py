"""Golden files: the pods that revisions are expected to inject, and whether they still do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from injector.errors import DataError, ManifestError
from injector.fleet.manifests import SEPARATOR, SUFFIXES
from injector.injection.pipeline import inject_pod, without_namespace
from injector.injection.result import RequestFacts, Skipped
from injector.kube.yaml import dump_yaml
from injector.revisions.files import read_text

if TYPE_CHECKING:
    from pathlib import Path

    from injector.fleet.sources import RevisionList
    from injector.istio.revision import Revision
    from injector.kube.podtemplates import Created

EXPECTED: Final = "expected"
"""The folder with the expected results, one folder for each revision."""


@dataclass(frozen=True, slots=True)
class Golden:
    """The result of a revision for a file of pods, and the expected one; None if the file ``path`` does not exist."""

    revision: str
    file: Path
    path: Path
    expected: str | None
    result: str

    @property
    def is_met(self) -> bool:
        """Whether the result is the expected one."""
        return self.expected == self.result


def read_goldens(
    folder: Path,
    names: tuple[str, ...],
    revisions: RevisionList,
    read: Callable[[Path], tuple[Created, ...]],
) -> Iterator[Golden]:
    """Yield the results of revisions for each file of a folder, with the expected ones.

    Without ``names`` of revisions or tags, these are the revisions with expected results, or else the default one. ``read`` returns the
    workloads of a file.

    Raises:
        ManifestError: the folder has no file, or a file cannot be read.
        UsageError: a revision is not known.
        DataError: a revision is not valid.
    """
    files = _pod_files(folder)
    for revision_name in names or _with_goldens(folder):
        raw = revisions.find(revision_name)
        name, revision = revision_name or raw.name, revisions.build(raw)
        for file in files:
            path = folder / EXPECTED / name / file.name
            result = SEPARATOR.join(dump_yaml(_result(revision, workload)) for workload in read(file))
            yield Golden(name, file, path, read_text(path), result)


def _pod_files(folder: Path) -> list[Path]:
    try:
        files = sorted(path for path in folder.iterdir() if path.suffix in SUFFIXES and path.is_file())
    except OSError as error:
        hint = "give a folder with files of pods"
        raise ManifestError(f"cannot be read: {error.strerror}", where=str(folder), hint=hint) from error
    if not files:
        raise ManifestError("the folder has no .yaml, .yml or .json file", where=str(folder), hint="add a pod to it")
    return files


def _with_goldens(folder: Path) -> tuple[str, ...]:
    expected = folder / EXPECTED
    folders = (path.name for path in expected.iterdir() if path.is_dir()) if expected.is_dir() else ()
    return tuple(sorted(folders)) or ("",)


def _result(revision: Revision, workload: Created) -> dict[str, Any]:
    """Return the injected pod, or the reason of a skip or a refusal."""
    facts = RequestFacts(workload.namespace, {}, revision.namespaces.get(workload.namespace))
    try:
        result = inject_pod(revision, workload.pod, facts)
    except DataError as error:
        return {"refused": str(error)}
    return {"skipped": result.detail} if isinstance(result, Skipped) else without_namespace(result.pod, workload.pod)
