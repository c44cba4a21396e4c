"""docs/reference is current, and lists every command, flag, variable and metric."""

from __future__ import annotations

from pathlib import Path

import pytest

from injector.cli import main
from injector.cli.commands import COMMANDS
from injector.settings import SETTINGS
from tests.architecture.reference_pages import NOTE, PAGES, cli_page, commands, exposed, metrics_page, series


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_a_generated_page_is_current(page: Path) -> None:
    assert NOTE in page.read_text()
    assert page.read_text() == PAGES[page](), "run scripts/reference"


def test_every_command_is_listed_with_its_flags() -> None:
    parts = dict(part.split("\n", 1) for part in cli_page().split("\n## ")[1:])
    listed = {path.split()[1] for path in parts if path.startswith("injector ")}

    flags = [
        (path, flag)
        for path, command in commands(main)
        for option in command.params
        for flag in option.opts
        if flag[0] == "-"
    ]

    assert listed == set(COMMANDS)
    assert [
        (path, flag)
        for path, flag in flags
        if f"`{flag}`" not in parts[path] and flag not in ("-h", "--help", "-v", "--verbose")
    ] == []


def test_every_server_setting_is_listed_with_its_variable() -> None:
    (serve,) = [part for part in cli_page().split("\n## ") if part.startswith("injector serve\n")]

    assert [field.variable for field in SETTINGS if f"Variable `{field.variable}`." not in serve] == []


def test_exactly_the_exposed_metrics_are_listed() -> None:
    rows = [line.split("`")[1] for line in metrics_page().splitlines() if line.startswith("| `")]

    assert rows == sorted(exposed())
    assert set(rows) == set(series())
