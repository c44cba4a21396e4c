"""``sidecar-injector``, the standalone injector of Istio 1.0 to 1.4: its flags and defaults, as arguments of ``injector``.

A Deployment of those releases has only flags, without a command, and a probe that calls ``/usr/local/bin/sidecar-injector probe``.
Follows pilot/cmd/sidecar-injector/main.go (1.1.17) and sidecar-injector/cmd/sidecar-injector/main.go (1.4.10).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

PROGRAM: Final = "sidecar-injector"

_FILES: Final = {
    "meshConfig": "etc/istio/config/mesh",
    "injectConfig": "etc/istio/inject/config",
    "injectValues": "etc/istio/inject/values",
    "tlsCertFile": "etc/istio/certs/cert-chain.pem",
    "tlsKeyFile": "etc/istio/certs/key.pem",
    "caCertFile": "etc/istio/certs/root-cert.pem",
}
_DEFAULTS: Final = {
    "port": "443",
    "monitoringPort": "15014",
    "webhookConfigName": "istio-sidecar-injector",
    "webhookName": "sidecar-injector.istio.io",
    "reconcileWebhookConfig": "true",
}
_OTHERS: Final = frozenset({"healthCheckInterval", "healthCheckFile", "kubeconfig"})
# istio.io/pkg/log, Options.AttachCobraFlags: the format and the amount of logging, which are the injector's own.
_LOGGING: Final = frozenset({
    "log_as_json", "log_caller", "log_output_level", "log_rotate", "log_rotate_max_age", "log_rotate_max_backups",
    "log_rotate_max_size", "log_stacktrace_level", "log_target",
})  # fmt: skip
_SWITCHES: Final = frozenset({"log_as_json"})
"""Flags that need no value."""


def serves(command_line: Sequence[str]) -> bool:
    """Tell whether a command line, the name of the program included, is that of a server."""
    program, *arguments = command_line or [""]
    return "serve" in arguments[:2] or program.endswith(f"/{PROGRAM}") or any(map(is_old_flag, arguments[:1]))


def is_old_flag(argument: str) -> bool:
    """Tell whether an argument is a flag of ``sidecar-injector``."""
    return argument.startswith("--") and _name(argument) in {*_FILES, *_DEFAULTS, *_OTHERS, *_LOGGING}


def arguments_of(arguments: Sequence[str], root: Path = Path("/")) -> list[str]:
    """Return the arguments of ``injector`` for those of ``sidecar-injector``.

    Flags for logging are left out. 1.0 and 1.1 have no values, so their file may be missing.

    Args:
        arguments: flags, or a command and its flags.
        root: the folder of the default paths.
    """
    if arguments and not arguments[0].startswith("-"):
        return list(arguments)
    kept: list[str] = []
    skips_value = False
    for argument in arguments:
        if skips_value:
            skips_value = False
        elif argument.startswith("--") and _name(argument) in _LOGGING:
            skips_value = "=" not in argument and _name(argument) not in _SWITCHES
        else:
            kept.append(argument)
    stated = {_name(argument) for argument in kept if argument.startswith("--")}
    files = {name: root / path for name, path in _FILES.items()}
    if not files["injectValues"].exists():
        del files["injectValues"]
    defaults = {**files, **_DEFAULTS}
    return ["serve", *(f"--{name}={value}" for name, value in defaults.items() if name not in stated), *kept]


def _name(argument: str) -> str:
    return argument.removeprefix("--").partition("=")[0]
