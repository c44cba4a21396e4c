"""References of images, with the answers of Go's package reference."""

from __future__ import annotations

import pytest

from injector.kube.images import reference_fault

DIGEST = "sha256:" + "0123456789abcdef" * 4


@pytest.mark.parametrize(
    "image",
    [
        "proxyv2",
        "istio/proxyv2:1.30.3",
        "docker.io/istio/proxyv2:1.30.3-distroless",
        "registry.example.com:5000/mesh/proxyv2:1.30",
        f"istio/proxyv2@{DIGEST}",
        f"istio/proxyv2:1.30@{DIGEST}",
        "localhost/proxyv2:a_b.c-D",
        "LOCALHOST/proxyv2",
        "[::1]:5000/a/b",
        "a__b/c--d/e.f:1",
        "gcr.io/istio-testing/proxyv2:latest",
        "a" * 255,
    ],
)
def test_a_reference_is_valid(image: str) -> None:
    assert reference_fault(image) == ""


@pytest.mark.parametrize(
    ("image", "fault"),
    [
        ("https://registry.example.com/istio/proxyv2:1.30", "it is a URL"),
        (f"istio/registry.example.com:5000/mesh/proxyv2@{DIGEST}:1.30.3", "it has a tag after the digest"),
        ("istio/registry.example.com:5000/mesh/proxyv2:1.30.3", "it has two tags"),
        ("istio/proxyv2:1.30:1.30.3", "it has two tags"),
        ("istio//proxyv2:1.30", "a part of its path is empty"),
        ("/proxyv2:1.30", "a part of its path is empty"),
        ("istio/:1.30", "a part of its path is empty"),
        ("istio/proxyv2:", "the tag is empty"),
        ("istio/proxyv2:1.30+build", "'1.30+build' is not a tag"),
        ("istio/proxyv2:map[a:1]", "'1]' is not a tag"),
        ("istio/ProxyV2:1.30", "'ProxyV2' has letters in upper case"),
        ("istio/proxy v2:1.30", "'proxy v2' is not a part of a path"),
        ("istio/proxyv2@sha256:12", "'sha256:12' is not a digest"),
        ("-a.example.com/b", "'-a.example.com' is not a registry"),
        ("istio/proxy_-v2", "'proxy_-v2' is not a part of a path"),
        ("<no value>/proxyv2:1.30", "'<no value>' is not a part of a path"),
        ("a" * 256, "its name has more than 255 characters"),
    ],
)
def test_a_reference_is_not_valid(image: str, fault: str) -> None:
    assert reference_fault(image) == fault
