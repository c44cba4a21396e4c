"""The old and the new revision of a tag side by side, of what ``/status.json`` says.

Old and new are the two heaviest of a tag with several revisions, by their Istio version or, of one version, in the order of
``tags.yaml``; of a tag with one, what it serves and what its shadow tries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from injector.errors import InjectorError
from injector.istio.minor import parse_minor
from injector.metrics import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_NO_REQUESTS: Final[Mapping[str, Any]] = {
    "requests": 0,
    "success": 0,
    "skip": 0,
    "failure": 0,
    "successRate": None,
    "failures": {},
    "skips": {},
    "p50Seconds": None,
    "p99Seconds": None,
}
_PAIR: Final = 2


def canaries(status: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return, for each tag that has both, the figures of its old and its new revision."""
    return [
        {"tag": tag["name"], "old": _column(status, tag, pair[0]), "new": _column(status, tag, pair[1])}
        for tag in status["tags"]
        if (pair := _pair(status, tag))
    ]


def oldest_first(status: Mapping[str, Any], tag: Mapping[str, Any] | None, names: Iterable[str]) -> list[str]:
    """Return revisions in the order that they are drawn in: by Istio version, then as the tag has them, then by name.

    What is served no longer comes first, requests for what never was come last.
    """
    versions = {each["name"]: _version(each) for each in status["revisions"]}
    places = {name: place for place, name in enumerate(tag["weights"] if tag else ())}
    return sorted(
        names, key=lambda name: (name == UNKNOWN, versions.get(name, (0, 0)), places.get(name, len(places)), name)
    )


def _version(revision: Mapping[str, Any]) -> tuple[int, int]:
    try:
        major, minor = parse_minor(revision.get("istioVersion") or "")
    except InjectorError:
        return (0, 0)
    return (major, minor)


def _pair(status: Mapping[str, Any], tag: Mapping[str, Any]) -> list[str]:
    """Return the old and the new revision; nothing where there are not two."""
    heaviest = sorted(tag["weights"], key=lambda name: -tag["weights"][name])[:_PAIR]
    if len(heaviest) == _PAIR:
        return oldest_first(status, tag, heaviest)
    shadow = tag["shadow"]
    return [*heaviest, shadow["revision"]] if shadow and shadow["revision"] not in heaviest else []


def _column(status: Mapping[str, Any], tag: Mapping[str, Any], name: str) -> dict[str, Any]:
    revision: Mapping[str, Any] = next((each for each in status["revisions"] if each["name"] == name), {})
    by_tag = (each for each in status["requests"] if (each["revision"], each["tag"]) == (name, tag["name"]))
    requests = next(by_tag, _NO_REQUESTS)
    shadow = tag["shadow"] if tag["shadow"] and tag["shadow"]["revision"] == name else None
    return {
        "revision": name,
        "istioVersion": revision.get("istioVersion"),
        "fingerprint": revision.get("fingerprint"),
        "percent": percent(tag["weights"].get(name, 0), tag),
        **{key: requests[key] for key in _NO_REQUESTS},
        "shadow": shadow and {key: shadow[key] for key in ("sample", "requests", "differences")},
    }


def percent(weight: int, tag: Mapping[str, Any]) -> float:
    """Return what share of a tag's workloads a weight stands for."""
    total: int = sum(tag["weights"].values())
    return round(100 * weight / total, 2)
