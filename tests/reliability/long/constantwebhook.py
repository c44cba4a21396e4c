"""A webhook that answers every review with one constant patch, or without one: aiohttp over TLS, and what an answer needs."""

from __future__ import annotations

import argparse
import base64
import ssl
from pathlib import Path

import orjson
from aiohttp import web


def main() -> None:
    """Serve until terminated."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--patch", type=Path, help="the JSON patch")
    parser.add_argument("--tls-cert-file", required=True)
    parser.add_argument("--tls-key-file", required=True)
    options = parser.parse_args()
    patch = {}
    if options.patch is not None:
        patch = {"patchType": "JSONPatch", "patch": base64.b64encode(options.patch.read_bytes()).decode()}

    async def answer(request: web.Request) -> web.Response:
        review = orjson.loads(await request.read())
        response = {"uid": review["request"]["uid"], "allowed": True, **patch}
        answered = {"apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": response}
        return web.Response(body=orjson.dumps(answered), content_type="application/json")

    app = web.Application(client_max_size=8 << 20)
    app.router.add_post("/inject/r0", answer)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(options.tls_cert_file, options.tls_key_file)
    web.run_app(app, host="127.0.0.1", port=options.port, ssl_context=tls, print=None, access_log=None)


if __name__ == "__main__":
    main()
