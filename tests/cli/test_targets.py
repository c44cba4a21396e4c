from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from injector.cli.clusterview import RUNNING, Target, is_over, parse_target, read_target, read_targets
from injector.cluster.reader import CRON_JOBS, DEPLOYMENTS, PODS, STATEFUL_SETS, ClusterReader
from injector.errors import ClusterError, UsageError
from tests.cli.clusters import FakeKube, cluster, deployment, owned
from tests.factories import make_pod

if TYPE_CHECKING:
    from injector.kube.pods import Created


@pytest.mark.parametrize(
    ("text", "namespace", "target"),
    [
        ("web", None, Target(PODS, "web", "home")),
        ("web", "shop", Target(PODS, "web", "shop")),
        ("web.shop", None, Target(PODS, "web", "shop")),
        ("web.0.shop", None, Target(PODS, "web.0", "shop")),
        ("web.0", "shop", Target(PODS, "web.0", "shop")),
        ("pod/web", None, Target(PODS, "web", "home")),
        ("deploy/web.shop", None, Target(DEPLOYMENTS, "web", "shop")),
        ("Deployment/web", None, Target(DEPLOYMENTS, "web", "home")),
        ("sts/db", None, Target(STATEFUL_SETS, "db", "home")),
        ("cronjobs/tidy", None, Target(CRON_JOBS, "tidy", "home")),
    ],
)
def test_a_workload_is_named_as_for_kubectl_and_istioctl(text: str, namespace: str | None, target: Target) -> None:
    assert parse_target(text, namespace=namespace, default="home") == target


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("service/web", "'service' is no type of workload; known are pod, deployment, statefulset, daemonset, "),
        ("/web", "'' is no type of workload"),
        ("deploy/", "it names no workload; write [TYPE/]NAME[.NAMESPACE]"),
        (".shop", "it names no workload"),
    ],
)
def test_what_names_no_workload_is_a_wrong_argument(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=r".") as caught:
        parse_target(text, namespace=None, default="home")

    assert says in str(caught.value)


def test_a_pod_is_read_as_it_would_be_created_under_its_own_name() -> None:
    found = asyncio.run(read_target(cluster(owned("web", "shop")), Target(PODS, "web-abc-1", "shop")))

    assert str(found) == "Pod shop/web-abc-1"
    assert "name" not in found.pod["metadata"]


def test_another_workload_is_read_with_the_pod_of_its_template() -> None:
    found = asyncio.run(read_target(cluster(deployment("web", "shop")), Target(DEPLOYMENTS, "web", "shop")))

    assert str(found) == "Deployment shop/web"
    assert found.pod["metadata"]["labels"] == {"app": "web"}


def test_one_that_is_not_there_is_missed() -> None:
    with pytest.raises(ClusterError, match="has no such object"):
        asyncio.run(read_target(ClusterReader(FakeKube()), Target(DEPLOYMENTS, "web", "shop")))


def listed(*objects: dict[str, Any], namespace: str | None = None) -> list[str]:
    found: list[Created] = asyncio.run(read_targets(cluster(*objects), namespace))
    return [str(each) for each in found]


def test_a_workload_is_listed_once_whatever_tells_of_it() -> None:
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


def test_pods_that_ended_are_not_even_asked_for() -> None:
    client = FakeKube()

    assert asyncio.run(read_targets(ClusterReader(client), "shop")) == []
    assert client.asked[-1] == f"list pods in shop by {RUNNING}"


@pytest.mark.parametrize(
    ("pod", "over"),
    [
        ({"metadata": {}, "status": {"phase": "Running"}}, False),
        ({"metadata": {}}, False),
        ({"metadata": {}, "status": {"phase": "Failed"}}, True),
        ({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "status": {"phase": "Running"}}, True),
    ],
)
def test_a_pod_is_over_when_it_ended_or_ends(pod: dict[str, Any], over: bool) -> None:
    assert is_over(pod) == over
