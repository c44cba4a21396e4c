"""JSON in and out."""

from __future__ import annotations

from typing import Any, Final

import orjson

from injector.errors import DataError, ManifestError

MAX_LEVELS: Final = 254
"""The levels of objects and lists that orjson writes."""


def load_json(text: str | bytes | memoryview, *, where: str = "") -> Any:
    """Return JSON data; integers beyond 64 bits are floats, as encoding/json has them.

    Raises:
        ManifestError: it is not JSON (which excludes NaN, lone surrogates and nesting beyond 1,024 levels).
    """
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        what = f"json: line {error.lineno}: {error.msg}"
        raise ManifestError(what, where=where, hint="correct the JSON") from error


def dump_json(value: Any) -> bytes:
    """Return compact JSON in UTF-8, keys in the order they have.

    Raises:
        DataError: it is not JSON data, or is nested beyond ``MAX_LEVELS``.
    """
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError as error:
        raise DataError(f"json: {error}", hint="give JSON data") from error
