"""Helm values: the key ``values`` of ConfigMap ``istio-sidecar-injector``.

Templates see them as Go's ``map[string]interface {}`` decoded from JSON, so every number is a float64. The injector itself reads a
few typed fields, as Istio does from opconfig.Values (pkg/kube/inject/webhook.go ``NewValuesConfig``, 1.30.3).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from injector.errors import ConfigError
from injector.gotemplate.fmt import sprint
from injector.kube.serial import dump_json, load_json
from injector.kube.yaml import load_yaml

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Values:
    """Helm values: as JSON, and the fields that the injector reads itself."""

    json: bytes
    hub: str
    tag: str
    variant: str
    proxy_image: str
    cluster_name: str
    network: str
    hold_application: bool
    rewrite_probes: bool

    @property
    def tree(self) -> dict[str, Any]:
        """A new copy of the values as templates see them: a template may change its copy."""
        tree: dict[str, Any] = load_json(self.json)
        return tree


def parse_values(text: str | None, *, where: str = "values") -> Values:
    """Read values from YAML or JSON; None, as before Istio 1.2, gives empty values.

    Raises:
        ConfigError: they are no mapping, or a field that the injector reads has the wrong type.
    """
    raw = load_yaml(text, where=where) if text is not None else {}
    if raw is None:
        raw = {}
    if not isinstance(raw, dict):
        raise ConfigError(
            "values are a mapping", where=where, hint="give the key `values` of ConfigMap istio-sidecar-injector"
        )
    reader = _Reader(raw, where)
    return Values(
        json=dump_json(float_numbers(raw)),
        hub=reader.string("global.hub"),
        tag=reader.printed("global.tag"),
        variant=reader.string("global.variant"),
        proxy_image=reader.string("global.proxy.image"),
        cluster_name=reader.string("global.multiCluster.clusterName"),
        network=reader.string("global.network"),
        hold_application=reader.boolean("global.proxy.holdApplicationUntilProxyStarts"),
        rewrite_probes=reader.boolean("sidecarInjectorWebhook.rewriteAppHTTPProbe"),
    )


def float_numbers(value: Any) -> Any:
    """Return JSON data with each integer as a float: encoding/json decodes every number into float64."""
    if isinstance(value, dict):
        return {key: float_numbers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [float_numbers(item) for item in value]
    if isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    return value


@dataclass(frozen=True, slots=True)
class _Reader:
    """Typed reads by dotted path; absent and null give the zero value, another type is an error, as protojson has it."""

    raw: Mapping[str, Any]
    where: str

    def string(self, path: str) -> str:
        value = self._at(path)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise ConfigError(f"`{path}` is not a string", where=self.where, hint="quote it")
        return value

    def printed(self, path: str) -> str:
        value = self._at(path)
        return "" if value is None else sprint(float_numbers(value))

    def boolean(self, path: str) -> bool:
        value = self._at(path)
        if value is None:
            return False
        if not isinstance(value, bool):
            raise ConfigError(
                f"`{path}` is not a boolean", where=self.where, hint="write true or false, without quotes"
            )
        return value

    def _at(self, path: str) -> Any:
        node: Any = self.raw
        walked: list[str] = []
        for key in path.split("."):
            if node is None:
                return None
            if not isinstance(node, dict):
                raise ConfigError(
                    f"`{'.'.join(walked)}` is not a mapping", where=self.where, hint="indent its keys under it"
                )
            node = node.get(key)
            walked.append(key)
        return node
