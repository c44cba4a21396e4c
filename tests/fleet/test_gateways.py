"""The Gateways of a cluster, their owners, and the owners that they get if a tag moves."""

from __future__ import annotations

from typing import Any

import pytest

from injector.errors import ClusterError
from injector.fleet.gateways import GatewayView, OwnerChange, gateway_notes, minors_of, outage_notes, read_gateways
from injector.istio.behaviours import Minor
from injector.revisions.tags import Tag
from tests.cli.clusters import HOME, FakeKube, cluster, labelled, tag
from tests.cluster.fakes import failure
from tests.manifests import gateway_of
from tests.revisions.fakes import make_raw

REV = "istio.io/rev"
RAWS = [make_raw("1-28"), make_raw("1-30")]
PROD = {"prod": Tag("prod", (("1-28", 1),))}
CLASS = {
    "apiVersion": "gateway.networking.k8s.io/v1",
    "kind": "GatewayClass",
    "metadata": {"name": "edge"},
    "spec": {"controllerName": "istio.io/gateway-controller"},
}
GATEWAYS = (
    CLASS,
    gateway_of("public", "shop"),
    gateway_of("by-tag", "lab", {REV: "prod"}),
    gateway_of("pinned", "shop", {REV: "1-28"}),
    gateway_of("waypoint", "shop", class_name="istio-waypoint"),
    gateway_of("own-class", "shop", class_name="edge"),
    gateway_of("foreign", "shop", class_name="nginx"),
    labelled("shop", "prod"),
    labelled("lab", "1-30"),
    tag("prod", "1-28"),
)


async def view_of(reader: Any) -> GatewayView:
    return await read_gateways(reader, HOME, minors_of(RAWS), PROD)


def described(changes: tuple[OwnerChange, ...]) -> dict[str, str]:
    return {str(change.gateway): change.way for change in changes}


EXPECTED = dict.fromkeys(
    ("Gateway lab/by-tag", "Gateway shop/own-class", "Gateway shop/public", "Gateway shop/waypoint"), "1-28 to 1-30"
)


async def test_a_tag_changes_owners_in_files_as_in_a_cluster() -> None:
    of_files, of_cluster = await view_of(cluster(*GATEWAYS)), await view_of(FakeKube(*GATEWAYS))

    assert described(of_files.changes("prod", "1-30")) == EXPECTED
    assert described(of_cluster.changes("prod", "1-30")) == EXPECTED
    assert of_cluster.changes("prod", "1-28") == of_cluster.changes("other", "1-30") == ()
    assert gateway_notes(of_files, "1-28") == [
        "Gateways that stay with revision 1-28 by their own label istio.io/rev: Gateway shop/pinned"
    ]


def written_by(manager: str, name: str, labels: dict[str, str]) -> dict[str, Any]:
    gateway = gateway_of(name, "shop", labels)
    fields: dict[str, Any] = {"f:metadata": {"f:labels": {f"f:{key}": {} for key in labels}}}
    gateway["metadata"]["managedFields"] = [{"manager": manager, "fieldsV1": fields}, {"manager": "istiod"}]
    return gateway


async def test_pins_that_an_upgrade_left_behind_are_told_from_those_of_users() -> None:
    own = (
        written_by("kubectl", "a", {REV: "1-28"}),
        written_by("injector-upgrade-gateways", "b", {REV: "1-28"}),
        written_by("injector-upgrade-gateways", "c", {"team": "a"}),
        # An upgrade has released it: it has its own label again.
        written_by("injector-upgrade-gateways", "d", {REV: "prod"}),
        written_by("injector-upgrade-gateways", "e", {REV: ""}),
    )
    view = await view_of(FakeKube(labelled("shop", "prod"), tag("prod", "1-28"), *own))

    stay, pins = gateway_notes(view, "1-28")
    assert stay == "Gateways that stay with revision 1-28 by their own label istio.io/rev: Gateway shop/a"
    assert pins.startswith("Gateways that an upgrade has pinned: Gateway shop/b to 1-28; if it was deleted")


@pytest.mark.parametrize(
    ("old", "new", "is_named"),
    [
        ((1, 28), (1, 31), True),
        ((1, 24), (1, 25), True),
        ((1, 30), (1, 31), True),
        ((1, 23), (1, 25), False),
        ((1, 31), (1, 28), False),
        (None, (1, 31), False),
    ],
)
async def test_a_revision_that_stops_configuring_gateways_of_another_owner_is_named(
    old: Minor | None, new: Minor, is_named: bool
) -> None:
    minors = {"1-28": old, "1-30": new}
    view = await read_gateways(cluster(*GATEWAYS), HOME, minors, PROD)

    notes = outage_notes(view, view.changes("prod", "1-30"))
    assert [note.partition(",")[0] for note in notes] == [
        "revision 1-28 stops configuring a Gateway as soon as another revision owns it"
    ] * is_named
    assert outage_notes(view, view.changes("prod", "1-28")) == []


async def test_without_their_tag_gateways_have_no_owner() -> None:
    view = await view_of(cluster(*GATEWAYS))

    expected = dict.fromkeys(EXPECTED, "1-28 to no revision")
    assert described(view.changes_of_removal("prod")) == expected
    assert view.changes_of_removal("other") == ()


async def test_tags_stand_for_the_webhooks_that_files_leave_out() -> None:
    view = await view_of(cluster(*GATEWAYS[:-1]))

    assert described(view.changes("prod", "1-30")) == EXPECTED


async def test_a_cluster_without_the_gateway_api_has_no_gateways() -> None:
    assert await view_of(FakeKube(tag("prod", "1-28"))) == GatewayView()


@pytest.mark.parametrize("resource", ["gateways", "gatewayclasses", "services", "namespaces"])
async def test_gateways_are_unknown_without_a_permission(resource: str) -> None:
    view = await view_of(FakeKube(*GATEWAYS, forbidden=(resource,)))

    assert (view.gateways, view.changes("prod", "1-30")) == ((), ())
    assert view.unknown.startswith("the Gateways whose owner changes are not known: ")
    assert gateway_notes(view, "1-28") == [view.unknown]


async def test_a_failure_is_not_taken_for_a_missing_permission() -> None:
    reader = FakeKube(*GATEWAYS)
    reader.fault_of["list"] = failure(reason="unreachable")
    with pytest.raises(ClusterError):
        await view_of(reader)


@pytest.mark.parametrize(
    ("conditions", "fault"),
    [
        ([], "it is not Accepted: no such condition"),
        ([("Accepted", "True", 2), ("Programmed", "True", 2)], ""),
        ([("Accepted", "True", 2), ("Programmed", "False", 2)], "it is not Programmed: because"),
        ([("Accepted", "True", 1), ("Programmed", "True", 2)], "its condition Accepted is about an earlier generation"),
    ],
)
async def test_a_gateway_is_in_service_by_its_conditions(conditions: list[tuple[str, str, int]], fault: str) -> None:
    entries = [
        {"type": kind, "status": status, "observedGeneration": generation, "message": "because"}
        for kind, status, generation in conditions
    ]
    public = gateway_of("public", "shop", status={"conditions": entries})
    public["metadata"]["generation"] = 2
    (gateway,) = (await view_of(FakeKube(public, labelled("shop", "prod")))).gateways

    assert gateway.fault == fault
