"""Which revision of a weighted tag a workload gets: always the same one, and a fair share of workloads for each.

Weighted rendezvous hashing: every revision draws a number for the workload, the same one for ever, and divides it by
its weight; the smallest wins. A revision therefore wins a share of ``weight / sum of weights``. Raising its weight
makes its own quotients smaller and no other, so workloads move towards it and nowhere else; lowering it sends away
some of its own and no others. Nothing is stored, so that replicas and restarts agree.
"""

from __future__ import annotations

import math
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

from injector.kube.pods import workload_of
from injector.kube.typed import normalise

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_BYTES: Final = 8
# A float holds 53 bits: 52 of the hash and the half that keeps a draw off 0 and 1, where the logarithm is of no use.
_SPARE_BITS: Final = 12
_RANGE: Final = 1 << (8 * _BYTES - _SPARE_BITS)
_PERCENT: Final = 100


def workload_key(pod: Mapping[str, Any], namespace: str) -> tuple[str, str, str]:
    """Return namespace, kind and name of the workload that ``pod``, the object of a review, belongs to.

    A pod that no controller made goes by its ``generateName``, else by its own name.

    Raises:
        ManifestError: its metadata is none.
    """
    read = normalise({"metadata": pod.get("metadata")}, "v1.Pod")
    meta = read.get("metadata") or {}
    workload = workload_of(read)
    name = (workload.kind == "Pod" and meta.get("generateName")) or workload.name
    return workload.namespace or namespace, workload.kind, name


def chosen(weights: Sequence[tuple[str, int]], salt: str, key: Sequence[str]) -> str:
    """Return the revision of ``weights`` that the workload ``key`` gets; at least one weight is above 0.

    The order of ``weights`` does not matter, nor what they add up to.
    """
    return min((-math.log(draw(salt, *key, name)) / weight, name) for name, weight in weights if weight > 0)[1]


def sampled(uid: str, percent: float) -> bool:
    """Tell whether the request ``uid`` is among the ``percent`` of requests that are looked at."""
    return draw(uid) * _PERCENT < percent


def draw(*words: str) -> float:
    """Return a number between 0 and 1, both excluded, that depends on ``words`` alone and favours none."""
    state = blake2b(digest_size=_BYTES)
    for word in words:
        data = word.encode("utf-8", "surrogatepass")
        # Its length before each word: no two lists of words read alike.
        state.update(b"%d:" % len(data))
        state.update(data)
    return ((int.from_bytes(state.digest(), "big") >> _SPARE_BITS) + 0.5) / _RANGE
