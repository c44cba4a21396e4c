"""Go's answers, kept: a digest for each input of a seed, and the first of them whole. The inputs are made again by the seed.

    python -m tests.differential.recordings

asks Go, where it is installed, and writes ``recorded/`` anew.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

import orjson

from tests.differential.comparisons import COMPARISONS, Comparison
from tests.differential.golang import Question, ask_go, built

FOLDER = Path(__file__).with_name("recorded")
SEED = "recorded"
COUNTS = {
    "merge": 10_000,
    "yaml": 5_000,
    "sprig": 2_500,
    "printf": 2_500,
    "dates": 5_000,
    "proxyconfig": 2_500,
    "meshconfig": 2_500,
}
WHOLE = 300
OFTENER = 10
"""What is kept has to be the same each time that Go is asked."""
RECORDED_WITH = (
    "Go 1.26: k8s.io/apimachinery v0.36.1, sigs.k8s.io/yaml v1.6.0, Masterminds/sprig v3.3.0, "
    "istio.io/api v1.31.0 by golang/protobuf v1.5.4"
)


@dataclass(frozen=True)
class Recording:
    """What Go answered to the inputs of ``SEED``: ``inputs`` is the digest of these, ``answers`` are the first ones whole."""

    inputs: str
    answers: list[str]
    digests: list[str]
    recorded_with: str = RECORDED_WITH


def digest(text: str) -> str:
    """Enough of a hash to tell answers apart."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]


def fingerprint(questions: Sequence[Question]) -> str:
    """What inputs are known by."""
    return hashlib.sha256(b"\n".join(map(orjson.dumps, questions))).hexdigest()


@cache
def recorded(name: str) -> Recording:
    """The recording of a comparison."""
    return Recording(**json.loads(gzip.decompress((FOLDER / f"{name}.json.gz").read_bytes())))


def record(comparison: Comparison, program: Path) -> Recording:
    """Ask Go."""
    questions = comparison.questions(SEED, COUNTS[comparison.name])
    replies = ask_go(
        program, comparison.kind, [{**question, "runs": comparison.runs * OFTENER} for question in questions]
    )
    answers = [comparison.gos(reply) for reply in replies]
    return Recording(fingerprint(questions), answers[:WHOLE], [digest(answer) for answer in answers])


def main() -> int:
    """Write all recordings anew."""
    with tempfile.TemporaryDirectory() as folder:
        program = built(Path(folder))
        if program is None:
            return 1
        FOLDER.mkdir(exist_ok=True)
        for name, comparison in COMPARISONS.items():
            text = json.dumps(asdict(record(comparison, program)), ensure_ascii=False, indent=0)
            (FOLDER / f"{name}.json.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
    return 0


if __name__ == "__main__":
    sys.exit(main())
