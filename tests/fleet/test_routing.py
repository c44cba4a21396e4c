"""The webhook that is called for a pod, and the revision that answers."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from injector.errors import ClusterError, ConfigError
from injector.fleet.clusterrevisions import BuiltRevisions
from injector.fleet.routing import (
    PodLabels,
    RequestedName,
    Route,
    delivery_steps,
    find_called,
    requested_name,
    route,
    served_names,
)
from injector.fleet.sources import RevisionList, RevisionSources
from injector.fleet.view import ClusterView, read_view
from injector.injection.tools.explain import Decision, Step
from injector.istio.webhooks.configurations import Endpoint, WebhookOptions, revision_webhook, tag_webhook
from injector.istio.webhooks.reading import LiveWebhook, istios_webhooks, live_webhooks
from injector.revisions.source import SourceState
from injector.revisions.tags import TagWorkload, choose, parse_tags
from tests.cli.clusters import HOME, REV, FakeKube, cluster, labelled, revision, tag
from tests.cluster.fakeapi import FakeApi
from tests.cluster.fakes import failure
from tests.revisions.fakes import make_raw, write_revision

STATE = SourceState(
    (make_raw("1-24"), make_raw("1-30")),
    {"broken": ConfigError("it has no `config`")},
    parse_tags("default: 1-24\nprod: {1-24: 0, 1-30: 10}\nhalf: {1-24: 50, 1-30: 50}\ngone: 1-99"),
)
NO_TAGS = SourceState((make_raw("stable"), make_raw("canary")), default="stable")
INJECT = "sidecar.istio.io/inject"


def listed(state: SourceState) -> RevisionList:
    return RevisionList(state, "dir", "dir/tags.yaml")


def labels(namespace: dict[str, str] | None = None, pod: dict[str, str] | None = None, **declared: str) -> PodLabels:
    meta = {"labels": pod or {}, "annotations": declared}
    return PodLabels(namespace or {}, pod or {}, {"metadata": meta})


def view_of(state: SourceState) -> ClusterView:
    """The view of files that have these revisions, and no webhook."""
    webhooks = istios_webhooks(state.webhook_options(WebhookOptions()))
    return ClusterView(listed(state), BuiltRevisions({}, {}), webhooks, {}, ())


def routed(requested: RequestedName, pod_labels: PodLabels, state: SourceState = STATE) -> Route:
    answer = route(view_of(state), pod_labels, requested)
    assert isinstance(answer, Route)
    return answer


def ends(requested: RequestedName, pod_labels: PodLabels, state: SourceState = STATE) -> Decision:
    answer = route(view_of(state), pod_labels, requested)
    assert isinstance(answer, Decision)
    return answer


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
    answer = routed(RequestedName(), labels(namespace, pod))

    assert (answer.raw.name, answer.tag) == (revision, tag)
    assert [(step.step, step.verdict) for step in answer.steps] == [("webhook", "passed"), ("tag", "passed")]


def test_the_webhook_is_named_with_the_labels_that_count_and_those_that_do_not() -> None:
    (webhook, tag) = routed(RequestedName(), labels({REV: "prod"}, {REV: "1-30"})).steps

    assert webhook.detail == (
        "rev.namespace.sidecar-injector.istio.io of prod is called for the namespace's istio.io/rev=prod;"
        " the pod's istio.io/rev=1-30 does not count: the namespace's label decides"
    )
    assert tag.detail == "prod is a tag of 1-30"
    assert tag.source == "dir/tags.yaml"


@pytest.mark.parametrize("name", ["a", "b", "c", "d", "e", "f"])
def test_a_tag_with_weights_gives_a_workload_what_the_webhook_would(name: str) -> None:
    workload = TagWorkload(("shop", "Deployment", name))
    tag = STATE.tags["half"]

    answer = routed(RequestedName(), PodLabels({REV: "half"}, {}, None, workload))

    assert answer.raw.name == choose(tag.weights, "half", workload.key)
    assert answer.steps[1].detail == (
        f"half is a tag of 1-24=50,1-30=50; shop/Deployment/{name} gets {answer.raw.name}"
    )


@pytest.mark.parametrize(
    ("namespace", "pin", "says"),
    [
        ("shop", "1-30", "shop/Deployment/web gets 1-30, pinned by the annotation revision-injector/pin"),
        ("payments", "", "payments/Deployment/web gets 1-24, by the weights 1-24 of namespace payments"),
    ],
)
def test_the_reason_of_a_choice_is_named(namespace: str, pin: str, says: str) -> None:
    tags = parse_tags("late: {weights: {1-24: 1, 1-30: 0}, namespaces: {payments: 1-24}}")
    pod_labels = PodLabels({REV: "late"}, {}, workload=TagWorkload((namespace, "Deployment", "web"), pin))

    answer = routed(RequestedName(), pod_labels, replace(STATE, tags=tags))

    assert answer.steps[1].detail.endswith(says)


def test_a_tag_of_a_missing_revision_is_refused() -> None:
    trace = ends(RequestedName(), labels({REV: "gone"}))

    assert (trace.outcome, trace.reason) == ("refused", "tag")
    assert trace.steps[1].detail.startswith("tag `gone`: it names `1-99`, which is not served")


@pytest.mark.parametrize(
    ("tags", "name", "wanted", "served"),
    [
        (
            "part: {1-24: 50, 1-99: 50}",
            "part",
            "1-24",
            "part is a tag of 1-24; a replica that has served the tag before",
        ),
        (
            "part: {weights: {1-30: 1}, namespaces: {shop: 1-99}}",
            "part",
            "1-30",
            "part is a tag of 1-30; a replica that has served the tag before",
        ),
        ("1-30: 1-24", "1-30", "1-30", "1-30 is a revision, not a tag; a replica that has served the tag before"),
    ],
)
def test_of_a_tag_that_cannot_be_served_what_is_left_counts(tags: str, name: str, wanted: str, served: str) -> None:
    state = replace(STATE, tags=parse_tags(tags))
    workload = TagWorkload(("shop", "Deployment", "web"))

    answer = routed(RequestedName(), PodLabels({REV: name}, {}, workload=workload), state)

    step = answer.steps[1]
    assert (answer.raw.name, step.verdict) == (wanted, "warning")
    assert step.detail.startswith(served)
    assert f"tag `{name}`: " in step.detail


def test_a_missing_revision_of_the_tag_default_leaves_the_only_revision_as_default() -> None:
    state = SourceState((make_raw("1-24"),), tags=parse_tags("default: 1-99"))

    answer = routed(RequestedName(), labels({"istio-injection": "enabled"}), state)

    assert (answer.raw.name, answer.tag, answer.steps[1].verdict) == ("1-24", None, "warning")


def test_the_default_revision_serves_pods_that_ask_for_the_default() -> None:
    answer = routed(RequestedName(), labels({"istio-injection": "enabled"}), NO_TAGS)

    assert (answer.raw.name, answer.tag) == ("stable", None)
    assert answer.steps[1].detail == "the default is stable; stable is a revision, not a tag"


def test_a_pod_without_a_webhook_is_skipped() -> None:
    trace = ends(RequestedName(), labels({}, {}, **{INJECT: "true"}))

    assert (trace.outcome, trace.reason) == ("skipped", "no_webhook")
    assert [(step.step, step.verdict) for step in trace.steps] == [("webhook", "skip"), ("result", "skip")]
    assert "selectors match the label sidecar.istio.io/inject, not the annotation" in trace.steps[0].detail


@pytest.mark.parametrize("flag", ["--path", "--revision"])
def test_a_flag_selects_the_webhook_and_the_step_says_whether_the_labels_would(flag: str) -> None:
    answer = routed(RequestedName("1-30", flag), labels())

    assert answer.raw.name == "1-30"
    assert answer.steps[0].source == flag
    assert answer.steps[0].detail == (
        "the labels alone do not select it: rev.namespace.sidecar-injector.istio.io of 1-30"
        " requires namespace: istio.io/rev in (1-30)"
    )
    assert routed(RequestedName("1-30", flag), labels({REV: "1-30"})).steps[0].detail == (
        "rev.namespace.sidecar-injector.istio.io of 1-30 is called for the namespace's istio.io/rev=1-30"
    )


def test_a_path_with_an_unknown_name_is_refused() -> None:
    trace = ends(RequestedName("nope", "--path"), labels())

    assert (trace.outcome, trace.reason) == ("refused", "revision")
    assert [step.step for step in trace.steps] == ["webhook", "tag", "revision", "result"]
    assert "there is no revision or tag" in trace.steps[2].detail


def test_a_path_without_a_name_is_refused_without_a_default() -> None:
    state = SourceState((make_raw("a"), make_raw("b")))

    assert ends(RequestedName("", "--path"), labels(), state).steps[1].detail == "there is no default"


@pytest.mark.parametrize(
    ("state", "requested", "says"),
    [
        (STATE, RequestedName("broken", "--path"), "it has no `config`"),
        (SourceState((make_raw("a"),), tags_error=ConfigError("odd tags")), RequestedName(), "odd tags"),
    ],
)
def test_a_broken_revision_and_broken_tags_are_bad_input(
    state: SourceState, requested: RequestedName, says: str
) -> None:
    with pytest.raises(ConfigError, match=says):
        route(view_of(state), labels(), requested)


OBJECTS = (*revision("1-24", "1.24.6"), *revision("1-30", "1.30.1"), tag("prod", "1-24"))


def around(*objects: dict[str, Any], revisions_dir: Path | None = None) -> ClusterView:
    return asyncio.run(read_view(cluster(*objects), RevisionSources(revisions_dir, HOME), None))


def labels_live(namespace: dict[str, str] | None = None, pod: dict[str, str] | None = None) -> PodLabels:
    return PodLabels(namespace or {}, pod or {}, {"metadata": {}}, TagWorkload(("shop", "Deployment", "web")))


def routed_live(pod_labels: PodLabels, *objects: dict[str, Any]) -> Route:
    answer = route(around(*(objects or OBJECTS)), pod_labels)
    assert isinstance(answer, Route)
    return answer


def ends_live(pod_labels: PodLabels, *objects: dict[str, Any]) -> Decision:
    answer = route(around(*(objects or OBJECTS)), pod_labels)
    assert isinstance(answer, Decision)
    return answer


def istiods(name: str, *, tagged: str = "") -> dict[str, Any]:
    """A configuration as Istio installs it: the Service tells the revision, the path does not."""
    options = WebhookOptions()
    configuration = tag_webhook(tagged, name, options) if tagged else revision_webhook(name, options)
    for webhook in configuration["webhooks"]:
        webhook["clientConfig"] = {"service": {"name": f"istiod-{name}", "namespace": HOME, "path": "/inject"}}
    return configuration


def test_the_path_of_the_called_webhook_names_the_revision() -> None:
    answer = routed_live(labels_live({REV: "prod"}))

    assert (answer.raw.name, answer.tag) == ("1-24", "prod")
    assert answer.steps[0].detail == (
        "rev.namespace.sidecar-injector.istio.io of istio-revision-tag-prod is called for the namespace's "
        "istio.io/rev=prod, with path /inject/prod"
    )
    assert answer.steps[1].detail == "prod is a tag of 1-24"
    assert [step.source for step in answer.steps] == [
        "MutatingWebhookConfiguration istio-revision-tag-prod",
        "the label istio.io/tag of the mutatingwebhookconfigurations",
    ]


@pytest.mark.parametrize(("name", "tagged"), [("1-30", ""), ("1-24", "old")])
def test_a_path_without_a_name_means_the_revision_of_its_configuration(name: str, tagged: str) -> None:
    webhook = istiods(name, tagged=tagged)
    config_maps = [obj for obj in OBJECTS if obj["kind"] == "ConfigMap"]

    answer = routed_live(labels_live({REV: tagged or name}), *config_maps, webhook)

    assert (answer.raw.name, answer.tag) == (name, None)


def test_environment_variables_of_the_path_are_used() -> None:
    options = WebhookOptions(Endpoint(url="https://example.com/inject/1-24"))
    webhook = revision_webhook("1-24", options)
    for hook in webhook["webhooks"]:
        hook["clientConfig"]["url"] += "/cluster/east/net/n1"

    answer = routed_live(labels_live({REV: "1-24"}), *OBJECTS[:2], webhook)

    assert answer.envs == {"ISTIO_META_CLUSTER_ID": "east", "ISTIO_META_NETWORK": "n1"}


def test_the_last_called_webhook_decides() -> None:
    second = {**revision_webhook("1-30", WebhookOptions()), "metadata": {"name": "z"}}
    second["webhooks"][0]["namespaceSelector"] = {}
    second["webhooks"][0]["matchConditions"] = [{"name": "x", "expression": "true"}]

    answer = routed_live(labels_live({REV: "1-24"}), *OBJECTS, second)

    assert answer.raw.name == "1-30"
    assert answer.steps[0].detail == (
        "rev.namespace.sidecar-injector.istio.io of z is called for all pods that its selectors match, with path /inject/1-30; "
        "it replaces the injection by rev.namespace.sidecar-injector.istio.io of istio-sidecar-injector-1-24; "
        "its matchConditions are met: x"
    )


def test_a_tag_with_weights_chooses_by_the_workload(tmp_path: Path) -> None:
    for name in ("1-24", "1-30"):
        write_revision(tmp_path / name)
    (tmp_path / "tags.yaml").write_text("prod: {1-24: 50, 1-30: 50}\n")
    pod_labels = labels_live({REV: "prod"})

    answer = route(around(*OBJECTS, revisions_dir=tmp_path), pod_labels)

    assert isinstance(answer, Route)
    assert answer.raw.name == choose((("1-24", 50), ("1-30", 50)), "prod", pod_labels.workload.key)


@pytest.mark.parametrize(
    ("pod_labels", "says"),
    [
        (labels_live({REV: "gone"}), "the namespace's label istio.io/rev names `gone`, which is not served"),
        (labels_live(), "the namespace has neither istio-injection nor istio.io/rev"),
        (labels_live({REV: "prod"}, {"sidecar.istio.io/inject": "false"}), "the pod's label sidecar.istio.io/inject"),
    ],
)
def test_without_a_matching_webhook_the_nearest_is_named(pod_labels: PodLabels, says: str) -> None:
    end = ends_live(pod_labels)

    assert (end.outcome, end.reason) == ("skipped", "no_webhook")
    assert says in end.steps[0].detail
    assert "; the nearest is rev." in end.steps[0].detail


def test_a_cluster_without_webhooks_of_an_injector_is_explained() -> None:
    other = revision_webhook("1-24", WebhookOptions())
    for hook in other["webhooks"]:
        hook |= {"name": "other.example.com", "clientConfig": {"url": "https://example.com/mutate"}}

    assert ends_live(labels_live(), *OBJECTS[:2], other).steps[0].detail == "no webhook calls an injector"


@pytest.mark.parametrize(("path", "reason"), [("/inject/No_Name", "webhook"), ("/inject/gone", "revision")])
def test_an_unknown_path_refuses_the_pod(path: str, reason: str) -> None:
    webhook = istiods("1-24")
    for hook in webhook["webhooks"]:
        hook["clientConfig"]["service"]["path"] = path

    end = ends_live(labels_live({REV: "1-24"}), *OBJECTS[:2], webhook)

    assert (end.outcome, end.reason) == ("refused", reason)


def test_served_names_come_from_paths_tags_and_revisions() -> None:
    live = live_webhooks([istiods("1-24"), istiods("1-24", tagged="old"), tag("prod", "1-24")])

    assert served_names(live) == {"1-24", "old", "prod"}


@pytest.mark.parametrize(
    ("pod_labels", "name"),
    [
        (labels_live({REV: "prod"}), "prod"),
        (labels_live({REV: "gone"}), "gone"),
        (labels_live({"istio-injection": "enabled"}), "default"),
        (labels_live({}, {REV: "gone"}), "gone"),
        (labels_live(), None),
        (labels_live({REV: "gone"}, {"sidecar.istio.io/inject": "false"}), None),
    ],
)
def test_the_requested_name_comes_from_webhook_or_labels(pod_labels: PodLabels, name: str | None) -> None:
    webhooks = around(*OBJECTS, labelled("shop", "prod")).webhooks

    assert requested_name(webhooks, pod_labels) == name
    assert bool(find_called(webhooks, pod_labels)) == (name == "prod")


SOURCE = "MutatingWebhookConfiguration istio-sidecar-injector-1-30"


def webhook(**options: Any) -> LiveWebhook:
    return live_webhooks([revision_webhook("1-30", WebhookOptions(**options))]).all[0]


def steps(webhook: LiveWebhook, *objects: dict[str, Any]) -> tuple[Step, ...]:
    return asyncio.run(delivery_steps(webhook, cluster(*objects)))


def endpoints(*ready: bool | None, service: str = "injector", namespace: str = "injector-system") -> dict[str, Any]:
    listed = [{"conditions": {} if state is None else {"ready": state}} for state in ready]
    metadata = {"name": "x", "namespace": namespace, "labels": {"kubernetes.io/service-name": service}}
    return {"kind": "EndpointSlice", "metadata": metadata, "endpoints": listed}


def test_a_reachable_webhook_passes_all_delivery_steps() -> None:
    assert steps(webhook(ca_bundle="QQ=="), endpoints(True, False, None)) == (
        Step("failure_policy", "passed", "Fail: without an answer the pod is not created", SOURCE),
        Step("ca_bundle", "passed", "present", SOURCE),
        Step("endpoints", "passed", "2 ready", "Service injector-system/injector"),
    )


@pytest.mark.parametrize(
    "slices",
    [
        (),
        (endpoints(False),),
        (endpoints(True, service="other"),),
        (endpoints(True, namespace="other"),),
        ({**endpoints(), "endpoints": None},),
    ],
)
@pytest.mark.parametrize(
    ("policy", "outcome"), [("Fail", "pods are refused"), ("Ignore", "pods are created without a sidecar")]
)
def test_a_service_without_a_ready_endpoint_decides(
    slices: tuple[dict[str, Any], ...], policy: str, outcome: str
) -> None:
    last = steps(webhook(failure_policy=policy), *(slices or (endpoints(service="other"),)))[-1]

    assert (last.verdict, last.detail) == ("refuse" if policy == "Fail" else "skip", f"none is ready: {outcome}")


def test_files_without_endpoints_do_not_tell_whether_a_replica_is_ready() -> None:
    last = steps(webhook())[-1]

    assert (last.verdict, last.detail) == ("unknown", "the files have no EndpointSlice")


def test_an_empty_ca_bundle_and_failure_policy_ignore_are_warnings() -> None:
    policy, bundle, _ = steps(webhook(failure_policy="Ignore"), endpoints(True))

    assert (policy.verdict, policy.detail.partition(":")[0]) == ("warning", "Ignore")
    assert (bundle.verdict, bundle.detail.partition(":")[0]) == ("warning", "empty")


def test_a_url_is_not_tried() -> None:
    assert steps(webhook(endpoint=Endpoint(url="https://example.com")))[-1].verdict == "unknown"


def test_without_permission_the_endpoints_are_unknown() -> None:
    reader = FakeKube(forbidden=("endpointslices",))

    last = asyncio.run(delivery_steps(webhook(), reader))[-1]

    assert last.verdict == "unknown"
    assert "list endpointslices" in last.detail
    with pytest.raises(ClusterError):
        asyncio.run(delivery_steps(webhook(), FakeApi(fault=failure("unreachable"))))
