"""The TLS of clients: which certificates of servers they accept."""

from __future__ import annotations

import ssl


def client_context(ca: str = "") -> ssl.SSLContext:
    """Return the TLS of a client that trusts ``ca``, certificates as PEM; without any, it trusts those of this machine.

    Since version 3.13, Python also demands what Go does not, such as an authority key identifier. API servers, kubectl and istiod accept a
    certificate without it, as ``openssl x509 -req`` made them before version 3.2.

    Raises ssl.SSLError or ValueError if no certificate can be read.
    """
    context = ssl.create_default_context(cadata=ca or None)
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context
