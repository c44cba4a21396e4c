"""Labels and annotations that are meant for the injector, and that it does not read: misspelt, at another place, or with another value.

Follows the selectors of Istio's webhooks (``webhooks.configurations``) and ``injectRequired`` in pkg/kube/inject/inject.go (1.30.3).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Final, NamedTuple

from injector.golang.strconv import quote
from injector.istio.labels import DATAPLANE_MODE, INJECT_LABEL, INJECTION_LABEL, REVISION_LABEL, Labels

LABELS: Final = "labels"
ANNOTATIONS: Final = "annotations"

_NAMESPACE_LABELS: Final = (INJECTION_LABEL, REVISION_LABEL, DATAPLANE_MODE)
_POD_LABELS: Final = (INJECT_LABEL, REVISION_LABEL, DATAPLANE_MODE)
_INJECT: Final = (
    *("istio-inject", "istio.io/inject", "istio.io/injection", "istio.io/sidecar-inject", "istio.io/sidecar-injection"),
    *(
        "istio-sidecar-inject",
        "istio-sidecar-injection",
        "sidecar.istio.io/injection",
        "sidecar-injector.istio.io/inject",
    ),
)
"""Names that are often written in place of those that ask for injection."""
_REVISION: Final = (
    *("istio-rev", "istio-revision", "istio.io/revision", "sidecar.istio.io/rev", "sidecar.istio.io/revision"),
)
_FALSE: Final = frozenset({"", "0", "disable", "disabled", "f", "false", "n", "no", "off"})
_SHORT: Final = 12
_LONG: Final = 16
"""A name of ``_SHORT`` letters may have one wrong letter, one of ``_LONG`` letters two, and a shorter one none."""


class NearMiss(NamedTuple):
    """A code of ``analysis.MESSAGES``, and the texts for its sentence."""

    code: str
    texts: tuple[str, ...]


def misspelt(
    place: str, names: Collection[str], known: Collection[str], *, of_namespace: bool = False
) -> Iterator[NearMiss]:
    """Yield the names of labels or annotations at a place that are none of the ``known``, but that resemble one that counts there."""
    asking = INJECTION_LABEL if of_namespace else INJECT_LABEL
    counting: Collection[str] = _NAMESPACE_LABELS if of_namespace else _POD_LABELS
    if place.endswith(ANNOTATIONS):
        counting = known
    spellings = {name: name for name in sorted(counting)} | dict.fromkeys(
        (INJECT_LABEL, INJECTION_LABEL, *_INJECT), asking
    )
    if not place.endswith(ANNOTATIONS):
        spellings |= dict.fromkeys(_REVISION, REVISION_LABEL)
    for name in names:
        if name in known or name in _NAMESPACE_LABELS or name in _POD_LABELS:
            continue
        letters = _letters(name)
        similar = [spelling for spelling in spellings if _letters(spelling) == letters]
        similar = similar or [spelling for spelling in spellings if _is_near(name, spelling)]
        if similar:
            yield NearMiss("INJ0008", (f"{place}[{name}]", spellings[similar[0]]))


def _letters(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _is_near(name: str, other: str) -> bool:
    """Return whether a few letters are wrong, missing, too many, or two of them swapped."""
    most = 0 if len(other) < _SHORT else 1 if len(other) < _LONG else 2
    if abs(len(name) - len(other)) > most:
        return False
    before: list[int] = []
    last = list(range(len(other) + 1))
    for row, letter in enumerate(name, 1):
        current = [row]
        for column, wanted in enumerate(other, 1):
            cost = min(last[column] + 1, current[-1] + 1, last[column - 1] + (letter != wanted))
            if row > 1 and column > 1 and letter == other[column - 2] and name[row - 2] == wanted:
                cost = min(cost, before[column - 2] + 1)
            current.append(cost)
        before, last = last, current
    return last[-1] <= most


def misplaced_of_namespace(labels: Labels, annotations: Labels) -> Iterator[NearMiss]:
    """Yield the labels and annotations of a namespace that count elsewhere."""
    if INJECT_LABEL in labels:
        place = f"metadata.labels[{INJECT_LABEL}]"
        yield NearMiss(
            "INJ0009", (place, "a label of pods", f"label the namespace with {INJECTION_LABEL} or {REVISION_LABEL}")
        )
    for name in (INJECTION_LABEL, REVISION_LABEL):
        if name in annotations and name not in labels:
            yield NearMiss("INJ0009", (f"metadata.annotations[{name}]", "a label", "write it into metadata.labels"))


def misplaced_of_pod(template: str, labels: Labels, annotations: Labels) -> Iterator[NearMiss]:
    """Yield the labels and annotations of a pod, or of a pod template at a path, that count elsewhere."""
    metadata = f"{template}.metadata".removeprefix(".")
    remedy = f"label the namespace, or the pod with {INJECT_LABEL}"
    for kind, names in ((LABELS, labels), (ANNOTATIONS, annotations)):
        if INJECTION_LABEL in names and INJECT_LABEL not in labels:
            yield NearMiss("INJ0009", (f"{metadata}.{kind}[{INJECTION_LABEL}]", "a label of namespaces", remedy))


def misplaced_around(
    path: str, names: Mapping[str, Labels], template: str, pod: Mapping[str, Labels], pod_annotations: Collection[str]
) -> Iterator[NearMiss]:
    """Yield the labels and annotations of a workload, or of a CronJob's Jobs, that its pods do not have.

    ``names`` are those at ``path``, ``pod`` those of the pod template, by ``LABELS`` and ``ANNOTATIONS``. Istio's own messages tell of the
    workload's own annotations.
    """
    inner = f"{template}.metadata"
    for name in (INJECT_LABEL, REVISION_LABEL, INJECTION_LABEL):
        if name in names[LABELS] and not {name, INJECT_LABEL} & {*pod[LABELS], *pod[ANNOTATIONS]}:
            what = "a label of namespaces" if name == INJECTION_LABEL else "a label of pods"
            right = INJECT_LABEL if name == INJECTION_LABEL else name
            yield NearMiss("INJ0009", (f"{path}.labels[{name}]", what, f"write {right} into {inner}.labels"))
    if path == "metadata":
        return
    for name in names[ANNOTATIONS]:
        if name in pod_annotations and name not in {*pod[ANNOTATIONS], *pod[LABELS]}:
            remedy = f"write it into {inner}.{LABELS if name == INJECT_LABEL else ANNOTATIONS}"
            yield NearMiss("INJ0009", (f"{path}.annotations[{name}]", "an annotation of pods", remedy))


def value_of_namespace(labels: Labels) -> Iterator[NearMiss]:
    """Yield the label of a namespace that is meant to ask for injection, and that no webhook is called for."""
    value = labels.get(INJECTION_LABEL, "")
    if value != "enabled" and asks(value):
        place = f"metadata.labels[{INJECTION_LABEL}]"
        remedy = f"write {INJECTION_LABEL}=enabled, or {REVISION_LABEL} with the name of a revision alone"
        yield NearMiss("INJ0010", (place, quote(value), "only `enabled` asks for injection", remedy))


def value_of_pod(template: str, labels: Labels, annotations: Labels) -> Iterator[NearMiss]:
    """Yield the label or annotation of a pod that no webhook is called for, although the label ``true`` would call one."""
    label, annotation = labels.get(INJECT_LABEL), annotations.get(INJECT_LABEL)
    if label is not None and label != "true" and asks(label):
        what = "only `true` calls a webhook for pods of this namespace"
        yield _value_fault(template, LABELS, label, what, "true")
    elif label is None and annotation is not None and asks(annotation):
        yield _value_fault(template, ANNOTATIONS, annotation, "an annotation calls no webhook", "true")


def decided_value_of_pod(
    template: str, labels: Labels, annotations: Labels, *, is_injected: bool
) -> Iterator[NearMiss]:
    """Yield the label or annotation of a pod that is not read as it is meant: the webhook is called, and injects or not."""
    kind, names = (LABELS, labels) if INJECT_LABEL in labels else (ANNOTATIONS, annotations)
    value = names.get(INJECT_LABEL)
    if value in (None, "", "true", "false"):
        return
    if asks(value) and not is_injected:
        yield _value_fault(template, kind, value, "only `true` asks for injection", "true")
    elif not asks(value) and is_injected:
        yield _value_fault(template, kind, value, "only `false` refuses injection", "false")


def _value_fault(template: str, kind: str, value: str, what: str, right: str) -> NearMiss:
    place = f"{template}.metadata.{kind}[{INJECT_LABEL}]".removeprefix(".")
    return NearMiss("INJ0010", (place, quote(value), what, f'write the label {INJECT_LABEL}: "{right}"'))


def asks(value: str) -> bool:
    """Return whether a value is meant to ask for injection: it is not one of the usual words for no."""
    return value.lower() not in _FALSE
