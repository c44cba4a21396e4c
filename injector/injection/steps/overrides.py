"""User overrides: a container of the pod that the template also injects is applied once more on top of the template's.

Follows ``reapplyOverwrittenContainers``, ``reinsertOverrides`` and ``adjustInitContainerUser`` in pkg/kube/inject/webhook.go
(1.30.3).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from injector.errors import AnnotationError, DataError, ManifestError
from injector.golang.json import load_json
from injector.injection import containers as c
from injector.injection.steps.status import STATUS, injected_names
from injector.kube.strategicpatch import strategic_merge
from injector.kube.typed import go_struct_json, normalise

if TYPE_CHECKING:
    from injector.istio.behaviours import Behaviours

OVERRIDES: Final = "proxy.istio.io/overrides"
INTERCEPTION_MODE: Final = "sidecar.istio.io/interceptionMode"
AUTO_IMAGE: Final = "auto"
_MOST: Final = 100
"""Maximum number of containers in the annotation, with which all others are compared."""
_KINDS: Final = ("containers", "initContainers")


def read_overrides(pod: c.Pod) -> dict[str, list[c.Container]]:
    """Return the overrides that an earlier injection recorded, by ``containers`` and ``initContainers``.

    As for Go, keys match in any case, and fields that a container does not have are ignored. Raises AnnotationError if the annotation is
    not JSON of containers.
    """
    text = c.annotations_of(pod).get(OVERRIDES)
    if text is None:
        return {kind: [] for kind in _KINDS}
    try:
        raw = load_json(text)
        by_name = {} if raw is None else {key.lower(): value for key, value in raw.items()}
        noted = {
            kind: normalise(by_name.get(kind.lower()), "[]v1.Container", keep_unknown=False) or [] for kind in _KINDS
        }
        if sum(map(len, noted.values())) > _MOST:
            raise ManifestError(f"more than {_MOST} containers")
        return {kind: list(map(_without_empty_resources, items)) for kind, items in noted.items()}
    except (DataError, TypeError, AttributeError) as error:
        raise AnnotationError(
            f"invalid value for annotation '{OVERRIDES}'",
            where=f"metadata.annotations[{OVERRIDES}]",
            hint="remove it: the injector writes it itself",
        ) from error


def _without_empty_resources(container: c.Container) -> c.Container:
    # Go's JSON of a container has its resources even if they are empty.
    return {key: value for key, value in container.items() if (key, value) != ("resources", {})}


def reinsert_overrides(pod: c.Pod) -> c.Pod:
    """Return the stripped pod with the overridden containers, so that the template sees the same pod as the first time."""
    for kind, noted in read_overrides(pod).items():
        if noted:
            current = c.containers_of(pod, kind)
            names = {item.get("name") for item in current}
            missing = [item for item in noted if item.get("name", "") not in names]
            pod = c.with_spec(pod, **{kind: [*current, *missing]})
    return pod


def reapply_overrides(final: c.Pod, original: c.Pod, template: c.Pod, behaviours: Behaviours) -> c.Pod:
    """Return ``final`` with the user's settings for injected containers on top, and with an annotation that records them.

    ``original`` is the pod before injection and ``template`` has the additions of the templates. A container that an earlier injection
    added or changed is not the user's: the new template's wins, and an application's keeps the changes of other webhooks. Unlike in
    Istio (1.30.3), the recorded settings for a container of Istio's stay, which users would lose if a second webhook is in the chain, and
    a container that such a webhook added is recorded too, which Istio takes for its own the next time.
    """
    noted = read_overrides(original)
    before = injected_names(original)
    skipped = before if behaviours.skip_injected_overrides else {}
    both_lists = behaviours.sidecar_among_init
    applied: dict[str, list[c.Container]] = {kind: [] for kind in _KINDS}
    recorded: dict[str, list[c.Container]] = {kind: [] for kind in _KINDS}
    late = False
    for kind in _KINDS:
        for injected in c.containers_of(template, kind):
            name = injected.get("name", "")
            is_skipped = name in skipped.get(kind, ())
            user = c.find(name, noted[kind])
            is_recorded = user is not None
            if user is None and not is_skipped:
                user = _own(name, kind, original, both_lists=both_lists)
            if user is None:
                continue
            user = _without_auto_image(user)
            is_late = not is_recorded and all(name not in names for names in before.values())
            late = late or is_late
            if is_recorded or is_late:
                recorded[kind].append(user)
            if not is_skipped or name in c.ISTIOS:
                applied[kind].append(user)
    for kind in _KINDS:
        for overlay in applied[kind]:
            final = normalise(strategic_merge(final, {"spec": {kind: [overlay]}}, "v1.Pod"), "v1.Pod")
    if STATUS not in c.annotations_of(original):
        return _noting(final, applied)
    return _noting(final, recorded) if late and any(before.values()) else final


def _noting(final: c.Pod, users: Mapping[str, list[c.Container]]) -> c.Pod:
    if not any(users.values()):
        return final
    return c.with_metadata(final, annotations={**c.annotations_of(final), OVERRIDES: _overrides_json(users)})


def _own(name: str, kind: str, original: c.Pod, *, both_lists: bool) -> c.Container | None:
    # If the template's proxy is a native sidecar, the user's may be among the plain containers.
    if kind == "initContainers" and both_lists:
        return c.find_in_pod(name, original)
    return c.find(name, c.containers_of(original, kind))


def _without_auto_image(container: c.Container) -> c.Container:
    if container.get("image") != AUTO_IMAGE:
        return container
    return {key: value for key, value in container.items() if key != "image"}


def _overrides_json(applied: Mapping[str, list[c.Container]]) -> str:
    parts = [
        f'"{kind}":[{",".join(go_struct_json(item, "v1.Container") for item in applied[kind])}]'
        for kind in _KINDS
        if applied[kind]
    ]
    return "{" + ",".join(parts) + "}"


def init_user_adjusted(final: c.Pod, original: c.Pod, *, mesh_interception_mode: str) -> c.Pod:
    """Return ``final`` with istio-init or istio-validation adjusted to the uid or gid that the user gave the proxy.

    iptables must let the proxy's own traffic pass (``-u``), and validation runs as the same user as the proxy. With TPROXY the proxy
    must be root, whatever the user chose.
    """
    user = c.find_in_pod(c.PROXY, original)
    if STATUS in c.annotations_of(original):
        noted = read_overrides(original)
        user = c.find(c.PROXY, noted["containers"] + noted["initContainers"]) or user
    context: Mapping[str, Any] = (user or {}).get("securityContext") or {}
    uid, gid = context.get("runAsUser"), context.get("runAsGroup")
    init = c.find(c.INIT, c.containers_of(final, "initContainers")) or c.find(
        c.VALIDATION, c.containers_of(final, "initContainers")
    )
    if (uid is None and gid is None) or init is None:
        return final
    mode = c.annotations_of(final).get(INTERCEPTION_MODE)
    tproxy = mesh_interception_mode == "TPROXY" or mode == "TPROXY"
    if tproxy and uid is not None:
        sidecar = c.find_in_pod(c.PROXY, final)
        if sidecar is None:
            return final
        final = c.with_container(final, _running_as(sidecar, 0, None))
    if not tproxy and init["name"] == c.VALIDATION:
        init = _running_as(init, uid, gid)
    if uid:
        init = _excluding_user(init, uid)
    items = [init if item.get("name") == init["name"] else item for item in c.containers_of(final, "initContainers")]
    return c.with_spec(final, initContainers=items)


def _running_as(container: c.Container, uid: int | None, gid: int | None) -> c.Container:
    wanted = {"runAsUser": uid, "runAsGroup": gid}
    context = {**(container.get("securityContext") or {}), **{key: v for key, v in wanted.items() if v is not None}}
    return {**container, "securityContext": context}


def _excluding_user(container: c.Container, uid: int) -> c.Container:
    args = list(container.get("args") or ())
    if "-u" not in args[:-1]:
        return container
    args[args.index("-u") + 1] = str(uid)
    return {**container, "args": args}
