"""Commands over several clusters: two real API servers at once, and one that does not answer.

With E2E_LONG=1, the second API server also makes traces, which the spans of the injector are part of. It then takes ten seconds longer
to end.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from injector.cli import main
from injector.istio.webhooks.configurations import WebhookOptions, revision_webhook, tag_webhook
from tests.architecture.serving import free_ports
from tests.e2e.cluster import Cluster, running
from tests.e2e.served import ROOT, Certificate, injector
from tests.e2e.webhooks import calling, written
from tests.factories import make_container
from tests.manifests import account_of, control_plane, make_object, namespace_of
from tests.webhook.otlp import collector

LONG = bool(os.environ.get("E2E_LONG"))
HOME = "istio-system"
CONTEXTS = ("--context", "east", "--context", "away", "--context", "west")
UPGRADE = {
    "apiVersion": "revision-injector.dev/v1alpha1",
    "kind": "Upgrade",
    "metadata": {"name": "next"},
    "spec": {"tag": "prod", "from": "1-24", "to": "1-30", "waves": [{"name": "all"}]},
}


@pytest.fixture(scope="module")
def west(built: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Another API server."""
    del built
    folder = tmp_path_factory.mktemp("west")
    config = {"apiVersion": "apiserver.config.k8s.io/v1beta1", "kind": "TracingConfiguration"}
    (folder / "tracing.json").write_text(json.dumps({**config, "samplingRatePerMillion": 1_000_000}))
    flags = f"--tracing-config-file={folder / 'tracing.json'}" if LONG else ""
    with running(Cluster(folder / "cluster", flags=flags)) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def kubeconfig(cluster: Cluster, west: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A kubeconfig with three contexts: two API servers with a workload each, and an address where none is."""
    labs = {"east": cluster, "west": west}
    for name, lab in labs.items():
        fill(lab, name)
    (port,) = free_ports(1)
    read = {name: yaml.safe_load(lab.kubeconfig.read_text()) for name, lab in labs.items()}
    away = {"server": f"https://127.0.0.1:{port}", "insecure-skip-tls-verify": True}
    merged = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            *({**config["clusters"][0], "name": name} for name, config in read.items()),
            {"name": "away", "cluster": away},
        ],
        "users": [{**config["users"][0], "name": name} for name, config in read.items()],
        "contexts": [
            {"name": name, "context": {"cluster": name, "user": name if name in labs else "east"}}
            for name in ("east", "west", "away")
        ],
    }
    path = tmp_path_factory.mktemp("clusters") / "config"
    path.write_text(yaml.safe_dump(merged))
    return path


def fill(cluster: Cluster, name: str) -> None:
    """Write two revisions, a tag, a Deployment and a pod without a sidecar, named after the cluster."""
    planes = (*control_plane(HOME, "1-24", tag="1.24.6"), *control_plane(HOME, "1-30", tag="1.30.1"))
    cluster.apply(namespace_of(HOME), namespace_of("shop", {"istio.io/rev": "prod"}), account_of("shop"), *planes)
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [make_container()]}}
    spec = {"selector": {"matchLabels": {"app": name}}, "template": template}
    pod = make_object("Pod", f"lone-{name}", "shop", spec={"containers": [make_container()]})
    # Before the webhooks, whose injector does not exist.
    cluster.apply(make_object("Deployment", f"web-{name}", "shop", spec=spec), pod)
    options = WebhookOptions(ca_bundle="")
    target = "1-24" if name == "east" else "1-30"
    cluster.apply(
        *(revision_webhook(revision, options) for revision in ("1-24", "1-30")), tag_webhook("prod", target, options)
    )


def run(kubeconfig: Path, *arguments: str, contexts: tuple[str, ...] = CONTEXTS) -> Result:
    """Run a command on the clusters; it must report the one that does not answer, and fail for it."""
    done = CliRunner().invoke(main, [*arguments, "--kubeconfig", str(kubeconfig), *contexts])
    if contexts is CONTEXTS:
        errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
        assert [line.startswith("error: away: ") for line in errors] == [True], done.output
        assert done.exit_code == 1
    return done


def data_of(kubeconfig: Path, *arguments: str) -> dict[str, dict[str, Any]]:
    """Return the JSON of a command by cluster."""
    clusters = json.loads(run(kubeconfig, *arguments, "-o", "json").stdout)["clusters"]
    answers = {answer.pop("cluster"): answer for answer in clusters}
    assert list(answers.pop("away")) == ["error"]
    assert list(answers) == ["east", "west"]
    return answers


def test_tags_of_all_clusters_are_one_table(kubeconfig: Path) -> None:
    assert [line.split() for line in run(kubeconfig, "tag", "list").stdout.splitlines()] == [
        ["CLUSTER", "TAG", "REVISION", "NAMESPACES"],
        ["east", "prod", "1-24", "shop"],
        ["west", "prod", "1-30", "shop"],
    ]
    assert data_of(kubeconfig, "tag", "list") == {
        name: {"tags": [{"tag": "prod", "revision": revision, "namespaces": ["shop"]}]}
        for name, revision in (("east", "1-24"), ("west", "1-30"))
    }


def test_the_status_of_all_clusters_is_one_table(kubeconfig: Path) -> None:
    table = run(kubeconfig, "revision", "status", "-n", "shop").stdout

    assert [line.split() for line in table.splitlines()] == [
        ["CLUSTER", "NAMESPACE", "WORKLOAD", "PODS", "HAS", "WOULD", "GET", "STATE"],
        ["east", "shop", "Pod/lone-east", "1", "-", "1-24", "missing", "sidecar"],
        ["west", "shop", "Pod/lone-west", "1", "-", "1-30", "missing", "sidecar"],
        [],
        ["pods:", "2", "missing", "sidecar"],
    ]
    answers = data_of(kubeconfig, "revision", "status", "-n", "shop")
    assert [answer["pods"]["missing sidecar"] for answer in answers.values()] == [1, 1]


def test_the_differences_in_all_clusters_have_a_table_of_the_clusters(kubeconfig: Path) -> None:
    arguments = "diff", "1-24", "1-30", "--live", "-n", "shop", "--confirm", "0"
    text = run(kubeconfig, *arguments).stdout

    assert "cluster east\n\n2 image only: Deployment shop/web-east, Pod shop/lone-east\n" in text
    assert [line.split() for line in text.splitlines()[-3:]] == [
        ["CLUSTER", "WORKLOADS", "DIFFER", "REFUSED"],
        ["east", "2", "2", "0"],
        ["west", "2", "2", "0"],
    ]
    answers = data_of(kubeconfig, *arguments)
    assert [answer["workloads"][0]["name"] for answer in answers.values()] == ["web-east", "web-west"]


def test_the_plan_of_an_upgrade_is_made_for_each_cluster(kubeconfig: Path, tmp_path: Path) -> None:
    (tmp_path / "upgrade.yaml").write_text(yaml.safe_dump(UPGRADE))
    arguments = "upgrade", "plan", str(tmp_path / "upgrade.yaml"), "--confirm", "0"
    rows = [line.split()[:4] for line in run(kubeconfig, *arguments, "-o", "table").stdout.splitlines()]

    assert rows[0] == ["CLUSTER", "WAVE", "NAMESPACE", "WORKLOAD"]
    # A row whose workload is "-" is a note about the whole cluster: these depend on the version of the API server and on the two minors.
    assert {(row[0], row[3]) for row in rows[1:] if row[3] != "-"} == {
        (name, f"{kind}-{name}") for name in ("east", "west") for kind in ("Deployment/web", "Pod/lone")
    }
    answers = data_of(kubeconfig, *arguments)
    assert [plan["name"] for plan in answers.values()] == ["next", "next"]


def test_one_context_has_the_output_of_one_cluster(kubeconfig: Path) -> None:
    done = run(kubeconfig, "tag", "list", contexts=("--context", "west"))

    assert (done.exit_code, done.stdout.splitlines()[0].split()) == (0, ["TAG", "REVISION", "NAMESPACES"])
    failed = run(kubeconfig, "tag", "list", contexts=("--context", "away"))
    assert (failed.exit_code, failed.stdout, failed.stderr.count("error: ")) == (1, "", 1)


@pytest.mark.skipif(not LONG, reason="the API server takes ten seconds longer to end: set E2E_LONG=1")
def test_the_spans_of_a_request_are_part_of_the_trace_of_the_api_server(
    west: Cluster, trusted: Certificate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    west.apply(namespace_of("traced", {"istio.io/rev": "canary"}), account_of("traced"))
    pod = make_object("Pod", "web", "traced", spec={"containers": [make_container()]})
    with collector() as (url, received):
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
        # All spans are sent before it ends.
        with injector(tmp_path, *trusted.flags) as served:
            flags = "--revisions-dir", str(ROOT / "revisions")
            printed = written("webhook", *flags, port=served.port, trusted=trusted)
            webhooks = [item for item in printed if item["metadata"]["name"].endswith("-canary")]
            with calling(west, webhooks):
                served.until(lambda: "istio-proxy" in json.dumps(west.tried(pod)))

    spans = [
        span
        for export in received
        for resource in export.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]
    roots = [span for span in spans if span.name == "POST /inject"]
    assert roots
    assert all(span.parent_span_id for span in roots), "the API server sends traceparent"
    children = {span.name for span in spans if span.parent_span_id == roots[-1].span_id}
    assert {"wait", "inject"} <= children
