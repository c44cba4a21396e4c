"""A server that has seen many pods answers each as a fresh pipeline does (T38): pairs of a pod and a changed one.

``PAIRS`` is how many pairs are tried. The server, one process, sees the pods of all.
"""

from __future__ import annotations

import json
import random
from dataclasses import replace

from injector.istio.revision import Revision, RevisionSettings, build_revision
from tests.cases import cases
from tests.handlers import answer_of, handler_of
from tests.property import pairs, reviews
from tests.property.conftest import Apart
from tests.property.subjects import replica
from tests.revisions.fakes import VALUES, revision_of
from tests.sizes import sized

PAIRS = sized(60, 120, "PAIRS")


def test_no_answer_depends_on_the_pods_before_it(apart: Apart) -> None:
    result = apart(pairs.tried, "short", PAIRS)

    assert result.faults == []
    assert result.tried == PAIRS
    assert result.came["cache hits by another request"] > PAIRS / 10
    assert result.came["injected"] > PAIRS / 2
    assert not result.came["internal errors"]


def unsteady(expression: str) -> Revision:
    """A revision whose template writes what an expression gives."""
    return revision_of(24, pairs.SETTING_CONFIG.replace("{{ toJson $own | b64enc }}", expression), name="u")


@cases("expression")
def test_a_template_that_reads_a_clock_or_random_numbers_is_never_cached(expression: str) -> None:
    handler = handler_of(unsteady(expression))
    body = json.dumps(reviews.review_of(replica("web"), "shop", random.Random(0))).encode()  # noqa: S311 -- nothing secret

    answers = {answer_of(handler, "/inject/u", body) for _ in range(3)}

    assert all(b'"patch"' in answer for answer in answers)
    assert handler.cache.hits == 0
    assert len(answers) == 3 or "unixEpoch" in expression


def test_a_steady_template_is_answered_from_the_cache() -> None:
    handler = handler_of(unsteady("steady"))
    body = json.dumps(reviews.review_of(replica("web"), "shop", random.Random(0))).encode()  # noqa: S311 -- nothing secret

    assert len({answer_of(handler, "/inject/u", body) for _ in range(3)}) == 1
    assert handler.cache.hits == 2


def test_a_revision_with_other_data_has_another_digest() -> None:
    settings = RevisionSettings(istio_version="1.24", namespaces={"shop": {"labels": {"team": "a"}}})
    texts = [
        (VALUES, None),
        (VALUES.replace("1.24.6", "other"), None),
        (VALUES, "trustDomain: other"),
    ]
    revisions = [
        build_revision(
            "s", config=pairs.SETTING_CONFIG, values=values, mesh=mesh, settings=revision_settings, origin="s"
        )
        for revision_settings in (settings, replace(settings, namespaces={"shop": {"labels": {"team": "b"}}}))
        for values, mesh in texts
    ]

    assert len({pairs.digest(replace(revision, fingerprint="")) for revision in revisions}) == len(revisions)
    assert pairs.digest(unsteady("steady")) == pairs.digest(unsteady("steady"))
