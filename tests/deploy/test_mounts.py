"""The volume of revisions, laid out as the kubelet lays it out, is a folder that the injector reads and follows."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from pathlib import Path

import pytest

from injector.revisions.directory import read_directory
from injector.revisions.files import file_changes
from tests.deploy.mounts import ConfigMaps, config_maps, mount, volume
from tests.deploy.rendering import ROOT, base

REVISIONS = ROOT / "revisions"
VOLUME = volume(base("files"), "revisions")
LIMIT = 60.0


@pytest.fixture
def maps() -> ConfigMaps:
    """What the volume of the base `files` is made of: the chart's own ConfigMap, and one for each folder."""
    folders = [folder for folder in REVISIONS.iterdir() if folder.is_dir()]
    return config_maps(base("files")) | {
        f"injector-revision-{folder.name}": {file.name: file.read_text() for file in folder.iterdir()}
        for folder in folders
    }


def test_it_is_the_revisions_and_the_tags(maps: ConfigMaps, tmp_path: Path) -> None:
    mount(VOLUME, maps, tmp_path)

    state, committed = read_directory(tmp_path), read_directory(REVISIONS)

    assert dict(state.failures) == {}
    assert state.tags == committed.tags
    assert {raw.name: (raw.config, raw.values, raw.mesh, raw.settings) for raw in state.revisions} == {
        raw.name: (raw.config, raw.values, raw.mesh, raw.settings) for raw in committed.revisions
    }


def test_a_revision_whose_config_map_is_gone_is_told_and_the_others_are_served(
    maps: ConfigMaps, tmp_path: Path
) -> None:
    del maps["injector-revision-canary"]
    mount(VOLUME, maps, tmp_path)

    state = read_directory(tmp_path)

    assert [raw.name for raw in state.revisions] == ["stable"]
    assert {name: error.what for name, error in state.failures.items()} == {"canary": "it has no `config`"}


async def test_a_change_of_a_config_map_is_seen(maps: ConfigMaps, tmp_path: Path) -> None:
    mount(VOLUME, maps, tmp_path)

    async with asyncio.timeout(LIMIT), aclosing(file_changes([tmp_path])) as changes:
        await anext(changes)
        maps["injector-revision-stable"]["values"] += "\n"
        mount(VOLUME, maps, tmp_path, version="2")
        await anext(changes)

    values = {raw.name: raw.values for raw in read_directory(tmp_path).revisions}
    assert values["stable"] == maps["injector-revision-stable"]["values"]
