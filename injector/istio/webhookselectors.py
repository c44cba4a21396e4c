"""The selectors of Istio's own webhooks: which of them calls an injector for a pod, judged by labels alone.

Follows mutatingwebhook.yaml and revision-tags-mwc.yaml in manifests/charts/istio-control/istio-discovery/templates (1.30.3). Each
revision and each tag has the two webhooks ``rev.*``; the default one has ``namespace.`` and ``object.`` too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from injector.kube.selectors import Requirement, Selector

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    Labels = Mapping[str, str]

REV: Final = "istio.io/rev"
INJECTION: Final = "istio-injection"
INJECT: Final = "sidecar.istio.io/inject"
SUFFIX: Final = "sidecar-injector.istio.io"


@dataclass(frozen=True, slots=True)
class Webhook:
    """One webhook: both of its selectors must match."""

    name: str
    namespace: Selector
    object: Selector

    def unmet(self, namespace_labels: Labels, labels: Labels) -> tuple[str, ...]:
        """Return the requirements that the labels do not fulfil, as text; none where the webhook is called."""
        return tuple(
            f"{whose}: {_text(requirement)}"
            for whose, requirement, given in self._requirements(namespace_labels, labels)
            if not requirement.holds(given)
        )

    def asked_by(self, namespace_labels: Labels, labels: Labels) -> tuple[str, ...]:
        """Return the labels that ask for the webhook, as text, where it is called."""
        return tuple(
            f"the {whose}'s {requirement.key}={given[requirement.key]}"
            for whose, requirement, given in self._requirements(namespace_labels, labels)
            if requirement.operator == "In"
        )

    def _requirements(self, namespace_labels: Labels, labels: Labels) -> Iterator[tuple[str, Requirement, Labels]]:
        for whose, selector, given in (
            ("namespace", self.namespace, namespace_labels),
            ("pod", self.object, labels),
        ):
            for requirement in selector.requirements:
                yield whose, requirement, given


@dataclass(frozen=True, slots=True)
class Called:
    """A webhook that is called, and the revision or tag that it is of."""

    name: str
    webhook: Webhook


def webhooks_of(name: str, *, default: bool) -> tuple[Webhook, ...]:
    """Return the webhooks of a revision or tag; ``default`` says whether it is the one that ``istio-injection`` means."""
    not_declined = Requirement(INJECT, "NotIn", frozenset({"false"}))
    its_own = Requirement(REV, "In", frozenset({name}))
    no_injection, no_rev = Requirement(INJECTION, "DoesNotExist"), Requirement(REV, "DoesNotExist")
    found = (
        _webhook("rev.namespace", (its_own, no_injection), (not_declined,)),
        _webhook("rev.object", (no_rev, no_injection), (not_declined, its_own)),
    )
    if not default:
        return found
    enabled = Requirement(INJECTION, "In", frozenset({"enabled"}))
    asked = Requirement(INJECT, "In", frozenset({"true"}))
    return (
        *found,
        _webhook("namespace", (enabled,), (not_declined,)),
        _webhook("object", (no_injection, no_rev), (asked, no_rev)),
    )


def _webhook(prefix: str, namespace: tuple[Requirement, ...], pod: tuple[Requirement, ...]) -> Webhook:
    return Webhook(f"{prefix}.{SUFFIX}", Selector(namespace), Selector(pod))


def called(names: Iterable[str], default: str | None, namespace_labels: Labels, labels: Labels) -> tuple[Called, ...]:
    """Return the webhooks of ``names``, revisions and tags, that the API server calls for a pod with these labels."""
    return tuple(
        Called(name, webhook)
        for name in names
        for webhook in webhooks_of(name, default=name == default)
        if not webhook.unmet(namespace_labels, labels)
    )


def passed_over(namespace_labels: Labels, labels: Labels) -> tuple[str, ...]:
    """Return what stands in labels of a pod that is called for, and does not count: others decide before."""
    rev, pods = namespace_labels.get(REV), labels.get(REV)
    found = []
    if rev is not None and INJECTION in namespace_labels:
        found.append(f"the namespace's {REV}={rev} does not count beside {INJECTION}")
    if pods is not None and (INJECTION in namespace_labels or (rev is not None and rev != pods)):
        found.append(f"the pod's {REV}={pods} does not count: the namespace's label decides")
    return tuple(found)


def why_none(namespace_labels: Labels, labels: Labels, names: Collection[str], default: str | None) -> str:
    """Return why no webhook of ``names`` is called for a pod with these labels."""
    injection, rev = namespace_labels.get(INJECTION), namespace_labels.get(REV)
    known = f"known are {', '.join(sorted(names)) or 'none'}"
    if labels.get(INJECT) == "false":
        return f"the pod's label {INJECT} is `false`"
    if injection is not None and injection != "enabled":
        return f"the namespace's label {INJECTION} is `{injection}`"
    if injection is not None:
        return f"the namespace's label {INJECTION} asks for the default revision, and there is none"
    if rev is not None and rev not in names:
        return f"the namespace's label {REV} names `{rev}`, which nobody serves; {known}"
    pods = labels.get(REV)
    if rev is None and pods is not None:
        return f"the pod's label {REV} names `{pods}`, which nobody serves; {known}"
    if default is None and labels.get(INJECT) == "true":
        return f"the pod's label {INJECT} asks for the default revision, and there is none"
    return f"the namespace has neither {INJECTION} nor {REV}, and the pod neither {REV} nor {INJECT}=true"


def _text(requirement: Requirement) -> str:
    values = ", ".join(sorted(requirement.values))
    return {
        "In": f"{requirement.key} in ({values})",
        "NotIn": f"{requirement.key} not in ({values})",
        "Exists": f"{requirement.key} exists",
        "DoesNotExist": f"{requirement.key} does not exist",
    }[requirement.operator]
