"""The options that describe a webhook: where it leads, what it selects, and how it is called."""

from __future__ import annotations

import base64
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import click

from injector.cli.options import FILE, converter, option_group, seconds_of, was_given
from injector.cli.sources import (
    ISTIO_NAMESPACE_OPTION,
    SERVICE_NAMESPACE_OPTION,
    SERVICE_OPTION,
    precedence_option,
)
from injector.errors import ConfigError, UsageError
from injector.istio.webhooks.configurations import (
    FAILURE_POLICIES,
    REINVOCATION_POLICIES,
    TIMEOUTS,
    Endpoint,
    WebhookOptions,
)
from injector.istio.webhooks.paths import SLASH
from injector.kube.selectors import is_label_key, is_subdomain
from injector.revisions.files import required_text

if TYPE_CHECKING:
    from pathlib import Path


_CERTIFICATE: Final = "-----BEGIN CERTIFICATE-----"
_PRIVATE: Final = "PRIVATE KEY-----"
_ALWAYS: Final = ("istio_namespace", "auto_inject")
_ENDPOINT_FIELDS: Final = tuple(field.name for field in fields(Endpoint))
_FIELDS: Final = tuple(field.name for field in fields(WebhookOptions) if field.name != "endpoint")
WEBHOOK_PARAMETERS: Final = (*_ENDPOINT_FIELDS, *_FIELDS)
"""The parameters of ``webhook_options``, which are the fields of ``Endpoint`` and ``WebhookOptions``."""


def _check_url(url: str) -> str:
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


def _encode_bundle(path: Path) -> str:
    text, fault = required_text(path), None
    if _PRIVATE in text:
        fault = "the file has a private key, and everyone who can read webhooks could see it"
    elif _CERTIFICATE not in text:
        fault = "the file has no certificate"
    if fault is not None:
        raise ConfigError(fault, where=str(path), hint=f"give a PEM file with only `{_CERTIFICATE}` blocks")
    return base64.b64encode(text.encode()).decode("ascii")


def _webhook_options(**values: Any) -> WebhookOptions:
    endpoint = Endpoint(**{name: values.pop(name) for name in _ENDPOINT_FIELDS})
    # In the path of a Service, the API server accepts only the letters of DNS names.
    for name in ("cluster", "network") if endpoint.url is None else ():
        value = values[name]
        if value and not is_subdomain(value.replace("/", SLASH)):
            hint = "use lower-case letters, digits, `-` and `.`, or give --url"
            raise UsageError(f"{value[:80]!r} cannot be in the path of a Service", where=f"--{name}", hint=hint)
    return WebhookOptions(endpoint, **values)


URL_OPTION: Final = click.option(
    "--url",
    metavar="URL",
    callback=converter(_check_url),
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
        callback=converter(_encode_bundle),
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
        callback=converter(_webhook_timeout),
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
        callback=converter(lambda values: tuple(map(_match_condition, values))),
        help="Call the webhooks only for pods that meet this CEL expression. Repeatable.",
    ),
    names=WEBHOOK_PARAMETERS,
)
"""The options of ``WebhookOptions``, as the parameter ``options``."""


def explicit_webhook_options(options: WebhookOptions) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the fields of ``options``, and of its endpoint, that are on the command line.

    As in istioctl, the Istio namespace and whether to inject pods without a label always come from the command line, or its defaults.
    """
    endpoint = {name: getattr(options.endpoint, name) for name in _ENDPOINT_FIELDS if was_given(name)}
    explicit = {name: getattr(options, name) for name in _FIELDS if name in _ALWAYS or was_given(name)}
    return explicit, endpoint
