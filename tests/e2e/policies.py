"""A ValidatingAdmissionPolicy that istio-init violates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

EXPRESSION = (
    "!has(object.spec.initContainers) || object.spec.initContainers.all(c, "
    "!has(c.securityContext) || !has(c.securityContext.capabilities) || !has(c.securityContext.capabilities.add) || "
    "!('NET_ADMIN' in c.securityContext.capabilities.add))"
)


def admission_policy(namespace: str, expression: str = EXPRESSION) -> Iterator[dict[str, Any]]:
    """A policy, by default one that denies NET_ADMIN to init containers, and its binding, for one namespace."""
    api = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": "no-net-admin"}}
    pods = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    place = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}}
    validation = {"expression": expression, "message": "NET_ADMIN is not allowed"}
    spec = {"matchConstraints": {"resourceRules": [pods], **place}, "validations": [validation]}
    yield {**api, "kind": "ValidatingAdmissionPolicy", "spec": spec}
    binding = {"policyName": "no-net-admin", "validationActions": ["Deny"]}
    yield {**api, "kind": "ValidatingAdmissionPolicyBinding", "spec": binding}
