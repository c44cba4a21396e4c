"""What a target counts."""

from __future__ import annotations

from pathlib import Path

from tests.fuzz.target import ROOT, Target


def _target(*modules: str, guides: tuple[str, ...] = ()) -> Target:
    return Target(run=lambda _: None, modules=modules, seeds=lambda: (), guides=guides)


def test_a_folder_stands_for_the_modules_in_it() -> None:
    files = _target("gotemplate/sprig").files()

    assert len(files) > 10
    assert all(Path(file).parent == ROOT / "injector" / "gotemplate" / "sprig" for file in files)


def test_all_but_its_modules_and_its_guides_is_uncounted() -> None:
    uncounted = _target("kube/pods.py", guides=("injection",)).uncounted()

    assert {"injector", "injector.kube", "injector.kube.typed", "injector.webhook.handler"} <= {*uncounted}
    assert not {"injector.kube.pods", "injector.injection", "injector.injection.pipeline"} & {*uncounted}
