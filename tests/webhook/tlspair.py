"""A TLS handshake in memory: between a certificate and whoever trusts an authority."""

from __future__ import annotations

import ssl
from contextlib import suppress
from hashlib import sha256

from injector.webhook.tls.certificate import Pair
from injector.webhook.tls.certificatesource import Handshakes


def handshake(pair: Pair, trusted: bytes, name: str, *, flags: ssl.VerifyFlags = ssl.VERIFY_DEFAULT) -> str:
    """Why a client that trusts ``trusted`` does not take the pair for ``name``; empty where it does."""
    handshakes = Handshakes()
    handshakes.use(handshakes.load(pair, where="pair"))
    client = ssl.create_default_context(cadata=trusted.decode())
    client.verify_flags |= flags
    return joined(client, handshakes.context, name)


def joined(client: ssl.SSLContext, server: ssl.SSLContext, name: str | None) -> str:
    """Why the two do not come together; empty where they do."""
    try:
        shown_by(server, client, name)
    except ssl.SSLError as error:
        return str(error)
    return ""


def shown_by(server: ssl.SSLContext, client: ssl.SSLContext, name: str | None = "localhost") -> str:
    """Return the fingerprint of the certificate that a client is shown in a handshake.

    Raises:
        ssl.SSLError: the two do not come together.
    """
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = client.wrap_bio(back, there, server_hostname=name)
    ends = [ours, server.wrap_bio(there, back, server_side=True)]
    while ends:
        for end in list(ends):
            with suppress(ssl.SSLWantReadError):
                end.do_handshake()
                ends.remove(end)
    certificate = ours.getpeercert(binary_form=True)
    return "" if certificate is None else sha256(certificate).hexdigest()
