from __future__ import annotations

from itertools import pairwise

import pytest

from injector.istio.minor import NEWEST, OLDEST, Minor
from injector.istio.podfields import missing_fields
from injector.kube.schema import struct_type


@pytest.mark.parametrize(
    ("struct", "field", "first"),
    [
        ("v1.Container", "startupProbe", (1, 4)),
        ("v1.Container", "restartPolicy", (1, 19)),
        ("v1.Probe", "grpc", (1, 13)),
        ("v1.PodSpec", "topologySpreadConstraints", (1, 4)),
        ("v1.PodSecurityContext", "seccompProfile", (1, 8)),
    ],
)
def test_a_field_is_missing_up_to_the_minor_whose_kubernetes_has_it(struct: str, field: str, first: Minor) -> None:
    assert (struct, field) in missing_fields((1, first[1] - 1))
    assert (struct, field) not in missing_fields(first)


def test_the_newest_minor_misses_nothing_and_an_older_one_all_that_a_newer_does() -> None:
    minors = [(1, number) for number in range(OLDEST[1], NEWEST[1] + 1)]

    assert missing_fields(NEWEST) == frozenset()
    assert all(missing_fields(newer) <= missing_fields(older) for older, newer in pairwise(minors))


def test_every_field_is_one_of_kubernetes() -> None:
    assert [name for name in missing_fields(OLDEST) if struct_type(name[0]).json_field(name[1]) is None] == []
