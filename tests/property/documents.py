"""Workloads injected together and alone: ``kube-inject`` of N documents gives what N runs of one document each give.

Each document alone is injected in a copy of a process that has injected nothing. All documents together, in some order, are injected one
after another in another copy.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any

import yaml
from click.testing import CliRunner

from injector.cli import main
from injector.errors import InjectorError
from injector.injection.tools.manifest import inject_object
from injector.istio.config import SIDECAR_TEMPLATE_NAME
from injector.istio.revision import Revision
from injector.istio.template import GoTextTemplate
from tests.conformance import core, corpus, workloads
from tests.conformance.test_kube_inject import options
from tests.property import reviews
from tests.property.forked import in_a_copy
from tests.property.mutations import mutated
from tests.property.subjects import sized, two_probed

Json = dict[str, Any]


@dataclass
class Together:
    """What came of it: how many documents were compared in how many orders, how many of them changed, and what was wrong."""

    compared: int = 0
    injected: int = 0
    faults: list[str] = field(default_factory=list)


def workload_of(pod: Json, kind: str, name: str) -> Json:
    """Return a workload with the template of a pod."""
    metadata = {key: value for key, value in pod["metadata"].items() if key in ("labels", "annotations")}
    template = {"metadata": metadata, "spec": pod["spec"]}
    spec = {"selector": {"matchLabels": {"app": name}}, "template": template}
    version = "batch/v1" if kind == "Job" else "apps/v1"
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": "shop"}, "spec": spec}


def generated(dice: Random, count: int) -> list[Json]:
    """Return workloads whose pods differ in little, a List among them."""
    pods = [*reviews.special_pods(), sized(), two_probed()]
    kinds = ("Deployment", "StatefulSet", "DaemonSet", "Job")
    found = []
    for number in range(count):
        pod = dice.choice(pods)
        pod = mutated(pod, dice) if dice.random() < 0.5 else pod
        if isinstance(pod.get("metadata"), dict) and isinstance(pod.get("spec"), dict):
            found.append(workload_of(pod, dice.choice(kinds), f"w{number % 7}"))
    return [*found, {"apiVersion": "v1", "kind": "List", "items": found[:3]}]


def corpus_documents(minor: str) -> list[Json]:
    """Return the workloads of a minor's corpus."""
    files = dict.fromkeys(case.source for case in corpus.cases(minor) if case.kube_inject and case.expected)
    return [each for file in files for each in workloads.injectable(core.documents(file))]


def injected_text(revision: Revision, document: Json) -> str:
    """Return what an injection makes of a document, with its warnings, or why it is refused."""
    warnings: list[str] = []
    try:
        return json.dumps([inject_object(revision, document, warn=warnings.append), warnings])
    except InjectorError as error:
        return str(error)


def objects_together(minor: str, seed: str, orders: int, most: int) -> Together:
    """Compare ``inject_object`` of documents in several orders with each of them alone."""
    dice = random.Random(seed)  # noqa: S311 -- nothing secret
    revision, documents = core.revision_of(corpus.default_settings(minor)), corpus_documents(minor)
    documents = [*dice.sample(documents, min(most, len(documents))), *generated(dice, most)]
    write_programs(revision)
    alone = [in_a_copy(partial(_texts, revision, [document])) for document in documents]
    result = Together(injected=sum(b"istio-proxy" in text for text in alone))
    for _ in range(orders):
        order = dice.sample(range(len(documents)), len(documents))
        together = json.loads(in_a_copy(partial(_texts, revision, [documents[number] for number in order])))
        result.compared += len(order)
        for number, text in zip(order, together, strict=True):
            if [text] != json.loads(alone[number]):
                result.faults.append(f"{minor}, {seed}: {json.dumps(documents[number])}\n  {text[:2_000]}")
    return result


def write_programs(revision: Revision) -> None:
    """Write the Python of the template that each injection renders: once, not again in each copy."""
    template = revision.templates[SIDECAR_TEMPLATE_NAME]
    assert isinstance(template, GoTextTemplate)
    assert template.compiled.python


def _texts(revision: Revision, documents: list[Json]) -> bytes:
    return json.dumps([injected_text(revision, document) for document in documents]).encode()


def commands_together(flags: list[str], seed: str, documents: list[Json]) -> Together:
    """Compare what ``injector kube-inject`` prints for all documents with what it prints for each; those that it refuses are left out."""
    dice = random.Random(seed)  # noqa: S311 -- nothing secret
    texts = [yaml.safe_dump(document) for document in documents]
    printed = [in_a_copy(partial(_command, flags, text)) for text in texts]
    taken = [number for number, text in enumerate(printed) if not text.startswith(b"refused")]
    dice.shuffle(taken)
    together = in_a_copy(partial(_command, flags, "---\n".join(texts[number] for number in taken)))
    result = Together(len(taken), sum(b"istio-proxy" in printed[number] for number in taken))
    if together != b"".join(printed[number] for number in taken):
        result.faults.append(f"{seed}: {len(taken)} documents together differ from each alone")
    return result


def _command(flags: list[str], text: str) -> bytes:
    result = CliRunner().invoke(main, ["kube-inject", "-f", "-", *flags], input=text)
    return result.stdout_bytes if result.exit_code == 0 else b"refused " + result.stderr_bytes


def installation_together(minor: str, documents: list[Json]) -> Together:
    """Compare as ``commands_together`` does with the default installation of a minor, whose templates are compiled once."""
    settings = corpus.default_settings(minor)
    revision = core.revision_of(settings)
    write_programs(revision)
    result = commands_together([*options(settings)], minor, documents)
    assert revision.templates, "a revision in use shares its templates"
    return result
