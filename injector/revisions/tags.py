"""Tags: names that lead to one revision, or to several by weight, with an optional shadow.

A tag is written in ``tags.yaml`` of a directory of revisions::

    prod: 1-24
    canary: {1-24: 90, 1-30: 10}
    next: {weights: {1-24: 90, 1-30: 10}, salt: spring, shadow: {revision: 1-30, sample: 25}}
    last: {weights: {1-24: 90, 1-30: 10}, namespaces: {payments: 1-24, test: {1-24: 50, 1-30: 50}}}

In a cluster a tag is a MutatingWebhookConfiguration with the label ``istio.io/tag``. Its label ``istio.io/rev``, which istioctl and Istio's
charts read, names the revision with the largest weight. Annotations that begin with ``revision-injector/`` hold the weights, the weights
of namespaces, the salt and the shadow. An empty annotation counts as absent.

A pod with the annotation ``revision-injector/pin`` gets the revision that it names, if the tag has it, also with weight 0. Otherwise the
weights of its namespace decide, else those of the tag.

Workloads are assigned to weights by weighted rendezvous hashing: each revision draws a number for the workload, always the same one, and
divides it by its weight; the smallest quotient wins. Raising a weight only moves workloads to that revision, and lowering it only moves
workloads away from it. Nothing is stored, so replicas agree, and the choice survives a restart.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any, Final, NamedTuple, TypeAlias

from injector.errors import ConfigError, DataError
from injector.golang.json import dump_json, load_json
from injector.istio.labels import ANNOTATIONS, DEFAULT_NAME, REVISION_LABEL, TAG_LABEL
from injector.kube.pods import identity_of
from injector.kube.selectors import is_dns_label
from injector.kube.typed import normalise
from injector.kube.yaml import load_yaml
from injector.revisions.names import check_name

_HASH_BYTES: Final = 8
# A float holds 53 bits: 52 of the hash, and the half that keeps a number off 0 and 1, where the logarithm cannot be used.
_UNUSED_BITS: Final = 12
_RANGE: Final = 1 << (8 * _HASH_BYTES - _UNUSED_BITS)
_ALL: Final = 100
"""The sample of a shadow that tries every request, in percent."""
# Weights are shares, in percent or per mille; a larger number is a typing error.
MAX_WEIGHT: Final = 1_000_000
_KEYS: Final = ("revision", "weights", "salt", "shadow", "namespaces")
_SHADOW_KEYS: Final = ("revision", "sample")

WEIGHTS: Final = f"{ANNOTATIONS}weights"
SALT: Final = f"{ANNOTATIONS}salt"
SHADOW: Final = f"{ANNOTATIONS}shadow"
NAMESPACES: Final = f"{ANNOTATIONS}namespaces"
PIN: Final = f"{ANNOTATIONS}pin"
"""The annotation of a pod that chooses a revision of its tag."""
_JSON_EXAMPLES: Final = {
    WEIGHTS: '{"1-24": 90, "1-30": 10}',
    SHADOW: '{"revision": "1-30", "sample": 25}',
    NAMESPACES: '{"payments": "1-24"}',
}
"""The annotations that hold a JSON object, with an example for the error message."""


Weights: TypeAlias = tuple[tuple[str, int], ...]
"""Revisions with their weights, one of them above 0."""


class TagWorkload(NamedTuple):
    """The workload of a pod, by which a tag chooses its revision: namespace, kind and name, and the revision that the pod asks for."""

    key: tuple[str, str, str]
    pin: str = ""


class Choice(NamedTuple):
    """The revision that a tag chooses for a workload, and what decided if it was not the tag's weights."""

    revision: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Shadow:
    """A candidate revision, tried on ``sample`` percent of a tag's requests; its result is compared and never sent."""

    revision: str
    sample: float = _ALL

    def to_dict(self) -> dict[str, Any]:
        """Return it as it is written in ``tags.yaml`` and in an annotation."""
        return {"revision": self.revision, "sample": self.sample}


@dataclass(frozen=True, slots=True)
class Tag:
    """A name for one revision, or for several by weight.

    ``weights`` are in the order of the file and may be 0. An empty ``salt`` means the tag's name. ``namespaces`` has the weights of
    namespaces that have their own.
    """

    name: str
    weights: Weights
    salt: str = ""
    shadow: Shadow | None = None
    namespaces: Mapping[str, Weights] = field(default_factory=dict)

    @property
    def revision(self) -> str:
        """The revision with the largest weight, the first of equals."""
        return max(self.weights, key=lambda pair: pair[1])[0]

    @property
    def sole(self) -> bool:
        """Whether one revision receives all workloads that are not pinned."""
        return {name for share in self.shares for name, weight in share if weight} == {self.revision}

    @property
    def destination(self) -> str:
        """The revisions in one word: ``1-24``, or ``1-24=90,1-30=10``."""
        return destination(self.weights)

    @property
    def weight_notes(self) -> tuple[str, ...]:
        """A note for weights that do not sum to 100, so that they are not the percentages that they seem to be."""
        whose = {f"tag {self.name}": self.weights}
        whose |= {f"tag {self.name}, namespace {name}": weights for name, weights in self.namespaces.items()}
        return tuple(
            _note(place, weights) for place, weights in whose.items() if len(weights) > 1 and _sum(weights) != _ALL
        )

    @property
    def targets(self) -> tuple[str, ...]:
        """Every revision that the weights name, those of namespaces included."""
        return tuple(dict.fromkeys(name for share in self.shares for name, _ in share))

    @property
    def shares(self) -> tuple[Weights, ...]:
        """The weights of the tag, and those of each namespace that has its own."""
        return self.weights, *self.namespaces.values()

    @property
    def revisions(self) -> tuple[str, ...]:
        """Every revision that the tag needs: those of the weights, and the shadow's."""
        return self.targets if self.shadow is None else (*self.targets, self.shadow.revision)

    @property
    def options(self) -> dict[str, Any]:
        """Its salt, its shadow and the weights of its namespaces as they are written, without those that it does not have."""
        shadow = None if self.shadow is None else self.shadow.to_dict()
        options = {"salt": self.salt, "shadow": shadow, "namespaces": namespace_weights(self)}
        return {key: value for key, value in options.items() if value}

    def among(self, revisions: Collection[str]) -> Tag | None:
        """Return the tag without the revisions that are missing among ``revisions``; None if no weight is left.

        Their workloads go to the remaining revisions by weight, and all other workloads keep their revision. A namespace whose own
        weights have no revision left gets those of the tag.
        """
        if all(name in revisions for name in self.revisions):
            return self
        remaining = _among(self.weights, revisions)
        shadow = self.shadow if self.shadow is not None and self.shadow.revision in revisions else None
        namespaces = {
            name: served for name, weights in self.namespaces.items() if (served := _among(weights, revisions))
        }
        return replace(self, weights=remaining, shadow=shadow, namespaces=namespaces) if remaining else None

    def choice_for(self, workload: Callable[[], TagWorkload] | None) -> Choice:
        """Return the revision for a workload; without one, the revision with the largest weight."""
        if workload is None or len(self.targets) == 1:
            return Choice(self.revision)
        key, pin = workload()
        if pin in self.targets:
            return Choice(pin, f"pinned by the annotation {PIN}")
        ignored = "its pin does not count, since the tag does not name that revision" if pin else ""
        weights = self.namespaces.get(key[0])
        if weights is None:
            return Choice(choose(self.weights, self.salt or self.name, key), ignored)
        by = f"by the weights {destination(weights)} of namespace {key[0]}"
        return Choice(choose(weights, self.salt or self.name, key), f"{by}; {ignored}" if ignored else by)


def _sum(weights: Weights) -> int:
    return sum(weight for _, weight in weights)


def _note(place: str, weights: Weights) -> str:
    total = _sum(weights)
    shares = ", ".join(f"{name} {100 * weight / total:.3g} %" for name, weight in weights)
    return f"{place}: the weights sum to {total}, not {_ALL}: {shares} of the workloads"


def destination(weights: Weights) -> str:
    """Return weights in one word: ``1-24``, or ``1-24=90,1-30=10``."""
    return ",".join(f"{name}={weight}" for name, weight in weights) if len(weights) > 1 else weights[0][0]


def _among(weights: Weights, revisions: Collection[str]) -> Weights:
    """Return the weights of these revisions; none if no weight is left."""
    remaining = tuple(pair for pair in weights if pair[0] in revisions)
    return remaining if any(weight for _, weight in remaining) else ()


def workload_key(pod: Mapping[str, Any], namespace: str) -> tuple[str, str, str]:
    """Return namespace, kind and name of the workload that ``pod``, the object of a review, belongs to, see ``identity_of``.

    Raises:
        ManifestError: the pod's metadata is invalid.
    """
    metadata = pod.get("metadata")
    if isinstance(metadata, dict):
        metadata = {key: value for key, value in metadata.items() if key != "managedFields"}
    return key_of_normal_pod(normalise({"metadata": metadata}, "v1.Pod"), namespace)


def key_of_normal_pod(pod: Mapping[str, Any], namespace: str) -> tuple[str, str, str]:
    """Return the ``workload_key`` of a pod whose metadata is as ``normalise`` returns it."""
    workload = identity_of(pod)
    return workload.namespace or namespace, workload.kind, workload.name


def workload_of_pod(
    pod: Mapping[str, Any],
    namespace: str,
    key_of: Callable[[Mapping[str, Any], str], tuple[str, str, str]] = workload_key,
) -> TagWorkload:
    """Return the workload of ``pod`` with its pin, see ``workload_key``; ``key_of_normal_pod`` is enough for a normal pod."""
    key = key_of(pod, namespace)
    annotations = (pod.get("metadata") or {}).get("annotations") or {}
    return TagWorkload(key, annotations.get(PIN) or "")


def choose(weights: Sequence[tuple[str, int]], salt: str, key: Sequence[str]) -> str:
    """Return the revision for the workload ``key``; at least one of ``weights`` is above 0.

    The result does not depend on the order or the sum of ``weights``.
    """
    return min((-math.log(draw(salt, *key, name)) / weight, name) for name, weight in weights if weight > 0)[1]


def is_sampled(uid: str, percent: float) -> bool:
    """Tell whether the request ``uid`` belongs to a sample of ``percent``."""
    return draw(uid) * _ALL < percent


def draw(*words: str) -> float:
    """Return a uniformly distributed number between 0 and 1, both excluded, that depends only on ``words``."""
    state = blake2b(digest_size=_HASH_BYTES)
    for word in words:
        data = word.encode("utf-8", "surrogatepass")
        # The length in front keeps different lists of words apart.
        state.update(b"%d:" % len(data))
        state.update(data)
    return ((int.from_bytes(state.digest(), "big") >> _UNUSED_BITS) + 0.5) / _RANGE


def parse_tags(text: str, *, where: str = "tags.yaml") -> dict[str, Tag]:
    """Read ``tags.yaml``. Raises DataError if it is not YAML, or not a mapping from names to revisions or weights."""
    raw = load_yaml(text, where=where, strict=True)
    if raw is None:
        return {}
    if not isinstance(raw, dict):
        raise ConfigError("not a mapping of tags", where=where, hint="write lines such as `prod: 1-24`")
    return {check_name(name, where=where, kind="tag"): _read_tag(name, target, where) for name, target in raw.items()}


def usable_tags(tags: Mapping[str, Tag], revisions: Collection[str]) -> tuple[dict[str, Tag], tuple[ConfigError, ...]]:
    """Return the tags that can be served, and the errors of the others.

    A tag must not have the name of a revision, which could then not be requested; ``default`` may, because it selects the default
    revision. If only the shadow or revisions with weight 0 are missing, the tag is served without them and an error says so. A tag that
    lacks a revision with a weight is not among the tags; what is left of it is ``Tag.among``.
    """
    usable: dict[str, Tag] = {}
    faults: list[ConfigError] = []
    for name, tag in tags.items():
        where = f"tag `{name}`"
        shares = (pair for share in tag.shares for pair in share)
        if needed := dict.fromkeys(revision for revision, weight in shares if weight and revision not in revisions):
            faults.append(_not_served(needed, where, "move the tag"))
            continue
        if name in revisions and name != DEFAULT_NAME:
            faults.append(ConfigError("a revision has the same name", where=where, hint="rename the tag"))
            continue
        if missing := [target for target in tag.targets if target not in revisions]:
            faults.append(_not_served(missing, f"{where}: weight 0", "drop it from the weights"))
        if tag.shadow is not None and tag.shadow.revision not in revisions:
            faults.append(_not_served((tag.shadow.revision,), f"{where}: shadow", "drop the shadow"))
        usable[name] = tag.among(revisions) or tag
    return usable, tuple(faults)


def served_tags(tags: Mapping[str, Tag], revisions: Collection[str]) -> dict[str, Tag]:
    """Return the tags as a replica serves them that has served none of them before: each without the revisions that are missing.

    A tag of which nothing is left, or with the name of a revision, is not among them.
    """
    remaining = {name: tag.among(revisions) for name, tag in tags.items()}
    return usable_tags({name: tag for name, tag in remaining.items() if tag is not None}, revisions)[0]


def _not_served(names: Iterable[str], where: str, remedy: str) -> ConfigError:
    return ConfigError(
        f"it names `{'`, `'.join(names)}`, which is not served", where=where, hint=f"add the revision, or {remedy}"
    )


def _read_tag(name: str, value: Any, where: str) -> Tag:
    """Read the value of one tag: a revision, weights or the long form."""
    if isinstance(value, str):
        value = {"revision": value}
    if not isinstance(value, dict) or not value:
        raise _no_revision(name, where)
    if not any(isinstance(weight, str | dict) for weight in value.values()):
        value = {"weights": value}
    at = f"{where}: {name}"
    _check_keys(value, _KEYS, at)
    revision, weights, salt, shadow, namespaces = (value.get(key) for key in _KEYS)
    if revision is not None and weights is not None:
        raise ConfigError("it has both `revision` and `weights`", where=at, hint="keep one of the two")
    if salt is not None and (not isinstance(salt, str) or not salt):
        raise ConfigError(f"`salt` is {salt!r}", where=at, hint="make it a text; quote what reads as a number")
    target = revision if isinstance(revision, str) else weights if isinstance(weights, dict) else None
    shares = _shares(name, target, where, at)
    shadow_revision = None if shadow is None else _shadow(shadow, f"{at}: shadow")
    return Tag(name, shares, salt or "", shadow_revision, _namespaces(name, namespaces, f"{at}: namespaces"))


def _namespaces(tag: str, value: Any, at: str) -> dict[str, Weights]:
    """Read the weights of namespaces, each a revision or a mapping of weights."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        hint = "write `namespaces: {NAMESPACE: REVISION}` or `namespaces: {NAMESPACE: {REVISION: WEIGHT}}`"
        raise ConfigError("it is not a mapping", where=at, hint=hint)
    by_namespace: dict[str, Weights] = {}
    for namespace, target in value.items():
        if not isinstance(namespace, str) or not is_dns_label(namespace):
            what = f"{str(namespace)[:80]!r} is not a namespace"
            raise ConfigError(what, where=at, hint="use the name of a namespace")
        by_namespace[namespace] = _shares(tag, target, f"{at}: {namespace}", f"{at}: {namespace}")
    return by_namespace


def _shares(tag: str, target: Any, where: str, at: str) -> Weights:
    """Read a revision, whose place is ``at``, or a mapping of weights, whose place is ``where``."""
    if isinstance(target, str):
        return ((check_name(target, where=at), 1),)
    if isinstance(target, dict) and target:
        return _weights(tag, target, where)
    raise _no_revision(tag, where)


def _no_revision(name: str, where: str) -> ConfigError:
    return ConfigError(
        f"tag `{name}` names no revision",
        where=where,
        hint=f"write `{name}: REVISION` or `{name}: {{REVISION: WEIGHT}}`; quote a name that reads as a number",
    )


def _shadow(target: Any, at: str) -> Shadow:
    if not isinstance(target, dict) or not isinstance(target.get("revision"), str):
        raise ConfigError("it names no revision", where=at, hint="write `shadow: {revision: REVISION, sample: 25}`")
    _check_keys(target, _SHADOW_KEYS, at)
    sample = target.get("sample", _ALL)
    if isinstance(sample, bool) or not isinstance(sample, int | float) or not 0 <= sample <= _ALL:
        raise ConfigError(f"`sample` is {sample!r}", where=at, hint=f"make it a percentage from 0 to {_ALL}")
    return Shadow(check_name(target["revision"], where=at), sample)


def _check_keys(target: Mapping[str, Any], known: tuple[str, ...], at: str) -> None:
    unknown = sorted(set(target) - set(known))
    if unknown:
        raise ConfigError(f"unknown key `{unknown[0]}`", where=at, hint=f"known are {', '.join(known)}")


def _weights(tag: str, target: Mapping[str, Any], where: str) -> Weights:
    for revision, weight in target.items():
        if isinstance(weight, bool) or not isinstance(weight, int) or not 0 <= weight <= MAX_WEIGHT:
            raise ConfigError(
                f"the weight of `{revision}` in tag `{tag}` is {weight!r}",
                where=where,
                hint=f"make it a whole number from 0 to {MAX_WEIGHT}",
            )
    if not any(target.values()):
        raise ConfigError("every weight of a tag is 0", where=where, hint="give one revision a weight")
    return tuple((check_name(revision, where=f"{where}: {tag}"), weight) for revision, weight in target.items())


@dataclass(frozen=True, slots=True)
class TagObject:
    """A tag in a MutatingWebhookConfiguration: its labels, the name of the object, and the injector's own annotations."""

    tag: str
    revision: str
    name: str
    annotations: Mapping[str, str] = field(default_factory=dict)

    def read(self) -> tuple[Tag, ConfigError | None]:
        """Return the tag, and an error if its weights were ignored.

        istioctl moves a tag by its label only. Weights that do not agree with the label are therefore outdated.

        Raises:
            DataError: a name or an annotation is invalid.
        """
        where = f"MutatingWebhookConfiguration {self.name}"
        name = check_name(self.tag, where=where, kind="tag")
        revision = check_name(self.revision, where=f"{where}: label {REVISION_LABEL}")
        read = (WEIGHTS, SALT, SHADOW, NAMESPACES)
        values = {key: self._value(key, where) for key in read if self.annotations.get(key)}
        rest = {key.removeprefix(ANNOTATIONS): value for key, value in values.items() if key != WEIGHTS}
        by_label = _read_tag(name, {"revision": revision, **rest}, where)
        if WEIGHTS not in values:
            return by_label, None
        tag = _read_tag(name, {"weights": values[WEIGHTS], **rest}, where)
        if tag.revision == revision:
            return tag if len(tag.weights) > 1 else by_label, None  # the weight of an only revision is not written
        return by_label, ConfigError(
            f"label {REVISION_LABEL} leads to `{revision}`, the largest weight to `{tag.revision}`: the weights are ignored",
            where=f"{where}: {WEIGHTS}",
            hint=f"run `injector tag set {tag.name} --overwrite` with the weights that you want",
        )

    def _value(self, key: str, where: str) -> Any:
        text = self.annotations[key]
        if key not in _JSON_EXAMPLES:
            return text
        try:
            document = load_json(text)
        except DataError:
            document = None
        if not isinstance(document, dict) or not document:
            raise ConfigError("not a JSON object", where=f"{where}: {key}", hint=f"write it as '{_JSON_EXAMPLES[key]}'")
        return document


def tag_object(item: Mapping[str, Any]) -> TagObject | None:
    """Return the tag of a MutatingWebhookConfiguration; None if it does not belong to a tag."""
    metadata = item["metadata"]
    labels = metadata.get("labels") or {}
    tag = labels.get(TAG_LABEL)
    if not tag:
        return None
    own = {key: text for key, text in (metadata.get("annotations") or {}).items() if key.startswith(ANNOTATIONS)}
    return TagObject(tag, labels.get(REVISION_LABEL) or DEFAULT_NAME, metadata["name"], own)


def read_tags(objects: Iterable[TagObject]) -> tuple[dict[str, Tag], dict[str, DataError]]:
    """Return the tags of a cluster, and the errors of tags, by name.

    Several objects of one tag must agree: the API server calls one or the other depending on their selectors.
    """
    by_tag: dict[str, list[TagObject]] = {}
    for candidate in sorted(objects, key=lambda item: item.name):
        by_tag.setdefault(candidate.tag, []).append(candidate)
    tags: dict[str, Tag] = {}
    faults: dict[str, DataError] = {}
    for name, same_name in by_tag.items():
        fault: DataError | None
        if any(
            (candidate.revision, candidate.annotations) != (same_name[0].revision, same_name[0].annotations)
            for candidate in same_name
        ):
            names = ", ".join(f"{candidate.name} ({candidate.revision})" for candidate in same_name)
            what = f"several MutatingWebhookConfigurations have it: {names}"
            fault = ConfigError(what, where=f"tag `{name}`", hint="delete all but one")
        else:
            try:
                tags[name], fault = same_name[0].read()
            except DataError as error:
                fault = error
        if fault is not None:
            faults[name] = fault
    return tags, faults


def namespace_weights(tag: Tag) -> dict[str, str | dict[str, int]]:
    """Return the weights of namespaces as they are written: a revision, or a mapping of weights."""
    return {
        name: weights[0][0] if weights == ((weights[0][0], 1),) else dict(weights)
        for name, weights in tag.namespaces.items()
    }


def tag_annotations(tag: Tag) -> dict[str, str]:
    """Return the annotations of a tag's object; none if the label is sufficient."""
    data = {"weights": dict(tag.weights), **tag.options} if len(tag.weights) > 1 else tag.options
    texts = {key: value if isinstance(value, str) else dump_json(value).decode() for key, value in data.items()}
    return {f"{ANNOTATIONS}{key}": text for key, text in texts.items()}
