"""The memos of the code are those of the table in docs/performance.md."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "injector"
PAGE = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
TABLE = PAGE[PAGE.index("| cached | key |") :].partition("\n\n")[0]
MEMO = r"(?<!class )\bMemo(\[[^=\n]*\])?\(|@lru_cache|= WeakValueDictionary\("
OWN = {
    "webhook/cache.py": "class AnswerCache",
    "kube/podvalidation.py": "class _Accepted",
    "revisions/verify.py": "class RecentPods",
    "istio/webhooks/matching.py": "self._by_namespace",
}
"""Modules with a memo of their own make, and a text of it."""


def counted(pattern: str) -> Counter[str]:
    """Return how often a pattern occurs in each module."""
    counts = {
        str(file.relative_to(PACKAGE)): len(list(re.finditer(pattern, file.read_text(encoding="utf-8"), re.MULTILINE)))
        for file in PACKAGE.rglob("*.py")
    }
    return +Counter(counts)


def modules_in(text: str) -> Counter[str]:
    return Counter(re.findall(r"`([a-z_/]+\.py)`", text))


def test_every_memo_is_in_the_table_and_every_row_is_in_the_code() -> None:
    rows = Counter(module for row in TABLE.splitlines() for module in modules_in(row.split(" | ")[0]))

    assert rows == counted(MEMO) + Counter(OWN.keys())


def test_modules_with_a_memo_of_their_own_make_have_it() -> None:
    assert [module for module, text in OWN.items() if text not in (PACKAGE / module).read_text(encoding="utf-8")] == []


def test_tables_by_functools_cache_are_in_the_modules_that_the_page_names() -> None:
    sentence = PAGE[PAGE.index("`functools.cache` ") :].partition("\n\n")[0]

    assert modules_in(sentence).keys() == counted(r"^ *@cache$|= cache\(").keys()
