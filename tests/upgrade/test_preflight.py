"""The preflight of a wave."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from injector.cluster.client import Page
from injector.cluster.resources import Resource, Scope
from injector.errors import ClusterError
from injector.upgrade import preflight as module
from injector.upgrade.plan import Key, Plan, Restart, make_plan
from injector.upgrade.preflight import preflight
from tests.cli.clusters import FakeKube
from tests.cluster.fakes import in_fake_time
from tests.upgrade.fleets import NEW, OLD, PROD, fleet, upgrade, workload

HOME = "istio-system"
PLAN = make_plan(upgrade(), PROD, fleet([workload("web"), workload("api", "pay"), workload("done", has=NEW)], PROD))


class Api(FakeKube):
    """Answers about permissions and dry runs. ``allows`` gets verb, resource and namespace; ``gives`` the pod's revision."""

    def __init__(
        self,
        *,
        allows: Callable[..., bool] = lambda *_: True,
        gives: str | None = NEW,
        endpoints: Any = None,
        **more: Any,
    ) -> None:
        super().__init__(**more)
        self.allows, self.gives, self.endpoints = allows, gives, endpoints
        self.named: tuple[str, ...] = ()
        self.owners: list[dict[str, Any]] = []

    async def page(self, scope: Scope, *, token: str = "", limit: int = 0) -> Page:
        del limit
        if scope.resource.plural == "mutatingwebhookconfigurations":
            assert scope.labels == "istio.io/tag=prod"
            return Page([{"metadata": {"name": "istio-revision-tag-prod", "ownerReferences": self.owners}}], "1")
        assert (scope.resource.plural, scope.namespace, scope.labels, token) == (
            "endpointslices", HOME, "kubernetes.io/service-name=istiod-1-30", "",
        )  # fmt: skip
        return Page([] if self.endpoints is None else [{"endpoints": self.endpoints}], "1")

    async def create(
        self, resource: Resource, manifest: Mapping[str, Any], *, manager: str, dry_run: bool = False
    ) -> dict[str, Any]:
        if resource.plural == "selfsubjectaccessreviews":
            attributes = manifest["spec"]["resourceAttributes"]
            self.requests.append(
                f"may {attributes['verb']} {attributes['resource']} {attributes['namespace']}".rstrip()
            )
            if attributes["name"]:
                return {"status": {"allowed": attributes["name"] in self.named}}
            return {
                "status": {"allowed": self.allows(attributes["verb"], attributes["resource"], attributes["namespace"])}
            }
        pod = await super().create(resource, manifest, manager=manager, dry_run=dry_run)
        status = {"sidecar.istio.io/status": json.dumps({"revision": self.gives})} if self.gives else {}
        return {**pod, "metadata": {**pod["metadata"], "annotations": status}}


@pytest.fixture(autouse=True)
def no_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PACE", 0.0)


async def checked(api: Api, plan: Plan = PLAN) -> tuple[str, ...]:
    return await preflight(api, plan, 0, HOME, None, set()) or ()


async def test_a_pod_of_each_workload_is_tried_with_the_new_revision() -> None:
    api = Api(endpoints=[{"conditions": {"ready": True}}])

    assert await checked(api) == ()
    assert [pod["metadata"] for pod in api.tried] == [
        {
            "generateName": f"{name}-",
            "namespace": place,
            "labels": {"app": name},
            "annotations": {"revision-injector/pin": NEW},
        }
        for name, place in (("api", "pay"), ("web", "shop"))
    ]


async def test_without_a_tag_the_labels_of_the_namespace_decide() -> None:
    api = Api()
    plan = make_plan(upgrade(tag=None), None, fleet([workload("web", requested=NEW)], None))

    assert await checked(api, plan) == ()
    assert api.tried[0]["metadata"]["annotations"] == {}
    assert not any("mutatingwebhookconfigurations" in request for request in api.requests)


@pytest.mark.parametrize(
    ("gives", "says"), [(OLD, "gets revision 1-28 instead of 1-30"), (None, "gets no sidecar instead")]
)
async def test_a_pod_that_gets_another_sidecar_is_a_fault(gives: str | None, says: str) -> None:
    faults = await checked(Api(gives=gives))

    assert [fault.partition(": ")[0] for fault in faults] == ["Deployment pay/api", "Deployment shop/web"]
    assert says in faults[0]


async def test_a_pod_that_the_api_server_refuses_is_a_fault_and_other_errors_are_raised() -> None:
    faults = await checked(Api(refuses=lambda _: (403, "violates PodSecurity")))
    assert faults[0] == "Deployment pay/api: the API server refuses its pod: violates PodSecurity"

    failed = 'failed calling webhook "rev.namespace.sidecar-injector.istio.io": connection refused'
    faults = await checked(Api(refuses=lambda _: (500, failed)))
    assert faults[0] == f"Deployment pay/api: the API server refuses its pod: {failed}"

    with pytest.raises(ClusterError):
        await checked(Api(refuses=lambda _: (500, "down")))


@pytest.mark.parametrize(("disrupts", "faults"), [(0, 1), (1, 0)])
async def test_a_full_quota_is_a_fault_only_if_no_old_pod_makes_room(disrupts: int, faults: int) -> None:
    plan = make_plan(upgrade(), PROD, fleet([workload("web", restart=Restart("", disrupts))], PROD))
    what = 'pods "web-x" is forbidden: exceeded quota: pods, requested: pods=1, used: pods=2, limited: pods=2'

    assert len(await checked(Api(refuses=lambda _: (403, what)), plan)) == faults


async def test_a_namespace_that_is_deleted_is_no_fault() -> None:
    ending = 'pods "web-" is forbidden: unable to create new content in namespace shop because it is being terminated'

    assert await checked(Api(refuses=lambda _: (403, ending))) == ()
    assert await checked(Api(refuses=lambda _: (404, 'namespaces "shop" not found'))) == ()


async def test_a_control_plane_without_ready_endpoints_is_the_only_fault() -> None:
    api = Api(endpoints=[{"conditions": {"ready": False}}])

    assert await checked(api) == ("Service istio-system/istiod-1-30 has no ready endpoint",)
    assert (api.tried, api.requests) == ([], [])


async def test_a_role_can_name_the_webhooks_of_the_tag() -> None:
    api = Api(allows=lambda _, resource, __: resource != "mutatingwebhookconfigurations")

    assert await checked(api) == ("no permission to patch mutatingwebhookconfigurations",)
    api.named = ("istio-revision-tag-prod",)
    assert await checked(api) == ()


async def test_a_tag_that_an_operator_writes_again_is_the_only_fault() -> None:
    api = Api()
    api.owners = [{"kind": "IstioRevisionTag", "name": "prod", "controller": True}]

    (fault,) = await checked(api)

    assert fault.startswith("tag prod belongs to IstioRevisionTag prod, which writes it again within seconds; set ")
    assert (api.tried, api.requests) == ([], [])


async def test_a_missing_permission_is_named_with_its_namespace_and_nothing_is_tried() -> None:
    api = Api(allows=lambda _, resource, place: resource != "deployments" or place == "pay")

    assert await checked(api) == ("no permission to patch deployments in namespace shop",)
    assert api.tried == []
    assert api.requests == [
        "may patch mutatingwebhookconfigurations",
        "may patch deployments",
        "may patch deployments pay",
        "may patch deployments shop",
        "may create pods",
    ]


async def test_a_permission_that_a_later_wave_needs_is_missing_before_the_first() -> None:
    document = upgrade({"name": "first", "namespaces": ["shop"]}, {"name": "rest"})
    plan = make_plan(document, PROD, fleet([workload("web"), workload("api", "pay")], PROD), (0,))
    api = Api(allows=lambda verb, _, place: verb != "create" or place == "shop")

    assert await checked(api, plan) == ("no permission to create pods in namespace pay",)


async def test_a_preflight_ends_after_some_faults() -> None:
    plan = make_plan(upgrade(), PROD, fleet([workload(f"w{number}") for number in range(30)], PROD))

    assert len(await checked(Api(gives=None), plan)) == module.MAX_FAULTS


@in_fake_time
async def test_a_preflight_that_takes_long_goes_on_in_the_next_step() -> None:
    plan = make_plan(upgrade(), PROD, fleet([workload(f"web-{number:02}") for number in range(12)], PROD))
    api, tried, results = Slow(), set[Key](), list[tuple[str, ...] | None]()
    while not results or results[-1] is None:
        results.append(await preflight(api, plan, 0, HOME, None, tried))

    assert results == [None, None, ()]
    assert len(api.tried) == 12
    assert api.requests.count("may create pods") == 1
    api.seconds = 60.0
    assert await preflight(api, plan, 0, HOME, None, tried) is None
    assert len(api.tried) == 13, "a step tries one at least"


@in_fake_time
async def test_a_preflight_that_takes_long_ends_with_the_faults_so_far() -> None:
    plan = make_plan(upgrade(), PROD, fleet([workload(f"web-{number:02}") for number in range(12)], PROD))
    api, tried = Slow(), set[Key]()
    api.faults = 1

    (fault,) = await preflight(api, plan, 0, HOME, None, tried) or ()

    assert "web-00: a new pod gets no sidecar" in fault
    assert len(api.tried) == 5
    assert tried == set(), "the next preflight begins again"


class Slow(Api):
    """An API server whose dry runs take long. The first ``faults`` of them give no sidecar."""

    seconds = 5.0
    faults = 0

    async def create(
        self, resource: Resource, manifest: Mapping[str, Any], *, manager: str, dry_run: bool = False
    ) -> dict[str, Any]:
        await asyncio.sleep(self.seconds * dry_run)
        self.gives = None if len(self.tried) < self.faults else NEW
        return await super().create(resource, manifest, manager=manager, dry_run=dry_run)
