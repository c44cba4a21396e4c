"""AdmissionReview, v1 and v1beta1: the request of the API server and the responses to it.

Follows the Kubernetes page "Dynamic Admission Control" and k8s.io/api/admission. A response has the version of its request.

``decode`` also brings the pod into its canonical form, so that the pods of one workload are equal requests: without
``metadata.managedFields``, and with a constant in place of the random name of the service account token volume. ``Response.encode`` puts
the real name back.
"""

from __future__ import annotations

import base64
import re
import secrets
import string
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from injector.errors import DataError, ManifestError, ReviewError
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
# The service account admission plugin appends five random characters of this alphabet (k8s.io/apimachinery pkg/util/rand) to the name
# (kubernetes 1.35, plugin/pkg/admission/serviceaccount/admission.go, mountServiceAccountToken).
_TOKEN_VOLUME: Final = re.compile(r"kube-api-access-[bcdfghjklmnpqrstvwxz2456789]{5}")


def _unused_name() -> str:
    while True:
        name = "kube-api-access-" + "".join(secrets.choice(string.ascii_lowercase + string.digits) for _ in range(5))
        if not _TOKEN_VOLUME.fullmatch(name):
            return name


CANONICAL_TOKEN_VOLUME: Final = _unused_name()
"""What stands for the name of the token volume in a canonical pod.

The plugin cannot choose it. It is random for each process: wherever it occurs in an answer, it comes from the volume, and not from a
namespace, a path or a value that a template decodes (``"kube-api-access-0000\\u0030"``).
"""
_CANONICAL: Final = CANONICAL_TOKEN_VOLUME.encode()


@dataclass(frozen=True, slots=True)
class Request:
    """The request of an AdmissionReview.

    Attributes:
        uid: identifies the request; the response has the same.
        api_version: the version of the review.
        kind: the kind of the object, such as ``Pod``.
        namespace: where the object is created.
        name: the name of the object, if it has one yet.
        operation: ``CREATE``, ``UPDATE`` or another.
        dry_run: whether nothing will be stored.
        object: the object, in its canonical form.
        object_json: the same as JSON.
        token_volume: the real name of the volume that ``object`` calls ``CANONICAL_TOKEN_VOLUME``; empty if there is none.
    """

    uid: str
    api_version: str
    kind: str
    namespace: str
    name: str
    operation: str
    dry_run: bool
    object: dict[str, Any]
    object_json: bytes
    token_volume: str = ""


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
    """A response, which holds for every request with the same canonical object.

    Attributes:
        allowed: whether the object may be created.
        patch: the operations of a JSON patch, as JSON; empty for none.
        message: why it is not allowed.
        code: the HTTP status that the user's request is answered with; 0 leaves it to the API server.
        warnings: shown to the user.
        audit: annotations for the API server's audit log; it prefixes each key with the name of the webhook.
    """

    allowed: bool
    patch: bytes = b""
    message: str = ""
    code: int = 0
    warnings: tuple[str, ...] = ()
    audit: tuple[tuple[str, str], ...] = ()

    @property
    def names_token_volume(self) -> bool:
        """Whether the name of the token volume occurs in it, so that its encoding depends on the request."""
        texts = (self.message, *self.warnings, *(value for _, value in self.audit))
        return _CANONICAL in self.patch or any(CANONICAL_TOKEN_VOLUME in text for text in texts)

    def content(self, token_volume: str = "") -> bytes:
        """Return the JSON object of the response without its uid, with the real name of the token volume, if one is given."""
        content: dict[str, Any] = {"allowed": self.allowed}
        if self.patch and self.patch != _NO_OPERATIONS:
            patch = self.patch.replace(_CANONICAL, token_volume.encode()) if token_volume else self.patch
            content["patchType"] = "JSONPatch"
            content["patch"] = base64.b64encode(patch).decode()
        if self.message:
            status: dict[str, Any] = {"message": _unicode(self.message)}
            content["status"] = {**status, "code": self.code} if self.code else status
        if self.warnings:
            shown = self.warnings[:_MAX_WARNINGS]
            content["warnings"] = [_CONTROL.sub(" ", _unicode(text))[:MAX_WARNING] for text in shown]
        if self.audit:
            content["auditAnnotations"] = {key: _unicode(value) for key, value in self.audit}
        encoded = dump_json(content)
        return encoded.replace(_CANONICAL, token_volume.encode()) if token_volume else encoded

    def encode(self, request: Request | Broken) -> bytes:
        """Return the AdmissionReview that answers ``request``, as JSON."""
        return encode_review(request, self.content(request.token_volume if isinstance(request, Request) else ""))


_NO_OPERATIONS: Final = b"[]"


def encode_review(request: Request | Broken, content: bytes) -> bytes:
    """Return the AdmissionReview that answers ``request`` with ``content``, which ``Response.content`` returned."""
    head = b'{"apiVersion":"%b","kind":"AdmissionReview","response":{"uid":%b,'
    return b"%b%b}" % (head % (request.api_version.encode(), dump_json(request.uid)), content[1:])


def _unicode(text: str) -> str:
    """Return a text that JSON can hold: a message about bad text may quote it."""
    return text.encode("utf-8", "replace").decode()


def decode(body: bytes) -> Request:
    """Read an AdmissionReview, and bring its object into the canonical form.

    Raises:
        BrokenReviewError: it is not a review; the error carries the uid if it has one.
    """
    try:
        review = load_json(body)
    except ManifestError as error:
        raise BrokenReviewError(f"could not decode body: {error.what}", Broken(), hint="send JSON") from error
    if not isinstance(review, dict) or review.get("kind") != "AdmissionReview":
        raise BrokenReviewError("the body is not an AdmissionReview", Broken(), hint="send an AdmissionReview")
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
    try:
        token_volume, obj_json = _canonicalise(obj)
    except DataError as error:
        raise BrokenReviewError(f"its object cannot be encoded: {error.what}", broken, hint="nest it less") from error
    return Request(
        uid=broken.uid,
        api_version=broken.api_version,
        kind=_text(request.get("kind"), "kind"),
        namespace=_string(request.get("namespace")),
        name=_string(request.get("name")),
        operation=_string(request.get("operation")),
        dry_run=request.get("dryRun") is True,
        object=obj,
        object_json=obj_json,
        token_volume=token_volume,
    )


def _canonicalise(obj: dict[str, Any]) -> tuple[str, bytes]:
    """Bring an object that was just decoded into its canonical form, in place.

    Nothing is renamed if there are several such volumes, or if the constant already occurs in the object: the real name could not be put
    back.

    Returns:
        The name of the token volume, empty if nothing was renamed, and the canonical object as JSON.
    """
    meta = obj.get("metadata")
    if isinstance(meta, dict):
        meta.pop("managedFields", None)
    spec = obj.get("spec")
    named = _named_like_token_volumes(spec) if isinstance(spec, dict) else []
    token_volume = named[0]["name"] if named else ""
    if not named or any(each["name"] != token_volume for each in named):
        return "", dump_json(obj)
    for each in named:
        each["name"] = CANONICAL_TOKEN_VOLUME
    encoded = dump_json(obj)
    if encoded.count(_CANONICAL) == len(named):
        return token_volume, encoded
    for each in named:
        each["name"] = token_volume
    return "", dump_json(obj)


def _named_like_token_volumes(spec: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the volumes of a pod, and the mounts of its containers, whose name is that of a token volume."""
    found = _dicts(spec.get("volumes"))
    for kind in ("containers", "initContainers", "ephemeralContainers"):
        for container in _dicts(spec.get(kind)):
            found += _dicts(container.get("volumeMounts"))
    return [each for each in found if isinstance(name := each.get("name"), str) and _TOKEN_VOLUME.fullmatch(name)]


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _uid_of(request: Any) -> str:
    return _string(request.get("uid")) if isinstance(request, dict) else ""


def _version_of(review: Mapping[str, Any]) -> str:
    version = review.get("apiVersion")
    return version if version in _VERSIONS else V1


def _string(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _text(value: Any, key: str) -> str:
    return _string(value.get(key)) if isinstance(value, dict) else ""


def allowed(*, warnings: Sequence[str] = ()) -> Response:
    """Return the response that allows the object unchanged."""
    return Response(allowed=True, warnings=tuple(warnings))


def patched(patch: bytes, *, warnings: Sequence[str] = ()) -> Response:
    """Return the response that allows the object with a JSON patch, given as JSON."""
    return Response(allowed=True, patch=patch, warnings=tuple(warnings))


def errored(message: str, *, code: int = 0) -> Response:
    """Return the response that refuses the object with a message."""
    return Response(allowed=False, message=message, code=code)
