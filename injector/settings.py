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


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting: its flag as Istio spells it, what kind of value it takes, and what it does.

    ``kind`` is ``path``, ``port``, ``duration``, ``count``, ``flag``, ``switch`` (a flag that ``=false`` turns off),
    ``text`` or ``texts`` (repeatable). ``words`` are those that it takes, if not any. ``aliases`` are further spellings.
    """

    name: str
    camel: str
    kind: str
    summary: str
    default: Any = None
    metavar: str | None = None
    aliases: tuple[str, ...] = ()
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


EXPLAIN: Final = ("off", "warnings", "audit", "both")
"""The values of ``--explain``."""
GUARD: Final = ("enforce", "warn", "off")
"""The values of ``--guard``."""

# A folder of thirty revisions takes some 100 ms to read.
MIN_RELOAD_INTERVAL: Final = 1.0

# k8s.io/apimachinery/pkg/util/validation, IsValidLabelValue; an empty one names nothing.
_LABEL_VALUE: Final = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", re.ASCII)

FILES: Final = "files"
SELF_SIGNED: Final = "self-signed"
TLS_MODES: Final = (FILES, SELF_SIGNED)
_NO_PATCHES: Final = "no caBundle is patched here"

FIELDS: Final[tuple[Setting, ...]] = (
    Setting("bind", "bind", "text", "The address that both ports listen on; empty is every one.", "", "ADDRESS"),
    # Not INJECTOR_PORT: Kubernetes sets that to an address in every pod beside a Service named `injector`.
    Setting("port", "port", "port", "The webhook's port.", 9443, variable_name="WEBHOOK_PORT"),
    Setting(
        "ops_port",
        "opsPort",
        "port",
        "The port of probes, metrics and status, always plain HTTP.",
        8080,
        aliases=("--monitoringPort",),
    ),
    Setting("insecure_http", "insecureHttp", "flag", "Serve the webhook without TLS, for tests.", default=False),
    Setting(
        "tls_mode",
        "tlsMode",
        "text",
        "Where the webhook's certificate comes from: files, or a CA of the injector's own in a Secret.",
        FILES,
        words=TLS_MODES,
    ),
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
    Setting("ca_secret", "caSecret", "text", "The Secret of the CA, for self-signed.", "injector-ca", "NAME"),
    Setting("service", "service", "text", "The Service that API servers call the webhook by.", "injector", "NAME"),
    Setting(
        "namespace",
        "namespace",
        "text",
        "The namespace of --service and --ca-secret; without it, the pod's own.",
        metavar="NAMESPACE",
    ),
    Setting(
        "patch_webhooks",
        "patchWebhooks",
        "switch",
        "Keep caBundle of the webhooks that call --service up to date; on by default for self-signed.",
        aliases=("--reconcileWebhookConfig",),
    ),
    Setting(
        "webhook_config_name",
        "webhookConfigName",
        "text",
        "The MutatingWebhookConfiguration to patch, in place of those that call --service.",
        metavar="NAME",
    ),
    Setting("webhook_name", "webhookName", "text", "The one webhook of it to patch.", metavar="NAME"),
    Setting(
        "client_ca_file", "clientCaFile", "path", "Serve clients alone whose certificate is of this authority, PEM."
    ),
    Setting(
        "client_name", "clientName", "texts", "A common name that --client-ca-file's clients may have.", (), "NAME"
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
        aliases=("--valuesConfig", "--values-config", "--injectValues"),
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
        "How to reach the API server, where it is asked; without it, as the pod's service account.",
    ),
    Setting(
        "watch_unserved",
        "watchUnserved",
        "flag",
        "Watch the cluster for namespaces and pods whose istio.io/rev names nothing that is served.",
        default=False,
    ),
    Setting(
        "served_elsewhere",
        "servedElsewhere",
        "texts",
        "A revision or tag that another injector serves, so that its name is not missed here.",
        (),
        "NAME",
    ),
    Setting(
        "explain",
        "explain",
        "text",
        "What answers say of the decision: warnings for whoever creates the pod, audit annotations, or both.",
        "off",
        words=EXPLAIN,
    ),
    Setting(
        "guard",
        "guard",
        "text",
        "What happens to a pod whose values break out of the template: it is refused, or injected with a warning; off does not look.",
        "enforce",
        words=GUARD,
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
)
"""Every setting of ``serve``, in the order of ``--help``."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of one ``injector serve``; ``FIELDS`` says what each is."""

    bind: str = ""
    port: int = 9443
    ops_port: int = 8080
    insecure_http: bool = False
    tls_mode: str = FILES
    tls_cert_file: Path | None = None
    tls_key_file: Path | None = None
    ca_cert_file: Path | None = None
    tls_reload_interval: float = 1.0
    ca_secret: str = "injector-ca"  # noqa: S105 -- its name
    service: str = "injector"
    namespace: str | None = None
    patch_webhooks: bool | None = None
    webhook_config_name: str | None = None
    webhook_name: str | None = None
    client_ca_file: Path | None = None
    client_name: tuple[str, ...] = ()
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
    watch_unserved: bool = False
    served_elsewhere: tuple[str, ...] = ()
    explain: str = "off"
    guard: str = "enforce"
    reload_interval: float = 30.0
    shutdown_delay: float = 5.0
    max_waiting: int = 1000
    log_format: str = "auto"
    log_decisions: str = "skips"
    health_check_interval: float = 0.0
    health_check_file: Path | None = None

    @property
    def self_signed(self) -> bool:
        """Whether the injector makes its certificate itself."""
        return self.tls_mode == SELF_SIGNED

    @property
    def patches(self) -> bool:
        """Whether ``caBundle`` is kept up to date.

        Where nothing is said of it, it is with a CA of the injector's own, and with a name as sidecar-injector takes it.
        """
        if self.patch_webhooks is not None:
            return self.patch_webhooks
        return not self.insecure_http and (self.self_signed or self.webhook_config_name is not None)

    @property
    def asks_cluster(self) -> bool:
        """Whether the API server is called at all."""
        return self.from_cluster or self.self_signed or self.patches

    def checked(self) -> Settings:
        """Return the settings if they go together.

        Raises:
            UsageError: two of them contradict each other, or one lacks its companion.
        """
        self._check_tls()
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
        for name in self.served_elsewhere:
            if not _LABEL_VALUE.fullmatch(name):
                raise UsageError(
                    f"{name[:80]!r} is no value of a label", where="--served-elsewhere", hint="give one name each time"
                )
        if self.port == self.ops_port != 0:
            raise UsageError(f"both ports are {self.port}", where="--ops-port", hint="choose another")
        return self

    def _check_tls(self) -> None:
        certificate = self.tls_cert_file or self.tls_key_file
        if self.insecure_http and (certificate or self.self_signed or self.client_ca_file or self.patch_webhooks):
            raise UsageError("--insecure-http and a certificate exclude each other", hint="give one of the two")
        if self.self_signed and (certificate or self.ca_cert_file):
            raise UsageError(
                "--tls-mode self-signed makes the certificate that --tlsCertFile, --tlsKeyFile or --caCertFile names",
                hint="leave these out, or use --tls-mode files",
            )
        if not self.insecure_http and not self.self_signed and not (self.tls_cert_file and self.tls_key_file):
            raise UsageError(
                "the webhook has no certificate",
                hint="give --tlsCertFile and --tlsKeyFile, --tls-mode self-signed, or --insecure-http for a test",
            )
        if self.patches and not self.self_signed and not self.ca_cert_file:
            raise UsageError("caBundle cannot be patched without a CA", hint="give --caCertFile too")
        if self.client_name and not self.client_ca_file:
            raise UsageError("--client-name belongs to --client-ca-file", hint="give --client-ca-file too")

    def warnings(self) -> tuple[str, ...]:
        """Return a line for each setting that is given and has no effect."""
        idle: dict[str, str] = {}
        if not self.from_cluster:
            idle["istio_namespace"] = "it belongs to --from-cluster"
        if not self.asks_cluster and not self.watch_unserved:
            idle["kubeconfig"] = "the API server is not asked"
        if not self.self_signed:
            idle["ca_secret"] = "it belongs to --tls-mode self-signed"  # noqa: S105 -- a reason
        if not self.patches:
            idle |= dict.fromkeys(("webhook_config_name", "webhook_name"), _NO_PATCHES)
        elif not self.webhook_config_name:
            idle["webhook_name"] = "give --webhookConfigName too"
        if not self.self_signed and not self.patches:
            idle |= dict.fromkeys(("service", "namespace"), "it belongs to --tls-mode self-signed and --patch-webhooks")
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
