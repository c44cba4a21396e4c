from __future__ import annotations

import logging
from typing import Any

import pytest

from injector.kube.admission import Broken, Request
from injector.metrics import Outcome
from injector.settings import SETTINGS
from injector.webhook.decisions import FAULT, FIELDS, LOGGED, Decision, Decisions
from tests.factories import UID, make_pod

OWNED = make_pod(labels={"pod-template-hash": "5d9f"})
OWNED["metadata"] |= {
    "generateName": "web-5d9f-",
    "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-5d9f", "controller": True}],
}


def asked_about(pod: dict[str, Any], *, uid: str = UID, namespace: str = "shop") -> Request:
    """A review of a pod."""
    return Request(
        uid, "admission.k8s.io/v1", "Pod", namespace, "", "CREATE", dry_run=False, object=pod, object_json=b""
    )


def told(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str, dict[str, Any]]]:
    """Level, message and fields of what was logged."""
    return [(each.levelname, each.getMessage(), getattr(each, FIELDS)) for each in caplog.records]


@pytest.fixture(autouse=True)
def everything(caplog: pytest.LogCaptureFixture) -> None:
    """All that is logged is seen."""
    caplog.set_level(logging.DEBUG)


def test_a_decision_says_what_of_whom_by_which_revision_and_how_long_it_took(caplog: pytest.LogCaptureFixture) -> None:
    Decisions().tell(Decision(asked_about(OWNED), Outcome.SKIP, "label", "1-24", "prod"), 0.0012345)

    assert told(caplog) == [
        (
            "INFO",
            "skipped",
            {
                "outcome": "skip",
                "reason": "label",
                "revision": "1-24",
                "tag": "prod",
                "namespace": "shop",
                "owner": "Deployment/web",
                "uid": UID,
                "ms": 1.23,
            },
        )
    ]


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
    Decisions().tell(Decision(asked_about(OWNED), outcome, reason), 0.0)

    assert [each[:2] for each in told(caplog)] == [(level, word)]


def test_a_review_without_a_pod_is_told_by_its_uid(caplog: pytest.LogCaptureFixture) -> None:
    Decisions().tell(Decision(Broken(UID), Outcome.FAILURE, "review", where="AdmissionReview"), 0.0)

    ((_, _, fields),) = told(caplog)
    assert fields == {
        "outcome": "failure",
        "reason": "review",
        "revision": "unknown",
        "uid": UID,
        "ms": 0.0,
        "at": "AdmissionReview",
    }


@pytest.mark.parametrize("meta", [None, [], {"ownerReferences": 7}, {"name": {}}, {"labels": [1]}])
def test_a_pod_that_is_none_has_no_owner_and_its_line_all_the_same(caplog: pytest.LogCaptureFixture, meta: Any) -> None:
    Decisions().tell(Decision(asked_about({"metadata": meta}), Outcome.FAILURE, "pod"), 0.0)

    ((_, _, fields),) = told(caplog)
    assert (fields["uid"], fields.get("owner", "")) == (UID, "")


def test_long_names_are_cut(caplog: pytest.LogCaptureFixture) -> None:
    pod = make_pod("n" * 10_000)
    review = asked_about(pod, uid="u" * 10_000, namespace="s" * 10_000)

    Decisions().tell(Decision(review, Outcome.FAILURE, "pod", where="w" * 10_000), 0.0)

    ((_, _, fields),) = told(caplog)
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
def test_a_setting_says_which_get_a_line_and_a_fault_always_does(logged: str, wanted: set[str]) -> None:
    decisions = Decisions(LOGGED[logged])
    asked = [
        (Outcome.SUCCESS, ""),
        (Outcome.SKIP, "label"),
        (Outcome.FAILURE, "template"),
        (Outcome.FAILURE, FAULT),
    ]

    assert {reason for outcome, reason in asked if decisions.wants(outcome, reason)} == wanted


def test_the_setting_has_the_words_of_the_table() -> None:
    (setting,) = [each for each in SETTINGS if each.name == "log_decisions"]

    assert (setting.choices, LOGGED[setting.default]) == (tuple(LOGGED), frozenset({Outcome.FAILURE, Outcome.SKIP}))


def test_of_many_that_are_turned_away_in_a_second_one_line_says_how_many(caplog: pytest.LogCaptureFixture) -> None:
    times = iter([0.0, *[0.5] * 98, 1.5])
    decisions = Decisions(clock=lambda: next(times))

    for reason in ["overload", *["overload"] * 97, "draining", "overload"]:
        decisions.turned_away(reason, 429)

    assert [(message, fields) for _, message, fields in told(caplog)] == [
        ("turned away", {"reason": "overload", "status": 429, "requests": 1}),
        ("turned away", {"reason": "overload", "status": 429, "requests": 98}),
        ("turned away", {"reason": "draining", "requests": 1}),
    ]


def test_nothing_is_said_of_those_who_are_turned_away_where_failures_are_not_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    Decisions(LOGGED["none"]).turned_away("overload", 429)

    assert caplog.records == []
