"""``injector upgrade``."""

from __future__ import annotations

import asyncio
import copy
import json
import re
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from injector.cluster.resources import PODS, Resource, Scope
from injector.errors import TagError
from injector.fleet.sources import RevisionSources
from injector.golang.time import utc_text
from injector.upgrade import survey
from injector.upgrade.state import (
    ABORTED,
    COMPLETED,
    INCOMPLETE,
    PAUSED,
    RESTARTING,
    ROLLED_BACK,
    RUNNING,
    PlannedRestart,
    Remaining,
    State,
)
from injector.upgrade.store import UPGRADES
from injector.upgrade.survey import Surveyor
from tests.cases import cases
from tests.cli.clusters import (
    FakeKube,
    assert_fails,
    deployment,
    invoke,
    labelled,
    owned,
    reached,
    revision,
    tag,
    written,
)
from tests.cluster.fakeapi import FakeApi, refusal
from tests.cluster.fakes import failure
from tests.factories import owner_of
from tests.manifests import gateway_of
from tests.revisions.fakes import CONFIG
from tests.upgrade.fleets import DOCUMENT, upgrade

STATUS = "sidecar.istio.io/status"
REFUSING = CONFIG.replace(
    "        image:", '        {{ if eq .ObjectMeta.Namespace "bad" }}{{ fail "no" }}{{ end }}\n        image:'
)


def pod_of(name: str, place: str, rev: str, **fields: Any) -> dict[str, Any]:
    status = {STATUS: json.dumps({"containers": ["istio-proxy"], "revision": rev})}
    return {"kind": "Pod", "apiVersion": "v1", **owned(name, place, annotations=status, **fields)}


TWO_WAVES = {
    **DOCUMENT,
    "spec": {**DOCUMENT["spec"], "waves": [{"name": "dev", "namespaces": ["dev"]}, {"name": "rest"}]},
}
CLUSTER = (
    *revision("1-28", "1.28.0"),
    *revision("1-30", "1.30.1", config=REFUSING),
    tag("prod", "1-28"),
    labelled("shop", "prod"),
    labelled("dev", "prod"),
    labelled("bad", "prod"),
    labelled("own", "1-28"),
    deployment("web", "shop"),
    deployment("new", "shop"),
    deployment("api", "dev"),
    deployment("sad", "bad"),
    deployment("odd", "own"),
    pod_of("web", "shop", "1-28"),
    pod_of("new", "shop", "1-30"),
    pod_of("api", "dev", "1-28"),
    pod_of("sad", "bad", "1-28"),
    pod_of("bare", "shop", "1-28", ownerReferences=[], generateName=""),
)


@pytest.fixture(autouse=True)
def kube(monkeypatch: pytest.MonkeyPatch) -> FakeKube:
    """The cluster that commands reach, unless a test replaces it."""
    client = FakeKube(*CLUSTER)
    reached(monkeypatch, client)
    return client


@pytest.fixture
def document(tmp_path: Path) -> str:
    """The name of a file with an upgrade of two waves."""
    (tmp_path / "up.yaml").write_text(yaml.safe_dump(TWO_WAVES))
    return str(tmp_path / "up.yaml")


run = partial(invoke, "upgrade")


def planned(document: str) -> list[dict[str, Any]]:
    """The workloads of the plan."""
    workloads: list[dict[str, Any]] = json.loads(run("plan", document, "-o", "json").stdout)["workloads"]
    return workloads


def named_by(name: str, kind: str, version: str, pod: str, rev: str | None = "1-28") -> dict[str, Any]:
    """A pod with the name ``pod``, which its controller gave it; with the sidecar of a revision, or without one if it declined."""
    base = pod_of(name, "shop", rev or "")
    meta = {**base["metadata"], "name": pod, "generateName": "", "ownerReferences": [owner_of(name, kind, version)]}
    if rev is None:
        meta |= {"annotations": {}, "labels": {"sidecar.istio.io/inject": "false"}}
    return {**base, "metadata": meta}


def test_pods_that_their_controller_names_are_one_blocked_workload(
    document: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    revisions = ("1-28", "1-28", "1-30")
    brokers = [
        named_by("kafka", "StrimziPodSet", "core.strimzi.io/v1beta2", f"kafka-{number}", rev)
        for number, rev in enumerate(revisions)
    ]
    reached(monkeypatch, FakeKube(*CLUSTER, *brokers))

    (workload,) = [workload for workload in planned(document) if workload["name"].startswith("kafka")]

    assert (workload["kind"], workload["name"], workload["pods"]) == ("StrimziPodSet", "kafka", {"1-28": 2, "1-30": 1})
    assert (workload["action"], workload["note"]) == (
        "blocked",
        "StrimziPodSet (core.strimzi.io) is not restarted: annotate it with strimzi.io/manual-rolling-update=true",
    )


def test_a_workload_with_several_kinds_of_pods_counts_if_one_has_a_sidecar(
    document: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = named_by("ray", "RayCluster", "ray.io/v1", "ray-a-head", None)
    worker = named_by("ray", "RayCluster", "ray.io/v1", "ray-b-worker")
    reached(monkeypatch, FakeKube(*CLUSTER, head, worker))

    (workload,) = [workload for workload in planned(document) if workload["name"] == "ray"]

    assert (workload["kind"], workload["action"], workload["pods"]) == ("RayCluster", "blocked", {"": 1, "1-28": 1})


def test_a_job_with_the_name_of_a_cron_jobs_job_has_its_pods(document: str, monkeypatch: pytest.MonkeyPatch) -> None:
    job = {**deployment("move-28912345", "shop", kind="Job"), "apiVersion": "batch/v1"}
    pod = named_by("move-28912345", "Job", "batch/v1", "move-28912345-x")
    reached(monkeypatch, FakeKube(*CLUSTER, job, pod))

    (workload,) = [workload for workload in planned(document) if workload["name"].startswith("move")]

    assert (workload["kind"], workload["action"], workload["pods"]) == ("Job", "blocked", {"1-28": 1})


def test_the_summary_counts_each_wave_and_names_what_does_not_move(document: str) -> None:
    result = run("plan", document)

    assert result.exit_code == 1
    assert result.stdout == (
        "up: tag prod, 1-28 to 1-30\n"
        "\n"
        "WAVE   RESTARTS   IMAGE ONLY   REFUSED\n"
        "dev    1          1            0\n"
        "rest   1          2            1\n"
        "\n"
        '1 blocked: 1-30 refuses its pods: template: sidecar:4:46: executing "sidecar" at <fail "no">: '
        "error calling fail: no: Deployment bad/sad\n"
        "1 blocked: a bare pod: delete it and create it again: Pod shop/bare-abc-1\n"
        "default of 1.29: debug endpoints refuse tools of other namespaces, such as Kiali; "
        "keep the former one with ENABLE_DEBUG_ENDPOINT_AUTH=false\n"
        "default of 1.29: metrics of circuit breakers; keep the former one with DISABLE_TRACK_REMAINING_CB_METRICS=false\n"
        "default of 1.30: which namespace's Service a proxy picks; "
        "keep the former one with PILOT_SIDECAR_PICK_BEST_SERVICE_NAMESPACE=false\n"
        "workloads: 2 restart, 1 done, 2 blocked\n"
        "expected: about 12 min, if a restart takes 60 s\n"
    )
    assert result.stderr == ("note: workloads with revision 1-28 by the label of their namespace, not by the tag: 1\n")


def test_the_plan_names_exhausted_budgets_and_workloads_that_are_broken_before(
    document: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = {**deployment("api", "dev"), "status": {"availableReplicas": 0, "observedGeneration": 1}}
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"selector": {}},
        "status": {"disruptionsAllowed": 0},
    }
    others = [
        {**budget, "metadata": {"name": "free", "namespace": "dev"}, "status": {"disruptionsAllowed": 1}},
        {**budget, "metadata": {"name": "none", "namespace": "dev"}, "spec": {"selector": {"matchLabels": {"a": "b"}}}},
    ]
    reached(monkeypatch, FakeKube(*CLUSTER, broken, budget, *others))
    text = run("plan", document).stdout
    delays = {entry["name"]: entry["delays"] for entry in planned(document) if "delays" in entry}

    assert delays == {
        "api": ["pods that are not available already: 1 of 1"],
        "web": ["PodDisruptionBudget shop/web allows no disruption now"],
    }
    assert "\n1 restart: PodDisruptionBudget shop/web allows no disruption now: Deployment shop/web\n" in text
    assert "\n1 restart: pods that are not available already: 1 of 1: Deployment dev/api\n" in text


def test_the_table_has_a_row_for_each_workload(document: str) -> None:
    lines = run("plan", document, "-o", "table").stdout.splitlines()

    assert lines[0].split() == ["WAVE", "NAMESPACE", "WORKLOAD", "PODS", "HAS", "CHANGE", "ACTION", "NOTE"]
    assert [line.split()[:5] for line in lines[1:]] == [
        ["dev", "dev", "Deployment/api", "1", "1-28"],
        ["rest", "bad", "Deployment/sad", "1", "1-28"],
        ["rest", "shop", "Deployment/new", "1", "1-30"],
        ["rest", "shop", "Deployment/web", "1", "1-28"],
        ["rest", "shop", "Pod/bare-abc-1", "1", "1-28"],
    ]


class Expiring(FakeKube):
    """A cluster that loses the version of the first list of pods after a page."""

    is_lost = False

    async def texts(self, scope: Scope, token: str = "") -> tuple[list[bytes], str]:
        if token and scope.resource is PODS and not self.is_lost:
            self.is_lost = True
            raise failure("gone")
        return await super().texts(scope, token)


def test_pods_that_are_listed_again_are_counted_once(document: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = run("plan", document, "-o", "table").stdout
    client = Expiring(*CLUSTER)
    reached(monkeypatch, client)

    assert (run("plan", document, "-o", "table").stdout, client.is_lost) == (before, True)


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_data_has_the_waves_and_every_workload(document: str, output: str) -> None:
    data = yaml.safe_load(run("plan", document, "-o", output).stdout)

    assert data["waves"][0] == {
        "name": "dev", "workloads": 1, "actions": {"restart": 1}, "changes": {"image only": 1},
    }  # fmt: skip
    assert data["actions"] == {"restart": 2, "done": 1, "blocked": 2}
    assert data["workloads"][0] == {
        "namespace": "dev", "kind": "Deployment", "name": "api", "pods": {"1-28": 1}, "wave": "dev",
        "action": "restart", "change": "image only", "changes": ["image"],
    }  # fmt: skip
    assert (data["tag"], data["from"], data["to"]) == ("prod", "1-28", "1-30")


def test_the_levels_of_pod_security_are_shown(document: str, monkeypatch: pytest.MonkeyPatch) -> None:
    config = f"{CONFIG}        securityContext: {{privileged: true}}\n"
    cluster = [item for item in CLUSTER if "1-30" not in item["metadata"]["name"]]
    reached(monkeypatch, FakeKube(*cluster, *revision("1-30", "1.30.1", config=config)))

    summary = run("plan", document).stdout
    row = next(line for line in run("plan", document, "-o", "table").stdout.splitlines() if "/api" in line)
    workload = json.loads(run("plan", document, "-o", "json").stdout)["workloads"][0]

    assert (
        "\n3 restart: Pod Security baseline to privileged: Deployment dev/api, Deployment bad/sad, Deployment shop/web\n"
        in summary
    )
    assert row.endswith("image, security, podsecurity baseline to privileged")
    assert workload["podSecurity"] == {"old": "baseline", "new": "privileged"}


def test_the_api_server_checks_some_of_the_new_pods(document: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kube = FakeKube(*CLUSTER, refuses=lambda _: (422, "ValidatingAdmissionPolicy 'no-proxy' denied request"))
    reached(monkeypatch, kube)

    one, none = run("plan", document, "--confirm", "1").stdout, run("plan", document, "--confirm", "0").stdout

    assert [pod["metadata"]["namespace"] for pod in kube.tried] == ["dev"]
    denied = "1 blocked: 1-30 refuses its pods: dry run: ValidatingAdmissionPolicy 'no-proxy' denied request: "
    assert (f"{denied}Deployment dev/api\n" in one, denied in none) == (True, False)


@pytest.mark.parametrize(("surge", "blocked"), [(1, 1), (0, 0)])
def test_a_full_quota_blocks_only_a_restart_that_needs_one_more_pod(
    document: str, monkeypatch: pytest.MonkeyPatch, surge: int, blocked: int
) -> None:
    objects = copy.deepcopy(CLUSTER)
    for item in objects:
        if item["kind"] == "Deployment":
            item["spec"]["strategy"] = {"rollingUpdate": {"maxSurge": surge, "maxUnavailable": 1 - surge}}
    full = 'pods "x" is forbidden: exceeded quota: pods, requested: pods=1, used: pods=2, limited: pods=2'
    reached(monkeypatch, FakeKube(*objects, refuses=lambda _: (403, full)))

    entries = json.loads(run("plan", document, "-o", "json").stdout)["workloads"]
    assert [entry["name"] for entry in entries if "exceeded quota" in str(entry)] == ["api", "web"] * blocked


def test_that_the_api_server_cannot_be_asked_is_a_note(document: str, monkeypatch: pytest.MonkeyPatch) -> None:
    reached(monkeypatch, FakeKube(*CLUSTER, refuses=lambda _: (503, "is overloaded")))

    assert "note: the API server did not check the injected pods: is overloaded; x\n" in run("plan", document).stderr


def test_the_plan_names_missing_permissions(document: str, monkeypatch: pytest.MonkeyPatch) -> None:
    places = ("shop", "dev", *(f"place-{number:02}" for number in range(12)))
    more = [labelled(place, "prod") for place in places[2:]]
    more += [deployment("web", place) for place in places[2:]] + [pod_of("web", place, "1-28") for place in places[2:]]
    denied = tuple(f"patch deployments {place}" for place in places)
    reached(monkeypatch, FakeKube(*CLUSTER, *more, denied=denied))

    lines = [f"no permission to patch deployments in namespace {place}" for place in sorted(places)]
    assert json.loads(run("plan", document, "-o", "json").stdout)["missingPermissions"] == lines
    text = run("plan", document).stdout
    assert text.count("which the runner of the upgrade needs\n") == 10
    assert f"\n{lines[0]}, which the runner of the upgrade needs\n" in text
    assert "\nand 4 more permissions\n" in text
    assert f"- {lines[0]}, which" in run("plan", document, "-o", "markdown").stdout
    rows = run("plan", document, "-o", "table").stdout.splitlines()
    general = [row.split(maxsplit=7) for row in rows if row.startswith("- ")]
    assert general == [[*"-----", "permission", "missing", line] for line in lines]


def test_the_plan_names_missing_permissions_for_gateways(document: str, monkeypatch: pytest.MonkeyPatch) -> None:
    gateways = gateway_of("public", "shop"), gateway_of("private", "dev")
    reached(monkeypatch, FakeKube(*CLUSTER, *gateways, denied=("patch gateways dev", "patch gateways shop")))

    lines = [f"no permission to patch gateways in namespace {place}" for place in ("dev", "shop")]
    assert json.loads(run("plan", document, "-o", "json").stdout)["missingPermissions"] == lines


def test_a_plan_without_missing_permissions_says_so_as_data_and_files_have_none(document: str, tmp_path: Path) -> None:
    data = json.loads(run("plan", document, "-o", "json").stdout)
    of_files = json.loads(run("plan", document, "-f", written(tmp_path, *CLUSTER), "-o", "json").stdout)

    assert (data["missingPermissions"], "missingPermissions" in of_files) == ([], False)


def test_that_permissions_cannot_be_asked_for_is_a_note(document: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Api(FakeKube):
        async def create(self, resource: Any, manifest: Any, *, manager: str, dry_run: bool = False) -> dict[str, Any]:
            if resource.plural == "selfsubjectaccessreviews":
                raise refusal("forbidden", 403)
            return await super().create(resource, manifest, manager=manager, dry_run=dry_run)

    reached(monkeypatch, Api(*CLUSTER))
    assert "note: permissions cannot be checked: " in run("plan", document).stderr


@pytest.mark.parametrize(
    ("terminal", "flags", "answer", "expected"),
    [
        (True, (), "y\n", (True, 65)),
        (True, (), "n\n", (True, 1)),
        (True, (), "", (True, 1)),
        (True, ("-y",), "", (False, 65)),
        (True, ("--yes",), "", (False, 65)),
        (False, (), "", (False, 65)),
    ],
)
def test_a_start_is_confirmed_on_a_terminal_with_the_plan(
    document: str, monkeypatch: pytest.MonkeyPatch, terminal: Any, flags: Any, answer: str, expected: tuple[bool, int]
) -> None:
    monkeypatch.setattr("injector.cli.upgrade.is_dialog", lambda: terminal)
    result = invoke("upgrade", "run", document, *flags, text=answer)

    is_asked = "Start the upgrade up?" in result.stderr
    assert (is_asked, result.exit_code) == expected
    assert ("WAVE   RESTARTS" in result.stdout) == is_asked
    assert ("the cluster has no resource upgrades" in result.stderr) == (result.exit_code == 65)


def test_an_upgrade_that_is_under_way_or_has_ended_goes_on_without_a_question(
    stored: FakeApi, document: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("injector.cli.upgrade.is_dialog", lambda: True)
    for state, code in ((State(phase=PAUSED), 3), (State(phase=COMPLETED), 0)):
        stored.put(UPGRADES, stored_upgrade(state))
        for name in (document, "up"):
            result = run("run", name)
            assert (result.exit_code, "Start" in result.stderr) == (code, False)
    assert_fails(run("run", "nope"), 64, "no upgrade is called nope")


def test_markdown_is_for_pull_requests(document: str) -> None:
    text = run("plan", document, "-o", "markdown").stdout

    assert text.startswith("## Upgrade `up`: 1-28 to 1-30\n\n| Wave | Workloads | Changes |\n| --- | --- | --- |\n")
    assert "| rest | 4 | 2 image only, 1 refused |\n" in text
    assert "| rest | bad | Deployment/sad | 1 | 1-28 | refused | blocked | 1-30 refuses its pods |\n" in text


def test_a_plan_of_workloads_that_can_all_be_restarted_ends_with_0(
    document: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    reached(
        monkeypatch,
        FakeKube(*(item for item in CLUSTER if item["metadata"]["name"] not in ("sad", "sad-abc-1", "bare-abc-1"))),
    )

    assert run("plan", document).exit_code == 0


def test_the_objects_of_a_cluster_can_come_from_files(document: str, tmp_path: Path) -> None:
    result = run("plan", document, "-f", written(tmp_path, *CLUSTER), "--exit-code=false")

    assert result.exit_code == 0
    assert "\nworkloads: 2 restart, 1 done, 2 blocked\n" in result.stdout


def test_the_plan_lists_the_gateways_whose_owner_changes(document: str, tmp_path: Path) -> None:
    objects = (*CLUSTER, gateway_of("public", "shop"), gateway_of("pinned", "shop", {"istio.io/rev": "1-28"}))
    plan = partial(run, "plan", document, "-f", written(tmp_path, *objects))
    summary = plan()

    assert "1 gateways: owner 1-28 to 1-30, one at a time after the waves: Gateway shop/public\n" in summary.stdout
    assert "1-28 by their own label istio.io/rev: Gateway shop/pinned\n" in summary.stderr
    assert json.loads(plan("-o", "json").stdout)["gateways"] == [
        {
            "namespace": "shop",
            "name": "public",
            "class": "istio",
            "label": None,
            "owners": ["1-28"],
            "newOwners": ["1-30"],
        }
    ]
    assert "shop  Gateway/public" in " ".join(plan("-o", "table").stdout.split("       "))
    assert "| gateways | shop | Gateway/public | - | 1-28 | owner | move | owner 1-28 to 1-30 |" in (
        plan("-o", "markdown").stdout
    )


def test_pods_of_files_need_no_name(document: str, tmp_path: Path) -> None:
    objects = copy.deepcopy(CLUSTER)
    for item in objects:
        if item["kind"] == "Pod" and item["metadata"]["generateName"]:
            del item["metadata"]["name"]

    result = run("plan", document, "-f", written(tmp_path, *objects), "-o", "table")

    assert result.stdout == run("plan", document, "-o", "table").stdout


def test_a_namespace_whose_labels_are_not_known_is_skipped_with_a_note(document: str, tmp_path: Path) -> None:
    known = [item for item in CLUSTER if (item["kind"], item["metadata"]["name"]) != ("Namespace", "shop")]
    result = run("plan", document, "-f", written(tmp_path, *known))

    assert "note: skipped namespace shop: its labels are not known\n" in result.stderr
    assert "shop" not in result.stdout


@pytest.mark.parametrize(
    ("name", "path", "value", "says"),
    [
        ("Deployment web", ("spec", "replicas"), "three", "Deployment shop/web: spec.replicas: json: cannot unmarshal"),
        (
            "Deployment web",
            ("spec", "template"),
            None,
            "error: Deployment shop/web: spec.template is required value; give",
        ),
        ("Deployment api", ("metadata", "labels"), ["x"], "Deployment api: metadata.labels: json: cannot unmarshal"),
        ("Pod bare-abc-1", ("spec", "containers"), "x", "Pod shop/bare-abc-1: spec.containers: json: cannot unmarsh"),
        ("Pod web-abc-1", ("metadata", "annotations"), "x", "Pod web-abc-1: metadata.annotations: json: cannot unmar"),
        (
            "Pod web-abc-1",
            ("metadata", "ownerReferences"),
            "x",
            "Pod web-abc-1: metadata.ownerReferences: json: cannot",
        ),
    ],
)
def test_an_object_of_a_file_that_cannot_be_read_is_named(
    document: str, tmp_path: Path, name: str, path: tuple[str, str], value: Any, says: str
) -> None:
    objects = copy.deepcopy(CLUSTER)
    (wanted,) = (item for item in objects if f"{item['kind']} {item['metadata']['name']}" == name)
    wanted[path[0]][path[1]] = value

    assert_fails(run("plan", document, "-f", written(tmp_path, *objects)), 65, says)


@cases("spec", "code", "says")
def test_an_upgrade_that_the_cluster_cannot_do_is_refused_in_one_line(
    spec: dict[str, Any], code: int, says: str, tmp_path: Path
) -> None:
    assert_fails(run("plan", written(tmp_path, {**DOCUMENT, "spec": {**DOCUMENT["spec"], **spec}})), code, says)


def test_a_file_with_several_documents_is_refused(document: str, tmp_path: Path) -> None:
    file = tmp_path / "two.yaml"
    file.write_text(f"{Path(document).read_text()}\n---\n# a comment\n---\n{Path(document).read_text()}")

    assert_fails(run("plan", str(file)), 65, "it has several documents")


HOME = "istio-system"


def stored_upgrade(
    state: State, spec: dict[str, Any] = TWO_WAVES["spec"], *, beat_at: float | None = None, error: str = ""
) -> dict[str, Any]:
    """The resource of an upgrade, whose runner wrote its last sign of life at this time; by default just now."""
    beat = {"name": "laptop", "lastSeen": utc_text(time.time() if beat_at is None else beat_at), "lastError": error}
    return {**DOCUMENT, "spec": spec, "status": {**state.to_status(), "runner": beat}}


@pytest.fixture
def stored(monkeypatch: pytest.MonkeyPatch) -> FakeApi:
    """A cluster with an upgrade of two waves that restarts the workloads of the first."""
    api = FakeApi()
    reached(monkeypatch, api)
    state = State(
        step=RESTARTING,
        deadline=2e9,
        token=900.0,
        restarting={"Deployment dev/api": PlannedRestart(900.0, 900.0)},
        counts={"done": 3, "restarting": 1},
        gates={"latency": "pass: 1.1"},
        reason="waiting for a window",
    )
    api.put(UPGRADES, stored_upgrade(state))
    return api


def state_of(api: FakeApi) -> dict[str, Any]:
    status: dict[str, Any] = api.objects["upgrades", "", "up"]["status"]
    return status


@pytest.mark.usefixtures("stored")
def test_status_shows_the_waves_the_progress_and_the_gates() -> None:
    result = run("status", "up")

    assert (result.exit_code, result.stderr) == (0, "")
    assert re.sub(r"20\d\d-\S+Z", "TIME", result.stdout) == (
        "up: Running, wave dev, Restarting: 3 done, 1 restarting; waiting for a window\n"
        "runner: laptop, seen at TIME\n"
        "\n"
        "WAVE   PROGRESS\n"
        "dev    Restarting: 3 done, 1 restarting\n"
        "rest   -\n"
        "\n"
        "GATE      RESULT\n"
        "latency   pass: 1.1\n"
    )


@pytest.mark.usefixtures("stored")
def test_status_is_data_for_programs() -> None:
    data = json.loads(run("status", "up", "-o", "json").stdout)

    assert {key: data[key] for key in ("name", "tag", "from", "to", "phase", "wave", "counts")} == {
        "name": "up", "tag": "prod", "from": "1-28", "to": "1-30", "phase": "Running", "wave": 0,
        "counts": {"done": 3, "restarting": 1},
    }  # fmt: skip
    assert data["deadline"] == "2033-05-18T03:33:20Z"


def test_status_of_a_dead_runner_says_so_instead_of_a_forecast(stored: FakeApi) -> None:
    state = State(step=RESTARTING, total=4, left=2, pace_since=1.0, reason="waiting")
    stored.put(UPGRADES, stored_upgrade(state, beat_at=1e9))

    lines = run("status", "up").stdout.splitlines()
    assert lines[0] == (
        "up: Running, but no runner since 2001-09-09T01:46:40Z (laptop): start one with `injector upgrade run up`, "
        "or see the log of `injector serve --upgrades`"
    )
    assert lines[1] == "left: 2 of 4 workloads"
    assert "no runner since" in json.loads(run("status", "up", "-o", "json").stdout)["noRunner"]
    assert "no runner since" in run("list").stdout


def test_an_upgrade_whose_runner_cannot_go_on_says_why_before_and_after_its_start(stored: FakeApi) -> None:
    error = 'no revision is called "1-30"'
    running = stored_upgrade(State(step=RESTARTING, reason="waiting"), error=error)
    stored.put(UPGRADES, running)
    assert run("status", "up").stdout.splitlines()[0] == f"up: Running, but {error}"
    assert run("list").stdout.splitlines()[1].endswith(error)

    stored.put(UPGRADES, {**running, "status": {"runner": running["status"]["runner"]}})
    assert run("status", "up").stdout == f"up: not started; {error}\n"
    assert run("list").stdout.splitlines()[1].endswith(error)


def test_an_ended_upgrade_counts_no_workloads_that_are_to_be_restarted(stored: FakeApi) -> None:
    for phase, is_shown in ((RUNNING, True), (COMPLETED, False), (INCOMPLETE, False)):
        stored.put(UPGRADES, stored_upgrade(State(step=RESTARTING, phase=phase, total=201, left=195, pace_since=1.0)))

        assert ("left: 195 of 201 workloads" in run("status", "up").stdout) == is_shown


def test_the_upgrades_of_a_cluster_are_listed(stored: FakeApi) -> None:
    other = stored_upgrade(State(phase=COMPLETED), DOCUMENT["spec"])
    stored.put(UPGRADES, {**other, "metadata": {"name": "older"}})

    stored.put(UPGRADES, {**other, "metadata": {"name": "bad"}, "spec": {}})

    result = run("list")
    assert result.stderr.startswith("note: Upgrade bad: spec.from: it is missing")
    assert [line.split()[:5] for line in result.stdout.splitlines()[1:]] == [
        ["older", "prod", "1-28", "1-30", "Completed"],
        ["up", "prod", "1-28", "1-30", "Running"],
    ]


def test_the_work_that_is_left_is_shown_with_its_remedy_and_can_be_accepted(stored: FakeApi) -> None:
    remaining = (Remaining("Pod shop/bare", "a bare pod", "delete it"),)
    state = State(phase=INCOMPLETE, reason="1 item is left: Pod shop/bare").with_remaining(remaining)
    stored.put(UPGRADES, stored_upgrade(state))

    text = run("status", "up").stdout
    assert text.startswith("up: Incomplete; 1 item is left: Pod shop/bare\n")
    assert text.splitlines()[-1].split("   ")[0] == "Pod shop/bare"
    assert text.splitlines()[-1].endswith("delete it")
    assert run("accept", "up").stdout == "up: Completed; accepted by a user with 1 item left\n"
    assert state_of(stored)["phase"] == "Completed"


def test_the_definition_of_the_resource_is_printed() -> None:
    assert yaml.safe_load(run("crd").stdout)["metadata"]["name"] == "upgrades.revision-injector.dev"


@pytest.mark.parametrize(
    ("verb", "phase", "says"),
    [
        ("pause", "Paused", "up: Paused, wave dev, Restarting: 3 done, 1 restarting; paused by a user"),
        ("resume", "Running", "up: Running, wave dev, Restarting: 3 done, 1 restarting"),
        ("promote", "Running", "up: Running, wave rest, Preflight"),
        ("rollback", "RollingBack", "up: RollingBack, Moving: no workload; rolled back by a user"),
    ],
)
def test_a_command_stores_the_next_state_and_prints_it(stored: FakeApi, verb: str, phase: str, says: str) -> None:
    result = run(verb, "up")

    assert (result.exit_code, result.stdout, result.stderr) == (0, f"{says}\n", "")
    assert state_of(stored)["phase"] == phase


def test_an_aborted_upgrade_names_what_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = State(step=RESTARTING, deadline=2e9, token=900.0, tag_before={"revision": "1-28", "annotations": {}})
    resource = {"apiVersion": DOCUMENT["apiVersion"], "kind": "Upgrade", **stored_upgrade(begun)}
    reached(monkeypatch, FakeKube(*CLUSTER, resource))

    result = run("abort", "up")
    head = "up: Aborted; aborted by a user: the tag and the pods stay as they are; left: "
    assert (result.exit_code, result.stderr, result.stdout[: len(head)]) == (0, "", head)
    row = [
        "Deployment shop/web",
        "pods with revision 1-28: 1: it was not restarted",
        "`injector upgrade run up --again` restarts it",
    ]
    for text in (result.stdout, run("status", "up").stdout):
        assert row in [re.split(r"  +", line) for line in text.splitlines()]


def test_an_upgrade_is_aborted_also_if_the_cluster_cannot_be_read(stored: FakeApi) -> None:
    result = run("abort", "up")

    assert result.stdout.startswith(
        "up: Aborted; aborted by a user: the tag and the pods stay as they are; left: Deployment dev/api\n"
    )
    assert result.stderr.startswith("note: there may be more left, since the cluster cannot be read: ")
    assert (result.exit_code, state_of(stored)["remaining"][0]["workload"]) == (0, "Deployment dev/api")


@pytest.mark.parametrize("verb", ["status", "pause", "resume", "promote", "abort", "rollback"])
def test_an_unknown_upgrade_is_an_error(stored: FakeApi, verb: str) -> None:
    del stored
    assert_fails(run(verb, "nope"), 64, "no upgrade is called nope; `injector upgrade list` shows those of the cluster")
    for name in ("", "up/status"):
        assert_fails(run(verb, name), 64, f"NAME: {name!r} is not a name of an upgrade")


def test_a_command_after_the_end_is_refused(stored: FakeApi) -> None:
    assert run("abort", "up").exit_code == 0

    assert_fails(run("resume", "up"), 64, "the upgrade up has ended: it is Aborted")
    assert state_of(stored)["phase"] == "Aborted"


def test_a_workload_is_skipped_and_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    state = State(
        step=RESTARTING, deadline=2e9, token=900.0, tag_before={"revision": "1-28", "annotations": {}}, phase=PAUSED
    )
    resource = {"apiVersion": DOCUMENT["apiVersion"], "kind": "Upgrade", **stored_upgrade(state)}
    reached(monkeypatch, FakeKube(*CLUSTER, resource))

    assert (
        run("skip", "up", "shop/deployment/web").stdout
        == "Deployment shop/web: skipped\nup: Paused, wave dev, Restarting\n"
    )
    assert "\nskipped: Deployment shop/web\n" in run("status", "up").stdout
    assert run("retry", "up", "Deployment", "shop/web").stdout.startswith("Deployment shop/web: is tried again\n")
    assert "skipped" not in run("status", "up").stdout
    unknown = run("skip", "up", "shop/deployment/wbe")
    assert_fails(unknown, 65, "upgrade up has no workload 'shop/deployment/wbe' (did you mean shop/Deployment/web?)")
    assert_fails(
        run("retry", "up", "bad/deployment/sad"), 64, "Deployment bad/sad is in wave rest, which has not begun"
    )


def test_watching_ends_with_the_upgrade(stored: FakeApi) -> None:
    run("abort", "up")

    result = run("status", "up", "--watch")
    assert re.fullmatch(r"20\d\d-\S+Z up: Aborted; aborted by a user: .+\n", result.stdout)
    assert stored.count("get") == 2
    assert json.loads(run("status", "up", "--watch", "-o", "json").stdout)["phase"] == "Aborted"


def test_a_terminal_keeps_the_table_in_place(stored: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("injector.cli.upgrade.has_cursor", lambda: True)

    def end() -> float:
        if stored.count("get") == 2:  # it has been shown once
            stored.put(UPGRADES, stored_upgrade(State(phase=COMPLETED)))
        return 0.0

    stored.delay = end
    monkeypatch.setattr("injector.cli.upgrade.INTERVAL", 0.0)
    first, second = run("status", "up", "--watch").stdout.split("\x1b[9F")
    assert first.startswith("up: Running, wave dev, Restarting: 3 done, 1 restarting; waiting for a window\x1b[K\n")
    assert second.startswith("up: Completed\x1b[K\n")


def test_a_forecast_is_shown_while_a_runner_is_at_work(stored: FakeApi) -> None:
    state = State(deadline=2e9, counts={"done": 1}, total=4, left=3, pace_since=1.0)
    stored.put(UPGRADES, stored_upgrade(state, DOCUMENT["spec"]))

    assert "left: 3 of 4 workloads, about " in run("status", "up").stdout
    assert run("pause", "up").stdout == "up: Paused, wave all, Preflight: 1 done; paused by a user\n"


def test_the_plan_of_a_resource_is_that_of_its_document(monkeypatch: pytest.MonkeyPatch) -> None:
    reached(monkeypatch, FakeKube(*CLUSTER, DOCUMENT))

    assert "\nworkloads: 2 restart, 1 done, 2 blocked\n" in run("plan", "up").stdout


@pytest.mark.parametrize(
    ("state", "code", "says"),
    [
        (State(phase=COMPLETED), 0, "up: Completed\n"),
        (State(phase=PAUSED, reason="why"), 3, "up: Paused, wave dev, Preflight; why\n"),
        (State(phase=ROLLED_BACK, reason="rolled back by a user"), 4, "up: RolledBack; rolled back by a user\n"),
        (State(phase=ABORTED), 5, "up: Aborted\n"),
        (State(phase=INCOMPLETE, reason="1 item is left"), 6, "up: Incomplete; 1 item is left\n"),
    ],
)
def test_an_upgrade_that_has_ended_or_is_paused_is_not_run_and_has_its_exit_code(
    stored: FakeApi, document: str, state: State, code: int, says: str
) -> None:
    stored.put(UPGRADES, stored_upgrade(state))

    for _ in range(3):
        result = run("run", document)
        assert (result.exit_code, result.stdout) == (code, says)
        assert ("is not started again without --again" in result.stderr) == state.has_ended
    assert run("run", "up").exit_code == code
    assert state_of(stored)["phase"] == state.phase
    assert "merge" not in [call for _, call in stored.calls]


class GitOps(FakeApi):
    """A cluster in which another tool writes each document again as it is in Git, with ``run: 1``."""

    async def replace(
        self, resource: Resource, manifest: Mapping[str, Any], *, manager: str, subresource: str = ""
    ) -> dict[str, Any]:
        stored = await super().replace(resource, manifest, manager=manager, subresource=subresource)
        if resource == UPGRADES and not subresource:
            self.put(UPGRADES, {**stored, "spec": {**stored["spec"], "run": 1}})
        return stored


def test_a_run_that_another_tool_takes_back_is_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    api = GitOps()
    reached(monkeypatch, api)
    api.put(UPGRADES, stored_upgrade(State(phase=ROLLED_BACK)))

    result = run("run", "up", "--again")
    assert_fails(result, 64, "another writer has set `run` of the upgrade up back to 1, and it was not started")
    assert "write `run: 2` in the document that is applied, such as in Git" in result.stderr


def test_a_run_that_fails_leaves_its_error_in_the_status(stored: FakeApi, document: str) -> None:
    stored.refused["list deployments"] = "forbidden"

    assert_fails(run("run", document), 1, "the API server says no to list deployments")
    assert "says no to list deployments" in state_of(stored)["runner"]["lastError"]


def test_a_cluster_without_the_resource_says_the_command_that_installs_it(
    document: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    reached(monkeypatch, FakeApi())

    for command in (("run", document), ("status", "up"), ("run", "up")):
        assert_fails(
            run(*command), 65, "the cluster has no resource upgrades.revision-injector.dev; run `injector upgrade crd"
        )


async def test_upgrades_of_a_server_are_planned_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, busiest = [0], [0]

    async def read(*_: object) -> None:
        reading[0] += 1
        busiest[0] = max(busiest[0], reading[0])
        await asyncio.sleep(0.02)
        reading[0] -= 1
        raise TagError("no tag")

    monkeypatch.setattr(survey, "read_fleet", read)
    surveyor = Surveyor(FakeApi(), RevisionSources(None, HOME))
    runs = [surveyor.start(upgrade()) for _ in range(3)]

    assert [str(error) for error in await asyncio.gather(*runs, return_exceptions=True)] == ["no tag"] * 3
    assert busiest == [1]
