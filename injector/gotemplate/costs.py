"""What a call of a function takes, counted before it runs: steps and memory, by how much there is in its arguments.

A function in C or one that walks its arguments never looks at the budget. So each call pays beforehand for the longest that it can
take: a step is half a microsecond of a slow machine. Functions that are not in the table pay as those that walk and copy all of their
arguments.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from injector.gotemplate.budget import METER, reserve
from injector.gotemplate.errors import FuncError
from injector.gotemplate.values import Map, Pointer, Slice, Struct

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from injector.gotemplate.values import Func

_SHORT: Final = 64
"""Characters of a text that nothing is counted for."""
_TEXT: Final = 64
"""Bytes of a text beside its characters, and its place in a list."""
_AT_ONCE: Final = 500
"""Steps after which a walk through arguments is counted."""
_ENTRY: Final = 104
"""Bytes of an entry of a map."""
_FAILURES: Final = (ArithmeticError, AttributeError, LookupError, MemoryError, TypeError, ValueError)
"""What Python raises where Go's function panics: text/template makes an error of either (safeCall)."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What a call takes beside the few steps of any action.

    Attributes:
        once: steps of any call.
        characters: how many characters of its arguments take a step.
        item: steps of each value inside lists and maps of its arguments, however often they hold it; 0 if it does not look inside.
        deep: whether it looks at what is inside these values too.
        text_bytes: bytes that it uses for a character of its arguments.
        item_bytes: bytes that it uses for each value inside them.
        entry: bytes of an entry of the list or map that it returns; texts in it count beside.
        makes: whether what it returns is new, and no argument or part of one.
    """

    once: int = 0
    characters: int = 16
    item: int = 12
    deep: bool = True
    text_bytes: int = 8
    item_bytes: int = 80
    entry: int = 64
    makes: bool = True


_NOTHING: Final = Cost(characters=sys.maxsize, item=0, text_bytes=0, makes=False)
"""Takes no longer for more."""
_ANY: Final = Cost()
_SCAN: Final = Cost(characters=256, item=0, text_bytes=0)
"""Looks through texts, at the speed of C."""
_PASS: Final = replace(_SCAN, makes=False)
_COPY: Final = Cost(characters=128, item=0, text_bytes=2, entry=8)
"""Copies texts at the speed of C, or the entries of a list or map but not what is in them."""
_BY_CHARACTER: Final = Cost(characters=2, item=0, text_bytes=80)
"""Takes a text apart in Python."""
_WORDS: Final = Cost(characters=1, item=0, text_bytes=96)
_PARTS: Final = Cost(characters=16, item=4, deep=False, text_bytes=90, entry=8)
"""Makes a text of each part of a text, of which there may be one for each character."""
_NUMBERED: Final = replace(_PARTS, text_bytes=240)
_NUMBERS: Final = Cost(characters=16, item=0, text_bytes=4)
_DURATIONS: Final = replace(_NUMBERS, characters=1)
_PRINTED: Final = Cost(characters=32, item=0, text_bytes=4)
"""Prints; ``printing`` counts the values that it comes to."""
_LISTED: Final = Cost(characters=32, item=12, deep=False, text_bytes=4, item_bytes=64)
_QUOTED: Final = Cost(characters=1, item=0, text_bytes=12)
_JSON: Final = Cost(characters=64, item=16, text_bytes=6, item_bytes=80)
_READ_JSON: Final = Cost(characters=1, item=0, text_bytes=32)
_DATES: Final = Cost(once=40, characters=1, item=0, text_bytes=24)
_YAML: Final = Cost(characters=16, item=60, text_bytes=8, item_bytes=200)
_CONTAINERS: Final = Cost(characters=256, item=6, text_bytes=0, item_bytes=0)
_HASHED: Final = replace(_SCAN, once=60_000)
_DERIVED: Final = replace(_SCAN, once=90_000)
_NEW_KEY: Final = replace(_SCAN, once=4_000)
_CERTIFICATE: Final = Cost(once=30_000, item=100)
_NEW_CERTIFICATE: Final = replace(_CERTIFICATE, once=90_000)

_NAMES: Final[dict[Cost, str]] = {
    _NOTHING: """
        and or not call isset hasKey get all any empty default coalesce ternary typeOf typeIs typeIsLike kindOf kindIs valueOrDefault hello
        env first mustFirst last mustLast annotation kubevirtInterfaces excludeInterfaces plural isAbs osIsAbs otelResourceAttributes""",
    _PASS: "len index contains hasPrefix hasSuffix fail getHostByName dig eq ne lt le gt ge slice mustSlice",
    _SCAN: """
        trunc substr trim trimAll trimall trimSuffix trimPrefix sha1sum sha256sum sha512sum adler32sum base ext osBase osExt directory
        regexMatch mustRegexMatch regexFind mustRegexFind regexFindAll mustRegexFindAll regexSplit mustRegexSplit regexReplaceAll
        mustRegexReplaceAll regexReplaceAllLiteral mustRegexReplaceAllLiteral randInt uuidv4 now unixEpoch""",
    _COPY: """
        repeat indent nindent replace abbrev abbrevboth append mustAppend push mustPush prepend mustPrepend rest mustRest initial
        mustInitial reverse mustReverse concat list tuple dict set unset pick omit pluck values b64enc b64dec b32enc strdict mergeMaps
        until untilStep seq compact mustCompact chunk mustChunk randAlpha randAlphaNum randAscii randNumeric randBytes encryptAES
        decryptAES""",
    _BY_CHARACTER: """
        lower upper toLower title untitle nospace initials swapcase wrap wrapWith b32dec js regexQuoteMeta expandenv urlParse urlJoin""",
    _WORDS: "snakecase kebabcase camelcase",
    _PARTS: "splitList clean dir osClean osDir excludeInboundPort keys sortAlpha",
    _NUMBERED: "split splitn",
    _NUMBERS: """
        atoi int int64 float64 toDecimal add add1 sub div mod mul addf add1f subf divf mulf biggest max min maxf minf ceil floor
        round""",
    _DURATIONS: "duration durationRound dateModify date_modify mustDateModify must_date_modify formatDuration",
    _PRINTED: "print printf println html urlquery toString cat squote",
    _LISTED: "join toStrings",
    _QUOTED: "quote shuffle",
    _JSON: """
        toJson toRawJson toPrettyJson mustToJson mustToRawJson mustToPrettyJson toJSON toJsonMap structToJSON protoToJSON""",
    _READ_JSON: "fromJson mustFromJson fromJSON appendMultusNetwork semver semverCompare",
    _YAML: "toYaml",
    _DATES: "date dateInZone date_in_zone htmlDate htmlDateInZone toDate mustToDate ago",
    _CONTAINERS: "applicationPorts includeInboundPorts",
    _HASHED: "bcrypt htpasswd",
    _DERIVED: "derivePassword",
    _NEW_KEY: "genPrivateKey",
    _NEW_CERTIFICATE: "genCA genSelfSignedCert genSignedCert",
    _CERTIFICATE: "genCAWithKey genSelfSignedCertWithKey genSignedCertWithKey buildCustomCert",
}
_COSTS: Final[dict[str, Cost]] = {name: cost for cost, names in _NAMES.items() for name in names.split()}


def cost_of(name: str) -> Cost:
    """Return what a call of the function of that name takes."""
    return _COSTS.get(name, _ANY)


def metered(func: Func) -> Func:
    """Return a function that counts what it takes before it runs, and what it returns.

    It raises ``FuncError`` for whatever else fails in it, and ``failures.Spent`` where the rendering has not enough left.
    """
    function, cost = func.call, cost_of(func.name)
    if cost is _NOTHING:
        return func
    looks_inside, longest, makes = cost.item > 0, -1 if cost.once else _SHORT, cost.makes

    def call(*args: Any) -> Any:
        for value in args:
            if isinstance(value, str):
                if len(value) > longest:
                    _charge(args, cost)
                    break
            elif looks_inside and value.__class__ not in _SCALARS:
                _charge(args, cost)
                break
        try:
            result = function(*args)
        except _FAILURES as error:
            raise FuncError(f"{type(error).__name__}: {error}") from error
        kind = result.__class__
        if makes and (len(result) > _SHORT if kind is str else kind not in _SCALARS):
            grown = bool(args) and result is args[0]
            reserve(_ENTRY if grown else _size_of(result, cost))
        return result

    return replace(func, call=call)


_SCALARS: Final = frozenset({bool, int, float, type(None)})


def _charge(values: tuple[Any, ...], cost: Cost) -> None:
    """Count what a call takes, as it is found: what is inside itself, or in many places, never ends."""
    meter = METER.get()
    if meter is None:
        return
    steps, size = cost.once, 0
    looks_inside = cost.item > 0
    level: Sequence[Any] = values
    while level:
        found: list[Any] = []
        for value in level:
            if isinstance(value, str):
                steps += len(value) // cost.characters
                size += len(value) * cost.text_bytes
            elif looks_inside:
                inner = _inside(value)
                steps += len(inner) * cost.item
                size += len(inner) * cost.item_bytes
                found += inner
            if steps > _AT_ONCE:
                meter.spend(steps)
                meter.reserve(size)
                steps = size = 0
        level, looks_inside = found, looks_inside and cost.deep
    meter.spend(steps)
    meter.reserve(size)


_LOOKS: Final[dict[type, Callable[[Any], Sequence[Any]]]] = {}
"""How to look inside the values of each class that was met; asking what a value is takes longer."""


def _inside(value: Any) -> Sequence[Any]:
    look = _LOOKS.get(value.__class__)
    if look is None:
        look = _LOOKS[value.__class__] = _look_at(value)
    return look(value)


def _look_at(value: Any) -> Callable[[Any], Sequence[Any]]:
    if isinstance(value, list):
        return lambda items: items
    if isinstance(value, dict):
        return lambda entries: [*entries.keys(), *entries.values()]
    if isinstance(value, Pointer):
        return lambda pointer: () if pointer.target is None else (pointer.target,)
    return (lambda struct: (struct.parts(),)) if isinstance(value, Struct) else (lambda _scalar: ())


def _size_of(value: Any, cost: Cost) -> int:
    """Return the bytes of a result, which what it holds of the arguments is no part of."""
    if isinstance(value, str):
        return _TEXT + (len(value) if value.isascii() else 4 * len(value))
    if isinstance(value, list | dict):
        texts = value if isinstance(value, Slice) else value.values() if isinstance(value, Map) else ()
        return len(value) * (_ENTRY if isinstance(value, dict) else cost.entry) + sum(
            _TEXT + len(text) for text in texts if isinstance(text, str)
        )
    return 0
