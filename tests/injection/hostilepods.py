"""Pods with a text that breaks out of a template, for each place that such a text can come from."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from injector.errors import DataError
from injector.injection.pipeline import inject_pod
from injector.injection.result import ENFORCE, RequestFacts
from injector.istio.revision import Revision, RevisionSettings, build_revision
from tests.factories import make_container, make_pod, owner_of

BROKEN = "breaks out"
HARMLESS = "app"
HOSTILE = "a'\"\n  injected: yes # "
_OTEL = "extensionProviders:\n- name: otel\n  opentelemetry: {service: a, port: 1, serviceAttributeEnrichment: OTEL_SEMANTIC_CONVENTIONS}\n"
_JSON = ("sidecar.istio.io/userVolume", "sidecar.istio.io/userVolumeMount", "apm.datadoghq.com/env")
# Values that Istio's templates need for some insertions.
_TRACERS = ("zipkin", "datadog", "lightstep")


@dataclass(frozen=True)
class HostilePods:
    """Injects hostile pods with one template."""

    revisions: tuple[Revision, ...]

    def outcome(self, place: str) -> str:
        """Return whether a hostile text at a place breaks out with some values, while a harmless one does not."""
        outcomes = [
            (_inject(revision, _pod(place, HOSTILE)), _inject(revision, _pod(place, HARMLESS)))
            for revision in self.revisions
        ]
        if any(hostile and not harmless for hostile, harmless in outcomes):
            return BROKEN
        return f"does not break out: {outcomes}"


def hostile_pods(template: str, values: dict[str, Any]) -> HostilePods:
    """Return the pods for a template of 1.31."""
    config = json.dumps({"policy": "enabled", "templates": {"sidecar": template}})
    settings = RevisionSettings(istio_version="1.31")
    revisions = []
    for tracer in _TRACERS:
        for cni in (False, True):
            tree = json.loads(json.dumps(values))
            tree["global"]["proxy"]["tracer"] = tracer
            tree["global"]["mountMtlsCerts"] = True
            tree["istio_cni"] = tree.setdefault("pilot", {})["cni"] = {
                "enabled": cni,
                "provider": "multus" if tracer == "zipkin" else "default",
            }
            text = json.dumps(tree)
            revisions.append(
                build_revision("a", config=config, values=text, mesh=_OTEL, settings=settings, origin="revisions/a")
            )
    return HostilePods(tuple(revisions))


def _inject(revision: Revision, pod: dict[str, Any]) -> str:
    try:
        inject_pod(revision, pod, RequestFacts("default", guard=ENFORCE, deny_invalid=False))
    except DataError as error:
        return type(error).__name__
    return ""


def _pod(place: str, text: str) -> dict[str, Any]:
    """Return a pod with a text at a place, as findings name places."""
    pod = make_pod("hello", containers=[make_container("app")])
    meta = pod["metadata"]
    result: dict[str, Callable[[], Any]] = {
        "spec.containers[*].name": lambda: pod["spec"]["containers"].append(make_container(text)),
        "proxyConfig.proxyMetadata": lambda: _proxy_config(meta, {"proxyMetadata": {text: "a"}}),
        "proxyConfig.proxyMetadata[*]": lambda: _proxy_config(meta, {"proxyMetadata": {"A": text}}),
        "proxyConfig.tracing.tlsSettings.caCertificates": lambda: _proxy_config(
            meta, {"tracing": {"tlsSettings": {"mode": "SIMPLE", "caCertificates": f"/{text}/a"}}}
        ),
        "proxyConfig.binaryPath": lambda: _proxy_config(meta, {"binaryPath": f"/{text}/a"}),
        "proxyImage": lambda: _annotate(meta, "sidecar.istio.io/proxyImageType", text),
        "proxyInitImage": lambda: _annotate(meta, "sidecar.istio.io/proxyImageType", text),
        # OpenTelemetry's attributes.
        "metadata.annotations, metadata.labels, spec.containers": lambda: _annotate(
            meta, "resource.opentelemetry.io/service.version", text
        ),
        "metadata.labels[service.istio.io/workload-name], owner.name": lambda: meta.update(
            labels={"service.istio.io/workload-name": text}
        ),
    }
    if place in result:
        result[place]()
        return pod
    if place.startswith("owner."):
        owner = {**owner_of("db", "StatefulSet"), place.removeprefix("owner."): text}
        meta.update(generateName="db-", ownerReferences=[owner])
        return pod
    key = re.fullmatch(r"metadata\.annotations\[(.*)\]", place)
    assert key is not None, place
    name = key[1]
    if name == "sidecar.istio.io/proxyImage":
        text = f"docker.io/{text}"
    elif name in _JSON:
        text = json.dumps({text: "a" if name == _JSON[2] else {"mountPath": "/a"}})
    _annotate(meta, name, text)
    return pod


def _annotate(meta: dict[str, Any], name: str, text: str) -> None:
    meta["annotations"] = {name: text}


def _proxy_config(meta: dict[str, Any], config: dict[str, Any]) -> None:
    _annotate(meta, "proxy.istio.io/config", json.dumps(config))
