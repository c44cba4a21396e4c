"""The input of one injection beside the pod, and its result."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from injector.errors import DataError
from injector.golang.json import dump_json, load_json

if TYPE_CHECKING:
    from collections.abc import Mapping

ENFORCE: Final = "enforce"
WARN: Final = "warn"
OFF: Final = "off"
GUARDS: Final = (ENFORCE, WARN, OFF)
"""The modes of the guard for values that break out of the template: refuse the pod, inject it with a warning, or do not check."""


@dataclass(frozen=True, slots=True)
class RequestFacts:
    """The facts of a request that an injection needs in addition to the pod.

    ``namespace`` is where the pod is created, and ``namespace_meta`` its metadata, if known. ``proxy_envs`` are the pairs of the URL
    (``ISTIO_META_CLUSTER_ID`` and others), ``guard`` is one of ``GUARDS``. ``deny_invalid`` refuses a pod that the injection makes invalid
    for the API server.
    """

    namespace: str = ""
    proxy_envs: Mapping[str, str] = field(default_factory=dict)
    namespace_meta: Mapping[str, Any] | None = None
    guard: str = ENFORCE
    deny_invalid: bool = True

    def __post_init__(self) -> None:
        """Refuse another guard, which would act as ``warn``. Raises DataError."""
        if self.guard not in GUARDS:
            raise DataError(
                f"{self.guard!r:.80} is not a guard", where="guard", hint=f"give one of {', '.join(GUARDS)}"
            )


@dataclass(frozen=True, slots=True)
class Injected:
    """A pod with its sidecar, and the JSON patch (RFC 6902) from the original pod to it.

    ``pod`` and ``patch`` return a new copy each time. A webhook needs only the patch, and a comparison only reads the pod: nothing may
    change ``shared_pod``, which shares objects with the revision. ``templates`` are the names of those that were rendered. ``warnings`` are
    for the creator of the pod; the findings of a guard that only warns are among them.
    """

    shared_pod: dict[str, Any]
    patch_json: bytes
    templates: tuple[str, ...]
    warnings: tuple[str, ...] = ()
    findings: tuple[str, ...] = ()

    @property
    def pod(self) -> dict[str, Any]:
        """A new copy of the injected pod, as Go would print it. Raises DataError if the pod is nested too deeply."""
        pod: dict[str, Any] = load_json(dump_json(self.shared_pod))
        return pod

    @property
    def patch(self) -> list[dict[str, Any]]:
        """A new copy of the operations of the patch."""
        patch: list[dict[str, Any]] = load_json(self.patch_json)
        return patch


@dataclass(frozen=True, slots=True)
class Skipped:
    """A pod that is left alone: ``reason`` is a stable token for metrics and programs, ``detail`` a sentence for people."""

    reason: str
    detail: str
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Unanswered:
    """No answer of a running webhook to a pod: ``detail`` says why."""

    detail: str


Answer: TypeAlias = "Injected | Skipped | Unanswered | DataError"
"""The answer of a webhook to a pod. An error means that the pod is refused."""
