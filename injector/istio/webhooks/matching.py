"""The webhooks that the API server calls for a pod with its labels, and why it calls none."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from injector.hints import did_you_mean
from injector.istio.labels import DEFAULT_NAME, INJECT_LABEL, INJECTION_LABEL, NAMESPACE, POD, REVISION_LABEL, Labels

if TYPE_CHECKING:
    from injector.kube.selectors import Requirement, Selector


@dataclass(frozen=True, slots=True)
class Webhook:
    """A webhook, which is called for pods that both selectors match."""

    name: str
    namespace: Selector
    object: Selector

    @property
    def requirements(self) -> tuple[Requirement, ...]:
        """The requirements of both selectors."""
        return self.namespace.requirements + self.object.requirements

    def unmet(self, namespace_labels: Labels, labels: Labels) -> tuple[str, ...]:
        """Return the requirements that the labels do not meet, as text; none if the webhook is called."""
        return tuple(
            f"{owner}: {_text(requirement)}"
            for owner, requirement, actual in self._requirements(namespace_labels, labels)
            if not requirement.holds(actual)
        )

    def asked_by(self, namespace_labels: Labels, labels: Labels) -> tuple[str, ...]:
        """Return the labels that the webhook is called for, as text."""
        return tuple(
            f"the {owner}'s {requirement.key}={actual[requirement.key]}"
            for owner, requirement, actual in self._requirements(namespace_labels, labels)
            if requirement.operator == "In"
        )

    def _requirements(self, namespace_labels: Labels, labels: Labels) -> Iterator[tuple[str, Requirement, Labels]]:
        for requirement in self.namespace.requirements:
            yield "namespace", requirement, namespace_labels
        for requirement in self.object.requirements:
            yield "pod", requirement, labels


def _text(requirement: Requirement) -> str:
    values = ", ".join(sorted(requirement.values))
    return {
        "In": f"{requirement.key} in ({values})",
        "NotIn": f"{requirement.key} not in ({values})",
        "Exists": f"{requirement.key} exists",
        "DoesNotExist": f"{requirement.key} does not exist",
    }[requirement.operator]


W = TypeVar("W", bound=Webhook)


class Webhooks(Generic[W]):
    """The webhooks of a cluster, in the API server's order.

    A large cluster has hundreds of webhooks, of which trying all takes 1 ms, and thousands of pods, but few namespaces that differ in the
    labels that selectors read. The webhooks whose selectors match a namespace are therefore found once for all that have these labels.
    """

    def __init__(self, webhooks: Iterable[W]) -> None:
        self.all = tuple(webhooks)
        self._keys = {requirement.key for webhook in self.all for requirement in webhook.namespace.requirements}
        self._by_namespace: dict[frozenset[tuple[str, str]], list[W]] = {}

    def __iter__(self) -> Iterator[W]:
        return iter(self.all)

    def __len__(self) -> int:
        return len(self.all)

    def find_called(self, namespace_labels: Labels, labels: Labels) -> list[W]:
        """Return the webhooks that are called for a pod with these labels."""
        key = frozenset(item for item in namespace_labels.items() if item[0] in self._keys)
        of_namespace = self._by_namespace.get(key)
        if of_namespace is None:
            of_namespace = [webhook for webhook in self.all if webhook.namespace.matches(namespace_labels)]
            self._by_namespace[key] = of_namespace
        return [webhook for webhook in of_namespace if webhook.object.matches(labels)]


def labels_without_effect(namespace_labels: Labels, labels: Labels, precedence: str = NAMESPACE) -> tuple[str, ...]:
    """Describe the labels of a pod and its namespace that have no effect, because others take precedence."""
    rev, pod_rev = namespace_labels.get(REVISION_LABEL), labels.get(REVISION_LABEL)
    notes = []
    if rev is not None and INJECTION_LABEL in namespace_labels:
        notes.append(f"the namespace's {REVISION_LABEL}={rev} does not count beside {INJECTION_LABEL}")
    differ = rev is not None and pod_rev is not None and rev != pod_rev
    if differ and precedence == POD and INJECTION_LABEL not in namespace_labels:
        notes.append(f"the namespace's {REVISION_LABEL}={rev} does not count: the pod's label decides")
    elif pod_rev is not None and (INJECTION_LABEL in namespace_labels or differ):
        notes.append(f"the pod's {REVISION_LABEL}={pod_rev} does not count: the namespace's label decides")
    return tuple(notes)


def asked_name(namespace_labels: Labels, labels: Labels, precedence: str = NAMESPACE) -> str | None:
    """Return the revision or tag that the labels of a pod and its namespace ask for; None if they ask for none."""
    injection, rev = namespace_labels.get(INJECTION_LABEL), namespace_labels.get(REVISION_LABEL)
    if labels.get(INJECT_LABEL) == "false" or injection not in (None, "enabled"):
        return None
    own = labels.get(REVISION_LABEL)
    wanted = DEFAULT_NAME if injection else (own or rev if precedence == POD else rev or own)
    return DEFAULT_NAME if wanted is None and labels.get(INJECT_LABEL) == "true" else wanted


def unserved_name(
    namespace_labels: Labels, labels: Labels, names: Collection[str], precedence: str = NAMESPACE
) -> str | None:
    """Return the revision or tag that a pod without a webhook names in its labels, unless it is one of ``names``."""
    wanted = asked_name(namespace_labels, labels, precedence)
    return None if wanted in names else wanted


LEFT_OUT: Final = "whose webhooks leave its pods out: compare them with `injector webhook generate`"


def why_none(
    namespace_labels: Labels,
    labels: Labels,
    names: Collection[str],
    precedence: str = NAMESPACE,
    left_out: str = LEFT_OUT,
) -> str:
    """Explain why no webhook of ``names`` is called for a pod with these labels.

    ``left_out`` says what webhooks of the name that the labels ask for do.
    """
    injection, rev = namespace_labels.get(INJECTION_LABEL), namespace_labels.get(REVISION_LABEL)
    if labels.get(INJECT_LABEL) == "false":
        return f"the pod's label {INJECT_LABEL} is `false`"
    if injection is not None and injection != "enabled":
        return f"the namespace's label {INJECTION_LABEL} is `{injection}`"
    default = f"the default revision, {left_out if DEFAULT_NAME in names else 'which does not exist'}"
    if injection is not None:
        return f"the namespace's label {INJECTION_LABEL} selects {default}"
    own = labels.get(REVISION_LABEL)
    decides = rev is not None and not (precedence == POD and own is not None)
    owner, name = ("namespace", rev) if decides else ("pod", own)
    if name is not None:
        what = left_out
        if name not in names:
            what = f"which is not served{did_you_mean(name, names)}; known are {', '.join(sorted(names)) or 'none'}"
        return f"the {owner}'s label {REVISION_LABEL} names `{name}`, {what}"
    if labels.get(INJECT_LABEL) == "true":
        return f"the pod's label {INJECT_LABEL} selects {default}"
    return (
        f"the namespace has neither {INJECTION_LABEL} nor {REVISION_LABEL}, "
        f"and the pod neither {REVISION_LABEL} nor {INJECT_LABEL}=true"
    )
