"""The configuration as a source has it: the texts of revisions, as in Istio's ConfigMaps, and the tags; and how a revision is built."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from injector.errors import ConfigError, DataError, InjectorError
from injector.istio.behaviours import Minor, parse_minor
from injector.istio.config import InjectConfig, Values, newer_istio, parse_inject_config, parse_values, tagged_minor
from injector.istio.frozen import frozen
from injector.istio.labels import DEFAULT_NAME, NAMESPACE
from injector.istio.mesh import parse_mesh_config
from injector.istio.proxyconfig import ProxyConfigs
from injector.istio.revision import Revision, RevisionSettings, build_revision, stated_or_inferred_minor
from injector.kube.yaml import load_yaml
from injector.revisions.registry import ResolvedName, default_name, resolve_name
from injector.revisions.tags import served_tags, usable_tags

if TYPE_CHECKING:
    from injector.istio.webhooks.configurations import WebhookOptions
    from injector.revisions.tags import Tag, TagWorkload

SETTINGS_KEY: Final = "revision.yaml"
"""The file in a revision's folder, and the key of its ConfigMap, with the settings that Istio does not have."""


SHARED_MESH_CONFIG: Final = "SHARED_MESH_CONFIG"
"""The variable of istiod that names a ConfigMap whose key ``mesh`` is merged below the mesh config (pilot/pkg/bootstrap/mesh.go)."""


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """Facts about a cluster; ``revision.yaml`` of a revision takes precedence.

    ``node_versions`` is None if the nodes are not known. ``versions_by_node`` has the versions by node; it is empty if all nodes have the
    same version. ``proxy_configs`` are the ProxyConfig resources.
    """

    node_versions: tuple[str, ...] | None = None
    namespaces: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    versions_by_node: Mapping[str, str] = field(default_factory=dict)
    proxy_configs: ProxyConfigs = field(default=ProxyConfigs(), repr=False)

    @classmethod
    def of(
        cls, nodes: Mapping[str, str] | None, namespaces: Mapping[str, Mapping[str, Any]], proxy_configs: ProxyConfigs
    ) -> ClusterFacts:
        """Return the facts about these nodes, by name, namespaces and ProxyConfig resources."""
        if nodes is None:
            return cls(None, namespaces, {}, proxy_configs)
        versions = tuple(sorted(set(nodes.values())))
        return cls(versions, namespaces, dict(nodes) if len(versions) > 1 else {}, proxy_configs)


@dataclass(frozen=True, slots=True)
class RawRevision:
    """One revision as text.

    Args:
        config: the key ``config`` of ConfigMap istio-sidecar-injector.
        values: its key ``values``.
        mesh: the key ``mesh`` of ConfigMap istio.
        settings: the content of ``revision.yaml``.
        origin: where it was read, for messages.
        files: the place of each key that is not below ``origin``, for messages.
        namespace: the namespace of its ConfigMaps; empty for files.
        shared_mesh: the key ``mesh`` of the ConfigMap that istiod's ``SHARED_MESH_CONFIG`` names, below ``mesh``.
    """

    name: str
    config: str
    values: str | None
    mesh: str | None
    settings: Mapping[str, Any]
    origin: str
    files: Mapping[str, str] = field(default_factory=dict)
    # Not in the repr: these can be thousands of namespaces.
    facts: ClusterFacts = field(default=ClusterFacts(), repr=False)
    namespace: str = ""
    shared_mesh: str | None = None


def parse_settings(text: str | None, *, where: str) -> dict[str, Any]:
    """Return the content of a ``revision.yaml``; empty if ``text`` is None. Raises DataError if it is not YAML, or not a mapping."""
    raw = None if text is None else load_yaml(text, where=where, strict=True)
    if raw is None:
        return {}
    if not isinstance(raw, dict):
        raise ConfigError("not a mapping", where=where, hint='write lines such as `istioVersion: "1.24"`')
    return raw


@dataclass(frozen=True)
class SourceState:
    """The content of a source at one moment.

    Args:
        revisions: the revisions that can be read.
        failures: the errors of the others, by name.
        tags_error: why the tags cannot be read; ``tags`` is empty then.
        default: the default revision that the source states; see ``registry.default_name``.
        notes: notes about readable revisions, by name.
        tag_faults: errors of tags, by name. A tag that is not in ``tags`` keeps its last state.
        facts: facts about the cluster, if the source is one.
        webhook_faults: the faults of the cluster's webhooks, one line each.
    """

    revisions: tuple[RawRevision, ...]
    failures: Mapping[str, DataError] = field(default_factory=dict)
    tags: Mapping[str, Tag] = field(default_factory=dict)
    tags_error: DataError | None = None
    default: str | None = None
    notes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    tag_faults: Mapping[str, DataError] = field(default_factory=dict)
    facts: ClusterFacts = ClusterFacts()
    webhook_faults: tuple[str, ...] = ()

    @cached_property
    def names(self) -> frozenset[str]:
        """The names of all revisions, readable or not."""
        return frozenset((*self._readable, *self.failures))

    @cached_property
    def _readable(self) -> Mapping[str, RawRevision]:
        return {raw.name: raw for raw in self.revisions}

    @cached_property
    def served_tags(self) -> Mapping[str, Tag]:
        """The tags as a new replica serves them; see ``tags.served_tags``."""
        return served_tags(self.tags, self.names)

    def fault_of_tag(self, name: str) -> DataError | None:
        """Return why a tag cannot be served as it is written; None if it can, or if there is no such tag."""
        written = {name: self.tags[name]} if name in self.tags else {}
        usable, faults = usable_tags(written, self.names)
        return None if name in usable else next(iter(faults), None)

    @cached_property
    def default_name(self) -> str | None:
        """The name for requests without one; None without a default."""
        return default_name(self.names, self.served_tags, stated=self.default)

    @property
    def served_names(self) -> frozenset[str]:
        """The revisions and tags, and ``default`` if any revision is the default, as Istio's webhooks exist for it then."""
        return self.names | self.tags.keys() | ({DEFAULT_NAME} if self.default_name else frozenset())

    def webhook_options(self, options: WebhookOptions) -> dict[str, WebhookOptions]:
        """Return the options of the webhooks that Istio would have for each served name: those of the values of its revision."""
        return {name: self._options_of(name, options) for name in self.served_names}

    def _options_of(self, name: str, options: WebhookOptions) -> WebhookOptions:
        named = name if name in self.names | self.tags.keys() else self.default_name or ""
        tag = self.tags.get(named)
        raw = self._readable.get(named if tag is None else tag.revision)
        return options if raw is None else options_of_values(raw, options)

    def targets(self, name: str) -> tuple[str, ...]:
        """Return the revisions that a tag leads to; empty for another name."""
        tag = self.tags.get(name)
        return () if tag is None else tuple(tag.targets)

    def resolve(self, name: str, workload: Callable[[], TagWorkload] | None = None) -> ResolvedName:
        """Return the revision that ``name`` leads to, as a new replica would resolve it; see ``resolve_name``."""
        return resolve_name(name, self.names, self.served_tags, default=self.default_name, workload=workload)

    def revision(self, name: str) -> RawRevision:
        """Return the revision with this name, which is one of ``names``. Raises DataError if it cannot be read."""
        if name in self.failures:
            raise self.failures[name]
        return self._readable[name]

    @property
    def content(self) -> tuple[object, ...]:
        """The state to compare with another: errors count by their texts."""
        return (
            self.revisions,
            _texts(self.failures),
            self.tags,
            self.tags_error and str(self.tags_error),
            self.default,
            self.notes,
            _texts(self.tag_faults),
            self.facts,
            self.webhook_faults,
        )


def _texts(errors: Mapping[str, DataError]) -> dict[str, str]:
    return {name: str(error) for name, error in errors.items()}


ReadSource: TypeAlias = Callable[[], SourceState]
"""Returns the current content of a source; raises ConfigError if it cannot be read at all."""


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
    """Parse, check and compile a revision. Raises DataError if one of its texts is invalid; ``where`` names it.

    The variables of istiod that ``revision.yaml`` leaves out are those of the values: the same for a folder as for a cluster.
    """
    try:
        stated, values = _stated_settings(raw), parse_values(raw.values, where=f"{raw.origin}: values")
        settings = replace(stated, env={**values.environment, **stated.env})
        built = build_revision(
            raw.name,
            config=raw.config,
            values=raw.values,
            mesh=raw.mesh,
            settings=settings,
            origin=raw.origin,
            shared_mesh=raw.shared_mesh,
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
    """Parse the texts of a revision, without its templates and mesh config. Raises DataError, which names it, if one is invalid."""
    try:
        settings = _stated_settings(raw)
        config = parse_inject_config(raw.config, where=f"{raw.origin}: config")
        values = parse_values(raw.values, where=f"{raw.origin}: values")
        minor, _ = stated_or_inferred_minor(settings, config, values, raw.origin)
    except DataError as error:
        error.where = _place(error.where, raw)
        raise
    return Texts(config, values, minor, settings.engine)


def shared_mesh_name(raw: RawRevision) -> str:
    """Return the name of the ConfigMap with the shared mesh config of a revision; empty without one."""
    own = raw.settings.get("env")
    if isinstance(own, dict) and SHARED_MESH_CONFIG in own:
        return str(own[SHARED_MESH_CONFIG])
    try:
        return parse_values(raw.values, where=raw.origin).environment.get(SHARED_MESH_CONFIG, "")
    except DataError:
        return ""  # building the revision reports it


def shared_mesh_notes(raw: RawRevision, revision: Revision) -> tuple[str, ...]:
    """Return a note if the shared mesh config is not valid, and thus ignored."""
    try:
        parse_mesh_config(raw.shared_mesh, revision.minor, where="the shared mesh config")
    except DataError as error:
        return (f"ignoring the shared mesh config, as istiod does: {error}",)
    return ()


def options_of_values(raw: RawRevision, options: WebhookOptions) -> WebhookOptions:
    """Return the options of the webhooks of a revision: those of the chart with its values, unless ``options`` say more."""
    try:
        values = parse_values(raw.values, where=raw.origin)
    except DataError:
        return options  # building the revision reports it
    precedence = values.precedence if options.precedence == NAMESPACE else options.precedence
    return replace(options, auto_inject=options.auto_inject or values.auto_inject, precedence=precedence)


def known_minor(raw: RawRevision) -> Minor | None:
    """Return the minor that a revision's settings or image tag name, without compiling it; None if it is not known."""
    try:
        stated = _stated_settings(raw).istio_version
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
    settings = _stated_settings(raw)
    namespaces = raw.facts.namespaces
    return replace(
        revision,
        node_versions=raw.facts.node_versions if settings.node_versions is None else settings.node_versions,
        versions_by_node=raw.facts.versions_by_node if settings.node_versions is None else {},
        namespaces=frozen({**namespaces, **settings.namespaces} if settings.namespaces else namespaces),
        proxy_configs=raw.facts.proxy_configs,
    )


def _stated_settings(raw: RawRevision) -> RevisionSettings:
    return RevisionSettings.from_mapping(raw.settings, where=f"{raw.origin}: {SETTINGS_KEY}")


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
