from __future__ import annotations

import asyncio
import ssl
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from injector.webhook.tls.certificate import CertificateFiles
from injector.webhook.tls.clients import ClientAuthority
from injector.webhook.tls.files import FileSource
from injector.webhook.tls.selfcheck import INTERVAL, SelfCheck
from injector.webhook.tls.source import Handshakes
from tests.webhook.certificates import Issued, Order, authority, issue

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from prometheus_client import CollectorRegistry

    from injector.metrics import Metrics

ROOT = authority()
PROBED = "injector_tls_probe_success"


@dataclass
class Served:
    """What the injector believes that its port serves."""

    certificate: Any
    bundle: bytes | None


def source(folder: Path, issued: Issued, *, known: bool = True, handshakes: Handshakes | None = None) -> FileSource:
    (folder / "ca.crt").write_bytes(ROOT.chain_pem)
    chain, key = issued.write(folder)
    files = CertificateFiles(chain, key, folder / "ca.crt" if known else None)
    return FileSource(files, handshakes=handshakes)


@asynccontextmanager
async def listening(context: ssl.SSLContext | None, host: str = "127.0.0.1") -> AsyncIterator[int]:
    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello, this is plain text")
        with suppress(OSError):
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(greet, host, 0, ssl=context)
    async with server:
        yield int(server.sockets[0].getsockname()[1])


@pytest.mark.parametrize("names", [("localhost",), ("*.mesh.svc",), ("127.0.0.1",)])
@pytest.mark.parametrize("known", [True, False])
async def test_its_own_port_is_well(tmp_path: Path, names: tuple[str, ...], known: bool) -> None:
    own = source(tmp_path, issue(Order(names=names), ROOT), known=known)

    async with listening(own.context) as port:
        assert await SelfCheck(own, "127.0.0.1").fault(port) == ""


async def test_a_port_that_demands_clients_certificates_is_well_though_the_probe_has_none(tmp_path: Path) -> None:
    (tmp_path / "clients.crt").write_bytes(authority("clients").chain_pem)
    own = source(tmp_path, issue(issuer=ROOT), handshakes=Handshakes(ClientAuthority(tmp_path / "clients.crt")))

    async with listening(own.context) as port:
        assert await SelfCheck(own, "127.0.0.1").fault(port) == ""


@pytest.mark.parametrize("bind", ["", "0.0.0.0"])  # noqa: S104 -- what a user may bind to
async def test_what_listens_everywhere_is_asked_on_the_loopback(tmp_path: Path, bind: str) -> None:
    own = source(tmp_path, issue(issuer=ROOT))

    async with listening(own.context) as port:
        assert await SelfCheck(own, bind).fault(port) == ""


@pytest.mark.parametrize(
    ("order", "root", "says"),
    [
        (Order(), authority("others"), "unable to get local issuer certificate"),
        (Order(until=-0.5), ROOT, "certificate has expired"),
        (Order(names=("other",)), ROOT, "Hostname mismatch"),
        (Order(), ROOT, "the port serves another certificate than the injector's"),
    ],
)
async def test_what_an_api_server_would_not_take_is_a_fault(
    tmp_path: Path, order: Order, root: Issued, says: str
) -> None:
    own = source(tmp_path, issue(issuer=ROOT))
    other = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    other.load_cert_chain(*issue(order, root).write(tmp_path, "other"))

    async with listening(other) as port:
        assert says in await SelfCheck(own, "127.0.0.1").fault(port)


async def test_a_port_that_speaks_no_tls_or_does_not_answer_is_a_fault(tmp_path: Path) -> None:
    own = source(tmp_path, issue(issuer=ROOT))

    async with listening(None) as port:
        plain = await SelfCheck(own, "127.0.0.1").fault(port)
    closed = await SelfCheck(own, "127.0.0.1").fault(port)

    assert plain
    assert closed


async def test_before_there_is_a_certificate_there_is_nothing_to_ask_for(metrics: Metrics) -> None:
    class EndError(Exception):
        pass

    async def end(_: float) -> None:
        raise EndError

    probe = SelfCheck(Served(None, None), "", sleep=end)  # type: ignore[arg-type]

    with pytest.raises(EndError):
        await probe.follow(metrics, 1)
    assert await probe.fault(1) == "there is no certificate yet"


async def test_it_is_probed_each_half_minute_and_a_change_is_told_once(
    tmp_path: Path, metrics: Metrics, collector: CollectorRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    own = source(tmp_path, issue(issuer=ROOT))
    seen: list[tuple[float, float | None]] = []
    faults = ["", "broken", "broken", "", ""]

    async def pause(seconds: float) -> None:
        seen.append((seconds, collector.get_sample_value(PROBED)))
        if len(seen) == len(faults):
            raise asyncio.CancelledError

    class Told(SelfCheck):
        async def fault(self, port: int) -> str:
            assert port == 7
            return faults[len(seen)]

    with suppress(asyncio.CancelledError):
        await Told(own, "", sleep=pause).follow(metrics, 7)

    assert seen == [
        (INTERVAL, 1),
        (INTERVAL, 0),
        (INTERVAL, 0),
        (INTERVAL, 1),
        (INTERVAL, 1),
    ]
    assert [each.getMessage() for each in caplog.records] == [
        "TLS self-check failed on port 7: broken",
        "TLS self-check succeeded on port 7",
    ]
