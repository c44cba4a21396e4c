"""The answer cache by itself: what it keeps, and how much memory that takes."""

from __future__ import annotations

import json
import re
import tracemalloc
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import jsonpatch
import pytest
from prometheus_client import CollectorRegistry

from injector.golang.json import dump_json
from injector.injection.pipeline import inject_pod
from injector.injection.result import Injected, RequestFacts
from injector.istio.revision import Revision
from injector.kube import admission
from injector.metrics import Metrics, Outcome
from injector.revisions.directory import EMBEDDED, read_directory
from injector.revisions.registry import Registry, Resolved, Snapshot, snapshot_of
from injector.revisions.reload import Loader
from injector.revisions.source import build
from injector.webhook.cache import AnswerCache, CachedAnswer, CacheKey
from injector.webhook.handler import InjectHandler
from injector.webhook.lifecycle import Lifecycle
from tests import controlplanes
from tests.conformance import corpus
from tests.factories import proxy_of
from tests.handlers import handler_of, patched, response_of
from tests.revisions.fakes import CONFIG, VALUES, fake_revision, write_revision
from tests.webhook.recorded import NAMES, recorded

PATH = "/inject/default"


@pytest.fixture
def snapshot() -> Snapshot:
    return snapshot_of([fake_revision("default")], {})


def key_of(number: int, length: int = 10) -> CacheKey:
    return CacheKey(PATH, "shop", dump_json({"number": number, "text": "x" * length}))


def answer_of(number: int, length: int = 10, *, token_volume: bool = False) -> CachedAnswer:
    """An answer with a patch of some length, which may name the token volume."""
    name = "kube-api-access-bcdfg" if token_volume else ""
    patch = dump_json([{"op": "add", "path": f"/{number}", "value": f"{name}{'x' * length}"}])
    return CachedAnswer.of(admission.patched(patch), Outcome.SUCCESS, "", Resolved(fake_revision("default")), name)


def test_an_answer_is_found_by_an_equal_key_of_the_same_snapshot(snapshot: Snapshot) -> None:
    registry = Registry(snapshot)
    cache = AnswerCache(registry)
    assert cache.get(snapshot, key_of(1), "") is None

    cache.put(snapshot, key_of(1), answer_of(1))

    assert cache.get(snapshot, key_of(1), "") == answer_of(1)
    assert cache.get(snapshot, key_of(2), "") is None
    assert cache.get(snapshot, key_of(1)._replace(namespace="other"), "") is None
    assert cache.hits == 1

    newer = replace(snapshot)
    registry.swap(newer)
    assert (cache.size, cache.get(newer, key_of(1), "")) == (0, None)
    cache.put(newer, key_of(1), answer_of(1))
    cache.put(snapshot, key_of(2), answer_of(2))
    assert (cache.get(snapshot, key_of(1), ""), cache.get(newer, key_of(2), "")) == (None, None)
    assert cache.get(newer, key_of(1), "") == answer_of(1), "a request from before the swap leaves it"


def test_the_answers_that_were_not_used_for_longest_go_first(snapshot: Snapshot) -> None:
    cache = AnswerCache(Registry(snapshot), max_bytes=10_000)
    for number in range(100):
        cache.put(snapshot, key_of(number, 200), answer_of(number, 200))
        assert cache.get(snapshot, key_of(0, 200), "") is not None

    remaining = [number for number in range(100) if cache.get(snapshot, key_of(number, 200), "") is not None]
    assert 10 <= len(remaining) <= 25
    assert 99 in remaining
    assert 50 not in remaining


def test_an_answer_that_would_take_the_places_of_many_is_not_cached(snapshot: Snapshot) -> None:
    cache = AnswerCache(Registry(snapshot), max_bytes=10_000)
    cache.put(snapshot, key_of(1, 200), answer_of(1, 200))
    cache.put(snapshot, key_of(2, 400), answer_of(2, 400))

    assert cache.get(snapshot, key_of(2, 400), "") is None
    assert cache.get(snapshot, key_of(1, 200), "") is not None


@pytest.mark.parametrize("token_volume", [False, True])
def test_answers_take_hardly_more_memory_than_is_counted(snapshot: Snapshot, token_volume: bool) -> None:
    cache = AnswerCache(Registry(snapshot))
    resolved = answer_of(0).resolved

    tracemalloc.start()
    try:
        for number in range(200):
            answer = replace(answer_of(number, 2_200, token_volume=token_volume), resolved=resolved)
            cache.put(snapshot, key_of(number, 2_200), answer)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    name = "kube-api-access-bcdfg" if token_volume else ""
    assert all(cache.get(snapshot, key_of(number, 2_200), name) is not None for number in range(200))
    assert cache.size < taken < 1.3 * cache.size


TOKEN_VOLUME = re.compile(r"kube-api-access-\w{5}")
EXAMPLES = ("stable", "canary")
RENDERS_VALUES = ("istio-1.4", "istio-1.5")
"""Their templates call ``render``, whose text could call any function; their answers are not cached."""


@cache
def revision_of(name: str) -> Revision:
    """A shipped revision by its name, or that of a control plane."""
    if name in EXAMPLES:
        return build(next(raw for raw in read_directory(EMBEDDED).revisions if raw.name == name))
    return controlplanes.revision_of(name)


def pod_of(body: bytes) -> dict[str, Any]:
    pod: dict[str, Any] = json.loads(body)["request"]["object"]
    return pod


def token_volumes(value: Any) -> set[str]:
    return set(TOKEN_VOLUME.findall(json.dumps(value)))


def injected(revision: Revision, body: bytes) -> Any:
    """The pod of a review after the patch of a pipeline that sees the pod as the API server sent it."""
    result = inject_pod(revision, pod_of(body), RequestFacts(json.loads(body)["request"]["namespace"]))
    assert isinstance(result, Injected)
    return jsonpatch.apply_patch(pod_of(body), result.patch)


def test_the_recording_has_what_makes_replicas_differ() -> None:
    replicas = [json.loads(body)["request"] for body in recorded("deployment")]
    times = {entry["time"] for request in replicas for entry in request["object"]["metadata"]["managedFields"]}

    assert len(replicas) == 6
    assert len({request["uid"] for request in replicas}) == 6
    assert len(set.union(*(token_volumes(request["object"]) for request in replicas))) == 6
    assert len(times) >= 3, "the steps of the Deployment were within one second"
    assert [json.loads(body)["request"]["dryRun"] for body in recorded("dry-run")] == [True]


def test_after_a_changed_proxy_config_the_cache_does_not_answer(tmp_path: Path) -> None:
    config = CONFIG.replace("{{ .Values.global.tag }}", "{{ index .ProxyConfig.ProxyMetadata `A` | default `0` }}")
    write_revision(tmp_path / "default", config, VALUES)
    (body, *_) = recorded("deployment")
    metadata = {"name": "a", "namespace": json.loads(body)["request"]["namespace"]}
    registry, images = Registry(), []
    loader = Loader(lambda: read_directory(tmp_path), registry)
    handler = InjectHandler(registry, Metrics(CollectorRegistry()), Lifecycle())

    for value in ("1", "1", "2"):
        spec = {"environmentVariables": {"A": value}}
        resource = {
            "apiVersion": "networking.istio.io/v1beta1",
            "kind": "ProxyConfig",
            "metadata": metadata,
            "spec": spec,
        }
        (tmp_path / "proxyconfigs.yaml").write_text(json.dumps(resource))
        loader.load(1.0)
        pod = patched(pod_of(body), response_of(handler, PATH, body))
        images.append(proxy_of(pod)["image"])

    assert (images, handler.cache.hits) == (["proxy:1", "proxy:1", "proxy:2"], 1)


def test_a_dry_run_is_answered_as_the_creation_after_it() -> None:
    revision = revision_of("stable")
    handler = handler_of(revision)
    (dry,), (real,) = recorded("dry-run"), recorded("pod")

    answers = [patched(pod_of(body), response_of(handler, "/inject/stable", body)) for body in (dry, real, dry)]

    assert handler.cache.hits == 1
    assert answers == [injected(revision, dry), injected(revision, real), injected(revision, dry)]


@pytest.mark.parametrize(
    ("transformed", "is_cached"),
    [
        ("{{ toJson .Spec | sha256sum }}", False),
        ("{{ regexMatch `access-[0-9]` (printf `%v` .Spec) }}", False),
        ("{{ range .Spec.Volumes }}{{ .Name | upper }}{{ end }}", False),
        ("{{ range .Spec.Volumes }}{{ .Name | b64enc }}{{ end }}", False),
        ("{{ range .Spec.Volumes }}{{ .Name | trunc -1 }}{{ end }}", False),
        ("{{ range .Spec.Volumes }}{{ hasPrefix `kube-api-access-b` .Name }}{{ end }}", False),
        ("{{ range .Spec.Volumes }}{{ if .Projected }}{{ eq (substr 16 17 .Name) `b` }}{{ end }}{{ end }}", False),
        ("{{ range .Spec.Volumes }}{{ if .Projected }}{{ index .Name 16 }}{{ end }}{{ end }}", False),
        ("{{ range .Spec.Volumes }}{{ regexMatch `access-[0-9]` .Name }}{{ end }}", False),
        ("{{ range .Spec.Volumes }}{{ if gt .Name `kube-api-access-n` }}late{{ end }}{{ end }}", False),
        ("{{ range .Spec.Volumes }}{{ range splitList `` .Name }}{{ eq . `9` }}{{ end }}{{ end }}", False),
        ("{{ range .Spec.Volumes }}{{ .Name }} {{ end }}", False),
        ("{{ range .Spec.Volumes }}{{ printf `%v` . | len }}{{ end }}", False),
        ("{{ range .Spec.Containers }}{{ range .VolumeMounts }}{{ hasSuffix `2` .Name }}{{ end }}{{ end }}", False),
        ("{{ range .Spec.Containers }}{{ toYaml . | contains `access-2` }}{{ end }}", False),
        ("{{ range .Spec.Containers }}{{ .Name }}{{ end }} {{ len .Spec.Volumes }}", True),
        ("{{ range .Spec.Volumes }}{{ if .Projected }}projected{{ end }}{{ end }}", True),
    ],
)
def test_a_transformed_name_of_the_token_volume_is_that_of_each_pod(
    tmp_path: Path, transformed: str, is_cached: bool
) -> None:
    check_each_name(tmp_path, transformed.replace("`", '"'), is_cached=is_cached)


@pytest.mark.parametrize(
    ("transformed", "is_cached"),
    [
        ("{% for v in pod.spec.volumes %}{{ v.name | upper }}{% endfor %}", False),
        ("{% for v in pod.spec.volumes %}{{ v.name }}{% endfor %}", False),
        ('{% for v in pod.spec.volumes  if v.projected is defined %}{{ v.name[16] == "b" }}{% endfor %}', False),
        ('{% for v in pod.spec.volumes if v.name is string and v.name[-1] == "2" %}two{% endfor %}', False),
        ('{% for v in pod.spec.volumes %}{{ "b" in v.name }}{% endfor %}', False),
        ('{{ pod.spec.volumes | selectattr("name", "equalto", "kube-api-access-bcdfg") | list | length }}', False),
        ('{{ pod.spec.volumes | map(attribute="name") | join | length > 99 }}', False),
        ('{{ "access-2" in (pod.spec | tojson) }}', False),
        ('{{ "access-2" in (containers | string) }}', False),
        ('{{ containers | map(attribute="name") | join }} {{ pod.spec.volumes | length }}', True),
    ],
)
def test_a_name_that_a_jinja2_template_reads_is_that_of_each_pod(
    tmp_path: Path, transformed: str, is_cached: bool
) -> None:
    check_each_name(tmp_path, transformed, is_cached=is_cached, engine="jinja2")


def check_each_name(tmp_path: Path, transformed: str, *, is_cached: bool, engine: str = "go") -> None:
    """Check that the answers for the pods of a Deployment are those of the pipeline, and whether some are cached."""
    config = (
        f"policy: enabled\ntemplates:\n  sidecar: |\n    metadata:\n      annotations:\n        a: '{transformed}'\n"
    )
    folder = write_revision(tmp_path / "default", config, VALUES)
    (folder / "revision.yaml").write_text(f"engine: {engine}\n")
    (raw,) = read_directory(tmp_path).revisions
    revision, bodies = build(raw), recorded("deployment")
    handler = handler_of(revision)

    for body in (*bodies, *bodies):
        assert patched(pod_of(body), response_of(handler, PATH, body)) == injected(revision, body)

    assert (handler.cache.hits > 0) is is_cached


@pytest.mark.parametrize("name", [*EXAMPLES, *controlplanes.parameters(corpus.MINORS)])
def test_each_answer_gives_the_pod_that_a_fresh_pipeline_gives(name: str) -> None:
    revision = revision_of(name)
    handler = handler_of(revision)
    bodies = [body for name in NAMES for body in recorded(name)]

    for body in (*bodies, *bodies):
        response = response_of(handler, f"/inject/{revision.name}", body)
        pod = patched(pod_of(body), response)
        assert response["uid"] == json.loads(body)["request"]["uid"]
        assert pod == injected(revision, body)
        assert token_volumes(pod) == token_volumes(pod_of(body)), "the name of another pod's token volume"

    # In the first pass, 4 of 6 pods of the Deployment: the second one confirms the answer for other names of the token volume.
    assert handler.cache.hits == (0 if name in RENDERS_VALUES else len(bodies) + 4)
