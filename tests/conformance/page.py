"""The page docs/compatibility.md: what was tested for each minor, and what is special about it, out of the table of behaviours."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import Field, asdict, dataclass, field, fields
from itertools import compress, groupby
from pathlib import Path
from typing import Any

import yaml

from injector.istio.behaviours import DEVELOPMENT, NEWEST, OLDEST, Behaviours, Minor, format_minor
from tests.cases import read_cases

TEXTS: dict[str, Any] = read_cases(Path(__file__).with_suffix(".yaml"))
KEPT = Path(__file__).with_name("minors.yaml")
"""The results for minors that are not in the corpus, see newminor.py."""


@dataclass(frozen=True, slots=True)
class Tally:
    """How many cases of a minor passed, of how many."""

    minor: str
    kube_inject: tuple[int, int]
    webhook: tuple[int, int]
    text: tuple[int, int]
    back: tuple[int, int]
    failed: tuple[str, ...] = field(default=(), kw_only=True)


def keep(tally: Tally, note: str) -> None:
    """Keep the results for a minor that is not in the corpus; the note says what was tested."""
    result = {"note": note, **{key: list(value) for key, value in asdict(tally).items() if key != "minor"}}
    found = {**yaml.safe_load(KEPT.read_text()), tally.minor: result}
    head = "# Written by `scripts/new-minor CHECKOUT --keep NOTE`; do not edit.\n"
    KEPT.write_text(head + yaml.safe_dump(found, default_flow_style=None, width=120))


def page(tallies: Iterable[Tally]) -> str:
    """The text of the page."""
    minors = {"oldest": OLDEST, "newest": NEWEST, "development": DEVELOPMENT}
    names = {name: format_minor(minor) for name, minor in minors.items()}
    tested = [_row(each.minor, each) for each in tallies]
    failed: list[str] = []
    for minor, kept in yaml.safe_load(KEPT.read_text()).items():
        note = kept.pop("note")
        tally = Tally(minor, **{key: tuple(value) for key, value in kept.items()})
        tested.append(_row(f"{minor}, {note}", tally))
        failed += (f"- {minor}: `{each}`" for each in tally.failed)
    tested += ["", "These cases fail:", "", *failed] if failed else []
    special = [f"| {TEXTS['tells'][each.name]} | {_told(each)} |" for each in fields(Behaviours)]
    return "\n".join(
        [
            TEXTS["head"].format(**names) + "\n".join(tested) + "\n" + TEXTS["development"].format(**names).rstrip(),
            TEXTS["special"].format(**names) + "\n".join(special),
            TEXTS["differences"] + TEXTS["dates"],
        ]
    )


def complete(tally: Tally) -> bool:
    """Whether every case passed."""
    return all(passed == cases for passed, cases in _counts(tally))


def _row(name: str, tally: Tally) -> str:
    return f"| {name} | {' | '.join(map(_of, _counts(tally)))} |"


def _counts(tally: Tally) -> tuple[tuple[int, int], ...]:
    return tally.kube_inject, tally.webhook, tally.text, tally.back


def _of(count: tuple[int, int]) -> str:
    passed, cases = count
    return f"{passed}" if passed == cases else f"{passed} of {cases}"


def _told(behaviour: Field[Any]) -> str:
    """The minors of a behaviour: those that have it, or each value with its minors."""
    ends = [(major, number - 1) for major, number in [*behaviour.metadata][1:]]
    spans = list(map(_minors, behaviour.metadata, [*ends, DEVELOPMENT]))
    values = list(behaviour.metadata.values())
    if all(isinstance(value, bool) for value in values):
        return ", ".join(compress(spans, values)) or "none"
    return "<br>".join(
        f"{span}: {_value(new, old)}" for span, old, new in zip(spans, [None, *values], values, strict=False)
    )


def _minors(first: Minor, last: Minor) -> str:
    if first == last:
        return format_minor(first)
    if last == DEVELOPMENT:
        return "all" if first == OLDEST else f"from {format_minor(first)}"
    return f"to {format_minor(last)}" if first == OLDEST else f"{format_minor(first)} to {format_minor(last)}"


def _value(value: Any, old: Any) -> str:
    """A value by itself, or by what it adds to the one before and leaves out of it."""
    if isinstance(value, str):
        return f"`{value}`" if value else "nothing"
    if isinstance(value, frozenset):
        gone = "".join(f" less `{each}`" for each in sorted((old or frozenset()) - value))
        more = ", ".join(f"`{each}`" for each in sorted(value - (old or frozenset())))
        return f"{'and ' if old and more else ''}{more}{gone}".strip() or "none"
    told = {each.name: getattr(value, each.name) for each in fields(value)}
    new = {name: one for name, one in told.items() if old is None or getattr(old, name) != one}
    return ", ".join(f"`{name}` {str(one).lower() if isinstance(one, bool) else one}" for name, one in new.items())


def counted(passes: Iterable[tuple[str, bool]]) -> dict[str, tuple[int, int]]:
    """Passes and cases by door."""
    doors = groupby(sorted(passes), key=lambda each: each[0])
    return {door: (sum(passed for _, passed in group), len(group)) for door, each in doors if (group := list(each))}
