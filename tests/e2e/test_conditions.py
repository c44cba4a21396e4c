"""matchConditions are evaluated as a real API server evaluates them."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from injector.kube.conditions import FAULT, MET, NOT_EVALUATED, UNMET, evaluate_conditions
from tests.e2e.cluster import Cluster
from tests.e2e.conftest import Figure
from tests.e2e.recording import Recorder, recorder
from tests.e2e.served import until
from tests.factories import make_container, make_pod
from tests.manifests import account_of, namespace_of

PLACE = "conditions"
EXPRESSIONS: list[str] = yaml.safe_load((Path(__file__).parents[1] / "kube" / "expressions.yaml").read_text())
PODS = (
    make_pod(
        "a",
        namespace=PLACE,
        labels={"app": "web", "tier": "1"},
        annotations={"example.com/skip": "yes"},
        containers=[
            make_container("app", image="app:1.0", ports=[{"containerPort": 80}], env=[{"name": "A", "value": "1"}])
        ],
    ),
    make_pod(
        "b",
        namespace=PLACE,
        containers=[make_container("app", image="app:1.0"), make_container("istio-proxy", image="proxy")],
        restartPolicy="Never",
        hostNetwork=True,
        terminationGracePeriodSeconds=90,
    ),
    {**make_pod(namespace=PLACE, labels={"app": "web"}), "metadata": {"generateName": "g-", "namespace": PLACE}},
)


@pytest.fixture(scope="module")
def called(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recorder]:
    """The webhook that is called if a condition holds, and a namespace for pods."""
    cluster.apply(namespace_of(PLACE), account_of(PLACE))
    with recorder(tmp_path_factory.mktemp("recorder")) as webhook:
        yield webhook


def configuration(name: str, expressions: dict[int, str], policy: str, called: Recorder) -> dict[str, Any]:
    """A configuration with a webhook for each expression, whose path is its number, and one for every pod."""
    ca = base64.b64encode(called.ca).decode()
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    known: dict[str, Any] = {"admissionReviewVersions": ["v1"], "sideEffects": "None", "rules": [rule]}
    known |= {"timeoutSeconds": 30, "failurePolicy": policy}
    known["namespaceSelector"] = {"matchLabels": {"kubernetes.io/metadata.name": PLACE}}
    webhooks = [
        {
            **known,
            "name": f"w{number + 1}.example.com",
            "clientConfig": {"url": f"{called.url}/{number}", "caBundle": ca},
            "matchConditions": [{"name": "c", "expression": expression}],
        }
        for number, expression in {**expressions, -1: "true"}.items()
    ]
    metadata = {"name": name}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": metadata,
        "webhooks": webhooks,
    }


def paths_called(cluster: Cluster, called: Recorder, pod: dict[str, Any]) -> tuple[set[int], str]:
    """The webhooks that are called for a pod, by a dry run, and its refusal; once the API server knows the configuration."""
    refusals: list[str] = []

    def is_known() -> bool:
        called.calls.clear()
        refusals.append(cluster.refusal(pod, PLACE))
        return bool(refusals[-1]) or any("/-1" in paths for paths in called.calls.values())

    until(is_known)
    return {int(path[1:]) for paths in called.calls.values() for path in paths} - {-1}, refusals[-1]


@pytest.mark.parametrize("pod", PODS, ids=["labels", "host network", "generated name"])
def test_a_webhook_is_called_if_its_condition_is_met(
    pod: dict[str, Any], cluster: Cluster, called: Recorder, figure: Figure
) -> None:
    verdicts = {
        number: evaluate_conditions((("c", expression),), pod).verdict for number, expression in enumerate(EXPRESSIONS)
    }
    evaluated = {
        number: expression for number, expression in enumerate(EXPRESSIONS) if verdicts[number] != NOT_EVALUATED
    }
    ignoring = configuration("ignoring", evaluated, "Ignore", called)
    cluster.apply(ignoring)
    try:
        actual, refusal = paths_called(cluster, called, pod)
    finally:
        cluster.delete("mutatingwebhookconfiguration", "ignoring")

    assert refusal == ""
    assert [EXPRESSIONS[n] for n in evaluated if (n in actual) != (verdicts[n] == MET)] == []
    assert len(evaluated) > 100
    figure(f"{len(evaluated)} of {len(EXPRESSIONS)} matchConditions evaluated as the API server does")


@pytest.mark.parametrize("pod", PODS, ids=["labels", "host network", "generated name"])
def test_a_condition_that_fails_refuses_the_pod_and_one_that_is_false_does_not(
    pod: dict[str, Any], cluster: Cluster, called: Recorder
) -> None:
    verdicts = {
        number: evaluate_conditions((("c", expression),), pod).verdict for number, expression in enumerate(EXPRESSIONS)
    }
    unmet = {number: EXPRESSIONS[number] for number, verdict in verdicts.items() if verdict == UNMET}
    fails = {number: EXPRESSIONS[number] for number, verdict in verdicts.items() if verdict == FAULT}
    results = {}
    for name, expressions in {
        "unmet": unmet,
        **{f"fails-{n}": {n: expression} for n, expression in list(fails.items())[:12]},
    }.items():
        cluster.apply(configuration(name, expressions, "Fail", called))
        try:
            results[name] = paths_called(cluster, called, pod)[1]
        finally:
            cluster.delete("mutatingwebhookconfiguration", name)
        until(lambda: not cluster.refusal(pod, PLACE))

    assert fails
    assert [name for name, refusal in results.items() if bool(refusal) != name.startswith("fails")] == []
