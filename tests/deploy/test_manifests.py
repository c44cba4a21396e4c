"""The kustomizations of deploy/ are the chart's, and fit the injector: its flags, ports, paths, files and permissions."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from click import Context
from click.core import Command

from injector.cli import main
from injector.cluster.resources import CONFIG_MAPS, NODES, PROXY_CONFIGS, WEBHOOKS
from injector.revisions.names import parse_path
from tests.deploy.rendering import (
    BASES,
    CHART,
    DEPLOY,
    NAMESPACE,
    RELEASE,
    ROOT,
    Object,
    base,
    container,
    documents,
    flags,
    helm,
    of_kind,
    one,
    pod_spec,
)

REVISIONS = ROOT / "revisions"
NAMES = sorted(folder.name for folder in BASES.iterdir() if folder.is_dir())
every_base = pytest.mark.parametrize("name", NAMES)
needs_kubectl = pytest.mark.needs("kubectl")


def command(name: str) -> Command:
    subcommand = main.get_command(Context(main), name)
    assert subcommand is not None
    return subcommand


def folders() -> list[str]:
    return sorted(folder.name for folder in REVISIONS.iterdir() if folder.is_dir())


def kustomized(folder: Path) -> list[Object]:
    done = subprocess.run(["kubectl", "kustomize", str(folder)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return documents(done.stdout)


@pytest.fixture
def own_deploy(tmp_path: Path) -> Path:
    """A copy of deploy/ with a certificate's files, which are never committed."""
    for folder in (DEPLOY, REVISIONS):
        shutil.copytree(folder, tmp_path / folder.name)
    (tmp_path / "deploy" / "tls").mkdir(exist_ok=True)
    for name in ("tls.crt", "tls.key", "ca.crt"):
        (tmp_path / "deploy" / "tls" / name).write_text("x")
    return tmp_path / "deploy"


def test_a_certificate_that_openssl_does_not_make_is_an_error_with_its_words(own_deploy: Path, tmp_path: Path) -> None:
    (tmp_path / "openssl").write_text("#!/bin/sh\necho 'unknown option -CA' >&2\nexit 1\n")
    (tmp_path / "openssl").chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}

    done = subprocess.run([own_deploy / "certificate"], env=environment, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "unknown option -CA\nerror: openssl failed; version 3 or later is required\n"


def test_the_bases_are_those_that_the_documents_name() -> None:
    assert NAMES == ["cert-manager", "default", "demo", "files", "ha"]


@every_base
def test_each_base_is_what_the_chart_renders(name: str) -> None:
    values = BASES / name / "values.yaml"
    done = helm("template", RELEASE, str(CHART), f"--namespace={NAMESPACE}", f"--values={values}", "--no-hooks")

    assert done.returncode == 0, done.stderr
    comment, _, manifests = (BASES / name / "manifests.yaml").read_text().partition("\n")
    assert comment.startswith("# Rendered by scripts/kustomize")
    assert manifests == done.stdout, "run scripts/renderings"


@needs_kubectl
def test_each_base_is_a_kustomization_of_all_its_objects() -> None:
    for name in NAMES:
        built = kustomized(BASES / name)

        assert sorted((obj["kind"], obj["metadata"]["name"]) for obj in built) == sorted(
            (obj["kind"], obj["metadata"]["name"]) for obj in base(name)
        )


@every_base
def test_the_container_is_started_with_flags_that_exist(name: str) -> None:
    serve = command(container(base(name))["args"][0])

    unknown = {flag for flag in flags(base(name)) if not any(flag in option.opts for option in serve.params)}

    assert unknown == set()


@every_base
def test_the_probes_and_ports_are_those_that_it_listens_on(name: str) -> None:
    objects = base(name)
    ports = {port["name"]: port["containerPort"] for port in container(objects)["ports"]}
    served = {int(flags(objects)["--port"]): "webhook", int(flags(objects)["--ops-port"]): "ops"}
    probes = {
        probe: container(objects)[probe]["httpGet"] for probe in ("startupProbe", "livenessProbe", "readinessProbe")
    }

    assert {number: port for port, number in ports.items()} == served
    assert {port["targetPort"] for port in one(objects, "Service")["spec"]["ports"]} == set(ports)
    assert probes == {
        "startupProbe": {"path": "/livez", "port": "ops"},
        "livenessProbe": {"path": "/livez", "port": "ops"},
        "readinessProbe": {"path": "/readyz", "port": "ops"},
    }


@every_base
def test_the_service_and_the_disruption_budget_select_the_pods_and_no_others(name: str) -> None:
    objects = base(name)
    labels = one(objects, "Deployment")["spec"]["template"]["metadata"]["labels"].items()

    for selector in (
        one(objects, "Service")["spec"]["selector"],
        one(objects, "PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
        one(objects, "Deployment")["spec"]["selector"]["matchLabels"],
        *(constraint["labelSelector"]["matchLabels"] for constraint in pod_spec(objects)["topologySpreadConstraints"]),
    ):
        assert selector.items() <= labels
        assert selector["app.kubernetes.io/component"] == "webhook", "or it selects the pod of `helm test` too"


@every_base
def test_every_pod_keeps_the_injectors_own_label_that_no_webhook_selects(name: str) -> None:
    labels = one(base(name), "Deployment")["spec"]["template"]["metadata"]["labels"]

    assert labels["sidecar.istio.io/inject"] == "false"


def webhooks() -> Iterator[tuple[str, Object]]:
    for name in NAMES:
        for configuration in of_kind(base(name), "MutatingWebhookConfiguration"):
            for webhook in configuration["webhooks"]:
                yield name, webhook


def test_each_webhook_asks_for_a_revision_that_is_served() -> None:
    tags = yaml.safe_load(one_config_map("files", "injector-revisions")["data"]["tags.yaml"])
    served = {"files": {*folders(), *tags}, "demo": {*folders()}}
    asked_for = set()

    for name, webhook in webhooks():
        service, client = one(base(name), "Service"), webhook["clientConfig"]["service"]
        assert parse_path(client["path"]).name in served[name]
        assert (client["namespace"], client["name"]) == (NAMESPACE, service["metadata"]["name"])
        assert client["port"] in [port["port"] for port in service["spec"]["ports"]]
        asked_for.add(name)
    assert asked_for == set(served), "the other bases leave their webhooks to `injector webhook apply`"


def test_no_webhook_is_called_for_the_injectors_namespace_or_those_of_the_nodes() -> None:
    for _, webhook in webhooks():
        (namespaces, _) = (condition["expression"] for condition in webhook["matchConditions"])
        assert namespaces == f'!(request.namespace in ["{NAMESPACE}","kube-system","kube-node-lease"])'


def one_config_map(name: str, config_map: str) -> Object:
    (match,) = [obj for obj in of_kind(base(name), "ConfigMap") if obj["metadata"]["name"] == config_map]
    return match


def test_what_the_files_are_for_is_mounted(own_deploy: Path) -> None:
    generated = yaml.safe_load((REVISIONS / "kustomization.yaml").read_text())["configMapGenerator"]
    files = {entry["name"]: sorted(entry["files"]) for entry in generated}
    (revisions,) = [
        volume["projected"] for volume in pod_spec(base("files"))["volumes"] if volume["name"] == "revisions"
    ]
    mounted = {
        source["configMap"]["name"]: sorted(item["path"] for item in source["configMap"]["items"])
        for source in revisions["sources"]
    }

    assert files == {
        f"injector-revision-{folder}": sorted(f"{folder}/{file.name}" for file in (REVISIONS / folder).iterdir())
        for folder in folders()
    }
    for name, paths in files.items():
        assert set(paths) <= set(mounted[name])
    assert mounted["injector-revisions"] == sorted(["tags.yaml", *(f"{folder}/.keep" for folder in folders())])
    if shutil.which("kubectl") is not None:
        assert_the_generated_names_are_mounted(kustomized(own_deploy))


def assert_the_generated_names_are_mounted(objects: list[Object]) -> None:
    existing = {obj["metadata"]["name"] for kind in ("ConfigMap", "Secret") for obj in of_kind(objects, kind)}
    volumes = {volume["name"]: volume for volume in pod_spec(objects)["volumes"]}
    mounted = {source["configMap"]["name"] for source in volumes["revisions"]["projected"]["sources"]}

    assert {*mounted, volumes["tls"]["secret"]["secretName"]} == existing
    paths = {mount["name"]: mount["mountPath"] for mount in container(objects)["volumeMounts"]}
    by_name = flags(objects)
    assert {str(Path(by_name[flag]).parent) for flag in ("--tlsCertFile", "--tlsKeyFile")} == {paths["tls"]}
    assert by_name["--revisions-dir"] == paths["revisions"]


@needs_kubectl
def test_every_webhook_of_the_kustomization_from_files_has_the_ca_of_the_secret(own_deploy: Path) -> None:
    objects = kustomized(own_deploy)
    bundles = {
        webhook["clientConfig"]["caBundle"]
        for configuration in of_kind(objects, "MutatingWebhookConfiguration")
        for webhook in configuration["webhooks"]
    }

    assert bundles == {one(objects, "Secret")["data"]["ca.crt"]}


def rules(name: str) -> set[tuple[str, str, str]]:
    """What the roles of a base let be done: kind of the role, resource, verb."""
    return {
        (role["kind"], resource, verb)
        for kind in ("Role", "ClusterRole")
        for role in of_kind(base(name), kind)
        for rule in role["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


READS = ("get", "list", "watch")
SELF_SIGNED = {
    *(("Role", "secrets", verb) for verb in ("get", "update", "create")),
    *(("ClusterRole", WEBHOOKS.plural, verb) for verb in (*READS, "patch")),
}
FROM_CLUSTER = {
    *(("Role", CONFIG_MAPS.plural, verb) for verb in READS),
    *(("ClusterRole", resource.plural, verb) for resource in (NODES, PROXY_CONFIGS) for verb in READS),
}
WATCHES = {("ClusterRole", WEBHOOKS.plural, verb) for verb in READS}
ALLOWED = {
    "files": set(),
    "cert-manager": FROM_CLUSTER | WATCHES,
    "demo": SELF_SIGNED,
    **dict.fromkeys(("default", "ha"), SELF_SIGNED | FROM_CLUSTER),
}


@every_base
def test_it_may_do_what_it_does_and_no_more(name: str) -> None:
    assert rules(name) == ALLOWED[name]
    assert pod_spec(base(name))["automountServiceAccountToken"] is bool(ALLOWED[name])


@every_base
def test_every_role_is_bound_to_the_account_of_the_pod(name: str) -> None:
    objects = base(name)
    account = one(objects, "ServiceAccount")
    subject = {"kind": "ServiceAccount", "name": account["metadata"]["name"], "namespace": NAMESPACE}
    bindings = [obj for obj in objects if obj["kind"].endswith("Binding")]
    roles = [obj for obj in objects if obj["kind"] in ("Role", "ClusterRole")]

    assert all(binding["subjects"] == [subject] for binding in bindings)
    assert sorted((binding["roleRef"]["kind"], binding["roleRef"]["name"]) for binding in bindings) == sorted(
        (role["kind"], role["metadata"]["name"]) for role in roles
    )
    assert pod_spec(objects)["serviceAccountName"] == account["metadata"]["name"]
    assert account["automountServiceAccountToken"] is False, "a pod that is made by hand gets no token by itself"


@every_base
def test_the_image_runs_as_the_user_of_the_deployment(name: str) -> None:
    user = pod_spec(base(name))["securityContext"]["runAsUser"]

    assert f"USER {user}:{user}" in (ROOT / "Dockerfile").read_text()


@every_base
def test_the_container_is_nobody_and_writes_nothing(name: str) -> None:
    pod = pod_spec(base(name))
    (container,) = pod["containers"]

    assert pod["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert [volume for volume in pod.get("volumes", ()) if "emptyDir" in volume or "hostPath" in volume] == []
    assert all(mount.get("readOnly") is True for mount in container.get("volumeMounts", ()))
