from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from injector.cli import main
from tests.cases import cases
from tests.cli.clusters import assert_fails
from tests.revisions.fakes import write_revision

CONFIG = """\
policy: enabled
templates:
  sidecar: |
    metadata:
      labels:
        app: {{ .ObjectMeta.Name | quote }}
    spec:
      containers:
      - name: istio-proxy
        image: "{{ .Values.global.hub }}/proxy"
    {{- if .Values.global.trace }}
        env: [{name: TRACE, value: "true"}]
    {{- end }}
"""
POD = {"kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": [{"name": "app", "image": "app"}]}}
HINT = 'build the whole value with printf and quote it: {{ printf "...%s" VALUE | quote }}'
VALUES = '{"global": {"tag": "1.30.1", "hub": "docker.io", "trace": false}}'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A directory of one revision, a template with a mistake, and what is not a template."""
    write_revision(tmp_path / "revisions" / "mine", CONFIG, VALUES)
    (tmp_path / "bad.tpl").write_text("a: b\nname: é {{ .ObjectMeta.Name }}\n")
    (tmp_path / "broken.tpl").write_text("{{ if }}")
    (tmp_path / "pod.yaml").write_text(json.dumps(POD))
    (tmp_path / "binary.tpl").write_bytes(b"\xff\xfe")
    return tmp_path


def template(folder: Path, command: str, *arguments: str) -> Result:
    paths = [str(folder / each) if (folder / each).is_file() else each for each in arguments]
    directory = ["--revisions-dir", str(folder / "revisions")]
    return CliRunner().invoke(main, ["template", command, *directory, *paths])


@cases("arguments", "code", "says")
def test_wrong_flags_are_64_and_bad_input_is_65(folder: Path, arguments: list[str], code: int, says: str) -> None:
    assert_fails(template(folder, *arguments), code, says)


def test_lint_shows_the_line_with_a_caret(folder: Path) -> None:
    result = template(folder, "lint", "bad.tpl")

    assert result.exit_code == 1
    assert result.stdout.replace(f"{folder}/", "").splitlines()[:3] == [
        "bad.tpl:2:12: unquoted: metadata.name is inserted without quotes, and can add fields to the pod; " + HINT,
        "  2 | name: é {{ .ObjectMeta.Name }}",
        "    |            ^",
    ]


@pytest.mark.parametrize(
    ("arguments", "code", "rules"),
    [
        (["bad.tpl"], 1, ["unquoted"]),
        (["bad.tpl", "--ignore", "unquoted"], 0, []),
        (["bad.tpl", "--exit-code", "false"], 0, ["unquoted"]),
        (["broken.tpl"], 65, ["syntax"]),
        ([], 0, []),
    ],
)
def test_lint_prints_json_and_its_exit_code_tells_of_findings(
    folder: Path, arguments: list[str], code: int, rules: list[str]
) -> None:
    result = template(folder, "lint", "-o", "json", *arguments)

    assert (result.exit_code, [each["rule"] for each in json.loads(result.stdout)]) == (code, rules)


def test_render_shows_the_place_of_each_line(folder: Path) -> None:
    (folder / "t.tpl").write_text(
        "spec:\n  {{- range .Spec.Containers }}\n  - {{ .Name }}\n  {{- end }}\n  {{ toYaml .Spec }}"
    )

    result = template(folder, "render", "t.tpl", "-f", "pod.yaml")

    assert result.exit_code == 0
    assert result.stdout.replace(f"{folder}/", "").splitlines() == [
        "# Pod default/a, template t.tpl",
        "t.tpl:1 | spec:",
        "t.tpl:3 |   - app",
        "t.tpl:5 |   containers:",
        "t.tpl:5 | - image: app",
        "t.tpl:5 |   name: app",
        "t.tpl:5 |   resources: {}",
    ]


def test_trace_leaves_out_the_branches_that_do_not_run(folder: Path) -> None:
    (folder / "t.tpl").write_text("{{ if .Spec.NodeName }}{{ .Revision }}{{ else }}{{ .Values.global.hub }}{{ end }}")

    fields = {
        files: [
            (each["field"], each["place"].rpartition("/")[2])
            for each in json.loads(template(folder, "trace", "t.tpl", "-o", "json", *files).stdout)[0]["reads"]
        ]
        for files in ((), ("-f", "pod.yaml"))
    }

    assert fields == {
        (): [("revision", "t.tpl:1"), ("spec.nodeName", "t.tpl:1"), ("values.global.hub", "t.tpl:1")],
        ("-f", "pod.yaml"): [("spec.nodeName", "t.tpl:1"), ("values.global.hub", "t.tpl:1")],
    }
    assert "spec.nodeName (set or not, keys)   " in template(folder, "trace", "t.tpl").stdout
