"""Ways out of a template that are known of Jinja2 and of Go, put together from parts, and what would show that one leads out.

An attempt is inert if it is refused, or if what it renders shows nothing of Python: no object, no class, none of the canaries that lie
where only Python's own objects lead to. An audit hook sees what a way out would be good for: files, processes, sockets, modules, frames.
"""

from __future__ import annotations

import os
import re
import sys
from contextlib import contextmanager
from itertools import product
from typing import TYPE_CHECKING, Any, Final

from injector.errors import DataError
from injector.istio.behaviours import NEWEST
from injector.istio.goview import string_struct, view
from injector.istio.jinja.engine import compile_jinja_templates
from injector.istio.mesh import mesh_facts, parse_mesh_config
from injector.istio.template import TemplateData, compile_go_template, go_functions
from tests.factories import make_pod

if TYPE_CHECKING:
    from collections.abc import Iterator

    from injector.istio.template import Template

CANARY: Final = "canary-that-no-template-may-show"
PYTHON: Final = re.compile(
    rf"{CANARY}|<(?:class|function|module|bound|built-in|generator|code|frame|property|slot|method)\b|\bobject at 0x|<[\w.]+ object|"
    r"__\w+__|Traceback|site-packages"
)
"""What only Python prints; an attempt's own text is taken out before one looks for it."""

ATTRIBUTES: Final = (
    *(
        "__class__",
        "__mro__",
        "__base__",
        "__bases__",
        "__subclasses__",
        "__globals__",
        "__builtins__",
        "__init__",
        "__dict__",
    ),
    *(
        "__getattribute__",
        "__reduce_ex__",
        "__call__",
        "__code__",
        "__closure__",
        "__func__",
        "__self__",
        "__module__",
        "__import__",
    ),
    *(
        "__wrapped__",
        "__doc__",
        "__format__",
        "__html__",
        "__getitem__",
        "__iter__",
        "__next__",
        "mro",
        "func_globals",
        "im_func",
    ),
    *(
        "gi_frame",
        "gi_code",
        "gi_yieldfrom",
        "cr_frame",
        "ag_frame",
        "f_back",
        "f_globals",
        "f_locals",
        "f_builtins",
        "tb_frame",
    ),
    *(
        "format",
        "format_map",
        "encode",
        "translate",
        "environment",
        "eval_ctx",
        "blocks",
        "exported_vars",
        "parent",
        "vars",
        "name",
    ),
    *(
        "_TemplateReference__context",
        "_module",
        "_body_stream",
        "_iterator",
        "_iterable",
        "_func",
        "_environment",
        "_call",
        "secret",
    ),
    *(
        "reach",
        "target",
        "data",
        "fields",
        "items",
        "keys",
        "start",
        "stop",
        "step",
        "count",
        "index",
        "real",
        "numerator",
    ),
)
BASES: Final = (
    *(
        "''",
        "[]",
        "()",
        "{}",
        "1",
        "1.5",
        "true",
        "none",
        "values",
        "values.bait",
        "annotations",
        "labels",
        "pod",
        "mesh",
        "proxy_config",
    ),
    *(
        "containers",
        "annotation",
        "label",
        "pod_ports",
        "references",
        "exclude_inbound_port",
        "range",
        "range(3)",
        "self",
        "self.b",
        "lib",
    ),
    *(
        "lib.m",
        "super",
        "caller",
        "varargs",
        "kwargs",
        "loop",
        "cycler",
        "joiner",
        "namespace",
        "lipsum",
        "dict",
        "config",
        "request",
    ),
    *("get_flashed_messages", "url_for", "undefined_name", "_", "context", "environment", "'%s'", "'{0}'"),
)
FORMS: Final = (
    "{{{{ {base}.{name} }}}}",
    "{{{{ {base}['{name}'] }}}}",
    "{{{{ {base} | attr('{name}') }}}}",
    "{{{{ [{base}] | map(attribute='{name}') | list }}}}",
    "{{{{ [{base}] | map('attr', '{name}') | list }}}}",
    "{{{{ [{base}] | selectattr('{name}') | list }}}}",
    "{{{{ [{base}] | join(attribute='{name}') }}}}",
    "{{{{ [{base}] | sum(attribute='{name}') }}}}",
    "{{{{ [{base}] | sort(attribute='{name}') | first }}}}",
    "{{{{ {base}.{name}() }}}}",
    "{{{{ {base}['{name}'](0) }}}}",
    "{{{{ '{{0.{name}}}'.format({base}) }}}}",
    "{{{{ '{{a.{name}}}'.format_map({{'a': {base}}}) }}}}",
    "{{{{ '%(a)s' % {{'a': {base}.{name}}} }}}}",
    "{{% set x = {base}.{name} %}}{{{{ x }}}}",
    "{{% for x in {base}.{name} %}}{{{{ x }}}}{{% endfor %}}",
    "{{% if {base}.{name} is defined %}}{{{{ {base}.{name} }}}}{{% endif %}}",
    "{{% for x in [1] %}}{{{{ loop.{name} }}}}{{% endfor %}}",
    "{{% block b %}}{{{{ super.{name} }}}}{{{{ self.b.{name} }}}}{{% endblock %}}",
    "{{% macro m() %}}{{{{ caller.{name} }}}}{{{{ m.{name} }}}}{{{{ varargs.{name} }}}}{{% endmacro %}}{{% call m() %}}{{% endcall %}}",
    "{{% import 'lib' as lib %}}{{{{ lib.{name} }}}}{{{{ lib.m.{name} }}}}",
    "{{% include {base}.{name} %}}",
    "{{{{ {base} | xmlattr }}}}{{{{ {base}.{name} | safe }}}}",
)
PUBLISHED: Final = (
    "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "{{ ''.__class__.mro()[2].__subclasses__()[40]('/etc/passwd').read() }}",
    "{{ self.__init__.__globals__.__builtins__.__import__('os').popen('id').read() }}",
    "{{ self._TemplateReference__context.cycler.__init__.__globals__.os.popen('id').read() }}",
    "{{ cycler.__init__.__globals__.os.environ }}",
    "{{ joiner.__init__.__globals__.os.popen('id').read() }}",
    "{{ namespace.__init__.__globals__.os.popen('id').read() }}",
    "{{ lipsum.__globals__['os'].popen('id').read() }}",
    "{{ lipsum | attr('__globals__') }}",
    "{{ config.__class__.__init__.__globals__['os'].popen('id').read() }}",
    "{{ request.application.__globals__.__builtins__.__import__('os').popen('id').read() }}",
    "{{ request | attr('application') | attr('\\x5f\\x5fglobals\\x5f\\x5f') }}",
    "{{ ''['\\x5f\\x5fclass\\x5f\\x5f'] }}",
    "{{ ''['__cla' ~ 'ss__'] }}",
    "{{ ''[('__class_','_')|join] }}",
    "{{ dict(__clas=1, s__=2) | join }}",
    "{{ ().__class__.__base__.__subclasses__() }}",
    "{{ {}.__class__.__bases__[0].__subclasses__() }}",
    "{% for c in [].__class__.__base__.__subclasses__() %}{{ c.__name__ }}{% endfor %}",
    "{{ '{0.__class__.__init__.__globals__}'.format(values) }}",
    "{{ ('{0.__class__}' | safe).format(values) }}",
    "{{ ('{0.__class__}' | string).format(values) }}",
    "{{ '{0.__class__}' | format(values) }}",
    "{{ '%s' | format(annotation.__init__) }}",
    "{{ (values | safe).__html__ }}",
    "{{ [values] | map('format', '{0.__class__}') | list }}",
    "{{ ['{0.__class__}'] | map('format', values) | list }}",
    "{% set f = '{0.__class__}'.format %}{{ f(values) }}",
    "{{ ('{0.__class__}' | upper | lower).format_map(values) }}",
    "{{ (range(3) | map('string')).gi_frame.f_back.f_globals }}",
    "{{ (range(3) | select).gi_frame }}",
    "{{ (range(3) | batch(1)).gi_frame.f_back }}",
    "{{ range(3).__iter__().__reduce__() }}",
    "{{ values | xmlattr }}",
    "{{ {'a': annotation} | xmlattr }}",
    "{{ {'<a>': 1} | xmlattr }}",
    "{{ values | pprint }}",
    "{{ annotation | string }}",
    "{{ annotation ~ '' }}",
    "{{ [annotation] | string }}",
    "{{ annotation | tojson }}",
    "{{ annotation | list }}",
    "{{ [annotation] | join }}",
    "{{ self }}",
    "{{ self | string }}",
    "{{ loop }}",
    "{% for x in [1] %}{{ loop }}{% endfor %}",
    "{% for x in [1] %}{{ [loop] | join }}{% endfor %}",
    "{% macro m() %}{% endmacro %}{{ m }}",
    "{% macro m() %}{{ caller }}{% endmacro %}{% call m() %}{% endcall %}",
    "{% import 'lib' as lib %}{{ lib }}",
    "{% import '/etc/passwd' as x %}",
    "{% include '/proc/self/environ' %}",
    "{% include ['/etc/passwd', '/proc/self/environ'] %}",
    "{% extends '/etc/passwd' %}",
    "{% from 'os' import environ %}{{ environ }}",
    "{% do values.update({}) %}",
    "{% debug %}",
    "{% trans %}{{ ''.__class__ }}{% endtrans %}",
    "{% filter attr('__class__') %}x{% endfilter %}",
    "{% set values.a = 1 %}",
    "{% set ns = namespace(a=1) %}{% set ns.__class__ = 1 %}",
    "{{ g.pop.__globals__ }}",
    "{{ url_for.__globals__ }}",
    "{{ get_flashed_messages.__globals__ }}",
    "{{ x.__init__.__globals__ }}",
    "{{ _.__class__ }}",
)
GO_NAMES: Final = (
    *(
        "data",
        "_type",
        "_fields",
        "field",
        "method",
        "parts",
        "json_value",
        "go_type",
        "target",
        "call",
        "kind",
        "values",
        "json_value",
    ),
    *(
        "is_interface",
        "go_string",
        "replaced",
        "__class__",
        "__dict__",
        "Secret",
        "secret",
        "reach",
        "Reach",
        "GetReach",
        "GetSecret",
    ),
    *(
        "GetData",
        "Get__class__",
        "Getdata",
        "GetKind",
        "ProtoReflect",
        "Reset",
        "Descriptor",
        "XXX_unrecognized",
        "String",
        "Error",
    ),
)
GO_BASES: Final = (
    *(
        ".",
        "$",
        ".ObjectMeta",
        ".Spec",
        ".TypeMeta",
        ".DeploymentMeta",
        ".ProxyConfig",
        ".MeshConfig",
        ".Values",
        ".Values.bait",
    ),
    *(
        ".ObjectMeta.Annotations",
        ".Spec.Containers",
        "(index .Spec.Containers 0)",
        ".MeshConfig.GetDefaultConfig",
        ".ProxyUID",
        ".Struct",
    ),
    *(
        "(now)",
        "(semver `1.2.3`)",
        "(dict)",
        "(list)",
        "`a`",
        "1",
        "nil",
        "(genCAWithKey `a` 1 ``)",
        ".MeshConfig.DefaultConfig.Tracing",
    ),
)
GO_FORMS: Final = (
    "{{{{ {base}.{name} }}}}",
    "{{{{ ({base}).{name} }}}}",
    "{{{{ with {base} }}}}{{{{ .{name} }}}}{{{{ end }}}}",
    "{{{{ index {base} `{name}` }}}}",
    "{{{{ call ({base}).{name} }}}}",
    "{{{{ ({base}).{name} `a` 1 }}}}",
    "{{{{ get {base} `{name}` }}}}",
    "{{{{ dig `{name}` `x` {base} }}}}",
    "{{{{ printf `%v %+v %#v %T %p` ({base}).{name} 1 }}}}",
)
GO_PUBLISHED: Final = (
    "{{ env `CANARY` }}{{ env `CANARY` `` }}",
    "{{ expandenv `$CANARY ${CANARY}` }}",
    "{{ getHostByName `localhost` }}",
    "{{ call env `CANARY` }}",
    "{{ call .Values.bait }}",
    "{{ call .Struct.Reach }}",
    "{{ .Struct.Reach.call }}",
    "{{ call (index . `ObjectMeta`) }}",
    "{{ printf `%s %v %+v %#v %q %x %d %T` . . . . . . . . }}",
    "{{ .ObjectMeta | toJson }}{{ . | toYaml }}{{ toString . }}{{ . }}",
    "{{ html . }}{{ js . }}{{ urlquery . }}{{ print .Values }}{{ println .Struct }}",
    "{{ typeOf .Struct }}{{ kindOf .Struct }}{{ typeOf . }}",
    "{{ dateInZone `2006` now `../../../etc/passwd` }}",
    "{{ dateInZone `2006` now `/proc/self/environ` }}",
    "{{ deepCopy .Struct }}{{ deepEqual . $ }}",
    "{{ template `/etc/passwd` }}",
    "{{ osBase `/etc/passwd` }}{{ osDir `/etc` }}{{ osExt `a.b` }}{{ osIsAbs `/` }}",
    "{{ range $k, $v := . }}{{ $k }}{{ end }}",
    "{{ len . }}{{ slice . 0 1 }}{{ index . 0 }}",
    "{{ .Values.bait | fromJson }}{{ .Values.bait | fail }}",
)


class Bait(str):
    """A text with more to it: what Python finds on it, and no template."""

    __slots__ = ()
    go_type: Final = "string"

    @property
    def secret(self) -> str:
        """What is not to be reached."""
        return CANARY

    def reach(self) -> str:
        """Return what is not to be reached."""
        return CANARY


def data() -> TemplateData:
    """Template data with bait in it."""
    pod = make_pod(annotations={"note": "n"}, labels={"app": "cart"})
    facts = mesh_facts(parse_mesh_config(None, NEWEST))
    struct = string_struct("v1.TypeMeta", Kind="Deployment", APIVersion="apps/v1")
    return TemplateData(
        {
            "TypeMeta": struct,
            "DeploymentMeta": string_struct("types.NamespacedName", Namespace="shop", Name="cart"),
            "ObjectMeta": view("v1.ObjectMeta", pod["metadata"]),
            "Spec": view("v1.PodSpec", pod["spec"]),
            "ProxyConfig": facts.proxy_config,
            "MeshConfig": facts.mesh_pointer,
            "Values": {"bait": Bait("bait"), "text": "x"},
            "Revision": "canary",
            "NativeSidecars": True,
            "ProxyImage": "h/proxyv2:t",
            "ProxyUID": 1337,
            "ProxyGID": 1337,
            "InboundTrafficPolicyMode": "passthrough",
            "CompliancePolicy": "",
            "Struct": struct,
        }
    )


def jinja_attempts() -> Iterator[str]:
    """Every attempt in Jinja2."""
    yield from PUBLISHED
    for form, base, name in product(FORMS, BASES, ATTRIBUTES):
        yield form.format(base=base, name=name)


def go_attempts() -> Iterator[str]:
    """Every attempt in Go's language."""
    yield from GO_PUBLISHED
    for form, base, name in product(GO_FORMS, GO_BASES, GO_NAMES):
        yield form.format(base=base, name=name)


def jinja_template(text: str) -> Template:
    """A template in Jinja2, with another one to import."""
    return compile_jinja_templates({"sidecar": text, "lib": "{% macro m() %}{% endmacro %}"}, NEWEST)["sidecar"]


def go_template(text: str) -> Template:
    """A template of Go, with all functions of the newest minor."""
    return compile_go_template("sidecar", text, _FUNCTIONS, ("{{", "}}"))


_FUNCTIONS: Final = go_functions(NEWEST, {})


def outcome(template: Template | None, text: str) -> str:
    """Return what an attempt comes to: ``refused``, ``inert``, or what it reached; what a library did when it was loaded, it does once."""
    if template is None:
        return "refused"
    found = _outcome(template, text)
    return _outcome(template, text) if found.startswith("reached") else found


def _outcome(template: Template, text: str) -> str:
    try:
        with watched() as seen:
            rendered = template.render(data())
    except DataError as error:
        rendered = str(error)
        return f"reached {seen}" if seen else f"shown: {rendered}" if _shows(rendered, text) else "refused"
    if seen:
        return f"reached {seen}"
    return f"shown: {rendered[:200]}" if _shows(rendered, text) else "inert"


def compiled(compile_: Any, text: str) -> Template | None:
    """A template, None where it does not parse."""
    try:
        found: Template = compile_(text)
    except DataError:
        return None
    return found


def _shows(rendered: str, text: str) -> bool:
    for name in sorted({*ATTRIBUTES, *GO_NAMES, text}, key=len, reverse=True):
        rendered = rendered.replace(name, "")
    return PYTHON.search(rendered) is not None


_WATCHED: Final = (
    "open",
    "os.",
    "subprocess.",
    "socket.",
    "exec",
    "compile",
    "import",
    "ctypes.",
    "sys._getframe",
    "code.",
    "shutil.",
)
_seen: list[str] | None = None


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if _seen is not None and event.startswith(_WATCHED) and not _own(event, arguments):
        _seen.append(event)


def _own(event: str, arguments: tuple[Any, ...]) -> bool:
    """Whether it is what functions do by themselves: load the library they are made of, or look for a time zone by its name."""
    return event == "import" or (event in ("open", "exec", "compile") and _of_library(str(arguments[0])))


def _of_library(place: str) -> bool:
    return "python" in place or "zoneinfo" in place or "<code object" in place or "site-packages" in place


sys.addaudithook(_hook)


@contextmanager
def watched() -> Iterator[list[str]]:
    """Yield a list of what is done meanwhile that no template should do; the environment has a canary too."""
    global _seen  # noqa: PLW0603 -- an audit hook stays for good
    found: list[str] = []
    os.environ["CANARY"] = CANARY
    _seen = found
    try:
        yield found
    finally:
        _seen = None
        del os.environ["CANARY"]
