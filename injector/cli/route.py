"""From a pod's labels, a webhook's path or a name to the revision that gets the pod: the first steps of `explain`.

Nothing is built here: a revision's raw texts come out. Which webhook is called is told by ``istio.webhookselectors``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from injector.cli.selection import REVISION_FLAG, picked
from injector.errors import UsageError
from injector.injection.trace import PASSED, SKIP, SKIPPED, Step, Trace, ended, refused
from injector.istio.webhookselectors import INJECT, called, passed_over, webhooks_of, why_none
from injector.revisions.directory import TAGS_FILE
from injector.revisions.registry import DEFAULT_REVISION, default_name
from injector.revisions.tags import usable_tags
from injector.revisions.weights import chosen

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from injector.istio.webhookselectors import Webhook
    from injector.revisions.source import RawRevision, SourceState
    from injector.revisions.tags import Tag

WEBHOOK: Final = "webhook"
TAG: Final = "tag"
REVISION: Final = "revision"
NO_WEBHOOK: Final = "no_webhook"
_SELECTORS: Final = "selectors of Istio's own webhooks"


@dataclass(frozen=True, slots=True)
class Asked:
    """What the flags ask for: the name of a revision or tag, empty for the default; None leaves it to the pod's labels.

    ``flag`` is the one that says so, ``envs`` what a path adds to the proxy's environment.
    """

    name: str | None = None
    flag: str = ""
    envs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Labels:
    """What tells where a pod goes.

    ``declared`` are its annotations, which no selector sees; ``workload`` is what a tag with weights chooses by.
    """

    namespace: Mapping[str, str]
    pod: Mapping[str, str]
    declared: Mapping[str, str] = field(default_factory=dict)
    workload: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Call:
    """A webhook that is called: the step that says so, the name that it asks for, empty for the default, and its path's pairs.

    ``strict`` lets a name that nothing has be the user's error rather than a refusal.
    """

    step: Step
    name: str
    envs: Mapping[str, str] = field(default_factory=dict)
    strict: bool = False


@dataclass(frozen=True, slots=True)
class Routed:
    """The revision that gets the pod, the tag that led to it if one did, what its webhook's path adds, and the steps so far."""

    raw: RawRevision
    tag: str | None
    steps: tuple[Step, ...]
    envs: Mapping[str, str] = field(default_factory=dict)


def route(state: SourceState, asked: Asked, labels: Labels, *, where: str) -> Routed | Trace:
    """Return which of the source's revisions gets a pod, by Istio's own webhooks; the whole trace where none does.

    Raises:
        UsageError: ``--revision`` names nothing that is there.
        DataError: the tags cannot be read, or the revision is there and cannot be.
    """
    if state.tags_error is not None:
        raise state.tags_error
    names = {raw.name for raw in state.revisions} | set(state.failures)
    default = default_name(names, state.tags, stated=state.default)
    webhook, name = _webhook(_served(names, state, default), asked, labels)
    if name is None:
        return uncalled(webhook, _SELECTORS)
    call = Call(webhook, name, asked.envs, strict=asked.flag == REVISION_FLAG)
    return resolved(state, call, labels.workload, where=where, tags_where=f"{where}/{TAGS_FILE}")


def uncalled(webhook: Step, source: str) -> Trace:
    """Return the trace of a pod that no webhook is called for."""
    detail = "not injected: the API server calls no webhook for the pod"
    return ended(SKIPPED, NO_WEBHOOK, detail, source).after(webhook)


def resolved(state: SourceState, call: Call, workload: Sequence[str], *, where: str, tags_where: str) -> Routed | Trace:
    """Return the revision that answers a webhook's call for a workload; the whole trace where none does.

    Raises:
        UsageError: the call is strict, and names nothing that is there.
        DataError: the revision is there and cannot be read.
    """
    names = {raw.name for raw in state.revisions} | set(state.failures)
    name = call.name
    if name == DEFAULT_REVISION and name not in {*names, *state.tags}:
        name = ""  # no revision or tag is called so: the webhook's path is the one without a name
    wanted = name or default_name(names, state.tags, stated=state.default) or ""
    usable, faults = usable_tags({key: tag for key, tag in state.tags.items() if key == wanted}, names)
    if wanted in state.tags and wanted not in usable:
        return refused(TAG, str(faults[0]), tags_where).after(call.step)
    target, said = _target(state.tags.get(wanted), wanted, workload)
    lead = "" if name else f"no name asks for the default, {wanted or 'which nothing is'}; "
    steps = (call.step, Step(TAG, PASSED, f"{lead}{said}".removesuffix("; "), tags_where))
    try:
        raw = picked(state, target, where=where)
    except UsageError as error:
        if call.strict:
            raise
        return refused(REVISION, str(error), where).after(*steps)
    return Routed(raw, wanted if wanted in state.tags else None, steps, call.envs)


def _served(names: set[str], state: SourceState, default: str | None) -> list[str]:
    # Istio's webhooks for `default` are there wherever something is the default, whatever its name.
    return sorted(names | set(state.tags) | ({DEFAULT_REVISION} if default else set()))


def _webhook(served: list[str], asked: Asked, labels: Labels) -> tuple[Step, str | None]:
    """Return the step, and the name that the webhook is of; None where none is called."""
    if asked.name is not None:
        return _given(asked, labels), asked.name
    found = called(served, labels.namespace, labels.pod)
    if not found:
        detail = why_none(labels.namespace, labels.pod, served)
        return Step(WEBHOOK, SKIP, f"none is called: {detail}{_unseen(labels)}", _SELECTORS), None
    detail = "; ".join((_call(found[0].webhook, found[0].name, labels), *passed_over(labels.namespace, labels.pod)))
    return Step(WEBHOOK, PASSED, detail, _SELECTORS), found[0].name


def _call(webhook: Webhook, name: str, labels: Labels) -> str:
    return f"{webhook.name} of {name} is called for {' and '.join(webhook.asked_by(labels.namespace, labels.pod))}"


def _given(asked: Asked, labels: Labels) -> Step:
    """Return the step where a flag says which webhook called; the labels say whether Istio's own would have."""
    name = asked.name or DEFAULT_REVISION
    unmet = [(webhook, webhook.unmet(labels.namespace, labels.pod)) for webhook in webhooks_of(name)]
    nearest, missing = min(unmet, key=lambda pair: len(pair[1]))
    if not missing:
        return Step(WEBHOOK, PASSED, _call(nearest, name, labels), _SELECTORS)
    detail = f"taken as called; by the labels it is not: {nearest.name} of {name} wants {', '.join(missing)}"
    return Step(WEBHOOK, PASSED, detail, asked.flag)


def _unseen(labels: Labels) -> str:
    if INJECT in labels.declared and INJECT not in labels.pod:
        return f"; the annotation {INJECT} is seen by no selector, the label of that name is"
    return ""


def _target(tag: Tag | None, name: str, workload: Sequence[str]) -> tuple[str, str]:
    """Return the revision that a name means for a workload, as the registry resolves it, and that in words."""
    if tag is None:
        return name, f"{name} is no tag" if name else ""
    if tag.sole:
        return tag.revision, f"{name} is a tag of {tag.revision}"
    target = chosen(tag.weights, tag.salt or tag.name, workload)
    weights = ", ".join(f"{revision}: {weight}" for revision, weight in tag.weights)
    return target, f"{name} is a tag of {weights}; {'/'.join(workload)} gets {target}"
