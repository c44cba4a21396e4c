"""A Dockerfile as its stages, and its steps carried out in a folder: no container, the same commands in the same order."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from fnmatch import fnmatch
from itertools import pairwise
from pathlib import Path

_LINE_END = re.compile(r"\\\n\s*")
_ASSIGNMENT = re.compile(r"(\w+)=(\S+)")


@dataclass(frozen=True)
class Step:
    """One instruction."""

    word: str
    rest: str


@dataclass(frozen=True)
class Stage:
    """What stands between two FROM."""

    name: str
    base: str
    steps: tuple[Step, ...]

    def rests(self, word: str) -> list[str]:
        """What follows each instruction of one kind."""
        return [step.rest for step in self.steps if step.word == word]


def stages(text: str) -> list[Stage]:
    """The stages of a Dockerfile, in order."""
    lines = [line for line in _LINE_END.sub(" ", text).splitlines() if line and not line.startswith("#")]
    steps = [Step(*line.split(maxsplit=1)) for line in lines]
    starts = [at for at, step in enumerate(steps) if step.word == "FROM"] + [len(steps)]
    stages_so_far = []
    for start, end in pairwise(starts):
        base, _, name = steps[start].rest.partition(" AS ")
        stages_so_far.append(Stage(name, base, tuple(steps[start + 1 : end])))
    return stages_so_far


def sent(context: Path, name: str) -> bool:
    """Whether .dockerignore lets a file of the context reach the build: the last line that fits decides."""
    keep = True
    for line in (context / ".dockerignore").read_text().splitlines():
        pattern = line.removeprefix("!")
        if line and not line.startswith("#") and _fits(pattern, name):
            keep = line.startswith("!")
    return keep


def _fits(pattern: str, name: str) -> bool:
    parts = name.split("/")
    above = ["/".join(parts[:count]) for count in range(1, len(parts) + 1)]
    return any(fnmatch(part, pattern.removeprefix("**/")) for part in (parts if pattern.startswith("**/") else above))


class Built:
    """One stage carried out below ``root``, which stands for ``/``."""

    def __init__(self, context: Path, root: Path) -> None:
        self.context = context
        self.root = root
        self.folder = root
        self.env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
        # The base image has a command `python`, which Debian has not: the one that runs the tests stands for it.
        self.env["UV_SYSTEM_CERTS"] = "1"  # a network may have a CA of its own, which pip gets from the system too
        self.env["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{self.env['PATH']}"

    def run(self, stage: Stage) -> None:
        """Carry out every step.

        Raises:
            AssertionError: a command fails.
        """
        for step in stage.steps:
            match step.word:
                case "WORKDIR":
                    self.folder = self.root / step.rest.removeprefix("/")
                    self.folder.mkdir(parents=True)
                case "ENV":
                    for name, value in _ASSIGNMENT.findall(self._moved(step.rest)):
                        self.env[name] = value.replace("$PATH", self.env["PATH"])
                case "COPY":
                    self._copy(step.rest.split())
                case "RUN":
                    done = subprocess.run(
                        ["sh", "-ec", self._moved(step.rest)],
                        cwd=self.folder,
                        env=self.env,
                        stdout=subprocess.PIPE,
                        stderr=subprocess.STDOUT,
                        text=True,
                        check=False,
                    )
                    assert done.returncode == 0, f"{step.rest}\n{done.stdout}"

    def _moved(self, text: str) -> str:
        """The text with /opt below the root."""
        return text.replace("/opt/", f"{self.root}/opt/")

    def _copy(self, words: list[str]) -> None:
        *sources, target = words
        for source in sources:
            origin, into = self.context / source, self.folder / target
            assert sent(self.context, source), f".dockerignore keeps {source} back"
            if origin.is_dir():
                shutil.copytree(origin, into, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                into = into / origin.name if target.endswith("/") else into
                into.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(origin, into)
