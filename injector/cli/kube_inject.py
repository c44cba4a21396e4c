"""``injector kube-inject`` and its inverse, ``injector uninject``: manifests in, manifests with or without sidecars out.

``injector krm`` does the same as a KRM function.

Follows ``InjectCommand`` in istioctl/pkg/kubeinject/kubeinject.go and ``IntoResourceFile`` in pkg/kube/inject/inject.go (1.30.3).
``uninject`` does the work of ``istioctl experimental kube-uninject``. ``krm`` follows the KRM Functions Specification v1
(cmd/config/docs/api-conventions/functions-spec.md in sigs.k8s.io/kustomize).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial
from pathlib import Path
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
from injector.cli.output import echo, examples, one_line, print_warning, with_progress, write_verbatim
from injector.cli.revisionoptions import RevisionOptions, revision_options
from injector.cli.sources import (
    NAMESPACE_HINT,
    namespace_option,
    revisions_dir,
)
from injector.errors import (
    DataError,
    ManifestError,
    MultipleError,
    UsageError,
    no_source,
)
from injector.fleet.manifests import STDIN, ChangedDocument, change_documents, read_manifests
from injector.fleet.sources import IN_DIRECTORY, directory_revisions
from injector.hints import did_you_mean
from injector.injection.result import GUARDS
from injector.injection.tools.manifest import inject_object, injected_parts
from injector.injection.tools.uninject import uninject_object
from injector.kube.pods import add_place, mapping_at, unread_templates
from injector.kube.selectors import is_dns_label
from injector.kube.yaml import dump_yaml, load_yaml
from injector.kube.yaml.write import with_values
from injector.revisions.source import Overrides, build, overridden

if TYPE_CHECKING:
    from injector.istio.revision import Revision
    from injector.kube.pods import OtherKinds

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


RESOURCE_LIST: Final = "ResourceList"
_RESOURCE_LIST_GROUP: Final = "config.kubernetes.io/"
_SETTINGS: Final = ("revision", "revisionsDir", "istioVersion", "nodeVersion", "namespace", "guard")
_FILE_ANNOTATIONS: Final = ("internal.config.kubernetes.io/", _RESOURCE_LIST_GROUP)
"""The prefixes of the annotations of kustomize and kpt with the file of a resource."""
_INDEX: Final = re.compile(r"[0-9]{1,9}", re.ASCII)
ERROR: Final = "error"
WARNING: Final = "warning"
INFO: Final = "info"
"""The severities of results."""


@click.command("krm", epilog=examples("krm --revisions-dir revisions < resources.yaml > injected.yaml"))
@revisions_dir("none. The key revisionsDir of the functionConfig comes first")
@verbose
def krm(*, revisions_dir: Path | None) -> None:
    """Inject the workloads of a ResourceList on stdin: a KRM function for kustomize and kpt.

    The functionConfig is a ConfigMap, or an object with a `spec`, with the keys revision, revisionsDir, istioVersion, nodeVersion,
    namespace and guard. Nothing is read from a cluster. The ResourceList on stdout has a result for each workload that is left alone or
    refused. Only pod templates change. If one workload is refused, no resource changes, and the exit code is 65.
    """
    text = read_manifests((STDIN,), recursive=False)[0].text
    resources = _read_resource_list(text)
    settings = _read_settings(resources.get("functionConfig"))
    revision = _select_revision(settings, revisions_dir)
    values, results, errors = _inject_items(revision, resources.get("items") or [], settings)
    if errors:
        values = {}
    write_verbatim([_resource_list_text(text, resources, values, results)])
    if errors:
        raise errors[0] if len(errors) == 1 else MultipleError(errors)


def _read_resource_list(text: str) -> dict[str, Any]:
    resources = load_yaml(text, where="stdin")
    hint = "run it as a function of kustomize or kpt; for manifests, use `injector kube-inject`"
    if not isinstance(resources, dict) or resources.get("kind") != RESOURCE_LIST:
        raise ManifestError(f"not a {RESOURCE_LIST}", where="stdin", hint=hint)
    if not str(resources.get("apiVersion")).startswith(_RESOURCE_LIST_GROUP):
        raise ManifestError(f"the apiVersion is not {_RESOURCE_LIST_GROUP}v1", where="stdin", hint=hint)
    items = resources.get("items") or []
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise ManifestError("an item is not an object", where="stdin: items", hint="give each item a kind")
    return resources


def _read_settings(config: Any) -> dict[str, str]:
    """Return the settings of a functionConfig. Raises ManifestError if one is not known, or not valid."""
    if config is None:
        return {}
    name = "data" if isinstance(config, dict) and config.get("kind") == "ConfigMap" else "spec"
    fields = (config.get(name) or {}) if isinstance(config, dict) else None
    if not isinstance(fields, dict):
        raise ManifestError(f"no object {name}", where="functionConfig", hint="give a ConfigMap with data")
    for key, value in fields.items():
        where = f"functionConfig.{name}.{key}"
        if key not in _SETTINGS:
            hint = f"known are {', '.join(_SETTINGS)}"
            raise ManifestError(f"not known{did_you_mean(key, _SETTINGS)}", where=where, hint=hint)
        if not isinstance(value, str) or not value:
            raise ManifestError("not a text", where=where, hint="write it in quotes")
        if key == "guard" and value not in GUARDS:
            raise ManifestError(f"{value!r} is not a guard", where=where, hint=f"give one of {', '.join(GUARDS)}")
        if key == "namespace" and not is_dns_label(value):
            raise ManifestError(f"{value[:80]!r} is not a valid namespace", where=where, hint=NAMESPACE_HINT)
    return fields


def _select_revision(settings: Mapping[str, str], folder: Path | None) -> Revision:
    """Return the revision of a function.

    A folder of the functionConfig must be below the working folder, which is that of the kustomization or package: its author may not
    be trusted with all files of the machine.
    """
    if "revisionsDir" in settings:
        folder = Path(settings["revisionsDir"])
        if not folder.resolve().is_relative_to(Path.cwd()):
            hint = "give a folder below it, or use INJECTOR_REVISIONS_DIR or --revisions-dir"
            raise ManifestError("not below the working folder", where="functionConfig: revisionsDir", hint=hint)
    versions = (settings["nodeVersion"],) if "nodeVersion" in settings else ()
    overrides = Overrides(istio_version=settings.get("istioVersion"), node_versions=versions)
    if folder is None:
        raise no_source("revisionsDir in the functionConfig", IN_DIRECTORY)
    raw = directory_revisions(folder).find(settings.get("revision", ""))
    return build(overridden(raw, overrides))


def _inject_items(
    revision: Revision, items: Sequence[dict[str, Any]], settings: Mapping[str, str]
) -> tuple[dict[tuple[str | int, ...], Any], list[dict[str, Any]], list[DataError]]:
    """Return the changed parts of a ResourceList by their paths, the results, and the errors of workloads that are refused."""
    values: dict[tuple[str | int, ...], Any] = {}
    results: list[dict[str, Any]] = []
    errors: list[DataError] = []
    place, guard = settings.get("namespace", ""), settings.get("guard", GUARDS[0])
    for index, item in enumerate(items):
        messages: list[str] = []
        try:
            results += (_result(item, WARNING, message) for message in unread_templates(item))
            parts = injected_parts(revision, item, warn=messages.append, guard=guard, namespace=place)
        except DataError as error:
            results += (_result(item, ERROR, str(fault)) for fault in error.errors)
            add_place(error, item)
            errors += error.errors
            continue
        results += (_result(item, WARNING if parts else INFO, message) for message in messages)
        values |= {("items", index, *path): value for path, value in parts.items()}
    return values, results, errors


def _result(item: Mapping[str, Any], severity: str, message: str) -> dict[str, Any]:
    """Return a result about a resource, with its file if kustomize or kpt tell it."""
    meta = mapping_at(item, "metadata")
    named = {"apiVersion": item.get("apiVersion"), "kind": item.get("kind"), **meta}
    reference = {
        key: named[key] for key in ("apiVersion", "kind", "namespace", "name") if isinstance(named.get(key), str)
    }
    result = {"message": one_line(message), "severity": severity, "resourceRef": reference}
    notes = mapping_at(meta, "annotations")
    path, index = (
        str(next((notes[key] for prefix in _FILE_ANNOTATIONS if (key := f"{prefix}{name}") in notes), ""))
        for name in ("path", "index")
    )
    if path:
        result["file"] = {"path": path, **({"index": int(index)} if _INDEX.fullmatch(index) else {})}
    return result


def _resource_list_text(
    text: str, resources: dict[str, Any], values: dict[tuple[str | int, ...], Any], results: list[dict[str, Any]]
) -> str:
    """Return a ResourceList with changed values and results: if possible, the text outside of them stays as it is."""
    wanted = {**resources, "items": list(resources.get("items") or [])}
    for path, value in values.items():
        wanted = _with_value(wanted, path, value)
    end = ""
    if results:
        wanted["results"] = results
        if "results" in resources:
            values = {**values, ("results",): results}
        else:
            end = dump_yaml({"results": results}, fold=False)
    edited = with_values(text if text.endswith("\n") else f"{text}\n", values)
    if edited is not None and _is_yaml_of(f"{edited}{end}", wanted):
        return f"{edited}{end}"
    return dump_yaml(wanted, fold=False)


def _with_value(node: Any, path: Sequence[str | int], value: Any) -> Any:
    if not path:
        return value
    changed = copy(node)
    changed[path[0]] = _with_value(node.get(path[0]) if isinstance(node, dict) else node[path[0]], path[1:], value)
    return changed


def _is_yaml_of(text: str, wanted: dict[str, Any]) -> bool:
    try:
        return bool(load_yaml(text) == wanted)
    except DataError:
        return False


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
