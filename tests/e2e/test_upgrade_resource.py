"""The definition of the resource ``Upgrade`` on a real API server: an older one, which Helm leaves in place, drops no field unnoticed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from injector.cluster.client import KubeClient
from injector.cluster.kubeconfig import Kubeconfig
from injector.cluster.session import open_session
from injector.errors import ConfigError
from injector.upgrade.state import PinnedGateway, PlannedRestart, Remaining, new_state
from injector.upgrade.store import Store
from tests.e2e.cluster import Cluster
from tests.e2e.fleet import CRD
from tests.e2e.served import run, until

DOCUMENT: dict[str, Any] = {
    "apiVersion": "revision-injector.dev/v1alpha1",
    "kind": "Upgrade",
    "metadata": {"name": "up"},
    "spec": {"tag": "prod", "from": "1-28", "to": "1-30", "waves": [{"name": "all"}]},
}
WITH_GATEWAYS = {**DOCUMENT, "spec": {**DOCUMENT["spec"], "injectedGateways": {"approval": True}}}
OLDER = "the definition of the resource Upgrade is older than this injector"
REMEDY = "run `injector upgrade crd | kubectl apply -f -`"


FULL: dict[str, Any] = {
    "restarting": {"Deployment shop/web": PlannedRestart(5.0, 6.0)},
    "retries": {"Deployment shop/web": 7.0},
    "gateways": {"shop/edge": PinnedGateway(None, "1-28", 5.0)},
    "skipped": ("Deployment shop/cart",),
    "gates": {"ready": "passed"},
    "counts": {"done": 1},
    "remaining": (Remaining("Pod shop/bare", "why", "how"),),
}
"""Fields of a state that are empty at first."""


def older_definition() -> dict[str, Any]:
    """The definition of the resource without injected gateways."""
    definition: dict[str, Any] = yaml.safe_load(CRD.read_text())
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    del schema["x-kubernetes-validations"]  # they name the field
    fields = schema["properties"]
    for part in ("spec", "status"):
        del fields[part]["properties"]["injectedGateways"]
    return definition


@pytest.fixture
def older(cluster: Cluster, tmp_path: Path) -> Cluster:
    """An API server with the older definition."""
    cluster.apply(older_definition())
    path = tmp_path / "gateways.yaml"
    path.write_text(yaml.safe_dump(WITH_GATEWAYS))
    # A definition is in effect a moment after it was written.
    check = "create", "--dry-run=server", "--validate=strict", "-f", str(path)
    until(lambda: "unknown field" in cluster.kubectl(*check).stderr)
    cluster.kubectl("delete", "upgrades", "--all")
    return cluster


def test_a_document_with_a_field_that_the_definition_lacks_is_not_stored(older: Cluster, tmp_path: Path) -> None:
    path = tmp_path / "upgrade.yaml"
    path.write_text(yaml.safe_dump(WITH_GATEWAYS))
    created = run(older, "upgrade", "run", str(path))
    assert older.kubectl("get", "upgrades", "-o", "name").stdout == ""
    older.apply(DOCUMENT)
    replaced = run(older, "upgrade", "run", str(path))

    said = f'error: {OLDER}: unknown field "spec.injectedGateways"; {REMEDY}\n'
    assert [(done.exit_code, done.stderr) for done in (created, replaced)] == [(65, said)] * 2


def test_a_state_with_a_field_that_the_definition_lacks_is_not_stored(older: Cluster) -> None:
    older.apply(DOCUMENT)

    async def save(client: KubeClient) -> bool:
        store = Store(client, "up", "runner")
        stored = await store.load()
        state = replace(new_state(stored.upgrade, 1.0, {"revision": "1-28", "annotations": {"a": "b"}}), **FULL)
        try:
            await store.save(stored, state)
        except ConfigError as error:
            await store.note(str(error))
            return False
        return True

    def is_saved() -> bool:
        with open_session(Kubeconfig((older.kubeconfig,))) as session:
            return session.run(save)

    def status_of_resource() -> dict[str, Any]:
        status: dict[str, Any] = json.loads(older.kubectl("get", "upgrade", "up", "-o", "json").stdout)["status"]
        return status

    assert not is_saved()
    status = status_of_resource()
    assert "phase" not in status
    assert status["runner"]["lastError"] == f'{OLDER}: unknown field "status.injectedGateways"; {REMEDY}'
    older.apply(yaml.safe_load(CRD.read_text()))
    until(is_saved)
    assert status_of_resource()["injectedGateways"] is False


@pytest.mark.parametrize(("verb", "phase"), [("pause", "Paused"), ("abort", "Aborted"), ("rollback", "RollingBack")])
def test_a_started_upgrade_can_be_stopped_and_go_back_with_an_older_definition(
    older: Cluster, verb: str, phase: str
) -> None:
    older.apply(yaml.safe_load(CRD.read_text()), DOCUMENT)

    def status_of_resource() -> dict[str, Any]:
        status: dict[str, Any] = json.loads(older.kubectl("get", "upgrade", "up", "-o", "json").stdout)["status"]
        return status

    async def save(client: KubeClient) -> None:
        store = Store(client, "up", "runner")
        stored = await store.load()
        state = stored.state or new_state(stored.upgrade, 1.0, {"revision": "1-28", "annotations": {}})
        await store.save(stored, replace(state, total=state.total + 1))

    def is_saved() -> bool:
        try:
            with open_session(Kubeconfig((older.kubeconfig,))) as session:
                session.run(save)
        except ConfigError:
            return False
        return True

    until(is_saved)
    older.apply(older_definition())
    until(lambda: not is_saved())
    done = run(older, "upgrade", verb, "up")
    status = status_of_resource()
    assert (done.exit_code, status["phase"], "injectedGateways" in status) == (0, phase, False), done.stderr
    if verb == "rollback":
        assert is_saved(), "a runner goes on"


@pytest.mark.parametrize(
    ("spec", "is_kept"),
    [
        ({"injectedGateways": {"last": False}}, True),
        ({"importanceLabel": "example.com/importance"}, True),
        ({"injectedGateways": {"last": True, "soak": "1m"}}, False),
        ({"importanceLabel": "revision-injector.dev/importance"}, False),
        ({"injectedGateways": {"last": False}, "run": 2}, True),
    ],
)
def test_a_field_that_decides_the_wave_of_a_workload_stays_after_the_start(
    cluster: Cluster, spec: dict[str, Any], is_kept: bool
) -> None:
    cluster.apply(yaml.safe_load(CRD.read_text()))
    until(lambda: not cluster.kubectl("get", "upgrades").returncode)
    cluster.kubectl("delete", "upgrades", "--all")
    cluster.apply(DOCUMENT)

    async def start(client: KubeClient) -> None:
        store = Store(client, "up", "runner")
        stored = await store.load()
        await store.save(stored, new_state(stored.upgrade, 1.0, {"revision": "1-28"}))

    with open_session(Kubeconfig((cluster.kubeconfig,))) as session:
        session.run(start)
    changed = cluster.kubectl(
        "apply", "--server-side", "-f", "-", stdin={**DOCUMENT, "spec": {**DOCUMENT["spec"], **spec}}
    )
    assert ("injectedGateways.last must stay until it has ended" in changed.stderr, bool(changed.returncode)) == (
        is_kept,
    ) * 2
