"""Pods that an input makes: changed in their leaves and their structure, and with what an injection writes, written by anybody."""

from __future__ import annotations

import json
from typing import Any

import orjson

from injector.injection.steps.overrides import OVERRIDES
from injector.injection.steps.status import STATUS
from tests.factories import make_container, make_pod
from tests.fuzz.draws import Draws
from tests.fuzz.jsondata import json_data
from tests.fuzz.reviewing import OWNER, PODS, retyped
from tests.property.mutations import mutated

HOSTILE = (
    *("x\n      c: d", "{a: b}", "[a", "*a", "x: y", "1", "null", "a # b", '"', "'x'", "debug", "!!int x"),
    *("x\n    spec: {hostPID: true}", '{"a": "b: c", "d": 1}'),
)
ENCODED = ("eA==", "eApiOiBjCg==", "eyJhIjogImI6IGMifQ==", "aGVsbG8=", "path", "shop/web:1.2", "%0a")
"""Base64, some of it dangerous once decoded, and texts that look like it."""
SAID = (
    ("sidecar.istio.io/agentLogLevel", HOSTILE),
    ("sidecar.istio.io/logLevel", HOSTILE),
    ("sidecar.istio.io/interceptionMode", ("TPROXY", "REDIRECT", "NONE")),
    ("inject.istio.io/templates", ("plain", "sidecar,plain", "grpc", "nope", "")),
    ("sidecar.istio.io/rewriteAppHTTPProbers", ("true", "false", "x")),
    ("prometheus.io/path", ("/stats/prometheus", "/metrics")),
    ("prometheus.io/scrape", ("true", "false", "x")),
    ("prometheus.io/port", ("80", "15020", "http", "")),
    ("prometheus.istio.io/scrape-targets", ("80:/metrics,81", "15090:/stats", "70000", ":/metrics", ",")),
    (
        "proxy.istio.io/config",
        (
            "statusPort: 1\n",
            "proxyMetadata: {A: b, '': c}\n",
            "holdApplicationUntilProxyStarts: true\n",
            "[",
            "x: y",
            "proxyMetadata: {ENVOY_SECURE_MERGED_METRICS_PORT: '15092'}\n",
            "concurrency: 0\n",
        ),
    ),
    ("k8s.v1.cni.cncf.io/networks", ("istio-cni", '[{"name":"istio-cni"}]', "a,b/istio-cni")),
    ("sidecar.istio.io/proxyCPU", ("1500m", "x")),
    ("encoded", ENCODED),
)
"""What a pod says, in words that mean something, and in some that are to become more than a value."""
VARIABLES = (
    (
        "ISTIO_KUBE_APP_PROBERS",
        (
            "{}",
            "null",
            "[]",
            "{",
            '{"/app-health/app/readyz":{"httpGet":{"port":80},"timeoutSeconds":1}}',
            '{"/a":null,"/b":1}',
        ),
    ),
    ("ISTIO_PROMETHEUS_ANNOTATIONS", ('{"scrape":"true","path":"/x","port":"1"}', "{", "1")),
    ("ISTIO_METAJSON_ANNOTATIONS", ('{"a":"b"}', "{", "[]")),
    ("ISTIO_METAJSON_LABELS", ('{"a":"b"}', "{", "1")),
)
"""What an injection tells the proxy, as it may be told by anybody."""
FIELDS = (
    *("image", "env", "resources", "securityContext", "ports", "lifecycle", "readinessProbe", "name", "volumeMounts"),
    "x",
)
LISTS = ("containers", "initContainers")


DRAWN_FROM = tuple(
    map(
        orjson.dumps,
        (
            *PODS,
            make_pod(
                labels={"app": "web"},
                annotations={"sidecar.istio.io/rewriteAppHTTPProbers": "false", "prometheus.io.scrape": "true"},
                containers=[
                    make_container(
                        readinessProbe={"httpGet": {"port": 80, "scheme": "HTTPS"}, "exec": {"command": ["a"]}}
                    ),
                    make_container(
                        "istio-proxy", image="auto", env=[{"name": "ISTIO_KUBE_APP_PROBERS", "value": "{}"}]
                    ),
                ],
                initContainers=[
                    make_container("istio-validation", image="auto"),
                    make_container("native", restartPolicy="Always", startupProbe={"httpGet": {"port": "x"}}),
                ],
            ),
            make_pod(
                containers=[
                    make_container(securityContext={"runAsUser": 1000660000}),
                    make_container("istio-proxy", image="auto", securityContext={"runAsUser": 1000660000}),
                ],
            ),
        ),
    )
)
"""Pods to begin with, as JSON."""


def drawn_pod(draws: Draws) -> dict[str, Any]:
    """A pod changed in some of the ways there are."""
    pod: dict[str, Any] = orjson.loads(draws.choice(DRAWN_FROM))
    pod["metadata"]["ownerReferences"] = [dict(OWNER) for _ in range(draws.randrange(2))]
    if draws.getrandbits(1):
        annotate(pod, said(draws))
    if draws.getrandbits(1):
        annotate(pod, notes(draws))
    if draws.randrange(4) == 3:
        pod["spec"][draws.choice(LISTS)] = [*pod["spec"]["containers"], written(draws)]
    if draws.getrandbits(1):
        pod = mutated(pod, draws)
    if draws.randrange(4) == 3:
        for _ in range(draws.randrange(1, 4)):
            retyped(pod, draws)
    # As a review holds it: of numbers, those that JSON's reader makes.
    read: dict[str, Any] = orjson.loads(json.dumps(pod))
    return read


def annotate(pod: dict[str, Any], more: dict[str, str]) -> None:
    """Give a pod further annotations."""
    pod["metadata"]["annotations"] = {**pod["metadata"].get("annotations", {}), **more}


def said(draws: Draws) -> dict[str, str]:
    """Annotations with their values."""
    return {name: draws.choice(texts) for name, texts in (draws.choice(SAID) for _ in range(draws.randrange(1, 4)))}


def notes(draws: Draws) -> dict[str, str]:
    """What an injection writes about itself."""
    status = {kind: draws.choice((["istio-proxy"], ["istio-init", "app"], [], None, [1])) for kind in LISTS}
    overrides = {kind: [noted(draws) for _ in range(draws.randrange(3))] for kind in LISTS}
    return {
        STATUS: json.dumps({**status, "volumes": ["istio-envoy"], "imagePullSecrets": ["pull"]}),
        OVERRIDES: json.dumps(overrides if draws.randrange(8) else json_data(draws)),
    }


def noted(draws: Draws) -> Any:
    """A container as a note has it, or any data."""
    if draws.randrange(8) == 7:
        return json_data(draws)
    container: dict[str, Any] = {"name": draws.choice(("istio-proxy", "istio-init", "app", "istio-validation"))}
    for _ in range(draws.randrange(3)):
        container[draws.choice(FIELDS)] = json_data(draws, 3)
    if draws.getrandbits(1):
        container["securityContext"] = {"runAsUser": draws.choice((0, 7, 1337)), "runAsGroup": draws.choice((None, 7))}
    return container


def written(draws: Draws) -> dict[str, Any]:
    """A proxy as an injection writes it."""
    env = [{"name": name, "value": draws.choice(texts)} for name, texts in VARIABLES if draws.getrandbits(1)]
    return make_container("istio-proxy", args=["--statusPort", draws.choice(("15020", "1", "x"))], env=env)
