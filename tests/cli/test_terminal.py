"""Control characters from manifests, configuration and the cluster never reach a terminal as they are."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from injector.kube.escaping import has_controls
from tests.cli.clusters import FakeKube, deployment, invoke, labelled, owned, reached, revision, tag
from tests.factories import make_container, make_pod
from tests.revisions.fakes import CONFIG, VALUES, write_revision

ESCAPE, BIDI = "\x1b]0;owned\x07\x1b[2K\x9b31m", "\u202etxt.exe\u2066"
HOSTILE = f"a{ESCAPE}{BIDI}\r\u2028z\nforged: injected"


def workload() -> dict[str, Any]:
    """A workload that has control characters wherever a text may stand."""
    pod = make_pod(annotations={HOSTILE: HOSTILE}, labels={"app": HOSTILE, "sidecar.istio.io/inject": "true"})
    containers = [make_container(image=HOSTILE), {**make_container(), "name": HOSTILE}]
    spec = {"containers": containers, "volumes": [{"name": HOSTILE, "emptyDir": {}}]}
    metadata = {"name": HOSTILE, "namespace": HOSTILE, "annotations": {HOSTILE: HOSTILE}}
    template = {"metadata": pod["metadata"], "spec": spec}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": {"template": template}}


@pytest.fixture
def folder(tmp_path: Path, commands_folder: Path) -> Path:
    """The commands, two revisions, a broken one, tags of which one is wrong, and two manifests."""
    (tmp_path / "bin").symlink_to(commands_folder)
    for name, config in (("1-24", CONFIG), ("1-30", CONFIG), ("broken", f"policy: {json.dumps(HOSTILE)}\nx: {{{{")):
        write_revision(tmp_path / "revisions" / name, config, VALUES.replace("1.24", name.replace("-", ".")))
    (tmp_path / "revisions" / "tags.yaml").write_text("prod: 1-24\n")
    write_revision(tmp_path / "tags" / "1-24")
    (tmp_path / "tags" / "tags.yaml").write_text(f"{json.dumps(HOSTILE)}: {json.dumps(HOSTILE)}\n")
    (tmp_path / "manifest.yaml").write_text(f"{json.dumps(workload())}\n---\nkind: Service # {BIDI}\n")
    refused = workload()
    refused["spec"]["template"]["metadata"]["annotations"] = {"status.sidecar.istio.io/port": HOSTILE}
    (tmp_path / "refused.yaml").write_text(json.dumps(refused))
    return tmp_path


COMMANDS = [
    ("explain", "-f", "manifest.yaml", "--revision", "1-24"),
    ("explain", "-f", "refused.yaml", "--revision", "1-24"),
    ("explain", "-f", "manifest.yaml", "--revision", "1-24", "-o", "json"),
    ("explain", "-f", "manifest.yaml", "--revision", "1-24", "-o", "yaml"),
    ("explain", "-f", "manifest.yaml", "--revision", HOSTILE),
    ("diff", "1-24", "1-30", "-f", "manifest.yaml"),
    ("diff", "1-24", "1-30", "-f", "manifest.yaml", "-o", "summary"),
    ("diff", "1-24", "1-30", "-f", "manifest.yaml", "-o", "unified"),
    ("diff", "1-24", "1-30", "-f", "manifest.yaml", "-o", "json"),
    ("diff", "1-24", "1-30", "-f", "manifest.yaml", "-o", "yaml"),
    ("diff", "1-24", "1-30", "-f", "refused.yaml"),
    ("diff", "1-24", HOSTILE, "-f", "manifest.yaml"),
    ("revision", "verify"),
    ("revision", "list"),
    ("revision", "list", "-o", "json"),
    ("revision", "list", "-o", "yaml"),
    ("revision", "verify", "--revisions-dir", "tags"),
    ("tag", "list"),
    ("tag", "list", "--revisions-dir", "tags"),
    ("tag", "set", HOSTILE, "--revision", "1-24"),
    ("webhook", "generate"),
    ("kube-inject", "-f", "refused.yaml", "--revision", "1-24"),
    ("kube-inject", "-f", "manifest.yaml", "--revision", "1-24", "-o", "json"),
    ("kube-inject", "-f", "manifest.yaml", "--revision", "1-24", "-o", "patch"),
    ("uninject", "-f", "manifest.yaml", "-o", "json"),
    (HOSTILE,),
    ("explain", f"--{HOSTILE}"),
]
WITH_REVISIONS = ("explain", "diff", "revision", "tag", "webhook", "kube-inject")


@pytest.mark.parametrize("verbose", [False, True])
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(command).encode("unicode_escape").decode())
def test_no_command_prints_a_control_character(
    folder: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], verbose: bool
) -> None:
    monkeypatch.chdir(folder)
    needs_directory = command[0] in WITH_REVISIONS and "--revisions-dir" not in command
    directory = ["--revisions-dir", "revisions"] if needs_directory else []

    result = invoke(*command, *directory, *(["-v"] if verbose else []))

    assert not has_controls(result.output), result.output
    assert result.stdout or result.stderr


@pytest.mark.parametrize(
    "command",
    [
        ("explain", "-n", "shop"),
        ("explain", "-n", "shop", "-o", "yaml"),
        ("diff", "1-24", "1-30", "--live"),
        ("revision", "status"),
        ("revision", "status", "-o", "json"),
    ],
)
def test_no_command_prints_a_control_character_of_the_cluster(
    monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    status = json.dumps({"revision": HOSTILE, "containers": [HOSTILE], "initContainers": []})
    objects = (
        *(*revision("1-24", "1.24.6"), *revision("1-30", "1.30.1"), tag("prod", "1-24"), labelled("shop", "1-24")),
        deployment(HOSTILE, "shop"),
        owned(
            HOSTILE, "shop", annotations={"sidecar.istio.io/status": status, HOSTILE: HOSTILE}, labels={"x": HOSTILE}
        ),
    )
    reached(monkeypatch, FakeKube(*objects))

    result = invoke(*command)

    assert not has_controls(result.output), result.output
    assert result.stdout


def test_explain_has_one_line_for_each_step(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)

    result = invoke("explain", "-f", "manifest.yaml", "--revision", "1-24", "--revisions-dir", "revisions")

    assert [line for line in result.stdout.splitlines() if line.startswith("forged")] == []


def seen_on_a_terminal(folder: Path, *arguments: str, errors: bool = False, **variables: str) -> str:
    """Return the standard output of a command on a terminal, or its standard error."""
    leader, follower = pty.openpty()
    command = [str(folder / "bin" / "injector"), *arguments]
    env = {**os.environ, "TERM": "xterm", **variables}
    out, err = (subprocess.DEVNULL, follower) if errors else (follower, subprocess.DEVNULL)
    with subprocess.Popen(command, cwd=folder, env=env, stdout=out, stderr=err) as process:
        os.close(follower)
        output = b""
        # The end of the other side is an error here.
        while piece := _read(leader):
            output += piece
        process.wait(60)
    os.close(leader)
    return output.decode()


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError:
        return b""


def test_kube_inject_writes_escapes_of_yaml_to_a_terminal_and_gos_yaml_elsewhere(folder: Path) -> None:
    arguments = ("kube-inject", "-f", "manifest.yaml", "--revision", "1-24", "--revisions-dir", "revisions")

    terminal = seen_on_a_terminal(folder, *arguments)
    command = [str(folder / "bin" / "injector"), *arguments]
    piped = subprocess.run(command, cwd=folder, capture_output=True, check=True).stdout.decode()

    assert not has_controls(terminal)
    assert "\x1b" not in piped
    assert BIDI in piped
    (on_terminal, _), (elsewhere, _) = (list(yaml.safe_load_all(text))[:2] for text in (terminal, piped))
    assert on_terminal == elsewhere
    assert on_terminal["metadata"]["name"] == HOSTILE


@pytest.mark.parametrize(
    "arguments",
    [
        ("kube-inject", "--revision", "1-24", "-f", "many.yaml"),
        ("diff", "1-24", "1-30", "-f", "many.yaml"),
        ("explain", "--revision", "1-24", "-f", "many.yaml"),
        ("uninject", "-f", "many.yaml"),
    ],
)
def test_a_terminal_shows_the_progress_of_many_workloads(folder: Path, arguments: tuple[str, ...]) -> None:
    pod = make_pod()
    (folder / "many.yaml").write_text(
        "---\n".join(json.dumps({**pod, "metadata": {"name": f"p{n}"}}) + "\n" for n in range(120))
    )
    directory = () if arguments[0] == "uninject" else ("--revisions-dir", "revisions")

    terminal = seen_on_a_terminal(folder, *arguments, *directory, errors=True)

    assert "documents" in terminal
    assert "100%" in terminal


@pytest.mark.parametrize(
    ("arguments", "colored"),
    [
        (("revision", "list"), "\x1b[1mREVISION"),
        (("explain", "-f", "refused.yaml", "--revision", "1-24"), "\x1b[31mDeployment "),
        (("diff", "1-24", "1-30", "-f", "manifest.yaml"), "\x1b[36m  image\x1b[0m"),
        (("diff", "1-24", "1-30", "-f", "manifest.yaml", "-o", "unified"), "\x1b[32m+"),
    ],
)
def test_a_terminal_shows_colors_unless_they_are_not_wanted(
    folder: Path, arguments: tuple[str, ...], colored: str
) -> None:
    with_directory = (*arguments, "--revisions-dir", "revisions")

    terminal = seen_on_a_terminal(folder, *with_directory)

    assert colored in terminal
    assert re.sub(r"\x1b\[[0-9;]*m", "", terminal) == seen_on_a_terminal(folder, *with_directory, NO_COLOR="1")
