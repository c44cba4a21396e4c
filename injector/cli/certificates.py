"""The webhook's certificate, its clients and its ``caBundle``, as the flags of ``serve`` say.

``cli/serve.py`` imports this where it serves, since the libraries below take their time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from injector.cluster.secrets import SecretStore
from injector.cluster.webhooks import Target
from injector.errors import UsageError
from injector.webhook.tls.cabundle import CaBundles
from injector.webhook.tls.certificate import CertificateFiles
from injector.webhook.tls.clients import ClientAuthority
from injector.webhook.tls.files import FileSource
from injector.webhook.tls.selfcheck import SelfCheck
from injector.webhook.tls.selfsigned import BundleRollout, CaSecret, ExternalRollout, SelfSigned, service_names
from injector.webhook.tls.source import Handshakes

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Mapping

    from injector.cluster.client import KubeClient
    from injector.metrics import Metrics
    from injector.settings import Settings
    from injector.webhook.lifecycle import Follow
    from injector.webhook.tls.source import CertificateSource

# https://kubernetes.io/docs/tasks/run-application/access-api-from-pod/#directly-accessing-the-rest-api
OWN_NAMESPACE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


@dataclass(frozen=True, slots=True)
class Tls:
    """The certificate of the port and who may connect, None in plain HTTP, and the tasks that follow the cluster for them, by name."""

    certificates: CertificateSource | None = None
    clients: ClientAuthority | None = None
    follow: Mapping[str, Follow] = field(default_factory=dict)

    def self_check(self, bind: str) -> SelfCheck | None:
        """Return the self-check of the port, which listens on address ``bind``."""
        return None if self.certificates is None else SelfCheck(self.certificates, bind)


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
    handshakes, rollout = Handshakes(clients), BundleRollout()
    follow: dict[str, Follow] = {}
    certificates: CertificateSource
    if client is not None and settings.self_signed:
        secret = _secret(settings, client, handshakes, rollout)
        certificates = secret.certificates
        follow["ca-secret"] = secret.follow
    else:
        certificates = _of_files(settings, handshakes)
    if client is not None and settings.patches:
        bundles = CaBundles(client, _target(settings), lambda: certificates.bundle, rollout=rollout, observer=metrics)
        certificates.changed = bundles.wake
        follow["cabundle"] = partial(_patching, client, bundles)
    return Tls(certificates, clients, follow)


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


def _secret(settings: Settings, client: KubeClient, handshakes: Handshakes, rollout: BundleRollout) -> CaSecret:
    namespace = own_namespace(settings)
    if not settings.patches:
        rollout = ExternalRollout()
    certificates = SelfSigned(service_names(settings.service, namespace), rollout, handshakes=handshakes)
    return CaSecret(SecretStore(client, namespace, settings.ca_secret), certificates, rollout)


def _of_files(settings: Settings, handshakes: Handshakes) -> FileSource:
    if settings.tls_cert_file is None or settings.tls_key_file is None:
        raise UsageError("the webhook has no certificate", hint="give --tlsCertFile and --tlsKeyFile")
    files = CertificateFiles(settings.tls_cert_file, settings.tls_key_file, settings.ca_cert_file)
    return FileSource(files, interval=settings.tls_reload_interval, handshakes=handshakes)


def _target(settings: Settings) -> Target:
    named = settings.webhook_config_name or ""
    return Target(settings.service, "" if named else own_namespace(settings), named, settings.webhook_name or "")


async def _patching(client: KubeClient, bundles: CaBundles, settled: asyncio.Event) -> None:
    """Follow the webhooks. Missing credentials end the start; other errors are retried."""
    await client.open()
    settled.set()
    await bundles.follow()
