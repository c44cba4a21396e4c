"""The parameters of one injection, gathered before the first template runs, and the data that templates get.

Follows ``InjectionParameters``, ``extractClusterAndNetwork``, ``SidecarTemplateData``, ``ProxyImage``, ``imageURL`` and
``DetectNativeSidecar`` in pkg/kube/inject (1.30.3), and ``estimateConcurrency`` in pkg/kube/inject/inject.go (1.17.8). Istio 1.10
declares that field and leaves it 0.

OpenShift gives each namespace its own ranges of user and group ids. Follows pkg/kube/inject/openshift.go and ``GetProxyIDs``,
``isSidecarUserMatchingAppUser`` in pkg/kube/inject (1.30.3).
"""

from __future__ import annotations

import math
import re
from contextlib import suppress
from functools import reduce
from operator import getitem
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from injector.errors import DataError
from injector.golang.json import dump_json
from injector.golang.strconv import SPACE
from injector.gotemplate.values import Int64
from injector.injection import containers as c
from injector.injection.result import ENFORCE
from injector.istio.annotations import parse_bool
from injector.istio.config import SIDECAR_TEMPLATE_NAME
from injector.istio.goview import GoStruct, NamespacedName
from injector.istio.mesh import mesh_facts, overlaid_mesh_config
from injector.istio.revision import Revision, kubelet_minor
from injector.istio.template import TemplateData
from injector.kube.quantity import parse_quantity

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from injector.gotemplate.values import Struct
    from injector.istio.behaviours import Minor
    from injector.istio.mesh import MeshFacts
    from injector.kube.pods import WorkloadMeta

CLUSTER: Final = "ISTIO_META_CLUSTER_ID"
NETWORK: Final = "ISTIO_META_NETWORK"
NETWORK_LABEL: Final = "topology.istio.io/network"
UID_RANGE: Final = "openshift.io/sa.scc.uid-range"
SUPPLEMENTAL_GROUPS: Final = "openshift.io/sa.scc.supplemental-groups"
DEFAULT_PROXY_ID: Final = 1337

_UINT32: Final = 2**32
_BLANKS: Final = SPACE.replace("\n", "")
_NUMBER: Final = rf"[{_BLANKS}]*0*(\d{{1,10}})(?!\d)"
_BLOCK: Final = {separator: re.compile(_NUMBER + separator + _NUMBER, re.ASCII) for separator in "/-"}

_NONE: Final[Mapping[str, Any]] = MappingProxyType({})


class ProxyOverlays(NamedTuple):
    """The ProxyConfigs of one pod, and how they are merged (``Behaviours.proxy_config_merge``).

    ``below`` and ``above`` the annotation are those of resources, by name, the last one on top. ``annotation`` is its text; None if the pod
    has none, or if the minor does not read it.
    """

    merge: str = ""
    below: Mapping[str, dict[str, Any]] = _NONE
    annotation: str | None = None
    above: Mapping[str, dict[str, Any]] = _NONE

    def on(self, revision: Revision) -> MeshFacts:
        """Return the revision's mesh config with these on top of its own ProxyConfig.

        Raises AnnotationError if the annotation is not one.
        """
        below, above = ([dump_json(config).decode() for config in some.values()] for some in (self.below, self.above))
        texts = [*below, *([] if self.annotation is None else [self.annotation]), *above]
        if not texts and not self.merge:
            return revision.mesh
        return overlaid_mesh_config(texts, revision.mesh.mesh_config, revision.minor, self.merge).derive(mesh_facts)


class Parameters(NamedTuple):
    """The inputs of one injection; ``workload`` is the owner of the pod, and ``owner_meta`` its metadata as templates see it.

    ``proxy_config`` is the pod's own ProxyConfig: that of ``overlays`` on top of the mesh config's. ``mesh_in_data`` is the one of ``mesh``
    and ``proxy_config`` that templates see. ``injected_annotations`` are empty for kube-inject, as in Istio. Templates do not see the label
    ``hidden_label`` of the pod. ``guard`` is one of ``result.GUARDS``.
    """

    revision: Revision
    pod: c.Pod
    workload: WorkloadMeta
    owner_meta: Mapping[str, Any]
    mesh: MeshFacts
    mesh_in_data: MeshFacts
    proxy_config: MeshFacts
    proxy_envs: Mapping[str, str]
    default_templates: tuple[str, ...] = (SIDECAR_TEMPLATE_NAME,)
    injected_annotations: Mapping[str, str] = _NONE
    namespace_meta: Mapping[str, Any] | None = None
    hidden_label: str = ""
    guard: str = ENFORCE
    overlays: ProxyOverlays = ProxyOverlays()

    @property
    def hold_application(self) -> bool:
        """Whether the proxy starts before the application: by mesh config, annotation or values."""
        source = self.revision.behaviours.hold_application
        if not source or self.revision.values.hold_application:
            return bool(source)
        # Istio merges the annotation into the mesh config for this alone (ApplyProxyConfig in reorderPod).
        return (
            source == "mesh" and ProxyOverlays(annotation=self.overlays.annotation).on(self.revision).hold_application
        )


def cluster_envs(revision: Revision, pod: c.Pod, proxy_envs: Mapping[str, str]) -> dict[str, str]:
    """Return the env variables of the URL completed with cluster and network: label over URL over values."""
    values = revision.values
    own = {
        CLUSTER: proxy_envs.get(CLUSTER) or values.cluster_name,
        NETWORK: c.labels_of(pod).get(NETWORK_LABEL, proxy_envs.get(NETWORK) or values.network),
    }
    return {**proxy_envs, **{name: value for name, value in own.items() if value}}


_DEFAULT: Final = 2
_FIRST_FILLED: Final[Minor] = (1, 11)
_ANNOTATIONS: Final = ("sidecar.istio.io/proxyCPULimit", "sidecar.istio.io/proxyCPU")


def estimate_concurrency(params: Parameters) -> int:
    """Return the ProxyConfig's concurrency; where that is 0, the CPUs that annotations or values give the proxy, rounded up."""
    if params.revision.minor < _FIRST_FILLED:
        return 0
    concurrency = params.proxy_config.concurrency
    if concurrency is None:
        return _DEFAULT
    if concurrency > 0:
        return concurrency
    for quantity in _cpus(params):
        with suppress(DataError):
            return math.ceil(parse_quantity(quantity))
    return _DEFAULT


def _cpus(params: Parameters) -> Iterator[str]:
    """Yield the CPUs of the proxy: of an annotation, or of the values' limit and then of their request."""
    annotations = c.annotations_of(params.pod)
    annotated = [annotations[name] for name in _ANNOTATIONS if name in annotations]
    if annotated:
        yield annotated[0]
        return
    for kind in ("limits", "requests"):
        cpu = value_at(params.revision.template_values, ("global", "proxy", "resources", kind, "cpu"))
        if cpu is not None:
            yield cpu if isinstance(cpu, str) else f"{cpu:g}"


def value_at(data: Any, path: Sequence[str | int]) -> Any:
    """Return the value at a path of JSON data; None if there is no such path."""
    try:
        return reduce(getitem, path, data)
    except (KeyError, IndexError, TypeError):
        return None


PROXY_IMAGE_TYPE: Final = "sidecar.istio.io/proxyImageType"
_DEFAULT_PROXY_IMAGE: Final = "proxyv2"
_NAMESPACED_NAME_SINCE: Final[Minor] = (1, 22)
_KNOWN_IMAGE_TYPES: Final = ("distroless", "debug")


def template_data(params: Parameters, stripped: c.Pod) -> TemplateData:
    """Return the template data for one injection; ``stripped`` is the pod as templates see it, without the additions of an earlier one."""
    revision, workload, values = params.revision, params.workload, params.revision.values
    uid, gid = proxy_ids(params.namespace_meta)
    image_type = params.proxy_config.image_type
    if image_type == "" and revision.behaviours.empty_image_type:
        image_type = None
    return TemplateData(
        {
            "TypeMeta": GoStruct("v1.TypeMeta", {"kind": workload.kind, "apiVersion": workload.api_version}),
            "DeploymentMeta": _deployment_meta(params),
            "ObjectMeta": GoStruct(
                "v1.ObjectMeta", _without_hidden_label(stripped.get("metadata") or {}, params.hidden_label)
            ),
            "Spec": GoStruct("v1.PodSpec", stripped.get("spec") or {}),
            "ProxyConfig": params.proxy_config.proxy_config,
            "MeshConfig": params.mesh_in_data.mesh_pointer,
            "Values": revision.template_values,
            "Revision": revision.written,
            "NativeSidecars": native_sidecar(revision, params.pod),
            "EstimatedConcurrency": estimate_concurrency(params),
            "ProxyImage": _image(revision, stripped, values.proxy_image, image_type),
            "ProxyInitImage": _image(revision, stripped, values.proxy_init_image, None),
            "ProxyUID": Int64(uid),
            "ProxyGID": Int64(gid),
            "InboundTrafficPolicyMode": params.mesh.inbound_traffic_policy,
            "CompliancePolicy": revision.env.get("COMPLIANCE_POLICY", ""),
        },
        # A Jinja2 revision is ours or the user's own: no minor of Istio limits what it sees.
        only=None if revision.engine == "jinja2" else revision.behaviours.template_fields,
    )


def _without_hidden_label(metadata: dict[str, Any], hidden_label: str) -> dict[str, Any]:
    labels = metadata.get("labels") or {}
    if not hidden_label or hidden_label not in labels:
        return metadata
    return {**metadata, "labels": {key: value for key, value in labels.items() if key != hidden_label}}


def has_only_name(revision: Revision) -> bool:
    """Return whether templates get no more of the workload's metadata than its name and namespace."""
    return revision.minor >= _NAMESPACED_NAME_SINCE


def _deployment_meta(params: Parameters) -> Struct:
    workload = params.workload
    if has_only_name(params.revision):
        return NamespacedName(workload.namespace, workload.name)
    return GoStruct("v1.ObjectMeta", dict(params.owner_meta))


def _image(revision: Revision, pod: c.Pod, name: str, image_type: str | None) -> str:
    """Return an image: hub, name and tag of the values, and the type of the annotation, of the ProxyConfig or of the values."""
    values = revision.values
    if image_type is None:
        image_type = values.variant if revision.behaviours.values_variant else ""
    wanted = c.annotations_of(pod).get(PROXY_IMAGE_TYPE, image_type)
    return f"{values.hub}/{name or _DEFAULT_PROXY_IMAGE}:{tag_of_type(values.tag, wanted)}"


def tag_of_type(tag: str, image_type: str) -> str:
    """Return the tag with its known type suffix, if any, replaced by ``image_type``; ``default`` has no suffix."""
    if not image_type:
        return tag
    suffix = next((f"-{known}" for known in _KNOWN_IMAGE_TYPES if tag.endswith(f"-{known}")), "")
    bare = tag.removesuffix(suffix)
    return bare if image_type == "default" else f"{bare}-{image_type}"


# Native sidecars are stable since Kubernetes 1.33 (KEP 753).
_FIRST_MINOR: Final = 33


def native_sidecar(revision: Revision, pod: c.Pod) -> bool:
    """Return whether ``pod`` gets a native sidecar unless its annotation says otherwise.

    With ``auto`` the pod's node must be new enough, or every node if the pod has none yet. A cluster without nodes has none that is too
    old. If the nodes are not known, it is off, as in Istio without a cluster to ask (``DetectNativeSidecar`` in webhook.go, 1.30.3).
    """
    mode = revision.native_sidecars
    if not revision.behaviours.native_sidecar_nodes:
        return parse_bool(mode) is True
    if mode != "auto":
        return mode == "true"
    own = revision.versions_by_node.get((pod.get("spec") or {}).get("nodeName", ""))
    if own is not None:
        return _supports(own)
    return revision.node_versions is not None and all(map(_supports, revision.node_versions))


def _supports(kubelet_version: str) -> bool:
    minor = kubelet_minor(kubelet_version)
    return minor is not None and minor >= _FIRST_MINOR


def proxy_ids(namespace_meta: Mapping[str, Any] | None) -> tuple[int, int]:
    """Return the proxy's uid and gid: the last of the namespace's ranges, or 1337 where it has none."""
    annotations = (namespace_meta or {}).get("annotations") or {}
    uid_range = annotations.get(UID_RANGE, "")
    block = parse_block(uid_range)
    # The annotation for groups may hold several ranges; the first counts. Absent, the range of uids stands in for it.
    groups = [parse_block(text) for text in annotations.get(SUPPLEMENTAL_GROUPS, uid_range).split(",")]
    group = groups[0] if all(groups) else None
    return (block[1] if block else DEFAULT_PROXY_ID, group[1] if group else DEFAULT_PROXY_ID)


def parse_block(text: str) -> tuple[int, int] | None:
    """Return the first and last id of ``start/size`` or ``start-end`` as ``ParseBlock`` does; None if it returns an error.

    Like Go's ``fmt.Sscanf``, it skips blanks before a number and ignores what follows the second one. A last id of 2^32 or more overflows.
    """
    separator = "/" if "/" in text else "-"
    match = _BLOCK[separator].match(text)
    if match is None or (start := int(match[1])) >= _UINT32 or (number := int(match[2])) >= _UINT32:
        return None
    return start, (start + number - 1) % _UINT32 if separator == "/" else number


def forget_assigned_user(pod: c.Pod, *, with_init_containers: bool) -> c.Pod:
    """Return ``pod`` without the uid and gid of its own ``istio-proxy`` where OpenShift assigned them.

    OpenShift gives every container of a pod the same uid; a proxy with the application's uid would escape interception. A uid of
    the proxy's own is the user's choice and stays.
    """
    containers = c.containers_of(pod) + (c.containers_of(pod, "initContainers") if with_init_containers else [])
    others = [item for item in containers if item.get("name") not in {c.PROXY, c.INIT, c.VALIDATION}]
    proxy = c.find_in_pod(c.PROXY, pod) or {}
    context = proxy.get("securityContext")
    proxies = [item for item in containers if item.get("name") == c.PROXY]
    if context is None or _user_of(proxies) != _user_of(others):
        return pod
    other_fields = {key: value for key, value in context.items() if key not in _ASSIGNED}
    return c.with_container(pod, {**proxy, "securityContext": other_fields})


def keep_assigned_user(injected: c.Pod, pod: c.Pod) -> c.Pod:
    """Return an injected pod with the uid and gid that ``forget_assigned_user`` left out of ``pod``, unless a template sets others.

    Istio's patch starts from the pod without them, so they stay at the place of the proxy. If another container takes that place,
    Istio's patch can leave them there; here they go.
    """
    kind = "containers" if c.find(c.PROXY, c.containers_of(pod)) is not None else "initContainers"
    items = c.containers_of(injected, kind)
    for index, (before, after) in enumerate(zip(c.containers_of(pod, kind), items, strict=False)):
        if before.get("name") == after.get("name") == c.PROXY:
            context = before.get("securityContext") or {}
            assigned = {key: context[key] for key in _ASSIGNED if key in context}
            proxy = {**after, "securityContext": {**assigned, **(after.get("securityContext") or {})}}
            return c.with_spec(injected, **{kind: [*items[:index], proxy, *items[index + 1 :]]})
    return injected


_ASSIGNED: Final = ("runAsUser", "runAsGroup")


def _user_of(containers: Iterable[c.Container]) -> int:
    users = [(item.get("securityContext") or {}).get("runAsUser") for item in containers]
    return next((user for user in reversed(users) if user is not None), 0)
