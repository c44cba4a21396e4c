"""Where the state of an upgrade is: the status of its resource ``Upgrade``.

A change is accepted only for the version that was read, so of several runners, one decides at a time.
"""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from injector.cluster.resources import Resource, Scope, find_object
from injector.errors import ClusterError, ConfigError, DataError, UsageError
from injector.golang.time import utc_text
from injector.upgrade.commands import apply_command
from injector.upgrade.document import API_VERSION, GROUP, KIND, Upgrade, read_upgrade
from injector.upgrade.state import ABORTED, COMPLETED, INCOMPLETE, PAUSED, State, read_state
from injector.upgrade.status import Heartbeat, read_heartbeat, status_before_start, status_of, with_heartbeat

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from injector.cluster.client import KubeClient

# Helm never changes a CustomResourceDefinition. One that is older than the injector has not all fields of the spec and the status.
UPGRADES: Final = Resource(API_VERSION, "upgrades", KIND, namespaced=False, strict=True)
MANAGER: Final = "injector-upgrade"
INSTALL_CRD: Final = "injector upgrade crd | kubectl apply -f -"
"""The command that installs the resource."""
_PACKAGE: Final = Path(__file__).resolve().parents[1]
_IN_WHEEL: Final = _PACKAGE / "_crds" / "upgrades.yaml"
# A source tree, and an editable install of it, has it in the chart.
CRD_FILE: Final = _IN_WHEEL if _IN_WHEEL.is_file() else _PACKAGE.parent / "deploy" / "chart" / "crds" / "upgrades.yaml"
"""The CustomResourceDefinition."""
_ATTEMPTS: Final = 5
"""How often a command of a user is tried if the state changes meanwhile. A runner changes it every two seconds at most."""
_UNKNOWN_FIELDS: Final = re.compile(r'unknown field "(?:spec|status)\..*')
"""The end of the message of an API server that checks the fields strictly."""
_UNKNOWN_FIELD: Final = re.compile(r'unknown field "status\.(\w+)')
_UNDECIDING: Final = frozenset({"rollbackReason", "progress", "gates", "counts", "conditions", "runner"})
"""The fields of the status that decide nothing."""


@dataclass(frozen=True, slots=True)
class Stored:
    """An upgrade with its state, the heartbeat of its runner, and the object that was read. The state is None before the start."""

    upgrade: Upgrade
    state: State | None
    heartbeat: Heartbeat
    item: Mapping[str, Any]

    @property
    def is_due(self) -> bool:
        """Tell whether a runner has something to do."""
        return self.is_new or (self.is_under_way and self.state is not None and self.state.phase != PAUSED)

    @property
    def is_new(self) -> bool:
        """Tell whether the upgrade is to be started: it was not, or its next run was asked for after its end."""
        return self.state is None or (self.state.has_ended and self.upgrade.run > self.state.run)

    @property
    def may_repeat(self) -> bool:
        """Tell whether the upgrade starts again when the configuration of its revision has changed: no user has stopped it."""
        state = self.state
        return self.upgrade.repeat and state is not None and state.phase in (COMPLETED, INCOMPLETE)

    @property
    def is_under_way(self) -> bool:
        """Tell whether the upgrade was started and has not ended; it may be paused."""
        return self.state is not None and not self.state.has_ended

    @property
    def is_outdated(self) -> bool:
        """Tell whether the status is about an earlier document, such as one with other limits."""
        observed = (self.item.get("status") or {}).get("observedGeneration")
        return self.state is not None and observed != self.item["metadata"].get("generation")

    def dead_text(self, now: float) -> str:
        """Return the message for an upgrade that no runner runs; empty if one does, or if none has to."""
        heartbeat = self.heartbeat
        if not self.is_due or not heartbeat.is_late(now):
            return ""
        name = self.upgrade.name
        remedy = f"start one with `injector upgrade run {name}`, or see the log of `injector serve --upgrades`"
        if not heartbeat.runner:
            return f"no runner has started it: {remedy}"
        error = f", with the error: {heartbeat.error}" if heartbeat.error else ""
        return f"no runner since {utc_text(heartbeat.time)} ({heartbeat.runner}{error}): {remedy}"

    def trouble_text(self, now: float) -> str:
        """Return why an upgrade that should go on does not: it has no runner, or its runner cannot do a step; empty if it does."""
        return self.dead_text(now) or (self.heartbeat.error if self.is_due else "")


def read_stored(item: Mapping[str, Any]) -> Stored:
    """Return the upgrade that a resource has. Raises DataError if it cannot be read."""
    where, status = f"Upgrade {item['metadata']['name']}", item.get("status") or {}
    upgrade = read_upgrade(item, where=where)
    state = read_state(status, upgrade, where=where) if "phase" in status else None
    return Stored(upgrade, state, read_heartbeat(status), item)


@dataclass(frozen=True, slots=True)
class Store:
    """The resource of one upgrade. All methods raise ClusterError if the API server cannot be reached or refuses.

    ``runner`` is the name of the process that writes.
    """

    client: KubeClient
    name: str
    runner: str = ""
    clock: Callable[[], float] = time.time

    async def find(self) -> Stored | None:
        """Return the upgrade; None if the cluster does not have it. Raises DataError if it cannot be read."""
        item = await find_object(self.client, UPGRADES, self.name)
        return None if item is None else read_stored(item)

    async def load(self) -> Stored:
        """Return the upgrade. Raises UsageError if the cluster does not have it, and DataError if it cannot be read."""
        stored = await self.find()
        if stored is None:
            await self._check_crd()
            hint = "`injector upgrade list` shows those of the cluster, and `injector upgrade run FILE` creates one"
            raise UsageError(f"no upgrade is called {self.name}", hint=hint)
        return stored

    async def _check_crd(self) -> None:
        if await self.client.find_resource(KIND, GROUP) is None:
            raise ConfigError(f"the cluster has no resource {UPGRADES.plural}.{GROUP}", hint=f"run `{INSTALL_CRD}`")

    async def adopt(self, raw: Mapping[str, Any]) -> Stored:
        """Create the resource from a document, or update that of its name. One that has ended stays as it is.

        Raises:
            UsageError: the upgrade is under way with other waves, revisions or another tag; or it was not started, and another one that
                excludes it is under way. A resource that is created all the same would start when that one ends.
        """
        return await _tried_again(lambda: self._adopt(raw))

    async def _adopt(self, raw: Mapping[str, Any]) -> Stored:
        wanted = read_upgrade(raw, where="")
        item = await find_object(self.client, UPGRADES, self.name)
        if item is None:
            await self._check_crd()
            await self.check_rival(wanted)
            manifest = {"apiVersion": API_VERSION, "kind": KIND, "metadata": raw["metadata"], "spec": raw["spec"]}
            return read_stored(await _check_definition(self.client.create(UPGRADES, manifest, manager=MANAGER)))
        stored = read_stored(item)
        if stored.state is None:
            await self.check_rival(wanted)
        elif stored.state.has_ended:
            return stored
        before, spec = item.get("spec") or {}, dict(raw["spec"])
        # A document without `run` does not undo the runs that --again asked for.
        spec |= {"run": max(wanted.run, stored.upgrade.run)} if "run" in (*spec, *before) else {}
        fixed = _fixed_fields(spec, wanted)
        changed = [key for key, value in _fixed_fields(before, stored.upgrade).items() if value != fixed[key]]
        if changed and stored.is_under_way:
            hint = f"restore it, or run `injector upgrade abort {self.name}` first"
            raise UsageError(f"the upgrade {self.name} is under way with another `{changed[0]}`", hint=hint)
        return stored if before == spec else read_stored(await self._replace_spec(item, spec))

    async def again(self, raw: Mapping[str, Any] | None = None) -> Stored:
        """Ask for another run of an upgrade that has ended, with the document ``raw`` if it is given.

        Raises UsageError if another upgrade that excludes it is under way.
        """
        stored = await self.load()
        if stored.state is None or not stored.state.has_ended:
            return stored if raw is None else await self.adopt(raw)
        wanted = stored.upgrade if raw is None else read_upgrade(raw, where="")
        await self.check_rival(wanted)
        run = max(stored.state.run + 1, stored.upgrade.run, wanted.run)
        spec = {**(stored.item["spec"] if raw is None else raw["spec"]), "run": run}
        return read_stored(await self._replace_spec(stored.item, spec))

    async def _replace_spec(self, item: Mapping[str, Any], spec: Mapping[str, Any]) -> dict[str, Any]:
        return await _check_definition(self.client.replace(UPGRADES, {**item, "spec": spec}, manager=MANAGER))

    async def check_rival(self, upgrade: Upgrade) -> None:
        """Check that an upgrade may begin, or go on after its end. Raises UsageError if another one that excludes it is under way."""
        rival = await self.rival(Stored(upgrade, None, Heartbeat(), {}))
        if rival:
            hint = f"wait for its end, or end it with `injector upgrade abort {rival}`"
            raise UsageError(f"upgrade {rival} of {upgrade.subject} is under way", hint=hint)

    async def rival(self, stored: Stored) -> str:
        """Return the name of an upgrade that excludes this one, is under way and began earlier; empty if there is none."""
        others = [other for other in await self._others(stored) if other.is_under_way]
        rank = _rank(stored)
        return next((other.upgrade.name for other in sorted(others, key=_rank) if _rank(other) < rank), "")

    async def _others(self, stored: Stored) -> list[Stored]:
        """Return the other upgrades that exclude this one and were started."""
        items = await self.client.all(Scope(UPGRADES), lambda item: item)
        own = stored.upgrade
        return [
            other
            for other in _readable(items)
            if other.state is not None and other.upgrade.name != own.name and other.upgrade.excludes(own)
        ]

    async def save(self, stored: Stored, state: State, *, error: str = "") -> Stored:
        """Store the next state. Raises ClusterError, reason ``conflict``, if another runner or a user has changed it."""
        now, generation = self.clock(), int(stored.item["metadata"].get("generation") or 0)
        heartbeat = Heartbeat(self.runner, now, error) if self.runner else stored.heartbeat
        before = stored.item.get("status") or {}
        status = status_of(stored.upgrade, state, heartbeat, before, now=now, generation=generation)
        item = {**stored.item, "status": status}
        return Stored(stored.upgrade, state, heartbeat, await self._write(item, _unneeded_fields(state)))

    async def note(self, reason: str) -> bool:
        """Store why an upgrade cannot start or go on, for people. Return False if this is stored already."""
        item = await self.client.get(UPGRADES, self.name)
        before, heartbeat = item.get("status") or {}, Heartbeat(self.runner, self.clock(), reason)
        is_new = read_heartbeat(before).error != reason
        if "phase" in before:
            status = with_heartbeat(before, heartbeat)
        else:
            generation = int(item["metadata"].get("generation") or 0)
            status = status_before_start(reason, before, heartbeat, generation=generation)
        await self._write({**item, "status": status})
        return is_new

    async def load_started(self) -> tuple[Stored, State]:
        """Return the upgrade and its state. Raises UsageError also if it was not started."""
        stored = await self.load()
        if stored.state is None:
            hint = f"run `injector upgrade run {self.name}`"
            raise UsageError(f"the upgrade {self.name} was not started", hint=hint)
        return stored, stored.state

    async def command(self, verb: str, now: float) -> Stored:
        """Store the state after a command of a user; see ``apply_command``."""
        return await self.change(lambda state, upgrade: apply_command(state, verb, upgrade, now))

    async def change(self, command: Callable[[State, Upgrade], State]) -> Stored:
        """Store the state after a command of a user. If a runner stores one at this moment, it is tried again."""

        async def work() -> Stored:
            stored, before = await self.load_started()
            state = command(before, stored.upgrade)
            if before.has_ended and not state.has_ended:
                await self._check_latest(stored)
            return await self.save(stored, state)

        return await _tried_again(work)

    async def _check_latest(self, stored: Stored) -> None:
        """Check that no other upgrade has moved the tag since, or without a tag is under way. Raises UsageError if one has or is."""
        if not stored.upgrade.tag:
            await self.check_rival(stored.upgrade)
            return
        later = [other for other in await self._others(stored) if _rank(other) > _rank(stored)]
        if later:
            name = max(later, key=_rank).upgrade.name
            what = f"upgrade {name} of {stored.upgrade.subject} began after {self.name}"
            raise UsageError(what, hint=f"use `injector upgrade rollback {name}` first")

    async def _write(self, item: Mapping[str, Any], unneeded: Collection[str] = ()) -> dict[str, Any]:
        """Write the status, without those of the ``unneeded`` fields that the definition of the resource lacks."""
        try:
            return await self._replace_status(item, item["status"])
        except ConfigError as error:
            unknown = {*_UNKNOWN_FIELD.findall(error.what)}
            if not unknown or not unknown <= {*unneeded}:
                raise
            return await self._replace_status(
                item, {key: value for key, value in item["status"].items() if key not in unknown}
            )

    async def _replace_status(self, item: Mapping[str, Any], status: Mapping[str, Any]) -> dict[str, Any]:
        changed = {**item, "status": status}
        return await _check_definition(self.client.replace(UPGRADES, changed, manager=MANAGER, subresource="/status"))


async def _tried_again(change: Callable[[], Awaitable[Stored]]) -> Stored:
    """Return what a change stores. If another writer stores something at the same moment, it is tried again."""
    attempts_left = _ATTEMPTS
    while True:
        attempts_left -= 1
        try:
            return await change()
        except ClusterError as error:
            if error.reason != "conflict" or not attempts_left:
                raise


def _unneeded_fields(state: State) -> Collection[str]:
    """Return the fields that a definition older than the injector may lack: none unless a user stops the upgrade, or it goes back.

    That must be possible when anything else is broken. A field without its default may be one that decides.
    """
    if not (state.back or state.phase in (PAUSED, ABORTED)):
        return ()
    default = State().to_status()
    unchanged = {key for key, value in state.to_status().items() if value == default[key]}
    # A rollback restarts all waves at once.
    return unchanged | _UNDECIDING | ({"injectedGateways"} if state.back else set())


async def _check_definition(write: Awaitable[dict[str, Any]]) -> dict[str, Any]:
    """Return what was written. Raises ConfigError if the definition of the resource lacks a field of it."""
    try:
        return await write
    except ClusterError as error:
        unknown = _UNKNOWN_FIELDS.search(error.what)
        if unknown is None:
            raise
        what = f"the definition of the resource {KIND} is older than this injector: {unknown[0]}"
        raise ConfigError(what, hint=f"run `{INSTALL_CRD}`") from error


def _fixed_fields(spec: Mapping[str, Any], upgrade: Upgrade) -> dict[str, Any]:
    """Return the fields that may not change while an upgrade is under way: they decide in which wave a workload is."""
    fields = {key: spec.get(key) for key in ("tag", "from", "to", "waves")}
    return {
        **fields,
        "importanceLabel": upgrade.importance_label,
        "injectedGateways.last": upgrade.injected_gateways_last,
    }


def _readable(items: Iterable[Mapping[str, Any]]) -> Iterable[Stored]:
    for item in items:
        try:
            yield read_stored(item)
        except DataError:  # it cannot run
            continue


def _rank(stored: Stored) -> tuple[float, str]:
    """Return the order of upgrades of one tag: by the start, which a rollback does not change."""
    state = stored.state
    return (float("inf") if state is None else state.started, stored.upgrade.name)


async def list_upgrades(client: KubeClient) -> tuple[list[Stored], list[str]]:
    """Return the upgrades of a cluster by name, and why others cannot be read."""
    upgrades, faults = list[Stored](), list[str]()
    for item in await client.all(Scope(UPGRADES), lambda item: item):
        try:
            upgrades.append(read_stored(item))
        except DataError as error:
            faults.append(str(error))
    return sorted(upgrades, key=lambda stored: stored.upgrade.name), sorted(faults)
