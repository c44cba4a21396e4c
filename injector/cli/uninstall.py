"""``injector uninstall``: remove the objects that the injector wrote to a cluster, the webhooks first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import click

from injector.cli.commands import verbose
from injector.cli.options import SKIP_CONFIRMATION, dry_run_option
from injector.cli.output import confirm, echo, examples
from injector.cli.sources import ISTIO_NAMESPACE_OPTION, SERVICE_NAMESPACE_OPTION, SERVICE_OPTION, kubeconfig_options
from injector.cli.webhookoptions import URL_OPTION
from injector.cluster.resources import SECRETS, SERVICES, WEBHOOKS, Resource
from injector.cluster.secrets import CA_MANAGER
from injector.cluster.webhooks import BUNDLE_MANAGER, REVISION_MANAGER, TAG_MANAGER, creators, managers
from injector.errors import TagError
from injector.hints import first_of
from injector.injection.containers import labels_of
from injector.istio.labels import DEFAULT_NAME, REVISION_LABEL, TAG_LABEL
from injector.istio.webhooks.configurations import Endpoint, is_deactivated, is_unserved_webhook, sidecar_webhooks
from injector.istio.webhooks.paths import has_path_of
from injector.revisions.clustertags import ClusterTags
from injector.settings import DEFAULTS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from injector.cluster.kubeconfig import Kubeconfig

_OWN: Final = frozenset({TAG_MANAGER, REVISION_MANAGER, BUNDLE_MANAGER})
_RELEASE: Final = "meta.helm.sh/release-name"
_SHOWN_USERS: Final = 5


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
            users[_way_back(tag, revision)] = cluster.users(tag or revision)
        if tag == DEFAULT_NAME:
            others = (other for other in configurations if other not in own and is_deactivated(other))
            remaining += [
                f"{_title(WEBHOOKS, other)}: it selects no pods; install its revision again" for other in others
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
                f"{_title(SECRETS, secret)}: the injector still uses it; remove the injector, and run this command again"
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
    return f"{_title(WEBHOOKS, configuration)}: the injector did not create it; {remedy}"


def _way_back(tag: str, revision: str) -> str:
    """Return how to keep an injector for the pods that name a tag or revision."""
    if tag:
        return f"`{_istioctl(tag, revision)}` leads them to istiod without a gap"
    return f"label them with a tag of istiod first, or install revision {revision} with its webhooks again"


def _istioctl(tag: str, revision: str) -> str:
    return f"istioctl tag set {tag} --revision {revision} --overwrite"


def _title(resource: Resource, item: Mapping[str, Any]) -> str:
    metadata = item["metadata"]
    place = f"{metadata['namespace']}/" if resource.namespaced else ""
    return f"{resource.kind} {place}{metadata['name']}"


@click.command("uninstall", epilog=examples("uninstall --dry-run", "uninstall --service-namespace injector-system"))
@dry_run_option(
    client="print the objects and their users, and delete nothing", server="the API server checks each deletion too"
)
@SKIP_CONFIRMATION
@click.option("--force", is_flag=True, help="Delete webhooks that namespaces or pods still use.")
@SERVICE_OPTION
@SERVICE_NAMESPACE_OPTION
@URL_OPTION
@click.option("--ca-secret", default=DEFAULTS.ca_secret, show_default=True, metavar="NAME", help="Secret of the CA.")
@ISTIO_NAMESPACE_OPTION
@kubeconfig_options
@verbose
def uninstall(  # noqa: PLR0913 -- one parameter for each flag
    *,
    dry_run: str,
    skip_confirmation: bool,
    force: bool,
    service: str,
    namespace: str,
    url: str | None,
    ca_secret: str,
    istio_namespace: str,
    kubeconfig: Kubeconfig,
) -> None:
    """Remove the objects that the injector wrote to the cluster, webhooks first.

    It then removes the other objects of tags, and the CA. It keeps webhooks that Istio's tools, Helm or kubectl created, and prints how to
    hand them back. Run it before you remove the injector itself, and again afterwards to remove the CA. The exit code is 1 if a webhook
    still calls the injector.
    """
    from injector.cluster.session import open_session  # noqa: PLC0415 -- --help needs no event loop

    with open_session(kubeconfig) as session:
        cluster = ClusterTags(session, istio_namespace)
        plan = plan_removal(cluster, Endpoint(service, namespace, url=url), ca_secret)
        for resource, item in plan.delete:
            echo(f"delete {_title(resource, item)}")
        for line in plan.remaining:
            echo(f"keep {line}")
        for remedy, users in plan.users.items():
            echo(f"warning: without an injector: {first_of(users, _SHOWN_USERS)}; {remedy}", err=True)
        if dry_run == "server":
            cluster.delete(plan.delete, dry_run=True)
        if dry_run != "none":
            return
        if plan.users and not force:
            raise TagError("cannot uninstall: the webhooks are in use", hint="follow the warnings, or give --force")
        if plan.delete:
            if not skip_confirmation:
                confirm(f"Delete {len(plan.delete)} objects?")
            cluster.delete(plan.delete)
            echo(f"{len(plan.delete)} objects deleted")
    if plan.calling:
        what = f"{plan.calling} webhook configurations of others still call the injector"
        raise TagError(what, hint="hand them back before you remove the injector")
    echo("Nothing calls the injector: you can remove it, for example with `helm uninstall`")
