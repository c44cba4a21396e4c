"""The fields that a template reads, by its analysis: another field never changes its output."""

from __future__ import annotations

import copy
import json
import random
from pathlib import Path
from typing import Any

import pytest

from injector.authoring.model import ANY_KEY, Read
from injector.authoring.traced import PodData, TracedTemplate
from injector.errors import DataError
from injector.injection.result import RequestFacts
from injector.istio.revision import Revision, RevisionSettings, build_revision
from injector.library import load_revision
from tests.differential.injectorcases import own_templates, own_values
from tests.property.mutations import values_in
from tests.sizes import sized

ROOT = Path(__file__).resolve().parents[2]
TRIED = 500
"""The fields that are changed, of each template."""
_SPECIAL = {
    "sidecar.istio.io/interceptionMode": ["TPROXY", "NONE"],
    "proxy.istio.io/config": ["proxyMetadata: {A: b}", "{concurrency: 3, image: {imageType: debug}}"],
    "sidecar.istio.io/userVolume": ['{"a": {"emptyDir": {}}}'],
    "inject.istio.io/templates": ["sidecar"],
}
POD: dict[str, Any] = {
    "metadata": {
        "name": "app",
        "namespace": "shop",
        "labels": {"app": "a", "version": "v1", "team": "x", "topology.istio.io/network": "n", "service.istio.io/workload-name": "w"},
        "annotations": {
            **dict.fromkeys(("a/b", "sidecar.istio.io/logLevel", "sidecar.istio.io/bootstrapOverride", "prometheus.io/path"), "x"),
            **dict.fromkeys(("status.sidecar.istio.io/port", "traffic.sidecar.istio.io/includeInboundPorts"), "80"),
            "sidecar.istio.io/proxyCPU": "100m",
            "sidecar.istio.io/interceptionMode": "REDIRECT",
            "proxy.istio.io/config": "{}",
            "sidecar.istio.io/userVolume": "{}",
            "sidecar.istio.io/proxyImageType": "distroless",
        },
    },
    "spec": {
        "serviceAccountName": "default",
        "nodeName": "n1",
        "restartPolicy": "Always",
        "dnsConfig": {"searches": ["a.b"], "nameservers": ["10.0.0.1"]},
        "securityContext": {"runAsUser": 7, "fsGroup": 8},
        "tolerations": [{"key": "a", "operator": "Exists"}],
        "containers": [
            {
                "name": name,
                "image": f"{name}:1",
                "args": ["a"],
                "env": [{"name": "A", "value": "b"}],
                "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
                "resources": {"limits": {"cpu": "1"}},
                "readinessProbe": {"httpGet": {"path": "/", "port": 8080}},
            }
            for name in ("app", "other")
        ],
        "initContainers": [{"name": "init", "image": "init:1", "command": ["a"]}],
        "volumes": [{"name": "v", "emptyDir": {}}],
    },
}  # fmt: skip


def leaves(data: Any) -> list[tuple[str, ...]]:
    """The paths of all values that are not collections with items."""
    return [tuple(map(str, path)) for path, value in values_in(data) if not value or not isinstance(value, dict | list)]


def changed(tree: dict[str, Any], path: tuple[str, ...], rng: random.Random) -> dict[str, Any]:
    """Return a copy with another value at a path, or without it."""
    tree = copy.deepcopy(tree)
    parent: Any = tree
    for name in path[:-1]:
        parent = parent[int(name)] if isinstance(parent, list) else parent[name]
    key: Any = int(path[-1]) if isinstance(parent, list) else path[-1]
    value = parent[key]
    if isinstance(parent, dict) and len(parent) > 1 and rng.random() < 0.2:
        del parent[key]
    elif path[-1] in _SPECIAL:
        parent[key] = rng.choice(_SPECIAL[path[-1]])
    elif isinstance(value, bool):
        parent[key] = not value
    elif isinstance(value, int | float):
        parent[key] = value + 1
    elif isinstance(value, str):
        parent[key] = {"80": "81", "100m": "200m", "Always": "Never", "TCP": "UDP", "1": "2"}.get(value, f"{value}x")
    else:
        parent[key] = {"x": "y"} if isinstance(value, dict) else ["x"] if isinstance(value, list) else "x"
    return tree


def covers(read: Read, changed_path: tuple[str, ...]) -> bool:
    """Return whether a change of a field may change what is read. A field that comes or goes is a change of its parent's keys."""
    size = min(len(read.path), len(changed_path))
    if any(
        ANY_KEY not in (one, other) and one != other for one, other in zip(read.path[:size], changed_path, strict=False)
    ):
        return False
    return len(read.path) > len(changed_path) or read.deep or len(changed_path) - len(read.path) <= 1


def disagreements(revision: Revision, name: str, texts: dict[str, str | None], *, tried: int) -> tuple[list[str], int]:
    """Change fields of the pod, the values and the mesh config, and return those that change the output though they are not listed,
    and the number of fields that were not listed.
    """
    rng = random.Random(7)  # noqa: S311 -- the same fields each time
    template = TracedTemplate(revision, name)
    facts = RequestFacts("shop")
    result = template.render(PodData.of(revision, POD, facts).data())
    assert result.text == revision.templates[name].render(PodData.of(revision, POD, facts).data())
    reads = {False: list(template.reads()), True: list(template.reads(result))}
    values = revision.values.tree
    paths = [*leaves(POD), *((("values", *path)) for path in leaves(values))]
    results, unlisted = [], 0
    for path in rng.choices(paths, k=tried):
        listed = {ran: any(covers(read, path) for read in some) for ran, some in reads.items()}
        assert listed[False] or not listed[True], path
        if listed[True]:
            continue
        unlisted += 1
        pod, other = POD, revision
        if path[0] == "values":
            text = json.dumps(changed({"values": values}, path, rng)["values"])
            other = rebuilt(revision, {**texts, "values": text})
        else:
            pod = changed(POD, path, rng)
        try:
            text = other.templates[name].render(PodData.of(other, pod, facts).data())
        except DataError as error:
            text = str(error)
        if text != result.text:
            results.append(str(Read(path, deep=True)))
    return results, unlisted


def rebuilt(revision: Revision, texts: dict[str, str | None]) -> Revision:
    config, values, mesh = (texts[key] for key in ("config", "values", "mesh"))
    settings = RevisionSettings(istio_version=revision.istio_version, engine=revision.engine, revision=revision.written)
    return build_revision("a", config=config or "", values=values, mesh=mesh, settings=settings, origin="a")


@pytest.mark.parametrize("name", ["stable", "canary"])
def test_a_field_that_is_not_listed_never_changes_the_output(name: str) -> None:
    folder = ROOT / "revisions" / name
    texts: dict[str, str | None] = {key: (folder / key).read_text() for key in ("config", "values", "mesh")}

    results, unlisted = disagreements(load_revision(folder), "sidecar", texts, tried=sized(60, TRIED))

    assert results == []
    assert unlisted > 10


@pytest.mark.parametrize("name", ["sidecar", "later", "gateway", "native"])
def test_a_field_that_is_not_listed_never_changes_the_output_of_a_go_template(name: str) -> None:
    config = json.dumps({"policy": "enabled", "templates": {"sidecar": own_templates("1.31")[name]}})
    values = json.dumps(own_values("plain"))
    texts: dict[str, str | None] = {"config": config, "values": values, "mesh": None}
    settings = RevisionSettings(istio_version="1.31")
    revision = build_revision("a", settings=settings, origin="a", config=config, values=values, mesh=None)

    results, unlisted = disagreements(revision, "sidecar", texts, tried=TRIED)

    assert results == []
    assert unlisted > TRIED // 5
