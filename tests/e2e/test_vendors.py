"""`explain` and `analyze` agree with the API server about webhooks with the selectors of managed installations of Istio."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.cluster import Cluster
from tests.e2e.served import Certificate, run
from tests.e2e.webhooks import Recorder, calling, recorder
from tests.factories import make_pod
from tests.manifests import account_of, control_plane, make_object, namespace_of, pod_webhook, workload

HOME = "istio-system"
REV, INJECTION, INJECT = "istio.io/rev", "istio-injection", "sidecar.istio.io/inject"
NOT_REFUSED = (INJECT, "NotIn", "false")

Requirement = tuple[str, ...]


def webhook(name: str, namespace: list[Requirement], pod: list[Requirement], **fields: Any) -> dict[str, Any]:
    """A webhook by its requirements for the labels of namespaces and pods; keywords are further fields."""
    selectors: dict[str, Any] = {
        f"{of}Selector": {"matchExpressions": [_expression(*requirement) for requirement in requirements]}
        for of, requirements in (("namespace", namespace), ("object", pod))
    }
    return pod_webhook(f"{name}sidecar-injector.istio.io", {}, **selectors, **fields)


def _expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


def _by_revision(rev: str, *excluded: Requirement) -> list[dict[str, Any]]:
    absent = [(REV, "DoesNotExist"), (INJECTION, "DoesNotExist")]
    return [
        webhook("rev.namespace.", [(REV, "In", rev), (INJECTION, "DoesNotExist"), *excluded], [NOT_REFUSED]),
        webhook("rev.object.", [*absent, *excluded], [NOT_REFUSED, (REV, "In", rev)]),
    ]


def _by_default(*excluded: Requirement) -> list[dict[str, Any]]:
    absent = [(REV, "DoesNotExist"), (INJECTION, "DoesNotExist")]
    return [
        webhook("namespace.", [(INJECTION, "In", "enabled"), *excluded], [NOT_REFUSED]),
        webhook("object.", [*absent, *excluded], [(INJECT, "In", "true"), (REV, "DoesNotExist")]),
    ]


AKS = (("control-plane", "DoesNotExist"), ("kubernetes.azure.com/managedby", "NotIn", "aks"))
EKS = (("kubernetes.io/metadata.name", "NotIn", "kube-system", "amazon-guardduty"),)
RANCHER = (("field.cattle.io/projectId", "NotIn", "p-system"), ("cattle.io/system", "DoesNotExist"))
CONDITIONS = [{"name": "not-on-fargate", "expression": "!has(object.spec.hostNetwork) || !object.spec.hostNetwork"}]
VENDORS: dict[str, tuple[str, str, list[dict[str, Any]]]] = {
    # The revision, the path and the webhooks.
    "aks": ("asm-1-27", "/inject", _by_revision("asm-1-27", *AKS)),
    "aks-default": ("default", "/inject", [*_by_revision("default", *AKS), *_by_default(*AKS)]),
    "eks": ("default", "/inject", [*_by_revision("default", *EKS), *_by_default(*EKS)]),
    "gke": ("asm-managed", "/v1/projects/x/inject", _by_revision("asm-managed")),
    "openshift": (
        "basic",
        "/inject",
        [
            webhook(
                "",
                [("maistra.io/member-of", "In", HOME), ("maistra.io/ignore-namespace", "DoesNotExist")],
                [(INJECT, "In", "true")],
            )
        ],
    ),
    "rancher": (
        "default",
        "/inject",
        [{**webhook, "matchConditions": CONDITIONS} for webhook in _by_default(*RANCHER)],
    ),
}
NAMESPACES: dict[str, dict[str, str]] = {
    "plain": {},
    "enabled": {INJECTION: "enabled"},
    "disabled": {INJECTION: "disabled"},
    "asm": {REV: "asm-1-27"},
    "managed": {REV: "asm-managed"},
    "revised": {REV: "default"},
    "controllers": {INJECTION: "enabled", "control-plane": "controller-manager"},
    "asm-controllers": {REV: "asm-1-27", "control-plane": "controller-manager"},
    "azure": {INJECTION: "enabled", "kubernetes.azure.com/managedby": "aks"},
    "member": {"maistra.io/member-of": HOME},
    "ignored": {"maistra.io/member-of": HOME, "maistra.io/ignore-namespace": "yes"},
    "project": {INJECTION: "enabled", "field.cattle.io/projectId": "p-system"},
    "amazon-guardduty": {INJECTION: "enabled"},
}
PODS: dict[str, dict[str, str]] = {
    "none": {},
    "asked": {INJECT: "true"},
    "refused": {INJECT: "false"},
    "named": {REV: "asm-1-27"},
}


@pytest.fixture(scope="module")
def called(trusted: Certificate) -> Iterator[Recorder]:
    """The webhook that all vendors' configurations call."""
    with recorder(trusted) as recording:
        yield recording


@pytest.fixture(scope="module")
def places(cluster: Cluster) -> dict[str, dict[str, str]]:
    """The namespaces, in which pods can be created, with a Deployment for each kind of pod."""
    cluster.apply(namespace_of(HOME))
    for rev in sorted({rev for rev, _, _ in VENDORS.values()}):
        cluster.apply(*control_plane(HOME, rev, tag="1.27.0"))
    for name, labels in NAMESPACES.items():
        cluster.apply(namespace_of(name, labels), account_of(name))
        cluster.apply(*(workload("Deployment", pod, name, labels=PODS[pod]) for pod in PODS))
    return NAMESPACES


def _configuration(vendor: str, called: Recorder, trusted: Certificate) -> dict[str, Any]:
    rev, path, webhooks = VENDORS[vendor]
    client = {"url": f"{called.url}{path}", "caBundle": trusted.bundle}
    return make_object(
        "MutatingWebhookConfiguration",
        f"istio-sidecar-injector-{vendor}",
        labels={REV: rev, "app": "sidecar-injector"},
        webhooks=[{**webhook, "clientConfig": client, "timeoutSeconds": 30} for webhook in webhooks],
    )


def _tried(cluster: Cluster, called: Recorder) -> dict[tuple[str, str], bool]:
    """Create each kind of pod in each namespace by a dry run, and return whether the webhook was called."""
    for place, pod in product(NAMESPACES, PODS):
        assert not cluster.refusal(make_pod(pod, labels={"app": pod, **PODS[pod]}), place)
    calls = called.calls()
    return {cell: cell in calls for cell in product(NAMESPACES, PODS)}


@pytest.mark.parametrize("vendor", VENDORS)
def test_explain_and_analyze_agree_with_the_api_server(
    vendor: str,
    cluster: Cluster,
    places: dict[str, dict[str, str]],
    trusted: Certificate,
    called: Recorder,
    tmp_path: Path,
) -> None:
    configuration = _configuration(vendor, called, trusted)
    with calling(cluster, [configuration]):
        actual = _tried(cluster, called)
        explained = run(cluster, "explain", "-A", "-o", "json")
        analyzed = run(cluster, "analyze", "-A", "-o", "json")
        exported = tmp_path / "all.json"
        paths = ("/api/v1/namespaces", "/apis/apps/v1/deployments", f"/api/v1/namespaces/{HOME}/configmaps")
        lists = [cluster.request(path)[1] for path in paths]
        exported.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": [*lists, configuration]}))
        of_files = run(cluster, "explain", "-f", str(exported), "-o", "json")

    for result in explained, of_files:
        workloads = json.loads(result.stdout)["workloads"]
        answers = {(row["namespace"], row["name"]): row["reason"] != "no_webhook" for row in workloads}
        assert {key: answers[key] for key in actual} == actual
    assert len(set(actual.values())) == 2
    codes = {(message["code"], message["origin"]) for message in json.loads(analyzed.stdout)}
    for place, labels in places.items():
        says_none = ("INJ0001", f"Namespace {place}") in codes
        asks = labels.get(INJECTION) == "enabled" or (REV in labels and INJECTION not in labels)
        assert says_none == (asks and not any(actual[place, pod] for pod in PODS)), place
