"""The parts of a server, which the command line puts together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from injector.webhook.handler import HandlerOptions

if TYPE_CHECKING:
    from injector.metrics import Metrics
    from injector.revisions.following import Reloader
    from injector.revisions.registry import Registry
    from injector.revisions.reload import Loader
    from injector.revisions.unservednames import UnservedNames
    from injector.revisions.verify import RecentPods
    from injector.webhook.lifecycle import HealthFile
    from injector.webhook.tls.certificatesource import CertificateSource


@dataclass(frozen=True, slots=True)
class Services:
    """The parts of a server, which the command line puts together.

    Attributes:
        recent: recent pods, on which new revisions are verified.
        certificates: the certificate of the webhook's port; None for plain HTTP.
        unserved: the watch for unknown names.
        elsewhere: names that another injector serves.
        pending: returns what the cluster has not answered yet; empty if nothing.
        upgrades: returns the upgrades of the cluster as JSON data; None if they are not watched.
    """

    registry: Registry
    loader: Loader
    metrics: Metrics
    version: str
    recent: RecentPods | None = None
    follower: Reloader | None = None
    certificates: CertificateSource | None = None
    health_file: HealthFile | None = None
    unserved: UnservedNames | None = None
    elsewhere: frozenset[str] = frozenset()
    options: HandlerOptions = field(default_factory=HandlerOptions)
    pending: Callable[[], str] = str
    upgrades: Callable[[], list[dict[str, Any]]] | None = None
