from __future__ import annotations

import pytest

from injector.gotemplate.runtime import Signature, parse_signature


@pytest.mark.parametrize(
    ("text", "params", "variadic", "result"),
    [
        ("func() string", (), "", "string"),
        ("func(string, ...interface {}) (string, error)", ("string",), "interface {}", "string"),
        ("func(map[string]interface {}) map[string]int", ("map[string]interface {}",), "", "map[string]int"),
        ("func(func(int, string) bool, int) []string", ("func(int, string) bool", "int"), "", "[]string"),
        ("func(func(int) bool)", ("func(int) bool",), "", ""),
        ("func() func(int, int) int", (), "", "func(int, int) int"),
    ],
)
def test_a_signature_is_read_in_gos_spelling(text: str, params: tuple[str, ...], variadic: str, result: str) -> None:
    assert parse_signature(text) == Signature(params, variadic, result)


@pytest.mark.parametrize(
    ("text", "args", "final", "expected"),
    [
        ("func(string, int) string", 2, False, ""),
        ("func(string, int) string", 1, True, ""),
        ("func(string, int) string", 1, False, "want 2 got 1"),
        ("func(string, int) string", 2, True, "want 2 got 3"),
        ("func(string, ...int) string", 5, True, ""),
        ("func(string, ...int) string", 0, True, ""),
        ("func(string, ...int) string", 0, False, "want at least 1 got 0"),
    ],
)
def test_a_wrong_number_of_arguments_is_counted_as_go_counts(text: str, args: int, final: bool, expected: str) -> None:
    assert parse_signature(text).miscount(args, final=final) == expected


def test_further_arguments_have_the_variadic_type() -> None:
    assert parse_signature("func(string, ...int) bool").type_at(4) == "int"
