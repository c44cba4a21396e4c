"""A reload builds what has changed, and keeps the last good revision."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import pytest

from injector.errors import ConfigError, InternalError
from injector.istio.revision import Revision
from injector.revisions import files, reload
from injector.revisions.registry import Registry
from injector.revisions.reload import Loader, Prepared
from injector.revisions.reports import LoadReport, RevisionState, report_changes
from injector.revisions.source import ClusterFacts, RawRevision, SourceState, build
from injector.revisions.tags import TagWorkload, parse_tags
from injector.revisions.verify import Verified
from tests.held import LOOKS, few_failures_held
from tests.revisions.fakes import CONFIG, VALUES, facts_with, fake_revision, make_raw, recent_pods, saying

LIMIT = 60.0

BROKEN = CONFIG.replace("{{ .Values", "{{ .Values )")
FAILS = CONFIG.replace(".Values.global.tag", ".Nope")


class Setup:
    """A source whose state a test sets, a registry, and what loads one into the other."""

    def __init__(self, state: SourceState, keep_removed: float = 0.0) -> None:
        self.state: SourceState | ConfigError = state
        self.registry = Registry()
        self.loader = Loader(self.read, self.registry, keep_removed)

    def read(self) -> SourceState:
        if isinstance(self.state, ConfigError):
            raise self.state
        return self.state

    def change(self, now: float = 2.0, **fields: Any) -> LoadReport:
        """Change fields of the source's state, and load it."""
        self.state = replace(self.read(), **fields)
        return self.loader.load(now)

    def prepare(self, now: float) -> Prepared:
        prepared = self.loader.prepare(now)
        assert prepared is not None
        return prepared

    def becomes(self, *revisions: RawRevision, tags: str = "", now: float = 2.0) -> None:
        """Let the source hold other revisions, and load it."""
        self.state = SourceState(revisions, tags=parse_tags(tags))
        self.loader.load(now)


def loaded(tags: str, keep_removed: float = 0.0) -> Setup:
    """Revisions `a` and `b` and tags, loaded at second 1."""
    setup = Setup(SourceState((make_raw("a"), make_raw("b")), tags=parse_tags(tags)), keep_removed)
    setup.loader.load(1.0)
    return setup


@pytest.fixture
def setup() -> Setup:
    """A tag of one revision."""
    return loaded("prod: a")


@pytest.fixture
def keeping() -> Setup:
    """A weighted tag; removed revisions are served for 600 s."""
    return loaded("prod: {a: 90, b: 10}", 600.0)


def test_the_revisions_and_tags_of_the_source_are_served(setup: Setup) -> None:
    snapshot = setup.registry.snapshot

    assert (list(snapshot.revisions), list(snapshot.tags)) == (["a", "b"], ["prod"])
    assert [(state.error, state.loaded_at) for state in setup.loader.report.revisions.values()] == [(None, 1.0)] * 2
    assert setup.loader.report.errors == ()


NEWER = '{"global": {"tag": "1.30.1"}}'


@pytest.mark.parametrize("values", [VALUES, NEWER])
@pytest.mark.parametrize("config", [BROKEN, FAILS, "", "- 1"])
def test_a_broken_revision_keeps_its_last_good_state_and_does_not_affect_others(
    setup: Setup, config: str, values: str
) -> None:
    good = setup.registry.snapshot.revisions["a"]

    setup.becomes(make_raw("a", config=config, values=values), make_raw("b", values=NEWER))

    assert setup.registry.snapshot.revisions["a"] is good
    assert setup.registry.snapshot.revisions["b"].istio_version == "1.30"
    state = setup.loader.report.revisions["a"]
    assert (state.served, state.loaded_at, state.error is None) == (good, 1.0, False)
    assert setup.loader.report.errors == (state.error,)


def test_a_fixed_revision_is_served(setup: Setup) -> None:
    setup.becomes(make_raw("a", config=BROKEN), now=2.0)
    setup.becomes(make_raw("a", values=NEWER), now=3.0)

    state = setup.loader.report.revisions["a"]
    assert (state.error, state.loaded_at) == (None, 3.0)
    assert state.served is setup.registry.snapshot.revisions["a"]


def test_a_revision_that_did_not_change_is_not_built_again(setup: Setup) -> None:
    before = setup.registry.snapshot.revisions["a"]

    setup.becomes(make_raw("a"), make_raw("b", config=BROKEN))

    assert setup.registry.snapshot.revisions["a"] is before
    assert setup.loader.report.revisions["a"].loaded_at == 1.0


def test_an_unreadable_revision_keeps_its_last_good_state(setup: Setup) -> None:
    good = setup.registry.snapshot.revisions["a"]

    report = setup.change(revisions=(make_raw("b"),), failures={"a": ConfigError("it has no `config`")})

    assert setup.registry.snapshot.revisions["a"] is good
    assert str(report.revisions["a"].error) == "it has no `config`"


def test_a_revision_that_was_never_valid_is_reported_and_not_served() -> None:
    setup = Setup(SourceState((make_raw("a", config=BROKEN),), failures={"b": ConfigError("no config")}))

    report = setup.loader.load(1.0)

    assert setup.registry.snapshot.revisions == {}
    assert [(name, state.served, state.error is None) for name, state in report.revisions.items()] == [
        ("a", None, False),
        ("b", None, False),
    ]


def test_a_removed_revision_is_no_longer_served(setup: Setup) -> None:
    setup.becomes(make_raw("b"))

    assert list(setup.registry.snapshot.revisions) == ["b"]
    assert list(setup.loader.report.revisions) == ["b"]


def test_an_unreadable_source_changes_nothing(setup: Setup) -> None:
    before = setup.registry.snapshot
    setup.state = ConfigError("gone")

    with pytest.raises(ConfigError, match="gone"):
        setup.loader.load(2.0)

    assert setup.registry.snapshot is before
    assert setup.loader.report.errors == ()


def test_a_tag_without_a_revision_is_reported_and_not_served(setup: Setup) -> None:
    setup.becomes(make_raw("a"), tags="prod: a\nold: gone")

    assert list(setup.registry.snapshot.tags) == ["prod"]
    assert [str(error).split(":")[0] for error in setup.loader.report.tag_errors] == ["tag `old`"]


@pytest.mark.parametrize("tags", ["prod: c", "prod: {a: 90, c: 10}"])
@pytest.mark.parametrize("others", [(), (make_raw("c", config=BROKEN),)])
def test_a_tag_moved_to_a_missing_revision_stays_and_is_reported(
    setup: Setup, tags: str, others: tuple[RawRevision, ...]
) -> None:
    setup.becomes(make_raw("a"), *others, tags=tags)

    assert setup.registry.snapshot.resolve("prod").revision.name == "a"
    assert [str(error).split(";")[0] for error in setup.loader.report.tag_errors] == [
        "tag `prod`: it names `c`, which is not served"
    ]

    setup.becomes(make_raw("a"), make_raw("c"), tags=tags, now=3.0)
    assert "c" in setup.registry.snapshot.tags["prod"].targets
    assert setup.loader.report.tag_errors == ()


def test_a_tag_whose_old_and_new_revisions_are_missing_is_removed(setup: Setup) -> None:
    setup.becomes(make_raw("b"), tags="prod: c")

    assert list(setup.registry.snapshot.tags) == []


def test_the_default_of_the_source_is_the_default_that_is_served(setup: Setup) -> None:
    setup.change(2.0, default="b")

    assert setup.registry.snapshot.resolve("").revision.name == "b"


def test_nodes_and_namespaces_that_change_do_not_build_a_revision_again(setup: Setup) -> None:
    before = setup.registry.snapshot.revisions["a"]
    facts = ClusterFacts(("v1.33.0",), {"n": {"annotations": {"x": "y"}}})

    setup.becomes(make_raw("a", facts=facts), make_raw("b"), now=9.0)

    after = setup.registry.snapshot.revisions["a"]
    assert (after.node_versions, after.namespaces) == (("v1.33.0",), {"n": {"annotations": {"x": "y"}}})
    assert after.templates is before.templates
    assert (after.fingerprint, setup.loader.report.revisions["a"].loaded_at) == (before.fingerprint, 1.0)


def test_a_changed_proxy_config_is_a_new_snapshot_and_builds_no_revision(setup: Setup) -> None:
    setup.becomes(make_raw("a", facts=facts_with({"concurrency": 1})), now=2.0)
    before = setup.registry.snapshot
    setup.becomes(make_raw("a", facts=facts_with({"concurrency": 1})), now=3.0)
    assert setup.registry.snapshot is before

    setup.becomes(make_raw("a", facts=facts_with({"concurrency": 2})), now=4.0)

    after = setup.registry.snapshot
    assert after is not before
    assert after.revisions["a"].templates is before.revisions["a"].templates
    assert [config.fields for config in after.revisions["a"].proxy_configs_of({"namespace": "shop"}).below] == [
        {"concurrency": 2}
    ]


def test_a_text_that_changes_with_the_facts_builds_it_again(setup: Setup) -> None:
    setup.becomes(make_raw("a", values=NEWER, facts=ClusterFacts(("v1.33.0",))), now=9.0)

    after = setup.registry.snapshot.revisions["a"]
    assert (after.istio_version, after.node_versions) == ("1.30", ("v1.33.0",))


@pytest.mark.parametrize("refused", [True, False], ids=["refused", "unreadable"])
def test_a_kept_revision_gets_the_current_facts(setup: Setup, refused: bool) -> None:
    facts = ClusterFacts(("v1.33.0",))
    broken = SourceState((make_raw("a", config=BROKEN, facts=facts), make_raw("b", facts=facts)), facts=facts)
    unread = SourceState((make_raw("b", facts=facts),), {"a": ConfigError("it has no `config`")}, facts=facts)
    before = setup.registry.snapshot.revisions["a"]
    setup.state = broken if refused else unread

    report = setup.loader.load(2.0)

    assert [state.error is None for state in report.revisions.values()] == [False, True]
    served = setup.registry.snapshot.revisions
    assert [revision.node_versions for revision in served.values()] == [("v1.33.0",)] * 2
    assert (served["a"].templates is before.templates, report.revisions["a"].loaded_at) == (True, 1.0)


def test_a_refused_revision_is_retried_with_new_facts(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    def wants_nodes(revision: Revision) -> Verified:
        if not revision.node_versions:
            raise ConfigError("no pod can be rendered")
        return Verified()

    monkeypatch.setattr(reload, "verify", wants_nodes)
    setup.becomes(make_raw("c"))
    assert setup.loader.report.revisions["c"].error is not None

    facts = ClusterFacts(("v1.33.0",))
    setup.state = SourceState((make_raw("c", facts=facts),), facts=facts)

    assert setup.loader.load(3.0).errors == ()


def test_a_revision_that_fails_on_built_in_pods_is_served_with_a_warning(setup: Setup) -> None:
    before = setup.loader.report
    setup.becomes(make_raw("a", config=saying("(index .Spec.Containers 1).Name")), make_raw("b"))

    state = setup.loader.report.revisions["a"]
    assert (state.error, setup.registry.snapshot.revisions["a"] is state.served) == (None, True)
    assert list(state.failed) == ["plain"]
    (text,) = (text for level, text in report_changes(before, setup.loader.report) if level == logging.WARNING)
    assert text.startswith("revision a: fails on built-in pod plain, so it may fail on others: template: sidecar:")


def test_notes_of_the_source_are_shown_once(setup: Setup) -> None:
    for notes, expected in (({"a": ("it hides another",)}, ("it hides another",)), ({}, ())):
        setup.change(2.0, notes=notes)
        setup.loader.load(3.0)

        assert setup.loader.report.revisions["a"].notes == expected


def test_an_unreadable_tag_stays_while_others_move(setup: Setup) -> None:
    setup.change(2.0, tags=parse_tags("prod: a\nblue: a\n"))
    broken = {"prod": ConfigError("no JSON"), "new": ConfigError("no JSON either")}

    report = setup.change(3.0, tags=parse_tags("blue: b"), tag_faults=broken)

    assert {name: tag.revision for name, tag in setup.registry.snapshot.tags.items()} == {"prod": "a", "blue": "b"}
    assert [str(error) for error in report.tag_errors] == ["no JSON", "no JSON either"]


@pytest.mark.parametrize(
    ("faults", "revision"),
    [
        ({"tags": {}, "tags_error": ConfigError("not valid")}, "a"),
        ({"tags": parse_tags("prod: b"), "tag_faults": {"prod": ConfigError("not valid")}}, "b"),
        ({"tag_faults": {"next": ConfigError("not valid")}}, "a"),
    ],
    ids=["all tags", "a tag that moves", "another tag"],
)
def test_a_fault_of_tags_is_reported_and_keeps_no_tag_from_being_served(
    setup: Setup, faults: dict[str, Any], revision: str
) -> None:
    report = setup.change(2.0, **faults)

    assert {name: tag.revision for name, tag in setup.registry.snapshot.tags.items()} == {"prod": revision}
    assert [str(error) for error in report.tag_errors] == ["not valid"]


def test_a_restored_revision_is_not_built_again(setup: Setup) -> None:
    good = setup.registry.snapshot.revisions["a"]
    setup.becomes(make_raw("a", config=BROKEN), make_raw("b"))
    setup.state = SourceState((make_raw("b"),), failures={"a": ConfigError("it has no `config`")})
    setup.loader.load(3.0)

    setup.becomes(make_raw("a"), make_raw("b"), now=4.0)

    assert setup.registry.snapshot.revisions["a"] is good
    assert setup.loader.report.revisions["a"] == RevisionState("a", good, None, 1.0)


def test_an_unchanged_source_needs_no_load(setup: Setup) -> None:
    assert setup.loader.prepare(2.0) is None


def test_a_report_says_when_it_was_loaded_good_or_not(setup: Setup) -> None:
    ats = [setup.loader.report.at, setup.loader.load(2.0).at]
    setup.state = SourceState((make_raw("c"),))
    ats.append(setup.loader.load(3.0).at)
    setup.state = ConfigError("gone")
    ats.append(setup.loader.adopt(setup.prepare(4.0)).at)

    assert ats == [1.0, 1.0, 3.0, 4.0], "a load without changes does not count"


def test_nothing_is_served_before_it_is_adopted(setup: Setup) -> None:
    before = setup.registry.snapshot
    setup.state = SourceState((make_raw("c"),))

    prepared = setup.prepare(2.0)
    assert setup.registry.snapshot is before

    setup.loader.adopt(prepared)
    assert setup.registry.snapshot is prepared.snapshot
    assert list(setup.registry.snapshot.revisions) == ["c"]


def test_every_revision_reports_an_unreadable_source(setup: Setup) -> None:
    held, before = setup.state, setup.registry.snapshot
    error = setup.state = ConfigError("gone", where="revisions")

    report = setup.loader.adopt(setup.prepare(2.0))

    assert setup.registry.snapshot is before
    assert (report.source_error, report.errors) == (error, (error,))
    assert [(state.served is not None, state.error) for state in report.revisions.values()] == [(True, error)] * 2
    assert setup.loader.prepare(3.0) is None

    setup.state = held
    assert setup.loader.load(4.0).errors == ()


def test_a_source_that_becomes_empty_is_an_error(setup: Setup) -> None:
    setup.state = SourceState(())

    with pytest.raises(ConfigError, match="all revisions have been removed; add a revision"):
        setup.loader.load(2.0)

    assert list(setup.registry.snapshot.revisions) == ["a", "b"]


def test_a_source_that_was_never_served_may_become_empty() -> None:
    setup = Setup(SourceState((), failures={"a": ConfigError("it has no `config`")}))
    setup.loader.load(1.0)
    setup.state = SourceState(())

    assert setup.loader.load(2.0).revisions == {}


def test_a_half_written_change_is_not_built() -> None:
    new = make_raw("a", config=CONFIG.replace("proxy:", "other:"), values=NEWER)
    half = replace(new, values='{"global": {"tag": "1.24.6"}}')
    reads = iter([SourceState((half,)), SourceState((new,)), SourceState((new,))])

    report = Loader(reads.__next__, Registry()).load(1.0)

    served = report.revisions["a"].served
    assert served is not None
    assert served.istio_version == "1.30"
    assert list(reads) == []


def test_a_source_that_keeps_changing_is_not_loaded() -> None:
    reads = (SourceState((make_raw("a", values=f"{{n: {number}}}"),)) for number in range(20))

    with pytest.raises(ConfigError, match="changes while it is read"):
        Loader(reads.__next__, Registry()).load(1.0)


@pytest.mark.parametrize(("again", "tried"), [(False, 0), (True, 1)])
def test_a_refused_revision_is_retried_only_on_request(
    setup: Setup, monkeypatch: pytest.MonkeyPatch, again: bool, tried: int
) -> None:
    setup.becomes(make_raw("a", config=BROKEN), make_raw("b"))
    builds: list[str] = []

    def counted(raw: RawRevision) -> Revision:
        builds.append(raw.name)
        return build(raw)

    monkeypatch.setattr(reload, "build", counted)

    assert (setup.loader.prepare(3.0, again=again) is not None) is again
    assert builds == ["a"] * tried


def test_a_build_that_fails_on_recent_pods_names_them(setup: Setup) -> None:
    good = setup.registry.snapshot.revisions["a"]
    picky = CONFIG.replace(
        "    spec:\n", "    {{ if .ObjectMeta.Labels.tier }}{{ fail .ObjectMeta.Labels.tier }}{{ end }}\n    spec:\n"
    )
    setup.state = SourceState((make_raw("a", config=picky), make_raw("b")))

    prepared = setup.loader.prepare(2.0, recent_pods("a", labels={"tier": "s3cr3t"}))

    assert prepared is not None
    error = str(setup.loader.adopt(prepared).revisions["a"].error)
    assert "StatefulSet db in namespace shop" in error
    assert "s3cr3t" not in error
    assert setup.registry.snapshot.revisions["a"] is good


def test_an_internal_error_affects_only_its_revision(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    good = setup.registry.snapshot.revisions["a"]

    def faulty(raw: RawRevision) -> Revision:
        if raw.name == "a":
            raise KeyError("s3cr3t")
        return build(raw)

    monkeypatch.setattr(reload, "build", faulty)

    setup.becomes(make_raw("a", values="{}"), make_raw("b", values=NEWER))

    assert setup.registry.snapshot.revisions["a"] is good
    assert setup.registry.snapshot.revisions["b"].istio_version == "1.30"
    error = setup.loader.report.revisions["a"].error
    assert isinstance(error, InternalError)
    assert "s3cr3t" not in str(error) + error.origin
    assert error.origin.startswith("KeyError at ")


def no_config(raw: RawRevision) -> Revision:
    """A build that the texts make fail."""
    raise ConfigError(f"is broken: {raw.values}", where=raw.origin)


def no_build(raw: RawRevision) -> Revision:
    """A build that a fault of the injector makes fail."""
    raise KeyError(raw.values)


@pytest.mark.parametrize("broken", [no_config, no_build])
def test_configurations_that_fail_again_and_again_take_no_memory(
    setup: Setup, monkeypatch: pytest.MonkeyPatch, broken: Callable[[RawRevision], Revision]
) -> None:
    monkeypatch.setattr(reload, "build", broken)
    setup.becomes(make_raw("a", values="{}"))

    with few_failures_held():
        for second in range(LOOKS):
            setup.state = SourceState((make_raw("a", values=f"{second}"),))
            setup.loader.adopt(setup.prepare(second))

    assert setup.loader.report.errors


def test_a_read_that_does_not_end_is_an_error_until_it_ends(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "READ_TIMEOUT", 0.05)
    reads, ends = list[str](), threading.Event()
    read = setup.read

    def blocked() -> SourceState:
        reads.append("x")
        ends.wait(LIMIT)
        return read()

    setup.loader.read = blocked
    setup.state = SourceState((make_raw("a", values=VALUES.replace("1.24", "1.30")),))
    failed = setup.prepare(2.0)
    setup.loader.adopt(failed)
    assert str(failed.report.source_error) == (
        "the configuration cannot be read within 0.05 s; check the volume that it is on"
    )
    assert setup.registry.snapshot.revisions["a"].istio_version == "1.24"
    assert setup.loader.prepare(3.0) is None  # the same error
    assert len(reads) == 1  # no thread for each attempt

    monkeypatch.setattr(files, "READ_TIMEOUT", LIMIT)
    ends.set()
    deadline = time.monotonic() + LIMIT
    while setup.loader.report.errors and time.monotonic() < deadline:
        if (prepared := setup.loader.prepare(4.0)) is not None:  # the blocked read may take a moment to end
            setup.loader.adopt(prepared)
        time.sleep(0.01)
    assert setup.loader.report.errors == ()
    assert setup.registry.snapshot.revisions["a"].istio_version == "1.30"


def test_a_source_that_fails_again_and_again_takes_no_memory(setup: Setup) -> None:
    setup.state = ConfigError("cannot be read")

    with few_failures_held():
        for second in range(LOOKS):
            setup.state = ConfigError(f"cannot be read: {second}")
            if (prepared := setup.loader.prepare(second)) is not None:
                setup.loader.adopt(prepared)

    assert str(setup.loader.report.source_error) == f"cannot be read: {LOOKS - 1}"


A = fake_revision("a")
GOOD = RevisionState("a", A, None, 1.0)
BROKEN_SINCE = replace(GOOD, error=ConfigError("is empty", where="a/config"))
NEVER = RevisionState("a", None, ConfigError("is empty", where="a/config"))
NEW = RevisionState("a", fake_revision("a", fingerprint="beef"), None, 2.0, ("it leaves a pod alone",))
GONE = LoadReport({"a": replace(GOOD, error=ConfigError("gone"))}, (), ConfigError("gone"))
EMPTY = LoadReport()
SERVED = "revision a: Istio 1.24 (stated), go, fingerprint {}, from revisions/a"


def report(*states: RevisionState, tags: str = "") -> LoadReport:
    return LoadReport({state.name: state for state in states}, tags=parse_tags(tags))


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (EMPTY, EMPTY, []),
        (EMPTY, report(GOOD), [(logging.INFO, SERVED.format("f00d"))]),
        (report(GOOD), report(GOOD), []),
        (
            report(GOOD),
            report(NEW),
            [(logging.INFO, SERVED.format("beef")), (logging.WARNING, "revision a: it leaves a pod alone")],
        ),
        (EMPTY, report(NEVER), [(logging.ERROR, "not served: a/config: is empty")]),
        (
            report(GOOD),
            report(BROKEN_SINCE),
            [(logging.ERROR, "not served, keeping the last good one: a/config: is empty")],
        ),
        (report(BROKEN_SINCE), report(BROKEN_SINCE), []),
        (
            report(BROKEN_SINCE),
            report(GOOD),
            [(logging.INFO, "revision a: its source matches the served revision again")],
        ),
        # Nodes and namespaces that came and went: another object, the same build.
        (report(GOOD), report(replace(GOOD, served=fake_revision("a"))), []),
        (
            report(GOOD),
            report(replace(GOOD, notes=("it hides another",))),
            [(logging.WARNING, "revision a: it hides another")],
        ),
        (report(GOOD), EMPTY, [(logging.INFO, "revision a: removed")]),
        (report(GOOD), GONE, [(logging.ERROR, "keeping the current configuration: gone")]),
        (GONE, GONE, []),
        (GONE, report(GOOD), [(logging.INFO, "the configuration can be read again")]),
        (report(GOOD), report(GOOD, tags="prod: a"), [(logging.INFO, "tag prod: a")]),
        (
            report(GOOD, tags="prod: a\nold: a"),
            report(GOOD, tags="prod: {a: 9, b: 1}"),
            [(logging.INFO, "tag old: removed"), (logging.INFO, "tag prod: a=9,b=1")],
        ),
        (
            report(GOOD),
            replace(report(GOOD), tag_errors=(ConfigError("leads nowhere", where="tag `x`"),)),
            [(logging.ERROR, "not served: tag `x`: leads nowhere")],
        ),
    ],
)
def test_only_differences_are_logged(before: LoadReport, after: LoadReport, expected: list[tuple[int, str]]) -> None:
    assert list(report_changes(before, after)) == expected


def test_an_internal_error_is_logged_with_its_origin() -> None:
    error = InternalError("it cannot be built", where="a", origin="KeyError at revisions/source.py:7")

    ((_, line),) = report_changes(EMPTY, report(RevisionState("a", None, error)))

    assert line == "not served: a: it cannot be built (KeyError at revisions/source.py:7)"


def revisions_of(setup: Setup, tag: str, count: int = 200) -> list[str]:
    """The revisions of some workloads of a tag."""
    snapshot = setup.registry.snapshot
    return [
        snapshot.resolve(tag, partial(TagWorkload, ("shop", "Deployment", str(n)))).revision.name for n in range(count)
    ]


def test_a_removed_revision_is_served_for_some_time_and_shown(keeping: Setup) -> None:
    before = revisions_of(keeping, "prod")

    keeping.becomes(make_raw("a"), tags="prod: {a: 90, b: 10}", now=100.0)

    assert revisions_of(keeping, "prod") == before
    assert keeping.registry.snapshot.resolve("b").revision.name == "b"
    assert keeping.loader.report.revisions["b"].removed_until == keeping.loader.expires_at == 700.0
    assert [str(error).split(";")[0] for error in keeping.loader.report.tag_errors] == [
        "tag `prod`: it names `b`, which was removed and is served for a limited time"
    ]


def test_a_removed_revision_gets_the_current_facts(keeping: Setup) -> None:
    keeping.becomes(make_raw("a"), now=100.0)
    facts = ClusterFacts(("v1.33.0",), {"n": {"annotations": {"x": "y"}}})
    keeping.state = SourceState((make_raw("a", facts=facts),), facts=facts)

    report = keeping.loader.load(200.0)

    served = keeping.registry.snapshot.revisions
    assert [(revision.node_versions, revision.namespaces) for revision in served.values()] == [
        (facts.node_versions, facts.namespaces)
    ] * 2
    assert report.revisions["b"].removed_until == 700.0


def test_after_that_time_its_workloads_go_to_the_others_and_only_they_move(keeping: Setup) -> None:
    before = revisions_of(keeping, "prod")
    keeping.becomes(make_raw("a"), tags="prod: {a: 90, b: 10}", now=100.0)

    assert keeping.loader.prepare(699.0) is None
    keeping.loader.load(700.0)

    assert "b" in before
    assert set(revisions_of(keeping, "prod")) == {"a"}
    assert "b" not in keeping.registry.snapshot.revisions
    assert keeping.loader.expires_at == math.inf
    assert "names `b`, which is not served" in str(keeping.loader.report.tag_errors[0])


def test_only_the_workloads_of_a_missing_revision_move(keeping: Setup) -> None:
    keeping.becomes(make_raw("a"), make_raw("b"), make_raw("c"), tags="prod: {a: 50, b: 30, c: 20}")
    before = revisions_of(keeping, "prod")

    keeping.becomes(make_raw("a"), make_raw("b"), tags="prod: {a: 50, b: 30, c: 20}", now=100.0)
    keeping.loader.load(1000.0)

    after = revisions_of(keeping, "prod")
    assert [new for old, new in zip(before, after, strict=True) if old != "c"] == [old for old in before if old != "c"]
    assert {new for old, new in zip(before, after, strict=True) if old == "c"} == {"a", "b"}


def test_a_revision_that_is_replaced_is_served_meanwhile_and_the_new_one_at_once(keeping: Setup) -> None:
    keeping.becomes(make_raw("a"), tags="prod: {a: 90, b: 10}", now=100.0)

    keeping.becomes(make_raw("a"), make_raw("b", config=CONFIG + "\n"), tags="prod: {a: 90, b: 10}", now=101.0)

    state = keeping.loader.report.revisions["b"]
    assert (state.loaded_at, state.removed_until, keeping.loader.report.errors) == (101.0, 0.0, ())


def test_a_revision_that_comes_back_unchanged_or_invalid_is_not_removed_any_more(keeping: Setup) -> None:
    for config in (CONFIG, BROKEN):
        keeping.becomes(make_raw("a"), now=100.0)
        keeping.becomes(make_raw("a"), make_raw("b", config=config), now=101.0)

        assert keeping.loader.report.revisions["b"].removed_until == 0.0
        assert keeping.registry.snapshot.resolve("b").revision.name == "b"


def test_a_removed_revision_is_no_default(keeping: Setup) -> None:
    keeping.becomes(make_raw("a"), now=100.0)

    assert keeping.registry.snapshot.default == "a"


def test_the_log_says_when_a_revision_is_removed_comes_back_and_is_dropped(keeping: Setup) -> None:
    reports = [keeping.loader.report]
    both = (make_raw("a"), make_raw("b"))
    for revisions, now in ((both[:1], 100.0), (both, 101.0), (both[:1], 102.0)):
        keeping.becomes(*revisions, now=now)
        reports.append(keeping.loader.report)
    reports.append(keeping.loader.load(800.0))

    lines = [text for pair in pairwise(reports) for _, text in report_changes(*pair) if text.startswith("revision b")]
    assert lines == [
        "revision b: removed; it is served for another 600 s",
        "revision b: its source has it again",
        "revision b: removed; it is served for another 600 s",
        "revision b: removed",
    ]


def test_a_weighted_tag_loses_its_missing_revision_alone_and_keeps_its_weights(setup: Setup) -> None:
    setup.becomes(make_raw("a"), make_raw("b"), tags="prod: {a: 90, b: 10}")
    before = revisions_of(setup, "prod")

    setup.becomes(make_raw("a"), make_raw("b"), tags="prod: {typo: 90, b: 10}", now=3.0)
    assert revisions_of(setup, "prod") == before

    setup.becomes(make_raw("a"), tags="prod: {a: 90, b: 10}", now=4.0)
    assert set(revisions_of(setup, "prod")) == {"a"}


def test_the_weighted_tag_default_loses_its_missing_revision_alone(setup: Setup) -> None:
    weighted = "default: {default: 90, b: 10}"
    setup.becomes(make_raw("default"), make_raw("b"), tags=weighted)

    setup.becomes(make_raw("default"), tags=weighted, now=3.0)

    assert setup.registry.snapshot.tags["default"].weights == (("default", 90),)
