"""Select the templates of a pod, render them, and lay them over the pod.

Follows ``RunTemplate``, ``selectTemplates`` and ``resolveAliases`` in pkg/kube/inject/inject.go (1.30.3).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from injector.errors import AnnotationError, ConfigError, DataError, OverlayError
from injector.injection import containers as c
from injector.istio.behaviours import missing_fields
from injector.kube.overlay import Overlay, read_overlay

if TYPE_CHECKING:
    from collections.abc import Sequence

    from injector.istio.revision import Revision
    from injector.istio.template import Template, TemplateData

TEMPLATES: Final = "inject.istio.io/templates"
MOST_VALUES: Final = 20_000
"""Values in what a template renders, keys included; the largest of Istio's render 500."""
_MOST_TEMPLATES: Final = 32
NATIVE_SIDECAR: Final = "sidecar.istio.io/nativeSidecar"


@dataclass(frozen=True, slots=True)
class Rendered:
    """What templates came to.

    ``merged``: the pod with all overlays; ``template``: the overlays alone, as a pod; ``names``: the templates run.
    """

    merged: c.Pod
    template: c.Pod
    names: tuple[str, ...]


def select_templates(revision: Revision, pod: c.Pod, defaults: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of the templates for ``pod``: those of its annotation or ``defaults``, aliases expanded once.

    Raises:
        AnnotationError: the pod asks for so many that rendering them would take long.
    """
    asked = c.annotations_of(pod).get(TEMPLATES)
    names = defaults if asked is None else tuple(name.strip() for name in asked.split(","))
    if len(names) > _MOST_TEMPLATES:
        raise AnnotationError(
            f"more than {_MOST_TEMPLATES} templates",
            where=f"metadata.annotations[{TEMPLATES}]",
            hint="name each template once",
        )
    aliases = revision.config.aliases
    return tuple(target for name in names for target in aliases.get(name, (name,)))


def apply_overlays(
    revision: Revision, pod: c.Pod, names: tuple[str, ...], overlays: Sequence[Overlay], *, native: bool
) -> Rendered:
    """Merge the overlays of the templates ``names`` over ``pod``, one after the other.

    ``native`` is whether the proxy is a native sidecar by configuration; the pod's annotation overrides it.

    Raises:
        OverlayError: one of them is not an overlay of a pod.
    """
    merged = pod
    template: c.Pod = {}
    for name, overlay in zip(names, overlays, strict=True):
        template = _applied(revision, name, template, overlay)
        if _native(revision, merged, native=native):
            merged = _proxy_among_init(merged, template)
        merged = _applied(revision, name, merged, overlay)
    return Rendered(merged, template, names)


def overlays_of(revision: Revision, pod: c.Pod, data: TemplateData, names: tuple[str, ...]) -> list[Overlay]:
    """Return the overlay that each of the templates ``names``, which ``pod`` asks for or gets, renders for ``data``.

    Raises:
        AnnotationError: the pod asks for a template that the revision does not have.
        TemplateRenderError: a template fails.
        OverlayError: the rendered text is not a YAML mapping.
    """
    return [_read(revision, name, _template(revision, pod, name).render(data)) for name in names]


def _native(revision: Revision, merged: c.Pod, *, native: bool) -> bool:
    behaviours = revision.behaviours
    if behaviours.native_sidecar_annotation:
        native = {"true": True, "false": False}.get(c.annotations_of(merged).get(NATIVE_SIDECAR, ""), native)
    return native and behaviours.sidecar_among_init


def _template(revision: Revision, pod: c.Pod, name: str) -> Template:
    template = revision.templates.get(name)
    if template is not None:
        return template
    known = ", ".join(sorted(revision.templates))
    what = f'requested template "{name}" not found; have {known}'
    if TEMPLATES in c.annotations_of(pod):
        where = f"metadata.annotations[{TEMPLATES}]"
        raise AnnotationError(what, where=where, hint=f"name templates of revision {revision.name}")
    raise ConfigError(what, where=f"{revision.origin}: defaultTemplates", hint="name a template that `templates` holds")


def _read(revision: Revision, name: str, text: str) -> Overlay:
    """Read a rendered text, without the fields that the minor does not know. A Jinja2 revision may render any field."""
    where = f"revision {revision.name}, template {name}"
    missing = None if revision.engine == "jinja2" else missing_fields(revision.minor)
    try:
        overlay = read_overlay(text, "v1.Pod", missing, where=f"{where}, rendered text", most=MOST_VALUES)
    except DataError as error:
        raise OverlayError(
            f"failed parsing generated injected YAML (check Istio sidecar injector configuration): {error.what}",
            where=error.where or where,
            hint="look at the annotations that the template pastes into its text",
        ) from error
    if overlay is None:
        raise OverlayError("the rendered text is not a mapping", where=where, hint="a template renders a part of a Pod")
    return overlay


def _applied(revision: Revision, name: str, pod: c.Pod, overlay: Overlay) -> c.Pod:
    try:
        return overlay.over(pod)
    except DataError as error:
        raise OverlayError(
            f"failed applying injection overlay: {error.what}",
            where=f"revision {revision.name}, template {name}",
            hint="look at the annotations that the template pastes into its text",
        ) from error


def _proxy_among_init(merged: c.Pod, template: c.Pod) -> c.Pod:
    """Move the user's own istio-proxy to where the template has it, so that the two merge.

    A native sidecar stands among the init containers, while the user's customisation stands among the containers. Where an earlier
    injection left a proxy in both lists, nothing moves: two of one name would stand in one list, and neither be whole.
    """
    own = c.find(c.PROXY, c.containers_of(merged))
    if own is None or c.find(c.PROXY, c.containers_of(template, "initContainers")) is None:
        return merged
    if c.find(c.PROXY, c.containers_of(merged, "initContainers")) is not None:
        return merged
    items = c.containers_of(merged)
    index = items.index(own)
    return c.with_spec(
        merged,
        containers=[*items[:index], *items[index + 1 :]],
        initContainers=[*c.containers_of(merged, "initContainers"), own],
    )
