"""Client certificates: which API servers may ask."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID
from prometheus_client import CollectorRegistry

from injector.errors import ConfigError
from injector.metrics import Metrics
from injector.webhook.listener import Listener
from injector.webhook.tls.certificate import CertificateFiles, ClientAuthority, Pair
from injector.webhook.tls.certificatesource import FileSource, Handshakes, SelfCheck
from tests.cluster.fakes import in_fake_time
from tests.tasks import running
from tests.webhook.certificates import Issued, Order, authority, issue, rsa_key
from tests.webhook.tlspair import joined

LIMIT = 30.0
SERVER_ROOT, CLIENT_ROOT = authority("servers"), authority("clients")


@dataclass
class Port:
    """A port that demands clients' certificates, and the requests that it has answered."""

    number: int
    source: FileSource
    answered: list[str]
    folder: Path

    def client(self, issued: Issued | None, version: ssl.TLSVersion) -> ssl.SSLContext:
        context = ssl.create_default_context(cadata=SERVER_ROOT.chain_pem.decode())
        context.minimum_version = context.maximum_version = version
        if issued is not None:
            context.load_cert_chain(*issued.write(self.folder, "client"))
        return context

    async def ask(self, issued: Issued | None, version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> int:
        """The status of an answer; 0 where there is none."""
        url = f"https://localhost:{self.number}/"
        with suppress(aiohttp.ClientError, ssl.SSLError, OSError):
            async with (
                asyncio.timeout(LIMIT),
                aiohttp.ClientSession() as session,
                session.get(url, ssl=self.client(issued, version)) as answer,
            ):
                return answer.status
        return 0


@asynccontextmanager
async def port(folder: Path, *names: str, root: Issued = CLIENT_ROOT) -> AsyncIterator[Port]:
    answered: list[str] = []

    async def answer(request: web.BaseRequest) -> web.Response:
        answered.append(request.path)
        return web.Response(text="ok")

    (folder / "clients.crt").write_bytes(root.chain_pem)
    clients = ClientAuthority(folder / "clients.crt", names)
    files = CertificateFiles(*issue(issuer=SERVER_ROOT).write(folder))
    source = FileSource(files, handshakes=Handshakes(clients))
    listening = Listener(answer, clients)
    try:
        yield Port(await listening.listen("127.0.0.1", 0, source.context), source, answered, folder)
    finally:
        await listening.close()


def named(name: str, root: Issued = CLIENT_ROOT, *, since: float = -1, until: float = 24) -> Issued:
    return issue(Order(common_name=name, since=since, until=until), root)


VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]
REFUSED = {
    "none": None,
    "another authority": named("kube-apiserver", authority("others")),
    "another name": named("somebody"),
    "expired": named("kube-apiserver", until=-0.5),
    "not valid yet": named("kube-apiserver", since=1),
    "self-signed": issue(Order(common_name="kube-apiserver")),
}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", REFUSED)
async def test_whoever_has_no_right_certificate_gets_no_answer(
    tmp_path: Path, kind: str, version: ssl.TLSVersion
) -> None:
    async with port(tmp_path, "kube-apiserver") as served:
        refused = await served.ask(REFUSED[kind], version)
        right = await served.ask(named("kube-apiserver"), version)

    assert (refused, right, served.answered) == (0, 200, ["/"])


async def test_any_name_is_allowed_where_none_is_said_and_each_of_several_that_are(tmp_path: Path) -> None:
    async with port(tmp_path) as served:
        assert await served.ask(named("somebody")) == 200
    async with port(tmp_path, "one", "two") as served:
        assert [await served.ask(named(name)) for name in ("one", "two", "three")] == [200, 200, 0]


async def test_a_refused_name_is_told_and_not_quoted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with port(tmp_path, "kube-apiserver") as served:
        await served.ask(named("evil\x1b[31m"))

    assert "the name in the client certificate is not allowed" in caplog.text
    assert "evil" not in caplog.text


async def test_another_authority_of_clients_is_taken_up_and_the_former_one_refused(tmp_path: Path) -> None:
    other = authority("others")
    async with port(tmp_path) as served:
        (tmp_path / "clients.crt").write_bytes(other.chain_pem)
        assert served.source.poll() == "success"

        statuses = [await served.ask(named("a")), await served.ask(named("a", other))]

    assert statuses == [0, 200]


async def test_another_authority_of_clients_may_have_comments_in_any_encoding(tmp_path: Path) -> None:
    other = authority("others")
    async with port(tmp_path) as served:
        comments = "# Főtanúsítvány\n".encode() + b"# M\xfcller\n"
        (tmp_path / "clients.crt").write_bytes(comments + other.chain_pem + CLIENT_ROOT.chain_pem)
        assert served.source.poll() == "success"

        assert [await served.ask(named("a")), await served.ask(named("a", other))] == [200, 200]


HALF = CLIENT_ROOT.chain_pem + authority("others").chain_pem[:300]


@pytest.mark.parametrize("text", [b"", b"garbage", HALF, None])
async def test_an_authority_that_cannot_be_used_leaves_the_one_of_before_and_is_told_once(
    tmp_path: Path, text: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    async with port(tmp_path) as served:
        (tmp_path / "clients.crt").unlink()
        if text is not None:
            (tmp_path / "clients.crt").write_bytes(text)
        outcomes = [served.source.poll() for _ in range(3)]

        assert await served.ask(named("a")) == 200

    assert outcomes == ["failure", None, None]
    assert len([record for record in caplog.records if "rejected new client CA" in record.getMessage()]) == 1


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_session_cannot_be_resumed_past_a_change_of_the_authority(
    tmp_path: Path, version: ssl.TLSVersion
) -> None:
    async with port(tmp_path) as served:
        context = served.client(named("a"), version)
        session = await _session(served.number, context, None)
        (tmp_path / "clients.crt").write_bytes(authority("others").chain_pem)
        served.source.poll()

        assert session is not None
        assert await _answers(served.number, context, session) is False


async def _session(number: int, context: ssl.SSLContext, session: Any) -> Any:
    def connect() -> Any:
        with (
            socket.create_connection(("127.0.0.1", number), LIMIT) as plain,
            context.wrap_socket(plain, server_hostname="localhost", session=session) as connection,
        ):
            connection.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            return connection.session, connection.recv(100)

    tls_session, answer = await asyncio.to_thread(connect)
    assert answer.startswith(b"HTTP/1.1 200")
    return tls_session


async def _answers(number: int, context: ssl.SSLContext, session: Any) -> bool:
    with suppress(ssl.SSLError, OSError, AssertionError, ValueError):
        await _session(number, context, session)
        return True
    return False


def test_a_file_that_is_not_there_is_named_with_its_flag(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nope: cannot be read: No such file or directory; correct --client-ca-file"):
        ClientAuthority(tmp_path / "nope")


@pytest.mark.parametrize("certificate", [None, {}, {"subject": ()}, {"subject": ((("organizationName", "a"),),)}])
def test_a_certificate_without_a_name_is_allowed_where_any_is(
    tmp_path: Path, certificate: dict[str, Any] | None
) -> None:
    (tmp_path / "ca").write_bytes(CLIENT_ROOT.chain_pem)

    verdicts = [ClientAuthority(tmp_path / "ca", names).allows(certificate) for names in ((), ("a",))]

    assert verdicts == [True, False]


async def test_a_servers_certificate_is_no_clients(tmp_path: Path) -> None:
    usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
    async with port(tmp_path) as served:
        assert await served.ask(issue(Order(extension=usage), CLIENT_ROOT)) == 0


ROOT = authority()


def pair_of(issued: Issued) -> Pair:
    return Pair(issued.chain_pem, issued.key_pem)


def client(root: Issued = ROOT) -> ssl.SSLContext:
    return ssl.create_default_context(cadata=root.chain_pem.decode())


def test_a_handshake_before_there_is_a_certificate_is_refused() -> None:
    assert "callback failed" in joined(client(), Handshakes().context, "localhost")


@pytest.mark.parametrize("name", ["localhost", None])
def test_each_handshake_gets_the_newest_pair(name: str | None) -> None:
    handshakes, trusting = Handshakes(), client()
    trusting.check_hostname = name is not None
    other = authority()
    handshakes.use(handshakes.load(pair_of(issue(issuer=other)), where="x"))
    before = joined(trusting, handshakes.context, name)

    handshakes.use(handshakes.load(pair_of(issue(issuer=ROOT)), where="x"))

    assert "certificate verify failed" in before
    assert joined(trusting, handshakes.context, name) == ""


def test_tls_begins_at_1_2() -> None:
    handshakes = Handshakes()

    context = handshakes.load(pair_of(issue(issuer=ROOT)), where="x")

    assert {tls_context.minimum_version for tls_context in (handshakes.context, context)} == {ssl.TLSVersion.TLSv1_2}


def test_a_pair_of_any_size_is_loaded_from_memory() -> None:
    issued = issue(issuer=ROOT)
    handshakes = Handshakes()

    context = handshakes.load(Pair(issued.chain_pem + ROOT.chain_pem * 120, issued.key_pem), where="x")

    handshakes.use(context)
    assert joined(client(), handshakes.context, "localhost") == ""


@pytest.mark.parametrize(
    "pair",
    [
        Pair(b"", b""),
        Pair(issue().chain_pem, issue().key_pem),
        Pair(issue().chain_pem, rsa_key().public_key().public_numbers().n.to_bytes(256, "big")),
    ],
)
def test_what_openssl_refuses_is_named_and_not_quoted(pair: Pair) -> None:
    with pytest.raises(ConfigError) as caught:
        Handshakes().load(pair, where="tls.crt")

    assert str(caught.value).startswith("tls.crt: OpenSSL rejects it (")
    assert "PRIVATE" not in str(caught.value)


def test_with_clients_every_context_demands_a_certificate(tmp_path: Path) -> None:
    path = tmp_path / "clients.crt"
    path.write_bytes(ROOT.chain_pem)
    handshakes = Handshakes(clients := ClientAuthority(path))

    context = handshakes.load(pair_of(issue(issuer=ROOT)), where="x")

    assert (handshakes.context.verify_mode, context.verify_mode) == (ssl.CERT_REQUIRED, ssl.CERT_REQUIRED)
    assert (context.num_tickets, bool(context.options & ssl.OP_NO_TICKET)) == (0, True)
    path.write_bytes(authority().chain_pem)
    assert clients.poll() is True


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


async def test_the_file_of_the_authority_may_have_comments_in_any_encoding(tmp_path: Path) -> None:
    files = CertificateFiles(*issue(issuer=ROOT).write(tmp_path), tmp_path / "ca.crt")
    (tmp_path / "ca.crt").write_bytes("# Főtanúsítvány\n".encode() + b"# M\xfcller\n" + ROOT.chain_pem)
    own = FileSource(files)

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


@in_fake_time
async def test_before_there_is_a_certificate_there_is_nothing_to_ask_for(metrics: Metrics) -> None:
    probe = SelfCheck(Served(None, None), "")  # type: ignore[arg-type]

    async with running(probe.follow(metrics, 1)):
        await asyncio.sleep(30.0)
    assert await probe.fault(1) == "there is no certificate yet"


@in_fake_time
async def test_it_is_probed_each_half_minute_and_a_change_is_told_once(
    tmp_path: Path, metrics: Metrics, collector: CollectorRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    own = source(tmp_path, issue(issuer=ROOT))
    delays: list[float | None] = []
    faults = iter(["", "broken", "broken", "", "", ""])

    class Noted(SelfCheck):
        async def fault(self, port: int) -> str:
            assert port == 7
            return next(faults)

    async with running(Noted(own, "").follow(metrics, 7)):
        for _ in range(5):
            await asyncio.sleep(30.0)
            delays.append(collector.get_sample_value(PROBED))

    assert delays == [1, 0, 0, 1, 1]
    assert [record.getMessage() for record in caplog.records] == [
        "TLS self-check failed on port 7: broken",
        "TLS self-check succeeded on port 7",
    ]
