from __future__ import annotations

import base64
from dataclasses import replace
from typing import TYPE_CHECKING

import click
import pytest
from click.testing import CliRunner

from injector.cli.webhookflags import stated, webhook_flags, webhook_name
from injector.errors import DataError, InjectorError, UsageError
from injector.istio.webhooks import Endpoint, WebhookOptions
from injector.revisions.clustertags import Placement

if TYPE_CHECKING:
    from pathlib import Path

CERTIFICATE = "-----BEGIN CERTIFICATE-----\nQQ==\n-----END CERTIFICATE-----\n"


def options(*arguments: str) -> WebhookOptions:
    """What the flags make."""
    made: list[WebhookOptions] = []

    @click.command()
    @webhook_flags
    def command(options: WebhookOptions) -> None:
        made.append(options)

    CliRunner().invoke(command, arguments, catch_exceptions=False)
    return made[0]


def test_without_flags_they_are_istios_defaults() -> None:
    assert options() == WebhookOptions()


@pytest.mark.parametrize(("text", "seconds"), [("1", 1), ("30", 30), ("5s", 5), ("0.5m", 30)])
def test_a_timeout_is_whole_seconds(text: str, seconds: int) -> None:
    assert options("--timeout", text).timeout == seconds


@pytest.mark.parametrize(
    "url", ["https://injector.example", "https://10.0.0.1:9443/inject", "https://[fd00::1]:9443/", "https://h/a/b"]
)
def test_a_url_that_the_api_server_takes_is_taken(url: str) -> None:
    assert options("--url", url).endpoint.url == url


def test_a_bundle_is_base64_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text(CERTIFICATE * 2)

    bundle = options("--ca-bundle", str(tmp_path / "ca.pem")).ca_bundle

    assert base64.b64decode(bundle or "").decode() == CERTIFICATE * 2


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "it holds no certificate"),
        (
            "-----BEGIN EC PRIVATE KEY-----\nQQ==\n-----END EC PRIVATE KEY-----\n" + CERTIFICATE,
            "it holds a private key",
        ),
    ],
)
def test_a_bundle_is_certificates_and_nothing_secret(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "ca.pem").write_text(text)

    with pytest.raises(DataError, match=f"ca.pem: {says}"):
        options("--ca-bundle", str(tmp_path / "ca.pem"))


@pytest.mark.parametrize(
    ("flag", "value", "says"),
    [
        ("--service", "1st", "'1st' cannot name a Service"),
        ("--service-namespace", "A", "'A' cannot name a namespace"),
        ("--istio-namespace", "a.b", "'a.b' cannot name a namespace"),
        ("--timeout", "0", "0 is no timeout of a webhook; give whole seconds from 1s to 30s"),
        ("--timeout", "31s", "31s is no timeout of a webhook"),
        ("--timeout", "1500ms", "1500ms is no timeout of a webhook"),
        ("--timeout", "soon", "'soon' is no duration"),
        ("--url", "http://h", "it does not begin with https://"),
        ("--url", "https://", "it has no host"),
        ("--url", "https://h:0", "its port is 0"),
        ("--url", "https://h:99999", "is no URL"),
        ("--url", "https://me@h", "it has a user"),
        ("--url", "https://h?x=1", "it has a query"),
        ("--url", "https://h#x", "it has a fragment"),
        ("--url", "https://h/a b", "it has a blank"),
    ],
)
def test_what_kubernetes_would_refuse_is_refused_before(flag: str, value: str, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        options(flag, value)

    assert says in str(caught.value)


@pytest.mark.parametrize("name", [None, "my-hook", "a.b-c.d", "a" * 253])
def test_a_webhook_has_a_name_that_kubernetes_takes(name: str | None) -> None:
    assert webhook_name(name) == name


@pytest.mark.parametrize("name", ["", "A", "a..b", "-a", "a.", "a" * 254])
def test_another_name_is_refused(name: str) -> None:
    with pytest.raises(InjectorError, match="cannot name a MutatingWebhookConfiguration"):
        webhook_name(name)


def over(kept: WebhookOptions, *arguments: str) -> WebhookOptions:
    """The inherited options, with those of the flags."""
    made: list[WebhookOptions] = []

    @click.command()
    @webhook_flags
    def command(options: WebhookOptions) -> None:
        made.append(Placement(*stated(options)).apply(kept))

    CliRunner().invoke(command, arguments, catch_exceptions=False)
    return made[0]


KEPT = WebhookOptions(
    Endpoint("our", "ours", 8443),
    ca_bundle="Q0E=",
    failure_policy="Ignore",
    timeout=5,
    reinvocation_policy="IfNeeded",
    istio_namespace="mesh",
    auto_inject=True,
)


def test_what_flags_do_not_say_is_kept_but_for_the_name_and_for_what_carries_no_label() -> None:
    assert over(KEPT) == replace(KEPT, istio_namespace="istio-system", auto_inject=False)
    assert over(KEPT, "-i", "mesh", "--auto-inject-namespaces") == KEPT


@pytest.mark.parametrize(
    ("arguments", "endpoint"),
    [
        (["--service-port", "443"], Endpoint("our", "ours", 443)),
        (["--service", "injector"], Endpoint("injector", "ours", 8443)),
        (["--url", "https://here"], Endpoint("our", "ours", 8443, "https://here")),
    ],
)
def test_an_endpoint_is_kept_part_by_part(arguments: list[str], endpoint: Endpoint) -> None:
    assert over(KEPT, *arguments).endpoint == endpoint


def test_a_service_that_is_said_takes_the_place_of_a_url() -> None:
    kept = replace(KEPT, endpoint=Endpoint(url="https://here"))

    assert over(kept, "--service", "our").endpoint == Endpoint("our")
    assert over(kept, "--timeout", "9s").endpoint == Endpoint(url="https://here")
    assert over(kept, "--failure-policy", "Fail", "--timeout", "9s").timeout == 9
