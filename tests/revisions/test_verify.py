"""A revision is verified with built-in and recent pods before it is served."""

from __future__ import annotations

from typing import Any

import pytest

from injector.errors import ConfigError, DataError
from injector.injection.pipeline import inject_pod
from injector.injection.result import Injected, RequestFacts, Skipped
from injector.istio.revision import Revision
from injector.revisions.source import build
from injector.revisions.verify import BUILT_IN_PODS, NAMESPACE, RecentPods, Verified, verify, verify_recent
from tests.cases import cases
from tests.factories import owner_of
from tests.revisions.fakes import CONFIG, make_raw, recent_pods


def test_a_revision_that_renders_every_built_in_pod_is_good() -> None:
    assert verify(build(make_raw())) == Verified()


@pytest.mark.parametrize("name", BUILT_IN_PODS)
def test_every_built_in_pod_is_really_injected(name: str) -> None:
    result = inject_pod(build(make_raw()), BUILT_IN_PODS[name], RequestFacts(namespace=NAMESPACE))

    assert isinstance(result, Injected)


def test_a_template_that_parses_but_runs_on_no_built_in_pod_is_a_warning() -> None:
    verified = verify(build(make_raw(config=CONFIG.replace(".Values.global.tag", "(index .Spec.Containers 99).Name"))))

    assert list(verified.failed) == ["plain", "probes"]
    assert verified.failed["plain"].startswith("template: sidecar:4:")


def test_a_template_that_renders_no_pod_is_found() -> None:
    with pytest.raises(DataError, match="the rendered text is not a mapping"):
        verify(build(make_raw(config="{policy: enabled, templates: {sidecar: 'just text'}}")))


def test_pods_that_are_left_alone_are_a_note() -> None:
    (note,) = verify(build(make_raw(config=CONFIG.replace("policy: enabled", "policy: perhaps")))).notes

    assert note.startswith("illegal_policy: ")


def test_a_template_that_makes_built_in_pods_invalid_is_a_warning() -> None:
    verified = verify(build(make_raw(config=f"{CONFIG}      - name: extra\n")))

    assert verified.failed["plain"].startswith(
        "spec.containers[extra].image: Required value: the API server would refuse"
    )


def test_a_mounted_volume_that_built_in_pods_lack_is_a_note() -> None:
    mounts = "        volumeMounts: [{name: logs, mountPath: /logs}]\n"

    (note,) = verify(build(make_raw(config=CONFIG + mounts))).notes

    assert note.startswith("other pods must have volumes that built-in pods lack: spec.containers[istio-proxy].volume")


RECENT = recent_pods("a", labels={"tier": "s3cr3t"})["a"]
LABEL = "(index .ObjectMeta.Labels `tier`)"


def built(image: str = "v1", *, policy: str = "enabled") -> Revision:
    """A revision whose proxy has an image."""
    config = CONFIG.replace("{{ .Values.global.tag }}", image).replace("policy: enabled", f"policy: {policy}")
    return build(make_raw("a", config=config))


def test_a_build_that_injects_the_last_pods_is_good() -> None:
    assert verify_recent(built("v2"), built(), RECENT) == ()


def test_a_build_that_fails_on_an_injected_pod_is_refused_with_its_names() -> None:
    fails = built(f'{{{{ fail (printf "no %s" {LABEL}) }}}}')

    with pytest.raises(ConfigError) as caught:
        verify_recent(fails, built(), RECENT)

    message = str(caught.value)
    assert message.startswith("revisions/a: it fails on the pod of StatefulSet db in namespace shop, which ")
    assert "(ExecError at line 4 of template sidecar)" in message
    assert "s3cr3t" not in message


def test_a_build_that_makes_an_injected_pod_invalid_is_refused_with_the_place() -> None:
    clash = build(make_raw("a", config=f"{CONFIG}      - name: app\n        image: second\n        ports: [{{}}]\n"))

    with pytest.raises(ConfigError, match=r"\(InvalidPodError at spec\.containers\[app\]\.ports"):
        verify_recent(clash, built(), RECENT)


def test_a_pod_that_is_refused_for_its_own_annotation_is_a_note() -> None:
    """Istio 1.27 validates the proxy's resources, and 1.26 does not: the pod's author has to correct it."""
    pods = recent_pods(annotations={"sidecar.istio.io/proxyCPU": "s3cr3t"})["a"]

    new, old = (build(make_raw("a", settings={"istioVersion": version})) for version in ("1.27", "1.26"))

    notes = verify_recent(new, old, pods)

    assert notes == (
        "it refuses the pod of StatefulSet db in namespace shop, which was injected before: AnnotationError",
    )


def test_a_pod_that_the_current_build_fails_on_does_not_count() -> None:
    assert verify_recent(built("{{ fail `a` }}"), built("{{ fail `b` }}"), RECENT) == ()


def test_a_fault_of_the_injector_on_such_a_pod_refuses_the_build_too(monkeypatch: pytest.MonkeyPatch) -> None:
    good, bad = built(), built("v2")

    def inject(revision: Revision, pod: dict[str, Any], facts: RequestFacts) -> Injected | Skipped:
        if revision is bad:
            raise KeyError("s3cr3t")
        return inject_pod(revision, pod, facts)

    monkeypatch.setattr("injector.revisions.verify.inject_pod", inject)

    with pytest.raises(ConfigError, match=r"\(KeyError\)") as caught:
        verify_recent(bad, good, RECENT)
    assert "s3cr3t" not in str(caught.value)


def test_a_pod_that_a_build_would_leave_alone_is_a_note() -> None:
    assert verify_recent(built(policy="disabled"), built(), RECENT) == (
        "it leaves the pod of StatefulSet db in namespace shop alone, which was injected before: policy_disabled",
    )


def meta_of(name: str, kind: str = "StatefulSet") -> dict[str, Any]:
    """The metadata of a pod that a workload made."""
    return {"generateName": f"{name}-", "ownerReferences": [owner_of(name, kind)]}


def keep(recent: RecentPods, name: str, review: bytes = b"{}", *, revision: str = "a", namespace: str = "shop") -> None:
    """Keep a pod of the workload ``name``."""
    recent.keep(revision, review, pod={"metadata": meta_of(name)}, namespace=namespace, envs={})


def stored(recent: RecentPods, revision: str = "a") -> list[tuple[str, str, bytes]]:
    """The stored pods of a revision."""
    return [(pod.namespace, pod.owner, pod.review) for pod in recent.snapshot().get(revision, ())]


def test_the_last_of_each_workload_are_kept_by_revision() -> None:
    recent = RecentPods()

    keep(recent, "db", b"1")
    keep(recent, "web", b"2")
    keep(recent, "db", b"3")
    keep(recent, "db", b"4", namespace="test")
    keep(recent, "db", b"5", revision="b")

    assert stored(recent) == [
        ("shop", "StatefulSet web", b"2"),
        ("shop", "StatefulSet db", b"3"),
        ("test", "StatefulSet db", b"4"),
    ]
    assert stored(recent, "b") == [("shop", "StatefulSet db", b"5")]


def test_the_number_of_pods_is_bounded() -> None:
    recent = RecentPods()

    for number in range(100):
        keep(recent, f"w{number}")

    assert [owner for _, owner, _ in stored(recent)] == [f"StatefulSet w{96 + i}" for i in range(4)]


@pytest.mark.parametrize(("size", "count"), [(2**16, 1), (2**16 + 1, 0)])
def test_a_large_review_is_not_kept(size: int, count: int) -> None:
    recent = RecentPods()

    keep(recent, "db", b" " * size)

    assert len(stored(recent)) == count


def test_a_snapshot_does_not_change_with_what_comes() -> None:
    recent = RecentPods()
    keep(recent, "db")

    snapshot = recent.snapshot()
    keep(recent, "web")

    assert len(snapshot["a"]) == 1


def test_the_pods_of_revisions_that_are_gone_are_forgotten() -> None:
    recent = RecentPods()
    keep(recent, "db")
    keep(recent, "db", revision="b")

    recent.forget_others(["b", "c"])

    assert list(recent.snapshot()) == ["b"]


@cases("pod", "named")
def test_a_pod_is_named_by_its_owner_on_one_line(pod: dict[str, Any], named: str) -> None:
    recent = RecentPods()

    recent.keep("a", b"{}", pod=pod, namespace="shop", envs={})

    assert [str(text) for text in recent.snapshot()["a"]] == [named]


def test_a_pod_is_forgotten_some_time_after_the_last_admission_of_its_workload() -> None:
    now = 0.0
    recent = RecentPods(clock=lambda: now)
    keep(recent, "old", b"1")
    keep(recent, "new", b"2")

    now = 1800.0
    keep(recent, "new", b"3")
    now = 3600.0

    assert stored(recent) == [("shop", "StatefulSet new", b"3")]
