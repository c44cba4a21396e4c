"""Texts of a pod that could break out of the YAML that a template pastes them into, and harmless ones in their place.

What ends a scalar of YAML, or begins something else than a plain one: YAML 1.2, chapters 5.2 to 5.4 (characters, indicators, line breaks)
and 7.3.3 (plain style). A harmless text keeps all other characters, so that a template does with it what it does with the real one.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from injector.gotemplate.values import Map, Slice

if TYPE_CHECKING:
    from collections.abc import Callable

# Quotes, the escape of double quotes, flow collections, and what is no printable text: line breaks, those of YAML 1.1 too, and the rest.
_BREAKING_CHARACTERS: Final = "\u2028\u2029\ufeff\"'\\\\{}\\[\\]"
_BREAKING: Final = rf"\x00-\x1f\x7f-\x9f{_BREAKING_CHARACTERS}"
# Anchors, aliases, tags, block scalars, directives, reserved ones, comments.
_LEADING: Final = "#&!|>%@`*"
# A colon ends a key before a space and, in flow collections, before what ends the value; so it does where the template goes on so.
_KEY_END: Final = r":(?=[\s,\[\]{}]|\Z)"
_SUSPICIOUS: Final = re.compile(
    rf"[{_BREAKING}]|{_KEY_END}|\s#|\A(?:[{_LEADING},](?<!\*)|\*(?!\Z)|\s|[-?:](?=\s|\Z)|---|\.\.\.)|\s\Z"
)
# The same for texts between zeros, in two looks that are fast where there is nothing to find.
_SPECIAL: Final = re.compile(rf"[\x01-\x1f\s\x7f-\x9f{_BREAKING_CHARACTERS}{_LEADING}]|:(?=[,\0])")
_AT_AN_END: Final = re.compile(r"\0(?:[-?:]\0|,.|---|\.\.\.)")
_REPLACED: Final = re.compile(rf"[{_BREAKING}{_LEADING}]|{_KEY_END}|\A[-?:,.]+")
_FILLER: Final = "x"
# What a function of a template or YAML writes for a character: JSON's and YAML's escapes, and those of URLs.
_ESCAPES: Final = re.compile(r"\\(?:u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|.)|%[0-9a-fA-F]{2}", re.DOTALL)
_DISTINCT: Final = re.compile(r"[a-wyzA-Z0-9]+", re.ASCII)


def suspicious(text: str) -> bool:
    """Return whether a text could end the scalar that it is pasted into, or begin another one. A ``*`` alone is no alias of anything."""
    return _SUSPICIOUS.search(text) is not None


def none_suspicious(texts: list[str]) -> bool:
    """Return whether none of the texts is suspicious, fast where that is plain to see; False where one would have to look at each."""
    joined = "\0".join(["", *texts, ""])
    return not (_SPECIAL.search(joined) or _AT_AN_END.search(joined)) and joined.count("\0") == len(texts) + 1


def harmless(text: str) -> str:
    """Return the text with a letter for each character that makes it suspicious, and without spaces around it; never empty."""
    return _REPLACED.sub(_FILLER, text.strip()) or _FILLER


def alike(real: str, meant: str) -> bool:
    """Return whether two texts differ in nothing but what ``harmless`` replaces, wherever in them it was pasted, and however escaped."""
    return real == meant or _rest(real) == _rest(meant)


def _rest(text: str) -> str:
    return "".join(_DISTINCT.findall(_ESCAPES.sub("", text)))


# A DNS-1123 label that begins with a letter and that YAML takes for nothing but a text.
_INERT: Final = re.compile(r"[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
_WORDS: Final = frozenset({"false", "inf", "n", "nan", "no", "null", "off", "on", "true", "y", "yes"})


def inert(value: Any) -> bool:
    """Return whether a value is a plain name, which is the same text in every context that it is printed in."""
    return type(value) is str and _INERT.fullmatch(value) is not None and value not in _WORDS


class Harmless(str):
    """A harmless text that knows the real one, for functions that decode it or decide by it."""

    __slots__ = ("real",)
    real: str
    go_type: Final = "string"

    @classmethod
    def of(cls, real: str, text: str | None = None) -> Harmless:
        """Return a harmless text for a real one: ``text``, or what is made of it."""
        found = cls(harmless(real) if text is None else text)
        found.real = real
        return found


def tamed(value: Any) -> Any:
    """Return data with a harmless text in place of each suspicious one, keys included."""
    if isinstance(value, str):
        return Harmless.of(value) if suspicious(value) else value
    if isinstance(value, dict):
        return like(value, {_tamed_key(key): tamed(item) for key, item in value.items()})
    return like(value, map(tamed, value)) if isinstance(value, list) else value


def _tamed_key(key: Any) -> Any:
    return harmless(key) if isinstance(key, str) and suspicious(key) else key


def decoded(text: str, decode: Callable[[str], Any]) -> Any:
    """Return what ``decode`` makes of a text; of a harmless one what it makes of the real one, tamed."""
    return tamed(decode(text.real)) if isinstance(text, Harmless) else decode(text)


def like(collection: Any, items: Any) -> Any:
    """Return a collection of the same Go type with other items."""
    if isinstance(collection, Map):
        return Map(collection.key, collection.elem, items, nil=collection.nil)
    if isinstance(collection, Slice):
        return Slice(collection.elem, items, nil=collection.nil)
    return dict(items) if isinstance(collection, dict) else list(items)
