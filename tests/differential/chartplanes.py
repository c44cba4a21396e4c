"""Random control planes of one Istio release: its own chart, which Helm renders with random values."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from injector.istio.behaviours import parse_minor
from injector.istio.proto import PROXY_CONFIG
from tests.differential.dice import Dice
from tests.differential.proxyconfigs import ProxyConfigs

HELM = Path(__file__).resolve().parents[2] / "scripts" / "helm"
CHART = Path("manifests", "charts", "istio-control", "istio-discovery")
TEMPLATES = ("istiod-injector-configmap", "configmap")
FIRST_PROXY_CONFIGS = (1, 13)
NATIVE_SIDECARS = (1, 19)
TRACERS = ("zipkin", "datadog", "stackdriver", "none")
NO_TRACER = (1, 11)
"""The first minor that knows the last one. Earlier ones refuse every pod of such a control plane."""
RESOURCES: tuple[dict[str, Any], ...] = (
    {},
    {"limits": {"cpu": "1500m"}},
    {"requests": {"cpu": "2", "memory": "1Gi"}},
    {"limits": {"cpu": "2"}},
)
HOOK = {"preStop": {"exec": {"command": ["/bin/sh", "-c", "sleep 1"]}}}
OWN_TEMPLATE = """\
metadata:
  annotations:
    own: {{ .DeploymentMeta.Name | quote }}
  labels:
    own: {{ .ObjectMeta.Namespace | default "none" }}
spec:
  dnsPolicy: Default
  nodeSelector:
    kubernetes.io/os: linux
  tolerations:
  - key: own
    operator: Exists
  containers:
  - name: istio-proxy
    env:
    - name: OWN
      value: "{{ .Revision }} {{ .ProxyConfig.Concurrency.GetValue }} {{ env "OWN" "unset" }}"
    volumeMounts:
    - name: own
      mountPath: /own
  - name: own
    image: own:1
    lifecycle:
      preStop:
        httpGet:
          path: /
          port: 8080
    readinessProbe:
      httpGet:
        path: /own
        port: 8080
  volumes:
  - name: own
    emptyDir: {}
"""
PATCHING_TEMPLATE = """\
metadata:
  annotations:
    sidecar.istio.io/rewriteAppHTTPProbers: "false"
    app: {{ (index .Spec.Containers 0).Name }}
  labels:
    version: null
spec:
  hostname: {{ .ObjectMeta.Name | default .ObjectMeta.GenerateName | trunc 5 | trimSuffix "-" }}
  securityContext:
    $patch: replace
    fsGroup: {{ .ProxyGID | default 1337 }}
  initContainers:
  - name: first
    image: {{ .Values.global.hub }}/own:{{ .Values.global.tag }}
    command: {{ list "a" "b" | toJson }}
  - name: setup
    $patch: delete
  containers:
  {{- range .Spec.Containers }}
  - name: {{ .Name }}
    env:
    - name: PORTS
      value: "{{ range .Ports }}{{ .ContainerPort }},{{ end }}"
    - name: A
      $patch: delete
  {{- end }}
  - name: istio-proxy
    args: ["{{ .ProxyConfig.GetServiceCluster }}", "{{ .MeshConfig.TrustDomain }}", {{ .ProxyConfig.BinaryPath | quote }}]
    env:
    - name: CONFIG
      value: |-
        {{ protoToJSON .ProxyConfig }}
    - name: METADATA
      value: '{{ range $key, $value := .ProxyConfig.ProxyMetadata }}{{ $key }}={{ $value }};{{ end }}'
    - name: OWNER
      value: {{ printf "%s/%s %s" .TypeMeta.APIVersion .TypeMeta.Kind .DeploymentMeta.Namespace | quote }}
    resources:
      limits:
        cpu: {{ annotation .ObjectMeta "sidecar.istio.io/proxyCPULimit" "1" | quote }}
"""
VALUES: Mapping[str, tuple[Any, ...]] = {
    "revision": ("canary",),
    "gateways.seccompProfile": ({"type": "RuntimeDefault"},),
    "pilot.crlConfigMapName": ("crl",),
    "pilot.env": ({"ENABLE_NATIVE_SIDECARS": "true"}, {"OWN": "x"}),
    "istiodRemote.enabled": (True,),
    "global.agentgateway.image": ("example.com/agentgateway:1", "agentgateway"),
    "global.externalIstiod": (True,),
    "global.istioNamespace": ("mesh-system",),
    "global.platform": ("openshift", "k3d"),
    "global.trustDomain": ("td.example.com", ""),
    "global.remotePilotAddress": ("10.0.0.1",),
    "global.tracer.zipkin.address": ("zipkin:9411",),
    "global.tracer.datadog.address": ("$(HOST_IP):8126",),
    "global.waypoint.resources": ({"limits": {"cpu": "2"}},),
    "global.waypoint.affinity": ({"nodeAffinity": {}},),
    "global.waypoint.nodeSelector": ({"own": "node"},),
    "global.waypoint.tolerations": ([{"key": "own", "operator": "Exists"}],),
    "global.proxy.capNetBindService": (True,),
    "global.proxy.variant": ("distroless",),
    "meshConfig.rootNamespace": ("root", ""),
    "meshConfig.inboundTrafficPolicy.mode": ("LOCALHOST", "PASSTHROUGH"),
    "meshConfig.extensionProviders": (
        [{"name": "otel", "opentelemetry": {"service": "otel", "port": 4317}}],
        [{"name": "zipkin", "zipkin": {"service": "zipkin", "port": 9411}}],
    ),
    "meshConfig.defaultProviders": ({"tracing": ["otel"]}, {}),
    "meshConfig.caCertificates": ([{"pem": "x"}],),
    "meshConfig.enableTracing": (True, False),
    "istio_cni.enabled": (True,),
    "istio_cni.chained": (False,),
    "istio_cni.provider": ("multus",),
    "pilot.cni.enabled": (True,),
    "pilot.cni.provider": ("multus", "default"),
    "gateways.securityContext": ({"runAsUser": 7}, {"sysctls": [{"name": "a", "value": "b"}]}),
    "sidecarInjectorWebhook.rewriteAppHTTPProbe": (False,),
    "sidecarInjectorWebhook.injectedAnnotations": ({"own/annotation": "x: {y}"}, {"sidecar.istio.io/logLevel": "info"}),
    "sidecarInjectorWebhook.neverInjectSelector": (
        [{"matchLabels": {"version": "v1"}}],
        [{"matchExpressions": [{"key": "app", "operator": "Exists"}]}],
    ),
    "sidecarInjectorWebhook.alwaysInjectSelector": (
        [{"matchExpressions": [{"key": "version", "operator": "In", "values": ["v1", ""]}]}],
    ),
    "sidecarInjectorWebhook.templates": (
        {"custom": OWN_TEMPLATE},
        {"custom": OWN_TEMPLATE, "none": "spec: {}"},
        {"custom": PATCHING_TEMPLATE, "none": ""},
    ),
    "sidecarInjectorWebhook.defaultTemplates": (
        ["sidecar"],
        ["sidecar", "grpc-agent"],
        ["gateway"],
        ["sidecar", "custom"],
        ["custom"],
    ),
    "global.caAddress": ("ca.example.com:443",),
    "global.caName": ("own",),
    "global.imagePullPolicy": ("Always",),
    "global.imagePullSecrets": (["registry"], ["registry", "other"]),
    "global.logAsJson": (True,),
    "global.logging.level": ("default:debug", ""),
    "global.meshID": ("mesh", "a: b"),
    "global.mountMtlsCerts": (True,),
    "global.multiCluster.clusterName": ("c1",),
    "global.network": ("net1",),
    "global.pilotCertProvider": ("k8s.io/own", "custom"),
    "global.jwtPolicy": ("first-party-jwt", "none"),
    "global.hub": ("example.com/istio", ""),
    "global.tag": ("1.2-debug", "x"),
    "global.variant": ("distroless",),
    "global.nativeNftables": (True,),
    "global.trustBundleName": ("own-ca",),
    "global.sts.servicePort": (15463,),
    "global.sds.token.aud": ("own",),
    "global.proxy.autoInject": ("disabled", "enabled", "other"),
    "global.proxy.clusterDomain": ("example.local",),
    "global.proxy.componentLogLevel": ("", "upstream:debug"),
    "global.proxy.enableCoreDump": (True,),
    "global.proxy.excludeIPRanges": ("10.0.0.0/8",),
    "global.proxy.excludeInboundPorts": ("1,2",),
    "global.proxy.excludeOutboundPorts": ("3",),
    "global.proxy.holdApplicationUntilProxyStarts": (True,),
    "global.proxy.image": ("example.com/own/proxy:1", "other"),
    "global.proxy.includeIPRanges": ("10.1.0.0/16", ""),
    "global.proxy.includeInboundPorts": ("80", ""),
    "global.proxy.includeOutboundPorts": ("443",),
    "global.proxy.lifecycle": (HOOK,),
    "global.proxy.logLevel": ("", "debug"),
    "global.proxy.outlierLogPath": ("/dev/stdout",),
    "global.proxy.privileged": (True,),
    "global.proxy.readinessFailureThreshold": (3,),
    "global.proxy.readinessInitialDelaySeconds": (0, 5),
    "global.proxy.readinessPeriodSeconds": (9,),
    "global.proxy.resources": RESOURCES,
    "global.proxy.seccompProfile": ({"type": "RuntimeDefault"},),
    "global.proxy.startupProbe.enabled": (False,),
    "global.proxy.startupProbe.failureThreshold": (7,),
    "global.proxy.statusPort": (0, 15025),
    "global.proxy.tracer": TRACERS,
    "global.proxy_init.image": ("example.com/init:1", "init"),
    "global.proxy_init.forceApplyIptables": (True,),
    "global.proxy_init.resources": RESOURCES,
    "meshConfig.enablePrometheusMerge": (False,),
    "meshConfig.trustDomain": ("td.example.com",),
    "meshConfig.proxyListenPort": (15002,),
    "meshConfig.proxyInboundListenPort": (15007,),
    "meshConfig.outboundTrafficPolicy.mode": ("REGISTRY_ONLY",),
    "meshConfig.defaultConfig.concurrency": (0, 4),
    "meshConfig.defaultConfig.holdApplicationUntilProxyStarts": (True,),
    "meshConfig.defaultConfig.image.imageType": ("distroless", "debug", "default"),
    "meshConfig.defaultConfig.interceptionMode": ("TPROXY", "REDIRECT"),
    "meshConfig.defaultConfig.proxyMetadata": (
        {"ISTIO_META_DNS_CAPTURE": "true", "B": "", "A": "a: 'b'"},
        {"ISTIO_META_ENABLE_HBONE": "true"},
        {"IPTABLES_TRACE_LOGGING": "true"},
    ),
    "meshConfig.defaultConfig.statusPort": (15030,),
    "meshConfig.defaultConfig.terminationDrainDuration": ("7s",),
    "meshConfig.defaultConfig.tracing.tlsSettings": ({"mode": "SIMPLE", "caCertificates": "/own/ca.pem"},),
    "meshConfig.defaultConfig.tracing.sampling": (12.5,),
    "meshConfig.defaultConfig.runtimeValues": ({"own": "1"},),
    "meshConfig.defaultConfig.extraStatTags": (["own"],),
}
PROXY_CONFIGS = (
    {"concurrency": 3},
    {"concurrency": 0, "environmentVariables": {"A": "of a ProxyConfig", "C": ""}},
    {"image": {"imageType": "debug"}},
    {"selector": {"matchLabels": {"app": "web"}}, "environmentVariables": {"B": "of the workload"}},
)
ENVIRONMENT: Mapping[str, tuple[str, ...]] = {
    "OWN": ("set",),
    "REWRITE_TCP_PROBES": ("false",),
    "ENABLE_LEGACY_FSGROUP_INJECTION": ("false", "true"),
    "COMPLIANCE_POLICY": ("fips-140-2",),
}
OPENSHIFT = (1, 26)
"""The first minor whose driver knows namespaces."""
RANGES = (
    "1000/100",
    "1000-1099",
    "",
    "x",
    "1/4294967295",
    " 5/ 6",
    "5/6 x",
    "-1/5",
    "+1/2",
    "0x10/2",
    "1000",
    "7-5",
    "1000/100,2000/9",
)
REFUSED = b"execution error at"
"""In the error of Helm for values that the chart itself refuses with ``fail``."""
NODES_COUNT = (1, 27)
"""The first minor for which the versions of the nodes count."""
NODES: tuple[Mapping[str, str], ...] = (
    {"node": "v1.34.0"},
    {"node": "v1.33.1+k3s1", "other": "v1.32.9"},
    {"node": "v1.32.0-gke.1", "other": "v1.33.0"},
    {"node": "x", "other": "1.35"},
    {"other": "v2.0.0-rc.1"},
)
FIRST_SLASH = (1, 15)
"""The first minor whose webhook replaces ``--slash--`` in its path; ours does for all."""
PATHS = (
    "/inject",
    "/inject",
    "/inject/cluster/c2/net/net2",
    "/inject/:ENV:net=n:ENV:OWN=x",
    "/inject/cluster/c--slash--3",
)


def chart_planes(minor: str, tree: Path, seed: str, count: int) -> list[dict[str, Any]]:
    """Return control planes, as arguments of ``ControlPlane``: the chart of Istio's source tree with random values."""
    dice, found = Dice(f"{seed} {minor} chart"), list[dict[str, Any]]()
    while len(found) < count:
        try:
            found.append(_plane(minor, tree, dice))
        except subprocess.CalledProcessError as error:
            if REFUSED not in error.stderr:
                raise
    return found


def _plane(minor: str, tree: Path, dice: Dice) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for path in dice.some_of(list(VALUES), dice.one_of((0.04, 0.1, 0.25))):
        found = VALUES[path]
        if found is TRACERS and parse_minor(minor) < NO_TRACER:
            found = TRACERS[:-1]
        _put(values, path.split("."), dice.one_of(found))
    env = {name: dice.one_of(ENVIRONMENT[name]) for name in dice.some_of(list(ENVIRONMENT), 0.2)}
    env["ENABLE_NATIVE_SIDECARS"] = dice.one_of(
        ("false", "true") if parse_minor(minor) >= NATIVE_SIDECARS else ("false",)
    )
    path = dice.one_of(PATHS if parse_minor(minor) >= FIRST_SLASH else PATHS[:-1])
    nodes = dice.one_of(NODES) if parse_minor(minor) >= NODES_COUNT else {}
    # The drivers know only the nodes and namespaces of a cluster with the default name.
    is_named = "/cluster/" in path or "clusterName" in values.get("global", {}).get("multiCluster", {})
    if not is_named and parse_minor(minor) >= NODES_COUNT and dice.happens(0.3):
        env["ENABLE_NATIVE_SIDECARS"] = "auto"
    if not is_named and parse_minor(minor) >= OPENSHIFT and dice.happens(0.2):
        keys = dice.some_of(("openshift.io/sa.scc.uid-range", "openshift.io/sa.scc.supplemental-groups"), 0.8)
        annotations = {key: dice.one_of(RANGES) for key in keys}
        env |= {"PLATFORM": "openshift", "NAMESPACE_ANNOTATIONS": json.dumps(annotations)}
    if dice.happens(0.2):
        # Helm cannot merge what is no object.
        own = ProxyConfigs(dice).message(PROXY_CONFIG, 0, 0)
        _put(values, ["meshConfig", "defaultConfig"], own | values.get("meshConfig", {}).get("defaultConfig", {}))
    chosen = dice.some_of(PROXY_CONFIGS, 0.2) if parse_minor(minor) >= FIRST_PROXY_CONFIGS else []
    configs = [
        {"metadata": {"name": f"c{number}", "namespace": dice.one_of(("shop", "istio-system"))}, "spec": spec}
        for number, spec in enumerate(chosen)
    ]
    maps = rendered(tree / CHART, values)
    return {
        "config": maps["istio-sidecar-injector"]["config"],
        "values": maps["istio-sidecar-injector"]["values"],
        "mesh": maps["istio"]["mesh"],
        "env": env,
        "proxy_configs": configs,
        "path": path,
        "nodes": nodes,
        "name": values.get("revision", ""),
    }


def _put(values: dict[str, Any], path: list[str], value: Any) -> None:
    *above, last = path
    for key in above:
        values = values.setdefault(key, {})
    values[last] = value


def rendered(chart: Path, values: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Return the data of the chart's ConfigMaps, by their names without the revision."""
    show = [word for name in TEMPLATES for word in ("--show-only", f"templates/{name}.yaml")]
    command = [str(HELM), "template", "istiod", str(chart), "--namespace", "istio-system", "--values", "-", *show]
    done = subprocess.run(command, input=json.dumps(values).encode(), check=True, capture_output=True)
    suffix = "-" + values.get("revision", "")
    return {
        each["metadata"]["name"].removesuffix(suffix): each["data"]
        for each in yaml.load_all(done.stdout, yaml.CSafeLoader)
        if each and each["kind"] == "ConfigMap"
    }
