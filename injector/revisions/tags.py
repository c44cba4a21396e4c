"""Tags: names for revisions, as ``revisions/tags.yaml`` holds them.

::

    prod: 1-24
    canary: {1-24: 90, 1-30: 10}
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from injector.errors import ConfigError
from injector.kube.serial import load_yaml
from injector.revisions.source import checked_name

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

DEFAULT_TAG: Final = "default"


@dataclass(frozen=True, slots=True)
class Tag:
    """A name for one revision, or for several by weight.

    ``weights`` keeps the order of the file; a weight of 0 is kept too, since it says that a revision is meant to get
    no share.
    """

    name: str
    weights: tuple[tuple[str, int], ...]

    @property
    def revision(self) -> str:
        """The revision with the largest weight, the first of equals."""
        return max(self.weights, key=lambda pair: pair[1])[0]

    @property
    def targets(self) -> tuple[str, ...]:
        """Every revision that it names."""
        return tuple(name for name, _ in self.weights)


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
    return {checked_name(name, where=where, kind="tag"): _tag(name, target, where) for name, target in raw.items()}


def usable_tags(tags: Mapping[str, Tag], revisions: Collection[str]) -> tuple[dict[str, Tag], tuple[ConfigError, ...]]:
    """Return those of ``tags`` that lead somewhere, and what is wrong with the others.

    A tag may not hide a revision of its name: requests for that one could not reach it. ``default`` may, since that
    is the very way to say which revision is the default.
    """
    faults = {name: fault for name, tag in tags.items() if (fault := _fault(tag, revisions)) is not None}
    return {name: tag for name, tag in tags.items() if name not in faults}, tuple(faults.values())


def _fault(tag: Tag, revisions: Collection[str]) -> ConfigError | None:
    missing = [name for name in tag.targets if name not in revisions]
    if missing:
        return ConfigError(
            f"it names `{'`, `'.join(missing)}`, which is not served",
            where=f"tag `{tag.name}`",
            hint="add the revision, or move the tag",
        )
    if tag.name in revisions and tag.name != DEFAULT_TAG:
        return ConfigError("a revision has the same name", where=f"tag `{tag.name}`", hint="rename the tag")
    return None


def _tag(name: str, target: Any, where: str) -> Tag:
    if isinstance(target, str):
        return Tag(name, ((checked_name(target, where=f"{where}: {name}"), 1),))
    if not isinstance(target, dict) or not target:
        raise ConfigError(
            f"tag `{name}` names no revision",
            where=where,
            hint=f"write `{name}: REVISION` or `{name}: {{REVISION: WEIGHT}}`; quote a name that reads as a number",
        )
    return Tag(
        name, tuple(_weighted(name, revision, weight, where) for revision, weight in _some_weight(target, where))
    )


def _weighted(tag: str, revision: str, weight: Any, where: str) -> tuple[str, int]:
    if isinstance(weight, bool) or not isinstance(weight, int) or weight < 0:
        raise ConfigError(
            f"the weight of `{revision}` in tag `{tag}` is {weight!r}",
            where=where,
            hint="make it a whole number from 0",
        )
    return checked_name(revision, where=f"{where}: {tag}"), weight


def _some_weight(target: Mapping[str, Any], where: str) -> list[tuple[str, Any]]:
    if all(weight == 0 for weight in target.values()):
        raise ConfigError("every weight of a tag is 0", where=where, hint="give one revision a weight")
    return list(target.items())
