"""The volume of revisions, laid out as the kubelet lays it out, is a folder that the injector reads and follows."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING

from injector.revisions.directory import DirectorySource
from injector.revisions.watching import file_changes
from tests.deploy.rendering import ROOT, Object, base, of_kind, pod_spec

if TYPE_CHECKING:
    from pathlib import Path

ConfigMaps = dict[str, dict[str, str]]
REVISIONS = ROOT / "revisions"
LIMIT = 60.0


def config_maps() -> ConfigMaps:
    """What the volume of the base `files` is made of: the chart's own ConfigMap, and one for each folder."""
    own = {each["metadata"]["name"]: each["data"] for each in of_kind(base("files"), "ConfigMap")}
    folders = [folder for folder in REVISIONS.iterdir() if folder.is_dir()]
    return own | {
        f"injector-revision-{folder.name}": {file.name: file.read_text() for file in folder.iterdir()}
        for folder in folders
    }


def sources() -> list[Object]:
    (volume,) = [each for each in pod_spec(base("files"))["volumes"] if each["name"] == "revisions"]
    return [source["configMap"] for source in volume["projected"]["sources"]]


def mount(root: Path, made: ConfigMaps, version: str) -> None:
    """Write the volume as the kubelet does (pkg/volume/util/atomic_writer.go): whole, beside the old one, then one rename."""
    data = root / f"..{version}"
    for source in sources():
        found = made.get(source["name"])
        assert found is not None or source.get("optional"), f"the pod waits for {source['name']}"
        for item in source["items"]:
            if found is not None and item["key"] in found:
                path = data / item["path"]
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(found[item["key"]])
    (root / "..data_tmp").symlink_to(data.name)
    (root / "..data_tmp").rename(root / "..data")
    for entry in data.iterdir():
        if not (root / entry.name).is_symlink():
            (root / entry.name).symlink_to(f"..data/{entry.name}")


def test_it_is_the_revisions_and_the_tags(tmp_path: Path) -> None:
    mount(tmp_path, config_maps(), "one")

    state, committed = DirectorySource(tmp_path).read(), DirectorySource(REVISIONS).read()

    assert dict(state.failures) == {}
    assert state.tags == committed.tags
    assert {raw.name: (raw.config, raw.values, raw.mesh, raw.settings) for raw in state.revisions} == {
        raw.name: (raw.config, raw.values, raw.mesh, raw.settings) for raw in committed.revisions
    }


def test_a_revision_whose_config_map_is_gone_is_told_and_the_others_are_served(tmp_path: Path) -> None:
    made = config_maps()
    del made["injector-revision-canary"]
    mount(tmp_path, made, "one")

    state = DirectorySource(tmp_path).read()

    assert [raw.name for raw in state.revisions] == ["stable"]
    assert {name: error.what for name, error in state.failures.items()} == {"canary": "it has no `config`"}


async def test_a_change_of_a_config_map_is_seen(tmp_path: Path) -> None:
    made = config_maps()
    mount(tmp_path, made, "one")

    async with asyncio.timeout(LIMIT), aclosing(file_changes([tmp_path], recursive=True)) as told:
        await anext(told)
        made["injector-revision-stable"]["values"] += "\n"
        mount(tmp_path, made, "two")
        await anext(told)

    values = {raw.name: raw.values for raw in DirectorySource(tmp_path).read().revisions}
    assert values["stable"] == made["injector-revision-stable"]["values"]
