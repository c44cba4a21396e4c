from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from injector.cli.clusterview import Sources, read_surroundings
from injector.cli.route import Labels, Routed, asked_name, called_last, live_route, served_names
from injector.injection.tools.explain import Trace
from injector.istio.webhooks import Endpoint, WebhookOptions, live_webhooks, revision_webhook, tag_webhook
from injector.revisions.tags import choose
from tests.cli.clusters import HOME, REV, cluster, labelled, revision, tag
from tests.revisions.fakes import CONFIG

if TYPE_CHECKING:
    from pathlib import Path

    from injector.cli.clusterview import Surroundings

OBJECTS = (*revision("1-24", "1.24.6"), *revision("1-30", "1.30.1"), tag("prod", "1-24"))


def around(*objects: dict[str, Any], revisions_dir: Path | None = None) -> Surroundings:
    return asyncio.run(read_surroundings(cluster(*objects), Sources(revisions_dir, HOME), None))


def labels(namespace: dict[str, str] | None = None, pod: dict[str, str] | None = None) -> Labels:
    return Labels(namespace or {}, pod or {}, workload=("shop", "Deployment", "web"))


def routed(given: Labels, *objects: dict[str, Any]) -> Routed:
    found = live_route(around(*(objects or OBJECTS)), given)
    assert isinstance(found, Routed)
    return found


def ends(given: Labels, *objects: dict[str, Any]) -> Trace:
    found = live_route(around(*(objects or OBJECTS)), given)
    assert isinstance(found, Trace)
    return found


def istiods(name: str, *, tagged: str = "") -> dict[str, Any]:
    """A configuration as Istio installs it: the Service tells the revision, the path does not."""
    options = WebhookOptions()
    made = tag_webhook(tagged, name, options) if tagged else revision_webhook(name, options)
    for webhook in made["webhooks"]:
        webhook["clientConfig"] = {"service": {"name": f"istiod-{name}", "namespace": HOME, "path": "/inject"}}
    return made


def test_the_webhook_that_is_called_leads_by_its_path() -> None:
    found = routed(labels({REV: "prod"}))

    assert (found.raw.name, found.tag) == ("1-24", "prod")
    assert found.steps[0].detail == (
        "rev.namespace.sidecar-injector.istio.io of istio-revision-tag-prod is called for the namespace's "
        "istio.io/rev=prod, with path /inject/prod"
    )
    assert found.steps[1].detail == "prod is a tag of 1-24"
    assert [step.source for step in found.steps] == [
        "MutatingWebhookConfiguration istio-revision-tag-prod",
        "the label istio.io/tag of the mutatingwebhookconfigurations",
    ]


@pytest.mark.parametrize(("name", "tagged"), [("1-30", ""), ("1-24", "old")])
def test_a_path_without_a_name_means_the_revision_of_its_configuration(name: str, tagged: str) -> None:
    webhook = istiods(name, tagged=tagged)
    config_maps = [each for each in OBJECTS if each["kind"] == "ConfigMap"]

    found = routed(labels({REV: tagged or name}), *config_maps, webhook)

    assert (found.raw.name, found.tag) == (name, None)


def test_what_the_path_adds_to_the_proxy_goes_along() -> None:
    options = WebhookOptions(Endpoint(url="https://example.com/inject/1-24"))
    webhook = revision_webhook("1-24", options)
    for each in webhook["webhooks"]:
        each["clientConfig"]["url"] += "/cluster/east/net/n1"

    found = routed(labels({REV: "1-24"}), *OBJECTS[:2], webhook)

    assert found.envs == {"ISTIO_META_CLUSTER_ID": "east", "ISTIO_META_NETWORK": "n1"}


def test_of_two_that_are_called_the_last_decides() -> None:
    second = {**revision_webhook("1-30", WebhookOptions()), "metadata": {"name": "z"}}
    second["webhooks"][0]["namespaceSelector"] = {}
    second["webhooks"][0]["matchConditions"] = [{"name": "x", "expression": "true"}]

    found = routed(labels({REV: "1-24"}), *OBJECTS, second)

    assert found.raw.name == "1-30"
    assert found.steps[0].detail == (
        "rev.namespace.sidecar-injector.istio.io of z is called for every pod of its selectors, with path /inject/1-30; "
        "before it rev.namespace.sidecar-injector.istio.io of istio-sidecar-injector-1-24, "
        "whose injection it takes the place of; its matchConditions are not judged here"
    )


def test_a_tag_with_weights_deals_by_the_workload(tmp_path: Path) -> None:
    for name in ("1-24", "1-30"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config").write_text(CONFIG)
    (tmp_path / "tags.yaml").write_text("prod: {1-24: 50, 1-30: 50}\n")
    given = labels({REV: "prod"})

    found = live_route(around(*OBJECTS, revisions_dir=tmp_path), given)

    assert isinstance(found, Routed)
    assert found.raw.name == choose((("1-24", 50), ("1-30", 50)), "prod", given.workload)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (labels({REV: "gone"}), "the namespace's label istio.io/rev names `gone`, which is not served"),
        (labels(), "the namespace has neither istio-injection nor istio.io/rev"),
        (labels({REV: "prod"}, {"sidecar.istio.io/inject": "false"}), "the pod's label sidecar.istio.io/inject"),
    ],
)
def test_where_none_is_called_the_labels_tell_why_and_the_nearest_is_named(given: Labels, says: str) -> None:
    found = ends(given)

    assert (found.outcome, found.reason) == ("skipped", "no_webhook")
    assert says in found.steps[0].detail
    assert "; nearest is rev." in found.steps[0].detail


def test_without_any_webhook_that_is_said() -> None:
    assert ends(labels(), *OBJECTS[:2]).steps[0].detail == (
        "none is called: no webhook of the cluster calls an injector"
    )


@pytest.mark.parametrize(("path", "reason"), [("/inject/No_Name", "webhook"), ("/inject/gone", "revision")])
def test_a_path_that_nobody_serves_refuses_the_pod(path: str, reason: str) -> None:
    webhook = istiods("1-24")
    for each in webhook["webhooks"]:
        each["clientConfig"]["service"]["path"] = path

    found = ends(labels({REV: "1-24"}), *OBJECTS[:2], webhook)

    assert (found.outcome, found.reason) == ("refused", reason)


def test_the_names_that_are_served_are_of_paths_tags_and_revisions() -> None:
    found = live_webhooks([istiods("1-24"), istiods("1-24", tagged="old"), tag("prod", "1-24")])

    assert served_names(found) == {"1-24", "old", "prod"}


@pytest.mark.parametrize(
    ("given", "name"),
    [
        (labels({REV: "prod"}), "prod"),
        (labels({REV: "gone"}), "gone"),
        (labels({"istio-injection": "enabled"}), "default"),
        (labels({}, {REV: "gone"}), "gone"),
        (labels(), None),
        (labels({REV: "gone"}, {"sidecar.istio.io/inject": "false"}), None),
    ],
)
def test_what_is_asked_for_is_told_by_webhook_or_labels(given: Labels, name: str | None) -> None:
    webhooks = around(*OBJECTS, labelled("shop", "prod")).webhooks

    assert asked_name(webhooks, given) == name
    assert (called_last(webhooks, given) is not None) == (name == "prod")
