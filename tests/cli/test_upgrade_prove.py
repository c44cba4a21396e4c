"""``injector upgrade plan --prove``: the new pods of a plan beside those of the running istiod of the new revision."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from injector.errors import ClusterError
from injector.revisions.source import build
from tests.cli.clusters import (
    ProxyingKube,
    assert_fails,
    config_maps,
    deployment,
    invoke,
    istiod_webhook,
    labelled,
    owned,
    reached,
    revision,
    tag,
    written,
)
from tests.factories import make_container
from tests.istiods import Answering, Review, answer, injecting, patching, refusing, replacing_image, serving
from tests.revisions.fakes import CONFIG, VALUES, make_raw
from tests.upgrade.fleets import DOCUMENT

STATUS = "sidecar.istio.io/status"
NEW_VALUES = VALUES.replace("1.24.6", "1.30.1")
BY_LABEL = CONFIG.replace("{{ .Values.global.tag }}", "{{ .ObjectMeta.Labels.a | default .Values.global.tag }}")
WHERE = "Service istio-system/istiod-1-30, port 443, path /inject"
DOCUMENTED = "the guard refuses a value of the pod that breaks out of the template, which Istio does not check"

plan = partial(invoke, "upgrade", "plan")


def pod_of(name: str, place: str, rev: str) -> dict[str, Any]:
    status = {STATUS: json.dumps({"containers": ["istio-proxy"], "revision": rev})}
    return {"kind": "Pod", "apiVersion": "v1", **owned(name, place, annotations=status)}


def objects() -> tuple[dict[str, Any], ...]:
    """Two revisions, a tag, and four workloads of it, of which one has moved and one stays."""
    stays = deployment("odd", "shop")
    stays["spec"]["template"]["metadata"]["annotations"] = {"revision-injector/pin": "1-28"}
    return (
        *revision("1-28", "1.28.0"),
        *config_maps("1-30", config=BY_LABEL, values=NEW_VALUES),
        istiod_webhook("1-30"),
        tag("prod", "1-28"),
        labelled("shop", "prod"),
        *(deployment(name, "shop") for name in ("lone", "moved", "web")),
        stays,
        *(pod_of(name, "shop", "1-28") for name in ("lone", "odd", "web")),
        pod_of("moved", "shop", "1-30"),
    )


def istio() -> Answering:
    """What answers as the istiod of the new revision."""
    return injecting(build(make_raw("1-30", config=BY_LABEL, values=NEW_VALUES)))


def for_lone(other: Answering) -> Answering:
    """Return what answers as the istiod, but differently for the workload `lone`."""
    right = istio()
    return lambda path, review: (other if '"lone' in json.dumps(review) else right)(path, review)


Proxied = Callable[..., ProxyingKube]


@pytest.fixture
def proxied(monkeypatch: pytest.MonkeyPatch) -> Proxied:
    """Lets commands reach a cluster whose istiod answers so."""

    def proxying(answering: Answering, *of_cluster: dict[str, Any]) -> ProxyingKube:
        kube = ProxyingKube(*(of_cluster or objects()), answering=answering)
        reached(monkeypatch, kube)
        return kube

    return proxying


@pytest.fixture
def document(tmp_path: Path) -> str:
    """The name of a file with an upgrade of a tag from 1-28 to 1-30."""
    (tmp_path / "up.yaml").write_text(yaml.safe_dump(DOCUMENT))
    return str(tmp_path / "up.yaml")


def test_workloads_that_istiod_injects_alike_are_the_same(proxied: Proxied, document: str) -> None:
    kube = proxied(istio())

    result = plan(document, "--prove")

    assert result.exit_code == 0, result.output
    assert f"\nbeside {WHERE}: 3 same\nworkloads: " in result.stdout
    assert sorted(review["request"]["object"]["metadata"]["labels"]["app"] for _, review in kube.posted) == [
        "lone", "moved", "web",
    ]  # fmt: skip
    assert all(review["request"]["dryRun"] for _, review in kube.posted)


def test_a_plan_without_the_flag_asks_no_istiod(proxied: Proxied, document: str) -> None:
    kube = proxied(istio())

    assert "beside" not in plan(document).stdout
    assert "proof" not in json.loads(plan(document, "-o", "json").stdout)
    assert kube.posted == []


OTHERS: dict[str, tuple[Answering, str]] = {
    "another image": (
        replacing_image(istio(), "wrong:1"),
        "1 differs: containers[istio-proxy].image: Deployment shop/lone",
    ),
    "left alone": (
        lambda _, review: answer(review),
        "1 differs: decision skipped: istiod leaves the pod as it is -> injected: Deployment shop/lone",
    ),
    "refused": (
        lambda _, review: refusing(review, "no templates\nfor you"),
        "1 differs: decision refused: istiod: no templates for you -> injected: Deployment shop/lone",
    ),
    "another uid": (
        lambda _, review: answer(review, uid="other"),
        "1 not compared: no answer: its answer is to another review: the uid differs: Deployment shop/lone",
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_the_plan_names_what_differs_and_what_was_not_compared(proxied: Proxied, document: str, name: str) -> None:
    other, line = OTHERS[name]
    proxied(for_lone(other))

    result = plan(document, "--prove")

    outcome = line.partition(" ")[2].partition(":")[0]
    assert result.exit_code == 1
    assert f"\nbeside {WHERE}: 2 same, 1 {outcome}\n{line}\nworkloads: " in result.stdout
    assert plan(document, "--prove", "--exit-code=false").exit_code == 0


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_data_has_the_counts_and_the_outcome_of_each_workload(proxied: Proxied, document: str, output: str) -> None:
    proxied(for_lone(replacing_image(istio(), "wrong:1")))

    data = yaml.safe_load(plan(document, "--prove", "-o", output).stdout)

    assert data["proof"] == {"istiod": WHERE, "same": 2, "documented": 0, "differs": 1, "notCompared": 0}
    assert {entry["name"]: entry.get("proof") for entry in data["workloads"]} == {
        "lone": {"outcome": "differs", "paths": ["containers[istio-proxy].image"]},
        "moved": {"outcome": "same"},
        "web": {"outcome": "same"},
        "odd": None,
    }


def test_the_table_has_a_column_with_the_outcome(proxied: Proxied, document: str) -> None:
    proxied(for_lone(replacing_image(istio(), "wrong:1")))

    head, *rows = plan(document, "--prove", "-o", "table").stdout.splitlines()

    assert head.split()[-1] == "PROOF"
    ends = {row.split()[2]: row.rpartition("   ")[2] for row in rows}
    assert ends["Deployment/lone"] == "differs: containers[istio-proxy].image"
    assert (ends["Deployment/web"], ends["Deployment/odd"]) == ("same", "-")


def test_markdown_lists_the_outcome(proxied: Proxied, document: str) -> None:
    proxied(for_lone(replacing_image(istio(), "wrong:1")))

    text = plan(document, "--prove", "-o", "markdown").stdout

    assert "2 same, 1 differs\n" in text
    assert (
        "\n- <code>1 differs&#58; containers&#91;istio-proxy&#93;&#46;image&#58; Deployment shop/lone</code>\n" in text
    )


def test_a_documented_difference_is_named_and_no_finding(proxied: Proxied, document: str) -> None:
    hostile = deployment("lone", "shop")
    hostile["spec"]["template"]["metadata"]["labels"] = {"a": "x\n  - name: other\n    image: other"}
    proxied(istio(), *(hostile if item == deployment("lone", "shop") else item for item in objects()))

    result = plan(document, "--prove")

    assert (
        f"\nbeside {WHERE}: 2 same, 1 documented\n1 documented: {DOCUMENTED}: Deployment shop/lone\n" in result.stdout
    )
    assert "1 blocked: 1-30 refuses its pods" in result.stdout


def test_values_that_istiod_makes_at_random_are_a_note(proxied: Proxied, document: str) -> None:
    count = iter(range(100))
    right = istio()

    def random(path: str, review: Review) -> bytes:
        return replacing_image(right, f"random:{next(count)}")(path, review)

    proxied(random)

    result = plan(document, "--prove")

    assert (result.exit_code, "3 same" in result.stdout) == (0, True)
    assert "note: containers[istio-proxy].image differs among istiod's own answers, so it is not compared: 3" in (
        result.stderr
    )


def test_an_istiod_that_cannot_be_asked_does_not_hide_the_plan(proxied: Proxied, document: str) -> None:
    what = 'the API server fails (HTTP 503): no endpoints available for service "istiod-1-30"'

    def failing(_path: str, _review: Review) -> bytes:
        raise ClusterError(what, hint="x", reason="server", status=503)

    proxied(failing)

    result = plan(document, "--prove")

    assert result.exit_code == 1
    assert result.stdout.startswith("up: tag prod, 1-28 to 1-30\n")
    names = "Deployment shop/lone, Deployment shop/moved, Deployment shop/web"
    remedy = "check that istiod is running; the proxy reaches only pods: for an istiod elsewhere, give --istiod-url"
    assert f"beside {WHERE}: 3 not compared\n3 not compared: {what}; {remedy}: {names}\n" in result.stdout


def test_what_was_compared_before_a_fault_stays(
    proxied: Proxied, document: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("injector.fleet.istiod._AT_A_TIME", 1)
    right = istio()

    def failing(path: str, review: Review) -> bytes:
        if '"web' in json.dumps(review):
            raise ClusterError("services is forbidden", hint="x", reason="forbidden", status=403)
        return right(path, review)

    proxied(failing)

    result = plan(document, "--prove")

    assert result.exit_code == 1
    assert f"\nbeside {WHERE}: 2 same, 1 not compared\n1 not compared: the API server forbids it" in result.stdout
    assert ": Deployment shop/web\n" in result.stdout


def test_a_reason_has_no_values_of_the_users_variables(proxied: Proxied, document: str) -> None:
    secret = deployment("lone", "shop")
    containers = [make_container(env=[{"name": "PASSWORD", "value": "hunter2-hunter2"}])]
    secret["spec"]["template"]["spec"]["containers"] = containers
    wrong = [{"op": "replace", "path": "/spec/containers/0/env/0/nope/deep", "value": 1}]
    proxied(
        for_lone(lambda _, review: patching(review, wrong)),
        *(secret if item == deployment("lone", "shop") else item for item in objects()),
    )

    for output in ("summary", "json", "markdown", "table"):
        text = plan(document, "--prove", "-o", output).output
        assert "hunter2" not in text
        assert ("PASSWORD" in text, "operation" in text) == (False, True)


def test_a_missing_permission_is_named_with_the_plan(proxied: Proxied, document: str) -> None:
    def forbidding(_path: str, _review: Review) -> bytes:
        raise ClusterError("services is forbidden", hint="x", reason="forbidden", status=403)

    proxied(forbidding)

    result = plan(document, "--prove")

    permission = (
        "the verb `create` on the resource `services/proxy`, name `https:istiod-1-30:443`, in namespace istio-system"
    )
    assert result.exit_code == 1
    assert f"\n3 not compared: the API server forbids it: services is forbidden; grant the account {permission}: " in (
        result.stdout
    )


def test_a_revision_without_an_istiod_is_an_error_with_the_remedy(proxied: Proxied, document: str) -> None:
    proxied(istio(), *(item for item in objects() if item != istiod_webhook("1-30")))

    assert_fails(plan(document, "--prove"), 64, 'no webhook of the cluster has the revision or tag "1-30"')


def test_each_cluster_has_its_proof(proxied: Proxied, document: str) -> None:
    proxied(for_lone(replacing_image(istio(), "wrong:1")))
    clusters = ("--prove", "--context", "east", "--context", "west")

    text, table = plan(document, *clusters).stdout, plan(document, *clusters, "-o", "table").stdout
    data = json.loads(plan(document, *clusters, "-o", "json").stdout)["clusters"]

    assert text.count(f"beside {WHERE}: 2 same, 1 differs\n") == 2
    assert table.count("   differs: containers[istio-proxy].image\n") == 2
    assert [(one["cluster"], one["proof"]["differs"]) for one in data] == [("east", 1), ("west", 1)]


def test_files_are_compared_with_the_istiod_of_a_url(document: str, tmp_path: Path) -> None:
    files = written(tmp_path, *objects())
    with serving(for_lone(lambda _, review: answer(review))) as (url, received):
        result = plan(document, "-f", files, "--prove", "--istiod-url", url)

    assert result.exit_code == 1
    assert f"\nbeside {url}/inject: 2 same, 1 differs\n1 differs: decision skipped: " in result.stdout
    assert {path for path, _ in received} == {"/inject"}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--istiod-url", "https://a/inject"), "--istiod-url has no effect without --prove"),
        (("--istiod-timeout", "3"), "--istiod-timeout has no effect without --prove"),
        (("--prove", "--istiod-ca", "x"), "--istiod-ca has no effect without --istiod-url"),
        (("--prove", "-f", "x.yaml"), "--prove: files have no running istiod"),
    ],
)
def test_flags_without_effect_are_refused(document: str, arguments: tuple[str, ...], says: str) -> None:
    assert_fails(plan(document, *arguments), 64, says)
