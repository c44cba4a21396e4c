"""Which certificates of servers clients accept, also with a version of Python that demands more of them than Go does."""

from __future__ import annotations

import base64
import json
import ssl
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from injector.cluster.client import KubeClient
from injector.cluster.kubeconfig import Kubeconfig
from injector.cluster.resources import CONFIG_MAPS
from injector.cluster.tls import client_context
from tests.cluster.fakes import kubeconfig_of
from tests.webhook.certificates import Issued, Order, authority, issue


@pytest.fixture
def strict(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python from version 3.13 on."""
    create = ssl.create_default_context

    def create_strict(*arguments: Any, **named: Any) -> ssl.SSLContext:
        context = create(*arguments, **named)
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        return context

    monkeypatch.setattr(ssl, "create_default_context", create_strict)


def connect(context: ssl.SSLContext, issued: Issued, folder: Path) -> None:
    """Make a TLS handshake in memory."""
    server_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_context.load_cert_chain(*issued.write(folder))
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = server_context.wrap_bio(to_server, to_client, server_side=True)
    client = context.wrap_bio(to_client, to_server, server_hostname="localhost")
    for side in (client, server, client):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue


@pytest.mark.usefixtures("strict")
def test_a_certificate_without_an_authority_key_identifier_is_accepted(tmp_path: Path) -> None:
    signer = authority()
    issued, ca = issue(Order(), signer), signer.chain_pem.decode()

    connect(client_context(ca), issued, tmp_path)
    with pytest.raises(ssl.SSLCertVerificationError, match="certificate verify failed"):
        connect(ssl.create_default_context(cadata=ca), issued, tmp_path)
    with pytest.raises(ssl.SSLCertVerificationError, match="certificate verify failed"):
        connect(client_context(authority().chain_pem.decode()), issued, tmp_path)


@pytest.mark.usefixtures("strict")
async def test_an_api_server_with_such_a_certificate_is_reached(tmp_path: Path) -> None:
    signer = authority()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*issue(Order(), signer).write(tmp_path))

    async def answer(_: web.Request) -> web.Response:
        return web.json_response({"kind": "ConfigMap"})

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    server = TestServer(app, scheme="https")
    await server.start_server(ssl=context)
    async with server:
        config = json.loads(kubeconfig_of(f"https://localhost:{server.port}"))
        ca = base64.b64encode(signer.chain_pem).decode()
        config["clusters"][0]["cluster"]["certificate-authority-data"] = ca
        (tmp_path / "kubeconfig").write_text(json.dumps(config))
        client = KubeClient(Kubeconfig((tmp_path / "kubeconfig",)))
        try:
            assert await client.get(CONFIG_MAPS, "x", namespace="shop") == {"kind": "ConfigMap"}
        finally:
            await client.close()
