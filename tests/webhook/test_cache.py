"""The answer cache by itself: what it keeps, and how much memory that takes."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from injector.kube import admission
from injector.kube.serial import dump_json
from injector.metrics import Outcome
from injector.revisions.registry import Resolved, snapshot_of
from injector.webhook.cache import AnswerCache, CachedAnswer, Key
from tests.revisions.fakes import fake_revision

if TYPE_CHECKING:
    from injector.revisions.registry import Snapshot

PATH = "/inject/default"


@pytest.fixture
def snapshot() -> Snapshot:
    return snapshot_of([fake_revision("default")], {})


def key_of(number: int, length: int = 10) -> Key:
    return Key(PATH, "shop", dump_json({"number": number, "text": "x" * length}))


def answer_of(number: int, length: int = 10, *, token_volume: bool = False) -> CachedAnswer:
    """An answer with a patch of some length, which may name the token volume."""
    name = admission.CANONICAL_TOKEN_VOLUME if token_volume else ""
    patch = dump_json([{"op": "add", "path": f"/{number}", "value": f"{name}{'x' * length}"}])
    return CachedAnswer.of(admission.patched(patch), Outcome.SUCCESS, "", Resolved(fake_revision("default")))


def test_an_answer_is_found_by_an_equal_key_of_the_same_snapshot(snapshot: Snapshot) -> None:
    cache = AnswerCache()
    assert cache.get(snapshot, key_of(1)) is None

    cache.put(snapshot, key_of(1), answer_of(1))

    assert cache.get(snapshot, key_of(1)) == answer_of(1)
    assert cache.get(snapshot, key_of(2)) is None
    assert cache.get(snapshot, key_of(1)._replace(namespace="other")) is None
    assert cache.hits == 1
    assert cache.get(replace(snapshot), key_of(1)) is None


def test_the_answers_that_were_not_used_for_longest_go_first(snapshot: Snapshot) -> None:
    cache = AnswerCache(max_bytes=10_000)
    cache.get(snapshot, key_of(0))
    for number in range(100):
        cache.put(snapshot, key_of(number, 1_000), answer_of(number, 1_000))
        assert cache.get(snapshot, key_of(0, 1_000)) is not None

    assert 2 <= len(cache) <= 5
    assert cache.get(snapshot, key_of(99, 1_000)) is not None
    assert cache.get(snapshot, key_of(50, 1_000)) is None


@pytest.mark.parametrize("token_volume", [False, True])
def test_answers_take_hardly_more_memory_than_is_counted(snapshot: Snapshot, token_volume: bool) -> None:
    cache = AnswerCache()
    cache.get(snapshot, key_of(0))
    resolved = answer_of(0).resolved

    tracemalloc.start()
    try:
        for number in range(200):
            answer = replace(answer_of(number, 2_200, token_volume=token_volume), resolved=resolved)
            cache.put(snapshot, key_of(number, 2_200), answer)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert len(cache) == 200
    assert cache.size < taken < 1.3 * cache.size
