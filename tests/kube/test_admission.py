from __future__ import annotations

import base64
from dataclasses import replace
from typing import Any

import orjson
import pytest

from injector.errors import DataError, ReviewError
from injector.kube.admission import Broken, BrokenReviewError, Request, allowed, decode, errored, patched
from tests.factories import UID, make_pod, make_review

V1 = "admission.k8s.io/v1"
V1BETA1 = "admission.k8s.io/v1beta1"


@pytest.fixture
def request_of_a_pod() -> Request:
    return decode(orjson.dumps(make_review()))


def answer(body: bytes) -> dict[str, Any]:
    """The response of an encoded review."""
    review: dict[str, Any] = orjson.loads(body)
    assert review["kind"] == "AdmissionReview"
    response: dict[str, Any] = review["response"]
    return response


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_a_review_is_read_in_either_version(version: str) -> None:
    review = make_review(namespace="shop", version=version, name="hello-1", operation="CREATE", dryRun=True)

    assert decode(orjson.dumps(review)) == Request(
        uid=UID,
        api_version=f"admission.k8s.io/{version}",
        kind="Pod",
        namespace="shop",
        name="hello-1",
        operation="CREATE",
        dry_run=True,
        object=make_pod(),
    )


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_the_answer_is_in_the_version_that_was_asked(version: str) -> None:
    request = decode(orjson.dumps(make_review(version=version)))

    assert orjson.loads(allowed(request).encode()) == {
        "apiVersion": f"admission.k8s.io/{version}",
        "kind": "AdmissionReview",
        "response": {"uid": UID, "allowed": True},
    }


def test_a_patch_goes_out_in_base64_with_its_type(request_of_a_pod: Request) -> None:
    patch = [{"op": "add", "path": "/metadata/labels", "value": {"a": "é"}}]

    response = answer(patched(request_of_a_pod, patch, warnings=["careful"]).encode())

    assert (response["allowed"], response["patchType"], response["warnings"]) == (True, "JSONPatch", ["careful"])
    assert orjson.loads(base64.b64decode(response["patch"])) == patch


def test_an_empty_patch_is_no_patch(request_of_a_pod: Request) -> None:
    assert answer(patched(request_of_a_pod, []).encode()) == {"uid": UID, "allowed": True}


def test_a_refusal_has_a_message_and_a_code_where_one_is_given(request_of_a_pod: Request) -> None:
    assert answer(errored(request_of_a_pod, "no").encode()) == {
        "uid": UID,
        "allowed": False,
        "status": {"message": "no"},
    }
    assert answer(errored(request_of_a_pod, "no", code=422).encode())["status"] == {"message": "no", "code": 422}


def test_a_warning_fits_into_a_header(request_of_a_pod: Request) -> None:
    response = answer(allowed(request_of_a_pod, warnings=["line\r\nline\x00é", "x" * 300]).encode())

    assert response["warnings"] == ["line line é", "x" * 256]


def test_warnings_that_kubernetes_would_drop_are_not_sent(request_of_a_pod: Request) -> None:
    response = answer(allowed(request_of_a_pod, warnings=[f"{number:0256}" for number in range(20)]).encode())

    assert [int(each) for each in response["warnings"]] == list(range(16))
    assert sum(map(len, response["warnings"])) == 4096


def test_what_the_audit_log_is_to_note_is_said_where_there_is_something(request_of_a_pod: Request) -> None:
    noted = replace(allowed(request_of_a_pod), audit=(("decision", "injected"), ("tag", "a\udc80b")))

    assert answer(noted.encode())["auditAnnotations"] == {"decision": "injected", "tag": "a?b"}
    assert "auditAnnotations" not in answer(allowed(request_of_a_pod).encode())


def test_a_message_that_is_no_unicode_is_answered_nevertheless(request_of_a_pod: Request) -> None:
    assert answer(errored(request_of_a_pod, "a\udc80b").encode())["status"] == {"message": "a?b"}


def test_a_patch_that_is_no_json_is_an_error(request_of_a_pod: Request) -> None:
    with pytest.raises(DataError, match="json: "):
        patched(request_of_a_pod, [{"op": "add", "path": "/a", "value": object()}]).encode()


def review_with(**changes: Any) -> bytes:
    """A review with keys changed at its top."""
    return orjson.dumps({**make_review(), **changes})


@pytest.mark.parametrize(
    ("body", "what", "broken"),
    [
        (b"", "could not decode body", Broken()),
        (b"{", "could not decode body", Broken()),
        (b"\xff\xfe", "could not decode body", Broken()),
        (b"[" * 100_000, "could not decode body", Broken()),
        (b'{"a":' * 100_000, "could not decode body", Broken()),
        (b"[]", "no AdmissionReview", Broken()),
        (b"null", "no AdmissionReview", Broken()),
        (b'"AdmissionReview"', "no AdmissionReview", Broken()),
        (b"{}", "no AdmissionReview", Broken()),
        (review_with(kind="Pod"), "no AdmissionReview", Broken()),
        (review_with(kind=["AdmissionReview"]), "no AdmissionReview", Broken()),
        (review_with(apiVersion="admission.k8s.io/v2"), "apiVersion is not known", Broken(UID)),
        (review_with(apiVersion={"v": 1}), "apiVersion is not known", Broken(UID)),
        (review_with(apiVersion=None), "apiVersion is not known", Broken(UID)),
        (review_with(request=None), "has no request", Broken()),
        (review_with(request=[]), "has no request", Broken()),
        (review_with(request="x"), "has no request", Broken()),
        (review_with(request={}), "request has no uid", Broken()),
        (orjson.dumps(make_review(uid="")), "request has no uid", Broken()),
        (orjson.dumps(make_review(uid=5)), "request has no uid", Broken()),  # type: ignore[arg-type] # hostile
        (orjson.dumps(make_review(object=None)), "request has no object", Broken(UID)),
        (orjson.dumps(make_review(object=[], version="v1beta1")), "request has no object", Broken(UID, V1BETA1)),
        (orjson.dumps(make_review(object="x")), "request has no object", Broken(UID)),
    ],
)
def test_a_broken_review_is_told_with_as_much_as_an_answer_needs(body: bytes, what: str, broken: Broken) -> None:
    with pytest.raises(BrokenReviewError) as caught:
        decode(body)

    assert what in caught.value.what
    assert caught.value.broken == broken
    assert isinstance(caught.value, ReviewError)
    assert caught.value.hint


def test_odd_fields_beside_the_object_do_no_harm() -> None:
    review = make_review(namespace=5, kind="Pod", name=None, operation=[], dryRun="yes")  # type: ignore[arg-type] # hostile

    request = decode(orjson.dumps(review))

    assert (request.namespace, request.kind, request.name, request.operation, request.dry_run) == (
        "",
        "",
        "",
        "",
        False,
    )


def test_a_broken_review_is_answered_in_its_version() -> None:
    body = errored(Broken(UID, V1BETA1), "no").encode()

    assert orjson.loads(body)["apiVersion"] == V1BETA1
    assert answer(body)["uid"] == UID
