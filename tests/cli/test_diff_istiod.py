"""``injector diff istiod/NAME``: pods of a running istiod beside ours."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import Result

from injector.cluster import reviews
from injector.errors import ClusterError
from injector.istio.webhooks.configurations import Endpoint, WebhookOptions, tag_webhook
from injector.revisions.source import build
from tests.cli.clusters import (
    FakeKube,
    ProxyingKube,
    assert_fails,
    config_maps,
    deployment,
    invoke,
    istiod_webhook,
    labelled,
    reached,
    written,
)
from tests.factories import make_container, make_pod
from tests.istiods import (
    Answering,
    Review,
    Slow,
    answer,
    injecting,
    patching,
    refusing,
    replacing_image,
    serving,
)
from tests.manifests import make_object
from tests.revisions.fakes import CONFIG, VALUES, make_raw, saying
from tests.webhook.certificates import Order, authority, issue

PRIVATE = "hunter2-hunter2"


def objects(*webhooks: dict[str, Any], config: str = CONFIG, name: str = "1-30") -> tuple[dict[str, Any], ...]:
    """A revision, its webhooks, and two workloads that it injects."""
    return (
        *config_maps(name, config=config, values=VALUES.replace("1.24.6", "1.30.1")),
        *(webhooks or (istiod_webhook(name),)),
        labelled("shop", name),
        deployment("lone", "shop"),
        deployment("web", "shop"),
    )


def istio(config: str = CONFIG, **fields: Any) -> Answering:
    """What answers as the istiod of the revision."""
    return injecting(build(make_raw("1-30", config=config, values=VALUES.replace("1.24.6", "1.30.1"), **fields)))


@pytest.fixture
def proxied(monkeypatch: pytest.MonkeyPatch) -> Callable[..., ProxyingKube]:
    """Lets commands reach a cluster whose istiod answers so."""

    def proxying(answering: Answering, *of_cluster: dict[str, Any]) -> ProxyingKube:
        kube = ProxyingKube(*(of_cluster or objects()), answering=answering)
        reached(monkeypatch, kube)
        return kube

    return proxying


def live(*arguments: str, sides: tuple[str, str] = ("istiod/1-30", "1-30")) -> Result:
    return invoke("diff", *sides, "--live", *arguments)


Proxied = Callable[..., ProxyingKube]


def test_an_istiod_that_answers_as_we_do_does_not_differ(proxied: Proxied) -> None:
    kube = proxied(istio())

    result = live()

    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == (
        "no difference in 2 workloads between istiod/1-30 (Service istio-system/istiod-1-30, port 443, path /inject)"
        " and 1-30 (Istio 1.30)\n"
    )
    ((path, review), _) = kube.posted
    assert path == "/api/v1/namespaces/istio-system/services/https:istiod-1-30:443/proxy/inject"
    request = review["request"]
    assert (review["apiVersion"], review["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    assert (request["dryRun"], request["operation"], request["namespace"]) == (True, "CREATE", "shop")
    assert request["resource"] == {"group": "", "version": "v1", "resource": "pods"}
    assert request["object"]["metadata"]["namespace"] == "shop"
    assert request["object"]["kind"] == "Pod"


@pytest.mark.parametrize(
    ("output", "says"),
    [
        ("text", "    containers[istio-proxy].image: wrong:1 -> proxy:1.30.1"),
        ("summary", "2 image only: Deployment shop/lone, Deployment shop/web"),
        ("unified", "-  - image: wrong:1\n+  - image: proxy:1.30.1"),
        ("json", '"webhook": "Service istio-system/istiod-1-30, port 443, path /inject"'),
        ("yaml", "old: wrong:1"),
        ("markdown", "wrong:1"),
        ("sarif", "wrong:1"),
    ],
)
def test_a_wrong_answer_is_a_difference_in_all_outputs(proxied: Proxied, output: str, says: str) -> None:
    proxied(replacing_image(istio(), "wrong:1"))

    result = live("-o", output)

    assert result.exit_code == 1
    assert says in result.stdout
    assert live("-o", output, "--exit-code=false").exit_code == 0


def test_the_istiod_may_be_the_other_side_or_both(proxied: Proxied) -> None:
    kube = proxied(replacing_image(istio(), "wrong:1"))

    swapped = live("-o", "text", sides=("1-30", "istiod/1-30"))
    kube.answering = istio()
    both = live(sides=("istiod/1-30", "istiod/1-30"))

    assert "image: proxy:1.30.1 -> wrong:1" in swapped.stdout
    assert (both.exit_code, both.stdout.startswith("no difference in 2 workloads")) == (0, True)


def test_a_pod_that_istiod_refuses_has_its_message(proxied: Proxied) -> None:
    proxied(lambda _, review: refusing(review, "no templates\tfor you"))

    result = live("-o", "text")

    assert "  decision\n    refused: istiod: no templates for you -> injected" in result.stdout


def test_the_messages_of_two_refusals_are_compared(proxied: Proxied) -> None:
    failing = saying('fail "stop"')
    proxied(lambda _, review: refusing(review, "stop"), *objects(config=failing))

    result = live()

    assert result.exit_code == 0
    first, _ = result.stderr.splitlines()
    assert first.startswith("warning: Deployment shop/lone: refused by both: istiod/1-30: istiod: stop; 1-30: ")
    assert first.endswith("stop")


ANSWERS: dict[str, tuple[Callable[[Review], bytes], str]] = {
    "another uid": (lambda review: answer(review, uid="other"), "the uid differs"),
    "no uid": (lambda review: answer(review, uid=None), "the uid differs"),
    "not JSON": (lambda _: b"<html>", "not JSON"),
    "not a review": (lambda _: b'{"kind": "Status"}', "not an AdmissionReview"),
    "a list": (lambda _: b"[]", "not an AdmissionReview"),
    "no response": (lambda _: b'{"kind": "AdmissionReview"}', "not an AdmissionReview"),
    "allowed is a text": (lambda review: answer(review, allowed="yes"), "not an AdmissionReview"),
    "not base64": (lambda review: answer(review, patchType="JSONPatch", patch="%%%"), "not JSON in base64"),
    "a number": (lambda review: answer(review, patchType="JSONPatch", patch=1), "not JSON in base64"),
    "not JSON in base64": (lambda review: answer(review, patchType="JSONPatch", patch="QUFB"), "not JSON in base64"),
    "another version": (
        lambda review: answer({**review, "apiVersion": "admission.k8s.io/v1beta1"}),
        "not one of admission.k8s.io/v1, in which it was asked",
    ),
    "no version": (lambda review: answer({**review, "apiVersion": None}), "not one of admission.k8s.io/v1"),
    "a patch without its type": (lambda review: patching(review, [], patchType=None), "not a JSON patch"),
    "another patch type": (lambda review: patching(review, [], patchType="Merge"), "not a JSON patch"),
    "no list": (lambda review: patching(review, {}), "something else than the operations"),
    "no operations": (lambda review: patching(review, [1]), "something else than the operations"),
    "copies": (
        lambda review: patching(review, [{"op": "copy", "from": "", "path": "/a"}]),
        "something else than the operations add, remove, replace, test",
    ),
    "no path": (lambda review: patching(review, [{"op": "add", "value": 1}]), "does not apply"),
    "no place": (lambda review: patching(review, [{"op": "remove", "path": "/spec/none"}]), "does not apply"),
    "bad pointer": (lambda review: patching(review, [{"op": "add", "path": "x", "value": 1}]), "does not apply"),
    "below a text": (
        lambda review: patching(review, [{"op": "add", "path": "/kind/a", "value": 1}]),
        "does not apply",
    ),
    "no pod": (lambda review: patching(review, [{"op": "replace", "path": "", "value": []}]), "does not make a pod"),
    "no value of its type": (
        lambda review: patching(review, [{"op": "add", "path": "/spec/containers", "value": "x"}]),
        "does not make a pod",
    ),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_that_is_not_one_is_a_difference_with_its_reason(proxied: Proxied, name: str) -> None:
    make, says = ANSWERS[name]
    right = istio()
    proxied(lambda path, review: make(review) if "lone" in str(review) else right(path, review))

    result = live("-o", "text")

    assert (result.exit_code, result.stderr) == (1, "")
    assert "Deployment shop/lone\n  decision\n    unanswered: no answer: " in result.stdout
    assert says in result.stdout
    assert "1 of 2 workloads differs" in result.stdout


def test_an_answer_that_is_not_one_has_no_lines_in_a_unified_diff(proxied: Proxied) -> None:
    proxied(lambda _, review: answer(review, uid="other"))

    lines = live("-o", "unified").stdout.splitlines()
    assert lines[:3] == [
        "--- istiod/1-30/Deployment shop/lone",
        "+++ 1-30/Deployment shop/lone",
        "# istiod/1-30: no answer: its answer is to another review: the uid differs",
    ]
    assert len(lines) == 6


def test_a_pod_that_istiod_leaves_alone_is_a_difference(proxied: Proxied) -> None:
    proxied(lambda _, review: answer(review))

    assert "skipped: istiod leaves the pod as it is -> injected" in live("-o", "text").stdout


@pytest.mark.parametrize("operations", [[], None])
def test_a_pod_that_istiod_injects_without_a_change_is_not_skipped(proxied: Proxied, operations: Any) -> None:
    proxied(lambda _, review: patching(review, operations))

    text = live("-o", "text").stdout

    assert "skipped" not in text
    assert "containers[istio-proxy]" in text


def test_an_answer_with_too_many_bytes_is_not_read(proxied: Proxied, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reviews, "MAX_ANSWER", 100)
    proxied(istio())

    assert "its answer has more than 100 bytes" in live("-o", "text").stdout


FAULTS = {
    ("forbidden", 403, ': services "https:istiod-1-30:443" is forbidden: User "a" cannot create resource'): (
        "grant the account the verb `create` on the resource `services/proxy`, name `https:istiod-1-30:443`, "
        "in namespace istio-system"
    ),
    ("missing", 404, ': services "istiod-1-30" not found'): "check the webhook's Service, or give --istiod-url",
    ("server", 503, ': no endpoints available for service "istiod-1-30"'): "check that istiod is running",
    ("server", 503, ': no service port 443 found for service "istiod-1-30"'): "check that istiod is running",
    ("server", 503, ": error trying to reach service: dial tcp 10.0.0.1:443: connect: connection refused"): (
        "check that istiod is running"
    ),
    ("server", 503, ": error trying to reach service: tls: first record does not look like a TLS handshake"): (
        "check that istiod is running"
    ),
    ("refused", 400, ": address not allowed"): "check that istiod is running",
    ("unauthorized", 401, ""): "log in again",
}


def raising(reason: str, status: int, said: str) -> Answering:
    def answers(_path: str, _review: Review) -> bytes:
        what = f"the API server fails (HTTP {status}){said}"
        raise ClusterError(what, where="https://api/path", hint="x", reason=reason, status=status)

    return answers


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_that_stops_all_reviews_is_one_error(proxied: Proxied, fault: tuple[str, int, str]) -> None:
    proxied(raising(*fault))

    result = live()

    assert_fails(result, 1, FAULTS[fault])
    assert fault[2] in result.stderr


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        (("idle", 0, ""), "no answer within 10 s"),
        (("missing", 404, ""), "it answers with HTTP status 404"),
        (("refused", 415, ""), "it answers with HTTP status 415"),
        (("server", 500, ""), "it answers with HTTP status 500"),
        (("server", 503, ": error trying to reach service: EOF"), "it closes the connection without an answer"),
    ],
)
def test_a_fault_of_one_review_is_a_difference(proxied: Proxied, fault: tuple[str, int, str], says: str) -> None:
    proxied(raising(*fault))

    result = live("-o", "text")

    assert result.exit_code == 1
    assert f"unanswered: no answer: {says} -> injected" in result.stdout


def test_no_more_workloads_are_asked_about_if_the_first_ones_have_no_answer(proxied: Proxied) -> None:
    many = [deployment(f"web-{number}", "shop") for number in range(40)]
    kube = proxied(raising("idle", 0, ""), *objects(), *many)

    assert_fails(live(), 1, "it gives no answer to the first 16 pods: no answer: no answer within 10 s; check its log")
    assert len(kube.posted) == 16


def test_few_reviews_are_sent_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    at_once = most = 0

    class Counting(ProxyingKube):
        async def post_to_proxy(self, path: str, body: Mapping[str, Any], **limits: Any) -> bytes:
            nonlocal at_once, most
            at_once += 1
            most = max(most, at_once)
            await asyncio.sleep(0)
            at_once -= 1
            return await super().post_to_proxy(path, body, **limits)

    many = [deployment(f"web-{number}", "shop") for number in range(40)]
    kube = Counting(*objects(), *many, answering=istio())
    reached(monkeypatch, kube)

    assert live().exit_code == 0
    assert (len(kube.posted), most) == (42, 4)


def test_the_total_time_has_a_limit(proxied: Proxied, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("injector.fleet.istiod.TOTAL_TIMEOUT", -1.0)
    proxied(istio())

    assert_fails(live(), 1, "only 0 of 2 workloads were compared within -1 s; compare fewer workloads, or run it again")


def test_values_that_istiod_makes_at_random_are_not_compared(proxied: Proxied) -> None:
    count = iter(range(100))
    right = istio()

    def random(path: str, review: Review) -> bytes:
        return replacing_image(right, f"random:{next(count)}")(path, review)

    proxied(random)

    result = live()

    assert result.exit_code == 0
    assert result.stdout.startswith("no difference in 2 workloads")
    assert "note: containers[istio-proxy].image differs among istiod's own answers, so it is not compared: 2" in (
        result.stderr
    )


def test_a_documented_difference_is_named(proxied: Proxied) -> None:
    config = CONFIG.replace("{{ .Values.global.tag }}", "{{ .ObjectMeta.Labels.a }}")
    hostile = deployment("lone", "shop")
    hostile["spec"]["template"]["metadata"]["labels"] = {"a": "x\n  - name: other\n    image: other"}
    right = objects(config=config)
    proxied(istio(config), *right[:-2], hostile)

    result = live("-o", "text")
    (workload,) = json.loads(live("-o", "json").stdout)["workloads"]

    reason = "the guard refuses a value of the pod that breaks out of the template, which Istio does not check"
    assert f"Deployment shop/lone\n  documented: {reason}\n  decision\n    injected -> refused: " in result.stdout
    assert result.stdout.endswith(", 1 as docs/compatibility.md says\n")
    assert workload["known"] == reason


def test_values_of_the_users_variables_are_hidden(proxied: Proxied) -> None:
    secret = deployment("lone", "shop")
    containers = [make_container(env=[{"name": "TOKEN", "value": PRIVATE}])]
    secret["spec"]["template"]["spec"]["containers"] = containers
    wrong = [{"op": "replace", "path": "/spec/containers/0/env/0/value", "value": f"{PRIVATE}2"}]
    proxied(lambda _, review: patching(review, wrong), *objects()[:-2], secret)

    for output in ("text", "json", "unified", "sarif"):
        assert PRIVATE not in live("-o", output).output


def operation(op: str, path: str, value: Any) -> Callable[[Review], bytes]:
    """Return what answers with a patch of one operation after one that applies."""
    first = {"op": "test", "path": "/kind", "value": "Pod"}
    return lambda review: patching(review, [first, {"op": op, "path": path, "value": value}])


ENTRY = "/spec/containers/0/env/0"
QUOTING: dict[str, tuple[Callable[[Review], bytes], str]] = {
    "no place": (
        operation("replace", f"{ENTRY}/nope/deep", 1),
        f"does not apply to the pod: replace {ENTRY}/nope/deep",
    ),
    "another value": (
        operation("test", f"{ENTRY}/value", 1),
        "operation 1 of its patch does not apply to the pod: test",
    ),
    "in the path": (operation("remove", f"/metadata/{PRIVATE}", 1), "apply to the pod: remove /metadata/<hidden>"),
    "a path that is none": (
        lambda review: patching(review, [{"op": "add", "path": {PRIVATE: 1}}]),
        "add without a path",
    ),
    "no time": (operation("add", "/metadata/creationTimestamp", PRIVATE), "its patch does not make a pod"),
    "a refusal": (lambda review: refusing(review, f"{PRIVATE} is bad"), "<hidden> is bad"),
    "a status": (lambda _: f"HTTP 500 {'x' * 345} {PRIVATE}".encode(), "it answers with HTTP status 500: HTTP 500 xxx"),
    "a status with JSON": (
        lambda _: b'HTTP 500 "' + json.dumps(SPACED)[1:-1].encode(),
        "it answers with HTTP status 500",
    ),
    "a control character": (lambda _: b"HTTP 500 a\x1b[1mb\n c", r"HTTP 500 a\u001b[1mb c"),
}
SPACED = 'quoted "one"  and\nanother'


@pytest.mark.parametrize("name", QUOTING)
def test_what_an_istiod_says_has_no_values_of_the_users_variables(tmp_path: Path, name: str) -> None:
    quoting, says = QUOTING[name]
    secret = deployment("lone", "shop")
    env = [{"name": "PASSWORD", "value": PRIVATE}, {"name": "OTHER", "value": SPACED}]
    secret["spec"]["template"]["spec"]["containers"] = [make_container(env=env)]
    files = written(tmp_path, *objects()[:-2], secret)
    with serving(lambda _, review: quoting(review)) as (url, _):
        outputs = [
            invoke("diff", "istiod/1-30", "1-30", "-f", files, "--istiod-url", url, "-o", output).output
            for output in ("text", "json", "markdown", "sarif")
        ]

    assert says in outputs[0]
    for output in outputs:
        assert PRIVATE[:5] not in output
        assert "quoted" not in output


@pytest.mark.parametrize(("reason", "status"), [("server", 503), ("forbidden", 403)])
def test_a_fault_of_all_reviews_has_no_values_either(proxied: Proxied, reason: str, status: int) -> None:
    secret = deployment("lone", "shop")
    secret["spec"]["template"]["spec"]["containers"] = [make_container(env=[{"name": "TOKEN", "value": PRIVATE}])]

    def failing(_path: str, _review: Review) -> bytes:
        raise ClusterError(f"the API server fails: {PRIVATE} is bad", reason=reason, status=status)

    proxied(failing, *objects()[:-2], secret)

    result = live()

    assert (result.exit_code, PRIVATE in result.output, "<hidden> is bad" in result.output) == (1, False, True)


# What breaks between the minors.


def control_plane(version: str, revision: str = "1-28") -> dict[str, Any]:
    """The Deployment of an istiod."""
    containers = [make_container(name="discovery", image=f"docker.io/istio/pilot:{version}")]
    labels = {"app": "istiod", "istio.io/rev": revision}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": f"istiod-{revision}", "namespace": "istio-system", "labels": labels},
        "spec": {"template": {"metadata": {"labels": labels}, "spec": {"containers": containers}}},
    }


def changed_minors(*arguments: str, sides: tuple[str, str] = ("istiod/1-28", "1-30")) -> tuple[set[str], str]:
    """Return the minors with changed defaults, and what the command says beside."""
    result = live("-o", "json", *arguments, sides=sides)
    return {default["minor"] for default in json.loads(result.stdout).get("changedDefaults", ())}, result.stderr


OLD = config_maps("1-28", values=VALUES.replace("1.24.6", "1.28.0"))


@pytest.mark.parametrize(
    ("known", "minors"),
    [
        (OLD, {"1.29", "1.30"}),
        ((control_plane("1.28.3-distroless"),), {"1.29", "1.30"}),
        ((*OLD, control_plane("1.29.1")), {"1.30"}),
        ((*OLD, control_plane("latest")), {"1.29", "1.30"}),
        ((*OLD, control_plane("1.29.1", "1-29")), {"1.29", "1.30"}),
        ((control_plane("1.30.0"),), set()),
    ],
)
def test_what_breaks_between_minors_needs_the_version_of_istiod(
    proxied: Proxied, known: tuple[dict[str, Any], ...], minors: set[str]
) -> None:
    proxied(istio(), *objects(istiod_webhook(), istiod_webhook("1-28"), *known))

    assert changed_minors() == (minors, "")


def test_an_istiod_of_an_unknown_version_is_a_note(proxied: Proxied) -> None:
    proxied(istio(), *objects(istiod_webhook(), istiod_webhook("1-28")))

    note = "note: the version of istiod/1-28 is not known, so what breaks between the minors is not reported\n"
    assert changed_minors() == (set(), note)
    assert changed_minors(sides=("1-30", "istiod/1-28")) == (set(), note)


# Where istiod is.


def moved(name: str = "prod") -> dict[str, Any]:
    """The webhook of a tag that leads to this injector."""
    return tag_webhook(name, "1-30", WebhookOptions())


def of_tag(name: str = "prod") -> dict[str, Any]:
    """The webhook of a tag that leads to the istiod, as istioctl writes it."""
    configuration = moved(name)
    for entry in configuration["webhooks"]:
        entry["clientConfig"] = {"service": {"name": "of-tag", "namespace": "istio-system", "path": "/inject"}}
    return configuration


@pytest.mark.parametrize(
    ("webhooks", "name", "path"),
    [
        ((istiod_webhook(),), "1-30", "istio-system/services/https:istiod-1-30:443/proxy/inject"),
        ((istiod_webhook(), of_tag()), "prod", "istio-system/services/https:of-tag:443/proxy/inject"),
        ((istiod_webhook(), moved()), "prod", "istio-system/services/https:istiod-1-30:443/proxy/inject"),
        (
            (istiod_webhook(endpoint=Endpoint("istiod", "mesh", 8443)),),
            "1-30",
            "mesh/services/https:istiod:8443/proxy/inject",
        ),
        (
            (istiod_webhook(path="/inject/cluster/east/net/n1"),),
            "1-30",
            "istio-system/services/https:istiod-1-30:443/proxy/inject/cluster/east/net/n1",
        ),
    ],
)
def test_the_address_is_that_of_the_webhook_of_the_name(
    proxied: Proxied, webhooks: tuple[dict[str, Any], ...], name: str, path: str
) -> None:
    kube = proxied(istio(), *objects(*webhooks))

    result = live(sides=(f"istiod/{name}", "1-30"))

    assert (result.exit_code, result.stderr) == (0, "")
    assert {posted for posted, _ in kube.posted} == {f"/api/v1/namespaces/{path}"}


def service(name: str = "istiod-1-30", port: str = "https-webhook", **labels: str) -> dict[str, Any]:
    """The Service that Istio's installer writes for a revision."""
    own = {"app": "istiod", "istio.io/rev": "1-30", **labels}
    ports = [{"name": "grpc-xds", "port": 15010}, {"name": port, "port": 8443}]
    return make_object("Service", name, "mesh", spec={"ports": ports}, labels=own)


@pytest.mark.parametrize(("port", "number"), [("https-webhook", 8443), ("other", 443)])
def test_a_revision_whose_webhook_calls_this_injector_has_a_service(proxied: Proxied, port: str, number: int) -> None:
    here = istiod_webhook(endpoint=Endpoint(), path="/inject/1-30")
    of_a_tag = service("istiod-revision-tag-prod", **{"istio.io/tag": "prod"})
    kube = proxied(istio(), *objects(here, moved(), of_a_tag, service(port=port)))

    results = [live(sides=(f"istiod/{name}", "1-30")) for name in ("1-30", "prod")]

    assert [(result.exit_code, result.stderr) for result in results] == [(0, ""), (0, "")]
    path = f"/api/v1/namespaces/mesh/services/https:istiod-1-30:{number}/proxy/inject"
    assert {posted for posted, _ in kube.posted} == {path}


@pytest.mark.parametrize("name", ["default"])
def test_the_revision_default_has_the_service_istiod(proxied: Proxied, name: str) -> None:
    own = objects(istiod_webhook(name, Endpoint("istiod", "istio-system")), name=name)
    kube = proxied(injecting(build(make_raw(name, values=VALUES.replace("1.24.6", "1.30.1")))), *own)

    result = live(sides=(f"istiod/{name}", name))

    assert result.exit_code == 0, result.output
    assert kube.posted[0][0].endswith("/services/https:istiod:443/proxy/inject")


def test_of_several_webhooks_the_one_that_is_called_for_the_pod_counts(proxied: Proxied) -> None:
    configuration = istiod_webhook()
    for number, entry in enumerate(configuration["webhooks"]):
        entry["clientConfig"]["service"]["port"] = 1000 + number
    asking = deployment("asking", "plain")
    asking["spec"]["template"]["metadata"]["labels"] = {"istio.io/rev": "1-30"}
    plain = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "plain"}}
    kube = proxied(istio(), *objects(configuration), plain, asking)

    assert live().exit_code == 0
    ports = {review["request"]["namespace"]: path.split(":")[2].split("/")[0] for path, review in kube.posted}
    assert len(set(ports.values())) == 2


def test_the_variables_of_the_path_are_those_of_both_sides(proxied: Proxied) -> None:
    config = f"{CONFIG}        env:\n        - {{name: ISTIO_META_CLUSTER_ID, value: own}}\n"
    proxied(istio(config), *objects(istiod_webhook(path="/inject/cluster/east"), config=config))

    assert live().exit_code == 0


@pytest.mark.parametrize(
    ("webhooks", "name", "says"),
    [
        ((istiod_webhook(),), "1-31", 'no webhook of the cluster has the revision or tag "1-31" (did you mean 1-30?)'),
        (
            (istiod_webhook(endpoint=Endpoint(), path="/inject/1-30"),),
            "1-30",
            "it calls this injector, by path /inject/1-30",
        ),
        ((istiod_webhook(),), "A", "istiod/NAME: 'A' cannot name a revision"),
        ((istiod_webhook(),), "", "istiod/NAME: '' cannot name a revision"),
    ],
)
def test_a_name_without_an_istiod_is_an_error(
    proxied: Proxied, webhooks: tuple[dict[str, Any], ...], name: str, says: str
) -> None:
    proxied(istio(), *objects(*webhooks))

    assert_fails(live(sides=(f"istiod/{name}", "1-30")), 64, says)


def test_services_that_may_not_be_listed_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    here = istiod_webhook(endpoint=Endpoint(), path="/inject/1-30")
    reached(monkeypatch, FakeKube(*objects(here, service()), forbidden=("services",)))

    assert_fails(live(), 64, "it calls this injector, by path /inject/1-30, and Services cannot be listed: ")


# Directly, at a URL.


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """The file of a pod, and a folder with the revision."""
    revision = tmp_path / "revisions" / "1-30"
    revision.mkdir(parents=True)
    (revision / "config").write_text(CONFIG)
    (revision / "values").write_text(VALUES.replace("1.24.6", "1.30.1"))
    (tmp_path / "m.yaml").write_text(yaml.safe_dump_all([make_pod("a", namespace="shop")]))
    return tmp_path


def in_files(files: Path, url: str, *arguments: str) -> Result:
    own = ("--revisions-dir", str(files / "revisions"), "-f", str(files / "m.yaml"), "--istiod-url", url)
    return invoke("diff", "istiod/mine", "1-30", *own, *arguments)


@pytest.mark.parametrize(("below", "path"), [("", "/inject"), ("/", "/inject"), ("/inject/net/n1", "/inject/net/n1")])
def test_files_need_no_cluster_with_a_url(files: Path, below: str, path: str) -> None:
    with serving(istio()) as (url, received):
        result = in_files(files, url + below)

    note = "note: the version of istiod/mine is not known, so what breaks between the minors is not reported\n"
    assert (result.exit_code, result.stderr) == (0, note)
    assert [posted for posted, _ in received] == [path]
    assert f"no difference in 1 workload between istiod/mine ({url}{path}) and 1-30" in result.stdout


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "it closes the connection without an answer"),
        (b"HTTP 302", "HTTP status 302"),
        (b"HTTP 503", "status 503"),
    ],
)
def test_a_url_that_does_not_answer_the_review_is_a_difference(files: Path, body: bytes, says: str) -> None:
    with serving(lambda _path, _review: body) as (url, _):
        result = in_files(files, url)

    assert result.exit_code == 1
    assert says in result.stdout


def test_a_slow_answer_has_a_deadline(files: Path) -> None:
    with serving(Slow(istio(), 3)) as (url, _):
        result = in_files(files, url, "--istiod-timeout", "0.2")

    assert "unanswered: no answer: no answer within 0.2 s -> injected" in result.stdout


def test_a_url_where_nothing_listens_is_an_error(files: Path) -> None:
    with serving(istio()) as (url, _):
        pass

    assert_fails(in_files(files, url), 1, "it cannot be reached: Connect")


def test_the_certificate_of_a_url_is_checked(files: Path) -> None:
    signer, other = authority(), authority()
    issued = issue(Order(names=("127.0.0.1",)), signer).write(files)
    (files / "ca.crt").write_bytes(signer.chain_pem)
    (files / "other.crt").write_bytes(other.chain_pem)
    (files / "none.crt").write_text("nothing")
    with serving(istio(), issued) as (url, _):
        right = in_files(files, url, "--istiod-ca", str(files / "ca.crt"))
        wrong = [in_files(files, url, "--istiod-ca", str(files / name)) for name in ("other.crt", "none.crt", "x.crt")]
        unknown = in_files(files, url)

    assert (right.exit_code, "TLS" in right.stderr) == (0, False)
    assert_fails(wrong[0], 1, "TLS failed: ")
    assert_fails(wrong[1], 64, "no PEM certificate can be read")
    assert_fails(wrong[2], 65, "x.crt: cannot be read: No such file or directory")
    assert_fails(unknown, 1, "give the CA of its certificate by --istiod-ca FILE")


def test_a_webhook_with_a_url_is_called_there_with_its_bundle(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    signer = authority()
    issued = issue(Order(names=("127.0.0.1",)), signer).write(files)
    bundle = base64.b64encode(signer.chain_pem).decode()
    with serving(istio(), issued) as (url, received):
        configuration = istiod_webhook(endpoint=Endpoint(url=url))
        for entry in configuration["webhooks"]:
            entry["clientConfig"] = {"url": f"{url}/inject/cluster/east/net/n1", "caBundle": bundle}
        reached(monkeypatch, FakeKube(*objects(configuration)))
        result = live()

    assert (result.exit_code, result.stderr) == (0, "")
    assert {path for path, _ in received} == {"/inject/cluster/east/net/n1"}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("1-24", "1-30", "--istiod-url", "https://a/inject"), "--istiod-url has no effect without istiod/NAME"),
        (("1-24", "1-30", "--istiod-timeout", "3"), "--istiod-timeout has no effect without istiod/NAME"),
        (("istiod/a", "b", "--istiod-ca", "x"), "--istiod-ca has no effect without --istiod-url"),
        (("istiod/a", "b", "--istiod-url", "a:15017"), "--istiod-url: not the URL of a webhook"),
        (("istiod/a", "b", "--istiod-url", "https://u:p@a/inject"), "--istiod-url: not the URL of a webhook"),
        (("istiod/a", "b", "--istiod-url", "https://a:x/inject"), "--istiod-url: not the URL of a webhook"),
        (("istiod/a", "b", "--istiod-url", "https://[/inject"), "--istiod-url: not the URL of a webhook"),
        (("istiod/a", "b", "--confirm", "3"), "--confirm has no effect with istiod/NAME"),
        (
            ("istiod/a", "istiod/b", "--istiod-url", "https://a/inject"),
            "--istiod-url is the address of one istiod, and both sides are istiods",
        ),
    ],
)
def test_flags_without_effect_are_refused(arguments: tuple[str, ...], says: str) -> None:
    assert_fails(invoke("diff", *arguments, "--live"), 64, says)
