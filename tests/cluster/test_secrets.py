"""Secrets in a cluster: read, created and replaced."""

from __future__ import annotations

import pytest

from injector.cluster.resources import SECRETS
from injector.cluster.secrets import SecretStore
from injector.errors import ClusterError
from tests.cluster.fakeapi import FakeApi, refusal

KEY = (SECRETS.plural, "mesh", "injector-ca")


@pytest.fixture
def api() -> FakeApi:
    return FakeApi()


@pytest.fixture
def store(api: FakeApi) -> SecretStore:
    return SecretStore(api, "mesh", "injector-ca")


async def test_a_missing_secret_is_created(api: FakeApi, store: SecretStore) -> None:
    before = await store.read()
    await store.write({"a": "eA=="}, before)

    assert before is None
    stored = api.objects[KEY]
    assert (stored["type"], stored["data"]) == ("Opaque", {"a": "eA=="})
    assert str(store) == "Secret mesh/injector-ca"


async def test_a_replaced_secret_keeps_its_labels_and_type(api: FakeApi, store: SecretStore) -> None:
    labelled = {"name": "injector-ca", "namespace": "mesh", "labels": {"a": "b"}}
    api.put(SECRETS, {"metadata": labelled, "type": "example.com/ca"})

    before = await store.read()
    await store.write({"a": "eA=="}, before)

    assert before is not None
    assert "data" not in before
    stored = api.objects[KEY]
    assert (stored["type"], stored["metadata"]["labels"], stored["data"]) == (
        "example.com/ca",
        {"a": "b"},
        {"a": "eA=="},
    )


async def test_the_second_of_two_writes_is_a_conflict(store: SecretStore) -> None:
    created = await store.read()
    await store.write({"a": "eA=="}, created)
    changed = await store.read()
    await store.write({"a": "eQ=="}, changed)

    for before in (created, changed):
        with pytest.raises(ClusterError) as caught:
            await store.write({"a": "eg=="}, before)
        assert caught.value.reason == "conflict"


async def test_a_refusal_is_passed_on(api: FakeApi, store: SecretStore) -> None:
    api.fault = refusal("forbidden", 403)

    with pytest.raises(ClusterError, match="told forbidden"):
        await store.read()
