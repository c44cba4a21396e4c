"""Pairs for a strategic merge: objects made of Kubernetes' own types, and patches that say something about them."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any

from injector.kube.typed import OPAQUE, FieldType, is_struct, struct_type, underlying
from tests.differential.dice import Dice
from tests.differential.golang import Question

DEEPEST = 5
FEW = 3
TYPES = ("v1.Pod", "v1.Pod", "v1.Pod", "v1.Pod", "v1.Deployment")
NAMES = ("a", "b", "c", "istio-proxy")
TEXTS = ("", "x", "y", "1", "100m", "1Gi", "true", "null", "é<&>\u2028", "a\nb", "$patch", "2026-01-02T03:04:05Z")
NUMBERS = (0, 1, 2, 80, 81, -1, 2**31, 2**53, 2**53 + 1, 2**63 - 1, -(2**63), 1.0, 1.5, -0.0, 1e21, 1e-7)
QUANTITIES = ("100m", "1", "0.5", "1Gi", "1e3", 2, 0.1)
ODD: tuple[Any, ...] = (None, True, "odd", 7, 1.5, [], {}, ["a"], {"a": "b"}, [{"name": "a"}], [None], [["a"]])
UNKNOWN = ("unknown", "NAME", "Containers", "$other", "x/y")
DIRECTIVES = ("delete", "replace", "merge", "nonsense", "", None, 1)
BASES: dict[str, tuple[Any, ...]] = {
    "bool": (True, False),
    "string": TEXTS,
    "resource.Quantity": QUANTITIES,
    "intstr.IntOrString": (80, "http", "25%"),
    "v1.Time": (None, "2026-01-02T03:04:05Z"),
    "v1.FieldsV1": ({}, {"f:a": {}}),
    "runtime.RawExtension": ({}, {"kind": "X"}),
}


@cache
def dropped(name: str) -> frozenset[str]:
    """The fields of a struct that the newest minor no longer has, and so the Go program that answers."""
    known = json.loads(files("injector.istio").joinpath("podfields.json").read_bytes())
    return frozenset(
        key.removeprefix(f"{name}.") for key, minors in known.items() if key.startswith(f"{name}.") and "-" in minors
    )


class Pairs:
    """Makes pairs of an object and a patch."""

    def __init__(self, dice: Dice) -> None:
        self.dice = dice

    def question(self) -> Question:
        """One pair."""
        kind = self.dice.one_of(TYPES)
        original = self.struct(kind, 0)
        return {"type": kind, "original": original, "patch": self.patch(kind, original, 0)}

    def value(self, kind: str, depth: int, key: str = "") -> Any:
        """A value of a Go type, seldom of another; ``key`` is what tells the items of a list apart."""
        if self.dice.happens(0.015):
            return self.dice.one_of(ODD)
        name = kind.removeprefix("*")
        if is_struct(name) and name not in OPAQUE:
            return self.struct(name, depth + 1, key)
        base = underlying(name)
        if base.startswith("[]"):
            count = self.dice.below(FEW + 1) if depth < DEEPEST else 0
            return [self.value(base[2:], depth + 1, key) for _ in range(count)]
        if base.startswith("map["):
            item = base.partition("]")[2]
            return {name: self.value(item, depth + 1) for name in self.dice.some_of(NAMES, 0.4)}
        return self.dice.one_of(BASES.get(name) or BASES.get(base) or NUMBERS)

    def struct(self, name: str, depth: int, key: str = "") -> dict[str, Any]:
        """An object with some fields of a struct, those that are merged rather than others."""
        fields = self.choose(name, depth)
        result = {field.json: self.value(field.type, depth, field.merge_key) for field in fields}
        if key and not self.dice.happens(0.01):
            result[key] = self.key_of(struct_type(name).by_json[key])
        if self.dice.happens(0.03):
            result[self.dice.one_of(UNKNOWN)] = self.dice.one_of(ODD)
        return result

    def choose(self, name: str, depth: int) -> list[FieldType]:
        """Some fields of a struct: few, and fewer the deeper."""
        fields = [field for field in struct_type(name).by_json.values() if field.json not in {"status", *dropped(name)}]
        merged = [field for field in fields if field.strategy or field.json in ("metadata", "spec", "template")]
        fields_of = self.dice.some_of(merged, 0.5 if depth < FEW else 0.25) if depth < DEEPEST else []
        fields_of += [self.dice.one_of(fields) for _ in range(self.dice.below(FEW))]
        return self.dice.shuffled(fields_of)

    def key_of(self, field: FieldType) -> Any:
        """A value for a merge key, one of so few that items meet."""
        if underlying(field.type) == "string":
            return self.dice.one_of(NAMES)
        return self.dice.one_of((80, 81, 80.0))

    def patch(self, name: str, original: Any, depth: int) -> dict[str, Any]:
        """A patch of an object of a struct: of what is there, and of what is not."""
        if not isinstance(original, dict):
            return self.struct(name, depth)
        patch: dict[str, Any] = {}
        known = struct_type(name).by_json
        for key, value in original.items():
            if self.dice.happens(0.5):
                patch |= self.change(known.get(key), key, value, depth)
        if self.dice.happens(0.5):
            patch |= self.struct(name, depth)
        if self.dice.happens(0.04):
            patch["$patch"] = self.dice.one_of(DIRECTIVES)
        if self.dice.happens(0.04):
            patch["$retainKeys"] = self.dice.shuffled([*patch, *self.dice.some_of([*original])])
        return patch

    def change(self, field: FieldType | None, key: str, value: Any, depth: int) -> dict[str, Any]:
        """The keys of a patch that say something about one field."""
        if self.dice.happens(0.08):
            return {key: None}
        if field is None:
            return {key: self.dice.one_of(ODD)}
        kind = field.type.removeprefix("*")
        if isinstance(value, list) and underlying(kind).startswith("[]"):
            return self.list_change(field, value, depth)
        if isinstance(value, dict) and is_struct(kind) and kind not in OPAQUE:
            return {key: self.patch(kind, value, depth + 1)}
        return {key: self.value(field.type, depth)}

    def list_change(self, field: FieldType, value: list[Any], depth: int) -> dict[str, Any]:
        """The keys of a patch that say something about a list: items, their order, items to delete."""
        kind = underlying(field.type.removeprefix("*"))[2:]
        items = [self.item_change(field, kind, item, depth) for item in self.dice.some_of(value)]
        items += [self.value(kind, depth + 1, field.merge_key) for _ in range(self.dice.below(FEW))]
        result: dict[str, Any] = {field.json: self.dice.shuffled(items)}
        if self.dice.happens(0.15):
            result[f"$setElementOrder/{field.json}"] = self.order(field, [*value, *items])
        if self.dice.happens(0.1):
            unwanted = self.dice.some_of(value) if self.dice.happens(0.8) else self.dice.one_of(ODD)
            result[f"$deleteFromPrimitiveList/{field.json}"] = unwanted
            if self.dice.happens(0.7):
                del result[field.json]
        return result

    def item_change(self, field: FieldType, kind: str, item: Any, depth: int) -> Any:
        """A patch of one item of a list, or a directive about it."""
        if not (isinstance(item, dict) and is_struct(kind)):
            return item
        key = field.merge_key
        named = {key: item[key]} if key in item else {}
        if self.dice.happens(0.12):
            return {"$patch": self.dice.one_of(DIRECTIVES if self.dice.happens(0.3) else DIRECTIVES[:1]), **named}
        if self.dice.happens(0.03):
            return {"$patch": "replace"}
        return {**self.patch(kind, item, depth + 1), **named}

    def order(self, field: FieldType, items: list[Any]) -> Any:
        """The order of a list, as a client would write it, seldom without an item or with a strange one."""
        key = field.merge_key
        results: list[Any] = []
        for item in items:
            named = {key: item[key]} if key and isinstance(item, dict) and key in item else item
            if named not in results and not self.dice.happens(0.03):
                results.append(named)
        if self.dice.happens(0.05):
            results.append(self.dice.one_of(ODD))
        return results if self.dice.happens(0.5) else self.dice.shuffled(results)
