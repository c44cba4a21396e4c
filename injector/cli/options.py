"""Options that several commands share, and their values."""

from __future__ import annotations

import base64
import functools
import inspect
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast
from urllib.parse import urlsplit

import click
from click.core import ParameterSource

from injector.cluster.kubeconfig import Kubeconfig
from injector.errors import ConfigError, UnknownRevisionError, UsageError
from injector.golang.time import parse_duration
from injector.injection.result import GUARDS
from injector.istio.webhooks import (
    FAILURE_POLICIES,
    ISTIO_NAMESPACE,
    REINVOCATION_POLICIES,
    TIMEOUTS,
    Endpoint,
    WebhookOptions,
)
from injector.revisions.directory import DirectorySource, embedded_source
from injector.revisions.files import required_text
from injector.revisions.names import checked_name, is_label

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from injector.revisions.source import RawRevision, SourceState

F = TypeVar("F", bound="Callable[..., Any]")

FILE: Final = click.Path(path_type=Path)
REVISION_FLAG: Final = "--revision"
_CAPITAL: Final = re.compile(r"(?<!^)(?=[A-Z])")
_ENV_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


def option_group(parameter: str, build: Callable[..., Any], *options: Callable[[F], F]) -> Callable[[F], F]:
    """Return a decorator that adds options to a command and combines their values.

    Args:
        parameter: the command's parameter for the combined value.
        build: makes that value; its parameters are those of the options.
        options: decorators of click, in the order of the help.
    """
    names = tuple(inspect.signature(build).parameters)

    def add(command: F) -> F:
        @functools.wraps(command)
        def with_group(*args: Any, **kwargs: Any) -> Any:
            value = build(**{name: kwargs.pop(name) for name in names})
            return command(*args, **{parameter: value}, **kwargs)

        decorated = cast("F", with_group)
        for option in reversed(options):
            decorated = option(decorated)
        return decorated

    return add


def both_spellings(camel: str) -> tuple[str, str]:
    """Return the spellings of a flag: Istio's (``--meshConfigFile``) and kubectl's (``--mesh-config-file``)."""
    return f"--{camel}", f"--{_CAPITAL.sub('-', camel).lower()}"


def was_given(parameter: str) -> bool:
    """Tell whether the command line has an option of the running command, by its parameter's name."""
    return click.get_current_context().get_parameter_source(parameter) is ParameterSource.COMMANDLINE


class Duration(click.ParamType[float]):
    """A Go duration, in seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the seconds of ``value``."""
        if isinstance(value, float):
            return value
        try:
            return seconds_of(value)
        except UsageError as error:
            self.fail(str(error), param, ctx)


def seconds_of(duration: str, *, where: str = "") -> float:
    """Return the seconds of a Go duration such as ``5s``, ``1m30s`` or ``0``.

    Raises:
        UsageError: the duration is not valid or is negative.
    """
    try:
        nanoseconds = parse_duration(duration)
    except ValueError:
        nanoseconds = -1
    if nanoseconds < 0:
        raise UsageError(f"{duration!r} is not a valid duration", where=where, hint="write it as 500ms, 5s or 1m30s")
    return nanoseconds / 1e9


def key_values(pairs: Sequence[str], *, flag: str) -> dict[str, str]:
    """Read repeated ``NAME=VALUE`` arguments. The last value of a name wins.

    Raises:
        UsageError: an argument is not such a pair.
    """
    values: dict[str, str] = {}
    for pair in pairs:
        name, separator, value = pair.partition("=")
        if not separator or not _ENV_NAME.fullmatch(name):
            raise UsageError(f"{pair!r} is not NAME=VALUE", where=flag, hint="write it as ENABLE_NATIVE_SIDECARS=true")
        values[name] = value
    return values


FILENAME: Final = click.option(
    "-f", "--filename", "filenames", multiple=True, metavar="FILE", help="File, folder, or - for stdin. Repeatable."
)
RECURSIVE: Final = click.option("-R", "--recursive", is_flag=True, help="Recurse into subdirectories.")
NODE_VERSION: Final = click.option(
    "--node-version",
    multiple=True,
    metavar="VERSION",
    help="Kubelet version in the cluster, such as v1.33.0. Native sidecars depend on it. Repeatable.",
)
GUARD: Final = click.option(
    "--guard",
    type=click.Choice(GUARDS),
    default=GUARDS[0],
    show_default=True,
    help="What to do with a pod whose values break out of the template: refuse it, print a warning, or disable the check.",
)
SKIP_CONFIRMATION: Final = click.option("-y", "--skip-confirmation", is_flag=True, help="Do not ask for confirmation.")


def revisions_dir(default: str = "") -> Callable[[F], F]:
    """Return the option ``--revisions-dir``. ``default`` says what the command uses without it."""
    text = "Directory of revisions and their tags.yaml."
    return click.option(
        *both_spellings("revisionsDir"),
        "revisions_dir",
        type=FILE,
        help=f"{text} Default: {default}." if default else text,
    )


def offline_source(revisions_dir: Path | None) -> DirectorySource:
    """Return the source of a directory of revisions, or without one of the embedded revisions."""
    return embedded_source() if revisions_dir is None else DirectorySource(revisions_dir)


def find_revision(
    state: SourceState, name: str, *, where: str, workload: Callable[[], Sequence[str]] | None = None
) -> RawRevision:
    """Return the revision that ``name`` leads to: a revision, a tag, or empty for the default.

    Raises:
        UsageError: no revision or tag has this name.
        DataError: the revision or the tags cannot be read.
    """
    try:
        target = state.resolve(name, workload)
    except UnknownRevisionError as error:
        if state.tags_error is not None:
            raise state.tags_error from None
        raise UsageError(error.what, where=where, hint=error.hint) from None
    return state.revision(target.revision)


def exit_code_option(difference: str) -> Callable[[F], F]:
    """Return the option ``--exit-code``. ``difference`` names what the command reports by its exit code."""
    text = f"With false, exit with 0 even if {difference}."
    return click.option("--exit-code", type=bool, default=True, metavar="BOOL", show_default=True, help=text)


def output_format(*formats: str) -> Callable[[F], F]:
    """Return the option ``--output``. The first format is the default."""
    return click.option(
        "-o", "--output", type=click.Choice(formats), default=formats[0], show_default=True, help="Output format."
    )


def checked_namespace(name: str, *, flag: str) -> str:
    """Return the name of a namespace.

    Raises:
        UsageError: Kubernetes would refuse it.
    """
    if is_label(name):
        return name
    raise UsageError(
        f"{name[:80]!r} is not a valid namespace",
        where=flag,
        hint="use at most 63 lower-case letters, digits and `-`, with a letter or digit at both ends",
    )


ISTIO_NAMESPACE_OPTION: Final = click.option(
    "-i",
    "--istio-namespace",
    "--istioNamespace",
    default=ISTIO_NAMESPACE,
    show_default=True,
    callback=lambda _, __, value: checked_namespace(value, flag="--istio-namespace"),
    help="Istio's root namespace. The names of webhooks contain it if it is not the default.",
)
"""The parameter ``istio_namespace``, checked."""


def _kubeconfig(paths: tuple[Path, ...], context_name: str | None) -> Kubeconfig:
    """Find the API server as kubectl and istioctl do.

    The files are those of ``--kubeconfig``, or else of ``KUBECONFIG``, or else ``~/.kube/config``. Without any, it is the service
    account of the pod that the command runs in. Like kubectl, ignore files of ``KUBECONFIG`` that do not exist.
    """
    if was_given("paths"):
        return Kubeconfig(paths, context_name)
    # Not Path.expanduser, which raises if the user has no home directory, as in many containers.
    known = paths or (Path(os.path.expanduser("~/.kube/config")),)  # noqa: PTH111
    return Kubeconfig(tuple(path for path in known if path.exists()) or paths, context_name)


kubeconfig_options: Final = option_group(
    "kubeconfig",
    _kubeconfig,
    click.option(
        "-c",
        "--kubeconfig",
        "paths",
        multiple=True,
        type=FILE,
        envvar="KUBECONFIG",
        metavar="FILE",
        help="Kubeconfig file. Default: KUBECONFIG, ~/.kube/config, or the pod's service account.",
    ),
    click.option(
        "--context", "context_name", metavar="NAME", help="Context of the kubeconfig. Default: the current one."
    ),
)
"""``--kubeconfig`` and ``--context``, as the parameter ``kubeconfig``."""


# RFC 1035 label, as Kubernetes checks the name of a Service.
_SERVICE: Final = re.compile(r"[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
_CERTIFICATE: Final = "-----BEGIN CERTIFICATE-----"
_PRIVATE: Final = "PRIVATE KEY-----"


def _webhook_options(  # noqa: PLR0913 -- one parameter for each flag
    *,
    service: str,
    service_namespace: str,
    service_port: int,
    url: str | None,
    ca_bundle: Path | None,
    failure_policy: str,
    reinvocation_policy: str,
    timeout: str | None,
    istio_namespace: str,
    auto_inject_namespaces: bool,
) -> WebhookOptions:
    if not _SERVICE.fullmatch(service):
        raise UsageError(
            f"{service[:80]!r} is not a valid Service name",
            where="--service",
            hint="use at most 63 lower-case letters, digits and `-`, beginning with a letter",
        )
    checked_namespace(service_namespace, flag="--service-namespace")
    return WebhookOptions(
        endpoint=Endpoint(service, service_namespace, service_port, _checked_url(url)),
        ca_bundle=None if ca_bundle is None else _encoded_bundle(ca_bundle),
        failure_policy=failure_policy,
        timeout=None if timeout is None else _webhook_timeout(timeout),
        reinvocation_policy=reinvocation_policy,
        istio_namespace=istio_namespace,
        auto_inject=auto_inject_namespaces,
    )


WEBHOOK_PARAMETERS: Final = tuple(inspect.signature(_webhook_options).parameters)
"""The parameters of ``webhook_options``; the flag of each is spelled alike."""

webhook_options: Final = option_group(
    "options",
    _webhook_options,
    click.option("--service", default=Endpoint().service, show_default=True, help="Name of the injector's Service."),
    click.option(
        "--service-namespace", default=Endpoint().namespace, show_default=True, help="Namespace of the Service."
    ),
    click.option(
        "--service-port",
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
        is_flag=True,
        help="Let the tag or revision `default` also inject namespaces and pods without any injection label.",
    ),
)
"""The options of ``WebhookOptions``, as the parameter ``options``."""

_ENDPOINT_FIELDS: Final = {"service": "service", "service_namespace": "namespace", "service_port": "port", "url": "url"}


def given_webhook_options(options: WebhookOptions) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the fields of ``options``, and of its endpoint, that are on the command line.

    As in istioctl, the Istio namespace and whether to inject pods without a label always come from the command line, or its defaults.
    """
    always = {"istio_namespace": options.istio_namespace, "auto_inject": options.auto_inject}
    fields = ("ca_bundle", "failure_policy", "reinvocation_policy", "timeout")
    endpoint = {field: getattr(options.endpoint, field) for name, field in _ENDPOINT_FIELDS.items() if was_given(name)}
    return {name: getattr(options, name) for name in fields if was_given(name)} | always, endpoint


def _checked_url(url: str | None) -> str | None:
    """Check a URL as the API server does (k8s.io/apiserver/pkg/util/webhook/validation.go)."""
    if url is None:
        return None
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


def tag_name(name: str) -> str:
    """Return the name of a tag.

    Raises:
        UsageError: the name is not valid.
    """
    return _checked_name(name, where="TAG", kind="tag")


def revision_name(name: str, *, flag: str = REVISION_FLAG) -> str:
    """Return the name of a revision.

    Raises:
        UsageError: the name is not valid.
    """
    return _checked_name(name, where=flag, kind="revision")


def _checked_name(name: str, *, where: str, kind: str) -> str:
    try:
        return checked_name(name, where=where, kind=kind)
    except ConfigError as error:
        raise UsageError(error.what, where=error.where, hint=error.hint) from error
