"""A rendered text merged into a pod."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from injector.errors import DataError
from injector.kube import overlay
from injector.kube.overlay import read_overlay
from injector.kube.strategicpatch import strategic_merge, without_directives
from injector.kube.typed import normalise, prune
from injector.kube.yaml.read import load_yaml, read_part
from tests.cases import read_cases

RESTART = frozenset({("v1.Container", "restartPolicy")})
POD = {
    "metadata": {"labels": {"app": "web", "b": "2"}},
    "spec": {
        "containers": [{"name": "app", "env": [{"name": "A", "value": "1"}]}, {"name": "istio-proxy", "image": "auto"}],
        "volumes": [{"name": "data", "emptyDir": {}}],
    },
}
TEXTS = read_cases(Path(__file__).with_name("overlays.yaml"))
"""Texts that are read in blocks, that are read as a whole, and that are refused."""
SPLIT: str = TEXTS["split"]["every kind of block"]


def plain(text: str, original: Any, missing: Any = RESTART) -> Any:
    """What the plain way makes of a text and an object."""
    try:
        tree = prune(load_yaml(text, where="x") or {}, "v1.Pod", missing)
        return tree, normalise(without_directives(strategic_merge(original, tree, "v1.Pod"), "v1.Pod"), "v1.Pod")
    except DataError as error:
        return str(error)


def read(text: str, original: Any, missing: Any = RESTART) -> Any:
    """What an overlay makes of them."""
    try:
        result = read_overlay(text, "v1.Pod", missing, where="x")
        assert result is not None
        return result.tree, result.merge_over(original)
    except DataError as error:
        return str(error)


def test_directives_that_were_not_merged_are_dropped_from_structs_and_stay_in_maps() -> None:
    text = """
spec:
  containers:
  - name: new
    resources: {$patch: replace, limits: {cpu: "1"}}
  volumes:
  - name: b
    csi: {driver: d, volumeAttributes: {$b: "2"}}
"""
    volume = {"name": "a", "csi": {"driver": "d", "volumeAttributes": {"$a": "1"}}}
    pod = {"spec": {"containers": [{"name": "app"}], "volumes": [volume]}}

    _, spec = read(text, pod)[1].popitem()

    # as StrategicMergePatch of k8s.io/apimachinery 0.36.1 and the decoder of v1.Pod leave them
    assert spec["containers"][0] == {"name": "new", "resources": {"limits": {"cpu": "1"}}}
    assert [volume["csi"]["volumeAttributes"] for volume in spec["volumes"]] == [{"$b": "2"}, {"$a": "1"}]


@pytest.mark.parametrize("original", [{}, POD])
@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, texts in TEXTS.items() for name in texts])
def test_an_overlay_is_what_the_plain_way_makes_of_it(kind: str, name: str, original: Any) -> None:
    result = read(TEXTS[kind][name], original)

    assert repr(result) == repr(plain(TEXTS[kind][name], original))
    assert kind != "refused" or isinstance(result, str)


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind in ("split", "whole") for name in TEXTS[kind]])
def test_what_cannot_be_split_or_merged_in_parts_is_read_as_a_whole(kind: str, name: str) -> None:
    result = read_overlay(TEXTS[kind][name], "v1.Pod", RESTART)

    assert result is not None
    assert result.normal == (normalise(strategic_merge({}, result.tree), "v1.Pod") if kind == "split" else None)


def test_a_variable_without_a_name_has_an_empty_one_by_which_it_is_merged_again() -> None:
    def text(name: str) -> str:
        return f"spec:\n  containers:\n  - name: app\n    env:\n    - name: {name}\n      value: x\n"

    merged: Any = POD
    for value in ("", '""', "B"):
        assert read(text(value), merged) == plain(text(value), merged)
        merged = read(text(value), merged)[1]

    assert [variable["name"] for variable in merged["spec"]["containers"][0]["env"]] == ["B", "", "A"]


def test_equal_blocks_are_read_once() -> None:
    first, second = (read_overlay(text, "v1.Pod", RESTART) for text in (SPLIT, SPLIT.replace("mine", "yours")))

    assert first is not None
    assert second is not None
    assert first.tree["spec"] is second.tree["spec"]
    assert second.tree["metadata"]["labels"]["app"] == "yours"


def test_minors_that_lack_other_fields_read_apart() -> None:
    def restart(missing: Any) -> list[bool]:
        result = read_overlay(SPLIT, "v1.Pod", missing)
        assert result is not None
        trees = (result.tree, result.merge_over({}), result.merge_over(POD))
        return [any("restartPolicy" in container for container in tree["spec"]["containers"]) for tree in trees]

    assert restart(RESTART) == [False, False, False]
    assert restart(frozenset()) == [True, True, True]
    assert restart(None) == [True, True, True]


def test_without_pruning_unknown_fields_stay() -> None:
    result = read_overlay(TEXTS["split"]["unknown fields"], "v1.Pod", None)

    assert result is not None
    assert result.merge_over({})["spec"] == {"nodeName": "host", "unknown": {"a": "b"}}


def test_a_text_that_is_no_mapping_is_none() -> None:
    assert read_overlay("- a\n", "v1.Pod", RESTART) is None


@pytest.mark.parametrize("most", range(4, 20))
def test_values_are_counted_as_the_plain_way_counts_them(most: int) -> None:
    text = "spec:\n  nodeName: a\n  tolerations: []\n  containers:\n  - name: a\n"

    def outcome(run: Any) -> str:
        try:
            return repr(run())
        except DataError as error:
            return str(error)

    expected = outcome(lambda: load_yaml(text, most=most))
    assert outcome(lambda: getattr(read_overlay(text, "v1.Pod", RESTART, most=most), "tree", None)) == expected


def test_no_part_of_a_text_is_parsed_for_each_level_of_its_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def counted(text: str) -> Any:
        read.append(text)
        return read_part(text)

    monkeypatch.setattr(overlay, "read_part", counted)
    texts = [f"    k{number}: 'a\n      b'" for number in range(500)]
    text = "\n".join(["metadata:", "  annotations:", *texts, "    'odd': a", "  'odd': b", "'odd': c", ""])

    plain(text, {})
    with suppress(DataError):
        read_overlay(text, "v1.Pod", RESTART)

    assert 0 < sum(map(len, read)) <= len(text)
