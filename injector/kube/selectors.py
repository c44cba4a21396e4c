"""Label selectors, as metav1.LabelSelector and k8s.io/apimachinery pkg/labels (v0.35) have them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from injector.errors import ManifestError
from injector.hints import did_you_mean
from injector.kube.typed import normalise, struct_type

# The syntax of labels: k8s.io/apimachinery pkg/api/validate/content.
_NAME = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", re.ASCII)
_LABEL = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
_SUBDOMAIN = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_MAX_SUBDOMAIN: Final = 253
_PART: Final = re.compile(r",(?![^()]*\))")
"""The commas between requirements, not those between values."""
_KEY: Final = r"([A-Za-z0-9./_-]+)"
_REQUIREMENT: Final = re.compile(
    rf"\s*(!)?\s*{_KEY}\s*(?:(?<!!)(=|==|!=)\s*([A-Za-z0-9._-]*)|(in|notin)\s*\(([^()]*)\))?\s*", re.ASCII
)
_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist")
_WITH_VALUES: Final = ("In", "NotIn")


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition: a key, an operator and, for In and NotIn, values."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def __str__(self) -> str:
        """Return it as kubectl's ``-l`` has it."""
        if self.operator in _WITH_VALUES:
            return f"{self.key} {self.operator.lower()} ({','.join(sorted(self.values))})"
        return self.key if self.operator == "Exists" else f"!{self.key}"

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Return whether the labels fulfil it; NotIn holds for an absent key."""
        if self.operator == "Exists":
            return self.key in labels
        if self.operator == "DoesNotExist":
            return self.key not in labels
        among = self.key in labels and labels[self.key] in self.values
        return among if self.operator == "In" else not among


@dataclass(frozen=True, slots=True)
class Selector:
    """A compiled label selector: all requirements hold."""

    requirements: tuple[Requirement, ...]

    @classmethod
    def compile(cls, raw: Mapping[str, Any], *, where: str = "") -> Selector:
        """Compile a LabelSelector as ``LabelSelectorAsSelector`` does; numbers count as texts.

        Raises ManifestError if Kubernetes refuses it.
        """
        typed = normalise(raw, "v1.LabelSelector", keep_unknown=False, coerce=True)
        requirements = [
            Requirement(key, "In", frozenset({value})) for key, value in (typed.get("matchLabels") or {}).items()
        ]
        requirements.extend(
            Requirement(item.get("key", ""), item.get("operator", ""), frozenset(item.get("values") or ()))
            for item in typed.get("matchExpressions") or ()
        )
        for requirement in requirements:
            _check(requirement, where)
        return cls(tuple(requirements))

    @classmethod
    def compile_valid(cls, raw: Mapping[str, Any]) -> Selector | None:
        """Compile a LabelSelector; None for one that Kubernetes refuses."""
        try:
            return cls.compile(raw)
        except ManifestError:
            return None

    @classmethod
    def parse(cls, text: str) -> Selector:
        """Parse a selector as kubectl's ``-l`` has it: ``app=web,tier!=db,env in (a,b),!old``. Raises ManifestError if it is not valid.

        ``!=`` and ``notin`` also hold for an absent key. ``labels.Parse`` of apimachinery has ``<`` and ``>`` too, which nothing needs.
        """
        requirements = []
        for part in _PART.split(text):
            match = _REQUIREMENT.fullmatch(part)
            if match is None:
                what = f"{part.strip()[:80]!r} is not a label selector"
                raise ManifestError(what, hint="write app=web, app!=web, app, !app or app in (a,b), joined by commas")
            negated, name, sign, value, word, values = match.groups()
            if sign or word:
                operator = "NotIn" if sign == "!=" or word == "notin" else "In"
                choices = [value] if sign else [choice.strip() for choice in values.split(",")]
                requirement = Requirement(name, operator, frozenset(choices))
            else:
                requirement = Requirement(name, "DoesNotExist" if negated else "Exists")
            _check(requirement, "")
            requirements.append(requirement)
        return cls(tuple(requirements))

    def __str__(self) -> str:
        """Return it as kubectl's ``-l`` has it."""
        return ",".join(map(str, self.requirements))

    @property
    def is_empty(self) -> bool:
        """Whether it has no requirement, and so matches every object."""
        return not self.requirements

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether the labels fulfil every requirement."""
        for requirement in self.requirements:  # noqa: SIM110 -- all() takes twice as long
            if not requirement.holds(labels):
                return False
        return True


EVERYTHING: Final = Selector(())
"""The selector that matches every object."""


def selector_faults(raw: Mapping[str, Any] | None) -> Iterator[str]:
    """Yield what makes a LabelSelector match other labels than it says, or none: an unknown field, a value that is not valid, nothing."""
    selector = raw or {}
    kind, inner = struct_type("v1.LabelSelector"), struct_type("v1.LabelSelectorRequirement")
    expressions = [item or {} for item in selector.get("matchExpressions") or ()]
    for struct, mapping in ((kind, selector), *((inner, item) for item in expressions)):
        for name in mapping:
            if struct.json_field(str(name)) is None:
                yield f"unknown field {name}, which is ignored{did_you_mean(str(name), struct.by_json)}"
    try:
        if Selector.compile(selector).is_empty:
            yield "it is empty, and matches no pod"
    except ManifestError as error:
        yield f"it is not valid, and matches no pod: {error.what}; {error.hint}"


def _check(requirement: Requirement, where: str) -> None:
    if requirement.operator not in _OPERATORS:
        what = f'"{requirement.operator}" is not a valid label selector operator'
        raise ManifestError(what, where=where, hint=f"use one of {', '.join(_OPERATORS)}")
    if not is_label_key(requirement.key):
        what = f'key: Invalid value: "{requirement.key}"'
        raise ManifestError(what, where=where, hint="write the key of a label, such as app or example.com/app")
    if (requirement.operator in _WITH_VALUES) != bool(requirement.values):
        what = f"values: Invalid value: {sorted(requirement.values)} for {requirement.operator}"
        raise ManifestError(what, where=where, hint="give values to In and NotIn, and to no other operator")
    for value in requirement.values:
        if not is_label_value(value):
            what = f'values[{requirement.key}]: Invalid value: "{value}"'
            raise ManifestError(what, where=where, hint="write the value of a label: up to 63 letters, digits and -_.")


def is_label_value(value: str) -> bool:
    """Return whether Kubernetes accepts a label's value."""
    return not value or _NAME.fullmatch(value) is not None


def is_label_key(key: str) -> bool:
    """Return whether Kubernetes accepts a key of a label."""
    prefix, slash, name = key.rpartition("/")
    return _NAME.fullmatch(name) is not None and (not slash or is_subdomain(prefix))


NAMESPACE_HINT: Final = "use at most 63 lower-case letters, digits and `-`, with a letter or digit at both ends"
"""How to write the name of a namespace."""


def is_dns_label(name: str) -> bool:
    """Return whether a name is a DNS label (RFC 1123), as Kubernetes checks it (util/validation, IsDNS1123Label)."""
    return _LABEL.fullmatch(name) is not None


def is_subdomain(name: str) -> bool:
    """Return whether a name is a DNS subdomain (RFC 1123), such as ``web`` or ``shop.example.com``."""
    return len(name) <= _MAX_SUBDOMAIN and _SUBDOMAIN.fullmatch(name) is not None
