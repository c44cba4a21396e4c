"""User and group ids on OpenShift, which gives each namespace its own ranges.

Follows pkg/kube/inject/openshift.go and ``GetProxyIDs``, ``isSidecarUserMatchingAppUser`` in pkg/kube/inject (1.30.3).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

UID_RANGE: Final = "openshift.io/sa.scc.uid-range"
SUPPLEMENTAL_GROUPS: Final = "openshift.io/sa.scc.supplemental-groups"
DEFAULT_PROXY_ID: Final = 1337

_UINT32 = 2**32
_PROXY = "istio-proxy"
_ISTIO_INIT = frozenset({"istio-validation", "istio-init"})


def proxy_ids(namespace_meta: Mapping[str, Any] | None) -> tuple[int, int]:
    """Return the proxy's uid and gid: the last of the namespace's ranges, or 1337 where it has none."""
    annotations = (namespace_meta or {}).get("annotations") or {}
    uid_range = annotations.get(UID_RANGE, "")
    block = parse_block(uid_range)
    # The annotation for groups may hold several ranges; the first counts. Absent, the range of uids stands in for it.
    groups = [parse_block(text) for text in annotations.get(SUPPLEMENTAL_GROUPS, uid_range).split(",")]
    group = groups[0] if all(groups) else None
    return (block[1] if block else DEFAULT_PROXY_ID, group[1] if group else DEFAULT_PROXY_ID)


def parse_block(text: str) -> tuple[int, int] | None:
    """Return the first and last id of ``start/size`` or ``start-end``; None where it is neither."""
    sized = "/" in text
    left, found, right = text.partition("/" if sized else "-")
    start, number = _uint32(left), _uint32(right)
    if not found or start is None or number is None:
        return None
    return start, start + number - 1 if sized else number


def _uint32(text: str) -> int | None:
    if not (text.isascii() and text.isdigit()):
        return None
    number = int(text)
    return number if number < _UINT32 else None


def forget_assigned_user(pod: dict[str, Any], *, with_init_containers: bool) -> dict[str, Any]:
    """Return ``pod`` without the uid and gid of its own ``istio-proxy`` where OpenShift assigned them.

    OpenShift gives every container of a pod the same uid; a proxy with the application's uid would escape interception. A uid of
    the proxy's own is the user's choice and stays. A container that is null is one without fields, as Go reads it.
    """
    spec = pod.get("spec") or {}
    lists = ("containers", "initContainers")
    looked_at = lists if with_init_containers else lists[:1]
    containers = [item or {} for name in looked_at for item in spec.get(name) or ()]
    if _user_of(containers, proxy=True) != _user_of(containers, proxy=False):
        return pod
    for name in lists:
        for index, container in enumerate(spec.get(name) or ()):
            if (container or {}).get("name") == _PROXY:
                return _without_user(pod, name, index)
    return pod


def _user_of(containers: Iterable[Mapping[str, Any]], *, proxy: bool) -> int:
    user = 0
    for container in containers:
        name = container.get("name")
        if (name == _PROXY) is proxy and name not in _ISTIO_INIT:
            assigned = (container.get("securityContext") or {}).get("runAsUser")
            user = user if assigned is None else assigned
    return user


def _without_user(pod: dict[str, Any], list_name: str, index: int) -> dict[str, Any]:
    containers = list(pod["spec"][list_name])
    context = containers[index].get("securityContext")
    if context is None:
        return pod
    kept = {key: value for key, value in context.items() if key not in ("runAsUser", "runAsGroup")}
    containers[index] = {**containers[index], "securityContext": kept}
    return {**pod, "spec": {**pod["spec"], list_name: containers}}
