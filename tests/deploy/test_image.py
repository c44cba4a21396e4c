"""The image: what the Dockerfile promises, and its steps carried out without a container."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.cases import cases
from tests.deploy.dockerfile import Built, sent, stages
from tests.deploy.rendering import ROOT

TEXT = (ROOT / "Dockerfile").read_text()
BUILD, BARE, FINAL = stages(TEXT)
HADOLINT = Path(sys.executable).with_name("hadolint")


def test_the_linter_finds_nothing() -> None:
    done = subprocess.run([str(HADOLINT), str(ROOT / "Dockerfile")], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout) == (0, "")


def test_what_is_from_elsewhere_has_one_base_that_a_release_pins_by_digest() -> None:
    assert (BUILD.base, BARE.base, FINAL.base) == ("${PYTHON}", "${PYTHON}", "scratch")
    assert re.search(r"^ARG PYTHON=python:3\.\d+-slim(@sha256:[0-9a-f]{64})?$", TEXT, re.MULTILINE)
    assert "--build-arg PYTHON=python:3.13-slim@sha256:" in TEXT, "how to pin it"


def test_the_image_has_oci_labels_with_its_version_its_commit_and_its_time() -> None:
    (labels,) = FINAL.rests("LABEL")
    names = dict(re.findall(r'org\.opencontainers\.image\.(\w+)="([^"]*)"', labels))

    assert names.keys() == {"title", "description", "licenses", "version", "revision", "created"}
    variables = {name: names[name] for name in ("version", "revision", "created")}
    assert variables == {name: f"${{{name.upper()}}}" for name in variables}
    assert set(FINAL.rests("ARG")) == {"VERSION", "REVISION", "CREATED"}
    script = (ROOT / "scripts" / "image").read_text()
    assert all(f"{name}=" in script for name in FINAL.rests("ARG"))


def test_the_image_runs_as_nobody_and_installs_nothing_when_it_starts() -> None:
    assert FINAL.rests("USER") == ["65532:65532"]
    assert FINAL.rests("COPY") == ["--from=bare / /"]
    assert FINAL.rests("RUN") == [], "what runs there writes as root into the image"
    assert [json.loads(text) for word in ("ENTRYPOINT", "CMD") for text in FINAL.rests(word)] == [
        ["injector"],
        ["serve"],
    ]


def test_the_image_has_no_shell_no_installer_and_no_program_with_its_owners_rights() -> None:
    assert BARE.rests("COPY") == ["--from=build /opt/injector /opt/injector"]
    (run,) = BARE.rests("RUN")
    *old, removed, searched, last = (part.strip() for part in run.split(" && "))

    assert {"/usr/local/bin/pip*", "/usr/bin/apt*", "/usr/bin/dpkg*", "/usr/bin/perl*"} <= set(removed.split())
    assert searched == "find / -xdev -type f -perm /6000 -delete"
    # It is a shell that takes the shells away, so this comes last.
    assert last == "rm -f /bin/bash /bin/dash /bin/sh"
    assert old == [
        "ln -s /opt/injector/bin/sidecar-injector /usr/local/bin/sidecar-injector",
        "touch /health",
        "chown 65532:65532 /health",
    ]


def test_everything_is_installed_by_hash() -> None:
    installs = [part.strip() for run in BUILD.rests("RUN") for part in run.split(" && ") if "pip install" in part]

    assert len(installs) == 3
    assert [part for part in installs if "--require-hashes" not in part] == [installs[2]]
    assert "--no-deps" in installs[2]
    assert installs[2].endswith("dist/*.whl"), "the project's own wheel, built here"


@cases("name", "is_sent")
def test_the_build_sees_what_it_needs_and_no_more(name: str, is_sent: bool) -> None:
    assert sent(ROOT, name) is is_sent


def test_the_steps_make_an_injector_and_the_list_of_what_is_in_it(tmp_path: Path) -> None:
    Built(ROOT, tmp_path).run(BUILD)

    home = tmp_path / "opt" / "injector"
    # The last stage has nothing else of the first one.
    shutil.rmtree(tmp_path / "opt" / "build")
    shutil.rmtree(tmp_path / "src")
    injected = subprocess.run(
        [
            str(home / "bin" / "injector"),
            "kube-inject",
            "--embedded",
            "-f",
            str(ROOT / "docs" / "samples" / "hello.yaml"),
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert injected.returncode == 0, injected.stderr
    assert "name: istio-proxy" in injected.stdout
    assert not (home / "bin" / "pip").exists()
    components = json.loads((home / "sbom.cdx.json").read_text())["components"]
    pins = re.findall(r"^([\w.-]+)==([^ ;\\]+)", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    assert {(component["name"], component["version"]) for component in components} == set(pins)
