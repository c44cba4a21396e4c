"""Names of revisions, and the content of a source's state."""

from __future__ import annotations

import pytest

from injector.errors import ConfigError
from injector.kube.selectors import is_dns_label
from injector.revisions.names import check_name
from injector.revisions.source import ClusterFacts, SourceState
from injector.revisions.tags import parse_tags
from tests.revisions.fakes import make_raw


@pytest.mark.parametrize("name", ["default", "1-24", "a", "a" * 63, "0"])
def test_a_dns_label_names_a_revision(name: str) -> None:
    assert check_name(name, where="x") == name


@pytest.mark.parametrize(
    "name", ["", "-a", "a-", "A", "a.b", "a_b", "a/b", "a" * 64, "ä", "a\n", "..", "1\N{EN DASH}24"]
)
def test_anything_else_does_not(name: str) -> None:
    assert not is_dns_label(name)
    with pytest.raises(ConfigError, match="cannot name a revision"):
        check_name(name, where="x")


@pytest.mark.parametrize("name", ["cluster", "net"])
def test_names_that_the_path_uses_are_refused_with_the_reason(name: str) -> None:
    with pytest.raises(ConfigError, match=f"x: `{name}` cannot name a tag; .*Istio's own path"):
        check_name(name, where="x", kind="tag")


def test_a_long_name_is_cut_in_the_message() -> None:
    with pytest.raises(ConfigError) as caught:
        check_name("A" * 5000, where="x")

    assert len(str(caught.value)) < 300


FAULT = ConfigError("is not UTF-8")


@pytest.mark.parametrize(
    "other",
    [
        SourceState((make_raw("a", values="{}"),)),
        SourceState((make_raw("a", settings={"istioVersion": "1.24"}),)),
        SourceState((make_raw("a"), make_raw("b"))),
        SourceState((make_raw("a"),), failures={"b": FAULT}),
        SourceState((make_raw("a"),), tags=parse_tags("prod: a")),
        SourceState((make_raw("a"),), tags_error=FAULT),
        SourceState((make_raw("a"),), default="a"),
        SourceState((make_raw("a"),), notes={"a": ("it hides another",)}),
        SourceState((make_raw("a"),), tag_faults={"prod": FAULT}),
        SourceState((make_raw("a"),), facts=ClusterFacts(("v1.33.0",))),
        SourceState(()),
    ],
)
def test_another_state_has_another_content(other: SourceState) -> None:
    assert other.content != SourceState((make_raw("a"),)).content


def test_the_same_state_has_the_same_content_though_its_faults_are_other_objects() -> None:
    def state() -> SourceState:
        return SourceState((make_raw("a"),), {"b": ConfigError("no config")}, parse_tags("prod: {a: 1, b: 2}"))

    assert state().content == state().content
