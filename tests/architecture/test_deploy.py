"""The manifests of deploy/ fit the injector: its flags, ports, paths, files, and the restricted security standard."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from click import Context

from injector.cli import main
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
