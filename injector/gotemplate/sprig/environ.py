"""Environment variables in texts (os.Expand), from the mapping that the caller gives."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from injector.gotemplate.budget import spend

if TYPE_CHECKING:
    from collections.abc import Mapping

_PER_STEP: Final = 256
"""Characters among which the end of a name is looked for in a step; each name may be looked for as far as the end of the text."""
_VARIABLE = re.compile(r"\$(?:\{(?P<braced>[^}]*)\}|(?P<special>[*#$@!?\-0-9])|(?P<name>[A-Za-z0-9_]+))", re.ASCII)


@dataclass(frozen=True, slots=True)
class Expander:
    """``expandenv``: replaces ``$NAME`` and ``${NAME}``."""

    environ: Mapping[str, str]

    def expand(self, text: str) -> str:
        """Return a text with its variables replaced, unknown ones by nothing."""
        spend(text.count("${") * len(text) // _PER_STEP)
        return _VARIABLE.sub(self._value, text)

    def _value(self, match: re.Match[str]) -> str:
        return self.environ.get(match["braced"] or match["special"] or match["name"] or "", "")
