"""ProxyConfigs and mesh configs, one on top of another: fields of the message, in YAML and JSON, of right and of wrong types."""

from __future__ import annotations

import json
from typing import Any

from injector.istio.behaviours import NEWEST
from injector.istio.proto import (
    DURATION,
    STRUCT,
    WRAPPERS,
    Field,
    enum_type,
    mesh_config_type,
    message_type,
    proxy_config_type,
)
from injector.kube.yaml import dump_yaml
from tests.differential.dice import Dice
from tests.differential.golang import Question

DEEPEST = 4
DURATIONS = (
    *("10s", "1m", "1.5s", "-1s", "0s", "1h2m3s", "1ms", "100us", "5", "", "s", "1 s", "1d", "9999999999999s"),
    *("0.000000001s", ".5s", "+3s"),
)
STRINGS = ("", "a", "istiod.istio-system.svc:15012", "10s", "true", "1", "null", "é<&>", "a\nb", "$(HOST_IP):9411")
INTEGERS = (
    *(0, 1, 2, -1, 15020, 65536, 2**31 - 1, 2**31, 2**32, 2**53 + 1, 2**63 - 1, 2**63, 1.0, 1.5, 1e3, "1", " 2 "),
    *("null", "x", "1.0", ""),
)
FLOATS = (0, 1, 1.5, -0.0, 1e21, 1e-7, 100, "1.5", "NaN", "Infinity", "-Infinity", "x", "", "1e3", " 2 ")
BOOLS = (True, False, True, False, True, False, "true", 1, "")
ODD: tuple[Any, ...] = (None, "odd", 7, True, [], {}, [None], {"a": None}, [1, "a"], {"a": {"b": 1}})
KEYS = ("A", "B", "ISTIO_META_X", "", "é", "1", "true")
KINDS: dict[str, tuple[Any, ...]] = {"bool": BOOLS, "string": STRINGS, "double": FLOATS, "float": FLOATS}


class ProxyConfigs:
    """Makes pairs of a ProxyConfig and one on top of it."""

    kind = proxy_config_type(NEWEST)

    def __init__(self, dice: Dice) -> None:
        self.dice = dice

    def question(self) -> Question:
        """One pair of texts."""
        return {"base": self.text(0.01), "text": self.text(0.04)}

    def text(self, odd: float) -> str:
        """A config as YAML or JSON."""
        data = self.message(self.kind, 0, odd)
        return dump_yaml(data) if self.dice.happens(0.5) else json.dumps(data)

    def message(self, name: str, depth: int, odd: float) -> dict[str, Any]:
        """Some fields of a message, by either name."""
        fields = message_type(name).fields
        picked = [self.dice.one_of(fields) for _ in range(self.dice.below(5))] if fields else []
        result = {
            (field.json if self.dice.happens(0.8) else field.proto): self.value(field, depth, odd) for field in picked
        }
        if self.dice.happens(0.04):
            result[self.dice.one_of(("unknown", "Concurrency", "status-port"))] = self.dice.one_of(ODD)
        return result

    def value(self, field: Field, depth: int, odd: float) -> Any:
        """A value of a field, of another type now and then."""
        if self.dice.happens(odd):
            return self.dice.one_of(ODD)
        if field.map_key:
            return {key: self.element(field, depth, odd) for key in self.dice.some_of(KEYS, 0.3)}
        if field.repeated:
            return [self.element(field, depth, odd) for _ in range(self.dice.below(3))]
        return self.element(field, depth, odd)

    def element(self, field: Field, depth: int, odd: float) -> Any:
        """A value, an item of a list, or a value of a map."""
        if self.dice.happens(odd / 2):
            return self.dice.one_of(ODD)
        if field.kind == "enum":
            kind = enum_type(field.type)
            return self.dice.one_of((*kind.numbers, *kind.names, "NONE_SUCH", 77, -1))
        if field.type == DURATION:
            return self.dice.one_of(DURATIONS if self.dice.happens(0.1 + odd) else DURATIONS[:5])
        if field.kind == "message" and field.type not in WRAPPERS:
            return (
                self.dice.one_of(ODD)
                if field.type == STRUCT or depth > DEEPEST
                else self.message(field.type, depth + 1, odd)
            )
        scalars = KINDS.get(WRAPPERS.get(field.type, field.kind), INTEGERS)
        return self.dice.one_of(scalars if self.dice.happens(0.1 + odd) else scalars[:5])


class MeshConfigs(ProxyConfigs):
    """Makes pairs of a mesh config and one on top of it."""

    kind = mesh_config_type(NEWEST)
