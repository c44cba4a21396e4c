"""What flags and URLs say, as values: durations, and pairs of a name and a value."""

from __future__ import annotations

import re
from typing import Final

from injector.errors import UsageError

# Go's time.ParseDuration, as the flags of the old injector are written; without a unit only 0 is a duration.
_PART: Final = r"(?:\d++(?:\.\d*+)?|\.\d++)(?:ns|us|µs|ms|s|m|h)"
_DURATION: Final = re.compile(f"(?:{_PART})+", re.ASCII)
_PARTS: Final = re.compile(_PART, re.ASCII)
_UNITS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_ENV_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


def parse_duration(text: str) -> float:
    """Return the seconds of a Go duration such as ``5s``, ``1m30s`` or ``0``.

    Raises:
        UsageError: it is none, or negative.
    """
    if text == "0":
        return 0.0
    # Whole first: looking for parts takes time in the square of digits without a unit, and URLs have them.
    if not _DURATION.fullmatch(text):
        raise UsageError(f"{text!r} is no duration", hint="write it as 500ms, 5s or 1m30s")
    return sum(float(part.rstrip("nsuµmh")) * _UNITS[part.lstrip("0123456789.")] for part in _PARTS.findall(text))


def key_values(pairs: tuple[str, ...], *, flag: str) -> dict[str, str]:
    """Read repeated ``NAME=VALUE`` arguments; the last of a name wins.

    Raises:
        UsageError: an argument is no such pair.
    """
    parsed: dict[str, str] = {}
    for pair in pairs:
        name, separator, value = pair.partition("=")
        if not separator or not _ENV_NAME.fullmatch(name):
            raise UsageError(f"{pair!r} is not NAME=VALUE", where=flag, hint="write it as ENABLE_NATIVE_SIDECARS=true")
        parsed[name] = value
    return parsed
