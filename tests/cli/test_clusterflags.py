from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest
from click.testing import CliRunner

from injector.cli.clusterflags import ISTIO_NAMESPACE_FLAG, checked_namespace, cluster_flags, in_cluster
from injector.cluster.kubeconfig import Kubeconfig
from injector.errors import ClusterError, ConfigError, UsageError

if TYPE_CHECKING:
    from injector.cluster.client import KubeClient


class Client:
    """An API server's client that notes what becomes of it."""

    notes: list[str]

    def __init__(self, kubeconfig: Kubeconfig) -> None:
        self.notes.append(f"made {kubeconfig}")

    async def open(self) -> None:
        self.notes.append("opened")

    async def close(self) -> None:
        self.notes.append("closed")


@pytest.fixture
def notes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    Client.notes = []
    monkeypatch.setattr("injector.cluster.client.KubeClient", Client)
    return Client.notes


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of one's own, and no KUBECONFIG."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    return tmp_path


def flags(*arguments: str) -> tuple[Kubeconfig, str]:
    """What the flags make."""
    made: list[tuple[Kubeconfig, str]] = []

    @click.command()
    @cluster_flags
    @ISTIO_NAMESPACE_FLAG
    def command(kubeconfig: Kubeconfig, istio_namespace: str) -> None:
        made.append((kubeconfig, istio_namespace))

    CliRunner().invoke(command, arguments, catch_exceptions=False)
    return made[0]


def test_without_flags_and_files_it_is_the_pods_service_account() -> None:
    assert flags() == (Kubeconfig(), "istio-system")


def test_the_home_has_the_kubeconfig_of_a_user(home: Path) -> None:
    (home / ".kube").mkdir()
    (home / ".kube" / "config").touch()

    assert flags()[0] == Kubeconfig((home / ".kube" / "config",))


def test_the_environment_comes_before_the_home_with_those_of_its_files_that_are_there(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / ".kube").mkdir()
    for name in (".kube/config", "a", "c"):
        (home / name).touch()
    monkeypatch.setenv("KUBECONFIG", f"{home}/a:{home}/b:{home}/c")

    assert flags()[0] == Kubeconfig((home / "a", home / "c"))


def test_an_environment_that_names_nothing_is_not_passed_over(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", f"{home}/nope")

    assert flags()[0] == Kubeconfig((home / "nope",))


@pytest.mark.parametrize("flag", ["-c", "--kubeconfig"])
def test_the_flag_comes_before_the_environment(home: Path, monkeypatch: pytest.MonkeyPatch, flag: str) -> None:
    (home / "a").touch()
    monkeypatch.setenv("KUBECONFIG", f"{home}/a")

    assert flags(flag, "given", "--context", "x")[0] == Kubeconfig((Path("given"),), "x")


@pytest.mark.parametrize("flag", ["-i", "--istio-namespace", "--istioNamespace"])
def test_istios_namespace_has_istioctls_flag(flag: str) -> None:
    assert flags(flag, "mesh")[1] == "mesh"


@pytest.mark.parametrize("name", ["", "A", "a.b", "a" * 64])
def test_what_cannot_be_a_namespace_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match=r"^-n: '.*' cannot name a namespace; use at most 63"):
        checked_namespace(name, flag="-n")


def test_work_gets_a_client_with_credentials_that_is_closed_afterwards(notes: list[str]) -> None:
    async def work(client: KubeClient) -> int:
        assert isinstance(client, Client)
        notes.append("worked")
        return 7

    assert in_cluster(Kubeconfig((Path("a"),)), work) == 7
    assert notes == ["made a", "opened", "worked", "closed"]


@pytest.mark.parametrize(
    ("reason", "hint"),
    [
        ("forbidden", "ask for that permission, or give a --context or --kubeconfig that has it"),
        ("unauthorized", "log in again, or give another --context or --kubeconfig"),
        ("unreachable", "check the network, or give another --context or --kubeconfig"),
        ("conflict", "try again"),
        ("refused", "settle who does"),
    ],
)
def test_a_fault_of_the_api_server_says_what_a_user_can_do(notes: list[str], reason: str, hint: str) -> None:
    async def work(_: KubeClient) -> None:
        raise ClusterError("no", where="https://a/b", hint="settle who does", reason=reason, status=4)

    with pytest.raises(ClusterError) as caught:
        in_cluster(Kubeconfig(), work)

    assert (str(caught.value), caught.value.exit_code) == (f"https://a/b: no; {hint}", 1)
    assert (caught.value.reason, caught.value.status) == (reason, 4)
    assert notes[-1] == "closed"


def test_without_credentials_nothing_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)

    async def work(_: KubeClient) -> None:
        pytest.fail("there is no cluster to work in")

    with pytest.raises(ConfigError, match=r"^kubeconfig: there is none, .*; give --kubeconfig"):
        in_cluster(Kubeconfig(), work)


def test_the_flags_cost_no_client() -> None:
    code = "import sys, injector.cli.clusterflags; print(sorted({'aiohttp', 'asyncio', 'kubernetes_asyncio'} & {*sys.modules}))"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "[]\n"
