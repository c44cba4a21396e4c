"""The command line: ``injector COMMAND``, a click group that imports a command when it is used.

It turns flags into calls of the packages below, results into text on stdout, and errors into one line on stderr with
an exit code of ``failures.EXIT_CODES``. It decides nothing about injection. Importing it must stay cheap: ``injector
--help`` answers in 150 ms, so no command's module is loaded for it.
"""

from __future__ import annotations

import injector.cli.hangups  # noqa: F401 -- first, since it handles SIGHUP from then on
from injector.cli.commands import root as main

__all__ = ["main"]
