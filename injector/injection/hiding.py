"""Which values of a pod are never shown: those of env variables of the user's own containers, which may be secrets.

A container that an injection adds is Istio's; one that the user gave settings to, such as ``istio-proxy``, is the user's in the
variables that the user wrote.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from injector.injection import containers as c
from injector.injection.treediff import ABSENT, HIDDEN

if TYPE_CHECKING:
    from collections.abc import Mapping

HIDDEN_ANNOTATIONS: Final = frozenset({"kubectl.kubernetes.io/last-applied-configuration", "proxy.istio.io/overrides"})
"""Annotations that repeat containers, with their variables."""

_ISTIO: Final = frozenset({c.PROXY, c.INIT, c.VALIDATION, c.ENABLE_CORE_DUMP})
_LISTS: Final = ("initContainers", "containers", "ephemeralContainers")
# Shorter texts stand in any sentence by chance, and keep no secret.
_SHORTEST: Final = 4


@dataclass(frozen=True, slots=True)
class Variables:
    """The variables of one container that are hidden: those of ``names``, or all."""

    names: frozenset[str]
    every: bool = False

    def __contains__(self, name: str) -> bool:
        """Return whether the variable's value is hidden; a repeated variable's number does not count."""
        return self.every or name.partition("#")[0] in self.names

    def entry(self, entry: Any) -> Any:
        """Return what is shown of an entry of ``env``: where its value is from, or that it has one."""
        if entry is ABSENT:
            return ABSENT
        return {"valueFrom": entry["valueFrom"]} if entry.get("valueFrom") else HIDDEN


@dataclass(frozen=True, slots=True)
class Hiding:
    """What to hide in the injections of one pod."""

    by_container: Mapping[str, Variables]
    values: frozenset[str]

    def variables(self, container: str) -> Variables:
        """Return the hidden variables of the container of that name."""
        return self.by_container.get(container, _NONE)

    def container(self, container: c.Container) -> c.Container:
        """Return the container with its hidden values replaced."""
        hidden = self.variables(str(container.get("name", "")))
        if not container.get("env"):
            return container
        return {**container, "env": [self._entry(item, hidden) for item in container["env"]]}

    def pod(self, pod: c.Pod) -> c.Pod:
        """Return the pod with its hidden values replaced, for printing it whole."""
        spec = pod.get("spec") or {}
        lists = {kind: [self.container(item) for item in spec[kind]] for kind in _LISTS if spec.get(kind)}
        meta = dict(pod.get("metadata") or {})
        if meta.get("annotations"):
            meta["annotations"] = {
                key: HIDDEN if key in HIDDEN_ANNOTATIONS else value for key, value in meta["annotations"].items()
            }
        return {**pod, "metadata": meta, "spec": {**spec, **lists}}

    def without_values(self, text: str) -> str:
        """Return a message with the hidden values that it quotes replaced, the longest first."""
        for value in sorted(self.values, key=len, reverse=True):
            text = text.replace(value, HIDDEN)
        return text

    def _entry(self, item: dict[str, Any], hidden: Variables) -> dict[str, Any]:
        return {**item, "value": HIDDEN} if "value" in item and item.get("name", "") in hidden else item


def hiding_of(given: Mapping[str, Any]) -> Hiding:
    """Return what to hide in the injections of the pod ``given``."""
    own = [item for kind in _LISTS for item in c.containers_of(given, kind)]
    by_container: dict[str, Variables] = {}
    for item in own:
        name = str(item.get("name", ""))
        names = frozenset(str(entry.get("name", "")) for entry in item.get("env") or ())
        by_container[name] = Variables(names, every=name not in _ISTIO)
    values = (entry.get("value") for item in own for entry in item.get("env") or ())
    return Hiding(by_container, frozenset(value for value in values if value and len(value) >= _SHORTEST))


_NONE: Final = Variables(frozenset())
