"""``injector webhook``: generate and apply webhook configurations."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import Result

from injector.cluster.resources import CONFIG_MAPS, SERVICES, WEBHOOKS
from injector.istio.webhooks.configurations import WebhookOptions, is_deactivated, revision_webhook, tag_webhook
from injector.istio.webhooks.tagobjects import tag_service
from tests.cases import cases
from tests.cli.clusters import INJECTOR, FakeKube, assert_fails, config_maps, invoke, reached
from tests.cluster.fakeapi import FakeApi
from tests.revisions.fakes import VALUES, write_revision


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Two revisions, one of them the default, and a tag."""
    for name in ("1-24", "default"):
        write_revision(tmp_path / name)
    (tmp_path / "tags.yaml").write_text("prod: 1-24\n")
    return tmp_path


generate = partial(invoke, "webhook", "generate")


def documents(result: Result) -> list[dict[str, Any]]:
    assert result.exit_code == 0, result.output
    return list(yaml.safe_load_all(result.stdout))


def names(result: Result) -> list[str]:
    return [document["metadata"]["name"] for document in documents(result)]


def test_every_revision_and_tag_of_a_directory_has_its_configuration(directory: Path) -> None:
    result = generate("--revisions-dir", str(directory))

    assert names(result) == ["istio-sidecar-injector-1-24", "istio-sidecar-injector", "istio-revision-tag-prod"]
    assert [document["webhooks"][0]["clientConfig"]["service"]["path"] for document in documents(result)] == [
        "/inject/1-24", "/inject/default", "/inject/prod",
    ]  # fmt: skip
    assert result.stderr == ""


def test_the_embedded_examples_are_used_on_request() -> None:
    assert names(generate("--embedded")) == [
        "istio-sidecar-injector-canary", "istio-sidecar-injector-stable", "istio-revision-tag-default",
    ]  # fmt: skip


def test_the_default_tag_takes_over_from_the_revision_of_its_name(directory: Path) -> None:
    (directory / "tags.yaml").write_text("default: 1-24\n")

    _, revision, tag = documents(generate("--revisions-dir", str(directory)))

    never = {"matchLabels": {"istio.io/deactivated": "never-match"}}
    assert all(webhook["namespaceSelector"] == never for webhook in revision["webhooks"])
    assert [len(tag["webhooks"]), tag["metadata"]["labels"]["istio.io/rev"]] == [4, "1-24"]


def test_unusable_revisions_and_tags_have_no_configuration(directory: Path) -> None:
    (directory / "bad").mkdir()
    (directory / "tags.yaml").write_text("prod: 1-24\nold: gone\n")

    result = generate("--revisions-dir", str(directory))

    assert len(names(result)) == 3
    lines = result.stderr.splitlines()
    assert lines[0].startswith(f"warning: {directory}/bad: ")
    assert lines[1].startswith("warning: tag `old`: it names `gone`")


def test_one_revision_or_tag_can_be_asked_for(directory: Path) -> None:
    where = ["--revisions-dir", str(directory)]

    assert names(generate("--revision", "1-24", *where)) == ["istio-sidecar-injector-1-24"]
    assert names(generate("--tag", "prod", *where)) == ["istio-revision-tag-prod"]
    assert names(generate("-r", "1-99")) == ["istio-sidecar-injector-1-99"]


PAIRS = "/cluster/C_1/net/a--slash--b"


def test_the_flags_reach_every_webhook(tmp_path: Path) -> None:
    bundle = tmp_path / "ca.pem"
    bundle.write_text("-----BEGIN CERTIFICATE-----\nQQ==\n-----END CERTIFICATE-----\n")

    flags = (
        "--timeout 5s --failure-policy Ignore --reinvocation-policy IfNeeded -i mesh --auto-inject-namespaces "
        "--cluster C_1 --network a/b"
    )

    where = ("--url", "https://injector.example:9443", "--ca-bundle", str(bundle))
    (document,) = documents(generate("-r", "default", *where, *flags.split()))

    assert document["metadata"]["name"] == "istio-sidecar-injector-mesh"
    assert len(document["webhooks"]) == 5
    for webhook in document["webhooks"]:
        assert webhook["clientConfig"]["url"] == f"https://injector.example:9443/inject/default{PAIRS}"
        assert webhook["clientConfig"]["caBundle"].startswith("LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0t")
        assert (webhook["timeoutSeconds"], webhook["failurePolicy"], webhook["reinvocationPolicy"]) == (
            5, "Ignore", "IfNeeded",
        )  # fmt: skip


def test_conditions_are_those_of_every_webhook_in_order() -> None:
    flags = ("--match-condition", "b=x = 1", "--match-condition", "example.com/a=y == 'a=b'")
    conditions = [{"name": "b", "expression": "x = 1"}, {"name": "example.com/a", "expression": "y == 'a=b'"}]

    for command in (("-r", "1-24"), ("--unserved", "warn")):
        (document,) = documents(generate(*command, *flags))
        assert [webhook["matchConditions"] for webhook in document["webhooks"]] == 2 * [conditions]


@pytest.mark.parametrize("action", ["warn", "deny"])
def test_unserved_prints_one_configuration(directory: Path, action: str) -> None:
    (document,) = documents(generate("--unserved", action, "--failure-policy", "Fail", "--timeout", "3s"))

    assert document["metadata"]["name"] == "injector-unserved"
    assert {webhook["failurePolicy"] for webhook in document["webhooks"]} == {"Ignore"}
    assert {webhook["timeoutSeconds"] for webhook in document["webhooks"]} == {3}
    assert [webhook["clientConfig"]["service"]["path"] for webhook in document["webhooks"]] == [
        f"/unserved/{action}/namespace", f"/unserved/{action}/pod",
    ]  # fmt: skip
    refused = generate("--unserved", action, "--revisions-dir", str(directory))
    assert (refused.exit_code, "has no effect with --unserved" in refused.output) == (64, True)


def test_a_tag_with_weights_is_printed_with_them(directory: Path) -> None:
    (directory / "tags.yaml").write_text("prod: {1-24: 90, default: 10}\n")

    (document,) = documents(generate("--revisions-dir", str(directory), "--tag", "prod"))

    assert document["metadata"]["annotations"] == {"revision-injector/weights": '{"1-24":90,"default":10}'}


@pytest.fixture
def cluster(cluster: FakeApi) -> FakeApi:
    """The cluster with two revisions and the injector's Service."""
    cluster.put(CONFIG_MAPS, *config_maps("default"), *config_maps("1-24"))
    cluster.put(SERVICES, INJECTOR)
    return cluster


apply = partial(invoke, "webhook", "apply")


def line(name: str, said: str = "serverside-applied") -> str:
    return f"mutatingwebhookconfiguration.admissionregistration.k8s.io/{name} {said}\n"


def test_apply_writes_every_revision_and_tag_of_the_cluster(cluster: FakeApi) -> None:
    weights = {"revision-injector/weights": '{"1-24":90,"default":10}'}
    cluster.put(WEBHOOKS, tag_webhook("prod", "1-24", WebhookOptions(), webhook_name="my-hook", annotations=weights))

    result = apply()

    assert (result.exit_code, result.stderr) == (0, "")
    names = ("my-hook", "istio-sidecar-injector-1-24", "istio-sidecar-injector")
    assert result.stdout == "".join(map(line, names))
    assert [written["metadata"]["name"] for written in cluster.applied] == list(names)
    assert cluster.applied[0]["metadata"]["annotations"] == weights
    assert all(
        "caBundle" not in webhook["clientConfig"] for written in cluster.applied for webhook in written["webhooks"]
    )


def test_apply_writes_those_of_a_directory_and_no_config_map_of_the_cluster(cluster: FakeApi, directory: Path) -> None:
    cluster.refused["list configmaps"] = "forbidden"

    result = apply("--revisions-dir", str(directory), "--tag", "prod", "--timeout", "5s")

    assert (result.exit_code, result.stdout) == (0, line("istio-revision-tag-prod"))
    assert cluster.applied[0]["webhooks"][0]["timeoutSeconds"] == 5


def test_apply_names_every_object_that_it_writes(cluster: FakeApi) -> None:
    cluster.put(WEBHOOKS, tag_webhook("default", "1-24", WebhookOptions()))
    cluster.put(WEBHOOKS, revision_webhook("default", WebhookOptions()))
    cluster.put(SERVICES, tag_service("default", "1-24", "istio-system"))

    result = apply("--tag", "default")

    deactivated, service = line("istio-sidecar-injector"), "service/istiod-revision-tag-default serverside-applied\n"
    assert result.stdout == line("istio-revision-tag-default") + deactivated + service


@cases("dry_run", "said", "calls")
def test_a_dry_run_writes_nothing(cluster: FakeApi, dry_run: str, said: str, calls: list[str]) -> None:
    result = apply("-r", "1-24", "--dry-run", dry_run)

    assert (result.exit_code, result.stdout) == (0, line("istio-sidecar-injector-1-24", said))
    assert ([call for call in cluster.requests if call.startswith("apply")], cluster.applied) == (calls, [])


def test_the_revision_that_a_default_tag_took_the_place_of_stays_deactivated(cluster: FakeApi) -> None:
    cluster.put(WEBHOOKS, tag_webhook("default", "1-24", WebhookOptions()))

    assert apply("-r", "default").exit_code == 0

    assert is_deactivated(cluster.applied[0])


def test_conflicts_of_a_tag_are_warnings(cluster: FakeApi, directory: Path) -> None:
    result = apply("--revisions-dir", str(directory), "--tag", "prod", "--service", "other")

    assert (result.exit_code, len(cluster.applied)) == (0, 1)
    assert result.stderr == (
        "warning: istio-revision-tag-prod: Injector refers to a control plane service that does not exist: "
        "injector-system/other.\n"
    )


def test_an_object_that_helm_writes_again_is_named_with_what_to_change(cluster: FakeApi) -> None:
    release = {"meta.helm.sh/release-name": "istiod-1-24", "meta.helm.sh/release-namespace": "istio-system"}
    of_revision, of_tag = revision_webhook("1-24", WebhookOptions()), tag_webhook("prod", "1-24", WebhookOptions())
    for item in of_revision, of_tag:
        item["metadata"]["annotations"] = release
    cluster.put(WEBHOOKS, of_revision, of_tag)

    result = apply("-r", "1-24"), apply("--tag", "prod")

    again = "belongs to Helm release istio-system/istiod-1-24, which writes it again when it is upgraded"
    assert [(outcome.exit_code, outcome.stderr) for outcome in result] == [
        (0, f"warning: MutatingWebhookConfiguration {name} {again}; {remedy}\n")
        for name, remedy in (
            ("istio-sidecar-injector-1-24", "set its `global.operatorManageWebhooks`"),
            ("istio-revision-tag-prod", "take the tag out of its `revisionTags`"),
        )
    ]


def test_objects_written_before_an_error_are_printed_on_stderr(cluster: FakeApi, directory: Path) -> None:
    metadata = {"name": "istio-sidecar-injector", "labels": {"istio.io/rev": "other"}}
    cluster.put(WEBHOOKS, {"metadata": metadata})

    result = apply("--revisions-dir", str(directory))

    assert (result.exit_code, result.stdout) == (1, "")
    lines = result.stderr.splitlines()
    assert [line.split()[0].rpartition("/")[2] for line in lines[:-1]] == [
        "istio-revision-tag-prod", "istio-sidecar-injector-1-24",
    ]  # fmt: skip
    assert lines[-1].startswith(
        "error: MutatingWebhookConfiguration istio-sidecar-injector exists and does not belong to this"
    )


def test_a_conflict_says_how_to_take_over(cluster: FakeApi) -> None:
    cluster.refused["apply mutatingwebhookconfigurations"] = "conflict"

    refused, forced = apply("-r", "1-24"), apply("-r", "1-24", "--force-conflicts")

    assert (refused.exit_code, refused.stdout) == (forced.exit_code, forced.stdout) == (1, "")
    assert refused.stderr.endswith("; add --force-conflicts to take over these fields\n")
    assert forced.stderr.endswith("; try again\n")


@cases("arguments", "code", "says")
def test_invalid_choices_cannot_be_applied(cluster: FakeApi, arguments: list[str], code: int, says: str) -> None:
    if "odd" in arguments:
        cluster.put(
            WEBHOOKS, tag_webhook("odd", "1-24", WebhookOptions(), annotations={"revision-injector/weights": "x"})
        )

    result = apply(*arguments)

    assert (result.exit_code, result.stdout, cluster.applied) == (code, "", [])
    assert says in result.stderr


@cases("arguments", "code", "says")
def test_wrong_arguments_print_nothing(directory: Path, arguments: list[str], code: int, says: str) -> None:
    assert_fails(generate(*(argument.replace("DIR", str(directory)) for argument in arguments)), code, says)


AUTO_VALUES = '{"global": {"tag": "1.30.1"}, "sidecarInjectorWebhook": {"enableNamespacesByDefault": true}}'


def auto_webhooks(text: str) -> list[str]:
    """The configurations with a webhook for namespaces without a label."""
    return [
        document["metadata"]["name"]
        for document in yaml.safe_load_all(text)
        if any(webhook["name"].startswith("auto.") for webhook in document["webhooks"])
    ]


@pytest.mark.parametrize(
    ("tags", "name"), [("", "istio-sidecar-injector"), ("default: 1-30\n", "istio-revision-tag-default")]
)
def test_values_say_whether_namespaces_without_a_label_are_injected(tags: str, name: str, tmp_path: Path) -> None:
    write_revision(tmp_path / ("1-30" if tags else "default"), values=AUTO_VALUES)
    write_revision(tmp_path / "other", values=AUTO_VALUES)
    (tmp_path / "tags.yaml").write_text(tags or "{}\n")

    result = invoke("webhook", "generate", "--revisions-dir", str(tmp_path))

    assert (result.exit_code, auto_webhooks(result.stdout)) == (0, [name])


def test_a_tag_injects_without_a_label_if_the_values_of_its_revision_say_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reached(monkeypatch, FakeKube(*config_maps("1-30", values=AUTO_VALUES), *config_maps("1-24", values=VALUES)))

    texts = [invoke("tag", "generate", "default", "-r", name, "-y").stdout for name in ("1-30", "1-24")]

    assert [list(filter(None, ["auto." in text])) for text in texts] == [[True], []]
