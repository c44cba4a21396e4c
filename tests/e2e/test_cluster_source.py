"""Revisions of a real API server: found, swapped, kept, gone, and followed over its restart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.architecture.documents import ROOT, blocks
from tests.architecture.serving import wait_until_ready
from tests.deploy import rendering
from tests.e2e.cluster import Cluster
from tests.e2e.served import injector, of_cluster, until
from tests.manifests import BROKEN, account_of, config_map, control_plane, namespace_of, tag_of
from tests.revisions.fakes import write_revision

PLAIN = "--insecure-http"


def test_a_revision_is_found_swapped_kept_when_broken_and_gone(cluster: Cluster, tmp_path: Path) -> None:
    home = "istio-life"
    noise = config_map("istio-cni-config", home, "default", CNI_NETWORK_CONFIG="x")
    cluster.apply(namespace_of(home), *control_plane(home, "default", tag="1.24.6"), noise, tag_of("prod", "default"))

    with injector(tmp_path, PLAIN, "--keep-removed", "1s", *of_cluster(cluster, home)) as served:
        assert (served.image("default"), served.image("prod")) == ("proxy:1.24.6", "proxy:1.24.6")

        cluster.apply(*control_plane(home, "canary", tag="1.28.1"))
        served.until(lambda: served.image("canary") == "proxy:1.28.1")

        cluster.apply(*control_plane(home, "canary", tag="1.28.2"))
        served.until(lambda: served.image("canary") == "proxy:1.28.2")

        cluster.apply(*control_plane(home, "canary", tag="1.28.3", config=BROKEN))
        served.until(lambda: served.error("canary") != "")
        assert served.image("canary") == "proxy:1.28.2"

        cluster.apply(*control_plane(home, "canary", tag="1.28.4"), tag_of("prod", "canary"))
        served.until(lambda: served.image("prod") == "proxy:1.28.4")

        cluster.delete("configmap", "istio-canary", home)
        served.until(lambda: "has no ConfigMap istio-canary" in served.error("canary"))
        assert served.image("canary") == "proxy:1.28.4"

        cluster.delete("configmap", "istio-sidecar-injector-canary", home)
        served.until(lambda: "there is no revision or tag 'canary'" in served.image("canary"))
        assert served.image("default") == "proxy:1.24.6"

        for name in ("istio", "istio-sidecar-injector"):
            cluster.delete("configmap", name, home)
        served.until(lambda: "all revisions have been removed" in served.error("default"))
        assert served.image("default") == "proxy:1.24.6"

        cluster.apply(*control_plane(home, "default", tag="1.24.7"))
        served.until(lambda: served.image("default") == "proxy:1.24.7")


def test_a_tag_that_is_moved_before_its_revision_is_there_stays_until_it_is(cluster: Cluster, tmp_path: Path) -> None:
    home = "istio-early"
    cluster.apply(namespace_of(home), *control_plane(home, "default", tag="1.24.6"), tag_of("early", "default"))

    with injector(tmp_path, PLAIN, *of_cluster(cluster, home)) as served:
        cluster.apply(tag_of("early", "next"))
        served.until(lambda: "tag `early`: it names `next`" in "".join(served.status()["tagErrors"]))
        assert served.image("early") == "proxy:1.24.6"

        cluster.apply(*control_plane(home, "next", tag="1.28.1"))
        served.until(lambda: served.image("early") == "proxy:1.28.1")


def test_the_nodes_are_asked_where_native_sidecars_depend_on_them(cluster: Cluster, tmp_path: Path) -> None:
    home = "istio-nodes"
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}}
    cluster.apply(namespace_of(home), *control_plane(home, "default", tag="1.24.6"), node)

    with injector(tmp_path, PLAIN, *of_cluster(cluster, home)) as served:
        assert 'injector_watch_synced{resource="nodes"}' not in served.metrics()

        cluster.apply(*control_plane(home, "canary", tag="1.28.1"))

        served.until(lambda: 'injector_watch_synced{resource="nodes"} 1.0' in served.metrics())


def permissions(*, namespaces: bool) -> list[dict[str, Any]]:
    """What the chart lets the injector read of a cluster, with the account that may."""
    return rendering.permissions({"fromCluster": {"enabled": True, "namespaces": namespaces}, "tls": {"mode": "files"}})


@pytest.mark.usefixtures("helm")
def test_a_missing_permission_is_named_and_those_of_deploy_are_enough(cluster: Cluster, tmp_path: Path) -> None:
    cluster.apply(namespace_of("istio-system"), namespace_of("injector-system"))
    granted = permissions(namespaces=False)
    cluster.apply(*(item for item in granted if item["kind"] != "ClusterRole"))
    cluster.apply(*control_plane("istio-system", "default", tag="1.28.1"))

    account = cluster.kubeconfig_of("injector", "injector-system")
    (tmp_path / "early").mkdir()
    flags = (PLAIN, *of_cluster(cluster, "istio-system", kubeconfig=account))
    with injector(tmp_path / "early", *flags, ready=False) as early:
        early.until(lambda: "mutatingwebhookconfigurations" in early.readiness())
        assert "starting: " in early.readiness()
        assert "forbidden" in early.readiness()
        cluster.apply(*granted)
        early.until(lambda: early.readiness() == "ok")

    with injector(tmp_path, PLAIN, *of_cluster(cluster, "istio-system", kubeconfig=account)) as served:
        synced = [line for line in served.metrics().splitlines() if line.startswith("injector_watch_synced{")]
        assert sorted(synced) == [
            'injector_watch_synced{resource="configmaps"} 1.0',
            'injector_watch_synced{resource="mutatingwebhookconfigurations"} 1.0',
            'injector_watch_synced{resource="nodes"} 1.0',
            'injector_watch_synced{resource="proxyconfigs"} 1.0',
        ]
        assert "injector_watch_faults_total{" not in served.metrics()

        cluster.apply(*control_plane("istio-system", "default", tag="1.28.2", platform="openshift"))
        served.until(lambda: 'reason="forbidden",resource="namespaces"' in served.metrics())
        assert served.image("default") == "proxy:1.28.2"
        cluster.apply(*permissions(namespaces=True))
        served.until(lambda: 'injector_watch_synced{resource="namespaces"} 1.0' in served.metrics())


ISTIOD_RULES = [
    {"apiGroups": ["admissionregistration.k8s.io"], "resources": ["mutatingwebhookconfigurations"]},
    {"apiGroups": ["networking.istio.io"], "resources": ["*"]},
    {"apiGroups": [""], "resources": ["pods", "nodes", "services", "namespaces", "endpoints", "configmaps"]},
]
"""What istiod of Istio 1.30.0 may read in the cluster that it manages, as far as the injector reads it."""


@pytest.mark.usefixtures("helm")
def test_an_injector_beside_an_external_istiod_needs_only_its_account(cluster: Cluster, tmp_path: Path) -> None:
    home, name = "external-istiod", "istiod-remote"
    rules = [{**rule, "verbs": ["get", "list", "watch"]} for rule in ISTIOD_RULES]
    group = "rbac.authorization.k8s.io"
    subjects = [{"kind": "ServiceAccount", "name": name, "namespace": home}]
    cluster.apply(
        namespace_of(home),
        account_of(home, name),
        {"apiVersion": f"{group}/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules},
        {
            "apiVersion": f"{group}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
            "subjects": subjects,
        },
        *control_plane(home, "1-30", tag="1.30.3", platform="openshift"),
    )
    page = blocks(ROOT / "docs" / "installers" / "external.md")
    *_, values = [yaml.safe_load(block.text) for block in page if block.mark == "values"]
    (deployment,) = [item for item in rendering.rendered(values) if item["kind"] == "Deployment"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    (mount,) = [mount for mount in container["volumeMounts"] if mount["name"] == "remote"]
    kubeconfig = cluster.kubeconfig_of(name, home)
    until(lambda: cluster.is_allowed(f"{home}:{name}", verb="list", resource="nodes"))
    replaced = ("--tls", "--port", "--ops-port", "--shutdown-delay")
    flags = [
        argument.replace(f"{mount['mountPath']}/config", str(kubeconfig))
        for argument in container["args"][1:]
        if not argument.startswith(replaced)
    ]

    with injector(tmp_path, PLAIN, *flags) as served:
        assert served.image("1-30") == "proxy:1.30.3"
        synced = {line for line in served.metrics().splitlines() if line.startswith("injector_watch_synced{")}
        names = ("configmaps", "mutatingwebhookconfigurations", "namespaces", "nodes", "proxyconfigs")
        assert synced == {f'injector_watch_synced{{resource="{resource}"}} 1.0' for resource in names}
        assert "injector_watch_faults_total{" not in served.metrics()


def test_a_folder_of_the_same_name_wins_and_it_is_said(cluster: Cluster, tmp_path: Path) -> None:
    home, folder = "istio-both", tmp_path / "revisions" / "default"
    write_revision(folder, values='{"global": {"tag": "own"}}')
    cluster.apply(namespace_of(home), *control_plane(home, "default", tag="1.24.6"))
    cluster.apply(*control_plane(home, "canary", tag="1.28.1"))

    with injector(tmp_path, PLAIN, *of_cluster(cluster, home), "--revisions-dir", str(folder.parent)) as served:
        assert (served.image("default"), served.image("canary")) == ("proxy:own", "proxy:1.28.1")
        assert f"ConfigMap {home}/istio-sidecar-injector has the same name" in served.log.read_text()


def test_pods_are_injected_while_the_api_server_is_down_and_changes_seen_after(
    cluster: Cluster, tmp_path: Path
) -> None:
    home = "istio-restart"
    cluster.apply(namespace_of(home), *control_plane(home, "default", tag="1.24.6"))

    with injector(tmp_path, PLAIN, *of_cluster(cluster, home)) as served:
        cluster.stop()
        served.until(lambda: 'reason="unreachable",resource="configmaps"' in served.metrics())
        assert served.image("default") == "proxy:1.24.6"
        # One that starts now has nothing to serve; it waits rather than fail.
        (tmp_path / "second").mkdir()
        with injector(tmp_path / "second", PLAIN, *of_cluster(cluster, home), ready=False) as second:
            second.until(lambda: "cannot be reached" in second.log.read_text())

            cluster.start()
            cluster.apply(*control_plane(home, "default", tag="1.24.7"))

            served.until(lambda: served.image("default") == "proxy:1.24.7")
            assert wait_until_ready(f"http://127.0.0.1:{second.ops_port}/readyz", second.process)
            assert second.image("default") == "proxy:1.24.7"
        assert served.image("default") == "proxy:1.24.7"
