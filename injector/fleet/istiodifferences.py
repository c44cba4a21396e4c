"""The documented differences from Istio that can be recognised in the answers to one pod; see docs/compatibility.md."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from injector.errors import BreakOutError, InvalidPodError
from injector.injection import containers as c
from injector.injection.result import Injected, Unanswered
from injector.injection.steps.overrides import OVERRIDES
from injector.injection.steps.status import STATUS
from injector.istio.annotations import PROXY_CONFIG
from injector.istio.behaviours import format_minor
from injector.istio.labels import TEMPLATES

if TYPE_CHECKING:
    from injector.injection.result import Answer
    from injector.injection.tools.podchanges import Change
    from injector.istio.revision import Revision

_GOGO: Final = (1, 12)
"""The last minor whose mesh config gogo/protobuf reads."""
_KEEPS_DELETED: Final = (1, 18)
_LOSES_DURATIONS: Final = (1, 14)
_LISTS: Final = ("containers", "initContainers")
_ENV: Final = frozenset({"env"})


@dataclass(frozen=True, slots=True)
class _Pair:
    """The answers of an istiod and of this injector to a pod."""

    revision: Revision
    pod: c.Pod
    theirs: Answer
    ours: Answer

    @property
    def proxy_config(self) -> str:
        return c.annotations_of(self.pod).get(PROXY_CONFIG, "")

    @property
    def minor(self) -> tuple[int, int]:
        return self.revision.minor


@dataclass(frozen=True, slots=True)
class _Difference:
    """A documented difference: its reason, whether it applies to a pod, and the kinds of its changes; empty for any kind."""

    reason: str
    applies: Callable[[_Pair], bool]
    kinds: frozenset[str] = frozenset()


def _is_refused_here(pair: _Pair) -> bool:
    return isinstance(pair.theirs, Injected) and isinstance(pair.ours, InvalidPodError)


def _breaks_out(pair: _Pair) -> bool:
    return isinstance(pair.theirs, Injected) and isinstance(pair.ours, BreakOutError)


def _has_two_proxies(pair: _Pair) -> bool:
    pods = [pair.pod, *([pair.ours.shared_pod] if isinstance(pair.ours, Injected) else [])]
    return any(all(c.find(c.PROXY, c.containers_of(pod, kind)) is not None for kind in _LISTS) for pod in pods)


def _keeps_deleted(pair: _Pair) -> bool:
    return pair.minor <= _KEEPS_DELETED and "$patch: delete" in _template_texts(pair.revision, pair.pod)


def _is_second_injection(pair: _Pair) -> bool:
    if STATUS not in c.annotations_of(pair.pod):
        return False
    if isinstance(pair.theirs, Unanswered):
        return True
    if not isinstance(pair.theirs, Injected) or not isinstance(pair.ours, Injected):
        return False
    return _as_injected_once(pair.theirs.shared_pod) == _as_injected_once(pair.ours.shared_pod)


def _loses_only_label(pair: _Pair) -> bool:
    if not isinstance(pair.theirs, Injected) or not isinstance(pair.ours, Injected):
        return False
    before, after = c.labels_of(pair.theirs.shared_pod), c.labels_of(pair.ours.shared_pod)
    return pair.revision.behaviours.hides_deployment_config and before == {
        key: value for key, value in after.items() if key != "deploymentconfig"
    }


DIFFERENCES: Final = (
    _Difference(
        "the guard refuses a value of the pod that breaks out of the template, which Istio does not check", _breaks_out
    ),
    _Difference("the API server would refuse the pod that Istio makes, too", _is_refused_here),
    _Difference("Istio loses the sign of -0.0", lambda pair: "-0.0" in pair.proxy_config, _ENV),
    _Difference(
        "gogo/protobuf takes the text null for a number that is not set",
        lambda pair: pair.minor <= _GOGO and re.search(r"""["']null["']""", pair.proxy_config) is not None,
    ),
    _Difference(
        "Istio 1.14 replaces durations from 1.14.5 on",
        lambda pair: pair.minor == _LOSES_DURATIONS and re.search("(?i)duration", pair.proxy_config) is not None,
        _ENV,
    ),
    _Difference(
        f"up to Istio {format_minor(_KEEPS_DELETED)}, an item to delete that is not there stays with its name only",
        _keeps_deleted,
    ),
    _Difference("Istio drops one of two containers named istio-proxy", _has_two_proxies),
    _Difference(
        "in a second injection, Istio forgets the user's settings, or takes its own probes for the application's",
        _is_second_injection,
    ),
    _Difference(
        "Istio deletes the only label of a pod of a DeploymentConfig", _loses_only_label, frozenset({"metadata"})
    ),
)


def documented_difference(
    revision: Revision, pod: Mapping[str, Any], theirs: Answer, ours: Answer, changes: Sequence[Change]
) -> str:
    """Return why the answers of an istiod and of this injector differ by ``changes``; empty if no documented difference explains them."""
    pair, kinds = _Pair(revision, dict(pod), theirs, ours), {change.kind for change in changes}
    return next(
        (
            difference.reason
            for difference in DIFFERENCES
            if (not difference.kinds or kinds <= difference.kinds) and difference.applies(pair)
        ),
        "",
    )


def _template_texts(revision: Revision, pod: c.Pod) -> str:
    """Return the texts of the templates that a pod gets."""
    config, named = revision.config, c.annotations_of(pod).get(TEMPLATES)
    names = config.default_templates if named is None else [name.strip() for name in named.split(",")]
    return "".join(config.templates.get(part, "") for name in names for part in config.aliases.get(name, (name,)))


def _as_injected_once(pod: c.Pod) -> c.Pod:
    """Return a pod without what a second injection records in another way."""
    result = deepcopy(pod)
    result.get("metadata", {}).get("annotations", {}).pop(OVERRIDES, None)
    for container in (item for kind in _LISTS for item in result.get("spec", {}).get(kind) or ()):
        container["env"] = [entry for entry in container.get("env") or () if entry["name"] != "ISTIO_KUBE_APP_PROBERS"]
        if "-u" in (arguments := container.get("args") or [])[:-1]:
            arguments[arguments.index("-u") + 1] = ""
    return result
