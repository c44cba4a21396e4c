"""Whatever name stands in a URL: a denial with the uid, one line of log, no file, no series of its own."""

from __future__ import annotations

import contextlib
import random
import string
import sys
from typing import TYPE_CHECKING, Any

import pytest
from yarl import URL

from injector.cli.server import JsonFormatter, TextFormatter
from tests.factories import UID, make_pod, make_review

if TYPE_CHECKING:
    import logging
    from collections.abc import Iterator

    from prometheus_client import CollectorRegistry

    from tests.webhook.conftest import Client

HOSTILE = [
    "..%2f..%2fetc%2fpasswd",
    "%2e%2e/%2e%2e/etc/passwd",
    "..\\..\\etc",
    "%2fetc%2fpasswd",
    "nope%00",
    "nope%0d%0aINFO%20forged",
    "nope%0aforged",
    "%e2%80%a8forged",
    "%1b%5b2J",
    "%ff%fe",
    "%c3%a9",
    "%F0%9F%92%A5",
    "NOPE",
    "nOpE",
    "a" * 5000,
    "a" * 64,
    "-",
    "a_b",
    "a.b",
    "*",
    "%24%7bjndi%7d",
    "%7b%7b.Values%7d%7d",
    "nope/net/x/",
    "nope/cluster/c/net/n/A/b",
    "nope/:ENV:A=b",
    "nope?timeout=10s&x=%00",
    "__proto__",
    "constructor",
]


class Opened(list[str]):
    """The files that are opened while it is on."""

    on = False


_OPENED = Opened()


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open" and _OPENED.on:
        _OPENED.append(str(arguments[0]))


# A hook cannot be taken away again, so there is one, which does nothing unless it is asked to.
sys.addaudithook(_audit)


@contextlib.contextmanager
def watched() -> Iterator[Opened]:
    """Collects the files that are opened meanwhile."""
    _OPENED.clear()
    _OPENED.on = True
    try:
        yield _OPENED
    finally:
        _OPENED.on = False


def own(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """The injector's lines."""
    return [record for record in caplog.records if record.name.startswith("injector")]


def test_the_hook_sees_a_file_that_is_opened() -> None:
    with watched() as opened, open(__file__, "rb"):  # noqa: PTH123 -- what the hook is to see
        pass

    assert opened == [__file__]


@pytest.mark.parametrize("name", HOSTILE, ids=[str(number) for number in range(len(HOSTILE))])
async def test_a_hostile_name_is_denied_with_the_uid_in_one_line_of_log_and_no_file(
    client: Client, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    # What is read once in a process, as the schema of pods, is read by now.
    await client.post("/inject/warm", json=make_review())
    caplog.clear()

    with watched() as opened:
        response = await client.post(URL(f"/inject/{name}", encoded=True), json=make_review())
        answer = (await response.json())["response"]

    assert (response.status, answer["uid"], answer["allowed"]) == (200, UID, False)
    assert len(answer["status"]["message"]) < 400
    assert answer["status"]["message"].isprintable()
    assert opened == []
    (record,) = own(caplog)
    for formatter in (TextFormatter(), JsonFormatter()):
        line = formatter.format(record)
        assert line.isprintable()
        assert len(line) < 1_000


async def test_a_line_too_long_for_a_path_is_no_request_at_all(client: Client) -> None:
    response = await client.post("/inject/" + "a" * 9_000, json=make_review())

    assert response.status == 400


def series(collector: CollectorRegistry) -> set[str]:
    """Names and labels of all that a scrape sees."""
    return {f"{sample.name}{sample.labels}" for metric in collector.collect() for sample in metric.samples}


async def test_names_make_no_series(client: Client, collector: CollectorRegistry) -> None:
    random_ = random.Random(7)  # noqa: S311 -- names for a test
    names = ["".join(random_.choices(string.ascii_lowercase, k=12)) for _ in range(300)]

    async def ask(name: str) -> None:
        pod = make_pod(f"{name}\n", annotations={f"sidecar.istio.io/{name}": name}, labels={name: name})
        review = make_review(pod, namespace=f'{name}"}} 1\n', uid=name)
        response = await client.post(f"/inject/{name}", json=review)
        assert (await response.json())["response"]["allowed"] is False

    await ask(names[0])
    once = series(collector)
    for name in names:
        await ask(name)

    assert series(collector) == once
    assert all(name not in text for text in once for name in names)
    labels = {"revision": "unknown", "tag": "", "reason": "unknown_revision"}
    assert collector.get_sample_value("sidecar_injection_failure_total", labels) == len(names) + 1
