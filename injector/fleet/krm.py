"""A KRM function, which injects the workloads of a ResourceList of kustomize or kpt.

Follows the KRM Functions Specification v1 (cmd/config/docs/api-conventions/functions-spec.md in sigs.k8s.io/kustomize).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from injector.errors import DataError, ManifestError, no_source
from injector.fleet.sources import IN_DIRECTORY, directory_revisions
from injector.hints import did_you_mean
from injector.injection.result import GUARDS
from injector.injection.tools.manifest import inject_templates
from injector.istio.labels import INJECTION_LABEL
from injector.kube.lists import is_list, items_of
from injector.kube.objects import add_place, mapping_at
from injector.kube.podsecurity import enforced_level
from injector.kube.podtemplates import OtherKinds, parse_rules, template_paths, unread_templates
from injector.kube.selectors import NAMESPACE_HINT, is_dns_label
from injector.kube.typed import normalise
from injector.kube.yaml import dump_yaml, load_yaml
from injector.kube.yaml.write import with_values
from injector.revisions.clustersource import openshift_annotations
from injector.revisions.source import Overrides, build, overridden

if TYPE_CHECKING:
    from injector.istio.revision import Revision
    from injector.kube.podtemplates import Path as KeyPath

RESOURCE_LIST: Final = "ResourceList"
_GROUP: Final = "config.kubernetes.io/"
_SETTINGS: Final = ("revision", "revisionsDir", "istioVersion", "nodeVersion", "namespace", "guard", "podTemplatePaths")
_FILE_ANNOTATIONS: Final = ("internal.config.kubernetes.io/", _GROUP)
"""The prefixes of the annotations of kustomize and kpt with the file of a resource."""
_INDEX: Final = re.compile(r"[0-9]{1,9}", re.ASCII)
ERROR: Final = "error"
WARNING: Final = "warning"
INFO: Final = "info"
"""The severities of results."""


def run_function(text: str, folder: Path | None) -> tuple[str, list[DataError]]:
    """Return a ResourceList with its workloads injected and the results, and the errors of the workloads that are refused.

    If there is one, no resource changes. ``folder`` has the revisions, unless the functionConfig names another.

    Raises:
        DataError: the ResourceList, its functionConfig or the revision is not valid.
        UsageError: the revision is not known.
        NotConfiguredError: nothing says where the revisions are.
    """
    resources = _read_resource_list(text)
    settings = _read_settings(resources.get("functionConfig"))
    items = list(_flatten(resources.get("items") or [], ("items",)))
    namespaces = _read_namespaces(item for _, item in items)
    revision = _select_revision(settings, folder, namespaces)
    injection = _Injection(revision, settings, namespaces, _read_rules(settings))
    for path, item in items:
        injection.inject(path, item)
    values = {} if injection.errors else injection.values
    return _resource_list_text(text, resources, values, injection.results), injection.errors


def _read_resource_list(text: str) -> dict[str, Any]:
    resources = load_yaml(text, where="stdin")
    hint = "run it as a function of kustomize or kpt; for manifests, use `injector kube-inject`"
    if not isinstance(resources, dict) or resources.get("kind") != RESOURCE_LIST:
        raise ManifestError(f"not a {RESOURCE_LIST}", where="stdin", hint=hint)
    if not str(resources.get("apiVersion")).startswith(_GROUP):
        raise ManifestError(f"the apiVersion is not {_GROUP}v1", where="stdin", hint=hint)
    items = resources.get("items") or []
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise ManifestError("an item is not an object", where="stdin: items", hint="give each item a kind")
    return resources


def _read_rules(settings: Mapping[str, str]) -> OtherKinds:
    """Return the kinds of workloads with those of the settings. Raises ManifestError if a rule is not valid."""
    try:
        return parse_rules(settings.get("podTemplatePaths", "").replace(",", " ").split())
    except ManifestError as error:
        error.where = "functionConfig: podTemplatePaths"
        raise


def _flatten(items: Iterable[dict[str, Any]], path: KeyPath) -> Iterator[tuple[KeyPath, dict[str, Any]]]:
    """Yield the items, those of Lists among them, with their paths."""
    for index, item in enumerate(items):
        if is_list(item):
            yield from _flatten(items_of(item), (*path, index, "items"))
        else:
            yield (*path, index), item


def _read_namespaces(items: Iterable[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Return the metadata of the Namespaces among the items by name. Raises ManifestError if one cannot be read."""
    namespaces = {}
    for item in items:
        if item.get("kind") == "Namespace" and item.get("apiVersion") == "v1":
            try:
                metadata = normalise(item, "v1.Namespace", coerce=True).get("metadata") or {}
            except ManifestError as error:
                add_place(error, item)
                raise
            namespaces[str(metadata.get("name", ""))] = metadata
    return namespaces


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


def _select_revision(
    settings: Mapping[str, str], folder: Path | None, namespaces: Mapping[str, Mapping[str, Any]]
) -> Revision:
    """Return the revision of a function, with the annotations of OpenShift of the namespaces, unless its settings have others.

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
    raw = overridden(directory_revisions(folder).find(settings.get("revision", "")), overrides)
    annotated = {name: openshift_annotations({"metadata": metadata}) for name, metadata in namespaces.items()}
    known = {name: annotations for name, annotations in annotated.items() if annotations is not None}
    return build(replace(raw, facts=replace(raw.facts, namespaces={**raw.facts.namespaces, **known})))


@dataclass
class _Injection:
    """The injection of one item after another: the changed parts by their paths, the results, and the errors of refused workloads."""

    revision: Revision
    settings: Mapping[str, str]
    namespaces: Mapping[str, Mapping[str, Any]]
    others: OtherKinds
    values: dict[KeyPath, Any] = field(default_factory=dict)
    results: list[dict[str, Any]] = field(default_factory=list)
    errors: list[DataError] = field(default_factory=list)

    def inject(self, path: KeyPath, item: dict[str, Any]) -> None:
        """Inject the pod templates of an item. ``path`` leads to the item in the ResourceList."""
        try:
            self._add(item, WARNING, unread_templates(item, self.others))
            parts, messages = self._inject(item)
        except DataError as error:
            self._add(item, ERROR, map(str, error.errors))
            add_place(error, item)
            self.errors += error.errors
            return
        self._add(item, WARNING if parts else INFO, messages)
        self.values |= {(*path, *place): value for place, value in parts.items()}

    def _inject(self, item: dict[str, Any]) -> tuple[dict[KeyPath, Any], list[str]]:
        """Return the parts of an item that change, and messages about it. Raises DataError if a pod is refused."""
        messages: list[str] = []
        default = self.settings.get("namespace", "")
        namespace = str(mapping_at(item, "metadata").get("namespace") or default)
        labels = self.namespaces.get(namespace, {}).get("labels") or {}
        if labels.get(INJECTION_LABEL) == "disabled" and template_paths(item, self.others):
            return {}, [f"not injected: namespace {namespace} has the label {INJECTION_LABEL}: disabled"]
        guard = self.settings.get("guard", GUARDS[0])
        parts = inject_templates(
            self.revision, item, warn=messages.append, guard=guard, others=self.others, namespace=default
        )
        policy = enforced_level(labels)
        pods: Iterable[dict[str, Any]] = parts.values()
        if ("spec",) in parts:  # a Pod
            pods = [{"metadata": parts["metadata",], "spec": parts["spec",]}]
        faults = filter(None, map(policy.fault, pods))
        messages += (f"{fault}: the API server would refuse the injected pod" for fault in faults)
        return parts, messages

    def _add(self, item: Mapping[str, Any], severity: str, messages: Iterable[str]) -> None:
        self.results += (_result(item, severity, message) for message in messages)


def _result(item: Mapping[str, Any], severity: str, message: str) -> dict[str, Any]:
    """Return a result about a resource, with its file if kustomize or kpt tell it."""
    meta = mapping_at(item, "metadata")
    named = {"apiVersion": item.get("apiVersion"), "kind": item.get("kind"), **meta}
    reference = {
        key: named[key] for key in ("apiVersion", "kind", "namespace", "name") if isinstance(named.get(key), str)
    }
    result = {"message": " ".join(message.split()), "severity": severity, "resourceRef": reference}
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
