"""A webhook that records the pods that the API server sends, and allows all."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.webhook.certificates import Order, issue


@dataclass
class Recorder:
    """The pods that were sent, by namespace and name with the paths, and how to call the webhook."""

    url: str
    ca: bytes
    calls: dict[tuple[str, str], list[str]] = field(default_factory=dict)

    def was_called(self, namespace: str, name: str) -> bool:
        """Whether a pod was sent."""
        return (namespace, name) in self.calls


@contextmanager
def recorder(folder: Path) -> Iterator[Recorder]:
    """Serve the webhook on the loopback while the block runs."""
    issued = issue(Order(names=("127.0.0.1",)))
    chain, key = issued.write(folder)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            review: dict[str, Any] = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            request = review["request"]
            named = request["namespace"], request["object"]["metadata"].get("name", "")
            recorded.calls.setdefault(named, []).append(self.path.partition("?")[0])
            answer = {**review, "request": None, "response": {"uid": request["uid"], "allowed": True}}
            body = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 -- the name of the base class
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    recorded = Recorder(f"https://127.0.0.1:{server.server_address[1]}", issued.chain_pem)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield recorded
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
