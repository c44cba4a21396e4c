"""Plans for the pod templates of manifests: what ``kube-inject`` makes of a workload like one before it.

A pod template is a pod without a name whose workload is known otherwise. What kube-inject does by other rules than the webhook
(``manifest``) is the same for all workloads of a revision, or for those with one ProxyConfig of their own: it is part of the revision
that these plans are of.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import jsonpatch
import orjson

from injector.injection import containers as c
from injector.injection.data import namespaced_name
from injector.injection.pipeline import PROXY_CONFIG, overlaid_mesh, patched_object
from injector.injection.planning import learn
from injector.injection.plans import Plans, asked
from injector.istio.config import SIDECAR_TEMPLATE_NAME
from injector.kube.jsonpatch import create_patch

if TYPE_CHECKING:
    from collections.abc import Callable

    from injector.injection.result import Injected, RequestFacts
    from injector.istio.revision import Revision
    from injector.kube.pods import WorkloadMeta

_KEPT: Final = "template plans"
COST: Final = 8
"""Injections that take as long as making a plan: so many come first, so that plans never take more than half of the time."""

CONFIGS: Final = 16
"""ProxyConfigs of pods that are remembered at once. Workloads that have one mostly share it."""


@dataclass
class TemplatePlans:
    """The plans of one revision for manifests, by the pod's own ProxyConfig."""

    revision: Revision
    _plans: OrderedDict[str | None, Plans] = field(default_factory=OrderedDict)
    _credit: int = 0
    planned: int = 0
    """How many injections a plan did."""

    @property
    def known(self) -> int:
        """How many ProxyConfigs are remembered, none of their own being one."""
        return len(self._plans)

    def injected(
        self, pod: c.Pod, workload: WorkloadMeta, facts: RequestFacts, by_pipeline: Callable[[], Injected]
    ) -> c.Pod:
        """Return a pod template, in Go's form, with its sidecar: by a plan if there is one, else by the pipeline.

        Of ``facts`` only the guard's mode counts here. What the guard warns of is never planned, so that it is warned of each time.

        Raises:
            DataError: as ``by_pipeline`` does.
        """
        if not namespaced_name(self.revision):  # older templates see all of the workload's metadata
            return by_pipeline().pod
        plans = self._plans_for(pod)
        wanted = asked(plans.revision, plans.leaves, pod, facts, workload) if plans.possible else None
        plan = None if wanted is None else plans.find(wanted)
        if wanted is not None and plan is not None:
            self.planned += 1
            final: c.Pod = jsonpatch.apply_patch(pod, orjson.loads(plan.patch(wanted.texts)))
            return final
        result = by_pipeline()
        self._credit += 1
        if wanted is not None and not result.findings and self._credit >= COST and plans.worth(wanted):
            self._credit -= COST
            patch = create_patch(patched_object(pod), result.pod)
            learn(plans, wanted, facts, replace(result, patch=patch))
        return result.pod

    def _plans_for(self, pod: c.Pod) -> Plans:
        """Return the plans of all pods with the ProxyConfig of this one, which reaches the mesh config here, unlike in the webhook."""
        text = c.annotations_of(pod).get(PROXY_CONFIG)
        plans = self._plans.get(text)
        if plans is None:
            plans = self._plans[text] = Plans(replace(self.revision, mesh=overlaid_mesh(self.revision, pod)))
            if len(self._plans) > CONFIGS:
                self._plans.popitem(last=False)
        return plans


def template_plans_of(revision: Revision) -> TemplatePlans:
    """Return the plans of a revision for manifests, which go with it."""
    kept: TemplatePlans | None = revision.kept.get(_KEPT)
    if kept is None:
        config = replace(revision.config, default_templates=(SIDECAR_TEMPLATE_NAME,), injected_annotations={})
        kept = revision.kept[_KEPT] = TemplatePlans(replace(revision, config=config))
    return kept
