from __future__ import annotations

from typing import Any

import orjson
import pytest

from injector.kube.admission import decode
from injector.revisions.registry import Resolved, Snapshot
from injector.webhook.repeats import ENTRIES, MAX_BODY, Made, Repeats, masked
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


def after(
    first: dict[str, Any], second: dict[str, Any], *, path: str = "/inject", snapshot: Snapshot = SNAPSHOT
) -> bytes | None:
    """What is answered to the second review, of another uid, after the first was remembered; None where it is not known."""
    repeats = Repeats()
    body = body_of(first)
    known = masked("/inject", body)
    assert known is not None
    assert repeats.find(known, SNAPSHOT) is None
    repeats.keep(known, decode(body), PATCH, Made(answer(UID), RESOLVED, 7))
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
    repeats, body = Repeats(), body_of(pod_with(f"{TOKEN}bcdfg"))
    known = masked("/inject", body)
    assert known is not None
    repeats.keep(known, decode(body), f'["{TOKEN}bcdfg"]'.encode(), Made(answer(UID), RESOLVED, 7))

    assert len(repeats) == 0


def test_a_body_that_says_its_uid_twice_is_not_taken_for_another() -> None:
    body = body_of(pod_with("data"))
    twice = body.replace(b'"namespace"', f'"uid":"{OTHER_UID}","namespace"'.encode(), 1)
    repeats, known = Repeats(), masked("/inject", twice)
    assert known is not None
    repeats.keep(known, decode(twice), PATCH, Made(answer(OTHER_UID), RESOLVED, 7))

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


def test_only_so_many_answers_are_kept() -> None:
    repeats = Repeats()
    for number in range(ENTRIES + 1):
        body = body_of(pod_with("data", note=str(number)))
        known = masked("/inject", body)
        assert known is not None
        repeats.find(known, SNAPSHOT)
        repeats.keep(known, decode(body), PATCH, Made(answer(UID), RESOLVED, 7))

    assert len(repeats) == ENTRIES
