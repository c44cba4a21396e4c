"""Making a plan: one injection of a pod with tokens for its names, followed leaf by leaf.

A plan is kept only if it gives, for the pod that it was made for, the patch that the pipeline gives. It is refused where the overlays do
what has not been thought of: deletions, names made of the pod's own, parts of the pod's content in the patch.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from injector.errors import DataError
from injector.injection.data import namespaced_name, template_data
from injector.injection.pipeline import (
    finished,
    owner_meta,
    patched_object,
    rendered_overlays,
    webhook_parameters,
)
from injector.injection.plans import ANNOTATIONS, KINDS, Asked, Plan, asked, document, is_telling
from injector.istio.goview import string_struct
from injector.istio.jinja import JinjaTemplate
from injector.istio.jinjatracing import traced_jinja
from injector.istio.leaves import EXACT, Leaf, gather, inert, with_texts
from injector.istio.remembered import Remembered
from injector.istio.template import GoTextTemplate
from injector.istio.tracing import TOKEN, Trace, UntraceableError
from injector.kube.jsonpatch import create_patch
from injector.kube.serial import dump_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from injector.injection import containers as c
    from injector.injection.parameters import Parameters
    from injector.injection.plans import Plans
    from injector.injection.render import Rendered
    from injector.injection.result import Injected, RequestFacts
    from injector.istio.revision import Revision
    from injector.istio.template import Template, TemplateData
    from injector.kube.pods import WorkloadMeta

# The first round finds nearly all leaves of a template, each further one those that the overlay adds or that turn out exact.
_ROUNDS: Final = 12
_NAMED: Final = (*KINDS, "volumes")
# Texts with a syntax of their own, which would not be what they are with another text in their place.
_TYPED: Final = frozenset({"creationTimestamp", "deletionTimestamp", "divisor", "limits", "requests", "sizeLimit"})


class UnplannableError(Exception):
    """A pod or template that no plan can be made for."""


@dataclass(frozen=True, slots=True)
class _Round:
    """What one round found: the trace, the token of each slot, the overlays, and the patch as JSON."""

    trace: Trace
    tokens: tuple[str, ...]
    rendered: Rendered
    patch: bytes


def learn(plans: Plans, wanted: Asked, facts: RequestFacts, result: Injected) -> None:
    """Make a plan of a pod and its injection, if one can be made, and keep it."""
    try:
        leaves, plan = planned(plans.revision, plans.leaves, wanted, facts, result)
    except (UnplannableError, UntraceableError, DataError):
        return
    again = asked(plans.revision, leaves, wanted.pod, facts, wanted.workload)
    if again is not None and plan.patch(again.texts) == dump_json(result.patch):
        plans.keep(leaves, again.key, plan)


def planned(
    revision: Revision, leaves: Leaf, wanted: Asked, facts: RequestFacts, result: Injected
) -> tuple[Leaf, Plan]:
    """Return a plan of a pod, and the leaves that it depends on.

    Raises:
        UnplannableError: the overlays do what a plan cannot tell.
        UntraceableError: a template does.
        DataError: a round fails where the injection did not.
    """
    known, patch = leaves, dump_json(result.patch)
    for _ in range(_ROUNDS):
        found = _round(revision, Trace(known.copy(), patch), wanted, facts)
        _note_overlays(found)
        _note_quantities(found)
        if not found.trace.changed:
            return known, _plan(found, wanted, result)
        known = found.trace.leaves
    raise UnplannableError("its leaves are without end")


def _round(revision: Revision, trace: Trace, wanted: Asked, facts: RequestFacts) -> _Round:
    """Inject the pod with tokens in its slots and other texts in all that nobody reads."""
    leaves = trace.leaves
    slots: dict[str, int] = {}
    gather(leaves, document(revision, wanted.pod, wanted.workload), [], slots)
    tokens = {text: trace.token(text) for text in slots}
    secret = secrets.token_hex(8)
    others = (f"{secret}-{number}" for number in count())
    spec = _masked(with_texts(leaves.part("spec"), wanted.pod["spec"], tokens), leaves.part("spec"), others)
    meta = wanted.pod["metadata"]
    meta = _masked(
        with_texts(leaves.part("metadata"), meta, tokens), _with_telling(leaves.part("metadata"), meta), others
    )
    told = {"name": wanted.workload.name, "namespace": wanted.workload.namespace}
    workload = replace(wanted.workload, **with_texts(leaves.part("workload"), told, tokens))
    if "namespace" in meta:  # a pod template has none, though its workload does
        meta = {**meta, "namespace": workload.namespace}
    pod = {**wanted.pod, "metadata": meta, "spec": spec}
    params = _parameters(revision, pod, workload, facts)
    traced = {name: _traced(template, trace) for name, template in revision.templates.items()}
    params = replace(params, revision=replace(revision, templates=traced, overlays=Remembered()))
    rendered = rendered_overlays(params, _data(params, trace))
    patch = dump_json(create_patch(patched_object(pod), finished(params, rendered)))
    if not trace.changed and secret.encode() in patch:
        raise UnplannableError("the patch repeats what the pod holds")
    return _Round(trace, tuple(tokens.values()), rendered, patch)


def _with_telling(leaf: Leaf, meta: dict[str, Any]) -> Leaf:
    """Return the leaves of a pod's metadata with those annotations that count whether a template reads them or not."""
    annotations = leaf.part(ANNOTATIONS)
    telling = dict.fromkeys(filter(is_telling, meta.get(ANNOTATIONS) or ()), EXACT)
    return Leaf(
        parts={**leaf.parts, ANNOTATIONS: Leaf(parts={**annotations.parts, **telling}, exact=annotations.exact)}
    )


def _parameters(revision: Revision, pod: c.Pod, workload: WorkloadMeta, facts: RequestFacts) -> Parameters:
    params = webhook_parameters(revision, pod, facts)
    return replace(params, workload=workload, owner_meta=owner_meta(revision, pod, workload))


def _traced(template: Template, trace: Trace) -> Template:
    if isinstance(template, JinjaTemplate):
        return traced_jinja(template, trace)
    if not isinstance(template, GoTextTemplate):
        raise UnplannableError("its template is of another engine")
    return GoTextTemplate(template.compiled.rebound(trace.function, trace.primitives()))


def _data(params: Parameters, trace: Trace) -> TemplateData:
    leaves, workload = trace.leaves, params.workload
    deployment: Any
    if namespaced_name(params.revision):
        told = trace.part(leaves, "workload")
        texts = {"Namespace": workload.namespace, "Name": workload.name}
        slots = {name: trace.text(trace.part(told, name.lower()), text) for name, text in texts.items()}
        deployment = string_struct("types.NamespacedName", **slots)
    else:
        deployment = trace.value("v1.ObjectMeta", dict(params.owner_meta), trace.part(leaves, "owner"))
    return template_data(params, params.pod).replaced(
        DeploymentMeta=deployment,
        ObjectMeta=trace.value("v1.ObjectMeta", params.pod["metadata"], trace.part(leaves, "metadata")),
        Spec=trace.value("v1.PodSpec", params.pod["spec"], trace.part(leaves, "spec")),
    )


def _masked(value: Any, leaf: Leaf | None, others: Iterator[str]) -> Any:
    """Return ``value`` with another text in place of each that is no leaf of ``leaf``."""
    if leaf is not None and (leaf.exact or not (leaf.parts or leaf.each)):
        return value
    if isinstance(value, dict):
        parts = {} if leaf is None else leaf.parts
        return {key: item if key in _TYPED else _masked(item, parts.get(key), others) for key, item in value.items()}
    if isinstance(value, list):
        return [_masked(item, None if leaf is None else leaf.each, others) for item in value]
    return next(others) if isinstance(value, str) and value else value


def _note_overlays(found: _Round) -> None:
    """Note what the overlays change of a pod: what was there before matters.

    Raises:
        UnplannableError: they delete, obey directives, or change more than labels, annotations and the spec.
    """
    trace = found.trace
    for overlay in found.rendered.overlays:
        if not overlay.keys() <= {"metadata", "spec"} or any(map(_is_odd(found.tokens), _keys(overlay))):
            raise UnplannableError("its overlay has keys of a kind that is not known")
        meta, spec = overlay.get("metadata") or {}, overlay.get("spec") or {}
        if not meta.keys() <= {"labels", ANNOTATIONS}:
            raise UnplannableError("its overlay changes the metadata")
        for kind, entries in meta.items():
            for name, value in (entries or {}).items():
                if value is None:
                    raise UnplannableError("its overlay deletes")
                trace.seen(trace.part(trace.part(trace.part(trace.leaves, "metadata"), kind), name))
        for name in spec.keys() - set(_NAMED):
            trace.seen(trace.part(trace.part(trace.leaves, "spec"), name))


def _note_quantities(found: _Round) -> None:
    """Note the quantities that are printed as part of a longer text: ``1`` and ``24Mi`` would be ``1Gi``."""
    annotations = found.trace.leaves.part("metadata").part(ANNOTATIONS)
    for token in found.tokens:
        if not inert(token) and found.patch.count(token.encode()) != found.patch.count(f'"{token}"'.encode()):
            for leaf in annotations.parts.values():
                if leaf.unit:
                    found.trace.seen(leaf)


def _is_odd(tokens: tuple[str, ...]) -> Callable[[str], bool]:
    return lambda key: key.startswith("$") or any(token in key for token in tokens)


def _keys(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield from value
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _keys(item)


def _plan(found: _Round, wanted: Asked, result: Injected) -> Plan:
    reserved = frozenset(found.trace.reserved | set(_added(found)))
    if not (reserved.isdisjoint(wanted.names) and reserved.isdisjoint(wanted.texts)):
        raise UnplannableError("the pod has a name that the templates know")
    numbers = {token.encode(): slot for slot, token in enumerate(found.tokens)}
    # A pattern of these very tokens would be compiled, and kept by ``re``, for each plan.
    places = [place for place in TOKEN.finditer(found.patch) if place[0] in numbers]
    begins, ends = [0, *(place.end() for place in places)], [*(place.start() for place in places), len(found.patch)]
    pieces = tuple(found.patch[begin:end] for begin, end in zip(begins, ends, strict=True))
    return Plan(pieces, tuple(numbers[place[0]] for place in places), reserved, result.templates, result.warnings)


def _added(found: _Round) -> Iterator[str]:
    """Yield the names of containers and volumes of the overlays.

    Raises:
        UnplannableError: one has none, or is named after the pod.
    """
    for overlay in found.rendered.overlays:
        for kind in _NAMED:
            items = (overlay.get("spec") or {}).get(kind, [])
            for item in items if isinstance(items, list) else [None]:
                name = item.get("name") if isinstance(item, dict) else None
                if not isinstance(name, str) or any(token in name for token in found.tokens):
                    raise UnplannableError("its overlay adds what has no name of its own")
                yield name
