from __future__ import annotations

from typing import Any

import pytest

from injector.gotemplate import compile_template
from injector.injection.pipeline import inject_pod
from injector.injection.result import OFF, Injected, RequestFacts
from injector.istio.revision import Revision
from injector.istio.template import annotations_read, go_functions, reads
from tests.factories import make_pod
from tests.property.test_guard import revisions


def keys_of(template: str) -> frozenset[str] | None:
    return annotations_read(compile_template("sidecar", template, funcs=go_functions((1, 30), {})).trees)


@pytest.mark.parametrize(
    ("template", "keys"),
    [
        ("", set()),
        ("{{ .ObjectMeta.Name }} {{ .Spec.Containers }} {{ .Values.global }}", set()),
        ("{{ index .ObjectMeta.Annotations `a` }}", {"a"}),
        ("{{ if isset .ObjectMeta.Annotations `a` }}{{ annotation .ObjectMeta `b` .Values.x }}{{ end }}", {"a", "b"}),
        ("{{ annotation .ObjectMeta `a` (annotation .DeploymentMeta `b` 1) | quote }}", {"a", "b"}),
        ("{{ .ObjectMeta.Annotations.a }} {{ $.ObjectMeta.Annotations.b }}", {"a", "b"}),
        ("{{ with index .ObjectMeta.Annotations `a` }}{{ . }}{{ end }}", {"a"}),
        (
            "{{ range $k, $v := fromJSON (index .ObjectMeta.Annotations `a`) }}{{ . }}{{ $v.Annotations }}{{ end }}",
            {"a"},
        ),
        ("{{ range .Spec.Containers }}{{ .Name }}{{ index $.ObjectMeta.Annotations `a` }}{{ end }}", {"a"}),
        ("{{ if .ObjectMeta.Annotations }}x{{ else }}{{ index .ObjectMeta.Annotations `a` }}{{ end }}", {"a"}),
        ("{{ define `x` }}{{ index .ObjectMeta.Annotations `a` }}{{ end }}{{ template `x` . }}", {"a"}),
        ("{{ with $ }}{{ .ObjectMeta.Annotations.a }}{{ end }}", {"a"}),
        (
            "{{ $a := otelResourceAttributes .MeshConfig .ObjectMeta.Annotations .ObjectMeta.Labels `ns` .Spec.Containers }}",
            {"resource.opentelemetry.io/*"},
        ),
        ("{{ . }}", None),
        ("{{ $ }}", None),
        ("{{ toJSON .ObjectMeta.Annotations }}", None),
        ("{{ .ObjectMeta.Annotations }}", None),
        ("{{ .ObjectMeta.Annotations | toJSON }}", None),
        ("{{ structToJSON .ObjectMeta }}", None),
        ("{{ $meta := .ObjectMeta }}{{ $meta.Annotations.a }}", None),
        ("{{ if $meta := .ObjectMeta }}{{ toJSON $meta.Annotations }}{{ end }}", None),
        ("{{ with .ObjectMeta }}{{ .Annotations.a }}{{ end }}", None),
        ("{{ with .ObjectMeta.Annotations }}{{ .a }}{{ end }}", None),
        ("{{ with (or .ObjectMeta.Annotations 1) }}{{ .a }}{{ end }}", None),
        ("{{ range .ObjectMeta.Annotations }}{{ . }}{{ end }}", None),
        ("{{ range $k, $v := .ObjectMeta.Annotations }}x{{ end }}", None),
        ("{{ define `x` }}{{ .a }}{{ end }}{{ template `x` .ObjectMeta.Annotations }}", None),
        ("{{ (.ObjectMeta.Annotations).a }}", None),
        ("{{ (.ObjectMeta).Annotations.a }}", None),
        ("{{ index .ObjectMeta.Annotations .Values.key }}", None),
        ("{{ annotation .ObjectMeta `a` .ObjectMeta.Annotations }}", None),
        ("{{ `a` | index .ObjectMeta.Annotations }}", None),
        ("{{ printf `%v` (index .ObjectMeta.Annotations `a`) . }}", None),
        ("{{ .ObjectMeta.GetAnnotations }}", None),
        ("{{ range .Spec.Containers }}{{ printf `%v` $ }}{{ end }}", None),
        ("{{ if true }}{{ else }}{{ . }}{{ end }}", None),
    ],
)
def test_the_annotations_that_a_template_can_read(template: str, keys: set[str] | None) -> None:
    assert keys_of(template) == keys


def test_a_text_that_is_rendered_again_can_read_any_annotation() -> None:
    compiled = compile_template("sidecar", "{{ render (index .Values `x`) }}", funcs=go_functions((1, 12), {}))

    assert annotations_read(compiled.trees) is None


def test_keys_and_their_beginnings() -> None:
    keys = frozenset({"a", "b/*"})

    assert [reads(keys, key) for key in ("a", "b/", "b/c", "ab", "b")] == [True, True, True, False, False]


def pod_of(revision: Revision, annotations: dict[str, str]) -> Any:
    result = inject_pod(revision, make_pod(annotations=annotations), RequestFacts("shop", guard=OFF))
    assert isinstance(result, Injected)
    return result.pod["spec"]


def test_an_annotation_that_is_not_listed_changes_nothing_that_is_rendered() -> None:
    listed = {name: revision for name, revision in revisions().items() if revision.annotations_read is not None}

    assert listed
    for revision in listed.values():
        plain = pod_of(revision, {"other": "1"})
        assert revision.annotations_read is not None
        for key in ("checksum/config", "kubectl.kubernetes.io/last-applied-configuration", "sidecar.istio.io/unknown"):
            assert not reads(revision.annotations_read, key)
            assert pod_of(revision, {"other": "1", key: "it's\n- name: {x"}) == plain


@pytest.mark.parametrize("key", ["sidecar.istio.io/proxyImage", "traffic.sidecar.istio.io/includeInboundPorts"])
def test_the_annotations_that_change_a_sidecar_are_listed(key: str) -> None:
    for revision in revisions().values():
        assert revision.annotations_read is None or reads(revision.annotations_read, key)
