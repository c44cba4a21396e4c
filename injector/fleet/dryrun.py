"""Ask the API server whether it would create injected pods, by a dry run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from injector.cluster.resources import PODS
from injector.cluster.session import open_session
from injector.errors import ClusterError
from injector.istio.labels import INJECT_LABEL
from injector.kube.pods import trial_pod

if TYPE_CHECKING:
    from injector.cluster.client import KubeClient
    from injector.cluster.kubeconfig import Kubeconfig

T = TypeVar("T")

_MANAGER: Final = "injector-diff"
_NOT_PERMITTED: Final = 'cannot create resource "pods"'


async def refusal(client: KubeClient, pod: Mapping[str, Any], namespace: str) -> str | None:
    """Return why the API server would not create an injected pod, by a dry run; None if it would.

    No webhook of Istio's is called for it, because the pod gets the label that refuses injection.

    Raises:
        ClusterError: the API server cannot be reached, or does not permit the dry run.
    """
    tried = trial_pod(pod, namespace, labels={INJECT_LABEL: "false"})
    try:
        await client.create(PODS, tried, manager=_MANAGER, dry_run=True)
    except ClusterError as error:
        if not error.refuses_object or _NOT_PERMITTED in error.what:
            raise
        return error.what
    return None


def confirm_items(
    items: Sequence[T],
    group_of: Callable[[T], tuple[str, ...] | None],
    check: Callable[[KubeClient, T], Coroutine[Any, Any, T]],
    kubeconfig: Kubeconfig,
    count: int,
) -> tuple[list[T], tuple[str, ...]]:
    """Let the API server check ``count`` of the items, one of each group before others.

    ``group_of`` returns the group of an item, or None if there is nothing to check. ``check`` checks an item, and returns what it becomes.

    Returns:
        The items, those that were checked replaced, and a note if the API server cannot be asked.
    """
    ranks = Counter[tuple[str, ...]]()
    ranked = []
    for index, item in enumerate(items):
        group = group_of(item)
        if group is not None:
            ranked.append((ranks[group], index))
            ranks[group] += 1
    sample = [index for _, index in sorted(ranked)[:count]]

    async def work(client: KubeClient) -> dict[int, T]:
        return {index: await check(client, items[index]) for index in sample}

    if not sample:
        return list(items), ()
    try:
        with open_session(kubeconfig) as session:
            checked = session.run(work)
    except ClusterError as error:
        return list(items), (f"the API server did not check the injected pods: {error}",)
    return [checked.get(index, item) for index, item in enumerate(items)], ()
