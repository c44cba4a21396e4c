from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from injector.errors import ConfigError, InternalError
from injector.revisions.reload import LoadReport, RevisionState, changes
from injector.revisions.tags import parse_tags
from tests.revisions.fakes import fake_revision

A = fake_revision("a")
GOOD = RevisionState("a", A, None, 1.0)
KEPT = replace(GOOD, error=ConfigError("is empty", where="a/config"))
NEVER = RevisionState("a", None, ConfigError("is empty", where="a/config"))
NEW = RevisionState("a", fake_revision("a", fingerprint="beef"), None, 2.0, ("it leaves a pod alone",))
GONE = LoadReport({"a": replace(GOOD, error=ConfigError("gone"))}, (), ConfigError("gone"))
EMPTY = LoadReport()
SERVED = "revision a: Istio 1.24 (stated), go, fingerprint {}, from revisions/a"


def report(*states: RevisionState, tags: str = "") -> LoadReport:
    return LoadReport({state.name: state for state in states}, tags=parse_tags(tags))


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (EMPTY, EMPTY, []),
        (EMPTY, report(GOOD), [(logging.INFO, SERVED.format("f00d"))]),
        (report(GOOD), report(GOOD), []),
        (
            report(GOOD),
            report(NEW),
            [(logging.INFO, SERVED.format("beef")), (logging.WARNING, "revision a: it leaves a pod alone")],
        ),
        (EMPTY, report(NEVER), [(logging.ERROR, "not served: a/config: is empty")]),
        (report(GOOD), report(KEPT), [(logging.ERROR, "not served, the last good one stays: a/config: is empty")]),
        (report(KEPT), report(KEPT), []),
        (report(KEPT), report(GOOD), [(logging.INFO, "revision a: its source holds what is served again")]),
        # Nodes and namespaces that came and went: another object, the same build.
        (report(GOOD), report(replace(GOOD, served=fake_revision("a"))), []),
        (
            report(GOOD),
            report(replace(GOOD, notes=("it hides another",))),
            [(logging.WARNING, "revision a: it hides another")],
        ),
        (report(GOOD), EMPTY, [(logging.INFO, "revision a: gone")]),
        (report(GOOD), GONE, [(logging.ERROR, "everything stays as it was: gone")]),
        (GONE, GONE, []),
        (GONE, report(GOOD), [(logging.INFO, "the configuration can be read again")]),
        (report(GOOD), report(GOOD, tags="prod: a"), [(logging.INFO, "tag prod: a")]),
        (
            report(GOOD, tags="prod: a\nold: a"),
            report(GOOD, tags="prod: {a: 9, b: 1}"),
            [(logging.INFO, "tag old: gone"), (logging.INFO, "tag prod: a 9, b 1")],
        ),
        (
            report(GOOD),
            replace(report(GOOD), tag_errors=(ConfigError("leads nowhere", where="tag `x`"),)),
            [(logging.ERROR, "not served: tag `x`: leads nowhere")],
        ),
    ],
)
def test_only_what_is_new_is_told(before: LoadReport, after: LoadReport, expected: list[tuple[int, str]]) -> None:
    assert list(changes(before, after)) == expected


def test_a_fault_of_the_injector_is_logged_with_its_origin() -> None:
    error = InternalError("it cannot be built", where="a", origin="KeyError at revisions/build.py:7")

    ((_, line),) = changes(EMPTY, report(RevisionState("a", None, error)))

    assert line == "not served: a: it cannot be built (KeyError at revisions/build.py:7)"
