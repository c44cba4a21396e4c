"""The command line: ``injector COMMAND``, a click group that imports a command when it is used.

It turns flags into calls of the packages below, results into text on stdout, and errors into one line on stderr with an exit code of
``commands.EXIT_CODES``. Importing it must stay cheap: ``injector --help`` answers in 150 ms, so it loads no command's module.

- ``commands``: the root command, and how errors are printed.
- ``analyze``, ``diff``, ``explain``, ``kube_inject``, ``krm``, ``revision``, ``serve``, ``tag``, ``template``, ``uninstall``, ``upgrade``,
  ``version``, ``webhook``: one module for each command; ``serve`` is a package, which connects the parts of the server.
- ``options``, ``sources``, ``revisionoptions``, ``taglocation``, ``webhookoptions``, ``istiodoptions``, ``keys``:
  flags that several commands share.
- ``manifests``, ``output``, ``formats``, ``upgradetext``: files in, text out.
"""

from __future__ import annotations

import gc
import os
import signal
import sys

from injector.cli.commands import arguments_of, serves

if serves(sys.argv):
    # By default SIGHUP would end a server that is starting, and SIGTERM would be lost if it is the first process of a container. Both stay
    # pending until webhook/server.py can handle them. This comes before all other imports, because they take long enough for a signal to
    # arrive.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP, signal.SIGTERM})

from injector.cli.commands import complete_output, completions
from injector.cli.commands import root as main
from injector.cli.output import KUBECTL

# If a program is started with a closed stream (`<&-`), Python sets the stream to None. The null device takes its place.
sys.stdin = sys.stdin or open(os.devnull)  # noqa: SIM115, PTH123 -- until the process ends, and --help needs no pathlib
sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115, PTH123
sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115, PTH123

# Commands are short and make many objects but few cycles: kube-inject of 1,000 workloads collects for 0.1 s instead of 0.4 s. A server
# sets it back when it has started (cli/serve/server.py): with 304 revisions it collects for 0.1 s until then instead of 0.4 s.
gc.set_threshold(10_000)

__all__ = ["complete_for_kubectl", "kubectl_injector", "main", "sidecar_injector"]


def sidecar_injector() -> None:
    """Run the command ``sidecar-injector``."""
    main(arguments_of(sys.argv[1:]), prog_name="injector")


def kubectl_injector() -> None:
    """Run the command ``kubectl-injector``, which kubectl runs for ``kubectl injector``."""
    main(prog_name=KUBECTL)


def complete_for_kubectl() -> None:
    """Run the command ``kubectl_complete-injector``, which kubectl runs to complete ``kubectl injector``."""
    with complete_output():
        completions(sys.argv[1:])
