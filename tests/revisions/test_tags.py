"""Tags with weights, salt, shadow and namespaces."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from injector.errors import ConfigError, DataError, ManifestError
from injector.revisions.tags import (
    Shadow,
    Tag,
    TagObject,
    TagWorkload,
    choose,
    draw,
    is_sampled,
    parse_tags,
    read_tags,
    tag_annotations,
    tag_object,
    usable_tags,
    workload_key,
    workload_of_pod,
)
from tests.cases import cases
from tests.factories import make_pod, owner_of
from tests.istio.goldens import golden


def test_a_tag_names_several_by_weight_in_the_order_of_the_file() -> None:
    tag = parse_tags("canary: {1-30: 10, 1-24: 90}")["canary"]

    assert tag.weights == (("1-30", 10), ("1-24", 90))
    assert tag.targets == ("1-30", "1-24")
    assert tag.revision == "1-24"
    assert parse_tags("canary: {b: 5, a: 5}")["canary"].revision == "b", "the first of equal weights stands for the tag"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("prod: a\n", Tag("prod", (("a", 1),))),
        ("prod: {revision: a}", Tag("prod", (("a", 1),))),
        ("prod: {weights: {a: 9, b: 1}}", Tag("prod", (("a", 9), ("b", 1)))),
        ("prod: {weights: {a: 9, b: 1}, salt: x}", Tag("prod", (("a", 9), ("b", 1)), "x")),
        ("prod: {revision: a, shadow: {revision: b}}", Tag("prod", (("a", 1),), "", Shadow("b", 100))),
        ("prod: {revision: a, shadow: {revision: b, sample: 0.5}}", Tag("prod", (("a", 1),), "", Shadow("b", 0.5))),
        ("prod: {revision: a, shadow: null}", Tag("prod", (("a", 1),))),
        ("prod: {revision: a, namespaces: {x: b}}", Tag("prod", (("a", 1),), namespaces={"x": (("b", 1),)})),
        (
            "prod: {weights: {a: 9, b: 1}, namespaces: {x: {a: 0, b: 2}}}",
            Tag("prod", (("a", 9), ("b", 1)), namespaces={"x": (("a", 0), ("b", 2))}),
        ),
        ("prod: {revision: 9, weights: 1}", Tag("prod", (("revision", 9), ("weights", 1)))),
    ],
)
def test_the_long_form_says_more_and_a_mapping_of_numbers_is_still_weights(text: str, expected: Tag) -> None:
    assert parse_tags(text) == {"prod": expected}


@pytest.mark.parametrize(
    ("text", "sole"),
    [
        ("prod: a", True),
        ("prod: {a: 5}", True),
        ("prod: {a: 5, b: 0}", True),
        ("prod: {a: 5, b: 1}", False),
        ("prod: {revision: a, namespaces: {x: a}}", True),
        ("prod: {revision: a, namespaces: {x: b}}", False),
    ],
)
def test_a_tag_with_one_revision_that_gets_anything_has_no_choice(text: str, sole: bool) -> None:
    tag = parse_tags(text)["prod"]

    assert tag.sole is sole
    assert tag.targets == (("a", "b") if "b" in text else ("a",))


def test_a_namespace_without_a_revision_gets_the_weights_of_the_tag() -> None:
    tag = parse_tags("prod: {weights: {a: 9, b: 1}, namespaces: {x: c, w: {a: 1, c: 1}, z: b}}")["prod"]

    remaining = tag.among({"a", "b"})

    assert remaining == Tag("prod", tag.weights, namespaces={"w": (("a", 1),), "z": (("b", 1),)})
    assert tag.among({"c"}) is None


def test_the_pin_of_a_pod_is_its_annotation() -> None:
    pod = make_pod("web", annotations={"revision-injector/pin": "1-24"})

    assert workload_of_pod(pod, "shop") == TagWorkload(("shop", "Pod", "web"), "1-24")
    assert workload_of_pod(make_pod("web"), "shop") == TagWorkload(("shop", "Pod", "web"))
    with pytest.raises(ManifestError):
        workload_of_pod({"metadata": {"annotations": {"revision-injector/pin": 1}}}, "shop")


def test_an_empty_file_has_no_tags() -> None:
    assert parse_tags("# none yet\n") == {}


@cases("text", "says")
def test_an_invalid_tag_is_refused_with_place_and_hint(text: str, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_tags(text, where="tags.yaml")

    assert says in str(caught.value)
    assert caught.value.where.startswith("tags.yaml")
    assert caught.value.hint


def test_yaml_that_cannot_be_read_names_its_line() -> None:
    with pytest.raises(DataError, match=r"tags.yaml.*line 2"):
        parse_tags("a: b\n\tc: d\n", where="tags.yaml")


@pytest.mark.parametrize(
    ("text", "served", "usable", "faults"),
    [
        (
            "prod: a\nold: gone",
            ("a",),
            "prod: a",
            ["tag `old`: it names `gone`, which is not served; add the revision, or move the tag"],
        ),
        ("canary: {a: 9, b: 1}", ("a",), "", ["tag `canary`: it names `b`"]),
        ("prod: {revision: a, namespaces: {x: b}}", ("a",), "", ["tag `prod`: it names `b`"]),
        (
            "canary: {weights: {a: 1, b: 0, c: 0}, salt: x}",
            ("a", "c"),
            "canary: {weights: {a: 1, c: 0}, salt: x}",
            [
                "tag `canary`: weight 0: it names `b`, which is not served; add the revision, or drop it from the weights"
            ],
        ),
        ("a: b", ("a", "b"), "", ["tag `a`: a revision has the same name; rename the tag"]),
        ("default: b", ("default", "b"), "default: b", []),
        (
            "prod: {revision: a, salt: x, shadow: {revision: gone}}",
            ("a",),
            "prod: {revision: a, salt: x}",
            ["tag `prod`: shadow: it names `gone`, which is not served; add the revision, or drop the shadow"],
        ),
        ("prod: {revision: gone, shadow: {revision: gone}}", ("a",), "", ["tag `prod`: it names `gone`"]),
    ],
)
def test_a_tag_is_served_without_a_missing_shadow_or_revision_of_weight_0(
    text: str, served: tuple[str, ...], usable: str, faults: list[str]
) -> None:
    usable_now, errors = usable_tags(parse_tags(text), served)

    assert usable_now == parse_tags(usable)
    assert [str(error).startswith(says) for error, says in zip(errors, faults, strict=True)] == [True] * len(faults)


WEIGHTS = "revision-injector/weights"
SALT = "revision-injector/salt"
SHADOW = "revision-injector/shadow"
NAMESPACES = "revision-injector/namespaces"


def prod_object(revision: str, **annotations: str) -> TagObject:
    return TagObject("prod", revision, "w", {f"revision-injector/{key}": text for key, text in annotations.items()})


@pytest.mark.parametrize(
    ("tag", "expected"),
    [
        (Tag("prod", (("1-24", 1),)), {}),
        (Tag("prod", (("1-24", 7),)), {}),
        (Tag("prod", (("1-24", 90), ("1-30", 10))), {WEIGHTS: '{"1-24":90,"1-30":10}'}),
        (Tag("prod", (("1-24", 1), ("1-30", 0))), {WEIGHTS: '{"1-24":1,"1-30":0}'}),
        (Tag("prod", (("1-24", 1),), "spring"), {SALT: "spring"}),
        (Tag("prod", (("1-24", 1),), "", Shadow("1-30", 25)), {SHADOW: '{"revision":"1-30","sample":25}'}),
        (
            Tag("prod", (("1-24", 1),), namespaces={"a": (("1-30", 1),), "b": (("1-24", 5), ("1-30", 5))}),
            {NAMESPACES: '{"a":"1-30","b":{"1-24":5,"1-30":5}}'},
        ),
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
        Tag("prod", (("1-24", 9), ("1-30", 1)), namespaces={"a": (("1-24", 100),), "b": (("1-24", 0), ("1-30", 1))}),
    ],
)
def test_annotations_are_read_as_written(tag: Tag) -> None:
    assert TagObject("prod", tag.revision, "w", tag_annotations(tag)).read() == (tag, None)


def test_the_weight_of_an_only_revision_is_read_as_the_label_alone() -> None:
    assert TagObject("prod", "1-24", "w", {WEIGHTS: '{"1-24": 90}'}).read() == (Tag("prod", (("1-24", 1),)), None)


@pytest.mark.parametrize("annotations", [{"later": "x"}, {"weights": "", "salt": "", "shadow": ""}])
def test_unknown_and_empty_annotations_are_ignored(annotations: dict[str, str]) -> None:
    assert prod_object("1-24", **annotations).read() == (Tag("prod", (("1-24", 1),)), None)


def test_outdated_weights_are_ignored_with_an_error() -> None:
    tags, faults = read_tags([prod_object("1-30", weights='{"1-24": 90, "1-30": 10}', salt="spring")])

    assert tags == {"prod": Tag("prod", (("1-30", 1),), "spring")}
    assert str(faults["prod"]) == (
        "MutatingWebhookConfiguration w: revision-injector/weights: label istio.io/rev leads to `1-30`, the largest weight "
        "to `1-24`: the weights are ignored; run `injector tag set prod --overwrite` with the weights that you want"
    )


@cases("annotations", "says")
def test_an_annotation_that_cannot_be_read_is_named_with_its_object(annotations: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        prod_object("1-24", **annotations).read()

    assert says in str(caught.value)
    assert caught.value.where.startswith("MutatingWebhookConfiguration w")
    assert caught.value.hint
    tags, faults = read_tags([prod_object("1-24", **annotations)])
    assert (tags, str(faults["prod"])) == ({}, str(caught.value))


@pytest.mark.parametrize(("tag", "revision"), [("A", "1-24"), ("net", "1-24"), ("prod", "A.b")])
def test_invalid_names_are_refused(tag: str, revision: str) -> None:
    with pytest.raises(ConfigError, match="cannot name a"):
        TagObject(tag, revision, "w").read()


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({"istio.io/tag": "prod", "istio.io/rev": "1-24"}, TagObject("prod", "1-24", "w")),
        ({"istio.io/tag": "prod"}, TagObject("prod", "default", "w")),
        ({"istio.io/tag": "prod", "istio.io/rev": ""}, TagObject("prod", "default", "w")),
        ({"istio.io/rev": "1-24"}, None),
        ({"istio.io/tag": ""}, None),
        (None, None),
    ],
)
def test_a_webhook_is_a_tags_by_its_label(labels: dict[str, str] | None, expected: TagObject | None) -> None:
    assert tag_object({"metadata": {"name": "w", "labels": labels}}) == expected


def test_a_tag_of_two_objects_that_agree_is_one() -> None:
    objects = [TagObject("test", "b", "w2"), TagObject("prod", "a", "w3"), TagObject("prod", "a", "w1")]

    assert read_tags(objects) == ({"prod": Tag("prod", (("a", 1),)), "test": Tag("test", (("b", 1),))}, {})


@pytest.mark.parametrize(
    ("other", "name"),
    [(TagObject("prod", "b", "w2"), "w2 (b)"), (TagObject("prod", "a", "w2", {SALT: "spring"}), "w2 (a)")],
)
def test_a_tag_of_two_different_objects_is_an_error(other: TagObject, name: str) -> None:
    tags, faults = read_tags([other, TagObject("prod", "a", "w1"), TagObject("x", "a", "w")])

    assert list(tags) == ["x"]
    assert {tag: str(fault) for tag, fault in faults.items()} == {
        "prod": f"tag `prod`: several MutatingWebhookConfigurations have it: w1 (a), {name}; delete all but one"
    }


def test_only_the_injectors_own_annotations_are_remembered() -> None:
    annotations = {"revision-injector/salt": "spring", "kubectl.kubernetes.io/last-applied-configuration": "{}"}
    obj = tag_object({"metadata": {"name": "w", "labels": {"istio.io/tag": "a"}, "annotations": annotations}})

    assert obj == TagObject("a", "default", "w", {"revision-injector/salt": "spring"})


@cases("file", "tag", "revision")
def test_the_tags_that_istioctl_generates_are_read(file: str, tag: str | None, revision: str | None) -> None:
    obj = tag_object(golden(file))

    assert (obj and (obj.tag, obj.revision)) == (None if tag is None else (tag, revision))


WORKLOADS = [("shop", "Deployment", f"web-{number}") for number in range(20_000)]
CHI_SQUARE = {1: 10.83, 2: 13.82, 3: 16.27}
"""The bound of the statistic in 999 of 1000 fair draws, by degrees of freedom."""


names = st.text("abc-019", min_size=1, max_size=8)
keys = st.tuples(names, st.sampled_from(["Deployment", "CronJob", "Pod"]), names)
weightings = st.dictionaries(names, st.integers(0, 1000), min_size=2, max_size=5).filter(
    lambda weights: any(weights.values())
)


def choice(weights: dict[str, int], key: tuple[str, str, str], salt: str = "prod") -> str:
    return choose(tuple(weights.items()), salt, key)


def owned(kind: str, owner: str, generated: str, labels: dict[str, str] | None = None) -> dict[str, Any]:
    """A pod as a controller makes it: its name is not there yet."""
    return {"metadata": {"generateName": generated, "labels": labels or {}, "ownerReferences": [owner_of(owner, kind)]}}


@pytest.mark.parametrize(
    "weights",
    [{"a": 90, "b": 10}, {"a": 50, "b": 50}, {"a": 1, "b": 2, "c": 5}, {"a": 97, "b": 1, "c": 1, "d": 1}],
    ids=str,
)
def test_each_revision_gets_its_share_of_many_workloads(weights: dict[str, int]) -> None:
    counts = Counter(choice(weights, key) for key in WORKLOADS)

    expected = {name: len(WORKLOADS) * weight / sum(weights.values()) for name, weight in weights.items()}
    statistic = sum((counts[name] - wanted) ** 2 / wanted for name, wanted in expected.items())
    assert statistic < CHI_SQUARE[len(weights) - 1], counts


def test_a_weight_of_zero_receives_no_workloads() -> None:
    assert {choice({"a": 1, "b": 0}, key) for key in WORKLOADS[:2000]} == {"a"}


@given(weightings, st.data(), keys, st.integers(1, 10_000))
def test_raising_a_weight_moves_workloads_only_to_its_revision(
    weights: dict[str, int], data: st.DataObject, key: tuple[str, str, str], more: int
) -> None:
    raised = data.draw(st.sampled_from(sorted(weights)))

    before, after = choice(weights, key), choice({**weights, raised: weights[raised] + more}, key)

    assert after in (before, raised)


@given(weightings, st.data(), keys)
def test_lowering_a_weight_moves_only_its_own_workloads(
    weights: dict[str, int], data: st.DataObject, key: tuple[str, str, str]
) -> None:
    lowered = data.draw(st.sampled_from(sorted(weights)))
    fewer = {**weights, lowered: weights[lowered] // 2}
    if not any(fewer.values()):
        return

    before, after = choice(weights, key), choice(fewer, key)

    assert before in (after, lowered)


@given(keys, st.lists(st.integers(0, 100), min_size=2, max_size=6))
def test_a_pair_that_is_shifted_step_by_step_moves_each_workload_once(
    key: tuple[str, str, str], steps: list[int]
) -> None:
    course = [choice({"old": 100 - share, "new": share}, key) for share in sorted(steps)]

    assert course == sorted(course, reverse=True)


@given(keys, st.lists(st.integers(0, 1000), min_size=2, max_size=6), st.integers(1, 100), st.integers(1, 100))
def test_with_three_revisions_a_workload_moves_once_while_a_weight_grows(
    key: tuple[str, str, str], steps: list[int], first: int, second: int
) -> None:
    course = [choice({"a": first, "b": second, "new": share}, key) for share in sorted(steps)]

    assert sum(one != other for one, other in pairwise(course)) <= 1


def test_ten_then_fifty_then_all_moves_each_workload_at_most_once() -> None:
    steps = [{"old": 90, "new": 10}, {"old": 50, "new": 50}, {"old": 0, "new": 100}]
    courses = Counter(tuple(choice(weights, key) for weights in steps) for key in WORKLOADS)

    assert set(courses) == {("new", "new", "new"), ("old", "new", "new"), ("old", "old", "new")}


@given(weightings, keys)
def test_the_order_of_the_revisions_does_not_matter(weights: dict[str, int], key: tuple[str, str, str]) -> None:
    assert choice(weights, key) == choice(dict(reversed(weights.items())), key)


def test_another_salt_is_another_choice() -> None:
    weights = {"a": 50, "b": 50}
    same = sum(choice(weights, key, "one") == choice(weights, key, "two") for key in WORKLOADS)

    assert same / len(WORKLOADS) == pytest.approx(0.5, abs=0.02)


def test_another_process_chooses_the_same() -> None:
    program = (
        "from injector.revisions.tags import choose\n"
        "print(*(choose((('a', 2), ('b', 1)), 'prod', ('shop', 'Deployment', f'web-{n}')) for n in range(40)), sep='')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "".join(choice({"a": 2, "b": 1}, key) for key in WORKLOADS[:40])


def test_another_release_chooses_the_same() -> None:
    """A change of the hash would move workloads by itself: it needs a line in the changelog, and a reason."""
    assert "".join(choice({"a": 2, "b": 1}, key) for key in WORKLOADS[:24]) == "baaabbaaaabbaaaabaaaaaaa"


def test_draws_depend_on_word_boundaries() -> None:
    assert len({draw("ab", "c"), draw("a", "bc"), draw("abc"), draw("abc", "")}) == 4


@pytest.mark.parametrize("percent", [0, 0.5, 25, 100])
def test_a_sample_is_its_percentage_of_requests(percent: float) -> None:
    uids = [f"6f1d3c9e-{number}" for number in range(20_000)]

    assert sum(is_sampled(uid, percent) for uid in uids) / 200 == pytest.approx(percent, abs=1)
    assert percent not in {0, 100} or {is_sampled(uid, percent) for uid in uids} == {percent == 100}


@cases("pod", "kind", "name")
def test_a_pod_goes_by_the_workload_that_made_it(pod: dict[str, Any], kind: str, name: str) -> None:
    assert workload_key(pod, "shop") == ("shop", kind, name)


def test_a_pod_that_names_its_namespace_is_in_it() -> None:
    assert workload_key(make_pod(namespace="own"), "") == ("own", "Pod", "hello")


def test_metadata_that_cannot_be_read_is_refused_as_the_injection_would() -> None:
    with pytest.raises(ManifestError, match=r"metadata.name: json: cannot unmarshal number"):
        workload_key({"metadata": {"name": 5}}, "shop")
