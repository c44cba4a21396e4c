"""Messages of Istio's analyzer that concern injection, with the same codes, levels and texts, and those of the injector's own.

Follows Istio 1.30.3 and release-1.31, which agree: in pkg/config/analysis msg/messages.yaml, analyzers/injection/injection.go and
image-auto.go, analyzers/annotations/annotations.go, analyzers/maturity/maturity.go, analyzers/webhook/webhook.go and
local/istiod_analyze.go, and for IST0136 and IST0169 istioctl/pkg/precheck/precheck.go. ``apiannotations.json`` has the annotations of
istio.io/api, see tests/istio/recorder/apiannotations.py.

Istio's analyzer knows pods and Deployments, and only the namespace label ``istio-injection``. Here:

- a pod without a proxy is reported if a webhook is called for it, whichever label selects it, and only then;
- the pod templates of all workloads are checked, if none of the workload's pods is;
- a namespace or pod that asks for injection and for which no webhook is called is reported (INJ0001);
- a Deployment with ``image: auto`` is not reported only because the files have no webhook;
- annotations that Istio's templates read are known, also if istio.io/api does not list them;
- a pattern that suppresses messages may have ``name.namespace``, as Istio documents it, or ``namespace/name``;
- the webhooks of all revisions count, and a webhook for pods without any label is injection by default.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

from injector.golang.json import load_json
from injector.golang.strconv import quote
from injector.istio import nearmisses
from injector.istio.annotations import ANNOTATIONS, annotation_fault
from injector.istio.behaviours import NEWEST, Minor, format_minor
from injector.istio.labels import (
    DATAPLANE_MODE,
    DEFAULT_NAME,
    INJECT_LABEL,
    INJECTION_LABEL,
    ISTIO_NAMESPACE,
    NAME_LABEL,
    REVISION_LABEL,
    SYSTEM_NAMESPACES,
)
from injector.istio.webhooks.calls import called_webhooks, why_not_called
from injector.istio.webhooks.configurations import WebhookOptions
from injector.istio.webhooks.matching import asked_name
from injector.istio.webhooks.overlaps import is_istios, overlapping
from injector.istio.webhooks.reading import LiveWebhooks, istios_webhooks, live_webhooks, precedence_of
from injector.kube.pods import controller_of, identity_of
from injector.kube.podtemplates import OTHER_KINDS, OtherKinds, OuterMetadata, created_pods
from injector.kube.typed import normalise

if TYPE_CHECKING:
    from injector.kube.podtemplates import Created

    Labels = Mapping[str, str]

ERROR: Final = "Error"
WARNING: Final = "Warning"
INFO: Final = "Info"
LEVELS: Final = (ERROR, WARNING, INFO)
"""The levels, the worst first."""

_DOCS: Final = f"https://istio.io/v{format_minor(NEWEST)}/docs/reference/config/analysis"
_IMAGE_AUTO: Final = "%s %s contains `image: auto` but does not match any Istio injection webhook selectors."
_NOT_INJECTED: Final = (
    "The namespace is not enabled for Istio injection. Run 'kubectl label namespace %s istio-injection=enabled' to enable it, "
    "or 'kubectl label namespace %s istio-injection=disabled' to explicitly mark it as not needing injection."
)
_SEVERAL_LABELS: Final = (
    "The namespace has more than one type of injection labels %s, which may lead to undefined behavior. "
    "Make sure only one injection label exists."
)
_CHANGED: Final = (
    "The configuration %s changed in release %s: %s. "
    "Or, install with `--set compatibilityVersion=%s` to retain the old default."
)
_NEVER_COMPLETES: Final = (
    "%s, but istio-proxy is not a native sidecar and keeps running after the other containers: the %s never completes, "
    "unless the application ends the proxy by POST localhost:15020/quitquitquit; %s."
)
_TWO_PROXIES: Final = (
    "The injected pod has istio-proxy in spec.initContainers and in spec.containers, which the API server refuses; "
    "write istio-proxy in templates (%s) and pods into spec.initContainers, %s."
)
MESSAGES: Final[Mapping[str, tuple[str, str]]] = {
    "INJ0001": (ERROR, "New pods get no sidecar: %s."),
    "INJ0002": (WARNING, _NEVER_COMPLETES),
    "INJ0003": (
        WARNING,
        "%s asks the agent in istio-proxy, which starts later, so the pod never starts; %s.",
    ),
    "INJ0004": (WARNING, "%s is %s, the %s of istio-proxy: the traffic of %s bypasses the proxy; use another %s."),
    "INJ0005": (WARNING, "%s, but istio-proxy is a container for Linux, %s; %s."),
    "INJ0006": (WARNING, "metadata.annotations[%s] has no effect: %s; %s."),
    "INJ0007": (WARNING, "metadata.annotations[%s]: %s; %s."),
    "INJ0008": (WARNING, "Istio does not read %s; did you mean %s?"),
    "INJ0009": (WARNING, "%s has no effect: it is %s; %s."),
    "INJ0010": (WARNING, "%s is %s, but %s; %s."),
    "INJ0011": (WARNING, "None of the discoverySelectors of the mesh config selects the namespace, so %s; %s."),
    "INJ0012": (ERROR, _TWO_PROXIES),
    "INJ0013": (
        WARNING,
        "%s is %s, which the kubelet refuses: %s; correct the hub, image and tag of the values, or the annotation for the image.",
    ),
    "IST0102": (INFO, _NOT_INJECTED),
    "IST0103": (
        WARNING,
        "The pod %s is missing the Istio proxy. This can often be resolved by restarting or redeploying the workload.",
    ),
    "IST0107": (WARNING, "Misplaced annotation: %s can only be applied to %s"),
    "IST0108": (WARNING, "Unknown annotation: %s"),
    "IST0123": (WARNING, _SEVERAL_LABELS),
    "IST0125": (WARNING, "Invalid annotation %s: %s"),
    "IST0135": (INFO, "Annotation %s has been deprecated%s and may not work in future Istio versions."),
    "IST0136": (INFO, "Annotation %s is part of an alpha-phase feature and may be incompletely supported."),
    "IST0139": (ERROR, "%s"),
    "IST0146": (WARNING, _IMAGE_AUTO),
    "IST0147": (ERROR, _IMAGE_AUTO),
    "IST0148": (
        INFO,
        "is enabled for Istio injection, as Istio is installed with enableNamespacesByDefault as true.",
    ),
    "IST0169": (WARNING, _CHANGED),
}
"""The level and the text of each code. Those with INJ are the injector's own, all others are Istio's."""

OWN_CODES: Final = "INJ"
"""The codes of the injector's own messages begin with this."""
_SUPPRESS: Final = "galley.istio.io/analyze-suppress"
_PROXY: Final = "istio-proxy"
# istiod and the injector write them, so users cannot avoid them (maturity.go, AlwaysIgnoredAnnotations).
_WRITTEN: Final = frozenset({"sidecar.istio.io/status", "gateway.istio.io/controller-version", REVISION_LABEL})
# Read by the templates of a release, but not in istio.io/api.
_READ_BY_TEMPLATES: Final = frozenset(
    {
        "gateway.istio.io/agentgatewayImage",
        "prometheus.istio.io/scrape-targets",
        "sidecar.istio.io/capNetBindService",
    }
)
# The alpha annotations that are ignored in a pod without istio-init (maturity.go, conditionallyIgnoredAnnotations).
_SET_WITH_CNI: Final = frozenset(
    {
        "sidecar.istio.io/interceptionMode",
        "traffic.sidecar.istio.io/includeInboundPorts",
        "traffic.sidecar.istio.io/excludeInboundPorts",
        "traffic.sidecar.istio.io/includeOutboundIPRanges",
    }
)
# The last minor whose default mesh config sends traces to the Service zipkin.
_LAST_ZIPKIN: Final = (1, 21)
ZIPKIN: Final = "zipkin"


@dataclass(frozen=True, slots=True)
class Item:
    """An object, as far as the analyzer reads it: of an object of the cluster, the namespace is empty.

    ``pod`` is the pod itself if ``is_pod``, else the pod that a workload would create, ``outer`` the metadata around its template,
    ``template`` the path of the template, and ``has_completed`` whether one of its pods has ended by itself. ``place`` is the file and
    the line of the object.
    """

    kind: str
    name: str
    namespace: str = ""
    labels: Labels = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    pod: Mapping[str, Any] | None = None
    is_pod: bool = False
    place: str = ""
    outer: tuple[OuterMetadata, ...] = ()
    template: str = ""
    has_completed: bool = False

    @property
    def full_name(self) -> str:
        """The name after the namespace."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    def names(self) -> tuple[str, str]:
        """Return the kind and name as messages have them, and as Istio's documentation writes them."""
        dotted = f"{self.name}.{self.namespace}" if self.namespace else self.name
        return f"{self.kind} {self.full_name}", f"{self.kind} {dotted}"

    @property
    def home(self) -> str:
        """The namespace that messages about the object belong to: the object itself if it is one. Empty for the cluster."""
        return self.name if self.kind == "Namespace" else self.namespace


def items_of(obj: Mapping[str, Any], default: str, others: OtherKinds = OTHER_KINDS, *, place: str = "") -> list[Item]:
    """Return an object for the analyzer, once for each of its pod templates, of which only the first one has the object's own metadata.

    Nothing is returned for an object that a workload made, such as a Job of a CronJob, unless it is a pod. ``default`` is the namespace of
    an object that names none; it is empty for an object of the cluster. Raises ManifestError if it cannot be read.
    """
    meta = normalise(obj.get("metadata"), "v1.ObjectMeta", coerce=True) or {}
    workloads = list(created_pods({**obj, "metadata": meta}, default, others))
    is_pod = obj["kind"] == "Pod"
    if not is_pod and controller_of(meta) is not None:
        return []
    item = Item(
        obj["kind"],
        meta.get("name") or meta.get("generateName") or "",
        meta.get("namespace") or default,
        meta.get("labels") or {},
        meta.get("annotations") or {},
        is_pod=is_pod,
        place=place,
    )
    if not workloads:
        return [item]
    items = [replace(item_of_workload(workload), is_pod=is_pod, place=place) for workload in workloads]
    items[0] = replace(items[0], labels=item.labels, annotations=item.annotations)
    return items


def item_of_workload(workload: Created) -> Item:
    """Return a workload for the analyzer."""
    return Item(
        workload.kind,
        workload.name,
        workload.namespace,
        pod=workload.pod,
        outer=workload.outer,
        template=workload.template,
        has_completed=workload.has_completed,
    )


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One finding about an object."""

    code: str
    item: Item
    text: str

    @property
    def level(self) -> str:
        """One of ``LEVELS``."""
        return MESSAGES[self.code][0]

    def is_at_least(self, level: str) -> bool:
        """Tell whether the message is as bad as a level, or worse."""
        return LEVELS.index(self.level) <= LEVELS.index(level)

    @property
    def line(self) -> str:
        """The message as istioctl prints it, after its level."""
        place = f" {self.item.place}" if self.item.place else ""
        return f"[{self.code}] ({self.item.names()[0]}{place}) {self.text}"

    def data(self) -> dict[str, str]:
        """Return the message as JSON data, as istioctl prints it."""
        docs = {} if self.code.startswith(OWN_CODES) else {"documentationUrl": f"{_DOCS}/{self.code.lower()}/"}
        place = {"reference": self.item.place} if self.item.place else {}
        data = {"code": self.code, "level": self.level, "message": self.text, "origin": self.item.names()[0]}
        return dict(sorted({**data, **docs, **place}.items()))


def message_of(code: str, item: Item, *arguments: str) -> Diagnostic:
    """Return the message of a code about an object, with the arguments of its text."""
    return Diagnostic(code, item, MESSAGES[code][1] % arguments)


@dataclass(frozen=True)
class Mesh:
    """The facts that decide about the injection of all objects.

    ``configurations`` are MutatingWebhookConfigurations, as ``read_configuration`` returns them, and ``places`` their places by name.
    ``webhooks`` are those that call an injector: by default those of the ``configurations``, or without any, Istio's own for the revisions
    and tags ``names``. ``missing`` are the Services that webhooks call and that do not exist, as ``namespace/name``. ``oldest`` is the
    minor of the oldest revision. ``zipkin`` is the Service that control planes up to 1.21 send traces to by default, if it exists.
    """

    configurations: Sequence[Mapping[str, Any]] = ()
    names: frozenset[str] = frozenset()
    missing: frozenset[str] = frozenset()
    istio_namespace: str = ISTIO_NAMESPACE
    oldest: Minor | None = None
    zipkin: Item | None = None
    places: Mapping[str, str] = field(default_factory=dict)
    webhooks: LiveWebhooks | None = None

    @cached_property
    def _webhooks(self) -> LiveWebhooks:
        if self.webhooks is not None:
            return self.webhooks
        if self.configurations:
            return live_webhooks(self.configurations)
        return istios_webhooks(dict.fromkeys(self.names, WebhookOptions()))

    @cached_property
    def served(self) -> frozenset[str]:
        """The revisions and tags that webhooks are called for."""
        requirements = [requirement for webhook in self._webhooks for requirement in webhook.requirements]
        named = {
            value for requirement in requirements if requirement.key == REVISION_LABEL for value in requirement.values
        }
        served = frozenset(name for name in named - {DEFAULT_NAME} if self.reaches({REVISION_LABEL: name}))
        return served | {DEFAULT_NAME} if self.reaches({INJECTION_LABEL: "enabled"}) else served

    def reaches(self, namespace: Labels) -> bool:
        """Tell whether a webhook may be called for pods of a namespace with these labels."""
        return any(webhook.namespace.matches(namespace) for webhook in self._webhooks)

    def calls(self, namespace: Labels, pod: Labels, content: Mapping[str, Any] | None = None) -> bool:
        """Tell whether a webhook is called for a pod with these labels; matchConditions count if its ``content`` is given."""
        return bool(called_webhooks(self._webhooks, namespace, pod, content))

    def why_none(self, namespace: Labels, pod: Labels, content: Mapping[str, Any] | None = None) -> str:
        """Explain why no webhook is called for a pod."""
        return why_not_called(self._webhooks, namespace, pod, content, self.served)

    @cached_property
    def precedence(self) -> str:
        """The object whose label ``istio.io/rev`` counts if both a pod and its namespace have one."""
        return precedence_of(self._webhooks)


def analyze(items: Iterable[Item], mesh: Mesh) -> list[Diagnostic]:
    """Return the messages about the objects and the webhooks, sorted as istioctl sorts them and each one once.

    As for istioctl, objects in the system namespaces do not count, nor messages that an annotation of the object suppresses.
    """
    known = [item for item in items if item.home not in SYSTEM_NAMESPACES]
    namespaces = {item.name: item for item in known if item.kind == "Namespace"}
    messages = [
        *(message for namespace in namespaces.values() for message in _of_namespace(namespace, mesh)),
        *(message for item in known for message in _of_annotations(item.kind, item, item.annotations, item.labels)),
        *(message for item in known if item.pod is not None for message in _of_pod(item, namespaces, mesh)),
        *_of_templates(known),
        *(message for item in without_repeated_pods(known) for message in _of_near_misses(item, namespaces, mesh)),
        *_of_webhooks(mesh),
        *_of_upgrade(mesh),
    ]
    return list(in_order(messages))


def in_order(messages: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """Return messages sorted as istioctl sorts them and each one once, without those that an annotation of the object suppresses."""
    unsuppressed = {message.line: message for message in messages if not _is_suppressed(message)}
    return tuple(sorted(unsuppressed.values(), key=_order))


def _order(message: Diagnostic) -> tuple[int, str, str, str]:
    item = message.item
    return LEVELS.index(message.level), message.code, f"{item.kind}/{item.name}/{item.namespace}", message.line


def _is_suppressed(message: Diagnostic) -> bool:
    codes = message.item.annotations.get(_SUPPRESS, "").split(",")
    return "*" in codes or message.code in codes


def suppresses(pattern: str, message: Diagnostic) -> bool:
    """Tell whether ``CODE=KIND NAME``, in which ``*`` stands for any text, suppresses a message."""
    code, _, name = pattern.partition("=")
    glob = ".*".join(map(re.escape, name.split("*")))
    return code == message.code and any(re.fullmatch(glob, item_name, re.DOTALL) for item_name in message.item.names())


def _of_namespace(item: Item, mesh: Mesh) -> Iterator[Diagnostic]:
    if item.name == mesh.istio_namespace:
        return
    labels, injection = item.labels, item.labels.get(INJECTION_LABEL)
    label_keys = [INJECTION_LABEL, REVISION_LABEL, DATAPLANE_MODE]
    counted = [f"{key}={labels[key]}" for key in label_keys if key in labels]
    if injection not in (None, "enabled"):
        counted = counted[:1]
    if len(counted) > 1:
        yield message_of("IST0123", item, f"[{' '.join(counted)}]")
    if labels.get(DATAPLANE_MODE) == "ambient":
        return
    if not injection and REVISION_LABEL not in labels:
        if mesh.calls(_labels_of(item), {}):
            yield message_of("IST0148", item)
        else:
            yield message_of("IST0102", item, item.name, item.name)
    yield from _check_served(item, _labels_of(item), {}, mesh)


def _labels_of(namespace: Item) -> dict[str, str]:
    """Return the labels of a namespace, with the one that the API server gives each namespace."""
    return {**namespace.labels, NAME_LABEL: namespace.name}


def _check_served(
    item: Item, namespace: Labels, pod: Labels, mesh: Mesh, content: Mapping[str, Any] | None = None
) -> Iterator[Diagnostic]:
    """Yield a message if the labels ask for injection, and no webhook is called: for a namespace, if none is for any of its pods."""
    if asked_name(namespace, pod, mesh.precedence) is None:
        return
    if mesh.reaches(namespace) if content is None else mesh.calls(namespace, pod, content):
        return
    yield message_of("INJ0001", item, mesh.why_none(namespace, pod, content))


def _of_pod(item: Item, namespaces: Mapping[str, Item], mesh: Mesh) -> Iterator[Diagnostic]:
    """Yield the messages about the proxy of a pod, or of the pod of a workload."""
    pod: Mapping[str, Any] = item.pod or {}
    spec, meta = pod.get("spec") or {}, pod["metadata"]
    labels: Labels = meta.get("labels") or {}
    home = namespaces.get(item.namespace)
    around = {NAME_LABEL: item.namespace} if home is None else _labels_of(home)
    if any(
        container.get("name") == _PROXY and container.get("image") == "auto"
        for container in spec.get("containers") or ()
    ):
        if item.is_pod:
            yield message_of("IST0147", item, item.kind, item.name)
        elif not mesh.calls(around, labels, pod):
            yield message_of("IST0146", item, item.kind, item.name)
    decision = labels.get(INJECT_LABEL, (meta.get("annotations") or {}).get(INJECT_LABEL, ""))
    containers = (*(spec.get("containers") or ()), *(spec.get("initContainers") or ()))
    has_proxy = any(container.get("name") == _PROXY and container.get("image") for container in containers)
    if home is None or decision.lower() == "false" or spec.get("hostNetwork") or has_proxy:
        return
    if not list(_check_served(item, around, {}, mesh)):  # else the message about the namespace says it
        yield from _check_served(item, around, labels, mesh, pod)
    is_called = mesh.calls(around, labels, pod)
    if item.is_pod and is_called and home.name != mesh.istio_namespace and around.get(DATAPLANE_MODE) != "ambient":
        yield message_of("IST0103", item, item.full_name)


def _of_templates(items: Sequence[Item]) -> Iterator[Diagnostic]:
    """Yield the messages about the annotations of pod templates, without those that a pod of the workload has itself."""
    of_pods = defaultdict[tuple[str, str, str], set[tuple[str, str]]](set)
    for item in items:
        if item.is_pod:
            of_pods[_workload_of(item)] |= item.annotations.items()
    for item in items:
        if item.pod is not None and not item.is_pod:
            meta = item.pod["metadata"]
            repeated = of_pods.get((item.kind, item.namespace, item.name), ())
            annotations = dict(pair for pair in (meta.get("annotations") or {}).items() if pair not in repeated)
            yield from _of_annotations("Pod", item, annotations, meta.get("labels") or {})


def without_repeated_pods(items: Sequence[Item]) -> Iterator[Item]:
    """Yield the objects without the pods of workloads that are among them."""
    workloads = {(item.kind, item.namespace, item.name) for item in items if item.pod is not None and not item.is_pod}
    for item in items:
        if not (item.is_pod and _workload_of(item) in workloads):
            yield item


def _of_near_misses(item: Item, namespaces: Mapping[str, Item], mesh: Mesh) -> Iterator[Diagnostic]:
    """Yield the messages about labels and annotations that the injector does not read as they are meant."""
    if item.kind == "Namespace":
        faults = [
            *nearmisses.misspelt("metadata.labels", item.labels, (), of_namespace=True),
            *nearmisses.misplaced_of_namespace(item.labels, item.annotations),
            *(() if mesh.calls(_labels_of(item), {}) else nearmisses.value_of_namespace(item.labels)),
        ]
    elif item.pod is not None:
        faults = list(_pod_faults(item, namespaces.get(item.namespace), mesh))
    else:
        return
    for code, texts in faults:
        yield message_of(code, item, *texts)


def _pod_faults(item: Item, home: Item | None, mesh: Mesh) -> Iterator[nearmisses.NearMiss]:
    meta = (item.pod or {})["metadata"]
    labels, annotations = (meta.get(kind) or {} for kind in (nearmisses.LABELS, nearmisses.ANNOTATIONS))
    metadata = f"{item.template}.metadata".removeprefix(".")
    yield from nearmisses.misspelt(f"{metadata}.labels", labels, ())
    yield from nearmisses.misspelt(f"{metadata}.annotations", annotations, _known_annotations())
    yield from nearmisses.misplaced_of_pod(item.template, labels, annotations)
    pod = {nearmisses.LABELS: labels, nearmisses.ANNOTATIONS: annotations}
    for outer in item.outer:
        names = {nearmisses.LABELS: outer.labels, nearmisses.ANNOTATIONS: outer.annotations}
        yield from nearmisses.misplaced_around(outer.path, names, item.template, pod, _known_annotations())
    on_host = ((item.pod or {}).get("spec") or {}).get("hostNetwork")
    if home is not None and not on_host and not mesh.calls(_labels_of(home), labels, item.pod):
        asking = {**labels, INJECT_LABEL: "true"}
        if mesh.calls(_labels_of(home), asking, item.pod):
            yield from nearmisses.value_of_pod(item.template, labels, annotations)


@cache
def _known_annotations() -> frozenset[str]:
    """Return the annotations that Istio reads in some minor."""
    return frozenset({*_api_annotations(), *_READ_BY_TEMPLATES, *(row.name for row in ANNOTATIONS)})


def _workload_of(item: Item) -> tuple[str, str, str]:
    workload = identity_of(item.pod or {})
    return workload.kind, item.namespace, workload.name


@cache
def _api_annotations() -> Mapping[str, Mapping[str, Any]]:
    table: Mapping[str, Mapping[str, Any]] = load_json(files(__package__).joinpath("apiannotations.json").read_bytes())
    return table


def _of_annotations(kind: str, item: Item, annotations: Mapping[str, str], labels: Labels) -> Iterator[Diagnostic]:
    """Yield the messages about annotations of an object of a kind."""
    init = ((item.pod or {}).get("spec") or {}).get("initContainers") or ()
    ignored = (
        _SET_WITH_CNI if kind == "Pod" and all(container.get("name") != "istio-init" for container in init) else ()
    )
    for name, value in annotations.items():
        if not _is_istios(name) or name in _WRITTEN:
            continue
        row = _api_annotations().get(name)
        if row is None:
            if name not in _READ_BY_TEMPLATES:
                yield message_of("IST0108", item, name)
            continue
        if row.get("alpha") and name not in ignored:
            yield message_of("IST0136", item, quote(name))
        if row.get("deprecated") and not (name == INJECT_LABEL and name in labels):
            extra = f" in favor of the {quote(INJECT_LABEL)} label" if name == INJECT_LABEL else ""
            yield message_of("IST0135", item, quote(name), extra)
        if "Any" in row["resources"]:
            continue
        if kind not in row["resources"]:
            yield message_of("IST0107", item, name, ", ".join(row["resources"]))
        elif fault := annotation_fault(name, value, NEWEST):
            yield message_of("IST0125", item, name, fault)


def _is_istios(name: str) -> bool:
    return name == "kubernetes.io/ingress.class" or name.partition("/")[0].endswith("istio.io")


def _of_webhooks(mesh: Mesh) -> Iterator[Diagnostic]:
    """Yield the messages about webhooks that select the same pods, or that call a Service that does not exist."""
    overlaps = overlapping(mesh.configurations)
    for configuration in mesh.configurations:
        meta = configuration["metadata"]
        name, place = meta["name"], mesh.places.get(meta["name"], "")
        annotations = meta.get("annotations") or {}
        item = Item("MutatingWebhookConfiguration", name, annotations=annotations, place=place)
        for text in overlaps.get(name, ()):
            yield message_of("IST0139", item, text)
        for service in sorted(services_of(configuration) & mesh.missing):
            yield message_of(
                "IST0139", item, f"Injector refers to a control plane service that does not exist: {service}."
            )


def services_of(configuration: Mapping[str, Any]) -> frozenset[str]:
    """Return the Services that a configuration calls, as ``namespace/name``; none if it is not Istio's."""
    services = (webhook["clientConfig"].get("service") for webhook in configuration["webhooks"])
    service_names = (f"{service.get('namespace')}/{service.get('name')}" for service in services if service)
    return frozenset(service_names) if is_istios(configuration) else frozenset()


def _of_upgrade(mesh: Mesh) -> Iterator[Diagnostic]:
    """Yield the messages of ``istioctl x precheck --from-version`` about the oldest revision."""
    if mesh.zipkin is not None and mesh.oldest is not None and mesh.oldest <= _LAST_ZIPKIN:
        info = (
            "tracing is no longer by default enabled to send to 'zipkin.istio-system.svc'; "
            "follow https://istio.io/latest/docs/tasks/observability/distributed-tracing/telemetry-api/"
        )
        release = format_minor(_LAST_ZIPKIN)
        yield message_of("IST0169", mesh.zipkin, quote("meshConfig.defaultConfig.tracer"), release, info, release)
