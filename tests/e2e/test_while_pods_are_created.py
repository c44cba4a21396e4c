"""Tags and revisions of a cluster change while pods keep being created: no pod fails, and none misses its sidecar."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from injector.istio.labels import DEFAULT_NAME
from injector.istio.webhooks.configurations import Endpoint, WebhookOptions, revision_webhook
from tests.e2e.cluster import Cluster
from tests.e2e.conftest import Figure
from tests.e2e.load import Load, Pod, created_meanwhile, sidecar
from tests.e2e.served import Certificate, Injector, injector, of_cluster, run
from tests.factories import make_pod
from tests.manifests import account_of, control_plane, namespace_of
from tests.revisions.fakes import CONFIG

HOME = "istio-system"
OLD, NEW, TAG = "1-24", "1-30", "prod"
IMAGES = {OLD: "proxy:1.24.6", NEW: "proxy:1.30.3"}
BUSY, USUAL, QUIET = "busy", "usual", "quiet"
"""A namespace that names the tag, one with ``istio-injection=enabled``, and one that names the tag and has no pods of a load."""
WORKLOADS = 12
"""So many workloads in each of the first two, and so many pods a second."""
KIND = "mutatingwebhookconfiguration"
TAG_OBJECT = f"istio-revision-tag-{TAG}"


@dataclass
class Site:
    """A cluster with two revisions and two tags, an injector that serves it, and pods that keep being created in two namespaces."""

    cluster: Cluster
    served: Injector
    loads: tuple[Load, ...]
    endpoint: tuple[str, ...]

    def run(self, *arguments: str) -> Result:
        """Run a command on the cluster."""
        return run(self.cluster, *arguments)

    def done(self, *arguments: str) -> str:
        """Run a command that must succeed; return its output."""
        result = self.run(*arguments)
        assert result.exit_code == 0, result.output
        return str(result.stdout)

    def tag(self, *arguments: str, tag: str = TAG) -> float:
        """Set a tag; return the seconds until that is served."""
        before = self.served.tag(tag)
        self.done("tag", "set", tag, *arguments, "--overwrite")
        return self.served.until(lambda: self.served.tag(tag) != before)

    def pods(self, load: int = 0) -> list[Pod]:
        """Return pods of every workload that are created from now on."""
        return self.loads[load].from_every_workload()

    def images(self, load: int = 0) -> set[str]:
        return {pod.image for pod in self.pods(load)}

    def faults(self) -> str:
        return "\n".join(self.served.status()["webhookErrors"])

    @contextmanager
    def losing_nothing(self) -> Iterator[None]:
        """Hold that no pod fails or misses its sidecar while the block runs and shortly after."""
        begun = time.monotonic()
        yield
        for load in self.loads:
            load.from_every_workload()
            pods = load.since(begun)
            assert [pod.failure for pod in pods if pod.failure] == []
            assert "" not in {pod.image for pod in pods}


@pytest.fixture(scope="module")
def site(cluster: Cluster, trusted: Certificate, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    cluster.apply(*(namespace_of(name) for name in (HOME, BUSY, USUAL, QUIET)))
    cluster.apply(*(account_of(name) for name in (BUSY, USUAL, QUIET)))
    for revision in (OLD, NEW):
        cluster.apply(*control_plane(HOME, revision, tag=IMAGES[revision].partition(":")[2]))
    flags = (*trusted.flags, *of_cluster(cluster, HOME), "--keep-removed", "3s")
    with injector(tmp_path_factory.mktemp("served"), *flags, ready=False) as served:
        url = f"https://127.0.0.1:{served.port}"
        endpoint = ("--url", url, "--ca-bundle", str(trusted.authority), "--timeout", "30s")
        loads = tuple(Load(cluster, name, workloads=WORKLOADS, rate=WORKLOADS) for name in (BUSY, USUAL))
        site = Site(cluster, served, loads, endpoint)
        for revision in (OLD, NEW):
            site.done("webhook", "apply", "--revision", revision, *endpoint)
        for tag in (TAG, DEFAULT_NAME):
            site.done("tag", "set", tag, "--revision", OLD)
        cluster.apply(*(namespace_of(name, {"istio.io/rev": TAG}) for name in (BUSY, QUIET)))
        cluster.apply(namespace_of(USUAL, {"istio-injection": "enabled"}))
        served.until(lambda: served.readiness() == "ok")
        served.until(lambda: all(calls(cluster, name) for name in (BUSY, USUAL)))
        with created_meanwhile(loads[0]), created_meanwhile(loads[1]):
            yield site


@pytest.fixture(autouse=True)
def tag_of_the_old_revision(site: Site) -> None:
    """Each test begins with both tags at the old revision, without weights."""
    for tag in (TAG, DEFAULT_NAME):
        if site.served.tag(tag)["weights"] != {OLD: 1}:
            site.tag("--revision", OLD, "--no-namespace-weights", tag=tag)


def test_a_weighted_tag_serves_through_changes_and_a_deleted_revision(site: Site) -> None:
    maps = control_plane(HOME, NEW, tag="1.30.3")
    with site.losing_nothing():
        site.tag("--revision", OLD, "--weight", f"{NEW}=50")
        before = {pod.workload: pod.image for pod in site.pods()}
        assert set(before.values()) == set(IMAGES.values())

        for item in maps:
            assert site.cluster.kubectl("replace", "--force", "-f", "-", stdin=item).returncode == 0
        assert {pod.workload: pod.image for pod in site.pods()} == before

        for item in maps:
            site.cluster.delete("configmap", item["metadata"]["name"], HOME)
        site.served.until(lambda: site.served.total("injector_revision_removed", revision=NEW) == 1)
        assert "which was removed" in "".join(site.served.status()["tagErrors"])
        site.served.until(lambda: NEW not in {row["name"] for row in site.served.status()["revisions"]})
        assert site.images() == {IMAGES[OLD]}

        site.cluster.apply(*maps)
        site.served.until(lambda: NEW in {row["name"] for row in site.served.status()["revisions"]})


def test_every_object_of_a_tag_moves_and_a_dry_run_moves_none(site: Site, figure: Figure) -> None:
    with site.losing_nothing():
        said = site.done("tag", "set", DEFAULT_NAME, "--revision", NEW, "--overwrite", "--dry-run")
        assert f"Service istiod-revision-tag-{DEFAULT_NAME} would be written\n" in said
        assert site.images(1) == {IMAGES[OLD]}

        took = [site.tag("--revision", NEW, "--shadow", OLD, tag=tag) for tag in (TAG, DEFAULT_NAME)]
        figure(f"a moved tag of a cluster was served {max(took):.2f} s after its command")
        assert site.images(0) == site.images(1) == {IMAGES[NEW]}
        rows = {line.split()[0]: line.split()[1:] for line in site.done("tag", "list").splitlines()}
        assert {name: rows[name] for name in (TAG, DEFAULT_NAME)} == {
            TAG: [NEW, f"{BUSY},{QUIET}", f"{OLD}=100"], DEFAULT_NAME: [NEW, USUAL, f"{OLD}=100"],
        }  # fmt: skip
        for tag in (TAG, DEFAULT_NAME):
            assert (
                site.cluster.get("service", f"istiod-revision-tag-{tag}", HOME)["spec"]["selector"]["istio.io/rev"]
                == NEW
            )
        validator = site.cluster.get("validatingwebhookconfiguration", "istiod-default-validator")
        assert validator["metadata"]["labels"]["istio.io/rev"] == NEW
        for tag in (TAG, DEFAULT_NAME):
            site.tag("--revision", OLD, "--no-shadow", tag=tag)


def test_a_webhook_that_is_taken_back_is_reported_until_it_is_written_again(site: Site) -> None:
    with site.losing_nothing():
        taken = site.cluster.get(KIND, TAG_OBJECT)
        del taken["metadata"]["managedFields"], taken["metadata"]["resourceVersion"]
        for webhook in taken["webhooks"]:  # to where istiod's path is, which the tag `default` serves here
            webhook["clientConfig"]["url"] = webhook["clientConfig"]["url"].removesuffix(f"/{TAG}")
        flags = ("--server-side", "--force-conflicts", "--field-manager=helm")
        assert site.cluster.kubectl("apply", *flags, "-f", "-", stdin=taken).returncode == 0
        site.served.until(lambda: "as `helm` wrote it; run `injector tag set prod" in site.faults())
        assert "as `helm` wrote it" in site.run("tag", "list").stderr
        site.pods()

        site.done("tag", "set", TAG, "--revision", OLD, "--overwrite")
        site.served.until(lambda: site.faults() == "")


def test_a_revision_is_removed_once_no_pod_has_its_sidecar(site: Site) -> None:
    with site.losing_nothing():
        for tag in (TAG, DEFAULT_NAME):
            site.tag("--revision", NEW, tag=tag)
        assert site.images(0) == site.images(1) == {IMAGES[NEW]}
        refused = site.run("revision", "remove", OLD, "-y")
        assert refused.exit_code == 1
        assert f"pod {BUSY}/" in refused.stderr

        for name in (BUSY, USUAL):
            assert site.cluster.kubectl("delete", "--raw", f"/api/v1/namespaces/{name}/pods").returncode == 0
        assert site.done("revision", "remove", OLD, "-y") == f"Revision {OLD} removed\n"
        assert site.images(0) == site.images(1) == {IMAGES[NEW]}
        site.done("webhook", "apply", "--revision", OLD, *site.endpoint)


def test_a_webhook_without_a_bundle_is_reported_and_disturbs_no_other(site: Site) -> None:
    fresh = revision_webhook("fresh", WebhookOptions(Endpoint("istiod-fresh", HOME)))
    for webhook in fresh["webhooks"]:
        webhook["clientConfig"]["service"]["path"] = "/inject"  # as Istio's chart renders it
    with site.losing_nothing():
        site.cluster.apply(fresh)
        site.served.until(lambda: "INJECTION_WEBHOOK_CONFIG_NAME is empty" in site.faults())
        site.pods()
        site.cluster.delete(KIND, fresh["metadata"]["name"])
        site.served.until(lambda: site.faults() == "")


def test_a_namespace_has_its_own_weights_and_a_pod_its_pin(site: Site) -> None:
    pinned = make_pod("pinned", namespace=QUIET, annotations={"revision-injector/pin": OLD})
    with site.losing_nothing():
        site.tag("--weight", f"{OLD}=0", "--weight", f"{NEW}=100", "--namespace-weight", f"{BUSY}/{OLD}")
        assert site.images() == {IMAGES[OLD]}
        assert image_of(site.cluster.tried(make_pod("free", namespace=QUIET))) == IMAGES[NEW]
        assert image_of(site.cluster.tried(pinned)) == IMAGES[OLD]

        site.tag("--weight", f"{OLD}=0", "--weight", f"{NEW}=100", "--no-namespace-weights")
        assert site.images() == {IMAGES[NEW]}


def test_the_label_of_a_pod_counts_before_that_of_its_namespace_if_asked_to(site: Site) -> None:
    labelled = make_pod("labelled", namespace=QUIET, labels={"istio.io/rev": NEW})

    def precedence(wanted: str) -> None:
        flags = ("--revision-label-precedence", wanted)
        for revision in (OLD, NEW):
            site.done("webhook", "apply", "--revision", revision, *flags, *site.endpoint)
        for tag in (TAG, DEFAULT_NAME):
            site.done("tag", "set", tag, "--revision", OLD, "--overwrite", "-y", *flags)

    with site.losing_nothing():
        assert image_of(site.cluster.tried(labelled)) == IMAGES[OLD]
        precedence("pod")
        site.served.until(lambda: image_of(site.cluster.tried(labelled)) == IMAGES[NEW])
        assert site.images() == {IMAGES[OLD]}
        precedence("namespace")
        site.served.until(lambda: image_of(site.cluster.tried(labelled)) == IMAGES[OLD])


def test_a_replica_without_permissions_is_not_ready_and_says_why(site: Site, tmp_path: Path) -> None:
    site.cluster.apply(account_of(HOME, "nobody"))
    flags = of_cluster(site.cluster, HOME, kubeconfig=site.cluster.kubeconfig_of("nobody", HOME))
    with site.losing_nothing(), injector(tmp_path, "--insecure-http", *flags, ready=False) as second:
        second.until(lambda: "forbidden" in second.readiness())
        site.pods()
        assert 'cannot list resource "configmaps"' in second.readiness()


def test_workloads_are_compared_and_their_status_is_shown(site: Site) -> None:
    with site.losing_nothing():
        site.pods(), site.pods(1)
        compared = json.loads(site.done("diff", OLD, NEW, "--live", "--exit-code=false", "-o", "json"))
        rows = json.loads(site.done("revision", "status", "-n", BUSY, "--exit-code=false", "-o", "json"))

    names = {(BUSY, f"w{number}") for number in range(WORKLOADS)} | {
        (USUAL, f"w{number}") for number in range(WORKLOADS)
    }
    assert {(workload["namespace"], workload["name"]) for workload in compared["workloads"]} >= names
    assert {row["name"] for row in rows["workloads"]} >= {f"w{number}" for number in range(WORKLOADS)}


def test_only_a_pod_that_its_injection_makes_invalid_is_denied(site: Site) -> None:
    config = CONFIG.replace("name: istio-proxy", 'name: "{{ .ObjectMeta.Labels.app }}"')
    site.cluster.apply(namespace_of("odd", {"istio.io/rev": "odd"}), account_of("odd"))
    with site.losing_nothing():
        site.cluster.apply(*control_plane(HOME, "odd", tag="1.30.3", config=config))
        site.served.until(lambda: "odd" in {row["name"] for row in site.served.status()["revisions"] if row["served"]})
        site.done("webhook", "apply", "--revision", "odd", *site.endpoint)
        denied = "denied the request: spec.containers[App].name: Invalid value"
        site.served.until(
            lambda: denied in site.cluster.refusal(make_pod("a", namespace="odd", labels={"app": "App"}), "odd")
        )
        site.pods()
        site.cluster.delete(KIND, "istio-sidecar-injector-odd")


def calls(cluster: Cluster, namespace: str) -> bool:
    """Tell whether the API server calls the injector for the pods of a namespace already."""
    return bool(sidecar(cluster.tried(make_pod("a", namespace=namespace)))[1])


def image_of(pod: dict[str, Any]) -> str:
    """Return the image of a pod's proxy."""
    return sidecar(pod)[1]
