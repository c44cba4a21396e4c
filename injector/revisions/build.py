"""Build a Revision from its texts, with overrides from the command line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from injector.errors import DataError, InjectorError
from injector.istio.behaviours import Minor, parse_minor
from injector.istio.config import InjectConfig, Values, newer_istio, parse_inject_config, parse_values, tagged_minor
from injector.istio.frozen import frozen
from injector.istio.revision import Revision, RevisionSettings, build_revision, stated_or_inferred_minor

if TYPE_CHECKING:
    from injector.revisions.source import RawRevision


@dataclass(frozen=True, slots=True)
class Overrides:
    """Values from the command line that replace those of a revision, or extend ``env``; None and empty change nothing.

    ``files`` are the places of ``values`` and ``mesh``, for messages.
    """

    istio_version: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    node_versions: tuple[str, ...] = ()
    values: str | None = None
    mesh: str | None = None
    files: Mapping[str, str] = field(default_factory=dict)

    def settings(self, own: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings of a revision with the overrides."""
        env = own.get("env") or {}
        stated = {
            "istioVersion": self.istio_version,
            "env": {**env, **self.env} if self.env and isinstance(env, dict) else None,
            "nodeVersions": list(self.node_versions) or None,
        }
        return {**own, **{key: value for key, value in stated.items() if value is not None}}


def build(raw: RawRevision) -> Revision:
    """Parse, check and compile a revision.

    Raises:
        DataError: one of its texts is invalid; ``where`` names it.
    """
    try:
        settings = _settings(raw)
        built = build_revision(
            raw.name, config=raw.config, values=raw.values, mesh=raw.mesh, settings=settings, origin=raw.origin
        )
    except DataError as error:
        error.where = _place(error.where, raw)
        error.hint = error.hint or "correct it"
        raise
    return with_facts(built, raw)


@dataclass(frozen=True, slots=True)
class Texts:
    """The parsed texts of a revision whose templates are not compiled: they may have mistakes."""

    config: InjectConfig
    values: Values
    minor: Minor
    engine: str


def parse_texts(raw: RawRevision) -> Texts:
    """Parse the texts of a revision, but for its templates and its mesh config.

    Raises:
        DataError: one of its texts is invalid; ``where`` names it.
    """
    try:
        settings = _settings(raw)
        config = parse_inject_config(raw.config, where=f"{raw.origin}: config")
        values = parse_values(raw.values, where=f"{raw.origin}: values")
        minor, _ = stated_or_inferred_minor(settings, config, values, raw.origin)
    except DataError as error:
        error.where = _place(error.where, raw)
        raise
    return Texts(config, values, minor, settings.engine)


def known_minor(raw: RawRevision) -> Minor | None:
    """Return the minor that a revision's settings or image tag name, without compiling it; None if it is not known."""
    try:
        stated = _settings(raw).istio_version
        return tagged_minor(parse_values(raw.values, where=raw.origin)) if stated is None else parse_minor(stated)
    except DataError:
        return None  # building the revision reports it


def explain_newer(error: InjectorError, raw: RawRevision) -> None:
    """Let an error of a revision say, as its hint, if the revision's Istio is newer than any supported one."""
    try:
        newer = newer_istio(parse_values(raw.values))
    except DataError:
        return  # the error itself
    error.hint = newer or error.hint


def with_facts(revision: Revision, raw: RawRevision) -> Revision:
    """Return ``revision`` with the facts of ``raw``, which otherwise has the texts that it was built from.

    A change of nodes, namespaces or ProxyConfigs thus does not compile the templates again.
    """
    settings = _settings(raw)
    namespaces = raw.facts.namespaces
    return replace(
        revision,
        node_versions=settings.node_versions or raw.facts.node_versions,
        versions_by_node={} if settings.node_versions else raw.facts.versions_by_node,
        namespaces=frozen({**namespaces, **settings.namespaces} if settings.namespaces else namespaces),
        proxy_configs=raw.facts.proxy_configs,
    )


def _settings(raw: RawRevision) -> RevisionSettings:
    return RevisionSettings.from_mapping(raw.settings, where=f"{raw.origin}: revision.yaml")


def _place(where: str, raw: RawRevision) -> str:
    """Return the place of an error: below the origin, or in the file that a text was read from."""
    for key, file in raw.files.items():
        if where == f"{raw.origin}: {key}" or where.startswith(f"{raw.origin}: {key}:"):
            return file + where.removeprefix(f"{raw.origin}: {key}")
    if where.startswith(raw.origin):
        return where
    return f"{raw.origin}: config: {where}".removesuffix(": ")


def overridden(raw: RawRevision, overrides: Overrides) -> RawRevision:
    """Return ``raw`` with the overrides."""
    return replace(
        raw,
        settings=overrides.settings(raw.settings),
        values=raw.values if overrides.values is None else overrides.values,
        mesh=raw.mesh if overrides.mesh is None else overrides.mesh,
        files={**raw.files, **overrides.files},
    )
