"""For any pod and any patch: merging and typing change nothing that they are given, and typing once is enough."""

from __future__ import annotations

from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from injector.errors import DataError, ManifestError
from injector.kube.quantity import canonical_quantity, parse_quantity
from injector.kube.strategicpatch import strategic_merge
from injector.kube.typed import go_encode, normalise, struct_type

SCALARS = (
    st.none() | st.booleans() | st.integers(-5, 2**40) | st.sampled_from(["", "a", "1", "100m", "2026-01-02T03:04:05Z"])
)
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["name", "key", "x"]), inner, max_size=3)
    ),
    max_leaves=6,
)
NAMES = st.sampled_from(["a", "b", "c", "istio-proxy"])
DIRECTIVES = st.sampled_from(
    ["$patch", "$retainKeys", "$setElementOrder/containers", "$deleteFromPrimitiveList/finalizers"]
)


def objects(type_name: str, values: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Objects with the fields of a Go type, of whatever type, and some that it does not have."""
    keys = st.sampled_from(sorted(struct_type(type_name).by_json)) | st.sampled_from(["unknown", "NAME"]) | DIRECTIVES
    return st.dictionaries(keys, values, max_size=5)


CONTAINERS = st.builds(lambda name, rest: {**rest, "name": name}, NAMES, objects("v1.Container", ANYTHING))
SPECS = st.builds(
    lambda containers, rest: {**rest, "containers": containers},
    st.lists(CONTAINERS, max_size=3),
    objects("v1.PodSpec", ANYTHING),
)
PODS = st.builds(lambda meta, spec: {"metadata": meta, "spec": spec}, objects("v1.ObjectMeta", ANYTHING), SPECS)
VALID = st.builds(
    lambda labels, names: {"metadata": {"labels": labels}, "spec": {"containers": [{"name": name} for name in names]}},
    st.dictionaries(NAMES, NAMES, max_size=3),
    st.lists(NAMES, unique=True),
)


@given(pod=PODS)
def test_a_pod_is_read_or_refused_with_an_error_of_ours_and_once_is_enough(pod: Any) -> None:
    before = orjson.dumps(pod)
    try:
        once = normalise(pod, "v1.Pod")
    except DataError:
        return
    finally:
        assert orjson.dumps(pod) == before

    assert normalise(once, "v1.Pod") is once


@given(pod=PODS)
def test_gos_own_zero_values_go_again_or_stay(pod: Any) -> None:
    try:
        known = normalise(pod, "v1.Pod", keep_unknown=False)
    except DataError:
        return

    encoded = go_encode(known, "v1.Pod")
    assert go_encode(normalise(encoded, "v1.Pod"), "v1.Pod") == encoded


@given(pod=PODS, creation_timestamp=st.booleans())
def test_an_unknown_field_does_not_change_how_the_others_are_printed(pod: Any, creation_timestamp: bool) -> None:
    try:
        known = normalise(pod, "v1.Pod", keep_unknown=False)
    except DataError:
        return

    encoded = go_encode(known, "v1.Pod", creation_timestamp=creation_timestamp)
    expected = go_encode({**known, "unknown": 1}, "v1.Pod", creation_timestamp=creation_timestamp)
    assert orjson.dumps({**encoded, "unknown": 1}) == orjson.dumps(expected)


@given(pod=PODS, patch=PODS)
def test_a_merge_succeeds_or_fails_with_an_error_of_ours_and_changes_nothing(pod: Any, patch: Any) -> None:
    before = orjson.dumps([pod, patch])
    try:
        strategic_merge(pod, patch)
    except ManifestError:
        pass
    finally:
        assert orjson.dumps([pod, patch]) == before


@given(pod=VALID, patch=VALID)
def test_merging_a_patch_twice_is_merging_it_once(pod: Any, patch: Any) -> None:
    once = strategic_merge(pod, patch)

    assert strategic_merge(once, patch) == once


@given(pod=VALID)
def test_an_empty_patch_changes_nothing(pod: Any) -> None:
    assert strategic_merge(pod, {}) == pod


@given(
    text=st.from_regex(
        r"[+-]?[0-9]{0,20}(\.[0-9]{0,12})?(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|[eE][+-]?[0-9]{1,2})?", fullmatch=True
    )
)
def test_a_canonical_quantity_is_as_much_as_it_was(text: str) -> None:
    try:
        amount, canonical = parse_quantity(text), canonical_quantity(text)
    except DataError:
        return

    if abs(amount) < 2**60:
        assert parse_quantity(canonical) == amount
