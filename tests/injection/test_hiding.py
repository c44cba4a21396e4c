from __future__ import annotations

import json
from typing import Any

import pytest

from injector.injection.tools.podchanges import ABSENT, HIDDEN, HIDDEN_ANNOTATIONS, hiding_of
from tests.factories import make_container, make_pod

PRIVATE = "hunter2-hunter2"


def env(**variables: str) -> list[dict[str, Any]]:
    return [{"name": name, "value": value} for name, value in variables.items()]


def test_every_variable_of_the_users_own_container_is_hidden() -> None:
    pod = make_pod(containers=[make_container(env=env(TOKEN=PRIVATE))])
    injected = make_container(env=[*env(TOKEN=PRIVATE, ADDED=PRIVATE), {"name": "REF", "valueFrom": {"a": "b"}}])

    assert hiding_of(pod).container(injected)["env"] == [
        {"name": "TOKEN", "value": HIDDEN},
        {"name": "ADDED", "value": HIDDEN},
        {"name": "REF", "valueFrom": {"a": "b"}},
    ]


def test_of_the_proxy_only_what_the_user_wrote_is_hidden() -> None:
    pod = make_pod(containers=[make_container(), make_container("istio-proxy", env=env(MINE=PRIVATE))])

    hidden = hiding_of(pod).container(make_container("istio-proxy", env=env(MINE=PRIVATE, ISTIOS="shown")))

    assert hidden["env"] == env(MINE=HIDDEN, ISTIOS="shown")


def test_a_container_that_the_injection_adds_is_shown() -> None:
    container = make_container("istio-proxy", env=env(A="b"))

    assert hiding_of(make_pod()).container(container) == container


@pytest.mark.parametrize("kind", ["containers", "initContainers", "ephemeralContainers"])
def test_a_whole_pod_shows_no_secret_wherever_it_stands(kind: str) -> None:
    pod = make_pod(annotations={name: json.dumps({"env": PRIVATE}) for name in HIDDEN_ANNOTATIONS} | {"a": "b"})
    pod["spec"][kind] = [make_container("mine", env=env(TOKEN=PRIVATE))]

    shown = hiding_of(pod).pod(pod)

    assert PRIVATE not in json.dumps(shown)
    assert shown["metadata"]["annotations"] == {**dict.fromkeys(HIDDEN_ANNOTATIONS, HIDDEN), "a": "b"}
    assert PRIVATE in json.dumps(pod)


def test_a_message_loses_the_values_it_quotes_the_longest_first() -> None:
    pod = make_pod(containers=[make_container(env=env(A="secret", B="secret-long", C="abc", D=""))])

    assert hiding_of(pod).without_values("abc: secret-long, secret") == f"abc: {HIDDEN}, {HIDDEN}"


def test_an_entry_shows_where_its_value_is_from_and_never_the_value() -> None:
    hidden = hiding_of(make_pod()).variables("app")

    assert "ANY" in hidden
    assert hidden.entry(ABSENT) is ABSENT
    assert hidden.entry({"name": "A", "value": PRIVATE}) == HIDDEN
    assert hidden.entry({"name": "A"}) == HIDDEN
    assert hidden.entry({"name": "A", "valueFrom": {"x": 1}}) == {"valueFrom": {"x": 1}}


def test_a_variable_that_stands_twice_is_hidden_twice() -> None:
    pod = make_pod(containers=[make_container("istio-proxy", env=[*env(A="1"), *env(A="2")])])

    assert "A#2" in hiding_of(pod).variables("istio-proxy")
    assert "B" not in hiding_of(pod).variables("istio-proxy")
