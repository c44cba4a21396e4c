"""The last good revision of a replica, asked through the proxy of a real API server."""

from __future__ import annotations

from pathlib import Path

from injector.fleet.replicas import OPS_PORT
from tests.cli.clusters import invoke, revision, tag
from tests.e2e.cluster import Cluster
from tests.e2e.served import Injector, injector, of_cluster
from tests.e2e.test_diff_istiod import host
from tests.factories import make_pod
from tests.manifests import account_of, make_object, namespace_of

ISTIO = "istio-system"
HOME = "injector-system"
NAME = "1-30"
REPLICA = "injector-a"
BROKEN = "templates: {sidecar: '{{ .x'}"
READER = "reader"
RULES = [
    {"apiGroups": [""], "resources": ["configmaps", "namespaces", "pods", "services"], "verbs": ["get", "list"]},
    {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["get", "list"]},
    {
        "apiGroups": ["admissionregistration.k8s.io"],
        "resources": ["mutatingwebhookconfigurations"],
        "verbs": ["get", "list"],
    },
]


def publish(cluster: Cluster, served: Injector) -> None:
    """Make the process a pod of the cluster, behind the Service of the injector."""
    spec = {**make_pod()["spec"], "automountServiceAccountToken": False}
    spec["containers"][0]["ports"] = [{"name": OPS_PORT, "containerPort": served.ops_port}]
    cluster.apply(account_of(HOME), make_object("Pod", REPLICA, HOME, spec=spec))
    cluster.merge(
        f"/api/v1/namespaces/{HOME}/pods/{REPLICA}/status", {"status": {"podIP": host(), "podIPs": [{"ip": host()}]}}
    )
    metadata = {"name": "x", "namespace": HOME, "labels": {"kubernetes.io/service-name": "injector"}}
    endpoint = {"addresses": [host()], "targetRef": {"kind": "Pod", "name": REPLICA, "namespace": HOME}}
    slices = {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": metadata}
    cluster.apply({**slices, "addressType": "IPv4", "endpoints": [endpoint], "ports": []})


def warning(cluster: Cluster, kubeconfig: Path | None = None) -> str:
    """Return what the list of tags says of a revision that cannot be used."""
    listed = invoke("tag", "list", "--kubeconfig", str(kubeconfig or cluster.kubeconfig))
    assert listed.exit_code == 0, listed.output
    return next((line for line in listed.stderr.splitlines() if "cannot be used" in line), "")


def test_the_last_good_revision_of_a_replica_is_read_through_the_api_server(cluster: Cluster, tmp_path: Path) -> None:
    cluster.apply(namespace_of(ISTIO), namespace_of(HOME), account_of(HOME), account_of(HOME, READER))
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": READER}}
    subject = {"kind": "ServiceAccount", "name": READER, "namespace": HOME}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": READER}
    cluster.apply({**role, "kind": "ClusterRole", "rules": RULES})
    cluster.apply({**role, "kind": "ClusterRoleBinding", "roleRef": reference, "subjects": [subject]})
    cluster.apply(*revision(NAME, "1.30.1"), tag("prod", NAME))
    flags = ("--insecure-http", *of_cluster(cluster, ISTIO))
    with injector(tmp_path, *flags, bind=host()) as served:
        publish(cluster, served)
        assert warning(cluster) == ""

        cluster.apply(*revision(NAME, "1.30.1", config=BROKEN))
        served.until(lambda: served.error(NAME) != "")
        (row,) = [row for row in served.status()["revisions"] if row["name"] == NAME]

        assert row["served"]
        last_good = f"the replicas serve the last good revision {NAME}, Istio 1.30, fingerprint {row['fingerprint']}"
        assert warning(cluster).endswith(last_good)
        refused = warning(cluster, cluster.kubeconfig_of(READER, HOME))
        assert "what the replicas serve is not known: " in refused
        assert "pods/proxy" in refused

    gone = warning(cluster)
    assert "what the replicas serve is not known: " in gone
    assert "last good" not in gone
