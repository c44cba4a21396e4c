"""Reports of ``injector diff`` for reviews: a comment in Markdown, and SARIF."""

from __future__ import annotations

import html
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import Result
from markdown_it import MarkdownIt

from injector.cli.formats import MARK, RULES, cell, diff_as_markdown
from injector.kube.escaping import escape_line
from tests.cli.clusters import FakeKube, deployment, invoke, labelled, reached, revision
from tests.factories import make_container, make_pod
from tests.revisions.fakes import CONFIG, VALUES, write_revision

PRIVATE = "hunter2-hunter2"
HOSTILE = "a`|</summary><img src=x> @admin #1 [x](https://evil.example) www.evil.example *b* \\"
REFUSED = {"sidecar.istio.io/proxyCPU": "odd!"}
BOTH = {"inject.istio.io/templates": "nope"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two revisions, a manifest in a folder with a space, and this folder as the current one."""
    for name, version, config in (("old", "1.24.6", CONFIG), ("new", "1.30.1", CONFIG), ("off", "1.30.1", CONFIG)):
        write_revision(
            tmp_path / "revisions" / name,
            config.replace("enabled", "disabled") if name == "off" else config,
            VALUES.replace("1.24.6", version),
        )
    pods = [
        make_pod("a", containers=[make_container(env=[{"name": "TOKEN", "value": PRIVATE}])]),
        make_pod("b", namespace="shop", annotations=REFUSED),
        make_pod("c", annotations=BOTH),
    ]
    (tmp_path / "my apps").mkdir()
    text = "# pods\n---\n# first\n" + "---\n".join(map(yaml.safe_dump, pods))
    (tmp_path / "my apps" / "m.yaml").write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def diff(*arguments: str, file: str = "my apps/m.yaml", text: str | None = None) -> Result:
    """Run the command on the revisions of the current folder."""
    flags = ["--revisions-dir", "revisions", "-f", file]
    return invoke("diff", *arguments, *flags, text=text)


def lines_of(folder: Path) -> list[int]:
    """Return the line where each pod of the manifest begins."""
    lines = (folder / "my apps" / "m.yaml").read_text().splitlines()
    return [number for number, line in enumerate(lines, 1) if line == "apiVersion: v1"]


def check_sarif(log: Any) -> list[dict[str, Any]]:
    """Check what the schema of SARIF requires and limits, and return the results."""
    assert (log["version"], "sarif-2.1.0" in log["$schema"], len(log["runs"])) == ("2.1.0", True, 1)
    (run,) = log["runs"]
    driver = run["tool"]["driver"]
    assert driver["name"]
    identifiers = [rule["id"] for rule in driver["rules"]]
    assert identifiers == list(RULES)
    for entry in run["results"]:
        assert isinstance(entry["message"]["text"], str)
        assert identifiers[entry["ruleIndex"]] == entry["ruleId"]
        assert entry["level"] in ("none", "note", "warning", "error")
        assert all(isinstance(value, str) for value in entry["partialFingerprints"].values())
        for location in entry["locations"]:
            assert location["logicalLocations"]
            if place := location.get("physicalLocation"):
                assert re.fullmatch(r"[A-Za-z0-9._~:/%-]+", place["artifactLocation"]["uri"])
                assert place["region"]["startLine"] >= 1
    entries: list[dict[str, Any]] = run["results"]
    return entries


def test_sarif_has_a_result_with_a_place_for_each_different_or_refused_workload(folder: Path) -> None:
    result = diff("old", "new", "-o", "sarif")

    entries = check_sarif(json.loads(result.stdout))
    assert result.exit_code == 1
    assert [(entry["ruleId"], entry["level"]) for entry in entries] == [
        ("sidecar-changed", "note"),
        ("injection-refused", "error"),
        ("injection-refused", "error"),
    ]
    places = [entry["locations"][0]["physicalLocation"] for entry in entries]
    assert {place["artifactLocation"]["uri"] for place in places} == {"my%20apps/m.yaml"}
    assert [place["region"]["startLine"] for place in places] == lines_of(folder)
    texts = [entry["message"]["text"] for entry in entries]
    assert texts[0].startswith("Pod default/a differs between old and new:\n  image\n")
    assert "refused: failed to run injection template" in texts[1]
    assert texts[2].startswith("Pod default/c: refused by both: ")
    assert [entry["partialFingerprints"] for entry in entries][:2] == [
        {"workload/v1": "Pod default/a"},
        {"workload/v1": "Pod shop/b"},
    ]


@pytest.mark.parametrize("output", ["json", "markdown", "sarif"])
def test_the_exit_code_of_a_report_is_that_of_the_comparison(folder: Path, output: str) -> None:
    arguments = "-o", output
    (folder / "one.yaml").write_text(yaml.safe_dump(make_pod("a")))
    (folder / "odd.yaml").write_text("kind: Pod\n\ta: b\n")

    codes = [
        diff("old", "old", *arguments, file="one.yaml").exit_code,
        diff("old", "new", *arguments, file="one.yaml").exit_code,
        diff("old", "new", *arguments, "--exit-code=false", file="one.yaml").exit_code,
        diff("old", "nope", *arguments, file="one.yaml").exit_code,
        diff("old", "new", *arguments, file="odd.yaml").exit_code,
    ]

    assert codes == [0, 1, 0, 64, 65]


def test_a_workload_without_a_file_has_no_place_in_a_file(folder: Path) -> None:
    del folder
    report = diff("old", "off", "-o", "sarif", file="-", text=yaml.safe_dump(make_pod("a")))

    (result,) = check_sarif(json.loads(report.stdout))
    assert (result["ruleId"], list(result["locations"][0])) == ("injection-decision", ["logicalLocations"])


def test_a_cluster_is_reported_too(monkeypatch: pytest.MonkeyPatch) -> None:
    revisions = *revision("1-24", "1.24.6"), *revision("1-30", "1.30.1")
    reached(monkeypatch, FakeKube(*revisions, labelled("shop", "1-24"), deployment("web", "shop")))
    arguments = ["diff", "1-24", "1-30", "--live", "--confirm", "0", "-o", "sarif"]

    (entry,) = check_sarif(json.loads(invoke(*arguments).stdout))
    assert entry["partialFingerprints"] == {"workload/v1": "Deployment shop/web"}


def test_an_absolute_path_in_the_current_folder_becomes_relative(folder: Path) -> None:
    inside, outside = folder / "my apps" / "m.yaml", folder.parent / "m.yaml"
    latin = folder / os.fsdecode(b"caf\xe9.yaml")
    for path in (outside, latin):
        path.write_text(yaml.safe_dump(make_pod("a")))

    for file, uri in ((inside, "my%20apps/m.yaml"), (outside, outside.as_uri()), (latin, "caf%E9.yaml")):
        first = check_sarif(json.loads(diff("old", "new", "-o", "sarif", file=str(file)).stdout))[0]
        assert first["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == uri


def test_the_comment_has_the_groups_and_the_changes_of_each_workload(folder: Path) -> None:
    del folder
    result = diff("old", "new", "-o", "markdown")

    lines = html.unescape(result.stdout).splitlines()
    assert (result.exit_code, lines[0]) == (1, MARK)
    assert "Workloads that differ: **2 of 3**. Refused: **2**." in lines
    assert "| <code>image</code> | 1 | <code>Pod default/a</code> |" in lines
    assert "<details><summary><code>Pod default/a</code>: image</summary>" in lines
    assert "    containers[istio-proxy].image: proxy:1.24.6 -> proxy:1.30.1" in lines
    assert PRIVATE not in result.output


def test_names_and_values_cannot_format_the_comment(folder: Path) -> None:
    pod = make_pod(
        HOSTILE, namespace="```\n# x", annotations={"sidecar.istio.io/proxyCPU": f"```\n</details>\n{HOSTILE}"}
    )
    (folder / "m.yaml").write_text(yaml.safe_dump(pod))

    result = diff("old", "new", "-o", "markdown", file="m.yaml")
    rendered = MarkdownIt("commonmark").enable("table").render(result.stdout)

    assert result.exit_code == 1, result.stderr
    outside = re.sub(r"<pre>.*?</pre>|<code>.*?</code>", "", rendered, flags=re.DOTALL)
    assert [piece for piece in ("<img", "<a ", "<em", "<h1", "@admin", "#1", "evil") if piece in outside] == []
    tags = re.findall(r"</?(?:details|summary|h\d|table|pre)\b", rendered)
    assert sorted(tags) == sorted(
        [f"<{slash}{tag}" for tag in ("details", "summary", "h3", "table", "pre") for slash in ("", "/")]
    )
    (entry,) = check_sarif(json.loads(diff("old", "new", "-o", "sarif", file="m.yaml").stdout))
    assert "[x]\\(https" not in entry["message"]["text"]
    assert entry["message"]["text"].count("[x\\](https") == entry["message"]["text"].count("(https") > 0


@pytest.mark.parametrize(
    "text", ["", "-", "Deployment/web", "a bare pod: delete it and create it again", "1 image, 2 env"]
)
def test_plain_text_of_a_cell_stays_as_it_is(text: str) -> None:
    assert cell(text) == text


@pytest.mark.parametrize(
    "text", ["a|b", "@admin", "#1", "<b>", "*a*", "`", "https://evil.example", "www.evil.example", "a\nb"]
)
def test_other_text_of_a_cell_is_code(text: str) -> None:
    code = cell(text)

    assert re.fullmatch(r"<code>[A-Za-z0-9 /,&#;-]+</code>", code)
    assert html.unescape(code) == f"<code>{escape_line(text)}</code>"


def test_a_long_comment_is_cut_and_says_what_is_missing() -> None:
    side = {"name": "x", "istioVersion": "1.30"}
    workloads = [
        {"kind": "Deployment", "namespace": "shop", "name": f"{'`' * 50}{number}", "changes": [{"kind": "image"}]}
        for number in range(2000)
    ]
    groups = [
        {"changes": [f"container {workload['name']} gained"], "count": 1, "workloads": [workload]}
        for workload in workloads
    ]

    text = diff_as_markdown({"old": side, "new": side, "workloads": workloads, "groups": groups}, ["a\n  b\n"] * 2000)

    assert len(text) <= 65_536
    listed = text.count("<details>")
    assert 0 < listed < 2000
    assert f"The comment has no room for {2000 - listed} more workloads." in text
    assert re.search(r"no room for \d+ more rows", text)
