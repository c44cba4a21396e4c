"""Random values and environment variables (sprig's strings.go, numeric.go and crypto.go; os.Expand), by sources that the caller gives."""

from __future__ import annotations

import base64
import re
import string
import uuid
from collections.abc import Mapping, MutableSequence
from functools import partial
from typing import Any, Final, Protocol

from injector.gotemplate import costs
from injector.gotemplate.budget import check_size, spend
from injector.gotemplate.errors import FuncError
from injector.gotemplate.functions import FuncMap

RANDOM: Final = FuncMap()
"""Functions whose first argument is a source of randomness, less those of cryptography."""
ENVIRONMENT: Final = FuncMap()
"""Functions whose first argument is a mapping of environment variables."""

_PER_STEP: Final = 256
"""Characters among which the end of a name is looked for in a step; each name may be looked for as far as the end of the text."""
_VARIABLE = re.compile(r"\$(?:\{(?P<braced>[^}]*)\}|(?P<special>[*#$@!?\-0-9])|(?P<name>[A-Za-z0-9_]+))", re.ASCII)
_CHOICE: Final = 4
"""Steps of a random choice."""


class RandomSource(Protocol):
    """A source of randomness, such as random.SystemRandom."""

    def randrange(self, start: int, stop: int, /) -> int:
        """Return an integer of a range."""

    def randbytes(self, n: int, /) -> bytes:
        """Return random bytes."""

    def shuffle(self, x: MutableSequence[Any], /) -> None:
        """Put a list into random order."""


@ENVIRONMENT.define("func(string) string", "env", cost=costs.NOTHING)
def env(environ: Mapping[str, str], name: str) -> str:
    """Return a variable, empty if it is not set."""
    return environ.get(name, "")


@ENVIRONMENT.define("func(string) string", "expandenv", cost=costs.BY_CHARACTER)
def expandenv(environ: Mapping[str, str], text: str) -> str:
    """Return a text with ``$NAME`` and ``${NAME}`` replaced, unknown ones by nothing."""
    spend(text.count("${") * len(text) // _PER_STEP)
    return _VARIABLE.sub(
        lambda match: environ.get(match["braced"] or match["special"] or match["name"] or "", ""), text
    )


def _text(source: RandomSource, count: int, alphabet: str) -> str:
    if count < 0:
        return ""
    check_size(count, "random text")
    spend(_CHOICE * count)
    # Each byte stands for a character, except those at the end, which would make some characters likelier than others.
    even = 256 - 256 % len(alphabet)
    letters = bytes(ord(alphabet[byte % len(alphabet)]) for byte in range(256))
    found = b""
    while len(found) < count:
        found += source.randbytes(2 * (count - len(found))).translate(letters, bytes(range(even, 256)))
    return found[:count].decode("ascii")


for _name, _alphabet in (
    ("randAlphaNum", string.ascii_letters + string.digits),
    ("randAlpha", string.ascii_letters),
    ("randAscii", "".join(map(chr, range(32, 127)))),
    ("randNumeric", string.digits),
):
    RANDOM.define("func(int) string", _name, cost=costs.COPY)(partial(_text, alphabet=_alphabet))


@RANDOM.define("func(int, int) int", "randInt", cost=costs.SCAN)
def integer(source: RandomSource, low: int, high: int) -> int:
    """Return a random integer from ``low`` on, below ``high``."""
    if high <= low:
        raise FuncError("invalid argument to Intn")
    return source.randrange(low, high)


@RANDOM.define("func(int) (string, error)", "randBytes", cost=costs.COPY)
def rand_bytes(source: RandomSource, count: int) -> str:
    """Return random bytes in base 64."""
    if count < 0:
        raise FuncError("runtime error: makeslice: len out of range")
    check_size(count, "random bytes")
    return base64.b64encode(source.randbytes(count)).decode()


@RANDOM.define("func() string", "uuidv4", cost=costs.SCAN)
def uuidv4(source: RandomSource) -> str:
    """Return a random UUID."""
    return str(uuid.UUID(bytes=source.randbytes(16), version=4))


@RANDOM.define("func(string) string", "shuffle", cost=costs.QUOTED)
def shuffle(source: RandomSource, text: str) -> str:
    """Return a text's characters in random order."""
    spend(_CHOICE * len(text))
    characters = list(text)
    source.shuffle(characters)
    return "".join(characters)
