from __future__ import annotations

from typing import TYPE_CHECKING

from injector.webhook.server import MAX_BODY, webhook_app
from injector.webhook.unserved import UnservedHandler

if TYPE_CHECKING:
    from injector.metrics import Metrics
    from injector.revisions.registry import Registry
    from injector.webhook.handler import InjectHandler
    from injector.webhook.lifecycle import Lifecycle


def test_the_webhooks_port_has_one_route(handler: InjectHandler) -> None:
    app = webhook_app(handler)

    assert [(route.method, str(route.resource and route.resource.canonical)) for route in app.router.routes()] == [
        ("POST", "/inject{rest}")
    ]


def test_beside_it_is_that_for_names_that_nobody_serves(
    handler: InjectHandler, registry: Registry, metrics: Metrics, lifecycle: Lifecycle
) -> None:
    app = webhook_app(handler, UnservedHandler(handler.reader, registry, metrics, lifecycle))

    assert [str(route.resource and route.resource.canonical) for route in app.router.routes()] == [
        "/inject{rest}", "/unserved/{action}/{kind}",
    ]  # fmt: skip


def test_a_review_may_have_eight_mebibytes() -> None:
    assert MAX_BODY == 8 * 2**20
