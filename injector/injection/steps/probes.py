"""Probe rewrite: kubelet's probes go to the agent, which asks the application from inside the pod.

Follows pkg/kube/inject/app_probe.go and ``applyRewrite`` in webhook.go (1.30.3), URLs as pilot/cmd/pilot-agent/status.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from injector.errors import DataError, ManifestError
from injector.golang.json import load_json
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


@dataclass(frozen=True, slots=True)
class _Handler:
    """One place of a container that holds a probe or a lifecycle handler."""

    path: tuple[str, ...]
    url: str
    actions: tuple[str, ...]

    def find(self, container: Mapping[str, Any]) -> tuple[dict[str, Any], str] | None:
        """Return the probe or handler, and the name of its action; None if the container has none with such an action."""
        value: Any = container
        for key in self.path:
            value = value.get(key)
            if value is None:
                return None
        for name in self.actions:
            if value.get(name) is not None:
                return value, name
        return None


_PROBES: Final = (
    (("readinessProbe",), "/app-health/{}/readyz"),
    (("livenessProbe",), "/app-health/{}/livez"),
    (("startupProbe",), "/app-health/{}/startupz"),
)
_LIFECYCLE: Final = (
    _Handler(("lifecycle", "preStop"), "/app-lifecycle/{}/prestopz", ("httpGet", "tcpSocket")),
    _Handler(("lifecycle", "postStart"), "/app-lifecycle/{}/poststartz", ("httpGet", "tcpSocket")),
)


@dataclass(frozen=True, slots=True)
class Rewrite:
    """How a revision rewrites probes: which it handles, in which lists of containers, and how it notes them."""

    handlers: tuple[_Handler, ...]
    kinds: tuple[str, ...]
    merges: bool
    appends_missing: bool
    by_default: bool
    scheme: bool
    timeouts: bool
    passes_rewritten: bool
    port_annotation: bool

    @classmethod
    def of(cls, behaviours: Behaviours, env: Mapping[str, str], *, by_default: bool) -> Rewrite:
        """Return the rewrite of a minor's behaviours and a revision's feature variables."""
        tcp = behaviours.tcp_probes and not (
            behaviours.tcp_probes_optional and parse_bool(env.get("REWRITE_TCP_PROBES", "")) is False
        )
        return _rewrite(behaviours, tcp=tcp, by_default=by_default)

    def probers(
        self, containers: Iterable[c.Container], status_port: int, *, injected_before: bool = False
    ) -> dict[str, str]:
        """Return the original probes by the agent's URL, each as JSON, named ports resolved; sorted by URL.

        In a pod that was ``injected_before``, a probe that has the agent's URL is the agent's, whatever its port: Istio (1.30.3) tells
        it by the mesh's status port alone, and where an annotation changes the port it has the agent probe itself.
        """
        found: dict[str, str] = {}
        for container in containers:
            if container.get("name") != c.PROXY:
                found.update(self._probers_of(container, status_port, injected_before=injected_before))
        return dict(sorted(found.items()))

    def _probers_of(
        self, container: c.Container, status_port: int, *, injected_before: bool
    ) -> Iterator[tuple[str, str]]:
        ports = {
            port["name"]: port.get("containerPort", 0) for port in container.get("ports") or () if port.get("name")
        }
        for handler, probe, name in self._found_in(container):
            action = dict(probe[name])
            url = handler.url.format(container.get("name", ""))
            if injected_before and action.get("path") == url:
                continue
            if name != "grpc":
                asked = action.get("port", 0)
                action["port"] = ports.get(asked) if isinstance(asked, str) else asked
                rewritten_before = self.passes_rewritten and asked == status_port
                if action["port"] is None or rewritten_before:
                    continue
            yield url, self._prober_json(handler, name, action, probe)

    def _found_in(self, container: c.Container) -> Iterator[tuple[_Handler, dict[str, Any], str]]:
        """Yield the handlers of a container, each with the probe and the name of its action."""
        for handler in self.handlers:
            if handler.path[0] in container and (found := handler.find(container)) is not None:
                yield handler, *found

    def _prober_json(self, handler: _Handler, name: str, action: Mapping[str, Any], probe: Mapping[str, Any]) -> str:
        text = go_struct_json(action, _ACTIONS[name])
        if not self.timeouts:
            return text
        timeout = probe.get("timeoutSeconds") if handler.path[0] != "lifecycle" else None
        suffix = f',"timeoutSeconds":{timeout}' if timeout else ""
        return f'{{"{name}":{text}{suffix}}}'

    def redirected(
        self, containers: Iterable[c.Container], annotations: Mapping[str, str], status_port: int
    ) -> list[c.Container]:
        """Return the containers with their probes sent to the agent, which listens on ``status_port`` unless annotated."""
        port = _agent_port(annotations, status_port) if self.port_annotation else status_port
        return [item if port < 0 else self._redirected(item, port) for item in containers]

    def _redirected(self, container: c.Container, port: int) -> c.Container:
        if container.get("name") == c.PROXY:
            return container
        for handler, probe, name in self._found_in(container):
            container = _replaced(container, handler, probe, name, port, scheme=self.scheme)
        return container


@cache
def _rewrite(behaviours: Behaviours, *, tcp: bool, by_default: bool) -> Rewrite:
    handled = {"httpGet": True, "tcpSocket": tcp, "grpc": behaviours.grpc_probes}
    actions = tuple(name for name, on in handled.items() if on)
    probes = tuple(_Handler(path, url, actions) for path, url in _PROBES)[: 3 if behaviours.startup_probes else 2]
    return Rewrite(
        handlers=probes + (_LIFECYCLE if behaviours.lifecycle_probes else ()),
        kinds=("initContainers", "containers") if behaviours.sidecar_among_init else ("containers",),
        merges=behaviours.merge_probers,
        appends_missing=behaviours.append_missing_probers,
        by_default=by_default,
        scheme=behaviours.probe_scheme,
        timeouts=behaviours.prober_timeouts,
        passes_rewritten=behaviours.passes_rewritten_probes,
        port_annotation=not behaviours.probe_port_from_args,
    )


def rewritten(pod: c.Pod, rewrite: Rewrite, *, status_port: int) -> c.Pod:
    """Return the pod with the probes of its own containers sent to the agent, and the agent told where they went."""
    sidecar = c.find_in_pod(c.PROXY, pod)
    annotations = c.annotations_of(pod)
    asked = parse_bool(annotations.get(REWRITE, ""))
    if sidecar is None or not (rewrite.by_default if asked is None else asked):
        return pod
    probed = [item for kind in rewrite.kinds for item in c.containers_of(pod, kind)]
    injected_before = STATUS in annotations
    probers = rewrite.probers(probed, status_port, injected_before=injected_before)
    if probers:
        injected_before = injected_before and rewrite.merges
        pod = c.with_container(pod, _with_probers(sidecar, probers, rewrite, injected_before=injected_before))
    changed = {
        kind: rewrite.redirected(c.containers_of(pod, kind), annotations, status_port)
        for kind in rewrite.kinds
        if c.containers_of(pod, kind)
    }
    return c.with_spec(pod, **changed)


def _agent_port(annotations: Mapping[str, str], status_port: int) -> int:
    text = annotations.get(STATUS_PORT)
    if text is None:
        return status_port
    # The annotation is validated before; Go's Atoi gives 0 for what validation lets pass and Atoi does not (" 15020").
    return int(text) if text.isascii() and text.isdigit() else 0


def _with_probers(
    sidecar: c.Container, probers: dict[str, str], rewrite: Rewrite, *, injected_before: bool
) -> c.Container:
    if not injected_before:
        return c.env_appended(sidecar, APP_PROBERS, probers_json(probers))
    env = list(sidecar.get("env") or ())
    for index, variable in enumerate(env):
        if variable.get("name") == APP_PROBERS:
            existing = _decoded(variable.get("value", ""))
            if existing is None:
                return sidecar
            env[index] = {"name": APP_PROBERS, "value": probers_json(dict(sorted({**probers, **existing}.items())))}
            return {**sidecar, "env": env}
    return c.env_appended(sidecar, APP_PROBERS, probers_json(probers)) if rewrite.appends_missing else sidecar


def _decoded(text: str) -> dict[str, str] | None:
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


def probers_json(probers: Mapping[str, str]) -> str:
    """Return the probers as the JSON object that the agent reads."""
    # URLs hold container names only, which are DNS labels or escape as JSON strings do.
    return "{" + ",".join(f"{_quoted(url)}:{text}" for url, text in probers.items()) + "}"


def _quoted(text: str) -> str:
    return go_struct_json(text, "string")


def _replaced(
    container: c.Container, handler: _Handler, probe: dict[str, Any], name: str, port: int, *, scheme: bool
) -> c.Container:
    action = probe[name] if name == "httpGet" else {}
    action = {**action, "path": handler.url.format(container.get("name", "")), "port": port}
    if scheme and action.get("scheme") == "HTTPS":
        action["scheme"] = "HTTP"
    probe = {**{key: value for key, value in probe.items() if key != name}, "httpGet": action}
    if len(handler.path) == 1:
        return {**container, handler.path[0]: probe}
    outer, inner = handler.path
    return {**container, outer: {**container[outer], inner: probe}}
