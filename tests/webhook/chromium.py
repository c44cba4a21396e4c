"""A headless Chromium, told what to do by its DevTools protocol over a websocket."""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import re
import shutil
import subprocess
import tempfile
import time
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Final

import aiohttp

EXECUTABLE: Final = shutil.which("chromium")
LIMIT: Final = 60.0
"""Seconds for the browser to start, and for each answer: a small machine that does much else takes some."""
_FLAGS: Final = ("--headless=new", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--no-first-run")
# The page is the project's own, and a container's root may not start the sandbox.
_NO_SANDBOX: Final = "--no-sandbox"
_LAST_EVENTS: Final = 1000
"""Events that are kept until the next page is opened."""
_LISTENS: Final = re.compile(rb"DevTools listening on (ws://\S+)\s")


class Page:
    """One tab."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self._session: str | None = None
        self._events: deque[dict[str, Any]] = deque(maxlen=_LAST_EVENTS)

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Call a method of the protocol, and return its result."""
        number = next(self._numbers)
        session = {"sessionId": self._session} if self._session else {}
        await self._socket.send_json({"id": number, "method": method, "params": params, **session})
        async with asyncio.timeout(LIMIT):
            while (answer := await self._socket.receive_json()).get("id") != number:
                self._events.append(answer)
        assert "error" not in answer, (method, answer["error"])
        result: dict[str, Any] = answer["result"]
        return result

    async def attach(self) -> None:
        """Open the tab, in a context of its own."""
        context = await self.call("Target.createBrowserContext", disposeOnDetach=True)
        target = await self.call("Target.createTarget", url="about:blank", browserContextId=context["browserContextId"])
        attached = await self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Log", "Runtime"):
            await self.call(f"{domain}.enable")

    async def open(self, url: str, *, width: int = 1280, scheme: str = "light") -> None:
        """Open an address in a window so wide, in a light or a dark scheme, and wait until it is loaded."""
        await self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False
        )
        await self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        await self.value("window.isBefore = true")
        self._events.clear()
        await self.call("Page.navigate", url=url)
        # An event may still be the empty page's.
        await self._loaded()
        while await self.value("window.isBefore ?? false"):
            await self._loaded()

    async def _loaded(self) -> None:
        async with asyncio.timeout(LIMIT):
            while not any(event.get("method") == "Page.loadEventFired" for event in self._events):
                self._events.append(await self._socket.receive_json())
        self._events = deque(
            (event for event in self._events if event.get("method") != "Page.loadEventFired"), maxlen=_LAST_EVENTS
        )

    async def value(self, expression: str) -> Any:
        """Return what an expression of JavaScript comes to, as JSON data."""
        result = await self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    async def press(self, key: str) -> None:
        """Press a key that types nothing, such as Tab."""
        code = {"Tab": 9, "Enter": 13}[key]
        for event in ("rawKeyDown", "keyUp"):
            await self.call("Input.dispatchKeyEvent", type=event, key=key, code=key, windowsVirtualKeyCode=code)

    async def complaints(self) -> list[str]:
        """Return what the browser logged of the page, as violations of its policy and scripts that failed."""
        await self.value("1")
        return [event["params"]["entry"]["text"] for event in self._events if event.get("method") == "Log.entryAdded"]

    async def screenshot(self, *, before: str) -> bytes:
        """Return the part of the page above the first element of the selector ``before`` as PNG."""
        top = f"document.querySelector({json.dumps(before)}).getBoundingClientRect().top"
        width, height = await self.value(f"[innerWidth, {top}]")
        clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        picture = await self.call("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
        return base64.b64decode(picture["data"])


@contextmanager
def browser() -> Iterator[str]:
    """Run a browser whose profile is gone afterwards, and yield the address of its protocol."""
    assert EXECUTABLE is not None
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        flags = (*_FLAGS, _NO_SANDBOX, f"--user-data-dir={profile}", "--remote-debugging-port=0")
        log = Path(profile) / "stderr"
        with log.open("wb") as written:
            process = subprocess.Popen([EXECUTABLE, *flags], stderr=written)
        try:
            yield _address(process, log)
        finally:
            process.terminate()
            process.wait(LIMIT)


@asynccontextmanager
async def tab(address: str) -> AsyncIterator[Page]:
    """Open a tab of a running browser that shares no cookies, cache or storage with other tabs."""
    async with aiohttp.ClientSession() as session, session.ws_connect(address, max_msg_size=0) as socket:
        page = Page(socket)
        await page.attach()
        yield page


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    """Return where the browser listens, once it does."""
    deadline = time.monotonic() + LIMIT
    while time.monotonic() < deadline and process.poll() is None:
        if match := _LISTENS.search(log.read_bytes()):
            return match[1].decode()
        time.sleep(0.05)
    raise AssertionError(log.read_text(errors="replace"))
