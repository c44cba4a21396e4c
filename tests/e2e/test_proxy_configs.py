"""ProxyConfig resources of a real API server: without the CustomResourceDefinition, created, changed and deleted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.cli.clusters import SHOWS_A, proxy_config
from tests.e2e.cluster import Cluster
from tests.e2e.served import injector, of_cluster
from tests.factories import make_pod
from tests.manifests import control_plane, namespace_of, resource_of

DEFINITION = resource_of("networking.istio.io", "ProxyConfig", version="v1beta1")


def test_proxy_configs_apply_once_their_definition_is_installed_and_are_followed(
    cluster: Cluster, tmp_path: Path
) -> None:
    home, shop = "istio-proxyconfigs", "proxyconfigs-shop"
    cluster.apply(namespace_of(home), namespace_of(shop), *control_plane(home, "default", tag="1.30.1", config=SHOWS_A))
    pod = make_pod(namespace=shop, labels={"app": "web"})

    with injector(tmp_path, "--insecure-http", *of_cluster(cluster, home)) as served:
        assert served.image("default", pod) == "proxy:none"  # ready without the definition
        assert served.total("injector_watch_synced", resource="proxyconfigs") == 1

        cluster.define(DEFINITION)
        cluster.apply(proxy_config(shop, A="1"))
        served.until(lambda: served.image("default", pod) == "proxy:1")
        assert served.image("default", make_pod(namespace="default")) == "proxy:none"

        cluster.apply(proxy_config(shop, A="2"))
        served.until(lambda: served.image("default", pod) == "proxy:2")

        by_label: dict[str, Any] = proxy_config(shop, A="web")
        by_label["metadata"]["name"] = "web"
        by_label["spec"]["selector"] = {"matchLabels": {"app": "web"}}
        cluster.apply(by_label)
        served.until(lambda: served.image("default", pod) == "proxy:web")

        for name in ("web", "all"):
            cluster.delete("proxyconfig", name, shop)
        served.until(lambda: served.image("default", pod) == "proxy:none")
    cluster.delete("crd", str(DEFINITION["metadata"]["name"]))
