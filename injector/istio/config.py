"""The inject config and the Helm values: the keys ``config`` and ``values`` of ConfigMap ``istio-sidecar-injector``.

The inject config follows Istio's pkg/kube/inject/inject.go ``Config`` and ``UnmarshalConfig`` (1.30.3) and, for a single ``template``,
the same file at 1.8.6 and before. Templates see the values as Go's ``map[string]interface {}`` decoded from JSON, so every number is a
float64. The injector reads a few fields of them, as Istio does from opconfig.Values (pkg/kube/inject/webhook.go ``NewValuesConfig``).

``infer_minor`` finds the Istio minor that the ConfigMap belongs to. The image tag in the values names the release, except in test
builds. Otherwise the newest minor that fits counts, judged by the shape of the config and by the features that its templates use.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, Final
from weakref import WeakValueDictionary

from injector.errors import ConfigError, ManifestError
from injector.golang.json import dump_json, load_json
from injector.gotemplate.fmt import sprint
from injector.istio.behaviours import DEVELOPMENT, NEWEST, OLDEST, Minor, format_minor
from injector.istio.labels import NAMESPACE, POD
from injector.kube.objects import mapping_at
from injector.kube.selectors import Selector, selector_faults
from injector.kube.typed import normalise
from injector.kube.yaml import load_yaml
from injector.memo import share

SIDECAR_TEMPLATE_NAME: Final = "sidecar"
# Since 1.9 the ConfigMap also holds this template: older injectors must fail on it rather than misread the new format.
_SENTINEL: Final = "Template_Version_And_Istio_Version_Mismatched_Check_Installation"


@dataclass(frozen=True, slots=True)
class Policy:
    """The part of an inject config that decides which pods are injected.

    A selector that Kubernetes refuses is left out: Istio logs it and continues. ``faults`` are those
    of selectors, each after the key of the config.
    """

    policy: str
    never: tuple[Selector, ...] = ()
    always: tuple[Selector, ...] = ()
    faults: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, weakref_slot=True)
class InjectConfig:
    """An inject config of any minor.

    ``appends`` is True for the single ``template`` of 1.0 to 1.8, whose rendered lists are appended, and False for the ``templates`` of 1.9
    and later, which are strategic merge overlays. ``default_templates`` are those of pods that do not choose any, ``aliases`` lists of
    templates. ``newest`` is the newest minor that the config fits, and a description of its features.
    """

    policy: Policy
    templates: Mapping[str, str]
    appends: bool
    delimiters: tuple[str, str]
    default_templates: tuple[str, ...]
    aliases: Mapping[str, tuple[str, ...]]
    injected_annotations: Mapping[str, str]
    newest: tuple[Minor, str]


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Values:
    """Helm values: as JSON, the fields that the injector reads, and the ``environment`` of istiod.

    Since Istio 1.26 the chart writes ``pilot.env``, istiod's feature variables, into the values; it sets ``PLATFORM`` to
    ``global.platform``. ``auto_inject`` and ``precedence`` are those of the webhooks that the chart writes with these values: whether the
    default also injects namespaces and pods without any label, and the object whose label ``istio.io/rev`` counts.
    """

    json: bytes
    hub: str
    tag: str
    variant: str
    proxy_image: str
    proxy_init_image: str
    cluster_name: str
    network: str
    hold_application: bool
    rewrite_probes: bool
    environment: Mapping[str, str]
    auto_inject: bool
    precedence: str

    @property
    def tree(self) -> dict[str, Any]:
        """A new copy of the values as templates see them: a template may change its copy."""
        tree: dict[str, Any] = load_json(self.json)
        return tree


# Parsing takes 7 ms: for the 304 revisions of a large cluster, which mostly have the same texts, 2 s of the 5 s in which it starts.
_PARSED: Final[WeakValueDictionary[str, InjectConfig]] = WeakValueDictionary()
# The values of each revision are read twice: for istiod's environment, and to build the revision.
_PARSED_VALUES: Final[WeakValueDictionary[str, Values]] = WeakValueDictionary()


def parse_inject_config(text: str, *, where: str = "config") -> InjectConfig:
    """Read an inject config from the text of Istio's ConfigMap, unless a revision in use has the same text.

    Raises ConfigError if the text is not a YAML mapping, a key has the wrong type, or there is no template.
    """
    return share(_PARSED, text, lambda: _parse_inject_config(text, where))


def _parse_inject_config(text: str, where: str) -> InjectConfig:
    raw = _mapping(load_yaml(text, where=where), "config", where)
    # sigs.k8s.io/yaml writes numbers and bools as strings where Go's field is one.
    read = partial(_read, raw, where=where, coerce=True)
    templates, single = read("templates", "map[string]string") or {}, read("template", "string")
    appends = not templates and "templates" not in raw
    if appends:
        templates = {SIDECAR_TEMPLATE_NAME: _usable_single(single, where)}
    selectors = {key: read(key, "[]v1.LabelSelector") or [] for key in ("neverInjectSelector", "alwaysInjectSelector")}
    never, always = (tuple(filter(None, map(Selector.compile_valid, raws))) for raws in selectors.values())
    faults = [
        (key, f"{key}[{index}]: {fault}")
        for key, raws in selectors.items()
        for index, selector in enumerate(raws)
        for fault in selector_faults(selector)
    ]
    aliases = read("aliases", "map[string][]string") or {}
    delimiters = _delimiters(single) if appends else ("{{", "}}")
    return InjectConfig(
        policy=Policy(read("policy", "string"), never, always, tuple(faults)),
        templates=MappingProxyType(templates),
        appends=appends,
        delimiters=delimiters,
        default_templates=tuple(read("defaultTemplates", "[]string") or (SIDECAR_TEMPLATE_NAME,)),
        aliases=MappingProxyType({name: tuple(targets or ()) for name, targets in aliases.items()}),
        injected_annotations=MappingProxyType(read("injectedAnnotations", "map[string]string") or {}),
        newest=_newest_of_shape(templates.values(), delimiters, appends=appends),
    )


def parse_values(text: str | None, *, where: str = "values") -> Values:
    """Read Helm values from YAML or JSON, unless values in use have the same text; None, for Istio before 1.2, gives empty values.

    Raises ConfigError if the values are not a mapping, or a field that the injector reads has the wrong type.
    """
    return share(_PARSED_VALUES, text or "", lambda: _parse_values(text or "", where))


def _parse_values(text: str, where: str) -> Values:
    raw = load_yaml(text, where=where)
    raw = {} if raw is None else _mapping(raw, "values", where)
    read = partial(_read, raw, where=where)
    webhook = mapping_at(raw, "sidecarInjectorWebhook")
    settings = mapping_at(raw, "global")
    return Values(
        json=dump_json(float_numbers(raw)),
        hub=read("global.hub", "string"),
        tag=sprint(float_numbers(settings["tag"])) if "tag" in settings else "",
        variant=read("global.variant", "string"),
        proxy_image=read("global.proxy.image", "string"),
        proxy_init_image=read("global.proxy_init.image", "string"),
        cluster_name=read("global.multiCluster.clusterName", "string"),
        network=read("global.network", "string"),
        hold_application=read("global.proxy.holdApplicationUntilProxyStarts", "bool"),
        rewrite_probes=read("sidecarInjectorWebhook.rewriteAppHTTPProbe", "bool"),
        environment=MappingProxyType(_environment(raw)),
        auto_inject=bool(webhook.get("enableNamespacesByDefault")),  # as the chart's `if` takes it
        precedence=POD if webhook.get("revisionLabelPrecedence") == POD else NAMESPACE,
    )


def _read(raw: Mapping[str, Any], path: str, go_type: str, *, where: str, coerce: bool = False) -> Any:
    """Return the value at a dotted path as Go reads it into a field of a type; null is as absent."""
    *parents, key = path.split(".")
    for index, parent in enumerate(parents, 1):
        raw = {} if raw.get(parent) is None else raw[parent]
        if not isinstance(raw, dict):
            raise ConfigError(f"`{'.'.join(parents[:index])}` must be a mapping", where=where, hint="make it a mapping")
    try:
        return normalise(raw.get(key), go_type, coerce=coerce)
    except ManifestError as error:
        separator = "" if error.where[:1] in ("", "[") else "."
        raise ConfigError(f"`{path}{separator}{error.where}`: {error.what}", where=where, hint=error.hint) from None


def _environment(values: Mapping[str, Any]) -> dict[str, str]:
    variables = mapping_at(values, "pilot", "env")
    env = {
        str(name): variable_text(value)
        for name, value in variables.items()
        if isinstance(value, str | bool | int | float)
    }
    platform = mapping_at(values, "global").get("platform")
    return {**({"PLATFORM": platform} if isinstance(platform, str) and platform else {}), **env}


def variable_text(value: str | float) -> str:
    """Return the value of an environment variable that YAML has as a text, a number or a boolean."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def float_numbers(value: Any) -> Any:
    """Return JSON data with each integer as a float: encoding/json decodes every number into float64."""
    if isinstance(value, dict):
        return {key: float_numbers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [float_numbers(item) for item in value]
    if isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    return value


def _mapping(raw: Any, key: str, where: str) -> dict[str, Any]:
    if not isinstance(raw, dict):
        hint = f"give the key `{key}` of ConfigMap istio-sidecar-injector"
        raise ConfigError(f"`{key}` must be a mapping", where=where, hint=hint)
    return raw


def _usable_single(template: str, where: str) -> str:
    if not template.strip():
        raise ConfigError(
            "there is neither `templates` nor `template`",
            where=where,
            hint="give the key `config` of ConfigMap istio-sidecar-injector unchanged",
        )
    if _SENTINEL in template:
        raise ConfigError(
            "`templates` is missing; `template` is only the placeholder that marks the format of Istio 1.9 and later",
            where=where,
            hint="copy the whole key `config` of the ConfigMap",
        )
    return template


def _delimiters(template: str) -> tuple[str, str]:
    # Istio 1.0 and 1.1 parse with [[ ]] (pilot/pkg/kube/inject/inject.go, sidecarTemplateDelimBegin), later minors with {{ }}.
    # Each template of Istio starts with an action in its own delimiters, so the first one decides.
    square, curly = template.find("[["), template.find("{{")
    return ("[[", "]]") if square >= 0 and (curly < 0 or square < curly) else ("{{", "}}")


_RELEASE_TAG = re.compile(r"v?(\d{1,18})\.(\d{1,18})(?:\.\d+)?(?:[-.].*)?", re.ASCII)
_REMOVED_FEATURES: Final[tuple[tuple[re.Pattern[str], Minor, str], ...]] = (
    (re.compile(r"(?:gt|lt|ge|le) \.ProxyConfig\.Concurrency\b(?!\.)"), (1, 6), "compare .ProxyConfig.Concurrency"),
    (re.compile(r"\{\{-?\s*render\s"), (1, 13), "call render"),
    (re.compile(r"(?<![\w)])\.EstimatedConcurrency\b"), (1, 17), "read .EstimatedConcurrency"),
)
"""Features of templates, the last minor that has each, and a description. The first match counts."""


def infer_minor(config: InjectConfig, values: Values) -> tuple[Minor, str]:
    """Return the minor and the reason: the image tag if it names a release that fits the config, else the newest that fits."""
    newest, shape = config.newest
    tagged = tagged_minor(values)
    if tagged is not None and OLDEST <= tagged <= newest:
        return tagged, f"values.global.tag is {values.tag}"
    if newest == NEWEST and newer_istio(values):
        return DEVELOPMENT, newer_istio(values)
    return newest, f"newest Istio with {shape} (up to {format_minor(newest)})"


def tagged_minor(values: Values) -> Minor | None:
    """Return the minor that the image tag names, which may be newer than any supported one; None if it names no release."""
    match = _RELEASE_TAG.fullmatch(values.tag)
    return None if match is None else (int(match[1]), int(match[2]))


def newer_istio(values: Values) -> str:
    """Return what to say if the image tag names a newer Istio than any supported one, else an empty text."""
    tagged = tagged_minor(values)
    if tagged is None or tagged <= NEWEST:
        return ""
    return f"values.global.tag is {values.tag}, newer than Istio {format_minor(NEWEST)}, the newest supported"


def _newest_of_shape(templates: Iterable[str], delimiters: tuple[str, str], *, appends: bool) -> tuple[Minor, str]:
    texts = "\n".join(templates)
    ends: list[tuple[Minor, str]] = [
        (last, f"templates that {feature}") for pattern, last, feature in _REMOVED_FEATURES if pattern.search(texts)
    ]
    if not appends:
        ends.insert(0, (NEWEST, "a map of templates"))
    elif delimiters[0] == "[[":
        ends.insert(0, ((1, 1), "a template in [[ ]]"))
    else:
        ends.insert(0, ((1, 8), "a single template in {{ }}"))
    return min(ends)
