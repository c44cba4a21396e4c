"""Folders as the kubelet mounts ConfigMaps and Secrets (pkg/volume/util/atomic_writer.go)."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path


def mount(folder: Path, files: Mapping[str, str | bytes]) -> None:
    """Mount these files instead of those of before: they are written beside them, and one link is swapped."""
    data = folder / "..data"
    old = data.resolve() if data.is_symlink() else None
    new = folder / f"..{1 if old is None else int(old.name.removeprefix('..')) + 1}"
    new.mkdir(parents=True)
    for name, content in files.items():
        (new / name).write_bytes(content.encode() if isinstance(content, str) else content)
    (folder / "..data_tmp").symlink_to(new.name)
    (folder / "..data_tmp").replace(data)
    for name in files:
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(f"..data/{name}")
    if old is not None:
        shutil.rmtree(old)
