"""Flags of the commands that talk to a cluster, and the way there.

The API server is found as kubectl and istioctl find it: ``--kubeconfig``, else the files of ``KUBECONFIG``, else
``~/.kube/config``, else the service account of the pod that the command runs in.
"""

from __future__ import annotations

import functools
import os
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import click
from click.core import ParameterSource

from injector.cli.flags import FILE
from injector.cluster.kubeconfig import Kubeconfig
from injector.errors import ClusterError, UsageError
from injector.istio.webhooks import ISTIO_NAMESPACE
from injector.revisions.names import is_label

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine, Iterator

    from injector.cluster.client import KubeClient

F = TypeVar("F", bound="Callable[..., Any]")
T = TypeVar("T")

_HINTS: Final = {
    "forbidden": "ask for that permission, or give a --context or --kubeconfig that has it",
    "unauthorized": "log in again, or give another --context or --kubeconfig",
    "unreachable": "check the network, or give another --context or --kubeconfig",
    "idle": "try again later, or give another --context or --kubeconfig",
    "cut": "try again",
    "conflict": "try again",
    "throttled": "try again later",
}
"""What the user of a command can do about a fault of the API server, by its reason; the client's hints are a server's."""


def checked_namespace(name: str, *, flag: str) -> str:
    """Return the name of a namespace.

    Raises:
        UsageError: Kubernetes would refuse it.
    """
    if is_label(name):
        return name
    raise UsageError(
        f"{name[:80]!r} cannot name a namespace",
        where=flag,
        hint="use at most 63 lower-case letters, digits and `-`, with a letter or digit at both ends",
    )


ISTIO_NAMESPACE_FLAG: Final = click.option(
    "-i",
    "--istio-namespace",
    "--istioNamespace",
    default=ISTIO_NAMESPACE,
    show_default=True,
    callback=lambda _, __, value: checked_namespace(value, flag="--istio-namespace"),
    help="Istio's own namespace; webhooks have another one than this in their names.",
)
"""The parameter ``istio_namespace``, checked."""


def cluster_flags(command: F) -> F:
    """Add ``--kubeconfig`` and ``--context``, as the parameter ``kubeconfig`` of ``in_cluster``."""

    @click.option(
        "-c",
        "--kubeconfig",
        "paths",
        multiple=True,
        type=FILE,
        envvar="KUBECONFIG",
        metavar="FILE",
        help="How to reach the API server; KUBECONFIG or ~/.kube/config without it, or else as the pod's service account.",
    )
    @click.option(
        "--context", "context_name", metavar="NAME", help="The context of the kubeconfig, instead of its own."
    )
    @functools.wraps(command)
    def with_kubeconfig(*args: Any, paths: tuple[Path, ...], context_name: str | None, **kwargs: Any) -> Any:
        source = click.get_current_context().get_parameter_source("paths")
        return command(*args, kubeconfig=Kubeconfig(_files(paths, source), context_name), **kwargs)

    return cast("F", with_kubeconfig)


def in_cluster(kubeconfig: Kubeconfig, work: Callable[[KubeClient], Coroutine[Any, Any, T]]) -> T:
    """Run ``work`` with a client that has its credentials, and return what it returns.

    Raises:
        ConfigError: there are no credentials, or they cannot be used.
        ClusterError: the API server cannot be reached, or refuses; with what the user of a command can do.
    """
    with opened_cluster(kubeconfig) as cluster:
        return cluster.run(work)


@contextmanager
def opened_cluster(kubeconfig: Kubeconfig) -> Iterator[OpenedCluster]:
    """Give a client to a command that asks its user something between two requests; it is closed afterwards.

    Raises:
        ConfigError: there are no credentials, or they cannot be used.
    """
    # Imported here, since they take half a second, which --help and commands without a cluster must not take.
    import asyncio  # noqa: PLC0415

    from injector.cluster.client import KubeClient  # noqa: PLC0415

    client = KubeClient(kubeconfig)
    with asyncio.Runner() as runner:
        try:
            runner.run(client.open())
            yield OpenedCluster(runner, client)
        finally:
            runner.run(client.close())


@dataclass(frozen=True, slots=True)
class OpenedCluster:
    """A client, and the event loop that it lives in."""

    runner: asyncio.Runner
    client: KubeClient

    def run(self, work: Callable[[KubeClient], Coroutine[Any, Any, T]]) -> T:
        """Return what ``work`` returns; raise as ``in_cluster`` does."""
        try:
            return self.runner.run(work(self.client))
        except ClusterError as error:
            raise ClusterError(
                error.what,
                where=error.where,
                hint=_HINTS.get(error.reason, error.hint),
                reason=error.reason,
                status=error.status,
            ) from error


def _files(given: tuple[Path, ...], source: ParameterSource | None) -> tuple[Path, ...]:
    """Return the files that count: of those of ``KUBECONFIG`` the ones that are there, as for kubectl."""
    if source is ParameterSource.COMMANDLINE:
        return given
    # Not Path.expanduser, which raises where the user has no home, as in many a container.
    known = given or (Path(os.path.expanduser("~/.kube/config")),)  # noqa: PTH111
    return tuple(path for path in known if path.exists()) or given
