"""The yardstick: what an aiohttp handler can do here. It reads a body and answers 9 kB of constant JSON, on uvloop."""

from __future__ import annotations

import argparse

import uvloop
from aiohttp import web

ANSWER = b'{"patch":"' + b"x" * 9_000 + b'"}'
"""As large as the answer to a review of an Istio sidecar, and with the key that the load looks for."""


async def answer(request: web.Request) -> web.Response:
    """Read a review and answer the constant."""
    await request.read()
    return web.Response(body=ANSWER, content_type="application/json")


def main() -> None:
    """Serve until terminated."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    options = parser.parse_args()
    app = web.Application(client_max_size=8 << 20)
    app.router.add_route("*", "/inject", answer)
    web.run_app(app, host="127.0.0.1", port=options.port, loop=uvloop.new_event_loop(), print=None, access_log=None)


if __name__ == "__main__":
    main()
