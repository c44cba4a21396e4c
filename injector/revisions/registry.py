"""The registry: an immutable snapshot of the revisions and tags that are served, replaced as a whole.

The path of a request, ``/inject/NAME``, has the name of a revision or tag, and names lead to revisions.

A request reads ``registry.snapshot`` once and needs no lock: a snapshot never changes, and a swap is one assignment. The server, the
commands and ``explain`` all resolve names with ``resolve_name``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote_to_bytes

from injector.errors import ConfigError, ReviewError, UnknownRevisionError, first_of
from injector.istio.webhooks import DEFAULT_NAME, SLASH
from injector.kube.selectors import is_dns_label

if TYPE_CHECKING:
    from injector.istio.revision import Revision
    from injector.revisions.tags import Tag, TagWorkload

PATH_PREFIX: Final = "/inject"
_LEGACY: Final = ":ENV:"
_VARIABLES: Final = MappingProxyType({"cluster": "ISTIO_META_CLUSTER_ID", "net": "ISTIO_META_NETWORK"})
# Names of environment variables in Kubernetes: printable ASCII without `=`
# (k8s.io/apimachinery/pkg/util/validation, IsRelaxedEnvVarName).
_VARIABLE: Final = re.compile(r"[ -<>-~]+", re.ASCII)
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
# Names in messages are cut. A valid one has at most 63 letters.
_SHOWN: Final = 80

RESERVED_NAMES: Final = frozenset(_VARIABLES)
"""Names with another meaning in a path: Istio's ``/inject/cluster/C/net/N``."""

# Keeps an error message readable in kubectl's output; the status page shows all names.
_MAX_NAMES_IN_MESSAGE: Final = 20


@dataclass(frozen=True, slots=True)
class ResolvedName:
    """The revision that a name leads to, and the tag in between, if there is one; ``reason`` is that of its ``Choice``."""

    revision: str
    tag: Tag | None = None
    reason: str = ""


def resolve_name(
    name: str,
    revisions: Collection[str],
    tags: Mapping[str, Tag],
    *,
    default: str | None,
    workload: Callable[[], TagWorkload] | None = None,
) -> ResolvedName:
    """Return the revision that ``name`` leads to.

    Args:
        name: a revision, a tag, or empty for the default. ``default`` means the same unless a revision or tag has this name.
        revisions: the names of all revisions.
        tags: all tags; a tag takes precedence over a revision of the same name.
        default: the name for requests without one; see ``default_name``.
        workload: returns the workload. It is called only if a tag distributes workloads over several revisions.
            Without it such a tag leads to the revision with the largest weight.

    Raises:
        UnknownRevisionError: no revision or tag has this name, or the tag leads to a missing revision.
    """
    wanted = name if name in tags or name in revisions or name not in ("", DEFAULT_NAME) else default
    if wanted is None:
        hint = f"name a revision, or create the tag `default`; {_known(revisions, tags)}"
        raise UnknownRevisionError("no default revision", where="path /inject", hint=hint)
    tag = tags.get(wanted)
    revision, reason = (wanted, "") if tag is None else tag.choice_for(workload)
    if revision not in revisions:
        raise UnknownRevisionError(f"there is no revision or tag {revision!r}", hint=_known(revisions, tags))
    return ResolvedName(revision, tag, reason)


def default_name(revisions: Collection[str], tags: Collection[str], *, stated: str | None = None) -> str | None:
    """Return the name for requests without one; None without a default.

    It is the tag or the revision ``default``, else the only revision, else ``stated`` by the source.
    """
    if DEFAULT_NAME in tags or DEFAULT_NAME in revisions:
        return DEFAULT_NAME
    if len(revisions) == 1:
        return next(iter(revisions))
    return stated if stated in revisions else None


def checked_name(name: str, *, where: str, kind: str = "revision") -> str:
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


def list_names(names: Iterable[str]) -> str:
    """Return names for a message, sorted and shortened."""
    return first_of(sorted(names), _MAX_NAMES_IN_MESSAGE)


def _known(revisions: Collection[str], tags: Collection[str]) -> str:
    names = list_names({*revisions, *tags})
    return f"known are {names}" if names else "there are no revisions"


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

    Follows ``parseInjectEnvs`` and ``URLParameterToEnv`` in pkg/kube/inject/webhook.go (1.30.3), with two intended differences: the name
    before the pairs, and that segments are decoded after the path is split, so that an escaped ``/`` does not separate segments.

    Raises:
        UnknownRevisionError: the name is not a valid name of a revision or tag.
        ReviewError: a part is not UTF-8 or has a control character, or a key is not a valid environment variable.
    """
    segments = [
        _decoded(segment)
        for segment in raw_path.removeprefix(PATH_PREFIX).removeprefix("/").removesuffix("/").split("/")
    ]
    if segments == [""]:
        return InjectPath()
    first, *rest = segments
    if first in RESERVED_NAMES or first.startswith(_LEGACY):
        return InjectPath("", _envs(segments))
    if not is_dns_label(first):
        raise UnknownRevisionError(
            f"{first[:_SHOWN]!r} is not a valid name of a revision or tag",
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
    name = _VARIABLES.get(key) or key.upper()
    if not _VARIABLE.fullmatch(name):
        raise ReviewError(
            f"{key[:_SHOWN]!r} is not a valid environment variable", where="path", hint="correct the webhook's path"
        )
    return name


def _decoded(segment: str) -> str:
    try:
        text = unquote_to_bytes(segment).decode()
    except UnicodeDecodeError as error:
        raise ReviewError("not UTF-8", where="path", hint="correct the webhook's path") from error
    if _CONTROL.search(text):
        raise ReviewError("has a control character", where="path", hint="correct the webhook's path")
    return text


@dataclass(frozen=True, slots=True)
class Candidate:
    """The candidate of a tag's shadow, and the percentage of requests to try it on."""

    revision: Revision
    sample: float


@dataclass(frozen=True, slots=True)
class Resolved:
    """The revision for one request, with the tag that led to it, the candidate of that tag, if any, and the reason of its choice."""

    revision: Revision
    tag: str | None = None
    candidate: Candidate | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The revisions that are served at one moment, the tags, which lead only to these, and the name for requests without one."""

    revisions: Mapping[str, Revision] = field(default_factory=lambda: MappingProxyType({}))
    tags: Mapping[str, Tag] = field(default_factory=lambda: MappingProxyType({}))
    default: str | None = None

    @property
    def names(self) -> frozenset[str]:
        """Every value of the label ``istio.io/rev`` that this injector serves.

        If there is a default of any name, Istio's webhooks for ``default`` lead to it.
        """
        return frozenset((*self.revisions, *self.tags, *((DEFAULT_NAME,) if self.default is not None else ())))

    def resolve(self, name: str, workload: Callable[[], TagWorkload] | None = None) -> Resolved:
        """Return the revision that serves requests for ``name``; see ``resolve_name``."""
        target = resolve_name(name, self.revisions, self.tags, default=self.default, workload=workload)
        if target.tag is None:
            return Resolved(self.revisions[target.revision])
        shadow = target.tag.shadow
        candidate = None if shadow is None else Candidate(self.revisions[shadow.revision], shadow.sample)
        return Resolved(self.revisions[target.revision], target.tag.name, candidate, target.reason)


class Registry:
    """Holds the current snapshot. Use the same one for all of a request."""

    def __init__(self, snapshot: Snapshot | None = None) -> None:
        self.snapshot = snapshot or Snapshot()
        self._listeners: list[Callable[[], None]] = []

    def swap(self, snapshot: Snapshot) -> None:
        """Serve ``snapshot`` from now on and call the listeners."""
        self.snapshot = snapshot
        for listener in self._listeners:
            listener()

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Call ``listener`` after each swap, on the thread of the swap, which is the event loop's in a server."""
        self._listeners.append(listener)


def snapshot_of(
    revisions: Iterable[Revision],
    tags: Mapping[str, Tag],
    *,
    default: str | None = None,
    removed: Collection[str] = (),
) -> Snapshot:
    """Return a snapshot of revisions and tags.

    ``default`` is the one that the source states. ``removed`` are the revisions that the source no longer has. One of them becomes the
    default only if there are no others.
    """
    by_name = {revision.name: revision for revision in revisions}
    present = by_name.keys() - set(removed) or by_name
    return Snapshot(
        MappingProxyType(by_name), MappingProxyType(dict(tags)), default_name(present, tags, stated=default)
    )
