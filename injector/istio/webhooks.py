"""MutatingWebhookConfigurations as Istio installs them, sent to the injector's own Service.

Follows Istio 1.30.3: manifests/charts/istio-control/istio-discovery/templates/mutatingwebhook.yaml and revision-tags-mwc.yaml, and
istioctl/pkg/tag/generate.go. Labels and selectors are Istio's to the letter, so that istioctl finds and lists what is written here;
the path is ``/inject/<revision or tag>``, which is how one process serves them all.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit, urlunsplit

if TYPE_CHECKING:
    from collections.abc import Mapping

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
_ENABLEMENT: Final = "istio-injection"
_INJECT: Final = "sidecar.istio.io/inject"
_NO_ENABLEMENT: Final = (_ENABLEMENT, "DoesNotExist", ())
_NO_REVISION: Final = (REVISION_LABEL, "DoesNotExist", ())
_OWN_REVISION: Final = (REVISION_LABEL, "In", (_OWN,))
_NOT_REFUSED: Final = (_INJECT, "NotIn", ("false",))
_NAMESPACE_NAME: Final = "kubernetes.io/metadata.name"
_HAS_REVISION: Final = (REVISION_LABEL, "Exists", ())
_SYSTEM_NAMESPACES: Final = ("kube-system", "kube-public", "kube-node-lease", "local-path-storage")
# What matches nothing (istioctl/pkg/util/common.go, NeverMatch).
_NEVER: Final = {"matchLabels": {"istio.io/deactivated": "never-match"}}
_SELECTORS: Final = ("namespaceSelector", "objectSelector")


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
    _Case("namespace.", ((_ENABLEMENT, "In", ("enabled",)),), (_NOT_REFUSED,)),
    _Case("object.", (_NO_ENABLEMENT, _NO_REVISION), ((_INJECT, "In", ("true",)), _NO_REVISION)),
)
_AUTO: Final = (
    _Case(
        "auto.",
        (_NO_ENABLEMENT, _NO_REVISION, (_NAMESPACE_NAME, "NotIn", _SYSTEM_NAMESPACES)),
        ((_INJECT, "DoesNotExist", ()), _NO_REVISION),
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
    return all(webhook.get(selector) == _NEVER for webhook in webhooks for selector in _SELECTORS)


def deactivated(configuration: dict[str, Any]) -> dict[str, Any]:
    """Return it with selectors that match nothing.

    Istio does so to the revision ``default`` when a tag takes over that name: both would inject the same pods.
    """
    never = dict.fromkeys(_SELECTORS, _NEVER)
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
