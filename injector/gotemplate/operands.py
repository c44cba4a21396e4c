"""Values in generated code: expressions with what is known of them while it is written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from injector.gotemplate.budget import Budget, metered_by
from injector.gotemplate.errors import FuncError, TemplateError
from injector.gotemplate.failures import Spent
from injector.gotemplate.reflect import NO_VALUE
from injector.gotemplate.rendering import Rendering

if TYPE_CHECKING:
    from collections.abc import Sequence

    from injector.gotemplate.source import Origin
    from injector.gotemplate.values import Func

NO_VALUE_CODE: Final = "NV"
# Longer texts are made anew for each rendering, so that the compiled template stays small, and so is what takes long.
_LONGEST_FOLD: Final = 4096
_FOLDING: Final = Budget(steps=20_000, memory=1 << 20)


@dataclass(frozen=True, slots=True)
class Operand:
    """An expression in generated code: a name or a literal.

    ``type`` is the Go type where it is sure, ``nilable`` whether it can be a nil interface, which a pipeline's end makes no value.
    A constant's value is in ``value``; such an operand has no effect and cannot fail.
    """

    code: str
    type: str = ""
    nilable: bool = False
    origin: Origin | None = None
    is_constant: bool = False
    value: Any = None


NOTHING: Final = Operand(NO_VALUE_CODE, is_constant=True, value=NO_VALUE)


@dataclass(frozen=True, slots=True)
class Variable:
    """A template variable: the local that holds it, and the one that holds what it is an element of, if it is one.

    ``maybe`` says that it is declared inside an operand of ``and`` or ``or``, which may not run.
    """

    name: str
    operand: Operand
    maybe: bool = False


def container_of(value: Operand) -> str:
    """Return the local that holds what a value is an element or field of."""
    return value.origin.container if value.origin and value.origin.container else "None"


def folded(func: Func, given: Sequence[Operand]) -> Any:
    """Return what a function makes of constants, if that is one itself; None where the call has to wait for its rendering."""
    values = [operand.value for operand in given]
    if not (func.hermetic and values and all(operand.is_constant for operand in given)) or NO_VALUE in values:
        return None
    try:
        with metered_by(Rendering(_FOLDING)):
            result = func.call(*values)
    except (FuncError, Spent, TemplateError):
        return None
    is_plain = isinstance(result, str | int | float) and not (isinstance(result, str) and len(result) > _LONGEST_FOLD)
    return result if is_plain else None
