"""``injector serve``: from flags to a running server."""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from injector.cli.commands import verbose
from injector.errors import ConfigError, UsageError
from injector.revisions.changes import changes
from injector.revisions.directory import DirectorySource
from injector.revisions.embedded import embedded_source
from injector.revisions.reload import Loader, LoadReport
from injector.revisions.single import DEFAULT_NAME, SingleSource
from injector.settings import FIELDS, Settings, key_values, parse_duration

if TYPE_CHECKING:
    from injector.revisions.following import Watch
    from injector.revisions.registry import Registry
    from injector.revisions.source import RevisionSource
    from injector.settings import Setting
    from injector.webhook.server import Services

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
    folders of --revisions-dir, or the one that --injectConfig describes, or the embedded ones.

    SIGTERM makes it unready, serves on for --shutdown-delay, finishes what runs, and ends with exit code 0.
    """
    settings = Settings(**given).checked()
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s")
    # It would say how many files changed; what that came to is said here.
    logging.getLogger("watchfiles").setLevel(logging.WARNING)
    for warning in settings.warnings():
        _log.warning("%s", warning)
    _serve(settings, source_of(settings))


serve = verbose(click.Command("serve", callback=run, help=run.__doc__, params=[option_of(each) for each in FIELDS]))
"""The command; its options are the table of settings."""


def source_of(settings: Settings) -> RevisionSource:
    """Return where the settings say that revisions come from."""
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
    from injector.revisions.watching import file_changes

    folders = watched_folders(settings)
    return partial(file_changes, folders, recursive=settings.inject_config is None) if folders else None


def _serve(settings: Settings, source: RevisionSource) -> None:
    # Imported here for start-up time: the server's libraries take several times what the rest of the command line
    # does, and shell completion imports every command.
    from injector.revisions.registry import Registry
    from injector.webhook.server import Listeners, serve
    from injector.webhook.tls import server_context

    tls = None
    if settings.tls_cert_file is not None and settings.tls_key_file is not None:
        tls = server_context(settings.tls_cert_file, settings.tls_key_file)
    registry = Registry()
    loader = Loader(source, registry)
    _say(loader.load(time.time()))

    def started(port: int, ops_port: int) -> None:
        scheme = "http" if tls is None else "https"
        at = settings.bind or "every address"
        _log.info("serving the webhook on %s port %d (%s), operations on port %d", at, port, scheme, ops_port)
        # What was loaded by now stays, so the garbage collector need not look through it again: that takes 30 ms with
        # one revision of Istio 1.30 and more with more, in which no request is answered. What replaces a revision
        # later does not free the 2.5 MB of the one loaded here.
        gc.collect()
        gc.freeze()

    listeners = Listeners(settings.bind, settings.port, settings.ops_port, tls, settings.shutdown_delay)
    asyncio.run(serve(listeners, _services(settings, loader, registry), started=started))
    _log.info("drained")


def _services(settings: Settings, loader: Loader, registry: Registry) -> Services:
    """Return what answers requests with what is loaded, and follows its source."""
    from prometheus_client import CollectorRegistry

    from injector.cli.version import own_version
    from injector.metrics import Metrics
    from injector.revisions.following import Follower, Tempo
    from injector.revisions.recent import RecentPods
    from injector.webhook.server import Services
    from injector.webhook.status import revision_rows

    version = own_version()
    metrics = Metrics(CollectorRegistry(), version=version)

    def shown(report: LoadReport) -> None:
        metrics.loaded(revision_rows(report), tags_valid=not report.tag_errors)

    shown(loader.report)
    recent = RecentPods()
    tempo = Tempo(settings.reload_interval)
    follower = Follower(loader, _watch(settings), tempo, recent=recent, metrics=metrics, shown=shown)
    return Services(registry, loader, metrics, version, recent, follower)


def _say(report: LoadReport) -> None:
    """Log what is served and what is wrong.

    Raises:
        InjectorError: nothing is served; it is the first of what is wrong.
    """
    if not any(state.served for state in report.revisions.values()):
        raise report.errors[0] if report.errors else ConfigError("there is no revision", hint="add a folder for one")
    for level, text in changes(LoadReport(), report):
        _log.log(level, "%s", text)
