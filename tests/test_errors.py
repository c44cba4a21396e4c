"""The errors of the package: text, place, hint and exit code."""

from __future__ import annotations

import asyncio
import os

import pytest

from injector.errors import (
    AnnotationError,
    ClusterError,
    ConfigError,
    DataError,
    InjectorError,
    InternalError,
    ManifestError,
    OverlayError,
    ReviewError,
    TemplateRenderError,
    UnknownRevisionError,
    UsageError,
    whereabouts,
)
from tests.cases import cases

BAD_INPUT = (
    ManifestError,
    ConfigError,
    TemplateRenderError,
    OverlayError,
    AnnotationError,
    ReviewError,
    UnknownRevisionError,
)


@cases("where", "hint", "expected")
def test_the_text_says_where_what_and_what_to_do(where: str, hint: str, expected: str) -> None:
    assert str(InjectorError("is empty", where=where, hint=hint)) == expected


def test_a_place_that_is_found_out_later_shows_in_the_text() -> None:
    error = ManifestError("has no template", where="items")
    error.where = f"a.yaml:3: {error.where}"

    assert str(error) == "a.yaml:3: items: has no template"


def test_the_parts_can_be_asked_for_one_by_one() -> None:
    error = ConfigError("is empty", where="a/config", hint="fill it")

    assert (error.what, error.where, error.hint, error.args) == ("is empty", "a/config", "fill it", ("is empty",))


@pytest.mark.parametrize(
    ("kind", "code"), [(InjectorError, 1), (UsageError, 64), (DataError, 65), *((kind, 65) for kind in BAD_INPUT)]
)
def test_the_code_says_whose_turn_it_is(kind: type[InjectorError], code: int) -> None:
    assert kind("x").exit_code == code


@pytest.mark.parametrize("kind", BAD_INPUT)
def test_whoever_catches_bad_data_catches_every_kind_of_it(kind: type[DataError]) -> None:
    with pytest.raises(DataError, match="x"):
        raise kind("x")


def test_a_wrong_flag_is_no_bad_data() -> None:
    assert not issubclass(UsageError, DataError)


def test_a_revision_that_is_not_known_is_a_fault_of_the_review() -> None:
    assert issubclass(UnknownRevisionError, ReviewError)


def test_an_api_server_that_is_away_is_neither_bad_data_nor_a_wrong_flag() -> None:
    error = ClusterError("is away", where="https://a", hint="wait", reason="unreachable", status=503, retry_after=2.0)

    assert not isinstance(error, DataError | UsageError)
    assert (error.exit_code, str(error)) == (1, "https://a: is away; wait")
    assert (error.reason, error.status, error.retry_after) == ("unreachable", 503, 2.0)


def test_a_fault_of_the_injector_is_no_bad_input() -> None:
    assert not issubclass(InternalError, DataError)


def test_where_an_unforeseen_error_came_from_is_told_without_its_text() -> None:
    try:
        os.environ["S3CR3T"]
    except KeyError as error:
        place = whereabouts(error)

    assert place.startswith("KeyError at ")
    assert "test_errors.py:" in place
    assert "S3CR3T" not in place


async def test_the_error_of_a_task_in_a_group_is_told() -> None:
    async def fails() -> None:
        raise KeyError("S3CR3T")

    try:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(fails())
    except* KeyError as errors:
        place = whereabouts(errors)

    assert place.startswith("KeyError at ")
    assert "S3CR3T" not in place
