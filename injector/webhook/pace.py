"""How the injections of one revision fare: whether they take long, and for whose pods they spend their time in vain.

A revision whose injections take long is injected aside (``lane``), so that those of others go on. Where a template runs into its budget
again and again it is paused, for the pods of the namespace that this happened with: a pod can bring it about as well as a template, and
one tenant must not shut out another.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from injector.errors import PausedError

if TYPE_CHECKING:
    from injector.istio.revision import Revision

# As long as anything may hold up the event loop. With Istio's own templates an injection takes a fifth of it at most; one that spends all
# of its steps takes twice as long on a fast machine.
SLOW: Final = 0.02
"""Seconds of work from which on an injection is called slow."""
ASIDE: Final = 60.0
LONGEST_ASIDE: Final = 3600.0
"""How long a revision stays aside after a slow injection, twice as long after each that held up the loop."""
TRIES: Final = 3
FIRST_PAUSE: Final = 1.0
# As long as a Deployment's controller waits between its tries once it has had several; who corrects a template gets a new revision.
LONGEST_PAUSE: Final = 60.0
NAMESPACES: Final = 256
"""How many pauses a revision remembers; those that were asked for last."""


@dataclass(slots=True)
class Pause:
    """What the pods of one namespace came to: failures in a row that took long, how long they are paused for, and until when."""

    failures: int = 0
    seconds: float = 0.0
    until: float = 0.0


@dataclass(slots=True)
class Pace:
    """How the injections of one revision, as it is loaded, fare. It belongs to the thread of the event loop."""

    fingerprint: str
    jobs: int = 0
    _aside: float = 0.0
    _aside_until: float = float("-inf")
    _pauses: OrderedDict[str, Pause] = field(default_factory=OrderedDict)

    def aside(self, now: float) -> bool:
        """Tell whether the revision is injected aside."""
        return self.jobs > 0 or now < self._aside_until

    def done(self) -> None:
        """Note that something of the revision's is no longer under way aside."""
        self.jobs -= 1

    def took(self, seconds: float, now: float) -> None:
        """Learn how long an injection worked."""
        if seconds < SLOW:
            return
        if not self.aside(now):
            self._aside = min(LONGEST_ASIDE, 2 * self._aside)
        self._aside = self._aside or ASIDE
        self._aside_until = now + self._aside

    def injected(self, namespace: str) -> None:
        """Learn that a pod of a namespace was injected: nothing is paused."""
        self._pauses.pop(namespace, None)

    def spent(self, namespace: str, now: float) -> None:
        """Learn that an injection for a namespace took long and failed."""
        pause = self._pauses.setdefault(namespace, Pause())
        self._pauses.move_to_end(namespace)
        if len(self._pauses) > NAMESPACES:
            self._pauses.popitem(last=False)
        pause.failures += 1
        if pause.failures >= TRIES:
            pause.seconds = min(LONGEST_PAUSE, 2 * pause.seconds or FIRST_PAUSE)
            pause.until = now + pause.seconds

    def check(self, revision: Revision, namespace: str, now: float) -> None:
        """Let through whose pods are not paused.

        Raises:
            PausedError: they are.
        """
        pause = self._pauses.get(namespace)
        if pause is None or pause.failures < TRIES or now >= pause.until:
            return
        raise PausedError(
            f"its templates took too long {pause.failures} times in a row for pods of this namespace; "
            f"the next try is in {pause.until - now:.0f} s",
            where=f"revision {revision.name}",
            hint="correct the template, or what it reads of the pods: the messages before this one say where",
        )

    def begin(self, revision: Revision, namespace: str, now: float) -> None:
        """Begin an injection as ``check`` allows it; after a pause it is a try, and nobody else's until it has ended.

        Raises:
            PausedError: as ``check``.
        """
        self.check(revision, namespace, now)
        pause = self._pauses.get(namespace)
        if pause is not None and pause.failures >= TRIES:
            pause.until = now + pause.seconds
