"""Semantic versions and constraints (Masterminds/semver v3.3)."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from injector.golang.strconv import parse_uint
from injector.gotemplate import costs
from injector.gotemplate.budget import spend
from injector.gotemplate.errors import FuncError
from injector.gotemplate.functions import FuncMap
from injector.gotemplate.values import Func, OpaqueStruct, Pointer, Uint64, indirect, type_of

FUNCTIONS: Final = FuncMap()

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
_NUMBERS: Final = ("major", "minor", "patch")
_WILD: Final = ("x", "X", "*")


@dataclass(frozen=True, slots=True)
class Version(OpaqueStruct):
    """Go's semver.Version: major, minor and patch, pre-release and build metadata.

    ``original`` is how it was written. It is empty for the results of methods, which are not pointers and have fewer methods.
    """

    numbers: tuple[int, ...]
    pre: str = ""
    meta: str = ""
    original: str = ""

    def __str__(self) -> str:
        pre = f"-{self.pre}" if self.pre else ""
        meta = f"+{self.meta}" if self.meta else ""
        return ".".join(map(str, self.numbers)) + pre + meta

    go_type = "semver.Version"

    def go_string(self) -> str:
        """Return the version's text, which fmt prints."""
        return str(self)

    def json_value(self) -> str:
        """Return the version's text, as MarshalJSON does."""
        return str(self)

    def method(self, name: str) -> Func | None:
        """Return a method of Go's type."""
        if not self.original and (name == "Original" or name in _COMPARISONS):
            return None
        if name in _COMPARISONS:
            result, explanation = _COMPARISONS[name]
            return Func(
                name, f"func(*semver.Version) {result}", lambda other: explanation(compare(self, _version_of(other)))
            )
        major, minor, patch = map(Uint64, self.numbers)
        values = {
            "Major": major,
            "Minor": minor,
            "Patch": patch,
            "Prerelease": self.pre,
            "Metadata": self.meta,
            "Original": self.original,
            "String": str(self),
            "IncMajor": Version((major + 1, 0, 0)),
            "IncMinor": Version((major, minor + 1, 0)),
            # The release follows its pre-releases.
            "IncPatch": Version((major, minor, patch + (not self.pre))),
        }
        if name not in values:
            return None
        value = values[name]
        return Func(name, f"func() {type_of(value)}", lambda: value)


_COMPARISONS: Final[dict[str, tuple[str, Callable[[int], int]]]] = {
    "Compare": ("int", lambda order: order),
    "Equal": ("bool", lambda order: order == 0),
    "GreaterThan": ("bool", lambda order: order > 0),
    "GreaterThanEqual": ("bool", lambda order: order >= 0),
    "LessThan": ("bool", lambda order: order < 0),
    "LessThanEqual": ("bool", lambda order: order <= 0),
}
"""The methods that compare: their results, by the order of the versions."""


def _version_of(value: Any) -> Version:
    target = indirect(value)[0]
    if not isinstance(target, Version):
        raise FuncError("runtime error: invalid memory address or nil pointer dereference")
    return target


def parse_version(text: str) -> Version:
    """Read a version; minor and patch may be left out. Raises FuncError if it is not a version, or has a number beyond uint64."""
    match = _LOOSE.fullmatch(text)
    if match is None:
        raise FuncError("Invalid Semantic Version")
    for part in (match["pre"] or "").split("."):
        if part.isdigit() and len(part) > 1 and part.startswith("0"):
            raise FuncError("Version segment starts with 0")
    numbers = tuple(_segment(match[name] or "0") for name in _NUMBERS)
    return Version(numbers, match["pre"] or "", match["meta"] or "", text)


FUNCTIONS.add(
    "semver",
    "func(string) (*semver.Version, error)",
    lambda text: Pointer("*semver.Version", parse_version(text)),
    costs.READ_JSON,
)


def _segment(digits: str) -> int:
    number, fault = parse_uint(digits, 64)
    if fault:
        raise FuncError(f"Error parsing version segment: {fault}")
    return number


def compare(left: Version, right: Version) -> int:
    """Return -1, 0 or 1 by precedence (SemVer 2.0 section 11)."""
    if left.numbers != right.numbers:
        return -1 if left.numbers < right.numbers else 1
    if left.pre == right.pre:
        return 0
    if not left.pre or not right.pre:
        return -1 if left.pre else 1
    spend(len(left.pre) + len(right.pre))
    parts, other_parts = left.pre.split("."), right.pre.split(".")
    for part, other in zip(parts, other_parts, strict=False):
        if part != other:
            return -1 if _part_key(part) < _part_key(other) else 1
    return -1 if len(parts) < len(other_parts) else 1


def _part_key(part: str) -> tuple[int, int, str]:
    """Return a key that sorts numbers before words; a number that a uint64 cannot hold is a word."""
    number, fault = parse_uint(part, 64)
    return (1, 0, part) if fault else (0, number, "")


@FUNCTIONS.define("func(string, string) (bool, error)", "semverCompare", cost=costs.READ_JSON)
def semver_compare(constraint: str, text: str) -> bool:
    """Return whether a version satisfies a constraint."""
    spend(len(constraint) ** 2 // _PER_STEP)
    expanded = _HYPHEN.sub(lambda match: f">= {match[1]}, <= {match[2]}", constraint)
    groups = [_conditions(group) for group in expanded.split("||")]
    version = parse_version(text)
    return any(all(condition.holds(version) for condition in group) for group in groups)


@dataclass(frozen=True, slots=True)
class _Condition:
    """A comparison with a version, of which the first ``stated`` numbers are written out; the others are left out or wild."""

    op: str
    version: Version
    stated: int

    def holds(self, version: Version) -> bool:
        # A pre-release satisfies only constraints that name a pre-release themselves.
        if version.pre and not self.version.pre and self.op != "!=":
            return False
        return _CHECKS[self.op](self, version)

    def order(self, version: Version) -> int:
        """Compare by the numbers stated; by the pre-release too if all are."""
        if self.stated == len(_NUMBERS):
            return compare(version, self.version)
        left, right = version.numbers[: self.stated], self.version.numbers[: self.stated]
        return (left > right) - (left < right)

    def reaches(self, version: Version, shared: int) -> bool:
        """Return whether a version is not lower and has the same first numbers, ``shared`` of those stated."""
        shared = min(shared, self.stated)
        return compare(version, self.version) >= 0 and version.numbers[:shared] == self.version.numbers[:shared]

    def equal(self, version: Version) -> bool:
        is_whole = self.stated == len(_NUMBERS)
        return compare(version, self.version) == 0 if is_whole else self.reaches(version, 2)

    def caret(self, version: Version) -> bool:
        """Compare up to the first number that is not zero."""
        return self.reaches(version, 1 + next((at for at, number in enumerate(self.version.numbers) if number), 2))


_CHECKS: Final[dict[str, Callable[[_Condition, Version], bool]]] = {
    **dict.fromkeys(("", "="), _Condition.equal),
    "!=": lambda condition, version: condition.order(version) != 0,
    ">": lambda condition, version: condition.order(version) > 0,
    "<": lambda condition, version: compare(version, condition.version) < 0,
    **dict.fromkeys((">=", "=>"), lambda condition, version: compare(version, condition.version) >= 0),
    **dict.fromkeys(("<=", "=<"), lambda condition, version: condition.order(version) <= 0),
    **dict.fromkeys(("~", "~>"), lambda condition, version: condition.reaches(version, 2)),
    "^": _Condition.caret,
}


def _conditions(group: str) -> list[_Condition]:
    conditions: list[_Condition] = []
    position = 0
    while position < len(group):
        match = _CONSTRAINT.match(group, position)
        if match is None or match.end() == position:
            raise FuncError(f"improper constraint: {group}")
        conditions.append(_condition(match))
        position = match.end()
        if group[position : position + 1] == ",":
            position += 1
    if not conditions:
        raise FuncError(f"improper constraint: {group}")
    return conditions


def _condition(match: re.Match[str]) -> _Condition:
    parts = [match[name] for name in _NUMBERS]
    stated = next((at for at, part in enumerate(parts) if part is None or part in _WILD), len(parts))
    if not stated:
        return _Condition(">=", Version((0, 0, 0)), stated)
    try:
        numbers = [_segment(part) for part in parts[:stated]]
    except FuncError as error:
        raise FuncError("constraint Parser Error") from error
    padded = (*numbers, 0, 0)[: len(parts)]
    return _Condition(match["op"] or "", Version(padded, match["pre"] or ""), stated)
