"""Decisions: logged, remembered, and told in warnings and audit annotations."""

from __future__ import annotations

import asyncio
import logging
import re
from typing import Any

import pytest

from injector.errors import AnnotationError
from injector.golang.json import dump_json
from injector.injection.policy import REMEDIES, injection_required
from injector.injection.result import Injected, Skipped
from injector.istio.behaviours import behaviours_of
from injector.istio.config import Policy
from injector.istio.labels import INJECT_LABEL
from injector.kube.admission import Broken, Request, Response
from injector.kube.selectors import Selector
from injector.metrics import Outcome
from injector.revisions.registry import Resolved
from injector.settings import SETTINGS
from injector.webhook.decisions import (
    DECISION_NOTES,
    FAULT,
    FIELDS,
    LOGGED,
    DecisionNotes,
    Decisions,
)
from tests.cluster.fakes import in_fake_time
from tests.factories import UID, created_by, make_pod, make_review
from tests.handlers import decided
from tests.revisions.fakes import fake_revision
from tests.webhook.conftest import Client, ClientFactory, Core

OWNED = created_by(make_pod(labels={"pod-template-hash": "5d9f"}), "web-5d9f")


def asked_about(pod: dict[str, Any], *, uid: str = UID, namespace: str = "shop") -> Request:
    """A review of a pod."""
    return Request(
        uid, "admission.k8s.io/v1", "Pod", namespace, "", "CREATE", dry_run=False, object_json=dump_json(pod)
    )


def log_lines(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str, dict[str, Any]]]:
    """Level, message and fields of what was logged."""
    return [(record.levelname, record.getMessage(), getattr(record, FIELDS)) for record in caplog.records]


@pytest.fixture(autouse=True)
def everything(caplog: pytest.LogCaptureFixture) -> None:
    """All that is logged is seen."""
    caplog.set_level(logging.DEBUG)


def test_a_decision_says_what_of_whom_by_which_revision_and_how_long_it_took(caplog: pytest.LogCaptureFixture) -> None:
    Decisions().log(decided(asked_about(OWNED), Outcome.SKIP, "label", "1-24", "prod"), 0.0012345)

    by = {"revision": "1-24", "tag": "prod", "namespace": "shop", "owner": "Deployment/web"}
    fields = {"outcome": "skip", "reason": "label", **by, "uid": UID, "ms": 1.23}
    assert log_lines(caplog) == [("INFO", "skipped", fields)]


@pytest.mark.parametrize(
    ("outcome", "reason", "level", "word"),
    [
        (Outcome.SUCCESS, "", "INFO", "injected"),
        (Outcome.SKIP, "label", "INFO", "skipped"),
        (Outcome.FAILURE, "template", "WARNING", "denied"),
        (Outcome.FAILURE, FAULT, "ERROR", "denied"),
    ],
)
def test_a_failure_is_a_warning_and_a_fault_of_the_injector_an_error(
    caplog: pytest.LogCaptureFixture, outcome: Outcome, reason: str, level: str, word: str
) -> None:
    Decisions(LOGGED["all"]).log(decided(asked_about(OWNED), outcome, reason), 0.0)

    assert [line[:2] for line in log_lines(caplog)] == [(level, word)]


def test_a_review_without_a_pod_is_told_by_its_uid(caplog: pytest.LogCaptureFixture) -> None:
    Decisions().log(decided(Broken(UID), Outcome.FAILURE, "review", where="AdmissionReview"), 0.0)

    ((_, _, fields),) = log_lines(caplog)
    denied = {"outcome": "failure", "reason": "review", "revision": "unknown"}
    assert fields == {**denied, "uid": UID, "ms": 0.0, "at": "AdmissionReview"}


@pytest.mark.parametrize("meta", [None, [], {"ownerReferences": 7}, {"name": {}}, {"labels": [1]}])
def test_a_pod_that_is_none_has_no_owner_and_its_line_all_the_same(caplog: pytest.LogCaptureFixture, meta: Any) -> None:
    Decisions().log(decided(asked_about({"metadata": meta}), Outcome.FAILURE, "pod"), 0.0)

    ((_, _, fields),) = log_lines(caplog)
    assert (fields["uid"], fields.get("owner", "")) == (UID, "")


def test_long_names_are_cut(caplog: pytest.LogCaptureFixture) -> None:
    pod = make_pod("n" * 10_000)
    review = asked_about(pod, uid="u" * 10_000, namespace="s" * 10_000)

    Decisions().log(decided(review, Outcome.FAILURE, "pod", where="w" * 10_000), 0.0)

    ((_, _, fields),) = log_lines(caplog)
    assert len(str(fields)) < 1_500


@pytest.mark.parametrize(
    ("logged", "wanted"),
    [
        ("none", {FAULT}),
        ("failures", {"template", FAULT}),
        ("skips", {"template", "label", FAULT}),
        ("all", {"template", "label", "", FAULT}),
    ],
)
def test_a_setting_says_which_get_a_line_and_a_fault_always_does(
    caplog: pytest.LogCaptureFixture, logged: str, wanted: set[str]
) -> None:
    decisions = Decisions(LOGGED[logged])
    outcomes = [
        (Outcome.SUCCESS, ""),
        (Outcome.SKIP, "label"),
        *((Outcome.FAILURE, reason) for reason in ("template", FAULT)),
    ]

    for outcome, reason in outcomes:
        if decisions.wants(outcome):
            decisions.log(decided(asked_about(OWNED), outcome, reason), 0.0)

    assert {fields.get("reason", "") for _, _, fields in log_lines(caplog)} == wanted


def test_refusals_are_remembered_once_for_each_workload_and_cause() -> None:
    times = iter(range(100))
    decisions = Decisions(LOGGED["none"], now=lambda: next(times))
    refused = decided(asked_about(OWNED), Outcome.FAILURE, "annotation", "1-24", "prod", "metadata.annotations[x]")

    decisions.log(refused, 0.0)
    decisions.log(decided(asked_about(OWNED), Outcome.SKIP, "label", "1-24"), 0.0)
    decisions.log_refusal("overload", 429)
    decisions.log(refused, 0.0)

    workload = {"namespace": "shop", "owner": "Deployment/web", "revision": "1-24", "tag": "prod"}
    nobody = dict.fromkeys(workload, "")
    assert decisions.recent() == [
        {**workload, "reason": "annotation", "at": "metadata.annotations[x]", "count": 2, "time": 2},
        {**nobody, "reason": "overload", "at": "HTTP status 429", "count": 1, "time": 1},
    ]


def test_only_the_last_refusals_are_remembered() -> None:
    decisions = Decisions(LOGGED["none"])

    for number in range(25):
        decisions.log(decided(asked_about(OWNED, namespace=f"n-{number}"), Outcome.FAILURE, "template"), 0.0)

    assert [decision["namespace"] for decision in decisions.recent()] == [f"n-{24 - number}" for number in range(20)]


def test_the_setting_has_the_words_of_the_table() -> None:
    (setting,) = [setting for setting in SETTINGS if setting.name == "log_decisions"]

    assert (setting.choices, LOGGED[setting.default]) == (tuple(LOGGED), frozenset({Outcome.FAILURE, Outcome.SKIP}))


@in_fake_time
async def test_of_many_that_are_turned_away_in_a_second_one_line_says_how_many(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.clear()  # the line of the event loop
    decisions = Decisions()

    for reason, status in [*[("overload", 429)] * 98, ("draining", 503)]:
        decisions.log_refusal(reason, status)
    assert len(log_lines(caplog)) == 1, "the first one is logged at once"
    await asyncio.sleep(10)
    decisions.log_refusal("draining", 503)

    assert [(message, fields) for _, message, fields in log_lines(caplog)] == [
        ("turned away", {"reason": "overload", "status": 429, "requests": 1}),
        ("turned away", {"reason": "overload", "status": 429, "requests": 97}),
        ("turned away", {"reason": "draining", "status": 503, "requests": 1}),
        ("turned away", {"reason": "draining", "status": 503, "requests": 1}),
    ]


def test_nothing_is_said_of_those_who_are_turned_away_where_failures_are_not_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    Decisions(LOGGED["none"]).log_refusal("overload", 429)

    assert caplog.records == []


BOTH, TAGGED, PLAIN = (
    DecisionNotes(True, True),
    Resolved(fake_revision("1-24"), "prod"),
    Resolved(fake_revision("1-24")),
)
ANSWER = Response(allowed=True, warnings=("policy: odd",))
INJECTED = Injected({}, b"[]", ("sidecar", "custom"))
# k8s.io/apiserver/pkg/audit, checkAnnotationKey: the part behind the webhook's name is that of a qualified name.
KEY = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


def audit(response: Response) -> dict[str, str]:
    return dict(response.audit)


def test_an_injected_pod_is_told_its_revision_tag_and_templates() -> None:
    response = BOTH.note_injected(ANSWER, INJECTED, TAGGED)

    assert response.warnings == ("injected by revision 1-24 (tag prod)", "policy: odd")
    said = {"decision": "injected", "revision": "1-24", "templates": "sidecar,custom"}
    assert audit(response) == {**said, "tag": "prod"}

    without_tag = BOTH.note_injected(ANSWER, INJECTED, PLAIN)
    assert (without_tag.warnings[0], audit(without_tag)) == ("injected by revision 1-24", said)


@pytest.mark.parametrize("reason", REMEDIES)
def test_a_skipped_pod_is_told_why_and_what_to_do(reason: str) -> None:
    response = BOTH.note_skipped(ANSWER, Skipped(reason, "x"), TAGGED)

    assert response.warnings[0] == f"not injected by revision 1-24 (tag prod): {REMEDIES[reason]}"
    assert audit(response) == {"decision": "skipped", "reason": reason, "revision": "1-24", "tag": "prod"}


def test_a_refused_pod_has_its_reason_in_the_audit_log_and_no_warning() -> None:
    response = BOTH.note_refused(ANSWER, "template", TAGGED)

    refused = {"decision": "refused", "reason": "template", "revision": "1-24", "tag": "prod"}
    assert (response.warnings, audit(response)) == (ANSWER.warnings, refused)
    unknown = audit(BOTH.note_refused(ANSWER, "unknown_revision", None))
    assert unknown == {"decision": "refused", "reason": "unknown_revision"}


def test_every_value_of_the_flag_means_something_and_off_means_nothing() -> None:
    (setting,) = (setting for setting in SETTINGS if setting.name == "explain")
    assert tuple(DECISION_NOTES) == setting.choices
    assert DECISION_NOTES["off"] is None
    notes_by_value = {
        name: (len(response.warnings), bool(response.audit))
        for name, note in DECISION_NOTES.items()
        if note is not None
        for response in (note.note_injected(ANSWER, INJECTED, PLAIN),)
    }
    assert notes_by_value == {"warnings": (2, False), "audit": (1, True), "both": (2, True)}


def test_what_is_said_fits_into_what_kubernetes_takes() -> None:
    longest = Resolved(fake_revision("r" * 63), "t" * 63)
    warnings = [BOTH.note_skipped(ANSWER, Skipped(reason, ""), longest).warnings[0] for reason in REMEDIES]
    many = BOTH.note_injected(ANSWER, Injected({}, b"[]", ("name",) * 100_000), longest)

    assert max(map(len, warnings)) <= 256
    assert max(len(value) for value in audit(many).values()) == 256
    assert [key for key in audit(many) if not KEY.fullmatch(key)] == []


@pytest.mark.parametrize(
    ("policy", "pod"),
    [
        ("enabled", make_pod(hostNetwork=True)),
        ("enabled", make_pod(namespace="kube-system")),
        ("odd", make_pod()),
        ("enabled", make_pod(labels={INJECT_LABEL: "false"})),
        ("enabled", make_pod(annotations={INJECT_LABEL: "false"})),
        ("enabled", make_pod(labels={"never": "me"})),
        ("disabled", make_pod()),
    ],
)
def test_every_reason_to_skip_has_a_remedy(policy: str, pod: dict[str, Any]) -> None:
    never = Selector.compile({"matchLabels": {"never": "me"}})
    rules = Policy(policy, never=(never,))

    decision = injection_required(rules, behaviours_of((1, 30)), pod, pod["metadata"].get("namespace", "shop"))

    assert (decision.inject, decision.reason in REMEDIES) == (False, True)


async def test_answers_say_nothing_of_it_unless_that_is_wanted(client: Client) -> None:
    answer = await (await client.post("/inject/prod", json=make_review())).json()

    assert sorted(answer["response"]) == ["allowed", "patch", "patchType", "uid"]


async def test_the_answer_to_a_review_has_the_decision(client_of: ClientFactory, core: Core) -> None:
    client = await client_of(notes=BOTH)

    async def answered(result: Injected | Skipped | Exception) -> dict[str, Any]:
        core.answer = result
        review = make_review(make_pod(labels={"answer": type(result).__name__}))
        answer = (await (await client.post("/inject/prod", json=review)).json())["response"]
        return {key: answer.get(key) for key in ("allowed", "warnings", "auditAnnotations")}

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
    client_of: ClientFactory, path: str, review: dict[str, Any], reason: str
) -> None:
    client = await client_of(notes=BOTH)

    response = (await (await client.post(path, json=review)).json())["response"]

    assert response["auditAnnotations"] == {"decision": "refused", "reason": reason}
