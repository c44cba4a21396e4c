from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from injector.errors import UsageError
from injector.settings import SETTINGS, Settings
from tests.cases import cases

PLAIN: dict[str, Any] = {"insecure_http": True}
CERTIFICATE: dict[str, Any] = {"tls_cert_file": Path("c"), "tls_key_file": Path("k")}


def test_no_two_settings_share_a_flag_or_a_variable() -> None:
    spelled = [name for each in SETTINGS for name in (*each.flags, each.variable)]

    assert len(spelled) == len(set(spelled))


@cases("flag")
def test_flags_of_sidecar_injector_keep_their_spelling(flag: str) -> None:
    assert any(flag in each.flags for each in SETTINGS)


def test_no_variable_is_one_that_kubernetes_sets_for_a_service_named_injector() -> None:
    # https://kubernetes.io/docs/concepts/services-networking/service/#environment-variables
    taken = ("INJECTOR_PORT", "INJECTOR_SERVICE_")

    assert [each.variable for each in SETTINGS if each.variable.startswith(taken)] == []


@pytest.mark.parametrize(
    "given",
    [
        PLAIN,
        CERTIFICATE,
        {**PLAIN, "revisions_dir": Path("r")},
        {**PLAIN, "inject_config": Path("c"), "values_file": Path("v"), "mesh_config": Path("m"), "revision": "a"},
        {**PLAIN, "port": 0, "ops_port": 0},
        {**PLAIN, "served_elsewhere": ("1-18", "A.b_c", "x" * 63)},
        {"tls_mode": "self-signed"},
        {"tls_mode": "self-signed", "client_ca_file": Path("c"), "client_name": ("apiserver",)},
        {**CERTIFICATE, "client_ca_file": Path("c")},
        {**CERTIFICATE, "ca_cert_file": Path("a"), "patch_webhooks": True},
        {**CERTIFICATE, "webhook_config_name": "w", "patch_webhooks": False},
        {**PLAIN, "reload_interval": 0.0},
        {**PLAIN, "reload_interval": 1.0},
    ],
)
def test_consistent_settings_pass(given: dict[str, Any]) -> None:
    settings = Settings(**given)

    assert settings.checked() is settings


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "the webhook has no certificate; give --tlsCertFile and --tlsKeyFile, --tls-mode self-signed, or"),
        ({"tls_cert_file": Path("c")}, "the webhook has no certificate"),
        ({**PLAIN, **CERTIFICATE}, "--insecure-http and a certificate exclude each other"),
        ({**PLAIN, "tls_mode": "self-signed"}, "--insecure-http and a certificate exclude each other"),
        ({**PLAIN, "client_ca_file": Path("c")}, "--insecure-http and a certificate exclude each other"),
        ({**PLAIN, "patch_webhooks": True}, "--insecure-http and a certificate exclude each other"),
        ({**CERTIFICATE, "tls_mode": "self-signed"}, "--tls-mode self-signed and --tlsCertFile"),
        ({"tls_mode": "self-signed", "ca_cert_file": Path("a")}, "--tls-mode self-signed and --tlsCertFile"),
        ({**CERTIFICATE, "patch_webhooks": True}, "caBundle cannot be patched without a CA; give --caCertFile too"),
        ({**CERTIFICATE, "webhook_config_name": "w"}, "caBundle cannot be patched without a CA"),
        ({**CERTIFICATE, "client_name": ("a",)}, "--client-name requires --client-ca-file"),
        (
            {**PLAIN, "revisions_dir": Path("r"), "inject_config": Path("c")},
            "--revisions-dir and --injectConfig exclude each other",
        ),
        ({**PLAIN, "values_file": Path("v")}, "--values-file requires --injectConfig"),
        ({**PLAIN, "mesh_config": Path("m")}, "--mesh-config requires --injectConfig"),
        ({**PLAIN, "set_env": ("A=b",), "revisions_dir": Path("r")}, "--set-env requires --injectConfig"),
        ({**PLAIN, "revision": "a"}, "--revision requires --injectConfig"),
        ({**PLAIN, "reload_interval": 0.001}, "--reload-interval: 0.001 s is too short"),
        ({**PLAIN, "port": 8080}, "both ports are 8080"),
        ({**PLAIN, "served_elsewhere": ("a", "b,c")}, "--served-elsewhere: 'b,c' is not a valid label value"),
        ({**PLAIN, "served_elsewhere": ("",)}, "--served-elsewhere: '' is not a valid label value"),
    ],
)
def test_contradicting_settings_are_refused_with_a_hint(given: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError) as caught:
        Settings(**given).checked()

    assert says in str(caught.value)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("given", "patches", "asks"),
    [
        (PLAIN, False, False),
        (CERTIFICATE, False, False),
        ({**PLAIN, "webhook_config_name": "w"}, False, False),
        ({**PLAIN, "from_cluster": True}, False, True),
        ({"tls_mode": "self-signed"}, True, True),
        ({"tls_mode": "self-signed", "patch_webhooks": False}, False, True),
        ({**CERTIFICATE, "patch_webhooks": True}, True, True),
        ({**CERTIFICATE, "webhook_config_name": "w"}, True, True),
        ({**CERTIFICATE, "webhook_config_name": "w", "patch_webhooks": False}, False, False),
    ],
)
def test_webhooks_are_patched_if_asked_for_with_a_name_or_with_a_generated_ca(
    given: dict[str, Any], patches: bool, asks: bool
) -> None:
    settings = Settings(**given)

    assert (settings.patches, settings.asks_cluster) == (patches, asks)


NO_CLUSTER = "--kubeconfig has no effect: nothing is read from the cluster"
NO_SOURCE = "--istio-namespace has no effect: it requires --from-cluster"
NO_SECRET = "--ca-secret has no effect: it requires --tls-mode self-signed"  # noqa: S105 -- a warning
NO_SERVICE = "--service has no effect: it requires --tls-mode self-signed or --patch-webhooks"
NO_NAMESPACE = "--namespace has no effect: it requires --tls-mode self-signed or --patch-webhooks"
NO_CONFIG_NAME = "--webhook-name has no effect: it requires --webhookConfigName"
NO_FILE = "--health-check-interval has no effect: it requires --healthCheckFile"
NO_INTERVAL = "--health-check-file has no effect: it requires --healthCheckInterval"
HEALTH: dict[str, Any] = {"health_check_file": Path("f"), "health_check_interval": 1.0}
NAMED: dict[str, Any] = {"service": "s", "namespace": "n"}


@pytest.mark.parametrize(
    ("given", "warnings"),
    [
        (PLAIN, []),
        ({**PLAIN, "webhook_name": "w", "health_check_interval": 1.0}, [NO_CONFIG_NAME, NO_FILE]),
        ({**CERTIFICATE, "ca_secret": "s"}, [NO_SECRET]),
        ({**CERTIFICATE, **NAMED}, [NO_SERVICE, NO_NAMESPACE]),
        ({**CERTIFICATE, "webhook_name": "w"}, [NO_CONFIG_NAME]),
        ({"tls_mode": "self-signed", "webhook_name": "w"}, [NO_CONFIG_NAME]),
        ({"tls_mode": "self-signed", "ca_secret": "s", **NAMED, "kubeconfig": Path("k")}, []),
        ({**CERTIFICATE, "webhook_config_name": "c", "webhook_name": "w", **NAMED}, []),
        (
            {**CERTIFICATE, "webhook_config_name": "w", "patch_webhooks": False},
            ["--webhook-config-name has no effect: caBundle is not patched"],
        ),
        ({**PLAIN, "kubeconfig": Path("k")}, [NO_CLUSTER]),
        ({**PLAIN, "watch_unserved": True, "kubeconfig": Path("k")}, []),
        ({**PLAIN, "istio_namespace": "mesh"}, [NO_SOURCE]),
        ({**PLAIN, "from_cluster": True, "kubeconfig": Path("k"), "istio_namespace": "mesh"}, []),
        ({**PLAIN, "health_check_interval": 1.0}, [NO_FILE]),
        ({**PLAIN, "health_check_file": Path("f")}, [NO_INTERVAL]),
        ({**PLAIN, **HEALTH}, []),
    ],
)
def test_each_setting_without_an_effect_is_named(given: dict[str, Any], warnings: list[str]) -> None:
    assert list(Settings(**given).warnings()) == warnings
