"""Which revisions own a Gateway: our rule against the recorded answers of Istio's TagWatcher."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache
from typing import Any

from injector.istio.ownership import TagObjects, class_of, is_istios
from tests.istio.ownershipsets import COUNT, MINORS, REV, TAG, fingerprint, recording, sets


@cache
def inputs() -> list[dict[str, Any]]:
    return sets()


def objects_of(inputs_of_set: dict[str, Any]) -> TagObjects:
    def named(kind: str) -> dict[str, dict[str, str]]:
        return {obj["name"]: obj["labels"] for obj in inputs_of_set[kind]}

    services = [obj["labels"] for obj in inputs_of_set["services"] if obj["namespace"] == inputs_of_set["system"]]
    return TagObjects(named("webhooks"), services, named("validators"), named("namespaces"))


def answers(inputs_of_set: dict[str, Any]) -> str:
    """For each Gateway, minor and revision, whether the revision owns the Gateway: one digit."""
    objects = {minor: objects_of(inputs_of_set) for minor in MINORS}
    # The answers of 1.27 are those of 1.27.0, which did not read the validator yet.
    objects[MINORS[0]] = replace(objects[MINORS[0]], validators={})
    return "".join(
        str(int(objects[minor].is_owner(revision, gateway["labels"], gateway["namespace"], minor)))
        for gateway in inputs_of_set["gateways"]
        for minor in MINORS
        for revision in inputs_of_set["revisions"]
    )


def test_the_sets_are_those_that_istio_answered() -> None:
    assert len(inputs()) == COUNT
    assert fingerprint(inputs()) == recording()["inputs"]


def test_owners_are_those_of_istios_tag_watcher_in_10000_random_sets() -> None:
    recorded = recording()["answers"]
    assert len(recorded) == COUNT
    wrong = [
        f"{number}: ours {ours}, Istio's {theirs}"
        for number, (inputs_of_set, theirs) in enumerate(zip(inputs(), recorded, strict=True))
        if (ours := answers(inputs_of_set)) != theirs
    ]

    assert wrong == []
    digits = Counter("".join(recorded))
    assert min(digits["0"], digits["1"]) > 10_000


def test_the_minors_answer_differently_in_some_sets() -> None:
    """Else the recording would not show that Services and the validator count in later versions only."""
    different = 0
    for inputs_of_set in inputs()[:1000]:
        objects = objects_of(inputs_of_set)
        different += any(
            len({objects.is_owner(name, gateway["labels"], gateway["namespace"], minor) for minor in MINORS}) > 1
            for gateway in inputs_of_set["gateways"]
            for name in inputs_of_set["revisions"]
        )
    assert different > 100


def test_a_moved_tag_moves_its_gateways_and_no_others() -> None:
    before = TagObjects(
        {"istio-revision-tag-prod": {TAG: "prod", REV: "1-28"}, "other": {TAG: "test", REV: "1-28"}},
        [{TAG: "prod", REV: "1-28"}],
        namespaces={"shop": {REV: "prod"}, "lab": {REV: "test"}},
    )
    after = before.with_tag("prod", "1-30")
    revisions = {"1-28": (1, 28), "1-30": (1, 30)}

    def owners(objects: TagObjects, labels: dict[str, str], place: str) -> tuple[str, ...]:
        return objects.owners(labels, place, revisions)

    assert (owners(before, {}, "shop"), owners(after, {}, "shop")) == (("1-28",), ("1-30",))
    assert (owners(before, {REV: "1-28"}, "shop"), owners(after, {REV: "1-28"}, "shop")) == (("1-28",), ("1-28",))
    assert owners(after, {}, "lab") == ("1-28",)
    assert owners(after, {REV: "unknown"}, "shop") == ()


def test_the_tag_default_takes_gateways_from_the_default_revision() -> None:
    before = TagObjects({}, validators={"istiod-default-validator": {REV: "1-28"}}, namespaces={"shop": {}})
    after = before.with_tag("default", "1-30")
    revisions = dict.fromkeys(("1-28", "1-30"), (1, 30))

    assert before.owners({}, "shop", revisions) == ("1-28",)
    assert after.owners({}, "shop", revisions) == ("1-30",)
    assert before.owners({}, "shop", dict.fromkeys(revisions, (1, 25))) == ("1-28",)
    assert before.owners({}, "shop", dict.fromkeys(revisions, (1, 24))) == ()


def test_an_unknown_namespace_has_all_owners_since_1_25() -> None:
    objects = TagObjects({})

    assert objects.owners({}, "gone", {"a": (1, 24), "b": (1, 25), "c": None}) == ("b", "c")


def test_a_class_is_istios_by_its_controller_or_else_by_its_name() -> None:
    classes = {"edge": "istio.io/gateway-controller", "istio-waypoint": "example.com/other"}

    assert [is_istios(name, classes) for name in ("edge", "istio", "istio-waypoint", "nginx", "")] == [
        True,
        True,
        False,
        False,
        False,
    ]
    assert class_of({"spec": {"gatewayClassName": "istio"}}) == "istio"
    assert class_of({}) == ""
