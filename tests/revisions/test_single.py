from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from injector.errors import ConfigError
from injector.revisions.directory import SingleSource
from tests.revisions.fakes import CONFIG, VALUES

if TYPE_CHECKING:
    from pathlib import Path


def test_three_files_are_one_revision_named_default(tmp_path: Path) -> None:
    for name, text in (("c.yaml", CONFIG), ("v.json", VALUES), ("m.yaml", "x: 1")):
        (tmp_path / name).write_text(text)

    state = SingleSource(tmp_path / "c.yaml", tmp_path / "v.json", tmp_path / "m.yaml").read()

    raw = state.revisions[0]
    assert (raw.name, raw.config, raw.values, raw.mesh) == ("default", CONFIG, VALUES, "x: 1")
    assert raw.origin == str(tmp_path / "c.yaml")
    assert state.default == "default"


def test_values_and_mesh_may_be_absent(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(CONFIG)

    raw = SingleSource(tmp_path / "c.yaml", name="1-24", settings={"istioVersion": "1.1"}).read().revisions[0]

    assert (raw.name, raw.values, raw.mesh, raw.settings) == ("1-24", None, None, {"istioVersion": "1.1"})


@pytest.mark.parametrize("missing", ["config", "values", "mesh"])
def test_a_file_that_was_named_must_be_there(tmp_path: Path, missing: str) -> None:
    files = {name: tmp_path / name for name in ("config", "values", "mesh")}
    for name, path in files.items():
        if name != missing:
            path.write_text("x: 1")

    with pytest.raises(ConfigError, match=f"{missing}: there is no such file; check the path"):
        SingleSource(files["config"], files["values"], files["mesh"]).read()


@pytest.mark.parametrize("empty", ["config", "values", "mesh"])
def test_a_file_that_is_empty_is_about_to_be_written(tmp_path: Path, empty: str) -> None:
    files = {name: tmp_path / name for name in ("config", "values", "mesh")}
    for name, path in files.items():
        path.write_text("" if name == empty else "x: 1")

    with pytest.raises(ConfigError, match=f"{empty}: is empty; write it, or delete it"):
        SingleSource(files["config"], files["values"], files["mesh"]).read()


def test_a_name_that_cannot_be_a_revisions_is_refused(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(CONFIG)

    with pytest.raises(ConfigError, match="--revision: 'Nope' cannot name a revision"):
        SingleSource(tmp_path / "c.yaml", name="Nope").read()
