"""matchConditions are evaluated as a real API server evaluates them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from injector.kube.conditions import FAULT, MET, NOT_EVALUATED, UNMET, evaluate_conditions
from tests.e2e.cluster import Cluster
from tests.e2e.conftest import Figure
from tests.e2e.served import Certificate
from tests.e2e.webhooks import Recorder, calling, recorder
from tests.factories import make_container, make_pod
from tests.manifests import account_of, make_object, namespace_of, pod_webhook

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
def called(cluster: Cluster, trusted: Certificate) -> Iterator[Recorder]:
    """The webhook that is called if a condition holds, and a namespace for pods."""
    cluster.apply(namespace_of(PLACE), account_of(PLACE))
    with recorder(trusted) as webhook:
        yield webhook


def paths_called(
    cluster: Cluster,
    called: Recorder,
    trusted: Certificate,
    pod: dict[str, Any],
    expressions: dict[int, str],
    policy: str,
) -> tuple[set[int], str]:
    """Create a pod by a dry run, with a webhook for each expression. Return the numbers of those that are called, and the refusal."""
    webhooks = [
        pod_webhook(
            f"w{number}.example.com",
            {"url": f"{called.url}/{number}", "caBundle": trusted.bundle},
            namespace=PLACE,
            failurePolicy=policy,
            timeoutSeconds=30,
            matchConditions=[{"name": "c", "expression": expression}],
        )
        for number, expression in expressions.items()
    ]
    with calling(cluster, [make_object("MutatingWebhookConfiguration", "conditions", webhooks=webhooks)]):
        refusal = cluster.refusal(pod, PLACE)
    return {int(path[1:]) for paths in called.calls().values() for path in paths}, refusal


@pytest.mark.parametrize("pod", PODS, ids=["labels", "host network", "generated name"])
def test_a_webhook_is_called_if_its_condition_is_met(
    pod: dict[str, Any], cluster: Cluster, trusted: Certificate, called: Recorder, figure: Figure
) -> None:
    verdicts = {
        number: evaluate_conditions((("c", expression),), pod).verdict for number, expression in enumerate(EXPRESSIONS)
    }
    evaluated = {
        number: expression for number, expression in enumerate(EXPRESSIONS) if verdicts[number] != NOT_EVALUATED
    }
    actual, refusal = paths_called(cluster, called, trusted, pod, evaluated, "Ignore")

    assert refusal == ""
    assert [EXPRESSIONS[n] for n in evaluated if (n in actual) != (verdicts[n] == MET)] == []
    assert len(evaluated) > 100
    figure(f"{len(evaluated)} of {len(EXPRESSIONS)} matchConditions evaluated as the API server does")


@pytest.mark.parametrize("pod", PODS, ids=["labels", "host network", "generated name"])
def test_a_condition_that_fails_refuses_the_pod_and_one_that_is_false_does_not(
    pod: dict[str, Any], cluster: Cluster, trusted: Certificate, called: Recorder
) -> None:
    verdicts = {
        number: evaluate_conditions((("c", expression),), pod).verdict for number, expression in enumerate(EXPRESSIONS)
    }
    unmet = {number: EXPRESSIONS[number] for number, verdict in verdicts.items() if verdict == UNMET}
    fails = {number: EXPRESSIONS[number] for number, verdict in verdicts.items() if verdict == FAULT}
    refusals = {n: paths_called(cluster, called, trusted, pod, {n: fails[n]}, "Fail")[1] for n in [*fails][:12]}

    assert fails
    assert [fails[n] for n, refusal in refusals.items() if not refusal] == []
    assert paths_called(cluster, called, trusted, pod, unmet, "Fail") == (set(), "")
