"""The revisions that the injector brings along, for when nothing is configured."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from injector.revisions.directory import DirectorySource

EMBEDDED_DEFAULT: Final = "stable"

_PACKAGE: Final = Path(__file__).resolve().parents[1]
# A wheel holds them inside the package; a source tree, and an editable install of it, at its top.
_PLACES: Final = (_PACKAGE / "_revisions", _PACKAGE.parent / "revisions")


def embedded_source() -> DirectorySource:
    """Return the source of the embedded revisions; ``stable`` is its default."""
    place = next((place for place in _PLACES if place.is_dir()), _PLACES[0])
    return DirectorySource(place, default=EMBEDDED_DEFAULT)
