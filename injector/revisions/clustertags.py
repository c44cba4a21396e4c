"""Tags and revisions in a cluster, each in a MutatingWebhookConfiguration as istioctl writes it.

Follows Istio 1.30.3, istioctl/pkg/tag/generate.go and util.go, with the injector's own Service and path ``/inject/<tag>``.

``plan_tag`` decides which object to write and which problems to report; ``ClusterTags`` reads and writes. A tag moves by one request, on
the condition that the object has not changed since it was read. A tag that replaces the default revision is written before that
revision's webhooks are deactivated. In between a pod may be injected twice, with the same result, but never has no sidecar.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from injector.cluster.resources import CONFIG_MAPS, NAMESPACES, PODS, SERVICES, WEBHOOKS, Resource, Scope
from injector.cluster.webhooks import REVISION_MANAGER, TAG_MANAGER, blank_stale_annotations, merge_for_apply
from injector.errors import ClusterError, ConfigError, DataError, TagError
from injector.injection.containers import labels_of
from injector.istio.webhooks import (
    DEFAULT_NAME,
    INJECTION_LABEL,
    REVISION_LABEL,
    TAG_LABEL,
    Endpoint,
    WebhookOptions,
    deactivated,
    is_deactivated,
    options_of,
    overlaps,
    tag_webhook,
)
from injector.revisions.configmaps import istio_config_map, raw_revisions
from injector.revisions.tags import ANNOTATIONS, Tag, read_tags, tag_annotations, tag_object
from injector.revisions.tagstore import TagState, followers

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from injector.cluster.client import KubeClient
    from injector.cluster.session import ClusterSession

_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
"""The manifest that kubectl applied to an object; on a copy of the object it would mislead kubectl."""


@dataclass(frozen=True, slots=True)
class Placement:
    """How to build a tag's object.

    Its options are inherited from the tag's object or, for a new tag, from its revision's configuration.

    Args:
        options: the fields of ``WebhookOptions`` to set instead, by name.
        endpoint: the fields of its ``endpoint`` to set instead, by name.
        name: the name of the object; None means Istio's name.
        inherit_bundle: whether a new object inherits the caBundle of its revision's configuration if both call the same server.
    """

    options: Mapping[str, Any] = field(default_factory=dict)
    endpoint: Mapping[str, Any] = field(default_factory=dict)
    name: str | None = None
    inherit_bundle: bool = True

    def apply(self, inherited: WebhookOptions) -> WebhookOptions:
        """Return the options of the tag's webhooks."""
        stated = dict(self.options)
        if self.endpoint:
            stated["endpoint"] = replace(inherited.endpoint, **{"url": None, **self.endpoint})
        return replace(inherited, **stated)


@dataclass(frozen=True, slots=True)
class Plan:
    """The changes that write a tag.

    Args:
        manifest: the tag's new object.
        current: its current object.
        options: the options of its webhooks.
        conflicts: problems to confirm, one line each.
        deactivation: the change that deactivates the default revision's webhooks, if the tag replaces it.
    """

    manifest: dict[str, Any]
    current: dict[str, Any] | None
    options: WebhookOptions
    conflicts: tuple[str, ...]
    deactivation: dict[str, Any] | None

    @property
    def moves(self) -> bool:
        """Whether the tag exists, so that fields of other managers are taken over."""
        return self.current is not None

    @property
    def applied(self) -> dict[str, Any]:
        """The manifest to apply over the current object."""
        return merge_for_apply(self.manifest, self.current, manager=TAG_MANAGER)


@dataclass(frozen=True, slots=True)
class Configurations:
    """The MutatingWebhookConfigurations of a cluster at one moment."""

    items: tuple[dict[str, Any], ...] = ()

    def named(self, name: str) -> dict[str, Any] | None:
        """Return the configuration with this name."""
        return next((each for each in self.items if _name(each) == name), None)

    def of_tag(self, name: str) -> list[dict[str, Any]]:
        """Return the configurations of a tag."""
        return [each for each in self.items if labels_of(each).get(TAG_LABEL) == name]

    def of_revision(self, name: str) -> list[dict[str, Any]]:
        """Return the configurations of a revision, without those of tags."""
        return [each for each in self._of_revisions() if labels_of(each)[REVISION_LABEL] == name]

    def revisions(self) -> tuple[set[str], dict[str, DataError]]:
        """Return the revisions that have one configuration, and the errors of those that have several."""
        counted = Counter(name for each in self._of_revisions() if (name := labels_of(each)[REVISION_LABEL]))
        several: dict[str, DataError] = {name: self.several(name) for name, count in counted.items() if count > 1}
        return counted.keys() - several.keys(), several

    def several(self, revision: str) -> ConfigError:
        """Return the error for a revision with several configurations."""
        objects = ", ".join(map(_name, self.of_revision(revision)))
        what = f'found multiple canonical webhooks or services with revision "{revision}": {objects}'
        return ConfigError(what, hint="delete all but one")

    def _of_revisions(self) -> list[dict[str, Any]]:
        return [each for each in self.items if REVISION_LABEL in labels_of(each) and TAG_LABEL not in labels_of(each)]


def plan_tag(tag: Tag, seen: Configurations, placement: Placement) -> Plan:
    """Return the changes that write ``tag`` in a cluster with these configurations.

    Raises:
        TagError: the object's name is taken, or there is more than one object to change.
    """
    current, replaced = _current(tag.name, seen, placement), _replaced(tag.name, seen)
    options, annotations = _derived(tag, current, next(iter(seen.of_revision(tag.revision)), None), placement)
    name = placement.name if current is None else _name(current)
    manifest = tag_webhook(tag.name, tag.revision, options, webhook_name=name, annotations=annotations)
    if current is None and seen.named(_name(manifest)) is not None:
        what = f"MutatingWebhookConfiguration {_name(manifest)} exists and does not belong to this tag"
        raise TagError(what, hint="give another --webhook-name")
    others = [each for each in seen.items if each is not current and each is not replaced]
    deactivation = None if replaced is None else _deactivation(replaced)
    return Plan(manifest, current, options, overlaps(manifest, others), deactivation)


def _derived(
    tag: Tag, current: dict[str, Any] | None, canonical: dict[str, Any] | None, placement: Placement
) -> tuple[WebhookOptions, dict[str, str]]:
    """Return the options and the annotations of a tag's object.

    As in istioctl, both are inherited from the revision's configuration if that one calls an injector. A tag that moves keeps its own
    server.
    """
    mine = None if current is None else options_of(current, tag.name)
    theirs = None if canonical is None else options_of(canonical, tag.revision)
    options = placement.apply(mine or theirs or WebhookOptions())
    own = blank_stale_annotations(tag_annotations(tag), current, manager=TAG_MANAGER, prefix=ANNOTATIONS)
    if canonical is None or theirs is None:
        return options, {**(_copied(current) if current is not None and mine is not None else {}), **own}
    same_server = current is None and options.endpoint == theirs.endpoint
    if placement.inherit_bundle and same_server and not options.ca_bundle:
        options = replace(options, ca_bundle=_bundle(canonical))
    return options, {**_copied(canonical), **own}


def plan_revision(manifest: dict[str, Any], seen: Configurations) -> dict[str, Any]:
    """Return the manifest to apply for a revision's configuration.

    Raises:
        TagError: an object with its name belongs to something else.
    """
    current = seen.named(_name(manifest))
    if current is not None and current not in seen.of_revision(labels_of(manifest)[REVISION_LABEL]):
        what = f"MutatingWebhookConfiguration {_name(manifest)} exists and does not belong to this revision"
        raise TagError(what, hint="rename or delete it")
    return merge_for_apply(manifest, current, manager=REVISION_MANAGER)


def _current(tag: str, seen: Configurations, placement: Placement) -> dict[str, Any] | None:
    found = seen.of_tag(tag)
    names, doing = [_name(each) for each in found], f'cannot modify tag "{tag}"'
    if len(found) > 1:
        what = f"{doing}: several MutatingWebhookConfigurations have it: {', '.join(names)}"
        raise TagError(what, hint="delete all but one")
    if found and placement.name not in (None, *names):
        hint = "leave out --webhook-name, or remove the tag first"
        raise TagError(f"{doing}: it is in MutatingWebhookConfiguration {names[0]}", hint=hint)
    return found[0] if found else None


def _replaced(tag: str, seen: Configurations) -> dict[str, Any] | None:
    """Return the default revision's configuration if the tag replaces it and it is still active."""
    found = seen.of_revision(DEFAULT_NAME) if tag == DEFAULT_NAME else []
    if len(found) > 1:
        raise TagError("expected a single webhook for default revision", hint=str(seen.several(DEFAULT_NAME)))
    return found[0] if found and not is_deactivated(found[0]) else None


def _deactivation(configuration: Mapping[str, Any]) -> dict[str, Any]:
    """Return the manifest that deactivates a configuration and has no other fields."""
    webhooks = [{"name": webhook["name"]} for webhook in configuration["webhooks"]]
    version = configuration["metadata"]["resourceVersion"]
    return deactivated({"metadata": {"name": _name(configuration), "resourceVersion": version}, "webhooks": webhooks})


def _name(configuration: Mapping[str, Any]) -> str:
    return str(configuration["metadata"]["name"])


def _copied(configuration: Mapping[str, Any]) -> dict[str, str]:
    """Return the annotations of a configuration that also apply to a copy, such as those of cert-manager."""
    annotations = configuration["metadata"].get("annotations") or {}
    return {key: text for key, text in annotations.items() if key != _LAST_APPLIED and not key.startswith(ANNOTATIONS)}


def _bundle(configuration: Mapping[str, Any]) -> str | None:
    bundles = (webhook["clientConfig"].get("caBundle") for webhook in configuration["webhooks"])
    return next((bundle for bundle in bundles if bundle), None)


@dataclass
class ClusterTags:
    """The tags of one cluster. Changes are based on the state that ``list`` or ``refresh`` read last.

    All methods raise ClusterError if the API server cannot be reached or refuses.

    Args:
        cluster: the connection to the API server.
        istio_namespace: Istio's namespace.
        placement: how to build a tag's object.
    """

    cluster: ClusterSession
    istio_namespace: str
    placement: Placement = field(default_factory=Placement)
    _seen: Configurations = field(default_factory=Configurations)

    def list(self) -> TagState:
        """Return the tags, and the revisions that have ConfigMaps or a MutatingWebhookConfiguration."""
        self.refresh()
        scope = Scope(CONFIG_MAPS, self.istio_namespace, REVISION_LABEL)
        config_maps = self.cluster.run(lambda client: client.all(scope, istio_config_map))
        tags, faults = read_tags(found for each in self._seen.items if (found := tag_object(each)) is not None)
        stored, failures = raw_revisions(config_maps, namespace=self.istio_namespace)
        installed, several = self._seen.revisions()
        broken = {**failures, **several}
        known = {*(raw.name for raw in stored), *installed} - broken.keys()
        return TagState(tags, tuple(sorted(known)), broken, faults)

    def refresh(self) -> Configurations:
        """Read the MutatingWebhookConfigurations and return them."""
        self._seen = Configurations(tuple(self._all(Scope(WEBHOOKS))))
        return self._seen

    def namespaces(self) -> Mapping[str, tuple[str, ...]]:
        """Return the namespaces that name each revision or tag."""
        # Two lists, because a selector cannot combine two labels with "or".
        scopes = [Scope(NAMESPACES, labels=labels) for labels in (REVISION_LABEL, f"{INJECTION_LABEL}=enabled")]
        return followers((_name(each), labels_of(each)) for scope in scopes for each in self._all(scope))

    def users(self, name: str) -> Sequence[str]:
        """Return the namespaces and pods whose labels name a revision or tag."""
        selectors = [(NAMESPACES, f"{REVISION_LABEL}={name}"), (PODS, f"{REVISION_LABEL}={name}")]
        if name == DEFAULT_NAME:
            selectors.insert(1, (NAMESPACES, f"{INJECTION_LABEL}=enabled,{REVISION_LABEL}!={name}"))
        return [user for resource, labels in selectors for user in self._users(resource, labels)]

    def _users(self, resource: Resource, labels: str) -> Sequence[str]:
        def describe(item: Mapping[str, Any]) -> str:
            metadata = item["metadata"]
            place = f"{metadata['namespace']}/" if resource.namespaced else ""
            return f"{resource.kind.lower()} {place}{metadata['name']}"

        return self.cluster.run(lambda client: client.all(Scope(resource, labels=labels), describe))

    def _all(self, scope: Scope) -> Sequence[dict[str, Any]]:
        return self.cluster.run(lambda client: client.all(scope, lambda item: item))

    def plan(self, tag: Tag) -> Plan:
        """Return the changes that write ``tag``.

        Raises:
            TagError: the object's name is taken, or there is more than one object to change.
        """
        plan = plan_tag(tag, self._seen, self.placement)
        return replace(plan, conflicts=(*plan.conflicts, *self._missing_service(plan.options.endpoint)))

    def _missing_service(self, endpoint: Endpoint) -> tuple[str, ...]:
        """Return a conflict, in the words of Istio's analyzer, if the Service does not exist."""
        name, namespace = endpoint.service, endpoint.namespace
        if endpoint.url is not None:
            return ()
        try:
            self.cluster.run(lambda client: client.get(SERVICES, name, namespace=namespace))
        except ClusterError as error:
            if error.reason == "missing":
                return (f"Injector refers to a control plane service that does not exist: {namespace}/{name}.",)
            if error.reason != "forbidden":  # the check needs a permission that setting a tag does not
                raise
        return ()

    def write(self, plan: Plan, *, force: bool = True, dry_run: bool = False) -> None:
        """Write a plan. A tag that moves takes over fields of other managers unless ``force`` is false."""

        async def work(client: KubeClient) -> None:
            deactivation, moves = plan.deactivation, plan.moves and force
            if deactivation is not None:  # a dry run, so that nothing is written if this would fail
                await client.apply(WEBHOOKS, deactivation, manager=TAG_MANAGER, force=True, dry_run=True)
            await client.apply(WEBHOOKS, plan.applied, manager=TAG_MANAGER, force=moves, dry_run=dry_run)
            if deactivation is not None and not dry_run:
                await client.apply(WEBHOOKS, deactivation, manager=TAG_MANAGER, force=True)

        self.cluster.run(work)

    def write_revision(self, manifest: dict[str, Any], *, force: bool = False, dry_run: bool = False) -> None:
        """Write the configuration of a revision; ``force`` takes over fields of other managers.

        Raises:
            TagError: an object with its name belongs to something else.
        """
        applied = plan_revision(manifest, self._seen)
        self.cluster.run(
            lambda client: client.apply(WEBHOOKS, applied, manager=REVISION_MANAGER, force=force, dry_run=dry_run)
        )

    def remove(self, name: str) -> None:
        """Delete every object of a tag."""
        self._delete(self._seen.of_tag(name))

    def remove_revision(self, name: str) -> None:
        """Delete the configuration of a revision. Its ConfigMaps belong to its control plane and stay.

        Raises:
            TagError: it has no configuration.
        """
        found = self._seen.of_revision(name)
        if not found:
            raise TagError(
                f'cannot remove revision "{name}": it has no MutatingWebhookConfiguration',
                hint="uninstall its control plane with `istioctl uninstall --revision`",
            )
        self._delete(found)

    def _delete(self, configurations: Sequence[Mapping[str, Any]]) -> None:
        async def work(client: KubeClient) -> None:
            for each in configurations:
                await client.delete(WEBHOOKS, _name(each), resource_version=each["metadata"]["resourceVersion"])

        self.cluster.run(work)
