"""Commands answer alike about the same objects, in whatever form they get them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.cli.clusters import FakeKube, invoke, reached
from tests.property.clusters import FORMS, KINDS, Object, answers, draws, injected_by, random_cluster, with_outdated
from tests.revisions.fakes import write_revision
from tests.sizes import sized
from tests.upgrade.fleets import DOCUMENT

SETS = int(os.environ.get("ONE_VIEW_SETS", sized(20, 2000)))
PER_TEST = 5


def in_namespaces(obj: Object) -> Object:
    """An object as the API server has it: with the namespace that a file may leave out."""
    is_placed = obj["kind"] in (*KINDS, "Pod")
    return {**obj, "metadata": {"namespace": "default", **obj["metadata"]}} if is_placed else obj


@pytest.fixture
def upgrade(tmp_path: Path) -> Path:
    document = {**DOCUMENT, "spec": {**DOCUMENT["spec"], "from": "1-24", "to": "1-30"}}
    path = tmp_path / "up.json"
    path.write_text(json.dumps(document))
    return path


@pytest.mark.parametrize("first", range(0, SETS, PER_TEST))
def test_all_forms_of_the_same_objects_give_equal_answers(
    first: int, upgrade: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(first, min(first + PER_TEST, SETS)):
        draw = draws(seed)
        objects = random_cluster(draw)
        reached(monkeypatch, FakeKube(*map(in_namespaces, objects)))
        expected = answers(upgrade)
        for form in draw.sample(list(FORMS), 2):
            folder = tmp_path / f"{seed}-{form}"
            folder.mkdir()
            FORMS[form](draw, with_outdated(draw, objects), folder)

            assert answers(upgrade, str(folder)) == expected, (seed, form)


@pytest.mark.parametrize("form", FORMS)
def test_kube_inject_injects_the_same_workloads_in_each_form(form: str, tmp_path: Path) -> None:
    write_revision(tmp_path / "revisions" / "1-30")
    draw = draws(7)
    found: list[Any] = []
    for write in (FORMS["documents"], FORMS[form]):
        objects = [obj for obj in random_cluster(draws(7)) if obj["kind"] in ("Deployment", "Pod", "CronJob")]
        folder = tmp_path / str(len(found))
        folder.mkdir()
        write(draw, objects, folder)
        found.append(injected_by(str(folder), revisions=str(tmp_path / "revisions")))

    assert found[0] == found[1]
    assert any("istio-proxy" in names for names in found[0].values())


def test_standard_input_gives_the_answers_of_a_file(tmp_path: Path) -> None:
    objects = random_cluster(draws(3))
    FORMS["a List"](draws(3), objects, tmp_path)
    text = (tmp_path / "all.yaml").read_text()

    for command in (["explain"], ["analyze"], ["revision", "status"], ["diff", "1-24", "1-30"]):
        of_file = invoke(*command, "-f", str(tmp_path / "all.yaml"), "-o", "json")
        of_input = invoke(*command, "-f", "-", "-o", "json", text=text)

        assert of_input.exit_code == of_file.exit_code
        assert of_input.stdout == of_file.stdout.replace(str(tmp_path / "all.yaml"), "stdin")
