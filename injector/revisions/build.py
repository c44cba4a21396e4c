"""From a revision's texts to a Revision, and what flags may say over them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from injector.errors import DataError
from injector.istio.frozen import frozen
from injector.istio.revision import Revision, RevisionSettings, build_revision

if TYPE_CHECKING:
    from collections.abc import Mapping

    from injector.revisions.source import RawRevision


@dataclass(frozen=True, slots=True)
class Overrides:
    """What a command line says over a revision's own files; None and empty say nothing.

    ``files`` names where ``values`` and ``mesh`` were read, for messages.
    """

    istio_version: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    node_versions: tuple[str, ...] = ()
    values: str | None = None
    mesh: str | None = None
    files: Mapping[str, str] = field(default_factory=dict)


def build(raw: RawRevision) -> Revision:
    """Parse, check and compile a revision.

    Raises:
        DataError: one of its texts cannot be used; ``where`` names it.
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


def with_facts(revision: Revision, raw: RawRevision) -> Revision:
    """Return ``revision``, which was built of ``raw`` or of what differs in nothing but facts, with the facts of ``raw``.

    Nodes and namespaces come and go while texts stay: that must not compile a template again.
    """
    settings = _settings(raw)
    return replace(
        revision,
        node_versions=settings.node_versions or raw.facts.node_versions,
        namespaces=frozen({**raw.facts.namespaces, **settings.namespaces}),
    )


def _settings(raw: RawRevision) -> RevisionSettings:
    return RevisionSettings.from_mapping(raw.settings, where=f"{raw.origin}: revision.yaml")


def _place(where: str, raw: RawRevision) -> str:
    """Return where an error is as a user finds it: below the origin, or in the file that a text was read from."""
    for key, file in raw.files.items():
        if where == f"{raw.origin}: {key}" or where.startswith(f"{raw.origin}: {key}:"):
            return file + where.removeprefix(f"{raw.origin}: {key}")
    if where.startswith(raw.origin):
        return where
    return f"{raw.origin}: config: {where}".removesuffix(": ")


def overridden(raw: RawRevision, overrides: Overrides) -> RawRevision:
    """Return ``raw`` with the overrides in place of, and over, its own settings and texts."""
    settings = dict(raw.settings)
    if overrides.istio_version is not None:
        settings["istioVersion"] = overrides.istio_version
    own = settings.get("env") or {}
    if overrides.env and isinstance(own, dict):
        settings["env"] = {**own, **overrides.env}
    if overrides.node_versions:
        settings["nodeVersions"] = list(overrides.node_versions)
    return replace(
        raw,
        settings=settings,
        values=raw.values if overrides.values is None else overrides.values,
        mesh=raw.mesh if overrides.mesh is None else overrides.mesh,
        files={**raw.files, **overrides.files},
    )
