"""Strings (sprig's strings.go, and the parts of Masterminds/goutils and huandu/xstrings that it calls), also random ones.

Random values (sprig's crypto.go and numeric.go) come from the operating system, environment variables (os.Expand) from the caller.
"""

from __future__ import annotations

import base64
import hashlib
import re
import string
import unicodedata
import uuid
import zlib
from collections.abc import Mapping
from functools import partial
from itertools import pairwise
from random import SystemRandom
from typing import Any, Final

from injector.golang.strconv import SPACE, byte_length, byte_slice, from_bytes, read_base64, to_bytes
from injector.golang.strconv import quote as go_quote
from injector.gotemplate import costs
from injector.gotemplate.budget import check_size, spend
from injector.gotemplate.errors import FuncError
from injector.gotemplate.fmt import sprint
from injector.gotemplate.functions import FuncMap
from injector.gotemplate.values import Map, Slice

FUNCTIONS: Final = FuncMap()
ENVIRONMENT: Final = FuncMap()
"""Functions whose first argument is a mapping of environment variables."""

_LOOKED_FOR: Final = 64
"""Comparisons of characters that take a step."""
_CONNECTORS: Final = "-_" + SPACE
_BASE32: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
_BASE32_GROUP: Final = 8
_BASE32_PARTIAL: Final = (1, 3, 6)
"""Numbers of characters that do not end with a byte."""
_BASE64_GROUP: Final = 4
_ILLEGAL = re.compile(r"[^A-Za-z0-9+/=\r\n]", re.ASCII)
# The words that snakecase joins, in the letters of ``_character_class``. Of several capitals before a small letter the last starts the
# next word: HTTPStatus is http_status. Digits belong to the word before them (Bld4Floor is bld4_floor), unless small letters follow,
# which are then of the digits' word (HTTP2xx is http_2xx).
_SNAKE_WORDS = re.compile(
    r"(?P<connector>[CD]+)|(?P<punctuation>P[PD]*)|N[LN]*|(?:(?P<upper>UL+|U+(?!L))|L+|O+)(?:N+(?![LN]))?"
)


def _character_class(char: str) -> str:
    """Return Connector, Dash (a connector and punctuation), Punctuation, Upper, Letter, Number or Other."""
    if char in "-_":
        return "D"
    if char in SPACE:
        return "C"
    category = unicodedata.category(char)
    return "U" if category == "Lu" else category[0] if category[0] in "PLN" else "O"


def _join(text: str, connector: str) -> str:
    out: list[str] = []
    after_word = False
    for match in _SNAKE_WORDS.finditer("".join(map(_character_class, text))):
        part = text[match.start() : match.end()]
        is_word = not (match["connector"] or match["punctuation"])
        if is_word and after_word:
            out.append(connector)
        out.append(connector * len(part) if match["connector"] else lower(part) if match["upper"] else part)
        after_word = is_word
    return "".join(out)


@FUNCTIONS.define("func(string) string", "camelcase", cost=costs.WORDS)
def to_pascal_case(text: str) -> str:
    """Return ``HttpServer`` for ``http_server``; sprig calls it camelcase.

    Of each group of connectors between words the last is removed. Capitals that follow the first letter of a word become small.
    """
    body = text.lstrip(_CONNECTORS)
    if not body:
        return text + text[-1:]  # xstrings writes the last of connectors alone twice
    out = [text[: len(text) - len(body)]]
    previous, lowering = upper(body[0]), body[0].isupper()
    for char in body[1:]:
        if previous not in _CONNECTORS:
            out.append(previous)
            previous, lowering = lower(char) if lowering and char.isupper() else char, lowering and char.isupper()
        elif char in _CONNECTORS:
            out.append(previous)
            previous = char
        else:
            previous, lowering = upper(char), char.isupper()
    return "".join(out) + previous


@FUNCTIONS.define("func(interface {}) string", "toString", cost=costs.PRINTED)
def strval(value: Any) -> str:
    """Return a value as text: strings unchanged, other values as fmt prints them."""
    return value if isinstance(value, str) else sprint(value)


@FUNCTIONS.define("func(interface {}) []string", "toStrings", cost=costs.LISTED)
def strslice(value: Any) -> Slice:
    """Return a list's values as text, nil left out; a single value as a list of one."""
    if isinstance(value, list):
        return Slice("string", [strval(item) for item in value if item is not None])
    return Slice("string", [] if value is None else [strval(value)])


@FUNCTIONS.define("func(...interface {}) string", "quote", cost=costs.QUOTED)
def quote_values(*values: Any) -> str:
    """Return the values in double quotes, nil left out."""
    if len(values) == 1:
        return "" if values[0] is None else go_quote(strval(values[0]))
    return " ".join(go_quote(strval(value)) for value in values if value is not None)


def _join_by_space(text: str, *values: Any) -> str:
    """Return values by a format, joined by spaces, nil left out."""
    return " ".join(text.format(sprint(value)) for value in values if value is not None)


FUNCTIONS.add("squote", "func(...interface {}) string", partial(_join_by_space, "'{}'"), costs.PRINTED)
FUNCTIONS.add("cat", "func(...interface {}) string", partial(_join_by_space, "{}"), costs.PRINTED)


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
        start = 0
    elif end < 0 or end > size:
        end = size
    if end > size:
        raise FuncError(f"runtime error: slice bounds out of range [:{end}] with length {size}")
    if end < 0:
        raise FuncError(f"runtime error: slice bounds out of range [:{end}]")
    if start > end:
        raise FuncError(f"runtime error: slice bounds out of range [{start}:{end}]")
    return byte_slice(text, start, end)


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
    return "".join(_title(char) if _separates(previous) else _valid(char) for previous, char in pairwise(f" {text}"))


@FUNCTIONS.define("func(string) string", "untitle", cost=costs.BY_CHARACTER)
def untitle(text: str) -> str:
    """Return a text with each word's first letter in lower case."""
    return "".join(_lower(char) if previous in SPACE else _valid(char) for previous, char in pairwise(f" {text}"))


def _lower(char: str) -> str:
    """Return a character in lower case (unicode.ToLower): one character, where Python's may be two."""
    return _valid(char.lower()[0])


def _upper(char: str) -> str:
    """Return a character in upper case (unicode.ToUpper). If Python returns several, the title case is used."""
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
    return not (char.isalnum() or char == "_") if char.isascii() else char in SPACE


@FUNCTIONS.define("func(string) string", "nospace", cost=costs.BY_CHARACTER)
def nospace(text: str) -> str:
    """Return a text without white space; as goutils does, byte by byte, which takes other than ASCII apart."""
    characters = _bytes_as_text(text)
    without = "".join(char for char in characters if char not in SPACE)
    return text if without == characters else without


def _bytes_as_text(text: str) -> str:
    """Return a text with one character for each byte."""
    return to_bytes(text).decode("latin-1")


@FUNCTIONS.define("func(string) string", "initials", cost=costs.BY_CHARACTER)
def initials(text: str) -> str:
    """Return the first letter of each word; as goutils does, byte by byte."""
    characters = pairwise(f" {_bytes_as_text(text)}")
    return "".join(char for previous, char in characters if previous in SPACE and char not in SPACE)


@FUNCTIONS.define("func(string) string", "swapcase", cost=costs.BY_CHARACTER)
def swapcase(text: str) -> str:
    """Return a text with the case of each letter changed, first letters of words in title case."""
    out, at_start = [], True
    for char in text:
        if char.isupper() or char.istitle():
            out.append(_lower(char))
        elif char.islower():
            out.append(_title(char) if at_start else _upper(char))
        else:
            out.append(_valid(char))
        at_start = char in SPACE
    return "".join(out)


@FUNCTIONS.define("func(int, string) string", "indent", cost=costs.COPY)
def indent(spaces: int, text: str) -> str:
    """Return a text with every line indented."""
    pad = repeat(spaces, " ")
    check_size(byte_length(text) + (text.count("\n") + 1) * spaces, "indent")
    return pad + text.replace("\n", "\n" + pad)


FUNCTIONS.add("nindent", "func(int, string) string", lambda spaces, text: "\n" + indent(spaces, text), costs.COPY)


@FUNCTIONS.define("func(string, string, string) string", "replace", cost=costs.COPY)
def replace(old: str, new: str, text: str) -> str:
    """Return a text with every ``old`` replaced."""
    check_size(byte_length(text) + (text.count(old) if old else len(text) + 1) * byte_length(new), "replace")
    return text.replace(old, new)


@FUNCTIONS.define("func(int, int, string) string", "abbrevboth", cost=costs.COPY)
def abbrevboth(left: int, right: int, text: str) -> str:
    """Return a part of a text with an ellipsis at both ends."""
    if right < 4 or (left > 0 and right < 7):  # noqa: PLR2004 - room for the ellipses
        return text
    return _abbreviate(text, left, right)


FUNCTIONS.add("abbrev", "func(int, string) string", lambda width, text: abbrevboth(0, width, text), costs.COPY)


def _abbreviate(text: str, offset: int, width: int) -> str:
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
        return "..." + _abbreviate(byte_slice(text, offset, size), 0, width - 3)
    return "..." + byte_slice(text, size - (width - 3), size)


@FUNCTIONS.define("func(int, string, string) string", "wrapWith", cost=costs.BY_CHARACTER)
def wrap_with(width: int, separator: str, text: str, *, breaks_words: bool = True) -> str:
    """Return a text wrapped at a width of bytes, lines joined by ``separator``; long words are broken, letters too."""
    separator = separator or "\n"
    width = max(width, 1)
    size = byte_length(text)
    check_size(size + (size // width + 1) * byte_length(separator), "wrap")
    if size == len(text):
        return _wrap_text(width, separator, text, breaks_words=breaks_words)
    wrapped = _wrap_text(width, _bytes_as_text(separator), _bytes_as_text(text), breaks_words=breaks_words)
    return from_bytes(wrapped.encode("latin-1"))


FUNCTIONS.add(
    "wrap",
    "func(int, string) string",
    lambda width, text: wrap_with(width, "", text, breaks_words=False),
    costs.BY_CHARACTER,
)


def _wrap_text(width: int, separator: str, text: str, *, breaks_words: bool) -> str:
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


@FUNCTIONS.define("func(string, int, string) map[string]string", "splitn", cost=costs.NUMBERED)
def splitn(separator: str, count: int, text: str) -> Map:
    """Return at most ``count`` parts of a text as a map, all if it is negative."""
    if separator and count:
        return _as_numbered_map(text.split(separator, max(count - 1, -1)))
    size = len(text) if count < 0 else min(count, len(text))
    return _as_numbered_map([*text[: size - 1], text[size - 1 :]] if size else [])


def _as_numbered_map(parts: list[str]) -> Map:
    """Return parts of a text as a map with the keys _0, _1 and so on."""
    return Map("string", "string", {f"_{index}": part for index, part in enumerate(parts)})


@FUNCTIONS.define("func(string, string) []string", "splitList", cost=costs.PARTS)
def split_list(separator: str, text: str) -> Slice:
    """Return the parts of a text."""
    return Slice("string", text.split(separator) if separator else list(text))


FUNCTIONS.add(
    "split",
    "func(string, string) map[string]string",
    lambda separator, text: _as_numbered_map(split_list(separator, text)),
    costs.NUMBERED,
)


@FUNCTIONS.define("func(string, interface {}) string", "join", cost=costs.LISTED)
def join(separator: str, values: Any) -> str:
    """Return the values of a list as text, joined."""
    parts = strslice(values)
    check_size(sum(map(byte_length, parts)) + len(parts) * byte_length(separator), "join")
    return separator.join(parts)


@FUNCTIONS.define("func(string) string", "b64dec", cost=costs.COPY)
def b64dec(text: str) -> str:
    """Return decoded base 64, or Go's error as a text."""
    try:
        return from_bytes(decode_base64(text))
    except FuncError as error:
        return str(error)


def decode_base64(text: str) -> bytes:
    """Return decoded base 64. Raises FuncError with Go's text."""
    decoded = read_base64(text)
    if decoded is None:
        raise FuncError(f"illegal base64 data at input byte {_base64_fault(text)}")
    return decoded


def _base64_fault(text: str) -> int:
    """Return the place that Go names in the error of a text that is not base 64 (Encoding.decodeQuantum)."""
    taken, padding = 0, 0
    for at, char in enumerate(text):
        if char in "\r\n":
            continue
        if padding and (char != "=" or taken + padding == _BASE64_GROUP):
            return at if taken + padding == _BASE64_GROUP else at - 1
        if (char == "=" and taken < 2) or _ILLEGAL.match(char):  # noqa: PLR2004 - a byte takes two characters
            return at
        if char == "=":
            padding += 1
        else:
            taken = (taken + 1) % _BASE64_GROUP
    return len(text) if padding else len(text) - taken


@FUNCTIONS.define("func(string) string", "b32dec", cost=costs.BY_CHARACTER)
def b32dec(text: str) -> str:
    """Return decoded base 32, or Go's error as a text."""
    clean = text.replace("\n", "").replace("\r", "")
    for begin in range(0, len(clean), _BASE32_GROUP):
        group = clean[begin : begin + _BASE32_GROUP]
        taken = len(group) - len(group.lstrip(_BASE32))
        if taken < _BASE32_GROUP:
            at, padding = begin + taken, _BASE32_GROUP - taken
            fault = _base32_fault(clean, at, taken, padding)
            if fault is not None:
                return f"illegal base32 data at input byte {fault}"
            clean = clean[:at] + "=" * padding  # Go ignores the rest
            break
    return from_bytes(base64.b32decode(clean))


def _base32_fault(text: str, at: int, taken: int, padding: int) -> int | None:
    """Return the place that Go names in the error of a group of ``taken`` characters that ends at ``at``; None if it is padded."""
    if at == len(text):
        return at - taken
    if text[at] != "=" or taken < 2 or len(text) - at > _BASE32_GROUP:  # noqa: PLR2004 - a byte takes two characters
        return at
    if len(text) - at < padding:
        return len(text)
    pad = len(text[at:]) - len(text[at:].lstrip("="))
    if pad < padding:
        return at + pad - 1
    return at if taken in _BASE32_PARTIAL else None


def _hexdigest(name: str, text: str) -> str:
    return hashlib.new(name, to_bytes(text), usedforsecurity=False).hexdigest()


for _name in ("sha1", "sha256", "sha512"):
    FUNCTIONS.add(f"{_name}sum", "func(string) string", partial(_hexdigest, _name), costs.SCAN)


FUNCTIONS.add("hello", "func() string", lambda: "Hello!", costs.NOTHING)
FUNCTIONS.add("contains", "func(string, string) bool", lambda part, text: part in text, costs.PASS)
FUNCTIONS.add("hasPrefix", "func(string, string) bool", lambda prefix, text: text.startswith(prefix), costs.PASS)
FUNCTIONS.add("hasSuffix", "func(string, string) bool", lambda suffix, text: text.endswith(suffix), costs.PASS)
FUNCTIONS.add("trimPrefix", "func(string, string) string", lambda prefix, text: text.removeprefix(prefix), costs.SCAN)
FUNCTIONS.add("trimSuffix", "func(string, string) string", lambda suffix, text: text.removesuffix(suffix), costs.SCAN)
FUNCTIONS.add("plural", "func(string, string, int) string", lambda one, many, n: one if n == 1 else many, costs.NOTHING)
FUNCTIONS.add("snakecase", "func(string) string", lambda text: _join(text, "_"), costs.WORDS)
FUNCTIONS.add("kebabcase", "func(string) string", lambda text: _join(text, "-"), costs.WORDS)
FUNCTIONS.add("b64enc", "func(string) string", lambda text: base64.b64encode(to_bytes(text)).decode(), costs.COPY)
FUNCTIONS.add("b32enc", "func(string) string", lambda text: base64.b32encode(to_bytes(text)).decode(), costs.COPY)
FUNCTIONS.add("adler32sum", "func(string) string", lambda text: str(zlib.adler32(to_bytes(text))), costs.SCAN)

_PER_STEP: Final = 256
"""Characters among which the end of a name is looked for in a step; each name may be looked for as far as the end of the text."""
_VARIABLE = re.compile(r"\$(?:\{(?P<braced>[^}]*)\}|(?P<special>[*#$@!?\-0-9])|(?P<name>[A-Za-z0-9_]+))", re.ASCII)
_RANDOM: Final = SystemRandom()
_CHOICE: Final = 4
"""Steps of a random choice."""


ENVIRONMENT.add("env", "func(string) string", lambda environ, name: environ.get(name, ""), costs.NOTHING)


@ENVIRONMENT.define("func(string) string", "expandenv", cost=costs.BY_CHARACTER)
def expandenv(environ: Mapping[str, str], text: str) -> str:
    """Return a text with ``$NAME`` and ``${NAME}`` replaced, unknown ones by nothing."""
    spend(text.count("${") * len(text) // _PER_STEP)
    return _VARIABLE.sub(
        lambda match: environ.get(match["braced"] or match["special"] or match["name"] or "", ""), text
    )


def _random_text(count: int, alphabet: str) -> str:
    if count < 0:
        return ""
    check_size(count, "random text")
    spend(_CHOICE * count)
    # Each byte stands for a character, except those at the end, which would make some characters likelier than others.
    even = 256 - 256 % len(alphabet)
    letters = bytes(ord(alphabet[byte % len(alphabet)]) for byte in range(256))
    decoded = b""
    while len(decoded) < count:
        decoded += _RANDOM.randbytes(2 * (count - len(decoded))).translate(letters, bytes(range(even, 256)))
    return decoded[:count].decode("ascii")


for _name, _alphabet in (
    ("randAlphaNum", string.ascii_letters + string.digits),
    ("randAlpha", string.ascii_letters),
    ("randAscii", "".join(map(chr, range(32, 127)))),
    ("randNumeric", string.digits),
):
    FUNCTIONS.define("func(int) string", _name, cost=costs.COPY, hermetic=False)(
        partial(_random_text, alphabet=_alphabet)
    )


@FUNCTIONS.define("func(int, int) int", "randInt", cost=costs.SCAN, hermetic=False)
def rand_int(low: int, high: int) -> int:
    """Return a random integer from ``low`` on, below ``high``."""
    if high <= low:
        raise FuncError("invalid argument to Intn")
    return _RANDOM.randrange(low, high)


@FUNCTIONS.define("func(int) (string, error)", "randBytes", cost=costs.COPY, hermetic=False)
def rand_bytes(count: int) -> str:
    """Return random bytes in base 64."""
    if count < 0:
        raise FuncError("runtime error: makeslice: len out of range")
    check_size(count, "random bytes")
    return base64.b64encode(_RANDOM.randbytes(count)).decode()


FUNCTIONS.define("func() string", "uuidv4", cost=costs.SCAN, hermetic=False)(lambda: str(uuid.uuid4()))


@FUNCTIONS.define("func(string) string", "shuffle", cost=costs.QUOTED, hermetic=False)
def shuffle(text: str) -> str:
    """Return a text's characters in random order."""
    spend(_CHOICE * len(text))
    characters = list(text)
    _RANDOM.shuffle(characters)
    return "".join(characters)
