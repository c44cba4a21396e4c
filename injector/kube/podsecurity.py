"""Pod Security: the levels that a pod passes, and the policy of a namespace.

Follows k8s.io/pod-security-admission (v0.35.4): policy/check_*.go, policy/registry.go, and ``PolicyToEvaluate`` in api/helpers.go. A rule
names its fault as the API server does. Here ``latest`` means the rules of Kubernetes 1.35, as for an API server of that version.

The exemptions of an API server (users, namespaces, runtime classes) are in a file of its host, and are not known here.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

Object: TypeAlias = "Mapping[str, Any]"

PRIVILEGED: Final = "privileged"
BASELINE: Final = "baseline"
RESTRICTED: Final = "restricted"
LEVELS: Final = (PRIVILEGED, BASELINE, RESTRICTED)
"""The levels, from the one that allows all pods to the strictest."""
LATEST: Final = sys.maxsize
"""The version of the newest rules. Other versions are minors of Kubernetes 1."""
PREFIX: Final = "pod-security.kubernetes.io/"

_VERSION: Final = re.compile(r"v1\.(0|[1-9][0-9]{0,8})", re.ASCII)
_NOTHING: Final[Object] = {}
_LISTS: Final = ("initContainers", "containers", "ephemeralContainers")
_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")
_HOOKS: Final = ("postStart", "preStop")
_APP_ARMOR: Final = "container.apparmor.security.beta.kubernetes.io/"
_SECCOMP: Final = "seccomp.security.alpha.kubernetes.io/pod"
_CONTAINER_SECCOMP: Final = "container.seccomp.security.alpha.kubernetes.io/"
_PROFILES: Final = ("RuntimeDefault", "Localhost")
_CAPABILITIES: Final = frozenset({
    "AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "SETFCAP", "SETGID", "SETPCAP",
    "SETUID", "SYS_CHROOT",
})  # fmt: skip
_VOLUMES: Final = frozenset({
    "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image", "persistentVolumeClaim", "projected", "secret",
})  # fmt: skip
_SE_LINUX_TYPES: Final[Mapping[str, int]] = {
    **dict.fromkeys(("", "container_t", "container_init_t", "container_kvm_t"), 0),
    "container_engine_t": 31,
}
_SYSCTLS: Final[Mapping[str, int]] = {
    "kernel.shm_rmid_forced": 0,
    **{
        f"net.ipv4.{name}": 0
        for name in ("ip_local_port_range", "tcp_syncookies", "ping_group_range", "ip_unprivileged_port_start")
    },
    "net.ipv4.ip_local_reserved_ports": 27,
    **{f"net.ipv4.tcp_{name}": 29 for name in ("keepalive_time", "fin_timeout", "keepalive_intvl", "keepalive_probes")},
    **{f"net.ipv4.tcp_{name}": 32 for name in ("rmem", "wmem")},
}
"""The allowed types and names, each with the minor that was the first to allow it."""


class Violation(NamedTuple):
    """A rule that a pod violates: the reason in the API server's words, and the containers or volumes, or ``pod``."""

    reason: str
    where: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.reason} ({', '.join(self.where)})"


class _Facts(NamedTuple):
    """The parts of a pod that rules read. ``contexts`` are the security contexts of containers by name, ``context`` is the pod's.

    ``all_contexts`` are both, with the name ``pod`` for the pod's.
    """

    annotations: Object
    spec: Object
    containers: Sequence[Object]
    contexts: Sequence[tuple[str, Object]]
    context: Object
    all_contexts: Sequence[tuple[str, Object]]


def _facts(pod: Object) -> _Facts:
    spec: Object = pod.get("spec") or _NOTHING
    annotations = (pod.get("metadata") or _NOTHING).get("annotations") or _NOTHING
    containers = [container for kind in _LISTS for container in spec.get(kind) or ()]
    contexts = [(container.get("name", ""), container.get("securityContext") or _NOTHING) for container in containers]
    context = spec.get("securityContext") or _NOTHING
    return _Facts(annotations, spec, containers, contexts, context, (("pod", context), *contexts))


Offenders: TypeAlias = "Callable[[_Facts, int], Iterable[str]]"
"""Returns what violates a rule of a version in a pod: containers or volumes by name, or ``pod``."""


@dataclass(frozen=True, slots=True)
class Check:
    """One rule (policy.Check), with its ``reason`` in the API server's words. The level restricted has the rules of baseline too.

    The rule holds from the minor ``since`` on, before ``until``. From ``replaced`` on, the level restricted has another rule in its place.
    From ``windows_until`` on, pods of Windows are exempt, and from ``own_users_until`` on pods with users of their own (``hostUsers:
    false``).
    """

    level: str
    reason: str
    offenders: Offenders
    since: int = 0
    until: int = LATEST + 1
    replaced: int = LATEST + 1
    windows_until: int = LATEST + 1
    own_users_until: int = LATEST + 1

    def applies(self, level: str, version: int) -> bool:
        """Return whether a level has the rule in a version."""
        if not self.since <= version < self.until or level == PRIVILEGED:
            return False
        return version < self.replaced if level == RESTRICTED else self.level == BASELINE

    def violated_by(self, pod: _Facts, version: int) -> Iterable[str]:
        """Return the names of the parts of a pod that violate the rule; none if the pod is exempt."""
        if version >= self.windows_until and (pod.spec.get("os") or _NOTHING).get("name") == "windows":
            return ()
        if version >= self.own_users_until and pod.spec.get("hostUsers") is False:
            return ()
        return self.offenders(pod, version)


def _containers(is_fault: Callable[[Object], Any]) -> Offenders:
    """Return the containers whose security context is a fault."""
    return lambda pod, _: (name for name, context in pod.contexts if is_fault(context))


def _pod_and_containers(is_fault: Callable[[Object], Any]) -> Offenders:
    """Return the pod and the containers whose security context is a fault."""
    return lambda pod, _: (name for name, context in pod.all_contexts if is_fault(context))


def _require(key: str, is_fault: Callable[[Object], Any]) -> Offenders:
    """Return the pod and the containers with a fault. Without any, the containers that lack the field, if the pod lacks it too."""

    def offenders(pod: _Facts, _: int) -> Iterator[str]:
        explicit = [name for name, context in pod.all_contexts if is_fault(context)]
        yield from explicit
        if not explicit and pod.context.get(key) is None:
            yield from (name for name, context in pod.contexts if context.get(key) is None)

    return offenders


def _other_profile(field: str) -> Callable[[Object], bool]:
    """Return a function that tells whether a security context has a profile that is not allowed."""
    return lambda context: context.get(field) is not None and context[field].get("type") not in _PROFILES


_other_seccomp: Final = _other_profile("seccompProfile")


def _app_armor(pod: _Facts, version: int) -> Iterator[str]:
    yield from _pod_and_containers(_other_profile("appArmorProfile"))(pod, version)
    for key, value in pod.annotations.items():
        allowed = value in {"", "runtime/default"} or value.startswith("localhost/")
        if key.startswith(_APP_ARMOR) and not allowed:
            yield f"annotation {key}"


def _capabilities(context: Object, verb: str) -> Sequence[str]:
    """Return the capabilities that a security context adds or drops."""
    return (context.get("capabilities") or _NOTHING).get(verb) or ()


def _restricted_capabilities(pod: _Facts, _: int) -> Iterator[str]:
    yield from (name for name, context in pod.contexts if "ALL" not in _capabilities(context, "drop"))
    yield from (name for name, context in pod.contexts if set(_capabilities(context, "add")) - {"NET_BIND_SERVICE"})


def _host_namespaces(pod: _Facts, _: int) -> Iterator[str]:
    return (key for key in ("hostNetwork", "hostPID", "hostIPC") if pod.spec.get(key))


def _host_paths(pod: _Facts, _: int) -> Iterator[str]:
    return (volume.get("name", "") for volume in pod.spec.get("volumes") or () if volume.get("hostPath") is not None)


def _restricted_volumes(pod: _Facts, _: int) -> Iterator[str]:
    for volume in pod.spec.get("volumes") or ():
        # The API server gives a volume without a source an emptyDir.
        if len(volume) > 1 and all(volume.get(source) is None for source in _VOLUMES):
            yield volume.get("name", "")


def _host_ports(pod: _Facts, _: int) -> Iterator[str]:
    for container in pod.containers:
        if any(port.get("hostPort") for port in container.get("ports") or ()):
            yield container.get("name", "")


def _hosts(pod: _Facts, _: int) -> Iterator[str]:
    for container in pod.containers:
        hooks = container.get("lifecycle") or _NOTHING
        handlers = (*(container.get(probe) for probe in _PROBES), *(hooks.get(hook) for hook in _HOOKS))
        if any(
            (handler.get(kind) or _NOTHING).get("host")
            for handler in handlers
            if handler
            for kind in ("httpGet", "tcpSocket")
        ):
            yield container.get("name", "")


def _se_linux(pod: _Facts, version: int) -> Iterator[str]:
    for name, context in pod.all_contexts:
        options = context.get("seLinuxOptions") or _NOTHING
        if (
            options.get("user")
            or options.get("role")
            or _SE_LINUX_TYPES.get(options.get("type") or "", LATEST + 1) > version
        ):
            yield name


def _seccomp_annotations(pod: _Facts, _: int) -> Iterator[str]:
    for key in (_SECCOMP, *(f"{_CONTAINER_SECCOMP}{container.get('name', '')}" for container in pod.containers)):
        value = pod.annotations.get(key, "runtime/default")
        if value not in {"runtime/default", "docker/default"} and not value.startswith("localhost/"):
            yield f"annotation {key}"


def _sysctls(pod: _Facts, version: int) -> Iterator[str]:
    names = (sysctl.get("name", "") for sysctl in pod.context.get("sysctls") or ())
    return (name for name in names if _SYSCTLS.get(name, LATEST + 1) > version)


_added_capabilities: Final = _containers(lambda context: not _CAPABILITIES.issuperset(_capabilities(context, "add")))
_proc_mounts: Final = _containers(lambda context: context.get("procMount") not in {None, "Default"})
_privileged: Final = _containers(lambda context: context.get("privileged"))
_escalation: Final = _containers(lambda context: context.get("allowPrivilegeEscalation") is not False)
_host_processes: Final = _pod_and_containers(
    lambda context: (context.get("windowsOptions") or _NOTHING).get("hostProcess")
)
_root_user: Final = _pod_and_containers(lambda context: context.get("runAsUser") == 0)
_root: Final = _require("runAsNonRoot", lambda context: context.get("runAsNonRoot") is False)
_no_seccomp: Final = _require("seccompProfile", _other_seccomp)

CHECKS: Final[tuple[Check, ...]] = (
    Check(BASELINE, "forbidden AppArmor profile", _app_armor),
    Check(BASELINE, "non-default capabilities", _added_capabilities, replaced=22),
    Check(BASELINE, "host namespaces", _host_namespaces),
    Check(BASELINE, "hostPath volumes", _host_paths, replaced=0),
    Check(BASELINE, "hostPort", _host_ports),
    Check(BASELINE, "probe or lifecycle host", _hosts, since=34),
    Check(BASELINE, "privileged", _privileged),
    Check(BASELINE, "procMount", _proc_mounts, replaced=35, own_users_until=35),
    Check(BASELINE, "seLinuxOptions", _se_linux),
    Check(BASELINE, "seccompProfile", _seccomp_annotations, until=19),
    Check(BASELINE, "seccompProfile", _pod_and_containers(_other_seccomp), since=19, replaced=19),
    Check(BASELINE, "forbidden sysctls", _sysctls),
    Check(BASELINE, "hostProcess", _host_processes),
    Check(RESTRICTED, "allowPrivilegeEscalation != false", _escalation, since=8, windows_until=25),
    Check(RESTRICTED, "unrestricted capabilities", _restricted_capabilities, since=22, windows_until=25),
    Check(RESTRICTED, "procMount", _proc_mounts, since=35),
    Check(RESTRICTED, "restricted volume types", _restricted_volumes),
    Check(RESTRICTED, "runAsNonRoot != true", _root, own_users_until=35),
    Check(RESTRICTED, "runAsUser=0", _root_user, since=23, own_users_until=35),
    Check(RESTRICTED, "seccompProfile", _no_seccomp, since=19, windows_until=25),
)
"""All rules, in the API server's order."""


def violations(pod: Object, level: str, version: int = LATEST) -> tuple[Violation, ...]:
    """Return the rules of a level that a pod violates. The pod is as ``normalise`` returns it."""
    facts = _facts(pod)
    return tuple(
        Violation(check.reason, where)
        for check in CHECKS
        if check.applies(level, version) and (where := tuple(dict.fromkeys(check.violated_by(facts, version))))
    )


_STRICTEST_FIRST: Final = {
    level: sorted((check for check in CHECKS if check.applies(level, LATEST)), key=lambda check: check.level != level)
    for level in reversed(LEVELS)
}
"""The newest rules of each level, those that only it has first: most pods violate one of them."""


def level_of(pod: Object) -> str:
    """Return the strictest level that a pod passes by the newest rules."""
    facts = _facts(pod)
    return next(
        level
        for level, checks in _STRICTEST_FIRST.items()
        if not any(any(True for _ in check.violated_by(facts, LATEST)) for check in checks)
    )


@dataclass(frozen=True, slots=True)
class LevelVersion:
    """The level and the version of its rules that a namespace sets for one mode."""

    level: str = PRIVILEGED
    version: int = LATEST

    def __str__(self) -> str:
        return f"{self.level}:{'latest' if self.version == LATEST else f'v1.{self.version}'}"

    def fault(self, pod: Object) -> str:
        """Return how a pod violates the policy; empty if it does not."""
        offenses = violations(pod, self.level, self.version)
        return f'violates PodSecurity "{self}": {", ".join(map(str, offenses))}' if offenses else ""


UNRESTRICTED: Final = LevelVersion()


def enforced_level(labels: Mapping[str, str]) -> LevelVersion:
    """Return the policy that the API server enforces in a namespace with such labels.

    As there, a label that is not valid means ``restricted`` or ``latest``.
    """
    return _policy(labels, "enforce", RESTRICTED)


def warned_level(labels: Mapping[str, str]) -> LevelVersion:
    """Return the policy whose violations are warnings: by default the enforced one. A level that is not valid warns of nothing."""
    own, enforce = _policy(labels, "warn", PRIVILEGED), labels.get(f"{PREFIX}enforce")
    if f"{PREFIX}warn" in labels or enforce not in LEVELS:
        return own
    policy = enforced_level(labels)
    return LevelVersion(policy.level, own.version if f"{PREFIX}warn-version" in labels else policy.version)


def _policy(labels: Mapping[str, str], mode: str, invalid: str) -> LevelVersion:
    level, version = labels.get(f"{PREFIX}{mode}", PRIVILEGED), labels.get(f"{PREFIX}{mode}-version", "")
    match = _VERSION.fullmatch(str(version))  # a file can have any value
    return LevelVersion(level if level in LEVELS else invalid, LATEST if match is None else int(match[1]))
