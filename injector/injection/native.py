"""Whether the proxy is a native sidecar: by feature variable, or by what the cluster's nodes can.

Follows ``DetectNativeSidecar`` in pkg/kube/inject/webhook.go (1.30.3).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from injector.istio.annotations import parse_bool

if TYPE_CHECKING:
    from injector.istio.revision import Revision

# Native sidecars are stable since Kubernetes 1.33 (KEP 753).
_FIRST_MINOR: Final = 33
_VERSION = re.compile(r"v?\d+\.(\d+)(?:[.\-+].*)?", re.ASCII)


def native_sidecar(revision: Revision) -> bool:
    """Return whether pods of ``revision`` get native sidecars unless their annotation says otherwise.

    With ``auto`` every node must be new enough; with no nodes known it is off, as in Istio without a cluster to ask.
    """
    mode = revision.native_sidecars
    if not revision.behaviours.native_sidecar_nodes:
        return parse_bool(mode) is True
    if mode != "auto":
        return mode == "true"
    return bool(revision.node_versions) and all(_supports(version) for version in revision.node_versions)


def _supports(kubelet_version: str) -> bool:
    match = _VERSION.fullmatch(kubelet_version)
    return match is not None and int(match[1]) >= _FIRST_MINOR
