"""The command line: ``injector COMMAND``, a click group that imports a command when it is used.

It turns flags into calls of the packages below, results into text on stdout, and errors into one line on stderr with an exit code of
``commands.EXIT_CODES``. Importing it must stay cheap: ``injector --help`` answers in 150 ms, so it loads no command's module.
"""

from __future__ import annotations

import signal
import sys

if "serve" in sys.argv[1:3]:
    # By default SIGHUP would end a server that is starting. It stays pending until webhook/server.py can handle it. This comes before
    # all other imports, because they take long enough for a signal to arrive.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})

from injector.cli.commands import root as main

__all__ = ["main"]
