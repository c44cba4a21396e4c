from __future__ import annotations

import asyncio
import socket
import ssl
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
from aiohttp import web
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from injector.errors import ConfigError
from injector.webhook.listener import Listener
from injector.webhook.tls.certificate import CertificateFiles
from injector.webhook.tls.clients import ClientAuthority
from injector.webhook.tls.files import FileSource
from injector.webhook.tls.source import Handshakes
from tests.webhook.certificates import Issued, Order, authority, issue

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

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

    async def answer(request: web.Request) -> web.Response:
        answered.append(request.path)
        return web.Response(text="ok")

    (folder / "clients.crt").write_bytes(root.chain_pem)
    clients = ClientAuthority(folder / "clients.crt", names)
    files = CertificateFiles(*issue(issuer=SERVER_ROOT).write(folder))
    source = FileSource(files, handshakes=Handshakes(clients))
    app = web.Application()
    app.router.add_get("/", answer)
    listening = Listener(app, clients)
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

        found = [await served.ask(named("a")), await served.ask(named("a", other))]

    assert found == [0, 200]


@pytest.mark.parametrize("text", [b"", b"garbage", None])
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
    assert len([each for each in caplog.records if "rejected new client CA" in each.getMessage()]) == 1


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

    found, answer = await asyncio.to_thread(connect)
    assert answer.startswith(b"HTTP/1.1 200")
    return found


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

    found = [ClientAuthority(tmp_path / "ca", names).allows(certificate) for names in ((), ("a",))]

    assert found == [True, False]


async def test_a_servers_certificate_is_no_clients(tmp_path: Path) -> None:
    usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
    async with port(tmp_path) as served:
        assert await served.ask(issue(Order(usage=usage), CLIENT_ROOT)) == 0
