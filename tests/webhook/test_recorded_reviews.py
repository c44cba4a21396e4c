"""Reviews as a real API server sends them: replicas have one cached answer, and each answer fits its own pod."""

from __future__ import annotations

import base64
import json
import re
from functools import cache
from typing import TYPE_CHECKING, Any

import jsonpatch
import pytest

from injector.injection.pipeline import inject_pod
from injector.injection.result import Injected, RequestFacts
from injector.revisions.build import build
from injector.revisions.directory import embedded_source
from tests.conformance import core, corpus
from tests.handlers import handler_of, response_of
from tests.webhook.recorded import NAMES, recorded

if TYPE_CHECKING:
    from injector.istio.revision import Revision

TOKEN_VOLUME = re.compile(r"kube-api-access-\w{5}")
EMBEDDED = ("stable", "canary")
MINORS = corpus.MINORS if corpus.present() else ()
RENDERS_VALUES = ("1.4", "1.5")
"""Their templates call ``render``, whose text could call any function; their answers are not cached."""
CACHED = (*EMBEDDED, *(minor for minor in MINORS if minor not in RENDERS_VALUES))


@cache
def revision_of(name: str) -> Revision:
    """A shipped revision by its name, or the default installation of a minor."""
    if name in EMBEDDED:
        return build(next(raw for raw in embedded_source().read().revisions if raw.name == name))
    return core.revision_of(corpus.default_settings(name))


def pod_of(body: bytes) -> dict[str, Any]:
    pod: dict[str, Any] = json.loads(body)["request"]["object"]
    return pod


def token_volumes(value: Any) -> set[str]:
    return set(TOKEN_VOLUME.findall(json.dumps(value)))


def patched(body: bytes, response: dict[str, Any]) -> Any:
    """The pod of a review after the patch of its answer."""
    assert (response["allowed"], response["patchType"]) == (True, "JSONPatch")
    return jsonpatch.apply_patch(pod_of(body), json.loads(base64.b64decode(response["patch"])))


def injected(revision: Revision, body: bytes) -> Any:
    """The pod of a review after the patch of a pipeline that sees the pod as the API server sent it."""
    result = inject_pod(revision, pod_of(body), RequestFacts(json.loads(body)["request"]["namespace"]))
    assert isinstance(result, Injected)
    return jsonpatch.apply_patch(pod_of(body), result.patch)


def test_the_recording_has_what_makes_replicas_differ() -> None:
    replicas = [json.loads(body)["request"] for body in recorded("deployment")]
    times = {entry["time"] for request in replicas for entry in request["object"]["metadata"]["managedFields"]}

    assert len(replicas) == 6
    assert len({request["uid"] for request in replicas}) == 6
    assert len(set.union(*(token_volumes(request["object"]) for request in replicas))) == 6
    assert len(times) >= 3, "the steps of the Deployment were within one second"
    assert [json.loads(body)["request"]["dryRun"] for body in recorded("dry-run")] == [True]


@pytest.mark.parametrize("name", CACHED)
@pytest.mark.parametrize(("workload", "hits"), [("deployment", 5), ("job", 1), ("statefulset", 0)])
def test_every_replica_after_the_first_is_answered_from_the_cache(name: str, workload: str, hits: int) -> None:
    revision = revision_of(name)
    handler = handler_of(revision)

    for body in recorded(workload):
        response_of(handler, f"/inject/{revision.name}", body)

    assert handler.cache.hits == hits


def test_a_dry_run_is_answered_as_the_creation_after_it() -> None:
    revision = revision_of("stable")
    handler = handler_of(revision)
    (dry,), (real,) = recorded("dry-run"), recorded("pod")

    answers = [patched(body, response_of(handler, "/inject/stable", body)) for body in (dry, real)]

    assert handler.cache.hits == 1
    assert answers == [injected(revision, dry), injected(revision, real)]


@pytest.mark.parametrize("name", [*EMBEDDED, *MINORS])
def test_each_answer_gives_the_pod_that_a_fresh_pipeline_gives(name: str) -> None:
    revision = revision_of(name)
    handler = handler_of(revision)
    bodies = [body for each in NAMES for body in recorded(each)]

    for body in (*bodies, *bodies):
        response = response_of(handler, f"/inject/{revision.name}", body)
        pod = patched(body, response)
        assert response["uid"] == json.loads(body)["request"]["uid"]
        assert pod == injected(revision, body)
        assert token_volumes(pod) == token_volumes(pod_of(body)), "the name of another pod's token volume"

    assert handler.cache.hits == (0 if name in RENDERS_VALUES else len(bodies) + 7)
