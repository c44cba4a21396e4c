from __future__ import annotations

from typing import Any

import pytest

from injector.webhook.comparison import canaries, oldest_first, percent

REVISIONS = [
    {"name": "1-24", "istioVersion": "1.24", "fingerprint": "f00d"},
    {"name": "1-30", "istioVersion": "1.30", "fingerprint": "beef"},
    {"name": "1-9", "istioVersion": "1.9", "fingerprint": "cafe"},
    {"name": "broken"},
]
ROW = {
    "success": 6,
    "skip": 2,
    "failure": 1,
    "successRate": 6 / 7,
    "failures": {"template": 1},
    "skips": {"label": 2},
    "p50Seconds": 0.001,
    "p99Seconds": 0.004,
}
REQUESTS = [
    {"revision": "1-24", "tag": "prod", "requests": 9, **ROW},
    {"revision": "1-30", "tag": "", "requests": 5, **ROW},
]
SHADOW = {"revision": "1-30", "sample": 25, "requests": {"same": 7}, "differences": {"image": 2}, "last": []}


def status(weights: dict[str, int], shadow: dict[str, Any] | None = None) -> dict[str, Any]:
    """A status with one tag."""
    tag = {"name": "prod", "weights": weights, "shadow": shadow}
    return {"revisions": REVISIONS, "tags": [tag], "requests": REQUESTS}


@pytest.mark.parametrize(
    ("weights", "pair"),
    [
        ({"1-24": 90, "1-30": 10}, ("1-24", "1-30")),
        ({"1-24": 10, "1-30": 90}, ("1-24", "1-30")),
        ({"1-30": 50, "1-24": 50}, ("1-24", "1-30")),
        ({"1-24": 100, "1-30": 0}, ("1-24", "1-30")),
        ({"1-9": 10, "1-24": 60, "1-30": 30}, ("1-24", "1-30")),
        ({"1-24": 90, "1-9": 10}, ("1-9", "1-24")),
    ],
)
def test_the_two_heaviest_are_compared_the_older_istio_first(weights: dict[str, int], pair: tuple[str, str]) -> None:
    (found,) = canaries(status(weights))

    assert (found["old"]["revision"], found["new"]["revision"]) == pair


def test_of_one_version_the_tag_says_which_is_old() -> None:
    same = [{"name": name, "istioVersion": "1.30"} for name in ("a", "b")]

    (found,) = canaries({**status({"b": 50, "a": 50}), "revisions": same})

    assert (found["old"]["revision"], found["new"]["revision"]) == ("b", "a")


def test_what_is_served_is_compared_with_what_the_shadow_tries() -> None:
    (found,) = canaries(status({"1-24": 1}, SHADOW))

    assert found["old"] == {
        "revision": "1-24",
        "istioVersion": "1.24",
        "fingerprint": "f00d",
        "percent": 100.0,
        "requests": 9,
        **ROW,
        "shadow": None,
    }
    assert found["new"]["shadow"] == {"sample": 25, "requests": {"same": 7}, "differences": {"image": 2}}
    assert found["new"]["requests"] == 0, "requests by another way are no requests of this tag"
    assert found["new"]["successRate"] is None


def test_a_tag_with_weights_and_a_shadow_has_its_figures_in_the_column_of_its_candidate() -> None:
    (found,) = canaries(status({"1-24": 90, "1-30": 10}, SHADOW))

    assert (found["old"]["shadow"], found["new"]["shadow"]["requests"]) == (None, {"same": 7})


@pytest.mark.parametrize("shadow", [None, {**SHADOW, "revision": "1-24"}])
def test_where_there_is_one_revision_nothing_is_compared(shadow: dict[str, Any] | None) -> None:
    assert canaries(status({"1-24": 1}, shadow)) == []


def test_what_is_gone_comes_first_and_what_never_was_last() -> None:
    names = ["1-30", "gone", "unknown", "broken", "1-24", "1-9"]

    assert oldest_first(status({}), None, names) == ["broken", "gone", "1-9", "1-24", "1-30", "unknown"]


def test_weights_are_shares_of_their_sum() -> None:
    assert percent(1, {"weights": {"a": 1, "b": 2}}) == 33.33
