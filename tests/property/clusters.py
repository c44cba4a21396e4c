"""Random clusters as objects, and the forms in which commands get the same objects."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from os import EX_DATAERR
from pathlib import Path
from random import Random
from typing import Any, TypeAlias

import yaml

from injector.fleet.sources import RevisionSources
from injector.fleet.view import list_revisions
from injector.injection.pipeline import inject_pod
from injector.injection.result import Injected, RequestFacts
from injector.istio.labels import TAG_LABEL
from injector.istio.webhooks.configurations import Endpoint, WebhookOptions, revision_webhook, tag_webhook
from injector.kube.lists import is_list, items_of
from injector.metrics import Outcome, Stopwatch
from injector.revisions.registry import Registry
from injector.revisions.reload import Loader
from injector.revisions.source import build
from injector.revisions.tags import PIN, WEIGHTS
from injector.webhook.handler import InjectHandler
from tests.cli.clusters import HOME, REV, cluster, config_maps, endpoints, invoke, namespace, owned
from tests.factories import make_pod, make_review
from tests.handlers import handler_with
from tests.revisions.fakes import CONFIG, make_raw

Object: TypeAlias = dict[str, Any]
Injections: TypeAlias = dict[tuple[str, str, str], Object]

VERSIONS: Mapping[str, str] = {"1-24": "1.24.6", "1-30": "1.30.1"}
INJECT = "sidecar.istio.io/inject"
INJECTION = "istio-injection"
PLACES = ("shop", "data", "ops", "default")
NAMES = ("web", "api", "db", "cache")
KINDS = {
    "Deployment": "apps/v1",
    "StatefulSet": "apps/v1",
    "DaemonSet": "apps/v1",
    "Job": "batch/v1",
    "CronJob": "batch/v1",
}
ADDED = '    metadata: {labels: {made-by: "{{ .Values.global.tag }}"}}\n    spec:\n'
"""In the template of one revision, so that the two differ in more than an image."""


FAULT = "a matchCondition fails"
CONDITIONS: Mapping[str, Callable[[Object], bool | None]] = {
    "object.metadata.name != 'api'": lambda pod: (
        None if "name" not in pod["metadata"] else pod["metadata"]["name"] != "api"
    ),
    "has(object.metadata.labels)": lambda pod: bool(pod["metadata"].get("labels")),
    "object.spec.hostNetwork == true": lambda pod: pod["spec"].get("hostNetwork"),
    "false": lambda _: False,
}
"""What the API server's CEL says of a pod; None if the expression fails."""


def draws(seed: int) -> Random:
    """Return the decisions of a seed."""
    return Random(seed)  # noqa: S311 -- no secret is made


def random_cluster(draw: Random) -> list[Object]:
    """Return the objects of a cluster: namespaces, webhooks, tags, revisions, workloads and pods, each once."""
    metadata = {"name": "injector", "namespace": "injector-system"}
    objects: list[Object] = [
        {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"ports": [{"port": 443}]}}
    ]
    objects.append(endpoints(ready=draw.choice((0, 1, 2))))
    for name, version in VERSIONS.items():
        values = {"global": {"tag": version}}
        config = CONFIG.replace("    spec:\n", ADDED) if draw.random() < 0.3 else CONFIG
        objects += config_maps(name, config=config, values=json.dumps(values))
    objects += _webhooks(draw)
    objects += [namespace(place, **_namespace_labels(draw)) for place in PLACES]
    for number in range(draw.randint(1, 4)):
        objects.append(_workload(draw, f"{draw.choice(NAMES)}-{number}"))
    for number in range(draw.randint(0, 3)):
        objects.append(_pod(draw, f"{draw.choice(NAMES)}-p{number}", objects))
    return objects


def _webhooks(draw: Random) -> Iterable[Object]:
    options = WebhookOptions(
        Endpoint(),
        ca_bundle="QQ==",
        failure_policy=draw.choice(("Fail", "Ignore")),
        auto_inject=draw.random() < 0.2,
        precedence=draw.choice(("namespace", "namespace", "pod")),
    )
    configurations = [revision_webhook(name, options) for name in VERSIONS if draw.random() < 0.9]
    configurations += [
        tag_webhook(name, draw.choice(list(VERSIONS)), options) for name in ("prod", "default", "canary")
    ]
    for configuration in configurations[1:]:
        webhook = draw.choice(configuration["webhooks"])
        if draw.random() < 0.3:
            webhook["namespaceSelector"]["matchExpressions"].append(
                {"key": "control-plane", "operator": "DoesNotExist"}
            )
        if draw.random() < 0.2:
            requirement: Object = {"key": "app", "operator": "NotIn", "values": list(NAMES[:1])}
            webhook["objectSelector"]["matchExpressions"].append(requirement)
        if draw.random() < 0.1:
            webhook["rules"][0]["scope"] = draw.choice(("*", "Namespaced", "Cluster"))
        if draw.random() < 0.2:
            expression = draw.choice(
                (
                    "object.metadata.name != 'api'",
                    "has(object.metadata.labels)",
                    "object.spec.hostNetwork == true",
                    "false",
                )
            )
            webhook["matchConditions"] = [{"name": "some", "expression": expression}]
    if draw.random() < 0.3:  # a configuration of another product comes first or last
        other = revision_webhook("1-24", options)
        other["metadata"] = {"name": draw.choice(("a-first", "z-last"))}
        configurations.append(other)
    return configurations


def _namespace_labels(draw: Random) -> dict[str, str]:
    labels = {}
    if draw.random() < 0.6:
        labels[REV] = draw.choice((*VERSIONS, "prod", "canary", "default", "gone"))
    if draw.random() < 0.3:
        labels[INJECTION] = draw.choice(("enabled", "enabled", "disabled"))
    if draw.random() < 0.2:
        labels["control-plane"] = "yes"
    if draw.random() < 0.2:
        labels["pod-security.kubernetes.io/enforce"] = draw.choice(("baseline", "privileged"))
    return labels


def _pod_labels(draw: Random, name: str) -> dict[str, str]:
    labels = {"app": name.partition("-")[0]}
    if draw.random() < 0.3:
        labels[REV] = draw.choice((*VERSIONS, "prod", "gone"))
    if draw.random() < 0.3:
        labels[INJECT] = draw.choice(("true", "false"))
    return labels


def _place(draw: Random, metadata: Object) -> Object:
    place = draw.choice(PLACES)
    # An object without a namespace is in `default`.
    return metadata if place == "default" and draw.random() < 0.5 else {**metadata, "namespace": place}


def _workload(draw: Random, name: str) -> Object:
    kind = draw.choice(list(KINDS))
    labels = _pod_labels(draw, name)
    spec = {**make_pod()["spec"], **({"restartPolicy": "Never"} if kind in ("Job", "CronJob") else {})}
    if draw.random() < 0.15:
        spec["hostNetwork"] = True
    annotations = {"proxy.istio.io/config": "concurrency: x"} if draw.random() < 0.1 else {}
    template = {"metadata": {"labels": labels, "annotations": annotations}, "spec": spec}
    body: Object = {"template": template}
    if kind == "CronJob":
        body = {"schedule": "0 0 * * *", "jobTemplate": {"spec": body}}
    elif kind != "Job":
        body["selector"] = {"matchLabels": {"app": labels["app"]}}
    if kind == "StatefulSet":
        body["serviceName"] = name
    metadata = _place(draw, {"name": name})
    return {"apiVersion": KINDS[kind], "kind": kind, "metadata": metadata, "spec": body}


def _pod(draw: Random, name: str, objects: Iterable[Object]) -> Object:
    """Return a pod: bare, of a workload of the cluster, or of one that is not there; with or without a sidecar."""
    place = draw.choice(PLACES)
    labels = _pod_labels(draw, name)
    deployments = [obj for obj in objects if obj["kind"] == "Deployment"]
    if deployments and draw.random() < 0.4:
        owner = draw.choice(deployments)["metadata"]
        place = owner.get("namespace", "default")
        pod = owned(owner["name"], place, labels=labels)
        pod["metadata"]["name"] = f"{owner['name']}-abc-{name}"
    elif draw.random() < 0.5:
        pod = owned(name, place, labels=labels)
    else:
        pod = make_pod(name, namespace=place, labels=labels)
    for owner in pod["metadata"].get("ownerReferences") or ():
        owner["uid"] = "00000000-0000-0000-0000-000000000001"
    if draw.random() < 0.5:
        rev = draw.choice(list(VERSIONS))
        raw = make_raw(rev, values=json.dumps({"global": {"tag": draw.choice(list(VERSIONS.values()))}}))
        answer = inject_pod(build(raw), pod, RequestFacts(place))
        pod = answer.pod if isinstance(answer, Injected) else pod
    return {"apiVersion": "v1", "kind": "Pod", **json.loads(json.dumps(pod))}


def spread_weights(draw: Random, objects: Iterable[Object]) -> None:
    """Give some tags weights, also for a revision that is not there, and pin some pods."""
    for obj in objects:
        metadata = obj["metadata"]
        if TAG_LABEL in metadata.get("labels", {}) and draw.random() < 0.4:
            revision = metadata["labels"][REV]
            weights = {revision: 50, draw.choice(["1-99", *VERSIONS]): 50}
            metadata["annotations"] = {WEIGHTS: json.dumps(weights)}
        elif obj["kind"] == "Deployment" and draw.random() < 0.3:
            obj["spec"]["template"]["metadata"]["annotations"][PIN] = draw.choice(list(VERSIONS))


def handler_of_cluster(objects: Iterable[Object]) -> InjectHandler:
    """Return the handler of an injector that starts in a cluster."""
    listed_revisions = cluster(*objects).run(lambda reader: list_revisions(reader, RevisionSources(None, HOME)))
    registry = Registry()
    Loader(lambda: listed_revisions.state, registry).load(0.0)
    return handler_with(registry.snapshot)


def answered(handler: InjectHandler, path: str, place: str, pod: Object) -> tuple[str, str | None]:
    """Return the outcome in the words of ``explain``, and the revision, of a pod whose webhook has a path."""
    if path == FAULT:
        return "refused", None
    answer = handler.answer(path, json.dumps(make_review(pod, namespace=place)).encode(), Stopwatch())
    words = {Outcome.SUCCESS: "injected", Outcome.SKIP: "skipped", Outcome.FAILURE: "refused"}
    return words[answer.outcome], None if answer.resolved is None else answer.resolved.revision.name


def called_path(objects: Iterable[Object], place: str, pod: Object) -> str | None:
    """Return the path of the last webhook that the API server calls for a pod, or ``FAULT`` if a matchCondition fails; None for none."""
    labels = {
        obj["metadata"]["name"]: obj["metadata"].get("labels") or {} for obj in objects if obj["kind"] == "Namespace"
    }
    home = {**labels.get(place, {}), "kubernetes.io/metadata.name": place}
    path = None
    configurations = [obj for obj in objects if obj["kind"] == "MutatingWebhookConfiguration"]
    for configuration in sorted(configurations, key=lambda obj: str(obj["metadata"]["name"])):
        for webhook in configuration["webhooks"]:
            is_selected = _selects(webhook["namespaceSelector"], home) and _selects(
                webhook["objectSelector"], pod["metadata"].get("labels") or {}
            )
            if not is_selected or webhook["rules"][0].get("scope") == "Cluster":
                continue
            verdicts = [CONDITIONS[condition["expression"]](pod) for condition in webhook.get("matchConditions", ())]
            if None in verdicts and False not in verdicts and webhook["failurePolicy"] == "Fail":
                return FAULT
            if all(verdicts):
                path = webhook["clientConfig"]["service"]["path"]
    return path


def _selects(selector: Object, labels: Mapping[str, str]) -> bool:
    holds: dict[str, Callable[[str, Any], bool]] = {
        "In": lambda key, values: labels.get(key) in values,
        "NotIn": lambda key, values: labels.get(key) not in values,
        "Exists": lambda key, _: key in labels,
        "DoesNotExist": lambda key, _: key not in labels,
    }
    return all(
        holds[requirement["operator"]](requirement["key"], requirement.get("values"))
        for requirement in selector["matchExpressions"]
    )


def with_outdated(draw: Random, objects: list[Object]) -> list[Object]:
    """Return objects in another order, some of them after an outdated version of themselves, as `kubectl apply` would overwrite it."""
    mixed = draw.sample(objects, len(objects))
    for obj in draw.sample(mixed, min(2, len(mixed))):
        if obj["kind"] in ("Namespace", "Deployment"):
            old = {**obj, "metadata": {**obj["metadata"], "labels": {REV: "old"}}}
            mixed.insert(draw.randint(0, mixed.index(obj)), old)
    return mixed


def _dump(objects: Iterable[Object]) -> str:
    return yaml.dump_all(objects, Dumper=yaml.CSafeDumper)


def _list(items: list[Object], kind: str = "List", version: str = "v1") -> Object:
    return {"apiVersion": version, "kind": kind, "metadata": {}, "items": items}


def _typed(objects: list[Object]) -> list[Object]:
    """Return lists of one kind each, as the API server has them, whose items have no kind."""
    runs: list[tuple[str, str, list[Object]]] = []
    for obj in objects:
        kind, version = obj["kind"], obj["apiVersion"]
        if not runs or runs[-1][:2] != (kind, version):
            runs.append((kind, version, []))
        runs[-1][2].append({key: value for key, value in obj.items() if key not in ("kind", "apiVersion")})
    return [_list(items, f"{kind}List", version) for kind, version, items in runs]


def _documents(_draw: Random, objects: list[Object], folder: Path) -> None:
    (folder / "all.yaml").write_text(_dump(objects))


def _as_list(_draw: Random, objects: list[Object], folder: Path) -> None:
    (folder / "all.yaml").write_text(_dump([_list(objects)]))


def _nested(draw: Random, objects: list[Object], folder: Path) -> None:
    first, second = sorted((draw.randint(0, len(objects)), draw.randint(0, len(objects))))
    inner = _list([*objects[first:second]])
    (folder / "all.yaml").write_text(_dump([_list([*objects[:first], _list([inner]), *objects[second:]])]))


def _typed_lists(_draw: Random, objects: list[Object], folder: Path) -> None:
    (folder / "all.yaml").write_text(_dump(_typed(objects)))


def _json_list(_draw: Random, objects: list[Object], folder: Path) -> None:
    (folder / "all.json").write_text(json.dumps(_list(_typed(objects))))


def _json_documents(_draw: Random, objects: list[Object], folder: Path) -> None:
    (folder / "all.json").write_text("\n---\n".join(json.dumps(obj, indent=1) for obj in objects))


def _folder(draw: Random, objects: list[Object], folder: Path) -> None:
    """Write one object after another into files whose names are in this order."""
    number = 0
    rest = list(objects)
    while rest:
        count = draw.randint(1, 6)
        some, rest = rest[:count], rest[count:]
        write = draw.choice((_documents, _as_list, _typed_lists, _json_list, _json_documents))
        part = folder / "part"
        part.mkdir()
        write(draw, some, part)
        (written,) = part.iterdir()
        written.rename(folder / f"{number:03}{written.suffix}")
        part.rmdir()
        number += 1


FORMS: Mapping[str, Callable[[Random, list[Object], Path], None]] = {
    "documents": _documents,
    "a List": _as_list,
    "nested Lists": _nested,
    "lists of one kind": _typed_lists,
    "a List in JSON": _json_list,
    "documents in JSON": _json_documents,
    "a folder": _folder,
}
"""Each writes the objects into an empty folder."""


def answers(upgrade: Path, *files: str) -> dict[str, Any]:
    """Return what each command answers about the objects of files, or of the cluster that commands reach.

    Without the places of the objects, and in one order.
    """
    flags = [argument for name in files for argument in ("-f", name)]
    every, live = ([] if files else ["-A"]), ([] if files else ["--live", "--confirm", "0"])
    commands = {
        "explain": ("explain", *every, *flags, "-o", "json"),
        "diff": ("diff", *VERSIONS, *live, *flags, "-o", "json"),
        "analyze": ("analyze", *every, *flags, "-o", "json"),
        "status": ("revision", "status", *every, *flags, "-o", "json"),
        "plan": ("upgrade", "plan", str(upgrade), *flags, "-o", "json", *(() if files else ("--confirm", "0"))),
    }
    by_command = {name: _answer(*arguments) for name, arguments in commands.items()}
    code, plan = by_command["plan"]
    if isinstance(plan, dict):
        plan.pop("missingPermissions", None)  # files have no permissions
        by_command["plan"] = code, plan
    return by_command


def _answer(*arguments: str) -> Any:
    """Return the exit code and the data of a command; without data the cause that it names."""
    result = invoke(*arguments)
    if not result.stdout:
        return result.exit_code, result.stderr.rpartition(": ")[2] if result.exit_code else ""
    return result.exit_code, _in_order(json.loads(result.stdout))


def _in_order(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _in_order(item) for key, item in value.items() if key not in ("file", "line", "reference")}
    if isinstance(value, list):
        items = list(map(_in_order, value))
        is_ordered = any(isinstance(item, dict) and {"step", "verdict"} <= item.keys() for item in items)
        return items if is_ordered else sorted(items, key=json.dumps)
    return value


def injected_by(command: str, objects: Iterable[Object], folder: Path, revisions: Path) -> Injections | int:
    """Return the pods of the objects that `kube-inject` or `krm` puts out, by kind, namespace and name, or its exit code."""
    flags = ("--revisions-dir", str(revisions))
    if command == "krm":
        resources = {"apiVersion": "config.kubernetes.io/v1", "kind": "ResourceList", "items": list(objects)}
        config = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"revision": "1-30"}}
        result = invoke("krm", *flags, text=json.dumps({**resources, "functionConfig": config}))
    else:
        result = invoke("kube-inject", *flags, "--revision", "1-30", "-f", str(folder), "-o", "json")
    if result.exit_code:
        assert result.exit_code == EX_DATAERR, result.output
        return EX_DATAERR
    output = yaml.load(result.stdout, yaml.CSafeLoader)
    return {
        identity_of(obj): _without_tool(obj)
        for obj in _flat([_list(output["items"])] if "items" in output else [output])
    }


def explained_by(folder: Path, revisions: Path) -> dict[tuple[str, str, str], str]:
    """Return what `explain` decides about the workloads of a folder with the same revision, by kind, namespace and name."""
    result = invoke("explain", "--revisions-dir", str(revisions), "--revision", "1-30", "-f", str(folder), "-o", "json")
    assert result.exit_code in (0, EX_DATAERR), result.output
    workloads = json.loads(result.stdout)["workloads"]
    return {(workload["kind"], workload["namespace"], workload["name"]): workload["outcome"] for workload in workloads}


def listed(form: str, objects: list[Object]) -> list[Object]:
    """Return the items of a ResourceList with these objects: themselves, or Lists with them."""
    middle = len(objects) // 2
    forms = {
        "documents": objects,
        "a List": [_list(objects)],
        "nested Lists": [*objects[:middle], _list([_list(objects[middle:])])],
        "lists of one kind": _typed(objects),
    }
    return forms[form]


def proxies_in(node: Any) -> int:
    """Return the number of proxies in an object."""
    if isinstance(node, dict):
        return (node.get("name") == "istio-proxy") + sum(map(proxies_in, node.values()))
    return sum(map(proxies_in, node)) if isinstance(node, list) else 0


def _flat(objects: Iterable[Object]) -> Iterable[Object]:
    for obj in objects:
        if is_list(obj):
            yield from _flat(items_of(obj))
        else:
            yield obj


def identity_of(obj: Object) -> tuple[str, str, str]:
    """Return the kind, namespace and name of an object."""
    return obj["kind"], obj["metadata"].get("namespace", "default"), obj["metadata"]["name"]


def _without_tool(obj: Object) -> Object:
    """Return the spec of an object, without what istioctl adds on its way through Go's types: empty values."""
    pruned: Object = _pruned({"metadata": {**obj["metadata"], "namespace": ""}, "spec": obj["spec"]})
    return pruned


def _pruned(node: Any) -> Any:
    if isinstance(node, dict):
        return {key: pruned for key, value in node.items() if (pruned := _pruned(value)) not in (None, {}, [], "")}
    return list(map(_pruned, node)) if isinstance(node, list) else node
