"""What Istio's minors do differently outside their templates: one table, resolved once when a revision is built.

Each row was read in Istio's code at the last tag of the minors around it (pkg/kube/inject, before 1.4 pilot/pkg/kube/inject).
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Final

from injector.istio.minor import NEWEST, OLDEST, Minor
from injector.kube.pods import OwnerRules

_SYSTEM_NAMESPACES: Final = frozenset({"kube-system", "kube-public"})
_TRUTHY: Final = frozenset({"y", "yes", "true", "on"})


@dataclass(frozen=True, slots=True)
class Behaviours:
    """The behaviours of one minor: field by field what ``ROWS`` holds for it. The rows' comments say what a field means."""

    template_fields: frozenset[str]
    ignored_namespaces: frozenset[str]
    inject_label: bool
    strict_inject_values: bool
    proxy_config_annotation: bool
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
    injected_annotations: bool
    selectors: bool
    namespace_from_request: bool
    concurrency_args: bool
    cluster_env: str
    token_mount: bool
    dns_config: bool
    fs_group: str
    added_labels: frozenset[str]
    hold_application: str
    prometheus_merge: bool
    probe_rewrite: bool
    probe_rewrite_annotation: bool
    startup_probes: bool
    probe_scheme: bool
    passes_rewritten_probes: bool
    prober_timeouts: bool
    prober_env_when_empty: bool
    probe_port_from_args: bool
    owner_rules: OwnerRules
    owner_meta_bare: bool
    hides_deployment_config: bool
    kube_inject_selector: bool
    kube_inject_patches: bool
    kube_inject_pull_secrets: bool
    kube_inject_owners: bool
    kube_inject_redirect_annotations: bool
    kube_inject_injected_check: str
    kube_inject_warning: str
    kube_inject_creation_timestamp: bool
    kube_inject_available_replicas: bool
    yaml_folds: bool

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


def _between(name: str, first: Minor, last: Minor) -> tuple[Row, Row, Row]:
    """Return the rows of a behaviour that came with the minor ``first`` and went after ``last``."""
    return (
        Row(name, OLDEST, (first[0], first[1] - 1), value=False),
        Row(name, first, last, value=True),
        Row(name, (last[0], last[1] + 1), NEWEST, value=False),
    )


_OWNERS_1_12: Final = OwnerRules(cron_job_version="batch/v1beta1", rollouts=False)
_OWNERS_1_3: Final = replace(_OWNERS_1_12, hash_required=False, deployment_configs=False, job_digits=(10, 10))
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
    # The annotation proxy.istio.io/config.
    *_since("proxy_config_annotation", (1, 6)),
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
    *_since("injected_annotations", (1, 4)),
    # neverInjectSelector and alwaysInjectSelector.
    *_since("selectors", (1, 1)),
    *_since("namespace_from_request", (1, 1)),
    # 1.0 to 1.8, where the rendered lists are appended: --concurrency follows from the proxy's CPUs.
    *_between("concurrency_args", (1, 1), (1, 8)),
    # Cluster and network of the URL: not at all, by position, or as pairs.
    Row("cluster_env", OLDEST, (1, 5), ""),
    Row("cluster_env", (1, 6), (1, 7), "positional"),
    Row("cluster_env", (1, 8), NEWEST, "pairs"),
    # The proxy gets the mount of the service account's token that the application has.
    *_between("token_mount", (1, 1), (1, 8)),
    *_between("dns_config", (1, 1), (1, 8)),
    # When the pod's fsGroup becomes 1337: by mesh config (replacing or keeping the pod's security context), or by feature.
    Row("fs_group", OLDEST, (1, 0), ""),
    Row("fs_group", (1, 1), (1, 2), "sds_token_mount"),
    Row("fs_group", (1, 3), (1, 3), "sds_replace"),
    Row("fs_group", (1, 4), (1, 7), "sds"),
    Row("fs_group", (1, 8), (1, 8), "feature"),
    Row("fs_group", (1, 9), NEWEST, ""),
    # Labels that the injector adds itself; from 1.9 on the templates do.
    Row("added_labels", OLDEST, (1, 3), frozenset()),
    Row("added_labels", (1, 4), (1, 4), frozenset({"tls_mode"})),
    Row("added_labels", (1, 5), (1, 5), frozenset({"tls_mode", "canonical"})),
    Row("added_labels", (1, 6), (1, 7), frozenset({"tls_mode", "canonical", "revision"})),
    Row("added_labels", (1, 8), (1, 8), frozenset({"tls_mode", "canonical", "revision", "network"})),
    Row("added_labels", (1, 9), NEWEST, frozenset()),
    # What makes the application wait for the proxy: nothing, the values, or the mesh config too.
    Row("hold_application", OLDEST, (1, 6), ""),
    Row("hold_application", (1, 7), (1, 7), "values"),
    Row("hold_application", (1, 8), NEWEST, "mesh"),
    *_since("prometheus_merge", (1, 6)),
    *_since("probe_rewrite", (1, 1)),
    *_since("probe_rewrite_annotation", (1, 2)),
    *_since("startup_probes", (1, 7)),
    # A rewritten HTTPS probe asks the agent by HTTP.
    *_since("probe_scheme", (1, 2)),
    # A probe that asks the agent's port already is not noted again.
    *_since("passes_rewritten_probes", (1, 9)),
    # The probers' JSON has {httpGet, timeoutSeconds} by URL, before the bare action.
    *_since("prober_timeouts", (1, 5)),
    *_between("prober_env_when_empty", (1, 1), (1, 7)),
    # The agent's port is that of the proxy's argument --statusPort, later that of the mesh config.
    *_between("probe_port_from_args", (1, 1), (1, 5)),
    # How the webhook tells a pod's workload.
    Row("owner_rules", OLDEST, (1, 2), OwnerRules(controllers=False)),
    Row("owner_rules", (1, 3), (1, 5), replace(_OWNERS_1_3, job_digits=None)),
    Row("owner_rules", (1, 6), (1, 7), _OWNERS_1_3),
    Row("owner_rules", (1, 8), (1, 9), replace(_OWNERS_1_3, hash_required=True)),
    Row("owner_rules", (1, 10), (1, 11), replace(_OWNERS_1_12, deployment_configs=False)),
    Row("owner_rules", (1, 12), (1, 21), _OWNERS_1_12),
    Row("owner_rules", (1, 22), NEWEST, OwnerRules()),
    # .DeploymentMeta has no owners, and not the label deploymentconfig; from 1.22 on it is but a name and a namespace.
    *_since("owner_meta_bare", (1, 11)),
    # Templates do not see the label deploymentconfig of a pod that a DeploymentConfig made: Go's maps are shared.
    *_between("hides_deployment_config", (1, 12), (1, 18)),
    # kube-inject prints `selector: null` where a workload has none: apps/v1 wants one, its beta versions did not.
    *_since("kube_inject_selector", (1, 2)),
    # kube-inject takes the webhook's way through a patch.
    *_since("kube_inject_patches", (1, 8)),
    *_since("kube_inject_pull_secrets", (1, 6)),
    # kube-inject tells the workload of a bare Pod by its owner, as the webhook does (1.21.0; not in 1.20.8).
    *_since("kube_inject_owners", (1, 21)),
    *_between("kube_inject_redirect_annotations", (1, 3), (1, 7)),
    # kube-inject leaves alone what has a sidecar: told by its containers, or by the status annotation as well.
    Row("kube_inject_injected_check", OLDEST, (1, 1), ""),
    Row("kube_inject_injected_check", (1, 2), (1, 8), "containers"),
    Row("kube_inject_injected_check", (1, 9), (1, 16), "status"),
    Row("kube_inject_injected_check", (1, 17), NEWEST, ""),
    # kube-inject prints `creationTimestamp: null`, as Kubernetes' libraries before 0.34 do.
    Row("kube_inject_creation_timestamp", OLDEST, (1, 27), value=True),
    Row("kube_inject_creation_timestamp", (1, 28), NEWEST, value=False),
    # ... and the status of a StatefulSet without a word of them (k8s.io/api before 0.24).
    *_since("kube_inject_available_replicas", (1, 13)),
    # gopkg.in/yaml.v2 wraps lines at 80 columns, but for v2.3.0.
    Row("yaml_folds", OLDEST, (1, 6), value=True),
    Row("yaml_folds", (1, 7), (1, 9), value=False),
    Row("yaml_folds", (1, 10), NEWEST, value=True),
    # How kube-inject warns: plainly, with an arrow, or with kind and namespace as well.
    Row("kube_inject_warning", OLDEST, (1, 7), "plain"),
    Row("kube_inject_warning", (1, 8), (1, 12), "arrow"),
    Row("kube_inject_warning", (1, 13), NEWEST, "kind"),
)


def behaviours_of(minor: Minor) -> Behaviours:
    """Return the behaviours of ``minor``; every field has exactly one row for each known minor (a test holds that)."""
    found = {row.name: row.value for row in ROWS if row.first <= minor <= row.last}
    return Behaviours(**{field.name: found[field.name] for field in fields(Behaviours)})
