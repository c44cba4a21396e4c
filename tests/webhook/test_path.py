from __future__ import annotations

import pytest

from injector.errors import ReviewError
from injector.webhook.path import parse_path

CLUSTER = "ISTIO_META_CLUSTER_ID"
NETWORK = "ISTIO_META_NETWORK"


@pytest.mark.parametrize(
    ("path", "name", "envs"),
    [
        ("/inject", "", {}),
        ("/inject/", "", {}),
        ("/inject/1-24", "1-24", {}),
        ("/inject/1-24/", "1-24", {}),
        ("/inject/cluster/c1", "", {CLUSTER: "c1"}),
        ("/inject/cluster/c1/net/n1", "", {CLUSTER: "c1", NETWORK: "n1"}),
        ("/inject/net/n1/cluster/c1/", "", {CLUSTER: "c1", NETWORK: "n1"}),
        ("/inject/prod/cluster/c1/net/n1", "prod", {CLUSTER: "c1", NETWORK: "n1"}),
        ("/inject/prod/ISTIO_META_X/y", "prod", {"ISTIO_META_X": "y"}),
        ("/inject/prod/istio_meta_x/y", "prod", {"ISTIO_META_X": "y"}),
        ("/inject/prod/cluster", "prod", {}),
        ("/inject/prod/cluster/c1/net", "prod", {CLUSTER: "c1"}),
        ("/inject/prod/net/a--slash--b--slash--c", "prod", {NETWORK: "a/b/c"}),
        ("/inject/prod/a--slash--b/c", "prod", {"A--SLASH--B": "c"}),
        ("/inject/prod/cluster/a/cluster/b", "prod", {CLUSTER: "b"}),
        ("/inject/prod//x/net/n1", "prod", {NETWORK: "n1"}),
        ("/inject/prod/net/", "prod", {}),
        ("/inject/prod/net/n%201", "prod", {NETWORK: "n 1"}),
        ("/inject/prod/net/n%2F1", "prod", {NETWORK: "n/1"}),
        ("/inject/prod/net/%C3%A4", "prod", {NETWORK: "ä"}),
        ("/inject/:ENV:cluster=c1:ENV:net=n1", "", {CLUSTER: "c1", NETWORK: "n1"}),
        ("/inject/:ENV:x=:ENV:=y:ENV:z:ENV:a=b=c", "", {"X": "", "A": "b=c"}),
        ("/inject/prod/:ENV:net=a/b", "prod", {NETWORK: "a/b"}),
    ],
)
def test_a_path_names_a_revision_and_adds_to_the_environment(path: str, name: str, envs: dict[str, str]) -> None:
    parsed = parse_path(path)

    assert (parsed.name, dict(parsed.envs)) == (name, envs)


@pytest.mark.parametrize(
    "path",
    [
        "/inject/..",
        "/inject/../../etc/passwd",
        "/inject/..%2f..%2fetc%2fpasswd",
        "/inject/%2e%2e",
        "/inject/Prod",
        "/inject/a%2Fb",
        "/inject/a.b",
        "/inject/a_b",
        "/inject/%C3%A4",
        "/inject/" + "a" * 64,
        "/inject/" + "a" * 5000,
        "/inject/%00",
        "/inject/a%0d%0aX-Evil:1",
        "/inject/%ff",
        "/inject//prod",
        "/inject/prod/net/a%00b",
        "/inject/prod/net/a%0ab",
        "/inject/prod/net/%ff",
        "/inject/prod/net/%e2%80%a8",
        "/inject/prod/a%3Db/c",
        "/inject/prod/%C3%A4/c",
        "/inject/<script>",
    ],
)
def test_a_hostile_path_is_refused_in_a_short_line(path: str) -> None:
    with pytest.raises(ReviewError) as caught:
        parse_path(path)

    message = str(caught.value)
    assert len(message) < 300
    assert message.isprintable()
    assert caught.value.hint
