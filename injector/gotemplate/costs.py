"""Costs of function calls: steps and memory, by the size of the arguments.

A function in C, or one that walks its arguments, never looks at the budget. So each call pays beforehand for the longest that it can
take: a step is half a microsecond of a slow machine. A function declares one of these costs, or its own; without one it pays as a
function that walks and copies all of its arguments.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from typing import Final


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of a call, in addition to the few steps of any action.

    Attributes:
        once: steps of any call.
        characters: how many characters of its arguments take a step.
        item: steps of each value inside lists and maps of its arguments, however often they hold it; 0 if it does not look inside.
        deep: whether it looks at what is inside these values too.
        text_bytes: bytes that it uses for a character of its arguments.
        item_bytes: bytes that it uses for each value inside them.
        entry: bytes of an entry of the list or map that it returns; texts in it count beside.
        makes: whether what it returns is new, and no argument or part of one.
    """

    once: int = 0
    characters: int = 16
    item: int = 12
    deep: bool = True
    text_bytes: int = 8
    item_bytes: int = 80
    entry: int = 64
    makes: bool = True


ANY: Final = Cost()
NOTHING: Final = Cost(characters=sys.maxsize, item=0, text_bytes=0, makes=False)
"""Takes the same time for any arguments."""
SCAN: Final = Cost(characters=256, item=0, text_bytes=0)
"""Looks through texts, at the speed of C."""
PASS: Final = replace(SCAN, makes=False)
COPY: Final = Cost(characters=128, item=0, text_bytes=2, entry=8)
"""Copies texts at the speed of C, or the entries of a list or map but not their contents."""
FILTERED: Final = replace(COPY, item=1, deep=False, item_bytes=8)
"""Copies some entries of a list."""
BY_CHARACTER: Final = Cost(characters=2, item=0, text_bytes=80)
"""Takes a text apart in Python."""
WORDS: Final = Cost(characters=1, item=0, text_bytes=96)
PARTS: Final = Cost(characters=16, item=4, deep=False, text_bytes=90, entry=8)
"""Makes a text of each part of a text, of which there may be one for each character."""
NUMBERED: Final = replace(PARTS, text_bytes=240)
NUMBERS: Final = Cost(characters=16, item=0, text_bytes=4)
DURATIONS: Final = replace(NUMBERS, characters=1)
DATES: Final = Cost(once=40, characters=1, item=0, text_bytes=24)
PRINTED: Final = Cost(characters=32, item=0, text_bytes=4)
"""Prints; ``fmt`` counts the values inside the arguments."""
LISTED: Final = Cost(characters=32, item=12, deep=False, text_bytes=4, item_bytes=64)
QUOTED: Final = Cost(characters=1, item=0, text_bytes=12)
JSON: Final = Cost(characters=64, item=16, text_bytes=6, item_bytes=80)
READ_JSON: Final = Cost(characters=1, item=0, text_bytes=32)
YAML: Final = Cost(characters=16, item=60, text_bytes=8, item_bytes=200)
CONTAINERS: Final = Cost(characters=256, item=6, text_bytes=0, item_bytes=0)
HASHED: Final = replace(SCAN, once=60_000)
DERIVED: Final = replace(SCAN, once=90_000)
NEW_KEY: Final = replace(SCAN, once=4_000)
CERTIFICATE: Final = Cost(once=30_000, item=100)
NEW_CERTIFICATE: Final = replace(CERTIFICATE, once=90_000)
