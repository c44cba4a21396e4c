"""The objects that the injector wrote to a cluster, those of others that still call it, and who uses them: for its removal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from injector.cluster.resources import SECRETS, SERVICES, WEBHOOKS, Resource
from injector.cluster.secrets import CA_MANAGER
from injector.cluster.webhooks import BUNDLE_MANAGER, REVISION_MANAGER, TAG_MANAGER, creators, managers
from injector.injection.containers import labels_of
from injector.istio.labels import DEFAULT_NAME, REVISION_LABEL, TAG_LABEL
from injector.istio.webhooks.configurations import Endpoint, is_deactivated, is_unserved_webhook, sidecar_webhooks
from injector.istio.webhooks.paths import has_path_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from injector.revisions.clustertags import ClusterTags

_OWN: Final = frozenset({TAG_MANAGER, REVISION_MANAGER, BUNDLE_MANAGER})
_RELEASE: Final = "meta.helm.sh/release-name"


@dataclass(frozen=True, slots=True)
class Removal:
    """The changes of an uninstallation.

    Args:
        delete: the objects that belong to the injector, in the order of their deletion.
        remaining: lines about objects that stay, each with a remedy.
        calling: how many webhook configurations of others still call the injector.
        users: the namespaces and pods whose revision or tag has no webhook afterwards, by the way to keep an injector for them.
    """

    delete: tuple[tuple[Resource, Mapping[str, Any]], ...]
    remaining: tuple[str, ...]
    calling: int
    users: Mapping[str, Sequence[str]]


def plan_removal(cluster: ClusterTags, endpoint: Endpoint, ca_secret: str) -> Removal:
    """Return the objects of the injector at ``endpoint``, and their users. ``ca_secret`` is the Secret of its CA.

    An object belongs to the injector if only its commands wrote the webhooks. Every other one that calls the injector stays: Helm,
    istioctl or kubectl wrote it before.
    """
    faults, configurations = cluster.list().faults, cluster.configurations
    own: list[Mapping[str, Any]] = []
    remaining: list[str] = []
    users: dict[str, Sequence[str]] = {}
    calling = [configuration for configuration in configurations if _calls(configuration, endpoint)]
    for configuration in calling:
        if creators(configuration) and creators(configuration) <= _OWN:
            own.append(configuration)
        else:
            remaining.append(_remedy(configuration))
    # The webhook for unknown names can refuse pods, so it must not outlive the others.
    own.sort(key=lambda configuration: not is_unserved_webhook(configuration))
    objects: list[tuple[Resource, Mapping[str, Any]]] = [(WEBHOOKS, item) for item in own]
    for item in own:
        tag, revision = labels_of(item).get(TAG_LABEL, ""), labels_of(item).get(REVISION_LABEL, "")
        if tag:
            objects += [own_object for own_object in cluster.objects_of(tag) if own_object[0] is not WEBHOOKS]
        if (tag or revision) and not is_deactivated(item):
            gateways = cluster.gateways(tag) if tag else ()
            users[_way_back(tag, revision)] = [*cluster.users(tag or revision), *gateways]
        if tag == DEFAULT_NAME:
            others = (other for other in configurations if other not in own and is_deactivated(other))
            remaining += [
                f"{title_of(WEBHOOKS, other)}: it selects no pods; install its revision again" for other in others
            ]
    # If an uninstallation failed, tags can have other objects without webhooks.
    for tag in sorted(faults.keys() - {labels_of(configuration).get(TAG_LABEL) for configuration in configurations}):
        objects += [own_object for own_object in cluster.objects_of(tag) if TAG_MANAGER in managers(own_object[1])]
    secret = cluster.find(SECRETS, ca_secret, namespace=endpoint.namespace)
    if secret is not None and CA_MANAGER in managers(secret):
        if cluster.find(SERVICES, endpoint.service, namespace=endpoint.namespace) is None and len(own) == len(calling):
            objects.append((SECRETS, secret))
        else:
            remaining.append(
                f"{title_of(SECRETS, secret)}: the injector still uses it; remove the injector, and run this command again"
            )
    return Removal(
        tuple(objects),
        tuple(remaining),
        len(calling) - len(own),
        {key: namespaces for key, namespaces in users.items() if namespaces},
    )


def _calls(configuration: Mapping[str, Any], endpoint: Endpoint) -> bool:
    clients = [webhook.get("clientConfig") or {} for webhook in configuration.get("webhooks") or ()]
    if endpoint.url is not None:
        at_endpoint = any(str(client.get("url") or "").startswith(f"{endpoint.url.rstrip('/')}/") for client in clients)
    else:
        server = (endpoint.namespace, endpoint.service)
        services = [client.get("service") or {} for client in clients]
        at_endpoint = any((service.get("namespace"), service.get("name")) == server for service in services)
    labels = labels_of(configuration)
    names = [labels[key] for key in (TAG_LABEL, REVISION_LABEL) if key in labels]
    sidecars = [sidecar_webhook["clientConfig"] for sidecar_webhook in sidecar_webhooks(configuration)]
    return at_endpoint and (
        is_unserved_webhook(configuration) or any(has_path_of(sidecar, name) for sidecar in sidecars for name in names)
    )


def _remedy(configuration: Mapping[str, Any]) -> str:
    """Return a line about a configuration of another owner: how to let it call istiod again."""
    labels, annotations = labels_of(configuration), configuration["metadata"].get("annotations") or {}
    tag, revision = labels.get(TAG_LABEL, ""), labels.get(REVISION_LABEL, "")
    if release := annotations.get(_RELEASE):
        remedy = f"run `helm upgrade` for the release {release}, without the injector's address, or `helm uninstall` it"
    elif tag:
        remedy = f"run `{_istioctl(tag, revision)}`"
    else:
        by = ", ".join(sorted(creators(configuration) - _OWN)) or "an unknown tool"
        remedy = f"apply Istio's own webhooks of revision {revision} with {by} again, or delete it"
    return f"{title_of(WEBHOOKS, configuration)}: the injector did not create it; {remedy}"


def _way_back(tag: str, revision: str) -> str:
    """Return how to keep an injector for the pods that name a tag or revision."""
    if tag:
        return f"`{_istioctl(tag, revision)}` leads them to istiod without a gap"
    return f"label them with a tag of istiod first, or install revision {revision} with its webhooks again"


def _istioctl(tag: str, revision: str) -> str:
    return f"istioctl tag set {tag} --revision {revision} --overwrite"


def title_of(resource: Resource, item: Mapping[str, Any]) -> str:
    """Return an object in a line: its kind and its name."""
    metadata = item["metadata"]
    place = f"{metadata['namespace']}/" if resource.namespaced else ""
    return f"{resource.kind} {place}{metadata['name']}"
