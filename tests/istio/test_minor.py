from __future__ import annotations

import pytest

from injector.errors import ConfigError
from injector.istio.minor import format_minor, parse_minor


@pytest.mark.parametrize("text", ["1.24", "v1.24", "1.24.6", "1.24-alpha.0", "1.24.0+build", " 1.24 "])
def test_every_spelling_of_a_version_gives_its_minor(text: str) -> None:
    assert parse_minor(text) == (1, 24)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "is not an Istio version"),
        ("latest", "is not an Istio version"),
        ("1.31", "is not known"),
        ("2.0", "is not known"),
    ],
)
def test_what_is_no_known_version_is_refused_with_the_range(text: str, what: str) -> None:
    with pytest.raises(ConfigError, match=what) as error:
        parse_minor(text, where="revision.yaml: istioVersion")
    assert error.value.where == "revision.yaml: istioVersion"
    assert error.value.hint


def test_a_minor_prints_as_people_write_it() -> None:
    assert format_minor((1, 9)) == "1.9"
