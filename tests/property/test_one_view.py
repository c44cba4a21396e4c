"""Commands answer alike about the same objects, in whatever form they get them."""

from __future__ import annotations

import json
import os
from os import EX_SOFTWARE
from pathlib import Path
from typing import Any

import pytest

from injector.fleet.workloads import file_workloads
from injector.kube.podtemplates import OTHER_KINDS
from tests.cli.clusters import REV, FakeKube, cluster, deployment, endpoints, invoke, reached
from tests.factories import make_pod
from tests.property.clusters import (
    FORMS,
    KINDS,
    Object,
    answered,
    answers,
    called_path,
    draws,
    explained_by,
    handler_of_cluster,
    identity_of,
    injected_by,
    listed,
    proxies_in,
    random_cluster,
    spread_weights,
    with_outdated,
)
from tests.revisions.fakes import write_revision
from tests.sizes import sized
from tests.upgrade.fleets import DOCUMENT

SETS = int(os.environ.get("ONE_VIEW_SETS", sized(20, 2000)))
PER_TEST = 5
FORMS_PER_SET = 2 if SETS < 100 else 1


def in_namespaces(obj: Object) -> Object:
    """An object as the API server has it: with the namespace that a file may leave out."""
    is_placed = obj["kind"] in (*KINDS, "Pod")
    return {**obj, "metadata": {"namespace": "default", **obj["metadata"]}} if is_placed else obj


@pytest.fixture
def upgrade(tmp_path: Path) -> Path:
    document = {**DOCUMENT, "spec": {**DOCUMENT["spec"], "from": "1-24", "to": "1-30"}}
    path = tmp_path / "up.json"
    path.write_text(json.dumps(document))
    return path


@pytest.mark.parametrize("first", range(0, SETS, PER_TEST))
def test_all_forms_of_the_same_objects_give_equal_answers(
    first: int, upgrade: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(first, min(first + PER_TEST, SETS)):
        draw = draws(seed)
        objects = random_cluster(draw)
        reached(monkeypatch, FakeKube(*map(in_namespaces, objects)))
        expected = answers(upgrade)
        for form in draw.sample(list(FORMS), FORMS_PER_SET):
            folder = tmp_path / f"{seed}-{form}"
            folder.mkdir()
            FORMS[form](draw, with_outdated(draw, objects), folder)

            assert answers(upgrade, str(folder)) == expected, (seed, form)


@pytest.mark.parametrize("first", range(0, SETS, PER_TEST))
def test_manifest_commands_inject_alike_in_each_form_what_explain_says(first: int, tmp_path: Path) -> None:
    write_revision(tmp_path / "revisions" / "1-30", values='{"global": {"tag": "1.30.1"}}')
    for seed in range(first, min(first + PER_TEST, SETS)):
        draw = draws(seed)
        objects = [obj for obj in random_cluster(draw) if obj["kind"] in (*KINDS, "Pod")]
        if draw.random() < 0.7:  # of a CronJob, `kube-inject` reads the jobTemplate, as `istioctl` does
            objects = [obj for obj in objects if obj["kind"] != "CronJob"] or [
                {"kind": "Pod", "apiVersion": "v1", **make_pod()}
            ]
        folder = tmp_path / str(seed)
        forms = "documents", draw.choice(("a List", "nested Lists", "lists of one kind")), draw.choice(list(FORMS))
        outputs = []
        for command, form in zip(("krm", "krm", "kube-inject"), forms, strict=True):
            items = listed(form, objects) if command == "krm" else ()
            if command != "krm":
                folder.mkdir()
                FORMS[form](draw, objects, folder)
            outputs.append(injected_by(command, items, folder, tmp_path / "revisions"))
        decided = explained_by(folder, tmp_path / "revisions")
        by_krm, by_krm_in_lists, by_kube_inject = outputs

        assert by_krm == by_krm_in_lists, (seed, forms)
        assert by_krm == by_kube_inject or any(obj["kind"] == "CronJob" for obj in objects), (seed, forms)
        assert isinstance(by_krm, int) == ("refused" in decided.values()), seed
        if not isinstance(by_krm, int):
            new = {identity_of(obj) for obj in objects if not proxies_in(obj)}
            added = {name: "injected" if proxies_in(by_krm[name]) else "skipped" for name in new & decided.keys()}
            assert {name: decided[name] for name in added} == added, seed


@pytest.mark.parametrize("first", range(0, SETS, PER_TEST))
def test_explain_says_what_the_injector_answers(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(first, min(first + PER_TEST, SETS)):
        draw = draws(seed)
        objects = [in_namespaces(obj) for obj in random_cluster(draw) if obj["kind"] != "EndpointSlice"]
        spread_weights(draw, objects)
        reached(monkeypatch, FakeKube(*objects, endpoints()))
        explained = json.loads(invoke("explain", "-A", "-o", "json").stdout)["workloads"]
        handler = handler_of_cluster(objects)
        pods = {workload.key: workload.pod for workload in file_workloads(cluster(*objects), OTHER_KINDS)}

        for workload in explained:
            place, key = workload["namespace"], (workload["namespace"], workload["kind"], workload["name"])
            path = called_path(objects, place, pods[key])
            answer = ("skipped", None) if path is None else answered(handler, path, place, pods[key])
            assert (workload["outcome"], workload["revision"]) == answer, (seed, key)


def test_standard_input_gives_the_answers_of_a_file(tmp_path: Path) -> None:
    objects = random_cluster(draws(3))
    FORMS["a List"](draws(3), objects, tmp_path)
    text = (tmp_path / "all.yaml").read_text()

    for command in (["explain"], ["analyze"], ["revision", "status"], ["diff", "1-24", "1-30"]):
        of_file = invoke(*command, "-f", str(tmp_path / "all.yaml"), "-o", "json")
        of_input = invoke(*command, "-f", "-", "-o", "json", text=text)

        assert of_input.exit_code == of_file.exit_code
        assert of_input.stdout == of_file.stdout.replace(str(tmp_path / "all.yaml"), "stdin")


DISTURBED = [
    ("EndpointSlice", ("endpoints",), "x"),
    ("EndpointSlice", ("endpoints", 0), 3),
    ("EndpointSlice", ("endpoints", 0, "conditions"), [1]),
    ("ConfigMap", ("metadata", "labels"), 3),
    ("Pod", ("spec", "containers", 0), None),
    ("Deployment", ("status", "conditions"), [None]),
    ("Gateway", ("status", "conditions"), [True]),
    ("PodDisruptionBudget", ("status", "disruptionsAllowed"), {"a": 3}),
]


@pytest.mark.parametrize(("kind", "path", "value"), DISTURBED)
def test_an_odd_value_in_a_file_is_no_internal_error(
    kind: str, path: tuple[str | int, ...], value: object, upgrade: Path, tmp_path: Path
) -> None:
    waiting = {"metadata": {"name": "web", "namespace": "shop"}, "status": {}}
    objects: list[Object] = [
        *(obj for obj in random_cluster(draws(0)) if obj["kind"] != "EndpointSlice"),
        {"apiVersion": "v1", "kind": "Pod", **make_pod(labels={REV: "1-30"}, namespace="default")},
        endpoints(),
        {**deployment("waiting", "default"), "status": {}},
        {
            "apiVersion": "gateway.networking.k8s.io/v1",
            "kind": "Gateway",
            **waiting,
            "spec": {"gatewayClassName": "istio"},
        },
        {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", **waiting, "spec": {"selector": {}}},
    ]
    *parents, last = path
    for obj in objects:
        if obj["kind"] == kind and ("status" in obj or path[0] != "status"):
            node: Any = obj
            for key in parents:
                node = node[key]
            node[last] = value
    (tmp_path / "all.json").write_text("\n---\n".join(map(json.dumps, objects)))

    codes = {name: answer[0] for name, answer in answers(upgrade, str(tmp_path / "all.json")).items()}

    assert EX_SOFTWARE not in codes.values(), codes
