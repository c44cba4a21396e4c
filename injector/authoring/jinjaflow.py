"""Follow the template data through Jinja2 templates: what they read and print. See ``goflow``, whose promises hold here too."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from jinja2 import nodes as j

from injector.authoring.model import (
    ANY,
    ANY_KEY,
    NOTHING,
    QUOTED,
    RAW,
    YAML,
    Model,
    Path,
    Place,
    Read,
    Taint,
    Value,
    Walk,
    message_place,
    union,
)
from injector.istio.proto import mesh_config_type, message_type, proxy_config_type
from injector.kube.typed import is_struct, struct_type

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping, Sequence

_PASSES: Final = 3
_HARMLESS: Final = frozenset({"int", "float", "length", "count", "abs", "round"})
_QUOTING: Final = frozenset({"quote", "tojson"})
_KEEPING: Final = frozenset({"indent", "trim"})
_MOST_TEXTS: Final = 50
_PASSING: Final = frozenset({"list", "sort", "unique", "reverse", "select", "reject", "max", "min"})
_SELECTING: Final = frozenset({"selectattr", "rejectattr"})
_TOLERANT: Final = frozenset({"defined", "undefined"})
_DEFAULT: Final = frozenset({"default", "d"})
_RESOURCES: Final = ("proxyCPU", "proxyMemory", "proxyCPULimit", "proxyMemoryLimit")
_ANNOTATIONS: Final = Place(("metadata", "annotations"), "map[string]string")
_LABELS: Final = Place(("metadata", "labels"), "map[string]string")
_OWNER: Final = {"name": "name", "namespace": "namespace", "kind": "kind", "api_version": "apiVersion"}
_NAMES: Final = {
    "pod": Place((), "pod"),
    "annotations": _ANNOTATIONS,
    "labels": _LABELS,
    "containers": Place(("spec", "containers"), "[]v1.Container"),
    "values": Place(("values",), ANY),
    "istio_minor": Place(("revision",), "int"),
    "revision": Place(("revision",), "string"),
    "native_sidecars": Place(("nativeSidecars",), "bool"),
    "proxy_image": Place(("proxyImage",), "string"),
    "proxy_uid": Place(("namespace", "annotations"), "int64"),
    "proxy_gid": Place(("namespace", "annotations"), "int64"),
    "inbound_traffic_policy_mode": Place(("mesh", "inboundTrafficPolicy"), "enum"),
    "compliance_policy": Place(("env", "COMPLIANCE_POLICY"), "string"),
    "workload": Place(("owner",), "owner"),
}
# fmt: off
FUNCTIONS: Final = frozenset({
    "annotation", "label", "pod_ports", "resources", "references", "env_entries", "named_entries", "range",
    "exclude_inbound_port", "append_multus_network",
})
# fmt: on
NAMES: Final = frozenset(_NAMES) | FUNCTIONS | {"mesh", "proxy_config", "proxy_config_json", "loop", "self", "caller"}
"""The names that templates can use without defining them."""


@dataclass
class JinjaFlow:
    """What a walk found.

    ``reads`` have the place of the first read, ``prints`` the texts of a pod in what each expression prints. ``values`` are read without a
    test or default, ``tolerated`` with one. ``constants`` are the conditions that are constant, ``called`` the macros that are called.
    """

    reads: dict[Read, tuple[str, int]] = field(default_factory=dict)
    prints: dict[int, frozenset[Taint]] = field(default_factory=dict)
    values: dict[Path, tuple[str, int]] = field(default_factory=dict)
    tolerated: set[Path] = field(default_factory=set)
    constants: dict[int, tuple[j.Node, bool]] = field(default_factory=dict)
    called: set[str] = field(default_factory=set)


def follow(
    model: Model,
    trees: Mapping[str, j.Template],
    name: str,
    ran: Container[int] | None = None,
    skippable: frozenset[int] = frozenset(),
) -> JinjaFlow:
    """Follow the data through a template; see ``goflow.follow``. ``skippable`` are the ids of ``ran`` if all branches had run."""
    walk = _JinjaWalk(model, trees, ran)
    walk.skippable = skippable
    for _ in range(_PASSES):
        walk.template(name)
    return walk.flow


class _JinjaWalk(Walk):
    def __init__(self, model: Model, trees: Mapping[str, j.Template], ran: Container[int] | None) -> None:
        self.flow = JinjaFlow()
        super().__init__(model, self.flow.reads)
        self.trees = trees
        self.ran = ran
        self.variables: dict[str, Value] = {}
        # All texts that a variable may be, if they are constants.
        self.texts: dict[str, frozenset[str]] = {}
        self.macros: dict[str, j.Macro] = {}
        self.returned: dict[str, Value] = {}
        self.active: list[str] = []
        self.skippable: frozenset[int] = frozenset()

    def template(self, name: str) -> None:
        """Walk through a template, unless it includes itself."""
        if name in self.trees and name not in self.active:
            self.count_call()
            outer, self.text = self.text, name
            self.active.append(name)
            self.body(self.trees[name].body)
            self.active.pop()
            self.text = outer

    def body(self, body: Iterable[j.Node]) -> Value:
        """Walk through statements; return what they print."""
        body = list(body)
        # The first statement of a marked body is its marker.
        if self.ran is not None and any(id(node) in self.skippable and id(node) not in self.ran for node in body[:2]):
            return NOTHING
        return union([NOTHING, *(self.statement(node) for node in body)])

    def statement(self, node: j.Node) -> Value:
        match node:
            case j.Output():
                return union([NOTHING, *(self.print_value(expression) for expression in node.nodes)])
            case j.If():
                return self.condition(node)
            case j.For():
                return self.loop(node)
            case j.Include() | j.Extends() | j.Import() | j.FromImport():
                self.other(node.template)
            case j.Macro():
                self.macro(node)
            case j.CallBlock():
                return union([self.expression(node.call), self.body(node.body)])
            case j.FilterBlock():
                return self.apply_filter(node.filter, self.body(node.body))
            case j.Block() | j.Scope():
                return self.body(node.body)
            case j.With():
                for target, value in zip(node.targets, node.values, strict=True):
                    self.bind(target, self.expression(value))
                return self.body(node.body)
            case _:
                self.assignment(node)
        return NOTHING

    def assignment(self, node: j.Node) -> None:
        match node:
            case j.Assign():
                self.bind(node.target, self.expression(node.node), has_texts=True)
                self.bind_texts(node.target, [node.node])
            case j.AssignBlock():
                value = self.body(node.body)
                self.bind(node.target, self.apply_filter(node.filter, value) if node.filter else value)
            case j.ExprStmt():
                self.expression(node.node)

    def macro(self, node: j.Macro) -> None:
        """Note a macro, and walk through it with what its arguments are so far."""
        self.macros[node.name] = node
        defaults: list[j.Expr] = list(node.defaults)
        for name, default in zip(reversed(node.args), reversed(defaults), strict=False):
            self.bind(name, self.expression(default))
        self.returned[node.name] = self.body(node.body)

    def other(self, template: j.Expr) -> None:
        """Walk through another template; through all, if its name is not a constant."""
        self.read(self.expression(template), template.lineno)
        for name in [str(template.value)] if isinstance(template, j.Const) else list(self.trees):
            self.template(name)

    def comparison(self, node: j.Compare) -> None:
        """Note what a comparison reads. Whether something is in a map depends on the map's keys alone."""
        values = [self.expression(node.expr), *(self.expression(operand.expr) for operand in node.ops)]
        is_search = len(node.ops) == 1 and node.ops[0].op in {"in", "notin"}
        if not is_search or any(not place.type.startswith("map[") for place in values[1].places):
            self.read(union(values), node.lineno)
            return
        self.read(values[0], node.lineno)
        for key in self.texts_of(node.expr) or {ANY_KEY}:
            self.read(Value(frozenset(place.key(key) for place in values[1].places)), node.lineno, deep=False)

    def print_value(self, node: j.Node) -> Value:
        if isinstance(node, j.TemplateData):
            return NOTHING
        value = self.expression(node)
        self.read(value, node.lineno)
        taints = frozenset(self.taints(value))
        self.flow.prints[id(node)] = self.flow.prints.get(id(node), frozenset()) | taints
        return Value(taints=taints)

    def condition(self, node: j.If) -> Value:
        result = NOTHING
        for branch in (node, *node.elif_):
            value = self.expression(branch.test)
            self.read(value, branch.lineno, deep=False)
            if value.constant:
                self.flow.constants[id(branch)] = (branch, bool(value.constant[0]))
            result = union([result, self.body(branch.body)])
        return union([result, self.body(node.else_)])

    def loop(self, node: j.For) -> Value:
        value = self.expression(node.iter)
        self.read(value, node.lineno, deep=False)
        element = Value(frozenset(place.element() for place in value.places), frozenset(self.taints(value)))
        if value.places and all(place.type.startswith("[]") for place in value.places):
            element = Value(element.places, value.taints)
        self.bind(node.target, element, has_texts=True)
        items: j.Node = node.iter
        while isinstance(items, j.Filter) and items.name == "dictsort" and items.node is not None:
            items = items.node
        self.bind_texts(node.target, items.items if isinstance(items, j.List | j.Tuple | j.Dict) else [items])
        if node.test is not None:
            self.read(self.expression(node.test), node.lineno, deep=False)
        return union([self.body(node.body), self.body(node.else_)])

    def bind(self, target: j.Node | str, value: Value, *, has_texts: bool = False) -> None:
        """Let a name, or each name of several, have one more value. Names have one scope here, since that misses nothing."""
        if isinstance(target, j.Tuple):
            for element in target.items:
                self.bind(element, Value(value.places, value.taints), has_texts=has_texts)
        elif isinstance(target, j.Name | str):
            name = target if isinstance(target, str) else target.name
            if not has_texts:
                self.texts[name] = frozenset()
            self.variables[name] = self.variables[name] | value if name in self.variables else value
        elif isinstance(target, j.NSRef):
            self.bind(target.name, value)

    def bind_texts(self, target: j.Node, items: Sequence[j.Node]) -> None:
        """Note the texts that a name, or each name of several, may be if the items are constants."""
        if isinstance(target, j.Tuple):
            for index, element in enumerate(target.items):
                parts = [item.key if isinstance(item, j.Pair) and not index else _part(item, index) for item in items]
                self.bind_texts(element, parts)
        elif isinstance(target, j.Name):
            texts = [self.texts_of(item) for item in items]
            all_texts = frozenset[str]().union(*texts) if all(texts) else frozenset[str]()
            known = self.texts.get(target.name, all_texts)
            self.texts[target.name] = known | all_texts if known and all_texts else frozenset()

    def texts_of(self, node: j.Node) -> frozenset[str]:
        """Return all texts that an expression may be; none if they are not known."""
        match node:
            case j.Const(value=str(text)):
                return frozenset({text})
            case j.Name():
                return self.texts.get(node.name, frozenset())
            case j.Add():
                left, right = self.texts_of(node.left), self.texts_of(node.right)
                joined = frozenset(one + other for one in left for other in right)
                return joined if len(joined) <= _MOST_TEXTS else frozenset()
        return frozenset()

    def expression(self, node: j.Node) -> Value:
        match node:
            case j.Const():
                return Value(constant=(node.value,))
            case j.Name():
                return self.name(node)
            case j.Getattr():
                return self.item(self.expression(node.node), node.attr, node.lineno)
            case j.Getitem():
                key = self.expression(node.arg)
                self.read(key, node.lineno)
                name = str(key.constant[0]) if key.constant else ANY_KEY
                return self.item(self.expression(node.node), name, node.lineno)
            case j.Call():
                return self.call(node)
            case j.Filter():
                if node.node is None:
                    return self.apply_filter(node, NOTHING)
                value = self.tolerate(node.node) if node.name in _DEFAULT else self.expression(node.node)
                return self.apply_filter(node, value)
            case j.Test():
                value = self.tolerate(node.node) if node.name in _TOLERANT else self.expression(node.node)
                self.read(union([value, *map(self.expression, node.args)]), node.lineno, deep=node.name != "defined")
                return NOTHING
            case j.Compare():
                self.comparison(node)
                return NOTHING
            case j.Not():
                value = self.expression(node.node)
                self.read(value, node.lineno, deep=False)
                return Value(constant=(not value.constant[0],) if value.constant else ())
            case j.And() | j.Or():
                left, right = self.expression(node.left), self.expression(node.right)
                self.read(left, node.lineno, deep=False)
                return union([left, right])
            case j.CondExpr():
                self.read(self.expression(node.test), node.lineno, deep=False)
                return union([self.expression(branch) for branch in (node.expr1, node.expr2) if branch is not None])
        values = [self.expression(child) for child in node.iter_child_nodes()]
        self.read(union([NOTHING, *values]), node.lineno)
        return self.compute(values)

    def name(self, node: j.Name) -> Value:
        name = node.name
        if name in self.variables:
            return self.variables[name]
        if name == "mesh":
            return Value(frozenset({Place(("mesh",), f"message {mesh_config_type(self.model.minor)}")}))
        if name in {"proxy_config", "proxy_config_json"}:
            place = Place(("proxyConfig",), f"message {proxy_config_type(self.model.minor)}")
            if name == "proxy_config":
                return Value(frozenset({place}))
            self.note(Read(place.path, deep=True), node.lineno)
            return Value(taints=frozenset({Taint(place.path, QUOTED)}))
        return Value(frozenset({_NAMES[name]})) if name in _NAMES else NOTHING

    def item(self, value: Value, name: str, line: int) -> Value:
        places = frozenset(place for parent in value.places if (place := self.child(parent, name)) is not None)
        for place in places:
            if place.path[:1] == ("values",):
                self.flow.values.setdefault(place.path, (self.text, line))
        return Value(places, value.taints)

    def tolerate(self, node: j.Expr) -> Value:
        """Return the value of an expression that may be undefined. The object that it is an item of must be defined."""
        if not isinstance(node, j.Getattr):
            return self.expression(node)
        value = self.expression(node.node)
        places = frozenset(place for parent in value.places if (place := self.child(parent, node.attr)) is not None)
        self.flow.tolerated.update(place.path for place in places)
        return Value(places, value.taints)

    def child(self, place: Place, name: str) -> Place | None:
        """Return the place of an item: names are those of JSON."""
        kind = place.type.removeprefix("*")
        if kind == "pod":
            types = {"metadata": "v1.ObjectMeta", "spec": "v1.PodSpec"}
            return Place((name,), types[name]) if name in types else None
        if kind == "owner":
            return Place(("owner", _OWNER[name]), "string") if name in _OWNER else None
        if kind.startswith("message ") and not kind.startswith("message google."):
            message_field = message_type(kind.removeprefix("message ")).by_json.get(name)
            return None if message_field is None else message_place(place.path, message_field)
        if is_struct(kind):
            known = struct_type(kind).by_json.get(name)
            return None if known is None else Place((*place.path, known.json), known.type)
        return place.key(ANY_KEY if name.isdigit() else name)

    def call(self, node: j.Call) -> Value:
        args = [self.expression(argument) for argument in node.args]
        named = {str(keyword.key): self.expression(keyword.value) for keyword in node.kwargs}
        function = node.node.name if isinstance(node.node, j.Name) else ""
        values = [*args, *named.values()]
        if function in self.macros:
            self.flow.called.add(function)
            for target, value in zip(self.macros[function].args, args, strict=False):
                self.bind(target, value)
            for key, value in named.items():
                self.bind(key, value)
            return self.returned.get(function, NOTHING)
        for argument in values:
            self.read(argument, node.lineno)
        keys = (self.texts_of(node.args[0]) if node.args else None) or {ANY_KEY}
        match function:
            case "annotation" | "label":
                whole = _ANNOTATIONS if function == "annotation" else _LABELS
                value = union([Value(frozenset(map(whole.key, keys))), *values[1:]])
                self.read(value, node.lineno)
                return value
            case "named_entries":
                value = Value(frozenset(map(_ANNOTATIONS.key, keys)))
                self.read(value, node.lineno)
                return Value(taints=frozenset(self.taints(value)))
            case "resources":
                places = frozenset(_ANNOTATIONS.key(f"sidecar.istio.io/{resource}") for resource in _RESOURCES)
                value = Value(places)
                self.read(value, node.lineno)
                return self.compute([value, *values])
            case "pod_ports":
                path = ("spec", "containers", ANY_KEY, "ports")
                self.note(Read(path, deep=True), node.lineno)
                self.note(Read(path[:2], deep=False), node.lineno)
                return Value(taints=frozenset({Taint(path, QUOTED)}))
            case "range":
                return NOTHING
        return self.compute([self.expression(node.node), *values])

    def apply_filter(self, node: j.Filter, value: Value) -> Value:
        name, line = node.name, node.lineno
        if name in _DEFAULT:
            self.read(value, line, deep=False)
            return union([value, *map(self.expression, node.args)])
        args = [self.expression(argument) for argument in node.args]
        named = {str(keyword.key): self.expression(keyword.value) for keyword in node.kwargs}
        for argument in (*args, *named.values()):
            self.read(argument, line)
        attribute = named.get("attribute") if name == "map" else args[0] if name in _SELECTING and args else None
        if attribute is not None and attribute.constant:
            self.read(value, line, deep=False)
            elements = Value(frozenset(place.element() for place in value.places), value.taints)
            item = self.item(elements, str(attribute.constant[0]), line)
            self.read(item, line)
            return Value(taints=frozenset(self.taints(item))) if name == "map" else value
        if name in _PASSING and not args and not named:
            self.read(value, line, deep=name in {"sort", "unique", "max", "min"})
            return value
        if name in {"first", "last"}:
            self.read(value, line, deep=False)
            return Value(frozenset(place.element() for place in value.places), value.taints)
        self.read(value, line)
        taints = self.taints(value)
        if name in _HARMLESS:
            return NOTHING
        if name in _QUOTING or name == "toyaml":
            state = QUOTED if name in _QUOTING else YAML
            return Value(taints=frozenset(Taint(path, state) for path, _ in taints))
        if name in _KEEPING:
            return Value(taints=frozenset(taints))
        return self.compute([value, *args, *named.values()])

    def compute(self, values: Iterable[Value]) -> Value:
        """Return the result of an operation that is not known: it has the texts of its operands."""
        return Value(taints=frozenset(Taint(path, RAW) for value in values for path, _ in self.taints(value)))


def _part(item: j.Node, index: int) -> j.Node:
    """Return an item of a tuple, list or pair, or the constant None if it has no such item."""
    parts = item.items if isinstance(item, j.Tuple | j.List) else [item.value] if isinstance(item, j.Pair) else []
    return parts[index] if index < len(parts) else j.Const(None)
