"""The chart: what its schema refuses, what each mode renders, and that its webhooks are those of the command line."""

from __future__ import annotations

import itertools
import json
import re
import shutil
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from injector.cli import main
from injector.revisions.tags import parse_tags
from injector.settings import Settings
from tests.cases import cases
from tests.cli.clusters import invoke
from tests.deploy.rendering import (
    CHART,
    NAMESPACE,
    RELEASE,
    ROOT,
    Object,
    container,
    documents,
    flags,
    helm,
    of_kind,
    one,
    pod_spec,
    rendered,
    templated,
)
from tests.revisions.fakes import write_revision

REVISIONS = {
    "1-24": {"configMap": "istio-sidecar-injector-1-24", "meshConfigMap": "istio-1-24"},
    "1-30": {"configMap": "all-in-one", "settings": {"istioVersion": "1.30"}},
}
DEMO: Object = {"demo": {"enabled": True}}
EVERYTHING: Object = {
    "revisions": REVISIONS,
    "tags": {"prod": "1-24", "next": {"weights": {"1-24": 1, "1-30": 9}, "shadow": {"revision": "1-24", "sample": 5}}},
    "fromCluster": {"enabled": True, "namespaces": True},
    "apiServerClient": {"configMap": "api-client-ca", "names": ["kube-apiserver"]},
    "namespace": {"create": True},
    "networkPolicy": {"enabled": True},
    "monitoring": {kind: {"enabled": True} for kind in ("serviceMonitor", "prometheusRule", "dashboards")},
}


@pytest.mark.parametrize("values", [{}, EVERYTHING, *({"tls": {"mode": mode}} for mode in ("files", "cert-manager"))])
def test_lint_finds_nothing(values: Object) -> None:
    settings = [f"--set-json={key}={json.dumps(value)}" for key, value in values.items()]
    done = helm("lint", "--strict", str(CHART), *settings)

    assert done.returncode == 0, done.stdout + done.stderr


@cases("values", "why")
def test_unknown_wrong_and_contradictory_values_are_refused_with_what_to_do(values: Object, why: str) -> None:
    done = templated(values)

    assert done.returncode != 0
    assert why in done.stderr


def test_every_value_has_a_description_and_a_default_that_the_schema_takes() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())

    def check(properties: Object, defaults: Object, at: str) -> None:
        assert set(properties) == set(defaults), at
        for name, schema_of in properties.items():
            assert schema_of.get("description"), f"{at}{name}"
            if (
                name in defaults
                and "properties" in schema_of
                and schema_of.get("additionalProperties") is False
                and defaults[name]
            ):
                check(schema_of["properties"], defaults[name], f"{at}{name}.")

    check(schema["properties"], values, "")


def open_objects(schema: Any, at: str = "") -> list[str]:
    """The places of a schema that take unknown names."""
    if isinstance(schema, list):
        return [place for part in schema for place in open_objects(part, at)]
    if not isinstance(schema, dict):
        return []
    own = (
        [at] if "properties" in schema and "type" in schema and schema.get("additionalProperties") is not False else []
    )
    return own + [place for key, part in schema.items() for place in open_objects(part, f"{at}/{key}")]


def test_no_part_of_the_schema_with_names_of_its_own_takes_others() -> None:
    assert open_objects(json.loads((CHART / "values.schema.json").read_text())) == ["/properties/global"]


# --- webhooks: the same as `injector webhook generate` and `injector tag generate` print

COMMON = "--timeout 5s --reinvocation-policy Never"


def printed(*arguments: str) -> list[Object]:
    done = invoke(*arguments)
    assert done.exit_code == 0, done.output
    return documents(done.stdout)


def configurations(values: Object) -> list[Object]:
    """The webhooks of the chart without what comes on top of Istio's own."""
    webhooks = of_kind(rendered(values), "MutatingWebhookConfiguration")
    for configuration in webhooks:
        for webhook in configuration["webhooks"]:
            assert len(webhook.pop("matchConditions")) == 2
    return webhooks


@cases("values", "command")
def test_a_webhook_is_what_the_command_line_prints(values: Object, command: str) -> None:
    assert configurations(values) == printed(*command.split())


def test_the_match_conditions_are_those_of_the_flag() -> None:
    (configuration,) = of_kind(rendered({"webhooks": [{"revision": "1-24"}]}), "MutatingWebhookConfiguration")
    conditions = configuration["webhooks"][0]["matchConditions"]
    flags = [
        word
        for condition in conditions
        for word in ("--match-condition", f"{condition['name']}={condition['expression']}")
    ]

    assert [configuration] == printed("webhook", "generate", "--revision", "1-24", *COMMON.split(), *flags)


def test_by_default_each_revision_and_tag_has_the_webhook_of_the_command_line(tmp_path: Path) -> None:
    tags = {"default": {"1-24": 90, "default": 10}, "prod": "1-24"}
    for name in ("1-24", "default"):
        write_revision(tmp_path / name, "policy: enabled\ntemplate: ''\n")
    (tmp_path / "tags.yaml").write_text(json.dumps(tags))

    rendered_ones = configurations(
        {"revisions": {name: {"configMap": "a"} for name in ("1-24", "default")}, "tags": tags}
    )

    expected = printed("webhook", "generate", "--revisions-dir", str(tmp_path), *COMMON.split())
    for obj in expected:
        # Weights are in the annotations for an injector that reads the cluster's tags; this one reads tags.yaml.
        obj["metadata"].pop("annotations", None)
    by_name = {obj["metadata"]["name"]: obj for obj in expected}
    assert {rendered_one["metadata"]["name"]: rendered_one for rendered_one in rendered_ones} == by_name
    assert {"matchLabels": {"istio.io/deactivated": "never-match"}} in [
        webhook["objectSelector"] for webhook in by_name["istio-sidecar-injector"]["webhooks"]
    ]


def test_webhooks_can_be_left_to_others() -> None:
    assert configurations({"webhooks": [], "demo": {"enabled": True}}) == []
    assert configurations({}) == [], "the names of the revisions that Istio installed are not known"


def test_the_demo_takes_no_name_of_istios_own() -> None:
    assert "--embedded" in flags(rendered(DEMO))
    assert "--embedded" not in flags(rendered()), "the examples are for the demo alone"
    names = [configuration["metadata"]["name"] for configuration in configurations({"demo": {"enabled": True}})]

    assert names == ["demo-stable", "demo-canary"]


def test_the_webhooks_have_the_given_ca_or_that_of_cert_manager() -> None:
    files = configurations({"tls": {"mode": "files", "caBundle": "eHg="}, "demo": {"enabled": True}})
    managed = rendered({"tls": {"mode": "cert-manager"}, "demo": {"enabled": True}})

    assert {webhook["clientConfig"]["caBundle"] for file in files for webhook in file["webhooks"]} == {"eHg="}
    leaf = next(certificate for certificate in of_kind(managed, "Certificate") if not certificate["spec"].get("isCA"))
    for mutating_webhook_configuration in of_kind(managed, "MutatingWebhookConfiguration"):
        place = mutating_webhook_configuration["metadata"]["annotations"]["cert-manager.io/inject-ca-from"]
        assert place == f"{NAMESPACE}/{leaf['metadata']['name']}"


# --- modes


def test_cert_manager_writes_the_services_certificate_into_the_mounted_secret() -> None:
    objects = rendered({"tls": {"mode": "cert-manager"}})
    service = one(objects, "Service")["metadata"]
    authority, leaf = sorted(
        of_kind(objects, "Certificate"), key=lambda certificate: not certificate["spec"].get("isCA")
    )
    issuers = {issuer["metadata"]["name"]: issuer["spec"] for issuer in of_kind(objects, "Issuer")}
    (secret,) = [volume["secret"]["secretName"] for volume in pod_spec(objects)["volumes"] if "secret" in volume]

    assert leaf["spec"]["secretName"] == secret
    assert leaf["spec"]["dnsNames"] == [f"{service['name']}.{service['namespace']}.svc"]
    assert issuers[leaf["spec"]["issuerRef"]["name"]] == {"ca": {"secretName": authority["spec"]["secretName"]}}
    assert issuers[authority["spec"]["issuerRef"]["name"]] == {"selfSigned": {}}


def test_an_issuer_of_ones_own_signs_alone() -> None:
    issuer = {"group": "cert-manager.io", "kind": "ClusterIssuer", "name": "corp"}
    objects = rendered({"tls": {"mode": "cert-manager", "certManager": {"issuerRef": issuer}}})

    assert one(objects, "Certificate")["spec"]["issuerRef"] == issuer
    assert of_kind(objects, "Issuer") == []


def test_self_signed_names_the_secret_and_the_service_of_the_release() -> None:
    objects = rendered({"fullnameOverride": "other", "tls": {"caSecretName": "my-ca"}, **DEMO})
    by_name = flags(objects)
    secrets = [rule for rule in one(objects, "Role")["rules"] if "resourceNames" in rule]

    assert (by_name["--ca-secret"], by_name["--namespace"], by_name["--service"]) == ("my-ca", NAMESPACE, "other")
    assert by_name["--patch-webhooks"] == "true"
    assert flags(rendered({"tls": {"patchWebhooks": False}}))["--patch-webhooks"] == "false"
    assert secrets == [
        {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["my-ca"], "verbs": ["get", "update"]}
    ]
    assert "volumes" not in pod_spec(objects)


def patchable(values: Object) -> list[Object]:
    roles = of_kind(rendered(values), "ClusterRole")
    return [rule for role in roles for rule in role["rules"] if rule["verbs"] == ["patch"]]


def test_only_the_webhooks_of_the_release_and_those_that_are_named_may_be_patched() -> None:
    (own,) = patchable({"webhooks": [{"revision": "1-24"}], "tls": {"extraWebhookNames": ["mine"]}})

    assert own["resourceNames"] == ["istio-sidecar-injector-1-24", "mine"]
    assert patchable({"webhooks": []}) == []
    assert patchable({"tls": {"patchWebhooks": False}}) == []
    assert [("resourceNames" in rule) for rule in patchable({"tls": {"extraWebhookNames": ["*"]}})] == [False]


def test_upgrades_may_restart_workloads_in_the_named_namespaces_alone() -> None:
    on = {"fromCluster": {"enabled": True}, "upgrades": {"enabled": True}}
    limited = rendered({**on, "upgrades": {"enabled": True, "namespaces": ["dev", "shop"]}})

    def bindings(objects: list[Object], kind: str) -> list[str]:
        return [
            binding["metadata"].get("namespace", "")
            for binding in of_kind(objects, kind)
            if binding["roleRef"]["name"].endswith("-upgrades-restarts")
        ]

    assert "--upgrades" in flags(limited)
    assert (bindings(limited, "RoleBinding"), bindings(limited, "ClusterRoleBinding")) == (["dev", "shop"], [])
    assert (bindings(rendered(on), "RoleBinding"), bindings(rendered(on), "ClusterRoleBinding")) == ([], [""])
    assert "upgrade" not in json.dumps(rendered())


@cases("values", "args")
def test_a_grace_period_a_source_and_a_strategy_that_fit_are_taken(values: Object, args: list[str]) -> None:
    assert set(args) <= set(container(rendered(values))["args"])


def test_upgrades_of_named_tags_may_patch_the_webhooks_of_these_tags_only() -> None:
    def writes(upgrades: Object, **others: Any) -> set[tuple[str, tuple[str, ...]]]:
        objects = rendered({"upgrades": {"enabled": True, **upgrades}, **others})
        return {
            (resource, tuple(rule.get("resourceNames", ())))
            for role in (*of_kind(objects, "Role"), *of_kind(objects, "ClusterRole"))
            if role["metadata"]["name"].endswith("-upgrades")
            for rule in role["rules"]
            if "patch" in rule["verbs"]
            for resource in rule["resources"]
        }

    webhooks, validators, services = "mutatingwebhookconfigurations", "validatingwebhookconfigurations", "services"
    named = {
        "webhooks": [{"tag": "prod", "revision": "1-24", "name": "mine"}],
        "fromCluster": {"istioNamespace": "istio-two"},
    }

    assert writes({}) == {(webhooks, ()), (services, ()), (validators, ("istiod-default-validator",))}
    assert writes({"namespaces": ["shop"]}) == set()
    assert writes({"namespaces": ["shop"], "tags": ["prod"]}) == writes({"tags": ["prod"]})
    assert writes({"tags": ["prod"]}) == {
        (webhooks, ("istio-revision-tag-prod",)),
        (services, ("istiod-revision-tag-prod",)),
    }
    assert writes({"tags": ["prod", "default"]}, **named) == {
        (webhooks, ("mine", "istio-revision-tag-default-istio-two")),
        (services, ("istiod-revision-tag-prod", "istiod-revision-tag-default")),
        (validators, ("istiod-default-validator",)),
    }


def test_control_planes_of_several_namespaces_are_read_with_a_role_in_each() -> None:
    objects = rendered({"fromCluster": {"istioNamespace": "one", "otherIstioNamespaces": ["two", "three"]}})
    namespaces = {"one", "two", "three"}

    for kind in ("Role", "RoleBinding"):
        assert namespaces <= {obj["metadata"].get("namespace") for obj in of_kind(objects, kind)}
    assert {f"--istio-namespace={namespace}" for namespace in namespaces} <= set(container(objects)["args"])


def test_the_memory_of_the_container_fits_what_was_measured() -> None:
    (row,) = re.findall(r"^\| memory \|.*", (ROOT / "docs" / "operations.md").read_text(), re.MULTILINE)
    measured = [int(number) for number in re.findall(r"\b(\d+) MiB\b", row)]
    resources = container(rendered())["resources"]
    request, limit = (int(resources[kind]["memory"].removesuffix("Mi")) for kind in ("requests", "limits"))

    assert len(measured) > 1
    assert max(measured) < request < limit


def test_the_notes_of_a_release_from_the_cluster_have_the_command_for_webhooks() -> None:
    text = (CHART / "templates" / "NOTES.txt").read_text()
    generate = main.get_command(click.Context(main), "webhook")

    assert isinstance(generate, click.Group)
    (flags_of_command,) = re.findall(r"^  injector webhook generate (.*) > webhooks.yaml$", text, re.MULTILINE)
    named = re.findall(r"--[a-z-]+", flags_of_command)
    known = {flag for option in generate.commands["generate"].params for flag in option.opts}
    assert named == ["--service", "--service-namespace", "--istio-namespace"]
    assert set(named) <= known


def test_the_revisions_are_folders_also_where_their_config_map_is_gone() -> None:
    objects = rendered({"revisions": REVISIONS, "tags": {"prod": "1-24"}})
    (volume,) = [volume["projected"] for volume in pod_spec(objects)["volumes"] if volume["name"] == "revisions"]
    own, *others = [source["configMap"] for source in volume["sources"]]
    data = next(
        config_map["data"]
        for config_map in of_kind(objects, "ConfigMap")
        if config_map["metadata"]["name"] == own["name"]
    )

    assert {item["path"]: data[item["key"]] for item in own["items"]} == {
        "tags.yaml": "prod: 1-24\n",
        "1-24/.keep": "",
        "1-30/.keep": "",
        "1-30/revision.yaml": 'istioVersion: "1.30"\n',
    }
    assert all(source["optional"] for source in others)
    assert {source["name"]: [item["path"] for item in source["items"]] for source in others} == {
        "istio-sidecar-injector-1-24": ["1-24/config", "1-24/values", "1-24/revision.yaml"],
        "istio-1-24": ["1-24/mesh"],
        "all-in-one": ["1-30/config", "1-30/values", "1-30/mesh"],
    }
    assert flags(objects)["--revisions-dir"] == "/etc/injector/revisions"


def test_the_tags_are_written_as_the_injector_reads_them() -> None:
    tags = {"prod": "1-24", "some": {"1-24": 90, "1-30": 10}, **EVERYTHING["tags"], "many": {"1-24": 999999}}
    objects = rendered({"revisions": REVISIONS, "tags": tags})
    (text,) = [config_map["data"]["tags.yaml"] for config_map in of_kind(objects, "ConfigMap")]

    assert parse_tags(text) == parse_tags(json.dumps(dict(sorted(tags.items()))))


def test_the_api_servers_own_certificate_is_asked_for_where_its_ca_is_given() -> None:
    objects = rendered(EVERYTHING)
    mounts = {mount["name"]: mount["mountPath"] for mount in container(objects)["volumeMounts"]}

    assert flags(objects)["--client-ca-file"] == f"{mounts['client-ca']}/ca.crt"
    assert flags(objects)["--client-name"] == "kube-apiserver"
    assert "--client-ca-file" not in flags(rendered())


@pytest.mark.parametrize(("value", "flag"), [("watchUnserved", "--watch-unserved"), ("watchDrift", "--watch-drift")])
def test_who_looks_at_labels_of_namespaces_and_pods_may_read_these_and_nothing_else(value: str, flag: str) -> None:
    objects = rendered({"tls": {"mode": "files"}, value: True, "demo": {"enabled": True}})
    (rule,) = one(objects, "ClusterRole")["rules"]

    assert flag in flags(objects)
    assert rule == {"apiGroups": [""], "resources": ["namespaces", "pods"], "verbs": ["get", "list", "watch"]}
    assert pod_spec(objects)["automountServiceAccountToken"] is True


def test_the_number_of_pods_is_the_autoscalers_where_there_is_one() -> None:
    scaled, fixed = rendered(), rendered({"autoscaling": {"enabled": False}})
    spec = one(scaled, "HorizontalPodAutoscaler")["spec"]

    assert (spec["minReplicas"], spec["maxReplicas"]) == (2, 6)
    assert spec["metrics"][0]["resource"] == {
        "name": "cpu",
        "target": {"type": "Utilization", "averageUtilization": 70},
    }
    assert "replicas" not in one(scaled, "Deployment")["spec"], "each upgrade would undo what the autoscaler did"
    assert one(fixed, "Deployment")["spec"]["replicas"] == 2
    assert of_kind(fixed, "HorizontalPodAutoscaler") == []


def test_nodes_are_drained_zones_spread_over_and_admissions_never_throttled() -> None:
    objects = rendered()
    spread = {
        (constraint["topologyKey"], constraint["whenUnsatisfiable"])
        for constraint in pod_spec(objects)["topologySpreadConstraints"]
    }
    budget = one(objects, "PodDisruptionBudget")["spec"]

    assert (budget["maxUnavailable"], budget["unhealthyPodEvictionPolicy"]) == (1, "AlwaysAllow")
    assert spread == {(f"{key}", "ScheduleAnyway") for key in ("topology.kubernetes.io/zone", "kubernetes.io/hostname")}
    assert container(objects)["resources"]["limits"].keys() == {"memory"}
    assert pod_spec(objects)["priorityClassName"] == "system-cluster-critical"
    assert pod_spec(objects)["terminationGracePeriodSeconds"] == 45
    assert flags(objects)["--shutdown-delay"] == "5s"


def test_out_of_the_network_policy_goes_what_the_mode_needs() -> None:
    policies = {
        mode: one(rendered({"networkPolicy": {"enabled": True}, "tls": {"mode": mode}, **DEMO}), "NetworkPolicy")[
            "spec"
        ]
        for mode in ("files", "self-signed")
    }
    outward = {(port["port"], port["protocol"]) for port in policies["self-signed"]["egress"][0]["ports"]}

    assert policies["files"]["egress"] == []
    assert outward == {(53, "UDP"), (53, "TCP"), (443, "TCP"), (6443, "TCP")}
    webhook, operations = policies["files"]["ingress"]
    assert webhook == {"ports": [{"port": "webhook", "protocol": "TCP"}]}, "the API server has no address of a pod"
    assert operations["from"][0] == {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}
    }
    assert of_kind(rendered(), "NetworkPolicy") == []
    says = "The NetworkPolicy of the chart admits every client to this port, because an API server is not a pod"
    assert says in (ROOT / "SECURITY.md").read_text(), "the page and the first rule of the policy agree"


def test_spans_go_to_the_collector_through_the_network_policy() -> None:
    values = {"networkPolicy": {"enabled": True}, "tls": {"mode": "files"}, **DEMO}
    objects = rendered({**values, "tracing": {"endpoint": "http://collector.obs:4318", "ratio": 0.1}})
    plain = rendered({**values, "tracing": {"endpoint": "https://collector.obs/otlp"}})

    assert {variable["name"]: variable["value"] for variable in container(objects)["env"]} == {
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector.obs:4318",
        "OTEL_TRACES_SAMPLER": "parentbased_traceidratio",
        "OTEL_TRACES_SAMPLER_ARG": "0.1",
    }
    ports = [
        [port["port"] for port in one(manifests, "NetworkPolicy")["spec"]["egress"][0]["ports"]]
        for manifests in (objects, plain)
    ]
    assert ports == [[53, 53, 4318], [53, 53, 443]]


SWITCHES: dict[str, tuple[Any, ...]] = {
    "fromCluster.enabled": (None, True, False),
    "revisions": ({}, REVISIONS),
    "tls.mode": ("self-signed", "cert-manager", "files"),
    "tls.patchWebhooks": (True, False),
    "watchUnserved": (False, True),
    "apiServerClient.configMap": ("", "ca"),
}
"""The values that add or remove an argument of the container; a test checks that there are no others."""


def with_values(entries: Iterable[tuple[str, Any]]) -> Object:
    """The values with each of these at its path."""
    values: Object = {}
    for path, value in entries:
        *folders, name = path.split(".")
        at = values
        for folder in folders:
            at = at.setdefault(folder, {})
        at[name] = value
    return values


def deployments(folder: Path, many: list[Object]) -> list[Object]:
    """The Deployment for each of many values. One run of Helm renders a chart that has this one as a dependency for each of them."""
    names = [f"values{index}" for index in range(len(many))]
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    dependencies = [{"name": chart["name"], "version": chart["version"], "alias": name} for name in names]
    shutil.copytree(CHART, folder / "charts" / "injector")
    whole = {"apiVersion": "v2", "name": "whole", "version": "0.1.0", "dependencies": dependencies}
    (folder / "Chart.yaml").write_text(json.dumps(whole))
    (folder / "values.yaml").write_text(json.dumps(dict(zip(names, many, strict=True))))
    only = [f"--show-only=charts/{name}/templates/deployment.yaml" for name in names]
    done = helm("template", RELEASE, str(folder), f"--namespace={NAMESPACE}", *only, folder=folder)
    assert done.returncode == 0, done.stderr
    by_chart = {
        deployment["metadata"]["labels"]["helm.sh/chart"]: deployment
        for deployment in of_kind(documents(done.stdout), "Deployment")
    }
    return [by_chart[f"{name}-{chart['version']}"] for name in names]


def test_the_real_parser_takes_the_arguments_of_every_combination_of_values(tmp_path: Path) -> None:
    serve = main.get_command(click.Context(main), "serve")
    assert serve is not None
    others = [("logFormat", "text"), ("apiServerClient.names", ["kube-apiserver"])]
    many = [
        with_values([*zip(SWITCHES, switches, strict=True), *(others if index % 2 else ())])
        for index, switches in enumerate(itertools.product(*SWITCHES.values()))
        if switches[:2] != (False, {})  # no source of revisions
    ]
    tried = {tuple(container([deployment])["args"][1:]) for deployment in deployments(tmp_path, many)}
    for arguments in tried:
        Settings(**serve.make_context("serve", list(arguments)).params).check()
    assert len(tried) == 36


def leaves(properties: Object, at: str = "") -> Iterator[tuple[str, Object]]:
    """The values of the schema that hold no others."""
    for name, declaration in properties.items():
        if declaration.get("additionalProperties") is False and "properties" in declaration:
            yield from leaves(declaration["properties"], f"{at}{name}.")
        else:
            yield f"{at}{name}", declaration


def test_no_other_switch_of_the_schema_changes_the_flags(tmp_path: Path) -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    others = [
        (path, value)
        for path, declaration in leaves(schema["properties"])
        if path not in (*SWITCHES, "demo.enabled", "upgrades.enabled", "watchDrift")
        for value in ([True, False] if declaration.get("type") == "boolean" else declaration.get("enum", []))
    ]
    changed = deployments(tmp_path, [with_values([other]) for other in others])

    assert len(changed) > len(SWITCHES)
    plain = flags(rendered()).keys()
    assert [
        other for other, deployment in zip(others, changed, strict=True) if flags([deployment]).keys() != plain
    ] == []


def test_the_values_that_other_charts_have_reach_the_pod() -> None:
    volume, mount = {"name": "a", "emptyDir": {}}, {"name": "a", "mountPath": "/a"}
    values: Object = {
        "global": {"imageRegistry": "registry.example.com"},
        "commonLabels": {"team": "mesh"},
        "extraEnv": [{"name": "A", "value": "b"}],
        "extraVolumes": [volume],
        "extraVolumeMounts": [mount],
        "hostNetwork": True,
        "containerPorts": {"webhook": 15017, "ops": 15014},
        "strategy": {"type": "Recreate"},
        "topologySpreadConstraints": [],
        "securityContext": {"runAsUser": 1},
        "podSecurityContext": {"fsGroup": None},
        "probes": {"readiness": {"periodSeconds": 9}},
        "autoscaling": {"behavior": {"scaleDown": {"stabilizationWindowSeconds": 60}}},
        "monitoring": {"serviceMonitor": {"enabled": True, "relabelings": [{"action": "drop"}]}},
        "enabled": True,
        "revisionHistoryLimit": 1,
        "deploymentAnnotations": {"a": "b"},
        "runtimeClassName": "gvisor",
        "extraContainers": [{"name": "b"}],
        "extraObjects": [
            {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "labels": {"team": "mesh"}}}
        ],
        "service": {"ipFamilyPolicy": "PreferDualStack", "ipFamilies": ["IPv6", "IPv4"]},
    }

    objects = rendered(values)
    pod, own = pod_spec(objects), container(objects)

    assert own["image"] == "registry.example.com/revision-injector:1.0.0"
    assert all(obj["metadata"]["labels"]["team"] == "mesh" for obj in objects)
    assert (own["env"], own["volumeMounts"], pod["volumes"]) == (values["extraEnv"], [mount], [volume])
    assert (pod["hostNetwork"], pod["dnsPolicy"]) == (True, "ClusterFirstWithHostNet")
    assert (flags(objects)["--port"], [port["containerPort"] for port in own["ports"]]) == ("15017", [15017, 15014])
    assert one(objects, "Deployment")["spec"]["strategy"] == {"type": "Recreate"}
    assert pod["topologySpreadConstraints"] == []
    assert own["securityContext"]["runAsUser"] == 1
    assert own["securityContext"]["readOnlyRootFilesystem"] is True
    assert own["readinessProbe"] == {"httpGet": {"path": "/readyz", "port": "ops"}, "periodSeconds": 9}
    assert one(objects, "HorizontalPodAutoscaler")["spec"]["behavior"] == values["autoscaling"]["behavior"]
    assert one(objects, "ServiceMonitor")["spec"]["endpoints"][0]["relabelings"] == [{"action": "drop"}]
    assert one(objects, "Deployment")["spec"]["revisionHistoryLimit"] == 1
    assert one(objects, "Deployment")["metadata"]["annotations"] == {"a": "b"}
    assert (pod["runtimeClassName"], pod["containers"][1:]) == ("gvisor", [{"name": "b"}])
    assert one(objects, "ResourceQuota") == values["extraObjects"][0]
    service = one(objects, "Service")["spec"]
    assert {name: service[name] for name in values["service"]} == values["service"]


def test_webhooks_have_further_annotations_and_match_conditions() -> None:
    condition = {"name": "only-dev", "expression": "request.namespace.startsWith('dev')"}
    values: Object = {
        "webhookAnnotations": {"admissions.enforcer/disabled": "true"},
        "matchConditions": [condition],
        "webhooks": [{"revision": "1-24"}],
    }

    webhook = one(rendered(values), "MutatingWebhookConfiguration")
    managed = one(rendered({**values, "tls": {"mode": "cert-manager"}}), "MutatingWebhookConfiguration")

    assert webhook["metadata"]["annotations"] == values["webhookAnnotations"]
    assert [hook["matchConditions"][-1] for hook in webhook["webhooks"]] == [condition] * len(webhook["webhooks"])
    assert managed["metadata"]["annotations"].keys() == {
        "admissions.enforcer/disabled",
        "cert-manager.io/inject-ca-from",
    }


def test_the_comparison_with_other_charts_names_values_of_this_one_in_every_row() -> None:
    text = (
        (CHART.parent / "README.md")
        .read_text()
        .partition("## Compared with other webhook charts")[2]
        .partition("## Values")[0]
    )
    own = [line.split("|")[-2] for line in text.splitlines() if line.startswith("| ")][1:]

    for cell in own:
        names = [name for name in re.findall(r"`([a-zA-Z.]+)`", cell) if name != "[]"]
        assert names, cell
        for name in names:
            schema = json.loads((CHART / "values.schema.json").read_text())
            for part in name.split("."):
                assert part in schema["properties"], name
                schema = schema["properties"][part]


def test_the_image_can_be_held_to_a_digest() -> None:
    digest = f"sha256:{'0' * 64}"
    image = {"repository": "registry.example.com/injector", "digest": digest}

    assert container(rendered({"image": image}))["image"] == f"registry.example.com/injector@{digest}"
    assert container(rendered())["image"] == "revision-injector:1.0.0"


def test_two_releases_of_one_name_have_objects_of_their_own_in_the_cluster() -> None:
    names = []
    for namespace in ("one", "two"):
        done = helm("template", "injector", str(CHART), f"--namespace={namespace}")
        kinds = ("ClusterRole", "ClusterRoleBinding")
        names.append(
            {
                document["metadata"]["name"]
                for document in yaml.safe_load_all(done.stdout)
                if document and document["kind"] in kinds
            }
        )

    assert names[0].isdisjoint(names[1])


def test_the_chart_has_the_version_of_the_package() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    assert (chart["name"], chart["appVersion"]) == (project["name"], project["version"])
