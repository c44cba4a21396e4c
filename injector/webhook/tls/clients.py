"""Client certificates: which API servers may call the webhook.

An API server shows a client certificate if its admission configuration says so (``--admission-control-config-file``,
https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/#authenticate-apiservers). OpenSSL refuses clients
without a certificate of the CA. It does not check names, so a certificate with another name is refused after the handshake.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from injector.errors import ConfigError
from injector.webhook.tls.certificate import read_certificates

if TYPE_CHECKING:
    import asyncio
    from pathlib import Path

_log = logging.getLogger(__name__)


class ClientAuthority:
    """The CA of client certificates, kept up to date with its file.

    Args:
        path: the PEM file, with one or more CA certificates.
        names: the common names that are allowed; empty allows any.

    Raises:
        ConfigError: the file cannot be read, or has no certificate.
    """

    def __init__(self, path: Path, names: Sequence[str] = ()) -> None:
        self.path = path
        self._names = frozenset(names)
        self._pem = self._read()
        self._rejected = ""

    def require(self, context: ssl.SSLContext) -> None:
        """Make a context refuse clients without a certificate of the CA."""
        context.verify_mode = ssl.CERT_REQUIRED
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # the trusted certificate may be an intermediate CA
        context.load_verify_locations(cadata=self._pem)
        # A resumed session is not verified again, although the CA may have changed. ``admits`` refuses those that TLS 1.2 resumes
        # without a ticket.
        context.options |= ssl.OP_NO_TICKET
        context.num_tickets = 0

    def poll(self) -> bool | None:
        """Read the file. Return whether the CA has changed, or None if the new content is rejected, once per error."""
        try:
            pem = self._read()
        except ConfigError as error:
            if self._rejected == str(error):
                return False
            self._rejected = str(error)
            _log.error("rejected new client CA, keeping the current one: %s", error)
            return None
        self._rejected = ""
        if pem == self._pem:
            return False
        self._pem = pem
        _log.info("new client CA: %s", self.path)
        return True

    def allows(self, certificate: Mapping[str, Any] | None) -> bool:
        """Return whether a client certificate, in the form of ``getpeercert``, has an allowed common name."""
        subject = (certificate or {}).get("subject", ())
        names = {value for part in subject for key, value in part if key == "commonName"}
        return not self._names or not self._names.isdisjoint(names)

    def admits(self, transport: asyncio.BaseTransport) -> bool:
        """Return whether the client showed a certificate with an allowed name in this very handshake."""
        if transport.get_extra_info("ssl_object").session_reused:
            return False
        if self.allows(transport.get_extra_info("peercert")):
            return True
        _log.warning("connection closed: the name in the client certificate is not allowed")
        return False

    def _read(self) -> str:
        try:
            text = self.path.read_bytes()
        except OSError as error:
            raise ConfigError(
                f"cannot be read: {error.strerror}", where=str(self.path), hint="correct --client-ca-file"
            ) from error
        if not read_certificates(text):
            raise ConfigError(
                "not a PEM certificate", where=str(self.path), hint="give the CA of the client certificates"
            )
        return text.decode("latin-1")
