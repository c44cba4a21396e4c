"""Pods that a revision's templates failed on, so that a pod that is asked for again and again costs no rendering each time.

A template that spends its budget takes half a second, and controllers go on to ask for the pods of a workload that gets none. What a
template makes of a pod depends on nothing else but the facts of its request, so the answer stays the same as long as the revision does;
but a budget of time may be spent by bad luck, so a pod is tried again once in a while.
"""

from __future__ import annotations

import hashlib
import re
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import orjson

from injector.errors import BreakOutError, OverlayError, TemplateRenderError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from injector.injection.result import RequestFacts
    from injector.istio.revision import Revision

Failed: TypeAlias = TemplateRenderError | OverlayError | BreakOutError
FAILED: Final[tuple[type[Failed], ...]] = (TemplateRenderError, OverlayError, BreakOutError)
"""What templates fail with, or what is made of their text."""
ENTRIES: Final = 256
LONGEST: Final = 1_000
"""Characters of each text of an error that are remembered: a template may fail with what a pod holds."""
_KEPT: Final = "refusals"
LASTS: Final = 60.0
"""Seconds until a pod like one that was refused is tried again."""
_OF_ONE_POD: Final = frozenset({"uid", "creationTimestamp", "managedFields"})
"""What differs from pod to pod of a workload, and no template has a reason to read."""
# The alphabet of k8s.io/apimachinery/pkg/util/rand.
_TOKEN_VOLUME: Final = re.compile(rb"kube-api-access-[bcdfghjklmnpqrstvwxz2456789]{5}")


@dataclass(frozen=True, slots=True)
class Refusal:
    """An error, without what it holds of the pod that it was raised for, and when it was raised."""

    kind: type[Failed]
    what: str
    where: str
    hint: str
    noted: float

    def again(self) -> Failed:
        """Make the error anew."""
        return self.kind(self.what, where=self.where, hint=self.hint)


@dataclass
class Refusals:
    """The errors of templates, by what the pod and its request are; threads may share it."""

    clock: Callable[[], float] = time.monotonic
    _known: dict[bytes, Refusal] = field(default_factory=dict)

    def check(self, pod: Mapping[str, Any], facts: RequestFacts) -> None:
        """Refuse a pod like one that was refused.

        Raises:
            DataError: as it was raised for that one.
        """
        found = self._known.get(_key(pod, facts)) if self._known else None
        if found is not None and self.clock() < found.noted + LASTS:
            raise found.again()

    def note(self, pod: Mapping[str, Any], facts: RequestFacts, error: Failed) -> None:
        """Remember why a pod is refused; the oldest are forgotten, and all those that are to be tried again."""
        kind = next(each for each in FAILED if isinstance(error, each))
        key = _key(pod, facts)
        self._known.pop(key, None)
        what, where, hint = (text[:LONGEST] for text in (error.what, error.where, error.hint))
        now = self.clock()
        self._known[key] = Refusal(kind, what, where, hint, now)
        for oldest, refusal in list(self._known.items()):
            if len(self._known) <= ENTRIES and now < refusal.noted + LASTS:
                break
            self._known.pop(oldest, None)

    def __len__(self) -> int:
        """How many are remembered."""
        return len(self._known)


def refusals_of(revision: Revision) -> Refusals:
    """Return the refusals of a revision, which go with it."""
    found: Refusals = revision.kept.setdefault(_KEPT, Refusals())
    return found


def _key(pod: Mapping[str, Any], facts: RequestFacts) -> bytes:
    meta = {key: value for key, value in (pod.get("metadata") or {}).items() if key not in _OF_ONE_POD}
    of_request = [facts.namespace, dict(facts.proxy_envs), facts.namespace_meta, facts.guard]
    text = orjson.dumps([{**pod, "metadata": meta}, of_request], option=orjson.OPT_SORT_KEYS)
    return hashlib.blake2b(_TOKEN_VOLUME.sub(b"", text), digest_size=16).digest()
