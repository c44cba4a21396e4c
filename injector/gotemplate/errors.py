"""Errors of templates, with Go's texts, and the exceptions of a running template before its node is known.

::

    TemplateError          str() is Go's text to the letter
    ├── ParseError         the text is not a template: template, line, reason
    └── ExecError          a step failed: template, line, column, node, reason
        └── BudgetError    a step, output, depth or time budget is spent
    FuncError              what a function returns or panics with; the engine wraps it into an ExecError

Generated code and the functions it calls do not know the current node, unlike text/template's ``state.node``. They raise one of the
other exceptions, and the compiler's line map finds the node by the line of the generated code that raised it.
"""

from __future__ import annotations

from injector.errors import TemplateBudgetError, TemplateRenderError


class TemplateError(TemplateRenderError):
    """A template that does not parse or run."""


class ParseError(TemplateError):
    """A text that is not a template (Go's parse.Tree.errorf)."""

    def __init__(self, template: str, line: int, reason: str) -> None:
        super().__init__(f"template: {template}:{line}: {reason}")
        self.template = template
        self.line = line
        self.reason = reason


class ExecError(TemplateError):
    """A step that failed (Go's template.ExecError).

    ``name`` is the template that ran, ``template`` the text that ``line`` and ``column`` (bytes from 0) point into, ``node`` the
    source of the step.
    """

    def __init__(self, name: str, template: str, line: int, column: int, node: str, reason: str) -> None:
        super().__init__(f'template: {template}:{line}:{column}: executing "{name}" at <{node}>: {reason}')
        self.name = name
        self.template = template
        self.line = line
        self.column = column
        self.node = node
        self.reason = reason


class BudgetError(ExecError, TemplateBudgetError):
    """A template that asks for more steps, output, nesting or time than it may."""


class FuncError(Exception):
    """The error a template function returns, or the value it panics with; the text is Go's."""


class Failure(Exception):  # noqa: N818 - it becomes an ExecError
    """A step that failed, at the node that was visited last; the text is the reason."""


class FieldFailure(Failure):
    """A field that a receiver lacks. ``{type}`` in the reason stands for the receiver's static type, which only its origin knows."""

    def __init__(self, reason: str, receiver: object) -> None:
        super().__init__(reason)
        self.receiver = receiver


class MethodFailure(Failure):
    """An error that a method returned. It is reported at the node that called the method."""


class Unprintable(Failure):
    """A value that cannot be printed. ``{node}`` in the reason stands for the node."""


class Spent(Exception):  # noqa: N818 - it becomes a BudgetError, in a Jinja2 template a TemplateBudgetError
    """A budget that is spent; the text names the limit."""
