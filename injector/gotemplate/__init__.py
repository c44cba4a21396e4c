"""Go's text/template in Python: parsed and compiled once, executed on data within a budget.

- ``lexer``, ``parser``, ``nodes``: text to tokens to the parse tree.
- ``compiler``, ``codegen``: the tree to one Python function, which a rendering calls.
- ``runtime``, ``builtins``: what that function calls: fields, methods, loops, and Go's own functions.
- ``values``, ``fmt``: the Go values that templates see, and how they are printed.
- ``functions``, ``costs``, ``budget``: declared functions, what a call costs, and the limits of a rendering.
- ``errors``: Go's error texts.
- ``hidden``: a text that tells whether a template reads it.
- ``sprig``: the functions of Masterminds/sprig.

It promises Go's output and Go's error texts, to the letter, for values in the model of ``values``. It knows neither Kubernetes nor
Istio and could be a library of its own.
"""

from injector.gotemplate.budget import Budget
from injector.gotemplate.compiler import GoTemplate, compile_template, compile_trees
from injector.gotemplate.costs import Cost
from injector.gotemplate.errors import BudgetError, ExecError, FuncError, ParseError, TemplateError
from injector.gotemplate.functions import FuncMap
from injector.gotemplate.values import Func

__all__ = [
    "Budget",
    "BudgetError",
    "Cost",
    "ExecError",
    "Func",
    "FuncError",
    "FuncMap",
    "GoTemplate",
    "ParseError",
    "TemplateError",
    "compile_template",
    "compile_trees",
]
