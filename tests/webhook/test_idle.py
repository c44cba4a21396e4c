from __future__ import annotations

import asyncio
import threading

from injector.webhook.idle import Loop, run


def test_a_loop_is_idle_while_it_waits_and_not_while_it_works() -> None:
    seen: list[bool] = []
    waits = threading.Event()

    async def scene() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, Loop)
        seen.append(loop.idle)

        def look() -> None:
            # It becomes idle once this thread is all that goes on.
            while not loop.idle:
                pass
            waits.set()

        thread = asyncio.create_task(asyncio.to_thread(look))
        await asyncio.wait_for(thread, 20.0)
        seen.append(loop.idle)

    run(scene())

    assert waits.is_set()
    assert seen == [False, False]
