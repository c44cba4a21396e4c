"""Webhooks that select pods of other webhooks.

Follows pkg/config/analysis/analyzers/webhook/webhook.go of Istio 1.30.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from injector.istio.labels import INJECT_LABEL, INJECTION_LABEL, REVISION_LABEL, Labels
from injector.istio.webhooks.configurations import SELECTORS
from injector.kube.selectors import Selector


def overlaps(configuration: Mapping[str, Any], others: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the lines of ``overlapping`` about ``configuration``, which is to be written beside the others."""
    return overlapping([configuration, *others]).get(configuration["metadata"]["name"], ())


def overlapping(configurations: Iterable[Mapping[str, Any]]) -> dict[str, tuple[str, ...]]:
    """Return the webhooks that select pods of other webhooks, by configuration, in the words of Istio's analyzer.

    As in the analyzer, only Istio's configurations count. It tries every combination of the labels in Istio's selectors, with each
    revision that any selector names, and has a line for every set of webhooks that are called together.
    """
    known = [configuration for configuration in configurations if is_istios(configuration)]
    revisions = sorted({revision for configuration in known for revision in revisions_of(configuration)})
    webhooks = {
        f"{configuration['metadata']['name']}/{webhook['name']}": (configuration["metadata"]["name"], webhook)
        for configuration in known
        for webhook in configuration.get("webhooks") or ()
    }
    base: Sequence[Labels] = ({}, {INJECTION_LABEL: "enabled"}, {INJECTION_LABEL: "disabled"})
    namespaces = _called_together(webhooks, "namespaceSelector", _label_sets(base, revisions))
    base = ({}, {INJECT_LABEL: "true"}, {INJECT_LABEL: "false"})
    pods = _called_together(webhooks, "objectSelector", _label_sets(base, revisions))
    lines: dict[str, set[str]] = {}
    for names in sorted({tuple(sorted(one & other)) for one in namespaces for other in pods}):
        for name in names if len(names) > 1 else ():
            others = " ".join(other for other in names if other != name)
            line = f"Webhook overlaps with others: [{others}]. This may cause injection to occur twice."
            lines.setdefault(webhooks[name][0], set()).add(line)
    return {name: tuple(sorted(own_lines)) for name, own_lines in lines.items()}


def _called_together(
    webhooks: Mapping[str, tuple[str, Mapping[str, Any]]], key: str, labels: Sequence[Labels]
) -> set[frozenset[str]]:
    """Return the sets of webhooks whose selector ``key`` matches the same labels; one that Kubernetes refuses matches nothing."""
    selectors = {name: Selector.compile_valid(webhook.get(key) or {}) for name, (_, webhook) in webhooks.items()}
    return {
        frozenset(
            name for name, selector in selectors.items() if selector is not None and selector.matches(selector_labels)
        )
        for selector_labels in labels
    }


def _label_sets(base: Sequence[Labels], revisions: Iterable[str]) -> list[Labels]:
    return [*base, *({**labels, REVISION_LABEL: revision} for revision in revisions for labels in base)]


def is_istios(configuration: Mapping[str, Any]) -> bool:
    """Tell whether a configuration is Istio's, as its analyzer decides: by a revision or by the name of a webhook."""
    webhooks = configuration.get("webhooks") or ()
    return bool(revisions_of(configuration)) or any(map(_has_istios_name, webhooks))


def _has_istios_name(webhook: Mapping[str, Any]) -> bool:
    return bool(webhook["name"].endswith("istio.io"))


def revisions_of(configuration: Mapping[str, Any]) -> frozenset[str]:
    """Return every revision that a configuration names in its labels and selectors."""
    selectors = [webhook.get(key) or {} for webhook in configuration.get("webhooks") or () for key in SELECTORS]
    labels = (configuration["metadata"].get("labels"), *(selector.get("matchLabels") for selector in selectors))
    requested = {own_labels[REVISION_LABEL] for own_labels in labels if own_labels and REVISION_LABEL in own_labels}
    for selector in selectors:
        for expression in selector.get("matchExpressions") or ():
            if expression.get("key") == REVISION_LABEL:
                requested.update(expression.get("values") or ())
    return frozenset(requested)
