"""Which templates of a revision are rendered for a pod."""

from __future__ import annotations

from typing import Any

import pytest

from injector.errors import AnnotationError, ConfigError, OverlayError, TemplateRenderError
from injector.injection.data import template_data
from injector.injection.pipeline import webhook_parameters
from injector.injection.render import OverlayTemplates, Rendered, select_templates
from injector.injection.result import RequestFacts
from injector.istio.revision import Revision, RevisionSettings, build_revision
from tests.cases import cases
from tests.factories import make_container, make_pod

TEMPLATES = "inject.istio.io/templates"
NATIVE_SIDECAR = "sidecar.istio.io/nativeSidecar"
CONFIG = """
policy: enabled
defaultTemplates: [sidecar]
aliases:
  both: [sidecar, gateway]
  again: [both]
  none: []
templates:
  sidecar: |
    metadata:
      labels: {by: sidecar, app: "{{ .ObjectMeta.Name }}"}
    spec:
      containers:
      - {name: istio-proxy, image: proxy}
  gateway: |
    metadata:
      labels: {by: gateway}
  native: |
    spec:
      initContainers:
      - {name: istio-proxy, image: proxy, restartPolicy: Always}
  fails: |
    {{ .ObjectMeta.Nonsense }}
  notyaml: |
    spec: [
  notmapping: |
    - a
  wrongtype: |
    spec: {containers: "a"}
  ordered: |
    spec:
      $setElementOrder/containers: [{name: istio-proxy}]
  empty: ""
"""
OWN_PROXY = {"name": "istio-proxy", "image": "auto", "env": [{"name": "MINE", "value": "1"}]}


def _revision(version: str = "1.30", config: str = CONFIG) -> Revision:
    settings = RevisionSettings(istio_version=version)
    return build_revision("canary", config=config, values=None, mesh=None, settings=settings, origin="test")


def _rendered(pod: dict[str, Any], *names: str, native: bool = False, version: str = "1.30") -> Rendered:
    revision = _revision(version)
    data = template_data(webhook_parameters(revision, pod, RequestFacts()), pod)
    templates = OverlayTemplates(revision, pod, names, native=native)
    return templates.merge(templates.read(templates.render(data)))


def _asking(templates: str) -> dict[str, Any]:
    return make_pod(annotations={TEMPLATES: templates})


@cases("named", "expected")
def test_a_pod_names_its_templates_and_aliases_are_expanded_once(named: str | None, expected: tuple[str, ...]) -> None:
    pod = make_pod() if named is None else _asking(named)
    assert select_templates(_revision(), pod, ("sidecar",)) == expected


def test_the_defaults_may_be_aliases_too() -> None:
    assert select_templates(_revision(), make_pod(), ("both", "empty")) == ("sidecar", "gateway", "empty")


def test_an_overlay_is_merged_over_the_pod() -> None:
    rendered = _rendered(make_pod(labels={"app": "mine", "own": "kept"}), "sidecar")
    assert rendered.merged["metadata"]["labels"] == {"app": "hello", "own": "kept", "by": "sidecar"}
    assert rendered.merged["spec"]["containers"] == [{"name": "istio-proxy", "image": "proxy"}, make_container("app")]


def test_the_template_is_what_the_overlays_add_alone() -> None:
    rendered = _rendered(make_pod(), "sidecar", "gateway")
    assert rendered.template == {
        "metadata": {"labels": {"app": "hello", "by": "gateway"}},
        "spec": {"containers": [{"name": "istio-proxy", "image": "proxy"}]},
    }


@pytest.mark.parametrize(
    ("names", "expected"), [(("sidecar", "gateway"), "gateway"), (("gateway", "sidecar"), "sidecar")]
)
def test_of_two_templates_the_later_wins(names: tuple[str, str], expected: str) -> None:
    assert _rendered(make_pod(), *names).merged["metadata"]["labels"]["by"] == expected


def test_an_order_of_containers_in_the_first_template_is_refused() -> None:
    # Go encodes the empty pod that the first template is merged into with `containers: null`.
    with pytest.raises(OverlayError, match=r"expected a \[\]interface \{\}, but received a <nil>"):
        _rendered(make_pod(), "ordered")


@pytest.mark.parametrize("names", [(), ("empty",)])
def test_a_template_that_renders_nothing_changes_nothing(names: tuple[str, ...]) -> None:
    rendered = _rendered(make_pod(), *names)
    assert rendered.merged == make_pod()
    assert rendered.template == {"spec": {"containers": None}}


def _user_proxy(annotation: str | None = None) -> dict[str, Any]:
    annotations = None if annotation is None else {NATIVE_SIDECAR: annotation}
    return make_pod(
        annotations=annotations,
        containers=[dict(OWN_PROXY), make_container("app")],
        initContainers=[make_container("setup")],
    )


def _where(rendered: Rendered) -> dict[str, list[str]]:
    spec = rendered.merged["spec"]
    return {kind: [item["name"] for item in spec.get(kind, ())] for kind in ("containers", "initContainers")}


@cases("pod", "template", "native", "version", "expected")
def test_the_users_own_proxy_joins_the_native_sidecar_unless_the_pod_declines_it(
    pod: dict[str, Any], template: str, native: bool, version: str, expected: dict[str, list[str]]
) -> None:
    assert _where(_rendered(make_pod(**pod), template, native=native, version=version)) == expected


def test_the_users_own_settings_go_with_the_proxy() -> None:
    proxies = _rendered(_user_proxy(), "native", native=True).merged["spec"]["initContainers"]
    proxy = next(item for item in proxies if item["name"] == "istio-proxy")
    assert proxy == {**OWN_PROXY, "image": "proxy", "restartPolicy": "Always"}


def test_the_pod_given_is_not_changed() -> None:
    pod = _user_proxy()
    _rendered(pod, "native", "sidecar", native=True)
    assert pod == _user_proxy()


def test_a_template_that_the_revision_lacks_is_the_pods_fault() -> None:
    with pytest.raises(AnnotationError) as caught:
        _rendered(_asking("mine"), "mine")
    known = "empty, fails, gateway, native, notmapping, notyaml, ordered, sidecar, wrongtype"
    assert caught.value.what == f'requested template "mine" not found; have {known}'
    assert caught.value.where == f"metadata.annotations[{TEMPLATES}]"
    assert caught.value.hint == "name templates of revision canary"


def test_a_default_template_that_the_revision_has_not_is_the_configs_fault() -> None:
    with pytest.raises(ConfigError) as caught:
        _rendered(make_pod(), "mine")
    assert caught.value.where == "test: defaultTemplates"


@cases("template", "what", "where")
def test_rendered_text_that_is_not_an_overlay_is_refused_with_the_templates_name(
    template: str, what: str, where: str
) -> None:
    with pytest.raises(OverlayError) as caught:
        _rendered(make_pod(), "sidecar", template)
    assert caught.value.what[: len(what)] == what
    assert caught.value.where == where


def test_the_faulty_annotation_of_an_overlay_that_does_not_merge_is_named() -> None:
    with pytest.raises(OverlayError) as caught:
        _rendered(make_pod(annotations={"sidecar.istio.io/proxyCPU": "lots", "a": "b"}), "sidecar", "wrongtype")
    assert caught.value.hint == "correct the annotation sidecar.istio.io/proxyCPU of the pod"


def test_a_template_that_fails_tells_where_in_its_text() -> None:
    with pytest.raises(TemplateRenderError) as caught:
        _rendered(make_pod(), "sidecar", "fails")
    expected = 'template: fails:1:14: executing "fails" at <.ObjectMeta.Nonsense>: can\'t evaluate field Nonsense'
    assert caught.value.what[: len(expected)] == expected


def test_a_pod_may_name_so_many_templates_and_no_more() -> None:
    assert len(select_templates(_revision(), _asking(",".join(["sidecar"] * 32)), ())) == 32
    with pytest.raises(AnnotationError, match="more than 32 templates") as caught:
        select_templates(_revision(), _asking(",".join(["sidecar"] * 33)), ())
    assert caught.value.where == f"metadata.annotations[{TEMPLATES}]"


def test_a_rendered_text_of_very_many_values_is_refused_before_they_are_read() -> None:
    config = "policy: enabled\ntemplates:\n  many: '{{ range 10000 }}[],{{ end }}'\n"
    wrapped = config.replace("'{{ range", "'a: [{{ range").replace("{{ end }}'", "{{ end }}]'")
    revision = _revision(config=wrapped.replace("range 10000", "range 30000"))
    data = template_data(webhook_parameters(revision, make_pod(), RequestFacts()), make_pod())
    templates = OverlayTemplates(revision, make_pod(), ("many",))
    with pytest.raises(OverlayError, match="more than 20000 values"):
        templates.read(templates.render(data))
