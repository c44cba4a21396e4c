"""Who may open a connection to the webhook's port, where that is asked: clients with a certificate of a known authority.

OpenSSL refuses the others within the handshake. Which names are allowed it cannot be told; so a certificate of
another name is refused between the handshake and the first byte of a request, by closing the connection.

An API server shows a certificate where its admission configuration says so (``--admission-control-config-file``,
https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/#authenticate-apiservers).
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from typing import TYPE_CHECKING, Any, cast

from injector.errors import ConfigError
from injector.webhook.authority import read_certificates

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

_log = logging.getLogger(__name__)


class ClientAuthority:
    """The authority that clients' certificates are of, read from a file and kept up to date with it.

    Args:
        path: the PEM file of the authority, or of several.
        names: the common names that are allowed; any with none.

    Raises:
        ConfigError: it cannot be read, or holds no certificate.
    """

    def __init__(self, path: Path, names: Sequence[str] = ()) -> None:
        self._path = path
        self._names = frozenset(names)
        self._pem = self._read()
        self._refused = ""

    def demand(self, context: ssl.SSLContext) -> None:
        """Let a context refuse whoever shows no certificate of the authority."""
        context.verify_mode = ssl.CERT_REQUIRED
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # an intermediate authority may be the one to trust
        context.load_verify_locations(cadata=self._pem)
        # A session that is resumed is not verified again: the authority may have changed meanwhile. What TLS 1.2 resumes
        # without a ticket ends at the gate.
        context.options |= ssl.OP_NO_TICKET
        context.num_tickets = 0

    def poll(self) -> bool | None:
        """Read the file; tell whether it holds another authority, or None where that cannot be used."""
        try:
            pem = self._read()
        except ConfigError as error:
            if self._refused != str(error):
                self._refused = str(error)
                _log.error("rejected new client CA, keeping the current one: %s", error)
                return None
            return False
        self._refused = ""
        if pem == self._pem:
            return False
        self._pem = pem
        _log.info("new client authority: %s", self._path)
        return True

    def allows(self, certificate: Mapping[str, Any] | None) -> bool:
        """Tell whether a client's certificate, as ``getpeercert`` gives it, has an allowed name."""
        subject = (certificate or {}).get("subject", ())
        named = {value for part in subject for key, value in part if key == "commonName"}
        return not self._names or not self._names.isdisjoint(named)

    def _read(self) -> str:
        try:
            text = self._path.read_bytes()
        except OSError as error:
            raise ConfigError(
                f"cannot be read: {error.strerror}", where=str(self._path), hint="correct --client-ca-file"
            ) from error
        if not read_certificates(text):
            raise ConfigError(
                "it is no PEM certificate", where=str(self._path), hint="give the CA of the clients' certificates"
            )
        return text.decode("latin-1")


class Gate(asyncio.Protocol):
    """What a connection meets after its handshake: the server, or its end."""

    def __init__(self, server: Callable[[], asyncio.Protocol], clients: ClientAuthority) -> None:
        # Made now, since who makes them counts those whose handshake is not done.
        self._protocol = server()
        self._clients = clients

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Give the connection to the server if the client's certificate was verified now and has an allowed name."""
        connection = cast("asyncio.Transport", transport)
        if connection.get_extra_info("ssl_object").session_reused:
            connection.abort()
            return
        if not self._clients.allows(connection.get_extra_info("peercert")):
            _log.warning("a client's certificate has a name that is not allowed: connection closed")
            connection.abort()
            return
        connection.set_protocol(self._protocol)
        self._protocol.connection_made(connection)
