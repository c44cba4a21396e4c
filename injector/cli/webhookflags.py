"""Flags of the commands that write tags and MutatingWebhookConfigurations."""

from __future__ import annotations

import base64
import functools
import re
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast
from urllib.parse import urlsplit

import click
from click.core import ParameterSource

from injector.cli.clusterflags import ISTIO_NAMESPACE_FLAG, checked_namespace
from injector.cli.flags import FILE
from injector.errors import ConfigError, UsageError
from injector.flagvalues import parse_duration
from injector.istio.webhooks import FAILURE_POLICIES, REINVOCATION_POLICIES, TIMEOUTS, Endpoint, WebhookOptions
from injector.revisions.files import required_text
from injector.revisions.names import checked_name

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from injector.errors import DataError

F = TypeVar("F", bound="Callable[..., Any]")

# RFC 1035 label, as Kubernetes checks the name of a Service.
_SERVICE = re.compile(r"[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
# RFC 1123 subdomain, as Kubernetes checks the name of a MutatingWebhookConfiguration.
_SUBDOMAIN = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_SUBDOMAIN_LENGTH: Final = 253
_CERTIFICATE: Final = "-----BEGIN CERTIFICATE-----"
_PRIVATE: Final = "PRIVATE KEY-----"

skip_confirmation = click.option("-y", "--skip-confirmation", is_flag=True, help="Answer every question with yes.")
overwrite = click.option("--overwrite", is_flag=True, help="Move the tag if it is there already.")
auto_inject = click.option(
    "--auto-inject-namespaces",
    is_flag=True,
    help="Let `default` inject namespaces and pods that carry no label at all.",
)


def revisions_dir(*, required: bool, without: str = "") -> Callable[[F], F]:
    """Return the flag ``--revisions-dir``; ``without`` says what happens when it is not given."""
    says = "The directory of revisions, whose tags.yaml holds the tags"
    return click.option(
        "--revisions-dir",
        "--revisionsDir",
        "directory",
        type=FILE,
        required=required,
        help=f"{says}; {without}." if without else f"{says}.",
    )


def webhook_flags(command: F) -> F:
    """Add the flags of ``WebhookOptions``, as its parameter ``options``."""

    @click.option("--service", default=Endpoint().service, show_default=True, help="The injector's Service.")
    @click.option("--service-namespace", default=Endpoint().namespace, show_default=True, help="Its namespace.")
    @click.option(
        "--service-port", type=click.IntRange(1, 65535), default=Endpoint().port, show_default=True, help="Its port."
    )
    @click.option("--url", metavar="URL", help="Where the API server reaches the injector instead of the Service.")
    @click.option("--ca-bundle", type=FILE, metavar="FILE", help="The CA certificates for the caBundle, as PEM.")
    @click.option("--failure-policy", type=click.Choice(FAILURE_POLICIES), default="Fail", show_default=True)
    @click.option("--reinvocation-policy", type=click.Choice(REINVOCATION_POLICIES), default="Never", show_default=True)
    @click.option("--timeout", metavar="DURATION", help="From 1s to 30s; the API server's own 10s without it.")
    @ISTIO_NAMESPACE_FLAG
    @auto_inject
    @functools.wraps(command)
    def with_options(*args: Any, **kwargs: Any) -> Any:
        flags = {name: kwargs.pop(name) for name in _FLAGS}
        return command(*args, options=_options(**flags), **kwargs)

    return cast("F", with_options)


_FLAGS: Final = (
    "service", "service_namespace", "service_port", "url", "ca_bundle", "failure_policy", "reinvocation_policy",
    "timeout", "istio_namespace", "auto_inject_namespaces",
)  # fmt: skip


WEBHOOK_FLAGS: Final = {name: f"--{name.replace('_', '-')}" for name in _FLAGS}
"""The flags of ``webhook_flags``, by their parameter's name."""
_ENDPOINT: Final = {"service": "service", "service_namespace": "namespace", "service_port": "port", "url": "url"}
_NEVER_KEPT: Final = ("istio_namespace", "auto_inject")
_OPTIONS: Final = ("ca_bundle", "failure_policy", "reinvocation_policy", "timeout", *_NEVER_KEPT)


def stated(options: WebhookOptions) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the fields of ``options``, and of its endpoint, that the flags of the current command set.

    As in istioctl, the object's names and whether it injects unlabelled pods always come from the flags.
    """
    context = click.get_current_context()
    given = {name for name in _FLAGS if context.get_parameter_source(name) is ParameterSource.COMMANDLINE}
    endpoint = {field: getattr(options.endpoint, field) for name, field in _ENDPOINT.items() if name in given}
    return {name: getattr(options, name) for name in _OPTIONS if name in given or name in _NEVER_KEPT}, endpoint


def tag_name(name: str) -> str:
    """Return the name of a tag, checked.

    Raises:
        UsageError: it cannot name a tag.
    """
    return _name(name, where="TAG", kind="tag")


def revision_name(name: str, *, flag: str = "--revision") -> str:
    """Return the name of a revision, checked.

    Raises:
        UsageError: it cannot name a revision.
    """
    return _name(name, where=flag, kind="revision")


def webhook_name(name: str | None) -> str | None:
    """Return the name of a MutatingWebhookConfiguration, checked; None where none is given.

    Raises:
        UsageError: Kubernetes would refuse it.
    """
    if name is None or (_SUBDOMAIN.fullmatch(name) and len(name) <= _SUBDOMAIN_LENGTH):
        return name
    raise UsageError(
        f"{name[:80]!r} cannot name a MutatingWebhookConfiguration",
        where="--webhook-name",
        hint="use at most 253 lower-case letters, digits, `-` and `.`, with a letter or digit around each `.`",
    )


def _name(name: str, *, where: str, kind: str) -> str:
    try:
        return checked_name(name, where=where, kind=kind)
    except ConfigError as error:
        raise UsageError(error.what, where=error.where, hint=error.hint) from error


def _options(**flags: Any) -> WebhookOptions:
    if not _SERVICE.fullmatch(flags["service"]):
        raise UsageError(
            f"{flags['service'][:80]!r} cannot name a Service",
            where="--service",
            hint="use at most 63 lower-case letters, digits and `-`, beginning with a letter",
        )
    checked_namespace(flags["service_namespace"], flag="--service-namespace")
    return WebhookOptions(
        endpoint=Endpoint(flags["service"], flags["service_namespace"], flags["service_port"], _url(flags["url"])),
        ca_bundle=_ca_bundle(flags["ca_bundle"]),
        failure_policy=flags["failure_policy"],
        timeout=_timeout(flags["timeout"]),
        reinvocation_policy=flags["reinvocation_policy"],
        istio_namespace=flags["istio_namespace"],
        auto_inject=flags["auto_inject_namespaces"],
    )


def _url(url: str | None) -> str | None:
    """Check a URL as the API server does (k8s.io/apiserver/pkg/util/webhook/validation.go)."""
    if url is None:
        return None
    try:
        parts = urlsplit(url)
        port_is_wrong = parts.port == 0
    except ValueError as error:
        raise UsageError(f"{url!r} is no URL: {error}", where="--url", hint="write https://HOST:PORT") from error
    faults = {
        "it does not begin with https://": parts.scheme != "https",
        "it has no host": not parts.hostname,
        "its port is 0": port_is_wrong,
        "it has a user": parts.username is not None,
        "it has a query": "?" in url,
        "it has a fragment": "#" in url,
        "it has a blank": any(character.isspace() for character in url),
    }
    for what, is_so in faults.items():
        if is_so:
            raise UsageError(
                f"{what}, and the API server would refuse it", where="--url", hint="write https://HOST:PORT"
            )
    return url


def _timeout(text: str | None) -> int | None:
    if text is None:
        return None
    seconds = float(text) if text.isascii() and text.isdecimal() else parse_duration(text)
    if seconds not in TIMEOUTS:
        raise UsageError(
            f"{text} is no timeout of a webhook", where="--timeout", hint="give whole seconds from 1s to 30s"
        )
    return int(seconds)


def _ca_bundle(path: Path | None) -> str | None:
    if path is None:
        return None
    text = required_text(path)
    if _PRIVATE in text:
        raise _bad_bundle("it holds a private key, which everyone who may read webhooks would see", path)
    if _CERTIFICATE not in text:
        raise _bad_bundle("it holds no certificate", path)
    return base64.b64encode(text.encode()).decode("ascii")


def _bad_bundle(what: str, path: Path) -> DataError:
    return ConfigError(what, where=str(path), hint=f"give a PEM file of nothing but `{_CERTIFICATE}` blocks")
