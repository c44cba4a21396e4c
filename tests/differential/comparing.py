"""Go asked live about inputs that nobody has seen before, and how our answers differ."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from tests.differential.comparisons import VARIES, Comparison
from tests.differential.golang import Question, ask_go

RUNS_OF_A_DIFFERENCE = 300
"""How often Go is asked about what we answer otherwise: it may walk a map in a random order that seldom tells."""


@dataclass
class Came:
    """How many answers were alike, why others may differ, and what differs without a reason."""

    alike: int = 0
    excused: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    @property
    def inputs(self) -> int:
        """How many inputs there were."""
        return self.alike + self.excused.total() + len(self.wrong)


def differences(comparison: Comparison, program: Path, seed: str, count: int) -> Came:
    """Compare the answers to the inputs of a seed."""
    questions = comparison.questions(seed, count)
    came = Came()
    for question, gos in zip(questions, answers(comparison, program, questions, comparison.runs), strict=True):
        ours = comparison.ours(question)
        if gos == ours:
            came.alike += 1
            continue
        reason = _excuse(comparison, program, question, gos)
        if reason:
            came.excused[reason] += 1
        else:
            came.wrong.append(f"{question}\n  Go:   {gos}\n  ours: {ours}")
    return came


def answers(comparison: Comparison, program: Path, questions: list[Question], runs: int) -> list[str]:
    """Go's answers, each the same in so many runs more."""
    replies = ask_go(program, comparison.kind, [{**question, "runs": runs} for question in questions])
    return [comparison.gos(reply) for reply in replies]


def _excuse(comparison: Comparison, program: Path, question: Question, gos: str) -> str:
    if gos == VARIES or (
        comparison.runs and answers(comparison, program, [question], RUNS_OF_A_DIFFERENCE) == [VARIES]
    ):
        return "Go answers otherwise from run to run, since it walks maps in random order"
    return comparison.excused(question)
