from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from injector.errors import UsageError
from injector.settings import FIELDS, Settings

PLAIN: dict[str, Any] = {"insecure_http": True}
CERTIFICATE: dict[str, Any] = {"tls_cert_file": Path("c"), "tls_key_file": Path("k")}


def test_the_table_has_every_setting_in_order_with_its_default() -> None:
    assert [(each.name, each.default) for each in FIELDS] == [(each.name, each.default) for each in fields(Settings)]


def test_no_two_settings_share_a_flag_or_a_variable() -> None:
    spelled = [name for each in FIELDS for name in (*each.flags, each.variable)]

    assert len(spelled) == len(set(spelled))


@pytest.mark.parametrize(
    "flag",
    [
        "--caCertFile",
        "--tlsCertFile",
        "--tlsKeyFile",
        "--injectConfig",
        "--meshConfig",
        "--port",
        "--healthCheckInterval",
        "--healthCheckFile",
        "--kubeconfig",
        "--webhookConfigName",
        "--webhookName",
        "--valuesConfig",
        "--valuesFile",
        "--injectValues",
        "--monitoringPort",
        "--reconcileWebhookConfig",
    ],
)
def test_flags_of_the_old_injector_keep_their_spelling(flag: str) -> None:
    assert any(flag in each.flags for each in FIELDS)


def test_no_variable_is_one_that_kubernetes_sets_for_a_service_named_injector() -> None:
    # https://kubernetes.io/docs/concepts/services-networking/service/#environment-variables
    taken = ("INJECTOR_PORT", "INJECTOR_SERVICE_")

    assert [each.variable for each in FIELDS if each.variable.startswith(taken)] == []


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
def test_settings_that_go_together_pass(given: dict[str, Any]) -> None:
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
        ({**CERTIFICATE, "tls_mode": "self-signed"}, "--tls-mode self-signed makes the certificate"),
        ({"tls_mode": "self-signed", "ca_cert_file": Path("a")}, "--tls-mode self-signed makes the certificate"),
        ({**CERTIFICATE, "patch_webhooks": True}, "caBundle cannot be patched without a CA; give --caCertFile too"),
        ({**CERTIFICATE, "webhook_config_name": "w"}, "caBundle cannot be patched without a CA"),
        ({**CERTIFICATE, "client_name": ("a",)}, "--client-name belongs to --client-ca-file"),
        ({**PLAIN, "revisions_dir": Path("r"), "inject_config": Path("c")}, "name two configurations"),
        ({**PLAIN, "values_file": Path("v")}, "--valuesFile belongs to --injectConfig"),
        ({**PLAIN, "mesh_config": Path("m")}, "--meshConfig belongs to --injectConfig"),
        ({**PLAIN, "set_env": ("A=b",), "revisions_dir": Path("r")}, "--set-env belongs to --injectConfig"),
        ({**PLAIN, "revision": "a"}, "--revision belongs to --injectConfig"),
        ({**PLAIN, "reload_interval": 0.001}, "--reload-interval: 0.001 s is too short"),
        ({**PLAIN, "port": 8080}, "both ports are 8080"),
        ({**PLAIN, "served_elsewhere": ("a", "b,c")}, "--served-elsewhere: 'b,c' is no value of a label"),
        ({**PLAIN, "served_elsewhere": ("",)}, "--served-elsewhere: '' is no value of a label"),
    ],
)
def test_settings_that_contradict_each_other_are_refused_with_advice(given: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError) as caught:
        Settings(**given).checked()

    assert says in str(caught.value)
    assert caught.value.hint


def test_every_flag_that_has_no_effect_is_named() -> None:
    warnings = Settings(**PLAIN, webhook_name="w", health_check_interval=1.0).warnings()

    assert [warning.split(":")[0] for warning in warnings] == [
        "--webhookName has no effect",
        "--healthCheckInterval has no effect",
    ]
    assert Settings(**PLAIN).warnings() == ()


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
def test_webhooks_are_patched_with_a_ca_of_its_own_with_a_name_and_where_it_is_said(
    given: dict[str, Any], patches: bool, asks: bool
) -> None:
    settings = Settings(**given)

    assert (settings.patches, settings.asks_cluster) == (patches, asks)


@pytest.mark.parametrize(
    ("given", "idle"),
    [
        ({**CERTIFICATE, "ca_secret": "s"}, ["--caSecret"]),
        ({**CERTIFICATE, "service": "s", "namespace": "n"}, ["--service", "--namespace"]),
        ({**CERTIFICATE, "webhook_name": "w"}, ["--webhookName"]),
        ({"tls_mode": "self-signed", "webhook_name": "w"}, ["--webhookName"]),
        ({"tls_mode": "self-signed", "ca_secret": "s", "service": "s", "namespace": "n", "kubeconfig": Path("k")}, []),
        ({**CERTIFICATE, "webhook_config_name": "c", "webhook_name": "w", "service": "s", "namespace": "n"}, []),
    ],
)
def test_what_the_certificates_mode_leaves_unused_is_named(given: dict[str, Any], idle: list[str]) -> None:
    assert [warning.split(" ")[0] for warning in Settings(**given).warnings()] == idle


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"kubeconfig": Path("k")}, ["--kubeconfig has no effect: the API server is not asked"]),
        ({"watch_unserved": True, "kubeconfig": Path("k")}, []),
        ({"istio_namespace": "mesh"}, ["--istioNamespace has no effect: it belongs to --from-cluster"]),
        ({"from_cluster": True, "kubeconfig": Path("k"), "istio_namespace": "mesh"}, []),
    ],
)
def test_what_belongs_to_the_cluster_has_no_effect_without_it(given: dict[str, Any], named: list[str]) -> None:
    assert list(Settings(**PLAIN, **given).warnings()) == named


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"health_check_interval": 1.0}, ["--healthCheckInterval has no effect: give --healthCheckFile too"]),
        ({"health_check_file": Path("f")}, ["--healthCheckFile has no effect: give --healthCheckInterval too"]),
        ({"health_check_file": Path("f"), "health_check_interval": 1.0}, []),
    ],
)
def test_the_file_of_the_health_check_and_its_interval_need_each_other(given: dict[str, Any], says: list[str]) -> None:
    assert list(Settings(**PLAIN, **given).warnings()) == says
