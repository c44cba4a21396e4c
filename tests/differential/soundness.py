"""Patches of ours for mutated pods, as Go sees them: applied by evanphx/json-patch, and decoded as a Pod by apimachinery.

A pod comes in two ways, in turn: as the API server sends it, which has decoded and encoded it before, and as it was made,
with fields that Go does not know; of the latter, what Go takes for no pod does not count.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jsonpatch
import orjson

from injector.errors import InjectorError
from injector.golang.json import dump_json
from injector.injection.pipeline import inject_pod, without_namespace
from injector.injection.result import Injected, RequestFacts
from injector.injection.steps.status import read_status
from injector.istio.revision import Revision
from injector.kube.typed import is_struct, struct_type, underlying
from tests.differential.golang import Question, ask_go
from tests.property.mutations import mutated
from tests.trials import TrialResults

NAMESPACES = ("shop", "shop", "prod")
WRITTEN = ("*v1.Probe", "*v1.Lifecycle")
OWN_NAMES = "istio-"
"""How most begins that the templates add, beside what an earlier injection noted: where it stands is the templates' affair."""


@dataclass
class Soundness(TrialResults):
    """Trials of patches by a program in Go."""

    program: Path = field(kw_only=True)

    def put_to_the_test(
        self, subjects: Sequence[tuple[Revision, list[dict[str, Any]]]], dice: random.Random, count: int
    ) -> None:
        """Try ``count`` mutated pods of the revisions' own."""
        results = [self._trial(*dice.choice(subjects), dice) for _ in range(count)]
        sent = ask_go(self.program, "pod", [{"original": pod} for _, pod, _ in results])
        questions: list[Question] = []
        for number, ((revision, pod, facts), answer) in enumerate(zip(results, sent, strict=True)):
            self.tried += 1
            if "error" in answer:
                self.came["no pod"] += 1
                continue
            before_patch = orjson.loads(answer["result"]) if number % 2 else pod
            question = self._question(revision, before_patch, facts)
            if question is not None:
                questions.append(question)
        for question, answer in zip(questions, ask_go(self.program, "sound", questions), strict=True):
            faults = [*answer.get("faults", ()), *lost(question, answer.get("result"))]
            self.faults += [f"{fault}\n  {orjson.dumps(question['original']).decode()}" for fault in faults]

    @staticmethod
    def _trial(
        revision: Revision, pods: list[dict[str, Any]], dice: random.Random
    ) -> tuple[Revision, dict[str, Any], RequestFacts]:
        return revision, mutated(dice.choice(pods), dice), RequestFacts(dice.choice(NAMESPACES), deny_invalid=False)

    def _question(self, revision: Revision, pod: dict[str, Any], facts: RequestFacts) -> Question | None:
        try:
            result = inject_pod(revision, pod, facts)
        except InjectorError as error:
            self.came[type(error).__name__] += 1
            return None
        if not isinstance(result, Injected):
            self.came["left alone"] += 1
            return None
        patch = dump_json(result.patch)
        self.came["injected"] += 1
        return {
            "original": pod,
            "patch": orjson.Fragment(patch),
            "merged": without_namespace(result.pod, pod),
            # Through JSON: a mutated pod may have one object in two places, which the library would change in both.
            "ours": jsonpatch.apply_patch(orjson.loads(orjson.dumps(pod)), orjson.loads(patch)),
        }


def lost(question: Question, applied: str | None) -> Iterator[str]:
    """What Go's patched pod has not that it should have: our own patched pod, the order of containers, unknown fields."""
    if applied is None:
        return
    before, after = question["original"], orjson.loads(applied)
    if orjson.dumps(after, option=orjson.OPT_SORT_KEYS) != orjson.dumps(question["ours"], option=orjson.OPT_SORT_KEYS):
        yield "evanphx/json-patch applies it otherwise than we do"
    status = read_status(before) or {}
    for name in ("containers", "initContainers", "volumes"):
        names_before = [container.get("name", "") for container in listed(before, name)]
        users = [
            name_of
            for name_of in names_before
            if not name_of.startswith(OWN_NAMES) and name_of not in status.get(name, ())
        ]
        names_after = [
            container.get("name", "") for container in listed(after, name) if container.get("name", "") in users
        ]
        # A strategic merge moves the second of a name to the first: the API server refuses such a pod later anyway.
        if names_after != users and len(set(names_before)) == len(names_before):
            yield f"{name} were {names_before}, and the user's are {names_after}"
    missing = Counter(unknown(before, "v1.Pod")) - Counter(unknown(after, "v1.Pod"))
    if missing:
        yield f"unknown fields are lost: {sorted(missing)}"


def listed(pod: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """A list of a pod's spec."""
    return (pod.get("spec") or {}).get(name) or []


def unknown(value: Any, type_name: str) -> Iterator[str]:
    """The fields of an object that its type does not have, with their values; not in what the injector writes anew.

    That is what has a name of its own, probes, and lifecycle hooks.
    """
    if isinstance(value, dict) and str(value.get("name", "")).startswith(OWN_NAMES):
        return
    name = type_name.removeprefix("*")
    base = underlying(name)
    if isinstance(value, list) and base.startswith("[]"):
        for item in value:
            yield from unknown(item, base[2:])
    elif isinstance(value, dict) and base.startswith("map["):
        for item in value.values():
            yield from unknown(item, base.partition("]")[2])
    elif isinstance(value, dict) and is_struct(name):
        for key, item in value.items():
            known = struct_type(name).json_field(key)
            if known is None:
                yield f"{name} {key} {orjson.dumps(item).decode()}"
            elif known.type not in WRITTEN:
                yield from unknown(item, known.type)
