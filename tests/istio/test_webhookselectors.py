from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from injector.istio.webhooks import called, passed_over, unserved, webhooks_of, why_none
from injector.kube.selectors import Requirement, Selector

NAMES = ("1-24", "1-30", "default", "prod")
INJECT = "sidecar.istio.io/inject"
REV = "istio.io/rev"
AUTO = "istio-injection"
CORPUS = Path(__file__).resolve().parents[3] / "shared" / "corpus" / "webhooks"


def by_prefix(name: str) -> dict[str, tuple[set[Requirement], set[Requirement]]]:
    return {
        webhook.name: (set(webhook.namespace.requirements), set(webhook.object.requirements))
        for webhook in webhooks_of(name)
    }


def requirements(raw: dict[str, Any]) -> set[Requirement]:
    return set(Selector.compile(raw).requirements)


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("revision-1-24.yaml", "1-24"),
        ("revision-1-30.yaml", "1-30"),
        ("revision-default.yaml", "default"),
        ("tag-prod.yaml", "prod"),
        ("tag-canary.yaml", "canary"),
        ("tag-default.yaml", "default"),
    ],
)
@pytest.mark.skipif(not CORPUS.exists(), reason="the corpus is not beside the project")
def test_the_selectors_are_those_that_istio_generates(file: str, name: str) -> None:
    documents = yaml.safe_load_all((CORPUS / file).read_text())
    # A tag's file also switches off the webhooks that it takes the place of.
    first = next(document for document in documents if document and document["kind"] == "MutatingWebhookConfiguration")
    generated = {
        each["name"]: (requirements(each["namespaceSelector"]), requirements(each["objectSelector"]))
        for each in first["webhooks"]
    }

    assert by_prefix(name) == generated


@pytest.mark.parametrize(
    ("namespace", "pod", "prefix", "name"),
    [
        ({REV: "1-24"}, {}, "rev.namespace", "1-24"),
        ({REV: "prod"}, {}, "rev.namespace", "prod"),
        ({REV: "prod"}, {REV: "1-24"}, "rev.namespace", "prod"),
        ({REV: "prod"}, {INJECT: "true"}, "rev.namespace", "prod"),
        ({}, {REV: "1-30"}, "rev.object", "1-30"),
        ({}, {REV: "1-30", INJECT: "true"}, "rev.object", "1-30"),
        ({AUTO: "enabled"}, {}, "namespace", "default"),
        ({AUTO: "enabled", REV: "prod"}, {}, "namespace", "default"),
        ({AUTO: "enabled"}, {REV: "prod"}, "namespace", "default"),
        ({}, {INJECT: "true"}, "object", "default"),
        ({REV: "default"}, {}, "rev.namespace", "default"),
    ],
)
def test_one_webhook_is_called(namespace: dict[str, str], pod: dict[str, str], prefix: str, name: str) -> None:
    found = called(NAMES, namespace, pod)

    assert [(each.name, each.webhook.name) for each in found] == [(name, f"{prefix}.sidecar-injector.istio.io")]


@pytest.mark.parametrize(
    ("namespace", "pod", "says"),
    [
        ({}, {}, "the namespace has neither istio-injection nor istio.io/rev"),
        ({AUTO: "enabled"}, {INJECT: "false"}, "the pod's label sidecar.istio.io/inject is `false`"),
        ({AUTO: "disabled"}, {}, "the namespace's label istio-injection is `disabled`"),
        ({AUTO: "disabled", REV: "prod"}, {INJECT: "true"}, "istio-injection is `disabled`"),
        ({REV: "1-99"}, {}, "names `1-99`, which nobody serves; known are 1-24, 1-30, default, prod"),
        ({}, {REV: "1-99"}, "the pod's label istio.io/rev names `1-99`, which nobody serves; known"),
        ({REV: "prdo"}, {}, "names `prdo`, which nobody serves (did you mean prod?); known are 1-24"),
        ({}, {REV: "Prod"}, "names `Prod`, which nobody serves (did you mean prod?); known are 1-24"),
    ],
)
def test_no_webhook_is_called_and_the_reason_is_said(namespace: dict[str, str], pod: dict[str, str], says: str) -> None:
    assert called(NAMES, namespace, pod) == ()
    assert says in why_none(namespace, pod, NAMES)


@pytest.mark.parametrize(("namespace", "pod"), [({AUTO: "enabled"}, {}), ({}, {INJECT: "true"})])
def test_without_a_default_nobody_answers_those_who_ask_for_it(namespace: dict[str, str], pod: dict[str, str]) -> None:
    assert called(("1-24",), namespace, pod) == ()
    assert "asks for the default revision, and there is none" in why_none(namespace, pod, ("1-24",))


@pytest.mark.parametrize(
    ("namespace", "pod", "notes"),
    [
        ({REV: "prod"}, {}, ()),
        ({REV: "prod"}, {REV: "prod"}, ()),
        ({}, {REV: "prod"}, ()),
        ({REV: "prod"}, {REV: "1-24"}, ("the pod's istio.io/rev=1-24 does not count: the namespace's label decides",)),
        (
            {AUTO: "enabled", REV: "prod"},
            {},
            ("the namespace's istio.io/rev=prod does not count beside istio-injection",),
        ),
    ],
)
def test_labels_that_others_take_the_place_of_are_named(
    namespace: dict[str, str], pod: dict[str, str], notes: tuple[str, ...]
) -> None:
    assert passed_over(namespace, pod) == notes


def test_what_a_webhook_wants_is_said_as_text() -> None:
    webhook = webhooks_of("default")[3]

    assert webhook.unmet({AUTO: "x", REV: "y"}, {REV: "z"}) == (
        "namespace: istio-injection does not exist",
        "namespace: istio.io/rev does not exist",
        "pod: sidecar.istio.io/inject in (true)",
        "pod: istio.io/rev does not exist",
    )
    assert webhooks_of("a")[0].unmet({REV: "a"}, {INJECT: "false"}) == ("pod: sidecar.istio.io/inject not in (false)",)


def test_the_labels_that_ask_for_a_webhook_are_named() -> None:
    assert webhooks_of("a")[1].asked_by({}, {REV: "a"}) == ("the pod's istio.io/rev=a",)


@pytest.mark.parametrize(
    ("namespace", "pod", "wanted"),
    [
        ({REV: "gone"}, {}, "gone"),
        ({REV: "gone"}, {REV: "1-24"}, "gone"),
        ({REV: "1-24"}, {}, None),
        ({}, {REV: "gone"}, "gone"),
        ({AUTO: "enabled"}, {}, "default"),
        ({AUTO: "enabled", REV: "1-24"}, {}, "default"),
        ({}, {INJECT: "true"}, "default"),
        ({AUTO: "disabled", REV: "gone"}, {}, None),
        ({REV: "gone"}, {INJECT: "false"}, None),
        ({}, {}, None),
    ],
)
def test_labels_can_ask_for_what_nobody_serves(
    namespace: dict[str, str], pod: dict[str, str], wanted: str | None
) -> None:
    assert unserved(namespace, pod, ("1-24", "1-30")) == wanted


def test_what_is_served_is_not_asked_for_in_vain() -> None:
    assert unserved({AUTO: "enabled"}, {}, ("default",)) is None
