"""``injector tag``: set, generate, list and remove tags of folders and clusters."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import Result

from injector.cli.taglocation import TagLocation, location_options, write_options
from injector.cluster.kubeconfig import Kubeconfig
from injector.cluster.resources import CONFIG_MAPS, NAMESPACES, PODS, RUNNING, SERVICES, WEBHOOKS, Resource
from injector.errors import InjectorError
from injector.istio.webhooks.configurations import WebhookOptions, revision_webhook, tag_webhook
from tests.cases import cases
from tests.cli.clusters import INJECTOR, assert_fails, config_maps, invoke, parsed
from tests.cluster.fakeapi import FakeApi
from tests.manifests import gateway_of, namespace_of
from tests.revisions.fakes import write_revision

TAGS = "# ours\nprod: 1-24  # since May\n"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Two revisions and a tag."""
    for name in ("1-24", "1-30"):
        write_revision(tmp_path / name)
    (tmp_path / "tags.yaml").write_text(TAGS)
    return tmp_path


def labelled(directory: Path) -> None:
    """Let two namespaces follow `prod`."""
    (directory / "1-24" / "revision.yaml").write_text(
        "namespaces: {shop: {labels: {istio.io/rev: prod}}, bank: {labels: {istio.io/rev: prod}}}\n"
    )


def run(directory: Path, *arguments: str, answer: str = "") -> Result:
    return invoke("tag", *arguments, "--revisions-dir", str(directory), text=answer)


def tags_of(directory: Path) -> str:
    return (directory / "tags.yaml").read_text()


def test_setting_a_tag_prints_istioctls_text(directory: Path) -> None:
    result = run(directory, "set", "canary", "--revision", "1-30")

    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == (
        'Revision tag "canary" created, referencing control plane revision "1-30". To enable injection using this\n'
        "revision tag, use 'kubectl label namespace <NAMESPACE> istio.io/rev=canary'\n"
    )
    assert tags_of(directory) == f"{TAGS}canary: 1-30\n"


def test_a_tag_moves_only_with_overwrite(directory: Path) -> None:
    refused = run(directory, "set", "prod", "-r", "1-30", "-y")
    assert_fails(refused, 1, 'error: revision tag "prod" already exists, and --overwrite is false; ')
    assert tags_of(directory) == TAGS

    assert run(directory, "set", "prod", "-r", "1-30", "--overwrite").exit_code == 0
    assert tags_of(directory) == TAGS.replace("1-24", "1-30")


@pytest.mark.parametrize(
    ("flags", "word"),
    [
        (["prod", "-r", "1-30", "--overwrite"], "moved"),
        (["prod", "-r", "1-24", "--shadow", "1-30", "--overwrite"], "changed"),
        (["new", "-r", "1-24"], "created"),
    ],
)
def test_a_terminal_shows_what_changed_and_scripts_get_istioctls_text(
    directory: Path, monkeypatch: pytest.MonkeyPatch, flags: list[str], word: str
) -> None:
    assert run(directory, "set", *flags, "--dry-run").stdout.startswith(f'Revision tag "{flags[0]}" would be {word}, ')
    assert tags_of(directory) == TAGS
    assert run(directory, "set", *flags).stdout.startswith(f'Revision tag "{flags[0]}" created, ')

    (directory / "tags.yaml").write_text(TAGS)
    monkeypatch.setattr("injector.cli.tag.is_terminal", lambda: True)
    assert run(directory, "set", *flags).stdout.startswith(f'Revision tag "{flags[0]}" {word}, referencing ')


def test_the_list_has_a_column_for_shadows_if_there_are_any(directory: Path) -> None:
    run(directory, "set", "next", "-r", "1-24", "--shadow", "1-30=25")

    assert run(directory, "list").stdout == (
        "TAG    REVISION   NAMESPACES   SHADOW\nnext   1-24       -            1-30=25\nprod   1-24       -            -\n"
    )
    listed = json.loads(run(directory, "list", "-o", "json").stdout)
    assert [row.get("shadow") for row in listed] == [{"revision": "1-30", "sample": 25}, None]


@cases("arguments", "entry")
def test_a_tag_can_have_weights_a_salt_and_a_shadow(directory: Path, arguments: list[str], entry: str) -> None:
    result = run(directory, "set", "canary", *arguments)

    assert (result.exit_code, result.stderr) == (0, "")
    assert tags_of(directory) == f"{TAGS}canary: {entry}\n"


@cases("arguments", "code", "says")
def test_refused_changes_write_nothing(directory: Path, arguments: list[str], code: int, says: str) -> None:
    result = run(directory, *arguments)

    assert_fails(result, code, says)
    assert tags_of(directory) == TAGS


def test_the_list_looks_like_istioctls(directory: Path) -> None:
    (directory / "tags.yaml").write_text("prod: 1-30\ndefault: 1-24\n")

    entries = [
        {"tag": tag, "revision": name, "namespaces": []} for tag, name in (("default", "1-24"), ("prod", "1-30"))
    ]
    assert run(directory, "list", "-o", "json").stdout == json.dumps(entries, indent="\t") + "\n"


def test_the_list_has_weights_and_namespaces(directory: Path) -> None:
    labelled(directory)
    run(directory, "set", "canary", "--weight", "1-30=90", "--weight", "1-24=10")

    expected = [
        {"tag": "prod", "revision": "1-24", "namespaces": ["bank", "shop"]},
        {"tag": "canary", "revision": "1-30", "namespaces": [], "weights": {"1-30": 90, "1-24": 10}},
    ]
    assert json.loads(run(directory, "list", "-o", "json").stdout) == expected
    assert yaml.safe_load(run(directory, "list", "-o", "yaml").stdout) == expected
    assert run(directory, "list").stdout == (
        "TAG      REVISION          NAMESPACES\n"
        "prod     1-24              bank,shop\n"
        "canary   1-30=90,1-24=10   -\n"
    )  # fmt: skip


def test_an_empty_list_is_not_an_error(directory: Path) -> None:
    (directory / "tags.yaml").unlink()

    assert run(directory, "list").output == "No Istio revision tags found.\n"
    assert json.loads(run(directory, "list", "-o", "json").stdout) == []
    assert run(directory, "list", "-o", "yaml").stdout == "[]\n"


@pytest.mark.parametrize(
    ("arguments", "says", "text"),
    [
        (["prod"], "Revision tag prod removed\n", "# ours\n"),
        (["nope", "--force"], "Revision tag nope does not exist\n", TAGS),
    ],
)
def test_an_unused_tag_is_removed_without_a_question_and_force_accepts_none(
    directory: Path, arguments: list[str], says: str, text: str
) -> None:
    result = run(directory, "remove", *arguments)

    assert (result.exit_code, result.output, tags_of(directory)) == (0, says, text)


@pytest.mark.parametrize("flags", [[], ["-y"]])
def test_a_tag_that_namespaces_use_is_removed_only_by_force_and_they_are_named(
    directory: Path, flags: list[str]
) -> None:
    labelled(directory)

    result = run(directory, "remove", "prod", *flags)

    assert (result.exit_code, result.stdout, tags_of(directory)) == (1, "", TAGS)
    assert result.stderr == (
        'error: cannot remove tag "prod": it is in use by namespace bank, namespace shop; '
        "move, relabel or restart them first, or add --force: new pods then get no sidecars\n"
    )
    forced = run(directory, "remove", "prod", "--force")
    assert (forced.exit_code, forced.output, tags_of(directory)) == (0, "Revision tag prod removed\n", "# ours\n")


def test_generate_prints_the_configuration_and_writes_nothing(directory: Path) -> None:
    result = run(
        directory, "generate", "prod", "-r", "1-30", "--overwrite", "--webhook-name", "my-hook", "--service", "our"
    )

    assert (result.exit_code, result.stderr, tags_of(directory)) == (0, "", TAGS)
    configuration = yaml.safe_load(result.stdout)
    assert configuration["metadata"]["name"] == "my-hook"
    assert configuration["metadata"]["labels"]["istio.io/rev"] == "1-30"
    assert configuration["webhooks"][0]["clientConfig"]["service"] == {
        "name": "our", "namespace": "injector-system", "path": "/inject/prod", "port": 443,
    }  # fmt: skip


def test_generate_prints_the_weights_of_a_tag_too(directory: Path) -> None:
    result = run(directory, "generate", "canary", "-r", "1-24", "--weight", "1-30=10", "--salt", "spring")

    metadata = yaml.safe_load(result.stdout)["metadata"]
    assert metadata["labels"]["istio.io/rev"] == "1-24"
    assert metadata["annotations"] == {
        "revision-injector/weights": '{"1-24":90,"1-30":10}',
        "revision-injector/salt": "spring",
    }


def test_offline_generate_has_nothing_to_check() -> None:
    result = invoke("tag", "generate", "default", "-r", "1-24", "--auto-inject-namespaces", "--offline")

    assert (result.exit_code, result.stderr) == (0, "")
    assert [webhook["name"].split(".sidecar")[0] for webhook in yaml.safe_load(result.stdout)["webhooks"]] == [
        "rev.namespace", "rev.object", "namespace", "object", "auto",
    ]  # fmt: skip


def test_a_namespace_can_have_its_own_weights(directory: Path) -> None:
    weights = ("--namespace-weight", "payments/1-24", "--namespace-weight", "test/1-24=25", "--namespace-weight")
    run(directory, "set", "late", "-r", "1-30", *weights, "test/1-30=75")

    assert (
        "{revision: 1-30, namespaces: {payments: 1-24, test: {1-24: 25, 1-30: 75}}}"
        in (directory / "tags.yaml").read_text()
    )
    assert "late   1-30       -            payments/1-24;test/1-24=25,1-30=75" in run(directory, "list").stdout
    listed = {row["tag"]: row for row in json.loads(run(directory, "list", "-o", "json").stdout)}
    assert listed["late"]["namespaceWeights"] == {"payments": "1-24", "test": {"1-24": 25, "1-30": 75}}

    moved = run(directory, "set", "late", "-r", "1-24", "--namespace-weight", "test/1-24", "--overwrite")
    assert (
        moved.stderr == "note: these namespaces keep their own weights: payments; --no-namespace-weights removes them\n"
    )
    moved = run(directory, "set", "late", "-r", "1-30", "--no-namespace-weights", "--overwrite")
    assert (moved.exit_code, moved.stderr) == (0, "")
    assert "namespaces" not in (directory / "tags.yaml").read_text()


def test_a_shadow_can_be_removed(directory: Path) -> None:
    run(directory, "set", "canary", "-r", "1-24", "--shadow", "1-30", "--salt", "spring")

    assert run(directory, "set", "canary", "-r", "1-24", "--no-shadow", "--overwrite").exit_code == 0
    assert tags_of(directory) == f"{TAGS}canary: {{revision: 1-24, salt: spring}}\n"


@pytest.fixture
def cluster(cluster: FakeApi) -> FakeApi:
    """The cluster with the ConfigMaps of two revisions and the injector's Service."""
    cluster.put(CONFIG_MAPS, *config_maps("1-24"), *config_maps("1-30"))
    cluster.put(SERVICES, INJECTOR)
    return cluster


tag_command = partial(invoke, "tag")
GATEWAYS = Resource("gateway.networking.k8s.io/v1", "gateways", "Gateway", namespaced=True)


def test_without_a_directory_the_tag_is_in_the_cluster(cluster: FakeApi) -> None:
    result = tag_command("set", "prod", "-r", "1-24", "--weight", "1-30=10", "--salt", "spring")

    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith(
        'Revision tag "prod" created, referencing control plane revision "1-24=90,1-30=10".'
    )
    (applied,) = cluster.applied
    assert (applied["metadata"]["name"], applied["metadata"]["labels"]["istio.io/rev"]) == (
        "istio-revision-tag-prod", "1-24",
    )  # fmt: skip
    assert applied["metadata"]["annotations"] == {
        "revision-injector/weights": '{"1-24":90,"1-30":10}',
        "revision-injector/salt": "spring",
    }
    assert json.loads(tag_command("list", "-o", "json").stdout) == [
        {"tag": "prod", "revision": "1-24", "namespaces": [], "weights": {"1-24": 90, "1-30": 10}}
    ]
    assert cluster.requests[-1] == "close"


def test_the_gateways_whose_owner_changes_are_named_before_the_tag_is_written(cluster: FakeApi) -> None:
    cluster.put(GATEWAYS, gateway_of("public", "shop"), gateway_of("waypoint", "shop", class_name="istio-waypoint"))
    cluster.put(NAMESPACES, namespace_of("shop", {"istio.io/rev": "prod"}))
    tag_command("set", "prod", "-r", "1-24")

    named = "  Gateway shop/public (istio): 1-24 to 1-30\n  Gateway shop/waypoint (istio-waypoint): 1-24 to 1-30\n"
    dry = tag_command("set", "prod", "-r", "1-30", "--overwrite", "--dry-run")
    moved = tag_command("set", "prod", "-r", "1-30", "--overwrite")
    assert dry.stderr.startswith("warning: these Gateways change their owner when the tag is written, all at once; ")
    assert dry.stderr.endswith(named)
    assert (moved.exit_code, moved.stderr) == (0, dry.stderr)

    split = tag_command("set", "prod", "-r", "1-30", "--weight", "1-24=40", "--overwrite")
    assert split.stderr == (
        "note: Gateways have no weights: those of the tag belong to 1-30, which has the largest weight\n"
    )
    cluster.refused["list gateways"] = "forbidden"
    unknown = tag_command("set", "prod", "-r", "1-24", "--overwrite")
    assert (unknown.exit_code, unknown.stderr) == (
        0,
        "warning: the Gateways whose owner changes are not known: the API server says no to list gateways\n",
    )


def test_a_tag_that_gateways_name_is_in_use_and_its_removal_names_them(cluster: FakeApi) -> None:
    cluster.put(GATEWAYS, gateway_of("public", "shop", {"istio.io/rev": "prod"}))
    cluster.put(NAMESPACES, namespace_of("shop", {}))
    tag_command("set", "prod", "-r", "1-24")

    refused = tag_command("remove", "prod")
    assert refused.exit_code == 1
    assert 'cannot remove tag "prod": it is in use by gateway shop/public' in refused.stderr
    warning = "warning: these Gateways change their owner when the tag is removed, all at once:\n"
    removed = tag_command("remove", "prod", "--force")
    assert (removed.exit_code, removed.stdout) == (0, "Revision tag prod removed\n")
    assert removed.stderr.startswith(f"{warning}  Gateway shop/public (istio): 1-24 to no revision\n")


def test_gateways_that_may_not_be_listed_do_not_stop_the_removal_of_a_tag(cluster: FakeApi) -> None:
    cluster.put(GATEWAYS, gateway_of("public", "shop", {"istio.io/rev": "prod"}))
    tag_command("set", "prod", "-r", "1-24")
    cluster.refused["list gateways"] = "forbidden"

    removed = tag_command("remove", "prod")
    assert removed.exit_code == 0
    assert "the Gateways whose owner changes are not known" in removed.stderr


def test_a_dry_run_names_the_objects_and_writes_none_without_a_question(cluster: FakeApi) -> None:
    cluster.put(WEBHOOKS, revision_webhook("default", WebhookOptions()))

    result = tag_command("set", "default", "-r", "1-24", "--service", "missing", "--dry-run")

    assert (result.exit_code, cluster.applied) == (0, [])
    assert "control plane service that does not exist" in result.stderr
    assert result.stdout.splitlines() == [
        'Revision tag "default" would be created, referencing control plane revision "1-24".',
        "MutatingWebhookConfiguration istio-revision-tag-default would be written",
        "MutatingWebhookConfiguration istio-sidecar-injector would be written",
    ]


def test_a_moved_tag_of_a_cluster_keeps_its_endpoint(cluster: FakeApi) -> None:
    tag_command("set", "prod", "-r", "1-24", "--url", "https://here:9443", "--failure-policy", "Ignore")

    refused = tag_command("set", "prod", "-r", "1-30")
    assert (refused.exit_code, refused.stdout, len(cluster.applied)) == (1, "", 1)
    assert "already exists, and --overwrite is false; it leads to 1-24" in refused.stderr

    assert tag_command("set", "prod", "-r", "1-30", "--overwrite", "--timeout", "5s").exit_code == 0
    webhook = cluster.applied[-1]["webhooks"][0]
    assert webhook["clientConfig"] == {"url": "https://here:9443/inject/prod"}
    assert (webhook["failurePolicy"], webhook["timeoutSeconds"]) == ("Ignore", 5)
    assert "apply mutatingwebhookconfigurations istio-revision-tag-prod injector-tag force" in cluster.requests


@pytest.mark.parametrize(
    ("flags", "answer", "code", "written"), [([], "n\n", 1, 0), ([], "", 1, 0), ([], "y\n", 0, 1), (["-y"], "", 0, 1)]
)
def test_conflicts_need_confirmation(cluster: FakeApi, flags: list[str], answer: str, code: int, written: int) -> None:
    other = tag_webhook("prod", "1-24", WebhookOptions(), webhook_name="other")
    other["metadata"]["labels"] = {}
    cluster.put(WEBHOOKS, other)

    result = tag_command("set", "prod", "-r", "1-24", *flags, text=answer)

    assert (result.exit_code, len(cluster.applied), bool(result.stdout)) == (code, written, written == 1)
    lines = result.stderr.splitlines()
    others = "other/rev.namespace.sidecar-injector.istio.io"
    overlap = f"Webhook overlaps with others: [{others}]. This may cause injection to occur twice."
    assert lines[:1] == ([] if flags else ["creating tag would conflict, pass --skip-confirmation to proceed:"])
    assert lines[1:2] == (
        [] if flags else [f"Error [IST0139] (MutatingWebhookConfiguration istio-revision-tag-prod) {overlap}"]
    )


@pytest.mark.parametrize("arguments", [("set", "prod", "-r", "1-30", "--overwrite"), ("remove", "prod")])
def test_a_tag_that_an_operator_writes_again_is_named(cluster: FakeApi, arguments: tuple[str, ...]) -> None:
    owned = tag_webhook("prod", "1-24", WebhookOptions())
    owned["metadata"]["ownerReferences"] = [{"kind": "IstioRevisionTag", "name": "prod", "controller": True}]
    cluster.put(WEBHOOKS, owned)

    assert tag_command(*arguments).stderr.splitlines()[0] == (
        "warning: MutatingWebhookConfiguration istio-revision-tag-prod belongs to IstioRevisionTag prod, which writes it again "
        "within seconds; set `spec.targetRef` of the IstioRevisionTag, or use a tag of another name"
    )


def test_generate_checks_what_the_cluster_has_and_writes_nothing(cluster: FakeApi) -> None:
    del cluster.objects["services", "injector-system", "injector"]

    printed = tag_command("generate", "prod", "-r", "1-24", "--webhook-name", "my-hook")
    assert (printed.exit_code, yaml.safe_load(printed.stdout)["metadata"]["name"]) == (0, "my-hook")
    assert printed.stderr.splitlines()[-1] == (
        "Error [IST0139] (MutatingWebhookConfiguration my-hook) Injector refers to a control plane service that does not "
        "exist: injector-system/injector."
    )

    refused = tag_command("generate", "prod", "-r", "1-99")
    assert (refused.exit_code, refused.stdout, cluster.applied) == (1, "", [])
    assert 'with revision "1-99"; known revisions are 1-24, 1-30' in refused.stderr


def test_a_tag_of_a_cluster_is_removed_unless_namespaces_or_pods_name_it(cluster: FakeApi) -> None:
    tag_command("set", "prod", "-r", "1-24")
    label = {"istio.io/rev": "prod"}
    cluster.put(NAMESPACES, {"metadata": {"name": "bank", "labels": label}}, {"metadata": {"name": "free"}})
    cluster.put(PODS, *({"metadata": {"name": f"p-{n:02}", "namespace": "bank", "labels": label}} for n in range(25)))

    refused = tag_command("remove", "prod", "-y")
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert 'cannot remove tag "prod": it is in use by namespace bank, pod bank/p-00, ' in refused.stderr
    assert "pod bank/p-18 and 6 more; " in refused.stderr
    assert f"list pods istio.io/rev=prod,app!=istiod {RUNNING}" in cluster.requests

    assert tag_command("remove", "prod", "--force").output == "Revision tag prod removed\n"
    assert tag_command("list").output == "No Istio revision tags found.\n"
    assert tag_command("remove", "prod", "--force").output == "Revision tag prod does not exist\n"


def test_a_tag_that_cannot_be_read_is_named_and_can_be_removed(cluster: FakeApi) -> None:
    broken = {"revision-injector/weights": "90"}
    cluster.put(WEBHOOKS, tag_webhook("odd", "1-24", WebhookOptions(), annotations=broken))

    listed = tag_command("list")
    assert (listed.exit_code, listed.stdout) == (0, "No Istio revision tags found.\n")
    assert "warning: MutatingWebhookConfiguration istio-revision-tag-odd: revision-injector/weights" in listed.stderr
    assert tag_command("remove", "odd").exit_code == 0


@pytest.mark.parametrize(
    "arguments", [["list"], ["set", "a", "-r", "1-24"], ["remove", "a"], ["generate", "a", "-r", "1-24"]]
)
@cases("request_", "reason", "says")
def test_a_cluster_that_refuses_is_one_line_and_nothing_on_stdout(
    cluster: FakeApi, arguments: list[str], request_: str, reason: str, says: str
) -> None:
    cluster.refused[request_] = reason

    assert_fails(tag_command(*arguments), 1, says)
    assert (cluster.applied, cluster.requests[-1]) == ([], "close")


@pytest.mark.parametrize(
    "arguments", [["list"], ["set", "a", "-r", "b"], ["remove", "a"], ["generate", "a", "-r", "b"]]
)
def test_without_a_directory_and_credentials_it_fails(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))

    result = invoke("tag", *arguments)

    assert_fails(
        result,
        78,
        "kubeconfig: no cluster is configured; give --kubeconfig FILE, or --revisions-dir DIR to work on files",
    )


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A home without a kubeconfig."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)


def place(options: Callable[..., Any], *arguments: str) -> TagLocation:
    """Return the value of the location options."""
    location: TagLocation = parsed(options, *arguments)["location"]
    return location


def test_without_a_directory_tags_are_in_the_cluster() -> None:
    mesh = WebhookOptions(istio_namespace="mesh")

    assert place(location_options) == TagLocation(None, Kubeconfig(), WebhookOptions())
    flags = ("-c", "x", "--context", "y", "-i", "mesh")
    assert place(location_options, *flags) == TagLocation(None, Kubeconfig((Path("x"),), "y"), mesh)
    named = place(write_options, "--webhook-name", "my-hook", "-i", "mesh")
    assert named == TagLocation(None, Kubeconfig(), mesh, "my-hook")


def test_webhook_flags_have_an_effect_on_printed_objects() -> None:
    location = place(write_options, "--revisions-dir", "x", "-i", "mesh", "--service", "our")

    assert (location.directory, location.options.endpoint.service) == (Path("x"), "our")
    assert location.options.istio_namespace == "mesh"


def test_a_kubeconfig_in_the_environment_does_not_conflict_with_a_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "x")

    assert place(location_options, "--revisions-dir", "x").directory == Path("x")


@pytest.mark.parametrize("name", ["my-hook", "a.b-c.d", "a" * 253])
def test_valid_webhook_names_are_accepted(name: str) -> None:
    assert place(write_options, "--webhook-name", name).webhook_name == name


@pytest.mark.parametrize("name", ["", "A", "a..b", "-a", "a.", "a" * 254])
def test_invalid_webhook_names_are_refused(name: str) -> None:
    with pytest.raises(InjectorError, match="is not a valid name of a MutatingWebhookConfiguration"):
        place(write_options, "--webhook-name", name)
