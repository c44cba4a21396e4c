"""What became of the last two hours, as the status page draws it: workloads by tag and revision, failures, differences.

A sample is taken each ``STEP`` seconds, so many make a step of each window, and a window has ``STEPS`` of them: the memory is
that of the windows, whatever the load. What a request adds is one hash and one byte of a sketch (``distinct``).
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter as Tally
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from injector.webhook.distinct import ERROR, Distinct

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from injector.metrics import Metrics

STEP: Final = 10.0
STEPS: Final = 60
"""How many steps each window keeps: as many columns as a phone shows apart."""
WINDOWS: Final[Mapping[str, int]] = {"10m": 1, "2h": 12}
"""How many samples make one step of each window."""
DEFAULT_WINDOW: Final = "2h"
# A fleet of thirty revisions with a tag each has half as many; what is beyond is left out, so that no configuration
# makes the history larger than 2 MB, or a sample take longer than some 10 ms.
MAX_PAIRS: Final = 64

Pair: TypeAlias = tuple[str, str]
"""A tag, empty where a request named the revision itself, and a revision."""
_HASH_LABELS: Final = ("pod-template-hash", "rollouts-pod-template-hash")


class Count(NamedTuple):
    """What one revision did by one tag in one step: different workloads (about), requests, failures."""

    workloads: int
    requests: int
    failures: int


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a window: when it ended, what each revision did by each tag, and each tag's shadow differences."""

    end: float
    counts: Mapping[Pair, Count]
    differences: Mapping[str, int]


class _Gathering:
    """A step that has not ended."""

    def __init__(self) -> None:
        self.seen: dict[Pair, Distinct] = {}
        self.requests: Tally[Pair] = Tally()
        self.failures: Tally[Pair] = Tally()
        self.differences: Tally[str] = Tally()

    def begin(self, pair: Pair) -> Distinct:
        """Return what counts the workloads of a pair; of one too many it is forgotten."""
        if len(self.seen) >= MAX_PAIRS:
            return Distinct()
        return self.seen.setdefault(pair, Distinct())

    def add(self, other: _Gathering) -> None:
        """Take in a shorter step."""
        for pair, sketch in other.seen.items():
            if (known := self.seen.get(pair)) is not None:
                known.merge(sketch)
            elif len(self.seen) < MAX_PAIRS:
                self.seen[pair] = sketch.copy()
        self.requests += other.requests
        self.failures += other.failures
        self.differences += other.differences

    def step(self, end: float) -> Step:
        """Return it as it stands; where there are too many pairs, those with the most requests."""
        pairs = sorted({*self.seen, *self.requests}, key=lambda pair: (-self.requests[pair], pair))[:MAX_PAIRS]
        counts = {
            pair: Count(
                sketch.count() if (sketch := self.seen.get(pair)) else 0, self.requests[pair], self.failures[pair]
            )
            for pair in pairs
        }
        return Step(end, counts, dict(self.differences))


class _Window:
    """The last ``STEPS`` steps of so many samples each."""

    def __init__(self, samples: int) -> None:
        self._samples = samples
        self._taken = 0
        self._open = _Gathering()
        self._closed: deque[Step] = deque(maxlen=STEPS)
        self._last: Step | None = None

    def add(self, gathered: _Gathering, end: float) -> None:
        """Take one sample in."""
        self._open.add(gathered)
        self._taken += 1
        self._last = self._open.step(end)
        if self._taken == self._samples:
            self._closed.append(self._last)
            self._taken, self._open, self._last = 0, _Gathering(), None

    def steps(self) -> list[Step]:
        """Return the steps, the oldest first; the last one may not have ended."""
        return [*self._closed, *([] if self._last is None else [self._last])][-STEPS:]


class History:
    """Counts workloads as requests come, and keeps what a sample of the metrics adds.

    Args:
        clock: tells the seconds since the epoch.
        pause: waits for so many seconds.
    """

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.time,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._clock = clock
        self._pause = pause
        self._now = _Gathering()
        self._requests: Tally[Pair] = Tally()
        self._failures: Tally[Pair] = Tally()
        self._differences: Tally[str] = Tally()
        self._windows = {name: _Window(samples) for name, samples in WINDOWS.items()}

    def seen(self, tag: str, revision: str, namespace: str, pod: Mapping[str, Any]) -> int:
        """Count the workload of ``pod``, which ``tag``, or the name of the revision itself, sent to ``revision``; return its hash."""
        workload = _hash_of(namespace, pod)
        self.again(tag, revision, workload)
        return workload

    def again(self, tag: str, revision: str, workload: int) -> None:
        """Count a workload by the hash that ``seen`` returned of another pod of it."""
        sketch = self._now.seen.get((tag, revision)) or self._now.begin((tag, revision))
        sketch.add(workload)

    async def follow(self, metrics: Metrics) -> None:
        """Take samples for ever."""
        while True:
            await self._pause(STEP)
            self.sample(metrics)

    def sample(self, metrics: Metrics) -> None:
        """End a step of the shortest window with what was seen and counted since the last sample."""
        gathered, self._now = self._now, _Gathering()
        rows = metrics.requests()
        requests = Tally({(row.tag, row.revision): row.requests for row in rows})
        failures = Tally({(row.tag, row.revision): row.failure for row in rows})
        differences = metrics.shadow_differences()
        gathered.requests = requests - self._requests
        gathered.failures = failures - self._failures
        gathered.differences = differences - self._differences
        self._requests, self._failures, self._differences = requests, failures, differences
        end = self._clock()
        for window in self._windows.values():
            window.add(gathered, end)

    def shown(self, window: str = DEFAULT_WINDOW) -> dict[str, Any]:
        """Return a window as JSON data; a name that is none means the default one.

        Steps of a tag in which nothing came are left out; ``ends`` has the end of each, in seconds since the epoch.
        """
        name = window if window in WINDOWS else DEFAULT_WINDOW
        steps = self._windows[name].steps()
        return {
            "window": name,
            "stepSeconds": WINDOWS[name] * STEP,
            "steps": STEPS,
            "workloadsError": round(ERROR, 4),
            "ends": [step.end for step in steps],
            "tags": [{"name": tag, "steps": found} for tag, found in sorted(_by_tag(steps).items())],
        }


def _by_tag(steps: Iterable[Step]) -> dict[str, list[dict[str, Any]]]:
    """Return the steps of each tag in which something came."""
    found: dict[str, list[dict[str, Any]]] = {}
    for step in steps:
        revisions: dict[str, dict[str, Any]] = {tag: {} for tag, count in step.differences.items() if count}
        for (tag, revision), count in sorted(step.counts.items()):
            revisions.setdefault(tag, {})[revision] = count._asdict()
        for tag, each in revisions.items():
            shown = {"end": step.end, "revisions": each, "shadowDifferences": step.differences.get(tag, 0)}
            found.setdefault(tag, []).append(shown)
    return found


def _hash_of(namespace: str, pod: Mapping[str, Any]) -> int:
    """Return a hash of the pod's workload: its namespace, and what all of its pods' names begin with.

    That is cheaper than ``revisions.weights.workload_key`` by a factor of ten and tells nearly the same workloads apart: each
    Job of a CronJob counts, and a StatefulSet and a Deployment of one name are one. Python's hash is keyed anew in each
    process: who chooses names cannot choose hashes. Nothing of what a pod holds raises.
    """
    meta = pod.get("metadata")
    if not isinstance(meta, dict):
        return hash(namespace)
    stem, labels = meta.get("generateName") or meta.get("name"), meta.get("labels")
    if isinstance(stem, str) and isinstance(labels, dict):
        for label in _HASH_LABELS:
            if isinstance(template := labels.get(label), str):
                stem = stem.removesuffix(f"{template}-")
    return hash(f"{namespace}/{stem}")
