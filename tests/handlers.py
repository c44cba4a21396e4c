"""Request handlers for tests: reviews in, answers out, without a server."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

import jsonpatch
from prometheus_client import CollectorRegistry

from injector.istio.revision import Revision
from injector.kube.admission import Broken, Request
from injector.metrics import Metrics, Outcome, Stopwatch
from injector.revisions.registry import Registry, Resolved, Snapshot, snapshot_of
from injector.webhook.answer import ReviewAnswer
from injector.webhook.handler import InjectHandler
from injector.webhook.lifecycle import Lifecycle
from injector.webhook.queue import Refusal
from tests.revisions.fakes import fake_revision


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


def decided(
    review: Request | Broken, outcome: Outcome, reason: str = "", revision: str = "", tag: str = "", where: str = ""
) -> ReviewAnswer:
    """Return an answer of which only the decision matters."""
    resolved = Resolved(fake_revision(revision), tag or None) if revision else None
    return ReviewAnswer(b"", outcome, reason, review, resolved, where)


def patched(pod: dict[str, Any], response: Mapping[str, Any]) -> Any:
    """Return the pod after the patch of a response, or the pod itself if there is no patch."""
    assert response["allowed"] is True, response
    if "patch" not in response:
        return pod
    assert response["patchType"] == "JSONPatch"
    return jsonpatch.apply_patch(pod, json.loads(base64.b64decode(response["patch"])))


def response_of(handler: InjectHandler, path: str, body: bytes) -> dict[str, Any]:
    """Return the response to a review that can be answered."""
    response: dict[str, Any] = json.loads(answer_of(handler, path, body))["response"]
    return response
