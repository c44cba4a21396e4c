"""The recorder beside a small server that answers as istiod does, and as it should not."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import pytest
from aiohttp import web

from injector.cluster.reviews import NoAnswerError
from injector.errors import ClusterError
from injector.fleet.istiodoptions import IstiodOptions
from tests.differential.injectorcases import read
from tests.differential.injectors import Case, injected
from tests.differential.istiods import ask
from tests.factories import make_pod
from tests.reliability.long import injectors, recording

Reply = Callable[[dict[str, Any]], Any]
PATCH = [{"op": "add", "path": "/metadata/labels", "value": {"by": "istiod"}}]
COMMIT = "0123456789abcdef0123456789abcdef01234567"
SLOW = object()
CASE = Case("a pod", make_pod("web"))


def review(request: dict[str, Any], **response: Any) -> dict[str, Any]:
    """Return an AdmissionReview that answers a request."""
    answer = {"uid": request["uid"], "allowed": True, **response}
    return {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": answer}


def patched(request: dict[str, Any]) -> dict[str, Any]:
    """Answer with a patch."""
    return review(request, patch=base64.b64encode(json.dumps(PATCH).encode()).decode(), patchType="JSONPatch")


class FakeIstiod:
    """A server in a thread: ``reply`` makes what it answers, ``paths`` are those that it was asked at."""

    def __init__(self) -> None:
        self.reply: Reply = patched
        self.paths: list[str] = []
        self.url = ""
        self._loop = asyncio.new_event_loop()
        self._started = threading.Event()
        self._ending = asyncio.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._started.wait(30)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._ending.set)
        self._thread.join(30)

    def _run(self) -> None:
        app = web.Application()
        app.router.add_get("/version", self._version)
        app.router.add_post("/{path:.*}", self._inject)
        runner = web.AppRunner(app, shutdown_timeout=1)
        self._loop.run_until_complete(runner.setup())
        site = web.TCPSite(runner, "127.0.0.1", 0)
        self._loop.run_until_complete(site.start())
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}/inject"
        self._started.set()
        self._loop.run_until_complete(self._ending.wait())
        self._loop.run_until_complete(runner.cleanup())
        self._loop.close()

    async def _version(self, _: web.Request) -> web.Response:
        return web.Response(text=f"1.30.3-{COMMIT}-Clean")

    async def _inject(self, request: web.Request) -> web.StreamResponse:
        self.paths.append(request.path)
        reply = self.reply((await request.json())["request"])
        if reply is SLOW:
            await self._ending.wait()
            return web.Response()
        if isinstance(reply, int):
            return web.Response(status=reply, text="no endpoints available")
        if reply is None and request.transport:
            request.transport.close()
        return web.Response(text=reply if isinstance(reply, str) else json.dumps(reply))


@pytest.fixture
def istiod() -> Iterator[FakeIstiod]:
    """A server that answers as istiod does."""
    with FakeIstiod() as server:
        yield server


def test_the_answer_is_the_patched_pod(istiod: FakeIstiod) -> None:
    assert ask(IstiodOptions(istiod.url), [CASE]) == [injected(CASE.pod, PATCH)]


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        (review, {"skipped": True}),
        (
            lambda request: review(request, allowed=False, status={"message": "bad port"}),
            {"refused": True, "why": "bad port"},
        ),
        (lambda _: None, {"refused": True, "why": "istiod dropped the connection"}),
    ],
)
def test_a_pod_that_is_not_injected_is_skipped_or_refused(istiod: FakeIstiod, reply: Reply, answer: Any) -> None:
    istiod.reply = reply

    assert ask(IstiodOptions(istiod.url), [CASE]) == [answer]


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (lambda _: 503, "HTTP status 503: no endpoints available"),
        (lambda _: SLOW, "no answer within 0.2 s"),
        (
            lambda request: review({"uid": "other"} | {"of": request["uid"]}),
            "its answer is to another review: the uid differs",
        ),
        (lambda _: "<html>", "its answer is not JSON"),
        (lambda _: {"response": None}, "its answer is not an AdmissionReview"),
        (lambda request: review(request, patch="!", patchType="JSONPatch"), "its patch is not JSON in base64"),
    ],
)
def test_what_is_not_an_answer_is_an_error_with_the_url(istiod: FakeIstiod, reply: Reply, words: str) -> None:
    istiod.reply = reply

    with pytest.raises(NoAnswerError) as caught:
        ask(IstiodOptions(istiod.url, timeout=0.2 if "within" in words else 30), [CASE])
    assert str(caught.value).startswith(istiod.url)
    assert words in str(caught.value)


def test_a_port_where_nothing_listens_is_an_error() -> None:
    with pytest.raises(ClusterError, match=r"127\.0\.0\.1:1"):
        ask(IstiodOptions("http://127.0.0.1:1/inject"), [CASE])


def test_the_pairs_of_a_path_follow_that_of_the_url(istiod: FakeIstiod) -> None:
    ask(IstiodOptions(istiod.url), [Case("a pod", CASE.pod, "/inject/cluster/c")])

    assert istiod.paths == ["/inject/cluster/c"]


def test_answers_that_are_not_always_the_same_are_left_out(istiod: FakeIstiod) -> None:
    def reply(request: dict[str, Any]) -> dict[str, Any]:
        return review(request) if len(istiod.paths) % 2 else patched(request)

    istiod.reply = reply

    assert ask(IstiodOptions(istiod.url), [CASE], runs=2) == [None]


def test_the_recorder_writes_the_answers_with_the_release_commit_and_date(istiod: FakeIstiod, tmp_path: Path) -> None:
    recording.main(["--folders", str(tmp_path), "--minor", "1.30"])
    output = tmp_path / "answers.jsonl.gz"
    arguments = ["--istiod", istiod.url, "--revision", str(tmp_path / "plain"), "--pods", "2"]
    version = ["--version-url", istiod.url.replace("/inject", "/version"), "--output", str(output)]

    assert recording.main([*arguments, *version]) == 0
    (written_recording,) = read(output)
    assert (written_recording.release, written_recording.commit, written_recording.name) == ("1.30.3", COMMIT, "plain")
    assert written_recording.date.startswith("20")
    assert {case.name for case, _ in written_recording.answers} >= {"a pod", "directives", "random 0", "random 1"}
    assert all(answer["pod"]["metadata"]["labels"] == {"by": "istiod"} for _, answer in written_recording.answers)


def test_the_recorder_says_in_a_line_why_there_is_no_answer(
    istiod: FakeIstiod, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    istiod.reply = lambda _: 404
    recording.main(["--folders", str(tmp_path), "--minor", "1.30"])
    arguments = ["--istiod", istiod.url, "--revision", str(tmp_path / "plain"), "--release", "1.30.3"]

    assert recording.main([*arguments, "--output", str(tmp_path / "answers.jsonl.gz")]) == 1
    assert capsys.readouterr().err == f"error: {istiod.url}: it answers with HTTP status 404: no endpoints available\n"
    assert not (tmp_path / "answers.jsonl.gz").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--istiod", "http://127.0.0.1:1/inject", "--output", "x"], "give a --revision for each --istiod"),
        (["--istiod", "http://127.0.0.1:1/inject"], "give --istiod, --revision and --output"),
        (["--folders", "x"], "--folders needs --minor"),
    ],
)
def test_options_that_are_missing_are_named(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        recording.main(arguments)

    assert words in capsys.readouterr().err


def test_random_pods_are_compared_with_a_running_istiod(
    istiod: FakeIstiod, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recording.main(["--folders", str(tmp_path), "--minor", "1.30"])

    status = injectors.main(
        ["--istiod", istiod.url, "--revision", str(tmp_path / "plain"), "--release", "1.30.3", "--pods", "3"]
    )

    assert status == 1, "the answers of this server are not Istio's"
    assert "3 differences" in capsys.readouterr().out
