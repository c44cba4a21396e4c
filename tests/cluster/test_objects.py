from __future__ import annotations

import asyncio

import pytest

from injector.cluster.reader import NAMESPACES, PODS, Names, Scope, every, names
from injector.errors import ClusterError
from tests.cluster.objects import Objects


def pods(count: int) -> Objects:
    objects = Objects()
    objects.put(PODS, *({"metadata": {"name": f"p-{n}", "namespace": "a", "labels": {"x": "y"}}} for n in range(count)))
    return objects


def test_every_page_is_asked_for_and_labels_choose() -> None:
    objects = pods(5)
    objects.put(PODS, {"metadata": {"name": "other", "namespace": "a"}})

    async def read() -> list[str]:
        return [item["metadata"]["name"] async for item in every(objects, Scope(PODS, labels="x=y"))]

    assert asyncio.run(read()) == ["p-0", "p-1", "p-2", "p-3", "p-4"]
    assert objects.asked == ["list pods x=y"] * 3


def test_some_names_are_given_and_all_are_counted() -> None:
    assert asyncio.run(names(pods(5), Scope(PODS), most=3)) == Names(("a/p-0", "a/p-1", "a/p-2"), 5)
    assert asyncio.run(names(pods(0), Scope(PODS), most=3)) == Names((), 0)


def test_what_has_no_namespace_is_named_without() -> None:
    objects = Objects()
    objects.put(NAMESPACES, {"metadata": {"name": "bank"}})

    assert asyncio.run(names(objects, Scope(NAMESPACES), most=3)) == Names(("bank",), 1)


def test_a_list_that_is_refused_fails() -> None:
    objects = Objects(refused={"list pods": "forbidden"})

    with pytest.raises(ClusterError, match="says no"):
        asyncio.run(names(objects, Scope(PODS), most=3))
