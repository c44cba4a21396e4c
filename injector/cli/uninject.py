"""``injector uninject``: the inverse of ``kube-inject``, as ``istioctl experimental kube-uninject`` was."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from injector.cli.commands import verbose
from injector.cli.flags import manifest_flags
from injector.cli.inputs import changed_documents, read_manifests
from injector.cli.output import rendered, write
from injector.cli.terminal import stdout_is_terminal
from injector.injection.tools.uninject import uninject_object

if TYPE_CHECKING:
    from injector.cli.flags import ManifestFlags


@click.command("uninject")
@manifest_flags
@verbose
def uninject(manifest: ManifestFlags) -> None:
    """Remove from every workload of the FILES what injection wrote, and print them.

    Other documents, and workloads that were never injected, stay as they are.
    """
    documents = changed_documents(read_manifests(manifest.names, recursive=manifest.recursive), uninject_object)
    escape = manifest.file is None and stdout_is_terminal()
    write(rendered(documents, manifest.format, escape=escape), manifest.file)
