from __future__ import annotations

import pytest

from injector.gotemplate import Func, TemplateError, compile_template
from injector.gotemplate.runtime import can_be_nil
from injector.gotemplate.values import Int64, Pointer, Slice


def _call(signature: str, argument: str, data: object = None) -> str:
    func = Func("f", signature, lambda value: f"{type(value).__name__}:{value}")
    return compile_template("t", f"{{{{ f {argument} }}}}", funcs={"f": func}).execute(data)


@pytest.mark.parametrize(
    ("go_type", "argument", "expected"),
    [
        ("int64", "5", "Int64:5"),
        ("uint8", "5", "Uint8:5"),
        ("float64", "5", "float:5.0"),
        ("string", '"x"', "str:x"),
        ("bool", "true", "bool:True"),
    ],
)
def test_a_constant_becomes_the_parameters_type(go_type: str, argument: str, expected: str) -> None:
    assert _call(f"func({go_type}) string", argument) == expected


@pytest.mark.parametrize(
    ("go_type", "data", "text"),
    [
        ("int", Int64(5), "wrong type for value; expected int; got int64"),
        ("[]interface {}", Slice("string", ["a"]), "wrong type for value; expected []interface {}; got []string"),
        ("v1.Pod", Pointer("*v1.Pod"), "dereference of nil pointer of type v1.Pod"),
    ],
)
def test_a_value_of_another_type_is_refused_with_gos_words(go_type: str, data: object, text: str) -> None:
    with pytest.raises(TemplateError) as error:
        _call(f"func({go_type}) string", ".", data)
    assert str(error.value).endswith(text)


def test_only_some_types_have_nil() -> None:
    assert can_be_nil("map[string]string")
    assert can_be_nil("*v1.Pod")
    assert not can_be_nil("string")
