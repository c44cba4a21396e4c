"""A raw revision becomes a revision, with the facts of the cluster."""

from __future__ import annotations

import pytest

from injector.errors import ConfigError, DataError
from injector.revisions.source import ClusterFacts, Overrides, build, overridden
from tests.cases import cases
from tests.revisions.fakes import make_raw


def test_texts_become_a_revision() -> None:
    revision = build(make_raw("1-24", settings={"env": {"PLATFORM": "openshift"}, "revision": "one"}))

    assert (revision.name, revision.written, revision.istio_version) == ("1-24", "one", "1.24")
    assert revision.env == {"PLATFORM": "openshift"}
    assert revision.origin == "revisions/1-24"


@cases("fields", "says")
def test_a_text_that_cannot_be_used_is_named(fields: dict[str, object], says: str) -> None:
    with pytest.raises(DataError) as caught:
        build(make_raw("a", **fields))  # type: ignore[arg-type] # a table of keywords

    assert str(caught.value).startswith(says)
    assert caught.value.hint


def test_a_text_that_came_from_a_file_of_its_own_is_named_by_that_file() -> None:
    raw = make_raw("a", values="{", files={"values": "my-values.json"}, origin="my-config.yaml")

    with pytest.raises(DataError, match=r"^my-values\.json: "):
        build(raw)


def test_flags_win_over_the_files() -> None:
    raw = make_raw(settings={"istioVersion": "1.24", "env": {"A": "1", "B": "1"}, "engine": "go"})

    changed = overridden(
        raw, Overrides(istio_version="1.30", env={"B": "2"}, node_versions=("v1.33.0",), values="{}", mesh="x: 1")
    )

    assert changed.settings == {
        "istioVersion": "1.30",
        "env": {"A": "1", "B": "2"},
        "engine": "go",
        "nodeVersions": ["v1.33.0"],
    }
    assert (changed.values, changed.mesh) == ("{}", "x: 1")


def test_flags_that_say_nothing_leave_the_files() -> None:
    raw = make_raw(settings={"istioVersion": "1.24"})

    assert overridden(raw, Overrides()) == raw


def test_an_env_of_the_wrong_type_is_refused_with_flags_too() -> None:
    with pytest.raises(ConfigError, match="`env` has the wrong type"):
        build(overridden(make_raw(settings={"env": ["A=1"]}), Overrides(env={"A": "1"})))


def test_settings_of_a_revision_override_the_facts_of_the_cluster() -> None:
    facts = ClusterFacts(("v1.33.0",), {"a": {"annotations": {"x": "cluster"}}, "b": {}})
    settings = {"nodeVersions": ["v1.30.0"], "namespaces": {"a": {"annotations": {"x": "own"}}}}

    plain, own = build(make_raw(facts=facts)), build(make_raw(facts=facts, settings=settings))

    assert (plain.node_versions, plain.namespaces) == (("v1.33.0",), facts.namespaces)
    assert (own.node_versions, own.namespaces) == (("v1.30.0",), {"a": {"annotations": {"x": "own"}}, "b": {}})


def test_facts_are_no_part_of_the_fingerprint() -> None:
    assert build(make_raw(facts=ClusterFacts(("v1.33.0",)))).fingerprint == build(make_raw()).fingerprint
