from __future__ import annotations

import pytest

from injector.cluster.webhooks import TagWebhook
from injector.errors import ConfigError
from injector.revisions.tagannotations import annotated_tag, tag_annotations
from injector.revisions.tags import Shadow, Tag

WEIGHTS = "revision-injector/weights"
SALT = "revision-injector/salt"
SHADOW = "revision-injector/shadow"


def webhook(revision: str, **annotations: str) -> TagWebhook:
    return TagWebhook("prod", revision, "w", {f"revision-injector/{key}": text for key, text in annotations.items()})


@pytest.mark.parametrize(
    ("tag", "expected"),
    [
        (Tag("prod", (("1-24", 1),)), {}),
        (Tag("prod", (("1-24", 7),)), {}),
        (Tag("prod", (("1-24", 90), ("1-30", 10))), {WEIGHTS: '{"1-24":90,"1-30":10}'}),
        (Tag("prod", (("1-24", 1), ("1-30", 0))), {WEIGHTS: '{"1-24":1,"1-30":0}'}),
        (Tag("prod", (("1-24", 1),), "spring"), {SALT: "spring"}),
        (Tag("prod", (("1-24", 1),), "", Shadow("1-30", 25)), {SHADOW: '{"revision":"1-30","sample":25}'}),
    ],
)
def test_a_tag_has_annotations_for_what_the_label_does_not_say(tag: Tag, expected: dict[str, str]) -> None:
    assert tag_annotations(tag) == expected


@pytest.mark.parametrize(
    "tag",
    [
        Tag("prod", (("1-24", 1),)),
        Tag("prod", (("1-30", 10), ("1-24", 90))),
        Tag("prod", (("1-24", 5), ("1-30", 5)), "spring", Shadow("1-30", 0.5)),
        Tag("prod", (("1-24", 1),), 'a "quoted" salt', Shadow("1-30")),
    ],
)
def test_what_is_written_is_read_again(tag: Tag) -> None:
    assert annotated_tag(TagWebhook("prod", tag.revision, "w", tag_annotations(tag))) == (tag, None)


def test_what_is_not_ours_to_know_is_passed_over() -> None:
    assert annotated_tag(webhook("1-24", later="x")) == (Tag("prod", (("1-24", 1),)), None)


def test_an_annotation_without_a_text_says_nothing() -> None:
    assert annotated_tag(webhook("1-24", weights="", salt="", shadow="")) == (Tag("prod", (("1-24", 1),)), None)


def test_where_only_the_label_was_moved_the_label_counts_and_it_is_said() -> None:
    tag, fault = annotated_tag(webhook("1-30", weights='{"1-24": 90, "1-30": 10}', salt="spring"))

    assert tag == Tag("prod", (("1-30", 1),), "spring")
    assert str(fault) == (
        "MutatingWebhookConfiguration w: revision-injector/weights: label istio.io/rev leads to `1-30`, the weights mostly "
        "to `1-24`: they do not count; say `injector tag set prod --overwrite` with the weights that you want"
    )


@pytest.mark.parametrize(
    ("annotations", "says"),
    [
        ({"weights": "90"}, "MutatingWebhookConfiguration w: revision-injector/weights: it is no JSON object"),
        ({"weights": "{"}, "revision-injector/weights: it is no JSON object"),
        ({"weights": "{}"}, "revision-injector/weights: it is no JSON object"),
        ({"weights": "null"}, "revision-injector/weights: it is no JSON object"),
        ({"weights": '{"1-24": "90"}'}, "the weight of `1-24` in tag `prod` is '90'"),
        ({"weights": '{"1-24": -1}'}, "the weight of `1-24` in tag `prod` is -1"),
        ({"weights": '{"1-24": 0}'}, "every weight of a tag is 0"),
        ({"weights": '{"A": 1}'}, "'A' cannot name a revision"),
        ({"shadow": "1-30"}, "revision-injector/shadow: it is no JSON object"),
        ({"shadow": "null"}, "revision-injector/shadow: it is no JSON object"),
        ({"shadow": '{"sample": 5}'}, "shadow: it names no revision"),
        ({"shadow": '{"revision": "1-30", "sample": 500}'}, "shadow: `sample` is 500"),
    ],
)
def test_an_annotation_that_cannot_be_read_is_named_with_its_object(annotations: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        annotated_tag(webhook("1-24", **annotations))

    assert says in str(caught.value)
    assert caught.value.where.startswith("MutatingWebhookConfiguration w")
    assert caught.value.hint


@pytest.mark.parametrize(("tag", "revision"), [("A", "1-24"), ("net", "1-24"), ("prod", "A.b")])
def test_names_that_cannot_be_are_refused(tag: str, revision: str) -> None:
    with pytest.raises(ConfigError, match="cannot name a"):
        annotated_tag(TagWebhook(tag, revision, "w"))
