"""The process that fuzzes: libFuzzer on a target whose modules count what they execute, and no others, which would take twice the time.

Its arguments are a target and libFuzzer's own.
"""

from __future__ import annotations

import os
import sys
from typing import NoReturn

import atheris

from tests.fuzz.limit import limited
from tests.fuzz.target import load


def main() -> NoReturn:
    """Fuzz; libFuzzer ends the process."""
    name, *flags = sys.argv[1:]
    with atheris.instrument_imports(include=["injector"], exclude=os.environ.get("FUZZ_UNCOUNTED", "").split()):
        target = load(name)
    # libFuzzer starts itself anew to merge, by the path that it was started by.
    atheris.Setup([os.environ.get("FUZZ_COMMAND", sys.argv[0]), *flags], limited(target.run))
    atheris.Fuzz()
    sys.exit(0)


if __name__ == "__main__":
    main()
