"""Package fmt's Print, Println and Printf (fmt/print.go doPrint, doPrintln and doPrintf, Go 1.26)."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from injector.gotemplate.budget import MAX_SIZE, check_size, spend
from injector.gotemplate.formats import Spec
from injector.gotemplate.printing import print_operand
from injector.gotemplate.reflect import basic_kind, type_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# What Go takes for the width, precision or argument of a mistake (tooLarge).
_TOO_LARGE: Final = 1_000_000
_FLOATS: Final = 1_024
"""Floats whose text is kept: every number of a revision's values is one."""
_DIRECTIVE_STEPS: Final = 4
_DIGITS: Final = "0123456789"
_FLAGS: Final = {"#": "sharp", "0": "zero", "+": "plus", "-": "minus", " ": "space"}


def sprint(*args: Any) -> str:
    """Return fmt.Sprint: operands in default format, a space between two that are no strings."""
    if len(args) == 1:
        kind = type(args[0])
        if kind is str and len(args[0]) <= MAX_SIZE:
            return str(args[0])
        if kind in _SCALARS:
            return _SCALARS[kind](args[0])
    parts: list[str] = []
    size = 0
    for index, arg in enumerate(args):
        if index and not isinstance(arg, str) and not isinstance(args[index - 1], str):
            parts.append(" ")
        parts.append(arg if type(arg) is str else print_operand(arg, "v", Spec()))
        size += len(parts[-1])
        check_size(size)
    return "".join(parts)


@lru_cache(_FLOATS)
def _float(value: float, sign: float) -> str:
    """Return a float in default format; ``sign`` tells -0 from 0, which are equal."""
    del sign
    return print_operand(value, "v", Spec())


_SCALARS: Final[dict[type, Callable[[Any], str]]] = {
    bool: lambda value: "true" if value else "false",
    int: int.__str__,
    float: lambda value: _float(value, math.copysign(1, value)),
}
"""What the values print as that need no look for methods."""


def sprintln(*args: Any) -> str:
    """Return fmt.Sprintln: operands in default format with spaces between, and a newline."""
    texts: list[str] = []
    size = 0
    for arg in args:
        texts.append(print_operand(arg, "v", Spec()))
        size += len(texts[-1]) + 1
        check_size(size)
    return " ".join(texts) + "\n"


def sprintf(template: str, *args: Any) -> str:
    """Return fmt.Sprintf.

    Raises:
        FuncError: the result would be larger than any output may be.
    """
    return _Printer(template, args).run()


class _Printer:
    """Walks a format string as fmt.doPrintf does."""

    def __init__(self, template: str, args: Sequence[Any]) -> None:
        self.format = template
        self.args = args
        self.pos = 0
        self.arg = 0
        self.reordered = False
        self.good_index = True
        self.after_index = False
        self.out: list[str] = []
        self.size = 0

    def write(self, text: str) -> None:
        self.size += len(text)
        check_size(self.size)
        self.out.append(text)

    def run(self) -> str:
        text = self.format
        while self.pos < len(text):
            found = text.find("%", self.pos)
            if found < 0:
                self.write(text[self.pos :])
                break
            self.write(text[self.pos : found])
            self.pos = found + 1
            self.good_index = True
            self.directive()
        if not self.reordered and self.arg < len(self.args):
            extra = map(_extra, self.args[self.arg :])
            self.write(f"%!(EXTRA {', '.join(extra)})")
        return "".join(self.out)

    def directive(self) -> None:
        spend(_DIRECTIVE_STEPS)
        spec = self.flags()
        self.after_index = self.index()
        self.width(spec)
        self.precision(spec)
        if not self.after_index:
            self.after_index = self.index()
        if self.pos >= len(self.format):
            self.write("%!(NOVERB)")
            return
        verb = "\ufffd" if "\ud800" <= self.format[self.pos] <= "\udfff" else self.format[self.pos]
        self.pos += 1
        if verb == "%":
            self.write("%")
        elif not self.good_index:
            self.write(f"%!{verb}(BADINDEX)")
        elif self.arg >= len(self.args):
            self.write(f"%!{verb}(MISSING)")
        else:
            if verb in "vw":
                spec.sharp_v, spec.sharp = spec.sharp, False
                spec.plus_v, spec.plus = spec.plus, False
            self.arg += 1
            self.write(print_operand(self.args[self.arg - 1], verb, spec))

    def flags(self) -> Spec:
        spec = Spec()
        while (flag := _FLAGS.get(self.format[self.pos : self.pos + 1])) is not None:
            setattr(spec, flag, True)
            self.pos += 1
        return spec

    def index(self) -> bool:
        """Read an argument index such as ``[2]``, if there is one; return whether it was well formed."""
        if not self.format.startswith("[", self.pos):
            return False
        self.reordered = True
        end = self.format.find("]", self.pos)
        if len(self.format) - self.pos < len("[1]") or end < 0:
            self.good_index = False
            self.pos += 1
            return False
        digits, self.pos = self.format[self.pos + 1 : end], end + 1
        number = _number(digits) if digits and not digits.strip(_DIGITS) else None
        if number is None or not 1 <= number <= len(self.args):
            self.good_index = False
            return number is not None
        self.arg = number - 1
        return True

    def width(self, spec: Spec) -> None:
        if self.format.startswith("*", self.pos):
            self.pos += 1
            spec.width = self.integer_arg()
            if spec.width is None:
                self.write("%!(BADWIDTH)")
            elif spec.width < 0:
                spec.minus, spec.zero, spec.width = True, False, -spec.width
            self.after_index = False
            return
        spec.width = self.number()
        if self.after_index and spec.width is not None:
            self.good_index = False

    def precision(self, spec: Spec) -> None:
        if not self.format.startswith(".", self.pos) or self.pos + 1 >= len(self.format):
            return
        self.pos += 1
        if self.after_index:
            self.good_index = False
        self.after_index = self.index()
        if not self.format.startswith("*", self.pos):
            spec.precision = self.number() or 0
            return
        self.pos += 1
        spec.precision = self.integer_arg()
        if spec.precision is not None and spec.precision < 0:
            spec.precision = None
        if spec.precision is None:
            self.write("%!(BADPREC)")
        self.after_index = False

    def number(self) -> int | None:
        """Read a number, if there is one; one that is too large ends the format."""
        begin = self.pos
        while self.pos < len(self.format) and self.format[self.pos] in _DIGITS:
            self.pos += 1
        if self.pos == begin:
            return None
        number = _number(self.format[begin : self.pos])
        if number is None:
            self.pos = len(self.format)
        return number

    def integer_arg(self) -> int | None:
        """Take an argument for a width or precision; None for one that is none."""
        if self.arg >= len(self.args):
            return None
        value = self.args[self.arg]
        self.arg += 1
        is_integer = basic_kind(value) in ("int", "uint")
        return int(value) if is_integer and abs(int(value)) <= _TOO_LARGE else None


def _number(digits: str) -> int | None:
    """Return a number; None for one so large that Go stops reading it (parsenum)."""
    shown = digits.lstrip("0")
    return None if len(shown) > len(str(_TOO_LARGE)) + 1 or int(shown[:-1] or 0) > _TOO_LARGE else int(shown or 0)


def _extra(arg: Any) -> str:
    return "<nil>" if arg is None else f"{type_of(arg)}={print_operand(arg, 'v', Spec())}"
