"""A canary upgrade for tests of the status page: two hours of admissions on a fake clock."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Final, cast

from prometheus_client import CollectorRegistry

from injector.errors import ConfigError
from injector.golang.json import dump_json
from injector.injection.result import RequestFacts, Skipped
from injector.injection.tools.podchanges import Change
from injector.kube.admission import decode
from injector.metrics import Metrics, Outcome
from injector.revisions.registry import Registry, snapshot_of
from injector.revisions.reload import Loader
from injector.revisions.reports import LoadReport, RevisionState
from injector.revisions.tags import choose, parse_tags
from injector.webhook.decisions import LOGGED, Decisions
from injector.webhook.handler import InjectHandler
from injector.webhook.lifecycle import Lifecycle, Phase, Supervisor
from injector.webhook.operations import Operations
from injector.webhook.shadow import Admission, Shadows
from tests.factories import make_pod, make_review
from tests.handlers import decided
from tests.revisions.fakes import fake_revision

START: Final = 1_767_225_600.0
"""2026-01-01 00:00:00Z."""
STEP: Final = 10.0
WEIGHTS: Final = ((0, 0), (1200, 5), (2800, 10), (4600, 25), (6000, 50))
"""From which second on the new revision has which weight, in percent."""
UPGRADES: Final[list[dict[str, Any]]] = [
    {
        "name": "to-1-30", "tag": "canary", "from": "1-24", "to": "1-30", "phase": "Running", "progress": "wave rest, Soaking: 3 done",
        "waves": [{"name": "dev", "done": True}, {"name": "rest", "done": False}], "left": 30, "total": 40, "secondsLeft": 300.0,
        "gates": {"latency": "pass", "errors": "no data"}, "reason": "soaking", "progressedAt": 1.0,
    },
]  # fmt: skip
TAGS: Final = """\
canary: {1-24: 50, 1-30: 50}
next: {revision: 1-24, shadow: {revision: 1-30, sample: 25}}
prod: 1-24
"""
OLD, NEW = fake_revision("1-24", version="1.24"), fake_revision("1-30", version="1.30", fingerprint="beefcafe")


@dataclass
class Cluster:
    """What is served, and what was counted so far."""

    metrics: Metrics = field(default_factory=lambda: Metrics(CollectorRegistry(), version="1.2.3"))
    now: float = START
    tags: str = TAGS
    random: random.Random = field(default_factory=lambda: random.Random(7))  # noqa: S311 -- traffic, no secret

    upgrades: Callable[[], list[dict[str, Any]]] | None = None
    decisions: Decisions = field(default_factory=lambda: Decisions(LOGGED["none"], now=lambda: START + 7200))

    def __post_init__(self) -> None:
        self.shadows = Shadows(self.metrics)

    def operations(self) -> Operations:
        """The handlers of the operations port that tell of it."""
        tags, lifecycle = parse_tags(self.tags), Lifecycle()
        lifecycle.phase = Phase.SERVING
        broken = RevisionState(
            "1-27", None, ConfigError("is no YAML", where="revisions/1-27/config:12", hint="close the bracket")
        )
        states = {"1-24": RevisionState("1-24", OLD, None, START - 9000), "1-27": broken}
        states["1-30"] = RevisionState("1-30", NEW, None, START + 900, ("no policy: `enabled` is taken",))
        report = LoadReport(states, (ConfigError("leads nowhere", where="tag `old`"),), tags=tags, at=START + 5400)
        registry = Registry(snapshot_of([OLD, NEW], tags))
        handler = InjectHandler(registry, self.metrics, lifecycle, decisions=self.decisions)
        handler.shadows = self.shadows
        return Operations(
            handler,
            cast("Loader", SimpleNamespace(report=report)),
            "1.2.3",
            Supervisor(self.metrics),
            upgrades=self.upgrades,
            clock=lambda: self.now,
        )

    def passes(self, seconds: float) -> None:
        """Let time pass, with its admissions."""
        for _ in range(round(seconds / STEP)):
            self.now += STEP
            for _ in range(self.random.randrange(9)):
                self._admits(self.now - START)

    def _admits(self, elapsed: float) -> None:
        weight = next(weights for since, weights in reversed(WEIGHTS) if elapsed >= since)
        workload = f"web-{self.random.randrange(400)}"
        weights = [("1-24", 100 - weight), ("1-30", weight)]
        name = choose(weights, "canary", ("shop", "Deployment", workload))
        self.answer("canary", name)
        if elapsed % 3 == 0:
            self.answer("next", "1-24")
            self.shadow("next")

    def answer(self, tag: str, revision: str) -> None:
        """Count one admission as the webhook does."""
        slow = 1.7 if revision == "1-30" else 1.0
        seconds = {"total": slow * self.random.lognormvariate(-6.5, 0.6)}
        outcome, reason = Outcome.SUCCESS, ""
        if self.random.random() < 0.05:
            outcome, reason = Outcome.SKIP, self.random.choice(("label", "policy"))
        elif self.random.random() < (0.02 if revision == "1-30" else 0.002):
            outcome, reason = Outcome.FAILURE, self.random.choice(("template", "annotation"))
        self.metrics.requests.count(outcome, seconds, reason, revision, tag)

    def refuse(self, workload: str, reason: str) -> None:
        """Refuse the pods of a workload."""
        review = decode(dump_json(make_review(make_pod(workload), namespace="shop")))
        self.decisions.log(decided(review, Outcome.FAILURE, reason, "1-30", "canary", "place"), 0.0)

    def shadow(self, tag: str) -> None:
        """Let the shadow try one admission."""
        changes = (
            [Change("image", "spec.containers[istio-proxy].image", "a", "b")] if self.random.random() < 0.3 else []
        )
        if changes and self.random.random() < 0.4:
            changes.append(Change("env", "spec.containers[istio-proxy].env[ISTIO_META_X].value", "a", "b"))
        facts: Any = RequestFacts("shop")
        self.shadows.count(Admission(tag, OLD, NEW, {}, facts, Skipped("label", "no"), 1), changes)
