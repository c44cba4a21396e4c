"""Probe rewrite: kubelet's probes go to the agent, which asks the application from inside the pod.

Follows pkg/kube/inject/app_probe.go and ``applyRewrite`` in webhook.go (1.30.3), URLs as pilot/cmd/pilot-agent/status.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from injector.errors import DataError, ManifestError
from injector.golang.json import load_json
from injector.golang.strconv import atoi
from injector.injection import containers as c
from injector.injection.steps.status import STATUS
from injector.istio.annotations import parse_bool
from injector.kube.typed import go_struct_json, normalise

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from injector.istio.behaviours import Behaviours

REWRITE: Final = "sidecar.istio.io/rewriteAppHTTPProbers"
STATUS_PORT: Final = "status.sidecar.istio.io/port"
APP_PROBERS: Final = "ISTIO_KUBE_APP_PROBERS"

_ACTIONS: Final = {"httpGet": "v1.HTTPGetAction", "tcpSocket": "v1.TCPSocketAction", "grpc": "v1.GRPCAction"}


class _Handler(NamedTuple):
    """One place of a container that holds a probe or a lifecycle handler: the agent's URL for it, and the actions that are rewritten."""

    path: tuple[str, ...]
    url: str
    actions: tuple[str, ...]


_PROBES: Final = {"readinessProbe": "readyz", "livenessProbe": "livez", "startupProbe": "startupz"}
_LIFECYCLE: Final = (
    _Handler(("lifecycle", "preStop"), "/app-lifecycle/{}/prestopz", ("httpGet", "tcpSocket")),
    _Handler(("lifecycle", "postStart"), "/app-lifecycle/{}/poststartz", ("httpGet", "tcpSocket")),
)


@cache
def _handlers(actions: tuple[str, ...], startup: bool, lifecycle: bool) -> tuple[_Handler, ...]:  # noqa: FBT001 - part of the cache's key
    fields = [*_PROBES.items()][: 3 if startup else 2]
    probes = (_Handler((field,), f"/app-health/{{}}/{end}", actions) for field, end in fields)
    return (*probes, *(_LIFECYCLE if lifecycle else ()))


@dataclass(frozen=True, slots=True)
class Rewrite:
    """How a revision rewrites probes: by the behaviours of its minor, and which handlers."""

    behaviours: Behaviours
    handlers: tuple[_Handler, ...]

    @classmethod
    def of(cls, behaviours: Behaviours, env: Mapping[str, str]) -> Rewrite:
        """Return the rewrite of a minor's behaviours and a revision's feature variables."""
        declined = behaviours.tcp_probes_optional and parse_bool(env.get("REWRITE_TCP_PROBES", "")) is False
        handled = {
            "httpGet": True,
            "tcpSocket": behaviours.tcp_probes and not declined,
            "grpc": behaviours.grpc_probes,
        }
        actions = tuple(name for name, on in handled.items() if on)
        return cls(behaviours, _handlers(actions, behaviours.startup_probes, behaviours.lifecycle_probes))

    def probers(
        self, containers: Iterable[c.Container], status_port: int, *, injected_before: bool = False
    ) -> dict[str, str]:
        """Return the original probes by the agent's URL, each as JSON, named ports resolved.

        In a pod that was ``injected_before``, a probe that has the agent's URL is the agent's, whatever its port: Istio (1.30.3) tells
        it by the mesh's status port alone, and where an annotation changes the port it has the agent probe itself.
        """
        probers: dict[str, str] = {}
        for container in containers:
            if container.get("name") != c.PROXY:
                probers.update(self._probers_of(container, status_port, injected_before=injected_before))
        return probers

    def _probers_of(
        self, container: c.Container, status_port: int, *, injected_before: bool
    ) -> Iterator[tuple[str, str]]:
        ports = {
            port["name"]: port.get("containerPort", 0) for port in container.get("ports") or () if port.get("name")
        }
        for handler, probe, name in self._handlers_in(container):
            action = dict(probe[name])
            url = handler.url.format(container.get("name", ""))
            if injected_before and action.get("path") == url:
                continue
            if name != "grpc":
                port_value = action.get("port", 0)
                action["port"] = ports.get(port_value) if isinstance(port_value, str) else port_value
                rewritten_before = self.behaviours.passes_rewritten_probes and port_value == status_port
                if action["port"] is None or rewritten_before:
                    continue
            yield url, self._prober_json(handler, name, action, probe)

    def _handlers_in(self, container: c.Container) -> Iterator[tuple[_Handler, dict[str, Any], str]]:
        """Yield the handlers of a container, each with the probe and the name of its action."""
        for handler in self.handlers:
            if handler.path[0] not in container:  # most containers have none
                continue
            probe: Any = container
            for key in handler.path:
                probe = probe.get(key) or {}
            for name in handler.actions:
                if probe.get(name) is not None:
                    yield handler, probe, name
                    break

    def _prober_json(self, handler: _Handler, name: str, action: Mapping[str, Any], probe: Mapping[str, Any]) -> str:
        text = go_struct_json(action, _ACTIONS[name])
        if not self.behaviours.prober_timeouts:
            return text
        timeout = probe.get("timeoutSeconds") if handler.path[0] != "lifecycle" else None
        suffix = f',"timeoutSeconds":{timeout}' if timeout else ""
        return f'{{"{name}":{text}{suffix}}}'

    def redirect(
        self, containers: Iterable[c.Container], annotations: Mapping[str, str], status_port: int
    ) -> list[c.Container]:
        """Return the containers with their probes sent to the agent, which listens on ``status_port`` unless annotated.

        In minors that read the port in the proxy's arguments, -1 is that of a proxy without one: the probes stay.
        """
        from_args = self.behaviours.probe_port_from_args
        if from_args and status_port < 0:
            return list(containers)
        port = status_port if from_args else _agent_port(annotations, status_port)
        return [item if item.get("name") == c.PROXY else self._redirect(item, port) for item in containers]

    def _redirect(self, container: c.Container, port: int) -> c.Container:
        for (path, url, _), probe, name in self._handlers_in(container):
            action = {
                **(probe[name] if name == "httpGet" else {}),
                "path": url.format(container.get("name", "")),
                "port": port,
            }
            if self.behaviours.probe_scheme and action.get("scheme") == "HTTPS":
                action["scheme"] = "HTTP"
            changed: dict[str, Any] = {**probe, "httpGet": action}
            if name != "httpGet":
                del changed[name]
            if len(path) > 1:
                changed = {**container[path[0]], path[1]: changed}
            container = {**container, path[0]: changed}
        return container


def rewritten(pod: c.Pod, rewrite: Rewrite, *, by_default: bool, status_port: int) -> c.Pod:
    """Return the pod with the probes of its own containers sent to the agent, and the agent told where they went.

    ``by_default`` is whether that happens to a pod without the annotation ``REWRITE``.
    """
    sidecar = c.find_in_pod(c.PROXY, pod)
    annotations = c.annotations_of(pod)
    annotated = parse_bool(annotations.get(REWRITE, ""))
    if sidecar is None or not (by_default if annotated is None else annotated):
        return pod
    behaviours = rewrite.behaviours
    kinds = ("initContainers", "containers") if behaviours.sidecar_among_init else ("containers",)
    probed = [item for kind in kinds for item in c.containers_of(pod, kind)]
    injected_before = STATUS in annotations
    probers = rewrite.probers(probed, status_port, injected_before=injected_before)
    if probers:
        merges = injected_before and behaviours.merge_probers
        added = _merge(sidecar, probers, behaviours) if merges else with_probers(sidecar, probers)
        pod = c.with_container(pod, added)
    listed = {kind: c.containers_of(pod, kind) for kind in kinds if c.containers_of(pod, kind)}
    return c.with_spec(
        pod, **{kind: rewrite.redirect(items, annotations, status_port) for kind, items in listed.items()}
    )


def _agent_port(annotations: Mapping[str, str], status_port: int) -> int:
    text = annotations.get(STATUS_PORT)
    if text is None:
        return status_port
    # The annotation is validated before; Go's Atoi gives 0 for what validation lets pass and Atoi does not (" 15020").
    number, fault = atoi(text)
    return 0 if fault else number


def with_probers(sidecar: c.Container, probers: Mapping[str, str]) -> c.Container:
    """Return the proxy with the variable that tells the agent the original probes."""
    return c.env_appended(sidecar, APP_PROBERS, _probers_json(probers))


def _merge(sidecar: c.Container, probers: Mapping[str, str], behaviours: Behaviours) -> c.Container:
    """Return the proxy with the probers beside those that an earlier injection noted, which win."""
    env = list(sidecar.get("env") or ())
    for index, variable in enumerate(env):
        if variable.get("name") == APP_PROBERS:
            existing = _decode(variable.get("value", ""))
            if existing is None:
                return sidecar
            env[index] = {"name": APP_PROBERS, "value": _probers_json({**probers, **existing})}
            return {**sidecar, "env": env}
    return with_probers(sidecar, probers) if behaviours.append_missing_probers else sidecar


def _decode(text: str) -> dict[str, str] | None:
    """Return the probers noted in JSON by URL, each as JSON again; None where Go could not decode them."""
    try:
        raw = load_json(text)
        if raw is None:
            return {}
        return {url: _prober_json(prober) for url, prober in raw.items()} if isinstance(raw, dict) else None
    except DataError:
        return None


def _prober_json(prober: Any) -> str:
    if prober is None:
        return "null"
    if not isinstance(prober, dict):
        raise ManifestError("a prober is an object")
    parts = [
        f'"{name}":{go_struct_json(normalise(prober[name], kind), kind)}'
        for name, kind in _ACTIONS.items()
        if prober.get(name) is not None
    ]
    timeout = prober.get("timeoutSeconds") or 0
    if type(timeout) is not int:
        raise ManifestError("a prober's timeoutSeconds is a number")
    return "{" + ",".join([*parts, f'"timeoutSeconds":{timeout}'] if timeout else parts) + "}"


def _probers_json(probers: Mapping[str, str]) -> str:
    """Return the probers as the JSON object that the agent reads, sorted by URL."""
    return "{" + ",".join(f"{go_struct_json(url, 'string')}:{text}" for url, text in sorted(probers.items())) + "}"
