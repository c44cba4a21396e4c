"""Webhooks that stand for the injector of an istiod: what they answer, in memory or behind a port."""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, TypeAlias

from injector.errors import DataError
from injector.injection.pipeline import inject_pod
from injector.injection.result import OFF, Injected, RequestFacts
from injector.istio.revision import Revision
from injector.revisions.names import parse_path

Review: TypeAlias = Mapping[str, Any]
Answering: TypeAlias = Callable[[str, Review], bytes]
"""Returns the body of the answer to a review at a path."""


def answer(review: Review, **response: Any) -> bytes:
    """Return the body of an answer that allows the pod; keywords are more fields of the response."""
    response = {"uid": review["request"]["uid"], "allowed": True, **response}
    return json.dumps({"kind": "AdmissionReview", "apiVersion": review["apiVersion"], "response": response}).encode()


def patching(review: Review, operations: Any, **response: Any) -> bytes:
    """Return the body of an answer with a patch."""
    patch = base64.b64encode(json.dumps(operations).encode()).decode()
    return answer(review, **{"patchType": "JSONPatch", "patch": patch, **response})


def refusing(review: Review, message: str) -> bytes:
    """Return the body of an answer that refuses the pod."""
    return answer(review, allowed=False, status={"message": message})


def injecting(revision: Revision) -> Answering:
    """Return what answers as Istio does with the ConfigMaps of a revision: without the guard, and also with a pod that is not valid."""

    def answers(path: str, review: Review) -> bytes:
        request = review["request"]
        facts = RequestFacts(request["namespace"], parse_path(path).envs, guard=OFF, deny_invalid=False)
        try:
            result = inject_pod(revision, request["object"], facts)
        except DataError as error:
            return refusing(review, str(error))
        return patching(review, result.patch) if isinstance(result, Injected) else answer(review)

    return answers


def replacing_image(answering: Answering, image: str) -> Answering:
    """Return what answers the same with another image of the proxy."""

    def answers(path: str, review: Review) -> bytes:
        patch = base64.b64decode(json.loads(answering(path, review))["response"]["patch"]).decode()
        return patching(review, json.loads(patch.replace("proxy:1.30.1", image)))

    return answers


class Slow:
    """Answers after some time."""

    def __init__(self, answering: Answering, seconds: float) -> None:
        self._answering, self._seconds = answering, seconds

    def __call__(self, path: str, review: Review) -> bytes:
        time.sleep(self._seconds)
        return self._answering(path, review)


@contextmanager
def serving(
    answering: Answering, certificate: tuple[Path, Path] | None = None, *, host: str = "127.0.0.1"
) -> Iterator[tuple[str, list[tuple[str, Review]]]]:
    """Serve while the block runs. Yield the address without a path, and the list of the paths and reviews that come.

    An empty body closes the connection without an answer, and one that begins with ``HTTP `` has the status.
    """
    received: list[tuple[str, Review]] = []

    class Webhook(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            received.append((self.path, review))
            body, status = answering(self.path, review), 200
            if not body:
                self.close_connection = True
                return
            if body.startswith(b"HTTP "):
                status = int(body.split()[1])
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            try:
                self.wfile.write(body)
            except OSError:  # the caller no longer waits
                self.close_connection = True

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 -- the name in the library
            del format, args

    with ThreadingHTTPServer((host, 0), Webhook) as server:
        server.daemon_threads = True
        if certificate is not None:
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            context.load_cert_chain(*certificate)
            server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        scheme = "http" if certificate is None else "https"
        try:
            yield f"{scheme}://{host}:{server.server_address[1]}", received
        finally:
            server.shutdown()
            thread.join()
