"""Where the state of an upgrade is: a ConfigMap in Istio's namespace, with the document, so that other commands need only the name.

A change is accepted only for the version that was read. So of several runners, one decides at a time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from injector.cluster.resources import CONFIG_MAPS
from injector.errors import ClusterError, UsageError
from injector.kube.serial import dump_json, load_json
from injector.revisions.clustertags import ClusterTags
from injector.revisions.tags import TagObject, tag_annotations
from injector.upgrade.document import GROUP, Upgrade, read_upgrade
from injector.upgrade.state import State, new_state, read_state

if TYPE_CHECKING:
    from collections.abc import Mapping

    from injector.cluster.client import KubeClient
    from injector.cluster.kubeconfig import ClusterSession
    from injector.revisions.tags import Tag

MANAGER: Final = "injector-upgrade"
LABEL: Final = f"{GROUP}/upgrade"
_PREFIX: Final = "upgrade-"
_FIXED: Final = ("tag", "from", "to", "waves")
"""The fields of ``spec`` that may not change while an upgrade is under way: they decide in which wave a workload is."""


@dataclass(frozen=True, slots=True)
class Stored:
    """An upgrade with its state, and the ConfigMap that was read."""

    upgrade: Upgrade
    state: State
    item: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Store:
    """The ConfigMap of one upgrade. All methods raise ClusterError if the API server cannot be reached or refuses."""

    client: KubeClient
    namespace: str
    name: str

    async def load(self) -> Stored | None:
        """Return the upgrade; None if it was never started.

        Raises:
            DataError: the ConfigMap cannot be read.
        """
        try:
            item = await self.client.get(CONFIG_MAPS, f"{_PREFIX}{self.name}", namespace=self.namespace)
        except ClusterError as error:
            if error.reason == "missing":
                return None
            raise
        where = f"ConfigMap {self.namespace}/{_PREFIX}{self.name}"
        data = item.get("data") or {}
        document, state = (load_json(str(data.get(key, "")), where=f"{where}: {key}") for key in ("upgrade", "state"))
        return Stored(read_upgrade(document, where=f"{where}: upgrade"), read_state(state, where=where), item)

    async def existing(self) -> Stored:
        """Return the upgrade.

        Raises:
            UsageError: it was never started.
        """
        stored = await self.load()
        if stored is None:
            where = f"namespace {self.namespace}"
            raise UsageError(
                f"no upgrade is called {self.name}", where=where, hint="start it with `injector upgrade run FILE`"
            )
        return stored

    async def start(self, raw: Mapping[str, Any], upgrade: Upgrade, tag: Tag | None, now: float) -> Stored:
        """Return the upgrade that is under way, with the document of the user, or start it.

        Raises:
            UsageError: it is under way with other waves, revisions or another tag.
        """
        stored = await self.load()
        if stored is None:
            state = new_state(upgrade, now, _tag_data(tag))
            meta = {"name": f"{_PREFIX}{self.name}", "namespace": self.namespace, "labels": {LABEL: self.name}}
            manifest = {"metadata": meta, "data": _data(raw, state)}
            try:
                return Stored(upgrade, state, await self.client.create(CONFIG_MAPS, manifest, manager=MANAGER))
            except ClusterError as error:
                if error.reason != "conflict":
                    raise
                stored = await self.existing()  # another runner has started it in the meantime
        if stored.state.has_ended:
            # The marks of restarts go on, so that those of the upgrade before are not taken for this one's.
            state = replace(new_state(upgrade, now, _tag_data(tag)), token=stored.state.token)
            return await self._write(stored, raw, upgrade, state)
        before = load_json(stored.item["data"]["upgrade"])
        changed = [key for key in _FIXED if before["spec"].get(key) != raw["spec"].get(key)]
        if changed:
            hint = f"restore it, or run `injector upgrade abort {self.name}` first"
            raise UsageError(f"the upgrade {self.name} is under way with another `{changed[0]}`", hint=hint)
        return stored if before == raw else await self._write(stored, raw, upgrade, stored.state)

    async def save(self, stored: Stored, state: State) -> Stored:
        """Store the next state.

        Raises:
            ClusterError: with the reason ``conflict`` if another runner or a user has changed it.
        """
        return await self._write(stored, load_json(stored.item["data"]["upgrade"]), stored.upgrade, state)

    async def _write(self, stored: Stored, raw: Mapping[str, Any], upgrade: Upgrade, state: State) -> Stored:
        item = await self.client.replace(CONFIG_MAPS, {**stored.item, "data": _data(raw, state)}, manager=MANAGER)
        return Stored(upgrade, state, item)


def _data(raw: Mapping[str, Any], state: State) -> dict[str, str]:
    return {"upgrade": dump_json(raw).decode(), "state": dump_json(state.to_dict()).decode()}


def _tag_data(tag: Tag | None) -> dict[str, Any]:
    return {} if tag is None else {"revision": tag.revision, "annotations": tag_annotations(tag)}


def tag_before(stored: Stored) -> Tag | None:
    """Return the tag before the upgrade; None if the upgrade has none.

    Raises:
        DataError: the state cannot be read.
    """
    data = stored.state.tag_before
    if not data:
        return None
    return TagObject(stored.upgrade.tag, data["revision"], "before the upgrade", data["annotations"]).read()[0]


def write_tag(session: ClusterSession, istio_namespace: str, tag: Tag, expected: Tag | None) -> None:
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
