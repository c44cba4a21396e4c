from __future__ import annotations

import asyncio
import io
import json
import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client import CollectorRegistry

from injector.cli.server import JsonFormatter, TextFormatter, log_to, own_namespace, tls_of
from injector.cluster.client import KubeClient
from injector.cluster.webhooks import Target
from injector.errors import ConfigError, UsageError
from injector.metrics import Metrics
from injector.settings import Settings
from injector.webhook.decisions import FIELDS
from injector.webhook.tls.cabundle import CaBundles
from injector.webhook.tls.files import FileSource
from injector.webhook.tls.selfsigned import BundleRollout, CaSecret, ExternalRollout, SelfSigned
from tests.webhook.certificates import authority, issue

if TYPE_CHECKING:
    from injector.cli.server import Tls


SELF_SIGNED: dict[str, Any] = {"tls_mode": "self-signed", "namespace": "mesh"}


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Any]:
    """The flags of files that go together."""
    root = authority()
    (tmp_path / "ca.crt").write_bytes(root.chain_pem)
    chain, key = issue(issuer=root).write(tmp_path)
    return {"tls_cert_file": chain, "tls_key_file": key, "ca_cert_file": tmp_path / "ca.crt"}


def made(**given: Any) -> Tls:
    settings = Settings(**given).checked()
    client = KubeClient() if settings.asks_cluster else None
    return tls_of(settings, client, Metrics(CollectorRegistry()))


def patching(tls: Tls) -> CaBundles:
    """The loop that keeps caBundle up to date."""
    bundles: Any = tls.follow["cabundle"]
    return next(each for each in bundles.args if isinstance(each, CaBundles))


def secret(tls: Tls) -> CaSecret:
    """What keeps the Secret."""
    work: Any = tls.follow["ca-secret"]
    assert isinstance(work.__self__, CaSecret)
    return work.__self__


def test_plain_http_has_no_certificate() -> None:
    tls = made(insecure_http=True)

    assert (tls.certificates, tls.clients, tls.follow) == (None, None, {})


def test_files_need_no_api_server(files: dict[str, Any]) -> None:
    tls = made(**files)

    assert isinstance(tls.certificates, FileSource)
    assert tls.follow == {}
    assert tls.certificates.bundle == files["ca_cert_file"].read_bytes()


def test_files_are_patched_into_webhooks_where_that_is_asked(files: dict[str, Any]) -> None:
    tls = made(**files, patch_webhooks=True, service="s", namespace="n")

    assert len(tls.follow) == 1
    assert patching(tls)._target == Target("s", "n")
    assert patching(tls)._bundle() == files["ca_cert_file"].read_bytes()


def test_the_old_flags_name_what_is_patched(files: dict[str, Any]) -> None:
    tls = made(**files, webhook_config_name="istio-sidecar-injector", webhook_name="sidecar-injector.istio.io")

    assert patching(tls)._target == Target("injector", "", "istio-sidecar-injector", "sidecar-injector.istio.io")


def test_self_signed_keeps_its_secret_and_patches_its_webhooks() -> None:
    tls = made(**SELF_SIGNED, ca_secret="c", service="s")  # noqa: S106 -- a name

    assert isinstance(tls.certificates, SelfSigned)
    assert (len(tls.follow), str(secret(tls).store)) == (2, "Secret mesh/c")
    assert secret(tls).certificates is tls.certificates
    assert tls.certificates._names == ("s.mesh.svc", "s.mesh.svc.cluster.local")
    assert patching(tls)._target == Target("s", "mesh")
    assert isinstance(secret(tls).rollout, BundleRollout)
    assert secret(tls).rollout is patching(tls)._rollout is tls.certificates._rollout


def test_self_signed_without_patches_waits_for_who_distributes_the_bundle() -> None:
    tls = made(**SELF_SIGNED, patch_webhooks=False)

    assert len(tls.follow) == 1
    assert isinstance(secret(tls).rollout, ExternalRollout)


@pytest.mark.parametrize("mode", ["files", "self-signed"])
def test_clients_are_demanded_in_both_modes(files: dict[str, Any], mode: str) -> None:
    given = files if mode == "files" else SELF_SIGNED

    tls = made(**given, client_ca_file=files["ca_cert_file"], client_name=("kube-apiserver",))

    assert tls.clients is not None
    assert tls.certificates is not None
    assert tls.certificates.context.verify_mode.name == "CERT_REQUIRED"


def test_the_namespace_is_the_one_that_is_said_else_the_pods_own(tmp_path: Path) -> None:
    (tmp_path / "namespace").write_text("own\n")

    assert own_namespace(Settings(namespace="said"), path=tmp_path / "namespace") == "said"
    assert own_namespace(Settings(), path=tmp_path / "namespace") == "own"
    with pytest.raises(UsageError, match="the namespace of the injector is not known; give --namespace"):
        own_namespace(Settings(), path=tmp_path / "nope")


def test_credentials_that_are_missing_end_the_start(files: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    for given in ({**files, "patch_webhooks": True, "namespace": "n"}, SELF_SIGNED):
        tls = made(**given)
        for work in tls.follow.values():
            with pytest.raises(ConfigError, match="this process has no service account token"):
                asyncio.run(_followed(work))


async def _followed(work: Any) -> None:
    await work(asyncio.Event())


def test_an_authority_of_clients_that_is_not_there_ends_the_start(files: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="correct --client-ca-file"):
        made(**files, client_ca_file=Path("/nope"))


HOSTILE = "a\nINFO forged\r\x1b[2J\x00\x7f\x85\u2028\ud800 \"'"
CANARY = "s3cr3t-value"


def record_of(message: str = "skipped", **fields: object) -> logging.LogRecord:
    """A record of a fixed time."""
    record = logging.LogRecord("injector.x", logging.INFO, "x.py", 1, "%s", (message,), None)
    record.created, record.msecs = 0.0, 5.0
    setattr(record, FIELDS, fields)
    return record


def faulty() -> logging.LogRecord:
    """A record with an exception whose text is secret."""
    empty: dict[str, str] = {}
    try:
        empty[CANARY]
    except KeyError:
        error = sys.exc_info()
    return logging.LogRecord("aiohttp.server", logging.ERROR, "x.py", 1, "failed", (), error)


def test_a_line_of_text_has_time_level_message_and_fields() -> None:
    line = TextFormatter().format(record_of(reason="label", owner="Deployment/web", at="a b", ms=1.2))

    assert line == '1970-01-01T00:00:00.005Z INFO skipped reason=label owner=Deployment/web at="a b" ms=1.2'


def test_a_line_of_json_has_the_same_by_name() -> None:
    line = JsonFormatter().format(record_of(reason="label", ms=1.2))

    assert json.loads(line) == {
        "time": "1970-01-01T00:00:00.005Z",
        "level": "info",
        "logger": "injector.x",
        "message": "skipped",
        "reason": "label",
        "ms": 1.2,
    }


@pytest.mark.parametrize("formatter", [TextFormatter(), JsonFormatter()])
def test_whatever_a_name_holds_a_record_is_one_printable_line(formatter: logging.Formatter) -> None:
    for record in (record_of(HOSTILE), record_of(owner=HOSTILE)):
        line = formatter.format(record)

        assert line.isprintable()
        assert line.encode()
        assert "forged" in line


def test_json_gives_a_hostile_name_back_as_it_was() -> None:
    assert json.loads(JsonFormatter().format(record_of(owner=HOSTILE)))["owner"] == HOSTILE


@pytest.mark.parametrize("formatter", [TextFormatter(), JsonFormatter()])
def test_an_exception_is_its_class_and_its_place_and_never_its_text(formatter: logging.Formatter) -> None:
    line = formatter.format(faulty())

    assert "KeyError at " in line
    assert "test_server.py:" in line
    assert CANARY not in line
    assert line.isprintable()


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "form", "starts"),
    [
        (io.StringIO(), "auto", "{"),
        (Terminal(), "auto", "2"),
        (io.StringIO(), "text", "2"),
        (Terminal(), "json", "{"),
    ],
)
def test_a_terminal_gets_text_and_all_else_json_unless_told(
    monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, form: str, starts: str
) -> None:
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    monkeypatch.setattr(root, "level", logging.WARNING)

    log_to(stream, form)
    root.info("serving")
    root.debug("nothing")

    (line,) = stream.getvalue().splitlines()
    assert line.startswith(starts)
    assert "serving" in line
