"""ProxyConfig resources (networking.istio.io/v1beta1): how they are read, and which of them apply to a pod.

Follows ``ProxyConfigs`` and ``toMeshConfigProxyConfig`` in pilot/pkg/model/proxy_config.go, and ``sortConfigByCreationTime`` in
pilot/pkg/model/config.go (1.30.3). Istio 1.13 was the first release that reads them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from injector.errors import ConfigError
from injector.istio.behaviours import DEVELOPMENT
from injector.istio.frozen import frozen, thawed
from injector.istio.proto import parse_message, proxy_config_type

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from injector.istio.behaviours import Behaviours

GROUP: Final = "networking.istio.io"
KIND: Final = "ProxyConfig"
_FIELDS: Final = {"concurrency": "concurrency", "environmentVariables": "proxyMetadata", "image": "image"}
"""The fields of a resource, and their names in the ProxyConfig of a mesh config."""
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)


@dataclass(frozen=True, slots=True)
class ProxyConfigResource:
    """One resource.

    Attributes:
        namespace: its namespace.
        name: its name.
        created: the time of its creation as Kubernetes writes it, empty if it has none.
        selector: the labels that a pod must have; None if the resource is for the whole namespace.
        fields: its fields as JSON data, by their names in the ProxyConfig of a mesh config.
    """

    namespace: str
    name: str
    created: str
    selector: Mapping[str, str] | None
    fields: Mapping[str, Any]

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"

    def selects(self, labels: Mapping[str, str]) -> bool:
        """Return whether the resource is for some pods of its namespace, and one with these labels is among them."""
        return bool(self.selector) and (self.selector or {}).items() <= labels.items()

    def fault(self) -> str:
        """Return why Istio's validating webhook refuses the resource, empty if it does not."""
        if "*" in "".join(chain.from_iterable((self.selector or {}).items())):
            return "wildcards are not allowed in a selector"
        if "" in (self.selector or {}):
            return "a label in the selector has no name"
        negative = str(self.fields.get("concurrency", "")).startswith("-")
        return "concurrency must be greater than or equal to 0" if negative else ""

    def proxy_config(self, behaviours: Behaviours) -> dict[str, Any]:
        """Return the ProxyConfig that the minor makes of the resource, as JSON data."""
        known = thawed(self.fields)
        if not behaviours.proxy_config_image:
            known.pop("image", None)
        return dict(known)


def read_proxy_config_resource(item: Mapping[str, Any], *, where: str = "") -> ProxyConfigResource:
    """Read a resource as the API server or a file has it.

    Raises:
        ConfigError: it has no name or namespace, or a field has the wrong type.
    """
    metadata, spec = (item.get(key) or {} for key in ("metadata", "spec"))
    if not isinstance(metadata, dict) or not isinstance(spec, dict):
        raise ConfigError("`metadata` or `spec` is not a mapping", where=where, hint="write it as kubectl prints it")
    namespace, name, created = (metadata.get(key) or "" for key in ("namespace", "name", "creationTimestamp"))
    if not all(isinstance(each, str) and each for each in (namespace, name)):
        hint = "write `metadata: {namespace: NAMESPACE, name: NAME}`"
        raise ConfigError("a ProxyConfig without a namespace or a name", where=where, hint=hint)
    place = f"{where}: ProxyConfig {namespace}/{name}".removeprefix(": ")
    if not isinstance(created, str) or (created and not _TIME.fullmatch(created)):
        raise ConfigError("`metadata.creationTimestamp` is not a time", where=place, hint="write 2026-01-31T12:00:00Z")
    fields = {theirs: spec[own] for own, theirs in _FIELDS.items() if spec.get(own) is not None}
    try:
        parse_message(proxy_config_type(DEVELOPMENT), fields, where=place)
    except ConfigError as error:
        error.what = error.what.replace("`proxyMetadata", "`environmentVariables", 1)
        raise
    return ProxyConfigResource(namespace, name, created, _selector(spec.get("selector"), place), frozen(fields))


def _selector(selector: Any, where: str) -> Mapping[str, str] | None:
    if selector is None:
        return None
    labels = (selector.get("matchLabels") or {}) if isinstance(selector, dict) else None
    if not isinstance(labels, dict) or not all(isinstance(each, str) for each in labels.values()):
        hint = "write `selector: {matchLabels: {NAME: VALUE}}`"
        raise ConfigError("`selector.matchLabels` is not a mapping of texts", where=where, hint=hint)
    found: Mapping[str, str] = frozen(labels)
    return found


@dataclass(frozen=True, slots=True)
class Applying:
    """The resources that apply to a pod: ``below`` its annotation ``proxy.istio.io/config``, the last one on top, and ``above`` it."""

    below: tuple[ProxyConfigResource, ...] = ()
    above: tuple[ProxyConfigResource, ...] = ()


@dataclass(frozen=True, slots=True)
class ProxyConfigs:
    """The resources of a cluster, by namespace."""

    by_namespace: Mapping[str, tuple[ProxyConfigResource, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, resources: Iterable[ProxyConfigResource]) -> ProxyConfigs:
        """Return the collection of these resources."""
        found: dict[str, list[ProxyConfigResource]] = {}
        for each in sorted(resources, key=str):
            found.setdefault(each.namespace, []).append(each)
        return cls(frozen({namespace: tuple(each) for namespace, each in found.items()}))

    def over(self, others: ProxyConfigs) -> ProxyConfigs:
        """Return the resources of both; these take the place of those of the same name."""
        if not self.by_namespace:
            return others
        both = (each for some in (others, self) for each in chain.from_iterable(some.by_namespace.values()))
        return ProxyConfigs.of({str(each): each for each in both}.values())

    def applying(self, root: str, namespace: str, labels: Mapping[str, str], behaviours: Behaviours) -> Applying:
        """Return the resources that apply to a pod in ``namespace``; ``root`` is the root namespace of its mesh.

        They are that of the root namespace, then that of its own namespace, then that whose selector the pod matches. The oldest one of
        each kind applies.
        """
        if not behaviours.proxy_config_merge or not self.by_namespace:
            return _NONE

        def first(place: str, matches: Callable[[ProxyConfigResource], bool]) -> tuple[ProxyConfigResource, ...]:
            return tuple(sorted(filter(matches, self.by_namespace.get(place, ())), key=order)[:1])

        def order(each: ProxyConfigResource) -> tuple[str, str]:
            return each.created, f"{each.name}.{each.namespace}" if behaviours.proxy_configs_by_full_name else each.name

        def is_for_all(each: ProxyConfigResource) -> bool:
            return each.selector is None

        below = tuple(found for place in dict.fromkeys((root, namespace)) for found in first(place, is_for_all))
        return Applying(below, first(namespace, lambda each: each.selects(labels)))


_NONE: Final = Applying()
