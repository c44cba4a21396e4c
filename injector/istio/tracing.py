"""What a template reads of a pod, and which texts it only prints: found while it renders.

The template runs as ever, but on views that note each leaf that is read, and with functions that get no text without it being noted.
A text whose like would be treated alike comes as a ``Slot``, with a token for its content. Printing keeps it one, and so do the few
functions of ``HANDLERS`` that cannot tell one inert text (``leaves.inert``) from another; for all others the text is no slot: its leaf is
marked exact, and what was rendered up to then is void.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from injector.gotemplate.arguments import checked
from injector.gotemplate.budget import spend
from injector.gotemplate.builtins import eq
from injector.gotemplate.compiler import printed
from injector.gotemplate.fields import field_reader
from injector.gotemplate.iteration import elements, pairs
from injector.gotemplate.reflect import NO_VALUE
from injector.gotemplate.values import Func, Map, Pointer, Slice
from injector.istio.goview import GoStruct, wrap
from injector.istio.leaves import INERT_LENGTH, Leaf, inert
from injector.istio.otel import enriches
from injector.kube.schema import struct_type

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_STRING_MAP: Final = "map[string]string"
_ANNOTATIONS: Final = "annotations"
_FIELD: Final = field_reader("default")
TOKEN: Final = re.compile(rb"slot[0-9a-f]{16}|[1-9][0-9]{2}(?:m|Mi)")
"""What a token looks like (``Trace.token``)."""


class UntraceableError(Exception):
    """A template that does what cannot be followed: it asks the clock, say, or renders another text."""


class Slot(str):
    """A text that stands for others: what it is may be printed, and nothing else be done with it.

    ``bare`` tells that it is one text of the pod as it is there, and not part of a longer one.
    """

    __slots__ = ("bare", "leaves")
    leaves: tuple[Leaf, ...]
    bare: bool

    @classmethod
    def of(cls, text: str, leaves: tuple[Leaf, ...], *, bare: bool = False) -> Slot:
        """Return a slot with that content, which comes from these leaves."""
        slot = cls(text)
        slot.leaves, slot.bare = leaves, bare
        return slot


@dataclass(slots=True)
class Trace:
    """One rendering that is followed.

    Attributes:
        leaves: what is read; it grows.
        tokens: the content of each slot, by the text that it stands for.
        reserved: texts that a slot was compared with, and differed from.
        changed: whether ``leaves`` is not what it was, so that what was rendered is void.
        patch: what the pod's own injection came to; no token of a quantity is in it.
    """

    leaves: Leaf
    patch: bytes = b""
    tokens: dict[str, str] = field(default_factory=dict)
    reserved: set[str] = field(default_factory=set)
    changed: bool = False

    def token(self, text: str) -> str:
        """Return the token of a text in a slot: of the same form, and in no other text.

        Raises:
            UntraceableError: there is none left.
        """
        if text not in self.tokens:
            self.tokens[text] = (
                f"slot{secrets.token_hex(8)}" if inert(text) else self._quantity(text.lstrip("0123456789"))
            )
        return self.tokens[text]

    def _quantity(self, unit: str) -> str:
        taken = set(self.tokens.values())
        free = (f"{number}{unit}" for number in range(999, 99, -1))
        token = next((each for each in free if each not in taken and each.encode() not in self.patch), None)
        if token is None:
            raise UntraceableError("quantities")
        return token

    def part(self, leaf: Leaf, key: str, *, exact: bool = False) -> Leaf:
        """Note that a key is read."""
        if leaf.exact:
            return leaf
        if key not in leaf.parts:
            self.changed = True
            leaf.part(key).exact = exact
        return leaf.parts[key]

    def element(self, leaf: Leaf) -> Leaf:
        """Note that the elements of a list are read."""
        if leaf.exact:
            return leaf
        self.changed = self.changed or leaf.each is None
        return leaf.element()

    def seen(self, leaf: Leaf) -> None:
        """Note that all of a leaf matters."""
        if not leaf.exact:
            leaf.exact = self.changed = True

    def text(self, leaf: Leaf, text: str) -> str:
        """Note that a text is read, and return it: as a slot, if it is one."""
        if not leaf.is_slot(text):
            return text
        return Slot.of(text, (leaf,), bare=True)

    def value(self, go_type: str, value: Any, leaf: Leaf) -> Any:
        """Return JSON data as a value of a Go type that notes what is read of it; compare ``goview.wrap``."""
        if go_type == "string":
            return self.text(leaf, value or "")
        if go_type == _STRING_MAP:
            return MapView(self, leaf, value)
        if go_type.startswith("*") and struct_type.known(go_type[1:]):
            return Pointer(go_type, None if value is None else TracedStruct(self, go_type[1:], value, leaf))
        if go_type.startswith("[]") and struct_type.known(go_type[2:]):
            element = self.element(leaf)
            items = [TracedStruct(self, go_type[2:], item, element) for item in value or ()]
            return Slice(go_type[2:], items, nil=value is None)
        if struct_type.known(go_type):
            return TracedStruct(self, go_type, value or {}, leaf)
        self.seen(leaf)
        return wrap(go_type, value)

    def plain(self, value: Any) -> Any:
        """Return a value as any function may have it: what it holds of the pod matters from now on."""
        if isinstance(value, Slot):
            for leaf in value.leaves:
                self.seen(leaf)
            return str(value)
        if isinstance(value, MapView):
            return value.plain()
        if isinstance(value, TracedStruct):
            self.seen(value.leaf)
            return GoStruct(value.go_type, value.data)
        if isinstance(value, Pointer) and isinstance(value.target, TracedStruct):
            return Pointer(value.go_type, self.plain(value.target))
        if isinstance(value, list):
            spend(len(value))
        if isinstance(value, Slice):
            return Slice(value.elem, map(self.plain, value), nil=value.nil)
        return list(map(self.plain, value)) if type(value) is list else value

    def function(self, func: Func) -> Callable[..., Any]:
        """Return what to call in place of a function."""
        if not func.hermetic or func.name in _UNTRACEABLE:
            return _untraceable(func.name)
        handler = HANDLERS.get(func.name)

        def call(*arguments: Any) -> Any:
            if handler is not None:
                result = handler(self, func.call, arguments)
                if result is not NotImplemented:
                    return result
            return func.call(*map(self.plain, arguments))

        return call

    def primitives(self) -> dict[str, Any]:
        """Return what generated code calls of the engine's own, for values that are traced; by its names in ``compiler``."""
        return {
            "CALL": _untraceable("call"),
            "CHECK": self._checked,
            "EACH": lambda value: elements(value.plain() if isinstance(value, MapView) else value),
            "EQ": self.function(Func("eq", "", eq)),
            "FIELD": self._field,
            "METHOD": _untraceable("a method with arguments"),
            "PAIRS": lambda value: pairs(value.plain() if isinstance(value, MapView) else value),
            "PRINT": lambda value: str(value) if isinstance(value, Slot) else printed(self.plain(value)),
        }

    def _checked(self, value: Any, go_type: str, container: Any = None) -> Any:
        return value if isinstance(value, Slot) and go_type == "string" else checked(value, go_type, container)

    def _field(self, receiver: Any, name: str) -> Any:
        if not isinstance(receiver, MapView):
            return _FIELD(receiver, name)
        found = receiver.get(name)
        return NO_VALUE if found is None else found


class TracedStruct(GoStruct):
    """A view of an object that notes which fields are read."""

    __slots__ = ("_trace", "leaf")

    def __init__(self, trace: Trace, type_name: str, data: dict[str, Any], leaf: Leaf) -> None:
        super().__init__(type_name, data)
        self._trace = trace
        self.leaf = leaf

    def field(self, name: str) -> Any:
        """Return a field by its Go name, and note that it is read; KeyError for no such field."""
        path = struct_type(self.go_type).go_path(name)
        if not path:
            raise KeyError(name)
        data, leaf, trace = self.data, self.leaf, self._trace
        for embedded in path[:-1]:
            if not embedded.inline:
                data, leaf = data.get(embedded.json) or {}, trace.part(leaf, embedded.json)
        last = path[-1]
        if last.inline:
            return TracedStruct(trace, last.type, data, leaf)
        if last.json == _ANNOTATIONS:
            return MapView(trace, trace.part(leaf, last.json), data.get(last.json), exact=True)
        return trace.value(last.type, data.get(last.json), trace.part(leaf, last.json))

    def fields(self) -> Iterator[tuple[str, Any]]:
        """Yield the fields in the order of Go's declaration; all of them matter then."""
        self._trace.seen(self.leaf)
        return GoStruct(self.go_type, self.data).fields()

    def json_value(self) -> Any:
        """Return the object as encoding/json marshals the struct; all of it matters then."""
        self._trace.seen(self.leaf)
        return super().json_value()


class MapView:
    """A map[string]string that notes which keys are read; ``exact`` tells that their values always matter."""

    __slots__ = ("_entries", "_exact", "_leaf", "_trace")
    go_type: Final = _STRING_MAP

    def __init__(self, trace: Trace, leaf: Leaf, entries: Mapping[str, str] | None, *, exact: bool = False) -> None:
        self._trace = trace
        self._leaf = leaf
        self._entries = entries
        self._exact = exact

    def __bool__(self) -> bool:
        return bool(self.plain())

    def get(self, key: str) -> str | None:
        """Return an entry, and note that it is read; None where there is none."""
        leaf = self._trace.part(self._leaf, key, exact=self._exact)
        found = (self._entries or {}).get(key)
        return None if found is None else self._trace.text(leaf, found)

    def plain(self) -> Map:
        """Return all of it: all of it matters then."""
        self._trace.seen(self._leaf)
        return Map("string", "string", self._entries or (), nil=self._entries is None)


def _untraceable(what: str) -> Callable[..., Any]:
    def fail(*_arguments: Any) -> Any:
        raise UntraceableError(what)

    return fail


def _leaves(values: tuple[Any, ...]) -> tuple[Leaf, ...]:
    return tuple(leaf for value in values if isinstance(value, Slot) for leaf in value.leaves)


def is_bare(value: Any) -> bool:
    """Return whether a value is one text of the pod, as it is there, in a slot."""
    return isinstance(value, Slot) and value.bare


def _index(_trace: Trace, call: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    match arguments:
        case (MapView() as entries, key) if type(key) is str:
            return entries.get(key) or ""
        case (list(), int()):
            return call(*arguments)
    return NotImplemented


def _isset(_trace: Trace, _call: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    match arguments:
        case (MapView() as entries, key) if type(key) is str:
            return entries.get(key) is not None
    return NotImplemented


def _annotation(trace: Trace, call: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    match arguments:
        case (TracedStruct() as meta, key, default) if type(key) is str:
            found = meta.field("Annotations").get(key)
            entries = {} if found is None else {_ANNOTATIONS: {key: found}}
            return call(GoStruct("v1.ObjectMeta", entries), key, trace.plain(default))
    return NotImplemented


def _default(trace: Trace, _call: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """Texts in slots are never empty."""
    match arguments:
        case (default, given):
            return given if isinstance(given, Slot) or trace.plain(given) else default
    return NotImplemented


def _value_or_default(trace: Trace, call: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    value, default = arguments
    return value if isinstance(value, Slot) else call(trace.plain(value), default)


def _quoted(_trace: Trace, call: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """Nothing in a text in a slot is escaped."""
    if not _leaves(arguments) or not all(isinstance(value, str) for value in arguments):
        return NotImplemented
    return Slot.of(call(*map(str, arguments)), _leaves(arguments))


def _truncated(_trace: Trace, _call: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    length, text = arguments
    return text if is_bare(text) and length >= INERT_LENGTH else NotImplemented


def _without_suffix(_trace: Trace, _call: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """A text in a slot ends with a letter or a digit."""
    suffix, text = arguments
    return text if is_bare(text) and type(suffix) is str and not suffix[-1:].isalnum() else NotImplemented


def _unchanged(_trace: Trace, _call: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """A text in a slot has no spaces; one that is in lower case stays as it is, and so do those like it."""
    (text,) = arguments
    return text if is_bare(text) and text == text.lower() else NotImplemented


def _listed(_trace: Trace, call: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """Lists hold what they are given."""
    return call(*arguments) if all(isinstance(value, str | list) for value in arguments) else NotImplemented


def _joined(_trace: Trace, _call: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    match arguments:
        case (separator, list() as items) if type(separator) is str and all(isinstance(item, str) for item in items):
            leaves = _leaves(tuple(items))
            return Slot.of(separator.join(map(str, items)), leaves) if leaves else NotImplemented
    return NotImplemented


def _length(_trace: Trace, call: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    return call(*arguments) if isinstance(arguments[0], list) else NotImplemented


def _equal(trace: Trace, call: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """Slots are equal if they are the same; from other texts they differ, as long as none of these is put into them."""
    if not all(is_bare(value) or type(value) is str for value in arguments):
        return NotImplemented
    first, *others = arguments
    for other in others:
        if isinstance(first, Slot) != isinstance(other, Slot):
            trace.reserved.add(str(other if isinstance(first, Slot) else first))
    return call(*map(str, arguments))


def _attributes(_trace: Trace, _call: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    return NotImplemented if enriches(arguments[0]) else ""


_UNTRACEABLE: Final = frozenset({"call", "render"})
HANDLERS: Final[Mapping[str, Callable[[Trace, Callable[..., Any], tuple[Any, ...]], Any]]] = {
    "annotation": _annotation,
    "append": _listed,
    "default": _default,
    "eq": _equal,
    "index": _index,
    "isset": _isset,
    "join": _joined,
    "len": _length,
    "list": _listed,
    "lower": _unchanged,
    "ne": _equal,
    "otelResourceAttributes": _attributes,
    "quote": _quoted,
    "squote": _quoted,
    "toLower": _unchanged,
    "trim": _unchanged,
    "trimSuffix": _without_suffix,
    "trunc": _truncated,
    "valueOrDefault": _value_or_default,
}
"""Functions that take slots for what they are; each returns NotImplemented for arguments that it has to look into."""
