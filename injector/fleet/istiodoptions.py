"""How commands name a running istiod, and where it is asked. This module does not load the client of the API server, see ``istiod``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

ISTIOD: Final = "istiod/"
"""Before the name of a revision or tag: the istiod that its webhook calls."""
REVIEW_TIMEOUT: Final = 10.0
"""Seconds for one answer, as long as the API server waits for a webhook by default."""


@dataclass(frozen=True, slots=True)
class IstiodOptions:
    """Where an istiod is asked, if not where its webhook leads: at a URL, whose certificate is checked with a file of CA certificates."""

    url: str | None = None
    ca: Path | None = None
    timeout: float = REVIEW_TIMEOUT
