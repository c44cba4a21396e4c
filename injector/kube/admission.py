"""AdmissionReview, v1 and v1beta1: the question of the API server and the answers to it.

Follows the Kubernetes page "Dynamic Admission Control" and k8s.io/api/admission. Answers go out in the version that was
asked.
"""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from injector.errors import ManifestError, ReviewError
from injector.kube.serial import dump_json, load_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

V1: Final = "admission.k8s.io/v1"
V1BETA1: Final = "admission.k8s.io/v1beta1"
_VERSIONS: Final = (V1, V1BETA1)
# Kubernetes asks for warnings of at most 256 characters, and drops those that do not fit a header: with line ends and
# other control characters (k8s.io/apimachinery pkg/util/net, NewWarningHeader).
MAX_WARNING: Final = 256
# Those after the first 4096 characters are dropped, all of one answer taken together.
_MAX_WARNINGS: Final = 4096 // MAX_WARNING
_CONTROL = re.compile(r"[\x00-\x1f\x7f]+")


@dataclass(frozen=True, slots=True)
class Request:
    """What the API server asks about: an object that is about to be created."""

    uid: str
    api_version: str
    kind: str
    namespace: str
    name: str
    operation: str
    dry_run: bool
    object: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Broken:
    """As much of an unusable review as an answer needs."""

    uid: str = ""
    api_version: str = V1


class BrokenReviewError(ReviewError):
    """A review that cannot be understood; ``broken`` tells whom to answer."""

    def __init__(self, what: str, broken: Broken, *, where: str = "AdmissionReview", hint: str = "") -> None:
        super().__init__(what, where=where, hint=hint)
        self.broken = broken


@dataclass(frozen=True, slots=True)
class Response:
    """An answer: allowed or not, with a patch, as operations or as their JSON, a message and warnings.

    ``audit`` is what the API server notes of the request in its audit log, each key below the webhook's name: it is the
    name part of a qualified name.
    """

    uid: str
    api_version: str
    allowed: bool
    patch: Sequence[Mapping[str, Any]] | bytes = ()
    message: str = ""
    code: int = 0
    warnings: tuple[str, ...] = ()
    audit: tuple[tuple[str, str], ...] = ()

    def encode(self) -> bytes:
        """Return the AdmissionReview as JSON.

        Raises:
            DataError: the patch is no JSON data.
        """
        response: dict[str, Any] = {"uid": self.uid, "allowed": self.allowed}
        if self.patch:
            response["patchType"] = "JSONPatch"
            patch = self.patch if isinstance(self.patch, bytes) else dump_json(self.patch)
            response["patch"] = base64.b64encode(patch).decode()
        if self.message:
            status: dict[str, Any] = {"message": _unicode(self.message)}
            response["status"] = {**status, "code": self.code} if self.code else status
        if self.warnings:
            shown = self.warnings[:_MAX_WARNINGS]
            response["warnings"] = [_CONTROL.sub(" ", _unicode(text))[:MAX_WARNING] for text in shown]
        if self.audit:
            response["auditAnnotations"] = {key: _unicode(value) for key, value in self.audit}
        return dump_json({"apiVersion": self.api_version, "kind": "AdmissionReview", "response": response})


def _unicode(text: str) -> str:
    """Return a text that JSON can hold: a message about bad text may quote it."""
    return text.encode("utf-8", "replace").decode()


def decode(body: bytes) -> Request:
    """Read an AdmissionReview.

    Raises:
        BrokenReviewError: it is none; the error carries the uid where one can be found.
    """
    try:
        review = load_json(body)
    except ManifestError as error:
        raise BrokenReviewError(f"could not decode body: {error.what}", Broken(), hint="send JSON") from error
    if not isinstance(review, dict) or review.get("kind") != "AdmissionReview":
        raise BrokenReviewError("the body is no AdmissionReview", Broken(), hint="send an AdmissionReview")
    request = review.get("request")
    broken = Broken(_uid_of(request), _version_of(review))
    if review.get("apiVersion") not in _VERSIONS:
        raise BrokenReviewError("its apiVersion is not known", broken, hint=f"send one of {', '.join(_VERSIONS)}")
    if not isinstance(request, dict):
        raise BrokenReviewError("it has no request", broken, hint="send what the API server sends")
    if not broken.uid:
        raise BrokenReviewError("its request has no uid", broken, hint="send what the API server sends")
    obj = request.get("object")
    if not isinstance(obj, dict):
        raise BrokenReviewError("its request has no object", broken, hint="send what the API server sends")
    return Request(
        uid=broken.uid,
        api_version=broken.api_version,
        kind=_text(request.get("kind"), "kind"),
        namespace=_string(request.get("namespace")),
        name=_string(request.get("name")),
        operation=_string(request.get("operation")),
        dry_run=request.get("dryRun") is True,
        object=obj,
    )


def _uid_of(request: Any) -> str:
    return _string(request.get("uid")) if isinstance(request, dict) else ""


def _version_of(review: Mapping[str, Any]) -> str:
    version = review.get("apiVersion")
    return version if version in _VERSIONS else V1


def _string(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _text(value: Any, key: str) -> str:
    return _string(value.get(key)) if isinstance(value, dict) else ""


def allowed(request: Request, *, warnings: Sequence[str] = ()) -> Response:
    """Answer: go on, unchanged."""
    return Response(request.uid, request.api_version, allowed=True, warnings=tuple(warnings))


def patched(request: Request, patch: Sequence[Mapping[str, Any]] | bytes, *, warnings: Sequence[str] = ()) -> Response:
    """Answer: go on, with these JSON patch operations, or with these in JSON already."""
    return Response(request.uid, request.api_version, allowed=True, patch=patch, warnings=tuple(warnings))


def errored(request: Request | Broken, message: str, *, code: int = 0) -> Response:
    """Answer: no, and why."""
    return Response(request.uid, request.api_version, allowed=False, message=message, code=code)
