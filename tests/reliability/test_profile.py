"""The load that others are measured beside finds what is wrong, and a replica under it does nothing wrong. Long: ``--only steady``."""

from __future__ import annotations

from pathlib import Path

from tests.reliability.apiserver import ApiServer
from tests.reliability.conftest import ReplicaFactory
from tests.reliability.profile import Came, Profile, questions, written

SECONDS = 4.0


async def test_every_answer_to_mixed_pods_of_four_revisions_is_what_the_same_revision_makes_offline(
    start_replica: ReplicaFactory, tmp_path: Path
) -> None:
    folder = tmp_path / "revisions"
    folder.mkdir()
    asked = questions(folder, written(folder))[::5]
    replica = start_replica("--insecure-http", "--log-decisions", "none", "--revisions-dir", str(folder))
    await replica.until_ready()
    profile = Profile(ApiServer(lambda: [replica.port]), asked)

    came = await profile.run(SECONDS)
    await profile.client.close()

    assert came.wrong == {}
    assert came.calls == len(came.seconds) == int(SECONDS * profile.rate)
    assert {each.revision for each in asked} == set(written(tmp_path / "again"))


def test_an_answer_that_leads_to_another_pod_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / "revisions").mkdir()
    one = questions(tmp_path / "revisions", written(tmp_path / "revisions")[:1])[0]

    assert one.fault(b"[]") == "another pod than offline"
    assert one.fault(b'[{"op": "add", "path": "/spec/priority", "value": 7}]') == "another pod than offline"


def test_what_came_of_two_loads_adds_up() -> None:
    came = Came(calls=2, seconds=[0.001, 0.002])
    came.add(Came(calls=3, seconds=[0.1]))

    assert (came.calls, came.p99, str(came)) == (5, 100.0, "0 failures of 5, p99 100.0 ms")
