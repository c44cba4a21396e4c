from __future__ import annotations

import pytest

from injector.errors import DataError
from injector.injection.pipeline import inject_pod
from injector.injection.result import Injected, RequestFacts
from injector.revisions.build import build
from injector.revisions.verify import BUILT_IN_PODS, NAMESPACE, verify
from tests.revisions.fakes import CONFIG, make_raw


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
