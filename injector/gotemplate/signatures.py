"""Go function signatures, as text: ``func(string, ...interface {}) (string, error)``."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True, slots=True)
class Signature:
    """The parameter types of a function; ``variadic`` is the type of each further argument, empty where there are none."""

    params: tuple[str, ...]
    variadic: str

    def type_at(self, index: int) -> str:
        """Return the type of the argument at ``index``."""
        return self.params[index] if index < len(self.params) else self.variadic


@cache
def parse_signature(text: str) -> Signature:
    """Read a signature in Go's spelling."""
    depth, begin, types = 0, len("func("), []
    for index in range(len("func("), len(text)):
        char = text[index]
        if char in "([{":
            depth += 1
        elif char in ")]}" and depth > 0:
            depth -= 1
        elif depth == 0 and char in ",)":
            types.append(text[begin:index].strip())
            begin = index + 1
            if char == ")":
                break
    types = [item for item in types if item]
    if types and types[-1].startswith("..."):
        return Signature(tuple(types[:-1]), types[-1].removeprefix("..."))
    return Signature(tuple(types), "")
