"""What a template is seen to read, and what it prints of what it reads."""

from __future__ import annotations

from typing import Any

import pytest

from injector.gotemplate import BudgetError, compile_template
from injector.istio.goview import string_struct
from injector.istio.leaves import Leaf
from injector.istio.template import TemplateData, go_functions
from injector.istio.tracing import Slot, Trace, UntraceableError
from tests.factories import make_container

META = {"name": "hello", "labels": {"app": "web", "tier": "x y"}, "annotations": {"note": "web"}}
SPEC = {"containers": [make_container("web", ports=[{"name": "http", "containerPort": 80}])], "nodeName": "node"}
FUNCTIONS = go_functions((1, 30), {}, with_sprig=True)


def traced(text: str, leaves: Leaf | None = None) -> tuple[str, Trace]:
    """What a template renders to with views that note what it reads, and the notes."""
    trace = Trace(leaves or Leaf())
    template = compile_template("t", text, funcs=FUNCTIONS).rebound(trace.function, trace.primitives())
    data = TemplateData(
        {
            "ObjectMeta": trace.value("v1.ObjectMeta", META, trace.part(trace.leaves, "metadata")),
            "Spec": trace.value("v1.PodSpec", SPEC, trace.part(trace.leaves, "spec")),
            "DeploymentMeta": string_struct("types.NamespacedName", Name="web"),
        }
    )
    return template.execute(data), trace


def leaf_at(trace: Trace, *path: str) -> Leaf:
    """A leaf by its path; ``*`` is every element of a list."""
    leaf = trace.leaves
    for key in path:
        found = leaf.each if key == "*" else leaf.parts[key]
        assert found is not None
        leaf = found
    return leaf


APP = ("metadata", "labels", "app")
CONTAINER = ("spec", "containers", "*", "name")


@pytest.mark.parametrize(
    ("text", "path", "printed"),
    [
        ("{{ .ObjectMeta.Labels.app }}", APP, "web"),
        ("{{ index .ObjectMeta.Labels `app` }}", APP, "web"),
        ("{{ index .ObjectMeta.Labels `app` | quote }}", APP, '"web"'),
        ("{{ index .ObjectMeta.Labels `app` | default `none` | trunc 63 | trimSuffix `-` | squote }}", APP, "'web'"),
        ("{{ valueOrDefault (index .ObjectMeta.Labels `app`) `none` | toLower }}", APP, "web"),
        ("{{ with index .ObjectMeta.Labels `app` }}{{ . }}{{ end }}", APP, "web"),
        ("{{ if eq (index .ObjectMeta.Labels `app`) `istio-proxy` }}x{{ else }}y{{ end }}", APP, "y"),
        (
            "{{ $n := list }}{{ range .Spec.Containers }}{{ $n = append $n .Name }}{{ end }}{{ join `,` $n }}",
            CONTAINER,
            "web",
        ),
        (
            "{{ $n := list }}{{ range .Spec.Containers }}{{ $n = append $n .Name }}{{ end }}{{ index $n 0 }}",
            CONTAINER,
            "web",
        ),
    ],
)
def test_a_name_that_is_only_printed_stays_a_slot(text: str, path: tuple[str, ...], printed: str) -> None:
    found, trace = traced(text)

    assert (found, leaf_at(trace, *path).exact) == (printed, False)


@pytest.mark.parametrize(
    "text",
    [
        "{{ len (index .ObjectMeta.Labels `app`) }}",
        "{{ index .ObjectMeta.Labels `app` | upper }}",
        "{{ index .ObjectMeta.Labels `app` | trunc 2 }}",
        "{{ index .ObjectMeta.Labels `app` | trimSuffix `b` }}",
        "{{ index .ObjectMeta.Labels `app` | quote | len }}",
        "{{ index .ObjectMeta.Labels `app` | quote | trimSuffix `b` | trunc 80 }}",
        "{{ index .ObjectMeta.Labels `app` | sha256sum }}",
        "{{ printf `%q` (index .ObjectMeta.Labels `app`) }}",
        "{{ if hasPrefix `w` .ObjectMeta.Labels.app }}x{{ end }}",
        "{{ if lt .ObjectMeta.Labels.app `x` }}x{{ end }}",
        "{{ if eq (index .ObjectMeta.Labels `app` | quote) `x` }}x{{ end }}",
        "{{ dict `a` .ObjectMeta.Labels.app }}",
        "{{ list .ObjectMeta.Labels.app }}",
        "{{ list .ObjectMeta.Labels.app | has `web` }}",
        "{{ index (dict `web` `x`) .ObjectMeta.Labels.app }}",
        "{{ regexMatch `w` .ObjectMeta.Labels.app }}",
    ],
)
def test_a_name_that_is_looked_into_is_exact(text: str) -> None:
    found, trace = traced(text)

    assert leaf_at(trace, *APP).exact
    assert trace.changed
    assert found == compile_template("t", text, funcs=FUNCTIONS).execute({"ObjectMeta": {"Labels": META["labels"]}})


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("{{ range $k, $v := .ObjectMeta.Labels }}{{ $k }}{{ end }}", ("metadata", "labels")),
        ("{{ if .ObjectMeta.Labels }}x{{ end }}", ("metadata", "labels")),
        ("{{ toJSON .ObjectMeta.Labels }}", ("metadata", "labels")),
        ("{{ .ObjectMeta.Labels }}", ("metadata", "labels")),
        ("{{ len .ObjectMeta.Labels }}", ("metadata", "labels")),
        ("{{ range .Spec.Containers }}{{ structToJSON .Ports }}{{ end }}", ("spec", "containers", "*", "ports", "*")),
        (
            "{{ range .Spec.Containers }}{{ range .Ports }}{{ structToJSON . }}{{ end }}{{ end }}",
            ("spec", "containers", "*", "ports", "*"),
        ),
        ("{{ toYaml .Spec }}", ("spec",)),
        ("{{ .ObjectMeta.Annotations.note }}", ("metadata", "annotations", "note")),
        ("{{ annotation .ObjectMeta `note` `` }}", ("metadata", "annotations", "note")),
        ("{{ isset .ObjectMeta.Annotations `absent` }}", ("metadata", "annotations", "absent")),
    ],
)
def test_what_is_taken_as_a_whole_is_exact(text: str, path: tuple[str, ...]) -> None:
    assert leaf_at(traced(text)[1], *path).exact


def test_nothing_is_noted_of_what_is_not_read() -> None:
    trace = traced("{{ .ObjectMeta.Labels.app }}")[1]

    assert (list(trace.leaves.parts["metadata"].parts), trace.leaves.parts["spec"].parts) == (["labels"], {})


def test_the_second_rendering_reads_nothing_new() -> None:
    text = "{{ .ObjectMeta.Labels.app }}{{ .Spec.NodeName | upper }}"
    first = traced(text)[1]
    second = traced(text, first.leaves)[1]

    assert (first.changed, second.changed) == (True, False)


def test_a_text_that_a_name_was_compared_with_is_reserved() -> None:
    trace = traced("{{ range .Spec.Containers }}{{ if ne .Name `istio-proxy` }}x{{ end }}{{ end }}")[1]

    assert trace.reserved == {"istio-proxy"}


@pytest.mark.parametrize(
    "text", ["{{ now }}", "{{ randAlpha 5 }}", "{{ uuidv4 }}", "{{ .DeploymentMeta.GetName `x` }}"]
)
def test_what_no_leaf_explains_cannot_be_followed(text: str) -> None:
    with pytest.raises(UntraceableError):
        traced(text)


def test_a_slot_is_a_text_that_remembers_its_leaves() -> None:
    leaf: Any = Leaf()

    assert (Slot.of("a", (leaf,)), Slot.of("a", (leaf,)).leaves[0] is leaf) == ("a", True)


def test_a_list_that_holds_another_one_twice_and_so_on_ends_the_rendering() -> None:
    text = "{{ $l := list .ObjectMeta.Name }}{{ range 60 }}{{ $l = list $l $l }}{{ end }}{{ if empty $l }}{{ end }}"
    with pytest.raises(BudgetError):
        traced(text)
