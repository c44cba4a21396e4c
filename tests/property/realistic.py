"""Pods as clusters have them: annotations of other tools, and values with quotes, backslashes and line breaks that are meant."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.property.subjects import replica

if TYPE_CHECKING:
    from random import Random

PEM = "-----BEGIN CERTIFICATE-----\nMIIBszCCAVmgAwIBAgIUQ+/abc=\nZz09\n-----END CERTIFICATE-----\n"
VALUES = (
    "C:\\Program Files\\shop\\bin\\app.exe",
    "\\\\server\\share\\new\\table",
    "postgres://shop:p%40ss%22w%23rd@db:5432/shop?options=-c%20search_path%3Dshop&sslmode=disable",
    "amqp://user:a%2Fb@mq:5672/%2F",
    "mysql://root:50%25@tcp(db:3306)/shop?charset=utf8mb4",
    "^/api/v[0-9]+/(users|orders)/\\d+$",
    ".*\\.outlier_detection\\..*",
    "it's 5 o'clock",
    'say "hello" # twice',
    "key: value, other: [1, 2]",
    "%{[@timestamp]} %-5level {%thread} - %msg%n",
    "a\nb\n\nc\n",
    "first line\r\nsecond line\r\n",
    "\tindented\n\t\ttwice\n",
    PEM,
    "snowman \u2603, pile \U0001f4a9 and 日本語: ありがとう",
    "🚀 deployed by 'ci'",
    "$(HOST_IP):8126",
    "${jndi}: {a}",
    "{{ .Values.notOurs }}",
    "* * * * *",
    "*/5 * * * *",
    "@daily",
    "`uname -a`",
    "!important",
    "&anchor",
    "> greater",
    "| pipe | table |",
    "- item",
    "[INFO] started",
    '<a href="https://example.com/?a=1&b=2">',
    "arn:aws:iam::123456789012:role/shop",
    "yes",
    "0x1F",
    "1e3",
    "null",
    "~",
    "",
    "a" * 70 + "'",
    "x" * 300 + ": end",
)
CHECK = '[{"prometheus_url": "http://%%host%%:%%port%%/metrics", "namespace": "shop", "metrics": ["*"]}]'
APPLIED = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"annotations": {}, "name": "shop", "namespace": "shop"},
    "spec": {
        "template": {"spec": {"containers": [{"args": ["sh", "-c", 'echo "it\'s on" > /tmp/x'], "name": "shop"}]}}
    },
}
VAULT = """\
{{- with secret "database/creds/shop" -}}
export DB_USER='{{ .Data.username }}'
export DB_PASSWORD="{{ .Data.password }}"
{{- end }}
"""
RULES = "groups:\n- name: shop\n  rules:\n  - alert: Errors\n    expr: 'rate(errors{job=\"shop\"}[5m]) > 0.1'\n    for: 5m\n"
TOOLS = {
    "kubectl.kubernetes.io/last-applied-configuration": json.dumps(APPLIED) + "\n",
    "vault.hashicorp.com/agent-inject-template-creds": VAULT,
    "vault.hashicorp.com/agent-configmap": "{{ vault }}",
    "ad.datadoghq.com/shop.checks": json.dumps({"openmetrics": {"instances": json.loads(CHECK)}}, indent=2),
    "ad.datadoghq.com/shop.logs": '[{"source": "java", "service": "shop", "log_processing_rules": [{"pattern": "\\\\d+"}]}]',
    "config.linkerd.io/proxy-await": "enabled",
    "config.linkerd.io/opaque-ports": "25,443,587",
    "iam.amazonaws.com/role": "arn:aws:iam::123456789012:role/shop",
    "eks.amazonaws.com/role-arn": "arn:aws:iam::123456789012:role/path/shop",
    "prometheus.io/rules": RULES,
    "cni.projectcalico.org/ipAddrs": '["10.0.0.1"]',
    "k8s.v1.cni.cncf.io/network-status": '[{\n    "name": "cbr0",\n    "ips": ["10.244.0.5"],\n    "default": true\n}]',
    "container.apparmor.security.beta.kubernetes.io/shop": "runtime/default",
    "scheduler.alpha.kubernetes.io/affinity": '{"nodeAffinity": {"required": [{"key": "a", "operator": "In"}]}}',
    "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
    "fluentbit.io/parser": "k8s-'custom'",
    "co.elastic.logs/multiline.pattern": "^\\[",
    "argocd.argoproj.io/tracking-id": "shop:apps/Deployment:shop/shop",
    "backup.velero.io/backup-volumes-excludes": "tmp, 'cache'",
    "checksum/secret": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "example.com/pem": PEM,
    "reloader.stakater.com/match": '"true"',
}
ISTIO = {
    "sidecar.istio.io/userVolume": (
        '{"certs": {"secret": {"secretName": "certs", "items": [{"key": "tls.crt", "path": "tls.crt"}]}}}',
        '[{"name": "certs", "emptyDir": {}}]',
        '{\n  "win": {"hostPath": {"path": "C:\\\\data", "type": ""}},\n  "tmp": {"emptyDir": {}}\n}\n',
        "{}",
    ),
    "sidecar.istio.io/userVolumeMount": (
        '{"certs": {"mountPath": "/etc/certs", "readOnly": true}}',
        '{"certs": {"mountPath": "/it\'s/here", "subPathExpr": "$(POD_NAME)"}}',
        "{}",
    ),
    "apm.datadoghq.com/env": (
        '{"DD_ENV": "prod", "DD_SERVICE": "shop"}',
        '{"DD_TAGS": "team:\\"shop\\", path:C:\\\\shop", "DD_ENV": "it\'s"}',
    ),
    "k8s.v1.cni.cncf.io/networks": (
        "macvlan",
        "macvlan, default/other",
        '[{"name": "macvlan", "namespace": "default", "ips": ["10.1.0.2/24"]}]',
        '[\n  {"name": "sriov", "interface": "eth1"}\n]\n',
    ),
    "proxy.istio.io/config": (
        "proxyMetadata:\n  DSN: postgres://a:p%40ss@db/x?y=%22z%22\n  PATH: C:\\temp\\new\n",
        "proxyMetadata:\n  CERT: |\n"
        + "".join(f"    {line}\n" for line in PEM.splitlines())
        + "  QUOTE: 'it''s \"here\"'\nconcurrency: 2\n",
        '{"proxyMetadata": {"JSON": "{\\"a\\": [1, \\"b\\"]}"}, "holdApplicationUntilProxyStarts": true}',
        "tracing:\n  zipkin:\n    address: zipkin.istio-system:9411\n  sampling: 10.5\nterminationDrainDuration: 10s\n",
        'proxyStatsMatcher:\n  inclusionRegexps: [".*\\\\.upstream_rq_.*"]\n',
    ),
    "proxy.istio.io/overrides": ('{"containers": [{"name": "istio-proxy", "image": "auto"}]}',),
    "traffic.sidecar.istio.io/excludeOutboundPorts": ("5432, 6379", "443"),
    "traffic.sidecar.istio.io/includeOutboundIPRanges": ("*", "10.0.0.0/8,172.16.0.0/12"),
    "sidecar.istio.io/proxyCPU": ("100m", '"200m"'),
    "sidecar.istio.io/proxyImage": ("registry.example.com:5000/istio/proxyv2:1.24", "auto"),
    "sidecar.istio.io/componentLogLevel": ("misc:error,rbac:debug", "http:info, upstream:debug", "misc:'error'"),
    "sidecar.istio.io/logLevel": ("debug", "warning\n", " info"),
    "sidecar.istio.io/agentLogLevel": ("default:info", "all:debug "),
    "sidecar.istio.io/bootstrapOverride": ("my-bootstrap", "it's-mine"),
    "resource.opentelemetry.io/service.name": ("shop 'eu'",),
}
SCRIPTS = (
    ["sh", "-c", "set -e\nif [ -f '/x' ]; then\n  echo \"yes: {}\"\nfi\n"],
    ["--config={\"a\": 'b'}", "--regex=^\\d+$"],
    ["java", "-Dfile=C:\\\\x", "-jar", "/app.jar"],
)


def pod(dice: Random) -> dict[str, Any]:
    """A pod with a few of all that."""
    made = replica(dice.choice(("shop", "web-frontend", "api")))
    annotations = made["metadata"]["annotations"]
    for name in dice.sample(sorted(TOOLS), dice.randrange(8)):
        annotations[name] = TOOLS[name]
    for name in dice.sample(sorted(ISTIO), dice.randrange(6)):
        annotations[name] = dice.choice(ISTIO[name])
    for number in range(dice.randrange(4)):
        annotations[f"example.com/note-{number}"] = dice.choice(VALUES)
    if dice.random() < 0.1:
        annotations |= many(dice.randrange(2, 60))
    container = made["spec"]["containers"][0]
    container["env"] += [{"name": f"V{number}", "value": dice.choice(VALUES)} for number in range(dice.randrange(4))]
    if dice.random() < 0.4:
        container["command"] = dice.choice(SCRIPTS)
    if dice.random() < 0.1:
        made["metadata"]["labels"]["app.kubernetes.io/version"] = dice.choice(("1.2.3", "v1", "2024-05-06", "1.10"))
    return made


def many(count: int) -> dict[str, str]:
    """So many small annotations in JSON."""
    return {
        f"example.com/item-{number}": json.dumps({"id": number, "tags": ["a b", "it's"]}) for number in range(count)
    }
