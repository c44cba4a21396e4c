"""A compiled template of a revision: functions, data, budget and sharing."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Mapping
from typing import Any

import pytest

from injector.errors import TemplateRenderError
from injector.gotemplate.values import Map
from injector.istio.behaviours import Minor
from injector.istio.goview import GoStruct
from injector.istio.template import Template, TemplateData, compile_go_template, compile_go_templates, go_functions
from tests.cases import cases

CURLY = ("{{", "}}")
ANNOTATED = GoStruct("v1.ObjectMeta", {"annotations": {"a": "1"}})


def _render(text: str, *, minor: Minor = (1, 30), env: dict[str, str] | None = None, **fields: Any) -> str:
    functions = go_functions(minor, env or {})
    return compile_go_template("inject", text, functions, CURLY).render(TemplateData(fields))


def test_a_template_reads_the_fields_of_the_data() -> None:
    assert _render(
        "{{ .Revision }}:{{ .Values.global.hub }}", Revision="stable", Values={"global": {"hub": "istio"}}
    ) == ("stable:istio")


@cases("text", "expected")
def test_istios_functions_replace_sprigs(text: str, expected: str) -> None:
    assert _render(text, ObjectMeta=ANNOTATED) == expected


def test_templates_read_the_revisions_variables_not_the_process_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PILOT_X", "process")
    text = '{{ env "PILOT_X" "unset" }} {{ expandenv "is $PILOT_X" }}'

    assert _render(text) == "unset is "
    assert _render(text, env={"PILOT_X": "revision"}) == "revision is revision"


@cases("text", "expected")
def test_the_functions_of_sprig_and_go_are_available(text: str, expected: str) -> None:
    assert _render(text) == expected


def test_to_json_takes_only_maps_of_strings_until_1_18() -> None:
    labels = Map("string", "string", {"a": "1"})

    assert _render("{{ toJson .Labels }}", minor=(1, 18), Labels=labels) == '{"a":"1"}'
    with pytest.raises(TemplateRenderError, match="toJson"):
        _render("{{ list 1 | toJson }}", minor=(1, 18))


@cases("text", "what")
def test_a_template_that_does_not_parse_names_its_line(text: str, what: str) -> None:
    with pytest.raises(TemplateRenderError) as error:
        compile_go_template("inject", text, go_functions((1, 30), {}), CURLY)

    assert error.value.what == what


@cases("text", "what")
def test_a_failing_action_has_gos_error(text: str, what: str) -> None:
    with pytest.raises(TemplateRenderError) as error:
        _render(text, Values={})

    assert error.value.what == what


def test_a_rendering_has_a_budget() -> None:
    endless = "{{ range until 1000000 }}{{ range until 1000000 }}{{ end }}{{ end }}"

    with pytest.raises(TemplateRenderError):
        _render(endless)


@pytest.mark.parametrize(
    ("delimiters", "expected"), [(("[[", "]]"), "stable {{ .Revision }}"), (CURLY, "[[ .Revision ]] stable")]
)
def test_only_the_delimiters_given_open_actions(delimiters: tuple[str, str], expected: str) -> None:
    template = compile_go_template("inject", "[[ .Revision ]] {{ .Revision }}", {}, delimiters)

    assert template.render(TemplateData({"Revision": "stable"})) == expected


def test_a_template_renders_the_same_data_again() -> None:
    template = compile_go_template("inject", "{{ .Revision }}", {}, CURLY)

    assert [template.render(TemplateData({"Revision": name})) for name in ("a", "b", "a")] == ["a", "b", "a"]


def test_the_data_has_only_the_fields_of_the_minor() -> None:
    data = TemplateData({"Spec": 1, "Values": 2, "Revision": 3}, only=frozenset({"Values", "Spec", "Other"}))

    assert list(data.fields()) == [("Spec", 1), ("Values", 2)]
    with pytest.raises(KeyError):
        data.field("Revision")


def test_a_field_that_the_minor_lacks_fails_the_template() -> None:
    template = compile_go_template("inject", "{{ .Revision }}", {}, CURLY)

    with pytest.raises(
        TemplateRenderError, match=r"can't evaluate field Revision in type \*inject\.SidecarTemplateData"
    ):
        template.render(TemplateData({"Revision": "stable"}, only=frozenset({"Spec"})))


def test_template_data_is_a_copy() -> None:
    fields = {"Revision": "a"}
    data = TemplateData(fields)
    fields["Revision"] = "b"

    assert data.field("Revision") == "a"


def _rendering(text: str, values: dict[str, str], minor: Minor = (1, 13)) -> str:
    template = compile_go_template("t", text, go_functions(minor, {}), ("{{", "}}"))
    return template.render(TemplateData({"Values": values, "Revision": "r"}))


@cases("text", "values", "expected")
def test_render_runs_a_text_with_the_data_and_functions_of_its_template(
    text: str, values: dict[str, str], expected: str
) -> None:
    assert _rendering(text, values) == expected


def test_render_exists_from_1_2_to_1_13() -> None:
    assert ["render" in go_functions(minor, {}) for minor in ((1, 1), (1, 2), (1, 13), (1, 14))] == [
        False,
        True,
        True,
        False,
    ]


@pytest.mark.parametrize(
    "text",
    [
        "{{ range 1000000000 }}{{ render `{{ range 100000 }}{{ end }}` }}{{ end }}",
        "{{ render (repeat 200000 `{{1}}`) }}",
    ],
)
def test_render_charges_the_budget_of_the_calling_template(text: str) -> None:
    with pytest.raises(TemplateRenderError, match="the template's budget is spent"):
        _rendering(text, {})


TWO = {"sidecar": "{{ .Revision }}", "other": "spec: {}"}


def _compiled(
    texts: dict[str, str] = TWO,
    delimiters: tuple[str, str] = CURLY,
    minor: Minor = (1, 24),
    env: dict[str, str] | None = None,
) -> Mapping[str, Template]:
    return compile_go_templates(texts, delimiters, minor, env or {})


def test_revisions_with_equal_texts_share_the_templates() -> None:
    first, second = _compiled(), _compiled(dict(TWO))

    assert all(first[name] is second[name] for name in TWO)


def test_a_changed_template_is_compiled_and_the_others_are_shared() -> None:
    before, after = _compiled(), _compiled({**TWO, "other": "spec: {x: 1}"})

    assert before["sidecar"] is after["sidecar"]
    assert before["other"] is not after["other"]


@cases("changed", also=[{"delimiters": ("[[", "]]")}])
def test_a_template_with_another_name_or_setting_is_compiled_separately(changed: dict[str, Any]) -> None:
    before, after = _compiled(), _compiled(**changed)

    assert next(iter(before.values())) is not next(iter(after.values()))


def test_a_template_that_no_revision_uses_is_released() -> None:
    template = weakref.ref(_compiled({"sidecar": "only here"})["sidecar"])
    gc.collect()

    assert template() is None


def test_an_error_is_not_remembered() -> None:
    for _ in range(2):
        with pytest.raises(TemplateRenderError):
            _compiled({"sidecar": "{{ nope }}"})
