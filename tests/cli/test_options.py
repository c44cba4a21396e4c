"""Options that commands share: kubeconfigs, contexts, namespaces and webhooks."""

from __future__ import annotations

import base64
from dataclasses import replace
from pathlib import Path

import pytest

from injector.cli.options import both_spellings, key_values, seconds_of
from injector.cli.sources import ISTIO_NAMESPACE_OPTION, kubeconfig_options
from injector.cli.webhookoptions import explicit_webhook_options, webhook_options
from injector.cluster.kubeconfig import Kubeconfig
from injector.errors import DataError, UsageError
from injector.istio.webhooks.configurations import Endpoint, WebhookOptions
from injector.revisions.clustertags import Placement
from tests.cases import cases
from tests.cli.clusters import assert_fails, invoke, parsed
from tests.cluster.fakeapi import FakeApi


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of one's own, and no KUBECONFIG."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    return tmp_path


def flags(*arguments: str) -> tuple[Kubeconfig, str]:
    """Return the values of the options."""
    values = parsed(lambda command: kubeconfig_options(ISTIO_NAMESPACE_OPTION(command)), *arguments)
    return values["kubeconfig"], values["istio_namespace"]


def test_without_flags_and_files_the_service_account_is_used() -> None:
    assert flags() == (Kubeconfig(), "istio-system")


def test_the_home_directory_has_the_kubeconfig(home: Path) -> None:
    (home / ".kube").mkdir()
    (home / ".kube" / "config").touch()

    assert flags()[0] == Kubeconfig((home / ".kube" / "config",))


def test_existing_files_of_kubeconfig_come_before_the_home_directory(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / ".kube").mkdir()
    for name in (".kube/config", "a", "c"):
        (home / name).touch()
    monkeypatch.setenv("KUBECONFIG", f":{home}/a:{home}/b:{home}/c")

    assert flags()[0] == Kubeconfig((home / "a", home / "c"))


@pytest.mark.parametrize("value", ["{0}/nope", "{0}/nope:{0}/none", ":", "{0}/link"])
def test_missing_files_of_kubeconfig_are_no_configuration(
    home: Path, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    (home / ".kube").mkdir()
    (home / ".kube" / "config").touch()
    (home / "link").symlink_to("nope")
    monkeypatch.setenv("KUBECONFIG", value.format(home))

    assert flags()[0] == Kubeconfig()


def test_a_file_of_kubeconfig_that_cannot_be_looked_at_is_not_missing(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "a").touch()
    monkeypatch.setenv("KUBECONFIG", f"{home}/a/b:{home}")

    assert flags()[0] == Kubeconfig((home / "a" / "b", home))


def test_a_file_of_the_flag_must_have_a_name() -> None:
    with pytest.raises(UsageError, match=r"^--kubeconfig: the name is empty"):
        flags("--kubeconfig", "")


@pytest.mark.parametrize("flag", ["-c", "--kubeconfig"])
def test_the_flag_comes_before_the_environment(home: Path, monkeypatch: pytest.MonkeyPatch, flag: str) -> None:
    (home / "a").touch()
    monkeypatch.setenv("KUBECONFIG", f"{home}/a")

    assert flags(flag, "given", "--context", "x")[0] == Kubeconfig((Path("given"),), "x")


@pytest.mark.parametrize("flag", ["-i", "--istio-namespace", "--istioNamespace"])
def test_istios_namespace_has_istioctls_flag(flag: str) -> None:
    assert flags(flag, "mesh")[1] == "mesh"


@pytest.mark.parametrize("name", ["", "A", "a.b", "a" * 64])
def test_invalid_namespaces_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match=r"^--istio-namespace: '.*' is not a valid namespace; use at most 63"):
        flags("-i", name)


CERTIFICATE = "-----BEGIN CERTIFICATE-----\nQQ==\n-----END CERTIFICATE-----\n"


def options(*arguments: str) -> WebhookOptions:
    """Return the value of the options."""
    value: WebhookOptions = parsed(webhook_options, *arguments)["options"]
    return value


def test_without_flags_webhook_options_are_istios_defaults() -> None:
    assert options() == WebhookOptions()


@pytest.mark.parametrize(("text", "seconds"), [("1", 1), ("30", 30), ("5s", 5), ("0.5m", 30)])
def test_a_timeout_is_whole_seconds(text: str, seconds: int) -> None:
    assert options("--timeout", text).timeout == seconds


@pytest.mark.parametrize("url", ["https://injector.example", "https://10.0.0.1:9443", "https://[fd00::1]:9443/"])
def test_a_url_that_the_api_server_takes_is_taken(url: str) -> None:
    assert options("--url", url).endpoint.url == url


def test_a_bundle_is_base64_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text(CERTIFICATE * 2)

    bundle = options("--ca-bundle", str(tmp_path / "ca.pem")).ca_bundle

    assert base64.b64decode(bundle or "").decode() == CERTIFICATE * 2


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "the file has no certificate"),
        (
            "-----BEGIN EC PRIVATE KEY-----\nQQ==\n-----END EC PRIVATE KEY-----\n" + CERTIFICATE,
            "the file has a private key",
        ),
    ],
)
def test_a_bundle_is_certificates_and_nothing_secret(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "ca.pem").write_text(text)

    with pytest.raises(DataError, match=f"ca.pem: {says}"):
        options("--ca-bundle", str(tmp_path / "ca.pem"))


@cases("flag", "value", "says")
def test_webhook_options_are_checked_as_by_kubernetes(flag: str, value: str, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        options(flag, value)

    assert says in str(caught.value)


def over(inherited: WebhookOptions, *arguments: str) -> WebhookOptions:
    """Return the inherited options, with those of the flags."""
    merged: WebhookOptions = parsed(
        webhook_options, *arguments, use=lambda options: Placement(*explicit_webhook_options(options)).apply(inherited)
    )
    return merged


INHERITED = WebhookOptions(
    Endpoint("our", "ours", 8443),
    ca_bundle="Q0E=",
    failure_policy="Ignore",
    timeout=5,
    reinvocation_policy="IfNeeded",
    istio_namespace="mesh",
    auto_inject=True,
    precedence="pod",
)


def test_options_without_a_flag_are_inherited() -> None:
    assert over(INHERITED) == replace(INHERITED, istio_namespace="istio-system", auto_inject=False)
    assert over(INHERITED, "-i", "mesh", "--auto-inject-namespaces") == INHERITED


@pytest.mark.parametrize(
    ("arguments", "endpoint"),
    [
        (["--service-port", "443"], Endpoint("our", "ours", 443)),
        (["--service", "injector"], Endpoint("injector", "ours", 8443)),
        (["--url", "https://here"], Endpoint("our", "ours", 8443, "https://here")),
    ],
)
def test_an_endpoint_is_kept_part_by_part(arguments: list[str], endpoint: Endpoint) -> None:
    assert over(INHERITED, *arguments).endpoint == endpoint


def test_a_given_service_replaces_a_url() -> None:
    by_url = replace(INHERITED, endpoint=Endpoint(url="https://here"))

    assert over(by_url, "--service", "our").endpoint == Endpoint("our")
    assert over(by_url, "--timeout", "9s").endpoint == Endpoint(url="https://here")
    assert over(by_url, "--failure-policy", "Fail", "--timeout", "9s").timeout == 9


@pytest.mark.parametrize(
    ("camel", "spellings"),
    [
        ("meshConfigFile", ("--meshConfigFile", "--mesh-config-file")),
        ("injectConfigMapName", ("--injectConfigMapName", "--inject-config-map-name")),
        ("kubeconfig", ("--kubeconfig", "--kubeconfig")),
    ],
)
def test_a_flag_has_istios_spelling_and_kubectls(camel: str, spellings: tuple[str, str]) -> None:
    assert both_spellings(camel) == spellings


@cases("text", "seconds")
def test_durations_are_parsed_as_in_go(text: str, seconds: float) -> None:
    assert seconds_of(text, where="--x") == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text",
    [
        *("", "5", "s", "5 s", "5s ", "-5s", "5d", "1m30", "NaN", "\N{ARABIC-INDIC DIGIT FIVE}s"),
        # Each place in it was a begin to look from, for half an hour; a URL has some thousand digits at most.
        pytest.param("9" * 250_000, id="many digits"),
    ],
)
def test_invalid_durations_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"^--x: .* is not a valid duration; write it as 500ms, 5s or 1m30s"):
        seconds_of(text, where="--x")


def test_the_last_of_several_values_of_a_name_wins() -> None:
    assert key_values(("A=1", "B=x=y", "A=2", "C="), flag="--set-env") == {"A": "2", "B": "x=y", "C": ""}


@pytest.mark.parametrize("pair", ["A", "=b", "A B=c", "1A=b", ""])
def test_invalid_pairs_are_refused(pair: str) -> None:
    with pytest.raises(UsageError, match=r"--set-env: .* is not NAME=VALUE"):
        key_values((pair,), flag="--set-env")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["diff", "stable", "canary", "-f", "docs/samples/hello.yaml"], "without --live"),
        (["diff", "stable", "canary", "--live", "-o", "sarif"], "with -o sarif"),
        (["upgrade", "plan", "next", "-f", "docs/samples/cluster.yaml"], "with -f"),
    ],
)
def test_several_contexts_are_refused_where_there_can_be_one_cluster(arguments: list[str], says: str) -> None:
    assert_fails(invoke(*arguments, "--context", "a", "--context", "b"), 64, f"several --context cannot be used {says}")


@pytest.mark.parametrize("command", [["revision", "status"], ["tag", "list"]])
def test_clusters_that_cannot_all_be_read_are_not_said_to_be_empty(command: list[str], cluster: FakeApi) -> None:
    cluster.refused = dict.fromkeys(("list configmaps", "list mutatingwebhookconfigurations"), "forbidden")

    result = invoke(*command, "--context", "a", "--context", "b")

    assert (result.exit_code, result.stdout) == (1, "")
    assert [line[:8] for line in result.stderr.splitlines()] == ["error: a", "error: b"]
