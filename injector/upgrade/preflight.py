"""The preflight of a wave: whether the control plane is ready, what may not be written, and a dry run of a pod of each workload."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from injector.cluster.resources import ACCESS_REVIEWS, PODS, WEBHOOKS, Resource, ready_endpoints
from injector.errors import ClusterError
from injector.injection.tools.drift import injected_revision
from injector.kube.pods import trial_pod
from injector.revisions.tags import PIN
from injector.upgrade.plan import RESTART
from injector.upgrade.store import MANAGER
from injector.upgrade.workloads import RESTARTABLE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from injector.cluster.client import KubeClient
    from injector.upgrade.document import Upgrade
    from injector.upgrade.plan import Entry, Plan

PACE: Final = 0.1
"""Seconds between two requests of a preflight, and between two restarts, so that a large wave does not load the API server."""
MAX_FAULTS: Final = 10
"""Faults after which a preflight ends: the others usually have the same cause."""
_WEBHOOK_FAILED: Final = "failed calling webhook"
"""A part of the API server's message if a webhook with failurePolicy Fail cannot be called; the status is 500."""


async def control_plane_fault(client: KubeClient, revision: str, istio_namespace: str) -> str:
    """Return why the control plane of a revision is not available; empty if it is, or if it is outside of the cluster."""
    service = "istiod" if revision == "default" else f"istiod-{revision}"
    ready = await ready_endpoints(client, istio_namespace, service)
    return f"Service {istio_namespace}/{service} has no ready endpoint" if ready and not sum(ready) else ""


async def preflight(
    client: KubeClient, plan: Plan, wave: int, istio_namespace: str, rollout: Resource | None
) -> tuple[str, ...]:
    """Return the faults that forbid a wave. ``rollout`` is the resource of Argo Rollouts, if the cluster has it.

    Raises:
        ClusterError: the API server cannot be reached.
    """
    upgrade = plan.upgrade
    due = [each for each in plan.of_wave(wave) if each.action == RESTART]
    fault = await control_plane_fault(client, upgrade.target, istio_namespace)
    # Those of later waves too, so that an upgrade does not stop in the middle.
    later = [each for each in plan.entries if each.wave is not None and each.wave >= wave and each.action == RESTART]
    missing = [fault] if fault else await _missing_permissions(client, upgrade, later, rollout)
    if missing:
        return tuple(missing)
    faults: list[str] = []
    for each in due:
        await asyncio.sleep(PACE)
        found = await dry_run_fault(client, plan, each)
        if found:
            faults.append(f"{each.key}: {found}")
            if len(faults) == MAX_FAULTS:
                break
    return tuple(faults)


async def _missing_permissions(
    client: KubeClient, upgrade: Upgrade, entries: Sequence[Entry], rollout: Resource | None
) -> list[str]:
    """Return the permissions that are missing. A permission for all namespaces is asked for first, which saves requests."""
    missing = []
    if upgrade.tag and not await _is_allowed(client, "patch", WEBHOOKS, ""):
        missing.append(f"no permission to patch {WEBHOOKS.plural}")
    needed: dict[tuple[str, Resource], set[str]] = {}
    for each in entries:
        resource = RESTARTABLE.get(each.key.kind, rollout)
        if resource is not None:
            needed.setdefault(("patch", resource), set()).add(each.key.namespace)
        needed.setdefault(("create", PODS), set()).add(each.key.namespace)
    for (verb, resource), namespaces in needed.items():
        if not await _is_allowed(client, verb, resource, ""):
            for namespace in sorted(namespaces):
                await asyncio.sleep(PACE)
                if not await _is_allowed(client, verb, resource, namespace):
                    missing.append(f"no permission to {verb} {resource.plural} in namespace {namespace}")
    return missing


async def _is_allowed(client: KubeClient, verb: str, resource: Resource, namespace: str) -> bool:
    group = resource.api_version.rpartition("/")[0]
    asked = {"verb": verb, "group": group, "resource": resource.plural, "namespace": namespace}
    manifest = {"metadata": {}, "spec": {"resourceAttributes": asked}}
    answer = await client.create(ACCESS_REVIEWS, manifest, manager=MANAGER)
    return bool((answer.get("status") or {}).get("allowed"))


async def dry_run_fault(client: KubeClient, plan: Plan, entry: Entry) -> str:
    """Return why a new pod of a workload would not have a valid sidecar of the new revision; empty if it would.

    The API server calls the webhooks as for a real pod. If the tag has not moved yet, a pin asks for the new revision.
    """
    pin = {PIN: plan.upgrade.target} if plan.upgrade.tag else {}
    pod = trial_pod(entry.workload.created.pod, entry.key.namespace, annotations=pin)
    try:
        made = await client.create(PODS, pod, manager=MANAGER, dry_run=True)
    except ClusterError as error:
        if error.refuses_object or _WEBHOOK_FAILED in error.what:
            return f"the API server refuses its pod: {error.what}"
        raise
    found = injected_revision(made)
    if found == plan.target:
        return ""
    return f"a new pod gets {f'revision {found}' if found else 'no sidecar'} instead of {plan.target}"
