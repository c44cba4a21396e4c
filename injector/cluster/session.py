"""Sessions with an API server for synchronous code: a client, and the event loop that it belongs to."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from injector.errors import ClusterError

if TYPE_CHECKING:
    import asyncio

    from injector.cluster.client import KubeClient
    from injector.cluster.kubeconfig import Kubeconfig

T = TypeVar("T")
_HINTS: Final = {
    "forbidden": "grant this permission to the account, or give another --context or --kubeconfig",
    "unauthorized": "log in again, or give another --context or --kubeconfig",
    "unreachable": "check the network, or give another --context or --kubeconfig",
    "idle": "try again later, or give another --context or --kubeconfig",
    "cut": "try again",
    "conflict": "try again",
    "throttled": "try again later",
}
"""The hints for the user of a command, by the reason of the error. The hints of the client are for a server."""


class Session(Protocol):
    """Runs coroutines that use a client, one after another."""

    def run(self, work: Callable[[KubeClient], Coroutine[Any, Any, T]]) -> T:
        """Run ``work`` with the client and return its result."""


@dataclass(frozen=True, slots=True)
class ThreadSession:
    """A session for another thread than that of the client's event loop, which must be running."""

    loop: asyncio.AbstractEventLoop
    client: KubeClient

    def run(self, work: Callable[[KubeClient], Coroutine[Any, Any, T]]) -> T:
        """Run ``work`` with the client on its event loop and return its result."""
        import asyncio  # noqa: PLC0415 -- see ``open_session``

        return asyncio.run_coroutine_threadsafe(work(self.client), self.loop).result()


@dataclass(frozen=True, slots=True)
class ClusterSession:
    """A client of the API server, and the event loop that it belongs to."""

    runner: asyncio.Runner
    client: KubeClient

    def run(self, work: Callable[[KubeClient], Coroutine[Any, Any, T]]) -> T:
        """Run ``work`` with the client and return its result. The hint of a ClusterError is for the user of a command."""
        try:
            return run_for_result(self.runner, work(self.client))
        except ClusterError as error:
            error.hint = _HINTS.get(error.reason, error.hint)
            raise


def run_for_result(runner: asyncio.Runner, work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine and return its result.

    The runner does not see the result, because it formats the task for its signal handler: for a large result that takes minutes.
    """
    results: list[T] = []

    async def store_result() -> None:
        results.append(await work)

    runner.run(store_result())
    return results[0]


@contextmanager
def open_session(kubeconfig: Kubeconfig) -> Iterator[ClusterSession]:
    """Connect to the API server for any number of requests. Raises ConfigError if the credentials are missing or not valid."""
    # Imported here, because they take half a second, and commands without a cluster do not need them.
    import asyncio  # noqa: PLC0415

    from injector.cluster.client import KubeClient  # noqa: PLC0415

    client = KubeClient(kubeconfig)
    with asyncio.Runner() as runner:
        try:
            runner.run(client.open())
            yield ClusterSession(runner, client)
        finally:
            runner.run(client.close())
