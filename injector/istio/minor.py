"""Istio's minor versions: the unit in which behaviour is told apart."""

from __future__ import annotations

import re
from typing import Final, TypeAlias

from injector.errors import ConfigError

Minor: TypeAlias = tuple[int, int]

OLDEST: Final[Minor] = (1, 0)
NEWEST: Final[Minor] = (1, 30)

_VERSION = re.compile(r"v?(\d{1,3})\.(\d{1,3})(?:[.\-+].*)?", re.ASCII)


def parse_minor(text: str, *, where: str = "istioVersion") -> Minor:
    """Return the minor of a version such as ``1.24``, ``v1.24.6`` or ``1.24-alpha.0``.

    Raises:
        ConfigError: the text is no version, or a minor that no ConfigMap format is known for.
    """
    match = _VERSION.fullmatch(text.strip())
    if match is None:
        raise ConfigError(f"{text!r} is not an Istio version", where=where, hint="write it as 1.24")
    minor = (int(match[1]), int(match[2]))
    if not OLDEST <= minor <= NEWEST:
        raise ConfigError(
            f"Istio {format_minor(minor)} is not known",
            where=where,
            hint=f"known are {format_minor(OLDEST)} to {format_minor(NEWEST)}",
        )
    return minor


def format_minor(minor: Minor) -> str:
    """Return ``1.24`` for ``(1, 24)``."""
    return f"{minor[0]}.{minor[1]}"
