"""What an injection costs, stage by stage, on every pod of the corpus of one Istio minor: microseconds, on one core.

``lex``, ``parse`` and ``compile`` are of a revision's sidecar template, once when it is built. The others are of each
request and in its order; ``request`` is all of a request but HTTP: bytes in, bytes out. ``cached`` is the same
for a request that the answer cache answers.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson
from prometheus_client import CollectorRegistry

from bench.recording import record, show
from injector.gotemplate.builtins import BUILTINS
from injector.gotemplate.lexer import tokens
from injector.gotemplate.parser import parse
from injector.injection.data import template_data
from injector.injection.overrides import reapplied
from injector.injection.pipeline import admitted_pod, inject_pod, webhook_parameters
from injector.injection.policy import injection_required
from injector.injection.postprocess import post_processed
from injector.injection.result import Injected, RequestFacts
from injector.istio.config import SIDECAR_TEMPLATE_NAME
from injector.istio.template import compile_go_template, go_functions
from injector.kube.admission import decode
from injector.kube.jsonpatch import create_patch
from injector.kube.serial import load_yaml
from injector.kube.strategicpatch import strategic_merge
from injector.kube.typed import normalise
from injector.metrics import Metrics, Stopwatch
from injector.revisions.registry import Registry, snapshot_of
from injector.webhook.inject import InjectHandler
from injector.webhook.lifecycle import Lifecycle
from tests.conformance import core, corpus, workloads
from tests.factories import make_review

if TYPE_CHECKING:
    from collections.abc import Callable

    from injector.istio.revision import Revision

ROUNDS = 5
NAMESPACE = "shop"


@dataclass(frozen=True, slots=True)
class Stages:
    """The stages of a revision's requests, each a function of what the one before it gave."""

    revision: Revision

    def one(self, body: bytes) -> dict[str, float]:
        """The time of each stage for one review, in microseconds; empty where the pod is left alone or refused."""
        times: dict[str, float] = {}

        def timed(stage: str, run: Callable[[], Any]) -> Any:
            started = time.perf_counter()
            result = run()
            times[stage] = (time.perf_counter() - started) * 1e6
            return result

        revision = self.revision
        review = timed("decode", lambda: decode(body))
        pod = timed("read", lambda: admitted_pod(review.object, NAMESPACE))
        policy = revision.config.policy
        timed("policy", lambda: injection_required(policy, revision.behaviours, pod, NAMESPACE))
        params = timed("parameters", lambda: webhook_parameters(revision, pod, RequestFacts(NAMESPACE)))
        data = timed("data", lambda: template_data(params, pod))
        text = timed("render", lambda: revision.templates[SIDECAR_TEMPLATE_NAME].render(data))
        overlay = timed("yaml", lambda: load_yaml(text))
        merged = timed("merge", lambda: normalise(strategic_merge(pod, overlay, "v1.Pod"), "v1.Pod"))
        template = normalise(overlay, "v1.Pod")
        final = timed("overrides", lambda: reapplied(merged, pod, template, revision.behaviours))
        final = timed("postprocess", lambda: post_processed(final, template, params))
        timed("patch", lambda: create_patch(review.object, final))
        return times


def main() -> int:
    """Measure one minor."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minor", default="1.30", help="the Istio minor whose default installation injects")
    parser.add_argument("--record", action="store_true", help="append the figures to bench/results")
    options = parser.parse_args()
    if not corpus.present():
        print(f"skipped: {corpus.ABSENT}")
        return 0
    settings = corpus.default_settings(options.minor)
    revision = core.revision_of(settings)
    bodies = [body for body in dict.fromkeys(reviews(options.minor, settings)) if is_injected(revision, body)]
    rows = {**template_stages(revision, settings), **request_stages(revision, bodies)}
    show(f"Istio {options.minor}, {len(bodies)} pods", rows)
    if options.record:
        record("stages", {"minor": options.minor, "pods": len(bodies), **rows})
    return 0


def reviews(minor: str, settings: corpus.Settings) -> list[bytes]:
    """The pods of the corpus's workloads for these settings, each in a review as the API server sends it."""
    found = [case for case in corpus.cases(minor) if case.webhook and case.expected and case.settings == settings]
    sources = dict.fromkeys(case.source for case in found)
    pods = [workloads.as_pod(each) for source in sources for each in workloads.injectable(core.documents(source))]
    return [orjson.dumps(make_review(pod, namespace=NAMESPACE)) for pod in pods]


def is_injected(revision: Revision, body: bytes) -> bool:
    """Whether the pod gets a sidecar of the template ``sidecar``, so that all have the same stages."""
    result = inject_pod(revision, decode(body).object, RequestFacts(NAMESPACE))
    return isinstance(result, Injected) and result.templates == (SIDECAR_TEMPLATE_NAME,)


def template_stages(revision: Revision, settings: corpus.Settings) -> dict[str, dict[str, float]]:
    """What building a revision costs for its sidecar template."""
    text = revision.config.templates[SIDECAR_TEMPLATE_NAME]
    functions = go_functions(revision.minor, dict(settings.env), with_sprig=True)
    delimiters = revision.config.delimiters
    runs: dict[str, Callable[[], Any]] = {
        "lex": lambda: list(tokens(text, *delimiters)),
        "parse": lambda: parse("sidecar", text, functions={**BUILTINS, **functions}),
        "compile": lambda: compile_go_template("sidecar", text, functions, delimiters),
    }
    found = {}
    for name, run in runs.items():
        times = []
        for _ in range(ROUNDS):
            started = time.perf_counter()
            run()
            times.append((time.perf_counter() - started) * 1e6)
        found[name] = summary(times)
    return found


def request_stages(revision: Revision, bodies: list[bytes]) -> dict[str, dict[str, float]]:
    """What the stages of a request cost, and a whole one."""
    stages = Stages(revision)
    registry, metrics = Registry(snapshot_of([revision], {})), Metrics(CollectorRegistry())
    times: dict[str, list[float]] = {}
    for _ in range(ROUNDS):
        handler = InjectHandler(registry, metrics, Lifecycle())
        for body in bodies:
            for name, taken in stages.one(body).items():
                times.setdefault(name, []).append(taken)
            for name in ("request", "cached"):
                started = time.perf_counter()
                answer = handler.answer("/inject", body, Stopwatch(time.perf_counter))
                times.setdefault(name, []).append((time.perf_counter() - started) * 1e6)
                assert answer.cached == (name == "cached")
    return {name: summary(taken) for name, taken in times.items()}


def summary(times: list[float]) -> dict[str, float]:
    """The median and the worst of some times."""
    return {"median_us": round(statistics.median(times), 1), "max_us": round(max(times), 1)}


if __name__ == "__main__":
    sys.exit(main())
