"""The status page and its JSON."""

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
from injector.revisions.following import _row
from injector.revisions.registry import snapshot_of
from injector.revisions.reports import LoadReport, RevisionState
from injector.revisions.tags import parse_tags
from injector.webhook.lifecycle import Phase
from injector.webhook.operations import (
    ago,
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
    tag_requests,
    when,
)
from injector.webhook.shadow import Admission, Shadows
from tests.cases import cases
from tests.revisions.fakes import fake_revision

GOOD = RevisionState("a", fake_revision("a"), None, 12.5, ("policy: none",))
BROKEN_SINCE = RevisionState("b", fake_revision("b"), ConfigError("is empty", where="b/config"), 1.0)
BROKEN = RevisionState("c", None, ConfigError("is missing"))
REPORT = LoadReport({"a": GOOD, "b": BROKEN_SINCE, "c": BROKEN}, (ConfigError("leads nowhere", where="tag `x`"),))
ASTRAY = replace(REPORT, webhook_faults=("MutatingWebhookConfiguration prod: it calls istiod",))


def test_the_status_says_what_is_served_and_what_is_wrong(metrics: Metrics) -> None:
    snapshot = snapshot_of(
        [fake_revision("a"), fake_revision("b")],
        parse_tags("prod: {weights: {a: 9, b: 1}, namespaces: {payments: a}}\ndefault: b"),
    )

    data = status_data(snapshot, ASTRAY, Phase.SERVING, Shadows(metrics), version="1.2.3")

    assert json.loads(json.dumps(data)) == data
    assert (data["version"], data["phase"], data["default"]) == ("1.2.3", "serving", "default")
    assert [
        (revision["name"], revision["served"], revision["valid"], revision["error"]) for revision in data["revisions"]
    ] == [
        ("a", True, True, None),
        ("b", True, False, "b/config: is empty"),
        ("c", False, False, "is missing"),
    ]
    own = {"name": "a", "writtenRevision": "a", "notes": ["policy: none"], "origin": "revisions/a", "loadedAt": 12.5}
    assert data["revisions"][0] == {**REVISION, **own}
    assert data["tags"] == [
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
    assert data["tagErrors"] == ["tag `x`: leads nowhere"]
    assert data["sourceError"] is None
    assert data["webhookErrors"] == ["MutatingWebhookConfiguration prod: it calls istiod"]


def test_a_source_that_cannot_be_read_is_shown(metrics: Metrics) -> None:
    report = LoadReport({}, (), ConfigError("cannot be read", where="revisions"))

    data = status_data(snapshot_of([], {}), report, Phase.SERVING, Shadows(metrics), version="1.2.3")

    assert data["sourceError"] == "revisions: cannot be read"


def test_a_tag_shows_its_shadow_and_what_that_came_to(metrics: Metrics) -> None:
    tags = parse_tags("prod: {weights: {a: 9, b: 1}, salt: x, shadow: {revision: b, sample: 25}}")
    shadows = Shadows(metrics)
    admission = Admission("prod", fake_revision("a"), fake_revision("b"), {}, RequestFacts(), Skipped("x", "x"), 1)
    shadows.count(admission, [Change("env", "spec.containers[app].env[A].value", "s3cr3t", "other")])

    data = status_data(
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
    assert data["tags"] == [tag]
    assert data["shadowDropped"] == 0
    assert "s3cr3t" not in json.dumps(data)


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
        metrics.requests.count(outcome, {"total": seconds}, reason, "1-24", "prod")
    metrics.requests.count(Outcome.SKIP, {"total": 0.0004}, "policy", "1-30")

    skipped, tried = sorted(request_rows(metrics), key=lambda row: row["requests"])

    assert (skipped["successRate"], skipped["p50Seconds"] < 0.0005) == (None, True)
    assert (tried["successRate"], tried["failures"], tried["skips"]) == (0.75, {"template": 1}, {"label": 1})
    assert 0.0005 < tried["p50Seconds"] < 0.001
    assert 0.01 < tried["p99Seconds"] < 0.025
    assert json.loads(json.dumps(tried)) == tried


def test_the_metrics_get_the_same_revisions() -> None:
    assert {name: _row(state) for name, state in REPORT.revisions.items()} == {
        "a": RevisionRow(True, 12.5, "1.24", "f00d"),
        "b": RevisionRow(False, 1.0, "1.24", "f00d"),
        "c": RevisionRow(False),
    }


REVISION: dict[str, Any] = {
    "name": "1-24",
    "served": True,
    "valid": True,
    "error": None,
    "warnings": [],
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
    "notReady": None,
    "refusals": [],
    "unserved": None,
    "upgrades": None,
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
        "Sidecar injector serving 1.2.3, as of 1970-01-01 00:01:00Z Reload Reload every 10 s",
        "0 problems 100 refused requests 1 tag /inject: prod 2 revisions reloaded 30 s ago 1,900 requests",
        "1-24 served 1.24 (stated) 60 s ago f00d revisions/1-24",
        "1-30 the last good one is served config: is empty",
        "prod Weights 1-24 90 % 1-30 10 % Requests 1-24 100 % payments 1-24 100 % Shadow 1-30 for 25 % of the requests: same 7",
        "different 3 (image 2) The last differences of prod image spec.containers[istio-proxy].image 1,900 requests",
        "1-24 prod 1,900 1,600 200 label 200 100 template 60, annotation 40 94.12 % 1.2 ms 34.5 ms",
    ):
        assert said in text, text


def test_a_revision_that_never_was_good_is_not_served() -> None:
    broken = {"name": "x", "served": False, "valid": False, "error": "is empty", "warnings": [], "notes": []}

    assert "x not served is empty" in text_of(status_page({**STATUS, "revisions": [broken]}))


def test_a_revision_that_fails_on_a_built_in_pod_is_served_with_a_warning() -> None:
    warned = {**REVISION, "warnings": ["fails on built-in pod plain"]}

    assert "served warning fails on built-in pod plain" in text_of(status_page({**STATUS, "revisions": [warned]}))


def test_what_is_wrong_as_a_whole_stands_above_all() -> None:
    reload = {"at": 30.0, "failure": "source", "errors": ["revisions: cannot be read", "tag `x`: leads nowhere"]}
    elsewhere = {"webhookErrors": ["MutatingWebhookConfiguration prod: it calls istiod"]}

    wrong = {"reload": reload, "certificate": {"error": "it has expired"}, "notReady": "starting"}
    text = text_of(status_page({**STATUS, **elsewhere, **wrong}))

    assert text.startswith("(5) injector: serving Sidecar injector serving")
    assert "5 problems" in text
    assert (
        "Problems not ready: starting revisions: cannot be read tag `x`: leads nowhere MutatingWebhookConfiguration"
        in text
    )
    assert "prod: it calls istiod certificate: it has expired Tags" in text


def test_a_fault_of_the_certificate_that_makes_the_server_unready_is_one_problem() -> None:
    expired = {"certificate": {"error": "it has expired"}, "notReady": "it has expired"}

    assert "1 problem 100" in text_of(status_page({**STATUS, **expired}))


def test_the_last_refusals_are_shown_before_the_tags() -> None:
    refusals = [
        {"namespace": "shop", "owner": "Deployment/web", "reason": "annotation", "revision": "1-24", "tag": "prod", "at": "metadata.x",
         "count": 3, "time": 50.0},
        {"namespace": "", "owner": "", "reason": "overload", "revision": "", "tag": "", "at": "HTTP status 429", "count": 1, "time": 0.0},
    ]  # fmt: skip

    text = text_of(status_page({**STATUS, "refusals": refusals}))

    assert "100 refused requests last 10 s ago" in text
    assert (
        "Recent refusals Workload Reason Revision Times Last Deployment/web shop annotation metadata.x 1-24 tag prod 3 times"
        in text
    )
    assert "10 s ago unknown overload HTTP status 429 1 time 60 s ago Tags" in text


def test_a_revision_has_one_colour_everywhere_and_a_former_one_has_none() -> None:
    former = {**REQUEST, "revision": "1-20", "tag": "prod"}
    page = status_page({**STATUS, "upgrades": [UPGRADE], "requests": [REQUEST, former]})

    colours = {name: set(re.findall(rf'class="rev (\w+)">{name}<', page)) for name in ("1-20", "1-24", "1-30")}
    assert colours == {"1-20": {"other"}, "1-24": {"c0"}, "1-30": {"c1"}}
    assert {"part c0", "part c1", "part other"} == set(re.findall(r'rect class="([^"]+)"', page))


def test_a_tag_of_one_revision_is_one_line() -> None:
    tag = {"name": "prod", "revision": "1-24", "weights": {"1-24": 1}, "namespaces": {}, "shadow": None}
    page = status_page({**STATUS, "tags": [tag]})

    assert "prod 1-24 1,900 requests" in text_of(page)
    assert "Weights" not in page
    assert "svg" not in page


def test_many_tags_are_an_index_by_revision_and_only_special_ones_have_rows() -> None:
    many = [
        {"name": f"t-{number:02}", "revision": f"1-{24 + number % 2 * 6}", "weights": {"x": 1}, "namespaces": {}, "shadow": None}
        for number in range(12)
    ]  # fmt: skip
    counted = [{**REQUEST, "tag": "t-03", "requests": 7}]

    page = status_page({**STATUS, "tags": [*STATUS["tags"], *many], "requests": counted})

    text = text_of(page)
    assert "Split, or with a shadow 1 prod 1-24 6 t-00 t-02 t-04" in text
    assert "1-30 6 t-01 t-03 7 t-05" in text
    assert 'href="#tag-prod"' in page
    assert re.findall(r'<tr id="([^"]+)"', page) == ["tag-prod"]


def test_the_page_reloads_itself_only_if_it_is_asked_to() -> None:
    assert "http-equiv" not in status_page(STATUS)
    page = status_page(STATUS, refresh=True)
    assert '<meta http-equiv="refresh" content="10">' in page
    assert "Reloads every 10 s. Stop" in text_of(page)


def test_with_nothing_to_show_each_table_says_none() -> None:
    text = text_of(status_page({**STATUS, **NOTHING}))

    assert text.count(" none") == 3


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
    assert "Unknown revisions" not in status_page(STATUS)


UPGRADE: dict[str, Any] = {
    "name": "up", "tag": "prod", "from": "1-28", "to": "1-30", "phase": "Running", "progress": "wave rest, Soaking: 3 done",
    "waves": [{"name": "dev", "done": True}, {"name": "rest", "done": False}], "left": 2, "total": 1200, "secondsLeft": 300.0,
    "gates": {"latency": "no data: <i>"}, "reason": "soaking", "progressedAt": 1.0,
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
        "2 open upgrades", "up Running 1-28 to 1-30 , tag prod 99 % 1,198 of 1,200 workloads, about 5 min left dev: done rest wave rest,",
        "wave rest, Soaking: 3 done soaking Gate latency no data: &lt;i&gt;", "new not started no such tag Tags",
    ):  # fmt: skip
        assert says in text, text
    assert "<i>" not in page
    assert "Upgrades" not in status_page(STATUS)


def test_a_label_is_escaped() -> None:
    names = {"<script>alert(1)</script>": {"namespaces": 1, "pods": 0}}

    assert "<script" not in status_page({**STATUS, "unserved": {**UNSERVED, "names": names}})


HOSTILE = """<script>alert(1)</script>"'&{{ 7 * 7 }}"""


def renamed(value: Any, name: str) -> Any:
    """The same data with another name for the revision 1-30 or the tag prod, wherever it stands."""
    if isinstance(value, dict):
        return {renamed(key, name): renamed(entry, name) for key, entry in value.items()}
    if isinstance(value, list):
        return [renamed(entry, name) for entry in value]
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


def test_shares_add_up_and_requests_of_a_tag_are_those_of_all_its_revisions() -> None:
    requests = [
        {"revision": "a", "tag": "prod", "requests": 1},
        {"revision": "old", "tag": "prod", "requests": 3},
        {"revision": "a", "tag": "other", "requests": 9},
    ]

    assert tag_requests(requests) == {"prod": {"a": 1, "old": 3}, "other": {"a": 9}}
    assert shares({"a": 1, "b": 3, "c": 0}) == {"a": 25, "b": 75, "c": 0}
    assert shares({"a": 0}) == {}

    assert [percent(part) for part in (0, 100 / 3, 100)] == ["0 %", "33.33 %", "100 %"]


def test_a_rate_is_never_rounded_up_to_all() -> None:
    rates = [rate(share) for share in (None, 1.0, 0.9999999, 0.5, 0.0)]

    assert rates == ["none", "100 %", "99.99 %", "50.00 %", "0.00 %"]


def test_figures_and_times_read_the_same_everywhere() -> None:
    assert when(1_700_000_000.9) == "2023-11-14 22:13:20Z"
    assert [ago(1_000_000 - age, 1_000_000) for age in (0, 119.9, 120, 7200, 200_000)] == [
        "0 s ago", "119 s ago", "2 min ago", "2 h ago", "2 days ago",
    ]  # fmt: skip
    assert ago(1_000_000, 0) == "in 11 days"
    assert [number(count) for count in (0, 999, 12345)] == ["0", "999", "12,345"]
    assert [milliseconds(seconds) for seconds in (None, 0.00123456, 30.0)] == ["none", "1.23 ms", "30 s"]
    assert reasons({"a": 1, "b": 1200, "c": 1}) == "b 1,200, a 1, c 1"


BOUNDS = [(0.001, 10), (0.002, 60), (0.004, 100), (math.inf, 100)]
"""A hundred requests: ten within a millisecond, fifty more within two, forty more within four."""


@pytest.mark.parametrize(
    ("bounds", "share", "seconds"),
    [
        *((BOUNDS, *bounds) for bounds in ((0.05, 0.0005), (0.1, 0.001), (0.35, 0.0015), (0.8, 0.003), (1.0, 0.004))),
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
