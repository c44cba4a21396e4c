"""Overlays: the YAML that a template renders, read block by block, and laid over an object.

Most of a rendered text is the same for every pod: probes, mounts, security contexts, most variables. So a text is split into blocks,
and each block is read once: parsed, without the fields that the type does not have, and as Go writes it (``typed``).

Where a text may be split follows from YAML's scanner (libyaml's scanner.c). Lines of a block collection that begin at its column begin
its entries. If such an entry parses when it stands alone, the scanner is in the same state after it as after the entry in its place:
every scalar and every flow collection has ended. So a collection is what its entries are, read one by one. Entries that do not look
like ``KEY:`` or ``- `` are not split, and a text whose parts do not parse alone is read as a whole.

Many texts differ only in the values of some strings, such as the name of the workload. The first of them is read in blocks. In the
others these values are found, and put into a copy of the result (``_Form``).

The result, with the errors, is always that of ``load_yaml`` and ``strategic_merge``.
"""

from __future__ import annotations

import math
import re
import sys
from dataclasses import dataclass
from functools import cache
from operator import is_
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

from injector.errors import DataError
from injector.kube.strategicpatch import (
    field_meta,
    list_meta,
    merge_by_order,
    partition,
    strategic_merge,
    without_directives,
)
from injector.kube.typed import (
    always_written,
    drops_empty,
    is_struct,
    normalise,
    prune,
    struct_type,
    underlying,
    zero_json,
)
from injector.kube.yaml.read import load_yaml, read_part, resolve_plain
from injector.memo import Memo

if TYPE_CHECKING:
    from collections.abc import Mapping
    from collections.abc import Set as AbstractSet

    from injector.kube.strategicpatch import ListMeta
    from injector.kube.typed import FieldName

Object: TypeAlias = dict[str, Any]

_BLOCKS: Final = 8_192
_CHARACTERS: Final = 512 << 10
"""The maximum number of blocks to hold, and of characters in them. The result of a text takes about eight times its length."""
_LONGEST_TEXT: Final = 64 << 10
"""Characters of a text that is split. Istio's largest have 12 Ki; a longer one could take long to split, level by level."""
_LONGEST_BLOCK: Final = 4_096
"""Characters of a block that is held. Longer ones hardly repeat: they contain the names of one pod."""
_MOST_COLUMNS: Final = 40
"""Blocks further to the right are not split, which bounds the depth."""
_KEY_TEXT: Final = r"[A-Za-z_][A-Za-z0-9_./-]{0,200}"
_INNER: Final = r"A-Za-z0-9_./$()@%=+~*!|<>?^-"
_COLON: Final = r":(?![ \n]|\Z)"
# Without alternatives in a repetition, which take three times as long.
_PLAIN: Final = rf"[A-Za-z0-9_./$(+][{_INNER}]*+(?:{_COLON}[{_INNER}]*+)*"
_DOUBLE: Final = r"[ !#-\[\]-~]*+"
_SINGLE: Final = r"[ -&(-~]*+"
# Control characters are not allowed in a comment; a text with one has to be read as a whole.
_COMMENT: Final = r"#[ -~\u00a0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]*"
_UNSPLIT: Final = ("\t", "\r", "\x85", "\u2028", "\u2029", "\ufeff")
"""Tabs, line breaks of YAML beside the line feed, and what may begin a document."""
_MOST_FORMS: Final = 256
"""The maximum number of forms to hold."""
_QUOTED: Final = re.compile(rf': "([A-Za-z]{_DOUBLE})(?=")')
"""A text in double quotes on the line of its key. It begins with a letter, so it is not a quantity."""
_URL: Final = re.compile(r": ([a-z]++://[A-Za-z0-9._/-]++)(?=\n)")
"""A URL without quotes, such as the owner of the pod in the variable ISTIO_META_OWNER."""
_MARK: Final = "mark://"
"""The beginning of a mark. A mark is also a URL, so it can stand in both kinds of slots."""
_FIRST: Final = re.compile(r"^( *)([^ \n#])", re.MULTILINE)
_KEY: Final = re.compile(rf" *({_KEY_TEXT}):(?: +|(?=\n)|\Z)")
_BLANK: Final = re.compile(rf" *(?:{_COMMENT})?(?:\n *(?:{_COMMENT})?)*")
_SCALAR: Final = re.compile(
    rf" *(?:\"(?P<double>{_DOUBLE})\"|'(?P<single>{_SINGLE})'|(?P<plain>{_PLAIN})) *(?:\n *(?:{_COMMENT})?)*"
)
"""A scalar on one line, with nothing but blank lines and comments after it."""


@dataclass(frozen=True, slots=True)
class Overlay:
    """A partial object, to be merged over an object of the Go type ``type_name``.

    ``tree`` is the JSON data, without the fields that the type does not have. Nothing may change it. ``normal`` is the tree merged over
    nothing, as Go writes it; None if it needs ``strategic_merge``, for example because of directives.
    """

    tree: Object
    type_name: str
    normal: Object | None = None

    def merge_over(self, original: Object) -> Object:
        """Return a normalised object with the overlay merged into it by ``strategic_merge``. Raises ManifestError if the two do not fit."""
        if self.normal is not None:
            if not original:
                return self.normal
            try:
                return _merge(original, self.tree, self.normal, self.type_name)
            except (_WholeError, DataError):
                pass
        result = without_directives(strategic_merge(original, self.tree, self.type_name), self.type_name)
        merged: Object = normalise(result, self.type_name)
        return merged


def read_overlay(
    text: str, type_name: str, missing: AbstractSet[FieldName] | None, *, where: str = "", most: int = sys.maxsize
) -> Overlay | None:
    """Read an overlay of a Go type such as ``v1.Pod``; None if it is not a mapping. Raises ManifestError as ``load_yaml`` does.

    ``missing`` are fields to leave out beside those that the type does not have; None leaves out nothing at all. ``most`` is how many
    values the text may have.
    """
    shape = _shape(type_name, missing)
    read = _by_form(shape, text) or _in_blocks(shape, text)
    if read is not None and type(read[0]) is dict and read[2] < most:
        return Overlay(read[0], type_name, read[1])
    tree = load_yaml(text, where=where, most=most)
    if tree is None:
        tree = {}
    if type(tree) is not dict:
        return None
    return Overlay(tree if missing is None else prune(tree, type_name, missing), type_name)


def _in_blocks(shape: _Shape, text: str) -> _Read | None:
    """Read a text block by block; None if it has to be read as a whole."""
    if len(text) > _LONGEST_TEXT or any(mark in text for mark in (_UNSPLIT[:2] if text.isascii() else _UNSPLIT)):
        return None
    try:
        read = _block(shape, text.removesuffix("\n"))
    except (_WholeError, _PartError, DataError):
        return None
    if not text.endswith("\n") and _ends_line(read[0]):
        return None
    return ({}, {}, read[2]) if read[0] is None else read


class _WholeError(Exception):
    """The text has to be read as a whole."""


class _PartError(Exception):
    """The block cannot be split: the entry around it is parsed as it is.

    A block of which a part was read already is ``_WholeError`` instead, so that no text is parsed for each level of its blocks.
    """


_DROPPED: Final[Any] = object()
"""Stands for a value that is left out."""

_Read: TypeAlias = tuple[Any, Any, int]
"""A value, what Go writes for it, and how many values it consists of."""
_Entry: TypeAlias = tuple[str, Any, Any, int]
"""The same of an entry of a mapping, with its key."""


class _Shape:
    """How values of a type are read; ``kind`` is ``struct``, ``map``, ``list``, or the Go type of a scalar.

    Of a struct, ``fields`` has the type of each field and whether Go drops its empty value, and ``always`` the values that Go writes
    unasked. Of a map or list, ``element`` is the type of what is in it.
    """

    __slots__ = ("always", "element", "fields", "kind", "missing", "type_name")

    def __init__(self, type_name: str, missing: AbstractSet[FieldName] | None) -> None:
        self.type_name = type_name.removeprefix("*")
        self.missing = missing
        self.fields: dict[str, tuple[str, bool]] = {}
        self.always: Mapping[str, Any] = {}
        self.element = ""
        base = underlying(self.type_name)
        if is_struct(self.type_name):
            self.kind = "struct"
            struct = struct_type(self.type_name)
            self.fields = {field.json: (field.type, drops_empty(field)) for field in struct.by_json.values()}
            self.always = always_written(struct)
        elif base.startswith(("[]", "map[")):
            self.kind = "list" if base.startswith("[]") else "map"
            self.element = base.partition("]")[2]
        else:
            self.kind = base

    def of_element(self) -> _Shape:
        """Return the shape of the elements."""
        return _shape(self.element, self.missing)

    def of_field(self, key: str) -> _Shape | None:
        """Return the shape of the value of a key; None for a key that is left out.

        Raises _WholeError for a directive, for a key that is spelled as no field is, and for one that is unknown and stays.
        """
        if key[:1] == "$":
            raise _WholeError
        if self.kind == "map":
            return self.of_element()
        if key in self.fields:
            if self.missing is not None and (self.type_name, key) in self.missing:
                return None
            return _shape(self.fields[key][0], self.missing)
        if self.missing is None or struct_type(self.type_name).json_field(key) is not None:
            raise _WholeError
        return None


@cache
def _shape(type_name: str, missing: AbstractSet[FieldName] | None) -> _Shape:
    return _Shape(type_name, missing)


_READ: Final[Memo[tuple[_Shape, str], Any]] = Memo(_BLOCKS, _CHARACTERS, lambda key: len(key[1]))
"""Entries of mappings and items of lists, by the shape of the mapping or of the item and by their text."""


# --- texts that differ only in slots


class _Form(NamedTuple):
    """A way to make the reading of a text, of ``size`` values, from the values of its slots.

    ``holders`` are the mappings and lists around slots, inner ones first, each with its keys or indexes of slots and other holders. These
    are numbered, first the slots and then the holders. ``value`` is the number of the holder around all slots, ``normal`` that of its form
    as Go writes it.
    """

    holders: list[tuple[Any, list[tuple[Any, int]]]]
    value: int
    normal: int
    size: int

    def fill(self, values: list[Any]) -> _Read:
        """Return the reading with these values in the slots."""
        for holder, places in self.holders:
            copy = holder.copy()
            for key, number in places:
                copy[key] = values[number]
            values.append(copy)
        return values[self.value], values[self.normal], self.size


_FORMS: Final[Memo[tuple[_Shape, bool, tuple[str, ...]], _Form | Literal["once", "unfit"]]] = Memo(
    _MOST_FORMS, _CHARACTERS, lambda key: sum(map(len, key[2]))
)
"""Forms by shape, whether there is a URL among the slots, and the text around the slots. ``unfit`` is a form that cannot be filled."""


def _by_form(shape: _Shape, text: str) -> _Read | None:
    """Read a text by its form; None if its form occurs for the first time or cannot be filled.

    The slots are texts in double quotes, and the first URL. The form is made for its second text: many forms occur only once.
    """
    if len(text) > _LONGEST_TEXT:
        return None
    url = _URL.match(text, max(text.rfind(": ", 0, text.find("://")), 0))
    if url is not None:
        text = f"{text[: url.start(1)]}://{text[url.end(1) :]}"
    parts = _QUOTED.split(text)
    values = parts[1::2]
    key = shape, url is not None, tuple(parts[::2])
    form = _FORMS.find(key)
    if form is None:
        _FORMS.keep(key, "once")
        return None
    if form == "once":
        form = _form(shape, text, len(values), has_url=url is not None) or "unfit"
        _FORMS.keep(key, form)
    if not isinstance(form, _Form):
        return None
    if url is not None:
        values.append(url[1])
    return form.fill(values)


def _form(shape: _Shape, text: str, quoted: int, *, has_url: bool) -> _Form | None:
    """Return the form of a text; None if a slot is not all of a string.

    Each slot gets a mark, which is a value like any other. If a mark is all of a string in what is read, its slot is a scalar, not a
    part of a comment, of a key or of another scalar. Any other value is a scalar of the same style on the same line, so YAML's scanner is
    in the same state after it, it is text by YAML's rules, and Go writes the string as it is.
    """
    marks = {f"{_MARK}{number}": number for number in range(quoted + has_url)}
    names = iter(marks)
    marked = _QUOTED.sub(lambda _: f': "{next(names)}', text.replace("://", f"{_MARK}{quoted}", 1) if has_url else text)
    read = _in_blocks(shape, marked) if marked.count(_MARK) == len(marks) else None
    if read is None:
        return None
    holders: list[tuple[Any, list[tuple[Any, int]]]] = []
    numbers: dict[int, int | None] = {}
    found_numbers: set[int] = set()

    def number_of(shape: _Shape | None, value: Any) -> int | None:
        """Return the number of a slot, or of a mapping or list with slots in it; None for others."""
        if shape is None or type(value) not in (str, dict, list):
            return None
        if type(value) is str:
            return marks.get(value) if shape.kind == "string" else None
        if id(value) not in numbers:
            is_object = type(value) is dict
            entries: Any = value.items() if is_object else enumerate(value)
            places = []
            for key, item in entries:
                number = number_of(shape.of_field(key) if is_object else shape.of_element(), item)
                if number is not None:
                    places.append((key, number))
            found_numbers.update(number for _, number in places)
            if places:
                holders.append((value, places))
            numbers[id(value)] = len(marks) + len(holders) - 1 if places else None
        return numbers[id(value)]

    value, normal = (number_of(shape, side) for side in read[:2])
    if value is None or normal is None or not found_numbers.issuperset(marks.values()):
        return None
    return _Form(holders, value, normal, read[2])


# --- reading


def _block(shape: _Shape, text: str) -> _Read:
    """Read the lines of one block node."""
    first = _FIRST.search(text)
    if first is None:
        if not _BLANK.fullmatch(text):
            raise _PartError
        return None, None, 1
    column = len(first[1])
    if column > _MOST_COLUMNS or first[2] in "}]":
        raise _PartError
    before, *parts = _boundary(column).split("\n" + text)
    if not _BLANK.fullmatch(before):
        raise _PartError
    if first[2] == "-":
        if shape.kind != "list":
            raise _PartError
        return _items(shape, parts, column)
    if shape.kind not in ("struct", "map"):
        raise _PartError
    return _mapping(shape, parts, column)


@cache
def _boundary(column: int) -> re.Pattern[str]:
    """Match the line feeds before entries: before lines that do not begin to the right of a column.

    Comments, and a line that closes a flow collection, belong to the entry before them.
    """
    # Python's ``re`` fails at the first character of a longer indentation without a repetition, which takes long to set up.
    return re.compile(rf"\n(?!{' ' * (column + 1)})(?= *+[^ \n#}}\]])" if column else r"\n(?=[^ \n#}\]])")


def _ends_line(value: Any) -> bool:
    """Return whether the last text in a value ends with a line feed, which it may have from the end of its block."""
    while value and type(value) in (dict, list):
        value = value[-1] if type(value) is list else value[next(reversed(value))]
    return type(value) is str and value.endswith("\n")


def _mapping(shape: _Shape, parts: list[str], column: int) -> _Read:
    indent = " " * column
    entries: list[_Entry] = []
    last = ""
    items: list[str] = []
    has_read = False
    find = _READ.find
    try:
        for part in parts:
            if not part.startswith(indent):
                raise _PartError  # noqa: TRY301 -- where it is caught, the entries that were read are known
            if part[column] == "-":
                items.append(part)
                continue
            if items:
                entries[-1:] = [_list_entry(shape, last, items, column)]
                items = []
            entry: _Entry | None = find((shape, part)) if len(part) <= _LONGEST_BLOCK else None
            if entry is None:
                entry = _entry(shape, part)
                has_read = True
            entries.append(entry)
            last = part
        if items:
            entries[-1:] = [_list_entry(shape, last, items, column)]
    except _PartError:
        if has_read:
            raise _WholeError from None
        raise
    return _assemble(shape, entries)


def _list_entry(shape: _Shape, head: str, items: list[str], column: int) -> _Entry:
    """Read an entry whose value is a list at the column of the key."""
    match = _KEY.match(head)
    if match is None or not _BLANK.fullmatch(head, match.end()):
        raise _PartError
    child = shape.of_field(match[1])
    if child is None or child.kind != "list":
        raise _WholeError
    return _type_entry(shape, match[1], *_items(child, items, column))


def _entry(shape: _Shape, part: str) -> _Entry:
    match = _KEY.match(part)
    if match is None:
        raise _PartError
    key, end = sys.intern(match[1]), match.end()  # equal keys are found faster if they are one object
    if type(resolve_plain(key)) is not str:
        raise _PartError
    child = shape.of_field(key)
    read: _Read | None = None
    if child is not None:
        try:
            read = (
                _on_the_line(child, part, end)
                if part[end : end + 1] not in ("", "\n", "#")
                else _block(child, part[end:])
            )
        except _PartError:
            read = None
    if read is None:
        value, size = read_part(part + "\n")
        if type(value) is not dict or list(value) != [key]:
            raise _WholeError
        read = (*_type_value(child, value[key]), size - 2)
    entry = _type_entry(shape, key, *read)
    if len(part) <= _LONGEST_BLOCK:
        _READ.keep((shape, part), entry)
    return entry


def _type_entry(shape: _Shape, key: str, value: Any, normal: Any, size: int) -> _Entry:
    if value is None or normal is None:
        if shape.kind == "map":
            raise _WholeError
        normal = _DROPPED
    elif shape.kind == "struct" and not normal and key in shape.fields and shape.fields[key][1]:
        normal = _DROPPED
    return key, value, normal, size + 1


def _items(shape: _Shape, parts: list[str], column: int) -> _Read:
    element = shape.of_element()
    indent = " " * column + "-"
    find = _READ.find
    value: list[Any] = []
    normal: list[Any] = []
    size = 1
    has_read = False
    for part in parts:
        if not part.startswith(indent):
            raise _WholeError if has_read else _PartError
        read: _Read | None = find((element, part))
        if read is None:
            if part[column + 1 : column + 2] not in ("", " ", "\n"):
                raise _WholeError if has_read else _PartError
            read = _item(element, part, column)
            has_read = True
            if len(part) <= _LONGEST_BLOCK:
                _READ.keep((element, part), read)
        value.append(read[0])
        normal.append(read[1])
        size += read[2]
    return value, value if all(map(is_, value, normal)) else normal, size


def _item(element: _Shape, part: str, column: int) -> _Read:
    try:
        if element.kind in ("struct", "map", "list"):
            return _of_list(element, *_block(element, f"{part[:column]} {part[column + 1 :]}"))
        return _of_list(element, *_on_the_line(element, part, column + 1))
    except _PartError:
        value, size = read_part(part + "\n")
        if type(value) is not list or len(value) != 1:
            raise _WholeError from None
        return _of_list(element, *_type_value(element, value[0]), size - 1)


def _of_list(element: _Shape, value: Any, normal: Any, size: int) -> _Read:
    return value, zero_json(element.type_name) if value is None else normal, size


def _on_the_line(shape: _Shape, part: str, start: int) -> _Read:
    """Read a scalar that begins on the line of a key or dash, with nothing after it."""
    match = _SCALAR.fullmatch(part, start)
    if match is None:
        raise _PartError
    kind = match.lastgroup or ""
    text = match[kind]
    value = resolve_plain(text) if kind == "plain" else text
    if type(value) is float and not math.isfinite(value):
        raise _WholeError
    return (*_type_value(shape, value), 1)


# --- values by their types


def _type_value(shape: _Shape | None, value: Any) -> tuple[Any, Any]:
    """Return a value without the fields that the type does not have, and what Go writes for it."""
    if shape is None:
        return _DROPPED, _DROPPED
    if value is None:
        return None, None
    kind = type(value)
    if kind is dict and shape.kind in ("struct", "map"):
        entries = [_type_entry(shape, key, *_type_value(shape.of_field(key), item), 0) for key, item in value.items()]
        return _assemble(shape, entries)[:2]
    if kind is list and shape.kind == "list":
        element = shape.of_element()
        read = [_of_list(element, *_type_value(element, item), 0) for item in value]
        return [pair[0] for pair in read], [pair[1] for pair in read]
    if kind is dict or kind is list:
        raise _WholeError
    return value, value if kind is str and shape.kind == "string" else normalise(value, shape.type_name)


def _assemble(shape: _Shape, entries: list[_Entry]) -> _Read:
    """Return the mapping of some entries."""
    value: Object = {}
    normal: Object = {}
    size = 1
    dropped = 0
    for key, item, as_written, count in entries:
        size += count
        if item is _DROPPED:
            dropped += 1
            continue
        value[key] = item
        if as_written is not _DROPPED:
            normal[key] = as_written
    if len(value) + dropped != len(entries):
        raise _WholeError  # a key that repeats
    if shape.always and not shape.always.keys() <= normal.keys():
        normal = {**shape.always, **normal}
    elif len(normal) == len(value) and all(map(is_, normal.values(), value.values())):
        normal = value
    return value, normal, size


# --- merging


def _merge(original: Object, tree: Object, normal: Object, type_name: str) -> Object:
    """Merge an overlay into an object of a struct or map type, both in normal form where that is known."""
    shape = _shape(type_name, None)
    result = dict(original)
    for key, item in tree.items():
        new = normal.get(key, _DROPPED)
        old = result.get(key)
        kind = type(item)
        if kind is dict and type(old) is dict:
            meta = field_meta(type_name, key)
            if meta.strategy != "replace":
                new = _merge(old, item, {} if new is _DROPPED else new, meta.type) if item else old
        elif kind is list and type(old) is list:
            list_of = list_meta(type_name, key)
            if list_of.strategy == "merge":
                new = _merge_list(old, item, [] if new is _DROPPED else new, list_of)
        if new is not _DROPPED:
            result[key] = new
        elif key in shape.always:
            raise _WholeError
        else:
            result.pop(key, None)
    return result


_NAME_TYPES: Final = frozenset((str, int))


def _merge_list(original: list[Any], tree: list[Any], normal: list[Any], meta: ListMeta) -> list[Any]:
    """Merge lists of objects by their merge key."""
    key = meta.merge_key
    if not key:
        raise _WholeError
    try:
        ours = [item[key] for item in tree]
        theirs = {item[key]: place for place, item in enumerate(original)}
    except (KeyError, TypeError) as error:
        raise _WholeError from error
    if not _NAME_TYPES.issuperset(map(type, ours)) or not _NAME_TYPES.issuperset(map(type, theirs)):
        raise _WholeError
    if len(set(ours)) < len(ours) or len(theirs) < len(original):
        raise _WholeError
    if theirs.keys().isdisjoint(ours):
        return [*normal, *original]
    merged = list(original)
    for name, item, new in zip(ours, tree, normal, strict=True):
        place = theirs.get(name)
        if place is None:
            merged.append(new)
        else:
            merged[place] = _merge(merged[place], item, new, meta.type)
    inside, outside = partition(merged, tree, key)
    return merge_by_order(inside, outside, tree, original, key)
