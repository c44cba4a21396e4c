"""Templates of both engines behind one protocol, and Go templates, which revisions with equal texts share.

Control planes of one minor mostly have the same templates, and most templates of a changed revision stay the same. Compiling all of
Istio 1.30 takes a fifth of a second and two megabytes. The Python of a template is written when it is first rendered.

``annotations_read`` tells by the source of a Go template which annotations it can read: Istio's templates ask for annotations by constant
keys. A value that no template reads cannot break out of one, so the guard need not render a pod once more for it. The answer errs on the
safe side: if a template prints, stores or passes on the annotations as a whole, in any way that is not known here, it can read all of them.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Protocol
from weakref import WeakValueDictionary

from injector.gotemplate import BudgetError, FuncError, GoTemplate, TemplateError, compile_template
from injector.gotemplate.budget import reserve, spend
from injector.gotemplate.nodes import (
    ActionNode,
    ChainNode,
    CommandNode,
    DotNode,
    FieldNode,
    IdentifierNode,
    IfNode,
    ListNode,
    Node,
    PipeNode,
    RangeNode,
    StringNode,
    TemplateNode,
    Tree,
    VariableNode,
    WithNode,
)
from injector.gotemplate.sprig import txt_func_map
from injector.gotemplate.values import Func, Pointer
from injector.istio.functions import istio_functions
from injector.istio.goview import FieldStruct
from injector.memo import Memo, shared

if TYPE_CHECKING:
    from injector.istio.behaviours import Minor


class TemplateData(FieldStruct):
    """Istio's SidecarTemplateData: the fields of a minor, by Go name."""

    __slots__ = ()

    def __init__(self, fields: Mapping[str, Any], *, only: frozenset[str] | None = None) -> None:
        selected = {name: value for name, value in fields.items() if only is None or name in only}
        super().__init__("inject.SidecarTemplateData", selected)


class Template(Protocol):
    """A compiled template."""

    @property
    def hermetic(self) -> bool:
        """Whether the result depends only on the data, not on a clock, the environment or random numbers."""

    @property
    def is_pure(self) -> bool:
        """Whether it cannot change the data."""

    @property
    def called(self) -> frozenset[str]:
        """The names of the Go functions that it calls."""

    @property
    def annotations_read(self) -> frozenset[str] | None:
        """The annotations that it can read (``annotations_read``); None if it can read any."""

    def render(self, data: TemplateData) -> str:
        """Return the rendered text; raise TemplateRenderError if the template fails or exceeds its budget."""


_RENDERED: Final[ContextVar[tuple[Pointer | None, int]]] = ContextVar("rendered", default=(None, 0))
"""The data of the current rendering, and the depth of ``render`` calls: Go's ``render`` gets neither as an argument."""

_SPRIG_SINCE: Final[Minor] = (1, 8)
# The function ``render``: its minors, and the texts that it keeps compiled.
_RENDER_SINCE: Final[Minor] = (1, 2)
_RENDER_UNTIL: Final[Minor] = (1, 13)
_MAX_COMPILED: Final = 16
_MAX_COMPILED_CHARACTERS: Final = 1 << 16
# The cost of compiling, for each character.
_COMPILE_STEPS: Final = 10
_COMPILE_BYTES: Final = 200
# Istio's own templates render values that call ``render`` no further; Go would recurse until its stack is full.
_MAX_RENDER_DEPTH: Final = 8


@dataclass(frozen=True, slots=True, weakref_slot=True)
class GoTextTemplate:
    """A Go template with Istio's functions and sprig's."""

    compiled: GoTemplate
    called: frozenset[str] = frozenset()
    annotations_read: frozenset[str] | None = None

    @property
    def hermetic(self) -> bool:
        """Whether none of its functions reads a clock, the environment or random numbers."""
        return all(func.hermetic for func in self.compiled.functions)

    @property
    def is_pure(self) -> bool:
        """Whether it calls no function that changes a map."""
        return self.compiled.is_pure

    def render(self, data: TemplateData) -> str:
        """Return the rendered text."""
        pointer = Pointer(f"*{data.go_type}", data)
        token = _RENDERED.set((pointer, 0))
        try:
            return self.compiled.execute(pointer)
        finally:
            _RENDERED.reset(token)


def _render(functions: Mapping[str, Func]) -> Func:
    """Return the function ``render`` of 1.2 to 1.13, which renders a text with the data and functions of the calling template.

    Follows ``RunTemplate`` in pkg/kube/inject/inject.go (1.13.9): a text that cannot be rendered gives an empty text.
    """

    def render(text: str) -> str:
        spend(_COMPILE_STEPS * len(text))
        reserve(_COMPILE_BYTES * len(text))
        data, depth = _RENDERED.get()
        if depth >= _MAX_RENDER_DEPTH:
            raise FuncError(f"templates render themselves deeper than {_MAX_RENDER_DEPTH}")
        token = _RENDERED.set((data, depth + 1))
        try:
            return templates.get(text, compiled).execute(data)
        except BudgetError:
            raise
        except TemplateError:
            return ""
        finally:
            _RENDERED.reset(token)

    def compiled(text: str) -> GoTemplate:
        return compile_template("inject", text, funcs=functions)

    templates: Memo[str, GoTemplate] = Memo(_MAX_COMPILED, _MAX_COMPILED_CHARACTERS, len)
    return Func("render", "func(string) string", render, hermetic=False, mutates=True)


def go_functions(minor: Minor, env: Mapping[str, str]) -> dict[str, Func]:
    """Return the functions of templates of ``minor``: Istio's replace sprig's, which replace Go's own."""
    functions = txt_func_map(environ=env) if minor >= _SPRIG_SINCE else {}
    functions.update(istio_functions(minor, env))
    if _RENDER_SINCE <= minor <= _RENDER_UNTIL:
        functions["render"] = _render(functions)
    return functions


def compile_go_template(name: str, text: str, functions: Mapping[str, Func], delimiters: tuple[str, str]) -> Template:
    """Compile one Go template of an inject config. Raises TemplateRenderError, with the line, if it does not parse."""
    left, right = delimiters
    compiled = compile_template(name, text, funcs=functions, left=left, right=right)
    called = frozenset(func.name for func in compiled.functions)
    return GoTextTemplate(compiled, called, annotations_read(compiled.trees))


_COMPILED: Final[WeakValueDictionary[Hashable, Template]] = WeakValueDictionary()


def compile_go_templates(
    texts: Mapping[str, str], delimiters: tuple[str, str], minor: Minor, env: Mapping[str, str]
) -> Mapping[str, Template]:
    """Compile the Go templates of an inject config, except those that another revision in use has already compiled.

    A compiled template keeps nothing between renderings, so threads and revisions can share it. Raises TemplateRenderError, with the line,
    if a template does not parse.
    """
    functions = cache(partial(go_functions, minor, env))

    def compiled(name: str, text: str) -> Template:
        key = name, text, delimiters, minor, tuple(sorted(env.items()))
        return shared(_COMPILED, key, lambda: compile_go_template(name, text, functions(), delimiters))

    return MappingProxyType({name: compiled(name, text) for name, text in texts.items()})


_ANNOTATIONS: Final = "Annotations"
_METADATA: Final = frozenset({"ObjectMeta", "DeploymentMeta"})
"""The fields of the template data that have annotations."""
_BY_KEY: Final = frozenset({"annotation", "index", "isset"})
"""Functions of the annotations, or of the metadata, and a key."""
_BY_PREFIX: Final = {"otelResourceAttributes": "resource.opentelemetry.io/"}
"""Functions that read all annotations whose keys begin so."""
_RENDERS: Final = "render"
"""It renders a text with the data of the calling template."""
_KEY_ARGUMENTS: Final = 3
"""A function of ``_BY_KEY``, the annotations and the key."""


class _AnyError(Exception):
    """The template can read any annotation."""


def annotations_read(trees: Iterable[Tree]) -> frozenset[str] | None:
    """Return the keys of the annotations that templates can read, or the beginnings of keys with ``*``; None if they can read any."""
    reader = _Reader()
    try:
        for tree in trees:
            # ``{{template}}`` may call it with the data of its caller.
            reader.read(tree.root, holds=True)
    except (_AnyError, RecursionError):
        # A chain of else-if nests as deep as it is long.
        return None
    return frozenset(reader.keys)


def reads(keys: frozenset[str], key: str) -> bool:
    """Return whether ``keys``, from ``annotations_read``, has ``key``."""
    return key in keys or key.startswith(_beginnings(keys))


@lru_cache(64)
def _beginnings(keys: frozenset[str]) -> tuple[str, ...]:
    return tuple(each[:-1] for each in keys if each.endswith("*"))


class _Reader:
    """Walks through a template. ``holds`` is whether dot may be the template data; it is never a part of it with annotations."""

    def __init__(self) -> None:
        self.keys: set[str] = set()

    def read(self, node: Node | None, *, holds: bool) -> None:
        match node:
            case ListNode(nodes=nodes):
                for each in nodes:
                    self.read(each, holds=holds)
            case ActionNode(pipe=pipe):
                self._refuse(self._pipe(pipe, holds=holds))
            case IfNode(pipe=pipe, body=body, else_body=otherwise):
                self._pipe(pipe, holds=holds)
                self.read(body, holds=holds)
                self.read(otherwise, holds=holds)
            case WithNode(pipe=pipe, body=body, else_body=otherwise):
                self.read(body, holds=self._dot(pipe, holds=holds))
                self.read(otherwise, holds=holds)
            case RangeNode(pipe=pipe, body=body, else_body=otherwise):
                self._refuse(self._pipe(pipe, holds=holds))
                self.read(body, holds=False)
                self.read(otherwise, holds=holds)
            case TemplateNode(pipe=PipeNode() as pipe):
                self._dot(pipe, holds=holds)

    def _refuse(self, whole: bool) -> None:  # noqa: FBT001 -- the only argument
        if whole:
            raise _AnyError

    def _dot(self, pipe: PipeNode, *, holds: bool) -> bool:
        """Return whether a pipeline, whose value becomes dot, may be the template data."""
        value = self._pipe(pipe, holds=holds)
        self._refuse(value and str(pipe) not in {".", "$"})
        return value

    def _pipe(self, pipe: PipeNode, *, holds: bool) -> bool:
        """Return whether the value of a pipeline may hold annotations. Variables never do."""
        value = False
        for command in pipe.cmds:
            value = self._command(command, holds=holds, piped=value)
        self._refuse(value and bool(pipe.decl))
        return value

    def _command(self, command: CommandNode, *, holds: bool, piped: bool) -> bool:
        first, *arguments = command.args
        if not isinstance(first, IdentifierNode):
            self._refuse(piped or any(self._operand(each, holds=holds) for each in arguments))
            return self._operand(first, holds=holds)
        self._refuse(piped or first.name == _RENDERS)
        whole = [self._operand(each, holds=holds) for each in arguments]
        if any(whole):
            self._refuse(any(whole[1:]) and first.name not in _BY_PREFIX)
            self._call(first.name, command.args)
        return False

    def _call(self, name: str, args: Sequence[Node]) -> None:
        """Note what a function reads of annotations."""
        if name in _BY_PREFIX:
            self.keys.add(f"{_BY_PREFIX[name]}*")
        elif name in _BY_KEY and len(args) >= _KEY_ARGUMENTS and isinstance(args[2], StringNode):
            self.keys.add(args[2].text)
        else:
            raise _AnyError

    def _operand(self, node: Node, *, holds: bool) -> bool:
        """Return whether an operand may hold annotations."""
        match node:
            case DotNode():
                return holds
            case FieldNode(idents=idents):
                return self._fields(idents, holds=holds)
            case VariableNode(idents=(variable, *idents)):
                # ``$`` is what the template was called with.
                return self._fields(idents, holds=variable == "$")
            case ChainNode(node=inner):
                self._refuse(self._operand(inner, holds=holds))
            case PipeNode():
                return self._pipe(node, holds=holds)
            case IdentifierNode(name=name):
                self._refuse(name == _RENDERS)
        return False

    def _fields(self, idents: Sequence[str], *, holds: bool) -> bool:
        """Return whether fields of a value may hold annotations."""
        if not holds:
            return False
        for index, ident in enumerate(idents):
            if ident == _ANNOTATIONS:
                self.keys.update(idents[index + 1 : index + 2])
                return index + 1 == len(idents)
            if ident not in _METADATA:
                # A method such as GetAnnotations could return them.
                self._refuse(ident.startswith("Get"))
                return False
        return True
