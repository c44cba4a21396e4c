"""Values of pods at more length than the tests: none breaks out of a template (T20), and what no injection is about stays (T26)."""

from __future__ import annotations

import random
import statistics
import time
from typing import TYPE_CHECKING, Final

import orjson

from bench.reliability import Row
from bench.stages import reviews
from injector.injection.pipeline import inject_pod
from injector.injection.result import ENFORCE, OFF, RequestFacts
from injector.kube.admission import decode
from tests.conformance import core, corpus
from tests.property import test_guard as guard
from tests.property import test_kept as kept

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.chaos.stage import Stage
    from injector.istio.revision import Revision

VALUES: Final = 120
PODS: Final = 150
ROUNDS: Final = 40
COST: Final = 2.0
EMBEDDED: Final = ("stable", "canary")


async def hostile_values(_stage: Stage) -> Sequence[Row]:
    """T20: the values of the property test, more of them, on every minor; and what the guard costs pods that have none."""
    guard.VALUES = VALUES
    revisions = _revisions()
    counts = [guard.tried(each, random.Random(f"{name} {VALUES}")) for name, each in revisions.items()]  # noqa: S311
    refused, named = (sum(column) for column in zip(*counts, strict=True))
    share = 100 * named / refused
    return [
        Row(
            f"T20 {VALUES} hostile values on each of {len(revisions)} revisions",
            "0 pods gain anything, >= 99 % of refusals name the place",
            f"0 gained, {refused} refused, {share:.2f} % named",
            share >= 100 * guard.NAMED_AT_LEAST,
        ),
        _cost(),
    ]


def _revisions() -> dict[str, Revision]:
    found = {minor: core.revision_of(corpus.default_settings(minor)) for minor in corpus.MINORS if corpus.present()}
    return {**found, **{name: guard.embedded(name) for name in EMBEDDED}}


def _cost() -> Row:
    """The time of injections by the pipeline with the guard and without, in turn; a plan, which has its answer, has no guard to pay."""
    settings = corpus.default_settings("1.30")
    revision = core.revision_of(settings)
    pods = [orjson.loads(orjson.dumps(decode(body).object)) for body in reviews("1.30", settings)]
    ratios = []
    for turn in range(ROUNDS):
        order = (OFF, ENFORCE) if turn % 2 else (ENFORCE, OFF)
        times = {mode: _time(revision, pods, mode) for mode in order}
        ratios.append(times[ENFORCE] / times[OFF])
    percent = 100 * (statistics.median(ratios) - 1)
    return Row(
        f"T20 the guard's share of injections without plans, {len(pods)} clean pods of Istio's tests",
        f"< {COST:g} % of throughput",
        f"{percent:.1f} %, the median of {ROUNDS} rounds in turn",
        percent < COST,
    )


def _time(revision: Revision, pods: Sequence[dict[str, object]], mode: str) -> float:
    facts = RequestFacts("shop", guard=mode)
    begun = time.thread_time()
    for pod in pods:
        inject_pod(revision, pod, facts)
    return time.thread_time() - begun


async def kept_fields(_stage: Stage) -> Sequence[Row]:
    """T26: unknown fields, numbers and keys at the edges, through the handler: by the pipeline, by plans, by repeats."""
    revisions = _revisions()
    faults = [fault for name, each in revisions.items() for fault in kept.found(each, name, PODS)]
    for fault in faults[:9]:
        print(f"  {fault}")
    return [
        Row(
            f"T26 {PODS * len(revisions)} pods with unknown fields and edge values, each asked for three times",
            "kept exactly, no operation beside the intended",
            f"{len(faults)} faults, {len(revisions)} revisions",
            not faults,
        )
    ]
