from __future__ import annotations

import pytest

from injector.injection.data import native_sidecar
from injector.istio.revision import Revision, RevisionSettings, build_revision

FEATURE = "ENABLE_NATIVE_SIDECARS"
CONFIG = "{policy: enabled, templates: {sidecar: ''}}"


def _revision(version: str, mode: str | None, *nodes: str) -> Revision:
    env = {} if mode is None else {FEATURE: mode}
    settings = RevisionSettings(istio_version=version, env=env, node_versions=nodes)
    return build_revision("default", config=CONFIG, values=None, mesh=None, settings=settings, origin="test")


@pytest.mark.parametrize(
    ("version", "mode", "nodes", "expected"),
    [
        ("1.30", "true", (), True),
        ("1.30", "true", ("v1.20.0",), True),
        ("1.30", "false", ("v1.34.0",), False),
        ("1.30", "nonsense", ("v1.34.0",), False),
        ("1.30", "auto", ("v1.34.0",), True),
        ("1.30", None, ("v1.34.0",), True),
        ("1.30", None, ("v1.32.9",), False),
        ("1.27", None, ("v1.33.0",), True),
        ("1.26", None, ("v1.34.0",), False),
        ("1.26", "true", (), True),
        ("1.26", "TRUE", (), True),
        ("1.26", "1", (), True),
        ("1.26", "false", (), False),
        ("1.26", "auto", ("v1.34.0",), False),
        ("1.19", None, (), False),
    ],
)
def test_the_feature_decides_and_auto_asks_the_nodes_since_1_27(
    version: str, mode: str | None, nodes: tuple[str, ...], expected: bool
) -> None:
    assert native_sidecar(_revision(version, mode, *nodes)) is expected


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        (("v1.33.0", "v1.34.1"), True),
        (("v1.34.1", "v1.32.0"), False),
        (("v1.32.0", "v1.34.1"), False),
        (("v1.34.1", "unknown"), False),
    ],
)
def test_one_node_that_is_too_old_turns_it_off_for_all(nodes: tuple[str, ...], expected: bool) -> None:
    assert native_sidecar(_revision("1.30", "auto", *nodes)) is expected


def test_with_no_cluster_to_ask_auto_is_off() -> None:
    assert not native_sidecar(_revision("1.30", "auto"))


@pytest.mark.parametrize(
    ("kubelet", "expected"),
    [
        ("v1.33.0", True),
        ("1.33.0", True),
        ("v1.33", True),
        ("v1.100.2", True),
        ("v1.33.4-gke.1036000", True),
        ("v1.33.1-eks-113cf36", True),
        ("v1.33.2+k3s1", True),
        ("v1.33.0-beta.1", True),
        ("v1.9.33", False),
        ("v1.32.33", False),
        ("v1.32.1+k3s33", False),
        ("v2.0.0", False),
        ("v1", False),
        ("", False),
        ("kubelet v1.33.0", False),
    ],
)
def test_a_kubelet_supports_native_sidecars_from_1_33_on(kubelet: str, expected: bool) -> None:
    assert native_sidecar(_revision("1.30", "auto", kubelet)) is expected
