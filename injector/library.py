"""The public functions of the library: load revisions, inject a pod, compare two revisions, explain a decision.

Use them as ``injector.inject`` and so on. They are thin: the rules are in ``injector.injection`` and ``injector.revisions``. All
of them depend only on their arguments, change none of them, and can be called from several threads.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from injector.errors import ConfigError, DataError, ManifestError
from injector.injection.pipeline import answers_to, inject_pod, without_namespace
from injector.injection.result import RequestFacts, Skipped
from injector.injection.tools.explain import Decision, Step, explain_pod
from injector.injection.tools.podchanges import ABSENT, Change, changes
from injector.istio.revision import Revision
from injector.kube.selectors import is_dns_label
from injector.revisions.directory import EMBEDDED, read_directory, read_folder
from injector.revisions.source import build

__all__ = [
    "ABSENT",
    "Change",
    "Decision",
    "Injection",
    "Revision",
    "Step",
    "diff",
    "explain",
    "inject",
    "load_revision",
    "load_revisions",
]

Guard = Literal["enforce", "warn", "off"]


@dataclass(frozen=True, slots=True)
class Injection:
    """The result of ``inject``.

    Attributes:
        pod: the pod with its sidecar; a copy of the given pod if it was skipped.
        patch: the JSON patch (RFC 6902) from the given pod to ``pod``; empty if the pod was skipped.
        templates: the names of the templates that were rendered.
        warnings: messages for the creator of the pod.
        reason: why the pod was skipped, as in the metric ``sidecar_injection_skip_total``; empty if it was injected.
        detail: the same as a sentence.
    """

    pod: dict[str, Any]
    patch: list[dict[str, Any]]
    templates: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    reason: str = ""
    detail: str = ""

    @property
    def injected(self) -> bool:
        """Whether the pod was injected."""
        return not self.reason


def load_revision(path: str | os.PathLike[str]) -> Revision:
    """Read and compile a revision from its folder, which contains the keys of Istio's ConfigMaps as files.

    Raises:
        DataError: a file is missing or invalid, or a template does not parse.
    """
    return build(read_folder(_path(path)))


def _path(path: Any) -> Path:
    if not isinstance(path, str | os.PathLike) or not os.fspath(path):
        raise ConfigError(f"{path!r:.80} is not a path", where="path", hint="give the name of a folder")
    return Path(path)


def load_revisions(path: str | os.PathLike[str] | None = None, *, embedded: bool = False) -> dict[str, Revision]:
    """Return all revisions of a directory by name, or with ``embedded`` the two examples of the package, ``stable`` and ``canary``.

    Raises:
        DataError: the directory cannot be read, one of its revisions is invalid, or not one of the arguments is given.
    """
    if (path is None) != embedded:
        hint = "give the folder of your revisions, or embedded=True for the two examples"
        raise ConfigError("neither or both of its arguments are given", where="load_revisions", hint=hint)
    state = read_directory(EMBEDDED if path is None else _path(path))
    for error in state.failures.values():
        raise error
    return {raw.name: build(raw) for raw in state.revisions}


def inject(
    revision: Revision,
    pod: dict[str, Any],
    *,
    namespace: str = "default",
    proxy_env: Mapping[str, str] | None = None,
    guard: Guard = "enforce",
) -> Injection:
    """Inject a pod as the webhook of ``revision`` does.

    Args:
        revision: the revision to inject with.
        pod: a Pod as JSON data.
        namespace: where the pod is created, if its metadata does not say so.
        proxy_env: variables to add to the proxy, such as ``ISTIO_META_CLUSTER_ID``; Istio passes them in the webhook's URL.
        guard: ``enforce`` refuses a pod with a value that breaks out of the template, ``warn`` adds a warning, ``off`` does not check.

    Raises:
        DataError: the webhook would refuse the pod, or an argument is not valid. The message says where, why and how to fix it.
        ManifestError: a DataError for anything but a Pod. ``kind`` and ``apiVersion`` may be left out.
    """
    result = inject_pod(revision, pod, _facts(revision, pod, namespace, guard, proxy_env))
    if isinstance(result, Skipped):
        return Injection(copy.deepcopy(pod), [], (), result.warnings, result.reason, result.detail)
    return Injection(without_namespace(result.pod, pod), result.patch, result.templates, result.warnings)


def diff(
    old: Revision, new: Revision, pod: dict[str, Any], *, namespace: str = "default", guard: Guard = "enforce"
) -> tuple[Change, ...]:
    """Return the differences between the injections of a pod by two revisions, as ``injector diff`` shows them.

    If one revision injects the pod and the other skips or refuses it, that is the only change (``kind`` is ``decision``). The
    revision's own name is not a difference. Values of the variables of your own containers are hidden.
    """
    before, after = answers_to(pod, *((revision, _facts(revision, pod, namespace, guard)) for revision in (old, new)))
    return changes(before, after, pod, (old.written, new.written))


def explain(
    revision: Revision, pod: dict[str, Any], *, namespace: str = "default", guard: Guard = "enforce"
) -> Decision:
    """Return each step of the decision on a pod: the policy, the annotations, the templates, the guard and the result.

    Raises:
        ManifestError: the pod cannot be read. All other refusals are part of the decision.
    """
    return explain_pod(revision, pod, _facts(revision, pod, namespace, guard))


def _facts(
    revision: Revision,
    pod: dict[str, Any],
    namespace: str,
    guard: Guard,
    proxy_env: Mapping[str, str] | None = None,
) -> RequestFacts:
    """Return the facts of an injection. Raises DataError for arguments of another type, and ManifestError for anything but a Pod."""
    if not isinstance(revision, Revision):
        hint = "give what injector.load_revision returns"
        raise DataError(f"{_type_of(revision)} is not a Revision", where="revision", hint=hint)
    if not isinstance(namespace, str) or (namespace and not is_dns_label(namespace)):
        raise DataError(
            f"{namespace!r:.80} is not a valid namespace", where="namespace", hint="give its name, such as shop"
        )
    envs = {} if proxy_env is None else proxy_env
    if not isinstance(envs, Mapping) or not all(isinstance(text, str) for pair in envs.items() for text in pair):
        raise DataError("not a mapping of texts to texts", where="proxy_env", hint='give {"NAME": "value"}')
    metadata = _check_pod(pod).get("metadata") or {}
    return RequestFacts(namespace, envs, revision.namespaces.get(metadata.get("namespace") or namespace), guard)


def _check_pod(pod: Any) -> Mapping[str, Any]:
    """Return the pod, which needs neither ``kind`` nor ``apiVersion``. Raises ManifestError if it is something else."""
    hint = "give the JSON data of a Pod; of a workload, its pod template"
    if not isinstance(pod, dict):
        raise ManifestError(f"{_type_of(pod)} is not a dict", where="pod", hint=hint)
    for name, expected in (("kind", "Pod"), ("apiVersion", "v1")):
        if name in pod and pod[name] != expected:
            raise ManifestError(f"{pod[name]!r:.80} is not {expected}", where=f"pod: {name}", hint=hint)
    if not isinstance(pod.get("metadata") or {}, dict):
        raise ManifestError("not an object", where="pod: metadata", hint=hint)
    if not isinstance(pod.get("spec"), dict):
        raise ManifestError("not an object" if "spec" in pod else "missing", where="pod: spec", hint=hint)
    if not isinstance(pod["spec"].get("containers"), list):
        raise ManifestError("not a list", where="pod: spec.containers", hint=hint)
    return pod


def _type_of(value: object) -> str:
    return "None" if value is None else f"a value of type {type(value).__name__}"
