"""Whose turn it is to be fuzzed: each target's as often as the others', until enough inputs were tried."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass
class Turns:
    """The turns of targets, and what came of them by target; any thread may take one.

    Attributes:
        targets: what takes turns, each at least once.
        wanted: how many executions there are to be in all. Who has a turn by then ends it.
    """

    targets: tuple[str, ...]
    wanted: int = 0
    executions: Counter[str] = field(default_factory=Counter)
    crashes: Counter[str] = field(default_factory=Counter)
    _taken: Counter[str] = field(default_factory=Counter)
    _under_way: set[str] = field(default_factory=set)
    _lock: Lock = field(default_factory=Lock)

    def take(self) -> str | None:
        """Return who had the fewest turns, and had no bug; None where no turn is left."""
        with self._lock:
            waiting = [name for name in self.targets if name not in self._under_way and not self.crashes[name]]
            name = min(waiting, key=self._taken.__getitem__, default=None)
            if name is None or (self._taken[name] and self.executions.total() >= self.wanted):
                return None
            self._taken[name] += 1
            self._under_way.add(name)
            return name

    def end(self, name: str, executions: int, crashes: int) -> str:
        """Note what came of a turn, and return it as a line."""
        with self._lock:
            self._under_way.remove(name)
            self.executions[name] += executions
            self.crashes[name] += crashes
            return f"{name}: {executions} executions, {crashes} crashes; {self.executions.total()} executions in all"

    def run(self, fuzz: Callable[[str], tuple[int, int]], jobs: int) -> None:
        """Take all turns, so many at a time; ``fuzz`` returns the executions and the crashes of one."""

        def work(_: int) -> None:
            while name := self.take():
                print(f"{self.end(name, *fuzz(name))}\n", end="", flush=True)

        with ThreadPoolExecutor(jobs) as pool:
            list(pool.map(work, range(jobs)))
