"""AdmissionReviews: decoded, answered and refused."""

from __future__ import annotations

import base64
import copy
import json
from dataclasses import replace
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from injector.errors import ReviewError
from injector.kube.admission import (
    CANONICAL_TOKEN_VOLUME,
    Broken,
    BrokenReviewError,
    Request,
    allowed,
    decode,
    errored,
    patched,
)
from tests.factories import UID, make_pod, make_review

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
        object_json=orjson.dumps(make_pod()),
    )


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_the_answer_is_in_the_version_that_was_asked(version: str) -> None:
    request = decode(orjson.dumps(make_review(version=version)))

    assert orjson.loads(allowed().encode(request)) == {
        "apiVersion": f"admission.k8s.io/{version}",
        "kind": "AdmissionReview",
        "response": {"uid": UID, "allowed": True},
    }


def test_a_patch_goes_out_in_base64_with_its_type(request_of_a_pod: Request) -> None:
    patch = [{"op": "add", "path": "/metadata/labels", "value": {"a": "é"}}]

    response = answer(patched(orjson.dumps(patch), warnings=["careful"]).encode(request_of_a_pod))

    assert (response["allowed"], response["patchType"], response["warnings"]) == (True, "JSONPatch", ["careful"])
    assert orjson.loads(base64.b64decode(response["patch"])) == patch


def test_an_empty_patch_is_no_patch(request_of_a_pod: Request) -> None:
    assert answer(patched(b"[]").encode(request_of_a_pod)) == {"uid": UID, "allowed": True}


def test_a_refusal_has_a_message_and_a_code_where_one_is_given(request_of_a_pod: Request) -> None:
    assert answer(errored("no").encode(request_of_a_pod)) == {"uid": UID, "allowed": False, "status": {"message": "no"}}
    assert answer(errored("no", code=422).encode(request_of_a_pod))["status"] == {"message": "no", "code": 422}


def test_a_warning_fits_into_a_header(request_of_a_pod: Request) -> None:
    response = answer(allowed(warnings=["line\r\nline\x00é", "x" * 300]).encode(request_of_a_pod))

    assert response["warnings"] == ["line line é", "x" * 256]


def test_warnings_that_kubernetes_would_drop_are_not_sent(request_of_a_pod: Request) -> None:
    response = answer(allowed(warnings=[f"{number:0256}" for number in range(20)]).encode(request_of_a_pod))

    assert [int(warning) for warning in response["warnings"]] == list(range(16))
    assert sum(map(len, response["warnings"])) == 4096


def test_what_the_audit_log_is_to_note_is_said_where_there_is_something(request_of_a_pod: Request) -> None:
    noted = replace(allowed(), audit=(("decision", "injected"), ("tag", "a\udc80b")))

    assert answer(noted.encode(request_of_a_pod))["auditAnnotations"] == {"decision": "injected", "tag": "a?b"}
    assert "auditAnnotations" not in answer(allowed().encode(request_of_a_pod))


def test_a_message_that_is_no_unicode_is_answered_nevertheless(request_of_a_pod: Request) -> None:
    assert answer(errored("a\udc80b").encode(request_of_a_pod))["status"] == {"message": "a?b"}


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
        (b"[]", "not an AdmissionReview", Broken()),
        (b"null", "not an AdmissionReview", Broken()),
        (b'"AdmissionReview"', "not an AdmissionReview", Broken()),
        (b"{}", "not an AdmissionReview", Broken()),
        (review_with(kind="Pod"), "not an AdmissionReview", Broken()),
        (review_with(kind=["AdmissionReview"]), "not an AdmissionReview", Broken()),
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
    body = errored("no").encode(Broken(UID, V1BETA1))

    assert orjson.loads(body)["apiVersion"] == V1BETA1
    assert answer(body)["uid"] == UID


NAME = "kube-api-access-x7k2q"


def pod_with_token(name: str = NAME, **spec: Any) -> dict[str, Any]:
    """A pod as the service account admission plugin leaves it."""
    mount = {"name": name, "readOnly": True, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}
    pod = make_pod(containers=[{"name": "app", "image": "app", "volumeMounts": [mount]}])
    pod["spec"] |= {"volumes": [{"name": name, "projected": {"sources": []}}], **spec}
    return pod


def decoded(pod: dict[str, Any]) -> Request:
    return decode(orjson.dumps(make_review(pod)))


def test_the_pods_of_one_workload_are_equal_requests() -> None:
    first, second = pod_with_token(), pod_with_token("kube-api-access-bcdf2")
    first["metadata"]["managedFields"] = [{"time": "2026-11-22T14:47:10Z"}]
    second["metadata"]["managedFields"] = [{"time": "2026-11-22T14:47:11Z"}]

    assert decoded(first).object_json == decoded(second).object_json
    assert (decoded(first).token_volume, decoded(second).token_volume) == (NAME, "kube-api-access-bcdf2")
    assert orjson.loads(decoded(first).object_json) == pod_with_token(CANONICAL_TOKEN_VOLUME)
    assert decoded(first).object == pod_with_token()


def test_another_name_of_the_token_volume_is_put_everywhere() -> None:
    patch = orjson.dumps([{"op": "add", "path": "/a", "value": CANONICAL_TOKEN_VOLUME}])
    response = replace(errored(f"volume {CANONICAL_TOKEN_VOLUME}"), patch=patch, warnings=(CANONICAL_TOKEN_VOLUME,))
    response = replace(response, audit=(("a", CANONICAL_TOKEN_VOLUME),))

    content = answer(response.rename_volume(CANONICAL_TOKEN_VOLUME, NAME).encode(decoded(pod_with_token())))

    assert orjson.loads(base64.b64decode(content["patch"]))[0]["value"] == NAME
    assert (content["status"]["message"], content["warnings"]) == (f"volume {NAME}", [NAME])
    assert content["auditAnnotations"] == {"a": NAME}
    assert allowed().rename_volume(CANONICAL_TOKEN_VOLUME, NAME) == allowed()


@pytest.mark.parametrize(
    "pod",
    [
        pod_with_token(CANONICAL_TOKEN_VOLUME),
        pod_with_token(nodeName=CANONICAL_TOKEN_VOLUME),
        pod_with_token(initContainers=[{"name": "a", "volumeMounts": [{"name": NAME, "mountPath": "/token"}]}]),
        pod_with_token(nodeName=NAME),
        pod_with_token("kube-api-access-abcde"),
        pod_with_token("my-kube-api-access-bcdfg"),
    ],
    ids=[
        "named as the constant",
        "holds the constant",
        "mounted elsewhere",
        "named elsewhere",
        "not of the alphabet",
        "a longer name",
    ],
)
def test_a_pod_whose_real_name_could_not_be_put_back_is_left_as_it_is(pod: dict[str, Any]) -> None:
    request = decoded(pod)

    assert (request.token_volume, request.object) == ("", pod)


@pytest.mark.parametrize(
    "spec", [None, [], {"volumes": None}, {"volumes": [None, 5]}, {"containers": [{"volumeMounts": {"name": NAME}}]}]
)
def test_a_pod_of_another_form_is_left_as_it_is(spec: Any) -> None:
    pod = {"metadata": None, "spec": spec}

    assert decoded(pod).object == pod


def test_an_object_that_is_nested_too_deeply_is_an_error_of_the_review() -> None:
    body = orjson.dumps(make_review(object={"spec": {}})).replace(b'{"spec":{}}', b'{"a":' * 300 + b"1" + b"}" * 300)

    request = decode(body)

    assert request.uid == UID
    with pytest.raises(ReviewError, match="could not decode its object"):
        _ = request.object


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.text() | st.sampled_from(["metadata", "managedFields", "spec"]), inner)
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.text() | st.sampled_from(["metadata", "spec", "managedFields"]), JSON), st.booleans())
def test_an_object_is_decoded_like_json_but_for_its_managed_fields(obj: dict[str, Any], spaces: bool) -> None:
    review = make_review(object=obj)
    body = json.dumps(review, indent=1).encode() if spaces else orjson.dumps(review)
    expected = copy.deepcopy(obj)
    if isinstance(expected.get("metadata"), dict):
        expected["metadata"].pop("managedFields", None)

    assert decode(body).object == orjson.loads(orjson.dumps(expected))


@given(st.data())
def test_a_mutated_body_is_decoded_or_refused(data: st.DataObject) -> None:
    body = bytearray(orjson.dumps(make_review(pod_with_token())))
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(body)))
        body[start : start + data.draw(st.integers(0, 9))] = data.draw(
            st.binary(max_size=3)
            | st.sampled_from([b'"', b"\\u", b"{", b"}", b"[", b",", b"null", b"1e999", b"\\ud800"])
        )

    try:
        request = decode(bytes(body))
        _ = request.object
    except ReviewError:
        return
    assert orjson.loads(errored("no").encode(request))["response"]["uid"] == request.uid
