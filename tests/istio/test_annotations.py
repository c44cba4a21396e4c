from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from injector.istio import annotations as module
from injector.istio.annotations import (
    ANNOTATIONS,
    LONGEST_LIST,
    checked_annotations,
    known_annotations,
    list_too_long,
    parse_bool,
    validate_annotations,
)
from tests.cases import cases

if TYPE_CHECKING:
    from injector.istio.behaviours import Minor

TRAFFIC = "traffic.sidecar.istio.io/"
READINESS = "readiness.status.sidecar.istio.io/"
MODE = "sidecar.istio.io/interceptionMode"
STATUS_PORT = "status.sidecar.istio.io/port"
PROXY_CONFIG = "proxy.istio.io/config"
MERGE_METRICS = "prometheus.istio.io/merge-metrics"
CORE_DUMP = "sidecar.istio.io/enableCoreDump"
CPU = "sidecar.istio.io/proxyCPU"
REROUTE = "istio.io/reroute-virtual-interfaces"

NO_NUMBER = 'strconv.ParseUint: parsing "x": invalid syntax'
NO_QUANTITY = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"

TAKEN = [
    (MODE, "REDIRECT", (1, 0)),
    (MODE, "TPROXY", (1, 0)),
    (MODE, "NONE", (1, 1)),
    (f"{TRAFFIC}includeOutboundIPRanges", "*", (1, 30)),
    (f"{TRAFFIC}includeOutboundIPRanges", "", (1, 30)),
    (f"{TRAFFIC}includeOutboundIPRanges", "10.0.0.0/8,2001:db8::/32", (1, 30)),
    (f"{TRAFFIC}excludeOutboundIPRanges", "10.0.0.0/8", (1, 0)),
    (f"{TRAFFIC}excludeOutboundIPRanges", "", (1, 30)),
    (f"{TRAFFIC}includeInboundPorts", "*", (1, 30)),
    (f"{TRAFFIC}includeInboundPorts", " 80, 443 ", (1, 30)),
    (f"{TRAFFIC}excludeInboundPorts", "0,65535", (1, 30)),
    (f"{TRAFFIC}excludeInboundPorts", " ", (1, 30)),
    (f"{TRAFFIC}excludeOutboundPorts", "5432", (1, 30)),
    (f"{TRAFFIC}excludeInterfaces", "eth0, net1.2,br-a_b", (1, 30)),
    (f"{TRAFFIC}excludeInterfaces", "a" * 15, (1, 30)),
    (f"{TRAFFIC}kubevirtInterfaces", "", (1, 30)),
    (REROUTE, "k6t-eth0", (1, 30)),
    (STATUS_PORT, "15020", (1, 30)),
    (STATUS_PORT, "\u00a015020\u3000", (1, 30)),
    (f"{READINESS}initialDelaySeconds", "1", (1, 30)),
    (f"{READINESS}periodSeconds", "4294967295", (1, 30)),
    (f"{READINESS}failureThreshold", "030", (1, 30)),
    (f"{READINESS}applicationPorts", "*", (1, 4)),
    (f"{READINESS}applicationPorts", "80,90", (1, 4)),
    (MERGE_METRICS, "true", (1, 30)),
    (MERGE_METRICS, "F", (1, 30)),
    (CORE_DUMP, "0", (1, 24)),
    (CPU, "100m", (1, 30)),
    ("sidecar.istio.io/proxyMemory", "1Gi", (1, 30)),
    ("sidecar.istio.io/proxyCPULimit", "2", (1, 30)),
    ("sidecar.istio.io/proxyMemoryLimit", "1e9", (1, 30)),
    (PROXY_CONFIG, "concurrency: 2", (1, 30)),
    (PROXY_CONFIG, "", (1, 30)),
]

REFUSED = [
    (MODE, "redirect", (1, 2), "interceptionMode invalid, use REDIRECT,TPROXY,NONE: redirect"),
    (MODE, "redirect", (1, 30), "interceptionMode invalid, use REDIRECT,TPROXY,NONE: redirect"),
    (MODE, "", (1, 30), "interceptionMode invalid, use REDIRECT,TPROXY,NONE: "),
    (
        f"{TRAFFIC}includeOutboundIPRanges",
        "10.0.0.0/8,*",
        (1, 30),
        "includeIPRanges invalid: failed parsing cidr '*': netip.ParsePrefix(\"*\"): no '/'",
    ),
    (
        f"{TRAFFIC}includeOutboundIPRanges",
        "10.0.0.0",
        (1, 15),
        "includeIPRanges invalid: failed parsing cidr '10.0.0.0': invalid CIDR address: 10.0.0.0",
    ),
    (
        f"{TRAFFIC}excludeOutboundIPRanges",
        "*",
        (1, 16),
        "excludeIPRanges invalid: failed parsing cidr '*': netip.ParsePrefix(\"*\"): no '/'",
    ),
    (
        f"{TRAFFIC}excludeOutboundIPRanges",
        "fe80::1%eth0/64",
        (1, 15),
        "excludeIPRanges invalid: failed parsing cidr 'fe80::1%eth0/64': invalid CIDR address: fe80::1%eth0/64",
    ),
    (
        f"{TRAFFIC}excludeOutboundIPRanges",
        "10.0.0.0/8, 10.1.0.0/16",
        (1, 15),
        "excludeIPRanges invalid: failed parsing cidr ' 10.1.0.0/16': invalid CIDR address:  10.1.0.0/16",
    ),
    (
        f"{TRAFFIC}includeInboundPorts",
        "80,x",
        (1, 30),
        f"includeInboundPorts invalid: failed parsing port 'x': failed parsing port 'x': {NO_NUMBER}",
    ),
    (
        f"{TRAFFIC}includeInboundPorts",
        "80,x",
        (1, 10),
        f"includeInboundPorts invalid: failed parsing port '0': failed parsing port '0': {NO_NUMBER}",
    ),
    (
        f"{TRAFFIC}excludeInboundPorts",
        "80, x",
        (1, 11),
        f"excludeInboundPorts invalid: failed parsing port ' x': failed parsing port ' x': {NO_NUMBER}",
    ),
    (
        f"{TRAFFIC}excludeInboundPorts",
        "*",
        (1, 30),
        (
            "excludeInboundPorts invalid: failed parsing port '*': failed parsing port '*': "
            'strconv.ParseUint: parsing "*": invalid syntax'
        ),
    ),
    (
        f"{TRAFFIC}excludeOutboundPorts",
        "*",
        (1, 30),
        (
            "excludeOutboundPorts invalid: failed parsing port '*': failed parsing port '*': "
            'strconv.ParseUint: parsing "*": invalid syntax'
        ),
    ),
    (
        f"{TRAFFIC}excludeOutboundPorts",
        "65536",
        (1, 30),
        (
            "excludeOutboundPorts invalid: failed parsing port '65536': failed parsing port '65536': "
            'strconv.ParseUint: parsing "65536": value out of range'
        ),
    ),
    (
        f"{TRAFFIC}excludeOutboundPorts",
        "80,",
        (1, 30),
        (
            "excludeOutboundPorts invalid: failed parsing port '': failed parsing port '': "
            'strconv.ParseUint: parsing "": invalid syntax'
        ),
    ),
    (f"{TRAFFIC}excludeInterfaces", "eth0,,eth1", (1, 30), "empty interface name"),
    (f"{TRAFFIC}excludeInterfaces", " ", (1, 30), "empty interface name"),
    (
        f"{TRAFFIC}kubevirtInterfaces",
        "eth0 -j ACCEPT",
        (1, 30),
        'interface name "eth0 -j ACCEPT" contains invalid characters',
    ),
    (f"{TRAFFIC}kubevirtInterfaces", "0eth", (1, 30), 'interface name "0eth" contains invalid characters'),
    (REROUTE, "a" * 16, (1, 30), f'interface name "{"a" * 16}" too long (max 15 chars)'),
    (
        REROUTE,
        "é" * 8,
        (1, 30),
        f'interface name "{"é" * 8}" too long (max 15 chars)',
    ),
    (STATUS_PORT, "x", (1, 30), f"excludeInboundPorts invalid: failed parsing port 'x': {NO_NUMBER}"),
    (STATUS_PORT, "x", (1, 10), f"excludeInboundPorts invalid: failed parsing port '0': {NO_NUMBER}"),
    (
        STATUS_PORT,
        "70000",
        (1, 10),
        (
            "excludeInboundPorts invalid: failed parsing port '65535': "
            'strconv.ParseUint: parsing "70000": value out of range'
        ),
    ),
    (
        STATUS_PORT,
        "9" * 5000,
        (1, 30),
        (
            f"excludeInboundPorts invalid: failed parsing port '{'9' * 5000}': "
            f'strconv.ParseUint: parsing "{"9" * 5000}": value out of range'
        ),
    ),
    (
        STATUS_PORT,
        "80\x1c",
        (1, 30),
        (
            "excludeInboundPorts invalid: failed parsing port '80\x1c': "
            r'strconv.ParseUint: parsing "80\x1c": invalid syntax'
        ),
    ),
    (
        f"{TRAFFIC}excludeInboundPorts",
        "70000",
        (1, 10),
        (
            "excludeInboundPorts invalid: failed parsing port '0': failed parsing port '65535': "
            'strconv.ParseUint: parsing "70000": value out of range'
        ),
    ),
    (f"{READINESS}initialDelaySeconds", "x", (1, 30), NO_NUMBER),
    (f"{READINESS}initialDelaySeconds", "\x00\né", (1, 30), r'strconv.ParseUint: parsing "\x00\né": invalid syntax'),
    (
        f"{READINESS}initialDelaySeconds",
        "9" * 5000,
        (1, 30),
        f'strconv.ParseUint: parsing "{"9" * 5000}": value out of range',
    ),
    (f"{READINESS}initialDelaySeconds", " 1", (1, 30), 'strconv.ParseUint: parsing " 1": invalid syntax'),
    (f"{READINESS}periodSeconds", "-1", (1, 30), 'strconv.ParseUint: parsing "-1": invalid syntax'),
    (f"{READINESS}periodSeconds", '"1"', (1, 30), r'strconv.ParseUint: parsing "\"1\"": invalid syntax'),
    (
        f"{READINESS}failureThreshold",
        "4294967296",
        (1, 30),
        'strconv.ParseUint: parsing "4294967296": value out of range',
    ),
    (
        f"{READINESS}applicationPorts",
        "x",
        (1, 4),
        f"readinessApplicationPorts invalid: failed parsing port '0': failed parsing port '0': {NO_NUMBER}",
    ),
    (MERGE_METRICS, "yes", (1, 6), 'strconv.ParseBool: parsing "yes": invalid syntax'),
    (MERGE_METRICS, "", (1, 30), 'strconv.ParseBool: parsing "": invalid syntax'),
    (CORE_DUMP, "on", (1, 5), 'strconv.ParseBool: parsing "on": invalid syntax'),
    (CPU, "lots", (1, 27), NO_QUANTITY),
    (CPU, "", (1, 30), NO_QUANTITY),
    ("sidecar.istio.io/proxyMemory", "1Gi\n", (1, 30), "value contains control characters"),
    ("sidecar.istio.io/proxyMemory", "1Gi\x85", (1, 30), "value contains control characters"),
    ("sidecar.istio.io/proxyCPULimit", "1 core", (1, 30), NO_QUANTITY),
    ("sidecar.istio.io/proxyMemoryLimit", "1gi", (1, 30), NO_QUANTITY),
    (
        PROXY_CONFIG,
        "statusPort: 0",
        (1, 30),
        "1 error occurred:\n\t* invalid status port: port number 0 must be in the range 1..65535\n\n",
    ),
]


@pytest.mark.parametrize(("name", "value", "minor"), TAKEN)
def test_a_valid_value_is_accepted(name: str, value: str, minor: Minor) -> None:
    assert validate_annotations({name: value}, minor) == ""


@pytest.mark.parametrize(("name", "value", "minor", "why"), REFUSED)
def test_a_bad_value_is_refused_with_istios_words(name: str, value: str, minor: Minor, why: str) -> None:
    expected = f"1 error occurred:\n\t* invalid value '{value}' for annotation '{name}': {why}\n\n"

    assert validate_annotations({name: value}, minor) == expected


def test_every_validated_annotation_has_a_valid_and_an_invalid_value_here() -> None:
    validated = {row.name for row in ANNOTATIONS if row.validate is not None}

    assert {name for name, _, _ in TAKEN} == validated
    assert {name for name, _, _, _ in REFUSED} == validated


@cases("name", "value", "without", "having")
def test_a_minor_refuses_only_what_it_validates(name: str, value: str, without: Minor, having: Minor) -> None:
    assert validate_annotations({name: value}, without) == ""
    assert validate_annotations({name: value}, having) != ""


@pytest.mark.parametrize(
    ("minor", "why"),
    [
        ((1, 0), "interceptionMode invalid: NOPE"),
        ((1, 1), "interceptionMode invalid, use REDIRECT,TPROXY,NONE: NOPE"),
    ],
)
def test_before_1_2_a_refusal_begins_with_the_failed_injection(minor: Minor, why: str) -> None:
    said = validate_annotations({MODE: "NOPE"}, minor)

    assert said == f"1 error occurred:\n\n* injection failed. Invalid value for annotation {MODE}: NOPE. Error: {why}"


@pytest.mark.parametrize("minor", [(1, 0), (1, 1)])
def test_before_1_2_every_fault_is_named_in_the_order_of_istios_table(minor: Minor) -> None:
    said = validate_annotations({f"{READINESS}periodSeconds": "x", MODE: "NOPE", STATUS_PORT: "80"}, minor)

    assert said.startswith(
        f"2 errors occurred:\n\n* injection failed. Invalid value for annotation {MODE}: NOPE. Error: "
    )
    assert said.endswith(
        f"\n* injection failed. Invalid value for annotation {READINESS}periodSeconds: x. Error: {NO_NUMBER}"
    )


def test_istio_1_0_has_no_mode_none() -> None:
    assert "interceptionMode invalid: NONE" in validate_annotations({MODE: "NONE"}, (1, 0))


def test_every_fault_is_named() -> None:
    said = validate_annotations({MODE: "NOPE", MERGE_METRICS: "x", STATUS_PORT: "15020", "example.com/x": "y"}, (1, 30))

    assert said == (
        "2 errors occurred:\n"
        f"\t* invalid value 'x' for annotation '{MERGE_METRICS}': strconv.ParseBool: parsing \"x\": invalid syntax\n"
        f"\t* invalid value 'NOPE' for annotation '{MODE}': "
        "interceptionMode invalid, use REDIRECT,TPROXY,NONE: NOPE\n\n"
    )


def test_annotations_without_a_validator_can_have_any_value() -> None:
    anything = {row.name: "\x00?" for row in ANNOTATIONS if row.validate is None}

    assert validate_annotations({**anything, "example.com/x": "?"}, (1, 30)) == ""


@pytest.mark.parametrize("text", ["1", "t", "T", "TRUE", "true", "True"])
def test_go_has_six_spellings_of_true(text: str) -> None:
    assert parse_bool(text) is True


@pytest.mark.parametrize("text", ["0", "f", "F", "FALSE", "false", "False"])
def test_go_has_six_spellings_of_false(text: str) -> None:
    assert parse_bool(text) is False


@pytest.mark.parametrize("text", ["", "yes", "on", "tRUE", " true", "2"])
def test_other_texts_are_not_booleans(text: str) -> None:
    assert parse_bool(text) is None


@cases("name", "first", "last")
def test_the_table_of_a_minor_has_the_annotations_of_its_time(name: str, first: Minor, last: Minor) -> None:
    knowing = [(1, number) for number in range(9) if name in known_annotations((1, number))]

    assert (knowing[0], knowing[-1], len(knowing)) == (first, last, last[1] - first[1] + 1)


@pytest.mark.parametrize(("minor", "checked"), [((1, 26), (MODE,)), ((1, 27), (MODE, "sidecar.istio.io/proxyCPU"))])
def test_the_checked_annotations_are_those_that_the_minor_checks(minor: Minor, checked: tuple[str, ...]) -> None:
    given = {"sidecar.istio.io/proxyCPU": "x", MODE: "x", "sidecar.istio.io/inject": "x", "own": "x"}

    assert checked_annotations(given, minor) == checked


# Each list annotation with items that are valid, and items that some minor refuses.
LISTS = {
    f"{TRAFFIC}includeOutboundIPRanges": (
        "10.0.0.0/8",
        "::/0",
        "1.2.3.4/08",
        "10.0.0.0",
        "",
        "*",
        "fe80::1%e/64",
        " ::/0",
    ),
    f"{TRAFFIC}excludeOutboundIPRanges": ("10.0.0.0/8", "1:2:3:4:5:6:7:8/128", "1.2.3.4/33", "::/129", "01.2.3.4/8"),
    f"{TRAFFIC}excludeInboundPorts": (
        "80",
        " 80\t",
        "\u00a0080",
        "65535",
        "0",
        "000",
        "65536",
        "x",
        "",
        "-1",
        "\u0661",
    ),
    f"{TRAFFIC}includeInboundPorts": ("80", "9999", "10000", "70000", "*", "1 2"),
    f"{TRAFFIC}excludeInterfaces": (
        "eth0",
        " a.b-c_d\u3000",
        "abcdefghijklmno",
        "abcdefghijklmnop",
        "0a",
        "",
        "\u00e9",
    ),
}


@pytest.mark.parametrize("minor", [(1, 0), (1, 9), (1, 30)])
@pytest.mark.parametrize("name", LISTS)
def test_stepping_over_valid_items_changes_no_answer(monkeypatch: pytest.MonkeyPatch, name: str, minor: Minor) -> None:
    dice = random.Random(3)  # noqa: S311 -- inputs of a test
    valid = [item for item in LISTS[name] if not validate_annotations({name: item}, minor)]
    values = [",".join(dice.choices([*valid * 9, *LISTS[name]], k=dice.randrange(1, 20))) for _ in range(300)]

    found = [validate_annotations({name: value}, minor) for value in values]
    monkeypatch.setattr(module, "_doubtful_items", lambda value, _: value.split(","))

    assert found == [validate_annotations({name: value}, minor) for value in values]
    assert len(set(found)) > 20 or not validate_annotations({name: "\n-"}, minor)


@cases("name", "item", "parser")
def test_the_items_of_a_long_list_are_not_read_one_by_one(
    monkeypatch: pytest.MonkeyPatch, name: str, item: str, parser: str
) -> None:
    calls = []
    plain = getattr(module, parser)

    def counted(*args: object, **options: object) -> object:
        calls.append(args)
        return plain(*args, **options)

    monkeypatch.setattr(module, parser, counted)

    refused = validate_annotations({name: ",".join([item] * 5_000)}, (1, 30))

    assert (refused, len(calls)) == ("", 1)


@pytest.mark.parametrize("name", LISTS)
def test_a_list_may_be_as_long_as_an_argument_of_a_process(name: str) -> None:
    assert list_too_long({name: "x" * LONGEST_LIST, "other": "x" * 200_000}, (1, 30)) is None
    assert list_too_long({name: "x" * LONGEST_LIST + "x"}, (1, 30)) == (name, 131072)
    assert list_too_long({name: "\u00e9" * (LONGEST_LIST // 2 + 1)}, (1, 30)) == (name, 131072)


def test_a_list_that_the_minor_does_not_read_may_be_longer() -> None:
    assert list_too_long({f"{TRAFFIC}excludeInterfaces": "x" * 200_000}, (1, 29)) is None
