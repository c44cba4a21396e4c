"""What breaks between two minors, read from a cluster and from files."""

from __future__ import annotations

from typing import Any

import pytest

from injector.cluster.resources import DAEMON_SETS, PODS, SERVICES, Resource
from injector.fleet.minors import read_minor_changes
from injector.istio.revision import Revision
from injector.kube.podtemplates import created_pods
from injector.revisions.source import build
from tests.cli.clusters import cluster, deployment, owned
from tests.cluster.fakeapi import FakeApi
from tests.revisions.fakes import VALUES, make_raw

FILTER = Resource("networking.istio.io/v1alpha3", "envoyfilters", "EnvoyFilter", namespaced=True)


def revision(version: str, mesh: str | None = None, values: str = VALUES) -> Revision:
    return build(
        make_raw(version.rpartition(".")[0].replace(".", "-"), values=values.replace("1.24.6", version), mesh=mesh)
    )


def envoy_filter(version: str) -> dict[str, Any]:
    patch = {"applyTo": "CLUSTER", "match": {"proxy": {"proxyVersion": version}}, "patch": {"operation": "MERGE"}}
    meta = {"name": "x", "namespace": "shop"}
    return {"apiVersion": FILTER.api_version, "kind": FILTER.kind, "metadata": meta, "spec": {"configPatches": [patch]}}


class WithEnvoyFilters(FakeApi):
    async def find_resource(self, kind: str, group: str) -> Resource | None:
        return FILTER if (kind, group) == ("EnvoyFilter", "networking.istio.io") else None


async def test_a_cluster_and_its_workloads_are_read() -> None:
    api = WithEnvoyFilters()
    api.put(FILTER, {key: value for key, value in envoy_filter(r"1\.28\..*").items() if key != "kind"})
    proxy = {"name": "istio-proxy", "image": "docker.io/istio/proxyv2:1.24.6-distroless"}
    pod = owned("web", "shop")
    api.put(PODS, {**pod, "spec": {"containers": [*pod["spec"]["containers"], proxy]}})
    agent = {"metadata": {"labels": {}}, "spec": {"containers": [{"image": "istio/install-cni:1.28.0"}]}}
    labels = {"k8s-app": "istio-cni-node"}
    api.put(
        DAEMON_SETS,
        {
            "metadata": {"name": "istio-cni-node", "namespace": "kube-system", "labels": labels},
            "spec": {"template": agent},
        },
    )
    (web,) = created_pods(deployment("web", "shop"), "shop")
    web.pod["metadata"]["annotations"] = {"sidecar.istio.io/statsCompression": "false"}

    changes = await read_minor_changes(api, revision("1.28.3"), revision("1.30.1"), [web], is_upgrade=True)

    assert [(item.rule, item.subject) for item in changes.breaks] == [
        ("cni-skew", "istio-cni"),
        ("envoyfilter-proxy-version", "EnvoyFilter shop/x"),
        ("proxy-skew", "control plane 1.30"),
        ("stats-compression", "Deployment shop/web"),
    ]
    assert changes.notes == ()
    assert [default.variable for default in changes.defaults] == [
        "DISABLE_TRACK_REMAINING_CB_METRICS",
        "PILOT_SIDECAR_PICK_BEST_SERVICE_NAMESPACE",
    ]
    assert [line.partition(":")[0] for line in changes.lines()] == ["breaks"] * 4 + [
        "default of 1.29",
        "default of 1.30",
    ]


async def test_what_cannot_be_read_is_named_and_what_the_cluster_lacks_is_not() -> None:
    refused = {"list services": "forbidden", "list pods": "forbidden"}
    api = FakeApi(refused=refused)
    mesh = "extensionProviders:\n- {name: oc, opencensus: {service: a, port: 1}}\n"

    changes = await read_minor_changes(api, revision("1.20.0"), revision("1.22.1", mesh), [], is_upgrade=True)

    assert changes.breaks == ()
    assert [note.partition(":")[0] for note in changes.notes] == [
        "what breaks of Services is not known",
        "the versions of proxies and of the CNI are not known",
    ]


@pytest.mark.parametrize(("old", "new"), [("1.30.1", "1.28.3"), ("1.28.0", "1.28.3")])
async def test_an_earlier_minor_or_the_same_one_is_not_asked_about(old: str, new: str) -> None:
    api = FakeApi(refused={"list pods": "forbidden"})

    changes = await read_minor_changes(api, revision(old), revision(new), [], is_upgrade=True)
    assert (changes.breaks, changes.defaults, changes.notes) == ((), (), ())


async def test_files_are_asked_about_the_objects_that_they_have() -> None:
    service = {"apiVersion": "v1", "kind": SERVICES.kind, "metadata": {"name": "zipkin", "namespace": "istio-system"}}
    reader = cluster(envoy_filter("^1.21"), service)

    changes = await read_minor_changes(reader, revision("1.21.0"), revision("1.22.0"), [])
    assert [item.rule for item in changes.breaks] == ["default-tracing", "envoyfilter-proxy-version"]


async def test_a_control_plane_that_needs_the_cni_says_so_if_the_cluster_has_none() -> None:
    values = '{"global": {"tag": "1.24.6"}, "pilot": {"cni": {"enabled": true}}}'

    changes = await read_minor_changes(
        FakeApi(), revision("1.28.0"), revision("1.29.0", values=values), [], is_upgrade=True
    )
    assert [item.rule for item in changes.breaks] == ["cni-missing"]
