"""Select the templates of a pod, render them, and merge what they render over the pod.

Follows ``RunTemplate``, ``selectTemplates`` and ``resolveAliases`` in pkg/kube/inject/inject.go (1.30.3).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from injector.errors import AnnotationError, ConfigError, DataError, OverlayError
from injector.injection import containers as c
from injector.istio.annotations import annotation_fault
from injector.istio.behaviours import NEWEST, missing_fields
from injector.istio.labels import NATIVE_SIDECAR, TEMPLATES
from injector.kube.overlay import Overlay, read_overlay

if TYPE_CHECKING:
    from injector.istio.revision import Revision
    from injector.istio.template import Template, TemplateData

GATEWAY_TEMPLATE: Final = "gateway"
"""The name of the template of injected gateways, such as those of the chart istio/gateway."""
MOST_VALUES: Final = 20_000
"""Values in what a template renders, keys included; the largest of Istio's render 500."""
_MOST_TEMPLATES: Final = 32
"""Templates for one pod. Istio has seven, and pods name two or three."""
UNREADABLE: Final = "failed parsing generated injected YAML (check Istio sidecar injector configuration)"


@dataclass(frozen=True, slots=True)
class Rendered:
    """The pod with all overlays, and the overlays alone as a pod."""

    merged: c.Pod
    template: c.Pod


def select_templates(revision: Revision, pod: c.Pod, defaults: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of the templates for ``pod``: those of its annotation or ``defaults``, aliases expanded once.

    Raises AnnotationError if the pod asks for so many that rendering them would take long.
    """
    requested = c.annotations_of(pod).get(TEMPLATES)
    names = defaults if requested is None else tuple(name.strip() for name in requested.split(","))
    if len(names) > _MOST_TEMPLATES:
        raise AnnotationError(
            f"more than {_MOST_TEMPLATES} templates",
            where=f"metadata.annotations[{TEMPLATES}]",
            hint="name each template once",
        )
    aliases = revision.config.aliases
    return tuple(target for name in names for target in aliases.get(name, (name,)))


@dataclass(frozen=True, slots=True)
class OverlayTemplates:
    """The templates that one pod gets, each of which renders an overlay: a part of a Pod.

    ``pod`` is the pod before injection. ``native`` is whether the proxy is a native sidecar by configuration, which the pod's annotation
    overrides.
    """

    revision: Revision
    pod: c.Pod
    names: tuple[str, ...]
    native: bool = False

    def render(self, data: TemplateData) -> list[str]:
        """Return the text that each template renders.

        Raises AnnotationError if the pod asks for an unknown template, and TemplateRenderError if one fails.
        """
        return [self._template(name).render(data) for name in self.names]

    def read(self, texts: list[str]) -> list[Overlay]:
        """Return the overlays of rendered texts. Raises OverlayError if a text is not a YAML mapping."""
        return [self._read(name, text) for name, text in zip(self.names, texts, strict=True)]

    def trees(self, overlays: list[Overlay]) -> Any:
        """Return the JSON data of overlays."""
        return [overlay.tree for overlay in overlays]

    def merge(self, overlays: list[Overlay]) -> Rendered:
        """Merge the overlays over the pod, one after the other. Raises OverlayError if one is not an overlay of a pod."""
        merged = self.pod
        template: c.Pod = {"spec": {"containers": None}}  # as Go encodes an empty pod
        for name, overlay in zip(self.names, overlays, strict=True):
            template = self._apply(name, template, overlay)
            if self._is_native(merged):
                merged = _proxy_among_init(merged, template)
            merged = self._apply(name, merged, overlay)
        return Rendered(merged, template)

    def _template(self, name: str) -> Template:
        template = self.revision.templates.get(name)
        if template is not None:
            return template
        known = ", ".join(sorted(self.revision.templates))
        what = f'requested template "{name}" not found; have {known}'
        if TEMPLATES in c.annotations_of(self.pod):
            where = f"metadata.annotations[{TEMPLATES}]"
            raise AnnotationError(what, where=where, hint=f"name templates of revision {self.revision.name}")
        where = f"{self.revision.origin}: defaultTemplates"
        raise ConfigError(what, where=where, hint="name a template that `templates` holds")

    def _read(self, name: str, text: str) -> Overlay:
        """Read a rendered text, without the fields that the minor does not know. A Jinja2 revision may render any field."""
        where = f"revision {self.revision.name}, template {name}"
        missing = None if self.revision.engine == "jinja2" else missing_fields(self.revision.minor)
        try:
            overlay = read_overlay(text, "v1.Pod", missing, where=f"{where}, rendered text", most=MOST_VALUES)
        except DataError as error:
            raise OverlayError(
                f"{UNREADABLE}: {error.what}", where=error.where or where, hint=overlay_hint(self.pod)
            ) from error
        if overlay is None:
            hint = "a template renders a part of a Pod"
            raise OverlayError("the rendered text is not a mapping", where=where, hint=hint)
        return overlay

    def _apply(self, name: str, pod: c.Pod, overlay: Overlay) -> c.Pod:
        try:
            return overlay.merge_over(pod)
        except DataError as error:
            where = f"revision {self.revision.name}, template {name}"
            hint = overlay_hint(self.pod)
            raise OverlayError(f"failed applying injection overlay: {error.what}", where=where, hint=hint) from error

    def _is_native(self, merged: c.Pod) -> bool:
        behaviours, native = self.revision.behaviours, self.native
        if behaviours.native_sidecar_annotation:
            native = {"true": True, "false": False}.get(c.annotations_of(merged).get(NATIVE_SIDECAR, ""), native)
        return native and behaviours.sidecar_among_init


def overlay_hint(pod: c.Pod) -> str:
    """Return the remedy for an overlay that is not valid: the annotations of the pod that the newest Istio would refuse."""
    faulty = [name for name, value in c.annotations_of(pod).items() if annotation_fault(name, value, NEWEST)]
    if faulty:
        return f"correct the annotation {' and '.join(sorted(faulty))} of the pod"
    return "look at the annotations that the template inserts into its text"


def _proxy_among_init(merged: c.Pod, template: c.Pod) -> c.Pod:
    """Move the user's own istio-proxy to the list in which the template has it, so that the two merge.

    A native sidecar is an init container, while the user customises it among the containers. If an earlier injection left a proxy in
    both lists, nothing moves: one list would have two containers of one name, and neither would be complete.
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
