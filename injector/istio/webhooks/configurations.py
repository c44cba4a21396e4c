"""MutatingWebhookConfigurations of revisions and tags, as Istio installs them.

Follows Istio 1.30.3: manifests/charts/istio-control/istio-discovery/templates/mutatingwebhook.yaml and revision-tags-*.yaml, and
istioctl/pkg/tag/generate.go. Labels and selectors are identical to Istio's, so that istioctl finds and lists the configurations. Three
things differ: labels by which Helm and Argo CD recognise their own objects are left out, the Service is the injector's, and the path is
``/inject/<revision or tag>``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias
from urllib.parse import quote, urlsplit, urlunsplit

from injector.istio.labels import (
    DEFAULT_NAME,
    INJECT_LABEL,
    INJECTION_LABEL,
    ISTIO_NAMESPACE,
    NAME_LABEL,
    NAMESPACE,
    POD,
    REVISION_LABEL,
    SYSTEM_NAMESPACES,
    TAG_LABEL,
)
from injector.istio.webhooks.paths import PAIRS, PATH_PREFIX, SLASH

FAILURE_POLICIES: Final = ("Fail", "Ignore")
REINVOCATION_POLICIES: Final = ("Never", "IfNeeded")
TIMEOUTS: Final = range(1, 31)
"""The seconds that the API server takes as a webhook's timeout (k8s.io/kubernetes, admissionregistration/validation)."""
UNSERVED_ACTIONS: Final = ("warn", "deny")
"""The actions of the unserved-name webhook, which checks pods whose labels name a revision or tag that is not served."""
UNSERVED_KINDS: Final = ("namespace", "pod")
"""The objects whose label ``istio.io/rev`` names a revision or tag: the namespace's label takes precedence over the pod's."""
SELECTORS: Final = ("namespaceSelector", "objectSelector")
RULE: Final = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
SUFFIX: Final = "sidecar-injector.istio.io"
"""The end of the names of Istio's webhooks."""
_UNSERVED_NAME: Final = "injector-unserved"
# Istio's analyzer takes each webhook whose name ends with istio.io for one that injects.
_UNSERVED_SUFFIX: Final = "unserved.revision-injector"
# This webhook only checks, so it must not delay pods for long if the injector does not answer.
_UNSERVED_TIMEOUT: Final = 2
# Selectors that match nothing (istioctl/pkg/util/common.go, NeverMatch).
_NEVER: Final = {key: {"matchLabels": {"istio.io/deactivated": "never-match"}} for key in SELECTORS}

# The labels of the chart as istioctl and the operator render it, without those of an owner: for every configuration, and only for a
# revision's.
CHART_LABELS: Final = {
    "app": "sidecar-injector",
    "app.kubernetes.io/name": "istiod",
    "app.kubernetes.io/part-of": "istio",
    "app.kubernetes.io/version": "1.0.0",
    "release": "istio",
}
_INSTALLED: Final = {"install.operator.istio.io/owning-resource": "unknown", "operator.istio.io/component": "Pilot"}

_Requirement: TypeAlias = tuple[str, str, tuple[str, ...]]
"""A key, an operator and values."""


@dataclass(frozen=True, slots=True)
class _Case:
    """A webhook of a configuration: the start of its name, and the label requirements for namespaces and pods."""

    prefix: str
    namespaces: tuple[_Requirement, ...]
    pods: tuple[_Requirement, ...]


_NO_ENABLEMENT: Final = (INJECTION_LABEL, "DoesNotExist", ())
_NO_REVISION: Final = (REVISION_LABEL, "DoesNotExist", ())
_NOT_REFUSED: Final = (INJECT_LABEL, "NotIn", ("false",))


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
        values = zip(PAIRS, (self.cluster, self.network), strict=True)
        return "".join(f"/{key}/{quote(value.replace('/', SLASH), safe='')}" for key, value in values if value)


def revision_webhook(revision: str, options: WebhookOptions) -> dict[str, Any]:
    """Return the MutatingWebhookConfiguration of a revision; ``default`` is also called for ``istio-injection``."""
    name = "istio-sidecar-injector" if revision == DEFAULT_NAME else f"istio-sidecar-injector-{revision}"
    labels = {**CHART_LABELS, **_INSTALLED, REVISION_LABEL: revision}
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
    metadata: dict[str, Any] = {"name": name, "labels": {**CHART_LABELS, REVISION_LABEL: revision, TAG_LABEL: tag}}
    if annotations:
        metadata["annotations"] = dict(annotations)
    return _configuration(metadata, tag, options)


def sidecar_webhooks(configuration: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the webhooks of a configuration that inject sidecars, by Istio's names."""
    return [webhook for webhook in configuration.get("webhooks") or () if webhook["name"].endswith(SUFFIX)]


def is_deactivated(configuration: Mapping[str, Any]) -> bool:
    """Tell whether the selectors of a configuration match nothing."""
    return all({**webhook, **_NEVER} == webhook for webhook in configuration.get("webhooks") or ())


def deactivate(configuration: dict[str, Any]) -> dict[str, Any]:
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
    case: _Case, path: str, options: WebhookOptions, name: str = "", *, suffix: str = SUFFIX
) -> dict[str, Any]:
    client = options.endpoint.client_config(path, name)
    if options.ca_bundle is not None:
        client["caBundle"] = options.ca_bundle
    webhook: dict[str, Any] = {
        "name": case.prefix + suffix,
        "clientConfig": client,
        "sideEffects": "None",
        "rules": [{key: list(words) for key, words in RULE.items()}],
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
