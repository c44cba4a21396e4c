"""MutatingWebhookConfigurations as server-side apply needs them: what others manage of one stays theirs.

Several write to one object: this project its webhooks, and whoever keeps the certificate their ``caBundle``. Fields that
a manifest leaves out are taken away from the object if the applying manager alone has them, and stay otherwise
(https://kubernetes.io/docs/reference/using-api/server-side-apply/). Both can be wrong here:

- a ``caBundle`` that the manager set once would be gone after an apply without one, and with it the trust;
- a webhook that the manager gives up would stay as the little that another manages of it, which the API server refuses;
- an annotation that another set would stay though it must not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from injector.istio.webhooks import deactivated
from injector.kube.serial import load_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

TAG_MANAGER: Final = "injector-tag"
"""Who manages the fields of a tag, as the API server notes it."""
REVISION_MANAGER: Final = "injector-webhook"
"""The same for a revision's."""

_APPLY: Final = "Apply"
_BUNDLE: Final = "caBundle"
_ENDPOINTS: Final = ("service", "url")


def over(manifest: Mapping[str, Any], current: Mapping[str, Any] | None, *, manager: str) -> dict[str, Any]:
    """Return ``manifest`` as ``manager`` has to apply it where ``current`` is there.

    It holds ``current``'s version, so that nothing is written over what has changed since.
    """
    if current is None:
        return dict(manifest)
    there = {webhook["name"]: webhook for webhook in current.get("webhooks") or ()}
    wanted = {webhook["name"]: webhook for webhook in manifest["webhooks"]}
    kept = [_with_bundle(webhook, there.get(name, {}), name, current, manager) for name, webhook in wanted.items()]
    given_up = [there[name] for name in there if name not in wanted and _is_shared(current, name, manager)]
    left = [_without_bundle(webhook) for webhook in deactivated({"webhooks": given_up})["webhooks"]]
    metadata = {**manifest["metadata"], "resourceVersion": current["metadata"]["resourceVersion"]}
    return {**manifest, "metadata": metadata, "webhooks": [*kept, *left]}


def emptied(
    annotations: Mapping[str, str], current: Mapping[str, Any] | None, *, manager: str, prefix: str
) -> dict[str, str]:
    """Return ``annotations``, and empty ones for those that begin with ``prefix``, are there and are not wanted.

    One that ``manager`` leaves out is gone, unless another has set it too; an empty one says nothing either way.
    """
    entries = [] if current is None else current["metadata"].get("managedFields") or []
    foreign = (_annotations(entry) for entry in entries if _who(entry) != (manager, _APPLY))
    keys = {key.removeprefix("f:") for found in foreign for key in found}
    return {**{key: "" for key in sorted(keys) if key.startswith(prefix)}, **annotations}


def _with_bundle(
    webhook: Mapping[str, Any], there: Mapping[str, Any], name: str, current: Mapping[str, Any], manager: str
) -> dict[str, Any]:
    before, client = there.get("clientConfig") or {}, dict(webhook["clientConfig"])
    own = _fields(current, name, manager)
    if _BUNDLE not in client and _BUNDLE in before and f"f:{_BUNDLE}" in (own.get("f:clientConfig") or {}):
        client[_BUNDLE] = before[_BUNDLE]
    # A webhook has either; what is not taken away would stay where another manages it.
    client |= {key: None for key in _ENDPOINTS if key in before and key not in client}
    return {**webhook, "clientConfig": client}


def _without_bundle(webhook: Mapping[str, Any]) -> dict[str, Any]:
    client = {key: value for key, value in webhook["clientConfig"].items() if key != _BUNDLE}
    return {**webhook, "clientConfig": client}


def _fields(current: Mapping[str, Any], name: str, manager: str) -> Mapping[str, Any]:
    """Return the fields of a webhook that ``manager`` has applied, as ``fieldsV1`` names them."""
    return next((fields for who, fields in _managed(current, name) if who == (manager, _APPLY)), {})


def _is_shared(current: Mapping[str, Any], name: str, manager: str) -> bool:
    return any(who != (manager, _APPLY) for who, _ in _managed(current, name))


def _managed(current: Mapping[str, Any], name: str) -> Iterator[tuple[tuple[str, str], Mapping[str, Any]]]:
    """Yield who manages something of a webhook, and what."""
    for entry in current["metadata"].get("managedFields") or ():
        webhooks = (entry.get("fieldsV1") or {}).get("f:webhooks") or {}
        for key, fields in webhooks.items():
            if key.startswith("k:") and load_json(key.removeprefix("k:")) == {"name": name}:
                yield _who(entry), fields


def _who(entry: Mapping[str, Any]) -> tuple[str, str]:
    return entry.get("manager", ""), entry.get("operation", "")


def _annotations(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    found = ((entry.get("fieldsV1") or {}).get("f:metadata") or {}).get("f:annotations")
    return found if isinstance(found, dict) else {}
