"""A revision: everything that injects the sidecars of one control plane, compiled and frozen.

The configuration flow builds it (``revisions/source.py``). The request flow uses a reference to it, without a lock.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from injector.errors import ConfigError
from injector.istio.behaviours import Behaviours, Minor, behaviours_of, format_minor, parse_minor
from injector.istio.config import InjectConfig, Values, infer_minor, parse_inject_config, parse_values, variable_text
from injector.istio.frozen import frozen
from injector.istio.mesh import MeshFacts, mesh_facts, parse_mesh_config
from injector.istio.proxyconfig import Applying, ProxyConfigs
from injector.istio.template import Template, compile_go_templates

if TYPE_CHECKING:
    from collections.abc import Mapping


_LABELS: Final = r"[0-9A-Za-z~-]*(?:\.[0-9A-Za-z~-]+)*"
_VERSION: Final = re.compile(
    rf"v?([0-9]+(?:\.[0-9]+)*)(?:(?:-[0-9]|-?[A-Za-z~-]){_LABELS})?(?:\+[0-9A-Za-z~-]{_LABELS})?"
)
_INT64: Final = 2**63
_LONGEST_NUMBER: Final = 20
"""More digits than an int64 has; Python refuses to read thousands."""


def kubelet_minor(version: str) -> int | None:
    """Return the minor of a kubelet's version as Istio reads it, 0 if it has none; None if Istio cannot read the version.

    Follows ``NewVersion`` in github.com/hashicorp/go-version (v1.9.0). For example, ``v1.33+`` and ``v1.33.x`` are not versions.
    """
    match = _VERSION.fullmatch(version)
    parts = match[1].split(".") if match is not None else []
    numbers = [int(part.lstrip("0")[:_LONGEST_NUMBER] or "0") for part in parts]
    if not numbers or max(numbers) >= _INT64:
        return None
    return numbers[1] if len(numbers) > 1 else 0


@dataclass(frozen=True, slots=True)
class RevisionSettings:
    """The settings of a revision in ``revision.yaml`` or in flags; None and empty values are not set."""

    istio_version: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    engine: str = "go"
    revision: str | None = None
    node_versions: tuple[str, ...] | None = None
    namespaces: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any], *, where: str = "revision.yaml") -> RevisionSettings:
        """Read the keys of ``revision.yaml``. Raises ConfigError for an unknown key, or one of the wrong type."""
        unknown = sorted(set(mapping) - set(_SETTING_TYPES))
        if unknown:
            known = ", ".join(_SETTING_TYPES)
            raise ConfigError(f"unknown key `{unknown[0]}`", where=where, hint=f"known are {known}")
        for key, value in mapping.items():
            wanted, text = _SETTING_TYPES[key]
            if value is not None and not isinstance(value, wanted):
                raise ConfigError(f"`{key}` has the wrong type", where=where, hint=f"make it {text}")
        namespaces, nodes = mapping.get("namespaces") or {}, mapping.get("nodeVersions")
        if not all(isinstance(item, dict | None) for item in namespaces.values()):
            raise ConfigError("`namespaces` has the wrong type", where=where, hint=f"make it {_NAMESPACES}")
        return cls(
            istio_version=_version_text(mapping.get("istioVersion"), where),
            env={str(name): _env_text(name, value, where) for name, value in (mapping.get("env") or {}).items()},
            engine=_engine(mapping.get("engine") or "go", where),
            revision=mapping.get("revision"),
            node_versions=None if nodes is None else tuple(_node_version(str(item), where) for item in nodes),
            namespaces={str(name): item or {} for name, item in namespaces.items()},
        )


_NAMESPACES: Final = "a mapping of names to {labels, annotations}"
_SETTING_TYPES: Final[dict[str, tuple[type | tuple[type, ...], str]]] = {
    "istioVersion": ((str, float), 'a string such as "1.24"'),
    "env": (dict, "a mapping of names to values"),
    "engine": (str, "`go` or `jinja2`"),
    "revision": (str, "a string"),
    "nodeVersions": (list, "a list such as [v1.33.0]"),
    "namespaces": (dict, _NAMESPACES),
}


def _version_text(value: str | float | None, where: str) -> str | None:
    """Return a version as text; a number with one decimal is refused, since YAML reads 1.30 as 1.3."""
    if isinstance(value, float) and len(str(value).partition(".")[2]) == 1:
        raise ConfigError(
            f"`istioVersion` is the number {value}", where=where, hint=f'quote it: "{value}" or "{value}0"'
        )
    return None if value is None else str(value)


def _env_text(name: Any, value: Any, where: str) -> str:
    if not isinstance(value, str | bool | int | float):
        raise ConfigError(f"`env.{name}` has the wrong type", where=where, hint="make it a string")
    return variable_text(value)


def _node_version(version: str, where: str) -> str:
    if "." in version and kubelet_minor(version) is not None:
        return version
    what = f"`nodeVersions`: {version[:80]!r} is not the version of a kubelet"
    raise ConfigError(what, where=where, hint="write it as v1.33.0")


def _engine(name: str, where: str) -> str:
    if name not in ("go", "jinja2"):
        raise ConfigError(f"`engine` is {name!r}", where=where, hint="make it `go` or `jinja2`")
    return name


@dataclass(frozen=True, slots=True)
class Revision:
    """The injection of one control plane, compiled and deeply immutable.

    ``written`` is the name that goes into pods. ``hermetic`` is True if no template reads a clock, the environment or random numbers.
    ``shared_values`` are the values of templates that cannot change them, None if a template can.
    ``functions_called`` are the Go functions that templates call. ``node_versions`` are those of the cluster's kubelets, None if they are
    not known. ``versions_by_node`` is empty if all nodes have the same version.
    ``proxy_configs`` are the ProxyConfig resources of the cluster.
    """

    name: str
    written: str
    origin: str
    minor: Minor
    version_reason: str
    engine: str
    env: Mapping[str, str]
    node_versions: tuple[str, ...] | None
    namespaces: Mapping[str, Mapping[str, Any]]
    config: InjectConfig
    values: Values
    mesh: MeshFacts
    behaviours: Behaviours
    templates: Mapping[str, Template]
    fingerprint: str
    hermetic: bool
    functions_called: frozenset[str]
    shared_values: dict[str, Any] | None = field(repr=False)
    versions_by_node: Mapping[str, str] = field(default_factory=dict)
    proxy_configs: ProxyConfigs = field(default=ProxyConfigs(), repr=False)

    @property
    def istio_version(self) -> str:
        """The Istio minor, as ``1.24``."""
        return format_minor(self.minor)

    @property
    def template_values(self) -> dict[str, Any]:
        """The values for one rendering: a copy if a template can change them."""
        return self.values.tree if self.shared_values is None else self.shared_values

    @property
    def openshift(self) -> bool:
        """Whether the platform is OpenShift, as istiod's variable ``PLATFORM`` says."""
        return self.env.get("PLATFORM", "") == "openshift"

    @property
    def native_sidecars(self) -> str:
        """The feature variable ENABLE_NATIVE_SIDECARS, or the default of the minor."""
        return self.env.get("ENABLE_NATIVE_SIDECARS", self.behaviours.native_sidecars)

    def proxy_configs_of(self, metadata: Mapping[str, Any]) -> Applying:
        """Return the ProxyConfig resources that apply to a pod with this metadata."""
        root, namespace = self.mesh.root_namespace, metadata.get("namespace", "")
        return self.proxy_configs.applying(root, namespace, metadata.get("labels") or {}, self.behaviours)

    @property
    def asks_nodes(self) -> bool:
        """Whether the injection depends on the versions of the cluster's nodes."""
        return self.behaviours.native_sidecar_nodes and self.native_sidecars == "auto"


def build_revision(  # noqa: PLR0913 -- the texts of a revision
    name: str,
    *,
    config: str,
    values: str | None,
    mesh: str | None,
    settings: RevisionSettings,
    origin: str,
    shared_mesh: str | None = None,
) -> Revision:
    """Build one revision from the texts of Istio's ConfigMap keys. ``shared_mesh`` is the mesh config below ``mesh``.

    Raises ConfigError, or TemplateRenderError if a template does not parse.
    """
    parsed = parse_inject_config(config, where=f"{origin}: config")
    tree = parse_values(values, where=f"{origin}: values")
    minor, reason = stated_or_inferred_minor(settings, parsed, tree, origin)
    templates = _compile(parsed, settings, minor)
    return Revision(
        name=name,
        written=name if settings.revision is None else settings.revision,
        origin=origin,
        minor=minor,
        version_reason=reason,
        engine=settings.engine,
        env=MappingProxyType(dict(settings.env)),
        node_versions=settings.node_versions,
        namespaces=frozen(dict(settings.namespaces)),
        config=parsed,
        values=tree,
        mesh=mesh_facts(parse_mesh_config(mesh, minor, where=f"{origin}: mesh", shared=shared_mesh)),
        behaviours=behaviours_of(minor),
        templates=templates,
        fingerprint=_fingerprint(config, values, mesh, shared_mesh, settings),
        hermetic=all(template.hermetic for template in templates.values()),
        functions_called=frozenset().union(*(template.called for template in templates.values())),
        shared_values=tree.tree if all(template.is_pure for template in templates.values()) else None,
    )


def stated_or_inferred_minor(
    settings: RevisionSettings, config: InjectConfig, tree: Values, origin: str
) -> tuple[Minor, str]:
    """Return the minor of a revision and the reason: the setting ``istioVersion``, or what its texts say.

    Raises ConfigError if the setting is not a supported version.
    """
    if settings.istio_version is not None:
        return parse_minor(settings.istio_version, where=f"{origin}: istioVersion"), "stated"
    return infer_minor(config, tree)


def _compile(config: InjectConfig, settings: RevisionSettings, minor: Minor) -> Mapping[str, Template]:
    if settings.engine == "jinja2":
        # Jinja2 takes longer to load than a whole injection, and Istio's own revisions do not need it.
        from injector.istio.jinja.engine import compile_jinja_templates  # noqa: PLC0415

        return compile_jinja_templates(config.templates, minor)
    return compile_go_templates(config.templates, config.delimiters, minor, settings.env)


def _fingerprint(
    config: str, values: str | None, mesh: str | None, shared_mesh: str | None, settings: RevisionSettings
) -> str:
    digest = hashlib.sha256()
    shared = () if shared_mesh is None else (shared_mesh,)
    for part in (config, values, mesh, *shared, repr(settings)):
        digest.update(b"\0" if part is None else part.encode() + b"\1")
    return digest.hexdigest()[:12]
