"""Recorded from Go 1.26 with sigs.k8s.io/yaml v1.6.0 by recorder/yamlread: what YAML texts become as JSON."""

from __future__ import annotations

import base64
import math
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from injector.errors import DataError, ManifestError
from injector.golang.json import dump_json, go_json, load_json
from injector.kube.yaml import Document, load_yaml, split_documents
from injector.kube.yaml.read import BadScalarError, is_timestamp, json_key, resolve_plain, resolve_tagged
from tests.cases import cases
from tests.kube.recorded import recorded, result_of

CASES = recorded("yaml_read", more_than=1300)
MORE_THAN_GO = [
    case["name"] for case in CASES if "error" in case and "\\/" in case["input"] and "escape" in case["error"]
]


BOMBS = recorded("yaml_bombs")
DEEPER_IN_GO = ("nine thousand lists inside each other", "three hundred lists inside each other")
"""Ours stops at 200 levels, where no document of Kubernetes comes near."""
REASONS = (
    "excessive aliasing",
    "exceeded max depth",
    "contains itself",
    "cannot decode",
    "unknown anchor",
    "unsupported map key",
)
MEBIBYTES = 32


def text_of(case: dict[str, Any]) -> str | bytes:
    return base64.b64decode(case["input"]) if case.get("base64") else str(case["input"])


def read(case: dict[str, Any]) -> Any:
    """What we read, as Go prints JSON, or the error."""
    return result_of(lambda: go_json(load_yaml(text_of(case)), sort_keys=True))


def test_values_equal_gos() -> None:
    # Go writes bytes that are no text as an escape, which a reader of the JSON cannot tell from the character.
    wanted = {case["name"]: case["json"].replace("\\ufffd", "\ufffd") for case in CASES if "json" in case}

    assert {case["name"]: read(case) for case in CASES if "json" in case} == wanted


def test_what_go_refuses_is_refused() -> None:
    accepted = [case["name"] for case in CASES if "error" in case and not read(case).startswith("error: ")]

    assert accepted == MORE_THAN_GO


def test_the_slash_escape_of_json_is_read_though_go_refuses_it() -> None:
    assert len(MORE_THAN_GO) == 4
    assert load_yaml(r'{"a": "\/"}') == {"a": "/"}


def test_errors_name_a_line_wherever_go_names_one() -> None:
    unplaced = [
        case["name"]
        for case in CASES
        if case.get("error", "").startswith("yaml: line ")
        and "line " not in read(case)
        and case["name"] not in MORE_THAN_GO
    ]

    assert unplaced == []


def test_integers_and_floats_are_told_apart() -> None:
    assert [type(item) for item in load_yaml("[1, 1.0, 1e3, 0x10, 18446744073709551616]")] == [
        int,
        float,
        float,
        int,
        float,
    ]


@pytest.mark.parametrize("text", ["b: [1,\n", "a: 1\nb: .inf\n"])
def test_the_line_of_an_error_is_that_of_the_source(text: str) -> None:
    with pytest.raises(ManifestError, match=r"^.*yaml: line 42: "):
        load_yaml(text, line=41)


def test_an_error_says_where_what_and_what_to_do() -> None:
    with pytest.raises(ManifestError) as caught:
        load_yaml("a: 1\nb: [1,\n", where="pod.yaml")

    assert caught.value.where == "pod.yaml"
    assert caught.value.what.startswith("yaml: line 3: ")
    assert caught.value.hint == "correct the YAML"


def test_only_the_first_document_is_read() -> None:
    assert load_yaml("a: 1\n---\nb: [\n") == {"a": 1}


def test_nesting_without_end_is_refused() -> None:
    with pytest.raises(ManifestError, match="exceeded max depth"):
        load_yaml("[" * 5000)


def test_a_document_that_explodes_through_aliases_is_refused() -> None:
    levels = "".join(f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 10)}]\n" for n in range(1, 12))

    with pytest.raises(ManifestError, match="line 4: document contains excessive aliasing"):
        load_yaml(f"l0: &l0 [x, x, x, x, x, x, x, x, x, x]\n{levels}")


@pytest.mark.parametrize(("aliases", "accepted"), [(1000, True), (1300, False)])
def test_the_larger_a_document_the_less_of_it_may_come_from_aliases(aliases: int, accepted: bool) -> None:
    items = ", ".join(["x"] * 1000)
    document = f"- &a [{items}]\n" + f"- [{items}]\n" * 390 + "- *a\n" * aliases

    if accepted:
        assert len(load_yaml(document)) == 391 + aliases
    else:
        with pytest.raises(ManifestError, match="excessive aliasing"):
            load_yaml(document)


def test_a_text_that_is_no_unicode_is_an_error() -> None:
    with pytest.raises(ManifestError, match="yaml"):
        load_yaml("a: \udc80")


@pytest.mark.parametrize("bomb", BOMBS, ids=lambda bomb: str(bomb["name"]))
def test_a_bomb_is_refused_if_go_refuses_it_and_takes_no_memory(bomb: dict[str, Any]) -> None:
    text = "".join(part["text"] * part["times"] for part in bomb["parts"])
    refused = ""
    tracemalloc.start()
    try:
        load_yaml(text)
    except ManifestError as error:
        refused = str(error)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert bool(refused) == (bool(bomb.get("error")) or bomb["name"] in DEEPER_IN_GO)
    assert [reason for reason in REASONS if reason in bomb.get("error", "")] <= [
        reason for reason in REASONS if reason in refused
    ]
    assert len(refused) < 500
    assert peak < MEBIBYTES << 20


@pytest.mark.parametrize("encode", [str, str.encode, lambda text: text.encode("utf-16")])
def test_tag_directives_are_bounded(encode: Callable[[str], str | bytes]) -> None:
    directives = "".join(f"%TAG !a{number}! b\n" for number in range(17))
    with pytest.raises(ManifestError, match="too many %TAG directives"):
        load_yaml(encode(f"{directives}--- a"))
    assert load_yaml(encode("%TAG !a! b\n--- a")) == "a"


@pytest.mark.parametrize(
    ("text", "values"), [("[a, b, c]", 4), ("{a: b, c: d}", 5), ("- a\n- b\n", 3), ("a: &a [b, c]\nd: *a", 9)]
)
def test_values_are_bounded_with_those_that_aliases_repeat(text: str, values: int) -> None:
    load_yaml(text, most=values + 1)
    with pytest.raises(ManifestError, match=r"line [12]: more than 2 values; leave some out"):
        load_yaml(text, most=2)


def test_what_looks_like_a_directive_in_a_text_is_none() -> None:
    lines = "%TAG !a! b\n" * 40

    assert load_yaml("a: |\n" + "".join(f"  {line}\n" for line in lines.splitlines())) == {"a": lines}


INT = "tag:yaml.org,2002:int"
FLOAT = "tag:yaml.org,2002:float"


@cases("text", "value")
def test_a_plain_scalar_has_gos_type(text: str, value: Any) -> None:
    resolved = resolve_plain(text)

    assert (type(resolved), resolved) == (type(value), value)


@pytest.mark.parametrize("text", ["1" * 10_000, "-" + "9" * 10_000, "0x" + "f" * 10_000, "0b" + "1" * 10_000])
def test_an_absurdly_long_number_is_a_text(text: str) -> None:
    assert resolve_plain(text) == text


def test_zeros_in_front_of_a_number_do_not_make_it_long() -> None:
    assert resolve_plain("0" * 10_000 + "17") == 15
    assert resolve_plain("0x" + "0" * 10_000 + "f") == 15


def test_infinities_have_their_sign() -> None:
    assert (resolve_plain(".inf"), resolve_plain("-.INF")) == (math.inf, -math.inf)


def test_a_tag_turns_an_integer_into_a_float_and_never_the_reverse() -> None:
    assert repr(resolve_tagged(FLOAT, "3")) == "3.0"
    with pytest.raises(BadScalarError, match=r"cannot decode `1\.5` as a !!int"):
        resolve_tagged(INT, "1.5")


@cases("text", "expected")
def test_dates_are_those_of_the_calendar(text: str, expected: bool) -> None:
    assert is_timestamp(text) is expected


def test_keys_that_json_has_no_text_for_are_refused() -> None:
    with pytest.raises(BadScalarError, match="unsupported map key of type: null"):
        json_key(None)
    with pytest.raises(BadScalarError, match="unsupported map key of type: uint64"):
        json_key(2**63)


def test_documents_are_split_at_separator_lines_and_kept_byte_for_byte() -> None:
    text = "# first\na: 1 \r\n--- # second\nb: |\n  ---\n  x\n---\n---\nc: 1"

    assert split_documents(text) == [
        Document("# first\na: 1 \r\n", 1),
        Document("b: |\n  ---\n  x\n", 4),
        Document("---\nc: 1", 8),
    ]


def test_only_line_feeds_end_lines() -> None:
    assert split_documents("a: x\u2028---\nb: 1\x0c\n") == [Document("a: x\u2028---\nb: 1\x0c\n", 1)]


def test_a_text_without_lines_has_no_documents() -> None:
    assert split_documents("") == []


def test_a_separator_that_ends_no_document_begins_the_next_one() -> None:
    assert split_documents("---\n# a\nb: 1\n---\n") == [Document("---\n# a\nb: 1\n", 1)]
    assert split_documents("---\n---") == [Document("---\n", 1)]


def test_dashes_before_text_are_no_separator() -> None:
    with pytest.raises(ManifestError, match="line 2: invalid Yaml document separator: b: 1") as caught:
        split_documents("a: 1\n--- b: 1\n", where="x.yaml")

    assert caught.value.where == "x.yaml"


def test_json_is_read_strictly() -> None:
    assert load_json(b'{"a": [1, 1.5, 18446744073709551616]}') == {"a": [1, 1.5, 2.0**64]}
    assert load_json(r'"\ud83d\ude00\ud83d\\ud83d"') == "\U0001f600\ufffd\\ud83d"
    for text in ("", "{", "NaN", "[1,]", "{'a': 1}", "[" * 1025 + "]" * 1025):
        with pytest.raises(ManifestError, match="json: line 1: "):
            load_json(text)


def test_json_is_written_compactly_in_utf8() -> None:
    assert dump_json({"b": ["é", 1, None]}) == '{"b":["é",1,null]}'.encode()


def test_what_is_no_json_data_cannot_be_written() -> None:
    with pytest.raises(DataError, match="json: "):
        dump_json({"a": object()})
