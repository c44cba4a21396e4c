"""Workloads that are injected in Git, as ``kube-inject`` and ``krm`` do it, and whose pods are injected again by the webhook.

- From 1.12 on, the same revision makes the same pod of it as of the workload that is not injected.
- From 1.12 on, another revision leaves one sidecar with all that it injects, and a further injection changes nothing. From 1.17 on, it has
  the images and the status annotation of that revision; before, Istio takes an earlier sidecar for the user's. What the first revision
  wrote and the second one's template does not set stays, as in Istio: it cannot be told from the user's own.
- If the proxy is a container in one revision and a native sidecar in the other, Istio takes the earlier proxy for the user's. The pod
  then has the earlier settings, or a second proxy, and so the webhook refuses it.
- Up to 1.10, templates see what an earlier injection added, and there is no such rule, but never a second sidecar.

``TESTS_LONG=1`` tries all cases, with more minors.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import jsonpatch
import pytest

from injector.errors import DataError, InvalidPodError
from injector.injection.pipeline import inject_pod
from injector.injection.result import Injected, RequestFacts
from injector.injection.tools.manifest import inject_object
from injector.istio.revision import Revision
from injector.kube.typed import normalise
from tests.conformance import compare, core, corpus, workloads
from tests.sizes import LONG, sized

pytestmark = pytest.mark.needs("corpus")

STATUS = "sidecar.istio.io/status"
FIRST = corpus.MINORS.index("1.12")
EVERY = sized(6, 1)
"""Of the cases, each of this many is tried."""
LISTS = ("containers", "initContainers")
Pod = dict[str, Any]


def injected(minor: str) -> Iterator[tuple[Revision, str, Pod, Pod]]:
    """The revision of each case, a namespace, the pod of a workload, and that of the workload that kube-inject injected."""
    for case in corpus.cases(minor)[::EVERY]:
        if not (case.webhook and case.kube_inject and case.expected):
            continue
        revision = core.revision_of(case.settings)
        for workload in workloads.injectable(core.documents(case.source)):
            in_git = inject_object(revision, workload, warn=lambda _: None)
            assert in_git is not None
            pods = workloads.as_pod(workload), workloads.as_pod(in_git)
            if [STATUS in (pod["metadata"].get("annotations") or {}) for pod in pods] == [False, True]:
                yield revision, workloads.namespace_of(workload), *pods


def admitted(revision: Revision, pod: Pod, namespace: str, *, deny: bool = False) -> Pod | None:
    """The pod after the webhook, as the API server reads it; None if the webhook leaves it alone."""
    facts = RequestFacts(namespace, namespace_meta=revision.namespaces.get(namespace), deny_invalid=deny)
    result = inject_pod(revision, pod, facts)
    if not isinstance(result, Injected):
        return None
    data = normalise(jsonpatch.apply_patch(json.loads(json.dumps(pod)), result.patch), "v1.Pod")
    for container in (container for kind in LISTS for container in data["spec"].get(kind) or ()):
        if not container.get("resources"):
            container.pop("resources", None)
        # The cluster's variables come last in each injection.
        container["env"] = sorted(container.get("env") or (), key=lambda variable: str(variable["name"]))
    return {key: data[key] for key in ("metadata", "spec")}


def places(pod: Pod) -> Counter[tuple[str, str]]:
    """The names of the containers, volumes and pull secrets of a pod, each with its list."""
    kinds = (*LISTS, "volumes", "imagePullSecrets")
    return Counter((kind, str(container["name"])) for kind in kinds for container in pod["spec"].get(kind) or ())


def images(pod: Pod) -> dict[str, str | None]:
    """The image of each container."""
    return {container["name"]: container.get("image") for kind in LISTS for container in pod["spec"].get(kind) or ()}


def proxy_list(pod: Pod) -> str:
    return next((kind for kind, name in places(pod) if name == "istio-proxy"), "")


@pytest.mark.parametrize("minor", corpus.MINORS[FIRST:])
def test_the_same_revision_makes_the_pod_that_it_makes_without_git(minor: str) -> None:
    tried = 0
    for revision, namespace, pod, in_git in injected(minor):
        tried += 1
        once, again = admitted(revision, pod, namespace), admitted(revision, in_git, namespace)
        assert again == once, compare.difference([again], [once])
        assert again is None or admitted(revision, again, namespace) == again
    assert tried > 70 / EVERY


def others(index: int) -> tuple[str, ...]:
    """The minors of the webhook for a minor in Git: the next one, and in a long run the one before and the newest too."""
    minors = corpus.MINORS
    results = (minors[index + 1 : index + 2] or minors[-2:-1]) + (
        (*minors[max(index - 1, 0) : index], minors[-1]) if LONG else ()
    )
    return tuple(result for result in dict.fromkeys(results) if result != minors[index])


PAIRS = [(minor, other) for index, minor in enumerate(corpus.MINORS) for other in others(index)]


@pytest.mark.parametrize(("minor", "other"), PAIRS)
def test_another_revision_replaces_the_sidecar(minor: str, other: str) -> None:
    second = core.revision_of(corpus.default_settings(other))
    came = Counter[str]()
    for _, namespace, pod, in_git in injected(minor):
        try:
            once = admitted(second, pod, namespace, deny=True)
        except DataError:
            continue  # the case is not for this minor
        if once is None:
            continue
        again = admitted(second, in_git, namespace)
        assert again is not None
        if proxy_list(once) != proxy_list(in_git):
            came["moved"] += 1
            if places(again)["containers", "istio-proxy"] and places(again)["initContainers", "istio-proxy"]:
                with pytest.raises(InvalidPodError, match="Duplicate value"):
                    admitted(second, in_git, namespace, deny=True)
            continue
        came["replaced"] += 1
        assert not {place: count for place, count in places(again).items() if count > 1}
        if min(map(corpus.MINORS.index, (minor, other))) < FIRST:
            continue
        assert not places(once) - places(again)
        assert again["metadata"]["annotations"][STATUS] == once["metadata"]["annotations"][STATUS]
        assert admitted(second, again, namespace) == again
        if second.behaviours.skip_injected_overrides:
            assert images(once).items() <= images(again).items()
    assert came["replaced"] + came["moved"] > 30 / EVERY
