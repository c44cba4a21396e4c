"""The page in a browser: accessibility, layout, and whether the bars agree with the figures."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from aiohttp import web
from aiohttp.test_utils import RawTestServer

from injector.errors import ConfigError
from injector.kube.admission import Broken
from injector.metrics import Outcome
from injector.revisions.reload import Loader
from injector.revisions.reports import LoadReport, RevisionState
from injector.webhook.operations import Operations
from tests.handlers import decided
from tests.revisions.fakes import fake_revision
from tests.webhook.canary import TAGS, UPGRADES, Cluster
from tests.webhook.chromium import Page, browser, tab

ServerFactory = Callable[[Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]], Awaitable[RawTestServer]]

pytestmark = pytest.mark.needs("chromium")

FAULTS = (Path(__file__).parent / "accessibility.js").read_text()
WIDTHS = (1280, 390, 320)
"""A desk, a phone, and a desk at 400 %."""


@pytest.fixture(scope="module")
def cluster() -> Cluster:
    """Two hours of a canary upgrade."""
    cluster = Cluster(upgrades=lambda: UPGRADES)
    cluster.passes(7300)
    cluster.refuse("web", "annotation")
    return cluster


@pytest.fixture(scope="module")
def fleet() -> Cluster:
    """A hundred tags."""
    many = "".join(f"team-{number}: {'1-24' if number % 3 else '1-30'}\n" for number in range(97))
    cluster = Cluster(tags=TAGS + many)
    cluster.answer("team-3", "1-30")
    return cluster


@pytest.fixture(scope="module")
def browser_address() -> Iterator[str]:
    """The address of a browser."""
    with browser() as address:
        yield address


@pytest.fixture
async def page(browser_address: str) -> AsyncIterator[Page]:
    """A tab."""
    async with tab(browser_address) as page:
        yield page


async def address(aiohttp_raw_server: ServerFactory, operations: Operations) -> str:
    """Where the status of an injector is."""
    return str((await aiohttp_raw_server(operations.answer)).make_url("/status"))


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("tags", ["cluster", "fleet"])
async def test_nobody_is_shut_out(
    aiohttp_raw_server: ServerFactory, page: Page, scheme: str, tags: str, request: pytest.FixtureRequest
) -> None:
    served_cluster: Cluster = request.getfixturevalue(tags)
    url = await address(aiohttp_raw_server, served_cluster.operations())

    for width in WIDTHS:
        await page.open(url, width=width, scheme=scheme)
        await page.value("document.querySelectorAll('details').forEach((each) => { each.open = true; })")

        assert (width, await page.value(FAULTS)) == (width, [])
        assert await page.complaints() == []


async def test_with_nothing_to_show_nobody_is_shut_out(aiohttp_raw_server: ServerFactory, page: Page) -> None:
    cluster = Cluster(tags="prod: {1-24: 90, 1-30: 10}")
    await page.open(await address(aiohttp_raw_server, cluster.operations()), width=320)

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
    ("document.documentElement.style.setProperty('--c0', '#fed')", "graphic contrast"),
    ("document.querySelector('.quiet').style.color = '#999'", "contrast"),
    ("document.querySelector('h2').style.width = '200rem'", "page as wide"),
]
"""What a page could have wrong, and what the fault is called."""


async def test_each_fault_would_be_noticed(aiohttp_raw_server: ServerFactory, cluster: Cluster, page: Page) -> None:
    url = await address(aiohttp_raw_server, cluster.operations())
    unnoticed = []
    for breaks, fault in BREAKS:
        await page.open(url)
        await page.value(f"{breaks}; 0")
        if not any(text.startswith(fault) for text in await page.value(FAULTS)):
            unnoticed.append(breaks)

    assert unnoticed == []


FOCUS = """
(({activeElement: node}) => [node.tagName, getComputedStyle(node).outlineStyle, node.getBoundingClientRect().height > 0])(document)
"""


async def test_all_of_it_can_be_reached_by_keyboard_and_is_seen_to_be(
    aiohttp_raw_server: ServerFactory, cluster: Cluster, page: Page
) -> None:
    await page.open(await address(aiohttp_raw_server, cluster.operations()))

    reached = []
    for _ in range(13):
        await page.press("Tab")
        reached.append(await page.value(FOCUS))

    # Reload (once, and always), the six sections, the last differences of a shadow, the wide tables, and the links of the footer.
    order = [*["A"] * 8, "SUMMARY", "DIV", "DIV", "A", "A"]
    assert reached == [[tag, "solid", True] for tag in order]


BARS = """
[...document.querySelectorAll(".split, .progress")].map((row) => {
  const all = row.querySelector("svg").getBoundingClientRect().width;
  const lengths = [...row.querySelectorAll("rect")].map((part) => 100 * part.getBoundingClientRect().width / all);
  const figures = [...row.textContent.matchAll(/([\\d.]+) %/g)].map((found) => parseFloat(found[1]));
  return [figures, lengths];
})
"""


async def test_the_bars_are_as_long_as_the_shares_beside_them(
    aiohttp_raw_server: ServerFactory, cluster: Cluster, page: Page
) -> None:
    await page.open(await address(aiohttp_raw_server, cluster.operations()))

    upgrade, weights, requests = await page.value(BARS)

    assert upgrade == [[25], [pytest.approx(25)]]
    assert weights == [[50, 50], [pytest.approx(50), pytest.approx(50)]]
    figures, lengths = requests
    assert lengths == pytest.approx(figures, abs=0.6)
    # Weights of 0, 5, 10, 25 and 50 percent, each in a part of the two hours of its own.
    assert sum(figures) == pytest.approx(100, abs=0.1)
    assert figures[1] == pytest.approx(17, abs=5)


COLOURS = """
(() => {
  const found = {};
  const add = (name, colour) => { (found[name] ??= []).includes(colour) || found[name].push(colour); };
  for (const node of document.querySelectorAll(".rev")) add(node.textContent, getComputedStyle(node, "::before").backgroundColor);
  for (const row of document.querySelectorAll(".split")) {
    const names = row.querySelectorAll(".rev");
    row.querySelectorAll("rect").forEach((part, place) => add(names[place].textContent, getComputedStyle(part).fill));
  }
  return found;
})()
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_each_revision_is_drawn_in_one_colour_that_no_other_has(
    aiohttp_raw_server: ServerFactory, cluster: Cluster, page: Page, scheme: str
) -> None:
    await page.open(await address(aiohttp_raw_server, cluster.operations()), scheme=scheme)

    colours: dict[str, list[str]] = await page.value(COLOURS)

    assert sorted(colours) == ["1-24", "1-27", "1-30"]
    assert all(len(colour) == 1 for colour in colours.values()), colours
    assert len({colour[0] for colour in colours.values()}) == 3


async def test_a_hundred_tags_fit_two_screens(aiohttp_raw_server: ServerFactory, fleet: Cluster, page: Page) -> None:
    await page.open(await address(aiohttp_raw_server, fleet.operations()))

    assert (
        await page.value("document.querySelector('section[aria-labelledby=tags]').getBoundingClientRect().height") < 900
    )


async def test_the_page_reloads_itself_when_the_reader_asks(
    aiohttp_raw_server: ServerFactory, cluster: Cluster, page: Page
) -> None:
    url = await address(aiohttp_raw_server, cluster.operations())
    await page.open(f"{url}?refresh")

    assert await page.complaints() == []
    assert await page.value("document.querySelector('.refresh a').href") == f"{url}?"
    assert await page.value("document.querySelector('meta[http-equiv]').content") == "10"


async def test_hostile_and_endless_texts_stay_texts_and_within_the_page(
    aiohttp_raw_server: ServerFactory, page: Page
) -> None:
    hostile = "<img src=x onerror=window.hacked=1><script>window.hacked=1</script>\"'" + "x" * 300
    upgrade = {**UPGRADES[0], **dict.fromkeys(("name", "tag", "from", "to", "progress", "reason"), hostile)}
    cluster = Cluster(
        upgrades=lambda: [{**upgrade, "waves": [{"name": hostile, "done": True}], "gates": {hostile: hostile}}]
    )
    for name in (hostile, "r" * 63):
        cluster.answer("canary", name)
    cluster.decisions.log(decided(Broken(hostile), Outcome.FAILURE, hostile, hostile, hostile, where=hostile), 0.0)
    cluster.passes(600)
    revision = fake_revision(hostile, fingerprint=hostile)
    states = {
        hostile: RevisionState(hostile, revision, ConfigError(hostile, where=hostile), 1.0, (hostile,)),
        "r" * 63: RevisionState("r" * 63, fake_revision("r" * 63)),
    }
    report = LoadReport(states, (ConfigError(hostile),), ConfigError(hostile), at=1.0)
    operations = replace(cluster.operations(), loader=cast("Loader", SimpleNamespace(report=report)))
    url = await address(aiohttp_raw_server, operations)

    for width in WIDTHS:
        await page.open(url, width=width)
        await page.value("document.querySelectorAll('details').forEach((each) => { each.open = true; })")

        assert await page.value("[window.hacked ?? 0, document.scripts.length, document.images.length]") == [0, 0, 0]
        assert (width, await page.value(FAULTS)) == (width, [])
        assert await page.complaints() == []
    assert hostile in await page.value("document.body.textContent")
