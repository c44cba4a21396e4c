"""An independent observer of a fleet: it sees every change of the workloads and pods by watches of its own."""

from __future__ import annotations

import json
import socket
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from http.client import HTTPException
from typing import Any

from injector.injection.tools.drift import injected_revision
from tests.e2e.fleet import NEW, OLD, World

PATHS = {
    "Pod": "/api/v1/pods",
    **{kind: f"/apis/apps/v1/{kind.lower()}s" for kind in ("Deployment", "StatefulSet", "DaemonSet")},
}


@dataclass
class Watcher:
    """The observer. Its watches go on where they ended after the API server was down.

    Attributes:
        source: the revision that pods have before they are moved to ``target``.
        restarting: the most workloads whose rollout was not complete.
        unavailable: the most pods that were not available.
        in_a_place: the most of them in one namespace.
        restarts: the changes of the pod template of each workload.
        wrong: the pods without a sidecar, those of an unknown revision, and those of the old one after one of the new one.
        mixed: the workloads whose pods got the old revision although they were restarted, before their rollout was complete. This happens
            if another writer moves the tag.
        pods: how many pods there were.
    """

    world: World
    source: str = OLD
    target: str = NEW
    restarting: int = 0
    unavailable: int = 0
    in_a_place: int = 0
    restarts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    mixed: set[str] = field(default_factory=set)
    pods: int = 0
    _now: dict[str, tuple[bool, int]] = field(default_factory=dict)
    _templates: dict[str, Any] = field(default_factory=dict)
    _moved: set[str] = field(default_factory=set)
    _known: set[str] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _has_ended: bool = False

    def turn(self, source: str, target: str) -> None:
        """Begin another direction."""
        with self._lock:
            self.source, self.target = source, target
            self.restarts.clear()
            self._moved.clear()
            self.mixed.clear()

    def names(self) -> list[str]:
        """Return the workloads."""
        return sorted(self._now)

    def is_complete(self, name: str) -> bool:
        """Tell whether a workload exists, and all its pods are of its newest template and available."""
        return self._now.get(name, (True, 0)) == (False, 0)

    def saw(self, kind: str, item: dict[str, Any]) -> None:
        """Take in an object as it is now."""
        meta = item["metadata"]
        if meta["namespace"] not in self.world.places:
            return
        with self._lock:
            if kind == "Pod":
                self._saw_pod(item)
                return
            name, template = f"{kind} {meta['namespace']}/{meta['name']}", item["spec"]["template"]
            self._now[name] = rolling(item)
            self.restarts[name] += self._templates.setdefault(name, template) != template
            self._templates[name] = template
            away: Counter[str] = Counter()
            for other, (_, missing) in self._now.items():
                away[other.split("/")[0].split()[1]] += missing
            self.restarting = max(self.restarting, sum(is_rolling for is_rolling, _ in self._now.values()))
            self.unavailable = max(self.unavailable, away.total())
            self.in_a_place = max(self.in_a_place, *away.values())

    def _saw_pod(self, pod: dict[str, Any]) -> None:
        meta, revision = pod["metadata"], injected_revision(pod)
        if meta["uid"] in self._known:
            return
        self._known.add(meta["uid"])
        self.pods += 1
        workload = f"{meta['namespace']}/{meta['labels']['app']}"
        owner = next((f"{kind} {workload}" for kind in PATHS if f"{kind} {workload}" in self._now), workload)
        if revision == self.target:
            self._moved.add(owner)
        elif revision == self.source and self.restarts[owner] and self._now[owner][0]:
            self.mixed.add(owner)
        elif revision != self.source or owner in self._moved:
            self.wrong.append(f"{meta['namespace']}/{meta['name']}: {revision}")

    @contextmanager
    def running(self) -> Iterator[Watcher]:
        """Watch as long as the block runs, from a complete list on."""
        with ExitStack() as threads:
            for kind in PATHS:
                stream = [self._watch(kind, self._list(kind))]
                thread = threading.Thread(target=self._follow, args=(kind, stream), daemon=True)
                thread.start()
                threads.callback(partial(self._end, stream, thread))
            yield self

    def _list(self, kind: str) -> str:
        """See all objects of a kind, and return the version of the list."""
        with self._open(PATHS[kind]) as answer:
            listed = json.load(answer)
        for item in listed["items"]:
            self.saw(kind, item)
        return str(listed["metadata"]["resourceVersion"])

    def _watch(self, kind: str, version: str) -> Any:
        return self._open(f"{PATHS[kind]}?watch=true&resourceVersion={version}")

    def _open(self, path: str) -> Any:
        return urllib.request.urlopen(f"{self.world.cluster.url}{path}", context=self.world.cluster.tls)  # noqa: S310 -- loopback

    def _follow(self, kind: str, stream: list[Any]) -> None:
        while not self._has_ended:
            with suppress(
                OSError, HTTPException, ValueError, AttributeError
            ):  # `_end` ends it, or the API server is down
                for line in stream[0]:
                    event = json.loads(line)
                    assert event["type"] in ("ADDED", "MODIFIED", "DELETED"), event
                    if event["type"] == "DELETED":
                        self._forget(kind, event["object"]["metadata"])
                    else:
                        self.saw(kind, event["object"])
            if not self._has_ended:
                time.sleep(0.2)
                # An API server that has started again knows no earlier versions.
                with suppress(OSError):
                    stream[0] = self._watch(kind, self._list(kind))

    def _forget(self, kind: str, meta: dict[str, Any]) -> None:
        with self._lock:
            self._now.pop(f"{kind} {meta['namespace']}/{meta['name']}", None)

    def _end(self, stream: list[Any], thread: threading.Thread) -> None:
        assert thread.is_alive(), "the watch has ended"
        self._has_ended = True
        with suppress(OSError, AttributeError):
            stream[0].fp.raw._sock.shutdown(socket.SHUT_RDWR)  # ends the read of the other thread
        thread.join()


def rolling(item: dict[str, Any]) -> tuple[bool, int]:
    """Whether a workload's rollout is not complete, and its pods that are not available."""
    status, generation = item["status"], item["metadata"]["generation"]
    wanted = item["spec"].get("replicas", status.get("desiredNumberScheduled", 0))
    updated = status.get("updatedReplicas", status.get("updatedNumberScheduled", 0))
    available = status.get("availableReplicas", status.get("numberAvailable", 0))
    is_seen = status.get("observedGeneration", 0) >= generation and status.get("replicas", wanted) == wanted
    # A StatefulSet has no updated pods once both revisions are one.
    is_updated = updated == wanted or status.get("currentRevision", "") == status.get("updateRevision", None)
    return not (is_seen and is_updated and available == wanted), max(wanted - available, 0)
