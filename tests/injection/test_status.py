from __future__ import annotations

from typing import Any

import pytest

from injector.injection.steps.status import InjectionStatus, read_status, status_text, stripped
from tests.factories import make_container, make_pod

STATUS = "sidecar.istio.io/status"
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
def test_what_is_no_such_json_is_ignored(text: str) -> None:
    assert _read(text) is None


@pytest.mark.parametrize("pod", [{}, {"metadata": None}, make_pod(), make_pod(annotations={})])
def test_a_pod_without_the_annotation_has_no_status(pod: dict[str, Any]) -> None:
    assert read_status(pod) is None


@pytest.mark.parametrize(
    ("spec", "revision", "expected"),
    [
        (OVERLAY, "canary", FULL_TEXT),
        (OVERLAY, None, FULL_TEXT.replace(',"revision":"canary"', "")),
        (
            {},
            "default",
            '{"initContainers":null,"containers":null,"volumes":null,"imagePullSecrets":null,"revision":"default"}',
        ),
        (
            {"containers": [], "volumes": None},
            None,
            '{"initContainers":null,"containers":null,"volumes":null,"imagePullSecrets":null}',
        ),
        (
            {"containers": [{"image": "nameless"}, {"name": "a<b"}]},
            None,
            '{"initContainers":null,"containers":["","a\\u003cb"],"volumes":null,"imagePullSecrets":null}',
        ),
    ],
)
def test_the_text_is_what_go_prints(spec: dict[str, Any], revision: str | None, expected: str) -> None:
    assert status_text(spec, revision) == expected


def test_a_status_that_was_written_reads_back() -> None:
    assert _read(status_text(OVERLAY, "canary")) == FULL


def test_names_are_told_by_the_list_that_they_are_in() -> None:
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


def test_a_name_counts_only_in_the_list_that_the_status_has_it_in() -> None:
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


def test_without_a_status_the_pod_is_as_it_is() -> None:
    pod = _injected()
    assert stripped(pod, None) is pod


def test_the_pod_given_is_not_changed() -> None:
    pod = _injected()
    stripped(pod, FULL)
    assert pod == _injected()
