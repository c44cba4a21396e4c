"""Whether two renderings of a template have one shape: equal keys, list lengths, names and types, and equal rights.

What a pod's value may change is the text that it stands in. (A key may be given twice in YAML, and the last one counts: so other texts
could change too.) ``RIGHTS`` are the fields of a pod that say what it may do to its node; their texts stay as they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from injector.istio.harmless import alike
from injector.kube.schema import struct_type

if TYPE_CHECKING:
    from collections.abc import Iterator

    Path = tuple[str | int, ...]

# What the Pod Security Standards restrict (Kubernetes: Concepts, Security, Pod Security Standards), and whose account a pod has.
RIGHTS: Final = frozenset(
    {
        *("hostIPC", "hostNetwork", "hostPID", "hostPath", "hostPort", "hostUsers", "securityContext"),
        *("serviceAccount", "serviceAccountName", "volumeDevices"),
    }
)
_NAME: Final = "name"
_SHOWN_TYPES: Final = ("v1.Pod", "v1.PodSpec", "v1.ObjectMeta", "v1.Container")


@dataclass(frozen=True, slots=True)
class _Where:
    """Where a comparison is: at which path, below one of ``RIGHTS`` or not, and which harmless texts may stand there."""

    path: Path
    right: bool
    pasted: frozenset[str]

    def at(self, part: str | int) -> _Where:
        return _Where((*self.path, part), self.right or part in RIGHTS, self.pasted)

    def same(self, real: str, meant: str) -> bool:
        """Return whether a text is what was meant."""
        if alike(real, meant):
            return True
        named = self.right or self.path[-1:] == (_NAME,)
        return not named and any(text in meant for text in self.pasted)


def difference(real: Any, meant: Any, pasted: frozenset[str] = frozenset()) -> Path | None:
    """Return where the shape of two trees differs first, as a path in ``meant``; None where it does not.

    ``pasted`` are harmless texts: where one of them stands in ``meant``, another one may stand in ``real``.
    """
    return next(_differences(real, meant, _Where((), right=False, pasted=pasted)), None)


def _differences(real: Any, meant: Any, where: _Where) -> Iterator[Path]:
    if real is meant:
        return
    if type(real) is not type(meant):
        yield where.path
    elif isinstance(meant, dict):
        yield from _of_objects(real, meant, where)
    elif isinstance(meant, list):
        if len(real) != len(meant):
            yield where.path
        for index, (item, other) in enumerate(zip(real, meant, strict=False)):
            yield from _differences(item, other, where.at(index))
    elif isinstance(meant, str):
        if not where.same(real, meant):
            yield where.path
    elif real != meant:
        yield where.path


def _of_objects(real: dict[str, Any], meant: dict[str, Any], where: _Where) -> Iterator[Path]:
    """Yield what differs in two objects; keys that a pod's value stands in are paired in their order."""
    added = [key for key in real if key not in meant]
    missing = [key for key in meant if key not in real]
    pairs = list(zip(added, missing, strict=False))
    if len(added) != len(missing) or not all(alike(*pair) for pair in pairs):
        yield where.path
        return
    for key, other in [*((key, key) for key in meant if key in real), *pairs]:
        yield from _differences(real[key], meant[other], where.at(other))


def shown(path: Path) -> str:
    """Return a path up to the first key that is no field of a pod or of a container: further ones may be of the pod's values."""
    text = ""
    for part in path:
        if isinstance(part, int) and not text:
            continue
        if isinstance(part, int):
            text += f"[{part}]"
        elif part in _fields():
            text += f".{part}" if text else part
        else:
            break
    return text


@cache
def _fields() -> frozenset[str]:
    return frozenset(field.json for name in _SHOWN_TYPES for field in struct_type(name).fields if field.json)
