"""Every combination of labels, as a Deployment of a real cluster: the sidecar of the right revision, or none."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest
import yaml

from injector.revisions.tags import PIN
from tests.e2e.cluster import Cluster
from tests.e2e.served import Certificate, command, injector, until
from tests.e2e.webhooks import calling, written
from tests.manifests import namespace_of, workload
from tests.revisions.fakes import write_revision

REV, INJECT, INJECTION = "istio.io/rev", "sidecar.istio.io/inject", "istio-injection"
OLD, NEW = "1-29", "1-30"
TAGS = {"default": OLD, "prod": NEW}
NONE = "-"

NAMESPACES: dict[str, dict[str, str]] = {
    "unlabelled": {},
    "enabled": {INJECTION: "enabled"},
    "disabled": {INJECTION: "disabled"},
    "old": {REV: OLD},
    "new": {REV: NEW},
    "prod": {REV: "prod"},
    "default-tag": {REV: "default"},
    "unknown": {REV: "1-31"},
    "enabled-new": {INJECTION: "enabled", REV: NEW},
    "disabled-new": {INJECTION: "disabled", REV: NEW},
}
"""The namespaces by name, with their labels."""

PODS: dict[str, dict[str, Any]] = {
    "plain": {},
    "old": {"labels": {REV: OLD}},
    "new": {"labels": {REV: NEW}},
    "prod": {"labels": {REV: "prod"}},
    "unknown": {"labels": {REV: "1-31"}},
    "true": {"labels": {INJECT: "true"}},
    "false": {"labels": {INJECT: "false"}},
    "new-true": {"labels": {REV: NEW, INJECT: "true"}},
    "new-false": {"labels": {REV: NEW, INJECT: "false"}},
    "note-true": {"annotations": {INJECT: "true"}},
    "note-false": {"annotations": {INJECT: "false"}},
    "host": {"hostNetwork": True},
    "host-true": {"labels": {INJECT: "true"}, "hostNetwork": True},
    "host-new": {"labels": {REV: NEW}, "hostNetwork": True},
}
"""The pods by name: their labels, annotations and network."""

MATRIX = """
               plain old   new   prod  unknown true  false new-true new-false note-true note-false host host-true host-new
unlabelled     -     1-29  1-30  1-30  -       1-29  -     1-30     -         -         -          -    -         -
enabled        1-29  1-29  1-29  1-29  1-29    1-29  -     1-29     -         1-29      -          -    -         -
disabled       -     -     -     -     -       -     -     -        -         -         -          -    -         -
old            1-29  1-29  1-29  1-29  1-29    1-29  -     1-29     -         1-29      -          -    -         -
new            1-30  1-30  1-30  1-30  1-30    1-30  -     1-30     -         1-30      -          -    -         -
prod           1-30  1-30  1-30  1-30  1-30    1-30  -     1-30     -         1-30      -          -    -         -
default-tag    1-29  1-29  1-29  1-29  1-29    1-29  -     1-29     -         1-29      -          -    -         -
unknown        -     -     -     -     -       -     -     -        -         -         -          -    -         -
enabled-new    1-29  1-29  1-29  1-29  1-29    1-29  -     1-29     -         1-29      -          -    -         -
disabled-new   -     -     -     -     -       -     -     -        -         -         -          -    -         -
"""
"""The revision of each pod in each namespace, as Istio 1.30 has it; a dash is none. Nothing here is the injector's own word.

- Labels: istio.io, "Installing the Sidecar", section "Controlling the injection policy": the namespace's label decides before
  the pod's; `istio-injection` wins over `istio.io/rev`; a pod's `sidecar.istio.io/inject: "false"` wins over everything.
- A pod's own `istio.io/rev` counts where the namespace has neither label, and `inject: "true"` alone means the default one:
  manifests/charts/istio-control/istio-discovery/templates/mutatingwebhook.yaml, webhooks `rev.*`, `namespace.` and `object.`; for
  tags revision-tags-mwc.yaml beside it.
- Annotations are seen by no selector, so `true` enables nothing; `false`, and the host's network, are looked at once a webhook is
  called: pkg/kube/inject/inject.go, injectRequired.
"""


POD_FIRST = """
               plain old   new   prod  unknown true  false new-true new-false note-true note-false host host-true host-new
unlabelled     -     1-29  1-30  1-30  -       1-29  -     1-30     -         -         -          -    -         -
enabled        1-29  1-29  1-29  1-29  1-29    1-29  -     1-29     -         1-29      -          -    -         -
disabled       -     -     -     -     -       -     -     -        -         -         -          -    -         -
old            1-29  1-29  1-30  1-30  -       1-29  -     1-30     -         1-29      -          -    -         -
new            1-30  1-29  1-30  1-30  -       1-30  -     1-30     -         1-30      -          -    -         -
prod           1-30  1-29  1-30  1-30  -       1-30  -     1-30     -         1-30      -          -    -         -
default-tag    1-29  1-29  1-30  1-30  -       1-29  -     1-30     -         1-29      -          -    -         -
unknown        -     1-29  1-30  1-30  -       -     -     1-30     -         -         -          -    -         -
enabled-new    1-29  1-29  1-29  1-29  1-29    1-29  -     1-29     -         1-29      -          -    -         -
disabled-new   -     -     -     -     -       -     -     -        -         -         -          -    -         -
"""
"""The same with `--revision-label-precedence pod`, by the selectors of istio/istio#60377: a pod's `istio.io/rev` wins over its namespace's,
also if nothing serves it. `istio-injection` wins over both.
"""
MATRICES = {"namespace": MATRIX, "pod": POD_FIRST}


def expected(precedence: str) -> dict[tuple[str, str], str]:
    """The matrix of a precedence, by the names of namespace and pod."""
    head, *rows = MATRICES[precedence].strip().splitlines()
    pods = head.split()
    cells = {(name, pod): cell for name, *row in map(str.split, rows) for pod, cell in zip(pods, row, strict=True)}
    assert set(cells) == {(name, pod) for name in NAMESPACES for pod in PODS}
    return cells


def deployment(
    namespace: str,
    name: str,
    *,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    **pod: Any,
) -> dict[str, Any]:
    return workload("Deployment", name, namespace, labels=labels, annotations=annotations, pod=pod)


def workloads() -> list[dict[str, Any]]:
    """A Deployment for each cell."""
    return [deployment(namespace, name, **pod) for namespace in NAMESPACES for name, pod in PODS.items()]


def revision_of(pod: dict[str, Any]) -> str:
    """The revision whose sidecar a pod has; everything in the pod that names one must name the same."""
    images = [container["image"] for container in pod["spec"]["containers"] if container["name"] == "istio-proxy"]
    annotations = pod["metadata"].get("annotations", {})
    if not images:
        assert "sidecar.istio.io/status" not in annotations
        return NONE
    (image,) = images
    status = json.loads(annotations["sidecar.istio.io/status"])
    assert image == f"proxy:{status['revision']}"
    return str(status["revision"])


def until_created(cluster: Cluster, namespaces: Collection[str], count: int) -> dict[tuple[str, str], dict[str, Any]]:
    """The pods that the controllers made of the Deployments, once all are there, by the names of namespace and Deployment."""

    def pods_of_matrix() -> list[dict[str, Any]]:
        return [pod for pod in cluster.pods() if pod["metadata"]["namespace"] in namespaces]

    until(lambda: len(pods_of_matrix()) >= count, state=lambda: f"{len(pods_of_matrix())} of {count} pods")
    pods = pods_of_matrix()
    by_cell = {(pod["metadata"]["namespace"], pod["metadata"]["labels"]["app"]): pod for pod in pods}
    assert len(by_cell) == len(pods)
    return by_cell


def test_a_pinned_pod_and_a_namespace_with_its_own_weights_get_their_revision(
    controlled_cluster: Cluster, trusted: Certificate, revisions: Path, tmp_path: Path
) -> None:
    cluster, directory = controlled_cluster, ("--revisions-dir", str(revisions))
    tag = {"weights": {NEW: 100, OLD: 0}, "namespaces": {"payments": OLD}}
    (revisions / "tags.yaml").write_text(yaml.safe_dump({"late": tag}))
    namespaces = [namespace_of(name, {REV: "late"}) for name in ("payments", "trade")]
    wanted = [
        deployment("trade", "plain"),
        deployment("trade", "pinned", annotations={PIN: OLD}),
        deployment("trade", "astray", annotations={PIN: "1-31"}),
        deployment("payments", "plain"),
        deployment("payments", "pinned", annotations={PIN: NEW}),
    ]

    with injector(tmp_path, *trusted.flags, *directory) as served:
        cluster.apply(*namespaces)
        with calling(cluster, written("webhook", *directory, port=served.port, trusted=trusted)):
            cluster.apply(*wanted)
            pods = until_created(cluster, {"payments", "trade"}, len(wanted))

    assert {cell: revision_of(pod) for cell, pod in pods.items()} == {
        ("trade", "plain"): NEW,
        ("trade", "pinned"): OLD,
        ("trade", "astray"): NEW,
        ("payments", "plain"): OLD,
        ("payments", "pinned"): NEW,
    }
    (tmp_path / "manifest.yaml").write_text(yaml.safe_dump_all([*namespaces, *wanted]))
    explained = json.loads(command("explain", "-f", tmp_path / "manifest.yaml", *directory, "-o", "json"))["workloads"]
    assert {(row["namespace"], row["name"]): row["revision"] for row in explained} == {
        cell: revision_of(pod) for cell, pod in pods.items()
    }
    (detail,) = [step["detail"] for step in explained[2]["steps"] if step["step"] == "tag"]
    assert detail.endswith("its pin does not count, since the tag does not name that revision")


@pytest.fixture
def revisions(tmp_path: Path) -> Path:
    """A folder of two revisions and two tags."""
    folder = tmp_path / "revisions"
    for name in (OLD, NEW):
        write_revision(folder / name, values=json.dumps({"global": {"tag": name}}))
    (folder / "tags.yaml").write_text(yaml.safe_dump(TAGS))
    return folder


def explained_live(cluster: Cluster, revisions: Path) -> dict[tuple[str, str], str]:
    """The revision of each Deployment as `explain` finds it by the webhooks of the cluster."""
    where = ("--revisions-dir", str(revisions), "--kubeconfig", str(cluster.kubeconfig))
    rows = json.loads(command("explain", "-A", *where, "-o", "json"))["workloads"]
    return revisions_of(rows)


def revisions_of(rows: list[dict[str, Any]]) -> dict[tuple[str, str], str]:
    """The revision of each Deployment of the output of `explain`."""
    return {(row["namespace"], row["name"]): row["revision"] if row["outcome"] == "injected" else NONE for row in rows}


@pytest.mark.parametrize("precedence", MATRICES)
def test_each_pod_gets_the_sidecar_of_istios_own_choice_and_explain_says_the_same(
    controlled_cluster: Cluster, trusted: Certificate, revisions: Path, tmp_path: Path, precedence: str
) -> None:
    flag = ("--revision-label-precedence", precedence)
    cluster, directory = controlled_cluster, ("--revisions-dir", str(revisions))
    namespaces = [namespace_of(name, labels) for name, labels in NAMESPACES.items()]

    with injector(tmp_path, *trusted.flags, *directory) as served:
        webhooks = written("webhook", *directory, *flag, port=served.port, trusted=trusted)
        assert len(webhooks) == len((OLD, NEW)) + len(TAGS)
        for tag, revision in TAGS.items():
            assert written("tag", tag, "--revision", revision, *flag, port=served.port, trusted=trusted)[0] in webhooks
        cluster.apply(*namespaces)
        with calling(cluster, webhooks):
            cluster.apply(*workloads())
            pods = until_created(cluster, NAMESPACES, len(NAMESPACES) * len(PODS))
            live = explained_live(cluster, revisions)

        assert {cell: revision_of(pod) for cell, pod in pods.items()} == live == expected(precedence)
        owners = {pod["metadata"]["ownerReferences"][0]["kind"] for pod in pods.values()}
        assert owners == {"ReplicaSet"}
        called = served.total("sidecar_injection_requests_total")
        assert called == served.total("sidecar_injection_success_total") + served.total("sidecar_injection_skip_total")

    manifest = tmp_path / "manifest.yaml"
    manifest.write_text(yaml.safe_dump_all([*namespaces, *workloads()]))
    explained = json.loads(command("explain", "-f", manifest, *directory, *flag, "-o", "json"))["workloads"]
    assert revisions_of(explained) == expected(precedence)
