"""Answers recorded from Go, and how ours are held against them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

from injector.gotemplate import Budget, Func, GoTemplate, TemplateError, compile_template
from injector.gotemplate.sprig import txt_func_map
from tests.gotemplate import world

Case: TypeAlias = "dict[str, Any]"

CORPUS = Path(__file__).parent / "corpus"
# The clock stands still: what a slow machine answers is an answer.
TIMELESS = Budget(steps=10_000_000, memory=64 << 20, clock=lambda: 0.0)
_FUNCTION = re.compile(r"\b[a-zA-Z_][a-zA-Z0-9_]*\b")


@cache
def recording(name: str) -> dict[str, Any]:
    """A corpus file."""
    loaded: dict[str, Any] = json.loads((CORPUS / f"{name}.json").read_text("utf-8"))
    return loaded


def recorded_cases(name: str) -> list[Case]:
    """The cases of a corpus file."""
    cases: list[Case] = recording(name)["cases"]
    return cases


def sprig_cases() -> dict[str, list[Case]]:
    """The recorded cases of sprig by the first function that a template names."""
    known = set(txt_func_map())
    result: dict[str, list[Case]] = {}
    for case in recorded_cases("sprig"):
        first = next((word for word in _FUNCTION.findall(case["template"]) if word in known), "none")
        result.setdefault(first, []).append(case)
    return result


def floats(value: Any) -> Any:
    """Data as Go decodes JSON: every number a float64."""
    if isinstance(value, dict):
        return {key: floats(item) for key, item in value.items()}
    if isinstance(value, list):
        return [floats(item) for item in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def differences(cases: Iterable[Case], name: str) -> list[str]:
    """The cases that we answer otherwise than Go, for a test to show; the data is that of a corpus file."""
    return wrong_answers(cases, recording(name)["data"])


def wrong_answers(cases: Iterable[Case], data: Any) -> list[str]:
    """The cases that we answer otherwise than Go for this data."""
    return [difference for case in cases for difference in _difference(case, answer(case, data), expected(case))]


def answer(case: Case, data: Any) -> tuple[str, str]:
    """Our answer to a case: output or error, and its text; what is no UTF-8 as Go's JSON shows it."""
    try:
        text = compiled(case, txt_func_map()).execute(floats(data), budget=TIMELESS)
    except TemplateError as error:
        return "error", str(error)
    return "output", text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def expected(case: Case) -> tuple[str, str]:
    """Go's answer to a case."""
    return ("output", case["output"]) if "output" in case else ("error", case["error"])


def compiled(case: Case, funcs: dict[str, Func]) -> GoTemplate:
    """The template of a case."""
    return compile_template(
        case.get("name", "t"),
        case["template"],
        funcs=funcs,
        left=case.get("left", "{{"),
        right=case.get("right", "}}"),
        missing_key=case.get("missingkey", "default"),
    )


def typed_differences(wanted: Callable[[Case], bool], name: str = "typed") -> list[str]:
    """The cases on typed values that we answer otherwise than Go, among those chosen; there have to be some."""
    results = [case for case in recorded_cases(name) if wanted(case)]
    assert results
    values = recording(name)["values"]
    return [difference for case in results for difference in _typed_differences(case, values)]


def _typed_differences(case: Case, values: dict[str, Any]) -> Iterator[str]:
    try:
        template = compiled(case, world.functions(case.get("funcs", "")))
    except TemplateError as error:
        yield from _difference(case, ("error", str(error)), expected(case))
        return
    if "answers" not in case:
        yield from _difference(case, _executed(template, case.get("data", ""), values), expected(case))
        return
    for group in case["answers"]:
        for names in group["for"]:
            yield from _difference({**case, "data": names}, _executed(template, names, values), expected(group))


def _executed(template: GoTemplate, names: str, values: dict[str, Any]) -> tuple[str, str]:
    """Our answer for the value that is named, or for a list of those that are."""
    data = world.build(values.get(names)) if " " not in names else [world.build(values[name]) for name in names.split()]
    try:
        return "output", template.execute(data, budget=TIMELESS)
    except TemplateError as error:
        return "error", str(error)


def _difference(case: Case, ours: tuple[str, str], wanted: tuple[str, str]) -> Iterator[str]:
    if ours != wanted:
        yield f"{case['template']} {case.get('data', '')}\n  Go:   {wanted}\n  ours: {ours}"
