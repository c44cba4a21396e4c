"""The parts of the fuzzer that run without it: drawing from an input, the time limit, targets, and the generators."""

from __future__ import annotations

import itertools
import json
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest

from injector.injection.steps.overrides import OVERRIDES
from tests.fuzz.draws import DIGITS, Draws
from tests.fuzz.limit import TooSlowError, limited
from tests.fuzz.podmaking import MADE, drawn_pod
from tests.fuzz.reviewing import mutated_review
from tests.fuzz.target import ROOT, Target


def test_the_input_decides() -> None:
    draws = Draws(b"\x02\x01\x00\x80abc")

    assert draws.choice("wxyz") == "y"
    assert draws.randrange(4) == 1
    assert draws.random() == 0.5
    assert draws.randbytes(2) == b"ab"
    assert draws.rest() == b"c"


def test_an_input_that_has_ended_decides_for_the_first() -> None:
    draws = Draws(b"")

    assert (draws.ended(), draws.choice("ab"), draws.randrange(1_000), draws.random()) == (True, "a", 0, 0.0)


def test_the_same_input_decides_alike() -> None:
    first, again = (Draws(bytes(range(200))) for _ in range(2))

    assert [first.randrange(50) for _ in range(90)] == [again.randrange(50) for _ in range(90)]


def test_text_is_utf8_with_other_bytes_as_surrogates_and_one_that_is_a_long_number() -> None:
    assert Draws(b"\xc3\xa9\xff\x07").whole_text() == f"é\udcff{DIGITS}"


@pytest.fixture
def restored_handler() -> Iterator[None]:
    """Restores the signal handler after a test."""
    before = signal.getsignal(signal.SIGPROF)
    yield
    assert signal.getitimer(signal.ITIMER_PROF) == (0.0, 0.0)
    signal.signal(signal.SIGPROF, before)


@pytest.mark.usefixtures("restored_handler")
def test_an_input_that_works_without_end_is_ended() -> None:
    def without_end(_: bytes) -> None:
        for _number in itertools.count():
            with suppress(Exception):
                int("1" * 100)

    with pytest.raises(TooSlowError, match=r"more than 0\.05 seconds of the processor"):
        limited(without_end, seconds=0.05)(b"")


@pytest.mark.usefixtures("restored_handler")
def test_time_that_passes_without_work_is_no_fault_of_the_input() -> None:
    tried = []

    def paused(data: bytes) -> None:
        time.sleep(0.2)
        tried.append(data)

    limited(paused, seconds=0.1)(b"x")

    assert tried == [b"x"]


@pytest.mark.usefixtures("restored_handler")
def test_an_error_of_an_input_comes_through() -> None:
    def wrong(_: bytes) -> None:
        raise KeyError

    with pytest.raises(KeyError):
        limited(wrong)(b"")


def _target(*modules: str, guides: tuple[str, ...] = ()) -> Target:
    return Target(run=lambda _: None, modules=modules, seeds=lambda: (), guides=guides)


def test_a_folder_stands_for_the_modules_in_it() -> None:
    files = _target("gotemplate/sprig").files()

    assert files
    assert {Path(file) for file in files} == {*(ROOT / "injector" / "gotemplate" / "sprig").glob("*.py")}


def test_all_but_its_modules_and_its_guides_is_uncounted() -> None:
    uncounted = _target("kube/pods.py", guides=("injection",)).uncounted()

    assert {"injector", "injector.kube", "injector.kube.typed", "injector.webhook.handler"} <= {*uncounted}
    assert not {"injector.kube.pods", "injector.injection", "injector.injection.pipeline"} & {*uncounted}


def drawn(make: Callable[[Draws], Any], count: int) -> list[Any]:
    random = Random(1)  # noqa: S311 -- nothing secret
    return [make(Draws(random.randbytes(200))) for _ in range(count)]


def test_an_input_that_is_empty_makes_a_pod_as_it_is() -> None:
    assert drawn_pod(Draws(b"")) == {**json.loads(MADE[0]), "metadata": {"name": "hello", "ownerReferences": []}}


@pytest.mark.parametrize("make", [drawn_pod, mutated_review])
def test_the_same_input_makes_the_same_whatever_came_before(make: Callable[[Draws], Any]) -> None:
    assert drawn(make, 100) == drawn(make, 100)


def test_inputs_make_pods_of_all_kinds() -> None:
    pods = [json.dumps(pod) for pod in drawn(drawn_pod, 200)]

    assert len(set(pods)) > 150
    assert any(OVERRIDES in pod for pod in pods)
    assert any("ISTIO_KUBE_APP_PROBERS" in pod for pod in pods)
    assert any('"spec": null' in pod or '"spec"' not in pod for pod in pods)


def test_inputs_make_reviews_of_all_kinds() -> None:
    assert len(set(drawn(mutated_review, 200))) > 150
