"""Errors of templates, worded as Go words them.

::

    TemplateError          str() is Go's text to the letter
    ├── ParseError         the text is no template: template, line, reason
    └── ExecError          a step failed: template, line, column, node, reason
        └── BudgetError    a step, output, depth or time budget is spent
    FuncError              what a function returns or panics with; the engine wraps it into an ExecError
"""

from __future__ import annotations

from injector.errors import TemplateRenderError


class TemplateError(TemplateRenderError):
    """A template that does not parse or run."""


class ParseError(TemplateError):
    """A text that is no template (Go's parse.Tree.errorf)."""

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


class BudgetError(ExecError):
    """A template that asks for more steps, output, nesting or time than it may."""


class FuncError(Exception):
    """The error a template function returns, or the value it panics with; the text is Go's."""
