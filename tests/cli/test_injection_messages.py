"""The injector's own messages: explain, analyze and diff say the same about the same files."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from injector.injection import pipeline
from injector.injection.data import Parameters
from injector.injection.result import Injected
from tests.cases import cases
from tests.cli.clusters import invoke

REVISIONS = Path("revisions")
NAMESPACE = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop, labels: {istio.io/rev: canary}}\n---\n"


def said_by(command: str, file: Path, revisions: Path) -> set[tuple[str, str]]:
    """The codes and texts of the injector's own messages that a command prints about a file."""
    flags = ["-f", str(file), "--revisions-dir", str(revisions), "-o", "json"]
    result = invoke("diff", "stable", "canary", *flags) if command == "diff" else invoke(command, *flags)
    data = json.loads(result.stdout)
    workloads = [] if command == "analyze" else data["workloads"]
    messages = data if command == "analyze" else [message for one in workloads for message in one.get("messages", ())]
    return {(message["code"], message["message"]) for message in messages if message["code"].startswith("INJ")}


@cases("manifest", "codes")
def test_all_commands_say_the_same(manifest: str, codes: list[str], tmp_path: Path) -> None:
    file = tmp_path / "in.yaml"
    file.write_text(NAMESPACE + manifest)
    revisions = tmp_path / "revisions"
    shutil.copytree(REVISIONS, revisions)
    with (revisions / "canary" / "mesh").open("a") as mesh:
        mesh.write("\ndiscoverySelectors:\n- matchLabels: {istio.io/rev: canary}\n")

    explained, analyzed, compared = (said_by(command, file, revisions) for command in ("explain", "analyze", "diff"))

    assert sorted(code for code, _ in explained) == codes
    assert explained == analyzed == compared


def test_explain_injects_a_pod_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "in.yaml"
    file.write_text(
        f"{NAMESPACE}apiVersion: v1\nkind: Pod\nmetadata: {{name: p, namespace: shop}}\nspec: {{containers: [{{name: p}}]}}\n"
    )
    injections = []
    run = pipeline.run_injection

    def counted(params: Parameters, *, webhook: bool) -> Injected:
        injections.append(params)
        return run(params, webhook=webhook)

    monkeypatch.setattr(pipeline, "run_injection", counted)

    assert "injected: " in invoke("explain", "-f", str(file), "--revisions-dir", str(REVISIONS)).stdout
    assert len(injections) == 1


def test_analyze_names_a_namespace_that_is_not_discovered_once(tmp_path: Path) -> None:
    pods = "".join(
        f"apiVersion: v1\nkind: Pod\nmetadata: {{name: p{number}, namespace: shop}}\nspec: {{containers: [{{name: p, image: p}}]}}\n---\n"
        for number in range(3)
    )
    (tmp_path / "in.yaml").write_text(NAMESPACE + pods)
    shutil.copytree(REVISIONS, tmp_path / "revisions")
    with (tmp_path / "revisions" / "canary" / "mesh").open("a") as mesh:
        mesh.write('\ndiscoverySelectors:\n- matchLabels: {mesh: "on"}\n')

    result = invoke("analyze", str(tmp_path / "in.yaml"), "--revisions-dir", str(tmp_path / "revisions"))

    assert re.findall(r"\[INJ\d+\] \(([^)]*)\)", result.stdout) == ["Namespace shop"]


def test_diff_groups_messages_in_a_summary(tmp_path: Path) -> None:
    jobs = "".join(
        f"apiVersion: batch/v1\nkind: Job\nmetadata: {{name: j{number}, namespace: shop}}\n"
        f"spec: {{template: {{spec: {{restartPolicy: Never, containers: [{{name: p, image: p}}]}}}}}}\n---\n"
        for number in range(5)
    )
    (tmp_path / "in.yaml").write_text(NAMESPACE + jobs)
    flags = ("-f", str(tmp_path / "in.yaml"), "--revisions-dir", "revisions")

    assert invoke("diff", "stable", "canary", *flags, "-o", "summary").stderr == (
        "warning: [INJ0002] 5 workloads: Job shop/j0, Job shop/j1, Job shop/j2 and 2 more; see `injector explain`\n"
    )
    assert invoke("diff", "stable", "canary", *flags).stderr.count("warning: [INJ0002] (Job shop/j") == 5


@pytest.mark.parametrize("sample", sorted(Path("docs/samples").glob("*.yaml")), ids=lambda path: path.stem)
def test_of_the_samples_only_those_with_mistakes_have_messages(sample: Path) -> None:
    codes = {code for code, _ in said_by("analyze", sample, REVISIONS)}

    assert codes == {"mistakes": {"INJ0001"}, "report": {"INJ0009"}}.get(sample.stem, set())
