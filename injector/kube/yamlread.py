"""YAML read as Go's sigs.k8s.io/yaml (v1.6.0) reads it: libyaml's parser, go-yaml v2's types, JSON's values.

go-yaml resolves plain scalars by its own table (go.yaml.in/yaml/v2 resolve.go), and sigs.k8s.io/yaml turns the result into JSON:
keys become strings, timestamps stay the text they were, what JSON cannot hold is an error.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
import struct
from typing import Any, Final

import yaml

from injector.errors import ManifestError

_BINARY: Final = "tag:yaml.org,2002:binary"
_PREFIX: Final = "tag:yaml.org,2002:"
_NON_SPECIFIC: Final = "!"
_PLAIN: Final = "plain"
_QUOTED: Final = "quoted"

_NAMED: Final[dict[str, Any]] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
}
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", re.ASCII)
_DOT_FLOAT = re.compile(r"\.[0-9](_?[0-9])*([eE][-+]?[0-9]+)?", re.ASCII)
_BASES: Final = (
    (re.compile(r"[-+]?0[xX][0-9a-fA-F]+", re.ASCII), 16),
    (re.compile(r"[-+]?0[bB][01]+", re.ASCII), 2),
    (re.compile(r"[-+]?0[oO]?[0-7]+", re.ASCII), 8),
    (re.compile(r"[-+]?[0-9]+", re.ASCII), 10),
)
_TIMESTAMP = re.compile(
    r"[0-9]{4}-(?P<month>[0-9]{1,2})-(?P<day>[0-9]{1,2})"
    r"([Tt][0-9]{1,2}:[0-9]{1,2}:[0-9]{1,2}(\.[0-9]+)?(Z|[-+][0-9]{2}:[0-9]{2})| [0-9]{1,2}:[0-9]{1,2}:[0-9]{1,2}(\.[0-9]+)?)?",
    re.ASCII,
)
_INT64: Final = 2**63
_UINT64: Final = 2**64
# go-yaml stops at this nesting (yaml.v2 parserc.go, max_flow_level and max_indents); Python's own stack ends long before, so the
# walk is bounded lower: no Kubernetes object nests deeper.
_MAX_DEPTH: Final = 200
# go-yaml decodes at most this many nodes while the share that comes from aliases is excessive (decode.go, allowedAliasRatio).
_ALIAS_FLOOR: Final = 400_000
_ALIAS_CEILING: Final = 4_000_000


class _Parser(yaml.cyaml.CParser):  # type: ignore[misc]
    """libyaml's composer; the resolver methods leave every decision to ``_Builder``."""

    def resolve(self, kind: type, value: str | None, implicit: Any) -> str:
        """Tell plain scalars from quoted ones; collections keep the default tag."""
        del value
        if kind is not yaml.ScalarNode:
            return ""
        return _PLAIN if implicit[0] else _QUOTED

    def ascend_resolver(self) -> None:
        """Nothing to leave: tags do not depend on the path."""

    def descend_resolver(self, current_node: Any, current_index: Any) -> None:
        """Nothing to enter: tags do not depend on the path."""


def load_yaml(text: str | bytes, *, where: str = "") -> Any:
    """Return the first document of ``text`` as JSON data; None where there is none.

    Integers beyond 64 bits are floats, dates are strings, keys are strings. ``where`` names the source in errors.

    Raises:
        ManifestError: it is no YAML, or YAML that has no JSON form; with the line.
    """
    try:
        parser = _Parser(text)
        try:
            node = parser.get_node() if parser.check_node() else None
        finally:
            parser.dispose()
    except yaml.YAMLError as error:
        raise _syntax_error(error, where) from error
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        raise ManifestError("it is not YAML text", where=where, hint="save it as UTF-8") from error
    return None if node is None else _Builder(where).value(node, 0)


def _syntax_error(error: yaml.YAMLError, where: str) -> ManifestError:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error).splitlines()[0]
    line = f"line {mark.line + 1}: " if mark is not None else ""
    return ManifestError(f"yaml: {line}{problem}", where=where, hint="correct the YAML")


class _Builder:
    """Builds JSON data from composed nodes and counts what aliases add."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.decoded = 0
        self.aliased = 0
        self.open: set[int] = set()
        self.seen: set[int] = set()
        self.inside_alias = 0

    def error(self, node: yaml.Node, problem: str, hint: str = "correct the YAML") -> ManifestError:
        line = node.start_mark.line + 1
        return ManifestError(f"yaml: line {line}: {problem}", where=self.where, hint=hint)

    def value(self, node: yaml.Node, depth: int) -> Any:
        if isinstance(node, yaml.ScalarNode):
            self.decoded += 1
            self.aliased += bool(self.inside_alias)
            return self.json_scalar(node)
        identity = id(node)
        if identity in self.open:
            raise self.error(node, "an anchor contains itself")
        if depth >= _MAX_DEPTH:
            raise self.error(node, "exceeded max depth", "nest less deeply")
        self.count(node, repeated=identity in self.seen)
        alias = identity in self.seen
        self.inside_alias += alias
        self.open.add(identity)
        built = self.sequence(node, depth) if isinstance(node, yaml.SequenceNode) else self.mapping(node, depth)
        self.open.discard(identity)
        self.seen.add(identity)
        self.inside_alias -= alias
        return built

    def count(self, node: yaml.Node, *, repeated: bool) -> None:
        self.decoded += 1
        self.aliased += bool(self.inside_alias or repeated)
        if self.aliased > 100 and self.decoded > 1000 and self.aliased / self.decoded > _allowed_ratio(self.decoded):  # noqa: PLR2004 - go-yaml's own figures
            raise self.error(node, "document contains excessive aliasing", "write the repeated parts out")

    def sequence(self, node: yaml.SequenceNode, depth: int) -> list[Any]:
        return [self.value(item, depth + 1) for item in node.value]

    def mapping(self, node: yaml.MappingNode, depth: int) -> dict[str, Any]:
        built: dict[str, Any] = {}
        merged: list[yaml.Node] = []
        for key_node, value_node in node.value:
            if _is_merge(key_node):
                merged.append(value_node)
                continue
            key = self.key(key_node)
            if key in built:
                raise self.error(key_node, f'key "{key}" already set in map', "give each key once")
            built[key] = self.value(value_node, depth + 1)
        for merge in merged:
            for key, value in self.merged(merge, depth).items():
                built.setdefault(key, value)
        return built

    def merged(self, node: yaml.Node, depth: int) -> dict[str, Any]:
        sources = node.value if isinstance(node, yaml.SequenceNode) else [node]
        found: dict[str, Any] = {}
        for source in sources:
            if not isinstance(source, yaml.MappingNode):
                raise self.error(node, "map merge requires map or sequence of maps as the value")
            for key, value in self.value(source, depth + 1).items():
                found.setdefault(key, value)
        return found

    def key(self, node: yaml.Node) -> str:
        if not isinstance(node, yaml.ScalarNode):
            raise self.error(node, "invalid map key", "make it a string")
        key = self.scalar(node)
        if isinstance(key, str):
            return key
        if key is None:
            raise self.error(node, "unsupported map key: null", "quote the key")
        if isinstance(key, bool):
            return "true" if key else "false"
        if isinstance(key, int):
            if key >= _INT64:
                raise self.error(node, "unsupported map key of type: uint64", "quote the key")
            return str(key)
        return _float_key(key)

    def json_scalar(self, node: yaml.ScalarNode) -> Any:
        value = self.scalar(node)
        if isinstance(value, float) and not math.isfinite(value):
            raise self.error(node, f"json: unsupported value: {_go_non_finite(value)}", "quote it to make it a string")
        return value

    def scalar(self, node: yaml.ScalarNode) -> Any:
        tag, text = node.tag, node.value
        if tag == _PLAIN:
            return resolve_plain(text)
        if tag in (_QUOTED, _NON_SPECIFIC):
            return text
        return self.tagged(node, tag, text)

    def tagged(self, node: yaml.ScalarNode, tag: str, text: str) -> Any:
        if tag == _BINARY:
            try:
                return base64.b64decode(text, validate=False).decode("utf-8", "replace")
            except (binascii.Error, ValueError) as error:
                raise self.error(node, "!!binary value contains invalid base64 data") from error
        kinds = _TAGGED.get(tag.removeprefix(_PREFIX))
        if not tag.startswith(_PREFIX) or kinds is None or str in kinds:
            return text
        value = resolve_plain(text)
        if float in kinds and type(value) is int:
            value = float(value)
        if type(value) not in kinds:
            raise self.error(node, f"cannot decode `{text}` as a !!{tag.removeprefix(_PREFIX)}")
        return value


_TAGGED: Final[dict[str, tuple[type, ...]]] = {
    "str": (str,),
    "bool": (bool,),
    "int": (int,),
    "float": (float,),
    "null": (type(None),),
    "timestamp": (str,),
}


def _is_merge(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.value == "<<" and node.tag in (_PLAIN, _PREFIX + "merge", _NON_SPECIFIC)


def _allowed_ratio(decoded: int) -> float:
    if decoded <= _ALIAS_FLOOR:
        return 0.99
    if decoded >= _ALIAS_CEILING:
        return 0.10
    return 0.99 - 0.89 * (decoded - _ALIAS_FLOOR) / (_ALIAS_CEILING - _ALIAS_FLOOR)


def _go_non_finite(value: float) -> str:
    return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"


def _float_key(value: float) -> str:
    """Return a float key as Go's strconv.FormatFloat(v, 'g', -1, 32) prints it: the shortest text of the nearest float32."""
    if not math.isfinite(value):
        return {"NaN": ".nan", "+Inf": ".inf", "-Inf": "-.inf"}[_go_non_finite(value)]
    try:
        single = struct.unpack("f", struct.pack("f", value))[0]
    except OverflowError:
        return ".inf" if value > 0 else "-.inf"
    digits = next(text for n in range(1, 18) if struct.pack("f", float(text := f"{single:.{n - 1}e}")) == struct.pack("f", single))
    mantissa, _, exponent = digits.partition("e")
    power = int(exponent)
    significant = len(mantissa.replace("-", "").replace(".", ""))
    limit = 21 if significant <= 21 else significant  # noqa: PLR2004 - Go's %e threshold of the shortest form
    if power < -4 or power >= limit:  # noqa: PLR2004 - the same
        return f"{mantissa}e{'-' if power < 0 else '+'}{abs(power):02d}"
    return f"{float(digits):.{max(significant - 1 - power, 0)}f}"


def is_timestamp(text: str) -> bool:
    """Return whether go-yaml takes a plain scalar for a date, which it quotes when it writes it as a string."""
    match = _TIMESTAMP.fullmatch(text)
    return match is not None and 1 <= int(match["month"]) <= 12 and 1 <= int(match["day"]) <= 31  # noqa: PLR2004 - a calendar


def resolve_plain(text: str) -> Any:
    """Return what go-yaml makes of a plain scalar: None, a bool, an int, a float or the text itself."""
    first = text[:1]
    if first not in _HINTED:
        return text
    if text in _NAMED:
        return _NAMED[text]
    if first == ".":
        return float(text.replace("_", "")) if _DOT_FLOAT.fullmatch(text) and "_" not in text else text
    if first in "+-0123456789":
        return _number(text)
    return text


_HINTED: Final = frozenset("+-0123456789.yYnNtTfFoO~<") | {""}


def _number(text: str) -> Any:
    plain = text.replace("_", "")
    for pattern, base in _BASES:
        if pattern.fullmatch(plain):
            number = _integer(plain, base)
            if number is not None:
                return number
            break
    if _FLOAT.fullmatch(plain):
        number = float(plain)
        return text if math.isinf(number) else number
    return text


def _integer(plain: str, base: int) -> int | None:
    digits = plain.lstrip("+-")
    sign = -1 if plain.startswith("-") else 1
    body = digits[2:] if base in (2, 16) or digits[:2] in ("0o", "0O") else digits
    number = sign * int(body, base)
    signed = plain[0] in "+-"
    return number if -_INT64 <= number < (_INT64 if signed else _UINT64) else None
