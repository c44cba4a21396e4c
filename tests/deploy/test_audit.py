"""What an audit of the locked packages comes to; ``scripts/audit`` makes one where somebody can be asked."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cases import cases
from tests.deploy.audit import UNAVAILABLE, audit_of, listed

CLEAN = {"name": "aiohttp", "version": "3.14.1", "vulns": []}
UNKNOWN = {"name": "yarl", "skip_reason": "Dependency not found"}
KNOWN = {"name": "jinja2", "version": "3.1.0", "vulns": [{"id": "PYSEC-1", "fix_versions": ["3.1.6"]}]}


def report(*packages: dict[str, Any]) -> str:
    return json.dumps({"dependencies": list(packages), "fixes": []})


@pytest.mark.parametrize(
    ("text", "status", "says"),
    [
        (report(CLEAN), 0, "0 known in 1 packages"),
        (report(CLEAN, KNOWN), 1, "1 known in 2 packages: jinja2 3.1.0 PYSEC-1"),
        (report(UNKNOWN, KNOWN), 1, "1 known in 2 packages: jinja2 3.1.0 PYSEC-1"),
        (report(CLEAN, UNKNOWN), UNAVAILABLE, "not asked: of 1 of 2 packages nothing can be learnt from here"),
        (report(), UNAVAILABLE, "not asked: pip-audit reaches nobody who knows"),
        ("", UNAVAILABLE, "not asked: pip-audit reaches nobody who knows"),
    ],
)
def test_who_could_not_be_asked_about_is_not_clean(text: str, status: int, says: str) -> None:
    assert (audit_of(text).status, audit_of(text).figure) == (status, says)


@cases("specifiers", "status", "says")
def test_a_list_of_insecure_versions_is_asked_by_normal_names(specifiers: list[str], status: int, says: str) -> None:
    lock = "# made by a tool\nPy.YAML==3.14.1 \\\n    --hash=sha256:00\nyarl==1.0 ; python_version < '4' \\\n    --hash=sha256:11\n"

    audit, row = listed(lock, {"$meta": {"timestamp": 0}, "py_yaml": specifiers, "other": [">=0"]})

    assert (audit.status, row.met, row.figure) == (status, status == 0, says)
    assert row.test == "T35 requirements.lock against a list of 1970-01-01"
