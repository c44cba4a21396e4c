"""The reviews of the benchmarks, and what a benchmark says if its client is missing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.reviews import LOADS, WORKLOADS, reviews

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
