"""Istio sidecars for many control-plane revisions at once: as a webhook, on the command line and as a library.

The library::

    import injector

    revision = injector.load_revision("revisions/1-24")
    pod = injector.inject(revision, {"spec": {"containers": [{"name": "app", "image": "app:1.0"}]}}, namespace="shop").pod

- ``load_revision(path)``, ``load_revisions(path)``: read and compile revisions.
- ``inject(revision, pod)``: inject a pod. Returns an ``Injection``.
- ``diff(old, new, pod)``: the changes between two revisions. Returns ``Change`` objects; a side without a value is ``ABSENT``.
- ``explain(revision, pod)``: the steps of the decision. Returns a ``Trace`` of ``Step`` objects.

All functions raise a subclass of ``InjectorError`` for input that cannot be used::

    InjectorError
    └── DataError                    where, what and how to fix it
        ├── ManifestError            a pod that cannot be read
        ├── ConfigError              a revision with an invalid config, values, mesh or revision.yaml
        ├── TemplateRenderError      a template that does not parse or run
        ├── OverlayError             rendered text that does not merge into the pod
        ├── AnnotationError          an annotation with a value that Istio refuses
        ├── BreakOutError            a value of the pod that breaks out of the template
        └── InvalidPodError          an injected pod that the API server would refuse

Map of the packages. A package may import those below it; ``pyproject.toml`` has the exact contracts. Two flows meet in one immutable
object, the Revision of ``istio/revision.py``:

- Request: ``webhook/handler.py`` decodes the review, resolves the path to a revision, and answers with the patch of
  ``injection/pipeline.py``: policy, render, merge, overrides, post-processing, JSON patch.
- Configuration: ``revisions/reload.py`` reads a source, builds and verifies revisions, and swaps the snapshot that requests use. If a
  step fails, the last good revision stays in use.

::

    cli/         one module for each command, and the flags and output that they share
    upgrade/     upgrades of the workloads of a cluster: the document, the plan, the steps, the runner
    webhook/     the aiohttp server: TLS, the handler, the admission queue, the shadow, the status page
    library.py   the functions above
    revisions/   where revisions and tags come from, how they are built, verified, followed and stored
    authoring/   tools for authors of templates: lint, trace, format; the server never imports it
    injection/   the pure core: one injection, and what explain, diff and uninject need
    cluster/     the only package that talks to the API server
    istio/       Istio's configuration, annotations, template functions, and the differences between its minors
    kube/        Kubernetes' types on plain dicts: YAML, strategic merge, JSON patch, AdmissionReviews
    gotemplate/  Go's text/template and sprig, compiled to Python
    golang/      the behaviour of Go's strconv, time and encoding/json

Every layer may use ``errors.py`` (the errors) and ``memo.py`` (bounded caches). The server also has ``settings.py`` and ``metrics.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from injector.errors import (
        AnnotationError,
        BreakOutError,
        ConfigError,
        DataError,
        InjectorError,
        InvalidPodError,
        ManifestError,
        OverlayError,
        TemplateRenderError,
    )
    from injector.library import (
        ABSENT,
        Change,
        Injection,
        Revision,
        Step,
        Trace,
        diff,
        explain,
        inject,
        load_revision,
        load_revisions,
    )

__all__ = [
    "ABSENT",
    "AnnotationError",
    "BreakOutError",
    "Change",
    "ConfigError",
    "DataError",
    "Injection",
    "InjectorError",
    "InvalidPodError",
    "ManifestError",
    "OverlayError",
    "Revision",
    "Step",
    "TemplateRenderError",
    "Trace",
    "diff",
    "explain",
    "inject",
    "load_revision",
    "load_revisions",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is used: the engine takes longer to load than ``injector --help`` may take."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from injector import errors, library  # noqa: PLC0415 -- see above

    return getattr(errors if name.endswith("Error") else library, name)


def __dir__() -> list[str]:
    return sorted(__all__)
