"""The options that choose one revision, by its name or by its files, and the settings that replace its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from injector.cli.keys import CONFIG, FLAGS, VALUES, check_content
from injector.cli.keys import MESH as MESH_KEY
from injector.cli.options import (
    FILE,
    NODE_VERSION,
    both_spellings,
    key_values,
    option_group,
    refuse_unused,
    was_given,
)
from injector.cli.sources import (
    CLUSTER_PARAMETERS,
    ISTIO_NAMESPACE_OPTION,
    directory_source,
    kubeconfig_options,
    revision_option,
    revisions_dir,
    select_revisions,
)
from injector.cluster.resources import CONFIG_MAPS, ObjectReader
from injector.errors import (
    ConfigError,
    DataError,
    OverlayError,
    TemplateRenderError,
    UsageError,
)
from injector.fleet.sources import RevisionList, RevisionSources
from injector.istio.labels import DEFAULT_NAME
from injector.revisions.configmaps import INJECTOR, MESH, named_revision
from injector.revisions.directory import read_single
from injector.revisions.files import read_text, required_text
from injector.revisions.source import Overrides, RawRevision, SourceState, build, overridden

if TYPE_CHECKING:
    from pathlib import Path

    from injector.cluster.kubeconfig import Kubeconfig
    from injector.istio.revision import Revision
F = TypeVar("F", bound="Callable[..., Any]")


@dataclass(frozen=True, slots=True)
class RevisionOptions:
    """The revision to inject, and the settings to change in it."""

    config: Path | None
    values: Path | None
    mesh: Path | None
    revisions_dir: Path | None
    revision: str | None
    istio_version: str | None
    set_env: tuple[str, ...]
    node_version: tuple[str, ...]
    config_map: str
    mesh_map: str
    istio_namespace: str
    kubeconfig: Kubeconfig

    def build(self) -> Revision:
        """Read and build the revision.

        Raises:
            UsageError: the options contradict each other, or the revision does not exist.
            DataError: the revision is not valid.
        """
        with self._select() as (raw, revisions, overrides):
            return build(overridden(raw, overrides)) if revisions is None else revisions.build(raw)

    def read(self) -> RawRevision:
        """Read the texts of the revision; see ``build``."""
        with self._select() as (raw, _, overrides):
            return overridden(raw, overrides)

    @contextmanager
    def values_named(self) -> Iterator[None]:
        """Let the error of a template name the values, if these are probably its cause."""
        try:
            yield
        except DataError as error:
            hint = self._hint_of_values()
            for fault in error.errors:
                if hint and isinstance(fault, TemplateRenderError | OverlayError):
                    fault.hint = hint
            raise

    def _hint_of_values(self) -> str:
        if self.config is None:
            hint = (
                f"the values are those of {self.values}: give {FLAGS[CONFIG]} with the `config` of the same ConfigMap"
            )
            return hint if self.values is not None else ""
        if self.values is None and self.config.is_file() and "Values" in required_text(self.config):
            return f"the templates read values: give {FLAGS[VALUES]} with the `values` of the same ConfigMap"
        return ""

    @contextmanager
    def _select(self) -> Iterator[tuple[RawRevision, RevisionList | None, Overrides]]:
        overrides = self._overrides()
        if self.config is not None:
            yield self._file(self.config), None, overrides
            return
        sources = RevisionSources(self.revisions_dir, self.istio_namespace, overrides)
        if self.mesh is not None:
            refuse_unused("with --meshConfigFile", "mesh_map")
        names_map = was_given("config_map") or was_given("mesh_map")
        if names_map and (was_given("revisions_dir") or was_given("embedded")):
            refuse_unused(f"with {directory_source()}", *CLUSTER_PARAMETERS, hint="leave one of the two out")
        read = self._read_config_maps if names_map else None
        with select_revisions(sources, self.kubeconfig, read) as revisions:
            yield revisions.find(self.revision or ""), revisions, overrides

    async def _read_config_maps(self, reader: ObjectReader, sources: RevisionSources) -> RevisionList:
        """Return the revision of the named ConfigMaps, which need no labels."""
        suffix = "" if self.revision in {None, "", DEFAULT_NAME} else f"-{self.revision}"
        names = {INJECTOR: self.config_map, MESH: self.mesh_map}
        items = {
            kind: await reader.get(
                CONFIG_MAPS, f"{name}{suffix}" if name == kind else name, namespace=sources.istio_namespace
            )
            for kind, name in names.items()
        }
        raw = named_revision(self.revision or DEFAULT_NAME, items, namespace=sources.istio_namespace)
        return RevisionList(SourceState((raw,), default=raw.name), raw.origin, raw.origin)

    def _overrides(self) -> Overrides:
        paths = {key: path for key, path in ((VALUES, self.values), (MESH_KEY, self.mesh)) if path is not None}
        return Overrides(
            istio_version=self.istio_version,
            env=key_values(self.set_env, flag="--set-env"),
            node_versions=self.node_version,
            files={key: str(path) for key, path in paths.items()},
            **{key: _text(path, key) for key, path in paths.items()},
        )

    def _file(self, config: Path) -> RawRevision:
        for name in ("revisions_dir", "embedded"):
            if was_given(name):
                what = f"--{name.replace('_', '-')} and --injectConfigFile exclude each other"
                raise UsageError(what, hint="give one of the two")
        if was_given("mesh_map") and self.mesh is None:
            what = "with --injectConfigFile nothing is read from the cluster"
            raise UsageError(what, where="--meshConfigMapName", hint="give --meshConfigFile FILE instead")
        refuse_unused("with --injectConfigFile, which needs no cluster", *CLUSTER_PARAMETERS)
        # As in istioctl, the revision has no name without --revision. Templates of 1.9 and later then write `default`.
        settings = {"revision": ""} if self.revision is None else {}
        name = DEFAULT_NAME if self.revision is None else self.revision
        return read_single(config, name=name, settings=settings, read=partial(_text, key=CONFIG)).revisions[0]


def _text(path: Path, key: str) -> str:
    """Return the text of a file with a key, which is read once because it may be a pipe. Raises ConfigError if it is something else."""
    text = required_text(path, partial(read_text, pipes=True))
    check_content(text, key, where=str(path))
    if key == CONFIG and not text.strip():
        raise ConfigError("is empty", where=str(path), hint=f"write the key `{CONFIG}` to it")
    return text


revision_options: Final = option_group(
    "revision_source",
    RevisionOptions,
    click.option(
        *both_spellings("injectConfigFile"),
        "config",
        type=FILE,
        help="File with the key `config` of ConfigMap istio-sidecar-injector.",
    ),
    click.option(
        *both_spellings("valuesFile"), "values", type=FILE, help="File with the key `values` of the same ConfigMap."
    ),
    click.option(
        *both_spellings("meshConfigFile"), "mesh", type=FILE, help="File with the key `mesh` of ConfigMap istio."
    ),
    revisions_dir("the revisions in the cluster"),
    revision_option("Revision or tag. With --injectConfigFile, the name of the revision."),
    click.option(
        "--istio-version",
        metavar="VERSION",
        help="Istio version of the configuration, such as 1.24. Default: inferred from the configuration.",
    ),
    click.option(
        "--set-env",
        multiple=True,
        metavar="NAME=VALUE",
        help="Environment variable of istiod, such as ENABLE_NATIVE_SIDECARS=auto. Repeatable.",
    ),
    NODE_VERSION,
    ISTIO_NAMESPACE_OPTION,
    kubeconfig_options,
    click.option(
        *both_spellings("injectConfigMapName"),
        "config_map",
        metavar="NAME",
        default=INJECTOR,
        show_default=True,
        help="ConfigMap in the cluster with the keys `config` and `values`. The default name ends in -REVISION with --revision.",
    ),
    click.option(
        *both_spellings("meshConfigMapName"),
        "mesh_map",
        metavar="NAME",
        default=MESH,
        show_default=True,
        help="ConfigMap in the cluster with the key `mesh`. The default name ends in -REVISION with --revision.",
    ),
    # istioctl asks the webhook of this configuration. The ConfigMaps give the same pods.
    click.option(*both_spellings("webhookConfig"), metavar="NAME", hidden=True, expose_value=False),
)
