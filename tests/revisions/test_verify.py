from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from injector.errors import ConfigError, DataError
from injector.injection.pipeline import inject_pod
from injector.injection.result import Injected, RequestFacts, Skipped
from injector.revisions.build import build
from injector.revisions.verify import BUILT_IN_PODS, NAMESPACE, verify, verify_recent
from tests.revisions.fakes import CONFIG, make_raw, recent_pods

if TYPE_CHECKING:
    from injector.istio.revision import Revision


def test_a_revision_that_renders_every_built_in_pod_is_good() -> None:
    assert verify(build(make_raw())) == ()


@pytest.mark.parametrize("name", BUILT_IN_PODS)
def test_every_built_in_pod_is_really_injected(name: str) -> None:
    result = inject_pod(build(make_raw()), BUILT_IN_PODS[name], RequestFacts(namespace=NAMESPACE))

    assert isinstance(result, Injected)


def test_a_template_that_parses_but_does_not_run_is_found() -> None:
    with pytest.raises(DataError):
        verify(build(make_raw(config=CONFIG.replace(".Values.global.tag", "(index .Spec.Containers 99).Name"))))


def test_a_template_that_renders_no_pod_is_found() -> None:
    with pytest.raises(DataError, match="the rendered text is not a mapping"):
        verify(build(make_raw(config="{policy: enabled, templates: {sidecar: 'just text'}}")))


def test_pods_that_are_left_alone_are_a_note() -> None:
    (note,) = verify(build(make_raw(config=CONFIG.replace("policy: enabled", "policy: perhaps"))))

    assert note.startswith("illegal_policy: ")


PODS = recent_pods("a", labels={"tier": "s3cr3t"})["a"]
LABEL = "(index .ObjectMeta.Labels `tier`)"


def built(image: str = "v1", *, policy: str = "enabled") -> Revision:
    """A revision whose proxy has an image."""
    config = CONFIG.replace("{{ .Values.global.tag }}", image).replace("policy: enabled", f"policy: {policy}")
    return build(make_raw("a", config=config))


def test_a_build_that_injects_the_last_pods_is_good() -> None:
    assert verify_recent(built("v2"), built(), PODS) == ()


def test_a_build_that_fails_on_a_pod_that_is_injected_now_is_refused_by_the_names_of_the_pod_alone() -> None:
    fails = built(f'{{{{ fail (printf "no %s" {LABEL}) }}}}')

    with pytest.raises(ConfigError) as caught:
        verify_recent(fails, built(), PODS)

    message = str(caught.value)
    assert message.startswith("revisions/a: it fails on the pod of StatefulSet db in namespace shop, which ")
    assert "(ExecError at line 4 of template sidecar)" in message
    assert "s3cr3t" not in message


def test_a_pod_that_is_refused_for_its_own_annotation_is_a_note() -> None:
    """Istio 1.27 validates the proxy's resources, and 1.26 does not: the pod's author has to correct it."""
    pods = recent_pods(annotations={"sidecar.istio.io/proxyCPU": "s3cr3t"})["a"]

    new, old = (build(make_raw("a", settings={"istioVersion": version})) for version in ("1.27", "1.26"))

    notes = verify_recent(new, old, pods)

    assert notes == (
        "it refuses the pod of StatefulSet db in namespace shop, which was injected before: AnnotationError",
    )


def test_a_build_that_fails_on_a_pod_that_fails_now_too_is_no_worse() -> None:
    assert verify_recent(built("{{ fail `a` }}"), built("{{ fail `b` }}"), PODS) == ()


def test_a_fault_of_the_injector_on_such_a_pod_refuses_the_build_too(monkeypatch: pytest.MonkeyPatch) -> None:
    good, bad = built(), built("v2")

    def inject(revision: Revision, pod: dict[str, Any], facts: RequestFacts) -> Injected | Skipped:
        if revision is bad:
            raise KeyError("s3cr3t")
        return inject_pod(revision, pod, facts)

    monkeypatch.setattr("injector.revisions.verify.inject_pod", inject)

    with pytest.raises(ConfigError, match=r"\(KeyError\)") as caught:
        verify_recent(bad, good, PODS)
    assert "s3cr3t" not in str(caught.value)


def test_a_pod_that_a_build_would_leave_alone_is_a_note() -> None:
    assert verify_recent(built(policy="disabled"), built(), PODS) == (
        "it leaves the pod of StatefulSet db in namespace shop alone, which was injected before: policy_disabled",
    )
