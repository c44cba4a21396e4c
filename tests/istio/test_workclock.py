from __future__ import annotations

import pytest

from injector.injection.pipeline import inject_pod
from injector.injection.result import RequestFacts
from injector.istio.workclock import giving_way, worked
from injector.revisions.build import build
from tests.factories import make_pod
from tests.revisions.fakes import CONFIG, make_raw

LOOPS = {
    "go": CONFIG.replace("    spec:\n", "    {{- range until 1000 }}{{ $text := . }}{{ end }}\n    spec:\n"),
    "jinja2": CONFIG.replace("    spec:\n", "    {% for i in range(1000) %}{% endfor %}spec:\n").replace(
        "{{ .Values.global.tag }}", "{{ values.global.tag }}"
    ),
}


def test_the_clock_tells_the_work_of_this_thread() -> None:
    begun = worked()
    sum(range(100_000))

    assert worked() > begun


@pytest.mark.parametrize("engine", sorted(LOOPS))
def test_renderings_of_either_engine_give_way_while_they_go_on(engine: str) -> None:
    revision = build(make_raw(config=LOOPS[engine], settings={"engine": engine}))
    asked: list[None] = []

    with giving_way(lambda: asked.append(None)):
        inject_pod(revision, make_pod(), RequestFacts("shop"))
    some = len(asked)
    inject_pod(revision, make_pod(), RequestFacts("shop"))

    assert some > 3
    assert len(asked) == some
