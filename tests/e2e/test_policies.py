"""The verdicts of Pod Security admission and of a ValidatingAdmissionPolicy are those that commands show."""

from __future__ import annotations

import copy
import itertools
import json
import re
from collections import Counter
from collections.abc import Callable
from functools import cache
from random import Random
from typing import Any, TypeAlias

from injector.cluster.client import KubeClient
from injector.cluster.kubeconfig import Kubeconfig
from injector.cluster.session import open_session
from injector.fleet.dryrun import refusal
from injector.injection.pipeline import admitted_pod, inject_pod
from injector.injection.result import Injected, RequestFacts
from injector.istio.revision import Revision
from injector.kube.podsecurity import (
    BASELINE,
    CHECKS,
    LEVELS,
    PRIVILEGED,
    RESTRICTED,
    enforced_level,
    level_of,
    violations,
)
from injector.kube.yaml import load_yaml
from injector.revisions.directory import EMBEDDED, read_directory
from injector.revisions.source import Overrides, build, overridden
from tests.e2e.cluster import Cluster
from tests.e2e.conftest import Figure
from tests.e2e.policies import admission_policy
from tests.e2e.served import until
from tests.factories import make_container, make_pod
from tests.manifests import account_of, namespace_of

COUNT = 300
POLICIES = {
    f"{level}-{version.replace('.', '-')}": {
        "pod-security.kubernetes.io/enforce": level,
        "pod-security.kubernetes.io/enforce-version": version,
    }
    for level in (BASELINE, RESTRICTED)
    for version in ("latest", "v1.18", "v1.24", "v1.33")
}
"""The labels of the namespaces."""
PLACE = "policed"
"""The namespace in which a ValidatingAdmissionPolicy holds."""
STRICT = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}
LOCAL = {"type": "Localhost", "localhostProfile": "p"}
Edit: TypeAlias = Callable[[dict[str, Any], dict[str, Any]], object]
EDITS: tuple[Edit, ...] = (
    lambda _, container: container["securityContext"].pop("allowPrivilegeEscalation"),
    lambda _, container: container["securityContext"].pop("capabilities"),
    lambda _, container: container["securityContext"].pop("seccompProfile"),
    lambda _, container: container["securityContext"].pop("runAsNonRoot"),
    lambda _, container: container["securityContext"].update(runAsUser=0),
    lambda _, container: container["securityContext"].update(seLinuxOptions={"type": "container_engine_t"}),
    lambda _, container: container["securityContext"].update(seLinuxOptions={"user": "u"}),
    lambda _, container: container["securityContext"].update(appArmorProfile={"type": "Unconfined"}),
    lambda _, container: container["securityContext"].update(seccompProfile={"type": "Unconfined"}),
    lambda _, container: container["securityContext"].update(capabilities={"add": ["NET_BIND_SERVICE"], "drop": ["ALL"]}),
    lambda _, container: container["securityContext"].update(capabilities={"add": ["CHOWN", "SYS_TIME"]}),
    lambda _, container: container.update(securityContext={"privileged": True}),
    lambda _, container: container.update(ports=[{"containerPort": 80, "hostPort": 80}]),
    lambda _, container: container.update(livenessProbe={"httpGet": {"port": 80, "host": "example.com"}}),
    lambda pod, _: pod["metadata"].update(annotations={"container.apparmor.security.beta.kubernetes.io/a": "unconfined"}),
    lambda pod, _: pod["spec"].update(hostPID=True),
    lambda pod, _: pod["spec"].update(hostNetwork=True),
    lambda pod, _: pod["spec"].update(volumes=[{"name": "a", "hostPath": {"path": "/"}}, {"name": "b", "emptyDir": {}}]),
    lambda pod, _: pod["spec"].update(volumes=[{"name": "a", "nfs": {"server": "s", "path": "/"}}, {"name": "b"}]),
    lambda pod, _: pod["spec"].update(securityContext={"runAsNonRoot": True, "seccompProfile": dict(LOCAL)}),
    lambda pod, _: pod["spec"].update(securityContext={"runAsNonRoot": False, "runAsUser": 0}),
    lambda pod, _: pod["spec"].update(securityContext={"sysctls": [{"name": "net.ipv4.tcp_rmem", "value": "1"}]}),
    lambda pod, _: pod["spec"].update(securityContext={"sysctls": [{"name": "net.ipv4.tcp_fin_timeout", "value": "1"}]}),
    lambda pod, container: (pod["spec"].update(hostUsers=False), container["securityContext"].update(runAsUser=0, procMount="Unmasked")),
)  # fmt: skip
"""Changes of a pod that passes every level."""


@cache
def revisions() -> tuple[Revision, ...]:
    """A shipped revision as it is, and with Istio's CNI plugin and a seccomp profile, with which its sidecar passes every level."""
    raw = read_directory(EMBEDDED).revision("stable")
    values = load_yaml(str(raw.values))
    values["pilot"]["cni"]["enabled"] = True
    values["global"]["proxy"]["seccompProfile"] = {"type": "RuntimeDefault"}
    return build(raw), build(overridden(raw, Overrides(values=json.dumps(values))))


def generated(dice: Random) -> dict[str, Any]:
    """A pod with up to two faults, which one of the revisions injects or none does."""
    container = make_container("a", securityContext=copy.deepcopy(STRICT))
    pod = make_pod("p", containers=[container])
    for edit in dice.sample(EDITS, dice.choice((0, 0, 1, 1, 2))):
        if STRICT.keys() <= container["securityContext"].keys():
            edit(pod, container)
    revision = dice.choice((None, *revisions()))
    result = None if revision is None else inject_pod(revision, pod, RequestFacts("shop"))
    return admitted_pod(result.pod if isinstance(result, Injected) else pod, "")


@cache
def pods() -> tuple[dict[str, Any], ...]:
    """The pods of all tests here."""
    dice = Random("verdicts")  # noqa: S311 -- inputs of tests
    return tuple(generated(dice) for _ in range(COUNT))


def created(pod: dict[str, Any]) -> dict[str, Any]:
    """The pod for a namespace of these tests."""
    meta = {key: value for key, value in pod["metadata"].items() if key != "namespace"}
    return {"apiVersion": "v1", "kind": "Pod", **pod, "metadata": meta}


def test_pod_security_admission_agrees_on_generated_pods(cluster: Cluster, figure: Figure) -> None:
    for name, labels in POLICIES.items():
        cluster.apply(namespace_of(name, labels), account_of(name))
    counts, wrong = Counter[tuple[str, str]](), []

    for pod, place in zip(pods(), itertools.cycle(POLICIES), strict=False):
        policy = enforced_level(POLICIES[place])
        expected = {violation.reason for violation in violations(pod, policy.level, policy.version)}
        said = cluster.refusal(created(pod), place)
        assert not said or "violates PodSecurity" in said, said
        reasons = {rule.reason for rule in CHECKS if re.search(rf"[:,] {re.escape(rule.reason)}s? \(", said)}
        counts[level_of(pod), "refused" if said else "accepted"] += 1
        if (bool(said), reasons) != (bool(policy.fault(pod)), expected):
            wrong.append((str(policy), expected, said))

    figure(f"Pod Security on a real API server, by level: {dict(counts)}")
    assert wrong == []
    assert {level for level, _ in counts} == set(LEVELS)
    assert min(counts[RESTRICTED, "accepted"], counts[BASELINE, "refused"], counts[PRIVILEGED, "refused"]) > 10


def test_a_dry_run_tells_what_a_validating_admission_policy_says(cluster: Cluster, figure: Figure) -> None:
    cluster.apply(namespace_of(PLACE, {}), account_of(PLACE), *admission_policy(PLACE))
    with_init = next(pod for pod in pods() if adds_net_admin(pod))
    until(lambda: cluster.refusal(created(with_init), PLACE))

    async def ask(client: KubeClient) -> list[str | None]:
        return [await refusal(client, pod, PLACE) for pod in pods()]

    with open_session(Kubeconfig((cluster.kubeconfig,))) as session:
        said = session.run(ask)

    figure(f"refused by a ValidatingAdmissionPolicy: {sum(map(bool, said))} of {len(said)}")
    assert [bool(text) for text in said] == [adds_net_admin(pod) for pod in pods()]
    assert {text for text in said if text and "ValidatingAdmissionPolicy 'no-net-admin'" not in text} == set()


def adds_net_admin(pod: dict[str, Any]) -> bool:
    contexts = [container.get("securityContext") or {} for container in pod["spec"].get("initContainers") or ()]
    return any("NET_ADMIN" in (context.get("capabilities") or {}).get("add", ()) for context in contexts)
