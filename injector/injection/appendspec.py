"""What a template of Istio 1.0 to 1.8 renders: lists to append to the pod.

Follows ``SidecarInjectionSpec`` and ``InjectionData`` in pkg/kube/inject/inject.go (1.8.6) and concurrency.go (1.8.6). Istio decodes
it as JSON, which finds keys in any case; what the struct has not is ignored.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from injector.errors import DataError, OverlayError
from injector.injection import containers as c
from injector.injection.render import MOST_VALUES
from injector.kube.pruning import pruned
from injector.kube.quantity import parse_quantity
from injector.kube.serial import load_yaml
from injector.kube.typed import normalise

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from collections.abc import Set as AbstractSet

    from injector.kube.pruning import FieldName

TOKEN_PATH: Final = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105 - a mount path, no secret
_LISTS: Final = ("initContainers", "containers", "volumes", "imagePullSecrets", "dnsConfig")
_CONCURRENCY = re.compile(r"-{1,2}concurrency(?:=(\d+))?", re.ASCII)
_STATUS_PORT = re.compile(r"-{1,2}statusPort(?:=(\d+))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class AppendSpec:
    """The rendered lists, typed and normalised, with the switches that stand beside them."""

    init_containers: list[c.Container]
    containers: list[c.Container]
    volumes: list[dict[str, Any]]
    image_pull_secrets: list[dict[str, Any]]
    dns_config: dict[str, Any] | None
    rewrite_probes: bool
    redirect_annotations: Mapping[str, str]


def parse_lists(text: str, *, where: str) -> dict[str, Any]:
    """Parse rendered text.

    Raises:
        OverlayError: it is not a YAML mapping.
    """
    try:
        raw = load_yaml(text, where=where, most=MOST_VALUES) or {}
        if not isinstance(raw, dict):
            raise OverlayError("the rendered text is not a mapping", where=where)
    except DataError as error:
        raise _not_read(error, where) from error
    return raw


def read_append_spec(raw: dict[str, Any], missing: AbstractSet[FieldName] = frozenset(), *, where: str) -> AppendSpec:
    """Read parsed text; ``missing`` are the fields that the minor's Kubernetes does not know.

    Raises:
        OverlayError: a list holds something else than its objects.
    """
    try:
        by_key = {str(key).lower(): value for key, value in raw.items()}
        lists = {key: by_key[key.lower()] for key in _LISTS if by_key.get(key.lower()) is not None}
        spec = normalise(pruned(lists, "v1.PodSpec", missing), "v1.PodSpec", coerce=True)
    except DataError as error:
        raise _not_read(error, where) from error
    return AppendSpec(
        init_containers=spec.get("initContainers") or [],
        containers=spec.get("containers") or [],
        volumes=spec.get("volumes") or [],
        image_pull_secrets=spec.get("imagePullSecrets") or [],
        dns_config=spec.get("dnsConfig"),
        rewrite_probes=by_key.get("rewriteapphttpprobe") is True,
        redirect_annotations=by_key.get("podredirectannot") or {},
    )


def _not_read(error: DataError, where: str) -> OverlayError:
    return OverlayError(
        f"failed parsing generated injected YAML (check Istio sidecar injector configuration): {error.what}",
        where=f"{where}, {error.where}" if error.where and error.where != where else where,
        hint="look at the annotations that the template inserts into its text",
    )


def with_concurrency(spec: AppendSpec) -> AppendSpec:
    """Return the spec with ``--concurrency`` given to the proxy as its CPU limit, or request, has it, unless it is given."""
    proxy = c.find(c.PROXY, spec.containers)
    if proxy is None or (_number(proxy, _CONCURRENCY) or 0) > 0:
        return spec
    resources = proxy.get("resources") or {}
    for kind in ("limits", "requests"):
        cpus = math.ceil(parse_quantity(str((resources.get(kind) or {}).get("cpu", "0"))))
        if cpus > 0:
            args = [*(proxy.get("args") or ()), "--concurrency", str(cpus)]
            return with_proxy(spec, {**proxy, "args": args})
    return spec


def status_port(spec: AppendSpec) -> int:
    """Return the agent's port by the proxy's argument ``--statusPort``; -1 where it has none."""
    proxy = c.find(c.PROXY, spec.containers)
    number = None if proxy is None else _number(proxy, _STATUS_PORT)
    return -1 if number is None else number


def _number(container: c.Container, flag: re.Pattern[str]) -> int | None:
    args = [str(item) for item in container.get("args") or ()]
    for index, text in enumerate(args):
        match = flag.fullmatch(text.strip())
        if match is not None:
            value = match[1] or (args[index + 1] if index + 1 < len(args) else "")
            return int(value) if value.isascii() and value.isdigit() else None
    return None


def with_cluster_env(spec: AppendSpec, envs: Mapping[str, str]) -> AppendSpec:
    """Return the spec with the proxy's env variables of the URL at the end, in the order given."""
    proxy = c.find(c.PROXY, spec.containers)
    if proxy is None or not envs:
        return spec
    kept = [item for item in proxy.get("env") or () if item.get("name") not in envs]
    added = [{"name": name, "value": value} if value else {"name": name} for name, value in envs.items()]
    return with_proxy(spec, {**proxy, "env": kept + added})


def with_token_mount(spec: AppendSpec, pod: c.Pod) -> AppendSpec:
    """Return the spec with the pod's mount of the service account's token on the proxy too."""
    mount = _token_mount(c.containers_of(pod))
    proxy = c.find(c.PROXY, spec.containers)
    if mount is None or proxy is None:
        return spec
    return with_proxy(spec, {**proxy, "volumeMounts": [*(proxy.get("volumeMounts") or ()), mount]})


def _token_mount(containers: Iterable[c.Container]) -> dict[str, Any] | None:
    mounts = [
        mount
        for container in containers
        for mount in container.get("volumeMounts") or ()
        if mount.get("mountPath") == TOKEN_PATH
    ]
    return mounts[-1] if mounts else None


def with_proxy(spec: AppendSpec, proxy: c.Container) -> AppendSpec:
    """Return the spec with its first istio-proxy replaced."""
    index = next(i for i, item in enumerate(spec.containers) if item.get("name") == c.PROXY)
    return replace(spec, containers=[*spec.containers[:index], proxy, *spec.containers[index + 1 :]])
