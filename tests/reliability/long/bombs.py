"""Bombs in templates, YAML and functions: what each costs a server, what it says, and what the other revisions feel of it (T18 to T21).

The templates are those of two revisions, one of each engine, that render a sidecar unless a pod's label asks for a bomb: so they are
served, and the server's memory and answers are the ones that count.
"""

from __future__ import annotations

import asyncio
import json
import random
import statistics
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any, Final

from injector.errors import ManifestError
from injector.kube.yaml import load_yaml
from tests.factories import make_pod, make_review
from tests.kube.recorded import recorded
from tests.property import escapes
from tests.reliability.apiserver import ApiServer
from tests.reliability.long.rows import Row
from tests.reliability.replicas import ROOT, Replica, Stage, memory, processor_time, resident
from tests.reliability.storm import istio_texts

SIDECAR: Final = "spec:\n  containers:\n  - name: istio-proxy\n    image: proxy\n"
GO: Final[Mapping[str, str]] = {
    "endless range": "{{ range 1000000000 }}{{ end }}",
    "ranges inside each other": "{{ range 100000 }}{{ range 100000 }}{{ end }}{{ end }}",
    "recursion": '{{ template "recursion" . }}',
    "repeat": "{{ repeat 1000000000 `a` }}",
    "indent": "{{ nindent 1000000000 `a` }}",
    "until": "{{ until 1000000000 }}",
    "printf width": "{{ range 100 }}{{ printf `%999999d` 1 }}{{ end }}",
    "doubled text": "{{ $x := `a` }}{{ range 60 }}{{ $x = print $x $x }}{{ end }}",
    "doubled by regexp": "{{ $x := `aa` }}{{ range 60 }}{{ $x = mustRegexReplaceAll `.` $x `$0$0` }}{{ end }}",
    "doubled list": "{{ $x := list }}{{ range 60 }}{{ $x = list $x $x }}{{ end }}{{ toPrettyJson $x }}",
    "dictionary in itself": "{{ $x := dict }}{{ $_ := set $x `a` $x }}{{ toYaml $x }}",
    "grown dictionary": "{{ $x := dict }}{{ range 1000000 }}{{ $_ := set $x (toString .) (repeat 1000 `a`) }}{{ end }}",
    "regexp": "{{ regexMatch `((a?){100}){9}b` (repeat 1000000 `a`) }}",
    "quadratic regexp": "{{ regexFindAll `a.*b|a` (repeat 1000000 `a`) -1 }}",
    "cut set": "{{ trimAll (until 100000 | join `é`) (repeat 1000000 `a`) }}",
    "key": "{{ genPrivateKey `rsa` }}",
    "scrypt": "{{ derivePassword 1 `long` `p` `u` `s` }}",
    "bcrypt": "{{ range 1000 }}{{ $x := bcrypt `p` }}{{ end }}",
    "dates": "{{ toDate (repeat 20 `Monday`) (repeat 100000 `a`) }}{{ date (repeat 500000 `15`) now }}",
    "version range": "{{ semverCompare (repeat 500000 `1`) `1` }}",
    "values of YAML": "a: [{{ range 200000 }}[],{{ end }}]",
    "aliases of YAML": (
        "a: &a [x,x,x,x,x,x,x,x,x]\n{{ range $i := until 9 }}b{{ $i }}: [*a,*a,*a,*a,*a,*a,*a,*a,*a]\n{{ end }}"
        "c: [{{ range 2000 }}*a,{{ end }}]"
    ),
}
JINJA: Final[Mapping[str, str]] = {
    "nested loops": "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    "multiplied text": "{{ 'a' * 10 ** 9 }}{{ 'a' * 1000000000 }}",
    "multiplied": "{{ 'a' * 1000000000 }}",
    "indented": "{{ 'a' | indent(1000000000, true) }}",
    "replaced": "{{ ('a' * 1000000) | replace('a', 'b' * 1000000) }}",
    "macro in itself": "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    "doubled": "{% set ns = 'a' %}{% macro d(x, n) %}{{ d(x ~ x, n - 1) if n else x }}{% endmacro %}{{ d('a', 60) }}",
    "joined": "{{ range(99999) | list | join('a' * 1000) }}",
    "number": "{{ " + " * ".join(["9" * 19] * 6) + " }}",
}
EXPRESSION: Final = {
    "go": '{{ if eq (index .ObjectMeta.Labels "bomb") "%s" }}',
    "jinja2": '{%% if label("bomb") == "%s" %%}',
}
END: Final = {"go": "{{ end }}", "jinja2": "{% endif %}"}
SECONDS, MEBIBYTES = 0.5, 32.0
ROUNDS, ROUND_SECONDS, RATE, OTHERS = 5, 6.0, 50.0, 3
SIZES, ONE_IN = (30_000, 300_000, 1_000_000), 9
YAML_MS = 50.0
ESCAPES_EACH = 5


async def bombs(stage: Stage) -> Sequence[Row]:
    """T18, T19 and T21."""
    rows = [*yaml_bombs(), *function_bombs(), *ways_out()]
    folder = stage.folder / "bombs"
    for number in range(OTHERS):
        revision = folder / f"r{number}"
        revision.mkdir(parents=True)
        for key, text in istio_texts().items():
            (revision / key).write_text(text)
    for engine, templates in (("go", GO), ("jinja2", JINJA)):
        _write(folder / f"bomb-{engine}", engine, templates)
    replica = await stage.replica("--revisions-dir", str(folder))
    client = replica.client()
    for number in range(OTHERS):
        await client.post(f"/inject/r{number}", review({"app": "warm"}), timeout=30)
    answers = [await asked_for(client, replica, bomb) for bomb in all_bombs()]
    rows.append(_row_of(answers))
    rows += [await _others(client, is_known) for is_known in (True, False)]
    await client.close()
    return rows


@dataclass(frozen=True, slots=True)
class Bomb:
    """A bomb, the revision that has it, and the line of its template that it is on."""

    name: str
    engine: str
    line: int

    @property
    def path(self) -> str:
        """Where its revision is asked."""
        return f"/inject/bomb-{self.engine}"

    def review(self, workload: str = "") -> bytes:
        """A pod of a workload that asks for it; without one, in a namespace of its own."""
        name = self.name.replace(" ", "-")
        return review({"bomb": name, "app": workload}, "default" if workload else name.lower())

    def is_refusal(self, message: str) -> bool:
        """Whether a message names the template and the line; what is rendered has no line of the template."""
        of_text = "YAML" in self.name and "template sidecar" in message
        if self.name == "recursion":
            return 'executing "recursion" at <{{template "recursion" .}}>' in message
        of_engine = f"sidecar:{self.line}:" if self.engine == "go" else f"template sidecar, line {self.line}:"
        return of_text or of_engine in message


@dataclass(frozen=True, slots=True)
class BombReply:
    """What came of a bomb: seconds, MiB, and whether it was refused with its place."""

    bomb: Bomb
    seconds: float
    mebibytes: float
    is_refused: bool


def all_bombs() -> Iterator[Bomb]:
    """Every bomb, by the order of the templates."""
    for engine, templates in (("go", GO), ("jinja2", JINJA)):
        line = 1
        for name, text in templates.items():
            yield Bomb(name, engine, line + 1)
            line += 3 + text.count("\n")


def template_of(engine: str, templates: Mapping[str, str]) -> str:
    """A template with all bombs, each on the line after its condition."""
    condition = EXPRESSION[engine]
    parts = [f"{condition % name.replace(' ', '-')}\n{text}\n{END[engine]}\n" for name, text in templates.items()]
    recursion = '{{ define "recursion" }}{{ template "recursion" . }}{{ end }}' if engine == "go" else ""
    return "".join(parts) + SIDECAR + recursion


def _write(folder: Path, engine: str, templates: Mapping[str, str]) -> None:
    folder.mkdir(parents=True)
    config = {"policy": "enabled", "templates": {"sidecar": template_of(engine, templates)}}
    (folder / "config").write_text(json.dumps(config))
    (folder / "revision.yaml").write_text(json.dumps({"istioVersion": "1.30", "engine": engine}))


def review(labels: dict[str, str], namespace: str = "default") -> bytes:
    """A review of a pod with labels."""
    return json.dumps(make_review(make_pod(labels=labels), namespace=namespace)).encode()


async def asked_for(client: ApiServer, replica: Replica, bomb: Bomb) -> BombReply:
    """Ask for a bomb once."""
    pid = replica.pid
    process = Path(f"/proc/{pid}")
    (process / "clear_refs").write_text("5")
    before, begun = resident(pid), processor_time(pid)
    reply = await client.post(bomb.path, bomb.review(), timeout=30)
    seconds, peak = processor_time(pid) - begun, memory(pid, "VmHWM") / 1024 - before
    message = "" if reply.response["allowed"] else str(reply.response["status"]["message"])
    answer = BombReply(bomb, seconds, peak, bomb.is_refusal(message))
    print(
        f"  {bomb.engine} {bomb.name}: {seconds * 1e3:.0f} ms, {answer.mebibytes:.1f} MiB, {message[:110]!r}",
        file=sys.stderr,
    )
    return answer


def _row_of(answers: Sequence[BombReply]) -> Row:
    slowest, largest = max(answer.seconds for answer in answers), max(answer.mebibytes for answer in answers)
    named = sum(answer.is_refused for answer in answers)
    return Row(
        f"T19 {len(answers)} bombs in served templates",
        "each refused within 500 ms and +32 MiB, its template and line named",
        f"{named} named, at most {slowest * 1e3:.0f} ms, +{largest:.1f} MiB",
        named == len(answers) and slowest <= SECONDS and largest < MEBIBYTES,
    )


async def _others(client: ApiServer, is_known: bool) -> Row:
    asking = cycle(random.sample(list(all_bombs()), len(GO) + len(JINJA)))
    rounds = [(await _p99(client, None), await _p99(client, asking, is_known=is_known)) for _ in range(ROUNDS)]
    who = "the pods that were refused ask again" if is_known else "a pod never seen asks for a bomb"
    before, after, ratio = (
        statistics.median(values)
        for values in ([r[0] for r in rounds], [r[1] for r in rounds], [r[1] / r[0] for r in rounds])
    )
    return Row(
        f"T19 {OTHERS} other revisions, {RATE:g} pods a second, while {who} each second",
        "their p99 < 2x",
        f"{ratio:.2f}x, the median of {ROUNDS} rounds with and without ({before:.1f} ms, {after:.1f} ms)",
        ratio < 2,
    )


async def _p99(client: ApiServer, asking: Iterator[Bomb] | None, *, is_known: bool = False) -> float:
    return statistics.quantiles(await _admitted(client, asking, is_known=is_known), n=100)[98] * 1e3


async def _admitted(client: ApiServer, asking: Iterator[Bomb] | None, *, is_known: bool) -> list[float]:
    """The times of admissions at a steady rate, with a bomb each second or without."""
    times: list[float] = []
    running: set[asyncio.Task[None]] = set()
    begun = time.monotonic()

    async def one(number: int) -> None:
        started = time.monotonic()
        reply = await client.post(f"/inject/r{number % OTHERS}", review({"app": f"app-{number % 40}"}), timeout=30)
        assert reply.response["allowed"]
        times.append(time.monotonic() - started)

    async def bomb(bomb_to_send: Bomb) -> None:
        body = bomb_to_send.review("" if is_known else f"app-{time.monotonic():.6f}")
        assert not (await client.post(bomb_to_send.path, body, timeout=30)).response["allowed"]

    for number in range(int(ROUND_SECONDS * RATE)):
        running.add(asyncio.create_task(one(number)))
        if asking is not None and number % int(RATE) == 0:
            running.add(asyncio.create_task(bomb(next(asking))))
        await asyncio.sleep(max(0.0, begun + (number + 1) / RATE - time.monotonic()))
    await asyncio.gather(*running)
    return times


def yaml_bombs() -> list[Row]:
    """T18: the recorded bombs, each read as configs and annotations are."""
    slowest = largest = 0.0
    wrong = []
    cases = [case for case in recorded("yaml_bombs") if not case["name"].startswith(("nine thousand", "three hundred"))]
    for case in cases:
        text = "".join(part["text"] * part["times"] for part in case["parts"])
        times = [_read(text) for _ in range(3)]
        slowest = max(slowest, min(seconds for seconds, _ in times))
        tracemalloc.start()
        _, refused = _read(text)
        largest = max(largest, tracemalloc.get_traced_memory()[1] / (1 << 20))
        tracemalloc.stop()
        if refused != bool(case.get("error")):
            wrong.append(case["name"])
    return [
        Row(
            f"T18 {len(cases)} bombs of YAML, a mebibyte each at most",
            "refused as Go does (nesting from 200 levels on), < 50 ms, no memory",
            f"{len(wrong)} answered otherwise, at most {slowest * 1e3:.1f} ms, {largest:.1f} MiB",
            not wrong and slowest * 1e3 < YAML_MS and largest < MEBIBYTES,
        )
    ]


def _read(text: str) -> tuple[float, bool]:
    begun = time.thread_time()
    try:
        load_yaml(text)
    except ManifestError:
        return time.thread_time() - begun, True
    return time.thread_time() - begun, False


def function_bombs() -> list[Row]:
    """T19: every function of Go, sprig and Istio with hostile arguments."""
    rows = []
    for size in SIZES:
        command = [sys.executable, "-m", "tests.property.hostile", str(size), str(ONE_IN)]
        process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=600)
        *lines, count = process.stdout.splitlines()
        escaped = [json.loads(line) for line in lines]
        for line in escaped:
            print(f"  {line}", file=sys.stderr)
        rows.append(
            Row(
                f"T19 {count} calls of all functions, arguments of {size} characters or a fifth as many items",
                "each within 550 ms and +32 MiB, no error of Python",
                f"{len(escaped)} beyond",
                not escaped,
            )
        )
    return rows


def ways_out() -> list[Row]:
    """T21: the known ways out of templates."""
    return [
        _ways_out("Jinja2", escapes.jinja_template, list(escapes.jinja_attempts())),
        _ways_out("Go", escapes.go_template, list(escapes.go_attempts())),
    ]


def _ways_out(language: str, compile_: Callable[[str], Any], attempts: Sequence[str]) -> Row:
    dice = random.Random(language)  # noqa: S311 -- which attempts are made
    tried = dice.sample(attempts, len(attempts) // ESCAPES_EACH)
    outcomes = [escapes.outcome(escapes.compiled(compile_, text), text) for text in tried]
    out = [pair for pair in zip(tried, outcomes, strict=True) if pair[1] not in ("refused", "inert")]
    for pair in out:
        print(f"  {pair}", file=sys.stderr)
    return Row(
        f"T21 {len(tried)} ways out of a template in {language}",
        "0 lead out",
        f"{len(out)} lead out, {outcomes.count('refused')} refused, {outcomes.count('inert')} inert",
        not out and outcomes.count("refused") > 0,
    )
