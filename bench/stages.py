"""What an injection costs, stage by stage: microseconds of processor time, on one core.

``lex``, ``parse`` and ``compile`` are of a revision's sidecar template, once when it is built, if it is a Go template. The others are of
each request and in its order. ``pipeline`` is all of an injection and ``request`` all of a request but HTTP, with the answer cache: bytes
in, bytes out. The pods are those of the load ``unique``, of which no two are equal.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry

from bench.recording import record, show
from bench.reviews import reviews
from bench.serving import add_revision_option, revision_in
from injector.golang.json import dump_json
from injector.gotemplate import compile_template
from injector.gotemplate.builtins import BUILTINS
from injector.gotemplate.lexer import tokens
from injector.gotemplate.parser import parse_template
from injector.injection.data import native_sidecar, template_data
from injector.injection.guard import TemplateGuard
from injector.injection.pipeline import admitted_pod, check_valid, inject_pod, webhook_parameters
from injector.injection.policy import injection_required
from injector.injection.render import OverlayTemplates
from injector.injection.result import RequestFacts
from injector.injection.steps.postprocess import finish
from injector.istio.config import SIDECAR_TEMPLATE_NAME
from injector.istio.template import go_functions
from injector.kube.admission import decode
from injector.kube.jsonpatch import create_patch
from injector.metrics import Metrics, Stopwatch
from injector.revisions.registry import Registry, snapshot_of
from injector.webhook.handler import InjectHandler
from injector.webhook.lifecycle import Lifecycle

if TYPE_CHECKING:
    from collections.abc import Callable

    from injector.istio.revision import Revision

ROUNDS = 5
PODS = 3_000
NAMESPACE = "shop"


@dataclass(frozen=True, slots=True)
class Stages:
    """The stages of a revision's requests, each a function of what the one before it gave."""

    revision: Revision

    def one(self, body: bytes) -> dict[str, float]:
        """Return the time of each stage for one review, in microseconds."""
        times: dict[str, float] = {}

        def timed(stage: str, run: Callable[[], Any]) -> Any:
            started = time.process_time()
            result = run()
            times[stage] = (time.process_time() - started) * 1e6
            return result

        revision, names = self.revision, (SIDECAR_TEMPLATE_NAME,)
        review = timed("decode", lambda: decode(body))
        pod = timed("read", lambda: admitted_pod(review.object, NAMESPACE))
        policy = revision.config.policy
        timed("policy", lambda: injection_required(policy, revision.behaviours, pod, NAMESPACE))
        params = timed("parameters", lambda: webhook_parameters(revision, pod, RequestFacts(NAMESPACE)))
        data = timed("data", lambda: template_data(params, pod))
        text = timed("render", lambda: revision.templates[SIDECAR_TEMPLATE_NAME].render(data))
        templates = OverlayTemplates(revision, pod, names, native=native_sidecar(revision, pod))
        overlays = timed("yaml", lambda: templates.read([text]))
        rendered = timed("merge", lambda: templates.merge(overlays))
        timed("guard", lambda: TemplateGuard(params, pod, templates).check([text], overlays))
        final = timed("postprocess", lambda: finish(params, rendered))
        timed("validate", lambda: check_valid(final, pod))
        timed("patch", lambda: dump_json(create_patch(review.object, final)))
        return times


def main() -> int:
    """Measure one revision."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_revision_option(parser)
    parser.add_argument("--record", action="store_true", help="append the figures to bench/results")
    options = parser.parse_args()
    revision, bodies = revision_in(options.revision), list(reviews("unique", PODS))
    rows = {**template_stages(revision), **request_stages(revision, bodies)}
    show(f"{revision.name}, {len(bodies)} pods", rows)
    if options.record:
        record("stages", {"revision": revision.name, "minor": revision.istio_version, "pods": len(bodies), **rows})
    return 0


def template_stages(revision: Revision) -> dict[str, dict[str, float]]:
    """Measure how long it takes to build the sidecar template of a revision, if it is a Go template."""
    if revision.engine != "go":
        return {}
    text = revision.config.templates[SIDECAR_TEMPLATE_NAME]
    functions = go_functions(revision.minor, dict(revision.env))
    delimiters = revision.config.delimiters
    runs: dict[str, Callable[[], Any]] = {
        "lex": lambda: list(tokens(text, *delimiters)),
        "parse": lambda: parse_template("sidecar", text, functions={**BUILTINS, **functions}),
        "compile": lambda: (
            compile_template("sidecar", text, funcs=functions, left=delimiters[0], right=delimiters[1]).program
        ),
    }
    rows = {}
    for name, run in runs.items():
        rows[name] = summary([processor_time(run) for _ in range(ROUNDS)])
    return rows


def request_stages(revision: Revision, bodies: list[bytes]) -> dict[str, dict[str, float]]:
    """Return what the stages of a request cost, what all of the pipeline does, and a whole request; each of other reviews."""
    handler = InjectHandler(Registry(snapshot_of([revision], {})), Metrics(CollectorRegistry()), Lifecycle())
    stages = Stages(revision)
    times: dict[str, list[float]] = {}
    for number, body in enumerate(bodies):
        if number % 3 == 0:
            figures = stages.one(body)
        elif number % 3 == 1:
            pod = decode(body).object
            figures = {"pipeline": processor_time(partial(inject_pod, revision, pod, RequestFacts(NAMESPACE)))}
        else:
            watch = Stopwatch()
            figures = {"request": processor_time(partial(handler.answer, f"/inject/{revision.name}", body, watch))}
        for name, taken in figures.items():
            times.setdefault(name, []).append(taken)
    return {name: summary(taken) for name, taken in times.items()}


def processor_time(run: Callable[[], Any]) -> float:
    """Return the microseconds of processor time of one call."""
    started = time.process_time()
    run()
    return (time.process_time() - started) * 1e6


def summary(times: list[float]) -> dict[str, float]:
    """Return the mean, the median and the largest of some times."""
    figures = {"mean_us": statistics.fmean(times), "median_us": statistics.median(times), "max_us": max(times)}
    return {name: round(value, 1) for name, value in figures.items()}


if __name__ == "__main__":
    sys.exit(main())
