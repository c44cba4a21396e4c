from __future__ import annotations

import gc
from typing import Any

import pytest

from injector.istio.template import Templates, shared_templates
from injector.revisions.build import build
from tests.revisions.fakes import CONFIG, make_raw


def test_revisions_with_equal_texts_have_the_same_templates() -> None:
    first, second = build(make_raw("a")), build(make_raw("b"))

    assert first.templates is second.templates


@pytest.mark.parametrize(
    "other",
    [
        make_raw("b", config=CONFIG.replace("image:", "image:  ")),
        make_raw("b", settings={"istioVersion": "1.23"}),
        make_raw("b", settings={"env": {"ENABLE_NATIVE_SIDECARS": "true"}}),
    ],
)
def test_another_text_minor_or_variable_is_compiled_apart(other: object) -> None:
    assert build(make_raw("a")).templates is not build(other).templates  # type: ignore[arg-type]


TWO = CONFIG + "  other: |\n    spec: {}\n"


def test_of_templates_that_changed_in_part_the_others_are_shared() -> None:
    before, after = (
        build(make_raw("a", config=TWO)),
        build(make_raw("a", config=TWO.replace("spec: {}", "spec: {x: 1}"))),
    )

    assert before.templates is not after.templates
    assert before.templates["sidecar"] is after.templates["sidecar"]
    assert before.templates["other"] is not after.templates["other"]


@pytest.mark.parametrize(
    "fields",
    [
        {"config": CONFIG.replace("sidecar", "sidekick")},
        {"settings": {"istioVersion": "1.23"}},
        {"settings": {"env": {"ENABLE_NATIVE_SIDECARS": "true"}}},
    ],
)
def test_a_template_of_another_name_minor_or_variable_is_another(fields: dict[str, Any]) -> None:
    (one,), (other,) = (build(make_raw(**each)).templates.values() for each in ({}, fields))

    assert one is not other


def test_what_no_revision_has_any_more_is_gone() -> None:
    made: list[int] = []

    def compiled() -> Templates:
        made.append(1)
        return Templates()

    held = shared_templates("key of this test", compiled)
    assert shared_templates("key of this test", compiled) is held
    del held
    gc.collect()
    shared_templates("key of this test", compiled)

    assert len(made) == 2


def test_an_error_is_not_remembered() -> None:
    def broken() -> Templates:
        raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011 -- whatever it is
        shared_templates("another key of this test", broken)
    templates = Templates()

    assert shared_templates("another key of this test", lambda: templates) is templates
