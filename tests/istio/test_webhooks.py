"""Webhook configurations: written as Istio installs them, read back, matched and checked for overlaps."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from injector.errors import ManifestError
from injector.golang.json import dump_json
from injector.istio.webhooks.configurations import (
    UNSERVED_ACTIONS,
    UNSERVED_KINDS,
    Endpoint,
    WebhookOptions,
    deactivate,
    is_deactivated,
    revision_webhook,
    tag_webhook,
    unserved_webhook,
)
from injector.istio.webhooks.matching import labels_without_effect, unserved_name, why_none
from injector.istio.webhooks.overlaps import overlaps
from injector.istio.webhooks.reading import (
    LiveWebhook,
    Service,
    istios_webhooks,
    live_webhooks,
    options_of,
    precedence_of,
)
from injector.istio.webhooks.tagobjects import default_validator, tag_service
from injector.kube.selectors import Selector
from tests.cases import cases
from tests.istio.goldens import REVISIONS, TAGS, copied_annotations, golden, on_istios_path, service_of

REV, AUTO, INJECT, NAME = "istio.io/rev", "istio-injection", "sidecar.istio.io/inject", "kubernetes.io/metadata.name"
OPTIONS = ("clientConfig", "failurePolicy", "timeoutSeconds", "reinvocationPolicy")


def called(
    names: Iterable[str], namespace: dict[str, str], pod: dict[str, str], precedence: str = "namespace"
) -> list[tuple[str, str]]:
    """The revision or tag and the name of each of Istio's webhooks that is called."""
    webhooks = istios_webhooks(dict.fromkeys(names, WebhookOptions(precedence=precedence)))
    return [(webhook.configuration, webhook.name) for webhook in webhooks.find_called(namespace, pod)]


def webhooks_of(name: str) -> tuple[LiveWebhook, ...]:
    """Istio's webhooks of a revision or tag."""
    return istios_webhooks({name: WebhookOptions()}).all


def at_istiod(revision: str, **options: Any) -> WebhookOptions:
    """Options with the Service of Istio's own webhooks."""
    return WebhookOptions(endpoint=Endpoint(service_of(revision), "istio-system"), **options)


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_revision_has_istios_webhooks(revision: str) -> None:
    expected = golden(f"revision-{revision}")

    assert on_istios_path(revision_webhook(revision, at_istiod(revision)), revision) == expected


@pytest.mark.parametrize("file", TAGS)
def test_a_tag_has_istios_webhooks(file: str) -> None:
    tag, revision, options, arguments = TAGS[file]
    expected = golden(file)
    annotations = copied_annotations(revision)

    built = tag_webhook(tag, revision, at_istiod(revision, **options), annotations=annotations, **arguments)

    assert on_istios_path(built, tag) == expected


@pytest.mark.parametrize("file", TAGS)
def test_a_tag_has_istios_service(file: str) -> None:
    tag, revision, _, _ = TAGS[file]
    expected = golden(file, "Service")
    del expected["status"]
    for port in expected["spec"]["ports"]:  # what istioctl prints as 0 is the port itself
        port["targetPort"] = port["targetPort"] or port["port"]

    assert tag_service(tag, revision, "istio-system") == expected


@pytest.mark.parametrize("file", ["tag-default", "tag-default-auto"])
def test_the_default_tag_has_istios_validator(file: str) -> None:
    expected = golden(file, "ValidatingWebhookConfiguration")
    del expected["metadata"]["annotations"]  # those of the revision's own webhooks

    assert default_validator(TAGS[file][1], "istio-system") == expected


def test_the_validator_of_the_default_revision_calls_istiod() -> None:
    (webhook,) = default_validator("default", "mesh")["webhooks"]

    assert webhook["clientConfig"]["service"] == {"name": "istiod", "namespace": "mesh", "path": "/validate"}


def test_a_validator_that_moves_keeps_its_failure_policy_and_url() -> None:
    client = {"url": "https://istiod.example/validate"}
    current = {"webhooks": [{"name": "validation.istio.io", "failurePolicy": "Fail", "clientConfig": client}]}

    (webhook,) = default_validator("1-30", "istio-system", current)["webhooks"]

    assert (webhook["failurePolicy"], webhook["clientConfig"]) == ("Fail", client)


def test_a_tag_of_a_revision_without_annotations_has_none() -> None:
    assert "annotations" not in tag_webhook("prod", "1-24", WebhookOptions())["metadata"]


def test_every_webhook_of_a_configuration_has_the_options() -> None:
    options = WebhookOptions(
        endpoint=Endpoint("our", "ours", 8443),
        ca_bundle="Q0E=",
        failure_policy="Ignore",
        timeout=5,
        reinvocation_policy="IfNeeded",
        auto_inject=True,
    )

    webhooks = revision_webhook("default", options)["webhooks"]

    assert {webhook["name"].split(".sidecar")[0]: {key: webhook[key] for key in OPTIONS} for webhook in webhooks} == {
        prefix: {
            "clientConfig": {
                "service": {"name": "our", "namespace": "ours", "path": "/inject/default", "port": 8443},
                "caBundle": "Q0E=",
            },
            "failurePolicy": "Ignore",
            "timeoutSeconds": 5,
            "reinvocationPolicy": "IfNeeded",
        }
        for prefix in ("rev.namespace", "rev.object", "namespace", "object", "auto")
    }


def selectors(webhook: dict[str, Any]) -> list[list[str]]:
    """The keys and operators of the selectors for namespaces and pods."""
    result = (webhook[key]["matchExpressions"] for key in ("namespaceSelector", "objectSelector"))
    return [[f"{expression['key']} {expression['operator']}" for expression in expressions] for expressions in result]


def test_the_label_of_a_pod_can_count_before_that_of_its_namespace() -> None:
    by_namespace, by_pod, *others = revision_webhook("default", WebhookOptions(precedence="pod"))["webhooks"]

    assert selectors(by_namespace) == [
        ["istio.io/rev In", "istio-injection DoesNotExist"],
        ["sidecar.istio.io/inject NotIn", "istio.io/rev DoesNotExist"],
    ]
    assert selectors(by_pod) == [["istio-injection DoesNotExist"], ["sidecar.istio.io/inject NotIn", "istio.io/rev In"]]
    assert others == revision_webhook("default", WebhookOptions())["webhooks"][2:]


@pytest.mark.parametrize("precedence", ["namespace", "pod"])
@pytest.mark.parametrize("name", ["default", "1-24"])
def test_the_precedence_of_a_configuration_is_read_back(name: str, precedence: str) -> None:
    configuration = revision_webhook(name, WebhookOptions(precedence=precedence))
    tag = tag_webhook("prod", name, WebhookOptions(precedence=precedence))

    for hook_configuration, path in ((configuration, name), (tag, "prod")):
        options = options_of(hook_configuration, path)
        assert options is not None
        assert options.precedence == precedence
    assert precedence_of(live_webhooks([configuration, tag])) == precedence
    deactivated_options = options_of(deactivate(configuration), name)
    assert deactivated_options is not None
    assert deactivated_options.precedence == "namespace"


@pytest.mark.parametrize(
    ("namespace", "pod", "name"),
    [
        ({REV: "a"}, {}, "a"),
        ({REV: "a"}, {REV: "b"}, "b"),
        ({}, {REV: "b"}, "b"),
        ({REV: "gone"}, {REV: "b"}, "b"),
        ({AUTO: "enabled"}, {REV: "b"}, "default"),
        ({REV: "a"}, {REV: "b", INJECT: "true"}, "b"),
        ({REV: "a"}, {INJECT: "true"}, "a"),
    ],
)
def test_one_webhook_is_called_if_pods_choose_first(namespace: dict[str, str], pod: dict[str, str], name: str) -> None:
    assert [result for result, _ in called(("a", "b", "default"), namespace, pod, "pod")] == [name]


def test_the_label_of_a_pod_that_nothing_serves_counts_too_if_pods_choose_first() -> None:
    labels: tuple[dict[str, str], dict[str, str]] = {REV: "a"}, {REV: "gone"}

    assert called(("a", "b"), *labels, "pod") == []
    assert unserved_name(*labels, ("a", "b"), "pod") == "gone"
    assert unserved_name(*labels, ("a", "b")) is None
    assert why_none(*labels, ("a", "b"), "pod").startswith(
        "the pod's label istio.io/rev names `gone`, which is not served"
    )
    assert labels_without_effect({REV: "a"}, {REV: "b"}, "pod") == (
        "the namespace's istio.io/rev=a does not count: the pod's label decides",
    )
    (by_namespace, by_pod) = unserved_webhook("warn", WebhookOptions(precedence="pod"))["webhooks"]
    assert selectors(by_namespace)[1] == ["sidecar.istio.io/inject NotIn", "istio.io/rev DoesNotExist"]
    assert "istio.io/rev DoesNotExist" not in selectors(by_pod)[0]


def test_only_the_default_injects_namespaces_without_labels() -> None:
    options = WebhookOptions(auto_inject=True)

    assert len(revision_webhook("1-24", options)["webhooks"]) == 2
    assert len(tag_webhook("prod", "1-24", options)["webhooks"]) == 2


@cases("url", "expected")
def test_a_url_ends_in_the_path_of_the_name(url: str, expected: str) -> None:
    assert Endpoint(url=url).client_config("/inject/prod", "prod") == {"url": expected}


CALLED = [
    ({REV: "prdo"}, {}, ["namespace"]),
    ({REV: "prdo"}, {REV: "other"}, ["namespace"]),
    ({}, {REV: "prdo"}, ["pod"]),
    ({}, {REV: "prdo", INJECT: "true"}, ["pod"]),
    ({}, {}, []),
    ({}, {REV: "prdo", INJECT: "false"}, []),
    ({REV: "prdo"}, {INJECT: "false"}, []),
    ({REV: "prdo", AUTO: "enabled"}, {}, []),
    ({AUTO: "disabled"}, {REV: "prdo"}, []),
    ({REV: "prdo", NAME: "kube-system"}, {}, []),
    ({NAME: "injector-system"}, {REV: "prdo"}, []),
]
"""Labels of a namespace and of a pod, and the objects whose names the unserved-name webhook is called for."""


@pytest.mark.parametrize(("namespace", "pod", "kinds"), CALLED)
def test_the_unserved_name_webhook_is_called_where_istio_reads_names(
    namespace: dict[str, str], pod: dict[str, str], kinds: list[str]
) -> None:
    webhooks = unserved_webhook("warn", WebhookOptions())["webhooks"]

    called = [
        webhook["name"].partition(".")[0]
        for webhook in webhooks
        if Selector.compile(webhook["namespaceSelector"]).matches({NAME: "shop"} | namespace)
        and Selector.compile(webhook["objectSelector"]).matches(pod)
    ]

    assert called == kinds


@pytest.mark.parametrize(("namespace", "pod", "kinds"), [case for case in CALLED if NAME not in case[0]])
def test_the_webhook_for_unserved_names_is_called_for_the_pods_of_served_names(
    namespace: dict[str, str], pod: dict[str, str], kinds: list[str]
) -> None:
    names = sorted({labels[REV] for labels in (namespace, pod) if REV in labels})

    results = [webhook.split(".")[1] for _, webhook in called(names, namespace, pod)]

    assert results == [{"namespace": "namespace", "pod": "object"}[kind] for kind in kinds]


@pytest.mark.parametrize("action", UNSERVED_ACTIONS)
def test_the_unserved_name_webhook_never_blocks_pods_by_itself(action: str) -> None:
    options = WebhookOptions(ca_bundle="Q0E=", reinvocation_policy="IfNeeded")
    configuration = unserved_webhook(action, options)

    assert configuration["metadata"] == {
        "name": "injector-unserved",
        "labels": {"app.kubernetes.io/name": "injector"},
    }
    for webhook, kind in zip(configuration["webhooks"], UNSERVED_KINDS, strict=True):
        service = webhook["clientConfig"].pop("service")
        assert service["path"] == f"/unserved/{action}/{kind}"
        assert {key: webhook[key] for key in (*OPTIONS, "name", "sideEffects")} == {
            "name": f"{kind}.unserved.revision-injector",
            "clientConfig": {"caBundle": "Q0E="},
            "failurePolicy": "Ignore",
            "timeoutSeconds": 2,
            "reinvocationPolicy": "Never",
            "sideEffects": "None",
        }
        assert webhook["rules"][0]["operations"] == ["CREATE"]


def test_the_unserved_name_webhook_takes_timeout_namespace_and_url_from_the_options() -> None:
    endpoint = Endpoint(namespace="ours", url="https://injector.example/inject")
    configuration = unserved_webhook("deny", WebhookOptions(endpoint, timeout=9, istio_namespace="mesh"))

    assert configuration["metadata"]["name"] == "injector-unserved-mesh"
    webhook = configuration["webhooks"][0]
    assert webhook["clientConfig"] == {"url": "https://injector.example/unserved/deny/namespace"}
    assert webhook["timeoutSeconds"] == 9
    assert "ours" in webhook["namespaceSelector"]["matchExpressions"][0]["values"]


def test_another_istio_namespace_is_a_part_of_the_names() -> None:
    options = WebhookOptions(istio_namespace="mesh")

    assert [
        configuration["metadata"]["name"]
        for configuration in (
            revision_webhook("default", options),
            revision_webhook("1-24", options),
            tag_webhook("prod", "1-24", options),
            tag_webhook("prod", "1-24", options, webhook_name="my-hook"),
        )
    ] == ["istio-sidecar-injector-mesh", "istio-sidecar-injector-1-24-mesh", "istio-revision-tag-prod-mesh", "my-hook"]


def test_a_deactivated_configuration_matches_nothing_and_keeps_the_rest() -> None:
    configuration = revision_webhook("default", WebhookOptions())
    before = dump_json(configuration)

    result = deactivate(configuration)

    never = {"matchLabels": {"istio.io/deactivated": "never-match"}}
    assert (is_deactivated(configuration), is_deactivated(result)) == (False, True)
    assert result["webhooks"] == [
        {**webhook, "namespaceSelector": never, "objectSelector": never} for webhook in configuration["webhooks"]
    ]
    assert dump_json(configuration) == before
    labels = {"istio-injection": "enabled"}, {REV: "default"}
    assert not any(live_webhooks([result]).find_called(label, {}) for label in labels)


@pytest.mark.parametrize(
    "options",
    [
        WebhookOptions(),
        WebhookOptions(
            Endpoint("our", "ours", 8443), failure_policy="Ignore", timeout=5, reinvocation_policy="IfNeeded"
        ),
        WebhookOptions(Endpoint(url="https://injector.example"), timeout=30),
        WebhookOptions(cluster="one", network="net/one", match_conditions=(("a", "true"), ("b", "1 == 2"))),
        WebhookOptions(network="net"),
        WebhookOptions(Endpoint(url="https://injector.example"), cluster="Ä/b c", network="x_1"),
        WebhookOptions(Endpoint(url="https://injector.example/behind/a/proxy"), timeout=30),
    ],
)
def test_the_options_of_a_configuration_are_read_from_it(options: WebhookOptions) -> None:
    assert options_of(tag_webhook("prod", "1-24", options), "prod") == options


@pytest.mark.parametrize("file", ["revision-1-24", "tag-prod"])
def test_a_configuration_of_istio_is_not_the_injectors(file: str) -> None:
    assert options_of(golden(file), "1-24") is None


@cases("configuration")
def test_a_configuration_with_other_webhooks_is_not_the_injectors(configuration: dict[str, Any]) -> None:
    assert options_of(configuration, "prod") is None


NAMES = ("1-24", "1-30", "default", "prod")


@cases("namespace", "pod", "prefix", "name")
def test_one_webhook_is_called(namespace: dict[str, str], pod: dict[str, str], prefix: str, name: str) -> None:
    assert called(NAMES, namespace, pod) == [(name, f"{prefix}.sidecar-injector.istio.io")]


@cases("namespace", "pod", "says")
def test_the_reason_is_given_if_no_webhook_is_called(namespace: dict[str, str], pod: dict[str, str], says: str) -> None:
    assert called(NAMES, namespace, pod) == []
    assert says in why_none(namespace, pod, NAMES)


@pytest.mark.parametrize(("namespace", "pod"), [({REV: "prod"}, {}), ({}, {REV: "prod"})])
def test_the_reason_does_not_deny_a_label_whose_webhooks_were_changed(
    namespace: dict[str, str], pod: dict[str, str]
) -> None:
    assert "names `prod`, whose webhooks leave its pods out" in why_none(namespace, pod, NAMES)


@pytest.mark.parametrize(("namespace", "pod"), [({AUTO: "enabled"}, {}), ({}, {INJECT: "true"})])
def test_the_reason_names_a_missing_default_revision(namespace: dict[str, str], pod: dict[str, str]) -> None:
    assert called(("1-24",), namespace, pod) == []
    assert "selects the default revision, which does not exist" in why_none(namespace, pod, ("1-24",))


@cases("namespace", "pod", "notes")
def test_labels_without_effect_are_named(
    namespace: dict[str, str], pod: dict[str, str], notes: tuple[str, ...]
) -> None:
    assert labels_without_effect(namespace, pod) == notes


def test_unmet_requirements_are_given_as_text() -> None:
    webhook = webhooks_of("default")[3]

    assert webhook.unmet({AUTO: "x", REV: "y"}, {REV: "z"}) == (
        "namespace: istio-injection does not exist",
        "namespace: istio.io/rev does not exist",
        "pod: sidecar.istio.io/inject in (true)",
        "pod: istio.io/rev does not exist",
    )
    assert webhooks_of("a")[0].unmet({REV: "a"}, {INJECT: "false"}) == ("pod: sidecar.istio.io/inject not in (false)",)


def test_the_labels_that_a_webhook_is_called_for_are_named() -> None:
    assert webhooks_of("a")[1].asked_by({}, {REV: "a"}) == ("the pod's istio.io/rev=a",)


@cases("namespace", "pod", "wanted")
def test_labels_can_name_a_revision_that_is_not_served(
    namespace: dict[str, str], pod: dict[str, str], wanted: str | None
) -> None:
    assert unserved_name(namespace, pod, ("1-24", "1-30")) == wanted
    assert wanted is None or unserved_name(namespace, pod, (wanted,)) is None


def configuration(name: str = "w", **changed: Any) -> dict[str, Any]:
    """A configuration with one webhook of an injector; keywords are fields of the webhook."""
    webhook = {
        "name": "a",
        "clientConfig": {"service": {"name": "s", "namespace": "n", "path": "/inject"}},
        "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}],
        **changed,
    }
    return {"metadata": {"name": name}, "webhooks": [webhook]}


def test_the_configuration_of_a_revision_is_read_back() -> None:
    options = WebhookOptions(Endpoint("injector", "home"), ca_bundle="QQ==", failure_policy="Ignore")

    webhooks = live_webhooks([revision_webhook("1-30", options)])
    first, second = webhooks

    assert (first.configuration, first.name) == (
        "istio-sidecar-injector-1-30",
        "rev.namespace.sidecar-injector.istio.io",
    )
    assert (first.path, first.revision, first.tag) == ("/inject/1-30", "1-30", "")
    assert (first.service, first.fails, first.trusted) == (Service("injector", "home"), False, True)
    assert (first.conditions, first.assumed) == ((), False)
    assert str(first.service) == "home/injector"
    assert webhooks.find_called({REV: "1-30"}, {}) == [first]
    assert webhooks.find_called({}, {REV: "1-30"}) == [second]


def test_a_tag_is_read_from_its_label_and_the_path_from_a_url() -> None:
    options = WebhookOptions(Endpoint(url="https://example.com:9443/inject"))

    first, _ = live_webhooks([tag_webhook("prod", "1-30", options)])

    assert (first.path, first.revision, first.tag) == ("/inject/prod", "1-30", "prod")
    assert (first.service, first.fails, first.trusted) == (None, True, False)


def test_live_webhooks_are_in_the_api_servers_order() -> None:
    webhooks = live_webhooks([configuration("b"), configuration("a"), configuration("c")])

    assert [live_webhook.configuration for live_webhook in webhooks] == ["a", "b", "c"]


def test_webhooks_that_were_found_for_a_namespace_are_those_of_each_of_its_pods() -> None:
    names = ("default", "1-24", "1-30")
    webhooks = live_webhooks([revision_webhook(name, WebhookOptions(auto_inject=True)) for name in names])
    revisions: list[dict[str, str]] = [{}, *({REV: name} for name in (*names, "other"))]
    namespaces = [
        {**revision, **more} for revision in revisions for more in ({}, {"istio-injection": "enabled"}, {"a": "b"})
    ]
    pods = [{**revision, **more} for revision in revisions for more in ({}, {"sidecar.istio.io/inject": "false"})]
    calls = 0
    for _ in range(2):  # the second time nothing is looked for in the namespaces
        for namespace in namespaces:
            for pod in pods:
                expected = [live_webhook for live_webhook in webhooks if not live_webhook.unmet(namespace, pod)]
                assert webhooks.find_called(dict(reversed(namespace.items())), pod) == expected
                calls += bool(expected)
    assert calls > len(namespaces)


@pytest.mark.parametrize("path", ["/inject", "/inject/", "/inject/1-30", "/inject/cluster/c/net/n"])
def test_webhooks_of_an_injector_are_found_by_their_path(path: str) -> None:
    service = {"name": "s", "namespace": "n", "path": path}

    assert [
        live_webhook.path for live_webhook in live_webhooks([configuration(clientConfig={"service": service})])
    ] == [path]


@cases("changed")
def test_other_webhooks_are_left_out(changed: dict[str, Any]) -> None:
    assert live_webhooks([configuration(**changed)]).all == ()


def test_a_rule_for_everything_includes_pods_and_conditions_are_reported() -> None:
    rule = {key: ["*"] for key in ("operations", "apiGroups", "apiVersions", "resources")}

    (live_webhook,) = live_webhooks(
        [configuration(rules=[rule], matchConditions=[{"name": "x", "expression": "true"}])]
    )

    assert live_webhook.conditions == (("x", "true"),)


@cases("webhooks", "says")
def test_a_configuration_that_kubernetes_refuses_is_named(webhooks: Any, says: str) -> None:
    with pytest.raises(ManifestError) as caught:
        live_webhooks([{"metadata": {"name": "w"}, "webhooks": webhooks}])

    assert str(caught.value).startswith(says)


PLAIN = WebhookOptions()


def overlap(*names: str) -> str:
    return f"Webhook overlaps with others: [{' '.join(names)}]. This may cause injection to occur twice."


def test_istios_own_configurations_do_not_overlap() -> None:
    others = [golden("revision-1-24"), golden("revision-1-30"), golden("tag-canary")]

    assert overlaps(golden("tag-prod"), others) == ()
    assert overlaps(golden("tag-default"), others) == ()


def test_the_default_tag_overlaps_with_a_default_revision_that_is_not_deactivated() -> None:
    revision = revision_webhook("default", PLAIN)
    results = overlaps(tag_webhook("default", "1-24", PLAIN), [revision])

    suffix = "sidecar-injector.istio.io"
    assert results == tuple(
        overlap(f"istio-sidecar-injector/{prefix}.{suffix}")
        for prefix in ("namespace", "object", "rev.namespace", "rev.object")
    )
    assert overlaps(tag_webhook("default", "1-24", PLAIN), [deactivate(revision)]) == ()


@cases("tag", "other", "names")
def test_webhooks_that_are_called_for_the_same_pods_overlap(tag: str, other: dict[str, Any], names: list[str]) -> None:
    assert overlaps(tag_webhook(tag, "1-24", PLAIN), [other]) == tuple(map(overlap, names))


def test_webhooks_of_one_configuration_can_overlap() -> None:
    twice = {"metadata": {"name": "x", "labels": {"istio.io/rev": "a"}}, "webhooks": [{"name": "a"}, {"name": "b"}]}

    assert overlaps(twice, []) == (overlap("x/a"), overlap("x/b"))
