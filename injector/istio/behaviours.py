"""Istio's minor versions, and what each does differently outside its templates: one table, resolved when a revision is built.

Each row was read in Istio's code at the last tag of the minors around it (pkg/kube/inject, before 1.4 pilot/pkg/kube/inject).
``podfields.json`` is written by tests/istio/recorder/podfields, which compares k8s.io/api at the version in each minor's go.mod.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields, replace
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import orjson

from injector.errors import ConfigError
from injector.kube.pods import OwnerRules

if TYPE_CHECKING:
    from collections.abc import Iterable

    from injector.kube.typed import FieldName

Minor: TypeAlias = tuple[int, int]

OLDEST: Final[Minor] = (1, 0)
NEWEST: Final[Minor] = (1, 31)
"""The newest release that is supported."""
DEVELOPMENT: Final[Minor] = (1, 32)
"""The minor of Istio's branch master, as of August 2026."""

_VERSION = re.compile(r"v?(\d{1,3})\.(\d{1,3})(?:[.\-+].*)?", re.ASCII)
_SYSTEM_NAMESPACES: Final = frozenset({"kube-system", "kube-public"})
_TRUTHY: Final = frozenset({"y", "yes", "true", "on"})


def parse_minor(text: str, *, where: str = "istioVersion") -> Minor:
    """Return the minor of a version such as ``1.24``, ``v1.24.6`` or ``1.24-alpha.0``.

    Raises:
        ConfigError: the text is not a version, or its minor is not supported.
    """
    match = _VERSION.fullmatch(text.strip())
    if match is None:
        raise ConfigError(f"{text!r} is not an Istio version", where=where, hint="write it as 1.24")
    minor = (int(match[1]), int(match[2]))
    if not OLDEST <= minor <= DEVELOPMENT:
        raise ConfigError(
            f"Istio {format_minor(minor)} is not supported",
            where=where,
            hint=f"supported are {format_minor(OLDEST)} to {format_minor(NEWEST)}, and {format_minor(DEVELOPMENT)} in development",
        )
    return minor


def format_minor(minor: Minor) -> str:
    """Return ``1.24`` for ``(1, 24)``."""
    return f"{minor[0]}.{minor[1]}"


@dataclass(frozen=True, slots=True)
class MinorValue:
    """The value of a behaviour or of a default field from the minor ``first`` to the minor ``last``."""

    name: str
    value: Any
    first: Minor = OLDEST
    last: Minor = DEVELOPMENT


def values_at(minor: Minor, rows: Iterable[MinorValue]) -> dict[str, Any]:
    """Return the values that apply to ``minor``, by name."""
    return {row.name: row.value for row in rows if row.first <= minor <= row.last}


@dataclass(frozen=True, slots=True, eq=False)
class Behaviours:
    """The behaviours of one minor, of which there is one object. The comments of ``ROWS`` explain the fields."""

    template_fields: frozenset[str]
    ignored_namespaces: frozenset[str]
    inject_label: bool
    strict_inject_values: bool
    proxy_config_annotation: bool
    proxy_config_merge: str
    proxy_config_image: bool
    proxy_configs_by_full_name: bool
    sidecar_among_init: bool
    status_revision: bool
    skip_injected_overrides: bool
    adjust_init_user: bool
    values_variant: bool
    empty_image_type: bool
    prometheus_sanitised: bool
    prometheus_targets: bool
    prometheus_secure_port: bool
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
        """Read a value of ``sidecar.istio.io/inject``; None leaves the decision to the policy."""
        if self.strict_inject_values:
            return {"true": True, "false": False}.get(value)
        return value.lower() in _TRUTHY if value else None


def _since(name: str, first: Minor) -> tuple[MinorValue, ...]:
    """Return the rows of a behaviour that every minor from ``first`` on has."""
    return MinorValue(name, value=False, last=(first[0], first[1] - 1)), MinorValue(name, value=True, first=first)


def _between(name: str, first: Minor, last: Minor) -> tuple[MinorValue, ...]:
    """Return the rows of a behaviour that only the minors from ``first`` to ``last`` have."""
    return (
        MinorValue(name, value=False, last=(first[0], first[1] - 1)),
        MinorValue(name, value=True, first=first, last=last),
        MinorValue(name, value=False, first=(last[0], last[1] + 1)),
    )


_OWNERS_1_12: Final = OwnerRules(cron_job_version="batch/v1beta1", rollouts=False)
_OWNERS_1_3: Final = replace(_OWNERS_1_12, hash_required=False, deployment_configs=False, job_digits=(10, 10))
_DATA_1_0: Final = frozenset({"ObjectMeta", "Spec", "ProxyConfig", "MeshConfig"})
_DATA_1_9: Final = _DATA_1_0 | {"DeploymentMeta", "Values", "TypeMeta", "Revision"}
_DATA_1_22: Final = _DATA_1_9 | {"ProxyImage", "CompliancePolicy", "ProxyUID", "ProxyGID", "InboundTrafficPolicyMode"}

ROWS: Final[tuple[MinorValue, ...]] = (
    # The fields of SidecarTemplateData.
    MinorValue("template_fields", _DATA_1_0, last=(1, 0)),
    MinorValue("template_fields", _DATA_1_0 | {"DeploymentMeta"}, first=(1, 1), last=(1, 1)),
    MinorValue("template_fields", _DATA_1_0 | {"DeploymentMeta", "Values"}, first=(1, 2), last=(1, 2)),
    MinorValue("template_fields", _DATA_1_0 | {"DeploymentMeta", "Values", "TypeMeta"}, first=(1, 3), last=(1, 8)),
    MinorValue("template_fields", _DATA_1_9, first=(1, 9), last=(1, 9)),
    MinorValue("template_fields", _DATA_1_9 | {"EstimatedConcurrency"}, first=(1, 10), last=(1, 12)),
    MinorValue("template_fields", _DATA_1_9 | {"EstimatedConcurrency", "ProxyImage"}, first=(1, 13), last=(1, 17)),
    MinorValue("template_fields", _DATA_1_9 | {"ProxyImage"}, first=(1, 18), last=(1, 18)),
    MinorValue("template_fields", _DATA_1_9 | {"ProxyImage", "CompliancePolicy"}, first=(1, 19), last=(1, 19)),
    MinorValue("template_fields", _DATA_1_22 - {"InboundTrafficPolicyMode"}, first=(1, 20), last=(1, 21)),
    MinorValue("template_fields", _DATA_1_22, first=(1, 22), last=(1, 26)),
    MinorValue("template_fields", _DATA_1_22 | {"NativeSidecars"}, first=(1, 27), last=(1, 30)),
    MinorValue("template_fields", _DATA_1_22 | {"NativeSidecars", "ProxyInitImage"}, first=(1, 31)),
    MinorValue("ignored_namespaces", _SYSTEM_NAMESPACES, last=(1, 8)),
    MinorValue("ignored_namespaces", _SYSTEM_NAMESPACES | {"kube-node-lease", "local-path-storage"}, first=(1, 9)),
    # The label sidecar.istio.io/inject counts, and overrides the annotation.
    *_since("inject_label", (1, 12)),
    # Only `true` and `false` count. Earlier minors read y, yes, true and on in any case as true, and any other text as false.
    *_since("strict_inject_values", (1, 27)),
    # The annotation proxy.istio.io/config.
    *_since("proxy_config_annotation", (1, 6)),
    # How the webhook merges ProxyConfigs: the defaults, the mesh config's, resources of this kind and the annotation. Up to 1.12 there are
    # no resources, the annotation is read on top of the mesh config, and templates see it in .MeshConfig too. Later, numbers, texts and
    # lists that are zero or empty override nothing. `gogo` and `proto` merge messages by field and append lists, `json` replaces both.
    MinorValue("proxy_config_merge", "", last=(1, 12)),
    MinorValue("proxy_config_merge", "gogo", first=(1, 13), last=(1, 13)),
    MinorValue("proxy_config_merge", "proto", first=(1, 14), last=(1, 15)),
    MinorValue("proxy_config_merge", "json", first=(1, 16)),
    # The image type of ProxyConfig resources counts.
    *_since("proxy_config_image", (1, 14)),
    # ProxyConfig resources of one second are in the order of `NAME.NAMESPACE`; later of their names.
    MinorValue("proxy_configs_by_full_name", value=True, last=(1, 22)),
    MinorValue("proxy_configs_by_full_name", value=False, first=(1, 23)),
    # The proxy may be an init container (native sidecar), so the proxy is also found, moved, ordered and probed there.
    *_since("sidecar_among_init", (1, 19)),
    # The status annotation names the revision.
    *_since("status_revision", (1, 11)),
    # Containers of an earlier injection do not count as overrides by the user.
    *_since("skip_injected_overrides", (1, 17)),
    # istio-init and istio-validation get the uid that the user sets on the proxy container.
    *_since("adjust_init_user", (1, 20)),
    # values.global.variant is the default type of the proxy image.
    *_since("values_variant", (1, 22)),
    # An empty imageType of ProxyConfig leaves the type to values.global.variant, as if it were absent.
    *_since("empty_image_type", (1, 31)),
    # Prometheus annotations count in every spelling with the same sanitised name; scrape=false turns merging off.
    *_since("prometheus_sanitised", (1, 13)),
    # prometheus.istio.io/scrape-targets names several endpoints, and a port that is not one or is Istio's own is refused.
    *_since("prometheus_targets", (1, 31)),
    # prometheus.istio.io/secure-port is set to the proxy's port for merged metrics over mTLS, if it has one.
    *_since("prometheus_secure_port", (1, 31)),
    *_since("tcp_probes", (1, 12)),
    # The feature variable REWRITE_TCP_PROBES can turn TCP probes off.
    MinorValue("tcp_probes_optional", value=False, last=(1, 11)),
    MinorValue("tcp_probes_optional", value=True, first=(1, 12), last=(1, 18)),
    MinorValue("tcp_probes_optional", value=False, first=(1, 19)),
    *_since("grpc_probes", (1, 13)),
    *_since("lifecycle_probes", (1, 25)),
    # A second injection keeps the recorded probers ...
    *_since("merge_probers", (1, 17)),
    # ... and records them again if they were lost.
    *_since("append_missing_probers", (1, 27)),
    # The default of the feature variable ENABLE_NATIVE_SIDECARS; `auto` depends on the versions of the nodes.
    MinorValue("native_sidecars", "false", last=(1, 26)),
    MinorValue("native_sidecars", "auto", first=(1, 27)),
    *_since("native_sidecar_annotation", (1, 24)),
    *_since("native_sidecar_nodes", (1, 27)),
    *_since("openshift", (1, 23)),
    *_since("openshift_init_containers", (1, 27)),
    *_since("injected_annotations", (1, 4)),
    # neverInjectSelector and alwaysInjectSelector.
    *_since("selectors", (1, 1)),
    # --concurrency is computed from the proxy's CPUs.
    *_between("concurrency_args", (1, 1), (1, 8)),
    # How cluster and network are read from the webhook's URL: not at all, by position, or as pairs.
    MinorValue("cluster_env", "", last=(1, 5)),
    MinorValue("cluster_env", "positional", first=(1, 6), last=(1, 7)),
    MinorValue("cluster_env", "pairs", first=(1, 8)),
    # The proxy gets the application's mount of the service account token.
    *_between("token_mount", (1, 1), (1, 8)),
    *_between("dns_config", (1, 1), (1, 8)),
    # What sets the pod's fsGroup to 1337: mesh config (replacing or keeping the pod's security context), or a feature variable.
    MinorValue("fs_group", "", last=(1, 0)),
    MinorValue("fs_group", "sds_token_mount", first=(1, 1), last=(1, 2)),
    MinorValue("fs_group", "sds_replace", first=(1, 3), last=(1, 3)),
    MinorValue("fs_group", "sds", first=(1, 4), last=(1, 7)),
    MinorValue("fs_group", "feature", first=(1, 8), last=(1, 8)),
    MinorValue("fs_group", "", first=(1, 9)),
    # Labels that the injector adds; from 1.9 on the templates add them.
    MinorValue("added_labels", frozenset(), last=(1, 3)),
    MinorValue("added_labels", frozenset({"tls_mode"}), first=(1, 4), last=(1, 4)),
    MinorValue("added_labels", frozenset({"tls_mode", "canonical"}), first=(1, 5), last=(1, 5)),
    MinorValue("added_labels", frozenset({"tls_mode", "canonical", "revision"}), first=(1, 6), last=(1, 7)),
    MinorValue("added_labels", frozenset({"tls_mode", "canonical", "revision", "network"}), first=(1, 8), last=(1, 8)),
    MinorValue("added_labels", frozenset(), first=(1, 9)),
    # What can make the application wait for the proxy: nothing, the values, or also the mesh config.
    MinorValue("hold_application", "", last=(1, 6)),
    MinorValue("hold_application", "values", first=(1, 7), last=(1, 7)),
    MinorValue("hold_application", "mesh", first=(1, 8)),
    *_since("prometheus_merge", (1, 6)),
    *_since("probe_rewrite", (1, 1)),
    *_since("probe_rewrite_annotation", (1, 2)),
    *_since("startup_probes", (1, 7)),
    # A rewritten HTTPS probe calls the agent over HTTP.
    *_since("probe_scheme", (1, 2)),
    # A probe that already uses the agent's port is not recorded again.
    *_since("passes_rewritten_probes", (1, 9)),
    # The recorded probers are {httpGet, timeoutSeconds} by URL; before, the bare action.
    *_since("prober_timeouts", (1, 5)),
    *_between("prober_env_when_empty", (1, 1), (1, 7)),
    # The agent's port is the proxy's argument --statusPort; later it comes from the mesh config.
    *_between("probe_port_from_args", (1, 1), (1, 5)),
    # How the webhook finds a pod's workload.
    MinorValue("owner_rules", OwnerRules(controllers=False), last=(1, 2)),
    MinorValue("owner_rules", replace(_OWNERS_1_3, job_digits=None), first=(1, 3), last=(1, 5)),
    MinorValue("owner_rules", _OWNERS_1_3, first=(1, 6), last=(1, 7)),
    MinorValue("owner_rules", replace(_OWNERS_1_3, hash_required=True), first=(1, 8), last=(1, 9)),
    MinorValue("owner_rules", replace(_OWNERS_1_12, deployment_configs=False), first=(1, 10), last=(1, 11)),
    MinorValue("owner_rules", _OWNERS_1_12, first=(1, 12), last=(1, 21)),
    MinorValue("owner_rules", OwnerRules(), first=(1, 22)),
    # .DeploymentMeta has neither owners nor the label deploymentconfig; from 1.22 on it has only a name and a namespace.
    *_since("owner_meta_bare", (1, 11)),
    # Templates do not see the label deploymentconfig of a DeploymentConfig's pod: Istio deletes it from a map that both share.
    *_between("hides_deployment_config", (1, 12), (1, 18)),
    # kube-inject prints `selector: null` for a workload without one: apps/v1 requires it, its beta versions did not.
    *_since("kube_inject_selector", (1, 2)),
    # kube-inject builds a patch, as the webhook does.
    *_since("kube_inject_patches", (1, 8)),
    *_since("kube_inject_pull_secrets", (1, 6)),
    # kube-inject finds the workload of a bare Pod by its owner, as the webhook does (1.21.0; not in 1.20.8).
    *_since("kube_inject_owners", (1, 21)),
    *_between("kube_inject_redirect_annotations", (1, 3), (1, 7)),
    # How kube-inject recognises a sidecar and skips the workload: by its containers, or also by the status annotation.
    MinorValue("kube_inject_injected_check", "", last=(1, 1)),
    MinorValue("kube_inject_injected_check", "containers", first=(1, 2), last=(1, 8)),
    MinorValue("kube_inject_injected_check", "status", first=(1, 9), last=(1, 16)),
    MinorValue("kube_inject_injected_check", "", first=(1, 17)),
    # kube-inject prints `creationTimestamp: null`, as Kubernetes' libraries before 0.34 do.
    MinorValue("kube_inject_creation_timestamp", value=True, last=(1, 27)),
    MinorValue("kube_inject_creation_timestamp", value=False, first=(1, 28)),
    # kube-inject prints `availableReplicas: 0` in the status of a StatefulSet (k8s.io/api 0.24 and later).
    *_since("kube_inject_available_replicas", (1, 13)),
    # gopkg.in/yaml.v2 wraps lines at 80 columns, except in v2.3.0.
    MinorValue("yaml_folds", value=True, last=(1, 6)),
    MinorValue("yaml_folds", value=False, first=(1, 7), last=(1, 9)),
    MinorValue("yaml_folds", value=True, first=(1, 10)),
    # The form of kube-inject's warnings: plain, with an arrow, or also with kind and namespace.
    MinorValue("kube_inject_warning", "plain", last=(1, 7)),
    MinorValue("kube_inject_warning", "arrow", first=(1, 8), last=(1, 12)),
    MinorValue("kube_inject_warning", "kind", first=(1, 13)),
)


@cache
def behaviours_of(minor: Minor) -> Behaviours:
    """Return the behaviours of ``minor``; a test checks that each field has exactly one row for each supported minor."""
    values = values_at(minor, ROWS)
    return Behaviours(**{field.name: values[field.name] for field in fields(Behaviours)})


@cache
def missing_fields(minor: Minor) -> frozenset[FieldName]:
    """Return the pod fields, as (struct, JSON name), that ``minor`` drops from rendered templates: its k8s.io/api lacks them."""
    return frozenset(name for name, first, last in _field_minors() if not first <= minor <= last)


@cache
def _field_minors() -> tuple[tuple[FieldName, Minor, Minor], ...]:
    raw: dict[str, str] = orjson.loads(files(__package__).joinpath("podfields.json").read_bytes())
    return tuple(_field_span(name, span) for name, span in raw.items())


def _field_span(name: str, span: str) -> tuple[FieldName, Minor, Minor]:
    struct, _, field = name.rpartition(".")
    first, _, last = span.partition("-")
    return (struct, field), parse_minor(first, where=name), parse_minor(last, where=name) if last else DEVELOPMENT
