"""Tags: names for revisions, as ``revisions/tags.yaml`` holds them, and which revision of a weighted tag a workload gets.

Weighted rendezvous hashing: every revision draws a number for the workload, the same one for ever, and divides it by
its weight; the smallest wins. A revision therefore wins a share of ``weight / sum of weights``. Raising its weight
makes its own quotients smaller and no other, so workloads move towards it and nowhere else; lowering it sends away
some of its own and no others. Nothing is stored, so that replicas and restarts agree.

::

    prod: 1-24
    canary: {1-24: 90, 1-30: 10}
    next:
      weights: {1-24: 90, 1-30: 10}            # or `revision: 1-24`
      salt: spring                             # what the choice depends on beside the workload; the tag's name
      shadow: {revision: 1-30, sample: 25}     # in percent; all requests without it

A mapping of numbers is weights; one that holds anything else is the long form.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

from injector.errors import ConfigError
from injector.istio.webhooks import DEFAULT_NAME
from injector.kube.pods import workload_of
from injector.kube.typed import normalise
from injector.kube.yaml import load_yaml
from injector.revisions.names import checked_name

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

_BYTES: Final = 8
# A float holds 53 bits: 52 of the hash and the half that keeps a draw off 0 and 1, where the logarithm is of no use.
_SPARE_BITS: Final = 12
_RANGE: Final = 1 << (8 * _BYTES - _SPARE_BITS)
_PERCENT: Final = 100


def workload_key(pod: Mapping[str, Any], namespace: str) -> tuple[str, str, str]:
    """Return namespace, kind and name of the workload that ``pod``, the object of a review, belongs to.

    A pod that no controller made goes by its ``generateName``, else by its own name.

    Raises:
        ManifestError: its metadata is none.
    """
    read = normalise({"metadata": pod.get("metadata")}, "v1.Pod")
    meta = read.get("metadata") or {}
    workload = workload_of(read)
    name = (workload.kind == "Pod" and meta.get("generateName")) or workload.name
    return workload.namespace or namespace, workload.kind, name


def choose(weights: Sequence[tuple[str, int]], salt: str, key: Sequence[str]) -> str:
    """Return the revision of ``weights`` that the workload ``key`` gets; at least one weight is above 0.

    The order of ``weights`` does not matter, nor what they add up to.
    """
    return min((-math.log(draw(salt, *key, name)) / weight, name) for name, weight in weights if weight > 0)[1]


def sampled(uid: str, percent: float) -> bool:
    """Tell whether the request ``uid`` is among the ``percent`` of requests that are looked at."""
    return draw(uid) * _PERCENT < percent


def draw(*words: str) -> float:
    """Return a number between 0 and 1, both excluded, that depends on ``words`` alone and favours none."""
    state = blake2b(digest_size=_BYTES)
    for word in words:
        data = word.encode("utf-8", "surrogatepass")
        # Its length before each word: no two lists of words read alike.
        state.update(b"%d:" % len(data))
        state.update(data)
    return ((int.from_bytes(state.digest(), "big") >> _SPARE_BITS) + 0.5) / _RANGE


_KEYS: Final = ("revision", "weights", "salt", "shadow")
_SHADOW_KEYS: Final = ("revision", "sample")
_ALL: Final = 100
# Weights are shares, in percent or per mille; beyond this a number is a slip of the hand.
_MAX_WEIGHT: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Shadow:
    """A candidate that is rendered beside what a tag serves, for ``sample`` percent of its requests, and never sent."""

    revision: str
    sample: float = _ALL


@dataclass(frozen=True, slots=True)
class Tag:
    """A name for one revision, or for several by weight.

    ``weights`` keeps the order of the file; a weight of 0 is kept too, since it says that a revision is meant to get
    no share. An empty ``salt`` means the tag's name.
    """

    name: str
    weights: tuple[tuple[str, int], ...]
    salt: str = ""
    shadow: Shadow | None = None

    @property
    def revision(self) -> str:
        """The revision with the largest weight, the first of equals."""
        return max(self.weights, key=lambda pair: pair[1])[0]

    @property
    def sole(self) -> bool:
        """Whether one revision gets everything."""
        return len(self.weights) == 1 or sum(weight > 0 for _, weight in self.weights) == 1

    @property
    def targets(self) -> tuple[str, ...]:
        """Every revision that it names."""
        return tuple(name for name, _ in self.weights)

    def revision_for(self, workload: Callable[[], Sequence[str]] | None) -> str:
        """Return the revision for the workload with this key; without a key, the one with the largest weight."""
        if workload is None or self.sole:
            return self.revision
        return choose(self.weights, self.salt or self.name, workload())


def parse_tags(text: str, *, where: str = "tags.yaml") -> dict[str, Tag]:
    """Read ``tags.yaml``.

    Raises:
        DataError: it is no YAML, or no mapping of names to revisions, or to revisions with weights.
    """
    raw = load_yaml(text, where=where)
    if raw is None:
        return {}
    if not isinstance(raw, dict):
        raise ConfigError("it is no mapping of tags", where=where, hint="write lines such as `prod: 1-24`")
    return {checked_name(name, where=where, kind="tag"): read_tag(name, target, where) for name, target in raw.items()}


def usable_tags(tags: Mapping[str, Tag], revisions: Collection[str]) -> tuple[dict[str, Tag], tuple[ConfigError, ...]]:
    """Return those of ``tags`` that lead somewhere, and what is wrong with the others.

    A tag may not hide a revision of its name: requests for that one could not reach it. ``default`` may, since that
    is the very way to say which revision is the default. A tag goes on without a shadow, and without a revision of
    weight 0, that is not served: nobody is answered with either.
    """
    usable: dict[str, Tag] = {}
    faults: list[ConfigError] = []
    for name, tag in tags.items():
        fault = _fault(tag, revisions)
        if fault is None:
            usable[name], spared = _without_idle(tag, revisions)
            faults += spared
        else:
            faults.append(fault)
    return usable, tuple(faults)


def _without_idle(tag: Tag, revisions: Collection[str]) -> tuple[Tag, list[ConfigError]]:
    """Return the tag without what it names, answers nobody with, and has not; and what is wrong with it."""
    faults = []
    idle = [name for name in tag.targets if name not in revisions]
    if idle:
        faults.append(_not_served(idle, f"tag `{tag.name}`: weight 0", "drop it from the weights"))
        tag = replace(tag, weights=tuple(pair for pair in tag.weights if pair[0] not in idle))
    if tag.shadow is not None and tag.shadow.revision not in revisions:
        faults.append(_not_served((tag.shadow.revision,), f"tag `{tag.name}`: shadow", "drop the shadow"))
        tag = replace(tag, shadow=None)
    return tag, faults


def _fault(tag: Tag, revisions: Collection[str]) -> ConfigError | None:
    missing = [name for name, weight in tag.weights if weight and name not in revisions]
    if missing:
        return _not_served(missing, f"tag `{tag.name}`", "move the tag")
    if tag.name in revisions and tag.name != DEFAULT_NAME:
        return ConfigError("a revision has the same name", where=f"tag `{tag.name}`", hint="rename the tag")
    return None


def _not_served(names: Iterable[str], where: str, remedy: str) -> ConfigError:
    return ConfigError(
        f"it names `{'`, `'.join(names)}`, which is not served", where=where, hint=f"add the revision, or {remedy}"
    )


def read_tag(name: str, target: Any, where: str) -> Tag:
    """Return the tag of that name from what ``tags.yaml`` says of it.

    Raises:
        ConfigError: it is neither a revision, nor weights, nor the long form.
    """
    if isinstance(target, str):
        return Tag(name, _one(target, f"{where}: {name}"))
    if not isinstance(target, dict) or not target:
        raise _no_revision(name, where)
    if any(isinstance(value, str | dict) for value in target.values()):
        return _long(name, target, where)
    return Tag(name, _weights(name, target, where))


def _no_revision(name: str, where: str) -> ConfigError:
    return ConfigError(
        f"tag `{name}` names no revision",
        where=where,
        hint=f"write `{name}: REVISION` or `{name}: {{REVISION: WEIGHT}}`; quote a name that reads as a number",
    )


def _long(name: str, target: Mapping[str, Any], where: str) -> Tag:
    at = f"{where}: {name}"
    _check_keys(target, _KEYS, at)
    revision, weights, salt = (target.get(key) for key in ("revision", "weights", "salt"))
    if revision is not None and weights is not None:
        raise ConfigError("it has both `revision` and `weights`", where=at, hint="keep one of the two")
    if salt is not None and (not isinstance(salt, str) or not salt):
        raise ConfigError(f"`salt` is {salt!r}", where=at, hint="make it a text; quote what reads as a number")
    if isinstance(revision, str):
        found = _one(revision, at)
    elif isinstance(weights, dict) and weights:
        found = _weights(name, weights, where)
    else:
        raise _no_revision(name, where)
    shadow = target.get("shadow")
    return Tag(name, found, salt or "", None if shadow is None else _shadow(shadow, f"{at}: shadow"))


def _shadow(target: Any, at: str) -> Shadow:
    if not isinstance(target, dict) or not isinstance(target.get("revision"), str):
        raise ConfigError("it names no revision", where=at, hint="write `shadow: {revision: REVISION, sample: 25}`")
    _check_keys(target, _SHADOW_KEYS, at)
    sample = target.get("sample", _ALL)
    if isinstance(sample, bool) or not isinstance(sample, int | float) or not 0 <= sample <= _ALL:
        raise ConfigError(f"`sample` is {sample!r}", where=at, hint=f"make it a percentage from 0 to {_ALL}")
    return Shadow(checked_name(target["revision"], where=at), sample)


def _check_keys(target: Mapping[str, Any], known: tuple[str, ...], at: str) -> None:
    unknown = sorted(set(target) - set(known))
    if unknown:
        raise ConfigError(f"unknown key `{unknown[0]}`", where=at, hint=f"known are {', '.join(known)}")


def _one(revision: str, where: str) -> tuple[tuple[str, int], ...]:
    return ((checked_name(revision, where=where), 1),)


def _weights(tag: str, target: Mapping[str, Any], where: str) -> tuple[tuple[str, int], ...]:
    if all(weight == 0 for weight in target.values()):
        raise ConfigError("every weight of a tag is 0", where=where, hint="give one revision a weight")
    return tuple(_weighted(tag, revision, weight, where) for revision, weight in target.items())


def _weighted(tag: str, revision: str, weight: Any, where: str) -> tuple[str, int]:
    if isinstance(weight, bool) or not isinstance(weight, int) or not 0 <= weight <= _MAX_WEIGHT:
        raise ConfigError(
            f"the weight of `{revision}` in tag `{tag}` is {weight!r}",
            where=where,
            hint=f"make it a whole number from 0 to {_MAX_WEIGHT}",
        )
    return checked_name(revision, where=f"{where}: {tag}"), weight
