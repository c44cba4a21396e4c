"""Where the state of an upgrade is: the status of its resource or, if it comes from a file, a ConfigMap in Istio's namespace.

The ConfigMap has the document too, so that other commands need only the name. A change is accepted only for the version that was read.
So of several runners, one decides at a time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from injector.cluster.resources import CONFIG_MAPS, WEBHOOKS, Resource, Scope, find_object
from injector.errors import ClusterError, ConfigError, DataError, UsageError
from injector.golang.json import dump_json, load_json
from injector.istio.labels import TAG_LABEL
from injector.revisions.clustertags import ClusterTags
from injector.revisions.tags import Tag, TagObject, read_tags, tag_annotations, tag_object
from injector.upgrade.document import API_VERSION, GROUP, KIND, Upgrade, read_upgrade
from injector.upgrade.state import START_AGAIN, State, TagBefore, apply_command, new_state, progress_text, read_state

if TYPE_CHECKING:
    from collections.abc import Mapping

    from injector.cluster.client import KubeClient
    from injector.cluster.session import Session

UPGRADES: Final = Resource(API_VERSION, "upgrades", KIND, namespaced=False)
ReadTag: TypeAlias = Callable[[], Awaitable[Tag | None]]
"""Reads a tag as it is now; None if the upgrade has none."""
MANAGER: Final = "injector-upgrade"
LABEL: Final = f"{GROUP}/upgrade"
_PREFIX: Final = "upgrade-"
_ATTEMPTS: Final = 5
"""How often a command of a user is tried if the state changes meanwhile. A runner changes it every two seconds at most."""
_FIXED: Final = ("tag", "from", "to", "waves")
"""The fields of ``spec`` that may not change while an upgrade is under way: they decide in which wave a workload is."""


@dataclass(frozen=True, slots=True)
class Stored:
    """An upgrade with its state, and the object that was read."""

    upgrade: Upgrade
    state: State
    item: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Store(ABC):
    """Where one upgrade is stored. All methods raise ClusterError if the API server cannot be reached or refuses.

    ``namespace`` is Istio's.
    """

    client: KubeClient
    namespace: str
    name: str

    @abstractmethod
    async def load(self) -> Stored | None:
        """Return the upgrade; None if it was never started. Raises DataError if the object cannot be read."""

    async def start(self, raw: Mapping[str, Any], upgrade: Upgrade, tag: ReadTag, now: float) -> Stored:
        """Return the upgrade that was started, or start it. ``raw`` is its resource or document; ``tag`` reads the tag before it.

        Raises:
            UsageError: it is under way with other waves, revisions or another tag.
        """
        stored = await self.load()
        if stored is not None:
            return stored
        try:
            return await self._create(raw, upgrade, new_state(upgrade, now, _tag_data(await tag())))
        except ClusterError as error:
            stored = await self.load() if error.reason == "conflict" else None
            if stored is None:  # its resource was changed in the meantime
                raise
            return stored  # another runner has started it in the meantime

    @abstractmethod
    async def _create(self, raw: Mapping[str, Any], upgrade: Upgrade, state: State) -> Stored:
        """Store the first state."""

    @abstractmethod
    async def save(self, stored: Stored, state: State) -> Stored:
        """Store the next state. Raises ClusterError, reason ``conflict``, if another runner or a user has changed it."""

    async def command(self, verb: str, now: float) -> Stored:
        """Store the state after a command of a user; see ``apply_command``. Repeat it if a runner stores a state at the same moment."""
        attempts_left = _ATTEMPTS
        while True:
            attempts_left -= 1
            stored = await self.existing()
            try:
                return await self.save(stored, apply_command(stored.state, verb, stored.upgrade, now))
            except ClusterError as error:
                if error.reason != "conflict" or not attempts_left:
                    raise

    async def existing(self) -> Stored:
        """Return the upgrade. Raises UsageError if it was never started."""
        stored = await self.load()
        if stored is None:
            hint = "start it with `injector upgrade run`"
            raise UsageError(f"no upgrade is called {self.name}", where=f"namespace {self.namespace}", hint=hint)
        return stored


async def find_store(client: KubeClient, namespace: str, name: str) -> Store:
    """Return the store of an upgrade: its resource if the cluster has it, else a ConfigMap."""
    try:
        await client.get(UPGRADES, name)
    except ClusterError as error:
        if error.reason not in ("missing", "forbidden"):  # without the CRD or the permission, only files can be run
            raise
        return ConfigMapStore(client, namespace, name)
    return ResourceStore(client, namespace, name)


class ResourceStore(Store):
    """The resource ``Upgrade``, with the state in its status. It runs once; the API server keeps its waves from changing."""

    async def load(self) -> Stored | None:
        """Return the upgrade; see ``Store``."""
        item = await find_object(self.client, UPGRADES, self.name)
        return None if item is None else stored_resource(item)

    async def _create(self, raw: Mapping[str, Any], upgrade: Upgrade, state: State) -> Stored:
        return await self.save(Stored(upgrade, state, raw), state)

    async def save(self, stored: Stored, state: State) -> Stored:
        """Store the next state; see ``Store``."""
        status = {**state.to_dict(), "progress": progress_text(stored.upgrade, state)}
        return Stored(stored.upgrade, state, await self._write({**stored.item, "status": status}))

    async def note(self, reason: str) -> bool:
        """Store why an upgrade cannot start or go on, for people. Return False if this is stored already."""
        item = await self.client.get(UPGRADES, self.name)
        status = item.get("status") or {}
        if status.get("reason") == reason:
            return False
        await self._write({**item, "status": {**status, "reason": reason}})
        return True

    async def _write(self, item: Mapping[str, Any]) -> dict[str, Any]:
        return await self.client.replace(UPGRADES, item, manager=MANAGER, subresource="/status")


def stored_resource(item: Mapping[str, Any]) -> Stored | None:
    """Return the upgrade and the state that a resource has; None if it was never started. Raises DataError if it cannot be read."""
    where, status = f"Upgrade {item['metadata']['name']}", dict(item.get("status") or {})
    if "phase" not in status:
        return None
    status.pop("progress", None)
    upgrade = read_upgrade(item, where=where)
    return Stored(upgrade, read_state(status, upgrade, where=where), item)


class ConfigMapStore(Store):
    """The ConfigMap of an upgrade that comes from a file."""

    async def load(self) -> Stored | None:
        """Return the upgrade; see ``Store``."""
        item = await find_object(self.client, CONFIG_MAPS, f"{_PREFIX}{self.name}", namespace=self.namespace)
        if item is None:
            return None
        where = f"ConfigMap {self.namespace}/{_PREFIX}{self.name}"
        data = item.get("data") or {}
        try:
            document, state = (load_json(data.get(key, ""), where=f"{where}: {key}") for key in ("upgrade", "state"))
        except DataError as error:
            raise ConfigError(error.what, where=error.where, hint=START_AGAIN) from None
        upgrade = read_upgrade(document, where=f"{where}: upgrade")
        return Stored(upgrade, read_state(state, upgrade, where=where), item)

    async def start(self, raw: Mapping[str, Any], upgrade: Upgrade, tag: ReadTag, now: float) -> Stored:
        """Start the upgrade; see ``Store``. The document of the user replaces the stored one."""
        stored = await super().start(raw, upgrade, tag, now)
        if stored.state.has_ended:
            # The marks of restarts go on, so that those of the upgrade before are not taken for this one's.
            state = replace(new_state(upgrade, now, _tag_data(await tag())), token=stored.state.token)
            return await self._write(stored, raw, upgrade, state)
        before = load_json(stored.item["data"]["upgrade"])
        changed = [key for key in _FIXED if before["spec"].get(key) != raw["spec"].get(key)]
        if changed:
            hint = f"restore it, or run `injector upgrade abort {self.name}` first"
            raise UsageError(f"the upgrade {self.name} is under way with another `{changed[0]}`", hint=hint)
        return stored if before == raw else await self._write(stored, raw, upgrade, stored.state)

    async def _create(self, raw: Mapping[str, Any], upgrade: Upgrade, state: State) -> Stored:
        meta = {"name": f"{_PREFIX}{self.name}", "namespace": self.namespace, "labels": {LABEL: self.name}}
        manifest = {"metadata": meta, "data": _data(raw, state)}
        return Stored(upgrade, state, await self.client.create(CONFIG_MAPS, manifest, manager=MANAGER))

    async def save(self, stored: Stored, state: State) -> Stored:
        """Store the next state; see ``Store``."""
        return await self._write(stored, load_json(stored.item["data"]["upgrade"]), stored.upgrade, state)

    async def _write(self, stored: Stored, raw: Mapping[str, Any], upgrade: Upgrade, state: State) -> Stored:
        item = await self.client.replace(CONFIG_MAPS, {**stored.item, "data": _data(raw, state)}, manager=MANAGER)
        return Stored(upgrade, state, item)


def _data(raw: Mapping[str, Any], state: State) -> dict[str, str]:
    return {"upgrade": dump_json(raw).decode(), "state": dump_json(state.to_dict()).decode()}


def _tag_data(tag: Tag | None) -> TagBefore:
    return TagBefore() if tag is None else TagBefore(revision=tag.revision, annotations=tag_annotations(tag))


async def read_tag(client: KubeClient, upgrade: Upgrade) -> Tag | None:
    """Return the tag of an upgrade as it is now; None if it has none. Raises InjectorError if it is missing or cannot be read."""
    if not upgrade.tag:
        return None
    tag_objects = await client.all(Scope(WEBHOOKS, labels=f"{TAG_LABEL}={upgrade.tag}"), tag_object)
    tags, faults = read_tags(tag_objects)
    if upgrade.tag in faults:
        raise faults[upgrade.tag]
    if upgrade.tag not in tags:
        raise ClusterError(f"tag {upgrade.tag} does not exist", hint="set it again", reason="missing")
    return tags[upgrade.tag]


def tag_before(stored: Stored) -> Tag | None:
    """Return the tag before the upgrade; None if the upgrade has none. Raises DataError if the state cannot be read."""
    data = stored.state.tag_before
    if not data:
        return None
    label, annotations = data.get("revision", ""), data.get("annotations", {})
    return TagObject(stored.upgrade.tag, label, "before the upgrade", annotations).read()[0]


def write_tag(session: Session, istio_namespace: str, tag: Tag, expected: Tag | None) -> None:
    """Write a tag of the cluster, if it is still the expected one.

    Raises:
        ClusterError: with the reason ``conflict`` if it is not.
        InjectorError: a revision of the tag does not exist, or the tag has several objects.
    """
    tags = ClusterTags(session, istio_namespace)
    state = tags.list()
    if state.tags.get(tag.name) != expected:
        raise ClusterError(f"tag {tag.name} was changed by another writer", hint="try again", reason="conflict")
    for name in tag.revisions:
        state.check_revision(name)
    tags.write(tags.plan(tag))
