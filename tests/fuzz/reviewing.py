"""AdmissionReviews as they should not be: valid ones, changed at their leaves, in their structure, and in their bytes."""

from __future__ import annotations

import base64
import copy
import json
from random import Random
from typing import Any

import jsonpatch
import orjson

from injector.injection.data import value_at
from tests.factories import make_container, make_pod, make_review
from tests.fuzz.jsondata import json_data
from tests.property.mutations import mutated, values_in

OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-5d9f", "uid": "1", "controller": True}
VOLUME = "kube-api-access-bcdfg"
PROBE = {"httpGet": {"path": "/ready", "port": "http"}, "periodSeconds": 5}
PODS = (
    make_pod(),
    make_pod(labels={"app": "web", "version": "v1"}, annotations={"sidecar.istio.io/inject": "true"}),
    make_pod(labels={"sidecar.istio.io/inject": "false"}),
    make_pod(
        labels={"app": "web"},
        containers=[make_container(volumeMounts=[{"name": VOLUME, "mountPath": "/var/run/secrets"}])],
        volumes=[{"name": VOLUME, "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}],
    ),
    make_pod(
        labels={"app": "web", "pod-template-hash": "5d9f", "topology.istio.io/network": "n1"},
        annotations={
            "proxy.istio.io/config": "holdApplicationUntilProxyStarts: true\nconcurrency: 2\n",
            "sidecar.istio.io/proxyCPU": "100m",
            "sidecar.istio.io/rewriteAppHTTPProbers": "true",
            "prometheus.io/scrape": "true",
            "prometheus.io/port": "8080",
            "traffic.sidecar.istio.io/excludeInboundPorts": "80,443",
            "sidecar.istio.io/userVolume": '{"data":{"emptyDir":{}}}',
            "status.sidecar.istio.io/port": "15020",
        },
        containers=[
            make_container(
                ports=[{"name": "http", "containerPort": 8080}],
                readinessProbe=PROBE,
                livenessProbe={"tcpSocket": {"port": 8080}},
                startupProbe={"grpc": {"port": 9, "service": "s"}},
                lifecycle={"preStop": {"httpGet": {"port": 8080}}},
                env=[
                    {"name": "A", "value": "b"},
                    {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                ],
                resources={"limits": {"cpu": "1"}},
                securityContext={"runAsUser": 1000},
                volumeMounts=[{"name": VOLUME, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}],
            ),
            make_container("istio-proxy", image="auto"),
        ],
        initContainers=[make_container("setup")],
        volumes=[{"name": VOLUME, "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}],
        securityContext={"fsGroup": 7},
        imagePullSecrets=[{"name": "registry"}],
        serviceAccountName="web",
    ),
    make_pod(annotations={"inject.istio.io/templates": "sidecar,nope"}, hostNetwork=True),
    make_pod(
        namespace="shop",
        annotations={
            "sidecar.istio.io/status": '{"containers":["istio-proxy"],"initContainers":null,"volumes":["istio-data"]}',
            "proxy.istio.io/overrides": '{"containers":[{"name":"istio-proxy","image":"auto","env":[{"name":"A","value":"b"}]}]}',
            "proxy.istio.io/config": "statusPort: 15021\n",
        },
        labels={"app": 'x"\n', "deploymentconfig": "d"},
        containers=[make_container(), make_container("istio-proxy")],
        securityContext={"runAsUser": 1000660000},
    ),
)
# Read anew for each review, which takes a tenth of what a copy does.
_PODS = tuple(map(orjson.dumps, PODS))
PATHS = (
    *("/inject/stable", "/inject/canary", "/inject/plain", "/inject/old", "/inject/prod", "/inject", "/inject/"),
    *("/inject/stable", "/inject/canary", "/inject/plain", "/inject/prod", "/inject/nope"),
    *("/inject/cluster/c1/net/n1", "/inject/stable/cluster/a--slash--b", "/inject/:ENV:cluster=c:ENV:net=n"),
    *("/inject/plain/A/b/C", "/inject/%2e%2e/x", "/inject/%ff", "/inject/%00", "/inject/stable?timeout=10s"),
    *("/inject/stable?timeout=x", "/inject/stable?timeout=0s", "/inject/UPPER", "/inject/=/x", "/inject//", "/x"),
)
BYTES = (
    *(b'"', b"{", b"}", b"[", b"]", b",", b":", b"\\", b"\\ud800", b"\x00", b"\xff", b"NaN", b"1e999", b"null"),
    *(b"-0", b'"uid":"x",'),
)
MOST_CUTS = 4


def mutated_review(random: Random) -> bytes:
    """The body of a review: as the API server writes it, or changed in one to three ways."""
    pod = orjson.loads(random.choice(_PODS))
    pod["metadata"]["ownerReferences"] = [dict(OWNER) for _ in range(random.randrange(2))]
    ways = random.randrange(8)
    if ways & 1:
        pod = mutated(pod, random)
    review = make_review(pod, version=random.choice(("v1", "v1beta1")), dryRun=random.randrange(8) == 7)
    review["request"]["uid"] = f"{random.getrandbits(32):08x}-3c1f-4b6e-9b0a-2f7f5a0c1d2e"
    if ways & 2:
        for _ in range(random.randrange(1, 4)):
            retyped(review, random)
    body = body_of(review)
    return cut(body, random) if ways & 4 and random.getrandbits(1) else body


def body_of(review: dict[str, Any]) -> bytes:
    """A review as the API server writes it."""
    first: dict[str, Any] = {key: review[key] for key in ("kind", "apiVersion") if key in review}
    return json.dumps({**first, **review}, separators=(",", ":")).encode()


def retyped(document: dict[str, Any], random: Random) -> None:
    """Put any JSON data in the place of a value anywhere in a document, or take the value away, or say it twice."""
    places = [path for path, _ in values_in(document) if path]
    if not places:
        return
    place: Any = random.choice(places)
    holder, key = value_at(document, place[:-1]), place[-1]
    kind = random.randrange(8)
    if kind == 0:
        del holder[key]
    elif kind == 1 and isinstance(holder, list):
        holder.append(copy.deepcopy(holder[key]))
    elif kind == 2 and isinstance(holder[key], dict):
        holder[key][str(random.choice(json_words()))] = json_data(random)
    else:
        holder[key] = json_data(random, random.randrange(6))


def json_words() -> tuple[str, ...]:
    """Keys that are read somewhere."""
    return (
        *("name", "metadata", "spec", "labels", "annotations", "containers", "uid", "namespace", "generateName"),
        *("env", "", "a/b~c"),
    )


def cut(body: bytes, random: Random) -> bytes:
    """Bytes changed, put in, taken out or doubled."""
    for _ in range(random.randrange(1, MOST_CUTS)):
        begin = random.randrange(len(body) + 1)
        end = min(len(body), begin + random.randrange(1, 9))
        put = random.choice((b"", random.choice(BYTES), random.randbytes(random.randrange(1, 5)), body[begin:end] * 2))
        body = body[:begin] + put + body[end if random.getrandbits(1) else begin :]
    return body


def fault_of(status: int, answer: bytes, body: bytes) -> str:
    """What is wrong with an answer to a body, empty where nothing is."""
    if not 200 <= status < 500:
        return f"status {status}"
    uid, pod = readable(body)
    if status != 200:
        return f"status {status} for uid {uid}" if uid else ""
    if not uid:
        return ""
    response = json.loads(answer)["response"]
    if response["uid"] != uid:
        return f"the uid {response['uid']} for {uid}"
    message = response.get("status", {}).get("message", "")
    return message if message.startswith("internal error") else _patch_fault(pod, response)


def _patch_fault(pod: Any, response: dict[str, Any]) -> str:
    if "patch" not in response:
        return ""
    try:
        # The pod was read for this alone.
        jsonpatch.apply_patch(pod, orjson.loads(base64.b64decode(response["patch"])), in_place=True)
    except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException) as error:
        return f"the patch does not apply: {str(error)[:80]}"
    return ""


def readable(body: bytes) -> tuple[str, Any]:
    """The uid and the object of a review; no uid where it cannot be read."""
    try:
        review = orjson.loads(body)
    except orjson.JSONDecodeError:
        return "", None
    if (
        not isinstance(review, dict)
        or review.get("kind") != "AdmissionReview"
        or not isinstance(review.get("request"), dict)
    ):
        return "", None
    uid = review["request"].get("uid")
    return (uid if isinstance(uid, str) else ""), review["request"].get("object")
