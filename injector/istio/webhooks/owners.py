"""Tools that write an object again: operators, GitOps engines and Helm. What another command writes into such an object does not stay.

The labels and annotations are those by which each tool knows its objects.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from injector.istio.labels import TAG_LABEL
from injector.kube.objects import mapping_at

if TYPE_CHECKING:
    from collections.abc import Callable

_TAG_KIND: Final = "IstioRevisionTag"
"""The resource of the sail-operator and of OpenShift Service Mesh 3 that owns the webhooks of a tag."""
_ELSEWHERE: Final = "change it there"


@dataclass(frozen=True, slots=True)
class Owner:
    """A tool that writes an object again: its name, when it does so, and how to change the object instead.

    ``is_controller`` tells whether it watches the object, so that a change does not stay for more than seconds.
    """

    name: str
    when: str
    remedy: str = _ELSEWHERE
    is_controller: bool = False

    def __str__(self) -> str:
        return f"{self.name}, which writes it again {self.when}; {self.remedy}"


def owner_of(item: Mapping[str, Any]) -> Owner | None:
    """Return the tool that writes an object again; None if there is none."""
    metadata = item["metadata"]
    for reference in metadata.get("ownerReferences") or ():
        if reference.get("controller"):
            return _controller(str(reference.get("kind")), str(reference.get("name")))
    keys = {**mapping_at(metadata, "labels"), **mapping_at(metadata, "annotations")}
    owners = (build(keys) for key, build in _TOOLS.items() if keys.get(key))
    owner = next(owners, None)
    # istioctl copies the annotations of Helm from a revision to its tags, which Helm does not know.
    is_copy = owner is not None and owner.name.startswith("Helm") and "istioctl" in _managers(metadata)
    return None if is_copy else owner


def _controller(kind: str, name: str) -> Owner:
    own = f"set `spec.targetRef` of the {_TAG_KIND}, or use a tag of another name"
    remedy = own if kind == _TAG_KIND else f"change the {kind}"
    return Owner(f"{kind} {name}", "within seconds", remedy, is_controller=True)


def _managers(metadata: Mapping[str, Any]) -> set[str]:
    return {str(entry.get("manager")) for entry in metadata.get("managedFields") or ()}


def _place(keys: Mapping[str, str], name: str, namespace: str) -> str:
    return "/".join(filter(None, (keys.get(namespace), keys[name])))


_FLUX_HELM: Final = "helm.toolkit.fluxcd.io"
_FLUX_KUSTOMIZE: Final = "kustomize.toolkit.fluxcd.io"
_ARGO: Final = "argocd.argoproj.io/tracking-id"
_RANCHER: Final = "objectset.rio.cattle.io/id"
_KAPP: Final = "kapp.k14s.io/app"
_AZURE: Final = "kubernetes.azure.com/managedby"
_ADDON: Final = "addonmanager.kubernetes.io/mode"
_HELM: Final = "meta.helm.sh/release-"

_TOOLS: Final[Mapping[str, Callable[[Mapping[str, str]], Owner]]] = {
    f"{_FLUX_HELM}/name": lambda keys: Owner(
        f"Flux HelmRelease {_place(keys, f'{_FLUX_HELM}/name', f'{_FLUX_HELM}/namespace')}", "when it is upgraded"
    ),
    f"{_FLUX_KUSTOMIZE}/name": lambda keys: Owner(
        f"Flux Kustomization {_place(keys, f'{_FLUX_KUSTOMIZE}/name', f'{_FLUX_KUSTOMIZE}/namespace')}",
        "at its next reconciliation",
    ),
    _ARGO: lambda keys: Owner(f"Argo CD application {keys[_ARGO].partition(':')[0]}", "at its next sync"),
    _RANCHER: lambda keys: Owner(f"Rancher's {keys[_RANCHER]}", "when it is applied again"),
    _KAPP: lambda keys: Owner(f"kapp application {keys[_KAPP]}", "when it is deployed again"),
    _AZURE: lambda keys: Owner(f"the add-on of {keys[_AZURE]}", "at any time"),
    _ADDON: lambda _: Owner("an add-on of the cluster", "at any time"),
    f"{_HELM}name": lambda keys: Owner(
        f"Helm release {_place(keys, f'{_HELM}name', f'{_HELM}namespace')}",
        "when it is upgraded",
        "take the tag out of its `revisionTags`" if TAG_LABEL in keys else "set its `global.operatorManageWebhooks`",
    ),
}
"""What each label or annotation says of the owner, the strongest first: a release of Flux or Argo CD has Helm's too."""
