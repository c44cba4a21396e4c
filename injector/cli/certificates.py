"""The webhook's certificate, its clients and its ``caBundle``, as the flags of ``serve`` say.

``cli/serve.py`` imports this where it serves, since the libraries below take their time.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from injector.cluster.secrets import SecretStore
from injector.cluster.webhooks import Target
from injector.errors import UsageError
from injector.webhook.cabundle import CaBundles
from injector.webhook.casecret import CaSecret
from injector.webhook.certificate import CertificateFiles
from injector.webhook.clients import ClientAuthority
from injector.webhook.handshakes import Handshakes
from injector.webhook.selfprobe import SelfProbe
from injector.webhook.selfsigned import SelfSigned, service_names
from injector.webhook.spread import Elsewhere, Spread
from injector.webhook.tls import CertificateSource

if TYPE_CHECKING:
    import asyncio

    from injector.cluster.client import KubeClient
    from injector.metrics import Metrics
    from injector.settings import Settings
    from injector.webhook.handshakes import Certificates
    from injector.webhook.server import Follow

# https://kubernetes.io/docs/tasks/run-application/access-api-from-pod/#directly-accessing-the-rest-api
OWN_NAMESPACE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


@dataclass(frozen=True, slots=True)
class Tls:
    """The certificate of the port and who may connect, None in plain HTTP, and what follows the cluster for them."""

    certificates: Certificates | None = None
    clients: ClientAuthority | None = None
    works: tuple[Follow, ...] = ()

    def probe(self, bind: str) -> SelfProbe | None:
        """Return what tries the port, which listens on ``bind``."""
        return None if self.certificates is None else SelfProbe(self.certificates, bind)


def tls_of(settings: Settings, client: KubeClient | None, metrics: Metrics) -> Tls:
    """Return what the settings say of TLS; ``client`` is the API server's, if it is asked at all.

    Raises:
        ConfigError: a file of it cannot be used.
        UsageError: the namespace is not known.
    """
    if settings.insecure_http:
        return Tls()
    clients = (
        None if settings.client_ca_file is None else ClientAuthority(settings.client_ca_file, settings.client_name)
    )
    handshakes, spread = Handshakes(clients), Spread()
    works: tuple[Follow, ...] = ()
    certificates: Certificates
    if client is not None and settings.self_signed:
        secret = _secret(settings, client, handshakes, spread)
        certificates, works = secret.certificates, (secret.follow,)
    else:
        certificates = _of_files(settings, handshakes)
    if client is not None and settings.patches:
        bundles = CaBundles(client, _target(settings), lambda: certificates.bundle, spread=spread, observer=metrics)
        certificates.subscribe(bundles.wake)
        works = (*works, partial(_patching, client, bundles, metrics))
    return Tls(certificates, clients, works)


def own_namespace(settings: Settings, *, path: Path = OWN_NAMESPACE) -> str:
    """Return the namespace of the injector's Service and Secret.

    Raises:
        UsageError: it is not said, and this is no pod.
    """
    if settings.namespace:
        return settings.namespace
    try:
        return path.read_text().strip()
    except OSError as error:
        raise UsageError("the namespace of the injector is not known", hint="give --namespace") from error


def _secret(settings: Settings, client: KubeClient, handshakes: Handshakes, spread: Spread) -> CaSecret:
    namespace = own_namespace(settings)
    reach = spread if settings.patches else Elsewhere()
    certificates = SelfSigned(service_names(settings.service, namespace), reach, handshakes=handshakes)
    return CaSecret(SecretStore(client, namespace, settings.ca_secret), certificates, reach)


def _of_files(settings: Settings, handshakes: Handshakes) -> CertificateSource:
    if settings.tls_cert_file is None or settings.tls_key_file is None:
        raise UsageError("the webhook has no certificate", hint="give --tlsCertFile and --tlsKeyFile")
    files = CertificateFiles(settings.tls_cert_file, settings.tls_key_file, settings.ca_cert_file)
    return CertificateSource(files, interval=settings.tls_reload_interval, handshakes=handshakes)


def _target(settings: Settings) -> Target:
    named = settings.webhook_config_name or ""
    return Target(settings.service, "" if named else own_namespace(settings), named, settings.webhook_name or "")


async def _patching(client: KubeClient, bundles: CaBundles, metrics: Metrics, settled: asyncio.Event) -> None:
    """Follow the webhooks; that credentials are missing ends the start, all else is tried again."""
    await client.open()
    settled.set()
    await bundles.follow(client, metrics)
