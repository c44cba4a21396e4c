from __future__ import annotations

from typing import TYPE_CHECKING

from injector.webhook.app import MAX_BODY, webhook_app

if TYPE_CHECKING:
    from injector.webhook.inject import InjectHandler


def test_the_webhooks_port_has_one_route(handler: InjectHandler) -> None:
    app = webhook_app(handler)

    assert [(route.method, str(route.resource and route.resource.canonical)) for route in app.router.routes()] == [
        ("POST", "/inject{rest}")
    ]


def test_a_review_may_have_eight_mebibytes() -> None:
    assert MAX_BODY == 8 * 2**20
