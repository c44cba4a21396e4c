"""An injected pod that is called invalid here is refused by a real API server, and the webhook denies it with the reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from injector.injection.pipeline import admitted_pod, inject_pod
from injector.injection.result import Injected, RequestFacts
from injector.kube.podvalidation import new_faults
from tests import controlplanes
from tests.conformance import core, corpus, workloads
from tests.e2e.cluster import Cluster
from tests.e2e.conftest import Figure
from tests.e2e.served import Certificate, injector
from tests.e2e.webhooks import calling, written
from tests.factories import make_container, make_pod
from tests.kube.podcases import ACCEPTED, MERGED, REFUSED, merged, with_added
from tests.manifests import account_of, namespace_of
from tests.revisions.fakes import CONFIG, write_revision

PLACE = "invalid-pods"
REV = "istio.io/rev"


@pytest.fixture
def place(cluster: Cluster) -> str:
    """A namespace that pods can be created in."""
    cluster.apply(namespace_of(PLACE, {REV: "1-30"}), account_of(PLACE))
    return PLACE


@pytest.mark.parametrize("name", REFUSED)
def test_the_api_server_refuses_the_pod_of_each_case(cluster: Cluster, place: str, name: str) -> None:
    added, _ = REFUSED[name]

    assert cluster.refusal(with_added(added), place)


@pytest.mark.parametrize(
    "name", [name for name, (_, _, faults) in MERGED.items() if faults and "of its own" not in name]
)
def test_the_api_server_refuses_the_pod_of_each_merge(cluster: Cluster, place: str, name: str) -> None:
    before, after, _ = MERGED[name]

    assert cluster.refusal(merged(before, after)[1], place)
    assert not cluster.refusal(merged(before, before)[1], place)


@pytest.mark.parametrize("name", ACCEPTED)
def test_the_api_server_accepts_the_pod_of_each_case_without_a_fault(cluster: Cluster, place: str, name: str) -> None:
    assert not cluster.refusal(with_added(ACCEPTED[name]), place)


def test_no_injected_pod_is_called_invalid_that_the_api_server_accepts(
    cluster: Cluster, place: str, figure: Figure
) -> None:
    counts = Counter[str]()
    wrong = []
    for name, before, after in injected_pods():
        faults, refusal = new_faults(after, before), cluster.refusal(as_created(after), place)
        counts["invalid" if faults else "refused for another reason" if refusal else "accepted"] += 1
        if faults and not refusal:
            wrong.append((name, faults))

    figure(f"injected pods on a real API server: {dict(counts)}")
    assert wrong == []
    assert counts["accepted"] > (500 if corpus.present() else 50)


def test_a_pod_that_the_injection_makes_invalid_is_denied_with_the_reason(
    cluster: Cluster, place: str, trusted: Certificate, tmp_path: Path
) -> None:
    folder = tmp_path / "revisions"
    write_revision(folder / "1-30", CONFIG.replace("name: istio-proxy", 'name: "{{ .ObjectMeta.Labels.app }}"'))
    valid = make_pod("valid", namespace=place, labels={"app": "proxy"})
    twice = make_pod("twice", namespace=place, labels={"app": "App"})

    with injector(tmp_path, *trusted.flags, "--revisions-dir", str(folder)) as served:
        webhooks = written("webhook", "--revisions-dir", str(folder), port=served.port, trusted=trusted)
        with calling(cluster, webhooks):
            assert cluster.refusal(valid, place) == ""
            denied = cluster.refusal(twice, place)
    plain = cluster.refusal(make_pod("plain", containers=[make_container(), make_container("App")]), place)

    assert "denied the request: spec.containers[App].name: Invalid value" in denied
    assert "denied the request" not in plain
    assert "spec.containers[1].name: Invalid value" in plain


@cache
def injected_pods() -> list[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Pods before and after their injection: the project's own, and those of Istio's tests if they are there."""
    return [*_own_pods(), *_istios_pods()]


def _own_pods() -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    for name in controlplanes.MINORS:
        for number, pod in enumerate(controlplanes.pods(name)):
            result = inject_pod(controlplanes.revision_of(name), pod, RequestFacts("shop", deny_invalid=False))
            if isinstance(result, Injected):
                yield f"{name}-{number}", admitted_pod(pod, "shop"), result.pod


def _istios_pods() -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    for minor in corpus.MINORS:
        for case in corpus.cases(minor):
            if not case.webhook or not case.expected:
                continue
            revision = core.revision_of(case.settings)
            for workload in workloads.injectable(core.documents(case.source)):
                namespace = workloads.namespace_of(workload)
                meta = revision.namespaces.get(namespace)
                pod = workloads.as_pod(workload)
                result = inject_pod(revision, pod, RequestFacts(namespace, namespace_meta=meta, deny_invalid=False))
                if isinstance(result, Injected):
                    yield f"{minor}-{case.name}", admitted_pod(pod, namespace), result.pod


def as_created(pod: dict[str, Any]) -> dict[str, Any]:
    """The pod in the namespace of the tests, with a name and with the account that exists there."""
    metadata = {key: value for key, value in pod["metadata"].items() if key not in ("ownerReferences", "namespace")}
    spec = {key: value for key, value in pod["spec"].items() if key not in ("serviceAccountName", "serviceAccount")}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {**metadata, "name": "a"}, "spec": spec}
