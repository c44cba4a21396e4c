"""The library API: results, purity and threads. ``tests/architecture/test_public_names.py`` pins its names."""

from __future__ import annotations

import copy
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jsonpatch
import pytest

import injector
from injector.injection.pipeline import inject_pod
from injector.injection.result import Injected, RequestFacts
from tests.factories import make_pod, proxy_of

REVISIONS = Path(__file__).resolve().parents[1] / "revisions"
THREADS = 8


@pytest.fixture(scope="module")
def revisions() -> dict[str, injector.Revision]:
    return injector.load_revisions(embedded=True)


@pytest.fixture(scope="module")
def stable(revisions: dict[str, injector.Revision]) -> injector.Revision:
    return revisions["stable"]


def test_the_shipped_revisions_are_loaded_without_a_path(revisions: dict[str, injector.Revision]) -> None:
    assert {name: revision.istio_version for name, revision in revisions.items()} == {
        "stable": "1.24",
        "canary": "1.30",
    }


def test_a_directory_of_revisions_is_loaded_as_each_of_its_folders(stable: injector.Revision) -> None:
    loaded = injector.load_revisions(REVISIONS)["stable"], injector.load_revision(str(REVISIONS / "stable"))

    assert {revision.fingerprint for revision in loaded} == {stable.fingerprint}


def test_an_invalid_revision_among_others_is_an_error(tmp_path: Path) -> None:
    shutil.copytree(REVISIONS / "stable", tmp_path / "stable")
    (tmp_path / "empty").mkdir()

    with pytest.raises(injector.ConfigError, match="empty"):
        injector.load_revisions(tmp_path)


def test_the_result_is_that_of_the_webhook(stable: injector.Revision) -> None:
    pod = make_pod()

    injection, expected = injector.inject(stable, pod, namespace="shop"), inject_pod(stable, pod, RequestFacts("shop"))

    assert isinstance(expected, Injected)
    assert (injection.injected, injection.patch) == (True, expected.patch)
    assert injection.templates == expected.templates == ("sidecar",)


@pytest.mark.parametrize("pod", [make_pod(), make_pod(namespace="shop"), {"spec": make_pod()["spec"]}])
def test_the_patch_leads_from_the_given_pod_to_the_result(stable: injector.Revision, pod: dict[str, Any]) -> None:
    injection = injector.inject(stable, pod)

    assert jsonpatch.apply_patch(pod, injection.patch) == injection.pod


def test_a_pod_without_any_namespace_is_injected(stable: injector.Revision) -> None:
    injection = injector.inject(stable, {"spec": make_pod()["spec"]}, namespace="")

    assert injection.injected
    assert "namespace" not in injection.pod["metadata"]


def test_the_namespace_of_the_pod_takes_precedence_over_the_argument(stable: injector.Revision) -> None:
    pod = make_pod()
    pod["metadata"]["namespace"] = "kube-system"

    assert injector.inject(stable, pod, namespace="shop").reason == "ignored_namespace"


def test_variables_for_the_proxy_are_added_to_it(stable: injector.Revision) -> None:
    injection = injector.inject(stable, make_pod(), proxy_env={"ISTIO_META_NETWORK": "north"})

    assert {"name": "ISTIO_META_NETWORK", "value": "north"} in proxy_of(injection.pod)["env"]


def test_a_skipped_pod_has_the_reason_and_is_a_copy(stable: injector.Revision) -> None:
    pod = make_pod(annotations={"sidecar.istio.io/inject": "false"})

    injection = injector.inject(stable, pod)

    assert (injection.injected, injection.reason, injection.patch) == (False, "annotation", [])
    assert injection.detail
    assert injection.pod == pod
    assert injection.pod is not pod


def test_a_refused_pod_raises_an_error_that_says_where_and_how_to_fix_it(stable: injector.Revision) -> None:
    pod = make_pod(annotations={"traffic.sidecar.istio.io/includeOutboundIPRanges": "north"})

    with pytest.raises(injector.AnnotationError, match="includeOutboundIPRanges") as caught:
        injector.inject(stable, pod)

    assert caught.value.hint


@pytest.fixture
def pasting(tmp_path: Path) -> injector.Revision:
    """A revision whose template inserts an annotation without quotes."""
    folder = tmp_path / "pasting"
    folder.mkdir()
    (folder / "config").write_text(
        "policy: enabled\n"
        "templates:\n"
        "  sidecar: |\n"
        "    spec:\n"
        "      containers:\n"
        "      - name: istio-proxy\n"
        "        image: {{ .ObjectMeta.Annotations.image }}\n"
    )
    return injector.load_revision(folder)


def test_a_value_that_breaks_out_is_refused_unless_the_guard_only_warns(pasting: injector.Revision) -> None:
    pod = make_pod(annotations={"image": "a\n  - name: evil\n    image: b"})

    with pytest.raises(injector.BreakOutError, match=r"annotations\[image\]"):
        injector.inject(pasting, pod)

    warned, unchecked = injector.inject(pasting, pod, guard="warn"), injector.inject(pasting, pod, guard="off")
    assert (len(warned.warnings), len(unchecked.warnings)) == (1, 0)
    assert warned.pod == unchecked.pod


def test_a_pod_that_its_injection_makes_invalid_is_an_error(stable: injector.Revision) -> None:
    pod = make_pod(annotations={"sidecar.istio.io/userVolumeMount": '{"none": {"mountPath": "/a"}}'})

    with pytest.raises(injector.InvalidPodError, match="volumeMounts"):
        injector.inject(stable, pod)


def test_the_differences_of_two_revisions_are_sorted_by_kind(revisions: dict[str, injector.Revision]) -> None:
    changes = injector.diff(revisions["stable"], revisions["canary"], make_pod())

    assert injector.Change(
        "image", "containers[istio-proxy].image", "istio/proxyv2:1.24.6", "istio/proxyv2:1.30.3"
    ) in list(changes)
    assert injector.diff(revisions["stable"], revisions["stable"], make_pod()) == ()


def test_a_refusal_by_one_of_the_revisions_is_the_only_difference(tmp_path: Path, stable: injector.Revision) -> None:
    folder = tmp_path / "bad"
    shutil.copytree(REVISIONS / "stable", folder)
    (folder / "config").write_text("policy: enabled\ntemplates: {sidecar: '{{ nothing }}'}\n")

    (change,) = injector.diff(stable, injector.load_revision(folder), make_pod())

    assert (change.kind, change.path) == ("decision", "")
    assert str(change.new).startswith("refused")


def test_an_explanation_has_each_step_and_the_outcome(stable: injector.Revision) -> None:
    trace = injector.explain(stable, make_pod(annotations={"sidecar.istio.io/inject": "false"}))

    assert (trace.outcome, trace.reason) == ("skipped", "annotation")
    assert ("annotation", "skip") in [(step.step, step.verdict) for step in trace.steps]


def test_no_argument_is_changed(revisions: dict[str, injector.Revision]) -> None:
    pod = make_pod(annotations={"sidecar.istio.io/proxyCPU": "100m"})
    before = copy.deepcopy(pod)

    injector.inject(revisions["stable"], pod)
    injector.diff(revisions["stable"], revisions["canary"], pod)
    injector.explain(revisions["stable"], pod)

    assert pod == before


def test_a_difference_shares_nothing_with_the_revisions(revisions: dict[str, injector.Revision]) -> None:
    def compare() -> tuple[injector.Change, ...]:
        return injector.diff(revisions["stable"], revisions["canary"], make_pod())

    before = str(compare())
    objects = [side for change in compare() for side in (change.old, change.new) if isinstance(side, dict)]
    for obj in objects:
        obj.clear()

    assert objects
    assert str(compare()) == before


def test_threads_that_inject_at_once_get_the_results_of_one_thread(revisions: dict[str, injector.Revision]) -> None:
    calls = [
        (revision, make_pod(annotations={"sidecar.istio.io/proxyCPU": f"{number}m", "note": f"a: {number % 7}"}))
        for number in range(40)
        for revision in revisions.values()
    ]
    expected = [injector.inject(revision, pod) for revision, pod in calls]

    with ThreadPoolExecutor(THREADS) as pool:
        results = [list(pool.map(lambda call: injector.inject(*call), calls, timeout=120)) for _ in range(2)]

    assert results == [expected, expected]


DEPLOYMENT = {
    "kind": "Deployment",
    "apiVersion": "apps/v1",
    "metadata": {"name": "a"},
    "spec": {"template": make_pod()},
}
FUNCTIONS = {
    "inject": injector.inject,
    "diff": lambda revision, pod, **settings: injector.diff(revision, revision, pod, **settings),
    "explain": injector.explain,
}


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=list(FUNCTIONS))
@pytest.mark.parametrize("guard", ["Enforce", "nope", "", None, 1, ["off"]])
def test_another_guard_is_refused(stable: injector.Revision, function: Any, guard: Any) -> None:
    with pytest.raises(injector.DataError, match=r"guard: .* is not a guard; give one of enforce, warn, off"):
        function(stable, make_pod(), guard=guard)


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=list(FUNCTIONS))
@pytest.mark.parametrize(
    ("pod", "says"),
    [
        (None, "pod: None is not a dict"),
        ("kind: Pod", "pod: a value of type str is not a dict"),
        ([make_pod()], "pod: a value of type list is not a dict"),
        ({}, "pod: spec: missing"),
        (DEPLOYMENT, "pod: kind: 'Deployment' is not Pod"),
        ({"spec": {"template": make_pod()}}, "pod: spec.containers: not a list"),
        ({"kind": "List", "items": [make_pod()]}, "pod: kind: 'List' is not Pod"),
        ({**make_pod(), "kind": None}, "pod: kind: None is not Pod"),
        ({**make_pod(), "apiVersion": "v2"}, "pod: apiVersion: 'v2' is not v1"),
        ({**make_pod(), "metadata": "web"}, "pod: metadata: not an object"),
        ({**make_pod(), "spec": []}, "pod: spec: not an object"),
    ],
)
def test_anything_but_a_pod_is_refused(stable: injector.Revision, function: Any, pod: Any, says: str) -> None:
    with pytest.raises(injector.ManifestError) as caught:
        function(stable, pod)

    assert str(caught.value) == f"{says}; give the JSON data of a Pod; of a workload, its pod template"


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=list(FUNCTIONS))
@pytest.mark.parametrize("revision", [None, "stable", {}, Path("revisions/stable")])
def test_anything_but_a_revision_is_refused(function: Any, revision: Any) -> None:
    with pytest.raises(
        injector.DataError, match=r"revision: .* is not a Revision; give what injector.load_revision returns"
    ):
        function(revision, make_pod())


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=list(FUNCTIONS))
@pytest.mark.parametrize("namespace", [None, "Shop", 1, ["shop"], "a.b"])
def test_another_namespace_is_refused(stable: injector.Revision, function: Any, namespace: Any) -> None:
    with pytest.raises(injector.DataError, match=r"namespace: .* is not a valid namespace"):
        function(stable, make_pod(), namespace=namespace)


@pytest.mark.parametrize("proxy_env", ["A=b", ["A"], {"A": 1}, {1: "A"}])
def test_another_environment_is_refused(stable: injector.Revision, proxy_env: Any) -> None:
    with pytest.raises(injector.DataError, match="proxy_env: not a mapping of texts to texts"):
        injector.inject(stable, make_pod(), proxy_env=proxy_env)


@pytest.mark.parametrize("pod", [{"spec": make_pod()["spec"]}, {"metadata": None, "spec": make_pod()["spec"]}])
def test_a_pod_needs_only_its_spec(stable: injector.Revision, pod: dict[str, Any]) -> None:
    assert injector.inject(stable, pod).injected


@pytest.mark.parametrize("path", ["", 1, b"x"])
def test_a_path_that_is_none_is_refused(path: Any) -> None:
    for load in (injector.load_revision, injector.load_revisions):
        with pytest.raises(injector.ConfigError, match=r"path: .* is not a path; give the name of a folder"):
            load(path)


@pytest.mark.parametrize("arguments", [{}, {"path": REVISIONS, "embedded": True}])
def test_revisions_are_those_of_a_path_or_the_examples(arguments: dict[str, Any]) -> None:
    with pytest.raises(injector.ConfigError, match="load_revisions: neither or both"):
        injector.load_revisions(**arguments)


def test_another_package_of_the_same_import_name_is_seen_by_its_missing_names(tmp_path: Path) -> None:
    """As in docs/library.md: PyPI's `injector` is another project. The first of both on the path wins."""
    (tmp_path / "injector").mkdir()
    (tmp_path / "injector" / "__init__.py").write_text("class Injector: ...\n")
    env = {"PYTHONPATH": str(tmp_path), "PATH": os.defpath}

    library = [sys.executable, "-c", "import injector; injector.load_revision('x')"]
    command = [sys.executable, "-c", "from injector.cli import main"]
    runs = [
        subprocess.run(command_line, capture_output=True, text=True, check=False, env=env, cwd=tmp_path)
        for command_line in (library, command)
    ]

    assert [process.stderr.splitlines()[-1] for process in runs] == [
        "AttributeError: module 'injector' has no attribute 'load_revision'",
        "ModuleNotFoundError: No module named 'injector.cli'",
    ]
