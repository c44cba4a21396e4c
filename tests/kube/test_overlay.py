from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from injector.errors import DataError
from injector.kube import overlay
from injector.kube.overlay import read_overlay
from injector.kube.strategicpatch import strategic_merge
from injector.kube.typed import normalise, pruned
from injector.kube.yaml.read import load_yaml, read_part

RESTART = frozenset({("v1.Container", "restartPolicy")})
POD = {
    "metadata": {"labels": {"app": "web", "b": "2"}},
    "spec": {
        "containers": [{"name": "app", "env": [{"name": "A", "value": "1"}]}, {"name": "istio-proxy", "image": "auto"}],
        "volumes": [{"name": "data", "emptyDir": {}}],
    },
}
SPLIT = """
metadata:
  labels:
    app: "mine"
    # a comment
    version: v1
  annotations: {
    a: "b",
  }
spec:
  initContainers:
  - name: istio-init
    args:
    - -p
    - "15001"

  containers:
  - name: istio-proxy
    restartPolicy: Always
    env:
    - name: CONFIG
      value: |
             {}
    - name: EMPTY
      value: ""
    - name: CPU
      valueFrom:
        resourceFieldRef:
          resource: limits.cpu
    resources:
      limits:
        cpu: 2000m
  volumes:
  - emptyDir:
    name: socket
  - {name: data, secret: {secretName: s}}
"""
WHOLE = {
    "a flow list with lines in the column of the keys": "spec:\n  containers: [\n  {name: a,\n  image: b}\n  ]\n",
    "a directive in a list": "spec:\n  containers:\n  - $patch: delete\n    name: app\n",
    "a directive among labels": "metadata:\n  labels:\n    app: a\n    $patch: replace\n",
    "an order": "spec:\n  $setElementOrder/volumes:\n  - name: data\n  volumes:\n  - name: x\n",
    "an anchor": "spec:\n  nodeName: &a n\n  hostname: *a\n",
    "an anchor in another part": "metadata:\n  name: &a n\nspec:\n  nodeName: host\n",
    "a key twice": "spec:\n  nodeName: a\n  hostname: b\n  nodeName: c\n",
    "a field in other letters": "spec:\n  NodeName: a\n",
    "a null in a map": "metadata:\n  labels:\n    b:\n    a: x\n",
    "two documents": "metadata:\n  name: a\n---\nspec: [\n",
    "a tab": "metadata:\n  name: a\t\n",
    "a carriage return": "metadata:\n  name: a\r\n  namespace: b\r\n",
    "a line separator": "metadata:\n  name: a\u2028spec: b\n",
}
SPLIT_TOO = {
    "two containers of one name": "spec:\n  containers:\n  - name: istio-proxy\n    image: a\n  - name: istio-proxy\n    image: b\n",
    "a merge key": "metadata:\n  labels:\n    <<: {a: b}\n    c: d\n    <<: {c: e}\n",
    "nothing": "",
    "comments": "# a\n\n  # b\n",
    "a quoted text over lines": 'metadata:\n  annotations:\n    a: "x\n\n      y"\n    b: c\n',
    "a plain text over lines": "metadata:\n  annotations:\n    a: x\n      y\n    b: c\n",
    "a text that is kept with its lines": "metadata:\n  annotations:\n    a: |+\n      x\n\n\n    b: >-\n      y\n      z\n",
    "a text with its own indentation": "metadata:\n  annotations:\n    a: |1\n       x\n      y\n",
    "a flow list over lines": "spec:\n  containers: [\n    {name: a,\n    image: b}\n]\n  nodeName: host\n",
    "numbers and words": "spec:\n  priority: 0x10\n  hostNetwork: yes\n  terminationGracePeriodSeconds: 30\n  tolerations: []\n",
    "no line feed at the end": "metadata:\n  annotations:\n    a: b\nspec:\n  nodeName: host",
    "unknown fields": "unknown:\n  - a\n  - b: c\nspec:\n  nodeName: host\n  unknown: {a: b}\n",
    "nulls": "spec:\n  nodeName:\n  volumes:\n  - emptyDir:\n    name: data\n  securityContext: ~\n",
}
REFUSED = {
    "an open quote": 'metadata:\n  name: "a\nspec:\n  nodeName: b\n',
    "a closed one too many": "metadata:\n  name: a\n}\n",
    "a closing line first": "}\nmetadata:\n  name: a\n",
    "an open flow list": "spec:\n  containers: [\n  - name: a\n  volumes: []\n",
    "an entry between two columns": "spec:\n    nodeName: a\n  hostname: b\n",
    "an item that is indented less": "spec:\n  containers:\n    - name: a\n   - name: b\n",
    "a list in a mapping": "spec:\n  nodeName: a\n  - name: b\n",
    "an unknown alias": "metadata:\n  name: *a\n",
    "not a number": "spec:\n  priority: .nan\n",
    "a value of the wrong type": "spec:\n  containers:\n  - name: a\n    image: 5\n",
    "a quantity that is none": "spec:\n  containers:\n  - name: a\n    resources:\n      limits:\n        cpu: lots\n",
}


def plain(text: str, original: Any, missing: Any = RESTART) -> Any:
    """What the plain way makes of a text and an object."""
    try:
        tree = pruned(load_yaml(text, where="x") or {}, "v1.Pod", missing)
        return tree, normalise(strategic_merge(original, tree, "v1.Pod"), "v1.Pod")
    except DataError as error:
        return str(error)


def read(text: str, original: Any, missing: Any = RESTART) -> Any:
    """What an overlay makes of them."""
    try:
        found = read_overlay(text, "v1.Pod", missing, where="x")
        assert found is not None
        return found.tree, found.over(original)
    except DataError as error:
        return str(error)


@pytest.mark.parametrize("original", [{}, POD])
@pytest.mark.parametrize("name", [*WHOLE, *SPLIT_TOO, *REFUSED, "split"])
def test_an_overlay_is_what_the_plain_way_makes_of_it(name: str, original: Any) -> None:
    text = {**WHOLE, **SPLIT_TOO, **REFUSED, "split": SPLIT}[name]

    assert repr(read(text, original)) == repr(plain(text, original))


@pytest.mark.parametrize("name", WHOLE)
def test_what_cannot_be_split_or_merged_in_parts_is_read_as_a_whole(name: str) -> None:
    found = read_overlay(WHOLE[name], "v1.Pod", RESTART)

    assert found is not None
    assert found.normal is None


@pytest.mark.parametrize("text", [SPLIT, *SPLIT_TOO.values()])
def test_what_can_be_split_is(text: str) -> None:
    found = read_overlay(text, "v1.Pod", RESTART)

    assert found is not None
    assert found.normal == normalise(strategic_merge({}, found.tree), "v1.Pod")


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_is_refused_in_the_same_words(name: str) -> None:
    assert isinstance(read(REFUSED[name], POD), str)


def test_equal_blocks_are_read_once() -> None:
    first, second = (read_overlay(text, "v1.Pod", RESTART) for text in (SPLIT, SPLIT.replace("mine", "yours")))

    assert first is not None
    assert second is not None
    assert first.tree["spec"] is second.tree["spec"]
    assert second.tree["metadata"]["labels"]["app"] == "yours"


def test_minors_that_lack_other_fields_read_apart() -> None:
    def restart(missing: Any) -> list[bool]:
        found = read_overlay(SPLIT, "v1.Pod", missing)
        assert found is not None
        trees = (found.tree, found.over({}), found.over(POD))
        return [any("restartPolicy" in each for each in tree["spec"]["containers"]) for tree in trees]

    assert restart(RESTART) == [False, False, False]
    assert restart(frozenset()) == [True, True, True]
    assert restart(None) == [True, True, True]


def test_without_pruning_unknown_fields_stay() -> None:
    found = read_overlay(SPLIT_TOO["unknown fields"], "v1.Pod", None)

    assert found is not None
    assert found.over({})["spec"] == {"nodeName": "host", "unknown": {"a": "b"}}


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
