from __future__ import annotations

import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from injector.cli import main
from injector.cli.commands import COMMANDS
from injector.cli.failures import EXIT_CODES

SLOW = ("aiohttp", "kubernetes_asyncio", "prometheus_client", "cryptography", "jinja2", "asyncio", "yaml", "orjson")


def test_every_command_is_in_the_help_with_the_words_of_its_own() -> None:
    shown = CliRunner().invoke(main, ["--help"]).stdout

    for name, entry in COMMANDS.items():
        command = main.get_command(click.Context(main), name)
        assert command is not None
        assert command.name == name
        assert command.get_short_help_str(200) == entry.summary
        assert f"  {name} " in shown


def test_the_help_has_the_table_of_exit_codes() -> None:
    shown = CliRunner().invoke(main, ["--help"]).stdout

    assert [line.split()[0] for line in shown.partition("Exit codes:")[2].splitlines() if line.strip()] == [
        str(code) for code, _ in EXIT_CODES
    ]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nope"], "No such command 'nope'; see `injector --help`"),
        (["--nope"], "No such option '--nope'; see `injector --help`"),
        (["version", "--nope"], "No such option '--nope'; see `injector version --help`"),
        (["version", "-o", "xml"], "'xml' is not one of 'json', 'yaml'; see `injector version --help`"),
        (["completion"], "Missing argument"),
    ],
)
def test_a_wrong_argument_is_one_line_and_64(arguments: list[str], says: str) -> None:
    result = CliRunner().invoke(main, arguments)

    assert (result.exit_code, result.stdout) == (64, "")
    assert result.stderr.startswith("error: ")
    assert says in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize("arguments", [[], ["revision"]])
def test_a_group_without_a_command_shows_its_help_and_fails(arguments: list[str]) -> None:
    result = CliRunner().invoke(main, arguments)

    assert (result.exit_code, result.stdout) == (64, "")
    assert "Usage: " in result.stderr
    assert "error" not in result.stderr.splitlines()[0]


@pytest.mark.parametrize("arguments", [["-v", "version", "--nope"], ["version", "-v", "-o", "json"]])
def test_verbose_may_stand_before_and_after_the_command(arguments: list[str]) -> None:
    result = CliRunner().invoke(main, arguments)

    assert ("Traceback" in result.stderr) == (result.exit_code != 0)


@pytest.mark.parametrize("flag", ["-h", "--help"])
@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_has_help(name: str, flag: str) -> None:
    result = CliRunner().invoke(main, [name, flag])

    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith(f"Usage: injector {name} ")


def test_the_help_loads_no_command_and_nothing_slow() -> None:
    code = (
        "import sys; from injector.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "print(*sys.modules, sep='\\n', file=sys.stderr)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    loaded = set(run.stderr.splitlines())
    assert loaded & {entry.module for entry in COMMANDS.values()} == set()
    assert loaded & set(SLOW) == set()


def test_no_command_but_serve_loads_what_only_a_server_needs() -> None:
    modules = ", ".join(sorted(entry.module for entry in COMMANDS.values()))
    code = f"import sys, {modules}; print(*sys.modules, sep='\\n')"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert set(run.stdout.splitlines()) & {"aiohttp", "kubernetes_asyncio", "prometheus_client"} == set()
