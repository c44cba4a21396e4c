"""The differences between two injections of one pod, sorted into kinds that an operator reviews one by one.

A list of objects is compared by the names of its entries (a container's name, a mount's path), so that one added entry is one change; a
different order is a change of its own. Other lists are compared by runs of equal items. Texts that hold a JSON object, as many
annotations do, are compared as that object.

Values of env variables that the user wrote may be secrets: no change holds them. In a container that an injection adds, or to which the
user gave settings, such as ``istio-proxy``, these are the variables in the user's pod.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any, Final, TypeVar

from injector.errors import DataError
from injector.golang.json import dump_json, go_json, load_json
from injector.injection import containers as c
from injector.injection.result import Answer, Injected, Unanswered
from injector.kube.podsecurity import level_of

T = TypeVar("T")


class _Absent:
    """A key or an entry that is not there, unlike null."""

    def __repr__(self) -> str:
        return "ABSENT"

    def __reduce__(self) -> str:
        return "ABSENT"  # another process gets the one object too


ABSENT: Final = _Absent()
HIDDEN: Final = "<hidden>"
"""Stands for a value that is not shown."""


ORDER: Final = "order"
POD_SECURITY: Final = "podsecurity"
_OTHER: Final = "other"


@dataclass(frozen=True, slots=True)
class Change:
    """One difference, of one of ``KINDS``, between the values at a path of the pod; a side without a value is ``ABSENT``.

    For kind ``order``, the values are the names of the entries in their order, from the first to the last that is out of place.
    """

    kind: str
    path: str
    old: Any
    new: Any


# The keys that name the entries of a list, by the field that holds it: the merge keys of strategic merge, if it has any.
_NAMED_BY: Final[Mapping[str, tuple[str, ...]]] = {
    "ports": ("containerPort", "protocol"),
    "volumeMounts": ("mountPath",),
    "volumeDevices": ("devicePath",),
    "hostAliases": ("ip",),
    "items": ("key",),
    "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
    "readinessGates": ("conditionType",),
}
_NAME: Final = ("name",)


def differences(kind: str, path: str, old: Any, new: Any, *, opaque: Collection[str] = ()) -> Iterator[Change]:
    """Yield the differences between two values, of ``kind`` or ``order``; the keys ``opaque`` differ as a whole and show no value."""
    if old == new:
        return
    old_tree, new_tree = _unfold(old, new)
    if isinstance(old_tree, dict) and isinstance(new_tree, dict):
        for key in dict.fromkeys([*old_tree, *new_tree]):
            sides = old_tree.get(key, ABSENT), new_tree.get(key, ABSENT)
            if sides[0] == sides[1]:
                continue  # as most are: without a generator
            if key in opaque:
                hidden = [side if side is ABSENT else HIDDEN for side in sides]
                yield Change(kind, _below(path, key), *hidden)
            else:
                yield from differences(kind, _below(path, key), *sides, opaque=opaque)
    elif isinstance(old, list) and isinstance(new, list):
        yield from _list_differences(kind, path, old, new, opaque)
    else:
        yield Change(kind, path, old, new)


def entries(items: Iterable[T], name_of: Callable[[T], str]) -> dict[str, T]:
    """Return the items by name; further ones of a name get a number after it."""
    by_name: dict[str, T] = {}
    counts: Counter[str] = Counter()
    for item in items:
        key = name = name_of(item)
        counts[name] += 1
        while key in by_name:
            key = f"{name}#{counts[name]}"
            counts[name] += key in by_name
        by_name[key] = item
    return by_name


def order_changes(path: str, old: Iterable[str], new: Iterable[str]) -> Iterator[Change]:
    """Yield the change if the names that both sides have are in another order. No side has a name twice."""
    both = set(old) & set(new)
    before, after = [name for name in old if name in both], [name for name in new if name in both]
    moved = [place for place, (one, other) in enumerate(zip(before, after, strict=True)) if one != other]
    if moved:
        places = slice(moved[0], moved[-1] + 1)
        yield Change(ORDER, path, before[places], after[places])


def _list_differences(
    kind: str, path: str, old: list[Any], new: list[Any], opaque: Collection[str]
) -> Iterator[Change]:
    keys = _NAMED_BY.get(path.rpartition(".")[2], _NAME)
    if all(isinstance(item, dict) and keys[0] in item for item in (*old, *new)):
        before, after = (entries(side, lambda item: _name(item, keys)) for side in (old, new))
        for name in dict.fromkeys([*before, *after]):
            sides = before.get(name, ABSENT), after.get(name, ABSENT)
            if sides[0] != sides[1]:
                yield from differences(kind, f"{path}[{name}]", *sides, opaque=opaque)
        yield from order_changes(path, before, after)
        return
    before_texts, after_texts = old, new
    if any(type(item) is not str for item in (*old, *new)):
        before_texts, after_texts = ([go_json(item, sort_keys=True) for item in side] for side in (old, new))
    for tag, i, j, k, m in SequenceMatcher(None, before_texts, after_texts, autojunk=False).get_opcodes():
        if tag != "equal":
            yield Change(kind, path, old[i:j] or ABSENT, new[k:m] or ABSENT)


def _name(item: Mapping[str, Any], keys: tuple[str, ...]) -> str:
    return "/".join(str(item[key]) for key in keys if key in item)


def _unfold(old: Any, new: Any) -> tuple[Any, Any]:
    """Return both as objects if both are texts of JSON objects, else as they are."""
    if not (isinstance(old, str) and isinstance(new, str) and old.startswith("{") and new.startswith("{")):
        return old, new
    try:
        trees = load_json(old), load_json(new)
    except DataError:
        return old, new
    # Two spellings of one object differ as texts.
    return (old, new) if trees[0] == trees[1] else trees


def _below(path: str, key: str) -> str:
    return f"{path}[{key}]" if "." in key or "/" in key else f"{path}.{key}"


HIDDEN_ANNOTATIONS: Final = frozenset({"kubectl.kubernetes.io/last-applied-configuration", "proxy.istio.io/overrides"})
"""Annotations that repeat containers, with their variables."""

_LISTS: Final = ("initContainers", "containers", "ephemeralContainers")
# Shorter texts occur in any sentence by chance, and are not secrets.
_SHORTEST: Final = 4


@dataclass(frozen=True, slots=True)
class Hiding:
    """The variables that the user wrote, by container, and the values to hide in the injections of one pod."""

    variables: Mapping[str, frozenset[str]]
    values: frozenset[str]

    def hides(self, container: str, variable: str) -> bool:
        """Return whether a variable's value is hidden; the number of a repeated one does not count."""
        names = self.variables.get(container)
        return names is not None and (container not in c.ISTIOS or variable.partition("#")[0] in names)

    def container(self, container: c.Container) -> c.Container:
        """Return the container with its hidden values replaced."""
        if not container.get("env"):
            return container
        name = str(container.get("name", ""))
        env = [
            {**item, "value": HIDDEN} if "value" in item and self.hides(name, item.get("name", "")) else item
            for item in container["env"]
        ]
        return {**container, "env": env}

    def pod(self, pod: c.Pod) -> c.Pod:
        """Return the pod with its hidden values replaced, for printing it whole."""
        spec = pod.get("spec") or {}
        lists = {kind: [self.container(item) for item in spec[kind]] for kind in _LISTS if spec.get(kind)}
        meta = dict(pod.get("metadata") or {})
        if meta.get("annotations"):
            meta["annotations"] = {
                key: HIDDEN if key in HIDDEN_ANNOTATIONS else value for key, value in meta["annotations"].items()
            }
        return {**pod, "metadata": meta, "spec": {**spec, **lists}}

    def without_values(self, text: str) -> str:
        """Return a message with the hidden values that it quotes replaced, the longest first, also as JSON or Python writes them."""
        forms = {form for value in self.values for form in _forms(value)}
        for form in sorted(forms, key=len, reverse=True):
            text = text.replace(form, HIDDEN)
        return text


def hiding_of(original: Mapping[str, Any]) -> Hiding:
    """Return the values to hide in the injections of the pod ``original``."""
    # Null is an entry without fields, as for Go.
    own = [
        (str(item.get("name", "")), list(filter(None, item.get("env") or ())))
        for kind in _LISTS
        for item in filter(None, c.containers_of(original, kind))
    ]
    names = {name: frozenset(str(entry.get("name", "")) for entry in env) for name, env in own}
    values = (entry.get("value") for _, env in own for entry in env)
    return Hiding(names, frozenset(value for value in values if value and len(value) >= _SHORTEST))


def _forms(value: str) -> Iterator[str]:
    """Yield the forms in which messages quote a value: as it is, on one line, and with the escapes of JSON, of Go and of Python."""
    for text in (value, " ".join(value.split())):
        if len(text) >= _SHORTEST:
            yield text
            yield from (quoted[1:-1] for quoted in (go_json(text), go_json(text, escape_html=False), repr(text)))


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
    POD_SECURITY,
    "resources",
    "metadata",
    ORDER,
    _OTHER,
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


def changes(
    old: Answer,
    new: Answer,
    original: Mapping[str, Any],
    names: tuple[str, str] = ("", ""),
    levels: Sequence[str] = (),
) -> tuple[Change, ...]:
    """Return the differences between two answers to the pod ``original``; a DataError is a refusal.

    ``names`` are the names that the two revisions write into pods, which are not a difference. If the two decide differently, that is
    the only change, since all else follows from it. ``levels`` are those of Pod Security that two injected pods pass, if they are known.
    """
    decisions = tuple(decision_of(answer) for answer in (old, new))
    if decisions[0] != decisions[1]:
        hiding = hiding_of(original)
        texts = [_decision_text(answer, hiding) for answer in (old, new)]
        return (Change("decision", "", *texts),)
    if isinstance(old, Injected) and isinstance(new, Injected):
        pods = old.shared_pod, new.shared_pod
        before, after = levels or map(level_of, pods)
        all_changes = [
            *pod_changes(*pods, original),
            *([Change(POD_SECURITY, "", before, after)] if before != after else ()),
        ]
        return tuple(
            _unshare(change) for change in sorted(all_changes, key=_place_of_kind) if not _is_own_name(change, names)
        )
    return ()


def _place_of_kind(change: Change) -> int:
    return KINDS.index(change.kind)


def _unshare(change: Change) -> Change:
    """Return a change that shares no object with a revision."""
    sides = change.old, change.new
    if not any(isinstance(side, dict | list) for side in sides):
        return change
    return Change(change.kind, change.path, *(side if side is ABSENT else load_json(dump_json(side)) for side in sides))


def _is_own_name(change: Change, names: tuple[str, str]) -> bool:
    """Return whether two values differ only in the names of their revisions."""
    if change.path in _NAMED:
        return (change.old, change.new) == names
    if not isinstance(change.old, str) or not isinstance(change.new, str) or HIDDEN in (change.old, change.new):
        return False
    return _default_host(change.old, names[0]) == _default_host(change.new, names[1])


def _default_host(text: str, name: str) -> str:
    """Return a text with the host of the default control plane in place of a revision's."""
    return text.replace(f"istiod-{name}.", "istiod.") if name else text


def decision_of(answer: Answer) -> str:
    """Return the answer in a word: injected, skipped, refused or unanswered."""
    if isinstance(answer, DataError):
        return "refused"
    if isinstance(answer, Unanswered):
        return "unanswered"
    return "injected" if isinstance(answer, Injected) else "skipped"


def pod_changes(old: c.Pod, new: c.Pod, original: Mapping[str, Any]) -> tuple[Change, ...]:
    """Return the differences between two injections of ``original``, in the order of ``KINDS``."""
    all_changes = [
        *differences(
            "metadata", "metadata", old.get("metadata") or {}, new.get("metadata") or {}, opaque=HIDDEN_ANNOTATIONS
        ),
        *_container_changes(old, new, hiding_of(original)),
        *_spec_changes(old.get("spec") or {}, new.get("spec") or {}),
    ]
    return tuple(sorted(all_changes, key=_place_of_kind))


def _decision_text(answer: Answer, hiding: Hiding) -> str:
    if isinstance(answer, Injected):
        return "injected"
    detail = str(answer) if isinstance(answer, DataError) else answer.detail
    return f"{decision_of(answer)}: {hiding.without_values(' '.join(detail.split()))}"


def _spec_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Change]:
    for key in _union(old, new):
        if key not in _LISTS:
            sides = old.get(key, ABSENT), new.get(key, ABSENT)
            yield from differences(_OF_SPEC.get(key, _OTHER), f"spec.{key}", *sides)


def _container_changes(old: c.Pod, new: c.Pod, hiding: Hiding) -> Iterator[Change]:
    before, after = _containers_by_name(old), _containers_by_name(new)
    for name in _union(before, after):
        yield from _one_container(name, before.get(name), after.get(name), hiding)
    for kind in _LISTS:
        names = [[name for name, (place, _) in side.items() if place == kind] for side in (before, after)]
        yield from order_changes(f"spec.{kind}", *names)


def _containers_by_name(pod: c.Pod) -> dict[str, tuple[str, c.Container]]:
    """Return every container by name, with the list that it is in."""
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
    if before == after:
        return
    path = f"{new_place}[{name}]"
    for key in _union(before, after):
        if before.get(key) == after.get(key):
            continue
        if key == "env":
            yield from _env_changes(name, path, before.get(key) or [], after.get(key) or [], hiding)
            continue
        kind = _OF_CONTAINER.get(key, _OTHER)
        yield from differences(kind, f"{path}.{key}", before.get(key, ABSENT), after.get(key, ABSENT))


def _env_changes(
    container: str, path: str, old: list[dict[str, Any]], new: list[dict[str, Any]], hiding: Hiding
) -> Iterator[Change]:
    before, after = (entries(side, lambda item: str(item.get("name", ""))) for side in (old, new))
    for name in _union(before, after):
        sides = before.get(name, ABSENT), after.get(name, ABSENT)
        if sides[0] == sides[1]:
            continue
        where = f"{path}.env[{name}]"
        visible = [_value_or_source(side, is_hidden=hiding.hides(container, name)) for side in sides]
        if HIDDEN in visible:
            yield Change("env", where, *visible)
        else:
            yield from differences("env", where, *visible)
    yield from order_changes(f"{path}.env", before, after)


def _value_or_source(entry: Any, *, is_hidden: bool) -> Any:
    """Return the value of a variable, else the source of its value."""
    if entry is ABSENT:
        return ABSENT
    if is_hidden:
        return {"valueFrom": entry["valueFrom"]} if entry.get("valueFrom") else HIDDEN
    rest = {key: value for key, value in entry.items() if key != "name"}
    return rest.get("value", "") if set(rest) <= {"value"} else rest


def _union(old: Iterable[str], new: Iterable[str]) -> list[str]:
    return list(dict.fromkeys([*old, *new]))
