"""What breaks between two minors, read from a cluster and from files."""

from __future__ import annotations

from typing import Any

import pytest

from injector.cluster.resources import DAEMON_SETS, NODES, PODS, SERVICES, Resource
from injector.fleet.minors import read_minor_changes
from injector.istio.revision import Revision
from injector.kube.podtemplates import created_pods
from injector.revisions.source import build
from tests.cli.clusters import cluster, deployment, owned
from tests.cluster.fakeapi import FakeApi
from tests.revisions.fakes import VALUES, make_raw

TLS_ROUTE = Resource("gateway.networking.k8s.io/v1alpha2", "tlsroutes", "TLSRoute", namespaced=True)
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
        "ENABLE_DEBUG_ENDPOINT_AUTH",
        "DISABLE_TRACK_REMAINING_CB_METRICS",
        "PILOT_SIDECAR_PICK_BEST_SERVICE_NAMESPACE",
    ]
    assert [line.partition(":")[0] for line in changes.lines()] == ["breaks"] * 4 + [
        "default of 1.29",
        "default of 1.29",
        "default of 1.30",
    ]


async def test_what_cannot_be_read_is_named_and_what_the_cluster_lacks_is_not() -> None:
    refused = {"list services": "forbidden", "list pods": "forbidden", "list nodes": "forbidden"}
    api = FakeApi(refused=refused)
    mesh = "extensionProviders:\n- {name: oc, opencensus: {service: a, port: 1}}\n"

    changes = await read_minor_changes(api, revision("1.20.0"), revision("1.22.1", mesh), [], is_upgrade=True)

    assert changes.breaks == ()
    assert [note.partition(":")[0] for note in changes.notes] == [
        "what breaks of Services is not known",
        "the versions of proxies and of the CNI are not known",
        "the version of Kubernetes is not known",
    ]


@pytest.mark.parametrize(("old", "new"), [("1.30.1", "1.28.3"), ("1.28.0", "1.28.3")])
async def test_an_earlier_minor_or_the_same_one_is_not_asked_about(old: str, new: str) -> None:
    api = FakeApi(refused={"list pods": "forbidden"})

    changes = await read_minor_changes(api, revision(old), revision(new), [], is_upgrade=True)
    assert (changes.breaks, changes.defaults, changes.notes) == ((), (), ())


@pytest.mark.parametrize(("old", "new"), [("1.28.0", "1.28.3"), ("1.28.3", "1.28.0"), ("1.30.1", "1.28.3")])
async def test_patches_for_the_proxies_of_one_version_are_found_in_any_direction(old: str, new: str) -> None:
    only_old = envoy_filter(rf"^{old.replace('.', '[.]')}$")

    changes = await read_minor_changes(cluster(only_old), revision(old), revision(new), [], is_upgrade=True)
    assert [item.rule for item in changes.breaks] == ["envoyfilter-proxy-version"]
    assert (await read_minor_changes(cluster(only_old), revision(old), revision(old), [])).breaks == ()


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


async def test_the_newest_kubelet_tells_whether_the_minor_supports_the_cluster() -> None:
    api = FakeApi()
    for name, version in (("old", "v1.29.4"), ("new", "v1.31.2-gke.100"), ("joining", "")):
        api.put(NODES, {"metadata": {"name": name}, "status": {"nodeInfo": {"kubeletVersion": version}}})

    old, new = revision("1.28.3"), revision("1.30.1")
    changes = await read_minor_changes(api, old, new, [], is_upgrade=True)
    assert [item.rule for item in changes.breaks] == ["kubernetes-version"]
    assert "kubelet is 1.31, and Istio 1.30 supports 1.32 and later" in changes.lines()[0]
    changes = await read_minor_changes(api, old, revision("1.29.1"), [], is_upgrade=True)
    assert changes.breaks == ()


async def test_a_variable_that_either_revision_sets_and_that_ends_is_named() -> None:
    values = VALUES.replace('"global"', '"pilot": {"env": {"ENABLE_INBOUND_RETRY_POLICY": "false"}}, "global"', 1)
    mesh = "defaultConfig:\n  proxyMetadata: {ENABLE_DEFERRED_STATS_CREATION: 'false'}\n"
    old, new = revision("1.26.1", values=values), revision("1.27.1", mesh)

    changes = await read_minor_changes(FakeApi(), old, new, [])
    assert [item.subject for item in changes.breaks] == [
        "variable ENABLE_DEFERRED_STATS_CREATION",
        "variable ENABLE_INBOUND_RETRY_POLICY",
    ]
    assert "ENABLE_NATIVE_SIDECARS=false" in changes.lines()[-1]


async def test_a_tag_that_does_not_tell_the_version_stands_for_the_minor() -> None:
    api = WithEnvoyFilters()
    api.put(FILTER, {key: value for key, value in envoy_filter(r"^1\.24\..*").items() if key != "kind"})
    old, new = (
        build(make_raw(name, values=VALUES.replace("1.24.6", "stable"), settings={"istioVersion": minor}))
        for name, minor in (("a", "1.24"), ("b", "1.25"))
    )

    changes = await read_minor_changes(api, old, new, [])
    assert [item.rule for item in changes.breaks] == ["envoyfilter-proxy-version"]


async def test_routes_are_asked_about_only_where_the_api_server_tells_their_versions() -> None:
    route = {"apiVersion": TLS_ROUTE.api_version, "kind": "TLSRoute", "metadata": {"name": "db", "namespace": "shop"}}

    class WithRoutes(FakeApi):
        async def find_resource(self, kind: str, group: str) -> Resource | None:
            return TLS_ROUTE if (kind, group) == ("TLSRoute", "gateway.networking.k8s.io") else None

    api = WithRoutes()
    api.put(TLS_ROUTE, route)
    old, new = revision("1.29.1"), revision("1.30.1")
    (broken,) = (await read_minor_changes(api, old, new, [])).breaks
    assert (broken.rule, broken.subject) == ("tls-route", "TLSRoute shop/db")
    assert (await read_minor_changes(cluster(route), old, new, [])).breaks == ()
