"""Shadows: the candidate revision of a tag injects the same pods after the response, and the differences are counted.

One worker takes admissions from a short queue, and injects and compares them in a thread. It rests between two, since admissions come
first. If the queue is full, further admissions are dropped and counted. Of a pod only the kinds and paths of differences are kept.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from injector.errors import InjectorError
from injector.injection import containers as c
from injector.injection.pipeline import inject_pod
from injector.injection.result import Injected, RequestFacts, Skipped
from injector.injection.steps.overrides import OVERRIDES
from injector.injection.tools.podchanges import Change, changes
from injector.istio.annotations import ANNOTATIONS
from injector.kube.typed import is_struct, struct_type
from injector.webhook.limits import MAX_SHADOWED, MAX_SHADOWED_BYTES

if TYPE_CHECKING:
    from injector.istio.revision import Revision
    from injector.metrics import Metrics

_log = logging.getLogger(__name__)

IDLE_PER_WORK: Final = 4.0
"""How long the worker rests after an admission, as a multiple of its work: it uses at most a fifth of one core."""
MAX_EXAMPLES: Final = 3
"""Paths that are kept per kind of difference, so that a hundred variables do not hide one capability."""
# A path has names from the pod, which can be long.
_MAX_PATH: Final = 200
DECISION: Final = "decision"
ERROR: Final = "error"
"""The kind of difference if the candidate or the comparison fails; further kinds are in ``podchanges``."""
_WITH_VALUES: Final = (ERROR, DECISION)
"""Kinds whose values are texts of the injector, not of a pod."""

InjectionOutcome: TypeAlias = Injected | Skipped | Exception
"""How one injection ended."""

SAME: Final = "same"
DIFFERENT: Final = "different"


@dataclass(frozen=True, slots=True)
class Admission:
    """One admission to compare: ``served`` injected the pod with this outcome, and ``candidate`` is the revision to compare.

    ``pod`` is the pod before injection, ``facts`` are those of the request for the candidate, and ``size`` is that of the review in bytes.
    """

    tag: str
    served: Revision
    candidate: Revision
    pod: dict[str, Any]
    facts: RequestFacts
    outcome: InjectionOutcome
    size: int


@dataclass(slots=True)
class Tally:
    """The results of one tag's shadow for one candidate.

    ``outcomes`` and ``kinds`` count admissions: one with three differing variables counts once as ``env``. ``last`` has the last few
    differences of each kind by path, the newest at the end.
    """

    revision: str
    fingerprint: str
    outcomes: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    last: dict[str, dict[str, dict[str, str]]] = field(default_factory=dict)

    def add(self, differences: list[Change]) -> tuple[str, set[str]]:
        """Count one admission; return its outcome and the kinds of its differences."""
        kinds = {difference.kind for difference in differences}
        outcome = ERROR if ERROR in kinds else DIFFERENT if kinds else SAME
        self.outcomes[outcome] += 1
        self.kinds.update(kinds)
        for difference in differences:
            places = self.last.setdefault(difference.kind, {})
            places.pop(difference.path, None)
            places[difference.path] = _example(difference)
            if len(places) > MAX_EXAMPLES:
                del places[next(iter(places))]
        return outcome, kinds

    def status(self) -> dict[str, Any]:
        """Return the results as JSON data, with names but no values of pods."""
        return {
            "requests": dict(sorted(self.outcomes.items())),
            "differences": dict(sorted(self.kinds.items())),
            "last": [place for _, places in sorted(self.last.items()) for place in reversed(places.values())],
        }


def _example(difference: Change) -> dict[str, str]:
    example = {"kind": difference.kind, "path": difference.path[:_MAX_PATH]}
    return example | {"before": difference.old, "after": difference.new} if difference.kind in _WITH_VALUES else example


class Shadows:
    """Compares admissions, and counts the differences in ``metrics``."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._waiting: asyncio.Queue[Admission] = asyncio.Queue(MAX_SHADOWED)
        self._waiting_bytes = 0
        self._running = False
        self._tallies: dict[str, Tally] = {}
        self.dropped = 0

    def offer(self, admission: Admission) -> None:
        """Queue an admission, or drop it if too many are waiting. Ignored unless ``run`` is running."""
        if not self._running:
            return
        # An admission that exceeds the limit alone still fits into an empty queue.
        too_large = self._waiting_bytes and self._waiting_bytes + admission.size > MAX_SHADOWED_BYTES
        if too_large or self._waiting.full():
            self.dropped += 1
            self._metrics.shadow_dropped.inc()
            return
        self._waiting_bytes += admission.size
        self._waiting.put_nowait(admission)

    def tally(self, tag: str, candidate: Revision) -> Tally:
        """Return the results of a tag's shadow with this candidate, in its current configuration."""
        tally = self._tallies.get(tag)
        if tally is None or (tally.revision, tally.fingerprint) != (candidate.name, candidate.fingerprint):
            return Tally(candidate.name, candidate.fingerprint)
        return tally

    async def run(self) -> None:
        """Compare admissions until cancelled."""
        self._running = True
        try:
            await self._work()
        finally:
            self._running = False

    async def _work(self) -> None:
        clock = asyncio.get_running_loop().time
        while True:
            admission = await self._waiting.get()
            self._waiting_bytes -= admission.size
            began = clock()
            try:
                self.count(admission, await _compare(admission))
            except Exception as error:  # noqa: BLE001 -- the worker goes on with the next admission
                _log_fault(admission, error)
            await asyncio.sleep(IDLE_PER_WORK * (clock() - began))

    def count(self, admission: Admission, differences: list[Change]) -> None:
        """Count one comparison."""
        tally = self._tallies[admission.tag] = self.tally(admission.tag, admission.candidate)
        outcome, kinds = tally.add(differences)
        self._metrics.count_shadow(admission.tag, admission.candidate.name, outcome, kinds)


async def _compare(admission: Admission) -> list[Change]:
    try:
        return await asyncio.to_thread(differences_of, admission)
    except Exception as error:  # noqa: BLE001 -- the worker goes on with the next admission
        _log_fault(admission, error)
        return [Change(ERROR, "", "compared", f"failed: {type(error).__name__}")]


def _log_fault(admission: Admission, error: Exception) -> None:
    """Log only the class of an error: its text and its traceback can quote the pod."""
    _log.error("shadow: cannot compare: tag=%s error=%s", admission.tag, type(error).__name__)


def differences_of(admission: Admission) -> list[Change]:
    """Inject with the candidate, and return the differences.

    Two skips are equal for any reasons, and so are two errors of one class: the pod is the same with both.
    """
    served, candidate, before = admission.served, admission.candidate, admission.outcome
    try:
        after: InjectionOutcome = inject_pod(candidate, admission.pod, admission.facts)
    except Exception as error:  # noqa: BLE001 -- an error of the candidate is a result
        after = error
    if isinstance(before, Injected) and isinstance(after, Injected):
        differences = changes(before, after, admission.pod, (served.written, candidate.written))
        names = _names_of(admission.pod).union(*(_words_of(text) for text in _texts_of(served, candidate)))
        return [replace(change, path=mask_path(change.path, names)) for change in differences]
    if isinstance(before, Exception) or isinstance(after, Exception):
        alike = type(before) is type(after)
        return [] if alike else [Change(ERROR, _where(after) or _where(before), _describe(before), _describe(after))]
    alike = isinstance(before, Skipped) and isinstance(after, Skipped)
    return [] if alike else [Change(DECISION, "", _describe(before), _describe(after))]


def _describe(outcome: InjectionOutcome) -> str:
    """Describe a result without any text of the pod."""
    if isinstance(outcome, Injected):
        return "injected"
    return f"skipped: {outcome.reason}" if isinstance(outcome, Skipped) else f"failed: {type(outcome).__name__}"


_PART: Final = re.compile(r"([^.\[\]]+)|\[([^\[\]]*)\]")
"""A part of a path: a field, or the name of an entry."""
_WORD: Final = re.compile(r"[^\s\"'`:,;|=(){}\[\]]+")
_WRITTEN: Final = frozenset(
    (
        "revision",
        "ISTIO_KUBE_APP_PROBERS",
        *(f"prometheus.io/{field}" for field in ("scrape", "port", "path")),
        *(row.name for row in ANNOTATIONS),
        OVERRIDES,
    )
)
"""Names that the injector itself writes."""


def mask_path(path: str, names: Collection[str]) -> str:
    """Return a path with ``*`` in place of each part that is not a field of a pod or one of ``names``.

    The names of entries, and the keys of annotations that hold JSON, can be values of annotations.
    """

    def mask(part: re.Match[str]) -> str:
        text = part[0].strip("[]")
        name = text.partition("#")[0]
        return part[0] if name in names or name in _WRITTEN or name in _fields() else part[0].replace(text, "*")

    return _PART.sub(mask, path)


def _names_of(pod: Mapping[str, Any]) -> frozenset[str]:
    """Return the names of what a pod has: no values of annotations and variables."""
    meta, spec = pod.get("metadata") or {}, pod.get("spec") or {}
    items = [item for key in _LISTS for item in spec.get(key) or () if isinstance(item, dict)]
    inner = [nested for item in items for key in _LISTS for nested in item.get(key) or () if isinstance(nested, dict)]
    named = (str(item.get(key, "")) for item in (*items, *inner) for key in ("name", "mountPath"))
    return c.ISTIOS.union(meta.get("labels") or (), meta.get("annotations") or (), named)


@cache
def _fields() -> frozenset[str]:
    """Return the names of all fields of pods."""
    names, types, waiting = set[str](), set[str](), ["v1.Pod"]
    while waiting:
        for field_type in struct_type(waiting.pop()).fields:
            names.add(field_type.json)
            inner = field_type.type.rpartition("]")[2].lstrip("*")
            if is_struct(inner) and inner not in types:
                types.add(inner)
                waiting.append(inner)
    return frozenset(names)


_LISTS: Final = ("initContainers", "containers", "ephemeralContainers", "volumes", "env", "volumeMounts")


def _texts_of(*revisions: Revision) -> Iterator[str]:
    for revision in revisions:
        yield from revision.config.templates.values()


@lru_cache(maxsize=64)
def _words_of(text: str) -> frozenset[str]:
    """Return the words of a template, with which it names what it adds."""
    return frozenset(_WORD.findall(text))


def _where(outcome: InjectionOutcome) -> str:
    return outcome.place if isinstance(outcome, InjectorError) else ""
