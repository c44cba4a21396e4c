"""A revision is refused only if its templates fail on every pod."""

from __future__ import annotations

import json
from typing import Any

import pytest

from injector.errors import DataError, RecentPodError
from injector.injection.pipeline import inject_pod
from injector.injection.result import Injected
from injector.istio.revision import Revision
from injector.revisions.source import build
from injector.revisions.verify import RecentPod, verify, verify_recent
from tests.cases import cases
from tests.factories import make_pod, make_review
from tests.revisions.fakes import CONFIG, FACTS, make_raw


def revision_with(template: str, **settings: str) -> Revision:
    """A revision whose pods get a proxy and this template."""
    proxy = "spec: {containers: [{name: istio-proxy, image: proxy}]}\n"
    config = {
        "policy": "enabled",
        "defaultTemplates": ["sidecar", "own"],
        "templates": {"sidecar": proxy, "own": template},
    }
    return build(make_raw(config=json.dumps(config), settings={"istioVersion": "1.30", **settings}))


def pod_that_fits(parts: dict[str, Any]) -> dict[str, Any]:
    pod = make_pod()
    return {
        **pod,
        "metadata": {**pod["metadata"], **parts.get("metadata", {})},
        "spec": {**pod["spec"], **parts.get("spec", {})},
    }


@cases("template", "fits", "warned")
def test_a_template_for_some_pods_is_served(template: str, fits: dict[str, Any], warned: list[str]) -> None:
    revision = revision_with(template)

    verified = verify(revision)
    result = inject_pod(revision, pod_that_fits(fits), FACTS)

    assert list(verified.failed) == warned
    assert isinstance(result, Injected)


@cases("template", "message")
def test_a_template_that_fails_on_every_pod_is_refused(template: str, message: str) -> None:
    revision = revision_with(template)

    with pytest.raises(DataError) as caught:
        verify(revision)

    assert message in str(caught.value)


@cases("template", "message")
def test_a_template_that_does_not_compile_is_refused(template: str, message: str) -> None:
    with pytest.raises(DataError) as caught:
        revision_with(template)

    assert message in str(caught.value)


@cases("template", "refused", "warned")
def test_a_jinja_template_is_judged_like_one_of_go(template: str, refused: str, warned: list[str]) -> None:
    revision = revision_with(template, engine="jinja2")

    if refused:
        with pytest.raises(DataError) as caught:
            verify(revision)
        assert refused in str(caught.value)
    else:
        assert list(verify(revision).failed) == warned


@pytest.mark.parametrize("minor", ["1.8", "1.12"])
def test_a_template_that_reads_the_proxy_config_in_the_mesh_config_is_served(minor: str) -> None:
    revision = revision_with(
        '{{ if not (index .MeshConfig.DefaultConfig.ProxyMetadata "TEAM") }}{{ fail "no team" }}{{ end }}',
        istioVersion=minor,
    )
    fits = {"metadata": {"annotations": {"proxy.istio.io/config": "proxyMetadata: {TEAM: a}"}}}

    assert list(verify(revision).failed) == ["plain", "probes"]
    assert isinstance(inject_pod(revision, pod_that_fits(fits), FACTS), Injected)


def test_an_unknown_default_template_is_refused() -> None:
    with pytest.raises(DataError, match='requested template "gone" not found'):
        verify(build(make_raw(config=CONFIG.replace("[sidecar]", "[gone]"))))


def test_a_template_that_exceeds_its_budget_is_refused() -> None:
    with pytest.raises(DataError, match="budget is spent"):
        verify(revision_with('{{ define "a" }}{{ template "a" . }}{{ end }}{{ template "a" . }}'))


def test_a_warning_does_not_excuse_a_real_pod_that_was_injected() -> None:
    good, strict = (
        revision_with("metadata: {}"),
        revision_with('{{ if not (index .ObjectMeta.Labels "team") }}{{ fail "no team" }}{{ end }}'),
    )
    review = json.dumps(make_review(make_pod())).encode()

    assert list(verify(strict).failed) == ["plain", "probes"]
    with pytest.raises(RecentPodError):
        verify_recent(strict, good, [RecentPod(review, {}, "shop", "Pod hello")])
