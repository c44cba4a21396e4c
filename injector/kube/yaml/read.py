r"""YAML read as Go reads it: go-yaml's types of scalars on libyaml's parser.

Follows go.yaml.in/yaml/v2 (v2.4.3) resolve.go and decode.go, and sigs.k8s.io/yaml (v1.6.0) ``convertToJSONableObject``: go-yaml tells
plain scalars apart by their first character and then tries Go's number syntax. Keys become strings, and a value that JSON cannot hold is
an error. As in Go, only the first document of a text counts, a repeated key has its last value, and a merge (``<<``) overwrites the
entries before it. Unlike go-yaml, ``\/`` is allowed in double quotes, because JSON allows it.
"""

from __future__ import annotations

import math
import re
import sys
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import yaml
from yaml.cyaml import CParser  # type: ignore[attr-defined] # its stub names the loaders alone

from injector.errors import DataError, ManifestError
from injector.golang.json import load_json
from injector.golang.strconv import format_g, name_of_non_finite, read_base64
from injector.golang.time import is_calendar
from injector.kube.lists import is_list, items_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_PREFIX: Final = "tag:yaml.org,2002:"
_NAMED: Final[dict[str, Any]] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
}
HINTED: Final = frozenset("yYnNtTfFoO~.+-0123456789")
"""What plain scalars begin with that may be something else than text."""
_NUMERIC: Final = frozenset("+-0123456789")
# strconv.ParseInt with base 0, after go-yaml has taken the underscores out.
_INTEGER = re.compile(
    r"[-+]?(?:0[xX](?P<hex>[0-9a-fA-F]+)|0[bB](?P<bin>[01]+)|0[oO]?(?P<oct>[0-7]+)|(?P<dec>0|[1-9][0-9]*))", re.ASCII
)
# The sign may come after the prefix: what follows 0b is read as a number of its own.
_SIGNED_BINARY = re.compile(r"0b(?P<digits>[-+][01]{1,64})", re.ASCII)
_BASES: Final = {"hex": 16, "bin": 2, "oct": 8, "dec": 10}
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", re.ASCII)
# What strconv.ParseFloat takes of a text that begins with a point.
_POINT_FLOAT = re.compile(r"\.[0-9](_?[0-9])*([eE][-+]?[0-9](_?[0-9])*)?", re.ASCII)
_MAX_DIGITS: Final = 64  # of a 64-bit integer, in base 2; Python refuses to read thousands
_INT64: Final = 2**63
_UINT64: Final = 2**64
_SHORT_DATE = r"(?P<year>[0-9]{4})-(?P<month>[0-9]{1,2})-(?P<day>[0-9]{1,2})"
_CLOCK = r"(?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{1,2}):(?P<second>[0-9]{1,2})([.,][0-9]+)?"
_ZONE = r"(Z|[-+](?P<zone_hour>[0-9]{2}):(?P<zone_minute>[0-9]{2}))"
_TIMESTAMP = re.compile(rf"{_SHORT_DATE}([Tt]{_CLOCK}{_ZONE})?", re.ASCII)
_SPACED_TIMESTAMP = re.compile(rf"{_SHORT_DATE} +{_CLOCK}", re.ASCII)


_NO_TEXT = re.compile(r"[\udc80-\udcff]")


class BadScalarError(ValueError):
    """A scalar that contradicts its tag, or a key that JSON cannot have."""


def resolve_plain(text: str) -> Any:
    """Resolve a plain scalar as go-yaml does: None, a bool, an int, a float or the text itself."""
    first = text[:1]
    if first and first not in HINTED:
        return text
    if text in _NAMED:
        return _NAMED[text]
    if first in _NUMERIC:
        return _number(text)
    if first == "." and _POINT_FLOAT.fullmatch(text):
        return _finite(text.replace("_", ""), text)
    return text


def _number(text: str) -> Any:
    plain = text.replace("_", "") if "_" in text else text
    match = _INTEGER.fullmatch(plain)
    if match is not None:
        kind = str(match.lastgroup)
        digits = match[kind].lstrip("0") or "0"
        number = int(digits, _BASES[kind]) if len(digits) <= _MAX_DIGITS else _UINT64
        if plain[0] == "-" and number <= _INT64:
            return -number
        if number < (_INT64 if plain[0] in "+-" else _UINT64):
            return number
    signed = _SIGNED_BINARY.fullmatch(plain)
    if signed is not None and -_INT64 <= (number := int(signed["digits"], 2)) < _INT64:
        return number
    return _finite(plain, text) if _FLOAT.fullmatch(plain) else text


def _finite(plain: str, text: str) -> float | str:
    number = float(plain)
    return number if math.isfinite(number) else text


def resolve_tagged(tag: str, text: str) -> Any:
    """Resolve a scalar with a tag as go-yaml does; an unknown tag leaves the text.

    Raises BadScalarError if the text does not fit the tag.
    """
    name = tag.removeprefix(_PREFIX) if tag.startswith(_PREFIX) else ""
    if name == "binary":
        return _binary(text)
    kinds = _KINDS.get(name)
    if kinds is None:
        return text
    value = resolve_plain(text)
    if name == "float" and type(value) is int and value < _INT64:
        return float(value)
    if name == "timestamp" and is_timestamp(text):
        return text
    if type(value) not in kinds:
        raise BadScalarError(f"cannot decode `{text}` as a !!{name}")
    return value


_KINDS: Final[dict[str, tuple[type, ...]]] = {
    "bool": (bool,),
    "int": (int,),
    "float": (float,),
    "null": (type(None),),
    "timestamp": (),
}


def _binary(text: str) -> str:
    """Return decoded base64 as text; each byte that is not UTF-8 becomes U+FFFD, as in encoding/json."""
    data = read_base64(text)
    if data is None:
        raise BadScalarError("!!binary value contains invalid base64 data")
    return _NO_TEXT.sub("\ufffd", data.decode("utf-8", "surrogateescape"))


def is_timestamp(text: str) -> bool:
    """Return whether go-yaml reads a plain scalar as a date, which stays text when read and is quoted when written."""
    match = _TIMESTAMP.fullmatch(text) or _SPACED_TIMESTAMP.fullmatch(text)
    if match is None:
        return False
    return is_calendar({name: int(digits) for name, digits in match.groupdict().items() if digits is not None})


def json_key(key: Any) -> str:
    """Return the text of a map's key that is not a string.

    Raises BadScalarError for null and integers beyond int64, as sigs.k8s.io/yaml.
    """
    if type(key) is bool:
        return "true" if key else "false"
    if type(key) is int and key < _INT64:
        return str(key)
    if type(key) is float:
        # strconv.FormatFloat(v, 'g', -1, 32), with YAML's words for what is not finite.
        text = format_g(key, bits=32)
        return {"NaN": ".nan", "+Inf": ".inf", "-Inf": "-.inf"}.get(text, text)
    raise BadScalarError(f"unsupported map key of type: {'null' if key is None else 'uint64'}")


_VERSION: Final = (1, 1)
_NO_KEY: Final = object()
"""Stands for a key that JSON does not allow."""
_MERGE_TAG: Final = "tag:yaml.org,2002:merge"
# go-yaml allows 10,000 levels, which no Kubernetes object has; functions here walk values by recursion.
_MAX_DEPTH: Final = 200
_PART_DEPTH: Final = 100
"""How deep in a document a part may be."""
# libyaml compares each directive with all before it. No document here has one.
_MAX_TAG_DIRECTIVES: Final = 16
# Only at the beginning of a line: elsewhere it is text.
_TAG_DIRECTIVE: Final = re.compile("(?:\\A|[\n\r\x85\u2028\u2029])\ufeff?%TAG")
_TAG_DIRECTIVE_BYTES: Final = re.compile(rb"%\0?T\0?A\0?G")
_MAX_SHOWN: Final = 300  # characters of a message, which can quote a value
# decode.go, allowedAliasRatio: how large a share of a document may come from aliases, by how much there is to decode.
_ALIASED_FLOOR: Final = 100
_DECODED_FLOOR: Final = 1_000
_RATIO_LOW: Final = 400_000
_RATIO_HIGH: Final = 4_000_000


def load_yaml(
    text: str | bytes, *, where: str = "", line: int = 1, most: int = sys.maxsize, strict: bool = False
) -> Any:
    """Return the first document of ``text`` as JSON data; None if there is none. Bytes may be UTF-8 or UTF-16.

    Integers beyond 64 bits are floats, dates are strings. Parts that aliases repeat are one object: do not change the result. ``where`` and
    ``line``, on which the text begins, are for errors. ``most`` limits the values, keys and repetitions by aliases included. Of a
    repeated key the last value counts, as in Go; ``strict`` is for the injector's own files, in which it is an error. Raises
    ManifestError, with the line, if it is not YAML, or has no JSON form.
    """
    if _count_tag_directives(text) > _MAX_TAG_DIRECTIVES:
        raise ManifestError("yaml: too many %TAG directives", where=where, hint="leave them out")
    with _parsing(text, where, line) as parser:
        return (_StrictReader if strict else _Reader)(parser.get_event, where, line, most).document()


def _count_tag_directives(text: str | bytes) -> int:
    if isinstance(text, str):
        return len(_TAG_DIRECTIVE.findall(text)) if "%TAG" in text else 0
    return len(_TAG_DIRECTIVE_BYTES.findall(text))


def read_part(text: str) -> tuple[Any, int]:
    """Return the value of a part of a document, and the number of its values, as ``load_yaml`` counts them.

    Raises ManifestError if the part alone is not YAML, or has anchors, which other parts may refer to.
    """
    with _parsing(text) as parser:
        reader = _Reader(parser.get_event, "", 1, sys.maxsize)
        value = reader.document(_PART_DEPTH)
        end = parser.get_event()
        if reader.anchors or type(end) is not yaml.StreamEndEvent:
            raise reader.error(end, "not a part of a document")
        return value, reader.decoded - 1


@contextmanager
def _parsing(text: str | bytes, where: str = "", line: int = 1) -> Iterator[CParser]:
    """Yield a parser of a text; its errors name the line."""
    try:
        parser = CParser(text)
        try:
            yield parser
        finally:
            parser.dispose()
    except (yaml.YAMLError, UnicodeError) as error:
        raise _syntax_error(error, where, line) from error


def _syntax_error(error: Exception, where: str, first: int) -> ManifestError:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)
    line = f"line {mark.line + first}: " if mark is not None else ""
    return ManifestError(f"yaml: {line}{problem}", where=where, hint="correct the YAML")


@dataclass(slots=True)
class _Anchor:
    """The value of an anchor, ``complete`` once its end is read, and the cost of decoding it again."""

    scalar: bool = False
    complete: bool = False
    value: Any = None
    cost: int = 0


class _Reader:
    """Builds JSON data from the events of one document."""

    __slots__ = ("aliased", "anchors", "decoded", "line", "most", "next_event", "unusable", "where")

    def __init__(self, next_event: Callable[[], Any], where: str, line: int, most: int) -> None:
        self.line = line
        self.next_event = next_event
        self.where = where
        self.most = most
        self.anchors: dict[str, _Anchor] = {}
        self.decoded = 1
        self.aliased = 0
        self.unusable: list[ManifestError] = []

    def document(self, depth: int = 0) -> Any:
        """Return the first document's value, ``depth`` levels deep in another one."""
        self.next_event()  # the stream's start
        start = self.next_event()
        if type(start) is not yaml.DocumentStartEvent:
            return None
        if start.version not in (None, _VERSION):
            raise self.error(start, "found incompatible YAML document", "leave the %YAML directive out")
        value = self.value(self.next_event(), depth)
        self.next_event()  # the document's end: text that does not belong there is an error
        # Go decodes the whole document before it makes JSON, so values that a repeated key replaces do not count.
        if self.unusable and not _is_json(value):
            raise self.unusable[0]
        return value

    def error(self, event: Any, problem: str, hint: str = "correct the YAML") -> ManifestError:
        """Make an error at the line of an event."""
        shortened = problem if len(problem) <= _MAX_SHOWN else f"{problem[:_MAX_SHOWN]}..."
        return ManifestError(
            f"yaml: line {event.start_mark.line + self.line}: {shortened}", where=self.where, hint=hint
        )

    def value(self, event: Any, depth: int) -> Any:
        """Return the value that begins with ``event``."""
        if self.decoded > self.most:
            raise self.error(event, f"more than {self.most} values", "leave some out")
        kind = type(event)
        if kind is yaml.ScalarEvent:
            value = self.scalar(event)
        elif kind is yaml.AliasEvent:
            value = self.alias(event).value
        else:
            return self.collection(event, depth)
        if type(value) is float and not math.isfinite(value):
            what = f"json: unsupported value: {name_of_non_finite(value)}"
            self.unusable.append(self.error(event, what, "quote it to make it a string"))
        return value

    def scalar(self, event: Any) -> Any:
        """Return a scalar as go-yaml types it."""
        self.decoded += 1
        if event.tag is not None:
            try:
                value = resolve_tagged(event.tag, event.value)
            except BadScalarError as error:
                raise self.error(event, str(error)) from None
        else:
            value = resolve_plain(event.value) if event.implicit[0] else event.value
        if event.anchor is not None:
            self.anchors[event.anchor] = _Anchor(scalar=True, complete=True, value=value, cost=1)
        return value

    def alias(self, event: Any) -> _Anchor:
        """Return the anchor of an alias; documents that consist mostly of aliases are refused."""
        anchor = self.anchors.get(event.anchor)
        if anchor is None:
            raise self.error(event, f"unknown anchor '{event.anchor}' referenced", "define the anchor before its alias")
        if not anchor.complete:
            raise self.error(event, f"anchor '{event.anchor}' value contains itself", "write the inner part out")
        self.decoded += 1 + anchor.cost
        self.aliased += anchor.cost
        counts = self.aliased > _ALIASED_FLOOR and self.decoded > _DECODED_FLOOR
        if counts and self.aliased / self.decoded > _allowed_ratio(self.decoded):
            raise self.error(event, "document contains excessive aliasing", "write the repeated parts out")
        return anchor

    def collection(self, event: Any, depth: int) -> Any:
        """Return the list or map that begins with ``event``."""
        if depth >= _MAX_DEPTH:
            raise self.error(event, "exceeded max depth", "nest less deeply")
        self.decoded += 1
        anchor = _Anchor() if event.anchor is not None else None
        before = self.decoded
        if anchor is not None:
            self.anchors[event.anchor] = anchor
        value: Any
        if type(event) is yaml.SequenceStartEvent:
            value = self.items(depth + 1)
        else:
            value = {}
            self.fill(value, depth + 1)
        if anchor is not None:
            anchor.complete, anchor.value, anchor.cost = True, value, self.decoded - before + 1
        return value

    def items(self, depth: int) -> list[Any]:
        """Return the items up to the end of a sequence."""
        next_event = self.next_event
        items: list[Any] = []
        while type(event := next_event()) is not yaml.SequenceEndEvent:
            items.append(self.value(event, depth))
        return items

    def fill(self, target: dict[str, Any], depth: int) -> None:
        """Put the pairs up to the end of a mapping into ``target``."""
        next_event = self.next_event
        while type(event := next_event()) is not yaml.MappingEndEvent:
            is_text = type(event) is yaml.ScalarEvent
            if is_text and event.value == "<<" and (event.implicit[0] or event.tag == _MERGE_TAG):
                self.merge(next_event(), target, depth)
            else:
                key = self.key(event)
                target[key] = self.value(next_event(), depth)

    def key(self, event: Any) -> Any:
        """Return a key as JSON has it, or ``_NO_KEY``."""
        kind = type(event)
        if kind is yaml.ScalarEvent:
            key = self.scalar(event)
        elif kind is yaml.AliasEvent and (anchor := self.alias(event)).scalar:
            key = anchor.value
        else:
            raise self.error(event, "invalid map key", "make it a string")
        if type(key) is str:
            return key
        try:
            return json_key(key)
        except BadScalarError as error:
            self.unusable.append(self.error(event, str(error), "quote the key"))
            return _NO_KEY

    def merge(self, event: Any, target: dict[str, Any], depth: int) -> None:
        """Put the pairs of a merge key into ``target``: those of a map, or of a list of maps, in which earlier maps win."""
        if type(event) is not yaml.SequenceStartEvent:
            target.update(self.merge_source(event, depth))
            return
        sources = []
        while type(item := self.next_event()) is not yaml.SequenceEndEvent:
            sources.append(self.merge_source(item, depth + 1))
        for source in reversed(sources):
            target.update(source)

    def merge_source(self, event: Any, depth: int) -> dict[str, Any]:
        """Return a map that a merge key adds."""
        value = None if type(event) is yaml.ScalarEvent else self.value(event, depth)
        if type(value) is not dict:
            raise self.error(event, "map merge requires map or sequence of maps as the value")
        return value


class _StrictReader(_Reader):
    """A reader that refuses a key that a mapping has already, as go-yaml's UnmarshalStrict. A key may override a merged one."""

    __slots__ = ()

    def fill(self, target: dict[str, Any], depth: int) -> None:
        """Put the pairs up to the end of a mapping into ``target``."""
        keys = set()
        while type(event := self.next_event()) is not yaml.MappingEndEvent:
            if (
                type(event) is yaml.ScalarEvent
                and event.value == "<<"
                and (event.implicit[0] or event.tag == _MERGE_TAG)
            ):
                self.merge(self.next_event(), target, depth)
                continue
            key = self.key(event)
            if key in keys:
                raise self.error(event, f"the key {str(key)!r} occurs twice", "keep one of them")
            keys.add(key)
            target[key] = self.value(self.next_event(), depth)


def _is_json(value: Any) -> bool:
    if isinstance(value, dict):
        return _NO_KEY not in value and all(map(_is_json, value.values()))
    if isinstance(value, list):
        return all(map(_is_json, value))
    return type(value) is not float or math.isfinite(value)


def _allowed_ratio(decoded: int) -> float:
    if decoded <= _RATIO_LOW:
        return 0.99
    if decoded >= _RATIO_HIGH:
        return 0.10
    return 0.99 - 0.89 * (decoded - _RATIO_LOW) / (_RATIO_HIGH - _RATIO_LOW)


_SEPARATOR: Final = "---"
_SEPARATOR_LINE: Final = re.compile(r"^---([^\n]*)\n?", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Document:
    """One document of a manifest: its text, unchanged, and the line of the file that it begins on (from 1)."""

    text: str
    line: int

    @property
    def first_line(self) -> int:
        """The line where the content starts, after a separator, blank lines and comments."""
        for number, line in enumerate(self.text.split("\n")):
            if line.strip() and not line.lstrip().startswith(("#", _SEPARATOR)):
                return self.line + number
        return self.line


def split_documents(text: str, *, where: str = "") -> list[Document]:
    """Split a manifest where k8s.io/apimachinery's yaml.NewYAMLReader (v0.35) does: at lines that begin with ``---``.

    A separator ends a document. At the head of a file, it is the first line of the next document instead. ``where`` is the name of the
    source, for errors. Raises ManifestError for a separator with more on its line than a comment.
    """
    documents: list[Document] = []
    begin, line = 0, 1
    start, found_line = 0, 1
    for separator in _SEPARATOR_LINE.finditer(text):
        found_line += text.count("\n", start, separator.start())
        start = separator.start()
        rest = separator[1].strip()
        if rest and not rest.startswith("#"):
            what = f"yaml: line {found_line}: invalid Yaml document separator: {rest}"
            raise ManifestError(what, where=where, hint="begin the document on the line after ---")
        if begin < start:
            documents.append(Document(text[begin:start], line))
            begin, line = separator.end(), found_line + 1
    if begin < len(text):
        documents.append(Document(text[begin:], line))
    return documents


def objects_in(text: str, *, where: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the mappings of a manifest in the form of ``load_yaml``, each after its place; those in a list instead of the list.

    Raises DataError if a document cannot be read.
    """
    for document in split_documents(text, where=where):
        yield from objects_of(document, where=where)


def objects_of(document: Document, *, where: str = "") -> list[tuple[str, dict[str, Any]]]:
    """Return the same of one document of a manifest."""
    place, content = f"{where}:{document.first_line}", _content(document, where)
    try:
        return [(place, obj) for obj in _objects(content)]
    except ManifestError as error:
        error.where = f"{place}: {error.where}"
        raise


def _content(document: Document, where: str) -> Any:
    if document.text.lstrip().startswith("{"):  # JSON is also YAML, but is read much faster as JSON
        with suppress(DataError):
            return load_json(document.text)
    return load_yaml(document.text, where=where, line=document.line)


def _objects(content: Any) -> Iterator[dict[str, Any]]:
    if not isinstance(content, dict):
        return
    if not is_list(content):
        yield content
        return
    for item in items_of(content):
        yield from _objects(item)
