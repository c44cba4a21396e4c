"""``injector serve``: from flags to a running server."""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from injector.cli.commands import verbose
from injector.cli.duration import Duration
from injector.errors import ConfigError
from injector.revisions.directory import DirectorySource
from injector.revisions.embedded import embedded_source
from injector.revisions.single import DEFAULT_NAME, SingleSource
from injector.settings import FIELDS, Settings, key_values

if TYPE_CHECKING:
    from injector.revisions.reload import LoadReport
    from injector.revisions.source import RevisionSource
    from injector.settings import Setting
    from injector.webhook.healthfile import HealthFile
    from injector.webhook.tls import CertificateSource

_log = logging.getLogger(__name__)


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


def _serve(settings: Settings, source: RevisionSource) -> None:
    # Imported here for start-up time: the server's libraries take several times what the rest of the command line
    # does, and shell completion imports every command.
    from prometheus_client import CollectorRegistry

    from injector.cli.version import own_version
    from injector.metrics import Metrics
    from injector.revisions.registry import Registry
    from injector.revisions.reload import Loader
    from injector.webhook.server import Listeners, Services, serve
    from injector.webhook.status import revision_rows
    from injector.webhook.upkeep import Upkeep

    certificates = _certificates(settings)
    tls = None if certificates is None else certificates.context
    registry = Registry()
    loader = Loader(source, registry)
    report = loader.load(time.time())
    _say(report)
    version = own_version()
    metrics = Metrics(CollectorRegistry(), version=version)
    metrics.loaded(revision_rows(report), tags_valid=not report.tag_errors)

    def started(port: int, ops_port: int) -> None:
        scheme = "http" if tls is None else "https"
        at = settings.bind or "every address"
        _log.info("serving the webhook on %s port %d (%s), operations on port %d", at, port, scheme, ops_port)

    listeners = Listeners(settings.bind, settings.port, settings.ops_port, tls, settings.shutdown_delay)
    upkeep = Upkeep(certificates, _health_file(settings))
    asyncio.run(serve(listeners, Services(registry, loader, metrics, version, upkeep), started=started))
    _log.info("drained")


def _certificates(settings: Settings) -> CertificateSource | None:
    # Imported here for start-up time, as above.
    from injector.webhook.certificate import CertificateFiles
    from injector.webhook.tls import CertificateSource

    if settings.tls_cert_file is None or settings.tls_key_file is None:
        return None
    files = CertificateFiles(settings.tls_cert_file, settings.tls_key_file, settings.ca_cert_file)
    return CertificateSource(files, interval=settings.tls_reload_interval)


def _health_file(settings: Settings) -> HealthFile | None:
    from injector.webhook.healthfile import HealthFile

    if settings.health_check_file is None or not settings.health_check_interval:
        return None
    return HealthFile(settings.health_check_file, settings.health_check_interval)


def _say(report: LoadReport) -> None:
    """Log what is served and what is wrong.

    Raises:
        InjectorError: nothing is served; it is the first of what is wrong.
    """
    served = [(state, state.served) for state in report.revisions.values() if state.served]
    if not served:
        raise report.errors[0] if report.errors else ConfigError("there is no revision", hint="add a folder for one")
    for error in report.errors:
        _log.error("not served: %s", error)
    for state, revision in served:
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
