"""The traces of workloads as `explain` shows them: as text for people, as data for programs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from injector.cli.output import data_text
from injector.cli.route import REVISION
from injector.injection.hiding import hiding_of
from injector.injection.result import ENFORCE, RequestFacts
from injector.injection.trace import PASSED, Step, Trace, trace_pod
from injector.kube.escaping import escape_line

if TYPE_CHECKING:
    from collections.abc import Callable

    from injector.cli.route import Routed
    from injector.istio.revision import Revision
    from injector.kube.created import Created
    from injector.revisions.source import RawRevision

TEXT: Final = "text"


@dataclass(frozen=True, slots=True)
class Explained:
    """One workload with its trace, and the revision and tag that it came to."""

    workload: Created
    trace: Trace
    revision: str | None
    tag: str | None


def explained_by(
    workload: Created, routed: Routed | Trace, build: Callable[[RawRevision], Revision], guard: str = ENFORCE
) -> Explained:
    """Return the trace of one workload from where its webhook led.

    ``build`` makes the revision that it led to, and ``guard`` is one of ``result.GUARDS``.

    Raises:
        DataError: the revision cannot be built.
    """
    if isinstance(routed, Trace):
        return Explained(workload, routed, None, None)
    revision = build(routed.raw)
    facts = RequestFacts(workload.namespace, routed.envs, revision.namespaces.get(workload.namespace), guard)
    trace = trace_pod(revision, workload.pod, facts).after(*routed.steps, _revision_step(revision))
    return Explained(workload, trace, revision.name, routed.tag)


def _revision_step(revision: Revision) -> Step:
    detail = f"{revision.name}: Istio {revision.istio_version} ({revision.version_reason}), engine {revision.engine}"
    return Step(REVISION, PASSED, detail, revision.origin)


def rendered(explained: list[Explained], output: str) -> str:
    """Return the traces as text, or as ``json`` or ``yaml``; no detail has a value of the users' variables."""
    if output == TEXT:
        return "\n".join(_text(each) for each in explained)
    return data_text({"workloads": [_data(each) for each in explained]}, output)


def _text(each: Explained) -> str:
    by = f" by {each.revision}" if each.revision else ""
    lines = [f"{each.workload}: {each.trace.outcome}{by} ({each.trace.reason})"]
    names = max(len(step.step) for step in each.trace.steps)
    verdicts = max(len(step.verdict) for step in each.trace.steps)
    lines += [
        f"  {step.step:{names}}  {step.verdict:{verdicts}}  {escape_line(_detail(each, step))}  [{escape_line(step.source)}]"
        for step in each.trace.steps
    ]
    return "".join(f"{line}\n" for line in lines)


def _data(each: Explained) -> dict[str, Any]:
    return {
        "kind": each.workload.kind,
        "namespace": each.workload.namespace,
        "name": each.workload.name,
        "outcome": each.trace.outcome,
        "reason": each.trace.reason,
        "revision": each.revision,
        "tag": each.tag,
        "steps": [
            {"step": step.step, "verdict": step.verdict, "detail": _detail(each, step), "source": step.source}
            for step in each.trace.steps
        ],
    }


def _detail(each: Explained, step: Step) -> str:
    return hiding_of(each.workload.pod).without_values(step.detail)
