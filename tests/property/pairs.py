"""Pairs of a pod and a changed one: does a server that has seen the first, and many others, answer the second as a fresh pipeline does?

One process builds the revisions and injects nothing. A copy of it is the server: one handler for all revisions, which answers every review.
Another copy is made for each review that is compared; there the plain pipeline injects the pod as it was sent, without a cache, without the
canonical form of ``kube.admission``, and with nothing remembered. Both answers must be equal byte for byte.
"""

from __future__ import annotations

import base64
import dataclasses
import gc
import hashlib
import json
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

from injector.errors import InjectorError
from injector.golang.json import load_json
from injector.injection.pipeline import inject_pod
from injector.injection.result import Injected, RequestFacts
from injector.istio.behaviours import parse_minor
from injector.istio.revision import Revision
from injector.kube import admission
from injector.library import load_revisions
from injector.revisions.names import parse_path
from injector.revisions.registry import Snapshot, snapshot_of
from injector.revisions.tags import parse_tags, workload_of_pod
from tests import controlplanes
from tests.cases import read_cases
from tests.controlplanes import NATIVE
from tests.handlers import answer_of, handler_with
from tests.property import reviews, subjects
from tests.property.forked import Companion, in_a_copy
from tests.revisions.fakes import revision_of
from tests.trials import TrialResults
from tests.webhook.recorded import NAMES, recorded

Json = dict[str, Any]

FIRST_NATIVE: Final = (1, 20)
"""From which minor on a control plane is also tried with native sidecars."""
CLUSTERS: Final = ("", "", "", "/cluster/east/net/net-1", "/cluster/kube-api-access-00000")
"""What follows the revision in a path."""
NAMESPACES: Final = ("shop", "shop", "default", "kube-api-access-00000")
MEMOS: Final = {"_derived", "__weakref__"}
"""Attributes that are not data of an immutable object: what pure functions returned for it, and its weak references."""
TAG: Final = "prod"
TAGGED: Final = ("stable", "canary")
TAGS: Final = "prod: {stable: 50, canary: 50}"
"""A tag that leads each workload to one of the shipped revisions."""
WITHOUT_TOKEN: Final = 0.1
SPECIAL: Final = 0.4
"""How many of the pods are special ones."""

_DATA = read_cases(Path(__file__).with_suffix(".yaml"))
NUMBERS_CONFIG: str = _DATA["numbers_config"]
"""Numbers and list keys that are formed of a prefix and a label."""
SETTING_CONFIG: str = _DATA["setting_config"]
"""A template that writes to the values for some pods, and to a dictionary of its own."""
JINJA_CONFIG: str = _DATA["jinja_config"]


class Subject(NamedTuple):
    """A revision with the pods that it is tried with: those of its control plane, and some with what could be mistaken for Istio's."""

    name: str
    revision: Revision
    pods: list[Json]
    special: list[Json]


def all_subjects(names: Iterable[str]) -> list[Subject]:
    """Return the revisions: the control planes, also with native sidecars, the shipped ones, and those of this module."""
    special = [
        *reviews.special_pods(),
        *(json.loads(body)["request"]["object"] for name in NAMES for body in recorded(name)[:1]),
        *(subjects.replica("web"), subjects.replica("shop-1"), subjects.sized(), subjects.two_probed()),
    ]
    results = []
    for name in names:
        pods = controlplanes.pods(name)
        results.append(Subject(name, controlplanes.revision_of(name), pods, special))
        if parse_minor(controlplanes.minor_of(name)) >= FIRST_NATIVE:
            results.append(Subject(f"{name}-native", controlplanes.revision_with(name, NATIVE), pods, special))
    results += [Subject(name, revision, special, special) for name, revision in load_revisions(embedded=True).items()]
    results.append(Subject("setting", revision_of(24, SETTING_CONFIG, name="setting"), special, special))
    numbered = [reviews.with_labels(pod, app="7", version="15") for pod in special]
    results.append(Subject("numbers", revision_of(24, NUMBERS_CONFIG, name="numbers"), numbered, numbered))
    results.append(Subject("jinja", revision_of(24, JINJA_CONFIG, name="jinja", engine="jinja2"), numbered, numbered))
    return [
        result._replace(revision=replace(result.revision, name=result.name.replace(".", "-"))) for result in results
    ]


def plain_answer(snapshot: Snapshot, raw_path: str, body: bytes) -> bytes:
    """Return the answer that the pipeline of a snapshot gives to a review as it was sent.

    Raises:
        Exception: an internal error, which no pod may cause.
    """
    request = load_json(body)["request"]
    path, namespace = parse_path(raw_path), request["namespace"]
    try:
        revision = snapshot.resolve(path.name, partial(workload_of_pod, request["object"], namespace)).revision
        facts = RequestFacts(namespace, path.envs, revision.namespaces.get(namespace))
        result = inject_pod(revision, request["object"], facts)
    except InjectorError as error:
        response = admission.errored(str(error))
    else:
        patch = result.patch_json if isinstance(result, Injected) else b""
        response = admission.patched(patch, warnings=result.warnings)
    return admission.encode_review(admission.Broken(request["uid"]), response.content())


def digests(snapshot: Snapshot) -> dict[str, str]:
    """Return the hash of each revision's data."""
    return {name: digest(revision) for name, revision in snapshot.revisions.items()}


def digest(revision: Revision) -> str:
    """Return a hash of the data of a revision: everything but its compiled templates and what it remembers of earlier requests."""
    result, digests = hashlib.sha256(), set[int]()
    for field in dataclasses.fields(revision):
        if field.compare and field.name != "templates":
            for text in _texts(getattr(revision, field.name), digests):
                result.update(text.encode("utf-8", "backslashreplace"))
    return result.hexdigest()


def _texts(value: Any, known: set[int]) -> Iterator[str]:
    """Yield the types, keys and scalars in a value, each object once."""
    yield type(value).__name__
    if isinstance(value, str | int | float | bytes | None):
        yield repr(value)
        return
    if id(value) in known:
        return
    known.add(id(value))
    if isinstance(value, Mapping):
        for key in value:
            yield repr(key)
            yield from _texts(value[key], known)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item, known)
    elif type(value).__module__.startswith("injector."):
        slots = (name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ()))
        for name in sorted({*slots, *getattr(value, "__dict__", ())} - MEMOS):
            yield name
            yield from _texts(getattr(value, name, None), known)


class Server:
    """A handler of all revisions and tags, in a process of its own."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._companion = Companion(lambda: _answers_of(snapshot))

    def answer(self, path: str, body: bytes) -> tuple[bytes, int]:
        """Return the answer to a review, and how many cache hits it made: 1 or 0."""
        answer: tuple[bytes, int] = self._companion.call((path, body))
        return answer

    def digests(self) -> dict[str, str]:
        """Return the hash of each revision as it is there now."""
        result: dict[str, str] = self._companion.call(None)
        return result

    def close(self) -> None:
        """End the process."""
        self._companion.close()


def _answers_of(snapshot: Snapshot) -> Callable[[Any], Any]:
    handler = handler_with(snapshot)

    def answer(request: tuple[str, bytes] | None) -> Any:
        if request is None:
            return digests(snapshot)
        before = handler.cache.hits
        return answer_of(handler, *request), handler.cache.hits - before

    return answer


class Trials:
    """Pairs of reviews over some revisions, tried one after another in a process with one thread."""

    def __init__(self, names: Iterable[str]) -> None:
        self.subjects = all_subjects(names)
        self._snapshot = snapshot_of([subject.revision for subject in self.subjects], parse_tags(TAGS))
        self._digests = digests(self._snapshot)
        gc.collect()
        gc.freeze()  # what the copies share stays shared
        self._server = Server(self._snapshot)

    def close(self) -> None:
        """End the server."""
        self._server.close()

    def tried(self, seed: str, count: int, only: Subject | None = None) -> TrialResults:
        """Try so many pairs, which the seed chooses; the revisions must be afterwards what they were."""
        pairs, dice = TrialResults(), random.Random(seed)  # noqa: S311 -- nothing secret
        weights = [weight for weight, _ in reviews.CHANGES.values()]
        for number in range(count):
            subject = only or dice.choice(self.subjects)
            (kind,) = dice.choices(list(reviews.CHANGES), weights)
            self._try(pairs, subject, kind, dice, f"seed {seed!r}, pair {number}")
        changed = [name for name, result in self._server.digests().items() if result != self._digests[name]]
        pairs.faults += [f"seed {seed!r}: the revision {name} was changed" for name in changed]
        return pairs

    def _try(self, pairs: TrialResults, subject: Subject, kind: str, dice: Random, where: str) -> None:
        name = TAG if subject.revision.name in TAGGED and dice.random() < 0.5 else subject.revision.name
        path = f"/inject/{name}{dice.choice(CLUSTERS)}"
        first, token = _first(subject, dice)
        second = reviews.CHANGES[kind][1](first, token, dice)
        # It confirms the answer for other names of the token volume.
        replica = reviews.another_replica(first, token, dice)
        bodies = [json.dumps(review, separators=(",", ":")).encode() for review in (first, second, replica)]
        for body in (bodies[0], bodies[2]):
            self._server.answer(path, body)
        answer, hits = self._server.answer(path, bodies[1])
        try:
            expected = in_a_copy(lambda: plain_answer(self._snapshot, path, bodies[1]))
        except RuntimeError as error:
            expected = str(error).encode()
        pairs.tried += 1
        pairs.came["cache hits by another request"] += hits
        pairs.came[f"hits, {kind}"] += hits
        pairs.came[_outcome(expected)] += 1
        if answer != expected:
            pod = {**second["request"]["object"], "metadata": {**second["request"]["object"]["metadata"]}}
            pod["metadata"].pop("managedFields", None)
            report = f"{where}: {subject.name}, {kind}, {path}, namespace {second['request']['namespace']}"
            pairs.faults.append(f"{report}:\n  {_difference(answer, expected)}\n  {json.dumps(pod)}")


def _first(subject: Subject, dice: Random) -> tuple[Json, str]:
    """Return the first review of a pair, and the name of its token volume."""
    pods = subject.special if dice.random() < SPECIAL else subject.pods
    pod, token = dice.choice(pods), reviews.token_name(dice)
    if reviews.PREFIX in json.dumps(pod) or dice.random() < WITHOUT_TOKEN:
        return reviews.review_of(pod, dice.choice(NAMESPACES), dice), ""
    return reviews.review_of(reviews.with_token(pod, token), dice.choice(NAMESPACES), dice), token


def _outcome(answer: bytes) -> str:
    if not answer.startswith(b"{"):
        return "internal errors"
    response = json.loads(answer)["response"]
    return "injected" if "patch" in response else "left alone" if response["allowed"] else "refused"


def _difference(answer: bytes, expected: bytes) -> str:
    """Return the places where two answers begin to differ."""
    texts = [_readable(text) for text in (answer, expected)]
    common = next((at for at, pair in enumerate(zip(*texts, strict=False)) if len(set(pair)) > 1), min(map(len, texts)))
    answered, wanted = (text[max(0, common - 100) : common + 200] for text in texts)
    return f"answered ...{answered!r}...\n  expected ...{wanted!r}..."


def _readable(answer: bytes) -> str:
    if not answer.startswith(b"{"):
        return answer.decode()
    response = json.loads(answer)["response"]
    patch = base64.b64decode(response.pop("patch", "")).decode()
    return f"{response} {patch}"


@cache
def _trials() -> Trials:
    return Trials(controlplanes.names())


def tried(seed: str, count: int) -> TrialResults:
    """Try pairs over every revision; one process keeps its server over all calls, so it has seen the pods of the earlier ones."""
    return _trials().tried(seed, count)
