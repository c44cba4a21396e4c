"""``injector revision status``: pods and workloads of a cluster by revision."""

from __future__ import annotations

import asyncio
import json
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from injector.cli.revision import Row, rows_of
from injector.cluster.resources import RUNNING
from injector.fleet.clusterrevisions import NO_NODES
from injector.fleet.sources import RevisionSources
from injector.fleet.status import PodStatuses, SidecarStatus, sidecar_status
from injector.fleet.view import ClusterView, read_view
from injector.injection.pipeline import inject_pod
from injector.injection.result import Injected, RequestFacts
from injector.injection.tools.drift import CURRENT, OLDER_REVISION, OLDER_TEMPLATE, Drift
from injector.revisions.source import build
from tests.cases import cases
from tests.cli.clusters import (
    HOME,
    FakeKube,
    assert_fails,
    cluster,
    invoke,
    labelled,
    namespace,
    owned,
    reached,
    revision,
    tag,
    with_cpus,
    written,
)
from tests.factories import proxy_of
from tests.revisions.fakes import CONFIG, VALUES, make_raw, write_revision

REVISIONS = (*revision("1-24", "1.24.6"), *revision("1-30", "1.30.1"), tag("prod", "1-30"))


def injected(name: str, place: str, rev: str = "1-24", version: str = "1.24.6") -> dict[str, Any]:
    built = build(make_raw(rev, values=VALUES.replace("1.24.6", version)))
    answer = inject_pod(built, owned(name, place), RequestFacts(place))
    assert isinstance(answer, Injected)
    return {"apiVersion": "v1", "kind": "Pod", **answer.pod}


CURRENT_PODS = injected("web", "shop", "1-30", "1.30.1")
OLDER = injected("old", "shop")
SHOP = labelled("shop", "prod")


status = partial(invoke, "revision", "status")


def test_the_table_has_a_row_for_each_workload_and_drift_ends_with_1(tmp_path: Path) -> None:
    result = status(
        "-f", written(tmp_path, *REVISIONS, SHOP, CURRENT_PODS, OLDER, owned("bare", "shop") | {"kind": "Pod"})
    )

    assert (result.exit_code, result.stderr) == (1, f"note: {NO_NODES}\n")
    assert result.stdout == (
        "NAMESPACE   WORKLOAD          PODS   HAS    WOULD GET   STATE\n"
        "shop        Deployment/bare   1      -      1-30        missing sidecar\n"
        "shop        Deployment/old    1      1-24   1-30        older revision\n"
        "shop        Deployment/web    1      1-30   1-30        current\n"
        "\n"
        "pods: 1 current, 1 older revision, 1 missing sidecar\n"
    )


def test_pods_of_any_kind_of_workload_have_a_status(tmp_path: Path) -> None:
    rolled = owned("roll", "shop", labels={"pod-template-hash": "x", "rollouts-pod-template-hash": "abc"})
    pods = [rolled, owned("clone", "shop", kind="CloneSet"), owned("foo", "shop", kind="Foo")]

    result = status("-f", written(tmp_path, *REVISIONS, SHOP, *({**pod, "kind": "Pod"} for pod in pods)))

    assert [line.split()[1] for line in result.stdout.splitlines()[1:4]] == [
        "CloneSet/clone",
        "Foo/foo",
        "Rollout/roll",
    ]


def test_status_ends_with_0_if_all_pods_are_current(tmp_path: Path) -> None:
    assert status("-f", written(tmp_path, *REVISIONS, SHOP, CURRENT_PODS)).exit_code == 0
    assert status("-f", written(tmp_path, *REVISIONS, SHOP, OLDER), "--exit-code=false").exit_code == 0


def test_a_pod_that_its_namespace_no_longer_allows_is_refused(tmp_path: Path) -> None:
    labels = {"istio.io/rev": "prod", "pod-security.kubernetes.io/enforce": "restricted"}

    result = status("-f", written(tmp_path, *REVISIONS, namespace("shop", **labels), CURRENT_PODS))

    assert result.stdout.splitlines()[1].split()[-1] == "refused"


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_the_status_is_available_as_data(tmp_path: Path, output: str) -> None:
    result = status("-f", written(tmp_path, *REVISIONS, SHOP, OLDER), "-o", output)

    data = json.loads(result.stdout) if output == "json" else yaml.safe_load(result.stdout)
    old = {"namespace": "shop", "kind": "Deployment", "name": "old", "pods": 1}
    assert data["workloads"] == [{**old, "has": "1-24", "wouldGet": "1-30", "state": "older revision"}]
    assert data["pods"]["older revision"] == 1
    assert data["pods"]["current"] == 0


def test_revisions_can_come_from_a_folder(tmp_path: Path) -> None:
    write_revision(tmp_path / "r" / "1-30", make_raw().config, VALUES.replace("1.24.6", "1.30.2"))
    (tmp_path / "r" / "tags.yaml").write_text("prod: 1-30\n")

    result = status("-f", written(tmp_path, *REVISIONS, SHOP, CURRENT_PODS), "--revisions-dir", str(tmp_path / "r"))

    assert "older template" in result.stdout


def test_the_cluster_is_read_without_files(monkeypatch: pytest.MonkeyPatch) -> None:
    client = FakeKube(*REVISIONS, SHOP, labelled("other", "prod"), CURRENT_PODS, OLDER)
    reached(monkeypatch, client)

    assert status().exit_code == 1
    assert client.requests[-2] == f"list pods {RUNNING}"
    assert "Deployment/old" in status("-n", "shop").stdout
    assert client.requests[-2] == f"list pods in shop {RUNNING}"
    assert status("-n", "other").stdout == "no pod has a sidecar or would get one\n"


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_several_processes_find_what_one_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    pods = [
        {**pod, "metadata": {**pod["metadata"], "name": f"{pod['metadata'].get('name', 'web')}-{number}"}}
        for number in range(130)
        for pod in (CURRENT_PODS, OLDER, {**owned(f"bare-{number}", "shop"), "kind": "Pod"})
    ]
    reached(monkeypatch, FakeKube(*REVISIONS, SHOP, *pods))
    results = []
    for cpus in (1, 3):
        with_cpus(monkeypatch, cpus)
        results.append(status("-o", "json"))

    assert results[0].stdout == results[1].stdout
    assert len(json.loads(results[1].stdout)["workloads"]) == 132


def test_a_missing_permission_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    reached(monkeypatch, FakeKube(*REVISIONS, SHOP, forbidden=("pods",)))

    assert_fails(status(), 1, "list pods")


def test_unknown_facts_are_noted(tmp_path: Path) -> None:
    unread = revision("half", "1.30.1")[:1]

    result = status("-f", written(tmp_path, *REVISIONS[:2], *unread, injected("lost", "nowhere"), injected("free", "")))

    assert result.exit_code == 0
    notes = result.stderr.splitlines()
    assert notes[:3] == [
        "note: the files have no MutatingWebhookConfiguration: those that Istio has for the revisions and tags are assumed",
        "note: skipped namespace default: its labels are not known",
        "note: skipped namespace nowhere: its labels are not known",
    ]
    assert "a revision cannot be used: ConfigMap istio-system/istio-sidecar-injector-half" in notes[3]


def test_a_tag_that_cannot_be_used_is_noted(tmp_path: Path) -> None:
    two = [tag("prod", "1-24"), tag("prod", "1-30")]
    two[1]["metadata"]["name"] = "other"

    result = status("-f", written(tmp_path, *REVISIONS, *two, SHOP))

    assert "note: a tag cannot be used: tag `prod`: several MutatingWebhookConfigurations have it" in result.stderr


@pytest.mark.parametrize(
    ("objects", "arguments", "code", "says"),
    [
        ((), (), 65, "the files have no object"),
        ((SHOP,), (), 78, "no source of revisions is configured; give Istio's ConfigMaps in FILES"),
        (REVISIONS, ("-n", "nope"), 65, "Namespace nope not found"),
        (
            REVISIONS,
            ("-o", "wide"),
            64,
            "'wide' is not an output format of this command; give one of table, json, yaml",
        ),
        ((*REVISIONS, SHOP, {**OLDER, "spec": {"containers": "x"}}), (), 65, "Pod shop/old-abc-1: "),
        ((*REVISIONS, SHOP, {**OLDER, "spec": "x"}), (), 65, "Pod old-abc-1: spec: not an object"),
    ],
)
def test_wrong_flags_are_64_and_bad_input_is_65(
    tmp_path: Path, objects: tuple[dict[str, Any], ...], arguments: tuple[str, ...], code: int, says: str
) -> None:
    assert_fails(status("-f", written(tmp_path, *objects), *arguments), code, says)


INJECT = "sidecar.istio.io/inject"
OFF = CONFIG.replace("enabled", "disabled")
OBJECTS = (
    *revision("1-24", "1.24.6"),
    *revision("1-30", "1.30.1"),
    *revision("off", "1.30.1", config=OFF),
    *revision("broken", "1.30.1", config="templates: {sidecar: '{{ .x'}"),
    tag("prod", "1-24"),
    *(labelled(name, name) for name in ("prod", "1-24", "1-30", "off", "broken", "gone")),
    namespace("none"),
)


@pytest.fixture(scope="module")
def around() -> ClusterView:
    return asyncio.run(read_view(cluster(*OBJECTS), RevisionSources(None, HOME), None))


def injected_pods(around: ClusterView, name: str, place: str, **meta: Any) -> dict[str, Any]:
    """A running pod with the sidecar of a revision."""
    answer = inject_pod(around.built.revisions[name], owned("web", place, **meta), RequestFacts(place))
    assert isinstance(answer, Injected)
    return deepcopy(answer.pod)  # what a revision rendered is remembered, and not to be changed


@cases("has", "place", "gets", "state")
def test_the_status_compares_the_sidecar_with_the_requested_revision(
    around: ClusterView, has: str | None, place: str, gets: str | None, state: str
) -> None:
    pod = owned("web", place) if has is None else injected_pods(around, has, place)

    assert sidecar_status(pod, around) == SidecarStatus((place, "Deployment", "web"), has, gets, Drift(state))


@pytest.mark.parametrize("place", ["none", "off"])
def test_a_pod_without_a_sidecar_now_and_later_has_no_status(around: ClusterView, place: str) -> None:
    assert sidecar_status(owned("web", place), around) is None


@pytest.mark.parametrize(
    "changed", [{"status": {"phase": "Succeeded"}}, {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}]
)
def test_a_pod_that_has_ended_is_left_out(around: ClusterView, changed: dict[str, Any]) -> None:
    pod = owned("web", "1-30")
    meta = {**pod["metadata"], **changed.get("metadata", {})}

    assert PodStatuses(around).of(json.dumps(pod).encode()) is not None
    assert PodStatuses(around).of(json.dumps({**pod, **changed, "metadata": meta}).encode()) is None


def test_an_older_template_shows_the_kinds_of_changes(around: ClusterView) -> None:
    pod = injected_pods(around, "1-24", "prod")
    proxy_of(pod)["image"] = "proxy:1.24.5"

    status = sidecar_status(pod, around)

    assert status is not None
    assert status.drift == Drift(OLDER_TEMPLATE, ("image",))


def test_the_refusal_of_a_pod_is_explained(around: ClusterView) -> None:
    pod = owned("web", "1-30", annotations={"sidecar.istio.io/proxyCPU": "odd!"})

    status = sidecar_status(pod, around)

    assert status == SidecarStatus(("1-30", "Deployment", "web"), None, "1-30", Drift("refused"))


def test_a_pod_that_cannot_be_restored_is_compared_by_revision_only(around: ClusterView) -> None:
    def broken(place: str) -> dict[str, Any]:
        pod = injected_pods(around, "1-24", place)
        proxy_of(pod).update({"image": "x", "env": [{"name": "ISTIO_KUBE_APP_PROBERS", "value": "{"}]})
        return pod

    statuses = [sidecar_status(broken(place), around) for place in ("1-24", "1-30")]

    assert [status.drift.state for status in statuses if status is not None] == [CURRENT, OLDER_REVISION]


def test_the_label_of_an_old_injection_requests_nothing(around: ClusterView) -> None:
    status = {"containers": ["istio-proxy"], "initContainers": None, "volumes": None, "imagePullSecrets": None}
    pod = injected_pods(around, "1-24", "none", labels={"istio.io/rev": "1-24"})
    newer = sidecar_status(pod, around)
    pod["metadata"]["annotations"]["sidecar.istio.io/status"] = json.dumps(status)
    older = sidecar_status(pod, around)

    assert [drifted.drift.state for drifted in (newer, older) if drifted is not None] == [
        "current",
        "unexpected sidecar",
    ]


def replica(pod: dict[str, Any], suffix: str) -> bytes:
    """A pod of a ReplicaSet as the API server lists it: it mounts the token of its service account, and runs."""
    token = f"kube-api-access-{suffix}"
    mount = {"name": token, "readOnly": True, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}
    spec = deepcopy(pod["spec"])
    spec["volumes"] = [*spec.get("volumes", ()), {"name": token, "projected": {"sources": []}}]
    for container in spec["containers"]:
        container["volumeMounts"] = [*container.get("volumeMounts", ()), mount]
    running = {"status": {"phase": "Running", "hostIP": suffix}, "spec": {**spec, "nodeName": f"node-{suffix}"}}
    metadata = {**pod["metadata"], "name": f"web-{suffix}", "uid": suffix, "managedFields": [{"time": suffix}]}
    return json.dumps({"metadata": metadata, **running}, separators=(",", ":")).encode()


@pytest.mark.parametrize("name", ["1-24", "1-30"])
def test_the_status_of_replicas_is_computed_once(around: ClusterView, name: str) -> None:
    pod = injected_pods(around, name, "prod")
    other = deepcopy(pod)
    proxy_of(other)["image"] = "proxy:1.24.5"
    texts = [replica(variant, suffix) for suffix in ("bcdfg", "22222", "xxxxx") for variant in (pod, other)]
    statuses = PodStatuses(around)

    assert [statuses.of(text) for text in texts] == [sidecar_status(json.loads(text), around) for text in texts]
    assert len(statuses.computed) == 2
    assert statuses.computed.hits == 4


def standing(name: str, has: str, drift: Drift) -> SidecarStatus:
    return SidecarStatus(("shop", "Deployment", name), has, "1-30", drift)


def test_pods_with_the_same_status_are_one_row() -> None:
    current, older = standing("b", "1-30", Drift(CURRENT)), standing("b", "1-24", Drift(OLDER_REVISION))
    template = standing("a", "1-30", Drift(OLDER_TEMPLATE, ("image", "env")))

    rows = rows_of([older, current, template, current])

    assert rows == [Row(template, 1), Row(current, 2), Row(older, 1)]
    assert rows[1].cells == ("shop", "Deployment/b", "2", "1-30", "1-30", "current")
    row = {"namespace": "shop", "kind": "Deployment", "name": "a", "pods": 1, "has": "1-30", "wouldGet": "1-30"}
    assert rows[0].data == {**row, "state": "older template", "changes": ["image", "env"]}


def test_a_hostile_name_neither_moves_the_terminal_nor_fills_it() -> None:
    row = Row(SidecarStatus(("s", "Pod", "p"), "\x1b[2J" + "x" * 500, None, Drift(CURRENT)), 1)

    assert row.cells[3].startswith('"\\u001b[2Jx')
    assert len(row.cells[3]) < 120
