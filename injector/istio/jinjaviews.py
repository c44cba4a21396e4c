"""Parts of a pod as Jinja2 templates get them while they are followed, and the texts in slots among them.

A view notes what is read of it; ``plain`` notes that all of a value matters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NoReturn

from injector.istio.tracing import Slot, UntraceableError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from injector.istio.leaves import Leaf
    from injector.istio.tracing import Trace

ANNOTATIONS: Final = "annotations"


class Text(Slot):
    """A slot that Python's own operators refuse."""

    __slots__ = ()

    def __str__(self) -> str:
        """Return it as it is: what is printed into a macro is a slot still."""
        return self

    def _refused(self, *_others: Any) -> NoReturn:
        raise UntraceableError("an operator of Python")

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _refused
    __hash__ = _refused
    __add__ = __radd__ = __mul__ = __rmul__ = __mod__ = __rmod__ = _refused
    __contains__ = __getitem__ = __iter__ = _refused


class Entries:
    """An object of the pod that notes which keys are read; ``exact`` tells that their values always matter."""

    __slots__ = ("_data", "_exact", "_leaf", "_trace")

    def __init__(self, trace: Trace, leaf: Leaf, data: Mapping[str, Any], *, exact: bool = False) -> None:
        self._trace, self._leaf, self._data, self._exact = trace, leaf, data, exact

    def __bool__(self) -> bool:
        return bool(self.plain())

    def __eq__(self, other: object) -> bool:
        return self.plain() == other

    __hash__ = None  # type: ignore[assignment] # as a dict

    def __contains__(self, key: Any) -> bool:
        return self._read(key) in self._data

    def __getitem__(self, key: str) -> Any:
        """Return the value of a key; KeyError where there is none."""
        leaf = self._trace.part(self._leaf, self._read(key), exact=self._exact)
        return view(self._trace, leaf, self._data[key], exact=key == ANNOTATIONS)

    def get(self, key: str, default: Any = "") -> Any:
        """Return the value of a key, or ``default``."""
        return self[key] if self.__contains__(key) else default

    def only(self, key: str) -> dict[str, Any]:
        """Return what there is of one key, which matters exactly."""
        return {key: plain(self._trace, self[key])} if key in self else {}

    def _read(self, key: Any) -> str:
        if type(key) is not str:
            raise UntraceableError("a key of another type")
        self._trace.part(self._leaf, key, exact=self._exact)
        return key

    def plain(self) -> Mapping[str, Any]:
        """Return all of it: all of it matters then."""
        self._trace.seen(self._leaf)
        return self._data


class Items:
    """A list of the pod that notes what of its items is read."""

    __slots__ = ("_data", "_leaf", "_trace")

    def __init__(self, trace: Trace, leaf: Leaf, data: list[Any]) -> None:
        self._trace, self._leaf, self._data = trace, leaf, data

    def __bool__(self) -> bool:
        return bool(self.items())

    def items(self) -> list[Any]:
        """Return the items; how many there are matters then."""
        leaf = self._trace.element(self._leaf)
        return [view(self._trace, leaf, item) for item in self._data]

    def part(self, key: str) -> list[Any]:
        """Return the items as they are, of which all that is at ``key`` matters."""
        self._trace.seen(self._trace.part(self._trace.element(self._leaf), key))
        return self._data

    def plain(self) -> list[Any]:
        """Return all of it: all of it matters then."""
        self._trace.seen(self._leaf)
        return self._data


def view(trace: Trace, leaf: Leaf, value: Any, *, exact: bool = False) -> Any:
    """Return a value of the pod as a template gets it."""
    if isinstance(value, dict):
        return Entries(trace, leaf, value, exact=exact)
    if isinstance(value, list):
        return Items(trace, leaf, value)
    if isinstance(value, str):
        return text_view(trace.text(leaf, value))
    trace.seen(leaf)
    return value


def text_view(value: Any) -> Any:
    """Return a text, a slot as one that Python does not touch."""
    return Text.of(bare_str(value), value.leaves, bare=value.bare) if isinstance(value, Slot) else value


def bare_str(text: str) -> str:
    """Return the content of a slot."""
    return str.__str__(text)


def plain(trace: Trace, value: Any) -> Any:
    """Return a value as any function may have it: what it holds of the pod matters from now on."""
    if isinstance(value, Slot):
        for leaf in value.leaves:
            trace.seen(leaf)
        return bare_str(value)
    if isinstance(value, Entries | Items):
        return value.plain()
    if isinstance(value, dict):
        return {key: plain(trace, item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(plain(trace, item) for item in value)
    return value


def _leaves(value: Any) -> Iterator[Leaf]:
    """Yield the leaves of all slots in a value."""
    if isinstance(value, Slot):
        yield from value.leaves
    elif isinstance(value, dict | list | tuple):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _leaves(item)


def has_views(value: Any) -> bool:
    """Return whether there is a view in a value."""
    if isinstance(value, dict | list | tuple):
        return any(map(has_views, value.values() if isinstance(value, dict) else value))
    return isinstance(value, Entries | Items)


def untexted(value: Any) -> Any:
    """Return a value without slots, which nobody looks at yet."""
    if isinstance(value, dict):
        return {key: untexted(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(untexted, value))
    return bare_str(value) if isinstance(value, Slot) else value


def composed(text: str, parts: Any) -> str:
    """Return a text that was made of others: a slot, if one of them is."""
    leaves = tuple(_leaves(parts))
    return Text.of(bare_str(text), leaves) if leaves else text


def listed(value: Any) -> Any:
    """Return the items of a list of the pod, any other value as it is."""
    return value.items() if isinstance(value, Items) else value
