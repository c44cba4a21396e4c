"""Templates in Jinja2: what they see, compiled by revision, rendered within a budget.

A revision with ``engine: jinja2`` is rendered here. Templates and annotations are hostile: ``sandbox`` bounds what they
reach, ``filters`` what they do with it, ``budget`` how much of it. docs/jinja-revisions.md says what templates
see.

Jinja2 is imported only by revisions that use it: ``istio.template`` loads this module when it meets one.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final

import jinja2

from injector.errors import AnnotationError, DataError, TemplateRenderError
from injector.gotemplate.errors import Spent
from injector.gotemplate.values import Pointer
from injector.istio.frozen import frozen
from injector.istio.functions import append_multus_network, exclude_inbound_port
from injector.istio.jinja.budget import Budget, BudgetSpentError, check_size, spending
from injector.istio.jinja.filters import known_filters, known_tests
from injector.istio.jinja.sandbox import Function, Sandbox
from injector.istio.mesh import proto_to_json
from injector.kube.serial import load_json
from injector.kube.typed import go_struct_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

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
        "annotation": _reader(annotations),
        "label": _reader(labels),
        "containers": spec.get("containers") or [],
        "pod_ports": lambda: pod_ports(spec.get("containers") or ()),
        "resources": lambda default: resources(annotations, default),
        "references": lambda names: [{"name": name} for name in names],
        "env_entries": lambda entries: [{"name": name, "value": entries[name]} for name in sorted(entries)],
        "named_entries": lambda name: named_entries(annotations, name),
        "values": data.field("Values"),
        "mesh": _json(data.field("MeshConfig")),
        "proxy_config": _json(data.field("ProxyConfig")),
        "proxy_config_json": proto_to_json(data.field("ProxyConfig").target, minor),
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
    """Return the proxy's resources: those of the pod's annotations if it has any, else ``default``."""
    asked = {key: annotations[_PREFIX + key] for key in _RESOURCES if _PREFIX + key in annotations}
    if not asked:
        return dict(default)
    found: dict[str, dict[str, str]] = {}
    for key, value in asked.items():
        kind, resource = _RESOURCES[key]
        found.setdefault(kind, {})[resource] = value
    return found


def named_entries(annotations: Mapping[str, str], name: str) -> list[dict[str, Any]]:
    """Return the entries of an annotation such as ``sidecar.istio.io/userVolume``: a JSON object of specs by name.

    Raises:
        AnnotationError: it is no such object.
    """
    if name not in annotations:
        return []
    where = f"metadata.annotations[{name}]"
    hint = "make it a JSON object of names and specs"
    try:
        entries = load_json(annotations[name])
    except DataError as error:
        raise AnnotationError(error.what, where=where, hint=hint) from error
    if not isinstance(entries, dict) or not all(isinstance(spec, dict) for spec in entries.values()):
        raise AnnotationError("it is no object of objects", where=where, hint=hint)
    return [{**entries[key], "name": key} for key in sorted(entries)]


class _Reader:
    """A function of a name and a default."""

    __slots__ = ("entries",)

    def __init__(self, entries: Mapping[str, str]) -> None:
        self.entries = entries

    def __call__(self, name: str, default: Any = "") -> Any:
        return self.entries.get(name, default)


def _reader(entries: Mapping[str, str]) -> _Reader:
    return _Reader(entries)


def _json(value: Any) -> Any:
    target = value.target if isinstance(value, Pointer) else value
    return target.derived(_frozen_json)


def _frozen_json(message: Message) -> Any:
    return frozen(message.json_value())


_MAX_RANGE: Final = 100_000
_MAX_MESSAGE: Final = 500


def _range(*bounds: int) -> range:
    found = range(*bounds)
    if len(found) > _MAX_RANGE:
        raise OverflowError(f"Range too big. It may have {_MAX_RANGE} numbers.")
    return found


def _environment(templates: Mapping[str, str]) -> Sandbox:
    environment = Sandbox(templates)
    for named, kept in ((environment.filters, known_filters()), (environment.tests, known_tests())):
        named.clear()
        named.update(kept)
    environment.globals = {
        "range": Function(_range),
        "exclude_inbound_port": Function(exclude_inbound_port),
        "append_multus_network": Function(append_multus_network),
    }
    return environment


@dataclass(frozen=True, slots=True)
class JinjaTemplate:
    """A compiled Jinja2 template behind the protocol of ``istio.template``.

    ``clock`` tells how long this thread has worked: that the machine does other things meanwhile is no fault of a template.
    """

    name: str
    compiled: jinja2.Template
    minor: Minor
    clock: Callable[[], float] = time.thread_time
    called: ClassVar[frozenset[str]] = frozenset()
    hermetic: ClassVar[bool] = True

    def render(self, data: TemplateData) -> str:
        """Return the rendered text.

        Raises:
            TemplateRenderError: the template fails or spends its budget; with its line.
        """
        values = {
            name: Function(value) if callable(value) else value for name, value in jinja_data(data, self.minor).items()
        }
        parts: list[str] = []
        size = 0
        try:
            with spending(Budget(self.clock)):
                # Unlike ``generate``, this leaves the traceback as it is: Jinja2 compiles a text for each frame of it.
                for part in self.compiled.root_render_func(self.compiled.new_context(values)):
                    size += len(part.encode())
                    check_size(size)
                    parts.append(part)
        except Exception as error:
            raise self._failed(error) from error
        return "".join(parts)

    def _failed(self, error: Exception) -> TemplateRenderError:
        where = _where(error) or f"template {self.name}"
        return TemplateRenderError(_said(error), where=where, hint="correct the template, or the annotation it reads")


def _said(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "nested too deeply"
    if isinstance(error, MemoryError):
        return "more memory than there is"
    text = (str(error) or type(error).__name__).encode(errors="backslashreplace").decode()
    if isinstance(error, BudgetSpentError | Spent):
        text = f"the template's budget is spent: {text}"
    return text if len(text) <= _MAX_MESSAGE else text[:_MAX_MESSAGE] + "..."


def _where(error: Exception) -> str:
    """Return the innermost template that an error passed, and its line."""
    innermost: tuple[jinja2.Template, int] | None = None
    trace = error.__traceback__
    while trace is not None:
        template = trace.tb_frame.f_globals.get("__jinja_template__")
        if isinstance(template, jinja2.Template):
            innermost = template, trace.tb_lineno
        trace = trace.tb_next
    if innermost is None:
        return ""
    template, line = innermost  # of the code that Jinja2 wrote; the template's own is looked up in a long list
    return f"template {template.name}, line {template.get_corresponding_lineno(line)}"


def compile_jinja_templates(templates: Mapping[str, str], minor: Minor) -> Mapping[str, Template]:
    """Compile the templates of an inject config; each may import and include the others by name.

    Raises:
        TemplateRenderError: one does not parse; with its line.
    """
    environment = _environment(templates)
    return MappingProxyType({name: JinjaTemplate(name, _compiled(environment, name), minor) for name in templates})


def _compiled(environment: Sandbox, name: str) -> jinja2.Template:
    try:
        return environment.load(name)
    except jinja2.TemplateSyntaxError as error:
        where = f"template {name}, line {error.lineno}"
        raise TemplateRenderError(_said_of(error), where=where, hint="correct the template") from error
    except Exception as error:
        # Python has limits of its own: for nested blocks, for the digits of a number, for names that are given twice.
        raise TemplateRenderError(_said(error), where=f"template {name}", hint="correct the template") from error


def _said_of(error: jinja2.TemplateSyntaxError) -> str:
    return (error.message or "it does not parse")[:_MAX_MESSAGE]
