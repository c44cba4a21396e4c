"""Values at run time: signatures, fields, methods, ranges and nil."""

from __future__ import annotations

from typing import Any

import pytest

from injector.gotemplate import TemplateError, compile_template
from injector.gotemplate.errors import Failure, FieldFailure, FuncError, MethodFailure
from injector.gotemplate.runtime import (
    Signature,
    can_be_nil,
    elements,
    field_reader,
    method_of,
    method_reader,
    pairs,
    parse_signature,
)
from injector.gotemplate.values import NO_VALUE, Func, Int64, Map, NamedString, Pointer, Slice, Uint8, indirect
from tests.cases import cases
from tests.gotemplate.world import CALLABLES, Nil, Structs, record


@cases("text", "params", "variadic", "result")
def test_a_signature_is_read_in_gos_spelling(text: str, params: tuple[str, ...], variadic: str, result: str) -> None:
    assert parse_signature(text) == Signature(params, variadic, result)


@cases("text", "args", "final", "expected")
def test_a_wrong_number_of_arguments_is_counted_as_go_counts(text: str, args: int, final: bool, expected: str) -> None:
    assert parse_signature(text).miscount(args, final=final) == expected


def test_further_arguments_have_the_variadic_type() -> None:
    assert parse_signature("func(string, ...int) bool").type_at(4) == "int"


def _call(signature: str, argument: str, data: object = None) -> str:
    func = Func("f", signature, lambda value: f"{type(value).__name__}:{value}")
    return compile_template("t", f"{{{{ f {argument} }}}}", funcs={"f": func}).execute(data)


@cases("go_type", "argument", "expected")
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


ANN = record("main.User", Name="ann", Age=7)
field = field_reader("default")


@pytest.mark.parametrize(
    ("receiver", "name", "expected"),
    [
        ({"a": 1}, "a", 1),
        (Map("string", "int", {"a": 1}), "a", 1),
        (Map("interface {}", "int", {"a": 1}), "a", 1),
        (Pointer("*map", {"a": 1}), "a", 1),
        (ANN, "Name", "ann"),
        (Pointer("**main.User", Pointer("*main.User", ANN)), "Name", "ann"),
        (ANN, "Hello", "hello ann"),
        ({}, "a", NO_VALUE),
        (NO_VALUE, "a", NO_VALUE),
    ],
)
def test_a_name_is_an_entry_a_field_or_a_method(receiver: Any, name: str, expected: Any) -> None:
    assert field(receiver, name) == expected


@pytest.mark.parametrize(
    ("option", "receiver", "expected"),
    [
        ("default", Map("string", "string"), NO_VALUE),
        ("invalid", Map("string", "string"), NO_VALUE),
        ("zero", Map("string", "string"), ""),
        ("zero", {}, None),
        ("zero", NO_VALUE, NO_VALUE),
    ],
)
def test_a_missing_key_is_what_the_option_says(option: str, receiver: Any, expected: Any) -> None:
    assert field_reader(option)(receiver, "x") == expected


def test_a_missing_struct_is_its_zero_value() -> None:
    assert field_reader("zero")(Structs("string", "main.Point"), "x").values == {"X": 0, "Y": 0}


@pytest.mark.parametrize(
    ("receiver", "reason"), [({}, 'map has no entry for key "x"'), (NO_VALUE, 'nil data; no entry for key "x"')]
)
def test_a_missing_key_may_be_an_error(receiver: Any, reason: str) -> None:
    with pytest.raises(Failure) as caught:
        field_reader("error")(receiver, "x")
    assert str(caught.value) == reason


@pytest.mark.parametrize(
    ("receiver", "name", "reason"),
    [
        (None, "x", "nil pointer evaluating {type}.x"),
        (Pointer("*main.User"), "Name", "nil pointer evaluating {type}.Name"),
        (Nil("*main.User"), "Nope", "can't evaluate field Nope in type {type}"),
        ("text", "x", "can't evaluate field x in type {type}"),
        ([1], "x", "can't evaluate field x in type {type}"),
        (Map("main.Name", "int", {NamedString("main.Name", "x"): 1}), "x", "can't evaluate field x in type {type}"),
        (ANN, "Nope", "can't evaluate field Nope in type {type}"),
        (ANN, "secret", "secret is an unexported field of struct type {type}"),
    ],
)
def test_what_has_no_such_field_says_so(receiver: Any, name: str, reason: str) -> None:
    with pytest.raises(FieldFailure) as caught:
        field(receiver, name)
    assert (str(caught.value), caught.value.receiver) == (reason, receiver)


def test_a_method_may_fail_or_want_arguments() -> None:
    with pytest.raises(MethodFailure, match="error calling Refuse: refused"):
        field(ANN, "Refuse")
    with pytest.raises(Failure, match="wrong number of args for Greet: want 1 got 0"):
        field(ANN, "Greet")


def test_a_method_with_arguments_is_found_and_a_field_is_none() -> None:
    method = method_reader("default")
    assert method(Pointer("*main.User", ANN), "Greet").call("bob") == "ann greets bob"
    assert method(NO_VALUE, "Greet") is NO_VALUE
    for receiver, name, reason in (
        (ANN, "Name", "Name has arguments but cannot be invoked as function"),
        ({"a": 1}, "a", "a is not a method but has arguments"),
        (ANN, "Nope", "can't evaluate field Nope in type {type}"),
        (None, "x", "nil pointer evaluating {type}.x"),
    ):
        with pytest.raises(Failure) as caught:
            method(receiver, name)
        assert str(caught.value) == reason


def test_a_nil_pointer_has_the_methods_that_it_names() -> None:
    func = method_of(Nil("*main.User"), "Hello")
    assert func is not None
    assert func.signature == "func() string"
    assert method_of("text", "Hello") is None


def test_a_pointer_is_followed_to_its_end() -> None:
    inner = Pointer("*int")
    assert indirect(Pointer("**int", inner))[0] is inner
    assert indirect(Pointer("*int", 5))[0] == 5


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (["b", "a"], ["b", "a"]),
        ({"b": 1, "a": 2}, [2, 1]),
        (Map("int", "string", {10: "x", 2: "y"}), ["y", "x"]),
        (Pointer("*[]string", Slice("string", ["p"])), ["p"]),
        (3, [0, 1, 2]),
        (-1, []),
        (None, []),
        (NO_VALUE, []),
        (CALLABLES["seq"], [0, 10, 20]),
        (CALLABLES["pairs"], ["a", "b", "c"]),
    ],
)
def test_a_range_gives_elements_and_of_pairs_the_first(value: Any, expected: list[Any]) -> None:
    assert list(elements(value)) == expected


def test_integers_and_bytes_keep_their_type() -> None:
    assert [type(number) for number in elements(Uint8(2))] == [Uint8, Uint8]
    assert [type(byte) for byte in elements(b"x")] == [Uint8]
    assert [(at, type(byte)) for at, byte in pairs(b"x")] == [(0, Uint8)]


@cases("value", "expected", also=[(CALLABLES["pairs"], [["a", 0], ["b", 1], ["c", 2]])])
def test_a_range_with_two_variables_gives_pairs(value: Any, expected: list[Any]) -> None:
    assert list(map(list, pairs(value))) == expected


@pytest.mark.parametrize("value", ["text", 1.5, True, CALLABLES["add"], Pointer("*[]string")])
def test_what_has_no_elements_is_refused(value: Any) -> None:
    with pytest.raises(Failure, match="range can't iterate over"):
        elements(value)
    with pytest.raises(Failure, match="range can't iterate over"):
        pairs(value)


@pytest.mark.parametrize("value", [3, CALLABLES["seq"]])
def test_one_value_a_round_does_not_fill_two_variables(value: Any) -> None:
    with pytest.raises(Failure, match="iterate over more than one variable"):
        pairs(value)


def test_an_iterator_without_end_is_cut_off() -> None:
    def endless(take: Any) -> None:
        while take(1):
            pass

    with pytest.raises(FuncError, match="more than 100000 values"):
        elements(Func("endless", "func(func(int) bool)", endless))
