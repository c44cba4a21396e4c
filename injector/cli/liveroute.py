"""From a pod's labels, by the webhooks of a cluster as they are, to the revision that gets the pod."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from injector.cli.route import WEBHOOK, Call, Routed, resolved, uncalled
from injector.errors import DataError
from injector.injection.trace import PASSED, SKIP, Step, Trace, refused
from injector.istio.webhookselectors import unserved, why_none
from injector.webhook.path import parse_path

if TYPE_CHECKING:
    from collections.abc import Iterable

    from injector.cli.route import Labels
    from injector.cli.surroundings import Surroundings
    from injector.istio.livewebhooks import LiveWebhook

SOURCE: Final = "the cluster's webhooks"


def live_route(around: Surroundings, labels: Labels) -> Routed | Trace:
    """Return which revision a pod with these labels gets; the whole trace where none does.

    Raises:
        DataError: the revision is there and cannot be read.
    """
    found = called_last(around.webhooks, labels)
    if found is None:
        return uncalled(_none_called(around.webhooks, labels), SOURCE)
    others = [each for each in around.webhooks if each is not found and each.calls(labels.namespace, labels.pod)]
    step = Step(WEBHOOK, PASSED, _described(found, others, labels), _object(found))
    try:
        parsed = parse_path(found.path)
    except DataError as error:
        return refused(WEBHOOK, str(error), _object(found)).after(step)
    call = Call(step, parsed.name or found.revision, parsed.envs)
    revisions = around.revisions
    return resolved(revisions.state, call, labels.workload, where=revisions.where, tags_where=revisions.tags_where)


def called_last(webhooks: Iterable[LiveWebhook], labels: Labels) -> LiveWebhook | None:
    """Return the webhook that decides: of several that are called, the last one injects anew what the others did."""
    called = [each for each in webhooks if each.calls(labels.namespace, labels.pod)]
    return called[-1] if called else None


def served_names(webhooks: Iterable[LiveWebhook]) -> frozenset[str]:
    """Return the revisions and tags that a cluster has webhooks for."""
    return frozenset(_name(each) for each in webhooks)


def asked_name(webhooks: Iterable[LiveWebhook], labels: Labels) -> str | None:
    """Return the revision or tag that is asked for: by the webhook that is called, or by labels that no webhook is for."""
    webhooks = tuple(webhooks)
    found = called_last(webhooks, labels)
    return _name(found) if found is not None else unserved(labels.namespace, labels.pod, served_names(webhooks))


def _name(webhook: LiveWebhook) -> str:
    try:
        named = parse_path(webhook.path).name
    except DataError:
        named = ""
    return named or webhook.tag or webhook.revision


def _none_called(webhooks: tuple[LiveWebhook, ...], labels: Labels) -> Step:
    if not webhooks:
        return Step(WEBHOOK, SKIP, "none is called: no webhook of the cluster calls an injector", SOURCE)
    unmet = [(each, each.webhook.unmet(labels.namespace, labels.pod)) for each in webhooks]
    nearest, missing = min(unmet, key=lambda pair: len(pair[1]))
    why = why_none(labels.namespace, labels.pod, served_names(webhooks))
    detail = f"none is called: {why}; nearest is {_titled(nearest)}, which wants {', '.join(missing)}"
    return Step(WEBHOOK, SKIP, detail, SOURCE)


def _described(found: LiveWebhook, others: list[LiveWebhook], labels: Labels) -> str:
    asked = " and ".join(found.webhook.asked_by(labels.namespace, labels.pod)) or "every pod of its selectors"
    said = [f"{_titled(found)} is called for {asked}, with path {found.path}"]
    if others:
        said.append(f"before it {', '.join(map(_titled, others))}, whose injection it takes the place of")
    if found.conditional:
        said.append("its matchConditions are not judged here")
    return "; ".join(said)


def _titled(webhook: LiveWebhook) -> str:
    return f"{webhook.webhook.name} of {webhook.configuration}"


def _object(webhook: LiveWebhook) -> str:
    return f"MutatingWebhookConfiguration {webhook.configuration}"
