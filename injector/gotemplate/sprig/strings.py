"""Strings (sprig's strings.go, and the parts of Masterminds/goutils and huandu/xstrings that it calls).

A text is cut into words: connectors, punctuation, capitals with the small letters after them, small letters, digits, others. Digits
belong to the letters around them in ways that only the library's results tell; ``_joined`` keeps to those.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
import unicodedata
import zlib
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Final

from injector.golang.strconv import quote as go_quote
from injector.gotemplate import costs
from injector.gotemplate.budget import check_size, spend
from injector.gotemplate.errors import FuncError
from injector.gotemplate.fmt import sprint
from injector.gotemplate.functions import FuncMap
from injector.gotemplate.reflect import byte_length, byte_slice
from injector.gotemplate.values import Map, Slice

if TYPE_CHECKING:
    from collections.abc import Callable

FUNCTIONS: Final = FuncMap()


class _Kind(Enum):
    END = auto()
    CONNECTOR = auto()
    PUNCTUATION = auto()
    UPPER = auto()
    LOWER = auto()
    NUMBER = auto()
    OTHER = auto()


_LETTERS_OR_DIGITS = frozenset({_Kind.LOWER, _Kind.NUMBER})
_NO_CONNECTOR_BEFORE = frozenset({_Kind.END, _Kind.CONNECTOR, _Kind.PUNCTUATION})


@dataclass(frozen=True, slots=True)
class _Word:
    kind: _Kind
    text: str

    def lowered(self, connector: str) -> str:
        if self.kind is _Kind.CONNECTOR:
            return connector * len(self.text)
        return self.text.lower() if self.kind is _Kind.UPPER else self.text


_END = _Word(_Kind.END, "")


@FUNCTIONS.define("func(string) string", "snakecase", cost=costs.WORDS)
def to_snake_case(text: str) -> str:
    """Return ``first_name`` for ``FirstName``."""
    return _joined(text, "_")


@FUNCTIONS.define("func(string) string", "kebabcase", cost=costs.WORDS)
def to_kebab_case(text: str) -> str:
    """Return ``first-name`` for ``FirstName``."""
    return _joined(text, "-")


def _joined(text: str, connector: str) -> str:
    words = _words(text)
    out: list[str] = []
    at = 0

    def word(index: int) -> _Word:
        return words[index] if index < len(words) else _END

    while at < len(words):
        current, following = word(at), word(at + 1)
        out.append(current.lowered(connector))
        at += 1
        if at >= len(words) or current.kind in (_Kind.CONNECTOR, _Kind.PUNCTUATION):
            continue
        if current.kind is _Kind.NUMBER:
            at = _take_run(words, at, out)
            if word(at).kind not in _NO_CONNECTOR_BEFORE:
                out.append(connector)
        elif following.kind is not _Kind.NUMBER:
            if following.kind not in _NO_CONNECTOR_BEFORE:
                out.append(connector)
        elif at + 1 < len(words) and word(at + 1).kind is _Kind.LOWER:
            # Small letters after the digits take them into a word of their own: HTTP2xx is http_2xx.
            out += [connector, following.text]
            at = _take_run(words, at + 1, out)
            if word(at).kind not in _NO_CONNECTOR_BEFORE:
                out.append(connector)
        elif at + 1 < len(words):
            # Else the digits stay with the word before: Bld4Floor is bld4_floor.
            out.append(following.text)
            at += 1
            if word(at).kind not in _NO_CONNECTOR_BEFORE:
                out.append(connector)
    return "".join(out)


def _take_run(words: list[_Word], at: int, out: list[str]) -> int:
    while at < len(words) and words[at].kind in _LETTERS_OR_DIGITS:
        out.append(words[at].text)
        at += 1
    return at


def _words(text: str) -> list[_Word]:
    found: list[_Word] = []
    at = 0
    while at < len(text):
        kind, end = _word_at(text, at)
        found.append(_Word(kind, text[at:end]))
        at = end
    return found


def _word_at(text: str, at: int) -> tuple[_Kind, int]:
    char = text[at]
    if char.isupper():
        return _Kind.UPPER, _end_of_upper(text, at)
    for kind, belongs in _RUNS:
        if belongs(char):
            return kind, _run_end(text, at, belongs)
    return _Kind.OTHER, _run_end(text, at, lambda c: not any(belongs(c) for _, belongs in _RUNS) and not c.isupper())


def _end_of_upper(text: str, at: int) -> int:
    end = _run_end(text, at, str.isupper)
    if end - at == 1:
        return _run_end(text, end, _is_lower) if end < len(text) and _is_lower(text[end]) else end
    # Of several capitals before a small letter the last begins the next word: HTTPStatus is HTTP and Status.
    return end - 1 if end < len(text) and _is_lower(text[end]) else end


def _run_end(text: str, at: int, belongs: Callable[[str], bool]) -> int:
    while at < len(text) and belongs(text[at]):
        at += 1
    return at


def _is_connector(char: str) -> bool:
    return char in "-_" or char in SPACE


def _is_punctuation(char: str) -> bool:
    return unicodedata.category(char).startswith("P")


def _is_lower(char: str) -> bool:
    return char.isalpha() and not char.isupper()


def _is_number(char: str) -> bool:
    return unicodedata.category(char).startswith("N")


_RUNS: tuple[tuple[_Kind, Callable[[str], bool]], ...] = (
    (_Kind.CONNECTOR, _is_connector),
    (_Kind.PUNCTUATION, _is_punctuation),
    (_Kind.LOWER, _is_lower),
    (_Kind.NUMBER, _is_number),
)


@FUNCTIONS.define("func(string) string", "camelcase", cost=costs.WORDS)
def to_pascal_case(text: str) -> str:
    """Return ``HttpServer`` for ``http_server``; sprig calls it camelcase.

    One connector between words goes, more of them stay but for the last; capitals that follow a leading capital become small.
    """
    body = text.lstrip("".join(char for char in set(text) if _is_connector(char)))
    if not body:
        return text
    leading = text[: len(text) - len(body)]
    out: list[str] = []
    lowering = body[0].isupper()
    previous = body[0].upper()
    for char in body[1:]:
        if _is_connector(char) and _is_connector(previous):
            out.append(previous)
            previous = char
            continue
        if _is_connector(previous):
            lowering = char.isupper()
            previous = char.upper()
            continue
        shown = char.lower() if lowering and char.isupper() else char
        lowering = lowering and char.isupper()
        out.append(previous)
        previous = shown
    return leading + "".join(out) + previous


# unicode.IsSpace; Python's str.isspace counts U+001C to U+001F too.
SPACE: Final = (
    " \t\n\v\f\r\u0085\u00a0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u2028\u2029\u202f\u205f\u3000"
)
_LOOKED_FOR: Final = 64
"""Comparisons of characters that take a step."""
_ILLEGAL = re.compile(r"[^A-Za-z0-9+/=\r\n]", re.ASCII)


@FUNCTIONS.define("func() string", "hello", cost=costs.NOTHING)
def hello() -> str:
    """Return a greeting."""
    return "Hello!"


@FUNCTIONS.define("func(string, string) bool", "contains", cost=costs.PASS)
def contains(part: str, text: str) -> bool:
    """Return whether a text contains another."""
    return part in text


@FUNCTIONS.define("func(string, string) bool", "hasPrefix", cost=costs.PASS)
def has_prefix(prefix: str, text: str) -> bool:
    """Return whether a text begins with another."""
    return text.startswith(prefix)


@FUNCTIONS.define("func(string, string) bool", "hasSuffix", cost=costs.PASS)
def has_suffix(suffix: str, text: str) -> bool:
    """Return whether a text ends with another."""
    return text.endswith(suffix)


@FUNCTIONS.define("func(interface {}) string", "toString", cost=costs.PRINTED)
def strval(value: Any) -> str:
    """Return a value as text: strings as they are, all else as fmt prints it."""
    return value if isinstance(value, str) else sprint(value)


@FUNCTIONS.define("func(interface {}) []string", "toStrings", cost=costs.LISTED)
def strslice(value: Any) -> Slice:
    """Return a list's values as text, nil left out; a single value as a list of one."""
    if isinstance(value, list):
        return Slice("string", [strval(item) for item in value if item is not None])
    return Slice("string", [] if value is None else [strval(value)])


@FUNCTIONS.define("func(...interface {}) string", "quote", cost=costs.QUOTED)
def quote(*values: Any) -> str:
    """Return the values in double quotes, nil left out."""
    if len(values) == 1 and isinstance(values[0], str):
        return go_quote(values[0])
    return " ".join(go_quote(strval(value)) for value in values if value is not None)


@FUNCTIONS.define("func(...interface {}) string", "squote", cost=costs.PRINTED)
def squote(*values: Any) -> str:
    """Return the values in single quotes, nil left out."""
    return " ".join(f"'{sprint(value)}'" for value in values if value is not None)


@FUNCTIONS.define("func(...interface {}) string", "cat", cost=costs.PRINTED)
def cat(*values: Any) -> str:
    """Return the values joined by spaces, nil left out."""
    return " ".join(sprint(value) for value in values if value is not None)


@FUNCTIONS.define("func(int, string) string", "trunc", cost=costs.SCAN)
def trunc(count: int, text: str) -> str:
    """Return the first bytes of a text, or with a negative count the last."""
    size = byte_length(text)
    if count < 0 and size + count > 0:
        return byte_slice(text, size + count, size)
    return byte_slice(text, 0, count) if 0 <= count < size else text


@FUNCTIONS.define("func(int, int, string) string", "substr", cost=costs.SCAN)
def substr(start: int, end: int, text: str) -> str:
    """Return a part of a text, in bytes; a negative bound does not limit it."""
    size = byte_length(text)
    if start < 0:
        _check_bounds(0, end, size)
        return byte_slice(text, 0, end)
    if end < 0 or end > size:
        _check_bounds(start, size, size)
        return byte_slice(text, start, size)
    _check_bounds(start, end, size)
    return byte_slice(text, start, end)


def _check_bounds(start: int, end: int, size: int) -> None:
    if end < 0 or end > size:
        raise FuncError(
            f"runtime error: slice bounds out of range [:{end}]" + (f" with length {size}" if end > size else "")
        )
    if start > end:
        shown = f"[{start}:{end}]"
        raise FuncError(f"runtime error: slice bounds out of range {shown}")


@FUNCTIONS.define("func(int, string) string", "repeat", cost=costs.COPY)
def repeat(count: int, text: str) -> str:
    """Return a text repeated."""
    if count < 0:
        raise FuncError("strings: negative Repeat count")
    check_size(count * byte_length(text), "repeat")
    return text * count


@FUNCTIONS.define("func(string) string", "trim", cost=costs.SCAN)
def trim(text: str) -> str:
    """Return a text without white space around it (strings.TrimSpace)."""
    return text.strip(SPACE)


@FUNCTIONS.define("func(string, string) string", "trimall", "trimAll", cost=costs.SCAN)
def trim_all(cutset: str, text: str) -> str:
    """Return a text without the characters of ``cutset`` around it."""
    characters = "".join(set(cutset))
    spend(len(characters) * len(text) // _LOOKED_FOR)
    return text.strip(characters) if characters else text


@FUNCTIONS.define("func(string, string) string", "trimSuffix", cost=costs.SCAN)
def trim_suffix(suffix: str, text: str) -> str:
    """Return a text without a suffix."""
    return text.removesuffix(suffix)


@FUNCTIONS.define("func(string, string) string", "trimPrefix", cost=costs.SCAN)
def trim_prefix(prefix: str, text: str) -> str:
    """Return a text without a prefix."""
    return text.removeprefix(prefix)


@FUNCTIONS.define("func(string) string", "lower", cost=costs.BY_CHARACTER)
def lower(text: str) -> str:
    """Return a text in lower case, character by character (strings.ToLower)."""
    return text.lower() if text.isascii() else "".join(map(_lower, text))


@FUNCTIONS.define("func(string) string", "upper", cost=costs.BY_CHARACTER)
def upper(text: str) -> str:
    """Return a text in upper case, character by character (strings.ToUpper)."""
    return text.upper() if text.isascii() else "".join(map(_upper, text))


@FUNCTIONS.define("func(string) string", "title", cost=costs.BY_CHARACTER)
def title(text: str) -> str:
    """Return a text with each word's first letter in title case (strings.Title)."""
    out, previous = [], " "
    for char in text:
        out.append(_title(char) if _separates(previous) else _valid(char))
        previous = char
    return "".join(out)


def _lower(char: str) -> str:
    """Return a character in lower case (unicode.ToLower): one character, where Python's may be two."""
    return _valid(char.lower()[0])


def _upper(char: str) -> str:
    """Return a character in upper case (unicode.ToUpper): where Python's are several, the one of title case, if there is one."""
    changed = char.upper()
    return _valid(changed) if len(changed) == 1 else _title(char)


def _title(char: str) -> str:
    """Return a character in title case (unicode.ToTitle)."""
    changed = char.title()
    return _valid(changed if len(changed) == 1 else char)


def _valid(char: str) -> str:
    """Return a character, and the replacement character for a byte that is not UTF-8, as Go's loops over characters do."""
    return "\ufffd" if "\udc80" <= char <= "\udcff" else char


def _separates(char: str) -> bool:
    if char.isascii():
        return not (char.isalnum() or char == "_")
    return not char.isalpha() and not char.isdecimal() and char in SPACE


def _words_changed(text: str, change: Any) -> str:
    out, at_start = [], True
    for char in text:
        out.append(change(char) if at_start else _valid(char))
        at_start = char in SPACE
    return "".join(out)


@FUNCTIONS.define("func(string) string", "untitle", cost=costs.BY_CHARACTER)
def untitle(text: str) -> str:
    """Return a text with each word's first letter in lower case."""
    return _words_changed(text, _lower)


@FUNCTIONS.define("func(string) string", "nospace", cost=costs.BY_CHARACTER)
def nospace(text: str) -> str:
    """Return a text without white space; as goutils does, byte by byte, which takes other than ASCII apart."""
    if not any(char in SPACE for char in _bytes_as_text(text)):
        return text
    return "".join(char for char in _bytes_as_text(text) if char not in SPACE)


def _bytes_as_text(text: str) -> str:
    return text if text.isascii() else _raw(text).decode("latin-1")


@FUNCTIONS.define("func(string) string", "initials", cost=costs.BY_CHARACTER)
def initials(text: str) -> str:
    """Return the first letter of each word."""
    out, at_start = [], True
    for char in _bytes_as_text(text):
        if at_start and char not in SPACE:
            out.append(char)
        at_start = char in SPACE
    return "".join(out)


@FUNCTIONS.define("func(string) string", "swapcase", cost=costs.BY_CHARACTER)
def swapcase(text: str) -> str:
    """Return a text with the case of each letter changed, first letters of words in title case."""
    out, space_before = [], True
    for char in text:
        if char.isupper() or char.istitle():
            out.append(_lower(char))
            space_before = False
        elif char.islower():
            out.append(_title(char) if space_before else _upper(char))
            space_before = False
        else:
            out.append(_valid(char))
            space_before = char in SPACE
    return "".join(out)


@FUNCTIONS.define("func(int, string) string", "indent", cost=costs.COPY)
def indent(spaces: int, text: str) -> str:
    """Return a text with every line indented."""
    pad = repeat(spaces, " ")
    check_size(byte_length(text) + (text.count("\n") + 1) * spaces, "indent")
    return pad + text.replace("\n", "\n" + pad)


@FUNCTIONS.define("func(int, string) string", "nindent", cost=costs.COPY)
def nindent(spaces: int, text: str) -> str:
    """Return a new line and a text with every line indented."""
    return "\n" + indent(spaces, text)


@FUNCTIONS.define("func(string, string, string) string", "replace", cost=costs.COPY)
def replace(old: str, new: str, text: str) -> str:
    """Return a text with every ``old`` replaced."""
    check_size(byte_length(text) + (text.count(old) if old else len(text) + 1) * byte_length(new), "replace")
    return text.replace(old, new)


@FUNCTIONS.define("func(string, string, int) string", "plural", cost=costs.NOTHING)
def plural(one: str, many: str, count: int) -> str:
    """Return ``one`` for a count of 1, else ``many``."""
    return one if count == 1 else many


@FUNCTIONS.define("func(int, string) string", "abbrev", cost=costs.COPY)
def abbrev(width: int, text: str) -> str:
    """Return a text cut to a width, an ellipsis at its end."""
    return text if width < 4 else _abbreviated(text, 0, width)  # noqa: PLR2004 - room for the ellipsis


@FUNCTIONS.define("func(int, int, string) string", "abbrevboth", cost=costs.COPY)
def abbrevboth(left: int, right: int, text: str) -> str:
    """Return a part of a text with an ellipsis at both ends."""
    if right < 4 or (left > 0 and right < 7):  # noqa: PLR2004 - room for the ellipses
        return text
    return _abbreviated(text, left, right)


def _abbreviated(text: str, offset: int, width: int) -> str:
    size = byte_length(text)
    if size <= width:
        return text
    offset = min(offset, size)
    if size - offset < width - 3:
        offset = size - (width - 3)
    if offset <= 4:  # noqa: PLR2004 - goutils' own limit
        return byte_slice(text, 0, width - 3) + "..."
    if width < 7:  # noqa: PLR2004 - goutils' own limit
        return ""
    if offset + width - 3 < size:
        return "..." + _abbreviated(byte_slice(text, offset, size), 0, width - 3)
    return "..." + byte_slice(text, size - (width - 3), size)


@FUNCTIONS.define("func(int, string) string", "wrap", cost=costs.BY_CHARACTER)
def wrap(width: int, text: str) -> str:
    """Return a text wrapped at a width."""
    return wrap_with(width, "", text, breaks_words=False)


@FUNCTIONS.define("func(int, string, string) string", "wrapWith", cost=costs.BY_CHARACTER)
def wrap_with(width: int, separator: str, text: str, *, breaks_words: bool = True) -> str:
    """Return a text wrapped at a width of bytes, lines joined by ``separator``; long words are broken, letters too."""
    separator = separator or "\n"
    width = max(width, 1)
    size = byte_length(text)
    check_size(size + (size // width + 1) * byte_length(separator), "wrap")
    if size == len(text):
        return _wrapped(width, separator, text, breaks_words=breaks_words)
    # One character for each byte.
    in_bytes = (each.encode("utf-8", "surrogateescape").decode("latin-1") for each in (separator, text))
    wrapped = _wrapped(width, *in_bytes, breaks_words=breaks_words)
    return wrapped.encode("latin-1").decode("utf-8", "surrogateescape")


def _wrapped(width: int, separator: str, text: str, *, breaks_words: bool) -> str:
    out, offset, size = [], 0, len(text)
    while size - offset > width:
        if text[offset] == " ":
            offset += 1
            continue
        end = offset + width + 1
        space = text[offset:end].rfind(" ") + offset
        if space >= offset:
            out += [text[offset:space], separator]
            offset = space + 1
        elif breaks_words:
            out += [text[offset : offset + width], separator]
            offset += width
        else:
            following = text.find(" ", offset + width)
            if following < 0:
                break
            out += [text[offset:following], separator]
            offset = following + 1
    return "".join(out) + text[offset:]


@FUNCTIONS.define("func(string, string) map[string]string", "split", cost=costs.NUMBERED)
def split(separator: str, text: str) -> Map:
    """Return the parts of a text as a map with the keys _0, _1 and so on."""
    return _numbered(split_list(separator, text))


@FUNCTIONS.define("func(string, int, string) map[string]string", "splitn", cost=costs.NUMBERED)
def splitn(separator: str, count: int, text: str) -> Map:
    """Return at most ``count`` parts of a text as a map."""
    if count == 0:
        return _numbered([])
    if count < 0:
        return split(separator, text)
    if separator:
        return _numbered(text.split(separator, count - 1))
    last = min(count, len(text)) - 1
    return _numbered([*text[:last], text[last:]] if text else [])


def _numbered(parts: list[str]) -> Map:
    return Map("string", "string", {f"_{index}": part for index, part in enumerate(parts)})


@FUNCTIONS.define("func(string, string) []string", "splitList", cost=costs.PARTS)
def split_list(separator: str, text: str) -> Slice:
    """Return the parts of a text."""
    return Slice("string", text.split(separator) if separator else list(text))


@FUNCTIONS.define("func(string, interface {}) string", "join", cost=costs.LISTED)
def join(separator: str, values: Any) -> str:
    """Return the values of a list as text, joined."""
    parts = strslice(values)
    check_size(sum(map(byte_length, parts)) + len(parts) * byte_length(separator), "join")
    return separator.join(parts)


@FUNCTIONS.define("func(string) string", "b64enc", cost=costs.COPY)
def b64enc(text: str) -> str:
    """Return a text in base 64."""
    return base64.b64encode(_raw(text)).decode()


@FUNCTIONS.define("func(string) string", "b64dec", cost=costs.COPY)
def b64dec(text: str) -> str:
    """Return decoded base 64, or Go's error as a text."""
    try:
        clean = text.replace("\n", "").replace("\r", "")
        return base64.b64decode(clean, validate=True).decode("utf-8", "surrogateescape")
    except (binascii.Error, ValueError):
        return f"illegal base64 data at input byte {_illegal_at(text)}"


def _illegal_at(text: str) -> int:
    match = _ILLEGAL.search(text)
    if match is not None:
        return match.start()
    padding = text.find("=")
    if padding >= 0:
        return min(padding + 1, len(text))
    return len(text) - len(text.replace("\n", "").replace("\r", "")) % 4


@FUNCTIONS.define("func(string) string", "b32enc", cost=costs.COPY)
def b32enc(text: str) -> str:
    """Return a text in base 32."""
    return base64.b32encode(_raw(text)).decode()


@FUNCTIONS.define("func(string) string", "b32dec", cost=costs.BY_CHARACTER)
def b32dec(text: str) -> str:
    """Return decoded base 32, or Go's error as a text."""
    try:
        return base64.b32decode(text.replace("\n", "").replace("\r", "")).decode("utf-8", "surrogateescape")
    except (binascii.Error, ValueError):
        illegal = (i for i, char in enumerate(text) if char not in "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567=")
        found = next(illegal, len(text) - len(text) % 8)
        return f"illegal base32 data at input byte {found}"


def _raw(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


@FUNCTIONS.define("func(string) string", "sha1sum", cost=costs.SCAN)
def sha1sum(text: str) -> str:
    """Return the SHA-1 digest in hexadecimal."""
    return hashlib.sha1(_raw(text), usedforsecurity=False).hexdigest()


@FUNCTIONS.define("func(string) string", "sha256sum", cost=costs.SCAN)
def sha256sum(text: str) -> str:
    """Return the SHA-256 digest in hexadecimal."""
    return hashlib.sha256(_raw(text)).hexdigest()


@FUNCTIONS.define("func(string) string", "sha512sum", cost=costs.SCAN)
def sha512sum(text: str) -> str:
    """Return the SHA-512 digest in hexadecimal."""
    return hashlib.sha512(_raw(text)).hexdigest()


@FUNCTIONS.define("func(string) string", "adler32sum", cost=costs.SCAN)
def adler32sum(text: str) -> str:
    """Return the Adler-32 checksum in decimal."""
    return str(zlib.adler32(_raw(text)))
