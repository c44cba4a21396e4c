from __future__ import annotations

import re
from typing import Any

import pytest

from injector.webhook.statuspage import shares, shares_text, status_page, when

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
SHADOW = {"revision": "1-30", "sample": 25, "requests": {"same": 7}, "differences": {"image": 2}, "last": []}
STATUS: dict[str, Any] = {
    "version": "1.2.3",
    "phase": "serving",
    "default": "prod",
    "revisions": [REVISION, {**REVISION, "name": "1-30", "valid": False, "error": "config: is empty"}],
    "tags": [
        {"name": "prod", "revision": "1-24", "weights": {"1-24": 90, "1-30": 10}, "salt": "prod", "shadow": SHADOW}
    ],
    "requests": [{"revision": "1-24", "tag": "prod", "requests": 9, "success": 6, "skip": 2, "failure": 1}],
    "shadowDropped": 0,
    "sourceError": None,
    "tagErrors": [],
    "certificate": None,
}


def text_of(page: str) -> str:
    """What a reader sees of a page, in one line."""
    body = re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL)
    return " ".join(re.sub(r"<[^>]+>", " ", body).split())


def test_the_page_says_what_is_served_by_whom_and_how_often() -> None:
    text = text_of(status_page(STATUS))

    for said in (
        "injector 1.2.3: serving",
        "1-24 served 1.24 (stated) f00d 1970-01-01 00:00:00Z revisions/1-24",
        "1-30 the last good one is served config: is empty",
        "1-24: 90 %, 1-30: 10 % 1-30, 25 %: same 7 image: 2",
        "1-24 prod 9 6 2 1",
    ):
        assert said in text, text


def test_a_revision_that_never_was_good_is_not_served() -> None:
    broken = {"name": "x", "served": False, "valid": False, "error": "is empty", "notes": []}

    assert "x not served is empty" in text_of(status_page({**STATUS, "revisions": [broken]}))


def test_what_is_wrong_as_a_whole_stands_above_all() -> None:
    certificate = {"error": "it has expired"}
    faults = {
        "sourceError": "revisions: cannot be read",
        "tagErrors": ["tag `x`: leads nowhere"],
        "certificate": certificate,
    }

    text = text_of(status_page({**STATUS, **faults}))

    assert "revisions: cannot be read tag `x`: leads nowhere certificate: it has expired Revisions" in text


def test_with_nothing_to_show_each_table_says_none() -> None:
    text = text_of(status_page({**STATUS, "revisions": [], "tags": [], "requests": [], "default": None}))

    assert text.count(" none") == 4


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


@pytest.mark.parametrize("place", ["error", "origin", "name"])
def test_every_text_is_escaped(place: str) -> None:
    hostile = {**REVISION, "valid": False, place: "<script>alert(1)</script>"}

    page = status_page({**STATUS, "revisions": [hostile]})

    assert "<script" not in page
    assert "&lt;script&gt;" in page


def test_bars_stand_side_by_side_and_fill_the_whole() -> None:
    tag = {"weights": {"a": 1, "b": 2, "c": 0}}

    assert [(share["start"], share["width"]) for share in shares(tag)] == [
        ("0.00", "33.33"),
        ("33.33", "66.67"),
        ("100.00", "0.00"),
    ]
    assert shares_text(tag) == "a: 33.33 %, b: 66.67 %, c: 0 %"


def test_a_time_reads_the_same_everywhere() -> None:
    assert when(1_700_000_000.9) == "2023-11-14 22:13:20Z"
