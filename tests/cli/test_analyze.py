"""``injector analyze``: messages about files and clusters, thresholds, formats and exit codes."""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import Result

from injector.istio.analysis import MESSAGES
from injector.revisions.directory import EMBEDDED
from tests.cases import cases
from tests.cli.clusters import (
    HOME,
    FakeKube,
    assert_fails,
    deployment,
    invoke,
    labelled,
    namespace,
    reached,
    revision,
    tag,
    written,
)
from tests.factories import make_pod
from tests.revisions.fakes import VALUES, write_revision

MISSING = "This can often be resolved by restarting or redeploying the workload."
UNKNOWN_NAME = make_pod(namespace="shop", name="web", annotations={"x.istio.io/y": "z"})


analyze = partial(invoke, "analyze")


@pytest.fixture(autouse=True)
def examples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let files that have no revision use the embedded examples."""
    monkeypatch.setenv("INJECTOR_REVISIONS_DIR", str(EMBEDDED))


def live(monkeypatch: pytest.MonkeyPatch, *objects: dict[str, Any]) -> FakeKube:
    """A cluster with the revision 1-24, its tag prod, the injector's Service and these objects."""
    service = {"kind": "Service", "metadata": {"name": "injector", "namespace": "injector-system"}}
    kube = FakeKube(*revision("1-24", "1.24.6"), tag("prod", "1-24"), service, *objects)
    reached(monkeypatch, kube)
    monkeypatch.delenv("INJECTOR_REVISIONS_DIR", raising=False)
    return kube


def codes(result: Result) -> list[str]:
    return [line.partition("[")[2].partition("]")[0] for line in result.stdout.splitlines()]


def test_files_are_analyzed_with_their_places(tmp_path: Path) -> None:
    enabled = namespace("shop", **{"istio-injection": "enabled"})
    path = written(tmp_path, enabled, make_pod(namespace="shop", name="web"))

    result = analyze(path)

    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == (
        f"Warning [IST0103] (Pod shop/web {path}:8) The pod shop/web is missing the Istio proxy. {MISSING}\n"
    )


def test_pods_without_a_name_have_their_own_places(tmp_path: Path) -> None:
    meta = {"generateName": "web-", "namespace": "shop", "annotations": {"x.istio.io/y": "z"}}
    path = written(tmp_path, *({**make_pod(), "metadata": {**meta, "labels": {"n": str(n)}}} for n in range(2)))

    places = re.findall(rf"{re.escape(path)}:(\d+)", analyze(path).stdout)

    assert places == ["1", str(Path(path).read_text().partition("---")[0].count("\n") + 2)]


def test_a_folder_is_read_with_its_subfolders_and_stdin_and_flags_work_too(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    written(tmp_path / "a" / "b", UNKNOWN_NAME)

    assert codes(analyze(str(tmp_path))) == codes(analyze("-f", str(tmp_path))) == ["IST0108"]
    read = invoke("analyze", "-", text=yaml.safe_dump(UNKNOWN_NAME))
    assert read.stdout == "Warning [IST0108] (Pod shop/web stdin:1) Unknown annotation: x.istio.io/y\n"


def test_without_a_message_a_line_says_so(tmp_path: Path) -> None:
    path = written(tmp_path, make_pod(namespace="shop"))

    result = analyze(path)

    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == f"✔ No validation issues found when analyzing {path}.\n"


@cases("flags", "code")
def test_the_exit_code_is_79_from_the_failure_threshold_on(tmp_path: Path, flags: list[str], code: int) -> None:
    result = analyze(written(tmp_path, UNKNOWN_NAME), *flags)

    assert result.exit_code == code
    assert ("error: Analyzers found issues when analyzing all namespaces.\n" in result.stderr) == (code == 79)


def test_the_output_threshold_hides_messages_but_not_failures(tmp_path: Path) -> None:
    result = analyze(written(tmp_path, UNKNOWN_NAME), "--output-threshold", "Error", "--failure-threshold", "Info")

    assert (result.exit_code, result.stdout) == (79, "")


def test_messages_are_available_as_data_in_istioctls_form(tmp_path: Path) -> None:
    path = written(tmp_path, UNKNOWN_NAME)
    result = analyze(path, "-o", "json")

    (message,) = json.loads(result.stdout)
    assert list(message) == ["code", "documentationUrl", "level", "message", "origin", "reference"]
    assert (message["origin"], message["reference"]) == ("Pod shop/web", f"{path}:1")
    assert result.stdout.startswith('[\n\t{\n\t\t"code": "IST0108",\n')
    assert yaml.safe_load(analyze(path, "-o", "yaml").stdout) == [message]
    assert analyze(path, "-o", "json", "-S", "IST0108=*").stdout == "[]\n"


def test_levels_have_colors_only_if_they_are_wanted(tmp_path: Path) -> None:
    path = written(tmp_path, UNKNOWN_NAME)

    assert analyze(path, "--color").stdout.startswith("\033[33mWarning\033[0m [IST0108]")
    assert analyze(path, "--color=false").stdout.startswith("Warning [IST0108]")
    assert analyze(path).stdout.startswith("Warning [IST0108]")


def test_control_characters_of_objects_are_escaped(tmp_path: Path) -> None:
    pod = make_pod(name="web", annotations={"x.istio.io/\033[2J": "z"})

    assert "\\u001b[2J" in analyze(written(tmp_path, pod), "--color").stdout


def test_messages_can_be_suppressed(tmp_path: Path) -> None:
    path = written(tmp_path, UNKNOWN_NAME)

    assert codes(analyze(path, "-S", "IST0108=Pod *.other")) == ["IST0108"]
    assert codes(analyze(path, "--suppress", "IST0108=Pod web.shop")) == []
    unknown = analyze(path, "-S", "IST9999=Pod *")
    assert unknown.stderr == "warning: 'IST9999' is not a known message code and has no effect\n"


def test_the_known_messages_are_listed() -> None:
    result = analyze("-L")

    assert result.exit_code == 0
    assert [line.split()[0] for line in result.stdout.splitlines()] == list(MESSAGES)


def test_a_cluster_is_analyzed_in_the_namespace_of_the_context_or_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    others = labelled("shop", "prod"), make_pod(namespace="shop", name="web"), namespace("default")
    live(monkeypatch, *others)

    assert codes(analyze()) == ["IST0102"]
    assert codes(analyze("-n", "shop")) == ["IST0103"]
    everything = analyze("-A")
    assert everything.stdout.splitlines()[0].startswith("Warning [IST0103] (Pod shop/web) The pod shop/web")
    assert codes(everything) == ["IST0103", "IST0102"]


def test_a_name_that_no_webhook_serves_is_reported_with_the_known_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    live(monkeypatch, labelled("shop", "1-25"))

    result = analyze("-n", "shop")

    assert result.exit_code == 79
    assert result.stdout == (
        "Error [INJ0001] (Namespace shop) New pods get no sidecar: the namespace's label istio.io/rev names `1-25`, "
        "which is not served (did you mean 1-24?); known are 1-24, prod.\n"
    )
    assert result.stderr == "error: Analyzers found issues when analyzing namespace: shop.\n"


def test_a_namespace_that_does_not_exist_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    live(monkeypatch)

    assert_fails(analyze("-n", "nope"), 1, "namespace 'nope' not found")


def test_webhooks_are_checked_whatever_the_namespace(monkeypatch: pytest.MonkeyPatch) -> None:
    again = {**tag("prod", "1-24"), "metadata": {"name": "again", "labels": {"istio.io/tag": "prod"}}}
    for webhook in again["webhooks"]:
        webhook["clientConfig"]["service"] = {"name": "gone", "namespace": HOME, "path": "/inject/prod"}
    live(monkeypatch, namespace("shop", **{"istio-injection": "disabled"}), again)

    result = analyze("-n", "shop")

    assert codes(result) == ["IST0139"] * 5
    assert (
        "(MutatingWebhookConfiguration again) Injector refers to a control plane service that does not" in result.stdout
    )
    assert f"exist: {HOME}/gone." in result.stdout


def test_an_upgrade_from_1_21_is_reported_for_the_oldest_revision_or_the_flag(monkeypatch: pytest.MonkeyPatch) -> None:
    zipkin = {"kind": "Service", "metadata": {"name": "zipkin", "namespace": "istio-system"}}
    home = namespace("istio-system")
    live(monkeypatch, zipkin, home)
    assert analyze("-n", "istio-system").exit_code == 0
    assert codes(analyze("-n", "istio-system", "--from-version", "1.20")) == ["IST0169"]

    live(monkeypatch, zipkin, home, *revision("1-21", "1.21.6"))
    assert codes(analyze("-n", "istio-system")) == ["IST0169"]


def test_the_objects_of_other_kinds_are_analyzed(monkeypatch: pytest.MonkeyPatch) -> None:
    rollout = {**deployment("web", "shop"), "kind": "Rollout", "apiVersion": "argoproj.io/v1alpha1"}
    rollout["spec"]["template"]["metadata"]["annotations"] = {"x.istio.io/y": "z"}
    live(monkeypatch, labelled("shop", "prod"), rollout)

    assert "(Rollout shop/web)" in analyze("-n", "shop").stdout


def test_files_need_no_services_and_no_webhooks(tmp_path: Path) -> None:
    hook = tag("prod", "1-24")
    other = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "x", "namespace": "injector-system"}}
    knative = {**other, "apiVersion": "serving.knative.dev/v1", "spec": {"template": {"spec": {}}}}
    noted = {**knative, "metadata": {"name": "y", "annotations": {"sidecar.istio.io/inject": "x"}}}

    assert codes(analyze(written(tmp_path, labelled("shop", "canary"), make_pod(namespace="shop")))) == ["IST0103"]
    assert codes(analyze(written(tmp_path, hook))) == []
    assert codes(analyze(written(tmp_path, hook, other))) == ["IST0139"]
    assert codes(analyze(written(tmp_path, noted))) == ["IST0107", "IST0135"]


def test_the_revisions_of_a_directory_serve_the_names_of_files(tmp_path: Path) -> None:
    write_revision(tmp_path / "revisions" / "1-24", values=VALUES)
    path = written(tmp_path, labelled("shop", "1-24"), labelled("edge", "1-2"))

    result = analyze(path, "--revisions-dir", str(tmp_path / "revisions"))

    assert [line.split(")")[0] for line in result.stdout.splitlines()] == [f"Error [INJ0001] (Namespace edge {path}:8"]


def test_objects_without_a_namespace_are_in_that_of_the_flag(tmp_path: Path) -> None:
    pod = make_pod(name="web", annotations={"x.istio.io/y": "z"})
    path = written(tmp_path, pod, UNKNOWN_NAME)

    assert analyze(path, "-n", "edge").stdout == (
        f"Warning [IST0108] (Pod edge/web {path}:1) Unknown annotation: x.istio.io/y\n"
    )
    assert "(Pod default/web " in analyze(path).stdout


@cases("arguments", "code", "says")
def test_wrong_flags_and_files_are_one_line(tmp_path: Path, arguments: list[str], code: int, says: str) -> None:
    (tmp_path / "odd.yaml").write_text(
        "# A Rollout\nkind: Rollout\napiVersion: argoproj.io/v1alpha1\nmetadata: {name: x}\nspec: {template: 7}\n"
    )
    (tmp_path / "bad.yaml").write_text(
        "kind: MutatingWebhookConfiguration\nmetadata: {name: x}\nwebhooks: [{name: 5}]\n"
    )

    assert_fails(
        analyze(*(str(tmp_path / argument) if argument.endswith(".yaml") else argument for argument in arguments)),
        code,
        says,
    )


def test_a_config_map_without_data_says_nothing(tmp_path: Path) -> None:
    config_map = {**revision("1-24", "1.24.6")[0], "data": 5}

    assert analyze(written(tmp_path, config_map)).exit_code == 0
    assert analyze(written(tmp_path, {**config_map, "metadata": {"name": "x", "labels": 5}})).exit_code == 0
