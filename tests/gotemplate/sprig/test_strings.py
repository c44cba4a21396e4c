from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from injector.gotemplate.errors import FuncError
from injector.gotemplate.sprig import strings
from tests.gotemplate.recorded import differences, sprig_cases

if TYPE_CHECKING:
    from collections.abc import Callable

FUNCTIONS = (
    "abbrev",
    "abbrevboth",
    "trunc",
    "trim",
    "upper",
    "lower",
    "title",
    "untitle",
    "substr",
    "repeat",
    "trimall",
    "trimAll",
    "trimSuffix",
    "trimPrefix",
    "nospace",
    "initials",
    "swapcase",
    "wrap",
    "wrapWith",
    "contains",
    "hasPrefix",
    "hasSuffix",
    "quote",
    "squote",
    "cat",
    "indent",
    "nindent",
    "replace",
    "plural",
    "sha1sum",
    "sha256sum",
    "sha512sum",
    "adler32sum",
    "toString",
    "split",
    "splitList",
    "splitn",
    "toStrings",
    "join",
    "b64enc",
    "b64dec",
    "b32enc",
    "b32dec",
    "hello",
)


def test_every_function_answers_as_gos_does() -> None:
    cases = sprig_cases(FUNCTIONS)
    assert cases
    assert differences(cases, "sprig") == []


@pytest.mark.parametrize(
    "grow",
    [
        lambda: strings.repeat(10**9, "x"),
        lambda: strings.indent(10**9, "x"),
        lambda: strings.replace("", "y" * 2000, "x" * 2000),
        lambda: strings.join("y" * 2000, ["x"] * 2000),
        lambda: strings.wrap_with(1, "y" * 2000, "x" * 2000),
    ],
)
def test_a_result_larger_than_any_output_is_refused_before_it_is_made(grow: Callable[[], str]) -> None:
    with pytest.raises(FuncError, match="too large"):
        grow()
