"""Injections that are remembered by what they read of a pod: a pod that holds the same there gets the same patch.

Most of a pod is never looked into: images, env variables, volumes but for their names, most labels. ``leaves_of`` says what the pipeline
itself reads, whatever the templates; what these read is found by following them (``planning``). Names that are only printed may be other
ones each time: they are slots of the patch. A plan is of one revision and goes with it.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from injector.injection import containers as c
from injector.injection.data import namespaced_name
from injector.injection.overrides import OVERRIDES
from injector.injection.parameters import NETWORK_LABEL
from injector.injection.pipeline import MOST_ANNOTATIONS, annotations_size, owner_meta
from injector.injection.policy import INJECT
from injector.injection.status import STATUS
from injector.istio.annotations import known_annotations
from injector.istio.leaves import EXACT, Leaf, gather
from injector.kube.canonical import is_canonical
from injector.kube.pods import workload_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from injector.injection.result import RequestFacts
    from injector.istio.revision import Revision
    from injector.kube.pods import WorkloadMeta

PLANS: Final = 512
"""How many a revision has at most; one takes some 15 KB for Istio's own templates, and 2 KB where it shares its pieces."""
MAX_BYTES: Final = 8 * 1024 * 1024
"""Of all plans of a revision; pieces that they share are counted for each."""
MAX_PLAN: Final = 128 * 1024
"""Bytes of a plan that is kept, ten times what most have: what it holds of a pod is for the pod to choose."""
_NEIGHBOURS: Final = 32
"""Plans that a new one is compared with: pods of one kind differ in little, and so do their patches."""

SEEN: Final = 1024
"""Pods that are remembered by the hash of their key until the second one of it comes: a pod of its own kind is not worth a plan."""

# What of a container the pipeline reads: the rewrite of probes.
_PROBED: Final = ("ports", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle")
KINDS: Final = ("containers", "initContainers")
ANNOTATIONS: Final = "annotations"
# What the proxy asks for, and the unit of what it mostly is: printed, whatever it is, but for the CPUs rounded up (``concurrency``).
_RESOURCES: Final[Mapping[str, str]] = {
    f"sidecar.istio.io/proxy{name}": unit
    for name, unit in (("CPU", "m"), ("CPULimit", "m"), ("Memory", "Mi"), ("MemoryLimit", "Mi"))
}
# Any annotation of Istio's, and in whatever spelling (``prometheus``) those of Prometheus.
_TELLING: Final = ("istio.io", "prometheus")

# What the API server sends beside metadata and spec of a pod that is created.
_USUAL: Final[Mapping[str, tuple[Any, ...]]] = {"apiVersion": ("v1",), "kind": ("Pod",), "status": ({},)}


@dataclass(frozen=True, slots=True)
class Plan:
    """The patch of all pods with one key.

    Attributes:
        pieces: its JSON, without the texts in the slots.
        slots: for each gap between two pieces, the slot that fills it.
        reserved: what no slot and no volume may be named: the template's own names, and texts that it compares names with.
        templates: the names of the templates run.
        warnings: of the policy.
    """

    pieces: tuple[bytes, ...]
    slots: tuple[int, ...]
    reserved: frozenset[str]
    templates: tuple[str, ...]
    warnings: tuple[str, ...]

    def patch(self, texts: list[str]) -> bytes:
        """Return the JSON patch with these texts in its slots, which stand in JSON as they are."""
        found = [self.pieces[0]]
        for slot, piece in zip(self.slots, self.pieces[1:], strict=True):
            found += (texts[slot].encode(), piece)
        return b"".join(found)

    def size(self, key: tuple[Any, ...]) -> int:
        """Return how many bytes it takes, about, under a key."""
        return _bytes_of((key, self.pieces, self.slots, self.reserved))


@dataclass(frozen=True, slots=True)
class Asked:
    """A pod as plans see it.

    Attributes:
        pod: the pod as the API server sent it, in Go's own form, its namespace filled in.
        workload: whose pod it is.
        key: what plans are found by.
        texts: what is in the slots.
        names: of containers and volumes, which are unique in their lists.
    """

    pod: c.Pod
    workload: WorkloadMeta
    key: tuple[Any, ...]
    texts: list[str]
    names: frozenset[str]


@dataclass
class Plans:
    """The plans of a revision, those asked for last. They belong to the thread that answers requests."""

    revision: Revision
    leaves: Leaf = field(init=False)
    _plans: OrderedDict[tuple[Any, ...], Plan] = field(default_factory=OrderedDict)
    _size: int = 0
    _seen: OrderedDict[int, bool] = field(default_factory=OrderedDict)

    def __post_init__(self) -> None:
        self.leaves = leaves_of(self.revision)

    @property
    def possible(self) -> bool:
        """Whether pods of the revision can have plans: overlays of templates, where nothing depends on the namespace."""
        revision = self.revision
        followed = revision.engine != "jinja2" or namespaced_name(revision)
        return followed and not (revision.config.appends or revision.openshift)

    def ask(self, pod: Mapping[str, Any], facts: RequestFacts) -> Asked | None:
        """Return what is to be known of a pod to find its plan; None for a pod that has none.

        A pod that an injection has touched before has none, and neither has one that Go would write otherwise than it came.
        """
        canonical = _canonical(pod, facts.namespace)
        return None if canonical is None else asked(self.revision, self.leaves, canonical, facts)

    def find(self, wanted: Asked) -> Plan | None:
        """Return the plan of a pod."""
        plan = self._plans.get(wanted.key)
        if plan is None or not plan.reserved.isdisjoint(wanted.texts) or not plan.reserved.isdisjoint(wanted.names):
            return None
        self._plans.move_to_end(wanted.key)
        return plan

    def worth(self, wanted: Asked) -> bool:
        """Return whether to make a plan for a pod that has none: the second one of its kind is worth it, and a third is not asked for."""
        kind = hash((wanted.key, *wanted.texts) if wanted.key in self._plans else wanted.key)
        tried = self._seen.get(kind)
        self._seen[kind] = tried is not None
        self._seen.move_to_end(kind)
        if len(self._seen) > SEEN:
            self._seen.popitem(last=False)
        return tried is False

    def keep(self, leaves: Leaf, key: tuple[Any, ...], plan: Plan) -> None:
        """Remember a plan, made with these leaves, if it is not too large; plans that were made with fewer are found no longer."""
        size = plan.size(key)
        if size > MAX_PLAN:
            return
        if leaves is not self.leaves:
            self.leaves = leaves
            self._plans.clear()
            self._seen.clear()
            self._size = 0
        if (before := self._plans.pop(key, None)) is not None:
            self._size -= before.size(key)
        self._plans[key] = self._sharing(plan)
        self._size += size
        while len(self._plans) > PLANS or self._size > MAX_BYTES:
            oldest, gone = self._plans.popitem(last=False)
            self._size -= gone.size(oldest)

    def _sharing(self, plan: Plan) -> Plan:
        """Return a plan with the pieces of those that were asked for last, where it has the same: nearly all of its bytes."""
        known: dict[Any, Any] = {}
        for each in islice(reversed(self._plans.values()), _NEIGHBOURS):
            known |= {part: part for part in (*each.pieces, each.reserved)}
        pieces = tuple(known.get(piece, piece) for piece in plan.pieces)
        return replace(plan, pieces=pieces, reserved=known.get(plan.reserved, plan.reserved))

    def __len__(self) -> int:
        """How many there are."""
        return len(self._plans)


def _bytes_of(value: Any) -> int:
    size = sys.getsizeof(value)
    return size + sum(map(_bytes_of, value)) if isinstance(value, tuple | frozenset) else size


def leaves_of(revision: Revision) -> Leaf:
    """Return what the pipeline reads of a pod, whatever a template reads: each exactly, but for quantities and names of containers."""
    labels = {INJECT, NETWORK_LABEL, *_selected(revision)}
    injected = revision.config.injected_annotations
    annotations = {*known_annotations(revision.minor), *_RESOURCES, *injected}
    container = Leaf(parts={"name": Leaf(), **dict.fromkeys(_PROBED, EXACT)})
    lists = {kind: Leaf(each=container) for kind in KINDS}
    resources = {name: Leaf(unit=unit) for name, unit in _RESOURCES.items() if name not in injected}
    entries = Leaf(parts={**_exactly(annotations).parts, **resources})
    meta = {"labels": _exactly(labels), ANNOTATIONS: entries}
    workload = {"name": Leaf(), "namespace": Leaf(), "kind": EXACT, "apiVersion": EXACT}
    return Leaf(
        parts={
            "metadata": Leaf(parts=meta),
            "spec": Leaf(parts={"hostNetwork": EXACT, **lists}),
            "workload": Leaf(parts=workload),
        }
    )


def _exactly(names: Iterable[str]) -> Leaf:
    return Leaf(parts=dict.fromkeys(sorted(names), EXACT))


def _selected(revision: Revision) -> set[str]:
    """Return the labels that the selectors of the policy look at."""
    policy = revision.config.policy
    return {each.key for selector in (*policy.never, *policy.always) for each in selector.requirements}


def _canonical(pod: Mapping[str, Any], namespace: str) -> c.Pod | None:
    """Return a pod that Go reads and writes as it is, its namespace filled in; None for one that it changes."""
    meta, spec = pod.get("metadata"), pod.get("spec")
    if not (isinstance(meta, dict) and isinstance(spec, dict)):
        return None
    if any(key not in ("metadata", "spec") and value not in _USUAL.get(key, ()) for key, value in pod.items()):
        return None
    meta = {key: value for key, value in meta.items() if value is not None and key != "managedFields"}
    if not (is_canonical(meta, "v1.ObjectMeta") and is_canonical(spec, "v1.PodSpec")):
        return None
    if namespace and "namespace" not in meta:
        meta["namespace"] = namespace
    return {**pod, "metadata": meta}


def asked(
    revision: Revision, leaves: Leaf, pod: c.Pod, facts: RequestFacts, workload: WorkloadMeta | None = None
) -> Asked | None:
    """Return what is to be known of a pod, as it is in Go's form, by the leaves that are read; None where no plan can be for it.

    ``workload`` is whose pod it is, where the pod does not say it.
    """
    annotations = c.annotations_of(pod)
    workload = workload or workload_of(pod, revision.behaviours.owner_rules)
    if STATUS in annotations or OVERRIDES in annotations or workload.kind == "DeploymentConfig":
        return None
    if annotations_size(pod) > MOST_ANNOTATIONS:  # the pipeline refuses it, whatever is read of it
        return None
    lists = [[item.get("name", "") for item in c.containers_of(pod, kind)] for kind in (*KINDS, "volumes")]
    containers, names = lists[0] + lists[1], frozenset(lists[0] + lists[1] + lists[2])
    if len(set(containers)) < len(containers) or len(set(lists[2])) < len(lists[2]) or "" in names:
        return None
    order = tuple(sorted(range(len(containers)), key=lambda index: f"{containers[index]}/"))
    ignored = workload.namespace in revision.behaviours.ignored_namespaces
    telling = tuple(each for each in annotations.items() if is_telling(each[0]) and each[0] not in _RESOURCES)
    key: list[Any] = [
        ignored,
        len(lists[2]),
        order,
        tuple(facts.proxy_envs.items()),
        telling,
        "status" in pod,
        facts.guard,
    ]
    slots: dict[str, int] = {}
    gather(leaves, document(revision, pod, workload), key, slots)
    return Asked(pod, workload, tuple(key), list(slots), names)


def is_telling(annotation: str) -> bool:
    """Return whether an annotation counts, whatever a template reads."""
    return any(word in annotation for word in _TELLING)


def document(revision: Revision, pod: c.Pod, workload: WorkloadMeta) -> dict[str, Any]:
    """Return all that a plan depends on of one pod, for ``Leaf``."""
    told = {
        "name": workload.name,
        "namespace": workload.namespace,
        "kind": workload.kind,
        "apiVersion": workload.api_version,
    }
    found = {"metadata": pod["metadata"], "spec": pod["spec"], "workload": told}
    return found if namespaced_name(revision) else {**found, "owner": owner_meta(revision, pod, workload)}
