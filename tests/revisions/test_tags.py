from __future__ import annotations

import pytest

from injector.errors import ConfigError, DataError
from injector.revisions.tags import Shadow, Tag, parse_tags, usable_tags


def test_a_tag_names_a_revision() -> None:
    assert parse_tags("prod: 1-24\n") == {"prod": Tag("prod", (("1-24", 1),))}


def test_a_tag_names_several_by_weight_in_the_order_of_the_file() -> None:
    tag = parse_tags("canary: {1-30: 10, 1-24: 90}")["canary"]

    assert tag.weights == (("1-30", 10), ("1-24", 90))
    assert tag.targets == ("1-30", "1-24")
    assert tag.revision == "1-24"


def test_the_first_of_equal_weights_stands_for_the_tag() -> None:
    assert parse_tags("canary: {b: 5, a: 5}")["canary"].revision == "b"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("prod: {revision: a}", Tag("prod", (("a", 1),))),
        ("prod: {weights: {a: 9, b: 1}}", Tag("prod", (("a", 9), ("b", 1)))),
        ("prod: {weights: {a: 9, b: 1}, salt: x}", Tag("prod", (("a", 9), ("b", 1)), "x")),
        ("prod: {revision: a, shadow: {revision: b}}", Tag("prod", (("a", 1),), "", Shadow("b", 100))),
        ("prod: {revision: a, shadow: {revision: b, sample: 0.5}}", Tag("prod", (("a", 1),), "", Shadow("b", 0.5))),
        ("prod: {revision: a, shadow: null}", Tag("prod", (("a", 1),))),
        ("prod: {revision: 9, weights: 1}", Tag("prod", (("revision", 9), ("weights", 1)))),
    ],
)
def test_the_long_form_says_more_and_a_mapping_of_numbers_is_still_weights(text: str, expected: Tag) -> None:
    assert parse_tags(text) == {"prod": expected}


@pytest.mark.parametrize(
    ("text", "sole"),
    [("prod: a", True), ("prod: {a: 5}", True), ("prod: {a: 5, b: 0}", True), ("prod: {a: 5, b: 1}", False)],
)
def test_a_tag_with_one_revision_that_gets_anything_has_no_choice(text: str, sole: bool) -> None:
    assert parse_tags(text)["prod"].sole is sole


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
        ("prod: {a: 1000001}", "the weight of `a` in tag `prod` is 1000001"),
        ("prod: {a: x}", "prod: unknown key `a`; known are revision, weights, salt, shadow"),
        ("prod: {revision: a, shadw: {revision: b}}", "prod: unknown key `shadw`"),
        ("prod: {revision: a, weights: {a: 1}}", "prod: it has both `revision` and `weights`"),
        ("prod: {salt: x}", "tag `prod` names no revision"),
        ("prod: {weights: {}, salt: x}", "tag `prod` names no revision"),
        ("prod: {weights: {a: 0}, salt: x}", "every weight of a tag is 0"),
        ("prod: {weights: {a: -1}}", "the weight of `a` in tag `prod` is -1"),
        ("prod: {revision: a, salt: 5}", "prod: `salt` is 5"),
        ("prod: {revision: a, salt: ''}", "prod: `salt` is ''"),
        ("prod: {revision: a, shadow: b}", "prod: shadow: it names no revision"),
        ("prod: {revision: a, shadow: {sample: 5}}", "prod: shadow: it names no revision"),
        ("prod: {revision: a, shadow: {revision: B}}", "prod: shadow: 'B' cannot name a revision"),
        ("prod: {revision: a, shadow: {revision: b, x: 1}}", "prod: shadow: unknown key `x`"),
        ("prod: {revision: a, shadow: {revision: b, sample: 101}}", "prod: shadow: `sample` is 101"),
        ("prod: {revision: a, shadow: {revision: b, sample: -1}}", "prod: shadow: `sample` is -1"),
        ("prod: {revision: a, shadow: {revision: b, sample: true}}", "prod: shadow: `sample` is True"),
        ("prod: {revision: a, shadow: {revision: b, sample: all}}", "prod: shadow: `sample` is 'all'"),
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
    usable, faults = usable_tags(parse_tags("canary: {a: 9, b: 1}"), {"a"})

    assert usable == {}
    assert "it names `b`" in str(faults[0])


def test_a_revision_of_weight_0_that_is_not_served_is_left_out_and_its_tag_stays() -> None:
    usable, faults = usable_tags(parse_tags("canary: {weights: {a: 1, b: 0, c: 0}, salt: x}"), {"a", "c"})

    assert usable == {"canary": Tag("canary", (("a", 1), ("c", 0)), "x")}
    assert [str(fault) for fault in faults] == [
        "tag `canary`: weight 0: it names `b`, which is not served; add the revision, or drop it from the weights"
    ]


def test_a_tag_may_not_hide_a_revision() -> None:
    usable, faults = usable_tags(parse_tags("a: b"), {"a", "b"})

    assert usable == {}
    assert "a revision has the same name" in str(faults[0])


def test_the_default_tag_may_stand_beside_a_revision_of_that_name() -> None:
    usable, faults = usable_tags(parse_tags("default: b"), {"default", "b"})

    assert (list(usable), faults) == (["default"], ())


def test_a_shadow_that_is_not_served_is_left_out_and_its_tag_stays() -> None:
    usable, faults = usable_tags(parse_tags("prod: {revision: a, salt: x, shadow: {revision: gone}}"), {"a"})

    assert usable == {"prod": Tag("prod", (("a", 1),), "x")}
    assert [str(fault) for fault in faults] == [
        "tag `prod`: shadow: it names `gone`, which is not served; add the revision, or drop the shadow"
    ]


def test_a_tag_that_leads_nowhere_is_one_fault_whatever_its_shadow() -> None:
    usable, faults = usable_tags(parse_tags("prod: {revision: gone, shadow: {revision: gone}}"), {"a"})

    assert (usable, len(faults)) == ({}, 1)
