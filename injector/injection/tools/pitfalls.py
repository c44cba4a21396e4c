"""Pods that are injected and then do not work as intended, each told by the pod, its injection and its namespace.

A pitfall is something that Istio accepts without a word: a Job that never completes, a probe that nothing answers, traffic that
bypasses the proxy, a setting without effect. ``istio.analysis.MESSAGES`` has the sentences.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from injector.errors import DataError, ManifestError
from injector.hints import did_you_mean, first_of
from injector.injection import containers as c
from injector.istio.annotations import PROXY_CONFIG
from injector.istio.labels import NATIVE_SIDECAR
from injector.istio.mesh import MOST_VALUES
from injector.istio.proto import DURATION, STRUCT, WRAPPERS, message_type, proxy_config_type
from injector.kube.images import reference_fault
from injector.kube.selectors import Selector
from injector.kube.typed import struct_type
from injector.kube.yaml import load_yaml

if TYPE_CHECKING:
    from injector.istio.behaviours import Minor
    from injector.istio.revision import Revision

USER_VOLUME: Final = "sidecar.istio.io/userVolume"
USER_VOLUME_MOUNT: Final = "sidecar.istio.io/userVolumeMount"
_NO_SIDECAR: Final = 'give the pods the label sidecar.istio.io/inject: "false"'
_RUN_TO_COMPLETION: Final = frozenset(
    {"Job", "CronJob", "ScaledJob", "MPIJob", "PaddleJob", "PyTorchJob", "TFJob", "XGBoostJob"}
)
_ENDING_POLICIES: Final = ("Never", "OnFailure")
_QUITTERS: Final = (
    "quitquitquit",
    "ISTIO_QUIT_API",
    "ENVOY_ADMIN_API",
    "scuttle",
    "envoy-preflight",
    "pilot-agent",
    "pkill",
)
"""Texts of commands and variables by which applications end the proxy."""
_FIRST_NATIVE: Final[Minor] = (1, 19)
_FIRST_FILTERED: Final[Minor] = (1, 16)
"""From this minor on, istiod writes its root certificate only into the namespaces that it discovers (namespacecontroller.go)."""
_ROOT_CERT: Final = "istio-ca-root-cert"
_OS_LABELS: Final = ("kubernetes.io/os", "beta.kubernetes.io/os")
_WINDOWS: Final = "windows"
_LINUX_FIELDS: Final = frozenset(
    {
        *(
            "allowPrivilegeEscalation",
            "appArmorProfile",
            "capabilities",
            "privileged",
            "procMount",
            "readOnlyRootFilesystem",
        ),
        *("runAsGroup", "runAsUser", "seLinuxOptions", "seccompProfile"),
    }
)
"""The fields of a container's security context that the API server refuses if the pod's ``os`` is Windows."""
_MOST_NAMES: Final = 5


class Pitfall(NamedTuple):
    """A code of ``istio.analysis.MESSAGES``, the texts for its sentence, and whether it is about the namespace."""

    code: str
    texts: tuple[str, ...]
    of_namespace: bool = False


@dataclass(frozen=True, slots=True)
class Subject:
    """An injected pod.

    ``kind`` is that of its workload, ``pod`` the pod before the injection, ``injected`` the pod after it, valid or not.
    ``templates`` are the names of its templates, ``namespace_labels`` the labels of its namespace, if they are known.
    ``has_completed`` is whether one of the workload's pods has ended by itself.
    """

    kind: str
    revision: Revision
    pod: Mapping[str, Any]
    injected: Mapping[str, Any]
    templates: tuple[str, ...]
    namespace_labels: Mapping[str, str] | None = None
    has_completed: bool = False

    @property
    def is_native(self) -> bool:
        """Whether the proxy is a native sidecar."""
        return c.find(c.PROXY, c.containers_of(self.injected, "initContainers")) is not None

    @property
    def native_remedy(self) -> str:
        """How to get a native sidecar."""
        if any(NATIVE_SIDECAR in self.revision.config.templates.get(name, "") for name in self.templates):
            return f'give the pods the annotation {NATIVE_SIDECAR}: "true"'
        if self.revision.minor >= _FIRST_NATIVE:
            return "set ENABLE_NATIVE_SIDECARS for istiod"
        return "use Istio 1.19 or later with ENABLE_NATIVE_SIDECARS"


def pitfalls(subject: Subject) -> Iterator[Pitfall]:
    """Yield the pitfalls of an injected pod."""
    yield from _never_completes(subject)
    yield from _asks_a_later_agent(subject)
    yield from _has_the_proxys_user(subject)
    yield from _needs_windows(subject)
    yield from _has_two_proxies(subject)
    yield from _invalid_images(subject)
    yield from _unknown_fields(subject)
    yield from _not_discovered(subject)


def _never_completes(subject: Subject) -> Iterator[Pitfall]:
    spec = subject.pod.get("spec") or {}
    policy = spec.get("restartPolicy")
    others = [item for item in c.containers_of(subject.injected) if item.get("name") not in c.ISTIOS]
    if subject.kind not in _RUN_TO_COMPLETION and policy not in _ENDING_POLICIES:
        return
    if subject.has_completed or not others or c.find(c.PROXY, c.containers_of(subject.injected)) is None:
        return
    lists = (c.containers_of(subject.pod, kind) for kind in ("containers", "initContainers"))
    text = json.dumps([item for items in lists for item in items if item.get("name") not in c.ISTIOS])
    if any(quitter in text for quitter in _QUITTERS):
        return
    field = f"spec.restartPolicy is {policy}" if policy in _ENDING_POLICIES else f"the kind is {subject.kind}"
    what = subject.kind.removeprefix("Cron") if subject.kind in _RUN_TO_COMPLETION else "pod"
    remedy = f"{subject.native_remedy}, or {_NO_SIDECAR}"
    yield Pitfall("INJ0002", (field, what, remedy))


def _asks_a_later_agent(subject: Subject) -> Iterator[Pitfall]:
    names = [item.get("name") for item in c.containers_of(subject.injected, "initContainers")]
    later = names[: names.index(c.PROXY)] if c.PROXY in names else names
    if c.find_in_pod(c.PROXY, subject.injected) is None:
        return
    for item in c.containers_of(subject.injected, "initContainers"):
        name = item.get("name", "")
        if name not in later or name in c.ISTIOS or item.get("restartPolicy") != "Always":
            continue
        handlers = {
            "startupProbe": item.get("startupProbe"),
            "lifecycle.postStart": (item.get("lifecycle") or {}).get("postStart"),
        }
        for field, handler in handlers.items():
            path = ((handler or {}).get("httpGet") or {}).get("path", "")
            if path.startswith((f"/app-health/{name}/", f"/app-lifecycle/{name}/")):
                remedy = f'{subject.native_remedy}, or give them the annotation sidecar.istio.io/rewriteAppHTTPProbers: "false"'
                yield Pitfall("INJ0003", (f"spec.initContainers[{name}].{field}", remedy))


def _has_the_proxys_user(subject: Subject) -> Iterator[Pitfall]:
    spec = subject.injected.get("spec") or {}
    excluded = _excluded_ids(subject.injected)
    containers = [
        *(("containers", item) for item in c.containers_of(subject.injected)),
        *(("initContainers", item) for item in _native_sidecars(subject.injected)),
    ]
    for field, ids in zip(("runAsUser", "runAsGroup"), excluded, strict=True):
        common = (spec.get("securityContext") or {}).get(field)
        names_by_field: dict[tuple[str, Any], list[str]] = {}
        for kind, item in containers:
            if item.get("name") in c.ISTIOS:
                continue
            own = (item.get("securityContext") or {}).get(field)
            value, place = (common, "spec") if own is None else (own, f"spec.{kind}[{item.get('name')}]")
            if value is not None and str(value) in ids:
                names_by_field.setdefault((f"{place}.securityContext.{field}", value), []).append(str(item.get("name")))
        for (place, value), names in names_by_field.items():
            what = "user" if field == "runAsUser" else "group"
            yield Pitfall("INJ0004", (place, str(value), what, first_of(names, _MOST_NAMES), what))


def _native_sidecars(pod: Mapping[str, Any]) -> list[c.Container]:
    return [item for item in c.containers_of(pod, "initContainers") if item.get("restartPolicy") == "Always"]


def _excluded_ids(injected: Mapping[str, Any]) -> tuple[frozenset[str], frozenset[str]]:
    """Return the users and the groups whose traffic is not redirected: those in the arguments of istio-init or istio-validation."""
    init = c.containers_of(injected, "initContainers")
    container = c.find(c.INIT, init) or c.find(c.VALIDATION, init) or {}
    args = [str(arg) for arg in container.get("args") or ()]
    options = dict(pairwise(args))
    users = options.get("-u", "")
    split = [frozenset(text.split(",")) - {""} for text in (users, options.get("-g", users))]
    return split[0], split[1]


def _needs_windows(subject: Subject) -> Iterator[Pitfall]:
    spec = subject.pod.get("spec") or {}
    field = _windows_field(spec)
    if not field or c.find_in_pod(c.PROXY, subject.injected) is None:
        return
    cause = "which does not start on a node with Windows"
    added = [*c.containers_of(subject.injected, "initContainers"), *c.containers_of(subject.injected)]
    contexts = [item.get("securityContext") or {} for item in added if item.get("name") in c.ISTIOS]
    if (spec.get("os") or {}).get("name") == _WINDOWS and any(_LINUX_FIELDS & context.keys() for context in contexts):
        cause = "and the API server refuses the fields of Linux in its security context"
    yield Pitfall("INJ0005", (field, cause, _NO_SIDECAR))


def _windows_field(spec: Mapping[str, Any]) -> str:
    """Return the field by which a pod asks for Windows, empty if it does not."""
    if (spec.get("os") or {}).get("name") == _WINDOWS:
        return "spec.os.name is windows"
    node_selector = spec.get("nodeSelector") or {}
    for label in _OS_LABELS:
        if node_selector.get(label) == _WINDOWS:
            return f"spec.nodeSelector[{label}] is windows"
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    terms = required.get("nodeSelectorTerms") or ()
    if terms and all(any(map(_asks_for_windows, term.get("matchExpressions") or ())) for term in terms):
        return "spec.affinity.nodeAffinity asks for nodes with windows"
    return ""


def _asks_for_windows(expression: Mapping[str, Any]) -> bool:
    values = expression.get("values") or []
    return expression.get("key") in _OS_LABELS and expression.get("operator") == "In" and values == [_WINDOWS]


def _has_two_proxies(subject: Subject) -> Iterator[Pitfall]:
    if subject.is_native and c.find(c.PROXY, c.containers_of(subject.injected)) is not None:
        names = ", ".join(subject.templates)
        yield Pitfall("INJ0012", (names, f'or give the pods the annotation {NATIVE_SIDECAR}: "false"'))


def _invalid_images(subject: Subject) -> Iterator[Pitfall]:
    for field, image, fault in invalid_images(subject.injected):
        yield Pitfall("INJ0013", (field, json.dumps(image), fault))


def invalid_images(injected: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield the images of Istio's containers that are not valid references: the field, the image and the fault."""
    for kind in ("initContainers", "containers"):
        for item in c.containers_of(injected, kind):
            image = item.get("image") or ""
            fault = reference_fault(image) if item.get("name") in c.ISTIOS and image else ""
            if fault:
                yield f"spec.{kind}[{item.get('name')}].image", image, fault


def _unknown_fields(subject: Subject) -> Iterator[Pitfall]:
    """Yield the fields of annotations in JSON or YAML that Istio ignores."""
    annotations, revision = c.annotations_of(dict(subject.pod)), subject.revision
    if PROXY_CONFIG in annotations and revision.behaviours.proxy_config_annotation:
        data = _decode(annotations[PROXY_CONFIG])
        kind = proxy_config_type(revision.minor)
        for path, remedy in _unknown_in_message(kind, data, ""):
            what = f"Istio {revision.istio_version} has no field {path} in a ProxyConfig, and ignores it"
            yield Pitfall("INJ0007", (PROXY_CONFIG, what, remedy))
    for name, kind in ((USER_VOLUME, "v1.Volume"), (USER_VOLUME_MOUNT, "v1.VolumeMount")):
        if name in annotations and any(
            name in revision.config.templates.get(template, "") for template in subject.templates
        ):
            yield from _unknown_in_entries(name, kind, _decode(annotations[name]))


def _decode(text: str) -> Any:
    try:
        return load_yaml(text, most=MOST_VALUES)
    except DataError:
        return None  # which the injection refuses


def _unknown_in_message(kind: str, data: Any, path: str) -> Iterator[tuple[str, str]]:
    if not isinstance(data, dict):
        return
    message = message_type(kind)
    for key, value in data.items():
        place = f"{path}{key}"
        field = message.by_json.get(key)
        if field is None:
            yield (
                place,
                _remedy(str(key), [name for name, other in message.by_json.items() if other.json == name], value, kind),
            )
        elif field.kind == "message" and field.type not in (*WRAPPERS, DURATION, STRUCT):
            inner = [value] if not (field.repeated or field.map_key) else value
            for item in inner.values() if isinstance(inner, dict) else inner if isinstance(inner, list) else ():
                yield from _unknown_in_message(field.type, item, f"{place}.")


def _remedy(key: str, names: Collection[str], value: Any = None, kind: str = "") -> str:
    if kind and isinstance(value, dict) and key in ("defaultConfig", "meshConfig", "proxyConfig", "spec"):
        return f"write the fields below {key} without it"
    similar = did_you_mean(key, names)
    return f"correct its name{similar}" if similar else f"remove it; known are {first_of(sorted(names), _MOST_NAMES)}"


def _unknown_in_entries(name: str, kind: str, data: Any) -> Iterator[Pitfall]:
    """Yield the unknown fields of volumes or mounts, and the volumes without a source."""
    entries = data if isinstance(data, dict) else dict(enumerate(data)) if isinstance(data, list) else {}
    known = struct_type(kind)
    sources = frozenset(known.by_json) - {"name"}
    for key, spec in entries.items():
        if not isinstance(spec, dict):
            continue
        unknown = [field for field in spec if known.json_field(str(field)) is None]
        for field in unknown:
            what = "a volume has no source" if kind == "v1.Volume" else "a mount has no field"
            effect = f"{what} {field}, so volume {spec.get('name', key)} is empty"
            if kind != "v1.Volume" or any(known.json_field(str(other)) for other in spec if other != "name"):
                effect = f"{what} {field}, which is ignored"
            yield Pitfall("INJ0007", (name, effect, _remedy(str(field), sources)))
        if kind == "v1.Volume" and not unknown and not set(spec) - {"name"}:
            what = f"volume {spec.get('name', key)} has no source, so it is empty"
            yield Pitfall("INJ0007", (name, what, "add a source, such as configMap, or emptyDir: {}"))


def _not_discovered(subject: Subject) -> Iterator[Pitfall]:
    revision, labels = subject.revision, subject.namespace_labels
    mesh = revision.mesh.mesh_config
    if labels is None or not mesh.values.get("discoverySelectors"):
        return
    try:
        selectors = [Selector.compile(selector) for selector in mesh.json_value()["discoverySelectors"]]
    except ManifestError:
        return  # istiod keeps the selectors that it had before
    if any(selector.matches(labels) for selector in selectors):
        return
    effect = f"istiod {revision.name} ignores it"
    if revision.minor >= _FIRST_FILTERED and _mounts_root_cert(subject.injected):
        effect += f": it writes no ConfigMap {_ROOT_CERT} there, so new pods stay in ContainerCreating"
    remedy = f"label the namespace for one of them ({' or '.join(map(str, selectors))})"
    yield Pitfall("INJ0011", (effect, remedy), of_namespace=True)


def _mounts_root_cert(pod: Mapping[str, Any]) -> bool:
    volumes = (pod.get("spec") or {}).get("volumes") or ()
    config_maps = ((volume.get("configMap") or {}) for volume in volumes)
    return any(source.get("name") == _ROOT_CERT and not source.get("optional") for source in config_maps)
