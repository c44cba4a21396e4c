"""The plan of an upgrade: for each workload its wave, the class of change, and why it does not move if it does not. It does no I/O.

A workload says what a restart takes away: which workloads can be restarted, and how many of their pods go at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from injector.cluster.resources import DAEMON_SETS, DEPLOYMENTS, STATEFUL_SETS, Resource
from injector.errors import DataError, TagError
from injector.fleet.gateways import GatewayView, OwnerChange, gateway_notes, outage_notes
from injector.fleet.minors import MinorChanges
from injector.injection.containers import labels_of
from injector.injection.pipeline import answers_to, template_names
from injector.injection.render import GATEWAY_TEMPLATE
from injector.injection.result import Injected, RequestFacts
from injector.injection.tools.podchanges import POD_SECURITY, changes, hiding_of
from injector.istio.labels import REVISION_LABEL
from injector.istio.minorchanges import harmless_change
from injector.kube.objects import mappings_at
from injector.kube.pods import controller_of
from injector.kube.podsecurity import UNRESTRICTED, LevelVersion
from injector.kube.podtemplates import KNATIVE
from injector.revisions.tags import Tag, TagWorkload, Weights, key_of_normal_pod
from injector.upgrade.document import BY_NAMESPACE, BY_WEIGHT, Limits, Upgrade, Wave

if TYPE_CHECKING:
    from injector.fleet.proof import Proof
    from injector.injection.result import Answer
    from injector.istio.revision import Revision
    from injector.kube.podtemplates import Created
    from injector.kube.selectors import Selector

ROLLOUT: Final = "Rollout"
ROLLOUT_GROUP: Final = "argoproj.io"
RESTARTABLE: Final[Mapping[str, Resource]] = {
    resource.kind: resource for resource in (DEPLOYMENTS, STATEFUL_SETS, DAEMON_SETS)
}
"""The resources that are restarted by an annotation of their pod template. A Rollout has a field for it."""
_UNTIL_ITS_END: Final = "its pods keep their sidecar until it ends"
_BARE_POD: Final = "a bare pod: delete it and create it again"
_RECREATES: Final = "delete its pods, which it creates again"
_REMEDIES: Final = {
    "CronJob": "its next Job gets the new sidecar",
    "DeploymentConfig": "run `oc rollout latest` for it",
    "ReplicaSet": _RECREATES,
    "ReplicationController": _RECREATES,
    "SparkApplication": _UNTIL_ITS_END,
    "StrimziPodSet": "annotate it with strimzi.io/manual-rolling-update=true",
}
_ENDING: Final = ("Job", "Run", "Workflow")
"""The ends of the names of kinds that run until their work is done, such as PyTorchJob and TaskRun."""
_DEFAULT_SHARE: Final = "25%"


class Key(NamedTuple):
    """The name of a workload."""

    namespace: str
    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"

    @property
    def path(self) -> str:
        """Its name as commands read it."""
        return "/".join(self)


@dataclass(frozen=True, slots=True)
class Restart:
    """The consequences of restarting a workload.

    Attributes:
        obstacle: why it cannot be restarted; empty if it can.
        disrupts: the pods that its controller takes away before their successors are available.
        remedy: what would leave it a pod if these are all its pods; else empty.
        trouble: why its pods are not available now, before any restart; empty if they are.
    """

    obstacle: str = ""
    disrupts: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)
    trouble: str = ""
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Workload:
    """A workload of the cluster whose pods a webhook injects.

    Attributes:
        created: its name, and the pod that it creates.
        requested: the tag or revision of the webhook that is called for the pod, or that its labels name in vain; None for none.
        pin: the revision that its pods ask for; empty for none.
        has_own_label: whether its pods name a revision or tag by their own label.
        outdated_kinds: the kinds of changes between its outdated sidecars and those that their revision injects now.
        pods: its running pods, by the revision of their sidecar; None is the revision of pods without one.
        policy: the Pod Security policy that its namespace enforces.
        unready: its pods that are not ready, if it is a StatefulSet whose controller waits for each pod.
        is_called: whether a webhook is called for the pod.
    """

    created: Created
    requested: str | None
    pin: str = ""
    pods: Counter[str | None] = field(default_factory=Counter)
    restart: Restart = field(default_factory=Restart)
    policy: LevelVersion = UNRESTRICTED
    has_own_label: bool = False
    outdated_kinds: tuple[str, ...] = ()
    unready: tuple[str, ...] = ()
    is_called: bool = True

    @property
    def key(self) -> Key:
        """Its name."""
        return Key(*self.created.key)


@dataclass(frozen=True, slots=True)
class Fleet:
    """The input of a plan: the revisions, the tag and the workloads of a cluster. ``notes`` are for the user.

    A revision that a run does not need is None if it cannot be read: going back needs only the old one, and going on only the new one.
    ``sidecars`` are the names that the old and the new revision write into pods. ``outdated`` are the UIDs of the pods that an upgrade in
    place replaces: they have the name of the revision, and another sidecar than it injects now. They are counted as pods of the old one.
    ``namespaces`` has the labels of each namespace.
    """

    source: Revision | None
    target: Revision | None
    tag: Tag | None
    workloads: tuple[Workload, ...]
    sidecars: tuple[str, str]
    notes: tuple[str, ...] = ()
    outdated: frozenset[str] = frozenset()
    gateways: GatewayView = field(default_factory=GatewayView)
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


def key_of(obj: Mapping[str, Any]) -> Key:
    """Return the name of an object."""
    meta = obj["metadata"]
    return Key(str(meta.get("namespace", "")), str(obj.get("kind", "")), str(meta.get("name", "")))


def restart_of(obj: Mapping[str, Any]) -> Restart:
    """Return the consequences of restarting a workload, from the object itself."""
    spec, kind, meta = obj.get("spec") or {}, str(obj.get("kind")), obj["metadata"]
    obstacle = _obstacle(kind, str(obj.get("apiVersion", "")), spec, meta)
    status = obj.get("status") or {}
    disrupts = _disrupts(kind, spec, status)
    remedy = _outage_remedy(kind, spec) if 0 < desired_pods(kind, spec, status) <= disrupts else ""
    return Restart(obstacle, disrupts, meta.get("labels") or {}, _trouble(kind, spec, status), remedy)


def _outage_remedy(kind: str, spec: Mapping[str, Any]) -> str:
    """Return what leaves a workload a pod during a restart."""
    if (spec.get("strategy") or {}).get("type") == "Recreate":
        return "use the strategy RollingUpdate"
    if kind in ("Deployment", "DaemonSet"):
        return "set maxSurge to 1 and maxUnavailable to 0"
    return "give it more replicas than its maxUnavailable, which is at least 1"


def desired_pods(kind: str, spec: Mapping[str, Any], status: Mapping[str, Any]) -> int:
    """Return the pods that a workload should have."""
    if kind == "DaemonSet":
        return int(status.get("desiredNumberScheduled") or 0)
    return int(1 if spec.get("replicas") is None else spec["replicas"])


def available_pods(kind: str, status: Mapping[str, Any]) -> int:
    """Return the pods of a workload that are available."""
    return int(status.get("numberAvailable" if kind == "DaemonSet" else "availableReplicas") or 0)


def _trouble(kind: str, spec: Mapping[str, Any], status: Mapping[str, Any]) -> str:
    """Return why the pods of a workload are not available; empty if they are, or if it has no status."""
    if any(condition.get("reason") == "ProgressDeadlineExceeded" for condition in mappings_at(status, "conditions")):
        return "its last rollout failed: its progress deadline is exceeded"
    desired = desired_pods(kind, spec, status)
    missing = desired - available_pods(kind, status)
    return f"pods that are not available already: {missing} of {desired}" if status and missing > 0 else ""


def unknown_restart(workload: Created) -> Restart:
    """Return the consequences of a restart for a workload that is only known by its pods."""
    meta = workload.pod["metadata"]
    owner: Mapping[str, Any] = controller_of(meta) or next(iter(meta.get("ownerReferences") or ()), {})
    name = f"{owner.get('kind')} {owner.get('name')}"
    if workload.kind == "Pod" and owner.get("kind") == "Node":
        return Restart(f"a static pod of {name}: change its file there")
    if workload.kind == "Pod" and owner:
        return Restart(f"a pod of {name}: restart that, or delete the pod if that creates it again")
    version = owner.get("apiVersion", "") if owner.get("kind") == workload.kind else ""
    return Restart(_obstacle(workload.kind, version, {}, {}))


def _obstacle(kind: str, api_version: str, spec: Mapping[str, Any], meta: Mapping[str, Any]) -> str:
    # `checkAndUpdateDeployment` in knative/serving, pkg/reconciler/revision/cruds.go, replaces the whole spec.
    if (controller_of(meta) or {}).get("apiVersion", "").startswith(f"{KNATIVE}/"):
        return "Knative undoes a restart: delete its pods yourself, or deploy its Service again"
    if not _can_restart(kind, api_version):
        return _why_no_restart(kind, api_version.rpartition("/")[0])
    strategy = spec.get("updateStrategy") or {}
    if kind in ("StatefulSet", "DaemonSet") and strategy.get("type") == "OnDelete":
        return "its update strategy is OnDelete: delete its pods yourself"
    if kind == "StatefulSet" and (strategy.get("rollingUpdate") or {}).get("partition"):
        return "its update strategy has a partition, which keeps old pods: set it to 0"
    if kind in ("Deployment", ROLLOUT) and spec.get("paused"):
        return "its rollout is paused: resume it"
    return ""


def _can_restart(kind: str, api_version: str) -> bool:
    """Return whether the tool restarts a kind; an empty ``api_version`` is that of Kubernetes or Argo."""
    if kind == ROLLOUT:
        return api_version.startswith(ROLLOUT_GROUP) or not api_version
    return kind in RESTARTABLE and api_version in ("", RESTARTABLE[kind].api_version)


def _why_no_restart(kind: str, group: str) -> str:
    if kind == "Pod":
        return _BARE_POD
    title = f"{kind} ({group})" if "." in group else kind
    if kind in _REMEDIES or kind.endswith(_ENDING):
        return f"{title} is not restarted: {_REMEDIES.get(kind, _UNTIL_ITS_END)}"
    return (
        f"the restart of {title} is not known: follow its operator's guide, or delete its pods if it creates them again"
    )


def _disrupts(kind: str, spec: Mapping[str, Any], status: Mapping[str, Any]) -> int:
    """Return the pods that a rollout takes away at once.

    Follows Kubernetes 1.35: ``ResolveFenceposts`` in pkg/controller/deployment/util/deployment_util.go,
    ``unavailableCount`` of pkg/controller/daemon/util/daemonset_util.go, and pkg/controller/statefulset. For Argo Rollouts it follows
    rollout/restart.go (1.8), which restarts at least one pod at a time.
    """
    desired = desired_pods(kind, spec, status)
    strategy = spec.get("strategy") or spec.get("updateStrategy") or {}
    rolling = strategy.get("rollingUpdate") or {}
    match kind:
        case "Deployment" if strategy.get("type") == "Recreate":
            return desired
        case "Deployment":
            surge = _share(rolling.get("maxSurge", _DEFAULT_SHARE), desired, up=True)
            away = _share(rolling.get("maxUnavailable", _DEFAULT_SHARE), desired, up=False)
            return min(desired, away if surge or away else 1)
        case "StatefulSet":
            return min(desired, max(1, _share(rolling.get("maxUnavailable", 1), desired, up=True)))
        case "DaemonSet":
            surge = _share(rolling.get("maxSurge", 0), desired, up=True)
            return min(desired, 0 if surge else max(1, _share(rolling.get("maxUnavailable", 1), desired, up=True)))
        case "Rollout":
            canary = strategy.get("canary") or {}
            return min(desired, max(1, _share(canary.get("maxUnavailable", _DEFAULT_SHARE), desired, up=False)))
    return 0


def _share(value: Any, total: int, *, up: bool) -> int:
    """Return a number of pods, or a percentage of ``total``."""
    if isinstance(value, int):
        return value
    percent = str(value).removesuffix("%")
    if not percent.isdecimal():
        return 0
    return (int(percent) * total + (99 if up else 0)) // 100


IDENTICAL: Final = "identical"
HARMLESS: Final = "harmless"
IMAGE_ONLY: Final = "image only"
RESOURCES: Final = "resources"
OTHER: Final = "other"
REFUSED_BY_TARGET: Final = "refused"
CLASSES: Final = (
    IDENTICAL,
    HARMLESS,
    IMAGE_ONLY,
    RESOURCES,
    "env",
    "args",
    "probes",
    "ports",
    "volumes",
    OTHER,
    "security",
    REFUSED_BY_TARGET,
)
"""The classes of change, from the one that needs the least review. A workload has the last class that applies to it."""

RESTART_TIME: Final = 60.0
"""The seconds that a restart is expected to take."""
RESTART: Final = "restart"
DONE: Final = "done"
BLOCKED: Final = "blocked"
STAYS: Final = "stays"
ACTIONS: Final = (RESTART, DONE, BLOCKED, STAYS)
"""The actions: a workload is restarted, has the new revision already, cannot be restarted, or does not move."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A workload in the plan.

    Attributes:
        action: one of ``ACTIONS``.
        note: the reason, for every action but a restart.
        change: one of ``CLASSES``.
        kinds: the kinds of changes, or the reason of a refusal.
        wave: the index of its wave; None if it has none.
        levels: the strictest levels of Pod Security that the old and the new pod pass, if they differ.
        delays: what is expected to delay its restart, or to make it fail.
        harmless: the known harmless changes of its sidecar between the minors; they are not among the kinds.
        is_gateway: whether its pods are injected as gateways.
    """

    workload: Workload
    action: str
    note: str = ""
    change: str = IDENTICAL
    kinds: tuple[str, ...] = ()
    wave: int | None = None
    levels: tuple[str, ...] = ()
    delays: tuple[str, ...] = ()
    harmless: tuple[str, ...] = ()
    is_gateway: bool = False

    @property
    def key(self) -> Key:
        """The name of the workload."""
        return self.workload.key


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of an upgrade. ``target`` and ``source`` are the names that the revisions write into pods.

    ``notes`` are for the user. With ``is_back``, the plan is that of a rollback. ``outdated`` are the pods of ``Fleet.outdated``.
    ``minor_changes`` is what breaks between the minors of the revisions; empty if it was not asked for. ``missing_permissions`` are those
    that the user does not have; None if they were not asked for. ``proof`` compares the new pods with a running istiod, if that was asked
    for.
    """

    upgrade: Upgrade
    entries: tuple[Entry, ...]
    target: str
    notes: tuple[str, ...] = field(default=())
    source: str = ""
    is_back: bool = False
    outdated: frozenset[str] = frozenset()
    gateways: tuple[OwnerChange, ...] = ()
    minor_changes: MinorChanges = field(default_factory=MinorChanges)
    missing_permissions: tuple[str, ...] | None = None
    proof: Proof | None = None
    gateway_view: GatewayView = field(default_factory=GatewayView)

    @property
    def expected_seconds(self) -> float:
        """The time that the upgrade takes if a restart takes ``RESTART_TIME``, and no limit but that of workloads applies."""
        upgrade, seconds = self.upgrade, 0.0
        for index, (_, entries) in enumerate(self.by_wave):
            rounds = -(-self.count(entries).get(RESTART, 0) // upgrade.limits_of(index).workloads)
            seconds += upgrade.soak_of(index) + RESTART_TIME * rounds
        return seconds

    @property
    def by_wave(self) -> list[tuple[Wave, list[Entry]]]:
        """The waves with their workloads; the last one, of the injected gateways, only if there are any."""
        by_wave = [(wave, self.of_wave(index)) for index, wave in enumerate(self.upgrade.waves)]
        return [(wave, entries) for wave, entries in by_wave if entries or not wave.is_injected_gateways]

    def with_budgets(self, budgets: Iterable[tuple[str, str, Selector]]) -> Plan:
        """Return the plan with the restarts that wait for PodDisruptionBudgets which allow none: namespace, name and selector of each."""
        exhausted = list(budgets)

        def with_delays(entry: Entry) -> Entry:
            labels = labels_of(entry.workload.created.pod)
            names = [
                name for place, name, selector in exhausted if place == entry.key.namespace and selector.matches(labels)
            ]
            waits = tuple(f"PodDisruptionBudget {name} allows no disruption now" for name in names)
            return replace(entry, delays=(*entry.delays, *waits)) if waits and entry.action == RESTART else entry

        return replace(self, entries=tuple(map(with_delays, self.entries)))

    def without(self, skipped: Collection[str]) -> Plan:
        """Return the plan in which the workloads stay that a user skips."""
        if not skipped:
            return self
        entries = (
            replace(entry, action=STAYS, note=SKIPPED, wave=None)
            if entry.action != STAYS and str(entry.key) in skipped
            else entry
            for entry in self.entries
        )
        return replace(self, entries=tuple(entries))

    @property
    def harmless(self) -> dict[str, int]:
        """The known harmless changes between the minors, with the number of workloads that have each."""
        return dict(Counter(about for entry in self.entries for about in entry.harmless))

    def of_wave(self, index: int) -> list[Entry]:
        """Return the workloads of a wave."""
        return [entry for entry in self.entries if entry.wave == index]

    def count(self, entries: Iterable[Entry] | None = None) -> dict[str, int]:
        """Return the number of workloads for each action that occurs."""
        counts = Counter(entry.action for entry in (self.entries if entries is None else entries))
        return {action: counts[action] for action in ACTIONS if counts[action]}


def make_plan(
    upgrade: Upgrade,
    tag: Tag | None,
    fleet: Fleet,
    compared: Collection[int] | None = None,
    *,
    back: bool = False,
    pins: Collection[str] | None = None,
) -> Plan:
    """Return the plan of an upgrade. Raises TagError if the tag leads to other revisions than those of the upgrade.

    ``tag`` is as it was before the upgrade. The workloads of the waves ``compared`` get a class of change, which takes most of the time;
    None means all waves. With ``back``, the plan is that of a rollback: pods of the new revision are restarted. ``pins`` are the pins that
    the running upgrade keeps; by default those of the fleet.
    """
    if tag is not None:
        check_tag(upgrade, tag)
    pins = pins_of(upgrade, tag, fleet.workloads) if pins is None else pins
    tags = [] if tag is None else [tag_in_wave(upgrade, tag, index, pins) for index in range(len(upgrade.waves))]
    source, target, (old, new) = fleet.source, fleet.target, fleet.sidecars
    wanted = source if back else target
    entries, direct = [], 0
    for workload in fleet.workloads:
        if workload.requested == (upgrade.tag or upgrade.target):
            is_gateway = _is_gateway(workload, target or source)
            entry = _entry(upgrade, workload, tags, new, is_gateway=is_gateway, back=back)
            entry = replace(entry, is_gateway=is_gateway)
            is_without = entry.action == DONE and None in workload.pods and workload.is_called
            if is_without and wanted is not None and _has_sidecar(workload, wanted):
                entry = replace(entry, action=BLOCKED, note=NO_SIDECAR)
            is_compared = entry.wave is not None and (compared is None or entry.wave in compared)
            is_kept = entry.action in (RESTART, BLOCKED) and entry.note != NO_SIDECAR
            if is_kept and is_compared and source is not None and target is not None and not back:
                change, kinds, levels, harmless = change_of(workload, source, target)
                if upgrade.in_place and change != REFUSED_BY_TARGET:
                    change, kinds = _class_of_kinds(workload.outdated_kinds), workload.outdated_kinds
                entry = replace(entry, change=change, kinds=kinds, levels=levels, harmless=harmless)
                if change == REFUSED_BY_TARGET:
                    entry = refused_entry(upgrade, entry, kinds[0])
            entries.append(entry)
        elif workload.has_own_label and (workload.requested == upgrade.source or workload.pods[old]):
            leads = f"leads to {workload.requested}" if workload.requested else "leads nowhere"
            entries.append(Entry(workload, STAYS, f"its pods have their own label {REVISION_LABEL}, which {leads}"))
        elif workload.requested == upgrade.source:
            direct += 1
    entries.sort(key=lambda entry: (len(upgrade.waves) if entry.wave is None else entry.wave, entry.key))
    notes = []
    if direct:
        how = "not by the tag" if upgrade.tag else "and do not move"
        notes.append(f"workloads with revision {upgrade.source} by the label of their namespace, {how}: {direct}")
    gateways = fleet.gateways.changes(upgrade.tag, tags[-1].revision) if tags else ()
    notes += [*gateway_notes(fleet.gateways, upgrade.source), *outage_notes(fleet.gateways, gateways)]
    return Plan(
        upgrade, tuple(entries), new, tuple(notes), old, back, fleet.outdated, gateways, gateway_view=fleet.gateways
    )


def _has_sidecar(workload: Workload, revision: Revision) -> bool:
    """Tell whether a new pod of a workload would get a sidecar."""
    (answer,) = answers_for(workload, revision)
    return isinstance(answer, Injected)


def refused_entry(upgrade: Upgrade, entry: Entry, reason: str) -> Entry:
    """Return the entry of a workload whose new pods are refused."""
    note = entry.note or f"{upgrade.target} refuses its pods"
    return replace(entry, action=BLOCKED, change=REFUSED_BY_TARGET, kinds=(reason,), note=note)


def check_tag(upgrade: Upgrade, tag: Tag) -> None:
    """Check that a tag leads to the revisions of an upgrade. Raises TagError if it leads to another one."""
    others = {name for name, weight in tag.weights if weight} - {upgrade.source, upgrade.target}
    if others:
        raise TagError(
            f'tag "{tag.name}" leads to {tag.destination}, and the upgrade is from {upgrade.source} to {upgrade.target}',
            hint="correct `from` of the upgrade, or set the tag",
        )


def prepare_tag(upgrade: Upgrade, tag: Tag) -> Tag:
    """Return the tag with the new revision at weight 0: no workload moves, and a pod can be pinned to the new revision for a test."""
    return tag if upgrade.target in tag.targets else replace(tag, weights=(*tag.weights, (upgrade.target, 0)))


def pins_of(upgrade: Upgrade, tag: Tag | None, workloads: Iterable[Workload]) -> tuple[str, ...]:
    """Return the other revisions than the new one to which workloads of a tag are pinned."""
    counting = set() if tag is None else {*tag.targets} - {upgrade.target}
    return tuple(sorted(counting & {workload.pin for workload in workloads if workload.requested == upgrade.tag}))


def tag_in_wave(upgrade: Upgrade, tag: Tag, index: int, pins: Collection[str]) -> Tag:
    """Return the tag as it is in a wave. ``tag`` is the one before the upgrade, and ``pins`` are the revisions whose pins still count."""
    moved = _tag_with_weights(upgrade, tag, index)
    if missing := [(name, 0) for name in sorted(pins) if name not in moved.targets]:
        weights = ((name, _ALL if len(moved.weights) == 1 else weight) for name, weight in moved.weights)
        moved = replace(moved, weights=(*weights, *missing))
    has_all = moved.sole and moved.revision == upgrade.target
    # As with `tag set`, a shadow ends once its candidate receives all workloads.
    if has_all and moved.shadow is not None and moved.shadow.revision == upgrade.target:
        return replace(moved, shadow=None)
    return moved


def _tag_with_weights(upgrade: Upgrade, tag: Tag, index: int) -> Tag:
    whole: Weights = ((upgrade.target, 1),)
    if upgrade.waves[index].is_injected_gateways:
        index -= 1  # the tag stays as the last wave of the document has it
    wave = upgrade.waves[index]
    if upgrade.moves == BY_WEIGHT and wave.weight is not None:
        rest = 100 - wave.weight
        return replace(tag, weights=((upgrade.source, rest), (upgrade.target, wave.weight)) if rest else whole)
    if upgrade.moves == BY_NAMESPACE:
        listed = frozenset().union(*(earlier.namespaces for earlier in upgrade.waves[: index + 1]))
        if wave.namespaces:
            return replace(tag, namespaces={**tag.namespaces, **dict.fromkeys(sorted(listed), whole)})
        own = {name: weights for name, weights in tag.namespaces.items() if name not in listed}
        return replace(tag, weights=whole, namespaces=own)
    return replace(tag, weights=whole)


_ALL: Final = 100
SKIPPED: Final = "skipped by a user"
NO_WEBHOOK: Final = (
    "no webhook is called for its new pods, so a restart would take their sidecars away: see `injector explain`"
)
NO_SIDECAR: Final = "a pod has no sidecar, and a new one would get one: restart it yourself"


def _entry(
    upgrade: Upgrade, workload: Workload, tags: Sequence[Tag], new: str, *, is_gateway: bool, back: bool
) -> Entry:
    """Return the entry of a workload, without the class of change. ``new`` is the name that the new revision writes into pods."""
    wave = _wave(upgrade, workload, tags, is_gateway=is_gateway)
    if wave is None:
        return Entry(workload, STAYS, _why_not(upgrade, workload, tags))
    sidecars = {revision for revision in workload.pods if revision is not None}
    if not sidecars:
        return Entry(workload, DONE, "no pod with a sidecar", wave=wave)
    if back and new not in sidecars:
        return Entry(workload, DONE, f"no pod has revision {upgrade.target}", wave=wave)
    if not back and sidecars == {new}:
        note = "its pods have the present sidecar" if upgrade.in_place else "its pods have the new revision"
        return Entry(workload, DONE, note, wave=wave)
    if not workload.is_called:
        return Entry(workload, BLOCKED, NO_WEBHOOK, wave=wave)
    if workload.restart.obstacle:
        return Entry(workload, BLOCKED, workload.restart.obstacle, wave=wave)
    fault = limit_fault(upgrade.limits_of(wave), workload.restart.disrupts)
    if fault:
        return Entry(workload, BLOCKED, fault, wave=wave)
    delays = [workload.restart.trouble] if workload.restart.trouble else []
    if is_gateway and workload.restart.remedy:
        delays.append(f"a restart takes away all pods of this gateway at once: {workload.restart.remedy}")
    return Entry(workload, RESTART, wave=wave, delays=tuple(delays))


def limit_fault(limits: Limits, disrupts: int) -> str:
    """Return why the limits never allow a restart that takes away so many pods; empty if they do."""
    for name, limit in (
        ("unavailablePods", limits.unavailable_pods),
        ("unavailablePodsPerNamespace", limits.unavailable_pods_per_namespace),
    ):
        if disrupts > limit:
            remedy = "raise it, or use the strategy RollingUpdate with a lower maxUnavailable"
            return f"a restart takes away {disrupts} pods at once, and {limits.path}.{name} is {limit}: {remedy}"
    return ""


def waits_for_quota(workload: Workload, refusal: str) -> bool:
    """Return whether a refused pod fits into its quota during a restart, which first takes away an old one."""
    return "exceeded quota:" in refusal and workload.restart.disrupts > 0


def _wave(upgrade: Upgrade, workload: Workload, tags: Sequence[Tag], *, is_gateway: bool) -> int | None:
    """Return the first wave in which a workload gets the new revision; None if it does not move.

    An injected gateway is in the last wave instead, unless this wave requires a label that it has.
    """
    for index, wave in enumerate(upgrade.waves):
        if _is_filtered(upgrade, wave, workload) and (not tags or _revision(tags[index], workload) == upgrade.target):
            is_last = upgrade.injected_gateways_last and not wave.requires_label
            return upgrade.injected_gateway_wave if is_last and is_gateway else index
    return None


def _is_gateway(workload: Workload, revision: Revision | None) -> bool:
    """Tell whether a revision injects the pods of a workload as gateways."""
    return revision is not None and GATEWAY_TEMPLATE in template_names(revision, workload.created.pod)


def _is_filtered(upgrade: Upgrade, wave: Wave, workload: Workload) -> bool:
    return wave.includes(workload.key.namespace, workload.restart.labels, upgrade.importance_label)


def _revision(tag: Tag, workload: Workload) -> str:
    def of_tag() -> TagWorkload:
        return TagWorkload(key_of_normal_pod(workload.created.pod, workload.key.namespace), workload.pin)

    return tag.choice_for(of_tag).revision


def _why_not(upgrade: Upgrade, workload: Workload, tags: Sequence[Tag]) -> str:
    if not any(_is_filtered(upgrade, wave, workload) for wave in upgrade.waves):
        return "no wave has it: add a last wave without filters"
    if tags and workload.pin in tags[-1].targets:
        return f"its pods are pinned to {workload.pin}"
    if tags and workload.key.namespace in tags[-1].namespaces:
        return "its namespace has its own weights in the tag"
    return f"the waves leave it at {upgrade.source}"


def answers_for(workload: Workload, *revisions: Revision) -> list[Answer]:
    """Return the answers of the webhooks of revisions to the pod of a workload."""
    created = workload.created
    requests = (
        (revision, RequestFacts(created.namespace, {}, revision.namespaces.get(created.namespace)))
        for revision in revisions
    )
    return answers_to(created.pod, *requests, policy=workload.policy)


class WorkloadChange(NamedTuple):
    """The change between two revisions for a workload.

    Attributes:
        change: one of ``CLASSES``.
        kinds: the kinds of changes, or the reason of a refusal.
        levels: the levels of Pod Security if they differ.
        harmless: the known harmless changes, which are no kinds.
    """

    change: str
    kinds: tuple[str, ...] = ()
    levels: tuple[str, ...] = ()
    harmless: tuple[str, ...] = ()


def change_of(workload: Workload, source: Revision, target: Revision) -> WorkloadChange:
    """Return the change between two revisions for a workload."""
    pod = workload.created.pod
    old, new = answers_for(workload, source, target)
    if isinstance(new, DataError):
        return WorkloadChange(REFUSED_BY_TARGET, (hiding_of(pod).without_values(" ".join(str(new).split())),))
    kinds, harmless = dict[str, None](), dict[str, None]()
    levels: tuple[str, ...] = ()
    for change in changes(old, new, pod, (source.written, target.written)):
        about = harmless_change(change.path, source.minor, target.minor)
        if about:
            harmless[about] = None
        else:
            kinds[change.kind] = None
        if change.kind == POD_SECURITY:
            levels = (change.old, change.new)
    change_class = _class_of_kinds(kinds) if kinds or not harmless else HARMLESS
    return WorkloadChange(change_class, tuple(kinds), levels, tuple(harmless))


def _class_of_kinds(kinds: Iterable[str]) -> str:
    return max(map(_class_of, kinds), key=CLASSES.index, default=IDENTICAL)


def _class_of(kind: str) -> str:
    """Return the class of a change of one kind. Kinds without their own class, such as a decision, are ``other``."""
    if kind == "image":
        return IMAGE_ONLY
    if kind == POD_SECURITY:
        return "security"
    return kind if kind in CLASSES else OTHER
