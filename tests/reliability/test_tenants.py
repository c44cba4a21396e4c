"""A bad revision, or a tenant whose pods take long, costs the others nothing. Long: ``chaos --only hostile`` and ``--only tenant``."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.reliability.profile import Profile, questions, written
from tests.reliability.replicas import Stage
from tests.reliability.tenants import (
    BOMB,
    GOOD,
    INVALID,
    SLOW,
    UNINJECTED,
    Callers,
    OncePerPod,
    bad_tenant_pod,
    listing_pod,
    others,
    quick_questions,
    write_bad,
)
from tests.tasks import until

SECONDS = 3.0


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder for revisions."""
    folder = tmp_path / "revisions"
    folder.mkdir()
    return folder


async def played(load: Profile, callers: Callers, seconds: float = SECONDS) -> Callers:
    """Call as others do while a load runs, none of whose calls fails."""
    async with callers.calling():
        came = await load.run(seconds)
    await load.client.close()
    assert came.wrong == {}
    assert came.calls == int(seconds * load.rate)
    assert callers.outcomes[UNINJECTED] == 0
    return callers


@pytest.mark.parametrize("bad", [BOMB, SLOW], ids=["bomb", "slow"])
async def test_other_revisions_inject_and_no_pod_is_let_in_without_a_sidecar(
    stage: Stage, folder: Path, bad: str
) -> None:
    pods = questions(folder, written(folder)[:2], every=10)
    write_bad(folder, bad)
    replica = await stage.replica("--revisions-dir", str(folder))

    load = Profile(replica.client(), pods, 40)
    first = await load.run(SECONDS / 3)
    callers = await played(load, Callers(replica.client(), 20))

    assert first.wrong == {}
    assert callers.outcomes.total() > 50
    assert callers.outcomes["denied" if bad == BOMB else "injected"] > 0


async def test_slow_pods_of_one_namespace_make_no_pod_of_another_fail(stage: Stage, folder: Path) -> None:
    write_bad(folder, SLOW)
    replica = await stage.replica("--revisions-dir", str(folder))
    load = Profile(replica.client(), quick_questions(folder), 40)

    callers = await played(load, Callers(replica.client(), 10, bad_tenant_pod), 2 * SECONDS)

    assert callers.outcomes["injected"] >= 1


async def test_a_tenant_with_long_lists_makes_no_pod_of_another_namespace_fail(stage: Stage, folder: Path) -> None:
    name = written(folder)[-1]
    replica = await stage.replica("--revisions-dir", str(folder))
    load = OncePerPod(replica.client(), others(folder, name, int(SECONDS * 20)), 20)

    callers = await played(load, Callers(replica.client(), 10, listing_pod, name))

    assert callers.outcomes["injected"] > 0


async def test_a_revision_that_becomes_invalid_goes_on_as_it_was(stage: Stage, folder: Path) -> None:
    write_bad(folder, GOOD)
    replica = await stage.replica("--revisions-dir", str(folder))
    callers = Callers(replica.client(), 20)
    await callers.ask(0)

    for number, config in enumerate(INVALID, 1):
        write_bad(folder, config)
        await until(lambda number=number: replica.log.read_text().count("not served") == number)  # type: ignore[misc]
        for pod_number in range(10):
            await callers.ask(pod_number)
    await callers.client.close()

    assert callers.outcomes == {"injected": 1 + 10 * len(INVALID)}
