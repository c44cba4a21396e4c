"""Texts that could end the YAML scalar that a template inserts them into, and inert texts to insert in their place.

The dangerous characters are those of YAML 1.2: chapters 5.2 to 5.4 (character set, indicators, line breaks) and 7.3.3 (plain style). A
filler replaces them, and nothing else, by a letter. So a template that looks at the value (``contains "/"``, ``trunc 63``) mostly does
with the filler what it does with the value. ``guard`` tells what the fillers are for.
"""

from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from injector.istio.template import Template

# Quotes, the escape of double quotes, flow collections, and all that is not printable text; with the line breaks of YAML 1.1.
_SPECIAL: Final = "\u2028\u2029\ufeff\ufffe\uffff\ud800-\udfff\"'\\\\{}\\[\\]"
_CONTROL: Final = r"\x00-\x1f\x7f-\x9f"
_LINE_BREAK: Final = r"[\r\n\x85\u2028\u2029]"
# Anchors, aliases, tags, block scalars, directives, reserved indicators, comments.
_LEADING: Final = "#&!|>%@`*"
_DANGEROUS: Final = re.compile(
    # YAML folds a line break with the spaces around it. (Each run of spaces is looked at once, from its beginning.)
    rf"(?<!\s)\s*{_LINE_BREAK}\s*|[{_CONTROL}{_SPECIAL}]"
    # A colon ends a key before a space and, in flow collections, before what ends the value; at the end, the template's text decides.
    r"|:(?=[\s,\[\]{}]|\Z)|(?<!\s)\s+#"
    # A ``*`` alone is not an alias.
    rf"|\A(?:[{_LEADING},](?<!\*)|\*(?!\Z)|\s+|[-?:](?=\s|\Z)|---|\.\.\.)|(?<!\s)\s+\Z"
)
# The same for texts joined by NUL, in two steps that are fast where there is nothing to find.
_PERHAPS: Final = re.compile(rf"[\x01-\x1f\s\x7f-\x9f{_SPECIAL}{_LEADING}]|:(?=[,\0])")
_AT_AN_END: Final = re.compile(r"\0(?:[-?:]\0|,.|---|\.\.\.)")

_ALPHANUMERIC: Final = re.compile(r"[A-Za-z0-9]")
_ANY: Final = re.compile(r".", re.DOTALL)
_JSON_TOKEN: Final = re.compile(r'(?P<string>"(?:[^"\\]|\\.)*")|(?P<space>[ \t\r\n]+)|(?P<mark>[\[\]{}:,])', re.DOTALL)

DECODERS: Final = frozenset({"b32dec", "b64dec", "decryptAES", "urlParse"})
"""Functions that make a dangerous text of one that looks harmless. (JSON shows its texts: it has quotes.)"""
# A DNS label: what names of workloads, containers and namespaces are.
_WORD: Final = re.compile(r"[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
_ENCODED: Final = re.compile(r"[A-Za-z0-9+/]{4,}={0,2}|%[0-9A-Fa-f]{2}")
_NO_SLASH: Final = re.compile(r"[^/]")
_UNIFORM: Final = "V"
"""A text of it decodes to ``UUU...``, wherever decoding begins."""
_GROUP: Final = 4


def is_dangerous(text: str) -> bool:
    """Return whether a text could end the scalar that it is inserted into, or begin another one."""
    return _DANGEROUS.search(text) is not None


def is_encoded(text: str) -> bool:
    """Return whether a text is dangerous, or may be so once it is decoded: any but a plain name may."""
    if is_dangerous(text):
        return True
    if _WORD.fullmatch(text):
        return is_dangerous(_decoded(text) or "")
    return _ENCODED.search(text) is not None


def none_dangerous(texts: list[str]) -> bool:
    """Return whether none of the texts is dangerous. It is fast, and False for a few texts that are harmless (those with spaces)."""
    joined = "\0".join(["", *texts, ""])
    return not (_PERHAPS.search(joined) or _AT_AN_END.search(joined)) and joined.count("\0") == len(texts) + 1


def decodes(templates: Mapping[str, Template]) -> bool:
    """Return whether a template calls one of ``DECODERS``."""
    return any(not DECODERS.isdisjoint(template.called) for template in templates.values())


def is_document(text: str) -> bool:
    """Return whether a text is JSON, but for a bare number or word: a template may decode it."""
    if not text.lstrip().startswith(("{", "[", '"')):
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


@dataclass(frozen=True, slots=True)
class Filler:
    """Makes inert texts.

    Attributes:
        letter: stands for each dangerous character.
        others: which other characters it stands for, too.
        space: stands between the tokens of JSON documents. If it is None, a document is a text like any other. Otherwise it stays the
            same document for a decoder, and only the dangerous texts in it are replaced.
        decoding: whether the templates call one of ``DECODERS``.
    """

    letter: str
    others: re.Pattern[str] | None = None
    space: str | None = None
    decoding: bool = False

    def fill(self, text: str) -> str:
        """Return the text to insert in place of ``text``."""
        if self.space is not None and is_document(text):
            return self.space + _JSON_TOKEN.sub(self._token, text) + self.space
        return self._inert(text)

    def _inert(self, text: str) -> str:
        while _DANGEROUS.search(text):
            text = _DANGEROUS.sub(lambda found: self.letter * len(found[0]), text)
        if self.decoding and not _WORD.fullmatch(text):
            return _ENCODED.sub(self._recoded, text)
        return self.others.sub(self.letter, text) if self.others else text

    def _token(self, found: re.Match[str]) -> str:
        if found["space"] is not None:
            return self.space or ""
        if found["mark"] is not None:
            return f"{self.space}{found['mark']}{self.space}"
        text = json.loads(found["string"], strict=False)
        return json.dumps(self._inert(text)) if is_dangerous(text) else found["string"]

    def _recoded(self, found: re.Match[str]) -> str:
        text = _decoded(found[0])
        if text is None:
            # More likely a path or an image, of which templates look for the slash.
            return _NO_SLASH.sub(self.letter, found[0])
        if self.letter == FILLERS[1].letter:
            return _UNIFORM * len(found[0])
        return base64.b64encode(replace(self, decoding=False).fill(text).encode()).decode()


def _decoded(text: str) -> str | None:
    if len(text) % _GROUP:
        return None
    try:
        return base64.b64decode(text, validate=True).decode()
    except ValueError:
        return None


FILLERS: Final = (Filler("x"), Filler("7"))
"""What stands in for a value in the two renderings that are compared."""
DOCUMENT_FILLERS: Final = (Filler("x", space=""), Filler("7", space="\n\t"))
"""The same where a template decodes JSON. With line breaks and tabs, a document is still JSON, but it is not YAML."""
MORE_FILLERS: Final = (Filler("J"), Filler("k", _ALPHANUMERIC), Filler("W", _ANY), Filler("3", _ANY))
"""What tells which characters of a text are the template's, where the first two have some in common by chance: a hash, an encoding, or
parts of the value that the template changes."""
