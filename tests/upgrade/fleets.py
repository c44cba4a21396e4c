"""Made-up workloads for plans."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from injector.kube.pods import created_pods
from injector.revisions.source import build
from injector.revisions.tags import Tag
from injector.upgrade.document import Upgrade, read_upgrade
from injector.upgrade.plan import Restart, Workload
from tests.cli.clusters import deployment
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
    """A Deployment of two pods; further keywords are fields of ``Workload``, or its ``labels``."""
    labels = fields.pop("labels", {})
    pin = {"metadata": {"annotations": {"revision-injector/pin": fields["pin"]}}} if "pin" in fields else {}
    (created,) = created_pods({**deployment(name, place), **pin}, place)
    known: dict[str, Any] = {"requested": "prod", "pods": Counter({has: 2}), "restart": Restart("", 1, labels)}
    return Workload(created, **known | fields)
