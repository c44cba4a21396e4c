"""The injector's own messages about a pod that a revision injects, for analyze, explain and diff."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from injector.authoring.model import Read, is_gateway
from injector.authoring.traced import TracedTemplate
from injector.errors import DataError
from injector.hints import first_of
from injector.injection import containers as c
from injector.injection.pipeline import inject_pod
from injector.injection.result import OFF, Injected, RequestFacts, Skipped
from injector.injection.steps.status import STATUS
from injector.injection.tools.pitfalls import Pitfall, Subject, pitfalls
from injector.istio import nearmisses
from injector.istio.analysis import Diagnostic, Item, message_of
from injector.istio.labels import NAME_LABEL, TEMPLATES
from injector.kube.objects import mapping_at

if TYPE_CHECKING:
    from injector.injection.result import Answer
    from injector.istio.revision import Revision

_ANNOTATIONS: Final = ("metadata", "annotations")
_SIDECAR: Final = "sidecar.istio.io/"
_READINESS: Final = "readiness.status.sidecar.istio.io/"
_TRAFFIC: Final = "traffic.sidecar.istio.io/"
_READ_BY_TEMPLATES: Final = frozenset(
    {
        *(
            f"{_SIDECAR}{name}"
            for name in ("agentLogLevel", "bootstrapOverride", "capNetBindService", "componentLogLevel")
        ),
        *(f"{_SIDECAR}{name}" for name in ("controlPlaneAuthPolicy", "discoveryAddress", "enableCoreDump", "logLevel")),
        *(f"{_SIDECAR}{name}" for name in ("proxyCPU", "proxyCPULimit", "proxyImage", "proxyImageType")),
        *(f"{_SIDECAR}{name}" for name in ("proxyMemory", "proxyMemoryLimit", "userVolume", "userVolumeMount")),
        *(f"{_READINESS}{name}" for name in ("failureThreshold", "initialDelaySeconds", "periodSeconds")),
    }
)
"""Annotations that nothing but templates reads: neither the injector, istiod, the agent nor the CNI plugin (git grep, 1.8 to 1.30)."""
_READ_BY_CNI: Final = frozenset(
    {
        f"{_SIDECAR}interceptionMode",
        *(f"{_TRAFFIC}{side}{what}" for side in ("include", "exclude") for what in ("InboundPorts", "OutboundPorts")),
        *(f"{_TRAFFIC}{side}OutboundIPRanges" for side in ("include", "exclude")),
    }
)
"""Annotations that without the CNI plugin nothing but templates reads."""


class PodMessages:
    """Finds messages about pods. What a template reads is found once."""

    def __init__(self) -> None:
        self._reads: dict[tuple[str, str], frozenset[Read]] = {}

    def about(
        self,
        revision: Revision,
        item: Item,
        namespace_labels: Mapping[str, str] | None,
        answer: Answer | None = None,
    ) -> list[Diagnostic]:
        """Return the messages about a pod, or the pod of a workload, whose webhook is that of a revision.

        ``namespace_labels`` are the labels of its namespace, and ``answer`` is that of the webhook, if they are known. A pod that the
        revision refuses has no messages, but one that only the API server would refuse has.
        """
        if item.pod is None:
            return []
        pod = dict(item.pod)
        meta = pod["metadata"]
        result = answer if isinstance(answer, Injected | Skipped) else _try_inject(revision, pod, item.namespace)
        if result is None:
            return []
        labels, annotations = meta.get("labels") or {}, meta.get("annotations") or {}
        decided = nearmisses.decided_value_of_pod(
            item.template, labels, annotations, is_injected=isinstance(result, Injected)
        )
        messages = [message_of(code, item, *texts) for code, texts in decided]
        if not isinstance(result, Injected):
            return messages
        known = None if namespace_labels is None else {NAME_LABEL: item.namespace, **namespace_labels}
        is_running = item.kind == "Pod" and STATUS in annotations
        injected = pod if is_running else result.shared_pod
        subject = Subject(item.kind, revision, pod, injected, result.templates, known, item.has_completed)
        namespace = Item("Namespace", item.namespace, labels=known or {})
        for code, texts, of_namespace in (*pitfalls(subject), *self._without_effect(subject)):
            messages.append(message_of(code, namespace if of_namespace else item, *texts))
        return messages

    def _without_effect(self, subject: Subject) -> Iterator[Pitfall]:
        """Yield the annotations that another template reads, or a template of another minor, but not those of the pod."""
        revision = subject.revision
        counting = _READ_BY_TEMPLATES if _has_cni(revision) else _READ_BY_TEMPLATES | _READ_BY_CNI
        annotations = [name for name in c.annotations_of(dict(subject.pod)) if name in counting]
        unread = [
            name
            for name in annotations
            if not any(self._is_read(revision, template, name) for template in subject.templates)
        ]
        for name in unread:
            others = [
                template
                for template, text in revision.config.templates.items()
                if not is_gateway(text) and self._is_read(revision, template, name)
            ]
            names = ", ".join(subject.templates)
            what = f"template {names} of {revision.name}, Istio {revision.istio_version}, does not read it"
            remedy = "remove it"
            if others:
                remedy += f", or choose a template that reads it ({first_of(others)}) by {TEMPLATES}"
            yield Pitfall("INJ0006", (name, what, remedy))

    def _is_read(self, revision: Revision, template: str, annotation: str) -> bool:
        reads = self._reads_of(revision, template)
        paths = {read.path for read in reads}
        wanted = (*_ANNOTATIONS, annotation)
        return (
            any(Read(wanted[:size], deep=True) in reads for size in (1, 2))
            or wanted in paths
            or (*_ANNOTATIONS, "*") in paths
        )

    def _reads_of(self, revision: Revision, template: str) -> frozenset[Read]:
        key = revision.fingerprint, template
        if key not in self._reads:
            try:
                self._reads[key] = frozenset(TracedTemplate(revision, template).reads())
            except DataError:
                self._reads[key] = frozenset({Read(("metadata",), deep=True)})  # not known: it may read everything
        return self._reads[key]


def _try_inject(revision: Revision, pod: dict[str, Any], namespace: str) -> Injected | Skipped | None:
    """Return the result of an injection, valid or not; None if it fails."""
    facts = RequestFacts(namespace, {}, revision.namespaces.get(namespace), OFF, deny_invalid=False)
    try:
        return inject_pod(revision, pod, facts)
    except DataError:
        return None


def _has_cni(revision: Revision) -> bool:
    tree = revision.template_values
    return bool(mapping_at(tree, "istio_cni").get("enabled") or mapping_at(tree, "pilot", "cni").get("enabled"))
