"""What templates see of a pod, the texts in it that could break out of them, and the same pod without these."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from injector.injection import containers as c
from injector.injection.data import namespaced_name, template_data
from injector.istio.harmless import Harmless, harmless, inert, none_suspicious, suspicious, tamed
from injector.istio.meshconfig import apply_proxy_config
from injector.istio.meshfacts import mesh_facts
from injector.istio.sidebyside import decodes
from injector.kube.serial import dump_json, load_yaml

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from injector.injection.parameters import Parameters
    from injector.istio.meshfacts import MeshFacts
    from injector.istio.revision import Revision
    from injector.istio.template import TemplateData

Place = tuple[str | int, ...]
"""Where a text stands: keys and indices."""

PROXY_CONFIG: Final = "proxy.istio.io/config"
_ANNOTATION: Final[Place] = ("metadata", "annotations", PROXY_CONFIG)
_MAPS: Final = ("annotations", "labels")
_MAP_DEPTH: Final = 2
_MAX_SHOWN: Final = 200
_WORDS: Final = {"owner": "metadata of the workload", "workload": "the workload's"}


def rule_of(revision: Revision) -> Callable[[str], bool]:
    """Return which texts to suspect: those that show it, or all that are no plain names where a template decodes them."""
    return _not_inert if decodes(revision.templates) else suspicious


def _not_inert(text: str) -> bool:
    return bool(text) and not inert(text)


def document(params: Parameters, seen: c.Pod) -> dict[str, Any]:
    """Return what templates see of ``seen``, the pod, and of its workload."""
    workload = params.workload
    told = {
        "name": workload.name,
        "namespace": workload.namespace,
        "kind": workload.kind,
        "apiVersion": workload.api_version,
    }
    found = {"metadata": seen.get("metadata") or {}, "spec": seen.get("spec") or {}, "workload": told}
    return found if namespaced_name(params.revision) else {**found, "owner": params.owner_meta}


def suspects(found: dict[str, Any], suspect: Callable[[str], bool]) -> list[Place]:
    """Return the places of texts to suspect in a document, by their keys or by themselves."""
    if suspect is suspicious and none_suspicious(texts_of(found)):
        return []
    return list(_suspects(found, suspect, ()))


def texts_of(found: dict[str, Any]) -> list[str]:
    """Return all texts and keys of a document."""
    texts: list[str] = []
    waiting: list[Any] = [found]
    for item in waiting:
        if type(item) is dict:
            texts += item
            waiting += item.values()
        elif type(item) is list:
            waiting += item
        elif type(item) is str:
            texts.append(item)
    return texts


def _suspects(value: Any, suspect: Callable[[str], bool], place: Place) -> Iterator[Place]:
    if isinstance(value, str):
        if suspect(value):
            yield place
    elif isinstance(value, dict):
        for key, item in value.items():
            if isinstance(item, str):
                if suspect(item) or suspicious(key):
                    yield (*place, key)
            elif item:
                if suspicious(key):
                    yield (*place, key)
                yield from _suspects(item, suspect, (*place, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _suspects(item, suspect, (*place, index))


def without(value: Any, chosen: frozenset[Place], place: Place = (), *, gone: bool = False) -> Any:
    """Return data with harmless texts at the places ``chosen``; with ``gone``, without the annotations and labels there."""
    if isinstance(value, dict):
        found = {}
        for key, item in value.items():
            inner = (*place, key)
            if gone and inner in chosen and _in_map(inner):
                continue
            found[harmless(key) if inner in chosen and suspicious(key) else key] = without(
                item, chosen, inner, gone=gone
            )
        return found
    if isinstance(value, list):
        return [without(item, chosen, (*place, index), gone=gone) for index, item in enumerate(value)]
    if not isinstance(value, str) or place not in chosen:
        return value
    return Harmless.of(value) if _in_map(place) else harmless(value)


def pasted(found: dict[str, Any], places: Iterable[Place]) -> frozenset[str]:
    """Return the harmless texts for those at the places in a document, but for those that are a single letter."""
    texts = (harmless(text) for place in places if isinstance(text := _at(found, place), str))
    return frozenset(text for text in texts if len(text) > 1)


def _at(found: Any, place: Place) -> Any:
    for part in place:
        found = found[part]
    return found


def _in_map(place: Place) -> bool:
    return len(place) > _MAP_DEPTH and place[1] in _MAPS


def harmless_data(params: Parameters, seen: c.Pod, chosen: frozenset[Place], *, gone: bool = False) -> TemplateData:
    """Return the template data of a pod with harmless texts at the places ``chosen``.

    Raises:
        DataError: with them its annotation ``proxy.istio.io/config`` is no ProxyConfig.
    """
    found = without(document(params, seen), chosen, gone=gone)
    told, overlaid = found["workload"], params.proxy_config
    workload = replace(
        params.workload,
        name=told["name"],
        namespace=told["namespace"],
        kind=told["kind"],
        api_version=told["apiVersion"],
    )
    if _ANNOTATION in chosen and overlaid is not params.revision.mesh:
        overlaid = _harmless_mesh(params, gone=gone)
    in_data = overlaid if params.mesh_in_data is params.proxy_config else params.mesh_in_data
    changed = replace(
        params,
        workload=workload,
        owner_meta=found.get("owner", params.owner_meta),
        proxy_config=overlaid,
        mesh_in_data=in_data,
    )
    return template_data(changed, {**seen, "metadata": found["metadata"], "spec": found["spec"]})


def _harmless_mesh(params: Parameters, *, gone: bool) -> MeshFacts:
    revision = params.revision
    if gone:
        return revision.mesh
    text = dump_json(tamed(load_yaml(c.annotations_of(params.pod)[PROXY_CONFIG]))).decode()
    return mesh_facts(apply_proxy_config(text, revision.mesh.mesh_config, revision.minor))


def shown_place(place: Place) -> str:
    """Return a place in words, without any text that could be of a value."""
    words = _WORDS.get(str(place[0]))
    text = f"{words} " if words else str(place[0])
    for index, part in enumerate(place[1:], 1):
        if isinstance(part, int):
            text += f"[{part}]"
        elif index == _MAP_DEPTH and place[1] in _MAPS:
            text += f"[{harmless(part) if suspicious(part) else part}]"
        else:
            name = harmless(part) if suspicious(part) else part
            text += name if text.endswith(" ") else f".{name}"
    return text[:_MAX_SHOWN]
