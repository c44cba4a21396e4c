"""For any two documents: the patch between them leads from one to the other, and no further than it must."""

from __future__ import annotations

from typing import Any

import jsonpatch
import orjson
from hypothesis import given
from hypothesis import strategies as st

from injector.kube.jsonpatch import create_patch
from tests.fuzz.jsondata import sorted_json

SCALARS = (
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([1.0, -0.5, 2.0]) | st.text("a~/0é", max_size=3)
)
KEYS = st.sampled_from(["name", "a", "b", "~", "/", "", "key", "containerPort"])
NAMED = st.fixed_dictionaries({"name": st.sampled_from("abcde")}, optional={"value": SCALARS, "env": st.lists(SCALARS)})
DOCUMENTS = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(KEYS, inner, max_size=4) | st.lists(NAMED, max_size=5),
    max_leaves=20,
)


@given(before=DOCUMENTS, after=DOCUMENTS)
def test_a_patch_leads_from_one_document_to_the_other_and_changes_neither(before: Any, after: Any) -> None:
    texts = sorted_json(before), sorted_json(after)

    patch = orjson.loads(orjson.dumps(create_patch(before, after)))

    assert (sorted_json(before), sorted_json(after)) == texts
    assert sorted_json(jsonpatch.apply_patch(before, patch)) == sorted_json(after)


@given(document=DOCUMENTS)
def test_a_document_equals_its_copy(document: Any) -> None:
    assert create_patch(document, orjson.loads(orjson.dumps(document))) == []


@given(
    items=st.lists(st.sampled_from("abcdefgh"), unique=True),
    added=st.lists(st.sampled_from("uvwxyz"), unique=True),
    data=st.data(),
)
def test_named_items_cost_one_operation_each(items: list[str], added: list[str], data: st.DataObject) -> None:
    before = [{"name": name, "image": "x"} for name in items]
    after = list(before)
    for name in added:
        after.insert(data.draw(st.integers(0, len(after))), {"name": name})

    patch = create_patch({"containers": before}, {"containers": after})

    assert len(patch) == len(added)
