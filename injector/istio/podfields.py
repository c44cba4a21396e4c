"""The fields of a pod that Kubernetes got after an Istio minor: that minor drops them from what its templates render.

``podfields.json`` is written by tests/istio/recorder/podfields, which compares k8s.io/api at the version in each minor's go.mod.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

import orjson

from injector.istio.minor import parse_minor

if TYPE_CHECKING:
    from injector.istio.minor import Minor
    from injector.kube.typed import FieldName


@cache
def missing_fields(minor: Minor) -> frozenset[FieldName]:
    """Return the fields, as (struct, JSON name), that came to k8s.io/api after the version that ``minor`` is built with."""
    return frozenset(name for name, since in _since() if minor < since)


@cache
def _since() -> tuple[tuple[FieldName, Minor], ...]:
    raw: dict[str, str] = orjson.loads(files(__package__).joinpath("podfields.json").read_bytes())
    names = {name: name.rpartition(".") for name in raw}
    return tuple(((names[name][0], names[name][2]), parse_minor(raw[name], where=name)) for name in raw)
