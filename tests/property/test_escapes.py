"""No template reaches anything but its data and its functions, whatever way out it tries."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import chain, islice

import pytest

from injector.istio.template import Template
from tests.property import escapes

ONE_IN = int(os.environ.get("ESCAPES_EACH", "61"))
"""One attempt out of so many is made, beside all that were published."""


@pytest.mark.parametrize(
    ("compile_", "published", "attempts"),
    [
        (escapes.jinja_template, escapes.PUBLISHED, escapes.jinja_attempts),
        (escapes.go_template, escapes.GO_PUBLISHED, escapes.go_attempts),
    ],
    ids=["jinja2", "go"],
)
def test_no_attempt_gets_out(
    compile_: Callable[[str], Template], published: tuple[str, ...], attempts: Callable[[], Iterator[str]]
) -> None:
    tried = list(chain(published, islice(attempts(), 0, None, ONE_IN)))
    outcomes = {text: escapes.outcome(escapes.compiled(compile_, text), text) for text in tried}

    assert {text: outcome for text, outcome in outcomes.items() if outcome not in ("refused", "inert")} == {}
    counts = Counter(outcomes.values())
    assert counts["refused"] > 100
    assert counts["inert"] > 10, "else nothing was rendered at all"
