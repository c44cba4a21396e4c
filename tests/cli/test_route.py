from __future__ import annotations

import pytest

from injector.cli.route import Asked, Labels, Routed, route
from injector.errors import ConfigError, UsageError
from injector.injection.tools.explain import Trace
from injector.revisions.source import SourceState
from injector.revisions.tags import choose, parse_tags
from tests.revisions.fakes import make_raw

STATE = SourceState(
    (make_raw("1-24"), make_raw("1-30")),
    {"broken": ConfigError("it has no `config`")},
    parse_tags("default: 1-24\nprod: {1-24: 0, 1-30: 10}\nhalf: {1-24: 50, 1-30: 50}\ngone: 1-99"),
)
NO_TAGS = SourceState((make_raw("stable"), make_raw("canary")), default="stable")
INJECT = "sidecar.istio.io/inject"
REV = "istio.io/rev"


def labels(namespace: dict[str, str] | None = None, pod: dict[str, str] | None = None, **declared: str) -> Labels:
    return Labels(namespace or {}, pod or {}, declared)


def routed(asked: Asked, given: Labels, state: SourceState = STATE) -> Routed:
    found = route(state, asked, given, where="dir")
    assert isinstance(found, Routed)
    return found


def ends(asked: Asked, given: Labels, state: SourceState = STATE) -> Trace:
    found = route(state, asked, given, where="dir")
    assert isinstance(found, Trace)
    return found


@pytest.mark.parametrize(
    ("namespace", "pod", "revision", "tag"),
    [
        ({REV: "1-30"}, {}, "1-30", None),
        ({REV: "prod"}, {}, "1-30", "prod"),
        ({"istio-injection": "enabled"}, {}, "1-24", "default"),
        ({}, {REV: "1-30"}, "1-30", None),
        ({}, {INJECT: "true"}, "1-24", "default"),
    ],
)
def test_the_labels_lead_to_a_revision(
    namespace: dict[str, str], pod: dict[str, str], revision: str, tag: str | None
) -> None:
    found = routed(Asked(), labels(namespace, pod))

    assert (found.raw.name, found.tag) == (revision, tag)
    assert [(step.step, step.verdict) for step in found.steps] == [("webhook", "passed"), ("tag", "passed")]


def test_the_webhook_is_named_with_the_labels_that_ask_for_it_and_those_that_do_not_count() -> None:
    (webhook, tag) = routed(Asked(), labels({REV: "prod"}, {REV: "1-30"})).steps

    assert webhook.detail == (
        "rev.namespace.sidecar-injector.istio.io of prod is called for the namespace's istio.io/rev=prod;"
        " the pod's istio.io/rev=1-30 does not count: the namespace's label decides"
    )
    assert tag.detail == "prod is a tag of 1-30"
    assert tag.source == "dir/tags.yaml"


@pytest.mark.parametrize("name", ["a", "b", "c", "d", "e", "f"])
def test_a_tag_with_weights_gives_a_workload_what_the_webhook_would(name: str) -> None:
    workload = ("shop", "Deployment", name)
    tag = STATE.tags["half"]

    found = routed(Asked(), Labels({REV: "half"}, {}, {}, workload))

    assert found.raw.name == choose(tag.weights, "half", workload)
    assert found.steps[1].detail == (
        f"half is a tag of 1-24: 50, 1-30: 50; shop/Deployment/{name} gets {found.raw.name}"
    )


def test_a_tag_that_names_what_is_not_there_is_refused() -> None:
    trace = ends(Asked(), labels({REV: "gone"}))

    assert (trace.outcome, trace.reason) == ("refused", "tag")
    assert trace.steps[1].detail.startswith("tag `gone`: it names `1-99`, which is not served")


def test_where_a_revision_is_the_default_by_no_name_it_still_gets_those_who_ask_for_it() -> None:
    found = routed(Asked(), labels({"istio-injection": "enabled"}), NO_TAGS)

    assert (found.raw.name, found.tag) == ("stable", None)
    assert found.steps[1].detail == "no name asks for the default, stable; stable is no tag"


def test_where_no_webhook_is_called_nothing_gets_the_pod() -> None:
    trace = ends(Asked(), labels({}, {}, **{INJECT: "true"}))

    assert (trace.outcome, trace.reason) == ("skipped", "no_webhook")
    assert [(step.step, step.verdict) for step in trace.steps] == [("webhook", "skip"), ("result", "skip")]
    assert "the annotation sidecar.istio.io/inject is seen by no selector" in trace.steps[0].detail


@pytest.mark.parametrize("flag", ["--path", "--revision"])
def test_a_flag_says_what_is_called_and_the_step_what_the_labels_would(flag: str) -> None:
    found = routed(Asked("1-30", flag), labels())

    assert found.raw.name == "1-30"
    assert found.steps[0].source == flag
    assert found.steps[0].detail == (
        "taken as called; by the labels it is not: rev.namespace.sidecar-injector.istio.io of 1-30"
        " wants namespace: istio.io/rev in (1-30)"
    )
    assert routed(Asked("1-30", flag), labels({REV: "1-30"})).steps[0].detail == (
        "rev.namespace.sidecar-injector.istio.io of 1-30 is called for the namespace's istio.io/rev=1-30"
    )


@pytest.mark.parametrize(("state", "revision"), [(STATE, "1-24"), (NO_TAGS, "stable")])
def test_a_path_without_a_name_is_the_default(state: SourceState, revision: str) -> None:
    assert routed(Asked("", "--path"), labels(), state).raw.name == revision


def test_a_path_to_nothing_is_refused() -> None:
    trace = ends(Asked("nope", "--path"), labels())

    assert (trace.outcome, trace.reason) == ("refused", "revision")
    assert [step.step for step in trace.steps] == ["webhook", "tag", "revision", "result"]
    assert "there is no revision or tag" in trace.steps[2].detail


def test_a_path_without_a_name_is_refused_where_nothing_is_the_default() -> None:
    state = SourceState((make_raw("a"), make_raw("b")))

    assert (
        ends(Asked("", "--path"), labels(), state).steps[1].detail == "no name asks for the default, which nothing is"
    )


def test_a_revision_that_is_not_there_is_a_wrong_flag() -> None:
    with pytest.raises(UsageError):
        route(STATE, Asked("nope", "--revision"), labels(), where="dir")


def test_a_broken_revision_is_bad_input() -> None:
    with pytest.raises(ConfigError, match="it has no `config`"):
        route(STATE, Asked("broken", "--path"), labels(), where="dir")


def test_broken_tags_are_bad_input_since_nothing_is_known_of_them() -> None:
    state = SourceState((make_raw("a"),), tags_error=ConfigError("odd tags"))

    with pytest.raises(ConfigError, match="odd tags"):
        route(state, Asked(), labels(), where="dir")
