"""The reviews and pods of the benchmarks, what they compare beside times, and what one says if its client is missing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.load import compare_with_istiod
from bench.reviews import LOADS, WORKLOADS, reviews
from injector.revisions.source import build
from tests.istiods import injecting, replacing_image, serving
from tests.reliability.long.creations import Subject, requests_for
from tests.revisions.fakes import VALUES, make_raw

ROOT = Path(__file__).resolve().parents[2]
RECORDED = ROOT / "tests" / "webhook" / "reviews" / "deployment.jsonl"
EX_UNAVAILABLE = 69


def loaded(load: str, count: int) -> list[dict[str, Any]]:
    return [json.loads(line)["request"] for line in reviews(load, count)]


def without_noise(request: dict[str, Any]) -> str:
    """What two replicas of a workload have in common."""
    pod = request["object"]
    (token,) = [volume["name"] for volume in pod["spec"]["volumes"] if "projected" in volume]
    (owned,) = pod["metadata"]["managedFields"]
    text = json.dumps({**request, "uid": ""})
    return text.replace(token, "TOKEN").replace(owned["time"], "TIME")


def test_a_review_has_the_fields_of_a_recorded_one() -> None:
    recorded = json.loads(RECORDED.read_text().splitlines()[0])["request"]
    (unique,) = loaded("unique", 1)

    assert unique.keys() == recorded.keys()
    assert unique["object"].keys() == recorded["object"].keys()
    assert unique["object"]["metadata"].keys() == recorded["object"]["metadata"].keys() - {"creationTimestamp"}
    assert unique["userInfo"].keys() == recorded["userInfo"].keys()
    (owned,), (known,) = (request["object"]["metadata"]["managedFields"] for request in (unique, recorded))
    assert owned.keys() == known.keys()
    assert owned["fieldsV1"].keys() == known["fieldsV1"].keys()
    assert owned["fieldsV1"]["f:metadata"].keys() == known["fieldsV1"]["f:metadata"].keys()


def test_replicas_of_a_workload_are_equal_but_for_uid_token_volume_and_time() -> None:
    requests = loaded("replicas", 2 * WORKLOADS)

    assert len({request["uid"] for request in requests}) == 2 * WORKLOADS
    assert [without_noise(request) for request in requests[:WORKLOADS]] == [
        without_noise(request) for request in requests[WORKLOADS:]
    ]
    assert len({without_noise(request) for request in requests}) == WORKLOADS


def test_no_two_unique_pods_are_equal() -> None:
    assert len({without_noise(request) for request in loaded("unique", 200)}) == 200


@pytest.mark.parametrize("load", LOADS)
def test_a_load_is_the_same_in_each_run(load: str) -> None:
    assert [*reviews(load, 30)] == [*reviews(load, 30)]


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        ([], EX_UNAVAILABLE, "error: wrk is not installed; install the Debian package wrk\n"),
        (["--revision", "docs"], 2, "docs has no file config; name the folder of one revision\n"),
    ],
)
def test_the_load_says_what_it_lacks(tmp_path: Path, arguments: list[str], status: int, said: str) -> None:
    command = [sys.executable, "-m", "bench.load", *arguments]
    done = subprocess.run(command, cwd=ROOT, env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False)

    assert done.returncode == status
    assert done.stderr.endswith(said)


@pytest.mark.parametrize(
    ("image", "line"),
    [
        ("proxy:1.30.1", "0 of 2 answers to replicas make another pod than istiod's\n"),
        ("wrong:1", "2 of 2 answers to replicas make another pod than istiod's, in containers[istio-proxy].image\n"),
    ],
)
def test_the_load_compares_answers_with_an_istiod(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], image: str, line: str
) -> None:
    (tmp_path / "replicas.jsonl").write_bytes(b"\n".join(reviews("replicas", 51)))
    ours = injecting(build(make_raw("r0", values=VALUES.replace("1.24.6", "1.30.1"))))

    with serving(ours) as (url, received), serving(replacing_image(ours, image)) as (istiod, _):
        compare_with_istiod(url, istiod, tmp_path / "replicas.jsonl")

    assert capsys.readouterr().err == line
    assert len(received) == 2


def test_clients_create_pods_in_the_namespaces_of_the_replicas_in_turn() -> None:
    replicas = [*requests_for(Subject(["a", "b"]), 5, None)]
    unseen = [json.loads(body) for _, body in requests_for(Subject(["a", "b"]), 4, iter(range(7, 100)))]

    assert [path.split("/")[4] for path, _ in replicas] == ["a", "b", "a", "b", "a"]
    assert {json.loads(body)["metadata"]["generateName"] for _, body in replicas} == {"app-"}
    assert [pod["metadata"]["labels"]["app"] for pod in unseen] == ["app-7", "app-8", "app-9", "app-10"]
    assert {"name" in pod["metadata"] for pod in unseen} == {False}
