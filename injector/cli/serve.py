"""``injector serve``: from flags to a running server."""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from injector.cli.commands import verbose
from injector.cli.flags import Duration
from injector.cli.hangups import hangups
from injector.errors import ConfigError, InjectorError
from injector.flagvalues import key_values
from injector.istio.webhooks import DEFAULT_NAME
from injector.revisions.directory import DirectorySource, MergedSource, SingleSource, embedded_source
from injector.revisions.reload import Loader, LoadReport, changes
from injector.settings import SETTINGS, Settings

if TYPE_CHECKING:
    from collections.abc import Iterable

    from injector.cluster.client import ApiThrottle, KubeClient
    from injector.istio.revision import Revision
    from injector.metrics import Metrics
    from injector.revisions.clustersource import ClusterSource
    from injector.revisions.following import Watch
    from injector.revisions.registry import Registry
    from injector.revisions.source import RevisionSource
    from injector.revisions.unservednames import UnservedNames
    from injector.settings import Setting
    from injector.webhook.lifecycle import Follow
    from injector.webhook.server import Services
    from injector.webhook.status.health import HealthFile

_log = logging.getLogger(__name__)


OPTIONS: Final[dict[str, dict[str, Any]]] = {
    "Path | None": {"type": click.Path(path_type=Path), "metavar": "PATH"},
    "Port": {"type": click.IntRange(0, 65535), "metavar": "PORT"},
    "Count": {"type": click.IntRange(1), "metavar": "COUNT"},
    "float": {"type": Duration(), "metavar": "DURATION"},
    "bool": {"is_flag": True},
    "bool | None": {"type": bool, "is_flag": False, "flag_value": True, "metavar": "BOOL"},
    "str": {},
    "str | None": {},
    "tuple[str, ...]": {"multiple": True},
}
"""The arguments of ``click.Option`` for each type of setting."""


def option_of(setting: Setting) -> click.Option:
    """Return the option for a setting."""
    arguments = dict(OPTIONS[setting.kind])
    if setting.choices:
        arguments["type"] = click.Choice(setting.choices)
    if setting.metavar:
        arguments["metavar"] = setting.metavar
    return click.Option(
        [*setting.flags, setting.name],
        default=f"{setting.default:g}s" if setting.kind == "float" else setting.default,
        show_default=setting.default not in (None, "", (), False),
        envvar=setting.variable,
        show_envvar=True,
        help=setting.summary,
        **arguments,
    )


def run(**given: Any) -> None:
    """Serve the admission webhook on AdmissionReviews of pods.

    POST /inject/NAME injects with the revision or tag NAME, POST /inject with the default one. Revisions are the
    folders of --revisions-dir, or the one that --injectConfig describes, those that Istio installed with
    --from-cluster, or the embedded ones.

    SIGTERM makes it unready, serves on for --shutdown-delay, finishes what runs, and ends with exit code 0.
    """
    # Imported here for start-up time, as below.
    from injector.cli.logs import log_to

    hangups.install()
    settings = Settings(**given).checked()
    log_to(sys.stderr, settings.log_format)
    for warning in settings.warnings():
        _log.warning("%s", warning)
    _serve(settings)


serve = verbose(click.Command("serve", callback=run, help=run.__doc__, params=[option_of(each) for each in SETTINGS]))
"""The command; its options are the table of settings."""


def source_of(settings: Settings, cluster: RevisionSource | None = None) -> RevisionSource:
    """Return where the settings say that revisions come from; ``cluster`` is the source of --from-cluster, if given."""
    if cluster is None:
        return _files(settings)
    named = settings.inject_config is not None or settings.revisions_dir is not None
    return MergedSource(_files(settings), cluster) if named else cluster


def _files(settings: Settings) -> RevisionSource:
    if settings.inject_config is not None:
        return SingleSource(
            config=settings.inject_config,
            values=settings.values_file,
            mesh=settings.mesh_config,
            name=settings.revision or DEFAULT_NAME,
            settings=_revision_settings(settings),
        )
    return embedded_source() if settings.revisions_dir is None else DirectorySource(settings.revisions_dir)


def _revision_settings(settings: Settings) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if settings.istio_version is not None:
        found["istioVersion"] = settings.istio_version
    if settings.set_env:
        found["env"] = key_values(settings.set_env, flag="--set-env")
    if settings.node_version:
        found["nodeVersions"] = list(settings.node_version)
    return found


def watched_folders(settings: Settings) -> tuple[Path, ...]:
    """Return the folders whose changes may be the configuration's: none for the embedded revisions.

    Of a file it is the folder that is watched, since a file that is renamed onto it is another file.
    """
    if settings.inject_config is not None:
        files = (settings.inject_config, settings.values_file, settings.mesh_config)
        return tuple(dict.fromkeys(path.absolute().parent for path in files if path is not None))
    return () if settings.revisions_dir is None else (settings.revisions_dir.absolute(),)


def _watch(settings: Settings) -> Watch | None:
    # Imported here for start-up time, as below.
    from injector.revisions.files import file_changes

    folders = watched_folders(settings)
    return partial(file_changes, folders, recursive=settings.inject_config is None) if folders else None


def _serve(settings: Settings) -> None:
    # Imported here for start-up time: the server's libraries take several times what the rest of the command line
    # does, and shell completion imports every command.
    from injector.cli.certificates import tls_of
    from injector.cluster.client import ApiThrottle
    from injector.revisions.registry import Registry
    from injector.webhook.server import Listeners, serve

    registry, metrics, pace = Registry(), _metrics(), ApiThrottle()
    client = _client(settings, pace) if settings.asks_cluster else None
    tls = tls_of(settings, client, metrics)
    cluster = _cluster(settings, client, metrics)
    loader = Loader(source_of(settings, cluster), registry)
    report = loader.load(time.time())
    if cluster is None:
        _demand(report)
    _say(LoadReport(), report)

    def started(port: int, ops_port: int) -> None:
        scheme = "http" if context is None else "https"
        at = settings.bind or "every address"
        _log.info("serving the webhook on %s port %d (%s), operations on port %d", at, port, scheme, ops_port)
        # What was loaded by now stays, so the garbage collector need not look through it again: that takes 30 ms with
        # one revision of Istio 1.30 and more with more, in which no request is answered. What replaces a revision
        # later does not free the 2.5 MB of the one loaded here.
        gc.collect()
        gc.freeze()

    context = None if tls.certificates is None else tls.certificates.context
    listeners = Listeners(
        settings.bind, settings.port, settings.ops_port, context, settings.shutdown_delay, tls.clients
    )
    services = _services(settings, loader, registry, metrics)
    assert services.follower is not None  # noqa: S101 -- _services() makes it, for the type checker
    hangups.reload_by(services.follower.reload)
    services = replace(
        services,
        certificates=tls.certificates,
        probe=tls.self_check(settings.bind),
        health_file=_health_file(settings),
        unserved=_unserved(settings, registry, pace),
    )
    follow = dict(tls.follow)
    if cluster is not None:
        follow["cluster"] = _following(cluster, services)

    async def serve_and_close() -> None:
        try:
            await serve(listeners, services, started=started, follow=follow)
        finally:
            if client is not None:
                await client.close()

    asyncio.run(serve_and_close())
    _log.info("drained")


def _metrics() -> Metrics:
    from prometheus_client import CollectorRegistry

    from injector.cli.version import own_version
    from injector.metrics import Metrics

    return Metrics(CollectorRegistry(), version=own_version())


def _client(settings: Settings, pace: ApiThrottle) -> KubeClient:
    # Imported here, since the client takes half a second and 40 MB, and only these settings need it.
    from injector.cluster.client import KubeClient

    return KubeClient(settings.kubeconfig, pace)


def _cluster(settings: Settings, client: KubeClient | None, metrics: Metrics) -> ClusterSource | None:
    from injector.revisions.clustersource import ClusterSource

    if client is None or not settings.from_cluster:
        return None
    return ClusterSource(client, metrics, settings.istio_namespace)


def _unserved(settings: Settings, registry: Registry, pace: ApiThrottle) -> UnservedNames | None:
    if not settings.watch_unserved:
        return None
    # Imported here, since the client takes half a second and 40 MB, and few settings need it.
    from injector.cluster.client import KubeClient
    from injector.revisions.unservednames import UnservedNames

    client = KubeClient(settings.kubeconfig, pace)
    return UnservedNames(client, registry, frozenset(settings.served_elsewhere))


def _following(cluster: ClusterSource, services: Services) -> Follow:
    """Return what follows the cluster while the server runs.

    Until requests are answered a change is loaded at once, so that none is answered before; then the follower does it.
    """
    loader, follower = services.loader, services.follower

    def changed() -> None:
        if follower is not None and follower.running:
            follower.changed()
            return
        before = loader.report
        try:
            report = loader.load(time.time())
        except InjectorError as error:
            _log.error("not loaded: %s", error)
            return
        _say(before, report)
        _show(services.metrics, report)

    def served() -> Iterable[Revision]:
        return services.registry.snapshot.revisions.values()

    services.registry.subscribe(cluster.served_changed)
    return partial(cluster.follow, changed, served)


def _services(settings: Settings, loader: Loader, registry: Registry, metrics: Metrics) -> Services:
    """Return what answers requests with what is loaded, and follows its source."""
    from injector.cli.version import own_version
    from injector.revisions.following import Follower, Tempo
    from injector.revisions.verify import RecentPods
    from injector.webhook.decisions import EXPLAINED, LOGGED, Decisions
    from injector.webhook.inject import Desk
    from injector.webhook.queue import AdmissionQueue
    from injector.webhook.server import Services

    shown = partial(_show, metrics)
    shown(loader.report)
    recent = RecentPods()
    tempo = Tempo(settings.reload_interval)
    follower = Follower(loader, _watch(settings), tempo, recent=recent, metrics=metrics, shown=shown)
    desk = Desk(
        AdmissionQueue(settings.max_waiting),
        Decisions(LOGGED[settings.log_decisions]),
        explained=EXPLAINED[settings.explain],
        guard=settings.guard,
    )
    elsewhere = frozenset(settings.served_elsewhere)
    return Services(registry, loader, metrics, own_version(), recent, follower, elsewhere=elsewhere, desk=desk)


def _show(metrics: Metrics, report: LoadReport) -> None:
    """Let the metrics show how the revisions stand."""
    from injector.webhook.status.report import revision_rows

    metrics.loaded(revision_rows(report), tags_valid=not report.tag_errors)


def _health_file(settings: Settings) -> HealthFile | None:
    from injector.webhook.status.health import HealthFile

    if settings.health_check_file is None or not settings.health_check_interval:
        return None
    return HealthFile(settings.health_check_file, settings.health_check_interval)


def _demand(report: LoadReport) -> None:
    """Check that something is served.

    Raises:
        InjectorError: nothing is; it is the first of what is wrong.
    """
    if not any(state.served for state in report.revisions.values()):
        raise report.errors[0] if report.errors else ConfigError("there is no revision", hint="add a folder for one")


def _say(before: LoadReport, after: LoadReport) -> None:
    """Log what is served and what is wrong, as far as that is new."""
    for level, text in changes(before, after):
        _log.log(level, "%s", text)
