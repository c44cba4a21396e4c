from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cases import cases
from tests.conformance import corpus, newminor

SETTINGS = {"config": "policy: enabled", "values": "{}", "mesh": "{}", "env": {"A": "b"}, "nodes": ["v1.34.0"]}
POD: dict[str, Any] = {"metadata": {"name": "a"}, "spec": {}}


def recorded_case(name: str, **test: Any) -> dict[str, Any]:
    """Return the line of a case, as the recorder writes it."""
    empty = {"expectedError": "", "expectedWarning": "", "kubeInject": True, "webhook": True}
    return {"case": f"TestInjection/{name}", "test": {**empty, **test}, **SETTINGS}


@pytest.fixture
def written(tmp_path: Path) -> Path:
    source = tmp_path / "source"
    source.mkdir()
    for name in ("a.yaml", "a.yaml.injected", "b.yaml"):
        (source / name).write_text(f"kind: {name}")
    lines = [
        recorded_case("[10]_b.yaml", input="b.yaml", expected="", expectedError="bad", webhook=False),
        recorded_case("[02]_a.yaml.injected", input="a.yaml", expected="a.yaml.injected", kubeInject=False),
        {
            "review": "TestInjection/[02]_a.yaml.injected/webhook/yamlPart[0]",
            "namespace": "n",
            "pod": POD,
            "patched": {},
        },
    ]
    newminor.write_cases(lines, source, tmp_path / "1.99", "1.99")
    return tmp_path


def test_recorded_cases_are_read_as_those_of_the_corpus_in_the_order_of_istios_tests(written: Path) -> None:
    first, second = corpus.cases("1.99", written)

    assert (first.name, second.name) == ("000-a.yaml.injected", "001-b.yaml")
    assert (first.kube_inject, first.webhook, second.kube_inject, second.webhook) == (False, True, True, False)
    assert first.expected is not None
    assert (first.source.read_text(), first.expected.read_text()) == ("kind: a.yaml", "kind: a.yaml.injected")
    assert (second.expected, second.expected_error) == (None, "bad")


def test_recorded_settings_are_written_once_and_shared(written: Path) -> None:
    first, second = corpus.cases("1.99", written)

    assert first.settings == second.settings
    assert first.settings.config.read_text() == "policy: enabled"
    assert (first.settings.env, first.settings.nodes) == ((("A", "b"),), ("v1.34.0",))
    assert len(list((written / "1.99" / "settings").iterdir())) == 3


def test_recorded_reviews_have_the_settings_of_their_case(written: Path) -> None:
    (review,) = corpus.webhook_cases("1.99", written)

    assert (review.name, review.namespace, review.pod, review.patched) == ("000-a.yaml.injected", "n", POD, {})
    assert review.settings.mesh == corpus.cases("1.99", written)[0].settings.mesh


@cases("old", "new", "lines")
def test_each_name_and_value_that_differs_is_a_line(old: newminor.Facts, new: newminor.Facts, lines: list[str]) -> None:
    assert list(newminor.differences(old, new)) == lines


def test_facts_name_the_features_that_the_injector_reads_and_every_value_of_the_chart(tmp_path: Path) -> None:
    package = tmp_path / newminor.PACKAGE
    package.mkdir(parents=True)
    (package / "inject.go").write_text("if features.EnableNativeSidecars == common_features.Auto {}")
    (package / "inject_test.go").write_text("features.OnlyInTests")
    (tmp_path / newminor.VALUES).parent.mkdir(parents=True)
    (tmp_path / newminor.VALUES).write_text(yaml.safe_dump({"global": {"proxy": {"image": "proxyv2"}, "tags": {}}}))
    (tmp_path / "go.mod").write_text("require (\n\tk8s.io/api v0.36.1\n)\n")

    found = newminor.facts([{"facts": {"mesh config default": {"defaultConfig": {"statusPort": 15020}}}}], tmp_path)

    assert found == {
        "mesh config default": {"defaultConfig.statusPort": 15020},
        "value of the chart": {"global.proxy.image": "proxyv2", "global.tags": {}},
        "feature variable": {"EnableNativeSidecars": "", "Auto": ""},
        "module": {"k8s.io/api": "v0.36.1"},
    }


def test_tests_of_istio_that_were_rewritten_are_named(tmp_path: Path) -> None:
    package = tmp_path / newminor.PACKAGE
    package.mkdir(parents=True)
    shutil.copy(newminor.RECORDER, package / "inject_test.go")

    with pytest.raises(SystemExit, match=r"inject_test\.go has no line `t\.Run\(\"kube-inject\""):
        newminor.recorded(tmp_path, tmp_path / "work", [])
