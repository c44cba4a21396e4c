"""Plugins of kubeconfigs: commands that print credentials.

https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins

The library would wait for a plugin without a deadline, leave it running if nothing waits for it any more, and log its errors, which may
have secrets.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from injector.errors import ConfigError, DataError
from injector.golang.json import load_json

if TYPE_CHECKING:
    from asyncio.subprocess import Process
    from collections.abc import Mapping

PLUGIN_TIMEOUT: Final = 60.0
"""Seconds. A plugin may ask a person to log in."""
_END_TIMEOUT: Final = 1.0
_MAX_OUTPUT: Final = 1024 * 1024
_SHOWN_LENGTH: Final = 80


class Plugin:
    """The plugin of a user. It has the interface of the library's ``ExecProvider``."""

    def __init__(self, user: Any) -> None:
        config: Mapping[str, Any] = user.value
        command, arguments, variables = config["command"], config.get("args") or [], config.get("env") or []
        self._version: Any = config["apiVersion"]
        self._where = f"the plugin {str(command)[:_SHOWN_LENGTH]}"
        self._command = [str(command), *map(str, arguments)]
        self._environment = {**os.environ, **{str(entry["name"]): str(entry["value"]) for entry in variables}}

    async def run(self) -> Mapping[str, Any]:
        """Return the credentials.

        Raises:
            ConfigError: the plugin does not start, fails, does not end, or prints no credentials. Its output is not quoted.
        """
        # As with kubectl, a plugin can talk to a person at a terminal. Elsewhere its errors could only go to the log.
        at_terminal = sys.stdin.isatty()
        info = {"apiVersion": self._version, "kind": "ExecCredential", "spec": {"interactive": at_terminal}}
        starting = asyncio.create_task(
            asyncio.create_subprocess_exec(
                *self._command,
                env={**self._environment, "KUBERNETES_EXEC_INFO": json.dumps(info)},
                stdin=None if at_terminal else DEVNULL,
                stdout=PIPE,
                stderr=None if at_terminal else DEVNULL,
                start_new_session=not at_terminal,  # at a terminal, another session could not read from it
            )
        )
        try:
            async with asyncio.timeout(PLUGIN_TIMEOUT):
                # If it were cancelled while it starts, asyncio would not end its children.
                process = await asyncio.shield(starting)
                output = await self._output(process)
        except TimeoutError as error:
            await _kill(await starting, with_group=not at_terminal)
            raise self._fault(f"does not end within {PLUGIN_TIMEOUT:g} s") from error
        except OSError as error:
            raise self._fault(f"cannot be started: {error.strerror}") from error
        except BaseException:
            await _kill(await starting, with_group=not at_terminal)
            raise
        return self._credentials(output)

    async def _output(self, process: Process) -> bytes:
        output = bytearray()
        while process.stdout is not None and (piece := await process.stdout.read(_MAX_OUTPUT)):
            output += piece
            if len(output) > _MAX_OUTPUT:
                raise self._fault(f"prints more than {_MAX_OUTPUT >> 20} MiB")
        code = await process.wait()
        if code:
            raise self._fault(f"fails (exit code {code})")
        return bytes(output)

    def _credentials(self, output: bytes) -> Mapping[str, Any]:
        try:
            credential = load_json(output)
        except DataError:
            raise self._fault("does not print JSON") from None  # the error quotes it
        status = credential.get("status") if isinstance(credential, dict) else None
        if not isinstance(status, dict) or credential.get("apiVersion") != self._version:
            raise self._fault("does not print credentials of the apiVersion of the kubeconfig")
        if not status.get("token") and not (status.get("clientCertificateData") and status.get("clientKeyData")):
            raise self._fault("prints neither a token nor a certificate with its key")
        return status

    def _fault(self, what: str) -> ConfigError:
        return ConfigError(what, where=self._where, hint="run it alone")


async def _kill(process: Process, *, with_group: bool) -> None:
    """End a plugin; ``with_group`` with the processes that it has started."""
    with suppress(ProcessLookupError):
        if with_group:
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    with suppress(TimeoutError):
        async with asyncio.timeout(_END_TIMEOUT):
            # Its end closes the pipe. The plugin itself may have ended before its children, which had the pipe too.
            while process.stdout is not None and await process.stdout.read(_MAX_OUTPUT):
                pass
            await process.wait()
