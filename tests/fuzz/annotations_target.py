"""What pods may say in annotations and labels, read by each minor of Istio.

An answer is a text of what is refused, a decision, or a ``DataError``. A bug is any other exception, a decision that the rules told one
by one do not come to, and a status that does not read back.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from injector.errors import DataError
from injector.injection.policy import DISABLED, ENABLED, injection_required, verdicts
from injector.injection.steps import status as s
from injector.istio.annotations import ANNOTATIONS, checked_annotations, known_annotations, validate_annotations
from injector.istio.behaviours import behaviours_of
from injector.istio.config import Policy
from injector.istio.labels import INJECT_LABEL
from injector.istio.mesh import overlaid_mesh_config, parse_mesh_config, proto_to_json
from injector.istio.proto import Message
from injector.istio.proxyconfig import validate_proxy_config
from injector.kube.quantity import parse_quantity
from injector.kube.selectors import Selector
from tests.fuzz.draws import DIGITS, Draws
from tests.fuzz.target import Target, recorded

NAMES = (
    *(row.name for row in ANNOTATIONS),
    "inject.istio.io/templates",
    "proxy.istio.io/overrides",
    "traffic.sidecar.istio.io/includeOutboundPorts",
    "sidecar.istio.io/proxyImageType",
    "sidecar.istio.io/nativeSidecar",
    "sidecar.istio.io/capNetBindService",
    "sidecar.istio.io/logLevel",
    "sidecar.istio.io/componentLogLevel",
    "sidecar.istio.io/agentLogLevel",
)
PORTS = ("80", "80,443", " 80 , x", "*", "65536", "-1", "", ",", "1,", "99999999999999999999999")
RANGES = (
    *(f"10.0.0.0/{DIGITS}", f"{DIGITS}::/1", f"1.2.3.{DIGITS}/8", "10.0.0.0/8", "*", "::1/128", "1.2.3.4", "1.2.3/8"),
    *("fe80::1%eth0/64", "::ffff:1.2.3.4/96", "1.2.3.4/33", "01.2.3.4/8", "1::2::3/64"),
)
FRAGMENTS = (
    *(
        "drainDuration: 45s\n",
        "drainDuration: 1ms\n",
        "drainDuration: 2h\n",
        "drainDuration: 1.5s\n",
        "parentShutdownDuration: 60s\n",
    ),
    *(
        "discoveryAddress: istiod:15012\n",
        "discoveryAddress: '[::1]:1'\n",
        "discoveryAddress: x\n",
        "discoveryAddress: ''\n",
    ),
    *(
        *("concurrency: 2\n", "concurrency: x\n", "statusPort: 0\n", "statusPort: 15020\n"),
        *("proxyAdminPort: 99999\n", "configPath: ''\n"),
    ),
    *(
        "binaryPath: ''\n",
        "serviceCluster: ''\n",
        "tracingServiceName: CANONICAL_NAME_ONLY\n",
        "controlPlaneAuthPolicy: MUTUAL_TLS\n",
    ),
    *(
        "controlPlaneAuthPolicy: 7\n",
        "statsdUdpAddress: a:1\n",
        "envoyMetricsService: {address: 'x'}\n",
        "envoyAccessLogService: {address: 'y:0'}\n",
    ),
    "tracing: {zipkin: {address: '$(HOST_IP):9411'}}\n",
    "tracing: {datadog: {address: 'x'}}\n",
    "tracing: {lightstep: {address: 'a:1', accessToken: t}}\n",
    "tracing: {lightstep: {}, tlsSettings: {mode: MUTUAL}}\n",
    "tracing: {tlsSettings: {mode: SIMPLE, credentialName: c, caCertificates: d, insecureSkipVerify: true}}\n",
    "tracing: {tlsSettings: {mode: MUTUAL, caCertificates: d, insecureSkipVerify: true}}\n",
    "tracing: {tlsSettings: {mode: SIMPLE, credentialName: 'configmap://a/b', caCrl: x}}\n",
    "tracing: {tlsSettings: {credentialName: 'configmap://a'}}\n",
    "tracing: {sampling: 1.5, customTags: {a: {literal: {value: b}}}}\n",
    "privateKeyProvider: {cryptomb: {pollDelay: 1s}}\n",
    "privateKeyProvider: {qat: {pollDelay: 0s}}\n",
    "privateKeyProvider: {cryptomb: {}}\n",
    "privateKeyProvider: {}\n",
    "proxyMetadata: {A: b, C: 1}\n",
    "holdApplicationUntilProxyStarts: true\n",
    "image: {imageType: distroless}\n",
    "gatewayTopology: {numTrustedProxies: 1, forwardClientCertDetails: SANITIZE}\n",
    "extraStatTags: [a, b]\n",
    "proxyStatsMatcher: {inclusionRegexps: ['.*']}\n",
    "unknownField: 1\n",
    "terminationDrainDuration: null\n",
    "readinessProbe: {httpGet: {port: 1}}\n",
    "meshId: &a x\n",
    *(f"{key}: {DIGITS}\n" for key in ("concurrency", "statusPort", "drainDuration", "proxyAdminPort")),
    *(f"drainDuration: {DIGITS}s\n", f"discoveryAddress: a:{DIGITS}\n", f"tracing: {{sampling: 1e{DIGITS}}}\n"),
    "{}\n",
)
TEXTS = (
    *(DIGITS, f"{DIGITS}m", f"1e{DIGITS}", f"1.{DIGITS}Ki", f"1,{DIGITS}"),
    *PORTS,
    *RANGES,
    *("true", "false", "1", "T", "yes", "y", "on", "", "REDIRECT", "TPROXY", "NONE", "eth0,eth1", "a" * 16, "eth0,"),
    *("1eth", "100m", "1Gi", "1.5e3", "-1", "1e400", "0x1", "4294967296", "\x00", "é", "\uff11"),
    *('{"containers":["a"],"revision":"x"}', '{"initContainers":[null]}', "null", "[]", "{"),
)
SELECTORS = (
    Selector.compile({"matchLabels": {"app": "web"}}),
    Selector.compile({"matchExpressions": [{"key": "app", "operator": "In", "values": ["a", "b"]}]}),
    Selector.compile({"matchExpressions": [{"key": "x", "operator": "DoesNotExist"}]}),
    Selector.compile({}),
)
WRITTEN = ("app=web,x!=a,y in (a, b),!z,app notin (c)", "app", "app==", "a in ()", "a=b=c", ",", "é", "a/b=c")
"""Selectors as kubectl's -l has them."""


_behaviours = cache(behaviours_of)


@cache
def _mesh(minor: tuple[int, int]) -> Message:
    return parse_mesh_config("defaultConfig:\n  concurrency: 1\n", minor)


def run(data: bytes) -> None:
    """Try a pod's annotations and labels with one minor."""
    draws = Draws(data)
    minor = (1, draws.randrange(31))
    annotations = {draws.choice(NAMES): value(draws) for _ in range(draws.randrange(1, 5))}
    labels = {draws.choice(("app", INJECT_LABEL, "x", "istio.io/rev")): value(draws) for _ in range(draws.randrange(3))}
    refused = validate_annotations(annotations, minor)
    assert not refused or checked_annotations(annotations, minor)
    assert known_annotations(minor)
    _decided(draws, minor, {"annotations": annotations, "labels": labels})
    if (text := annotations.get("proxy.istio.io/config")) is not None:
        _configured(text, minor)
    _stated(annotations)
    for text in annotations.values():
        try:
            parse_quantity(text)
        except DataError:
            continue
    for text in (*annotations.values(), draws.choice(WRITTEN)):
        _selected(text, labels)


def _selected(text: str, labels: dict[str, str]) -> None:
    try:
        selector = Selector.parse(text)
    except DataError:
        return
    again = Selector.parse(str(selector))
    assert again == selector
    assert again.matches(labels) == selector.matches(labels)


def value(draws: Draws) -> str:
    """A value: one of those that mean something, several, any text, or a ProxyConfig."""
    kind = draws.randrange(4)
    if kind == 0:
        return draws.choice(TEXTS)
    if kind == 1:
        return "".join(draws.choice(FRAGMENTS) for _ in range(draws.randrange(4)))
    if kind == 2:
        return ",".join(draws.choice((*PORTS, *RANGES)) for _ in range(draws.randrange(4)))
    return draws.randbytes(draws.randrange(48)).decode("utf-8", "replace")


def _decided(draws: Draws, minor: tuple[int, int], meta: dict[str, Any]) -> None:
    policy = Policy(
        draws.choice((ENABLED, DISABLED, "", "x")),
        tuple(draws.choice(SELECTORS) for _ in range(draws.randrange(3))),
        tuple(draws.choice(SELECTORS) for _ in range(draws.randrange(3))),
    )
    pod = {"metadata": meta, "spec": {"hostNetwork": draws.randrange(8) == 7}}
    namespace = draws.choice(("default", "kube-system", "istio-system", ""))
    decision = injection_required(policy, _behaviours(minor), pod, namespace)
    reached = tuple(verdicts(policy, _behaviours(minor), pod, namespace))
    first = next(verdict.decision for verdict in reached if verdict.decision is not None)
    assert (decision.inject, decision.reason) == (first.inject, first.reason)
    assert all(verdict.decision is not None or verdict.silence for verdict in reached)


def _configured(text: str, minor: tuple[int, int]) -> None:
    refused = validate_proxy_config(text, minor)
    try:
        overlaid = overlaid_mesh_config([text], _mesh(minor), minor, "")
    except DataError:
        assert refused or not text.strip()
        return
    proto_to_json(overlaid, minor)


def _stated(annotations: dict[str, str]) -> None:
    pod = {"metadata": {"annotations": annotations}, "spec": {"containers": [{"name": "a"}], "initContainers": [{}]}}
    status = s.read_status(pod)
    s.strip_injected(pod, status)
    if status is None:
        return
    spec = {key: [{"name": name} for name in names] for key, names in status.items()}
    again = {"metadata": {"annotations": {s.STATUS: s.status_annotation({"spec": spec}, "x")}}}
    assert s.read_status(again) == status


def seeds() -> Iterator[bytes]:
    """Every annotation with values that mean something, for minors of each kind; quantities that Go has answered."""
    place = {name: index for index, name in enumerate(NAMES)}
    for minor in (0, 1, 2, 5, 10, 16, 21, 24, 30):
        for name in NAMES:
            for number in range(0, len(TEXTS), 3):
                yield bytes([minor, 0, place[name], 0, number, 0, 0, 0])
        for number in range(len(FRAGMENTS)):
            yield bytes([minor, 0, place["proxy.istio.io/config"], 1, 1, number, 0, 0, 0])
    for case in recorded("kube/corpus/quantity.json"):
        text = case["text"].encode()[:47]
        yield bytes([30, 0, place["sidecar.istio.io/proxyCPU"], 3, len(text), *text])


TARGET = Target(
    run=run,
    modules=(
        *(f"istio/{name}.py" for name in ("annotations", "proxyconfig")),
        "golang/netip.py",
        "injection/policy.py",
        "injection/steps/status.py",
        "kube/quantity.py",
        "kube/selectors.py",
    ),
    seeds=seeds,
    guides=("istio/mesh.py",),  # a third of it is reached by annotations: the rest checks mesh configs
    words=tuple(text for text in (*TEXTS, *FRAGMENTS) if DIGITS not in text),
)
