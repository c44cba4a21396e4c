from __future__ import annotations

import base64
from typing import Any

import pytest

from injector.errors import TemplateRenderError
from injector.istio.goview import view
from injector.istio.harmless import Harmless, tamed
from injector.istio.sidebyside import decodes, side_by_side
from injector.istio.template import Template, TemplateData, compile_go_template, go_functions


def compiled(text: str) -> dict[str, Template]:
    return {"t": compile_go_template("t", text, go_functions((1, 30), {}, with_sprig=True), ("{{", "}}"))}


def rendered(text: str, annotations: dict[str, Any]) -> str:
    data = TemplateData({"ObjectMeta": view("v1.ObjectMeta", {"annotations": annotations, "labels": {}})})
    return side_by_side(compiled(text))["t"].render(data)


A = "{{ index .ObjectMeta.Annotations `a` }}"


@pytest.mark.parametrize(
    ("text", "value", "expected"),
    [
        (A, "it's", "itxs"),
        ("{{ index .ObjectMeta.Annotations `a` | quote }}", 'say "hi"', '"say xhix"'),
        ("{{ annotation .ObjectMeta `a` `b` | toLower | printf `<%s>` }}", "IT'S", "<itxs>"),
        ("{{ if eq (index .ObjectMeta.Annotations `a`) `*b` }}yes{{ else }}no{{ end }}", "*b", "yes"),
        ("{{ if contains `: ` (index .ObjectMeta.Annotations `a`) }}yes{{ end }}", "a: b", "yes"),
        ("{{ range splitList `: ` (index .ObjectMeta.Annotations `a`) }}<{{ . }}>{{ end }}", "a: b'", "<a><bx>"),
        (
            "{{ range $k, $v := fromJSON (index .ObjectMeta.Annotations `a`) }}{{ $k }}={{ $v }}{{ end }}",
            '{"b":"c\'"}',
            "b=cx",
        ),
        ("{{ toYaml (fromJSON (index .ObjectMeta.Annotations `a`)) }}", '{"b":["c: d"]}', "b:\n- cx d\n"),
        ("{{ len (index .ObjectMeta.Annotations `a`) }}", " 'a' ", "5"),
        ("{{ toJSON .ObjectMeta.Annotations }}", "it's", '{"a":"itxs"}'),
        ("{{ (index (fromJSON (index .ObjectMeta.Annotations `a`)) 0).b }}", '[{"b":1}]', "1"),
    ],
)
def test_what_is_decided_is_decided_by_the_real_text_and_what_is_printed_is_harmless(
    text: str, value: str, expected: str
) -> None:
    assert rendered(text, {"a": Harmless.of(value)}) == expected


def test_a_text_that_is_not_harmless_stays() -> None:
    assert rendered("{{ index .ObjectMeta.Annotations `b` | quote }}", {"a": Harmless.of("'"), "b": "c"}) == '"c"'


def test_what_is_decoded_is_harmless_though_its_text_does_not_show_it() -> None:
    encoded = base64.b64encode(b"it's").decode()
    text = "{{ index .ObjectMeta.Annotations `a` | b64dec }}"

    assert rendered(text, {"a": Harmless.of(encoded)}) == "itxs"
    assert decodes(compiled(text))
    assert not decodes(compiled(A))


def test_a_template_of_another_engine_stays_as_it_is() -> None:
    class Other:
        hermetic = True

        def render(self, data: TemplateData) -> str:
            return str(tamed(data.field("a")))

    others: dict[str, Template] = {"t": Other()}

    assert side_by_side(others) == others
    assert not decodes(others)


def test_a_list_that_holds_another_one_twice_and_so_on_ends_the_rendering() -> None:
    text = "{{ $l := list .ObjectMeta.Name }}{{ range 60 }}{{ $l = list $l $l }}{{ end }}{{ if empty $l }}{{ end }}"
    with pytest.raises(TemplateRenderError, match="the template's budget is spent"):
        rendered(text, {"a": Harmless.of("it's")})
