"""Reading an overlay block by block, and merging it in normal form, give what the plain way gives, for texts of any kind.

``OVERLAY_TEXTS=100000`` compares as many texts.
"""

from __future__ import annotations

import os
import re
from random import Random
from typing import Any

import pytest

from injector.errors import DataError
from injector.kube import overlay
from injector.kube.overlay import Overlay, read_overlay
from injector.kube.strategicpatch import strategic_merge, without_directives
from injector.kube.typed import normalise, prune
from injector.kube.yaml import load_yaml
from tests.property import overlays
from tests.property.subjects import replica, two_probed
from tests.sizes import sized

TEXTS = int(os.environ.get("OVERLAY_TEXTS", sized(1_200, 4_000)))
MOST = 2_000
PROXY = {
    "name": "istio-proxy",
    "image": "auto",
    "env": [{"name": "MINE", "value": "1"}, {"value": "nameless"}, {"name": "POD_NAME", "value": "x"}],
}
STRINGS = (
    "a",
    "Web-1",
    "true",
    "null",
    "Istio ",
    "a: b",
    "x #y",
    "it's",
    "a, b}",
    "z" * 1_500,
    "yes",
    "x",
    "A~",
)
VOLUMES = [{"name": "workload-socket", "emptyDir": {"medium": "Memory"}}, {"name": "istio-token", "secret": {}}]


def pods() -> list[dict[str, Any]]:
    """What the overlays are laid over: nothing, a replica, and a pod with names that templates use."""
    own = two_probed()
    own["spec"]["containers"].append(
        {**PROXY, "resources": {"limits": {"cpu": "1"}}, "ports": [{"containerPort": 15090}]}
    )
    own["spec"] |= {"initContainers": [PROXY, {"name": "istio-init", "args": ["a"]}], "volumes": VOLUMES}
    own["spec"]["securityContext"] = {"fsGroup": 1, "sysctls": [{"name": "a", "value": "b"}]}
    return [{}, *(normalise(pod, "v1.Pod") for pod in (replica("web"), own))]


PODS = pods()


def plainly_read(text: str, missing: Any) -> Any:
    """What is read of the text as a whole; None where it is no mapping."""
    tree = load_yaml(text, where="x", most=MOST)
    if not isinstance(tree, dict | None):
        return None
    return tree or {} if missing is None else prune(tree or {}, "v1.Pod", missing)


def outcome(run: Any) -> str:
    """A result or an error, as a text that tells types and the order of keys."""
    try:
        return repr(run())
    except DataError as error:
        return f"error: {error}"


def compared(text: str, missing: Any) -> bool | None:
    """Compare everything that is made of a text; return whether it was read in blocks, None where it is no overlay."""
    laid: Overlay | None = None

    def tree() -> Any:
        nonlocal laid
        laid = read_overlay(text, "v1.Pod", missing, where="x", most=MOST)
        return None if laid is None else laid.tree

    assert outcome(tree) == outcome(lambda: plainly_read(text, missing)), text
    if laid is None:
        return None
    before = repr((laid, PODS))
    for pod in PODS:
        expected = outcome(
            lambda pod=pod: normalise(without_directives(strategic_merge(pod, laid.tree, "v1.Pod"), "v1.Pod"), "v1.Pod")
        )
        assert outcome(lambda pod=pod: laid.merge_over(pod)) == expected, text
    assert repr((laid, PODS)) == before, text
    return laid.normal is not None


def test_every_rendering_of_a_template_is_read_in_blocks() -> None:
    whole = [text for text, missing in overlays.renderings() if compared(text, missing) is False]

    assert len(overlays.renderings()) > 40
    assert whole == []


@pytest.mark.parametrize("seed", range(4))
def test_changed_renderings_are_read_as_the_plain_way_reads_them(seed: int) -> None:
    dice = Random(seed)  # noqa: S311 -- nothing secret
    renderings = overlays.renderings()
    in_blocks = 0
    for _ in range(TEXTS // 8):
        text, missing = dice.choice(renderings)
        in_blocks += compared(overlays.changed(text, dice), missing) is True

    assert TEXTS // 80 < in_blocks < TEXTS // 8


@pytest.mark.parametrize("seed", range(4))
def test_invented_texts_are_read_as_the_plain_way_reads_them(seed: int) -> None:
    dice = Random(seed)  # noqa: S311 -- nothing secret
    missing = overlays.renderings()[0][1]
    in_blocks = 0
    for _ in range(TEXTS // 8):
        in_blocks += compared(overlays.invented(dice), dice.choice((missing, None))) is True

    assert in_blocks > TEXTS // 200


def refilled(text: str, dice: Random) -> str:
    """Return a text with other values between double quotes and in URLs."""
    text = re.sub(r': "[A-Za-z][^"\\\n]*"', lambda _: f': "{dice.choice(STRINGS)}"', text)
    return re.sub(r": [a-z]+://[a-z0-9/.-]+", lambda _: f": {dice.choice('ab')}://{dice.choice(('a', '1./-'))}", text)


@pytest.mark.parametrize("seed", range(4))
def test_texts_that_differ_only_in_strings_are_read_as_the_plain_way_reads_them(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    dice = Random(seed)  # noqa: S311 -- nothing secret
    renderings = overlays.renderings()
    in_blocks, read = 0, overlay._in_blocks

    def counted(*args: Any) -> Any:
        nonlocal in_blocks
        in_blocks += 1
        return read(*args)

    monkeypatch.setattr(overlay, "_in_blocks", counted)
    for _ in range(TEXTS // 40):
        text, missing = dice.choice(renderings)
        changed = dice.choice((text, overlays.changed(text, dice)))
        for _ in range(5):
            compared(refilled(changed, dice), missing)

    assert in_blocks < TEXTS // 40 * 5, "without forms, each text is read in blocks"
