"""What setting a tag of a cluster comes to: the object to write, and what speaks against it.

Follows Istio 1.30.3, istioctl/pkg/tag/generate.go and util.go, with the injector's own Service and path ``/inject/<tag>``.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from injector.cluster.webhooks import ANNOTATIONS, REVISION_MANAGER, TAG_MANAGER, emptied, over
from injector.errors import ConfigError, TagError
from injector.istio.webhooks import (
    DEFAULT_NAME,
    REVISION_LABEL,
    TAG_LABEL,
    WebhookOptions,
    deactivated,
    is_deactivated,
    options_of,
    overlaps,
    tag_webhook,
)
from injector.revisions.tagannotations import tag_annotations

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from injector.errors import DataError
    from injector.revisions.tags import Tag

_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
"""What kubectl applied to the object that is copied from; on another object it would mislead kubectl."""


@dataclass(frozen=True, slots=True)
class Placement:
    """How a tag's object is made.

    Args:
        chosen: the options of its webhooks, given those that it, or else its revision's configuration, has now.
        name: the object's name, where it is not Istio's own.
        trusts: whether a new one trusts the caBundle of its revision's configuration, where both are the same server.
    """

    chosen: Callable[[WebhookOptions], WebhookOptions] = lambda options: options
    name: str | None = None
    trusts: bool = True


@dataclass(frozen=True, slots=True)
class Plan:
    """What writing a tag comes to.

    Args:
        manifest: the tag's object.
        current: what is there of it.
        options: what it was made with.
        conflicts: what speaks against it, a line each.
        deactivation: what ends the webhooks of the default revision, where the tag takes its place.
    """

    manifest: dict[str, Any]
    current: dict[str, Any] | None
    options: WebhookOptions
    conflicts: tuple[str, ...]
    deactivation: dict[str, Any] | None

    @property
    def moves(self) -> bool:
        """Whether the tag is there already, and fields that others manage are taken over."""
        return self.current is not None

    @property
    def applied(self) -> dict[str, Any]:
        """The manifest as the manager of tags applies it over what is there."""
        return over(self.manifest, self.current, manager=TAG_MANAGER)


@dataclass(frozen=True, slots=True)
class Configurations:
    """The MutatingWebhookConfigurations of a cluster at one moment."""

    items: tuple[dict[str, Any], ...] = ()

    def named(self, name: str) -> dict[str, Any] | None:
        """Return the one of that name."""
        return next((each for each in self.items if _name(each) == name), None)

    def of_tag(self, name: str) -> list[dict[str, Any]]:
        """Return those of a tag."""
        return [each for each in self.items if _labels(each).get(TAG_LABEL) == name]

    def of_revision(self, name: str) -> list[dict[str, Any]]:
        """Return those of a revision; a tag's are none of them."""
        return [each for each in self._of_revisions() if _labels(each)[REVISION_LABEL] == name]

    def revisions(self) -> tuple[set[str], dict[str, DataError]]:
        """Return the revisions that have one, and what is wrong with those that have several."""
        counted = Counter(name for each in self._of_revisions() if (name := _labels(each)[REVISION_LABEL]))
        several: dict[str, DataError] = {name: self.several(name) for name, count in counted.items() if count > 1}
        return counted.keys() - several.keys(), several

    def several(self, revision: str) -> ConfigError:
        """Return the error of a revision that has several."""
        objects = ", ".join(map(_name, self.of_revision(revision)))
        what = f'found multiple canonical webhooks or services with revision "{revision}": {objects}'
        return ConfigError(what, hint="delete all but one")

    def _of_revisions(self) -> list[dict[str, Any]]:
        return [each for each in self.items if REVISION_LABEL in _labels(each) and TAG_LABEL not in _labels(each)]


def planned(tag: Tag, seen: Configurations, placement: Placement) -> Plan:
    """Return what writing ``tag`` comes to in a cluster that has these configurations.

    Raises:
        TagError: the object's name is another's, or there is more than one object to change.
    """
    current, replaced = _current(tag.name, seen, placement), _replaced(tag.name, seen)
    canonical = next(iter(seen.of_revision(tag.revision)), None)
    options, annotations = _derived(tag, current, canonical, placement)
    manifest = tag_webhook(
        tag.name,
        tag.revision,
        options,
        webhook_name=placement.name if current is None else _name(current),
        annotations=annotations,
    )
    if current is None:
        _check_free(_name(manifest), seen)
    others = [each for each in seen.items if each is not current and each is not replaced]
    return Plan(manifest, current, options, overlaps(manifest, others), None if replaced is None else _never(replaced))


def _derived(
    tag: Tag, current: dict[str, Any] | None, canonical: dict[str, Any] | None, placement: Placement
) -> tuple[WebhookOptions, dict[str, str]]:
    """Return the options and the annotations of a tag's object.

    Both are taken from the revision's configuration, as istioctl does, where that one sends its pods here; a tag that
    moves stays where it sends its pods.
    """
    mine = None if current is None else options_of(current, tag.name)
    theirs = None if canonical is None else options_of(canonical, tag.revision)
    options = placement.chosen(mine or theirs or WebhookOptions())
    own = emptied(tag_annotations(tag), current, manager=TAG_MANAGER, prefix=ANNOTATIONS)
    if canonical is not None and theirs is not None:
        if placement.trusts and current is None and not options.ca_bundle and options.endpoint == theirs.endpoint:
            options = replace(options, ca_bundle=_bundle(canonical))
        return options, {**_copied(canonical), **own}
    return options, {**(_copied(current) if current is not None and mine is not None else {}), **own}


def planned_revision(manifest: dict[str, Any], seen: Configurations) -> dict[str, Any]:
    """Return a revision's configuration as the manager of revisions applies it.

    Raises:
        TagError: what has its name is not that revision's.
    """
    current = seen.named(_name(manifest))
    if current is not None and current not in seen.of_revision(_labels(manifest)[REVISION_LABEL]):
        raise TagError(
            f"MutatingWebhookConfiguration {_name(manifest)} is there, and is not this revision's",
            hint="rename or delete that one",
        )
    return over(manifest, current, manager=REVISION_MANAGER)


def _current(tag: str, seen: Configurations, placement: Placement) -> dict[str, Any] | None:
    """Return the object of a tag that is there already."""
    found = [_name(each) for each in seen.of_tag(tag)]
    if len(found) > 1:
        raise TagError(
            f'cannot modify tag "{tag}": several MutatingWebhookConfigurations have it: {", ".join(found)}',
            hint="delete all but one",
        )
    if found and placement.name not in (None, *found):
        raise TagError(
            f'cannot modify tag "{tag}": it is in MutatingWebhookConfiguration {found[0]}',
            hint="leave out --webhook-name, or remove the tag first",
        )
    return next(iter(seen.of_tag(tag)), None)


def _check_free(name: str, seen: Configurations) -> None:
    if seen.named(name) is not None:
        raise TagError(
            f"MutatingWebhookConfiguration {name} is there, and is not this tag's", hint="give another --webhook-name"
        )


def _replaced(tag: str, seen: Configurations) -> dict[str, Any] | None:
    """Return the default revision's configuration, where the tag takes its place and it is still active."""
    found = seen.of_revision(DEFAULT_NAME) if tag == DEFAULT_NAME else []
    if len(found) > 1:
        raise TagError("expected a single webhook for default revision", hint=str(seen.several(DEFAULT_NAME)))
    return found[0] if found and not is_deactivated(found[0]) else None


def _never(configuration: Mapping[str, Any]) -> dict[str, Any]:
    """Return what deactivates a configuration, and says nothing else of it."""
    webhooks = [{"name": webhook["name"]} for webhook in configuration["webhooks"]]
    version = configuration["metadata"]["resourceVersion"]
    return deactivated({"metadata": {"name": _name(configuration), "resourceVersion": version}, "webhooks": webhooks})


def _labels(configuration: Mapping[str, Any]) -> Mapping[str, str]:
    return configuration["metadata"].get("labels") or {}


def _name(configuration: Mapping[str, Any]) -> str:
    return str(configuration["metadata"]["name"])


def _copied(configuration: Mapping[str, Any]) -> dict[str, str]:
    """Return the annotations of a configuration that are not that object's alone: those of cert-manager, say."""
    annotations = configuration["metadata"].get("annotations") or {}
    return {key: text for key, text in annotations.items() if key != _LAST_APPLIED and not key.startswith(ANNOTATIONS)}


def _bundle(configuration: Mapping[str, Any]) -> str | None:
    bundles = (webhook["clientConfig"].get("caBundle") for webhook in configuration["webhooks"])
    return next((bundle for bundle in bundles if bundle), None)
