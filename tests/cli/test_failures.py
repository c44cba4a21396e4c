from __future__ import annotations

import click
import pytest

from injector.cli.failures import EXIT_CODES, failure_of, one_line
from injector.errors import ConfigError, InjectorError, TemplateRenderError, UsageError


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (ConfigError("is empty", where="a/config:3", hint="fill it"), 65, "a/config:3: is empty; fill it"),
        (TemplateRenderError("nil pointer\n  evaluating .x"), 65, "nil pointer evaluating .x"),
        (UsageError("is no pair", where="--set-env"), 64, "--set-env: is no pair"),
        (InjectorError("cannot listen"), 1, "cannot listen"),
        (click.UsageError("No such option: --foo."), 64, "No such option: --foo; see `injector x --help`"),
        (click.ClickException("no"), 1, "no"),
        (PermissionError(13, "Permission denied", "f.yaml"), 1, "f.yaml: Permission denied"),
        (OSError("odd"), 1, "odd"),
    ],
)
def test_an_error_is_one_line_and_a_code(error: Exception, code: int, line: str) -> None:
    failure = failure_of(error, command="injector x", verbose=False)

    assert (failure.exit_code, failure.message, failure.trace) == (code, line, "")


def test_a_fault_of_the_injector_says_so() -> None:
    failure = failure_of(ValueError("x"), command="injector", verbose=False)

    assert failure.exit_code == 70
    assert failure.message == "ValueError: x; this is a fault of the injector: report it with -v"


def test_the_traceback_comes_first_where_it_was_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    try:
        raise ConfigError("is empty")  # noqa: TRY301 -- a traceback needs a raise
    except ConfigError as error:
        failure_of(error, command="injector", verbose=True).show()

    shown = capsys.readouterr().err.splitlines()
    assert shown[0] == "Traceback (most recent call last):"
    assert shown[-1] == "error: is empty"


def test_lines_are_joined_by_a_blank() -> None:
    assert one_line("  a\n\n\tb \r\n c") == "a b c"


def test_every_exit_code_is_explained_once() -> None:
    codes = [code for code, _ in EXIT_CODES]

    assert codes == sorted(set(codes)) == [0, 1, 64, 65, 70]
