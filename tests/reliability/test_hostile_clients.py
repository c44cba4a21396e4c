"""Hostile clients get clean answers or are cut, and others do not notice. Long: ``chaos --only bodies``, ``json``, ``slow``,
``handshakes``, ``bombs``."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path

from injector.webhook import limits
from tests.factories import UID, make_review
from tests.reliability import handshakes
from tests.reliability.apiserver import Load
from tests.reliability.handshakes import GoodClients, flooding
from tests.reliability.hostilebodies import attack_with, bodies, fault, hostile_json
from tests.reliability.long.bombs import review
from tests.reliability.replicas import Stage, resident, trusting
from tests.reliability.slowpeers import KINDS, crowd
from tests.revisions.fakes import write_revision
from tests.tasks import running, until

PEERS = 40
STRANGERS = limits.MAX_HANDSHAKES - 10
"""As many as no handshake is ended for, however slow the machine is: only the time limits of the server may cut a good client."""
LIMIT = 60.0


async def test_each_hostile_request_is_answered_cleanly_and_none_leaves_anything_behind(stage: Stage) -> None:
    replica = await stage.replica()
    attacks = {**bodies(), **hostile_json()}

    async def fault_of(name: str) -> str:
        return fault(attacks[name], await attack_with(replica.port, attacks[name]))

    faults = dict(zip(attacks, await asyncio.gather(*map(fault_of, attacks)), strict=True))
    client = replica.client()
    after = await client.post("/inject/stable", json.dumps(make_review()).encode())
    await client.close()

    assert {name: fault_text for name, fault_text in faults.items() if fault_text} == {}
    assert (len(bodies()), len(hostile_json())) == (11, 18)
    assert (after.status, after.response["uid"], after.response["allowed"]) == (200, UID, True)
    assert "Traceback" not in replica.log.read_text()


async def test_each_kind_of_slow_peer_is_cut_while_others_are_answered(stage: Stage) -> None:
    replica = await stage.replica(tls=True)
    load = Load(replica.client(trusting(stage.certificate)))

    async with load.calls(3, 0.1), asyncio.timeout(LIMIT):
        crowds = {kind: await crowd(replica.port, kind, "/inject/stable", PEERS) for kind in KINDS}
        counts = {kind: (len(held.peers), held.open) for kind, held in crowds.items()}
        await asyncio.gather(*(peer.gone.wait() for held in crowds.values() for peer in held.peers))
    await load.client.close()

    assert counts == dict.fromkeys(KINDS, (PEERS, PEERS))
    assert all(1.0 < held.longest(time.monotonic()) < LIMIT for held in crowds.values())
    assert load.failures == []
    assert load.answered.total() > 10


async def test_clients_that_fail_their_handshakes_do_not_grow_the_server(stage: Stage) -> None:
    replica = await stage.replica("--embedded", tls=True)
    good, base = GoodClients(replica.port), resident(replica.pid)

    async with running(good.run(None)):
        for kind in handshakes.KINDS:
            async with flooding(replica.port, kind, STRANGERS, LIMIT):
                answered = len(good.new)
                await until(lambda answered=answered: len(good.new) > answered + 20)  # type: ignore[misc]

    assert [failure for failure in good.failures if failure.seconds < limits.HANDSHAKE_TIMEOUT] == []
    assert resident(replica.pid) - base < handshakes.GROWTH


SIDECAR = "spec:\n  containers:\n  - name: istio-proxy\n    image: proxy\n"
TEMPLATES = {
    "go": '{{ if eq (index .ObjectMeta.Labels "app") "bomb" }}\n{{ range 1000000000 }}{{ end }}\n{{ end }}\n' + SIDECAR,
    "jinja2": "{% if label('app') == 'bomb' %}\n{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}\n"
    "{% endif %}\n" + SIDECAR,
}
PLACES = {"go": "template: sidecar:2:", "jinja2": "template sidecar, line 2:"}


async def test_a_bomb_in_a_template_is_refused_with_its_place_and_the_others_are_served(
    stage: Stage, tmp_path: Path
) -> None:
    for engine, text in TEMPLATES.items():
        folder = tmp_path / "revisions" / engine
        write_revision(folder, json.dumps({"policy": "enabled", "templates": {"sidecar": text}}))
        (folder / "revision.yaml").write_text(json.dumps({"istioVersion": "1.30", "engine": engine}))
    client = (await stage.replica("--revisions-dir", str(tmp_path / "revisions"))).client()

    for engine, place in PLACES.items():
        for _ in range(2):
            refused = (await client.post(f"/inject/{engine}", review({"app": "bomb"}), timeout=60)).response
            assert not refused["allowed"]
            assert place in refused["status"]["message"]
            assert "the template's budget is spent" in refused["status"]["message"]
        assert (await client.post(f"/inject/{engine}", review({"app": "web"}), timeout=60)).response["patch"]
    await client.close()
