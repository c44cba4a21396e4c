from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from injector.istio.jinjaviews import Entries, Items, Text, plain
from injector.istio.leaves import Leaf
from injector.istio.tracing import Trace, UntraceableError

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.parametrize(
    "use",
    [
        lambda text: text == "a",
        lambda text: text != "a",
        lambda text: text < "a",
        lambda text: "a" in text,
        lambda text: {text},
        lambda text: text + "a",
        lambda text: "a" + text,
        lambda text: text * 2,
        lambda text: text % (),
        lambda text: text[0],
        list,
        lambda text: [*text],
    ],
)
def test_an_operator_of_python_ends_the_rendering(use: Callable[[Any], object]) -> None:
    with pytest.raises(UntraceableError):
        use(Text.of("slot", ()))


def test_a_text_in_a_slot_is_printed_as_it_is_and_stays_one() -> None:
    leaf = Leaf()
    text = Text.of("slot", (leaf,), bare=True)

    assert str(text) is text
    assert str.__str__(text) == "slot"
    assert plain(Trace(Leaf()), [{"a": (text,)}]) == [{"a": ("slot",)}]
    assert leaf.exact


def test_views_note_what_is_read() -> None:
    trace = Trace(Leaf())
    view = Entries(trace, trace.leaves, {"labels": {"app": "web"}, "items": [{"name": "web", "port": 80}], "on": True})

    assert "absent" not in view
    assert [type(item) for item in view["items"].items()] == [Entries]
    assert isinstance(view["labels"]["app"], Text)
    assert (view["on"], isinstance(view["items"], Items)) == (True, True)
    assert view["items"].items()[0]["port"] == 80

    item = Leaf(parts={"port": Leaf(exact=True)})
    labels = Leaf(parts={"app": Leaf()})
    parts = {"absent": Leaf(), "items": Leaf(each=item), "labels": labels, "on": Leaf(exact=True)}
    assert trace.leaves == Leaf(parts=parts)


def test_objects_that_are_compared_count_whole() -> None:
    trace = Trace(Leaf())

    assert Entries(trace, trace.leaves, {"app": "web"}) == {"app": "web"}
    assert trace.leaves.exact
