"""The preflight of a wave: it asks whether the control plane is ready and what may not be written, and creates pods as a dry run."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from injector.cluster.resources import ACCESS_REVIEWS, PODS, WEBHOOKS, Resource, Scope, ready_endpoints
from injector.errors import ClusterError
from injector.injection.tools.drift import injected_revision
from injector.istio.labels import TAG_LABEL
from injector.istio.webhooks.owners import owner_of
from injector.kube.pods import trial_pod
from injector.revisions.tags import PIN
from injector.upgrade.plan import RESTART, RESTARTABLE, waits_for_quota
from injector.upgrade.store import MANAGER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from injector.cluster.client import KubeClient
    from injector.upgrade.document import Upgrade
    from injector.upgrade.plan import Entry, Key, Plan

PACE: Final = 0.1
"""Seconds between two requests of a preflight, and between two restarts, so that a large wave does not load the API server."""
TURN: Final = 20.0
"""Seconds after which a preflight goes on in the next step: meanwhile, the runner shows no sign of life and sees no command of a user."""
MAX_FAULTS: Final = 10
"""Faults after which a preflight ends: the others usually have the same cause."""
_TERMINATED: Final = "because it is being terminated"
"""The end of the API server's message if the namespace of a new object is being deleted; the status is 403."""
WEBHOOK_FAILED: Final = "failed calling webhook"
"""A part of the API server's message if a webhook with failurePolicy Fail cannot be called; the status is 500."""


async def control_plane_fault(client: KubeClient, revision: str, istio_namespace: str) -> str:
    """Return why the control plane of a revision is not available; empty if it is, or if it is outside of the cluster."""
    service = "istiod" if revision == "default" else f"istiod-{revision}"
    ready = await ready_endpoints(client, istio_namespace, service)
    return f"Service {istio_namespace}/{service} has no ready endpoint" if ready and not sum(ready) else ""


async def preflight(
    client: KubeClient, plan: Plan, wave: int, istio_namespace: str, rollout: Resource | None, tried: set[Key]
) -> tuple[str, ...] | None:
    """Return the faults that forbid a wave. If it takes longer than ``TURN``, return those so far, or None to go on with the next call.

    ``tried`` are the workloads whose dry runs have succeeded in the calls before. ``rollout`` is the resource of Argo Rollouts, if the
    cluster has it.
    """
    now = asyncio.get_running_loop().time
    end = now() + TURN
    entries = [entry for entry in plan.of_wave(wave) if entry.action == RESTART and entry.key not in tried]
    faults = [] if tried else await _faults_before_dry_runs(client, plan, wave, istio_namespace, rollout)
    if faults:
        return tuple(faults)
    for entry in entries:
        if now() > end and faults:
            break
        if now() > end and tried:
            return None
        await asyncio.sleep(PACE)
        fault = await dry_run_fault(client, plan, entry)
        if fault:
            faults.append(f"{entry.key}: {fault}")
            if len(faults) == MAX_FAULTS:
                break
        else:
            tried.add(entry.key)
    tried.clear()
    return tuple(faults)


async def _faults_before_dry_runs(
    client: KubeClient, plan: Plan, wave: int, istio_namespace: str, rollout: Resource | None
) -> list[str]:
    """Return the faults of the control plane, of the tag and of the permissions: the first sort that has any."""
    upgrade = plan.upgrade
    fault = await control_plane_fault(client, upgrade.target, istio_namespace)
    # Those of later waves too, so that an upgrade does not stop in the middle.
    later = [
        entry for entry in plan.entries if entry.wave is not None and entry.wave >= wave and entry.action == RESTART
    ]
    missing = [fault] if fault else await _tag_faults(client, upgrade.tag)
    missing = missing or await missing_permissions(client, upgrade, later, rollout, PACE)
    return missing or await gateway_faults(client, plan)


async def _tag_faults(client: KubeClient, tag: str) -> list[str]:
    """Return why the tag would not stay as the upgrade writes it: a controller owns its object."""
    items = await client.all(Scope(WEBHOOKS, labels=f"{TAG_LABEL}={tag}"), lambda item: item) if tag else []
    owners = [owner for item in items if (owner := owner_of(item)) is not None and owner.is_controller]
    return [f"tag {tag} belongs to {owner}" for owner in owners]


async def gateway_faults(client: KubeClient, plan: Plan) -> list[str]:
    """Return why the Gateways whose owner the tag would change cannot be pinned."""
    view = plan.gateway_view
    if not plan.upgrade.gateways.pin:
        return []
    if view.unknown:
        return [f"{view.unknown}; grant it, or write `gateways: {{pin: false}}`"]
    places = sorted({change.gateway.namespace for change in plan.gateways})
    if view.resource is None or not places or await _is_allowed(client, "patch", view.resource, ""):
        return []
    return [
        f"no permission to patch {view.resource.plural} in namespace {place}"
        for place in places
        if not await _is_allowed(client, "patch", view.resource, place)
    ]


async def missing_permissions(
    client: KubeClient, upgrade: Upgrade, entries: Sequence[Entry], rollout: Resource | None, pace: float
) -> list[str]:
    """Return the permissions that are missing. A permission for all namespaces is asked for first, which saves requests."""
    missing = []
    if upgrade.tag and not await _can_move(client, upgrade.tag):
        missing.append(f"no permission to patch {WEBHOOKS.plural}")
    needed: dict[tuple[str, Resource], set[str]] = {}
    for entry in entries:
        resource = RESTARTABLE.get(entry.key.kind, rollout)
        if resource is not None:
            needed.setdefault(("patch", resource), set()).add(entry.key.namespace)
        needed.setdefault(("create", PODS), set()).add(entry.key.namespace)
    for (verb, resource), namespaces in needed.items():
        if not await _is_allowed(client, verb, resource, ""):
            for namespace in sorted(namespaces):
                await asyncio.sleep(pace)
                if not await _is_allowed(client, verb, resource, namespace):
                    missing.append(f"no permission to {verb} {resource.plural} in namespace {namespace}")
    return missing


async def _can_move(client: KubeClient, tag: str) -> bool:
    """Tell whether the webhooks of a tag can be patched: all of the cluster, or those that a role names."""
    if await _is_allowed(client, "patch", WEBHOOKS, ""):
        return True
    names = await client.all(Scope(WEBHOOKS, labels=f"{TAG_LABEL}={tag}"), lambda item: str(item["metadata"]["name"]))
    return bool(names) and all([await _is_allowed(client, "patch", WEBHOOKS, "", name) for name in names])


async def _is_allowed(client: KubeClient, verb: str, resource: Resource, namespace: str, name: str = "") -> bool:
    group = resource.api_version.rpartition("/")[0]
    attributes = {"verb": verb, "group": group, "resource": resource.plural, "namespace": namespace, "name": name}
    manifest = {"metadata": {}, "spec": {"resourceAttributes": attributes}}
    answer = await client.create(ACCESS_REVIEWS, manifest, manager=MANAGER)
    return bool((answer.get("status") or {}).get("allowed"))


async def dry_run_fault(client: KubeClient, plan: Plan, entry: Entry) -> str:
    """Return why a new pod of a workload would not have a valid sidecar of the new revision; empty if it would.

    The API server calls the webhooks as for a real pod. If the tag has not moved yet, a pin asks for the new revision.
    """
    pin = {PIN: plan.upgrade.target} if plan.upgrade.tag else {}
    pod = trial_pod(entry.workload.created.pod, entry.key.namespace, annotations=pin)
    try:
        created = await client.create(PODS, pod, manager=MANAGER, dry_run=True)
    except ClusterError as error:
        if error.reason == "missing" or error.what.endswith(_TERMINATED):
            return ""  # the workload disappears with its namespace
        if waits_for_quota(entry.workload, error.what):
            return ""
        if error.refuses_object or WEBHOOK_FAILED in error.what:
            return f"the API server refuses its pod: {error.what}"
        raise
    revision = injected_revision(created)
    if revision == plan.target:
        return ""
    return f"a new pod gets {f'revision {revision}' if revision else 'no sidecar'} instead of {plan.target}"
