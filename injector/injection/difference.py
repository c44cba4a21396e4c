"""What differs between two injected pods, in an operator's words: the kind, the place, and both values.

Lists of named items (containers, variables, volumes, mounts, ports) are compared name by name, so that one more
container is one difference and not a shift of all that follow; their order is a difference of its own. What merely
repeats the name of its own revision is none: two revisions that are otherwise alike give pods that are alike.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from injector.errors import InjectorError, ManifestError
from injector.injection.result import Injected, Skipped
from injector.kube.serial import load_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

Outcome: TypeAlias = Injected | Skipped | Exception
"""How one injection ended."""

OTHER: Final = "other"
ORDER: Final = "order"
ERROR: Final = "error"
DECISION: Final = "decision"
KINDS: Final = (
    *("image", "env", "args", "ports", "volumes", "security", "resources", "metadata"),
    *(ORDER, OTHER, ERROR, DECISION),
)
"""Every kind that a difference can have."""

KIND_OF_FIELD: Final[Mapping[str, str]] = {
    "metadata": "metadata",
    "image": "image",
    "imagePullPolicy": "image",
    "imagePullSecrets": "image",
    "env": "env",
    "envFrom": "env",
    "args": "args",
    "command": "args",
    "workingDir": "args",
    "ports": "ports",
    "volumes": "volumes",
    "volumeMounts": "volumes",
    "volumeDevices": "volumes",
    "resources": "resources",
    "securityContext": "security",
    "hostNetwork": "security",
    "hostPID": "security",
    "hostIPC": "security",
    "hostUsers": "security",
    "shareProcessNamespace": "security",
    "serviceAccount": "security",
    "serviceAccountName": "security",
    "automountServiceAccountToken": "security",
    "lifecycle": OTHER,
    "livenessProbe": OTHER,
    "readinessProbe": OTHER,
    "startupProbe": OTHER,
}
"""The kind by the outermost field of a path that says one; what none says is ``other``."""

# What tells the items of a list apart where it is not their name.
_KEYS_OF_LIST: Final[Mapping[str, tuple[str, ...]]] = {
    "volumeMounts": ("mountPath",),
    "volumeDevices": ("devicePath",),
    "ports": ("containerPort", "protocol"),
    "items": ("path",),
}
_NAME: Final = ("name",)
_STATUS: Final = "sidecar.istio.io/status"
_PLACES_OF_NAME: Final = (
    "metadata.labels[istio.io/rev]",
    "metadata.annotations[istio.io/rev]",
    f"metadata.annotations[{_STATUS}].revision",
)


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference of a kind of ``KINDS``; ``before`` or ``after`` is None where that pod lacks the field."""

    kind: str
    path: str
    before: Any = None
    after: Any = None


def outcome_differences(before: Outcome, after: Outcome, names: tuple[str, str] = ("", "")) -> list[Difference]:
    """Return what differs between two injections of one pod, by the revisions that write ``names`` into pods.

    Two skips are alike whatever their reasons, and so are two errors of one class: the pod gets the same from both.
    """
    if isinstance(before, Injected) and isinstance(after, Injected):
        return pod_differences(before.pod, after.pod, names)
    if isinstance(before, Exception) or isinstance(after, Exception):
        if type(before) is type(after):
            return []
        return [Difference(ERROR, _place(after) or _place(before), _said(before), _said(after))]
    if isinstance(before, Skipped) and isinstance(after, Skipped):
        return []
    return [Difference(DECISION, "", _said(before), _said(after))]


def _said(outcome: Outcome) -> str:
    if isinstance(outcome, Injected):
        return "injected"
    return f"skipped: {outcome.reason}" if isinstance(outcome, Skipped) else f"failed: {type(outcome).__name__}"


def _place(outcome: Outcome) -> str:
    return outcome.where if isinstance(outcome, InjectorError) else ""


def pod_differences(
    before: Mapping[str, Any], after: Mapping[str, Any], names: tuple[str, str] = ("", "")
) -> list[Difference]:
    """Return what differs between two pods, by path and kind.

    ``names`` are the names that the revision of each writes into its pods; where they alone differ, nothing does.
    """
    found = _Comparison(*names).objects(_with_status_read(before), _with_status_read(after), "", "")
    return sorted(found, key=lambda each: (each.path, each.kind))


def _with_status_read(pod: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a pod whose status annotation is the object that its text says, so that members are compared."""
    meta = pod.get("metadata") or {}
    annotations = meta.get("annotations") or {}
    if _STATUS not in annotations:
        return pod
    try:
        status = load_json(annotations[_STATUS])
    except ManifestError:
        return pod
    return {**pod, "metadata": {**meta, "annotations": {**annotations, _STATUS: status}}}


@dataclass(frozen=True, slots=True)
class _Comparison:
    """One walk through two pods; each step gets the path so far and the kind that the path has said, if any."""

    name_before: str
    name_after: str

    def values(self, before: Any, after: Any, path: str, kind: str) -> Iterator[Difference]:
        if isinstance(before, dict) and isinstance(after, dict):
            yield from self.objects(before, after, path, kind)
        elif isinstance(before, list) and isinstance(after, list):
            yield from self._lists(before, after, path, kind)
        elif type(before) is not type(after) or (before != after and not self._own_names(before, after, path)):
            yield Difference(kind or OTHER, path, before, after)

    def objects(
        self, before: Mapping[str, Any], after: Mapping[str, Any], path: str, kind: str
    ) -> Iterator[Difference]:
        for key in {**before, **after}:
            place = (f"{path}.{key}" if path else key) if _plain(key) else f"{path}[{key}]"
            yield from self.values(before.get(key), after.get(key), place, kind or KIND_OF_FIELD.get(key, ""))

    def _lists(self, before: list[Any], after: list[Any], path: str, kind: str) -> Iterator[Difference]:
        if not all(isinstance(item, dict) for item in (*before, *after)):
            if before != after:
                yield Difference(kind or OTHER, path, before, after)
            return
        keys = _KEYS_OF_LIST.get(path.rpartition(".")[2], _NAME)
        old, new = _keyed(before, keys), _keyed(after, keys)
        for name in {**old, **new}:
            yield from self.values(old.get(name), new.get(name), f"{path}[{name}]", kind)
        old_order, new_order = [name for name in old if name in new], [name for name in new if name in old]
        if old_order != new_order:
            yield Difference(ORDER, path, old_order, new_order)

    def _own_names(self, before: Any, after: Any, path: str) -> bool:
        """Tell whether two values differ only in that each has the name of its own revision."""
        if not isinstance(before, str) or not isinstance(after, str):
            return False
        if path in _PLACES_OF_NAME:
            return (before, after) == (self.name_before, self.name_after)
        return _default_host(before, self.name_before) == _default_host(after, self.name_after)


def _default_host(text: str, name: str) -> str:
    """Return a text with the host of a revision's control plane named as that of the default one."""
    return text.replace(f"istiod-{name}.", "istiod.")


def _plain(key: str) -> bool:
    return "." not in key and "/" not in key


def _keyed(items: Sequence[Mapping[str, Any]], keys: tuple[str, ...]) -> dict[str, Mapping[str, Any]]:
    """Return the items by what tells them apart; the second of a name is ``name#2``, one without goes by its place."""
    found: dict[str, Mapping[str, Any]] = {}
    seen: Counter[str] = Counter()
    for index, item in enumerate(items):
        name = "/".join(str(item[key]) for key in keys if key in item) or str(index)
        seen[name] += 1
        found[name if seen[name] == 1 else f"{name}#{seen[name]}"] = item
    return found
