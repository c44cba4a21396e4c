"""Request handlers for tests: reviews in, answers out, without a server."""

from __future__ import annotations

import json
from typing import Any

from prometheus_client import CollectorRegistry

from injector.istio.revision import Revision
from injector.metrics import Metrics, Stopwatch
from injector.revisions.registry import Registry, Snapshot, snapshot_of
from injector.webhook.handler import InjectHandler
from injector.webhook.lifecycle import Lifecycle
from injector.webhook.reading import Refusal


def handler_of(*revisions: Revision) -> InjectHandler:
    """Return a handler that serves these revisions and has not been asked anything."""
    return handler_with(snapshot_of(list(revisions), {}))


def handler_with(snapshot: Snapshot) -> InjectHandler:
    """Return a handler that serves the revisions and tags of a snapshot and has not been asked anything."""
    return InjectHandler(Registry(snapshot), Metrics(CollectorRegistry()), Lifecycle())


def answer_of(handler: InjectHandler, path: str, body: bytes) -> bytes:
    """Return the body of the answer to a review; a refusal is told by its status and text."""
    try:
        return handler.answer(path, body, Stopwatch()).body
    except Refusal as refusal:
        return f"{refusal.status} {refusal}".encode()


def response_of(handler: InjectHandler, path: str, body: bytes) -> dict[str, Any]:
    """Return the response to a review that can be answered."""
    response: dict[str, Any] = json.loads(answer_of(handler, path, body))["response"]
    return response
