"""The state of a list and watch: pages, events, versions, faults and pauses."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from injector.cluster.client import Page
from injector.cluster.listwatch import Effect, List, Wait, Watch, WatchState
from tests.cluster.fakes import bookmark, item, line, page, status

WAITS = (1.0, 2.0, 4.0)

LONG = 60.0


def make_state(chance: float = 0.0) -> WatchState:
    """A list/watch that remembers the field `x`, and objects that have one."""
    return WatchState(lambda obj: obj.get("x"), lambda: chance)


@pytest.fixture
def state() -> WatchState:
    """One that has listed `a` at version 10."""
    listing = make_state()
    assert listing.page(page(item("a", 5, x=1))) is Effect.CHANGED
    return listing


def after_wait(state: WatchState) -> List | Watch:
    """The action after the wait that must come first."""
    assert isinstance(state.next(), Wait)
    action = state.next()
    assert isinstance(action, List | Watch)
    return action


def test_it_lists_then_watches_from_the_version_of_the_list(state: WatchState) -> None:
    assert make_state().next() == List()
    assert (state.next(), state.objects, state.listed) == (Watch("10"), {"a": 1}, True)


def test_pages_are_one_list_and_show_only_when_all_are_here() -> None:
    state = make_state()

    assert state.page(page(item("a", 1, x=1), more="more")) is Effect.SAME
    assert (state.objects, state.listed, state.next()) == ({}, False, List("more"))
    assert state.page(page(item("b", 1, x=2), version=11)) is Effect.CHANGED
    assert (state.objects, state.next()) == ({"a": 1, "b": 2}, Watch("11"))


def test_no_more_is_remembered_than_there_is_room_for() -> None:
    state = WatchState(lambda obj: obj.get("x"), lambda: 0.0, room=2)
    state.page(page(item("a", 1, x=1), more="more"))
    before = state.full
    state.page(page(item("b", 1, x=1), item("c", 1, x=1)))

    assert (before, state.full, state.objects) == (False, True, {"a": 1, "b": 1})
    state.line(line("MODIFIED", item("b", 12, x=2)))
    assert (state.line(line("ADDED", item("d", 13, x=1))), state.objects) == (Effect.SAME, {"a": 1, "b": 2})


def test_objects_that_were_left_out_are_listed_once_there_is_room_again() -> None:
    state = WatchState(lambda obj: obj.get("x"), lambda: 0.0, room=20)
    state.page(page(*(item(f"{number:02}", 1, x=1) for number in range(30))))

    effects = [state.line(line("DELETED", item(f"{number:02}", 11 + number, x=1))) for number in range(3)]
    assert effects == [Effect.CHANGED, Effect.CHANGED, Effect.STOP], "not every deletion starts a list"
    assert (state.next(), state.next()) == (Wait(1.0), List())
    state.page(page(*(item(f"{number:02}", 1, x=1) for number in range(3, 20))))
    assert (len(state.objects), state.full, state.faults.total()) == (17, False, 0)
    assert state.line(line("DELETED", item("03", 40, x=1))) is Effect.CHANGED


def test_the_next_list_says_again_if_there_is_room_for_all() -> None:
    state = WatchState(lambda obj: obj.get("x"), lambda: 0.0, room=1)
    state.page(page(item("a", 1, x=1)))
    before = state.full
    state.line(line("ADDED", item("b", 11, x=1)))
    state.note_failure("gone")
    during = state.full, state.page(page(more="more")), state.full
    state.page(page(item("b", 1, x=1)))

    assert (before, during, state.full) == (False, (True, Effect.SAME, True), False)


def test_there_is_room_for_everything_unless_it_is_said() -> None:
    state = make_state()
    state.page(page(*(item(str(number), 1, x=1) for number in range(500))))

    assert (len(state.objects), state.full) == (500, False)


@pytest.mark.parametrize(
    ("event", "effect", "objects"),
    [
        (line("ADDED", item("b", 11, x=2)), Effect.CHANGED, {"a": 1, "b": 2}),
        (line("MODIFIED", item("a", 11, x=3)), Effect.CHANGED, {"a": 3}),
        (line("MODIFIED", item("a", 11, x=1)), Effect.SAME, {"a": 1}),
        (line("MODIFIED", item("a", 11)), Effect.CHANGED, {}),
        (line("DELETED", item("a", 11, x=1)), Effect.CHANGED, {}),
        (line("DELETED", item("b", 11, x=1)), Effect.SAME, {"a": 1}),
        (line("ADDED", item("b", 11, "ns", x=2)), Effect.CHANGED, {"a": 1, "ns/b": 2}),
        (line("ADDED", item("b", 11)), Effect.SAME, {"a": 1}),
        (bookmark(11), Effect.SAME, {"a": 1}),
    ],
)
def test_an_event_changes_what_is_known_and_the_version(
    state: WatchState, event: bytes, effect: Effect, objects: dict[str, Any]
) -> None:
    assert (state.line(event), state.objects, state.next()) == (effect, objects, Watch("11"))


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        (status(410), "gone"),
        (status(500), "error"),
        (b"not json", "garbage"),
        (b'{"type": "ADDED"', "garbage"),
        (b"[]", "garbage"),
        (b"null", "garbage"),
        (b'{"type": "ADDED", "object": null}', "garbage"),
        (b'{"type": "ERROR", "object": null}', "garbage"),
        (b'{"type": "ADDED", "object": {"metadata": null}}', "garbage"),
        (b'{"type": "ADDED", "object": {"metadata": {"name": "b"}}, "x": 1}', "garbage"),
        (b'{"type": "NEW", "object": {"metadata": {"name": "b", "resourceVersion": "11"}}}', "garbage"),
        (b'{"type": "ADDED", "object": {"metadata": {"name": "b", "resourceVersion": 11}}}', "garbage"),
        (b'{"type": ["ADDED"], "object": {"metadata": {"name": "b", "resourceVersion": "11"}}}', "garbage"),
    ],
)
def test_a_line_that_cannot_be_followed_is_counted_and_everything_is_listed_again(
    state: WatchState, event: bytes, reason: str
) -> None:
    assert state.line(event) is Effect.STOP
    assert (dict(state.faults), state.last_fault) == ({reason: 1}, reason)
    assert after_wait(state) == List()


@pytest.mark.parametrize("reason", ["cut", "idle", "unreachable", "server", "throttled", "forbidden", "unauthorized"])
def test_a_watch_that_failed_goes_on_from_the_version_it_had(state: WatchState, reason: str) -> None:
    state.line(bookmark(12))
    state.note_failure(reason, lasted=LONG)

    assert after_wait(state) == Watch("12")
    assert state.objects == {"a": 1}


def test_after_three_faults_in_a_row_it_lists_again(state: WatchState) -> None:
    for expected in (Watch("10"), Watch("10"), List()):
        state.note_failure("server")
        assert after_wait(state) == expected


def test_a_failed_page_is_retried_and_an_expired_list_restarts() -> None:
    state = make_state()
    state.page(page(item("a", 1, x=1), more="more"))

    state.note_failure("server")
    assert after_wait(state) == List("more")
    state.note_failure("gone")
    assert after_wait(state) == List()
    state.page(page(item("b", 1, x=1)))
    assert state.objects == {"b": 1}


def test_a_page_that_fails_three_times_restarts_the_list() -> None:
    state = make_state()
    for token in ("more", "rest"):
        state.page(page(item(token, 1, x=1), more=token))
        for _ in range(2):
            state.note_failure("server")
            assert after_wait(state) == List(token)
    state.note_failure("server")

    assert after_wait(state) == List()
    state.page(page(item("b", 1, x=1)))
    assert state.objects == {"b": 1}


def test_a_list_that_fails_in_a_page_leaves_nothing_in_the_next_list() -> None:
    state = WatchState(lambda item: item["spec"], lambda: 0.0)
    with pytest.raises(KeyError):
        state.page(page(item("a", 1, spec=1), {"spec": 2}))
    state.note_failure("internal")

    state.page(page(item("c", 3, spec=3)))

    assert state.objects == {"c": 3}


def test_a_list_without_version_is_garbage() -> None:
    state = make_state()

    assert state.page(Page((), "")) is Effect.STOP
    assert (state.listed, after_wait(state), state.last_fault) == (False, List(), "garbage")


def test_waits_grow_to_a_bound_and_reset_after_a_good_watch(state: WatchState) -> None:
    waits = []
    for _ in range(6):
        state.note_failure("unreachable")
        waits.append(state.next())
    state.note_failure("cut", lasted=LONG)

    assert waits == [Wait(seconds) for seconds in (*WAITS, *[WAITS[-1]] * 3)]
    assert state.next() == Wait(WAITS[0])


@pytest.mark.parametrize(("retry_after", "expected"), [(0.0, 1.0), (0.5, 1.0), (7.0, 7.0), (1e9, 30.0)])
def test_it_waits_as_long_as_the_api_server_asks_within_reason(
    state: WatchState, retry_after: float, expected: float
) -> None:
    state.note_failure("throttled", retry_after=retry_after)

    assert state.next() == Wait(expected)


def test_an_object_that_is_listed_again_unchanged_stays_the_same_one() -> None:
    state = make_state()
    state.page(page(item("a", 1, x=["kept"]), item("b", 1, x=["changed"])))
    before = dict(state.objects)

    state.page(page(item("a", 1, x=["kept"]), item("b", 2, x=["otherwise"])))

    assert state.objects == {"a": ["kept"], "b": ["otherwise"]}
    assert state.objects["a"] is before["a"]


def test_a_relist_forgets_deleted_objects(state: WatchState) -> None:
    state.line(status(410))
    after_wait(state)

    assert state.page(page(version=20)) is Effect.CHANGED
    assert state.objects == {}


EVENTS = st.sampled_from(["ADDED", "MODIFIED", "DELETED"])


@given(st.lists(st.tuples(EVENTS, st.sampled_from("abc"), st.integers(0, 2)), max_size=20))
def test_events_update_the_known_objects(events: list[tuple[str, str, int]]) -> None:
    expected: dict[str, int] = {}
    state = make_state()
    state.page(page())
    for version, (kind, name, value) in enumerate(events, 11):
        state.line(line(kind, item(name, version, x=value)))
        if kind == "DELETED":
            expected.pop(name, None)
        else:
            expected[name] = value

    assert state.objects == expected


FAULTS = st.one_of(
    st.tuples(st.just("failed"), st.sampled_from(["cut", "server", "gone", "throttled"]), st.floats(0, 600)),
    st.tuples(st.just("ended"), st.just(""), st.floats(0, 600)),
    st.tuples(st.just("line"), st.sampled_from(["x", '{"type":"ERROR","object":{"code":410}}']), st.just(0.0)),
    st.tuples(st.just("page"), st.just(""), st.just(0.0)),
)


@given(st.lists(FAULTS, max_size=60), st.floats(0, 1))
def test_no_order_of_faults_makes_a_hot_loop(faults: list[tuple[str, str, float]], chance: float) -> None:
    state = make_state(chance)
    requests, seconds = 0, 0.0
    for what, text, lasted in faults:
        action = state.next()
        if isinstance(action, Wait):
            seconds += action.seconds
            assert action.seconds <= max(WAITS) * 1.125
            action = state.next()
        requests += 1
        if isinstance(action, List):
            if what == "page":
                state.page(page())
            else:
                state.note_failure(text if what == "failed" else "server")
        elif what == "line":
            state.line(text.encode())
        elif what == "failed":
            seconds += lasted
            state.note_failure(text, lasted=lasted)
        else:
            seconds += lasted
            state.note_end(lasted)

    # Each list may be followed by a watch at once, and the first two requests of all may be.
    assert requests <= 2 * seconds + 3


@given(
    st.binary(max_size=40)
    | st.recursive(
        st.none() | st.text(max_size=4),
        lambda sub: st.dictionaries(st.sampled_from(["type", "object", "metadata", "name"]), sub, max_size=3),
        max_leaves=5,
    ).map(lambda data: json.dumps(data).encode())
)
def test_no_line_breaks_it(event: bytes) -> None:
    state = make_state()
    state.page(page(item("a", 5, x=1)))

    assert state.line(event) is Effect.STOP
    assert state.objects == {"a": 1}
