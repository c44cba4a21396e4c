from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from click.testing import CliRunner

from injector.cli import main
from injector.cli.clusterview import RUNNING
from injector.injection.pipeline import inject_pod
from injector.injection.result import Injected, RequestFacts
from injector.revisions.build import build
from tests.cli.clusters import FakeKube, labelled, owned, reached, revision, tag
from tests.revisions.fakes import VALUES, make_raw

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result

REVISIONS = (*revision("1-24", "1.24.6"), *revision("1-30", "1.30.1"), tag("prod", "1-30"))


def injected(name: str, place: str, rev: str = "1-24", version: str = "1.24.6") -> dict[str, Any]:
    made = build(make_raw(rev, values=VALUES.replace("1.24.6", version)))
    answer = inject_pod(made, owned(name, place), RequestFacts(place))
    assert isinstance(answer, Injected)
    return {"apiVersion": "v1", "kind": "Pod", **answer.pod}


CURRENT = injected("web", "shop", "1-30", "1.30.1")
OLDER = injected("old", "shop")
SHOP = labelled("shop", "prod")


def status(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["revision", "status", *arguments])


def filed(tmp_path: Path, *objects: dict[str, Any]) -> str:
    (tmp_path / "all.yaml").write_text(yaml.safe_dump({"kind": "List", "apiVersion": "v1", "items": list(objects)}))
    return str(tmp_path / "all.yaml")


def test_the_table_has_a_row_for_each_workload_and_drift_ends_with_1(tmp_path: Path) -> None:
    result = status("-f", filed(tmp_path, *REVISIONS, SHOP, CURRENT, OLDER, owned("bare", "shop") | {"kind": "Pod"}))

    assert (result.exit_code, result.stderr) == (1, "")
    assert result.stdout == (
        "NAMESPACE   WORKLOAD          PODS   HAS    WOULD GET   STATE\n"
        "shop        Deployment/bare   1      -      1-30        missing sidecar\n"
        "shop        Deployment/old    1      1-24   1-30        older revision\n"
        "shop        Deployment/web    1      1-30   1-30        current\n"
        "\n"
        "pods: 1 current, 1 older revision, 1 missing sidecar\n"
    )


def test_where_all_is_current_it_ends_with_0_and_so_does_drift_that_may_be(tmp_path: Path) -> None:
    assert status("-f", filed(tmp_path, *REVISIONS, SHOP, CURRENT)).exit_code == 0
    assert status("-f", filed(tmp_path, *REVISIONS, SHOP, OLDER), "--exit-code=false").exit_code == 0


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_it_is_data_too(tmp_path: Path, output: str) -> None:
    result = status("-f", filed(tmp_path, *REVISIONS, SHOP, OLDER), "-o", output)

    found = json.loads(result.stdout) if output == "json" else yaml.safe_load(result.stdout)
    assert found["workloads"] == [
        {
            "namespace": "shop",
            "kind": "Deployment",
            "name": "old",
            "pods": 1,
            "has": "1-24",
            "wouldGet": "1-30",
            "state": "older revision",
        }
    ]
    assert found["pods"]["older revision"] == 1
    assert found["pods"]["current"] == 0


def test_revisions_can_be_a_folders(tmp_path: Path) -> None:
    (tmp_path / "r" / "1-30").mkdir(parents=True)
    (tmp_path / "r" / "1-30" / "config").write_text(make_raw().config)
    (tmp_path / "r" / "1-30" / "values").write_text(VALUES.replace("1.24.6", "1.30.2"))
    (tmp_path / "r" / "tags.yaml").write_text("prod: 1-30\n")

    result = status("-f", filed(tmp_path, *REVISIONS, SHOP, CURRENT), "--revisions-dir", str(tmp_path / "r"))

    assert "older template" in result.stdout


def test_the_cluster_is_asked_without_files_and_for_no_pod_that_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    client = FakeKube(*REVISIONS, SHOP, labelled("other", "prod"), CURRENT, OLDER)
    reached(monkeypatch, client)

    assert status().exit_code == 1
    assert client.asked[-1] == f"list pods by {RUNNING}"
    assert "Deployment/old" in status("-n", "shop").stdout
    assert client.asked[-1] == f"list pods in shop by {RUNNING}"
    assert status("-n", "other").stdout == "no pod has a sidecar or would get one\n"


def test_a_permission_that_lacks_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    reached(monkeypatch, FakeKube(*REVISIONS, SHOP, forbidden=("pods",)))

    result = status()

    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (1, "", 1)
    assert 'cannot list resource "pods"' in result.stderr


def test_what_cannot_be_told_is_noted(tmp_path: Path) -> None:
    unread = revision("half", "1.30.1")[:1]

    result = status("-f", filed(tmp_path, *REVISIONS[:2], *unread, injected("lost", "nowhere")))

    assert result.exit_code == 0
    notes = result.stderr.splitlines()
    assert notes[:2] == [
        "note: no webhook calls an injector: there is none with path /inject that is asked about pods",
        "note: namespace nowhere is left out: nothing says which labels it has",
    ]
    assert "a revision cannot be used: ConfigMap istio-system/istio-sidecar-injector-half" in notes[2]


@pytest.mark.parametrize(
    ("objects", "arguments", "code", "says"),
    [
        ((), (), 65, "there is no object in the files"),
        ((SHOP,), (), 64, "there is no revision of Istio's; give --revisions-dir or --istio-namespace"),
        (REVISIONS, ("-n", "nope"), 65, "there is no Namespace nope"),
        (REVISIONS, ("-o", "wide"), 64, "'wide' is not one of 'table', 'json', 'yaml'"),
        (
            (*REVISIONS, SHOP, {**OLDER, "spec": {"containers": "x"}}),
            (),
            65,
            "Pod shop/old-abc-1: ",
        ),
    ],
)
def test_wrong_flags_are_64_and_bad_input_is_65(
    tmp_path: Path, objects: tuple[dict[str, Any], ...], arguments: tuple[str, ...], code: int, says: str
) -> None:
    result = status("-f", filed(tmp_path, *objects), *arguments)

    assert (result.exit_code, result.stdout) == (code, "")
    assert says in result.stderr
