"""Files with one key of Istio's ConfigMaps, or with a template: whether a file is what its flag says.

The keys are easily confused, and a wrong one is still YAML: without this check, the error would be about a pod or a template.
"""

from __future__ import annotations

from typing import Any, Final

from injector.errors import ConfigError, DataError
from injector.kube.objects import mapping_at
from injector.kube.yaml import load_yaml

CONFIG: Final = "config"
VALUES: Final = "values"
MESH: Final = "mesh"
TEMPLATE: Final = "template"
FLAGS: Final = {CONFIG: "--injectConfigFile", VALUES: "--valuesFile", MESH: "--meshConfigFile"}
_MAPS: Final = {MESH: "istio"}
_DELIMITERS: Final = ("{{", "[[", "{%")


def check_content(text: str, key: str, *, where: str) -> None:
    """Raise ConfigError if a text is something else than ``key``, one of the keys or a template."""
    content = _content(text)
    if content is None:
        return
    what = "a template" if key == TEMPLATE else f"the key `{key}`"
    kind = content.get("kind")
    if kind == "ConfigMap":
        name = key if key in FLAGS else CONFIG
        keys = mapping_at(content, "data")
        name = MESH if MESH in keys and name not in keys else name
        config_map = _MAPS.get(name, "istio-sidecar-injector")
        command = f"kubectl -n istio-system get configmap {config_map} -o jsonpath='{{.data.{name}}}' > FILE"
        raise ConfigError(
            f"a whole ConfigMap, not {what}", where=where, hint=f"write the key to a file: {command}{_flag(name, key)}"
        )
    is_template = key == TEMPLATE and any(mark in text for mark in _DELIMITERS)  # a gateway's is a whole object
    if isinstance(kind, str) and isinstance(content.get("apiVersion"), str) and not is_template:
        raise ConfigError(f"a manifest of kind {kind[:80]}, not {what}", where=where, hint="give manifests by -f")
    if key != CONFIG and ("templates" in content or ("policy" in content and "template" in content)):
        hint = f"give it by {FLAGS[CONFIG]} FILE"
        raise ConfigError(f"the key `{CONFIG}` of a revision, not {what}", where=where, hint=hint)
    if key != VALUES and isinstance(content.get("global"), dict):
        hint = f"give it by {FLAGS[VALUES]} FILE"
        raise ConfigError(f"the key `{VALUES}` of a revision, not {what}", where=where, hint=hint)


def _flag(name: str, key: str) -> str:
    return f", and give it by {FLAGS[name]} FILE" if name != key else ""


def _content(text: str) -> dict[str, Any] | None:
    """Return a mapping of YAML; None for every other text, such as most templates."""
    try:
        document = load_yaml(text)
    except DataError:
        return None
    return document if isinstance(document, dict) else None
