"""Why workloads of a cluster are injected, or why not: by its own webhooks, and whether these reach an injector."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from injector.cli.delivery import delivery_steps
from injector.cli.explained import Explained, explained_by
from injector.cli.liveroute import called_last, live_route
from injector.cli.route import Labels
from injector.cli.surroundings import read_surroundings
from injector.cli.targets import Target, read_target, read_targets
from injector.revisions.weights import workload_key

if TYPE_CHECKING:
    from injector.cli.surroundings import Sources, Surroundings
    from injector.cluster.reader import Reader
    from injector.kube.created import Created


@dataclass(frozen=True, slots=True)
class LiveExplanation:
    """The traces of workloads, and what the user should know of how they were told."""

    explained: list[Explained]
    notes: tuple[str, ...]


async def explain_live(reader: Reader, sources: Sources, wanted: Target | str | None) -> LiveExplanation:
    """Return the traces of one workload, or of all of a namespace.

    Raises:
        InjectorError: the workload, its namespace, a webhook or the revisions cannot be read.
    """
    if isinstance(wanted, Target):
        namespace: str | None = wanted.namespace
        workloads = [await read_target(reader, wanted)]
    else:
        namespace = wanted
        workloads = await read_targets(reader, namespace)
    around = await read_surroundings(reader, sources, namespace)
    explained = [await _explained(reader, each, around, sources.guard) for each in workloads]
    notes = around.built.notes if workloads else (*around.built.notes, f"there is no workload in namespace {namespace}")
    return LiveExplanation(explained, notes)


async def _explained(reader: Reader, workload: Created, around: Surroundings, guard: str) -> Explained:
    labels = labels_of(workload, around)
    routed = live_route(around, labels)
    webhook = called_last(around.webhooks, labels)
    delivery = () if webhook is None else await delivery_steps(reader, webhook)
    first, *rest = routed.steps
    return explained_by(workload, replace(routed, steps=(first, *delivery, *rest)), around.built.revision, guard)


def labels_of(workload: Created, around: Surroundings) -> Labels:
    """Return what tells where the pod of a workload goes."""
    meta = workload.pod["metadata"]
    return Labels(
        around.namespaces[workload.namespace],
        meta.get("labels") or {},
        meta.get("annotations") or {},
        workload_key(workload.pod, workload.namespace),
    )
