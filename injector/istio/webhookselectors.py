"""Which of a cluster's webhooks calls an injector for a pod, judged by labels; and whether two would inject the same pod.

The selectors are read from the configurations that ``istio.webhooks`` writes: each revision and each tag has the two webhooks
``rev.*``; the one called ``default`` has ``namespace.`` and ``object.`` too.

An injector's webhook is told by its path, ``/inject``, and by its rules, which ask about pods that are created; whose name it has
does not matter. The API server takes configurations by name and the webhooks of one as they stand
(k8s.io/apiserver/pkg/admission/configuration/mutating_webhook_manager.go, v0.35).

Follows Istio 1.30.3, pkg/config/analysis/analyzers/webhook/webhook.go: every combination of the labels that Istio's selectors
look at, with each revision that any selector names, may be taken by one webhook at most.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from injector.errors import ManifestError
from injector.istio.servednames import meant
from injector.istio.webhooks import DEFAULT_NAME, REVISION_LABEL, TAG_LABEL, WebhookOptions, revision_webhook
from injector.kube.selectors import Selector

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from injector.kube.selectors import Requirement

    Labels = Mapping[str, str]
    from collections.abc import Mapping, Sequence

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


PREFIX: Final = "/inject"
_ANY: Final = "*"
_RULE: Final = {
    "operations": ("CREATE",),
    "apiGroups": ("",),
    "apiVersions": ("v1",),
    "resources": ("pods", "*/*"),
}
"""What a rule has to name, in one of these words or by ``*``, to ask about pods that are created."""


@dataclass(frozen=True, slots=True)
class Service:
    """The Service that a webhook is sent to."""

    name: str
    namespace: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class LiveWebhook:
    """One webhook of a cluster that calls an injector.

    Attributes:
        configuration: the object that it stands in.
        webhook: its name and selectors.
        path: the path that is asked for, with whatever stands behind ``/inject``.
        tag: the configuration's label ``istio.io/tag``, empty without.
        revision: its label ``istio.io/rev``, empty without; the revision that a path without a name means, since Istio's own
            has a Service for each.
        service: where it is sent; None where that is a URL.
        fails: whether a pod is refused when the injector does not answer.
        trusted: whether it has a caBundle.
        conditional: whether it has matchConditions, which can let a pod pass that the selectors match.
    """

    configuration: str
    webhook: Webhook
    path: str
    tag: str
    revision: str
    service: Service | None
    fails: bool
    trusted: bool
    conditional: bool

    def calls(self, namespace_labels: Mapping[str, str], labels: Mapping[str, str]) -> bool:
        """Return whether the API server calls it for a pod with these labels, as far as selectors tell."""
        return not self.webhook.unmet(namespace_labels, labels)


def live_webhooks(configurations: Iterable[Mapping[str, Any]]) -> tuple[LiveWebhook, ...]:
    """Return the webhooks of MutatingWebhookConfigurations that call an injector, in the order that they are called in.

    Raises:
        ManifestError: a configuration or a selector cannot be read.
    """
    ordered = sorted(configurations, key=lambda each: str(_mapping(each.get("metadata")).get("name", "")))
    return tuple(webhook for configuration in ordered for webhook in _of_configuration(configuration))


def _of_configuration(configuration: Mapping[str, Any]) -> Iterator[LiveWebhook]:
    metadata = _mapping(configuration.get("metadata"))
    name, labels = str(metadata.get("name", "")), _mapping(metadata.get("labels"))
    where = f"MutatingWebhookConfiguration {name}"
    for raw in configuration.get("webhooks") or ():
        client = _mapping(raw.get("clientConfig") if isinstance(raw, dict) else None, where)
        service = _mapping(client.get("service"), where)
        path = str(service.get("path") or "") if service else urlsplit(str(client.get("url") or "")).path
        if path.partition("?")[0].rstrip("/") != PREFIX and not path.startswith(f"{PREFIX}/"):
            continue
        if not any(_asks_of_pods(_mapping(rule, where)) for rule in raw.get("rules") or ()):
            continue
        yield LiveWebhook(
            configuration=name,
            webhook=_selecting(raw, where),
            path=path,
            tag=str(labels.get(TAG_LABEL) or ""),
            revision=str(labels.get(REVISION_LABEL) or ""),
            service=Service(str(service.get("name", "")), str(service.get("namespace", ""))) if service else None,
            fails=raw.get("failurePolicy", "Fail") == "Fail",
            trusted=bool(client.get("caBundle")),
            conditional=bool(raw.get("matchConditions")),
        )


def _selecting(raw: Mapping[str, Any], where: str) -> Webhook:
    namespace, pods = (
        Selector.compile(_mapping(raw.get(key), where), where=f"{where}: {key}")
        for key in ("namespaceSelector", "objectSelector")
    )
    return Webhook(str(raw.get("name", "")), namespace, pods)


def _asks_of_pods(rule: Mapping[str, Any]) -> bool:
    return all({_ANY, *words} & set(rule.get(key) or ()) for key, words in _RULE.items())


def _mapping(value: Any, where: str = "MutatingWebhookConfiguration") -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ManifestError("it has a value that is no object", where=where, hint="read it with `kubectl get -o yaml`")
    return value


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
