"""The page as a browser shows it: whether people can read it, and whether the picture shows what the table says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from injector.errors import ConfigError
from injector.revisions.reload import LoadReport, RevisionState
from injector.webhook.app import operations_app
from tests.revisions.fakes import fake_revision
from tests.webhook.canary import Cluster
from tests.webhook.chromium import EXECUTABLE, Page, browsing

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from aiohttp import web
    from aiohttp.test_utils import TestServer

    from injector.revisions.reload import Loader
    from injector.webhook.health import Operations

    ServerFactory = Callable[[web.Application], Awaitable[TestServer]]

pytestmark = pytest.mark.skipif(EXECUTABLE is None, reason="chromium is not installed")

FAULTS = (Path(__file__).parent / "accessibility.js").read_text()
WIDTHS = (1280, 390, 320)
"""A desk, a phone, and a desk at 400 %."""


@pytest.fixture(scope="module")
def cluster() -> Cluster:
    """Two hours of a canary upgrade."""
    cluster = Cluster()
    cluster.passes(7300)
    return cluster


@pytest.fixture
async def page() -> AsyncIterator[Page]:
    """A tab."""
    async with browsing() as page:
        yield page


async def address(aiohttp_server: ServerFactory, operations: Operations) -> str:
    """Where the status of an injector is."""
    return str((await aiohttp_server(operations_app(operations))).make_url("/status"))


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_nobody_is_shut_out(aiohttp_server: ServerFactory, cluster: Cluster, page: Page, scheme: str) -> None:
    url = await address(aiohttp_server, cluster.operations())

    for width in WIDTHS:
        for query in ("", "?window=10m"):
            await page.open(url + query, width=width, scheme=scheme)
            await page.value("document.querySelectorAll('details').forEach((each) => { each.open = true; })")

            assert (width, query, await page.value(FAULTS)) == (width, query, [])
            assert await page.complaints() == []


async def test_with_nothing_to_show_nobody_is_shut_out(aiohttp_server: ServerFactory, page: Page) -> None:
    cluster = Cluster(tags="prod: {1-24: 90, 1-30: 10}")
    await page.open(await address(aiohttp_server, cluster.operations()), width=320)

    assert await page.value(FAULTS.replace('querySelector("svg.chart")', 'querySelector("article")')) == []
    assert "No admissions in the last 2 hours." in await page.value("document.body.innerText")


BREAKS = [
    ("document.documentElement.lang = ''", "lang"),
    ("document.title = ''", "title"),
    ("document.querySelector('h2').outerHTML = '<h4>Tags</h4>'", "heading"),
    ("document.body.append(document.querySelector('article'))", "landmark"),
    ("document.querySelector('footer').remove()", "one body > footer"),
    ("document.querySelector('th').removeAttribute('scope')", "table header"),
    ("document.querySelector('tbody th').remove()", "row header"),
    ("document.querySelector('svg.chart').removeAttribute('aria-labelledby')", "picture name"),
    ("document.querySelector('details').remove()", "picture as a table"),
    ("document.querySelector('#p2').innerHTML = document.querySelector('#p0').innerHTML", "patterns"),
    ("document.querySelector('svg.chart rect').setAttribute('fill', 'red')", "fill"),
    ("document.querySelector('nav a').textContent = ''", "link text"),
    ("document.querySelector('section > .wide').removeAttribute('tabindex')", "scrolls"),
    ("document.querySelector('dd').style.color = '#999'", "contrast"),
    ("document.querySelector('.tick').style.fill = '#aaa'", "contrast"),
    ("document.documentElement.style.setProperty('--s1', '#fed')", "graphic contrast"),
    ("document.querySelector('h3').style.width = '200rem'", "page as wide"),
]
"""What a page could have wrong, and what the fault is called."""


async def test_each_fault_would_be_noticed(aiohttp_server: ServerFactory, cluster: Cluster, page: Page) -> None:
    url = await address(aiohttp_server, cluster.operations())
    unnoticed = []
    for breaks, fault in BREAKS:
        await page.open(url)
        await page.value(f"{breaks}; 0")
        if not any(each.startswith(fault) for each in await page.value(FAULTS)):
            unnoticed.append(breaks)

    assert unnoticed == []


FOCUS = """
(({activeElement: node}) => [node.tagName, getComputedStyle(node).outlineStyle, node.getBoundingClientRect().height > 0])(document)
"""


async def test_all_of_it_can_be_reached_by_keyboard_and_is_seen_to_be(
    aiohttp_server: ServerFactory, cluster: Cluster, page: Page
) -> None:
    await page.open(await address(aiohttp_server, cluster.operations()))

    reached = []
    for _ in range(10):
        await page.press("Tab")
        reached.append(await page.value(FOCUS))

    # Both spans of time, the tables of both charts, those of tags (with the last differences), revisions and requests,
    # and the links below.
    order = ["A", "A", "SUMMARY", "SUMMARY", "DIV", "SUMMARY", "DIV", "DIV", "A", "A"]
    assert reached == [[tag, "solid", True] for tag in order]


COLUMNS = """
[...document.querySelectorAll("svg.chart")].map((chart) => {
  const plot = chart.querySelector("svg"), box = plot.querySelector(".axis").getBoundingClientRect();
  const height = plot.getAttribute("height");
  return [...plot.querySelectorAll("g")].map((group) => [...group.querySelectorAll("rect")].map((each) => {
    const part = each.getBoundingClientRect();
    return {share: 100 * part.height / height, left: part.left, right: part.right, fill: each.getAttribute("fill")};
  }));
})
"""
ROWS = """
[...document.querySelectorAll("details table")].filter((each) => each.closest("article")).map((table) =>
  [...table.tBodies[0].rows].map((row) => [...row.cells].slice(1, -2).map((cell) => parseFloat(cell.textContent))))
"""


async def test_the_picture_shows_what_its_table_says(
    aiohttp_server: ServerFactory, cluster: Cluster, page: Page
) -> None:
    await page.open(await address(aiohttp_server, cluster.operations()))
    await page.value("document.querySelectorAll('details').forEach((each) => { each.open = true; })")

    charts: list[list[list[dict[str, Any]]]] = await page.value(COLUMNS)
    tables: list[list[list[float]]] = await page.value(ROWS)
    right = await page.value("document.querySelector('svg.chart').getBoundingClientRect().right")

    assert [len(columns) for columns in charts] == [60, 60]
    for columns, rows in zip(charts, tables, strict=True):
        for column, row in zip(columns, reversed(rows), strict=True):
            assert [part["share"] for part in column] == pytest.approx([share for share in row if share], abs=0.6)
        lefts = [column[0]["left"] for column in columns]
        assert lefts == sorted(lefts)
        assert columns[-1][0]["right"] == pytest.approx(right, abs=4)
    old_and_new = charts[0][-1]
    assert [part["fill"] for part in old_and_new] == ["url(#p0)", "url(#p1)"]


async def test_the_share_of_the_new_revision_follows_its_weight(
    aiohttp_server: ServerFactory, cluster: Cluster, page: Page
) -> None:
    await page.open(await address(aiohttp_server, cluster.operations()))
    await page.value("document.querySelectorAll('details').forEach((each) => { each.open = true; })")

    new = [row[1] for row in reversed((await page.value(ROWS))[0])]

    # Weights 0, 5, 10, 25 and 50 percent, each in a part of the two hours of its own.
    parts = [new[:8], new[10:22], new[24:37], new[39:48], new[50:]]
    means = [sum(part) / len(part) for part in parts]
    assert means == pytest.approx([0, 5, 10, 25, 50], abs=8)
    assert means == sorted(means)


async def test_hostile_and_endless_texts_stay_texts_and_within_the_page(
    aiohttp_server: ServerFactory, page: Page
) -> None:
    hostile = "<img src=x onerror=window.hacked=1><script>window.hacked=1</script>\"'" + "x" * 300
    cluster = Cluster()
    for name in (hostile, "r" * 63):
        cluster.answer("canary", name, "web")
    cluster.passes(600)
    revision = fake_revision(hostile, fingerprint=hostile)
    states = {
        hostile: RevisionState(hostile, revision, ConfigError(hostile, where=hostile), 1.0, (hostile,)),
        "r" * 63: RevisionState("r" * 63, fake_revision("r" * 63)),
    }
    report = LoadReport(states, (ConfigError(hostile),), ConfigError(hostile), at=1.0)
    operations = replace(cluster.operations(), loader=cast("Loader", SimpleNamespace(report=report)))
    url = await address(aiohttp_server, operations)

    for width in WIDTHS:
        await page.open(url, width=width)
        await page.value("document.querySelectorAll('details').forEach((each) => { each.open = true; })")

        assert await page.value("[window.hacked ?? 0, document.scripts.length, document.images.length]") == [0, 0, 0]
        assert (width, await page.value(FAULTS)) == (width, [])
        assert await page.complaints() == []
    assert hostile in await page.value("document.body.textContent")
