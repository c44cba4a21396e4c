"""Whether a running pod is what its revision makes now."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from injector.errors import AnnotationError, ManifestError
from injector.injection.pipeline import inject_pod
from injector.injection.result import Injected, Skipped
from injector.injection.tools.drift import (
    CURRENT,
    MISSING,
    NOW_REFUSED,
    OLDER_REVISION,
    OLDER_TEMPLATE,
    STATES,
    UNEXPECTED,
    Drift,
    as_created,
    drift_of,
    injected_revision,
    template_changes,
    with_container_defaults,
    with_volume_defaults,
)
from injector.istio.revision import Revision
from tests.cases import cases
from tests.factories import created_by, make_container, make_pod, proxy_of
from tests.revisions.fakes import FACTS, embedded, injected

STATUS = "sidecar.istio.io/status"
REV = "istio.io/rev"
STABLE, CANARY = embedded("stable"), embedded("canary")
SKIPPED = Skipped("policy_disabled", "the policy is disabled")


def created(**meta: Any) -> dict[str, Any]:
    """A pod of a Deployment as its webhook gets it."""
    probe = {"httpGet": {"port": "http", "path": "/"}}
    app = make_container(ports=[{"containerPort": 80, "name": "http"}], readinessProbe=probe)
    labels = {"app": "web", "pod-template-hash": "abc"}
    pod = {**make_pod(containers=[app]), "metadata": {"namespace": "shop", "labels": labels, **meta}}
    return created_by(pod, "web-abc")


def running(revision: Revision = STABLE, **meta: Any) -> dict[str, Any]:
    """The pod as the API server keeps it after the injection."""
    pod = injected(revision, created(**meta)).pod
    spec = pod["spec"]
    for key in ("containers", "initContainers"):
        spec[key] = [with_container_defaults(item) for item in spec.get(key) or ()]
    spec["volumes"] = [with_volume_defaults(item) for item in spec["volumes"]]
    uid = {"name": "web-abc-1", "uid": "1", "resourceVersion": "7"}
    return {"metadata": {**pod["metadata"], **uid}, "spec": {**spec, "nodeName": "a"}, "status": {}}


def drift(pod: dict[str, Any], revision: Revision = STABLE) -> Drift:
    return drift_of(pod, inject_pod(revision, as_created(pod), FACTS))


def changed_proxy(pod: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """The pod with fields of its proxy replaced; None takes one out."""
    proxy = {**proxy_of(pod), **fields}
    remaining = {key: value for key, value in proxy.items() if value is not None}
    others = [container for container in pod["spec"]["containers"] if container["name"] != "istio-proxy"]
    return {**pod, "spec": {**pod["spec"], "containers": [*others, remaining]}}


@pytest.mark.parametrize("revision", [STABLE, CANARY], ids=lambda revision: revision.name)
def test_a_pod_that_the_revision_would_make_again_is_current(revision: Revision) -> None:
    assert drift(running(revision), revision) == Drift(CURRENT)


def test_a_pod_of_another_revision_is_older() -> None:
    assert drift(running(STABLE), CANARY) == Drift(OLDER_REVISION)


@cases("fields", "kinds")
def test_a_proxy_that_the_revision_would_make_otherwise_has_an_older_template(
    fields: dict[str, Any], kinds: tuple[str, ...]
) -> None:
    assert drift(changed_proxy(running(), **fields)) == Drift(OLDER_TEMPLATE, kinds)


def test_a_volume_of_the_injection_that_changed_is_an_older_template() -> None:
    pod = running()
    volumes = [
        {**volume, "emptyDir": {"medium": "Memory"}} for volume in pod["spec"]["volumes"] if "emptyDir" in volume
    ]

    assert drift({**pod, "spec": {**pod["spec"], "volumes": volumes}}).kinds == ("volumes",)


@pytest.mark.parametrize(
    "fields",
    [
        {"env": [{"name": "DD_AGENT_HOST", "value": "x"}]},
        {"volumeMounts": [{"mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "name": "kube-api-access-x"}]},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_what_others_add_to_a_proxy_is_no_drift(fields: dict[str, Any]) -> None:
    pod = running()
    added = {key: [*value, *proxy_of(pod)[key]] for key, value in fields.items()}

    assert drift(changed_proxy(pod, **added)) == Drift(CURRENT)


TOKEN = {"name": "kube-api-access-x", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "readOnly": True}


@pytest.mark.parametrize(
    ("change", "is_drift"),
    [
        (lambda mounts: [*mounts, TOKEN], False),
        (lambda mounts: [TOKEN, *mounts, {**TOKEN, "mountPath": "/b"}], False),
        (lambda mounts: mounts[::-1], False),
        (lambda mounts: [*mounts, mounts[0]], False),
        (lambda mounts: [*mounts, {"name": "a"}], False),
        (lambda mounts: [TOKEN, *mounts[1:]], True),
        (lambda mounts: [{**mounts[0], "name": "a"}, *mounts[1:], TOKEN], True),
        (lambda mounts: [{"name": "a"}, *mounts[1:]], True),
        (lambda _: None, True),
    ],
)
def test_mounts_that_only_the_running_pod_has_are_no_drift(change: Callable[[Any], Any], is_drift: bool) -> None:
    pod = running()
    pod = changed_proxy(pod, volumeMounts=change(proxy_of(pod)["volumeMounts"]))
    assert bool(template_changes(pod, injected(STABLE, as_created(pod)).shared_pod)) is is_drift


def test_what_admission_plugins_set_is_no_drift() -> None:
    pod = changed_proxy(running(), imagePullPolicy="Always")
    assert drift(pod) == Drift(CURRENT)

    limits = {"limits": {"cpu": "2", "memory": "1Gi", "ephemeral-storage": "1Gi"}}
    ranged = changed_proxy(running(), resources={**proxy_of(running())["resources"], **limits})
    noted = {**ranged["metadata"]["annotations"], "kubernetes.io/limit-ranger": "LimitRanger plugin set: ..."}
    assert drift(ranged) == Drift(OLDER_TEMPLATE, ("resources",))
    assert drift({**ranged, "metadata": {**ranged["metadata"], "annotations": noted}}) == Drift(CURRENT)


@pytest.mark.parametrize(
    ("before", "after", "is_drift"),
    [("", "@sha256:0a1b", False), ("", "1", True), ("docker.io/", "@sha256:0a1b", True)],
)
def test_a_digest_that_another_webhook_appended_to_the_image_is_no_drift(
    before: str, after: str, *, is_drift: bool
) -> None:
    pod = running()
    assert bool(drift(changed_proxy(pod, image=f"{before}{proxy_of(pod)['image']}{after}")).kinds) is is_drift


def test_a_container_that_another_webhook_added_is_no_drift() -> None:
    pod = running()
    listed = [*pod["spec"]["containers"], make_container("vault-agent", ports=[{"containerPort": 8200}])]

    assert drift({**pod, "spec": {**pod["spec"], "containers": listed}}) == Drift(CURRENT)


def test_a_proxy_that_moved_among_the_init_containers_has_an_older_template() -> None:
    pod, proxy = running(), proxy_of(running())
    moved = {"containers": [pod["spec"]["containers"][0]], "initContainers": [{**proxy, "restartPolicy": "Always"}]}

    assert "containers" in drift({**pod, "spec": {**pod["spec"], **moved}}).kinds


@pytest.mark.parametrize(
    ("pod", "answer", "state"),
    [
        (created(), None, CURRENT),
        (running(), None, UNEXPECTED),
        (created(), SKIPPED, CURRENT),
        (running(), SKIPPED, UNEXPECTED),
        (created(), Injected(running(), b"[]", ()), MISSING),
        (created(), AnnotationError("x"), NOW_REFUSED),
        (running(), AnnotationError("x"), NOW_REFUSED),
    ],
)
def test_a_pod_stands_by_what_it_has_and_would_get(pod: dict[str, Any], answer: Any, state: str) -> None:
    assert drift_of(pod, answer) == Drift(state)
    assert state in STATES


@cases("status", "annotations", "labels", "has")
def test_the_revision_of_a_pod_is_read_from_its_annotations(
    status: Any, annotations: dict[str, str], labels: dict[str, str], has: str
) -> None:
    text = status if isinstance(status, str) else json.dumps(status)
    pod = make_pod(annotations={STATUS: text, **annotations}, labels=labels)

    assert injected_revision(pod) == has


def test_a_proxy_without_a_status_is_not_injected() -> None:
    waypoint = make_pod(containers=[make_container("istio-proxy")], labels={REV: "1-30"})

    assert injected_revision(waypoint) is None


def test_a_pod_without_a_name_is_older_only_where_the_revision_would_write_one() -> None:
    pod = running()
    status = {**json.loads(pod["metadata"]["annotations"][STATUS]), "revision": ""}
    annotations = {key: value for key, value in pod["metadata"]["annotations"].items() if key != REV}
    nameless = {**pod, "metadata": {**pod["metadata"], "annotations": {**annotations, STATUS: json.dumps(status)}}}

    assert drift(nameless) == Drift(OLDER_REVISION)
    assert drift_of(nameless, Injected(nameless, b"[]", ())) == Drift(CURRENT)


def test_a_pod_as_created_is_what_its_webhook_saw() -> None:
    again = as_created(running())

    assert again["metadata"] == created()["metadata"]
    assert [container["name"] for container in again["spec"]["containers"]] == ["app"]
    assert "nodeName" not in again["spec"]
    assert as_created(make_pod("own", namespace="shop"))["metadata"] == {"name": "own", "namespace": "shop"}


@pytest.mark.parametrize(("named", "labels"), [(True, {REV: "prod"}), (False, {})])
def test_the_label_of_the_revision_is_the_users_where_the_status_has_the_name(
    named: bool, labels: dict[str, str]
) -> None:
    pod = running(labels={REV: "prod", "app": "web"})
    if not named:
        pod["metadata"]["annotations"][STATUS] = json.dumps({"containers": ["istio-proxy"]})

    assert as_created(pod)["metadata"]["labels"] == {"app": "web", **labels}


def test_a_pod_whose_proxy_was_changed_by_hand_cannot_be_told_as_created() -> None:
    broken = [{"name": "ISTIO_KUBE_APP_PROBERS", "value": "{"}]

    with pytest.raises(ManifestError, match="ISTIO_KUBE_APP_PROBERS is not JSON"):
        as_created(changed_proxy(running(), env=broken))


def test_the_changes_are_of_the_injection_alone() -> None:
    pod, fresh = running(), running()
    pod["spec"]["containers"][0]["image"] = "other:1"
    pod["metadata"]["labels"]["a"] = "b"

    assert template_changes(pod, fresh) == ()


@pytest.mark.parametrize("revision", [STABLE, CANARY], ids=lambda row: row.name)
def test_a_pod_without_the_api_servers_defaults_has_the_same_changes(revision: Revision) -> None:
    without = injected(STABLE, created()).pod
    fresh = injected(revision, created()).pod
    assert proxy_of(without) != with_container_defaults(proxy_of(without))
    assert template_changes(without, fresh) == template_changes(running(), fresh)


@pytest.mark.parametrize("limits", [{}, {"limits": {"cpu": "2"}}, {"limits": {"cpu": "2"}, "requests": {"cpu": "1"}}])
def test_the_defaults_of_the_api_server_stay_the_same_when_they_are_given_again(limits: dict[str, Any]) -> None:
    spec = injected(STABLE, created()).pod["spec"]
    containers = [*spec["containers"], make_container(resources=limits), make_container(image="app:latest")]
    for once in (*map(with_container_defaults, containers), with_container_defaults({"name": "app"})):
        assert with_container_defaults(once) == once
    for once in (*map(with_volume_defaults, spec["volumes"]), with_volume_defaults({"name": "data"})):
        assert with_volume_defaults(once) == once
