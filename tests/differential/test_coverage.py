"""The recorded cases together use each function, field, directive, merge key and behaviour that Istio's injectors have."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from injector.gotemplate.builtins import BUILTINS
from injector.gotemplate.nodes import (
    FieldNode,
    IdentifierNode,
    IfNode,
    Node,
    RangeNode,
    TemplateNode,
    VariableNode,
    WithNode,
)
from injector.gotemplate.parser import parse_template
from injector.gotemplate.sprig import txt_func_map
from injector.istio.behaviours import Behaviours, behaviours_of, parse_minor
from injector.istio.functions import istio_functions
from injector.kube.typed import is_struct, struct_type, underlying
from tests.cases import read_cases
from tests.differential.injectorcases import Recording, recordings
from tests.differential.injectors import Case, alike, ours

ISTIO_USES = (
    *(
        "and",
        "append",
        "contains",
        "default",
        "eq",
        "ge",
        "gt",
        "index",
        "indent",
        "join",
        "len",
        "list",
        "ne",
        "nindent",
        "not",
    ),
    *(
        "or",
        "printf",
        "quote",
        "replace",
        "set",
        "toJson",
        "toLower",
        "toYaml",
        "trim",
        "trimAll",
        "trimSuffix",
        "trunc",
    ),
)
"""The functions of Go and sprig that the templates of Istio 1.0 to 1.31 call."""
DIRECTIVES = (
    *(
        "$patch: replace",
        "$patch: merge",
        "$patch: delete",
        "$retainKeys",
        "$setElementOrder/",
        "$deleteFromPrimitiveList/",
    ),
    *("{{- define", "{{ block", "{{- /*", "{{/*", "{{- else if", "-}}", ":= ", " | "),
)
TABLE = read_cases(Path(__file__).with_suffix(".yaml"))["each_behaviour_decides_a_recorded_case"]
MINORS = read_cases(Path(__file__).parents[1] / "injection" / "test_minors.yaml")
OTHERS = {title.split(",")[0] for table in MINORS.values() for title in table}
"""Behaviours that a case of tests/injection/test_minors.py shows: those of few recorded answers, and of kube-inject."""
DRIFT = "names_revision"
"""A behaviour that only the count of drift reads, see tests/revisions/test_driftwatch.py."""
SETTINGS = ("defaultTemplates", "aliases", "injectedAnnotations", "neverInjectSelector", "alwaysInjectSelector")


@cache
def configs() -> dict[str, list[dict[str, Any]]]:
    """Return the recorded inject configs, by minor."""
    result: dict[str, list[dict[str, Any]]] = {}
    for recording in recordings():
        result.setdefault(recording.plane.minor, []).append(json.loads(recording.plane.config))
    return result


def templates(minor: str) -> set[str]:
    """Return the recorded templates of a minor."""
    return {
        text
        for config in configs()[minor]
        for text in config.get("templates", {"": config.get("template", "")}).values()
    }


@cache
def nodes(minor: str) -> list[Node]:
    """Return the nodes of the recorded templates of a minor."""
    known = {**BUILTINS, **txt_func_map(), **istio_functions(parse_minor(minor), {})}
    trees = [tree for text in templates(minor) for tree in parse_template("t", text, functions=known).values()]
    return [node for tree in trees for node in walk(tree.root)]


def walk(value: Any) -> Iterator[Node]:
    """Yield the nodes of a tree."""
    if isinstance(value, tuple):
        for item in value:
            yield from walk(item)
    elif isinstance(value, Node):
        yield value
        assert is_dataclass(value)
        for field in fields(value):
            yield from walk(getattr(value, field.name))


def called(minor: str) -> set[str]:
    """Return the functions that the recorded templates of a minor call."""
    return {node.name for node in nodes(minor) if isinstance(node, IdentifierNode)}


def test_each_function_is_called() -> None:
    by_all = set().union(*map(called, configs()))
    istios = {name for minor in configs() for name in istio_functions(parse_minor(minor), {})}

    assert {*ISTIO_USES, *istios} - by_all == set()


def test_each_field_of_the_data_is_read() -> None:
    read = {node.idents[0] for minor in configs() for node in nodes(minor) if isinstance(node, FieldNode)}

    assert set().union(*(behaviours_of(parse_minor(minor)).template_fields for minor in configs())) - read == set()


def test_each_directive_and_setting_is_used() -> None:
    text = "\n".join(template for minor in configs() for template in templates(minor))
    kinds = {type(node) for minor in configs() for node in nodes(minor)}

    assert [directive for directive in DIRECTIVES if directive not in text] == []
    assert {IfNode, RangeNode, WithNode, TemplateNode, VariableNode} - kinds == set()
    assert {key for some in configs().values() for config in some for key in config} >= {*SETTINGS, "template"}


def merged_lists(type_name: str, above: frozenset[str] = frozenset()) -> Iterator[tuple[str, str]]:
    """Yield the struct and the name of each list with a merge key that a value of a type can have."""
    name = underlying(type_name.removeprefix("*")).removeprefix("[]").removeprefix("*")
    if not is_struct(name) or name in above:
        return
    for field in struct_type(name).by_json.values():
        if field.merge_key:
            yield name, field.json
        yield from merged_lists(field.type, above | {name})


def changed_lists(type_name: str, before: Any, after: Any) -> Iterator[tuple[str, str]]:
    """Yield the struct and the name of each list of which items stay by their merge key, and one is changed or added."""
    name = underlying(type_name.removeprefix("*"))
    if not is_struct(name) or not isinstance(before, dict) or not isinstance(after, dict):
        return
    for field in struct_type(name).by_json.values():
        old, new = before.get(field.json), after.get(field.json)
        if field.merge_key and old and new:
            pairs = [(a, b) for a in old for b in new if a.get(field.merge_key) == b.get(field.merge_key)]
            if len(pairs) > 1 and (len(new) > len(pairs) or any(a != b for a, b in pairs)):
                yield name, field.json
            for pair in pairs:
                yield from changed_lists(field.type.removeprefix("[]"), *pair)
        else:
            yield from changed_lists(field.type, old, new)


def test_a_list_of_each_merge_key_keeps_items_and_changes() -> None:
    changed = {
        path
        for recording in recordings()
        for case, answer in recording.answers
        if "pod" in answer and not case.name.startswith("random ")
        for path in changed_lists("v1.Pod", case.pod, answer["pod"])
    }

    assert set(merged_lists("v1.Pod")) - changed == UNREACHABLE


UNREACHABLE = {("v1.ContainerStatus", "allocatedResourcesStatus"), ("v1.ContainerStatus", "volumeMounts")}
"""They are within a list without a merge key, which a template can only replace."""


def named(minor: str, plane: str, case: str) -> tuple[Recording, Case]:
    """Return a recorded case by its name."""
    for recording in recordings():
        if (recording.plane.minor, recording.name) == (minor, plane):
            return recording, next(recorded for recorded, _ in recording.answers if recorded.name == case)
    raise LookupError(f"no recording {minor} {plane}")


@pytest.mark.parametrize("row", TABLE)
def test_each_behaviour_decides_a_recorded_case(row: str) -> None:
    recording, case = named(*TABLE[row])
    revision, values = (
        recording.plane.revision,
        next(field for field in fields(Behaviours) if field.name == row).metadata,
    )
    mine, others = ours(recording.plane, case), []
    for value in values.values():
        control_plane = replace(recording.plane)
        control_plane.__dict__["revision"] = replace(revision, behaviours=replace(revision.behaviours, **{row: value}))
        others.append(ours(control_plane, case))

    assert not all(alike(mine, other) for other in others)


def test_a_case_shows_each_behaviour() -> None:
    assert {field.name for field in fields(Behaviours)} == {*TABLE, *OTHERS, DRIFT}
