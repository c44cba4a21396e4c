"""Names that nobody serves, by the hundred thousand: what they cost, and what they leave behind."""

from __future__ import annotations

import asyncio
import json
import random
import string
import time
import urllib.request
from typing import TYPE_CHECKING

from tests.factories import UID, make_review
from tests.reliability.apiserver import ApiServer
from tests.reliability.long.rows import Row

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.reliability.long.chaos.stage import Stage
    from tests.reliability.replicas import Replica

NAMES = 100_000
CALLERS = 8
PARTS = (*string.ascii_letters, *string.digits, *"-_.~", "%2f", "%00", "%0a", "%ff", "%c3%a9")


async def hostile_names(stage: Stage) -> Sequence[Row]:
    """T22 and T23: every name is denied with the uid, and none of them makes a series."""
    replica = await stage.replica()
    review = json.dumps(make_review()).encode()
    client = ApiServer(lambda: [replica.port])
    names = random_names()
    wrong = 0

    async def ask(each: Iterator[str]) -> None:
        nonlocal wrong
        for name in each:
            reply = await client.post(f"/inject/{name}", review)
            if reply.status != 200 or (reply.response["uid"], reply.response["allowed"]) != (UID, False):
                wrong += 1

    # A name of each kind: unknown, with a control character, no UTF-8.
    await ask(iter(["nope", "x%00", "x%ff"]))
    before, begun = series(replica), time.monotonic()
    await asyncio.gather(*(ask(names) for _ in range(CALLERS)))
    each_ms = (time.monotonic() - begun) / NAMES * 1e3
    more = series(replica) - before
    await client.close()
    return [
        Row(
            f"T22 {NAMES} names",
            "denied with the uid, < 1 ms",
            f"{wrong} wrong, {each_ms:.2f} ms",
            wrong == 0 and each_ms < 1,
        ),
        Row(f"T23 {NAMES} names", "0 series more", f"{more} more", more == 0),
    ]


def random_names() -> Iterator[str]:
    """Names that nobody serves."""
    for number in range(NAMES):
        yield f"x{number}" + "".join(random.choices(PARTS, k=8))  # noqa: S311 -- names for a test


def series(replica: Replica) -> int:
    """How many series a scrape sees."""
    with urllib.request.urlopen(f"http://127.0.0.1:{replica.ops_port}/metrics", timeout=30) as answer:
        return sum(not line.startswith(b"#") for line in answer)
