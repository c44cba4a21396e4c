"""The MutatingWebhookConfigurations of a cluster: checked, and read as webhooks and as options."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, TypeAlias
from urllib.parse import unquote

from injector.errors import ManifestError
from injector.istio.labels import NAMESPACE, POD, REVISION_LABEL, TAG_LABEL, Labels
from injector.istio.webhooks.configurations import (
    FAILURE_POLICIES,
    REINVOCATION_POLICIES,
    RULE,
    SELECTORS,
    SUFFIX,
    Endpoint,
    WebhookOptions,
    revision_webhook,
    sidecar_webhooks,
)
from injector.istio.webhooks.matching import Webhook, Webhooks
from injector.istio.webhooks.paths import PAIRS, PATH_PREFIX, SLASH, has_path_of, is_injectors, path_of
from injector.kube.conditions import FAULT, UNMET, ConditionResult, evaluate_conditions
from injector.kube.selectors import Selector
from injector.kube.typed import normalise


@dataclass(frozen=True, slots=True)
class Service:
    """The Service that a webhook calls."""

    name: str
    namespace: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class LiveWebhook(Webhook):
    """A webhook that calls an injector, by ``path``: ``/inject`` and anything below.

    ``tag`` and ``revision`` are the labels ``istio.io/tag`` and ``istio.io/rev`` of its MutatingWebhookConfiguration, or empty. A path
    without a name means this revision: Istio has a Service for each. ``service`` is None if it calls a URL. ``fails`` is whether a pod is
    refused if the injector does not answer, and ``trusted`` whether it has a caBundle. ``conditions`` are the names and CEL expressions of
    its matchConditions, which can exclude pods that the selectors match. If it is ``assumed``, no object has it: it is one that Istio
    would have for the revision or tag ``configuration``.
    """

    configuration: str
    path: str
    tag: str
    revision: str
    service: Service | None
    fails: bool
    trusted: bool
    conditions: tuple[tuple[str, str], ...] = ()
    assumed: bool = False

    @property
    def title(self) -> str:
        """Its name and that of its configuration."""
        return f"{self.name} of {self.configuration}"

    def leaves_out(self, pod: Mapping[str, Any]) -> bool:
        """Return whether a matchCondition keeps the API server from calling the webhook for a pod that its selectors match."""
        verdict = self.condition(pod).verdict
        return verdict == UNMET or (verdict == FAULT and not self.fails)

    def condition(self, pod: Mapping[str, Any]) -> ConditionResult:
        """Return the result of its matchConditions for a pod."""
        return evaluate_conditions(self.conditions, pod)

    def missing(self, namespace_labels: Labels, labels: Labels, pod: Mapping[str, Any] | None) -> str:
        """Return the requirements that a pod does not meet, as text."""
        unmet = self.unmet(namespace_labels, labels)
        if not unmet and pod is not None:
            unmet = (self.condition(pod).detail,)
        return ", ".join(unmet)


LiveWebhooks: TypeAlias = Webhooks[LiveWebhook]


def live_webhooks(configurations: Iterable[Mapping[str, Any]]) -> LiveWebhooks:
    """Return the webhooks of MutatingWebhookConfigurations that call an injector, in the API server's order.

    They are found by their rules, and by their path or Istio's names: a managed control plane has paths of its own. The API server sorts
    the configurations by name and keeps the order of the webhooks in each (k8s.io/apiserver/pkg/admission/configuration/
    mutating_webhook_manager.go, v0.35). Raises ManifestError if Kubernetes refuses a configuration.
    """
    ordered = sorted(
        map(read_configuration, configurations), key=lambda configuration: str(configuration["metadata"]["name"])
    )
    return Webhooks(webhook for configuration in ordered for webhook in _of_configuration(configuration))


def _of_configuration(configuration: Mapping[str, Any]) -> Iterator[LiveWebhook]:
    metadata = configuration["metadata"]
    labels = metadata.get("labels") or {}
    for raw in configuration["webhooks"]:
        client = raw["clientConfig"]
        service, path = client.get("service"), path_of(client)
        is_injector = is_injectors(path) or raw["name"].endswith(SUFFIX)
        if is_injector and any(map(_is_for_pods, raw.get("rules") or ())):
            namespaces, pods = (Selector.compile(raw[key]) for key in SELECTORS)
            yield LiveWebhook(
                name=raw["name"],
                namespace=namespaces,
                object=pods,
                configuration=metadata["name"],
                path=path,
                tag=labels.get(TAG_LABEL, ""),
                revision=labels.get(REVISION_LABEL, ""),
                service=Service(service["name"], service["namespace"]) if service else None,
                fails=raw.get("failurePolicy", "Fail") == "Fail",
                trusted=bool(client.get("caBundle")),
                conditions=tuple(
                    (condition["name"], condition["expression"]) for condition in raw.get("matchConditions") or ()
                ),
            )


def _is_for_pods(rule: Mapping[str, Any]) -> bool:
    """Return whether a rule matches the creation of pods, which are in namespaces."""
    words_match = all({"*", "*/*", *words} & set(rule.get(key) or ()) for key, words in RULE.items())
    return words_match and rule.get("scope", "*") in ("*", "Namespaced")


def istios_webhooks(options_by_name: Mapping[str, WebhookOptions]) -> LiveWebhooks:
    """Return the webhooks that Istio has for revisions and tags, by their names and the options of each; see ``LiveWebhook.assumed``."""
    return Webhooks(webhook for name, options in sorted(options_by_name.items()) for webhook in _istios(name, options))


@lru_cache(maxsize=1024)
def _istios(name: str, options: WebhookOptions) -> tuple[LiveWebhook, ...]:
    webhooks = _of_configuration(revision_webhook(name, options))
    return tuple(replace(webhook, configuration=name, assumed=True) for webhook in webhooks)


def read_configuration(obj: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata and the webhooks of a MutatingWebhookConfiguration. Raises ManifestError if Kubernetes refuses it."""
    metadata = normalise(obj.get("metadata"), "v1.ObjectMeta", coerce=True) or {}
    where, webhooks = f"MutatingWebhookConfiguration {metadata.get('name', '')}", obj.get("webhooks") or []
    if not isinstance(webhooks, list) or not all(map(_is_webhook, webhooks)):
        hint = "read it with `kubectl get -o yaml`"
        raise ManifestError("a webhook is not valid", where=where, hint=hint)
    return {"metadata": {"name": "", **metadata}, "webhooks": [_read_webhook(webhook, where) for webhook in webhooks]}


def _is_webhook(raw: Any) -> bool:
    client = raw.get("clientConfig") if isinstance(raw, dict) and isinstance(raw.get("name"), str) else None
    if not isinstance(client, dict) or not all(isinstance(client.get(key, ""), str) for key in ("url", "caBundle")):
        return False
    service, rules, conditions = client.get("service"), raw.get("rules") or [], raw.get("matchConditions") or []
    has_service = service is None or (
        isinstance(service, dict) and all(isinstance(service.get(key), str) for key in ("name", "namespace"))
    )
    has_lists = isinstance(rules, list) and isinstance(conditions, list)
    return has_service and has_lists and all(map(_is_rule, rules)) and all(map(_is_condition, conditions))


def _is_condition(raw: Any) -> bool:
    return isinstance(raw, dict) and all(isinstance(raw.get(key), str) for key in ("name", "expression"))


def _is_rule(raw: Any) -> bool:
    lists = [raw.get(key) or [] for key in RULE] if isinstance(raw, dict) else [None]
    return all(isinstance(words, list) and all(isinstance(word, str) for word in words) for words in lists)


def _read_webhook(raw: Mapping[str, Any], where: str) -> dict[str, Any]:
    selectors = {key: raw.get(key) or {} for key in SELECTORS}
    for key, selector in selectors.items():
        Selector.compile(selector, where=f"{where}: {key}")
        selectors[key] = normalise(selector, "v1.LabelSelector", keep_unknown=False, coerce=True)
    return {**raw, **selectors}


def precedence_of(webhooks: Iterable[LiveWebhook]) -> str:
    """Return the precedence of a cluster's webhooks: ``pod`` if one for labelled namespaces leaves out labelled pods."""
    leaves_out = any(
        any(
            requirement.key == REVISION_LABEL and requirement.operator == "In"
            for requirement in webhook.namespace.requirements
        )
        and any(requirement.key == REVISION_LABEL for requirement in webhook.object.requirements)
        for webhook in webhooks
    )
    return POD if leaves_out else NAMESPACE


def options_of(configuration: Mapping[str, Any], name: str) -> WebhookOptions | None:
    """Return the options of a configuration; None if its path is not ``/inject/<name>`` with or without pairs.

    With another path, the configuration is not the injector's: all of Istio's have path ``/inject``. The options of the object's name
    and the caBundle keep their defaults.
    """
    webhook = next(iter(sidecar_webhooks(configuration)), None)
    if webhook is None or not has_path_of(webhook["clientConfig"], name):
        return None
    client = webhook["clientConfig"]
    service, url = client.get("service") or {}, client.get("url")
    below, _, pairs = f"{url or service['path']}/".partition(f"{PATH_PREFIX}/{name}/")
    keys, values = pairs.split("/")[::2], pairs.split("/")[1::2]
    cluster, network = (dict(zip(keys, values, strict=False)).get(key, "") for key in PAIRS)
    port = service.get("port") or 443
    endpoint = Endpoint(url=below) if url else Endpoint(service["name"], service["namespace"], port)
    return WebhookOptions(
        endpoint=endpoint,
        failure_policy=webhook.get("failurePolicy") or FAILURE_POLICIES[0],
        timeout=webhook.get("timeoutSeconds"),
        reinvocation_policy=webhook.get("reinvocationPolicy") or REINVOCATION_POLICIES[0],
        precedence=precedence_of(live_webhooks([configuration])),
        cluster=unquote(cluster).replace(SLASH, "/"),
        network=unquote(network).replace(SLASH, "/"),
        match_conditions=tuple(
            (condition["name"], condition["expression"]) for condition in webhook.get("matchConditions") or ()
        ),
    )
