"""Recorded from Go 1.26 by recorder/yamlwrite: encoding/json's text of JSON values."""

from __future__ import annotations

from injector.golang.json import go_json
from tests.kube.recorded import recorded

CASES = recorded("yaml_write")


def test_texts_equal_gos_with_keys_sorted_and_html_escaped() -> None:
    assert [go_json(case["value"], sort_keys=True) for case in CASES] == [case["json"] for case in CASES]


def test_texts_equal_gos_without_escapes_for_html() -> None:
    written = [go_json(case["value"], sort_keys=True, escape_html=False) for case in CASES]

    assert written == [case["plain"] for case in CASES]


def test_keys_stay_in_the_order_given_unless_they_are_to_be_sorted() -> None:
    assert go_json({"b": 1, "a": {"d": 1, "c": 2}}) == '{"b":1,"a":{"d":1,"c":2}}'
    assert go_json({"b": 1, "a": {"d": 1, "c": 2}}, sort_keys=True) == '{"a":{"c":2,"d":1},"b":1}'


def test_what_is_no_unicode_becomes_the_escape_of_a_replacement_character() -> None:
    assert go_json("a\udc80<") == r'"a\ufffd\u003c"'
