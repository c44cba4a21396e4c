"""Records in the pod: the user's settings of the proxy, and what an earlier injection added."""

from __future__ import annotations

import json
from typing import Any

import pytest

from injector.errors import AnnotationError
from injector.injection.steps.overrides import (
    OVERRIDES,
    init_user_adjusted,
    read_overrides,
    reapply_overrides,
    reinsert_overrides,
)
from injector.injection.steps.status import (
    LISTS,
    STATUS,
    InjectionStatus,
    read_status,
    status_annotation,
    strip_injected,
)
from injector.istio.behaviours import Minor, behaviours_of
from tests.cases import cases
from tests.factories import make_container, make_pod

APP = make_container()


@cases("minor", "original", "merged", "template", "expected")
def test_the_users_settings_of_the_proxy_are_applied_and_recorded(
    minor: Minor,
    original: dict[str, Any],
    merged: dict[str, Any],
    template: dict[str, Any],
    expected: dict[str, Any],
) -> None:
    result = reapply_overrides(make_pod(**merged), make_pod(**original), {"spec": template}, behaviours_of(minor))

    assert {kind: result["spec"].get(kind) for kind in expected["spec"]} == expected["spec"]
    assert json.loads(result["metadata"].get("annotations", {}).get(OVERRIDES, "null")) == expected["recorded"]


def test_recorded_containers_are_put_back_once() -> None:
    noted = json.dumps({"containers": [{"name": "istio-proxy"}, {"name": "app"}], "initContainers": [{"name": "x"}]})
    pod = make_pod(annotations={OVERRIDES: noted})

    spec = reinsert_overrides(pod)["spec"]

    assert [item["name"] for item in spec["containers"]] == ["app", "istio-proxy"]
    assert spec["initContainers"] == [{"name": "x"}]


@pytest.mark.parametrize(
    "text", ["{", "5", "[]", '{"containers": 5}', '{"containers": [5]}', '{"containers": [{"name": 5}]}']
)
def test_an_invalid_record_is_refused_by_name(text: str) -> None:
    with pytest.raises(AnnotationError) as caught:
        read_overrides(make_pod(annotations={OVERRIDES: text}))

    assert caught.value.where == f"metadata.annotations[{OVERRIDES}]"


def test_without_the_annotation_there_are_no_overrides() -> None:
    assert read_overrides(make_pod()) == {"containers": [], "initContainers": []}


@cases("init", "user", "mode", "expected")
def test_init_containers_follow_the_users_uid_of_the_proxy(
    init: str, user: dict[str, Any], mode: str, expected: dict[str, Any]
) -> None:
    proxy = {"name": "istio-proxy", "securityContext": {"runAsUser": 7}}
    initialised = make_pod(
        containers=[APP, proxy], initContainers=[{"name": init, "args": ["-u", "1337", "-m", "REDIRECT"]}]
    )

    spec = init_user_adjusted(initialised, make_pod(**user), mesh_interception_mode=mode)["spec"]

    (init_containers,) = spec["initContainers"]
    assert {
        "uid": init_containers["args"][1],
        "init": init_containers.get("securityContext"),
        "proxy": spec["containers"][1]["securityContext"],
    } == expected


def test_the_number_of_recorded_containers_is_limited() -> None:
    def noting(count: int) -> dict[str, Any]:
        return make_pod(annotations={OVERRIDES: json.dumps({"containers": [{"name": "a"}] * count})})

    assert len(read_overrides(noting(100))["containers"]) == 100
    with pytest.raises(AnnotationError, match="invalid value"):
        read_overrides(noting(101))


EMPTY: dict[str, frozenset[str]] = dict.fromkeys(LISTS, frozenset())
FULL = {
    "initContainers": frozenset({"istio-init"}),
    "containers": frozenset({"istio-proxy"}),
    "volumes": frozenset({"istio-envoy", "istio-data"}),
    "imagePullSecrets": frozenset({"pull"}),
}
FULL_TEXT = (
    '{"initContainers":["istio-init"],"containers":["istio-proxy"],"volumes":["istio-envoy","istio-data"],'
    '"imagePullSecrets":["pull"],"revision":"canary"}'
)
OVERLAY: dict[str, Any] = {
    "initContainers": [{"name": "istio-init", "image": "i"}],
    "containers": [{"name": "istio-proxy", "image": "p"}],
    "volumes": [{"name": "istio-envoy", "emptyDir": {}}, {"name": "istio-data", "emptyDir": {}}],
    "imagePullSecrets": [{"name": "pull"}],
}


def _read(text: str) -> InjectionStatus | None:
    return read_status(make_pod(annotations={STATUS: text}))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (FULL_TEXT, FULL),
        ("{}", EMPTY),
        ('{"containers":null,"volumes":[]}', EMPTY),
        ('{"containers":["istio-proxy"],"unknown":1}', {**EMPTY, "containers": {"istio-proxy"}}),
        (
            '{"version":"d4f","initContainers":["i"],"containers":["p"],"volumes":["v"],"imagePullSecrets":null}',
            {**EMPTY, "initContainers": {"i"}, "containers": {"p"}, "volumes": {"v"}},
        ),
    ],
)
def test_a_status_names_what_an_earlier_injection_added(text: str, expected: InjectionStatus) -> None:
    assert _read(text) == expected


@pytest.mark.parametrize(
    "text",
    ["", "injected", "[]", "1", '"istio-proxy"', '{"containers":"istio-proxy"}', '{"volumes":[1]}', '{"containers":['],
)
def test_an_invalid_status_is_ignored(text: str) -> None:
    assert _read(text) is None


@pytest.mark.parametrize("pod", [{}, {"metadata": None}, make_pod(), make_pod(annotations={})])
def test_a_pod_without_the_annotation_has_no_status(pod: dict[str, Any]) -> None:
    assert read_status(pod) is None


@cases("spec", "revision", "expected")
def test_the_text_is_what_go_prints(spec: dict[str, Any], revision: str | None, expected: str) -> None:
    assert status_annotation({"spec": spec}, revision) == expected


def test_a_status_that_was_written_reads_back() -> None:
    assert _read(status_annotation({"spec": OVERLAY}, "canary")) == FULL


def _injected() -> dict[str, Any]:
    return make_pod(
        annotations={STATUS: FULL_TEXT, "mine": "kept"},
        containers=[make_container("app"), make_container("istio-proxy")],
        initContainers=[make_container("istio-init"), make_container("setup")],
        volumes=[{"name": "istio-envoy"}, {"name": "data"}],
        imagePullSecrets=[{"name": "pull"}],
    )


def test_containers_and_the_annotation_go_while_volumes_and_secrets_stay() -> None:
    assert strip_injected(_injected(), FULL) == make_pod(
        annotations={"mine": "kept"},
        containers=[make_container("app")],
        initContainers=[make_container("setup")],
        volumes=[{"name": "istio-envoy"}, {"name": "data"}],
        imagePullSecrets=[{"name": "pull"}],
    )


def test_a_name_counts_only_in_its_list() -> None:
    status = {**EMPTY, "initContainers": frozenset({"istio-proxy"}), "containers": frozenset({"istio-init"})}
    pod = strip_injected(_injected(), status)
    assert pod["spec"]["containers"] == _injected()["spec"]["containers"]
    assert pod["spec"]["initContainers"] == _injected()["spec"]["initContainers"]


def test_lists_that_become_empty_are_left_out_as_go_leaves_them_out() -> None:
    pod = make_pod(
        annotations={STATUS: FULL_TEXT},
        containers=[make_container("istio-proxy")],
        initContainers=[make_container("istio-init")],
    )
    assert strip_injected(pod, FULL) == make_pod(containers=[])


def test_without_a_status_the_pod_stays_as_it_is() -> None:
    pod = _injected()
    assert strip_injected(pod, None) is pod


def test_the_pod_given_is_not_changed() -> None:
    pod = _injected()
    strip_injected(pod, FULL)
    assert pod == _injected()
