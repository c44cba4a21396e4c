"""Commands answer about files as about the API server that has the same objects."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.cluster import Cluster
from tests.e2e.conftest import OneCluster, plain
from tests.manifests import account_of, namespace_of
from tests.property.clusters import FORMS, KINDS, Object, answers, draws, random_cluster
from tests.sizes import sized
from tests.upgrade.fleets import DOCUMENT

SETS = int(os.environ.get("ONE_VIEW_LIVE_SETS", sized(3, 100)))
EXPORTED = {
    "Namespace": "/api/v1/namespaces",
    "ConfigMap": "/api/v1/configmaps",
    "Service": "/api/v1/services",
    "EndpointSlice": "/apis/discovery.k8s.io/v1/endpointslices",
    "Pod": "/api/v1/pods",
    "MutatingWebhookConfiguration": "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
    **{kind: f"/apis/{version}/{kind.lower()}s" for kind, version in KINDS.items()},
}
VERSIONS = {
    **dict.fromkeys(("Namespace", "ConfigMap", "Service", "Pod"), "v1"),
    "EndpointSlice": "discovery.k8s.io/v1",
    "MutatingWebhookConfiguration": "admissionregistration.k8s.io/v1",
    **KINDS,
}


def as_created(obj: Object) -> Object:
    """An object that the API server accepts."""
    if obj["kind"] == "EndpointSlice":
        return {**obj, "addressType": "IPv4"}
    if obj["kind"] == "Pod":
        return {**obj, "spec": {**obj["spec"], "automountServiceAccountToken": False}}
    return obj


def load(cluster: Cluster, objects: list[Object]) -> None:
    """Create the objects: the webhooks at the end, because nothing answers them."""
    places = {obj["metadata"]["name"] for obj in objects if obj["kind"] == "Namespace"} | {"default"}
    homes = {obj["metadata"].get("namespace", "default") for obj in objects} - places
    cluster.apply(*(namespace_of(home) for home in sorted(homes)))
    first = [obj for obj in objects if obj["kind"] == "Namespace"]
    last = [obj for obj in objects if obj["kind"] == "MutatingWebhookConfiguration"]
    cluster.apply(*first, *(account_of(place) for place in sorted(places)))
    cluster.apply(*(as_created(obj) for obj in objects if obj not in first and obj not in last), *last)


def export(cluster: Cluster) -> list[Object]:
    """The objects as the API server has them."""
    return [
        {"apiVersion": VERSIONS[kind], "kind": kind, **item}
        for kind, path in EXPORTED.items()
        for item in cluster.items(path)
    ]


@pytest.mark.parametrize("seed", range(SETS))
def test_files_with_the_objects_of_a_cluster_give_its_answers(
    seed: int, one_cluster: OneCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = one_cluster.get("plain", plain)
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
    document: Any = {**DOCUMENT, "spec": {**DOCUMENT["spec"], "from": "1-24", "to": "1-30"}}
    upgrade, folder, draw = tmp_path / "up.json", tmp_path / "files", draws(seed)
    upgrade.write_text(json.dumps(document))
    folder.mkdir()
    load(cluster, random_cluster(draw))

    expected = answers(upgrade)
    objects = export(cluster)
    FORMS[draw.choice(list(FORMS))](draw, draw.sample(objects, len(objects)), folder)

    assert answers(upgrade, str(folder)) == expected
