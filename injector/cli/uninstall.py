"""``injector uninstall``: remove the objects that the injector wrote to a cluster, the webhooks first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from injector.cli.commands import verbose
from injector.cli.options import SKIP_CONFIRMATION, dry_run_option
from injector.cli.output import confirm, echo, examples
from injector.cli.sources import ISTIO_NAMESPACE_OPTION, SERVICE_NAMESPACE_OPTION, SERVICE_OPTION, kubeconfig_options
from injector.cli.webhookoptions import URL_OPTION
from injector.errors import TagError
from injector.fleet.removal import plan_removal, title_of
from injector.hints import first_of
from injector.istio.webhooks.configurations import Endpoint
from injector.revisions.clustertags import ClusterTags
from injector.settings import DEFAULTS

if TYPE_CHECKING:
    from injector.cluster.kubeconfig import Kubeconfig

_SHOWN_USERS: Final = 5


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
            echo(f"delete {title_of(resource, item)}")
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
