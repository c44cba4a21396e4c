"""The defaults that the API server sets in a pod."""

from __future__ import annotations

from typing import Any

from injector.injection.tools.drift import with_container_defaults, with_volume_defaults
from injector.kube.typed import normalise
from tests.cases import cases

# What a kube-apiserver 1.35 returned for such a container.
ALWAYS = {
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
    "imagePullPolicy": "IfNotPresent",
}


def with_defaults(**fields: Any) -> dict[str, Any]:
    """What the defaults make of a container, without those that every one gets."""
    result = with_container_defaults(normalise({"name": "a", "image": "a:1", **fields}, "v1.Container"))
    assert {key: result[key] for key in ALWAYS} == ALWAYS
    return {key: value for key, value in result.items() if key not in {*ALWAYS, "name", "image"}}


@cases("container", "expected")
def test_a_container_is_as_the_api_server_keeps_it(container: dict[str, Any], expected: dict[str, Any]) -> None:
    assert with_defaults(**container) == expected


@cases("image", "policy")
def test_an_image_whose_tag_may_move_is_always_pulled(image: str, policy: str) -> None:
    assert with_container_defaults({"name": "a", "image": image})["imagePullPolicy"] == policy


@cases("volume", "expected")
def test_a_volume_is_as_the_api_server_keeps_it(volume: dict[str, Any], expected: dict[str, Any]) -> None:
    assert with_volume_defaults(normalise({"name": "v", **volume}, "v1.Volume")) == {"name": "v", **expected}
