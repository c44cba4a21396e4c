"""Which annotations a Go template can read, by its source.

Istio's templates ask for annotations by constant keys. A value that no template reads cannot break out of one, so the guard need not
render a pod once more for it. The answer errs on the safe side: if a template prints, stores or passes on the annotations as a whole, in
any way that is not known here, it can read all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

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
    except _AnyError:
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
