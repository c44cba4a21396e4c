"""MutatingWebhookConfigurations: written as Istio installs them, read from a cluster, and checked for overlaps.

Follows Istio 1.30.3: manifests/charts/istio-control/istio-discovery/templates/mutatingwebhook.yaml and revision-tags-*.yaml,
manifests/charts/default/templates/validatingwebhook.yaml, istioctl/pkg/tag/generate.go, and
pkg/config/analysis/analyzers/webhook/webhook.go. Labels and selectors are identical to Istio's, so that istioctl finds and lists the
configurations. Three things differ: labels by which Helm and Argo CD recognise their own objects are left out, the Service is the
injector's, and the path is ``/inject/<revision or tag>``, so that one process can serve them all.

The other objects of a tag lead to istiod, as Istio's own do: a Service, and for the tag ``default`` a ValidatingWebhookConfiguration.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cache, lru_cache
from typing import Any, Final, Generic, TypeAlias, TypeVar
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from injector.errors import ManifestError
from injector.kube.selectors import Requirement, Selector
from injector.kube.typed import normalise

Labels: TypeAlias = Mapping[str, str]

DEFAULT_NAME: Final = "default"
"""The revision, and the tag, that also serves ``istio-injection=enabled``."""
ISTIO_NAMESPACE: Final = "istio-system"
REVISION_LABEL: Final = "istio.io/rev"
TAG_LABEL: Final = "istio.io/tag"
NAME_LABEL: Final = "kubernetes.io/metadata.name"
"""The label with its name that the API server gives every namespace."""
FAILURE_POLICIES: Final = ("Fail", "Ignore")
REINVOCATION_POLICIES: Final = ("Never", "IfNeeded")
NAMESPACE: Final = "namespace"
POD: Final = "pod"
PRECEDENCES: Final = (NAMESPACE, POD)
"""The objects whose label ``istio.io/rev`` counts if both a pod and its namespace have one; Istio's is ``namespace``."""
TIMEOUTS: Final = range(1, 31)
"""The seconds that the API server takes as a webhook's timeout (k8s.io/kubernetes, admissionregistration/validation)."""

ANNOTATIONS: Final = "revision-injector/"
"""The prefix of the injector's own annotations."""

INJECTION_LABEL: Final = "istio-injection"
INJECT_LABEL: Final = "sidecar.istio.io/inject"
UNSERVED_ACTIONS: Final = ("warn", "deny")
"""The actions of the unserved-name webhook, which checks pods whose labels name a revision or tag that is not served."""
UNSERVED_KINDS: Final = ("namespace", "pod")
"""The objects whose label ``istio.io/rev`` names a revision or tag: the namespace's label takes precedence over the pod's."""

PATH_PREFIX: Final = "/inject"
_PAIRS: Final = ("cluster", "net")
SLASH: Final = "--slash--"
"""Stands for a slash in the values of the pairs (pkg/kube/inject/webhook.go, URLParameterToEnv)."""
_SUFFIX: Final = "sidecar-injector.istio.io"
# Istio's analyzer takes each webhook whose name ends with istio.io for one that injects.
_UNSERVED_NAME: Final = "injector-unserved"
_UNSERVED_SUFFIX: Final = "unserved.revision-injector"
# This webhook only checks, so it must not delay pods for long if the injector does not answer.
_UNSERVED_TIMEOUT: Final = 2
_NO_ENABLEMENT: Final = (INJECTION_LABEL, "DoesNotExist", ())
_NO_REVISION: Final = (REVISION_LABEL, "DoesNotExist", ())
_NOT_REFUSED: Final = (INJECT_LABEL, "NotIn", ("false",))
SYSTEM_NAMESPACES: Final = ("kube-system", "kube-public", "kube-node-lease", "local-path-storage")
"""The namespaces that Istio never injects (pkg/kube/inject/inject.go, IgnoredNamespaces)."""
# Selectors that match nothing (istioctl/pkg/util/common.go, NeverMatch).
_NEVER: Final = {
    key: {"matchLabels": {"istio.io/deactivated": "never-match"}} for key in ("namespaceSelector", "objectSelector")
}
_RULE: Final = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}

_Requirement: TypeAlias = tuple[str, str, tuple[str, ...]]
"""A key, an operator and values."""


@dataclass(frozen=True, slots=True)
class _Case:
    """A webhook of a configuration: the start of its name, and the label requirements for namespaces and pods."""

    prefix: str
    namespaces: tuple[_Requirement, ...]
    pods: tuple[_Requirement, ...]


def _by_revision(prefixes: tuple[str, str], revision: _Requirement, precedence: str) -> tuple[_Case, ...]:
    """Return the webhooks for namespaces and for pods whose label ``istio.io/rev`` meets a requirement.

    ``precedence`` is values.sidecarInjectorWebhook.revisionLabelPrecedence, istio/istio#60377.
    """
    pod_first = precedence == POD
    of_namespace = _NOT_REFUSED, *((_NO_REVISION,) if pod_first else ())
    of_pod = *(() if pod_first else (_NO_REVISION,)), _NO_ENABLEMENT
    return (
        _Case(prefixes[0], (revision, _NO_ENABLEMENT), of_namespace),
        _Case(prefixes[1], of_pod, (_NOT_REFUSED, revision)),
    )


_DEFAULT: Final = (
    _Case("namespace.", ((INJECTION_LABEL, "In", ("enabled",)),), (_NOT_REFUSED,)),
    _Case("object.", (_NO_ENABLEMENT, _NO_REVISION), ((INJECT_LABEL, "In", ("true",)), _NO_REVISION)),
)
_AUTO: Final = (
    _Case(
        "auto.",
        (_NO_ENABLEMENT, _NO_REVISION, (NAME_LABEL, "NotIn", SYSTEM_NAMESPACES)),
        ((INJECT_LABEL, "DoesNotExist", ()), _NO_REVISION),
    ),
)

# The labels of the chart as istioctl and the operator render it, without those of an owner: for every configuration, and only for a
# revision's.
_LABELS: Final = {
    "app": "sidecar-injector",
    "app.kubernetes.io/name": "istiod",
    "app.kubernetes.io/part-of": "istio",
    "app.kubernetes.io/version": "1.0.0",
    "release": "istio",
}
_INSTALLED: Final = {"install.operator.istio.io/owning-resource": "unknown", "operator.istio.io/component": "Pilot"}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The address of the injector for the API server: a Service, or a URL if there is one.

    ``url`` may end before the path, after ``/inject``, or after ``/inject/<name>``: requests for ``name`` always go to
    ``/inject/<name>`` below it.
    """

    service: str = "injector"
    namespace: str = "injector-system"
    port: int = 443
    url: str | None = None

    def client_config(self, path: str, name: str = "") -> dict[str, Any]:
        """Return the ``clientConfig`` of a webhook with a path, without the caBundle; ``name`` is its revision or tag."""
        if self.url is None:
            return {"service": {"name": self.service, "namespace": self.namespace, "path": path, "port": self.port}}
        parts = urlsplit(self.url)
        below = parts.path.rstrip("/").removesuffix(f"{PATH_PREFIX}/{name}").removesuffix(PATH_PREFIX)
        return {"url": urlunsplit(parts._replace(path=f"{below}{path}"))}


@dataclass(frozen=True, slots=True)
class WebhookOptions:
    """Options of configurations; the defaults are Istio's.

    ``ca_bundle`` is PEM in base64; None if another component sets it. ``timeout`` is in seconds; None leaves it to the API server, which
    waits 10. ``istio_namespace``, if it is not ``istio-system``, becomes a part of the names. With ``auto_inject``, the default also
    injects namespaces and pods without any label. ``precedence`` is one of ``PRECEDENCES``; all configurations of a cluster must have the
    same, or some pods match two. ``cluster`` and ``network`` are those of the proxies, if the revision's values do not name them.
    ``match_conditions`` are the name and the CEL expression of each condition that a pod must meet.
    """

    endpoint: Endpoint = field(default_factory=Endpoint)
    ca_bundle: str | None = None
    failure_policy: str = "Fail"
    timeout: int | None = None
    reinvocation_policy: str = "Never"
    istio_namespace: str = ISTIO_NAMESPACE
    auto_inject: bool = False
    precedence: str = NAMESPACE
    cluster: str = ""
    network: str = ""
    match_conditions: tuple[tuple[str, str], ...] = ()

    @property
    def pairs(self) -> str:
        """The end of the path of a webhook: Istio's pairs for the cluster and the network."""
        values = zip(_PAIRS, (self.cluster, self.network), strict=True)
        return "".join(f"/{key}/{quote(value.replace('/', SLASH), safe='')}" for key, value in values if value)


def revision_webhook(revision: str, options: WebhookOptions) -> dict[str, Any]:
    """Return the MutatingWebhookConfiguration of a revision; ``default`` is also called for ``istio-injection``."""
    name = "istio-sidecar-injector" if revision == DEFAULT_NAME else f"istio-sidecar-injector-{revision}"
    labels = {**_LABELS, **_INSTALLED, REVISION_LABEL: revision}
    return _configuration({"name": _in_namespace(name, options), "labels": labels}, revision, options)


def tag_webhook(
    tag: str,
    revision: str,
    options: WebhookOptions,
    *,
    webhook_name: str | None = None,
    annotations: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return the MutatingWebhookConfiguration of a tag; ``default`` is also called for ``istio-injection``.

    ``webhook_name`` is the name of the object if it is not Istio's own. ``annotations`` are those of the revision's configuration in the
    cluster, which istioctl copies.
    """
    name = webhook_name or _in_namespace(f"istio-revision-tag-{tag}", options)
    metadata: dict[str, Any] = {"name": name, "labels": {**_LABELS, REVISION_LABEL: revision, TAG_LABEL: tag}}
    if annotations:
        metadata["annotations"] = dict(annotations)
    return _configuration(metadata, tag, options)


VALIDATOR_NAME: Final = "istiod-default-validator"
"""The ValidatingWebhookConfiguration of the tag ``default``."""
_CONFIG_GROUPS: Final = ("security", "networking", "telemetry", "extensions")
_ISTIOD_PORTS: Final = (("grpc-xds", 15010), ("https-dns", 15012), ("https-webhook", 443), ("http-monitoring", 15014))
_TARGET_PORTS: Final = {"https-webhook": 15017}


def tag_service(tag: str, revision: str, istio_namespace: str) -> dict[str, Any]:
    """Return the Service of a tag, which selects the istiod of its revision (since Istio 1.28)."""
    ports = [
        {"name": name, "port": port, "protocol": "TCP", "targetPort": _TARGET_PORTS.get(name, port)}
        for name, port in _ISTIOD_PORTS
    ]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": f"istiod-revision-tag-{tag}",
            "namespace": istio_namespace,
            "labels": {**_LABELS, "app": "istiod", "istio": "pilot", REVISION_LABEL: revision, TAG_LABEL: tag},
        },
        "spec": {"ports": ports, "selector": {"app": "istiod", REVISION_LABEL: revision}},
    }


def default_validator(revision: str, istio_namespace: str, current: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the ValidatingWebhookConfiguration of the tag ``default``, which calls the istiod of its revision (since Istio 1.12).

    The failure policy of ``current`` and its URL, that of an istiod outside the cluster, stay. istiod sets the caBundle and the failure
    policy of each configuration with its revision's label.
    """
    before: Mapping[str, Any] = next(iter((current or {}).get("webhooks") or ()), {})
    url = (before.get("clientConfig") or {}).get("url")
    name = "istiod" if revision == DEFAULT_NAME else f"istiod-{revision}"
    service = {"name": name, "namespace": istio_namespace, "path": "/validate"}
    webhook = {
        "name": "validation.istio.io",
        "clientConfig": {"url": url} if url else {"service": service},
        "rules": [
            {
                "operations": ["CREATE", "UPDATE"],
                "apiGroups": [f"{group}.istio.io" for group in _CONFIG_GROUPS],
                "apiVersions": ["*"],
                "resources": ["*"],
            }
        ],
        "failurePolicy": before.get("failurePolicy") or "Ignore",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "objectSelector": {"matchExpressions": [{"key": REVISION_LABEL, "operator": "DoesNotExist"}]},
    }
    labels = {**_LABELS, "app": "istiod", "istio": "istiod", REVISION_LABEL: revision, TAG_LABEL: DEFAULT_NAME}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": VALIDATOR_NAME, "labels": labels},
        "webhooks": [webhook],
    }


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
    cluster, network = (dict(zip(keys, values, strict=False)).get(key, "") for key in _PAIRS)
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
        match_conditions=tuple((each["name"], each["expression"]) for each in webhook.get("matchConditions") or ()),
    )


def sidecar_webhooks(configuration: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the webhooks of a configuration that inject sidecars, by Istio's names."""
    return [each for each in configuration.get("webhooks") or () if each["name"].endswith(_SUFFIX)]


def has_path_of(client_config: Mapping[str, Any], name: str) -> bool:
    """Tell whether a webhook calls ``/inject/<name>``, with or without pairs."""
    return f"{PATH_PREFIX}/{name}/" in f"{_path_of(client_config)}/"


def is_deactivated(configuration: Mapping[str, Any]) -> bool:
    """Tell whether the selectors of a configuration match nothing."""
    return all({**webhook, **_NEVER} == webhook for webhook in configuration.get("webhooks") or ())


def deactivated(configuration: dict[str, Any]) -> dict[str, Any]:
    """Return a configuration with selectors that match nothing.

    Istio deactivates the revision ``default`` when a tag takes over that name, since both would inject the same pods.
    """
    return {**configuration, "webhooks": [{**webhook, **_NEVER} for webhook in configuration["webhooks"]]}


def unserved_webhook(action: str, options: WebhookOptions) -> dict[str, Any]:
    """Return the MutatingWebhookConfiguration that is called for every pod whose labels name a revision or tag.

    It never prevents pods from being created if the injector does not answer: its failure policy is ``Ignore``, and it excludes the
    namespaces that Istio never injects and the injector's own. ``action``, ``warn`` or ``deny``, is the response for a pod that names a
    revision or tag that is not served.
    """
    options = replace(
        options, failure_policy="Ignore", reinvocation_policy="Never", timeout=options.timeout or _UNSERVED_TIMEOUT
    )
    excluded = (NAME_LABEL, "NotIn", (*SYSTEM_NAMESPACES, options.endpoint.namespace))
    # The selectors do not list the served names: such a list would be outdated at once when a revision or tag is removed, which is when
    # it is needed. In return, the injector gets one more call for each labelled pod, which renders nothing: 0.07 ms for a review of 6 KB.
    cases = _by_revision(("namespace.", "pod."), (REVISION_LABEL, "Exists", ()), options.precedence)
    webhooks = [
        _webhook(
            _Case(case.prefix, (excluded, *case.namespaces), case.pods),
            f"/unserved/{action}/{kind}",
            options,
            suffix=_UNSERVED_SUFFIX,
        )
        for case, kind in zip(cases, UNSERVED_KINDS, strict=True)
    ]
    # None of Istio's labels: istioctl and `serve --from-cluster` would read it as the configuration of a revision or tag.
    labels = {"app.kubernetes.io/name": "injector"}
    return _document({"name": _in_namespace(_UNSERVED_NAME, options), "labels": labels}, webhooks)


def is_unserved_webhook(configuration: Mapping[str, Any]) -> bool:
    """Tell whether a configuration is that of ``unserved_webhook``."""
    return bool(configuration["metadata"]["name"].startswith(_UNSERVED_NAME))


def _configuration(metadata: dict[str, Any], name: str, options: WebhookOptions) -> dict[str, Any]:
    cases = _by_revision(("rev.namespace.", "rev.object."), (REVISION_LABEL, "In", (name,)), options.precedence)
    if name == DEFAULT_NAME:
        cases += _DEFAULT + (_AUTO if options.auto_inject else ())
    path = f"{PATH_PREFIX}/{name}{options.pairs}"
    return _document(metadata, [_webhook(case, path, options, name) for case in cases])


def _document(metadata: dict[str, Any], webhooks: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": metadata,
        "webhooks": webhooks,
    }


def _webhook(
    case: _Case, path: str, options: WebhookOptions, name: str = "", *, suffix: str = _SUFFIX
) -> dict[str, Any]:
    client = options.endpoint.client_config(path, name)
    if options.ca_bundle is not None:
        client["caBundle"] = options.ca_bundle
    webhook: dict[str, Any] = {
        "name": case.prefix + suffix,
        "clientConfig": client,
        "sideEffects": "None",
        "rules": [{key: list(words) for key, words in _RULE.items()}],
        "failurePolicy": options.failure_policy,
        "reinvocationPolicy": options.reinvocation_policy,
        "admissionReviewVersions": ["v1"],
        "namespaceSelector": _selector(case.namespaces),
        "objectSelector": _selector(case.pods),
    }
    if options.timeout is not None:
        webhook["timeoutSeconds"] = options.timeout
    if options.match_conditions:
        webhook["matchConditions"] = [
            {"name": name, "expression": expression} for name, expression in options.match_conditions
        ]
    return webhook


def _selector(expressions: tuple[_Requirement, ...]) -> dict[str, Any]:
    return {
        "matchExpressions": [
            {"key": key, "operator": operator} | ({"values": list(values)} if values else {})
            for key, operator, values in expressions
        ]
    }


def _in_namespace(name: str, options: WebhookOptions) -> str:
    return name if options.istio_namespace == ISTIO_NAMESPACE else f"{name}-{options.istio_namespace}"


@dataclass(frozen=True, slots=True)
class Webhook:
    """A webhook, which is called for pods that both selectors match."""

    name: str
    namespace: Selector
    object: Selector

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


@cache
def webhooks_of(name: str, precedence: str = NAMESPACE) -> tuple[Webhook, ...]:
    """Return the webhooks of a revision or tag; those of ``default`` are also called for ``istio-injection``."""
    return tuple(
        Webhook(raw["name"], Selector.compile(raw["namespaceSelector"]), Selector.compile(raw["objectSelector"]))
        for raw in revision_webhook(name, WebhookOptions(precedence=precedence))["webhooks"]
    )


def called(
    names: Iterable[str], namespace_labels: Labels, labels: Labels, precedence: str = NAMESPACE
) -> tuple[tuple[str, Webhook], ...]:
    """Return the webhooks that the API server calls for a pod with these labels, each with its name, one of ``names``."""
    return tuple(
        (name, webhook)
        for name in names
        for webhook in webhooks_of(name, precedence)
        if not webhook.unmet(namespace_labels, labels)
    )


def passed_over(namespace_labels: Labels, labels: Labels, precedence: str = NAMESPACE) -> tuple[str, ...]:
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


def unserved(
    namespace_labels: Labels, labels: Labels, names: Collection[str], precedence: str = NAMESPACE
) -> str | None:
    """Return the revision or tag that a pod without a webhook names in its labels, unless it is one of ``names``."""
    injection, rev = namespace_labels.get(INJECTION_LABEL), namespace_labels.get(REVISION_LABEL)
    if labels.get(INJECT_LABEL) == "false" or injection not in (None, "enabled"):
        return None
    own = labels.get(REVISION_LABEL)
    wanted = DEFAULT_NAME if injection else (own or rev if precedence == POD else rev or own)
    if wanted is None and labels.get(INJECT_LABEL) == "true":
        wanted = DEFAULT_NAME
    return None if wanted in names else wanted


def why_none(namespace_labels: Labels, labels: Labels, names: Collection[str], precedence: str = NAMESPACE) -> str:
    """Explain why no webhook of ``names`` is called for a pod with these labels."""
    injection, rev = namespace_labels.get(INJECTION_LABEL), namespace_labels.get(REVISION_LABEL)
    if labels.get(INJECT_LABEL) == "false":
        return f"the pod's label {INJECT_LABEL} is `false`"
    if injection is not None and injection != "enabled":
        return f"the namespace's label {INJECTION_LABEL} is `{injection}`"
    if injection is not None:
        return f"the namespace's label {INJECTION_LABEL} selects the default revision, which does not exist"
    own = labels.get(REVISION_LABEL)
    decides = rev is not None and not (precedence == POD and own is not None)
    owner, name = ("namespace", rev) if decides else ("pod", own)
    if name is not None:
        if name in names:
            what = "whose webhooks leave its pods out: compare them with `injector webhook generate`"
        else:
            what = f"which is not served{did_you_mean(name, names)}; known are {', '.join(sorted(names)) or 'none'}"
        return f"the {owner}'s label {REVISION_LABEL} names `{name}`, {what}"
    if DEFAULT_NAME not in names and labels.get(INJECT_LABEL) == "true":
        return f"the pod's label {INJECT_LABEL} selects the default revision, which does not exist"
    return (
        f"the namespace has neither {INJECTION_LABEL} nor {REVISION_LABEL}, "
        f"and the pod neither {REVISION_LABEL} nor {INJECT_LABEL}=true"
    )


@dataclass(frozen=True, slots=True)
class Service:
    """The Service that a webhook calls."""

    name: str
    namespace: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class LiveWebhook(Webhook):
    """A webhook of a cluster that calls an injector, by ``path``: ``/inject`` and anything below.

    ``tag`` and ``revision`` are the labels ``istio.io/tag`` and ``istio.io/rev`` of its MutatingWebhookConfiguration, or empty. A path
    without a name means this revision: Istio has a Service for each. ``service`` is None if it calls a URL. ``fails`` is whether a pod is
    refused if the injector does not answer, ``trusted`` whether it has a caBundle, and ``conditional`` whether it has matchConditions,
    which can exclude pods that the selectors match.
    """

    configuration: str
    path: str
    tag: str
    revision: str
    service: Service | None
    fails: bool
    trusted: bool
    conditional: bool


W = TypeVar("W", bound=Webhook)


class Webhooks(Generic[W]):
    """The webhooks of a cluster, in the API server's order.

    A large cluster has hundreds of webhooks, of which trying all takes 1 ms, and thousands of pods, but few namespaces that differ in the
    labels that selectors read. The webhooks whose selectors match a namespace are therefore found once for all that have these labels.
    """

    def __init__(self, webhooks: Iterable[W]) -> None:
        self.all = tuple(webhooks)
        self._keys = {requirement.key for each in self.all for requirement in each.namespace.requirements}
        self._by_namespace: dict[frozenset[tuple[str, str]], list[W]] = {}

    def __iter__(self) -> Iterator[W]:
        return iter(self.all)

    def __len__(self) -> int:
        return len(self.all)

    def called(self, namespace_labels: Labels, labels: Labels) -> list[W]:
        """Return the webhooks that are called for a pod with these labels."""
        key = frozenset(item for item in namespace_labels.items() if item[0] in self._keys)
        found = self._by_namespace.get(key)
        if found is None:
            found = [each for each in self.all if each.namespace.matches(namespace_labels)]
            self._by_namespace[key] = found
        return [each for each in found if each.object.matches(labels)]


LiveWebhooks: TypeAlias = Webhooks[LiveWebhook]


def precedence_of(webhooks: Iterable[LiveWebhook]) -> str:
    """Return the precedence of a cluster's webhooks: ``pod`` if one for labelled namespaces leaves out labelled pods."""
    leaves_out = any(
        any(each.key == REVISION_LABEL and each.operator == "In" for each in webhook.namespace.requirements)
        and any(each.key == REVISION_LABEL for each in webhook.object.requirements)
        for webhook in webhooks
    )
    return POD if leaves_out else NAMESPACE


def read_configuration(obj: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata and the webhooks of a MutatingWebhookConfiguration. Raises ManifestError if Kubernetes refuses it."""
    metadata = normalise(obj.get("metadata"), "v1.ObjectMeta", coerce=True) or {}
    where, webhooks = f"MutatingWebhookConfiguration {metadata.get('name', '')}", obj.get("webhooks") or []
    if not isinstance(webhooks, list) or not all(map(_is_webhook, webhooks)):
        hint = "read it with `kubectl get -o yaml`"
        raise ManifestError("a webhook is not valid", where=where, hint=hint)
    return {"metadata": {"name": "", **metadata}, "webhooks": [_read_webhook(each, where) for each in webhooks]}


def _is_webhook(raw: Any) -> bool:
    client = raw.get("clientConfig") if isinstance(raw, dict) and isinstance(raw.get("name"), str) else None
    if not isinstance(client, dict) or not all(isinstance(client.get(key, ""), str) for key in ("url", "caBundle")):
        return False
    service, rules = client.get("service"), raw.get("rules") or []
    has_service = service is None or (
        isinstance(service, dict) and all(isinstance(service.get(key), str) for key in ("name", "namespace"))
    )
    return has_service and isinstance(rules, list) and all(map(_is_rule, rules))


def _is_rule(raw: Any) -> bool:
    lists = [raw.get(key) or [] for key in _RULE] if isinstance(raw, dict) else [None]
    return all(isinstance(each, list) and all(isinstance(word, str) for word in each) for each in lists)


def _read_webhook(raw: Mapping[str, Any], where: str) -> dict[str, Any]:
    selectors = {key: raw.get(key) or {} for key in _NEVER}
    for key, selector in selectors.items():
        Selector.compile(selector, where=f"{where}: {key}")
        selectors[key] = normalise(selector, "v1.LabelSelector", keep_unknown=False, coerce=True)
    return {**raw, **selectors}


def live_webhooks(configurations: Iterable[Mapping[str, Any]]) -> LiveWebhooks:
    """Return the webhooks of MutatingWebhookConfigurations that call an injector, in the API server's order.

    They are found by their path and their rules, whatever their name. The API server sorts the configurations by name and keeps the order
    of the webhooks in each (k8s.io/apiserver/pkg/admission/configuration/mutating_webhook_manager.go, v0.35). Raises ManifestError if
    Kubernetes refuses a configuration.
    """
    ordered = sorted(map(read_configuration, configurations), key=lambda each: str(each["metadata"]["name"]))
    return Webhooks(webhook for each in ordered for webhook in _of_configuration(each))


def _of_configuration(configuration: Mapping[str, Any]) -> Iterator[LiveWebhook]:
    metadata = configuration["metadata"]
    labels = metadata.get("labels") or {}
    for raw in configuration["webhooks"]:
        client = raw["clientConfig"]
        service, path = client.get("service"), _path_of(client)
        if _is_injectors(path) and any(map(_is_for_pods, raw.get("rules") or ())):
            namespaces, pods = (Selector.compile(raw[key]) for key in _NEVER)
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
                conditional=bool(raw.get("matchConditions")),
            )


def _path_of(client: Mapping[str, Any]) -> str:
    service = client.get("service") or {}
    return str(service.get("path") or "") if service else urlsplit(str(client.get("url") or "")).path


def _is_injectors(path: str) -> bool:
    return path.partition("?")[0].rstrip("/") == PATH_PREFIX or path.startswith(f"{PATH_PREFIX}/")


def _is_for_pods(rule: Mapping[str, Any]) -> bool:
    return all({"*", "*/*", *words} & set(rule.get(key) or ()) for key, words in _RULE.items())


def overlaps(configuration: Mapping[str, Any], others: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the lines of ``overlapping`` about ``configuration``, which is to be written beside the others."""
    return overlapping([configuration, *others]).get(configuration["metadata"]["name"], ())


def overlapping(configurations: Iterable[Mapping[str, Any]]) -> dict[str, tuple[str, ...]]:
    """Return the webhooks that select pods of other webhooks, by configuration, in the words of Istio's analyzer.

    As in the analyzer, only Istio's configurations count. It tries every combination of the labels in Istio's selectors, with each
    revision that any selector names, and has a line for every set of webhooks that are called together.
    """
    known = [each for each in configurations if is_istios(each)]
    revisions = sorted({revision for each in known for revision in revisions_of(each)})
    webhooks = {
        f"{each['metadata']['name']}/{webhook['name']}": (each["metadata"]["name"], webhook)
        for each in known
        for webhook in each.get("webhooks") or ()
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
    return {name: tuple(sorted(found)) for name, found in lines.items()}


def _called_together(
    webhooks: Mapping[str, tuple[str, Mapping[str, Any]]], key: str, labels: Sequence[Labels]
) -> set[frozenset[str]]:
    """Return the sets of webhooks whose selector ``key`` matches the same labels; one that Kubernetes refuses matches nothing."""
    selectors = {name: Selector.compile_valid(webhook.get(key) or {}) for name, (_, webhook) in webhooks.items()}
    return {
        frozenset(name for name, selector in selectors.items() if selector is not None and selector.matches(each))
        for each in labels
    }


def _label_sets(base: Sequence[Labels], revisions: Iterable[str]) -> list[Labels]:
    return [*base, *({**labels, REVISION_LABEL: revision} for revision in revisions for labels in base)]


def is_istios(configuration: Mapping[str, Any]) -> bool:
    """Tell whether a configuration is Istio's, as its analyzer decides: by a revision or by the name of a webhook."""
    webhooks = configuration.get("webhooks") or ()
    return bool(revisions_of(configuration)) or any(map(_has_istios_name, webhooks))


def _has_istios_name(webhook: Mapping[str, Any]) -> bool:
    return bool(webhook["name"].endswith("istio.io"))


def injecting(configurations: Iterable[Mapping[str, Any]]) -> Webhooks[Webhook]:
    """Return the webhooks that call an injector: those with its path, and those that Istio's analyzer takes for one by their name."""
    return Webhooks(
        Webhook(raw["name"], *(Selector.compile(raw.get(key) or {}) for key in _NEVER))
        for each in configurations
        for raw in each.get("webhooks") or ()
        if _has_istios_name(raw) or _is_injectors(_path_of(raw.get("clientConfig") or {}))
    )


def revisions_of(configuration: Mapping[str, Any]) -> frozenset[str]:
    """Return every revision that a configuration names in its labels and selectors."""
    selectors = [webhook.get(key) or {} for webhook in configuration.get("webhooks") or () for key in _NEVER]
    labels = (configuration["metadata"].get("labels"), *(each.get("matchLabels") for each in selectors))
    found = {each[REVISION_LABEL] for each in labels if each and REVISION_LABEL in each}
    for selector in selectors:
        for expression in selector.get("matchExpressions") or ():
            if expression.get("key") == REVISION_LABEL:
                found.update(expression.get("values") or ())
    return frozenset(found)


# The longest label value (k8s.io/apimachinery/pkg/util/validation, LabelValueMaxLength). Admission webhooks see labels before the API
# server checks them.
MAX_LABEL_VALUE: Final = 63
# Comparing two names takes up to 0.1 ms, so the number of comparisons is limited.
_MAX_COMPARED: Final = 100


def did_you_mean(name: str, names: Collection[str]) -> str:
    """Return `` (did you mean X?)`` with the most similar of ``names``, or an empty text if none is similar."""
    similar = _most_similar(name[:MAX_LABEL_VALUE], frozenset(names))
    return f" (did you mean {similar}?)" if similar else ""


@lru_cache(maxsize=256)
def _most_similar(name: str, names: frozenset[str]) -> str | None:
    matches = get_close_matches(name.lower(), sorted(names)[:_MAX_COMPARED], n=1)
    return matches[0] if matches else None


def fitting_names(names: Iterable[str], *, room: int) -> str:
    """Return names in order, as many as fit into ``room`` characters, and the number of the others."""
    ordered = sorted(names)
    if not ordered:
        return "none"
    for count in range(min(len(ordered), room), 0, -1):
        rest = len(ordered) - count
        text = ", ".join(ordered[:count]) + (f" and {rest} more" if rest else "")
        if len(text) <= room:
            return text
    return f"{len(ordered)} names"
