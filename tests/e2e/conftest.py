"""The API server that end-to-end tests share, and their place: after all others, while it is being built."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TypeAlias

import pytest
from _pytest.terminal import TerminalReporter

from tests.deploy import rendering
from tests.e2e.cluster import Cluster, running
from tests.e2e.controlplane import missing
from tests.e2e.fleet import FLEET, World, world_of
from tests.e2e.served import Certificate, certificate

Figure: TypeAlias = Callable[[str], None]

HERE = Path(__file__).resolve().parent
LONGEST = (
    "test_upgrade_ends.py",
    "test_upgrade_stops.py",
    "test_upgrade_controllers.py",
    "test_upgrade.py",
    "test_matrix.py",
    "test_selfsigned.py",
    "test_faults.py",
    "test_while_pods_are_created.py",
)
"""The files that take longest, the longest first."""
MEASURED = "measured"
AUDITED = "plain"
"""The namespace whose pods are in the audit log."""
AUDIT_LOG = "audit.log"


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    """Print the figures of the tests: speed is shown, and asserted with a wide margin or not at all."""
    reports = [each for name in ("passed", "failed") for each in terminalreporter.getreports(name)]
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


@pytest.fixture(scope="session")
def shared_cluster(built: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """An API server without controllers, for all modules of this process. It writes what webhooks say of pods to an audit log."""
    del built
    folder = tmp_path_factory.mktemp("plain")
    policy = folder / "audit.json"
    rule = {"level": "Metadata", "resources": [{"group": "", "resources": ["pods"]}], "namespaces": [AUDITED]}
    policy.write_text(json.dumps({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [rule]}))
    flags = f"--audit-policy-file={policy} --audit-log-path={folder / AUDIT_LOG} --audit-log-mode=blocking-strict"
    with running(Cluster(folder, flags=flags)) as made:
        yield made


@pytest.fixture(scope="module")
def cluster(shared_cluster: Cluster) -> Cluster:
    """The API server without controllers, as it was when it started. In a module, each test has namespaces of its own."""
    shared_cluster.restore()
    return shared_cluster


@pytest.fixture(scope="session")
def shared_controlled_cluster(built: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """An API server where Deployments make pods, for all modules of this process."""
    del built
    if reason := missing(controllers=True):
        pytest.skip(reason)
    with running(Cluster(tmp_path_factory.mktemp("controlled"), controllers=True)) as made:
        yield made


@pytest.fixture
def controlled_cluster(shared_controlled_cluster: Cluster) -> Cluster:
    """The API server where Deployments make pods, as it was when it started."""
    shared_controlled_cluster.restore()
    return shared_controlled_cluster


@pytest.fixture(scope="session")
def shared_nodes(built: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster with three nodes, for all modules of this process."""
    del built
    if reason := missing(nodes=True):
        pytest.skip(reason)
    with running(Cluster(tmp_path_factory.mktemp("nodes"), controllers=True, nodes=3)) as cluster:
        yield cluster


@pytest.fixture
def nodes(shared_nodes: Cluster) -> Cluster:
    """The cluster with three nodes, as it was when it started."""
    shared_nodes.delete_namespaces()
    shared_nodes.restore()
    return shared_nodes


@pytest.fixture
def world(nodes: Cluster, tmp_path: Path) -> Iterator[World]:
    """The small fleet."""
    with world_of(nodes, FLEET, tmp_path) as made:
        yield made


@pytest.fixture(scope="session")
def trusted(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    """The certificate that injectors serve with."""
    return certificate(tmp_path_factory.mktemp("certificate"))
