"""``injector uninstall``: which webhooks go, in which order, and what is warned of."""

from __future__ import annotations

import copy
from functools import partial
from typing import Any

import pytest

from injector.cluster.resources import CONFIG_MAPS, NAMESPACES, PODS, SECRETS, SERVICES, VALIDATORS, WEBHOOKS, Resource
from injector.istio.webhooks.configurations import (
    Endpoint,
    WebhookOptions,
    deactivate,
    revision_webhook,
    tag_webhook,
    unserved_webhook,
)
from injector.istio.webhooks.tagobjects import default_validator, tag_service
from tests.cli.clusters import INJECTOR, assert_fails, config_maps, invoke, labelled, namespace
from tests.cluster.fakeapi import FakeApi
from tests.manifests import gateway_of

PLAIN = WebhookOptions()
ISTIOD = WebhookOptions(endpoint=Endpoint("istiod", "istio-system"))
NOTHING = "Nothing calls the injector: you can remove it, for example with `helm uninstall`\n"


uninstall = partial(invoke, "uninstall")


GATEWAYS = Resource("gateway.networking.k8s.io/v1", "gateways", "Gateway", namespaced=True)


def written_by(configuration: dict[str, Any], *names: str, bundle: str = "injector-ca-bundle") -> dict[str, Any]:
    """The configuration as these managers created it, and another one that wrote only a caBundle."""

    def entry(manager: str, fields: dict[str, Any]) -> dict[str, Any]:
        webhooks = {f'k:{{"name":"{webhook["name"]}"}}': fields for webhook in configuration["webhooks"]}
        return {"manager": manager, "operation": "Apply", "fieldsV1": {"f:webhooks": {".": {}, **webhooks}}}

    managed = copy.deepcopy(configuration)
    managed["metadata"]["managedFields"] = [entry(name, {"f:rules": {}, "f:sideEffects": {}}) for name in names]
    managed["metadata"]["managedFields"].append(entry(bundle, {"f:rules": {}, "f:clientConfig": {"f:caBundle": {}}}))
    return managed


def of_tag(name: str, *managers: str, options: WebhookOptions = PLAIN) -> dict[str, Any]:
    return written_by(tag_webhook(name, "1-24", options), *managers)


def of_revision(name: str, *managers: str) -> dict[str, Any]:
    return written_by(revision_webhook(name, PLAIN), *managers)


@pytest.fixture
def cluster(cluster: FakeApi) -> FakeApi:
    """The cluster with a revision, and the CA of an injector that is gone."""
    cluster.put(CONFIG_MAPS, *config_maps("1-24"))
    secret = {"name": "injector-ca", "namespace": "injector-system", "managedFields": [{"manager": "injector-ca"}]}
    cluster.put(SECRETS, {"metadata": secret})
    return cluster


def deleted(objects: FakeApi) -> list[str]:
    return [call.removeprefix("delete ") for call in objects.requests if call.startswith("delete ")]


def test_webhooks_are_deleted_before_the_other_objects_of_tags_and_the_ca(cluster: FakeApi) -> None:
    cluster.put(WEBHOOKS, of_revision("1-24", "injector-webhook"), of_tag("prod", "injector-tag"))
    cluster.put(WEBHOOKS, written_by(unserved_webhook("deny", PLAIN), "injector-webhook"))
    cluster.put(SERVICES, tag_service("prod", "1-24", "istio-system"))

    result = uninstall("-y")

    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == (
        "delete MutatingWebhookConfiguration injector-unserved\n"
        "delete MutatingWebhookConfiguration istio-revision-tag-prod\n"
        "delete MutatingWebhookConfiguration istio-sidecar-injector-1-24\n"
        "delete Service istio-system/istiod-revision-tag-prod\n"
        "delete Secret injector-system/injector-ca\n"
        "5 objects deleted\n" + NOTHING
    )
    assert [line.rpartition(" ")[2] for line in deleted(cluster)] == [
        *("injector-unserved", "istio-revision-tag-prod", "istio-sidecar-injector-1-24"),
        *("istiod-revision-tag-prod", "injector-ca"),
    ]


@pytest.mark.parametrize(
    ("flags", "tried"), [(["--dry-run"], 0), (["--dry-run=client"], 0), (["--dry-run", "server"], 2)]
)
def test_a_dry_run_prints_the_same_and_deletes_nothing(cluster: FakeApi, flags: list[str], tried: int) -> None:
    cluster.put(WEBHOOKS, of_tag("prod", "injector-tag"))
    cluster.put(NAMESPACES, labelled("shop", "prod"))
    cluster.put(PODS, {"metadata": {"name": "web", "namespace": "edge", "labels": {"istio.io/rev": "prod"}}})

    result = uninstall(*flags)

    assert sum(call.startswith("try to delete") for _, call in cluster.calls) == tried
    assert result.exit_code == 0
    assert result.stdout == (
        "delete MutatingWebhookConfiguration istio-revision-tag-prod\ndelete Secret injector-system/injector-ca\n"
    )
    assert result.stderr == (
        "warning: without an injector: namespace shop, pod edge/web; "
        "`istioctl tag set prod --revision 1-24 --overwrite` leads them to istiod without a gap\n"
    )
    assert deleted(cluster) == []


def test_webhooks_in_use_are_deleted_only_by_force(cluster: FakeApi) -> None:
    cluster.put(WEBHOOKS, of_revision("1-24", "injector-webhook"))
    cluster.put(NAMESPACES, *(labelled(f"shop-{number}", "1-24") for number in range(7)))

    refused = uninstall("-y")
    assert refused.exit_code == 1
    first, last = refused.stderr.splitlines()
    assert "namespace shop-4 and 2 more; label them with a tag of istiod first" in first
    assert last == "error: cannot uninstall: the webhooks are in use; follow the warnings, or give --force"
    assert deleted(cluster) == []

    assert uninstall("-y", "--force").exit_code == 0
    assert len(deleted(cluster)) == 2


def test_a_gateway_that_names_a_tag_is_a_user_too(cluster: FakeApi) -> None:
    cluster.put(WEBHOOKS, of_tag("prod", "injector-tag"))
    cluster.put(GATEWAYS, gateway_of("public", "shop", {"istio.io/rev": "prod"}))

    refused = uninstall("-y")
    assert refused.exit_code == 1
    assert "gateway shop/public; `istioctl tag set prod --revision 1-24 --overwrite`" in refused.stderr


def test_it_asks_unless_told_not_to(cluster: FakeApi) -> None:
    cluster.put(WEBHOOKS, of_tag("prod", "injector-tag"))

    for answer in ("n\n", ""):
        refused = uninstall(text=answer)
        assert (refused.exit_code, "Delete 2 objects? [y/N]" in refused.stderr) == (1, True)
        assert refused.stderr.endswith("\nAborting operation.\n")
    assert deleted(cluster) == []
    assert uninstall(text="y\n").exit_code == 0
    assert len(deleted(cluster)) == 2


@pytest.mark.parametrize(
    ("configuration", "says"),
    [
        (
            of_tag("prod", "istioctl", "injector-tag"),
            "istio-revision-tag-prod: the injector did not create it; run `istioctl tag set prod --revision 1-24 --overwrite`",
        ),
        (
            of_revision("1-24", "injector-webhook", "kubectl"),
            "the injector did not create it; apply Istio's own webhooks of revision 1-24 with kubectl again, or delete it",
        ),
        (of_revision("1-24"), "webhooks of revision 1-24 with an unknown tool again, or delete it"),
    ],
)
def test_webhooks_of_others_that_call_the_injector_are_handed_back(
    cluster: FakeApi, configuration: dict[str, Any], says: str
) -> None:
    cluster.put(WEBHOOKS, configuration)

    result = uninstall("-y")

    assert result.exit_code == 1
    assert says in result.stdout
    assert "keep Secret injector-system/injector-ca: the injector still uses it" in result.stdout
    assert result.stderr == (
        "error: 1 webhook configurations of others still call the injector; hand them back before you remove the injector\n"
    )
    assert deleted(cluster) == []


def test_the_release_of_a_helm_chart_is_named(cluster: FakeApi) -> None:
    theirs = of_revision("1-24", "helm", "injector-webhook")
    theirs["metadata"]["annotations"] = {"meta.helm.sh/release-name": "istiod-1-24"}
    cluster.put(WEBHOOKS, theirs)

    assert (
        "the injector did not create it; run `helm upgrade` for the release istiod-1-24, without the injector's address"
        in uninstall("--dry-run").stdout
    )


def test_webhooks_of_istiod_and_of_other_injectors_do_not_count(cluster: FakeApi) -> None:
    elsewhere = WebhookOptions(endpoint=Endpoint("injector", "two"))
    by_url = WebhookOptions(endpoint=Endpoint(url="https://injector.example"))
    back = of_tag("prod", "injector-tag", "istioctl", options=ISTIOD)
    for webhook in back["webhooks"]:
        webhook["clientConfig"]["service"]["path"] = "/inject"
    cluster.put(WEBHOOKS, back, of_tag("two", "injector-tag", options=elsewhere))
    cluster.put(WEBHOOKS, of_tag("three", "injector-tag", options=by_url))
    cluster.put(SERVICES, INJECTOR)

    result = uninstall()
    assert result.exit_code == 0
    assert result.stdout == (
        "keep Secret injector-system/injector-ca: the injector still uses it; "
        "remove the injector, and run this command again\n" + NOTHING
    )

    flags = ("--service-namespace", "two", "--dry-run")
    assert uninstall(*flags).stdout == "delete MutatingWebhookConfiguration istio-revision-tag-two\n"
    flags = ("--url", "https://injector.example", "--dry-run")
    assert "delete MutatingWebhookConfiguration istio-revision-tag-three\n" in uninstall(*flags).stdout
    flags = ("--url", "https://injector.ex", "--dry-run")
    assert "istio-revision-tag-three" not in uninstall(*flags).stdout


def test_the_default_tag_goes_with_its_validator_and_names_its_old_revision(cluster: FakeApi) -> None:
    cluster.put(WEBHOOKS, of_tag("default", "injector-tag"))
    cluster.put(WEBHOOKS, written_by(deactivate(revision_webhook("default", ISTIOD)), "helm"))
    validator = default_validator("1-31", "istio-system")
    cluster.put(VALIDATORS, validator)
    cluster.put(NAMESPACES, namespace("shop", **{"istio-injection": "enabled"}))

    result = uninstall("--dry-run")

    assert "delete ValidatingWebhookConfiguration istiod-default-validator\n" in result.stdout
    assert (
        "keep MutatingWebhookConfiguration istio-sidecar-injector: it selects no pods; install its revision again\n"
        in result.stdout
    )
    assert "warning: without an injector: namespace shop; `istioctl tag set default --revision 1-24" in result.stderr


@pytest.mark.parametrize("kind", ["services", "validatingwebhookconfigurations"])
def test_an_uninstallation_that_failed_after_the_webhooks_can_be_repeated(cluster: FakeApi, kind: str) -> None:
    validator, service = default_validator("1-31", "istio-system"), tag_service("default", "1-31", "istio-system")
    for item in (validator, service):
        item["metadata"]["managedFields"] = [{"manager": "injector-tag"}]
    foreign = tag_service("other", "1-24", "istio-system")
    cluster.put(WEBHOOKS, of_tag("default", "injector-tag"))
    cluster.put(VALIDATORS, validator)
    cluster.put(SERVICES, service, foreign)
    cluster.refused[f"delete {kind}"] = "forbidden"
    assert uninstall("-y").exit_code == 1
    assert not any(plural == "mutatingwebhookconfigurations" for plural, _, _ in cluster.objects)

    cluster.refused.clear()
    again = uninstall("-y")
    assert again.exit_code == 0
    names = {name for plural, _, name in cluster.objects if plural != "configmaps"}
    assert names == {"istiod-revision-tag-other"}


def test_a_foreign_secret_stays(cluster: FakeApi) -> None:
    cluster.objects["secrets", "injector-system", "injector-ca"]["metadata"]["managedFields"] = [{"manager": "kubectl"}]

    assert uninstall().stdout == NOTHING


def test_wrong_flags_are_one_line(cluster: FakeApi) -> None:
    assert cluster.requests == []
    assert_fails(
        uninstall("--service-namespace", "Not_one"), 64, "--service-namespace: 'Not_one' is not a valid namespace"
    )
    assert_fails(uninstall("--service", ""), 64, "--service: '' is not a valid Service name")
    assert_fails(
        uninstall("--url", ""), 64, "--url: not a URL that the API server accepts: it does not begin with https://"
    )
