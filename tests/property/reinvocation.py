"""What the API server does when a later webhook changes a pod: it asks again. What other webhooks change, and what must come of it."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, TypeAlias

import jsonpatch
import orjson

from injector.errors import InjectorError
from injector.injection.pipeline import inject_pod
from injector.injection.result import Injected, RequestFacts, Skipped
from injector.injection.steps.status import read_status
from injector.istio.revision import Revision
from injector.kube.jsonpatch import create_patch
from tests.property.mutations import mutated
from tests.trials import TrialResults

Pod: TypeAlias = "dict[str, Any]"

STATUS = "sidecar.istio.io/status"
FACTS = RequestFacts("shop", deny_invalid=False)
SIDECAR = {"name": "vault-agent", "image": "registry.example.com/vault:1"}
MORE = {"limits": {"cpu": "2"}, "requests": {"cpu": "1"}}
LISTS = ("containers", "initContainers")
PROXY = "istio-proxy"
DECIDED_ONCE = ("kubectl.kubernetes.io/default-container", "kubectl.kubernetes.io/default-logs-container")
"""Annotations that name the first container there was; a container that comes to stand before it changes neither."""
FIRST_EQUAL = (1, 17)
"""Until then Istio takes what it added itself for the user's, so that some of it stays as it was first."""


def named(pod: Pod, kind: str) -> list[Pod]:
    """A list of a pod's spec, made where it is missing."""
    results: list[Pod] = pod["spec"].setdefault(kind, [])
    return results


def users(pod: Pod) -> list[Pod]:
    """The containers that no template of Istio's adds."""
    return [
        container
        for container in pod["spec"].get("containers") or ()
        if not container.get("name", "").startswith("istio-")
    ]


def proxies(pod: Pod) -> list[Pod]:
    """The proxy, wherever it stands."""
    return [container for kind in LISTS for container in pod["spec"].get(kind) or () if container.get("name") == PROXY]


def _variables(pod: Pod) -> None:
    for container in users(pod):
        container.setdefault("env", []).append({"name": "OTHER", "value": "x"})


def _resources(containers: Callable[[Pod], list[Pod]]) -> Callable[[Pod], None]:
    def edit(pod: Pod) -> None:
        for container in containers(pod):
            container["resources"] = copy.deepcopy(MORE)

    return edit


def _mounts(pod: Pod) -> None:
    named(pod, "volumes").append({"name": "vault", "emptyDir": {}})
    for container in [*users(pod), *proxies(pod)]:
        container.setdefault("volumeMounts", []).append({"name": "vault", "mountPath": "/vault"})


UNNOTICED: dict[str, Callable[[Pod], None]] = {
    "nothing": lambda _pod: None,
    "a label": lambda pod: pod["metadata"].setdefault("labels", {}).update(team="a"),
    "an annotation": lambda pod: pod["metadata"].setdefault("annotations", {}).update({"example.com/seen": "yes"}),
    "variables": _variables,
    "resources": _resources(users),
    "a volume": lambda pod: named(pod, "volumes").append({"name": "vault", "emptyDir": {}}),
}
"""Edits that no template reads: the second patch is empty."""
NOTICED: dict[str, Callable[[Pod], None]] = {
    "a container first": lambda pod: named(pod, "containers").insert(0, dict(SIDECAR)),
    "a container last": lambda pod: named(pod, "containers").append(dict(SIDECAR)),
    "an init container": lambda pod: named(pod, "initContainers").insert(0, dict(SIDECAR)),
    "another order": lambda pod: named(pod, "containers").reverse(),
}
"""Edits that templates or Istio's order of containers answer to: what comes is what the edited pod would have got at first."""
OURS: dict[str, Callable[[Pod], None]] = {"the proxy's resources": _resources(proxies), "mounts everywhere": _mounts}
"""Edits of what the injector wrote: it may write it again, once."""
EDITS = {**UNNOTICED, **NOTICED, **OURS}


@dataclass
class Reinvocations(TrialResults):
    """Trials of pods that are injected, edited and injected again."""

    def put_to_the_test(self, subjects: Sequence[tuple[Revision, list[Pod]]], dice: Random, count: int) -> None:
        """Try mutated pods, each with one edit."""
        for _ in range(count):
            revision, pods = dice.choice(subjects)
            self.try_edit(revision, mutated(dice.choice(pods), dice), dice.choice(list(EDITS)))

    def try_edit(self, revision: Revision, pod: Pod, edit: str) -> None:
        """Inject a pod, edit it, and inject it again; pods that cannot be injected do not count."""
        whole = all(isinstance(pod.get(part), dict) for part in ("metadata", "spec"))
        if not whole or doubled(pod):
            return
        try:
            if STATUS in (pod["metadata"].get("annotations") or {}):
                pod = injected(revision, pod)
            first = injected(revision, pod)
        except InjectorError as error:
            self.came[type(error).__name__] += 1
            return
        try:
            faults = list(self._faults(revision, pod, first, edit))
        except InjectorError as error:
            faults = [f"refused once it is injected: {error}"]
        where = f"1.{revision.minor[1]}, {edit}"
        self.faults += [f"{where}: {fault}\n  {orjson.dumps(pod).decode()}" for fault in faults]

    def _faults(self, revision: Revision, pod: Pod, first: Pod, edit: str) -> Iterator[str]:
        if STATUS not in (first["metadata"].get("annotations") or {}):
            self.came["left alone"] += 1
            return
        edited = copy.deepcopy(first)
        EDITS[edit](edited)
        edited = unshared(edited)
        second = inject_pod(revision, edited, FACTS)
        if isinstance(second, Skipped):
            yield f"left alone, {second.reason}"
            return
        again = unshared(jsonpatch.apply_patch(edited, second.patch))
        if not doubled(again) <= doubled(edited):
            yield f"two of a name: {sorted(doubled(again))}"
        self.came["settled" if second.patch else "empty"] += 1
        self.tried += 1
        if second.patch:
            third = inject_pod(revision, again, FACTS)
            if not isinstance(third, Injected) or third.patch:
                yield f"a third injection changes it, or leaves it alone: {third}"
            if not moved(pod, first):
                yield from self._others(revision, pod, edit, again)

    @staticmethod
    def _others(revision: Revision, pod: Pod, edit: str, again: Pod) -> Iterator[str]:
        if edit in UNNOTICED:
            yield f"the second patch is not empty: {again}"
        if edit in NOTICED and revision.minor >= FIRST_EQUAL and not rewritten(again):
            at_first = copy.deepcopy(pod)
            EDITS[edit](at_first)
            differs = create_patch(
                without_first_decisions(injected(revision, at_first)), without_first_decisions(again)
            )
            if differs:
                yield f"not what the edited pod gets: {differs}"


def moved(pod: Pod, first: Pod) -> bool:
    """Whether a user's own proxy, with what only applications have, came to stand among the init containers.

    Its ports count as the application's in the first injection alone: the note of overrides, whose form is Istio's, does not tell in
    which list the proxy stood.
    """
    stood, stands = (
        [container.get("name") for container in result["spec"].get(LISTS[0]) or ()] for result in (pod, first)
    )
    serves = any(key == "ports" or key.endswith("Probe") for proxy in proxies(pod) for key in proxy)
    return serves and PROXY in stood and PROXY not in stands


def injected(revision: Revision, pod: Pod) -> Pod:
    """The pod after the patch, or as it is where it is left alone."""
    result = inject_pod(revision, pod, FACTS)
    return unshared(jsonpatch.apply_patch(unshared(pod), result.patch)) if isinstance(result, Injected) else pod


def unshared(pod: Pod) -> Pod:
    """The pod as its JSON has it. An edit can put one object in two places, where a patch of one would change both."""
    data: Pod = orjson.loads(orjson.dumps(pod))
    return data


def doubled(pod: Pod) -> Counter[str]:
    """The names that two containers of a pod have, or two of its volumes."""
    spec = pod.get("spec") or {}
    groups = [[container for kind in LISTS for container in spec.get(kind) or ()], spec.get("volumes") or []]
    counts = [Counter(str(container.get("name")) for container in group) for group in groups]
    return Counter({name: count for names in counts for name, count in names.items() if count > 1})


def rewritten(pod: Pod) -> bool:
    """Whether a template writes the users' containers itself, which then stand in the order of their notes."""
    status = read_status(pod)
    return status is not None and any(container.get("name") in status["containers"] for container in users(pod))


def without_first_decisions(pod: Pod) -> Pod:
    """A pod without what is decided once; the proxy's variables stay in the order in which they came."""
    pod = copy.deepcopy(pod)
    for name in DECIDED_ONCE:
        (pod["metadata"].get("annotations") or {}).pop(name, None)
    for proxy in proxies(pod):
        proxy["env"] = sorted(proxy.get("env") or (), key=lambda variable: str(variable.get("name")))
    return pod
