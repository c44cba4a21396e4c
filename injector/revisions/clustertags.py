"""The tags of a cluster, each kept in a MutatingWebhookConfiguration as istioctl makes it.

A tag moves by one request, on condition that the object is still the one that was looked at. What takes the place of the
default revision is there before that one's webhooks are deactivated: in between a pod may be injected twice, which ends
as once, but never not at all.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from injector.cluster.configmaps import istio_config_map, revision_texts
from injector.cluster.reader import CONFIG_MAPS, NAMESPACES, PODS, SERVICES, WEBHOOKS, Scope, every, names
from injector.cluster.webhooks import REVISION_MANAGER, TAG_MANAGER, tag_webhook
from injector.errors import ClusterError, TagError
from injector.istio.webhooks import DEFAULT_NAME, INJECTION_LABEL, REVISION_LABEL
from injector.revisions.clustersource import cluster_tags
from injector.revisions.tagplan import Configurations, Placement, Plan, planned, planned_revision
from injector.revisions.tagstore import TagState
from injector.revisions.users import SHOWN, Users, followers, users

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence

    from injector.cluster.configmaps import IstioConfigMap
    from injector.cluster.reader import Client
    from injector.istio.webhooks import Endpoint
    from injector.revisions.tags import Tag

T = TypeVar("T")


class Cluster(Protocol):
    """Runs work with the API server's client."""

    def run(self, work: Callable[[Client], Coroutine[Any, Any, T]]) -> T:
        """Return what ``work`` returns; raise a ClusterError where the API server is away or refuses."""


@dataclass
class ClusterTags:
    """The tags of one cluster; what is written goes by what ``list`` saw last.

    Args:
        cluster: the way to the API server.
        istio_namespace: Istio's.
        placement: how a tag's object is made.
    """

    cluster: Cluster
    istio_namespace: str
    placement: Placement = field(default_factory=Placement)
    _seen: Configurations = field(default_factory=Configurations)

    def list(self) -> TagState:
        """Return the tags and the revisions, of both ConfigMaps and MutatingWebhookConfigurations.

        Raises:
            ClusterError: the API server cannot be reached, or refuses.
        """
        self.refresh()
        config_maps = self.cluster.run(self._config_maps)
        webhooks = [found for each in self._seen.items if (found := tag_webhook(each)) is not None]
        tags, faults = cluster_tags(webhooks)
        stored = revision_texts(config_maps, namespace=self.istio_namespace)
        installed, several = self._seen.revisions()
        broken = {**stored.failures, **several}
        known = {*(texts.name for texts in stored.revisions), *installed} - broken.keys()
        return TagState(tags, tuple(sorted(known)), broken, faults)

    def refresh(self) -> Configurations:
        """Look what MutatingWebhookConfigurations there are, and return them.

        Raises:
            ClusterError: the API server cannot be reached, or refuses.
        """

        async def read(client: Client) -> Configurations:
            return Configurations(tuple([each async for each in every(client, Scope(WEBHOOKS))]))

        self._seen = self.cluster.run(read)
        return self._seen

    def namespaces(self) -> Mapping[str, tuple[str, ...]]:
        """Return the namespaces that follow each revision or tag.

        Raises:
            ClusterError: the API server cannot be reached, or refuses.
        """

        async def read(client: Client) -> dict[str, tuple[str, ...]]:
            # Only namespaces with a label of Istio's; selectors cannot say `or`, so these are asked for in two lists.
            scopes = [Scope(NAMESPACES, labels=labels) for labels in (REVISION_LABEL, f"{INJECTION_LABEL}=enabled")]
            return followers(
                [
                    (each["metadata"]["name"], each["metadata"]["labels"])
                    for scope in scopes
                    async for each in every(client, scope)
                ]
            )

        return self.cluster.run(read)

    def users(self, name: str) -> Users:
        """Return the namespaces and the pods that follow a revision or tag by their labels.

        Raises:
            ClusterError: the API server cannot be reached, or refuses.
        """
        scopes = [("namespace", Scope(NAMESPACES, labels=f"{REVISION_LABEL}={name}"))]
        if name == DEFAULT_NAME:
            enabled = f"{INJECTION_LABEL}=enabled,{REVISION_LABEL}!={name}"
            scopes.append(("namespace", Scope(NAMESPACES, labels=enabled)))
        scopes.append(("pod", Scope(PODS, labels=f"{REVISION_LABEL}={name}")))

        async def read(client: Client) -> Users:
            found = Users()
            for kind, scope in scopes:
                some = await names(client, scope, most=SHOWN)
                found += users(kind, some.first, total=some.total)
            return found

        return self.cluster.run(read)

    def plan(self, tag: Tag) -> Plan:
        """Return what writing ``tag`` comes to.

        Raises:
            TagError: the object's name is another's, or there is more than one object to change.
            ClusterError: the API server cannot be reached, or refuses.
        """
        plan = planned(tag, self._seen, self.placement)
        missing = self.cluster.run(_missing_service(plan.options.endpoint))
        return replace(plan, conflicts=(*plan.conflicts, *missing))

    def write(self, plan: Plan, *, force: bool = True, dry_run: bool = False) -> None:
        """Write what was planned; a tag that moves takes over fields that others manage, unless ``force`` is false.

        Raises:
            ClusterError: the API server cannot be reached, or refuses.
        """

        async def work(client: Client) -> None:
            never, moves = plan.deactivation, plan.moves and force
            if never is not None:  # whether that will do is known before anything is written
                await client.apply(WEBHOOKS, never, manager=TAG_MANAGER, force=True, dry_run=True)
            await client.apply(WEBHOOKS, plan.applied, manager=TAG_MANAGER, force=moves, dry_run=dry_run)
            if never is not None and not dry_run:
                await client.apply(WEBHOOKS, never, manager=TAG_MANAGER, force=True)

        self.cluster.run(work)

    def write_revision(self, manifest: dict[str, Any], *, force: bool = False, dry_run: bool = False) -> None:
        """Write the configuration of a revision; ``force`` takes over fields that others manage.

        Raises:
            TagError: what has its name is not that revision's.
            ClusterError: the API server cannot be reached, or refuses.
        """
        applied = planned_revision(manifest, self._seen)

        async def work(client: Client) -> None:
            await client.apply(WEBHOOKS, applied, manager=REVISION_MANAGER, force=force, dry_run=dry_run)

        self.cluster.run(work)

    def set(self, tag: Tag) -> None:
        """Write one tag, whatever speaks against it.

        Raises:
            InjectorError: as of ``plan`` and ``write``.
        """
        self.write(self.plan(tag))

    def remove(self, name: str) -> None:
        """Delete every object of a tag.

        Raises:
            ClusterError: the API server cannot be reached, or refuses.
        """
        self._delete(self._seen.of_tag(name))

    def remove_revision(self, name: str) -> None:
        """Delete the configuration of a revision; its ConfigMaps are its control plane's.

        Raises:
            TagError: it has none.
            ClusterError: the API server cannot be reached, or refuses.
        """
        found = self._seen.of_revision(name)
        if not found:
            raise TagError(
                f'cannot remove revision "{name}": it has no MutatingWebhookConfiguration',
                hint="its ConfigMaps go with its control plane, by `istioctl uninstall --revision`",
            )
        self._delete(found)

    def _delete(self, found: Sequence[Mapping[str, Any]]) -> None:
        async def work(client: Client) -> None:
            for each in found:
                metadata = each["metadata"]
                await client.delete(WEBHOOKS, metadata["name"], resource_version=metadata["resourceVersion"])

        self.cluster.run(work)

    async def _config_maps(self, client: Client) -> tuple[IstioConfigMap, ...]:
        scope = Scope(CONFIG_MAPS, self.istio_namespace, REVISION_LABEL)
        found = [istio_config_map(each) async for each in every(client, scope)]
        return tuple(each for each in found if each is not None)


def _missing_service(endpoint: Endpoint) -> Callable[[Client], Coroutine[Any, Any, tuple[str, ...]]]:
    """Return what looks for the Service, and says in the words of Istio's analyzer that it is not there."""

    async def look(client: Client) -> tuple[str, ...]:
        if endpoint.url is not None:
            return ()
        try:
            await client.get(SERVICES, endpoint.service, namespace=endpoint.namespace)
        except ClusterError as error:
            if error.reason == "missing":
                service = f"{endpoint.namespace}/{endpoint.service}"
                return (f"Injector refers to a control plane service that does not exist: {service}.",)
            if error.reason != "forbidden":  # who may not look does not know, which is no fault of the tag
                raise
        return ()

    return look
