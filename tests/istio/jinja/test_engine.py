from __future__ import annotations

import copy
import itertools
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from injector.errors import TemplateRenderError
from injector.gotemplate.budget import MAX_CLOCK_DELTA
from injector.istio.goview import string_struct, view
from injector.istio.jinja.budget import MAX_BITS, MAX_MEMORY, MAX_OUTPUT, MAX_SECONDS, MAX_STEPS
from injector.istio.jinja.engine import JinjaTemplate, compile_jinja_templates
from injector.istio.mesh import mesh_facts, parse_mesh_config
from injector.istio.template import TemplateData
from tests.factories import make_pod

if TYPE_CHECKING:
    from pathlib import Path

NEWEST = (1, 30)
SPENT = "the template's budget is spent: "
STEPS = f"more than {MAX_STEPS} steps"
MEMORY = f"more than {MAX_MEMORY} bytes of values"
BITS = f"an integer of more than {MAX_BITS} bits"
BIG = "{% set x = 'a' * 1000000 %}"
KEYS = "{% set keys %}{% for i in range(3000) %}'{{ i * 99999999 }}': 1, {% endfor %}{% endset %}"
WIDE = "{% set a = (0,) %}" + "{% set a = (a, a) %}" * 60
"""A tuple of 2**60 numbers, in the memory of sixty."""
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


def _template(text: str, **others: str) -> JinjaTemplate:
    """A template for which no time passes."""
    template = compile_jinja_templates({"sidecar": text, **others}, NEWEST)["sidecar"]
    assert isinstance(template, JinjaTemplate)
    return replace(template, clock=lambda: 0.0)


def _render(text: str, **others: str) -> str:
    return _template(text, **others).render(_data())


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
def test_a_template_renders(text: str, expected: str) -> None:
    assert _render(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{% include 'part' %}", "part of canary"),
        ("{% from 'lib' import plain %}{{ plain(1) }}", "<1>"),
        ("{% from 'lib' import counted with context %}{{ counted([1, 2]) }}", "12"),
        ("{% extends 'base' %}{% block b %}own{% endblock %}", "base own"),
        ("{% extends 'base' %}{% block b %}{{ super() }}own{% endblock %}", "base ourown"),
        ("{% from 'lib' import counted %}{{ counted([1, 2]) }}", "12"),
        ("{% from 'lib' import added as plus %}{{ plus(1, 2) }}", "3"),
        ("{% import 'lib' as l %}{{ l.counted([1, 2]) }}{{ l.added(1, 2) }}{{ l.text }}", "123t"),
        ("{% import 'lib' as l with context %}{{ l.counted([1, 2]) }}", "12"),
        ("{% import 'lib' as l %}{{ l.other is defined }}", "False"),
        ("{% include 'base' without context %}", "base our"),
        ("{% include 'missing' ignore missing %}ok", "ok"),
    ],
)
def test_a_template_uses_the_others_of_its_config(text: str, expected: str) -> None:
    others = {
        "part": "part of {{ revision }}",
        "lib": "{% macro plain(x) %}<{{ x }}>{% endmacro %}"
        "{% macro counted(x) %}{% for i in x %}{{ i }}{% endfor %}{% endmacro %}"
        "{% macro added(x, y) %}{{ x + y }}{% endmacro %}{% set text = 't' %}",
        "base": "base {% block b %}our{% endblock %}",
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
        "{{ '{:>100000000}'.format('a') }}",
        "{{ ''['format']('a') }}",
        "{{ ['{:>100000000}'] | map(attribute='format') | first }}",
        "{{ 'a'.center(100000000) }}",
        "{{ 'a'.ljust(100000000) }}",
        "{{ 'a'.rjust(100000000) }}",
        "{{ 'a'.zfill(100000000) }}",
        "{{ 'a'.expandtabs(100000000) }}",
        "{{ 'a'.replace('a', 'b') }}",
        "{% block b %}{{ self.b.super }}{% endblock %}",
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


def test_variables_do_not_outlive_a_rendering() -> None:
    template = compile_jinja_templates({"sidecar": "{{ revision }}{% set revision = 'x' %}{{ revision }}"}, NEWEST)
    assert [template["sidecar"].render(_data()) for _ in range(2)] == ["canaryx", "canaryx"]


@pytest.mark.parametrize("form", ["include '{}'", "import '{}' as x", "from '{}' import x", "extends '{}'"])
def test_templates_cannot_read_files(form: str, tmp_path: Path) -> None:
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
        (BIG + "{{ x ~ x ~ x ~ x }}", 2_000_000),
        (BIG + "{{ x | replace('a', x) }}", 10**12),
        (BIG + "{{ x | replace('', x) }}", 10**12 + 2 * 10**6),
        (BIG + "{{ range(9999) | map('replace', '', x) | list }}", 2_000_001),
        ("{{ (['a' * 1000000] * 1000000) | join }}", 2_000_000),
        ("{{ [1, 2] | join('a' * 1000000) }}{{ [1, 2, 3] | join('a' * 1000000) }}", 2_000_003),
        ("{{ ['a' * 1000000] * 2 }}", 2_000_000),
        ("{{ (['a' * 1000000] * 2) | tojson }}", 2_000_000),
        (BIG + "{% set y %}{% for i in [x] * 2 %}{{ i }}{% endfor %}{% endset %}", 2_000_000),
        (BIG + "{% macro m() %}{{ x }}{{ x }}{% endmacro %}{{ m() }}", 2_000_000),
        (BIG + "{% filter upper %}{{ x }}b{{ x }}{% endfilter %}", 2_000_001),
        (
            BIG + "{% macro m() %}{{ caller() }}{{ caller() }}{% endmacro %}{% call m() %}{{ x }}{% endcall %}",
            2_000_000,
        ),
        ("{% set x = '<' * 1000000 %}{{ x | tojson }}", 6_000_002),
    ],
)
def test_a_huge_value_is_refused_by_its_size(text: str, size: int) -> None:
    assert _refusal(text).what == f"the template's budget is spent: a value of {size} bytes or items"


def test_a_value_and_an_output_may_be_as_long_as_the_limit() -> None:
    assert len(_render(f"{{{{ 'a' * {MAX_OUTPUT} }}}}")) == MAX_OUTPUT


def test_an_output_is_counted_in_bytes_over_all_its_parts() -> None:
    text = "{% set x = 'é' * 1000 %}{% for i in range(1000) %}{{ x }}{% endfor %}"
    assert _refusal(text).what.startswith("the template's budget is spent: a value of 105")


def test_the_power_operator_is_not_available() -> None:
    assert _refusal("{{ 9 ** 999999999 }}").what == "the operator ** is not available"


@pytest.mark.parametrize(
    "text",
    [
        "{% for i in range(9999) %}{% for j in range(9999) %}{% endfor %}{% endfor %}",
        "{% for i in range(9999) %}{% for j in range(99) %}{{ '' * 1 }}{% endfor %}{% endfor %}",
        "{% for i in range(9999) if i < 0 %}{% endfor %}" * 21,
        "{% for i in [range(99999)] * 3 recursive %}{{ loop(i) if i is iterable }}{% endfor %}",
        "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(40) }}",
        "{% macro m(n) %}{% if n %}{% set a = m(n - 1) %}{% set a = m(n - 1) %}{% endif %}{% endmacro %}{{ m(40) }}",
        "{% macro m() %}{{ caller() }}{{ caller() }}{% endmacro %}" + "{% call m() %}" * 20 + "{% endcall %}" * 20,
        "".join(
            f"{{% block b{n} %}}{{{{ self.b{n + 1}() * 2 }}}}{{{{ self.b{n + 1}() }}}}{{% endblock %}}"
            for n in range(40)
        )
        + "{% block b40 %}{% endblock %}",
        "{% macro m() %}{% endmacro %}{{ m(*[0] * 1000000) }}",
        "{{ range(99999) | map('abs') | map('abs') | list }}",
        "{% set a = range(99999) | map('default') | list %}{{ a | select('odd') | list }}",
        BIG + "{{ x | list }}",
        BIG + "{{ x | min }}",
        BIG + "{{ x | split('a') }}",
        "{% set x = 'a' * 100 %}{% for i in range(99999) %}{% set y = x | upper %}{% endfor %}",
        BIG + "{% for i in range(9999) %}{% set y = 'b' in x %}{% endfor %}",
        "{{ ([0] * 1000000) | sort }}",
        "{{ ([[0] * 100000] * 100000) | tojson }}",
        "{{ ([[0] * 1000] * 150) | toyaml }}",
        "{{ [[0] * 100000] * 100000 }}",
        "{{ ([[0] * 100000] * 100000) | string }}",
        WIDE + "{{ a }}",
        WIDE + "{{ 1 ~ a }}",
        WIDE + "{{ a == a }}",
        WIDE + "{{ 1 in a }}",
        WIDE + "{{ a is eq a }}",
        WIDE + "{{ {a: 1} }}",
        WIDE + "{{ annotation('note', a) }}",
        WIDE + "{{ [1] | map(a) | list }}",
        WIDE + "{{ [1] | select(a) | list }}",
        WIDE + "{{ [a] | max }}",
        WIDE + "{% include a %}",
        WIDE + "{% for x in a %}{{ loop.changed(x) }}{% endfor %}",
        "{% include ['none'] * 200000 ignore missing %}",
        KEYS + "{{ ('{' ~ (keys | replace(\"'\", '\"')) ~ '\"a\": 1}') | fromjson | toyaml }}",
    ],
)
def test_steps_of_loops_and_operators_are_counted(text: str) -> None:
    assert _refusal(text).what == SPENT + STEPS


def test_each_rendering_has_its_own_steps() -> None:
    template = _template("{% for i in range(99999) %}{% endfor %}")
    assert [template.render(_data()) for _ in range(3)] == ["", "", ""]


def test_the_clock_of_a_rendering_is_cpu_time() -> None:
    template = compile_jinja_templates({"sidecar": ""}, NEWEST)["sidecar"]

    assert isinstance(template, JinjaTemplate)
    assert template.clock is time.thread_time


@pytest.mark.parametrize(("a_look", "refused"), [(MAX_SECONDS / 40, False), (MAX_CLOCK_DELTA, True)])
def test_a_rendering_ends_when_its_time_is_over(a_look: float, refused: bool) -> None:
    template = _template("{% for i in range(900) %}{% endfor %}")
    ticks = itertools.count(0.0, a_look)
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
        BIG + "{% for i in range(99) %}{% set y = x[1:] %}{% endfor %}",
        "{% set x = 'é' * 1000000 %}{% for i in range(99) %}{% set y = x ~ i %}{% endfor %}",
        BIG + "{% for i in range(99) %}{% set y = x + '' %}{% endfor %}",
        "{% for i in range(9) %}{% set y = [0] * 1000000 %}{% endfor %}",
        "{% for i in range(9) %}{% set y = ('[0' ~ ',[]' * 300000 ~ ']') | fromjson %}{% endfor %}",
    ],
)
def test_the_memory_of_values_is_counted(text: str) -> None:
    assert _refusal(text).what == SPENT + MEMORY


@pytest.mark.parametrize(
    "text",
    [
        "{% set x = 9 %}" + "{% set x = x * x %}" * 60,
        "{% set x = 1 %}" + "{% set x = x + x %}" * 300,
        "{{ ('f' * 1000000) | int(0, 16) }}",
        "{{ 1e300 | int }}",
        "{{ 1e300 | round | int }}",
        "{{ ('9' * 4000) | fromjson | tojson }}",
        "{{ ('9' * 4000) | fromjson - 1 }}",
        "{{ ('9' * 4000) | fromjson }}",
    ],
)
def test_the_size_of_integers_is_limited(text: str) -> None:
    assert _refusal(text).what == SPENT + BITS


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("{{ '%999999999d' is odd }}", "str is not a number"),
        ("{{ '%999999999d' is even }}", "str is not a number"),
        ("{{ '%999999999d' is divisibleby(3) }}", "str is not a number"),
        ("{{ 1 | round(999999999, 'ceil') }}", "more than 20 digits to round to"),
        ("{{ 1 | round(-999999999) }}", "more than 20 digits to round to"),
        (BIG + "{{ x | trim(x) }}", "more than 256 characters to strip"),
        (BIG + "{{ x | rstripped(x) }}", "more than 256 characters to strip"),
        ("{{ {'1' * 9999: 1} | toyaml }}", "a key of more than 1024 characters is not written as YAML"),
        (WIDE + "{{ {}[a] }}", "tuple is not a key"),
        (WIDE + "{{ a() }}", "tuple cannot be called"),
        (WIDE + "{{ [a] | unique }}", "tuple cannot be told apart; name an attribute"),
        (WIDE + "{% import a as b %}", "tuple is not a template name"),
        ("{{ annotation }}", "TemplateFunction is not data"),
        ("{{ [range] }}", "TemplateFunction is not data"),
        ("{% for x in [1] %}{{ loop }}{% endfor %}", "LoopContext is not data"),
        ("{{ annotations[:1] }}", "dict has no slices"),
        ("{{ 1() }}", "int cannot be called"),
    ],
)
def test_expensive_operations_are_not_available(text: str, what: str) -> None:
    assert _refusal(text).what == what


@pytest.mark.parametrize(
    "tag", ["{% autoescape true %}{% endautoescape %}", "{% autoescape 'a' * 9 %}{% endautoescape %}"]
)
def test_there_is_no_autoescape(tag: str) -> None:
    assert _refusal(tag).what == "the tag autoescape is not available"


@pytest.mark.parametrize(
    "text",
    [
        "{% from 'lib' import m %}{{ m(40) }}",
        "{% import 'lib' as l %}{{ l.m(40) }}",
        "{% import 'lib' as l with context %}{{ l.m(40) }}",
        "{% from 'endless' import x %}",
        "{% include 'lib' without context %}{% include 'endless' without context %}",
    ],
)
def test_an_imported_template_spends_the_budget_of_the_importing_one(text: str) -> None:
    lib = "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}"
    endless = "{% for i in range(9999) %}{% for j in range(9999) %}{% endfor %}{% endfor %}"
    assert _refusal(text, lib=lib, endless=endless).what == SPENT + STEPS


def test_an_error_names_the_imported_template_it_occurs_in() -> None:
    refused = _refusal("{% import 'lib' as l %}\n{{ l.m() }}", lib="\n\n{% macro m() %}\n{{ 1 / 0 }}{% endmacro %}")
    assert refused.where == "template lib, line 4"


def test_an_imported_template_is_counted_in_each_rendering() -> None:
    loop = "{% for i in range(99999) %}{% endfor %}"
    template = _template("{% import 'lib' as l %}" + loop + "{{ 1 + 1 }}", lib=loop)
    for _ in range(2):
        with pytest.raises(TemplateRenderError, match=STEPS):
            template.render(_data())


@pytest.mark.parametrize("name", ["_budget", "_counted", "environment", "concat"])
def test_templates_cannot_access_the_budget_by_name(name: str) -> None:
    assert _refusal("{{ " + name + " }}").what == f"'{name}' is undefined"
    assert _render("{% set " + name + " = 1 %}{% for x in [1, 2] %}{{ (x + 1) ~ '' }}{% endfor %}") == "23"
    assert _refusal("{{ 'a' | " + name + " }}").what == f"No filter named '{name}'."


@pytest.mark.parametrize("error", [MemoryError(), SystemError("s"), AssertionError(), OSError("o")])
def test_every_error_of_a_rendering_is_a_render_error(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> str:
        raise error

    template = _template("a\n{{ [1] | join }}")
    monkeypatch.setattr("injector.istio.jinja.filters.joined", fail)
    with pytest.raises(TemplateRenderError) as caught:
        template.render(_data())
    assert caught.value.where == "template sidecar, line 2"
    assert caught.value.what in (
        "not enough memory",
        "s",
        "generator raised StopIteration",
        "AssertionError",
        "o",
    )


def test_a_long_error_is_cut() -> None:
    assert _refusal("{{ annotations['a' * 1000000] }}").what == "'dict object' has no attribute '" + "a" * 468 + "..."


def test_an_error_is_valid_unicode() -> None:
    assert _refusal("{% include '\"\\\\ud800\"' | fromjson %}").what == "\\ud800"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("{{ " + "(" * 3000 + "1" + ")" * 3000 + " }}", "nested too deeply"),
        ("{{ " + "9" * 5000 + " }}", "Exceeds the limit"),
        ("{% if 1 %}" * 200 + "{% endif %}" * 200, "too many levels of indentation"),
        ("{% for i in [1] %}{{ label('a', _loop_vars=1) }}{% endfor %}", "keyword argument repeated"),
    ],
)
def test_a_template_that_python_cannot_compile_is_refused(text: str, what: str) -> None:
    refused = _refusal(text)
    assert refused.what.startswith(what)
    assert refused.where == "template sidecar"


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
def test_an_error_has_its_template_and_line(text: str, what: str) -> None:
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


def test_an_error_of_an_annotation_names_the_annotation() -> None:
    assert _refusal("{{ named_entries('note') }}").what.startswith("metadata.annotations[note]: json: line 1: ")
