"""What the API server means where it refuses: statuses, its own words, and how long it wants to be left alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from injector.errors import DataError
from injector.kube.serial import load_json

_MAX_MESSAGE: Final = 300


@dataclass(frozen=True, slots=True)
class Refusal:
    """What a status means; ``down`` where the next request would fare no better at once."""

    reason: str
    what: str
    hint: str
    down: bool = False


_STATUS: Final[dict[int, Refusal]] = {
    401: Refusal("unauthorized", "does not know the credentials", "renew the token or certificate", down=True),
    403: Refusal("forbidden", "forbids it", "grant the injector's account the permissions that deploy/ has for it"),
    404: Refusal("missing", "has no such object or resource", "check the name and the API server's version"),
    409: Refusal("conflict", "has a conflict", "look who else writes to it, and try again"),
    410: Refusal("gone", "no longer has that version", "list again"),
    429: Refusal("throttled", "asks to wait", "wait", down=True),
}
_OTHER: Final = {
    4: Refusal("refused", "refuses it", "correct the request"),
    5: Refusal("server", "failed", "look at its log", down=True),
}
REFUSALS: Final = (*_STATUS.values(), *_OTHER.values())


def refusal_of(status: int) -> Refusal:
    """Return what a status of 400 or more means."""
    return _STATUS.get(status) or _OTHER.get(status // 100) or _OTHER[5]


def message_of(body: bytes) -> str:
    """Return what a Status says, on one line."""
    try:
        found = load_json(body)
    except DataError:
        return ""
    message = found.get("message") if isinstance(found, dict) else None
    return " ".join(message.split())[:_MAX_MESSAGE] if isinstance(message, str) else ""


def seconds_of(text: str) -> float:
    """Return the seconds of a Retry-After; 0 where it has none, or a date."""
    return float(text) if text.isascii() and text.isdigit() else 0.0
