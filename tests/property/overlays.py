"""Rendered texts, and what becomes of them when somebody pastes YAML into the middle of them."""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from pathlib import Path
from random import Random
from typing import Final

from injector.errors import DataError
from injector.injection.data import template_data
from injector.injection.pipeline import admitted_pod, webhook_parameters
from injector.injection.result import RequestFacts
from injector.istio.behaviours import missing_fields
from injector.kube.typed import FieldName
from tests.cases import read_cases
from tests.controlplanes import names
from tests.property.subjects import subjects
from tests.sizes import sized

MINORS: Final = ("1.12", "1.20", "1.28", "1.30")
_DATA = read_cases(Path(__file__).with_suffix(".yaml"))
TOKENS: list[str] = _DATA["tokens"]
VALUES: list[str] = _DATA["values"]
LINES: list[str] = _DATA["lines"]


@cache
def renderings() -> tuple[tuple[str, frozenset[FieldName] | None], ...]:
    """Texts that templates rendered, each with the fields that its minor lacks; None for revisions in Jinja2."""
    result: dict[str, frozenset[FieldName] | None] = {}
    for name in names(MINORS):
        for revision, pods in subjects(name):
            missing = None if revision.engine == "jinja2" else missing_fields(revision.minor)
            for subject in pods if len(subjects(name)) == 1 else pods[: sized(4, 6)]:
                pod = admitted_pod(subject, "shop")
                data = template_data(webhook_parameters(revision, pod, RequestFacts("shop")), pod)
                for template in revision.templates.values():
                    with suppress(DataError):  # some are for pods of gateways and waypoints alone
                        result[template.render(data)] = missing
    return tuple(result.items())


def changed(text: str, dice: Random) -> str:
    """Return a text with one to four of its lines or places changed."""
    for _ in range(dice.choice((1, 1, 1, 2, 4))):
        lines = text.split("\n")
        at = dice.randrange(len(lines))
        match dice.randrange(9):
            case 0:
                place = dice.randrange(len(text) + 1)
                text = text[:place] + dice.choice(TOKENS) + text[place:]
                continue
            case 1:
                lines[at] = lines[at] + dice.choice(TOKENS)
            case 2:
                lines.insert(at, lines[dice.randrange(len(lines))])
            case 3:
                del lines[at : at + dice.choice((1, 1, 2, 5))]
            case 4:
                spaces = dice.choice((-4, -2, -1, 1, 2))
                lines[at] = " " * spaces + lines[at] if spaces > 0 else lines[at].replace(" ", "", -spaces)
            case 5:
                key, colon, _ = lines[at].partition(":")
                lines[at] = f"{key}{colon} {dice.choice(VALUES)}" if colon else f"{key}{dice.choice(VALUES)}"
            case 6:
                indent = dice.choice((len(lines[at]) - len(lines[at].lstrip(" ")), dice.randrange(10)))
                lines.insert(at, " " * indent + dice.choice(LINES))
            case 7:
                other = dice.randrange(len(lines))
                lines[at], lines[other] = lines[other], lines[at]
            case _:
                lines[at] = lines[at].replace(": ", f": {dice.choice(VALUES)}", 1)
        text = "\n".join(lines)
    return text


def invented(dice: Random) -> str:
    """Return a short text of lines that may or may not fit together."""
    indent, lines = 0, []
    for _ in range(dice.randrange(1, 12)):
        line = dice.choice(LINES)
        if line.endswith(":") or dice.random() < 0.5:
            lines.append(" " * indent + line)
        else:
            lines.append(
                f"{' ' * indent}{dice.choice(('a', 'name', 'value', 'env', 'containers', 'spec'))}: {dice.choice(VALUES)}"
            )
        indent = max(0, indent + dice.choice((-2, 0, 0, 2, 2) if line.endswith(":") else (-4, -2, 0, 0, 0, 2)))
    return "\n".join(lines) + dice.choice(("\n", "\n", "\n", ""))
