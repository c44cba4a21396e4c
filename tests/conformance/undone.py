"""The way back: what is injected and uninjected, against what it was."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

from injector.injection.tools.uninject import uninject_object
from injector.kube.typed import kind_type, normalise
from tests.conformance import compare, core, corpus

INJECTED_BEFORE = "it comes with a sidecar, and goes without"
OWN_TEMPLATE = "a template of the user's own writes metadata that nothing marks"
OVERWRITTEN = "the template puts its group over the user's"
BY_VALUES = "what the values say of interception looks like the user's own annotations"

LOST = MappingProxyType(
    {
        "1.4-002-deployment-hello": INJECTED_BEFORE,
        "1.5-013-deployment-traffic": BY_VALUES,
        "1.5-039-deployment-hello": INJECTED_BEFORE,
        "1.10-014-deployment-hello": OVERWRITTEN,
        "1.10-016-deployment-hello": OWN_TEMPLATE,
        "1.12-030-deployment-hello": OVERWRITTEN,
        "1.12-038-deployment-hello": OWN_TEMPLATE,
        "1.14-031-explicit-security-context.yaml.injected": OVERWRITTEN,
        "custom-template.yaml.injected": OWN_TEMPLATE,
        "merge-probers.yaml.injected": INJECTED_BEFORE,
    }
)
"""Cases that do not come back: but for what came with a sidecar, their output is another input's too. By minor and name, or by golden."""


def lost(case: corpus.Case) -> str:
    """Why the input of a case does not come back; empty where it does."""
    golden = case.expected.name if case.expected else ""
    return LOST.get(f"{case.minor}-{case.name}") or LOST.get(golden, "")


def fault(case: corpus.Case) -> str:
    """How what comes back of a case's input differs from it; empty where it does not."""
    injected, _ = core.injected_documents(case.settings, case.source)
    got = [as_go_reads(restored(document)) for document in injected]
    return compare.difference(got, [as_go_reads(document) for document in core.documents(case.source)])


def restored(document: Any) -> Any:
    """A document after uninject, as the command prints it."""
    result = uninject_object(document) if isinstance(document, dict) else None
    return document if result is None else result


def as_go_reads(document: Any) -> Any:
    """A workload without the zero values that Go's types leave out: kube-inject has dropped them."""
    type_name = kind_type(str(document.get("kind"))) if isinstance(document, dict) else None
    if type_name is None:
        return document
    if document["kind"] == "List":
        return {**document, "items": [as_go_reads(item) for item in document["items"]]}
    return normalise(document, type_name, coerce=True)
