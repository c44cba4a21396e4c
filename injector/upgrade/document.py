"""The document ``Upgrade``, as a file has it.

::

    apiVersion: revision-injector.dev/v1alpha1
    kind: Upgrade
    metadata: {name: istio-1-30}
    spec:
      tag: prod
      from: 1-28
      to: 1-30
      waves:
      - {name: test, namespaces: [dev, test]}
      - {name: rest}

Waves are of one sort (``Upgrade.moves``): all by weight, all by namespace, or in any other order. They decide how the tag moves. An upgrade
has one more wave than its document, the last one, for the injected gateways that these waves would move.

If ``from`` is ``to``, the control plane was changed under its revision's name, and the upgrade is *in place*: it moves no tag, and restarts
the workloads whose sidecars are not those that the revision injects now.
"""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, NoReturn
from urllib.parse import urlsplit

from injector.errors import ConfigError, DataError
from injector.golang.time import parse_duration
from injector.kube.selectors import Selector, is_dns_label, is_label_key
from injector.revisions.names import check_name

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

GROUP: Final = "revision-injector.dev"
API_VERSION: Final = f"{GROUP}/v1alpha1"
KIND: Final = "Upgrade"

BY_WEIGHT: Final = "weights"
BY_NAMESPACE: Final = "namespaces"
ORDER_ONLY: Final = "order"
PAUSE: Final = "Pause"
ROLLBACK: Final = "Rollback"
FAIL: Final = "Fail"
PASS: Final = "Pass"  # noqa: S105 -- not a password
_ALL: Final = 100
_SECONDS: Final = 1e9
_IMPORTANCE_LABEL: Final = f"{GROUP}/importance"
SOAK: Final = 300.0
TIMEOUT: Final = 600.0
DEADLINE: Final = 86400.0
MAX_RESTARTS: Final = 3
WEBHOOK_TIMEOUT: Final = 10.0
MAX_WEBHOOK_TIMEOUT: Final = 30.0
"""Seconds that a webhook may take at most: meanwhile, the runner sees neither the pods nor the commands of users."""
_EXAMPLE: Final = "see docs/upgrades.md for an example"
INJECTED_GATEWAYS: Final = "injected-gateways"
"""The name of the last wave."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits on the workloads that are being restarted, and on the pods of all workloads of the upgrade that are not available.

    ``path`` is that of the field with them. The reasons of the defaults are in ``docs/reference/upgrades.md``.
    """

    workloads: int = 5
    unavailable_pods: int = 10
    unavailable_pods_per_namespace: int = 3
    path: str = field(default="limits", compare=False)


@dataclass(frozen=True, slots=True)
class Wave:
    """Some workloads of an upgrade, which are restarted together. A wave without filters has all workloads that are left.

    Attributes:
        weight: the percentage of workloads that have the new revision after this wave; None if filters choose the workloads.
        namespaces: the names of namespaces; empty for all.
        selector: a selector of the labels of workloads; None for all.
        importance: the value of the importance label; empty for all.
        approval: whether it waits for ``promote`` before it begins.
        is_injected_gateways: whether it is the wave of the injected gateways.
        limits: the limits of its workloads; None for those of the upgrade.
        soak: the seconds to wait after its restarts; None for those of the upgrade.
        order: namespaces, and workloads as NAMESPACE/NAME, which are restarted first.
    """

    name: str
    weight: int | None = None
    namespaces: frozenset[str] = frozenset()
    selector: Selector | None = None
    importance: str = ""
    approval: bool = False
    is_injected_gateways: bool = False
    limits: Limits | None = None
    soak: float | None = None
    order: tuple[str, ...] = ()

    @property
    def requires_label(self) -> bool:
        """Whether it has only workloads with a certain label; that a label is absent is not enough."""
        requirements = () if self.selector is None else self.selector.requirements
        return bool(self.importance) or any(requirement.operator in ("In", "Exists") for requirement in requirements)

    def includes(self, namespace: str, labels: Mapping[str, str], importance_label: str) -> bool:
        """Return whether the filters match a workload with these labels; those of the injected gateways match none."""
        return (
            not self.is_injected_gateways
            and (not self.namespaces or namespace in self.namespaces)
            and (self.selector is None or self.selector.matches(labels))
            and (not self.importance or labels.get(importance_label) == self.importance)
        )


@dataclass(frozen=True, slots=True)
class Metric:
    """A PromQL query with thresholds.

    Attributes:
        name: the name for people, or of a built-in query.
        query: a Jinja2 template; empty for the built-in query of this name.
        no_data: what an empty result counts as, ``Fail`` or ``Pass``.
    """

    name: str
    query: str = ""
    min: float | None = None
    max: float | None = None
    no_data: str = FAIL


@dataclass(frozen=True, slots=True)
class GateWebhook:
    """A URL that lets a wave pass or fail: 2xx is a pass.

    Attributes:
        timeout: the seconds that an answer may take.
        metadata: what its requests contain besides the names of the upgrade and the wave.
    """

    name: str
    url: str
    timeout: float = WEBHOOK_TIMEOUT
    metadata: tuple[tuple[str, str], ...] = ()


BUILT_IN: Final[Mapping[str, tuple[float | None, float | None]]] = {
    "success-rate": (0.99, None),
    "latency": (None, 1.5),
}
"""The built-in queries with the least and the largest value that pass: each is the new value divided by the one before the wave."""


@dataclass(frozen=True, slots=True)
class Gates:
    """Conditions that must hold after each wave, besides complete rollouts with ready sidecars of the new revision.

    Attributes:
        max_restarts: the container restarts that a new pod may have.
        prometheus: the URL of Prometheus; empty for none.
    """

    max_restarts: int = MAX_RESTARTS
    prometheus: str = ""
    metrics: tuple[Metric, ...] = ()
    webhooks: tuple[GateWebhook, ...] = ()


@dataclass(frozen=True, slots=True)
class GatewayWave:
    """The wave of the Gateways of the Gateway API, after the last workloads.

    Attributes:
        pin: whether the Gateways keep their owner until this wave; else all follow the tag when it is written.
        limit: the Gateways that change their owner at a time.
        order: namespaces, and Gateways as NAMESPACE/NAME; the others follow by name.
        soak: the seconds that a Gateway must be in service before the next one changes its owner.
    """

    pin: bool = True
    limit: int = 1
    order: tuple[str, ...] = ()
    soak: float = 30.0


@dataclass(frozen=True, slots=True)
class Window:
    """A time in which workloads may be restarted, in seconds since 1970. None means no limit."""

    not_before: float | None = None
    not_after: float | None = None

    def contains(self, now: float) -> bool:
        """Return whether ``now`` is inside."""
        return (self.not_before is None or now >= self.not_before) and (self.not_after is None or now <= self.not_after)


@dataclass(frozen=True, slots=True)
class Upgrade:
    """An upgrade of the workloads of a tag, or of a revision, to another revision.

    Attributes:
        name: its name, unique in the cluster.
        tag: the tag that is moved; empty if the labels of namespaces already lead to the new revision.
        source: the revision that the workloads leave.
        target: the revision that they get.
        importance_label: the label of workloads that ``Wave.importance`` refers to.
        soak: the seconds to wait after the restarts of a wave, before the gates decide.
        timeout: the seconds that the restart of one workload may take.
        deadline: the seconds that the whole upgrade may take.
        windows: the times in which workloads may be restarted; empty for any time.
        gateways: the wave of the Gateways of the Gateway API.
        injected_gateways_last: whether injected gateways are restarted in the last wave; else they are in the waves as other workloads.
        on_failure: ``Pause`` or ``Rollback``.
        run: the number of the run. An upgrade that has ended starts again if it is raised.
        repeat: whether an upgrade in place starts again by itself when the configuration of its revision has changed.
    """

    name: str
    tag: str
    source: str
    target: str
    waves: tuple[Wave, ...]
    importance_label: str = _IMPORTANCE_LABEL
    limits: Limits = field(default_factory=Limits)
    gates: Gates = field(default_factory=Gates)
    soak: float = SOAK
    timeout: float = TIMEOUT
    deadline: float = DEADLINE
    windows: tuple[Window, ...] = ()
    on_failure: str = PAUSE
    run: int = 1
    gateways: GatewayWave = field(default_factory=GatewayWave)
    injected_gateways_last: bool = True
    repeat: bool = False

    @property
    def in_place(self) -> bool:
        """Whether the workloads keep their revision, and get the sidecar that it injects now."""
        return self.source == self.target

    @property
    def way(self) -> str:
        """The way of the workloads, for people: from one revision to another, or in place."""
        return f"{self.source} in place" if self.in_place else f"{self.source} to {self.target}"

    @property
    def subject(self) -> str:
        """What it changes, for people: its tag, or without one the workloads of its revision."""
        return f"tag {self.tag}" if self.tag else f"revision {self.target}"

    def excludes(self, other: Upgrade) -> bool:
        """Tell whether only one of two upgrades may be under way: they move one tag, or may restart the same workload without a tag."""
        if self.tag or other.tag:
            return self.tag == other.tag
        places, other_places = self._namespaces, other._namespaces
        return self.target == other.target and (not places or not other_places or bool(places & other_places))

    @property
    def _namespaces(self) -> frozenset[str]:
        """The namespaces of its workloads; empty for all. That of the injected gateways has only workloads of the waves before."""
        waves = [wave.namespaces for wave in self.waves if not wave.is_injected_gateways]
        return frozenset().union(*waves) if all(waves) else frozenset()

    @property
    def head(self) -> dict[str, str | None]:
        """Its name, its tag if it has one, and its revisions, as JSON data."""
        return {"name": self.name, "tag": self.tag or None, "from": self.source, "to": self.target}

    @property
    def moves(self) -> str:
        """How the tag moves: by ``weights``, by ``namespaces``, or before the first wave, which then only ``order`` the restarts."""
        if self.waves[0].weight is not None:
            return BY_WEIGHT
        plain = all(wave.selector is None and not wave.importance for wave in self.waves)
        return BY_NAMESPACE if plain and self.waves[0].namespaces else ORDER_ONLY

    @property
    def injected_gateway_wave(self) -> int:
        """The index of the wave of the injected gateways, which is the last one."""
        return len(self.waves) - 1

    def limits_of(self, wave: int) -> Limits:
        """Return the limits of the workloads of a wave; those of no wave have an index below zero."""
        return (self.waves[wave].limits if wave >= 0 else None) or self.limits

    def soak_of(self, wave: int) -> float:
        """Return the seconds to wait after the restarts of a wave."""
        soak = self.waves[wave].soak
        return self.soak if soak is None else soak

    def in_window(self, now: float) -> bool:
        """Return whether workloads may be restarted now."""
        return not self.windows or any(window.contains(now) for window in self.windows)

    def next_window(self, now: float) -> float | None:
        """Return the time at which a window is open again: now if one is; None if none will be."""
        opens = [
            max(now, window.not_before or now)
            for window in self.windows
            if window.not_after is None or window.not_after > now
        ]
        return min(opens, default=None) if self.windows else now

    def deadline_from(self, now: float) -> float:
        """Return the deadline of an upgrade that starts or goes on now. A wait for its first window does not count."""
        opens = self.next_window(now)
        return (now if opens is None else opens) + self.deadline


def read_upgrade(raw: Any, *, where: str) -> Upgrade:
    """Read an Upgrade from an object. Raises ConfigError if a field is missing, unknown or not valid."""
    document = _Fields(raw, where)
    if (raw.get("apiVersion"), raw.get("kind")) != (API_VERSION, KIND):
        raise ConfigError("it is not an Upgrade", where=where, hint=f"write apiVersion: {API_VERSION} and kind: {KIND}")
    name = _Fields(raw.get("metadata"), f"{where}: metadata").text("name")
    if not is_dns_label(name):
        hint = "use at most 63 lower-case letters, digits and `-`"
        raise ConfigError(f"{name[:80]!r} is not a valid name", where=f"{where}: metadata.name", hint=hint)
    spec = document.part("spec", _SPEC)
    injected, limits = spec.part("injectedGateways", _INJECTED_GATEWAYS), _limits(spec.part("limits", _LIMITS))
    upgrade = Upgrade(
        name=name,
        tag=spec.name("tag", "tag", default=""),
        source=spec.name("from", "revision"),
        target=spec.name("to", "revision"),
        waves=tuple(_wave(fields, index) for index, fields in enumerate(spec.parts("waves", _WAVE), 1)),
        importance_label=spec.text("importanceLabel", _IMPORTANCE_LABEL),
        limits=limits,
        gates=_gates(spec.part("gates", _GATES)),
        soak=spec.duration("soak", SOAK),
        timeout=spec.duration("timeout", TIMEOUT),
        deadline=spec.duration("deadline", DEADLINE),
        windows=tuple(_window(fields) for fields in spec.parts("windows", _WINDOW)),
        on_failure=spec.choice("onFailure", (PAUSE, ROLLBACK)),
        run=spec.number("run", 1),
        gateways=_gateway_wave(spec.part("gateways", _GATEWAYS)),
        injected_gateways_last=injected.flag("last", default=True),
        repeat=spec.flag("repeat"),
    )
    _check(upgrade, spec)
    return replace(upgrade, waves=(*upgrade.waves, _injected_gateway_wave(injected, limits)))


_SPEC: Final = (
    *("tag", "from", "to", "waves", "importanceLabel", "limits", "gates", "soak", "timeout", "deadline", "windows"),
    *("onFailure", "run", "gateways", "injectedGateways", "repeat"),
)
_WAVE: Final = ("name", "weight", "namespaces", "selector", "importance", "approval")
_LIMITS: Final = ("workloads", "unavailablePods", "unavailablePodsPerNamespace")
_GATES: Final = ("maxRestarts", "prometheus", "metrics", "webhooks")
_METRIC: Final = ("name", "query", "min", "max", "noData")
_WEBHOOK: Final = ("name", "url", "timeout", "metadata")
_GATEWAYS: Final = ("pin", "limit", "order", "soak")
_INJECTED_GATEWAYS: Final = ("last", "limits", "order", "soak", "approval")
_WINDOW: Final = ("notBefore", "notAfter")


def _check(upgrade: Upgrade, spec: _Fields) -> None:
    """Check what concerns several fields."""
    if upgrade.in_place and upgrade.tag:
        hint = "leave the tag out: the workloads of all tags of the revision are restarted; or name the new revision"
        spec.refuse("to", "it is the revision of `from`, and such an upgrade moves no tag", hint)
    if upgrade.repeat and not upgrade.in_place:
        spec.refuse("repeat", "only an upgrade whose `to` is its `from` can be repeated", "leave it out")
    if not upgrade.waves:
        spec.refuse("waves", "it has no wave", "write `waves: [{name: all}]` for a single wave")
    if upgrade.on_failure == ROLLBACK and not upgrade.tag:
        spec.refuse("onFailure", "a rollback needs a tag", "name the tag, or write Pause")
    if not is_label_key(upgrade.importance_label):
        spec.refuse("importanceLabel", "it is not the key of a label", f"write {_IMPORTANCE_LABEL}")
    names = [*(wave.name for wave in upgrade.waves), INJECTED_GATEWAYS]
    if len(set(names)) < len(names):
        hint = f"give each its own name; the last wave is always called {INJECTED_GATEWAYS}"
        spec.refuse("waves", "two waves have one name", hint)
    weights = [wave.weight for wave in upgrade.waves]
    if any(weight is not None for weight in weights):
        steps = [0 if weight is None else weight for weight in weights]
        if None in weights or steps != sorted(set(steps)):
            spec.refuse("waves", "the weights do not rise", "give every wave a weight, such as 10, 50 and 100")
        if not upgrade.tag:
            spec.refuse("waves", "a weight needs a tag", "name the tag, or use namespaces or selectors")
    open_waves = [wave.name for wave in upgrade.waves[:-1] if wave == Wave(wave.name, approval=wave.approval)]
    if open_waves:
        hint = "put it last, or give it namespaces, a selector or an importance"
        spec.refuse("waves", f"wave {open_waves[0]} has all workloads, so that later waves have none", hint)


def _wave(raw: _Fields, number: int) -> Wave:
    weight = None if raw.get("weight") is None else raw.number("weight", 0, minimum=1, maximum=_ALL)
    namespaces = raw.get("namespaces", [])
    if not isinstance(namespaces, list) or not all(
        isinstance(namespace, str) and is_dns_label(namespace) for namespace in namespaces
    ):
        raw.refuse("namespaces", "it is not a list of namespaces", "write `namespaces: [dev, test]`")
    selector = raw.get("selector")
    wave = Wave(
        name=raw.text("name", f"{weight}%" if weight is not None else str(number)),
        weight=weight,
        namespaces=frozenset(namespaces),
        selector=None if selector is None else _selector(raw, selector),
        importance=raw.text("importance", ""),
        approval=raw.flag("approval"),
    )
    if weight is not None and wave != Wave(wave.name, weight, approval=wave.approval):
        raw.refuse("weight", "it has filters too", "use either weights or filters in all waves")
    return wave


def _selector(raw: _Fields, selector: Any) -> Selector:
    if not isinstance(selector, dict) or not selector or selector.keys() - {"matchLabels", "matchExpressions"}:
        raw.refuse("selector", "it is not a label selector", "write `selector: {matchLabels: {KEY: VALUE}}`")
    try:
        return Selector.compile(selector, where=f"{raw.where}.selector")
    except DataError as error:
        raise ConfigError(error.what, where=error.where, hint=error.hint) from error


def _limits(raw: _Fields, defaults: Limits = Limits()) -> Limits:
    return Limits(
        workloads=raw.number("workloads", defaults.workloads),
        unavailable_pods=raw.number("unavailablePods", defaults.unavailable_pods),
        unavailable_pods_per_namespace=raw.number(
            "unavailablePodsPerNamespace", defaults.unavailable_pods_per_namespace
        ),
        path=defaults.path,
    )


def _gates(raw: _Fields) -> Gates:
    url = raw.text("prometheus", "")
    metrics = tuple(_metric(fields) for fields in raw.parts("metrics", _METRIC))
    webhooks = tuple(_webhook(fields) for fields in raw.parts("webhooks", _WEBHOOK))
    if url and not _is_http_url(url):
        raw.refuse("prometheus", "it is not a URL", "write http://HOST:PORT without credentials")
    if metrics and not url:
        raw.refuse("metrics", "they need a Prometheus", "give `prometheus: http://HOST:PORT`")
    if len({metric.name for metric in metrics}) < len(metrics):
        raw.refuse("metrics", "two of them have one name", "give each its own name")
    if url and raw.get("metrics") is None:
        metrics = tuple(Metric(name, "", *bounds) for name, bounds in BUILT_IN.items())
    names = [*(metric.name for metric in metrics), *(webhook.name for webhook in webhooks)]
    if len(set(names)) < len(names):
        raw.refuse("webhooks", "two gates have one name", "give each its own name")
    restarts = raw.number("maxRestarts", MAX_RESTARTS, minimum=0)
    return Gates(restarts, url, metrics, webhooks)


def _webhook(raw: _Fields) -> GateWebhook:
    url, metadata = raw.text("url"), raw.get("metadata", {})
    if not _is_http_url(url):
        raw.refuse("url", "it is not a URL", "write http://HOST:PORT/PATH without credentials")
    timeout = raw.duration("timeout", WEBHOOK_TIMEOUT)
    if not 0 < timeout <= MAX_WEBHOOK_TIMEOUT:
        raw.refuse("timeout", f"it is {raw.get('timeout')!r}", f"write a time up to {MAX_WEBHOOK_TIMEOUT:.0f}s")
    if not isinstance(metadata, dict) or not all(isinstance(text, str) for pair in metadata.items() for text in pair):
        raw.refuse("metadata", "it is not a mapping of texts", "write `metadata: {KEY: VALUE}`; quote a number")
    return GateWebhook(raw.text("name"), url, timeout, tuple(metadata.items()))


def _gateway_wave(raw: _Fields) -> GatewayWave:
    defaults = GatewayWave()
    limit, soak = raw.number("limit", defaults.limit), raw.duration("soak", defaults.soak)
    return GatewayWave(raw.flag("pin", default=True), limit, _order(raw, "Gateways"), soak)


def _injected_gateway_wave(raw: _Fields, limits: Limits) -> Wave:
    """Read the last wave; ``limits`` are those of the upgrade, of which it restarts one workload at a time."""
    return Wave(
        name=INJECTED_GATEWAYS,
        approval=raw.flag("approval"),
        is_injected_gateways=True,
        limits=_limits(raw.part("limits", _LIMITS), replace(limits, workloads=1, path="injectedGateways.limits")),
        soak=None if raw.get("soak") is None else raw.duration("soak", SOAK),
        order=_order(raw, "workloads"),
    )


def _order(raw: _Fields, what: str) -> tuple[str, ...]:
    order = raw.get("order", [])
    if not isinstance(order, list) or not all(
        isinstance(name, str) and _GATEWAY_NAME.fullmatch(name) for name in order
    ):
        raw.refuse("order", f"it is not a list of namespaces and {what}", "write `order: [test, edge/public]`")
    return tuple(order)


def rank_in(order: Sequence[str], name: str) -> int:
    """Return the place of NAMESPACE/NAME in an order of namespaces and names; those that it does not name are last."""
    names = (name, name.partition("/")[0])
    return next((index for index, entry in enumerate(order) if entry in names), len(order))


_GATEWAY_NAME: Final = re.compile(r"[a-z0-9-]+(?:/[a-z0-9.-]+)?", re.ASCII)


def _is_http_url(url: str) -> bool:
    """Return whether a URL is one of HTTP with a host, a valid port if it has one, and without credentials."""
    try:
        parts = urlsplit(url)
        return (
            parts.scheme in ("http", "https") and bool(parts.hostname) and "@" not in parts.netloc and parts.port != 0
        )
    except ValueError:
        return False


def _metric(raw: _Fields) -> Metric:
    name, query = raw.text("name"), raw.text("query", "")
    if not query and name not in BUILT_IN:
        raw.refuse("query", "it is missing", f"write a query; the names of built-in queries are {', '.join(BUILT_IN)}")
    bounds = raw.read_bound("min"), raw.read_bound("max")
    if bounds == (None, None):
        if query:
            raw.refuse("min", "a threshold is missing", "give `min`, `max` or both")
        bounds = BUILT_IN[name]
    return Metric(name, query, *bounds, raw.choice("noData", (FAIL, PASS)))


def _window(raw: _Fields) -> Window:
    window = Window(raw.time("notBefore"), raw.time("notAfter"))
    if window.not_before is not None and window.not_after is not None and window.not_after <= window.not_before:
        raw.refuse("notAfter", "it is not after notBefore", "write the later time")
    return window


_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)", re.ASCII)


def read_time(text: Any) -> float | None:
    """Return the seconds since 1970 of a time of RFC 3339; None if it is not one."""
    if not isinstance(text, str) or not _TIME.fullmatch(text):
        return None
    try:
        return dt.datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None


class _Fields:
    """A mapping of the document, which refuses unknown keys and reads values by their type."""

    def __init__(self, raw: Any, where: str, known: Collection[str] = ()) -> None:
        self.where = where
        if not isinstance(raw, dict):
            raise ConfigError("it is not a mapping", where=where, hint=_EXAMPLE)
        self._raw = raw
        unknown = [key for key in raw if known and key not in known]
        if unknown:
            raise ConfigError(f"unknown key `{unknown[0]}`", where=where, hint=f"known are {', '.join(known)}")

    def get(self, key: str, default: Any = None) -> Any:
        value = self._raw.get(key)
        return default if value is None else value

    def refuse(self, key: str, what: str, hint: str) -> NoReturn:
        raise ConfigError(what, where=f"{self.where}.{key}", hint=hint)

    def part(self, key: str, known: Collection[str]) -> _Fields:
        where = f"{self.where}: {key}" if key == "spec" else f"{self.where}.{key}"
        return _Fields(self.get(key, {}), where, known)

    def parts(self, key: str, known: Collection[str]) -> list[_Fields]:
        parts = self.get(key, [])
        if not isinstance(parts, list):
            self.refuse(key, "it is not a list", _EXAMPLE)
        return [_Fields(part, f"{self.where}.{key}[{index}]", known) for index, part in enumerate(parts)]

    def text(self, key: str, default: str | None = None) -> str:
        value = self.get(key, default)
        if not isinstance(value, str):
            self.refuse(key, "it is missing" if value is None else f"it is {value!r}", "write a text; quote a number")
        if not value.isprintable() and key != "query":
            self.refuse(key, "it has a control character", "write printable text")
        return value

    def name(self, key: str, kind: str, default: str | None = None) -> str:
        value = self.text(key, default)
        return value if value == default else check_name(value, where=f"{self.where}.{key}", kind=kind)

    def choice(self, key: str, choices: tuple[str, ...]) -> str:
        value = self.text(key, choices[0])
        if value not in choices:
            self.refuse(key, f"it is {value!r}", f"write {' or '.join(choices)}")
        return value

    def flag(self, key: str, *, default: bool = False) -> bool:
        value = self.get(key, default=default)
        if not isinstance(value, bool):
            self.refuse(key, f"it is {value!r}", "write true or false")
        return value

    def number(self, key: str, default: int, *, minimum: int = 1, maximum: int = 1_000_000) -> int:
        value = self.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or not minimum <= value <= maximum:
            self.refuse(key, f"it is {value!r}", f"write a whole number from {minimum} to {maximum}")
        return value

    def read_bound(self, key: str) -> float | None:
        value = self.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.refuse(key, f"it is {value!r}", "write a number")
        return float(value)

    def duration(self, key: str, default: float) -> float:
        value = self.get(key)
        if value is None:
            return default
        try:
            seconds = parse_duration(value) / _SECONDS if isinstance(value, str) else -1.0
        except ValueError:
            seconds = -1.0
        if seconds < 0:
            self.refuse(key, f"it is {value!r}", "write a duration such as 90s, 5m or 24h")
        return seconds

    def time(self, key: str) -> float | None:
        value = self.get(key)
        time = read_time(value)
        if value is not None and time is None:
            self.refuse(key, f"it is {value!r}", "write a time such as 2026-03-01T22:00:00Z")
        return time
