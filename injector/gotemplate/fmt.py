"""Package fmt: Print, Println and Printf, and how a value is printed by a verb (fmt/print.go and format.go, strconv, Go 1.26)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from injector.golang.strconv import can_backquote, format_float, format_g, from_bytes, is_printable, quote, to_bytes
from injector.gotemplate.budget import MAX_SIZE, check_size, reserve, spend
from injector.gotemplate.errors import FuncError
from injector.gotemplate.values import (
    ANY,
    NO_VALUE,
    Func,
    Pointer,
    SizedInt,
    Slice,
    Struct,
    Uint8,
    basic_kind,
    is_nil,
    kind_of,
    sorted_items,
    type_of,
)

_MAX_RUNE: Final = 0x10FFFF
_SURROGATES: Final = range(0xD800, 0xE000)
_BASES: Final = {"v": 10, "d": 10, "b": 2, "o": 8, "O": 8, "x": 16, "X": 16}
_DIGITS: Final = {10: "d", 2: "b", 8: "o", 16: "x"}
_PREFIXES: Final = {2: "0b", 16: "0x"}
FLOAT_VERBS: Final = "vbgGxXfFeE"


@dataclass(slots=True)
class Spec:
    """One directive of a format: flags, width, precision. ``plus_v`` and ``sharp_v`` are those flags of ``%v``."""

    plus: bool = False
    minus: bool = False
    sharp: bool = False
    space: bool = False
    zero: bool = False
    width: int | None = None
    precision: int | None = None
    plus_v: bool = False
    sharp_v: bool = False

    def pad(self, text: str, *, zeros: bool = True) -> str:
        """Return text padded to the width: spaces, or zeros where the flag asks and ``zeros`` permits."""
        if self.width is None or len(text) >= self.width:
            return text
        check_size(self.width, "width")
        if self.minus:
            return text.ljust(self.width)
        return text.rjust(self.width, "0" if zeros and self.zero else " ")

    def cut(self, text: str) -> str:
        """Return a text cut to the precision, in characters."""
        return text if self.precision is None else text[: self.precision]


def format_string(text: str, verb: str, spec: Spec) -> str | None:
    """Return a string by a verb; None if it does not support the verb."""
    if verb == "s" or (verb == "v" and not spec.sharp_v):
        return spec.pad(spec.cut(text))
    if verb in "qv":
        return spec.pad(_quote(spec.cut(text), spec))
    return format_bytes(to_bytes(text), verb, spec) if verb in "xX" else None


def _quote(text: str, spec: Spec) -> str:
    return f"`{text}`" if spec.sharp and can_backquote(text) else quote(text, ascii_only=spec.plus)


def format_bytes(raw: bytes, verb: str, spec: Spec) -> str:
    """Return bytes in hexadecimal; the precision is a number of bytes."""
    raw = raw if spec.precision is None else raw[: spec.precision]
    check_size(5 * len(raw))
    digits = raw.hex(" ") if spec.space else raw.hex()
    if spec.sharp and raw:
        digits = " ".join(f"0x{part}" for part in digits.split(" "))
    return spec.pad(digits.upper() if verb == "X" else digits)


def format_integer(number: int, verb: str, spec: Spec, *, unsigned: bool = False) -> str | None:
    """Return an integer by a verb; None if it does not support the verb."""
    if verb == "v" and spec.sharp_v and unsigned:
        return hexadecimal(number, spec)
    if verb in _BASES:
        return _digits(number, verb, spec)
    if verb == "c":
        return spec.pad(_rune(number))
    if verb == "q":
        return spec.pad(quote(_rune(number), "'", ascii_only=spec.plus))
    return _code_point(number, spec) if verb == "U" else None


def hexadecimal(number: int, spec: Spec, *, prefix: bool = True) -> str:
    """Return an unsigned number in hexadecimal, as ``%#v`` and pointers show it."""
    return _digits(number, "x", replace(spec, sharp=prefix))


def _digits(number: int, verb: str, spec: Spec) -> str:
    base = _BASES[verb]
    sign = "-" if number < 0 else "+" if spec.plus else " " if spec.space else ""
    text = format(abs(number), _DIGITS[base])
    if spec.precision is not None:
        if spec.precision == 0 and number == 0:
            return spec.pad("", zeros=False)
        check_size(spec.precision, "precision")
        text = text.rjust(spec.precision, "0")
    elif spec.zero and not spec.minus and spec.width is not None:
        check_size(spec.width, "width")
        text = text.rjust(spec.width - len(sign), "0")
    if spec.sharp and base == _BASES["o"]:
        text = text if text.startswith("0") else f"0{text}"
    elif spec.sharp:
        text = _PREFIXES.get(base, "") + text
    text = f"0o{text}" if verb == "O" else text
    return spec.pad(sign + (text.upper() if verb == "X" else text), zeros=False)


def _rune(number: int) -> str:
    return chr(number) if 0 <= number <= _MAX_RUNE and number not in _SURROGATES else "\ufffd"


def _code_point(number: int, spec: Spec) -> str:
    digits = max(spec.precision or 0, 4)
    check_size(digits, "precision")
    text = f"U+{number & 0xFFFFFFFFFFFFFFFF:0{digits}X}"
    if spec.sharp and 0 <= number <= _MAX_RUNE and number not in _SURROGATES and is_printable(chr(number)):
        text += f" '{chr(number)}'"
    return spec.pad(text, zeros=False)


def format_real(value: float, verb: str, spec: Spec, size: int = 64) -> str | None:
    """Return a float by a verb; None if it does not support the verb."""
    if verb not in FLOAT_VERBS:
        return None
    check_size(spec.precision or 0, "precision")
    text = format_float(value, verb, spec.precision, size, sharp=spec.sharp)
    sign, text = ("-", text[1:]) if text.startswith("-") else ("+", text)
    if spec.space and sign == "+" and not spec.plus:
        sign = " "
    if not math.isfinite(value):
        hidden = math.isnan(value) and not spec.space and not spec.plus
        return spec.pad(text if hidden else sign + text, zeros=False)
    if sign == "+" and not spec.plus:
        return spec.pad(text)
    if spec.zero and not spec.minus and spec.width is not None and spec.width > len(text) + 1:
        check_size(spec.width, "width")
        return sign + text.rjust(spec.width - 1, "0")
    return spec.pad(sign + text)


def format_complex(value: complex, verb: str, spec: Spec) -> str | None:
    """Return a complex number by a verb: both parts, the imaginary one with its sign; None if it does not support the verb."""
    if verb not in FLOAT_VERBS:
        return None
    real, imaginary = format_real(value.real, verb, spec), format_real(value.imag, verb, replace(spec, plus=True))
    return f"({real}{imaginary}i)"


# Deeper data is hostile, or refers to itself; Go would go on until its stack ends.
_MAX_DEPTH: Final = 100
_METHOD_VERBS: Final = "vsxXq"
# The cost of printing a value: its type and address, and the pieces of its text.
_VALUE_STEPS: Final = 20
_VALUE_BYTES: Final = 96


def print_operand(value: Any, verb: str, spec: Spec) -> str:
    """Return an operand of Print or Printf by a verb (printArg)."""
    if value is None:
        return spec.pad("<nil>") if verb in "Tv" else f"%!{verb}(<nil>)"
    if verb == "T":
        return spec.pad(spec.cut(type_of(value)))
    if verb == "p":
        return _address(value, verb, spec)
    return _Values(spec).value(value, verb, 0)


class _Values:
    """Prints one operand and the values inside it."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.erroring = False
        self.size = 0

    def value(self, value: Any, verb: str, depth: int) -> str:
        """Return a value by a verb (printValue)."""
        if depth > _MAX_DEPTH:
            raise FuncError("value nests too deeply to print")
        # A list of bytes has no methods where it is the operand itself: its elements complain.
        is_plain = self.erroring or (depth == 0 and verb == "w" and type_of(value) == "[]uint8")
        text = None if is_plain else self.by_method(value, verb)
        if text is None:
            text = self.scalar(value, verb)
        if text is not None:
            self.size += len(text)
            check_size(self.size)
            return text
        text = self.composite(value, verb, depth)
        return self.bad_verb(value, verb) if text is None else text

    def by_method(self, value: Any, verb: str) -> str | None:
        """Return the text of a value's own method, or None if it has none (handleMethods)."""
        if verb == "w":
            return self.bad_verb(value, verb)
        if verb not in _METHOD_VERBS or self.spec.sharp_v:
            return None
        target = value
        if isinstance(value, Pointer):
            if value.target is None:
                return "<nil>" if value.method("String") or value.method("Error") else None
            target = value.target
        stringer = getattr(target, "go_string", None)
        if stringer is None:
            return None
        try:
            text = stringer()
        except FuncError as panic:
            return f"%!{verb}(PANIC=String method: {panic})"
        return format_string(text, verb, self.spec)

    def bad_verb(self, value: Any, verb: str) -> str:
        """Return the error text for a verb that a value does not support (badVerb)."""
        outer, self.erroring = self.erroring, True
        text = f"%!{verb}({type_of(value)}={self.value(value, 'v', 0)})"
        self.erroring = outer
        return text

    def scalar(self, value: Any, verb: str) -> str | None:
        """Return a boolean, number or string by a verb; None for other values, and if the value does not support the verb."""
        match basic_kind(value):
            case "bool":
                return self.spec.pad("true" if value else "false") if verb in "tv" else None
            case "string":
                return format_string(str.__str__(value), verb, self.spec)
            case "int":
                return format_integer(int(value), verb, self.spec)
            case "uint":
                return format_integer(int(value), verb, self.spec, unsigned=True)
            case "float":
                return format_real(float(value), verb, self.spec, 32 if kind_of(value) == "float32" else 64)
            case "complex":
                return format_complex(value, verb, self.spec)
        return None

    def composite(self, value: Any, verb: str, depth: int) -> str | None:
        """Return a list, map, struct or pointer by a verb; None if it does not support the verb."""
        if isinstance(value, list | bytes | dict):
            values = len(value) * (2 if isinstance(value, dict) else 1)
            spend(_VALUE_STEPS * values)
            reserve(_VALUE_BYTES * values)
        if isinstance(value, list | bytes):
            return self.items(value, verb, depth)
        if isinstance(value, dict):
            return self.entries(value, verb, depth)
        if isinstance(value, Struct):
            return self.fields(value, verb, depth)
        if isinstance(value, Pointer) and depth == 0:
            if isinstance(value.target, Struct | list | dict):
                return "&" + self.value(value.target, verb, depth + 1)
            if verb == "v" and value.target is not None and not self.erroring:
                # Go prints the address, which is another on every run.
                return self.value(value.target, verb, depth + 1)
        if isinstance(value, Pointer | Func):
            return _address(value, verb, self.spec)
        return "<no value>" if value is NO_VALUE else None

    def items(self, value: Any, verb: str, depth: int) -> str:
        """Return the elements of a list."""
        elem = value.elem if isinstance(value, Slice) else "uint8" if isinstance(value, bytes) else ANY
        if elem == "uint8" and verb in "xX":
            return format_bytes(bytes(value), verb, self.spec)
        if elem == "uint8" and verb in "sq":
            return format_string(from_bytes(bytes(value)), verb, self.spec) or ""
        items = [self.inner(item, verb, depth) for item in (map(Uint8, value) if isinstance(value, bytes) else value)]
        # At the top Go prints the type []uint8 by its other name.
        plain = elem == "uint8" and depth == 0 and verb in "vd" and not self.erroring
        return self.join(value, "[]byte" if plain else type_of(value), items, "[]")

    def entries(self, value: dict[Any, Any], verb: str, depth: int) -> str:
        """Return the entries of a map, by key."""
        entries = [
            f"{self.inner(key, verb, depth)}:{self.inner(item, verb, depth)}" for key, item in sorted_items(value)
        ]
        return self.join(value, type_of(value), entries, "map[]")

    def fields(self, value: Struct, verb: str, depth: int) -> str:
        """Return the fields of a struct, with their names where the flags ask for them."""
        named = self.spec.plus_v or self.spec.sharp_v
        fields = [f"{name}:" * named + self.inner(item, verb, depth) for name, item in value.fields()]
        return self.join(value, value.go_type, fields, "{}")

    def inner(self, value: Any, verb: str, depth: int) -> str:
        """Return an element of a list, map or struct."""
        if value is None:
            return f"{ANY}(nil)" if self.spec.sharp_v else "<nil>"
        return self.value(value, verb, depth + 1)

    def join(self, value: Any, name: str, parts: list[str], brackets: str) -> str:
        """Return elements in ``brackets``, or in Go's syntax after the type's name; the elements have been counted."""
        if self.spec.sharp_v and is_nil(value):
            return f"{name}(nil)"
        separator, brackets = (", ", f"{name}{{}}") if self.spec.sharp_v else (" ", brackets)
        self.size += len(brackets) + len(separator) * len(parts)
        check_size(self.size)
        return brackets[:-1] + separator.join(parts) + brackets[-1]


def _address(value: Any, verb: str, spec: Spec) -> str:
    """Return a pointer by a verb (fmtPointer)."""
    if not isinstance(value, Pointer | Func | list | dict):
        return _Values(spec).bad_verb(value, verb)
    address = 0 if is_nil(value) else id(value)
    if verb == "v" and spec.sharp_v:
        digits = hexadecimal(address, spec) if address else "nil"
        return f"({type_of(value)})({digits})"
    if verb == "v" and not address:
        return spec.pad("<nil>")
    if verb in "vp":
        return hexadecimal(address, spec, prefix=not spec.sharp)
    text = format_integer(address, verb, spec, unsigned=True) if verb in "bodxX" else None
    return _Values(spec).bad_verb(value, verb) if text is None else text


# What Go takes for the width, precision or argument of a mistake (tooLarge).
_TOO_LARGE: Final = 1_000_000
# A directive takes as long as four actions of a template.
_DIRECTIVE_STEPS: Final = 4
_PRINTF_DIGITS: Final = "0123456789"
_FLAGS: Final = {"#": "sharp", "0": "zero", "+": "plus", "-": "minus", " ": "space"}


def sprint(*args: Any) -> str:
    """Return fmt.Sprint: operands in default format, a space between two that are not strings."""
    if len(args) == 1:
        value = args[0]
        if value.__class__ in _SCALARS:
            return _SCALARS[value.__class__](value)
        if value.__class__ is str and len(value) <= MAX_SIZE:
            return str(value)
    out = _Output()
    for index, arg in enumerate(args):
        if index and not isinstance(arg, str) and not isinstance(args[index - 1], str):
            out.write(" ")
        out.write(arg if type(arg) is str else print_operand(arg, "v", Spec()))
    return "".join(out.parts)


_SCALARS: Final[dict[type, Callable[[Any], str]]] = {
    type(None): lambda _: "<nil>",
    bool: lambda value: "true" if value else "false",
    int: int.__str__,
    float: format_g,
    **dict.fromkeys(SizedInt.__subclasses__(), int.__str__),
}
"""The printers of the types that have no methods."""


def sprintln(*args: Any) -> str:
    """Return fmt.Sprintln: operands in default format with spaces between, and a newline."""
    out = _Output()
    for arg in args:
        out.write(f"{' ' * bool(out.parts)}{print_operand(arg, 'v', Spec())}")
    return "".join(out.parts) + "\n"


def sprintf(template: str, *args: Any) -> str:
    """Return fmt.Sprintf. Raises FuncError if the result would be larger than any output may be."""
    return _Printer(template, args).run()


class _Output:
    """The parts of a text, whose size is checked at each."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.size = 0

    def write(self, text: str) -> None:
        self.size += len(text)
        check_size(self.size)
        self.parts.append(text)


class _Printer(_Output):
    """Walks a format string as fmt.doPrintf does."""

    def __init__(self, template: str, args: Sequence[Any]) -> None:
        super().__init__()
        self.format = template
        self.args = args
        self.pos = 0
        self.arg = 0
        self.reordered = False
        self.good_index = True
        self.after_index = False

    def run(self) -> str:
        text = self.format
        while self.pos < len(text):
            percent = text.find("%", self.pos)
            if percent < 0:
                self.write(text[self.pos :])
                break
            self.write(text[self.pos : percent])
            self.pos = percent + 1
            self.good_index = True
            self.directive()
        if not self.reordered and self.arg < len(self.args):
            extra = map(_extra, self.args[self.arg :])
            self.write(f"%!(EXTRA {', '.join(extra)})")
        return "".join(self.parts)

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
        number = _number(digits) if digits and not digits.strip(_PRINTF_DIGITS) else None
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
        while self.pos < len(self.format) and self.format[self.pos] in _PRINTF_DIGITS:
            self.pos += 1
        if self.pos == begin:
            return None
        number = _number(self.format[begin : self.pos])
        if number is None:
            self.pos = len(self.format)
        return number

    def integer_arg(self) -> int | None:
        """Take an argument for a width or precision; return None if it is not an integer in range."""
        if self.arg >= len(self.args):
            return None
        value = self.args[self.arg]
        self.arg += 1
        is_integer = basic_kind(value) in ("int", "uint")
        return int(value) if is_integer and abs(int(value)) <= _TOO_LARGE else None


def _number(digits: str) -> int | None:
    """Return a number; None for one so large that Go stops reading it (parsenum)."""
    significant = digits.lstrip("0")
    return (
        None
        if len(significant) > len(str(_TOO_LARGE)) + 1 or int(significant[:-1] or 0) > _TOO_LARGE
        else int(significant or 0)
    )


def _extra(arg: Any) -> str:
    return "<nil>" if arg is None else f"{type_of(arg)}={print_operand(arg, 'v', Spec())}"
