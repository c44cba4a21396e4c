"""The webhooks of a cluster as they are: which of them call an injector for a pod, in which order, and where they lead.

An injector's webhook is told by its path, ``/inject``, and by its rules, which ask about pods that are created; whose name it has
does not matter. The API server takes configurations by name and the webhooks of one as they stand
(k8s.io/apiserver/pkg/admission/configuration/mutating_webhook_manager.go, v0.35).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from injector.errors import ManifestError
from injector.istio.webhooks import REVISION_LABEL, TAG_LABEL
from injector.istio.webhookselectors import Webhook
from injector.kube.selectors import Selector

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

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
