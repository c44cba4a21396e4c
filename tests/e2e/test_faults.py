"""What goes wrong in a cluster while pods keep being created: a ConfigMap that is broken, an API server that is away or lies."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

from tests.e2e.cluster import Cluster
from tests.e2e.conftest import Figure
from tests.e2e.faultyapi import FaultyApi, between
from tests.e2e.load import Load, created_meanwhile
from tests.e2e.served import LIMIT, Certificate, Injector, injector, of_cluster
from tests.e2e.webhooks import calling, written
from tests.manifests import BROKEN, account_of, control_plane, namespace_of

REVISION = "canary"
WATCHED = ("configmaps", "mutatingwebhookconfigurations", "nodes")
"""What is followed of a cluster with a revision of 1.28, whose native sidecars depend on the nodes."""
AWAY = 300.0 if os.environ.get("E2E_LONG") else 12.0
"""Seconds for which the API server is away: with E2E_LONG=1 the five minutes of an upgrade gone wrong."""
LEAST = 0.5
"""Seconds between two requests of one watch at least: one is the aim, and the proxy's own clock may be late."""
SLOW = 10.0
"""Seconds that may pass, on a machine that does much else, where one is the aim (and five after an outage)."""


def proxy_of(load: Load, version: str) -> Callable[[], bool]:
    """Whether the pods that are created now have the proxy of a version."""
    return lambda: {pod.image for pod in load.more(1)} == {f"proxy:{version}"}


def invalid(served: Injector) -> bool:
    """Whether the gauge says that what the cluster holds is not what is served."""
    return served.total("injector_revision_config_valid", revision=REVISION) == 0


def test_a_broken_config_map_is_reported_and_the_last_good_one_is_served(
    cluster: Cluster, trusted: Certificate, tmp_path: Path, figure: Figure
) -> None:
    home, load = "istio-broken", Load(cluster, "broken")
    cluster.apply(namespace_of(home), *control_plane(home, REVISION, tag="1.28.1"))
    cluster.apply(namespace_of(load.namespace, {"istio.io/rev": REVISION}), account_of(load.namespace))

    with injector(tmp_path, *trusted.flags, *of_cluster(cluster, home)) as served:
        webhooks = written("webhook", "--revision", REVISION, port=served.port, trusted=trusted)
        with calling(cluster, webhooks), created_meanwhile(load):
            load.more(50)
            assert not invalid(served)

            broken_at = time.monotonic()
            cluster.apply(*control_plane(home, REVISION, tag="1.28.2", config=BROKEN))
            served.until(lambda: invalid(served))
            reported = time.monotonic() - broken_at
            assert f"ConfigMap {home}/istio-sidecar-injector-{REVISION}" in served.error(REVISION)
            load.more(100)
            assert {pod.image for pod in load.pods} == {"proxy:1.28.1"}

            repaired_at = time.monotonic()
            cluster.apply(*control_plane(home, REVISION, tag="1.28.3"))
            served.until(lambda: not invalid(served))
            repaired = time.monotonic() - repaired_at
            assert {pod.image for pod in load.more(50)} == {"proxy:1.28.3"}
    figure(load.summary())
    figure(
        f"{load.namespace}: told after {reported:.2f} s, repaired after {repaired:.2f} s, kubectl's own time included"
    )

    assert load.failures == []
    assert max(reported, repaired) < SLOW


def test_a_missing_or_faulty_api_server_costs_no_pod_and_no_change(
    cluster: Cluster, trusted: Certificate, tmp_path: Path, figure: Figure
) -> None:
    home, load = "istio-faulty", Load(cluster, "faulty")
    cluster.apply(namespace_of(home), *control_plane(home, REVISION, tag="1.28.0"))
    cluster.apply(namespace_of(load.namespace, {"istio.io/rev": REVISION}), account_of(load.namespace))

    with (
        between(cluster, tmp_path) as api,
        injector(tmp_path, *trusted.flags, *of_cluster(cluster, home, kubeconfig=api.kubeconfig)) as served,
    ):
        webhooks = written("webhook", "--revision", REVISION, port=served.port, trusted=trusted)
        with calling(cluster, webhooks), created_meanwhile(load):
            served.until(proxy_of(load, "1.28.0"))
            served.until(lambda: api.watched() == sorted(WATCHED))
            for number, (fault, lists) in enumerate(((api.gone, True), (api.cut, False), (api.garbage, True)), 1):
                broken_at = fault()
                cluster.apply(*control_plane(home, REVISION, tag=f"1.28.{number}"))
                served.until(proxy_of(load, f"1.28.{number}"))
                served.until(lambda: api.watched() == sorted(WATCHED))
                again = [asked_again(api, resource, broken_at, lists=lists) for resource in WATCHED]
                assert served.total("injector_watch_faults_total", reason=fault.__name__) == len(WATCHED)
                figure(f"{load.namespace}: {fault.__name__}, asked again after {max(again):.2f} s")
            down_at = api.down()
            cluster.apply(*control_plane(home, REVISION, tag="1.29.0"))
            served.until(lambda: time.monotonic() - down_at > AWAY, within=AWAY + LIMIT)
            assert {pod.image for pod in load.since(down_at)} == {"proxy:1.28.3"}
            up_at = api.up()
            served.until(proxy_of(load, "1.29.0"))
            served.until(lambda: api.watched() == sorted(WATCHED))
    figure(load.summary())
    figure(outage(api, down_at, up_at))

    assert load.failures == []
    assert "" not in {pod.image for pod in load.pods}


def test_a_replica_that_starts_without_an_api_server_is_ready_soon_after_it(
    cluster: Cluster, tmp_path: Path, figure: Figure
) -> None:
    home = "istio-outage"
    cluster.apply(namespace_of(home), *control_plane(home, REVISION, tag="1.28.0"))

    with between(cluster, tmp_path) as api:
        api.down()
        flags = (
            *of_cluster(cluster, home, kubeconfig=api.kubeconfig),
            "--tls-mode",
            "self-signed",
            "--namespace",
            home,
        )
        with injector(tmp_path, *flags, ready=False) as served:
            served.until(lambda: len(api.since(0.0, answered=False)) > 20)
            assert served.readiness() != "ok"
            api.up()
            took = served.until(lambda: served.readiness() == "ok")
    figure(f"outage at the start: ready {took:.1f} s after its end")

    assert took < SLOW


def asked_again(api: FaultyApi, resource: str, moment: float, *, lists: bool) -> float:
    """The seconds from a fault until a resource was listed, or watched on, again; nothing is asked before a second is over."""
    requests = api.since(moment, resource=resource)
    assert requests[0].watch is not lists, requests
    assert LEAST < requests[0].at - moment < SLOW
    return requests[0].at - moment


def outage(api: FaultyApi, down_at: float, up_at: float) -> str:
    """Hold how often an API server was asked while it was away, and how soon afterwards; that in words."""
    parts = [f"away for {up_at - down_at:.0f} s"]
    for resource in WATCHED:
        away = [request.at for request in api.since(down_at, resource=resource, answered=False)]
        gaps = [later - earlier for earlier, later in pairwise([down_at, *away])]
        assert len(away) >= 2
        assert min(gaps) > LEAST, gaps
        assert len(away) <= up_at - down_at
        listed = api.since(up_at, resource=resource, watch=False, answered=True)[0].at - up_at
        assert listed < SLOW
        parts.append(
            f"{resource}: asked {len(away)} times, {min(gaps):.2f} s apart at least, listed {listed:.2f} s after"
        )
    return "; ".join(parts)
