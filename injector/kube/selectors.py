"""Label selectors, as metav1.LabelSelector and k8s.io/apimachinery pkg/labels have them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from injector.errors import ManifestError

if TYPE_CHECKING:
    from collections.abc import Mapping

_VALUE = re.compile(r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?", re.ASCII)
_NAME = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", re.ASCII)
_PREFIX = re.compile(r"(?=.{1,253}$)[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist")


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition: a key, an operator and, for In and NotIn, values."""

    key: str
    operator: str
    values: frozenset[str]

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Return whether the labels fulfil it; NotIn holds for an absent key."""
        if self.operator == "Exists":
            return self.key in labels
        if self.operator == "DoesNotExist":
            return self.key not in labels
        if self.operator == "In":
            return labels.get(self.key) in self.values
        return self.key not in labels or labels[self.key] not in self.values


@dataclass(frozen=True, slots=True)
class Selector:
    """A compiled label selector: all requirements hold."""

    requirements: tuple[Requirement, ...]

    @classmethod
    def compile(cls, raw: Mapping[str, Any], *, where: str = "") -> Selector:
        """Compile a LabelSelector as ``LabelSelectorAsSelector`` does.

        Raises:
            ManifestError: a key, operator or value that Kubernetes refuses.
        """
        found = [Requirement(key, "In", frozenset({value})) for key, value in (raw.get("matchLabels") or {}).items()]
        for item in raw.get("matchExpressions") or ():
            values = frozenset(item.get("values") or ())
            found.append(Requirement(item.get("key", ""), item.get("operator", ""), values))
        for requirement in found:
            _check(requirement, where)
        return cls(tuple(found))

    @property
    def is_empty(self) -> bool:
        """Whether it has no requirement, and so matches every object."""
        return not self.requirements

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether the labels fulfil every requirement."""
        return all(requirement.holds(labels) for requirement in self.requirements)


def _check(requirement: Requirement, where: str) -> None:
    prefix, slash, name = requirement.key.rpartition("/")
    if not _NAME.fullmatch(name) or (slash and not _PREFIX.fullmatch(prefix)):
        raise ManifestError(f"key: Invalid value: {requirement.key!r}", where=where, hint="write a label's name")
    if requirement.operator not in _OPERATORS:
        what = f"{requirement.operator!r} is not a valid label selector operator"
        raise ManifestError(what, where=where, hint=f"use one of {', '.join(_OPERATORS)}")
    wants_values = requirement.operator in ("In", "NotIn")
    if wants_values != bool(requirement.values):
        what = f"values: Invalid value for {requirement.operator}"
        raise ManifestError(what, where=where, hint="give values to In and NotIn, and to no other")
    for value in requirement.values:
        if not isinstance(value, str) or not _VALUE.fullmatch(value):
            raise ManifestError(f"values: Invalid value: {value!r}", where=where, hint="write a label's value")
