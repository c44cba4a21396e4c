"""The names of revisions and tags, and the paths of requests, ``/inject/NAME``, which have one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final
from urllib.parse import unquote_to_bytes

from injector.errors import ConfigError, ReviewError, UnknownRevisionError
from injector.gotemplate.sprig.strings import upper
from injector.istio.webhooks.paths import PATH_PREFIX, SLASH
from injector.kube.selectors import is_dns_label

_LEGACY: Final = ":ENV:"
_VARIABLES: Final = MappingProxyType({"cluster": "ISTIO_META_CLUSTER_ID", "net": "ISTIO_META_NETWORK"})
# Names of environment variables in Kubernetes: printable ASCII without `=`
# (k8s.io/apimachinery/pkg/util/validation, IsRelaxedEnvVarName).
_VARIABLE: Final = re.compile(r"[ -<>-~]+", re.ASCII)
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_INVALID_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
# Names in messages are cut. A valid one has at most 63 letters.
_MAX_QUOTED: Final = 80
RESERVED_NAMES: Final = frozenset(_VARIABLES)
"""Names with another meaning in a path: Istio's ``/inject/cluster/C/net/N``."""


def check_name(name: str, *, where: str, kind: str = "revision") -> str:
    """Return ``name`` if it can name a revision or a tag. Raises ConfigError if it is not a DNS-1123 label, or is reserved."""
    if not is_dns_label(name):
        raise ConfigError(
            f"{name[:80]!r} cannot name a {kind}",
            where=where,
            hint="use at most 63 lower-case letters, digits and `-`, with a letter or digit at both ends",
        )
    if name in RESERVED_NAMES:
        raise ConfigError(
            f"`{name}` cannot name a {kind}",
            where=where,
            hint=f"choose another: /inject/{name}/... is Istio's own path",
        )
    return name


@dataclass(frozen=True, slots=True)
class InjectPath:
    """A revision or tag, empty for the default, and additions to the proxy's environment."""

    name: str = ""
    envs: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


def parse_path(raw_path: str) -> InjectPath:
    """Parse the raw path of a request, which is percent-encoded.

    ::

        path    = "/inject" [ "/" name ] [ "/" pairs ]
        pairs   = key "/" value { "/" key "/" value }         an odd last key is ignored
                | ":ENV:" key "=" value { ":ENV:" key "=" value }
        key     = "cluster" | "net" | an environment variable in any case

    Follows ``parseInjectEnvs`` and ``URLParameterToEnv`` in pkg/kube/inject/webhook.go (1.30.3), which get the decoded path: an escaped
    ``/`` separates segments. There are two intended differences: a name may stand before the pairs, and a key that no pod could have in its
    environment is refused.

    Raises:
        UnknownRevisionError: the name is not a valid name of a revision or tag.
        ReviewError: an escape is not valid, the path is not UTF-8 or has a control character, or a key is not a valid environment variable.
    """
    segments = _decode(raw_path).removeprefix(PATH_PREFIX).removeprefix("/").removesuffix("/").split("/")
    if segments == [""]:
        return InjectPath()
    first, *rest = segments
    if first in RESERVED_NAMES or first.startswith(_LEGACY):
        return InjectPath("", _envs(segments))
    if not is_dns_label(first):
        raise UnknownRevisionError(
            f"{first[:_MAX_QUOTED]!r} is not a valid name of a revision or tag",
            where="path",
            hint="send reviews to /inject/NAME, a DNS-1123 label",
        )
    return InjectPath(first, _envs(rest))


def _envs(segments: list[str]) -> Mapping[str, str]:
    if segments and segments[0].startswith(_LEGACY):
        pairs = _legacy_pairs("/".join(segments))
    else:
        pairs = [(key, value.replace(SLASH, "/")) for key, value in zip(segments[::2], segments[1::2], strict=False)]
    return MappingProxyType({_variable(key): value for key, value in pairs if key})


def _legacy_pairs(text: str) -> list[tuple[str, str]]:
    """Parse ``:ENV:KEY=VALUE:ENV:...``. Like Istio, ignore parts that are not pairs."""
    pairs = (part.partition("=") for part in text.split(_LEGACY)[1:])
    return [(key, value) for key, separator, value in pairs if separator]


def _variable(key: str) -> str:
    name = _VARIABLES.get(key) or upper(key)
    if not _VARIABLE.fullmatch(name):
        raise ReviewError(
            f"{key[:_MAX_QUOTED]!r} is not a valid environment variable",
            where="path",
            hint="correct the webhook's path",
        )
    return name


def _decode(raw_path: str) -> str:
    if _INVALID_ESCAPE.search(raw_path):
        # net/url, as in Go's server, answers 400 (Go 1.26, unescape).
        raise ReviewError(
            "has a `%` that begins no escape", where="path", hint="write `%25` for `%` in the webhook's path"
        )
    try:
        text = unquote_to_bytes(raw_path).decode()
    except UnicodeDecodeError as error:
        raise ReviewError("not UTF-8", where="path", hint="correct the webhook's path") from error
    if _CONTROL.search(text):
        raise ReviewError("has a control character", where="path", hint="correct the webhook's path")
    return text
