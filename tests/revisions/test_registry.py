"""The snapshot of revisions and tags, and what a name resolves to."""

from __future__ import annotations

from functools import partial

import pytest

from injector.errors import UnknownRevisionError
from injector.revisions.registry import Registry, Snapshot, default_name, snapshot_of
from injector.revisions.tags import TagWorkload, parse_tags
from tests.revisions.fakes import fake_revision


def snapshot(*names: str, tags: str = "", default: str | None = None) -> Snapshot:
    return snapshot_of([fake_revision(name) for name in names], parse_tags(tags), default=default)


def choices(served: Snapshot, tag: str) -> list[str]:
    """The revisions that a tag leads forty workloads to."""
    workloads = [TagWorkload(("shop", "Deployment", f"web-{number}")) for number in range(40)]
    return [served.resolve(tag, partial(TagWorkload, *workload)).revision.name for workload in workloads]


@pytest.mark.parametrize(
    ("name", "expected"),
    [("b", ("b", None)), ("prod", ("a", "prod")), ("canary", ("a", "canary")), ("default", ("a", "default"))],
)
def test_a_name_leads_to_its_revision_directly_or_by_its_tag(name: str, expected: tuple[str, str | None]) -> None:
    tags = "prod: a\ncanary: {a: 90, b: 10}\ndefault: a"
    resolved = snapshot("a", "b", "default", tags=tags).resolve(name)

    assert (resolved.revision.name, resolved.tag) == expected


@pytest.mark.parametrize(
    ("served", "names"),
    [
        (snapshot(), set()),
        (snapshot("a", "b"), {"a", "b"}),
        (snapshot("a", "b", tags="prod: a"), {"a", "b", "prod"}),
        (snapshot("a"), {"a", "default"}),
        (snapshot("a", "b", default="a"), {"a", "b", "default"}),
        (snapshot("a", "default"), {"a", "default"}),
    ],
)
def test_its_names_are_revisions_tags_and_the_default_where_there_is_one(served: Snapshot, names: set[str]) -> None:
    assert served.names == names


def test_a_weighted_tag_leads_each_workload_to_one_of_its_revisions() -> None:
    served = snapshot("a", "b", tags="canary: {a: 50, b: 50}")

    assert set(choices(served, "canary")) == {"a", "b"}
    assert choices(served, "canary") == choices(snapshot("b", "a", tags="canary: {b: 50, a: 50}"), "canary")


def test_the_salt_is_the_tags_name_unless_it_is_said() -> None:
    tags = "one: {a: 1, b: 1}\ntwo: {weights: {a: 1, b: 1}, salt: one}\nthree: {a: 1, b: 1}"
    served = snapshot("a", "b", tags=tags)

    assert choices(served, "one") == choices(served, "two")
    assert choices(served, "one") != choices(served, "three")


@pytest.mark.parametrize("tags", ["prod: a", "prod: {a: 9}"])
def test_the_workload_is_not_computed_without_a_choice(tags: str) -> None:
    def never() -> TagWorkload:
        raise AssertionError

    assert snapshot("a", "b", tags=tags).resolve("prod", never).revision.name == "a"
    assert snapshot("a", "b", tags=tags).resolve("a", never).revision.name == "a"


def test_a_choice_that_is_not_made_by_the_weights_of_the_tag_has_a_reason() -> None:
    served = snapshot("a", "b", tags="prod: {weights: {a: 100, b: 0}, namespaces: {payments: b}}")

    def of(namespace: str, pin: str = "") -> tuple[str, str]:
        resolved = served.resolve("prod", lambda: TagWorkload((namespace, "Deployment", "web"), pin))
        return resolved.revision.name, resolved.reason

    assert of("shop") == ("a", "")
    assert of("shop", "b") == ("b", "pinned by the annotation revision-injector/pin")
    assert of("payments") == ("b", "by the weights b of namespace payments")
    assert of("payments", "a") == ("a", "pinned by the annotation revision-injector/pin")
    assert of("shop", "gone") == ("a", "its pin does not count, since the tag does not name that revision")
    assert of("payments", "gone")[1] == (
        "by the weights b of namespace payments; its pin does not count, since the tag does not name that revision"
    )


def test_a_tag_with_a_shadow_names_the_candidate() -> None:
    served = snapshot("a", "b", tags="prod: {revision: a, shadow: {revision: b, sample: 25}}")

    candidate = served.resolve("prod").candidate
    assert candidate is not None
    assert (candidate.revision.name, candidate.sample) == ("b", 25)
    assert served.resolve("a").candidate is None


@pytest.mark.parametrize(
    ("names", "tags", "stated", "expected"),
    [
        (("default", "a"), "default: a", None, ("a", "default")),
        (("default", "a"), "", None, ("default", None)),
        (("a",), "", None, ("a", None)),
        (("canary", "stable"), "", "stable", ("stable", None)),
        (("canary", "stable"), "default: canary", "stable", ("canary", "default")),
    ],
)
@pytest.mark.parametrize("name", ["", "default"])
def test_a_request_without_a_name_or_for_default_gets_the_default(
    names: tuple[str, ...], tags: str, stated: str | None, expected: tuple[str, str | None], name: str
) -> None:
    resolved = snapshot(*names, tags=tags, default=stated).resolve(name)

    assert (resolved.revision.name, resolved.tag) == expected


def test_a_removed_revision_called_default_is_served_by_its_name() -> None:
    served = snapshot_of([fake_revision(name) for name in ("a", "default")], {}, removed=["default"])

    assert [served.resolve(name).revision.name for name in ("", "default")] == ["a", "default"]


@pytest.mark.parametrize(
    ("names", "stated", "expected"),
    [((), None, None), (("a", "b"), None, None), (("a", "b"), "gone", None), (("a", "b"), "b", "b")],
)
def test_there_is_no_default_if_no_rule_applies(
    names: tuple[str, ...], stated: str | None, expected: str | None
) -> None:
    assert default_name(names, (), stated=stated) == expected


@pytest.mark.parametrize(
    ("served", "name", "says"),
    [
        (snapshot("b", "a", tags="prod: a"), "nope", "there is no revision or tag 'nope'; known are a, b, prod"),
        (
            snapshot("a", "b"),
            "",
            "path /inject: no default revision; name a revision, or create the tag `default`; known are a, b",
        ),
        (Snapshot(), "a", "there is no revision or tag 'a'; there are no revisions"),
        (snapshot(*(f"r{number}" for number in range(100, 125))), "x", "r119 and 5 more"),
    ],
)
def test_an_unknown_name_is_refused_with_those_that_are_known(served: Snapshot, name: str, says: str) -> None:
    with pytest.raises(UnknownRevisionError) as caught:
        served.resolve(name)

    assert str(caught.value).endswith(says)


def test_a_swap_leaves_the_snapshot_that_a_request_holds_and_calls_the_listeners() -> None:
    registry, heard = Registry(snapshot("a")), list[Snapshot]()
    registry.subscribe(lambda: heard.append(registry.snapshot))
    held, new = registry.snapshot, snapshot("b")

    registry.swap(new)

    assert held.resolve("a").revision.name == "a"
    assert (list(registry.snapshot.revisions), heard) == (["b"], [new])
