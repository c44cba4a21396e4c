from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FILLING = """
import os
import orjson
from bench.serving import resident
from injector.kube.admission import Response
from injector.webhook.cache import AnswerCache, CachedAnswer, Key

cache, snapshot = AnswerCache(max_bytes=4 << 20), object()
before = resident(os.getpid())
for number in range(6000):
    pod = orjson.dumps({f"k{index}": number for index in range(200 + number % 50)})
    patch = orjson.dumps([f"text {number} {index}" for index in range(500)])
    key = Key("/inject", "shop", pod)
    assert cache.get(snapshot, key) is None
    cache.put(snapshot, key, CachedAnswer.of(Response(True, patch=patch), None, "", None))
print(resident(os.getpid()) - before)
"""


def test_a_full_cache_takes_little_more_memory_than_its_bound() -> None:
    command = [sys.executable, "-c", FILLING]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)

    assert float(found.stdout) < 10, "MiB, for a bound of 4"
