"""The API server that end-to-end tests share, and their place: after all others, while it is being built."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TypeAlias
from uuid import uuid4

import pytest
from _pytest.terminal import TerminalReporter

from tests.deploy import rendering
from tests.e2e.cluster import Cluster, running
from tests.e2e.controlplane import missing
from tests.e2e.fleet import CRD, FLEET, World, world_of
from tests.e2e.served import Certificate, certificate

Figure: TypeAlias = Callable[[str], None]

HERE = Path(__file__).resolve().parent
LONGEST = (
    "test_upgrade_ends.py",
    "test_upgrade_controllers.py",
    "test_upgrade_stops.py",
    "test_upgrade_gateways.py",
    "test_upgrade.py",
    "test_upgrade_other_writers.py",
    "test_upgrade_in_place.py",
    "test_matrix.py",
    "test_docs.py",
    "test_selfsigned.py",
    "test_faults.py",
    "test_while_pods_are_created.py",
)
"""The files that take longest, the longest first: those with nodes, those with controllers, the others."""
MEASURED = "measured"
AUDITED = "plain"
"""The namespace whose pods are in the audit log."""
AUDIT_LOG = "audit.log"


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    """Print the figures of the tests: speed is shown, and asserted with a wide margin or not at all."""
    reports = [report for name in ("passed", "failed") for report in terminalreporter.getreports(name)]
    figures = [text for report in reports for name, text in report.user_properties if name == MEASURED]
    if figures:
        terminalreporter.section("measured end to end")
        for text in dict.fromkeys(figures):
            terminalreporter.line(text)


@pytest.fixture
def figure(record_property: Callable[[str, object], None]) -> Figure:
    """Records a figure, which is printed at the end of the run."""
    return partial(record_property, MEASURED)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put them after all others, and the longest files first of them, so that no process works on one alone at the end."""
    order = {HERE / name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: (HERE in item.path.parents, order.get(item.path, len(order))))


@pytest.fixture(scope="session")
def built() -> None:
    """Wait for what an API server is made of; skip, with the reason, where there is none to be had."""
    if reason := missing():
        pytest.skip(reason)


@pytest.fixture(scope="session")
def helm() -> None:
    """Skip, with the reason, where the chart cannot be rendered."""
    if rendering.missing():
        pytest.skip(rendering.missing())


class OneCluster:
    """The cluster of this process, of one kind at a time: an idle one takes CPU time from the tests of the others."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.kind = folder, ""
        self._running = ExitStack()
        self._cluster: Cluster

    def get(self, kind: str, make: Callable[[Path], Cluster]) -> Cluster:
        """Return a cluster of this kind as it was when it started, in place of one of another kind."""
        if kind == self.kind:
            self._cluster.restore()
            return self._cluster
        self.end()
        self._cluster = self._running.enter_context(running(make(self.folder / f"{kind}-{uuid4().hex[:8]}")))
        self.kind = kind
        return self._cluster

    def end(self) -> None:
        self.kind = ""
        self._running.close()


@pytest.fixture(scope="session")
def one_cluster(built: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OneCluster]:
    """The cluster that all modules of this process share. LONGEST has the modules by the kind that they need."""
    del built
    shared = OneCluster(tmp_path_factory.mktemp("cluster"))
    yield shared
    shared.end()


def plain(folder: Path) -> Cluster:
    """Return an API server without controllers. It writes what webhooks say of pods to an audit log."""
    folder.mkdir()
    policy = folder / "audit.json"
    rule = {"level": "Metadata", "resources": [{"group": "", "resources": ["pods"]}], "namespaces": [AUDITED]}
    policy.write_text(json.dumps({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [rule]}))
    log = f"--audit-log-path={folder / AUDIT_LOG} --audit-log-mode=blocking-strict"
    return Cluster(folder, flags=f"--audit-policy-file={policy} {log}")


@pytest.fixture(scope="module")
def cluster(one_cluster: OneCluster) -> Cluster:
    """The API server without controllers, as it was when it started. In a module, each test has namespaces of its own."""
    return one_cluster.get("plain", plain)


@pytest.fixture
def controlled_cluster(one_cluster: OneCluster) -> Cluster:
    """The API server where Deployments make pods, as it was when it started."""
    if reason := missing(controllers=True):
        pytest.skip(reason)
    return one_cluster.get("controlled", partial(Cluster, controllers=True))


@pytest.fixture
def nodes(one_cluster: OneCluster) -> Cluster:
    """The cluster with three nodes and the definition of Upgrade, as it was when it started."""
    if reason := missing(nodes=True):
        pytest.skip(reason)
    return one_cluster.get("nodes", partial(Cluster, controllers=True, nodes=3, objects=CRD))


@pytest.fixture
def world(nodes: Cluster, tmp_path: Path) -> Iterator[World]:
    """The small fleet."""
    with world_of(nodes, FLEET, tmp_path) as world:
        yield world


@pytest.fixture(scope="session")
def trusted(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    """The certificate that injectors serve with."""
    return certificate(tmp_path_factory.mktemp("certificate"))
