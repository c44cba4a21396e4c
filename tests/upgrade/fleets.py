"""Made-up workloads for plans."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from injector.fleet.sources import RevisionSources
from injector.istio.labels import TEMPLATES
from injector.kube.podtemplates import created_pods
from injector.revisions.source import build
from injector.revisions.tags import Tag
from injector.upgrade.document import Upgrade, read_upgrade
from injector.upgrade.plan import Fleet, Restart, Workload, make_plan, pins_of
from injector.upgrade.state import State
from injector.upgrade.survey import Beginning, Survey, Surveyor
from tests.cli.clusters import deployment
from tests.cluster.fakeapi import FakeApi
from tests.revisions.fakes import VALUES, make_raw

OLD, NEW = "1-28", "1-30"
PROD = Tag("prod", ((OLD, 1),))
SOURCE = build(make_raw(OLD, values=VALUES.replace("1.24.6", "1.28.0")))
TARGET = build(make_raw(NEW, values=VALUES.replace("1.24.6", "1.30.1")))
DOCUMENT: dict[str, Any] = {
    "apiVersion": "revision-injector.dev/v1alpha1",
    "kind": "Upgrade",
    "metadata": {"name": "up"},
    "spec": {"tag": "prod", "from": OLD, "to": NEW, "waves": [{"name": "all"}]},
}


def upgrade(*waves: Mapping[str, Any], **spec: Any) -> Upgrade:
    """An upgrade with these waves, or with one of all workloads."""
    own = {"waves": list(waves)} if waves else {}
    return read_upgrade({**DOCUMENT, "spec": {**DOCUMENT["spec"], **own, **spec}}, where="up.yaml")


def workload(name: str, place: str = "shop", *, has: str | None = OLD, **fields: Any) -> Workload:
    """A Deployment of two pods; further keywords are fields of ``Workload``, its ``labels``, or the ``templates`` of its pods."""
    labels, templates = fields.pop("labels", {}), fields.pop("templates", None)
    obj = deployment(name, place)
    if templates is not None:
        obj["spec"]["template"]["metadata"]["annotations"] = {TEMPLATES: templates}
    (created,) = created_pods(obj, place)
    known: dict[str, Any] = {"requested": "prod", "pods": Counter({has: 2}), "restart": Restart("", 1, labels)}
    return Workload(created, **known | fields)


def fleet(workloads: Iterable[Workload], tag: Tag | None = PROD, **fields: Any) -> Fleet:
    """A cluster with these workloads and both revisions; further keywords are fields of ``Fleet``."""
    known: dict[str, Any] = {"source": SOURCE, "target": TARGET, "sidecars": (OLD, NEW)}
    return Fleet(tag=tag, workloads=tuple(workloads), **known | fields)


class FakeSurveyor(Surveyor):
    """A surveyor of workloads that a test makes up; further keywords are fields of ``Fleet``."""

    _workloads: tuple[Callable[[], Iterable[Workload]], Tag | None]
    _fields: dict[str, Any]

    def __init__(self, workloads: Callable[[], Iterable[Workload]], tag: Tag | None = PROD, **fields: Any) -> None:
        super().__init__(FakeApi(), RevisionSources(None, "istio-system"))
        object.__setattr__(self, "_workloads", (workloads, tag))
        object.__setattr__(self, "_fields", fields)

    async def start(self, document: Upgrade) -> Beginning:
        workloads, tag = self._workloads
        tag = tag if document.tag else None
        return Beginning(tag, (OLD, NEW), pins_of(document, tag, workloads()), "")

    async def survey(self, document: Upgrade, state: State, before: Tag | None, *, is_compared: bool = False) -> Survey:
        del is_compared
        fleet_before = fleet(self._workloads[0](), before, **self._fields)
        return Survey(
            make_plan(document, before, fleet_before, (), back=state.back, pins=state.pins), fleet_before.workloads
        )
