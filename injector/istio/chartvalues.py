"""The values that Istio's chart knows, by minor: a key that it does not know has no effect, unless a template reads it.

``chartvalues.json`` has the keys of ``global`` and ``sidecarInjectorWebhook``, and those of the mappings in ``_PARENTS``, with the
first and last minor of each: the keys in values.yaml of the charts, and the fields of values_types.proto.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Final

from injector.golang.json import load_json
from injector.hints import did_you_mean
from injector.istio.behaviours import Minor, format_minor, parse_minor
from injector.kube.objects import mapping_at

_TOPS: Final = ("global", "sidecarInjectorWebhook")
_FIRST_CHECKED: Final[Minor] = (1, 8)
"""Before this minor, the operator adds values that the charts do not name."""
_PARENTS: Final = ("proxy", "proxy_init", "logging", "multiCluster", "istiod", "sds", "sts")


@cache
def _table() -> Mapping[str, Mapping[str, str]]:
    keys: Mapping[str, Mapping[str, str]] = load_json(files(__package__).joinpath("chartvalues.json").read_bytes())[
        "keys"
    ]
    return keys


def unknown_values(values: Mapping[str, Any], minor: Minor, templates: Iterable[str]) -> Iterator[str]:
    """Yield the keys of values that neither the chart of a minor knows nor one of the ``templates`` reads, with what to do."""
    if minor < _FIRST_CHECKED:
        return
    text = "\n".join(templates)
    paths: list[tuple[str, ...]] = [(top, key) for top in _TOPS for key in mapping_at(values, top)]
    paths += [("global", parent, key) for parent in _PARENTS for key in mapping_at(values, "global", parent)]
    known = [name for name, row in _table().items() if _has(row, minor)]
    for path in paths:
        name = ".".join(map(str, path))
        if name in known or re.search(rf"\b{re.escape(path[-1])}\b", text):
            continue
        row = _table().get(name)
        siblings = [other for other in known if other.rpartition(".")[0] == name.rpartition(".")[0]]
        remedy = f"correct or remove it{did_you_mean(name, siblings)}"
        if row is not None:
            remedy = f"remove it; Istio {row.get('first', '1.0')} to {row.get('last', format_minor(minor))} have it"
        yield f"values: {name} is not a value of the chart of Istio {format_minor(minor)}, and no template reads it; {remedy}"


def _has(row: Mapping[str, str], minor: Minor) -> bool:
    is_old_enough = "last" not in row or minor <= parse_minor(row["last"])
    return is_old_enough and parse_minor(row.get("first", "1.0")) <= minor
