"""Tags, webhooks and revisions of a real API server, by the commands."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from injector.cluster.client import KubeClient
from injector.cluster.kubeconfig import Kubeconfig
from injector.cluster.resources import WEBHOOKS
from injector.cluster.session import open_session
from tests.architecture.serving import free_ports
from tests.deploy import rendering
from tests.e2e.cluster import Cluster
from tests.e2e.served import command, injector, of_cluster, run, until
from tests.factories import make_pod
from tests.istio.goldens import REVISIONS, TAGS, golden, on_istios_path, service_of
from tests.manifests import account_of, control_plane, make_object, namespace_of
from tests.webhook.certificates import authority

HOME = "istio-system"
VALIDATOR = "validatingwebhookconfiguration"
DEFAULT_VALIDATOR = "istiod-default-validator"
KIND = "mutatingwebhookconfiguration"
PREFIX = f"{KIND}.admissionregistration.k8s.io"
BUNDLE = "LS0tLS1CRUdJTi4uLg=="
NEVER = {"matchLabels": {"istio.io/deactivated": "never-match"}}
SERVICE = make_object("Service", "injector", "injector-system", spec={"ports": [{"port": 443}]})


@pytest.fixture(scope="module")
def cluster(cluster: Cluster) -> Cluster:
    """An API server with two revisions and the injector's Service."""
    cluster.apply(namespace_of("istio-system"), namespace_of("injector-system"), SERVICE)
    cluster.apply(*control_plane("istio-system", "1-24", tag="1.24.6"))
    cluster.apply(*control_plane("istio-system", "1-30", tag="1.30.3"))
    return cluster


@pytest.fixture(autouse=True)
def empty(cluster: Cluster) -> Iterator[None]:
    """Each test begins with the webhooks that it makes itself."""
    yield
    for arguments in ((f"{KIND}s", "--all"), (f"services,{VALIDATOR}s", "-A", "-l", "istio.io/tag")):
        gone = cluster.kubectl("delete", *arguments)
        assert gone.returncode == 0, gone.stderr


def done(cluster: Cluster, *arguments: str) -> str:
    """What a command says that works. Most webhooks here have no caBundle, which it may warn of."""
    result = run(cluster, *arguments)
    warnings = [line for line in result.stderr.splitlines() if "without a caBundle" not in line]
    assert (result.exit_code, warnings) == (0, [])
    return str(result.stdout)


def webhooks(cluster: Cluster, name: str) -> dict[str, dict[str, Any]]:
    """The webhooks of an object by the first part of their name."""
    entries = cluster.get(KIND, name)["webhooks"]
    return {entry["name"].removesuffix(".sidecar-injector.istio.io"): entry for entry in entries}


def services(cluster: Cluster) -> dict[str, dict[str, Any]]:
    """The Services of tags with what they select, by name."""
    listed = cluster.kubectl("get", "services", "-n", HOME, "-l", "istio.io/tag", "-o", "json")
    return {service["metadata"]["name"]: service["spec"]["selector"] for service in json.loads(listed.stdout)["items"]}


def trusted(cluster: Cluster, name: str) -> None:
    """Let another manager set the caBundle of each webhook of an object, and nothing else."""
    bundles = [
        {"name": webhook["name"], "clientConfig": {"caBundle": BUNDLE}}
        for webhook in cluster.get(KIND, name)["webhooks"]
    ]

    async def work(client: KubeClient) -> None:
        await client.apply(WEBHOOKS, {"metadata": {"name": name}, "webhooks": bundles}, manager="rotator")

    with open_session(Kubeconfig((cluster.kubeconfig,))) as session:
        session.run(work)


def test_webhooks_that_helm_and_istioctl_take_back_are_reported(cluster: Cluster, tmp_path: Path) -> None:
    def take_back(item: dict[str, Any], manager: str) -> None:
        for webhook in item["webhooks"]:
            webhook["clientConfig"]["caBundle"] = BUNDLE
        flags = ("--server-side", "--force-conflicts", f"--field-manager={manager}")
        assert cluster.kubectl("apply", *flags, "-f", "-", stdin=item).returncode == 0

    revision, tag = "istio-sidecar-injector-1-24", "istio-revision-tag-prod"
    remedies = {
        revision: ("webhook", "apply", "--revision", "1-24", "--force-conflicts"),
        tag: ("tag", "set", "prod", "--revision", "1-24", "--overwrite"),
    }
    (tmp_path / "ca.crt").write_bytes(authority().chain_pem)
    bundle = ("--ca-bundle", str(tmp_path / "ca.crt"))
    done(cluster, "webhook", "apply", "--revision", "1-24", *bundle)
    done(cluster, "tag", "set", "prod", "--revision", "1-24", *bundle)

    with injector(tmp_path, "--insecure-http", *of_cluster(cluster, HOME)) as served:
        assert served.total("injector_webhook_faults") == 0
        for name, manager in ((revision, "helm"), (tag, "istioctl")):
            taken = golden("revision-1-24" if name == revision else "tag-prod")
            take_back(taken, manager)

            served.until(lambda: served.total("injector_webhook_faults") == 1)
            (fault,) = served.status()["webhookErrors"]
            path = taken["webhooks"][0]["clientConfig"]["service"]["path"]
            assert (
                f"{HOME}/istiod-1-24 at {path}, as `{manager}` wrote it; run `injector {' '.join(remedies[name])}`"
                in fault
            )
            assert fault.startswith(f"MutatingWebhookConfiguration {name}: ")
            for listing in (("tag", "list"), ("revision", "list"), ("revision", "status")):
                assert fault in run(cluster, *listing).stderr

            done(cluster, *remedies[name], *bundle)
            served.until(lambda: served.total("injector_webhook_faults") == 0)
            assert run(cluster, "tag", "list").stderr == ""


@pytest.mark.usefixtures("helm")
def test_helm_upgrade_takes_webhooks_back_unless_its_chart_writes_the_injectors_url(
    cluster: Cluster, tmp_path: Path
) -> None:
    (tmp_path / "ca.crt").write_bytes(authority().chain_pem)
    bundle = base64.b64encode((tmp_path / "ca.crt").read_bytes()).decode()
    istiods = golden("revision-1-24")
    for webhook in istiods["webhooks"]:
        webhook["clientConfig"]["caBundle"] = BUNDLE
    native = golden("revision-1-24")
    for webhook in native["webhooks"]:
        # As Istio's chart renders `istiodRemote.injectionURL` and `istiodRemote.injectionCABundle`.
        webhook["clientConfig"] = {"url": "https://injector.example:443/inject/1-24", "caBundle": bundle}

    def upgrade(item: dict[str, Any], version: str) -> None:
        chart = tmp_path / "chart"
        (chart / "templates").mkdir(parents=True, exist_ok=True)
        (chart / "Chart.yaml").write_text(f"apiVersion: v2\nname: istiod\nversion: {version}\n")
        (chart / "templates" / "webhook.yaml").write_text(json.dumps(item))
        where = (f"--kubeconfig={cluster.kubeconfig}", f"--namespace={HOME}")
        upgraded = rendering.helm("upgrade", "--install", "istiod-1-24", str(chart), *where)
        assert upgraded.returncode == 0, upgraded.stderr

    with injector(tmp_path, "--insecure-http", *of_cluster(cluster, HOME)) as served:
        upgrade(istiods, "1.24.6")
        flags = ("--revision", "1-24", "--force-conflicts", "--ca-bundle", str(tmp_path / "ca.crt"))
        applied = run(cluster, "webhook", "apply", *flags)
        assert applied.exit_code == 0, applied.output
        assert "belongs to Helm release istio-system/istiod-1-24, which writes it again" in applied.stderr
        istiods["webhooks"][0]["clientConfig"]["service"]["port"] = (
            15017  # the chart of a patch release differs in something
        )
        upgrade(istiods, "1.24.7")
        served.until(lambda: served.total("injector_webhook_faults") == 1)
        assert "as `helm` wrote it" in "".join(served.status()["webhookErrors"])

        upgrade(native, "1.24.8")
        served.until(lambda: served.total("injector_webhook_faults") == 0)
        upgrade({**native, "metadata": {**native["metadata"], "annotations": {"helm": "again"}}}, "1.24.9")
        entries = webhooks(cluster, "istio-sidecar-injector-1-24").values()
        assert [entry["clientConfig"] for entry in entries] == [
            webhook["clientConfig"] for webhook in native["webhooks"]
        ]
        assert run(cluster, "tag", "list").stderr == ""
    gone = rendering.helm("uninstall", "istiod-1-24", f"--kubeconfig={cluster.kubeconfig}", f"--namespace={HOME}")
    assert gone.returncode == 0, gone.stderr


@pytest.mark.parametrize("revision", REVISIONS)
def test_the_api_server_takes_what_webhook_generate_prints_and_it_is_istios(cluster: Cluster, revision: str) -> None:
    service = ["--service", service_of(revision), "--service-namespace", "istio-system"]
    printed = command("webhook", "generate", "-r", revision, *service)

    expected = golden(f"revision-{revision}")
    assert cluster.dry_run(printed) == f"{PREFIX}/{expected['metadata']['name']} created (server dry run)\n"
    assert on_istios_path(yaml.safe_load(printed), revision) == expected


@pytest.mark.parametrize("file", TAGS)
def test_the_api_server_takes_what_tag_generate_prints_and_it_is_istios(cluster: Cluster, file: str) -> None:
    tag, revision, options, arguments = TAGS[file]
    flags = [*(["--auto-inject-namespaces"] if options else []), *(["--webhook-name", "my-hook"] if arguments else [])]
    service = ["--service", service_of(revision), "--service-namespace", "istio-system"]
    printed = command("tag", "generate", tag, "-r", revision, "--offline", *flags, *service)

    expected = golden(file)
    del expected["metadata"]["annotations"]  # copied from a revision's object, and here is none
    assert cluster.dry_run(printed) == f"{PREFIX}/{expected['metadata']['name']} created (server dry run)\n"
    assert on_istios_path(yaml.safe_load(printed), tag) == expected


def test_a_tag_is_set_listed_moved_by_one_write_and_removed(cluster: Cluster) -> None:
    cluster.apply(namespace_of("shop"), *pod_of("web", "shop", "prod"))
    said = done(cluster, "tag", "set", "prod", "-r", "1-24")
    assert said.startswith('Revision tag "prod" created, referencing control plane revision "1-24".')
    before = cluster.get(KIND, "istio-revision-tag-prod")["metadata"]
    assert [entry["manager"] for entry in before["managedFields"]] == ["injector-tag"]

    refused = run(cluster, "tag", "set", "prod", "-r", "1-30")
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert 'revision tag "prod" already exists, and --overwrite is false; it leads to 1-24' in refused.stderr

    done(cluster, "tag", "set", "prod", "-r", "1-30", "--overwrite")
    after = cluster.get(KIND, "istio-revision-tag-prod")["metadata"]
    assert (after["uid"], after["labels"]["istio.io/rev"]) == (before["uid"], "1-30")
    assert after["generation"] == before["generation"]  # the label alone moved: one write, no webhook changed

    cluster.apply(namespace_of("shop", {"istio.io/rev": "prod"}))
    row = {"tag": "prod", "revision": "1-30", "namespaces": ["shop"]}
    assert json.loads(done(cluster, "tag", "list", "-o", "json")) == [row]
    assert yaml.safe_load(done(cluster, "tag", "list", "-o", "yaml")) == [row]
    assert done(cluster, "tag", "list") == "TAG    REVISION   NAMESPACES\nprod   1-30       shop\n"

    refused = run(cluster, "tag", "remove", "prod", "-y")
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert 'cannot remove tag "prod": it is in use by namespace shop, pod shop/web; ' in refused.stderr
    assert done(cluster, "tag", "remove", "prod", "--force") == "Revision tag prod removed\n"
    assert done(cluster, "tag", "list") == "No Istio revision tags found.\n"
    cluster.delete("pod", "web", "shop")
    cluster.apply(namespace_of("shop"))


def pod_of(name: str, namespace: str, revision: str) -> tuple[dict[str, Any], dict[str, Any]]:
    pod = make_pod(name, namespace=namespace, labels={"istio.io/rev": revision}, automountServiceAccountToken=False)
    return account_of(namespace), pod


def test_a_bundle_that_another_manager_set_stays_where_the_tag_moves(cluster: Cluster) -> None:
    done(cluster, "tag", "set", "prod", "-r", "1-24")
    trusted(cluster, "istio-revision-tag-prod")

    done(cluster, "tag", "set", "prod", "-r", "1-30", "--overwrite", "--failure-policy", "Ignore")
    done(cluster, "webhook", "apply", "--tag", "prod")

    entries = webhooks(cluster, "istio-revision-tag-prod")
    assert [webhook["clientConfig"]["caBundle"] for webhook in entries.values()] == [BUNDLE, BUNDLE]
    assert [webhook["failurePolicy"] for webhook in entries.values()] == ["Fail", "Fail"]


def test_a_bundle_that_was_given_once_stays_until_another_is_given(cluster: Cluster, tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).write_text(f"-----BEGIN CERTIFICATE-----\n{name}\n-----END CERTIFICATE-----\n")
    bundles = set()
    for flags in (["--ca-bundle", str(tmp_path / "one")], [], ["--ca-bundle", str(tmp_path / "two")]):
        done(cluster, "webhook", "apply", "-r", "1-24", *flags)
        entries = webhooks(cluster, "istio-sidecar-injector-1-24").values()
        bundles.add(tuple(webhook["clientConfig"]["caBundle"] for webhook in entries))

    assert len(bundles) == 2


def test_the_default_tag_takes_the_place_of_the_default_revision(cluster: Cluster) -> None:
    cluster.apply(*control_plane("istio-system", "default", tag="1.24.6"))
    done(cluster, "webhook", "apply", "-r", "default")
    assert [
        webhook
        for webhook in webhooks(cluster, "istio-sidecar-injector").values()
        if webhook["namespaceSelector"] == NEVER
    ] == []

    done(cluster, "tag", "set", "default", "-r", "1-30", "--auto-inject-namespaces")
    assert {str(webhook["namespaceSelector"]) for webhook in webhooks(cluster, "istio-sidecar-injector").values()} == {
        str(NEVER)
    }
    assert list(webhooks(cluster, "istio-revision-tag-default"))[-1] == "auto"

    # Another manager has a part in `auto`, so the API server would keep the rest of it: it stays, and takes no pod.
    trusted(cluster, "istio-revision-tag-default")
    done(cluster, "tag", "set", "default", "-r", "1-24", "--overwrite")
    entries = webhooks(cluster, "istio-revision-tag-default")
    assert [name for name, webhook in entries.items() if webhook["objectSelector"] == NEVER] == ["auto"]
    assert "rev" not in [name for name in entries if entries[name]["namespaceSelector"] == NEVER]

    refused = run(cluster, "webhook", "apply", "-r", "default", "--service", "other")
    assert refused.exit_code == 0  # its own fields, and it stays deactivated
    assert {str(webhook["namespaceSelector"]) for webhook in webhooks(cluster, "istio-sidecar-injector").values()} == {
        str(NEVER)
    }
    for name in ("istio-sidecar-injector", "istio"):
        cluster.delete("configmap", name, "istio-system")


def test_the_service_of_a_tag_is_created_from_1_28_on_and_moves_with_it(cluster: Cluster) -> None:
    done(cluster, "tag", "set", "prod", "-r", "1-24")
    assert services(cluster) == {}

    move = ("tag", "set", "prod", "-r", "1-30", "--shadow", "1-24=5", "--overwrite")
    assert done(cluster, *move, "--dry-run") == (
        'Revision tag "prod" would be moved, referencing control plane revision "1-30".\n'
        "MutatingWebhookConfiguration istio-revision-tag-prod would be written\n"
        "Service istiod-revision-tag-prod would be written\n"
    )
    assert cluster.get(KIND, "istio-revision-tag-prod")["metadata"]["labels"]["istio.io/rev"] == "1-24"
    assert services(cluster) == {}

    assert done(cluster, *move).startswith('Revision tag "prod" created, referencing control plane revision "1-30".')
    assert done(cluster, "tag", "list").splitlines()[1].split() == ["prod", "1-30", "-", "1-24=5"]
    assert services(cluster) == {"istiod-revision-tag-prod": {"app": "istiod", "istio.io/rev": "1-30"}}

    done(cluster, "tag", "set", "prod", "-r", "1-24", "--weight", "1-30=10", "--overwrite")
    assert services(cluster) == {"istiod-revision-tag-prod": {"app": "istiod", "istio.io/rev": "1-24"}}

    done(cluster, "tag", "remove", "prod")
    assert services(cluster) == {}


def test_every_object_of_istioctls_default_tag_moves_but_its_validator(cluster: Cluster) -> None:
    theirs = golden("tag-default", "Service")
    theirs["spec"]["selector"] = {
        "app": "istiod",
        "istio": "pilot",
    }  # as Istio's chart selects an istiod without a revision
    validator = golden("tag-default", "ValidatingWebhookConfiguration")
    cluster.apply(golden("tag-default"), theirs, validator)
    patched = [
        {"op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Fail"},
        {"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": BUNDLE},
    ]
    cluster.patch(VALIDATOR, DEFAULT_VALIDATOR, patched)  # as istiod does

    warned = run(cluster, "tag", "set", "default", "-r", "1-30", "--overwrite")
    assert warned.exit_code == 0

    assert services(cluster) == {"istiod-revision-tag-default": {"app": "istiod", "istio.io/rev": "1-30"}}
    moved = cluster.get(VALIDATOR, DEFAULT_VALIDATOR)
    (webhook,) = moved["webhooks"]
    assert moved["metadata"]["labels"]["istio.io/rev"] == "1-30"
    assert webhook["clientConfig"]["service"] == {
        "name": "istiod-1-30", "namespace": HOME, "path": "/validate", "port": 443,
    }  # fmt: skip
    assert (webhook["failurePolicy"], webhook["clientConfig"]["caBundle"]) == ("Fail", BUNDLE)
    assert done(cluster, "tag", "list") == "TAG       REVISION   NAMESPACES\ndefault   1-30       -\n"

    done(cluster, "tag", "remove", "default")
    assert (services(cluster), cluster.names(KIND)) == ({}, [])
    assert cluster.names(VALIDATOR) != []  # the istioctl of 1.30 leaves it


def test_what_istioctl_made_moves_over_to_the_injector(cluster: Cluster) -> None:
    theirs = golden("tag-prod")
    for webhook in theirs["webhooks"]:
        webhook["clientConfig"] = {"url": "https://istiod.example/inject", "caBundle": BUNDLE}
    theirs["metadata"]["annotations"] = {"revision-injector/weights": '{"1-24": 1, "1-30": 1}'}
    cluster.apply(theirs)

    done(cluster, "tag", "set", "prod", "-r", "1-24", "--overwrite")

    moved = cluster.get(KIND, "istio-revision-tag-prod")
    assert [webhook["clientConfig"] for webhook in moved["webhooks"]] == [
        {
            "service": {"name": "injector", "namespace": "injector-system", "path": "/inject/prod", "port": 443},
            "caBundle": BUNDLE,
        }
    ] * 2
    assert json.loads(done(cluster, "tag", "list", "-o", "json")) == [
        {"tag": "prod", "revision": "1-24", "namespaces": []}
    ]


def test_webhook_apply_says_what_it_did_and_a_dry_run_does_nothing(cluster: Cluster) -> None:
    name = "istio-sidecar-injector-1-24"
    for flags, said in (
        (["--dry-run=client"], "serverside-applied (dry run)"),
        (["--dry-run=server"], "serverside-applied (server dry run)"),
    ):
        assert done(cluster, "webhook", "apply", "-r", "1-24", *flags) == f"{PREFIX}/{name} {said}\n"
        assert cluster.names(KIND) == []

    done(cluster, "tag", "set", "prod", "-r", "1-24")
    assert done(cluster, "webhook", "apply") == "".join(
        f"{PREFIX}/{written} serverside-applied\n"
        for written in ("istio-revision-tag-prod", "istio-sidecar-injector-1-24", "istio-sidecar-injector-1-30")
    )
    refused = run(cluster, "webhook", "apply", "-r", "1-99")
    assert (refused.exit_code, refused.stdout) == (1, "")


def test_what_another_manages_is_a_conflict_unless_it_is_forced(cluster: Cluster) -> None:
    cluster.apply(golden("revision-1-24"))

    refused = run(cluster, "webhook", "apply", "-r", "1-24")
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "(HTTP 409): Apply failed with" in refused.stderr
    assert "--force-conflicts" in refused.stderr
    assert len(refused.stderr.splitlines()) == 1

    done(cluster, "webhook", "apply", "-r", "1-24", "--force-conflicts")
    entries = webhooks(cluster, "istio-sidecar-injector-1-24").values()
    assert {webhook["clientConfig"]["service"]["path"] for webhook in entries} == {"/inject/1-24"}


def test_a_revision_in_use_is_not_removed_and_its_users_are_named(cluster: Cluster) -> None:
    done(cluster, "webhook", "apply", "-r", "1-24")
    done(cluster, "tag", "set", "prod", "-r", "1-30", "--weight", "1-24=10")

    refused = run(cluster, "revision", "remove", "1-24", "-y")
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert 'cannot remove revision "1-24": it is in use by tag prod; ' in refused.stderr
    assert done(cluster, "revision", "remove", "1-24", "--force") == "Revision 1-24 removed\n"
    assert cluster.names(KIND) == [f"{PREFIX}/istio-revision-tag-prod"]


def test_a_revision_is_in_use_until_no_pod_has_its_sidecar_whatever_its_istiod(cluster: Cluster) -> None:
    account, istiod = pod_of("istiod-1-24", HOME, "1-24")
    istiod["metadata"]["labels"] |= {"app": "istiod", "istio": "istiod", "sidecar.istio.io/inject": "false"}
    old = make_pod("old", namespace="shop", automountServiceAccountToken=False)
    old["metadata"] |= {
        "labels": {"istio.io/rev": "prod"},
        "annotations": {"sidecar.istio.io/status": '{"containers":["istio-proxy"],"revision":"1-24"}'},
    }
    cluster.apply(namespace_of("shop"), account_of("shop"), account, istiod, old)
    done(cluster, "webhook", "apply", "-r", "1-24")
    done(cluster, "tag", "set", "prod", "-r", "1-30")

    refused = run(cluster, "revision", "remove", "1-24", "-y")
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert 'cannot remove revision "1-24": it is in use by pod shop/old; move, relabel or restart' in refused.stderr

    cluster.delete("pod", "old", "shop")
    assert done(cluster, "revision", "remove", "1-24", "-y") == "Revision 1-24 removed\n"
    cluster.delete("pod", "istiod-1-24", HOME)


def test_what_serves_from_the_cluster_follows_a_tag_with_its_weights(cluster: Cluster, tmp_path: Path) -> None:
    done(cluster, "tag", "set", "prod", "-r", "1-24")

    with injector(tmp_path, "--insecure-http", *of_cluster(cluster, "istio-system")) as served:
        assert served.image("prod") == "proxy:1.24.6"
        done(cluster, "tag", "set", "prod", "--weight", "1-24=0", "--weight", "1-30=100", "--overwrite")
        served.until(lambda: served.image("prod") == "proxy:1.30.3")

        done(cluster, "tag", "set", "prod", "--weight", "1-24=90", "--weight", "1-30=10", "--salt", "s", "--overwrite")
        served.until(lambda: "90" in json.dumps(served.tag("prod")))

        broken = cluster.get(KIND, "istio-revision-tag-prod")["metadata"]
        annotated = {"name": broken["name"], "annotations": {"revision-injector/weights": "{"}}
        cluster.apply({**make_object("MutatingWebhookConfiguration", ""), "metadata": annotated})
        done(cluster, "tag", "set", "blue", "-r", "1-30")
        served.until(lambda: served.image("blue") == "proxy:1.30.3")
        assert "90" in json.dumps(served.tag("prod"))
        assert "revision-injector/weights: not a JSON object" in served.log.read_text()

        done(cluster, "tag", "set", "prod", "-r", "1-30", "--overwrite")
        served.until(lambda: served.image("prod") == "proxy:1.30.3" and "90" not in json.dumps(served.tag("prod")))


def test_a_tag_has_the_precedence_of_its_revision_and_keeps_it(cluster: Cluster) -> None:
    def first_of(tag: str) -> str:
        keys = [
            requirement["key"]
            for requirement in webhooks(cluster, f"istio-revision-tag-{tag}")["rev.object"]["namespaceSelector"][
                "matchExpressions"
            ]
        ]
        return "namespace" if "istio.io/rev" in keys else "pod"

    flag = "--revision-label-precedence"
    done(cluster, "webhook", "apply", "--revision", "1-24", flag, "pod")
    done(cluster, "webhook", "apply", "--revision", "1-30", flag, "pod")
    done(cluster, "tag", "set", "prod", "-r", "1-24")
    assert first_of("prod") == "pod"
    done(cluster, "tag", "set", "prod", "-r", "1-30", "--overwrite")
    assert first_of("prod") == "pod"

    mixed = run(cluster, "tag", "set", "blue", "-r", "1-30", flag, "namespace", "--dry-run")
    assert "Webhook overlaps with others: [istio-revision-tag-prod/rev.object.sidecar-injector.istio.io" in mixed.stderr
    done(cluster, "tag", "set", "prod", "-r", "1-30", flag, "namespace", "--overwrite", "-y")
    assert first_of("prod") == "namespace"


def test_what_is_not_permitted_and_what_is_away_is_one_line(cluster: Cluster, tmp_path: Path) -> None:
    cluster.apply(account_of("default", "nobody"))
    admin = yaml.safe_load(cluster.kubeconfig.read_text())
    away = tmp_path / "away"
    (entry,) = admin["clusters"]
    address = {**entry["cluster"], "server": f"https://127.0.0.1:{free_ports(1)[0]}"}
    away.write_text(json.dumps({**admin, "clusters": [{**entry, "cluster": address}]}))
    unknown = tmp_path / "unknown"
    unknown.write_text(json.dumps({**admin, "users": [{"name": "admin", "user": {"token": "nonsense"}}]}))

    for kubeconfig, says in (
        (
            cluster.kubeconfig_of("nobody", "default"),
            "(HTTP 403): mutatingwebhookconfigurations.admissionregistration.k8s.io",
        ),
        (unknown, "does not know the credentials (HTTP 401); log in again"),
        (away, "cannot be reached"),
    ):
        for arguments in (
            ["tag", "list"],
            ["tag", "remove", "prod"],
            ["webhook", "apply"],
            ["tag", "set", "a", "-r", "b"],
        ):
            result = run(cluster, *arguments, kubeconfig=kubeconfig)
            assert (result.exit_code, result.stdout, len(result.stderr.splitlines())) == (1, "", 1)
            assert says in result.stderr
    unknown_context = run(cluster, "tag", "list", "--context", "nope")
    assert (unknown_context.exit_code, unknown_context.stdout) == (65, "")
    assert "there is no context 'nope'; give --context one of " in unknown_context.stderr


def test_what_generate_prints_from_a_cluster_goes_where_its_revision_goes(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "ca").write_text("-----BEGIN CERTIFICATE-----\nQQ==\n-----END CERTIFICATE-----\n")
    done(cluster, "webhook", "apply", "-r", "1-24", "--url", "https://here:9443", "--ca-bundle", str(tmp_path / "ca"))

    printed = done(cluster, "tag", "generate", "prod", "-r", "1-24", "--weight", "1-30=10")

    assert cluster.dry_run(printed) == f"{PREFIX}/istio-revision-tag-prod created (server dry run)\n"
    client = yaml.safe_load(printed)["webhooks"][0]["clientConfig"]
    assert client["url"] == "https://here:9443/inject/prod"
    assert client["caBundle"].startswith("LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0t")
    assert cluster.names(KIND) == [f"{PREFIX}/istio-sidecar-injector-1-24"]


def test_the_api_server_takes_every_configuration_of_a_folder(cluster: Cluster) -> None:
    printed = command(
        "webhook",
        "generate",
        "--embedded",
        "--timeout",
        "5s",
        "--failure-policy",
        "Ignore",
        "--auto-inject-namespaces",
    )

    names = ("istio-sidecar-injector-canary", "istio-sidecar-injector-stable", "istio-revision-tag-default")
    assert cluster.dry_run(printed) == "".join(f"{PREFIX}/{name} created (server dry run)\n" for name in names)


def rule(group: str, resource: str, *verbs: str) -> dict[str, Any]:
    return {"apiGroups": [group], "resources": [resource], "verbs": list(verbs)}


def granted(kind: str, name: str, namespace: str, *rules: dict[str, Any]) -> tuple[dict[str, Any], ...]:
    """A role of that kind with these rules, and its binding to the account `operator`."""
    subjects = [{"kind": "ServiceAccount", "name": "operator", "namespace": "default"}]
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}
    binding = make_object(f"{kind}Binding", name, namespace, roleRef=reference, subjects=subjects)
    return make_object(kind, name, namespace, rules=list(rules)), binding


def test_the_permissions_of_the_docs_are_enough(cluster: Cluster) -> None:
    written = ("list", "patch", "create", "delete")
    configurations = rule("admissionregistration.k8s.io", f"{KIND}s", *written)
    validators = rule("admissionregistration.k8s.io", f"{VALIDATOR}s", *written)
    cluster.apply(
        account_of("default", "operator"),
        *granted(
            "ClusterRole", "operator", "", configurations, rule("", "namespaces", "list"), rule("", "pods", "list")
        ),
        *granted("ClusterRole", "validators", "", validators),
        *granted("ClusterRole", "services", "", rule("", "services", "get")),
        *granted("Role", "operator", HOME, rule("", "configmaps", "list"), rule("", "services", *written)),
    )
    kubeconfig = cluster.kubeconfig_of("operator", "default")

    def may_list_validators() -> bool:
        validators = {"group": "admissionregistration.k8s.io", "resource": f"{VALIDATOR}s"}
        return cluster.is_allowed("default:operator", verb="list", **validators)

    until(may_list_validators)
    for arguments in (
        ["webhook", "apply", "--dry-run=server"],
        ["webhook", "apply"],
        ["tag", "set", "prod", "-r", "1-24"],
        ["tag", "set", "prod", "-r", "1-30", "--overwrite"],
        ["tag", "generate", "other", "-r", "1-30"],
        ["tag", "list"],
        ["tag", "remove", "prod"],
        ["tag", "set", "default", "-r", "1-30"],
        ["tag", "remove", "default"],
        ["revision", "remove", "1-24", "-y"],
    ):
        result = run(cluster, *arguments, kubeconfig=kubeconfig)
        assert (result.exit_code, "forbidden" in result.stderr) == (0, False), (arguments, result.stderr)
    assert cluster.names(KIND) == [f"{PREFIX}/istio-sidecar-injector-1-30"]

    cluster.delete("clusterrolebinding", "validators", "")
    until(lambda: not may_list_validators())
    refused = run(cluster, "tag", "set", "default", "-r", "1-30", "--overwrite", kubeconfig=kubeconfig)
    assert (refused.exit_code, refused.stdout, len(refused.stderr.splitlines())) == (1, "", 1)
    assert f'cannot list resource "{VALIDATOR}s"' in refused.stderr


def test_after_the_way_back_istiod_has_its_tags_and_nothing_calls_the_injector(cluster: Cluster) -> None:
    cluster.apply(golden("tag-prod"), namespace_of("shop", {"istio.io/rev": "canary"}))
    done(cluster, "tag", "set", "prod", "-r", "1-24", "--overwrite")
    done(cluster, "tag", "set", "canary", "-r", "1-30")
    done(cluster, "webhook", "apply", "-r", "1-30")

    plan = run(cluster, "uninstall", "--dry-run")
    deleted = (
        f"delete {WEBHOOKS.kind} istio-revision-tag-canary\n"
        f"delete {WEBHOOKS.kind} istio-sidecar-injector-1-30\n"
        "delete Service istio-system/istiod-revision-tag-canary\n"
    )
    assert plan.stdout.startswith(f"{deleted}keep {WEBHOOKS.kind} istio-revision-tag-prod: the injector did not")
    assert plan.stderr == (
        "warning: without an injector: namespace shop; "
        "`istioctl tag set canary --revision 1-30 --overwrite` leads them to istiod without a gap\n"
    )
    refused = run(cluster, "uninstall", "-y")
    assert (refused.exit_code, len(cluster.names(KIND))) == (1, 3)

    for tag in ("tag-prod", "tag-canary"):  # as `istioctl tag set --overwrite` writes them
        flags = ("--server-side", "--force-conflicts", "--field-manager=istioctl")
        assert cluster.kubectl("apply", *flags, "-f", "-", stdin=golden(tag)).returncode == 0
    done_again = run(cluster, "uninstall", "-y")

    assert (done_again.exit_code, done_again.stderr) == (0, "")
    assert done_again.stdout.startswith(f"delete {WEBHOOKS.kind} istio-sidecar-injector-1-30\n1 objects deleted\n")
    for name in ("istio-revision-tag-canary", "istio-revision-tag-prod"):
        assert {webhook["clientConfig"]["service"]["path"] for webhook in webhooks(cluster, name).values()} == {
            "/inject"
        }
    assert len(cluster.names(KIND)) == 2
    cluster.apply(namespace_of("shop"))


def test_conditions_and_pairs_are_accepted_and_kept_by_a_tag_that_moves(cluster: Cluster) -> None:
    condition = '!has(object.metadata.annotations) || !("kubernetes.io/config.mirror" in object.metadata.annotations)'
    flags = ("--cluster", "one", "--network", "net/one", "--match-condition", f"not-a-mirror-pod={condition}")
    done(cluster, "webhook", "apply", "-r", "1-24", *flags)
    done(cluster, "tag", "set", "prod", "-r", "1-24")
    done(cluster, "tag", "set", "prod", "-r", "1-30", "--overwrite")

    for name, path in (("istio-revision-tag-prod", "prod"), ("istio-sidecar-injector-1-24", "1-24")):
        for webhook in webhooks(cluster, name).values():
            assert webhook["clientConfig"]["service"]["path"] == f"/inject/{path}/cluster/one/net/net--slash--one"
            assert webhook["matchConditions"] == [{"name": "not-a-mirror-pod", "expression": condition}]
    refused = run(cluster, "webhook", "apply", "-r", "1-24", "--match-condition", "x=no such CEL", "--force-conflicts")
    assert (refused.exit_code, "expression" in refused.stderr) == (1, True)


def test_the_mistakes_of_a_cluster_are_found(cluster: Cluster) -> None:
    cluster.apply(namespace_of("shop", {"istio.io/rev": "prod"}), namespace_of("edge", {"istio.io/rev": "prd"}))
    cluster.apply(*pod_of("till", "shop", "prod"))
    done(cluster, "tag", "set", "prod", "-r", "1-24")
    done(cluster, "webhook", "apply", "-r", "1-30", "--service", "gone")

    result = run(cluster, "analyze", "-A", "--output-threshold", "Warning")

    assert (result.exit_code, result.stderr) == (79, "error: Analyzers found issues when analyzing all namespaces.\n")
    # Other tests of this cluster leave namespaces and pods of their own.
    ours = ("(Namespace edge)", "istio-sidecar-injector-1-30)", "shop/till)")
    lines = [line[: line.find(")") + 1] for line in result.stdout.splitlines()]
    assert [line for line in lines if line.endswith(ours)] == [
        "Error [INJ0001] (Namespace edge)",
        "Error [IST0139] (MutatingWebhookConfiguration istio-sidecar-injector-1-30)",
        "Warning [IST0103] (Pod shop/till)",
    ]
    assert "names `prd`, which is not served (did you mean prod?); known are 1-30, prod." in result.stdout
    cluster.delete("pod", "till", "shop")
    cluster.apply(namespace_of("shop"), namespace_of("edge"))
