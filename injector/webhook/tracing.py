"""OpenTelemetry spans of requests: one for each request, and a child for each of its stages.

The SDK reads the standard variables ``OTEL_*``, samples, batches and exports, in a thread of its own. Its packages are the extra
``tracing``, and are imported only if a variable names a collector. The parent of a span is that of the API server's header ``traceparent``
(https://kubernetes.io/docs/concepts/cluster-administration/system-traces/).

A span has names and reasons, as metrics and logs have, but nothing else of a pod.
"""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from injector.kube.admission import Request
from injector.metrics import TOTAL, Outcome

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opentelemetry.sdk.trace import TracerProvider

    from injector.webhook.answer import ReviewAnswer
    from injector.webhook.queue import Refusal

_log = logging.getLogger(__name__)

ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
PROTOCOL: Final = "http/protobuf"
SERVICE: Final = "revision-injector"
NAME: Final = "POST /inject"
_LONGEST_NAME: Final = 253


class Tracing:
    """Makes the spans of requests, and gives them to a provider of the SDK."""

    def __init__(self, provider: TracerProvider) -> None:
        from opentelemetry.propagate import extract  # noqa: PLC0415 -- the extra `tracing`
        from opentelemetry.trace import SpanKind, Status, StatusCode, set_span_in_context  # noqa: PLC0415 -- the same

        self._provider = provider
        self._tracer = provider.get_tracer("injector")
        self._extract, self._within = extract, set_span_in_context
        self._kind, self._error, self._status = SpanKind.SERVER, StatusCode.ERROR, Status

    def record(
        self, end_time: int, headers: Mapping[str, str], seconds: Mapping[str, float], answer: ReviewAnswer | Refusal
    ) -> None:
        """Make the spans of a request. ``ended`` is in nanoseconds since the epoch, and the seconds are those of ``Stopwatch.total``."""
        began = end_time - _nanoseconds(seconds[TOTAL])
        span = self._tracer.start_span(NAME, self._extract(headers), self._kind, start_time=began)
        if span.is_recording():
            attributes = attributes_of(answer)
            span.set_attributes(attributes)
            if attributes["injector.outcome"] == Outcome.FAILURE.value:
                span.set_status(self._status(self._error, str(attributes["injector.reason"])))
            within, start = self._within(span), began
            for stage, duration in seconds.items():
                if stage != TOTAL:
                    child = self._tracer.start_span(stage, within, start_time=start)
                    start += _nanoseconds(duration)
                    child.end(start)
        span.end(end_time)

    def close(self) -> None:
        """Export the spans that are left. If the collector does not answer, that takes until ``OTEL_EXPORTER_OTLP_TIMEOUT``."""
        self._provider.shutdown()


def _nanoseconds(seconds: float) -> int:
    return int(seconds * 1e9)


def attributes_of(answer: ReviewAnswer | Refusal) -> dict[str, str | bool | int]:
    """Return the attributes of the span of a request. A refusal is a request whose review is not known."""
    if isinstance(answer, Exception):
        return {
            "injector.outcome": Outcome.FAILURE.value,
            "injector.reason": answer.reason,
            "http.response.status_code": answer.status,
        }
    review = answer.review
    return {
        "injector.outcome": answer.outcome.value,
        "injector.reason": answer.reason,
        "injector.revision": answer.revision,
        "injector.tag": answer.tag,
        "injector.cached": answer.cached,
        "injector.uid": review.uid[:_LONGEST_NAME],
        "k8s.namespace.name": review.namespace[:_LONGEST_NAME] if isinstance(review, Request) else "",
        "http.response.status_code": HTTPStatus.OK,
    }


def tracing_of(variables: Mapping[str, str], *, version: str) -> Tracing | None:
    """Return what makes spans; None if no variable names a collector, or if one turns spans off.

    If spans are asked for and cannot be made, the log says why.
    """
    exporter = variables.get("OTEL_TRACES_EXPORTER") or "otlp"
    is_off = variables.get("OTEL_SDK_DISABLED", "").lower() == "true" or exporter == "none"
    if is_off or not any(variables.get(name) for name in ENDPOINTS):
        return None
    protocols = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
    protocol = next(filter(None, map(variables.get, protocols)), PROTOCOL)
    if exporter != "otlp" or protocol != PROTOCOL:
        _log.warning("no spans: exporter %.40r with protocol %.40r; use otlp with %s", exporter, protocol, PROTOCOL)
        return None
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415 -- the extra
        from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource  # noqa: PLC0415 -- the same
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415 -- the same
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415 -- the same
    except ImportError as error:
        _log.warning("no spans: %s; install revision-injector[tracing]", error)
        return None
    resource = Resource.create({SERVICE_VERSION: version})
    if str(resource.attributes[SERVICE_NAME]).startswith("unknown_service"):
        resource = resource.merge(Resource({SERVICE_NAME: SERVICE}))
    provider = TracerProvider(resource=resource)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return Tracing(provider)
