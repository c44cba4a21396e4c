"""What a Jinja2 template reads of a pod, and which texts it only prints: ``tracing`` for the other engine.

The compiled code is that of any rendering; it runs in a sandbox whose hooks note what they are asked for. A text in a slot (``Text``)
stays one where it is printed, joined, quoted or put into JSON; whatever else looks into it makes its leaf count exactly. What Python does
with a text without a hook (compare, hash, iterate) ends the rendering, so that there is no plan rather than a wrong one.
"""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import jinja2
from jinja2.runtime import LoopContext

from injector.istio.jinjabudget import text_of, tick
from injector.istio.jinjadata import jinja_data, named_entries, pod_ports, resources
from injector.istio.jinjasandbox import Function, Sandbox
from injector.istio.jinjaviews import (
    ANNOTATIONS,
    Entries,
    Items,
    Text,
    bare_str,
    composed,
    has_views,
    listed,
    plain,
    text_view,
    untexted,
)
from injector.istio.leaves import INERT_LENGTH
from injector.istio.tracing import Slot, TracedStruct, UntraceableError, is_bare

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from injector.istio.jinja import JinjaTemplate
    from injector.istio.minor import Minor
    from injector.istio.template import TemplateData
    from injector.istio.tracing import Trace


def traced_jinja(template: JinjaTemplate, trace: Trace) -> JinjaTemplate:
    """Return the template as one that notes what it reads."""
    environment = template.compiled.environment
    if not isinstance(environment, Sandbox):
        raise UntraceableError("a template of another environment")
    compiled = _Tracing(environment, trace).load(template.name)
    return replace(template, compiled=compiled, seen=functools.partial(_seen, trace))


def _seen(trace: Trace, data: TemplateData, minor: Minor) -> dict[str, Any]:
    """Return what templates see, of the pod in views; compare ``jinja_data``."""
    seen = jinja_data(data, minor)
    metadata, spec = data.field("ObjectMeta"), data.field("Spec")
    if not (isinstance(metadata, TracedStruct) and isinstance(spec, TracedStruct)):
        raise UntraceableError("a pod without views")
    meta, of_spec = Entries(trace, metadata.leaf, metadata.data), Entries(trace, spec.leaf, spec.data)
    annotations, labels = (
        Entries(trace, trace.part(metadata.leaf, key), metadata.data.get(key) or {}, exact=key == ANNOTATIONS)
        for key in (ANNOTATIONS, "labels")
    )
    containers = Items(trace, trace.part(spec.leaf, "containers"), spec.data.get("containers") or [])
    return {
        **seen,
        "pod": {"metadata": meta, "spec": of_spec},
        ANNOTATIONS: annotations,
        "labels": labels,
        "annotation": annotations.get,
        "label": labels.get,
        "containers": containers,
        "pod_ports": lambda: pod_ports(containers.part("ports")),
        "resources": lambda default: resources(annotations, default),  # type: ignore[arg-type] # it asks for keys alone
        "named_entries": lambda name: named_entries(annotations.only(name), name),
        "workload": {key: text_view(value) for key, value in seen["workload"].items()},
    }


class _Tracing(Sandbox):
    """The sandbox of one rendering that is followed."""

    def __init__(self, followed: Sandbox, trace: Trace) -> None:
        super().__init__(followed.texts)
        self.codes = followed.codes
        self._trace = trace
        self.globals = followed.globals
        self.finalize = jinja2.pass_context(lambda _context, value: self._printed(value))
        kinds: Any = ((self.filters, followed.filters, FILTERS), (self.tests, followed.tests, TESTS))
        for named, known, handlers in kinds:
            named.clear()
            named.update({name: self._traced(call, handlers.get(name)) for name, call in known.items()})

    def _traced(self, call: Callable[..., Any], handler: Callable[..., Any] | None) -> Callable[..., Any]:
        """Return a filter or test that gets no slot without its being noted."""
        passed = 1 if hasattr(call, "jinja_pass_arg") else 0

        @functools.wraps(call)
        def traced(*args: Any, **kwargs: Any) -> Any:
            given = args[passed:]
            if handler is not None:
                found = handler(self._trace, functools.partial(call, *args[:passed]), *given, **kwargs)
                if found is not NotImplemented:
                    return found
            return call(*args[:passed], *self._plain(given), **self._plain(kwargs))

        return traced

    def _plain(self, value: Any) -> Any:
        return plain(self._trace, value)

    def _printed(self, value: Any) -> str:
        return value if isinstance(value, Text) else text_of(self._plain(value))

    def concat(self, parts: Iterable[Any]) -> str:
        """Return the parts as one text."""
        items = [item if isinstance(item, str) else self._plain(item) for item in parts]
        return composed(super().concat(untexted(items)), items)

    def counted(self, items: Iterable[Any]) -> Iterable[Any]:
        """Return what a loop iterates."""
        items = listed(items)
        return super().counted(self._plain(items) if isinstance(items, Slot | Entries) else items)

    def walked(self, value: Any) -> Any:
        """Return a value that is to be compared or hashed; whether an object has a key is its own affair."""
        return value if isinstance(value, Entries) else super().walked(self._plain(value))

    def sliced(self, value: Any, start: Any, stop: Any, step: Any) -> Any:
        """Return a slice."""
        return super().sliced(self._plain(value), start, stop, step)

    def getitem(self, obj: Any, argument: Any) -> Any:
        """Return what a template writes as ``obj[argument]``."""
        argument = self._plain(argument)
        if isinstance(obj, Entries) and isinstance(argument, str):
            tick()
            return obj[argument] if argument in obj else self.undefined(obj={}, name=argument)
        if isinstance(obj, Slot | Entries):
            obj = self._plain(obj)
        return super().getitem(listed(obj), argument)

    def call_binop(self, context: jinja2.runtime.Context, operator: str, left: Any, right: Any) -> Any:
        """Return the result of an operator."""
        left, right = listed(left), listed(right)
        if operator == "+" and isinstance(left, str) and isinstance(right, str):
            return composed(super().call_binop(context, operator, *untexted((left, right))), (left, right))
        if operator == "+" and isinstance(left, list) and isinstance(right, list):
            return super().call_binop(context, operator, left, right)
        return super().call_binop(context, operator, self._plain(left), self._plain(right))

    def call(self, context: jinja2.runtime.Context, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Call what may be called; functions get nothing without its being noted, macros pass it on."""
        if isinstance(obj, Function | LoopContext) or isinstance(getattr(obj, "__self__", None), LoopContext):
            args, kwargs = self._plain(args), self._plain(kwargs)
        return super().call(context, obj, *args, **kwargs)


def _as_it_is(_trace: Trace, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """For what looks at no text: whether there is one, how many items there are, the first of them."""
    if isinstance(args[0], Slot | Entries):
        return NotImplemented
    return call(listed(args[0]), *args[1:], **kwargs)


def _default(_trace: Trace, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Texts in slots are never empty."""
    return call(*args, **kwargs)


def _present(_trace: Trace, call: Callable[..., Any], *args: Any) -> Any:
    return call(*args) if len(args) == 1 else NotImplemented


def _attributes(_trace: Trace, call: Callable[..., Any], items: Any, *args: Any, **kwargs: Any) -> Any:
    """``map(attribute="name")``: each read of a view notes itself."""
    items = listed(items)
    simple = isinstance(items, list) and not args and kwargs.keys() == {"attribute"}
    attribute = kwargs.get("attribute")
    if not simple or type(attribute) is not str or not attribute.isidentifier():
        return NotImplemented
    return call(items, attribute=attribute)


def _by_attribute(trace: Trace, call: Callable[..., Any], items: Any, *args: Any, chosen: bool, **kwargs: Any) -> Any:
    """``rejectattr("name", "equalto", "x")``: a name in a slot is another one, as long as none in its place is that."""
    del call
    items = listed(items)
    match args:
        case (str() as attribute, "==" | "eq" | "equalto", str() as other) if type(other) is str and not kwargs:
            if not (isinstance(items, list) and all(isinstance(item, Entries) for item in items)):
                return NotImplemented
            values = [item.get(attribute, None) for item in items]
            if all(isinstance(value, str) for value in values):
                return [
                    item for item, value in zip(items, values, strict=True) if _is_text(trace, value, other) is chosen
                ]
    return NotImplemented


def _is_text(trace: Trace, value: str, other: str) -> bool:
    if isinstance(value, Slot):
        trace.reserved.add(other)
        return False
    return value == other


def _joined(_trace: Trace, call: Callable[..., Any], items: Any, separator: Any = "", **kwargs: Any) -> Any:
    items = listed(items)
    if kwargs or not isinstance(items, list) or not all(isinstance(item, str) for item in items) or is_bare(separator):
        return NotImplemented
    return composed(call(untexted(items), separator), items)


def _written(_trace: Trace, call: Callable[..., Any], value: Any) -> Any:
    """Nothing in a text in a slot is escaped."""
    return NotImplemented if has_views(value) else composed(call(untexted(value)), value)


def _lower(_trace: Trace, _call: Callable[..., Any], value: Any, *args: Any) -> Any:
    """A text in a slot has no spaces; one that is in lower case stays as it is, and so do those like it."""
    return value if is_bare(value) and not args and bare_str(value).islower() else NotImplemented


def _truncated(_trace: Trace, _call: Callable[..., Any], value: Any, size: Any) -> Any:
    return value if is_bare(value) and type(size) is int and size >= INERT_LENGTH else NotImplemented


def _without_end(_trace: Trace, _call: Callable[..., Any], value: Any, characters: Any) -> Any:
    """A text in a slot ends with a letter or a digit."""
    ends = type(characters) is str and not any(character.isalnum() for character in characters)
    return value if is_bare(value) and ends else NotImplemented


def _string(_trace: Trace, call: Callable[..., Any], value: Any) -> Any:
    return value if isinstance(value, Slot) else call(value) if not has_views(value) else NotImplemented


def _equal(trace: Trace, _call: Callable[..., Any], value: Any, other: Any) -> Any:
    return _is_text(trace, value, other) if is_bare(value) and type(other) is str else NotImplemented


FILTERS: Final[Mapping[str, Any]] = {
    "count": _as_it_is,
    "d": _default,
    "default": _default,
    "first": _as_it_is,
    "join": _joined,
    "last": _as_it_is,
    "length": _as_it_is,
    "list": _as_it_is,
    "lower": _lower,
    "map": _attributes,
    "quote": _written,
    "rejectattr": functools.partial(_by_attribute, chosen=False),
    "rstripped": _without_end,
    "selectattr": functools.partial(_by_attribute, chosen=True),
    "string": _string,
    "tojson": _written,
    "trim": _lower,
    "truncated": _truncated,
}
"""Filters that take slots and views for what they are; each returns NotImplemented for what it has to look into."""
TESTS: Final[Mapping[str, Any]] = {
    "==": _equal,
    "defined": _present,
    "eq": _equal,
    "equalto": _equal,
    "none": _present,
    "undefined": _present,
}
