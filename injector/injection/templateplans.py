"""Plans for the pod templates of manifests: what ``kube-inject`` makes of a workload like one before it.

A pod template is a pod without a name whose workload is known otherwise. What kube-inject does by other rules than the webhook
(``manifest``) is either the same for all workloads of a revision, and then part of the revision that these plans are of, or the pod has
no plan.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import orjson

from injector.injection import containers as c
from injector.injection.data import namespaced_name
from injector.injection.pipeline import PROXY_CONFIG, patched_object
from injector.injection.planning import learn
from injector.injection.plans import Plans, asked
from injector.injection.result import Injected, RequestFacts
from injector.istio.config import SIDECAR_TEMPLATE_NAME
from injector.kube.jsonapply import patched
from injector.kube.jsonpatch import create_patch

if TYPE_CHECKING:
    from collections.abc import Callable

    from injector.injection.plans import Asked
    from injector.istio.revision import Revision
    from injector.kube.pods import WorkloadMeta

_KEPT: Final = "template plans"
_NO_FACTS: Final = RequestFacts()
COST: Final = 8
"""Injections that take as long as making a plan: so many come first, so that plans never take more than half of the time."""


@dataclass
class TemplatePlans:
    """The plans of one revision for manifests."""

    plans: Plans
    _credit: int = field(default=0)

    def injected(self, pod: c.Pod, workload: WorkloadMeta, by_pipeline: Callable[[], Injected]) -> c.Pod:
        """Return a pod template, in Go's form, with its sidecar: by a plan if there is one, else by the pipeline.

        Raises:
            DataError: as ``by_pipeline`` does.
        """
        wanted = self._ask(pod, workload)
        plan = None if wanted is None else self.plans.find(wanted)
        if wanted is not None and plan is not None:
            final: c.Pod = patched(pod, orjson.loads(plan.patch(wanted.texts)))
            return final
        result = by_pipeline()
        self._credit += 1
        if wanted is not None and self._credit >= COST and self.plans.worth(wanted):
            self._credit -= COST
            patch = create_patch(patched_object(pod), result.pod)
            learn(self.plans, wanted, _NO_FACTS, replace(result, patch=patch))
        return result.pod

    def _ask(self, pod: c.Pod, workload: WorkloadMeta) -> Asked | None:
        plans, revision = self.plans, self.plans.revision
        # Older templates see all of the workload's metadata; the pod's ProxyConfig reaches the mesh config here, unlike in the webhook.
        if not plans.possible or not namespaced_name(revision) or PROXY_CONFIG in c.annotations_of(pod):
            return None
        return asked(revision, plans.leaves, pod, _NO_FACTS, workload)


def template_plans_of(revision: Revision) -> TemplatePlans:
    """Return the plans of a revision for manifests, which go with it."""
    kept: TemplatePlans | None = revision.kept.get(_KEPT)
    if kept is None:
        config = replace(revision.config, default_templates=(SIDECAR_TEMPLATE_NAME,), injected_annotations={})
        kept = revision.kept[_KEPT] = TemplatePlans(Plans(replace(revision, config=config)))
    return kept
