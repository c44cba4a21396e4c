"""Names that nobody serves, in a real API server: counted, shown, warned of and refused, until somebody serves them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.deploy import rendering
from tests.e2e.cluster import Cluster
from tests.e2e.conftest import AUDIT_LOG, AUDITED
from tests.e2e.served import Certificate, Injector, injector, of_cluster, until
from tests.e2e.webhooks import written
from tests.factories import make_pod
from tests.manifests import account_of, control_plane, namespace_of, tag_of
from tests.revisions.fakes import write_revision

NAMED = {"istio.io/rev": "prdo"}
"""The label of whoever meant `prod`."""


@pytest.fixture(scope="module")
def net(cluster: Cluster) -> Cluster:
    """An API server whose namespaces `shop`, which names `prdo`, and `plain`, which names nothing, can hold pods."""
    cluster.apply(namespace_of("istio-system"), namespace_of("injector-system"))
    for name, labels in (("shop", NAMED), (AUDITED, {})):
        cluster.apply(namespace_of(name, labels), account_of(name))
    cluster.apply(*control_plane("istio-system", "default", tag="1.28.1"))
    return cluster


def counted(served: Injector) -> tuple[str, ...]:
    """The series of what names something that nobody serves."""
    lines = served.metrics().splitlines()
    return tuple(line for line in lines if line.startswith("injector_unserved_names{"))


def unserved(served: Injector) -> dict[str, Any]:
    """What /status.json says of it."""
    summary: dict[str, Any] = served.status()["unserved"]
    return summary


def gauges(namespaces: int, pods: int) -> tuple[str, ...]:
    return (
        f'injector_unserved_names{{kind="namespace"}} {namespaces}.0',
        f'injector_unserved_names{{kind="pod"}} {pods}.0',
    )


def pod_of(name: str, namespace: str, labels: dict[str, str] | None = None) -> dict[str, Any]:
    return make_pod(name, namespace=namespace, labels=labels)


@pytest.mark.usefixtures("helm")
def test_an_unserved_name_is_counted_while_no_tag_has_it(net: Cluster, tmp_path: Path) -> None:
    values = {"fromCluster": {"enabled": True}, "watchUnserved": True, "tls": {"mode": "files"}}
    net.apply(*rendering.permissions(values))
    net.apply(pod_of("lost", "plain", NAMED), pod_of("led-by-its-namespace", "shop", {"istio.io/rev": "other"}))
    account = net.kubeconfig_of("injector", "injector-system")
    until(lambda: net.is_allowed("injector-system:injector", verb="list", resource="pods"))

    flags = of_cluster(net, "istio-system", kubeconfig=account)
    with injector(tmp_path, "--insecure-http", "--watch-unserved", *flags) as served:
        served.until(lambda: counted(served) == gauges(1, 1))
        assert unserved(served)["names"] == {"prdo": {"namespaces": 1, "pods": 1}}
        assert "<code>prdo</code>" in served.text("/status")

        net.apply(tag_of("prdo", "default"))
        served.until(lambda: counted(served) == gauges(0, 0))
        nothing = {"counted": True, "namespaces": 0, "pods": 0, "names": {}, "more": 0, "podsAtLeast": False}
        assert unserved(served) == nothing

        net.delete("mutatingwebhookconfiguration", "istio-revision-tag-prdo")
        served.until(lambda: counted(served) == gauges(1, 1))

        net.delete("pod", "lost", "plain")
        served.until(lambda: counted(served) == gauges(1, 0))
        assert "injector_watch_faults_total{" not in served.metrics()


def test_kubectl_shows_the_warning_or_refusal_until_the_name_is_served(
    net: Cluster, trusted: Certificate, tmp_path: Path
) -> None:
    with injector(tmp_path, *trusted.flags, *of_cluster(net, "istio-system"), "--watch-unserved") as served:
        served.until(lambda: "shop" not in str(unserved(served)) and unserved(served)["namespaces"] == 1)

        net.apply(*written("webhook", "--unserved", "warn", port=served.port, trusted=trusted))
        # The API server takes a moment to follow its webhooks; a pod that it called nobody for is created in silence.
        served.until(lambda: 'kind="namespace",outcome="warned"' in attempted(net, served, "shop"))
        allowed, said = net.create(pod_of("warned", "shop"))
        assert allowed, said
        assert "Warning: no sidecar: istio.io/rev='prdo' of namespace shop is not a served revision or tag" in said
        assert "served: default" in said
        assert "of the pod is not a served revision or tag" in net.create(pod_of("warned", "plain", NAMED))[1]
        assert "Warning" not in net.create(pod_of("asks-for-nothing", "plain"))[1]
        assert "Warning" not in net.create(pod_of("served", "plain", {"istio.io/rev": "default"}))[1]

        net.apply(*written("webhook", "--unserved", "deny", port=served.port, trusted=trusted))
        served.until(lambda: 'kind="namespace",outcome="denied"' in attempted(net, served, "shop"))
        allowed, said = net.create(pod_of("refused", "shop"))
        assert not allowed
        assert "denied the request: no sidecar: istio.io/rev='prdo' of namespace shop is not a served" in said

        net.apply(tag_of("prdo", "default"))
        served.until(lambda: unserved(served)["namespaces"] == 0)
        allowed, said = net.create(pod_of("served-now", "shop"))
        assert allowed, said
        assert "Warning" not in said

    allowed, said = net.create(pod_of("while-it-is-away", "shop"))
    assert allowed, said
    net.delete("mutatingwebhookconfiguration", "istio-revision-tag-prdo")
    net.delete("mutatingwebhookconfiguration", "injector-unserved")


def attempted(cluster: Cluster, served: Injector, namespace: str) -> str:
    """The metrics after one more pod was tried, and not kept."""
    cluster.create({**pod_of("", namespace), "metadata": {"generateName": "try-", "namespace": namespace}})
    return served.metrics()


def audited(cluster: Cluster, webhook: str) -> dict[str, str]:
    """What the audit log has last of what a webhook said."""
    events = [json.loads(line) for line in (cluster.home / AUDIT_LOG).read_text().splitlines()]
    notes = (event.get("annotations", {}) for event in events)
    noted = [{key: value for key, value in note.items() if key.startswith(f"{webhook}/")} for note in notes]
    return [note for note in noted if note][-1]


def test_a_folder_of_revisions_is_enough_to_know_what_is_served(net: Cluster, tmp_path: Path) -> None:
    folder = tmp_path / "revisions"
    write_revision(folder / "1-28")

    flags = ("--insecure-http", "--kubeconfig", str(net.kubeconfig), "--revisions-dir", str(folder))
    with injector(tmp_path, *flags, "--watch-unserved") as served:
        served.until(lambda: unserved(served)["counted"] and "prdo" in unserved(served)["names"])

        (folder / "tags.yaml").write_text("prdo: 1-28\n")
        served.until(lambda: "prdo" not in unserved(served)["names"])


def test_kubectl_and_the_audit_log_show_which_revision_injected_a_pod(
    net: Cluster, trusted: Certificate, tmp_path: Path
) -> None:
    with injector(tmp_path, *trusted.flags, *of_cluster(net, "istio-system"), "--explain", "both") as served:
        net.apply(*written("webhook", "--revision", "default", port=served.port, trusted=trusted))
        labels = {"sidecar.istio.io/inject": "true"}
        said: list[str] = []

        def injected() -> bool:
            pod = {**pod_of("", "plain"), "metadata": {"generateName": "a-", "namespace": "plain", "labels": labels}}
            allowed, text = net.create(pod)
            said.append(text)
            return allowed and "Warning" in text

        served.until(injected)
        assert "Warning: injected by revision default" in said[-1]
        webhook = "object.sidecar-injector.istio.io"
        assert audited(net, webhook) == {
            f"{webhook}/decision": "injected",
            f"{webhook}/revision": "default",
            f"{webhook}/templates": "sidecar",
        }
        host = {**pod_of("host", "plain", labels)}
        host["spec"]["hostNetwork"] = True
        assert "Warning: not injected by revision default: it uses the host's network" in net.create(host)[1]
    net.delete("mutatingwebhookconfiguration", "istio-sidecar-injector")
