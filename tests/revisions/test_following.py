"""A source is followed: changes are loaded once it is quiet, and again after a fault."""

from __future__ import annotations

import asyncio
import json
import logging
import shutil
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from injector.errors import ConfigError, InternalError, RecentPodError
from injector.istio.revision import Revision
from injector.metrics import Metrics, RevisionRow
from injector.revisions import following as following_module
from injector.revisions.directory import read_directory, read_single
from injector.revisions.following import Reloader
from injector.revisions.registry import Registry
from injector.revisions.reload import Loader
from injector.revisions.reports import LoadReport, RevisionState, failure_of
from injector.revisions.source import ReadSource, SourceState
from injector.revisions.verify import RecentPods
from tests.cluster.fakes import in_fake_time
from tests.factories import make_pod, make_review
from tests.mounts import mount
from tests.revisions.clock import FakeClock
from tests.revisions.fakes import CONFIG, VALUES, write_revision
from tests.tasks import running, until

RETRY = 600.0
SETTLE = 0.2
KEEP = 3600.0

LIMIT = 20.0
INTERVAL = 30.0
BROKEN = CONFIG.replace("{{ .Values", "{{ .Values )")
NEWER = '{"global": {"tag": "1.30.1"}}'


@dataclass
class Spy:
    """A source that remembers which threads read it, and fails as a test says."""

    source: ReadSource
    fault: Exception | None = None
    readers: list[threading.Thread] = field(default_factory=list)

    def read(self) -> SourceState:
        self.readers.append(threading.current_thread())
        if self.fault is not None:
            raise self.fault
        return self.source()


class NotedMetrics(Metrics):
    """Metrics that tell when they are shown a report."""

    def __init__(self, collector: CollectorRegistry, show: Callable[[], None]) -> None:
        super().__init__(collector)
        self._show = show

    def set_revisions(self, rows: Mapping[str, RevisionRow], *, tags_valid: bool, webhook_faults: int = 0) -> None:
        super().set_revisions(rows, tags_valid=tags_valid, webhook_faults=webhook_faults)
        self._show()


@dataclass
class Following:
    """A follower at work, with what a test does to it and sees of it."""

    source: Spy
    interval: float = INTERVAL
    keep_removed: float = 0.0
    registry: Registry = field(default_factory=Registry)
    collector: CollectorRegistry = field(default_factory=CollectorRegistry)
    clock: FakeClock = field(default_factory=lambda: FakeClock({SETTLE}))
    recent: RecentPods = field(default_factory=RecentPods)
    changes: asyncio.Queue[Exception | None] = field(default_factory=asyncio.Queue)
    reports: asyncio.Queue[LoadReport] = field(default_factory=asyncio.Queue)
    cannot_show: list[Exception] = field(default_factory=list)
    failed: asyncio.Event = field(default_factory=asyncio.Event)
    watches: int = 0
    now: float = 7.0

    def __post_init__(self) -> None:
        self.loader = Loader(self.source.read, self.registry, self.keep_removed)
        self.loader.load(0.0)
        self.source.readers.clear()
        self.metrics = NotedMetrics(self.collector, self.show)
        sources = self.loader, self.watch, self.interval, self.recent, self.metrics
        self.follower = Reloader(*sources, sleep=self.clock.sleep, now=lambda: self.now)

    async def watch(self) -> AsyncIterator[None]:
        self.watches += 1
        while True:
            fault = await self.changes.get()
            if fault is not None:
                raise fault
            yield

    def show(self) -> None:
        if self.cannot_show:
            self.failed.set()
            raise self.cannot_show.pop()
        self.reports.put_nowait(self.loader.report)

    async def changed(self) -> LoadReport:
        """Tell of a change; return what came of it."""
        self.changes.put_nowait(None)
        return await self.reports.get()

    def count(self, reason: str = "") -> float | None:
        if not reason:
            return self.collector.get_sample_value("injector_config_reloads_total")
        return self.collector.get_sample_value("injector_config_reload_failures_total", {"reason": reason})

    def version(self, name: str = "a") -> str:
        return self.registry.snapshot.revisions[name].istio_version


@asynccontextmanager
async def following(source: Path | ReadSource, *, limit: float = LIMIT, **fields: Any) -> AsyncIterator[Following]:
    """Follow a directory or another source for as long as a test needs it."""
    at_work = Following(Spy(partial(read_directory, source) if isinstance(source, Path) else source), **fields)
    async with running(at_work.follower.run()):
        async with asyncio.timeout(limit):
            yield at_work


@pytest.fixture
def revisions(tmp_path: Path) -> Path:
    """A folder of two revisions, `a` mounted as the kubelet does, and the tags."""
    mount(tmp_path / "a", {"config": CONFIG, "values": VALUES})
    write_revision(tmp_path / "b", values=VALUES)
    (tmp_path / "tags.yaml").write_text("prod: a")
    return tmp_path


def renamed_onto(path: Path, text: str) -> None:
    """Change a file as an editor does."""
    beside = path.with_name(f".{path.name}.swp")
    beside.write_text(text)
    beside.replace(path)


def moved(path: Path, elsewhere: Path) -> None:
    path.rename(elsewhere)


async def test_a_mounted_config_map_that_is_swapped_is_served(revisions: Path) -> None:
    async with following(revisions) as at_work:
        mount(revisions / "a", {"config": CONFIG, "values": NEWER})

        report = await at_work.changed()

    assert (at_work.version("a"), at_work.version("b")) == ("1.30", "1.24")
    assert [report.revisions[name].loaded_at for name in "ab"] == [7.0, 0.0]
    assert (at_work.count(), at_work.count("revision")) == (1, 0)


async def test_a_deleted_revision_is_removed_with_its_pods(revisions: Path) -> None:
    async with following(revisions) as at_work:
        for name in "ab":
            at_work.recent.keep(name, b"{}", pod={}, namespace="shop", envs={})
        shutil.rmtree(revisions / "b")
        await at_work.changed()

    assert list(at_work.registry.snapshot.revisions) == ["a"]
    assert list(at_work.recent.snapshot()) == ["a"]


async def test_a_tag_that_is_moved_leads_elsewhere(revisions: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    async with following(revisions) as at_work:
        renamed_onto(revisions / "tags.yaml", "prod: b")
        await at_work.changed()

    assert at_work.registry.snapshot.resolve("prod").revision.name == "b"
    assert "tag prod: b" in caplog.messages


async def test_a_broken_template_keeps_the_last_good_one_until_it_is_fixed(
    revisions: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with following(revisions) as at_work:
        good = at_work.registry.snapshot.revisions["a"]
        mount(revisions / "a", {"config": BROKEN, "values": VALUES})
        broken = await at_work.changed()
        assert at_work.registry.snapshot.revisions["a"] is good
        mount(revisions / "a", {"config": CONFIG, "values": NEWER})
        mended = await at_work.changed()

    assert "unexpected right paren" in str(broken.revisions["a"].error)
    assert any(message.startswith("not served, keeping the last good one: ") for message in caplog.messages)
    assert (mended.revisions["a"].error, at_work.version("a")) == (None, "1.30")
    assert (at_work.count(), at_work.count("revision")) == (2, 1)


async def test_a_folder_that_vanishes_is_shown_and_everything_stays(revisions: Path) -> None:
    async with following(revisions) as at_work:
        moved(revisions, revisions.with_name("gone"))
        gone = await at_work.changed()
        assert list(at_work.registry.snapshot.revisions) == ["a", "b"]
        moved(revisions.with_name("gone"), revisions)
        back = await at_work.changed()

    assert [state.error is None for state in gone.revisions.values()] == [False, False]
    assert back.errors == ()
    assert (at_work.count(), at_work.count("source")) == (2, 1)


async def test_the_metrics_name_an_istio_newer_than_any_supported_one(revisions: Path) -> None:
    async with following(revisions) as at_work:
        renamed_onto(revisions / "b" / "values", '{"global": {"tag": "1.33.1"}}')
        await at_work.clock.wake(INTERVAL)
        await at_work.reports.get()

    (info,) = (metric for metric in at_work.collector.collect() if metric.name == "injector_revision_info")
    versions = {
        sample.labels["revision"]: (sample.labels["istio_version"], sample.labels["newer_istio"])
        for sample in info.samples
    }
    assert versions == {"a": ("1.24", ""), "b": ("1.32", "1.33.1")}


async def test_the_files_of_one_revision_are_followed_too(tmp_path: Path) -> None:
    (tmp_path / "config").write_text(CONFIG)
    (tmp_path / "values").write_text(VALUES)

    async with following(partial(read_single, tmp_path / "config", tmp_path / "values")) as at_work:
        renamed_onto(tmp_path / "values", NEWER)
        await at_work.changed()

    assert at_work.version("default") == "1.30"


@pytest.mark.parametrize("is_polled", [False, True])
async def test_a_file_renamed_onto_another_is_served_with_and_without_an_event(
    revisions: Path, is_polled: bool
) -> None:
    async with following(revisions) as at_work:
        renamed_onto(revisions / "b" / "values", NEWER)
        if is_polled:
            await at_work.clock.wake(INTERVAL)
            await at_work.reports.get()
        else:
            await at_work.changed()

    assert at_work.version("b") == "1.30"
    assert at_work.source.readers
    assert threading.main_thread() not in at_work.source.readers, "the event loop neither reads nor builds"


async def test_a_poll_that_finds_nothing_reads_once_and_does_nothing(revisions: Path) -> None:
    async with following(revisions) as at_work:
        before = at_work.registry.snapshot
        for _ in range(2):
            at_work.source.readers.clear()
            await at_work.clock.wake(INTERVAL)
            await until(lambda: len(at_work.source.readers) == 1)
        await at_work.clock.asleep(INTERVAL)
        assert (at_work.registry.snapshot is before, at_work.count()) == (True, 0)
        assert at_work.reports.empty()


async def test_a_poll_waits_as_well_until_a_change_that_it_finds_is_whole(revisions: Path) -> None:
    async with following(revisions, clock=FakeClock()) as at_work:
        (revisions / "b" / "values").write_text("")
        await at_work.clock.wake(INTERVAL)
        await at_work.clock.asleep(SETTLE)
        (revisions / "b" / "values").write_text(NEWER)
        await at_work.clock.wake(SETTLE)
        report = await at_work.reports.get()

    assert (report.errors, at_work.version("b"), at_work.count()) == ((), "1.30", 1)


async def test_changes_in_a_row_are_one_reload_once_it_is_quiet(revisions: Path) -> None:
    async with following(revisions, clock=FakeClock()) as at_work:
        for _ in range(2):
            at_work.changes.put_nowait(None)
            await at_work.clock.asleep(SETTLE)
            at_work.changes.put_nowait(None)
            await until(at_work.changes.empty)
            renamed_onto(revisions / "b" / "values", NEWER)
            assert at_work.source.readers == []
            await at_work.clock.wake(SETTLE)
        await at_work.clock.wake(SETTLE)
        await at_work.reports.get()

    assert (at_work.count(), at_work.version("b")) == (1, "1.30")


async def test_a_source_that_is_never_quiet_is_read_all_the_same(revisions: Path) -> None:
    async with following(revisions, clock=FakeClock()) as at_work:
        renamed_onto(revisions / "b" / "values", NEWER)
        at_work.changes.put_nowait(None)
        for _ in range(3):
            await at_work.clock.asleep(SETTLE)
            at_work.changes.put_nowait(None)
            await until(at_work.changes.empty)
            await at_work.clock.wake(SETTLE)
        await at_work.reports.get()

    assert at_work.version("b") == "1.30"


async def test_a_requested_reload_does_not_wait_and_retries_refused_revisions(
    revisions: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    async with following(revisions, clock=FakeClock(), interval=0.0) as at_work:
        renamed_onto(revisions / "b" / "config", BROKEN)
        at_work.follower.reload()
        await at_work.reports.get()
        at_work.follower.reload()
        await at_work.reports.get()
        renamed_onto(revisions / "b" / "config", CONFIG)
        at_work.follower.reload()
        await at_work.reports.get()
        at_work.follower.reload()
        await until(lambda: "reload requested: nothing changed" in caplog.messages)

    assert at_work.clock.slept == []
    assert (at_work.count(), at_work.count("revision")) == (3, 2)


async def test_an_interval_of_0_follows_nothing(revisions: Path) -> None:
    async with following(revisions, interval=0.0) as at_work:
        at_work.follower.reload()
        await until(lambda: at_work.source.readers)

        assert (at_work.watches, at_work.clock.slept) == (0, [])


async def test_a_fault_of_the_injector_is_counted_and_the_next_change_is_followed(
    revisions: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with following(revisions) as at_work:
        at_work.source.fault = KeyError("s3cr3t")
        faulty = await at_work.changed()
        at_work.source.fault = None
        renamed_onto(revisions / "b" / "values", NEWER)
        mended = await at_work.changed()

    assert isinstance(faulty.source_error, InternalError)
    assert (mended.errors, at_work.version("b"), at_work.count("internal")) == ((), "1.30", 1)
    assert any(message.startswith("failed to reload: KeyError at ") for message in caplog.messages)
    assert "s3cr3t" not in caplog.text


async def test_after_a_fault_of_the_injector_a_source_without_a_watch_is_read_again(revisions: Path) -> None:
    at_work = Following(Spy(partial(read_directory, revisions)))
    at_work.follower.watch = None
    async with asyncio.timeout(LIMIT), running(at_work.follower.run()):
        await at_work.clock.asleep(INTERVAL)
        at_work.source.fault = MemoryError()
        at_work.follower.on_change()
        assert isinstance((await at_work.reports.get()).source_error, InternalError)
        at_work.source.fault = None
        await at_work.clock.wake(INTERVAL)
        assert (await at_work.reports.get()).source_error is None


async def test_a_report_that_cannot_be_shown_is_counted_and_the_next_is(
    revisions: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with following(revisions) as at_work:
        at_work.cannot_show.append(KeyError("s3cr3t"))
        renamed_onto(revisions / "b" / "values", NEWER)
        at_work.changes.put_nowait(None)
        await at_work.failed.wait()
        renamed_onto(revisions / "tags.yaml", "prod: b")
        await at_work.changed()

    assert (at_work.version("b"), at_work.count(), at_work.count("internal")) == ("1.30", 2, 1)
    assert any(message.startswith("failed to report a reload: KeyError at ") for message in caplog.messages)


@pytest.mark.parametrize(
    ("report", "reason"),
    [
        (LoadReport(), ""),
        (LoadReport({"a": RevisionState("a", None)}), ""),
        (LoadReport({}, (), ConfigError("gone")), "source"),
        (LoadReport({}, (), InternalError("fault")), "internal"),
        (LoadReport({"a": RevisionState("a", None, InternalError("fault"))}), "internal"),
        (LoadReport({"a": RevisionState("a", None, ConfigError("broken"))}, (ConfigError("nowhere"),)), "revision"),
        (LoadReport({}, (ConfigError("nowhere"),)), "tags"),
    ],
)
def test_a_reload_that_failed_has_one_reason(report: LoadReport, reason: str) -> None:
    assert failure_of(report) == reason


async def test_a_reported_change_is_read_even_without_a_watch(tmp_path: Path) -> None:
    write_revision(tmp_path / "a", values=VALUES)

    async with asyncio.timeout(LIMIT), following(tmp_path, interval=0.0) as at_work:
        (tmp_path / "a" / "values").write_text(NEWER)
        at_work.follower.on_change()
        await at_work.reports.get()

        assert at_work.version() == "1.30"


async def refused_by_a_pod(at_work: Following, revisions: Path) -> tuple[LoadReport, Revision]:
    """Change revision `a` so that it fails on a recent pod; return what came of it, and the revision that stays."""
    meta = {"name": "web", "labels": {"tier": "x"}}
    review = make_review({**make_pod(), "metadata": meta})
    picky = CONFIG.replace("    spec:\n", "    {{ if .ObjectMeta.Labels.tier }}{{ fail `no` }}{{ end }}\n    spec:\n")
    at_work.recent.keep("a", json.dumps(review).encode(), pod={"metadata": meta}, namespace="shop", envs={})
    before = at_work.registry.snapshot.revisions["a"]
    mount(revisions / "a", {"config": picky, "values": VALUES})
    return await at_work.changed(), before


async def test_a_recent_pod_keeps_a_revision_out_no_longer_than_it_is_recent(
    revisions: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following_module, "RETRY", 0.0)
    now = 0.0
    async with following(revisions, recent=RecentPods(clock=lambda: now)) as at_work:
        refused, before = await refused_by_a_pod(at_work, revisions)

        now = KEEP
        report = refused
        while report.errors:
            report = await at_work.reports.get()

    assert isinstance(refused.revisions["a"].error, RecentPodError)
    assert refused.revisions["a"].served is before
    assert report.revisions["a"].served is not before


@in_fake_time
async def test_other_changes_do_not_delay_the_retry_of_a_revision(
    revisions: Path,
) -> None:
    now = 0.0
    async with following(revisions, recent=RecentPods(clock=lambda: now), limit=10 * RETRY) as at_work:
        refused, _ = await refused_by_a_pod(at_work, revisions)
        now = KEEP
        for name in "ba":
            await asyncio.sleep(0.6 * RETRY)
            renamed_onto(revisions / "tags.yaml", f"prod: {name}")
            await at_work.changed()

    assert isinstance(refused.revisions["a"].error, RecentPodError)
    assert at_work.loader.report.errors == ()


@pytest.mark.parametrize("is_set_back", [False, True])
async def test_a_removed_revision_is_dropped_in_time_although_the_clock_was_set_back(
    revisions: Path, is_set_back: bool
) -> None:
    async with following(revisions, keep_removed=0.01) as at_work:
        shutil.rmtree(revisions / "b")
        removed = await at_work.changed()
        if is_set_back:
            reads = len(at_work.source.readers)
            at_work.now -= 0.01
            await until(lambda: len(at_work.source.readers) > reads)
        at_work.now += 0.03
        dropped = await at_work.reports.get()

    assert removed.revisions["b"].removed_until == 7.01
    assert "b" not in dropped.revisions
    assert "b" not in at_work.registry.snapshot.revisions


async def test_a_removed_revision_that_ends_during_a_fault_makes_no_more_reads(
    revisions: Path,
) -> None:
    async with following(revisions, keep_removed=0.01) as at_work:
        shutil.rmtree(revisions / "b")
        await at_work.changed()
        at_work.source.fault = ConfigError("it is not mounted")
        await at_work.changed()
        at_work.now += 60.0
        reads = len(at_work.source.readers)
        await asyncio.sleep(0.1)
        assert len(at_work.source.readers) <= reads + 1  # its time may have come just before the fault

        at_work.source.fault = None
        mended = await at_work.changed()

    assert list(mended.revisions) == ["a"]


async def test_a_revision_that_was_removed_before_the_server_was_ready_is_dropped_in_time(revisions: Path) -> None:
    at_work = Following(Spy(partial(read_directory, revisions)), interval=0.0, keep_removed=0.01)
    shutil.rmtree(revisions / "b")
    at_work.follower.on_change()
    assert at_work.reports.get_nowait().revisions["b"].removed_until == 7.01

    async with running(at_work.follower.run()), asyncio.timeout(LIMIT):
        at_work.now += 0.03
        dropped = await at_work.reports.get()

    assert list(dropped.revisions) == ["a"]
