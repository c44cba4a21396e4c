"""The options that name running istiods, and the revision that each runs with."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from injector.errors import DataError
from injector.fleet.istiodoptions import IstiodOptions
from injector.istio.behaviours import format_minor, parse_minor
from injector.kube.yaml import objects_in
from injector.revisions.directory import read_folder, read_proxy_configs
from injector.revisions.files import read_nonempty
from tests.differential.injectors import ControlPlane
from tests.differential.istiods import read_version

PROXY_CONFIGS = "proxyconfigs.yaml"


@dataclass(frozen=True)
class Target:
    """A running istiod, the release and the commit that it was built from, and what it runs with."""

    options: IstiodOptions
    release: str
    commit: str
    plane: ControlPlane


def add_options(options: argparse.ArgumentParser) -> None:
    """Add the options."""
    options.add_argument(
        "--istiod",
        action="append",
        default=[],
        metavar="URL",
        help="the webhook of a running istiod, such as https://istiod.istio-system.svc:15017/inject; repeatable, each with its --revision",
    )
    options.add_argument(
        "--revision",
        action="append",
        default=[],
        type=Path,
        metavar="FOLDER",
        help="the folder of the revision that it runs with: config, values, mesh, and revision.yaml with its env; "
        f"{PROXY_CONFIGS} has the ProxyConfigs of its cluster",
    )
    options.add_argument("--ca", type=Path, metavar="FILE", help="trust the certificates of this file")
    options.add_argument(
        "--timeout", type=float, default=IstiodOptions().timeout, help="seconds for each answer (default: %(default)g)"
    )
    options.add_argument("--release", help="the release of istiod, such as 1.30.3; asked from --version-url without it")
    options.add_argument("--commit", default="", help="the commit that it was built from")
    options.add_argument(
        "--version-url",
        default="http://127.0.0.1:15014/version",
        metavar="URL",
        help="the page with the version of istiod, on its port for monitoring (default: %(default)s)",
    )


def targets(parser: argparse.ArgumentParser, options: argparse.Namespace) -> Iterator[Target]:
    """Return the istiods that the options name; the options or a folder that is not valid end the program."""
    if len(options.istiod) != len(options.revision):
        parser.error("give a --revision for each --istiod")
    for url, folder in zip(options.istiod, options.revision, strict=True):
        address = IstiodOptions(url, options.ca, options.timeout)
        release, commit = options.release, options.commit
        try:
            if release is None:
                release, commit = read_version(options.version_url, options.timeout)
            yield Target(address, release, commit, plane_of(folder, release))
        except DataError as error:
            parser.error(str(error))


def plane_of(folder: Path, release: str) -> ControlPlane:
    """Return the control plane of a folder: that of ``revision.yaml``, or of the release. Raises DataError."""
    raw = read_folder(folder.resolve())
    settings = raw.settings
    read_proxy_configs(folder / PROXY_CONFIGS)
    resources = [obj for _, obj in objects_in(read_nonempty(folder / PROXY_CONFIGS) or "", where=str(folder))]
    return ControlPlane(
        settings.get("istioVersion") or format_minor(parse_minor(release)),
        raw.config,
        raw.values or "{}",
        raw.mesh or "{}",
        env={name: str(value) for name, value in settings.get("env", {}).items()},
        nodes={f"node-{number}": version for number, version in enumerate(settings.get("nodeVersions", ()))},
        namespaces=settings.get("namespaces", {}),
        proxy_configs=resources,
        name=settings.get("revision", ""),
    )
