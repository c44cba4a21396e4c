from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from injector.injection.pipeline import admitted_pod, webhook_parameters
from injector.injection.result import RequestFacts
from injector.injection.suspects import document, harmless_data, rule_of, shown_place, suspects, without
from injector.istio.harmless import Harmless, suspicious
from injector.revisions.build import build
from tests.factories import make_pod
from tests.revisions.fakes import CONFIG, make_raw

if TYPE_CHECKING:
    from injector.injection.parameters import Parameters

PROXY_CONFIG = "proxy.istio.io/config"
MANY: dict[str, Any] = {
    "annotations": {"a": "it's", "b": "c"},
    "labels": {"x: y": "z"},
    "nodeSelector": {"n": "o\np"},
}


def params_of(pod: dict[str, Any], minor: int = 30, config: str = CONFIG) -> Parameters:
    revision = build(make_raw("rev", config=config, settings={"istioVersion": f"1.{minor}"}))
    return webhook_parameters(revision, admitted_pod(pod, "shop"), RequestFacts("shop"))


def many() -> dict[str, Any]:
    return make_pod(annotations=MANY["annotations"], labels=MANY["labels"], nodeSelector=MANY["nodeSelector"])


def test_texts_and_keys_are_suspected_wherever_they_stand() -> None:
    params = params_of(many())

    assert suspects(document(params, params.pod), suspicious) == [
        ("metadata", "labels", "x: y"),
        ("metadata", "annotations", "a"),
        ("spec", "nodeSelector", "n"),
    ]


def test_keys_of_objects_are_suspected_too() -> None:
    assert suspects({"a": {"b: c": {"d": ["e'"]}}}, suspicious) == [("a", "b: c"), ("a", "b: c", "d", 0)]


def test_a_clean_pod_has_none() -> None:
    params = params_of(make_pod())

    assert suspects(document(params, params.pod), suspicious) == []


def test_up_to_1_21_templates_see_the_metadata_of_the_workload() -> None:
    assert "owner" in document(params_of(make_pod(), 21), make_pod())
    assert "owner" not in document(params_of(make_pod(), 22), make_pod())


def test_harmless_texts_stand_in_their_place_and_those_of_annotations_know_the_real_ones() -> None:
    found = without(
        {"metadata": MANY}, frozenset({("metadata", "annotations", "a"), ("metadata", "nodeSelector", "n")})
    )

    assert found == {"metadata": {**MANY, "annotations": {"a": "itxs", "b": "c"}, "nodeSelector": {"n": "oxp"}}}
    assert isinstance(found["metadata"]["annotations"]["a"], Harmless)
    assert type(found["metadata"]["nodeSelector"]["n"]) is str


def test_annotations_and_labels_can_be_gone_instead() -> None:
    chosen = frozenset({("metadata", "annotations", "a"), ("metadata", "labels", "x: y")})

    assert without({"metadata": MANY}, chosen, gone=True)["metadata"] == {
        **MANY,
        "annotations": {"b": "c"},
        "labels": {},
    }
    assert list(without({"metadata": MANY}, chosen)["metadata"]["labels"]) == ["xx y"]


@pytest.mark.parametrize(("gone", "expected"), [(False, {"A": "itxs"}), (True, {})])
def test_the_proxy_config_of_an_annotation_is_decoded_and_tamed(*, gone: bool, expected: dict[str, str]) -> None:
    params = params_of(make_pod(annotations={PROXY_CONFIG: 'proxyMetadata:\n  A: "it\'s"\n'}))

    data = harmless_data(params, params.pod, frozenset({("metadata", "annotations", PROXY_CONFIG)}), gone=gone)

    assert dict(data.field("ProxyConfig").target.field("ProxyMetadata") or {}) == expected


def test_templates_that_decode_make_every_text_that_is_no_plain_name_suspicious() -> None:
    decoding = CONFIG.replace("{{ .Values.global.tag }}", "{{ b64dec .Values.global.tag }}")

    assert rule_of(params_of(make_pod()).revision) is suspicious
    assert rule_of(params_of(make_pod(), config=decoding).revision)("aXQncw==")


@pytest.mark.parametrize(
    ("place", "words"),
    [
        (("metadata", "annotations", "a.b/c"), "metadata.annotations[a.b/c]"),
        (("metadata", "labels", "a\nb"), "metadata.labels[axb]"),
        (("spec", "containers", 0, "name"), "spec.containers[0].name"),
        (("workload", "name"), "the workload's name"),
        (("owner", "annotations", "a"), "metadata of the workload annotations[a]"),
    ],
)
def test_a_place_is_shown_in_words(place: tuple[str | int, ...], words: str) -> None:
    assert shown_place(place) == words


def test_a_place_is_shown_in_bounds() -> None:
    assert len(shown_place(("metadata", "annotations", "a" * 1000))) == 200
