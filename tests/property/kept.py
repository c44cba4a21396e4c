"""What no injection is about: fields that nobody knows yet, numbers at the edges of JSON, keys of any script. It stays as it was.

A pod gets such fields wherever an object has room for them, its review is answered by the handler, and the patch is applied to the text
that was sent, by the library ``jsonpatch``, so that nothing of ours reads the one or writes the other.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from random import Random
from typing import Any, Final

import jsonpatch

from injector.metrics import Stopwatch
from injector.webhook.handler import InjectHandler
from tests.cases import read_cases
from tests.factories import make_review
from tests.property.mutations import Path as Place
from tests.property.mutations import values_in

_DATA = read_cases(Path(__file__).with_suffix(".yaml"))
KEYS: list[str] = _DATA["keys"]
VALUES: list[str] = _DATA["values"]
"""As JSON texts: Python's own numbers tell 1 from 1.0 once they are read."""
MANAGED: Final = '[{"manager":"kubectl","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{".":{}}}}]'
TOUCHED: Final = (
    ("metadata", "annotations"),
    ("metadata", "labels"),
    ("spec", "containers"),
    ("spec", "initContainers"),
    ("spec", "volumes"),
    ("spec", "securityContext"),
    ("spec", "imagePullSecrets"),
    ("spec", "dnsConfig"),
)
"""What templates add to; whatever else an operation were about would be a fault."""


def sown(pod: dict[str, Any], dice: Random, share: float = 0.5) -> tuple[dict[str, Any], list[tuple[Place, Any]]]:
    """Return a pod with such fields, and where they are."""
    changed = json.loads(json.dumps(pod))
    changed["metadata"]["managedFields"] = json.loads(MANAGED)
    places: list[Place] = [("metadata", "managedFields")]
    for path, held in list(values_in(changed)):
        if isinstance(held, dict) and path not in _OF_TEXTS and dice.random() < share:
            key = dice.choice(KEYS)
            if key not in held:
                held[key] = json.loads(dice.choice(VALUES))
                places.append((*path, key))
    return changed, [(place, _at(json.loads(json.dumps(changed)), place)) for place in places]


_OF_TEXTS: Final = (("metadata", "annotations"), ("metadata", "labels"), ("spec", "nodeSelector"))
"""What Go reads as texts alone."""


def faults(handler: InjectHandler, path: str, pod: dict[str, Any], places: list[tuple[Place, Any]]) -> list[str]:
    """Return what an injection did to what it is not about; the pod has to get its sidecar."""
    body = json.dumps(make_review(pod), ensure_ascii=False).encode()
    response = json.loads(handler.answer(path, body, Stopwatch()).body)["response"]
    if "patch" not in response:
        return [f"not injected: {response}"]
    operations = json.loads(base64.b64decode(response["patch"]))
    after = jsonpatch.apply_patch(json.loads(body)["request"]["object"], operations)
    results = [f"operation at {operation['path']}" for operation in operations if not _intended(operation["path"])]
    results += [
        f"{place} was {value!r}" for place, value in places if not _same(_at(after, _moved(place, pod, after)), value)
    ]
    names = [item["name"] for item in after["spec"]["containers"]]
    return results if "istio-proxy" in names or _native(after) else [*results, f"no proxy among {names}"]


def _native(pod: dict[str, Any]) -> bool:
    return any(item["name"] == "istio-proxy" for item in pod["spec"].get("initContainers") or [])


def _intended(path: str) -> bool:
    way = tuple(path.split("/")[1:3])
    return way in TOUCHED or path in ("/metadata/annotations", "/metadata/labels")


def _moved(place: Place, before: dict[str, Any], after: dict[str, Any]) -> Place:
    """Return where an item of a list of named ones is afterwards."""
    if len(place) > 2 and place[0] == "spec" and isinstance(place[2], int):
        kind, index = str(place[1]), place[2]
        item = before["spec"][kind][index]
        if isinstance(item, dict) and "name" in item:
            names = [item.get("name") for item in after["spec"][kind]]
            return ("spec", kind, names.index(item["name"]), *place[3:])
    return place


_GONE: Final = object()


def _at(document: Any, place: Place) -> Any:
    for key in place:
        try:
            document = document[key]
        except (LookupError, TypeError):
            return _GONE
    return document


def _same(left: Any, right: Any) -> bool:
    return json.dumps(left) == json.dumps(right) if left is not _GONE else False
