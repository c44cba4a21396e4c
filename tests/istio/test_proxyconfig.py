"""What ``validateProxyConfig`` (pkg/kube/inject/validate.go) and ``ValidateMeshConfigProxyConfig`` (pkg/config/validation/agent) refuse."""

from __future__ import annotations

import pytest

from injector.istio.behaviours import Minor
from injector.istio.proxyconfig import port_fault, proxy_address_fault, validate_proxy_config
from tests.cases import cases

NEWEST: Minor = (1, 31)


def _one(fault: str) -> str:
    return f"1 error occurred:\n\t* {fault}\n\n"


@cases("text")
def test_a_valid_proxy_config_is_accepted(text: str) -> None:
    assert validate_proxy_config(text, NEWEST) == ""


@cases("text", "fault")
def test_a_fault_of_a_proxy_config_has_istios_words(text: str, fault: str) -> None:
    assert validate_proxy_config(text, NEWEST) == _one(fault)


def test_every_fault_is_named() -> None:
    assert validate_proxy_config("{configPath: '', statusPort: 0}", NEWEST) == (
        "2 errors occurred:\n\t* config path must be set\n"
        "\t* invalid status port: port number 0 must be in the range 1..65535\n\n"
    )


WRONG_KEYS = "invalid private key provider confguration:"


@cases("text", "faults")
def test_each_fault_of_keys_and_tls_is_named(text: str, faults: list[str]) -> None:
    head = "1 error occurred" if len(faults) == 1 else f"{len(faults)} errors occurred"
    assert validate_proxy_config(text, NEWEST) == f"{head}:\n\t* " + "\n\t* ".join(faults) + "\n\n"


@cases("text", "without", "having", "fault")
def test_a_minor_refuses_what_its_validation_refuses(
    text: str, without: Minor | None, having: Minor, fault: str
) -> None:
    assert validate_proxy_config(text, having) == _one(fault)
    assert without is None or validate_proxy_config(text, without) == ""


def test_qat_is_unknown_before_1_17() -> None:
    assert validate_proxy_config("privateKeyProvider: {qat: {pollDelay: 1s}}", (1, 16)) == (
        f"2 errors occurred:\n\t* {WRONG_KEYS} private key provider confguration is required\n"
        f"\t* {WRONG_KEYS} unknown private key provider\n\n"
    )


def test_an_empty_lightstep_config_has_three_faults() -> None:
    faults = validate_proxy_config("tracing: {lightstep: {}}", NEWEST)
    assert faults.startswith("3 errors occurred:\n\t* invalid lightstep config: address is required\n")


@cases("text", "why", also=[(f"statusPort: {'9' * 5000}", f"`statusPort` is '{'9' * 99}...")])
def test_a_value_that_is_not_a_proxy_config_is_refused(text: str, why: str) -> None:
    assert validate_proxy_config(text, NEWEST) == f"failed to convert to apply proxy config: {why}"


def test_invalid_yaml_is_refused() -> None:
    assert validate_proxy_config("{", NEWEST).startswith("failed to convert to apply proxy config: ")


@cases("text")
def test_a_name_or_an_address_with_a_port_is_a_proxy_address(text: str) -> None:
    assert proxy_address_fault(text) == ""


@cases("text", "why")
def test_an_invalid_proxy_address_has_istios_error(text: str, why: str) -> None:
    assert proxy_address_fault(text) == why


@pytest.mark.parametrize("port", [1, 15020, 65535])
def test_a_port_is_between_1_and_65535(port: int) -> None:
    assert port_fault(port) == ""


@pytest.mark.parametrize("port", [-1, 0, 65536])
def test_other_numbers_are_not_ports(port: int) -> None:
    assert port_fault(port) == f"port number {port} must be in the range 1..65535"


def test_an_address_with_a_zone_is_refused_if_zones_are_not_allowed() -> None:
    why = '"fe80::1%eth0" is not a valid hostname or an IP address'
    assert proxy_address_fault("[fe80::1%eth0]:80", zones=False) == why
    assert proxy_address_fault("[fe80::1]:80", zones=False) == ""
