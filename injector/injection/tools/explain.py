"""Why a pod is or is not injected: the steps of one injection with their results, for `explain`.

Nothing is decided here: ``policy`` has the rules and ``pipeline`` checks and injects.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from injector.errors import AnnotationError, BreakOutError, DataError, InvalidPodError
from injector.injection import containers as c
from injector.injection.pipeline import admitted_pod, check_pod_security, inject_admitted, validate
from injector.injection.policy import Verdict, verdicts
from injector.injection.render import select_templates
from injector.injection.result import OFF, Injected, RequestFacts, Skipped
from injector.istio.annotations import PROXY_CONFIG, checked_annotations
from injector.istio.labels import TEMPLATES
from injector.kube.podsecurity import LEVELS, PREFIX, PRIVILEGED, enforced_level, level_of, violations, warned_level

if TYPE_CHECKING:
    from injector.istio.revision import Revision

PASSED: Final = "passed"
INJECT: Final = "inject"
SKIP: Final = "skip"
OVERRULED: Final = "overruled"
REFUSE: Final = "refuse"
WARNING: Final = "warning"
UNKNOWN: Final = "unknown"
"""The verdicts of a step: not decided, inject, skip, overruled by an earlier step, the pod is refused, it may fail or would be refused by a
guard that enforces, or not known."""

INJECTED: Final = "injected"
SKIPPED: Final = "skipped"
REFUSED: Final = "refused"

VALIDATION: Final = "validation"
PROXY_CONFIGS_STEP: Final = "proxy_configs"
SELECTION: Final = "templates"
RENDER: Final = "render"
GUARD: Final = "guard"
INVALID: Final = "pod_validation"
POD_SECURITY_STEP: Final = "pod_security"
RESULT: Final = "result"
_ANNOTATIONS: Final = "metadata.annotations"
_RESOURCES: Final = "ProxyConfig resources"
_POLICY: Final = f"the namespace's labels {PREFIX}*"
_LISTS: Final = ("initContainers", "containers")


@dataclass(frozen=True, slots=True)
class Step:
    """One step: its name, its verdict and the reason, and the place where it is configured."""

    step: str
    verdict: str
    detail: str
    source: str


@dataclass(frozen=True, slots=True)
class Decision:
    """The steps of one injection, the last of them its result.

    ``outcome`` is injected, skipped, refused or unknown; ``reason`` is the rule that decided, as in metrics, or the step that refused.
    """

    steps: tuple[Step, ...]
    outcome: str
    reason: str

    def after(self, *steps: Step) -> Decision:
        """Return the decision with ``steps`` before its own."""
        return Decision((*steps, *self.steps), self.outcome, self.reason)


def conclude(outcome: str, reason: str, detail: str, source: str) -> Decision:
    """Return a decision of the result alone."""
    return Decision((Step(RESULT, _VERDICTS[outcome], detail, source),), outcome, reason)


def explain_pod(
    revision: Revision, pod: dict[str, Any], facts: RequestFacts, labels: Mapping[str, str] | None = None
) -> Decision:
    """Return the decision of ``pod`` through the webhook of ``revision``, and through Pod Security.

    The ``labels`` of the namespace, if they are known, tell what Pod Security enforces. Raises ManifestError if the pod cannot be read.
    """
    return explain_answer(revision, pod, facts, labels)[0]


def explain_answer(
    revision: Revision, pod: dict[str, Any], facts: RequestFacts, labels: Mapping[str, str] | None = None
) -> tuple[Decision, Injected | Skipped | DataError]:
    """Return the decision with the answer of the webhook, without its patch. For arguments and errors, see ``explain_pod``."""
    admitted = admitted_pod(pod, facts.namespace)
    policy_verdicts = tuple(
        verdicts(revision.config.policy, revision.behaviours, admitted, admitted["metadata"].get("namespace", ""))
    )
    decision = next(verdict.decision for verdict in policy_verdicts if verdict.decision is not None)
    policy = tuple(_policy_steps(revision, policy_verdicts))
    if not decision.inject:
        skipped = conclude(SKIPPED, decision.reason, f"not injected: {decision.detail}", _source_of(revision))
        return skipped.after(*policy), Skipped(decision.reason, decision.detail)
    try:
        answer: Injected | Skipped | DataError = inject_admitted(revision, admitted, facts)
    except DataError as error:
        answer = error
    explained = _explain_injection(revision, admitted, answer, facts.guard, decision.reason, labels or {})
    return explained.after(*policy), answer


def _policy_steps(revision: Revision, policy_verdicts: tuple[Verdict, ...]) -> Iterator[Step]:
    decided = ""
    for step, place, silence, decision in policy_verdicts:
        source = f"{revision.origin}: {place}" if place.startswith("config: ") else place
        if decision is None:
            yield Step(step, PASSED, silence, source)
        elif decided:
            yield Step(step, OVERRULED, f"{decision.detail}; {decided} decided before", source)
        else:
            decided = step
            yield Step(step, INJECT if decision.inject else SKIP, decision.detail, source)


def _explain_injection(
    revision: Revision,
    admitted: c.Pod,
    answer: Injected | Skipped | DataError,
    guard: str,
    reason: str,
    labels: Mapping[str, str],
) -> Decision:
    try:
        validate(revision, admitted)
    except AnnotationError as error:
        return refuse(VALIDATION, str(error), _ANNOTATIONS)
    steps = [_validation(revision, admitted), *_proxy_configs(revision, admitted)]
    names, source = _selection(revision, admitted)
    known = all(name in revision.templates for name in names)
    if known:
        steps.append(Step(SELECTION, PASSED, ", ".join(names), source))
    match answer:
        case BreakOutError():
            return refuse(GUARD, str(answer), f"--guard {guard}").after(*steps)
        case InvalidPodError():
            return refuse(INVALID, str(answer), "k8s.io/kubernetes, ValidatePodCreate").after(*steps)
        case DataError():
            step, where = (RENDER, _source_of(revision)) if known else (SELECTION, source)
            return refuse(step, str(answer), where).after(*steps)
        case Skipped():  # pragma: no cover -- the policy decided the same before
            return conclude(SKIPPED, answer.reason, answer.detail, _source_of(revision)).after(*steps)
    steps.append(_guard(answer, guard))
    try:
        check_pod_security(answer.shared_pod, enforced_level(labels))
    except InvalidPodError as error:
        return refuse(POD_SECURITY_STEP, str(error), _POLICY).after(*steps)
    steps.append(_pod_security(admitted, answer.shared_pod, labels))
    return conclude(INJECTED, reason, _describe_added(admitted, answer.shared_pod), _source_of(revision)).after(*steps)


def _guard(result: Injected, guard: str) -> Step:
    unseen = "not looked for" if guard == OFF else "no value of the pod breaks out of the template"
    return Step(GUARD, WARNING if result.findings else PASSED, "; ".join(result.findings) or unseen, f"--guard {guard}")


def _pod_security(pod: c.Pod, injected: c.Pod, labels: Mapping[str, str]) -> Step:
    before, after = level_of(pod), level_of(injected)
    detail = f"the injected pod passes {after}, and passed {before} before"
    if before == after == PRIVILEGED:
        detail = f"the pod passes only {PRIVILEGED}, with and without the sidecar"
    elif before == after:
        detail = f"the pod passes {after}, with and without the sidecar"
    stricter = LEVELS[LEVELS.index(after) + 1 :]
    if stricter:
        wanted = before if before in stricter else stricter[0]
        detail += f"; for {wanted}: {', '.join(map(str, violations(injected, wanted)))}"
    fault = warned_level(labels).fault(injected)
    return Step(POD_SECURITY_STEP, WARNING if fault else PASSED, f"{detail}; {fault}" if fault else detail, _POLICY)


def _validation(revision: Revision, pod: c.Pod) -> Step:
    checked = checked_annotations(c.annotations_of(pod), revision.minor)
    detail = f"in order: {', '.join(checked)}" if checked else "the pod has none that this Istio checks"
    return Step(VALIDATION, PASSED, detail, _ANNOTATIONS)


def _proxy_configs(revision: Revision, pod: c.Pod) -> Iterator[Step]:
    """Yield a step with the ProxyConfig resources that apply to a pod, if there are any."""
    proxy_configs = revision.proxy_configs_of(pod["metadata"])
    if proxy_configs.below or proxy_configs.above:
        annotation = [f"the annotation {PROXY_CONFIG}"] if PROXY_CONFIG in c.annotations_of(pod) else []
        names = ", ".join([*map(str, proxy_configs.below), *annotation, *map(str, proxy_configs.above)])
        yield Step(PROXY_CONFIGS_STEP, PASSED, f"{names}: each overrides the ones before it", _RESOURCES)


def refuse(step: str, detail: str, source: str) -> Decision:
    """Return the decision of a pod that ``step`` refuses."""
    result = conclude(REFUSED, step, "refused: the API server does not create the pod", source)
    return result.after(Step(step, REFUSE, " ".join(detail.split()), source))


def _selection(revision: Revision, pod: c.Pod) -> tuple[tuple[str, ...], str]:
    """Return the names of the templates of a pod, and the place where they are chosen."""
    if revision.config.appends:  # up to 1.8 there is one template, and no annotation to choose another
        return tuple(revision.templates), f"{revision.origin}: config: template"
    names = select_templates(revision, pod, revision.config.default_templates)
    asks = TEMPLATES in c.annotations_of(pod)
    return names, f"metadata.annotations[{TEMPLATES}]" if asks else f"{revision.origin}: config: defaultTemplates"


def _source_of(revision: Revision) -> str:
    return f"{revision.name}, Istio {revision.istio_version}"


def _describe_added(pod: c.Pod, injected: c.Pod) -> str:
    """Describe the added containers with their images."""
    added = [
        f"{item['name']} ({item.get('image', 'no image')})"
        for kind in _LISTS
        for item in c.containers_of(injected, kind)
        if "name" in item and c.find(item["name"], c.containers_of(pod, kind)) is None
    ]
    return f"injected: {', '.join(added)}" if added else "injected: no container that the pod did not have"


_VERDICTS: Final[Mapping[str, str]] = {INJECTED: INJECT, SKIPPED: SKIP, REFUSED: REFUSE, UNKNOWN: UNKNOWN}
