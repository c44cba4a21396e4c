"""Sprig's comparisons of versions."""

from __future__ import annotations

import pytest

from injector.gotemplate.errors import FuncError
from injector.gotemplate.sprig import semver


# What Masterminds/semver v3.3 answers: each number is a uint64.
@pytest.mark.parametrize("digits", ["99999999999999999999", "18446744073709551616", "9" * 5000])
def test_a_number_beyond_64_bits_is_no_part_of_a_version(digits: str) -> None:
    with pytest.raises(FuncError) as caught:
        semver.parse_version(f"{digits}.1")
    fault = f'strconv.ParseUint: parsing "{digits}": value out of range'
    assert str(caught.value) == f"Error parsing version segment: {fault}"
    with pytest.raises(FuncError, match=r"^constraint Parser Error$"):
        semver.semver_compare(f"~1.{digits}", "1.2.3")


@pytest.mark.parametrize("digits", ["99999999999999999999", "9" * 5000])
def test_beyond_64_bits_a_prerelease_is_a_word(digits: str) -> None:
    assert not semver.semver_compare(f">=1.0.0-{digits}", "1.0.0-5")
    assert semver.semver_compare(">=1.0.0-5", f"1.0.0-{digits}")
