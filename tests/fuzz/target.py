"""What a fuzz target is: one function on bytes, and which modules it is there to reach."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
TARGETS = ("template", "rendering", "sprig", "yaml", "merge", "review", "annotations", "pods")
"""The modules of this folder that define a target, by the name that the command line has."""


@dataclass(frozen=True)
class Target:
    """A target of the fuzzer.

    Attributes:
        run: tries one input. It returns where the input is answered, be that with an error that is an answer, and lets any
            other exception through: a bug.
        modules: what it is there to reach, as paths below ``injector``; the coverage floor holds for their branches.
        guides: what else tells the fuzzer that an input is a new one.
        seeds: inputs to begin with, where the corpus has none yet.
        words: what the fuzzer puts into inputs, beside what it finds.
        longest: bytes of the longest input.
    """

    run: Callable[[bytes], None]
    modules: tuple[str, ...]
    seeds: Callable[[], Iterable[bytes]]
    guides: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    longest: int = 512

    def files(self) -> list[str]:
        """The files of its modules; a folder stands for all modules in it."""
        return _files(self.modules)

    def uncounted(self) -> list[str]:
        """The modules of ``injector``, by name, that tell the fuzzer nothing."""
        others = {*_files(("",))} - {*_files(self.modules + self.guides)}
        return sorted(
            ".".join(Path(file).relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for file in others
        )


def _files(names: tuple[str, ...]) -> list[str]:
    files = []
    for name in names:
        path = ROOT / "injector" / name
        files += [str(module) for module in sorted(path.rglob("*.py"))] if path.is_dir() else [str(path)]
    return files


def load(name: str) -> Target:
    """Import a target."""
    target = import_module(f"tests.fuzz.{name}_target").TARGET
    assert isinstance(target, Target)
    return target


def recorded(path: str) -> Any:
    """A file of recorded answers, whose questions are seeds."""
    return json.loads((ROOT / "tests" / path).read_text("utf-8"))
