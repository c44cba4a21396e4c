"""The revisions that own a Gateway of the Gateway API, as each istiod decides for itself.

An istiod serves the Gateways and waypoints that name its revision or one of its tags, by their own label ``istio.io/rev`` or by that of
their namespace. It knows its tags by the label ``istio.io/rev`` of their objects. If that label changes, all Gateways of the tag change
their owner at once, whatever the weights of the tag are.

Follows Istio 1.20 to 1.31.0-rc.0: pkg/revisions/tag_watcher.go, and pilot/pkg/config/kube/gateway/deploymentcontroller.go of the minors
before 1.25, in which ``Reconcile`` has the rule.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from injector.istio.labels import DEFAULT_NAME, REVISION_LABEL, TAG_LABEL, Labels
from injector.istio.webhooks.tagobjects import VALIDATOR_NAME

if TYPE_CHECKING:
    from injector.istio.behaviours import Minor

DEFAULT_TAG_WEBHOOK: Final = "istio-revision-tag-default"
"""The MutatingWebhookConfiguration by which an istiod sees that the tag ``default`` exists."""
_UNKNOWN_NAMESPACE: Final = (1, 25)
"""The first minor that owns the Gateways of a namespace which it does not know."""
_VALIDATOR: Final = (1, 25)
"""The first minor that reads the validator of the default revision. Its first patches did not, nor those of the next two: 1.25.5, 1.26.4
and 1.27.1 do."""
_SERVICES: Final = (1, 28)
"""The first minor that reads the Services of tags."""
# pilot/pkg/config/kube/gatewaycommon/classinfo.go and pkg/config/constants/constants.go, 1.31.0-rc.0
CONTROLLERS: Final[Mapping[str, str]] = {
    "istio": "istio.io/gateway-controller",
    "istio-remote": "istio.io/unmanaged-gateway",
    "istio-waypoint": "istio.io/mesh-controller",
    "istio-east-west": "istio.io/eastwest-controller",
    "istio-agentgateway": "istio.io/agentgateway-controller",
    "istio-agentgateway-waypoint": "istio.io/agentgateway-waypoint-controller",
}
"""Istio's controllers by the names of their built-in classes. A GatewayClass of such a name may have another controller."""


@dataclass(frozen=True, slots=True)
class TagObjects:
    """The labels of the objects by which istiods know tags, and those of namespaces.

    Attributes:
        webhooks: the MutatingWebhookConfigurations by name.
        services: the Services of Istio's namespace.
        validators: the ValidatingWebhookConfigurations by name.
        namespaces: the namespaces by name.
    """

    webhooks: Mapping[str, Labels]
    services: Sequence[Labels] = ()
    validators: Mapping[str, Labels] = field(default_factory=dict)
    namespaces: Mapping[str, Labels] = field(default_factory=dict)

    @property
    def tags(self) -> set[str]:
        """The names of all tags."""
        return {labels[TAG_LABEL] for labels in (*self.webhooks.values(), *self.services) if TAG_LABEL in labels}

    def with_tag(self, tag: str, revision: str) -> TagObjects:
        """Return the objects after a tag was moved, or created."""

        def with_revision(labels: Labels) -> Labels:
            return {**labels, REVISION_LABEL: revision} if labels.get(TAG_LABEL) == tag else labels

        webhooks = {name: with_revision(labels) for name, labels in self.webhooks.items()}
        if all(labels.get(TAG_LABEL) != tag for labels in webhooks.values()):
            webhooks[f"istio-revision-tag-{tag}"] = {TAG_LABEL: tag, REVISION_LABEL: revision}
        validators = dict(self.validators)
        if tag == DEFAULT_NAME and VALIDATOR_NAME in validators:
            validators[VALIDATOR_NAME] = {**validators[VALIDATOR_NAME], REVISION_LABEL: revision}
        return replace(
            self, webhooks=webhooks, services=tuple(map(with_revision, self.services)), validators=validators
        )

    def without_tag(self, tag: str) -> TagObjects:
        """Return the objects after a tag was removed."""

        def is_other(labels: Labels) -> bool:
            return labels.get(TAG_LABEL) != tag

        return replace(
            self,
            webhooks={name: labels for name, labels in self.webhooks.items() if is_other(labels)},
            services=tuple(filter(is_other, self.services)),
            validators={name: labels for name, labels in self.validators.items() if is_other(labels)},
        )

    def tags_of(self, revision: str, minor: Minor | None = None) -> set[str]:
        """Return the names by which an istiod of this minor, by default the newest, serves objects: its revision and its tags."""
        objects = [*self.webhooks.values(), *(self.services if _is_since(_SERVICES, minor) else ())]
        return {
            revision,
            *(
                labels[TAG_LABEL]
                for labels in objects
                if TAG_LABEL in labels and labels.get(REVISION_LABEL) == revision
            ),
        }

    def is_owner(self, revision: str, labels: Labels, namespace: str, minor: Minor | None = None) -> bool:
        """Tell whether the istiod of a revision serves an object with these labels."""
        name = labels.get(REVISION_LABEL)
        if name is None:
            if namespace not in self.namespaces:
                return _is_since(_UNKNOWN_NAMESPACE, minor)
            name = self.namespaces[namespace].get(REVISION_LABEL, "")
        tags = self.tags_of(revision, minor)
        if name in tags:
            return True
        return not name and (DEFAULT_NAME in tags or self._is_default(revision, minor))

    def _is_default(self, revision: str, minor: Minor | None) -> bool:
        """Tell whether a revision without the tag ``default`` is the default one: the validator names it, and there is no such tag."""
        validator = self.validators.get(VALIDATOR_NAME)
        if validator is None or not _is_since(_VALIDATOR, minor):
            return False
        return validator.get(REVISION_LABEL, "") == revision and TAG_LABEL not in self.webhooks.get(
            DEFAULT_TAG_WEBHOOK, {}
        )

    def owners(self, labels: Labels, namespace: str, revisions: Mapping[str, Minor | None]) -> tuple[str, ...]:
        """Return the revisions that own an object with these labels: one, none, or several if the objects contradict each other."""
        return tuple(name for name, minor in sorted(revisions.items()) if self.is_owner(name, labels, namespace, minor))


def _is_since(first: Minor, minor: Minor | None) -> bool:
    return minor is None or minor >= first


def is_istios(class_name: str, classes: Mapping[str, str]) -> bool:
    """Tell whether Istio serves the Gateways of a class. ``classes`` has the controllers of the cluster's GatewayClasses by name."""
    return classes.get(class_name, CONTROLLERS.get(class_name)) in CONTROLLERS.values()


def class_of(gateway: Mapping[str, Any]) -> str:
    """Return the name of the class of a Gateway."""
    return str((gateway.get("spec") or {}).get("gatewayClassName", ""))
