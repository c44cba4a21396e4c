"""The inject config: the key ``config`` of ConfigMap ``istio-sidecar-injector``, and which Istio it is of.

Follows Istio's pkg/kube/inject/inject.go ``Config`` and ``UnmarshalConfig`` (1.30.3) and, for a single ``template``, the same at
1.8.6 and before.

The image tag of the values names the release in all but test builds; else the shape of the config, and what its templates use that
later minors have not, give a range, of which the newest minor counts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from injector.errors import ConfigError, ManifestError
from injector.istio.minor import NEWEST, OLDEST, Minor, format_minor
from injector.kube.selectors import Selector
from injector.kube.typed import normalise
from injector.kube.yaml import load_yaml

if TYPE_CHECKING:
    from collections.abc import Mapping

    from injector.istio.values import Values

SIDECAR_TEMPLATE_NAME: Final = "sidecar"
# Since 1.9 the ConfigMap also holds this template: older injectors must fail on it rather than misread the new format.
_SENTINEL: Final = "Template_Version_And_Istio_Version_Mismatched_Check_Installation"


@dataclass(frozen=True, slots=True)
class Policy:
    """The part of an inject config that decides who is injected.

    A selector that Kubernetes refuses is left out, as Istio logs and passes over it.
    """

    policy: str
    never: tuple[Selector, ...] = ()
    always: tuple[Selector, ...] = ()


@dataclass(frozen=True, slots=True)
class InjectConfig:
    """An inject config of any minor.

    ``templates`` maps names to template texts. ``appends`` tells the generation: True for the single ``template`` of 1.0 to 1.8,
    whose rendered lists are appended, False for the ``templates`` of 1.9 and later, which are strategic merge overlays.
    """

    policy: Policy
    templates: Mapping[str, str]
    appends: bool
    delimiters: tuple[str, str]
    default_templates: tuple[str, ...]
    aliases: Mapping[str, tuple[str, ...]]
    injected_annotations: Mapping[str, str]


def parse_inject_config(text: str, *, where: str = "config") -> InjectConfig:
    """Read an inject config as Istio's ConfigMap holds it.

    Raises:
        ConfigError: it is no YAML mapping, a key has the wrong type, or it holds no template at all.
    """
    raw = load_yaml(text, where=where)
    if not isinstance(raw, dict):
        raise ConfigError(
            f"an inject config is a mapping, this is {_kind(raw)}",
            where=where,
            hint="give the key `config` of ConfigMap istio-sidecar-injector",
        )
    reader = _Reader(raw, where)
    templates = reader.string_map("templates")
    single = reader.string("template")
    appends = not templates and "templates" not in raw
    if appends:
        templates = {SIDECAR_TEMPLATE_NAME: _usable_single(single, where)}
    return InjectConfig(
        policy=Policy(
            reader.string("policy"), reader.selectors("neverInjectSelector"), reader.selectors("alwaysInjectSelector")
        ),
        templates=MappingProxyType(templates),
        appends=appends,
        delimiters=_delimiters(single) if appends else ("{{", "}}"),
        default_templates=reader.strings("defaultTemplates") or (SIDECAR_TEMPLATE_NAME,),
        aliases=MappingProxyType(reader.string_lists("aliases")),
        injected_annotations=MappingProxyType(reader.string_map("injectedAnnotations")),
    )


def _usable_single(template: str, where: str) -> str:
    if not template.strip():
        raise ConfigError(
            "it has neither `templates` nor `template`",
            where=where,
            hint="give the key `config` of ConfigMap istio-sidecar-injector unchanged",
        )
    if _SENTINEL in template:
        raise ConfigError(
            "it has only the placeholder `template` that marks the format of Istio 1.9 and later, without `templates`",
            where=where,
            hint="copy the whole key `config` of the ConfigMap",
        )
    return template


def _delimiters(template: str) -> tuple[str, str]:
    # Istio 1.0 and 1.1 parse with [[ ]] (pilot/pkg/kube/inject/inject.go, sidecarTemplateDelimBegin), later minors with {{ }}.
    # A template of theirs always opens with an action of its own delimiters, so the first one decides.
    square, curly = template.find("[["), template.find("{{")
    return ("[[", "]]") if square >= 0 and (curly < 0 or square < curly) else ("{{", "}}")


@dataclass(frozen=True, slots=True)
class _Reader:
    """Typed reads of a mapping, as encoding/json decodes it into Config: null is absent, another type is an error."""

    raw: Mapping[str, Any]
    where: str

    def string(self, key: str) -> str:
        return self._text(key, self.raw.get(key))

    def strings(self, key: str) -> tuple[str, ...]:
        return self._strings(key, self.raw.get(key))

    def string_map(self, key: str) -> dict[str, str]:
        return {name: self._text(f"{key}.{name}", item) for name, item in self._mapping(key).items()}

    def string_lists(self, key: str) -> dict[str, tuple[str, ...]]:
        return {name: self._strings(f"{key}.{name}", item) for name, item in self._mapping(key).items()}

    def selectors(self, key: str) -> tuple[Selector, ...]:
        value = self.raw.get(key)
        if value is None:
            return ()
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            raise self._wrong(key, "a list of label selectors", value)
        return tuple(selector for item in value if (selector := _selector(item)) is not None)

    def _mapping(self, key: str) -> dict[str, Any]:
        value = self.raw.get(key)
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise self._wrong(key, "a mapping", value)
        return value

    def _strings(self, key: str, value: Any) -> tuple[str, ...]:
        if value is None:
            return ()
        if not isinstance(value, list):
            raise self._wrong(key, "a list of strings", value)
        return tuple(self._text(f"{key}[{index}]", item) for index, item in enumerate(value))

    def _text(self, key: str, value: Any) -> str:
        # sigs.k8s.io/yaml writes numbers and bools as strings where Go's field is one.
        if value is None:
            return ""
        try:
            return str(normalise(value, "string", coerce=True))
        except ManifestError:
            raise self._wrong(key, "a string", value) from None

    def _wrong(self, key: str, wanted: str, value: Any) -> ConfigError:
        return ConfigError(f"`{key}` is {_kind(value)}", where=self.where, hint=f"make it {wanted}")


def _selector(raw: dict[str, Any]) -> Selector | None:
    """Compile a selector; None for one that Kubernetes refuses, which Istio logs and passes over."""
    try:
        return Selector.compile(raw)
    except ManifestError:
        return None


def _kind(value: Any) -> str:
    kinds = {dict: "a mapping", list: "a list", str: "a string", bool: "a boolean", int: "a number", float: "a number"}
    return kinds.get(type(value), "empty")


_RELEASE_TAG = re.compile(r"v?(\d+)\.(\d+)(?:\.\d+)?(?:[-.].*)?", re.ASCII)
_LAST_SQUARE: Final[Minor] = (1, 1)
_LAST_SINGLE_TEMPLATE: Final[Minor] = (1, 8)
_GONE: Final[tuple[tuple[re.Pattern[str], Minor, str], ...]] = (
    (re.compile(r"(?:gt|lt|ge|le) \.ProxyConfig\.Concurrency\b(?!\.)"), (1, 6), "compare .ProxyConfig.Concurrency"),
    (re.compile(r"\{\{-?\s*render\s"), (1, 13), "call render"),
    (re.compile(r"(?<![\w)])\.EstimatedConcurrency\b"), (1, 17), "read .EstimatedConcurrency"),
)
"""What templates did, the last minor that let them, and how to say it: the first that fits counts."""


def infer_minor(config: InjectConfig, values: Values) -> tuple[Minor, str]:
    """Return the minor and why: the image tag if it names a known release of this shape, else the newest of the shape."""
    newest, shape = _newest_of_shape(config)
    match = _RELEASE_TAG.fullmatch(values.tag)
    if match is not None:
        tagged = (int(match[1]), int(match[2]))
        if OLDEST <= tagged <= newest:
            return tagged, f"values.global.tag is {values.tag}"
    return newest, f"newest Istio with {shape} (up to {format_minor(newest)})"


def _newest_of_shape(config: InjectConfig) -> tuple[Minor, str]:
    texts = "\n".join(config.templates.values())
    ends = [(last, f"templates that {told}") for pattern, last, told in _GONE if pattern.search(texts)]
    return min([_shape(config), *ends])


def _shape(config: InjectConfig) -> tuple[Minor, str]:
    if not config.appends:
        return NEWEST, "a map of templates"
    if config.delimiters[0] == "[[":
        return _LAST_SQUARE, "a template in [[ ]]"
    return _LAST_SINGLE_TEMPLATE, "a single template in {{ }}"
