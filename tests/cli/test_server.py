"""The parts of the server that ``injector serve`` starts for its settings."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from injector.cli.serve.server import own_namespace, tls_of, upgrade_controller
from injector.cluster.client import KubeClient
from injector.cluster.webhooks import WebhookSelector
from injector.errors import ConfigError, UsageError
from injector.metrics import Metrics
from injector.settings import Settings
from injector.upgrade.controller import Controller
from injector.webhook.lifecycle import Follow
from injector.webhook.tls.cabundle import CaBundles
from injector.webhook.tls.certificatesource import CertificateSource, FileSource
from injector.webhook.tls.selfsigned import BundleRollout, CaSecret, ExternalRollout, SelfSigned
from tests.webhook.certificates import authority, issue

SELF_SIGNED: dict[str, Any] = {"tls_mode": "self-signed", "namespace": "mesh"}


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Any]:
    """The flags of files that go together."""
    root = authority()
    (tmp_path / "ca.crt").write_bytes(root.chain_pem)
    chain, key = issue(issuer=root).write(tmp_path)
    return {"tls_cert_file": chain, "tls_key_file": key, "ca_cert_file": tmp_path / "ca.crt"}


@dataclass
class Tls:
    """The certificate of the webhook's port, and the tasks for it."""

    certificates: CertificateSource | None
    follow: dict[str, Follow]


def tls_for(**options: Any) -> Tls:
    settings = Settings(embedded=True, **options).check()
    client = KubeClient() if settings.asks_cluster else None
    return Tls(*tls_of(settings, client, Metrics(CollectorRegistry())))


def patching(tls: Tls) -> CaBundles:
    """Return the loop that keeps caBundle up to date."""
    work: Any = tls.follow["cabundle"]
    assert isinstance(work.__self__, CaBundles)
    return work.__self__


def secret(tls: Tls) -> CaSecret:
    """Return the task that keeps the Secret."""
    work: Any = tls.follow["ca-secret"]
    assert isinstance(work.__self__, CaSecret)
    return work.__self__


def test_plain_http_has_no_certificate() -> None:
    tls = tls_for(insecure_http=True)

    assert (tls.certificates, tls.follow) == (None, {})


def test_files_need_no_api_server(files: dict[str, Any]) -> None:
    tls = tls_for(**files)

    assert isinstance(tls.certificates, FileSource)
    assert tls.follow == {}
    assert tls.certificates.bundle == files["ca_cert_file"].read_bytes()


def test_the_ca_of_files_is_patched_into_webhooks_on_request(files: dict[str, Any]) -> None:
    tls = tls_for(**files, patch_webhooks=True, service="s", namespace="n")

    assert len(tls.follow) == 1
    assert patching(tls).selector == WebhookSelector("s", "n")
    assert patching(tls).bundle() == files["ca_cert_file"].read_bytes()


def test_the_old_flags_name_what_is_patched(files: dict[str, Any]) -> None:
    tls = tls_for(**files, webhook_config_name="istio-sidecar-injector", webhook_name="sidecar-injector.istio.io")

    assert patching(tls).selector == WebhookSelector(
        "injector", "", "istio-sidecar-injector", "sidecar-injector.istio.io"
    )


def test_self_signed_keeps_its_secret_and_patches_its_webhooks() -> None:
    tls = tls_for(**SELF_SIGNED, ca_secret="c", service="s")  # noqa: S106 -- a name

    assert isinstance(tls.certificates, SelfSigned)
    assert (len(tls.follow), str(secret(tls).store)) == (2, "Secret mesh/c")
    assert secret(tls).certificates is tls.certificates
    assert tls.certificates.names == ("s.mesh.svc", "s.mesh.svc.cluster.local")
    assert patching(tls).selector == WebhookSelector("s", "mesh")
    assert isinstance(tls.certificates.rollout, BundleRollout)
    assert (secret(tls).certificates, patching(tls).rollout) == (tls.certificates, tls.certificates.rollout)


def test_self_signed_without_patches_expects_an_external_rollout() -> None:
    tls = tls_for(**SELF_SIGNED, patch_webhooks=False)

    assert len(tls.follow) == 1
    assert isinstance(secret(tls).certificates.rollout, ExternalRollout)


@pytest.mark.parametrize("mode", ["files", "self-signed"])
def test_client_certificates_are_required_in_both_modes(files: dict[str, Any], mode: str) -> None:
    settings = files if mode == "files" else SELF_SIGNED

    tls = tls_for(**settings, client_ca_file=files["ca_cert_file"], client_name=("kube-apiserver",))

    assert tls.certificates is not None
    assert tls.certificates.clients is not None
    assert tls.certificates.context.verify_mode.name == "CERT_REQUIRED"


def test_the_namespace_is_given_or_the_pods_own(tmp_path: Path) -> None:
    (tmp_path / "namespace").write_text("own\n")

    assert own_namespace(Settings(namespace="said"), path=tmp_path / "namespace") == "said"
    assert own_namespace(Settings(), path=tmp_path / "namespace") == "own"
    with pytest.raises(UsageError, match="the namespace of the injector is not known; give --namespace"):
        own_namespace(Settings(), path=tmp_path / "nope")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="the namespace of the injector is not known; give --namespace"):
        own_namespace(Settings(), path=tmp_path / "pipe")


def test_a_missing_client_ca_ends_the_start(files: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="correct --client-ca-file"):
        tls_for(**files, client_ca_file=Path("/nope"))


def test_the_controller_of_upgrades_is_that_of_istios_namespace() -> None:
    settings = Settings(insecure_http=True, from_cluster=True, upgrades=True, istio_namespace=("mesh",)).check()
    controller, other = (controller_of(settings) for _ in range(2))

    assert (controller.lease.namespace, controller.lease.name) == ("mesh", "injector-upgrades")
    assert controller.lease.identity != other.lease.identity
    without_file = replace(settings, prometheus_token="x")  # noqa: S106 -- not a password
    with pytest.raises(UsageError, match="not URL=FILE"):
        controller_of(without_file)


def controller_of(settings: Settings) -> Controller:
    return upgrade_controller(settings, KubeClient(), Metrics(CollectorRegistry()))
