"""What ``injector serve`` is told: one frozen object, from flags and the environment.

``FIELDS`` is the table of all settings: the command line makes its options of it, so a flag, its variable
``INJECTOR_...`` and its help cannot drift apart. Flags of the old standalone injector (Istio 1.0 to 1.4,
sidecar-injector) keep their spelling.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from injector.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

ENV_PREFIX: Final = "INJECTOR_"
_CAPITAL: Final = re.compile(r"(?<!^)(?=[A-Z])")

# Go's time.ParseDuration, as the flags of the old injector are written; without a unit only 0 is a duration.
_DURATION: Final = re.compile(r"(?:\d+(?:\.\d*)?|\.\d+)(?:ns|us|µs|ms|s|m|h)", re.ASCII)
_UNITS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting: its flag as Istio spells it, what kind of value it takes, and what it does.

    ``kind`` is ``path``, ``port``, ``duration``, ``count``, ``flag``, ``text`` or ``texts`` (repeatable). ``words`` are
    those that it takes, if not any. ``aliases`` are further spellings. ``unused`` is why a flag of the old injector is
    accepted without effect, and what serves its purpose.
    """

    name: str
    camel: str
    kind: str
    summary: str
    default: Any = None
    metavar: str | None = None
    aliases: tuple[str, ...] = ()
    unused: str = ""
    variable_name: str = ""
    words: tuple[str, ...] = ()

    @property
    def flags(self) -> tuple[str, ...]:
        """Every spelling, kubectl's first."""
        kebab = f"--{_CAPITAL.sub('-', self.camel).lower()}"
        return tuple(dict.fromkeys((kebab, f"--{self.camel}", *self.aliases)))

    @property
    def variable(self) -> str:
        """The environment variable that says the same."""
        return ENV_PREFIX + (self.variable_name or _CAPITAL.sub("_", self.camel).upper())


# A folder of thirty revisions takes some 100 ms to read.
MIN_RELOAD_INTERVAL: Final = 1.0

_ENV_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_NO_CLUSTER: Final = (
    "the API server is not called, so keep caBundle up to date with what manages the webhook's certificate"
)

FIELDS: Final[tuple[Setting, ...]] = (
    Setting("bind", "bind", "text", "The address that both ports listen on; empty is every one.", "", "ADDRESS"),
    # Not INJECTOR_PORT: Kubernetes sets that to an address in every pod beside a Service named `injector`.
    Setting("port", "port", "port", "The webhook's port.", 9443, variable_name="WEBHOOK_PORT"),
    Setting("ops_port", "opsPort", "port", "The port of probes, metrics and status, always plain HTTP.", 8080),
    Setting("insecure_http", "insecureHttp", "flag", "Serve the webhook without TLS, for tests.", default=False),
    Setting("tls_cert_file", "tlsCertFile", "path", "The webhook's certificate chain, PEM."),
    Setting("tls_key_file", "tlsKeyFile", "path", "The private key of --tlsCertFile, PEM."),
    Setting("ca_cert_file", "caCertFile", "path", "The certificate authority of --tlsCertFile, PEM."),
    Setting(
        "tls_reload_interval",
        "tlsReloadInterval",
        "duration",
        "How often to look whether --tlsCertFile and its key changed; 0 never does.",
        1.0,
        "DURATION",
    ),
    Setting("revisions_dir", "revisionsDir", "path", "A directory with a folder for each revision."),
    Setting(
        "inject_config", "injectConfig", "path", "The inject config of one revision.", aliases=("--injectConfigFile",)
    ),
    Setting(
        "values_file",
        "valuesFile",
        "path",
        "The values of --injectConfig.",
        aliases=("--valuesConfig", "--values-config"),
    ),
    Setting("mesh_config", "meshConfig", "path", "The mesh config of --injectConfig.", aliases=("--meshConfigFile",)),
    Setting("revision", "revision", "text", "The name of the revision of --injectConfig.", None, "NAME", ("-r",)),
    Setting("istio_version", "istioVersion", "text", "The Istio that --injectConfig is of.", None, "VERSION"),
    Setting("set_env", "setEnv", "texts", "A feature variable of istiod, for --injectConfig.", (), "NAME=VALUE"),
    Setting("node_version", "nodeVersion", "texts", "A kubelet version, for --injectConfig.", (), "VERSION"),
    Setting(
        "from_cluster", "fromCluster", "flag", "Serve the revisions and tags that Istio installed too.", default=False
    ),
    Setting(
        "istio_namespace",
        "istioNamespace",
        "text",
        "The namespace of Istio's ConfigMaps, for --from-cluster.",
        "istio-system",
        "NAMESPACE",
    ),
    Setting(
        "kubeconfig",
        "kubeconfig",
        "path",
        "How to reach the API server, for --from-cluster; without it, as the pod's service account.",
    ),
    Setting(
        "reload_interval",
        "reloadInterval",
        "duration",
        "How often to look for changes that the file system did not tell; 0 follows none.",
        30.0,
        "DURATION",
    ),
    Setting(
        "shutdown_delay", "shutdownDelay", "duration", "How long to serve on, unready, after SIGTERM.", 5.0, "DURATION"
    ),
    Setting(
        "max_waiting",
        "maxWaiting",
        "count",
        "How many reviews may wait for their turn; further ones are told to come back (429).",
        1000,
    ),
    Setting(
        "log_format",
        "logFormat",
        "text",
        "How log lines look; auto is text on a terminal, else JSON.",
        "auto",
        words=("auto", "json", "text"),
    ),
    Setting(
        "log_decisions",
        "logDecisions",
        "text",
        "Which reviews get a log line with their decision; skips has failures too.",
        "skips",
        words=("none", "failures", "skips", "all"),
    ),
    Setting(
        "health_check_interval",
        "healthCheckInterval",
        "duration",
        "How often to write --healthCheckFile; 0 never does.",
        0.0,
        "DURATION",
    ),
    Setting(
        "health_check_file",
        "healthCheckFile",
        "path",
        "A file to write while it lives, for `injector probe` to look at.",
    ),
    Setting(
        "webhook_config_name",
        "webhookConfigName",
        "text",
        "The MutatingWebhookConfiguration that the old injector patched.",
        metavar="NAME",
        unused=_NO_CLUSTER,
    ),
    Setting("webhook_name", "webhookName", "text", "The webhook of it.", metavar="NAME", unused=_NO_CLUSTER),
)
"""Every setting of ``serve``, in the order of ``--help``."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of one ``injector serve``; ``FIELDS`` says what each is."""

    bind: str = ""
    port: int = 9443
    ops_port: int = 8080
    insecure_http: bool = False
    tls_cert_file: Path | None = None
    tls_key_file: Path | None = None
    ca_cert_file: Path | None = None
    tls_reload_interval: float = 1.0
    revisions_dir: Path | None = None
    inject_config: Path | None = None
    values_file: Path | None = None
    mesh_config: Path | None = None
    revision: str | None = None
    istio_version: str | None = None
    set_env: tuple[str, ...] = ()
    node_version: tuple[str, ...] = ()
    from_cluster: bool = False
    istio_namespace: str = "istio-system"
    kubeconfig: Path | None = None
    reload_interval: float = 30.0
    shutdown_delay: float = 5.0
    max_waiting: int = 1000
    log_format: str = "auto"
    log_decisions: str = "skips"
    health_check_interval: float = 0.0
    health_check_file: Path | None = None
    webhook_config_name: str | None = None
    webhook_name: str | None = None

    def checked(self) -> Settings:
        """Return the settings if they go together.

        Raises:
            UsageError: two of them contradict each other, or one lacks its companion.
        """
        if self.insecure_http and (self.tls_cert_file or self.tls_key_file):
            raise UsageError("--insecure-http and a certificate exclude each other", hint="give one of the two")
        if not self.insecure_http and not (self.tls_cert_file and self.tls_key_file):
            raise UsageError(
                "the webhook has no certificate",
                hint="give --tlsCertFile and --tlsKeyFile, or --insecure-http for a test",
            )
        if self.revisions_dir and self.inject_config:
            raise UsageError("--revisions-dir and --injectConfig name two configurations", hint="give one of the two")
        if not self.inject_config and (companions := self._companions()):
            raise UsageError(
                f"{companions[0]} belongs to --injectConfig",
                hint="give --injectConfig too, or put the file into a folder of --revisions-dir",
            )
        if 0 < self.reload_interval < MIN_RELOAD_INTERVAL:
            raise UsageError(
                f"{self.reload_interval:g} s is too short to read the configuration in",
                where="--reload-interval",
                hint=f"give {MIN_RELOAD_INTERVAL:g}s or more, or 0 to follow no changes",
            )
        if self.port == self.ops_port != 0:
            raise UsageError(f"both ports are {self.port}", where="--ops-port", hint="choose another")
        return self

    def warnings(self) -> tuple[str, ...]:
        """Return a line for each setting that is given and has no effect."""
        idle = {setting.name: setting.unused for setting in FIELDS if setting.unused}
        if not self.from_cluster:
            idle |= dict.fromkeys(("istio_namespace", "kubeconfig"), "it belongs to --from-cluster")
        if not self.health_check_interval:
            idle["health_check_file"] = "give --healthCheckInterval too"
        if not self.health_check_file:
            idle["health_check_interval"] = "give --healthCheckFile too"
        return tuple(
            f"{setting.flags[-1]} has no effect: {idle[setting.name]}"
            for setting in FIELDS
            if setting.name in idle and getattr(self, setting.name) != setting.default
        )

    def _companions(self) -> list[str]:
        given = {
            "--valuesFile": self.values_file,
            "--meshConfig": self.mesh_config,
            "--revision": self.revision,
            "--istio-version": self.istio_version,
            "--set-env": self.set_env,
            "--node-version": self.node_version,
        }
        return [flag for flag, value in given.items() if value]


def parse_duration(text: str) -> float:
    """Return the seconds of a Go duration such as ``5s``, ``1m30s`` or ``0``.

    Raises:
        UsageError: it is none, or negative.
    """
    if text == "0":
        return 0.0
    parts = _DURATION.findall(text)
    if not parts or "".join(parts) != text:
        raise UsageError(f"{text!r} is no duration", hint="write it as 500ms, 5s or 1m30s")
    return sum(float(part.rstrip("nsuµmh")) * _UNITS[part.lstrip("0123456789.")] for part in parts)


def key_values(pairs: tuple[str, ...], *, flag: str) -> dict[str, str]:
    """Read repeated ``NAME=VALUE`` arguments; the last of a name wins.

    Raises:
        UsageError: an argument is no such pair.
    """
    parsed: dict[str, str] = {}
    for pair in pairs:
        name, separator, value = pair.partition("=")
        if not separator or not _ENV_NAME.fullmatch(name):
            raise UsageError(f"{pair!r} is not NAME=VALUE", where=flag, hint="write it as ENABLE_NATIVE_SIDECARS=true")
        parsed[name] = value
    return parsed
