from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest
from aiohttp import StreamReader

from injector.webhook.admittance import Admittance
from injector.webhook.body import Body, NoRoomError, TooLargeError

if TYPE_CHECKING:
    from aiohttp.base_protocol import BaseProtocol


def stream_of(*chunks: bytes) -> StreamReader:
    """A body that has come in full."""
    protocol = SimpleNamespace(pause_reading=lambda: None, resume_reading=lambda **_: None, _reading_paused=False)
    stream = StreamReader(cast("BaseProtocol", protocol), 2**20, loop=asyncio.get_running_loop())
    for chunk in chunks:
        stream.feed_data(chunk)
    stream.feed_eof()
    return stream


@pytest.mark.parametrize(("chunks", "expected"), [((b"ab",), b"ab"), ((b"ab", b"c"), b"abc"), ((), b"")])
async def test_a_body_is_read_in_full(chunks: tuple[bytes, ...], expected: bytes) -> None:
    with Body(stream_of(*chunks), Admittance()) as body:
        assert await body.read(10) == expected


async def test_a_body_beyond_the_limit_is_refused_and_its_room_given_back() -> None:
    admittance = Admittance(room=10)

    with pytest.raises(TooLargeError), Body(stream_of(b"abcdef"), admittance) as body:
        await body.read(5)

    assert admittance.hold(10)


async def test_a_body_has_its_room_until_it_is_done_with() -> None:
    admittance = Admittance(room=10)

    with Body(stream_of(b"abcdef"), admittance) as body:
        await body.read(10)
        with pytest.raises(NoRoomError), Body(stream_of(b"abcde"), admittance) as another:
            await another.read(10)

    with Body(stream_of(b"abcde"), admittance) as body:
        assert await body.read(10) == b"abcde"
