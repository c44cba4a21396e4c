from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from typing import Any

import pytest

from injector.errors import ConfigError
from injector.injection.result import RequestFacts, Skipped
from injector.injection.tools.podchanges import Change
from injector.metrics import Metrics, Outcome, RevisionRow
from injector.revisions.following import revision_rows
from injector.revisions.registry import snapshot_of
from injector.revisions.reload import LoadReport, RevisionState
from injector.revisions.tags import parse_tags
from injector.webhook.lifecycle import Phase
from injector.webhook.shadow import Admission, Shadows
from injector.webhook.status.page import (
    Share,
    milliseconds,
    number,
    percent,
    quantile,
    rate,
    reasons,
    request_rows,
    shares,
    status_data,
    status_page,
    when,
)
from tests.cases import cases
from tests.revisions.fakes import fake_revision

GOOD = RevisionState("a", fake_revision("a"), None, 12.5, ("policy: none",))
KEPT = RevisionState("b", fake_revision("b"), ConfigError("is empty", where="b/config"), 1.0)
BROKEN = RevisionState("c", None, ConfigError("is missing"))
REPORT = LoadReport({"a": GOOD, "b": KEPT, "c": BROKEN}, (ConfigError("leads nowhere", where="tag `x`"),))
ASTRAY = replace(REPORT, webhook_faults=("MutatingWebhookConfiguration prod: it calls istiod",))


def test_the_status_says_what_is_served_and_what_is_wrong(metrics: Metrics) -> None:
    snapshot = snapshot_of(
        [fake_revision("a"), fake_revision("b")],
        parse_tags("prod: {weights: {a: 9, b: 1}, namespaces: {payments: a}}\ndefault: b"),
    )

    found = status_data(snapshot, ASTRAY, Phase.SERVING, Shadows(metrics), version="1.2.3")

    assert json.loads(json.dumps(found)) == found
    assert (found["version"], found["phase"], found["default"]) == ("1.2.3", "serving", "default")
    assert [(each["name"], each["served"], each["valid"], each["error"]) for each in found["revisions"]] == [
        ("a", True, True, None),
        ("b", True, False, "b/config: is empty"),
        ("c", False, False, "is missing"),
    ]
    own = {"name": "a", "writtenRevision": "a", "notes": ["policy: none"], "origin": "revisions/a", "loadedAt": 12.5}
    assert found["revisions"][0] == {**REVISION, **own}
    assert found["tags"] == [
        {"name": "default", "revision": "b", "weights": {"b": 1}, "salt": "default", "namespaces": {}, "shadow": None},
        {
            "name": "prod",
            "revision": "a",
            "weights": {"a": 9, "b": 1},
            "salt": "prod",
            "namespaces": {"payments": {"a": 1}},
            "shadow": None,
        },
    ]
    assert found["tagErrors"] == ["tag `x`: leads nowhere"]
    assert found["sourceError"] is None
    assert found["webhookErrors"] == ["MutatingWebhookConfiguration prod: it calls istiod"]


def test_a_source_that_cannot_be_read_is_shown(metrics: Metrics) -> None:
    report = LoadReport({}, (), ConfigError("cannot be read", where="revisions"))

    found = status_data(snapshot_of([], {}), report, Phase.SERVING, Shadows(metrics), version="1.2.3")

    assert found["sourceError"] == "revisions: cannot be read"


def test_a_tag_shows_its_shadow_and_what_that_came_to(metrics: Metrics) -> None:
    tags = parse_tags("prod: {weights: {a: 9, b: 1}, salt: x, shadow: {revision: b, sample: 25}}")
    shadows = Shadows(metrics)
    admission = Admission("prod", fake_revision("a"), fake_revision("b"), {}, RequestFacts(), Skipped("x", "x"), 1)
    shadows.count(admission, [Change("env", "spec.containers[app].env[A].value", "s3cr3t", "other")])

    found = status_data(
        snapshot_of([fake_revision("a"), fake_revision("b")], tags), REPORT, Phase.SERVING, shadows, version="1.2.3"
    )

    shadow = {
        "revision": "b",
        "sample": 25,
        "requests": {"different": 1},
        "differences": {"env": 1},
        "last": [{"kind": "env", "path": "spec.containers[app].env[A].value"}],
    }
    weights = {"a": 9, "b": 1}
    tag = {"name": "prod", "revision": "a", "weights": weights, "salt": "x", "namespaces": {}, "shadow": shadow}
    assert found["tags"] == [tag]
    assert found["shadowDropped"] == 0
    assert "s3cr3t" not in json.dumps(found)


def test_the_last_reload_is_shown_with_what_was_wrong(metrics: Metrics) -> None:
    def reload(report: LoadReport) -> Any:
        return status_data(snapshot_of([], {}), report, Phase.SERVING, Shadows(metrics), version="1.2.3")["reload"]

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
        metrics.count_request(outcome, {"total": seconds}, reason, "1-24", "prod")
    metrics.count_request(Outcome.SKIP, {"total": 0.0004}, "policy", "1-30")

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


REVISION: dict[str, Any] = {
    "name": "1-24",
    "served": True,
    "valid": True,
    "error": None,
    "notes": [],
    "istioVersion": "1.24",
    "versionReason": "stated",
    "engine": "go",
    "writtenRevision": "1-24",
    "fingerprint": "f00d",
    "origin": "revisions/1-24",
    "loadedAt": 0.0,
    "removedUntil": None,
}
SHADOW = {
    "revision": "1-30",
    "sample": 25,
    "requests": {"same": 7, "different": 3},
    "differences": {"image": 2},
    "last": [{"kind": "image", "path": "spec.containers[istio-proxy].image"}],
}
REQUEST = {
    "revision": "1-24",
    "tag": "prod",
    "requests": 1900,
    "success": 1600,
    "skip": 200,
    "failure": 100,
    "successRate": 1600 / 1700,
    "failures": {"annotation": 40, "template": 60},
    "skips": {"label": 200},
    "p50Seconds": 0.0012,
    "p99Seconds": 0.0345,
}
STATUS: dict[str, Any] = {
    "version": "1.2.3",
    "time": 60.0,
    "phase": "serving",
    "default": "prod",
    "reload": {"at": 30.0, "failure": None, "errors": []},
    "revisions": [REVISION, {**REVISION, "name": "1-30", "valid": False, "error": "config: is empty"}],
    "tags": [
        {
            "name": "prod",
            "revision": "1-24",
            "weights": {"1-24": 90, "1-30": 10},
            "salt": "prod",
            "namespaces": {"payments": {"1-24": 1}},
            "shadow": SHADOW,
        }
    ],
    "requests": [REQUEST],
    "shadowDropped": 0,
    "webhookErrors": [],
    "certificate": None,
}
NOTHING: dict[str, Any] = {
    "revisions": [],
    "tags": [],
    "requests": [],
    "default": None,
    "reload": {"at": 0.0, "failure": None, "errors": []},
}


def text_of(page: str) -> str:
    """What a reader sees of a page, in one line."""
    body = re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL)
    return " ".join(re.sub(r"<[^>]+>", " ", body).split())


def test_the_page_says_what_is_served_by_whom_and_how_often() -> None:
    text = text_of(status_page(STATUS))

    for said in (
        "injector 1.2.3: serving",
        "As of 1970-01-01 00:01:00Z",
        "Last reload 1970-01-01 00:00:30Z , good",
        "1-24 served 1.24 (stated) f00d 1970-01-01 00:00:00Z revisions/1-24",
        "1-30 the last good one is served config: is empty",
        "prod payments: 1-24 1 1-24 90 % 100 % 1-30, 25 %: same 7, different 3 image 2",
        "1-30 10 % 0 %",
        "image spec.containers[istio-proxy].image",
        "1-24 prod 1,900 1,600 200 label 200 100 template 60, annotation 40 94.12 % 1.2 ms 34.5 ms",
    ):
        assert said in text, text


def test_a_revision_that_never_was_good_is_not_served() -> None:
    broken = {"name": "x", "served": False, "valid": False, "error": "is empty", "notes": []}

    assert "x not served is empty" in text_of(status_page({**STATUS, "revisions": [broken]}))


def test_what_is_wrong_as_a_whole_stands_above_all() -> None:
    reload = {"at": 30.0, "failure": "source", "errors": ["revisions: cannot be read", "tag `x`: leads nowhere"]}
    elsewhere = {"webhookErrors": ["MutatingWebhookConfiguration prod: it calls istiod"]}

    text = text_of(status_page({**STATUS, **elsewhere, "reload": reload, "certificate": {"error": "it has expired"}}))

    assert "Last reload 1970-01-01 00:00:30Z , failed: source" in text
    assert "Problems revisions: cannot be read tag `x`: leads nowhere MutatingWebhookConfiguration prod: it" in text
    assert "it calls istiod certificate: it has expired Tags" in text


def test_with_nothing_to_show_each_table_says_none() -> None:
    text = text_of(status_page({**STATUS, **NOTHING}))

    assert text.count(" none") == 5


UNSERVED: dict[str, Any] = {
    "counted": True,
    "namespaces": 2,
    "pods": 7,
    "names": {"prdo": {"namespaces": 2, "pods": 7}},
    "more": 0,
    "podsAtLeast": False,
}


@cases("changes", "says")
def test_names_that_nobody_serves_are_shown(changes: dict[str, Any], says: str) -> None:
    assert says in text_of(status_page({**STATUS, "unserved": {**UNSERVED, **changes}}))


def test_where_nobody_looks_for_names_that_nobody_serves_the_page_is_silent() -> None:
    assert status_page({**STATUS, "unserved": None}) == status_page(STATUS)
    assert "Unknown revisions" not in status_page(STATUS)


UPGRADE: dict[str, Any] = {
    "name": "up", "tag": "prod", "from": "1-28", "to": "1-30", "phase": "Running", "progress": "wave rest, Soaking: 3 done",
    "waves": [{"name": "dev", "done": True}, {"name": "rest", "done": False}], "left": 2, "total": 1200, "secondsLeft": 300.0,
    "gates": {"latency": "no data: <b>"}, "reason": "soaking", "progressedAt": 1.0,
}  # fmt: skip


def test_upgrades_are_shown_with_their_waves_progress_gates_and_forecast() -> None:
    waiting: dict[str, Any] = {
        **dict.fromkeys(UPGRADE),
        "name": "new",
        "waves": [],
        "gates": {},
        "reason": "no such tag",
    }
    page = status_page({**STATUS, "upgrades": [UPGRADE, waiting]})
    text = " ".join(text_of(page).split())

    for says in (
        "1-28 to 1-30, tag prod", "dev: done", "wave rest, Soaking: 3 done", "soaking", "2 of 1,200", "about 5 min",
        "latency: no data: &lt;b&gt;", "new not started no such tag none",
    ):  # fmt: skip
        assert says in text, text
    assert "<b>" not in page
    assert "Upgrades" not in status_page({**STATUS, "upgrades": None})


def test_a_label_is_escaped() -> None:
    names = {"<script>alert(1)</script>": {"namespaces": 1, "pods": 0}}

    assert "<script" not in status_page({**STATUS, "unserved": {**UNSERVED, "names": names}})


HOSTILE = """<script>alert(1)</script>"'&{{ 7 * 7 }}"""


def renamed(value: Any, name: str) -> Any:
    """The same data with another name for the revision 1-30 or the tag prod, wherever it stands."""
    if isinstance(value, dict):
        return {renamed(key, name): renamed(each, name) for key, each in value.items()}
    if isinstance(value, list):
        return [renamed(each, name) for each in value]
    return HOSTILE if value == name else value


@pytest.mark.parametrize(
    "name", ["1-30", "prod", "config: is empty", "template", "image", "spec.containers[istio-proxy].image", "f00d"]
)
def test_every_text_is_escaped(name: str) -> None:
    page = status_page(renamed(STATUS, name))

    assert "<script" not in page
    assert "49" not in text_of(page)
    assert re.findall(r'"[^"<>]*&#34;[^"<>]*"|&lt;script&gt;', page)
    assert HOSTILE not in page


def test_shares_are_those_of_the_weights_and_of_the_requests_by_the_tag() -> None:
    requests = [
        {"revision": "a", "tag": "prod", "requests": 1},
        {"revision": "old", "tag": "prod", "requests": 3},
        {"revision": "a", "tag": "other", "requests": 9},
    ]
    tag = {"name": "prod", "weights": {"a": 1, "b": 3}}

    assert shares(tag, requests) == [Share("a", 25, 25), Share("b", 75, 0), Share("old", None, 75)]
    assert shares(tag, requests[2:]) == [Share("a", 25, None), Share("b", 75, None)]

    assert [percent(each) for each in (None, 0, 100 / 3, 100)] == ["none", "0 %", "33.33 %", "100 %"]


def test_a_rate_is_never_rounded_up_to_all() -> None:
    rates = [rate(share) for share in (None, 1.0, 0.9999999, 0.5, 0.0)]

    assert rates == ["none", "100 %", "99.99 %", "50.00 %", "0.00 %"]


def test_figures_and_times_read_the_same_everywhere() -> None:
    assert when(1_700_000_000.9) == "2023-11-14 22:13:20Z"
    assert [number(each) for each in (0, 999, 12345)] == ["0", "999", "12,345"]
    assert [milliseconds(each) for each in (None, 0.00123456, 30.0)] == ["none", "1.23 ms", "30 s"]
    assert reasons({"a": 1, "b": 1200, "c": 1}) == "b 1,200, a 1, c 1"


BOUNDS = [(0.001, 10), (0.002, 60), (0.004, 100), (math.inf, 100)]
"""A hundred requests: ten within a millisecond, fifty more within two, forty more within four."""


@pytest.mark.parametrize(
    ("bounds", "share", "seconds"),
    [
        *((BOUNDS, *each) for each in ((0.05, 0.0005), (0.1, 0.001), (0.35, 0.0015), (0.8, 0.003), (1.0, 0.004))),
        pytest.param([(0.001, 1), (30.0, 1), (math.inf, 100)], 0.5, 30.0, id="beyond the last bound"),
        pytest.param([(0.001, 0), (0.002, 0), (0.004, 4), (math.inf, 4)], 0.5, 0.003, id="empty buckets"),
        pytest.param([], 0.5, None, id="no buckets"),
        pytest.param([(0.001, 0), (math.inf, 0)], 0.5, None, id="no requests"),
    ],
)
def test_a_quantile_lies_within_its_bucket_in_proportion(
    bounds: list[tuple[float, int]], share: float, seconds: float | None
) -> None:
    assert quantile(bounds, share) == (None if seconds is None else pytest.approx(seconds))
