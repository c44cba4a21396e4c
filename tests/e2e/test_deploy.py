"""A real API server takes what deploy/ holds: every object, the pod under Pod Security `restricted`, the permissions, the webhooks."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from injector.istio.webhooks.configurations import WebhookOptions, tag_webhook
from injector.istio.webhooks.tagobjects import tag_service
from tests.cases import cases
from tests.deploy import rendering
from tests.deploy.rendering import BASES, NAMESPACE, Object, base, of_kind, one, pod_spec
from tests.e2e.cluster import Cluster
from tests.e2e.served import until
from tests.e2e.webhooks import wait_for_webhooks
from tests.factories import make_pod
from tests.manifests import account_of, namespace_of

NAMES = sorted(folder.name for folder in BASES.iterdir() if folder.is_dir())
FOREIGN = ("cert-manager.io/", "monitoring.coreos.com/")
"""Kinds that only a cluster with cert-manager or the Prometheus Operator knows."""
EVERYTHING: Object = {
    "revisions": {"1-24": {"configMap": "one", "meshConfigMap": "two", "settings": {"istioVersion": "1.24"}}},
    "tags": {"default": "1-24"},
    "fromCluster": {"enabled": True, "namespaces": True},
    "networkPolicy": {"enabled": True},
    "apiServerClient": {"configMap": "ca", "names": ["kube-apiserver"]},
    "monitoring": {"dashboards": {"enabled": True}},
    "nodeSelector": {"kubernetes.io/os": "linux"},
    "tolerations": [{"key": "a", "operator": "Exists"}],
}

KIND = "mutatingwebhookconfiguration"


@pytest.fixture(scope="module")
def cluster(cluster: Cluster) -> Cluster:
    """An API server with the namespaces that deploy/ speaks of; the injector's own demands the restricted standard."""
    cluster.apply(one(base("default"), "Namespace"), namespace_of("istio-system"), account_of(NAMESPACE))
    return cluster


def known(objects: list[Object]) -> list[Object]:
    return [item for item in objects if not item["apiVersion"].startswith(FOREIGN)]


def taken(cluster: Cluster, objects: list[Object]) -> None:
    """Hold the API server's answer: it would take them all, and has no warning.

    Raises:
        AssertionError: it refuses one, or warns.
    """
    listed = {"apiVersion": "v1", "kind": "List", "items": known(objects)}
    done = cluster.kubectl("apply", "--server-side", "--force-conflicts", "--dry-run=server", "-f", "-", stdin=listed)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert len(done.stdout.splitlines()) == len(known(objects))


@pytest.mark.parametrize("name", NAMES)
def test_every_object_of_a_base_is_taken(cluster: Cluster, name: str) -> None:
    taken(cluster, base(name))


@pytest.mark.usefixtures("helm")
def test_every_object_of_the_chart_with_everything_on_is_taken(cluster: Cluster) -> None:
    for mode in ("self-signed", "files", "cert-manager"):
        taken(cluster, rendering.rendered({**EVERYTHING, "tls": {"mode": mode}}))


def pod_of(objects: list[Object]) -> Object:
    """The pod that the Deployment makes."""
    template = one(objects, "Deployment")["spec"]["template"]
    metadata = {"name": "tried", "namespace": NAMESPACE, "labels": template["metadata"]["labels"]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": copy.deepcopy(template["spec"])}


@pytest.mark.parametrize("name", NAMES)
def test_the_pod_of_a_base_is_created_under_the_restricted_standard(cluster: Cluster, name: str) -> None:
    cluster.apply(one(base(name), "ServiceAccount"))

    done = cluster.kubectl("create", "-f", "-", stdin=pod_of(base(name)))

    assert (done.returncode, done.stderr) == (0, "")
    cluster.delete("pod", "tried", NAMESPACE)


@pytest.mark.usefixtures("helm")
def test_the_pod_of_helm_test_is_created_under_the_restricted_standard(cluster: Cluster) -> None:
    done = cluster.kubectl("create", "-f", "-", stdin=one(rendering.rendered({"demo": {"enabled": True}}), "Pod"))

    assert (done.returncode, done.stderr) == (0, "")


@cases("name", "may", "may_not")
def test_the_account_of_a_base_may_do_what_it_does_and_no_more(
    cluster: Cluster, name: str, may: list[str], may_not: list[str]
) -> None:
    granted = [item for item in base(name) if item["kind"] == "ServiceAccount" or "Role" in item["kind"]]
    account = f"{NAMESPACE}:{pod_spec(base(name))['serviceAccountName']}"
    cluster.apply(*granted)

    until(lambda: all(is_allowed(cluster, account, permission) for permission in may))
    too_many = [permission for permission in may_not if is_allowed(cluster, account, permission)]

    for item in granted:
        cluster.delete(item["kind"], item["metadata"]["name"], item["metadata"].get("namespace", "default"))
    assert too_many == []


def is_allowed(cluster: Cluster, account: str, permission: str) -> bool:
    """Whether an account has a permission, which is written as for ``kubectl auth can-i``."""
    verb, place, _, namespace = (*permission.split(), "", "")[:4]
    resource, _, name = place.partition("/")
    group = "admissionregistration.k8s.io" if resource.endswith("webhookconfigurations") else ""
    return cluster.is_allowed(account, verb=verb, resource=resource, group=group, name=name, namespace=namespace)


def test_upgrades_of_a_named_tag_may_create_its_objects_again_and_no_others(cluster: Cluster) -> None:
    home, account = "istio-system", f"system:serviceaccount:{NAMESPACE}:injector"
    objects = rendering.rendered({"upgrades": {"enabled": True, "namespaces": ["shop"], "tags": ["prod"]}})
    granted = [item for item in objects if "Role" in item["kind"]]
    cluster.apply(namespace_of(home), namespace_of("shop"), *granted)

    def refusal(manifest: Object) -> str:
        done = cluster.kubectl("apply", "--server-side", "--as", account, "-f", "-", stdin=manifest)
        return done.stderr.strip()

    until(lambda: not refusal(tag_webhook("prod", "1-30", WebhookOptions())))
    until(lambda: not refusal(tag_service("prod", "1-30", home)))
    answers = {
        (tag, manifest["kind"]): refusal(manifest)
        for tag in ("prod", "other")
        for manifest in (tag_webhook(tag, "1-30", WebhookOptions()), tag_service(tag, "1-30", home))
    }

    for item in granted:
        cluster.delete(item["kind"], item["metadata"]["name"], item["metadata"].get("namespace", "default"))
    assert {tag for (tag, _), refused in answers.items() if not refused} == {"prod"}
    assert sum("cannot patch resource" in refused for refused in answers.values()) == len(answers) // 2


def asking(namespace: str, **annotations: str) -> Object:
    """A pod that nobody but the webhook holds up."""
    pod: dict[str, Any] = {**make_pod(), "apiVersion": "v1", "kind": "Pod"}
    pod["metadata"] = {"name": "asking", "namespace": namespace, "labels": {"app": "a"}, "annotations": annotations}
    pod["spec"] = {"containers": [{"name": "app", "image": "app"}], "automountServiceAccountToken": False}
    return pod


def test_an_injector_that_is_down_holds_up_no_pod_that_must_start_without(cluster: Cluster) -> None:
    objects = base("demo")
    label = {"istio.io/rev": "stable"}
    cluster.apply(
        namespace_of("asks", label),
        namespace_of("silent"),
        namespace_of("kube-system", label),
        namespace_of("kube-node-lease", label),
        namespace_of(NAMESPACE, label),
        one(objects, "Service"),
        *of_kind(objects, "MutatingWebhookConfiguration"),
    )
    cluster.apply(*(account_of(name) for name in ("asks", "silent", "kube-system", "kube-node-lease")))

    def created(pod: Object) -> str:
        return cluster.kubectl("create", "--dry-run=server", "-f", "-", stdin=pod).stderr

    wait_for_webhooks(cluster)
    try:
        assert "failed calling webhook" in created(asking("asks"))
        assert created(asking("silent")) == ""
        assert created(asking("kube-system")) == ""
        assert created(asking("kube-node-lease")) == ""
        mirror = asking("asks", **{"kubernetes.io/config.mirror": "a"})
        mirror["spec"]["nodeName"] = "a"
        assert created(mirror) == ""
        assert "failed calling webhook" not in created(asking(NAMESPACE))
        own = pod_of(objects)
        own["metadata"]["namespace"] = "asks"
        own["spec"]["serviceAccountName"] = "default"
        assert created(own) == "", "the label of the injector's own pods keeps every webhook off, wherever they are"
    finally:
        for item in of_kind(objects, "MutatingWebhookConfiguration"):
            cluster.delete(item["kind"], item["metadata"]["name"])


@pytest.mark.usefixtures("helm")
def test_a_release_is_installed_upgraded_with_its_patches_kept_and_removed(cluster: Cluster) -> None:
    name = "demo-canary"
    at = (f"--kubeconfig={cluster.kubeconfig}", "--namespace=released")
    cluster.apply(namespace_of("released"))

    def helm(*arguments: str) -> str:
        done = rendering.helm(*arguments, *at)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "istio.io/rev=canary" in helm("install", "injector", str(rendering.CHART), "--set=demo.enabled=true")
    patch = [{"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": "eHg="}]
    cluster.kubectl("patch", KIND, name, "--type=json", "-p", json.dumps(patch), "--field-manager=injector-ca-bundle")
    helm("upgrade", "injector", str(rendering.CHART), "--set=timeoutSeconds=7", "--set=demo.enabled=true")

    first = json.loads(cluster.kubectl("get", KIND, name, "-o", "json").stdout)["webhooks"][0]
    assert (first["clientConfig"]["caBundle"], first["timeoutSeconds"]) == ("eHg=", 7)

    helm("uninstall", "injector")
    assert "NotFound" in cluster.kubectl("get", KIND, name).stderr, "a webhook that is left refuses every pod"
    remaining = cluster.kubectl(
        "get", "clusterroles,clusterrolebindings", "-o", "name", "-l", "app.kubernetes.io/instance=injector"
    )
    assert remaining.stdout == ""


NOTES: list[tuple[tuple[str, ...], str]] = [
    (("demo.enabled=true",), "serves the two demo revisions in its image, stable and canary"),
    (("demo.enabled=true",), "kubectl label namespace NAMESPACE istio.io/rev=canary"),
    ((), "No webhook sends pods to the injector yet. Create one for each revision and tag that Istio installed"),
    ((), "injector webhook generate --service injector --service-namespace noted"),
    (("replicas=3",), "The value `replicas` has no effect"),
    ((), "The injector has no permission to patch a caBundle. Add the names of webhooks"),
    (("webhooks[0].tag=default", "webhooks[0].revision=stable"), "NAMESPACE istio-injection=enabled"),
    (("tls.mode=files",), "The API server does not know which CA to trust. Set `tls.caBundle`"),
    (("tls.mode=files",), "when the Secret injector-tls contains tls.crt and tls.key for injector.noted.svc"),
    (("revisions.one.configMap=a", "revisions.two.configMap=b"), "The injector serves one, two."),
]


@pytest.mark.usefixtures("helm")
@pytest.mark.parametrize(("values", "said"), NOTES, ids=[said for _, said in NOTES])
def test_the_notes_say_what_is_served_and_what_is_left_to_do(
    cluster: Cluster, values: tuple[str, ...], said: str
) -> None:
    flags = [f"--set={value}" for value in values]
    at = (f"--kubeconfig={cluster.kubeconfig}", "--namespace=noted")

    done = rendering.helm("install", "injector", str(rendering.CHART), "--dry-run=client", *flags, *at)

    assert done.returncode == 0, done.stderr
    assert said in done.stdout.partition("NOTES:")[2]
