"""The page docs/compatibility.md: what was tested for each minor, and what is special about it, out of the table of behaviours."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from itertools import groupby
from types import MappingProxyType
from typing import Any

from injector.istio.behaviours import NEWEST, OLDEST, ROWS, Behaviours, MinorValue, format_minor

HEAD = """# Compatibility

Written by `python tests/conformance/run.py --write`; do not edit. One process can serve revisions of all
releases of Istio from {oldest} to {newest} at the same time.

## What is tested

The test cases are Istio's own, from the last tag of each minor below. The behaviour of the other minors was taken from Istio's
source; the second table lists the differences. *text* counts outputs of kube-inject that equal Istio's byte for byte. *back* counts
inputs that `uninject` restores from the output of `kube-inject`, if the output allows it.

| Istio | kube-inject | /inject | text | back |
|---|---|---|---|---|
"""

SPECIAL = """
## Differences between minors

The table lists the differences between minors, apart from their templates. The minor of a revision is set in `revision.yaml` or with
`--istio-version`, or inferred. `injector revision list` shows the minor and how it was determined.

| behaviour | {oldest} to {newest} |
|---|---|
"""

DIFFERENCES = """
## Differences from Istio

Istio's own webhooks 1.8.2, 1.12.9, 1.26.8 and 1.30.3 were asked about the pods in `tests/differential/injectors/cases.yaml`. These
differences stay:

- If a second webhook is in the chain, the user's settings for `istio-proxy` and the init containers of Istio stay. From 1.17 on, Istio
  loses them at the second injection. The annotation `proxy.istio.io/overrides` also records a container that another webhook added
  after the first injection, so that a third injection gives the same pod.
- In a second injection, environment variables of the proxy keep their order, and a probe that already points to the agent is not taken
  for the application's.
- If both lists of containers have an `istio-proxy` and the template makes it a native sidecar, both stay, and the API server refuses
  the pod. Istio keeps only what the pod says of one of them, and the proxy starts without the template's part.
- If the status annotation has something else than names, Istio's handler panics and drops the connection from 1.17 on. Here the list
  counts as empty.
- If a key is in the JSON of an annotation twice, the last one counts. Go reads a second list of containers into the first one.
- A request with a `Content-Type` that has parameters, as in `application/json; charset=utf-8`, is answered. Istio answers 415.
- A path with an empty part after the name, as in `/inject/prod//net/n1`, is served. Istio redirects it, which the API server does not
  follow.
- A template and a pod have limits, see [operations](operations.md).
"""

DATES = """
## What is not supported

Sprig's date functions are for your own templates. No template of Istio calls one. They support Python's dates: the years 1 to 9999, to
the microsecond. Unlike in Go, the template fails with a clear error for:

- a date outside these years, a layout without a year in `toDate`, and a fraction of a microsecond in `toDate` and `dateModify`;
- the day of the year (`002`, `__2`) in the layout of `toDate`; `date` prints it;
- a zone of 24 hours or more from UTC, and hours as the name of a zone, as in `GMT+3`.
"""

TELLS: Mapping[str, str] = MappingProxyType(
    {
        "template_fields": "Fields of the template's data",
        "ignored_namespaces": "Namespaces that are never injected",
        "inject_label": "The label `sidecar.istio.io/inject` is read, and takes precedence over the annotation",
        "strict_inject_values": "Only `true` and `false` are accepted, no longer `y`, `yes` and `on`",
        "proxy_config_annotation": "The annotation `proxy.istio.io/config`",
        "mesh_overlay_in_data": "That annotation changes `.MeshConfig`, not only `.ProxyConfig`",
        "sidecar_among_init": "The proxy can be an init container",
        "status_revision": "The status annotation names the revision",
        "skip_injected_overrides": "Fields from an earlier injection are not treated as user overrides",
        "adjust_init_user": "A user-defined uid of the proxy is passed to istio-init and istio-validation",
        "values_variant": "`global.variant` is the default type of the proxy image",
        "prometheus_sanitised": "Prometheus annotations are read in every spelling; `scrape: false` turns them off",
        "tcp_probes": "TCP probes are rewritten",
        "tcp_probes_optional": "... unless `REWRITE_TCP_PROBES` is false",
        "grpc_probes": "gRPC probes are rewritten",
        "lifecycle_probes": "Lifecycle hooks are rewritten",
        "merge_probers": "A second injection keeps the recorded probers",
        "append_missing_probers": "... and records them again if they were lost",
        "native_sidecars": "Default of `ENABLE_NATIVE_SIDECARS`",
        "native_sidecar_annotation": "The annotation `sidecar.istio.io/nativeSidecar`",
        "native_sidecar_nodes": "`ENABLE_NATIVE_SIDECARS: auto` depends on the nodes",
        "openshift": "User ids from OpenShift's namespaces are used",
        "openshift_init_containers": "... for native sidecars too",
        "injected_annotations": "`injectedAnnotations` of the config",
        "selectors": "`neverInjectSelector` and `alwaysInjectSelector`",
        "namespace_from_request": "A pod without a namespace gets the namespace of the review",
        "concurrency_args": "`--concurrency` is derived from the proxy's CPUs",
        "cluster_env": "Cluster and network in the URL",
        "token_mount": "The proxy gets the application's token mount",
        "dns_config": "The template sets `dnsConfig`",
        "fs_group": "Condition for `fsGroup: 1337`, outside templates",
        "added_labels": "Labels that the injector adds, outside templates",
        "hold_application": "Setting that makes the application wait for the proxy",
        "prometheus_merge": "The agent serves the application's metrics",
        "probe_rewrite": "HTTP probes are rewritten",
        "probe_rewrite_annotation": "... according to the annotation `rewriteAppHTTPProbers`",
        "startup_probes": "Startup probes are rewritten",
        "probe_scheme": "A rewritten HTTPS probe calls the agent with HTTP",
        "passes_rewritten_probes": "A probe of the agent's port is not recorded again",
        "prober_timeouts": "Probers are recorded with kind and timeout",
        "prober_env_when_empty": "Probers are recorded even if there are none",
        "probe_port_from_args": "The agent's port is taken from `--statusPort`",
        "owner_rules": "Rules that determine the workload of a pod",
        "owner_meta_bare": "`.DeploymentMeta` has no owners",
        "hides_deployment_config": "Templates do not see the label `deploymentconfig`",
        "kube_inject_selector": "kube-inject prints `selector: null`",
        "kube_inject_patches": "kube-inject works as the webhook",
        "kube_inject_pull_secrets": "kube-inject adds pull secrets",
        "kube_inject_owners": "kube-inject determines the workload of a bare Pod by its owner",
        "kube_inject_redirect_annotations": "kube-inject writes annotations for the CNI",
        "kube_inject_injected_check": "How kube-inject detects that a workload has its sidecar",
        "kube_inject_warning": "Format of kube-inject's warnings",
        "kube_inject_creation_timestamp": "kube-inject prints `creationTimestamp: null`",
        "kube_inject_available_replicas": "kube-inject prints `availableReplicas: 0`",
        "yaml_folds": "YAML wraps long lines",
    }
)
"""A sentence for each behaviour."""


@dataclass(frozen=True, slots=True)
class Tally:
    """How many cases of a minor passed, of how many."""

    minor: str
    kube_inject: tuple[int, int]
    webhook: tuple[int, int]
    text: tuple[int, int]
    back: tuple[int, int]


def page(tallies: Iterable[Tally]) -> str:
    """The text of the page."""
    names = {"oldest": format_minor(OLDEST), "newest": format_minor(NEWEST)}
    tested = [f"| {each.minor} | {' | '.join(map(_of, _counts(each)))} |" for each in tallies]
    special = [f"| {TELLS[each.name]} | {_told(each.name)} |" for each in fields(Behaviours)]
    return "\n".join(
        [HEAD.format(**names) + "\n".join(tested), SPECIAL.format(**names) + "\n".join(special), DIFFERENCES + DATES]
    )


def complete(tally: Tally) -> bool:
    """Whether every case passed."""
    return all(passed == cases for passed, cases in _counts(tally))


def _counts(tally: Tally) -> tuple[tuple[int, int], ...]:
    return tally.kube_inject, tally.webhook, tally.text, tally.back


def _of(count: tuple[int, int]) -> str:
    passed, cases = count
    return f"{passed}" if passed == cases else f"{passed} of {cases}"


def _told(name: str) -> str:
    """The minors of a behaviour: those that have it, or each value with its minors."""
    rows = sorted((row for row in ROWS if row.name == name), key=lambda row: row.first)
    if all(isinstance(row.value, bool) for row in rows):
        having = [_minors(row) for row in rows if row.value]
        return ", ".join(having) or "none"
    before = [None, *(row.value for row in rows)]
    return "; ".join(f"{_minors(row)}: {_value(row.value, old)}" for row, old in zip(rows, before, strict=False))


def _minors(row: MinorValue) -> str:
    if row.first == row.last:
        return format_minor(row.first)
    if row.last == NEWEST:
        return "all" if row.first == OLDEST else f"from {format_minor(row.first)}"
    if row.first == OLDEST:
        return f"to {format_minor(row.last)}"
    return f"{format_minor(row.first)} to {format_minor(row.last)}"


def _value(value: Any, old: Any) -> str:
    """A value by itself, or by what it adds to the one before and leaves out of it."""
    if isinstance(value, str):
        return f"`{value}`" if value else "nothing"
    if isinstance(value, frozenset):
        gone = "".join(f" less `{each}`" for each in sorted((old or frozenset()) - value))
        more = ", ".join(f"`{each}`" for each in sorted(value - (old or frozenset())))
        return f"{'and ' if old and more else ''}{more}{gone}".strip() or "none"
    told = {each.name: getattr(value, each.name) for each in fields(value)}
    new = {name: one for name, one in told.items() if old is None or getattr(old, name) != one}
    return ", ".join(f"`{name}` {str(one).lower() if isinstance(one, bool) else one}" for name, one in new.items())


def counted(passes: Iterable[tuple[str, bool]]) -> dict[str, tuple[int, int]]:
    """Passes and cases by door."""
    doors = groupby(sorted(passes), key=lambda each: each[0])
    return {door: (sum(passed for _, passed in group), len(group)) for door, each in doors if (group := list(each))}
