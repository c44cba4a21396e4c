"""Pods as they should not be, injected by revisions of every generation, a second time, and taken back.

An answer is a pod with its sidecar, one that is left alone, or an ``InjectorError``. A bug is any other exception, a pod given that was
changed, a patch that the ``jsonpatch`` package applies differently, and a second injection of the same pod that gives another answer.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cache
from random import Random
from typing import Any

import jsonpatch
import orjson

from injector.errors import InjectorError
from injector.golang.json import dump_json
from injector.injection.pipeline import inject_pod
from injector.injection.result import GUARDS, Injected, RequestFacts, Skipped
from injector.injection.tools.uninject import uninject_object
from injector.istio.revision import Revision
from injector.revisions.source import build
from tests.fuzz.draws import Draws
from tests.fuzz.jsondata import sorted_json
from tests.fuzz.podmaking import DRAWN_FROM, drawn_pod
from tests.fuzz.target import Target
from tests.revisions.fakes import make_raw

PROXY = """\
      - name: istio-proxy
        image: proxy:{{ .Values.global.tag }}
        args: [proxy, sidecar, --serviceCluster, {{ printf "%s.x" (valueOrDefault .DeploymentMeta.Name "istio-proxy") | quote }}]
        ports: [{containerPort: 15090, name: http-envoy-prom}]
        env:
        - name: ISTIO_META_CLUSTER_ID
          value: Kubernetes
        - name: ISTIO_META_NETWORK
          value: {{ index .ObjectMeta.Labels `topology.istio.io/network` | quote }}
        {{- range $key, $value := .ProxyConfig.ProxyMetadata }}
        - name: {{ $key }}
          value: {{ $value | quote }}
        {{- end }}
        {{- if .Values.global.native }}
        restartPolicy: Always
        {{- end }}
        volumeMounts:
        - name: istio-envoy
          mountPath: /etc/istio/proxy
"""
OVERLAID = (
    """\
policy: enabled
defaultTemplates: [sidecar]
templates:
  sidecar: |
    metadata:
      labels:
        service.istio.io/canonical-name: {{ index .ObjectMeta.Labels `app` | default .DeploymentMeta.Name | trunc 63 | quote }}
      annotations:
        kubectl.kubernetes.io/default-container: {{ (index .Spec.Containers 0).Name | quote }}
        a: {{ annotation .ObjectMeta `sidecar.istio.io/logLevel` "info" | quote }}
        bare: {{ annotation .ObjectMeta `sidecar.istio.io/agentLogLevel` "info" }}
    spec:
      initContainers:
      - name: istio-init
        image: proxy:{{ .Values.global.tag }}
        args: [-u, "1337", -i, {{ annotation .ObjectMeta `traffic.sidecar.istio.io/includeOutboundIPRanges` "*" | quote }}]
        securityContext: {runAsUser: 1337}
      {{- if .Values.global.native }}
"""
    f"{PROXY}"
    """\
      containers: []
      {{- else }}
      containers:
"""
    f"{PROXY}"
    """\
      {{- end }}
      volumes:
      - name: istio-envoy
        emptyDir: {}
      {{- if .Values.global.imagePullSecrets }}
      imagePullSecrets: [{name: pull}]
      {{- end }}
      securityContext:
        fsGroup: 1337
  plain: |
    spec:
      containers:
      - name: istio-proxy
        image: plain
"""
)
APPENDED = """\
policy: enabled
template: |
  rewriteAppHTTPProbe: {{ valueOrDefault .Values.global.rewrite false }}
  initContainers:
  - name: istio-init
    image: proxy
    args: [-p, "{{ annotation .ObjectMeta `status.sidecar.istio.io/port` 15020 }}"]
  containers:
  - name: istio-proxy
    image: proxy
    args: [proxy, sidecar, --concurrency, "2", --statusPort, "15020"]
    env:
    - name: ISTIO_META_CONFIG_NAMESPACE
      value: "{{ .DeploymentMeta.Namespace }}"
    volumeMounts:
    - name: istio-envoy
      mountPath: /etc/istio/proxy
  volumes:
  - name: istio-envoy
    emptyDir: {}
  dnsConfig: {searches: ["{{ .DeploymentMeta.Namespace }}.global"]}
  securityContext: {fsGroup: 1337}
  podRedirectAnnot:
    sidecar.istio.io/interceptionMode: REDIRECT
"""
DECODING = OVERLAID.replace(
    "        bare:", "        decoded: x{{ annotation .ObjectMeta `encoded` `eA==` | b64dec }}\n        bare:"
)
NAMESPACES = ("shop", "default", "kube-system", "", "Shop-1")
ENVS: tuple[dict[str, str], ...] = ({}, {"ISTIO_META_NETWORK": "net-1"}, {"ISTIO_META_CLUSTER_ID": "c\n1", "A": "b"})
METAS: tuple[dict[str, Any] | None, ...] = (
    None,
    {"annotations": {"openshift.io/sa.scc.uid-range": "1000660000/10000"}},
    {"labels": {"istio-injection": "enabled"}},
)
AGAIN = 2


@cache
def revisions() -> tuple[Revision, ...]:
    """One of each generation, on OpenShift, with a native sidecar, and with a template that decodes."""
    kinds: tuple[tuple[str, str, dict[str, str], dict[str, Any]], ...] = (
        ("1.30", OVERLAID, {}, {}),
        ("1.30", OVERLAID, {"ENABLE_NATIVE_SIDECARS": "true"}, {"native": True}),
        ("1.24", OVERLAID, {"PLATFORM": "openshift"}, {}),
        ("1.20", OVERLAID, {}, {"imagePullSecrets": ["pull"]}),
        ("1.14", OVERLAID, {}, {}),
        ("1.10", OVERLAID, {}, {}),
        ("1.8", APPENDED, {}, {"rewrite": True}),
        ("1.4", APPENDED, {}, {}),
        ("1.1", APPENDED, {}, {"rewrite": True}),
        ("1.31", OVERLAID, {}, {}),
        ("1.21", DECODING, {"PLATFORM": "openshift"}, {"proxy": {"resources": {"limits": {"cpu": 2}}}}),
    )
    return tuple(
        build(
            make_raw(
                f"r{number}",
                config=config,
                values=json.dumps(
                    {"global": {"tag": "1", **values}, "sidecarInjectorWebhook": {"rewriteAppHTTPProbe": True}}
                ),
                mesh="enablePrometheusMerge: true\n",
                settings={"istioVersion": version, "env": env},
            )
        )
        for number, (version, config, env, values) in enumerate(kinds)
    )


def run(data: bytes) -> None:
    """Try a pod with one revision."""
    draws = Draws(data)
    revision = draws.choice(revisions())
    facts = RequestFacts(draws.choice(NAMESPACES), draws.choice(ENVS), draws.choice(METAS), draws.choice(GUARDS))
    repeated, pod = draws.getrandbits(1), drawn_pod(draws)
    before = sorted_json(pod)
    first = outcome_of(lambda: inject_pod(revision, pod, facts))
    assert sorted_json(pod) == before, "the pod given was changed"
    for _ in range(AGAIN if repeated else 0):
        again = outcome_of(lambda: inject_pod(revision, pod, facts))
        assert comparable(again) == comparable(first), (comparable(again), comparable(first))
    if isinstance(first, Injected):
        injected = jsonpatch.apply_patch(pod, orjson.loads(dump_json(first.patch)))
        outcome_of(lambda: inject_pod(revision, injected, facts))
        outcome_of(lambda: uninject_object(injected))


def outcome_of(work: Callable[[], Any]) -> Any:
    """What comes of work, be it an error that is an answer."""
    try:
        return work()
    except InjectorError as error:
        return error


def comparable(result: Any) -> tuple[object, ...]:
    """What a caller is told, in a form that compares."""
    if isinstance(result, InjectorError):
        return (str(result),)
    if isinstance(result, Skipped):
        return result.reason, result.warnings
    return dump_json(result.patch), result.templates, result.warnings


def seeds() -> Iterator[bytes]:
    """Every pod by every revision, and changed ones."""
    for revision in range(9):
        for pod in range(len(DRAWN_FROM)):
            yield bytes([revision, 0, 0, 0, 0, 1, pod, 0, 0])
    random = Random(0)  # noqa: S311 -- bytes to begin with
    for number in range(512):
        yield bytes([number % 9, 0, 0, number % 3, number % 3, 1, number % len(DRAWN_FROM)]) + random.randbytes(
            random.randrange(120)
        )


TARGET = Target(
    run=run,
    modules=tuple(
        f"injection/{name}.py"
        for name in (
            "pipeline",
            "containers",
            "data",
            "render",
            "guard",
            *(f"steps/{step}" for step in ("overrides", "probes", "prometheus", "status")),
            "tools/uninject",
        )
    ),
    seeds=seeds,
    words=("istio-proxy", "istio-init", "auto", "http", "15020", "true", "false", "null"),
    longest=1024,
)
