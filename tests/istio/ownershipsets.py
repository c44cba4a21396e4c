"""Random sets of tags, Services, webhooks, labels and Gateways, and the answers of Istio's TagWatcher that were recorded for them."""

from __future__ import annotations

import gzip
import hashlib
import json
from pathlib import Path
from typing import Any, Final

from tests.differential.dice import Dice

REV, TAG = "istio.io/rev", "istio.io/tag"
RECORDING: Final = Path(__file__).with_name("recorded") / "ownership.json.gz"
COUNT: Final = 10_000
MINORS: Final = ((1, 27), (1, 31))
"""The minors whose TagWatcher answered."""
_TAGS: Final = ("default", "prod", "canary", "test")
_NAMESPACES: Final = ("shop", "pay", "edge", "istio-system")


def sets() -> list[dict[str, Any]]:
    """All sets, by their seed."""
    dice = Dice("ownership")
    return [_set(dice) for _ in range(COUNT)]


def _set(dice: Dice) -> dict[str, Any]:
    revisions = dice.shuffled(("default", "1-28", "1-30", "canary"))[: 2 + dice.below(3)]
    system = "istio-system" if dice.happens(0.8) else "mesh"

    def labels(tags: float) -> dict[str, str]:
        """The labels of a webhook, a validator or a Service: mostly those of a tag."""
        result: dict[str, str] = {"app": "istiod"}
        if dice.happens(0.9):
            result[REV] = dice.one_of((*revisions, *revisions, "1-20", ""))
        if dice.happens(tags):
            result[TAG] = dice.one_of(_TAGS) if dice.happens(0.95) else ""
        return result

    def object_of(name: str, tags: float, namespace: str = "") -> dict[str, Any]:
        return {"name": name, "namespace": namespace, "labels": labels(tags)}

    names = (
        "istio-revision-tag-default",
        "istio-revision-tag-prod",
        "istio-sidecar-injector",
        "tags-a",
        "tags-b",
        "tags-c",
    )
    service_names = ("istiod", "istiod-revision-tag-prod", "istiod-revision-tag-default", "istiod-other")
    namespaces = []
    for name in dice.some_of(_NAMESPACES, 0.8):
        own = {"istio-injection": "enabled"} if dice.happens(0.3) else {}
        if dice.happens(0.6):
            own[REV] = _name(dice, revisions)
        namespaces.append({"name": name, "namespace": "", "labels": own})
    gateways = []
    for number in range(2 + dice.below(5)):
        own = {REV: _name(dice, revisions)} if dice.happens(0.5) else {"app": "gateway"} if dice.happens(0.5) else {}
        gateways.append({"name": f"gateway-{number}", "namespace": dice.one_of(_NAMESPACES), "labels": own})
    return {
        "revisions": revisions,
        "system": system,
        "webhooks": [object_of(name, 0.75) for name in dice.some_of(names)],
        "validators": [
            object_of(name, 0.5) for name in dice.some_of(("istiod-default-validator", "istio-validator"), 0.6)
        ],
        "services": [
            object_of(name, 0.7, dice.one_of((system, system, system, "shop"))) for name in dice.some_of(service_names)
        ],
        "namespaces": namespaces,
        "gateways": gateways,
    }


def _name(dice: Dice, revisions: list[str]) -> str:
    """A value of the label of a namespace or Gateway."""
    return dice.one_of((*revisions, *_TAGS, *_TAGS, "unknown", ""))


def fingerprint(inputs: list[dict[str, Any]]) -> str:
    """A hash that tells whether the inputs are those that were answered."""
    return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()


def recording() -> dict[str, Any]:
    """The recorded answers: for each set, one digit for each Gateway, minor and revision, in this order."""
    result: dict[str, Any] = json.loads(gzip.decompress(RECORDING.read_bytes()))
    return result
