from __future__ import annotations

from typing import Any

import orjson
import pytest

from injector.kube.admission import decode
from injector.revisions.registry import Resolved, Snapshot
from injector.webhook.repeats import ENTRIES, MAX_BODY, SEEN, Made, Repeats, masked
from tests.factories import UID, make_pod, make_review
from tests.revisions.fakes import fake_revision

OTHER_UID = UID.replace("6", "7")
SNAPSHOT = Snapshot()
RESOLVED = Resolved(fake_revision())
TOKEN = "kube-api-access-"  # noqa: S105 -- a name
PATCH = b"[]"


def pod_with(*volumes: str, image: str = "app", note: str = "") -> dict[str, Any]:
    """A pod whose container mounts volumes of these names."""
    mounts = [{"name": name, "mountPath": f"/{index}"} for index, name in enumerate(volumes)]
    container = {"name": "app", "image": image, "volumeMounts": mounts}
    annotations = {"note": note} if note else None
    return make_pod(annotations=annotations, containers=[container], volumes=[{"name": name} for name in volumes])


def body_of(pod: dict[str, Any], uid: str = UID) -> bytes:
    """A review as the API server writes it."""
    review = make_review(pod, uid=uid)
    return orjson.dumps({"kind": review.pop("kind"), **review})


def answer(uid: str) -> bytes:
    return f'{{"uid":"{uid}","allowed":true}}'.encode()


def ask(repeats: Repeats, body: bytes, *, times: int = 1, uid: str = UID, patch: bytes = PATCH) -> None:
    """Ask for an answer that is not known, and give it, as the handler does."""
    known = masked("/inject", body)
    assert known is not None
    for _ in range(times):
        assert repeats.find(known, SNAPSHOT) is None
        repeats.keep(known, decode(body), patch, Made(answer(uid), RESOLVED))


def after(
    first: dict[str, Any], second: dict[str, Any], *, path: str = "/inject", snapshot: Snapshot = SNAPSHOT
) -> bytes | None:
    """What is answered to the second review, of another uid, after the first was asked for twice; None where it is not known."""
    repeats = Repeats()
    ask(repeats, body_of(first), times=2)
    asked = masked(path, body_of(second, OTHER_UID))
    found = None if asked is None else repeats.find(asked, snapshot)
    return None if found is None or asked is None else found.body(asked.uid)


def test_a_replica_gets_the_answer_of_the_one_before_with_its_own_uid() -> None:
    assert after(pod_with(f"{TOKEN}bcdfg"), pod_with(f"{TOKEN}xwz24")) == answer(OTHER_UID)


def test_a_pod_without_a_token_does_too() -> None:
    assert after(pod_with("data"), pod_with("data")) == answer(OTHER_UID)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (pod_with(f"{TOKEN}bcdfg"), pod_with(f"{TOKEN}bcdfg", image="other")),
        (pod_with(f"{TOKEN}bcdfg"), pod_with("data")),
        (pod_with(f"{TOKEN}bcdfg", "data"), pod_with("data", f"{TOKEN}bcdfg")),
        (pod_with(f"{TOKEN}bcdfg", f"{TOKEN}fffff"), pod_with(f"{TOKEN}bcdfg", f"{TOKEN}bcdfg")),
        (pod_with(f"{TOKEN}bcdfg"), pod_with(f"{TOKEN}aeiou")),
        (pod_with(f"{TOKEN}bcdfg", note=f"{TOKEN}bcdfg"), pod_with(f"{TOKEN}fffff", note=f"{TOKEN}fffff")),
        (pod_with(f"{TOKEN}bcdfg", note=f"a {TOKEN}bcdfg"), pod_with(f"{TOKEN}fffff", note=f"a {TOKEN}fffff")),
        (pod_with(note=UID), pod_with(note=OTHER_UID)),
    ],
)
def test_whatever_else_differs_is_another_request(first: dict[str, Any], second: dict[str, Any]) -> None:
    known = masked("/inject", body_of(first))

    assert known is None or after(first, second) is None


def test_another_path_is_another_request() -> None:
    assert after(pod_with("data"), pod_with("data"), path="/inject/canary") is None


def test_what_was_served_before_is_forgotten() -> None:
    assert after(pod_with("data"), pod_with("data"), snapshot=Snapshot()) is None


def test_an_answer_that_holds_the_name_of_the_token_is_not_kept() -> None:
    repeats = Repeats()
    ask(repeats, body_of(pod_with(f"{TOKEN}bcdfg")), times=2, patch=f'["{TOKEN}bcdfg"]'.encode())

    assert len(repeats) == 0


def test_a_body_that_says_its_uid_twice_is_not_taken_for_another() -> None:
    body = body_of(pod_with("data"))
    twice = body.replace(b'"namespace"', f'"uid":"{OTHER_UID}","namespace"'.encode(), 1)
    repeats = Repeats()
    ask(repeats, twice, times=2, uid=OTHER_UID)

    assert len(repeats) == 0


def test_what_is_asked_once_is_not_kept() -> None:
    repeats = Repeats()
    ask(repeats, body_of(pod_with("data")))
    ask(repeats, body_of(pod_with("other")))

    assert len(repeats) == 0


def test_a_request_that_came_before_many_others_is_taken_for_a_new_one() -> None:
    repeats = Repeats()
    for number in (*range(SEEN + 1), 0):
        ask(repeats, body_of(pod_with("data", note=str(number))))

    assert len(repeats) == 0


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b" " + body_of(pod_with("data")),
        body_of(pod_with("data")).replace(b"v1", b"v2", 1),
        body_of(pod_with("data", note="x" * MAX_BODY)),
    ],
)
def test_what_the_api_server_does_not_write_is_left_alone(body: bytes) -> None:
    assert masked("/inject", body) is None


def kept(numbers: range, repeats: Repeats) -> list[int]:
    """The requests of these numbers whose answer is known."""
    keys = {number: masked("/inject", body_of(pod_with("data", note=f"{number:03}"))) for number in numbers}
    return [number for number, key in keys.items() if key is not None and repeats.find(key, SNAPSHOT) is not None]


def filled(repeats: Repeats, numbers: range) -> Repeats:
    """``repeats`` after each of these requests came twice."""
    for number in numbers:
        ask(repeats, body_of(pod_with("data", note=f"{number:03}")), times=2)
    return repeats


def test_only_so_many_answers_are_kept() -> None:
    repeats = filled(Repeats(), range(ENTRIES + 1))

    assert (len(repeats), kept(range(2), repeats)) == (ENTRIES, [1])


def test_only_so_many_bytes_are_kept() -> None:
    known = masked("/inject", body_of(pod_with("data", note="000")))
    assert known is not None
    each = known.size + len(answer(""))
    repeats = filled(Repeats(room=3 * each), range(9))

    assert kept(range(9), repeats) == [6, 7, 8]


def test_what_was_served_before_takes_no_room() -> None:
    known = masked("/inject", body_of(pod_with("data", note="000")))
    assert known is not None
    repeats = filled(Repeats(room=3 * (known.size + len(answer("")))), range(3))
    repeats.find(known, Snapshot())

    assert kept(range(3, 6), filled(repeats, range(3, 6))) == [3, 4, 5]
