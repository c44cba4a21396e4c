from __future__ import annotations

import pytest

from injector.errors import ConfigError, DataError
from injector.revisions.tags import Tag, parse_tags, usable_tags


def test_a_tag_names_a_revision() -> None:
    assert parse_tags("prod: 1-24\n") == {"prod": Tag("prod", (("1-24", 1),))}


def test_a_tag_names_several_by_weight_in_the_order_of_the_file() -> None:
    tag = parse_tags("canary: {1-30: 10, 1-24: 90}")["canary"]

    assert tag.weights == (("1-30", 10), ("1-24", 90))
    assert tag.targets == ("1-30", "1-24")
    assert tag.revision == "1-24"


def test_the_first_of_equal_weights_stands_for_the_tag() -> None:
    assert parse_tags("canary: {b: 5, a: 5}")["canary"].revision == "b"


def test_an_empty_file_has_no_tags() -> None:
    assert parse_tags("# none yet\n") == {}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("- prod", "it is no mapping of tags"),
        ("prod: 124", "tag `prod` names no revision"),
        ("prod: {}", "tag `prod` names no revision"),
        ("prod: {a: 0}", "every weight of a tag is 0"),
        ("prod: {a: -1}", "the weight of `a` in tag `prod` is -1"),
        ("prod: {a: 1.5}", "the weight of `a` in tag `prod` is 1.5"),
        ("prod: {a: true}", "the weight of `a` in tag `prod` is True"),
        ("Prod: a", "'Prod' cannot name a tag"),
        ("net: a", "`net` cannot name a tag"),
        ("prod: A", "'A' cannot name a revision"),
    ],
)
def test_what_is_no_tag_is_refused_with_place_and_advice(text: str, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_tags(text, where="tags.yaml")

    assert says in str(caught.value)
    assert caught.value.where.startswith("tags.yaml")
    assert caught.value.hint


def test_yaml_that_cannot_be_read_names_its_line() -> None:
    with pytest.raises(DataError, match=r"tags.yaml.*line 2"):
        parse_tags("a: b\n\tc: d\n", where="tags.yaml")


def test_a_tag_that_leads_nowhere_is_left_out_and_named() -> None:
    tags = parse_tags("prod: a\nold: gone\n")

    usable, faults = usable_tags(tags, {"a"})

    assert usable == {"prod": tags["prod"]}
    assert [str(fault) for fault in faults] == [
        "tag `old`: it names `gone`, which is not served; add the revision, or move the tag"
    ]


def test_a_weighted_tag_needs_all_its_revisions() -> None:
    _, faults = usable_tags(parse_tags("canary: {a: 1, b: 0}"), {"a"})

    assert "it names `b`" in str(faults[0])


def test_a_tag_may_not_hide_a_revision() -> None:
    usable, faults = usable_tags(parse_tags("a: b"), {"a", "b"})

    assert usable == {}
    assert "a revision has the same name" in str(faults[0])


def test_the_default_tag_may_stand_beside_a_revision_of_that_name() -> None:
    usable, faults = usable_tags(parse_tags("default: b"), {"default", "b"})

    assert (list(usable), faults) == (["default"], ())
