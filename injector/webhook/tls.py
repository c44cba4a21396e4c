"""The TLS context of the webhook's port."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

from injector.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path


def server_context(certificate: Path, key: Path) -> ssl.SSLContext:
    """Return the context for a certificate chain and its key, PEM; TLS 1.2 at least, HTTP/1.1 alone.

    Raises:
        ConfigError: a file cannot be read, is not PEM, or the two do not belong together.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    for path, flag in ((certificate, "--tlsCertFile"), (key, "--tlsKeyFile")):
        try:
            path.read_bytes()
        except OSError as error:
            raise ConfigError(f"cannot be read: {error.strerror}", where=str(path), hint=f"correct {flag}") from error
    try:
        context.load_cert_chain(certificate, key, password=_no_password)
    except ssl.SSLError as error:
        raise _fault(error, certificate, key) from error
    return context


def _fault(error: ssl.SSLError, certificate: Path, key: Path) -> ConfigError:
    if error.reason == "KEY_VALUES_MISMATCH":
        return ConfigError("is not the key of the certificate", where=str(key), hint=f"give the key of {certificate}")
    return ConfigError(
        f"they are no PEM certificate and key ({error.reason or error})",
        where=f"{certificate}, {key}",
        hint="give a certificate chain and its unencrypted key",
    )


def _no_password() -> str:
    """Keep OpenSSL from asking on the terminal for the password of an encrypted key."""
    return ""
