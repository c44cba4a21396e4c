"""``injector template``: the command's flags, output and exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from tests.cases import cases
from tests.cli.clusters import assert_fails, invoke
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
    {{- if .Values.global.decision }}
        env: [{name: TRACE, value: "true"}]
    {{- end }}
"""
POD: dict[str, Any] = {
    "kind": "Pod",
    "metadata": {"name": "a"},
    "spec": {"containers": [{"name": "app", "image": "app"}]},
}
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
    paths = [str(folder / argument) if (folder / argument).is_file() else argument for argument in arguments]
    directory = ["--revisions-dir", str(folder / "revisions")]
    return invoke("template", command, *directory, *paths)


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

    assert (result.exit_code, [finding["rule"] for finding in json.loads(result.stdout)]) == (code, rules)


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
            (field["field"], field["place"].rpartition("/")[2])
            for field in json.loads(template(folder, "trace", "t.tpl", "-o", "json", *files).stdout)[0]["reads"]
        ]
        for files in ((), ("-f", "pod.yaml"))
    }

    assert fields == {
        (): [("revision", "t.tpl:1"), ("spec.nodeName", "t.tpl:1"), ("values.global.hub", "t.tpl:1")],
        ("-f", "pod.yaml"): [("spec.nodeName", "t.tpl:1"), ("values.global.hub", "t.tpl:1")],
    }
    assert "spec.nodeName (set or not, keys)   " in template(folder, "trace", "t.tpl").stdout


def test_golden_files_are_written_and_compared_by_revision(folder: Path) -> None:
    write_revision(folder / "revisions" / "other", CONFIG.replace("/proxy", "/other"), VALUES)
    (folder / "goldens").mkdir()
    (folder / "goldens" / "a.yaml").write_text(json.dumps(POD))
    host = {**POD, "spec": {**POD["spec"], "hostNetwork": True}}
    (folder / "goldens" / "host.json").write_text(json.dumps(host))
    goldens = str(folder / "goldens")

    written = template(folder, "test", goldens, "-r", "mine", "-r", "other", "--update")
    same = template(folder, "test", goldens)
    (folder / "revisions" / "mine" / "config").write_text(CONFIG.replace("/proxy", "/new"))
    changed = template(folder, "test", goldens)
    updated = template(folder, "test", goldens, "--update")

    assert (written.exit_code, same.exit_code, changed.exit_code, updated.exit_code) == (0, 0, 1, 0)
    assert written.stdout.splitlines() == [
        f"wrote {revision} {name}" for revision in ("mine", "other") for name in ("a.yaml", "host.json")
    ]
    assert same.stdout == written.stdout.replace("wrote", "ok  ")
    assert changed.stdout.splitlines()[0] == "FAIL mine a.yaml"
    assert [line for line in changed.stdout.splitlines() if line.startswith(("-  ", "+  "))] == [
        "-  - image: docker.io/proxy",
        "+  - image: docker.io/new",
    ]
    assert "ok   mine host.json" in changed.stdout
    assert "--update writes them" in changed.stderr
    assert "wrote mine a.yaml\nok   mine host.json\nok   other a.yaml" in updated.stdout
    assert "skipped: " in (folder / "goldens" / "expected" / "mine" / "host.json").read_text()


@pytest.mark.parametrize(("flag", "code"), [("--check", 1), ("--diff", 1), ("--write", 0)])
def test_fmt_names_shows_or_writes_the_files_that_change(folder: Path, flag: str, code: int) -> None:
    config = folder / "revisions" / "mine" / "config"
    config.write_text(CONFIG.replace(" | quote }}", "|quote}}") + "# a comment\r\n")
    before = config.read_bytes()

    result, again = (invoke("template", "fmt", flag, str(config), str(folder / "bad.tpl")) for _ in range(2))

    assert (result.exit_code, config.read_bytes() == before) == (code, flag != "--write")
    assert str(config) in result.stdout
    assert "bad.tpl" not in result.stdout
    assert (again.stdout == "") is (flag == "--write")
    if flag == "--write":
        assert config.read_bytes() == (CONFIG + "# a comment\r\n").encode()


def test_fmt_prints_control_characters_as_they_are_unless_on_a_terminal(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = folder / "a.tpl"
    file.write_text("a\x0c{{.x}}")

    assert invoke("template", "fmt", str(file)).stdout == "a\x0c{{ .x }}"
    monkeypatch.setattr("injector.cli.output.is_terminal", lambda: True)
    assert invoke("template", "fmt", str(file)).stdout == "a\\u000c{{ .x }}"


def test_fmt_refuses_a_config_that_it_cannot_format_in_place(folder: Path) -> None:
    config = folder / "config"
    config.write_text('templates: {sidecar: "a: {{\\"b\\"|quote}}"}')

    assert_fails(invoke("template", "fmt", str(config)), 65, "cannot be formatted in place")


HOSTILE = {
    "actions": "{{ " * 999,
    "blocks": "{{if .x}}" * 999,
    "else": "{{ if .x }}a" + "{{ else if .x }}a" * 3000 + "{{ end }}",
    "parentheses": "{{ " + "(" * 999,
    "jinja blocks": "{% if x %}" * 999,
    "operators": "{{ " + "a or " * 3000 + "a }}",
    "controls": "\0\x01{{\x02}}",
    "open": "{%",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("engine", ["go", "jinja2"])
@pytest.mark.parametrize("command", ["fmt", "lint", "trace"])
def test_a_hostile_template_is_no_internal_error(folder: Path, command: str, engine: str, text: str) -> None:
    (folder / "bad.tpl").write_text(text)
    (folder / "revisions" / "mine" / "revision.yaml").write_text(f"engine: {engine}\n")
    if engine == "jinja2":
        write_revision(folder / "revisions" / "mine", "templates: {sidecar: a}", VALUES)

    if command == "fmt":
        result = invoke("template", "fmt", "--engine", engine, str(folder / "bad.tpl"))
    else:
        result = template(folder, command, "bad.tpl")

    assert result.exit_code in {0, 1, 65}, result.output[-500:]
