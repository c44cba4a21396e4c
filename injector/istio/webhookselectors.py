"""The selectors of Istio's own webhooks: which of them calls an injector for a pod, judged by labels alone.

The selectors are read from the configurations that ``istio.webhooks`` writes: each revision and each tag has the two webhooks
``rev.*``; the one called ``default`` has ``namespace.`` and ``object.`` too.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final

from injector.istio.servednames import meant
from injector.istio.webhooks import DEFAULT_NAME, REVISION_LABEL, WebhookOptions, revision_webhook
from injector.kube.selectors import Selector

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from injector.kube.selectors import Requirement

    Labels = Mapping[str, str]

INJECTION: Final = "istio-injection"
INJECT: Final = "sidecar.istio.io/inject"


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


@cache
def webhooks_of(name: str) -> tuple[Webhook, ...]:
    """Return the webhooks of a revision or tag; those of ``default`` are also called for ``istio-injection``."""
    return tuple(
        Webhook(raw["name"], Selector.compile(raw["namespaceSelector"]), Selector.compile(raw["objectSelector"]))
        for raw in revision_webhook(name, WebhookOptions())["webhooks"]
    )


def called(names: Iterable[str], namespace_labels: Labels, labels: Labels) -> tuple[Called, ...]:
    """Return the webhooks of ``names``, revisions and tags, that the API server calls for a pod with these labels."""
    return tuple(
        Called(name, webhook)
        for name in names
        for webhook in webhooks_of(name)
        if not webhook.unmet(namespace_labels, labels)
    )


def passed_over(namespace_labels: Labels, labels: Labels) -> tuple[str, ...]:
    """Return what stands in labels of a pod that is called for, and does not count: others decide before."""
    rev, pods = namespace_labels.get(REVISION_LABEL), labels.get(REVISION_LABEL)
    found = []
    if rev is not None and INJECTION in namespace_labels:
        found.append(f"the namespace's {REVISION_LABEL}={rev} does not count beside {INJECTION}")
    if pods is not None and (INJECTION in namespace_labels or (rev is not None and rev != pods)):
        found.append(f"the pod's {REVISION_LABEL}={pods} does not count: the namespace's label decides")
    return tuple(found)


def unserved(namespace_labels: Labels, labels: Labels, names: Collection[str]) -> str | None:
    """Return the revision or tag that the labels of a pod without a webhook ask for, where it is none of ``names``."""
    injection, rev = namespace_labels.get(INJECTION), namespace_labels.get(REVISION_LABEL)
    if labels.get(INJECT) == "false" or injection not in (None, "enabled"):
        return None
    wanted = DEFAULT_NAME if injection else rev or labels.get(REVISION_LABEL)
    if wanted is None and labels.get(INJECT) == "true":
        wanted = DEFAULT_NAME
    return None if wanted in names else wanted


def why_none(namespace_labels: Labels, labels: Labels, names: Collection[str]) -> str:
    """Return why no webhook of ``names`` is called for a pod with these labels."""
    injection, rev = namespace_labels.get(INJECTION), namespace_labels.get(REVISION_LABEL)
    known = f"known are {', '.join(sorted(names)) or 'none'}"
    if labels.get(INJECT) == "false":
        return f"the pod's label {INJECT} is `false`"
    if injection is not None and injection != "enabled":
        return f"the namespace's label {INJECTION} is `{injection}`"
    if injection is not None:
        return f"the namespace's label {INJECTION} asks for the default revision, and there is none"
    if rev is not None and rev not in names:
        return f"the namespace's label {REVISION_LABEL} names `{rev}`, which nobody serves{meant(rev, names)}; {known}"
    pods = labels.get(REVISION_LABEL)
    if rev is None and pods is not None:
        return f"the pod's label {REVISION_LABEL} names `{pods}`, which nobody serves{meant(pods, names)}; {known}"
    if DEFAULT_NAME not in names and labels.get(INJECT) == "true":
        return f"the pod's label {INJECT} asks for the default revision, and there is none"
    return f"the namespace has neither {INJECTION} nor {REVISION_LABEL}, and the pod neither {REVISION_LABEL} nor {INJECT}=true"


def _text(requirement: Requirement) -> str:
    values = ", ".join(sorted(requirement.values))
    return {
        "In": f"{requirement.key} in ({values})",
        "NotIn": f"{requirement.key} not in ({values})",
        "Exists": f"{requirement.key} exists",
        "DoesNotExist": f"{requirement.key} does not exist",
    }[requirement.operator]
