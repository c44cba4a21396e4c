from __future__ import annotations

from typing import Any

import pytest

from injector.cluster.reader import CONFIG_MAPS, NAMESPACES, PODS, SERVICES, WEBHOOKS
from injector.errors import ClusterError, TagError
from injector.istio.webhooks import Endpoint, WebhookOptions, revision_webhook, tag_webhook
from injector.revisions.clustertags import ClusterTags
from injector.revisions.tagplan import Placement
from injector.revisions.tags import Tag
from injector.revisions.tagstore import TagStore, remove_tag, set_tag
from tests.cluster.objects import Direct, Objects
from tests.revisions.fakes import CONFIG

HOME = "istio-system"
OPTIONS = WebhookOptions()
PROD = Tag("prod", (("1-24", 1),))
MINE = "mutatingwebhookconfigurations"


@pytest.fixture
def objects() -> Objects:
    """A cluster with one revision of ConfigMaps, one of a webhook, half a one, and the injector's Service."""
    made = Objects()
    for name, data in (
        ("istio-sidecar-injector-1-24", {"config": CONFIG}),
        ("istio-1-24", {"mesh": "{}"}),
        ("istio-sidecar-injector-half", {"config": CONFIG}),
        ("istio-ca-root-cert", {"root-cert.pem": "x"}),
    ):
        labels = {"istio.io/rev": "x"}
        made.put(CONFIG_MAPS, {"metadata": {"name": name, "namespace": HOME, "labels": labels}, "data": data})
    made.put(WEBHOOKS, revision_webhook("1-30", OPTIONS))
    made.put(SERVICES, {"metadata": {"name": "injector", "namespace": "injector-system"}})
    return made


@pytest.fixture
def tags(objects: Objects) -> ClusterTags:
    return ClusterTags(Direct(objects), HOME)


def namespace(name: str, **labels: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": {key.replace("_", "-"): value for key, value in labels.items()}}}


def named(name: str, revision: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": {"istio.io/rev": revision}}}


def test_revisions_are_those_of_config_maps_and_of_webhooks(tags: ClusterTags) -> None:
    state = tags.list()

    assert (state.revisions, list(state.broken), dict(state.tags)) == (("1-24", "1-30"), ["half"], {})


def test_it_is_a_store_of_tags(tags: ClusterTags, objects: Objects) -> None:
    store: TagStore = tags
    set_tag(store, PROD)

    with pytest.raises(TagError, match="already exists, and --overwrite is false; it leads to 1-24"):
        set_tag(store, PROD)
    set_tag(store, Tag("prod", (("1-24", 9), ("1-30", 1)), "s"), overwrite=True)
    assert store.list().tags == {"prod": Tag("prod", (("1-24", 9), ("1-30", 1)), "s")}
    remove_tag(store, "prod")
    assert (dict(store.list().tags), len(objects.applied)) == ({}, 2)


def test_a_tag_that_is_new_takes_nothing_by_force_and_is_one_request(tags: ClusterTags, objects: Objects) -> None:
    tags.list()
    objects.asked.clear()

    tags.set(PROD)

    assert objects.asked == ["get services injector", f"apply {MINE} istio-revision-tag-prod injector-tag"]


def test_the_default_revision_is_deactivated_after_the_tag_is_there(tags: ClusterTags, objects: Objects) -> None:
    objects.put(WEBHOOKS, revision_webhook("default", OPTIONS))
    tags.list()
    objects.asked.clear()

    tags.set(Tag("default", (("1-24", 1),)))

    assert objects.asked[1:] == [
        f"apply {MINE} istio-sidecar-injector injector-tag force dry",
        f"apply {MINE} istio-revision-tag-default injector-tag",
        f"apply {MINE} istio-sidecar-injector injector-tag force",
    ]


def test_a_default_revision_that_cannot_be_deactivated_keeps_the_tag_from_being_set(
    tags: ClusterTags, objects: Objects
) -> None:
    objects.put(WEBHOOKS, revision_webhook("default", OPTIONS))
    tags.list()
    objects.put(WEBHOOKS, revision_webhook("default", OPTIONS))  # changed meanwhile

    with pytest.raises(ClusterError, match="modified"):
        tags.set(Tag("default", (("1-24", 1),)))
    assert objects.applied == []


def test_a_tag_that_changed_meanwhile_is_not_moved(tags: ClusterTags, objects: Objects) -> None:
    set_tag(tags, PROD)
    tags.list()
    objects.put(WEBHOOKS, tag_webhook("prod", "1-30", OPTIONS))

    with pytest.raises(ClusterError, match="modified"):
        tags.set(PROD)


@pytest.mark.parametrize(
    ("refused", "options", "conflicts"),
    [
        ({}, OPTIONS, 0),
        ({}, WebhookOptions(Endpoint("other")), 1),
        ({}, WebhookOptions(Endpoint(url="https://here")), 0),
        ({"get services": "forbidden"}, WebhookOptions(Endpoint("other")), 0),
    ],
)
def test_a_service_that_is_not_there_speaks_against_a_tag(
    objects: Objects, refused: dict[str, str], options: WebhookOptions, conflicts: int
) -> None:
    objects.refused = refused
    tags = ClusterTags(Direct(objects), HOME, Placement(lambda _: options))
    tags.list()

    found = tags.plan(PROD).conflicts

    assert len(found) == conflicts
    assert all(each.endswith("service that does not exist: injector-system/other.") for each in found)


def test_an_api_server_that_is_away_is_no_missing_service(objects: Objects) -> None:
    tags = ClusterTags(Direct(objects), HOME)
    tags.list()
    objects.refused = {"get services": "unreachable"}

    with pytest.raises(ClusterError):
        tags.plan(PROD)


def test_users_are_namespaces_and_pods_by_label_and_nothing_else_is_asked_for(
    tags: ClusterTags, objects: Objects
) -> None:
    objects.put(NAMESPACES, named("bank", "prod"), named("shop", "other"), namespace("old", istio_injection="enabled"))
    objects.put(PODS, {"metadata": {"name": "p", "namespace": "shop", "labels": {"istio.io/rev": "prod"}}})

    assert str(tags.users("prod")) == "namespace bank, pod shop/p"
    assert str(tags.users("default")) == "namespace old"
    assert objects.asked == [
        "list namespaces istio.io/rev=prod",
        "list pods istio.io/rev=prod",
        "list namespaces istio.io/rev=default",
        "list namespaces istio-injection=enabled,istio.io/rev!=default",
        "list pods istio.io/rev=default",
    ]


def test_a_namespace_that_asks_for_the_default_in_two_ways_is_one_user(tags: ClusterTags, objects: Objects) -> None:
    objects.put(
        NAMESPACES, {"metadata": {"name": "a", "labels": {"istio.io/rev": "default", "istio-injection": "enabled"}}}
    )

    assert str(tags.users("default")) == "namespace a"


def test_namespaces_are_listed_by_what_they_follow(tags: ClusterTags, objects: Objects) -> None:
    objects.put(NAMESPACES, named("bank", "prod"), namespace("old", istio_injection="enabled"), namespace("none"))

    assert tags.namespaces() == {"prod": ("bank",), "default": ("old",)}


def test_every_object_of_a_tag_is_removed(tags: ClusterTags, objects: Objects) -> None:
    for name in ("a", "b"):
        objects.put(WEBHOOKS, tag_webhook("prod", f"1-{name}", OPTIONS, webhook_name=name))

    remove_tag(tags, "prod")

    assert [name for plural, name in objects.items if plural == MINE] == ["istio-sidecar-injector-1-30"]


def test_a_revision_is_removed_with_its_webhooks_and_without_its_config_maps(
    tags: ClusterTags, objects: Objects
) -> None:
    tags.list()
    tags.remove_revision("1-30")

    assert [name for plural, name in objects.items if plural == MINE] == []
    with pytest.raises(
        TagError, match='cannot remove revision "1-24": it has no MutatingWebhookConfiguration; its ConfigMaps'
    ):
        tags.remove_revision("1-24")


def test_a_revisions_configuration_is_written_as_its_own_manager(tags: ClusterTags, objects: Objects) -> None:
    tags.refresh()
    tags.write_revision(revision_webhook("1-24", OPTIONS), dry_run=True)
    tags.write_revision(revision_webhook("1-24", OPTIONS), force=True)

    assert objects.asked[1:] == [
        f"apply {MINE} istio-sidecar-injector-1-24 injector-webhook dry",
        f"apply {MINE} istio-sidecar-injector-1-24 injector-webhook force",
    ]


def test_a_tag_that_moves_is_not_forced_where_that_is_not_wanted(tags: ClusterTags, objects: Objects) -> None:
    set_tag(tags, PROD)
    tags.list()
    plan = tags.plan(PROD)
    objects.asked.clear()

    tags.write(plan, force=False, dry_run=True)
    tags.write(plan)

    assert objects.asked == [
        f"apply {MINE} istio-revision-tag-prod injector-tag dry",
        f"apply {MINE} istio-revision-tag-prod injector-tag force",
    ]
