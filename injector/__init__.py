"""Istio sidecars for many control-plane revisions at once: as a webhook, on the command line and as a library.

The library::

    import injector

    revision = injector.load_revision("revisions/1-24")
    pod = injector.inject(revision, {"spec": {"containers": [{"name": "app", "image": "app:1.0"}]}}, namespace="shop").pod

- ``load_revision(path)``, ``load_revisions(path)``: read and compile revisions.
- ``inject(revision, pod)``: inject a pod. Returns an ``Injection``.
- ``diff(old, new, pod)``: the changes between two revisions. Returns ``Change`` objects; a side without a value is ``ABSENT``.
- ``explain(revision, pod)``: the steps of the decision. Returns a ``Decision`` of ``Step`` objects.

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

Map of the packages. A package may import those below it; ``pyproject.toml`` has the exact contracts::

    cli/         one module for each command: flags, one call, output. Beside them the flags and output that commands share
    library.py   the functions above
    webhook/     the aiohttp server: TLS, the handler, the admission queue, the shadow, the status page
    upgrade/     upgrades of the workloads of a cluster: the document, the survey, the plan, the steps, the runner
    fleet/       the view of a cluster, from files or the API server: revisions, webhooks, workloads, and which leads to which
    revisions/   where revisions and tags come from, how they are built, verified, followed and stored
    authoring/   tools for authors of templates: lint, trace, format; the server never imports it
    injection/   the pure core: one injection, and what explain, diff and uninject need
    cluster/     the only package that talks to the API server
    istio/       Istio's configuration, annotations, template functions, and the differences between its minors
    kube/        Kubernetes' types on plain dicts: YAML, strategic merge, JSON patch, AdmissionReviews
    gotemplate/  Go's text/template and sprig, compiled to Python
    golang/      the behaviour of Go's strconv, time and encoding/json

Every layer may use ``errors.py`` (the errors), ``hints.py`` (names in messages), ``memo.py`` (bounded caches),
``backoff.py`` (growing waits) and ``regularfiles.py`` (reads that end). The server also has ``settings.py`` and ``metrics.py``.

The server has three flows. Each line is the next function to read, and a line that is further to the right is called by the one before
it. ``cli.serve.server`` builds the server and connects the parts of the flows. The first two flows meet in one immutable object, the
Revision of ``istio/revision.py``.

One request, in ``webhook/``, then in ``injection/``::

    webhook.accepting:Acceptor                       accepts connections, and begins the newest first
    webhook.listener:Listener                        room for a connection, its TLS handshake, and its protocol:
    webhook.listener:Connection                      aiohttp's protocol with the limits and deadlines of this server
    webhook.listener:_check_and_answer               called by aiohttp for each request: no expectations, no unclear ends of bodies
    webhook.server:webhook_requests                  the path /inject leads to the handler
    webhook.handler:InjectHandler.handle             the whole request: read, answer, count, trace
        webhook.reading:Reader.read                  the body, within the limits of size, memory and time
        webhook.handler:InjectHandler._begin         from the body to an answer, or to a pending injection:
            kube.admission:decode                    the AdmissionReview
            webhook.cache:AnswerCache.get            the answer to an equal request, if there is one
            revisions.names:parse_path               /inject/NAME
            revisions.registry:Snapshot.resolve      the revision or tag NAME, and for a tag with weights the workload
        webhook.handler:InjectHandler._inject        the injection in its turn, in a worker thread:
            webhook.queue:AdmissionQueue.run         waits; fair between tenants; rejects early; calls in a worker thread:
        webhook.handler:PendingInjection.run
            injection.pipeline:inject_pod
                injection.pipeline:inject_admitted   the table of contents of one injection; what follows are its steps
                    injection.policy:injection_required      the rules that decide whether the pod is injected
                    injection.pipeline:run_injection         the selected templates, and the post-processing
                        injection.pipeline:render_guarded
                            injection.data:template_data         what the templates see
                            injection.render:OverlayTemplates    the templates of the pod: render, read, merge
                                istio.template:Template.render   one compiled template; what is below it is Go's, in gotemplate/
                                kube.overlay:read_overlay        the rendered YAML; of this module read the docstring and merge_over
                                kube.overlay:Overlay.merge_over  laid over the pod
                                    kube.strategicpatch:strategic_merge  an overlay with directives
                            injection.guard:TemplateGuard.check  no value of the pod breaks out of the template
                        injection.steps.postprocess:finish       overrides, probes, metrics, status, order
                    injection.pipeline:check_valid           the API server would accept the pod
                        kube.podvalidation:new_faults
                    kube.jsonpatch:create_patch
        webhook.handler:InjectHandler._finish        the response to a result or to an error
            webhook.handler:InjectHandler._answer_result  caches the response if an equal request gets it too
                kube.admission:encode_review

One change of a ConfigMap, in ``revisions/``. If a step fails, the last good revision stays in use::

    cluster.listwatch:ListWatch.run                  lists and watches one resource, and reports each change
    revisions.clustersource:ClusterSource.follow     the watches; remembers the objects that they report, and calls:
    revisions.following:Reloader.on_change           a trigger, which the reloader's task takes:
    revisions.following:Reloader._reloads            one load after the other
        revisions.following:Reloader._prepare        waits until the source is quiet, then works in a thread
            revisions.reload:Loader.prepare          reads the source, and builds and verifies what has changed
                revisions.clustersource:ClusterSource.read
                    revisions.configmaps:raw_revisions
                revisions.source:build
                    istio.revision:build_revision    parses config, values and mesh, and compiles the templates
                revisions.verify:verify              injects built-in pods
                revisions.verify:verify_recent       injects pods of recent requests
        revisions.following:Reloader._adopt          logs and counts
            revisions.reload:Loader.adopt
                revisions.registry:Registry.swap     the snapshot that the next request reads; the answer cache is cleared

One restart of an upgrade, in ``upgrade/``, on the client and the event loop of the server. ``upgrade.step`` begins with a table::

    upgrade.controller:Controller.follow             watches the Upgrades
        cluster.lease:Lease.lead                     runs them in one replica at a time:
    upgrade.controller:Controller._run_all
        upgrade.controller:Controller._run_one       runs one that has something to do
    upgrade.run:Runner.run                           starts the upgrade, or continues it, with the watches of upgrade.observe
        upgrade.run:Run.until_end                    a step every two seconds, until the upgrade ends or is paused:
            upgrade.run:Run._try_step                if another runner has written the state, nothing is done
                upgrade.run:Run._step                observe, decide, save, act
                    upgrade.store:Store.load         the document, and the state in the status of the resource
                    upgrade.tag:read_tag
                    upgrade.run:Run._observe
                        upgrade.survey:Surveyor.survey
                            upgrade.survey:read_fleet  when a wave begins, and before the end: revisions, tag and workloads, by fleet/
                            upgrade.plan:make_plan     the wave of each workload, and how its pods would change
                        upgrade.preflight:preflight  before a wave
                        upgrade.observe:Observer.observe  workloads and pods as the watches show them: whether a rollout is complete
                        upgrade.gates:evaluate       while a wave soaks
                    upgrade.step:step                the decision: a pure function of document, state and observation
                        upgrade.step:_plan_restarts  the restarts that are overdue, and the faults of those under way
                            upgrade.step:_is_under_way  a restart is complete when all pods are available, and have the right sidecar
                            upgrade.step:_choose     within the limits
                        upgrade.step:_fail           what onFailure says
                    upgrade.store:Store.save         the state, before anything is done
                    upgrade.run:Run._act
                        upgrade.tag:write_tag        before the first restart of a wave
                        upgrade.run:Run._restart     the annotation that restarts one workload
                            cluster.client:KubeClient.merge
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
        Decision,
        Injection,
        Revision,
        Step,
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
    "Decision",
    "Injection",
    "InjectorError",
    "InvalidPodError",
    "ManifestError",
    "OverlayError",
    "Revision",
    "Step",
    "TemplateRenderError",
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
