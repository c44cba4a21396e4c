from __future__ import annotations

import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from injector.errors import TemplateRenderError
from injector.istio.goview import string_struct, view
from injector.istio.jinja import MAX_OUTPUT, MAX_SECONDS, MAX_STEPS, JinjaTemplate, compile_jinja_templates
from injector.istio.meshconfig import parse_mesh_config
from injector.istio.meshfacts import mesh_facts
from injector.istio.template import TemplateData
from tests.factories import make_pod

if TYPE_CHECKING:
    from pathlib import Path

NEWEST = (1, 30)
VALUES: dict[str, Any] = {"a": {"b": [1.0, 2.0]}, "text": "x", "items": "own"}


def _data(values: dict[str, Any] | None = None) -> TemplateData:
    pod = make_pod(annotations={"note": "<n>"}, labels={"app": "cart"})
    facts = mesh_facts(parse_mesh_config(None, NEWEST))
    return TemplateData(
        {
            "TypeMeta": string_struct("v1.TypeMeta", Kind="Deployment", APIVersion="apps/v1"),
            "DeploymentMeta": string_struct("types.NamespacedName", Namespace="shop", Name="cart"),
            "ObjectMeta": view("v1.ObjectMeta", pod["metadata"]),
            "Spec": view("v1.PodSpec", pod["spec"]),
            "ProxyConfig": facts.proxy_config,
            "MeshConfig": facts.mesh_pointer,
            "Values": VALUES if values is None else values,
            "Revision": "canary",
            "NativeSidecars": True,
            "ProxyImage": "h/proxyv2:t",
            "ProxyUID": 1337,
            "ProxyGID": 1337,
            "InboundTrafficPolicyMode": "passthrough",
            "CompliancePolicy": "",
        }
    )


def _render(text: str, **others: str) -> str:
    return compile_jinja_templates({"sidecar": text, **others}, NEWEST)["sidecar"].render(_data())


def _refusal(text: str, **others: str) -> TemplateRenderError:
    with pytest.raises(TemplateRenderError) as caught:
        _render(text, **others)
    return caught.value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{{ values.a.b | tojson }}", "[1,2]"),
        ("{{ values['text'] }}", "x"),
        ("{{ annotation('note') }}{{ label('app') }}{{ label('no', 'd') }}", "<n>cartd"),
        ("{{ annotation('note') | tojson }}", '"\\u003cn\\u003e"'),
        ("{{ annotation('note') | quote }}", '"<n>"'),
        ("{{ 1.0 | quote }} {{ 1.5 | quote }} {{ true | quote }} {{ false | quote }}", '"1" "1.5" "true" "false"'),
        ("{{ 'a\"\n#' | quote }}", '"a\\"\\n#"'),
        ("{{ {'b': [1], 'a': {}} | toyaml }}", "a: {}\nb:\n- 1"),
        ("{{ 'a\nb' | indent }}", "a\n    b"),
        ("{{ 'a\nb' | indent(2, true) }}", "  a\n  b"),
        ("{{ 'a\nb' | indent(-2) }}", "a\nb"),
        ("{{ ('{\"a\": [1]}' | fromjson).a[0] }}", "1"),
        ("{{ 'abc' | truncated(2) }}{{ 'a--' | rstripped('-') }}", "aba"),
        ("{{ 'a,b' | split(',') | join(';') }}", "a;b"),
        ("{{ exclude_inbound_port(80, '90') }}", "90,80"),
        ("{{ append_multus_network('a', 'b') }}", "a, b"),
        ("{% for x in range(3) %}{{ loop.index }}{{ ',' if not loop.last }}{% endfor %}", "1,2,3"),
        ("{% for k, v in {'b': 1, 'a': 2} | dictsort %}{{ k }}{{ v }}{% endfor %}", "a2b1"),
        ("{% macro m(x) %}[{{ x }}]{% endmacro %}{{ m(1) }}{{ m(2) }}", "[1][2]"),
        ("{% if true %}\n  a\n{% endif %}\nb\n", "  a\nb\n"),
        ("{{ 'a' * 2 + 'b' ~ 1 }}{{ 9 // 2 }}{{ 9 % 2 }}", "aab141"),
    ],
)
def test_a_template_writes(text: str, expected: str) -> None:
    assert _render(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{% include 'part' %}", "part of canary"),
        ("{% from 'lib' import plain %}{{ plain(1) }}", "<1>"),
        ("{% from 'lib' import counted with context %}{{ counted([1, 2]) }}", "12"),
        ("{% extends 'base' %}{% block b %}own{% endblock %}", "base own"),
        ("{% include 'missing' ignore missing %}ok", "ok"),
    ],
)
def test_a_template_uses_the_others_of_its_config(text: str, expected: str) -> None:
    others = {
        "part": "part of {{ revision }}",
        "lib": "{% macro plain(x) %}<{{ x }}>{% endmacro %}"
        "{% macro counted(x) %}{% for i in x %}{{ i }}{% endfor %}{% endmacro %}",
        "base": "base {% block b %}{% endblock %}",
    }
    assert _render(text, **others) == expected


@pytest.mark.parametrize(
    "text",
    [
        "{{ ''.__class__ }}",
        "{{ ''['__class__'] }}",
        "{{ values.__class__ }}",
        "{{ values['__' + 'class__'] }}",
        "{{ (values.a.b).__len__ }}",
        "{{ range.__call__ }}",
        "{{ annotation.__init__ }}",
        "{{ annotation.entries }}",
        "{{ exclude_inbound_port.__globals__ }}",
        "{{ append_multus_network.once }}",
        "{{ self.__init__ }}",
        "{{ self._TemplateReference__context }}",
        "{{ _budget.steps }}",
        "{% for x in [1] %}{{ loop._iterable }}{% endfor %}",
        "{% for x in [1] %}{{ loop.__init__ }}{% endfor %}",
        "{% macro m() %}{{ m.name }}{% endmacro %}{{ m() }}",
        "{% macro m() %}{{ m._func }}{% endmacro %}{{ m() }}",
        "{{ [''] | selectattr('__class__') | list }}",
        "{{ [''] | join(attribute='__class__') }}",
        "{{ [''] | sum(attribute='__class__') }}",
        "{{ ''.join(['a']) }}",
        "{{ 'x'.encode }}",
        "{{ {'a': 1}.items() }}",
        "{{ '{0.__class__}'.format(1) }}",
        "{{ '{0.real}'.format(1) }}",
        "{{ '{a.__class__}'.format_map({'a': 1}) }}",
    ],
)
def test_no_attribute_or_method_of_a_python_object_is_reachable(text: str) -> None:
    refused = _refusal(text)
    assert "is unsafe" in refused.what
    assert refused.where == "template sidecar, line 1"


@pytest.mark.parametrize("text", ["{{ '%s' % 1 }}", "{{ '%999999999d' % 1 }}", "{{ '%(a)s' % {'a': values} }}"])
def test_a_string_is_not_formatted_with_percent(text: str) -> None:
    assert _refusal(text).what == "formatting with % is not available; join the parts"


@pytest.mark.parametrize(
    "name",
    ["attr", "format", "xmlattr", "pprint", "random", "center", "wordwrap", "urlize", "batch", "slice", "groupby"],
)
def test_a_filter_that_is_not_on_the_list_does_not_exist(name: str) -> None:
    assert _refusal("{{ 'a' | " + name + " }}").what == f"No filter named '{name}'."


def test_a_filter_is_not_reached_through_map() -> None:
    assert _refusal("{{ [1] | map('attr', '__class__') | list }}").what == "No filter named 'attr'."


@pytest.mark.parametrize("name", ["cycler", "lipsum", "joiner", "namespace", "dict", "context", "environment", "open"])
def test_a_global_that_is_not_on_the_list_does_not_exist(name: str) -> None:
    assert _refusal("{{ " + name + " }}").what == f"'{name}' is undefined"


@pytest.mark.parametrize(
    "text",
    [
        "{{ values.update({'a': 1}) }}",
        "{{ values.pop('a') }}",
        "{{ values.a.b.append(3) }}",
        "{{ annotations.clear() }}",
        "{{ containers.append(1) }}",
        "{{ pod.metadata.setdefault('a', 1) }}",
        "{% set values.a = 1 %}",
        "{% do values.update({}) %}",
    ],
)
def test_the_data_cannot_be_changed(text: str) -> None:
    values = copy.deepcopy(VALUES)
    with pytest.raises(TemplateRenderError, match=r"is unsafe|cannot assign attribute|unknown tag 'do'"):
        compile_jinja_templates({"sidecar": text}, NEWEST)["sidecar"].render(_data(values))
    assert values == VALUES


def test_a_name_that_is_set_is_forgotten_after_the_rendering() -> None:
    template = compile_jinja_templates({"sidecar": "{{ revision }}{% set revision = 'x' %}{{ revision }}"}, NEWEST)
    assert [template["sidecar"].render(_data()) for _ in range(2)] == ["canaryx", "canaryx"]


@pytest.mark.parametrize("form", ["include '{}'", "import '{}' as x", "from '{}' import x", "extends '{}'"])
def test_files_are_out_of_reach(form: str, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("{% macro x() %}secret{% endmacro %}")
    for name in (str(secret), f"../../../../../..{secret}"):
        assert _refusal("{% " + form.format(name) + " %}").what == name


@pytest.mark.parametrize("text", ["{{ range(1000000000) | list }}", "{% for i in range(1000000000) %}{% endfor %}"])
def test_a_huge_range_is_refused(text: str) -> None:
    assert _refusal(text).what.startswith("Range too big.")


@pytest.mark.parametrize(
    ("text", "size"),
    [
        (f"{{{{ 'a' * {MAX_OUTPUT + 1} }}}}", MAX_OUTPUT + 1),
        ("{{ 999999999 * 'a' }}", 999_999_999),
        ("{{ [0] * 999999999 }}", 999_999_999),
        ("{{ 999999999 * (0, 1) }}", 1_999_999_998),
        ("{% set x = 'a' * 1000000 %}{{ x + x }}", 2_000_000),
        ("{% set x = [0] * 1000000 %}{{ x + x }}", 2_000_000),
        ("{% set x = 'a' * 1000000 %}{{ x ~ x }}", 2_000_000),
        ("{{ 'a' | indent(9999999) }}", 10_000_000),
    ],
)
def test_a_huge_value_is_refused_by_its_size(text: str, size: int) -> None:
    assert _refusal(text).what == f"the template's budget is spent: a value of {size} bytes or items"


def test_a_value_and_an_output_may_be_as_long_as_the_limit() -> None:
    assert len(_render(f"{{{{ 'a' * {MAX_OUTPUT} }}}}")) == MAX_OUTPUT


def test_an_output_is_counted_in_bytes_over_all_its_parts() -> None:
    text = "{% set x = 'é' * 1000 %}{% for i in range(1000) %}{{ x }}{% endfor %}"
    assert _refusal(text).what.startswith("the template's budget is spent: a value of 105")


def test_there_are_no_powers() -> None:
    assert _refusal("{{ 9 ** 999999999 }}").what == "the operator ** is not available"


@pytest.mark.parametrize(
    "text",
    [
        "{% for i in range(9999) %}{% for j in range(9999) %}{% endfor %}{% endfor %}",
        "{% for i in range(9999) %}{% for j in range(99) %}{{ '' * 1 }}{% endfor %}{% endfor %}",
        "{% for i in range(9999) if i < 0 %}{% endfor %}" * 21,
    ],
)
def test_steps_of_loops_and_operators_are_counted(text: str) -> None:
    template = compile_jinja_templates({"sidecar": text}, NEWEST)["sidecar"]
    assert isinstance(template, JinjaTemplate)
    with pytest.raises(TemplateRenderError) as caught:
        replace(template, clock=lambda: 0.0).render(_data())
    assert caught.value.what == f"the template's budget is spent: more than {MAX_STEPS} steps"


def test_the_steps_of_each_rendering_are_its_own() -> None:
    template = compile_jinja_templates({"sidecar": "{% for i in range(99999) %}{% endfor %}"}, NEWEST)["sidecar"]
    assert isinstance(template, JinjaTemplate)
    timeless = replace(template, clock=lambda: 0.0)
    assert [timeless.render(_data()) for _ in range(3)] == ["", "", ""]


@pytest.mark.parametrize(("elapsed", "refused"), [(MAX_SECONDS, False), (MAX_SECONDS + 0.01, True)])
def test_a_rendering_ends_when_its_time_is_over(elapsed: float, refused: bool) -> None:
    template = compile_jinja_templates({"sidecar": "{% for i in range(300) %}{% endfor %}"}, NEWEST)["sidecar"]
    assert isinstance(template, JinjaTemplate)
    ticks = iter([0.0, elapsed])
    timed = replace(template, clock=lambda: next(ticks))
    if not refused:
        assert timed.render(_data()) == ""
        return
    with pytest.raises(TemplateRenderError) as caught:
        timed.render(_data())
    assert caught.value.what == f"the template's budget is spent: more than {MAX_SECONDS:g} s"


@pytest.mark.parametrize(
    "text",
    [
        "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
        "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}{{ a() }}",
        "{% include 'sidecar' %}",
        "{% import 'sidecar' as x %}",
        "{% block b %}{{ self.b() }}{% endblock %}",
        "{% for x in [1] recursive %}{{ loop([x]) }}{% endfor %}",
        "{{ ('[' * 100000) | fromjson }}",
    ],
)
def test_recursion_is_refused(text: str) -> None:
    assert _refusal(text).what == "nested too deeply"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("{{ nothing }}", "'nothing' is undefined"),
        ("{{ values.nothing }}", "'dict object' has no attribute 'nothing'"),
        ("{{ values.a.nothing.more }}", "'dict object' has no attribute 'nothing'"),
        ("{{ [1][5] }}", "list object has no element 5"),
        ("{{ 1 / 0 }}", "division by zero"),
        ("{{ 'a' + 1 }}", 'can only concatenate str (not "int") to str'),
        ("{{ '[' | fromjson }}", "it is not JSON: Expecting value: line 1 column 2 (char 1)"),
    ],
)
def test_a_fault_is_named_with_its_template_and_line(text: str, what: str) -> None:
    refused = _refusal("a\n\n" + text)
    assert (refused.what, refused.where) == (what, "template sidecar, line 3")
    assert refused.hint == "correct the template, or the annotation it reads"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("{{ (", "unexpected 'end of template'"),
        ("{% for %}", "Expected an expression, got 'end of statement block'"),
        ("{% trans %}", "Encountered unknown tag 'trans'."),
    ],
)
def test_a_template_that_does_not_parse_is_refused_when_it_is_compiled(text: str, what: str) -> None:
    with pytest.raises(TemplateRenderError) as caught:
        compile_jinja_templates({"good": "", "bad": "a\n" + text}, NEWEST)
    assert (caught.value.what, caught.value.where) == (what, "template bad, line 2")


def test_nothing_is_escaped_as_html() -> None:
    assert _render("{{ '<&>' }}") == "<&>"


def test_a_fault_of_an_annotation_names_it() -> None:
    assert _refusal("{{ named_entries('note') }}").what.startswith("metadata.annotations[note]: json: line 1: ")
