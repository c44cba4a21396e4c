"""Istio's own objects for revisions and tags, made of the facts in ``goldens.yaml``, and how ours are compared with them."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

from tests.cases import read_cases

Object = dict[str, Any]

FACTS = read_cases(Path(__file__).with_suffix(".yaml"))
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
NAMESPACE = "istio-system"

REVISIONS = ("default", "1-24", "1-30")
OWNERS = ("app.kubernetes.io/instance", "app.kubernetes.io/managed-by", "helm.sh/chart")
"""The labels by which Helm and Argo CD recognise their own objects: ours do not have them, and neither do these."""
TAGS: dict[str, tuple[str, str, Object, Object]] = {
    "tag-prod": ("prod", "1-24", {}, {}),
    "tag-canary": ("canary", "1-30", {}, {}),
    "tag-default": ("default", "1-24", {}, {}),
    "tag-default-auto": ("default", "1-30", {"auto_inject": True}, {}),
    "tag-odd-webhook-name": ("odd", "1-24", {}, {"webhook_name": "my-hook"}),
}
"""Name, tag, revision, options, and the further arguments: what istioctl was told."""


def golden(name: str, kind: str = "MutatingWebhookConfiguration") -> Object:
    """Return the object of this kind of a revision, such as ``revision-1-24``, or of a tag, which has several."""
    if name not in TAGS:
        return _revision(name.removeprefix("revision-"))
    tag, revision, options, arguments = TAGS[name]
    labels = {"istio.io/rev": revision, "istio.io/tag": tag}
    if kind == "Service":
        metadata: Object = {"name": f"istiod-revision-tag-{tag}", "namespace": NAMESPACE}
        spec = {"ports": FACTS["service_ports"], "selector": {"app": "istiod", "istio.io/rev": revision}}
        result = {"apiVersion": "v1", "kind": kind, "spec": spec, "status": {"loadBalancer": {}}}
        return copy.deepcopy(result | {"metadata": {**metadata, "labels": FACTS["service_labels"] | labels}})
    if kind == "ValidatingWebhookConfiguration":
        client = {"service": {"name": service_of(revision), "namespace": NAMESPACE, "path": "/validate"}}
        metadata = {"name": "istiod-default-validator", "annotations": copied_annotations(revision)}
        metadata["labels"] = FACTS["validator_labels"] | labels
        return _configuration(kind, metadata, [FACTS["validator"] | {"clientConfig": client}])
    webhooks = _webhooks(tag, revision, auto=options.get("auto_inject", False))
    webhook_name = arguments.get("webhook_name", f"istio-revision-tag-{tag}")
    own = {key: value for key, value in FACTS["revision_labels"].items() if "operator" not in key}
    metadata = {"name": webhook_name, "labels": own | labels, "annotations": copied_annotations(revision)}
    return _configuration(kind, metadata, webhooks)


def _revision(revision: str) -> Object:
    suffix = "" if revision == "default" else f"-{revision}"
    metadata: Object = {"name": f"istio-sidecar-injector{suffix}"}
    labels = FACTS["revision_labels"] | {"istio.io/rev": revision}
    webhooks = _webhooks(revision, revision)
    return _configuration("MutatingWebhookConfiguration", metadata | {"labels": labels}, webhooks)


def _webhooks(name: str, revision: str, *, auto: bool = False) -> list[Object]:
    prefixes = FACTS["named"] + (FACTS["default"] if name == "default" else []) + (["auto"] if auto else [])
    client = {"service": {"name": service_of(revision), "namespace": NAMESPACE, "path": "/inject", "port": 443}}
    results = []
    for prefix in prefixes:
        of_namespaces, of_pods = json.loads(json.dumps(FACTS["selectors"][prefix]).replace("NAME", name))
        results.append(
            FACTS["webhook"]
            | {"name": f"{prefix}.sidecar-injector.istio.io", "clientConfig": client}
            | {"namespaceSelector": {"matchExpressions": of_namespaces}}
            | {"objectSelector": {"matchExpressions": of_pods}}
        )
    return results


def _configuration(kind: str, metadata: Object, webhooks: list[Object]) -> Object:
    result = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": metadata, "webhooks": webhooks}
    return copy.deepcopy(result)


def service_of(revision: str) -> str:
    """Return the name of the Service in Istio's own webhooks."""
    return "istiod" if revision == "default" else f"istiod-{revision}"


def on_istios_path(configuration: Object, name: str) -> Object:
    """Return the configuration with the one thing changed that is ours: ``/inject/<name>`` is ``/inject``."""
    for webhook in configuration["webhooks"]:
        assert webhook["clientConfig"]["service"]["path"] == f"/inject/{name}"
        webhook["clientConfig"]["service"]["path"] = "/inject"
    return configuration


def copied_annotations(revision: str) -> dict[str, str]:
    """Return what istioctl copies to a tag: kubectl applied the revision's configuration."""
    applied = _revision(revision)
    applied["metadata"]["annotations"] = {}
    return {LAST_APPLIED: f"{json.dumps(applied, separators=(',', ':'), sort_keys=True)}\n"}
