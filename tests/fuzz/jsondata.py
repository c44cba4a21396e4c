"""JSON data that an input makes, with what is known to be difficult for readers and writers."""

from __future__ import annotations

from random import Random
from typing import Any

import orjson

WORDS = (
    *("", "a", "name", "yes", "y", "null", "~", "true", "1", "1e3", "0x1f", "017", "1_000", ".inf", "-", "- a"),
    *("a: b", "a #b", "1:30", "2001-01-02", "=", "!a", "&a", "*a", "@a", "`a", "%a", "{a", "[a", "a\nb", "a\n"),
    *("\na", " a", "a ", "\t", "'", '"', "\\", "é☃", "\u0085", "\u2028", "\ufeff", "\x00", "\x7f", "x" * 90),
    *("word " * 30, "a\n\n b\n", "😀", "key", "~1", "/", "?", "? a", "--- a", "9" * 4301),
)
NUMBERS = (
    *(0, 1, -1, 8080, 2**31, 2**53 + 1, 2**63 - 1, -(2**63), 2**64 - 1, 0.5, -2.5, 1e21, 1e-7, 1e308, 5e-324, 1.0),
    *(1e15, 123456789.125),
)
DEEPEST = 5


def json_data(random: Random, depth: int = 0) -> Any:
    """Any JSON data."""
    kind = random.randrange(8 if depth < DEEPEST else 6)
    if kind == 6:
        return [json_data(random, depth + 1) for _ in range(random.randrange(5))]
    if kind == 7:
        return {json_text(random): json_data(random, depth + 1) for _ in range(random.randrange(5))}
    return json_scalar(random) if kind else json_text(random)


def json_scalar(random: Random) -> Any:
    """A text that is known to be difficult, a number, a bool or null."""
    return random.choice((random.choice(WORDS), random.choice(WORDS), random.choice(NUMBERS), True, False, None))


def json_text(random: Random) -> str:
    """A text as JSON holds them: without what is no Unicode, and no merge key, which Go cannot read back either."""
    text = (
        random.randbytes(random.randrange(24)).decode("utf-8", "replace")
        if random.getrandbits(1)
        else random.choice(WORDS)
    )
    return "<" if text == "<<" else text


def sorted_json(document: Any) -> bytes:
    """The JSON of a document, which tells 1 from 1.0 and from true."""
    return orjson.dumps(document, option=orjson.OPT_SORT_KEYS)


def close(left: Any, right: Any) -> bool:
    """Equality, but for the last digit of numbers: Go writes large whole floats as integers, which may not fit one exactly."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(close(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(close, left, right))
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, int | float) and isinstance(right, int | float):
        return float(left) == float(right)
    return bool(left == right)
