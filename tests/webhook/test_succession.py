from __future__ import annotations

import base64
from dataclasses import replace

import pytest

from injector.errors import ConfigError
from injector.webhook.tls.ca import (
    Authority,
    CaRotation,
    Lifetimes,
    advance,
    data_of,
    new_authority,
    new_ca,
    read_rotation,
)
from injector.webhook.tls.certificate import read_certificates

START = 1e9
TIMES = Lifetimes(authority=900.0, leaf=60.0, overlap=30.0)
RENEWAL = START + 600.0


def follow(held: CaRotation, at: float, *, trusted: bool = True) -> CaRotation:
    return advance(held, TIMES, now=at, trusted=trusted)


def in_phase_one() -> CaRotation:
    return follow(new_ca(START, TIMES), RENEWAL)


def certificates_of(held: CaRotation) -> set[Authority | bytes]:
    return {*read_certificates(held.bundle)}  # type: ignore[arg-type]


def test_the_defaults_are_a_year_and_a_week() -> None:
    assert Lifetimes() == Lifetimes(authority=365 * 86400.0, leaf=7 * 86400.0, overlap=86400.0, share=2 / 3)


def test_a_new_one_signs_alone() -> None:
    held = new_ca(START, TIMES)

    assert (held.since, held.next, held.retired, held.bundle) == (START, None, (), held.signing.pem)


@pytest.mark.parametrize("at", [0.0, 300.0, 599.0])
def test_nothing_follows_before_two_thirds_of_its_life(at: float) -> None:
    held = new_ca(START, TIMES)

    assert follow(held, START + at) is held


def test_at_two_thirds_the_next_one_is_published_and_signs_nothing() -> None:
    held = new_ca(START, TIMES)

    first = follow(held, RENEWAL)

    assert (first.signing, first.since) == (held.signing, START)
    assert first.next is not None
    assert certificates_of(first) == {held.signing.certificate, first.next.certificate}


@pytest.mark.parametrize(
    ("after", "trusted", "signs"),
    [(29.0, True, False), (30.0, False, False), (30.0, True, True), (200.0, False, False)],
)
def test_the_next_one_signs_once_the_overlap_is_over_and_the_bundle_is_everywhere(
    after: float, trusted: bool, signs: bool
) -> None:
    held = in_phase_one()

    second = follow(held, RENEWAL + after, trusted=trusted)

    assert (second.signing == held.next) is signs
    assert second.bundle == held.bundle


def test_the_former_one_is_trusted_until_all_that_it_signed_has_expired() -> None:
    held = in_phase_one()
    second = follow(held, RENEWAL + 30.0)

    kept, dropped = follow(second, RENEWAL + 89.0), follow(second, RENEWAL + 90.0)

    assert kept is second
    assert (dropped.retired, dropped.bundle) == ((), second.signing.pem)
    assert (dropped.signing, dropped.since) == (second.signing, RENEWAL + 30.0)


@pytest.mark.parametrize("late", [900.0, 5000.0])
def test_one_that_expired_is_followed_by_the_next_at_once_even_where_the_bundle_is_not_known_to_be_anywhere(
    late: float,
) -> None:
    held = in_phase_one()

    second = follow(held, START + late, trusted=False)

    assert second.signing.usable(START + late)
    assert (second.signing == held.next) is (late < 1500.0)


def test_one_that_expired_without_a_next_is_made_anew() -> None:
    held = new_ca(START, TIMES)

    anew = follow(held, START + 900.0)

    assert anew.signing.usable(START + 900.0)
    assert (anew.since, anew.retired) == (START + 900.0, ())


def test_one_from_the_future_is_made_anew_and_stays_trusted() -> None:
    held = new_ca(START + 86400.0, TIMES)

    anew = follow(held, START)

    assert anew.signing.usable(START)
    assert anew.retired == (held.signing.certificate,)


def test_a_next_one_from_the_future_waits_for_its_time() -> None:
    held = replace(new_ca(START, TIMES), next=new_authority(RENEWAL + 86400.0, 900.0))

    assert follow(held, RENEWAL) is held
    assert follow(held, START + 900.0).signing not in (held.signing, held.next)


def test_what_has_expired_leaves_the_bundle() -> None:
    old = new_authority(START - 900.0, 910.0)
    held = new_ca(START, TIMES, (old.certificate, old.certificate))

    assert held.retired == (old.certificate,)
    assert follow(held, START + 11.0).retired == ()


def test_a_secret_is_read_as_it_was_written() -> None:
    for held in (new_ca(START, TIMES), in_phase_one(), follow(in_phase_one(), RENEWAL + 30.0)):
        read = read_rotation(data_of(held), where="Secret a/b")

        assert read == held
        assert read is not None
        assert read.bundle == held.bundle
        assert base64.b64decode(data_of(held)["ca.crt"]) == held.bundle


@pytest.mark.parametrize("broken", ["tls.crt", "tls.key", "next.key"])
@pytest.mark.parametrize("value", [None, "", "%", base64.b64encode(b"x").decode()])
def test_a_secret_that_is_broken_holds_nothing(broken: str, value: str | None) -> None:
    data = data_of(in_phase_one())
    if value is None:
        del data[broken]
    else:
        data[broken] = value

    assert read_rotation(data, where="Secret a/b") is None


def test_a_bundle_that_is_broken_is_made_of_what_signs() -> None:
    held = in_phase_one()
    data = {**data_of(held), "ca.crt": ""}

    assert read_rotation(data, where="Secret a/b") == held


def test_an_empty_secret_may_be_filled_and_somebody_elses_not() -> None:
    assert read_rotation({}, where="Secret a/b") is None
    with pytest.raises(
        ConfigError, match=r"Secret a/b: the Secret belongs to something else .* give another --ca-secret"
    ):
        read_rotation({"tls.crt": "eA==", "tls.key": "eA=="}, where="Secret a/b")
