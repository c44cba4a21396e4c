"""Reviews of pods as an API server sends them, and the ways in which two of them differ.

The envelope, the managed fields and the token volume are those of a recorded review (``tests/webhook/reviews``).
"""

from __future__ import annotations

import copy
import json
import uuid
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Final

from tests.property.mutations import mutated
from tests.property.subjects import replica
from tests.webhook.recorded import recorded

Json = dict[str, Any]

PLACEHOLDER: Final = "kube-api-access-00000"
"""What the injector writes in place of a token volume's name; users may write it too."""
PREFIX: Final = "kube-api-access-"
ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
"""Of the random part of names (k8s.io/apimachinery, pkg/util/rand)."""
MOUNT_PATH: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
LISTS: Final = ("containers", "initContainers")
INIT_NAMES: Final = ("istio-validation", "enable-core-dump", "istio-init", "istio-proxy", "setup", "migrate", "web")
"""Names of init containers: most of them mean something to Istio's templates or to its order of containers."""
SCALARS: Final = ("1", "15", "ff", "0", "e3", "1e3", "_1", "true", "x", "0x1", "07", ".5", "1.0", "yes", "9" * 20, "")
"""Labels that are a number, or none, after a prefix such as ``0x`` or ``1``."""
RECORDED: Final[Json] = json.loads(recorded("deployment")[0])


def token_name(dice: Random) -> str:
    """Return a name as the API server gives it to a token volume."""
    return "kube-api-access-" + "".join(dice.choices(ALPHABET, k=5))


def with_token(pod: Json, name: str) -> Json:
    """Return a pod with the volume of its service account's token, mounted as the API server does it."""
    pod = copy.deepcopy(pod)
    spec = pod.setdefault("spec", {})
    volume = next(volume for volume in RECORDED["request"]["object"]["spec"]["volumes"] if "projected" in volume)
    spec["volumes"] = [*(spec.get("volumes") or []), {**copy.deepcopy(volume), "name": name}]
    for kind in LISTS:
        for container in spec.get(kind) or []:
            mounts = container.get("volumeMounts") or []
            if not any(mount.get("mountPath") == MOUNT_PATH for mount in mounts):
                mount = {"name": name, "readOnly": True, "mountPath": MOUNT_PATH}
                container["volumeMounts"] = [*mounts, mount]
    return pod


def review_of(pod: Json, namespace: str, dice: Random) -> Json:
    """Return the review of a pod, with a uid, a time and a credential of its own."""
    review = copy.deepcopy(RECORDED)
    request = review["request"]
    managed = request["object"]["metadata"]["managedFields"]
    request["object"] = copy.deepcopy(pod)
    request["namespace"] = namespace
    if isinstance(pod.get("metadata"), dict):
        request["object"]["metadata"]["managedFields"] = managed
    return new_request(review, dice)


def new_request(review: Json, dice: Random) -> Json:
    """Return a review of the same pod, created by another request: another uid, time and credential."""
    review = copy.deepcopy(review)
    request = review["request"]
    request["uid"] = str(uuid.UUID(int=dice.getrandbits(128)))
    request["userInfo"]["extra"] = {
        "authentication.kubernetes.io/credential-id": [f"JTI={uuid.UUID(int=dice.getrandbits(128))}"]
    }
    metadata = request["object"].get("metadata")
    for entry in (metadata.get("managedFields") or []) if isinstance(metadata, dict) else []:
        entry["time"] = f"2026-11-{dice.randint(1, 30):02}T{dice.randint(0, 23):02}:{dice.randint(0, 59):02}:00Z"
    return review


def another_replica(review: Json, token: str, dice: Random) -> Json:
    """Return the review of another replica: also another token volume."""
    review = new_request(review, dice)
    if token:
        text = json.dumps(review["request"]["object"]["spec"])
        review["request"]["object"]["spec"] = json.loads(text.replace(token, token_name(dice)))
    return review


def _changed_pod(change: Callable[[Json, Random], Json]) -> Callable[[Json, str, Random], Json]:
    def changed(review: Json, _token: str, dice: Random) -> Json:
        review = new_request(review, dice)
        metadata = review["request"]["object"].get("metadata")
        managed = metadata.pop("managedFields", None) if isinstance(metadata, dict) else None
        pod = review["request"]["object"] = change(review["request"]["object"], dice)
        if managed is not None and isinstance(pod.get("metadata"), dict):
            pod["metadata"]["managedFields"] = managed
        return review

    return changed


def _init_containers(pod: Json, dice: Random) -> Json:
    """Rename an init container, or give the pod some; nothing but their names tells them apart."""
    spec = pod["spec"]
    if spec.get("initContainers"):
        dice.choice(spec["initContainers"])["name"] = dice.choice(INIT_NAMES)
    else:
        spec["initContainers"] = init_containers(dice.sample(INIT_NAMES, k=dice.randint(1, 3)))
    return pod


def init_containers(names: Sequence[str]) -> list[Json]:
    """Return init containers that differ in their names alone."""
    return [{"name": name, "image": "registry.example.com/init:1"} for name in names]


def _pull_secrets(pod: Json, dice: Random) -> Json:
    """Give the pod other secrets for pulling images."""
    names = dice.sample(("registry", "web", "shop", "registry-1.24.6", "default"), k=dice.randint(0, 3))
    pod["spec"]["imagePullSecrets"] = [{"name": name} for name in names]
    return pod


def _labels(pod: Json, dice: Random) -> Json:
    """Give the pod labels of which templates form numbers."""
    pod["metadata"]["labels"] = {
        **(pod["metadata"].get("labels") or {}),
        "app": dice.choice(("web", "shop", *SCALARS)),
        "version": dice.choice(SCALARS),
    }
    return pod


def _placeholder(pod: Json, dice: Random) -> Json:
    """Put the placeholder of the token volume's name, or a real one, somewhere into the pod."""
    name = dice.choice((PLACEHOLDER, PLACEHOLDER, token_name(dice)))
    spec, metadata = pod["spec"], pod["metadata"]
    annotations = metadata["annotations"] = metadata.get("annotations") or {}
    place = dice.choice(("annotation", "label", "variable", "volume", "user volume", "escaped", "metadata"))
    if place == "annotation":
        annotations["example.com/note"] = f"uses {name}"
    elif place == "label":
        metadata["labels"] = {**(metadata.get("labels") or {}), "app": name}
    elif place == "variable":
        spec["containers"][0]["env"] = [{"name": "VOLUME", "value": name}]
    elif place == "volume":
        spec["volumes"] = [*(spec.get("volumes") or []), {"name": name, "emptyDir": {}}]
        spec["containers"][0].setdefault("volumeMounts", []).append({"name": name, "mountPath": "/own"})
    elif place == "user volume":
        annotations["sidecar.istio.io/userVolume"] = json.dumps({name: {"emptyDir": {}}})
        annotations["sidecar.istio.io/userVolumeMount"] = json.dumps({name: {"mountPath": "/own"}})
    elif place == "escaped":
        escaped = name[:-1] + f"\\u{ord(name[-1]):04x}"
        annotations["sidecar.istio.io/userVolume"] = f'{{"{escaped}":{{"emptyDir":{{}}}}}}'
    else:
        annotations["proxy.istio.io/config"] = f'proxyMetadata: {{A: "{name[:-1]}\\x{ord(name[-1]):02x}"}}'
    return pod


CHANGES: Final[dict[str, tuple[int, Callable[[Json, str, Random], Json]]]] = {
    "another replica": (20, another_replica),
    "another request": (5, lambda review, _token, dice: new_request(review, dice)),
    "mutated": (40, _changed_pod(mutated)),
    "init containers": (15, _changed_pod(_init_containers)),
    "pull secrets": (5, _changed_pod(_pull_secrets)),
    "labels": (10, _changed_pod(_labels)),
    "placeholder": (5, _changed_pod(_placeholder)),
}
"""How the second review of a pair differs from the first, and how often."""


def with_init(*names: str) -> Json:
    """Return a replica with init containers of these names."""
    pod = replica("web")
    pod["spec"]["initContainers"] = init_containers(names)
    return pod


def with_labels(pod: Json, **labels: str) -> Json:
    """Return a pod with further labels."""
    metadata = {**pod["metadata"], "labels": {**(pod["metadata"].get("labels") or {}), **labels}}
    return {**pod, "metadata": metadata}


def special_pods() -> list[Json]:
    """Return pods with what an injector could mistake for its own."""
    results = [with_init(name, "setup") for name in INIT_NAMES[:4]]
    results.append(with_init("setup", "istio-validation", "istio-init"))
    native = with_init("istio-proxy")
    native["spec"]["initContainers"][0]["restartPolicy"] = "Always"
    secrets = replica("web")
    secrets["spec"]["imagePullSecrets"] = [{"name": "registry"}, {"name": "web"}]
    pinned = with_labels(replica("web"), pin="other")
    return [*results, native, secrets, pinned]
