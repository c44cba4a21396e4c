"""``injector template lint``: mistakes in templates, with their place and a hint."""

from __future__ import annotations

import json
import re
import time

import pytest

from injector.authoring.jinjalint import lint_jinja
from injector.authoring.lint import Finding, lint_go, trials
from injector.istio.behaviours import Minor
from injector.revisions.source import build
from tests.cases import cases
from tests.differential.injectorcases import own_templates, own_values
from tests.injection.hostilepods import BROKEN, hostile_pods
from tests.revisions.fakes import make_raw

SETTINGS = {"global": {"hub": "docker.io", "unset": None}}


def check(findings: list[Finding], says: list[str]) -> None:
    """Check the texts of findings, one after another."""
    results = [f"{finding.line}:{finding.column} {finding.rule}: {finding.what}" for finding in findings]
    assert len(results) == len(says), results
    assert [line for line, said in zip(results, says, strict=True) if said not in line] == []


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

    findings = lint(text)

    assert time.thread_time() - start < 10
    assert {finding.rule for finding in findings} == rules
    assert all(len(finding.data()["source"]) <= 1_000 for finding in findings)


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

    findings = lint(end, **parts) if "include" in part else lint("".join(parts.values()) + end)

    assert [finding.rule for finding in findings] == ["syntax"]
    assert time.thread_time() - start < 5


@cases("template", "says")
def test_a_value_with_which_the_result_is_not_yaml_is_found(template: str, says: list[str]) -> None:
    config = json.dumps({"policy": "enabled", "templates": {"t": template}})
    values = json.dumps({"global": {"tag": "1.30.1", "trace": False, "name": "a"}})

    check(trials(build(make_raw(config=config, values=values)), "t"), says)


def test_each_finding_in_a_template_is_a_text_that_breaks_out() -> None:
    template, values = own_templates("1.31")["sidecar"], own_values("plain")
    findings = lint_go("sidecar", template, (1, 31), values=values)
    texts = sorted({re.split(r",? (?:\(|is )", finding.what)[0] for finding in findings})
    pods = hostile_pods(template, values)

    assert {finding.rule for finding in findings} == {"unquoted"}
    assert len(texts) > 10
    assert {text: pods.outcome(text) for text in texts} == dict.fromkeys(texts, BROKEN)
