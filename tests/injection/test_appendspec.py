from __future__ import annotations

from typing import Any

import pytest

from injector.errors import OverlayError
from injector.injection.append import (
    TOKEN_PATH,
    AppendSpec,
    parse_lists,
    read_append_spec,
    status_port,
    with_cluster_env,
    with_concurrency,
    with_proxy,
    with_token_mount,
)
from tests.factories import make_container, make_pod


def spec_of(*containers: dict[str, Any]) -> AppendSpec:
    """A spec that appends containers only."""
    return AppendSpec([], list(containers), [], [], None, rewrite_probes=False, redirect_annotations={})


def proxy(**fields: Any) -> dict[str, Any]:
    return {"name": "istio-proxy", **fields}


def read(text: str) -> AppendSpec:
    """The spec that a rendered text says."""
    return read_append_spec(parse_lists(text, where="revision a"), where="revision a")


def test_every_list_is_read_typed() -> None:
    found = read(
        "initContainers: [{name: istio-init}]\n"
        "containers: [{name: istio-proxy, unknown: 1}]\n"
        "volumes: [{name: v, emptyDir: {}}]\n"
        "imagePullSecrets: [{name: s}]\n"
        "dnsConfig: {searches: [global]}\n"
        "rewriteAppHTTPProbe: true\n"
        "podRedirectAnnot: {a: b}\n"
        "unknown: 1\n",
    )

    assert found == AppendSpec(
        init_containers=[{"name": "istio-init"}],
        containers=[{"name": "istio-proxy"}],
        volumes=[{"name": "v", "emptyDir": {}}],
        image_pull_secrets=[{"name": "s"}],
        dns_config={"searches": ["global"]},
        rewrite_probes=True,
        redirect_annotations={"a": "b"},
    )


@pytest.mark.parametrize("text", ["", "# nothing\n", "{}", "containers:\nvolumes: null\n"])
def test_a_text_that_says_nothing_appends_nothing(text: str) -> None:
    assert read(text) == spec_of()


def test_keys_count_in_any_case_as_gos_json_has_it() -> None:
    found = read("CONTAINERS: [{name: a}]\nrewriteapphttpprobe: true\n")

    assert (found.containers, found.rewrite_probes) == ([{"name": "a"}], True)


@pytest.mark.parametrize("text", ["[a]", "a", "containers: 1", "containers: [1]", "a: [", "volumes: {a: b}"])
def test_what_is_no_lists_is_refused_in_istios_words(text: str) -> None:
    with pytest.raises(OverlayError) as caught:
        read(text)

    assert caught.value.what.startswith("failed parsing generated injected YAML (check Istio sidecar injector config")
    assert caught.value.where
    assert caught.value.hint


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ({"limits": {"cpu": "2"}}, "2"),
        ({"limits": {"cpu": "1500m"}}, "2"),
        ({"limits": {"cpu": "100m"}, "requests": {"cpu": "3"}}, "1"),
        ({"requests": {"cpu": "3"}}, "3"),
        ({"limits": {"cpu": "0"}, "requests": {"cpu": "1"}}, "1"),
        ({"limits": {"memory": "1Gi"}}, None),
        ({}, None),
    ],
)
def test_the_proxy_has_as_many_threads_as_cpus(resources: dict[str, Any], expected: str | None) -> None:
    spec = spec_of({"name": "x"}, proxy(args=["proxy"], resources=resources))

    found = with_concurrency(spec).containers[1]["args"]

    assert found == (["proxy"] if expected is None else ["proxy", "--concurrency", expected])


@pytest.mark.parametrize(
    ("args", "kept"),
    [
        (["--concurrency", "4"], True),
        (["--concurrency=4"], True),
        (["-concurrency", "4"], True),
        ([" --concurrency=4 "], True),
        (["--concurrency", "0"], False),
        (["--concurrency"], False),
        (["--concurrency", "many"], False),
        (["---concurrency=4"], False),
        (["--concurrency=many"], False),
    ],
)
def test_threads_that_are_given_stay_unless_they_are_none(args: list[str], kept: bool) -> None:
    found = with_concurrency(spec_of(proxy(args=args, resources={"limits": {"cpu": "2"}})))

    assert found.containers[0]["args"] == (args if kept else [*args, "--concurrency", "2"])


def test_without_a_proxy_nothing_gets_threads() -> None:
    spec = spec_of({"name": "x", "resources": {"limits": {"cpu": "2"}}})

    assert with_concurrency(spec) is spec


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (["--statusPort", "15020"], 15020),
        (["proxy", "-statusPort=7"], 7),
        (["--statusPort", "0"], 0),
        (["--statusPort"], -1),
        (["--statusPort", "x"], -1),
        ([], -1),
        (None, -1),
    ],
)
def test_the_agents_port_is_an_argument_of_the_proxy(args: list[str] | None, expected: int) -> None:
    assert status_port(spec_of(proxy(args=args))) == expected


def test_a_spec_without_a_proxy_has_no_port_of_the_agent() -> None:
    assert status_port(spec_of({"name": "x", "args": ["--statusPort", "1"]})) == -1


def test_the_variables_of_the_url_replace_the_templates_and_stand_at_the_end() -> None:
    env = [{"name": "ISTIO_META_NETWORK", "value": "a"}, {"name": "B", "value": "b"}]

    found = with_cluster_env(spec_of(proxy(env=env)), {"ISTIO_META_NETWORK": "n", "ISTIO_META_CLUSTER_ID": ""})

    assert found.containers == [
        proxy(
            env=[
                {"name": "B", "value": "b"},
                {"name": "ISTIO_META_NETWORK", "value": "n"},
                {"name": "ISTIO_META_CLUSTER_ID"},
            ]
        )
    ]


@pytest.mark.parametrize(("spec", "envs"), [(spec_of(proxy()), {}), (spec_of({"name": "x"}), {"A": "b"})])
def test_without_variables_or_a_proxy_nothing_changes(spec: AppendSpec, envs: dict[str, str]) -> None:
    assert with_cluster_env(spec, envs) is spec


def test_the_proxy_gets_the_last_mount_of_the_token_that_the_application_has() -> None:
    mounts = [{"name": name, "mountPath": path} for name, path in (("a", TOKEN_PATH), ("b", "/b"), ("c", TOKEN_PATH))]
    own = {"name": "own", "mountPath": "/own"}

    found = with_token_mount(
        spec_of(proxy(volumeMounts=[own])), make_pod(containers=[make_container(volumeMounts=mounts)])
    )

    assert found.containers == [proxy(volumeMounts=[own, mounts[2]])]


def test_a_pod_without_the_token_gives_the_proxy_none() -> None:
    spec = spec_of(proxy())

    assert with_token_mount(spec, make_pod()) is spec


def test_a_changed_proxy_takes_the_place_of_the_first() -> None:
    spec = spec_of({"name": "x"}, proxy(), {"name": "y"}, proxy(n=2))

    assert with_proxy(spec, proxy(n=1)).containers == [{"name": "x"}, proxy(n=1), {"name": "y"}, proxy(n=2)]
    assert spec.containers[1] == proxy()
