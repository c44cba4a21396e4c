"""Lists of a resource, page by page, and the kinds that a cluster has."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from injector.cluster.client import KubeClient, Page
from injector.cluster.resources import CONFIG_MAPS, NODES, PODS, SERVICES, WEBHOOKS, Resource, Scope
from injector.errors import ClusterError
from tests.cluster.fakes import failure, page

SCOPE = Scope(PODS, "shop")


@dataclass
class Client(KubeClient):
    """Answers with pages in their order."""

    pages: list[Page | Exception]
    requests: list[tuple[str, int]] = field(default_factory=list)

    async def page(self, scope: Scope, *, token: str = "", limit: int = 0) -> Page:
        assert scope == SCOPE
        self.requests.append((token, limit))
        answer = self.pages.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def item(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}}


def name(obj: dict[str, Any]) -> str | None:
    """The name of an object, but for one that is left out."""
    text: str = obj["metadata"]["name"]
    return None if text == "out" else text


async def test_every_page_is_read_and_only_what_is_kept_stays() -> None:
    client = Client([page(item("a"), item("out"), more="next"), page(item("b"))])

    assert await client.all(SCOPE, name) == ["a", "b"]
    assert client.requests == [("", 500), ("next", 500)]


async def test_items_of_a_list_get_their_kind() -> None:
    client = Client([page(item("a"))])

    assert await client.all(SCOPE, lambda obj: (obj["apiVersion"], obj["kind"])) == [("v1", "Pod")]


async def test_an_expired_list_is_started_again() -> None:
    client = Client([page(item("a"), more="next"), failure("gone"), page(item("a"), item("b"))])

    assert await client.all(SCOPE, name) == ["a", "b"]
    assert [token for token, _ in client.requests] == ["", "next", ""]


@pytest.mark.parametrize("faults", [["gone"] * 3, ["forbidden"]])
async def test_it_is_begun_so_often_and_no_more_and_any_other_fault_ends_it(faults: list[str]) -> None:
    client = Client([*map(failure, faults), page(item("a"))])

    with pytest.raises(ClusterError):
        await client.all(SCOPE, name)

    assert len(client.pages) == 1


@pytest.mark.parametrize(
    ("resource", "namespace", "name", "path"),
    [
        (CONFIG_MAPS, "istio-system", "", "/api/v1/namespaces/istio-system/configmaps"),
        (CONFIG_MAPS, "istio-system", "istio", "/api/v1/namespaces/istio-system/configmaps/istio"),
        (PODS, "", "", "/api/v1/pods"),
        (SERVICES, "a", "b", "/api/v1/namespaces/a/services/b"),
        (NODES, "", "a", "/api/v1/nodes/a"),
        (NODES, "ignored", "", "/api/v1/nodes"),
        (WEBHOOKS, "", "", "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"),
    ],
)
def test_a_resource_is_found_where_the_api_has_it(resource: Resource, namespace: str, name: str, path: str) -> None:
    assert resource.path(namespace=namespace, name=name) == path


def test_a_scope_says_what_it_is() -> None:
    assert str(Scope(CONFIG_MAPS, "istio-system", "istio.io/rev")) == "configmaps in istio-system"
    assert str(Scope(NODES)) == "nodes"
