"""Injection of Istio 1.0 to 1.8, which appends to the pod."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from injector.errors import OverlayError
from injector.injection.append import (
    TOKEN_PATH,
    AppendSpec,
    ListTemplate,
    status_port,
    with_concurrency,
    with_token_mount,
)
from injector.injection.data import template_data
from injector.injection.pipeline import admitted_pod, run_injection, webhook_parameters
from injector.injection.result import RequestFacts
from injector.kube.typed import normalise
from tests.cases import cases
from tests.factories import make_container, make_pod, proxy_of
from tests.revisions.fakes import revision_of

KINDS = ("initContainers", "containers", "volumes", "imagePullSecrets")
STATUS = "sidecar.istio.io/status"
TEMPLATE = """\
rewriteAppHTTPProbe: true
initContainers:
- name: istio-init
containers:
- name: istio-proxy
  args: [proxy, --statusPort, "15020"]
volumes:
- name: istio-envoy
  emptyDir: {}
imagePullSecrets:
- name: secret
"""
SCRAPE = {"prometheus.io/path": "/stats/prometheus", "prometheus.io/port": "15020", "prometheus.io/scrape": "true"}
PROBE = {"httpGet": {"path": "/ready", "port": 8080}}
TOKEN = {"name": "token", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}


def inject(
    pod: dict[str, Any],
    minor: int = 8,
    *,
    template: str = TEMPLATE,
    webhook: bool = True,
    config: str = "",
    envs: dict[str, str] | None = None,
    **raw: Any,
) -> dict[str, Any]:
    """The pod that Istio 1.``minor`` makes with ``template``; keywords are of a raw revision."""
    text = f"policy: enabled\n{config}template: {json.dumps(template)}\n"
    params = webhook_parameters(
        revision_of(minor, text, **raw), admitted_pod(pod, "shop"), RequestFacts("shop", envs or {})
    )
    injected = run_injection(params, webhook=webhook)
    assert injected.templates == ("sidecar",)
    return injected.shared_pod


def names(pod: dict[str, Any], kind: str = "containers") -> list[str]:
    return [container["name"] for container in pod["spec"].get(kind, [])]


@cases("pod", "made_with", "expected")
def test_istio_up_to_1_8_injects(pod: dict[str, Any], made_with: dict[str, Any], expected: dict[str, Any]) -> None:
    result = inject(make_pod(**pod), **made_with)

    parts = {
        **result,
        "names": {kind: names(result, kind) for kind in KINDS},
        "annotations": result["metadata"]["annotations"],
        "app": result["spec"]["containers"][0],
        "proxy": proxy_of(result),
    }
    assert {part: {name: parts[part].get(name) for name in fields} for part, fields in expected.items()} == expected


@pytest.mark.parametrize("config", ["", "injectedAnnotations: {a: b}\n"])
def test_the_status_names_what_was_added_and_the_hash_of_the_template(config: str) -> None:
    result = inject(make_pod(annotations={"own": "x"}), config=config)

    annotations = result["metadata"]["annotations"]
    assert json.loads(annotations.pop(STATUS)) == {
        "version": hashlib.sha256(TEMPLATE.encode()).hexdigest(),
        "initContainers": ["istio-init"],
        "containers": ["istio-proxy"],
        "volumes": ["istio-envoy"],
        "imagePullSecrets": ["secret"],
    }
    assert annotations == {"own": "x", **SCRAPE, **({"a": "b"} if config else {})}


def test_a_list_that_adds_nothing_is_null_in_the_status() -> None:
    result = inject(make_pod(), template="containers: [{name: istio-proxy}]\n")

    assert result["metadata"]["annotations"][STATUS].endswith(
        '"initContainers":null,"containers":["istio-proxy"],"volumes":null,"imagePullSecrets":null}'
    )


def test_an_earlier_injection_is_replaced() -> None:
    once = inject(make_pod())

    assert {kind: names(inject(once), kind) for kind in KINDS} == {
        "initContainers": ["istio-init"],
        "containers": ["app", "istio-proxy"],
        "volumes": ["istio-envoy"],
        "imagePullSecrets": ["secret"],
    }


def test_the_pod_is_as_go_would_print_it() -> None:
    result = inject(make_pod())

    assert result == normalise(result, "v1.Pod")


def test_a_template_that_renders_no_lists_names_the_revision() -> None:
    with pytest.raises(OverlayError, match="revision rev, rendered template: failed parsing generated injected YAML"):
        inject(make_pod(), template="- a\n")


def test_a_quantity_that_is_none_names_the_annotation() -> None:
    template = "containers: [{name: a, resources: {requests: {cpu: lots}}}]\n"
    with pytest.raises(OverlayError, match=r"correct the annotation .*proxyCPU of the pod"):
        inject(make_pod(annotations={"sidecar.istio.io/proxyCPU": "lots"}), template=template)


def spec_of(*containers: dict[str, Any]) -> dict[str, Any]:
    """Lists that append containers only."""
    return {"spec": {"containers": list(containers)}}


def proxy(**fields: Any) -> dict[str, Any]:
    return {"name": "istio-proxy", **fields}


NOTHING = "{{- /* a template is never empty */}}"


def read(text: str) -> AppendSpec:
    """The spec of a rendered text."""
    config = f"policy: enabled\ntemplate: {json.dumps(text + NOTHING)}\n"
    revision = revision_of(8, config)
    params = webhook_parameters(revision, admitted_pod(make_pod(), "shop"), RequestFacts("shop"))
    template = ListTemplate(revision, params.pod)
    return template.merge(template.read(template.render(template_data(params, params.pod))))


def test_every_list_is_read_typed() -> None:
    result = read(
        "initContainers: [{name: istio-init}]\n"
        "containers: [{name: istio-proxy, unknown: 1}]\n"
        "volumes: [{name: v, emptyDir: {}}]\n"
        "imagePullSecrets: [{name: s}]\n"
        "dnsConfig: {searches: [global]}\n"
        "rewriteAppHTTPProbe: true\n"
        "podRedirectAnnot: {a: b}\n"
        "unknown: 1\n"
    )

    spec = {
        "initContainers": [{"name": "istio-init"}],
        "containers": [{"name": "istio-proxy"}],
        "volumes": [{"name": "v", "emptyDir": {}}],
        "imagePullSecrets": [{"name": "s"}],
        "dnsConfig": {"searches": ["global"]},
    }
    assert result == AppendSpec({"spec": spec}, rewrite_probes=True, redirect_annotations={"a": "b"})


@pytest.mark.parametrize("text", ["", "# nothing\n", "{}", "containers:\nvolumes: null\n"])
def test_an_empty_text_appends_nothing(text: str) -> None:
    assert read(text) == AppendSpec({"spec": {}}, rewrite_probes=False, redirect_annotations={})


def test_keys_match_in_any_case_as_in_gos_json() -> None:
    result = read("CONTAINERS: [{name: a}]\nrewriteapphttpprobe: true\n")

    assert (result.pod, result.rewrite_probes) == (spec_of({"name": "a"}), True)


SWITCHES = ("rewriteAppHTTPProbe: 'true'", "podRedirectAnnot: [a]", "podRedirectAnnot: {a: [b]}")


@pytest.mark.parametrize("text", ["[a]", "a", "containers: 1", "containers: [1]", "a: [", "volumes: {a: b}", *SWITCHES])
def test_invalid_lists_are_refused_in_istios_words(text: str) -> None:
    with pytest.raises(OverlayError) as caught:
        read(text)

    assert caught.value.what.startswith("failed parsing generated injected YAML (check Istio sidecar injector config")
    assert caught.value.where
    assert caught.value.hint


@cases("resources", "expected")
def test_the_proxy_has_as_many_threads_as_cpus(resources: dict[str, Any], expected: str | None) -> None:
    spec = spec_of({"name": "x"}, proxy(args=["proxy"], resources=resources))

    args = with_concurrency(spec)["spec"]["containers"][1]["args"]

    assert args == (["proxy"] if expected is None else ["proxy", "--concurrency", expected])


@cases("args", "stay")
def test_threads_that_are_given_stay_unless_they_are_none(args: list[str], stay: bool) -> None:
    result = with_concurrency(spec_of(proxy(args=args, resources={"limits": {"cpu": "2"}})))

    assert proxy_of(result)["args"] == (args if stay else [*args, "--concurrency", "2"])


def test_without_a_proxy_nothing_gets_threads() -> None:
    spec = spec_of({"name": "x", "resources": {"limits": {"cpu": "2"}}})

    assert with_concurrency(spec) is spec


@cases("args", "expected", also=[(["--statusPort", "0" * 10_000 + "7"], 7)])
def test_the_agents_port_is_an_argument_of_the_proxy(args: list[str] | None, expected: int) -> None:
    assert status_port(spec_of(proxy(args=args))) == expected


def test_a_spec_without_a_proxy_has_no_port_of_the_agent() -> None:
    assert status_port(spec_of({"name": "x", "args": ["--statusPort", "1"]})) == -1


def test_the_proxy_gets_the_last_mount_of_the_token_that_the_application_has() -> None:
    mounts = [{"name": name, "mountPath": path} for name, path in (("a", TOKEN_PATH), ("b", "/b"), ("c", TOKEN_PATH))]
    own = {"name": "own", "mountPath": "/own"}

    result = with_token_mount(
        spec_of(proxy(volumeMounts=[own])), make_pod(containers=[make_container(volumeMounts=mounts)])
    )

    assert result == spec_of(proxy(volumeMounts=[own, mounts[2]]))


def test_a_pod_without_the_token_gives_the_proxy_none() -> None:
    spec = spec_of(proxy())

    assert with_token_mount(spec, make_pod()) is spec
