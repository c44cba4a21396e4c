"""What breaks between two minors of Istio: objects of a cluster, and the mesh config, that stop working or get another meaning.

Each rule is about one release note of a minor, and looks at one object at a time. It is deterministic and knows no Envoy: a configuration
that Envoy refuses is not found. The sources are the files of ``releasenotes/notes`` in istio/istio, by their number or name, in the minor
that has them first. The changed defaults are those of the compatibility profiles (``manifests/helm-profiles``, 1.21 to 1.31), and those of
upgrade notes that a variable restores.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from injector.istio.behaviours import Minor, format_minor
from injector.kube.objects import mapping_at, mappings_at

Object: TypeAlias = "Mapping[str, Any]"
Check: TypeAlias = "Callable[[Object], str]"
"""Returns what happens to an object, with the remedy; empty for nothing."""


@dataclass(frozen=True, slots=True)
class Break:
    """Something that stops working, or gets another meaning.

    Attributes:
        rule: the name of the rule.
        subject: the kind, namespace and name of the object, or what else it is about.
        what: what happens, and the remedy after a colon.
        source: the release note.
    """

    rule: str
    subject: str
    what: str
    source: str = ""

    def __str__(self) -> str:
        return f"{self.subject}: {self.what}" + (f" [{self.source}]" if self.source else "")

    def data(self) -> dict[str, str]:
        """Return it as JSON data."""
        return {"rule": self.rule, "object": self.subject, "what": self.what, "source": self.source}


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule about the objects of a kind, for upgrades from before a minor to it or a later one. ``note`` is a release note."""

    name: str
    minor: Minor
    kind: str
    check: Check
    note: str

    @property
    def source(self) -> str:
        """The release note, for people."""
        return f"Istio {format_minor(self.minor)}, releasenotes/notes/{self.note}.yaml"


@dataclass(frozen=True, slots=True)
class ChangedDefault:
    """A default that a minor changed: its variable, the value that keeps the behaviour before, and what it is about.

    ``of_proxy`` says that it is a variable of proxies (``proxyMetadata``), and not of istiod. ``removed`` is the first minor that no longer
    reads the variable: nothing keeps the behaviour before in it, or later.
    """

    minor: Minor
    variable: str
    before: str
    about: str
    of_proxy: bool = False
    removed: Minor | None = None

    def remedy(self, target: Minor) -> str:
        """Return how a minor keeps the behaviour before, for people."""
        if self.removed is not None and target >= self.removed:
            return f"{format_minor(target)} cannot keep the former one, since it no longer reads {self.variable}"
        return f"keep the former one with {self.variable}={self.before}"


DEFAULTS: Final = (
    ChangedDefault(
        (1, 21), "ENABLE_EXTERNAL_NAME_ALIAS", "false", "Services of type ExternalName are aliases", removed=(1, 24)
    ),
    ChangedDefault(
        (1, 21),
        "PERSIST_OLDEST_FIRST_HEURISTIC_FOR_VIRTUAL_SERVICE_HOST_MATCHING",
        "true",
        "of overlapping wildcard hosts, the most specific one counts",
        removed=(1, 24),
    ),
    ChangedDefault(
        (1, 21), "VERIFY_CERTIFICATE_AT_CLIENT", "false", "server certificates are verified", removed=(1, 24)
    ),
    ChangedDefault((1, 21), "ENABLE_AUTO_SNI", "false", "the SNI is the host", removed=(1, 26)),
    ChangedDefault(
        (1, 22),
        "ENABLE_RESOLUTION_NONE_TARGET_PORT",
        "false",
        "targetPort of ServiceEntries without resolution",
        removed=(1, 25),
    ),
    ChangedDefault(
        (1, 22),
        "ENABLE_ENHANCED_RESOURCE_SCOPING",
        "false",
        "discovery selectors limit CustomResources too",
        removed=(1, 25),
    ),
    ChangedDefault((1, 22), "ISTIO_DELTA_XDS", "false", "proxies use delta xDS", of_proxy=True),
    ChangedDefault(
        (1, 22),
        "ENABLE_DEFERRED_CLUSTER_CREATION",
        "false",
        "clusters are created when used",
        of_proxy=True,
        removed=(1, 26),
    ),
    ChangedDefault(
        (1, 23), "ENABLE_DELIMITED_STATS_TAG_REGEX", "false", "tags of Envoy's metrics", of_proxy=True, removed=(1, 26)
    ),
    ChangedDefault((1, 24), "ENABLE_INBOUND_RETRY_POLICY", "false", "inbound requests are retried", removed=(1, 27)),
    ChangedDefault(
        (1, 24), "EXCLUDE_UNSAFE_503_FROM_DEFAULT_RETRY", "false", "503 is not retried by default", removed=(1, 27)
    ),
    ChangedDefault((1, 24), "PREFER_DESTINATIONRULE_TLS_FOR_EXTERNAL_SERVICES", "false", "TLS of external services"),
    ChangedDefault((1, 24), "ENABLE_ENHANCED_DESTINATIONRULE_MERGE", "false", "merge of DestinationRules"),
    ChangedDefault((1, 24), "PILOT_UNIFIED_SIDECAR_SCOPE", "false", "which Service of several a proxy prefers"),
    ChangedDefault(
        (1, 24),
        "ENABLE_DEFERRED_STATS_CREATION",
        "false",
        "metrics are created when used",
        of_proxy=True,
        removed=(1, 27),
    ),
    ChangedDefault(
        (1, 24),
        "BYPASS_OVERLOAD_MANAGER_FOR_STATIC_LISTENERS",
        "false",
        "overload of static listeners",
        of_proxy=True,
        removed=(1, 27),
    ),
    ChangedDefault((1, 25), "PILOT_ENABLE_IP_AUTOALLOCATE", "false", "addresses of ServiceEntries are allocated"),
    ChangedDefault((1, 27), "ENABLE_NATIVE_SIDECARS", "false", "sidecars are init containers where the nodes allow it"),
    ChangedDefault((1, 28), "DISABLE_SHADOW_HOST_SUFFIX", "false", "host names of mirrored requests"),
    ChangedDefault((1, 28), "PILOT_SPAWN_UPSTREAM_SPAN_FOR_GATEWAY", "false", "spans of gateways", removed=(1, 31)),
    ChangedDefault(
        (1, 29),
        "ENABLE_DEBUG_ENDPOINT_AUTH",
        "false",
        "debug endpoints refuse tools of other namespaces, such as Kiali",
    ),
    ChangedDefault((1, 29), "DISABLE_TRACK_REMAINING_CB_METRICS", "false", "metrics of circuit breakers"),
    ChangedDefault(
        (1, 30), "PILOT_SIDECAR_PICK_BEST_SERVICE_NAMESPACE", "false", "which namespace's Service a proxy picks"
    ),
    ChangedDefault((1, 31), "ENABLE_XDS_API_GENERATOR_AUTH", "false", "MCP needs the identity of a control plane"),
    ChangedDefault((1, 31), "PILOT_ENABLE_STRICT_GATEWAY_MERGING", "false", "which Gateways are merged"),
    ChangedDefault((1, 31), "PILOT_AUTO_SEND_UNHEALTHY_ENDPOINTS", "false", "unhealthy endpoints are sent to proxies"),
)
"""The changed defaults of istiod and of sidecars, from Istio's compatibility profiles."""


def changed_defaults(
    source: Minor, target: Minor, istiod: Mapping[str, Any], proxy: Mapping[str, Any]
) -> list[ChangedDefault]:
    """Return the defaults that change between two minors and that the new control plane does not set itself.

    ``istiod`` are the variables of the new istiod, and ``proxy`` those of its proxies (``defaultConfig.proxyMetadata``).
    """
    return [
        default
        for default in DEFAULTS
        if source < default.minor <= target and default.variable not in (proxy if default.of_proxy else istiod)
    ]


REMOVED: Final[Mapping[str, tuple[Minor, str]]] = {
    **{default.variable: (default.removed, default.about) for default in DEFAULTS if default.removed is not None},
    "ENABLE_LEGACY_LB_ALGORITHM_DEFAULT": ((1, 19), "the default load balancing"),
    "ISTIO_DEFAULT_REQUEST_TIMEOUT": ((1, 19), "the default timeout of requests"),
    "PILOT_ENABLE_LEGACY_AUTO_PASSTHROUGH": ((1, 19), "AUTO_PASSTHROUGH of Gateways"),
    "PILOT_ENABLE_PROTOCOL_SNIFFING_FOR_INBOUND": ((1, 19), "detection of protocols"),
    "PILOT_ENABLE_PROTOCOL_SNIFFING_FOR_OUTBOUND": ((1, 19), "detection of protocols"),
    "PILOT_INBOUND_PROTOCOL_DETECTION_TIMEOUT": (
        (1, 19),
        "detection of protocols: meshConfig.protocolDetectionTimeout",
    ),
    "REWRITE_TCP_PROBES": ((1, 19), "TCP probes"),
    "SIDECAR_IGNORE_PORT_IN_HOST_MATCH": ((1, 19), "ports in the hosts of requests"),
    "PILOT_ENABLE_DESTINATION_RULE_INHERITANCE": ((1, 20), "inheritance of DestinationRules"),
    "BOOTSTRAP_XDS_AGENT": ((1, 21), "EnvoyFilters of the bootstrap"),
    "PILOT_ENABLE_INBOUND_PASSTHROUGH": ((1, 21), "the address to which inbound requests go"),
    "PILOT_ENABLE_HEADLESS_SERVICE_POD_LISTENERS": ((1, 22), "listeners for the pods of headless Services"),
    "VERIFY_SDS_CERTIFICATE": ((1, 22), "verification of certificates"),
}
"""The variables that a minor no longer reads, with what they are about: of istiod and of proxies."""


def removed_variables(source: Minor, target: Minor, variables: Iterable[str]) -> list[Break]:
    """Return the variables that an upgrade between two minors ends. ``variables`` are those that are set for istiod or proxies."""
    return [
        Break(
            "removed-variable",
            f"variable {variable}",
            f"Istio no longer reads it from {format_minor(minor)} on ({about}): remove it",
        )
        for variable in sorted(set(variables) & set(REMOVED))
        for minor, about in (REMOVED[variable],)
        if source < minor <= target
    ]


def rules_between(source: Minor, target: Minor) -> list[Rule]:
    """Return the rules about upgrades between two minors."""
    return [rule for rule in RULES if source < rule.minor <= target]


def breaks_of(rules: Iterable[Rule], kind: str, obj: Object, subject: str = "") -> list[Break]:
    """Return what rules find in an object of a kind. ``subject`` names it, by default with its own name."""
    return [
        Break(rule.name, subject or subject_of(obj), what, rule.source)
        for rule in rules
        if rule.kind == kind and (what := rule.check(obj))
    ]


def subject_of(obj: Object) -> str:
    """Return the kind, namespace and name of an object, for people."""
    meta = obj.get("metadata") or {}
    place = f"{meta['namespace']}/" if meta.get("namespace") else ""
    return f"{obj.get('kind')} {place}{meta.get('name', '')}"


# EnvoyFilters

_CANONICAL_NAMES: Final = {
    **{
        f"envoy.{name}": f"envoy.filters.http.{name}"
        for name in ("buffer", "cors", "csrf", "ext_authz", "fault", "grpc_http1_bridge", "grpc_json_transcoder")
    },
    **{
        f"envoy.{name}": f"envoy.filters.http.{name}"
        for name in ("grpc_web", "gzip", "health_check", "ip_tagging", "lua", "router", "squash")
    },
    **{
        f"envoy.{name}": f"envoy.filters.network.{name}"
        for name in (
            "client_ssl_auth",
            "http_connection_manager",
            "mongo_proxy",
            "ratelimit",
            "redis_proxy",
            "tcp_proxy",
        )
    },
    **{
        f"envoy.listener.{name}": f"envoy.filters.listener.{name}"
        for name in ("http_inspector", "original_dst", "original_src", "proxy_protocol", "tls_inspector")
    },
    "envoy.http_dynamo_filter": "envoy.filters.http.dynamo",
    "envoy.rate_limit": "envoy.filters.http.ratelimit",
}
"""The names of filters that Envoy 1.14 deprecated, and their canonical ones."""
_NETWORK_ORDER: Final = frozenset(
    {"istio.metadata_exchange", "istio.stats", "envoy.filters.network.rbac", "envoy.filters.network.ext_authz"}
)
_RELATIVE: Final = ("INSERT_BEFORE", "INSERT_AFTER")
_ADDS: Final = (*_RELATIVE, "ADD", "INSERT_FIRST", "REPLACE")


def patches_of(envoy_filter: Object) -> list[Object]:
    """Return the patches of an EnvoyFilter that can be read."""
    return mappings_at(mapping_at(envoy_filter, "spec"), "configPatches")


def _matched_names(patch: Object) -> Iterator[str]:
    """Yield the filters that a patch matches by name; of an INSERT, the last one is what it is relative to."""
    matched = mapping_at(patch, "match", "listener")
    for filter_match in (
        mapping_at(matched, "filterChain", "filter"),
        mapping_at(matched, "filterChain", "filter", "subFilter"),
    ):
        if isinstance(filter_match.get("name"), str):
            yield filter_match["name"]
    if isinstance(matched.get("listenerFilter"), str):
        yield matched["listenerFilter"]


def _operation(patch: Object) -> str:
    return str(mapping_at(patch, "patch").get("operation", ""))


def relative_to(patch: Object) -> str:
    """Return the filter that an INSERT_BEFORE or INSERT_AFTER is relative to; empty for another operation, or for none."""
    names = list(_matched_names(patch))
    return names[-1] if names and _operation(patch) in _RELATIVE else ""


def _deprecated_name(envoy_filter: Object) -> str:
    names = (name for patch in patches_of(envoy_filter) for name in _matched_names(patch) if name in _CANONICAL_NAMES)
    name = next(names, "")
    return f"it matches the filter {name}, whose name no longer matches: write {_CANONICAL_NAMES[name]}" if name else ""


def _without_type(envoy_filter: Object) -> str:
    for patch in patches_of(envoy_filter):
        value = mapping_at(patch, "patch", "value")
        is_filter = patch.get("applyTo") in ("HTTP_FILTER", "NETWORK_FILTER", "LISTENER_FILTER")
        name = value.get("name")
        if (
            is_filter
            and _operation(patch) in _ADDS
            and name
            and not ({"typed_config", "typedConfig", "config_discovery", "configDiscovery"} & set(value))
        ):
            return f"the filter {name} has no typed_config, and is no longer found by its name: add it with its @type"
    return ""


def _virtual_host(envoy_filter: Object) -> str:
    for patch in patches_of(envoy_filter):
        name = mapping_at(patch, "match", "routeConfiguration", "vhost").get("name")
        # Those of ports and of inbound listeners were not merged.
        if isinstance(name, str) and name and not name.startswith(("*:", "inbound|")):
            what = f"it matches the virtual host {name}, which may have several domains now"
            return f"{what}: check which routes it changes"
    return ""


_OLD_API: Final = re.compile(r"type\.googleapis\.com/envoy\.(?:[\w.]+\.)?v2(?:alpha\d*)?\.[\w.]+")
_REMOVED_FILTERS: Final = re.compile(r"\b(?:forward_downstream_sni|sni_verifier|tcp_cluster_rewrite)\b")


def _names(pattern: re.Pattern[str], what: str) -> Check:
    """Return a check of EnvoyFilters whose patches have a text with a pattern, which follows ``it uses``."""

    def check(envoy_filter: Object) -> str:
        for text in _texts([mapping_at(patch, "patch", "value") for patch in patches_of(envoy_filter)]):
            match = pattern.search(text)
            if match:
                return f"it uses {match[0]}, {what}"
        return ""

    return check


def _relative_to_any(names: frozenset[str], what: str, *, apply_to: str) -> Check:
    def check(envoy_filter: Object) -> str:
        for patch in patches_of(envoy_filter):
            name = relative_to(patch)
            if name in names and patch.get("applyTo") == apply_to:
                return f"it is placed with {_operation(patch)} {name}, {what}"
        return ""

    return check


_OTHER_PLACE: Final = "and network filters have another order: check what runs before it"
_NO_AUTHN: Final = (
    "a filter that Istio no longer adds, so it is not placed: use envoy.filters.http.jwt_authn or INSERT_FIRST"
)


_AUTHN_METADATA: Final = re.compile(r"\bistio_authn\b")


def _authn(envoy_filter: Object) -> str:
    relative = _relative_to_any(frozenset({"istio_authn"}), _NO_AUTHN, apply_to="HTTP_FILTER")
    metadata = _names(
        _AUTHN_METADATA, "metadata that Istio no longer writes: use those of envoy.filters.http.jwt_authn"
    )
    return relative(envoy_filter) or metadata(envoy_filter)


def proxy_version_breaks(envoy_filters: Sequence[Object], source: str, target: str, root: str) -> list[Break]:
    """Return the patches that match the proxies of a version and not those of another one, and for which no other one matches instead.

    The versions are complete, as ``1.28.3``; ``proxyVersion`` is a regular expression (pilot/pkg/model/envoyfilter.go).
    A patch that is relative to a filter which only such patches add is not placed any more. Those of the namespace ``root`` apply to all
    proxies.
    """
    breaks: list[Break] = []
    added: dict[tuple[str, str], bool] = {}
    """Whether a patch adds a filter of this name for the new version, by namespace."""
    present = {
        _signature(envoy_filter, patch)
        for envoy_filter in envoy_filters
        for patch in patches_of(envoy_filter)
        if _matches_version(patch, target) is not False
    }
    for envoy_filter in envoy_filters:
        place = str(mapping_at(envoy_filter, "metadata").get("namespace", ""))
        for index, patch in enumerate(patches_of(envoy_filter)):
            name = mapping_at(patch, "patch", "value").get("name")
            is_new = _matches_version(patch, target) is not False
            if isinstance(name, str) and _operation(patch) in _ADDS:
                added[place, name] = added.get((place, name), False) or is_new
            if _matches_version(patch, source) and not is_new and _signature(envoy_filter, patch) not in present:
                version = mapping_at(patch, "match", "proxy").get("proxyVersion")
                what = f"configPatches[{index}] applies to proxyVersion {version}, which matches {source} and not {target}: change it"
                breaks.append(Break("envoyfilter-proxy-version", subject_of(envoy_filter), what))
    for envoy_filter in envoy_filters:
        place = str(mapping_at(envoy_filter, "metadata").get("namespace", ""))
        for index, patch in enumerate(patches_of(envoy_filter)):
            name = relative_to(patch)
            states = {added[key] for key in ((place, name), (root, name)) if key in added}
            if states == {False} and _matches_version(patch, target) is not False:
                filter_text = f"{_operation(patch)} {name}, which no EnvoyFilter adds for {target}"
                what = f"configPatches[{index}] is placed with {filter_text}: change that one first"
                breaks.append(Break("envoyfilter-relative", subject_of(envoy_filter), what))
    return breaks


def _signature(envoy_filter: Object, patch: Object) -> tuple[str, ...]:
    """Return what a patch changes. Patches of one signature for other versions replace each other."""
    match = mapping_at(patch, "match")
    # Without a name, it is what the patch matches, such as a cluster.
    name = mapping_at(patch, "patch", "value").get("name") or "/".join(_matched_names(patch))
    others = {key: value for key, value in match.items() if key not in ("proxy", "context")}
    what = name or json.dumps(others, sort_keys=True, default=str)
    place = mapping_at(envoy_filter, "metadata").get("namespace", "")
    return str(place), str(patch.get("applyTo")), str(match.get("context", "ANY")), str(what)


def _matches_version(patch: Object, version: str) -> bool | None:
    """Return whether a patch applies to proxies of a version; None if it names none, or one that cannot be read."""
    pattern = mapping_at(patch, "match", "proxy").get("proxyVersion")
    if not isinstance(pattern, str) or not pattern:
        return None
    try:
        return re.search(pattern, version) is not None
    except re.error:
        return None


# Other objects


_PRIVATE: Final = (".internal", ".corp", ".lan", ".intranet", ".private", ".home.arpa")
"""The ends of host names whose certificates public authorities do not issue. Others usually pass the check with the system's."""


def _verify(rule: Object) -> str:
    spec = mapping_at(rule, "spec")
    host = str(spec.get("host", ""))
    if not host.endswith(_PRIVATE):
        return ""
    policies = [
        mapping_at(spec, "trafficPolicy"),
        *(mapping_at(subset, "trafficPolicy") for subset in mappings_at(spec, "subsets")),
    ]
    settings = [part for policy in policies for part in (policy, *mappings_at(policy, "portLevelSettings"))]
    for tls in (mapping_at(part, "tls") for part in settings):
        is_checked = tls.get("caCertificates") or tls.get("credentialName") or tls.get("insecureSkipVerify") is not None
        if tls.get("mode") in ("SIMPLE", "MUTUAL") and not is_checked:
            return f"the certificate of {host} is verified with the system's authorities: set caCertificates or insecureSkipVerify"
    return ""


def _target_port(entry: Object) -> str:
    spec = mapping_at(entry, "spec")
    if spec.get("resolution", "NONE") != "NONE":
        return ""
    ports = [port for port in mappings_at(spec, "ports") if port.get("targetPort") not in (None, port.get("number"))]
    return (
        f"targetPort {ports[0]['targetPort']} was ignored and counts now: remove it to keep the port" if ports else ""
    )


_OLD_ATTRIBUTES: Final = re.compile(
    r"""wasm\.(?:down|up)stream_peer|(?<![\w."'])(?:node\.(?:id|cluster|metadata)|istio_responseClass|(?:down|up)stream_peer\b)"""
)


def _old_attribute(telemetry: Object) -> str:
    for text in _texts(mapping_at(telemetry, "spec")):
        old = _OLD_ATTRIBUTES.search(text)
        if old and "filter_state.downstream_peer" not in text and "filter_state.upstream_peer" not in text:
            remedy = "use filter_state.downstream_peer or xds.node"
            return f"the expression {text[:80]!r} uses {old[0]}, which is no attribute any more: {remedy}"
    return ""


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from _texts(part)
    elif isinstance(value, list):
        for part in value:
            yield from _texts(part)


def _alpha(version: str) -> Check:
    def check(obj: Object) -> str:
        served = str(obj.get("apiVersion", "")).rpartition("/")[2]
        return "" if served == version else f"Istio reads only {version} of it, and this is {served}: write it anew"

    return check


def _crd(release: str) -> Check:
    """Return a check of routes whose version v1 came with a release of the Gateway API: Istio leaves out those of earlier CRDs."""

    def check(route: Object) -> str:
        served = str(route.get("apiVersion", "")).rpartition("/")[2]
        remedy = f"install the CRDs of the Gateway API {release} or later first"
        return "" if served == "v1" else f"Istio reads only v1 of it, and this is {served}: {remedy}"

    return check


def _old_pool(pool: Object) -> str:
    group = str(pool.get("apiVersion", "")).partition("/")[0]
    return f"Istio no longer reads {group}: write it as inference.networking.k8s.io/v1" if ".x-k8s." in group else ""


def _annotation(name: str, remedy: str) -> Check:
    def check(pod: Object) -> str:
        is_set = name in mapping_at(pod, "metadata", "annotations")
        return f"the annotation {name} has no effect: {remedy}" if is_set else ""

    return check


GATEWAY_NAME: Final = "istio.io/gateway-name"
_SELECTORS: Final[Mapping[str, tuple[str, ...]]] = {
    "AuthorizationPolicy": ("selector", "matchLabels"),
    "EnvoyFilter": ("workloadSelector", "labels"),
    "NetworkPolicy": ("podSelector", "matchLabels"),
    "PodDisruptionBudget": ("selector", "matchLabels"),
    "RequestAuthentication": ("selector", "matchLabels"),
    "Telemetry": ("selector", "matchLabels"),
    "WasmPlugin": ("selector", "matchLabels"),
}
"""The kinds that select the pods of a Gateway by labels, with the path in their spec."""


def _gateway_name(obj: Object) -> str:
    if GATEWAY_NAME not in mapping_at(obj, "spec", *_SELECTORS[str(obj.get("kind"))]):
        return ""
    what = f"it selects pods by the label {GATEWAY_NAME}, which the pods of new Gateways no longer have"
    return f"{what}: select gateway.networking.k8s.io/gateway-name"


def _excludes_dns(pod: Object) -> str:
    ports = str(mapping_at(pod, "metadata", "annotations").get("traffic.sidecar.istio.io/excludeOutboundPorts", ""))
    if "53" not in [port.strip() for port in ports.split(",")]:
        return ""
    return "excludeOutboundPorts has 53 and counts for DNS now: the proxy no longer answers its DNS requests"


def _listens_on_22(pod: Object) -> str:
    annotations = mapping_at(pod, "metadata", "annotations")
    excluded = str(annotations.get("traffic.sidecar.istio.io/excludeInboundPorts", ""))
    containers = mapping_at(pod, "spec").get("containers")
    ports = [
        port
        for container in containers or ()
        if isinstance(container, Mapping)
        for port in mappings_at(container, "ports")
    ]
    if "22" in [port.strip() for port in excluded.split(",")] or all(port.get("containerPort") != 22 for port in ports):  # noqa: PLR2004 -- ssh
        return ""
    return "port 22 is captured by the proxy now: exclude it with traffic.sidecar.istio.io/excludeInboundPorts"


def _rotates_metrics(pod: Object) -> str:
    text = str(mapping_at(pod, "metadata", "annotations").get("proxy.istio.io/config", ""))
    return _ROTATION if "METRIC_ROTATION_INTERVAL" in text or "METRIC_GRACEFUL_DELETION_INTERVAL" in text else ""


_ROTATION: Final = "METRIC_ROTATION_INTERVAL has no effect: use the annotation sidecar.istio.io/statsEvictionInterval"


def _external_name(service: Object) -> str:
    spec = mapping_at(service, "spec")
    if spec.get("type") != "ExternalName" or not spec.get("ports"):
        return ""
    return "it is an alias of its externalName, and its ports have no effect: check routes and DestinationRules of its name"


def _removed_provider(kind: str) -> Check:
    def check(mesh: Object) -> str:
        names = (provider.get("name") for provider in mappings_at(mesh, "extensionProviders") if kind in provider)
        name = next(names, None)
        return f"extensionProviders {name} is {kind}, which is removed: use opentelemetry" if name else ""

    return check


def _removed_tracing(kind: str) -> Check:
    def check(mesh: Object) -> str:
        is_set = kind in mapping_at(mesh, "defaultConfig", "tracing")
        return f"defaultConfig.tracing.{kind} is removed: use an extension provider opentelemetry" if is_set else ""

    return check


def _mesh_rotation(mesh: Object) -> str:
    metadata = mapping_at(mesh, "defaultConfig", "proxyMetadata")
    return _ROTATION if {"METRIC_ROTATION_INTERVAL", "METRIC_GRACEFUL_DELETION_INTERVAL"} & set(metadata) else ""


def _no_tracing(mesh: Object) -> str:
    if not mesh.get("zipkinExists") or mapping_at(mesh, "defaultConfig", "tracing"):
        return ""
    return "traces no longer go to zipkin.istio-system by default: set defaultConfig.tracing, or use the Telemetry API"


MESH: Final = "MeshConfig"
POD: Final = "Pod"
RULES: Final = (
    Rule("envoyfilter-virtual-host", (1, 11), "EnvoyFilter", _virtual_host, "route-collapse"),
    Rule("envoyfilter-filter-name", (1, 19), "EnvoyFilter", _deprecated_name, "deprecated-envoy-filter"),
    Rule("envoyfilter-typed-config", (1, 19), "EnvoyFilter", _without_type, "no_extension_lookup_by_name"),
    Rule(
        "envoyfilter-order",
        (1, 20),
        "EnvoyFilter",
        _relative_to_any(_NETWORK_ORDER, _OTHER_PLACE, apply_to="NETWORK_FILTER"),
        "filter-order",
    ),
    Rule(
        "envoyfilter-v2",
        (1, 19),
        "EnvoyFilter",
        _names(_OLD_API, "a type of Envoy's API v2, which is an error: use that of v3"),
        "drop-xds-v2",
    ),
    Rule(
        "envoyfilter-removed-filter",
        (1, 20),
        "EnvoyFilter",
        _names(_REMOVED_FILTERS, "a filter that the proxy no longer has, and that it refuses: remove it, or use Wasm"),
        "envoy-filter-removal",
    ),
    Rule("envoyfilter-istio-authn", (1, 21), "EnvoyFilter", _authn, "extended-jwt"),
    Rule("port-22", (1, 13), POD, _listens_on_22, "ssh-iptables"),
    Rule("external-name", (1, 21), "Service", _external_name, "external-name-on"),
    Rule("verified-certificate", (1, 21), "DestinationRule", _verify, "enable-verify-certificate-at-client"),
    Rule("target-port", (1, 22), "ServiceEntry", _target_port, "targetPort-service-entry"),
    Rule("default-tracing", (1, 22), MESH, _no_tracing, "drop-default-tracing"),
    Rule("telemetry-attributes", (1, 24), "Telemetry", _old_attribute, "telemetry-cel"),
    Rule("opencensus", (1, 23), MESH, _removed_provider("opencensus"), "51078"),
    Rule("stackdriver", (1, 23), MESH, _removed_provider("stackdriver"), "51044"),
    Rule("stackdriver", (1, 23), MESH, _removed_tracing("stackdriver"), "51078"),
    *(Rule("gateway-name-label", (1, 24), kind, _gateway_name, "52049") for kind in _SELECTORS),
    Rule(
        "core-dumps",
        (1, 24),
        POD,
        _annotation("sidecar.istio.io/enableCoreDump", "see Istio's samples/proxy-coredump"),
        "drop-coredump",
    ),
    Rule("opencensus", (1, 25), MESH, _removed_tracing("openCensusAgent"), "opencensus-removal"),
    Rule("excluded-dns", (1, 25), POD, _excludes_dns, "53998"),
    Rule("lightstep", (1, 27), MESH, _removed_provider("lightstep"), "54002"),
    Rule("lightstep", (1, 27), MESH, _removed_tracing("lightstep"), "54002"),
    Rule("metric-rotation", (1, 28), POD, _rotates_metrics, "remove-metric-rotation"),
    Rule("metric-rotation", (1, 28), MESH, _mesh_rotation, "remove-metric-rotation"),
    Rule("backend-tls-policy", (1, 28), "BackendTLSPolicy", _alpha("v1"), "gtw-140"),
    Rule("inference-pool", (1, 28), "InferencePool", _old_pool, "57219-final"),
    Rule(
        "stats-compression",
        (1, 29),
        POD,
        _annotation("sidecar.istio.io/statsCompression", "write statsCompression in proxy.istio.io/config"),
        "48051",
    ),
    Rule("tls-route", (1, 30), "TLSRoute", _crd("1.5"), "gateway-api-crd-version-warn"),
    Rule("tcp-route", (1, 31), "TCPRoute", _crd("1.6"), "gateway-api-crd-version-warn"),
)
"""The rules, by the minor whose release note says it."""


# Harmless changes of the sidecar


@dataclass(frozen=True, slots=True)
class HarmlessChange:
    """A change of Istio's own templates in a minor that no application notices. ``path`` matches the path of the change in a pod."""

    minor: Minor
    path: re.Pattern[str]
    about: str


def _of_proxy(minor: int, field: str, about: str) -> HarmlessChange:
    return HarmlessChange((1, minor), re.compile(rf"(?:initC|c)ontainers\[istio-(?:proxy|init)\]\.{field}"), about)


def _of_pod(minor: int, field: str, about: str) -> HarmlessChange:
    return HarmlessChange((1, minor), re.compile(field), about)


HARMLESS: Final = (
    _of_pod(0, r"metadata\.annotations\[sidecar\.istio\.io/status\]\..*", "the annotation sidecar.istio.io/status"),
    _of_proxy(11, r"env\[CANONICAL_(?:SERVICE|REVISION)\]", "variables CANONICAL_SERVICE and CANONICAL_REVISION"),
    _of_proxy(14, r"volumeMounts\[/var/run/secrets/workload-spiffe-\w+\]", "volumes for SPIFFE"),
    _of_pod(14, r"spec\.volumes\[workload-(?:socket|certs)\]", "volumes for SPIFFE"),
    _of_proxy(16, r"env\[ISTIO_META_NODE_NAME\]", "variable ISTIO_META_NODE_NAME"),
    _of_proxy(17, r"volumeMounts\[/var/run/secrets/credential-uds\]", "volume credential-socket"),
    _of_pod(17, r"spec\.volumes\[credential-socket\]", "volume credential-socket"),
    _of_proxy(20, r"env\[(?:ISTIO_CPU_LIMIT|GOMEMLIMIT|GOMAXPROCS)\]", "variables with the limits of the proxy"),
    _of_pod(20, r"metadata\.annotations\[istio\.io/rev\]", "the annotation istio.io/rev"),
    _of_proxy(24, r"env\[JWT_POLICY\]", "variable JWT_POLICY"),
    _of_proxy(28, r"volumeMounts\[/var/run/secrets/istio/crl\]", "volume istio-ca-crl"),
    _of_pod(28, r"spec\.volumes\[istio-ca-crl\]", "volume istio-ca-crl"),
    _of_proxy(30, r"env\[\w+\]\.valueFrom\.resourceFieldRef\.divisor", "variables with the limits of the proxy"),
    _of_proxy(32, r"env\[GOMAXPROCS\]", "variables with the limits of the proxy"),
)
"""Such changes, by the minor that has them at the latest: found with the templates of 1.10 to 1.32 on one pod, 2026-11-28."""


def harmless_change(path: str, source: Minor, target: Minor) -> str:
    """Return what a known harmless change between two minors is about; empty if the change at a path of a pod is none."""
    if source >= target:
        return ""
    rows = (row for row in HARMLESS if row.minor[1] == 0 or source < row.minor <= target)
    return next((row.about for row in rows if row.path.fullmatch(path)), "")


# Versions

_KUBERNETES: Final[Mapping[int, int]] = {
    18: 24,
    19: 25,
    20: 25,
    21: 26,
    22: 26,
    23: 26,
    24: 28,
    25: 29,
    26: 29,
    27: 29,
    28: 30,
    29: 30,
    30: 32,
    31: 32,
}
"""The first minor of Kubernetes that a minor of Istio supports: istioctl/pkg/install/k8sversion/version.go, 1.18 to 1.31.0-rc.0."""


def kubernetes_breaks(target: Minor, kubelet: int) -> list[Break]:
    """Return that a minor of Istio does not support the cluster. ``kubelet`` is the minor of the newest kubelet.

    Nothing is known about the minors before 1.18.
    """
    needed = max((kubernetes for minor, kubernetes in _KUBERNETES.items() if minor <= target[1]), default=0)
    if kubelet >= needed:
        return []
    what = f"its newest kubelet is 1.{kubelet}, and Istio {format_minor(target)} supports 1.{needed} and later: upgrade it first"
    return [Break("kubernetes-version", "Kubernetes", what, _SUPPORT)]


_MAX_SKIPPED: Final = 2
_MAX_CNI: Final = 1


def skew_breaks(source: Minor, target: Minor, proxies: Mapping[Minor, int], cni: Minor | None) -> list[Break]:
    """Return the versions that Istio does not support beside each other.

    Args:
        source: the minor that workloads leave.
        target: the minor that they get.
        proxies: the number of running pods by the minor of their proxy.
        cni: the minor of the CNI's node agent; None if there is none, or if it is not known.
    """
    breaks = []
    if target[1] - source[1] > _MAX_SKIPPED:
        what = f"Istio tests upgrades over at most {_MAX_SKIPPED} minors: go over {format_minor((1, source[1] + _MAX_SKIPPED))}"
        breaks.append(Break("skipped-minors", f"{format_minor(source)} to {format_minor(target)}", what, _CANARY))
    newer = {minor: count for minor, count in proxies.items() if minor > target}
    if newer:
        minor = max(newer)
        what = f"{sum(newer.values())} proxies are newer than the control plane, up to {format_minor(minor)}: a proxy must not be newer"
        breaks.append(Break("proxy-skew", f"control plane {format_minor(target)}", what, _SUPPORT))
    old = {minor: count for minor, count in proxies.items() if target[1] - minor[1] > _MAX_SKIPPED}
    if old:
        oldest = format_minor(min(old))
        what = f"{sum(old.values())} proxies are older by more than {_MAX_SKIPPED} minors, down to {oldest}: restart them first"
        breaks.append(Break("proxy-skew", f"control plane {format_minor(target)}", what, _SUPPORT))
    if cni is not None and abs(target[1] - cni[1]) > _MAX_CNI:
        what = f"it is {format_minor(cni)}, and supports control planes of one minor more or less than its own: upgrade it first"
        breaks.append(Break("cni-skew", "istio-cni", what, _CNI))
    return breaks


_CANARY: Final = "istio.io, Canary Upgrades"
_SUPPORT: Final = "istio.io, Supported Releases"
_CNI: Final = "istio.io, Install the Istio CNI node agent"
