"""No value of a pod breaks out of a template: whatever it holds and wherever, the pod gains no container, volume, right or host path.

``GUARD_VALUES`` is how many hostile values each revision is tried with; with more than a sample, every revision of the corpus is.
"""

from __future__ import annotations

import json
import os
import random
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from injector.errors import BreakOutError, DataError
from injector.injection.pipeline import inject_pod
from injector.injection.result import OFF, WARN, Injected, RequestFacts, Skipped
from injector.revisions.build import build
from injector.revisions.embedded import embedded_source
from tests.conformance import core, corpus
from tests.factories import make_pod
from tests.property import breakouts
from tests.property.subjects import replica
from tests.revisions.fakes import make_raw

if TYPE_CHECKING:
    from collections import Counter

    from injector.istio.revision import Revision

SAMPLE = 25
VALUES = int(os.environ.get("GUARD_VALUES", str(SAMPLE)))
NAMED_AT_LEAST = 0.99
LOG_LEVEL = "sidecar.istio.io/logLevel"
DECODED = {
    "sidecar.istio.io/userVolume": '{"uv":{"emptyDir":{}}}',
    "sidecar.istio.io/userVolumeMount": '{"uv":{"mountPath":"/uv"}}',
    "apm.datadoghq.com/env": '{"A":"b"}',
    "proxy.istio.io/config": "proxyMetadata:\n  A: b\nconcurrency: 2\n",
}
PASTED = {
    "k8s.v1.cni.cncf.io/networks": "a-net",
    LOG_LEVEL: "debug",
    "sidecar.istio.io/componentLogLevel": "misc:debug",
    "sidecar.istio.io/agentLogLevel": "default:debug",
    "sidecar.istio.io/proxyImage": "registry.example.com/proxyv2:1.2",
    "sidecar.istio.io/proxyImageType": "debug",
    "sidecar.istio.io/bootstrapOverride": "bootstrap",
    "sidecar.istio.io/discoveryAddress": "istiod:15010",
    "sidecar.istio.io/proxyCPU": "100m",
    "sidecar.istio.io/proxyMemoryLimit": "1Gi",
    "sidecar.istio.io/interceptionMode": "REDIRECT",
    "sidecar.istio.io/capNetBindService": "false",
    "status.sidecar.istio.io/port": "15021",
    "readiness.status.sidecar.istio.io/periodSeconds": "2",
    "traffic.sidecar.istio.io/includeOutboundIPRanges": "10.0.0.0/8",
    "traffic.sidecar.istio.io/includeOutboundPorts": "80",
    "traffic.sidecar.istio.io/excludeInterfaces": "eth2",
    "traffic.sidecar.istio.io/kubevirtInterfaces": "eth0",
    "resource.opentelemetry.io/team": "shop",
}
LABELS = {
    "app": "shop",
    "version": "v1",
    "service.istio.io/workload-name": "shop",
    "security.istio.io/tlsMode": "istio",
}


def shared() -> list[corpus.Settings]:
    """The revisions that are tried: one of each minor, or all of them."""
    if not corpus.present():
        return []
    if VALUES <= SAMPLE:
        return [corpus.default_settings(minor) for minor in corpus.MINORS]
    return sorted({case.settings for minor in corpus.MINORS for case in corpus.cases(minor)}, key=str)


@cache
def embedded(name: str) -> Revision:
    """A revision that the project ships."""
    return build(next(raw for raw in embedded_source().read().revisions if raw.name == name))


def subject(dice: random.Random) -> dict[str, Any]:
    """A pod with some of the labels and annotations that templates read."""
    pod = replica("shop")
    for key, table in (("labels", LABELS), ("annotations", {**PASTED, **DECODED})):
        pod["metadata"][key] |= {name: text for name, text in table.items() if dice.random() < 0.5}
    return pod


def injected(revision: Revision, pod: dict[str, Any], guard: str | None = None) -> Injected | Skipped | DataError:
    """What comes of a pod, refusals included."""
    facts = RequestFacts("shop") if guard is None else RequestFacts("shop", guard=guard)
    try:
        return inject_pod(revision, pod, facts)
    except DataError as error:
        return error


def gained(
    revision: Revision, hostile: dict[str, Any], clean: list[dict[str, Any]], guard: str | None = None
) -> Counter[tuple[str, ...]]:
    """What a hostile pod has beside what clean ones like it have."""
    result = injected(revision, hostile, guard)
    if not isinstance(result, Injected):
        return breakouts.rights({"spec": {}})
    allowed = breakouts.rights(hostile)
    for pod in clean:
        other = injected(revision, pod)
        if isinstance(other, Injected):
            allowed |= breakouts.rights(other.pod)
    return breakouts.rights(result.pod) - allowed


def tried(revision: Revision, dice: random.Random) -> tuple[int, int]:
    """Try hostile values on a revision, and return how many were refused, and how many refusals name the place."""
    refused = named = 0
    for _ in range(VALUES):
        pod = subject(dice)
        place = dice.choice([each for each in breakouts.places(pod) if "metadata" in each or dice.random() < 0.3])
        as_key = place[1] in ("labels", "annotations") and dice.random() < 0.1
        text = breakouts.value(dice)
        hostile = breakouts.put(pod, place, text, as_key=as_key)
        plain = pod if place[-1] in DECODED and not as_key else breakouts.put(pod, place, "x", as_key=as_key)
        assert not gained(revision, hostile, [pod, plain]), json.dumps([place, text])
        result = injected(revision, hostile)
        if isinstance(result, DataError):
            refused += 1
            named += as_key or str(place[-1]) in str(result)
    return refused, named


@pytest.mark.skipif(not corpus.present(), reason=corpus.ABSENT)
def test_no_value_adds_anything_to_a_pod_and_refusals_say_where_it_is() -> None:
    dice = random.Random(f"guard {VALUES}")  # noqa: S311 -- nothing secret
    counts = [tried(core.revision_of(each), dice) for each in shared()]
    refused, named = (sum(column) for column in zip(*counts, strict=True))

    assert refused > VALUES, "else the guard was not put to the test"
    assert named >= NAMED_AT_LEAST * refused


@pytest.mark.parametrize("name", ["stable", "canary"])
def test_no_value_adds_anything_to_a_pod_of_the_embedded_revisions(name: str) -> None:
    refused, named = tried(embedded(name), random.Random(f"{name} {VALUES}"))  # noqa: S311 -- nothing secret

    assert named >= NAMED_AT_LEAST * refused


@pytest.mark.skipif(not corpus.present(), reason=corpus.ABSENT)
@pytest.mark.parametrize("minor", [minor for minor in corpus.MINORS if int(minor.split(".")[1]) >= 10])
def test_what_breaks_out_without_the_guard_is_refused_with_it(minor: str) -> None:
    revision = core.revision_of(corpus.default_settings(minor))
    plain = breakouts.put(replica("shop"), ("metadata", "annotations", LOG_LEVEL), "x")
    hostile = [
        breakouts.put(plain, ("metadata", "annotations", LOG_LEVEL), breakouts.aimed(indent)) for indent in range(9)
    ]

    breaking = [pod for pod in hostile if gained(revision, pod, [plain], OFF)]
    refusals = [injected(revision, pod) for pod in breaking]
    warned = [injected(revision, pod, WARN) for pod in breaking]

    assert breaking, "else nothing was refused"
    assert all(isinstance(each, BreakOutError) and LOG_LEVEL in each.where for each in refusals)
    assert all(isinstance(each, Injected) and LOG_LEVEL in each.findings[0] for each in warned)


CONTEXTS = ("{}", '"{}"', "'{}'", "x{}", "{}: y", "{{a: {}}}", '{{a: "{}"}}', "|-\n          {}")
"""Ways to paste a value as the value of an annotation, or where its name would stand."""
PASTES = {"go": "{{ index .ObjectMeta.Labels `hostile` }}", "jinja2": '{{ label("hostile") }}'}
FRAGMENTS = (
    *breakouts.QUOTES,
    *breakouts.BREAKS,
    *breakouts.SINGLE,
    *(" " * size for size in range(2, 12)),
    *(f"{key}: true" for key in breakouts.KEYS),
    *(f"{key}:" for key in breakouts.LISTS),
    *(f"{key}: {content}" for key, content in (*breakouts.ITEMS, *breakouts.DIRECTIVES)),
)


@cache
def pasting(engine: str, context: str) -> Revision:
    """A revision whose template pastes a label in an argument of its container."""
    lines = [
        "metadata: {annotations: {a: b}}",
        "spec:",
        "  containers:",
        "  - name: istio-proxy",
        "    args:",
        "    - a",
    ]
    lines += [f"    - {context.format(PASTES[engine])}", "    - b", "  volumes:", "  - name: v", "    emptyDir: {}"]
    config = json.dumps({"policy": "enabled", "templates": {"sidecar": "\n".join(lines)}})
    return build(make_raw("rev", config=config, settings={"istioVersion": "1.30", "engine": engine}))


@pytest.mark.parametrize("engine", PASTES)
@given(context=st.sampled_from(CONTEXTS), parts=st.lists(st.sampled_from(FRAGMENTS), min_size=1, max_size=8))
@settings(max_examples=max(200, VALUES), deadline=None)
def test_no_text_changes_the_shape_of_a_template_that_pastes_it(engine: str, context: str, parts: list[str]) -> None:
    revision = pasting(engine, context)
    clean, hostile = (make_pod(labels={"hostile": text}) for text in ("x", "".join(parts)))

    assert not gained(revision, hostile, [clean])
