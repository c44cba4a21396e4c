"""The gates that ask Prometheus or another URL.

The first have PromQL from sandboxed Jinja2 templates, and use Prometheus' HTTP API.

A template that uses ``workload`` is asked for each workload of the wave, one that uses only ``namespace`` for each namespace, and any other
once. A gate fails if any answer is outside its thresholds. An empty answer, NaN and an error are "no data".

A webhook gets a request as Flagger's webhooks do. 2xx is a pass, and any other answer a failure. A URL that does not answer is "no data".
"""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass, field, replace
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import aiohttp
import jinja2
from jinja2.meta import find_undeclared_variables

from injector.cluster.tls import client_context
from injector.errors import ConfigError, DataError, UsageError
from injector.golang.json import load_json
from injector.gotemplate.budget import DEFAULT_BUDGET, Rendering, use_meter
from injector.istio.jinja.sandbox import Sandbox
from injector.regularfiles import DAEMON_THREADS
from injector.revisions.files import TimedReads, required_text
from injector.upgrade.observation import FAILED, NO_DATA, PASSED, GateResult
from injector.upgrade.state import GATEWAYS

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping

    from injector.upgrade.document import GateWebhook, Metric, Upgrade
    from injector.upgrade.plan import Key
    from injector.upgrade.state import State

VARIABLES: Final = ("namespace", "workload", "reporter", "from", "to", "interval", "before")
REQUEST_TIMEOUT: Final = 20.0
GATE_TOKEN_FLAG: Final = "--gate-token"  # noqa: S105 -- not a password
CONCURRENCY: Final = 5
"""Queries at once: Prometheus runs 20 by default (--query.max-concurrency), and others use it too."""
EVALUATION_TIMEOUT: Final = 60.0
"""Seconds after which no further query is sent: meanwhile, the runner sees neither the pods nor the commands of users."""
MIN_INTERVAL: Final = 60.0
"""The least range of a rate, in seconds: two scrapes of Istio's default interval of 15 s, and some more."""
MAX_TEXT: Final = 4096
"""Bytes that are read of the answer of a webhook that fails; nothing is read of a pass."""
_MAX_DETAIL: Final = 200
MAX_ANSWER: Final = 4 << 20
"""Bytes of an answer, decompressed. Another person may have written the URL into the document."""
_LABELS: Final = 'reporter="{{ reporter }}",{{ reporter }}_workload_namespace="{{ namespace }}",{{ reporter }}_workload="{{ workload }}"'
_REQUESTS: Final = "sum(rate(istio_requests_total{%s}[{{ interval }}]%s))"
_BUCKETS: Final = (
    "histogram_quantile(0.99, sum by (le) (rate(istio_request_duration_milliseconds_bucket{%s}[{{ interval }}]%s)))"
)
_BEFORE: Final = " offset {{ before }}"


def _success_rate(offset: str) -> str:
    good = _REQUESTS % (f'{_LABELS},response_code!~"5.."', offset)
    return f"({good} / {_REQUESTS % (_LABELS, offset)})"


QUERIES: Final[Mapping[str, str]] = {
    "success-rate": f"{_success_rate('')} / {_success_rate(_BEFORE)}",
    "latency": f"{_BUCKETS % (_LABELS, '')} / {_BUCKETS % (_LABELS, _BEFORE)}",
}
"""The built-in queries, from Istio's standard metrics: the value since the wave divided by the value before it."""


@dataclass(frozen=True, slots=True)
class BearerToken:
    """The file with the bearer token of one URL. It is sent to no other URL, as another person may write the document."""

    url: str
    file: Path
    _reads: TimedReads = field(default_factory=TimedReads, compare=False, repr=False)
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock, compare=False, repr=False)

    async def header(self) -> str:
        """Return the value of the header, read from the file each time. Raises ConfigError if the file cannot be read in time."""
        read = partial(self._reads.read, partial(required_text, self.file), "the token", where=str(self.file))
        async with self._turn:
            token = await asyncio.get_running_loop().run_in_executor(DAEMON_THREADS, read)
        return f"Bearer {token.strip()}"


@dataclass(frozen=True, slots=True)
class Tokens:
    """The bearer tokens of the gates: of Prometheus, and of webhooks."""

    prometheus: BearerToken | None = None
    webhooks: tuple[BearerToken, ...] = ()

    def of(self, url: str) -> BearerToken | None:
        """Return the token of a webhook."""
        return next((token for token in self.webhooks if token.url == url), None)

    @classmethod
    def read(cls, prometheus: str | None, webhooks: Iterable[str]) -> Tokens:
        """Read the settings. Raises UsageError if one is not valid."""
        tokens = (read_token(text, flag=GATE_TOKEN_FLAG) for text in webhooks)
        return cls(read_token(prometheus), tuple(token for token in tokens if token is not None))


def read_token(text: str | None, *, flag: str = "--prometheus-token") -> BearerToken | None:
    """Read the setting ``URL=FILE``; None if it is not given. Raises UsageError if it is not such a pair."""
    if not text:
        return None
    url, separator, file = text.rpartition("=")
    if not separator or not url.startswith(("http://", "https://")) or not file:
        hint = "write it as https://HOST:PORT=/path/to/token"
        raise UsageError("it is not URL=FILE", where=flag, hint=hint)
    return BearerToken(url, Path(file))


@dataclass(frozen=True, slots=True)
class Query:
    """The template of a gate, parsed, and the variables that it uses."""

    metric: Metric
    template: jinja2.Template
    variables: frozenset[str]

    def render(self, values: Mapping[str, str]) -> str:
        """Return the PromQL. Raises ConfigError if the template fails or exceeds its budget."""
        try:
            with use_meter(Rendering(DEFAULT_BUDGET)):
                return self.template.render(values)
        except Exception as error:
            raise _bad(self.metric, str(error) or type(error).__name__) from error


def parse_queries(upgrade: Upgrade) -> tuple[Query, ...]:
    """Parse the templates of an upgrade. Raises ConfigError if a template does not parse, or uses an unknown variable."""
    queries = []
    for metric in upgrade.gates.metrics:
        text = metric.query or QUERIES[metric.name]
        sandbox = Sandbox({metric.name: text})
        sandbox.globals.clear()  # one of them is called `namespace`
        try:
            variables = frozenset(find_undeclared_variables(sandbox.parse(text)))
            template = sandbox.load(metric.name)
        except jinja2.TemplateError as error:
            raise _bad(metric, str(error)) from error
        unknown = variables.difference(VARIABLES)
        if unknown:
            raise _bad(metric, f"unknown variable {min(unknown)}; known are {', '.join(VARIABLES)}")
        query = Query(metric, template, variables)
        query.render(dict.fromkeys(VARIABLES, "x"))
        queries.append(query)
    return tuple(queries)


def _bad(metric: Metric, what: str) -> ConfigError:
    return ConfigError(" ".join(what.split()), where=f"gate {metric.name}", hint="correct the template of the query")


async def evaluate(
    upgrade: Upgrade,
    state: State,
    workloads: Iterable[Key],
    now: float,
    tokens: Tokens | None = None,
    *,
    gateways: Container[Key] = (),
) -> tuple[GateResult, ...]:
    """Return the results of the gates for the workloads of the wave, in the document's order. Raises ConfigError as ``parse_queries``.

    Those of ``gateways`` are injected as gateways. In the step of the Gateways, all are.
    """
    queries = parse_queries(upgrade)
    interval = max(MIN_INTERVAL, now - state.since)
    shared = {
        "from": upgrade.source,
        "to": upgrade.target,
        "interval": f"{int(interval)}s",
        "before": f"{max(int(now - state.token), 1)}s",
    }
    keys, tokens = sorted(workloads), tokens or Tokens()
    # The proxy of a gateway reports requests only as their client (istio.io, Istio Standard Metrics).
    reporters = {key: "source" if state.step == GATEWAYS or key in gateways else "destination" for key in keys}
    limit = asyncio.Semaphore(CONCURRENCY)
    limits = aiohttp.ClientTimeout(total=REQUEST_TIMEOUT)
    tls = await asyncio.to_thread(client_context)  # it reads the certificates of the machine
    async with (
        aiohttp.ClientSession(timeout=limits, auto_decompress=True, connector=aiohttp.TCPConnector(ssl=tls)) as session,
        # An answer that grows when it is decompressed could exceed the limit.
        aiohttp.ClientSession(auto_decompress=False, connector=aiohttp.TCPConnector(ssl=tls)) as plain_session,
    ):
        token = tokens.prometheus
        own = token if token is not None and token.url == upgrade.gates.prometheus else None
        end = asyncio.get_running_loop().time() + EVALUATION_TIMEOUT
        prometheus = _Prometheus(session, upgrade.gates.prometheus, limit, own, end)

        calls = [
            _call(prometheus, plain_session, webhook, _request(upgrade, state, webhook, keys), tokens.of(webhook.url))
            for webhook in upgrade.gates.webhooks
        ]
        called = asyncio.gather(*calls)
        try:
            results = [await _result(prometheus, query, shared, reporters) for query in queries]
        finally:
            webhook_results = await called
        return (*results, *webhook_results)


def _request(upgrade: Upgrade, state: State, webhook: GateWebhook, keys: Iterable[Key]) -> dict[str, Any]:
    """Return the body of a webhook's request, which begins with the fields of Flagger's. An Upgrade has no namespace."""
    return {
        "name": upgrade.name,
        "namespace": "",
        "phase": "Progressing",
        "metadata": dict(webhook.metadata),
        "tag": upgrade.tag,
        "from": upgrade.source,
        "to": upgrade.target,
        "wave": upgrade.waves[state.wave].name,
        "namespaces": sorted({key.namespace for key in keys}),
    }


async def _call(
    prometheus: _Prometheus, session: aiohttp.ClientSession, webhook: GateWebhook, body: Any, token: BearerToken | None
) -> GateResult:
    """Return the result of a webhook. It shares the limits of the queries."""
    name, headers = webhook.name, {}
    if token is not None:
        try:
            headers["Authorization"] = await token.header()
        except ConfigError:
            return GateResult(name, NO_DATA, f"the file of {GATE_TOKEN_FLAG} cannot be read")
    try:
        async with prometheus.limit:
            if asyncio.get_running_loop().time() > prometheus.end:
                return GateResult(name, NO_DATA, f"the gates take longer than {EVALUATION_TIMEOUT:.0f} s")
            limits = aiohttp.ClientTimeout(total=webhook.timeout)
            # A redirect could lead the token elsewhere.
            sent = session.post(webhook.url, json=body, headers=headers, allow_redirects=False, timeout=limits)
            async with sent as answer:
                status = f"HTTP {answer.status}"
                if HTTPStatus.OK <= answer.status < HTTPStatus.MULTIPLE_CHOICES:
                    return GateResult(name, PASSED, status)
                if answer.status < HTTPStatus.BAD_REQUEST:
                    return GateResult(name, FAILED, f"{status}, and a redirect is not followed")
                # A server may repeat the token.
                text = "" if headers else await _first_text(answer)
                return GateResult(name, FAILED, f"{status}: {text}" if text else status)
    except TimeoutError:
        return GateResult(name, NO_DATA, f"it does not answer within {webhook.timeout:g} s")
    except (aiohttp.ClientError, OSError, ValueError) as error:
        return GateResult(name, NO_DATA, f"it cannot be reached: {type(error).__name__}")


async def _first_text(answer: aiohttp.ClientResponse) -> str:
    """Return the beginning of an answer in one line; empty if it does not arrive, or is not text."""
    try:
        text = (await answer.content.read(MAX_TEXT)).decode(errors="replace")
    except (aiohttp.ClientError, TimeoutError, OSError):
        return ""
    line = " ".join(text.split())[:_MAX_DETAIL]
    return line if line.isprintable() else ""


async def _result(
    prometheus: _Prometheus, query: Query, shared: Mapping[str, str], reporters: Mapping[Key, str]
) -> GateResult:
    values_by_query: dict[str, dict[str, str]] = {}
    for key, reporter in reporters.items():
        values = {**shared, "namespace": key.namespace, "workload": key.name, "reporter": reporter}
        values_by_query.setdefault(" ".join(query.render(values).split()), values)
    answers = await asyncio.gather(*(prometheus.ask(text) for text in values_by_query))
    results = [
        _judge(query, values, answer) for values, answer in zip(values_by_query.values(), answers, strict=True)
    ] or [GateResult(query.metric.name, PASSED, "no workload was restarted")]
    ranks = {FAILED: 0, NO_DATA: 1, PASSED: 2}
    worst = min(results, key=lambda result: ranks[result.result])
    more = sum(result.result == worst.result for result in results) - 1
    has_more = more and worst.result != PASSED
    return replace(worst, detail=f"{worst.detail} (and {more} more)") if has_more else worst


def _judge(query: Query, values: Mapping[str, str], answer: list[float] | str) -> GateResult:
    metric = query.metric
    place = ""
    if "workload" in query.variables:
        place = f"{values['namespace']}/{values['workload']}: "
    elif "namespace" in query.variables:
        place = f"{values['namespace']}: "
    if isinstance(answer, str):
        return GateResult(metric.name, NO_DATA, f"{place}{answer}")
    for value in answer:
        if metric.min is not None and value < metric.min:
            return GateResult(metric.name, FAILED, f"{place}{value:g} is below {metric.min:g}")
        if metric.max is not None and value > metric.max:
            return GateResult(metric.name, FAILED, f"{place}{value:g} is above {metric.max:g}")
    if not answer or any(map(math.isnan, answer)):
        return GateResult(metric.name, NO_DATA, f"{place}the query has no result")
    return GateResult(metric.name, PASSED, f"{place}{', '.join(f'{value:g}' for value in answer[:3])}")


@dataclass(frozen=True, slots=True)
class _Prometheus:
    session: aiohttp.ClientSession
    url: str
    limit: asyncio.Semaphore
    token: BearerToken | None
    end: float

    async def ask(self, query: str) -> list[float] | str:
        """Return the values of an instant query, or why there are none."""
        url, headers = f"{self.url.rstrip('/')}/api/v1/query", {}
        if self.token is not None:
            try:
                headers["Authorization"] = await self.token.header()
            except ConfigError:
                return "the file of --prometheus-token cannot be read"
        try:
            async with self.limit:
                if asyncio.get_running_loop().time() > self.end:
                    return f"the queries take longer than {EVALUATION_TIMEOUT:.0f} s"
                # A redirect could lead the token elsewhere.
                sent = self.session.post(url, data={"query": query}, headers=headers, allow_redirects=False)
                async with sent as answer:
                    body = bytearray()
                    async for part in answer.content.iter_any():
                        body += part
                        if len(body) > MAX_ANSWER:
                            return f"the answer of Prometheus is longer than {MAX_ANSWER >> 20} MiB"
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            return f"Prometheus cannot be reached: {type(error).__name__}"
        try:
            return _values(load_json(bytes(body)))
        except (DataError, KeyError, TypeError, ValueError, IndexError):
            return f"the answer of Prometheus cannot be read (HTTP {answer.status})"


def _values(answer: Any) -> list[float] | str:
    if answer["status"] != "success":
        return f"Prometheus refuses the query: {' '.join(str(answer.get('error')).split())[:200]}"
    data = answer["data"]
    samples = [data["result"]] if data["resultType"] == "scalar" else [sample["value"] for sample in data["result"]]
    return [float(sample[1]) for sample in samples]
