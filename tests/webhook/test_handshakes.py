from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

import pytest

from injector.errors import ConfigError
from injector.webhook.tls.certificate import Pair
from injector.webhook.tls.clients import ClientAuthority
from injector.webhook.tls.source import Handshakes
from tests.webhook.certificates import Issued, authority, issue, rsa_key
from tests.webhook.tlspair import joined

if TYPE_CHECKING:
    from pathlib import Path

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

    assert {each.minimum_version for each in (handshakes.context, context)} == {ssl.TLSVersion.TLSv1_2}


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


def test_without_clients_to_demand_nothing_changes() -> None:
    assert Handshakes().clients_changed() is False


def test_with_clients_every_context_demands_a_certificate(tmp_path: Path) -> None:
    path = tmp_path / "clients.crt"
    path.write_bytes(ROOT.chain_pem)
    handshakes = Handshakes(ClientAuthority(path))

    context = handshakes.load(pair_of(issue(issuer=ROOT)), where="x")

    assert (handshakes.context.verify_mode, context.verify_mode) == (ssl.CERT_REQUIRED, ssl.CERT_REQUIRED)
    assert (context.num_tickets, bool(context.options & ssl.OP_NO_TICKET)) == (0, True)
    path.write_bytes(authority().chain_pem)
    assert handshakes.clients_changed() is True
