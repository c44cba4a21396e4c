"""How Go prints values: package fmt's Print, Println and Printf (fmt/print.go, fmt/format.go, Go 1.26)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from injector.gotemplate.errors import FuncError
from injector.gotemplate.floats import format_complex, format_float
from injector.gotemplate.reflect import NO_VALUE, basic_kind, is_nil, kind_of, sorted_items, type_of
from injector.gotemplate.text import is_printable, quote
from injector.gotemplate.values import Func, Pointer, Slice, Struct

if TYPE_CHECKING:
    from collections.abc import Sequence

# Go's own bound on a width or precision is a million (tooLarge); the template's output budget is no larger.
_TOO_LARGE: Final = 1_000_000
_DIGITS: Final = "0123456789"
_BASES: Final = {"d": 10, "b": 2, "o": 8, "O": 8, "x": 16, "X": 16, "v": 10}


@dataclass(slots=True)
class Spec:
    """One directive: flags, width, precision."""

    plus: bool = False
    minus: bool = False
    sharp: bool = False
    space: bool = False
    zero: bool = False
    width: int | None = None
    precision: int | None = None
    plus_v: bool = False
    sharp_v: bool = False

    def pad(self, text: str) -> str:
        """Return text padded to the width: spaces, or zeros where the flag asks."""
        if self.width is None or len(text) >= self.width:
            return text
        if self.minus:
            return text.ljust(self.width)
        return text.rjust(self.width, "0" if self.zero else " ")


def sprint(*args: Any) -> str:
    """Return fmt.Sprint: operands in default format, a space between two that are no strings."""
    if len(args) == 1:
        arg = args[0]
        return arg if type(arg) is str else _any(arg, "v", Spec())
    parts: list[str] = []
    for index, arg in enumerate(args):
        if index and not isinstance(arg, str) and not isinstance(args[index - 1], str):
            parts.append(" ")
        parts.append(_any(arg, "v", Spec()))
    return "".join(parts)


def sprintln(*args: Any) -> str:
    """Return fmt.Sprintln: operands in default format with spaces between, and a newline."""
    return " ".join(_any(arg, "v", Spec()) for arg in args) + "\n"


def sprintf(template: str, *args: Any) -> str:
    """Return fmt.Sprintf.

    Raises:
        FuncError: the result would be absurdly large.
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

    def run(self) -> str:
        text = self.format
        while self.pos < len(text):
            found = text.find("%", self.pos)
            if found < 0:
                self.out.append(text[self.pos :])
                break
            self.out.append(text[self.pos : found])
            self.pos = found + 1
            self.good_index = True
            self.after_index = False
            self.directive()
        if not self.reordered and self.arg < len(self.args):
            extra = ", ".join(
                "<nil>" if arg is None else f"{type_of(arg)}={_any(arg, 'v', Spec())}" for arg in self.args[self.arg :]
            )
            self.out.append(f"%!(EXTRA {extra})")
        return "".join(self.out)

    def directive(self) -> None:
        spec = self.flags()
        self.index()
        self.width(spec)
        self.precision(spec)
        if not self.after_index:
            self.index()
        if self.pos >= len(self.format):
            self.out.append("%!(NOVERB)")
            return
        verb = self.format[self.pos]
        self.pos += 1
        if verb == "%":
            self.out.append("%")
        elif not self.good_index:
            self.out.append(f"%!{verb}(BADINDEX)")
        elif self.arg >= len(self.args):
            self.out.append(f"%!{verb}(MISSING)")
        else:
            if verb == "v":
                spec.sharp_v, spec.sharp = spec.sharp, False
                spec.plus_v, spec.plus = spec.plus, False
            self.out.append(_any(self.args[self.arg], verb, spec))
            self.arg += 1

    def flags(self) -> Spec:
        spec = Spec()
        while self.pos < len(self.format):
            match self.format[self.pos]:
                case "#":
                    spec.sharp = True
                case "0":
                    spec.zero = True
                case "+":
                    spec.plus = True
                case "-":
                    spec.minus = True
                case " ":
                    spec.space = True
                case _:
                    break
            self.pos += 1
        return spec

    def index(self) -> None:
        """An explicit argument index such as ``[2]``."""
        if not self.format.startswith("[", self.pos):
            return
        self.reordered = True
        end = self.format.find("]", self.pos)
        digits = self.format[self.pos + 1 : end] if end >= 0 else ""
        if end < 0:
            self.good_index = False
            self.pos += 1
            return
        self.pos = end + 1
        number = int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 8 else 0  # noqa: PLR2004 - tooLarge
        if not 1 <= number <= len(self.args):
            self.good_index = False
            return
        self.arg = number - 1
        self.after_index = True

    def width(self, spec: Spec) -> None:
        if self.format.startswith("*", self.pos):
            self.pos += 1
            width = self.integer_arg()
            if width is None:
                self.out.append("%!(BADWIDTH)")
            elif width < 0:
                spec.minus, spec.zero, width = True, False, -width
            spec.width = width
            self.after_index = False
            return
        spec.width = self.number()
        if self.after_index and spec.width is not None:
            self.good_index = False

    def precision(self, spec: Spec) -> None:
        if not self.format.startswith(".", self.pos):
            return
        self.pos += 1
        if self.after_index:
            self.good_index = False
        self.index()
        if self.format.startswith("*", self.pos):
            self.pos += 1
            precision = self.integer_arg()
            if precision is None or precision < 0:
                precision = None
                self.out.append("%!(BADPREC)")
            spec.precision = precision
            self.after_index = False
            return
        spec.precision = self.number() or 0

    def number(self) -> int | None:
        begin = self.pos
        while self.pos < len(self.format) and self.format[self.pos] in _DIGITS:
            self.pos += 1
        if self.pos == begin:
            return None
        digits = self.format[begin : self.pos]
        if len(digits) > 7 or int(digits) > _TOO_LARGE:  # noqa: PLR2004 - as many as a million has
            return None
        return int(digits)

    def integer_arg(self) -> int | None:
        if self.arg >= len(self.args):
            return None
        value = self.args[self.arg]
        self.arg += 1
        if basic_kind(value) in ("int", "uint") and abs(int(value)) <= _TOO_LARGE:
            return int(value)
        return None


def _bad_verb(value: Any, verb: str, spec: Spec) -> str:
    if value is None or value is NO_VALUE:
        return f"%!{verb}(<nil>)"
    return f"%!{verb}({type_of(value)}={_any(value, 'v', spec)})"


def _any(value: Any, verb: str, spec: Spec, depth: int = 0) -> str:
    """Return one operand printed by a verb (fmt's printArg and printValue)."""
    if value is NO_VALUE:
        return spec.pad("<no value>")
    if value is None:
        return spec.pad("<nil>") if verb in "Tv" else _bad_verb(value, verb, spec)
    if verb == "T":
        return _text(type_of(value), "s", spec)
    stringer = getattr(value, "go_string", None)
    if stringer is not None and verb in "vsqxX" and not spec.sharp_v:
        return _text(stringer(), "s" if verb == "v" else verb, spec)
    kind = basic_kind(value)
    if kind:
        return _SCALARS[kind](value, verb, spec)
    if verb == "w" and depth == 0:
        return _bad_verb(value, verb, spec)
    if depth > 100:  # noqa: PLR2004 - deeper data is hostile; Go would go on
        raise FuncError("value nests too deeply to print")
    return _composite(value, verb, spec, depth)


def _bool(value: Any, verb: str, spec: Spec) -> str:
    return spec.pad("true" if value else "false") if verb in "tv" else _bad_verb(value, verb, spec)


def _text(value: Any, verb: str, spec: Spec) -> str:
    text = str.__str__(value)
    if verb in "sv" and not spec.sharp_v:
        return spec.pad(text if spec.precision is None else text[: spec.precision])
    if verb == "q" or (verb == "v" and spec.sharp_v):
        return spec.pad(_quoted(text if spec.precision is None else text[: spec.precision], spec))
    if verb in "xX":
        return spec.pad(_hex_bytes(text.encode("utf-8", "surrogateescape"), verb, spec))
    return _bad_verb(value, verb, spec)


def _quoted(text: str, spec: Spec) -> str:
    if (
        spec.sharp
        and "`" not in text
        and all(char == "\t" or is_printable(char) for char in text)
        and "\ufeff" not in text
    ):
        return f"`{text}`"
    return quote(text, ascii_only=spec.plus)


def _hex_bytes(raw: bytes, verb: str, spec: Spec) -> str:
    raw = raw if spec.precision is None else raw[: spec.precision]
    digits = raw.hex(" ") if spec.space else raw.hex()
    if spec.sharp and raw:
        digits = " ".join(f"0x{part}" for part in digits.split(" "))
    return digits.upper() if verb == "X" else digits


def _integer(value: Any, verb: str, spec: Spec) -> str:
    number = int(value)
    if verb == "v" and spec.sharp_v and basic_kind(value) == "uint":
        return f"0x{number:x}"
    if verb in _BASES:
        return _digits(number, verb, spec)
    if verb == "c":
        return spec.pad(_rune(number))
    if verb == "q":
        return spec.pad(quote(_rune(number), "'", ascii_only=spec.plus))
    if verb == "U":
        return _unicode(number, spec)
    return _bad_verb(value, verb, spec)


def _rune(number: int) -> str:
    return "\ufffd" if not 0 <= number <= 0x10FFFF or 0xD800 <= number < 0xE000 else chr(number)  # noqa: PLR2004 - Unicode's range


def _unicode(number: int, spec: Spec) -> str:
    text = f"U+{number & 0xFFFFFFFFFFFFFFFF:0{max(spec.precision or 4, 4)}X}"
    if spec.sharp and 0 <= number <= 0x10FFFF and is_printable(_rune(number)):  # noqa: PLR2004 - Unicode's range
        text += f" '{_rune(number)}'"
    return Spec(minus=spec.minus, width=spec.width).pad(text)


def _digits(number: int, verb: str, spec: Spec) -> str:
    base = _BASES[verb]
    digits = {10: "d", 2: "b", 8: "o", 16: "x"}[base]
    text = format(abs(number), digits)
    sign = "-" if number < 0 else "+" if spec.plus else " " if spec.space else ""
    if spec.precision is not None:
        if spec.precision == 0 and number == 0:
            return Spec(minus=spec.minus, width=spec.width).pad("")
        text = text.rjust(spec.precision, "0")
    elif spec.zero and not spec.minus and spec.width is not None:
        text = text.rjust(spec.width - len(sign), "0")
    prefix = ""
    if spec.sharp:
        prefix = {2: "0b", 16: "0x"}.get(base, "")
        if base == 8 and not text.startswith("0"):  # noqa: PLR2004 - octal
            prefix = "0"
    if verb == "O":
        prefix = "0o"
    text = sign + prefix + text
    text = text.upper() if verb == "X" else text
    return Spec(minus=spec.minus, width=spec.width).pad(text)


def _float(value: Any, verb: str, spec: Spec) -> str:
    if verb not in "vbgGxXfFeE":
        return _bad_verb(value, verb, spec)
    size = 32 if kind_of(value) == "float32" else 64
    text = format_float(float(value), verb, spec.precision, size, sharp=spec.sharp)
    sign, text = ("-", text[1:]) if text.startswith("-") else ("+" if spec.plus else " " if spec.space else "", text)
    if math.isinf(value) and not sign:
        sign = "+"
    zeros = spec.zero and not spec.minus and math.isfinite(value) and spec.width is not None
    if zeros and spec.width is not None:
        return sign + text.rjust(spec.width - len(sign), "0")
    if math.isnan(value):
        sign = "+" if spec.plus else " " if spec.space else ""
    return Spec(minus=spec.minus, width=spec.width).pad(sign + text)


def _complex(value: Any, verb: str, spec: Spec) -> str:
    if verb not in "vbgGxXfFeE":
        return _bad_verb(value, verb, spec)
    return format_complex(value, lambda part, plus: _float(part, verb, _with_plus(spec, plus=plus)))


def _with_plus(spec: Spec, *, plus: bool) -> Spec:
    return Spec(
        plus=spec.plus or plus,
        minus=spec.minus,
        sharp=spec.sharp,
        space=spec.space,
        zero=spec.zero,
        width=spec.width,
        precision=spec.precision,
        sharp_v=spec.sharp_v,
    )


_SCALARS: Final = {
    "bool": _bool,
    "string": _text,
    "int": _integer,
    "uint": _integer,
    "float": _float,
    "complex": _complex,
}


def _composite(value: Any, verb: str, spec: Spec, depth: int) -> str:
    if isinstance(value, Pointer):
        return _pointer(value, verb, spec, depth)
    if isinstance(value, bytes) and verb in "sqxX":
        return _text(value.decode("utf-8", "surrogateescape"), verb, spec)
    if isinstance(value, list | bytes):
        return _list(value, verb, spec, depth)
    if isinstance(value, dict):
        return _map(value, verb, spec, depth)
    if isinstance(value, Struct):
        return _struct(value, verb, spec, depth)
    if isinstance(value, Func):
        return spec.pad(f"0x{id(value):x}") if verb in "pv" else _bad_verb(value, verb, spec)
    return _bad_verb(value, verb, spec)


def _pointer(value: Pointer, verb: str, spec: Spec, depth: int) -> str:
    if value.target is None:
        if spec.sharp_v:
            return f"({value.go_type})(nil)"
        return spec.pad("<nil>") if verb == "v" else f"%!{verb}({value.go_type}=<nil>)"
    if depth == 0 and isinstance(value.target, Struct | list | dict):
        return "&" + _any(value.target, verb, spec, depth + 1)
    if depth == 0 and verb == "v" and not isinstance(value.target, Struct | list | dict):
        # A pointer to a scalar prints as an address in Go; the value says more and is the same on every run.
        return _any(value.target, verb, spec, depth + 1)
    return f"0x{id(value):x}"


def _list(value: list[Any] | bytes, verb: str, spec: Spec, depth: int) -> str:
    items = list(value)
    if spec.sharp_v:
        if is_nil(value):
            return f"{type_of(value)}(nil)"
        return f"{type_of(value)}{{{', '.join(_inside(item, verb, spec, depth) for item in items)}}}"
    if isinstance(value, Slice) and value.elem == "uint8" and verb in "sqxX":
        return _text(bytes(items).decode("utf-8", "surrogateescape"), verb, spec)
    return f"[{' '.join(_inside(item, verb, spec, depth) for item in items)}]"


def _map(value: dict[Any, Any], verb: str, spec: Spec, depth: int) -> str:
    entries = [
        f"{_inside(key, verb, spec, depth)}:{_inside(item, verb, spec, depth)}" for key, item in sorted_items(value)
    ]
    if spec.sharp_v:
        return f"{type_of(value)}(nil)" if is_nil(value) else f"{type_of(value)}{{{', '.join(entries)}}}"
    return f"map[{' '.join(entries)}]"


def _struct(value: Struct, verb: str, spec: Spec, depth: int) -> str:
    named = spec.plus_v or spec.sharp_v
    parts = [f"{name}:" * named + _inside(item, verb, spec, depth) for name, item in value.fields()]
    if spec.sharp_v:
        return f"{value.go_type}{{{', '.join(parts)}}}"
    return f"{{{' '.join(parts)}}}"


def _inside(value: Any, verb: str, spec: Spec, depth: int) -> str:
    """Return an element of a list, map or struct."""
    if value is None:
        if spec.sharp_v:
            return "interface {}(nil)"
        return "<nil>"
    return _any(value, verb, spec, depth + 1)
