from __future__ import annotations

from injector.webhook.tls.selfsigned import BundleRollout, ExternalRollout


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_bundle_has_got_there_some_time_after_every_webhook_had_it() -> None:
    clock = Clock()
    spread = BundleRollout(delay=5.0, clock=clock)
    spread.note(b"a")

    before = spread.is_trusted(b"a")
    clock.now = 5.0
    spread.note(b"a")

    assert (before, spread.is_trusted(b"a"), spread.is_trusted(b"b")) == (False, True, False)


def test_a_webhook_that_loses_it_begins_the_wait_anew() -> None:
    clock = Clock()
    spread = BundleRollout(delay=5.0, clock=clock)
    spread.note(b"a")
    clock.now = 10.0
    spread.note(None)

    lost = spread.is_trusted(b"a")
    spread.note(b"a")

    assert (lost, spread.is_trusted(b"a")) == (False, False)
    clock.now = 15.0
    assert spread.is_trusted(b"a")


def test_before_anything_is_known_nothing_has_got_anywhere() -> None:
    assert not BundleRollout(delay=0.0).is_trusted(b"a")


def test_what_somebody_else_distributes_gets_there_in_time() -> None:
    clock = Clock()
    elsewhere = ExternalRollout(delay=600.0, clock=clock)

    first = elsewhere.is_trusted(b"a")
    clock.now = 600.0

    assert (first, elsewhere.is_trusted(b"a"), elsewhere.is_trusted(b"b")) == (False, True, False)
