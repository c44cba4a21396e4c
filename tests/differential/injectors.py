"""Istio's own webhooks beside ours: what one runs with, what we make of a pod there, and why answers may differ."""

from __future__ import annotations

import difflib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeAlias

import jsonpatch

from injector.errors import DataError
from injector.fleet.istiod import as_served
from injector.fleet.istiodifferences import documented_difference
from injector.injection.pipeline import inject_pod
from injector.injection.result import OFF, Injected, RequestFacts, Skipped
from injector.injection.result import Answer as WebhookAnswer
from injector.injection.tools.podchanges import changes
from injector.istio.behaviours import missing_fields, parse_minor
from injector.istio.proxyconfig import ProxyConfigs, read_proxy_config_resource
from injector.istio.revision import Revision, RevisionSettings, build_revision
from injector.istio.webhooks.paths import PATH_PREFIX
from injector.revisions.names import parse_path
from tests.differential.dice import Dice
from tests.differential.injectorpods import URLS, Pods

Pod: TypeAlias = "dict[str, Any]"
Answer: TypeAlias = "dict[str, Any]"

NAMESPACE = "shop"
REFUSED: Answer = {"refused": True}
SKIPPED: Answer = {"skipped": True}


@dataclass(frozen=True)
class ControlPlane:
    """What one istiod runs with: the keys of its ConfigMaps, its environment, and the name of its revision.

    ``nodes`` are the versions of the nodes by name, and ``namespaces`` the metadata of namespaces.
    """

    minor: str
    config: str
    values: str
    mesh: str
    env: Mapping[str, str] = field(default_factory=dict)
    nodes: Mapping[str, str] = field(default_factory=dict)
    namespaces: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    proxy_configs: Sequence[Mapping[str, Any]] = ()
    name: str = ""

    @cached_property
    def revision(self) -> Revision:
        """Our revision of it."""
        settings = RevisionSettings(
            istio_version=self.minor, env=self.env, node_versions=tuple(self.nodes.values()), revision=self.name
        )
        texts = {"config": self.config, "values": self.values, "mesh": self.mesh}
        return replace(
            build_revision("default", **texts, settings=settings, origin="test"),
            versions_by_node=dict(self.nodes),
            proxy_configs=ProxyConfigs.of(map(read_proxy_config_resource, self.proxy_configs)),
        )


@dataclass(frozen=True)
class Case:
    """A pod to inject, and the path of the webhook that is asked."""

    name: str
    pod: Pod
    path: str = PATH_PREFIX


def random_cases(plane: ControlPlane, seed: str, count: int) -> list[Case]:
    """Return random pods for a control plane, at its own webhook or one of another cluster, whose nodes and namespaces it may not need."""
    dice, revision = Dice(seed), plane.revision
    asks_cluster = revision.asks_nodes or revision.openshift
    paths = [path for path in URLS if not (asks_cluster and "cluster" in path)]
    maker = Pods(dice, missing_fields(parse_minor(plane.minor)))
    return [
        Case(f"random {number}", as_served(maker.pod()), dice.one_of(paths) if dice.happens(0.05) else PATH_PREFIX)
        for number in range(count)
    ]


def ours(plane: ControlPlane, case: Case) -> Answer:
    """Return what we make of a pod, without the guard, which Istio does not have."""
    namespace = case.pod["metadata"].get("namespace", NAMESPACE)
    facts = RequestFacts(
        NAMESPACE,
        parse_path(case.path).envs,
        namespace_meta=plane.namespaces.get(namespace),
        guard=OFF,
        deny_invalid=False,
    )
    try:
        result = inject_pod(plane.revision, deepcopy(case.pod), facts)
    except DataError as error:
        return {**REFUSED, "why": str(error)}
    return injected(case.pod, json.loads(json.dumps(result.patch))) if isinstance(result, Injected) else SKIPPED


def injected(pod: Pod, patch: list[dict[str, Any]]) -> Answer:
    """Return the answer that a patch is."""
    return {"pod": as_served(jsonpatch.apply_patch(pod, patch))}


def alike(left: Answer, right: Answer) -> bool:
    """Return whether two answers are the same; why a pod is refused does not count."""
    left, right = ({key: value for key, value in answer.items() if key != "why"} for answer in (left, right))
    return json.dumps(left, sort_keys=True) == json.dumps(right, sort_keys=True)


def difference(answer: Answer, mine: Answer) -> str:
    """Return how our answer differs from Istio's, as lines."""
    left, right = (json.dumps(shown_answer, indent=1, sort_keys=True).splitlines() for shown_answer in (answer, mine))
    return "\n".join(difflib.unified_diff(left, right, "Istio", "ours", n=1, lineterm=""))


@dataclass
class Tally:
    """How Istio answered, why answers may differ, and the differences without a reason."""

    answers: Counter[str] = field(default_factory=Counter)
    excused: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


def excuse(plane: ControlPlane, case: Case, answer: Answer, mine: Answer) -> str:
    """Return why our answer may differ from Istio's; empty if it may not."""
    theirs, ours = map(_of_webhook, (answer, mine))
    return documented_difference(plane.revision, case.pod, theirs, ours, changes(theirs, ours, case.pod))


def _of_webhook(answer: Answer) -> WebhookAnswer:
    if "pod" in answer:
        return Injected(answer["pod"], b"[]", ())
    return DataError(answer.get("why", "")) if "refused" in answer else Skipped("", "")
