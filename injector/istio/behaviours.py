"""Istio's minor versions, and what each does differently outside its templates: one table, resolved when a revision is built.

Each row was read in Istio's code at the last tag of the minors around it (pkg/kube/inject, before 1.4 pilot/pkg/kube/inject).
``podfields.json`` is written by tests/istio/recorder/podfields, which compares k8s.io/api at the version in each minor's go.mod.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields, replace
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from injector.errors import ConfigError
from injector.golang.json import load_json
from injector.kube.pods import OwnerRules

if TYPE_CHECKING:
    from collections.abc import Mapping

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
    """Return the minor of a version such as ``1.24``, ``v1.24.6`` or ``1.24-alpha.0``. Raises ConfigError if it is not supported."""
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


ABSENT: Final[Any] = object()
"""In a table of values by minor: from this minor on, there is no value."""


def value_of_minor(minor: Minor, values: Mapping[Minor, Any]) -> Any:
    """Return the value that applies to ``minor``, of values by the first minor that has each; ``ABSENT`` before the first one."""
    return values.get(max((first for first in values if first <= minor), default=minor), ABSENT)


def values_of_minor(minor: Minor, table: Mapping[str, Mapping[Minor, Any]]) -> dict[str, Any]:
    """Return the values that apply to ``minor``, by name."""
    own_values = {name: value_of_minor(minor, values) for name, values in table.items()}
    return {name: value for name, value in own_values.items() if value is not ABSENT}


def _since(major: int, number: int) -> dict[Minor, bool]:
    """Return the values of a behaviour that every minor from this one on has."""
    return {OLDEST: False, (major, number): True}


_OWNERS_1_12: Final = OwnerRules(cron_job_version="batch/v1beta1", rollouts=False)
_OWNERS_1_3: Final = replace(_OWNERS_1_12, hash_required=False, deployment_configs=False, job_digits=(10, 10))
_DATA_1_0: Final = frozenset({"ObjectMeta", "Spec", "ProxyConfig", "MeshConfig"})
_DATA_1_9: Final = _DATA_1_0 | {"DeploymentMeta", "Values", "TypeMeta", "Revision"}
_DATA_1_22: Final = _DATA_1_9 | {"ProxyImage", "CompliancePolicy", "ProxyUID", "ProxyGID", "InboundTrafficPolicyMode"}


@dataclass(frozen=True, slots=True, eq=False)
class Behaviours:
    """The behaviours of one minor, of which there is one object. The metadata of a field are its values (``value_of_minor``)."""

    # The fields of SidecarTemplateData.
    template_fields: frozenset[str] = field(
        metadata={
            OLDEST: _DATA_1_0,
            (1, 1): _DATA_1_0 | {"DeploymentMeta"},
            (1, 2): _DATA_1_0 | {"DeploymentMeta", "Values"},
            (1, 3): _DATA_1_0 | {"DeploymentMeta", "Values", "TypeMeta"},
            (1, 9): _DATA_1_9,
            (1, 10): _DATA_1_9 | {"EstimatedConcurrency"},
            (1, 13): _DATA_1_9 | {"EstimatedConcurrency", "ProxyImage"},
            (1, 18): _DATA_1_9 | {"ProxyImage"},
            (1, 19): _DATA_1_9 | {"ProxyImage", "CompliancePolicy"},
            (1, 20): _DATA_1_22 - {"InboundTrafficPolicyMode"},
            (1, 22): _DATA_1_22,
            (1, 27): _DATA_1_22 | {"NativeSidecars"},
            (1, 31): _DATA_1_22 | {"NativeSidecars", "ProxyInitImage"},
        }
    )
    ignored_namespaces: frozenset[str] = field(
        metadata={OLDEST: _SYSTEM_NAMESPACES, (1, 9): _SYSTEM_NAMESPACES | {"kube-node-lease", "local-path-storage"}}
    )
    # The label sidecar.istio.io/inject counts, and overrides the annotation.
    inject_label: bool = field(metadata=_since(1, 12))
    # Only `true` and `false` count. Earlier minors read y, yes, true and on in any case as true, and any other text as false.
    strict_inject_values: bool = field(metadata=_since(1, 27))
    # The annotation proxy.istio.io/config.
    proxy_config_annotation: bool = field(metadata=_since(1, 6))
    # How the webhook merges ProxyConfigs: the defaults, the mesh config's, resources of this kind and the annotation. Up to 1.12 there are
    # no resources, the annotation is read on top of the mesh config, and templates see it in .MeshConfig too. Later, numbers, texts and
    # lists that are zero or empty override nothing. `gogo` and `proto` merge messages by field and append lists, `json` replaces both.
    proxy_config_merge: str = field(metadata={OLDEST: "", (1, 13): "gogo", (1, 14): "proto", (1, 16): "json"})
    # The image type of ProxyConfig resources counts.
    proxy_config_image: bool = field(metadata=_since(1, 14))
    # ProxyConfig resources of one second are in the order of `NAME.NAMESPACE`; later of their names.
    proxy_configs_by_full_name: bool = field(metadata={OLDEST: True, (1, 23): False})
    # The proxy may be an init container (native sidecar), so the proxy is also found, moved, ordered and probed there.
    sidecar_among_init: bool = field(metadata=_since(1, 19))
    # A pod says which revision injected it: by a label, which from 1.9 on the templates write, or in the status annotation.
    names_revision: bool = field(metadata=_since(1, 6))
    # The status annotation names the revision.
    status_revision: bool = field(metadata=_since(1, 11))
    # Containers of an earlier injection do not count as overrides by the user.
    skip_injected_overrides: bool = field(metadata=_since(1, 17))
    # istio-init and istio-validation get the uid that the user sets on the proxy container.
    adjust_init_user: bool = field(metadata=_since(1, 20))
    # values.global.variant is the default type of the proxy image.
    values_variant: bool = field(metadata=_since(1, 22))
    # An empty imageType of ProxyConfig leaves the type to values.global.variant, as if it were absent.
    empty_image_type: bool = field(metadata=_since(1, 31))
    # Prometheus annotations count in every spelling with the same sanitised name; scrape=false turns merging off.
    prometheus_sanitised: bool = field(metadata=_since(1, 13))
    # prometheus.istio.io/scrape-targets names several endpoints, and a port that is not one or is Istio's own is refused.
    prometheus_targets: bool = field(metadata=_since(1, 31))
    # prometheus.istio.io/secure-port is set to the proxy's port for merged metrics over mTLS, if it has one.
    prometheus_secure_port: bool = field(metadata=_since(1, 31))
    tcp_probes: bool = field(metadata=_since(1, 12))
    # The feature variable REWRITE_TCP_PROBES can turn TCP probes off.
    tcp_probes_optional: bool = field(metadata={OLDEST: False, (1, 12): True, (1, 19): False})
    grpc_probes: bool = field(metadata=_since(1, 13))
    lifecycle_probes: bool = field(metadata=_since(1, 25))
    # A second injection keeps the recorded probers ...
    merge_probers: bool = field(metadata=_since(1, 17))
    # ... and records them again if they were lost.
    append_missing_probers: bool = field(metadata=_since(1, 27))
    # The default of the feature variable ENABLE_NATIVE_SIDECARS; `auto` depends on the versions of the nodes.
    native_sidecars: str = field(metadata={OLDEST: "false", (1, 27): "auto"})
    native_sidecar_annotation: bool = field(metadata=_since(1, 24))
    native_sidecar_nodes: bool = field(metadata=_since(1, 27))
    openshift: bool = field(metadata=_since(1, 23))
    openshift_init_containers: bool = field(metadata=_since(1, 27))
    injected_annotations: bool = field(metadata=_since(1, 4))
    # neverInjectSelector and alwaysInjectSelector.
    selectors: bool = field(metadata=_since(1, 1))
    # --concurrency is computed from the proxy's CPUs.
    concurrency_args: bool = field(metadata={OLDEST: False, (1, 1): True, (1, 9): False})
    # How cluster and network are read from the webhook's URL: not at all, by position, or as pairs.
    cluster_env: str = field(metadata={OLDEST: "", (1, 6): "positional", (1, 8): "pairs"})
    # The proxy gets the application's mount of the service account token.
    token_mount: bool = field(metadata={OLDEST: False, (1, 1): True, (1, 9): False})
    dns_config: bool = field(metadata={OLDEST: False, (1, 1): True, (1, 9): False})
    # What sets the pod's fsGroup to 1337: mesh config (replacing or keeping the pod's security context), or a feature variable.
    fs_group: str = field(
        metadata={
            OLDEST: "",
            (1, 1): "sds_token_mount",
            (1, 3): "sds_replace",
            (1, 4): "sds",
            (1, 8): "feature",
            (1, 9): "",
        }
    )
    # Labels that the injector adds; from 1.9 on the templates add them.
    added_labels: frozenset[str] = field(
        metadata={
            OLDEST: frozenset(),
            (1, 4): frozenset({"tls_mode"}),
            (1, 5): frozenset({"tls_mode", "canonical"}),
            (1, 6): frozenset({"tls_mode", "canonical", "revision"}),
            (1, 8): frozenset({"tls_mode", "canonical", "revision", "network"}),
            (1, 9): frozenset(),
        }
    )
    # What can make the application wait for the proxy: nothing, the values, or also the mesh config.
    hold_application: str = field(metadata={OLDEST: "", (1, 7): "values", (1, 8): "mesh"})
    prometheus_merge: bool = field(metadata=_since(1, 6))
    probe_rewrite: bool = field(metadata=_since(1, 1))
    probe_rewrite_annotation: bool = field(metadata=_since(1, 2))
    startup_probes: bool = field(metadata=_since(1, 7))
    # A rewritten HTTPS probe calls the agent over HTTP.
    probe_scheme: bool = field(metadata=_since(1, 2))
    # A probe that already uses the agent's port is not recorded again.
    passes_rewritten_probes: bool = field(metadata=_since(1, 9))
    # The recorded probers are {httpGet, timeoutSeconds} by URL; before, the bare action.
    prober_timeouts: bool = field(metadata=_since(1, 5))
    prober_env_when_empty: bool = field(metadata={OLDEST: False, (1, 1): True, (1, 8): False})
    # The agent's port is the proxy's argument --statusPort; later it comes from the mesh config.
    probe_port_from_args: bool = field(metadata={OLDEST: False, (1, 1): True, (1, 6): False})
    # How the webhook finds a pod's workload.
    owner_rules: OwnerRules = field(
        metadata={
            OLDEST: OwnerRules(controllers=False),
            (1, 3): replace(_OWNERS_1_3, job_digits=None),
            (1, 6): _OWNERS_1_3,
            (1, 8): replace(_OWNERS_1_3, hash_required=True),
            (1, 10): replace(_OWNERS_1_12, deployment_configs=False),
            (1, 12): _OWNERS_1_12,
            (1, 22): OwnerRules(),
        }
    )
    # .DeploymentMeta has neither owners nor the label deploymentconfig; from 1.22 on it has only a name and a namespace.
    owner_meta_bare: bool = field(metadata=_since(1, 11))
    # Templates do not see the label deploymentconfig of a DeploymentConfig's pod: Istio deletes it from a map that both share.
    hides_deployment_config: bool = field(metadata={OLDEST: False, (1, 12): True, (1, 19): False})
    # kube-inject prints `selector: null` for a workload without one: apps/v1 requires it, its beta versions did not.
    kube_inject_selector: bool = field(metadata=_since(1, 2))
    # kube-inject builds a patch, as the webhook does.
    kube_inject_patches: bool = field(metadata=_since(1, 8))
    kube_inject_pull_secrets: bool = field(metadata=_since(1, 6))
    # kube-inject finds the workload of a bare Pod by its owner, as the webhook does (1.21.0; not in 1.20.8).
    kube_inject_owners: bool = field(metadata=_since(1, 21))
    kube_inject_redirect_annotations: bool = field(metadata={OLDEST: False, (1, 3): True, (1, 8): False})
    # How kube-inject recognises a sidecar and skips the workload: by its containers, or also by the status annotation.
    kube_inject_injected_check: str = field(metadata={OLDEST: "", (1, 2): "containers", (1, 9): "status", (1, 17): ""})
    # kube-inject prints `creationTimestamp: null`, as Kubernetes' libraries before 0.34 do.
    kube_inject_creation_timestamp: bool = field(metadata={OLDEST: True, (1, 28): False})
    # kube-inject prints `availableReplicas: 0` in the status of a StatefulSet (k8s.io/api 0.24 and later).
    kube_inject_available_replicas: bool = field(metadata=_since(1, 13))
    # gopkg.in/yaml.v2 wraps lines at 80 columns, except in v2.3.0.
    yaml_folds: bool = field(metadata={OLDEST: True, (1, 7): False, (1, 10): True})
    # The form of kube-inject's warnings: plain, with an arrow, or also with kind and namespace.
    kube_inject_warning: str = field(metadata={OLDEST: "plain", (1, 8): "arrow", (1, 13): "kind"})

    def wants_injection(self, value: str) -> bool | None:
        """Read a value of ``sidecar.istio.io/inject``; None leaves the decision to the policy."""
        if self.strict_inject_values:
            return {"true": True, "false": False}.get(value)
        return value.lower() in _TRUTHY if value else None


@cache
def behaviours_of(minor: Minor) -> Behaviours:
    """Return the behaviours of ``minor``."""
    return Behaviours(**{row.name: value_of_minor(minor, row.metadata) for row in fields(Behaviours)})


@cache
def missing_fields(minor: Minor) -> frozenset[FieldName]:
    """Return the pod fields, as (struct, JSON name), that ``minor`` drops from rendered templates: its k8s.io/api lacks them."""
    spans: dict[str, str] = load_json(files(__package__).joinpath("podfields.json").read_bytes())
    missing = []
    for name, span in spans.items():
        first, _, last = span.partition("-")
        if not parse_minor(first) <= minor <= (parse_minor(last) if last else DEVELOPMENT):
            struct, _, field_name = name.rpartition(".")
            missing.append((struct, field_name))
    return frozenset(missing)
