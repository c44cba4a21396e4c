"""What Istio's minors do differently outside their templates: one table, resolved once when a revision is built.

Each row was read in Istio's code at the last tag of the minors around it (pkg/kube/inject, before 1.4 pilot/pkg/kube/inject).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Final

from injector.istio.minor import NEWEST, OLDEST, Minor

_SYSTEM_NAMESPACES: Final = frozenset({"kube-system", "kube-public"})
_TRUTHY: Final = frozenset({"y", "yes", "true", "on"})


@dataclass(frozen=True, slots=True)
class Behaviours:
    """The behaviours of one minor: field by field what ``ROWS`` holds for it. The rows' comments say what a field means."""

    template_fields: frozenset[str]
    ignored_namespaces: frozenset[str]
    inject_label: bool
    strict_inject_values: bool
    mesh_overlay_in_data: bool
    sidecar_among_init: bool
    status_revision: bool
    skip_injected_overrides: bool
    adjust_init_user: bool
    values_variant: bool
    prometheus_sanitised: bool
    tcp_probes: bool
    tcp_probes_optional: bool
    grpc_probes: bool
    lifecycle_probes: bool
    merge_probers: bool
    append_missing_probers: bool
    native_sidecars: str
    native_sidecar_annotation: bool
    native_sidecar_nodes: bool
    openshift: bool
    openshift_init_containers: bool

    def wants_injection(self, value: str) -> bool | None:
        """Return what a value of ``sidecar.istio.io/inject`` asks for, None where it leaves it to the policy."""
        if self.strict_inject_values:
            return {"true": True, "false": False}.get(value)
        return value.lower() in _TRUTHY if value else None


@dataclass(frozen=True, slots=True)
class Row:
    """One behaviour: its value from the minor ``first`` to the minor ``last``."""

    name: str
    first: Minor
    last: Minor
    value: Any


def _since(name: str, first: Minor) -> tuple[Row, Row]:
    """Return the rows of a behaviour that came with the minor ``first`` and stayed."""
    return Row(name, OLDEST, (first[0], first[1] - 1), value=False), Row(name, first, NEWEST, value=True)


_DATA_1_0: Final = frozenset({"ObjectMeta", "Spec", "ProxyConfig", "MeshConfig"})
_DATA_1_9: Final = _DATA_1_0 | {"DeploymentMeta", "Values", "TypeMeta", "Revision"}
_DATA_1_22: Final = _DATA_1_9 | {"ProxyImage", "CompliancePolicy", "ProxyUID", "ProxyGID", "InboundTrafficPolicyMode"}

ROWS: Final[tuple[Row, ...]] = (
    # The fields of SidecarTemplateData.
    Row("template_fields", OLDEST, (1, 0), _DATA_1_0),
    Row("template_fields", (1, 1), (1, 1), _DATA_1_0 | {"DeploymentMeta"}),
    Row("template_fields", (1, 2), (1, 2), _DATA_1_0 | {"DeploymentMeta", "Values"}),
    Row("template_fields", (1, 3), (1, 8), _DATA_1_0 | {"DeploymentMeta", "Values", "TypeMeta"}),
    Row("template_fields", (1, 9), (1, 9), _DATA_1_9),
    Row("template_fields", (1, 10), (1, 12), _DATA_1_9 | {"EstimatedConcurrency"}),
    Row("template_fields", (1, 13), (1, 17), _DATA_1_9 | {"EstimatedConcurrency", "ProxyImage"}),
    Row("template_fields", (1, 18), (1, 18), _DATA_1_9 | {"ProxyImage"}),
    Row("template_fields", (1, 19), (1, 19), _DATA_1_9 | {"ProxyImage", "CompliancePolicy"}),
    Row("template_fields", (1, 20), (1, 21), _DATA_1_22 - {"InboundTrafficPolicyMode"}),
    Row("template_fields", (1, 22), (1, 26), _DATA_1_22),
    Row("template_fields", (1, 27), NEWEST, _DATA_1_22 | {"NativeSidecars"}),
    Row("ignored_namespaces", OLDEST, (1, 8), _SYSTEM_NAMESPACES),
    Row("ignored_namespaces", (1, 9), NEWEST, _SYSTEM_NAMESPACES | {"kube-node-lease", "local-path-storage"}),
    # The label sidecar.istio.io/inject counts, and more than the annotation.
    *_since("inject_label", (1, 12)),
    # Only `true` and `false` count; before, y, yes, true and on in any case were true and all else false.
    *_since("strict_inject_values", (1, 27)),
    # Templates see the annotation proxy.istio.io/config in .MeshConfig too, not only in .ProxyConfig.
    Row("mesh_overlay_in_data", OLDEST, (1, 12), value=True),
    Row("mesh_overlay_in_data", (1, 13), NEWEST, value=False),
    # The proxy may be an init container (native sidecar): it is looked for, moved, ordered and probed there as well.
    *_since("sidecar_among_init", (1, 19)),
    # The status annotation names the revision.
    *_since("status_revision", (1, 11)),
    # What an earlier injection added is no override of the user's.
    *_since("skip_injected_overrides", (1, 17)),
    # A uid of the user's own proxy container reaches istio-init and istio-validation.
    *_since("adjust_init_user", (1, 20)),
    # values.global.variant is the default type of the proxy's image.
    *_since("values_variant", (1, 22)),
    # Prometheus' annotations count in every spelling with the same sanitised name; scrape=false declines.
    *_since("prometheus_sanitised", (1, 13)),
    *_since("tcp_probes", (1, 12)),
    # ... unless the feature variable REWRITE_TCP_PROBES is false.
    Row("tcp_probes_optional", OLDEST, (1, 11), value=False),
    Row("tcp_probes_optional", (1, 12), (1, 18), value=True),
    Row("tcp_probes_optional", (1, 19), NEWEST, value=False),
    *_since("grpc_probes", (1, 13)),
    *_since("lifecycle_probes", (1, 25)),
    # On re-injection the probers noted before are kept ...
    *_since("merge_probers", (1, 17)),
    # ... and noted anew where they were lost.
    *_since("append_missing_probers", (1, 27)),
    # The default of the feature variable ENABLE_NATIVE_SIDECARS; `auto` asks the nodes.
    Row("native_sidecars", OLDEST, (1, 26), value="false"),
    Row("native_sidecars", (1, 27), NEWEST, value="auto"),
    *_since("native_sidecar_annotation", (1, 24)),
    *_since("native_sidecar_nodes", (1, 27)),
    *_since("openshift", (1, 23)),
    *_since("openshift_init_containers", (1, 27)),
)


def behaviours_of(minor: Minor) -> Behaviours:
    """Return the behaviours of ``minor``; every field has exactly one row for each known minor (a test holds that)."""
    found = {row.name: row.value for row in ROWS if row.first <= minor <= row.last}
    return Behaviours(**{field.name: found[field.name] for field in fields(Behaviours)})
