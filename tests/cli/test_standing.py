from __future__ import annotations

import asyncio
import json
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import pytest

from injector.cli.clusterview import Sources, read_surroundings
from injector.cli.status import Row, Standing, rows, standing_of
from injector.errors import ManifestError
from injector.injection.pipeline import inject_pod
from injector.injection.result import Injected, RequestFacts
from injector.injection.tools.drift import CURRENT, OLDER_REVISION, OLDER_TEMPLATE, Drift
from tests.cli.clusters import HOME, cluster, labelled, namespace, owned, revision, tag
from tests.revisions.fakes import CONFIG

if TYPE_CHECKING:
    from injector.cli.clusterview import Surroundings

INJECT = "sidecar.istio.io/inject"
OFF = CONFIG.replace("enabled", "disabled")
OBJECTS = (
    *revision("1-24", "1.24.6"),
    *revision("1-30", "1.30.1"),
    *revision("off", "1.30.1", config=OFF),
    *revision("broken", "1.30.1", config="templates: {sidecar: '{{ .x'}"),
    tag("prod", "1-24"),
    *(labelled(name, name) for name in ("prod", "1-24", "1-30", "off", "broken", "gone")),
    namespace("none"),
)


@pytest.fixture(scope="module")
def around() -> Surroundings:
    return asyncio.run(read_surroundings(cluster(*OBJECTS), Sources(None, HOME), None))


def injected(around: Surroundings, name: str, place: str, **meta: Any) -> dict[str, Any]:
    """A running pod with the sidecar of a revision."""
    answer = inject_pod(around.built.revisions[name], owned("web", place, **meta), RequestFacts(place))
    assert isinstance(answer, Injected)
    return deepcopy(answer.pod)  # what a revision rendered is remembered, and not to be changed


def proxy_of(pod: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = next(each for each in pod["spec"]["containers"] if each["name"] == "istio-proxy")
    return found


@pytest.mark.parametrize(
    ("has", "place", "gets", "state"),
    [
        ("1-24", "prod", "1-24", "current"),
        ("1-24", "1-30", "1-30", "older revision"),
        (None, "1-30", "1-30", "missing sidecar"),
        ("1-24", "none", None, "unexpected sidecar"),
        ("1-24", "off", None, "unexpected sidecar"),
        ("1-24", "gone", "gone", "unknown revision"),
        (None, "gone", "gone", "unknown revision"),
        ("1-24", "broken", "broken", "unknown revision"),
    ],
)
def test_a_pod_stands_by_what_it_has_and_its_namespace_asks_for(
    around: Surroundings, has: str | None, place: str, gets: str | None, state: str
) -> None:
    pod = owned("web", place) if has is None else injected(around, has, place)

    assert standing_of(pod, around) == Standing((place, "Deployment", "web"), has, gets, Drift(state))


@pytest.mark.parametrize("place", ["none", "off"])
def test_a_pod_that_neither_has_nor_would_get_a_sidecar_is_left_out(around: Surroundings, place: str) -> None:
    assert standing_of(owned("web", place), around) is None


@pytest.mark.parametrize(
    "changed", [{"status": {"phase": "Succeeded"}}, {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}]
)
def test_a_pod_that_has_ended_is_left_out(around: Surroundings, changed: dict[str, Any]) -> None:
    pod = owned("web", "1-30")
    meta = {**pod["metadata"], **changed.get("metadata", {})}

    assert standing_of({**pod, **changed, "metadata": meta}, around) is None


def test_an_older_template_has_its_kinds(around: Surroundings) -> None:
    pod = injected(around, "1-24", "prod")
    proxy_of(pod)["image"] = "proxy:1.24.5"

    found = standing_of(pod, around)

    assert found is not None
    assert found.drift == Drift(OLDER_TEMPLATE, ("image",))


def test_a_pod_that_would_be_refused_says_so(around: Surroundings) -> None:
    pod = owned("web", "1-30", annotations={"sidecar.istio.io/proxyCPU": "odd!"})

    found = standing_of(pod, around)

    assert found == Standing(("1-30", "Deployment", "web"), None, "1-30", Drift("refused"))


def test_a_pod_that_cannot_be_uninjected_is_told_by_its_revision_alone(around: Surroundings) -> None:
    def broken(place: str) -> dict[str, Any]:
        pod = injected(around, "1-24", place)
        proxy_of(pod).update({"image": "x", "env": [{"name": "ISTIO_KUBE_APP_PROBERS", "value": "{"}]})
        return pod

    found = [standing_of(broken(place), around) for place in ("1-24", "1-30")]

    assert [each.drift.state for each in found if each is not None] == [CURRENT, OLDER_REVISION]


def test_the_label_that_an_old_injection_wrote_asks_for_nothing(around: Surroundings) -> None:
    status = {"containers": ["istio-proxy"], "initContainers": None, "volumes": None, "imagePullSecrets": None}
    pod = injected(around, "1-24", "none", labels={"istio.io/rev": "1-24"})
    newer = standing_of(pod, around)
    pod["metadata"]["annotations"]["sidecar.istio.io/status"] = json.dumps(status)
    older = standing_of(pod, around)

    assert [each.drift.state for each in (newer, older) if each is not None] == ["current", "unexpected sidecar"]


def test_a_pod_that_is_none_or_whose_namespace_nobody_knows_is_an_error(around: Surroundings) -> None:
    with pytest.raises(ManifestError):
        standing_of({**owned("web", "prod"), "spec": {"containers": "x"}}, around)
    with pytest.raises(KeyError):
        standing_of(owned("web", "nowhere"), around)


def standing(name: str, has: str, drift: Drift) -> Standing:
    return Standing(("shop", "Deployment", name), has, "1-30", drift)


def test_pods_that_stand_alike_are_one_row_of_their_workload() -> None:
    current, older = standing("b", "1-30", Drift(CURRENT)), standing("b", "1-24", Drift(OLDER_REVISION))
    template = standing("a", "1-30", Drift(OLDER_TEMPLATE, ("image", "env")))

    found = rows([older, current, template, current])

    assert found == [Row(template, 1), Row(current, 2), Row(older, 1)]
    assert found[1].cells == ("shop", "Deployment/b", "2", "1-30", "1-30", "current")
    assert found[0].data == {
        "namespace": "shop",
        "kind": "Deployment",
        "name": "a",
        "pods": 1,
        "has": "1-30",
        "wouldGet": "1-30",
        "state": "older template",
        "changes": ["image", "env"],
    }


def test_no_sidecar_is_a_dash() -> None:
    assert Row(Standing(("s", "Pod", "p"), None, None, Drift(CURRENT)), 1).cells[3:5] == ("-", "-")


def test_a_hostile_name_neither_moves_the_terminal_nor_fills_it() -> None:
    row = Row(Standing(("s", "Pod", "p"), "\x1b[2J" + "x" * 500, None, Drift(CURRENT)), 1)

    assert row.cells[3].startswith('"\\u001b[2Jx')
    assert len(row.cells[3]) < 120
