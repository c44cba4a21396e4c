from __future__ import annotations

from typing import Any

import pytest

from injector.injection.steps.openshift import (
    SUPPLEMENTAL_GROUPS,
    UID_RANGE,
    forget_assigned_user,
    parse_block,
    proxy_ids,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1000620000/10000", (1000620000, 1000629999)),
        ("5-9", (5, 9)),
        ("5", None),
        ("", None),
        ("a/b", None),
        ("4294967296/1", None),
    ],
)
def test_a_block_is_a_start_and_a_size_or_two_ends(text: str, expected: tuple[int, int] | None) -> None:
    assert parse_block(text) == expected


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({}, (1337, 1337)),
        ({UID_RANGE: "10/5"}, (14, 14)),
        ({UID_RANGE: "10/5", SUPPLEMENTAL_GROUPS: "20/2,40/2"}, (14, 21)),
        ({UID_RANGE: "10/5", SUPPLEMENTAL_GROUPS: "20/2,broken"}, (14, 1337)),
        ({UID_RANGE: "broken"}, (1337, 1337)),
        ({SUPPLEMENTAL_GROUPS: "20-30"}, (1337, 30)),
    ],
)
def test_the_proxy_runs_with_the_last_ids_of_the_namespace(
    annotations: dict[str, str], expected: tuple[int, int]
) -> None:
    assert proxy_ids({"annotations": annotations}) == expected


def test_without_a_namespace_the_proxy_runs_as_1337() -> None:
    assert proxy_ids(None) == (1337, 1337)


def _pod(proxy_user: int | None, app_user: int | None, kind: str = "containers") -> dict[str, Any]:
    def container(name: str, user: int | None) -> dict[str, Any]:
        context = {} if user is None else {"runAsUser": user, "runAsGroup": user}
        return {"name": name, "securityContext": {**context, "privileged": False}}

    pod: dict[str, Any] = {"spec": {"containers": [container("app", app_user)]}}
    pod["spec"][kind] = [*pod["spec"].get(kind, []), container("istio-proxy", proxy_user)]
    return pod


def _proxy(pod: dict[str, Any]) -> Any:
    listed = [*pod["spec"]["containers"], *pod["spec"].get("initContainers", [])]
    return next(item["securityContext"] for item in listed if item["name"] == "istio-proxy")


def test_a_user_that_openshift_gave_to_all_is_forgotten_for_the_proxy() -> None:
    assert _proxy(forget_assigned_user(_pod(7, 7), with_init_containers=True)) == {"privileged": False}


def test_a_user_of_the_proxys_own_is_the_users_choice() -> None:
    pod = _pod(8, 7)
    assert forget_assigned_user(pod, with_init_containers=True) is pod


def test_a_native_sidecar_counts_only_where_init_containers_do() -> None:
    pod = _pod(7, 7, kind="initContainers")
    assert _proxy(forget_assigned_user(pod, with_init_containers=True)) == {"privileged": False}
    assert forget_assigned_user(pod, with_init_containers=False) is pod


def test_a_container_that_is_null_is_one_without_a_user() -> None:
    pod = _pod(7, 7)
    pod["spec"]["containers"].insert(0, None)

    forgotten = forget_assigned_user(pod, with_init_containers=True)

    assert forgotten["spec"]["containers"][0] is None
    assert forgotten["spec"]["containers"][-1] == {"name": "istio-proxy", "securityContext": {"privileged": False}}


def test_the_pod_given_is_not_changed() -> None:
    pod = _pod(7, 7)
    forget_assigned_user(pod, with_init_containers=True)
    assert pod == _pod(7, 7)
