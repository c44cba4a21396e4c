"""Remarks about a revision whose pods the API server accepts, although they hardly do what its author meant.

They are about what the templates rendered for built-in pods, and about the config. None keeps a revision from being served.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from injector.gotemplate.fmt import sprint
from injector.injection.containers import ISTIOS, containers_of
from injector.injection.tools.pitfalls import invalid_images
from injector.istio.chartvalues import unknown_values

if TYPE_CHECKING:
    from injector.injection.result import Injected
    from injector.istio.revision import Revision

_PRINTED: Final = ("%!", "<no value>", "<nil>")
"""Go prints one of these for a value of a wrong type, or without a value."""
_LARGE: Final = 1e6


def remarks(revision: Revision, results: Iterable[Injected]) -> Iterator[str]:
    """Yield the remarks about a revision and the built-in pods that it injected."""
    yield from (f"config: {fault}" for _, fault in revision.config.policy.faults)
    yield from unknown_values(revision.values.tree, revision.minor, revision.config.templates.values())
    for result in results:
        pod = result.shared_pod
        for field, image, fault in invalid_images(pod):
            yield f"the image {image!r} of {field} is not valid, and the kubelet refuses it: {fault}"
        texts = dict(_rendered_texts(pod))
        yield from _odd_texts(texts)
        if revision.engine == "go":
            yield from _printed_values(revision.template_values, texts)


def _rendered_texts(pod: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the texts of Istio's containers, and of labels and annotations, each after its path."""
    for kind in ("initContainers", "containers"):
        for item in containers_of(pod, kind):
            if item.get("name") in ISTIOS:
                yield from _texts(item, f"spec.{kind}[{item['name']}]")
    for kind in ("labels", "annotations"):
        yield from _texts((pod.get("metadata") or {}).get(kind), f"metadata.{kind}")


def _texts(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _texts(item, f"{path}.{key}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _texts(item, f"{path}[{index}]")


def _odd_texts(texts: Mapping[str, str]) -> Iterator[str]:
    for path, text in texts.items():
        if any(printed in text for printed in _PRINTED):
            yield f"the template prints {text[:80]!r} into {path}: a value is missing or of a wrong type"


def _printed_values(values: Any, texts: Mapping[str, str]) -> Iterator[str]:
    """Yield the lists, mappings and large numbers of the values that are in a text as Go prints them."""
    for path, value in _walk_structures(values, ""):
        printed = sprint(value)
        place = next((place for place, text in texts.items() if printed in text), None)
        if place is not None:
            kind = "a mapping" if isinstance(value, dict) else "a list" if isinstance(value, list) else "a large number"
            yield f"values: {path} is {kind}, which the template prints as {printed[:80]!r} into {place}; write it as a text"


def _walk_structures(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict | list):
        if value and path:
            yield path, value
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in items:
            yield from _walk_structures(item, f"{path}.{key}".removeprefix("."))
    elif isinstance(value, float) and abs(value) >= _LARGE and "e" in sprint(value):
        yield path, value
