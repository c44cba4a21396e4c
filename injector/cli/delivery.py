"""Whether a webhook's call reaches an injector, as far as the cluster's objects tell, and what comes of it where it does not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from injector.cluster.reader import ENDPOINT_SLICES, Scope
from injector.errors import ClusterError
from injector.injection.trace import PASSED, UNKNOWN, WARNING, Step

if TYPE_CHECKING:
    from collections.abc import Mapping

    from injector.cluster.reader import Reader
    from injector.istio.livewebhooks import LiveWebhook, Service

FAILURE_POLICY: Final = "failure_policy"
CA_BUNDLE: Final = "ca_bundle"
ENDPOINTS: Final = "endpoints"
# Which Service an EndpointSlice is of (k8s.io/api/discovery/v1, LabelServiceName).
_SERVICE_LABEL: Final = "kubernetes.io/service-name"


async def delivery_steps(reader: Reader, webhook: LiveWebhook) -> tuple[Step, ...]:
    """Return what the API server does when the injector does not answer, whether it can trust it, and whether anything is there.

    Raises:
        ClusterError: the API server cannot be reached.
    """
    source = f"MutatingWebhookConfiguration {webhook.configuration}"
    return (_failure_policy(webhook, source), _ca_bundle(webhook, source), await _endpoints(reader, webhook, source))


def _failure_policy(webhook: LiveWebhook, source: str) -> Step:
    if webhook.fails:
        return Step(FAILURE_POLICY, PASSED, "Fail: without an answer the pod is not created", source)
    return Step(FAILURE_POLICY, WARNING, "Ignore: without an answer the pod is created without a sidecar", source)


def _ca_bundle(webhook: LiveWebhook, source: str) -> Step:
    if webhook.trusted:
        return Step(CA_BUNDLE, PASSED, "there is one", source)
    detail = "it is empty: the API server trusts none but the authorities of its own host"
    return Step(CA_BUNDLE, WARNING, detail, source)


async def _endpoints(reader: Reader, webhook: LiveWebhook, source: str) -> Step:
    service = webhook.service
    if service is None:
        return Step(ENDPOINTS, UNKNOWN, "the webhook is called by URL, which is not tried here", source)
    scope = Scope(ENDPOINT_SLICES, service.namespace, f"{_SERVICE_LABEL}={service.name}")
    try:
        ready = sum(await reader.all(scope, _ready))
    except ClusterError as error:
        if error.reason != "forbidden":
            raise
        return Step(ENDPOINTS, UNKNOWN, f"they cannot be asked: {error}", source)
    return _counted(service, ready, webhook)


def _counted(service: Service, ready: int, webhook: LiveWebhook) -> Step:
    source = f"Service {service}"
    if ready:
        return Step(ENDPOINTS, PASSED, f"{ready} ready", source)
    outcome = "refused" if webhook.fails else "created without a sidecar"
    return Step(ENDPOINTS, WARNING, f"none is ready: pods are {outcome}", source)


def _ready(item: Mapping[str, Any]) -> int:
    """Return how many endpoints of a slice are ready; one whose condition is not said counts, as for the API server."""
    endpoints = item.get("endpoints") or ()
    return sum((each.get("conditions") or {}).get("ready") is not False for each in endpoints)
