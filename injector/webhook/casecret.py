"""The Secret of the injector's own authority, kept by every replica alike.

It is read each few seconds rather than watched: nothing waits for it, and reading one Secret by its name takes the
least permissions. Whoever finds it missing, broken or due for a change writes what ``succession`` says, with the
version that it read; whoever is late is told so by the API server and reads again.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from injector.errors import ClusterError, ConfigError, InjectorError, whereabouts
from injector.webhook.succession import Lifetimes, data_of, founded, read_succession, succeeded

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from injector.cluster.secrets import SecretStore, Stored
    from injector.webhook.selfsigned import SelfSigned
    from injector.webhook.spread import Reach
    from injector.webhook.succession import Succession

_log = logging.getLogger(__name__)

LOOK: Final = 5.0
WAITS: Final = (1.0, 2.0, 4.0, 8.0, 16.0, 30.0)
"""Between tries while the API server is away or refuses, in seconds."""
JITTER: Final = 0.25
TRIES: Final = 8
"""How often in a row somebody else may have been first."""
_SOON: Final = 0.2


@dataclass
class CaSecret:
    """Keeps the authorities of ``certificates`` as the Secret of ``store`` has them.

    ``clock`` tells the time in seconds since the epoch, ``chance`` a number from 0 to 1, anew at each call.
    """

    store: SecretStore
    certificates: SelfSigned
    reach: Reach
    times: Lifetimes = field(default_factory=Lifetimes)
    clock: Callable[[], float] = time.time
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    chance: Callable[[], float] = random.random

    async def follow(self, settled: asyncio.Event) -> None:
        """Keep them for ever; ``settled`` is set once they are known.

        Raises:
            InjectorError: before that, what waiting does not mend: it is forbidden, or the Secret is somebody else's.
        """
        faults = 0
        while True:
            try:
                await self.agree()
            except Exception as error:
                if not settled.is_set() and _lasts(error):
                    raise
                self._say(error, faults)
                wait = WAITS[min(faults, len(WAITS) - 1)]
                faults += 1
            else:
                faults, wait = 0, LOOK
                settled.set()
            await self.sleep(wait * (1 + JITTER * self.chance()))

    async def agree(self) -> None:
        """Read the Secret, bring it up to date where that is due, and take what it holds then.

        Raises:
            ClusterError: the API server cannot be reached, or refuses.
            ConfigError: the Secret is somebody else's.
        """
        for turn in range(TRIES):
            stored = await self.store.read()
            held = None if stored is None else read_succession(stored.data, where=str(self.store))
            wanted = self._wanted(held)
            if wanted == held or await self._written(wanted, stored, last=turn == TRIES - 1):
                break
            await self.sleep(_SOON * self.chance())
        self.certificates.hold(wanted)

    def _wanted(self, held: Succession | None) -> Succession:
        now = self.clock()
        if held is None:
            return founded(now, self.times, self.certificates.served)
        return succeeded(held, self.times, now=now, spread=self.reach.reached(held.bundle))

    async def _written(self, wanted: Succession, stored: Stored | None, *, last: bool) -> bool:
        """Write; tell whether nobody else was first."""
        try:
            await self.store.write(data_of(wanted), stored)
        except ClusterError as error:
            if error.reason != "conflict" or last:
                raise
            return False
        _log.info("%s: %s", self.store, "changed" if stored else "created")
        return True

    def _say(self, error: Exception, faults: int) -> None:
        if not faults:
            told = error if isinstance(error, InjectorError) else whereabouts(error)
            _log.warning("%s: what is known of it stays: %s", self.store, told)


def _lasts(error: Exception) -> bool:
    return isinstance(error, ConfigError) or (isinstance(error, ClusterError) and error.reason == "forbidden")
