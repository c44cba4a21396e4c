"""The answers of a running istiod to the pods of workloads, for comparisons with ours.

An istiod is asked as the API server asks it: with an AdmissionReview, at the address of the webhook of a revision or tag. The review is
for a dry run, and changes nothing. The patch is applied to the pod that was sent, and our injection starts from the same pod.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import copy
import time
import uuid
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

import jsonpatch

from injector.cluster.resources import SERVICES, WEBHOOKS, Scope
from injector.cluster.reviews import NoAnswerError, ReviewClient, WebhookAddress
from injector.cluster.session import open_session, run_for_result
from injector.errors import ClusterError, DataError, InvalidPodError, UsageError
from injector.fleet.istiodifferences import documented_difference
from injector.fleet.minors import read_istiod_minor
from injector.fleet.progress import Progress, no_progress
from injector.fleet.routing import find_called, pod_labels
from injector.golang.json import load_json
from injector.hints import EXAMPLES, count_of, did_you_mean, first_of
from injector.injection.pipeline import check_pod_security
from injector.injection.result import Injected, Skipped, Unanswered
from injector.injection.tools.podchanges import Change, changes, hiding_of
from injector.istio.labels import REVISION_LABEL, TAG_LABEL
from injector.istio.webhooks.paths import PATH_PREFIX, is_injectors
from injector.istio.webhooks.reading import LiveWebhook, LiveWebhooks, live_webhooks
from injector.kube.admission import V1
from injector.kube.escaping import escape_line
from injector.kube.podsecurity import UNRESTRICTED, LevelVersion, enforced_level
from injector.kube.typed import go_encode, normalise
from injector.revisions.names import parse_path

if TYPE_CHECKING:
    from pathlib import Path

    from injector.cluster.kubeconfig import Kubeconfig
    from injector.cluster.resources import ObjectReader
    from injector.fleet.compare import Comparer, Comparison, Side
    from injector.fleet.istiodoptions import IstiodOptions
    from injector.injection.result import Answer
    from injector.istio.behaviours import Minor
    from injector.kube.podtemplates import Created
    from injector.revisions.source import SourceState

T = TypeVar("T")

MAX_AT_ONCE: Final = 4
"""Reviews at once: istiod also serves the cluster, and answers about 200 reviews a second on one CPU."""
TOTAL_TIMEOUT: Final = 900.0
"""Seconds for all reviews of a command: at 100 a second, those of 90,000 workloads."""
_AT_A_TIME: Final = 16
"""The number of workloads whose reviews are sent together. If none of the first ones has an answer, no other is asked about."""
_ASKED_AGAIN: Final = 2
"""How often istiod is asked again about a pod that differs: what differs among its own answers is random."""
_MAX_DETAIL: Final = 400
"""The characters that are shown of a text that came in place of an answer. Values of the pod are hidden first."""
_PORT_NAME: Final = "https-webhook"
"""The name of the port in istiod's Service."""
_OPERATIONS: Final = frozenset({"add", "remove", "replace", "test"})
"""The operations that Istio's patches have. A few others could make a pod of any size."""


@dataclass(frozen=True, slots=True)
class Istiod:
    """The injector of an istiod: the webhooks of a revision or tag that lead to it, with their addresses.

    A configuration has several webhooks, which usually have one address. The one that is called for a pod counts, or else the first one.
    """

    name: str
    webhooks: LiveWebhooks
    addresses: tuple[WebhookAddress, ...]

    @property
    def where(self) -> str:
        """Its address, for people."""
        return str(self.addresses[0])

    @property
    def envs(self) -> Mapping[str, str]:
        """The variables of the proxy that its path sets."""
        path = self.addresses[0].path
        return parse_path(path).envs if is_injectors(path) else {}

    def address_for(self, workload: Created, namespace_labels: Mapping[str, str]) -> WebhookAddress:
        """Return the address that the API server would call for the pod of a workload."""
        called = find_called(self.webhooks, pod_labels(workload, namespace_labels))
        webhooks = list(self.webhooks)
        return self.addresses[webhooks.index(called[-1])] if called else self.addresses[0]


Addresses: TypeAlias = "tuple[Istiod | None, Istiod | None]"
"""The istiod of each side of a comparison; None for a side that this injector answers."""


async def find_istiod(reader: ObjectReader, name: str, targets: Sequence[str], options: IstiodOptions) -> Istiod:
    """Return the istiod of a revision or tag, or the one at the URL of the options.

    ``targets`` are the revisions that the name leads to, whose own webhooks count if those of a tag have been moved to this injector. If no
    webhook leads to an istiod, the Service of the revision counts.

    Raises:
        UsageError: no webhook has this name, or none of its webhooks leads to an istiod, and the revision has no Service.
        DataError: a configuration or the file with the CA cannot be read.
    """
    if options.url is not None:
        return istiod_at_url(name, options)
    configurations = await reader.all(Scope(WEBHOOKS), lambda item: item)
    webhooks = live_webhooks(configurations)
    of_name = [
        [webhook for webhook in webhooks if webhook.tag == name],
        *(
            [webhook for webhook in webhooks if webhook.revision == target and not webhook.tag]
            for target in dict.fromkeys((name, *targets))
        ),
    ]
    leading = next((group for group in of_name if group and not any(map(_leads_here, group))), None)
    hint = "give its address by --istiod-url"
    if leading is None:
        no_service = "no Service is that of an istiod of this name"
        try:
            address = await _address_of_service(reader, (name, *targets))
        except ClusterError as error:
            address, no_service = None, f"Services cannot be listed: {error.what}"
        if address is not None:
            return Istiod(name, LiveWebhooks(()), (address,))
    if not any(of_name):
        names = sorted({webhook.tag or webhook.revision for webhook in webhooks} - {""})
        known = f"webhooks have the names {first_of(names)}" if names else "no webhook calls an injector"
        what = f'no webhook of the cluster has the revision or tag "{name}"{did_you_mean(name, names)}'
        raise UsageError(what, hint=f"{known}; or {hint}")
    if leading is None:
        webhook = next(group for group in of_name if group)[0]
        what = f"it calls this injector, by path {webhook.path}, and {no_service}"
        raise UsageError(what, where=f"MutatingWebhookConfiguration {webhook.configuration}", hint=hint)
    first = [webhook for webhook in leading if webhook.configuration == leading[0].configuration]
    clients = {
        (configuration["metadata"]["name"], raw["name"]): raw["clientConfig"]
        for configuration in configurations
        for raw in configuration.get("webhooks") or ()
    }
    addresses = tuple(_address(webhook, clients[webhook.configuration, webhook.name]) for webhook in first)
    return Istiod(name, LiveWebhooks(first), addresses)


def istiod_at_url(name: str, options: IstiodOptions) -> Istiod:
    """Return the istiod at the URL of the options. Raises DataError if the file with the CA cannot be read."""
    from yarl import URL  # noqa: PLC0415 -- aiohttp's

    url = URL(options.url or "")
    if url.path in ("", "/"):
        url = url.with_path(PATH_PREFIX)
    address = WebhookAddress(url.raw_path, url=str(url), ca=_read_ca(options.ca))
    return Istiod(name, LiveWebhooks(()), (address,))


def _read_ca(path: Path | None) -> str:
    if path is None:
        return ""
    try:
        return path.read_text(encoding="ascii")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", "") or "not PEM"
        raise DataError(f"cannot be read: {reason}", where=str(path), hint="give a file of PEM certificates") from error


def _leads_here(webhook: LiveWebhook) -> bool:
    """Return whether a webhook has a path with a name, which only this injector has."""
    try:
        return is_injectors(webhook.path) and bool(parse_path(webhook.path).name)
    except DataError:
        return False


async def _address_of_service(reader: ObjectReader, revisions: Sequence[str]) -> WebhookAddress | None:
    """Return the address of the Service that Istio's installer writes for one of the revisions; None if there is none."""
    for revision in revisions:
        scope = Scope(SERVICES, labels=f"app=istiod,{REVISION_LABEL}={revision},!{TAG_LABEL}")
        services = await reader.all(scope, lambda item: item)
        if services:
            meta = services[0]["metadata"]
            ports = (services[0].get("spec") or {}).get("ports") or ()
            port = next((int(port["port"]) for port in ports if port.get("name") == _PORT_NAME), 443)
            return WebhookAddress(PATH_PREFIX, meta["name"], meta["namespace"], port)
    return None


def _address(webhook: LiveWebhook, client: Mapping[str, Any]) -> WebhookAddress:
    if webhook.service is not None:
        port = int(client["service"].get("port") or 443)
        return WebhookAddress(webhook.path or "/", webhook.service.name, webhook.service.namespace, port)
    try:
        bundle = base64.b64decode(client.get("caBundle") or "", validate=True).decode("ascii")
    except (binascii.Error, ValueError) as error:
        where = f"MutatingWebhookConfiguration {webhook.configuration}: caBundle"
        raise DataError("not PEM in base64", where=where, hint="correct it, or give --istiod-url") from error
    return WebhookAddress(webhook.path, url=str(client["url"]), ca=bundle)


def review_of(workload: Created, uid: str) -> dict[str, Any]:
    """Return the review of the API server for the pod of a workload, for a dry run."""
    pods = {"group": "", "version": "v1", "resource": "pods"}
    kind = {"group": "", "version": "v1", "kind": "Pod"}
    request = {
        "uid": uid,
        "kind": kind,
        "resource": pods,
        "requestKind": kind,
        "requestResource": pods,
        "namespace": workload.namespace,
        "operation": "CREATE",
        "userInfo": {},
        "object": workload.pod,
        "oldObject": None,
        "dryRun": True,
        "options": {"apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions"},
    }
    return {"apiVersion": V1, "kind": "AdmissionReview", "request": request}


def read_answer(pod: Mapping[str, Any], uid: str, text: bytes) -> Answer:
    """Return the answer of a webhook to the review ``uid`` of a pod. Raises NoAnswerError if it is not an answer to this review.

    Follows ``VerifyAdmissionResponse`` (k8s.io/apiserver 0.35, pkg/admission/plugin/webhook/request): the API server refuses an answer in
    another version, and a patch without its type.
    """
    try:
        review = load_json(text)
    except DataError as error:
        raise NoAnswerError(f"its answer is not JSON: {error.what}") from error
    response = review.get("response") if isinstance(review, dict) and review.get("kind") == "AdmissionReview" else None
    if not isinstance(response, dict) or not isinstance(response.get("allowed"), bool):
        raise NoAnswerError("its answer is not an AdmissionReview with a response")
    if review.get("apiVersion") != V1:
        raise NoAnswerError(f"its answer is not one of {V1}, in which it was asked")
    if response.get("uid") != uid:
        raise NoAnswerError("its answer is to another review: the uid differs")
    if not response["allowed"]:
        status = response.get("status")
        message = status.get("message") if isinstance(status, dict) else None
        return InvalidPodError(str(message or "it gives no reason"), where="istiod")
    if not response.get("patch"):
        return Skipped("istiod", "istiod leaves the pod as it is")
    # An injection that changes nothing, as the second one of a pod, has an empty patch.
    return Injected(as_served(_apply(pod, _operations(response))), b"[]", ())


def _operations(response: Mapping[str, Any]) -> list[dict[str, Any]]:
    if response.get("patchType") != "JSONPatch":
        raise NoAnswerError("its patch is not a JSON patch")
    try:
        operations = load_json(base64.b64decode(response["patch"], validate=True))
    except (binascii.Error, ValueError, TypeError, DataError) as error:
        raise NoAnswerError("its patch is not JSON in base64") from error
    if operations is None:
        return []
    if not isinstance(operations, list) or not all(
        isinstance(operation, dict) and operation.get("op") in _OPERATIONS for operation in operations
    ):
        raise NoAnswerError(f"its patch has something else than the operations {', '.join(sorted(_OPERATIONS))}")
    return operations


def _apply(pod: Mapping[str, Any], operations: Sequence[dict[str, Any]]) -> dict[str, Any]:
    patched: Any = copy.deepcopy(pod)
    for index, operation in enumerate(operations):
        try:
            patched = jsonpatch.apply_patch(patched, [operation], in_place=True)
        except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException, LookupError, TypeError, ValueError):
            # The texts of these errors quote values of the pod.
            path = operation.get("path")
            place = path if isinstance(path, str) else "without a path"
            what = f"operation {index} of its patch does not apply to the pod: {operation['op']} {place}"
            raise NoAnswerError(what) from None
    if not isinstance(patched, dict):
        raise NoAnswerError("its patch does not make a pod")
    return patched


def as_served(pod: Mapping[str, Any]) -> dict[str, Any]:
    """Return a pod as the API server encodes it. Raises NoAnswerError if a value does not fit its field."""
    try:
        encoded: dict[str, Any] = go_encode(normalise(pod, "v1.Pod"), "v1.Pod")
    except DataError as error:
        raise NoAnswerError(f"its patch does not make a pod: {error}") from error
    if encoded.get("metadata", {}).get("creationTimestamp", "") is None:
        del encoded["metadata"]["creationTimestamp"]
    return encoded


async def ask(
    client: ReviewClient, address: WebhookAddress, workload: Created, policy: LevelVersion = UNRESTRICTED
) -> Answer:
    """Return the answer of an istiod to the pod of a workload, as the API server would take it under a policy of Pod Security.

    Raises ClusterError if it cannot be asked about any pod.
    """
    uid, hiding = str(uuid.uuid4()), hiding_of(workload.pod)
    try:
        answer = read_answer(workload.pod, uid, await client.post(address, review_of(workload, uid)))
    except NoAnswerError as error:
        detail = " ".join(hiding.without_values(error.what).split())
        return Unanswered(f"no answer: {detail[:_MAX_DETAIL]}")
    except ClusterError as error:
        error.what = hiding.without_values(error.what)
        raise
    try:
        if isinstance(answer, Injected):
            check_pod_security(answer.shared_pod, policy)
    except DataError as error:
        return error
    return answer


Run: TypeAlias = "Callable[[Coroutine[Any, Any, T]], T]"


@dataclass(frozen=True, slots=True)
class _IstiodComparer:
    """Compares workloads with the answers of istiods."""

    client: ReviewClient
    istiods: Addresses
    comparer: Comparer

    async def compare_all(self, workloads: Sequence[Created]) -> list[Comparison]:
        limit = asyncio.Semaphore(MAX_AT_ONCE)

        async def compare(workload: Created) -> Comparison:
            async with limit:
                return await self._compare(workload)

        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(compare(workload)) for workload in workloads]
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None
        return [task.result() for task in tasks]

    async def _compare(self, workload: Created) -> Comparison:
        sent = replace(workload, pod=_as_sent(workload))
        answers = await self._answers(sent)
        comparison = self.comparer.result(sent, answers)
        if not comparison.changes:
            return comparison
        random: set[str] = set()
        if not any(isinstance(answer, Unanswered) for answer in answers):
            others = [await self._answers(sent) for _ in range(_ASKED_AGAIN)]
            pairs = [pair for again in others for pair in zip(answers, again, strict=True)]
            random = {change.path for pair in pairs for change in changes(*pair, sent.pod)} - {""}
        remaining = tuple(change for change in comparison.changes if change.path not in random)
        known = self._known_reason(sent, answers, remaining) if remaining else ""
        return replace(comparison, changes=remaining, random=tuple(sorted(random)), known=known)

    def _known_reason(self, workload: Created, answers: tuple[Answer, Answer], remaining: tuple[Change, ...]) -> str:
        """Return why the answers of an istiod and of this injector differ, if the difference is a documented one."""
        if None not in self.istiods:
            return ""
        ours = self.istiods.index(None)
        revision = self.comparer.sides[ours].revision
        return documented_difference(revision, workload.pod, answers[1 - ours], answers[ours], remaining)

    async def _answers(self, workload: Created) -> tuple[Answer, Answer]:
        labels = self.comparer.labels.get(workload.namespace, {})
        own: tuple[Answer, ...] = ()
        if None in self.istiods:
            own = self.comparer.answers(workload)
        old, new = [
            _encode_answer(own[index])
            if istiod is None
            else await ask(self.client, istiod.address_for(workload, labels), workload, enforced_level(labels))
            for index, istiod in enumerate(self.istiods)
        ]
        return old, new


def _encode_answer(answer: Answer) -> Answer:
    return replace(answer, shared_pod=as_served(answer.shared_pod)) if isinstance(answer, Injected) else answer


def _as_sent(workload: Created) -> dict[str, Any]:
    """Return the pod of a workload as the API server has it when it calls webhooks, as far as the workload tells."""
    metadata = {**(workload.pod.get("metadata") or {}), "namespace": workload.namespace}
    return {"apiVersion": "v1", "kind": "Pod", **workload.pod, "metadata": metadata}


def compare_with_istiods(
    run: Run[list[Comparison]],
    client: ReviewClient,
    istiods: Addresses,
    comparer: Comparer,
    workloads: Sequence[Created],
    progress: Progress = no_progress,
) -> Iterator[Comparison]:
    """Yield the comparisons of workloads, of which the ``istiods`` answer for their sides. ``run`` runs a coroutine of the client.

    Raises:
        ClusterError: an istiod cannot be asked, or gives no answer to any of the first workloads, or all take too long.
    """
    envs = next(istiod.envs for istiod in istiods if istiod is not None)
    istiod_comparer = _IstiodComparer(client, istiods, replace(comparer, envs=envs))
    deadline = time.monotonic() + TOTAL_TIMEOUT

    def comparisons() -> Iterator[Comparison]:
        count = 0
        for start in range(0, len(workloads), _AT_A_TIME):
            group = workloads[start : start + _AT_A_TIME]
            if time.monotonic() > deadline:
                what = f"only {count} of {len(workloads)} workloads were compared within {TOTAL_TIMEOUT:g} s"
                hint = "compare fewer workloads, or run it again"
                raise ClusterError(what, where="istiod", hint=hint, reason="refused")
            results = run(istiod_comparer.compare_all(group))
            if not count and len(group) == _AT_A_TIME and all(map(_no_answer, results)):
                what = f"it gives no answer to the first {len(group)} pods: {_no_answer(results[0])}"
                raise ClusterError(what, where="istiod", hint="check its log", reason="refused")
            yield from results
            count += len(group)

    return progress(comparisons(), "workloads", length=len(workloads))


@dataclass(frozen=True, slots=True)
class IstiodSession:
    """Finds and asks istiods, for code without an event loop."""

    run: Callable[[Callable[[Any], Coroutine[Any, Any, Any]]], Any]
    client: ReviewClient
    options: IstiodOptions

    def find(self, name: str, targets: Sequence[str] = ()) -> Istiod:
        """Return the istiod of a revision or tag; see ``find_istiod``."""
        istiod: Istiod = self.run(lambda reader: find_istiod(reader, name, targets, self.options))
        return istiod

    def side_with_minor(self, side: Side, istiod: Istiod | None, state: SourceState) -> Side | None:
        """Return a side with the minor of its istiod, of the Deployment or else of the revision of its name; None if it is not known."""
        if istiod is None:
            return side
        minor: Minor | None = None
        if self.options.url is None:
            revisions = (*state.targets(istiod.name), istiod.name)
            minor = self.run(lambda reader: read_istiod_minor(reader, revisions))
        if minor is not None:
            return replace(side, revision=replace(side.revision, minor=minor))
        return side if istiod.name in state.served_names else None

    def compare(
        self, istiods: Addresses, comparer: Comparer, workloads: Sequence[Created], progress: Progress = no_progress
    ) -> Iterator[Comparison]:
        """Yield the comparisons of workloads; see ``compare_with_istiods``."""
        return compare_with_istiods(
            lambda work: self.run(lambda _: work), self.client, istiods, comparer, workloads, progress
        )


@contextmanager
def open_istiods(kubeconfig: Kubeconfig, options: IstiodOptions) -> Iterator[IstiodSession]:
    """Open a session for istiods. With a URL, no cluster is needed. Raises ConfigError if the credentials cannot be used."""
    if options.url is not None:
        with asyncio.Runner() as runner:
            client = ReviewClient(None, timeout=options.timeout)
            try:
                yield IstiodSession(lambda work: run_for_result(runner, work(None)), client, options)
            finally:
                runner.run(client.close())
        return
    with open_session(kubeconfig) as session:
        client = ReviewClient(session.client, timeout=options.timeout)
        try:
            yield IstiodSession(session.run, client, options)
        finally:
            session.run(lambda _: client.close())


def random_notes(comparisons: Sequence[Comparison]) -> list[str]:
    """Return a note for each of the first paths that differ among istiod's own answers."""
    paths = Counter(path for comparison in comparisons for path in comparison.random)
    return [
        escape_line(f"{path} differs among istiod's own answers, so it is not compared: {count_of(count, 'workload')}")
        for path, count in paths.most_common(EXAMPLES)
    ]


def _no_answer(comparison: Comparison) -> str:
    answers = (comparison.old, comparison.new)
    return next((answer.detail for answer in answers if isinstance(answer, Unanswered)), "")
