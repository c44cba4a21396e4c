from __future__ import annotations

from dataclasses import dataclass

import pytest

from injector.errors import ConfigError
from injector.revisions.directory import MergedSource, merged
from injector.revisions.source import ClusterFacts, SourceState
from injector.revisions.tags import Tag
from tests.revisions.fakes import make_raw

OWN = make_raw("a", origin="revisions/a")
THEIRS = make_raw("a", origin="ConfigMap x/a")
OTHER = make_raw("b")
BROKEN = ConfigError("no config")


@dataclass
class Source:
    state: SourceState | ConfigError

    def read(self) -> SourceState:
        if isinstance(self.state, ConfigError):
            raise self.state
        return self.state


def tag(revision: str) -> dict[str, Tag]:
    return {"prod": Tag("prod", ((revision, 1),))}


def test_what_only_one_holds_is_held() -> None:
    state = merged(SourceState((OWN,), {"x": BROKEN}, tag("a")), SourceState((OTHER,), {"y": BROKEN}))

    assert [raw.name for raw in state.revisions] == ["a", "b"]
    assert (set(state.failures), set(state.tags), dict(state.notes)) == ({"x", "y"}, {"prod"}, {})


def test_of_what_both_hold_the_first_counts_and_it_is_noted() -> None:
    state = merged(SourceState((OWN,)), SourceState((THEIRS, OTHER)))

    assert [raw.origin for raw in state.revisions] == ["revisions/a", "revisions/b"]
    assert state.notes == {"a": ("ConfigMap x/a has the same name and is not served",)}


def test_one_that_the_first_holds_and_cannot_read_is_not_the_seconds_all_at_once() -> None:
    state = merged(SourceState((), {"a": BROKEN}), SourceState((THEIRS,)))

    assert (state.revisions, dict(state.failures)) == ((), {"a": BROKEN})


def test_one_that_the_second_cannot_read_does_not_matter_where_the_first_can() -> None:
    assert merged(SourceState((OWN,)), SourceState((), {"a": BROKEN})).failures == {}


@pytest.mark.parametrize(
    ("theirs", "notes"),
    [
        ("a", {}),
        ("b", {"a": ("tag `prod` leads here; that the cluster's leads to `b` does not count",)}),
    ],
)
def test_of_a_tag_of_both_the_first_counts_and_a_difference_is_noted(
    theirs: str, notes: dict[str, tuple[str, ...]]
) -> None:
    state = merged(SourceState((OWN,), tags=tag("a")), SourceState((OTHER,), tags=tag(theirs)))

    assert (state.tags["prod"].revision, dict(state.notes)) == ("a", notes)


def test_what_the_cluster_says_of_itself_counts_for_the_revisions_of_both() -> None:
    facts = ClusterFacts(node_versions=("v1.33.0",))
    state = merged(SourceState((OWN,)), SourceState((make_raw("b", facts=facts),), facts=facts))

    assert [raw.facts for raw in state.revisions] == [facts, facts]


def test_faults_of_both_are_kept() -> None:
    own, theirs = ConfigError("own"), ConfigError("theirs")
    state = merged(SourceState((), tags_error=own), SourceState((), tag_faults={"t": theirs}, default="b"))

    assert (state.tags_error, state.tag_faults, state.default) == (own, {"t": theirs}, "b")


def test_what_is_wrong_with_the_seconds_tag_does_not_matter_where_the_first_has_it() -> None:
    faults = {"prod": ConfigError("theirs"), "other": ConfigError("theirs too")}

    assert list(merged(SourceState((), tags=tag("a")), SourceState((), tag_faults=faults)).tag_faults) == ["other"]


@pytest.mark.parametrize("broken", [0, 1])
def test_a_source_that_cannot_be_reached_is_not_passed_over(broken: int) -> None:
    sources = [Source(SourceState(())), Source(SourceState(()))]
    sources[broken].state = ConfigError("gone")

    with pytest.raises(ConfigError, match="gone"):
        MergedSource(*sources).read()


def test_both_are_read() -> None:
    state = MergedSource(Source(SourceState((OWN,))), Source(SourceState((OTHER,)))).read()

    assert [raw.name for raw in state.revisions] == ["a", "b"]
