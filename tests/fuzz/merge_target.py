"""Strategic merge patches of Kubernetes objects by their types, and the JSON patches that lead to what comes out.

An answer is a merged object or a ``ManifestError``. A bug is any other exception, an argument that was changed, a JSON patch that does
not lead from the object to the merged one, be it applied by us or by the ``jsonpatch`` package, and a decoded object that decoding
changes again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random
from typing import Any

import jsonpatch
import orjson

from injector.errors import ManifestError
from injector.kube.jsonpatch import create_patch
from injector.kube.strategicpatch import strategic_merge
from injector.kube.typed import OPAQUE, FieldType, is_struct, normalise, struct_type, underlying
from tests.fuzz.draws import Draws
from tests.fuzz.jsondata import json_data, json_scalar, sorted_json
from tests.fuzz.target import Target, recorded

TYPES = ("v1.Pod", "v1.PodSpec", "v1.Container", "v1.Deployment", "v1.ObjectMeta", "v1.Volume", "v1.List")
# Few, so that an object and its patch are about the same.
NAMES = ("a", "b", "c", "istio-proxy")
DIRECTIVES = ("replace", "delete", "merge", "x", None)
DEEPEST = 7
SCALARS = {
    "string": NAMES,
    "bool": (True, False),
    "int32": (1, 0, 8080, -1),
    "int64": (1, 0, 2**53),
    "resource.Quantity": ("1", "100m", "1e3Ki"),
}


def run(data: bytes) -> None:
    """Try an object and a patch, of JSON or made by their type."""
    draws = Draws(data)
    type_name = draws.choice(TYPES)
    if draws.getrandbits(1):
        pair = _pair_of(draws.rest())
        if pair is None:
            return
        original, patch = pair
    else:
        original = _struct(draws, type_name, None, 0)
        patch = _struct(draws, type_name, original, 0)
    before = sorted_json(original), sorted_json(patch)
    for value in (original, patch):
        _normalised(value, type_name)
    try:
        merged = strategic_merge(original, patch, type_name)
    except ManifestError:
        return
    finally:
        assert (sorted_json(original), sorted_json(patch)) == before
    _normalised(merged, type_name)
    operations = create_patch(original, merged)
    assert sorted_json(jsonpatch.apply_patch(original, orjson.loads(orjson.dumps(operations)))) == sorted_json(merged)
    assert (sorted_json(original), sorted_json(patch)) == before


def _pair_of(data: bytes) -> tuple[dict[str, Any], dict[str, Any]] | None:
    try:
        pair = orjson.loads(data)
    except orjson.JSONDecodeError:
        return None
    if isinstance(pair, list) and len(pair) == 2 and all(isinstance(part, dict) for part in pair):
        return pair[0], pair[1]
    return None


def _normalised(value: Any, type_name: str) -> None:
    try:
        decoded = normalise(value, type_name, coerce=True)
        again = normalise(decoded, type_name, coerce=True)
    except ManifestError:  # also the second time: Go writes a year before 0 that it does not read
        return
    assert again is decoded


def value_of_type(random: Random, type_name: str, like: Any, depth: int) -> Any:
    """A value of a Go type; ``like`` is what it is a patch for, and then it has directives too."""
    base = underlying(type_name.removeprefix("*"))
    if random.randrange(24) == 23 or depth > DEEPEST:
        return json_data(random, depth)
    if is_struct(base):
        return _struct(random, base, like, depth)
    if base.startswith("[]"):
        return [value_of_type(random, base[2:], _item(like), depth + 1) for _ in range(random.randrange(4))]
    if base.startswith("map["):
        return {
            random.choice(NAMES): value_of_type(random, base.partition("]")[2], None, depth + 1)
            for _ in range(random.randrange(3))
        }
    return random.choice(SCALARS[base]) if base in SCALARS and base not in OPAQUE else json_scalar(random)


def _item(like: Any) -> Any:
    return like[0] if isinstance(like, list) and like else None


def _struct(random: Random, base: str, like: Any, depth: int) -> dict[str, Any]:
    fields = struct_type(base).by_json
    known = [name for name in like if name in fields] if isinstance(like, dict) else []
    value: dict[str, Any] = {}
    for _ in range(random.randrange(5)):
        name = random.choice(known) if known and random.getrandbits(1) else random.choice(list(fields))
        inner = like.get(name) if isinstance(like, dict) else None
        value[name] = None if random.randrange(12) == 11 else value_of_type(random, fields[name].type, inner, depth + 1)
        if like is not None and random.randrange(4) == 3:
            _direct(random, value, fields[name])
    if "name" in fields and random.randrange(16) != 15:
        value["name"] = random.choice(NAMES)
    return value


def _direct(random: Random, value: dict[str, Any], field: FieldType) -> None:
    """Put a directive into an object of a patch."""
    listed = value.get(field.json)
    key = field.merge_key
    order: list[Any] = [{key: name} if key else name for name in random.sample(NAMES, random.randrange(3))]
    if isinstance(listed, list) and random.getrandbits(1):
        order += [{key: item.get(key)} if key and isinstance(item, dict) else item for item in listed]
    kind = random.randrange(4)
    if kind == 0:
        value["$patch"] = random.choice(DIRECTIVES)
    elif kind == 1:
        value[f"$setElementOrder/{field.json}"] = order
    elif kind == 2:
        value[f"$deleteFromPrimitiveList/{field.json}"] = order
    else:
        value["$retainKeys"] = list(value) if random.getrandbits(1) else order


def seeds() -> Iterator[bytes]:
    """Merges that Go has answered, and objects made by their types."""
    for case in recorded("kube/corpus/strategic_merge.json"):
        yield b"\x00\x01" + json.dumps([case["original"], case["patch"]]).encode()
    for case in recorded("kube/corpus/typed.json"):
        if isinstance(case.get("json"), dict) and case["type"] in TYPES:
            yield bytes([TYPES.index(case["type"]), 1]) + json.dumps([case["json"], {}]).encode()
    for number in range(256):
        yield bytes([number % 7, 0, 4, 0, number, *((number * factor) % 251 for factor in range(60))])


TARGET = Target(
    run=run,
    modules=tuple(f"kube/{name}.py" for name in ("strategicpatch", "jsonpatch", "typed")),
    seeds=seeds,
    words=(
        *('"$patch":', '"delete"', '"replace"', '"$retainKeys":', '"$setElementOrder/', '"$deleteFromPrimitiveList/'),
        *('"name":"a"', '"containers":[', '"spec":{', '"metadata":{', '"env":[', "null", "[]", "{}", '"finalizers":'),
        *('"ports":[', '"containerPort":80'),
    ),
    longest=4096,
)
