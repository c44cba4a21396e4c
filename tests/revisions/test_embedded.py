from __future__ import annotations

from injector.revisions.directory import EMBEDDED_DEFAULT, embedded_source
from injector.revisions.registry import Registry
from injector.revisions.reload import Loader


def test_the_injector_brings_two_revisions_and_a_default() -> None:
    registry = Registry()

    report = Loader(embedded_source(), registry).load(0.0)

    assert report.errors == ()
    assert list(report.revisions) == ["canary", "stable"]
    assert registry.snapshot.resolve("").revision.name == EMBEDDED_DEFAULT
