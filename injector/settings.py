"""The settings of ``injector serve``: each one once, with its default, its help and its spellings.

The command line builds its options from ``SETTINGS``. The flag of ``tls_cert_file`` is ``--tls-cert-file`` or, as Istio spells it,
``--tlsCertFile``; its environment variable is ``INJECTOR_TLS_CERT_FILE``. Flags of Istio's standalone sidecar-injector (1.0 to 1.4) keep
their spelling.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from injector.errors import UsageError, no_source
from injector.injection.result import GUARDS

if TYPE_CHECKING:
    from pathlib import Path

Port: TypeAlias = int
Count: TypeAlias = int

FILES: Final = "files"
SELF_SIGNED: Final = "self-signed"
DENY: Final = "deny"

# Reading a folder of thirty revisions takes about 100 ms.
MIN_RELOAD_INTERVAL: Final = 1.0
# k8s.io/apimachinery/pkg/util/validation, IsValidLabelValue, without the empty value.
_LABEL_VALUE: Final = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting as a command-line option.

    Attributes:
        name: the attribute of ``Settings``.
        kind: the type of that attribute, as it is written there.
        default: the value if nothing is given.
        summary: the help text.
        metavar: the placeholder for the value in the help text.
        aliases: further spellings of the flag.
        choices: the allowed values; any if empty.
        variable: the environment variable.
    """

    name: str
    kind: str
    default: Any
    summary: str
    metavar: str | None
    aliases: tuple[str, ...]
    choices: tuple[str, ...]
    variable: str

    @property
    def flags(self) -> tuple[str, ...]:
        """Every spelling of the flag: kubectl's, Istio's, then the aliases."""
        camel = re.sub("_(.)", lambda letter: letter[1].upper(), self.name)
        return tuple(dict.fromkeys((f"--{self.name.replace('_', '-')}", f"--{camel}", *self.aliases)))


def _setting(
    summary: str,
    default: Any = None,
    metavar: str | None = None,
    *,
    aliases: tuple[str, ...] = (),
    choices: tuple[str, ...] = (),
    variable: str = "",
) -> Any:
    metadata = {"summary": summary, "metavar": metavar, "aliases": aliases, "choices": choices, "variable": variable}
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of one ``injector serve``, in the order of ``--help``."""

    bind: str = _setting("Address of both ports. Empty means every address.", "", "ADDRESS")
    # Not INJECTOR_PORT: in every pod beside a Service named `injector` Kubernetes sets that variable to an address.
    port: Port = _setting("Port of the webhook.", 9443, variable="WEBHOOK_PORT")
    ops_port: Port = _setting(
        "Port of probes, metrics and status. Always plain HTTP.", 8080, aliases=("--monitoringPort",)
    )
    insecure_http: bool = _setting("Serve the webhook without TLS, for tests.", default=False)
    tls_mode: str = _setting(
        "Source of the webhook's certificate: files, or a CA that the injector generates and keeps in a Secret.",
        FILES,
        choices=(FILES, SELF_SIGNED),
    )
    tls_cert_file: Path | None = _setting("Certificate chain of the webhook, PEM.")
    tls_key_file: Path | None = _setting("Private key of --tlsCertFile, PEM.")
    ca_cert_file: Path | None = _setting("CA of --tlsCertFile, PEM.")
    tls_reload_interval: float = _setting(
        "How often to check the files of the certificate for changes. 0 disables the check.", 1.0
    )
    ca_secret: str = _setting("Secret of the CA, for --tls-mode self-signed.", "injector-ca", "NAME")
    service: str = _setting("Service that API servers call the webhook by.", "injector", "NAME")
    namespace: str | None = _setting(
        "Namespace of --service and --ca-secret. The default is the namespace of the pod.", metavar="NAMESPACE"
    )
    patch_webhooks: bool | None = _setting(
        "Keep caBundle of the webhooks that call --service up to date. On by default for --tls-mode self-signed.",
        aliases=("--reconcileWebhookConfig",),
    )
    webhook_config_name: str | None = _setting(
        "MutatingWebhookConfiguration to patch, instead of those that call --service.", metavar="NAME"
    )
    webhook_name: str | None = _setting("The only webhook of --webhookConfigName to patch.", metavar="NAME")
    client_ca_file: Path | None = _setting("Require client certificates signed by this CA, PEM.")
    client_name: tuple[str, ...] = _setting(
        "Common name that a client certificate may have. Without it, any.", (), "NAME"
    )
    revisions_dir: Path | None = _setting("Directory with one folder per revision.")
    embedded: bool = _setting("Use the two embedded examples, stable and canary.", default=False)
    inject_config: Path | None = _setting("Injection config of one revision.", aliases=("--injectConfigFile",))
    values_file: Path | None = _setting(
        "Values of --injectConfig.", aliases=("--valuesConfig", "--values-config", "--injectValues")
    )
    mesh_config: Path | None = _setting("Mesh config of --injectConfig.", aliases=("--meshConfigFile",))
    revision: str | None = _setting("Name of the revision of --injectConfig.", metavar="NAME", aliases=("-r",))
    istio_version: str | None = _setting("Istio version of --injectConfig.", metavar="VERSION")
    set_env: tuple[str, ...] = _setting("Feature variable of istiod, for --injectConfig.", (), "NAME=VALUE")
    node_version: tuple[str, ...] = _setting("Kubelet version, for --injectConfig.", (), "VERSION")
    from_cluster: bool = _setting(
        "Also serve the revisions and tags that Istio installed in the cluster.", default=False
    )
    istio_namespace: tuple[str, ...] = _setting(
        "Namespace of Istio's ConfigMaps, for --from-cluster. Repeat it for control planes in several namespaces.",
        ("istio-system",),
        "NAMESPACE",
    )
    kubeconfig: Path | None = _setting("How to reach the API server. The default is the pod's service account.")
    watch_unserved: bool = _setting(
        "Watch the cluster for namespaces and pods whose istio.io/rev names an unknown revision or tag.", default=False
    )
    served_elsewhere: tuple[str, ...] = _setting(
        "Revision or tag that another injector serves. It does not count as unknown.", (), "NAME"
    )
    watch_drift: bool = _setting(
        "Watch the metadata of the cluster's pods, and count the workloads whose sidecar is of another revision than new pods would get.",
        default=False,
    )
    upgrades: bool = _setting(
        "Run the Upgrade resources of the cluster, in the replica that holds a Lease, and show them. Requires --from-cluster.",
        default=False,
    )
    prometheus_token: str | None = _setting(
        "Bearer token in FILE, for the gates of upgrades whose `prometheus` is URL.", metavar="URL=FILE"
    )
    gate_token: tuple[str, ...] = _setting(
        "Bearer token in FILE, for the webhooks of gates of upgrades whose `url` is URL. Repeatable.", (), "URL=FILE"
    )
    explain: str = _setting(
        "Add the decision to responses: as warnings to the client, as audit annotations, or both.",
        "off",
        choices=("off", "warnings", "audit", "both"),
    )
    guard: str = _setting(
        "Deny a pod whose values break out of the template, inject it with a warning, or disable the check.",
        GUARDS[0],
        choices=GUARDS,
    )
    invalid_pods: str = _setting(
        "Deny a pod that the API server would refuse because of its injection, or allow it: a later webhook may correct it.",
        DENY,
        choices=(DENY, "allow"),
    )
    reload_interval: float = _setting(
        "How often to read the whole configuration, besides the check of its files every 0.6 s. 0 disables reloading.",
        30.0,
    )
    keep_removed: float = _setting(
        "How long to serve a revision after it was removed, for tags and namespaces that still name it. 0 drops it at once.",
        600.0,
    )
    shutdown_delay: float = _setting("Grace period after SIGTERM in which the unready server still answers.", 5.0)
    # At 4 ms each that is 4 s of work. An API server sends at most 200 at once (--max-mutating-requests-inflight).
    max_waiting: Count = _setting(
        "Maximum number of reviews that wait for injection. Further ones are rejected with status 429.", 1000
    )
    log_format: str = _setting(
        "Format of log lines. auto is text on a terminal, else JSON.", "auto", choices=("auto", "json", "text")
    )
    log_decisions: str = _setting(
        "Reviews to log with their decision. skips includes failures.",
        "skips",
        choices=("none", "failures", "skips", "all"),
    )
    health_check_interval: float = _setting("How often to write --healthCheckFile. 0 never writes it.", 0.0)
    health_check_file: Path | None = _setting("File to write while the injector is healthy, for `injector probe`.")

    @property
    def self_signed(self) -> bool:
        """Whether the injector generates its certificate."""
        return self.tls_mode == SELF_SIGNED

    @property
    def patches(self) -> bool:
        """Whether ``caBundle`` is kept up to date: by default with a generated CA, or if a configuration is named."""
        if self.patch_webhooks is not None:
            return self.patch_webhooks
        return not self.insecure_http and (self.self_signed or self.webhook_config_name is not None)

    @property
    def asks_cluster(self) -> bool:
        """Whether the server needs a client of the API server."""
        return self.from_cluster or self.self_signed or self.patches or self.watch_drift or self.watch_unserved

    def check(self) -> Settings:
        """Return the settings if they are consistent.

        Raises:
            UsageError: two settings contradict each other, or one requires another.
            NotConfiguredError: none says where the revisions are.
        """
        self._check_sources()
        self._check_tls()
        if self.upgrades and not self.from_cluster:
            raise UsageError(
                "--upgrades requires --from-cluster", hint="give --from-cluster too, which reads the revisions to move"
            )
        if 0 < self.reload_interval < MIN_RELOAD_INTERVAL:
            raise UsageError(
                f"{self.reload_interval:g} s is too short",
                where="--reload-interval",
                hint=f"give {MIN_RELOAD_INTERVAL:g}s or more, or 0 to disable reloading",
            )
        for name in self.served_elsewhere:
            if not _LABEL_VALUE.fullmatch(name):
                raise UsageError(
                    f"{name[:80]!r} is not a valid label value",
                    where="--served-elsewhere",
                    hint="repeat the flag for each name",
                )
        if self.port == self.ops_port != 0:
            raise UsageError(f"both ports are {self.port}", where="--ops-port", hint="choose another port")
        return self

    def _check_sources(self) -> None:
        sources = {
            "--revisions-dir": self.revisions_dir,
            "--embedded": self.embedded,
            "--injectConfig": self.inject_config,
        }
        stated = [flag for flag, value in sources.items() if value]
        if len(stated) > 1:
            raise UsageError(f"{' and '.join(stated)} exclude each other", hint="give one of them")
        only_with_config = ("values_file", "mesh_config", "revision", "istio_version", "set_env", "node_version")
        without_effect = [
            setting for setting in SETTINGS if setting.name in only_with_config and getattr(self, setting.name)
        ]
        if without_effect and not self.inject_config:
            raise UsageError(
                f"{without_effect[0].flags[0]} requires --injectConfig",
                hint="give --injectConfig too, or put the file into a folder of --revisions-dir",
            )
        if not stated and not self.from_cluster:
            raise no_source("--injectConfig FILE", "--revisions-dir DIR (or INJECTOR_REVISIONS_DIR)", "--from-cluster")

    def _check_tls(self) -> None:
        certificate = self.tls_cert_file or self.tls_key_file
        if self.insecure_http and (certificate or self.self_signed or self.client_ca_file or self.patch_webhooks):
            raise UsageError("--insecure-http and a certificate exclude each other", hint="give one of the two")
        if self.self_signed and (certificate or self.ca_cert_file):
            raise UsageError(
                "--tls-mode self-signed and --tlsCertFile, --tlsKeyFile or --caCertFile exclude each other",
                hint="remove these flags, or use --tls-mode files",
            )
        if not self.insecure_http and not self.self_signed and not (self.tls_cert_file and self.tls_key_file):
            raise UsageError(
                "the webhook has no certificate",
                hint="give --tlsCertFile and --tlsKeyFile, --tls-mode self-signed, or --insecure-http for a test",
            )
        if self.patches and not self.self_signed and not self.ca_cert_file:
            raise UsageError("caBundle cannot be patched without a CA", hint="give --caCertFile too")
        if self.upgrades and len(self.istio_namespace) > 1:
            raise UsageError("--upgrades requires one --istio-namespace", hint="run the upgrades by another injector")
        if self.client_name and not self.client_ca_file:
            raise UsageError("--client-name requires --client-ca-file", hint="give --client-ca-file too")

    def warnings(self) -> tuple[str, ...]:
        """Return one line for each setting that is given and has no effect."""
        signs_or_patches = self.self_signed or self.patches
        needs = {
            "istio_namespace": (self.from_cluster, "it requires --from-cluster"),
            "kubeconfig": (self.asks_cluster, "nothing is read from the cluster"),
            "prometheus_token": (self.upgrades, "it requires --upgrades"),
            "gate_token": (self.upgrades, "it requires --upgrades"),
            "ca_secret": (self.self_signed, "it requires --tls-mode self-signed"),
            "webhook_config_name": (self.patches, "caBundle is not patched"),
            "webhook_name": (self.patches and self.webhook_config_name, "it requires --webhookConfigName"),
            "service": (signs_or_patches, "it requires --tls-mode self-signed or --patch-webhooks"),
            "namespace": (signs_or_patches, "it requires --tls-mode self-signed or --patch-webhooks"),
            "health_check_file": (self.health_check_interval, "it requires --healthCheckInterval"),
            "health_check_interval": (self.health_check_file, "it requires --healthCheckFile"),
        }
        without_effect = [
            setting for setting in SETTINGS if setting.name in needs and getattr(self, setting.name) != setting.default
        ]
        return tuple(
            f"{setting.flags[0]} has no effect: {needs[setting.name][1]}"
            for setting in without_effect
            if not needs[setting.name][0]
        )


def _settings() -> tuple[Setting, ...]:
    settings = []
    for declared in fields(Settings):
        metadata = dict(declared.metadata)
        variable = f"INJECTOR_{metadata.pop('variable') or declared.name.upper()}"
        settings.append(
            Setting(
                name=declared.name,
                kind=str(declared.type),
                default=declared.default,
                variable=variable,
                **metadata,
            )
        )
    return tuple(settings)


SETTINGS: Final = _settings()
"""Every setting of ``serve``, in the order of ``--help``."""
DEFAULTS: Final = Settings()
