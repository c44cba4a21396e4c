"""A dry run is answered as if it were none, and nothing remembers it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from injector.revisions.registry import Registry, snapshot_of
from injector.revisions.tags import parse_tags
from injector.revisions.verify import RecentPods
from injector.webhook.handler import InjectHandler
from injector.webhook.server import webhook_app
from injector.webhook.shadow import Shadows
from tests.factories import make_review
from tests.revisions.fakes import fake_revision

if TYPE_CHECKING:
    from injector.metrics import Metrics
    from injector.webhook.lifecycle import Lifecycle
    from injector.webhook.shadow import Admission
    from tests.webhook.conftest import ClientFactory, Core


class Remembering(Shadows):
    """Shadows that keep what they are offered."""

    def __init__(self, metrics: Metrics) -> None:
        super().__init__(metrics)
        self.offered: list[Admission] = []

    def offer(self, admission: Admission) -> None:
        self.offered.append(admission)


@pytest.mark.parametrize("dry_run", [False, True])
async def test_a_dry_run_is_answered_alike_and_remembered_by_nobody(
    aiohttp_client: ClientFactory, core: Core, registry: Registry, metrics: Metrics, lifecycle: Lifecycle, dry_run: bool
) -> None:
    registry.swap(
        snapshot_of(
            [fake_revision("1-24"), fake_revision("1-30")],
            parse_tags("prod: {revision: 1-24, shadow: {revision: 1-30}}"),
        )
    )
    shadows, recent = Remembering(metrics), RecentPods()
    client = await aiohttp_client(
        webhook_app(InjectHandler(registry, metrics, lifecycle, shadows=shadows, recent=recent))
    )

    real = await (await client.post("/inject/prod", json=make_review())).read()
    shadows.offered.clear()
    recent.forget_others(())
    answer = await (await client.post("/inject/prod", json=make_review(dryRun=dry_run))).read()

    assert answer == real
    assert all(each == core.asked[0] for each in core.asked)
    assert (len(shadows.offered), len(recent.snapshot())) == ((0, 0) if dry_run else (1, 1))
