"""What is injected and uninjected is what it was, for every input of the corpus and in every minor."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import pytest

from injector.injection.uninject import uninject_object
from injector.kube.schema import kind_type
from injector.kube.typed import normalise
from tests.conformance import compare, core, corpus

pytestmark = pytest.mark.skipif(not corpus.present(), reason=corpus.ABSENT)

CASES = [case for minor in corpus.MINORS for case in corpus.cases(minor) if case.kube_inject and case.expected]

INJECTED_BEFORE = "it comes with a sidecar, and goes without"
OWN_TEMPLATE = "a template of the user's own writes metadata that nothing marks"
OVERWRITTEN = "the template puts its group over the user's"
BY_VALUES = "what the values say of interception looks like the user's own annotations"
BY_DEFAULT = "the user's own annotations say what Istio says of any pod"

LOST = MappingProxyType(
    {
        "1.4-002-deployment-hello": INJECTED_BEFORE,
        "1.4-006-deployment-hello": BY_VALUES,
        "1.4-030-deployment-traffic": BY_VALUES,
        "1.4-033-deployment-traffic": BY_DEFAULT,
        "1.5-011-deployment-traffic": BY_DEFAULT,
        "1.5-013-deployment-traffic": BY_VALUES,
        "1.5-039-deployment-hello": INJECTED_BEFORE,
        "1.10-014-deployment-hello": OVERWRITTEN,
        "1.10-016-deployment-hello": OWN_TEMPLATE,
        "1.12-030-deployment-hello": OVERWRITTEN,
        "1.12-038-deployment-hello": OWN_TEMPLATE,
        "1.14-031-explicit-security-context.yaml.injected": OVERWRITTEN,
        "1.14-034-custom-template.yaml.injected": OWN_TEMPLATE,
        "1.17-034-custom-template.yaml.injected": OWN_TEMPLATE,
        "1.17-038-merge-probers.yaml.injected": INJECTED_BEFORE,
        "1.20-040-custom-template.yaml.injected": OWN_TEMPLATE,
        "1.20-043-merge-probers.yaml.injected": INJECTED_BEFORE,
        "1.24-043-custom-template.yaml.injected": OWN_TEMPLATE,
        "1.24-046-merge-probers.yaml.injected": INJECTED_BEFORE,
        "1.28-073-merge-probers.yaml.injected": INJECTED_BEFORE,
        "1.28-074-custom-template.yaml.injected": OWN_TEMPLATE,
        "1.30-022-merge-probers.yaml.injected": INJECTED_BEFORE,
        "1.30-026-custom-template.yaml.injected": OWN_TEMPLATE,
    }
)
"""Cases whose output another input gives too: it cannot tell which of the two it was."""


def name(case: corpus.Case) -> str:
    return f"{case.minor}-{case.name}"


@pytest.mark.parametrize("case", CASES, ids=name)
def test_what_is_injected_and_uninjected_is_what_it_was(case: corpus.Case) -> None:
    sources = core.documents(case.source)
    injected, _ = core.injected_documents(case.settings, case.source)

    fault = compare.difference(
        [as_go_reads(restored(each)) for each in injected], [as_go_reads(each) for each in sources]
    )

    assert bool(fault) == (name(case) in LOST), f"{LOST.get(name(case))}\n{fault}"


def restored(document: Any) -> Any:
    """A document after uninject, as the command prints it."""
    found = uninject_object(document) if isinstance(document, dict) else None
    return document if found is None else found


def as_go_reads(document: Any) -> Any:
    """A workload without the zero values that Go's types leave out: kube-inject has dropped them."""
    type_name = kind_type(str(document.get("kind"))) if isinstance(document, dict) else None
    if type_name is None:
        return document
    if document["kind"] == "List":
        return {**document, "items": [as_go_reads(item) for item in document["items"]]}
    return normalise(document, type_name, coerce=True)
