from __future__ import annotations

from typing import Any

import pytest

from injector.gotemplate.errors import Failure, FieldFailure, MethodFailure
from injector.gotemplate.reflect import NO_VALUE
from injector.gotemplate.runtime import field_reader, method_of, method_reader, pointed
from injector.gotemplate.values import Map, NamedString, Pointer
from tests.gotemplate.world import Nil, Structs, record

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
    assert field(receiver, name) == expected, "a struct's class is remembered after the first time"


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
    assert caught.value.reason == reason


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
    assert (caught.value.reason, caught.value.receiver) == (reason, receiver)


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
        assert caught.value.reason == reason


def test_a_nil_pointer_has_the_methods_that_it_names() -> None:
    found = method_of(Nil("*main.User"), "Hello")
    assert found is not None
    assert found.signature == "func() string"
    assert method_of("text", "Hello") is None


def test_a_pointer_is_followed_to_its_end() -> None:
    inner = Pointer("*int")
    assert pointed(Pointer("**int", inner)) is inner
    assert pointed(Pointer("*int", 5)) == 5
