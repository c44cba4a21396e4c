"""Tags as annotations of their MutatingWebhookConfiguration, beside the label ``istio.io/rev`` that Istio itself reads.

::

    revision-injector/weights: '{"1-24": 90, "1-30": 10}'
    revision-injector/salt: spring
    revision-injector/shadow: '{"revision": "1-30", "sample": 25}'

The label names the revision with the largest weight, so that istioctl and Istio's charts see where the tag leads. An
annotation without a text says nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from injector.cluster.webhooks import ANNOTATIONS
from injector.errors import ConfigError, DataError
from injector.istio.webhooks import REVISION_LABEL
from injector.kube.serial import dump_json, load_json
from injector.revisions.names import checked_name
from injector.revisions.tags import Tag, read_tag

if TYPE_CHECKING:
    from injector.cluster.webhooks import TagWebhook

WEIGHTS: Final = f"{ANNOTATIONS}weights"
SALT: Final = f"{ANNOTATIONS}salt"
SHADOW: Final = f"{ANNOTATIONS}shadow"

_OBJECTS: Final = {WEIGHTS: '{"1-24": 90, "1-30": 10}', SHADOW: '{"revision": "1-30", "sample": 25}'}
"""The annotations that hold a JSON object, and what one looks like."""


def tag_annotations(tag: Tag) -> dict[str, str]:
    """Return the annotations of a tag; none where the label says it all."""
    found: dict[str, str] = {}
    if len(tag.weights) > 1:
        found[WEIGHTS] = dump_json(dict(tag.weights)).decode()
    if tag.salt:
        found[SALT] = tag.salt
    if tag.shadow is not None:
        found[SHADOW] = dump_json({"revision": tag.shadow.revision, "sample": tag.shadow.sample}).decode()
    return found


def annotated_tag(webhook: TagWebhook) -> tuple[Tag, ConfigError | None]:
    """Return the tag of an object, and what is wrong with it where it can be served nevertheless.

    Weights that do not lead where the label does are older than the label, which istioctl moves alone: they do not
    count, and that is said.

    Raises:
        DataError: a name or an annotation cannot be used.
    """
    where = f"MutatingWebhookConfiguration {webhook.name}"
    name = checked_name(webhook.tag, where=where, kind="tag")
    revision = checked_name(webhook.revision, where=f"{where}: label {REVISION_LABEL}")
    read = {key: _read(webhook, key, where) for key in (WEIGHTS, SALT, SHADOW) if webhook.annotations.get(key)}
    rest = {key.removeprefix(ANNOTATIONS): value for key, value in read.items() if key != WEIGHTS}
    alone = read_tag(name, {"revision": revision, **rest}, where)
    if WEIGHTS not in read:
        return alone, None
    tag = read_tag(name, {"weights": read[WEIGHTS], **rest}, where)
    return (tag, None) if tag.revision == revision else (alone, _stale(tag, revision, where))


def _read(webhook: TagWebhook, key: str, where: str) -> Any:
    text = webhook.annotations[key]
    if key not in _OBJECTS:
        return text
    try:
        found = load_json(text)
    except DataError:
        found = None
    if not isinstance(found, dict) or not found:
        raise ConfigError("it is no JSON object", where=f"{where}: {key}", hint=f"write it as '{_OBJECTS[key]}'")
    return found


def _stale(tag: Tag, revision: str, where: str) -> ConfigError:
    return ConfigError(
        f"label {REVISION_LABEL} leads to `{revision}`, the weights mostly to `{tag.revision}`: they do not count",
        where=f"{where}: {WEIGHTS}",
        hint=f"say `injector tag set {tag.name} --overwrite` with the weights that you want",
    )
