"""Whether two webhooks would inject the same pod: what ``istioctl tag set`` asks before it writes.

Follows Istio 1.30.3, pkg/config/analysis/analyzers/webhook/webhook.go: every combination of the labels that Istio's selectors
look at, with each revision that any selector names, may be taken by one webhook at most.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from injector.errors import ManifestError
from injector.istio.webhooks import REVISION_LABEL
from injector.istio.webhookselectors import INJECT, INJECTION
from injector.kube.selectors import Selector

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    Labels = Mapping[str, str]

_NAMESPACES: Final[tuple[Labels, ...]] = ({}, {INJECTION: "enabled"}, {INJECTION: "disabled"})
_PODS: Final[tuple[Labels, ...]] = ({}, {INJECT: "true"}, {INJECT: "false"})
_ISTIOS: Final = "istio.io"


@dataclass(frozen=True, slots=True)
class _Reach:
    """A webhook, and which of the label sets its selectors match, by their numbers."""

    name: str
    namespaces: frozenset[int]
    pods: frozenset[int]

    def meets(self, other: _Reach) -> bool:
        return bool(self.namespaces & other.namespaces) and bool(self.pods & other.pods)


def overlaps(configuration: Mapping[str, Any], others: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return a line for each set of webhooks that one of ``configuration`` takes pods of, in the analyzer's words.

    Of ``others`` those count that the analyzer takes for Istio's; the webhooks of ``configuration`` itself count too.
    """
    known = [configuration, *(other for other in others if _is_istios(other))]
    revisions = sorted({revision for each in known for revision in _revisions(each)})
    namespaces, pods = _with_revisions(_NAMESPACES, revisions), _with_revisions(_PODS, revisions)
    every = [reach for each in known for reach in _reaches(each, namespaces, pods)]
    own = every[: len(configuration["webhooks"])]
    found = (sorted(other.name for other in every if other is not reach and reach.meets(other)) for reach in own)
    told = (
        f"Webhook overlaps with others: [{' '.join(names)}]. This may cause injection to occur twice."
        for names in found
        if names
    )
    return tuple(dict.fromkeys(told))


def _with_revisions(base: Sequence[Labels], revisions: Iterable[str]) -> list[Labels]:
    return [*base, *({**labels, REVISION_LABEL: revision} for revision in revisions for labels in base)]


def _reaches(
    configuration: Mapping[str, Any], namespaces: Sequence[Labels], pods: Sequence[Labels]
) -> Iterator[_Reach]:
    name = configuration["metadata"]["name"]
    for webhook in configuration.get("webhooks") or ():
        yield _Reach(
            f"{name}/{webhook['name']}",
            _matched(webhook.get("namespaceSelector"), namespaces),
            _matched(webhook.get("objectSelector"), pods),
        )


def _matched(raw: Mapping[str, Any] | None, labels: Sequence[Labels]) -> frozenset[int]:
    """Return the numbers of the label sets that a selector matches; one that cannot be read matches none."""
    try:
        selector = Selector.compile(raw or {})
    except ManifestError:
        return frozenset()
    return frozenset(number for number, each in enumerate(labels) if selector.matches(each))


def _is_istios(configuration: Mapping[str, Any]) -> bool:
    webhooks = configuration.get("webhooks") or ()
    return any(_revisions(configuration)) or any(webhook["name"].endswith(_ISTIOS) for webhook in webhooks)


def _revisions(configuration: Mapping[str, Any]) -> Iterator[str]:
    """Yield every revision that a configuration names, in its label and in its selectors."""
    yield from _labelled(configuration["metadata"].get("labels"))
    for webhook in configuration.get("webhooks") or ():
        for kind in ("namespaceSelector", "objectSelector"):
            selector = webhook.get(kind) or {}
            yield from _labelled(selector.get("matchLabels"))
            for expression in selector.get("matchExpressions") or ():
                if expression.get("key") == REVISION_LABEL:
                    yield from expression.get("values") or ()


def _labelled(labels: Labels | None) -> Iterator[str]:
    if labels and REVISION_LABEL in labels:
        yield labels[REVISION_LABEL]
