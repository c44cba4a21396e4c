from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from injector.errors import TemplateRenderError
from injector.injection.pipeline import inject_pod
from injector.injection.refusals import ENTRIES, LASTS, LONGEST, Refusals, refusals_of
from injector.injection.result import Injected, RequestFacts
from injector.revisions.build import build
from tests.factories import make_pod
from tests.revisions.fakes import CONFIG, make_raw

if TYPE_CHECKING:
    from injector.istio.revision import Revision

FACTS = RequestFacts("shop")
ERROR = TemplateRenderError("it fails", where="here", hint="correct it")
TOKEN = {"name": "kube-api-access-zx4vk", "projected": {}}


def known(pod: dict[str, Any], other: dict[str, Any], facts: RequestFacts = FACTS) -> bool:
    """Whether a pod is refused once another one was."""
    refusals = Refusals()
    refusals.note(other, FACTS, ERROR)
    try:
        refusals.check(pod, facts)
    except TemplateRenderError as error:
        return str(error) == str(ERROR)
    return False


@pytest.mark.parametrize(
    ("pod", "other"),
    [
        (make_pod(), make_pod()),
        (make_pod(volumes=[TOKEN]), make_pod(volumes=[{**TOKEN, "name": "kube-api-access-bbbbb"}])),
    ],
)
def test_a_pod_of_the_same_workload_is_refused_too(pod: dict[str, Any], other: dict[str, Any]) -> None:
    assert known(pod, other)


@pytest.mark.parametrize(
    ("pod", "facts"),
    [
        (make_pod("web-2"), FACTS),
        (make_pod(labels={"a": "b"}), FACTS),
        (make_pod(annotations={"a": "b"}), FACTS),
        (make_pod(hostname="a"), FACTS),
        (make_pod(volumes=[{"name": "kube-api-access-other"}]), FACTS),
        (make_pod(), RequestFacts("other")),
        (make_pod(), RequestFacts("shop", proxy_envs={"A": "b"})),
        (make_pod(), RequestFacts("shop", guard="off")),
        (make_pod(), RequestFacts("shop", namespace_meta={"labels": {}})),
    ],
)
def test_a_pod_that_differs_is_not(pod: dict[str, Any], facts: RequestFacts) -> None:
    assert not known(pod, make_pod(), facts)


def test_a_pod_is_tried_again_after_a_while() -> None:
    now = [0.0]
    refusals = Refusals(lambda: now[0])
    refusals.note(make_pod(), FACTS, ERROR)

    now[0] = LASTS - 1
    with pytest.raises(TemplateRenderError):
        refusals.check(make_pod(), FACTS)
    now[0] = LASTS
    refusals.check(make_pod(), FACTS)


def test_so_many_are_remembered() -> None:
    refusals = Refusals()
    for number in range(ENTRIES + 9):
        refusals.note(make_pod(labels={"n": str(number)}), FACTS, ERROR)

    assert len(refusals) == ENTRIES
    refusals.check(make_pod(labels={"n": "0"}), FACTS)
    with pytest.raises(TemplateRenderError):
        refusals.check(make_pod(labels={"n": str(ENTRIES)}), FACTS)


def test_those_that_are_to_be_tried_again_are_forgotten_with_the_next() -> None:
    now = [0.0]
    refusals = Refusals(lambda: now[0])
    for number in range(5):
        refusals.note(make_pod(labels={"n": str(number)}), FACTS, ERROR)
        now[0] += LASTS / 4

    assert len(refusals) == 4


def test_of_a_long_error_the_beginning_is_remembered() -> None:
    refusals = Refusals()
    refusals.note(make_pod(), FACTS, TemplateRenderError("w" * 99_999, where="x" * 99_999, hint="y" * 99_999))
    with pytest.raises(TemplateRenderError) as again:
        refusals.check(make_pod(), FACTS)

    error = again.value
    assert (error.what, error.where, error.hint) == ("w" * LONGEST, "x" * LONGEST, "y" * LONGEST)


def failing() -> Revision:
    text = '{{ if eq (index .ObjectMeta.Labels "go") "off" }}{{ range 10000000 }}{{ end }}{{ end }}'
    return build(make_raw("rev", config=CONFIG.replace("    spec:", f"    {text}\n    spec:", 1)))


def test_a_template_that_spent_its_budget_on_a_pod_does_not_run_for_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    revision, bomb = failing(), make_pod(labels={"go": "off"})
    with pytest.raises(TemplateRenderError, match="template: sidecar:1:") as first:
        inject_pod(revision, bomb, FACTS)
    monkeypatch.setattr("injector.injection.pipeline.inject", None)
    with pytest.raises(TemplateRenderError) as second:
        inject_pod(revision, bomb, FACTS)
    assert str(second.value) == str(first.value)


def test_pods_that_are_injected_are_not_remembered() -> None:
    revision = failing()
    assert isinstance(inject_pod(revision, make_pod(), FACTS), Injected)
    assert len(refusals_of(revision)) == 0
