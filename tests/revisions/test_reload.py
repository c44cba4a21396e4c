from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from injector.errors import ConfigError
from injector.revisions.registry import Registry
from injector.revisions.reload import Loader
from injector.revisions.source import ClusterFacts, RawRevision, SourceState
from injector.revisions.tags import parse_tags
from tests.revisions.fakes import CONFIG, make_raw

BROKEN = CONFIG.replace("{{ .Values", "{{ .Values )")
FAILS = CONFIG.replace(".Values.global.tag", "(index .Spec.Containers 99).Name")


@dataclass
class FakeSource:
    """A source whose state a test sets."""

    state: SourceState | ConfigError

    def read(self) -> SourceState:
        if isinstance(self.state, ConfigError):
            raise self.state
        return self.state


@dataclass
class Setup:
    """A source, a registry, and what loads one into the other."""

    source: FakeSource
    registry: Registry
    loader: Loader

    def becomes(self, *revisions: RawRevision, tags: str = "", now: float = 2.0) -> None:
        """Let the source hold other revisions, and load it."""
        self.source.state = SourceState(revisions, tags=parse_tags(tags))
        self.loader.load(now)


@pytest.fixture
def setup() -> Setup:
    """Revisions `a` and `b` and a tag, loaded at second 1."""
    source = FakeSource(SourceState((make_raw("a"), make_raw("b")), tags=parse_tags("prod: a")))
    registry = Registry()
    loader = Loader(source, registry)
    loader.load(1.0)
    return Setup(source, registry, loader)


def test_what_the_source_holds_is_served(setup: Setup) -> None:
    snapshot = setup.registry.snapshot

    assert (list(snapshot.revisions), list(snapshot.tags)) == (["a", "b"], ["prod"])
    assert [(state.error, state.loaded_at) for state in setup.loader.report.revisions.values()] == [(None, 1.0)] * 2
    assert setup.loader.report.errors == ()


@pytest.mark.parametrize("config", [BROKEN, FAILS, "", "- 1"])
def test_a_revision_that_broke_keeps_what_it_served_and_leaves_the_others(setup: Setup, config: str) -> None:
    good = setup.registry.snapshot.revisions["a"]

    setup.becomes(make_raw("a", config=config), make_raw("b", values='{"global": {"tag": "1.30.1"}}'))

    assert setup.registry.snapshot.revisions["a"] is good
    assert setup.registry.snapshot.revisions["b"].istio_version == "1.30"
    state = setup.loader.report.revisions["a"]
    assert (state.served, state.loaded_at, state.error is None) == (good, 1.0, False)
    assert setup.loader.report.errors == (state.error,)


def test_new_values_never_meet_an_old_template(setup: Setup) -> None:
    good = setup.registry.snapshot.revisions["a"]

    setup.becomes(make_raw("a", config=BROKEN, values='{"global": {"tag": "1.30.1"}}'))

    assert setup.registry.snapshot.revisions["a"] is good


def test_a_revision_that_is_mended_is_served_anew(setup: Setup) -> None:
    setup.becomes(make_raw("a", config=BROKEN), now=2.0)
    setup.becomes(make_raw("a", values='{"global": {"tag": "1.30.1"}}'), now=3.0)

    state = setup.loader.report.revisions["a"]
    assert (state.error, state.loaded_at) == (None, 3.0)
    assert state.served is setup.registry.snapshot.revisions["a"]


def test_a_revision_that_did_not_change_is_not_built_again(setup: Setup) -> None:
    before = setup.registry.snapshot.revisions["a"]

    setup.becomes(make_raw("a"), make_raw("b", config=BROKEN))

    assert setup.registry.snapshot.revisions["a"] is before
    assert setup.loader.report.revisions["a"].loaded_at == 1.0


def test_a_revision_that_cannot_be_read_keeps_what_it_served(setup: Setup) -> None:
    good = setup.registry.snapshot.revisions["a"]
    setup.source.state = SourceState((make_raw("b"),), failures={"a": ConfigError("it has no `config`")})

    report = setup.loader.load(2.0)

    assert setup.registry.snapshot.revisions["a"] is good
    assert str(report.revisions["a"].error) == "it has no `config`"


def test_a_revision_that_was_never_good_is_not_served_and_is_shown() -> None:
    registry = Registry()
    source = FakeSource(SourceState((make_raw("a", config=BROKEN),), failures={"b": ConfigError("no config")}))

    report = Loader(source, registry).load(1.0)

    assert registry.snapshot.revisions == {}
    assert [(name, state.served, state.error is None) for name, state in report.revisions.items()] == [
        ("a", None, False),
        ("b", None, False),
    ]


def test_a_revision_that_is_gone_is_gone(setup: Setup) -> None:
    setup.becomes(make_raw("b"))

    assert list(setup.registry.snapshot.revisions) == ["b"]
    assert list(setup.loader.report.revisions) == ["b"]


def test_a_source_that_cannot_be_read_leaves_everything(setup: Setup) -> None:
    before = setup.registry.snapshot
    setup.source.state = ConfigError("gone")

    with pytest.raises(ConfigError, match="gone"):
        setup.loader.load(2.0)

    assert setup.registry.snapshot is before
    assert setup.loader.report.errors == ()


def test_tags_that_cannot_be_read_stay_as_they_were(setup: Setup) -> None:
    assert isinstance(setup.source.state, SourceState)
    setup.source.state = replace(setup.source.state, tags={}, tags_error=ConfigError("no mapping"))

    report = setup.loader.load(2.0)

    assert list(setup.registry.snapshot.tags) == ["prod"]
    assert [str(error) for error in report.errors] == ["no mapping"]


def test_a_tag_that_leads_nowhere_is_not_served_and_is_shown(setup: Setup) -> None:
    setup.becomes(make_raw("a"), tags="prod: a\nold: gone")

    assert list(setup.registry.snapshot.tags) == ["prod"]
    assert [str(error).split(":")[0] for error in setup.loader.report.tag_errors] == ["tag `old`"]


def test_the_default_of_the_source_is_the_default_that_is_served(setup: Setup) -> None:
    assert isinstance(setup.source.state, SourceState)
    setup.source.state = replace(setup.source.state, default="b")

    setup.loader.load(2.0)

    assert setup.registry.snapshot.resolve("").revision.name == "b"


def test_nodes_and_namespaces_that_change_do_not_build_a_revision_again(setup: Setup) -> None:
    before = setup.registry.snapshot.revisions["a"]
    facts = ClusterFacts(("v1.33.0",), {"n": {"annotations": {"x": "y"}}})

    setup.becomes(make_raw("a", facts=facts), make_raw("b"), now=9.0)

    after = setup.registry.snapshot.revisions["a"]
    assert (after.node_versions, after.namespaces) == (("v1.33.0",), {"n": {"annotations": {"x": "y"}}})
    assert after.templates is before.templates
    assert (after.fingerprint, setup.loader.report.revisions["a"].loaded_at) == (before.fingerprint, 1.0)


def test_a_text_that_changes_with_the_facts_builds_it_again(setup: Setup) -> None:
    setup.becomes(make_raw("a", values='{"global": {"tag": "1.30.1"}}', facts=ClusterFacts(("v1.33.0",))), now=9.0)

    after = setup.registry.snapshot.revisions["a"]
    assert (after.istio_version, after.node_versions) == ("1.30", ("v1.33.0",))


def test_what_the_source_notes_of_a_revision_is_shown_with_it_once(setup: Setup) -> None:
    assert isinstance(setup.source.state, SourceState)
    for notes, expected in (({"a": ("it hides another",)}, ("it hides another",)), ({}, ())):
        setup.source.state = replace(setup.source.state, notes=notes)
        setup.loader.load(2.0)
        setup.loader.load(3.0)

        assert setup.loader.report.revisions["a"].notes == expected


def test_what_is_wrong_with_one_tag_is_shown_and_leaves_the_others(setup: Setup) -> None:
    assert isinstance(setup.source.state, SourceState)
    setup.source.state = replace(setup.source.state, tag_faults=(ConfigError("two objects have it"),))

    report = setup.loader.load(2.0)

    assert list(setup.registry.snapshot.tags) == ["prod"]
    assert [str(error) for error in report.tag_errors] == ["two objects have it"]
