"""The tools of an upgrade on a real API server: its pods went through the webhook, with all that the API server adds to them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from injector.cli import main
from injector.istio.webhooks.configurations import Endpoint, WebhookOptions, revision_webhook, tag_webhook
from tests.architecture.serving import free_ports
from tests.e2e.cluster import Cluster
from tests.e2e.policies import admission_policy
from tests.e2e.served import ROOT, Certificate, injector, of_cluster, run, until
from tests.factories import created_by, make_container
from tests.manifests import account_of, make_object, namespace_of, revision_maps
from tests.revisions.fakes import CONFIG

HOME = "istio-system"
REV = "istio.io/rev"


@dataclass
class Live:
    """An API server whose pods are injected by this very code, with the revisions that the project ships."""

    cluster: Cluster
    webhooks: WebhookOptions

    def injector(self, *arguments: str, kubeconfig: Path | None = None) -> Result:
        """Run a command on the cluster."""
        return run(self.cluster, *arguments, kubeconfig=kubeconfig)

    def stands(self, place: str) -> tuple[int, list[dict[str, Any]]]:
        """The exit code of `revision status` on a namespace, and its rows."""
        done = self.injector("revision", "status", "-n", place, "-o", "json")
        assert done.stderr == ""
        return done.exit_code, json.loads(done.stdout)["workloads"]

    def states(self, place: str) -> dict[str, str]:
        """How the workloads of a namespace stand, by name."""
        return {row["name"]: row["state"] for row in self.stands(place)[1]}

    def tagged(self, revision: str) -> None:
        """Let the tag prod mean a revision."""
        self.cluster.apply(tag_webhook("prod", revision, self.webhooks))

    def calls(self, place: str) -> bool:
        """Whether the API server calls the webhook for pods of a namespace already."""
        return "istio-proxy" in json.dumps(self.cluster.tried(pod("trial", place)))


@pytest.fixture(scope="module")
def live(cluster: Cluster, trusted: Certificate, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A cluster with two revisions and the tag prod of the first, in which namespace shop is labelled with the tag."""
    (port,) = free_ports(1)
    options = WebhookOptions(Endpoint(url=f"https://127.0.0.1:{port}"), ca_bundle=trusted.bundle)
    live = Live(cluster, options)
    cluster.apply(namespace(HOME), *config_maps("stable"), *config_maps("canary"))
    cluster.apply(namespace("shop", **{REV: "prod"}), account_of("shop"))
    live.tagged("stable")
    with injector(tmp_path_factory.mktemp("live"), *trusted.flags, *of_cluster(cluster, HOME), port=port):
        cluster.apply(*(revision_webhook(name, options) for name in ("stable", "canary")))
        until(lambda: live.calls("shop"))
        yield live


def config_maps(revision: str, **changed: str) -> tuple[dict[str, Any], ...]:
    """A revision that the project ships, as an installation of Istio leaves one."""
    texts = {path.name: path.read_text() for path in (ROOT / "revisions" / revision).iterdir()} | changed
    return revision_maps(HOME, revision, **texts)


def namespace(name: str, **labels: str) -> dict[str, Any]:
    return namespace_of(name, labels)


def template(name: str, **labels: str) -> dict[str, Any]:
    probe = {"httpGet": {"port": "http"}}
    container = make_container(ports=[{"containerPort": 8080, "name": "http"}], readinessProbe=probe)
    return {"metadata": {"labels": {"app": name, **labels}}, "spec": {"containers": [container]}}


def pod(name: str, place: str, **labels: str) -> dict[str, Any]:
    """A pod as a Deployment's ReplicaSet makes it."""
    own = template(name, **labels, **{"pod-template-hash": "abc"})
    return created_by(
        make_object("Pod", f"{name}-x", place, own["metadata"]["labels"], spec=own["spec"]), f"{name}-abc"
    )


def deployment(name: str, place: str) -> dict[str, Any]:
    spec = {"selector": {"matchLabels": {"app": name}}, "template": template(name)}
    return make_object("Deployment", name, place, spec=spec)


def test_a_pod_is_current_until_tag_template_or_labels_say_otherwise(live: Live) -> None:
    live.cluster.apply(pod("web", "shop"), pod("quiet", "shop", **{"sidecar.istio.io/inject": "false"}))

    code, rows = live.stands("shop")
    assert code == 0
    web = {"namespace": "shop", "kind": "Deployment", "name": "web", "pods": 1}
    assert rows == [{**web, "has": "stable", "wouldGet": "stable", "state": "current"}]

    live.tagged("canary")
    assert live.states("shop") == {"web": "older revision"}

    live.tagged("stable")
    values = (ROOT / "revisions" / "stable" / "values").read_text().replace("1.24.6", "1.24.7")
    live.cluster.apply(*config_maps("stable", values=values))
    code, (row,) = live.stands("shop")
    assert (code, row["state"], row["changes"]) == (1, "older template", ["image"])

    live.cluster.apply(*config_maps("stable"), namespace("shop", **{REV: "gone"}))
    assert live.states("shop") == {"web": "unknown revision"}

    live.cluster.apply(namespace("shop"))
    assert live.states("shop") == {"web": "unexpected sidecar"}

    live.cluster.apply(namespace("shop", **{REV: "prod"}))
    assert live.states("shop") == {"web": "current"}


def test_a_pod_that_came_before_its_namespaces_label_misses_its_sidecar(live: Live) -> None:
    live.cluster.apply(namespace("early"), account_of("early"), pod("web", "early"))
    assert live.states("early") == {}

    live.cluster.apply(namespace("early", **{REV: "canary"}))

    assert live.states("early") == {"web": "missing sidecar"}


def test_workloads_are_compared_once_each_and_only_where_a_webhook_is_called(live: Live) -> None:
    live.cluster.apply(namespace("fleet", **{REV: "prod"}), account_of("fleet"), namespace("dark"), account_of("dark"))
    live.cluster.apply(deployment("web", "fleet"), deployment("idle", "fleet"), deployment("web", "dark"))
    until(lambda: live.calls("fleet"))
    live.cluster.apply(pod("web", "fleet"), pod("lone", "fleet"))

    done = live.injector("diff", "stable", "canary", "--live", "-n", "fleet", "-o", "json")
    everywhere = live.injector("diff", "stable", "canary", "--live", "--exit-code=false", "-o", "json")
    summary = live.injector("diff", "stable", "canary", "--live", "-n", "fleet")

    assert (done.exit_code, done.stderr) == (1, "")
    assert [workload["name"] for workload in json.loads(done.stdout)["workloads"]] == ["idle", "lone", "web"]
    assert everywhere.exit_code == 0
    places = {workload["namespace"] for workload in json.loads(everywhere.stdout)["workloads"]}
    assert ("fleet" in places, "dark" in places) == (True, False)
    kinds = "3 containers, image, env, volumes, metadata, other"
    assert f"{kinds}: Deployment fleet/idle, Deployment fleet/lone, Deployment fleet/web\n" in summary.stdout


def test_an_injected_pod_that_the_api_server_refuses_is_refused(live: Live) -> None:
    live.cluster.apply(namespace("checked", **{REV: "prod"}), account_of("checked"), deployment("web", "checked"))
    variable = "        env: [{name: A, valueFrom: {fieldRef: {fieldPath: metadata.nope}}}]\n"
    for name, more in (("unknown-field", variable), ("no-image", "      - {name: extra}\n")):
        config = CONFIG.replace("{{ .Values.global.tag }}", "v1")
        maps = config_maps("canary", config=config + more)
        live.cluster.apply(*(json.loads(json.dumps(item).replace("canary", name)) for item in maps))
    until(lambda: live.calls("checked"))

    checked = live.injector("diff", "stable", "unknown-field", "--live", "-n", "checked", "--exit-code=false")
    unasked = live.injector(
        "diff", "stable", "unknown-field", "--live", "-n", "checked", "--exit-code=false", "--confirm", "0"
    )
    without_image = live.injector(
        "diff", "stable", "no-image", "--live", "-n", "checked", "--exit-code=false", "--confirm", "0"
    )

    assert (checked.stderr, unasked.stderr) == ("", "")
    assert checked.stdout.startswith("1 refused: dry run: the API server refuses it (HTTP 422): Pod ")
    assert "error converting fieldPath: field label not supported" in checked.stdout
    assert "refused" not in unasked.stdout
    assert without_image.stdout.startswith(
        "1 refused: spec.containers[extra].image: Required value: the API server would"
    )


def test_files_are_injected_with_the_revision_of_the_cluster(live: Live) -> None:
    sample = str(ROOT / "docs" / "samples" / "hello.yaml")
    shipped = CliRunner().invoke(
        main, ["kube-inject", "-f", sample, "--revisions-dir", str(ROOT / "revisions"), "-r", "stable"]
    )

    by_name = live.injector("kube-inject", "-f", sample, "-r", "stable")
    by_map = live.injector(
        "kube-inject", "-f", sample, "-r", "stable", "--injectConfigMapName", "istio-sidecar-injector"
    )
    unknown = live.injector("kube-inject", "-f", sample, "-r", "nope")

    assert (by_name.exit_code, by_name.stderr, by_name.stdout) == (0, "", shipped.stdout)
    assert (by_map.exit_code, by_map.stdout) == (0, shipped.stdout)
    assert (unknown.exit_code, unknown.stdout) == (64, "")


def test_a_pod_is_explained_by_the_webhooks_that_are_there(live: Live) -> None:
    live.cluster.apply(namespace("why", **{REV: "prod"}), account_of("why"))
    until(lambda: live.calls("why"))
    live.cluster.apply(pod("web", "why"))

    done = live.injector("explain", "web-x.why")
    of_deployment = live.injector("explain", "deploy/nope", "-n", "why")

    assert done.stdout.startswith("Pod why/web-x: injected by stable (policy_enabled)\n")
    assert "  [MutatingWebhookConfiguration istio-revision-tag-prod]\n" in done.stdout
    assert "the webhook has a URL, which is not checked here" in done.stdout
    assert (done.exit_code, done.stderr) == (0, "")
    assert of_deployment.exit_code == 1
    assert "has no such object" in of_deployment.stderr


def test_a_policy_of_the_cluster_is_part_of_the_verdict(live: Live) -> None:
    live.cluster.apply(namespace("policed", **{REV: "prod"}), account_of("policed"), *admission_policy("policed"))
    live.cluster.apply(deployment("web", "policed"))
    until(lambda: live.cluster.refusal(pod("trial", "policed"), "policed"))

    explained = live.injector("explain", "deploy/web.policed")
    compared = live.injector("diff", "stable", "canary", "--live", "-n", "policed")

    denied = "ValidatingAdmissionPolicy 'no-net-admin' with binding 'no-net-admin' denied request"
    assert (explained.exit_code, compared.exit_code) == (65, 0)
    assert "Deployment policed/web: refused by stable (dry_run)\n" in explained.stdout
    assert denied in explained.stdout
    assert compared.stderr.startswith("warning: Deployment policed/web: refused by both: dry run: ")
    assert denied in compared.stderr


def test_without_a_permission_one_line_says_which(live: Live) -> None:
    live.cluster.apply(namespace("poor"), account_of("poor", "reader"))

    done = live.injector("revision", "status", kubeconfig=live.cluster.kubeconfig_of("reader", "poor"))

    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert 'cannot list resource "configmaps"' in done.stderr
    assert "grant this permission" in done.stderr
