"""Builds the server of ``injector serve`` from its settings, sets up its log, and runs it.

The command imports this module only to serve, because its libraries take long to load.
"""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import re
import signal
import socket
import sys
import time
import uuid
from collections.abc import Awaitable, Callable
from functools import partial, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TextIO

from prometheus_client import CollectorRegistry, ProcessCollector

from injector.cli.commands import own_version
from injector.cli.options import key_values
from injector.cluster.client import KubeClient
from injector.cluster.kubeconfig import Kubeconfig
from injector.cluster.lease import Lease
from injector.cluster.secrets import SecretStore
from injector.cluster.webhooks import WebhookSelector
from injector.errors import ConfigError, UsageError, whereabouts
from injector.fleet.sources import RevisionSources
from injector.istio.labels import DEFAULT_NAME
from injector.kube.escaping import escape_line
from injector.metrics import Metrics
from injector.revisions.clustersource import ClusterSource
from injector.revisions.directory import EMBEDDED, merge_states, read_directory, read_single
from injector.revisions.driftwatch import DriftWatch
from injector.revisions.files import TimedReads, file_changes, required_text
from injector.revisions.following import Reloader
from injector.revisions.registry import Registry
from injector.revisions.reload import Loader
from injector.revisions.source import Overrides
from injector.revisions.unservednames import UnservedNames
from injector.revisions.verify import RecentPods
from injector.settings import DENY, Settings
from injector.upgrade.controller import LEASE_NAME, Controller
from injector.upgrade.gates import Tokens
from injector.upgrade.run import Runner
from injector.upgrade.state import state_line
from injector.upgrade.survey import Surveyor
from injector.webhook.decisions import DECISION_NOTES, FIELDS, LOGGED, Decisions
from injector.webhook.handler import InjectHandler
from injector.webhook.lifecycle import HealthFile, Lifecycle
from injector.webhook.queue import AdmissionQueue
from injector.webhook.server import ListenOptions, Server
from injector.webhook.tls.cabundle import CaBundles
from injector.webhook.tls.certificate import CertificateFiles, ClientAuthority
from injector.webhook.tls.certificatesource import CertificateSource, FileSource, Handshakes
from injector.webhook.tls.selfsigned import BundleRollout, CaSecret, ExternalRollout, SelfSigned, service_names
from injector.webhook.tracing import tracing_of

if TYPE_CHECKING:
    from injector.revisions.source import ReadSource
    from injector.upgrade.document import Upgrade
    from injector.upgrade.state import State
    from injector.webhook.lifecycle import Follow

_log = logging.getLogger(__name__)

_GC_THRESHOLD: Final = 700
"""The default of Python 3.11. ``cli/__init__.py`` raises it for the start."""


def run_server(settings: Settings) -> None:
    """Serve until a signal.

    Raises:
        InjectorError: the settings, the configuration, the credentials for the cluster, the certificate or an address cannot be used.
    """
    gc.freeze()  # the imports made 100,000 objects, which stay: collections until the server is ready need not visit them
    log_to(sys.stderr, settings.log_format)
    for warning in settings.warnings():
        _log.warning("%s", warning)
    registry, recent = Registry(), RecentPods()
    collectors = CollectorRegistry()
    ProcessCollector(registry=collectors)
    version = own_version()
    metrics = Metrics(collectors, version=version)
    kubeconfig = Kubeconfig(() if settings.kubeconfig is None else (settings.kubeconfig,))
    client = KubeClient(kubeconfig) if settings.asks_cluster else None
    certificates, follow = tls_of(settings, client, metrics)
    cluster = None
    if client is not None and settings.from_cluster:
        cluster = ClusterSource(client, registry, metrics, settings.istio_namespace)
    loader = Loader(source_of(settings, None if cluster is None else cluster.read), registry, settings.keep_removed)
    watch = partial(file_changes, paths) if (paths := watched_paths(settings)) else None
    reloader = Reloader(loader, watch, settings.reload_interval, recent, metrics)
    reloader.load(required=cluster is None)

    def on_start(port: int, ops_port: int) -> None:
        scheme = "http" if certificates is None else "https"
        address = settings.bind or "all addresses"
        _log.info("serving the webhook on %s port %d (%s), operations on port %d", address, port, scheme, ops_port)
        _freeze_loaded_objects()

    controller = unserved = None
    if client is not None and settings.upgrades:
        controller = upgrade_controller(settings, client, metrics)
        follow["upgrades"] = controller.follow
    elsewhere = frozenset(settings.served_elsewhere)
    if client is not None and settings.watch_unserved:
        unserved = UnservedNames(client, registry, metrics, elsewhere)
        follow["unserved"] = unserved.follow
    if client is not None and settings.watch_drift:
        follow["drift"] = DriftWatch(client, registry, metrics).follow
    tracing = tracing_of(os.environ, version=version)
    listen = ListenOptions(settings.bind, settings.port, settings.ops_port, settings.shutdown_delay)
    handler = InjectHandler(
        registry,
        metrics,
        Lifecycle(),
        AdmissionQueue(settings.max_waiting),
        Decisions(LOGGED[settings.log_decisions]),
        recent=recent,
        notes=DECISION_NOTES[settings.explain],
        tracing=tracing,
        guard=settings.guard,
        deny_invalid=settings.invalid_pods == DENY,
    )
    server = Server(
        handler,
        loader,
        version,
        reloader,
        certificates=certificates,
        health_file=_health_file(settings),
        unserved=unserved,
        elsewhere=elsewhere,
        pending=str if cluster is None else cluster.pending,
        upgrades=None if controller is None else controller.to_list,
    )
    if cluster is not None:
        follow["cluster"] = partial(cluster.follow, reloader.on_change)

    asyncio.run(_run_with_client(client, partial(server.serve, listen, on_start=on_start, follow=follow)))
    if tracing is not None:
        tracing.close()
    _log.info("drained")


async def _run_with_client(client: KubeClient | None, work: Callable[[], Awaitable[None]]) -> None:
    """Do ``work``. If there is a client, read its credentials before, and close it afterwards."""
    if client is None:
        await work()
        return
    try:
        if await _open(client):
            await work()
    finally:
        await client.close()


async def _open(client: KubeClient) -> bool:
    """Read the credentials, which a plugin may take long for. Return False if a signal ends that."""
    loop, opening = asyncio.get_running_loop(), asyncio.create_task(client.open())
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, opening.cancel)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    try:
        await opening
    except asyncio.CancelledError:
        return False
    return True


def _freeze_loaded_objects() -> None:
    """Spare the garbage collector the loaded objects, which stay.

    To visit them takes 30 ms with one revision of Istio 1.30, and longer with more, without answering requests. The price: a revision that
    is replaced later does not free the 2.5 MB that were loaded here.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_GC_THRESHOLD)


def upgrade_controller(settings: Settings, client: KubeClient, metrics: Metrics) -> Controller:
    """Return the controller of --upgrades. Raises UsageError if --prometheus-token or --gate-token is not valid."""

    def say(document: Upgrade, state: State) -> None:
        _log.info("%s", state_line(document, state))

    (namespace,) = settings.istio_namespace
    sources, tokens = RevisionSources(None, namespace), Tokens.read(settings.prometheus_token, settings.gate_token)
    surveyor = Surveyor(client, sources)
    runner = Runner(client, surveyor, namespace, metrics, say, tokens)
    lease = Lease(client, namespace, LEASE_NAME, f"{socket.gethostname()}_{uuid.uuid4()}")
    return Controller(client, lease, runner.run, metrics, fingerprint=surveyor.fingerprint)


def source_of(settings: Settings, cluster: ReadSource | None = None) -> ReadSource:
    """Return the reader of the revisions. ``cluster`` reads those of --from-cluster, if the settings have it."""
    sources = [source for source in (_files_of(settings), cluster) if source is not None]
    return lambda: reduce(merge_states, (read() for read in sources))


def _files_of(settings: Settings) -> ReadSource | None:
    if settings.inject_config is None:
        directory = EMBEDDED if settings.embedded else settings.revisions_dir
        return None if directory is None else partial(read_directory, directory)
    return partial(
        read_single,
        settings.inject_config,
        settings.values_file,
        settings.mesh_config,
        name=settings.revision or DEFAULT_NAME,
        settings=Overrides(
            settings.istio_version, key_values(settings.set_env, flag="--set-env"), settings.node_version
        ).settings({}),
    )


def watched_paths(settings: Settings) -> tuple[Path, ...]:
    """Return the files and folders of the configuration to check for changes; none for the embedded revisions."""
    files = (settings.inject_config, settings.values_file, settings.mesh_config)
    paths = (settings.revisions_dir,) if settings.inject_config is None else files
    return tuple(path for path in paths if path is not None)


def _health_file(settings: Settings) -> HealthFile | None:
    if settings.health_check_file is None or not settings.health_check_interval:
        return None
    return HealthFile(settings.health_check_file, settings.health_check_interval)


# https://kubernetes.io/docs/tasks/run-application/access-api-from-pod/#directly-accessing-the-rest-api
OWN_NAMESPACE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


def tls_of(
    settings: Settings, client: KubeClient | None, metrics: Metrics
) -> tuple[CertificateSource | None, dict[str, Follow]]:
    """Return the certificate of the webhook's port, None for plain HTTP, and the background tasks for it, by name.

    ``client`` is None if no setting needs the API server.

    Raises:
        ConfigError: a file is not valid.
        UsageError: the namespace is not known.
    """
    follow: dict[str, Follow] = {}
    if settings.insecure_http:
        return None, follow
    clients = None
    if settings.client_ca_file is not None:
        clients = ClientAuthority(settings.client_ca_file, settings.client_name)
    handshakes, rollout, refresh = Handshakes(clients), BundleRollout(), None
    certificates: CertificateSource
    if client is not None and settings.self_signed:
        secret = _secret(settings, client, handshakes, rollout, metrics)
        certificates, refresh = secret.certificates, secret.refresh
        follow["ca-secret"] = secret.follow
    else:
        certificates = _certificate_files(settings, handshakes)
    if client is not None and settings.patches:
        by_name = settings.webhook_config_name or ""
        namespace = "" if by_name else own_namespace(settings)
        selector = WebhookSelector(settings.service, namespace, by_name, settings.webhook_name or "")
        bundles = CaBundles(
            client, selector, lambda: certificates.bundle, rollout=rollout, metrics=metrics, refresh=refresh
        )
        certificates.changed = bundles.wake
        follow["cabundle"] = bundles.follow
    return certificates, follow


def own_namespace(settings: Settings, *, path: Path = OWN_NAMESPACE) -> str:
    """Return the namespace of the injector's Service and Secret. Raises UsageError outside of a pod if the settings lack it."""
    if settings.namespace:
        return settings.namespace
    try:
        return TimedReads().read(partial(required_text, path), "the namespace").strip()
    except ConfigError as error:
        raise UsageError("the namespace of the injector is not known", hint="give --namespace") from error


def _secret(
    settings: Settings, client: KubeClient, handshakes: Handshakes, rollout: BundleRollout, metrics: Metrics
) -> CaSecret:
    namespace = own_namespace(settings)
    if not settings.patches:
        rollout = ExternalRollout()
    certificates = SelfSigned(service_names(settings.service, namespace), rollout, handshakes=handshakes)
    return CaSecret(SecretStore(client, namespace, settings.ca_secret), certificates, metrics)


def _certificate_files(settings: Settings, handshakes: Handshakes) -> FileSource:
    if settings.tls_cert_file is None or settings.tls_key_file is None:
        raise UsageError("the webhook has no certificate", hint="give --tlsCertFile and --tlsKeyFile")
    files = CertificateFiles(settings.tls_cert_file, settings.tls_key_file, settings.ca_cert_file)
    return FileSource(files, interval=settings.tls_reload_interval, handshakes=handshakes)


_UNQUOTED: Final = re.compile(r"[\w./:+@%,-]+", re.ASCII)


class TextFormatter(logging.Formatter):
    """Formats lines such as ``2026-01-31T12:00:05.123Z INFO skipped reason=label revision=1-24``.

    Names in a message come from requests, so control characters are escaped. An exception is shown by its class and places only: its
    text, and so a traceback, may quote a pod or a file.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        words = [_time(record), record.levelname, record.getMessage()]
        words += [f"{name}={_quote(str(value))}" for name, value in _fields(record).items()]
        return escape_line(" ".join(words))


class JsonFormatter(logging.Formatter):
    """Formats a JSON object with ``time``, ``level``, ``logger``, ``message`` and the fields of the record."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        return json.dumps({**line, **_fields(record)})


def log_to(stream: TextIO, log_format: str) -> None:
    """Log to ``stream``. The format ``auto`` means text on a terminal, else JSON."""
    text = log_format == "text" or (log_format == "auto" and stream.isatty())
    handler = logging.StreamHandler(stream)
    handler.setFormatter(TextFormatter() if text else JsonFormatter())
    logging.basicConfig(level=logging.INFO, handlers=[handler])


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    fields: dict[str, Any] = getattr(record, FIELDS, {})
    error = record.exc_info[1] if record.exc_info else None
    return fields if error is None else {**fields, "error": whereabouts(error)}


def _time(record: logging.LogRecord) -> str:
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(record.created))}.{int(record.msecs):03d}Z"


def _quote(text: str) -> str:
    return text if _UNQUOTED.fullmatch(text) else json.dumps(text)
