"""MutatingWebhookConfigurations as Istio installs them, sent to the injector's own Service.

Follows Istio 1.30.3: manifests/charts/istio-control/istio-discovery/templates/mutatingwebhook.yaml and revision-tags-mwc.yaml, and
istioctl/pkg/tag/generate.go. Labels and selectors are Istio's to the letter, so that istioctl finds and lists what is written here;
the path is ``/inject/<revision or tag>``, which is how one process serves them all.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit, urlunsplit

from injector.errors import ManifestError
from injector.istio.servednames import did_you_mean
from injector.kube.selectors import Selector

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from injector.kube.selectors import Requirement

    Labels = Mapping[str, str]

DEFAULT_NAME: Final = "default"
"""The revision, and the tag, that also serves ``istio-injection=enabled``."""
ISTIO_NAMESPACE: Final = "istio-system"
REVISION_LABEL: Final = "istio.io/rev"
TAG_LABEL: Final = "istio.io/tag"
FAILURE_POLICIES: Final = ("Fail", "Ignore")
REINVOCATION_POLICIES: Final = ("Never", "IfNeeded")
TIMEOUTS: Final = range(1, 31)
"""The seconds that the API server takes as a webhook's timeout (k8s.io/kubernetes, admissionregistration/validation)."""

_SUFFIX: Final = "sidecar-injector.istio.io"
_OWN: Final = "{name}"
INJECTION_LABEL: Final = "istio-injection"
INJECT_LABEL: Final = "sidecar.istio.io/inject"
_NO_ENABLEMENT: Final = (INJECTION_LABEL, "DoesNotExist", ())
_NO_REVISION: Final = (REVISION_LABEL, "DoesNotExist", ())
_OWN_REVISION: Final = (REVISION_LABEL, "In", (_OWN,))
_NOT_REFUSED: Final = (INJECT_LABEL, "NotIn", ("false",))
_NAMESPACE_NAME: Final = "kubernetes.io/metadata.name"
_HAS_REVISION: Final = (REVISION_LABEL, "Exists", ())
_SYSTEM_NAMESPACES: Final = ("kube-system", "kube-public", "kube-node-lease", "local-path-storage")
# What matches nothing (istioctl/pkg/util/common.go, NeverMatch).
_NEVER: Final = {"matchLabels": {"istio.io/deactivated": "never-match"}}
_SELECTOR_KEYS: Final = ("namespaceSelector", "objectSelector")


@dataclass(frozen=True, slots=True)
class _Case:
    """One webhook of a configuration: which namespaces and which pods it is for."""

    prefix: str
    namespaces: tuple[tuple[str, str, tuple[str, ...]], ...]
    pods: tuple[tuple[str, str, tuple[str, ...]], ...]


_EVERY: Final = (
    _Case("rev.namespace.", (_OWN_REVISION, _NO_ENABLEMENT), (_NOT_REFUSED,)),
    _Case("rev.object.", (_NO_REVISION, _NO_ENABLEMENT), (_NOT_REFUSED, _OWN_REVISION)),
)
_DEFAULT: Final = (
    _Case("namespace.", ((INJECTION_LABEL, "In", ("enabled",)),), (_NOT_REFUSED,)),
    _Case("object.", (_NO_ENABLEMENT, _NO_REVISION), ((INJECT_LABEL, "In", ("true",)), _NO_REVISION)),
)
_AUTO: Final = (
    _Case(
        "auto.",
        (_NO_ENABLEMENT, _NO_REVISION, (_NAMESPACE_NAME, "NotIn", _SYSTEM_NAMESPACES)),
        ((INJECT_LABEL, "DoesNotExist", ()), _NO_REVISION),
    ),
)

UNSERVED_ACTIONS: Final = ("warn", "deny")
"""What the webhook for names that nobody serves does about a pod."""
UNSERVED_KINDS: Final = ("namespace", "pod")
"""Whose label ``istio.io/rev`` names a revision or tag: Istio asks the namespace first, and the pod where it has none."""
# Which names are served is not a part of the selectors: a list in the cluster would be old at once when a revision or tag
# goes, and that is when it is needed. The price is a call for each labelled pod beside that of its own webhook, without a
# rendering: 0.07 ms of the injector for a review of 6 KB.
_UNSERVED: Final = (
    _Case("namespace.", (_HAS_REVISION, _NO_ENABLEMENT), (_NOT_REFUSED,)),
    _Case("pod.", (_NO_REVISION, _NO_ENABLEMENT), (_NOT_REFUSED, _HAS_REVISION)),
)
_UNSERVED_SUFFIX: Final = "unserved.injector.istio.io"
# What only looks may not hold a pod for long where the injector is away.
_UNSERVED_TIMEOUT: Final = 2

# The labels of the chart as istioctl and the operator render it: of every configuration, and of a revision's alone.
_LABELS: Final = {
    "app": "sidecar-injector",
    "app.kubernetes.io/instance": "istio",
    "app.kubernetes.io/managed-by": "Helm",
    "app.kubernetes.io/name": "istiod",
    "app.kubernetes.io/part-of": "istio",
    "app.kubernetes.io/version": "1.0.0",
    "helm.sh/chart": "istiod-1.0.0",
    "release": "istio",
}
_INSTALLED: Final = {"install.operator.istio.io/owning-resource": "unknown", "operator.istio.io/component": "Pilot"}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where the API server reaches the injector: a Service, or a URL where there is one.

    ``url`` may end before the path, after ``/inject``, or after ``/inject/<name>``: a request for ``name`` always goes to
    ``/inject/<name>`` below it.
    """

    service: str = "injector"
    namespace: str = "injector-system"
    port: int = 443
    url: str | None = None

    def client_config(self, name: str) -> dict[str, Any]:
        """Return the ``clientConfig`` of the webhooks of a revision or tag, without the caBundle."""
        return self._called(name, f"/inject/{name}")

    def unserved_config(self, action: str, kind: str) -> dict[str, Any]:
        """Return the ``clientConfig`` of a webhook for names that nobody serves, without the caBundle."""
        return self._called("", f"/unserved/{action}/{kind}")

    def _called(self, name: str, path: str) -> dict[str, Any]:
        if self.url is not None:
            return {"url": _with_path(self.url, name, path)}
        return {"service": {"name": self.service, "namespace": self.namespace, "path": path, "port": self.port}}


@dataclass(frozen=True, slots=True)
class WebhookOptions:
    """What configurations have in common; the defaults are Istio's.

    Args:
        endpoint: where the API server reaches the injector.
        ca_bundle: the certificates that it trusts, PEM in base64; None where another fills them in.
        failure_policy: ``Fail`` or ``Ignore``.
        timeout: in seconds; None leaves it to the API server, which waits 10.
        reinvocation_policy: ``Never`` or ``IfNeeded``.
        istio_namespace: Istio's own; one other than ``istio-system`` becomes a part of the names.
        auto_inject: whether the default also injects namespaces and pods that carry no label at all.
    """

    endpoint: Endpoint = field(default_factory=Endpoint)
    ca_bundle: str | None = None
    failure_policy: str = "Fail"
    timeout: int | None = None
    reinvocation_policy: str = "Never"
    istio_namespace: str = ISTIO_NAMESPACE
    auto_inject: bool = False


def revision_webhook(revision: str, options: WebhookOptions) -> dict[str, Any]:
    """Return the MutatingWebhookConfiguration of a revision; ``default`` also serves ``istio-injection``."""
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
    """Return the MutatingWebhookConfiguration of a tag; ``default`` also serves ``istio-injection``.

    Args:
        tag: the tag.
        revision: the revision that it leads to, for the label ``istio.io/rev``.
        options: the rest.
        webhook_name: the object's name, where it is not Istio's own.
        annotations: those of the revision's configuration in the cluster, which istioctl copies.
    """
    name = webhook_name or _in_namespace(f"istio-revision-tag-{tag}", options)
    metadata: dict[str, Any] = {"name": name, "labels": {**_LABELS, REVISION_LABEL: revision, TAG_LABEL: tag}}
    if annotations:
        metadata["annotations"] = dict(annotations)
    return _configuration(metadata, tag, options)


def options_of(configuration: Mapping[str, Any], name: str) -> WebhookOptions | None:
    """Return the options that a configuration was made with; None where its pods do not go to ``/inject/<name>``.

    Where they go elsewhere it is not the injector's: Istio's own all have path ``/inject``. What the options say of
    the object's name and of the caBundle is left at its default.
    """
    webhook = next((each for each in configuration.get("webhooks") or () if each["name"].endswith(_SUFFIX)), None)
    if webhook is None:
        return None
    client = webhook["clientConfig"]
    service, url = client.get("service") or {}, client.get("url")
    path = f"/inject/{name}"
    if not (url or service.get("path") or "").endswith(path):
        return None
    port = service.get("port") or 443
    endpoint = Endpoint(url=url.removesuffix(path)) if url else Endpoint(service["name"], service["namespace"], port)
    return WebhookOptions(
        endpoint=endpoint,
        failure_policy=webhook.get("failurePolicy") or FAILURE_POLICIES[0],
        timeout=webhook.get("timeoutSeconds"),
        reinvocation_policy=webhook.get("reinvocationPolicy") or REINVOCATION_POLICIES[0],
    )


def is_deactivated(configuration: Mapping[str, Any]) -> bool:
    """Tell whether its selectors match nothing."""
    webhooks = configuration.get("webhooks") or ()
    return all(webhook.get(selector) == _NEVER for webhook in webhooks for selector in _SELECTOR_KEYS)


def deactivated(configuration: dict[str, Any]) -> dict[str, Any]:
    """Return it with selectors that match nothing.

    Istio does so to the revision ``default`` when a tag takes over that name: both would inject the same pods.
    """
    never = dict.fromkeys(_SELECTOR_KEYS, _NEVER)
    return {**configuration, "webhooks": [{**webhook, **never} for webhook in configuration["webhooks"]]}


def unserved_webhook(action: str, options: WebhookOptions) -> dict[str, Any]:
    """Return the MutatingWebhookConfiguration that is called for every pod whose labels name a revision or tag.

    It never keeps a pod from being created by itself: its failure policy is ``Ignore``, and it leaves out the namespaces
    that Istio never injects and the injector's own.

    Args:
        action: ``warn`` or ``deny``: what is done about a pod whose name nobody serves.
        options: the rest.
    """
    webhooks = [_unserved(case, kind, action, options) for case, kind in zip(_UNSERVED, UNSERVED_KINDS, strict=True)]
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        # None of Istio's labels: istioctl, and `serve --from-cluster`, would take it for a revision's or a tag's.
        "metadata": {
            "name": _in_namespace("injector-unserved", options),
            "labels": {"app.kubernetes.io/name": "injector"},
        },
        "webhooks": webhooks,
    }


def _unserved(case: _Case, kind: str, action: str, options: WebhookOptions) -> dict[str, Any]:
    never = (*_SYSTEM_NAMESPACES, options.endpoint.namespace)
    elsewhere = replace(case, namespaces=((_NAMESPACE_NAME, "NotIn", never), *case.namespaces))
    quiet = replace(
        options, failure_policy="Ignore", reinvocation_policy="Never", timeout=options.timeout or _UNSERVED_TIMEOUT
    )
    webhook = _called(elsewhere, options.endpoint.unserved_config(action, kind), quiet)
    return {**webhook, "name": case.prefix + _UNSERVED_SUFFIX}


def _configuration(metadata: dict[str, Any], name: str, options: WebhookOptions) -> dict[str, Any]:
    cases: tuple[_Case, ...] = _EVERY
    if name == DEFAULT_NAME:
        cases += _DEFAULT + (_AUTO if options.auto_inject else ())
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": metadata,
        "webhooks": [_webhook(case, name, options) for case in cases],
    }


def _webhook(case: _Case, name: str, options: WebhookOptions) -> dict[str, Any]:
    return _called(case, options.endpoint.client_config(name), options, name)


def _called(case: _Case, client: dict[str, Any], options: WebhookOptions, name: str = "") -> dict[str, Any]:
    if options.ca_bundle is not None:
        client["caBundle"] = options.ca_bundle
    webhook = {
        "name": case.prefix + _SUFFIX,
        "clientConfig": client,
        "sideEffects": "None",
        "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}],
        "failurePolicy": options.failure_policy,
        "reinvocationPolicy": options.reinvocation_policy,
        "admissionReviewVersions": ["v1"],
        "namespaceSelector": _selector(case.namespaces, name),
        "objectSelector": _selector(case.pods, name),
    }
    return webhook if options.timeout is None else {**webhook, "timeoutSeconds": options.timeout}


def _selector(expressions: tuple[tuple[str, str, tuple[str, ...]], ...], name: str) -> dict[str, Any]:
    return {
        "matchExpressions": [
            {"key": key, "operator": operator}
            | ({"values": [name if value is _OWN else value for value in values]} if values else {})
            for key, operator, values in expressions
        ]
    }


def _in_namespace(name: str, options: WebhookOptions) -> str:
    return name if options.istio_namespace == ISTIO_NAMESPACE else f"{name}-{options.istio_namespace}"


def _with_path(url: str, name: str, path: str) -> str:
    parts = urlsplit(url)
    below = parts.path.rstrip("/").removesuffix(f"/inject/{name}").removesuffix("/inject")
    return urlunsplit(parts._replace(path=f"{below}{path}"))


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
    if rev is not None and INJECTION_LABEL in namespace_labels:
        found.append(f"the namespace's {REVISION_LABEL}={rev} does not count beside {INJECTION_LABEL}")
    if pods is not None and (INJECTION_LABEL in namespace_labels or (rev is not None and rev != pods)):
        found.append(f"the pod's {REVISION_LABEL}={pods} does not count: the namespace's label decides")
    return tuple(found)


def unserved(namespace_labels: Labels, labels: Labels, names: Collection[str]) -> str | None:
    """Return the revision or tag that the labels of a pod without a webhook ask for, where it is none of ``names``."""
    injection, rev = namespace_labels.get(INJECTION_LABEL), namespace_labels.get(REVISION_LABEL)
    if labels.get(INJECT_LABEL) == "false" or injection not in (None, "enabled"):
        return None
    wanted = DEFAULT_NAME if injection else rev or labels.get(REVISION_LABEL)
    if wanted is None and labels.get(INJECT_LABEL) == "true":
        wanted = DEFAULT_NAME
    return None if wanted in names else wanted


def why_none(namespace_labels: Labels, labels: Labels, names: Collection[str]) -> str:
    """Return why no webhook of ``names`` is called for a pod with these labels."""
    injection, rev = namespace_labels.get(INJECTION_LABEL), namespace_labels.get(REVISION_LABEL)
    known = f"known are {', '.join(sorted(names)) or 'none'}"
    if labels.get(INJECT_LABEL) == "false":
        return f"the pod's label {INJECT_LABEL} is `false`"
    if injection is not None and injection != "enabled":
        return f"the namespace's label {INJECTION_LABEL} is `{injection}`"
    if injection is not None:
        return f"the namespace's label {INJECTION_LABEL} asks for the default revision, and there is none"
    if rev is not None and rev not in names:
        return f"the namespace's label {REVISION_LABEL} names `{rev}`, which nobody serves{did_you_mean(rev, names)}; {known}"
    pods = labels.get(REVISION_LABEL)
    if rev is None and pods is not None:
        return (
            f"the pod's label {REVISION_LABEL} names `{pods}`, which nobody serves{did_you_mean(pods, names)}; {known}"
        )
    if DEFAULT_NAME not in names and labels.get(INJECT_LABEL) == "true":
        return f"the pod's label {INJECT_LABEL} asks for the default revision, and there is none"
    return f"the namespace has neither {INJECTION_LABEL} nor {REVISION_LABEL}, and the pod neither {REVISION_LABEL} nor {INJECT_LABEL}=true"


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


_NAMESPACES: Final[tuple[Labels, ...]] = ({}, {INJECTION_LABEL: "enabled"}, {INJECTION_LABEL: "disabled"})
_PODS: Final[tuple[Labels, ...]] = ({}, {INJECT_LABEL: "true"}, {INJECT_LABEL: "false"})
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
