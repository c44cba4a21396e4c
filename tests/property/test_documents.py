"""``kube-inject`` of N documents gives what N runs of one document each give, in any order."""

from __future__ import annotations

import random

import pytest

from tests import controlplanes
from tests.property import documents
from tests.property.conftest import Apart
from tests.sizes import sized

ORDERS = sized(2, 3)
MOST = sized(6, 12)


@pytest.mark.parametrize("name", controlplanes.parameters())
def test_an_object_is_injected_as_if_it_was_the_only_one(apart: Apart, name: str) -> None:
    result = apart(documents.objects_together, name, f"objects {name}", ORDERS, MOST)

    assert result.faults == []
    assert result.injected > MOST
    assert result.compared > ORDERS * MOST


@pytest.mark.parametrize("name", ["stable", "canary"])
def test_the_command_prints_each_document_as_if_it_was_the_only_one(apart: Apart, name: str) -> None:
    workloads = documents.generated(random.Random(name), MOST)  # noqa: S311 -- nothing secret

    result = apart(documents.commands_together, ["--embedded", "--revision", name], name, workloads)

    assert result.faults == []
    assert result.injected > MOST / 2


@pytest.mark.parametrize("name", controlplanes.parameters(("1.14", "1.30")))
def test_with_a_control_plane_each_document_is_printed_as_if_it_was_alone(apart: Apart, name: str) -> None:
    dice = random.Random(name)  # noqa: S311 -- nothing secret
    workloads = [*dice.sample(controlplanes.documents(name), MOST // 2), *documents.generated(dice, MOST // 2)]

    result = apart(documents.installation_together, name, workloads)

    assert result.faults == []
    assert result.injected > MOST / 2
