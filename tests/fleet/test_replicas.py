"""The last good revisions that the replicas serve, as status, explain and the list of tags name them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from injector.errors import ClusterError
from tests.cli.clusters import FakeKube, config_maps, deployment, invoke, labelled, owned, reached, revision, tag

STATUS = "sidecar.istio.io/status"
SERVED = {
    "name": "1-30",
    "served": True,
    "valid": False,
    "istioVersion": "1.30",
    "fingerprint": "f00d",
    "writtenRevision": "1-30",
}
OTHERS = [{"name": "1-24", "served": False}, {"served": True}, "text"]


class Replicated(FakeKube):
    """A cluster whose injector has replicas, with their status; None if the API server may not ask them."""

    status: dict[str, Any] | None

    async def get_from_pod(self, name: str, path: str, *, namespace: str, port: int) -> dict[str, Any]:
        assert (name, path, namespace, port) == ("injector-a", "status.json", "injector-system", 9999)
        if self.status is None:
            raise ClusterError("pods/proxy is forbidden", hint="x", reason="forbidden")
        return self.status


def slices() -> dict[str, Any]:
    target = {"kind": "Pod", "name": "injector-a", "namespace": "injector-system"}
    labels = {"kubernetes.io/service-name": "injector"}
    return {
        "kind": "EndpointSlice",
        "apiVersion": "discovery.k8s.io/v1",
        "metadata": {"name": "x", "namespace": "injector-system", "labels": labels},
        "endpoints": [
            {"targetRef": target},
            {"targetRef": {"kind": "Pod", "name": "late"}, "conditions": {"ready": False}},
        ],
    }


def replica() -> dict[str, Any]:
    ports = [{"name": "webhook", "containerPort": 1}, {"name": "ops", "containerPort": 9999}]
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {"name": "injector-a", "namespace": "injector-system"},
        "spec": {"containers": [{"name": "injector", "image": "i", "ports": ports}]},
    }


def pod_of(name: str, rev: str | None) -> dict[str, Any]:
    status = {STATUS: json.dumps({"containers": ["istio-proxy"], "revision": rev})} if rev else {}
    return {"kind": "Pod", "apiVersion": "v1", **owned(name, "shop", annotations=status)}


BROKEN = {
    "no config": revision("1-30", "1.30.1", config="")[1:],
    "no template": revision("1-30", "1.30.1", config="templates: {sidecar: '{{ .x'}"),
    "invalid values": (*config_maps("1-30", values="["), *revision("1-30", "1.30.1")[2:]),
    "deleted": revision("1-30", "1.30.1")[2:],
}


def a_cluster(kind: str, status: dict[str, Any] | None) -> FakeKube:
    objects = (
        *revision("1-24", "1.24.6"),
        *BROKEN[kind],
        tag("prod", "1-30"),
        labelled("shop", "prod"),
        labelled("injector-system", "none"),
        deployment("web", "shop"),
        *(pod_of("new", "1-30"), pod_of("old", "1-24"), pod_of("bare", None)),
        slices(),
        replica(),
    )
    cluster = Replicated(*objects)
    cluster.status = status
    return cluster


@pytest.mark.parametrize("kind", BROKEN)
def test_the_status_compares_pods_with_the_last_good_revision(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    reached(monkeypatch, a_cluster(kind, {"revisions": [*OTHERS, SERVED]}))

    result = invoke("revision", "status", "-n", "shop", "-o", "json")

    rows = {row["name"]: (row["wouldGet"], row["state"]) for row in json.loads(result.stdout)["workloads"]}
    assert rows == {
        "new": ("1-30", "current"),
        "old": ("1-30", "older revision"),
        "bare": ("1-30", "missing sidecar"),
    }


@pytest.mark.parametrize("kind", BROKEN)
def test_explain_names_the_last_good_revision(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    reached(monkeypatch, a_cluster(kind, {"revisions": [*OTHERS, SERVED]}))

    result = invoke("explain", "deploy/web.shop")

    assert (result.exit_code, result.stdout.splitlines()[0]) == (
        0,
        "Deployment shop/web: unknown by 1-30 (last_good_revision)",
    )
    said = "the replicas serve the last good revision 1-30, Istio 1.30, fingerprint f00d; what it does with the pod"
    assert said in result.stdout.splitlines()[-1]
    assert "move the tag" not in result.stdout.splitlines()[-1]


@pytest.mark.parametrize("kind", BROKEN)
@pytest.mark.parametrize(
    ("status", "says"),
    [
        ({"revisions": [SERVED]}, "; the replicas serve the last good revision 1-30, Istio 1.30, fingerprint f00d"),
        ({"revisions": OTHERS}, "; no replica serves it"),
        ({}, "; no replica serves it"),
        (None, "; what the replicas serve is not known: pods/proxy is forbidden"),
    ],
)
def test_the_list_of_tags_says_what_the_replicas_serve(
    kind: str, status: dict[str, Any] | None, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    reached(monkeypatch, a_cluster(kind, status))

    result = invoke("tag", "list")

    (warning,) = [line for line in result.stderr.splitlines() if "cannot be used" in line]
    assert warning.startswith("warning: tag `prod`: revision 1-30 cannot be used: ")
    assert says in warning


def test_without_a_last_good_revision_the_state_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    reached(monkeypatch, a_cluster("no template", {"revisions": []}))

    result = invoke("revision", "status", "-n", "shop", "-o", "json")

    assert {row["state"] for row in json.loads(result.stdout)["workloads"]} == {"unknown revision"}
    assert "a revision cannot be used" in result.stderr
    assert invoke("explain", "deploy/web.shop").exit_code != 0


def test_without_a_broken_revision_no_replica_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    reached(monkeypatch, FakeKube(*revision("1-24", "1.24.6"), tag("prod", "1-24"), labelled("shop", "prod"), slices()))

    assert invoke("tag", "list").stderr == ""
