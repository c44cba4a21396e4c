"""The flags of MutatingWebhookConfigurations."""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import click

from injector.cli.options import FILE, option_group, seconds_of, was_given
from injector.cli.sources import ISTIO_NAMESPACE_OPTION, checked_namespace
from injector.errors import ConfigError, UsageError
from injector.istio.webhooks import FAILURE_POLICIES, REINVOCATION_POLICIES, TIMEOUTS, Endpoint, WebhookOptions
from injector.revisions.files import required_text

if TYPE_CHECKING:
    from pathlib import Path

# RFC 1035 label, as Kubernetes checks the name of a Service.
_SERVICE: Final = re.compile(r"[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
_CERTIFICATE: Final = "-----BEGIN CERTIFICATE-----"
_PRIVATE: Final = "PRIVATE KEY-----"

_ENDPOINT_FIELDS: Final = ("service", "namespace", "port", "url")
_FIELDS: Final = ("ca_bundle", "failure_policy", "reinvocation_policy", "timeout")
_ALWAYS: Final = ("istio_namespace", "auto_inject")
WEBHOOK_PARAMETERS: Final = (*_ENDPOINT_FIELDS, *_FIELDS, *_ALWAYS)
"""The parameters of ``webhook_options``, which are the fields of ``Endpoint`` and ``WebhookOptions``."""


def _webhook_options(  # noqa: PLR0913 -- one parameter for each flag
    *,
    service: str,
    namespace: str,
    port: int,
    url: str | None,
    ca_bundle: Path | None,
    failure_policy: str,
    reinvocation_policy: str,
    timeout: str | None,
    istio_namespace: str,
    auto_inject: bool,
) -> WebhookOptions:
    if not _SERVICE.fullmatch(service):
        raise UsageError(
            f"{service[:80]!r} is not a valid Service name",
            where="--service",
            hint="use at most 63 lower-case letters, digits and `-`, beginning with a letter",
        )
    checked_namespace(namespace, flag="--service-namespace")
    return WebhookOptions(
        endpoint=Endpoint(service, namespace, port, None if url is None else _checked_url(url)),
        ca_bundle=None if ca_bundle is None else _encoded_bundle(ca_bundle),
        failure_policy=failure_policy,
        timeout=None if timeout is None else _webhook_timeout(timeout),
        reinvocation_policy=reinvocation_policy,
        istio_namespace=istio_namespace,
        auto_inject=auto_inject,
    )


webhook_options: Final = option_group(
    "options",
    _webhook_options,
    click.option("--service", default=Endpoint().service, show_default=True, help="Name of the injector's Service."),
    click.option(
        "--service-namespace",
        "namespace",
        default=Endpoint().namespace,
        show_default=True,
        help="Namespace of the Service.",
    ),
    click.option(
        "--service-port",
        "port",
        type=click.IntRange(1, 65535),
        default=Endpoint().port,
        show_default=True,
        help="Port of the Service.",
    ),
    click.option("--url", metavar="URL", help="URL of the injector for the API server, instead of a Service."),
    click.option("--ca-bundle", type=FILE, metavar="FILE", help="PEM file with the CA certificates for the caBundle."),
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
    click.option("--timeout", metavar="DURATION", help="Timeout from 1s to 30s. Default: the API server's own, 10s."),
    ISTIO_NAMESPACE_OPTION,
    click.option(
        "--auto-inject-namespaces",
        "auto_inject",
        is_flag=True,
        help="Let the tag or revision `default` also inject namespaces and pods without any injection label.",
    ),
)
"""The options of ``WebhookOptions``, as the parameter ``options``."""


def given_webhook_options(options: WebhookOptions) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the fields of ``options``, and of its endpoint, that are on the command line.

    As in istioctl, the Istio namespace and whether to inject pods without a label always come from the command line, or its defaults.
    """
    endpoint = {name: getattr(options.endpoint, name) for name in _ENDPOINT_FIELDS if was_given(name)}
    given = {name: getattr(options, name) for name in (*_FIELDS, *_ALWAYS) if name in _ALWAYS or was_given(name)}
    return given, endpoint


def _checked_url(url: str) -> str:
    """Check a URL as the API server does (k8s.io/apiserver/pkg/util/webhook/validation.go)."""
    try:
        parts = urlsplit(url)
        faults = {
            "it does not begin with https://": parts.scheme != "https",
            "it has no host": not parts.hostname,
            "its port is 0": parts.port == 0,
            "it has a user": parts.username is not None,
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
