"""Istio's own webhooks beside ours: what one runs with, what we make of a pod there, and why answers may differ."""

from __future__ import annotations

import difflib
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeAlias

import jsonpatch

from injector.errors import DataError
from injector.injection.pipeline import inject_pod
from injector.injection.result import OFF, Injected, RequestFacts
from injector.istio.behaviours import format_minor, missing_fields, parse_minor
from injector.istio.proxyconfig import ProxyConfigs, read_proxy_config_resource
from injector.istio.revision import Revision, RevisionSettings, build_revision
from injector.istio.webhooks.paths import PATH_PREFIX
from injector.kube.typed import go_encode, normalise
from injector.revisions.names import parse_path
from tests.differential.dice import Dice
from tests.differential.injectorpods import Pods

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
    """Return random pods for a control plane."""
    maker = Pods(Dice(seed), missing_fields(parse_minor(plane.minor)))
    return [Case(f"random {number}", as_served(maker.pod())) for number in range(count)]


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


def as_served(pod: Pod) -> Pod:
    """Return a pod as the API server encodes it."""
    encoded: Pod = go_encode(normalise(pod, "v1.Pod"), "v1.Pod")
    if encoded.get("metadata", {}).get("creationTimestamp", "") is None:
        del encoded["metadata"]["creationTimestamp"]
    return encoded


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


GOGO = (1, 12)
"""The last minor whose mesh config gogo/protobuf reads."""
KEEPS_DELETED = (1, 18)
LOSES_DURATIONS = (1, 14)
RECORDS = "sidecar.istio.io/status"
CONTAINERS = ("containers", "initContainers")


def excuse(plane: ControlPlane, case: Case, answer: Answer, mine: Answer) -> str:
    """Return why our answer may differ from Istio's; empty if it may not."""
    minor, pod = parse_minor(plane.minor), case.pod
    config = pod["metadata"].get("annotations", {}).get("proxy.istio.io/config", "")
    if "-0.0" in config:
        return "Istio loses the sign of -0.0"
    if minor <= GOGO and re.search(r"""["']null["']""", config):
        return "gogo/protobuf takes the text null for a number that is not set"
    if minor == LOSES_DURATIONS and re.search("(?i)duration", config):
        return "Istio 1.14 replaces durations from 1.14.5 on"
    if minor <= KEEPS_DELETED and "$patch: delete" in _templates_of(plane.revision, pod):
        return (
            f"Up to Istio {format_minor(KEEPS_DELETED)}, an item to delete that is not there stays with its name only"
        )
    if all(any(container["name"] == "istio-proxy" for container in pod["spec"].get(kind, ())) for kind in CONTAINERS):
        return "Istio drops one of two containers named istio-proxy"
    if RECORDS in pod["metadata"].get("annotations", {}) and alike(*map(_as_injected_once, (answer, mine))):
        return "In a second injection, Istio forgets the user's settings, or takes its own probes for the application's"
    before, after = (outcome.get("pod", {}).get("metadata", {}).get("labels", {}) for outcome in (answer, mine))
    hides = plane.revision.behaviours.hides_deployment_config
    if hides and before == {key: after[key] for key in after if key != "deploymentconfig"}:
        return "Istio deletes the only label of a pod of a DeploymentConfig"
    return ""


def _templates_of(revision: Revision, pod: Pod) -> str:
    """Return the texts of the templates that a pod gets."""
    config = revision.config
    templates = pod["metadata"].get("annotations", {}).get("inject.istio.io/templates")
    names = config.default_templates if templates is None else [name.strip() for name in templates.split(",")]
    return "".join(config.templates.get(part, "") for name in names for part in config.aliases.get(name, (name,)))


def _as_injected_once(answer: Answer) -> Answer:
    """Return an answer without what a second injection records otherwise."""
    result = deepcopy(answer)
    result.get("pod", {}).get("metadata", {}).get("annotations", {}).pop("proxy.istio.io/overrides", None)
    for container in (
        container for kind in CONTAINERS for container in result.get("pod", {}).get("spec", {}).get(kind) or ()
    ):
        container["env"] = [
            variable for variable in container.get("env", ()) if variable["name"] != "ISTIO_KUBE_APP_PROBERS"
        ]
        if "-u" in (arguments := container.get("args") or [])[:-1]:
            arguments[arguments.index("-u") + 1] = ""
    return result
