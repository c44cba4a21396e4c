"""A shadow revision is compared with the one that answers."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from injector.errors import TemplateRenderError
from injector.injection.result import Injected, RequestFacts, Skipped
from injector.injection.tools.podchanges import KINDS, Change
from injector.istio.revision import Revision
from injector.metrics import Metrics
from injector.webhook import shadow
from injector.webhook.shadow import Admission, InjectionOutcome, Shadows, Tally, differences_of
from tests.cluster.fakes import in_fake_time, skip
from tests.factories import make_container, make_pod
from tests.revisions.fakes import fake_revision
from tests.tasks import running
from tests.webhook.conftest import Core


@asynccontextmanager
async def working(shadows: Shadows) -> AsyncIterator[None]:
    """Let the worker run until the block ends."""
    async with running(shadows.run()):
        await asyncio.sleep(0)
        yield


SECRET = "s3cr3t-value"  # noqa: S105 -- what must not be shown
SERVED = Injected(make_pod(), b"[]", ())
CANDIDATE = fake_revision("1-30")


def admission(outcome: InjectionOutcome = SERVED, *, tag: str = "prod", size: int = 1, **candidate: Any) -> Admission:
    """One admission through a tag whose shadow tries 1-30."""
    tried = fake_revision("1-30", **candidate)
    return Admission(tag, fake_revision("1-24"), tried, make_pod(), RequestFacts("shop"), outcome, size)


def injected(**fields: Any) -> Injected:
    """What a candidate makes of the pod, where it sets these fields of the container."""
    return Injected(make_pod(containers=[make_container(**fields)]), b"[]", ())


WORK = 0.5
"""Seconds that each injection takes."""


async def worked(times: int = 1) -> None:
    """Wait until so many admissions were looked at, with the rest after each."""
    await asyncio.sleep(times * WORK * 5 + 0.1)


@pytest.fixture
def shadows(metrics: Metrics) -> Shadows:
    """Shadows without tallies."""
    return Shadows(metrics)


@pytest.fixture
def core(core: Core, monkeypatch: pytest.MonkeyPatch) -> Core:
    """The core that candidates inject with."""

    def inject(revision: Revision, pod: dict[str, Any], facts: RequestFacts) -> Injected | Skipped:
        skip(WORK)
        return core(revision, pod, facts)

    monkeypatch.setattr(shadow, "inject_pod", inject)
    core.answer = SERVED
    return core


def counted(collector: CollectorRegistry, name: str, **labels: str) -> float | None:
    return collector.get_sample_value(f"injector_shadow_{name}_total", labels)


@pytest.mark.parametrize(
    ("served", "tried", "outcome", "kinds"),
    [
        (SERVED, SERVED, "same", []),
        (SERVED, injected(image="a:2", env=[{"name": "A"}, {"name": "B"}]), "different", ["env", "image"]),
        (SERVED, Skipped("policy", "no"), "different", ["decision"]),
        (SERVED, TemplateRenderError("nil", where="sidecar:3"), "error", ["error"]),
        (SERVED, KeyError(SECRET), "error", ["error"]),
        (TemplateRenderError("nil"), SERVED, "error", ["error"]),
        (Skipped("label", "no"), Skipped("policy", "no"), "same", []),
    ],
)
@in_fake_time
async def test_what_the_candidate_makes_is_counted_by_outcome_and_kind(  # noqa: PLR0913, PLR0917 -- fixtures, and one parameter a column
    core: Core,
    shadows: Shadows,
    collector: CollectorRegistry,
    served: InjectionOutcome,
    tried: Injected | Skipped | Exception,
    outcome: str,
    kinds: list[str],
) -> None:
    core.answer = tried

    async with working(shadows):
        shadows.offer(admission(served))
        await worked()

    labels = {"tag": "prod", "revision": "1-30"}
    assert counted(collector, "requests", **labels, outcome=outcome) == 1
    differing = [kind for kind in (*KINDS, "error") if counted(collector, "differences", **labels, kind=kind)]
    assert sorted(differing) == kinds
    assert shadows.tally("prod", CANDIDATE).outcomes == Counter({outcome: 1})


@in_fake_time
async def test_the_candidate_gets_the_pod_and_the_facts_of_the_request(core: Core, shadows: Shadows) -> None:
    async with working(shadows):
        shadows.offer(admission())
        await worked()

    assert core.calls == [("1-30", make_pod(), RequestFacts("shop"))]


@in_fake_time
async def test_it_rests_in_proportion_to_its_work(core: Core, shadows: Shadows) -> None:
    async with working(shadows):
        shadows.offer(admission())
        shadows.offer(admission())

        await asyncio.sleep(WORK * 5 - 0.1)
        assert len(core.calls) == 1
        await asyncio.sleep(0.2)
        assert len(core.calls) == 2


@in_fake_time
async def test_what_comes_while_too_many_wait_is_dropped_and_counted(
    core: Core, shadows: Shadows, collector: CollectorRegistry
) -> None:
    del core
    async with working(shadows):
        shadows.offer(admission())
        await asyncio.sleep(0.1)
        for _ in range(102):
            shadows.offer(admission())

        assert (shadows.dropped, counted(collector, "dropped")) == (2, 2)
        await worked(101)

    assert shadows.tally("prod", CANDIDATE).outcomes["same"] == 101


@in_fake_time
async def test_what_waits_may_only_hold_so_many_bytes(core: Core, shadows: Shadows) -> None:
    del core
    async with working(shadows):
        shadows.offer(admission())
        await asyncio.sleep(0.1)
        shadows.offer(admission(size=2**22 + 1))
        shadows.offer(admission())
        assert shadows.dropped == 1

        await worked(2)
        shadows.offer(admission(size=2**22))
        await worked()

    assert shadows.dropped == 1


@in_fake_time
async def test_it_takes_nothing_before_it_works_and_nothing_after(core: Core, shadows: Shadows) -> None:
    shadows.offer(admission())
    async with working(shadows):
        pass
    shadows.offer(admission())

    assert (core.calls, shadows.dropped, shadows._waiting.qsize()) == ([], 0, 0)


@in_fake_time
async def test_a_comparison_that_breaks_is_an_error_and_the_next_one_is_looked_at(
    core: Core, shadows: Shadows, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    del core
    with monkeypatch.context() as patched:
        patched.setattr(shadow, "changes", broken())
        async with working(shadows):
            shadows.offer(admission())
            shadows.offer(admission())
            await worked(2)

    assert shadows.tally("prod", CANDIDATE).outcomes == Counter({"error": 1, "same": 1})
    assert "shadow: cannot compare: tag=prod error=RecursionError" in caplog.text
    assert SECRET not in caplog.text


@in_fake_time
async def test_a_fault_while_counting_is_logged_and_the_next_admission_is_counted(
    core: Core,
    shadows: Shadows,
    metrics: Metrics,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    del core
    faults = [KeyError(SECRET)]
    plain = metrics.count_shadow

    def shadowed(*args: Any) -> None:
        if faults:
            raise faults.pop()
        plain(*args)

    monkeypatch.setattr(metrics, "count_shadow", shadowed)
    async with working(shadows):
        shadows.offer(admission())
        shadows.offer(admission())
        await worked(2)

    assert shadows.tally("prod", CANDIDATE).outcomes == Counter({"same": 2})
    assert "shadow: cannot compare: tag=prod error=KeyError" in caplog.text
    assert SECRET not in caplog.text


def broken() -> Any:
    """A comparison that fails once."""
    answers: Iterator[Exception | list[Change]] = iter([RecursionError(SECRET), []])

    def compare(*_: Any) -> list[Change]:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    return compare


@in_fake_time
async def test_a_candidate_that_was_loaded_anew_starts_from_nothing(core: Core, shadows: Shadows) -> None:
    del core
    async with working(shadows):
        shadows.offer(admission(fingerprint="old"))
        shadows.offer(admission(fingerprint="new"))
        await worked(2)

    assert shadows.tally("prod", fake_revision("1-30", fingerprint="new")).outcomes == Counter({"same": 1})
    assert shadows.tally("prod", fake_revision("1-30", fingerprint="old")).outcomes == Counter()
    assert shadows.tally("other", fake_revision("1-30", fingerprint="new")).outcomes == Counter()


def test_a_tally_shows_kinds_and_places_and_no_value_of_a_pod() -> None:
    tally = Tally("1-30", "f00d")

    tally.add([Change("env", "spec.containers[app].env[A].value", SECRET, "b" + SECRET)])
    tally.add([Change("decision", "", "injected", "skipped: policy")])
    tally.add([])

    status = tally.status()
    assert status == {
        "requests": {"different": 2, "same": 1},
        "differences": {"decision": 1, "env": 1},
        "last": [
            {"kind": "decision", "path": "", "before": "injected", "after": "skipped: policy"},
            {"kind": "env", "path": "spec.containers[app].env[A].value"},
        ],
    }
    assert SECRET not in json.dumps(status)
    assert SECRET not in repr(tally)


def test_a_tally_keeps_the_last_few_places_of_each_kind() -> None:
    tally = Tally("1-30", "f00d")

    tally.add([Change("security", "spec.hostNetwork", None, True)])
    tally.add([Change("env", f"env[{number}]" + "x" * 500, 1, 2) for number in range(9)])
    tally.add([Change("env", "env[7]" + "x" * 500, 1, 2)])

    last = tally.status()["last"]
    assert [change["path"][:6] for change in last] == ["env[7]", "env[8]", "env[6]", "spec.h"]
    assert [change["kind"] for change in last] == ["env", "env", "env", "security"]
    assert len(last[:-1]) == 3
    assert max(len(change["path"]) for change in last) == 200


@in_fake_time
async def test_the_name_of_each_revision_is_no_difference(core: Core) -> None:
    core.answer = Injected(make_pod(labels={"istio.io/rev": "1-30"}), b"[]", ())
    served = Injected(make_pod(labels={"istio.io/rev": "1-24"}), b"[]", ())

    assert differences_of(admission(served)) == []
