"""``injector upgrade``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from injector.cli import main
from tests.cases import cases
from tests.cli.clusters import FakeKube, assert_fails, deployment, labelled, owned, reached, revision, tag
from tests.revisions.fakes import CONFIG
from tests.upgrade.fleets import DOCUMENT

STATUS = "sidecar.istio.io/status"
REFUSING = CONFIG.replace(
    "        image:", '        {{ if eq .ObjectMeta.Namespace "bad" }}{{ fail "no" }}{{ end }}\n        image:'
)


def pod_of(name: str, place: str, rev: str, **fields: Any) -> dict[str, Any]:
    status = {STATUS: json.dumps({"containers": ["istio-proxy"], "revision": rev})}
    return {"kind": "Pod", "apiVersion": "v1", **owned(name, place, annotations=status, **fields)}


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


@pytest.fixture
def document(tmp_path: Path) -> str:
    return written(tmp_path, {"waves": [{"name": "dev", "namespaces": ["dev"]}, {"name": "rest"}]})


def written(tmp_path: Path, spec: Mapping[str, Any]) -> str:
    path = tmp_path / "up.yaml"
    path.write_text(yaml.safe_dump({**DOCUMENT, "spec": {**DOCUMENT["spec"], **spec}}))
    return str(path)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["upgrade", *arguments])


def test_the_summary_counts_each_wave_and_names_what_does_not_move(
    document: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    reached(monkeypatch, FakeKube(*CLUSTER))
    result = run("plan", document)

    assert result.exit_code == 1
    assert result.stdout == (
        "up: tag prod, 1-28 to 1-30\n"
        "\n"
        "WAVE   RESTARTS   IDENTICAL   IMAGE ONLY   RESOURCES   SECURITY   OTHER   REFUSED\n"
        "dev    1          0           1            0           0          0       0\n"
        "rest   1          0           2            0           0          0       1\n"
        "\n"
        '1 blocked: 1-30 refuses its pods: template: sidecar:4:46: executing "sidecar" at <fail "no">: '
        "error calling fail: no: Deployment bad/sad\n"
        "1 blocked: a bare pod: delete it and create it again: Pod shop/bare-abc-1\n"
        "workloads: 2 restart, 1 done, 2 blocked\n"
    )
    assert result.stderr == (
        "note: 1 workloads use revision 1-28 by their own label or that of their namespace, not by the tag\n"
    )


def test_the_table_has_a_row_for_each_workload(document: str, monkeypatch: pytest.MonkeyPatch) -> None:
    reached(monkeypatch, FakeKube(*CLUSTER))
    lines = run("plan", document, "-o", "table").stdout.splitlines()

    assert lines[0].split() == ["WAVE", "NAMESPACE", "WORKLOAD", "PODS", "HAS", "CHANGE", "ACTION", "NOTE"]
    assert [line.split()[:5] for line in lines[1:]] == [
        ["dev", "dev", "Deployment/api", "1", "1-28"],
        ["rest", "bad", "Deployment/sad", "1", "1-28"],
        ["rest", "shop", "Deployment/new", "1", "1-30"],
        ["rest", "shop", "Deployment/web", "1", "1-28"],
        ["rest", "shop", "Pod/bare-abc-1", "1", "1-28"],
    ]


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_data_has_the_waves_and_every_workload(document: str, output: str, monkeypatch: pytest.MonkeyPatch) -> None:
    reached(monkeypatch, FakeKube(*CLUSTER))
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


def test_markdown_is_for_pull_requests(document: str, monkeypatch: pytest.MonkeyPatch) -> None:
    reached(monkeypatch, FakeKube(*CLUSTER))
    text = run("plan", document, "-o", "markdown").stdout

    assert text.startswith("## Upgrade `up`: 1-28 to 1-30\n\n| Wave | Workloads | Changes |\n| --- | --- | --- |\n")
    assert "| rest | 4 | 2 image only, 1 refused |\n" in text
    assert "| rest | bad | Deployment/sad | 1 | 1-28 | refused | blocked | 1-30 refuses its pods |\n" in text


def test_a_plan_of_workloads_that_can_all_be_restarted_ends_with_0(
    document: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    reached(
        monkeypatch,
        FakeKube(*(each for each in CLUSTER if each["metadata"]["name"] not in ("sad", "sad-abc-1", "bare-abc-1"))),
    )

    assert run("plan", document).exit_code == 0


def test_the_objects_of_a_cluster_can_come_from_files(document: str, tmp_path: Path) -> None:
    (tmp_path / "all.yaml").write_text(yaml.safe_dump({"kind": "List", "apiVersion": "v1", "items": list(CLUSTER)}))
    result = run("plan", document, "-f", str(tmp_path / "all.yaml"), "--exit-code=false")

    assert result.exit_code == 0
    assert result.stdout.endswith("workloads: 2 restart, 1 done, 2 blocked\n")


@cases("spec", "code", "says")
def test_an_upgrade_that_the_cluster_cannot_do_is_refused_in_one_line(
    spec: dict[str, Any], code: int, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reached(monkeypatch, FakeKube(*CLUSTER))

    assert_fails(run("plan", written(tmp_path, spec)), code, says)
