"""Pods as users write them, made by hypothesis: every part that the injector looks at, present or not."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

PORTS = st.integers(min_value=1, max_value=65535)
TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), max_size=12)

LABELS = {
    "app": ["shop", "web"],
    "version": ["v1", "v2"],
    "app.kubernetes.io/name": ["store"],
    "service.istio.io/canonical-name": ["cart"],
    "topology.istio.io/network": ["net-1"],
}
ANNOTATIONS = {
    "prometheus.io/scrape": ["true", "false"],
    "prometheus.io/port": ["8080", "15020"],
    "prometheus.io/path": ["/metrics"],
    "proxy.istio.io/config": ["holdApplicationUntilProxyStarts: true\n", "concurrency: 3\nproxyMetadata:\n  A: b\n"],
    "sidecar.istio.io/proxyCPU": ["100m", "2"],
    "sidecar.istio.io/rewriteAppHTTPProbers": ["true", "false"],
    "sidecar.istio.io/userVolume": ['{"data":{"emptyDir":{}}}'],
    "sidecar.istio.io/userVolumeMount": ['{"data":{"mountPath":"/data"}}'],
    "sidecar.istio.io/nativeSidecar": ["true", "false"],
    "status.sidecar.istio.io/port": ["15020", "0"],
    "traffic.sidecar.istio.io/excludeInboundPorts": ["80,443", ""],
    "traffic.sidecar.istio.io/includeOutboundIPRanges": ["*", "10.0.0.0/8"],
    "kubectl.kubernetes.io/default-container": ["one"],
}


def some_of(table: dict[str, list[str]]) -> st.SearchStrategy[dict[str, str]]:
    """Mappings with some of the table's keys, each with one of its values."""
    return st.fixed_dictionaries({}, optional={key: st.sampled_from(values) for key, values in table.items()})


def probes() -> st.SearchStrategy[dict[str, Any]]:
    """Probes of each kind."""
    http = st.fixed_dictionaries(
        {"port": PORTS | st.just("http")},
        optional={
            "path": st.sampled_from(["/ready", "/a?b=c"]),
            "scheme": st.sampled_from(["HTTP", "HTTPS"]),
            "host": st.just("localhost"),
            "httpHeaders": st.just([{"name": "X-Probe", "value": "1"}]),
        },
    )
    actions = st.one_of(
        st.builds(lambda action: {"httpGet": action}, http),
        st.builds(lambda port: {"tcpSocket": {"port": port}}, PORTS),
        st.builds(lambda port: {"grpc": {"port": port, "service": "s"}}, PORTS),
        st.just({"exec": {"command": ["true"]}}),
    )
    timing = st.fixed_dictionaries(
        {}, optional={"periodSeconds": st.integers(1, 60), "timeoutSeconds": st.integers(1, 9)}
    )
    return st.builds(lambda action, times: {**action, **times}, actions, timing)


APPLICATION_ONLY = {
    "ports": st.just([{"name": "http", "containerPort": 8080}]),
    **{probe: probes() for probe in ("livenessProbe", "readinessProbe", "startupProbe")},
}
"""What a user's own ``istio-proxy`` has not. Its ports would count as the application's in the first injection alone: the
note of overrides, whose form is Istio's, does not tell in which list the proxy stood, and a native one stands elsewhere.
"""


def containers(name: str) -> st.SearchStrategy[dict[str, Any]]:
    """Containers called ``name``; a user's own ``istio-proxy`` says only what it changes."""
    own = name == "istio-proxy"
    env = st.lists(
        st.fixed_dictionaries({"name": st.sampled_from(["A", "B", "POD_NAME"]), "value": TEXTS.filter(bool)}),
        min_size=1,
        max_size=2,
        unique_by=lambda entry: str(entry["name"]),
    )
    return st.fixed_dictionaries(
        {"name": st.just(name), "image": st.just("auto" if own else f"registry.example.com/{name}:1")},
        optional={
            "env": env,
            "resources": st.just({"limits": {"cpu": "1"}}),
            "securityContext": st.just({"runAsUser": 1000}),
            **({} if own else APPLICATION_ONLY),
        },
    )


@st.composite
def pods(draw: st.DrawFn) -> dict[str, Any]:
    """Pods with one or two containers, perhaps an init container and perhaps a proxy of the user's own."""
    names = draw(st.sampled_from([["one"], ["one", "two"], ["one", "istio-proxy"], ["istio-proxy", "one"]]))
    metadata: dict[str, Any] = {"generateName": "one-7d9f-", "namespace": "shop"}
    for key, table in (("labels", LABELS), ("annotations", ANNOTATIONS)):
        result = draw(some_of(table))
        if result:
            metadata[key] = result
    spec = draw(
        st.fixed_dictionaries(
            {"containers": st.tuples(*map(containers, names)).map(list)},
            optional={
                "initContainers": containers("setup").map(without_probes),
                "volumes": st.just([{"name": "data", "emptyDir": {}}]),
                "imagePullSecrets": st.just([{"name": "registry"}]),
                "securityContext": st.sampled_from([{"fsGroup": 7}, {"runAsUser": 7}]),
                "serviceAccountName": st.just("one"),
            },
        )
    )
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def without_probes(container: dict[str, Any]) -> list[dict[str, Any]]:
    """An init container: Kubernetes allows it no probes."""
    return [{key: value for key, value in container.items() if not key.endswith("Probe")}]
