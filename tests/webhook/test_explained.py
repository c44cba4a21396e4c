from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from injector.errors import AnnotationError
from injector.injection.policy import INJECT, injection_required
from injector.injection.result import Injected, Skipped
from injector.istio.behaviours import behaviours_of
from injector.istio.config import Policy
from injector.kube.admission import MAX_WARNING, Response
from injector.kube.selectors import Selector
from injector.revisions.registry import Resolved
from injector.settings import SETTINGS
from injector.webhook.app import webhook_app
from injector.webhook.decisions import EXPLAINED, MAX_VALUE, REMEDIES, Explained
from injector.webhook.inject import Desk, InjectHandler
from tests.factories import make_pod, make_review
from tests.revisions.fakes import fake_revision

if TYPE_CHECKING:
    from injector.metrics import Metrics
    from injector.revisions.registry import Registry
    from injector.webhook.lifecycle import Lifecycle
    from tests.webhook.conftest import Client, ClientFactory, Core

BOTH, TAGGED, PLAIN = Explained(True, True), Resolved(fake_revision("1-24"), "prod"), Resolved(fake_revision("1-24"))
ANSWER = Response(allowed=True, warnings=("policy: odd",))
INJECTED = Injected.of({}, [], ("sidecar", "custom"))
# k8s.io/apiserver/pkg/audit, checkAnnotationKey: the part behind the webhook's name is that of a qualified name.
KEY = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


def audit(response: Response) -> dict[str, str]:
    return dict(response.audit)


def test_an_injected_pod_is_told_its_revision_tag_and_templates() -> None:
    response = BOTH.injected(ANSWER, INJECTED, TAGGED)

    assert response.warnings == ("injected by revision 1-24 (tag prod)", "policy: odd")
    assert audit(response) == {
        "decision": "injected",
        "revision": "1-24",
        "tag": "prod",
        "templates": "sidecar,custom",
    }


def test_without_a_tag_none_is_named() -> None:
    response = BOTH.injected(ANSWER, INJECTED, PLAIN)

    assert response.warnings[0] == "injected by revision 1-24"
    assert "tag" not in audit(response)


@pytest.mark.parametrize("reason", REMEDIES)
def test_a_skipped_pod_is_told_why_and_what_to_do(reason: str) -> None:
    response = BOTH.skipped(ANSWER, Skipped(reason, "x"), TAGGED)

    assert response.warnings[0] == f"not injected by revision 1-24 (tag prod): {REMEDIES[reason]}"
    assert audit(response) == {"decision": "skipped", "reason": reason, "revision": "1-24", "tag": "prod"}


def test_a_refused_pod_has_its_reason_in_the_audit_log_and_no_warning_beside_its_message() -> None:
    response = BOTH.refused(ANSWER, "template", TAGGED)

    assert (response.warnings, audit(response)) == (
        ANSWER.warnings,
        {"decision": "refused", "reason": "template", "revision": "1-24", "tag": "prod"},
    )
    assert audit(BOTH.refused(ANSWER, "unknown_revision", None)) == {
        "decision": "refused",
        "reason": "unknown_revision",
    }


def test_every_value_of_the_flag_means_something_and_off_means_nothing() -> None:
    (setting,) = (each for each in SETTINGS if each.name == "explain")
    assert tuple(EXPLAINED) == setting.choices
    assert EXPLAINED["off"] is None
    shown = {
        name: (len(response.warnings), bool(response.audit))
        for name, each in EXPLAINED.items()
        if each is not None
        for response in (each.injected(ANSWER, INJECTED, PLAIN),)
    }
    assert shown == {"warnings": (2, False), "audit": (1, True), "both": (2, True)}


def test_what_is_said_fits_into_what_kubernetes_takes() -> None:
    longest = Resolved(fake_revision("r" * 63), "t" * 63)
    warnings = [BOTH.skipped(ANSWER, Skipped(reason, ""), longest).warnings[0] for reason in REMEDIES]
    many = BOTH.injected(ANSWER, Injected.of({}, [], ("name",) * 100_000), longest)

    assert max(map(len, warnings)) <= MAX_WARNING
    assert max(len(value) for value in audit(many).values()) == MAX_VALUE
    assert [key for key in audit(many) if not KEY.fullmatch(key)] == []


@pytest.mark.parametrize(
    ("policy", "pod"),
    [
        ("enabled", make_pod(hostNetwork=True)),
        ("enabled", make_pod(namespace="kube-system")),
        ("odd", make_pod()),
        ("enabled", make_pod(labels={INJECT: "false"})),
        ("enabled", make_pod(annotations={INJECT: "false"})),
        ("enabled", make_pod(labels={"never": "me"})),
        ("disabled", make_pod()),
    ],
)
def test_every_reason_to_skip_has_a_remedy(policy: str, pod: dict[str, Any]) -> None:
    never = Selector.compile({"matchLabels": {"never": "me"}})
    rules = Policy(policy, never=(never,))

    found = injection_required(rules, behaviours_of((1, 30)), pod, pod["metadata"].get("namespace", "shop"))

    assert (found.inject, found.reason in REMEDIES) == (False, True)


async def test_answers_say_nothing_of_it_unless_that_is_wanted(client: Client) -> None:
    answer = await (await client.post("/inject/prod", json=make_review())).json()

    assert sorted(answer["response"]) == ["allowed", "patch", "patchType", "uid"]


@pytest.fixture
async def told(
    aiohttp_client: ClientFactory, core: Core, registry: Registry, metrics: Metrics, lifecycle: Lifecycle
) -> Client:
    """A client whose answers say what was decided."""
    del core
    handler = InjectHandler(registry, metrics, lifecycle, desk=Desk(explained=BOTH))
    return await aiohttp_client(webhook_app(handler))


async def test_the_answer_to_a_review_has_the_decision(told: Client, core: Core) -> None:

    async def answered(result: Injected | Skipped | Exception) -> dict[str, Any]:
        core.answer = result
        review = make_review(make_pod(labels={"answer": type(result).__name__}))
        found = (await (await told.post("/inject/prod", json=review)).json())["response"]
        return {key: found.get(key) for key in ("allowed", "warnings", "auditAnnotations")}

    by = {"revision": "1-24", "tag": "prod"}
    assert await answered(INJECTED) == {
        "allowed": True,
        "warnings": ["injected by revision 1-24 (tag prod)"],
        "auditAnnotations": {"decision": "injected", **by, "templates": "sidecar,custom"},
    }
    assert await answered(Skipped("label", "label says 's3cr3t'")) == {
        "allowed": True,
        "warnings": [f"not injected by revision 1-24 (tag prod): {REMEDIES['label']}"],
        "auditAnnotations": {"decision": "skipped", "reason": "label", **by},
    }
    assert await answered(AnnotationError("s3cr3t")) == {
        "allowed": False,
        "warnings": None,
        "auditAnnotations": {"decision": "refused", "reason": "annotation", **by},
    }


@pytest.mark.parametrize(
    ("path", "review", "reason"),
    [("/inject/nope", make_review(), "unknown_revision"), ("/inject/prod", make_review(object=None), "review")],
)
async def test_what_no_revision_was_asked_about_is_refused_without_one(
    told: Client, path: str, review: dict[str, Any], reason: str
) -> None:

    response = (await (await told.post(path, json=review)).json())["response"]

    assert response["auditAnnotations"] == {"decision": "refused", "reason": reason}
