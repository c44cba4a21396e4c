"""The manifests of deploy/ fit the injector: its flags, ports, paths, files, and the restricted security standard."""

from __future__ import annotations

import shutil
import subprocess
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from click import Context

from injector.cli import main
from injector.cluster.resources import CONFIG_MAPS, NAMESPACES, NODES, WEBHOOKS
from injector.istio.webhooks import WebhookOptions, revision_webhook, tag_webhook
from injector.kube.selectors import Selector
from injector.webhook.path import parse_path

if TYPE_CHECKING:
    from click.core import Command

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
REVISIONS = ROOT / "revisions"
PLAIN = [path for path in sorted(DEPLOY.glob("*.yaml")) if path.name != "kustomization.yaml"]


def manifest(kind: str) -> dict[str, Any]:
    """The one object of ``kind`` in deploy/."""
    documents = [document for path in PLAIN for document in yaml.safe_load_all(path.read_text())]
    (found,) = [document for document in documents if document["kind"] == kind]
    assert isinstance(found, dict)
    return found


def pod_spec() -> dict[str, Any]:
    spec: dict[str, Any] = manifest("Deployment")["spec"]["template"]["spec"]
    return spec


def container() -> dict[str, Any]:
    (found,) = pod_spec()["containers"]
    assert isinstance(found, dict)
    return found


def flags() -> dict[str, str]:
    """The flags that the container is started with."""
    return dict(arg.split("=", 1) for arg in container()["args"][1:])


def command(name: str) -> Command:
    found = main.get_command(Context(main), name)
    assert found is not None
    return found


def test_the_kustomization_takes_every_manifest() -> None:
    taken = yaml.safe_load((DEPLOY / "kustomization.yaml").read_text())["resources"]

    assert sorted(taken) == ["../revisions", *(path.name for path in PLAIN)]


def test_each_revision_is_a_config_map_of_all_its_files() -> None:
    generated = yaml.safe_load((REVISIONS / "kustomization.yaml").read_text())["configMapGenerator"]

    assert {entry["name"]: sorted(entry["files"]) for entry in generated} == {
        f"injector-revision-{folder.name}": sorted(f"{folder.name}/{file.name}" for file in folder.iterdir())
        for folder in REVISIONS.iterdir()
        if folder.is_dir()
    }


def test_the_container_is_started_with_flags_that_exist() -> None:
    serve = command(container()["args"][0])

    assert [flag for flag in flags() if not any(flag in option.opts for option in serve.params)] == []


def test_the_probes_and_ports_are_those_that_it_listens_on() -> None:
    ports = {port["name"]: port["containerPort"] for port in container()["ports"]}
    served = {int(flags()["--port"]): "webhook", int(flags()["--ops-port"]): "ops"}
    probes = {probe: container()[probe]["httpGet"] for probe in ("startupProbe", "livenessProbe", "readinessProbe")}

    assert {number: name for name, number in ports.items()} == served
    assert {port["targetPort"] for port in manifest("Service")["spec"]["ports"]} == set(ports)
    assert probes == {
        "startupProbe": {"path": "/readyz", "port": "ops"},
        "livenessProbe": {"path": "/livez", "port": "ops"},
        "readinessProbe": {"path": "/readyz", "port": "ops"},
    }


def test_what_it_reads_is_mounted() -> None:
    mounts = {mount["name"]: Path(mount["mountPath"]) for mount in container()["volumeMounts"]}
    config_maps = {
        volume["name"]: volume["configMap"]["name"] for volume in pod_spec()["volumes"] if "configMap" in volume
    }
    folders = [folder.name for folder in REVISIONS.iterdir() if folder.is_dir()]

    assert {Path(flags()[flag]).parent for flag in ("--tlsCertFile", "--tlsKeyFile")} == {mounts["tls"]}
    assert {name: mounts[name] for name in folders} == {
        name: Path(flags()["--revisions-dir"]) / name for name in folders
    }
    assert config_maps == {name: f"injector-revision-{name}" for name in folders}


@pytest.mark.parametrize("webhook", manifest("MutatingWebhookConfiguration")["webhooks"], ids=lambda hook: hook["name"])
def test_each_webhook_asks_for_the_revision_that_is_mounted(webhook: dict[str, Any]) -> None:
    service, client = manifest("Service"), webhook["clientConfig"]["service"]

    assert (REVISIONS / parse_path(client["path"]).name / "config").exists()
    assert (client["namespace"], client["name"]) == (service["metadata"]["namespace"], service["metadata"]["name"])
    assert client["port"] in [port["port"] for port in service["spec"]["ports"]]


def test_no_webhook_selects_the_injector_itself_or_the_nodes_own_pods() -> None:
    own = manifest("Namespace")["metadata"]["name"]

    for webhook in manifest("MutatingWebhookConfiguration")["webhooks"]:
        left_out = webhook["namespaceSelector"]["matchExpressions"][0]
        assert (left_out["key"], left_out["operator"]) == ("kubernetes.io/metadata.name", "NotIn")
        assert {own, "kube-system", "kube-node-lease"} <= set(left_out["values"])


def test_the_pod_meets_the_restricted_pod_security_standard() -> None:
    own, whole = container()["securityContext"], pod_spec()["securityContext"]

    assert own == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert (whole["runAsNonRoot"], whole["seccompProfile"]) == (True, {"type": "RuntimeDefault"})
    assert {kind for volume in pod_spec()["volumes"] for kind in volume if kind != "name"} <= {"configMap", "secret"}
    assert pod_spec()["automountServiceAccountToken"] is False


def test_the_image_runs_as_the_user_of_the_deployment() -> None:
    user = pod_spec()["securityContext"]["runAsUser"]

    assert f"USER {user}:{user}" in (ROOT / "Dockerfile").read_text()


LABELS: dict[str, tuple[str | None, ...]] = {
    "istio-injection": (None, "enabled", "disabled"),
    "istio.io/rev": (None, "default", "stable", "canary", "prod"),
    "kubernetes.io/metadata.name": ("injector-system",),
}
"""What somebody may label the injector's own namespace with; None is no label."""


def written() -> list[dict[str, Any]]:
    """Every webhook that the project writes: of deploy/, and of all that `generate` prints."""
    configurations = [manifest("MutatingWebhookConfiguration")]
    for options in (WebhookOptions(), WebhookOptions(auto_inject=True)):
        configurations += [revision_webhook(name, options) for name in ("default", "stable", "canary")]
        configurations += [tag_webhook(name, "stable", options) for name in ("default", "prod")]
    return [webhook for configuration in configurations for webhook in configuration["webhooks"]]


def matched(webhook: dict[str, Any], namespace: dict[str, str], pod: dict[str, str]) -> bool:
    """Whether an API server sends the pod there."""
    selectors = (Selector.compile(webhook[key]) for key in ("namespaceSelector", "objectSelector"))
    return all(selector.matches(labels) for selector, labels in zip(selectors, (namespace, pod), strict=True))


def test_no_webhook_takes_the_injectors_own_pods_however_their_namespace_is_labelled() -> None:
    own = manifest("Deployment")["spec"]["template"]["metadata"]["labels"]
    others = {key: value for key, value in own.items() if key != "sidecar.istio.io/inject"}
    namespaces = [
        {key: value for key, value in zip(LABELS, values, strict=True) if value is not None}
        for values in product(*LABELS.values())
    ]

    taken = [
        (webhook["clientConfig"], namespace)
        for webhook in written()
        for namespace in namespaces
        if matched(webhook, namespace, own)
    ]

    assert taken == []
    # The same question about a pod of somebody else's has another answer, so it is not asked in vain.
    assert [webhook for webhook in written() for namespace in namespaces if matched(webhook, namespace, others)]


@pytest.mark.parametrize("namespace", ["injector-system", "kube-system", "kube-node-lease"])
def test_no_webhook_of_the_deployment_takes_a_pod_of_a_namespace_that_it_needs_itself(namespace: str) -> None:
    labels = [{"sidecar.istio.io/inject": "true"}, {"istio.io/rev": "default"}, {}]
    spaces = [{}, {"istio-injection": "enabled"}, {"istio.io/rev": "default"}]
    webhooks = manifest("MutatingWebhookConfiguration")["webhooks"]

    def asked(name: str) -> list[bool]:
        return [
            matched(webhook, {**space, "kubernetes.io/metadata.name": name}, pod)
            for webhook in webhooks
            for space in spaces
            for pod in labels
        ]

    assert (any(asked(namespace)), any(asked("shop"))) == (False, True)


COMPONENT = DEPLOY / "from-cluster"
READS = ["get", "list", "watch"]


def component(*names: str) -> list[dict[str, Any]]:
    """The objects of files of the component, or of all of them."""
    paths = [COMPONENT / name for name in names] or [*COMPONENT.glob("*.yaml")]
    return [document for path in paths for document in yaml.safe_load_all(path.read_text())]


def permissions(*names: str) -> set[tuple[str, str]]:
    """The resources that roles of the component let be read, with the kind of the role."""
    roles = [each for each in component(*names) if each["kind"] in ("Role", "ClusterRole")]
    assert all(rule["verbs"] == READS for role in roles for rule in role["rules"])
    return {(role["kind"], resource) for role in roles for rule in role["rules"] for resource in rule["resources"]}


def test_from_the_cluster_it_may_read_what_it_watches_and_write_nothing() -> None:
    watched = {CONFIG_MAPS: "Role", WEBHOOKS: "ClusterRole"}

    assert permissions("rbac.yaml") == {(kind, resource.plural) for resource, kind in watched.items()}
    assert permissions("nodes.yaml") == {("ClusterRole", NODES.plural)}
    assert permissions("namespaces.yaml") == {("ClusterRole", NAMESPACES.plural)}


def test_every_role_is_bound_to_the_account_that_the_pod_then_has() -> None:
    account = next(each["metadata"] for each in component() if each["kind"] == "ServiceAccount")
    bindings = [each for each in component() if each["kind"].endswith("Binding")]
    roles = [each for each in component() if each["kind"] in ("Role", "ClusterRole")]

    assert all(each["subjects"] == [{"kind": "ServiceAccount", **account}] for each in bindings)
    assert sorted(each["roleRef"]["name"] for each in bindings) == sorted(each["metadata"]["name"] for each in roles)
    patches = yaml.safe_load((COMPONENT / "kustomization.yaml").read_text())["patches"]
    changed = {each["path"].rpartition("/spec/")[2]: each["value"] for each in yaml.safe_load(patches[0]["patch"])}
    assert changed == {
        "serviceAccountName": account["name"],
        "automountServiceAccountToken": True,
        "containers/0/args/-": "--from-cluster",
    }
    assert any("--from-cluster" in option.opts for option in command("serve").params)


def test_the_component_is_named_where_one_adds_it() -> None:
    assert f"# components: [{COMPONENT.name}]" in (DEPLOY / "kustomization.yaml").read_text()


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
def test_with_the_component_the_manifests_are_still_one_kustomization(tmp_path: Path) -> None:
    for folder in (DEPLOY, REVISIONS):
        shutil.copytree(folder, tmp_path / folder.name)
    taken = tmp_path / "deploy" / "kustomization.yaml"
    taken.write_text(taken.read_text().replace("# components:", "components:"))
    (tmp_path / "deploy" / "tls").mkdir(exist_ok=True)
    for name in ("tls.crt", "tls.key", "ca.crt"):
        (tmp_path / "deploy" / "tls" / name).write_text("x")

    built = subprocess.run(
        ["kubectl", "kustomize", "deploy"], cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert built.returncode == 0, built.stderr
    kinds = {each["kind"]: each for each in yaml.safe_load_all(built.stdout)}
    spec = kinds["Deployment"]["spec"]["template"]["spec"]
    assert (spec["serviceAccountName"], spec["automountServiceAccountToken"]) == ("injector", True)
    assert spec["containers"][0]["args"][-1] == "--from-cluster"
    assert {"Role", "ClusterRole", "ServiceAccount"} <= set(kinds)
