"""The API server's validation of pods, as far as injection can make a pod invalid.

Follows ``ValidatePodCreate`` in Kubernetes' pkg/apis/core/validation/validation.go. Only rules that hold from 1.19 to 1.36 are here, in a
form that accepts every pod that one of these versions accepts: fields and values that only some versions know are not judged, unless the
pod had the field before, because an API server drops fields that it does not know. Defaults that the API server sets before it validates
count as set.

The checks run for each injected pod, and must be fast: a container, a volume or a field that the pod had before is not looked into, and
names are compared with those that were accepted before.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from injector.kube.quantity import parse_quantity
from injector.kube.selectors import is_dns_label, is_label_key, is_label_value

if TYPE_CHECKING:
    Object = Mapping[str, Any]

MAX_ANNOTATIONS: Final = 256 << 10
"""Bytes of all annotations, keys included (k8s.io/apimachinery, pkg/api/validation/objectmeta.go)."""

_INIT: Final = "initContainers"
_LISTS: Final = ("containers", _INIT)
_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")
_NOT_FOR_INIT: Final = frozenset(("lifecycle", *_PROBES))
_HOOKS: Final = frozenset(("postStart", "preStop"))
_HANDLERS: Final = ("exec", "httpGet", "tcpSocket")
_NEWER_HANDLERS: Final = ("grpc", "sleep")
_SOURCES: Final[Mapping[str, str]] = {
    "configMap": "name",
    "downwardAPI": "",
    "emptyDir": "",
    "hostPath": "path",
    "nfs": "server",
    "persistentVolumeClaim": "claimName",
    "projected": "",
    "secret": "secretName",
}
"""Sources of volumes, each with a field that must not be empty."""
_OTHER_SOURCES: Final = frozenset(
    (
        *(
            "awsElasticBlockStore",
            "azureDisk",
            "azureFile",
            "cephfs",
            "cinder",
            "csi",
            "fc",
            "flexVolume",
            "flocker",
            "gcePersistentDisk",
        ),
        *(
            "gitRepo",
            "glusterfs",
            "iscsi",
            "photonPersistentDisk",
            "portworxVolume",
            "quobyte",
            "rbd",
            "scaleIO",
            "storageos",
        ),
        "vsphereVolume",
    )
)
"""Sources of volumes that every version knows, whose fields are not judged."""
_NEWER_SOURCES: Final = frozenset(("ephemeral", "image"))
_VALUE_SOURCES: Final = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef")
_NOT_ON_WINDOWS: Final = frozenset(
    (
        *("allowPrivilegeEscalation", "capabilities", "fsGroup", "fsGroupChangePolicy", "privileged", "procMount"),
        *(
            "readOnlyRootFilesystem",
            "runAsGroup",
            "runAsUser",
            "seLinuxOptions",
            "seccompProfile",
            "supplementalGroups",
            "sysctls",
        ),
    )
)
"""Fields of the security contexts of pods and containers."""
_SIMPLE_VOLUME: Final = frozenset(("name", *(source for source, field in _SOURCES.items() if not field)))
_NO_POD_ON_WINDOWS: Final = ("hostIPC", "hostPID", "shareProcessNamespace")
_KEYS: Final = 2
"""A volume has a name and a source. A variable has a name, and a value or its source. A mount with two sub-paths has two more."""
_PROTOCOLS: Final = ("TCP", "UDP", "SCTP")
_PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")
_OVERCOMMITTED: Final = ("cpu", "memory", "ephemeral-storage")
_GRACE: Final = 30
"""The grace period of a pod that states none, in seconds."""
_LARGEST_PORT: Final = 65535
_SPACE: Final = " \t\n\v\f\r\x85\xa0"
_NOTHING: Final[Object] = {}

_PORT_NAME: Final = re.compile(r"(?=.{0,14}[a-z])(?!.*--)[a-z0-9](?:[-a-z0-9]{0,13}[a-z0-9])?", re.ASCII)
# From 1.30 on a variable's name may have any printable character of ASCII but "=".
_ENV_NAME: Final = re.compile(r"[ -<>-~]+")

_REQUIRED: Final = "Required value"
_NOT_FOUND: Final = "Not found"
_LABEL_SYNTAX: Final = "a lowercase RFC 1123 label has at most 63 letters, digits and '-'"


class _Accepted:
    """The values that a rule accepts. Those that it accepted before are remembered, since a cluster uses few of them."""

    _MOST: Final = 1024
    _LONGEST: Final = 512

    def __init__(self, rule: Callable[[str], object]) -> None:
        self._rule = rule
        self._known: set[str] = set()

    def others(self, values: Collection[str]) -> Sequence[str]:
        """Return the values that the rule does not accept."""
        if self._known.issuperset(values):
            return ()
        refused = []
        for value in values:
            if not self._rule(value):
                refused.append(value)
            elif len(value) <= self._LONGEST:
                if len(self._known) >= self._MOST:
                    self._known = set()
                self._known.add(value)
        return refused


_DNS_LABELS: Final = _Accepted(is_dns_label)
_PORT_NAMES: Final = _Accepted(_PORT_NAME.fullmatch)
_ENV_NAMES: Final = _Accepted(_ENV_NAME.fullmatch)
_LABEL_KEYS: Final = _Accepted(is_label_key)
_LABEL_VALUES: Final = _Accepted(is_label_value)
_ANNOTATION_KEYS: Final = _Accepted(lambda key: is_label_key(key.lower()))


class Fault(NamedTuple):
    """One fault: the path of the field, and the fault in the API server's words.

    The parts of the path are fields, such as ``.env``, and names of list entries, such as ``[app]``. Only names can have texts of the
    pod's values: the template of a pod may have made a name of an annotation.
    """

    path: tuple[str, ...]
    what: str

    @property
    def where(self) -> str:
        """The field with the names of its list entries, for the creator of the pod."""
        return "".join(self.path).removeprefix(".")

    def place(self, names: Collection[str]) -> str:
        """Return the field with only those names of list entries that are in ``names``, for logs."""
        parts = (part for part in self.path if part.startswith(".") or part[1:-1] in names)
        return "".join(parts).removeprefix(".")

    @property
    def is_missing_volume(self) -> bool:
        """Whether a container mounts a volume that the pod does not have, while other pods may have it."""
        return self.what.startswith(_NOT_FOUND)


Faults: TypeAlias = list[Fault]
"""The faults so far. The checks add to a list, which takes half the time of generators."""


def new_faults(pod: Object, before: Object) -> tuple[Fault, ...]:
    """Return the faults of ``pod`` that ``before``, the pod from which it was made, does not have.

    Both are as ``normalise`` returns them. Faults name containers, volumes and variables, but quote no values of variables.
    """
    faults = _faults(pod, before, before)
    if not faults:
        return ()
    had = frozenset(_faults(before, {}, before))
    return tuple(dict.fromkeys(fault for fault in faults if fault not in had))


def _faults(pod: Object, before: Object, sent: Object) -> Faults:
    """Return the faults of what ``pod`` does not share with ``before``. The API server knows all fields of ``sent``."""
    all_faults: Faults = []
    _check_metadata(pod.get("metadata") or _NOTHING, before.get("metadata") or _NOTHING, all_faults)
    spec, spec_before = pod.get("spec") or _NOTHING, before.get("spec") or _NOTHING
    spec_sent = sent.get("spec") or _NOTHING
    is_windows = (spec_sent.get("os") or _NOTHING).get("name") == "windows"
    if is_windows:
        _check_windows(spec, all_faults, (".spec",))
        what = "Forbidden: cannot be set for a windows pod"
        all_faults.extend(Fault((".spec", f".{key}"), what) for key in _NO_POD_ON_WINDOWS if spec.get(key))
    if spec != spec_before:
        _check_pod(spec, spec_before, spec_sent, all_faults)
    volumes = spec.get("volumes") or ()
    volume_names = {volume.get("name", "") for volume in volumes}
    if volumes:
        _check_volumes(
            volumes,
            volume_names,
            _by_name(spec_before.get("volumes") or ()),
            _by_name(spec_sent.get("volumes") or ()),
            all_faults,
        )
    if not spec.get("containers"):
        all_faults.append(Fault((".spec", ".containers"), _REQUIRED))
    names, host_ports = set[str](), set[str]()
    containers_sent = _by_name(container for kind in _LISTS for container in spec_sent.get(kind) or ())
    for kind in _LISTS:
        known = _by_name(spec_before.get(kind) or ())
        for container in spec.get(kind) or ():
            name = container.get("name", "")
            faults: Faults = []
            if name in names:
                faults.append(Fault((".name",), f'Duplicate value: "{name}"'))
            names.add(name)
            old = known.get(name, _NOTHING)
            if old != container:
                _check_container(container, old, containers_sent.get(name, _NOTHING), volume_names, faults)
                if is_windows:
                    _check_windows(container, faults)
                if kind == _INIT and container.get("restartPolicy") != "Always":
                    forbidden = sorted(_NOT_FOR_INIT & container.keys())
                    faults.extend(
                        Fault((f".{key}",), "Forbidden: may not be set for init containers") for key in forbidden
                    )
            if kind != _INIT and "ports" in container:
                _check_host_ports(container["ports"], host_ports, faults)
            if faults:
                container_path = ".spec", f".{kind}", f"[{name}]"
                all_faults.extend(Fault((*container_path, *fault.path), fault.what) for fault in faults)
    return all_faults


def _check_pod(spec: Object, old: Object, sent: Object, faults: Faults) -> None:
    """Check the fields of a pod that depend on its other fields. ``sent`` is the spec as the API server sent it."""
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        what = "Invalid value: true: ShareProcessNamespace and HostPID cannot both be enabled"
        faults.append(Fault((".spec", ".securityContext", ".shareProcessNamespace"), what))
    security, old_security, sent_security = (holder.get("securityContext") or _NOTHING for holder in (spec, old, sent))
    if security != old_security:
        _check_profiles(security, sent_security, (".spec", ".securityContext"), faults)
    grace = spec.get("terminationGracePeriodSeconds", _GRACE)
    if 0 <= grace < old.get("terminationGracePeriodSeconds", _GRACE):
        _check_sleeps(sent, grace, faults)
    if "resources" in sent:
        _check_pod_resources(spec, faults)


def _check_sleeps(sent: Object, grace: int, faults: Faults) -> None:
    """Check that the hooks that sleep, which the API server knows, end within a shorter grace period."""
    for container in sent.get("containers") or ():
        seconds = (((container.get("lifecycle") or _NOTHING).get("preStop") or _NOTHING).get("sleep") or _NOTHING).get(
            "seconds", 0
        )
        if seconds > grace:
            path = ".spec", ".containers", f"[{container.get('name', '')}]", ".lifecycle.preStop.sleep"
            what = (
                f"Invalid value: {seconds}: must be non-negative and less than terminationGracePeriodSeconds ({grace})"
            )
            faults.append(Fault(path, what))


def _check_pod_resources(spec: Object, faults: Faults) -> None:
    """Check that the resources of the containers, of an injected one too, are within those of the pod as a whole."""
    running = [
        (kind, container)
        for kind in _LISTS
        for container in spec.get(kind) or ()
        if kind != _INIT or container.get("restartPolicy") == "Always"
    ]
    resources = spec.get("resources") or _NOTHING
    for name, most in (resources.get("requests") or _NOTHING).items():
        if sum(parse_quantity(_request(container, name)) for _, container in running) > parse_quantity(most):
            what = f'Invalid value: "{most}": must be greater than or equal to aggregate container requests'
            faults.append(Fault((".spec", ".resources", ".requests", f".{name}"), what))
    for name, most in (resources.get("limits") or _NOTHING).items():
        for kind, container in running:
            limit = ((container.get("resources") or _NOTHING).get("limits") or _NOTHING).get(name, "0")
            if parse_quantity(limit) > parse_quantity(most):
                path = ".spec", f".{kind}", f"[{container.get('name', '')}]", ".resources", ".limits", f".{name}"
                faults.append(
                    Fault(path, f'Invalid value: "{limit}": must be less than or equal to pod limits of {most}')
                )


def _request(container: Object, name: str) -> str:
    """Return how much of a resource a container requests: by default its limit."""
    resources = container.get("resources") or _NOTHING
    requests, limits = resources.get("requests") or _NOTHING, resources.get("limits") or _NOTHING
    return str(requests.get(name, limits.get(name, "0")))


def _by_name(items: Iterable[Object]) -> dict[str, Object]:
    return {item.get("name", ""): item for item in items}


def _find_repeated(values: Iterable[str]) -> Iterator[str]:
    known = set[str]()
    for value in values:
        if value in known:
            yield value
        known.add(value)


def _check_metadata(meta: Object, old: Object, faults: Faults) -> None:
    before = old.get("labels") or _NOTHING
    added = {key: value for key, value in (meta.get("labels") or _NOTHING).items() if before.get(key) != value}
    for text in (*_LABEL_KEYS.others(added), *_LABEL_VALUES.others(added.values())):
        faults.append(Fault((".metadata", ".labels"), f'Invalid value: "{text}"'))
    annotations = meta.get("annotations") or _NOTHING
    for key in _ANNOTATION_KEYS.others(annotations):
        faults.append(Fault((".metadata", ".annotations"), f'Invalid value: "{key}"'))
    if sum(map(len, annotations)) + sum(map(len, annotations.values())) > MAX_ANNOTATIONS:
        faults.append(Fault((".metadata", ".annotations"), f"Too long: may not be more than {MAX_ANNOTATIONS} bytes"))


def _check_volumes(
    volumes: Sequence[Object],
    names: set[str],
    before: Mapping[str, Object],
    sent: Mapping[str, Object],
    faults: Faults,
) -> None:
    if len(names) < len(volumes):
        for name in _find_repeated(volume.get("name", "") for volume in volumes):
            faults.append(Fault((".spec", ".volumes", f"[{name}]", ".name"), f'Duplicate value: "{name}"'))
    for name in _DNS_LABELS.others(names):
        faults.append(Fault((".spec", ".volumes", f"[{name}]", ".name"), _name_fault(name)))
    for volume in volumes:
        if len(volume) <= _KEYS and _SIMPLE_VOLUME.issuperset(volume):
            continue
        name = volume.get("name", "")
        if before.get(name) == volume:
            continue
        known = _SOURCES.keys() | _OTHER_SOURCES | (_NEWER_SOURCES & sent.get(name, _NOTHING).keys())
        sources = [key for key in volume if key in known]
        for source in sources[1:]:
            faults.append(
                Fault(
                    (".spec", ".volumes", f"[{name}]", f".{source}"),
                    "Forbidden: may not specify more than 1 volume type",
                )
            )
        for source in sources:
            field = _SOURCES.get(source)
            if field and not volume[source].get(field):
                faults.append(Fault((".spec", ".volumes", f"[{name}]", f".{source}", f".{field}"), _REQUIRED))


def _name_fault(name: str) -> str:
    return f'Invalid value: "{name}": {_LABEL_SYNTAX}' if name else _REQUIRED


def _check_container(container: Object, old: Object, sent: Object, volumes: set[str], faults: Faults) -> None:
    """Check the fields of a container that differ from ``old``. The places of the faults are relative to the container.

    ``sent`` is the container as the API server sent it, in either list: a native sidecar was among the containers.
    """
    for name in _DNS_LABELS.others((container.get("name", ""),)):
        faults.append(Fault((".name",), _name_fault(name)))
    image, policy = container.get("image", ""), container.get("imagePullPolicy", "")
    if not image:
        faults.append(Fault((".image",), _REQUIRED))
    elif image != image.strip(_SPACE):
        faults.append(Fault((".image",), f'Invalid value: "{image}": must not have leading or trailing whitespace'))
    if policy and policy not in _PULL_POLICIES:
        faults.append(Fault((".imagePullPolicy",), f'Unsupported value: "{policy}"'))
    for key, value in container.items():
        if key in _CHECKS and old.get(key) != value:
            _CHECKS[key](key, value, sent.get(key) or _NOTHING, faults)
    mounts = container.get("volumeMounts")
    if mounts and mounts != old.get("volumeMounts"):
        _check_mounts(mounts, volumes, faults)


def _check_windows(holder: Object, faults: Faults, path: tuple[str, ...] = ()) -> None:
    """Check the security context of a pod, or of a container, for Windows."""
    for key in sorted(_NOT_ON_WINDOWS & (holder.get("securityContext") or _NOTHING).keys()):
        what = "Forbidden: cannot be set for a windows pod"
        faults.append(Fault((*path, ".securityContext", f".{key}"), what))


def _check_env(_: str, env: Sequence[Object], sent: Any, faults: Faults) -> None:
    for name in _ENV_NAMES.others([item.get("name", "") for item in env]):
        faults.append(Fault((".env", f"[{name}]", ".name"), f'Invalid value: "{name}"' if name else _REQUIRED))
    if max(map(len, env)) > _KEYS:
        both = [item.get("name", "") for item in env if "valueFrom" in item and item.get("value")]
        what = "Invalid value: may not be specified when `value` is not empty"
        faults.extend(Fault((".env", f"[{name}]", ".valueFrom"), what) for name in both)
    for item in env:
        if "valueFrom" not in item or len(item["valueFrom"]) <= 1:
            continue
        newer = {
            key for known in sent or () if known.get("name") == item.get("name") for key in known.get("valueFrom") or ()
        }
        if sum(key in item["valueFrom"] for key in {*_VALUE_SOURCES, *newer}) > 1:
            what = "Invalid value: may not have more than one field specified at a time"
            faults.append(Fault((".env", f"[{item.get('name', '')}]", ".valueFrom"), what))


def _check_mounts(mounts: Sequence[Object], volumes: set[str], faults: Faults) -> None:
    places = [mount.get("mountPath", "") for mount in mounts]
    if len(set(places)) < len(mounts):
        for place in _find_repeated(places):
            faults.append(
                Fault((".volumeMounts", f"[{place}]", ".mountPath"), f'Invalid value: "{place}": must be unique')
            )
    names = [mount.get("name", "") for mount in mounts]
    if volumes.issuperset(names) and all(names) and all(places) and max(map(len, mounts)) <= _KEYS + 1:
        return
    for mount, place in zip(mounts, places, strict=True):
        if (name := mount.get("name", "")) not in volumes:
            faults.append(Fault((".volumeMounts", f"[{place}]", ".name"), f'{_NOT_FOUND}: "{name}"'))
        if not place:
            faults.append(Fault((".volumeMounts", "[]", ".mountPath"), _REQUIRED))
        if "subPathExpr" in mount and "subPath" in mount:
            what = "Invalid value: subPathExpr and subPath are mutually exclusive"
            faults.append(Fault((".volumeMounts", f"[{place}]", ".subPathExpr"), what))


def _check_ports(_: str, ports: Sequence[Object], __: Any, faults: Faults) -> None:
    for port in ports:
        number, host = port.get("containerPort", 0), port.get("hostPort", 0)
        if not 0 < number <= _LARGEST_PORT:
            faults.append(Fault((".ports", f"[{number}]", ".containerPort"), f"Invalid value: {number}: {_PORT_RANGE}"))
        if not 0 <= host <= _LARGEST_PORT:
            faults.append(Fault((".ports", f"[{number}]", ".hostPort"), f"Invalid value: {host}: {_PORT_RANGE}"))
        if (protocol := port.get("protocol", "TCP")) not in _PROTOCOLS:
            faults.append(Fault((".ports", f"[{number}]", ".protocol"), f'Unsupported value: "{protocol}"'))
    names = [name for port in ports if (name := port.get("name"))]
    for name in _PORT_NAMES.others(names):
        faults.append(Fault((".ports", ".name"), f'Invalid value: "{name}"'))
    if len(set(names)) < len(names):
        faults.extend(Fault((".ports", ".name"), f'Duplicate value: "{name}"') for name in _find_repeated(names))


_PORT_RANGE: Final = f"must be between 1 and {_LARGEST_PORT}"


def _check_host_ports(ports: Sequence[Object], used: set[str], faults: Faults) -> None:
    for port in ports:
        if port.get("hostPort"):
            place = f"{port.get('protocol', 'TCP')}/{port.get('hostIP', '')}/{port['hostPort']}"
            if place in used:
                faults.append(Fault((".ports", ".hostPort"), f'Duplicate value: "{place}"'))
            used.add(place)


def _check_handler(path: str, handler: Object, sent: Object, faults: Faults) -> None:
    actions = [key for key in (*_HANDLERS, *(key for key in _NEWER_HANDLERS if key in sent)) if key in handler]
    if len(actions) > 1:
        faults.append(Fault((f".{path}.{actions[1]}",), "Forbidden: may not specify more than 1 handler type"))
    if not actions and not any(key in handler for key in _NEWER_HANDLERS):
        faults.append(Fault((f".{path}",), f"{_REQUIRED}: must specify a handler type"))
    for key in actions:
        if key == "exec":
            if not handler[key].get("command"):
                faults.append(Fault((f".{path}.exec.command",), _REQUIRED))
        elif key in _HANDLERS and not _is_port(port := handler[key].get("port", 0)):
            faults.append(Fault((f".{path}.{key}.port",), f'Invalid value: "{port}"'))


def _is_port(port: int | str) -> bool:
    return not _PORT_NAMES.others((port,)) if isinstance(port, str) else 0 < port <= _LARGEST_PORT


def _check_lifecycle(path: str, lifecycle: Object, sent: Object, faults: Faults) -> None:
    for key in _HOOKS & lifecycle.keys():
        _check_handler(f"{path}.{key}", lifecycle[key], sent.get(key) or _NOTHING, faults)


def _check_resources(path: str, resources: Object, _: Any, faults: Faults) -> None:
    limits, requests = resources.get("limits") or _NOTHING, resources.get("requests") or _NOTHING
    for kind, quantities in (("limits", limits), ("requests", requests)):
        for name, quantity in quantities.items():
            if quantity.startswith("-") and parse_quantity(quantity) < 0:
                what = f'Invalid value: "{quantity}": must be greater than or equal to 0'
                faults.append(Fault((f".{path}.{kind}", f".{name}"), what))
    for name, request in requests.items():
        limit = limits.get(name, request)
        if name not in _OVERCOMMITTED:
            _check_whole(path, name, request, limits, faults)
        elif request != limit and _AT_MOST.others((f"{request} {limit}",)):
            what = f'Invalid value: "{request}": must be less than or equal to {name} limit of {limit}'
            faults.append(Fault((f".{path}.requests",), what))


def _check_whole(path: str, name: str, request: str, limits: Mapping[str, str], faults: Faults) -> None:
    """Check the request of a resource that a node cannot promise twice: huge pages, and those of devices."""
    if not name.startswith("hugepages-") and ("/" not in name or "kubernetes.io/" in name):
        return
    if name not in limits:
        what = f"{_REQUIRED}: Limit must be set for non overcommitable resources"
        faults.append(Fault((f".{path}.limits",), what))
    elif request != limits[name] and parse_quantity(request) != parse_quantity(limits[name]):
        what = f'Invalid value: "{request}": must be equal to {name} limit of {limits[name]}'
        faults.append(Fault((f".{path}.requests",), what))


def _is_at_most(quantities: str) -> bool:
    request, _, limit = quantities.partition(" ")
    return parse_quantity(request) <= parse_quantity(limit)


_AT_MOST: Final = _Accepted(_is_at_most)


def _check_profiles(security: Object, sent: Object, path: tuple[str, ...], faults: Faults) -> None:
    """Check the profiles of a security context. A profile of the node that gets another type keeps its file."""
    for key, words in (("seccompProfile", "seccomp"), ("appArmorProfile", "AppArmor")):
        profile = security.get(key) or _NOTHING
        if not profile or (key == "appArmorProfile" and key not in sent):
            continue
        is_local, has_file = profile.get("type") == "Localhost", "localhostProfile" in profile
        if has_file and not is_local:
            what = f"Invalid value: can only be set when {words} type is Localhost"
            faults.append(Fault((*path, f".{key}", ".localhostProfile"), what))
        elif is_local and not has_file:
            what = f"{_REQUIRED}: must be set when {words} type is Localhost"
            faults.append(Fault((*path, f".{key}", ".localhostProfile"), what))


def _check_security(path: str, security: Object, sent: Any, faults: Faults) -> None:
    _check_profiles(security, sent, (f".{path}",), faults)
    if security.get("allowPrivilegeEscalation") is False:
        what = "Invalid value: cannot set `allowPrivilegeEscalation` to false and"
        if security.get("privileged"):
            faults.append(Fault((f".{path}",), f"{what} `privileged` to true"))
        if "CAP_SYS_ADMIN" in ((security.get("capabilities") or {}).get("add") or ()):
            faults.append(Fault((f".{path}",), f"{what} `capabilities.Add` CAP_SYS_ADMIN"))


_CHECKS: Final[Mapping[str, Callable[[str, Any, Any, Faults], None]]] = {
    "env": _check_env,
    "lifecycle": _check_lifecycle,
    "ports": _check_ports,
    "resources": _check_resources,
    "securityContext": _check_security,
    **dict.fromkeys(_PROBES, _check_handler),
}
"""The fields of a container that are checked without the rest of the pod, by the field's name."""
