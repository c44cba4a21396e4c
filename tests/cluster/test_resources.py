from __future__ import annotations

import pytest

from injector.cluster.reader import CONFIG_MAPS, NODES, PODS, SERVICES, WEBHOOKS, Resource, Scope


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
