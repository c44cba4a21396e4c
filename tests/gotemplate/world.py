"""The Go types, functions and values of ``corpus/typed.json`` (``recorder/typed/world.go`` and ``build.go``), in the value model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from injector.gotemplate import Func, FuncError
from injector.gotemplate.fmt import sprint, sprintf
from injector.gotemplate.values import SIZED_INTS, Float32, Map, NamedString, Pointer, SizedInt, Slice, Struct, zero_of


class Level(SizedInt):
    """A defined integer type with a String method."""

    __slots__ = ()
    go_type = "main.Level"

    def go_string(self) -> str:
        return "L" + "+" * int(self)

    def method(self, name: str) -> Func | None:
        return Func(name, "func() string", self.go_string) if name == "String" else None


@dataclass(frozen=True, eq=False)
class Record(Struct):
    """A struct of ``world.go``: its fields by name."""

    go_type: str
    values: Mapping[str, Any]

    def field(self, name: str) -> Any:
        if name in EMBEDDED.get(self.go_type, {}):
            return self.values[EMBEDDED[self.go_type][name]].field(name)
        if name == "secret":
            raise KeyError(name)
        return self.values[name]

    def fields(self) -> Iterator[tuple[str, Any]]:
        return iter(self.values.items())

    def is_unexported(self, name: str) -> bool:
        return name in FIELDS[self.go_type] and not name[0].isupper()

    def is_interface(self, name: str) -> bool:
        return name == "Nothing" or FIELDS[self.go_type].get(name) == "interface {}"

    def method(self, name: str) -> Func | None:
        make = METHODS.get((self.go_type, name))
        return None if make is None else make(self)


class Fault(Record):
    """A struct with an Error method."""

    def go_string(self) -> str:
        return f"fault: {self.values['Text']}"


class Broken(Record):
    """A struct whose String method panics."""

    def go_string(self) -> str:
        raise FuncError("no text")


class Nil(Pointer):
    """A nil pointer that knows what it points at."""

    __slots__ = ()

    def method(self, name: str) -> Func | None:
        pointed = zero(self.go_type[1:])
        known = pointed.method(name) if isinstance(pointed, Struct) else None
        if known is None and not (name == "String" and isinstance(pointed, Level)):
            return None
        text = f"value method {self.go_type[1:]}.{name} called using nil *{self.go_type.rpartition('.')[2]} pointer"
        return Func(name, known.signature if known else "func() string", lambda *_: _raise(text))

    def has_field(self, name: str) -> bool:
        return name in FIELDS.get(self.go_type[1:], {name: ""})


class Structs(Map):
    """A map of structs."""

    __slots__ = ()

    def zero(self) -> Any:
        return zero(self.elem)


FIELDS: Final[dict[str, dict[str, str]]] = {
    "main.Point": {"X": "int", "Y": "int"},
    "main.Box": {
        "Any": "interface {}",
        "Names": "[]main.Name",
        "Seen": "map[string]bool",
        "Calls": "func(int, int) int",
        "Inner": "*main.Box",
    },
    "main.User": {
        "Name": "string",
        "Age": "int",
        "Tags": "[]string",
        "Labels": "map[string]string",
        "Boss": "*main.User",
        "Any": "interface {}",
        "secret": "string",
    },
    "main.Fault": {"Text": "string"},
    "main.Outer": {"Point": "main.Point", "Z": "int"},
    "main.Broken": {"Text": "string"},
}
EMBEDDED: Final = {"main.Outer": {"X": "Point", "Y": "Point"}}
CLASSES: Final[dict[str, type[Record]]] = {"main.Fault": Fault, "main.Broken": Broken}


def _raise(text: str) -> Any:
    raise FuncError(text)


def _go_type(value: Any) -> str:
    return sprintf("%T", value)


METHODS: Final[dict[tuple[str, str], Callable[[Record], Func]]] = {
    ("main.User", "Hello"): lambda u: Func("Hello", "func() string", lambda: f"hello {u.values['Name']}"),
    ("main.User", "Greet"): lambda u: Func(
        "Greet", "func(string) string", lambda who: f"{u.values['Name']} greets {who}"
    ),
    ("main.User", "Older"): lambda u: Func(
        "Older", "func(int, ...int) int", lambda by, *more: u.values["Age"] + by + sum(more)
    ),
    ("main.User", "Refuse"): lambda _: Func("Refuse", "func() (string, error)", lambda: _raise("refused")),
    ("main.User", "Panics"): lambda _: Func("Panics", "func() string", lambda: _raise("out of order")),
    ("main.User", "Self"): lambda u: Func("Self", "func() main.User", lambda: u),
    ("main.User", "Nothing"): lambda _: Func("Nothing", "func() interface {}", lambda: None),
    ("main.User", "Accept"): lambda _: Func("Accept", "func(interface {}) (string, error)", _go_type),
    ("main.User", "Points"): lambda _: Func("Points", "func(main.Point) int", lambda p: p.values["X"] + p.values["Y"]),
    ("main.Fault", "Error"): lambda f: Func("Error", "func() string", f.go_string),  # type: ignore[attr-defined] # a struct
    ("main.Broken", "String"): lambda f: Func("String", "func() string", f.go_string),  # type: ignore[attr-defined] # a struct
}


def zero(go_type: str) -> Any:
    """Return the zero value of a type."""
    if go_type in FIELDS:
        return CLASSES.get(go_type, Record)(go_type, {name: zero(kind) for name, kind in FIELDS[go_type].items()})
    if go_type.startswith("*"):
        return Nil(go_type)
    if go_type == "main.Level":
        return Level(0)
    return zero_of(go_type)


def record(go_type: str, **fields: Any) -> Record:
    """Return a struct with some fields set."""
    known: Record = zero(go_type)
    return type(known)(go_type, {**known.values, **fields})


def build(raw: Any) -> Any:
    """Return the value that a description stands for, as an interface holds it."""
    if isinstance(raw, dict):
        if "$" in raw:
            return CALLABLES[raw["v"]] if raw["$"] == "call" else typed(raw["$"], raw["v"])
        return {name: build(item) for name, item in raw.items()}
    if isinstance(raw, list):
        return [build(item) for item in raw]
    return float(raw) if type(raw) is int else raw


def typed(go_type: str, raw: Any) -> Any:
    """Return the value of a Go type that a description stands for."""
    if go_type == "interface {}":
        return build(raw)
    if raw is None:
        return zero(go_type)
    if go_type.startswith("*"):
        return Pointer(go_type, typed(go_type[1:], raw))
    if go_type.startswith("[]"):
        items = [typed(go_type[2:], item) for item in raw]
        return items if go_type == "[]interface {}" else Slice(go_type[2:], items)
    if go_type.startswith("map["):
        key, _, elem = go_type[4:].partition("]")
        entries = {
            (name.strip('"') if key == "interface {}" else _scalar(key, name)): typed(elem, item)
            for name, item in raw.items()
        }
        return entries if go_type == "map[string]interface {}" else Structs(key, elem, entries)
    if go_type in FIELDS:
        return record(go_type, **{name: typed(FIELDS[go_type][name], item) for name, item in raw.items()})
    return _scalar(go_type, raw)


def _scalar(go_type: str, raw: Any) -> Any:
    if go_type == "main.Name":
        return NamedString(go_type, raw)
    if go_type == "string":
        return bytes(raw["hex"]).decode("utf-8", "surrogateescape") if isinstance(raw, dict) else raw
    if go_type == "bool":
        return raw in (True, "true")
    if go_type == "complex128":
        return complex(*raw)
    return _NUMBERS[go_type](raw)


_NUMBERS: Final[dict[str, Callable[[Any], Any]]] = {
    "int": int,
    "float64": float,
    "float32": lambda raw: Float32(float(raw)),
    "main.Level": Level,
    **SIZED_INTS,
}


def _join(sep: str, *parts: str) -> str:
    return sep.join(parts)


def _push(*values: tuple[Any, ...]) -> Callable[[Any], None]:
    def push(take: Callable[..., bool]) -> None:
        for value in values:
            if not take(*value):
                return

    return push


CALLABLES: Final = {
    "add": Func("add", "func(int, int) int", lambda a, b: a + b),
    "join": Func("join", "func(string, ...string) string", _join),
    "any": Func("any", "func(interface {}) string", _go_type),
    "refuse": Func("refuse", "func() (int, error)", lambda: _raise("no")),
    "seq": Func("seq", "func(func(int) bool)", _push((0,), (10,), (20,))),
    "pairs": Func("pairs", "func(func(string, int) bool)", _push(("a", 0), ("b", 1), ("c", 2))),
    "empty": Func("empty", "func(func(int) bool)", _push()),
}


def _show(verb: str) -> Callable[[Any], str]:
    return lambda value: sprintf(verb, value)


def _ints(*numbers: int) -> str:
    return sprint(len(numbers), Slice("int", numbers, nil=not numbers))


def _many(*values: Any) -> str:
    return sprint(len(values), Slice("interface {}", values, nil=not values))


_ROWS: Final[tuple[tuple[str, str, Callable[..., Any]], ...]] = (
    ("str", "func(string) string", lambda x: f"<{x}>"),
    ("num", "func(int) string", _show("%d")),
    ("i8", "func(int8) string", _show("%d")),
    ("i64", "func(int64) string", _show("%d")),
    ("u8", "func(uint8) string", _show("%d")),
    ("u64", "func(uint64) string", _show("%d")),
    ("f32", "func(float32) string", _show("%v")),
    ("f64", "func(float64) string", _show("%v")),
    ("c128", "func(complex128) string", _show("%v")),
    ("flag", "func(bool) string", _show("%v")),
    ("same", "func(interface {}) interface {}", lambda x: x),
    ("kind", "func(interface {}) string", _go_type),
    ("strs", "func([]string) string", _show("%#v")),
    ("anys", "func([]interface {}) string", _show("%#v")),
    ("strmap", "func(map[string]string) string", _show("%#v")),
    ("anymap", "func(map[string]interface {}) string", _show("%#v")),
    ("user", "func(main.User) string", lambda x: x.values["Name"]),
    ("userp", "func(*main.User) string", lambda x: "true" if x.target is None else "false"),
    ("named", "func(main.Name) string", str.__str__),
    ("point", "func(main.Point) string", sprint),
    ("ints", "func(...int) string", _ints),
    ("sep", "func(string, ...string) string", _join),
    ("many", "func(...interface {}) string", _many),
    ("none", "func() string", lambda: "none"),
    ("two", "func(string, int) string", sprint),
    ("refuse", "func() (string, error)", lambda: _raise("refused")),
    ("panics", "func() string", lambda: _raise("out of order")),
    ("panicsErr", "func() string", lambda: _raise("out of luck")),
    ("nilany", "func() interface {}", lambda: None),
    ("nilmap", "func() map[string]string", lambda: zero("map[string]string")),
    ("nilslice", "func() []string", lambda: zero("[]string")),
    ("niluser", "func() *main.User", lambda: zero("*main.User")),
    ("mkuser", "func(string) *main.User", lambda name: Pointer("*main.User", record("main.User", Name=name, Age=30))),
    ("mkpoint", "func(int, int) main.Point", lambda x, y: record("main.Point", X=x, Y=y)),
    ("mkname", "func(string) main.Name", lambda x: NamedString("main.Name", x)),
    ("mkint64", "func(int) int64", SIZED_INTS["int64"]),
    ("mkuint8", "func(int) uint8", SIZED_INTS["uint8"]),
    ("mkfloat32", "func(float64) float32", Float32),
    ("fn", "func(string) interface {}", lambda name: CALLABLES[name]),
    ("adder", "func() func(int, int) int", lambda: CALLABLES["add"]),
    ("call2", "func(func(int, int) int) int", lambda f: f.call(1, 2)),
    ("percent", "func() (string, error)", lambda: _raise("100%d <%s>")),
    ("anyfield", "func() interface {}", lambda: {"a": 1}),
)


_LOOPS: Final = (
    ("break", "func() string", lambda: "BREAK"),
    ("continue", "func() string", lambda: "CONTINUE"),
)
_SHADOW: Final = (
    ("len", "func(interface {}) string", lambda _: "my len"),
    ("and", "func(...interface {}) string", lambda *_: "my and"),
    ("print", "func(string) string", lambda _: "my print"),
    ("eq", "func(interface {}, interface {}) bool", lambda *_: True),
    ("call", "func(interface {}) string", lambda _: "my call"),
)
_SETS: Final = {"": (), "loops": _LOOPS, "shadow": _SHADOW}


def functions(extra: str = "") -> dict[str, Func]:
    """Return the functions of a case: the set ``typed`` of ``world.go``, and another where the case names it."""
    return {name: Func(name, signature, call) for name, signature, call in (*_ROWS, *_SETS[extra])}
