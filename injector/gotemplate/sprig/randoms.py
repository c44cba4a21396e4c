"""Random values and environment variables (sprig's strings.go, numeric.go and crypto.go; os.Expand), by sources that the caller gives."""

from __future__ import annotations

import base64
import re
import string
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from injector.gotemplate import costs
from injector.gotemplate.budget import check_size, spend
from injector.gotemplate.errors import FuncError
from injector.gotemplate.functions import FuncMap

if TYPE_CHECKING:
    from collections.abc import Mapping, MutableSequence
    from typing import Any

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


_CHOICE: Final = 4
"""Steps of a random choice."""
_ASCII: Final = "".join(chr(code) for code in range(32, 127))


class Source(Protocol):
    """A source of randomness, such as random.SystemRandom."""

    def randrange(self, start: int, stop: int, /) -> int:
        """Return an integer of a range."""

    def randbytes(self, n: int, /) -> bytes:
        """Return random bytes."""

    def shuffle(self, x: MutableSequence[Any], /) -> None:
        """Put a list into random order."""


@dataclass(frozen=True, slots=True)
class Randoms:
    """The functions that are random."""

    source: Source

    def _text(self, count: int, alphabet: str) -> str:
        if count < 0:
            return ""
        check_size(count, "random text")
        spend(_CHOICE * count)
        # Each byte stands for a character, but for those at the end that would make some likelier than others.
        even = 256 - 256 % len(alphabet)
        letters = bytes(ord(alphabet[byte % len(alphabet)]) for byte in range(256))
        found = b""
        while len(found) < count:
            found += self.source.randbytes(2 * (count - len(found))).translate(letters, bytes(range(even, 256)))
        return found[:count].decode("ascii")

    def alpha_num(self, count: int) -> str:
        """Return random letters and digits."""
        return self._text(count, string.ascii_letters + string.digits)

    def alpha(self, count: int) -> str:
        """Return random letters."""
        return self._text(count, string.ascii_letters)

    def ascii(self, count: int) -> str:
        """Return random printable characters."""
        return self._text(count, _ASCII)

    def numeric(self, count: int) -> str:
        """Return random digits."""
        return self._text(count, string.digits)

    def integer(self, low: int, high: int) -> int:
        """Return a random integer from ``low`` on, below ``high``."""
        if high <= low:
            raise FuncError("invalid argument to Intn")
        return self.source.randrange(low, high)

    def raw(self, count: int) -> str:
        """Return random bytes in base 64."""
        if count < 0:
            raise FuncError("runtime error: makeslice: len out of range")
        check_size(count, "random bytes")
        return base64.b64encode(self.source.randbytes(count)).decode()

    def uuid(self) -> str:
        """Return a random UUID."""
        return str(uuid.UUID(bytes=self.source.randbytes(16), version=4))

    def shuffle(self, text: str) -> str:
        """Return a text's characters in random order."""
        spend(_CHOICE * len(text))
        characters = list(text)
        self.source.shuffle(characters)
        return "".join(characters)


def random_functions(source: Source) -> FuncMap:
    """Return the functions that are random, less those of cryptography."""
    randoms, functions = Randoms(source), FuncMap()
    for signature, cost, call, name in (
        ("func(int) string", costs.COPY, randoms.alpha_num, "randAlphaNum"),
        ("func(int) string", costs.COPY, randoms.alpha, "randAlpha"),
        ("func(int) string", costs.COPY, randoms.ascii, "randAscii"),
        ("func(int) string", costs.COPY, randoms.numeric, "randNumeric"),
        ("func(int, int) int", costs.SCAN, randoms.integer, "randInt"),
        ("func(int) (string, error)", costs.COPY, randoms.raw, "randBytes"),
        ("func() string", costs.SCAN, randoms.uuid, "uuidv4"),
        ("func(string) string", costs.QUOTED, randoms.shuffle, "shuffle"),
    ):
        functions.define(signature, name, cost=cost, hermetic=False)(call)
    return functions


def environment_functions(environ: Mapping[str, str]) -> FuncMap:
    """Return ``env`` and ``expandenv``."""
    functions = FuncMap()
    define = functions.define
    define("func(string) string", "env", cost=costs.NOTHING, hermetic=False)(lambda name: environ.get(name, ""))
    define("func(string) string", "expandenv", cost=costs.BY_CHARACTER, hermetic=False)(Expander(environ).expand)
    return functions
