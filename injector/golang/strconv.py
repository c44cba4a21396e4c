"""Package strconv (Go 1.26): numbers and quoted strings, the floats of encoding/json and fmt, and the texts of encoding/base64.

A Go string is bytes; here it is a Python string in which bytes that are not UTF-8 stand as lone surrogates (``surrogateescape``).
"""

from __future__ import annotations

import base64
import math
import re
import struct
import unicodedata
from typing import Final

from injector.errors import DataError

# strconv ftoa.go: %g takes an exponent outside these, where the digits are the shortest possible.
_G_SMALLEST: Final = -4
_G_LARGEST: Final = 6
# encoding/json encode.go, floatEncoder: the limits are those of JavaScript.
_JSON_SMALLEST: Final = 1e-6
_JSON_LARGEST: Final = 1e21
_BASE64 = re.compile("[A-Za-z0-9+/]*={0,2}")
_BASE64_GROUP: Final = 4


def to_bytes(text: str) -> bytes:
    """Return the bytes of a Go string."""
    return text.encode("utf-8", "surrogateescape")


def from_bytes(raw: bytes) -> str:
    """Return the Go string of bytes."""
    return raw.decode("utf-8", "surrogateescape")


def byte_length(text: str) -> int:
    """Return the length of a Go string, in bytes."""
    return len(text) if text.isascii() else len(to_bytes(text))


def byte_slice(text: str, start: int, end: int) -> str:
    """Return ``text[start:end]`` counted in bytes."""
    if text.isascii():
        return text[start:end]
    return from_bytes(to_bytes(text)[start:end])


_SURROGATE = re.compile("[\ud800-\udfff]")


def valid_utf8(text: str) -> str:
    """Return a Go string with the replacement character for each byte that is not UTF-8."""
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


def can_backquote(text: str) -> bool:
    """Return whether a raw string literal can hold a text (strconv.CanBackquote)."""
    return not _NOT_RAW.search(text)


_NOT_RAW = re.compile("[\x00-\x08\x0a-\x1f`\x7f\ufeff\ud800-\udfff]")


def format_g(value: float, bits: int = 64) -> str:
    """Return a float as ``strconv.FormatFloat(value, 'g', -1, bits)`` does; 32 bits round it first."""
    if bits == 32:  # noqa: PLR2004 - Go's own bit sizes
        value = to_float32(value)
    if value.is_integer() and 0 < abs(value) < 10**_G_LARGEST:
        return str(int(value))
    if not math.isfinite(value):
        return name_of_non_finite(value)
    sign, digits, power = _digits(value, bits)
    if power < _G_SMALLEST or power >= _G_LARGEST:
        return f"{sign}{_exponential(digits, power)}"
    return sign + _positional(digits, power)


def go_float(value: float) -> str:
    """Return a float64 as encoding/json prints it: with an exponent below 1e-6 and from 1e21 on. Raises DataError if it is not finite."""
    if not math.isfinite(value):
        raise DataError(f"json: unsupported value: {name_of_non_finite(value)}", hint="give a finite number")
    sign, digits, power = _digits(value, 64)
    if value and not _JSON_SMALLEST <= abs(value) < _JSON_LARGEST:
        # JSON's exponents below 10 have one digit where they are negative: e-7, but e+21.
        return sign + _exponential(digits, power).replace("e-0", "e-")
    return sign + _positional(digits, power)


def name_of_non_finite(value: float) -> str:
    """Return Go's name of an infinity or of NaN."""
    return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"


def _digits(value: float, bits: int) -> tuple[str, str, int]:
    """Return sign, significant digits and decimal exponent of the first digit."""
    text = _shortest_single(abs(value)) if bits == 32 else repr(abs(value))  # noqa: PLR2004 - Go's own bit sizes
    mantissa, _, exponent = text.partition("e")
    whole, _, fraction = mantissa.partition(".")
    power = int(exponent or 0) + len(whole) - 1
    digits = (whole + fraction).lstrip("0")
    power -= len(whole + fraction) - len(digits)
    return _sign(value), digits.rstrip("0") or "0", power if digits else 0


def to_float32(value: float) -> float:
    """Return the nearest float32; infinity if the value is out of range."""
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def _shortest_single(value: float) -> str:
    texts = (f"{value:.{precision}e}" for precision in range(17))
    return next(text for text in texts if to_float32(float(text)) == value)


def _exponential(digits: str, power: int) -> str:
    fraction = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{digits[0]}{fraction}e{'-' if power < 0 else '+'}{abs(power):02d}"


def _positional(digits: str, power: int) -> str:
    if power < 0:
        return f"0.{'0' * (-power - 1)}{digits}"
    whole = digits[: power + 1].ljust(power + 1, "0")
    fraction = digits[power + 1 :]
    return f"{whole}.{fraction}" if fraction else whole


def format_float(value: float, verb: str, precision: int | None, size: int, *, sharp: bool) -> str:
    """Return a float by one of fmt's verbs, without padding; the sign only where it is negative."""
    if not math.isfinite(value):
        return name_of_non_finite(value).lstrip("+")
    if verb == "b":
        return _power_of_two(value, size)
    if verb in "xX":
        text = _hex_float(value, precision)
    elif verb in "vgG":
        text = format_g(value, size) if precision is None else _general(value, precision)
    else:
        text = f"{value:.{6 if precision is None else precision}{verb.lower()}}"
    text = text.upper() if verb in "XGE" else text
    return _with_all_digits(text, verb, precision) if sharp else text


def _with_all_digits(text: str, verb: str, precision: int | None) -> str:
    """Return a number with the point and the zeros that the flag ``#`` keeps (fmt/format.go fmtFloat)."""
    marks = "pP" if verb in "xX" else "pPeE"
    cut = next((index for index, char in enumerate(text) if char in marks), len(text))
    head, tail = text[:cut], text[cut:]
    digits = (6 if precision is None else precision) if verb in "vgGx" else 0
    # Go counts every character from the first that is not zero, a hexadecimal prefix's x included.
    digits -= len(head.lstrip("-").replace(".", "").lstrip("0"))
    if "." not in head:
        digits -= head.lstrip("-") == "0"
        head += "."
    return head + "0" * max(digits, 0) + tail


def _general(value: float, precision: int) -> str:
    precision = precision or 1
    mantissa, _, exponent = f"{abs(value):.{precision - 1}e}".partition("e")
    power = int(exponent)
    digits = mantissa.replace(".", "").rstrip("0") or "0"
    sign = _sign(value)
    limit = len(digits) if precision > len(digits) >= power + 1 else precision
    if power < -4 or power >= max(limit, 1):  # noqa: PLR2004 - strconv's own limit
        return sign + _exponential(digits, power)
    return sign + _positional(digits, power)


def _sign(value: float) -> str:
    return "-" if math.copysign(1, value) < 0 else ""


def _power_of_two(value: float, size: int) -> str:
    width, smallest = (24, -149) if size == 32 else (53, -1074)  # noqa: PLR2004 - float32 and float64
    exponent = max(math.frexp(value)[1] - width, smallest) if value else smallest
    return f"{_sign(value)}{int(math.ldexp(abs(value), -exponent))}p{exponent:+d}"


def _hex_float(value: float, precision: int | None) -> str:
    mantissa, power = math.frexp(abs(value))
    bits, exponent = int(mantissa * 2**53), power - 1 if value else 0
    if precision is not None and precision < 13:  # noqa: PLR2004 - hexadecimal digits of a float64's fraction
        bits = round(bits / 16 ** (13 - precision))
        if bits >> (4 * precision + 1):
            bits, exponent = bits >> 1, exponent + 1
    digits = f"{bits:x}"
    fraction = digits[1:].rstrip("0") if precision is None else digits[1:].ljust(precision, "0")
    point = f".{fraction}" if fraction else ""
    return f"{_sign(value)}0x{digits[0]}{point}p{exponent:+03d}"


_INT64: Final = 2**63
_INTEGER = re.compile(
    r"(?P<sign>[+-]?)(?:0[xX](?P<hex>[0-9a-fA-F]+)|0[bB](?P<bin>[01]+)|0[oO](?P<oct>[0-7]+)|0(?P<old>[0-7]*)|(?P<dec>[1-9][0-9]*))",
    re.ASCII,
)
# Possessive: otherwise the time to refuse a text of digits grows with the square of its length.
_DECIMAL_FLOAT = re.compile(r"[+-]?(?:[0-9]++\.?[0-9]*+|\.[0-9]++)(?:[eE][+-]?[0-9]+)?", re.ASCII)
_HEX_FLOAT = re.compile(r"[+-]?0[xX](?:[0-9a-fA-F]++\.?[0-9a-fA-F]*+|\.[0-9a-fA-F]++)[pP][+-]?[0-9]+", re.ASCII)
_SIGN_AND_PREFIX = re.compile(r"[+-]?(0[bBoOxX])?")
_BASES: Final = {"hex": 16, "bin": 2, "oct": 8, "old": 8, "dec": 10}
_MANY_DIGITS: Final = 65  # more than an integer of 64 bits has in any base; Python refuses to read thousands
_UINT64: Final = 2**64


def parse_int(text: str) -> int | None:
    """Return the integer of a literal of any base, or None (strconv.ParseInt with base 0); beyond 64 bits any such integer."""
    match = _INTEGER.fullmatch(text.replace("_", "")) if _underscores_separate(text) else None
    if match is None:
        return None
    name = next(key for key in _BASES if match[key] is not None)
    digits = match[name].lstrip("0")
    number = int(digits or "0", _BASES[name]) if len(digits) < _MANY_DIGITS else 2 * _UINT64
    return -number if match["sign"] == "-" else number


def parse_float(text: str) -> float | None:
    """Return the float64 of a literal, or None if it is not one or out of range (strconv.ParseFloat)."""
    number = read_float(text)
    return None if number is None or math.isinf(number) else number


def read_float(text: str) -> float | None:
    """Return the float64 of a literal, infinite if it is out of range, or None if it is not one."""
    plain = text.replace("_", "")
    if not _underscores_separate(text):
        return None
    if _HEX_FLOAT.fullmatch(plain):
        try:
            return float.fromhex(plain)
        except OverflowError:
            return math.inf
    return float(plain) if _DECIMAL_FLOAT.fullmatch(plain) else None


def _underscores_separate(text: str) -> bool:
    """Return whether underscores stand only between digits, or between a prefix and a digit (strconv.underscoreOK)."""
    prefix = _SIGN_AND_PREFIX.match(text)
    digits = "0123456789abcdefABCDEF" if prefix and prefix[1] in ("0x", "0X") else "0123456789"
    last = "0" if prefix and prefix[1] else "^"
    for char in text[prefix.end() if prefix else 0 :]:
        if "_" in (char, last) and (last if char == "_" else char) not in digits:
            return False
        last = char
    return last != "_"


_DECIMAL_DIGITS: Final = re.compile("[0-9]*")
_ENOUGH_DIGITS: Final = 21
"""Digits of a number that does not fit into 64 bits."""


def parse_uint(text: str, bits: int) -> tuple[int, str]:
    """Return the number of a decimal text, and Go's error, which is empty if the text is valid (strconv.ParseUint)."""
    number, fault = _parse_unsigned(text, bits)
    return number, f"strconv.ParseUint: parsing {quote(text)}: {fault}" if fault else ""


def atoi(text: str) -> tuple[int, str]:
    """Return the number of a decimal text, and Go's error, empty if it is valid (strconv.Atoi); out of range, the nearest int64."""
    number, fault = _parse_unsigned(text[1:] if text[:1] in ("-", "+") else text, 64)
    number = -number if text.startswith("-") else number
    if not -_INT64 <= number < _INT64:
        number, fault = max(-_INT64, min(number, _INT64 - 1)), fault or "value out of range"
    return number, f"strconv.Atoi: parsing {quote(text)}: {fault}" if fault else ""


def _parse_unsigned(text: str, bits: int) -> tuple[int, str]:
    """Return the number and Go's error; Go stops at the first digit that overflows, before it reads the rest."""
    match = _DECIMAL_DIGITS.match(text)
    digits = match[0] if match else ""
    first = digits.lstrip("0")[:_ENOUGH_DIGITS]
    number, largest = int(first or "0"), (1 << bits) - 1
    if number > largest:
        return largest, "value out of range"
    return (number, "") if digits and digits == text else (0, "invalid syntax")


SPACE: Final = "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
"""The characters of unicode.IsSpace; Python's isspace adds four control characters."""
_ESCAPES: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "\\": "\\"}
_QUOTED: Final = {value: f"\\{name}" for name, value in _ESCAPES.items()}
_PLAIN = re.compile(r"[ -\[\]-~]*+")
_CHARACTER = re.compile(
    r"(?P<plain>[^\\])|\\(?:(?P<name>[abfnrtv\\])|(?P<quote>['\"])|(?P<octal>[0-3][0-7]{2})"
    r"|x(?P<byte>[0-9a-fA-F]{2})|u(?P<code>[0-9a-fA-F]{4})|U(?P<long_code>[0-9a-fA-F]{8}))",
)
_MAX_RUNE: Final = 0x10FFFF


def is_alphanumeric(char: str) -> bool:
    """Return whether a character can be part of a word of a template: an underscore, a letter or a digit."""
    if char.isascii():
        return char.isalnum() or char == "_"
    return unicodedata.category(char)[0] == "L" or unicodedata.category(char) == "Nd"


def is_printable(char: str) -> bool:
    """Return whether strconv.IsPrint holds: letters, marks, numbers, punctuation, symbols and the ASCII space."""
    if char.isascii():
        return " " <= char <= "~"
    return unicodedata.category(char)[0] in "LMNPS"


def unicode_point(char: str) -> str:
    """Return a character as ``%#U`` prints it; the end of the text is -1."""
    if not char:
        return "U+FFFFFFFFFFFFFFFF"
    char_text = f" '{char}'" if is_printable(char) else ""
    return f"U+{ord(char):04X}{char_text}"


_PIECE: Final = 4096
"""Characters that are quoted together: the texts of a million characters take 60 MiB."""


def quote(text: str, mark: str = '"', *, ascii_only: bool = False) -> str:
    """Return ``text`` in quotes as strconv.Quote (or QuoteToASCII) does."""
    if _PLAIN.fullmatch(text) and mark not in text:
        return f"{mark}{text}{mark}"
    pieces = (text[start : start + _PIECE] for start in range(0, len(text), _PIECE))
    quoted = ("".join(_quote_char(char, mark, ascii_only=ascii_only) for char in piece) for piece in pieces)
    return f"{mark}{''.join(quoted)}{mark}"


def _quote_char(char: str, mark: str, *, ascii_only: bool) -> str:
    if char == mark:
        return f"\\{char}"
    if char in _QUOTED:
        return _QUOTED[char]
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:  # noqa: PLR2004 - a byte that is not UTF-8, by surrogateescape
        return f"\\x{code - 0xDC00:02x}"
    if (char.isascii() or not ascii_only) and is_printable(char):
        return char
    if code < 0x20 or code == 0x7F:  # noqa: PLR2004 - control characters
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"  # noqa: PLR2004 - the basic plane


def unquote(text: str) -> str:
    """Return the text that a quoted Go string stands for (strconv.Unquote). Raises ValueError with strconv's text."""
    if len(text) < 2 or text[0] != text[-1]:  # noqa: PLR2004 - the two quotes
        raise ValueError("invalid syntax")
    mark, body = text[0], text[1:-1]
    if mark == "`":
        if "`" in body:
            raise ValueError("invalid syntax")
        return body.replace("\r", "")
    if mark != '"' or "\n" in body:
        raise ValueError("invalid syntax")
    parts: list[bytes] = []
    index = 0
    while index < len(body):
        value, index = unquote_char(body, index, mark)
        parts.append(value)
    return from_bytes(b"".join(parts))


def unquote_char(text: str, index: int, mark: str) -> tuple[bytes, int]:
    """Return the bytes of the character or escape at ``index``, and the index after it (strconv.UnquoteChar). Raises ValueError."""
    match = _CHARACTER.match(text, index)
    if match is None or match[0] == mark or (match["quote"] or mark) != mark:
        raise ValueError("invalid syntax")
    if match["plain"] or match["quote"]:
        return to_bytes(match["plain"] or match["quote"]), match.end()
    if match["name"]:
        return _ESCAPES[match["name"]].encode(), match.end()
    if match["byte"] or match["octal"]:
        return bytes([int(match["byte"], 16) if match["byte"] else int(match["octal"], 8)]), match.end()
    code = int(match["code"] or match["long_code"], 16)
    if code > _MAX_RUNE or 0xD800 <= code < 0xE000:  # noqa: PLR2004 - surrogates are not characters
        raise ValueError("invalid syntax")
    return chr(code).encode(), match.end()


def read_base64(text: str) -> bytes | None:
    """Return the bytes of a text in base 64, in which line breaks do not count; None if it is not base 64 (StdEncoding.DecodeString)."""
    clean = text.replace("\n", "").replace("\r", "")
    return base64.b64decode(clean) if len(clean) % _BASE64_GROUP == 0 and _BASE64.fullmatch(clean) else None
