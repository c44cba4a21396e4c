"""Cases of tests as data: ``test_x.yaml`` beside ``test_x.py``. Its keys are names of tests without ``test_``."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Hashable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import yaml

Test = TypeVar("Test", bound="Callable[..., Any]")


def cases(*names: str, also: Iterable[Any] = ()) -> Callable[[Test], Test]:
    """Parametrize a test with its cases from the YAML file beside its module, and with those of ``also``, which YAML cannot express.

    A case is a list of values in the order of ``names``, or a mapping with these names as keys. With a single name, it is the value.
    If the cases are a mapping, its keys are their ids. ``v1.30`` is the minor (1, 30). A list is a tuple if the parameter is one.
    """

    # Imported here, because fuzzing reads cases where pytest is not installed.
    import pytest  # noqa: PLC0415

    def parametrize(test: Test) -> Test:
        path = Path(test.__code__.co_filename).with_suffix(".yaml")
        rows_by_test = read_cases(path)[test.__name__.removeprefix("test_")]
        rows = rows_by_test.items() if isinstance(rows_by_test, dict) else ((None, row) for row in rows_by_test)
        parameters = [pytest.param(*_values(test, names, row), id=name) for name, row in rows]
        parameters += [pytest.param(*_values(test, names, row)) for row in also]
        parametrized: Test = pytest.mark.parametrize(names, parameters)(test)
        return parametrized

    return parametrize


@functools.cache
def read_cases(path: Path) -> dict[str, Any]:
    """Return the cases of a YAML file by the name of their test."""
    rows_by_test: dict[str, Any] = yaml.load(path.read_text(), _Loader)  # noqa: S506 a safe loader, with one more scalar
    return rows_by_test


def _values(test: Callable[..., Any], names: tuple[str, ...], row: Any) -> list[Any]:
    if len(names) == 1:
        row = [row]
    assert len(row) == len(names), row
    values = [row[name] for name in names] if isinstance(row, dict) else row
    kinds = [str(test.__annotations__[name]) for name in names]
    return [
        tuple(value) if kind.startswith("tuple") and value is not None else value
        for kind, value in zip(kinds, values, strict=True)
    ]


class _Loader(yaml.CSafeLoader):
    """Safe YAML in which ``v1.30`` is a minor of Istio. A key that occurs twice is an error: cases would be lost."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        keys = [key.value for key, _ in node.value]
        if len(set(map(str, keys))) < len(keys):
            raise yaml.MarkedYAMLError("a key occurs twice", problem_mark=node.start_mark)
        return super().construct_mapping(node, deep)

    def minor(self, node: yaml.Node) -> tuple[int, int]:
        major, minor = str(node.value).removeprefix("v").split(".")
        return int(major), int(minor)


_Loader.add_implicit_resolver("!minor", re.compile(r"v1\.\d+"), ["v"])
_Loader.add_constructor("!minor", _Loader.minor)
