"""Go function signatures, as text: ``func(string, ...interface {}) (string, error)``."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

_OPENING = "([{"
_CLOSING = ")]}"


@dataclass(frozen=True, slots=True)
class Signature:
    """The types of a function's parameters and of its first result.

    ``variadic`` is the type of each further argument, empty where there are none.
    """

    params: tuple[str, ...]
    variadic: str
    result: str = ""

    def type_at(self, index: int) -> str:
        """Return the type of the argument at ``index``."""
        return self.params[index] if index < len(self.params) else self.variadic

    def miscount(self, args: int, *, final: bool) -> str:
        """Return what is wrong with the number of arguments, in the words of exec.go's evalCall, or nothing.

        ``final`` says whether the pipeline's stage before adds an argument to the ``args`` of the command.
        """
        count, fixed = args + final, len(self.params)
        if self.variadic:
            return f"want at least {fixed} got {args}" if count < fixed else ""
        return f"want {fixed} got {count}" if count != fixed else ""


@cache
def parse_signature(text: str) -> Signature:
    """Read a signature in Go's spelling."""
    params, end = _types(text, text.index("(") + 1)
    results = text[end:].strip()
    result = results if not results.startswith("(") else next(iter(_types(results, 1)[0]), "")
    if params and params[-1].startswith("..."):
        return Signature(tuple(params[:-1]), params[-1].removeprefix("..."), result)
    return Signature(tuple(params), "", result)


def _types(text: str, begin: int) -> tuple[list[str], int]:
    """Return the types in parentheses that opened before ``begin``, and the index after those that close them."""
    depth, types, index = 0, [], begin
    while text[index] != ")" or depth:
        char = text[index]
        if char == "," and not depth:
            types.append(text[begin:index].strip())
            begin = index + 1
        depth += (char in _OPENING) - (char in _CLOSING)
        index += 1
    types.append(text[begin:index].strip())
    return [item for item in types if item], index + 1
