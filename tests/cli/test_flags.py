from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from injector.cli import main
from injector.cli.flags import Behaviour, both_spellings
from injector.errors import ConfigError, UsageError


@pytest.mark.parametrize(
    ("camel", "spellings"),
    [
        ("meshConfigFile", ("--meshConfigFile", "--mesh-config-file")),
        ("injectConfigMapName", ("--injectConfigMapName", "--inject-config-map-name")),
        ("kubeconfig", ("--kubeconfig", "--kubeconfig")),
    ],
)
def test_a_flag_has_istios_spelling_and_kubectls(camel: str, spellings: tuple[str, str]) -> None:
    assert both_spellings(camel) == spellings


@pytest.mark.parametrize("command", ["kube-inject", "uninject"])
def test_commands_on_manifests_share_their_flags(command: str) -> None:
    shown = CliRunner().invoke(main, [command, "--help"]).stdout

    for flag in ("-f, --filename", "-R, --recursive", "-o, --output", "--output-file"):
        assert flag in shown


def test_an_output_that_is_no_format_beside_a_file_is_a_wrong_argument(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["uninject", "-f", "-", "-o", "jsn", "--output-file", str(tmp_path / "x")])

    assert (result.exit_code, result.stdout) == (64, "")
    assert (
        result.stderr
        == "error: -o: 'jsn' is no format, and --output-file names a file; give one of yaml, json, patch\n"
    )


def test_flags_say_what_a_folder_says_in_revision_yaml(tmp_path: Path) -> None:
    (tmp_path / "v").write_text("{}")

    found = Behaviour("1.24", ("A=b",), ("v1.33.0",)).overrides(values=tmp_path / "v")

    assert (found.istio_version, found.env, found.node_versions) == ("1.24", {"A": "b"}, ("v1.33.0",))
    assert (found.values, found.mesh, found.files) == ("{}", None, {"values": str(tmp_path / "v")})


def test_a_pair_that_is_none_and_a_file_that_is_none_are_refused() -> None:
    with pytest.raises(UsageError, match="--set-env"):
        Behaviour(None, ("A",), ()).overrides()
    with pytest.raises(ConfigError, match="nope: there is no such file"):
        Behaviour(None, (), ()).overrides(mesh=Path("nope"))
