"""References of container images, as the kubelet parses them before it pulls.

Follows ``ParseNormalizedNamed`` in github.com/distribution/reference (v0.6.0), which the kubelet calls in ``ApplyDefaultImageTag``.
"""

from __future__ import annotations

import re
from typing import Final

_LABEL: Final = r"[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?"
_DOMAIN: Final = re.compile(rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?", re.ASCII)
_PART: Final = re.compile(r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*", re.ASCII)
_TAG: Final = re.compile(r"\w[\w.-]{0,127}", re.ASCII)
_DIGEST: Final = re.compile("sha256:[0-9a-f]{64}|sha384:[0-9a-f]{96}|sha512:[0-9a-f]{128}")
_LONGEST_NAME: Final = 255


def reference_fault(image: str) -> str:
    """Return why a text is not a valid reference of an image, empty if it is one."""
    if "://" in image:
        return "it is a URL"
    rest, at, digest = image.partition("@")
    if at and not _DIGEST.fullmatch(digest):
        return "it has a tag after the digest" if _DIGEST.match(digest) else f"{digest!r} is not a digest"
    name, colon, tag = rest.rpartition(":") if ":" in rest.rpartition("/")[2] else (rest, "", "")
    if colon and not _TAG.fullmatch(tag):
        return f"{tag!r} is not a tag" if tag else "the tag is empty"
    first, slash, path = name.partition("/")
    domain = first if slash and (set(first) & set(".:[") or first == "localhost" or first.lower() != first) else ""
    if domain and not _DOMAIN.fullmatch(domain):
        return f"{domain!r} is not a registry"
    parts = (path if domain else name).split("/")
    if "" in parts:
        return "a part of its path is empty"
    for part in parts:
        if ":" in part:
            return "it has two tags"
        if part.lower() != part:
            return f"{part!r} has letters in upper case"
        if not _PART.fullmatch(part):
            return f"{part!r} is not a part of a path"
    return f"its name has more than {_LONGEST_NAME} characters" if len(name) > _LONGEST_NAME else ""
