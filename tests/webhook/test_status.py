from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from injector.errors import ConfigError
from injector.injection.result import RequestFacts, Skipped
from injector.injection.tools.podchanges import Change
from injector.metrics import Answered, Outcome, RevisionRow
from injector.revisions.registry import snapshot_of
from injector.revisions.reload import LoadReport, RevisionState
from injector.revisions.tags import parse_tags
from injector.webhook.lifecycle import Phase
from injector.webhook.shadow import Admission, Shadows
from injector.webhook.status.report import request_rows, revision_rows, status
from tests.revisions.fakes import fake_revision

if TYPE_CHECKING:
    from injector.metrics import Metrics

GOOD = RevisionState("a", fake_revision("a"), None, 12.5, ("policy: none",))
KEPT = RevisionState("b", fake_revision("b"), ConfigError("is empty", where="b/config"), 1.0)
BROKEN = RevisionState("c", None, ConfigError("is missing"))
REPORT = LoadReport({"a": GOOD, "b": KEPT, "c": BROKEN}, (ConfigError("leads nowhere", where="tag `x`"),))


def test_the_status_says_what_is_served_and_what_is_wrong(metrics: Metrics) -> None:
    snapshot = snapshot_of([fake_revision("a"), fake_revision("b")], parse_tags("prod: {a: 9, b: 1}\ndefault: b"))

    found = status(snapshot, REPORT, Phase.SERVING, Shadows(metrics), version="1.2.3")

    assert json.loads(json.dumps(found)) == found
    assert (found["version"], found["phase"], found["default"]) == ("1.2.3", "serving", "default")
    assert [(each["name"], each["served"], each["valid"], each["error"]) for each in found["revisions"]] == [
        ("a", True, True, None),
        ("b", True, False, "b/config: is empty"),
        ("c", False, False, "is missing"),
    ]
    assert found["revisions"][0] == {
        "name": "a",
        "served": True,
        "valid": True,
        "error": None,
        "notes": ["policy: none"],
        "istioVersion": "1.24",
        "versionReason": "stated",
        "engine": "go",
        "writtenRevision": "a",
        "fingerprint": "f00d",
        "origin": "revisions/a",
        "loadedAt": 12.5,
    }
    assert found["tags"] == [
        {"name": "default", "revision": "b", "weights": {"b": 1}, "salt": "default", "shadow": None},
        {"name": "prod", "revision": "a", "weights": {"a": 9, "b": 1}, "salt": "prod", "shadow": None},
    ]
    assert found["tagErrors"] == ["tag `x`: leads nowhere"]
    assert found["sourceError"] is None


def test_a_source_that_cannot_be_read_is_shown(metrics: Metrics) -> None:
    report = LoadReport({}, (), ConfigError("cannot be read", where="revisions"))

    found = status(snapshot_of([], {}), report, Phase.SERVING, Shadows(metrics), version="1.2.3")

    assert found["sourceError"] == "revisions: cannot be read"


def test_a_tag_shows_its_shadow_and_what_that_came_to(metrics: Metrics) -> None:
    tags = parse_tags("prod: {weights: {a: 9, b: 1}, salt: x, shadow: {revision: b, sample: 25}}")
    shadows = Shadows(metrics)
    admission = Admission("prod", fake_revision("a"), fake_revision("b"), {}, RequestFacts(), Skipped("x", "x"), 1)
    shadows._count(admission, [Change("env", "spec.containers[app].env[A].value", "s3cr3t", "other")])

    found = status(
        snapshot_of([fake_revision("a"), fake_revision("b")], tags), REPORT, Phase.SERVING, shadows, version="1.2.3"
    )

    assert found["tags"] == [
        {
            "name": "prod",
            "revision": "a",
            "weights": {"a": 9, "b": 1},
            "salt": "x",
            "shadow": {
                "revision": "b",
                "sample": 25,
                "requests": {"different": 1},
                "differences": {"env": 1},
                "last": [{"kind": "env", "path": "spec.containers[app].env[A].value"}],
            },
        }
    ]
    assert found["shadowDropped"] == 0
    assert "s3cr3t" not in json.dumps(found)


def test_the_last_reload_is_shown_with_what_was_wrong(metrics: Metrics) -> None:
    def reload(report: LoadReport) -> Any:
        return status(snapshot_of([], {}), report, Phase.SERVING, Shadows(metrics), version="1.2.3")["reload"]

    assert reload(replace(REPORT, at=7.5)) == {
        "at": 7.5,
        "failure": "revision",
        "errors": ["b/config: is empty", "is missing", "tag `x`: leads nowhere"],
    }
    assert reload(LoadReport({"a": GOOD}, at=8.0)) == {"at": 8.0, "failure": None, "errors": []}


def test_requests_have_their_reasons_their_rate_and_their_times(metrics: Metrics) -> None:
    for outcome, reason, seconds in (
        (Outcome.SUCCESS, "", 0.0008),
        (Outcome.SUCCESS, "", 0.0009),
        (Outcome.SUCCESS, "", 0.02),
        (Outcome.FAILURE, "template", 0.0008),
        (Outcome.SKIP, "label", 0.0008),
    ):
        metrics.answered(Answered(outcome, {"total": seconds}, reason, "1-24", "prod"))
    metrics.answered(Answered(Outcome.SKIP, {"total": 0.0004}, "policy", "1-30"))

    skipped, tried = sorted(request_rows(metrics), key=lambda row: row["requests"])

    assert (skipped["successRate"], skipped["p50Seconds"] < 0.0005) == (None, True)
    assert (tried["successRate"], tried["failures"], tried["skips"]) == (0.75, {"template": 1}, {"label": 1})
    assert 0.0005 < tried["p50Seconds"] < 0.001
    assert 0.01 < tried["p99Seconds"] < 0.025
    assert json.loads(json.dumps(tried)) == tried


def test_the_metrics_get_the_same_revisions() -> None:
    assert revision_rows(REPORT) == {
        "a": RevisionRow(True, 12.5, "1.24", "f00d"),
        "b": RevisionRow(False, 1.0, "1.24", "f00d"),
        "c": RevisionRow(False),
    }
