"""Semantic versions and constraints (Masterminds/semver v3.3)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from injector.golang.strconv import quote
from injector.gotemplate import costs
from injector.gotemplate.budget import spend
from injector.gotemplate.errors import FuncError
from injector.gotemplate.functions import FuncMap
from injector.gotemplate.values import Func, Pointer, Struct, Uint64

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FUNCTIONS: Final = FuncMap()

_UINT64: Final = 2**64
_UINT64_DIGITS: Final = 20
_PER_STEP: Final = 16
"""Characters that are tried again in a step: a range of versions is looked for at each place of a constraint."""
_LOOSE = re.compile(
    r"v?(?P<major>\d+)(?:\.(?P<minor>\d+))?(?:\.(?P<patch>\d+))?"
    r"(?:-(?P<pre>[0-9A-Za-z\-]+(?:\.[0-9A-Za-z\-]+)*))?(?:\+(?P<meta>[0-9A-Za-z\-]+(?:\.[0-9A-Za-z\-]+)*))?",
    re.ASCII,
)
_CONSTRAINT = re.compile(
    r"\s*(?P<op>=>|=<|>=|<=|!=|=|>|<|~>|~|\^)?\s*"
    r"(?P<text>v?(?P<major>\d+|[xX*])(?:\.(?P<minor>\d+|[xX*]))?(?:\.(?P<patch>\d+|[xX*]))?"
    r"(?:-(?P<pre>[0-9A-Za-z\-]+(?:\.[0-9A-Za-z\-]+)*))?(?:\+[0-9A-Za-z\-.]+)?)\s*",
    re.ASCII,
)
_HYPHEN = re.compile(
    r"\s*(v?[0-9xX*][0-9A-Za-z.*+]*(?:-[0-9A-Za-z.]+)?)\s+-\s+(v?[0-9xX*][0-9A-Za-z.*+\-]*)\s*", re.ASCII
)


@dataclass(frozen=True, slots=True)
class Version:
    """A version in parts; ``original`` is how it was written."""

    major: int
    minor: int
    patch: int
    pre: str
    meta: str
    original: str

    def key(self) -> tuple[int, int, int]:
        """Return the numbers."""
        return self.major, self.minor, self.patch

    def __str__(self) -> str:
        pre = f"-{self.pre}" if self.pre else ""
        meta = f"+{self.meta}" if self.meta else ""
        return f"{self.major}.{self.minor}.{self.patch}{pre}{meta}"


class VersionStruct(Struct):
    """A version as templates see it: Go's *semver.Version with its methods."""

    __slots__ = ("version",)

    def __init__(self, version: Version) -> None:
        self.version = version

    @property
    def go_type(self) -> str:
        """The Go type."""
        return "semver.Version"

    def field(self, name: str) -> Any:
        """Return a field; Go's has none that is exported."""
        raise KeyError(name)

    def fields(self) -> Iterator[tuple[str, Any]]:
        """Yield nothing: Go's fields are not exported."""
        return iter(())

    def go_string(self) -> str:
        """Return the version's text."""
        return str(self.version)

    def method(self, name: str) -> Func | None:
        """Return a method of Go's type."""
        version = self.version
        values: dict[str, tuple[str, Callable[[], Any]]] = {
            "Major": ("func() uint64", lambda: Uint64(version.major)),
            "Minor": ("func() uint64", lambda: Uint64(version.minor)),
            "Patch": ("func() uint64", lambda: Uint64(version.patch)),
            "Prerelease": ("func() string", lambda: version.pre),
            "Metadata": ("func() string", lambda: version.meta),
            "Original": ("func() string", lambda: version.original),
            "String": ("func() string", lambda: str(version)),
        }
        if name == "Compare":
            return Func(name, "func(*semver.Version) int", lambda other: compare(version, _version_of(other)))
        found = values.get(name)
        return Func(name, *found) if found is not None else None


def _version_of(value: Any) -> Version:
    target = value.target if isinstance(value, Pointer) else value
    if not isinstance(target, VersionStruct):
        raise FuncError("runtime error: invalid memory address or nil pointer dereference")
    return target.version


@FUNCTIONS.define("func(string) (*semver.Version, error)", "semver", cost=costs.READ_JSON)
def semver(text: str) -> Pointer:
    """Return a version."""
    return _VersionPointer(VersionStruct(parse(text)))


class _VersionPointer(Pointer):
    """Go's *semver.Version: methods and printing work on the pointer."""

    __slots__ = ()

    def __init__(self, target: VersionStruct) -> None:
        super().__init__("*semver.Version", target)

    def go_string(self) -> str:
        """Return the version's text."""
        return str(self.target.version)

    def json_value(self) -> str:
        """Return the version's text, as its MarshalJSON does."""
        return str(self.target.version)


def parse(text: str) -> Version:
    """Read a version; minor and patch may be left out."""
    match = _LOOSE.fullmatch(text)
    if match is None:
        raise FuncError("Invalid Semantic Version")
    for part in (match["pre"] or "").split("."):
        if part.isdigit() and len(part) > 1 and part.startswith("0"):
            raise FuncError("Version segment starts with 0")
    major, minor, patch = (_segment(match[name] or "0") for name in ("major", "minor", "patch"))
    return Version(major, minor, patch, match["pre"] or "", match["meta"] or "", text)


def _segment(digits: str) -> int:
    number = _uint64(digits)
    if number is None:
        fault = f"strconv.ParseUint: parsing {quote(digits)}: value out of range"
        raise FuncError(f"Error parsing version segment: {fault}")
    return number


def _uint64(digits: str) -> int | None:
    """Return a decimal number, None where no uint64 holds it."""
    shown = digits.lstrip("0")
    number = int(shown or "0") if len(shown) <= _UINT64_DIGITS else _UINT64
    return number if number < _UINT64 else None


def compare(left: Version, right: Version) -> int:
    """Return -1, 0 or 1 by precedence (SemVer 2.0 section 11)."""
    if left.key() != right.key():
        return -1 if left.key() < right.key() else 1
    if left.pre == right.pre:
        return 0
    if not left.pre or not right.pre:
        return 1 if not left.pre else -1
    a, b = left.pre.split("."), right.pre.split(".")
    for one, other in zip(a, b, strict=False):
        if one != other:
            return -1 if _part_key(one) < _part_key(other) else 1
    return -1 if len(a) < len(b) else 1


def _part_key(part: str) -> tuple[int, int, str]:
    number = _uint64(part) if part.isdigit() else None
    return (1, 0, part) if number is None else (0, number, "")


@FUNCTIONS.define("func(string, string) (bool, error)", "semverCompare", cost=costs.READ_JSON)
def semver_compare(constraint: str, text: str) -> bool:
    """Return whether a version satisfies a constraint."""
    spend(len(constraint) ** 2 // _PER_STEP)
    groups = [_conditions(group) for group in _expand_hyphens(constraint).split("||")]
    version = parse(text)
    return any(all(condition.holds(version) for condition in group) for group in groups)


def _expand_hyphens(constraint: str) -> str:
    return _HYPHEN.sub(lambda match: f">= {match[1]}, <= {match[2]}", constraint)


@dataclass(frozen=True, slots=True)
class _Condition:
    """One comparison; the dirty flags say which parts were left out or wild."""

    op: str
    version: Version
    minor_dirty: bool
    patch_dirty: bool
    all_dirty: bool

    def holds(self, version: Version) -> bool:
        # A pre-release satisfies only constraints that name a pre-release themselves.
        if version.pre and not self.version.pre and self.op != "!=":
            return False
        return _CHECKS[self.op](self, version)

    def not_equal(self, version: Version) -> bool:
        if self.all_dirty or self.minor_dirty or self.patch_dirty:
            if version.major != self.version.major:
                return True
            if version.minor != self.version.minor and not self.minor_dirty:
                return True
            if self.minor_dirty:
                return False
            if version.patch != self.version.patch and not self.patch_dirty:
                return True
            return not self.patch_dirty
        return compare(version, self.version) != 0

    def greater(self, version: Version) -> bool:
        if not (self.minor_dirty or self.patch_dirty or self.all_dirty):
            return compare(version, self.version) == 1
        if version.major != self.version.major:
            return version.major > self.version.major
        if self.minor_dirty:
            return False
        return version.minor > self.version.minor

    def less(self, version: Version) -> bool:
        return compare(version, self.version) < 0

    def at_least(self, version: Version) -> bool:
        return compare(version, self.version) >= 0

    def at_most(self, version: Version) -> bool:
        if not (self.minor_dirty or self.patch_dirty or self.all_dirty):
            return compare(version, self.version) <= 0
        if version.major != self.version.major:
            return version.major < self.version.major
        return not (version.minor > self.version.minor and not self.minor_dirty)

    def tilde(self, version: Version) -> bool:
        if compare(version, self.version) < 0:
            return False
        if self.all_dirty:
            return True
        if version.major != self.version.major:
            return False
        return version.minor == self.version.minor or self.minor_dirty

    def tilde_or_equal(self, version: Version) -> bool:
        if self.all_dirty or self.minor_dirty or self.patch_dirty:
            return self.tilde(version)
        return compare(version, self.version) == 0

    def caret(self, version: Version) -> bool:
        if compare(version, self.version) < 0:
            return False
        if self.version.major > 0 or self.minor_dirty:
            return version.major == self.version.major
        if version.major != 0:
            return False
        if self.version.minor > 0 or self.patch_dirty:
            return version.minor == self.version.minor
        return version.minor == 0 and version.patch == self.version.patch


_CHECKS: Final[dict[str, Callable[[_Condition, Version], bool]]] = {
    "": _Condition.tilde_or_equal,
    "=": _Condition.tilde_or_equal,
    "!=": _Condition.not_equal,
    ">": _Condition.greater,
    "<": _Condition.less,
    ">=": _Condition.at_least,
    "=>": _Condition.at_least,
    "<=": _Condition.at_most,
    "=<": _Condition.at_most,
    "~": _Condition.tilde,
    "~>": _Condition.tilde,
    "^": _Condition.caret,
}


def _conditions(group: str) -> list[_Condition]:
    found: list[_Condition] = []
    position = 0
    while position < len(group):
        match = _CONSTRAINT.match(group, position)
        if match is None or match.end() == position:
            raise FuncError(f"improper constraint: {group}")
        found.append(_condition(match))
        position = match.end()
        if group[position : position + 1] == ",":
            position += 1
    if not found:
        raise FuncError(f"improper constraint: {group}")
    return found


def _condition(match: re.Match[str]) -> _Condition:
    wild = ("x", "X", "*")
    op = match["op"] or ""
    major, minor, patch = match["major"], match["minor"], match["patch"]
    if major in wild:
        return _Condition(
            ">=", Version(0, 0, 0, "", "", match["text"]), minor_dirty=False, patch_dirty=False, all_dirty=True
        )
    minor_dirty = minor is None or minor in wild
    patch_dirty = minor_dirty or patch is None or patch in wild
    try:
        numbers = _segment(major), 0 if minor_dirty else _segment(minor), 0 if patch_dirty else _segment(patch)
    except FuncError as error:
        raise FuncError("constraint Parser Error") from error
    version = Version(*numbers, match["pre"] or "", "", match["text"])
    return _Condition(op, version, minor_dirty=minor_dirty, patch_dirty=patch_dirty, all_dirty=False)
