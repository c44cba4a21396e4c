"""The page in a browser: accessibility, layout, and whether the bars agree with the figures."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from injector.errors import ConfigError
from injector.revisions.reload import Loader, LoadReport, RevisionState
from injector.webhook.status.operations import Operations, operations_app
from tests.revisions.fakes import fake_revision
from tests.webhook.canary import Cluster
from tests.webhook.chromium import EXECUTABLE, Page, browsing

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
        await page.open(url, width=width, scheme=scheme)
        await page.value("document.querySelectorAll('details').forEach((each) => { each.open = true; })")

        assert (width, await page.value(FAULTS)) == (width, [])
        assert await page.complaints() == []


async def test_with_nothing_to_show_nobody_is_shut_out(aiohttp_server: ServerFactory, page: Page) -> None:
    cluster = Cluster(tags="prod: {1-24: 90, 1-30: 10}")
    await page.open(await address(aiohttp_server, cluster.operations()), width=320)

    assert await page.value(FAULTS) == []


BREAKS = [
    ("document.documentElement.lang = ''", "lang"),
    ("document.title = ''", "title"),
    ("document.querySelector('h2').outerHTML = '<h4>Tags</h4>'", "heading"),
    ("document.body.append(document.querySelector('section'))", "landmark"),
    ("document.querySelector('footer').remove()", "one body > footer"),
    ("document.querySelector('th').removeAttribute('scope')", "table header"),
    ("document.querySelectorAll('tbody tr:first-child th').forEach((each) => each.remove())", "row header"),
    ("document.querySelector('footer a').textContent = ''", "link text"),
    ("document.querySelector('section > .wide').removeAttribute('tabindex')", "scrolls"),
    ("document.querySelector('svg.bar').removeAttribute('aria-hidden')", "picture name"),
    ("document.documentElement.style.setProperty('--part', '#fed')", "graphic contrast"),
    ("document.querySelector('dd').style.color = '#999'", "contrast"),
    ("document.querySelector('h2').style.width = '200rem'", "page as wide"),
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
    for _ in range(6):
        await page.press("Tab")
        reached.append(await page.value(FOCUS))

    # The tables of tags (with the last differences), revisions and requests, and the links of the footer.
    order = ["DIV", "SUMMARY", "DIV", "DIV", "A", "A"]
    assert reached == [[tag, "solid", True] for tag in order]


BARS = """
[...document.querySelectorAll("svg.bar")].map((bar) => {
  const all = bar.getBoundingClientRect().width, part = bar.querySelector(".part").getBoundingClientRect().width;
  return [parseFloat(bar.closest("td").textContent), 100 * part / all];
})
"""


async def test_the_bars_are_as_long_as_the_shares_beside_them(
    aiohttp_server: ServerFactory, cluster: Cluster, page: Page
) -> None:
    await page.open(await address(aiohttp_server, cluster.operations()))

    bars: list[tuple[float, float]] = await page.value(BARS)

    assert [length for _, length in bars] == pytest.approx([share for share, _ in bars], abs=0.6)
    old, new = bars[0][0], bars[1][0]
    # Weights of 0, 5, 10, 25 and 50 percent, each in a part of the two hours of its own.
    assert old + new == pytest.approx(100, abs=0.1)
    assert new == pytest.approx(17, abs=5)


async def test_hostile_and_endless_texts_stay_texts_and_within_the_page(
    aiohttp_server: ServerFactory, page: Page
) -> None:
    hostile = "<img src=x onerror=window.hacked=1><script>window.hacked=1</script>\"'" + "x" * 300
    cluster = Cluster()
    for name in (hostile, "r" * 63):
        cluster.answer("canary", name)
    cluster.passes(600)
    revision = fake_revision(hostile, fingerprint=hostile)
    states = {
        hostile: RevisionState(hostile, revision, ConfigError(hostile, where=hostile), 1.0, (hostile,)),
        "r" * 63: RevisionState("r" * 63, fake_revision("r" * 63)),
    }
    report = LoadReport(states, (ConfigError(hostile),), ConfigError(hostile), at=1.0)
    operations = cluster.operations()
    services = replace(operations.services, loader=cast("Loader", SimpleNamespace(report=report)))
    operations = replace(operations, services=services)
    url = await address(aiohttp_server, operations)

    for width in WIDTHS:
        await page.open(url, width=width)
        await page.value("document.querySelectorAll('details').forEach((each) => { each.open = true; })")

        assert await page.value("[window.hacked ?? 0, document.scripts.length, document.images.length]") == [0, 0, 0]
        assert (width, await page.value(FAULTS)) == (width, [])
        assert await page.complaints() == []
    assert hostile in await page.value("document.body.textContent")
