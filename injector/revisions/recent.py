"""The last few pods that each revision injected, to try a new build on before it is served.

A pod is kept as the bytes of its review, so that memory is bounded and a request pays for no copy. It is forgotten after ``KEEP``
seconds, so that a pod of the past does not keep a new configuration out for good.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from injector.kube.pods import workload_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

PODS: Final = 4
"""How many pods of a revision are kept, each of another workload."""

MAX_REVIEW: Final = 64 * 1024
"""The bytes of the largest review that is kept: with ``PODS``, a quarter of a megabyte a revision at most."""

KEEP: Final = 3600.0
"""Seconds that a pod counts after the last admission of its workload."""

# Kubernetes' longest name has 253 letters; a message has two of them and some words.
_SHOWN: Final = 600


@dataclass(frozen=True, slots=True)
class RecentPod:
    """One admitted pod: its review, the pairs of its path, what to call it, and the monotonic time of its admission."""

    review: bytes
    envs: Mapping[str, str]
    namespace: str
    owner: str
    at: float = 0.0

    def __str__(self) -> str:
        return _shown(f"{self.owner} in namespace {self.namespace or 'unknown'}")


class RecentPods:
    """Remembers the pods that were injected last, by revision. It belongs to the event loop's thread."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._pods: dict[str, OrderedDict[tuple[str, str], RecentPod]] = {}

    def keep(
        self, revision: str, review: bytes, *, pod: Mapping[str, Any], namespace: str, envs: Mapping[str, str]
    ) -> None:
        """Keep the review of ``pod``, which ``revision`` injected; the newest of a workload stands for it."""
        if len(review) > MAX_REVIEW:
            return
        owner = _owner(pod)
        kept = self._pods.setdefault(revision, OrderedDict())
        kept[namespace, owner] = RecentPod(review, envs, namespace, owner, self._clock())
        kept.move_to_end((namespace, owner))
        if len(kept) > PODS:
            kept.popitem(last=False)

    def snapshot(self) -> dict[str, tuple[RecentPod, ...]]:
        """Return the pods of every revision that still count, the oldest first, as an immutable copy."""
        since = self._clock() - KEEP
        return {
            revision: tuple(pod for pod in kept.values() if pod.at > since) for revision, kept in self._pods.items()
        }

    def forget_others(self, revisions: Collection[str]) -> None:
        """Drop the pods of every revision that is not one of ``revisions``."""
        self._pods = {name: kept for name, kept in self._pods.items() if name in revisions}


def _owner(pod: Mapping[str, Any]) -> str:
    """Return the kind and name of a pod's workload, or of the pod where it has none."""
    try:
        workload = workload_of(pod)
        name = workload.name or (pod.get("metadata") or {}).get("generateName")
    except (
        AttributeError,
        TypeError,
    ):  # an owner of another form than Kubernetes' own: the pod was admitted all the same
        return "a pod without a name"
    return f"{workload.kind} {name or 'without a name'}"


def _shown(text: str) -> str:
    """Return a text as a line of a log may hold it: names come from a request."""
    return "".join(char if char.isprintable() else "?" for char in text[:_SHOWN])
