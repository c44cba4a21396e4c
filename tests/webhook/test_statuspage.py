from __future__ import annotations

import re
from typing import Any

import pytest

from injector.webhook.comparison import canaries
from injector.webhook.statuspage import (
    compact,
    duration,
    milliseconds,
    number,
    rate,
    reasons,
    shares_text,
    status_page,
    when,
)

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
STEP = {
    "end": 120.0,
    "revisions": {
        "1-24": {"workloads": 9, "requests": 90, "failures": 4},
        "1-30": {"workloads": 1, "requests": 10, "failures": 2},
    },
    "shadowDifferences": 3,
}
HISTORY: dict[str, Any] = {
    "window": "2h",
    "stepSeconds": 120.0,
    "steps": 60,
    "workloadsError": 0.0325,
    "ends": [120.0],
    "tags": [{"name": "prod", "steps": [STEP]}],
}
STATUS: dict[str, Any] = {
    "version": "1.2.3",
    "time": 60.0,
    "phase": "serving",
    "default": "prod",
    "reload": {"at": 30.0, "failure": None, "errors": []},
    "revisions": [REVISION, {**REVISION, "name": "1-30", "valid": False, "error": "config: is empty"}],
    "tags": [
        {"name": "prod", "revision": "1-24", "weights": {"1-24": 90, "1-30": 10}, "salt": "prod", "shadow": SHADOW}
    ],
    "requests": [REQUEST],
    "history": HISTORY,
    "shadowDropped": 0,
    "certificate": None,
}
STATUS["canaries"] = canaries(STATUS)
NOTHING: dict[str, Any] = {
    "revisions": [],
    "tags": [],
    "requests": [],
    "canaries": [],
    "history": {**HISTORY, "ends": [], "tags": []},
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
        "1-24: 90 %, 1-30: 10 % 1-30, 25 %: same 7, different 3 image 2",
        "image spec.containers[istio-proxy].image",
        "1-24 prod 1,900 1,600 200 label 200 100 template 60, annotation 40 1.2 ms 34.5 ms",
    ):
        assert said in text, text


def test_the_picture_of_a_tag_says_in_words_what_it_shows() -> None:
    text = text_of(status_page(STATUS))

    for said in (
        "1-24 last step 90 %, about 9 workloads; weight 90 %",
        "1-30 last step 10 %, about 1 workload; weight 10 %; tried by the shadow",
        "prod: share of workloads by revision, failures and shadow differences over time",
        "Last step, 00:00:00 to 00:02:00: 1-24 90 %, 1-30 10 %, in all 6 failures and 3 shadow differences.",
        "Failures: 6 6 0",
        "Shadow differences: 3 3 0",
        "Until 1-24 1-30 Failures Differences 00:02:00 90 % (9) 10 % (1) 6 3",
        "Workloads are counted to within some 3 %",
    ):
        assert said in text, text


def test_old_and_new_stand_side_by_side() -> None:
    text = text_of(status_page(STATUS))

    for said in (
        "1-24 (old) 1-30 (new)",
        "Istio 1.24 1.24",
        "Weight 90 % 10 %",
        "Requests 1,900 0",
        "Success rate 94.12 % none",
        "Skipped 200 label 200 0",
        "Failures 100 template 60, annotation 40 0",
        "p50 1.2 ms none",
        "p99 34.5 ms none",
        "Tried by the shadow none same 7, different 3 image 2",
    ):
        assert said in text, text


def test_a_tag_without_admissions_says_so() -> None:
    text = text_of(status_page({**STATUS, "history": NOTHING["history"]}))

    assert "No admissions in the last 2 hours." in text
    assert "1-24 (old) 1-30 (new)" in text


def test_requests_that_name_a_revision_have_a_picture_too() -> None:
    history = {**HISTORY, "tags": [{"name": "", "steps": [STEP]}]}

    text = text_of(status_page({**STATUS, **NOTHING, "history": history}))

    assert (
        "No tag: revisions by their own name 1-24 last step 90 %, about 9 workloads 1-30 last step 10 %, about 1 workload"
        in text
    )


def test_the_window_that_is_shown_is_marked() -> None:
    assert '<a href="?window=2h" aria-current="true">2 hours</a>' in status_page(STATUS)
    assert '<a href="?window=10m">10 minutes</a>' in status_page(STATUS)


def test_a_revision_that_never_was_good_is_not_served() -> None:
    broken = {"name": "x", "served": False, "valid": False, "error": "is empty", "notes": []}

    assert "x not served is empty" in text_of(status_page({**STATUS, "revisions": [broken]}))


def test_what_is_wrong_as_a_whole_stands_above_all() -> None:
    reload = {"at": 30.0, "failure": "source", "errors": ["revisions: cannot be read", "tag `x`: leads nowhere"]}

    text = text_of(status_page({**STATUS, "reload": reload, "certificate": {"error": "it has expired"}}))

    assert "Last reload 1970-01-01 00:00:30Z , failed: source" in text
    assert "Wrong now revisions: cannot be read tag `x`: leads nowhere certificate: it has expired Workloads by" in text


def test_with_nothing_to_show_each_table_says_none() -> None:
    text = text_of(status_page({**STATUS, **NOTHING}))

    assert text.count(" none") == 5
    assert "Workloads by revision" not in text


UNSERVED: dict[str, Any] = {
    "counted": True,
    "namespaces": 2,
    "pods": 7,
    "names": {"prdo": {"namespaces": 2, "pods": 7}},
    "more": 0,
    "podsAtLeast": False,
}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({}, "Namespaces: 2 , pods without a sidecar: 7 . Name Namespaces Pods prdo 2 7"),
        (
            {"podsAtLeast": True, "more": 5},
            "pods without a sidecar: at least 7 . Name Namespaces Pods prdo 2 7 and 5 more",
        ),
        ({"pods": None}, "Namespaces: 2 , pods without a sidecar: cannot be listed."),
        ({"counted": False, "names": {}}, "Names that nobody serves Not counted yet. Requests"),
    ],
)
def test_names_that_nobody_serves_are_shown(changes: dict[str, Any], says: str) -> None:
    assert says in text_of(status_page({**STATUS, "unserved": {**UNSERVED, **changes}}))


def test_where_nobody_looks_for_names_that_nobody_serves_the_page_is_silent() -> None:
    assert status_page({**STATUS, "unserved": None}) == status_page(STATUS)
    assert "nobody serves" not in status_page(STATUS)


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


def test_shares_are_told_in_percent() -> None:
    assert shares_text({"weights": {"a": 1, "b": 2, "c": 0}}) == "a: 33.33 %, b: 66.67 %, c: 0 %"


def test_a_time_reads_the_same_everywhere() -> None:
    assert when(1_700_000_000.9) == "2023-11-14 22:13:20Z"


@pytest.mark.parametrize(
    ("share", "text"),
    [(None, "none"), (1.0, "100 %"), (0.9999999, "99.99 %"), (0.5, "50.00 %"), (0.0, "0.00 %")],
)
def test_a_rate_is_never_rounded_up_to_all(share: float | None, text: str) -> None:
    assert rate(share) == text


def test_figures_read_well() -> None:
    assert [number(each) for each in (0, 999, 12345)] == ["0", "999", "12,345"]
    assert [compact(each) for each in (9999, 12345, 999_499, 999_500, 1_234_567)] == [
        "9,999",
        "12.3k",
        "999k",
        "1M",
        "1.23M",
    ]
    assert [milliseconds(each) for each in (None, 0.00123456, 30.0)] == ["none", "1.23 ms", "30 s"]
    assert [duration(each) for each in (10.0, 120.0)] == ["10 s", "2 min"]
    assert reasons({"a": 1, "b": 1200, "c": 1}) == "b 1,200, a 1, c 1"
