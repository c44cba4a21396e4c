"""``injector webhook``: the MutatingWebhookConfigurations that send pods to the injector."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import click

from injector.cli.commands import Subcommands, verbose
from injector.cli.options import FILE, converted, dry_run_option, option_group, refuse_unused, seconds_of, was_given
from injector.cli.output import echo, examples, yaml_text
from injector.cli.sources import (
    ISTIO_NAMESPACE_OPTION,
    SERVICE_NAMESPACE_OPTION,
    SERVICE_OPTION,
    check_cluster,
    complete_names,
    directory_source,
    kubeconfig_options,
    precedence_option,
    revision_name,
    revision_option,
    revisions_dir,
    tag_name,
)
from injector.cluster.resources import WEBHOOKS, Resource
from injector.errors import ClusterError, ConfigError, InjectorError, TagError, UsageError
from injector.istio.webhooks import (
    DEFAULT_NAME,
    FAILURE_POLICIES,
    REINVOCATION_POLICIES,
    SLASH,
    TIMEOUTS,
    UNSERVED_ACTIONS,
    Endpoint,
    WebhookOptions,
    deactivated,
    revision_webhook,
    tag_webhook,
    unserved_webhook,
)
from injector.kube.selectors import is_label_key, is_subdomain
from injector.revisions.clustertags import ClusterTags, Placement
from injector.revisions.files import required_text
from injector.revisions.tags import Tag, tag_annotations, usable_tags
from injector.revisions.tagstore import DirectoryTags, TagState

if TYPE_CHECKING:
    from pathlib import Path

    from injector.cluster.kubeconfig import Kubeconfig

_CERTIFICATE: Final = "-----BEGIN CERTIFICATE-----"
_PRIVATE: Final = "PRIVATE KEY-----"

_ALWAYS: Final = ("istio_namespace", "auto_inject")
_ENDPOINT_FIELDS: Final = tuple(each.name for each in fields(Endpoint))
_FIELDS: Final = tuple(each.name for each in fields(WebhookOptions) if each.name != "endpoint")
WEBHOOK_PARAMETERS: Final = (*_ENDPOINT_FIELDS, *_FIELDS)
"""The parameters of ``webhook_options``, which are the fields of ``Endpoint`` and ``WebhookOptions``."""


def _checked_url(url: str) -> str:
    """Check a URL as the API server does (k8s.io/apiserver/pkg/util/webhook/validation.go)."""
    try:
        parts = urlsplit(url)
        faults = {
            "it does not begin with https://": parts.scheme != "https",
            "it has no host": not parts.hostname,
            "its port is 0": parts.port == 0,
            "it has a user": parts.username is not None,
            "it has a path, and that of a webhook is /inject/NAME": parts.path not in ("", "/"),
            "it has a query": "?" in url,
            "it has a fragment": "#" in url,
            "it contains a space": any(character.isspace() for character in url),
        }
        fault = next((text for text, is_so in faults.items() if is_so), None)
    except ValueError as error:
        fault = str(error)
    if fault is None:
        return url
    raise UsageError(f"not a URL that the API server accepts: {fault}", where="--url", hint="write https://HOST:PORT")


def _match_condition(text: str) -> tuple[str, str]:
    name, separator, expression = text.partition("=")
    if not separator or not is_label_key(name) or not expression.strip():
        hint = "write not-a-mirror-pod='EXPRESSION'"
        raise UsageError(f"{text[:80]!r} is not NAME=EXPRESSION", where="--match-condition", hint=hint)
    return name, expression


def _webhook_timeout(text: str) -> int:
    seconds = float(text) if text.isascii() and text.isdecimal() else seconds_of(text, where="--timeout")
    if seconds not in TIMEOUTS:
        hint = "give whole seconds from 1s to 30s"
        raise UsageError(f"{text} is not a valid webhook timeout", where="--timeout", hint=hint)
    return int(seconds)


def _encoded_bundle(path: Path) -> str:
    text, fault = required_text(path), None
    if _PRIVATE in text:
        fault = "the file has a private key, and everyone who can read webhooks could see it"
    elif _CERTIFICATE not in text:
        fault = "the file has no certificate"
    if fault is not None:
        raise ConfigError(fault, where=str(path), hint=f"give a PEM file with only `{_CERTIFICATE}` blocks")
    return base64.b64encode(text.encode()).decode("ascii")


def _webhook_options(**given: Any) -> WebhookOptions:
    endpoint = Endpoint(**{name: given.pop(name) for name in _ENDPOINT_FIELDS})
    # In the path of a Service, the API server accepts only the letters of DNS names.
    for name in ("cluster", "network") if endpoint.url is None else ():
        value = given[name]
        if value and not is_subdomain(value.replace("/", SLASH)):
            hint = "use lower-case letters, digits, `-` and `.`, or give --url"
            raise UsageError(f"{value[:80]!r} cannot be in the path of a Service", where=f"--{name}", hint=hint)
    return WebhookOptions(endpoint, **given)


URL_OPTION: Final = click.option(
    "--url",
    metavar="URL",
    callback=converted(_checked_url),
    help="URL of the injector for the API server, instead of a Service.",
)
webhook_options: Final = option_group(
    "options",
    _webhook_options,
    SERVICE_OPTION,
    SERVICE_NAMESPACE_OPTION,
    click.option(
        "--service-port",
        "port",
        metavar="PORT",
        type=click.IntRange(1, 65535),
        default=Endpoint().port,
        show_default=True,
        help="Port of the Service.",
    ),
    URL_OPTION,
    click.option(
        "--ca-bundle",
        type=FILE,
        metavar="FILE",
        callback=converted(_encoded_bundle),
        help="PEM file with the CA certificates for the caBundle.",
    ),
    click.option(
        "--failure-policy",
        type=click.Choice(FAILURE_POLICIES),
        default="Fail",
        show_default=True,
        help="What the API server does with a pod if the injector does not answer.",
    ),
    click.option(
        "--reinvocation-policy",
        type=click.Choice(REINVOCATION_POLICIES),
        default="Never",
        show_default=True,
        help="Whether the API server may call the webhook again after other webhooks changed the pod.",
    ),
    click.option(
        "--timeout",
        metavar="DURATION",
        callback=converted(_webhook_timeout),
        help="Timeout from 1s to 30s. Default: the API server's own, 10s.",
    ),
    ISTIO_NAMESPACE_OPTION,
    click.option(
        "--auto-inject-namespaces",
        "auto_inject",
        is_flag=True,
        help="Let the tag or revision `default` also inject namespaces and pods without any injection label.",
    ),
    precedence_option("All webhooks need the same."),
    click.option("--cluster", default="", metavar="NAME", help="Cluster of the proxies, in the path of the webhooks."),
    click.option("--network", default="", metavar="NAME", help="Network of the proxies, in the path of the webhooks."),
    click.option(
        "--match-condition",
        "match_conditions",
        multiple=True,
        metavar="NAME=EXPRESSION",
        callback=converted(lambda given: tuple(map(_match_condition, given))),
        help="Call the webhooks only for pods that meet this CEL expression. Repeatable.",
    ),
    names=WEBHOOK_PARAMETERS,
)
"""The options of ``WebhookOptions``, as the parameter ``options``."""


def given_webhook_options(options: WebhookOptions) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the fields of ``options``, and of its endpoint, that are on the command line.

    As in istioctl, the Istio namespace and whether to inject pods without a label always come from the command line, or its defaults.
    """
    endpoint = {name: getattr(options.endpoint, name) for name in _ENDPOINT_FIELDS if was_given(name)}
    given = {name: getattr(options, name) for name in _FIELDS if name in _ALWAYS or was_given(name)}
    return given, endpoint


_APPLIED: Final = {
    "none": "serverside-applied",
    "server": "serverside-applied (server dry run)",
    "client": "serverside-applied (dry run)",
}
"""The words of kubectl for each object, by ``--dry-run``."""


@dataclass(frozen=True, slots=True)
class WebhookSelection:
    """The one revision or tag on the command line. Without any, the command works on all."""

    revision: str | None = None
    tag: str | None = None

    @property
    def is_all(self) -> bool:
        """Whether the command works on all revisions and tags."""
        return self.revision is None and self.tag is None

    def among(self, state: TagState) -> tuple[tuple[str, ...], tuple[Tag, ...]]:
        """Return the chosen revisions and tags. Of all, print a warning for those that cannot be used.

        Raises:
            TagError: the chosen one does not exist or cannot be read.
        """
        if self.revision is not None:
            state.check_revision(self.revision)
            return (self.revision,), ()
        if self.tag is not None:
            return (), (state.find_tag(self.tag),)
        tags, faults = usable_tags(state.tags, state.revisions)
        for error in (*state.broken.values(), *state.faults.values(), *faults):
            echo(f"warning: {error}", err=True)
        return state.revisions, tuple(tags.values())


def _choice(revision: str | None, tag: str | None) -> WebhookSelection:
    if revision is not None and tag is not None:
        raise UsageError("--revision and --tag exclude each other", hint="give one of the two")
    return WebhookSelection(
        None if revision is None else revision_name(revision), None if tag is None else tag_name(tag)
    )


_CHOICE: Final = option_group(
    "choice",
    _choice,
    revision_option("Only this revision.", "REVISION"),
    click.option("--tag", metavar="TAG", shell_complete=complete_names, help="Only this tag."),
)


@click.group("webhook", cls=Subcommands, no_args_is_help=True)
@verbose
def webhook() -> None:
    """Print or apply the MutatingWebhookConfigurations of revisions and tags."""


@webhook.command(
    "generate",
    epilog=examples(
        "webhook generate | kubectl apply -f -",
        "webhook generate --revisions-dir revisions",
        "webhook generate --unserved warn",
    ),
)
@_CHOICE
@click.option(
    "--unserved",
    type=click.Choice(UNSERVED_ACTIONS),
    help="Instead, print the webhook for unknown revisions and tags. Its failure policy is always Ignore.",
)
@revisions_dir("the revisions and tags in the cluster")
@kubeconfig_options
@webhook_options
@verbose
def generate(
    *,
    choice: WebhookSelection,
    unserved: str | None,
    revisions_dir: Path | None,
    kubeconfig: Kubeconfig,
    options: WebhookOptions,
) -> None:
    """Print the MutatingWebhookConfigurations of all revisions and tags, or of one, for `kubectl apply -f -`.

    --revision alone does not look the name up, so it needs no revisions.

    With --unserved, print the one that warns about or refuses pods whose istio.io/rev label, or that of their namespace, names an
    unknown revision or tag.
    """
    if unserved is not None:
        if not choice.is_all:
            raise UsageError(
                "this webhook is for every unknown name", where="--unserved", hint="leave out --revision and --tag"
            )
        refuse_unused("with --unserved", "revisions_dir", "embedded", "paths", "context_name")
        echo(yaml_text(unserved_webhook(unserved, options)), nl=False)
        return
    revisions: tuple[str, ...]
    tags: tuple[Tag, ...]
    if revisions_dir is not None:
        refuse_unused(f"with {directory_source()}", "paths", "context_name", hint="leave one of the two out")
    if revisions_dir is None and choice.revision is not None:
        refuse_unused("with --revision, which needs no cluster", "paths", "context_name")
        revisions, tags = (choice.revision,), ()
    else:
        revisions, tags = choice.among(_listed(revisions_dir, kubeconfig, options))
        if not revisions and not tags:
            where = str(revisions_dir or f"namespace {options.istio_namespace}")
            hint = "give --revisions-dir, --istio-namespace or --revision"
            raise UsageError("no Istio revision found", where=where, hint=hint)
    has_default_tag = any(tag.name == DEFAULT_NAME for tag in tags)
    documents = [_revision_manifest(name, options, has_default_tag=has_default_tag) for name in revisions]
    documents += [tag_webhook(tag.name, tag.revision, options, annotations=tag_annotations(tag)) for tag in tags]
    echo("---\n".join(map(yaml_text, documents)), nl=False)


def _listed(directory: Path | None, kubeconfig: Kubeconfig, options: WebhookOptions) -> TagState:
    """Return the revisions and tags of a directory, or else of the cluster. Raises NotConfiguredError without one."""
    if directory is not None:
        return DirectoryTags(directory).list()
    check_cluster(kubeconfig)
    from injector.cluster.session import open_session  # noqa: PLC0415 -- a directory needs no event loop

    with open_session(kubeconfig) as session:
        return ClusterTags(session, options.istio_namespace, Placement({})).list()


def _revision_manifest(name: str, options: WebhookOptions, *, has_default_tag: bool) -> dict[str, Any]:
    """Return the configuration of a revision. A tag ``default`` replaces the webhooks of a revision ``default``."""
    manifest = revision_webhook(name, options)
    return deactivated(manifest) if has_default_tag and name == DEFAULT_NAME else manifest


@webhook.command("apply", epilog=examples("webhook apply --dry-run server", "webhook apply --revision 1-30"))
@_CHOICE
@dry_run_option(server="the API server checks the objects without saving them", client="nothing is sent")
@click.option(
    "--force-conflicts", is_flag=True, help="Take over fields that another manager has, as with `kubectl apply`."
)
@revisions_dir("the revisions and tags in the cluster", has_embedded=False)
@kubeconfig_options
@webhook_options
@verbose
def apply(
    *,
    choice: WebhookSelection,
    revisions_dir: Path | None,
    kubeconfig: Kubeconfig,
    options: WebhookOptions,
    dry_run: str,
    force_conflicts: bool,
) -> None:
    """Apply the MutatingWebhookConfigurations of all revisions and tags, or of one, and the other objects of tags to the cluster.

    An existing caBundle stays unless --ca-bundle gives another one.
    """
    from injector.cluster.session import open_session  # noqa: PLC0415 -- the other commands need no event loop

    lines: list[str] = []
    with open_session(kubeconfig) as session:
        given = {each.name: getattr(options, each.name) for each in fields(options)}
        cluster = ClusterTags(session, options.istio_namespace, Placement(given, inherit_bundle=False))
        if revisions_dir is None:
            state = cluster.list()
        else:
            state = DirectoryTags(revisions_dir).list()
            cluster.refresh()
        try:
            for resource, name in _apply(
                cluster, *choice.among(state), options, dry_run=dry_run, force=force_conflicts
            ):
                lines.append(f"{_kubectl_name(resource)}/{name} {_APPLIED[dry_run]}\n")
        except InjectorError as error:
            echo("".join(lines), err=True, nl=False)
            if isinstance(error, ClusterError) and error.reason == "conflict" and not force_conflicts:
                hint = "add --force-conflicts to take over these fields"
                raise TagError(error.what, where=error.where, hint=hint) from error
            raise
    echo("".join(lines), nl=False)


def _apply(
    cluster: ClusterTags,
    revisions: Iterable[str],
    tags: Iterable[Tag],
    options: WebhookOptions,
    *,
    dry_run: str,
    force: bool,
) -> Iterator[tuple[Resource, str]]:
    """Write the objects as the flags say, and yield the resource and the name of each one that is written."""
    has_default_tag = False
    # Tags come first, so that the default tag exists before the revision of this name is deactivated.
    for tag in tags:
        has_default_tag = has_default_tag or tag.name == DEFAULT_NAME
        plan = cluster.plan(tag)
        for conflict in plan.conflicts:
            echo(f"warning: {plan.manifest['metadata']['name']}: {conflict}", err=True)
        if dry_run != "client":
            cluster.write(plan, force=force, dry_run=dry_run == "server")
        yield from plan.objects
    has_default_tag = has_default_tag or bool(cluster.refresh().of_tag(DEFAULT_NAME))
    for name in revisions:
        manifest = _revision_manifest(name, options, has_default_tag=has_default_tag)
        if dry_run != "client":
            cluster.write_revision(manifest, force=force, dry_run=dry_run == "server")
        yield WEBHOOKS, manifest["metadata"]["name"]


def _kubectl_name(resource: Resource) -> str:
    """Return the name of a resource in kubectl's messages, such as ``deployment.apps``."""
    group = resource.api_version.rpartition("/")[0]
    return f"{resource.kind.lower()}.{group}".rstrip(".")
