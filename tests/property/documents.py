"""Workloads injected together and alone: ``kube-inject`` of N documents gives what N runs of one document each give.

Each document alone is injected in a copy of a process that has injected nothing. All documents together, in some order, are injected one
after another in another copy.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import yaml
from click.testing import CliRunner

from injector.cli import main
from injector.errors import InjectorError
from injector.injection.tools.manifest import inject_object
from injector.istio.config import SIDECAR_TEMPLATE_NAME
from injector.istio.revision import Revision
from injector.istio.template import GoTextTemplate
from tests import controlplanes
from tests.controlplanes import workload_of
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


def generated(dice: Random, count: int) -> list[Json]:
    """Return workloads whose pods differ in little, a List among them."""
    pods = [*reviews.special_pods(), sized(), two_probed()]
    kinds = ("Deployment", "StatefulSet", "DaemonSet", "Job")
    results = []
    for number in range(count):
        pod = dice.choice(pods)
        pod = mutated(pod, dice) if dice.random() < 0.5 else pod
        if isinstance(pod.get("metadata"), dict) and isinstance(pod.get("spec"), dict):
            results.append(workload_of(pod, dice.choice(kinds), f"w{number % 7}"))
    return [*results, {"apiVersion": "v1", "kind": "List", "items": results[:3]}]


def injected_text(revision: Revision, document: Json) -> str:
    """Return what an injection makes of a document, with its warnings, or why it is refused."""
    warnings: list[str] = []
    try:
        return json.dumps([inject_object(revision, document, warn=warnings.append), warnings])
    except InjectorError as error:
        return str(error)


def objects_together(name: str, seed: str, orders: int, most: int) -> Together:
    """Compare ``inject_object`` of documents in several orders with each of them alone."""
    dice = random.Random(seed)  # noqa: S311 -- nothing secret
    revision, documents = controlplanes.revision_of(name), controlplanes.documents(name)
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
                result.faults.append(f"{name}, {seed}: {json.dumps(documents[number])}\n  {text[:2_000]}")
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


def flags_of(name: str, folder: Path) -> Iterator[str]:
    """Write the files of a control plane and yield the flags that give them to ``kube-inject``."""
    plane = controlplanes.plane_of(name)
    for flag, text in (
        ("injectConfigFile", plane.config),
        ("meshConfigFile", plane.mesh),
        ("valuesFile", plane.values),
    ):
        (folder / flag).write_text(text)
        yield from (f"--{flag}", str(folder / flag))
    yield from ("--istio-version", plane.minor)
    for variable, value in plane.env.items():
        yield from ("--set-env", f"{variable}={value}")
    for version in plane.nodes:
        yield from ("--node-version", version)


def _command(flags: list[str], text: str) -> bytes:
    result = CliRunner().invoke(main, ["kube-inject", "-f", "-", *flags], input=text)
    return result.stdout_bytes if result.exit_code == 0 else b"refused " + result.stderr_bytes


def installation_together(name: str, documents: list[Json]) -> Together:
    """Compare as ``commands_together`` does with a control plane, whose templates are compiled once."""
    revision = controlplanes.revision_of(name)
    write_programs(revision)
    with TemporaryDirectory() as folder:
        result = commands_together([*flags_of(name, Path(folder))], name, documents)
    assert revision.templates, "a revision in use shares its templates"
    return result
