"""Random pods for injectors: every annotation and label that one reads, with usual and odd values, and all kinds of containers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from injector.kube.typed import prune
from tests.differential.proxyconfigs import ProxyConfigs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from injector.kube.typed import FieldName
    from tests.differential.dice import Dice

Values = tuple[str, ...]

PORTS: Values = ("80", "80,443", "", "*", "80, 443 ", "65536", "0", "http", ",", "15020,15021", "-1", "080")
RANGES: Values = (
    "*",
    "",
    "10.0.0.0/8",
    "10.0.0.1/8,192.168.0.0/16",
    "::/0",
    "10.0.0.0",
    "10.0.0.0/8, 1.0.0.0/8",
    "x/8",
    "10.0.0.0/33",
)
INTERFACES: Values = ("eth1", "eth1,net1", "", "tap0, tap1", "an-interface-that-is-long", "1x", ",")
NUMBERS: Values = ("1", "30", "0", "", "-1", "x", "4294967296", "1.5", " 3")
QUANTITIES: Values = ("100m", "2", "1.5", "256Mi", "1Gi", "1e3", "", "x", "-1", "100 m")
SWITCHES: Values = ("true", "false", "1", "0", "T", "yes", "", "True", "x")
LEVELS: Values = ("debug", "warning", "misc:error", "default:info,dns:debug", "", "a: b")
ANNOTATIONS: Mapping[str, Values] = {
    "sidecar.istio.io/inject": ("true", "true", "true", "false", "yes", "on", "", "True", "x"),
    "sidecar.istio.io/interceptionMode": ("REDIRECT", "TPROXY", "NONE", "tproxy", ""),
    "sidecar.istio.io/proxyImage": ("registry.example.com/proxy:1", "proxyv2", ""),
    "sidecar.istio.io/proxyImageType": ("distroless", "debug", "default", "", "other"),
    "sidecar.istio.io/proxyCPU": QUANTITIES,
    "sidecar.istio.io/proxyCPULimit": QUANTITIES,
    "sidecar.istio.io/proxyMemory": QUANTITIES,
    "sidecar.istio.io/proxyMemoryLimit": QUANTITIES,
    "sidecar.istio.io/logLevel": LEVELS,
    "sidecar.istio.io/componentLogLevel": LEVELS,
    "sidecar.istio.io/agentLogLevel": LEVELS,
    "sidecar.istio.io/bootstrapOverride": ("my-config", ""),
    "sidecar.istio.io/userVolume": (
        '{"own":{"emptyDir":{}}}',
        '[{"name":"own","emptyDir":{}}]',
        '{"own":null}',
        '{"own":{"secret":{"secretName":"s","optional":true}},"istio-envoy":{"hostPath":{"path":"/own"}}}',
        '{"own":{"emptyDir":{}},"own":{"hostPath":{"path":"/own"}}}',
        '{"own":[]}',
        '{"own":{"emptyDir":{"sizeLimit":1.50}}}',
        "null",
        "{}",
        "",
        "x",
    ),
    "sidecar.istio.io/userVolumeMount": (
        '{"own":{"mountPath":"/own"}}',
        '[{"name":"own","mountPath":"/own"}]',
        '{"own":{"mountPath":"/own","readOnly":true},"data":{"mountPath":"/etc/istio/proxy","subPath":"a"}}',
        '{"own":{"mountPath":"/own","readOnly":"true"}}',
        '{"own":null}',
        "null",
        "{}",
        "x",
    ),
    "sidecar.istio.io/nativeSidecar": ("true", "false", "", "True", "x"),
    "sidecar.istio.io/capNetBindService": ("true", "false", ""),
    "sidecar.istio.io/rewriteAppHTTPProbers": SWITCHES,
    "sidecar.istio.io/discoveryAddress": ("istiod.other:15012",),
    "sidecar.istio.io/statsInclusionPrefixes": ("cluster",),
    "sidecar.istio.io/statsInclusionRegexps": (r"a\\.b.*",),
    "sidecar.istio.io/statsHistogramBuckets": ('{"istio":[1,5]}', "x"),
    "sidecar.istio.io/extraStatTags": ("a,b",),
    "sidecar.istio.io/controlPlaneAuthPolicy": ("NONE", "MUTUAL_TLS"),
    "status.sidecar.istio.io/port": ("15020", "0", "15021", "", "x", "65536", " 1"),
    "readiness.status.sidecar.istio.io/initialDelaySeconds": NUMBERS,
    "readiness.status.sidecar.istio.io/periodSeconds": NUMBERS,
    "readiness.status.sidecar.istio.io/failureThreshold": NUMBERS,
    "readiness.status.sidecar.istio.io/applicationPorts": PORTS,
    "traffic.sidecar.istio.io/includeInboundPorts": PORTS,
    "traffic.sidecar.istio.io/excludeInboundPorts": PORTS,
    "traffic.sidecar.istio.io/includeOutboundPorts": PORTS,
    "traffic.sidecar.istio.io/excludeOutboundPorts": PORTS,
    "traffic.sidecar.istio.io/includeOutboundIPRanges": RANGES,
    "traffic.sidecar.istio.io/excludeOutboundIPRanges": RANGES,
    "traffic.sidecar.istio.io/excludeInterfaces": INTERFACES,
    "traffic.sidecar.istio.io/kubevirtInterfaces": INTERFACES,
    "istio.io/reroute-virtual-interfaces": INTERFACES,
    "k8s.v1.cni.cncf.io/networks": (
        "net-a",
        "net-a, net-b",
        '[{"name":"net-a"}]',
        "istio-cni",
        "default/istio-cni",
        "",
        "[x",
    ),
    "prometheus.istio.io/merge-metrics": SWITCHES,
    "prometheus.io/scrape": ("true", "false", "", "x"),
    "prometheus.io/port": ("8080", "15020", "", "x"),
    "prometheus.io/path": ("/metrics", ""),
    "prometheus_io_path": ("/other",),
    "prometheus-io.scrape": ("true", "false"),
    "prometheus.io.port": ("9090", "15020"),
    "Prometheus.io/port": ("9091",),
    "prometheus.istio.io.scrape.targets": ("9092:/b",),
    "prometheus.istio.io/scrape-targets": (
        "8080:/metrics,9090",
        " 8080 : /a:b , ,",
        ":/metrics",
        "15090",
        "15020:/x",
        "70000",
        "+8080",
        "08080",
        "x",
        "",
        ",",
    ),
    "prometheus.istio.io/secure-port": ("15091", ""),
    "prometheus_istio_io_secure_port": ("15091",),
    "kubectl.kubernetes.io/default-container": ("app", ""),
    "kubectl.kubernetes.io/default-logs-container": ("app",),
    "sidecar.istio.io/enableCoreDump": ("true", "false", ""),
    "traffic.istio.io/nodeSelector": ("{}",),
    "istio.io/rev": ("other", ""),
    "apm.datadoghq.com/env": ('{"DD_ENV":"prod"}', "{}", "x"),
    "inject.istio.io/templates": (
        "sidecar",
        "gateway",
        "sidecar,sidecar",
        " sidecar ",
        "none",
        "",
        "grpc-agent",
        "sidecar, custom",
        "grpc-simple",
        "custom,sidecar",
        "sidecar,gateway",
        "waypoint",
        "kube-gateway",
        "sidecar,",
        ",",
        "SIDECAR",
        "gateway,sidecar",
        "gateway , gateway",
        "spire",
        "sidecar,spire",
        "grpc-simple,sidecar",
        "agentgateway-waypoint",
    ),
    "resource.opentelemetry.io/service.namespace": ("ns", ""),
    "resource.opentelemetry.io/service.version": ("2",),
    "ambient.istio.io/redirection": ("disabled",),
    "proxy.istio.io/overrides": (
        '{"containers":[{"name":"istio-proxy","image":"own","resources":{}}]}',
        '{"containers":[{"name":"app","env":[{"name":"A","value":"old"}]}],"initContainers":[{"name":"istio-init","image":"own"}]}',
        '{"initContainers":[{"name":"istio-proxy","image":"own","restartPolicy":"Always"},{"name":"istio-validation"}]}',
        '{"containers":[{"image":"nameless"}],"other":1}',
        '{"containers":{}}',
        "null",
        "{}",
        "x",
        "[]",
    ),
    "sidecar.istio.io/status": (
        "x",
        "null",
        "{}",
        '{"containers":null}',
        '{"containers":["second"],"initContainers":["more"],"volumes":["data"],"imagePullSecrets":["own"]}',
        '{"containers":["app","none"],"revision":"old"}',
        '{"containers":["second"],"revision":7}',
    ),
    "ambient.istio.io/bypass-inbound-capture": ("true",),
    "istio.io/dataplane-mode": ("ambient",),
    "resource.opentelemetry.io/service.instance.id": ("i", ""),
    "container.apparmor.security.beta.kubernetes.io/istio-proxy": ("unconfined",),
    "example.com/own": ("value", "a: b", '{"a":"b"}', "x\ny", "<&>é"),
}
ODD: Values = (
    *("", " ", "null", "~", "yes", "1.0", "0x1F", "1e3", ".inf", "2001-01-01", "x" * 300, "|", ">", "?", "---", "..."),
    *(
        "- x",
        "a: b",
        "a:b",
        "a #b",
        "#b",
        "'",
        '"',
        "it's",
        'say "a"',
        "\\",
        "\\n",
        "a\nb",
        "a\n  b: c",
        "\n",
        "\ta",
        "a\r\nb",
    ),
    *(
        "{a: b}",
        "{",
        "}",
        "[a",
        "]",
        ",",
        "&a",
        "*a",
        "!a b",
        "!!int x",
        "%a",
        "@a",
        "`a`",
        "{{ .Spec }}",
        "$(POD_NAME)",
    ),
    *("<&>é", "\u2028", "a\x85b", "\x7f", "\x01", "\ufeffa", "\U0001f600", "a%sb"),
)
"""Texts that mean something to YAML, JSON, templates or formats, for any annotation."""
CONFIGS: Values = (
    "",
    "x",
    "null",
    "[]",
    "{}",
    "# none",
    "---\nconcurrency: 2",
    "concurrency: 2\n---\nconcurrency: 3",
    "concurrency: 2\nconcurrency: 3",
    '{"concurrency": 2, "concurrency": 3}',
    "concurrency: 0x10",
    "concurrency: 010",
    "concurrency: 1_0",
    "concurrency: 3\nconcurrency : {",
    "{concurrency: 2} x",
    "\tconcurrency: 2",
    "proxyMetadata: &a {A: 1, B: yes}",
    "proxyMetadata: {A: 1.0, B: 2001-01-01, C: ~}",
    "a: &a {A: b}\nproxyMetadata: *a",
    "proxyMetadata: {<<: {A: b}, C: d}",
    "drainDuration: 5s\nserviceCluster: !!str 5",
    "- concurrency: 2",
)
"""Texts of proxy.istio.io/config that are odd as YAML."""
LONG = "a-name-that-is-as-long-as-it-can-be-with-63-characters-in-all-x"
LABELS: Mapping[str, Values] = {
    "app": ("web", "", LONG),
    "version": ("v1", "", "1.0", "true"),
    "app.kubernetes.io/name": ("shop", "", LONG),
    "app.kubernetes.io/version": ("2", ""),
    "service.istio.io/canonical-name": ("cart", ""),
    "service.istio.io/canonical-revision": ("3", ""),
    "security.istio.io/tlsMode": ("disabled", "istio", ""),
    "networking.istio.io/tunnel": ("http",),
    "topology.istio.io/network": ("net-2", ""),
    "istio.io/rev": ("canary", ""),
    "istio.io/dataplane-mode": ("ambient", "none"),
    "gateway.networking.k8s.io/gateway-name": ("own",),
    "sidecar.istio.io/inject": ("true", "true", "false", "yes", ""),
    "pod-template-hash": ("5d8f7c", ""),
    "rollouts-pod-template-hash": ("5d8f7c",),
    "deploymentconfig": ("web",),
    "service.istio.io/workload-name": ("own", ""),
    "networking.istio.io/gatewayPort": ("15443",),
    "istio.io/use-waypoint": ("none",),
    "topology.istio.io/subzone": ("sub",),
    "istio-locality": ("region.zone",),
}
ODD_LABELS: Values = ("a: b", '"', "x" * 64, "-x", "_.-", "a-", "é", "1", "null", "a\nb")
"""Values of labels of which the API server refuses most, after its webhooks."""
NAMES: Sequence[Mapping[str, str]] = (
    {"name": "web"},
    {"name": "web"},
    {"name": "web"},
    {"name": "web-5d8f7c-abcde", "generateName": "web-5d8f7c-"},
    {"name": ""},
    {"name": "web-0"},
    {"generateName": "web-"},
    {"generateName": "web-5d8f7c"},
    {"generateName": "-"},
    {"generateName": "a" * 70 + "-5d8f7c-"},
)
"""What few pods have in the place of a name that is generated for a ReplicaSet."""
OWNERS = (
    ("apps/v1", "ReplicaSet", "web-5d8f7c"),
    ("apps/v1", "ReplicaSet", "web"),
    ("apps/v1", "StatefulSet", "web"),
    ("apps/v1", "DaemonSet", "web"),
    ("batch/v1", "Job", "web-27182818"),
    ("batch/v1", "Job", "web-1571234567"),
    ("batch/v1", "Job", "web"),
    ("v1", "ReplicationController", "web-1"),
    ("argoproj.io/v1alpha1", "Rollout", "web"),
    ("apps/v1", "ReplicaSet", f"{LONG}-with-more-5d8f7c"),
    ("apps/v1", "ReplicaSet", "5d8f7c"),
    ("v1", "Node", "node"),
    ("example.com/v1", "Own", ""),
    ("batch/v1", "Job", "web-123456789"),
    ("batch/v1", "Job", "web-12345678901"),
    ("batch/v1", "Job", "-27182818"),
    ("batch/v1", "Job", "web.a-2718281x"),
    ("batch/v1", "CronJob", "web-27182818"),
    ("apps.openshift.io/v1", "DeploymentConfig", "web"),
    ("v1", "ReplicationController", "web-1-deploy"),
    ("v1", "ReplicationController", "web"),
    ("v1", "ReplicationController", "web-"),
    ("", "ReplicaSet", "web-5d8f7c"),
    ("argoproj.io/v1alpha1", "ReplicaSet", "web-5d8f7c"),
    ("apps/v1", "ReplicaSet", "-5d8f7c"),
    ("apps/v1", "ReplicaSet", "web-5d8f7c-5d8f7c"),
    ("a.b/c/d", "OWN", "Web"),
)
CONTAINER_PORTS = (
    {"containerPort": 15090, "protocol": "TCP", "name": "http-envoy-prom"},
    {"containerPort": 8080, "protocol": "SCTP", "hostPort": 8080},
    {"containerPort": 8080, "name": "http"},
    {"containerPort": 9, "protocol": "UDP"},
    {"containerPort": 443, "protocol": "TCP"},
    {"containerPort": 8081, "name": "http"},
    {"containerPort": 0, "name": "none", "hostIP": "127.0.0.1"},
)
IMAGES = (
    "app:1",
    "app:1",
    "registry:5000/app",
    "app@sha256:abc",
    "app:2@sha256:abc",
    "",
    "auto",
    "a:b:c@d@e/f",
    "app:",
)
PROXY_IMAGES = ("auto", "auto", "auto", "own/proxy:1", "")
PATHS = ("/ready", "/a?b=c", "", "/app-health/app/readyz", "/app-health/app/livez", "ready", "/<&>é")
ODD_NAMES = ("", 'x"y', "a b", "APP", "app", "app/1", "1", "null", "istio-proxy-2", "é", LONG)
"""Names of containers of which the API server refuses most, after its webhooks."""
PROBES: Sequence[Mapping[str, Any]] = (
    {},
    {"timeoutSeconds": 3},
    {"periodSeconds": 5},
    {"initialDelaySeconds": 3, "failureThreshold": 1, "successThreshold": 2},
    {"terminationGracePeriodSeconds": 5, "timeoutSeconds": 0},
    {"timeoutSeconds": -1},
)
GRPC: Sequence[Mapping[str, Any]] = (
    {"port": 8080, "service": "s"},
    {"port": 8080},
    {"port": 15020, "service": ""},
    {"port": 0},
)
URLS: Values = (
    "/inject/cluster/c1/net/n1",
    "/inject/cluster/c%2Fd",
    "/inject/net/a--slash--b/",
    "/inject/cluster/c1/own/x/Own/y",
    "/inject/net/n1/odd",
    "/inject/cluster/%20c%C3%A9/net/%25",
    "/inject/net/n--slash----slash--/cluster/--slash--/pod_name/p",
    "/inject/:ENV:A=b:ENV:=x:ENV:cluster=c=1:ENV:",
    "/inject/:ENV:net=n/1:ENV:own",
)
"""Paths of webhooks with variables for the proxy."""


INIT_CONTAINERS = (
    ["setup"],
    ["setup", "more"],
    ["istio-init"],
    ["setup", "istio-validation"],
    ["setup", "istio-proxy", "more"],
    ["enable-core-dump", "istio-init"],
)
REQUIREMENT = {"key": "kubernetes.io/os", "operator": "In", "values": ["linux", "windows"]}
AFFINITY = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [REQUIREMENT]}]}
    }
}
SPREAD = {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway"}
RARE: Mapping[str, Sequence[Any]] = {
    "ephemeralContainers": (
        [{"name": "debug", "image": "d", "targetContainerName": "app", "stdin": True}],
        [{"name": "istio-proxy", "image": "d", "securityContext": {"privileged": True}}],
    ),
    "restartPolicy": ("Always", "Never", "OnFailure"),
    "terminationGracePeriodSeconds": (0, 30),
    "activeDeadlineSeconds": (600,),
    "nodeSelector": ({"kubernetes.io/os": "windows"}, {"kubernetes.io/os": "linux", "disk": ""}),
    "os": ({"name": "windows"}, {"name": "linux"}),
    "tolerations": ([{"operator": "Exists"}], [{"key": "own", "operator": "Exists", "tolerationSeconds": 7}]),
    "affinity": (AFFINITY, {}),
    "topologySpreadConstraints": ([SPREAD], [SPREAD | {"labelSelector": {"matchLabels": {"app": "web"}}}]),
    "hostAliases": ([{"ip": "10.0.0.1", "hostnames": ["a", "b"]}],),
    "dnsConfig": ({"searches": ["own"]}, {"options": [{"name": "ndots", "value": "2"}, {"name": "debug"}]}),
    "hostPID": (True,),
    "hostUsers": (False,),
    "shareProcessNamespace": (True, False),
    "automountServiceAccountToken": (False,),
    "enableServiceLinks": (False,),
    "priority": (0, 7),
    "priorityClassName": ("own",),
    "preemptionPolicy": ("Never",),
    "schedulerName": ("own",),
    "runtimeClassName": ("own", ""),
    "overhead": ({"cpu": "1", "memory": "1.5Gi"},),
    "readinessGates": ([{"conditionType": "own"}],),
    "schedulingGates": ([{"name": "own"}],),
    "hostname": ("web",),
    "subdomain": ("web",),
    "setHostnameAsFQDN": (True,),
    "resources": ({"limits": {"cpu": "1"}},),
    "resourceClaims": ([{"name": "own", "resourceClaimName": "own"}],),
}
"""Fields of a pod's spec that few pods have."""
RARE_METADATA: Mapping[str, Sequence[Any]] = {
    "namespace": ("shop", "shop", "other", "istio-system", "kube-system", "local-path-storage"),
    "uid": ("u",),
    "resourceVersion": ("7",),
    "finalizers": (["own/finalizer"],),
    "managedFields": (
        [{"manager": "kubectl", "operation": "Update", "fieldsType": "FieldsV1", "fieldsV1": {"f:a": {}}}],
    ),
}
"""Fields of a pod's metadata that few pods have."""


class Pods:
    """Makes pods as the API server would accept most of them; containers have no fields that are ``missing`` in a minor's Kubernetes."""

    def __init__(self, dice: Dice, missing: AbstractSet[FieldName] = frozenset()) -> None:
        self.dice = dice
        self.missing = missing
        self.configs = ProxyConfigs(dice)

    def pod(self) -> dict[str, Any]:
        """One pod."""
        dice = self.dice
        metadata: dict[str, Any] = dict(dice.one_of(NAMES)) if dice.happens(0.4) else {"generateName": "web-5d8f7c-"}
        annotations, labels = self.some_of(ANNOTATIONS), self.some_of(LABELS)
        if dice.happens(0.4):
            annotations["proxy.istio.io/config"] = (
                dice.one_of(CONFIGS) if dice.happens(0.05) else self.configs.text(0.005)
            )
        if dice.happens(0.15):
            annotations[dice.one_of(list(ANNOTATIONS))] = dice.one_of(ODD)
        if dice.happens(0.03):
            labels[dice.one_of(list(LABELS))] = dice.one_of(ODD_LABELS)
        for key, result in (("annotations", annotations), ("labels", labels)):
            metadata |= {key: result} if result else {}
        if dice.happens(0.5):
            metadata["ownerReferences"] = [self.owner() for _ in range(dice.one_of((1, 1, 1, 1, 2, 0, 3)))]
        metadata |= {key: dice.one_of(RARE_METADATA[key]) for key in dice.some_of(list(RARE_METADATA), 0.02)}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": self.spec()}

    def owner(self) -> dict[str, Any]:
        """A reference to an owner."""
        version, kind, name = self.dice.one_of(OWNERS)
        controller = {"controller": self.dice.happens(0.9)} if self.dice.happens(0.9) else {}
        return {"apiVersion": version, "kind": kind, "name": name, "uid": "u"} | controller

    def some_of(self, table: Mapping[str, Values]) -> dict[str, str]:
        """Some keys of a table, most with its first value."""
        chance = self.dice.one_of((0.02, 0.05, 0.2))
        keys = self.dice.some_of(list(table), chance)
        return {key: self.dice.one_of(table[key]) if self.dice.happens(0.3) else table[key][0] for key in keys}

    def spec(self) -> dict[str, Any]:
        """The spec of a pod."""
        dice = self.dice
        names = dice.one_of((["app"], ["app"], ["app", "second"], ["app", "istio-proxy"], ["istio-proxy", "app"]))
        if dice.happens(0.04):
            names = dice.one_of(
                ([], ["istio-proxy"], ["app", "app"], ["istio-proxy", "app", "istio-proxy"], ["app", "istio-init"])
            )
        names = [dice.one_of(ODD_NAMES) if dice.happens(0.01) else name for name in names]
        spec: dict[str, Any] = {"containers": [self.container(name) for name in names]}
        if dice.happens(0.3):
            inits = dice.one_of((*INIT_CONTAINERS, ["log"]))
            spec["initContainers"] = [self.container(name, probes=name == "log") for name in inits]
        options: dict[str, Sequence[Any]] = {
            "volumes": (
                [{"name": "data", "emptyDir": {}}],
                [{"name": "istio-data", "emptyDir": {}}],
                [{"name": "istio-envoy", "emptyDir": {}}, {"name": "workload-socket", "hostPath": {"path": "/own"}}],
                [
                    {"name": "credential-socket", "csi": {"driver": "own"}},
                    {"name": "istiod-ca-cert", "secret": {"secretName": "own"}},
                ],
                [{"name": "own", "emptyDir": {"sizeLimit": "1.5Gi"}}, {"name": "data", "hostPath": {"path": "/"}}],
                [
                    {
                        "name": "data",
                        "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}], "defaultMode": 420},
                    }
                ],
            ),
            "imagePullSecrets": (
                [{"name": "registry"}],
                [{"name": "own"}, {"name": "registry"}],
                [{}],
                [{"name": "pull"}],
                [{"name": "own"}, {"name": "own"}, {"name": "pull"}],
            ),
            "securityContext": (
                {"fsGroup": 7},
                {"runAsUser": 7, "runAsNonRoot": True},
                {"runAsUser": 1337},
                {
                    "sysctls": [{"name": "a", "value": "b"}],
                    "supplementalGroups": [1, 2],
                    "fsGroupChangePolicy": "Always",
                },
                {"windowsOptions": {"runAsUserName": "own"}, "seccompProfile": {"type": "RuntimeDefault"}},
                {"appArmorProfile": {"type": "Localhost", "localhostProfile": "own"}, "runAsGroup": 0},
                {"seLinuxOptions": {"level": "s0"}, "supplementalGroupsPolicy": "Strict", "runAsUser": 0},
                {},
            ),
            "serviceAccountName": ("web",),
            "hostNetwork": (False, False, True),
            "dnsPolicy": ("ClusterFirst", "Default", "None"),
            "nodeName": ("node",),
            "workloadRef": ({"name": "work", "podGroup": "group"},),
            "schedulingGroup": ({"podGroupName": "group"},),
        }
        spec |= {key: dice.one_of(values) for key, values in options.items() if dice.happens(0.1)}
        return spec | {key: dice.one_of(RARE[key]) for key in dice.some_of(list(RARE), dice.one_of((0, 0, 0.1)))}

    def container(self, name: str, *, probes: bool = True) -> dict[str, Any]:
        """A container."""
        dice = self.dice
        result: dict[str, Any] = {"name": name, "image": dice.one_of(PROXY_IMAGES if name == "istio-proxy" else IMAGES)}
        if dice.happens(0.5):
            result["ports"] = [dict(port) for port in dice.some_of(CONTAINER_PORTS)]
        for kind in ("readinessProbe", "livenessProbe", "startupProbe") if probes else ():
            if dice.happens(0.25):
                result[kind] = {**self.handler(), **dice.one_of(PROBES)}
        if dice.happens(0.15):
            hooks = {"preStop": self.handler(lifecycle=True), "postStart": self.handler(lifecycle=True)}
            result["lifecycle"] = {key: hooks[key] for key in dice.some_of(list(hooks))}
            result["lifecycle"] |= {"stopSignal": "SIGUSR1"} if dice.happens(0.1) else {}
        options: dict[str, Sequence[Any]] = {
            "env": (
                [{"name": "A", "value": "b"}],
                [{"name": "POD_NAME", "value": "x"}, {"name": "B"}],
                [{"name": "ISTIO_META_CLUSTER_ID", "value": "own"}, {"name": "ISTIO_META_NETWORK", "value": "own"}],
                [{"name": "PROXY_CONFIG", "value": "{}"}, {"name": "ISTIO_KUBE_APP_PROBERS", "value": "{}"}],
                [
                    {"name": "POD_NAME", "value": "own"},
                    {"name": "POD_NAMESPACE", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}},
                ],
                [{"name": "ENVOY_SECURE_MERGED_METRICS_PORT", "value": dice.one_of(("15091", "0", ""))}],
                [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}, {"name": "", "value": "x"}],
                [
                    {"name": "TRUST_DOMAIN"},
                    {"name": "F", "valueFrom": {"fileKeyRef": {"volumeName": "v", "path": "p", "key": "k"}}},
                ],
            ),
            "resources": (
                {"limits": {"cpu": "1"}},
                {"requests": {"memory": "1Gi"}},
                {"limits": {"own.com/gpu": 1}},
                {"limits": {"cpu": 1.5, "memory": 1000000000}, "requests": {"cpu": "1000m", "memory": "0.5Gi"}},
                {"claims": [{"name": "own", "request": "r"}]},
                {},
            ),
            "securityContext": (
                {"runAsUser": 1000},
                {"runAsUser": 0, "runAsGroup": 3},
                {"privileged": True},
                {"runAsUser": 1337},
                {"capabilities": {"add": ["NET_ADMIN"], "drop": []}, "procMount": "Default"},
                {"runAsGroup": 7, "allowPrivilegeEscalation": True, "readOnlyRootFilesystem": False},
                {
                    "seccompProfile": {"type": "Unconfined"},
                    "appArmorProfile": {"type": "Unconfined"},
                    "runAsNonRoot": False,
                },
                {},
            ),
            "envFrom": ([{"configMapRef": {"name": "own"}, "prefix": "P_"}],),
            "command": (["own", "--flag"],),
            "workingDir": ("/own",),
            "imagePullPolicy": ("Always", "Never"),
            "terminationMessagePolicy": ("FallbackToLogsOnError",),
            "volumeDevices": ([{"name": "data", "devicePath": "/dev/own"}],),
            "stdin": (True, False),
            "tty": (True,),
            "resizePolicy": ([{"resourceName": "cpu", "restartPolicy": "NotRequired"}],),
            "volumeMounts": (
                [{"name": "data", "mountPath": "/data"}],
                [{"name": "own", "mountPath": "/etc/istio/proxy"}, {"name": "istio-envoy", "mountPath": "/own"}],
                [{"name": "token", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "readOnly": True}],
            ),
            "args": (["x"], []),
            "restartPolicy": ("Always", "OnFailure"),
            "restartPolicyRules": ([{"action": "Restart", "exitCodes": {"operator": "In", "values": [7]}}],),
        }
        result |= {key: dice.one_of(values) for key, values in options.items() if dice.happens(0.1)}
        known: dict[str, Any] = prune(result, "v1.Container", self.missing)
        return known

    def handler(self, *, lifecycle: bool = False) -> dict[str, Any]:
        """A probe's action, or that of a lifecycle hook."""
        dice = self.dice
        port = dice.one_of((8080, "http", "none", 15020, 80, "8080", "http-envoy-prom", 0, "", -1, 70000))
        http: dict[str, Any] = {"port": port, "path": dice.one_of(PATHS)}
        headers = [{"name": "A", "value": "b"}]
        http |= dice.one_of(({}, {"scheme": "HTTPS"}, {"scheme": "HTTP", "host": "h"}, {"httpHeaders": headers}))
        command = {"exec": {"command": ["true"]}}
        actions: list[dict[str, Any]] = [{"httpGet": http}, {"tcpSocket": {"port": port}}, command]
        actions.append({"sleep": {"seconds": 5}} if lifecycle else {"grpc": dict(dice.one_of(GRPC))})
        if dice.happens(0.05):
            return dice.one_of(actions) | dice.one_of(actions) if dice.happens(0.7) else {}
        return dice.one_of(actions)
