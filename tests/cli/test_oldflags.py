from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from injector.cli import main
from injector.cli.flags import IGNORED, IGNORED_SWITCHES, REFUSED

HELLO = str(Path(__file__).resolve().parents[2] / "docs" / "samples" / "hello.yaml")
EX_USAGE = 64


def test_what_says_nothing_any_more_is_named_and_changes_nothing() -> None:
    plain = CliRunner().invoke(main, ["kube-inject", "-f", HELLO])
    flags = [*(f"--{name}=1" for name in IGNORED), *(f"--{name}" for name in IGNORED_SWITCHES)]

    result = CliRunner().invoke(main, ["kube-inject", "-f", HELLO, *flags])

    assert (result.exit_code, result.stdout) == (0, plain.stdout)
    assert sorted(result.stderr.splitlines()) == sorted(
        f"Flag --{name} has been deprecated, Use --injectConfigFile instead" for name in (*IGNORED, *IGNORED_SWITCHES)
    )


def test_a_switch_takes_a_value_after_its_equals_sign() -> None:
    result = CliRunner().invoke(main, ["kube-inject", "--debug=false", "-f", HELLO])

    assert (result.exit_code, len(result.stderr.splitlines())) == (0, 1)


@pytest.mark.parametrize("name", REFUSED)
def test_a_template_from_flags_is_refused_with_what_to_do(name: str) -> None:
    result = CliRunner().invoke(main, ["kube-inject", "-f", HELLO, f"--{name}", "x"])

    assert (result.exit_code, result.stdout) == (EX_USAGE, "")
    assert f"--{name}: there is no template to write from flags; give --injectConfigFile FILE" in result.stderr
