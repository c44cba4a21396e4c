from __future__ import annotations

import json
import re
import time

import pytest

from injector.injection.authoring.jinjalint import lint_jinja
from injector.injection.authoring.lint import Finding, lint_go, trials
from injector.istio.behaviours import Minor
from injector.revisions.source import build
from tests.cases import cases
from tests.injection import istiosource
from tests.injection.hostilepods import BROKEN, hostile_pods
from tests.revisions.fakes import make_raw

needs_istio = pytest.mark.skipif(bool(istiosource.absent()), reason=istiosource.absent() or "-")
SETTINGS = {"global": {"hub": "docker.io", "unset": None}}


def check(findings: list[Finding], says: list[str]) -> None:
    """Check the texts of findings, one after another."""
    found = [f"{each.line}:{each.column} {each.rule}: {each.what}" for each in findings]
    assert len(found) == len(says), found
    assert [line for line, said in zip(found, says, strict=True) if said not in line] == []


@cases("minor", "template", "says")
def test_mistakes_of_go_templates(minor: Minor, template: str, says: list[str]) -> None:
    check(lint_go("t", template, minor, values=SETTINGS), says)


@cases("template", "says")
def test_mistakes_of_jinja_templates(template: str, says: list[str]) -> None:
    check(lint_jinja("t", {"t": template}, (1, 30), values=SETTINGS), says)


def lint(text: str, **others: str) -> list[Finding]:
    """Lint a Go template, or one in Jinja2 with a tag or a name of that."""
    if "{%" in text or "workload" in text:
        return lint_jinja("t", {"t": text, **others}, (1, 30), values=None)
    return lint_go("t", text, (1, 30), values=None)


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        (f"a: [{'{{ .ObjectMeta.Name }}, ' * 4_000}]", {"unquoted"}),
        (f"a: [{'{{ workload.name }}, ' * 4_000}]", {"unquoted"}),
        (f"{{% if values.a %}}{''.join(f'{{% elif values.a{n} %}}' for n in range(5_000))}{{% endif %}}", set()),
        ("".join(f"{{% macro m{n}() %}}{{% endmacro %}}" for n in range(5_000)), {"unreachable"}),
    ],
    ids=["insertions", "insertions of Jinja2", "branches", "macros"],
)
def test_very_long_templates_take_no_longer_for_each_part(text: str, rules: set[str]) -> None:
    start = time.thread_time()

    found = lint(text)

    assert time.thread_time() - start < 10
    assert {each.rule for each in found} == rules
    assert all(len(each.data()["source"]) <= 1_000 for each in found)


@pytest.mark.parametrize(
    ("part", "end"),
    [
        ('{{ define "OWN" }}{{ template "NEXT" .a }}{{ template "NEXT" .b }}{{ end }}', '{{ template "t0" .Values }}'),
        ("{% macro OWN(v) %}{{ NEXT(v.a) }}{{ NEXT(v.b) }}{% endmacro %}", "{{ t0(values) }}"),
        ('{% include "NEXT" %}{% include "NEXT" %}', '{% include "t0" %}'),
    ],
)
def test_templates_that_each_call_another_one_twice_are_refused(part: str, end: str) -> None:
    parts = {f"t{n}": part.replace("NEXT", f"t{n + 1}").replace("OWN", f"t{n}") for n in range(40)}
    start = time.thread_time()

    found = lint(end, **parts) if "include" in part else lint("".join(parts.values()) + end)

    assert [each.rule for each in found] == ["syntax"]
    assert time.thread_time() - start < 5


@cases("template", "says")
def test_a_value_with_which_the_result_is_not_yaml_is_found(template: str, says: list[str]) -> None:
    config = json.dumps({"policy": "enabled", "templates": {"t": template}})
    values = json.dumps({"global": {"tag": "1.30.1", "trace": False, "name": "a"}})

    check(trials(build(make_raw(config=config, values=values)), "t"), says)


@needs_istio
def test_every_insertion_that_istio_repaired_is_found_before_and_none_after() -> None:
    removed, added = istiosource.repaired_lines()
    before, after = (
        {
            (name, each.line)
            for name in istiosource.TEMPLATES
            for each in lint_go(name, istiosource.template(commit, name), (1, 32), values=None)
            if each.rule == "unquoted"
        }
        for commit in (f"{istiosource.REPAIR}^", istiosource.REPAIR)
    )

    assert len(removed) == 19
    assert removed - before == set()
    assert added & after == set()
    assert len(before) - len(after) == len(removed)


@needs_istio
def test_each_finding_in_istios_templates_is_a_text_that_breaks_out() -> None:
    values = istiosource.values(istiosource.RELEASE)
    found = {
        name: lint_go(name, istiosource.template(istiosource.RELEASE, name), (1, 31), values=values)
        for name in istiosource.TEMPLATES
    }

    assert {each.rule for some in found.values() for each in some} == {"unquoted"}
    for name in ("injection-template", "gateway-injection-template", "grpc-agent", "grpc-simple"):
        pods = hostile_pods(istiosource.template(istiosource.RELEASE, name), values)
        texts = {re.split(r",? (?:\(|is )", each.what)[0] for each in found[name]}
        assert {text: pods.outcome(text) for text in sorted(texts)} == dict.fromkeys(sorted(texts), BROKEN)
