"""Jinja2 templates: their data, and how they are compiled for a revision and rendered within a budget.

Templates and annotations are treated as hostile. ``sandbox`` limits what templates can access, ``filters`` what they can do with it, and
``budget`` how much. docs/jinja-revisions.md describes the data.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final

import jinja2
import jinja2.nodes

from injector.errors import AnnotationError, DataError, TemplateBudgetError, TemplateRenderError
from injector.golang.json import load_json
from injector.gotemplate.budget import METER, Budget, Rendering, use_meter
from injector.gotemplate.errors import Spent
from injector.gotemplate.values import indirect
from injector.istio.frozen import frozen
from injector.istio.functions import append_multus_network, exclude_inbound_port
from injector.istio.jinja.budget import check_value_size
from injector.istio.jinja.filters import known_filters, known_tests
from injector.istio.jinja.sandbox import Sandbox, TemplateFunction
from injector.istio.mesh import proto_to_json
from injector.kube.typed import go_struct_json

if TYPE_CHECKING:
    from injector.istio.behaviours import Minor
    from injector.istio.proto import Message
    from injector.istio.template import Template, TemplateData

_PREFIX: Final = "sidecar.istio.io/"
_RESOURCES: Final = {
    "proxyCPU": ("requests", "cpu"),
    "proxyMemory": ("requests", "memory"),
    "proxyCPULimit": ("limits", "cpu"),
    "proxyMemoryLimit": ("limits", "memory"),
}


def jinja_data(data: TemplateData, minor: Minor) -> dict[str, Any]:
    """Return the template data for Jinja2.

    ``pod`` has ``metadata`` and ``spec``; ``annotations`` and ``labels`` are the pod's, ``annotation(name, default)`` and
    ``label(name, default)`` read them; ``proxy_config`` and ``mesh`` are JSON, ``proxy_config_json`` is what goes into the proxy's
    environment.
    """
    metadata, spec = data.field("ObjectMeta").data, data.field("Spec").data
    annotations, labels = metadata.get("annotations") or {}, metadata.get("labels") or {}
    owner, kind = data.field("DeploymentMeta"), data.field("TypeMeta")
    return {
        "pod": {"metadata": metadata, "spec": spec},
        "annotations": annotations,
        "labels": labels,
        "annotation": lambda name, default="": annotations.get(name, default),
        "label": lambda name, default="": labels.get(name, default),
        "containers": spec.get("containers") or [],
        "pod_ports": lambda: pod_ports(spec.get("containers") or ()),
        "resources": lambda default: resources(annotations, default),
        "references": lambda names: [{"name": name} for name in names],
        "env_entries": lambda entries: [{"name": name, "value": entries[name]} for name in sorted(entries)],
        "named_entries": lambda name: named_entries(annotations, name),
        "values": data.field("Values"),
        "mesh": _json(data.field("MeshConfig")),
        "proxy_config": _json(data.field("ProxyConfig")),
        "proxy_config_json": data.field("ProxyConfig").target.derive(proto_to_json, minor),
        "istio_minor": minor[1],
        "revision": data.field("Revision"),
        "native_sidecars": data.field("NativeSidecars"),
        "proxy_image": data.field("ProxyImage"),
        "proxy_uid": int(data.field("ProxyUID")),
        "proxy_gid": int(data.field("ProxyGID")),
        "inbound_traffic_policy_mode": data.field("InboundTrafficPolicyMode"),
        "compliance_policy": data.field("CompliancePolicy"),
        "workload": {
            "name": owner.field("Name"),
            "namespace": owner.field("Namespace"),
            "kind": kind.field("Kind"),
            "api_version": kind.field("APIVersion"),
        },
    }


def pod_ports(containers: Iterable[Mapping[str, Any]]) -> str:
    """Return the ports of all containers as the JSON text that the agent reads from ISTIO_META_POD_PORTS."""
    ports = [go_struct_json(port, "v1.ContainerPort") for item in containers for port in item.get("ports") or ()]
    return "[\n" + "".join(f"    {',' if index else ''}{port}\n" for index, port in enumerate(ports)) + "]"


def resources(annotations: Mapping[str, str], default: Any) -> dict[str, Any]:
    """Return the proxy's resources: those in the pod's annotations if there are any, else ``default``."""
    result: dict[str, dict[str, str]] = {}
    for key, (kind, resource) in _RESOURCES.items():
        if _PREFIX + key in annotations:
            result.setdefault(kind, {})[resource] = annotations[_PREFIX + key]
    return result or dict(default)


def named_entries(annotations: Mapping[str, str], name: str) -> list[dict[str, Any]]:
    """Return the entries of an annotation such as ``sidecar.istio.io/userVolume``: a JSON object of specs by name, or a list of specs.

    As with Istio's templates, a spec may have a name of its own, which replaces its key or its index. Raises AnnotationError if the
    annotation is something else.
    """
    if name not in annotations:
        return []
    where = f"metadata.annotations[{name}]"
    hint = "make it a JSON object of names and specs, or a list of specs with names"
    try:
        entries = load_json(annotations[name])
    except DataError as error:
        raise AnnotationError(error.what, where=where, hint=hint) from error
    named = {} if entries is None else entries
    if isinstance(entries, list):
        named = {str(index): spec for index, spec in enumerate(entries)}
    if not isinstance(named, dict) or not all(isinstance(spec, dict) for spec in named.values()):
        raise AnnotationError("neither an object of objects nor a list of objects", where=where, hint=hint)
    keys = named if isinstance(entries, list) else sorted(named)
    return [{"name": key, **named[key]} for key in keys]


def _json(value: Any) -> Any:
    return indirect(value)[0].derive(_frozen_json)


def _frozen_json(message: Message) -> Any:
    return frozen(message.json_value())


_MAX_RANGE: Final = 100_000
"""Numbers of a range, each of which is a step: half of a budget."""
_MAX_MESSAGE: Final = 500
"""Characters of an error. Those of Python and Jinja2 can quote values."""
_PARTS: Final = 64
"""Parts of the output between two checks of its size: each has been counted as a value."""


def _range(*bounds: int) -> range:
    numbers = range(*bounds)
    if len(numbers) > _MAX_RANGE:
        raise OverflowError(f"Range too big. It may have {_MAX_RANGE} numbers.")
    return numbers


def environment_of(templates: Mapping[str, str]) -> Sandbox:
    """Return the environment of the templates of one config, by their names."""
    environment = Sandbox(templates)
    environment.filters = {**known_filters()}
    environment.tests = {**known_tests()}
    environment.globals = {
        "range": TemplateFunction(_range),
        "exclude_inbound_port": TemplateFunction(exclude_inbound_port),
        "append_multus_network": TemplateFunction(append_multus_network),
    }
    return environment


@dataclass(frozen=True, slots=True)
class JinjaTemplate:
    """A compiled Jinja2 template, which implements ``istio.template.Template``.

    ``clock`` returns the CPU time of this thread, so that other work on the machine does not count against a template. It is pure: the
    sandbox has no function, filter or statement that changes data.
    """

    name: str
    compiled: jinja2.Template
    minor: Minor
    clock: Callable[[], float] = time.thread_time
    called: ClassVar[frozenset[str]] = frozenset()
    is_pure: ClassVar[bool] = True
    hermetic: ClassVar[bool] = True

    def render(self, data: TemplateData) -> str:
        """Return the rendered text. Raises TemplateRenderError, with the line, if the template fails or exceeds its budget."""
        values = {
            name: TemplateFunction(value) if callable(value) else value
            for name, value in jinja_data(data, self.minor).items()
        }
        texts: list[str] = []
        size = 0
        rendering = Rendering(Budget(clock=self.clock), METER.get())
        try:
            with use_meter(rendering):
                # ``generate`` would rewrite the traceback, for which Jinja2 compiles code for each frame.
                parts = iter(self.compiled.root_render_func(self.compiled.new_context(values)))
                while some := list(islice(parts, _PARTS)):
                    check_value_size(size + sum(map(len, some)))
                    text = "".join(some)
                    size += len(text) if text.isascii() else len(text.encode())
                    check_value_size(size)
                    texts.append(text)
                rendering.check()
        except Exception as error:
            raise self._render_error(error) from error
        return "".join(texts)

    def _render_error(self, error: Exception) -> TemplateRenderError:
        kind = TemplateBudgetError if isinstance(error, Spent) else TemplateRenderError
        where = _where(error) or f"template {self.name}"
        return kind(_message(error), where=where, hint="correct the template, or the annotation it reads")


def _message(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "nested too deeply"
    if isinstance(error, MemoryError):
        return "not enough memory"
    text = (str(error) or type(error).__name__).encode(errors="backslashreplace").decode()
    if isinstance(error, Spent):
        text = f"the template's budget is spent: {text}"
    return text if len(text) <= _MAX_MESSAGE else text[:_MAX_MESSAGE] + "..."


def _where(error: Exception) -> str:
    """Return the innermost template in an error's traceback, and its line."""
    innermost: tuple[jinja2.Template, int] | None = None
    trace = error.__traceback__
    while trace is not None:
        template = trace.tb_frame.f_globals.get("__jinja_template__")
        if isinstance(template, jinja2.Template):
            innermost = template, trace.tb_lineno
        trace = trace.tb_next
    if innermost is None:
        return ""
    template, line = innermost
    # The line is that of the code that Jinja2 generated.
    return f"template {template.name}, line {template.get_corresponding_lineno(line)}"


def compile_jinja_templates(templates: Mapping[str, str], minor: Minor) -> Mapping[str, Template]:
    """Compile the templates of an inject config; each may import and include the others by name.

    Raises TemplateRenderError, with the line, if one does not parse.
    """
    environment = environment_of(templates)
    compiled: dict[str, Template] = {}
    for name in templates:
        with _parsing(name):
            compiled[name] = JinjaTemplate(name, environment.load(name), minor)
    return MappingProxyType(compiled)


def parse_jinja(environment: Sandbox, name: str, text: str) -> jinja2.nodes.Template:
    """Parse a Jinja2 template for tools. Raises TemplateRenderError, with the line, if it does not parse."""
    with _parsing(name):
        return environment.parse(text, name)


@contextmanager
def _parsing(name: str) -> Iterator[None]:
    try:
        yield
    except jinja2.TemplateSyntaxError as error:
        where = f"template {name}, line {error.lineno}"
        what = (error.message or "it does not parse")[:_MAX_MESSAGE]
        raise TemplateRenderError(what, where=where, hint="correct the template") from error
    except Exception as error:
        # Python has limits of its own, such as for nested blocks and for the digits of a number.
        raise TemplateRenderError(_message(error), where=f"template {name}", hint="correct the template") from error
