"""The page docs/compatibility.md: what was tested for each minor, and what is special about it, out of the table of behaviours."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import Field, dataclass, field, fields
from itertools import compress, groupby
from pathlib import Path
from typing import Any

from injector.istio.behaviours import DEVELOPMENT, NEWEST, OLDEST, Behaviours, Minor, format_minor
from tests.cases import read_cases
from tests.differential.injectorcases import Recording, recordings

TEXTS: dict[str, Any] = read_cases(Path(__file__).with_suffix(".yaml"))


@dataclass(frozen=True, slots=True)
class Tally:
    """How many cases of a minor passed, of how many."""

    minor: str
    kube_inject: tuple[int, int]
    webhook: tuple[int, int]
    text: tuple[int, int]
    back: tuple[int, int]
    failed: tuple[str, ...] = field(default=(), kw_only=True)


def page(tallies: Iterable[Tally]) -> str:
    """The text of the page."""
    minors = {"oldest": OLDEST, "newest": NEWEST, "development": DEVELOPMENT}
    names = {name: format_minor(minor) for name, minor in minors.items()}
    tested = [_row(tally.minor, tally) for tally in tallies]
    special = [f"| {TEXTS['tells'][field.name]} | {_describe(field)} |" for field in fields(Behaviours)]
    return "\n".join(
        [
            TEXTS["head"].format(**names) + "\n".join(tested),
            TEXTS["answers"] + "\n".join(_answered()) + "\n" + TEXTS["development"].format(**names).rstrip(),
            TEXTS["special"].format(**names) + "\n".join(special),
            TEXTS["differences"] + TEXTS["dates"],
        ]
    )


def _answered() -> Iterator[str]:
    """Yield a row for each release of Istio whose webhooks were asked, with the last day."""
    for cells, group in groupby(recordings(), key=_release):
        some = list(group)
        count = sum(len(recording.answers) for recording in some)
        yield f"| {' | '.join(cells)} | {max(recording.date for recording in some)} | {count} |"


def _release(recording: Recording) -> tuple[str, str, str]:
    return (recording.plane.minor, recording.release, recording.commit[:8])


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


def _describe(behaviour: Field[Any]) -> str:
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
        gone = "".join(f" less `{name}`" for name in sorted((old or frozenset()) - value))
        more = ", ".join(f"`{name}`" for name in sorted(value - (old or frozenset())))
        return f"{'and ' if old and more else ''}{more}{gone}".strip() or "none"
    values = {field.name: getattr(value, field.name) for field in fields(value)}
    new = {name: one for name, one in values.items() if old is None or getattr(old, name) != one}
    return ", ".join(f"`{name}` {str(one).lower() if isinstance(one, bool) else one}" for name, one in new.items())


def counted(passes: Iterable[tuple[str, bool]]) -> dict[str, tuple[int, int]]:
    """Passes and cases by door."""
    doors = groupby(sorted(passes), key=lambda pair: pair[0])
    return {
        door: (sum(passed for _, passed in group), len(group)) for door, results in doors if (group := list(results))
    }
