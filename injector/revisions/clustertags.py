"""Tags and revisions in a cluster, each in a MutatingWebhookConfiguration as istioctl writes it.

Follows Istio 1.30.3, istioctl/pkg/tag/generate.go, tag.go and util.go, with the injector's own Service and path ``/inject/<tag>``.

``plan_tag`` decides which objects to write and which problems to report; ``ClusterTags`` reads and writes. A tag moves by one request, on
the condition that the object has not changed since it was read. A tag that replaces the default revision is written before that
revision's webhooks are deactivated. In between a pod may be injected twice, with the same result, but never has no sidecar.

The other objects of a tag follow its webhooks: its Service, and for ``default`` the ValidatingWebhookConfiguration. Both lead to istiod.
They are created if the istioctl of the revision's minor creates them, and moved if they exist, since any newer istioctl reads them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from injector.cluster.resources import (
    CONFIG_MAPS,
    GATEWAY,
    GATEWAY_GROUP,
    NAMESPACES,
    PODS,
    RUNNING,
    SERVICES,
    VALIDATORS,
    WEBHOOKS,
    Resource,
    Scope,
    find_object,
)
from injector.cluster.webhooks import (
    REVISION_MANAGER,
    TAG_MANAGER,
    blank_stale_annotations,
    differ_in_bundles_only,
    managers,
    merge_for_apply,
    webhook_facts,
    webhook_faults,
)
from injector.errors import ClusterError, ConfigError, DataError, TagError
from injector.injection.containers import labels_of
from injector.istio.labels import ANNOTATIONS, DEFAULT_NAME, INJECTION_LABEL, ISTIO_NAMESPACE, REVISION_LABEL, TAG_LABEL
from injector.istio.webhooks.configurations import Endpoint, WebhookOptions, deactivate, is_deactivated, tag_webhook
from injector.istio.webhooks.overlaps import overlaps
from injector.istio.webhooks.owners import owner_of
from injector.istio.webhooks.reading import options_of
from injector.istio.webhooks.tagobjects import VALIDATOR_NAME, default_validator, tag_service
from injector.revisions.configmaps import istio_config_map, raw_revisions
from injector.revisions.source import known_minor, options_of_values
from injector.revisions.tags import Tag, read_tags, tag_annotations, tag_object
from injector.revisions.tagstore import TagState, namespaces_by_name

if TYPE_CHECKING:
    from injector.cluster.client import KubeClient
    from injector.cluster.session import Session
    from injector.istio.behaviours import Minor
    from injector.revisions.source import RawRevision

_HAS_VALIDATOR: Final = (1, 12)
"""The first minor whose istioctl writes the ValidatingWebhookConfiguration of the tag ``default``."""
_HAS_SERVICE: Final = (1, 28)
"""The first minor whose istioctl writes the Service of a tag."""
_REMOVES_VALIDATOR: Final = (1, 31)
"""The first minor whose istioctl removes that ValidatingWebhookConfiguration with the tag."""
_WRITES: Final = 3
"""How often a tag's object is applied if something else writes caBundles into it at the same time."""
_OF_OWNERS: Final = (
    "kubectl.kubernetes.io/last-applied-configuration",
    "meta.helm.sh/",
    "helm.sh/",
    "argocd.argoproj.io/",
    "config.k8s.io/",
    "kapp.k14s.io/",
    "objectset.rio.cattle.io/",
    ANNOTATIONS,
)
"""The beginnings of annotations by which a tool knows its objects; a copy would seem to be its own, and Helm or Rancher may delete it."""

DependentObject: TypeAlias = "tuple[Resource, dict[str, Any], dict[str, Any] | None]"


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
class TagPlan:
    """The changes that write a tag.

    Args:
        manifest: the tag's new object.
        conflicts: problems to confirm, one line each.
        deactivation: the change that deactivates the default revision's webhooks, if the tag replaces it.
        followers: the tag's other objects, which lead to istiod, each with its manifest and its current object.
        owned: the objects that another tool will write again, one line each.
    """

    manifest: dict[str, Any]
    current: dict[str, Any] | None
    options: WebhookOptions
    conflicts: tuple[str, ...]
    deactivation: dict[str, Any] | None
    dependents: tuple[DependentObject, ...] = ()
    owned: tuple[str, ...] = ()

    @property
    def objects(self) -> tuple[tuple[Resource, str], ...]:
        """The resources and names of the objects that change."""
        return tuple((resource, _name(manifest)) for resource, manifest in ((WEBHOOKS, self.manifest), *self.later))

    @property
    def later(self) -> tuple[tuple[Resource, dict[str, Any]], ...]:
        """The manifests to apply after that of the tag: the deactivation, if there is one, and the followers."""
        return (
            *(() if self.deactivation is None else ((WEBHOOKS, self.deactivation),)),
            *((what, merge_for_apply(new, current, manager=TAG_MANAGER)) for what, new, current in self.dependents),
        )

    @property
    def applied(self) -> dict[str, Any]:
        """The manifest to apply over the current object."""
        return merge_for_apply(self.manifest, self.current, manager=TAG_MANAGER)


@dataclass(frozen=True, slots=True)
class Configurations:
    """The MutatingWebhookConfigurations in a cluster at one moment, and the Services of tags in Istio's namespace.

    The ValidatingWebhookConfiguration of the tag ``default`` is read only if that tag changes.
    """

    items: tuple[dict[str, Any], ...] = ()
    services: tuple[dict[str, Any], ...] = ()
    validator: dict[str, Any] | None = None

    def find(self, name: str) -> dict[str, Any] | None:
        """Return the configuration with this name."""
        return next((item for item in self.items if _name(item) == name), None)

    def of_tag(self, name: str) -> list[dict[str, Any]]:
        """Return the configurations of a tag."""
        return [item for item in self.items if labels_of(item).get(TAG_LABEL) == name]

    def services_of(self, name: str) -> list[dict[str, Any]]:
        """Return the Services of a tag."""
        return [service for service in self.services if labels_of(service)[TAG_LABEL] == name]

    def service_faults(self, tags: Mapping[str, Tag]) -> dict[str, DataError]:
        """Return the errors of Services that lead to another revision than their tag, by tag. istioctl lists such a tag twice."""
        faults: dict[str, DataError] = {}
        for service in self.services:
            name, revision = labels_of(service)[TAG_LABEL], labels_of(service).get(REVISION_LABEL)
            tag = tags.get(name)
            if tag is None:
                what = "it has no MutatingWebhookConfiguration, so pods of the tag get no sidecar"
                restored = f"`injector tag set {name} --revision {revision or 'REVISION'} --overwrite`"
                hint = f"run {restored} if the tag is in use, or else `injector tag remove {name}`"
            elif tag.revision != revision:
                what = f"it leads to `{revision}`, and the tag to `{tag.revision}`"
                hint = "set the tag again with --overwrite"
            else:
                continue
            faults[name] = ConfigError(what, where=f"tag `{name}`: Service {_name(service)}", hint=hint)
        return faults

    def of_revision(self, name: str) -> list[dict[str, Any]]:
        """Return the configurations of a revision, without those of tags."""
        return [item for item in self._of_revisions() if labels_of(item)[REVISION_LABEL] == name]

    def revisions(self) -> tuple[set[str], dict[str, DataError]]:
        """Return the revisions that have one configuration, and the errors of those that have several."""
        counted = Counter(name for item in self._of_revisions() if (name := labels_of(item)[REVISION_LABEL]))
        several: dict[str, DataError] = {name: self.several(name) for name, count in counted.items() if count > 1}
        return counted.keys() - several.keys(), several

    def several(self, revision: str) -> ConfigError:
        """Return the error for a revision with several configurations."""
        objects = ", ".join(map(_name, self.of_revision(revision)))
        what = f'found multiple canonical webhooks or services with revision "{revision}": {objects}'
        return ConfigError(what, hint="delete all but one")

    def _of_revisions(self) -> list[dict[str, Any]]:
        return [item for item in self.items if REVISION_LABEL in labels_of(item) and TAG_LABEL not in labels_of(item)]


def plan_tag(
    tag: Tag,
    configurations: Configurations,
    placement: Placement,
    *,
    istio_namespace: str = ISTIO_NAMESPACE,
    minor: Minor | None = None,
) -> TagPlan:
    """Return the changes that write ``tag`` in a cluster with these configurations.

    ``minor`` is that of the tag's revision. If it is None, not known, the tag's other objects are moved but not created.

    Raises:
        TagError: the object's name is taken, or there is more than one object to change.
    """
    current, replaced = _current(tag.name, configurations, placement), _find_replaced(tag.name, configurations)
    options, annotations = _derive_options(
        tag, current, next(iter(configurations.of_revision(tag.revision)), None), placement
    )
    name = placement.name if current is None else _name(current)
    manifest = tag_webhook(tag.name, tag.revision, options, webhook_name=name, annotations=annotations)
    if current is None and configurations.find(_name(manifest)) is not None:
        what = f"MutatingWebhookConfiguration {_name(manifest)} exists and does not belong to this tag"
        raise TagError(what, hint="give another --webhook-name")
    others = [item for item in configurations.items if item is not current and item is not replaced]
    deactivation = None if replaced is None else _deactivation(replaced)
    followers = tuple(_dependent_objects(tag, configurations, istio_namespace, minor))
    owned = owned_lines((WEBHOOKS, item) for item in (current, replaced) if item is not None)
    return TagPlan(manifest, current, options, overlaps(manifest, others), deactivation, followers, owned)


def owned_lines(objects: Iterable[tuple[Resource, Mapping[str, Any]]]) -> tuple[str, ...]:
    """Return a line for each object that another tool writes again."""
    return tuple(
        f"{resource.kind} {_name(item)} belongs to {owner}"
        for resource, item in objects
        if (owner := owner_of(item)) is not None
    )


def _dependent_objects(
    tag: Tag, configurations: Configurations, istio_namespace: str, minor: Minor | None
) -> Iterator[DependentObject]:
    if configurations.services_of(tag.name) or (minor is not None and minor >= _HAS_SERVICE):
        yield SERVICES, tag_service(tag.name, tag.revision, istio_namespace), None
    if tag.name == DEFAULT_NAME and (configurations.validator or (minor is not None and minor >= _HAS_VALIDATOR)):
        manifest = default_validator(tag.revision, istio_namespace, configurations.validator)
        yield VALIDATORS, manifest, configurations.validator


def _derive_options(
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
        return options, {**(_copy_annotations(current) if current is not None and mine is not None else {}), **own}
    same_server = current is None and options.endpoint == theirs.endpoint
    if placement.inherit_bundle and same_server and not options.ca_bundle:
        options = replace(options, ca_bundle=_bundle(canonical))
    return options, {**_copy_annotations(canonical), **own}


def plan_revision(manifest: dict[str, Any], configurations: Configurations) -> dict[str, Any]:
    """Return the manifest to apply for a revision's configuration. Raises TagError if an object with its name belongs to something else."""
    current = configurations.find(_name(manifest))
    if current is not None and current not in configurations.of_revision(labels_of(manifest)[REVISION_LABEL]):
        what = f"MutatingWebhookConfiguration {_name(manifest)} exists and does not belong to this revision"
        raise TagError(what, hint="rename or delete it")
    return merge_for_apply(manifest, current, manager=REVISION_MANAGER)


def _current(tag: str, configurations: Configurations, placement: Placement) -> dict[str, Any] | None:
    own = configurations.of_tag(tag)
    names, doing = [_name(item) for item in own], f'cannot modify tag "{tag}"'
    if len(own) > 1:
        what = f"{doing}: several MutatingWebhookConfigurations have it: {', '.join(names)}"
        raise TagError(what, hint="delete all but one")
    if own and placement.name not in (None, *names):
        hint = "leave out --webhook-name, or remove the tag first"
        raise TagError(f"{doing}: it is in MutatingWebhookConfiguration {names[0]}", hint=hint)
    return own[0] if own else None


def _find_replaced(tag: str, configurations: Configurations) -> dict[str, Any] | None:
    """Return the default revision's configuration if the tag replaces it and it is still active."""
    own = configurations.of_revision(DEFAULT_NAME) if tag == DEFAULT_NAME else []
    if len(own) > 1:
        raise TagError("expected a single webhook for default revision", hint=str(configurations.several(DEFAULT_NAME)))
    return own[0] if own and not is_deactivated(own[0]) else None


def _deactivation(configuration: Mapping[str, Any]) -> dict[str, Any]:
    """Return the manifest that deactivates a configuration and has no other fields."""
    webhooks = [{"name": webhook["name"]} for webhook in configuration["webhooks"]]
    version = configuration["metadata"]["resourceVersion"]
    return deactivate({"metadata": {"name": _name(configuration), "resourceVersion": version}, "webhooks": webhooks})


def _name(configuration: Mapping[str, Any]) -> str:
    return str(configuration["metadata"]["name"])


def _describe(resource: Resource, item: Mapping[str, Any]) -> str:
    metadata = item["metadata"]
    place = f"{metadata['namespace']}/" if resource.namespaced else ""
    return f"{resource.kind.lower()} {place}{metadata['name']}"


def _copy_annotations(configuration: Mapping[str, Any]) -> dict[str, str]:
    """Return the annotations of a configuration that also apply to a copy, such as those of cert-manager."""
    annotations = configuration["metadata"].get("annotations") or {}
    return {key: text for key, text in annotations.items() if not key.startswith(_OF_OWNERS)}


def _bundle(configuration: Mapping[str, Any]) -> str | None:
    bundles = (webhook["clientConfig"].get("caBundle") for webhook in configuration["webhooks"])
    return next((bundle for bundle in bundles if bundle), None)


@dataclass
class ClusterTags:
    """The tags of one cluster. Changes are based on the state that ``list`` or ``refresh`` read last.

    All methods raise ClusterError if the API server cannot be reached or refuses.
    """

    cluster: Session
    istio_namespace: str
    placement: Placement = field(default_factory=Placement)
    _configurations: Configurations = field(default_factory=Configurations)
    _stored: Mapping[str, RawRevision] = field(default_factory=dict)

    def list(self) -> TagState:
        """Return the tags, and the revisions that have ConfigMaps or a MutatingWebhookConfiguration."""
        self.refresh()
        scope = Scope(CONFIG_MAPS, self.istio_namespace, REVISION_LABEL)
        config_maps = self.cluster.run(lambda client: client.all(scope, istio_config_map))
        tags, faults = read_tags(
            object_of_tag for item in self._configurations.items if (object_of_tag := tag_object(item)) is not None
        )
        stored, failures = raw_revisions(config_maps)
        self._stored = {raw.name: raw for raw in stored}
        installed, several = self._configurations.revisions()
        broken = {**failures, **several}
        known = {*self._stored, *installed} - broken.keys()
        tag_faults = {**self._configurations.service_faults(tags), **faults}
        return TagState(
            tags,
            tuple(sorted(known)),
            broken,
            tag_faults,
            webhook_faults(map(webhook_facts, self._configurations.items)),
            texts=self._stored,
        )

    def refresh(self) -> Configurations:
        """Read the MutatingWebhookConfigurations and the Services of tags, and return them."""
        services = Scope(SERVICES, self.istio_namespace, TAG_LABEL)
        self._configurations = Configurations(tuple(self._all(Scope(WEBHOOKS))), tuple(self._all(services)))
        return self._configurations

    @property
    def configurations(self) -> Sequence[dict[str, Any]]:
        """The MutatingWebhookConfigurations that were read last."""
        return self._configurations.items

    def find(self, resource: Resource, name: str, *, namespace: str) -> dict[str, Any] | None:
        """Return one object; None if it does not exist."""
        return self.cluster.run(lambda client: find_object(client, resource, name, namespace=namespace))

    def _with_validator(self, tag: str) -> Configurations:
        """Return the objects, with the ValidatingWebhookConfiguration if ``tag`` has one."""
        if tag != DEFAULT_NAME:
            return self._configurations
        validators = self._all(Scope(VALIDATORS, labels=REVISION_LABEL))
        return replace(
            self._configurations,
            validator=next((validator for validator in validators if _name(validator) == VALIDATOR_NAME), None),
        )

    def _minor(self, revision: str) -> Minor | None:
        raw = self._stored.get(revision)
        return None if raw is None else known_minor(raw)

    def namespaces(self) -> Mapping[str, tuple[str, ...]]:
        """Return the namespaces that name each revision or tag."""
        # Two lists, because a selector cannot combine two labels with "or".
        scopes = [Scope(NAMESPACES, labels=labels) for labels in (REVISION_LABEL, f"{INJECTION_LABEL}=enabled")]
        return namespaces_by_name((_name(item), labels_of(item)) for scope in scopes for item in self._all(scope))

    def users(self, name: str) -> Sequence[str]:
        """Return the namespaces and pods whose labels name a revision or tag. istiod's own pods are not users."""
        selectors = [(NAMESPACES, f"{REVISION_LABEL}={name}"), (PODS, f"{REVISION_LABEL}={name},app!=istiod")]
        if name == DEFAULT_NAME:
            selectors.insert(1, (NAMESPACES, f"{INJECTION_LABEL}=enabled,{REVISION_LABEL}!={name}"))
        return [user for resource, labels in selectors for user in self._users(resource, labels)]

    def gateways(self, tag: str) -> Sequence[str]:
        """Return the Gateways whose label names a tag; none if the account may not list them."""
        gateways = self.cluster.run(lambda client: client.find_resource(GATEWAY, GATEWAY_GROUP))
        try:
            return [] if gateways is None else self._users(gateways, f"{REVISION_LABEL}={tag}")
        except ClusterError as error:
            if error.reason != "forbidden":
                raise
            return []

    def sidecars(self, revision: str) -> Sequence[str]:
        """Return the running pods with a sidecar of a revision."""
        # Imported here, because it loads all of the injection, which other commands do not need.
        from injector.injection.tools.drift import injected_revision  # noqa: PLC0415

        def keep(pod: Mapping[str, Any]) -> str | None:
            return _describe(PODS, pod) if injected_revision(pod) == revision else None

        return self.cluster.run(lambda client: client.all(Scope(PODS, metadata_only=True, fields=RUNNING), keep))

    def _users(self, resource: Resource, labels: str) -> Sequence[str]:
        scope = Scope(resource, labels=labels, fields=RUNNING if resource is PODS else "")
        return self.cluster.run(lambda client: client.all(scope, lambda item: _describe(resource, item)))

    def _all(self, scope: Scope) -> Sequence[dict[str, Any]]:
        return self.cluster.run(lambda client: client.all(scope, lambda item: item))

    def plan(self, tag: Tag, texts: RawRevision | None = None) -> TagPlan:
        """Return the changes that write ``tag``; see ``plan_tag``. ``texts`` are those of its revision; default: those of the cluster."""
        configurations, minor = self._with_validator(tag.name), self._minor(tag.revision)
        plan = plan_tag(
            tag,
            configurations,
            self._placement_of(texts or self._stored.get(tag.revision)),
            istio_namespace=self.istio_namespace,
            minor=minor,
        )
        return replace(plan, conflicts=(*plan.conflicts, *self._missing_service(plan.options.endpoint)))

    def _placement_of(self, raw: RawRevision | None) -> Placement:
        """Return how to build the object of a tag: it injects without a label if the values of its revision say so."""
        if raw is None or not options_of_values(raw, WebhookOptions()).auto_inject:
            return self.placement
        return replace(self.placement, options={**self.placement.options, "auto_inject": True})

    def _missing_service(self, endpoint: Endpoint) -> tuple[str, ...]:
        """Return a conflict, in the words of Istio's analyzer, if the Service does not exist."""
        name, namespace = endpoint.service, endpoint.namespace
        if endpoint.url is not None:
            return ()
        try:
            service = self.find(SERVICES, name, namespace=namespace)
        except ClusterError as error:
            if error.reason != "forbidden":  # the check needs a permission that setting a tag does not
                raise
            return ()
        what = f"Injector refers to a control plane service that does not exist: {namespace}/{name}."
        return (what,) if service is None else ()

    def write(self, plan: TagPlan, *, force: bool = True, dry_run: bool = False) -> None:
        """Write a plan. A tag that moves takes over fields of other managers unless ``force`` is false.

        Servers and istiod write caBundles into webhooks at any time, mostly into new ones. Where only they have changed since the tag was
        read, it is written over the new object. If the tag itself has changed, the ``reason`` of the ClusterError is ``conflict``.
        """
        later = [(resource, manifest, force or resource is WEBHOOKS) for resource, manifest in plan.later]

        async def write_webhooks(client: KubeClient) -> None:
            written, forced = plan, plan.current is not None and force
            for attempts_left in reversed(range(_WRITES)):
                try:
                    await client.apply(WEBHOOKS, written.applied, manager=TAG_MANAGER, force=forced, dry_run=dry_run)
                except ClusterError as error:
                    if error.reason != "conflict" or plan.current is None or not attempts_left:
                        raise
                    current = await client.get(WEBHOOKS, _name(plan.current))
                    if not differ_in_bundles_only(current, plan.current):
                        raise
                    written = replace(plan, current=current)
                else:
                    return

        async def work(client: KubeClient) -> None:
            for resource, manifest, forced in later:  # a dry run, so that nothing is written if one of them would fail
                await client.apply(resource, manifest, manager=TAG_MANAGER, force=forced, dry_run=True)
            await write_webhooks(client)
            for resource, manifest, forced in () if dry_run else later:
                await client.apply(resource, manifest, manager=TAG_MANAGER, force=forced)

        self.cluster.run(work)

    def write_revision(self, manifest: dict[str, Any], *, force: bool = False, dry_run: bool = False) -> None:
        """Write the configuration of a revision; ``force`` takes over fields of other managers. Raises TagError as ``plan_revision``."""
        applied = plan_revision(manifest, self._configurations)
        self.cluster.run(
            lambda client: client.apply(WEBHOOKS, applied, manager=REVISION_MANAGER, force=force, dry_run=dry_run)
        )

    def objects_of(self, name: str) -> Sequence[tuple[Resource, Mapping[str, Any]]]:
        """Return every object of a tag that the istioctl of its revision's minor deletes, and each Service that the injector wrote.

        Below 1.28, an istioctl leaves the Service of a newer one. Without webhooks, the tag has nothing else to delete.
        """
        configurations = self._with_validator(name)
        webhooks, validator = configurations.of_tag(name), configurations.validator
        own_objects = [(WEBHOOKS, webhook) for webhook in webhooks]
        if validator is not None and labels_of(validator).get(TAG_LABEL) == name:
            own_objects += [(VALIDATORS, validator)] if self._is_since(_REMOVES_VALIDATOR, validator) else []
        # Services come last: while there is one, a removal that failed can be repeated.
        own_objects += [
            (SERVICES, service)
            for service in configurations.services_of(name)
            if not webhooks or TAG_MANAGER in managers(service) or self._is_since(_HAS_SERVICE, service)
        ]
        return own_objects

    def remove(self, name: str) -> None:
        """Delete the objects of a tag."""
        self.delete(self.objects_of(name))

    def _is_since(self, first: Minor, item: Mapping[str, Any]) -> bool:
        """Tell whether the minor of an object's revision is ``first`` or later, or not known."""
        minor = self._minor(labels_of(item).get(REVISION_LABEL, ""))
        return minor is None or minor >= first

    def remove_revision(self, name: str) -> None:
        """Delete the configuration of a revision. The ConfigMaps of its control plane stay. Raises TagError if it has none."""
        webhooks = self._configurations.of_revision(name)
        if not webhooks:
            raise TagError(
                f'cannot remove revision "{name}": it has no MutatingWebhookConfiguration',
                hint="uninstall its control plane with `istioctl uninstall --revision`",
            )
        self.delete([(WEBHOOKS, webhook) for webhook in webhooks])

    def delete(self, objects: Sequence[tuple[Resource, Mapping[str, Any]]], *, dry_run: bool = False) -> None:
        """Delete objects in order, each only if it has not changed since it was read. One that is gone already is skipped.

        With ``dry_run`` the API server checks every deletion and deletes nothing.
        """

        async def work(client: KubeClient) -> None:
            for resource, item in objects:
                metadata = item["metadata"]
                namespace, version = metadata.get("namespace", ""), metadata["resourceVersion"]
                try:
                    await client.delete(
                        resource, metadata["name"], namespace=namespace, resource_version=version, dry_run=dry_run
                    )
                except ClusterError as error:
                    if error.reason != "missing":
                        raise

        self.cluster.run(work)
