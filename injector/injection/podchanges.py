"""What differs between two injections of one pod, sorted into kinds that an operator reviews one by one.

Lists are compared by what names their entries (a container's name, a mount's path), so that one added entry is one change. The
values of env variables of the user's own containers may be secrets: no change holds them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from injector.errors import DataError
from injector.injection import containers as c
from injector.injection.hiding import HIDDEN_ANNOTATIONS, Hiding, Variables, hiding_of
from injector.injection.result import Injected
from injector.injection.treediff import ABSENT, HIDDEN, Difference, differences, entries, order_difference

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from injector.injection.result import Skipped

KINDS: Final = (
    "decision",
    "containers",
    "image",
    "env",
    "args",
    "ports",
    "volumes",
    "probes",
    "security",
    "resources",
    "metadata",
    "order",
    "other",
)
"""Every kind of change, in the order they are shown."""

_OF_CONTAINER: Final[Mapping[str, str]] = {
    "image": "image",
    "imagePullPolicy": "image",
    "env": "env",
    "envFrom": "env",
    "args": "args",
    "command": "args",
    "ports": "ports",
    "volumeMounts": "volumes",
    "volumeDevices": "volumes",
    "livenessProbe": "probes",
    "readinessProbe": "probes",
    "startupProbe": "probes",
    "securityContext": "security",
    "resources": "resources",
    "resizePolicy": "resources",
    "restartPolicy": "containers",
}
_OF_SPEC: Final[Mapping[str, str]] = {
    "imagePullSecrets": "image",
    "volumes": "volumes",
    "securityContext": "security",
    "serviceAccount": "security",
    "serviceAccountName": "security",
    "automountServiceAccountToken": "security",
    "shareProcessNamespace": "security",
    "hostUsers": "security",
    "resources": "resources",
    "overhead": "resources",
    "readinessGates": "probes",
}
_NAMED: Final = frozenset(
    {
        "metadata.labels[istio.io/rev]",
        "metadata.annotations[istio.io/rev]",
        "metadata.annotations[sidecar.istio.io/status].revision",
    }
)
_OTHER: Final = "other"
_LISTS: Final = ("initContainers", "containers", "ephemeralContainers")


@dataclass(frozen=True, slots=True)
class Change:
    """One difference: of which kind, where, and what stands on each side; ``ABSENT`` where nothing does."""

    kind: str
    path: str
    old: Any
    new: Any


def changes(
    old: Injected | Skipped | DataError,
    new: Injected | Skipped | DataError,
    given: Mapping[str, Any],
    names: tuple[str, str] = ("", ""),
) -> tuple[Change, ...]:
    """Return what differs between two answers to the pod ``given``, a DataError being a refusal.

    ``names`` are what the two revisions write into pods: that each pod carries its own is no difference. Where they decide
    differently that is the one change, since all else follows from it.
    """
    hiding = hiding_of(given)
    decisions = tuple(decision_of(answer) for answer in (old, new))
    if decisions[0] != decisions[1]:
        texts = [_decision_text(answer, hiding) for answer in (old, new)]
        return (Change("decision", "", *texts),)
    if isinstance(old, Injected) and isinstance(new, Injected):
        found = pod_changes(old.pod, new.pod, given)
        return tuple(each for each in found if not _own_names(each, names))
    return ()


def _own_names(change: Change, names: tuple[str, str]) -> bool:
    """Tell whether two values differ only in that each has the name of its own revision."""
    if change.path in _NAMED:
        return (change.old, change.new) == names
    if not isinstance(change.old, str) or not isinstance(change.new, str) or HIDDEN in (change.old, change.new):
        return False
    return _default_host(change.old, names[0]) == _default_host(change.new, names[1])


def _default_host(text: str, name: str) -> str:
    """Return a text with the host of a revision's control plane named as that of the default one."""
    return text.replace(f"istiod-{name}.", "istiod.") if name else text


def decision_of(answer: Injected | Skipped | DataError) -> str:
    """Return the answer in a word: injected, skipped or refused."""
    if isinstance(answer, DataError):
        return "refused"
    return "injected" if isinstance(answer, Injected) else "skipped"


def pod_changes(old: c.Pod, new: c.Pod, given: Mapping[str, Any]) -> tuple[Change, ...]:
    """Return what differs between two pods that were both made of ``given``, in the order of ``KINDS``."""
    found = [
        *_metadata_changes(old.get("metadata") or {}, new.get("metadata") or {}),
        *_container_changes(old, new, hiding_of(given)),
        *_spec_changes(old.get("spec") or {}, new.get("spec") or {}),
    ]
    return tuple(sorted(found, key=lambda change: KINDS.index(change.kind)))


def _decision_text(answer: Injected | Skipped | DataError, hiding: Hiding) -> str:
    if isinstance(answer, DataError):
        return f"refused: {hiding.without_values(' '.join(str(answer).split()))}"
    return "injected" if isinstance(answer, Injected) else f"skipped: {answer.detail}"


def _metadata_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Change]:
    for difference in differences("metadata", old, new, opaque=HIDDEN_ANNOTATIONS):
        yield _change("metadata", difference)


def _spec_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Change]:
    for key in _union(old, new):
        if key not in _LISTS:
            for difference in differences(f"spec.{key}", old.get(key, ABSENT), new.get(key, ABSENT)):
                yield _change(_OF_SPEC.get(key, _OTHER), difference)


def _container_changes(old: c.Pod, new: c.Pod, hiding: Hiding) -> Iterator[Change]:
    before, after = _placed(old), _placed(new)
    for name in _union(before, after):
        yield from _one_container(name, before.get(name), after.get(name), hiding)
    for kind in _LISTS:
        names = [[name for name, (place, _) in side.items() if place == kind] for side in (before, after)]
        moved = order_difference(f"spec.{kind}", *names)
        if moved is not None:
            yield _change(_OTHER, moved)


def _placed(pod: c.Pod) -> dict[str, tuple[str, c.Container]]:
    """Return every container by name, with the list that it stands in."""
    listed = [(kind, item) for kind in _LISTS for item in c.containers_of(pod, kind)]
    return entries(listed, lambda pair: str(pair[1].get("name", "")))


def _one_container(
    name: str, old: tuple[str, c.Container] | None, new: tuple[str, c.Container] | None, hiding: Hiding
) -> Iterator[Change]:
    if old is None or new is None:
        sides = [ABSENT if side is None else hiding.container(side[1]) for side in (old, new)]
        place = (old or new or ("", {}))[0]
        yield Change("containers", f"{place}[{name}]", *sides)
        return
    (old_place, before), (new_place, after) = old, new
    if old_place != new_place:
        yield Change("containers", name, old_place, new_place)
    path = f"{new_place}[{name}]"
    for key in _union(before, after):
        if before.get(key) == after.get(key):
            continue
        if key == "env":
            yield from _env_changes(path, before.get(key) or [], after.get(key) or [], hiding.variables(name))
            continue
        for difference in differences(f"{path}.{key}", before.get(key, ABSENT), after.get(key, ABSENT)):
            yield _change(_OF_CONTAINER.get(key, _OTHER), difference)


def _env_changes(
    path: str, old: list[dict[str, Any]], new: list[dict[str, Any]], hidden: Variables
) -> Iterator[Change]:
    before, after = (entries(side, lambda item: str(item.get("name", ""))) for side in (old, new))
    for name in _union(before, after):
        sides = before.get(name, ABSENT), after.get(name, ABSENT)
        if sides[0] == sides[1]:
            continue
        where = f"{path}.env[{name}]"
        shown = [hidden.entry(side) if name in hidden else _plain(side) for side in sides]
        if HIDDEN in shown:
            yield Change("env", where, *shown)
            continue
        for difference in differences(where, *shown):
            yield _change("env", difference)
    moved = order_difference(f"{path}.env", list(before), list(after))
    if moved is not None:
        yield _change("env", moved)


def _plain(entry: Any) -> Any:
    """Return the value of a variable that has one, else where it is from."""
    if entry is ABSENT:
        return ABSENT
    rest = {key: value for key, value in entry.items() if key != "name"}
    return rest.get("value", "") if set(rest) <= {"value"} else rest


def _change(kind: str, difference: Difference) -> Change:
    return Change("order" if difference.order else kind, difference.path, difference.old, difference.new)


def _union(old: Iterable[str], new: Iterable[str]) -> list[str]:
    return list(dict.fromkeys([*old, *new]))
