"""The guard against values of a pod that break out of the template: that add to the pod what the template does not.

A template pastes annotations, labels and names into the text of an overlay. Where one of them is suspicious, the overlay is rendered once
more with harmless texts in their place, and has to have the same shape: so what the template adds is what it adds to any pod, whatever it
forgets to quote. A pod without a suspicious text costs the look at it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from injector.errors import BreakOutError, DataError
from injector.injection.data import template_data
from injector.injection.result import ENFORCE, OFF
from injector.injection.shape import difference, shown
from injector.injection.suspects import document, harmless_data, pasted, rule_of, shown_place, suspects, texts_of
from injector.istio.sidebyside import side_by_side

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from injector.injection import containers as c
    from injector.injection.parameters import Parameters
    from injector.injection.suspects import Place
    from injector.istio.revision import Revision
    from injector.istio.template import TemplateData

R = TypeVar("R")

_KEPT: Final = "guard"
# Each halves the places that a refusal may mean; a thousand are searched to the end.
_PROBES: Final = 10
# Texts and keys of a pod that takes a template some 40 ms: who sends larger ones does not keep the event loop for ten more renderings.
_LARGE: Final = 4_000
_HINT: Final = "take quotes, line breaks and other syntax of YAML out of it"


@dataclass(frozen=True, slots=True)
class Guarded(Generic[R]):
    """What a template came to, and what the guard says of it where it only warns."""

    rendered: R
    findings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Rendering(Generic[R]):
    """How templates are rendered.

    Attributes:
        read: renders the templates of an injection for template data.
        tree: what is to be compared of that, as JSON data.
        compared: renders no more than that.
    """

    read: Callable[[Parameters, TemplateData], R]
    tree: Callable[[R], Any]
    compared: Callable[[Parameters, TemplateData], Any]


@dataclass(frozen=True, slots=True)
class _Kept:
    """What the guard needs of a revision: with templates that take harmless texts, and which texts to suspect."""

    revision: Revision
    suspect: Callable[[str], bool]


def guarded(params: Parameters, seen: c.Pod, rendering: Rendering[R]) -> Guarded[R]:
    """Return what templates render for a pod, if no value of it breaks out of them.

    Args:
        params: the injection; its ``guard`` says what happens to a pod with such a value.
        seen: the pod as templates see it.
        rendering: how they are rendered.

    Raises:
        BreakOutError: a value breaks out, or is what they fail on, and the guard enforces.
        DataError: as ``rendering.read``.
    """
    kept = _kept(params.revision)
    places = [] if params.guard == OFF else suspects(document(params, seen), kept.suspect)
    fault: DataError | None = None
    rendered: R | None = None
    try:
        rendered = rendering.read(params, template_data(params, seen))
    except DataError as error:
        if not places:
            raise
        fault = error
    if rendered is not None and not places:
        return Guarded(rendered)

    tamed = replace(params, revision=kept.revision)

    def outcome(chosen: Sequence[Place], *, gone: bool = False) -> Any:
        try:
            data = harmless_data(params, seen, frozenset(chosen), gone=gone)
            return rendering.compared(tamed, data) if fault is None else rendering.tree(rendering.read(tamed, data))
        except DataError:
            return None

    real = None if rendered is None else rendering.tree(rendered)
    found = _Search(places, outcome, document(params, seen)).finding(real)
    if found is not None and params.guard == ENFORCE:
        raise found from fault
    if rendered is None:
        assert fault is not None  # noqa: S101 -- for the type checker: one of the two is there
        raise fault
    return Guarded(rendered, () if found is None else (str(found),))


def _kept(revision: Revision) -> _Kept:
    kept: _Kept | None = revision.kept.get(_KEPT)
    if kept is None:
        harmless = replace(revision, templates=side_by_side(revision.templates))
        kept = revision.kept[_KEPT] = _Kept(harmless, rule_of(revision))
    return kept


class _Search:
    """Finds the value to blame for what a pod came to.

    Args:
        places: where there are suspicious texts.
        outcome: what the templates come to with harmless texts at some of them, or without these; None where they fail.
        found: what they stand in.
    """

    def __init__(self, places: Sequence[Place], outcome: Callable[..., Any], found: dict[str, Any]) -> None:
        self._places = places
        self._outcome = outcome
        self._pasted = pasted(found, places)
        self._probes = _PROBES if len(texts_of(found)) <= _LARGE else 1

    def finding(self, real: Any) -> BreakOutError | None:
        """Return which value is to blame for ``real``; None where it is what any pod comes to."""
        meant = self._outcome(self._places)
        if real is None and meant is None:
            # What is decoded fails in any case, so look whether it works without.
            if self._outcome(self._places, gone=True) is None:
                return None
            blamed = self._blamed(lambda rest: self._outcome(rest, gone=True) is None)
        elif self._differ(real, meant):
            blamed = self._blamed(lambda rest: self._differ(self._outcome(rest), meant))
        else:
            return None
        return BreakOutError(self._fault(real, meant), where=blamed, hint=_HINT)

    def _blamed(self, goes_wrong: Callable[[Sequence[Place]], bool]) -> str:
        """Return with which place it goes wrong: with those after it alone replaced it does, with it too it does not."""
        fine, wrong, probes = 0, len(self._places), self._probes
        while wrong - fine > 1 and probes:
            probes -= 1
            middle = (fine + wrong) // 2
            if goes_wrong(self._places[middle:]):
                wrong = middle
            else:
                fine = middle
        others = wrong - fine - 1
        return shown_place(self._places[fine]) + (f", or one of {others} values behind it" if others else "")

    def _differ(self, real: Any, meant: Any) -> bool:
        if real is None or meant is None:
            return real is not meant
        return difference(real, meant, self._pasted) is not None

    def _fault(self, real: Any, meant: Any) -> str:
        if real is None:
            return "the value makes the template fail, or render what is no YAML"
        at = None if meant is None else difference(real, meant, self._pasted)
        place = shown(at) if at else ""
        return f"the value breaks out of the template: it changes {place or 'the shape of what is rendered'}"
