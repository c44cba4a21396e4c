"""Package encoding/base64 (Go 1.26)."""

from __future__ import annotations

import base64
import re
from typing import Final

_BASE64 = re.compile("[A-Za-z0-9+/]*={0,2}")
_GROUP: Final = 4


def decode_string(text: str) -> bytes | None:
    """Return the bytes of a text in base 64, in which line breaks do not count; None if it is not base 64 (StdEncoding.DecodeString)."""
    clean = text.replace("\n", "").replace("\r", "")
    return base64.b64decode(clean) if len(clean) % _GROUP == 0 and _BASE64.fullmatch(clean) else None
