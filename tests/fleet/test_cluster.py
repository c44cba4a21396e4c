"""A cluster from files or from the API server: its objects, revisions and webhooks, its workloads, and the processes that divide them."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from injector.cluster.client import KubeClient
from injector.cluster.kubeconfig import Kubeconfig
from injector.cluster.resources import (
    CONFIG_MAPS,
    CRON_JOBS,
    DEPLOYMENTS,
    NAMESPACES,
    PODS,
    RUNNING,
    STATEFUL_SETS,
    ObjectReader,
    Resource,
    Scope,
)
from injector.cluster.session import open_session, run_for_result
from injector.errors import ClusterError, DataError, ManifestError, NotConfiguredError, UsageError
from injector.fleet.files import open_reader, read_objects
from injector.fleet.processes import in_processes
from injector.fleet.sources import RevisionSources
from injector.fleet.view import read_revisions, read_view
from injector.fleet.workloads import WorkloadName, list_workloads, parse_target, read_target, read_targets
from injector.golang.json import dump_json
from injector.injection.tools.podchanges import ABSENT
from injector.istio.labels import INJECT_LABEL, NAME_LABEL
from injector.kube.pods import has_ended
from injector.kube.podtemplates import OTHER_KINDS
from tests.cases import cases
from tests.cli.clusters import HOME, FakeKube, cluster, deployment, labelled, owned, reached, revision, tag, with_cpus
from tests.cluster.fakeapi import Direct
from tests.cluster.fakes import failure
from tests.factories import make_container, make_pod, owner_of
from tests.revisions.fakes import write_revision

PODS_HERE = [make_pod("a", namespace="shop"), make_pod("b", namespace="other", labels={"app": "x"})]
SHOP = labelled("shop", "prod")


def names(reader: ObjectReader, scope: Scope) -> list[str]:
    return asyncio.run(_names(reader, scope))


async def _names(reader: ObjectReader, scope: Scope) -> list[str]:
    return await reader.all(scope, lambda item: item["metadata"]["name"])


@pytest.mark.parametrize(
    ("scope", "expected"),
    [
        (Scope(PODS), ["a", "b"]),
        (Scope(PODS, "shop"), ["a"]),
        (Scope(PODS, labels="app"), ["b"]),
        (Scope(PODS, labels="app=x"), ["b"]),
        (Scope(PODS, labels="app=y"), []),
        (Scope(NAMESPACES), ["shop"]),
        (Scope(CONFIG_MAPS), []),
    ],
)
def test_a_scope_is_read_as_of_a_cluster(scope: Scope, expected: list[str]) -> None:
    assert names(cluster(*PODS_HERE, SHOP), scope) == expected


def test_objects_can_be_dropped() -> None:
    assert asyncio.run(cluster(*PODS_HERE).all(Scope(PODS), lambda _: None)) == []


@pytest.mark.parametrize(
    ("resource", "name", "place", "says"),
    [
        (PODS, "a", "other", "memory: Pod other/a not found; add it to the files, or name another"),
        (NAMESPACES, "x", "", "memory: Namespace x not found; add it to the files, or name another"),
    ],
)
def test_one_object_is_found_by_name(resource: Resource, name: str, place: str, says: str) -> None:
    reader = cluster(*PODS_HERE, SHOP)

    assert asyncio.run(reader.get(PODS, "a", namespace="shop")) == PODS_HERE[0]
    with pytest.raises(ManifestError) as caught:
        asyncio.run(reader.get(resource, name, namespace=place))
    assert str(caught.value) == says


def as_list(kind: str, *items: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "items": list(items)}


@pytest.mark.parametrize(
    "text",
    [
        yaml.safe_dump_all([*PODS_HERE, SHOP]),
        yaml.safe_dump(as_list("List", *PODS_HERE, SHOP)),
        json.dumps(as_list("List", *PODS_HERE, SHOP)),
        "\n---\n".join(map(json.dumps, [*PODS_HERE, SHOP])),
        yaml.safe_dump(as_list("List", *PODS_HERE, SHOP), default_flow_style=True),
        "---\n" + yaml.safe_dump(as_list("List", as_list("List", *PODS_HERE), SHOP)),
        "text\n---\n" + yaml.safe_dump_all([SHOP, *PODS_HERE]),
    ],
    ids=[
        "documents",
        "a List",
        "JSON",
        "documents in JSON",
        "flow style",
        "a List in a List",
        "with a document that is not an object",
    ],
)
def test_objects_are_read_from_a_file(text: str, tmp_path: Path) -> None:
    (tmp_path / "all").write_text(text)
    reader = read_objects([str(tmp_path / "all")], recursive=False)

    assert (names(reader, Scope(PODS)), names(reader, Scope(NAMESPACES))) == (["a", "b"], ["shop"])


def test_the_items_of_a_pod_list_are_pods(tmp_path: Path) -> None:
    bare = [{key: pod[key] for key in ("metadata", "spec")} for pod in PODS_HERE]
    (tmp_path / "pods.json").write_text(json.dumps(as_list("PodList", *bare)))

    assert names(read_objects([str(tmp_path)], recursive=False), Scope(PODS)) == ["a", "b"]


@pytest.mark.parametrize("text", ["", "{}", "[]", "# nothing\n"])
def test_a_file_without_an_object_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "all.yaml").write_text(text)

    with pytest.raises(ManifestError, match="the files have no object"):
        read_objects([str(tmp_path / "all.yaml")], recursive=False)
    with pytest.raises(UsageError):
        read_objects([], recursive=False)


def test_an_error_has_the_line_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "all.yaml").write_text("a: b\n---\nc: [\n")

    with pytest.raises(ManifestError, match=r"all\.yaml.*line 4"):
        read_objects([str(tmp_path / "all.yaml")], recursive=False)


@cases("obj", "says")
def test_an_object_that_an_api_server_would_refuse_is_named_with_its_place(
    obj: dict[str, Any], says: str, tmp_path: Path
) -> None:
    (tmp_path / "all.yaml").write_text(f"{yaml.safe_dump(SHOP)}---\n{yaml.safe_dump(obj)}")

    with pytest.raises(ManifestError, match=r".") as caught:
        read_objects([str(tmp_path / "all.yaml")], recursive=False)

    assert str(caught.value).startswith(f"{tmp_path}/all.yaml:8: {says}")


def test_numbers_in_labels_count_as_text(tmp_path: Path) -> None:
    (tmp_path / "all.yaml").write_text("kind: Namespace\nmetadata: {name: shop, labels: {size: 1}}\n")
    reader = read_objects([str(tmp_path)], recursive=False)

    (shop,) = asyncio.run(reader.all(Scope(NAMESPACES), lambda item: item))
    assert shop["metadata"] == {"name": "shop", "labels": {"size": "1"}}


def test_files_are_read_where_they_are_named_and_else_the_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "all.yaml").write_text(yaml.safe_dump(PODS_HERE[0]))
    reached(monkeypatch, FakeKube(*PODS_HERE))

    for files, names in ([str(tmp_path / "all.yaml")], ["a"]), ([], ["a", "b"]):
        with open_reader(files, Kubeconfig()) as session:
            assert sorted(session.run(lambda reader: _names(reader, Scope(PODS)))) == names


@pytest.mark.parametrize(
    ("text", "namespace", "target"),
    [
        ("web", None, WorkloadName(PODS, "web", "home")),
        ("web", "shop", WorkloadName(PODS, "web", "shop")),
        ("web.shop", None, WorkloadName(PODS, "web", "shop")),
        ("web.0.shop", None, WorkloadName(PODS, "web.0", "shop")),
        ("web.0", "shop", WorkloadName(PODS, "web.0", "shop")),
        ("pod/web", None, WorkloadName(PODS, "web", "home")),
        ("deploy/web.shop", None, WorkloadName(DEPLOYMENTS, "web", "shop")),
        ("Deployment/web", None, WorkloadName(DEPLOYMENTS, "web", "home")),
        ("sts/db", None, WorkloadName(STATEFUL_SETS, "db", "home")),
        ("cronjobs/tidy", None, WorkloadName(CRON_JOBS, "tidy", "home")),
    ],
)
def test_a_workload_is_named_as_for_kubectl_and_istioctl(
    text: str, namespace: str | None, target: WorkloadName
) -> None:
    assert parse_target(text, namespace=namespace, default="home") == target


@cases("text", "says")
def test_an_invalid_target_is_a_wrong_argument(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=r".") as caught:
        parse_target(text, namespace=None, default="home")

    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("target", "title"),
    [
        (WorkloadName(PODS, "web-abc-1", "shop"), "Pod shop/web-abc-1"),
        (WorkloadName(DEPLOYMENTS, "web", "shop"), "Deployment shop/web"),
    ],
)
def test_a_workload_is_read_with_the_pod_that_it_would_create(target: WorkloadName, title: str) -> None:
    (read,) = asyncio.run(read_target(cluster(owned("web", "shop"), deployment("web", "shop")), target))

    assert (str(read), read.pod["metadata"]["labels"]["app"]) == (title, "web")
    assert "name" not in read.pod["metadata"]


def listed(*objects: dict[str, Any], namespace: str | None = None) -> list[str]:
    return read_targets(cluster(*objects), namespace, OTHER_KINDS, str)


def test_a_workload_is_listed_once() -> None:
    rollout = {**owned("lone", "shop"), "kind": "Pod"}
    objects = [
        deployment("web", "shop"),
        owned("web", "shop"),
        deployment("idle", "shop"),
        rollout,
        {**rollout, "metadata": {**rollout["metadata"], "name": "lone-abc-2"}},
        owned("operated", "shop", kind="Operator"),
        make_pod("bare", namespace="shop"),
        deployment("db", "data", kind="StatefulSet"),
        owned("db", "data", kind="StatefulSet"),
    ]

    assert listed(*objects) == [
        "StatefulSet data/db",
        "Deployment shop/idle",
        "Deployment shop/lone",
        "Deployment shop/web",
        "Operator shop/operated",
        "Pod shop/bare",
    ]
    assert listed(*objects, namespace="data") == ["StatefulSet data/db"]


def test_workloads_of_other_kinds_are_listed_once() -> None:
    argo, knative = {"apiVersion": "argoproj.io/v1alpha1"}, {"apiVersion": "serving.knative.dev/v1"}
    hashes = {"pod-template-hash": "x", "rollouts-pod-template-hash": "abc"}
    objects = [
        {**deployment("roll", "shop", kind="Rollout"), **argo},
        owned("roll", "shop", labels=hashes),
        {**deployment("web", "shop", kind="Rollout"), **argo, "spec": {"workloadRef": {"name": "web"}}},
        deployment("web", "shop"),
        {**deployment("hello", "shop", kind="Service"), **knative},
        owned("hello-00001-deployment", "shop"),
    ]

    assert listed(*objects) == ["Deployment shop/hello-00001-deployment", "Deployment shop/web", "Rollout shop/roll"]


def named_by(name: str, kind: str, version: str, pod: str, *containers: str, **labels: str) -> dict[str, Any]:
    """A pod with the name ``pod``, which its controller gave it."""
    obj = make_pod(
        pod, namespace="shop", labels=labels, containers=[make_container(container) for container in containers]
    )
    obj["metadata"]["ownerReferences"] = [owner_of(name, kind, version)]
    return obj


def test_pods_that_their_controller_names_are_one_workload_for_each_kind_of_pod() -> None:
    objects = [
        *(named_by("kafka", "StrimziPodSet", "core.strimzi.io/v1beta2", f"kafka-{n}", "kafka") for n in range(3)),
        named_by("ray", "RayCluster", "ray.io/v1", "ray-head", "head"),
        *(named_by("ray", "RayCluster", "ray.io/v1", f"ray-worker-{n}", "worker") for n in range(2)),
        named_by("train", "PyTorchJob", "kubeflow.org/v1", "train-master-0", "app", **{INJECT_LABEL: "false"}),
        named_by("train", "PyTorchJob", "kubeflow.org/v1", "train-worker-0", "app"),
        named_by("train", "PyTorchJob", "kubeflow.org/v1", "train-worker-1", "app"),
    ]

    assert listed(*objects) == [
        "PyTorchJob shop/train (train-worker-0)",
        "PyTorchJob shop/train (train-master-0)",
        "RayCluster shop/ray (ray-head)",
        "RayCluster shop/ray (ray-worker-0)",
        "StrimziPodSet shop/kafka (kafka-0)",
    ]


def test_jobs_of_a_cron_job_and_what_has_ended_are_left_out() -> None:
    owner = [{"kind": "CronJob", "name": "tidy", "controller": True}]
    jobs = [
        deployment("tidy-28000000", "shop", kind="Job", metadata={"ownerReferences": owner}),
        deployment("done", "shop", kind="Job", status={"completionTime": "2026-01-01T00:00:00Z"}),
        deployment("import", "shop", kind="Job"),
        deployment("restore-28000000", "shop", kind="Job"),
        owned("restore-28000000", "shop", kind="Job"),
    ]
    over = {**make_pod("over", namespace="shop"), "status": {"phase": "Succeeded"}}

    assert listed(*jobs, over) == ["Job shop/import", "Job shop/restore-28000000"]


def test_ended_pods_are_not_listed() -> None:
    client = FakeKube()

    assert read_targets(Direct(client), "shop", OTHER_KINDS, str) == []
    assert client.requests[-1] == f"list pods in shop {RUNNING}"


@cases("pod", "over")
def test_a_pod_that_is_being_deleted_has_ended(pod: dict[str, Any], over: bool) -> None:
    assert has_ended(pod) == over


OBJECTS = (*revision("1-24", "1.24.6"), tag("prod", "1-24"), labelled("shop", "prod"), labelled("other", "1-24"))
FROM_CLUSTER = RevisionSources(None, HOME)


def test_the_view_has_everything_that_decides_about_pods() -> None:
    around = asyncio.run(read_view(cluster(*OBJECTS), FROM_CLUSTER, None))

    assert list(around.built.revisions) == ["1-24"]
    assert {webhook.path for webhook in around.webhooks} == {"/inject/1-24", "/inject/prod"}
    assert around.namespaces == {
        "shop": {"istio.io/rev": "prod", NAME_LABEL: "shop"},
        "other": {"istio.io/rev": "1-24", NAME_LABEL: "other"},
    }
    assert around.revisions.where == "the configmaps of namespace istio-system"


def test_only_the_given_namespace_is_read() -> None:
    client = FakeKube(*OBJECTS, forbidden=("namespaces",))

    around = asyncio.run(read_view(client, FROM_CLUSTER, "shop"))

    assert list(around.namespaces) == ["shop"]
    assert "get namespaces shop" in client.requests
    with pytest.raises(ClusterError, match="list namespaces"):
        asyncio.run(read_view(client, FROM_CLUSTER, None))


def test_openshifts_annotations_of_namespaces_reach_the_revisions() -> None:
    annotations = {"openshift.io/sa.scc.uid-range": "1000/10"}
    shop = {"kind": "Namespace", "metadata": {"name": "shop", "annotations": annotations}}

    around = asyncio.run(read_view(cluster(*OBJECTS[:3], shop), FROM_CLUSTER, None))

    assert around.built.revisions["1-24"].namespaces == {"shop": {"annotations": annotations}}


def test_a_folder_of_revisions_replaces_those_of_the_cluster(tmp_path: Path) -> None:
    write_revision(tmp_path / "own")

    revisions = asyncio.run(read_revisions(cluster(*OBJECTS), RevisionSources(tmp_path, HOME)))

    assert [raw.name for raw in revisions.state.revisions] == ["own"]
    assert (revisions.where, revisions.tags_where) == (str(tmp_path), f"{tmp_path}/tags.yaml")

    (tmp_path / "tags.yaml").write_text("[")
    with pytest.raises(DataError, match=r"tags\.yaml"):
        asyncio.run(read_revisions(cluster(), RevisionSources(tmp_path, HOME)))


def test_without_a_revision_the_error_names_the_source() -> None:
    with pytest.raises(
        NotConfiguredError, match="no source of revisions is configured; give Istio's ConfigMaps in FILES"
    ):
        asyncio.run(read_revisions(cluster(*OBJECTS), RevisionSources(None, "elsewhere")))

    with pytest.raises(UsageError) as caught:
        asyncio.run(read_revisions(FakeKube(*OBJECTS), RevisionSources(None, "elsewhere")))

    assert str(caught.value) == (
        "the configmaps of namespace elsewhere: no Istio revision found; give --revisions-dir or --istio-namespace"
    )


class Client:
    """An API server's client that notes what becomes of it."""

    notes: list[str]

    def __init__(self, kubeconfig: Kubeconfig) -> None:
        self.notes.append(f"made {kubeconfig}")

    async def open(self) -> None:
        self.notes.append("opened")

    async def close(self) -> None:
        self.notes.append("closed")


@pytest.fixture
def notes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    Client.notes = []
    monkeypatch.setattr("injector.cluster.client.KubeClient", Client)
    return Client.notes


def test_work_gets_a_client_with_credentials_that_is_closed_afterwards(notes: list[str]) -> None:
    async def work(client: KubeClient) -> int:
        assert isinstance(client, Client)
        notes.append("worked")
        return 7

    with open_session(Kubeconfig((Path("a"),))) as session:
        assert session.run(work) == 7
    assert notes == ["made a", "opened", "worked", "closed"]


@cases("reason", "hint")
def test_an_error_of_the_api_server_has_a_hint_for_the_user(notes: list[str], reason: str, hint: str) -> None:
    async def work(_: KubeClient) -> None:
        raise ClusterError("no", where="https://a/b", hint="ask the owner", reason=reason, status=4)

    with pytest.raises(ClusterError) as caught, open_session(Kubeconfig()) as session:
        session.run(work)

    assert (str(caught.value), caught.value.exit_code) == (f"https://a/b: no; {hint}", 1)
    assert (caught.value.reason, caught.value.status) == (reason, 4)
    assert notes[-1] == "closed"


def test_a_result_is_not_formatted_which_would_take_minutes_for_a_large_one() -> None:
    formatted: list[str] = []

    class Large:
        def __repr__(self) -> str:
            formatted.append("repr")
            return ""

    async def work() -> Large:
        return Large()

    with asyncio.Runner() as runner:
        assert isinstance(run_for_result(runner, work()), Large)
    assert formatted == []


FORKS = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
"""pytest's own threads make Python warn of a fork; commands have none."""


@FORKS
@pytest.mark.needs("linux")
def test_many_items_are_divided_among_processes_and_their_results_are_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    with_cpus(monkeypatch, 3)
    meeting = multiprocessing.get_context("fork").Barrier(3)

    def double(item: int) -> tuple[int, int, Any]:
        if item % 50 == 0 and item < 150:  # the first three groups of neighbours, each in another process
            meeting.wait(60)
        return item * 2, os.getpid(), ABSENT

    results = list(in_processes(double, range(350)))

    assert [number for number, _, _ in results] == [item * 2 for item in range(350)]
    assert len({pid for _, pid, _ in results} - {os.getpid()}) == 3
    assert all(absent is ABSENT for _, _, absent in results)


@FORKS
def test_an_error_of_one_item_is_raised_after_the_results_of_the_processes_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with_cpus(monkeypatch, 3)

    def half(item: int) -> int:
        if item == 301:
            raise ManifestError("odd", where="item 301", hint="double it")
        return item // 2

    results = in_processes(half, range(400))

    assert [next(results) for _ in range(300)] == [item // 2 for item in range(300)]
    with pytest.raises(ManifestError, match="item 301: odd; double it"):
        next(results)


ENDLESS = """
import itertools, os
from injector.fleet.processes import in_processes

os.sched_getaffinity = lambda _: {0, 1}
for _ in in_processes(lambda item: print(item, flush=True), itertools.count()):
    pass
"""


@pytest.mark.needs("linux")
def test_processes_end_when_the_first_one_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", ENDLESS], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.kill()
        process.communicate(timeout=60)  # the output ends with the last process that can write to it


@pytest.mark.parametrize(("cpus", "items"), [(1, 1_000), (4, 150)])
def test_one_cpu_or_few_items_need_no_other_process(monkeypatch: pytest.MonkeyPatch, cpus: int, items: int) -> None:
    with_cpus(monkeypatch, cpus)

    assert set(in_processes(lambda _: os.getpid(), range(items))) == {os.getpid()}


class TwoPages(FakeKube):
    """A cluster with a page for each pod of ``listings``, one listing after another; an error ends a listing."""

    def __init__(self, *listings: tuple[dict[str, Any] | ClusterError, ...]) -> None:
        super().__init__()
        self.listings = list(listings)

    async def texts(self, scope: Scope, token: str = "") -> tuple[list[bytes], str]:
        if scope.resource is not PODS:
            return [], ""
        place = int(token or 0)
        items = self.listings[0][place]
        if isinstance(items, ClusterError):
            del self.listings[0]
            raise items
        return [dump_json(items)], str(place + 1) if place + 1 < len(self.listings[0]) else ""


def named(client: FakeKube) -> list[tuple[str, str]]:
    """The name of each workload, and of the pod that stands for it."""
    return read_targets(
        Direct(client), None, OTHER_KINDS, lambda target: (target.name, target.pod["metadata"]["labels"]["n"])
    )


def replica(workload: str, number: int) -> dict[str, Any]:
    return owned(workload, "shop", labels={"n": str(number)})


def test_a_list_whose_version_is_lost_is_read_again_from_the_start() -> None:
    first = (replica("b", 1), failure("gone"))
    second = (replica("b", 2), replica("a", 3), replica("b", 4))

    assert named(TwoPages(first, second)) == [("a", "3"), ("b", "2")]


def test_of_several_pods_of_a_workload_only_one_is_worked_on() -> None:
    worked_on: list[str] = []

    targets = read_targets(
        Direct(TwoPages((replica("b", 1), replica("a", 2), replica("b", 3)))),
        None,
        OTHER_KINDS,
        lambda target: worked_on.append(target.pod["metadata"]["labels"]["n"]),
    )

    assert (len(targets), worked_on) == (2, ["1", "2"])


def test_a_list_whose_version_is_lost_three_times_is_an_error() -> None:
    client = TwoPages(*[(replica("a", 1), failure("gone"))] * 4)

    with pytest.raises(ClusterError):
        named(client)
    assert len(client.listings) == 1


def test_a_list_for_an_upgrade_is_read_again_from_the_start_at_most_twice() -> None:
    first = (replica("b", 1), failure("gone"))
    second = (replica("b", 2), replica("a", 3), replica("b", 4))
    noted: list[str] = []

    def listed(client: FakeKube) -> list[tuple[str, str]]:
        workloads = asyncio.run(list_workloads(client, lambda pod: noted.append(pod["metadata"]["labels"]["n"])))
        return [(workload.name, workload.pod["metadata"]["labels"]["n"]) for workload in workloads]

    assert listed(TwoPages(first, second)) == [("a", "3"), ("b", "2")]
    assert noted == ["1", "2", "3", "4"]
    with pytest.raises(ClusterError):
        listed(TwoPages(*[first] * 4))
    assert noted[4:] == ["1", "1", "1"]
