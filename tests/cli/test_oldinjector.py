"""The arguments of the standalone injector of Istio 1.0 to 1.4."""

from __future__ import annotations

from pathlib import Path

import pytest

from injector.cli.commands import arguments_of, is_old_flag, serves
from tests.cli.clusters import invoke

DEFAULTS = [
    "--meshConfig=/etc/istio/config/mesh",
    "--injectConfig=/etc/istio/inject/config",
    "--tlsCertFile=/etc/istio/certs/cert-chain.pem",
    "--tlsKeyFile=/etc/istio/certs/key.pem",
    "--caCertFile=/etc/istio/certs/root-cert.pem",
    "--port=443",
    "--monitoringPort=15014",
    "--webhookConfigName=istio-sidecar-injector",
    "--webhookName=sidecar-injector.istio.io",
    "--reconcileWebhookConfig=true",
]
"""The defaults of main.go (1.4.10), without those of the values, which 1.0 and 1.1 do not have."""


def test_without_flags_the_defaults_are_those_of_istio() -> None:
    assert arguments_of([]) == ["serve", *DEFAULTS]


def test_a_flag_wins_over_its_default_however_it_is_written() -> None:
    arguments = arguments_of(["--port", "8443", "--injectConfig=/config", "--reconcileWebhookConfig=false", "-v"])

    assert arguments[-5:] == ["--port", "8443", "--injectConfig=/config", "--reconcileWebhookConfig=false", "-v"]
    assert arguments[1:-5] == [
        flag for flag in DEFAULTS if not flag.startswith(("--port", "--injectConfig", "--reconcile"))
    ]


def test_values_are_read_if_their_file_exists(tmp_path: Path) -> None:
    (tmp_path / "etc/istio/inject").mkdir(parents=True)
    (tmp_path / "etc/istio/inject/values").touch()

    assert f"--injectValues={tmp_path}/etc/istio/inject/values" in arguments_of([], tmp_path)


def test_flags_for_logging_are_left_out_with_their_values_and_a_command_stays() -> None:
    logging = ["--log_as_json", "--log_output_level", "default:info", "--log_target=stdout"]

    assert arguments_of([*logging, "--port=1"]) == arguments_of(["--port=1"])
    assert arguments_of(["probe", "--probe-path=/health"]) == ["probe", "--probe-path=/health"]


@pytest.mark.parametrize(
    ("command_line", "expected"),
    [
        (["injector", "serve"], True),
        (["injector", "-v", "serve"], True),
        (["/usr/local/bin/sidecar-injector"], True),
        (["injector", "--caCertFile=/x"], True),
        (["injector", "explain", "--kubeconfig=x"], False),
        (["injector", "--help"], False),
        ([], False),
    ],
)
def test_a_server_is_known_by_its_command_line(command_line: list[str], *, expected: bool) -> None:
    assert serves(command_line) is expected


def test_injector_takes_old_flags_without_a_command(tmp_path: Path) -> None:
    done = invoke(f"--tlsCertFile={tmp_path / 'none'}", "--reconcileWebhookConfig=false")

    assert (done.exit_code, "cannot be read" in done.stderr) == (65, True), done.stderr
    assert not is_old_flag("--version")
