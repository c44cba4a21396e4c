"""``injector krm``: injects the workloads of a build of kustomize or kpt, as a KRM function."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from injector.cli.commands import verbose
from injector.cli.output import examples, write_verbatim
from injector.cli.sources import revisions_dir
from injector.errors import MultipleError
from injector.fleet.krm import run_function
from injector.fleet.manifests import STDIN, read_manifests

if TYPE_CHECKING:
    from pathlib import Path


@click.command("krm", epilog=examples("krm --revisions-dir revisions < resources.yaml > injected.yaml"))
@revisions_dir("none. The key revisionsDir of the functionConfig comes first")
@verbose
def krm(*, revisions_dir: Path | None) -> None:
    """Inject the workloads of a ResourceList on stdin: a KRM function for kustomize and kpt.

    The functionConfig is a ConfigMap, or an object with a `spec`, with the keys revision, revisionsDir, istioVersion, nodeVersion,
    namespace, guard and podTemplatePaths. Nothing is read from a cluster. The ResourceList on stdout has a result for each workload that
    is left alone or refused. Only pod templates change. If one workload is refused, no resource changes, and the exit code is 65.
    """
    (manifest,) = read_manifests((STDIN,), recursive=False)
    text, errors = run_function(manifest.text, revisions_dir)
    write_verbatim([text])
    if errors:
        raise errors[0] if len(errors) == 1 else MultipleError(errors)
