"""The pure core on the corpus: a revision per settings, injections without a command line or a server."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import jsonpatch

from injector.injection.pipeline import inject_pod
from injector.injection.result import Injected, RequestFacts
from injector.injection.tools.manifest import inject_object
from injector.istio.revision import Revision, RevisionSettings, build_revision
from injector.kube.yaml import load_yaml, split_documents
from tests.conformance.corpus import OPENSHIFT_ANNOTATIONS, OPENSHIFT_NAMESPACE, Settings

NAMESPACE_META = {"annotations": dict(OPENSHIFT_ANNOTATIONS)}


@cache
def revision_of(settings: Settings) -> Revision:
    """The revision that ``settings`` describe, built once for all cases that share them."""
    return build_revision(
        settings.revision or "default",
        config=settings.config.read_text(),
        values=settings.values.read_text() if settings.values else None,
        mesh=settings.mesh.read_text(),
        settings=RevisionSettings(
            istio_version=settings.istio_version,
            env=dict(settings.env),
            node_versions=settings.nodes,
            revision=settings.revision,
            namespaces={OPENSHIFT_NAMESPACE: NAMESPACE_META},
        ),
        origin=settings.config.name,
    )


def read(text: str) -> list[Any]:
    """The documents of a manifest as Go reads them; empty ones are none."""
    loaded = [load_yaml(document.text) for document in split_documents(text)]
    return [document for document in loaded if document is not None]


def documents(path: Path) -> list[Any]:
    """The documents of a file."""
    return read(path.read_text())


def injected_documents(settings: Settings, path: Path) -> tuple[list[Any], list[str]]:
    """What ``kube-inject`` makes of a file, and its warnings."""
    warnings: list[str] = []
    revision = revision_of(settings)
    injected = [(inject_object(revision, document, warn=warnings.append), document) for document in documents(path)]
    return [manifest if result is None else result for result, manifest in injected], warnings


def patched_pod(settings: Settings, pod: dict[str, Any], namespace: str) -> Any:
    """``pod`` after the patch that the core answers, applied by an implementation that is not ours.

    Some of Istio's own cases make a pod that the API server refuses, so pods are not refused for that here.
    """
    meta = NAMESPACE_META if namespace == OPENSHIFT_NAMESPACE else None
    facts = RequestFacts(namespace=namespace, namespace_meta=meta, deny_invalid=False)
    result = inject_pod(revision_of(settings), pod, facts)
    if not isinstance(result, Injected):
        return pod
    return jsonpatch.apply_patch(pod, result.patch)
