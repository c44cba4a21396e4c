"""Compiles the Python text of a template in a process beside this one.

Python's compiler lets no other thread run: 20 to 40 ms for the largest template of Istio 1.30, in which no request
would be answered. A process beside takes as long again to start, on another core.
"""

from __future__ import annotations

import marshal
import subprocess
import sys
from types import CodeType
from typing import Final

from injector.gotemplate.source import to_code

MIN_TEXT: Final = 10_000
"""Characters below which a text is compiled here: that takes 2 ms at most."""

LIMIT: Final = 20.0
"""Seconds after which a process that does not answer is given up."""

_PROGRAM: Final = """\
import marshal, sys
filename, _, text = sys.stdin.buffer.read().partition(b"\\0")
marshal.dump(compile(text.decode(), filename.decode(), "exec"), sys.stdout.buffer)
"""


def compiled_apart(text: str, filename: str) -> CodeType:
    """Return the code of ``text``; where no process beside can be had, it is compiled here."""
    if len(text) < MIN_TEXT:
        return to_code(text, filename)
    try:
        done = subprocess.run(  # noqa: S603 -- this interpreter, isolated, with a program of ours
            [sys.executable, "-I", "-S", "-c", _PROGRAM],
            input=f"{filename}\0{text}".encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=LIMIT,
            check=True,
        )
        code = marshal.loads(done.stdout)  # noqa: S302 -- what our own program wrote
    except (OSError, subprocess.SubprocessError, ValueError, EOFError, TypeError):
        return to_code(text, filename)
    return code if isinstance(code, CodeType) else to_code(text, filename)
