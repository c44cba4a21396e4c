"""``injector template test``: golden files of one's own, a folder of pods and the result that each revision must have for them."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import click

from injector.cli.commands import EX_FAILED, verbose
from injector.cli.manifests import OTHER_KINDS_OPTION, SEPARATOR, SUFFIXES, read_workloads, write_file
from injector.cli.options import FILE, REVISION_FLAG
from injector.cli.output import echo, echo_colored, examples
from injector.cli.sources import RevisionList, Sources, chosen_revisions, complete_names, revision_source_options
from injector.errors import DataError, ManifestError
from injector.injection.pipeline import inject_pod, without_namespace
from injector.injection.result import RequestFacts, Skipped
from injector.kube.escaping import escape_line
from injector.kube.yaml import dump_yaml
from injector.revisions.files import read_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from injector.cluster.kubeconfig import Kubeconfig
    from injector.istio.revision import Revision
    from injector.kube.pods import Created, OtherKinds

EXPECTED: Final = "expected"
_COLORS: Final = {r"^ok .*": "32", r"^FAIL .*": "1;31", r"^-.*": "31", r"^\+.*": "32", r"^@@.*": "36"}


@dataclass(frozen=True, slots=True)
class GoldenFile:
    """The pods of one file, and the file with the result that a revision must have for them."""

    pods: Path
    expected: Path
    result: str

    def difference(self) -> str:
        """Return the difference between the expected result and the real one; empty if there is none.

        Raises:
            ConfigError: the file cannot be read.
        """
        expected = read_text(self.expected)
        if expected is None:
            return f"there is no {self.expected}; --update writes it\n"
        if expected == self.result:
            return ""
        lines = difflib.unified_diff(
            expected.splitlines(), self.result.splitlines(), str(self.expected), "result", lineterm=""
        )
        return "".join(f"{escape_line(line)}\n" for line in lines) or "the line breaks at the end differ\n"

    def write(self) -> None:
        """Write the result as the expected one.

        Raises:
            InjectorError: the file cannot be written.
            OSError: its folder cannot be made.
        """
        self.expected.parent.mkdir(parents=True, exist_ok=True)
        write_file(self.expected, [self.result])


@click.command("test", epilog=examples("template test goldens", "template test goldens -r 1-28 -r 1-30 --update"))
@click.argument("folder", type=FILE)
@click.option(
    "-r",
    REVISION_FLAG,
    "names",
    metavar="NAME",
    multiple=True,
    shell_complete=complete_names,
    help="Revision or tag. Repeatable. Default: those with expected results, or else the default revision.",
)
@click.option("--update", is_flag=True, help="Write the results as the expected ones.")
@revision_source_options
@OTHER_KINDS_OPTION
@verbose
def test(
    *,
    folder: Path,
    names: tuple[str, ...],
    update: bool,
    sources: Sources,
    kubeconfig: Kubeconfig,
    others: OtherKinds,
) -> None:
    """Compare injected pods with golden files.

    FOLDER has files with pods or workloads, and expected/REVISION has a file of the same name with the pods that the webhook of the
    revision makes of them. A pod that is skipped or refused is the reason. --update writes the files. The exit code is 1 if a
    result differs.
    """
    files = _pod_files(folder)
    failed = False
    with chosen_revisions(sources, kubeconfig) as revisions:
        for name, revision in _revisions(revisions, names or _with_goldens(folder)):
            for golden in (_golden(folder, file, name, revision, others) for file in files):
                difference = golden.difference()
                failed = failed or (bool(difference) and not update)
                if update and difference:
                    golden.write()
                word = "ok  " if not difference else "wrote" if update else "FAIL"
                echo_colored(f"{word} {name} {escape_line(golden.pods.name)}\n", _COLORS)
                if difference and not update:
                    echo_colored(difference, _COLORS)
    if failed:
        echo("error: results differ; if they are right, --update writes them as the expected ones", err=True)
        click.get_current_context().exit(EX_FAILED)


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
    found = (path.name for path in expected.iterdir() if path.is_dir()) if expected.is_dir() else ()
    return tuple(sorted(found)) or ("",)


def _revisions(revisions: RevisionList, names: Sequence[str]) -> Iterator[tuple[str, Revision]]:
    for name in names:
        raw = revisions.find(name)
        yield name or raw.name, revisions.build(raw)


def _golden(folder: Path, file: Path, name: str, revision: Revision, others: OtherKinds) -> GoldenFile:
    workloads = read_workloads((str(file),), recursive=False, namespace=None, others=others)
    results = [dump_yaml(_result(revision, each)) for each in workloads.created]
    return GoldenFile(file, folder / EXPECTED / name / file.name, SEPARATOR.join(results))


def _result(revision: Revision, workload: Created) -> dict[str, Any]:
    """Return the injected pod, or why there is none."""
    facts = RequestFacts(workload.namespace, {}, revision.namespaces.get(workload.namespace))
    try:
        result = inject_pod(revision, workload.pod, facts)
    except DataError as error:
        return {"refused": str(error)}
    return {"skipped": result.detail} if isinstance(result, Skipped) else without_namespace(result.pod, workload.pod)
