"""Istio's labels and annotations of namespaces, pods and webhooks, and the names with a meaning of their own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

Labels: TypeAlias = Mapping[str, str]

DEFAULT_NAME: Final = "default"
"""The revision, and the tag, that also serves ``istio-injection=enabled``."""
ISTIO_NAMESPACE: Final = "istio-system"
SYSTEM_NAMESPACES: Final = ("kube-system", "kube-public", "kube-node-lease", "local-path-storage")
"""The namespaces that Istio never injects (pkg/kube/inject/inject.go, IgnoredNamespaces)."""

REVISION_LABEL: Final = "istio.io/rev"
TAG_LABEL: Final = "istio.io/tag"
INJECTION_LABEL: Final = "istio-injection"
INJECT_LABEL: Final = "sidecar.istio.io/inject"
"""A label, and for older minors an annotation."""
DATAPLANE_MODE: Final = "istio.io/dataplane-mode"
NAME_LABEL: Final = "kubernetes.io/metadata.name"
"""The label with its name that the API server gives every namespace."""
# The longest label value (k8s.io/apimachinery/pkg/util/validation, LabelValueMaxLength). Admission webhooks see labels before the API
# server checks them.
MAX_LABEL_VALUE: Final = 63
TEMPLATES: Final = "inject.istio.io/templates"
"""The annotation of a pod with the names of its templates."""
NATIVE_SIDECAR: Final = "sidecar.istio.io/nativeSidecar"
ANNOTATIONS: Final = "revision-injector/"
"""The prefix of the injector's own annotations."""

NAMESPACE: Final = "namespace"
POD: Final = "pod"
PRECEDENCES: Final = (NAMESPACE, POD)
"""The objects whose label ``istio.io/rev`` counts if both a pod and its namespace have one; Istio's is ``namespace``."""
