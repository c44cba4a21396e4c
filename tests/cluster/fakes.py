"""An API server that does what a test says, and a clock that runs only while everything waits."""

from __future__ import annotations

import asyncio
import functools
import json
import selectors
from collections.abc import AsyncGenerator, Callable, Coroutine
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any, ParamSpec, TypeAlias, TypeVar, TypeVarTuple

from prometheus_client import CollectorRegistry

from injector.cluster.client import KubeClient, Page
from injector.cluster.resources import Scope
from injector.errors import ClusterError
from injector.metrics import Metrics

P = ParamSpec("P")
T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class _Skipping(selectors.DefaultSelector):
    """Waits for nothing: what would be waited for is added to the clock."""

    now = 0.0

    def select(self, timeout: float | None = None) -> Any:
        ready = super().select(0)
        if not ready and timeout is not None:
            self.now += max(timeout, 0.0)
        return ready


class FakeTimeLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock jumps to the next timer."""

    def __init__(self) -> None:
        self._skipping = _Skipping()
        super().__init__(self._skipping)

    def time(self) -> float:
        return self._skipping.now

    def skip(self, seconds: float) -> None:
        """Let time pass at once, as if a call had blocked the loop for so long."""
        self._skipping.now += seconds

    def run_in_executor(self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts) -> asyncio.Future[T]:
        """Run a function at once: the clock would not wait for a thread."""
        del executor
        done = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 -- the caller gets it
            done.set_exception(error)
        return done


def skip(seconds: float) -> None:
    """Let time pass at once on the fake event loop that runs."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, FakeTimeLoop)
    loop.skip(seconds)


def in_fake_time(test: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, T]:
    """Decorate an asynchronous function: a call runs it with a clock that costs no time, and returns its result."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        with asyncio.Runner(loop_factory=FakeTimeLoop) as runner:
            return runner.run(test(*args, **kwargs))

    return run


def kubeconfig_of(server: str, **user: str) -> str:
    """A kubeconfig of one cluster and one user."""
    return json.dumps(
        {
            "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": server}}],
            "users": [{"name": "u", "user": user}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        }
    )


def item(name: str, version: int, namespace: str = "", **fields: Any) -> dict[str, Any]:
    """An object as the API server gives it."""
    metadata = {"name": name, "resourceVersion": str(version), **({"namespace": namespace} if namespace else {})}
    return {"metadata": metadata, **fields}


def line(kind: str, subject: dict[str, Any]) -> bytes:
    """One line of a watch."""
    return json.dumps({"type": kind, "object": subject}).encode()


def bookmark(version: int) -> bytes:
    return line("BOOKMARK", {"metadata": {"resourceVersion": str(version)}})


def status(code: int) -> bytes:
    """The event by which an API server ends a watch."""
    return line("ERROR", {"kind": "Status", "code": code})


def failure(reason: str, *, retry_after: float = 0.0) -> ClusterError:
    return ClusterError("x", reason=reason, retry_after=retry_after)


Answer: TypeAlias = "Page | Exception"
WatchStep: TypeAlias = "bytes | Exception | float"
"""The next step of a watch: a line, an error, or so many seconds of silence."""


@dataclass
class FakeClient(KubeClient):
    """Answers lists and watches in the order of its scripts; the last of each is repeated."""

    pages: list[Answer]
    watches: list[list[WatchStep]] = field(default_factory=lambda: [[3600.0]])
    requests: list[tuple[float, str]] = field(default_factory=list)

    async def open(self) -> None:
        """Open no connection."""

    async def close(self) -> None:
        """Close none."""

    async def page(self, scope: Scope, *, token: str = "", limit: int = 0) -> Page:
        del limit
        self._note(f"list {scope.resource.plural}" + (f" {token}" if token else ""))
        answer = self.pages.pop(0) if len(self.pages) > 1 else self.pages[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def watch(self, scope: Scope, *, resource_version: str, seconds: int) -> AsyncGenerator[bytes, None]:
        del seconds
        self._note(f"watch {scope.resource.plural} {resource_version}")
        script = self.watches.pop(0) if len(self.watches) > 1 else self.watches[0]
        if not (script and isinstance(script[0], Exception)):  # else it is refused
            yield b""
        for step in script:
            if isinstance(step, Exception):
                raise step
            if isinstance(step, bytes):
                yield step
            else:
                await asyncio.sleep(step)

    def _note(self, what: str) -> None:
        self.requests.append((asyncio.get_running_loop().time(), what))


class Observed(Metrics):
    """Metrics that a test reads."""

    def __init__(self) -> None:
        super().__init__(CollectorRegistry())

    @property
    def faults(self) -> list[tuple[str, str]]:
        """The resource and the reason of every fault of a watch."""
        return [
            (sample.labels["resource"], sample.labels["reason"])
            for sample in next(iter(self.watch_faults.collect())).samples
            if sample.name.endswith("_total")
            for _ in range(int(sample.value))
        ]

    @property
    def synced(self) -> dict[str, bool]:
        """Whether the watch of each resource is up to date."""
        return {
            sample.labels["resource"]: bool(sample.value) for sample in next(iter(self.watch_synced.collect())).samples
        }


def page(*items: dict[str, Any], version: int = 10, more: str = "") -> Page:
    """A page of a list; ``more`` is the token of the next."""
    return Page(items, "" if more else str(version), more)
