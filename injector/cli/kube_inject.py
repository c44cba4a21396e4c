"""``injector kube-inject`` and its inverse, ``injector uninject``: manifests in, manifests with or without sidecars out.

Follows ``InjectCommand`` in istioctl/pkg/kubeinject/kubeinject.go and ``IntoResourceFile`` in pkg/kube/inject/inject.go (1.30.3).
``uninject`` does the work of ``istioctl experimental kube-uninject``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from injector.cli.commands import verbose
from injector.cli.manifests import FORMATS, OTHER_KINDS_OPTION, write_manifests
from injector.cli.options import (
    FILENAME,
    GUARD,
    RECURSIVE,
    both_spellings,
    is_format,
    option_group,
    output_file,
    similar_format,
    unknown_format,
)
from injector.cli.output import echo, examples, print_warning, with_progress
from injector.cli.revisionoptions import RevisionOptions, revision_options
from injector.cli.sources import (
    namespace_option,
)
from injector.errors import (
    UsageError,
)
from injector.fleet.manifests import STDIN, ChangedDocument, change_documents, read_manifests
from injector.injection.tools.manifest import inject_object
from injector.injection.tools.uninject import uninject_object

if TYPE_CHECKING:
    from pathlib import Path

    from injector.kube.podtemplates import OtherKinds

F = TypeVar("F", bound="Callable[..., Any]")


@dataclass(frozen=True, slots=True)
class ManifestOptions:
    """Where manifests come from and go to."""

    names: tuple[str, ...]
    recursive: bool
    format: str
    file: Path | None
    others: OtherKinds


def _format_or_file(
    context: click.Context, parameter: click.Parameter, value: str | None
) -> tuple[str | None, Path | None]:
    """Return the format or the file that ``--output`` names. Raises UsageError if it is neither."""
    if value is None or value.lower() in FORMATS:
        return None if value is None else value.lower(), None
    name = value.partition("=")[0]
    is_path = value == STDIN or any(mark in name for mark in "./")
    if not value or is_format(value) or "{" in value or (not is_path and similar_format(value, FORMATS)):
        is_word = value.isidentifier()
        raise unknown_format(value, FORMATS, f", or ./{value} to write a file of this name" if is_word else "")
    return None, output_file(context, parameter, value)


def _manifest_options(
    names: tuple[str, ...],
    filenames: tuple[str, ...],
    recursive: bool,  # noqa: FBT001 -- a flag's value
    output: tuple[str | None, Path | None],
    file: Path | None,
    others: OtherKinds,
) -> ManifestOptions:
    output_format, output_path = output
    if output_path is not None and file is not None:
        raise unknown_format(str(output_path), FORMATS, " with --output-file")
    return ManifestOptions(filenames + names, recursive, output_format or FORMATS[0], file or output_path, others)


manifest_options: Final = option_group(
    "manifest",
    _manifest_options,
    click.argument("names", metavar="[FILES]...", nargs=-1),
    FILENAME,
    RECURSIVE,
    click.option(
        "-o",
        "--output",
        metavar="FORMAT|FILE",
        callback=_format_or_file,
        help="Output format, yaml, json or patch (one JSON patch per line), or the file to write as YAML.",
    ),
    click.option(
        *both_spellings("outputFile"),
        "file",
        metavar="FILE",
        callback=output_file,
        help="File to write, in the format of --output. - is stdout.",
    ),
    OTHER_KINDS_OPTION,
)


# Istio 1.0 and 1.1 could write a template from flags (istioctl/cmd/istioctl/kubeinject.go, 1.0.9). With a config file they ignored them
# and printed a warning. --hub and --tag were only for that template, and an error without it.
IGNORED: Final = (
    *("verbosity", "sidecarProxyUID", "setVersionString", "imagePullPolicy", "statusPort"),
    *("readinessInitialDelaySeconds", "readinessPeriodSeconds", "readinessFailureThreshold"),
    *("includeIPRanges", "excludeIPRanges", "includeInboundPorts", "excludeInboundPorts"),
)
IGNORED_SWITCHES: Final = ("coreDump", "rewriteAppProbe", "debug")
"""A switch takes no value, or one after ``=``."""
REFUSED_FLAGS: Final = ("hub", "tag")


def _ignore(_context: click.Context, option: click.Parameter, value: str | None) -> None:
    if value is not None:  # the text is istioctl's
        echo(f"Flag {option.opts[0]} has been deprecated, Use --injectConfigFile instead", err=True)


def _refuse(_context: click.Context, option: click.Parameter, value: str | None) -> None:
    if value is not None:
        raise UsageError(
            "templates from flags are not supported",
            where=option.opts[0],
            hint="give --injectConfigFile FILE: kubectl -n istio-system get configmap istio-sidecar-injector"
            " -o=jsonpath='{.data.config}' > FILE",
        )


def old_options(command: F) -> F:
    """Add flags of older releases of istioctl. Most are ignored with a warning, the others are refused."""
    hidden: dict[str, Any] = {"hidden": True, "expose_value": False, "metavar": "VALUE"}
    switch: dict[str, Any] = {**hidden, "is_flag": False, "flag_value": "true"}
    for name in (*IGNORED, *IGNORED_SWITCHES, *REFUSED_FLAGS):
        settings = switch if name in IGNORED_SWITCHES else hidden
        command = click.option(f"--{name}", callback=_refuse if name in REFUSED_FLAGS else _ignore, **settings)(command)
    return command


@click.command(
    "kube-inject",
    epilog=examples(
        "kube-inject -f app.yaml | kubectl apply -f -",
        "kube-inject -f app.yaml --revision canary -o app-injected.yaml",
        "kubectl get deploy -n shop -o yaml | injector kube-inject -f -",
    ),
)
@manifest_options
@revision_options
@namespace_option("Namespace for workloads that have none.")
@GUARD
@old_options
@verbose
def kube_inject(
    *, manifest: ManifestOptions, revision_source: RevisionOptions, namespace: str | None, guard: str
) -> None:
    """Inject the sidecar into every workload of the FILES and print the result.

    FILES can contain workloads of all kinds, also in Lists. Other documents stay byte for byte the same. A pod template of an unknown
    kind is a warning. If one workload cannot be injected, the command prints and writes nothing.

    The revision comes from --injectConfigFile with --valuesFile and --meshConfigFile, or is the --revision of --revisions-dir, or of
    the cluster.
    """
    manifests = read_manifests(manifest.names, recursive=manifest.recursive)
    revision = revision_source.build()
    warnings: list[str] = []

    def inject(obj: dict[str, Any]) -> dict[str, Any] | None:
        place = namespace or ""
        return inject_object(revision, obj, warn=warnings.append, guard=guard, others=manifest.others, namespace=place)

    def documents() -> Iterator[ChangedDocument]:
        workloads = 0
        for document in change_documents(
            manifests, inject, manifest.others, warn=print_warning, progress=with_progress
        ):
            workloads += document.after is not None
            yield document
        if not workloads:
            names = ", ".join(document.name for document in manifests)
            echo(f"note: {names}: nothing is injected, because no document has a pod", err=True)
        for warning in warnings:
            echo(warning, err=True)

    with revision_source.values_named():
        write_manifests(documents(), manifest.format, manifest.file, fold=revision.behaviours.yaml_folds)


@click.command("uninject", epilog=examples("uninject -f app-injected.yaml | kubectl apply -f -"))
@manifest_options
@verbose
def uninject(*, manifest: ManifestOptions) -> None:
    """Remove the sidecar from every workload of the FILES and print the result.

    Other documents, and workloads without a sidecar, stay as they are.
    """
    manifests = read_manifests(manifest.names, recursive=manifest.recursive)
    documents = change_documents(
        manifests,
        partial(uninject_object, others=manifest.others),
        manifest.others,
        warn=print_warning,
        progress=with_progress,
    )
    write_manifests(documents, manifest.format, manifest.file)
