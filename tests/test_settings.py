"""The settings of the server, and which contradict each other."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from injector.errors import NotConfiguredError, UsageError
from injector.settings import SETTINGS, Settings
from tests.cases import cases

PATHS = {field.name for field in fields(Settings) if "Path" in str(field.type)}


def settings_of(changes: dict[str, Any]) -> Settings:
    options: dict[str, Any] = {
        name: Path(value) if name in PATHS else tuple(value) if isinstance(value, list) else value
        for name, value in changes.items()
    }
    if not {"revisions_dir", "inject_config", "from_cluster"} & options.keys():
        options["embedded"] = True
    return Settings(**options)


def test_no_two_settings_share_a_flag_or_a_variable() -> None:
    spelled = [name for setting in SETTINGS for name in (*setting.flags, setting.variable)]

    assert len(spelled) == len(set(spelled))


@cases("flag")
def test_flags_of_sidecar_injector_keep_their_spelling(flag: str) -> None:
    assert any(flag in setting.flags for setting in SETTINGS)


def test_no_variable_is_one_that_kubernetes_sets_for_a_service_named_injector() -> None:
    # https://kubernetes.io/docs/concepts/services-networking/service/#environment-variables
    taken = ("INJECTOR_PORT", "INJECTOR_SERVICE_")

    assert [setting.variable for setting in SETTINGS if setting.variable.startswith(taken)] == []


@cases("changes")
def test_consistent_settings_pass(changes: dict[str, Any]) -> None:
    settings = settings_of(changes)

    assert settings.check() is settings


@pytest.mark.parametrize("changes", [{}, {"insecure_http": True}, {"tls_mode": "self-signed"}])
def test_settings_without_a_source_of_revisions_name_the_ways_to_give_one(changes: dict[str, Any]) -> None:
    with pytest.raises(NotConfiguredError) as caught:
        Settings(**changes).check()

    assert str(caught.value) == (
        "no source of revisions is configured; give --injectConfig FILE, --revisions-dir DIR (or INJECTOR_REVISIONS_DIR), "
        "--from-cluster, or --embedded for the two examples"
    )


@cases("changes", "says")
def test_contradicting_settings_are_refused_with_a_hint(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError) as caught:
        settings_of(changes).check()

    assert says in str(caught.value)
    assert caught.value.hint


@cases("changes", "patches", "asks")
def test_webhooks_are_patched_if_asked_for_with_a_name_or_with_a_generated_ca(
    changes: dict[str, Any], patches: bool, asks: bool
) -> None:
    settings = settings_of(changes)

    assert (settings.patches, settings.asks_cluster) == (patches, asks)


@cases("changes", "warnings")
def test_each_setting_without_an_effect_is_named(changes: dict[str, Any], warnings: list[str]) -> None:
    assert list(settings_of(changes).warnings()) == warnings
