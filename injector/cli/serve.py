"""``injector serve``: from flags to a running server."""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from injector.cli.commands import verbose
from injector.errors import ConfigError, InjectorError, UsageError
from injector.revisions.directory import DirectorySource
from injector.revisions.embedded import embedded_source
from injector.revisions.merged import MergedSource
from injector.revisions.reload import LoadReport
from injector.revisions.single import DEFAULT_NAME, SingleSource
from injector.settings import FIELDS, Settings, key_values, parse_duration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from injector.istio.revision import Revision
    from injector.metrics import Metrics
    from injector.revisions.clustersource import ClusterSource
    from injector.revisions.registry import Registry
    from injector.revisions.reload import Loader, RevisionState
    from injector.revisions.source import RevisionSource
    from injector.settings import Setting
    from injector.webhook.server import Follow

_log = logging.getLogger(__name__)


class Duration(click.ParamType[float]):
    """A Go duration."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return its seconds."""
        if isinstance(value, float):
            return value
        try:
            return parse_duration(value)
        except UsageError as error:
            self.fail(str(error), param, ctx)


KINDS: Final[dict[str, dict[str, Any]]] = {
    "path": {"type": click.Path(path_type=Path), "metavar": "PATH"},
    "port": {"type": click.IntRange(0, 65535), "metavar": "PORT"},
    "duration": {"type": Duration()},
    "flag": {"is_flag": True},
    "text": {},
    "texts": {"multiple": True},
}
"""What click makes of each kind of setting."""


def option_of(setting: Setting) -> click.Option:
    """Return the option for a setting."""
    shown = {"metavar": setting.metavar} if setting.metavar else {}
    default = f"{setting.default:g}s" if setting.kind == "duration" else setting.default
    return click.Option(
        [*setting.flags, setting.name],
        default=default,
        show_default=setting.default not in (None, "", (), False),
        envvar=setting.variable,
        show_envvar=True,
        help=setting.summary,
        hidden=bool(setting.unused),
        **KINDS[setting.kind] | shown,
    )


def run(**given: Any) -> None:
    """Serve the admission webhook on AdmissionReviews of pods.

    POST /inject/NAME injects with the revision or tag NAME, POST /inject with the default one. Revisions are the
    folders of --revisions-dir, or the one that --injectConfig describes, those that Istio installed with
    --from-cluster, or the embedded ones.

    SIGTERM makes it unready, serves on for --shutdown-delay, finishes what runs, and ends with exit code 0.
    """
    settings = Settings(**given).checked()
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s")
    for warning in settings.warnings():
        _log.warning("%s", warning)
    _serve(settings)


serve = verbose(click.Command("serve", callback=run, help=run.__doc__, params=[option_of(each) for each in FIELDS]))
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


def _serve(settings: Settings) -> None:
    # Imported here for start-up time: the server's libraries take several times what the rest of the command line
    # does, and shell completion imports every command.
    from prometheus_client import CollectorRegistry

    from injector.cli.version import own_version
    from injector.metrics import Metrics
    from injector.revisions.registry import Registry
    from injector.revisions.reload import Loader
    from injector.webhook.server import Listeners, Services, serve
    from injector.webhook.tls import server_context

    tls = None
    if settings.tls_cert_file is not None and settings.tls_key_file is not None:
        tls = server_context(settings.tls_cert_file, settings.tls_key_file)
    version = own_version()
    metrics = Metrics(CollectorRegistry(), version=version)
    cluster = _cluster(settings, metrics) if settings.from_cluster else None
    registry = Registry()
    loader = Loader(source_of(settings, cluster), registry)
    report = loader.load(time.time())
    if cluster is None:
        _demand(report)
    _show(report, LoadReport(), metrics)

    def started(port: int, ops_port: int) -> None:
        scheme = "http" if tls is None else "https"
        at = settings.bind or "every address"
        _log.info("serving the webhook on %s port %d (%s), operations on port %d", at, port, scheme, ops_port)

    listeners = Listeners(settings.bind, settings.port, settings.ops_port, tls, settings.shutdown_delay)
    services = Services(registry, loader, metrics, version)
    follow = None if cluster is None else _following(cluster, registry, _reloading(loader, metrics))
    asyncio.run(serve(listeners, services, started=started, follow=follow))
    _log.info("drained")


def _cluster(settings: Settings, metrics: Metrics) -> ClusterSource:
    # Imported here, since the client takes half a second and 40 MB, and only this setting needs it.
    from injector.cluster.client import KubeClient
    from injector.revisions.clustersource import ClusterSource

    return ClusterSource(KubeClient(settings.kubeconfig), metrics, settings.istio_namespace)


def _following(cluster: ClusterSource, registry: Registry, changed: Callable[[], None]) -> Follow:
    """Return what follows the cluster while the server runs; ``changed`` is called after each change."""

    def served() -> Iterable[Revision]:
        return registry.snapshot.revisions.values()

    return partial(cluster.follow, changed, served)


def _reloading(loader: Loader, metrics: Metrics) -> Callable[[], None]:
    """Return what loads the source and shows what that came to; one that cannot be read leaves what is served."""

    def changed() -> None:
        before = loader.report
        try:
            _show(loader.load(time.time()), before, metrics)
        except InjectorError as error:
            _log.error("not loaded: %s", error)

    return changed


def _demand(report: LoadReport) -> None:
    """Check that something is served.

    Raises:
        InjectorError: nothing is; it is the first of what is wrong.
    """
    if not any(state.served for state in report.revisions.values()):
        raise report.errors[0] if report.errors else ConfigError("there is no revision", hint="add a folder for one")


def _same(before: RevisionState | None, after: RevisionState) -> bool:
    """Tell whether a log has nothing to say: nodes and namespaces that come and go leave a revision what it is."""

    def told(state: RevisionState) -> tuple[object, ...]:
        return (state.error, state.notes, None if state.served is None else state.served.fingerprint)

    return before is not None and told(before) == told(after)


def _show(report: LoadReport, before: LoadReport, metrics: Metrics) -> None:
    """Show in metrics what is served, and log what of it, and of what is wrong, is new."""
    from injector.webhook.status import revision_rows

    metrics.loaded(revision_rows(report), tags_valid=not report.tag_errors)
    new = [state for name, state in report.revisions.items() if not _same(before.revisions.get(name), state)]
    known = {str(error) for error in before.errors}
    for error in report.errors:
        if str(error) not in known:
            _log.error("not served: %s", error)
    for name in sorted(before.revisions.keys() - report.revisions.keys()):
        _log.info("revision %s: gone", name)
    for state in new:
        if state.served is None or state.error is not None:
            continue
        revision = state.served
        _log.info(
            "revision %s: Istio %s (%s), %s, fingerprint %s, from %s",
            revision.name,
            revision.istio_version,
            revision.version_reason,
            revision.engine,
            revision.fingerprint,
            revision.origin,
        )
        for note in state.notes:
            _log.warning("revision %s: %s", revision.name, note)
