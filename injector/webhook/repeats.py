"""Answers to reviews that came before but for their uid and the name of the token's volume, as those of a ReplicaSet do.

The API server writes every review alike, the uid in one place, and calls a pod's token volume ``kube-api-access-`` and five random
characters (plugin/pkg/admission/serviceaccount, Kubernetes 1.35). Where nothing else in a body differs and the answer does not hold that
name, the answer is the same: a plan, which alone comes here, never looks at the names of volumes but for whether they are its own.
What is asked once is not kept: of a pod of a Job there is no other.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from injector.kube.admission import Request
    from injector.revisions.registry import Resolved, Snapshot

ENTRIES: Final = 512
MAX_BODY: Final = 16 * 1024
MAX_BYTES: Final = 10 * 1024 * 1024
"""Of bodies, paths and answers together: twenty kilobytes for each of ``ENTRIES``, where an answer mostly has ten, its body four."""
SEEN: Final = 1024
"""Requests that are remembered by their hash until they come again."""

_HEAD: Final = re.compile(
    rb'\{"kind":"AdmissionReview","apiVersion":"admission\.k8s\.io/v1(?:beta1)?","request":\{"uid":"([-0-9a-f]{36})"'
)
# The alphabet of k8s.io/apimachinery/pkg/util/rand.
_TOKEN_VOLUME: Final = re.compile(rb'"(kube-api-access-[bcdfghjklmnpqrstvwxz2456789]{5})"')


class Masked(NamedTuple):
    """A request without what differs between repeats: by path, times that the name was taken out, and what is left of the body.

    ``name`` is that of the token's volume; empty where it has none.
    """

    key: tuple[str, int, bytes]
    uid: bytes
    name: bytes

    @property
    def size(self) -> int:
        """How many bytes of a request are remembered."""
        return _size_of(self.key)


class Made(NamedTuple):
    """An answer, and the revision that gave it."""

    answer: bytes
    resolved: Resolved


@dataclass(frozen=True, slots=True)
class Repeat:
    """An answer in two parts, with the uid between them, and the revision that gave it."""

    head: bytes
    tail: bytes
    resolved: Resolved

    def body(self, uid: bytes) -> bytes:
        """Return the answer to the review of a uid."""
        return b"".join((self.head, uid, self.tail))

    @property
    def size(self) -> int:
        """How many bytes the answer has, without a uid."""
        return len(self.head) + len(self.tail)


@dataclass
class Repeats:
    """The answers that were given last, all by one snapshot; they belong to the event loop's thread.

    ``room`` is how many bytes they may have, requests included.
    """

    room: int = MAX_BYTES
    _snapshot: Snapshot | None = None
    _held: OrderedDict[tuple[str, int, bytes], Repeat] = field(default_factory=OrderedDict)
    _seen: OrderedDict[int, bool] = field(default_factory=OrderedDict)
    _size: int = 0

    def find(self, wanted: Masked, snapshot: Snapshot) -> Repeat | None:
        """Return the answer to a request, if the same was asked while the same was served."""
        if snapshot is not self._snapshot:
            self._snapshot = snapshot
            self._held.clear()
            self._seen.clear()
            self._size = 0
        found = self._held.get(wanted.key)
        if found is not None:
            self._held.move_to_end(wanted.key)
        else:
            self._note(hash(wanted.key))
        return found

    def keep(self, wanted: Masked, review: Request, patch: bytes, made: Made) -> None:
        """Remember an answer that a plan gave, if it was asked for before and all that was masked is what it is taken for.

        ``find`` was asked about it last.
        """
        if not self._seen.get(hash(wanted.key)):
            return
        answer, resolved = made
        uid, name, places = wanted.uid, wanted.name, wanted.key[1]
        if review.uid.encode() != uid or answer.count(uid) != 1:
            return
        if name and (name in patch or places != _places(review.object["spec"], name.decode())):
            return
        head, _, tail = answer.partition(uid)
        found = self._held[wanted.key] = Repeat(head, tail, resolved)
        self._size += wanted.size + found.size
        while len(self._held) > ENTRIES or self._size > self.room:
            key, gone = self._held.popitem(last=False)
            self._size -= _size_of(key) + gone.size

    def _note(self, kind: int) -> None:
        """Remember that a request came, and whether it did before."""
        self._seen[kind] = kind in self._seen
        if len(self._seen) > SEEN:
            self._seen.popitem(last=False)

    def __len__(self) -> int:
        """How many there are."""
        return len(self._held)


# No JSON holds it.
_TAKEN_OUT: Final = b"\x00"


def masked(raw_path: str, body: bytes) -> Masked | None:
    """Return a request without what differs between repeats; None for one that is not as the API server writes it."""
    head = _HEAD.match(body) if len(body) <= MAX_BODY else None
    if head is None or body.count(head[1]) != 1:
        return None
    rest = body[: head.start(1)] + body[head.end(1) :]
    names = _TOKEN_VOLUME.findall(rest)
    if not names:
        return Masked((raw_path, 0, rest), head[1], b"")
    name = names[0]
    if names.count(name) != len(names) or rest.count(name) != len(names):
        return None
    return Masked((raw_path, len(names), rest.replace(name, _TAKEN_OUT)), head[1], name)


def _places(spec: dict[str, Any], name: str) -> int:
    """Return how often a name stands where a volume or a mount is named."""
    named = [*spec.get("volumes", ())]
    for kind in ("containers", "initContainers"):
        for container in spec.get(kind, ()):
            named += container.get("volumeMounts", ())
    return sum(item.get("name") == name for item in named)


def _size_of(key: tuple[str, int, bytes]) -> int:
    path, _, body = key
    return len(path) + len(body)
