"""A pod's volumes in a folder, as the kubelet lays them out: projected ConfigMaps that are swapped whole."""

from __future__ import annotations

from pathlib import Path

from tests.deploy.rendering import Object, of_kind, pod_spec

ConfigMaps = dict[str, dict[str, str]]


def config_maps(objects: list[Object]) -> ConfigMaps:
    """The ConfigMaps among objects, by name."""
    return {config_map["metadata"]["name"]: config_map["data"] for config_map in of_kind(objects, "ConfigMap")}


def volume(objects: list[Object], name: str) -> Object:
    """The volume of that name of the Deployment's pod."""
    volumes: list[Object] = pod_spec(objects)["volumes"]
    (match,) = [candidate for candidate in volumes if candidate["name"] == name]
    return match


def mount(projected: Object, maps: ConfigMaps, root: Path, version: str = "1") -> None:
    """Write a projected volume as the kubelet does (pkg/volume/util/atomic_writer.go): beside the old one, then one rename.

    Raises:
        AssertionError: a ConfigMap that is not optional is not there; the pod would wait for it.
    """
    data = root / f"..{version}"
    for source in (source["configMap"] for source in projected["projected"]["sources"]):
        config_map = maps.get(source["name"])
        assert config_map is not None or source.get("optional"), f"the pod waits for {source['name']}"
        for item in source["items"]:
            if config_map is not None and item["key"] in config_map:
                path = data / item["path"]
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(config_map[item["key"]])
    (root / "..data_tmp").symlink_to(data.name)
    (root / "..data_tmp").rename(root / "..data")
    for entry in data.iterdir():
        if not (root / entry.name).is_symlink():
            (root / entry.name).symlink_to(f"..data/{entry.name}")
