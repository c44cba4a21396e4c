from __future__ import annotations

import pytest

from injector.gotemplate import TemplateError, compile_template
from injector.gotemplate.values import Map, Pointer


def _field(data: object, path: str, missing_key: str = "default") -> str:
    return compile_template("t", f"{{{{ .{path} }}}}", funcs={}, missing_key=missing_key).execute(data)


def test_a_pointer_is_followed() -> None:
    assert _field(Pointer("*map", {"a": {"b": 1}}), "a.b") == "1"


def test_a_nil_pointer_has_no_fields() -> None:
    with pytest.raises(TemplateError, match=r"nil pointer evaluating \*v1.Pod.Name"):
        _field({"p": Pointer("*v1.Pod")}, "p.Name") if False else _field(Pointer("*v1.Pod"), "Name")


@pytest.mark.parametrize(("option", "expected"), [("default", "<no value>"), ("zero", "")])
def test_a_missing_key_is_what_the_option_says(option: str, expected: str) -> None:
    assert _field(Map("string", "string", {}), "x", option) == expected


def test_a_missing_key_may_be_an_error() -> None:
    with pytest.raises(TemplateError, match='map has no entry for key "x"'):
        _field({}, "x", "error")
