from __future__ import annotations

import json
from typing import Any

import pytest

from injector.errors import AnnotationError
from injector.injection.steps.overrides import OVERRIDES, init_user_adjusted, read_overrides, reapplied, reinserted
from injector.injection.steps.status import STATUS, InjectionStatus, read_status, status_text, stripped
from injector.istio.behaviours import behaviours_of
from tests.cases import cases
from tests.factories import make_container, make_pod

NEWEST = behaviours_of((1, 30))
APP = make_container()
PROXY = {"name": "istio-proxy", "image": "proxy"}
INJECTED = json.dumps({"containers": ["istio-proxy"], "initContainers": ["istio-init"]})


def template(*containers: dict[str, Any], init: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    return {"spec": {"containers": list(containers), "initContainers": list(init)}}


def merged(*containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return make_pod(containers=[APP, *containers], **spec)


def proxy_of(pod: dict[str, Any], kind: str = "containers") -> dict[str, Any]:
    (found,) = [item for item in pod["spec"][kind] if item["name"] == "istio-proxy"]
    return dict(found)


def test_the_users_settings_for_the_proxy_override_the_template_and_are_recorded() -> None:
    user = {"name": "istio-proxy", "image": "auto", "resources": {"limits": {"cpu": "3"}}}

    final = reapplied(merged(PROXY), merged(user), template(PROXY), NEWEST)

    assert proxy_of(final) == {**PROXY, "resources": {"limits": {"cpu": "3"}}}
    assert json.loads(final["metadata"]["annotations"][OVERRIDES]) == {
        "containers": [{"name": "istio-proxy", "resources": {"limits": {"cpu": "3"}}}]
    }


def test_containers_that_no_template_has_are_not_recorded() -> None:
    final = reapplied(merged(PROXY), merged(), template(PROXY), NEWEST)

    assert final == merged(PROXY)


def test_a_proxy_among_the_containers_is_the_users_for_a_native_sidecar_too() -> None:
    user = {"name": "istio-proxy", "image": "mine"}
    pod = merged(initContainers=[PROXY])

    final = reapplied(pod, merged(user), template(init=(PROXY,)), NEWEST)

    assert proxy_of(final, "initContainers") == user
    assert json.loads(final["metadata"]["annotations"][OVERRIDES]).keys() == {"initContainers"}


def test_containers_of_an_earlier_injection_are_not_the_users() -> None:
    old = {**PROXY, "image": "old"}
    original = make_pod(containers=[APP, old], annotations={STATUS: INJECTED})

    final = reapplied(merged(PROXY), original, template(PROXY), NEWEST)

    assert proxy_of(final) == PROXY
    assert "annotations" not in final["metadata"]


def test_up_to_1_16_they_count_as_the_users() -> None:
    old = {**PROXY, "image": "old"}
    original = make_pod(containers=[APP, old], annotations={STATUS: INJECTED})

    final = reapplied(merged(PROXY), original, template(PROXY), behaviours_of((1, 16)))

    assert proxy_of(final) == old


def test_recorded_settings_of_the_user_are_applied_again() -> None:
    noted = json.dumps({"containers": [{"name": "istio-proxy", "args": ["mine"], "resources": {}}]})
    original = make_pod(containers=[APP, PROXY], annotations={STATUS: INJECTED, OVERRIDES: noted})

    final = reapplied(merged({**PROXY, "args": ["the template's"]}), original, template(PROXY), NEWEST)

    assert proxy_of(final) == {**PROXY, "args": ["mine"]}


@pytest.mark.parametrize("minor", [12, 16, 17, 30])
def test_a_container_that_another_webhook_added_is_recorded_as_well(minor: int) -> None:
    noted = json.dumps({"containers": [{"name": "app", "image": "mine", "resources": {}}]})
    status = json.dumps({"containers": ["app", "istio-proxy"], "initContainers": []})
    late = {"name": "vault-agent", "image": "vault"}
    original = make_pod(containers=[late, APP, PROXY], annotations={STATUS: status, OVERRIDES: noted})

    final = reapplied(merged(PROXY, late), original, template(late, APP, PROXY), behaviours_of((1, minor)))

    again = read_overrides(final)["containers"]
    assert [each["name"] for each in again] == ["vault-agent", "app"]
    assert again[1]["image"] == "mine"


def test_a_proxy_that_becomes_a_native_sidecar_is_not_recorded_as_added() -> None:
    original = make_pod(containers=[APP, PROXY], annotations={STATUS: INJECTED})

    final = reapplied(merged(initContainers=[PROXY]), original, template(init=(PROXY,)), NEWEST)

    assert OVERRIDES not in final["metadata"].get("annotations", {})


def test_recorded_containers_are_put_back_once() -> None:
    noted = json.dumps({"containers": [{"name": "istio-proxy"}, {"name": "app"}], "initContainers": [{"name": "x"}]})
    pod = make_pod(annotations={OVERRIDES: noted})

    spec = reinserted(pod)["spec"]

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


def with_user(uid: int | None, gid: int | None = None) -> dict[str, Any]:
    context = {key: value for key, value in {"runAsUser": uid, "runAsGroup": gid}.items() if value is not None}
    return merged({"name": "istio-proxy", "securityContext": context})


def initialised(name: str = "istio-init") -> dict[str, Any]:
    return merged(
        {"name": "istio-proxy", "securityContext": {"runAsUser": 7}},
        initContainers=[{"name": name, "args": ["-u", "1337", "-m", "REDIRECT"]}],
    )


def init_of(pod: dict[str, Any]) -> dict[str, Any]:
    (init,) = pod["spec"]["initContainers"]
    return dict(init)


def test_iptables_lets_the_users_uid_of_the_proxy_pass() -> None:
    final = init_user_adjusted(initialised(), with_user(7), mesh_interception_mode="REDIRECT")

    assert init_of(final)["args"] == ["-u", "7", "-m", "REDIRECT"]


def test_validation_runs_as_the_proxy_does() -> None:
    final = init_user_adjusted(initialised("istio-validation"), with_user(7, 8), mesh_interception_mode="REDIRECT")

    assert init_of(final)["securityContext"] == {"runAsUser": 7, "runAsGroup": 8}
    assert init_of(final)["args"][1] == "7"


def test_with_tproxy_the_proxy_stays_root_whatever_the_user_asks() -> None:
    final = init_user_adjusted(initialised(), with_user(7), mesh_interception_mode="TPROXY")

    assert proxy_of(final)["securityContext"] == {"runAsUser": 0}
    assert init_of(final)["args"][1] == "7"


@pytest.mark.parametrize("uid", [None, 0])
def test_no_uid_and_root_leave_iptables_alone(uid: int | None) -> None:
    final = init_user_adjusted(initialised(), with_user(uid, 8), mesh_interception_mode="REDIRECT")

    assert init_of(final)["args"][1] == "1337"


def test_on_a_second_injection_the_recorded_uid_counts() -> None:
    noted = json.dumps({"containers": [{"name": "istio-proxy", "securityContext": {"runAsUser": 7}}]})
    original = make_pod(
        containers=[APP, {"name": "istio-proxy", "securityContext": {"runAsUser": 0}}], annotations={OVERRIDES: noted}
    )

    assert init_of(init_user_adjusted(initialised(), original, mesh_interception_mode="TPROXY"))["args"][1] == "7"


def test_the_number_of_recorded_containers_is_limited() -> None:
    def noting(count: int) -> dict[str, Any]:
        return make_pod(annotations={OVERRIDES: json.dumps({"containers": [{"name": "a"}] * count})})

    assert len(read_overrides(noting(100))["containers"]) == 100
    with pytest.raises(AnnotationError, match="invalid value"):
        read_overrides(noting(101))


FULL = InjectionStatus(("istio-init",), ("istio-proxy",), ("istio-envoy", "istio-data"), ("pull",))
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
        ("{}", InjectionStatus()),
        ('{"containers":null,"volumes":[]}', InjectionStatus()),
        ('{"containers":["istio-proxy"],"unknown":1}', InjectionStatus(containers=("istio-proxy",))),
        (
            '{"version":"d4f","initContainers":["i"],"containers":["p"],"volumes":["v"],"imagePullSecrets":null}',
            InjectionStatus(("i",), ("p",), ("v",)),
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
    assert status_text(spec, revision) == expected


def test_a_status_that_was_written_reads_back() -> None:
    assert _read(status_text(OVERLAY, "canary")) == FULL


def test_names_are_returned_by_list() -> None:
    assert FULL.by_list() == {
        "initContainers": ("istio-init",),
        "containers": ("istio-proxy",),
        "volumes": ("istio-envoy", "istio-data"),
        "imagePullSecrets": ("pull",),
    }


@pytest.mark.parametrize(
    ("status", "expected"),
    [(InjectionStatus(), False), (FULL, True), (InjectionStatus(image_pull_secrets=("pull",)), True)],
)
def test_a_status_may_name_nothing(status: InjectionStatus, expected: bool) -> None:
    assert status.any() is expected


def _injected() -> dict[str, Any]:
    return make_pod(
        annotations={STATUS: FULL_TEXT, "mine": "kept"},
        containers=[make_container("app"), make_container("istio-proxy")],
        initContainers=[make_container("istio-init"), make_container("setup")],
        volumes=[{"name": "istio-envoy"}, {"name": "data"}],
        imagePullSecrets=[{"name": "pull"}],
    )


def test_containers_and_the_annotation_go_while_volumes_and_secrets_stay() -> None:
    assert stripped(_injected(), FULL) == make_pod(
        annotations={"mine": "kept"},
        containers=[make_container("app")],
        initContainers=[make_container("setup")],
        volumes=[{"name": "istio-envoy"}, {"name": "data"}],
        imagePullSecrets=[{"name": "pull"}],
    )


def test_a_name_counts_only_in_its_list() -> None:
    status = InjectionStatus(init_containers=("istio-proxy",), containers=("istio-init",))
    pod = stripped(_injected(), status)
    assert pod["spec"]["containers"] == _injected()["spec"]["containers"]
    assert pod["spec"]["initContainers"] == _injected()["spec"]["initContainers"]


def test_lists_that_become_empty_are_left_out_as_go_leaves_them_out() -> None:
    pod = make_pod(
        annotations={STATUS: FULL_TEXT},
        containers=[make_container("istio-proxy")],
        initContainers=[make_container("istio-init")],
    )
    assert stripped(pod, FULL) == make_pod(containers=[])


def test_without_a_status_the_pod_stays_as_it_is() -> None:
    pod = _injected()
    assert stripped(pod, None) is pod


def test_the_pod_given_is_not_changed() -> None:
    pod = _injected()
    stripped(pod, FULL)
    assert pod == _injected()
