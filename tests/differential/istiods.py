"""A running istiod, asked about pods as the API server asks it."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import ssl
import uuid
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from injector.istio.webhooks.paths import PATH_PREFIX
from tests.differential.injectors import NAMESPACE, REFUSED, SKIPPED, Answer, Case, alike, injected

TIMEOUT = 10.0
DROPPED: Answer = {**REFUSED, "why": "istiod dropped the connection"}
"""The handler of a Go server that panics does that."""
VERSION = re.compile(r"(?P<release>\S+)-(?P<commit>[0-9a-f]{40})-\w+")


class NoAnswerError(Exception):
    """Istiod could not be asked, or what came is not an answer to the review."""


@dataclass(frozen=True)
class Address:
    """Where an istiod listens, such as ``https://127.0.0.1:15017/inject``.

    ``ca`` is a file with the certificates that are trusted; without one, and with ``insecure``, no certificate is checked.
    """

    url: str
    ca: Path | None = None
    insecure: bool = False
    timeout: float = TIMEOUT

    def ssl(self) -> ssl.SSLContext | bool:
        """Return what aiohttp checks certificates with."""
        return ssl.create_default_context(cafile=self.ca) if self.ca else not self.insecure


class Istiod:
    """Asks one istiod."""

    def __init__(self, session: aiohttp.ClientSession, address: Address) -> None:
        self._session = session
        self._address = address

    @classmethod
    @asynccontextmanager
    async def at(cls, address: Address) -> AsyncGenerator[Istiod]:
        """Open connections to an istiod."""
        connector = aiohttp.TCPConnector(ssl=address.ssl())
        timeout = aiohttp.ClientTimeout(total=address.timeout)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
            yield cls(session, address)

    async def answer(self, case: Case) -> Answer:
        """Return what Istio makes of a pod: the injected pod, or that it skips or refuses it. Raises NoAnswerError."""
        uid = str(uuid.uuid4())
        request = {
            "uid": uid,
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "operation": "CREATE",
            "namespace": NAMESPACE,
            "object": case.pod,
        }
        review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
        url = self._address.url.removesuffix("/") + case.path.removeprefix(PATH_PREFIX)
        try:
            text = await self._post(url, review)
        except aiohttp.ServerDisconnectedError:
            # The server may have closed the connection for its age, so one more is asked.
            try:
                text = await self._post(url, review)
            except aiohttp.ServerDisconnectedError:
                return DROPPED
        return _answer(case, uid, text, url)

    async def _post(self, url: str, review: dict[str, Any]) -> str:
        try:
            async with self._session.post(url, json=review) as response:
                text = await response.text()
                if response.status != 200:
                    raise NoAnswerError(f"{url}: HTTP status {response.status}: {text[:200].strip()}")
                return text
        except TimeoutError:
            raise NoAnswerError(f"{url}: no answer within {self._address.timeout:g} s") from None
        except aiohttp.ServerDisconnectedError:
            raise
        except aiohttp.ClientError as error:
            raise NoAnswerError(f"{url}: {error}") from error

    async def version(self, url: str) -> tuple[str, str]:
        """Return the release and the commit that istiod's page ``/version`` names, on its port for monitoring. Raises NoAnswerError."""
        try:
            async with self._session.get(url) as response:
                text = (await response.text()).strip()
        except (aiohttp.ClientError, TimeoutError) as error:
            raise NoAnswerError(f"{url}: {error}") from error
        match = VERSION.fullmatch(text)
        if match is None:
            raise NoAnswerError(
                f"{url}: {text[:80]!r} is not RELEASE-COMMIT-STATUS; name both by --release and --commit"
            )
        return match["release"], match["commit"]


def _answer(case: Case, uid: str, text: str, url: str) -> Answer:
    try:
        response = json.loads(text)["response"]
        if response["uid"] != uid:
            raise NoAnswerError(f"{url}: the answer is to another review, {response['uid']!r}")
        if not response["allowed"]:
            return {**REFUSED, "why": (response.get("status") or {}).get("message", "")}
        return injected(case.pod, json.loads(base64.b64decode(response["patch"]))) if "patch" in response else SKIPPED
    except (ValueError, KeyError, TypeError) as error:
        raise NoAnswerError(f"{url}: the answer is not an AdmissionReview: {text[:200].strip()}") from error


async def answers(istiod: Istiod, cases: list[Case], runs: int = 1) -> list[Answer | None]:
    """Return the answers to cases, asked ``runs`` times; None if they were not always the same: Go walks maps in random order."""
    results: list[Answer | None] = []
    for case in cases:
        first, *others = [await istiod.answer(case) for _ in range(runs)]
        results.append(first if all(alike(other, first) for other in others) else None)
    return results


def ask(address: Address, cases: list[Case], runs: int = 1) -> list[Answer | None]:
    """Open connections to an istiod, and return its answers to cases."""

    async def replies() -> list[Answer | None]:
        async with Istiod.at(address) as istiod:
            return await answers(istiod, cases, runs)

    return asyncio.run(replies())
