"""Tags as webhook configurations of a cluster: set, moved and removed."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest

from injector.cluster.resources import CONFIG_MAPS, NAMESPACES, PODS, RUNNING, SERVICES, WEBHOOKS, Resource
from injector.errors import ClusterError, TagError
from injector.injection.steps.status import STATUS
from injector.istio.labels import REVISION_LABEL
from injector.istio.webhooks.configurations import Endpoint, WebhookOptions, deactivate, revision_webhook, tag_webhook
from injector.istio.webhooks.tagobjects import tag_service
from injector.revisions.clustertags import ClusterTags, Configurations, Placement, plan_revision, plan_tag
from injector.revisions.tags import Tag
from injector.revisions.tagstore import TagStore, check_removable, check_tag, remove_tag
from tests.cli.clusters import INJECTOR, config_maps, labelled, namespace
from tests.cluster.fakeapi import Direct, FakeApi
from tests.istio.goldens import golden
from tests.manifests import config_map
from tests.revisions.fakes import VALUES

HERE = WebhookOptions(Endpoint("our", "ours", 8443), failure_policy="Ignore", timeout=7)
PROD = Tag("prod", (("1-24", 1),))
DEFAULT = Tag("default", (("1-24", 1),))
CERT_MANAGER = "cert-manager.io/inject-ca-from"


def whole(options: WebhookOptions) -> dict[str, Any]:
    """The flags that set every option."""
    return {field.name: getattr(options, field.name) for field in fields(options)}


def stored(configuration: dict[str, Any], **annotations: str) -> dict[str, Any]:
    """A configuration as a cluster has it."""
    metadata = {**configuration["metadata"], "resourceVersion": "7", "managedFields": []}
    return {**configuration, "metadata": {**metadata, **({"annotations": annotations} if annotations else {})}}


def configurations(*items: dict[str, Any]) -> Configurations:
    return Configurations(tuple(items))


def test_a_tag_of_a_revision_without_a_configuration_is_as_the_flags_say() -> None:
    plan = plan_tag(PROD, configurations(), Placement(whole(HERE), name="my-hook"))

    assert plan.manifest == tag_webhook("prod", "1-24", HERE, webhook_name="my-hook")
    assert (plan.applied, plan.current, plan.conflicts, plan.deactivation) == (plan.manifest, None, (), None)


def test_a_new_tag_inherits_from_its_revisions_configuration() -> None:
    trusted = replace(HERE, ca_bundle="Q0E=")
    annotations = {
        CERT_MANAGER: "a/b",
        "kubectl.kubernetes.io/last-applied-configuration": "{}",
        "meta.helm.sh/release-name": "istiod-1-24",
        "meta.helm.sh/release-namespace": "istio-system",
        "helm.sh/resource-policy": "keep",
        "argocd.argoproj.io/tracking-id": "istiod:admissionregistration.k8s.io/MutatingWebhookConfiguration:/x",
        "config.k8s.io/owning-inventory": "id",
        "objectset.rio.cattle.io/applied": "x",
        "revision-injector/salt": "x",
    }
    plan = plan_tag(PROD, configurations(stored(revision_webhook("1-24", trusted), **annotations)), Placement())

    assert plan.manifest == tag_webhook("prod", "1-24", trusted, annotations={CERT_MANAGER: "a/b"})


def test_a_url_that_is_copied_is_the_tags_own() -> None:
    by_url = revision_webhook("1-24", WebhookOptions(Endpoint(url="https://here:9443")))
    client = plan_tag(PROD, configurations(stored(by_url)), Placement()).manifest["webhooks"][0]["clientConfig"]

    assert client == {"url": "https://here:9443/inject/prod"}


def test_a_bundle_is_inherited_only_for_the_same_server_and_if_wanted() -> None:
    canonical = configurations(stored(revision_webhook("1-24", replace(HERE, ca_bundle="Q0E="))))

    for placement in (Placement(whole(WebhookOptions())), Placement(inherit_bundle=False)):
        assert plan_tag(PROD, canonical, placement).options.ca_bundle is None


def test_istiods_own_configuration_is_not_inherited() -> None:
    plan = plan_tag(PROD, configurations(stored(golden("revision-1-24"), **{CERT_MANAGER: "a/b"})), Placement())

    assert plan.manifest == tag_webhook("prod", "1-24", WebhookOptions())
    assert plan.conflicts == ()


def test_a_tag_that_moves_stays_in_its_object_and_sends_its_pods_where_it_did() -> None:
    current = stored(tag_webhook("prod", "1-30", HERE, webhook_name="my-hook"), **{CERT_MANAGER: "a/b"})
    plan = plan_tag(PROD, configurations(current), Placement())

    expected = tag_webhook("prod", "1-24", HERE, webhook_name="my-hook", annotations={CERT_MANAGER: "a/b"})
    assert plan.manifest == expected
    assert plan.current is not None
    assert plan.applied["metadata"]["resourceVersion"] == "7"


def test_weights_and_salt_are_written_as_annotations() -> None:
    plan = plan_tag(Tag("prod", (("1-24", 9), ("1-30", 1)), "spring"), configurations(), Placement())

    assert plan.manifest["metadata"]["annotations"] == {
        "revision-injector/weights": '{"1-24":9,"1-30":1}',
        "revision-injector/salt": "spring",
    }


def test_the_default_tag_ends_the_webhooks_of_the_default_revision() -> None:
    revision = stored(revision_webhook("default", WebhookOptions()))
    plan = plan_tag(DEFAULT, configurations(revision), Placement())

    never = {"matchLabels": {"istio.io/deactivated": "never-match"}}
    assert plan.conflicts == ()
    assert plan.deactivation == {
        "metadata": {"name": "istio-sidecar-injector", "resourceVersion": "7"},
        "webhooks": [
            {"name": webhook["name"], "namespaceSelector": never, "objectSelector": never}
            for webhook in revision["webhooks"]
        ],
    }
    assert plan_tag(DEFAULT, configurations(deactivate(revision)), Placement()).deactivation is None
    assert plan_tag(PROD, configurations(revision), Placement()).deactivation is None


def test_overlapping_selectors_are_a_conflict() -> None:
    other = stored(tag_webhook("prod", "1-30", WebhookOptions(), webhook_name="other"))
    other["metadata"]["labels"] = {}

    conflicts = plan_tag(PROD, configurations(other), Placement()).conflicts

    for webhook, conflict in zip(("rev.namespace", "rev.object"), conflicts, strict=True):
        assert f"overlaps with others: [other/{webhook}.sidecar-injector.istio.io]" in conflict


@pytest.mark.parametrize(
    ("tag", "items", "name", "says"),
    [
        (
            PROD,
            [tag_webhook("prod", "1-24", HERE, webhook_name=name) for name in ("a", "b")],
            None,
            'cannot modify tag "prod": several MutatingWebhookConfigurations have it: a, b; delete all but one',
        ),
        (
            PROD,
            [tag_webhook("prod", "1-24", HERE)],
            "my-hook",
            'cannot modify tag "prod": it is in MutatingWebhookConfiguration istio-revision-tag-prod; leave out --webhook-name',
        ),
        (
            PROD,
            [{"metadata": {"name": "my-hook"}}],
            "my-hook",
            "MutatingWebhookConfiguration my-hook exists and does not belong to this tag; give another --webhook-name",
        ),
        (
            DEFAULT,
            [revision_webhook("default", HERE), revision_webhook("default", replace(HERE, istio_namespace="mesh"))],
            None,
            "expected a single webhook for default revision; found multiple canonical webhooks or services",
        ),
    ],
)
def test_a_tag_that_needs_several_writes_is_refused(
    tag: Tag, items: list[dict[str, Any]], name: str | None, says: str
) -> None:
    with pytest.raises(TagError) as caught:
        plan_tag(tag, configurations(*map(stored, items)), Placement(name=name))

    assert says in str(caught.value)


def test_a_revision_with_several_configurations_is_an_error() -> None:
    mesh = replace(HERE, istio_namespace="mesh")
    known = configurations(
        revision_webhook("1-24", HERE),
        revision_webhook("1-30", HERE),
        revision_webhook("1-30", mesh),
        tag_webhook("prod", "1-28", HERE),
        {"metadata": {"name": "x", "labels": {"istio.io/rev": ""}}},
        {"metadata": {"name": "y"}},
    )

    revisions, several = known.revisions()

    assert (revisions, list(several)) == ({"1-24"}, ["1-30"])
    assert str(several["1-30"]) == (
        'found multiple canonical webhooks or services with revision "1-30": istio-sidecar-injector-1-30, '
        "istio-sidecar-injector-1-30-mesh; delete all but one"
    )


def test_a_revisions_configuration_is_written_over_its_own_alone() -> None:
    manifest = revision_webhook("1-24", HERE)

    assert plan_revision(manifest, configurations()) == manifest
    assert plan_revision(manifest, configurations(stored(manifest)))["metadata"]["resourceVersion"] == "7"
    stranger = {**manifest, "metadata": {"name": manifest["metadata"]["name"]}}
    with pytest.raises(TagError, match="istio-sidecar-injector-1-24 exists and does not belong to this revision"):
        plan_revision(manifest, configurations(stored(stranger)))


HOME = "istio-system"
OPTIONS = WebhookOptions()
MINE = "mutatingwebhookconfigurations"
ENABLED = {"istio-injection": "enabled"}


@pytest.fixture
def api() -> FakeApi:
    """A cluster with one revision of ConfigMaps, one of a webhook, half a one, and the injector's Service."""
    fake = FakeApi()
    other = config_map("istio-ca-root-cert", HOME, "x", **{"root-cert.pem": "x"})
    fake.put(CONFIG_MAPS, *config_maps("1-24"), config_maps("half")[0], other)
    fake.put(WEBHOOKS, revision_webhook("1-30", OPTIONS))
    fake.put(SERVICES, INJECTOR)
    return fake


@pytest.fixture
def tags(api: FakeApi) -> ClusterTags:
    return ClusterTags(Direct(api), HOME)


def others(api: FakeApi) -> dict[str, str]:
    """The objects of tags beside their webhooks, and the revision of each."""
    return {
        name: obj["metadata"]["labels"]["istio.io/rev"]
        for (plural, _, name), obj in api.objects.items()
        if plural in ("services", "validatingwebhookconfigurations") and obj["metadata"].get("labels")
    }


def revision_of(api: FakeApi, name: str, image_tag: str) -> None:
    """Put the ConfigMaps of a revision with the proxy image of a release."""
    api.put(CONFIG_MAPS, *config_maps(name, values=VALUES.replace("1.24.6", image_tag)))


@pytest.mark.parametrize(
    ("image_tag", "created", "removed"),
    [
        ("1.11.8", [], []),
        ("1.12.9", ["istiod-default-validator"], []),
        ("1.27.1", ["istiod-default-validator"], []),
        ("1.28.5", ["istiod-revision-tag-default", "istiod-default-validator"], ["istiod-revision-tag-default"]),
        (
            "1.31.0-rc.0",
            ["istiod-revision-tag-default", "istiod-default-validator"],
            ["istiod-revision-tag-default", "istiod-default-validator"],
        ),
        ("latest", [], []),
    ],
)
def test_a_tag_has_the_objects_that_the_istioctl_of_its_minor_makes(
    tags: ClusterTags, api: FakeApi, image_tag: str, created: list[str], removed: list[str]
) -> None:
    revision_of(api, "new", image_tag)

    set_tag(tags, Tag("default", (("new", 1),)))
    objects = others(api)
    remove_tag(tags, "default")

    assert objects == dict.fromkeys(created, "new")
    assert others(api) == dict.fromkeys([path for path in created if path not in removed], "new")
    assert tags.list().tags == {}


def test_the_other_objects_of_a_tag_move_with_it_to_any_minor(tags: ClusterTags, api: FakeApi) -> None:
    revision_of(api, "new", "1.30.3")
    set_tag(tags, Tag("default", (("new", 1),)))

    for revision in ("1-24", "1-30"):  # the minor of neither is known
        set_tag(tags, Tag("default", ((revision, 1),)), overwrite=True)
        assert others(api) == dict.fromkeys(["istiod-revision-tag-default", "istiod-default-validator"], revision)

    remove_tag(tags, "default")
    assert others(api) == {}


@pytest.mark.parametrize(
    ("image_tag", "manager", "stays"),
    [("1.24.6", "istioctl", True), ("1.24.6", "injector-tag", False), ("1.28.5", "istioctl", False)],
)
def test_below_1_28_the_service_of_a_newer_istioctl_is_removed_last(
    tags: ClusterTags, api: FakeApi, image_tag: str, manager: str, *, stays: bool
) -> None:
    revision_of(api, "new", image_tag)
    set_tag(tags, Tag("prod", (("new", 1),)))
    service = tag_service("prod", "new", HOME)
    service["metadata"]["managedFields"] = [{"manager": manager, "operation": "Apply"}]
    api.put(SERVICES, service)

    remove_tag(tags, "prod")
    assert ("istiod-revision-tag-prod" in others(api)) is stays
    if stays:
        remove_tag(tags, "prod")
    assert others(api) == {}


def test_a_service_that_leads_elsewhere_or_without_a_tag_is_an_error(tags: ClusterTags, api: FakeApi) -> None:
    set_tag(tags, PROD)
    api.put(SERVICES, tag_service("prod", "1-30", HOME), tag_service("lost", "1-30", HOME))

    state = tags.list()

    assert {name: error.what for name, error in state.faults.items()} == {
        "lost": "it has no MutatingWebhookConfiguration, so pods of the tag get no sidecar",
        "prod": "it leads to `1-30`, and the tag to `1-24`",
    }
    assert "run `injector tag set lost --revision 1-30 --overwrite` if the tag is in use" in state.faults["lost"].hint
    with pytest.raises(TagError, match="get no sidecar; add --overwrite to replace it"):
        set_tag(tags, replace(PROD, name="lost"))
    remove_tag(tags, "lost")
    set_tag(tags, PROD, overwrite=True)
    assert others(api) == {"istiod-revision-tag-prod": "1-24"}
    assert tags.list().faults == {}


@pytest.mark.parametrize("resource", ["services", "validatingwebhookconfigurations"])
def test_nothing_is_written_if_an_object_of_the_tag_must_not_be(tags: ClusterTags, api: FakeApi, resource: str) -> None:
    revision_of(api, "new", "1.30.3")
    api.refused = {f"apply {resource}": "forbidden"}

    with pytest.raises(ClusterError, match=f"no to apply {resource}"):
        set_tag(tags, Tag("default", (("new", 1),)))
    assert api.applied == []


def write(tags: ClusterTags, tag: Tag) -> None:
    tags.write(tags.plan(tag))


def set_tag(tags: ClusterTags, tag: Tag, *, overwrite: bool = False) -> None:
    """Set a tag as the command does."""
    write(tags, check_tag(tags.list(), tag, overwrite=overwrite))


def test_revisions_are_those_of_config_maps_and_of_webhooks(tags: ClusterTags) -> None:
    state = tags.list()

    assert (state.revisions, list(state.broken), dict(state.tags)) == (("1-24", "1-30"), ["half"], {})


def test_it_is_a_store_of_tags(tags: ClusterTags, api: FakeApi) -> None:
    store: TagStore = tags
    set_tag(tags, PROD)

    with pytest.raises(TagError, match="already exists, and --overwrite is false; it leads to 1-24"):
        set_tag(tags, PROD)
    set_tag(tags, Tag("prod", (("1-24", 9), ("1-30", 1)), "s"), overwrite=True)
    assert store.list().tags == {"prod": Tag("prod", (("1-24", 9), ("1-30", 1)), "s")}
    remove_tag(store, "prod")
    assert (dict(store.list().tags), len(api.applied)) == ({}, 2)


def test_a_tag_that_is_new_takes_nothing_by_force_and_is_one_request(tags: ClusterTags, api: FakeApi) -> None:
    tags.list()
    api.requests.clear()

    write(tags, PROD)

    assert api.requests == ["get services injector", f"apply {MINE} istio-revision-tag-prod injector-tag"]


def test_the_default_revision_is_deactivated_after_the_tag_is_there(tags: ClusterTags, api: FakeApi) -> None:
    api.put(WEBHOOKS, revision_webhook("default", OPTIONS))
    tags.list()
    api.requests.clear()

    write(tags, Tag("default", (("1-24", 1),)))

    assert api.requests == [
        "list validatingwebhookconfigurations istio.io/rev",
        "get services injector",
        f"apply {MINE} istio-sidecar-injector injector-tag force dry",
        f"apply {MINE} istio-revision-tag-default injector-tag",
        f"apply {MINE} istio-sidecar-injector injector-tag force",
    ]


def test_a_default_revision_that_cannot_be_deactivated_keeps_the_tag_from_being_set(
    tags: ClusterTags, api: FakeApi
) -> None:
    api.put(WEBHOOKS, revision_webhook("default", OPTIONS))
    tags.list()
    api.put(WEBHOOKS, revision_webhook("default", OPTIONS))  # changed meanwhile

    with pytest.raises(ClusterError, match="modified"):
        write(tags, Tag("default", (("1-24", 1),)))
    assert api.applied == []


def test_a_tag_that_has_changed_since_the_list_is_not_moved(tags: ClusterTags, api: FakeApi) -> None:
    set_tag(tags, PROD)
    tags.list()
    api.put(WEBHOOKS, tag_webhook("prod", "1-30", OPTIONS))

    with pytest.raises(ClusterError, match="modified"):
        write(tags, PROD)


def test_a_tag_is_moved_though_a_server_wrote_a_ca_bundle_since_the_list(tags: ClusterTags, api: FakeApi) -> None:
    set_tag(tags, PROD)
    tags.list()
    patched = api.objects[WEBHOOKS.plural, "", "istio-revision-tag-prod"]
    for webhook in patched["webhooks"]:
        webhook["clientConfig"]["caBundle"] = "Qg=="
    api.put(WEBHOOKS, patched)

    write(tags, Tag("prod", (("1-30", 1),)))

    moved = api.objects[WEBHOOKS.plural, "", "istio-revision-tag-prod"]
    assert moved["metadata"]["labels"][REVISION_LABEL] == "1-30"


def test_a_tag_whose_object_changes_at_each_write_is_given_up(
    tags: ClusterTags, api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_tag(tags, PROD)
    tags.list()
    get = api.get

    async def get_before_a_change(resource: Resource, name: str, *, namespace: str = "") -> dict[str, Any]:
        obj = await get(resource, name, namespace=namespace)
        api.put(resource, obj)
        return obj

    api.put(WEBHOOKS, api.objects[WEBHOOKS.plural, "", "istio-revision-tag-prod"])
    monkeypatch.setattr(api, "get", get_before_a_change)

    with pytest.raises(ClusterError, match="modified"):
        write(tags, PROD)
    assert sum(request.startswith("apply mutatingwebhookconfigurations") for request in api.requests[-6:]) == 3


@pytest.mark.parametrize(
    ("refused", "options", "conflicts"),
    [
        ({}, OPTIONS, 0),
        ({}, WebhookOptions(Endpoint("other")), 1),
        ({}, WebhookOptions(Endpoint(url="https://here")), 0),
        ({"get services": "forbidden"}, WebhookOptions(Endpoint("other")), 0),
        ({"get services": "unreachable"}, OPTIONS, None),
    ],
)
def test_a_missing_service_is_a_conflict_and_an_unreachable_api_server_is_not(
    api: FakeApi, refused: dict[str, str], options: WebhookOptions, conflicts: int | None
) -> None:
    tags = ClusterTags(Direct(api), HOME, Placement(whole(options)))
    tags.list()
    api.refused = refused
    if conflicts is None:
        with pytest.raises(ClusterError):
            tags.plan(PROD)
        return

    faults = tags.plan(PROD).conflicts

    assert len(faults) == conflicts
    assert all(fault.endswith("service that does not exist: injector-system/other.") for fault in faults)


def test_users_are_namespaces_and_pods_by_label_and_nothing_else_is_asked_for(tags: ClusterTags, api: FakeApi) -> None:
    two_ways = {"istio.io/rev": "default", "istio-injection": "enabled"}
    api.put(NAMESPACES, labelled("bank", "prod"), labelled("shop", "other"), namespace("old", **ENABLED))
    api.put(NAMESPACES, {"metadata": {"name": "twice", "labels": two_ways}})
    api.put(PODS, {"metadata": {"name": "p", "namespace": "shop", "labels": {"istio.io/rev": "prod"}}})

    assert tags.users("prod") == ["namespace bank", "pod shop/p"]
    assert tags.users("default") == ["namespace twice", "namespace old"]
    assert api.requests == [
        "list namespaces istio.io/rev=prod",
        f"list pods istio.io/rev=prod,app!=istiod {RUNNING}",
        "list namespaces istio.io/rev=default",
        "list namespaces istio-injection=enabled,istio.io/rev!=default",
        f"list pods istio.io/rev=default,app!=istiod {RUNNING}",
    ]


def test_a_revision_is_used_by_pods_with_its_sidecar_and_not_by_its_own_istiod(tags: ClusterTags, api: FakeApi) -> None:
    istiod = {"name": "istiod-1-30", "namespace": HOME, "labels": {"istio.io/rev": "1-30", "app": "istiod"}}
    labels = {"istio.io/rev": "prod"}
    pods = [
        {"metadata": {"name": f"has-{name}", "namespace": "shop", "labels": labels, "annotations": {STATUS: text}}}
        for name, text in (("1-30", '{"revision":"1-30"}'), ("1-24", '{"revision":"1-24"}'), ("none", "{}"))
    ]
    api.put(PODS, {"metadata": istiod})
    check_removable(tags, "1-30")

    api.put(PODS, *pods, {"metadata": {"name": "job", "namespace": "shop", "labels": {"istio.io/rev": "1-30"}}})

    with pytest.raises(TagError, match='"1-30": it is in use by pod shop/job, pod shop/has-1-30; move, relabel or'):
        check_removable(tags, "1-30")
    check_removable(tags, "1-30", force=True)


def test_namespaces_are_listed_by_revision_or_tag(tags: ClusterTags, api: FakeApi) -> None:
    api.put(NAMESPACES, labelled("bank", "prod"), namespace("old", **ENABLED), namespace("none"))

    assert tags.namespaces() == {"prod": ("bank",), "default": ("old",)}


def test_every_object_of_a_tag_is_removed_that_another_command_has_not_removed(tags: ClusterTags, api: FakeApi) -> None:
    for name in ("a", "b"):
        api.put(WEBHOOKS, tag_webhook("prod", f"1-{name}", OPTIONS, webhook_name=name))

    tags.list()
    api.drop(WEBHOOKS, "a")
    tags.remove("prod")

    assert [name for plural, _, name in api.objects if plural == MINE] == ["istio-sidecar-injector-1-30"]


def test_a_revision_is_removed_with_its_webhooks_and_without_its_config_maps(tags: ClusterTags, api: FakeApi) -> None:
    tags.list()
    tags.remove_revision("1-30")

    assert [name for plural, _, name in api.objects if plural == MINE] == []
    with pytest.raises(
        TagError, match='cannot remove revision "1-24": it has no MutatingWebhookConfiguration; uninstall'
    ):
        tags.remove_revision("1-24")


def test_a_revisions_configuration_is_written_as_its_own_manager(tags: ClusterTags, api: FakeApi) -> None:
    tags.refresh()
    tags.write_revision(revision_webhook("1-24", OPTIONS), dry_run=True)
    tags.write_revision(revision_webhook("1-24", OPTIONS), force=True)

    assert api.requests == [
        f"list {MINE}",
        "list services in istio-system istio.io/tag",
        f"apply {MINE} istio-sidecar-injector-1-24 injector-webhook dry",
        f"apply {MINE} istio-sidecar-injector-1-24 injector-webhook force",
    ]


def test_force_false_does_not_take_over_fields(tags: ClusterTags, api: FakeApi) -> None:
    set_tag(tags, PROD)
    tags.list()
    plan = tags.plan(PROD)
    api.requests.clear()

    tags.write(plan, force=False, dry_run=True)
    tags.write(plan)

    assert api.requests == [
        f"apply {MINE} istio-revision-tag-prod injector-tag dry",
        f"apply {MINE} istio-revision-tag-prod injector-tag force",
    ]
