"""A running istiod asked through the proxy of a real API server: what it answered to recorded pods, and what can go wrong."""

from __future__ import annotations

import base64
import json
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import Result

from injector.fleet.istiod import as_served
from injector.istio.webhooks.configurations import Endpoint, WebhookOptions, revision_webhook
from tests.cli.clusters import assert_fails, invoke
from tests.differential.injectorcases import Recording, recordings
from tests.differential.injectors import alike, ours
from tests.e2e.cluster import Cluster
from tests.e2e.conftest import Figure
from tests.e2e.served import until
from tests.factories import make_pod
from tests.istiods import Answering, Review, Slow, injecting, patching, refusing, serving
from tests.manifests import account_of, make_object, namespace_of, workload
from tests.webhook.certificates import Order, authority, issue

HOME = "istio-system"
NAME = "default"
MINOR = "1.31"
READER = "reader"
CASES = 12


def host() -> str:
    """Return an address of this machine that is not the loopback: the API server has no proxy to that one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # nothing is sent
        address: str = probe.getsockname()[0]
    return address


def recorded() -> tuple[Recording, list[tuple[dict[str, Any], dict[str, Any]]]]:
    """Return a recording of the newest release with nothing of a cluster, and its pods with the injected ones."""
    recording = max(
        (
            one
            for one in recordings()
            if one.plane.minor == MINOR
            and not (one.plane.nodes or one.plane.namespaces or one.plane.proxy_configs or one.plane.name)
        ),
        key=lambda one: len(one.answers),
    )
    pairs = [
        (case.pod, answer["pod"])
        for case, answer in recording.answers
        if "pod" in answer and case.path == "/inject" and alike(answer, ours(recording.plane, case))
    ]
    return recording, pairs[:CASES]


def key(pod: dict[str, Any]) -> str:
    """Return a pod as a text, without its namespace."""
    metadata = {name: value for name, value in pod["metadata"].items() if name != "namespace"}
    return json.dumps(as_served({"metadata": metadata, "spec": pod["spec"]}), sort_keys=True)


def answering(pairs: list[tuple[dict[str, Any], dict[str, Any]]]) -> Answering:
    """Return what answers with the recorded pods."""
    injected = {key(pod): answer for pod, answer in pairs}

    def answers(_path: str, review: Review) -> bytes:
        after = injected[key(review["request"]["object"])]
        metadata = {**after["metadata"], "namespace": review["request"]["namespace"]}
        operations = [("metadata", metadata), ("spec", after["spec"])]
        return patching(review, [{"op": "replace", "path": f"/{name}", "value": value} for name, value in operations])

    return answers


@dataclass
class Istiod:
    """An istiod in the cluster, what it answers, and the files of the pods that it is asked about."""

    cluster: Cluster
    folder: Path
    answers: Answering
    received: list[tuple[str, Review]]

    def answer(self, path: str, review: Review) -> bytes:
        return self.answers(path, review)

    def diff(self, *arguments: str, pod: int = 0, account: str = "") -> Result:
        kubeconfig = self.cluster.kubeconfig_of(account, HOME) if account else self.cluster.kubeconfig
        source = ("--revisions-dir", str(self.folder / "revisions"), "-f", str(self.folder / f"{pod}.yaml"))
        flags = ("-n", "shop", "--guard", "off", "--kubeconfig", str(kubeconfig))
        return invoke("diff", f"istiod/{NAME}", NAME, *source, *flags, *arguments)


@pytest.fixture
def istiod(cluster: Cluster, tmp_path: Path) -> Iterator[Istiod]:
    """An istiod of the recording, behind a Service without a selector."""
    recording, pairs = recorded()
    folder = tmp_path / "revisions" / NAME
    folder.mkdir(parents=True)
    for name in ("config", "values", "mesh"):
        (folder / name).write_text(getattr(recording.plane, name))
    settings = {"istioVersion": MINOR, "env": dict(recording.plane.env)}
    (folder / "revision.yaml").write_text(yaml.safe_dump(settings))
    for number, (pod, _) in enumerate(pairs):
        (tmp_path / f"{number}.yaml").write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Pod", **pod}))
    certificate = issue(Order(names=("istiod.istio-system.svc",)), authority()).write(tmp_path)
    istiod = Istiod(cluster, tmp_path, answering(pairs), [])
    with serving(istiod.answer, certificate, host=host()) as (url, received):
        istiod.received = received
        port = int(url.rpartition(":")[2])
        ports = [{"name": "https-webhook", "port": 443, "targetPort": port, "protocol": "TCP"}]
        # The proxy reaches only endpoints that are pods with this address.
        pod = {"ip": host(), "targetRef": {"kind": "Pod", "name": "istiod-x", "namespace": HOME}}
        subsets = [{"addresses": [pod], "ports": [{"name": "https-webhook", "port": port}]}]
        webhook = revision_webhook(NAME, WebhookOptions(Endpoint("istiod", HOME)))
        for entry in webhook["webhooks"]:
            entry["clientConfig"]["service"]["path"] = "/inject"
        cluster.apply(
            namespace_of(HOME),
            account_of(HOME),
            make_object("Service", "istiod", HOME, spec={"ports": ports}),
            make_object("Endpoints", "istiod", HOME, subsets=subsets),
            webhook,
        )
        spec = {**make_pod()["spec"], "automountServiceAccountToken": False}
        cluster.apply(make_object("Pod", "istiod-x", HOME, spec=spec))
        address = {"status": {"podIP": host(), "podIPs": [{"ip": host()}]}}
        cluster.merge(f"/api/v1/namespaces/{HOME}/pods/istiod-x/status", address)
        yield istiod


def test_recorded_answers_of_istio_are_ours_too(istiod: Istiod, figure: Figure) -> None:
    _, pairs = recorded()

    results = [istiod.diff(pod=number) for number in range(len(pairs))]

    assert [(result.exit_code, result.output) for result in results if result.exit_code] == []
    assert all(
        result.stdout.startswith("no difference in 1 workload between istiod/default (Service ") for result in results
    )
    assert {path for path, _ in istiod.received} == {"/inject"}
    assert all(review["request"]["dryRun"] for _, review in istiod.received)
    figure(f"{len(pairs)} recorded answers through the proxy of the API server, none differs")


def test_a_wrong_answer_is_shown(istiod: Istiod) -> None:
    right = istiod.answers
    istiod.answers = partial(_renamed, right)

    result = istiod.diff("-o", "text")

    assert result.exit_code == 1, result.output
    assert "metadata.annotations.wrong: yes -> (none)" in result.stdout


def test_a_plan_is_proved_beside_the_istiod(istiod: Istiod) -> None:
    recording, _ = recorded()
    document = {"apiVersion": "revision-injector.dev/v1alpha1", "kind": "Upgrade", "metadata": {"name": "up"}}
    spec = {"from": NAME, "to": NAME, "waves": [{"name": "all"}]}
    (istiod.folder / "up.yaml").write_text(yaml.safe_dump({**document, "spec": spec}))
    workloads = [workload("Deployment", name, "shop") for name in ("cart", "pay")]
    istiod.cluster.apply(namespace_of("shop", {"istio.io/rev": NAME}), *workloads)
    right = injecting(recording.plane.revision)
    command = (
        "upgrade",
        "plan",
        str(istiod.folder / "up.yaml"),
        "--prove",
        "--kubeconfig",
        str(istiod.cluster.kubeconfig),
    )
    revisions = ("--revisions-dir", str(istiod.folder / "revisions"))

    istiod.answers = right
    same = invoke(*command, *revisions)
    wrong = partial(_renamed, right)
    istiod.answers = lambda path, review: (wrong if '"cart' in json.dumps(review) else right)(path, review)
    other = invoke(*command, *revisions)

    address = "Service istio-system/istiod, port 443, path /inject"
    assert (same.exit_code, f"\nbeside {address}: 2 same\n" in same.stdout) == (0, True), same.output
    lines = f"\nbeside {address}: 1 same, 1 differs\n1 differs: metadata.annotations.wrong: Deployment shop/cart\n"
    assert (other.exit_code, lines in other.stdout) == (1, True), other.output


def _renamed(right: Answering, path: str, review: Review) -> bytes:
    response = json.loads(right(path, review))["response"]
    patch = json.loads(base64.b64decode(response["patch"]))
    wrong = {"op": "add", "path": "/metadata/annotations/wrong", "value": "yes"}
    return patching(review, [*patch, wrong])


def test_a_refused_pod_has_the_message_of_istiod(istiod: Istiod) -> None:
    istiod.answers = lambda _, review: refusing(review, "no template for you")

    result = istiod.diff("-o", "text")

    assert result.exit_code == 1
    assert "refused: istiod: no template for you -> injected" in result.stdout


def test_a_slow_istiod_has_a_deadline(istiod: Istiod) -> None:
    istiod.answers = Slow(istiod.answers, 5)

    result = istiod.diff("-o", "text", "--istiod-timeout", "1")

    assert result.exit_code == 1
    assert "unanswered: no answer: no answer within 1 s -> injected" in result.stdout


def test_a_dropped_connection_is_shown(istiod: Istiod) -> None:
    istiod.answers = lambda _path, _review: b""

    assert "no answer: it closes the connection without an answer -> injected" in istiod.diff("-o", "text").stdout


def test_an_account_needs_the_permission_that_the_error_names(istiod: Istiod) -> None:
    subject = {"kind": "ServiceAccount", "name": READER, "namespace": HOME}
    list_webhooks = {
        "apiGroups": ["admissionregistration.k8s.io"],
        "resources": ["mutatingwebhookconfigurations"],
        "verbs": ["list"],
    }
    proxy = {
        "apiGroups": [""],
        "resources": ["services/proxy"],
        "resourceNames": ["https:istiod:443"],
        "verbs": ["create"],
    }
    group = "rbac.authorization.k8s.io"
    istiod.cluster.apply(
        account_of(HOME, READER),
        make_object("ClusterRole", READER, rules=[list_webhooks]),
        make_object(
            "ClusterRoleBinding",
            READER,
            roleRef={"apiGroup": group, "kind": "ClusterRole", "name": READER},
            subjects=[subject],
        ),
    )

    webhooks = {"group": "admissionregistration.k8s.io", "resource": "mutatingwebhookconfigurations"}
    until(lambda: istiod.cluster.is_allowed(f"{HOME}:{READER}", verb="list", **webhooks))
    refused = istiod.diff(account=READER)
    istiod.cluster.apply(
        make_object("Role", READER, HOME, rules=[proxy]),
        make_object(
            "RoleBinding",
            READER,
            HOME,
            roleRef={"apiGroup": group, "kind": "Role", "name": READER},
            subjects=[subject],
        ),
    )
    service = {"resource": "services", "subresource": "proxy", "name": "https:istiod:443", "namespace": HOME}
    until(lambda: istiod.cluster.is_allowed(f"{HOME}:{READER}", verb="create", **service))
    permitted = istiod.diff(account=READER)

    assert (permitted.exit_code, permitted.stderr) == (0, "")
    permission = (
        "the verb `create` on the resource `services/proxy`, name `https:istiod:443`, in namespace istio-system"
    )
    assert_fails(refused, 1, f"grant the account {permission}")
