"""A revision whose template, values and mesh config each say which version they are, and the ways to change its files."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from injector.kube.yaml import load_yaml
from tests.mounts import mount
from tests.revisions.fakes import CONFIG, VALUES

Texts: TypeAlias = "Mapping[str, str]"
"""The files of a revision."""

SMALL: Final[Texts] = {"config": CONFIG, "values": VALUES, "mesh": "{}"}
SAID: Final = re.compile(rb"config-(\d+) values-(\d+) mesh-(\d+)")
"""What a pod says of the versions that it was injected with."""
_REST: Final = "values-{{ .Values.version }} mesh-{{ .MeshConfig.TrustDomain }}"
_TEMPLATE: Final = 'metadata:\n  annotations:\n    versions: "config-%d %s"\n'


def texts_of(number: int, base: Texts = SMALL) -> dict[str, str]:
    """Return the files of a version: one more template says it, with what values and mesh config say."""
    values, mesh = load_yaml(base["values"]), load_yaml(base["mesh"])
    return {
        "config": _config(base, _TEMPLATE % (number, _REST)),
        "values": json.dumps({**values, "version": str(number)}),
        "mesh": json.dumps({**mesh, "trustDomain": str(number)}),
    }


def one_file_of(number: int, base: Texts = SMALL) -> dict[str, str]:
    """Return the files of a version that the template alone says, whatever values and mesh config are."""
    return {**base, "config": _config(base, _TEMPLATE % (number, f"values-{number} mesh-{number}"))}


def _config(base: Texts, template: str) -> str:
    config = load_yaml(base["config"])
    # The largest template changes too, so that it is compiled anew each time.
    sidecar = f"{config['templates']['sidecar']}{{{{/* {template} */}}}}"
    templates = {**config["templates"], "sidecar": sidecar, "versions": template}
    return json.dumps({**config, "templates": templates, "defaultTemplates": ["sidecar", "versions"]})


def cut(text: str) -> str:
    """Return what of a text is there while it is written."""
    return text[: len(text) // 2]


@dataclass(frozen=True)
class Fault:
    """One key of the ConfigMaps made invalid; ``says`` is a part of the reason that is to be shown."""

    name: str
    key: str
    change: Callable[[str], str]
    says: str


FAULTS: Final = (
    Fault("YAML", "config", cut, ": config:"),
    Fault("config, empty", "config", lambda _: "", "/config: is empty"),
    Fault("template", "config", lambda text: text.replace(".Values.version }", ".Values.version"), "versions:3:"),
    Fault("template as it runs", "config", lambda text: text.replace(".Values.version", "fail `x`"), "versions:3:"),
    Fault("values", "values", cut, ": values:"),
    Fault("values, empty", "values", lambda _: "", "/values: is empty"),
    Fault("mesh", "mesh", cut, ": mesh:"),
    Fault("mesh, empty", "mesh", lambda _: "", "/mesh: is empty"),
    Fault("mesh, a wrong type", "mesh", lambda _: '{"defaultConfig": 7}', ": mesh:"),
)


@dataclass(frozen=True)
class Mount:
    """A folder that is changed as the kubelet changes a mounted ConfigMap."""

    folder: Path

    def write(self, texts: Texts) -> None:
        """Mount other texts instead of those of before."""
        mount(self.folder, texts)


@dataclass(frozen=True)
class InPlace:
    """A folder whose files are written one after the other, each over itself."""

    folder: Path

    def write(self, texts: Texts) -> None:
        """Write all of them."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            (self.folder / name).write_text(text)

    def edit(self, name: str, text: str) -> None:
        """Write one as editors do: the old one is kept beside until the new one is there."""
        path, backup = self.folder / name, self.folder / f"{name}~"
        path.rename(backup)
        path.write_text(text)
        backup.unlink()

    def make_anew(self, texts: Texts) -> None:
        """Delete the folder and make it again."""
        shutil.rmtree(self.folder)
        self.write(texts)
