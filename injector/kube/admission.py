"""AdmissionReview, v1 and v1beta1: the request of the API server and the responses to it.

Follows the Kubernetes page "Dynamic Admission Control" and k8s.io/api/admission. A response has the version of its request.

``decode`` also brings the pod into its canonical form, so that the pods of one workload are equal requests: without
``metadata.managedFields``, and with a constant in place of the random name of the service account token volume. The canonical form is
bytes: a pod whose answer is cached is never decoded, and every other one is decoded from these bytes and the real name of the volume, so
that its answer cannot depend on anything else.
"""

from __future__ import annotations

import re
import secrets
import string
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from injector.errors import DataError, ManifestError, ReviewError
from injector.golang.json import MAX_LEVELS, dump_json, load_json

if TYPE_CHECKING:
    from collections.abc import Sequence

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
RANDOM_LETTERS: Final = 5
_PREFIX: Final = b"kube-api-access-"
_TOKEN_VOLUME: Final = re.compile(_PREFIX + rb"[bcdfghjklmnpqrstvwxz2456789]{%d}" % RANDOM_LETTERS)
# The JSON around its name in the list of volumes, and in the mounts that the plugin adds.
_BEFORE_NAME: Final = b'{"name":"'
_AFTER_NAME: Final = (
    b'","projected":{',
    b'","readOnly":true,"mountPath":"/var/run/secrets/kubernetes.io/serviceaccount"',
)


def _unused_name() -> str:
    while True:
        suffix = "".join(secrets.choice(string.ascii_lowercase + string.digits) for _ in range(RANDOM_LETTERS))
        name = _PREFIX + suffix.encode()
        if not _TOKEN_VOLUME.fullmatch(name):
            return name.decode()


CANONICAL_TOKEN_VOLUME: Final = _unused_name()
"""What stands for the name of the token volume in a canonical pod.

The plugin cannot choose it. It is random for each process: wherever it occurs in an answer, it comes from the volume, and not from a
namespace, a path or a value that a template decodes (``"kube-api-access-0000\\u0030"``).
"""
_CANONICAL: Final = CANONICAL_TOKEN_VOLUME.encode()


class Request(msgspec.Struct, frozen=True, dict=True):
    """The request of an AdmissionReview; its ``api_version`` is that of the review.

    ``object_json`` is the object in its canonical form. ``token_volume`` is the real name of the volume that the object calls
    ``CANONICAL_TOKEN_VOLUME``; empty if there is none.
    """

    uid: str
    api_version: str
    kind: str
    namespace: str
    name: str
    operation: str
    dry_run: bool
    object_json: bytes
    token_volume: str = ""

    @cached_property
    def object(self) -> dict[str, Any]:
        """The object without managed fields. Raises BrokenReviewError if it is not JSON, or is too deep to be encoded again."""
        object_json = self.object_json
        if self.token_volume:
            object_json = object_json.replace(_CANONICAL, self.token_volume.encode())
        try:
            decoded: dict[str, Any] = load_json(object_json)
            if self.object_json.count(b"{") + self.object_json.count(b"[") > MAX_LEVELS:
                dump_json(decoded)
        except DataError as error:
            what = f"could not decode its object: {error.what}"
            raise BrokenReviewError(what, Broken(self.uid, self.api_version)) from error
        return decoded


@dataclass(frozen=True, slots=True)
class Broken:
    """As much of an unusable review as an answer needs."""

    uid: str = ""
    api_version: str = V1


class BrokenReviewError(ReviewError):
    """A review that cannot be understood; ``broken`` tells whom to answer."""

    def __init__(self, what: str, broken: Broken, *, hint: str = "") -> None:
        super().__init__(what, where="AdmissionReview", hint=hint)
        self.broken = broken


@dataclass(frozen=True, slots=True)
class Response:
    """A response to a request.

    ``patch`` has the operations of a JSON patch; empty for none. ``message`` says why the object is not allowed. ``code`` is the HTTP
    status that the user's request is answered with; 0 leaves it to the API server. ``audit`` are annotations for the API server's audit
    log, which prefixes each key with the name of the webhook.
    """

    allowed: bool
    patch: bytes = b""
    message: str = ""
    code: int = 0
    warnings: tuple[str, ...] = ()
    audit: tuple[tuple[str, str], ...] = ()

    def rename_volume(self, name: str, other: str) -> Response:
        """Return the response with another name of the token volume."""
        return Response(
            self.allowed,
            self.patch.replace(name.encode(), other.encode()),
            self.message.replace(name, other),
            self.code,
            tuple(text.replace(name, other) for text in self.warnings),
            tuple((key, value.replace(name, other)) for key, value in self.audit),
        )

    def content(self) -> bytes:
        """Return the JSON object of the response without its uid."""
        content: dict[str, Any] = {"allowed": self.allowed}
        if self.patch and self.patch != _NO_OPERATIONS:
            content["patchType"] = "JSONPatch"
            content["patch"] = self.patch  # which msgspec writes in base64
        if self.message:
            status: dict[str, Any] = {"message": _unicode(self.message)}
            content["status"] = {**status, "code": self.code} if self.code else status
        if self.warnings:
            warnings = self.warnings[:_MAX_WARNINGS]
            content["warnings"] = [_CONTROL.sub(" ", _unicode(text))[:MAX_WARNING] for text in warnings]
        if self.audit:
            content["auditAnnotations"] = {key: _unicode(value) for key, value in self.audit}
        return _ENCODER.encode(content)

    def encode(self, request: Request | Broken) -> bytes:
        """Return the AdmissionReview that answers ``request``, as JSON."""
        return encode_review(request, self.content())


_NO_OPERATIONS: Final = b"[]"


def encode_review(request: Request | Broken, content: bytes) -> bytes:
    """Return the AdmissionReview that answers ``request`` with ``content``, which ``Response.content`` returned."""
    head = b'{"apiVersion":"%b","kind":"AdmissionReview","response":{"uid":%b,'
    return b"".join(
        (head % (request.api_version.encode(), dump_json(request.uid)), memoryview(content)[len("{") :], b"}")
    )


def _unicode(text: str) -> str:
    """Return a text that JSON can hold: a message about bad text may quote it."""
    return text.encode("utf-8", "replace").decode()


_Field: TypeAlias = dict[str, msgspec.Raw] | list[msgspec.Raw] | str | int | float | bool | None
"""A field of an object. The fields of ``metadata`` and ``spec`` are not decoded."""


class _RequestFields(msgspec.Struct, gc=False):
    """What is read of a request. The rest is skipped: user, options, the old object and others."""

    uid: Any = None
    kind: Any = None
    namespace: Any = None
    name: Any = None
    operation: Any = None
    dryRun: Any = None  # noqa: N815 -- the name in JSON
    object: dict[str, _Field] | None = None


class _Review(msgspec.Struct, gc=False):
    """What is read of an AdmissionReview."""

    apiVersion: Any = None  # noqa: N815 -- the name in JSON
    kind: Any = None
    request: _RequestFields = msgspec.field(default_factory=_RequestFields)


_DECODER: Final = msgspec.json.Decoder(_Review)
_ENCODER: Final = msgspec.json.Encoder()


def decode(body: bytes) -> Request:
    """Read an AdmissionReview with its object in the canonical form. Raises BrokenReviewError, with the uid if the body has one."""
    try:
        review = _DECODER.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise _broken(body) from error
    request = review.request
    if review.kind != "AdmissionReview" or review.apiVersion not in _VERSIONS:
        raise _broken(body)
    if not _string(request.uid) or request.object is None:
        raise _broken(body)
    token_volume, object_json = canonical_json(request.object)
    return Request(
        uid=request.uid,
        api_version=review.apiVersion,
        kind=_text(request.kind, "kind"),
        namespace=_string(request.namespace),
        name=_string(request.name),
        operation=_string(request.operation),
        dry_run=request.dryRun is True,
        object_json=object_json,
        token_volume=token_volume,
    )


def _broken(body: bytes) -> BrokenReviewError:
    """Return the error for a body that ``decode`` cannot read."""
    try:
        review = load_json(body)
    except ManifestError as error:
        return BrokenReviewError(f"could not decode body: {error.what}", Broken(), hint="send JSON")
    if not isinstance(review, dict) or review.get("kind") != "AdmissionReview":
        return BrokenReviewError("the body is not an AdmissionReview", Broken(), hint="send an AdmissionReview")
    request, version = review.get("request"), review.get("apiVersion")
    uid = _text(request, "uid")
    broken = Broken(uid, version if version in _VERSIONS else V1)
    if version not in _VERSIONS:
        return BrokenReviewError("its apiVersion is not known", broken, hint=f"send one of {', '.join(_VERSIONS)}")
    what = "its request has no object"
    if not isinstance(request, dict):
        what = "it has no request"
    elif not uid:
        what = "its request has no uid"
    return BrokenReviewError(what, broken, hint="send what the API server sends")


def canonical_json(obj: dict[str, Any]) -> tuple[str, bytes]:
    """Return the name of the token volume, empty if nothing was renamed, and the canonical object as JSON.

    ``obj`` loses its managed fields. The volume is recognised in the form in which API servers send it. It is not renamed if its name also
    occurs elsewhere in the object, or if the constant does: the real name could not be put back.
    """
    metadata = obj.get("metadata")
    if isinstance(metadata, dict):
        metadata.pop("managedFields", None)
    encoded = _ENCODER.encode(obj)
    start = encoded.find(_BEFORE_NAME + _PREFIX)
    match = _TOKEN_VOLUME.match(encoded, start + len(_BEFORE_NAME)) if start >= 0 else None
    if match is None or _CANONICAL in encoded:
        return "", encoded
    parts = encoded.split(match[0])
    if not all(part.endswith(_BEFORE_NAME) for part in parts[:-1]):
        return "", encoded
    if not all(part.startswith(_AFTER_NAME) for part in parts[1:]):
        return "", encoded
    return match[0].decode(), _CANONICAL.join(parts)


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
