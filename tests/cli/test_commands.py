"""All commands: help, exit codes, one line for each error, and completion."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import click
import pytest
import yaml

from injector.cli import main
from injector.cli.commands import COMMANDS, EXIT_CODES, SHELLS, command_error, own_version
from injector.cli.output import one_line
from injector.cli.serve import GROUPS
from injector.errors import ConfigError, InjectorError, TemplateRenderError, UsageError
from injector.settings import SETTINGS
from tests.architecture.reference_pages import commands
from tests.cases import cases
from tests.cli.clusters import assert_fails, invoke
from tests.revisions.fakes import write_revision

SLOW = ("aiohttp", "kubernetes_asyncio", "prometheus_client", "cryptography", "jinja2", "asyncio", "yaml", "orjson")


def test_the_help_has_the_summary_of_every_command() -> None:
    text = invoke("--help").stdout

    for name, (_, summary) in COMMANDS.items():
        command = main.get_command(click.Context(main), name)
        assert command is not None
        assert command.name == name
        assert command.get_short_help_str(200) == summary
        assert f"  {name} " in text


def test_the_help_has_the_table_of_exit_codes() -> None:
    text = invoke("--help").stdout.partition("Exit codes:")[2]

    assert [code for code, _ in EXIT_CODES] == [0, 1, 64, 65, 70, 78, 79, 130, 141]
    assert [int(line.split()[0]) for line in text.splitlines() if line.strip()] == [code for code, _ in EXIT_CODES]


@cases("arguments", "says")
def test_a_wrong_argument_is_one_line_and_64(arguments: list[str], says: str) -> None:
    assert_fails(invoke(*arguments), 64, says)


@pytest.mark.parametrize("arguments", [[], ["revision"]])
def test_a_group_without_a_command_shows_its_help_and_fails(arguments: list[str]) -> None:
    result = invoke(*arguments)

    assert (result.exit_code, result.stdout) == (64, "")
    assert "Usage: " in result.stderr
    assert "error" not in result.stderr.splitlines()[0]


@pytest.mark.parametrize("arguments", [["-v", "version", "--nope"], ["version", "-v", "-o", "json"]])
def test_verbose_may_stand_before_and_after_the_command(arguments: list[str]) -> None:
    result = invoke(*arguments)

    assert ("Traceback" in result.stderr) == (result.exit_code != 0)


EXAMPLES = [
    (path, command, line.strip())
    for path, command in commands(main)
    if path != "injector completion"  # its help has a line for each shell
    for line in (command.epilog or "").splitlines()[2:] or [""]
]


@pytest.mark.parametrize(
    ("path", "command", "line"), EXAMPLES, ids=lambda value: value if isinstance(value, str) else ""
)
def test_every_command_has_examples_with_flags_that_it_has(path: str, command: click.Command, line: str) -> None:
    (own,) = [part for part in line.split(" | ") if part.startswith(path)]
    arguments = shlex.split(re.split(" [<>] ", own)[0].removeprefix(path))

    assert command.make_context(path, arguments, parent=click.Context(main, **main.context_settings)).args == []


def test_the_help_of_serve_is_grouped_and_complete() -> None:
    text = invoke("serve", "--help").stdout

    assert set(GROUPS) <= {setting.name for setting in SETTINGS}
    assert [title for title in GROUPS.values() if f"\n{title}:\n" not in text] == []
    assert [
        setting.name for setting in SETTINGS if f"  {setting.flags[0]}" not in text and setting.name != "revision"
    ] == []
    assert [setting.name for setting in SETTINGS if setting.flags[-1] not in text] == []


PATHS = sorted({tuple(path.split()[1:end]) for path, _ in commands(main) for end in range(1, 4)})
"""The arguments that name each command and each group, and none for the program itself."""


@pytest.mark.parametrize("flag", ["-h", "--help"])
@pytest.mark.parametrize("path", PATHS, ids=" ".join)
def test_every_command_has_help_that_fits_eighty_columns_and_cuts_nothing(
    monkeypatch: pytest.MonkeyPatch, path: tuple[str, ...], flag: str
) -> None:
    monkeypatch.setenv("COLUMNS", "80")

    result = invoke(*path, flag)

    lines = result.stdout.splitlines()
    assert (result.exit_code, result.stderr) == (0, "")
    assert lines[0].startswith(" ".join(["Usage: injector", *path, ""]))
    # A flag with many spellings is a line of its own.
    assert [line for line in lines if len(line) > 80 and not line.startswith("  --")] == []
    assert [line for line in lines if line.endswith(" ...") or re.search(r"[a-z]\.\.\.$", line)] == []


def test_help_is_a_command_too() -> None:
    assert [invoke("help", *names).stdout for names in ([], ["tag", "set"])] == [
        invoke(*names, "--help").stdout for names in ([], ["tag", "set"])
    ]
    assert_fails(invoke("help", "nope"), 64, "No such command 'nope'")


def loaded_by(code: str) -> set[str]:
    """The modules that code in a process of its own has loaded."""
    code = f"import sys\n{code}\nprint(*sys.modules, sep='\\n', file=sys.stderr)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(run.stderr.splitlines())


def test_the_help_loads_no_command_and_nothing_slow() -> None:
    loaded = loaded_by("from injector.cli import main\ntry: main(['--help'])\nexcept SystemExit: pass")

    assert loaded & {f"injector.cli.{module}" for module, _ in COMMANDS.values()} - {"injector.cli.commands"} == set()
    assert loaded & set(SLOW) == set()


def test_no_command_but_serve_loads_what_only_a_server_needs() -> None:
    loaded = loaded_by(f"import {', '.join(f'injector.cli.{module}' for module, _ in COMMANDS.values())}")

    assert loaded & {"aiohttp", "kubernetes_asyncio", "prometheus_client"} == set()


@pytest.mark.parametrize(
    ("module", "unneeded"),
    [("serve", {"asyncio", "yaml", "injector.kube.typed"}), ("tag", {"asyncio"}), ("webhook", {"asyncio"})],
)
def test_a_command_loads_only_what_it_needs(module: str, unneeded: set[str]) -> None:
    loaded = loaded_by(f"import injector.cli.{module}")

    assert loaded & {*unneeded, "aiohttp", "injector.injection.pipeline"} == set()


INJECTOR = str(Path(sys.executable).with_name("injector"))


@pytest.mark.parametrize("command", [[INJECTOR], [sys.executable, "-m", "injector"]])
def test_the_console_script_and_the_module_are_one_program(command: list[str]) -> None:
    run = subprocess.run([*command, "--help"], capture_output=True, text=True, check=True)

    assert run.stdout.startswith("Usage: injector [OPTIONS] COMMAND")


def test_a_wrong_flag_ends_the_process_with_64() -> None:
    run = subprocess.run([INJECTOR, "--nope"], capture_output=True, text=True, check=False)

    assert (run.returncode, run.stdout) == (64, "")


HELLO = f"-f {Path(__file__).resolve().parents[2]}/docs/samples/hello.yaml --embedded"
PRINTS = {
    "kube-inject": f"injector kube-inject {HELLO}",
    "diff": f"injector diff stable canary {HELLO}",
    "explain": f"injector explain {HELLO} --namespace-labels istio.io/rev=canary",
    "list": "injector revision list --embedded",
    "render": f"injector template render {HELLO}",
    "help": "injector --help",
    "help of a command": "injector diff --help",
    "flag version": "injector --version",
    "completion": "injector completion bash",
    "kubectl": "kubectl-injector version",
    "completion for kubectl": "kubectl_complete-injector diff --embedded stable ca",
    "old program": "sidecar-injector version",
    "module": "python -m injector version",
}
FULL = "standard output: cannot be written: No space left on device; free some space, or write to another place"


def printed(commands_folder: Path, command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command line of bash, with Python's buffers unless a variable says otherwise."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    env["PATH"] = os.pathsep.join((str(commands_folder), str(Path(sys.executable).parent), env["PATH"]))
    line = ["bash", "-c", f"set -o pipefail; {command}"]
    return subprocess.run(line, capture_output=True, text=True, check=False, env={**env, **variables})


@pytest.mark.parametrize("command", PRINTS.values(), ids=list(PRINTS))
def test_a_full_disk_is_one_line_and_1(commands_folder: Path, command: str) -> None:
    run = printed(commands_folder, f"{command} >/dev/full")

    assert (run.returncode, run.stderr) == (1, f"error: {FULL}\n")


@pytest.mark.parametrize("command", PRINTS.values(), ids=list(PRINTS))
def test_the_end_of_the_reader_ends_a_command_without_a_message(commands_folder: Path, command: str) -> None:
    run = printed(commands_folder, f"{command} | true")

    assert (run.returncode, run.stderr) == (141, "")


def test_a_full_disk_is_seen_without_buffers_too(commands_folder: Path) -> None:
    run = printed(commands_folder, "injector version >/dev/full", PYTHONUNBUFFERED="1")

    assert (run.returncode, run.stderr) == (1, f"error: {FULL}\n")


def test_the_reader_of_a_large_output_may_end_at_any_time(tmp_path: Path, commands_folder: Path) -> None:
    pod = (Path(__file__).resolve().parents[2] / "docs" / "samples" / "hello.yaml").read_text()
    (tmp_path / "many.yaml").write_text("---\n".join([pod] * 60))

    run = printed(commands_folder, f"{INJECTOR} kube-inject -f {tmp_path}/many.yaml --embedded | head -1")

    assert (run.returncode, run.stderr, run.stdout) == (141, "", "apiVersion: apps/v1\n")


@pytest.mark.parametrize(("command", "code"), [("nope", 64), ("kube-inject -f nope --embedded", 65), ("version", 1)])
def test_the_exit_code_does_not_depend_on_stderr(commands_folder: Path, command: str, code: int) -> None:
    assert printed(commands_folder, f"injector {command} >/dev/full 2>/dev/full").returncode == code


def test_completion_that_cannot_be_printed_is_one_line(commands_folder: Path) -> None:
    variables = {"_INJECTOR_COMPLETE": "bash_complete", "COMP_WORDS": "injector ", "COMP_CWORD": "1"}

    run = printed(commands_folder, "injector >/dev/full", **variables)

    assert (run.returncode, run.stderr) == (1, f"error: {FULL}\n")


@pytest.mark.parametrize(("closed", "start"), [("<&-", "canary: ok\n"), (">&-", ""), ("2>&-", "canary: ok\n")])
def test_a_closed_stream_is_no_internal_error(closed: str, start: str) -> None:
    run = subprocess.run(
        ["bash", "-c", f"{INJECTOR} revision verify --embedded {closed}"], capture_output=True, text=True, check=True
    )
    injected = subprocess.run(
        ["bash", "-c", f"{INJECTOR} kube-inject --embedded -f - </dev/null {closed}"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (run.stdout[: len(start)], "internal error" in run.stderr, injected.returncode) == (start, False, 0)


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (ConfigError("is empty", where="a/config:3", hint="fill it"), 65, "a/config:3: is empty; fill it"),
        (TemplateRenderError("nil pointer\n  evaluating .x"), 65, "nil pointer evaluating .x"),
        (UsageError("is not a pair", where="--set-env"), 64, "--set-env: is not a pair"),
        (InjectorError("cannot listen"), 1, "cannot listen"),
        (click.UsageError("No such option: --foo."), 64, "No such option: --foo; see `injector x --help`"),
        (click.ClickException("no"), 1, "no"),
        (PermissionError(13, "Permission denied", "f.yaml"), 1, "f.yaml: Permission denied"),
        (OSError("odd"), 1, "odd"),
        (ValueError("x"), 70, "internal error: ValueError: x; please report it with the output of -v"),
    ],
)
def test_an_error_is_one_line_and_a_code(error: Exception, code: int, line: str) -> None:
    failure = command_error(error, command="injector x", verbose=False)

    assert (failure.exit_code, failure.message, failure.trace) == (code, line, "")


def test_ctrl_c_has_its_own_line_and_code(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt() -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr("injector.cli.version.own_version", interrupt)

    result = invoke("version")

    assert (result.exit_code, result.output) == (130, "interrupted\n")


def test_the_traceback_comes_before_the_error(capsys: pytest.CaptureFixture[str]) -> None:
    try:
        raise ConfigError("is empty")  # noqa: TRY301 -- a traceback needs a raise
    except ConfigError as error:
        command_error(error, command="injector", verbose=True).show()

    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[-1] == "error: is empty"


def test_lines_are_joined_by_a_space() -> None:
    assert one_line("  a\n\n\tb \r\n c") == "a b c"


@pytest.mark.parametrize("shell", SHELLS)
def test_every_shell_gets_a_script_that_asks_the_program(shell: str) -> None:
    result = invoke("completion", shell)

    assert (result.exit_code, result.stderr) == (0, "")
    assert "_INJECTOR_COMPLETE" in result.stdout
    assert f"{shell}_complete" in result.stdout


def test_help_says_how_each_shell_loads_its_script_on_a_line_of_its_own() -> None:
    lines = invoke("completion", "--help").stdout.splitlines()

    assert [line.split()[0] for line in lines if "injector completion " in line and "Usage" not in line] == list(SHELLS)


def test_the_program_completes_its_commands() -> None:
    env = {**os.environ, "_INJECTOR_COMPLETE": "bash_complete", "COMP_WORDS": "injector ", "COMP_CWORD": "1"}

    run = subprocess.run([INJECTOR], env=env, capture_output=True, text=True, check=True)

    assert sorted(line.partition(",")[2] for line in run.stdout.splitlines()) == sorted(COMMANDS)


@pytest.mark.parametrize(
    ("words", "candidates"),
    [
        ("diff --embedded ca", ["canary"]),
        ("diff ca", []),
        ("kube-inject --revisions-dir REVISIONS -r pr", ["prod"]),
        ("kube-inject --revisions-dir REVISIONS -r ''", ["1-24", "default", "prod"]),
        ("tag set --revisions-dir REVISIONS p", ["prod"]),
        ("explain --kubeconfig KUBECONFIG --context st", ["staging"]),
        ("explain -o j", ["json"]),
        ("diff --kubeconfig /nope ca", []),
    ],
)
def test_names_of_revisions_tags_formats_and_contexts_are_completed(
    tmp_path: Path, commands_folder: Path, words: str, candidates: list[str]
) -> None:
    write_revision(tmp_path / "revisions" / "1-24")
    (tmp_path / "revisions" / "tags.yaml").write_text("prod: 1-24\n")
    (tmp_path / "config").write_text(yaml.safe_dump({"contexts": [{"name": "staging"}, {"name": "prod"}]}))
    line = f"injector {words}".replace("REVISIONS", f"{tmp_path}/revisions").replace("KUBECONFIG", f"{tmp_path}/config")
    count = str(len(line.split()) - 1)
    env = {**os.environ, "_INJECTOR_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": count}

    injector = str(commands_folder / "injector")

    run = subprocess.run([injector], env={**env, "HOME": str(tmp_path)}, capture_output=True, text=True, check=True)

    assert (sorted(line.partition(",")[2] for line in run.stdout.split()), run.stderr) == (candidates, "")


@pytest.mark.needs("bash")
def test_bash_accepts_its_script() -> None:
    script = invoke("completion", "bash").stdout

    run = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True, check=False)

    assert (run.returncode, run.stderr) == (0, "")


def kubectl(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run kubectl as a user whose PATH has the plugin, and who has no cluster."""
    env = {**os.environ, "HOME": str(folder), "KUBECONFIG": "", "PATH": f"{Path(INJECTOR).parent}:{os.environ['PATH']}"}
    return subprocess.run(["kubectl", *arguments], env=env, capture_output=True, text=True, check=False)


@pytest.mark.needs("kubectl")
def test_kubectl_runs_the_plugin_whose_help_names_kubectl(tmp_path: Path) -> None:
    text = kubectl(tmp_path, "injector", "help", "tag", "set").stdout

    assert text.startswith("Usage: kubectl injector tag set ")
    assert " kubectl injector tag set prod --revision 1-24\n" in text
    assert (
        text.replace("kubectl injector", "injector").split()
        == subprocess.run([INJECTOR, "tag", "set", "--help"], capture_output=True, text=True, check=True).stdout.split()
    )

    wrong = kubectl(tmp_path, "injector", "nope")
    assert (wrong.returncode, wrong.stderr) == (64, "error: No such command 'nope'; see `kubectl injector --help`\n")


@pytest.mark.needs("kubectl")
@pytest.mark.parametrize(
    ("words", "candidates", "directive"),
    [
        (["expl"], ["explain\tExplain step by step why pods of the FILES or of the cluster are injected or not."], 4),
        (["diff", "--embedded", "stable", "ca"], ["canary"], 4),
        (["kube-inject", "-f", ""], [], 0),
        (["serve", "--tls-cert-file", ""], [], 0),
    ],
)
def test_kubectl_completes_the_plugin(tmp_path: Path, words: list[str], candidates: list[str], directive: int) -> None:
    run = kubectl(tmp_path, "__complete", "injector", *words)

    assert run.stdout.splitlines() == [*candidates, f":{directive}"]


ROOT = Path(__file__).resolve().parents[2]
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]


def test_the_version_is_one_line_with_the_istio_versions_and_a_flag_too() -> None:
    result = invoke("version")

    assert (result.exit_code, result.stdout) == (0, f"revision-injector {VERSION} (Istio 1.0 to 1.31)\n")
    assert invoke("--version").stdout == f"revision-injector {VERSION}\n"


def test_json_and_yaml_say_the_same() -> None:
    as_json = invoke("version", "-o", "json").stdout
    as_yaml = invoke("version", "-o", "yaml").stdout

    assert json.loads(as_json) == yaml.safe_load(as_yaml)
    assert json.loads(as_json)["version"] == VERSION


def test_the_version_of_an_uninstalled_tree_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)

    assert own_version() == "unknown"
